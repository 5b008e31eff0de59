/*
 * test_no_tail.c - a start from an epoch whose record names no epoch that was in force before it,
 * as builds of layout 1 wrote them: numbers of epochs say nothing then about when a drive was
 * brought up to date.
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

#include "tests/lib/epoch_gate.h"
#include "tests/lib/store_objects.h"

#define DRIVES 4u
#define BACK   1u
#define ALL    0x0fu
#define KEYS   100u
#define SIZE   500u
#define OLD    1000u
#define NEW    2000u

static void shell(const char *format, ...)
{
        char command[1024];
        va_list args;

        va_start(args, format);
        vsnprintf(command, sizeof(command), format, args);
        va_end(args);
        assert_int_equal(system(command), 0);
}

static bool is_open(const struct eng_health *h, void *arg)
{
        return h->ready && h->writable && h->drives_in >= DRIVES - 1;
}

static bool writes_no_more(const struct eng_health *h, void *arg)
{
        return h->ready && !h->writable;
}

static void start(struct sf *sf)
{
        assert_int_equal(sf_open(sf, false), 0);
        assert_true(sf_wait_health(sf, is_open, NULL, 60));
}

static const char *key_of(unsigned i)
{
        static char key[32];

        snprintf(key, sizeof(key), "key/%u", i);
        return key;
}

static void put_all(struct sf *sf, uint64_t bucket, uint64_t seed)
{
        unsigned i;

        for (i = 0; i < KEYS; i++)
                assert_int_equal(sf_put(sf, i % sf->loop_count, bucket, key_of(i), seed + i, SIZE, true, NULL), 0);
}

/*
 * The drive catches up with what it missed, and an epoch without a tail takes it in. Nothing comes
 * after that one.
 */
static void take_in(struct sf *sf)
{
        struct epoch_gate gate = {.sf = sf, .takes = BACK, .reaches = ALL, .without_tail = true};

        sf->options.faults = "delay:op=scan,ms=3000"; /* the gate stands there before */
        start(sf);
        epoch_gate_put(&gate);
        assert_true(sf_wait_health(sf, writes_no_more, NULL, 60));
        sf_close(sf);
        assert_true(gate.came);
        epoch_gate_free(&gate);
        sf->options.faults = NULL;
}

/*
 * The drive that was taken in is put back to an image from before it was out. It was a member then,
 * too, but that is no proof that it was brought up to date: what it holds is old.
 */
static void test_put_back_to_before_it_was_out(void **state)
{
        uint64_t bucket;
        unsigned i;
        struct sf sf;

        sf_make(&sf, DRIVES, 2);
        sf.options.ec_k = sf.options.ec_m = 2;
        assert_int_equal(sf_open(&sf, true), 0);
        assert_true(sf_wait_ready(&sf, 60));
        assert_int_equal(sf_bucket(&sf, "bucket", &bucket), 0);
        put_all(&sf, bucket, OLD);
        sf_close(&sf);
        shell("cp -a '%s' '%s.image'", sf.path[BACK], sf.path[BACK]);
        so_move(&sf, BACK, true);
        start(&sf);
        put_all(&sf, bucket, NEW);
        sf_close(&sf);
        so_move(&sf, BACK, false);
        take_in(&sf);
        shell("rm -rf '%s' && mv '%s.image' '%s'", sf.path[BACK], sf.path[BACK], sf.path[BACK]);

        sf.options.faults = "delay:op=scan,ms=500"; /* it has not caught up when the names are read */
        start(&sf);
        for (i = 0; i < KEYS; i++)
                assert_int_equal(sf_get(&sf, i % sf.loop_count, bucket, key_of(i), NEW + i, SIZE), 0);
        sf_close(&sf);
        sf_remove(&sf);
}

int main(void)
{
        const struct CMUnitTest tests[] = {cmocka_unit_test(test_put_back_to_before_it_was_out)};

        return cmocka_run_group_tests(tests, NULL, NULL);
}
