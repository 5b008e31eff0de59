/*
 * call_faults.c - see call_faults.h. Calls come from any thread.
 */
#include "tests/lib/call_faults.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "loop.h"

#define SITE     ((uint64_t)((uintptr_t)__builtin_return_address(0) - (uintptr_t)&__executable_start))
#define NO_DRIVE 0u /* threads count as of drive 0 */

extern const char __executable_start;

const char *const cf_kind_names[CF_KINDS] = {
        [CF_OPEN] = "open",           [CF_CREATE] = "create",         [CF_STAT] = "stat",
        [CF_READ] = "read",           [CF_WRITE] = "write",           [CF_SIZE] = "size",
        [CF_FLUSH] = "flush",         [CF_NAME] = "name",             [CF_MAP] = "map",
        [CF_THREAD] = "thread",       [CF_RING_READ] = "ring-read",   [CF_RING_WRITE] = "ring-write",
        [CF_RING_FLUSH] = "ring-flush",
};

#define E_MAX 6
static const int errors[CF_KINDS][E_MAX] = {
        [CF_OPEN] = {EIO, EMFILE, ENFILE, ENOMEM},
        [CF_CREATE] = {EIO, EMFILE, ENFILE, ENOMEM, ENOSPC},
        [CF_STAT] = {EIO, ENOMEM},
        [CF_READ] = {EIO, ENOMEM},
        [CF_WRITE] = {EIO, ENOSPC, ENOMEM},
        [CF_SIZE] = {EIO, ENOSPC, ENOMEM},
        [CF_FLUSH] = {EIO, ENOSPC},
        [CF_NAME] = {EIO, ENOSPC, ENOMEM},
        [CF_MAP] = {ENOMEM, EAGAIN},
        [CF_THREAD] = {EAGAIN},
        [CF_RING_READ] = {EIO, EAGAIN, ENOMEM},
        [CF_RING_WRITE] = {EIO, ENOSPC, EAGAIN, ENOMEM},
        [CF_RING_FLUSH] = {EIO, ENOSPC},
};

const int *cf_errors(enum cf_kind kind)
{
        return errors[kind];
}

/* ---- which call is it ------------------------------------------------------------------------ */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static atomic_bool on;
static struct cf_seen *seen;
static const struct cf_fault *fault;
static const char *const *roots;
static unsigned root_count;
static void *const *spared;
static unsigned spared_count;
static uint64_t until; /* ns; while a fault goes on */

static uint64_t now_ns(void)
{
        struct timespec t;

        clock_gettime(CLOCK_MONOTONIC, &t);
        return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

void cf_begin(struct cf_seen *counted, const struct cf_fault *planned, const char *const *folders, unsigned count)
{
        pthread_mutex_lock(&lock);
        seen = counted;
        seen->count = 0;
        seen->met = false;
        fault = planned;
        roots = folders;
        root_count = count;
        until = 0;
        pthread_mutex_unlock(&lock);
        atomic_store(&on, true);
}

void cf_spare(void *const *args, unsigned count)
{
        spared = args;
        spared_count = count;
}

void cf_end(void)
{
        pthread_mutex_lock(&lock);
        atomic_store(&on, false);
        pthread_mutex_unlock(&lock);
}

static int drive_of(const char *path, char class_of[8])
{
        unsigned i, n;
        size_t len;

        for (i = 0; i < root_count; i++) {
                len = strlen(roots[i]);
                if (strncmp(path, roots[i], len) != 0 || (path[len] != '/' && path[len] != '\0'))
                        continue;
                path += len + (path[len] == '/');
                for (n = 0; n < 7 && path[n] >= 'a' && path[n] <= 'z'; n++)
                        class_of[n] = path[n];
                memset(class_of + n, 0, 8 - n);
                return (int)i;
        }
        return -1;
}

static int drive_of_fd(int fd, const char *name, char class_of[8])
{
        char path[2 * PATH_MAX], link[64];
        ssize_t n;

        if (name != NULL && (name[0] == '/' || fd == AT_FDCWD))
                return drive_of(name, class_of);
        snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
        n = readlink(link, path, PATH_MAX);
        if (n < 0)
                return -1;
        path[n] = '\0';
        if (name != NULL && name[0] != '\0')
                snprintf(path + n, sizeof(path) - (size_t)n, "/%s", name);
        return drive_of(path, class_of);
}

static struct cf_site *site_of(enum cf_kind kind, uint64_t offset, const char class_of[8], uint32_t drive)
{
        struct cf_site *s;
        uint32_t i;

        for (i = 0; i < seen->count; i++) {
                s = &seen->sites[i];
                if (s->offset == offset && s->kind == kind && s->drive == drive && memcmp(s->class_of, class_of, 8) == 0)
                        return s;
        }
        assert(seen->count < CF_SITES_MAX);
        s = &seen->sites[seen->count++];
        memset(s, 0, sizeof(*s));
        s->offset = offset;
        s->kind = kind;
        s->drive = drive;
        memcpy(s->class_of, class_of, 8);
        return s;
}

static bool reads_only(enum cf_kind kind)
{
        return kind == CF_OPEN || kind == CF_STAT || kind == CF_READ || kind == CF_RING_READ;
}

static bool flushes(enum cf_kind kind)
{
        return kind == CF_FLUSH || kind == CF_RING_FLUSH;
}

/*
 * While a fault goes on it meets everything of its sort: a bad medium does not stop at one
 * function, nor does a full one. What was written is flushed by a full one all the same: a file
 * system says of a flush that it is full where it had promised space that it has not, and that is a
 * fault of its own.
 */
static bool goes_with(enum cf_kind kind)
{
        unsigned i;

        if (fault->error == ENOSPC && flushes(kind) && !flushes(fault->at.kind))
                return false;
        for (i = 0; i < E_MAX && errors[kind][i] != fault->error; i++)
                ;
        return i < E_MAX && (fault->error != EIO || reads_only(kind) == reads_only(fault->at.kind));
}

static int decide(enum cf_kind kind, uint64_t offset, const char class_of[8], uint32_t drive)
{
        const struct cf_site *s = site_of(kind, offset, class_of, drive);

        if (fault == NULL)
                return 0;
        if (!seen->met && s->offset == fault->at.offset && s->kind == fault->at.kind && s->drive == fault->at.drive &&
            memcmp(s->class_of, fault->at.class_of, 8) == 0 && s->count + 1 == fault->at.count) {
                seen->met = true;
                until = now_ns() + fault->for_ms * 1000000ull;
                return fault->error;
        }
        if (seen->met && fault->for_ms > 0 && (fault->everywhere || drive == fault->at.drive) && now_ns() < until && goes_with(kind))
                return fault->error;
        return 0;
}

/* The error of this call, or 0. */
static int fails(enum cf_kind kind, uint64_t offset, int fd, const char *name)
{
        char class_of[8] = "";
        int drive, rv = 0, before = errno;

        if (!atomic_load(&on))
                return 0;
        pthread_mutex_lock(&lock);
        drive = kind == CF_THREAD ? (int)NO_DRIVE : drive_of_fd(fd, name, class_of);
        if (atomic_load(&on) && drive >= 0) {
                rv = decide(kind, offset, class_of, (uint32_t)drive);
                site_of(kind, offset, class_of, (uint32_t)drive)->count++;
        }
        pthread_mutex_unlock(&lock);
        errno = rv != 0 ? rv : before;
        return rv;
}

/* ---- the functions --------------------------------------------------------------------------- */

/* NAME(PARAMETERS) fails with FAILED (and errno) or is CALL. */
#define WRAP(type, name, parameters, call, kind, fd, path, failed)                                                     \
        type __real_##name parameters;                                                                                 \
        type __wrap_##name parameters;                                                                                 \
        type __wrap_##name parameters                                                                                  \
        {                                                                                                              \
                return fails(kind, SITE, fd, path) != 0 ? (failed) : __real_##name call;                               \
        }

static enum cf_kind opening(int flags)
{
        return (flags & O_CREAT) != 0 ? CF_CREATE : CF_OPEN;
}

static mode_t mode_of(int flags, va_list args)
{
        return (flags & O_CREAT) != 0 ? va_arg(args, mode_t) : 0;
}

int __real_open(const char *path, int flags, ...);
int __real_openat(int fd, const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...);
int __wrap_openat(int fd, const char *path, int flags, ...);

int __wrap_open(const char *path, int flags, ...)
{
        va_list args;
        mode_t mode;

        va_start(args, flags);
        mode = mode_of(flags, args);
        va_end(args);
        return fails(opening(flags), SITE, AT_FDCWD, path) != 0 ? -1 : __real_open(path, flags, mode);
}

int __wrap_openat(int fd, const char *path, int flags, ...)
{
        va_list args;
        mode_t mode;

        va_start(args, flags);
        mode = mode_of(flags, args);
        va_end(args);
        return fails(opening(flags), SITE, fd, path) != 0 ? -1 : __real_openat(fd, path, flags, mode);
}

WRAP(DIR *, fdopendir, (int fd), (fd), CF_OPEN, fd, NULL, NULL)
WRAP(int, fstat, (int fd, struct stat *st), (fd, st), CF_STAT, fd, NULL, -1)
WRAP(int, fstatat, (int fd, const char *path, struct stat *st, int flags), (fd, path, st, flags), CF_STAT, fd, path, -1)
WRAP(int, stat, (const char *path, struct stat *st), (path, st), CF_STAT, AT_FDCWD, path, -1)
WRAP(int, statx, (int fd, const char *path, int flags, unsigned mask, struct statx *st), (fd, path, flags, mask, st), CF_STAT, fd, path, -1)
WRAP(int, fstatfs, (int fd, struct statfs *st), (fd, st), CF_STAT, fd, NULL, -1)
WRAP(int, fstatvfs, (int fd, struct statvfs *st), (fd, st), CF_STAT, fd, NULL, -1)
WRAP(ssize_t, pread, (int fd, void *buf, size_t len, off_t at), (fd, buf, len, at), CF_READ, fd, NULL, -1)
WRAP(struct dirent *, readdir, (DIR *dir), (dir), CF_READ, dirfd(dir), NULL, NULL)
ssize_t __real_pwrite(int fd, const void *buf, size_t len, off_t at);
ssize_t __wrap_pwrite(int fd, const void *buf, size_t len, off_t at);
ssize_t __wrap_pwrite(int fd, const void *buf, size_t len, off_t at)
{
        int error = fails(CF_WRITE, SITE, fd, NULL);
        struct stat st;

        if (error == ENOSPC && __real_fstat(fd, &st) == 0 && st.st_size >= at + (off_t)len) /* what is written over needs no space */
                error = 0;
        if (error == 0)
                return __real_pwrite(fd, buf, len, at);
        errno = error;
        return -1;
}

WRAP(ssize_t, write, (int fd, const void *buf, size_t len), (fd, buf, len), CF_WRITE, fd, NULL, -1)
WRAP(ssize_t, writev, (int fd, const struct iovec *v, int n), (fd, v, n), CF_WRITE, fd, NULL, -1)
WRAP(int, ftruncate, (int fd, off_t len), (fd, len), CF_SIZE, fd, NULL, -1)
WRAP(int, fallocate, (int fd, int mode, off_t at, off_t len), (fd, mode, at, len), CF_SIZE, fd, NULL, -1)
WRAP(int, posix_fallocate, (int fd, off_t at, off_t len), (fd, at, len), CF_SIZE, fd, NULL, errno)
WRAP(int, fsync, (int fd), (fd), CF_FLUSH, fd, NULL, -1)
WRAP(int, fdatasync, (int fd), (fd), CF_FLUSH, fd, NULL, -1)
WRAP(int, unlinkat, (int fd, const char *path, int flags), (fd, path, flags), CF_NAME, fd, path, -1)
WRAP(int, renameat, (int fd, const char *from, int to_fd, const char *to), (fd, from, to_fd, to), CF_NAME, fd, from, -1)
WRAP(int, renameat2, (int fd, const char *from, int to_fd, const char *to, unsigned flags), (fd, from, to_fd, to, flags), CF_NAME, fd, from, -1)
WRAP(int, mkdirat, (int fd, const char *path, mode_t mode), (fd, path, mode), CF_NAME, fd, path, -1)
WRAP(void *, mmap, (void *at, size_t len, int prot, int flags, int fd, off_t from), (at, len, prot, flags, fd, from), CF_MAP, fd, NULL, MAP_FAILED)

int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *), void *arg);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *), void *arg);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *), void *arg)
{
        int rv = 0;
        unsigned i;

        for (i = 0; i < spared_count && spared[i] != arg; i++)
                ;
        if (i == spared_count)
                rv = fails(CF_THREAD, SITE, -1, NULL);
        return rv != 0 ? rv : __real_pthread_create(thread, attr, run, arg);
}

/* ---- rings ----------------------------------------------------------------------------------- */

/* An I/O of which something harmless is done, and whose completion says something else. */
struct taken {
        struct taken *next;
        struct lp_io *io;
        void (*done)(struct lp_io *io, int res);
        int error;
};

static struct taken *all_taken; /* under the lock */

static void taken_done(struct lp_io *io, int res)
{
        struct taken **at, *t;
        int error;

        pthread_mutex_lock(&lock);
        for (at = &all_taken; (*at)->io != io; at = &(*at)->next)
                ;
        t = *at;
        *at = t->next;
        pthread_mutex_unlock(&lock);
        io->done = t->done;
        error = res == -ECANCELED ? res : -t->error;
        free(t);
        io->done(io, error);
}

static void take(struct lp_io *io, int error)
{
        struct taken *t = malloc(sizeof(*t));

        assert(t != NULL);
        t->io = io;
        t->done = io->done;
        t->error = error;
        io->done = taken_done;
        pthread_mutex_lock(&lock);
        t->next = all_taken;
        all_taken = t;
        pthread_mutex_unlock(&lock);
}

void __real_lp_read(struct lp_loop *loop, struct lp_io *io, int fd, void *buf, uint32_t len, uint64_t offset);
void __real_lp_write(struct lp_loop *loop, struct lp_io *io, int fd, const void *buf, uint32_t len, uint64_t offset, int rw_flags);
void __real_lp_fdatasync(struct lp_loop *loop, struct lp_io *io, int fd);
void __wrap_lp_read(struct lp_loop *loop, struct lp_io *io, int fd, void *buf, uint32_t len, uint64_t offset);
void __wrap_lp_write(struct lp_loop *loop, struct lp_io *io, int fd, const void *buf, uint32_t len, uint64_t offset, int rw_flags);
void __wrap_lp_fdatasync(struct lp_loop *loop, struct lp_io *io, int fd);

void __wrap_lp_read(struct lp_loop *loop, struct lp_io *io, int fd, void *buf, uint32_t len, uint64_t offset)
{
        int error = fails(CF_RING_READ, SITE, fd, NULL);

        if (error != 0) {
                take(io, error);
                __real_lp_fdatasync(loop, io, fd);
        } else {
                __real_lp_read(loop, io, fd, buf, len, offset);
        }
}

void __wrap_lp_write(struct lp_loop *loop, struct lp_io *io, int fd, const void *buf, uint32_t len, uint64_t offset, int rw_flags)
{
        int error = fails(CF_RING_WRITE, SITE, fd, NULL);
        uint32_t done = len;

        if (error != 0) {
                take(io, error);
                done = fault->seed % 3 == 0 ? 0 : fault->seed % 3 == 1 ? len / 2 / 4096 * 4096 : len;
        }
        if (done > 0)
                __real_lp_write(loop, io, fd, buf, done, offset, rw_flags);
        else
                __real_lp_fdatasync(loop, io, fd);
}

void __wrap_lp_fdatasync(struct lp_loop *loop, struct lp_io *io, int fd)
{
        int error = fails(CF_RING_FLUSH, SITE, fd, NULL);

        if (error != 0)
                take(io, error);
        __real_lp_fdatasync(loop, io, fd);
}
