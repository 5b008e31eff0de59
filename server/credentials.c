/*
 * credentials.c - root credentials.
 *
 * Called by the main thread, at the start and on SIGHUP. There are no well-known defaults: whoever
 * runs the daemon brings credentials, or they are made of the kernel's random numbers when the
 * store is made. Copies are kept on every drive, so that they last as long as the store does;
 * copies that contradict each other are refused, because choosing one would be a guess about who
 * may enter.
 *
 * On the drives they are sealed with a key that is kept elsewhere (key_file.h), each copy with the
 * number of its generation: the latest is in force, so new ones may be written drive by drive, and
 * a crash between two drives, or a drive that was away, changes nothing. The key is on stable
 * storage before the first copy that it seals, and every copy is replaced in one step, so at each
 * moment there is a copy that can be opened.
 */
#include "server/credentials.h"

#include "server/ini_file.h"
#include "server/key_file.h"
#include "server/daemon_log.h"

#include "loop.h"
#include "s3.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SEALED_MAX     320u /* bytes: both keys, a line end, the tag */
#define ACCESS_KEY_LEN 20u
#define SECRET_KEY_LEN 40u

/* ---- checking -------------------------------------------------------------------------------- */

/*
 * Printable ASCII without spaces; an access key stands between slashes and commas in a signature
 * header.
 */
static bool valid_key(const char *key, size_t least, bool is_access_key)
{
        size_t i, len = strlen(key);

        if (len < least || len > 128)
                return false;
        for (i = 0; i < len; i++) {
                if (key[i] <= 0x20 || key[i] >= 0x7f)
                        return false;
                if (is_access_key && strchr("/,=\"", key[i]) != NULL)
                        return false;
        }
        return true;
}

static int check_credentials(const struct srv_credentials *c, const char *where, struct srv_error *error)
{
        if (!valid_key(c->access_key, 3, true))
                return srv_fail(error, -EINVAL,
                                "%.300s: access key is not 3 to 128 printable characters without / , = and quotes",
                                where);
        if (!valid_key(c->secret_key, 8, false))
                return srv_fail(error, -EINVAL, "%.300s: secret key is not 8 to 128 printable characters", where);
        return 0;
}

static bool same_credentials(const struct srv_credentials *a, const struct srv_credentials *b)
{
        return strcmp(a->access_key, b->access_key) == 0 && strcmp(a->secret_key, b->secret_key) == 0;
}

static int take_key(char *out, size_t size, const char *value, const char *shown_as, struct srv_error *error)
{
        if (*out != '\0')
                return srv_fail(error, -EINVAL, "%s is given twice", shown_as);
        if (strlen(value) >= size)
                return srv_fail(error, -EINVAL, "%s is too long", shown_as);
        memcpy(out, value, strlen(value) + 1);
        return 0;
}

/* ---- one file -------------------------------------------------------------------------------- */

/* A file as it stands: in plain text, or sealed. */
struct copy {
        struct srv_credentials c;
        char generation[21], key_id[17], nonce[2 * SRV_NONCE_LEN + 1], sealed[2 * SEALED_MAX + 1];
        uint64_t number; /* of the generation; 0: plain text */
};

/* A word as print_word() writes it. */
static int take_shell_word(char *out, size_t size, const char *value, const char *shown_as, struct srv_error *error)
{
        char word[SRV_VALUE_MAX];
        size_t len = 0;
        int rv;

        if (*value++ != '\'')
                return srv_fail(error, -EINVAL, "%s is not in single quotes", shown_as);
        while (*value != '\0' && len < sizeof(word) - 1) {
                if (*value == '\'') {
                        if (strncmp(value, "'\\''", 4) != 0)
                                break;
                        value += 3;
                }
                word[len++] = *value++;
        }
        word[len] = '\0';
        rv = strcmp(value, "'") == 0 ? take_key(out, size, word, shown_as, error) : srv_fail(error, -EINVAL, "%s is not one word in single quotes", shown_as);
        explicit_bzero(word, sizeof(word));
        return rv;
}

/* A file is as it is documented, or what --show-credentials has printed. */
static int take_credential_line(void *arg, const char *name, const char *value, const char *shown_as,
                                struct srv_error *error)
{
        struct copy *copy = arg;

        if (strcmp(name, "access_key") == 0)
                return take_key(copy->c.access_key, sizeof(copy->c.access_key), value, shown_as, error);
        if (strcmp(name, "secret_key") == 0)
                return take_key(copy->c.secret_key, sizeof(copy->c.secret_key), value, shown_as, error);
        if (strcmp(name, "generation") == 0)
                return take_key(copy->generation, sizeof(copy->generation), value, shown_as, error);
        if (strcmp(name, "key_id") == 0)
                return take_key(copy->key_id, sizeof(copy->key_id), value, shown_as, error);
        if (strcmp(name, "nonce") == 0)
                return take_key(copy->nonce, sizeof(copy->nonce), value, shown_as, error);
        if (strcmp(name, "sealed") == 0)
                return take_key(copy->sealed, sizeof(copy->sealed), value, shown_as, error);
        if (strcmp(name, "export AWS_ACCESS_KEY_ID") == 0)
                return take_shell_word(copy->c.access_key, sizeof(copy->c.access_key), value, shown_as, error);
        if (strcmp(name, "export AWS_SECRET_ACCESS_KEY") == 0)
                return take_shell_word(copy->c.secret_key, sizeof(copy->c.secret_key), value, shown_as, error);
        return -ENOENT;
}

static int read_credential_file(const char *path, struct copy *out, struct srv_error *error)
{
        const char *why;
        FILE *file;
        int rv;

        memset(out, 0, sizeof(*out));
        rv = srv_secret_open(path, &file, error);
        if (rv != 0)
                return rv;
        rv = srv_ini_read(file, path, take_credential_line, out, error);
        fclose(file);
        if (rv != 0)
                return rv;
        if (*out->sealed == '\0')
                return check_credentials(&out->c, path, error);
        if (*out->c.access_key != '\0' || *out->c.secret_key != '\0' || srv_parse_int(out->generation, &out->number, &why) != 0 ||
            out->number == 0)
                return srv_fail(error, -EINVAL, "%.300s: is damaged", path);
        return 0;
}

int srv_credentials_read(const char *path, struct srv_credentials *out, struct srv_error *error)
{
        struct copy copy;
        int rv = read_credential_file(path, &copy, error);

        if (rv == 0 && copy.number != 0)
                rv = srv_fail(error, -EINVAL, "%.300s: is sealed, and belongs on a drive", path);
        *out = copy.c;
        explicit_bzero(&copy, sizeof(copy));
        return rv;
}

int srv_credentials_write(const char *path, const struct srv_credentials *credentials, struct srv_error *error)
{
        char text[512];
        int rv;

        snprintf(text, sizeof(text),
                 "# Root credentials of this store. Keep this file to yourself.\naccess_key = %s\nsecret_key = %s\n",
                 credentials->access_key, credentials->secret_key);
        rv = srv_secret_write(path, text, error);
        explicit_bzero(text, sizeof(text));
        return rv;
}

/* ---- sealing --------------------------------------------------------------------------------- */

/*
 * What the seal covers beside the secret: that it is one of credentials, and of which generation.
 */
static void about(uint64_t generation, char out[64])
{
        snprintf(out, 64, "millrace credentials %" PRIu64, generation);
}

static int unseal(const struct srv_keys *keys, struct copy *copy, const char *path, struct srv_error *error)
{
        const struct srv_key *key = srv_keys_find(keys, copy->key_id);
        uint8_t nonce[SRV_NONCE_LEN], sealed[SEALED_MAX];
        size_t len = strlen(copy->sealed) / 2;
        char text[SEALED_MAX + 1], what[64], *newline;

        if (key == NULL)
                return srv_fail(error, -ENOKEY,
                                "%.200s: is sealed with the key %s, and %.200s %s: bring that key back, or make new credentials with "
                                "--rotate-credentials",
                                path, copy->key_id, keys->where, keys->count == 0 ? "is not there" : "has another one");
        about(copy->number, what);
        if (s3_hex_decode(s3_str_of(copy->nonce), nonce, sizeof(nonce)) != 0 || len <= SRV_TAG_LEN ||
            s3_hex_decode(s3_str_of(copy->sealed), sealed, len) != 0 ||
            srv_unseal(key, nonce, what, sealed, len, text) != 0)
                return srv_fail(error, -EINVAL, "%.300s: is damaged", path);
        text[len - SRV_TAG_LEN] = '\0';
        newline = strchr(text, '\n');
        if (newline == NULL || (size_t)(newline - text) >= sizeof(copy->c.access_key) ||
            strlen(newline + 1) >= sizeof(copy->c.secret_key))
                return srv_fail(error, -EINVAL, "%.300s: is damaged", path);
        *newline = '\0';
        strcpy(copy->c.access_key, text);
        strcpy(copy->c.secret_key, newline + 1);
        explicit_bzero(text, sizeof(text));
        return check_credentials(&copy->c, path, error);
}

static int write_sealed(const char *path, const struct srv_key *key, uint64_t generation,
                        const struct srv_credentials *c, struct srv_error *error)
{
        char plain[SEALED_MAX], what[64], text[2 * SEALED_MAX + 512], nonce_hex[2 * SRV_NONCE_LEN + 1],
                sealed_hex[2 * SEALED_MAX + 1];
        uint8_t nonce[SRV_NONCE_LEN], sealed[SEALED_MAX];
        int len = snprintf(plain, sizeof(plain) - SRV_TAG_LEN, "%s\n%s", c->access_key, c->secret_key), rv;

        lp_random(nonce, sizeof(nonce));
        about(generation, what);
        rv = srv_seal(key, nonce, what, plain, (size_t)len, sealed);
        explicit_bzero(plain, sizeof(plain));
        if (rv != 0)
                return srv_fail(error, rv, "%.300s: cannot be sealed", path);
        s3_hex_encode(nonce, sizeof(nonce), nonce_hex);
        s3_hex_encode(sealed, (size_t)len + SRV_TAG_LEN, sealed_hex);
        snprintf(text, sizeof(text),
                 "# Root credentials of this store, sealed. millraced --show-credentials shows them.\n"
                 "generation = %" PRIu64 "\nkey_id = %s\nnonce = %s\nsealed = %s\n",
                 generation, key->id, nonce_hex, sealed_hex);
        return srv_secret_write(path, text, error);
}


/* ---- new ones -------------------------------------------------------------------------------- */

static void random_text(const char *alphabet, unsigned len, char *out)
{
        unsigned letters = (unsigned)strlen(alphabet), i = 0;
        uint8_t byte;

        while (i < len) {
                lp_random(&byte, sizeof(byte));
                if (byte < 256u / letters * letters) /* the rest would make some letters likelier */
                        out[i++] = alphabet[byte % letters];
        }
        out[len] = '\0';
}

void srv_credentials_generate(struct srv_credentials *out)
{
        memset(out, 0, sizeof(*out));
        random_text("ABCDEFGHIJKLMNOPQRSTUVWXYZ234567", ACCESS_KEY_LEN, out->access_key);
        random_text("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789", SECRET_KEY_LEN, out->secret_key);
}

/* ---- where they are kept --------------------------------------------------------------------- */

/* Files that may hold them: the one of the setting, or one on each drive that is there. */
struct places {
        unsigned count;
        char *path[SRV_LIST_MAX];
        bool has[SRV_LIST_MAX]; /* the file is there, good, and as it would be written */
        bool sealed;            /* on drives; not the file that the operator named */
        struct srv_keys keys;   /* of the sealed */
        bool keys_bad;          /* they are there, and can't be read */
        uint64_t generation;    /* of the credentials in force; 0: they were in plain text, or there are none */
        uint64_t highest;       /* of what stands there, also where it can't be opened */
};

static void free_credential_places(struct places *places)
{
        while (places->count > 0)
                free(places->path[--places->count]);
}

static int add_place(struct places *places, const char *folder, const char *name)
{
        char *path;

        if (asprintf(&path, "%s%s%s", folder, *folder != '\0' ? "/" : "", name) < 0)
                return -ENOMEM;
        places->path[places->count++] = path;
        return 0;
}

static int find_places(const struct srv_settings *settings, struct places *places)
{
        char format[PATH_MAX];
        unsigned i;
        int rv = 0;

        memset(places, 0, sizeof(*places));
        if (*settings->root_credentials != '\0')
                return add_place(places, "", settings->root_credentials);
        places->sealed = true;
        for (i = 0; rv == 0 && i < settings->drive.count; i++) {
                snprintf(format, sizeof(format), "%s/%s", settings->drive.item[i], SRV_FORMAT_FILE);
                if (access(format, F_OK) == 0) /* an empty folder is a missing drive, and is not written to */
                        rv = add_place(places, settings->drive.item[i], SRV_CREDENTIALS_FILE);
        }
        return rv;
}

/* One place. -ENOENT: nothing is there. */
static int read_place(struct places *places, unsigned i, struct copy *copy, struct srv_error *error)
{
        int rv = read_credential_file(places->path[i], copy, error);

        if (rv != 0 || copy->number == 0)
                return rv;
        if (!places->sealed)
                return srv_fail(error, -EINVAL, "%.300s: is sealed, and belongs on a drive", places->path[i]);
        places->highest = copy->number > places->highest ? copy->number : places->highest;
        return unseal(&places->keys, copy, places->path[i], error);
}

/*
 * One good copy more. The later generation is in force: a rotation was cut short, or a drive was
 * away.
 */
static int take_credential_copy(struct places *places, unsigned i, const struct copy *copy, const char **first,
                                struct srv_credentials *out, struct srv_error *error)
{
        if (*first == NULL || copy->number > places->generation) {
                memset(places->has, 0, sizeof(places->has));
                places->generation = copy->number;
                *first = places->path[i];
                *out = copy->c;
        } else if (copy->number < places->generation) {
                return 0;
        } else if (!same_credentials(out, &copy->c)) {
                return srv_fail(error, -EEXIST, "%.200s and %.200s hold different credentials: remove the wrong one", *first,
                                places->path[i]);
        }
        places->has[i] = !places->sealed || (copy->number != 0 && strcmp(copy->key_id, places->keys.list[0].id) == 0);
        return 0;
}

/*
 * Reads all places into *out. A copy that is damaged or on a failing drive is passed over when
 * another is good; one that others can read never is, nor one that can't be opened and is later
 * than the good ones. -ENOENT: there is none.
 */
static int read_places(struct places *places, struct srv_credentials *out, struct srv_error *error)
{
        struct srv_error bad = {""}, locked = {""};
        const char *first = NULL;
        int rv, worst = -ENOENT;
        struct copy copy;
        unsigned i;

        for (i = 0; i < places->count; i++) {
                rv = read_place(places, i, &copy, &bad);
                if (rv == -ENOKEY)
                        locked = bad;
                if (rv == -EPERM)
                        return srv_fail(error, rv, "%s", bad.text);
                if (rv != 0 && rv != -ENOENT)
                        worst = srv_fail(error, rv, "%s", bad.text);
                if (rv == 0)
                        rv = take_credential_copy(places, i, &copy, &first, out, error);
                else
                        rv = 0;
                explicit_bzero(&copy, sizeof(copy));
                if (rv != 0)
                        return rv;
        }
        if (*locked.text != '\0' && (first == NULL || places->highest > places->generation))
                return srv_fail(error, -ENOKEY, "%s", locked.text);
        if (first == NULL)
                return worst;
        if (worst != -ENOENT)
                srv_log(SRV_LOG_WARNING, "%s (the copy %s is used)", error->text, first);
        return 0;
}

/*
 * Writes the places that have none, or an older form. 0 if one of all has them then; what could not
 * be written is told, or in *error if nothing could.
 */
static int write_credential_places(struct places *places, const struct srv_credentials *credentials,
                                   struct srv_error *error)
{
        unsigned i, good = 0, failed = 0;
        int rv, last = 0;

        for (i = 0; i < places->count; i++) {
                if (places->has[i])
                        rv = 0;
                else if (places->sealed)
                        rv = write_sealed(places->path[i], &places->keys.list[0], places->generation, credentials, error);
                else
                        rv = srv_credentials_write(places->path[i], credentials, error);
                places->has[i] = rv == 0;
                good += rv == 0;
                failed += rv != 0;
                last = rv != 0 ? rv : last;
        }
        if (good == 0)
                return last;
        if (failed > 0)
                srv_log(SRV_LOG_WARNING, "%u of %u copies of the root credentials are missing: %s", failed,
                        places->count, error->text);
        return 0;
}

/*
 * There is a key to seal with, made if need be: it is on stable storage before anything is sealed
 * with it.
 */
static int need_key(const struct srv_settings *settings, struct places *places, struct srv_error *error)
{
        int rv;

        if (!places->sealed || places->keys.count > 0)
                return 0;
        rv = srv_keys_add(settings, &places->keys, error);
        if (rv == 0)
                srv_log(SRV_LOG_ALWAYS, "new key in %s: back it up, apart from the drives", places->keys.where);
        return rv;
}

static int generate(const struct srv_settings *settings, struct places *places, struct srv_credentials *out,
                    struct srv_error *error)
{
        int rv;

        srv_credentials_generate(out);
        if (places->count == 0)
                return srv_fail(error, -ENOENT, "no drive to keep root credentials on");
        memset(places->has, 0, sizeof(places->has));
        places->generation = places->highest + 1;
        rv = need_key(settings, places, error);
        if (rv == 0)
                rv = write_credential_places(places, out, error);
        if (rv != 0)
                return rv;
        srv_log(SRV_LOG_ALWAYS, "new root credentials, shown only now and kept in %s%s", places->path[0],
                places->count > 1 ? " and on the other drives" : "");
        srv_log(SRV_LOG_ALWAYS, "access key: %s", out->access_key);
        srv_log_secret("secret key: %s", out->secret_key);
        return 0;
}

/*
 * Copies that a drive lacks (it was away when they were made), that are in plain text (of an
 * earlier version), older, or sealed with a former key. A store that cannot seal goes on as it is,
 * and says so.
 */
static void renew_places(const struct srv_settings *settings, struct places *places, const struct srv_credentials *c)
{
        struct srv_error error;

        if (need_key(settings, places, &error) != 0) {
                srv_log(SRV_LOG_WARNING, "the root credentials stand in plain text on the drives: %s", error.text);
                return;
        }
        if (places->generation == 0) {
                places->generation = places->highest + 1;
                srv_log(SRV_LOG_INFO, "the root credentials on the drives are sealed with the key in %s", places->keys.where);
        }
        write_credential_places(places, c, &error);
}

/* The places, the keys, and what stands there. */
static int look_for_credentials(const struct srv_settings *settings, struct places *places, struct srv_credentials *out,
                                struct srv_error *error)
{
        struct srv_error none;
        int rv = find_places(settings, places);

        if (rv != 0)
                return srv_fail(error, rv, "root credentials: out of memory");
        if (places->sealed) {
                rv = srv_keys_load(settings, &places->keys, &none);
                places->keys_bad = rv != 0 && rv != -ENOENT;
                if (places->keys_bad)
                        return srv_fail(error, rv, "%s", none.text);
        }
        return read_places(places, out, error);
}

int srv_credentials_on_drives(const struct srv_settings *settings, struct srv_credentials *out, struct srv_error *error)
{
        struct srv_settings of_drives = *settings;
        struct places places;
        char none[] = "";
        int rv;

        of_drives.root_credentials = none;
        rv = look_for_credentials(&of_drives, &places, out, error);
        free_credential_places(&places);
        explicit_bzero(&places.keys, sizeof(places.keys));
        return rv;
}

/* ---- all of it ------------------------------------------------------------------------------- */

int srv_credentials_from_environment(struct srv_credentials *out, struct srv_error *error)
{
        const char *access_key = getenv(SRV_ACCESS_KEY_ENV), *secret_key = getenv(SRV_SECRET_KEY_ENV);
        int rv;

        access_key = access_key != NULL ? access_key : "";
        secret_key = secret_key != NULL ? secret_key : "";
        if (*access_key == '\0' && *secret_key == '\0')
                return 0;
        if (*access_key == '\0' || *secret_key == '\0')
                return srv_fail(error, -EINVAL, "%s is set without %s",
                                *access_key != '\0' ? SRV_ACCESS_KEY_ENV : SRV_SECRET_KEY_ENV,
                                *access_key != '\0' ? SRV_SECRET_KEY_ENV : SRV_ACCESS_KEY_ENV);
        memset(out, 0, sizeof(*out));
        rv = take_key(out->access_key, sizeof(out->access_key), access_key, SRV_ACCESS_KEY_ENV, error);
        if (rv == 0)
                rv = take_key(out->secret_key, sizeof(out->secret_key), secret_key, SRV_SECRET_KEY_ENV, error);
        if (rv == 0)
                rv = check_credentials(out, SRV_ACCESS_KEY_ENV " and " SRV_SECRET_KEY_ENV, error);
        return rv != 0 ? rv : 1;
}

int srv_credentials_load(const struct srv_settings *settings, bool may_generate, struct srv_credentials *out,
                         struct srv_error *error)
{
        struct places places;
        int rv;

        rv = srv_credentials_from_environment(out, error);
        if (rv != 0)
                return rv < 0 ? rv : 0;
        if (*settings->root_credentials != '\0')
                srv_fail(error, 0, "no root credentials: there is no file %.300s", settings->root_credentials);
        else
                srv_fail(error, 0, "no root credentials: set %s and %s, or the setting root_credentials", SRV_ACCESS_KEY_ENV,
                         SRV_SECRET_KEY_ENV);
        rv = look_for_credentials(settings, &places, out, error);
        if (rv == 0 && places.sealed)
                renew_places(settings, &places, out);
        if (rv == -ENOENT && may_generate)
                rv = generate(settings, &places, out, error);
        explicit_bzero(&places.keys, sizeof(places.keys));
        free_credential_places(&places);
        return rv;
}

/* ---- for the operator ------------------------------------------------------------------------ */

/* As a word of the shell. */
static void print_word(FILE *out, const char *name, const char *value)
{
        fprintf(out, "export %s='", name);
        for (; *value != '\0'; value++)
                if (*value == '\'')
                        fprintf(out, "'\\''");
                else
                        fputc(*value, out);
        fprintf(out, "'\n");
}

int srv_credentials_find(const struct srv_settings *settings, struct srv_credentials *out, struct srv_error *error)
{
        struct places places;
        int rv;

        srv_fail(error, 0, "no root credentials on these drives");
        rv = look_for_credentials(settings, &places, out, error);
        explicit_bzero(&places.keys, sizeof(places.keys));
        free_credential_places(&places);
        return rv;
}

int srv_credentials_show(const struct srv_settings *settings, FILE *out, struct srv_error *error)
{
        struct srv_credentials c = {.access_key = ""};
        int rv = srv_credentials_find(settings, &c, error);

        if (rv == 0) {
                print_word(out, "AWS_ACCESS_KEY_ID", c.access_key);
                print_word(out, "AWS_SECRET_ACCESS_KEY", c.secret_key);
        }
        explicit_bzero(&c, sizeof(c));
        return rv;
}

int srv_credentials_rotate(const struct srv_settings *settings, struct srv_error *error)
{
        struct srv_credentials c = {.access_key = ""};
        struct places places;
        int rv;

        rv = look_for_credentials(settings, &places, &c, error);
        /* What can't be read is replaced; not so keys, with which other stores may have sealed. */
        if (!places.keys_bad && (rv == 0 || rv == -ENOENT || rv == -ENOKEY || rv == -EINVAL))
                rv = generate(settings, &places, &c, error);
        explicit_bzero(&c, sizeof(c));
        explicit_bzero(&places.keys, sizeof(places.keys));
        free_credential_places(&places);
        return rv;
}

/* The credentials on the drives, if they are there, sealed with the first key. */
static int seal_anew(struct places *places, const struct srv_credentials *c, struct srv_error *error)
{
        memset(places->has, 0, sizeof(places->has));
        places->generation = places->generation != 0 ? places->generation : places->highest + 1;
        return write_credential_places(places, c, error);
}

/* Keys seal users' secrets, too: so there may be no credentials on the drives to seal. */
int srv_credentials_rotate_key(const struct srv_settings *settings, struct srv_error *error)
{
        struct srv_credentials c = {.access_key = ""};
        struct places places;
        bool here;
        int rv;

        rv = look_for_credentials(settings, &places, &c, error);
        here = rv == 0 && places.sealed;
        if (!places.sealed && (rv == 0 || rv == -ENOENT))
                rv = srv_keys_load(settings, &places.keys, error);
        if (rv == 0 || (rv == -ENOENT && !places.keys_bad))
                rv = srv_keys_add(settings, &places.keys, error);
        if (rv == 0)
                srv_log(SRV_LOG_ALWAYS, "new key in %s, before the former one: back it up", places.keys.where);
        if (rv == 0 && here)
                rv = seal_anew(&places, &c, error);
        explicit_bzero(&c, sizeof(c));
        explicit_bzero(&places.keys, sizeof(places.keys));
        free_credential_places(&places);
        return rv;
}
