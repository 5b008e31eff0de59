/*
 * test_times.c - histograms of times: where each time is counted, and what a reader on another
 * thread may rely on.
 */
#include "tests/unit/loop/loop_fixture.h"

#include "include/loop_times.h"

static void test_every_time_is_within_its_bounds(void **state)
{
        const uint64_t longest = lp_time_bound_ns(LP_TIME_BUCKETS - 2);
        uint64_t ns;

        for (ns = 0; ns < 3 * longest; ns += ns / 64 + 1) {
                unsigned bucket = lp_time_bucket(ns);

                assert_true(bucket < LP_TIME_BUCKETS);
                assert_true(ns <= lp_time_bound_ns(bucket));
                assert_true(bucket == 0 || ns > lp_time_bound_ns(bucket - 1));
        }
        assert_int_equal(lp_time_bucket(UINT64_MAX), LP_TIME_BUCKETS - 1);
}

static void test_bounds_are_powers_of_two(void **state)
{
        unsigned i;

        assert_int_equal(lp_time_bound_ns(0), 1000);
        for (i = 1; i < LP_TIME_BUCKETS - 1; i++) {
                assert_int_equal(lp_time_bound_ns(i), 2 * lp_time_bound_ns(i - 1));
                assert_int_equal(lp_time_bucket(lp_time_bound_ns(i)), i);
                assert_int_equal(lp_time_bucket(lp_time_bound_ns(i) + 1), i + 1);
        }
        assert_true(lp_time_bound_ns(LP_TIME_BUCKETS - 1) == UINT64_MAX);
}

static void test_what_was_counted_adds_up(void **state)
{
        static struct lp_times a, b;
        struct lp_histogram sum = {0};

        lp_times_add(&a, 0);
        lp_times_add(&a, 1001);
        lp_times_add(&b, 2000);
        lp_times_add(&b, 500ull * 1000 * 1000 * 1000);
        lp_times_sum(&a, &sum);
        lp_times_sum(&b, &sum);
        assert_int_equal(lp_histogram_count(&sum), 4);
        assert_int_equal(sum.count[0], 1);
        assert_int_equal(sum.count[1], 2);
        assert_int_equal(sum.count[LP_TIME_BUCKETS - 1], 1);
        assert_true(sum.sum_ns == 500ull * 1000 * 1000 * 1000 + 3001);
}

#define ADDED 200000u

static void *count_many(void *arg)
{
        unsigned i;

        for (i = 0; i < ADDED; i++)
                lp_times_add(arg, i);
        return NULL;
}

/* A reader on another thread sees numbers that only grow, and all of them in the end. */
static void test_read_while_counting(void **state)
{
        static struct lp_times times;
        uint64_t last = 0, count = 0;
        pthread_t thread;

        assert_int_equal(pthread_create(&thread, NULL, count_many, &times), 0);
        while (count < ADDED) {
                struct lp_histogram now = {0};

                lp_times_sum(&times, &now);
                count = lp_histogram_count(&now);
                assert_true(count >= last);
                last = count;
        }
        pthread_join(thread, NULL);
        assert_int_equal(count, ADDED);
}

static void test_clock_is_on_the_scale_of_the_loops(void **state)
{
        struct lp_config config = {0};
        struct lp_loop *loop;
        uint64_t before = lp_clock(), now;

        assert_int_equal(lp_loop_new(&config, &loop), 0);
        now = lp_now(loop);
        assert_true(before <= now && now <= lp_clock());
        lp_loop_free(loop);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_every_time_is_within_its_bounds),
                cmocka_unit_test(test_bounds_are_powers_of_two),
                cmocka_unit_test(test_what_was_counted_adds_up),
                cmocka_unit_test(test_read_while_counting),
                cmocka_unit_test(test_clock_is_on_the_scale_of_the_loops),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
