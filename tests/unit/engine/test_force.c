/*
 * Going on without drives that are gone for good: the epoch that says so, cut short and
 * contradicted, and what becomes of drives given up that are back. Five drives, one data shard and
 * four of parity: each drive has everything.
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

#include "engine/base/store.h"
#include "tests/lib/store_fixture.h"

#define OLD 1u
#define NEW 2u
#define SIZE 200000u

/*
 * Three of five drives are gone for good, and two are left. The first slot is among the ones or the
 * others.
 */
static const struct sides {
        eng_mask gone, kept, told; /* told: the one of those kept that an epoch reaches when it fails on the other */
        const char *waits, *all;   /* what is said of those that are gone */
        const char *fault, *failed;
} sides[] = {
        {7, 0x18, 8, "slot 0 1 2", "0 1 2, all of them", "fail:op=append,slot=4", "slot 0 1 2 4"},
        {0x1c, 3, 2, "slot 2 3 4", "2 3 4, all of them", "fail:op=append,slot=0", "slot 0 2 3 4"},
};
static const struct sides *of; /* this test's */

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

/*
 * A whole store with one object; the three to be given up have gone on alone and hold its next
 * version. Closed, with all drives there.
 */
static void begin(struct sf *sf, uint64_t *bucket, const struct sides *these)
{
        of = these;
        make(sf, 5, 1, bucket);
        assert_int_equal(sf_put(sf, 0, *bucket, "k", OLD, SIZE, true, NULL), 0);
        sf_close(sf);
        move(sf, of->kept, true);
        start(sf, 3);
        assert_int_equal(sf_put(sf, 0, *bucket, "k", NEW, SIZE, true, NULL), 0);
        sf_close(sf);
        move(sf, of->kept, false);
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

/*
 * The three are given up, but the epoch that says so reaches only one of the two that are left.
 * Closed, with all drives there.
 */
static void force_half(struct sf *sf, uint64_t bucket)
{
        move(sf, of->gone, true);
        sf->options.faults = of->fault;
        start_waiting(sf, of->waits);
        assert_int_equal(force(sf, of->gone, of->failed), -EHOSTDOWN);
        assert_int_equal(sf_get(sf, 0, bucket, "k", OLD, SIZE), -EHOSTDOWN);
        sf_close(sf);
        sf->options.faults = NULL;
        move(sf, of->gone, false);
}

static void end(struct sf *sf)
{
        sf_close(sf);
        sf_remove(sf);
}

/* ---- tests ----------------------------------------------------------------------------------- */

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

        begin(&sf, &bucket, *state);
        move(&sf, of->gone, true);
        start_waiting(&sf, of->waits);
        eng_outlook_read(sf.store, &outlook);
        assert_true(outlook.missed == of->gone && outlook.open == of->kept && outlook.left == 2 && outlook.least == 1);
        assert_true(outlook.doubtful == outlook.groups && outlook.buckets_doubtful && outlook.writable);
        assert_true(outlook.lost == 0 && outlook.alone == 0 && outlook.unreadable == 0);
        epoch = outlook.epoch;
        assert_int_equal(force(&sf, of->gone & ~eng_bit(2), of->all), -EINVAL);
        assert_int_equal(force(&sf, of->gone | of->told, of->told == 8 ? "slot 3" : "slot 1"), -EINVAL);
        assert_int_equal(force(&sf, of->gone | 1ull << 63, of->all), -EINVAL);
        assert_int_equal(force(&sf, 0, of->all), -EINVAL);
        eng_outlook_read(sf.store, &outlook);
        assert_int_equal(outlook.epoch, epoch); /* nothing was done */
        assert_int_equal(sf_get(&sf, 0, bucket, "k", OLD, SIZE), -EHOSTDOWN);
        assert_int_equal(force(&sf, of->gone, ""), 0);
        assert_int_equal(sf_get(&sf, 0, bucket, "k", OLD, SIZE), 0);
        assert_int_equal(sf_put(&sf, 0, bucket, "j", NEW, SIZE, true, NULL), 0);
        assert_int_equal(force(&sf, of->gone, "waits for no drive"), -EINVAL);
        assert_int_equal(eng_drive_hot_add(sf.store, 2, sf.path[2], false, &number), 0);
        sf_close(&sf);

        move(&sf, of->gone, false);
        start(&sf, 2);
        assert_int_equal(sf_get(&sf, 0, bucket, "k", OLD, SIZE), 0);
        assert_int_equal(sf_get(&sf, 1, bucket, "j", NEW, SIZE), 0);
        sf_close(&sf);
        move(&sf, of->told, true); /* one of two alone can't be sure; those given up change nothing about it */
        assert_int_equal(sf_open(&sf, false), 0);
        assert_true(sf_wait_health(&sf, ready, NULL, 20));
        assert_int_equal(sf_get(&sf, 0, bucket, "k", OLD, SIZE), 0);
        assert_int_equal(sf_put(&sf, 0, bucket, "j", OLD, SIZE, true, NULL), -EROFS);
        assert_int_equal(force(&sf, of->told, ""), 0); /* a second time */
        assert_int_equal(sf_get(&sf, 0, bucket, "j", NEW, SIZE), 0);
        assert_int_equal(sf_put(&sf, 0, bucket, "j", OLD, SIZE, true, NULL), -EROFS);
        sf_close(&sf);
        move(&sf, of->told, false);
        start(&sf, 1);
        end(&sf);
}

/* The epoch reached one of the two that it is of: the next start, told nothing, goes on with it. */
static void test_cut_short(void **state)
{
        uint64_t bucket;
        struct sf sf;

        begin(&sf, &bucket, *state);
        force_half(&sf, bucket);
        start(&sf, 2);
        assert_int_equal(sf_get(&sf, 0, bucket, "k", OLD, SIZE), 0);
        assert_int_equal(sf_put(&sf, 0, bucket, "k", NEW, 10, true, NULL), 0);
        end(&sf);
}

/*
 * The same, but the one that it did not reach went on with the others meanwhile: it was never in
 * force, and nobody is given up by it.
 */
static void test_contradicted(void **state)
{
        uint64_t bucket;
        struct sf sf;

        begin(&sf, &bucket, *state);
        force_half(&sf, bucket);
        move(&sf, of->told, true);
        start(&sf, 4);
        assert_int_equal(sf_get(&sf, 0, bucket, "k", NEW, SIZE), 0);
        assert_int_equal(sf_put(&sf, 0, bucket, "j", NEW, SIZE, true, NULL), 0);
        sf_close(&sf);
        move(&sf, of->told, false);
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

/*
 * One of the two fails as the epoch is made: the store reads on, and says so. The next start finds
 * the epoch on the other.
 */
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
        sf.options.faults = "fail:op=append,slot=0";
        assert_int_equal(sf_open(&sf, false), 0);
        assert_true(sf_wait_health(&sf, has_in, &in, 20));
        assert_int_equal(force(&sf, 12, "another drive"), -EHOSTDOWN);
        eng_outlook_read(sf.store, &outlook);
        assert_true(outlook.missed == 13 && outlook.left == 1 && outlook.refusal[0] != 0);
        sf_close(&sf);
        sf.options.faults = NULL;
        move(&sf, 12, false);
        start(&sf, 2);
        assert_int_equal(sf_get(&sf, 0, bucket, "k", OLD, SIZE), 0);
        end(&sf);
}

#define OF_SIDES(test, which) cmocka_unit_test_prestate(test, (void *)&sides[which])

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_which_epochs_can_form),
                OF_SIDES(test_goes_on, 0),
                OF_SIDES(test_goes_on, 1),
                OF_SIDES(test_cut_short, 0),
                OF_SIDES(test_cut_short, 1),
                OF_SIDES(test_contradicted, 0),
                OF_SIDES(test_contradicted, 1),
                cmocka_unit_test(test_given_up_by_both),
                cmocka_unit_test(test_from_reading),
                cmocka_unit_test(test_reading_cut_short),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
