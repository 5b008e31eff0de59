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

static bool missing(const struct eng_health *h, void *arg)
{
        return h->ready && h->drives[CUT].state == ENG_DRIVE_MISSING;
}

/*
 * A drive that was out catches up, and nobody writes meanwhile: whatever of that does not reach it says
 * that it is down, and it is taken back. Else a drive that does not answer for some seconds would be
 * left alone as one that cannot be brought up to date; and a copy that comes late would come within the
 * epoch that it is of, behind a change of the name that was made since.
 */
static void catches_up_unreached(const char *filter)
{
        struct so_expected expected;
        struct eng_verify_report report;
        uint64_t bucket;
        struct sf sf;

        so_begin(&sf, DRIVES, &bucket, &expected);
        sf_close(&sf);
        sf_give(&sf, eng_all_slots(DRIVES) & ~eng_bit(CUT));
        assert_int_equal(sf_open(&sf, false), 0);
        assert_true(sf_wait_ready(&sf, 60));
        so_change(&sf, bucket, &expected, 0, 3);
        sf_close(&sf);
        sf_give(&sf, eng_all_slots(DRIVES));
        sf.options.faults = filter;
        assert_int_equal(sf_open(&sf, false), 0);
        assert_true(sf_wait_health(&sf, missing, NULL, 60));
        assert_true(sf_wait_health(&sf, so_whole, NULL, 120));
        so_check(&sf, bucket, &expected);
        so_verify(&sf, &report);
        sf_close(&sf);
        sf_remove(&sf);
}

static void test_names_unread(void **state)
{
        catches_up_unreached("unreach:op=scan,slot=2,ms=15000");
}

static void test_lookups_lost(void **state)
{
        catches_up_unreached("unreach:op=lookup,slot=2,ms=15000");
}

/* The first appends tell it that it is stale, and of the epoch in which it joins. */
static void test_copies_lost(void **state)
{
        catches_up_unreached("unreach:op=append,slot=2,after=6,ms=2000");
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_append), cmocka_unit_test(test_commit), cmocka_unit_test(test_write),           cmocka_unit_test(test_sync),
                cmocka_unit_test(test_start),  cmocka_unit_test(test_again_and_again), cmocka_unit_test(test_fails_meanwhile),
                cmocka_unit_test(test_names_unread), cmocka_unit_test(test_lookups_lost), cmocka_unit_test(test_copies_lost),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
