/*
 * test_get_near.c - whole stripes of a store some of whose drives are far: parity of near ones stands in for
 * what is far, as far as that spares bytes; what does not come is read as ever.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/base/store.h"
#include "tests/lib/must.h"
#include "tests/lib/store_fixture.h"

#define DRIVES  6u
#define OBJECTS 8u
#define SIZE    ((10u << 20) + 12345) /* five stripes of two units, and a short one */

static struct sf sf;
static uint64_t bucket;

static void open_store(unsigned k, unsigned m, const char *filters)
{
        char key[32];
        unsigned i;

        sf_make(&sf, DRIVES, 2);
        sf.options.ec_k = k;
        sf.options.ec_m = m;
        sf.options.faults = filters;
        assert_int_equal(sf_open(&sf, true), 0);
        assert_true(sf_wait_ready(&sf, 20));
        assert_int_equal(sf_bucket(&sf, "bucket", &bucket), 0);
        for (i = 0; i < sf.store->loop_count; i++)
                sf.store->loops[i].home.read_times.least_ns = 3600ull * 1000 * 1000 * 1000; /* nothing is late, or slow */
        for (i = 0; i < OBJECTS; i++) {
                snprintf(key, sizeof(key), "%u", i);
                assert_int_equal(sf_put(&sf, 0, bucket, key, i + 1, SIZE, true, NULL), 0);
        }
}

static void close_store(void)
{
        sf_close(&sf);
        sf_remove(&sf);
}

/* Drives from `first` on are far. */
static void far_from(unsigned first)
{
        unsigned i;

        for (i = 0; i < DRIVES; i++)
                ((struct eng_drive *)sf.store->members[i].drive)->far = i >= first;
}

static uint64_t bytes_read(unsigned from, unsigned to)
{
        struct eng_drive_info info;
        uint64_t sum = 0;

        for (; from < to; from++) {
                eng_drive_info(sf.store->members[from].drive, &info);
                sum += info.read_bytes;
        }
        return sum;
}

/* All objects are read, and right. Bytes of the drives from `first` on, and of all. */
static void get_objects(unsigned first, uint64_t *far, uint64_t *all)
{
        uint64_t far_before = bytes_read(first, DRIVES), all_before = bytes_read(0, DRIVES);
        char key[32];
        unsigned i;

        for (i = 0; i < OBJECTS; i++) {
                snprintf(key, sizeof(key), "%u", i);
                assert_int_equal(sf_get(&sf, i % 2, bucket, key, i + 1, SIZE), 0);
        }
        *far = bytes_read(first, DRIVES) - far_before;
        *all = bytes_read(0, DRIVES) - all_before;
}

/* Fewer bytes come from far drives, and no more are read in all but what fills a last unit. */
static void spares_bytes(unsigned k, unsigned m, unsigned near)
{
        uint64_t plain, plain_all, spared, all;

        open_store(k, m, NULL);
        far_from(DRIVES);
        get_objects(near, &plain, &plain_all);
        assert_true(plain_all >= (uint64_t)OBJECTS * SIZE);
        far_from(near);
        get_objects(near, &spared, &all);
        assert_true(spared < plain - plain / 10);
        assert_true(all >= plain_all && all <= plain_all + OBJECTS * (uint64_t)LP_SLOT_UNIT);
        assert_int_equal(atomic_load(&sf.store->degraded_reads), 0);
        close_store();
}

static void test_spares_bytes(void **state)
{
        spares_bytes(2, 2, 2);
        spares_bytes(3, 2, 3);
        spares_bytes(4, 1, 4);
        spares_bytes(1, 2, 2);
}

/* All near, or all far: nothing stands in for anything. */
static void test_nothing_to_spare(void **state)
{
        uint64_t far, all, far_then, all_then;

        open_store(2, 2, NULL);
        far_from(DRIVES);
        get_objects(3, &far, &all);
        far_from(0);
        get_objects(3, &far_then, &all_then);
        assert_int_equal(far, far_then);
        assert_int_equal(all, all_then);
        close_store();
}

/* What is wanted of a stripe is less than all of it: no more is read. */
static void test_ranges(void **state)
{
        static const uint64_t offsets[] = {0, 1, 1u << 20, (2u << 20) - 7, SIZE - 100000};
        uint64_t before;
        unsigned i;

        open_store(2, 2, NULL);
        far_from(2);
        for (i = 0; i < sizeof(offsets) / sizeof(offsets[0]); i++) {
                before = bytes_read(0, DRIVES);
                assert_int_equal(sf_get_range(&sf, 0, bucket, "1", 2, SIZE, offsets[i], 50000), 0);
                assert_int_equal(bytes_read(0, DRIVES) - before, 50000);
                assert_int_equal(sf_get_range(&sf, 1, bucket, "1", 2, SIZE, offsets[i], SIZE - offsets[i]), 0);
        }
        close_store();
}

/* False: what did not come was parity alone, instead of which data was read. */
static bool rebuilds_with(const char *filters)
{
        uint64_t far, all;
        bool rebuilt;

        open_store(2, 2, filters);
        far_from(2);
        get_objects(2, &far, &all);
        get_objects(2, &far, &all);
        rebuilt = atomic_load(&sf.store->degraded_reads) > 0;
        close_store();
        return rebuilt;
}

/* A shard that was to stand in is damaged, or does not come, now and then: others are read. Which drives have data is another matter in each store. */
static void test_what_does_not_come(void **state)
{
        static const char *const filters[] = {"corrupt:op=read,slot=0,every=3", "again:op=read,slot=1,every=2",
                                              "corrupt:op=read,slot=0,every=2;again:op=read,slot=4,every=3"};
        unsigned i, stores;

        for (i = 0; i < sizeof(filters) / sizeof(filters[0]); i++) {
                for (stores = 0; stores < 6 && !rebuilds_with(filters[i]); stores++)
                        ;
                assert_true(stores < 6);
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_spares_bytes),
                cmocka_unit_test(test_nothing_to_spare),
                cmocka_unit_test(test_ranges),
                cmocka_unit_test(test_what_does_not_come),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
