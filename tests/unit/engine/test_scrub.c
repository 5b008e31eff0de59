/*
 * test_scrub.c - scrub of a whole store: what rots is found though nobody reads it, and repaired;
 * over restarts; at the rate that is set.
 */
#include <glob.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/upkeep/upkeep.h"
#include "tests/lib/store_fixture.h"
#include "tests/lib/wait.h"

#define OBJECTS 6u

static const size_t sizes[OBJECTS] = {131073, 200000, 1 << 20, (2 << 20) + 1, (5 << 20) + 12345, 9 << 20};

static void open_again(struct sf *sf)
{
        assert_int_equal(sf_open(sf, false), 0);
        assert_true(sf_wait_ready(sf, 20));
        if (sf->options.scrub_rate > 0)
                assert_int_equal(eng_scrub_start(sf->store), 0);
}

static void begin(struct sf *sf, unsigned loops, uint64_t *bucket)
{
        char key[32];
        unsigned i;

        sf_make(sf, 4, loops);
        assert_int_equal(sf_open(sf, true), 0); /* without a scrub: no round is over yet */
        assert_true(sf_wait_ready(sf, 20));
        assert_int_equal(sf_bucket(sf, "bucket", bucket), 0);
        for (i = 0; i < OBJECTS; i++) {
                snprintf(key, sizeof(key), "k%u", i);
                assert_int_equal(sf_put(sf, i % loops, *bucket, key, i + 1, sizes[i], true, NULL), 0);
        }
        sf->options.scrub_rate = 1 << 30;
        sf->options.scrub_interval_ms = sf->options.scrub_period_ms = 3600000;
}

static void get_all(struct sf *sf, uint64_t bucket)
{
        char key[32];
        unsigned i;

        for (i = 0; i < OBJECTS; i++) {
                snprintf(key, sizeof(key), "k%u", i);
                assert_int_equal(sf_get(sf, 0, bucket, key, i + 1, sizes[i]), 0);
        }
}

/*
 * Spoils a byte of a block here and there, in the files of a folder of a drive that is closed but
 * for the newest ones: headers and payload as they come.
 */
static void spoil_from(const struct sf *sf, unsigned drive, const char *folder, unsigned newest, unsigned first, unsigned every)
{
        char command[512];

        snprintf(command, sizeof(command),
                 "for f in $(ls -d %s/%s/* | head -n -%u); do for i in $(seq %u %u 4000); do printf X | "
                 "dd of=$f bs=1 seek=$((i * 4096 + 9)) conv=notrunc status=none; done; done",
                 sf->path[drive], folder, newest, first, every);
        assert_int_equal(system(command), 0);
}

static void spoil(const struct sf *sf, unsigned drive, const char *folder, unsigned every)
{
        spoil_from(sf, drive, folder, 0, 2, every);
}

struct seen {
        uint64_t damaged, unrepaired, bytes;
        int64_t oldest_ms;  /* the last round of a drive ended then, of the drive where that is the longest ago */
        unsigned rounds; /* drives that have been through one */
        bool late, owed;
};

static struct seen look(struct sf *sf)
{
        struct eng_health *h = malloc(sizeof(*h));
        struct seen seen = {.oldest_ms = INT64_MAX};
        unsigned i;

        assert_non_null(h);
        eng_health_read(sf->store, h);
        for (i = 0; i < h->drive_count; i++) {
                seen.damaged += h->drives[i].scrub.damaged;
                seen.unrepaired += h->drives[i].scrub.unrepaired;
                seen.bytes += h->drives[i].scrub.bytes;
                if (h->drives[i].scrub.last_ended_ms < seen.oldest_ms)
                        seen.oldest_ms = h->drives[i].scrub.last_ended_ms;
                seen.rounds += h->drives[i].scrub.last_ended_ms != 0;
                seen.late |= h->drives[i].scrub.late;
                seen.owed |= h->drives[i].scrub.owed;
        }
        free(h);
        return seen;
}

static struct seen wait_rounds(struct sf *sf, unsigned rounds)
{
        struct seen seen;
        unsigned i;

        for (i = 0; i < 12000; i++) {
                seen = look(sf);
                if (seen.rounds >= rounds)
                        return seen;
                usleep(10000);
        }
        fail();
        return seen;
}

static void wait_repaired(struct sf *sf)
{
        unsigned i;

        for (i = 0; i < 12000 && look(sf).unrepaired > 0; i++) {
                if (i % 1000 == 999)
                        assert_int_equal(eng_scrub_start(sf->store), 0); /* a drive forgets what was repaired as it reads on */
                usleep(10000);
        }
        assert_int_equal(look(sf).unrepaired, 0);
}

static void verify(struct sf *sf, struct eng_verify_report *r)
{
        while (eng_verify_start(sf->store) != 0)
                usleep(10000);
        do {
                usleep(10000);
                eng_verify_read(sf->store, r);
        } while (r->running);
}

/* Objects that nobody reads. Any drive may be the one, the first too. */
static void found_and_repaired(unsigned victim)
{
        struct eng_verify_report *r = calloc(1, sizeof(*r));
        struct seen seen;
        struct sf sf;
        uint64_t bucket;

        begin(&sf, 2, &bucket);
        sf_close(&sf);
        spoil(&sf, victim, "data", 53);
        open_again(&sf);
        seen = wait_rounds(&sf, 4);
        assert_true(seen.damaged > 0);
        wait_repaired(&sf);
        verify(&sf, r);
        assert_true(r->objects >= OBJECTS);
        assert_int_equal(r->damaged_shards + r->missing_shards + r->unreadable_objects, 0);
        get_all(&sf, bucket);
        sf_close(&sf);
        sf_remove(&sf);
        free(r);
}

static void test_first_drive(void **state)
{
        found_and_repaired(0);
}

static void test_other_drive(void **state)
{
        found_and_repaired(3);
}

/* Two drives, with damage in the log, too: of small objects and of records. */
static void test_two_drives_and_logs(void **state)
{
        struct eng_verify_report *r = calloc(2, sizeof(*r));
        struct sf sf;
        uint64_t bucket;
        unsigned i;

        begin(&sf, 2, &bucket);
        for (i = 0; i < 8; i++)
                assert_int_equal(sf_put(&sf, 0, bucket, "small", 77 + i, 100000, true, NULL), 0);
        assert_int_equal(sf_put(&sf, 0, bucket, "other", 99, 100000, true, NULL), 0);
        sf_close(&sf);
        spoil(&sf, 0, "data", 101);
        spoil(&sf, 2, "data", 203);
        spoil(&sf, 0, "log", 10);
        spoil(&sf, 1, "log", 10);
        open_again(&sf);
        wait_rounds(&sf, 4);
        wait_repaired(&sf);
        for (i = 0; i < 12000; i++) {
                eng_scrub_read(sf.store, &r[0], &r[1]);
                if (r[1].ended_ms != 0 && !r[0].running)
                        break;
                if (i % 100 == 0)
                        assert_int_equal(eng_scrub_start(sf.store), 0);
                usleep(10000);
        }
        verify(&sf, &r[0]);
        assert_int_equal(r[0].damaged_shards + r[0].missing_shards + r[0].unreadable_objects, 0);
        get_all(&sf, bucket);
        assert_int_equal(sf_get(&sf, 0, bucket, "small", 84, 100000), 0);
        assert_int_equal(sf_get(&sf, 1, bucket, "other", 99, 100000), 0);
        sf_close(&sf);
        sf_remove(&sf);
        free(r);
}

static void start_drives(struct lp_msg *msg)
{
        struct eng_store **store = (struct eng_store **)(msg + 1);

        eng_scrub_drives_start(*store);
        free(msg);
}

/* Without the walk of names that eng_scrub_start() begins, too. */
static void scrub_drives(struct sf *sf)
{
        struct lp_msg *msg = calloc(1, sizeof(*msg) + sizeof(sf->store));

        assert_non_null(msg);
        memcpy(msg + 1, &sf->store, sizeof(sf->store));
        msg->run = start_drives;
        lp_post(sf->store->loops[0].loop, msg);
}

#define READ_AT_START 2u /* of the newest log files, at most: what the index lacks stands there */

/* Where names lie is drawn with the store's id: a drive may have hardly any. */
static unsigned drive_with_most_logs(const struct sf *sf)
{
        size_t count[4] = {0};
        unsigned i, most = 0;
        char pattern[300];
        glob_t found;

        for (i = 0; i < 4; i++) {
                snprintf(pattern, sizeof(pattern), "%s/log/*", sf->path[i]);
                assert_int_equal(glob(pattern, 0, NULL, &found), 0);
                count[i] = found.gl_pathc;
                most = count[i] > count[most] ? i : most;
                globfree(&found);
        }
        assert_true(count[most] > READ_AT_START);
        return most;
}

/*
 * What was found has been compared by a walk of all names, which nobody asked for; and each drive
 * has been through a round that ended since then.
 */
static void wait_compared(struct sf *sf, int64_t since_ms)
{
        unsigned i;

        for (i = 0; i < 12000 && (look(sf).owed || look(sf).oldest_ms < since_ms); i++)
                usleep(10000);
        assert_false(look(sf).owed);
        assert_true(look(sf).oldest_ms >= since_ms);
}

/*
 * Records of log files that are closed: found where they lie, and written anew from other drives.
 * Those of which the name was hit, too: by a walk that is asked for at once, or, where a restart
 * comes before its end, by one behind that.
 */
static void closed_logs(bool restart)
{
        struct eng_verify_report *r = calloc(1, sizeof(*r));
        struct seen seen;
        struct sf sf;
        uint64_t bucket;
        int64_t since_ms = 0;
        char key[32];
        unsigned i;

        begin(&sf, 2, &bucket);
        for (i = 0; i < 120; i++) {
                snprintf(key, sizeof(key), "small%u", i);
                assert_int_equal(sf_put(&sf, i % 2, bucket, key, 300 + i, 100000, true, NULL), 0);
        }
        sf_close(&sf);
        spoil_from(&sf, drive_with_most_logs(&sf), "log", READ_AT_START, 2, 37);
        assert_int_equal(sf_open(&sf, false), 0);
        assert_true(sf_wait_ready(&sf, 20));
        for (i = 0; i < 600; i++) {
                scrub_drives(&sf);
                usleep(100000);
                seen = look(&sf);
                if (seen.damaged > 0 && (restart ? seen.owed : seen.rounds == 4 && seen.unrepaired == 0))
                        break;
        }
        assert_true(seen.damaged > 0);
        if (restart) {
                sf_close(&sf);
                assert_int_equal(sf_open(&sf, false), 0);
                assert_true(sf_wait_ready(&sf, 20));
                since_ms = lp_wall_ms();
                scrub_drives(&sf);
        } else {
                assert_int_equal(seen.unrepaired, 0);
        }
        wait_compared(&sf, since_ms);
        if (!restart)
                assert_true(atomic_load(&sf.store->walks_ended) > 0);
        verify(&sf, r);
        assert_int_equal(r->damaged_shards + r->missing_shards + r->unreadable_objects, 0);
        get_all(&sf, bucket);
        for (i = 0; i < 120; i++) {
                snprintf(key, sizeof(key), "small%u", i);
                assert_int_equal(sf_get(&sf, 0, bucket, key, 300 + i, 100000), 0);
        }
        sf_close(&sf);
        sf_remove(&sf);
        free(r);
}

static void test_closed_logs(void **state)
{
        closed_logs(false);
}

static void test_closed_logs_restart(void **state)
{
        closed_logs(true);
}

/*
 * A round keeps to its rate, is halted by a restart and goes on where it was; what it had found is
 * repaired then.
 */
static void test_goes_on(void **state)
{
        struct seen seen, after;
        struct sf sf;
        uint64_t bucket;

        begin(&sf, 1, &bucket);
        sf_close(&sf);
        spoil(&sf, 1, "data", 53);
        sf.options.scrub_rate = 1 << 20;
        open_again(&sf);
        do {
                usleep(10000);
                seen = look(&sf);
        } while (seen.damaged == 0);
        assert_true(seen.rounds < 4);
        sf_close(&sf);
        open_again(&sf);
        do {
                usleep(10000);
                after = look(&sf);
        } while (after.bytes == 0);
        WAIT_UNTIL((after = look(&sf)).bytes >= seen.bytes); /* each drive says it by itself */
        assert_true(after.bytes >= seen.bytes);
        assert_int_equal(eng_scrub_start(sf.store), 0);
        sf_close(&sf);
        sf.options.scrub_rate = 1 << 30;
        open_again(&sf);
        wait_rounds(&sf, 4);
        wait_repaired(&sf);
        get_all(&sf, bucket);
        sf_close(&sf);
        sf_remove(&sf);
}

/* Those that upkeep has repaired; a walk of all names counts its own. */
static uint64_t rebuilt_objects(struct sf *sf)
{
        struct eng_health *h = malloc(sizeof(*h));
        uint64_t rebuilt;

        assert_non_null(h);
        eng_health_read(sf->store, h);
        rebuilt = h->rebuilt_objects;
        free(h);
        return rebuilt;
}

/* A round takes a day; what is damaged is repaired when it is found. Here one takes minutes. */
static void test_repaired_at_once(void **state)
{
        struct seen seen;
        struct sf sf;
        uint64_t bucket;

        begin(&sf, 1, &bucket);
        sf_close(&sf);
        spoil(&sf, 1, "data", 4000);
        sf.options.scrub_rate = 100000;
        assert_int_equal(sf_open(&sf, false), 0);
        assert_true(sf_wait_ready(&sf, 20));
        scrub_drives(&sf);
        do {
                usleep(10000);
                seen = look(&sf);
        } while (seen.rounds == 0 && (seen.damaged == 0 || seen.unrepaired > 0));
        assert_int_equal(seen.rounds, 0);
        assert_true(rebuilt_objects(&sf) > 0);
        get_all(&sf, bucket);
        sf_close(&sf);
        sf_remove(&sf);
}

/*
 * What could not be repaired before a restart is repaired behind it: no round has to come to it
 * again, which lies far behind where one begins.
 */
static void test_repaired_after_a_restart(void **state)
{
        struct seen seen;
        struct sf sf;
        uint64_t bucket;

        begin(&sf, 1, &bucket);
        sf_close(&sf);
        spoil_from(&sf, 1, "data", 0, 1100, 4000); /* one block, in the fifth MiB */
        sf.options.faults = "again:op=write";
        open_again(&sf);
        seen = wait_rounds(&sf, 4);
        assert_true(seen.damaged > 0 && seen.unrepaired > 0);
        sf_close(&sf);

        sf.options.faults = NULL;
        sf.options.scrub_rate = 100000;
        assert_int_equal(sf_open(&sf, false), 0);
        assert_true(sf_wait_ready(&sf, 20));
        scrub_drives(&sf);
        do {
                usleep(10000);
                seen = look(&sf);
        } while (seen.bytes == 0);
        while (seen.unrepaired > 0 && seen.bytes < 4 * (3u << 20)) { /* of four drives */
                usleep(10000);
                seen = look(&sf);
        }
        assert_int_equal(seen.unrepaired, 0);
        assert_int_equal(seen.damaged, 0); /* in this run */
        get_all(&sf, bucket);
        sf_close(&sf);
        sf_remove(&sf);
}

/* A period that cannot be kept is said so; and off is off. */
static void test_late_and_off(void **state)
{
        struct sf sf;
        uint64_t bucket;

        begin(&sf, 1, &bucket);
        sf_close(&sf);
        sf.options.scrub_rate = 1 << 20;
        sf.options.scrub_period_ms = 1;
        open_again(&sf);
        while (!look(&sf).late)
                usleep(10000);
        sf_close(&sf);
        sf.options.scrub_period_ms = 0;
        open_again(&sf);
        assert_int_equal(eng_scrub_start(sf.store), 0); /* names are walked still */
        assert_int_equal(look(&sf).bytes, 0);
        sf_close(&sf);
        sf.options.scrub_rate = 0;
        open_again(&sf);
        assert_int_equal(eng_scrub_start(sf.store), -EOPNOTSUPP);
        get_all(&sf, bucket);
        sf_close(&sf);
        sf_remove(&sf);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_first_drive), cmocka_unit_test(test_other_drive),
                cmocka_unit_test(test_two_drives_and_logs), cmocka_unit_test(test_closed_logs), cmocka_unit_test(test_closed_logs_restart), cmocka_unit_test(test_goes_on),
                cmocka_unit_test(test_repaired_at_once), cmocka_unit_test(test_repaired_after_a_restart),
                cmocka_unit_test(test_late_and_off),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
