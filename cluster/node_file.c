/*
 * node_file.c - the file NODE on each folder of a node.
 */
#include "cluster_node.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "s3_checksum.h"
#include "s3_json.h"

#define NODE_FILE_MAX 4096u

static bool file_number(const json_t *object, const char *name, uint64_t *out)
{
        const json_t *number = json_object_get(object, name);

        *out = json_is_integer(number) ? (uint64_t)json_integer_value(number) : 0;
        return json_is_integer(number) && json_integer_value(number) >= 0;
}

static bool file_hex64(const json_t *object, const char *name, uint64_t *out)
{
        const char *text = json_string_value(json_object_get(object, name));

        return text != NULL && cl_hex64_read(text, out);
}

/* In hex: it has lines. */
static bool file_take_switches(const json_t *object, struct cl_node_file *out)
{
        const char *text = json_string_value(json_object_get(object, "switches"));
        size_t len = text == NULL ? 0 : strlen(text);

        return len % 2 == 0 && len / 2 < sizeof(out->switches) && (len == 0 || cl_hex_read(text, (uint8_t *)out->switches, len / 2));
}

static bool file_take(const json_t *object, struct cl_node_file *out)
{
        const char *cluster = json_string_value(json_object_get(object, "cluster"));
        const char *drive = json_string_value(json_object_get(object, "drive"));
        const char *name = json_string_value(json_object_get(object, "name"));
        uint64_t node, revision, pools = 0;

        if (cluster == NULL || drive == NULL || !cl_name_is_sound(cluster) || !cl_hex_read(drive, out->drive, CL_ID) || !file_number(object, "node", &node) ||
            node > CL_NODE_LAST || !file_hex64(object, "etcd", &out->seen.cluster_id) ||
            !file_number(object, "generation", &out->seen.generation.number) || !file_hex64(object, "random", &out->seen.generation.random) ||
            !file_number(object, "revision", &revision))
                return false;
        snprintf(out->cluster, sizeof(out->cluster), "%s", cluster);
        if (json_object_get(object, "boot") != NULL && !file_number(object, "boot", &out->boot))
                return false;
        if (json_object_get(object, "fence") != NULL && (!file_number(object, "fence", &out->fence.number) || !file_hex64(object, "fence_random", &out->fence.random)))
                return false;
        if (json_object_get(object, "pools") != NULL && (!file_number(object, "pools", &pools) || pools > CL_POOL_LAST))
                return false;
        out->pools = (unsigned)pools;
        if (!file_take_switches(object, out))
                return false;
        out->made = json_is_true(json_object_get(object, "made"));
        if (node == 0 && out->made)
                return false;
        if (name != NULL && *name != '\0' && !cl_name_is_sound(name))
                return false;
        snprintf(out->name, sizeof(out->name), "%s", name != NULL ? name : "");
        out->node = (uint16_t)node;
        out->seen.revision = (int64_t)revision;
        return true;
}

int cl_node_file_read(const char *folder, struct cl_node_file *out)
{
        char path[ENG_PATH_MAX + sizeof(ENG_FOLDER_NODE_FILE) + 1], text[NODE_FILE_MAX];
        json_t *object;
        ssize_t len;
        int fd, rv;

        memset(out, 0, sizeof(*out));
        snprintf(path, sizeof(path), "%s/%s", folder, ENG_FOLDER_NODE_FILE);
        fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
        if (fd < 0)
                return errno == ENOTDIR ? -ENOENT : -errno;
        len = pread(fd, text, sizeof(text), 0);
        rv = len < 0 ? -errno : 0;
        close(fd);
        if (rv != 0)
                return rv;
        object = s3_json_load((struct s3_str){text, (size_t)len}, JSON_REJECT_DUPLICATES, NULL);
        if (object == NULL)
                return errno == ENOMEM ? -ENOMEM : -EBADMSG;
        rv = file_take(object, out) ? 0 : -EBADMSG;
        json_decref(object);
        return rv;
}

static size_t node_file_print(const struct cl_node_file *file, char *text, size_t size)
{
        char drive[2 * CL_ID + 1], switches[2 * CL_SWITCHES_MAX], pools[24] = "";

        if (file->pools > 1)
                snprintf(pools, sizeof(pools), ", \"pools\": %u", file->pools);
        s3_hex_encode(file->drive, CL_ID, drive);
        s3_hex_encode(file->switches, strnlen(file->switches, sizeof(file->switches) - 1), switches);
        return (size_t)snprintf(text, size,
                                "{\"cluster\": \"%s\", \"node\": %u, \"name\": \"%s\", \"drive\": \"%s\", \"made\": %s, \"etcd\": \"%016llx\", \"generation\": %llu, \"random\": \"%016llx\", "
                                "\"revision\": %lld, \"boot\": %llu, \"fence\": %llu, \"fence_random\": \"%016llx\", \"switches\": \"%s\"%s}\n",
                                file->cluster, (unsigned)file->node, file->name, drive, file->made ? "true" : "false", (unsigned long long)file->seen.cluster_id,
                                (unsigned long long)file->seen.generation.number, (unsigned long long)file->seen.generation.random, (long long)file->seen.revision,
                                (unsigned long long)file->boot, (unsigned long long)file->fence.number, (unsigned long long)file->fence.random, switches, pools);
}

static int file_fill(int fd, const char *text, size_t len)
{
        ssize_t n = pwrite(fd, text, len, 0);

        if (n != (ssize_t)len) /* less than all: there was room for so much */
                return n < 0 ? -errno : -ENOSPC;
        return fsync(fd) != 0 ? -errno : 0;
}

int cl_node_file_write(int dir, const struct cl_node_file *file)
{
        char text[NODE_FILE_MAX];
        size_t len = node_file_print(file, text, sizeof(text));
        int fd, rv;

        fd = openat(dir, ENG_FOLDER_NODE_FILE_NEW, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (fd < 0)
                return -errno;
        rv = file_fill(fd, text, len);
        if (close(fd) != 0 && rv == 0) /* where a file system tells then that there was no room */
                rv = -errno;
        if (rv == 0 && renameat(dir, ENG_FOLDER_NODE_FILE_NEW, dir, ENG_FOLDER_NODE_FILE) != 0)
                rv = -errno;
        if (rv != 0) { /* what was there before stays, and half a file holds no space on a full disk */
                unlinkat(dir, ENG_FOLDER_NODE_FILE_NEW, 0);
                return rv;
        }
        return fsync(dir) != 0 ? -errno : 0;
}
