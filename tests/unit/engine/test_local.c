/*
 * test_local.c - a local drive as a whole: round trips, reopening, visibility, loops.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/lib/drive_fixture.h"

#include <setjmp.h>
#include <cmocka.h>

static void test_round_trip_and_reopen(void **state)
{
        struct fx fx;
        char name[32], bytes[64];
        unsigned i, round;

        fx_make(&fx, 1);
        assert_int_equal(fx_open(&fx), 0);
        for (i = 0; i < 100; i++) {
                snprintf(name, sizeof(name), "key-%03u", i);
                snprintf(bytes, sizeof(bytes), "value of %u", i);
                assert_int_equal(fx_put(&fx, name, bytes, strlen(bytes)), 0);
        }
        for (i = 0; i < 100; i += 3) {
                snprintf(name, sizeof(name), "key-%03u", i);
                assert_int_equal(fx_delete(&fx, name), 0);
        }
        for (round = 0; round < 3; round++) {
                for (i = 0; i < 100; i++) {
                        snprintf(name, sizeof(name), "key-%03u", i);
                        snprintf(bytes, sizeof(bytes), "value of %u", i);
                        if (i % 3 == 0)
                                assert_int_equal(fx_lookup_rv(&fx, name), -ENOENT);
                        else
                                assert_true(fx_has(&fx, name, bytes, strlen(bytes)));
                }
                fx_close(&fx);
                assert_int_equal(fx_open(&fx), 0);
        }
        fx_destroy(&fx);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_round_trip_and_reopen),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
