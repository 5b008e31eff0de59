/*
 * test_timer.c - order, stop and restart of timers, also from inside callbacks; the heap against a
 * plain list.
 */
#include "tests/unit/loop/loop_fixture.h"

#define TIMERS 200

struct probe {
        struct lp_timer timer;
        unsigned id, ran;
};

static struct lp_loop *loop;
static struct probe probes[TIMERS];
static unsigned order[4 * TIMERS], ran;

static void note(struct lp_timer *timer)
{
        struct probe *probe = (struct probe *)timer;

        assert_int_equal(timer->armed, 0);
        probe->ran++;
        order[ran++] = probe->id;
}

static int make_loop(void **state)
{
        struct lp_config config = {0};
        unsigned i;

        memset(probes, 0, sizeof(probes));
        for (i = 0; i < TIMERS; i++) {
                probes[i].id = i;
                probes[i].timer.expired = note;
        }
        ran = 0;
        return lp_loop_new(&config, &loop);
}

static int free_loop(void **state)
{
        lp_loop_free(loop);
        return 0;
}

static void start(unsigned i, uint64_t delay)
{
        lp_timer_start(loop, &probes[i].timer, delay);
}

/* Runs what is due, as a round at that moment would. */
static void at(uint64_t deadline)
{
        lp_timers_expire(&loop->timers, deadline);
}

/* ---- order ----------------------------------------------------------------------------------- */

static void test_order_of_deadlines(void **state)
{
        start(0, 30000 * MS);
        start(1, 10000 * MS);
        start(2, 20000 * MS);
        assert_true(lp_timers_next(&loop->timers) == probes[1].timer.deadline);
        at(probes[1].timer.deadline - 1);
        assert_int_equal(ran, 0);
        at(probes[2].timer.deadline);
        assert_int_equal(ran, 2);
        at(UINT64_MAX - 1);
        assert_int_equal(ran, 3);
        assert_int_equal(order[0], 1);
        assert_int_equal(order[1], 2);
        assert_int_equal(order[2], 0);
        assert_true(lp_timers_next(&loop->timers) == UINT64_MAX);
        at(UINT64_MAX);
        assert_int_equal(ran, 3);
}

static void test_same_deadline_in_order_of_start(void **state)
{
        unsigned i;

        for (i = 0; i < TIMERS; i++)
                start(i, UINT64_MAX); /* too far for the clock: clipped, not wrapped */
        at(UINT64_MAX - 1);
        assert_int_equal(ran, 0);
        at(UINT64_MAX);
        assert_int_equal(ran, TIMERS);
        for (i = 0; i < TIMERS; i++)
                assert_int_equal(order[i], i);
}

/* ---- stop and restart ------------------------------------------------------------------------ */

static void test_stop_and_restart(void **state)
{
        lp_timer_stop(loop, &probes[0].timer); /* never started */
        start(0, 1000 * MS);
        start(1, 2000 * MS);
        start(2, 3000 * MS);
        lp_timer_stop(loop, &probes[1].timer);
        lp_timer_stop(loop, &probes[1].timer);
        start(0, 9000 * MS); /* later than it was */
        start(2, 500 * MS);  /* sooner */
        at(UINT64_MAX - 1);
        assert_int_equal(ran, 2);
        assert_int_equal(order[0], 2);
        assert_int_equal(order[1], 0);
        start(1, 0);
        at(UINT64_MAX - 1);
        assert_int_equal(order[2], 1);
}

static void restart_and_note(struct lp_timer *timer)
{
        note(timer);
        lp_timer_start(loop, timer, 0);
}

/* A timer that starts itself without delay runs once a round. */
static void test_restart_in_callback_waits_for_next_round(void **state)
{
        probes[0].timer.expired = restart_and_note;
        start(0, 0);
        start(1, 0);
        at(lp_now(loop));
        assert_int_equal(ran, 2);
        at(lp_now(loop));
        assert_int_equal(ran, 3);
        lp_timer_stop(loop, &probes[0].timer);
}

static void stop_others(struct lp_timer *timer)
{
        note(timer);
        lp_timer_stop(loop, timer); /* itself: harmless */
        lp_timer_stop(loop, &probes[1].timer);
        lp_timer_stop(loop, &probes[2].timer);
        start(3, 3600 * 1000 * MS);
}

/* Two that are due as well are stopped, one is put off. */
static void test_stop_in_callback(void **state)
{
        unsigned i;

        probes[0].timer.expired = stop_others;
        for (i = 0; i < 5; i++)
                start(i, i);
        at(lp_now(loop) + 1000 * MS);
        assert_int_equal(ran, 2);
        assert_int_equal(order[0], 0);
        assert_int_equal(order[1], 4);
        assert_int_equal(probes[3].ran, 0);
        assert_int_not_equal(probes[3].timer.armed, 0);
}

/* ---- the heap against a plain list ----------------------------------------------------------- */

/* Below a node: none is sooner, and each knows what it hangs on. Returns how many. */
static unsigned check_below(const struct lp_timer *node)
{
        const struct lp_timer *child, *before = node;
        unsigned count = 1;

        assert_int_equal(node->armed, 1);
        for (child = node->child; child != NULL; before = child, child = child->next) {
                assert_ptr_equal(child->prev, before);
                assert_true(child->deadline > node->deadline ||
                            (child->deadline == node->deadline && child->number > node->number));
                count += check_below(child);
        }
        return count;
}

static void check_heap(void)
{
        unsigned i, armed = 0;

        for (i = 0; i < TIMERS; i++)
                armed += probes[i].timer.armed != 0;
        assert_int_equal(loop->timers.first == NULL ? 0 : check_below(loop->timers.first), armed);
}

static void test_random_starts_and_stops(void **state)
{
        const char *given = getenv("MILLRACE_TEST_SEED");
        unsigned seed = given != NULL ? (unsigned)atoi(given) : (unsigned)time(NULL);
        unsigned step, i, armed = 0;

        printf("MILLRACE_TEST_SEED=%u\n", seed);
        for (step = 0; step < 20000; step++) {
                i = (unsigned)rand_r(&seed) % TIMERS;
                if (rand_r(&seed) % 3 == 0)
                        lp_timer_stop(loop, &probes[i].timer);
                else
                        start(i, (unsigned)rand_r(&seed) % 1000 * MS);
                if (step % 64 == 0)
                        check_heap();
        }
        for (i = 0; i < TIMERS; i++)
                armed += probes[i].timer.armed != 0;
        at(UINT64_MAX - 1);
        assert_int_equal(ran, armed);
        for (i = 1; i < ran; i++)
                assert_true(probes[order[i - 1]].timer.deadline <= probes[order[i]].timer.deadline);
}

/* ---- on a running loop ----------------------------------------------------------------------- */

static struct {
        struct lp_timer timer;
        uint64_t started, expired;
        sem_t done;
} real;

static uint64_t clock_ns(void)
{
        struct timespec t;

        clock_gettime(CLOCK_MONOTONIC, &t);
        return (uint64_t)t.tv_sec * 1000 * MS + (uint64_t)t.tv_nsec;
}

static void real_expired(struct lp_timer *timer)
{
        real.expired = clock_ns();
        assert_true(lp_now(lp_self()) >= timer->deadline);
        sem_post(&real.done);
}

static void real_start(struct lp_loop *on, void *arg)
{
        real.started = lp_now(on);
        lp_timer_start(on, &real.timer, 20 * MS);
}

static void test_running(void **state)
{
        struct lp_stats before, after;
        struct fixture f;

        real.timer.expired = real_expired;
        sem_init(&real.done, 0, 0);
        fixture_start(&f, 0, 0);
        fixture_call(&f, real_start, NULL);
        lp_stats_read(f.loop, &before);
        fixture_wait(&real.done, 30);
        lp_stats_read(f.loop, &after);
        assert_true(real.expired - real.started >= 20 * MS);
        assert_true(after.rounds - before.rounds <= 4); /* it slept */
        fixture_stop(&f);
}

/* Started before the loop runs, counted from then. */
static void test_started_before_run(void **state)
{
        struct fixture f;

        real.timer.expired = real_expired;
        sem_init(&real.done, 0, 0);
        fixture_make(&f, 0, 0, LP_RING_DEFERRED);
        usleep(20000);
        real_start(f.loop, NULL);
        fixture_run(&f);
        fixture_wait(&real.done, 30);
        assert_true(real.expired - real.started >= 20 * MS);
        fixture_stop(&f);
}

/* The loop has ended: who is taken apart first frees timers that are armed, and others are stopped and started after that. */
static void test_after_run(void **state)
{
        struct probe *gone[50];
        unsigned i;

        for (i = 0; i < 50; i++) {
                gone[i] = calloc(1, sizeof(*gone[i]));
                gone[i]->timer.expired = note;
                start(2 * i, (100 - i) * MS * 1000);
                lp_timer_start(loop, &gone[i]->timer, (50 + i) * MS * 1000);
                start(2 * i + 1, i * MS * 1000 + MS * 1000);
        }
        lp_loop_stop(loop);
        assert_int_equal(lp_loop_run(loop), 0);
        for (i = 0; i < 50; i++)
                free(gone[i]);
        for (i = 0; i < 100; i++) {
                lp_timer_stop(loop, &probes[i].timer);
                assert_int_equal(probes[i].timer.armed, 0);
                if (i % 2 == 0)
                        start(i, 0);
                lp_timer_stop(loop, &probes[i].timer);
        }
        at(UINT64_MAX);
        assert_int_equal(ran, 0);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(test_order_of_deadlines, make_loop, free_loop),
                cmocka_unit_test_setup_teardown(test_same_deadline_in_order_of_start, make_loop, free_loop),
                cmocka_unit_test_setup_teardown(test_stop_and_restart, make_loop, free_loop),
                cmocka_unit_test_setup_teardown(test_restart_in_callback_waits_for_next_round, make_loop, free_loop),
                cmocka_unit_test_setup_teardown(test_stop_in_callback, make_loop, free_loop),
                cmocka_unit_test_setup_teardown(test_random_starts_and_stops, make_loop, free_loop),
                cmocka_unit_test_setup_teardown(test_after_run, make_loop, free_loop),
                cmocka_unit_test(test_running),
                cmocka_unit_test(test_started_before_run),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
