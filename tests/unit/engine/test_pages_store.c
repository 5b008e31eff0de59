/*
 * test_pages_store.c - a store, one of whose drives does not give a page of its index: every object
 * is served by the others, that drive fails after its limit, and comes back. The first slot is the
 * victim as well as another one.
 */
#include <stdio.h>
#include <string.h>

#include "tests/lib/store_objects.h"

#include <setjmp.h>
#include <cmocka.h>

static struct so_expected expected;

static void begin(struct sf *sf, uint64_t *bucket, const char *faults)
{
        so_begin(sf, 4, bucket, &expected);
        sf_close(sf); /* everything is in the indexes */
        sf->options.cache_bytes = 1;
        sf->options.faults = faults;
        assert_int_equal(sf_open(sf, false), 0);
        assert_true(sf_wait_ready(sf, 60));
}

static bool all_have_read(const struct eng_health *h, void *arg)
{
        unsigned i, n = 0;

        for (i = 0; i < 4; i++)
                n += h->drives[i].state == ENG_DRIVE_IN && h->drives[i].index_reads > 0;
        return n == 4;
}

/* Pages come from the drive, each of them and again each second: the same answers. */
static void test_cold(void **state)
{
        struct eng_verify_report report;
        uint64_t bucket;
        unsigned round;
        struct sf sf;

        begin(&sf, &bucket, "pages");
        for (round = 0; round < 4; round++) {
                so_check(&sf, bucket, &expected);
                so_change(&sf, bucket, &expected, round, 5);
        }
        so_verify(&sf, &report);
        so_check(&sf, bucket, &expected);
        assert_true(sf_wait_health(&sf, all_have_read, NULL, 20)); /* health is of some moments ago */
        sf_close(&sf);
        sf_remove(&sf);
}

static void check_hang(unsigned victim, unsigned after)
{
        struct eng_health h;
        uint64_t bucket;
        char faults[64];
        struct sf sf;

        snprintf(faults, sizeof(faults), "pages:slot=%u,after=%u,ms=3600000", victim, after);
        begin(&sf, &bucket, faults);
        do {
                so_check(&sf, bucket, &expected);
                eng_health_read(sf.store, &h);
        } while (h.drives[victim].state == ENG_DRIVE_IN);
        assert_non_null(strstr(h.drives[victim].reason, "a read, write or flush"));
        so_change(&sf, bucket, &expected, 0, 3);
        so_check(&sf, bucket, &expected);
        sf_close(&sf);
        sf.options.faults = NULL;
        assert_int_equal(sf_open(&sf, false), 0);
        assert_true(sf_wait_health(&sf, so_whole, NULL, 120));
        so_check(&sf, bucket, &expected);
        sf_close(&sf);
        sf_remove(&sf);
}

static void test_first_slot_hangs(void **state)
{
        check_hang(0, 0);
}

static void test_another_slot_hangs(void **state)
{
        check_hang(2, 3);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_cold),
                cmocka_unit_test(test_first_slot_hangs),
                cmocka_unit_test(test_another_slot_hangs),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
