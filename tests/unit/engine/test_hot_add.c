/*
 * Drives that come while the store serves: one whose folder vanished and is back, one that failed,
 * and an empty one in the place of one that is lost. After each, the store holds everything as
 * often as it should, which is shown by taking as many others away as the code allows.
 */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "engine/epoch/epoch.h"
#include "tests/lib/store_objects.h"

#define LOST 0u

#if defined(__SANITIZE_THREAD__)
#define PAIRS 1u /* ten times slower, and looks for races alone */
#else
#define PAIRS ENG_DRIVES_MAX
#endif

/* ---- drives ---------------------------------------------------------------------------------- */

static bool one_out(const struct eng_health *h, void *arg)
{
        return h->ready && h->writable && h->drives_in == h->drive_count - 1;
}

static bool is_one_out(struct sf *sf)
{
        struct eng_health *h = malloc(sizeof(*h));
        bool out;

        eng_health_read(sf->store, h);
        out = one_out(h, NULL);
        free(h);
        return out;
}

/* Full members all, and nothing of them is being filled any more. */
static bool filled(const struct eng_health *h, void *arg)
{
        unsigned i;

        for (i = 0; i < h->drive_count; i++)
                if (h->drives[i].filling)
                        return false;
        return so_whole(h, arg);
}

static int hot_add(struct sf *sf, unsigned slot, const char *path, bool replace)
{
        struct eng_hot_add_report report;
        uint64_t number;

        assert_int_equal(eng_drive_hot_add(sf->store, slot, path, replace, &number), 0);
        do {
                usleep(1000);
                assert_int_equal(eng_hot_add_read(sf->store, number, &report), 0);
        } while (report.running);
        assert_true((report.rv == 0) == (report.text[0] == 0));
        assert_true(report.slot == slot && report.replace == replace);
        return report.rv;
}

/* Everything is there with any two of the drives gone. */
static void check_without(struct sf *sf, uint64_t bucket, const struct so_expected *e, unsigned kept)
{
        unsigned a, b, pairs = 0;

        for (a = 0; a < sf->drives; a++)
                for (b = a + 1; b < sf->drives && pairs < PAIRS; b++) {
                        if (a == kept || b == kept)
                                continue;
                        pairs++;
                        so_move(sf, a, true);
                        so_move(sf, b, true);
                        assert_int_equal(sf_open(sf, false), 0);
                        assert_true(sf_wait_health(sf, so_can_read, NULL, 60));
                        so_check(sf, bucket, e);
                        sf_close(sf);
                        so_move(sf, a, false);
                        so_move(sf, b, false);
                }
}

/* ---- tests ----------------------------------------------------------------------------------- */

static void test_replaced(void **state)
{
        struct eng_verify_report *report = malloc(sizeof(*report));
        struct eng_complete_part parts[2];
        uint8_t id[ENG_ID_LEN], waiting[ENG_ID_LEN];
        struct so_expected e;
        char empty[256];
        uint64_t bucket;
        struct sf sf;

        so_begin(&sf, 4, &bucket, &e);
        assert_int_equal(sf_upload(&sf, bucket, "parts", id), 0);
        for (parts[0].number = 1, parts[1].number = 2; parts[0].number < 3; parts[0].number++)
                assert_int_equal(sf_part(&sf, 0, bucket, "parts", id, parts[0].number, 5, (parts[0].number - 1) * (6 << 20),
                                         6 << 20, parts[parts[0].number - 1].id),
                                 0);
        parts[0].number = 1;
        assert_int_equal(sf_complete(&sf, bucket, "parts", id, parts, 2), 0);
        assert_int_equal(sf_upload(&sf, bucket, "waiting", waiting), 0);
        assert_int_equal(sf_part(&sf, 0, bucket, "waiting", waiting, 1, 6, 0, 3 << 20, parts[0].id), 0);

        so_move(&sf, LOST, true);
        assert_true(sf_wait_health(&sf, one_out, NULL, 30));
        so_change(&sf, bucket, &e, 1, 7);
        snprintf(empty, sizeof(empty), "%s.new", sf.path[LOST]);
        assert_int_equal(mkdir(empty, 0700), 0);
        assert_int_equal(hot_add(&sf, LOST, empty, true), 0);
        so_change(&sf, bucket, &e, 2, 9); /* while it is brought up to date */
        assert_true(sf_wait_health(&sf, so_whole, NULL, 120));
        so_change(&sf, bucket, &e, 3, 11);
        so_check(&sf, bucket, &e);
        assert_int_equal(sf_get(&sf, 0, bucket, "parts", 5, 12 << 20), 0);
        assert_true(sf_stays_otherwise(&sf, filled, NULL, 1)); /* the upload's part lacks what the lost drive had of it */
        parts[0].number = 1;
        assert_int_equal(sf_complete(&sf, bucket, "waiting", waiting, parts, 1), 0);
        sf_close(&sf);

        strcat(sf.path[LOST], ".new"); /* from now on it is this one that is given */
        assert_int_equal(sf_open(&sf, false), 0);
        assert_true(sf_wait_health(&sf, filled, NULL, 120));
        so_verify(&sf, report);
        sf_close(&sf);
        check_without(&sf, bucket, &e, LOST);
        assert_int_equal(sf_open(&sf, false), 0);
        assert_true(sf_wait_health(&sf, filled, NULL, 60));
        assert_int_equal(sf_get(&sf, 0, bucket, "waiting", 6, 3 << 20), 0);
        sf_close(&sf);
        sf_remove(&sf);
        free(report);
}

/* What the heal says it wrote on the new drive is what reading that drive finds. */
static void test_report(void **state)
{
        struct eng_heal_report *heal = malloc(2 * sizeof(*heal)); /* now, last */
        struct eng_verify_report *report = malloc(sizeof(*report));
        struct so_expected e;
        char empty[256];
        uint64_t bucket;
        struct sf sf;

        so_begin(&sf, 4, &bucket, &e);
        so_move(&sf, LOST, true);
        assert_true(sf_wait_health(&sf, one_out, NULL, 30));
        snprintf(empty, sizeof(empty), "%s.new", sf.path[LOST]);
        assert_int_equal(mkdir(empty, 0700), 0);
        assert_int_equal(hot_add(&sf, LOST, empty, true), 0);
        do {
                assert_true(sf_wait_health(&sf, so_whole, NULL, 120));
                eng_heal_read(sf.store, &heal[0], &heal[1]);
        } while (heal[1].todo_objects == 0);
        *heal = heal[1];
        assert_true(heal->surveyed);
        assert_true(heal->todo_objects > 0 && heal->done_objects == heal->todo_objects && heal->failed_objects == 0);
        so_verify(&sf, report);
        assert_true(heal->digest[LOST].shards > 0);
        assert_int_equal(heal->digest[LOST].shards, report->digest[LOST].shards);
        assert_int_equal(heal->digest[LOST].payload, report->digest[LOST].payload);
        assert_memory_equal(heal->digest[LOST].bytes, report->digest[LOST].bytes, sizeof(heal->digest[LOST].bytes));
        sf_close(&sf);
        sf_remove(&sf);
        free(heal);
        free(report);
}

static void test_vanished_and_back(void **state)
{
        static const unsigned slots[] = {2, LOST};
        struct so_expected e;
        uint64_t bucket;
        unsigned round;
        struct sf sf;

        so_begin(&sf, 4, &bucket, &e);
        for (round = 0; round < 2; round++) {
                so_move(&sf, slots[round], true);
                assert_true(sf_wait_health(&sf, one_out, NULL, 30));
                so_change(&sf, bucket, &e, 1 + round, 5);
                so_move(&sf, slots[round], false);
                so_change(&sf, bucket, &e, 2 + round, 13);
                assert_true(sf_wait_health(&sf, so_whole, NULL, 60)); /* by itself */
        }
        so_check(&sf, bucket, &e);
        sf_close(&sf);
        check_without(&sf, bucket, &e, LOST);
        sf_remove(&sf);
}

static void test_missing_at_the_start(void **state)
{
        struct so_expected e;
        uint64_t bucket;
        struct sf sf;

        so_begin(&sf, 4, &bucket, &e);
        sf_close(&sf);
        so_move(&sf, LOST, true);
        assert_int_equal(sf_open(&sf, false), 0);
        assert_true(sf_wait_health(&sf, one_out, NULL, 30));
        so_change(&sf, bucket, &e, 1, 5);
        so_move(&sf, LOST, false);
        assert_true(sf_wait_health(&sf, so_whole, NULL, 60));
        so_check(&sf, bucket, &e);
        sf_close(&sf);
        check_without(&sf, bucket, &e, LOST);
        sf_remove(&sf);
}

/* One whose I/O failed comes back by the operator's word alone. */
static void test_failed_and_returned(void **state)
{
        struct so_expected e;
        uint64_t bucket;
        unsigned i;
        struct sf sf;

        so_begin(&sf, 4, &bucket, &e);
        sf_close(&sf);
        sf.options.faults = "fail:op=append,slot=0,after=80";
        assert_int_equal(sf_open(&sf, false), 0);
        assert_true(sf_wait_ready(&sf, 20));
        for (i = 0; i < 10 * SO_NAMES && !is_one_out(&sf); i++)
                so_set(&sf, bucket, &e, i % SO_NAMES, 100 + i);
        assert_true(sf_wait_health(&sf, one_out, NULL, 30));
        so_change(&sf, bucket, &e, 1, 5); /* fewer than it took to fail: it does not fail again */
        assert_true(sf_stays_otherwise(&sf, so_whole, NULL, 7));
        assert_int_equal(hot_add(&sf, LOST, NULL, false), 0);
        assert_true(sf_wait_health(&sf, so_whole, NULL, 60));
        so_check(&sf, bucket, &e);
        sf_close(&sf);
        sf.options.faults = NULL;
        check_without(&sf, bucket, &e, LOST);
        sf_remove(&sf);
}

/* ---- errors of a drive that come when another has its slot ----------------------------------- */

#define TURNS 12u

/* A loop that hears late, and again and again, that the drive has failed which is about to lose its slot. */
struct late {
        struct eng_store *store;
        const struct eng_drive *drive;
        atomic_bool over;
};

static void *say_late(void *arg)
{
        struct late *late = arg;

        while (!atomic_load(&late->over))
                eng_drive_failed(late->store, LOST, late->drive, "the test says so, late");
        return NULL;
}

/* What is said of the drive before is nothing against the one that has its slot: it catches up. */
static void test_late_errors(void **state)
{
        struct so_expected e;
        struct late late;
        pthread_t thread;
        uint64_t bucket;
        unsigned i;
        struct sf sf;

        so_begin(&sf, 4, &bucket, &e);
        for (i = 0; i < TURNS; i++) {
                late = (struct late){.store = sf.store, .drive = atomic_load(&sf.store->members[LOST].drive)};
                eng_drive_failed(sf.store, LOST, late.drive, "the test says so");
                assert_true(sf_wait_health(&sf, one_out, NULL, 30));
                assert_int_equal(pthread_create(&thread, NULL, say_late, &late), 0);
                assert_int_equal(hot_add(&sf, LOST, NULL, false), 0);
                atomic_store(&late.over, true);
                assert_int_equal(pthread_join(thread, NULL), 0);
                assert_ptr_not_equal(atomic_load(&sf.store->members[LOST].drive), late.drive);
                assert_true(sf_wait_health(&sf, so_whole, NULL, 30));
        }
        so_check(&sf, bucket, &e);
        sf_close(&sf);
        sf_remove(&sf);
}

static void test_refusals(void **state)
{
        char empty[256], full[300], nowhere[256];
        struct so_expected e;
        uint64_t bucket;
        struct sf sf;

        so_begin(&sf, 4, &bucket, &e);
        snprintf(empty, sizeof(empty), "%s.new", sf.path[LOST]);
        snprintf(full, sizeof(full), "%s/x", empty);
        snprintf(nowhere, sizeof(nowhere), "%s.nowhere", sf.path[LOST]);
        assert_int_equal(mkdir(empty, 0700), 0);
        assert_int_equal(hot_add(&sf, LOST, empty, true), -EEXIST);
        assert_int_equal(hot_add(&sf, 4, empty, true), -EINVAL);
        so_move(&sf, LOST, true);
        assert_true(sf_wait_health(&sf, one_out, NULL, 30));
        assert_int_equal(hot_add(&sf, LOST, NULL, true), -EINVAL);
        assert_int_equal(hot_add(&sf, LOST, nowhere, true), -ENOENT);
        assert_int_equal(hot_add(&sf, LOST, nowhere, false), -ENOENT);
        assert_int_equal(hot_add(&sf, LOST, sf.path[1], false), -ENOENT);
        assert_int_equal(hot_add(&sf, LOST, sf.path[1], true), -ENOTEMPTY);
        assert_int_equal(mkdir(full, 0700), 0);
        assert_int_equal(hot_add(&sf, LOST, empty, true), -ENOTEMPTY);
        assert_int_equal(rmdir(full), 0);
        assert_int_equal(hot_add(&sf, LOST, empty, true), 0);
        so_move(&sf, LOST, false); /* the one that was lost is found again: it has no place any more */
        assert_true(sf_wait_health(&sf, so_whole, NULL, 60));
        assert_int_equal(hot_add(&sf, LOST, sf.path[LOST], false), -EEXIST);
        sf_close(&sf);
        strcat(sf.path[LOST], ".new");
        assert_int_equal(sf_open(&sf, false), 0);
        assert_true(sf_wait_health(&sf, so_whole, NULL, 60));
        so_check(&sf, bucket, &e);
        sf_close(&sf);
        sf_remove(&sf);
}

static bool waits_for_drives(const struct eng_health *h, void *arg)
{
        return !h->ready && strstr(h->reason, "no drive could be opened") != NULL;
}

/*
 * A new drive that was formatted for the slot and not handed over is found at the next start, and
 * can be given again.
 */
static void test_left_over(void **state)
{
        struct eng_identity identity = {.drive_id = {7}, .slot = LOST, .layout = FMT_LAYOUT_VERSION};
        struct fmt_epoch epoch = {.pg_count = ENG_PG_COUNT, .k = 2, .m = 2};
        struct so_expected e;
        uint64_t bucket;
        struct sf sf;

        so_begin(&sf, 4, &bucket, &e);
        memcpy(identity.store_id, sf.store->store_id, FMT_ID);
        sf_close(&sf);
        so_move(&sf, LOST, true);
        assert_int_equal(mkdir(sf.path[LOST], 0700), 0);
        assert_int_equal(eng_folder_format(sf.path[LOST], &identity, &epoch, sizeof(epoch), &sf.error), 0);
        assert_int_equal(sf_open(&sf, false), 0);
        assert_true(sf_wait_health(&sf, one_out, NULL, 60));
        assert_int_equal(hot_add(&sf, LOST, sf.path[LOST], true), 0);
        assert_true(sf_wait_health(&sf, filled, NULL, 120));
        so_check(&sf, bucket, &e);
        sf_close(&sf);
        check_without(&sf, bucket, &e, LOST);
        sf_remove(&sf);
}

/* All that a start finds is a drive that was formatted for a slot and never handed over. */
static void test_only_a_new_one(void **state)
{
        struct eng_identity identity = {.store_id = {1}, .drive_id = {2}, .layout = FMT_LAYOUT_VERSION};
        struct fmt_epoch epoch = {.pg_count = ENG_PG_COUNT, .k = 2, .m = 2};
        struct sf sf;

        sf_make(&sf, 1, 2);
        assert_int_equal(eng_folder_format(sf.path[0], &identity, &epoch, sizeof(epoch), &sf.error), 0);
        assert_int_equal(sf_open(&sf, false), 0);
        assert_true(sf_wait_health(&sf, waits_for_drives, NULL, 30));
        sf_close(&sf);
        sf_remove(&sf);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_replaced),
                cmocka_unit_test(test_report),
                cmocka_unit_test(test_vanished_and_back),
                cmocka_unit_test(test_missing_at_the_start),
                cmocka_unit_test(test_failed_and_returned),
                cmocka_unit_test(test_late_errors),
                cmocka_unit_test(test_refusals),
                cmocka_unit_test(test_left_over),
                cmocka_unit_test(test_only_a_new_one),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
