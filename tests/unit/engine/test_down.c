/*
 * A drive that cannot be reached for a while: the store goes on without it, and takes it back without
 * a restart, whatever it was that did not reach it.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/base/store.h"
#include "tests/lib/store_objects.h"

#define DRIVES 5u
#define CUT    2u

static bool is_out(const struct eng_health *h, void *arg)
{
        return h->ready && h->drives[CUT].state != ENG_DRIVE_IN;
}

static bool failed(const struct eng_health *h, void *arg)
{
        return h->drives[CUT].state == ENG_DRIVE_FAILED;
}

/*
 * Objects are put and deleted while the drive goes away by the given filter, is out, and is back;
 * then each is there, on all drives. at_start: it does not answer when the store is opened, or may not.
 */
static void cut(const char *filter, bool at_start)
{
        struct so_expected expected;
        struct eng_verify_report report;
        uint64_t bucket, epoch;
        unsigned round;
        struct sf sf;

        so_begin(&sf, DRIVES, &bucket, &expected);
        sf_close(&sf);
        sf.options.faults = filter;
        assert_int_equal(sf_open(&sf, false), 0);
        assert_true(sf_wait_ready(&sf, 60));
        epoch = sf_view(&sf).epoch;
        for (round = 0; round < 4; round++)
                so_change(&sf, bucket, &expected, round, 4);
        if (!at_start)
                assert_true(sf_view(&sf).epoch > epoch); /* it was noticed */
        so_check(&sf, bucket, &expected);
        assert_true(sf_wait_health(&sf, so_whole, NULL, 60));
        assert_int_equal(sf_view(&sf).in, eng_all_slots(DRIVES));
        so_check(&sf, bucket, &expected);
        so_verify(&sf, &report);
        sf_close(&sf);
        sf.options.faults = NULL;
        assert_int_equal(sf_open(&sf, false), 0);
        assert_true(sf_wait_health(&sf, so_whole, NULL, 60));
        so_check(&sf, bucket, &expected);
        sf_close(&sf);
        sf_remove(&sf);
}

static void test_append(void **state)
{
        cut("unreach:op=append,after=30,slot=2,ms=1500", false);
}

static void test_commit(void **state)
{
        cut("unreach:op=commit,after=30,slot=2,ms=1500", false);
}

static void test_write(void **state)
{
        cut("unreach:op=write,after=3,slot=2,ms=1500", false);
}

static void test_sync(void **state)
{
        cut("unreach:op=sync,after=3,slot=2,ms=1500", false);
}

/* Its first words at a start are lost: the others go on, and take it back. */
static void test_start(void **state)
{
        cut("unreach:op=tail,slot=2,ms=1500", true);
}

/* So are those with which it is taken back. */
static void test_again_and_again(void **state)
{
        cut("unreach:op=append,after=30,every=40,slot=2,ms=300", true);
}

/* One that is down and fails meanwhile has failed. */
static void test_fails_meanwhile(void **state)
{
        struct so_expected expected;
        uint64_t bucket;
        struct sf sf;

        so_begin(&sf, DRIVES, &bucket, &expected);
        sf_close(&sf);
        sf.options.faults = "fail:op=held,slot=2;unreach:op=append,after=20,slot=2,ms=500";
        assert_int_equal(sf_open(&sf, false), 0);
        assert_true(sf_wait_ready(&sf, 60));
        so_change(&sf, bucket, &expected, 0, 1);
        assert_true(sf_wait_health(&sf, is_out, NULL, 60));
        assert_true(sf_wait_health(&sf, failed, NULL, 60));
        so_check(&sf, bucket, &expected);
        sf_close(&sf);
        sf_remove(&sf);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_append), cmocka_unit_test(test_commit), cmocka_unit_test(test_write),           cmocka_unit_test(test_sync),
                cmocka_unit_test(test_start),  cmocka_unit_test(test_again_and_again), cmocka_unit_test(test_fails_meanwhile),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
