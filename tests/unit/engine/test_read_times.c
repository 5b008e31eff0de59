/*
 * test_read_times.c - when a read is late, which drives are slow, and how many extra reads there may be. The
 * test makes the time.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "engine/base/read_times.h"

#define MS     1000000ull
#define DRIVES 8u

static struct eng_read_times times;
static uint64_t now;

static int begin(void **state)
{
        times = (struct eng_read_times){.looked = 0};
        now = 1000 * MS;
        return 0;
}

/* Each drive is read so often, the first `slow` ones take slow_ns. */
static void rounds(unsigned count, unsigned slow, uint64_t ns, uint64_t slow_ns)
{
        unsigned i;

        for (; count > 0; count--, now += 5 * MS)
                for (i = 0; i < DRIVES; i++)
                        eng_read_times_add(&times, i, i < slow ? slow_ns : ns, now);
}

static void test_nothing_is_known(void **state)
{
        assert_int_equal(eng_read_late_ns(&times), ENG_LATE_LEAST_NS);
        assert_false(eng_read_is_slow(&times, 0));
}

/* Quick drives: the least. Slow ones all: what their hundredth takes, not more than twice that. */
static void test_late(void **state)
{
        rounds(500, 0, MS, MS);
        assert_int_equal(eng_read_late_ns(&times), ENG_LATE_LEAST_NS);
        rounds(3000, 0, 100 * MS, 0);
        assert_in_range(eng_read_late_ns(&times), 65 * MS, 200 * MS);
        assert_false(eng_read_is_slow(&times, 0));
}

/* Some slow drives do not change when a read is late, and are known soon. */
static void test_some_are_slow(void **state)
{
        rounds(200, 0, 10 * MS, 0);
        rounds(8, 3, 10 * MS, 200 * MS);
        assert_true(eng_read_is_slow(&times, 0) && eng_read_is_slow(&times, 2));
        assert_false(eng_read_is_slow(&times, 3));
        rounds(500, 3, 10 * MS, 200 * MS);
        assert_int_equal(eng_read_late_ns(&times), ENG_LATE_LEAST_NS);
        assert_true(eng_read_is_slow(&times, 0));
        rounds(500, 0, 10 * MS, 0);
        assert_false(eng_read_is_slow(&times, 0));
}

/* One that is not read because it is slow is tried again after some seconds. */
static void test_is_forgiven(void **state)
{
        unsigned i, turns;

        rounds(200, 1, MS, 400 * MS);
        assert_true(eng_read_is_slow(&times, 0));
        for (turns = 0; eng_read_is_slow(&times, 0); turns++, now += 100 * MS) {
                assert_true(turns < 100);
                for (i = 1; i < DRIVES; i++)
                        eng_read_times_add(&times, i, MS, now);
        }
        assert_in_range(turns, 10, 100);
        eng_read_times_add(&times, 0, 400 * MS, now);
        assert_true(eng_read_is_slow(&times, 0));
}

/* At once so many, and then one in 20. */
static void test_extra_reads(void **state)
{
        unsigned i, extra = 0, reads = 0;

        for (i = 0; i < ENG_EXTRA_AT_ONCE; i++)
                assert_true(eng_read_times_spend(&times, 1));
        assert_false(eng_read_times_spend(&times, 1));
        for (i = 0; i < 1000; i++) {
                rounds(1, 0, MS, MS);
                reads += DRIVES;
                extra += eng_read_times_spend(&times, 1);
        }
        assert_in_range(extra, reads / ENG_EXTRA_SHARE - 1, reads / ENG_EXTRA_SHARE);
        assert_false(eng_read_times_spend(&times, ENG_EXTRA_AT_ONCE + 1));
}

/* Any numbers: nothing overflows, and it takes a bounded time to say so. */
static void test_any_times(void **state)
{
        static const uint64_t any[] = {0, 1, 999, MS, 134218 * MS, UINT64_MAX / 2, 20 * MS};
        unsigned i;

        for (i = 0; i < 100000; i++, now += any[i % 7] % (300 * MS))
                eng_read_times_add(&times, i % ENG_DRIVES_MAX, any[(i / 3) % 7], now);
        assert_true(eng_read_late_ns(&times) >= ENG_LATE_LEAST_NS);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup(test_nothing_is_known, begin),
                cmocka_unit_test_setup(test_late, begin),
                cmocka_unit_test_setup(test_some_are_slow, begin),
                cmocka_unit_test_setup(test_is_forgiven, begin),
                cmocka_unit_test_setup(test_extra_reads, begin),
                cmocka_unit_test_setup(test_any_times, begin),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
