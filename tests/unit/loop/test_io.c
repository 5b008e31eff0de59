/*
 * test_io.c - file I/O: data, O_DIRECT from slots, flushes, errors, more operations than the ring
 * holds, the end of a loop with operations under way. Everything runs in both modes of the ring.
 */
#include "tests/unit/loop/loop_fixture.h"

#include <sys/uio.h>

#define BLOCK 4096u
#define MANY  600u /* with 4 ring entries and 8 completions: far more than fit */

static enum lp_ring_mode mode;
static char path[256];

struct job {
        struct lp_io io;
        int res, rounds_in_call;
        sem_t *done;
};

static void job_done(struct lp_io *io, int res)
{
        struct job *job = (struct job *)io;

        job->res = res;
        sem_post(job->done);
}

static int open_file(int flags)
{
        const char *folder = getenv("TMPDIR");
        int fd;

        snprintf(path, sizeof(path), "%s/millrace-io-XXXXXX", folder != NULL ? folder : "/tmp");
        fd = mkstemp(path);
        assert_true(fd >= 0);
        if (flags != 0) {
                close(fd);
                fd = open(path, O_RDWR | O_CLOEXEC | flags);
                assert_true(fd >= 0 || errno == EINVAL); /* tmpfs of old kernels knows no O_DIRECT */
        }
        unlink(path);
        return fd;
}

static void start(struct fixture *f, unsigned entries, unsigned slots)
{
        fixture_make(f, entries, slots, mode);
        fixture_run(f);
}

/* ---- plain memory ---------------------------------------------------------------------------- */

struct rw {
        struct job job;
        int fd, rw_flags;
        char *buf;
        uint32_t len;
        uint64_t offset;
};

static void start_write(struct lp_loop *loop, void *arg)
{
        struct rw *rw = arg;

        rw->job.res = INT32_MIN;
        lp_write(loop, &rw->job.io, rw->fd, rw->buf, rw->len, rw->offset, rw->rw_flags);
        assert_int_equal(rw->job.res, INT32_MIN);
}

static void start_read(struct lp_loop *loop, void *arg)
{
        struct rw *rw = arg;

        rw->job.res = INT32_MIN;
        lp_read(loop, &rw->job.io, rw->fd, rw->buf, rw->len, rw->offset);
        assert_int_equal(rw->job.res, INT32_MIN);
}

static void start_sync(struct lp_loop *loop, void *arg)
{
        struct rw *rw = arg;

        rw->job.res = INT32_MIN;
        lp_fdatasync(loop, &rw->job.io, rw->fd);
}

static int perform(struct fixture *f, void (*func)(struct lp_loop *loop, void *arg), struct rw *rw)
{
        sem_t done;

        sem_init(&done, 0, 0);
        memset(&rw->job, 0, sizeof(rw->job));
        rw->job.io.done = job_done;
        rw->job.done = &done;
        fixture_call(f, func, rw);
        fixture_wait(&done, 60);
        assert_int_not_equal(sem_trywait(&done), 0); /* once */
        sem_destroy(&done);
        return rw->job.res;
}

static void test_write_sync_read(void **state)
{
        char out[1000], in[1000] = {0};
        struct rw rw = {.fd = open_file(0), .buf = out, .len = sizeof(out), .offset = 123};
        struct fixture f;

        memset(out, 'x', sizeof(out));
        start(&f, 0, 0);
        assert_int_equal(perform(&f, start_write, &rw), 1000);
        assert_int_equal(perform(&f, start_sync, &rw), 0);
        rw.rw_flags = RWF_DSYNC;
        assert_int_equal(perform(&f, start_write, &rw), 1000);
        rw.buf = in;
        assert_int_equal(perform(&f, start_read, &rw), 1000);
        assert_memory_equal(in, out, sizeof(in));
        rw.offset = 1023; /* 100 bytes lie behind it */
        assert_int_equal(perform(&f, start_read, &rw), 100);
        rw.offset = 5000;
        assert_int_equal(perform(&f, start_read, &rw), 0);
        fixture_stop(&f);
        close(rw.fd);
}

static void test_errors(void **state)
{
        char buf[16] = {0};
        struct rw rw = {.fd = -1, .buf = buf, .len = sizeof(buf)};
        struct fixture f;

        start(&f, 0, 0);
        assert_int_equal(perform(&f, start_write, &rw), -EBADF);
        assert_int_equal(perform(&f, start_read, &rw), -EBADF);
        assert_int_equal(perform(&f, start_sync, &rw), -EBADF);
        rw.fd = open_file(0);
        rw.buf = (char *)1;
        assert_int_equal(perform(&f, start_write, &rw), -EFAULT);
        rw.buf = buf;
        rw.rw_flags = 1 << 30;
        assert_in_set(-perform(&f, start_write, &rw), ((unsigned long[]){EINVAL, EOPNOTSUPP}), 2);
        close(rw.fd);
        rw.rw_flags = 0;
        rw.fd = open("/dev/full", O_WRONLY);
        assert_int_equal(perform(&f, start_write, &rw), -ENOSPC);
        close(rw.fd);
        fixture_stop(&f);
}

/* ---- slots ----------------------------------------------------------------------------------- */

static void draw(struct lp_loop *loop, void *arg)
{
        struct lp_reserve r = {.count = 1, .share = LP_SHARE_PUT};
        char **slot = arg;

        assert_int_equal(lp_reserve(loop, &r), 0);
        *slot = lp_slot_get(loop);
        assert_non_null(*slot);
}

static void put_back(struct lp_loop *loop, void *arg)
{
        lp_slot_put(loop, *(char **)arg);
        lp_unreserve(loop, LP_SHARE_PUT, 1);
}

static void test_direct_from_slot(void **state)
{
        struct rw rw = {.fd = open_file(O_DIRECT), .len = LP_SLOT_SIZE};
        struct fixture f;
        char *slot;
        uint32_t i;

        if (rw.fd < 0)
                skip();
        start(&f, 0, 8);
        fixture_call(&f, draw, &slot);
        assert_int_equal((uintptr_t)slot % BLOCK, 0);
        for (i = 0; i < LP_SLOT_SIZE; i++)
                slot[i] = (char)(i * 7 + i / 4096);
        rw.buf = slot;
        rw.rw_flags = RWF_DSYNC;
        assert_int_equal(perform(&f, start_write, &rw), LP_SLOT_SIZE);
        memset(slot, 0, LP_SLOT_SIZE);
        rw.buf = slot + LP_SLOT_HEADER; /* a part of a slot is in the registered buffer too */
        rw.len = LP_SLOT_UNIT;
        rw.offset = LP_SLOT_HEADER;
        assert_int_equal(perform(&f, start_read, &rw), LP_SLOT_UNIT);
        for (i = LP_SLOT_HEADER; i < LP_SLOT_SIZE; i++)
                assert_true(slot[i] == (char)(i * 7 + i / 4096));
        rw.len = 100; /* not aligned: some file systems refuse it, none may hang */
        rw.offset = 1;
        i = (uint32_t)perform(&f, start_read, &rw);
        assert_true(i == 100 || i == (uint32_t)-EINVAL);
        fixture_call(&f, put_back, &slot);
        fixture_stop(&f);
        close(rw.fd);
}

/* Without registration (RLIMIT_MEMLOCK) the same works with plain operations. */
static void test_slot_unregistered(void **state)
{
        struct rw rw = {.fd = open_file(0), .len = BLOCK};
        struct fixture f;
        char *slot;

        fixture_make(&f, 0, 4, mode);
        f.loop->ring.fixed = false;
        fixture_run(&f);
        fixture_call(&f, draw, &slot);
        memset(slot, 'u', BLOCK);
        rw.buf = slot;
        assert_int_equal(perform(&f, start_write, &rw), BLOCK);
        memset(slot, 0, BLOCK);
        assert_int_equal(perform(&f, start_read, &rw), BLOCK);
        assert_int_equal(slot[BLOCK - 1], 'u');
        fixture_call(&f, put_back, &slot);
        fixture_stop(&f);
        close(rw.fd);
}

/* ---- more than the ring holds ---------------------------------------------------------------- */

static struct {
        struct job jobs[MANY];
        char bufs[MANY][64], back[MANY][64];
        int fd;
        sem_t done;
} many;

static void start_many(struct lp_loop *loop, void *arg)
{
        bool reading = arg != NULL;
        unsigned i;

        for (i = 0; i < MANY; i++) {
                many.jobs[i] = (struct job){.io.done = job_done, .res = INT32_MIN, .done = &many.done};
                if (reading)
                        lp_read(loop, &many.jobs[i].io, many.fd, many.back[i], 64, i * 64);
                else
                        lp_write(loop, &many.jobs[i].io, many.fd, many.bufs[i], 64, i * 64, 0);
        }
}

static void wait_many(void)
{
        unsigned i;

        for (i = 0; i < MANY; i++)
                fixture_wait(&many.done, 60);
        for (i = 0; i < MANY; i++)
                assert_int_equal(many.jobs[i].res, 64);
}

static void test_more_than_the_ring_holds(void **state)
{
        struct lp_stats stats;
        struct fixture f;
        unsigned i;

        many.fd = open_file(0);
        sem_init(&many.done, 0, 0);
        for (i = 0; i < MANY; i++)
                memset(many.bufs[i], (int)i, 64);
        fixture_make(&f, 4, 0, mode);
        start_many(f.loop, NULL); /* before the loop runs: waits until it does */
        fixture_run(&f);
        wait_many();
        fixture_call(&f, start_many, &f);
        wait_many();
        assert_memory_equal(many.bufs, many.back, sizeof(many.bufs));
        lp_loop_stop(f.loop);
        fixture_join(&f);
        lp_stats_read(f.loop, &stats);
        assert_int_equal(stats.io_submitted, 2 * MANY);
        assert_int_equal(stats.io_completed, 2 * MANY);
        assert_int_equal(stats.io_waiting, 0);
        lp_loop_free(f.loop);
        sem_destroy(&many.done);
        close(many.fd);
}

/* ---- operations that start others, without a pause ------------------------------------------- */

static struct {
        struct lp_io io;
        struct lp_loop *loop;
        char buf[512];
        unsigned left;
        int fd, wrong;
        sem_t done;
} chain;

static void chain_next(struct lp_io *io, int res)
{
        chain.wrong += res != 512;
        if (--chain.left == 0)
                sem_post(&chain.done);
        else if (chain.left % 2 == 0)
                lp_read(chain.loop, io, chain.fd, chain.buf, 512, 0);
        else
                lp_write(chain.loop, io, chain.fd, chain.buf, 512, 0, 0);
}

static void chain_start(struct lp_loop *loop, void *arg)
{
        lp_write(loop, &chain.io, chain.fd, chain.buf, 512, 0, 0);
}

static void test_chain(void **state)
{
        struct fixture f;

        start(&f, 8, 0);
        chain.loop = f.loop;
        chain.fd = open_file(0);
        chain.left = 2000;
        chain.io.done = chain_next;
        sem_init(&chain.done, 0, 0);
        fixture_call(&f, chain_start, NULL);
        fixture_wait(&chain.done, 60);
        fixture_stop(&f);
        assert_int_equal(chain.wrong, 0);
        close(chain.fd);
}

/* ---- completions of every kind meet a loop that falls asleep --------------------------------- */

#define RUNNERS 48u /* more than the kernel posts at one time when it is asked */
#define STEPS   40u

/*
 * Writes, reads and flushes of a file without the page cache, side by side: each completion comes
 * from elsewhere.
 */
static struct runner {
        struct lp_io io;
        unsigned step;
        char *block;
} runners[RUNNERS];

static struct {
        struct lp_loop *loop;
        char *blocks;
        int fd, wrong;
        sem_t done;
} race;

static void runner_next(struct runner *r)
{
        uint64_t offset = (uint64_t)(r - runners) * BLOCK;

        if (r->step == STEPS)
                sem_post(&race.done);
        else if (r->step % 8 == 7 && r < runners + 2) /* a flush is slow: few of them */
                lp_fdatasync(race.loop, &r->io, race.fd);
        else if (r->step % 2 == 0)
                lp_write(race.loop, &r->io, race.fd, r->block, BLOCK, offset, 0);
        else
                lp_read(race.loop, &r->io, race.fd, r->block, BLOCK, offset);
}

static void runner_done(struct lp_io *io, int res)
{
        struct runner *r = (struct runner *)io;

        race.wrong += res != (r->step % 8 == 7 && r < runners + 2 ? 0 : (int)BLOCK);
        r->step++;
        runner_next(r);
}

static void start_runners(struct lp_loop *loop, void *arg)
{
        unsigned i;

        for (i = 0; i < RUNNERS; i++) {
                runners[i] = (struct runner){.io.done = runner_done, .block = race.blocks + i * BLOCK};
                runner_next(&runners[i]);
        }
}

static void test_completions_wake_the_loop(void **state)
{
        struct fixture f;
        unsigned i;

        race.fd = open_file(O_DIRECT);
        if (race.fd < 0)
                skip();
        race.wrong = 0;
        race.blocks = aligned_alloc(BLOCK, RUNNERS * BLOCK);
        assert_non_null(race.blocks);
        memset(race.blocks, 'r', RUNNERS * BLOCK);
        sem_init(&race.done, 0, 0);
        start(&f, 0, 0);
        race.loop = f.loop;
        fixture_call(&f, start_runners, NULL);
        for (i = 0; i < RUNNERS; i++)
                fixture_wait(&race.done, 60);
        fixture_stop(&f);
        assert_int_equal(race.wrong, 0);
        free(race.blocks);
        close(race.fd);
}

/* ---- the end of the loop --------------------------------------------------------------------- */

static struct {
        struct lp_io wait, behind[2];
        int res_wait, res_behind[2], pipe[2];
        struct lp_loop *loop;
        char buf[8];
} ending;

static void ending_behind_done(struct lp_io *io, int res)
{
        ending.res_behind[io - ending.behind] = res;
}

static void ending_wait_done(struct lp_io *io, int res)
{
        ending.res_wait = res;
        lp_read(ending.loop, &ending.behind[1], ending.pipe[0], ending.buf, 8, 0); /* too late: cancelled */
}

static void ending_start(struct lp_loop *loop, void *arg)
{
        lp_read(loop, &ending.wait, ending.pipe[0], ending.buf, 8, (uint64_t)-1);
}

/* I7: the read of an empty pipe is in the kernel; the loop must not end before it has. */
static void test_stop_waits_for_the_kernel(void **state)
{
        struct fixture f;

        start(&f, 0, 0);
        assert_int_equal(pipe(ending.pipe), 0);
        ending.loop = f.loop;
        ending.wait.done = ending_wait_done;
        ending.behind[0].done = ending.behind[1].done = ending_behind_done;
        ending.res_wait = ending.res_behind[0] = ending.res_behind[1] = INT32_MIN;
        fixture_call(&f, ending_start, NULL);
        usleep(10000);
        lp_loop_stop(f.loop);
        usleep(30000);
        assert_int_equal(write(ending.pipe[1], "end", 3), 3);
        fixture_join(&f);
        assert_int_equal(ending.res_wait, 3);
        assert_int_equal(ending.res_behind[1], -ECANCELED);
        lp_read(f.loop, &ending.behind[0], ending.pipe[0], ending.buf, 8, 0);
        assert_int_equal(ending.res_behind[0], INT32_MIN);
        lp_loop_free(f.loop);
        assert_int_equal(ending.res_behind[0], -ECANCELED);
        close(ending.pipe[0]);
        close(ending.pipe[1]);
}

static struct fixture left; /* what the kernel has is never freed: it stays reachable */

/*
 * What never comes back is waited for no longer than that, and the loop that it was begun on is not
 * freed.
 */
static void test_stop_gives_up_in_the_end(void **state)
{
        static struct lp_loop *loops[2];

        start(&left, 0, 0);
        left.loop->ring.drain_ns = 20 * MS;
        loops[mode == LP_RING_PLAIN] = left.loop;
        assert_int_equal(pipe(ending.pipe), 0);
        ending.loop = left.loop;
        ending.wait.done = ending_wait_done;
        ending.res_wait = INT32_MIN;
        fixture_call(&left, ending_start, NULL);
        lp_loop_stop(left.loop);
        pthread_join(left.thread, NULL);
        assert_int_equal(left.result, -ETIMEDOUT);
        assert_int_equal(ending.res_wait, INT32_MIN);
        lp_loop_free(left.loop);
        assert_int_equal(loops[mode == LP_RING_PLAIN]->ring.in_flight, 1); /* it is there still */
        assert_int_equal(write(ending.pipe[1], "end", 3), 3);
}

static void begin_again(struct lp_io *io, int res)
{
        lp_read(ending.loop, io, ending.pipe[0], ending.buf, 8, (uint64_t)-1);
}

static void begin_without_end(struct lp_loop *loop, void *arg)
{
        ending.behind[0].done = begin_again;
        lp_loop_stop(loop);
        lp_read(loop, &ending.behind[0], -1, ending.buf, 8, 0);
}

/* Nor for callbacks that answer each end with a new beginning. */
static void test_stop_ends_what_begins_anew(void **state)
{
        struct fixture f;

        start(&f, 0, 0);
        f.loop->ring.drain_ns = 20 * MS;
        assert_int_equal(pipe(ending.pipe), 0);
        ending.loop = f.loop;
        fixture_call(&f, begin_without_end, NULL);
        pthread_join(f.thread, NULL);
        assert_int_equal(f.result, -ETIMEDOUT);
        ending.behind[0].done = ending_behind_done;
        lp_loop_free(f.loop);
        close(ending.pipe[0]);
        close(ending.pipe[1]);
}

static int both_modes(const struct CMUnitTest *tests, size_t count)
{
        int failed;

        mode = LP_RING_DEFERRED;
        failed = _cmocka_run_group_tests("deferred", tests, count, NULL, NULL);
        mode = LP_RING_PLAIN;
        return failed + _cmocka_run_group_tests("plain", tests, count, NULL, NULL);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_write_sync_read),           cmocka_unit_test(test_errors),
                cmocka_unit_test(test_direct_from_slot),          cmocka_unit_test(test_slot_unregistered),
                cmocka_unit_test(test_more_than_the_ring_holds),  cmocka_unit_test(test_chain),
                cmocka_unit_test(test_completions_wake_the_loop), cmocka_unit_test(test_stop_waits_for_the_kernel),
                cmocka_unit_test(test_stop_gives_up_in_the_end),  cmocka_unit_test(test_stop_ends_what_begins_anew),
        };
        return both_modes(tests, sizeof(tests) / sizeof(tests[0]));
}
