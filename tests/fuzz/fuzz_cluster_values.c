/*
 * fuzz_cluster_values.c - libFuzzer: what somebody has put into etcd under a cluster's keys, and the keys; the files
 * NODE and `switches` of a folder. What is taken is within its bounds, and is the same when it is written and read again.
 *
 * The first byte chooses which.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cluster_reseed.h"
#include "engine.h"
#include "server/switches.c" /* what it reads is its own */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char again[CL_REPORT_MAX];

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

/* ---- reports of a reseed --------------------------------------------------------------------- */

static void check_report_epoch(const struct cl_report_epoch *epoch)
{
        struct eng_epoch_info info;

        must(epoch->past_count <= REM_PAST_MAX && epoch->epoch_len <= CL_EPOCH_MAX);
        must(epoch->epoch_len == 0 || eng_epoch_read(epoch->epoch, epoch->epoch_len, &info) == 0);
}

static void check_report(const char *text, size_t len)
{
        static struct cl_report report, same;
        size_t n;
        unsigned i;

        if (cl_report_read(text, len, &report) != 0)
                return;
        must(report.node >= 1 && report.node <= CL_NODE_LAST && cl_name_is_sound(report.self.name) && report.boot <= ENG_BOOT_MAX && report.pools <= CL_POOLS_MAX);
        must(report.held_count <= CL_DRIVES_MAX && report.epoch_count <= CL_POOLS_MAX && (report.held_count > 0 || report.epoch_count == 0));
        for (i = 0; i < report.held_count; i++)
                must(report.held[i].slot < ENG_DRIVES_MAX && eng_term_is_sound(&report.held[i].term) && memchr(report.held[i].fault, '\0', sizeof(report.held[i].fault)) != NULL);
        for (i = 0; i < report.epoch_count; i++)
                check_report_epoch(&report.epochs[i]);
        len = cl_report_write(&report, again);
        if (len == 0) /* texts in escapes are longer than they were */
                return;
        must(cl_report_read(again, len, &same) == 0);
        n = strlen(report.switches); /* it is a text, of which what comes behind a 0 is no part */
        memset(report.switches + n, 0, sizeof(report.switches) - n);
        report.pools = report.pools > 1 ? report.pools : 0; /* as where nothing is said */
        if (report.held_count == 0)
                memset(report.epochs, 0, sizeof(report.epochs)); /* of no store */
        if (same.held_count == 0)
                memset(same.epochs, 0, sizeof(same.epochs));
        must(memcmp(&report, &same, sizeof(report)) == 0);
}

static void check_names(const char *text, size_t len)
{
        static struct cl_names names, same;
        unsigned i;

        if (cl_names_read(text, len, &names) != 0)
                return;
        must(names.count <= CL_NAMES_MAX);
        for (i = 0; i < names.count; i++)
                must(cl_names_number(&names, names.at[i].name) == names.at[i].number && cl_names_name(&names, names.at[i].number) == names.at[i].name);
        len = cl_names_write(&names, again);
        must(len > 0 && cl_names_read(again, len, &same) == 0 && memcmp(&names, &same, sizeof(names)) == 0);
}

/* ---- files of a folder ----------------------------------------------------------------------- */

static void check_switches(const char *bytes, size_t len)
{
        char text[TEXT_SIZE];
        struct kept kept = {0}, same = {0};

        len = len < sizeof(text) - 1 ? len : sizeof(text) - 1;
        memcpy(text, bytes, len);
        text[len] = '\0';
        if (!switches_parse(text, &kept))
                return;
        switches_print(&kept, text);
        must(switches_parse(text, &same) && same.generation == kept.generation && memcmp(same.on, kept.on, sizeof(kept.on)) == 0);
}

static char folder[] = "/dev/shm/millrace-fuzz.XXXXXX";
static int folder_fd = -1;

static void folder_remove(void)
{
        unlinkat(folder_fd, ENG_FOLDER_NODE_FILE, 0);
        rmdir(folder);
}

static void check_node_file(const char *bytes, size_t len)
{
        static struct cl_node_file file, same;
        int fd;

        if (folder_fd < 0) {
                must(mkdtemp(folder) != NULL);
                folder_fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
                must(folder_fd >= 0 && atexit(folder_remove) == 0);
        }
        fd = openat(folder_fd, ENG_FOLDER_NODE_FILE, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
        must(fd >= 0 && write(fd, bytes, len) == (ssize_t)len && close(fd) == 0);
        if (cl_node_file_read(folder, &file) != 0)
                return;
        must(cl_name_is_sound(file.cluster) && file.node <= CL_NODE_LAST && (file.name[0] == '\0' || cl_name_is_sound(file.name)));
        must(file.pools <= CL_POOL_LAST && !(file.made && file.node == 0));
        must(cl_node_file_write(folder_fd, &file) == 0 && cl_node_file_read(folder, &same) == 0);
        len = strlen(file.switches);
        memset(file.switches + len, 0, sizeof(file.switches) - len);
        file.pools = file.pools > 1 ? file.pools : 0;
        must(memcmp(&file, &same, sizeof(file)) == 0);
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
        switch (data[0] % 10) {
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
        case 5:
                if (cl_owner_read(exact, size - 1, &owner) == 0)
                        must(owner.node >= 1 && owner.node <= CL_NODE_LAST);
                break;
        case 6:
                check_report(exact, size - 1);
                break;
        case 7:
                check_names(exact, size - 1);
                break;
        case 8:
                check_switches(exact, size - 1);
                break;
        default:
                check_node_file(exact, size - 1);
        }
        free(exact);
        return 0;
}
