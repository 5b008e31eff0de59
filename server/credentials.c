/*
 * credentials.c - root credentials.
 *
 * Called by the main thread, at the start and on SIGHUP. There are no well-known defaults: whoever runs the daemon
 * brings credentials, or they are made of the kernel's random numbers when the store is made. Copies are kept on
 * every drive, so that they last as long as the store does; copies that contradict each other are refused, because
 * choosing one would be a guess about who may enter.
 */
#include "server/credentials.h"

#include "server/ini_file.h"
#include "server/log.h"

#include "loop.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILE_SIZE_MAX  4096
#define ACCESS_KEY_LEN 20u
#define SECRET_KEY_LEN 40u
#define FORMAT_FILE    "FORMAT" /* marks a folder as a drive; see engine/format.h */

/* ---- checking ------------------------------------------------------------------------------------- */

/* Printable ASCII without spaces; an access key stands between slashes and commas in a signature header. */
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

static int check(const struct srv_credentials *c, const char *where, struct srv_error *error)
{
        if (!valid_key(c->access_key, 3, true))
                return srv_fail(error, -EINVAL,
                                "%.300s: access key is not 3 to 128 printable characters without / , = and quotes",
                                where);
        if (!valid_key(c->secret_key, 8, false))
                return srv_fail(error, -EINVAL, "%.300s: secret key is not 8 to 128 printable characters", where);
        return 0;
}

static bool same(const struct srv_credentials *a, const struct srv_credentials *b)
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

/* ---- one file ------------------------------------------------------------------------------------- */

static int take_line(void *arg, const char *name, const char *value, const char *shown_as, struct srv_error *error)
{
        struct srv_credentials *c = arg;

        if (strcmp(name, "access_key") == 0)
                return take_key(c->access_key, sizeof(c->access_key), value, shown_as, error);
        if (strcmp(name, "secret_key") == 0)
                return take_key(c->secret_key, sizeof(c->secret_key), value, shown_as, error);
        return -ENOENT;
}

static int check_file(int fd, const char *path, struct srv_error *error)
{
        struct stat st;

        if (fstat(fd, &st) != 0)
                return srv_fail(error, -errno, "%.300s: %s", path, strerror(errno));
        if (!S_ISREG(st.st_mode) || st.st_size > FILE_SIZE_MAX)
                return srv_fail(error, -EINVAL, "%.300s: is not a file of credentials", path);
        if ((st.st_mode & 077) != 0)
                return srv_fail(error, -EPERM, "%.300s: others can read it or write to it (mode %04o): chmod 600 it",
                                path, st.st_mode & 07777u);
        return 0;
}

int srv_credentials_read(const char *path, struct srv_credentials *out, struct srv_error *error)
{
        FILE *file;
        int fd, rv;

        memset(out, 0, sizeof(*out));
        fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
        if (fd < 0)
                return srv_fail(error, -errno, "%.300s: cannot open it: %s", path, strerror(errno));
        rv = check_file(fd, path, error);
        if (rv != 0) {
                close(fd);
                return rv;
        }
        file = fdopen(fd, "r");
        if (file == NULL) {
                close(fd);
                return srv_fail(error, -ENOMEM, "%.300s: out of memory", path);
        }
        rv = srv_ini_read(file, path, take_line, out, error);
        fclose(file);
        return rv != 0 ? rv : check(out, path, error);
}

static int write_all(int fd, const char *text)
{
        size_t len = strlen(text);
        ssize_t n;

        while (len > 0) {
                n = write(fd, text, len);
                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0)
                        return -errno;
                text += n;
                len -= (size_t)n;
        }
        return fsync(fd) == 0 ? 0 : -errno;
}

static int replace_file(int dir, const char *name, const char *text)
{
        char fresh[NAME_MAX + 1];
        int fd, rv;

        if (snprintf(fresh, sizeof(fresh), "%s.new", name) >= (int)sizeof(fresh))
                return -ENAMETOOLONG;
        if (unlinkat(dir, fresh, 0) != 0 && errno != ENOENT) /* of a start that was cut short */
                return -errno;
        fd = openat(dir, fresh, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        if (fd < 0)
                return -errno;
        rv = write_all(fd, text);
        close(fd);
        if (rv == 0 && renameat(dir, fresh, dir, name) != 0)
                rv = -errno;
        if (rv == 0 && fsync(dir) != 0)
                rv = -errno;
        if (rv != 0)
                unlinkat(dir, fresh, 0);
        return rv;
}

int srv_credentials_write(const char *path, const struct srv_credentials *credentials, struct srv_error *error)
{
        char folder[PATH_MAX], name[PATH_MAX], text[512];
        int dir, rv;

        if (strlen(path) >= PATH_MAX)
                return srv_fail(error, -ENAMETOOLONG, "%.300s: name is too long", path);
        strcpy(folder, path); /* dirname() and basename() write into what they are given */
        strcpy(name, path);
        snprintf(text, sizeof(text),
                 "# Root credentials of this store. Keep this file to yourself.\naccess_key = %s\nsecret_key = %s\n",
                 credentials->access_key, credentials->secret_key);
        dir = open(dirname(folder), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (dir < 0)
                return srv_fail(error, -errno, "%.300s: cannot write it: %s", path, strerror(errno));
        rv = replace_file(dir, basename(name), text);
        close(dir);
        explicit_bzero(text, sizeof(text));
        return rv == 0 ? 0 : srv_fail(error, rv, "%.300s: cannot write it: %s", path, strerror(-rv));
}

/* ---- new ones ------------------------------------------------------------------------------------- */

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

/* ---- where they are kept -------------------------------------------------------------------------- */

/* Files that may hold them: the one of the setting, or one on each drive that is there. */
struct places {
        unsigned count;
        char *path[SRV_LIST_MAX];
        bool has[SRV_LIST_MAX]; /* the file is there and good */
};

static void free_places(struct places *places)
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
        for (i = 0; rv == 0 && i < settings->drive.count; i++) {
                snprintf(format, sizeof(format), "%s/%s", settings->drive.item[i], FORMAT_FILE);
                if (access(format, F_OK) == 0) /* an empty folder is a missing drive, and is not written to */
                        rv = add_place(places, settings->drive.item[i], SRV_CREDENTIALS_FILE);
        }
        return rv;
}

/*
 * Reads all places into *out. A copy that is damaged or on a failing drive is passed over when another is good; one
 * that others can read never is. -ENOENT: there is none.
 */
static int read_places(struct places *places, struct srv_credentials *out, struct srv_error *error)
{
        struct srv_credentials one;
        struct srv_error bad;
        const char *first = NULL;
        unsigned i;
        int rv, worst = -ENOENT;

        for (i = 0; i < places->count; i++) {
                rv = srv_credentials_read(places->path[i], &one, &bad);
                if (rv == -ENOENT)
                        continue;
                if (rv == -EPERM)
                        return srv_fail(error, rv, "%s", bad.text);
                if (rv != 0) {
                        worst = srv_fail(error, rv, "%s", bad.text);
                        continue;
                }
                if (first != NULL && !same(out, &one))
                        return srv_fail(error, -EEXIST,
                                        "%.200s and %.200s hold different credentials: remove the wrong one", first,
                                        places->path[i]);
                places->has[i] = true;
                first = first != NULL ? first : places->path[i];
                *out = one;
        }
        explicit_bzero(&one, sizeof(one));
        if (first == NULL)
                return worst;
        if (worst != -ENOENT)
                srv_log(SRV_LOG_WARNING, "%s (the copy %s is used)", error->text, first);
        return 0;
}

/*
 * Writes the places that have none. 0 if one of all has them then; what could not be written is told, or in *error if
 * nothing could.
 */
static int write_places(struct places *places, const struct srv_credentials *credentials, struct srv_error *error)
{
        unsigned i, good = 0, failed = 0;
        int rv, last = 0;

        for (i = 0; i < places->count; i++) {
                rv = places->has[i] ? 0 : srv_credentials_write(places->path[i], credentials, error);
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

static int generate(struct places *places, struct srv_credentials *out, struct srv_error *error)
{
        int rv;

        srv_credentials_generate(out);
        if (places->count == 0)
                return srv_fail(error, -ENOENT, "no drive to keep root credentials on");
        rv = write_places(places, out, error);
        if (rv != 0)
                return rv;
        srv_log(SRV_LOG_ALWAYS, "new root credentials, shown only now and kept in %s%s", places->path[0],
                places->count > 1 ? " and on the other drives" : "");
        srv_log(SRV_LOG_ALWAYS, "access key: %s", out->access_key);
        srv_log(SRV_LOG_ALWAYS, "secret key: %s", out->secret_key);
        return 0;
}

/* ---- all of it ------------------------------------------------------------------------------------ */

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
                rv = check(out, SRV_ACCESS_KEY_ENV " and " SRV_SECRET_KEY_ENV, error);
        return rv != 0 ? rv : 1;
}

int srv_credentials_load(const struct srv_settings *settings, bool may_generate, struct srv_credentials *out,
                         struct srv_error *error)
{
        struct places places;
        struct srv_error ignored;
        int rv;

        rv = srv_credentials_from_environment(out, error);
        if (rv != 0)
                return rv < 0 ? rv : 0;
        srv_fail(error, 0, "no root credentials: set %s and %s, or the setting root_credentials", SRV_ACCESS_KEY_ENV,
                 SRV_SECRET_KEY_ENV);
        rv = find_places(settings, &places);
        if (rv != 0)
                srv_fail(error, rv, "root credentials: out of memory");
        else
                rv = read_places(&places, out, error);
        if (rv == 0 && *settings->root_credentials == '\0')
                write_places(&places, out, &ignored); /* a copy that a drive lacks: it was away when they were made */
        if (rv == -ENOENT && may_generate)
                rv = generate(&places, out, error);
        free_places(&places);
        return rv;
}
