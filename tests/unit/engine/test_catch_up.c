/*
 * A drive that comes back after the store went on without it: whatever it missed, it holds what the
 * others hold before anything is asked of it. To see what it holds, the store is opened with it and
 * one other drive alone: of a third of the names it is then the only member.
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

#include "tests/lib/store_fixture.h"

#define NAMES 600u

static const unsigned slots[] = {0, 2};
static unsigned back; /* the drive that goes and comes back */

struct expected {
        uint64_t seed[NAMES]; /* 0: no such object */
        size_t size[NAMES];
};

static const char *key_of(unsigned i)
{
        static char key[700];

        if (i % 50 == 7) /* some longer than a key of the index */
                snprintf(key, sizeof(key), "long/%0600u", i);
        else
                snprintf(key, sizeof(key), "%c/%u", 'a' + (int)(i % 3), i);
        return key;
}

static void set(struct sf *sf, uint64_t bucket, struct expected *e, unsigned i, uint64_t seed)
{
        size_t size = i % 40 == 3 ? 300000 : 10 + i;
        bool existed;

        if (seed == 0)
                assert_int_equal(sf_delete(sf, i % sf->loop_count, bucket, key_of(i), &existed), 0);
        else
                assert_int_equal(sf_put(sf, i % sf->loop_count, bucket, key_of(i), seed, size, true, NULL), 0);
        e->seed[i] = seed;
        e->size[i] = size;
}

static void check(struct sf *sf, uint64_t bucket, const struct expected *e, bool large_too)
{
        unsigned i, listed = 0, want = 0;
        char after[700] = "", *names, *at, *end;
        bool more = true;
        int rv;

        for (i = 0; i < NAMES; i++) {
                want += e->seed[i] != 0;
                if (e->seed[i] == 0)
                        assert_int_equal(sf_get(sf, 0, bucket, key_of(i), 1, 1), -ENOENT);
                else if (large_too || e->size[i] < 100000)
                        assert_int_equal(sf_get(sf, i % sf->loop_count, bucket, key_of(i), e->seed[i], e->size[i]), 0);
        }
        while (more) {
                names = sf_list(sf, 0, bucket, "", "", after, 250, &rv, &more);
                assert_int_equal(rv, 0);
                for (at = names; (end = strchr(at, '\n')) != NULL; at = end + 1, listed++) {
                        *end = 0;
                        snprintf(after, sizeof(after), "%s", at);
                }
                free(names);
        }
        assert_int_equal(listed, want);
}

/*
 * And nothing is under way: closed in the middle of an epoch change, the store would have groups in
 * doubt while drives are missing.
 */
static bool all_in(const struct eng_health *h, void *arg)
{
        unsigned i;

        for (i = 0; i < h->drive_count; i++)
                if (h->drives[i].dropping_migrated)
                        return false;
        return h->ready && h->writable && h->drives_in == h->drive_count;
}

static bool whole(const struct eng_health *h, void *arg)
{
        return all_in(h, arg) && !h->healing && h->objects_below == 0;
}

static bool can_read(const struct eng_health *h, void *arg)
{
        return h->ready;
}

static void move(struct sf *sf, unsigned drive, bool away)
{
        char there[256];

        snprintf(there, sizeof(there), "%s.away", sf->path[drive]);
        assert_int_equal(away ? rename(sf->path[drive], there) : rename(there, sf->path[drive]), 0);
}

static void start(struct sf *sf, bool (*fine)(const struct eng_health *h, void *arg))
{
        assert_int_equal(sf_open(sf, false), 0);
        assert_true(sf_wait_health(sf, fine, NULL, 60));
}

/* Opens with the drive and one other alone, and looks. */
static void check_alone(struct sf *sf, uint64_t bucket, const struct expected *e, bool large_too)
{
        unsigned other;

        for (other = 0; other < 4; other++) {
                unsigned i;

                if (other == back)
                        continue;
                for (i = 0; i < 4; i++)
                        if (i != other && i != back)
                                move(sf, i, true);
                start(sf, can_read);
                check(sf, bucket, e, large_too);
                sf_close(sf);
                for (i = 0; i < 4; i++)
                        if (i != other && i != back)
                                move(sf, i, false);
        }
}

static void begin(struct sf *sf, uint64_t *bucket, struct expected *e)
{
        unsigned i;

        memset(e, 0, sizeof(*e));
        sf_make(sf, 4, 2);
        sf->options.memtable_bytes = 256 << 10;
        sf->options.log_file_bytes = 1 << 20;
        assert_int_equal(sf_open(sf, true), 0);
        assert_true(sf_wait_ready(sf, 20));
        assert_int_equal(sf_bucket(sf, "bucket", bucket), 0);
        for (i = 0; i < NAMES; i += 2)
                set(sf, *bucket, e, i, i + 1);
}

static void test_what_it_missed(void **state)
{
        uint8_t kept[ENG_ID_LEN], ended[ENG_ID_LEN], begun[ENG_ID_LEN], part[ENG_ID_LEN];
        struct eng_complete_part one = {.number = 1};
        struct expected e;
        uint64_t bucket, other;
        struct sf sf;
        unsigned i;

        back = *(unsigned *)*state;
        begin(&sf, &bucket, &e);
        assert_int_equal(sf_bucket(&sf, "goes", &other), 0);
        assert_int_equal(sf_upload(&sf, bucket, "up/kept", kept), 0);
        assert_int_equal(sf_part(&sf, 0, bucket, "up/kept", kept, 1, 77, 0, 5000, part), 0);
        assert_int_equal(sf_upload(&sf, bucket, "up/ended", ended), 0);
        assert_int_equal(sf_part(&sf, 0, bucket, "up/ended", ended, 1, 78, 0, 5000, part), 0);
        sf_close(&sf);

        move(&sf, back, true);
        start(&sf, can_read);
        for (i = 0; i < NAMES; i++)
                if (i % 3 == 0)
                        set(&sf, bucket, &e, i, i % 2 == 0 && i % 4 == 0 ? 0 : 1000 + i);
        assert_int_equal(sf_upload_abort(&sf, bucket, "up/ended", ended), 0);
        assert_int_equal(sf_upload(&sf, bucket, "up/begun", begun), 0);
        assert_int_equal(sf_part(&sf, 0, bucket, "up/begun", begun, 1, 79, 0, 5000, part), 0);
        memcpy(one.id, part, ENG_ID_LEN);
        assert_int_equal(sf_bucket_delete(&sf, "goes"), 0);
        assert_int_equal(sf_bucket(&sf, "comes", &other), 0);
        sf_close(&sf);

        move(&sf, back, false);
        start(&sf, can_read);
        for (i = 0; i < NAMES; i++) /* while it catches up */
                if (i % 5 == 1)
                        set(&sf, bucket, &e, i, i % 2 == 0 ? 0 : 2000 + i);
        assert_true(sf_wait_health(&sf, all_in, NULL, 60));
        check(&sf, bucket, &e, true);
        assert_int_equal(sf_bucket(&sf, "comes", &other), -EEXIST);
        for (i = 0; i < NAMES; i++) /* as a member */
                if (i % 7 == 2)
                        set(&sf, bucket, &e, i, i % 2 == 0 ? 0 : 3000 + i);
        assert_true(sf_wait_health(&sf, whole, NULL, 60));
        sf_close(&sf);
        check_alone(&sf, bucket, &e, true);

        start(&sf, all_in);
        assert_int_equal(sf_complete(&sf, bucket, "up/begun", begun, &one, 1), 0);
        assert_int_equal(sf_get(&sf, 1, bucket, "up/begun", 79, 5000), 0);
        assert_int_equal(sf_upload_abort(&sf, bucket, "up/ended", ended), -ENOENT);
        assert_int_equal(sf_upload_abort(&sf, bucket, "up/kept", kept), 0);
        sf_close(&sf);
        sf_remove(&sf);
}

/* A crash of the whole store while the drive catches up: it begins anew. Its index is lost too. */
static void test_interrupted(void **state)
{
        struct expected e;
        char command[256];
        uint64_t bucket;
        struct sf sf;
        unsigned i, round;

        back = *(unsigned *)*state;
        begin(&sf, &bucket, &e);
        sf_close(&sf);
        move(&sf, back, true);
        start(&sf, can_read);
        for (i = 0; i < NAMES; i++)
                set(&sf, bucket, &e, i, i % 3 == 0 ? 0 : 4000 + i);
        sf_close(&sf);
        move(&sf, back, false);
        for (round = 0; round < 6; round++) {
                assert_int_equal(sf_open(&sf, false), 0);
                assert_true(sf_wait_ready(&sf, 20));
                for (i = round; i < 5 * round; i++)
                        set(&sf, bucket, &e, i, 5000 + round);
                sf_close(&sf);
        }
        snprintf(command, sizeof(command), "rm -rf %s/index", sf.path[back]);
        assert_int_equal(system(command), 0);
        start(&sf, all_in);
        check(&sf, bucket, &e, true);
        sf_close(&sf);
        check_alone(&sf, bucket, &e, false);
        sf_remove(&sf);
}

/* The store is there, without the drive, which has missed something. */
static void miss(struct sf *sf, uint64_t *bucket, struct expected *e)
{
        unsigned i;

        begin(sf, bucket, e);
        sf_close(sf);
        move(sf, back, true);
        start(sf, can_read);
        for (i = 0; i < NAMES; i++)
                if (i % 3 == 0)
                        set(sf, *bucket, e, i, i % 2 == 0 && i % 4 == 0 ? 0 : 6000 + i);
        sf_close(sf);
        move(sf, back, false);
}

/* Members have been compared since it is one. */
static bool is_walked(const struct eng_health *h, void *arg)
{
        return all_in(h, arg) && !h->healing;
}

/*
 * Names of a member that cannot be read are read from others, what is refused for a while is asked
 * for again, and nothing is left out for either.
 */
static void test_what_fails_on_the_way(void **state)
{
        static const char *const faults[] = {
                "corrupt:op=scan,slot=0",
                "again:op=scan,every=2",
        };
        struct eng_heal_report *report = malloc(2 * sizeof(*report)); /* now, last */
        struct expected e;
        uint64_t bucket;
        struct sf sf;
        unsigned i, f;

        back = *(unsigned *)*state;
        assert_non_null(report);
        for (f = 0; f < sizeof(faults) / sizeof(faults[0]); f++) {
                miss(&sf, &bucket, &e);
                sf.options.faults = faults[f];
                start(&sf, can_read);
                for (i = 0; i < NAMES; i++) /* while it catches up */
                        if (i % 5 == 1)
                                set(&sf, bucket, &e, i, i % 2 == 0 ? 0 : 7000 + i);
                assert_true(sf_wait_health(&sf, is_walked, NULL, 60));
                eng_heal_read(sf.store, &report[0], &report[1]);
                assert_int_equal(report[0].differing_names, 0);
                sf_close(&sf);
                sf.options.faults = NULL;
                check_alone(&sf, bucket, &e, false);
                sf_remove(&sf);
        }
        free(report);
}

static bool is_compared(const struct eng_health *h, void *arg)
{
        return h->drives[back].state == ENG_DRIVE_JOINING && strstr(h->drives[back].reason, "catching up: ") != NULL &&
               strstr(h->drives[back].reason, " 0 names compared") == NULL;
}

/* What is compared and copied is paid for: beside clients it goes no faster than it may. */
static void test_is_paced(void **state)
{
        struct eng_health *health = malloc(sizeof(*health));
        struct expected e;
        uint64_t bucket;
        struct sf sf;
        unsigned i;

        back = *(unsigned *)*state;
        assert_non_null(health);
        miss(&sf, &bucket, &e);
        sf.options.heal_rate = 4 << 10; /* all names take it half a minute, without clients */
        start(&sf, is_compared);
        for (i = 0; i < NAMES; i += 10)
                set(&sf, bucket, &e, i, 8000 + i);
        eng_health_read(sf.store, health);
        assert_true(is_compared(health, NULL));
        sf_close(&sf);
        sf.options.heal_rate = 1 << 30;
        start(&sf, all_in);
        check(&sf, bucket, &e, true);
        sf_close(&sf);
        check_alone(&sf, bucket, &e, false);
        sf_remove(&sf);
        free(health);
}

static bool is_gone(const struct eng_health *h, void *arg)
{
        return h->ready && h->drives_in == 3;
}

/* All names have been walked, and thereby counted. */
static bool is_surveyed(const struct eng_health *h, void *arg)
{
        struct eng_heal_report *report = malloc(2 * sizeof(*report)); /* now, last */
        struct sf *sf = arg;
        bool surveyed;

        assert_non_null(report);
        eng_heal_read(sf->store, &report[0], &report[1]);
        surveyed = report[0].surveyed && !report[0].running && report[0].looked_at > 0;
        free(report);
        return surveyed;
}

static bool is_under_way(const struct eng_health *h, void *arg)
{
        return h->drives[back].catch_up.running && h->drives[back].catch_up.compared > 0;
}

/* An operator sees how far it is, of how many names, and when it will be done at this rate. */
static void test_how_far_it_is(void **state)
{
        struct eng_health *health = malloc(sizeof(*health));
        struct eng_catch_up_progress *p;
        struct expected e;
        uint64_t bucket;
        struct sf sf;
        unsigned i;

        back = *(unsigned *)*state;
        assert_non_null(health);
        p = &health->drives[back].catch_up;
        begin(&sf, &bucket, &e);
        sf_close(&sf);
        sf.options.heal_rate = 1 << 30;
        start(&sf, all_in);
        assert_true(sf_wait_health(&sf, is_surveyed, &sf, 60));
        move(&sf, back, true);
        assert_true(sf_wait_health(&sf, is_gone, NULL, 60));
        for (i = 0; i < NAMES; i += 3)
                set(&sf, bucket, &e, i, 9000 + i);
        atomic_store(&sf.store->pacer.rate, 16 << 10);
        move(&sf, back, false);
        assert_true(sf_wait_health(&sf, is_under_way, NULL, 60));
        eng_health_read(sf.store, health);
        assert_true(p->running && p->total > p->compared && p->compared >= p->copied);
        assert_true(p->total > NAMES / 4 && p->total < NAMES); /* of some 400 it has the groups of three out of four */
        assert_true(p->seconds_left > 0);
        for (i = 0; i < 4; i++)
                assert_int_equal(health->drives[i].catch_up.running, i == back);
        atomic_store(&sf.store->pacer.rate, 1 << 30);
        assert_true(sf_wait_health(&sf, all_in, NULL, 60));
        eng_health_read(sf.store, health);
        assert_false(p->running);
        check(&sf, bucket, &e, true);
        sf_close(&sf);
        sf_remove(&sf);
        free(health);
}

static size_t large_size(unsigned i)
{
        static const size_t sizes[] = {131073, 300000, (1 << 20) + 1, (2 << 20) + 4095, 5 << 20, (9 << 20) + 777};

        return sizes[i % 6];
}

static void get_large(struct sf *sf, uint64_t bucket, unsigned gone)
{
        char key[32];
        unsigned i;

        for (i = 0; i < 24; i++) {
                snprintf(key, sizeof(key), "large/%u", i);
                if (i % 8 == gone)
                        assert_int_equal(sf_get(sf, 0, bucket, key, 1, 1), -ENOENT);
                else
                        assert_int_equal(sf_get(sf, i % sf->loop_count, bucket, key, i + 1, large_size(i)), 0);
        }
}

/*
 * Objects written while a drive was out lack a shard of each stripe. They get it when the drive is
 * back, also those of several parts, those that change meanwhile, and after restarts in the middle
 * of it: then any two of four drives are enough to read everything.
 */
static void test_shards_come_back(void **state)
{
        uint8_t id[ENG_ID_LEN];
        struct eng_complete_part parts[3];
        unsigned i, a, b;
        uint64_t bucket;
        struct sf sf;
        char key[32];
        bool existed;

        back = *(unsigned *)*state;
        sf_make(&sf, 4, 2);
        assert_int_equal(sf_open(&sf, true), 0);
        assert_true(sf_wait_ready(&sf, 20));
        assert_int_equal(sf_bucket(&sf, "bucket", &bucket), 0);
        sf_close(&sf);
        move(&sf, back, true);
        start(&sf, can_read);
        for (i = 0; i < 24; i++) {
                snprintf(key, sizeof(key), "large/%u", i);
                assert_int_equal(sf_put(&sf, i % 2, bucket, key, i + 1, large_size(i), i % 3 != 0, NULL), 0);
        }
        assert_int_equal(sf_upload(&sf, bucket, "parts", id), 0);
        memset(parts, 0, sizeof(parts));
        for (i = 0; i < 3; i++) {
                parts[i].number = i + 1;
                assert_int_equal(sf_part(&sf, 0, bucket, "parts", id, i + 1, 50, i * (5u << 20), i < 2 ? 5u << 20 : 70000, parts[i].id), 0);
        }
        assert_int_equal(sf_complete(&sf, bucket, "parts", id, parts, 3), 0);
        sf_close(&sf);

        move(&sf, back, false);
        sf.options.heal_rate = 20 << 20;
        for (i = 0; i < 3; i++) { /* cut short */
                start(&sf, i < 1 ? can_read : all_in);
                if (i == 1)
                        usleep(300000);
                sf_close(&sf);
        }
        start(&sf, all_in);
        for (i = 3; i < 24; i += 8) {
                snprintf(key, sizeof(key), "large/%u", i);
                assert_int_equal(sf_delete(&sf, 0, bucket, key, &existed), 0);
        }
        assert_true(sf_wait_health(&sf, whole, NULL, 120));
        get_large(&sf, bucket, 3);
        sf_close(&sf);

        for (a = 0; a < 4; a++)
                for (b = a + 1; b < 4; b++) {
                        move(&sf, a, true);
                        move(&sf, b, true);
                        start(&sf, can_read);
                        get_large(&sf, bucket, 3);
                        assert_int_equal(sf_get(&sf, 1, bucket, "parts", 50, (10 << 20) + 70000), 0);
                        sf_close(&sf);
                        move(&sf, a, false);
                        move(&sf, b, false);
                }
        sf_remove(&sf);
}

#define OF_SLOT(test, which) cmocka_unit_test_prestate(test, (void *)&slots[which])

int main(void)
{
        const struct CMUnitTest tests[] = {
                OF_SLOT(test_what_fails_on_the_way, 1), OF_SLOT(test_is_paced, 1), OF_SLOT(test_how_far_it_is, 1),
                OF_SLOT(test_what_it_missed, 0), OF_SLOT(test_what_it_missed, 1),   OF_SLOT(test_interrupted, 0),
                OF_SLOT(test_interrupted, 1),    OF_SLOT(test_shards_come_back, 0),
               
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
