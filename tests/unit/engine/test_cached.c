/*
 * test_cached.c - a small object that was just stored is in the cache of one drive, the one that
 * reads of it go to.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>

#include "tests/lib/store_fixture.h"

#define OBJECTS 64u
#define SIZE    4096u

static struct eng_health health; /* as last seen: it is renewed about once a second */

static bool all_kept(const struct eng_health *h, void *arg)
{
        health = *h;
        return h->cache_bytes >= OBJECTS * SIZE;
}

static bool all_asked(const struct eng_health *h, void *arg)
{
        health = *h;
        return h->cache_hits + h->cache_misses >= OBJECTS;
}

static void test_one_drive_keeps_it(void **state)
{
        uint64_t bucket;
        struct sf sf;
        char key[16];
        unsigned i;

        sf_make(&sf, 4, 2);
        assert_int_equal(sf_open(&sf, true), 0);
        assert_true(sf_wait_ready(&sf, 20));
        assert_int_equal(sf_bucket(&sf, "bucket", &bucket), 0);
        for (i = 0; i < OBJECTS; i++) {
                snprintf(key, sizeof(key), "small%u", i);
                assert_int_equal(sf_put(&sf, i % 2, bucket, key, i, SIZE, true, NULL), 0);
        }
        assert_true(sf_wait_health(&sf, all_kept, NULL, 20));
        assert_true(health.cache_bytes < 2 * OBJECTS * SIZE); /* three members have each */
        assert_int_equal(health.cache_hits + health.cache_misses, 0);
        for (i = 0; i < OBJECTS; i++) {
                snprintf(key, sizeof(key), "small%u", i);
                assert_int_equal(sf_get(&sf, i % 2, bucket, key, i, SIZE), 0);
        }
        assert_true(sf_wait_health(&sf, all_asked, NULL, 20));
        assert_int_equal(health.cache_hits, OBJECTS);
        sf_close(&sf);
        sf_remove(&sf);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_one_drive_keeps_it),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
