/*
 * disk.c - see disk.h: file I/O of loop.h, and the system calls that change files.
 *
 * A write of a loop reaches its file when it completes, a flush counts for the writes that had
 * completed when it was asked for. What a worker or an opening thread writes is in the file at
 * once: LMDB and the code that makes files flush before they rely on it (the power-cut tests of
 * tests/power judge that). They may die in any of those calls.
 */
#include "tests/sim/drive/disk.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "engine/drive/resident.h"
#include "tests/sim/drive/world.h"

#define SECTOR          512u
#define UNREADABLE_EACH 400u  /* reads, about */
#define FULL_EACH       2000u /* writes and calls, about; then a few of them in a row */
#define FULL_MOST       40u
#define UNOPENED_EACH   30u   /* files */
#define ABSENT_EACH     40u   /* pages of the index that are asked for */
#define UNCHANGED_EACH  4u    /* histories, in which each write to a segment is looked at */

enum io_kind { IO_READ, IO_WRITE, IO_FLUSH };

/* A write that came back and was not flushed. */
struct loose {
        char path[DISK_PATH_MAX];
        uint64_t offset, serial;
        uint32_t len;
};

struct disk_figures disk_figures;

static struct lp_io *flying;
static struct loose *loose;
static unsigned loose_count, loose_size;
static uint64_t serial, calls_left, good_left; /* good_left: I/O and calls until one goes wrong, that one included; 0: none does */
static bool armed, dead, erred, swept, trouble;
static bool said_short;
static uint64_t full_left; /* writes and calls that will meet a full file system */
static int first_fd;

/* ---- what is not flushed --------------------------------------------------------------------- */

static void path_of(int fd, char out[DISK_PATH_MAX])
{
        char link[64];
        ssize_t n;

        snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
        n = readlink(link, out, DISK_PATH_MAX - 1);
        out[n > 0 ? n : 0] = '\0';
}

static void loose_add(int fd, uint64_t offset, uint32_t len)
{
        if (loose_count == loose_size) {
                loose_size = loose_size == 0 ? 64 : 2 * loose_size;
                loose = realloc(loose, loose_size * sizeof(*loose));
                assert(loose != NULL);
        }
        path_of(fd, loose[loose_count].path);
        loose[loose_count].offset = offset;
        loose[loose_count].serial = ++serial;
        loose[loose_count++].len = len;
}

/* The file was flushed: what had come back by then is durable. */
static void flushed(int fd, uint64_t up_to)
{
        char path[DISK_PATH_MAX];
        unsigned i, kept = 0;

        if (loose_count == 0)
                return;
        path_of(fd, path);
        for (i = 0; i < loose_count; i++)
                if (loose[i].serial > up_to || strcmp(loose[i].path, path) != 0)
                        loose[kept++] = loose[i];
        loose_count = kept;
}

/* Sectors of a write that did not come to rest: any of them may be missing. */
static void lose(const struct loose *one)
{
        static const uint8_t zeroes[SECTOR];
        uint64_t share = sim_below(SIM_FAULTS, 5), at; /* 0: none is missing; 4: all are */
        int fd = open(one->path, O_WRONLY | O_CLOEXEC);
        struct stat st;

        if (fd < 0)
                return; /* the file has gone since */
        assert(fstat(fd, &st) == 0);
        for (at = one->offset; at < one->offset + one->len && at + SECTOR <= (uint64_t)st.st_size; at += SECTOR)
                if (sim_below(SIM_FAULTS, 4) < share)
                        syscall(SYS_pwrite64, fd, zeroes, SECTOR, at);
        close(fd);
        disk_figures.lost += share == 4;
        disk_figures.torn += share > 0 && share < 4;
}

/*
 * This one goes wrong. A process does not live long after that: its drive must not do so at all
 * (I8).
 */
static bool errs(void)
{
        if (sim_sweep_at != 0 ? !swept || !sim_sweep_point() : good_left == 0 || --good_left > 0)
                return false;
        erred = true;
        disk_figures.errors++;
        world.crash_at = sim.events + 1 + sim_below(SIM_FAULTS, 400);
        world.moments_left = 0;
        return true;
}

/* The file system is full, for this one and some more. */
static bool full(void)
{
        if (!trouble)
                return false;
        if (full_left == 0 && sim_chance(SIM_FAULTS, FULL_EACH))
                full_left = 1 + sim_below(SIM_FAULTS, FULL_MOST);
        if (full_left == 0)
                return false;
        full_left--;
        disk_figures.full++;
        return true;
}

static bool is_zero(const uint8_t sector[SECTOR])
{
        static const uint8_t zeroes[SECTOR];

        return memcmp(sector, zeroes, SECTOR) == 0;
}

/* ---- I/O of the loops ------------------------------------------------------------------------ */

/*
 * What stands in a segment stays as it is: only where nothing was, or what was there already, is
 * anything written (I3).
 */
static void check_unchanged(const struct lp_io *io)
{
        static uint8_t before[SECTOR];
        const uint8_t *now = io->buf;
        char path[DISK_PATH_MAX];
        uint32_t at;

        if (sim.seed % UNCHANGED_EACH != 0)
                return;
        path_of(io->fd, path);
        if (strstr(path, ".seg") == NULL)
                return;
        for (at = 0; at + SECTOR <= io->len; at += SECTOR)
                if (syscall(SYS_pread64, io->fd, before, SECTOR, io->offset + at) == SECTOR && !is_zero(before) &&
                    memcmp(before, now + at, SECTOR) != 0)
                        sim_fail("bytes of %s at %llx are written anew (I3)", path, (unsigned long long)(io->offset + at));
}

static int write_whole(const struct lp_io *io)
{
        ssize_t n = syscall(SYS_pwrite64, io->fd, io->buf, io->len, io->offset);

        assert(n == (ssize_t)io->len);
        return (int)n;
}

/* There is room for a part of it, or for nothing. */
static int write_some(const struct lp_io *io)
{
        uint32_t len = (uint32_t)sim_below(SIM_FAULTS, io->len / SECTOR) * SECTOR;

        if (len > 0 && syscall(SYS_pwrite64, io->fd, io->buf, len, io->offset) != (ssize_t)len)
                sim_fail("a write of the simulated disk");
        if (len > 0 && io->rw_flags == 0)
                loose_add(io->fd, io->offset, len);
        sim_trace("full: %u of %u bytes at %llx", len, io->len, (unsigned long long)io->offset);
        said_short = len > 0 && !said_short && sim_chance(SIM_FAULTS, 2); /* a file system is short once, then it says why */
        return said_short ? (int)len : -ENOSPC;
}

static void trace_write(const struct lp_io *io)
{
        char path[DISK_PATH_MAX];

        if (!sim.trace)
                return;
        path_of(io->fd, path);
        sim_trace("written %s, %u bytes at %llx", path, io->len, (unsigned long long)io->offset);
}

/* A page of the index that cannot be read ends the drive, so that does not happen now and then. */
static bool is_index(int fd)
{
        char path[DISK_PATH_MAX];

        path_of(fd, path);
        return strstr(path, "/index/") != NULL;
}

static int carry_out(const struct lp_io *io)
{
        ssize_t n;

        switch ((enum io_kind)io->op) {
        case IO_READ:
                if (is_index(io->fd)) {
                        disk_figures.index_reads++;
                        n = syscall(SYS_pread64, io->fd, io->buf, io->len, io->offset);
                } else {
                        n = pread(io->fd, io->buf, io->len, (off_t)io->offset); /* the one of this file */
                }
                return n < 0 ? -errno : (int)n;
        case IO_WRITE:
                if (full())
                        return write_some(io);
                check_unchanged(io);
                n = write_whole(io);
                trace_write(io);
                if (io->rw_flags == 0)
                        loose_add(io->fd, io->offset, io->len);
                else
                        model_written(io->buf, io->len);
                disk_figures.writes++;
                world_moment(MOMENT_WRITTEN);
                return (int)n;
        case IO_FLUSH:
                flushed(io->fd, io->offset);
                disk_figures.flushes++;
                return 0;
        }
        return -EINVAL;
}

static void complete(void *arg)
{
        struct lp_io *io = arg, **at = &flying;
        int res;

        while (*at != io)
                at = &(*at)->next;
        *at = io->next;
        if (errs()) {
                if ((enum io_kind)io->op == IO_WRITE && sim_chance(SIM_FAULTS, 2)) {
                        write_whole(io); /* some of it is there */
                        loose_add(io->fd, io->offset, io->len);
                }
                sim_trace("an I/O of kind %u fails", io->op);
                res = -EIO;
        } else {
                res = carry_out(io);
        }
        io->done(io, res);
}

static void start(struct lp_loop *loop, struct lp_io *io, enum io_kind kind, int fd)
{
        struct lp_io **end = &flying;

        while (*end != NULL)
                end = &(*end)->next;
        io->op = (uint8_t)kind;
        io->fd = fd;
        io->next = NULL;
        *end = io;
        sim_at(sim_skewed(SIM_DRIVES, SIM_US, world.tempo.io_ns), loop, complete, io);
}

void lp_read(struct lp_loop *loop, struct lp_io *io, int fd, void *buf, uint32_t len, uint64_t offset)
{
        io->buf = buf;
        io->len = len;
        io->offset = offset;
        start(loop, io, IO_READ, fd);
}

void lp_write(struct lp_loop *loop, struct lp_io *io, int fd, const void *buf, uint32_t len, uint64_t offset,
              int rw_flags)
{
        io->buf = (void *)buf;
        io->len = len;
        io->offset = offset;
        io->rw_flags = rw_flags;
        start(loop, io, IO_WRITE, fd);
}

void lp_fdatasync(struct lp_loop *loop, struct lp_io *io, int fd)
{
        io->offset = serial;
        start(loop, io, IO_FLUSH, fd);
}

/* ---- calls of workers, of LMDB, and of a drive being opened or closed ------------------------ */

ssize_t pread(int fd, void *buf, size_t len, off_t offset);
ssize_t pwrite(int fd, const void *buf, size_t len, off_t offset);
ssize_t writev(int fd, const struct iovec *iov, int n);
int fdatasync(int fd);
int fsync(int fd);
int ftruncate(int fd, off_t len);
int fallocate(int fd, int mode, off_t offset, off_t len);
int posix_fallocate(int fd, off_t offset, off_t len);
int unlinkat(int dir_fd, const char *name, int flags);
int renameat(int from_fd, const char *from, int to_fd, const char *to);
int renameat2(int from_fd, const char *from, int to_fd, const char *to, unsigned flags);
int mincore(void *at, size_t len, unsigned char *each);

/* True: the process is dead, the call has no effect. */
static bool refused(void)
{
        if (armed && !dead) {
                disk_figures.calls++;
                dead = --calls_left == 0;
        }
        if (dead || errs()) {
                errno = EIO;
                return true;
        }
        return false;
}

ssize_t pread(int fd, void *buf, size_t len, off_t offset)
{
        if (trouble && sim_chance(SIM_FAULTS, UNREADABLE_EACH)) {
                disk_figures.unreadable++;
                sim_trace("a read fails");
                errno = EIO;
                return -1;
        }
        return syscall(SYS_pread64, fd, buf, len, offset);
}

ssize_t pwrite(int fd, const void *buf, size_t len, off_t offset)
{
        return refused() ? -1 : syscall(SYS_pwrite64, fd, buf, len, offset);
}

ssize_t writev(int fd, const struct iovec *iov, int n)
{
        return refused() ? -1 : syscall(SYS_writev, fd, iov, n);
}

int fdatasync(int fd)
{
        if (refused())
                return -1;
        flushed(fd, UINT64_MAX);
        return 0;
}

int fsync(int fd)
{
        return fdatasync(fd);
}

int ftruncate(int fd, off_t len)
{
        return refused() ? -1 : (int)syscall(SYS_ftruncate, fd, len);
}

/* Made longer, sparse: room is no matter here, and zeroes take time. */
int fallocate(int fd, int mode, off_t offset, off_t len)
{
        struct stat st;

        if (refused() || fstat(fd, &st) != 0)
                return -1;
        if (full()) {
                errno = ENOSPC;
                return -1;
        }
        return st.st_size >= offset + len ? 0 : (int)syscall(SYS_ftruncate, fd, offset + len);
}

int posix_fallocate(int fd, off_t offset, off_t len)
{
        return fallocate(fd, 0, offset, len) == 0 ? 0 : errno;
}

int openat(int dir_fd, const char *name, int flags, ...)
{
        va_list args;
        mode_t mode;

        va_start(args, flags);
        mode = (flags & O_CREAT) != 0 ? va_arg(args, mode_t) : 0;
        va_end(args);
        if (trouble && sim_chance(SIM_FAULTS, UNOPENED_EACH)) {
                disk_figures.unopened++;
                disk_figures.unopened_at = sim.now;
                errno = EMFILE;
                return -1;
        }
        return (int)syscall(SYS_openat, dir_fd, name, flags, mode);
}

int unlinkat(int dir_fd, const char *name, int flags)
{
        sim_trace("unlink %s", name);
        return refused() ? -1 : (int)syscall(SYS_unlinkat, dir_fd, name, flags);
}

int renameat(int from_fd, const char *from, int to_fd, const char *to)
{
        sim_trace("rename to %s", to);
        return refused() ? -1 : (int)syscall(SYS_renameat, from_fd, from, to_fd, to);
}

int renameat2(int from_fd, const char *from, int to_fd, const char *to, unsigned flags)
{
        return refused() ? -1 : (int)syscall(SYS_renameat2, from_fd, from, to_fd, to, flags);
}

/*
 * The kernel is not asked: what it has in memory depends on the machine. A page that is said to be
 * absent is there at the next look, or not.
 */
int mincore(void *at, size_t len, unsigned char *each)
{
        size_t i;

        for (i = 0; i < len / ENG_PAGE_BYTES; i++)
                each[i] = !trouble || !sim_chance(SIM_PAGES, ABSENT_EACH);
        return 0;
}

/* ---- life and death -------------------------------------------------------------------------- */

void disk_begin(void)
{
        flying = NULL;
        armed = dead = erred = swept = trouble = said_short = false;
        good_left = full_left = 0;
        disk_figures.unopened_at = 0; /* of another history, or of a process that has died */
        first_fd = dup(0);
        assert(first_fd >= 0);
        close(first_fd);
}

void disk_trouble(bool on)
{
        trouble = on && sim_sweep_at == 0;
        full_left = 0;
}

void disk_arm(uint64_t n)
{
        calls_left = n;
        armed = n > 0;
}

void disk_err(uint64_t n)
{
        good_left = n;
}

void disk_sweep(bool on)
{
        swept = on;
}

bool disk_erred(void)
{
        return erred;
}

bool disk_dead(void)
{
        return dead;
}

/* A write that was in flight may have reached the file. */
static void in_flight(const struct lp_io *io)
{
        if ((enum io_kind)io->op != IO_WRITE || sim_chance(SIM_FAULTS, 3))
                return;
        write_whole(io);
        loose_add(io->fd, io->offset, io->len);
}

void disk_kill(void)
{
        const struct lp_io *io;

        armed = dead = false;
        good_left = 0;
        for (io = flying; io != NULL; io = io->next)
                in_flight(io);
        flying = NULL;
        close_range((unsigned)first_fd, ~0u, 0);
}

void disk_power_cut(void)
{
        unsigned i;

        disk_kill();
        for (i = 0; i < loose_count; i++)
                lose(&loose[i]);
        loose_count = 0;
}

void disk_finish(void)
{
        struct lp_io *io;

        while ((io = flying) != NULL) {
                flying = io->next;
                io->done(io, carry_out(io));
        }
}
