/*
 * ring.c - file I/O through one io_uring per loop.
 *
 * Called on the loop's thread. An operation first joins a list of the loop; once a round the list
 * moves into the ring and is handed to the kernel with one system call. No more are in flight than
 * the completion queue holds, so it never overflows; the rest stays in the list. The list is
 * bounded by the operations that exist, each a member of what it is about (I9). Nothing is ever
 * taken back from the kernel (I7): when the loop ends, the drain waits for it.
 *
 * The ring is set up disabled and belongs to the thread that enables it; with deferred task work
 * the kernel posts completions only when that thread asks, so data is touched when the loop is
 * ready for it and not in the middle of something. That there is something to ask for shows in a
 * flag, and is told by the loop's eventfd; polling the ring's own descriptor is no help, as such
 * work does not make it ready. While the loop is awake it looks at the flag and spares the kernel
 * the eventfd.
 */
#include "loop/loop_internal.h"

#include "loop_trace.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#define DEFAULT_ENTRIES 512u
#define SECOND_NS       (1000ull * 1000 * 1000)
#define DRAIN_NS        (30 * SECOND_NS) /* a drive that fails answers its last operations sooner than that */
#define WAIT_AT_MOST    8u /* operations that wait for the end of a round, so that a long round does not leave the drives idle */

/* lp_io.op */
enum { OP_READ, OP_WRITE, OP_FDATASYNC };

static const unsigned mode_flags[] = {
        [LP_RING_DEFERRED] = IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_TASKRUN_FLAG |
                             IORING_SETUP_SUBMIT_ALL | IORING_SETUP_R_DISABLED | IORING_SETUP_CLAMP,
        [LP_RING_PLAIN] = IORING_SETUP_R_DISABLED | IORING_SETUP_CLAMP,
};

/* ---- life ------------------------------------------------------------------------------------ */

static int uring_set_up(struct lp_ring *ring, unsigned entries, enum lp_ring_mode mode)
{
        struct io_uring_params params = {.flags = mode_flags[mode]};
        int rv = io_uring_queue_init_params(entries, &ring->uring, &params);

        ring->mode = mode;
        ring->drain_ns = DRAIN_NS;
        ring->capacity = params.cq_entries;
        return rv;
}

int lp_ring_open(struct lp_ring *ring, unsigned entries, enum lp_ring_mode mode, int wake_fd)
{
        int rv;

        if (entries == 0)
                entries = DEFAULT_ENTRIES;
        rv = uring_set_up(ring, entries, mode);
        if (rv == -EINVAL && mode != LP_RING_PLAIN)
                rv = uring_set_up(ring, entries, LP_RING_PLAIN);
        if (rv != 0)
                return rv;
        rv = io_uring_register_eventfd(&ring->uring, wake_fd);
        if (rv != 0)
                io_uring_queue_exit(&ring->uring);
        return rv;
}

void lp_ring_close(struct lp_ring *ring)
{
        io_uring_queue_exit(&ring->uring);
}

void lp_ring_register(struct lp_ring *ring, const struct lp_arena *arena)
{
        unsigned groups = (unsigned)((arena->size + LP_GROUP_SIZE - 1) / LP_GROUP_SIZE);
        struct iovec *buffers;
        unsigned i;

        if (groups == 0)
                return;
        buffers = calloc(groups, sizeof(*buffers));
        if (buffers == NULL)
                return;
        for (i = 0; i < groups; i++) {
                buffers[i].iov_base = arena->base + i * LP_GROUP_SIZE;
                buffers[i].iov_len = i + 1 < groups ? LP_GROUP_SIZE : arena->size - i * LP_GROUP_SIZE;
        }
        ring->fixed = io_uring_register_buffers(&ring->uring, buffers, groups) == 0;
        free(buffers);
}

int lp_ring_enable(struct lp_ring *ring)
{
        /* liburing 2.3 declares io_uring_enable_rings() but does not export it. */
        if (syscall(__NR_io_uring_register, ring->uring.ring_fd, IORING_REGISTER_ENABLE_RINGS, NULL, 0) < 0)
                return -errno;
        /*
         * Spares the kernel a descriptor look-up at each call; Linux before 5.18 refuses, which
         * costs nothing.
         */
        ring->known = io_uring_register_ring_fd(&ring->uring) == 1;
        return 0;
}

/* ---- starting -------------------------------------------------------------------------------- */

static void uring_hand_over(struct lp_loop *loop);

static void uring_start(struct lp_loop *loop, struct lp_io *io)
{
        struct lp_ring *ring = &loop->ring;

        io->next = NULL;
        io->request = lp_trace_request();
        if (ring->first == NULL)
                ring->first = io;
        else
                ring->last->next = io;
        ring->last = io;
        if (++ring->waiting >= WAIT_AT_MOST && loop->running)
                uring_hand_over(loop);
}

static struct lp_io *uring_take_first(struct lp_ring *ring)
{
        struct lp_io *io = ring->first;

        ring->first = io->next;
        ring->waiting--;
        return io;
}

void lp_read(struct lp_loop *loop, struct lp_io *io, int fd, void *buf, uint32_t len, uint64_t offset)
{
        io->op = OP_READ;
        io->fd = fd;
        io->buf = buf;
        io->len = len;
        io->offset = offset;
        io->rw_flags = 0;
        uring_start(loop, io);
}

void lp_write(struct lp_loop *loop, struct lp_io *io, int fd, const void *buf, uint32_t len, uint64_t offset,
              int rw_flags)
{
        io->op = OP_WRITE;
        io->fd = fd;
        io->buf = (void *)buf; /* the kernel only reads it */
        io->len = len;
        io->offset = offset;
        io->rw_flags = rw_flags;
        uring_start(loop, io);
}

void lp_fdatasync(struct lp_loop *loop, struct lp_io *io, int fd)
{
        io->op = OP_FDATASYNC;
        io->fd = fd;
        uring_start(loop, io);
}

/* ---- submitting ------------------------------------------------------------------------------ */

static void uring_prepare(const struct lp_loop *loop, struct io_uring_sqe *sqe, struct lp_io *io)
{
        int group = loop->ring.fixed ? lp_arena_group(&loop->arena, io->buf, io->len) : -1;

        switch (io->op) {
        case OP_READ:
                if (group >= 0)
                        io_uring_prep_read_fixed(sqe, io->fd, io->buf, io->len, io->offset, group);
                else
                        io_uring_prep_read(sqe, io->fd, io->buf, io->len, io->offset);
                break;
        case OP_WRITE:
                if (group >= 0)
                        io_uring_prep_write_fixed(sqe, io->fd, io->buf, io->len, io->offset, group);
                else
                        io_uring_prep_write(sqe, io->fd, io->buf, io->len, io->offset);
                sqe->rw_flags = io->rw_flags;
                break;
        default:
                io_uring_prep_fsync(sqe, io->fd, IORING_FSYNC_DATASYNC);
                break;
        }
        io_uring_sqe_set_data(sqe, io);
}

static void uring_fill(struct lp_loop *loop)
{
        struct lp_ring *ring = &loop->ring;
        struct io_uring_sqe *sqe;

        while (ring->first != NULL && ring->in_flight < ring->capacity) {
                sqe = io_uring_get_sqe(&ring->uring);
                if (sqe == NULL)
                        break;
                uring_prepare(loop, sqe, uring_take_first(ring));
                ring->in_flight++;
                lp_counter_add(&loop->figures.io_submitted, 1);
        }
}

/*
 * In the middle of a round. Whatever the kernel does not take now, or says is wrong, is met again
 * at the round's end.
 */
static void uring_hand_over(struct lp_loop *loop)
{
        uring_fill(loop);
        if (io_uring_sq_ready(&loop->ring.uring) > 0)
                io_uring_submit(&loop->ring.uring);
}

/*
 * The kernel is short of something for the moment, or a signal came; the entries stay in the ring.
 */
static bool passing(int error)
{
        return error == -EAGAIN || error == -EBUSY || error == -EINTR;
}

int lp_ring_submit(struct lp_loop *loop)
{
        struct lp_ring *ring = &loop->ring;
        int accepted;

        do {
                uring_fill(loop);
                if (io_uring_sq_ready(&ring->uring) == 0)
                        break;
                accepted = io_uring_submit_and_get_events(&ring->uring);
                if (accepted < 0 && !passing(accepted))
                        return accepted;
        } while (accepted > 0 && ring->first != NULL && ring->in_flight < ring->capacity);
        lp_counter_set(&loop->figures.io_waiting, ring->waiting);
        return 0;
}

/* ---- completing ------------------------------------------------------------------------------ */

/* The kernel holds completions back until it is asked for them. */
static bool withheld(const struct lp_ring *ring)
{
        return (io_uring_smp_load_acquire(ring->uring.sq.kflags) & (IORING_SQ_TASKRUN | IORING_SQ_CQ_OVERFLOW)) != 0;
}

/*
 * At most what the completion queue holds: what done() starts is submitted at the end of the round.
 */
void lp_ring_complete(struct lp_loop *loop)
{
        struct lp_ring *ring = &loop->ring;
        struct io_uring_cqe *cqe;
        struct lp_io *io;
        unsigned most;
        int res;

        if (withheld(ring))
                io_uring_get_events(&ring->uring);
        most = io_uring_cq_ready(&ring->uring);
        while (most-- > 0 && io_uring_peek_cqe(&ring->uring, &cqe) == 0) {
                io = io_uring_cqe_get_data(cqe);
                res = cqe->res;
                io_uring_cqe_seen(&ring->uring, cqe);
                ring->in_flight--;
                lp_counter_add(&loop->figures.io_completed, 1);
                lp_trace_set_request(io->request);
                io->done(io, res);
        }
        lp_trace_set_request(0);
}

/*
 * The flag for the eventfd is written before the ring is looked at, and the kernel sets its flag
 * before it looks at ours, both with a locked instruction: either the loop sees the work or the
 * kernel writes the eventfd. Posts of a completion itself have no such order, so without deferred
 * work the eventfd stays on.
 */
static void tell_by_eventfd(struct lp_ring *ring, bool on)
{
        if (ring->mode == LP_RING_DEFERRED)
                __atomic_exchange_n(ring->uring.cq.kflags, on ? 0 : IORING_CQ_EVENTFD_DISABLED, __ATOMIC_SEQ_CST);
}

bool lp_ring_sleep(struct lp_ring *ring)
{
        tell_by_eventfd(ring, true);
        return io_uring_cq_ready(&ring->uring) == 0 && io_uring_sq_ready(&ring->uring) == 0 && !withheld(ring);
}

void lp_ring_awake(struct lp_ring *ring)
{
        tell_by_eventfd(ring, false);
}

/* ---- ending ---------------------------------------------------------------------------------- */

uint64_t lp_ring_cancel(struct lp_loop *loop)
{
        struct lp_ring *ring = &loop->ring;
        uint64_t most = ring->waiting, count;
        struct lp_io *io;

        for (count = 0; count < most; count++) {
                io = uring_take_first(ring);
                io->done(io, -ECANCELED);
        }
        lp_counter_set(&loop->figures.io_waiting, ring->waiting);
        return count;
}

/* Hands over what is in the ring and waits until something ends. */
static int wait_for_one(struct lp_ring *ring, uint64_t ns)
{
        struct __kernel_timespec most = {.tv_sec = (long long)(ns / SECOND_NS), .tv_nsec = (long long)(ns % SECOND_NS)};
        struct io_uring_cqe *cqe;
        int rv = io_uring_submit_and_wait_timeout(&ring->uring, &cqe, 1, &most, NULL);

        return rv > 0 || rv == -ETIME || passing(rv) ? 0 : rv;
}

/* The registration is the thread's; another may free the loop. */
static void ring_leave_thread(struct lp_ring *ring)
{
        if (ring->known)
                io_uring_unregister_ring_fd(&ring->uring);
        ring->known = false;
}

int lp_ring_drain(struct lp_loop *loop)
{
        struct lp_ring *ring = &loop->ring;
        uint64_t end = lp_clock() + ring->drain_ns, now;
        int rv = 0;

        while (rv == 0 && (ring->in_flight > 0 || ring->waiting > 0)) {
                now = lp_clock();
                lp_ring_cancel(loop);
                if (now >= end)
                        rv = -ETIMEDOUT;
                else if (ring->in_flight > 0 && io_uring_cq_ready(&ring->uring) == 0)
                        rv = wait_for_one(ring, end - now);
                lp_ring_complete(loop);
        }
        ring_leave_thread(ring);
        return rv;
}

bool lp_ring_drain_step(struct lp_loop *loop)
{
        struct lp_ring *ring = &loop->ring;

        lp_ring_cancel(loop);
        if (io_uring_sq_ready(&ring->uring) > 0)
                io_uring_submit(&ring->uring);
        lp_ring_complete(loop);
        if (ring->in_flight > 0 || ring->waiting > 0)
                return false;
        ring_leave_thread(ring);
        return true;
}
