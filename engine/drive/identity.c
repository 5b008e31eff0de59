/*
 * identity.c - recognises, formats and locks the folder of a drive.
 *
 * Called by the store before its loops run (and by eng_local_open), on any thread; everything
 * blocks. Formatting is an explicit act on a folder that holds nothing: a folder with anything
 * unknown in it is never written to, and a folder without FORMAT is a missing drive, not a new one.
 * FORMAT appears last and by rename, so a crash leaves either no drive or a whole one; FORMAT.new,
 * there from the first step on, tells a format that did not finish from somebody else's files. All
 * drives of a store are prepared before the first of them is finished: where one has its FORMAT,
 * the others can be finished, too.
 */
#include "engine/drive/identity.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ec.h"
#include "engine/drive/logfile.h"

#define FORMAT_NAME     "FORMAT"
#define FORMAT_NEW_NAME "FORMAT.new"
#define LOCK_NAME       "LOCK"
#define FORMAT_MAX      1024u

_Static_assert(ENG_FEATURE_SITES == FMT_FEATURE_SITES && ENG_FEATURE_POOLS == FMT_FEATURE_POOLS, "one bit each");
_Static_assert(ENG_FEATURES_OF_POOL == (FMT_FEATURE_VERSIONS | FMT_FEATURE_SITES) && ENG_LAYOUT == FMT_LAYOUT_VERSION, "as format.h has them");

static const char *const folders[] = {"log", "data", "index"};
#define FOLDERS (sizeof(folders) / sizeof(folders[0]))

int eng_error_set(struct eng_error *error, int rv, const char *format, ...)
{
        va_list args;

        if (error == NULL)
                return rv;
        va_start(args, format);
        vsnprintf(error->text, sizeof(error->text), format, args);
        va_end(args);
        return rv;
}

/* ---- FORMAT as text -------------------------------------------------------------------------- */

static void print_hex(char out[2 * FMT_ID + 1], const uint8_t id[FMT_ID])
{
        unsigned i;

        for (i = 0; i < FMT_ID; i++)
                snprintf(out + 2 * i, 3, "%02x", id[i]);
}

static int hex_digit(char c)
{
        if (c >= '0' && c <= '9')
                return c - '0';
        if (c >= 'a' && c <= 'f')
                return c - 'a' + 10;
        return -1;
}

static int parse_hex(const char *text, uint8_t id[FMT_ID])
{
        int high, low;
        unsigned i;

        if (strlen(text) != 2 * FMT_ID)
                return -EBADMSG;
        for (i = 0; i < FMT_ID; i++) {
                high = hex_digit(text[2 * i]);
                low = hex_digit(text[2 * i + 1]);
                if (high < 0 || low < 0)
                        return -EBADMSG;
                id[i] = (uint8_t)(high << 4 | low);
        }
        return 0;
}

size_t eng_identity_print(const struct eng_identity *identity, char *text, size_t cap)
{
        char store[2 * FMT_ID + 1], drive[2 * FMT_ID + 1];
        int n;

        print_hex(store, identity->store_id);
        print_hex(drive, identity->drive_id);
        n = snprintf(text, cap, "millrace drive\nlayout %u\nstore %s\ndrive %s\nslot %u\ncreated_ms %lld\n",
                     identity->layout, store, drive, identity->slot, (long long)identity->created_ms);
        if (identity->layout > 1)
                n += snprintf(text + n, cap - (size_t)n, "features %llx\n", (unsigned long long)identity->features);
        n += snprintf(text + n, cap - (size_t)n, "crc32c %08x\n", era_crc32c(0, text, (size_t)n));
        assert((size_t)n < cap);
        return (size_t)n;
}

/* The last line is the checksum of all before it. */
static int check_crc_line(const char *text, size_t len)
{
        static const char mark[] = "\ncrc32c ";
        char copy[FORMAT_MAX + 1];
        unsigned crc;
        char *at;

        memcpy(copy, text, len);
        copy[len] = '\0';
        at = strstr(copy, mark);
        if (at == NULL || sscanf(at + sizeof(mark) - 1, "%8x", &crc) != 1)
                return -EBADMSG;
        return era_crc32c(0, copy, (size_t)(at + 1 - copy)) == crc ? 0 : -EBADMSG;
}

int eng_identity_parse(const char *text, size_t len, struct eng_identity *out)
{
        char copy[FORMAT_MAX + 1], store[64], drive[64];
        unsigned long long features = 0;
        long long created;
        const char *at;

        if (len > FORMAT_MAX || check_crc_line(text, len) != 0)
                return -EBADMSG;
        memcpy(copy, text, len);
        copy[len] = '\0';
        memset(out, 0, sizeof(*out));
        if (sscanf(copy, "millrace drive\nlayout %u\n", &out->layout) != 1)
                return -EBADMSG;
        if (out->layout > FMT_LAYOUT_VERSION)
                return -EPROTONOSUPPORT;
        if (sscanf(copy, "millrace drive\nlayout %u\nstore %63s\ndrive %63s\nslot %u\ncreated_ms %lld\n", &out->layout,
                   store, drive, &out->slot, &created) != 5)
                return -EBADMSG;
        at = strstr(copy, "\nfeatures ");
        if (out->layout > 1 && (at == NULL || sscanf(at, "\nfeatures %llx\n", &features) != 1))
                return -EBADMSG;
        if ((features & ~(unsigned long long)FMT_FEATURES) != 0)
                return -EPROTONOSUPPORT;
        out->created_ms = created;
        out->features = features;
        if (out->layout == 0 || out->slot >= ENG_DRIVES_MAX || parse_hex(store, out->store_id) != 0)
                return -EBADMSG;
        return parse_hex(drive, out->drive_id);
}

/* ---- looking --------------------------------------------------------------------------------- */

static bool in_list(const char *name, const char *const *list, size_t count)
{
        size_t i;

        for (i = 0; i < count; i++)
                if (strcmp(name, list[i]) == 0)
                        return true;
        return false;
}

/*
 * Counts the entries of a folder (. and .. aside), and those not in list. A folder that is not
 * there has none.
 */
static int count_entries(int dir_fd, const char *name, const char *const *list, size_t count, unsigned *known,
                         unsigned *unknown)
{
        struct dirent *entry;
        DIR *dir;
        int fd;

        *known = *unknown = 0;
        fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (fd < 0)
                return errno == ENOENT ? 0 : -errno;
        dir = fdopendir(fd);
        if (dir == NULL) {
                close(fd);
                return -ENOMEM;
        }
        while ((entry = readdir(dir)) != NULL) {
                if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
                        continue;
                if (in_list(entry->d_name, list, count))
                        ++*known;
                else
                        ++*unknown;
        }
        closedir(dir);
        return 0;
}

/* Our folders as an unfinished format leaves them: nothing in them but the first log file. */
static int folders_fresh(int dir_fd, bool *fresh)
{
        static const char *const first[] = {ENG_LOGFILE_FIRST_NAME};
        unsigned known, unknown;
        size_t i;
        int rv;

        *fresh = true;
        for (i = 0; i < FOLDERS; i++) {
                rv = count_entries(dir_fd, folders[i], first, i == 0 ? 1 : 0, &known, &unknown);
                if (rv != 0)
                        return rv;
                if (unknown > 0)
                        *fresh = false;
        }
        return 0;
}

/* A folder without FORMAT. */
static int probe_unformatted(int dir_fd, enum eng_folder_state *state)
{
        static const char *const ignored[] = {"lost+found", ENG_FOLDER_NODE_FILE, ENG_FOLDER_NODE_FILE_NEW};
        static const char *const ours[] = {"lost+found", ENG_FOLDER_NODE_FILE, ENG_FOLDER_NODE_FILE_NEW, LOCK_NAME, FORMAT_NEW_NAME, "log", "data", "index"};
        unsigned known, unknown;
        bool fresh;
        int rv;

        rv = count_entries(dir_fd, ".", ignored, sizeof(ignored) / sizeof(ignored[0]), &known, &unknown);
        if (rv != 0)
                return rv;
        if (unknown == 0) {
                *state = ENG_FOLDER_EMPTY;
                return 0;
        }
        rv = count_entries(dir_fd, ".", ours, sizeof(ours) / sizeof(ours[0]), &known, &unknown);
        if (rv == 0)
                rv = folders_fresh(dir_fd, &fresh);
        if (rv != 0)
                return rv;
        *state = unknown == 0 && fresh && faccessat(dir_fd, FORMAT_NEW_NAME, F_OK, 0) == 0 ? ENG_FOLDER_PARTIAL
                                                                                           : ENG_FOLDER_FOREIGN;
        return 0;
}

static int read_format(int fd, const char *path, struct eng_identity *identity, struct eng_error *error)
{
        char text[FORMAT_MAX + 1];
        ssize_t n;
        int rv;

        n = pread(fd, text, sizeof(text), 0);
        if (n < 0)
                return eng_error_set(error, -errno, "%s/FORMAT cannot be read: %s", path, strerror(errno));
        rv = eng_identity_parse(text, (size_t)n, identity);
        if (rv == -EPROTONOSUPPORT)
                return eng_error_set(error, rv,
                                     "%s was written by a newer version (layout %u, or features that are not known "
                                     "here; known: layouts up to %u)",
                                     path, identity->layout, FMT_LAYOUT_VERSION);
        if (rv != 0)
                return eng_error_set(error, rv, "%s/FORMAT is damaged", path);
        return 0;
}

/* What FORMAT.new says; all zeroes if it is not whole. */
static void read_unfinished(int dir_fd, struct eng_identity *identity)
{
        char text[FORMAT_MAX + 1];
        int fd = openat(dir_fd, FORMAT_NEW_NAME, O_RDONLY | O_CLOEXEC);
        ssize_t n = fd < 0 ? -1 : pread(fd, text, sizeof(text), 0);

        if (n < 0 || eng_identity_parse(text, (size_t)n, identity) != 0)
                memset(identity, 0, sizeof(*identity));
        if (fd >= 0)
                close(fd);
}

int eng_folder_probe(const char *path, enum eng_folder_state *state, struct eng_identity *identity,
                     struct eng_error *error)
{
        int dir_fd, fd, rv;

        dir_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (dir_fd < 0) {
                *state = ENG_FOLDER_ABSENT;
                if (errno == ENOENT || errno == ENOTDIR)
                        return 0;
                return eng_error_set(error, -errno, "%s cannot be opened: %s", path, strerror(errno));
        }
        fd = openat(dir_fd, FORMAT_NAME, O_RDONLY | O_CLOEXEC);
        if (fd >= 0) {
                *state = ENG_FOLDER_DRIVE;
                rv = read_format(fd, path, identity, error);
                close(fd);
        } else if (errno == ENOENT) {
                rv = probe_unformatted(dir_fd, state);
                if (rv != 0)
                        eng_error_set(error, rv, "%s cannot be read: %s", path, strerror(-rv));
                else if (*state == ENG_FOLDER_PARTIAL)
                        read_unfinished(dir_fd, identity);
        } else {
                rv = eng_error_set(error, -errno, "%s/FORMAT cannot be opened: %s", path, strerror(errno));
        }
        close(dir_fd);
        return rv;
}

/* ---- formatting ------------------------------------------------------------------------------ */

static int write_file(int dir_fd, const char *name, const char *text, size_t len)
{
        int fd, rv = 0;
        ssize_t n;

        fd = openat(dir_fd, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
        if (fd < 0)
                return -errno;
        n = pwrite(fd, text, len, 0);
        if (n < 0 || (size_t)n != len)
                rv = n < 0 ? -errno : -EIO;
        else if (fsync(fd) != 0)
                rv = -errno;
        close(fd);
        return rv;
}

static int make_folders(int dir_fd)
{
        size_t i;

        for (i = 0; i < FOLDERS; i++)
                if (mkdirat(dir_fd, folders[i], 0700) != 0 && errno != EEXIST)
                        return -errno;
        return 0;
}

static int write_first_log(int dir_fd, const struct eng_identity *identity, const void *epoch_body, size_t epoch_len)
{
        int log_fd, rv;

        log_fd = openat(dir_fd, "log", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (log_fd < 0)
                return -errno;
        rv = eng_logfile_make_first(log_fd, identity->drive_id, epoch_body, epoch_len);
        close(log_fd);
        return rv;
}

static int prepare_folder(int dir_fd, const struct eng_identity *identity, const void *epoch_body, size_t epoch_len)
{
        char text[FORMAT_MAX];
        size_t len = eng_identity_print(identity, text, sizeof(text));
        int rv;

        rv = write_file(dir_fd, FORMAT_NEW_NAME, text, len);
        if (rv == 0)
                rv = fsync(dir_fd) == 0 ? 0 : -errno;
        if (rv == 0)
                rv = make_folders(dir_fd);
        if (rv == 0)
                rv = write_first_log(dir_fd, identity, epoch_body, epoch_len);
        if (rv == 0)
                rv = write_file(dir_fd, LOCK_NAME, "", 0);
        if (rv == 0)
                rv = fsync(dir_fd) == 0 ? 0 : -errno;
        return rv;
}

static int open_to_format(const char *path, struct eng_error *error)
{
        int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

        return fd >= 0 ? fd : eng_error_set(error, -errno, "%s cannot be opened: %s", path, strerror(errno));
}

static int cannot_format(const char *path, int rv, struct eng_error *error)
{
        return rv == 0 ? 0 : eng_error_set(error, rv, "%s cannot be formatted: %s", path, strerror(-rv));
}

int eng_folder_prepare(const char *path, const struct eng_identity *identity, const void *epoch_body, size_t epoch_len,
                       struct eng_error *error)
{
        struct eng_identity present, own = *identity;
        enum eng_folder_state state = ENG_FOLDER_ABSENT;
        int dir_fd, rv;

        own.layout = FMT_LAYOUT_VERSION;
        rv = eng_folder_probe(path, &state, &present, error);
        if (rv != 0)
                return rv;
        if (state != ENG_FOLDER_EMPTY && state != ENG_FOLDER_PARTIAL)
                return eng_error_set(error, state == ENG_FOLDER_ABSENT ? -ENOENT : -EEXIST, "%s %s", path,
                                     state == ENG_FOLDER_ABSENT ? "is not there" : "is not empty");
        dir_fd = open_to_format(path, error);
        if (dir_fd < 0)
                return dir_fd;
        rv = prepare_folder(dir_fd, &own, epoch_body, epoch_len);
        close(dir_fd);
        return cannot_format(path, rv, error);
}

int eng_folder_finish(const char *path, struct eng_error *error)
{
        int dir_fd = open_to_format(path, error), rv;

        if (dir_fd < 0)
                return dir_fd;
        rv = renameat(dir_fd, FORMAT_NEW_NAME, dir_fd, FORMAT_NAME) == 0 ? 0 : -errno;
        if (rv == 0)
                rv = fsync(dir_fd) == 0 ? 0 : -errno;
        close(dir_fd);
        return cannot_format(path, rv, error);
}

int eng_folder_format(const char *path, const struct eng_identity *identity, const void *epoch_body, size_t epoch_len,
                      struct eng_error *error)
{
        struct eng_identity present, own = *identity;
        enum eng_folder_state state = ENG_FOLDER_ABSENT;
        int rv;

        own.layout = FMT_LAYOUT_VERSION;
        rv = eng_folder_probe(path, &state, &present, error);
        if (rv == 0 && state == ENG_FOLDER_DRIVE && memcmp(&present, &own, sizeof(present)) == 0)
                return 0; /* a crash after the last step: this very format is done */
        if (rv == 0)
                rv = eng_folder_prepare(path, identity, epoch_body, epoch_len, error);
        return rv != 0 ? rv : eng_folder_finish(path, error);
}

int eng_folder_upgrade(int dir_fd, const char *path, const struct eng_identity *identity, struct eng_error *error)
{
        struct eng_identity own = *identity;
        char text[FORMAT_MAX];
        int rv;

        own.layout = FMT_LAYOUT_VERSION;
        rv = write_file(dir_fd, FORMAT_NEW_NAME, text, eng_identity_print(&own, text, sizeof(text)));
        if (rv == 0)
                rv = renameat(dir_fd, FORMAT_NEW_NAME, dir_fd, FORMAT_NAME) == 0 ? 0 : -errno;
        if (rv == 0)
                rv = fsync(dir_fd) == 0 ? 0 : -errno;
        return rv == 0 ? 0 : eng_error_set(error, rv, "%s/FORMAT cannot be written anew: %s", path, strerror(-rv));
}

int eng_folder_features(int dir_fd, const char *path, uint64_t bits, struct eng_error *error)
{
        struct eng_identity identity;
        int fd = openat(dir_fd, FORMAT_NAME, O_RDONLY | O_CLOEXEC), rv;

        if (fd < 0)
                return eng_error_set(error, -errno, "%s/FORMAT cannot be opened: %s", path, strerror(errno));
        rv = read_format(fd, path, &identity, error);
        close(fd);
        if (rv != 0)
                return rv;
        identity.features |= bits;
        return eng_folder_upgrade(dir_fd, path, &identity, error);
}

int eng_folder_lock(int dir_fd, const char *path, int *lock_fd, struct eng_error *error)
{
        int fd = openat(dir_fd, LOCK_NAME, O_RDWR | O_CREAT | O_CLOEXEC, 0600);

        if (fd < 0)
                return eng_error_set(error, -errno, "%s/LOCK cannot be opened: %s", path, strerror(errno));
        if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
                close(fd);
                return eng_error_set(error, -EBUSY, "%s is in use by another process", path);
        }
        *lock_fd = fd;
        return 0;
}

int eng_folder_hold(const char *path, int *lock, struct eng_error *error)
{
        int dir_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC), rv;

        if (dir_fd < 0)
                return eng_error_set(error, -errno, "%s cannot be opened: %s", path, strerror(errno));
        rv = eng_folder_lock(dir_fd, path, lock, error);
        close(dir_fd);
        return rv;
}

int eng_folder_add_features(const char *path, uint64_t features, struct eng_error *error)
{
        int dir_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC), rv;

        if (dir_fd < 0)
                return eng_error_set(error, -errno, "%s cannot be opened: %s", path, strerror(errno));
        rv = eng_folder_features(dir_fd, path, features, error);
        close(dir_fd);
        return rv;
}
