/*
 * fds.c - see fds.h.
 *
 * One file is opened at a time, by a worker that does nothing else: making a segment or writing the
 * index takes longer than a read may wait. Who asks for the same file meanwhile waits for the same
 * opening. An opening that does not come back fails the drive like any I/O (ENG_IO_LIMIT_NS), so
 * nobody waits without end. As many wait as there are operations (I9).
 *
 * Rules that keep a descriptor from being taken for another file's: its number is given out only
 * with a use (users), and closed only at users 0; what is idle is the only thing that is closed to
 * make room; whoever starts an I/O copies the number while he holds the use, and gives it back when
 * the I/O has ended (I7). Nothing is ever written through these descriptors (I3).
 *
 * What the header says when a file is first opened: another drive, number or generation than the
 * index means, or a wrong checksum, is damage of that file. Its frames and records are checked by
 * themselves at each read (I5), so it is read all the same, and never unlinked.
 */
#include "engine/drive/local.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static struct eng_segment *fd_segment(struct eng_fd *fd)
{
        assert(fd->kind == ENG_FD_SEGMENT);
        return container_of(fd, struct eng_segment, fd);
}

static struct eng_log_file *fd_log(struct eng_fd *fd)
{
        assert(fd->kind == ENG_FD_LOG);
        return container_of(fd, struct eng_log_file, fd);
}

/* ---- one file -------------------------------------------------------------------------------- */

void eng_fd_init(struct eng_fd *fd, enum eng_fd_kind kind)
{
        memset(fd, 0, sizeof(*fd));
        fd->kind = kind;
        fd->read_fd = fd->direct_fd = -1;
        TAILQ_INIT(&fd->wants);
}

static void fd_leave_idle(struct eng_fd *fd)
{
        if (fd->idle == NULL)
                return;
        TAILQ_REMOVE(fd->idle, fd, link);
        fd->idle = NULL;
}

static void fd_forget(struct eng_fd *fd)
{
        assert(fd->open == NULL || *fd->open > 0);
        fd_leave_idle(fd);
        if (fd->open != NULL)
                (*fd->open)--;
        fd->open = NULL;
        fd->users = 0;
        fd->read_fd = fd->direct_fd = -1;
}

void eng_fd_take(struct eng_fd *fd, int *read_fd, int *direct_fd)
{
        assert(fd->users == 0 && !fd->asked && TAILQ_EMPTY(&fd->wants));
        *read_fd = fd->read_fd;
        *direct_fd = fd->direct_fd;
        fd_forget(fd);
}

static void close_both(int *read_fd, int *direct_fd)
{
        if (*read_fd >= 0)
                close(*read_fd);
        if (*direct_fd >= 0)
                close(*direct_fd);
        *read_fd = *direct_fd = -1;
}

void eng_fd_close(struct eng_fd *fd)
{
        int read_fd = fd->read_fd, direct_fd = fd->direct_fd;

        fd_forget(fd);
        close_both(&read_fd, &direct_fd);
}

int eng_fd_open_plain(int dir_fd, const char *name)
{
        int fd = openat(dir_fd, name, O_RDONLY | O_CLOEXEC);

        if (fd < 0)
                return -errno;
        posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM); /* what is read next is seldom what comes next */
        return fd;
}

/* ---- opening (worker) ------------------------------------------------------------------------ */

/*
 * Many drives take half a KiB, which spares a small record, that always lies across two blocks,
 * nearly half of what is read.
 */
static uint32_t direct_block(int fd)
{
        struct statx st;

        if (fd < 0 || statx(fd, "", AT_EMPTY_PATH, STATX_DIOALIGN, &st) != 0 || (st.stx_mask & STATX_DIOALIGN) == 0)
                return FMT_BLOCK; /* a kernel before 6.1, or a file system that does not say */
        if (st.stx_dio_offset_align == 0 || FMT_BLOCK % st.stx_dio_offset_align != 0)
                return FMT_BLOCK; /* it may refuse that as well */
        return st.stx_dio_offset_align;
}

static void open_look(struct eng_fd_opening *o)
{
        struct stat st;

        if (fstat(o->read_fd, &st) != 0) {
                o->result = -errno;
                return;
        }
        o->bytes = (uint64_t)st.st_size;
        if (o->kind == ENG_FD_SEGMENT)
                o->looked = eng_segment_look(o->read_fd, o->drive_id, o->number, o->generation);
        else
                o->looked = eng_logfile_look(o->dir_fd, o->drive_id, o->number, &o->generation);
        if (eng_io_again(o->looked))
                o->result = o->looked;
}

static void open_run(struct eng_job *job)
{
        struct eng_fd_opening *o = &container_of(job, struct eng_local, fds.job)->fds.opening;
        const uint64_t ms = atomic_load_explicit(&container_of(job, struct eng_local, fds.job)->fds.pretend_ms, memory_order_relaxed);
        const struct timespec nap = {.tv_sec = (time_t)(ms / 1000), .tv_nsec = (long)(ms % 1000 * 1000000)};

        if (ms > 0)
                nanosleep(&nap, NULL);
        o->result = o->looked = 0;
        o->direct_fd = -1;
        o->read_fd = eng_fd_open_plain(o->dir_fd, o->name);
        if (o->read_fd < 0) {
                o->result = o->read_fd;
                o->read_fd = -1;
                return;
        }
        if (o->look)
                open_look(o);
        if (o->result == 0)
                o->direct_fd = openat(o->dir_fd, o->name, O_RDONLY | O_DIRECT | O_CLOEXEC); /* without it, the page cache does */
        o->direct_block = direct_block(o->direct_fd);
        if (o->result != 0)
                close_both(&o->read_fd, &o->direct_fd);
}

/* ---- the loop -------------------------------------------------------------------------------- */

static void open_next(struct eng_local *l);

/* Closes what was used longest ago, as long as more than so many files are open. */
static void close_idle(struct eng_local *l, unsigned most)
{
        struct eng_fd *fd;

        while (l->fds.open > most && (fd = TAILQ_FIRST(&l->fds.idle)) != NULL) {
                assert(fd->users == 0 && fd->idle == &l->fds.idle);
                eng_fd_close(fd);
        }
}

static void fds_answer(struct eng_fd *fd, int rv)
{
        struct eng_want *want;

        while ((want = TAILQ_FIRST(&fd->wants)) != NULL) {
                TAILQ_REMOVE(&fd->wants, want, link);
                if (rv == 0)
                        fd->users++;
                want->have(want, rv);
        }
}

/* The worker has seen the header. */
static void seen(struct eng_local *l, struct eng_fd *fd, const struct eng_fd_opening *o)
{
        fd->checked = true;
        if (fd->kind == ENG_FD_SEGMENT)
                eng_segment_seen(l->segments, fd_segment(fd), o->bytes, o->looked);
        else if (fd_log(fd)->generation == 0)
                fd_log(fd)->generation = o->generation;
        if (o->looked != 0 && eng_io_unreadable(o->looked))
                eng_local_read_error(l, fd->kind == ENG_FD_SEGMENT ? o->number : o->number | ENG_UNREADABLE_LOG, 0);
}

static int opened_error(struct eng_local *l, const struct eng_fd_opening *o)
{
        if (eng_io_again(o->result))
                return -EAGAIN;
        if (eng_io_unreadable(o->result))
                eng_local_read_error(l, o->kind == ENG_FD_SEGMENT ? o->number : o->number | ENG_UNREADABLE_LOG, 0);
        return -EBADMSG; /* a file that should be there is not: what it held is damage, the drive may be sound */
}

/*
 * There is no descriptor for it: one of the drive's own is given up. False: there was none, or that
 * was done before.
 */
static bool fds_ask_again(struct eng_local *l, struct eng_fd *fd)
{
        if (fd->again || TAILQ_EMPTY(&l->fds.idle))
                return false;
        close_idle(l, l->fds.open / 2);
        fd->again = fd->asked = true;
        TAILQ_INSERT_HEAD(&l->fds.queue, fd, link);
        return true;
}

static void open_done(struct eng_job *job)
{
        struct eng_local *l = container_of(job, struct eng_local, fds.job);
        struct eng_fd_opening o = l->fds.opening;
        struct eng_fd *fd = l->fds.now;
        bool taken = l->fds.taken;

        l->fds.now = NULL;
        if (!eng_local_release(l)) {
                if (!taken)
                        close_both(&o.read_fd, &o.direct_fd);
                return;
        }
        eng_watch_end(l, &l->fds.watch);
        assert(fd->asked && fd->read_fd < 0 && fd->users == 0);
        fd->asked = false;
        if (o.result == 0) {
                fd->read_fd = o.read_fd;
                fd->direct_fd = o.direct_fd;
                fd->direct_block = o.direct_block;
                fd->open = &l->fds.open;
                fd->again = false;
                l->fds.open++;
                fd->users = 1; /* of its own, until all have been answered */
                if (o.look)
                        seen(l, fd, &o);
                fds_answer(fd, 0);
                eng_fd_put(l, fd);
        } else if (!eng_io_again(o.result) || !fds_ask_again(l, fd)) {
                fd->again = false;
                fds_answer(fd, opened_error(l, &o));
        }
        open_next(l);
}

static void open_next(struct eng_local *l)
{
        struct eng_fd_opening *o = &l->fds.opening;
        struct eng_fd *fd = TAILQ_FIRST(&l->fds.queue);

        if (fd == NULL || l->fds.job.state != ENG_JOB_IDLE || eng_local_failed(l))
                return;
        assert(l->fds.now == NULL && fd->asked && !TAILQ_EMPTY(&fd->wants));
        TAILQ_REMOVE(&l->fds.queue, fd, link);
        l->fds.now = fd;
        *o = (struct eng_fd_opening){.kind = fd->kind, .look = !fd->checked, .read_fd = -1, .direct_fd = -1};
        memcpy(o->drive_id, l->files.drive_id, FMT_ID);
        if (fd->kind == ENG_FD_SEGMENT) {
                o->dir_fd = eng_segments_folder(l->segments);
                o->number = fd_segment(fd)->id;
                o->generation = fd_segment(fd)->generation;
                eng_segment_file_name(o->number, o->name, sizeof(o->name));
        } else {
                o->dir_fd = l->files.dir_fd;
                o->number = fd_log(fd)->number;
                o->generation = fd_log(fd)->generation;
                eng_logfile_name(o->name, o->number);
        }
        close_idle(l, l->fds.most - 1);
        eng_watch_begin(l, &l->fds.watch);
        eng_local_give(l, &l->fds.worker, &l->fds.job, open_run, open_done);
}

int eng_fd_get(struct eng_local *l, struct eng_fd *fd, struct eng_want *want)
{
        assert(eng_local_on_loop(l));
        if (fd->read_fd >= 0) {
                assert((fd->users == 0) == (fd->idle != NULL));
                fd_leave_idle(fd);
                fd->users++;
                return 0;
        }
        TAILQ_INSERT_TAIL(&fd->wants, want, link);
        if (!fd->asked) {
                fd->asked = true;
                TAILQ_INSERT_TAIL(&l->fds.queue, fd, link);
                open_next(l);
        }
        return 1;
}

void eng_fd_put(struct eng_local *l, struct eng_fd *fd)
{
        assert(fd->users > 0 && fd->idle == NULL && fd->read_fd >= 0);
        if (--fd->users > 0)
                return;
        fd->idle = &l->fds.idle;
        TAILQ_INSERT_TAIL(&l->fds.idle, fd, link);
        close_idle(l, l->fds.most);
}

/* ---- life ------------------------------------------------------------------------------------ */

void eng_fds_init(struct eng_local *l, unsigned most)
{
        TAILQ_INIT(&l->fds.idle);
        TAILQ_INIT(&l->fds.queue);
        l->fds.most = most == 0 ? ENG_OPEN_FILES_DEFAULT : most < ENG_OPEN_FILES_LEAST ? ENG_OPEN_FILES_LEAST : most;
}

int eng_fds_start(struct eng_local *l)
{
        return eng_worker_start(&l->fds.worker, l->drive.owner, "drive-open");
}

void eng_fds_fail(struct eng_local *l, int rv)
{
        struct eng_fd *fd;

        if (l->fds.now != NULL)
                fds_answer(l->fds.now, rv);
        while ((fd = TAILQ_FIRST(&l->fds.queue)) != NULL) {
                assert(fd->asked && fd != l->fds.now);
                TAILQ_REMOVE(&l->fds.queue, fd, link);
                fd->asked = fd->again = false;
                fds_answer(fd, rv);
        }
}

void eng_fds_stop(struct eng_local *l)
{
        eng_worker_stop(&l->fds.worker);
}

void eng_fds_free(struct eng_local *l)
{
        eng_fds_fail(l, -ECANCELED);
        if (l->fds.now != NULL && !l->fds.taken && l->fds.job.state == ENG_JOB_RAN) { /* its message may never come */
                close_both(&l->fds.opening.read_fd, &l->fds.opening.direct_fd);
                l->fds.taken = true;
        }
}

void eng_fds_pretend(struct eng_drive *drive, uint64_t ms)
{
        atomic_store_explicit(&eng_local_of(drive)->fds.pretend_ms, ms, memory_order_relaxed);
}
