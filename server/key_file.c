/*
 * key_file.c - the key that seals what must not stand in plain text on the drives.
 *
 * Called by the main thread, at the start, on SIGHUP and by the commands of an operator; blocking.
 * The file must not lie on a drive: who takes a drive away would have both. It may hold several
 * keys, one a line: the first seals, the others are former ones.
 */
#include "server/key_file.h"

#include "server/ini_file.h"
#include "server/daemon_log.h"

#include "loop.h"
#include "s3.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define LOCK_TRIES    100u
#define LOCK_PAUSE_NS 50000000l

/* ---- where ----------------------------------------------------------------------------------- */

static void default_path(char out[PATH_MAX])
{
        const char *config = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");

        if (geteuid() == 0 || access(SRV_KEY_DEFAULT, F_OK) == 0 || access(SRV_KEY_FOLDER, W_OK) == 0)
                snprintf(out, PATH_MAX, SRV_KEY_DEFAULT);
        else if (config != NULL && *config == '/')
                snprintf(out, PATH_MAX, "%s/millrace/key", config);
        else if (home != NULL && *home == '/')
                snprintf(out, PATH_MAX, "%s/.config/millrace/key", home);
        else
                snprintf(out, PATH_MAX, SRV_KEY_DEFAULT);
}

/*
 * The nearest folder above it that is there: what is missing in between will be made in that one.
 * False: none can be seen.
 */
static bool folder_of(const char *path, char out[PATH_MAX])
{
        char copy[PATH_MAX], *at = copy;
        bool found;

        snprintf(copy, sizeof(copy), "%s", path);
        do {
                at = dirname(at);
                found = realpath(at, out) != NULL;
        } while (!found && errno == ENOENT && strcmp(at, "/") != 0 && strcmp(at, ".") != 0);
        return found;
}

/* The folder that holds it, or will, is a drive or lies below one. */
static int check_place(const struct srv_settings *settings, const char *path, struct srv_error *error)
{
        char folder[PATH_MAX], drive[PATH_MAX];
        unsigned i;
        size_t len;

        if (!folder_of(path, folder))
                return 0;
        for (i = 0; i < settings->drive.count; i++) {
                if (realpath(settings->drive.item[i], drive) == NULL)
                        continue;
                len = strlen(drive);
                if (strncmp(folder, drive, len) == 0 && (folder[len] == '/' || folder[len] == '\0'))
                        return srv_fail(error, -EINVAL, "key_file: %.200s lies on the drive %.200s: keep it elsewhere", path,
                                        drive);
        }
        return 0;
}

/* Folders that are not there yet, for this user alone. */
static void make_private_folders(const char *path)
{
        char copy[PATH_MAX], *at;

        snprintf(copy, sizeof(copy), "%s", path);
        for (at = strchr(copy + 1, '/'); at != NULL; at = strchr(at + 1, '/')) {
                *at = '\0';
                mkdir(copy, 0700); /* what can't be made shows when the file is written */
                *at = '/';
        }
}

/* ---- keys ------------------------------------------------------------------------------------ */

static bool set_key(struct srv_key *key, const uint8_t bytes[SRV_KEY_LEN])
{
        uint8_t hash[32];

        memcpy(key->bytes, bytes, SRV_KEY_LEN);
        if (EVP_Digest(bytes, SRV_KEY_LEN, hash, NULL, EVP_sha256(), NULL) != 1)
                return false;
        s3_hex_encode(hash, 8, key->id);
        return true;
}

static int add_key(struct srv_keys *keys, const char *text, const char *shown_as, struct srv_error *error)
{
        uint8_t bytes[SRV_KEY_LEN];

        if (keys->count == SRV_KEYS_MAX)
                return srv_fail(error, -EINVAL, "%s: more than %u keys", shown_as, SRV_KEYS_MAX);
        if (strlen(text) != 2 * SRV_KEY_LEN || s3_hex_decode(s3_str_of(text), bytes, sizeof(bytes)) != 0 ||
            !set_key(&keys->list[keys->count], bytes))
                return srv_fail(error, -EINVAL, "%s: is not a key of 64 hex digits", shown_as);
        keys->count++;
        explicit_bzero(bytes, sizeof(bytes));
        return 0;
}

static int take_key_line(void *arg, const char *name, const char *value, const char *shown_as, struct srv_error *error)
{
        return strcmp(name, "key") == 0 ? add_key(arg, value, shown_as, error) : -ENOENT;
}

int srv_keys_load(const struct srv_settings *settings, struct srv_keys *out, struct srv_error *error)
{
        const char *text = getenv(SRV_KEY_ENV);
        FILE *file;
        int rv;

        memset(out, 0, sizeof(*out));
        if (text != NULL && *text != '\0') {
                strcpy(out->where, SRV_KEY_ENV);
                out->from_environment = true;
                return add_key(out, text, SRV_KEY_ENV, error);
        }
        if (*settings->key_file != '\0')
                snprintf(out->where, sizeof(out->where), "%s", settings->key_file);
        else
                default_path(out->where);
        rv = check_place(settings, out->where, error);
        if (rv == 0)
                rv = srv_secret_open(out->where, &file, error);
        if (rv != 0)
                return rv;
        rv = srv_ini_read(file, out->where, take_key_line, out, error);
        fclose(file);
        if (rv == 0 && out->count == 0)
                rv = srv_fail(error, -EINVAL, "%.300s: has no key", out->where);
        return rv;
}

/* In front of those in *keys; the file is replaced. */
static int put_in_front(struct srv_keys *keys, struct srv_error *error)
{
        char text[SRV_KEYS_MAX * (2 * SRV_KEY_LEN + 16) + 256], hex[2 * SRV_KEY_LEN + 1];
        uint8_t bytes[SRV_KEY_LEN];
        size_t at;
        unsigned i;
        int rv;

        if (keys->count == SRV_KEYS_MAX)
                return srv_fail(error, -EINVAL, "%.300s: has %u keys: remove the last ones", keys->where, SRV_KEYS_MAX);
        lp_random(bytes, sizeof(bytes));
        memmove(&keys->list[1], &keys->list[0], keys->count * sizeof(keys->list[0]));
        if (!set_key(&keys->list[0], bytes))
                return srv_fail(error, -EIO, "%.300s: cannot make a key", keys->where);
        keys->count++;
        at = (size_t)snprintf(text, sizeof(text),
                              "# What millraced seals its secrets with: the first key; the others are former ones. Without it\n"
                              "# they cannot be opened. Back it up, apart from the drives.\n");
        for (i = 0; i < keys->count; i++) {
                s3_hex_encode(keys->list[i].bytes, SRV_KEY_LEN, hex);
                at += (size_t)snprintf(text + at, sizeof(text) - at, "key = %s\n", hex);
        }
        rv = srv_secret_write(keys->where, text, error);
        explicit_bzero(text, sizeof(text));
        explicit_bzero(hex, sizeof(hex));
        explicit_bzero(bytes, sizeof(bytes));
        return rv;
}

/*
 * Of its folder: nobody else changes it until the descriptor is closed. Whoever may read the folder
 * can hold it, so it is not waited for without end.
 */
static int lock_file(const char *path, struct srv_error *error)
{
        const struct timespec pause = {.tv_nsec = LOCK_PAUSE_NS};
        char copy[PATH_MAX];
        unsigned i;
        int fd;

        snprintf(copy, sizeof(copy), "%s", path);
        fd = open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (fd < 0)
                return srv_fail(error, -errno, "%.300s: cannot write it: %s", path, strerror(errno));
        for (i = 0; i < LOCK_TRIES; i++) {
                if (flock(fd, LOCK_EX | LOCK_NB) == 0)
                        return fd;
                nanosleep(&pause, NULL);
        }
        close(fd);
        return srv_fail(error, -EBUSY, "%.300s: another process is changing it", path);
}

/* Root has made it, and the daemon may be another user: the one whose the drives' files are. */
static void give_to_daemon(const struct srv_settings *settings, const char *path)
{
        char format[PATH_MAX];
        struct stat st;
        unsigned i;

        for (i = 0; geteuid() == 0 && i < settings->drive.count; i++) {
                snprintf(format, sizeof(format), "%s/" SRV_FORMAT_FILE, settings->drive.item[i]);
                if (lstat(format, &st) != 0)
                        continue;
                if (chown(path, st.st_uid, st.st_gid) != 0)
                        srv_log(SRV_LOG_WARNING, "%s: is root's, and not of the user whose the drives are: %s", path, strerror(errno));
                return;
        }
}

/*
 * Stores of one machine may share the file and start together, and each that found none would make
 * a key and seal with it, but one file remains: so it is looked at again behind the lock, and who
 * came second takes what is there.
 */
int srv_keys_add(const struct srv_settings *settings, struct srv_keys *keys, struct srv_error *error)
{
        bool had_some = keys->count > 0, fresh;
        int lock, rv;

        if (keys->from_environment)
                return srv_fail(error, -EINVAL, "the key comes from " SRV_KEY_ENV ": change it there");
        rv = check_place(settings, keys->where, error);
        if (rv != 0)
                return rv;
        make_private_folders(keys->where);
        lock = lock_file(keys->where, error);
        if (lock < 0)
                return lock;
        rv = srv_keys_load(settings, keys, error);
        fresh = rv == -ENOENT;
        if (fresh || (rv == 0 && had_some))
                rv = put_in_front(keys, error);
        if (rv == 0 && fresh)
                give_to_daemon(settings, keys->where);
        close(lock);
        return rv;
}

const struct srv_key *srv_keys_find(const struct srv_keys *keys, const char *id)
{
        unsigned i;

        for (i = 0; i < keys->count; i++)
                if (strcmp(keys->list[i].id, id) == 0)
                        return &keys->list[i];
        return NULL;
}

/* ---- sealing --------------------------------------------------------------------------------- */

int srv_seal(const struct srv_key *key, const uint8_t nonce[SRV_NONCE_LEN], const char *about, const void *data,
             size_t len, uint8_t *out)
{
        EVP_CIPHER_CTX *ctx = EVP_CIPHER_CTX_new();
        int n = 0, rest = 0;
        bool ok = ctx != NULL && EVP_EncryptInit_ex(ctx, EVP_aes_256_gcm(), NULL, key->bytes, nonce) == 1 &&
                  EVP_EncryptUpdate(ctx, NULL, &n, (const uint8_t *)about, (int)strlen(about)) == 1 &&
                  EVP_EncryptUpdate(ctx, out, &n, data, (int)len) == 1 && EVP_EncryptFinal_ex(ctx, out + n, &rest) == 1 &&
                  EVP_CIPHER_CTX_ctrl(ctx, EVP_CTRL_GCM_GET_TAG, SRV_TAG_LEN, out + len) == 1;

        EVP_CIPHER_CTX_free(ctx);
        return ok ? 0 : -EIO;
}

int srv_unseal(const struct srv_key *key, const uint8_t nonce[SRV_NONCE_LEN], const char *about, const uint8_t *data,
               size_t len, void *out)
{
        EVP_CIPHER_CTX *ctx = EVP_CIPHER_CTX_new();
        int n = 0, rest = 0;
        bool ok = ctx != NULL && len >= SRV_TAG_LEN &&
                  EVP_DecryptInit_ex(ctx, EVP_aes_256_gcm(), NULL, key->bytes, nonce) == 1 &&
                  EVP_DecryptUpdate(ctx, NULL, &n, (const uint8_t *)about, (int)strlen(about)) == 1 &&
                  EVP_DecryptUpdate(ctx, out, &n, data, (int)(len - SRV_TAG_LEN)) == 1 &&
                  EVP_CIPHER_CTX_ctrl(ctx, EVP_CTRL_GCM_SET_TAG, SRV_TAG_LEN, (void *)(uintptr_t)(data + len - SRV_TAG_LEN)) == 1 &&
                  EVP_DecryptFinal_ex(ctx, (uint8_t *)out + n, &rest) == 1;

        EVP_CIPHER_CTX_free(ctx);
        return ok ? 0 : -EBADMSG;
}
