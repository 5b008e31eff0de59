/*
 * test_loop.c - watches, hooks, the life of a loop, what fails when it is made.
 */
#include "tests/unit/loop/loop_fixture.h"

#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/wait.h>

/* These take the place of libc's; the allocation number fail_at, counted from 1, fails. */
static unsigned fail_at, allocations;

static bool fails(void)
{
        return fail_at != 0 && ++allocations == fail_at;
}

void *aligned_alloc(size_t alignment, size_t size)
{
        void *ptr = NULL;

        return fails() || posix_memalign(&ptr, alignment, size) != 0 ? NULL : ptr;
}

#ifndef __SANITIZE_THREAD__ /* it calls calloc() for threads it does not know yet */
void *calloc(size_t count, size_t size)
{
        void *ptr = NULL;
        size_t all;

        if (fails() || __builtin_mul_overflow(count, size, &all))
                return NULL;
        if (posix_memalign(&ptr, 16, all) != 0) /* of malloc() and memset() the compiler would make a calloc() */
                return NULL;
        return memset(ptr, 0, all);
}
#endif

static unsigned yields; /* looked at when the loop has ended */

int sched_yield(void)
{
        yields++;
        return 0;
}

/* ---- watches --------------------------------------------------------------------------------- */

#define WATCHES (LP_EVENTS * 2)

static struct probe {
        struct lp_watch watch;
        struct probe *victim; /* removed by this one's callback */
        unsigned ran;
        uint32_t events;
} probes[WATCHES];
static sem_t all_ran;

static void probe_ready(struct lp_watch *watch, uint32_t events)
{
        struct probe *probe = (struct probe *)watch;

        probe->ran++;
        probe->events = events;
        lp_watch_remove(lp_self(), watch);
        if (probe->victim != NULL) {
                lp_watch_remove(lp_self(), &probe->victim->watch);
                probe->victim->watch.ready = NULL; /* a call would crash */
        }
        sem_post(&all_ran);
}

static void probes_make(unsigned count, unsigned value)
{
        unsigned i;

        sem_init(&all_ran, 0, 0);
        for (i = 0; i < count; i++) {
                probes[i] = (struct probe){.watch.ready = probe_ready};
                probes[i].watch.fd = eventfd(value, EFD_NONBLOCK | EFD_CLOEXEC);
                assert_true(probes[i].watch.fd >= 0);
        }
}

static void probes_add(struct lp_loop *loop, void *arg)
{
        unsigned count = *(unsigned *)arg, i;

        for (i = 0; i < count; i++)
                assert_int_equal(lp_watch_add(loop, &probes[i].watch, EPOLLIN), 0);
}

static void probes_close(unsigned count)
{
        unsigned i;

        for (i = 0; i < count; i++)
                close(probes[i].watch.fd);
}

/* More are ready at once than a round takes. */
static void test_watches(void **state)
{
        unsigned count = WATCHES, i;
        struct fixture f;

        probes_make(count, 1);
        fixture_make(&f, 0, 0, LP_RING_DEFERRED);
        probes_add(f.loop, &count); /* before it runs */
        fixture_run(&f);
        for (i = 0; i < count; i++)
                fixture_wait(&all_ran, 30);
        fixture_stop(&f);
        for (i = 0; i < count; i++) {
                assert_int_equal(probes[i].ran, 1);
                assert_int_equal(probes[i].events, EPOLLIN);
        }
        probes_close(count);
}

static void ignore(struct lp_loop *loop, void *arg)
{
}

/*
 * Both are ready in one round; the first removes the second, or the second the first, whichever
 * comes first.
 */
static void test_removed_while_its_event_waits(void **state)
{
        unsigned count = 2;
        struct fixture f;

        probes_make(count, 1);
        probes[0].victim = &probes[1];
        probes[1].victim = &probes[0];
        fixture_start(&f, 0, 0);
        fixture_call(&f, probes_add, &count);
        fixture_wait(&all_ran, 30);
        fixture_call(&f, ignore, NULL);
        fixture_stop(&f);
        assert_int_equal(probes[0].ran + probes[1].ran, 1);
        probes_close(count);
}

static void count_and_stay(struct lp_watch *watch, uint32_t events)
{
        if (++((struct probe *)watch)->ran == 3)
                probe_ready(watch, events);
}

/* What was not read is told again. */
static void test_watch_is_level_triggered(void **state)
{
        unsigned count = 1;
        struct fixture f;

        probes_make(count, 1);
        probes[0].watch.ready = count_and_stay;
        fixture_start(&f, 0, 0);
        fixture_call(&f, probes_add, &count);
        fixture_wait(&all_ran, 30);
        fixture_stop(&f);
        assert_int_equal(probes[0].ran, 4);
        probes_close(count);
}

static void test_watch_errors(void **state)
{
        struct lp_watch watch = {.fd = -1, .ready = probe_ready};
        struct fixture f;
        FILE *file;

        fixture_make(&f, 0, 0, LP_RING_DEFERRED);
        assert_int_equal(lp_watch_add(f.loop, &watch, EPOLLIN), -EBADF);
        lp_watch_remove(f.loop, &watch);
        file = tmpfile();
        assert_non_null(file);
        watch.fd = fileno(file);
        assert_int_equal(lp_watch_add(f.loop, &watch, EPOLLIN), -EPERM);
        fclose(file);
        watch.fd = eventfd(0, EFD_CLOEXEC);
        assert_int_equal(lp_watch_add(f.loop, &watch, EPOLLIN), 0);
        assert_int_equal(lp_watch_add(f.loop, &watch, EPOLLIN), -EEXIST);
        close(watch.fd);
        lp_loop_free(f.loop);
}

/* ---- hooks ----------------------------------------------------------------------------------- */

static struct {
        struct lp_hook first, second;
        uint64_t longest;
        unsigned calls, wrong, until;
        bool loop_gives_way;
        sem_t done;
} hooks;

static uint64_t run_first(struct lp_hook *hook)
{
        hooks.wrong += hooks.calls++ % 2 != 0;
        return UINT64_MAX;
}

static uint64_t run_second(struct lp_hook *hook)
{
        hooks.wrong += hooks.calls++ % 2 != 1;
        if (hooks.calls == hooks.until)
                sem_post(&hooks.done);
        return hooks.calls < hooks.until ? hooks.longest : UINT64_MAX;
}

static void run_hooks_with(uint64_t longest, unsigned until)
{
        struct lp_stats stats;
        struct fixture f;

        hooks.first.before_sleep = run_first;
        hooks.second.before_sleep = run_second;
        hooks.calls = hooks.wrong = 0;
        hooks.longest = longest;
        hooks.until = until;
        sem_init(&hooks.done, 0, 0);
        fixture_make(&f, 0, 0, LP_RING_DEFERRED);
        f.loop->gives_way = hooks.loop_gives_way;
        lp_hook_add(f.loop, &hooks.first);
        lp_hook_add(f.loop, &hooks.second);
        fixture_run(&f);
        fixture_wait(&hooks.done, 30);
        lp_loop_stop(f.loop);
        fixture_join(&f);
        lp_stats_read(f.loop, &stats);
        lp_loop_free(f.loop);
        assert_int_equal(hooks.wrong, 0);
        assert_int_equal(hooks.calls, 2 * stats.rounds);
}

static void test_hooks(void **state)
{
        run_hooks_with(0, 200);        /* no sleep at all */
        run_hooks_with(2 * MS, 6);     /* short sleeps */
        run_hooks_with(UINT64_MAX, 2); /* sleeps until the stop */
        assert_true(hooks.calls <= 6);
}

/*
 * Whoever else wants the processor has it between rounds without sleep, and only of a loop that was
 * made so.
 */
static void test_gives_way(void **state)
{
        struct lp_config config = {.gives_way = true};
        struct lp_loop *loop;

        assert_int_equal(lp_loop_new(&config, &loop), 0);
        assert_true(loop->gives_way);
        lp_loop_free(loop);
        yields = 0;
        run_hooks_with(0, 200);
        assert_int_equal(yields, 0);
        hooks.loop_gives_way = true;
        run_hooks_with(0, 200);
        assert_int_equal(yields, 99); /* of 100 rounds the last one sleeps */
        run_hooks_with(UINT64_MAX, 2);
        assert_int_equal(yields, 99);
        hooks.loop_gives_way = false;
}

/* A message posted by a hook is run, though the hook is the last thing in a round. */
static void run_hook_message(struct lp_msg *msg)
{
        sem_post(&hooks.done);
}

static struct lp_msg hook_message = {.run = run_hook_message};

static uint64_t post_once(struct lp_hook *hook)
{
        if (hooks.calls++ == 0)
                lp_post(lp_self(), &hook_message);
        return UINT64_MAX;
}

static void test_hook_posts(void **state)
{
        struct fixture f;

        hooks.calls = 0;
        hooks.first.before_sleep = post_once;
        sem_init(&hooks.done, 0, 0);
        fixture_make(&f, 0, 0, LP_RING_DEFERRED);
        lp_hook_add(f.loop, &hooks.first);
        fixture_run(&f);
        fixture_wait(&hooks.done, 30);
        fixture_stop(&f);
}

/* ---- life ------------------------------------------------------------------------------------ */

static void look_at_self(struct lp_loop *loop, void *arg)
{
        char name[16] = "";

        assert_ptr_equal(lp_self(), *(struct lp_loop **)arg);
        assert_int_equal(lp_index(loop), 7);
        pthread_getname_np(pthread_self(), name, sizeof(name));
        assert_string_equal(name, "loop-7");
}

static void test_self(void **state)
{
        struct fixture f;

        assert_null(lp_self());
        fixture_start(&f, 0, 0);
        fixture_call(&f, look_at_self, &f.loop);
        fixture_stop(&f);
        assert_null(lp_self());
}

static void test_stop_before_run(void **state)
{
        struct fixture f;

        fixture_make(&f, 0, 0, LP_RING_DEFERRED);
        lp_loop_stop(f.loop);
        fixture_run(&f);
        fixture_join(&f);
        lp_loop_free(f.loop);
}

static void stop_itself(struct lp_loop *loop, void *arg)
{
        lp_loop_stop(loop);
}

static void test_stop_from_inside(void **state)
{
        struct fixture f;
        unsigned i;

        for (i = 0; i < 100; i++) {
                fixture_start(&f, 8, 0);
                fixture_call(&f, stop_itself, NULL);
                fixture_join(&f);
                lp_loop_free(f.loop);
        }
}

/* The stop meets the loop at its start, asleep, or on its way to sleep. */
static void test_stop_races(void **state)
{
        struct fixture f;
        unsigned i;

        for (i = 0; i < 200; i++) {
                fixture_start(&f, 8, 0);
                if (i % 4 != 0)
                        usleep(i * 2);
                fixture_stop(&f);
        }
}

/* The thread that made a loop may run it too. */
static void test_run_on_first_thread(void **state)
{
        char before[16], after[16];
        struct fixture f;

        pthread_getname_np(pthread_self(), before, sizeof(before));
        fixture_make(&f, 0, 0, LP_RING_DEFERRED);
        lp_loop_stop(f.loop);
        assert_int_equal(lp_loop_run(f.loop), 0);
        pthread_getname_np(pthread_self(), after, sizeof(after));
        assert_string_equal(before, after);
        assert_null(lp_self());
        lp_loop_free(f.loop);
}

static struct {
        struct lp_msg msg;
        struct lp_io io;
        struct lp_loop *loop;
        int res, ran;
} unrun;

static void unrun_done(struct lp_io *io, int res)
{
        unrun.res = res;
}

static void unrun_message(struct lp_msg *msg)
{
        unrun.ran++;
        unrun.io.done = unrun_done;
        lp_fdatasync(unrun.loop, &unrun.io, -1);
}

static void test_free_of_a_loop_that_never_ran(void **state)
{
        struct fixture f;

        fixture_make(&f, 0, 3, LP_RING_DEFERRED);
        unrun.msg.run = unrun_message;
        unrun.loop = f.loop;
        lp_post(f.loop, &unrun.msg);
        lp_loop_free(f.loop);
        assert_int_equal(unrun.ran, 1);
        assert_int_equal(unrun.res, -ECANCELED);
}

/* ---- what fails ------------------------------------------------------------------------------ */

static void test_no_descriptors_left(void **state)
{
        struct lp_config config = {.slots = 3};
        struct rlimit old, low;
        struct lp_loop *loop;
        int fd, i, rv;

        assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
        fd = dup(0); /* the first free number */
        assert_true(fd >= 0);
        close(fd);
        for (i = 0; i < 3; i++) { /* eventfd, epoll, io_uring */
                low = (struct rlimit){(rlim_t)(fd + i), old.rlim_max};
                assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
                rv = lp_loop_new(&config, &loop);
                assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
                assert_int_equal(rv, -EMFILE);
                assert_int_equal(dup(0), fd); /* nothing left open */
                close(fd);
        }
}

#ifndef __SANITIZE_THREAD__
/*
 * Each allocation fails in turn. The last is the list of buffers to register, without which the
 * loop works too. Not under TSan, which calls calloc() for threads that it does not know yet.
 */
static void test_no_memory(void **state)
{
        struct lp_config config = {.slots = 3};
        struct lp_loop *loop;
        bool fixed;
        int rv, at;

        for (at = 1; at <= 4; at++) {
                allocations = 0;
                fail_at = (unsigned)at;
                rv = lp_loop_new(&config, &loop);
                fail_at = 0;
                if (at < 4) { /* the loop, the idle slots, the drawn ones */
                        assert_int_equal(rv, -ENOMEM);
                        continue;
                }
                assert_int_equal(rv, 0);
                fixed = loop->ring.fixed;
                lp_loop_free(loop);
                assert_false(fixed);
        }
}
#endif

static void test_too_many_ring_entries_are_clipped(void **state)
{
        struct lp_config config = {.ring_entries = 1u << 20};
        struct lp_loop *loop;

        assert_int_equal(lp_loop_new(&config, &loop), 0);
        assert_true(loop->ring.capacity < 1u << 20);
        lp_loop_free(loop);
}

/*
 * In a child that may lock enough memory for the ring but not for the slots: no registered buffers.
 */
static int child_without_locked_memory(void)
{
        const struct rlimit little = {1 << 19, 1 << 19};
        struct lp_config config = {.slots = 3};
        struct lp_loop *loop;
        bool fixed;

        if (setrlimit(RLIMIT_MEMLOCK, &little) != 0 || setresuid(65534, 65534, 65534) != 0)
                return 77;
        if (lp_loop_new(&config, &loop) != 0)
                return 1;
        fixed = loop->ring.fixed;
        lp_loop_free(loop);
        return fixed ? 2 : 0;
}

static void test_no_locked_memory(void **state)
{
        int status = 0;
        pid_t pid;

        if (geteuid() != 0)
                skip();
        pid = fork();
        if (pid == 0)
                _exit(child_without_locked_memory());
        assert_true(pid > 0);
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFEXITED(status));
        if (WEXITSTATUS(status) == 77)
                skip();
        assert_int_equal(WEXITSTATUS(status), 0);
}

/* ---- clocks and chance ----------------------------------------------------------------------- */

static void test_clocks(void **state)
{
        struct fixture f;
        uint64_t before;
        int64_t wall = lp_wall_ms();

        assert_true(wall / 1000 >= (int64_t)time(NULL) - 1 && wall / 1000 <= (int64_t)time(NULL) + 1);
        fixture_make(&f, 0, 0, LP_RING_DEFERRED);
        before = lp_now(f.loop);
        usleep(1000);
        assert_true(lp_now(f.loop) >= before + MS);
        lp_loop_free(f.loop);
}

static void test_random(void **state)
{
        static uint8_t a[100000], b[100000];
        unsigned ones = 0, i;

        lp_random(a, 0);
        lp_random(a, sizeof(a));
        lp_random(b, sizeof(b));
        assert_memory_not_equal(a, b, sizeof(a));
        for (i = 0; i < sizeof(a); i++)
                ones += (unsigned)__builtin_popcount(a[i]);
        assert_in_range(ones, 390000, 410000); /* 22 standard deviations */
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_no_locked_memory), /* forks: before there are threads */
                cmocka_unit_test(test_watches),
                cmocka_unit_test(test_removed_while_its_event_waits),
                cmocka_unit_test(test_watch_is_level_triggered),
                cmocka_unit_test(test_watch_errors),
                cmocka_unit_test(test_hooks),
                cmocka_unit_test(test_gives_way),
                cmocka_unit_test(test_hook_posts),
                cmocka_unit_test(test_self),
                cmocka_unit_test(test_stop_before_run),
                cmocka_unit_test(test_stop_from_inside),
                cmocka_unit_test(test_stop_races),
                cmocka_unit_test(test_run_on_first_thread),
                cmocka_unit_test(test_free_of_a_loop_that_never_ran),
                cmocka_unit_test(test_no_descriptors_left),
#ifndef __SANITIZE_THREAD__
                cmocka_unit_test(test_no_memory),
#endif
                cmocka_unit_test(test_too_many_ring_entries_are_clipped),
                cmocka_unit_test(test_clocks),
                cmocka_unit_test(test_random),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
