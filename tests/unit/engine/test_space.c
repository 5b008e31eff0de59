/*
 * test_space.c - sizes that follow from that of the file system: segments stay few, and reclaim of
 * one always has room.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "engine/drive/drive.h"
#include "engine/drive/logfile.h"
#include "engine/drive/segment.h"

#define GIB (1ull << 30)
#define TB  1000000000000ull

static void test_sizes(void **state)
{
        uint64_t total, segment, reserve;

        assert_int_equal(eng_log_file_size(0, 4096 * GIB), ENG_LOG_BYTES_DEFAULT);
        assert_int_equal(eng_log_file_size(0, 20 * TB), GIB / 2);
        assert_int_equal(eng_log_file_size(0, 1000 * TB), GIB); /* beyond that their number grows */
        assert_int_equal(eng_segment_size(0, 4096 * GIB, GIB), GIB / 4);
        assert_int_equal(eng_segment_size(0, 20 * TB, eng_reserve_size(0, 20 * TB)), 2 * GIB);
        assert_int_equal(eng_reserve_size(0, 10 * GIB), GIB / 2);
        assert_int_equal(eng_reserve_size(0, 1 * TB), GIB);
        for (total = GIB; total < 60 * TB; total += total / 3) {
                reserve = eng_reserve_size(0, total);
                segment = eng_segment_size(0, total, reserve);
                assert_true(total / segment <= 16384);
                assert_true(total / eng_log_file_size(0, total) <= 65536);
                assert_true(eng_log_file_size(0, total) == ENG_LOG_BYTES_DEFAULT || eng_log_file_size(0, total) <= reserve / 2);
                assert_true(segment == ENG_SEGMENT_BYTES_DEFAULT || segment <= reserve / 2);
                assert_true(segment % FMT_BLOCK == 0);
        }
        assert_int_equal(eng_segment_size(0, 1000 * TB, 100 * GIB), 4 * GIB); /* beyond that their number grows */
}

/* What was set counts; a segment that was not is at most half of a reserve that was. */
static void test_set(void **state)
{
        assert_int_equal(eng_log_file_size(4u << 20, 20 * TB), 4u << 20);
        assert_int_equal(eng_segment_size(64u << 20, 20 * TB, 16 * GIB), 64u << 20);
        assert_int_equal(eng_reserve_size(3 * GIB, 20 * TB), 3 * GIB);
        assert_int_equal(eng_segment_size(0, 20 * TB, 1 * GIB), GIB / 2);
        assert_int_equal(eng_segment_size(0, 20 * TB, 1), GIB / 4);
}

int main(void)
{
        const struct CMUnitTest tests[] = {cmocka_unit_test(test_sizes), cmocka_unit_test(test_set)};

        return cmocka_run_group_tests(tests, NULL, NULL);
}
