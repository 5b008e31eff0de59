/*
 * path.h - the command line's paths: s3://bucket/key, and where keys lie on the local file system.
 * Pure; any thread.
 */
#ifndef CLI_PATH_H
#define CLI_PATH_H

#include <stdbool.h>
#include <stddef.h>

#define CLI_KEY_MAX 1024

struct cli_path {
        char bucket[64];           /* "" for s3:// alone */
        char key[CLI_KEY_MAX + 1]; /* everything behind the bucket's slash, as it is; "" for none */
};

bool cli_path_is_s3(const char *text);

/*
 * -EINVAL: not s3://, or no possible bucket name (3 to 63 of a-z 0-9 . -); -ENAMETOOLONG: the key.
 */
int cli_path_parse(const char *text, struct cli_path *out);

/*
 * Is this the key `prefix`, or one below it as below a folder? "" and what ends in a slash are
 * folders themselves: "a" has "a" and "a/b", but not "ab".
 */
bool cli_key_is_below(const char *key, const char *prefix);

/* The last component of a path or key: "c" for "a/b/c", "" for "a/b/". */
const char *cli_base_name(const char *path);

/*
 * The key of a local file: prefix + relative, where prefix is what the user gave. With `under`,
 * prefix names a folder and gets a slash unless it is empty or has one. -ENAMETOOLONG.
 */
int cli_key_join(char *out, size_t size, const char *prefix, bool under, const char *relative);

/*
 * The local path of a key below a folder. Keys come from outside: one that would leave the folder
 * or cannot be a file name (a component that is empty, "." or "..", a leading slash) is -EINVAL. A
 * trailing slash (a folder marker) is kept. -ENAMETOOLONG.
 */
int cli_local_join(char *out, size_t size, const char *folder, const char *relative);

#endif
