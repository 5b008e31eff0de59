/*
 * fuzz_cluster_values.c - libFuzzer: what somebody has put into etcd under a cluster's keys, and the keys. What is
 * taken is within its bounds, and is the same when it is written and read again.
 *
 * The first byte chooses which.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "cluster_keys.h"
#include "engine.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char again[CL_JSON_MAX];

static void must(bool holds)
{
        if (!holds)
                abort();
}

static void check_key(const char *text, size_t len)
{
        char key[CL_KEY_NAME_MAX];
        enum cl_key_kind kind;
        unsigned number;

        if (!cl_key_parse("c1", text, len, &kind, &number))
                return;
        must(cl_key_name("c1", kind, number, key) == len && memcmp(key, text, len) == 0);
}

static void check_node(const char *text, size_t len)
{
        static struct cl_node node, same;

        if (cl_node_read(text, len, &node) != 0)
                return;
        must(cl_name_is_sound(node.name) && node.drive_count <= CL_DRIVES_MAX && node.boot >= 1 && node.boot <= ENG_BOOT_MAX);
        len = cl_node_write(&node, again);
        if (len == 0) /* an address in escapes is longer than it was */
                return;
        must(cl_node_read(again, len, &same) == 0 && memcmp(&node, &same, sizeof(node)) == 0);
}

static void check_config(const char *text, size_t len)
{
        static struct cl_config config, same;
        struct eng_epoch_info epoch;

        if (cl_config_read(text, len, &config) != 0)
                return;
        must(config.epoch_len <= CL_EPOCH_MAX && eng_epoch_read(config.epoch, config.epoch_len, &epoch) == 0 && epoch.slots <= ENG_DRIVES_MAX);
        len = cl_config_write(&config, again);
        must(len > 0 && cl_config_read(again, len, &same) == 0 && memcmp(config.epoch, same.epoch, config.epoch_len) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        struct cl_format format;
        struct cl_owner owner;
        struct cl_boot boot;
        char *exact;

        if (size == 0)
                return 0;
        exact = malloc(size);
        if (exact == NULL)
                abort();
        memcpy(exact, data + 1, size - 1);
        switch (data[0] % 6) {
        case 0:
                check_key(exact, size - 1);
                break;
        case 1:
                if (cl_format_read(exact, size - 1, &format) == 0)
                        must(format.generation >= 1);
                break;
        case 2:
                check_node(exact, size - 1);
                break;
        case 3:
                if (cl_boot_read(exact, size - 1, &boot) == 0)
                        must(boot.boot >= 1 && boot.boot <= ENG_BOOT_MAX);
                break;
        case 4:
                check_config(exact, size - 1);
                break;
        default:
                if (cl_owner_read(exact, size - 1, &owner) == 0)
                        must(owner.node >= 1 && owner.node <= CL_NODE_LAST);
        }
        free(exact);
        return 0;
}
