/*
 * test_verify.c - a verification of a store whose drives do not answer at once, or at all: every
 * name is counted once, and nothing is said to be amiss that was not looked at; copies that are
 * damaged, on each drive in turn; names that change and a drive that leaves meanwhile; a scrub that
 * goes on where it was.
 */
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
#include "tests/lib/wait.h"

#define SMALL 20u
#define LARGE 4u
#define MORE  80u /* three of four are on each drive */
#define SIZE  300000u

static void name_of(unsigned i, char key[16])
{
        snprintf(key, 16, "k%02u", i);
}

static void put(struct sf *sf, uint64_t bucket, unsigned i, unsigned seed)
{
        char key[16];

        name_of(i, key);
        assert_int_equal(sf_put(sf, i % 2, bucket, key, seed, i < SMALL ? 500 : SIZE, true, NULL), 0);
}

static void begin(struct sf *sf, uint64_t *bucket)
{
        unsigned i;

        sf_make(sf, 4, 2);
        sf->options.cache_bytes = 1; /* small objects come from the log */
        assert_int_equal(sf_open(sf, true), 0);
        assert_true(sf_wait_ready(sf, 20));
        assert_int_equal(sf_bucket(sf, "bucket", bucket), 0);
        for (i = 0; i < SMALL + LARGE; i++)
                put(sf, *bucket, i, 1 + i);
}

static bool is_in(const struct eng_health *h, void *arg)
{
        return h->ready && h->writable && h->drives_in == h->drive_count && !h->healing;
}

static void open_with(struct sf *sf, const char *faults)
{
        sf->options.faults = faults;
        assert_int_equal(sf_open(sf, false), 0);
        assert_true(sf_wait_health(sf, is_in, NULL, 30));
}

static void wait_verified(struct sf *sf, struct eng_verify_report *r)
{
        WAIT_UNTIL((eng_verify_read(sf->store, r), !r->running));
        assert_false(r->running);
}

static void verify(struct sf *sf, struct eng_verify_report *r)
{
        assert_int_equal(eng_verify_start(sf->store), 0);
        wait_verified(sf, r);
}

static void assert_nothing_amiss(const struct eng_verify_report *r)
{
        assert_int_equal(r->damaged_shards + r->missing_shards + r->unreadable_objects + r->differing_names, 0);
}

static void end(struct sf *sf)
{
        sf_close(sf);
        sf_remove(sf);
}

/*
 * A drive that cannot look now is asked again, by lookups and scans; what it never looked at is
 * counted, and other members give the objects.
 */
static void test_turned_away(void **state)
{
        static const struct {
                const char *faults;
                bool ends;
        } cases[] = {
                {"again:op=lookup,slot=0,every=2", true},
                {"again:op=lookup,every=3", true},
                {"again:op=lookup,slot=0,after=40", false},
                {"again:op=scan,slot=0,every=2", true},
                {"again:op=scan,slot=2,after=40", false},
        };
        struct eng_verify_report r;
        uint64_t bucket;
        struct sf sf;
        unsigned i;

        begin(&sf, &bucket);
        for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                sf_close(&sf);
                open_with(&sf, cases[i].faults);
                verify(&sf, &r);
                assert_nothing_amiss(&r);
                assert_int_equal(r.objects, SMALL + LARGE);
                if (cases[i].ends)
                        assert_int_equal(r.unread_shards, 0);
        }
        end(&sf);
}

/*
 * A drive that cannot look at every second try is asked as often as it takes, for however many
 * names: each answer of it begins a new count.
 */
static void test_turned_away_often(void **state)
{
        struct eng_verify_report r;
        char key[16];
        uint64_t bucket;
        struct sf sf;
        unsigned i;

        begin(&sf, &bucket);
        for (i = 0; i < MORE; i++) {
                snprintf(key, sizeof(key), "more-%03u", i);
                assert_int_equal(sf_put(&sf, i % 2, bucket, key, 1, 500, true, NULL), 0);
        }
        sf_close(&sf);
        open_with(&sf, "again:op=lookup,slot=0,every=2");
        verify(&sf, &r);
        assert_nothing_amiss(&r);
        assert_int_equal(r.objects, SMALL + LARGE + MORE);
        assert_int_equal(r.unread_shards, 0);
        end(&sf);
}

/* Whoever never answers is counted. */
static void test_never_looked_at(void **state)
{
        static const char *const faults[] = {"again:op=lookup,slot=1", "again:op=scan,slot=1,after=4"};
        struct eng_verify_report r;
        uint64_t bucket;
        struct sf sf;
        unsigned i;

        begin(&sf, &bucket);
        for (i = 0; i < 2; i++) {
                sf_close(&sf);
                sf.options.faults = faults[i];
                assert_int_equal(sf_open(&sf, false), 0);
                assert_true(sf_wait_ready(&sf, 30));
                verify(&sf, &r);
                assert_nothing_amiss(&r);
                assert_int_equal(r.objects, SMALL + LARGE);
                assert_true(r.unread_shards > 0);
        }
        end(&sf);
}

/*
 * The logs of each drive in turn are spoiled: bytes of small objects there are found damaged, and
 * written anew. Small objects are read from all their members.
 */
static void test_damaged_copies(void **state)
{
        struct eng_verify_report r;
        char command[512];
        uint64_t bucket;
        struct sf sf;
        unsigned slot, i, found = 0;
        char key[16];

        begin(&sf, &bucket);
        for (slot = 0; slot < 4; slot++) {
                sf_close(&sf);
                snprintf(command, sizeof(command),
                         "for f in %s/log/*; do for i in $(seq 10 3 400); do printf X | dd of=$f bs=1 seek=$((i * 4096 + 9)) conv=notrunc status=none; done; done",
                         sf.path[slot]);
                assert_int_equal(system(command), 0);
                open_with(&sf, NULL);
                verify(&sf, &r);
                assert_int_equal(r.objects, SMALL + LARGE);
                assert_int_equal(r.repaired_shards, r.damaged_shards);
                assert_int_equal(r.missing_shards + r.unreadable_objects + r.differing_names + r.unread_shards, 0);
                found += r.damaged_shards > 0;
                verify(&sf, &r);
                assert_nothing_amiss(&r);
        }
        assert_true(found >= 1); /* where names lie is drawn with the store's id */
        for (i = 0; i < SMALL; i++) {
                name_of(i, key);
                assert_int_equal(sf_get(&sf, 0, bucket, key, 1 + i, 500), 0);
        }
        end(&sf);
}

/*
 * Objects are written anew and deleted while they are verified, with every lookup late: nothing of
 * that is damage, and members never differ.
 */
static void test_names_that_change(void **state)
{
        struct eng_verify_report r;
        unsigned i, rounds = 0;
        uint64_t bucket;
        struct sf sf;
        bool existed;
        char key[16];

        begin(&sf, &bucket);
        sf_close(&sf);
        open_with(&sf, "delay:op=lookup,ms=3");
        assert_int_equal(eng_verify_start(sf.store), 0);
        for (i = 0; rounds < 3; i = (i + 7) % (SMALL + LARGE)) {
                name_of(i, key);
                if (i % 5 == 0)
                        assert_int_equal(sf_delete(&sf, 0, bucket, key, &existed), 0);
                put(&sf, bucket, i, 100 + i);
                eng_verify_read(sf.store, &r);
                if (r.running)
                        continue;
                assert_nothing_amiss(&r);
                assert_int_equal(r.unread_shards, 0);
                if (++rounds < 3)
                        assert_int_equal(eng_verify_start(sf.store), 0);
        }
        verify(&sf, &r);
        assert_nothing_amiss(&r);
        assert_int_equal(r.objects, SMALL + LARGE);
        end(&sf);
}

/*
 * A drive fails in mid-walk: the names that it had are those of others, too, and each is counted.
 */
static void test_a_drive_leaves(void **state)
{
        struct eng_verify_report r;
        struct eng_health h;
        uint64_t bucket;
        unsigned i;
        struct sf sf;

        begin(&sf, &bucket);
        sf_close(&sf);
        open_with(&sf, "delay:op=lookup,ms=5;fail:op=append,slot=1,after=3");
        assert_int_equal(eng_verify_start(sf.store), 0);
        for (i = 0; i < 1000 && (eng_health_read(sf.store, &h), h.drives[1].state == ENG_DRIVE_IN); i++)
                put(&sf, bucket, i % (SMALL + LARGE), 200 + i);
        wait_verified(&sf, &r);
        assert_int_equal(r.objects, SMALL + LARGE);
        assert_int_equal(r.damaged_shards + r.unreadable_objects + r.differing_names, 0);
        assert_int_not_equal(h.drives[1].state, ENG_DRIVE_IN);
        assert_true(h.ready);
        verify(&sf, &r);
        assert_int_equal(r.objects, SMALL + LARGE);
        assert_int_equal(r.unread_shards, 0);
        end(&sf);
}

/* Shards of a part are read like any; nobody writes them anew before the upload is an object. */
static void test_parts(void **state)
{
        uint8_t id[ENG_ID_LEN], part_id[ENG_ID_LEN];
        struct eng_complete_part one = {.number = 1};
        struct eng_verify_report r;
        uint64_t bucket, damaged;
        char command[512];
        struct sf sf;

        begin(&sf, &bucket);
        assert_int_equal(sf_upload(&sf, bucket, "upload", id), 0);
        assert_int_equal(sf_part(&sf, 0, bucket, "upload", id, 1, 50, 0, 5u << 20, part_id), 0);
        sf_close(&sf);
        snprintf(command, sizeof(command),
                 "for f in %s/data/*; do for i in $(seq 2 50 4000); do printf X | dd of=$f bs=1 seek=$((i * 4096 + 9)) conv=notrunc status=none; done; done",
                 sf.path[0]);
        assert_int_equal(system(command), 0);
        open_with(&sf, NULL);
        verify(&sf, &r);
        verify(&sf, &r); /* what objects lacked is back */
        assert_int_equal(r.repaired_shards, 0);
        damaged = r.damaged_shards + r.missing_shards;
        assert_true(damaged > 0);
        assert_int_equal(r.unreadable_objects, 0);
        memcpy(one.id, part_id, ENG_ID_LEN);
        assert_int_equal(sf_complete(&sf, bucket, "upload", id, &one, 1), 0);
        verify(&sf, &r);
        assert_int_equal(r.repaired_shards, damaged);
        verify(&sf, &r);
        assert_nothing_amiss(&r);
        assert_int_equal(sf_get(&sf, 0, bucket, "upload", 50, 5u << 20), 0);
        end(&sf);
}

/* ---- a scrub over a restart ------------------------------------------------------------------ */

static struct eng_verify_report scrub_now(const struct sf *sf, bool last)
{
        static struct eng_verify_report report[2];

        eng_scrub_read(sf->store, &report[0], &report[1]);
        return report[last];
}

/* All names were counted once, by a walk that a restart cut off. */
static void test_scrub_goes_on(void **state)
{
        struct eng_verify_report r;
        uint64_t bucket, seen;
        struct sf sf;

        begin(&sf, &bucket);
        sf_close(&sf);
        sf.options.scrub_rate = 32 << 10; /* some names a second */
        sf.options.scrub_interval_ms = 3600000;
        sf.options.heal_keep_ms = 50;
        open_with(&sf, NULL);
        assert_int_equal(eng_scrub_start(sf.store), 0);
        WAIT_UNTIL((r = scrub_now(&sf, false), r.objects >= 5));
        assert_in_range(r.objects, 5, SMALL + LARGE - 5);
        sf_close(&sf);

        open_with(&sf, NULL);
        WAIT_UNTIL((r = scrub_now(&sf, false), r.objects > 0)); /* the record has been read */
        seen = r.objects;
        assert_in_range(seen, 1, SMALL + LARGE - 1);
        sf_close(&sf);
        sf.options.scrub_rate = 1 << 30;
        open_with(&sf, NULL);
        WAIT_UNTIL((r = scrub_now(&sf, false), r.objects > 0));
        assert_true(r.objects >= seen);
        assert_int_equal(eng_scrub_start(sf.store), 0);
        WAIT_UNTIL((r = scrub_now(&sf, true), r.ended_ms != 0));
        assert_in_range(r.objects, SMALL + LARGE, SMALL + LARGE + 1); /* the one under way may have been counted, and not been through */
        assert_nothing_amiss(&r);
        end(&sf);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_turned_away),       cmocka_unit_test(test_never_looked_at), cmocka_unit_test(test_damaged_copies),
                cmocka_unit_test(test_names_that_change), cmocka_unit_test(test_a_drive_leaves),  cmocka_unit_test(test_parts),
                cmocka_unit_test(test_scrub_goes_on),     cmocka_unit_test(test_turned_away_often),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
