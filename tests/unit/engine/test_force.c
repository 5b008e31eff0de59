/*
 * Going on without drives that are gone for good: the epoch that says so, cut short and contradicted, and what becomes of drives given up that are back.
 * Five drives, one data shard and four of parity: each drive has everything.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "engine/store.h"
#include "tests/lib/store_fixture.h"

#define OLD 1u
#define NEW 2u
#define SIZE 200000u
#define GONE 7u     /* slots 0, 1, 2 */
#define KEPT 0x18u  /* slots 3, 4 */

static void move(struct sf *sf, eng_mask slots, bool away)
{
        char there[256];
        unsigned i;

        for (i = 0; i < sf->drives; i++) {
                if (!(slots & eng_bit(i)))
                        continue;
                snprintf(there, sizeof(there), "%s.away", sf->path[i]);
                assert_int_equal(away ? rename(sf->path[i], there) : rename(there, sf->path[i]), 0);
        }
}

static bool ready(const struct eng_health *h, void *arg)
{
        return h->ready;
}

static bool has_in(const struct eng_health *h, void *arg)
{
        return h->ready && h->drives_in == *(unsigned *)arg;
}

static bool says(const struct eng_health *h, void *arg)
{
        return !h->ready && strstr(h->reason, arg) != NULL;
}

static void start(struct sf *sf, unsigned drives_in)
{
        assert_int_equal(sf_open(sf, false), 0);
        assert_true(sf_wait_health(sf, has_in, &drives_in, 60));
}

static void start_waiting(struct sf *sf, const char *words)
{
        assert_int_equal(sf_open(sf, false), 0);
        assert_true(sf_wait_health(sf, says, (void *)words, 20));
}

/* A whole store that serves, with a bucket. */
static void make(struct sf *sf, unsigned drives, unsigned k, uint64_t *bucket)
{
        sf_make(sf, drives, 2);
        sf->options.ec_k = k;
        sf->options.ec_m = drives - k;
        assert_int_equal(sf_open(sf, true), 0);
        assert_true(sf_wait_health(sf, ready, NULL, 20));
        assert_int_equal(sf_bucket(sf, "bucket", bucket), 0);
}

/* A whole store with one object; the first three drives have gone on alone and hold its next version. Closed, with all drives there. */
static void begin(struct sf *sf, uint64_t *bucket)
{
        make(sf, 5, 1, bucket);
        assert_int_equal(sf_put(sf, 0, *bucket, "k", OLD, SIZE, true, NULL), 0);
        sf_close(sf);
        move(sf, KEPT, true);
        start(sf, 3);
        assert_int_equal(sf_put(sf, 0, *bucket, "k", NEW, SIZE, true, NULL), 0);
        sf_close(sf);
        move(sf, KEPT, false);
}

static int force(struct sf *sf, uint64_t slots, const char *words)
{
        struct eng_force_report report;
        uint64_t number;

        assert_int_equal(eng_force(sf->store, slots, &number), 0);
        do {
                usleep(1000);
                assert_int_equal(eng_force_read(sf->store, number, &report), 0);
        } while (report.running);
        assert_int_equal(eng_force_read(sf->store, number + 1, &report), -ENOENT);
        assert_non_null(strstr(report.text, words));
        return report.rv;
}

/* The first three are given up, but the epoch that says so reaches only one of the two that are left. Closed, with all drives there. */
static void force_half(struct sf *sf, uint64_t bucket)
{
        move(sf, GONE, true);
        sf->options.faults = "fail:op=append,slot=4";
        start_waiting(sf, "slot 0 1 2");
        assert_int_equal(force(sf, GONE, "slot 0 1 2 4"), -EHOSTDOWN);
        assert_int_equal(sf_get(sf, 0, bucket, "k", OLD, SIZE), -EHOSTDOWN);
        sf_close(sf);
        sf->options.faults = NULL;
        move(sf, GONE, false);
}

static void end(struct sf *sf)
{
        sf_close(sf);
        sf_remove(sf);
}

/* ---- tests ------------------------------------------------------------------------------------------------------------ */

static void test_which_epochs_can_form(void **state)
{
        static const struct {
                eng_mask next, prev;
                unsigned drives, k, m;
                bool form, write;
        } cases[] = {
                {0x0f, 0x0f, 4, 2, 2, true, true},   {0x07, 0x0f, 4, 2, 2, true, true},  {0x03, 0x07, 4, 2, 2, false, false},
                {0x03, 0x03, 4, 2, 2, true, false},  {0x0b, 0x03, 4, 2, 2, true, true},  {0x05, 0x03, 4, 2, 2, false, false},
                {0x01, 0x01, 3, 1, 2, true, false},  {0x03, 0x07, 3, 1, 2, true, true},  {0x00, 0x00, 3, 1, 2, false, false},
                {0x07, 0x07, 12, 2, 2, true, false}, {0x01, 0x01, 1, 1, 0, true, true},  {0x03, 0x07, 12, 2, 2, false, false},
        };
        size_t i;

        for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                assert_int_equal(eng_epoch_can_form(cases[i].next, cases[i].prev, cases[i].drives, cases[i].k, cases[i].m), cases[i].form);
                assert_int_equal(eng_epoch_can_write(cases[i].next, cases[i].drives, cases[i].k, cases[i].m), cases[i].write);
        }
}

static void test_goes_on(void **state)
{
        struct eng_outlook outlook;
        uint64_t bucket, number, epoch;
        struct sf sf;

        begin(&sf, &bucket);
        move(&sf, GONE, true);
        start_waiting(&sf, "slot 0 1 2");
        eng_outlook_read(sf.store, &outlook);
        assert_true(outlook.missed == GONE && outlook.open == KEPT && outlook.left == 2 && outlook.least == 1);
        assert_true(outlook.doubtful == outlook.groups && outlook.buckets_doubtful && outlook.writable);
        assert_true(outlook.lost == 0 && outlook.alone == 0 && outlook.unreadable == 0);
        epoch = outlook.epoch;
        assert_int_equal(force(&sf, GONE & ~1u, "0 1 2, all of them"), -EINVAL);
        assert_int_equal(force(&sf, GONE | 8, "slot 3"), -EINVAL);
        assert_int_equal(force(&sf, GONE | 1ull << 63, "0 1 2, all of them"), -EINVAL);
        assert_int_equal(force(&sf, 0, "0 1 2, all of them"), -EINVAL);
        eng_outlook_read(sf.store, &outlook);
        assert_int_equal(outlook.epoch, epoch); /* nothing was done */
        assert_int_equal(sf_get(&sf, 0, bucket, "k", OLD, SIZE), -EHOSTDOWN);
        assert_int_equal(force(&sf, GONE, ""), 0);
        assert_int_equal(sf_get(&sf, 0, bucket, "k", OLD, SIZE), 0);
        assert_int_equal(sf_put(&sf, 0, bucket, "j", NEW, SIZE, true, NULL), 0);
        assert_int_equal(force(&sf, GONE, "waits for no drive"), -EINVAL);
        assert_int_equal(eng_drive_attach(sf.store, 0, sf.path[0], false, &number), 0);
        sf_close(&sf);

        move(&sf, GONE, false);
        start(&sf, 2);
        assert_int_equal(sf_get(&sf, 0, bucket, "k", OLD, SIZE), 0);
        assert_int_equal(sf_get(&sf, 1, bucket, "j", NEW, SIZE), 0);
        sf_close(&sf);
        move(&sf, 8, true); /* of the two that went on, one alone can't be sure; those given up change nothing about it */
        assert_int_equal(sf_open(&sf, false), 0);
        assert_true(sf_wait_health(&sf, ready, NULL, 20));
        assert_int_equal(sf_get(&sf, 0, bucket, "k", OLD, SIZE), 0);
        assert_int_equal(sf_put(&sf, 0, bucket, "j", OLD, SIZE, true, NULL), -EROFS);
        assert_int_equal(force(&sf, 8, ""), 0); /* a second time */
        assert_int_equal(sf_get(&sf, 0, bucket, "j", NEW, SIZE), 0);
        assert_int_equal(sf_put(&sf, 0, bucket, "j", OLD, SIZE, true, NULL), -EROFS);
        sf_close(&sf);
        move(&sf, 8, false);
        start(&sf, 1);
        end(&sf);
}

/* The epoch reached one of the two that it is of: the next start, told nothing, goes on with it. */
static void test_cut_short(void **state)
{
        uint64_t bucket;
        struct sf sf;

        begin(&sf, &bucket);
        force_half(&sf, bucket);
        start(&sf, 2);
        assert_int_equal(sf_get(&sf, 0, bucket, "k", OLD, SIZE), 0);
        assert_int_equal(sf_put(&sf, 0, bucket, "k", NEW, 10, true, NULL), 0);
        end(&sf);
}

/* The same, but the one that it did not reach went on with the others meanwhile: it was never in force, and nobody is given up by it. */
static void test_contradicted(void **state)
{
        uint64_t bucket;
        struct sf sf;

        begin(&sf, &bucket);
        force_half(&sf, bucket);
        move(&sf, 8, true);
        start(&sf, 4);
        assert_int_equal(sf_get(&sf, 0, bucket, "k", NEW, SIZE), 0);
        assert_int_equal(sf_put(&sf, 0, bucket, "j", NEW, SIZE, true, NULL), 0);
        sf_close(&sf);
        move(&sf, 8, false);
        start(&sf, 5);
        assert_int_equal(sf_get(&sf, 0, bucket, "k", NEW, SIZE), 0);
        assert_int_equal(sf_get(&sf, 0, bucket, "j", NEW, SIZE), 0);
        end(&sf);
}

/* Two words that contradict each other: neither side is taken. */
static void test_given_up_by_both(void **state)
{
        struct eng_outlook outlook;
        uint64_t bucket;
        struct sf sf;

        make(&sf, 3, 1, &bucket);
        sf_close(&sf);
        move(&sf, 3, true);
        start_waiting(&sf, "slot 0 1");
        assert_int_equal(force(&sf, 3, ""), 0);
        sf_close(&sf);
        move(&sf, 3, false);
        move(&sf, 6, true);
        start_waiting(&sf, "slot 1 2");
        assert_int_equal(force(&sf, 6, ""), 0);
        sf_close(&sf);
        move(&sf, 6, false);
        start_waiting(&sf, "contradict");
        eng_outlook_read(sf.store, &outlook);
        assert_true(outlook.missed == 0);
        assert_int_equal(force(&sf, 1, "not drives that it waits for"), -EINVAL);
        sf_close(&sf);
        move(&sf, 1, true);
        start(&sf, 1);
        end(&sf);
}

/* A store that only reads goes on while it is being read; too few drives are refused. */
static void test_from_reading(void **state)
{
        struct eng_outlook outlook;
        uint64_t bucket, other;
        unsigned in = 2;
        struct sf sf;

        make(&sf, 4, 2, &bucket);
        assert_int_equal(sf_put(&sf, 0, bucket, "k", OLD, SIZE, true, NULL), 0);
        sf_close(&sf);
        move(&sf, 14, true);
        start_waiting(&sf, "slot 1 2 3");
        assert_int_equal(force(&sf, 14, "1 current drive would be left"), -EINVAL);
        sf_close(&sf);
        move(&sf, 2, false);
        assert_int_equal(sf_open(&sf, false), 0);
        assert_true(sf_wait_health(&sf, has_in, &in, 20));
        eng_outlook_read(sf.store, &outlook);
        assert_true(outlook.missed == 12 && outlook.left == 2 && !outlook.writable && outlook.lost == 0 && outlook.alone > 0);
        assert_int_equal(sf_get(&sf, 0, bucket, "k", OLD, SIZE), 0);
        assert_int_equal(force(&sf, 12, ""), 0);
        assert_int_equal(sf_get(&sf, 0, bucket, "k", OLD, SIZE), 0);
        assert_int_equal(sf_put(&sf, 0, bucket, "j", NEW, 10, true, NULL), -EROFS);
        assert_int_equal(sf_bucket(&sf, "other", &other), -EROFS);
        end(&sf);
}

/* One of the two fails as the epoch is made: the store reads on, and says so. The next start finds the epoch on the other. */
static void test_reading_cut_short(void **state)
{
        struct eng_outlook outlook;
        uint64_t bucket;
        unsigned in = 2;
        struct sf sf;

        make(&sf, 4, 2, &bucket);
        assert_int_equal(sf_put(&sf, 0, bucket, "k", OLD, SIZE, true, NULL), 0);
        sf_close(&sf);
        move(&sf, 12, true);
        sf.options.faults = "fail:op=append,slot=1";
        assert_int_equal(sf_open(&sf, false), 0);
        assert_true(sf_wait_health(&sf, has_in, &in, 20));
        assert_int_equal(force(&sf, 12, "another drive"), -EHOSTDOWN);
        eng_outlook_read(sf.store, &outlook);
        assert_true(outlook.missed == 14 && outlook.left == 1 && outlook.refusal[0] != 0);
        sf_close(&sf);
        sf.options.faults = NULL;
        move(&sf, 12, false);
        start(&sf, 2);
        assert_int_equal(sf_get(&sf, 0, bucket, "k", OLD, SIZE), 0);
        end(&sf);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_which_epochs_can_form),
                cmocka_unit_test(test_goes_on),
                cmocka_unit_test(test_cut_short),
                cmocka_unit_test(test_contradicted),
                cmocka_unit_test(test_given_up_by_both),
                cmocka_unit_test(test_from_reading),
                cmocka_unit_test(test_reading_cut_short),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
