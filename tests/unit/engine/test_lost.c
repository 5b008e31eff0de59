/*
 * Drives that lost writes which they had acknowledged: put back to an earlier image of their
 * folder. Whatever the store answers is what was acknowledged last; what it cannot tell, it does
 * not answer.
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

#include "tests/lib/store_fixture.h"

#define KEYS 40u

static void shell(const char *format, ...)
{
        char command[1024];
        va_list args;

        va_start(args, format);
        vsnprintf(command, sizeof(command), format, args);
        va_end(args);
        assert_int_equal(system(command), 0);
}

/* A drive in use makes and removes files meanwhile. */
static void image(const struct sf *sf, unsigned slot, unsigned number)
{
        shell("for i in 1 2 3 4 5 6 7 8 9; do rm -rf %s.%u; cp -a %s %s.%u 2>&- && exit 0; done; exit 1", sf->path[slot], number,
              sf->path[slot], sf->path[slot], number);
}

static void put_back(const struct sf *sf, unsigned slot, unsigned number)
{
        shell("rm -rf %s && cp -a %s.%u %s", sf->path[slot], sf->path[slot], number, sf->path[slot]);
}

static bool can_read(const struct eng_health *h, void *arg)
{
        return h->ready;
}

static bool whole(const struct eng_health *h, void *arg)
{
        unsigned i;

        for (i = 0; i < h->drive_count; i++)
                if (h->drives[i].filling)
                        return false;
        return h->ready && h->writable && h->drives_in == h->drive_count && !h->healing && h->objects_below == 0;
}

static void start(struct sf *sf, bool (*fine)(const struct eng_health *h, void *arg))
{
        assert_int_equal(sf_open(sf, false), 0);
        assert_true(sf_wait_health(sf, fine, NULL, 60));
}

static const char *key_of(unsigned i)
{
        static char key[32];

        snprintf(key, sizeof(key), "key/%u", i);
        return key;
}

static size_t size_of(unsigned i)
{
        return i % 4 == 0 ? 300000 : 100 + i;
}

/* Round 0 writes all keys; each later one overwrites some, deletes some and adds a bucket. */
static void change(struct sf *sf, uint64_t bucket, uint64_t *seeds, unsigned round)
{
        char name[24];
        uint64_t other;
        bool existed;
        unsigned i;

        for (i = 0; i < KEYS; i++) {
                if (round > 0 && (i + round) % 3 == 0)
                        continue;
                if (round > 0 && (i + round) % 3 == 1) {
                        assert_int_equal(sf_delete(sf, i % sf->loop_count, bucket, key_of(i), &existed), 0);
                        seeds[i] = 0;
                        continue;
                }
                seeds[i] = 1000 * (round + 1) + i;
                assert_int_equal(sf_put(sf, i % sf->loop_count, bucket, key_of(i), seeds[i], size_of(i), true, NULL), 0);
        }
        snprintf(name, sizeof(name), "bucket-%u", round);
        assert_int_equal(sf_bucket(sf, name, &other), 0);
}

static void check(struct sf *sf, uint64_t bucket, const uint64_t *seeds, unsigned rounds)
{
        char name[24];
        uint64_t other;
        unsigned i;

        for (i = 0; i < KEYS; i++) {
                if (seeds[i] == 0)
                        assert_int_equal(sf_get(sf, i % sf->loop_count, bucket, key_of(i), 1, 1), -ENOENT);
                else
                        assert_int_equal(sf_get(sf, i % sf->loop_count, bucket, key_of(i), seeds[i], size_of(i)), 0);
        }
        for (i = 0; i < rounds; i++) {
                snprintf(name, sizeof(name), "bucket-%u", i);
                assert_int_equal(sf_bucket(sf, name, &other), -EEXIST);
        }
}

/* What is answered is right; 503 is not wrong. */
static void check_no_lie(struct sf *sf, uint64_t bucket, const uint64_t *seeds)
{
        unsigned i;
        int rv;

        for (i = 0; i < KEYS; i++) {
                rv = sf_get(sf, i % sf->loop_count, bucket, key_of(i), seeds[i] == 0 ? 1 : seeds[i],
                            seeds[i] == 0 ? 1 : size_of(i));
                assert_true(rv == -EHOSTDOWN || rv == -EIO || rv == (seeds[i] == 0 ? -ENOENT : 0));
        }
}

static void begin(struct sf *sf, unsigned drives, uint64_t *bucket, uint64_t *seeds)
{
        sf_make(sf, drives, 2);
        assert_int_equal(sf_open(sf, true), 0);
        assert_true(sf_wait_ready(sf, 20));
        assert_int_equal(sf_bucket(sf, "bucket", bucket), 0);
        change(sf, *bucket, seeds, 0);
}

/*
 * Every slot in turn, with a start between the image and what is lost, or none; and whatever the
 * store has then is there with any one drive away.
 */
static void test_one_drive(void **state)
{
        uint64_t bucket, seeds[KEYS];
        unsigned slot, round = 1;
        struct sf sf;

        begin(&sf, 4, &bucket, seeds);
        sf_close(&sf);
        for (slot = 0; slot < 4; slot++) {
                unsigned between;

                for (between = 0; between < 2; between++, round++) {
                        start(&sf, whole);
                        if (between == 0) { /* of a drive in use: as a snapshot of its file system is */
                                image(&sf, slot, 0);
                        } else {
                                sf_close(&sf);
                                image(&sf, slot, 0);
                                start(&sf, can_read);
                        }
                        change(&sf, bucket, seeds, round);
                        sf_close(&sf);
                        put_back(&sf, slot, 0);
                        start(&sf, can_read);
                        check(&sf, bucket, seeds, round + 1);
                        assert_true(sf_wait_health(&sf, whole, NULL, 60));
                        check(&sf, bucket, seeds, round + 1);
                        sf_close(&sf);
                }
                shell("mv %s %s.away", sf.path[(slot + 1) % 4], sf.path[(slot + 1) % 4]);
                start(&sf, can_read);
                check(&sf, bucket, seeds, round);
                sf_close(&sf);
                shell("mv %s.away %s", sf.path[(slot + 1) % 4], sf.path[(slot + 1) % 4]);
        }
        sf_remove(&sf);
}

/* The image is older than all epochs that a drive remembers. */
static void test_very_old_image(void **state)
{
        uint64_t bucket, seeds[KEYS];
        struct sf sf;
        unsigned i;

        begin(&sf, 4, &bucket, seeds);
        sf_close(&sf);
        image(&sf, 0, 0);
        for (i = 0; i < 70; i++) {
                start(&sf, can_read);
                if (i == 35)
                        change(&sf, bucket, seeds, 1);
                sf_close(&sf);
        }
        put_back(&sf, 0, 0);
        start(&sf, whole);
        check(&sf, bucket, seeds, 2);
        sf_close(&sf);
        sf_remove(&sf);
}

static bool is_filling(const struct sf *sf, unsigned slot)
{
        struct eng_health *h = calloc(1, sizeof(*h));
        bool filling;

        assert_non_null(h);
        eng_health_read(sf->store, h);
        filling = h->drives[slot].filling;
        free(h);
        return filling;
}

/*
 * What was lost was written two starts ago, under an epoch of which numbers say nothing any more.
 * What tells is the epoch that the drive lacks; or, where the log alone is an older one, that the
 * index covers more than it has. No walk of the names can have made up for it when the store
 * answers.
 */
static void lost_before_the_last_start(bool log_alone)
{
        uint64_t bucket, seeds[KEYS];
        struct sf sf;
        unsigned i;

        begin(&sf, 4, &bucket, seeds);
        sf_close(&sf);
        image(&sf, 1, 0);
        start(&sf, can_read);
        change(&sf, bucket, seeds, 1);
        sf_close(&sf);
        for (i = 0; i < 2; i++) {
                start(&sf, can_read);
                sf_close(&sf);
        }
        if (log_alone)
                shell("rm -rf %s/log && cp -a %s.0/log %s/log", sf.path[1], sf.path[1], sf.path[1]);
        else
                put_back(&sf, 1, 0);
        sf.options.heal_rate = 1000;
        start(&sf, can_read);
        assert_true(is_filling(&sf, 1));
        check(&sf, bucket, seeds, 2);
        sf_close(&sf);
        sf.options.heal_rate = 0;
        start(&sf, whole);
        check(&sf, bucket, seeds, 2);
        sf_close(&sf);
        sf_remove(&sf);
}

static void test_lost_an_epoch(void **state)
{
        lost_before_the_last_start(false);
}

static void test_lost_the_end_of_the_log(void **state)
{
        lost_before_the_last_start(true);
}

static bool reads_only(const struct eng_health *h, void *arg)
{
        return h->ready && !h->writable && strstr(h->reason, "lost writes") != NULL;
}

/*
 * More drives than the code can do without, each back to another time: nothing is taken for current
 * that is not, nobody writes, and health says why. The operator may go on without them.
 */
static void test_too_many(void **state)
{
        uint64_t bucket, seeds[KEYS], number;
        struct eng_force_report r;
        struct sf sf;
        unsigned i;

        begin(&sf, 4, &bucket, seeds);
        sf_close(&sf);
        for (i = 0; i < 3; i++) {
                image(&sf, i, 0);
                start(&sf, can_read);
                change(&sf, bucket, seeds, i + 1);
                sf_close(&sf);
                image(&sf, i, 1);
        }
        for (i = 0; i < 3; i++) /* all but one: no object can be read, and what is answered is no lie */
                put_back(&sf, i, 0);
        start(&sf, reads_only);
        check_no_lie(&sf, bucket, seeds);
        assert_int_equal(sf_put(&sf, 0, bucket, "new", 1, 10, true, NULL), -EROFS);
        sf_close(&sf);
        put_back(&sf, 2, 1); /* this one has all */
        start(&sf, reads_only);
        check_no_lie(&sf, bucket, seeds);
        sf_close(&sf);
        start(&sf, reads_only);
        assert_int_equal(eng_force(sf.store, 1u << 0 | 1u << 1, &number), 0);
        do
                assert_int_equal(eng_force_read(sf.store, number, &r), 0);
        while (r.running);
        assert_int_equal(r.rv, 0);
        check_no_lie(&sf, bucket, seeds);
        sf_close(&sf);
        sf_remove(&sf);
}

/*
 * A drive that was put back before it had caught up with the others, and one put back to a time
 * before it was put in another's place, as it were.
 */
static void put_back_while_joining(unsigned slot)
{
        uint64_t bucket, seeds[KEYS];
        struct sf sf;

        begin(&sf, 4, &bucket, seeds);
        sf_close(&sf);
        shell("mv %s %s.away", sf.path[slot], sf.path[slot]);
        start(&sf, can_read);
        change(&sf, bucket, seeds, 1);
        sf_close(&sf);
        shell("mv %s.away %s", sf.path[slot], sf.path[slot]);
        image(&sf, slot, 0); /* stale */
        start(&sf, can_read);
        image(&sf, slot, 1); /* catching up */
        assert_true(sf_wait_health(&sf, whole, NULL, 60));
        change(&sf, bucket, seeds, 2);
        sf_close(&sf);
        put_back(&sf, slot, 1);
        start(&sf, whole);
        check(&sf, bucket, seeds, 3);
        change(&sf, bucket, seeds, 3);
        sf_close(&sf);
        put_back(&sf, slot, 0);
        start(&sf, whole);
        check(&sf, bucket, seeds, 4);
        sf_close(&sf);
        sf_remove(&sf);
}

static void test_joining(void **state)
{
        put_back_while_joining(0);
        put_back_while_joining(2);
}

/* Changes that leave nothing to be repaired: objects without shards. */
static void change_small(struct sf *sf, uint64_t bucket, uint64_t *seeds, unsigned round)
{
        bool existed;
        unsigned i;

        for (i = 0; i < KEYS; i++) {
                if (i % 4 == 0)
                        continue;
                seeds[i] = (i + round) % 3 == 0 ? 0 : 1000 * (round + 1) + i;
                if (seeds[i] == 0)
                        assert_int_equal(sf_delete(sf, i % sf->loop_count, bucket, key_of(i), &existed), 0);
                else
                        assert_int_equal(sf_put(sf, i % sf->loop_count, bucket, key_of(i), seeds[i], size_of(i), true, NULL), 0);
        }
}

static bool three_failed(const struct eng_health *h, void *arg)
{
        unsigned i, n = 0;

        for (i = 0; i < h->drive_count; i++)
                n += h->drives[i].state == ENG_DRIVE_FAILED;
        return n == 3;
}

/*
 * A drive catches up and an epoch takes it in; the store ends before the next epoch says that this
 * one was in force. Then that drive is back to a time before it caught up, and lacks that epoch.
 * Nobody can tell whether it was in force, and the drive counts as one that has not caught up. Each
 * slot in turn.
 */
static void test_taken_in_and_back(void **state)
{
        uint64_t bucket, seeds[KEYS];
        unsigned slot, i;
        char faults[256];
        struct sf sf;

        begin(&sf, 4, &bucket, seeds);
        sf_close(&sf);
        for (slot = 0; slot < 4; slot++) {
                shell("mv %s %s.away", sf.path[slot], sf.path[slot]);
                start(&sf, can_read);
                change_small(&sf, bucket, seeds, slot + 1);
                sf_close(&sf);
                shell("mv %s.away %s", sf.path[slot], sf.path[slot]);
                image(&sf, slot, 0);
                faults[0] = 0;
                for (i = 0; i < 4; i++) /* three epochs: of this start, of the drive that is to catch up, and of the drive that has */
                        if (i != slot)
                                snprintf(faults + strlen(faults), sizeof(faults) - strlen(faults),
                                         "%sfail:op=append,after=3,slot=%u", faults[0] == 0 ? "" : ";", i);
                sf.options.faults = faults;
                start(&sf, three_failed);
                sf_close(&sf);
                sf.options.faults = NULL;
                put_back(&sf, slot, 0);
                start(&sf, can_read);
                check(&sf, bucket, seeds, 1);
                assert_true(sf_wait_health(&sf, whole, NULL, 60));
                check(&sf, bucket, seeds, 1);
                sf_close(&sf);
        }
        sf_remove(&sf);
}

/* Nobody has another copy: what it holds is all there is, and it opens. */
static void test_without_parity(void **state)
{
        uint64_t bucket, seeds[KEYS], kept[KEYS];
        struct sf sf;

        begin(&sf, 1, &bucket, seeds);
        sf_close(&sf);
        memcpy(kept, seeds, sizeof(kept));
        image(&sf, 0, 0);
        start(&sf, can_read);
        change(&sf, bucket, seeds, 1);
        sf_close(&sf);
        put_back(&sf, 0, 0);
        start(&sf, can_read);
        check(&sf, bucket, kept, 1);
        sf_close(&sf);
        sf_remove(&sf);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_one_drive),
                cmocka_unit_test(test_very_old_image),
                cmocka_unit_test(test_too_many),
                cmocka_unit_test(test_lost_an_epoch),
                cmocka_unit_test(test_lost_the_end_of_the_log),
                cmocka_unit_test(test_joining),
                cmocka_unit_test(test_taken_in_and_back),
                cmocka_unit_test(test_without_parity),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
