/*
 * path.c - reads s3:// paths and maps keys to local paths and back. Used by every command that
 * names objects; pure functions. What keeps a hostile listing from writing outside the folder of
 * `get -r` is cli_local_join().
 */
#include "path.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

bool cli_path_is_s3(const char *text)
{
        return strncmp(text, "s3://", 5) == 0;
}

/*
 * What every S3 store takes; finer rules (no "..", not like an address) are the server's to
 * explain.
 */
static bool bucket_name_possible(const char *name, size_t len)
{
        return len >= 3 && len <= 63 && strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789.-") >= len;
}

int cli_path_parse(const char *text, struct cli_path *out)
{
        const char *bucket = text + 5, *key;
        size_t len;

        if (!cli_path_is_s3(text))
                return -EINVAL;
        len = strcspn(bucket, "/");
        if (len == 0 && bucket[len] == '\0') {
                memset(out, 0, sizeof(*out));
                return 0;
        }
        if (!bucket_name_possible(bucket, len))
                return -EINVAL;
        key = bucket[len] == '/' ? bucket + len + 1 : bucket + len;
        if (strlen(key) > CLI_KEY_MAX)
                return -ENAMETOOLONG;
        memcpy(out->bucket, bucket, len);
        out->bucket[len] = '\0';
        memcpy(out->key, key, strlen(key) + 1);
        return 0;
}

bool cli_key_is_below(const char *key, const char *prefix)
{
        size_t len = strlen(prefix);

        if (strncmp(key, prefix, len) != 0)
                return false;
        return len == 0 || prefix[len - 1] == '/' || key[len] == '\0' || key[len] == '/';
}

const char *cli_base_name(const char *path)
{
        const char *slash = strrchr(path, '/');

        return slash != NULL ? slash + 1 : path;
}

int cli_key_join(char *out, size_t size, const char *prefix, bool under, const char *relative)
{
        size_t len = strlen(prefix);
        const char *slash = under && len > 0 && prefix[len - 1] != '/' ? "/" : "";
        int n = snprintf(out, size, "%s%s%s", prefix, slash, relative);

        return n < 0 || (size_t)n >= size || n > CLI_KEY_MAX ? -ENAMETOOLONG : 0;
}

static bool component_is_name(const char *component, size_t len)
{
        return len > 0 && !(len == 1 && component[0] == '.') && !(len == 2 && memcmp(component, "..", 2) == 0);
}

int cli_local_join(char *out, size_t size, const char *folder, const char *relative)
{
        const char *at = relative;
        size_t len = strlen(folder);
        int n;

        while (*at != '\0') {
                size_t component = strcspn(at, "/");

                if (!component_is_name(at, component))
                        return -EINVAL;
                at += component;
                at += *at == '/';
        }
        if (at == relative)
                return -EINVAL;
        n = snprintf(out, size, "%s%s%s", folder, len > 0 && folder[len - 1] == '/' ? "" : "/", relative);
        return n < 0 || (size_t)n >= size ? -ENAMETOOLONG : 0;
}
