/*
 * key_file.h - the key that seals what must not stand in plain text on the drives.
 */
#ifndef MILLRACE_SERVER_KEY_FILE_H
#define MILLRACE_SERVER_KEY_FILE_H

#include "server/settings.h"

#include <limits.h>

#define SRV_KEY_ENV     "MILLRACE_KEY" /* 64 hex digits, in place of a file */
#define SRV_KEY_FOLDER  "/etc/millrace"
#define SRV_KEY_DEFAULT SRV_KEY_FOLDER "/key"
#define SRV_FORMAT_FILE "FORMAT" /* marks a folder as a drive; see engine/format.h */
#define SRV_KEY_LEN     32u
#define SRV_KEYS_MAX    16u
#define SRV_NONCE_LEN   12u
#define SRV_TAG_LEN     16u

struct srv_key {
        uint8_t bytes[SRV_KEY_LEN];
        char id[17]; /* hex, of its SHA-256: says which key sealed something */
};

/* The first one seals; the others, former ones, still open. */
struct srv_keys {
        unsigned count;
        struct srv_key list[SRV_KEYS_MAX];
        char where[PATH_MAX]; /* the file, or the variable */
        bool from_environment;
};

/*
 * From the environment, else from key_file, else from the default file: /etc/millrace/key for root,
 * where it exists, and where it can be made, else millrace/key in the user's configuration
 * directory. -ENOENT: there is none (out->where is set); -EPERM: others can read it; -EINVAL. Main
 * thread, as is all here.
 */
int srv_keys_load(const struct srv_settings *settings, struct srv_keys *out, struct srv_error *error);
/*
 * Puts a new key in front of those in the file, read again into *keys (of srv_keys_load(), which
 * may have found none), and replaces it in one step. Where none was found and another process has
 * made one since, that one is taken.
 */
int srv_keys_add(const struct srv_settings *settings, struct srv_keys *keys, struct srv_error *error);
const struct srv_key *srv_keys_find(const struct srv_keys *keys, const char *id);

/* AES-256-GCM. out: len + SRV_TAG_LEN bytes. -EIO: the library failed. */
int srv_seal(const struct srv_key *key, const uint8_t nonce[SRV_NONCE_LEN], const char *about, const void *data,
             size_t len, uint8_t *out);
/*
 * len counts the tag; out: len - SRV_TAG_LEN bytes. -EBADMSG: not what was sealed with this key
 * about this.
 */
int srv_unseal(const struct srv_key *key, const uint8_t nonce[SRV_NONCE_LEN], const char *about, const uint8_t *data,
               size_t len, void *out);

/* ---- secret_file.c ---- */

/* Opens a regular file of at most 4 KiB that only its owner may read. -ENOENT, -EPERM, -EINVAL. */
int srv_secret_open(const char *path, FILE **out, struct srv_error *error);
/* Replaces the file in one step, mode 0600, on stable storage when it returns. */
int srv_secret_write(const char *path, const char *text, struct srv_error *error);

#endif
