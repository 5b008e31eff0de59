/*
 * Members whose names differ: verification finds it, most members or the highest number decide, and
 * nothing goes on one member's word.
 */
#include <errno.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "engine/drive/index.h"
#include "engine/resync/resync.h"
#include "engine/txn/txn.h"
#include "tests/lib/store_fixture.h"
#include "tests/lib/wait.h"

#define PARTS_SIZE (5u << 20)

static bool is_in(const struct eng_health *h, void *arg)
{
        return h->ready && h->writable && h->drives_in == h->drive_count;
}

static bool is_walked(const struct eng_health *h, void *arg)
{
        return is_in(h, arg) && !h->healing;
}

static void start(struct sf *sf)
{
        assert_int_equal(sf_open(sf, false), 0);
        assert_true(sf_wait_health(sf, is_in, NULL, 30));
}

static void verify(struct sf *sf, struct eng_verify_report *r)
{
        assert_int_equal(eng_verify_start(sf->store), 0);
        WAIT_UNTIL((eng_verify_read(sf->store, r), !r->running));
        assert_false(r->running);
}

/* Found by verifications, and by the walks since the store was opened, which find them as well. */
static void assert_found(const struct sf *sf, const struct eng_verify_report *r, unsigned names)
{
        struct eng_heal_report *heal = malloc(2 * sizeof(*heal)); /* now, last */

        assert_non_null(heal);
        eng_heal_read(sf->store, &heal[0], &heal[1]);
        assert_int_equal(heal[0].differing_names + r->differing_names, names);
        assert_int_equal(heal[0].repaired_names + r->repaired_names, names);
        free(heal);
}

static void begin(struct sf *sf, uint64_t *bucket)
{
        sf_make(sf, 4, 2);
        assert_int_equal(sf_open(sf, true), 0);
        assert_true(sf_wait_ready(sf, 20));
        assert_int_equal(sf_bucket(sf, "bucket", bucket), 0);
}

static bool slot_has(const struct sf *sf, unsigned slot, uint64_t bucket, const char *key, struct sf_row *row)
{
        eng_name_object(&row->name, bucket, key, strlen(key));
        return sf_get_row(sf, slot, row);
}

/*
 * In turn on each drive: its index has lost a name, has an old value, or a name that was deleted.
 */
static void test_names_that_differ(void **state)
{
        static struct sf_row old[4], gone[4], lost;
        struct eng_verify_report r;
        bool has_old[4], has_gone[4], existed;
        unsigned slot, differ;
        uint64_t bucket;
        struct sf sf;

        begin(&sf, &bucket);
        for (slot = 0; slot < 4; slot++) {
                unsigned i;

                assert_int_equal(sf_put(&sf, 0, bucket, "old", 1 + slot, 300000, true, NULL), 0);
                assert_int_equal(sf_put(&sf, 0, bucket, "gone", 11 + slot, 500, true, NULL), 0);
                assert_int_equal(sf_put(&sf, 0, bucket, "lost", 21 + slot, 500, true, NULL), 0);
                sf_close(&sf);
                for (i = 0; i < 4; i++) {
                        has_old[i] = slot_has(&sf, i, bucket, "old", &old[i]);
                        has_gone[i] = slot_has(&sf, i, bucket, "gone", &gone[i]);
                }
                start(&sf);
                assert_int_equal(sf_put(&sf, 0, bucket, "old", 31 + slot, 200000, true, NULL), 0);
                assert_int_equal(sf_delete(&sf, 0, bucket, "gone", &existed), 0);
                sf_close(&sf);
                differ = 0;
                if (has_old[slot])
                        sf_put_row(&sf, slot, &old[slot]);
                if (has_gone[slot])
                        sf_put_row(&sf, slot, &gone[slot]);
                differ += has_old[slot] + has_gone[slot];
                if (slot_has(&sf, slot, bucket, "lost", &lost)) {
                        lost.len = 0;
                        sf_put_row(&sf, slot, &lost);
                        differ++;
                }
                start(&sf);
                verify(&sf, &r);
                assert_true(sf_wait_health(&sf, is_walked, NULL, 30)); /* what either began has been counted */
                assert_found(&sf, &r, differ);
                assert_int_equal(r.missing_shards + r.damaged_shards + r.unreadable_objects, 0);
                verify(&sf, &r);
                assert_int_equal(r.differing_names, 0);
                assert_int_equal(sf_get(&sf, 0, bucket, "old", 31 + slot, 200000), 0);
                assert_int_equal(sf_get(&sf, 0, bucket, "lost", 21 + slot, 500), 0);
                assert_int_equal(sf_get(&sf, 0, bucket, "gone", 1, 1), -ENOENT);
        }
        sf_close(&sf);
        sf_remove(&sf);
}

/*
 * Each drive in turn has an upload back that was completed: to abort it costs the object nothing.
 */
static void test_an_upload_that_came_back(void **state)
{
        static struct sf_row upload[4], part[4];
        struct eng_complete_part one = {.number = 1};
        uint8_t id[ENG_ID_LEN], part_id[ENG_ID_LEN];
        struct eng_verify_report r;
        bool has[4];
        uint64_t bucket;
        unsigned slot;
        struct sf sf;

        begin(&sf, &bucket);
        for (slot = 0; slot < 4; slot++) {
                char key[16];
                unsigned i;

                snprintf(key, sizeof(key), "up-%u", slot);
                assert_int_equal(sf_upload(&sf, bucket, key, id), 0);
                assert_int_equal(sf_part(&sf, 0, bucket, key, id, 1, 50 + slot, 0, PARTS_SIZE, part_id), 0);
                sf_close(&sf);
                for (i = 0; i < 4; i++) {
                        eng_name_upload(&upload[i].name, bucket, key, strlen(key), id);
                        eng_name_part(&part[i].name, bucket, key, strlen(key), id, 1);
                        has[i] = sf_get_row(&sf, i, &upload[i]) && sf_get_row(&sf, i, &part[i]);
                }
                start(&sf);
                memcpy(one.id, part_id, ENG_ID_LEN);
                assert_int_equal(sf_complete(&sf, bucket, key, id, &one, 1), 0);
                sf_close(&sf);
                if (has[slot]) {
                        sf_put_row(&sf, slot, &upload[slot]);
                        sf_put_row(&sf, slot, &part[slot]);
                }
                start(&sf);
                sf_upload_abort(&sf, bucket, key, id); /* what it answers depends on who is asked */
                sleep(3);                              /* its index is written, and what is dead goes */
                verify(&sf, &r);
                assert_int_equal(r.missing_shards + r.damaged_shards + r.unreadable_objects, 0);
                assert_int_equal(sf_get(&sf, 0, bucket, key, 50 + slot, PARTS_SIZE), 0);
        }
        sf_close(&sf);
        sf_remove(&sf);
}

/* ---- a member that cannot say ---------------------------------------------------------------- */

/* Slots that have the name, CODED_M + 1 of them. */
#define CODED_M 3u

static void holders_of(const struct sf *sf, struct sf_row *row, unsigned slots[CODED_M + 1])
{
        unsigned slot, n = 0;

        for (slot = 0; slot < sf->drives; slot++)
                if (sf_get_row(sf, slot, row)) {
                        assert_true(n <= CODED_M);
                        slots[n++] = slot;
                }
        assert_int_equal(n, CODED_M + 1);
}

static void upkeep(struct sf *sf)
{
        struct eng_verify_report r;

        start(sf);
        verify(sf, &r);
        assert_true(sf_wait_health(sf, is_walked, NULL, 30));
        sf_close(sf);
}

/*
 * One member has a name, two lack it, and what the fourth has cannot be read: two are no majority
 * of four that would be needed to take the name away, so it stays. When the fourth can be read, and
 * lacks it too, it goes. Each member in turn is the one that has it.
 */
static void test_a_member_that_cannot_say(void **state)
{
        unsigned slots[CODED_M + 1] = {0}, i, j;
        static struct sf_row row;
        char faults[64], key[16];
        uint64_t bucket;
        struct sf sf;

        for (i = 0; i <= CODED_M; i++) {
                sf_make(&sf, CODED_M + 2, 2);
                sf.options.ec_k = 2;
                sf.options.ec_m = CODED_M;
                assert_int_equal(sf_open(&sf, true), 0);
                assert_true(sf_wait_ready(&sf, 20));
                assert_int_equal(sf_bucket(&sf, "bucket", &bucket), 0);
                snprintf(key, sizeof(key), "key-%u", i);
                assert_int_equal(sf_put(&sf, 0, bucket, key, 1, 500, true, NULL), 0);
                sf_close(&sf);
                eng_name_object(&row.name, bucket, key, strlen(key));
                holders_of(&sf, &row, slots);
                row.len = 0;
                for (j = 0; j <= CODED_M; j++)
                        if (j != i)
                                sf_put_row(&sf, slots[j], &row);
                snprintf(faults, sizeof(faults), "corrupt:op=lookup,slot=%u", slots[(i + 1) % (CODED_M + 1)]);
                sf.options.faults = faults;
                upkeep(&sf);
                assert_true(sf_get_row(&sf, slots[i], &row));
                sf.options.faults = NULL;
                upkeep(&sf);
                assert_false(sf_get_row(&sf, slots[i], &row));
                sf_remove(&sf);
        }
}

/* ---- reports that a value is dead ------------------------------------------------------------ */

struct report {
        struct lp_msg msg;
        struct eng_store *store;
        struct eng_drive *drive;
        struct eng_buf *value;
        sem_t told;
};

static void report_now(struct lp_msg *msg)
{
        struct report *report = (struct report *)msg;

        eng_deferred_superseded(report->store, report->drive, &report->value, 1);
        sem_post(&report->told);
}

/* As a drive does whose index holds, durably, a record that superseded this value. */
static void report_dead(struct sf *sf, unsigned slot, const struct sf_row *row)
{
        struct report report = {.msg.run = report_now, .store = sf->store, .drive = atomic_load(&sf->store->members[slot].drive)};

        report.value = eng_buf_new(row->len);
        assert_non_null(report.value);
        memcpy(report.value->data, row->value, row->len);
        sem_init(&report.told, 0, 0);
        lp_post(report.drive->owner, &report.msg);
        while (sem_wait(&report.told) != 0)
                ;
        sem_destroy(&report.told);
        eng_buf_unref(report.value);
}

static uint32_t group_of(const struct sf_row *row)
{
        struct fmt_value head;

        memcpy(&head, row->value, sizeof(head));
        return head.pg;
}

/* Slots of those that have a name, and their row. */
static eng_mask rows_of(const struct sf *sf, uint64_t bucket, const char *key, struct sf_row *row)
{
        eng_mask have = 0;
        unsigned slot;

        for (slot = 0; slot < sf->drives; slot++)
                have |= slot_has(sf, slot, bucket, key, row) ? eng_bit(slot) : 0;
        return have;
}

#define PROVEN 24u /* as many keys, of which one shares a loop with another */

/*
 * All members but one say that a value is dead, each in turn being that one: nothing goes. What all
 * members say is dead is gone by then.
 */
static void test_all_members_but_one(void **state)
{
        static struct sf_row kept, proven;
        struct eng_verify_report r;
        unsigned silent, slot, i;
        eng_mask have, all;
        char key[16];
        uint64_t bucket;
        struct sf sf;

        for (silent = 0; silent < 4; silent++) {
                begin(&sf, &bucket);
                assert_int_equal(sf_put(&sf, 0, bucket, "kept", 1, 300000, true, NULL), 0);
                for (i = 0; i < PROVEN; i++) {
                        snprintf(key, sizeof(key), "proven-%u", i);
                        assert_int_equal(sf_put(&sf, 0, bucket, key, 2, 300000, true, NULL), 0);
                }
                sf_close(&sf);
                have = rows_of(&sf, bucket, "kept", &kept);
                start(&sf);
                for (i = 0; i < PROVEN; i++) {
                        sf_close(&sf);
                        snprintf(key, sizeof(key), "proven-%u", i);
                        all = rows_of(&sf, bucket, key, &proven);
                        start(&sf);
                        if (sf.store->pg_loop[group_of(&proven)] == sf.store->pg_loop[group_of(&kept)])
                                break;
                }
                assert_true(i < PROVEN);
                for (slot = 0; slot < 4; slot++)
                        if (slot != silent && (have & eng_bit(slot)))
                                report_dead(&sf, slot, &kept);
                for (slot = 0; slot < 4; slot++)
                        if (all & eng_bit(slot))
                                report_dead(&sf, slot, &proven);
                for (i = 0, r.missing_shards = 0; r.missing_shards < 4; i++) {
                        assert_true(i < 1000);
                        verify(&sf, &r);
                }
                if (have & eng_bit(silent)) {
                        verify(&sf, &r);
                        assert_int_equal(r.missing_shards, 4);
                        assert_int_equal(sf_get(&sf, 0, bucket, "kept", 1, 300000), 0);
                }
                sf_close(&sf);
                sf_remove(&sf);
        }
}

/* Spoils a byte of an object's bytes wherever the drive's log has them. */
static void spoil_bytes(const struct sf *sf, unsigned slot, uint64_t seed, size_t len)
{
        uint8_t *bytes = malloc(len), *at;
        char command[300], path[300];
        size_t size = 8u << 20, n, hits = 0;
        uint8_t *file = malloc(size);
        FILE *list, *f;

        assert_non_null(bytes);
        assert_non_null(file);
        sf_fill(bytes, seed, 0, len);
        snprintf(command, sizeof(command), "ls %s/log/*", sf->path[slot]);
        list = popen(command, "r");
        assert_non_null(list);
        while (fgets(path, sizeof(path), list) != NULL) {
                path[strcspn(path, "\n")] = '\0';
                f = fopen(path, "r+b");
                assert_non_null(f);
                n = fread(file, 1, size, f);
                at = memmem(file, n, bytes, len);
                if (at != NULL) {
                        assert_int_equal(fseek(f, at - file, SEEK_SET), 0);
                        assert_int_equal(fputc(*at ^ 1, f), *at ^ 1);
                        hits++;
                }
                fclose(f);
        }
        pclose(list);
        free(file);
        free(bytes);
        assert_true(hits > 0);
}

/*
 * One has the name, whose record is damaged; the other has lost the name. The damaged one stays: it
 * may be all there is.
 */
static void test_damage_here_and_nothing_there(void **state)
{
        struct eng_verify_report r;
        unsigned damaged;
        static struct sf_row row;
        uint64_t bucket;
        struct sf sf;

        for (damaged = 0; damaged < 2; damaged++) {
                sf_make(&sf, 2, 2);
                sf.options.ec_k = sf.options.ec_m = 1;
                assert_int_equal(sf_open(&sf, true), 0);
                assert_true(sf_wait_ready(&sf, 20));
                assert_int_equal(sf_bucket(&sf, "bucket", &bucket), 0);
                assert_int_equal(sf_put(&sf, 0, bucket, "key", 77, 5000, true, NULL), 0);
                sf_close(&sf);
                assert_true(slot_has(&sf, damaged, bucket, "key", &row));
                spoil_bytes(&sf, damaged, 77, 5000);
                row.len = 0;
                sf_put_row(&sf, damaged ^ 1, &row);
                start(&sf);
                assert_int_not_equal(sf_get(&sf, 0, bucket, "key", 77, 5000), 0);
                verify(&sf, &r);
                verify(&sf, &r);
                sf_close(&sf);
                assert_true(slot_has(&sf, damaged, bucket, "key", &row));
                sf_remove(&sf);
        }
}

/*
 * Two lack the name, one has it, and the record of the fourth is damaged, so nobody can decide. Nor
 * is it decided by the repair of what is damaged: written anew from the one that has the name, it
 * would make two of one word, and a name that was deleted would be back.
 */
static void test_damage_among_those_that_differ(void **state)
{
        static struct sf_row row, before, after;
        unsigned slots[CODED_M + 1] = {0}, i, j;
        struct eng_verify_report r;
        uint64_t bucket;
        struct sf sf;

        for (i = 0; i <= CODED_M; i++) {
                sf_make(&sf, CODED_M + 2, 2);
                sf.options.ec_k = 2;
                sf.options.ec_m = CODED_M;
                sf.options.cache_bytes = 1; /* small objects come from the log */
                assert_int_equal(sf_open(&sf, true), 0);
                assert_true(sf_wait_ready(&sf, 20));
                assert_int_equal(sf_bucket(&sf, "bucket", &bucket), 0);
                assert_int_equal(sf_put(&sf, 0, bucket, "key", 77, 5000, true, NULL), 0);
                sf_close(&sf);
                eng_name_object(&row.name, bucket, "key", 3);
                before.name = after.name = row.name;
                holders_of(&sf, &row, slots);
                row.len = 0;
                spoil_bytes(&sf, slots[i], 77, 5000);
                assert_true(sf_get_row(&sf, slots[i], &before));
                for (j = 2; j <= CODED_M; j++)
                        sf_put_row(&sf, slots[(i + j) % (CODED_M + 1)], &row);
                start(&sf);
                verify(&sf, &r);
                assert_int_equal(r.repaired_shards + r.repaired_names, 0);
                verify(&sf, &r);
                sf_close(&sf);
                assert_true(sf_get_row(&sf, slots[i], &after));
                assert_int_equal(after.len, before.len);
                assert_memory_equal(after.value, before.value, before.len); /* where its record stands, too */
                for (j = 2; j <= CODED_M; j++)
                        assert_false(sf_get_row(&sf, slots[(i + j) % (CODED_M + 1)], &row));
                sf_remove(&sf);
        }
}

/* The walk of upkeep alone finds a name that one member lacks: no verification helps it. */
static void test_upkeep_finds_it(void **state)
{
        struct eng_heal_report *heal = malloc(2 * sizeof(*heal)); /* now, last */
        static struct sf_row row;
        unsigned slot = 0;
        uint64_t bucket;
        struct sf sf;

        assert_non_null(heal);
        begin(&sf, &bucket);
        assert_int_equal(sf_put(&sf, 0, bucket, "lost", 1, 500, true, NULL), 0);
        sf_close(&sf);
        while (!slot_has(&sf, slot, bucket, "lost", &row))
                slot++;
        row.len = 0;
        sf_put_row(&sf, slot, &row);
        start(&sf);
        WAIT_UNTIL((eng_heal_read(sf.store, &heal[0], &heal[1]), heal[0].repaired_names > 0));
        assert_int_equal(heal[0].differing_names, 1);
        assert_int_equal(heal[0].repaired_names, 1);
        sf_close(&sf);
        assert_true(slot_has(&sf, slot, bucket, "lost", &row));
        sf_remove(&sf);
        free(heal);
}

/*
 * Half of the members lack a name, and what one of the others has cannot be read: it is counted,
 * and the next walk, which is not tomorrow's, looks again.
 */
static void test_what_nobody_can_decide(void **state)
{
        struct eng_heal_report *heal = malloc(2 * sizeof(*heal)); /* now, last */
        unsigned slots[CODED_M + 1] = {0};
        static struct sf_row row;
        char faults[64];
        uint64_t bucket;
        int64_t began;
        struct sf sf;

        assert_non_null(heal);
        sf_make(&sf, CODED_M + 2, 2);
        sf.options.ec_k = 2;
        sf.options.ec_m = CODED_M;
        assert_int_equal(sf_open(&sf, true), 0);
        assert_true(sf_wait_ready(&sf, 20));
        assert_int_equal(sf_bucket(&sf, "bucket", &bucket), 0);
        assert_int_equal(sf_put(&sf, 0, bucket, "key", 1, 500, true, NULL), 0);
        sf_close(&sf);
        eng_name_object(&row.name, bucket, "key", 3);
        holders_of(&sf, &row, slots);
        row.len = 0;
        sf_put_row(&sf, slots[0], &row);
        sf_put_row(&sf, slots[1], &row);
        snprintf(faults, sizeof(faults), "corrupt:op=lookup,slot=%u", slots[2]);
        sf.options.faults = faults;
        sf.options.heal_again_ms = 10;
        start(&sf);
        WAIT_UNTIL((eng_heal_read(sf.store, &heal[0], &heal[1]), heal[0].undecided_names == 1 && !heal[0].running));
        assert_int_equal(heal[0].undecided_names, 1);
        began = heal[0].started_ms;
        WAIT_UNTIL((eng_heal_read(sf.store, &heal[0], &heal[1]), heal[0].started_ms > began && heal[0].undecided_names == 1));
        assert_true(heal[0].started_ms > began);
        assert_int_equal(heal[0].undecided_names, 1);
        sf_close(&sf);
        assert_true(sf_get_row(&sf, slots[3], &row));
        sf_remove(&sf);
        free(heal);
}

/* ---- a drive from which the group has gone --------------------------------------------------- */

struct repair {
        struct lp_msg msg;
        struct eng_store *store;
        struct eng_resync resync;
        sem_t over;
};

static void repair_done(struct eng_resync *resync)
{
        sem_post(&container_of(resync, struct repair, resync)->over);
}

static void repair_begin(struct lp_msg *msg)
{
        struct repair *r = (struct repair *)msg;

        if (eng_resync_start(r->store, &r->resync) != 0)
                sem_post(&r->over);
}

/*
 * A repair that was asked for while it was still a member comes when it is none: it gets nothing of
 * the group any more.
 */
static void test_no_part_of_the_group(void **state)
{
        static struct sf_row row;
        struct repair r = {.resync = {.repair = true, .done = repair_done}};
        unsigned slot, without = 4, n = 0;
        uint64_t bucket;
        struct sf sf;

        begin(&sf, &bucket);
        assert_int_equal(sf_put(&sf, 0, bucket, "key", 1, 500, true, NULL), 0);
        sf_close(&sf);
        for (slot = 0; slot < 4; slot++) {
                if (slot_has(&sf, slot, bucket, "key", &row))
                        n++;
                else
                        without = slot;
        }
        assert_int_equal(n, 3);
        start(&sf);
        sem_init(&r.over, 0, 0);
        r.store = sf.store;
        eng_name_object(&r.resync.name, bucket, "key", 3);
        r.resync.slot = without;
        r.msg.run = repair_begin;
        lp_post(sf.loops[0], &r.msg);
        sem_wait(&r.over);
        assert_int_equal(r.resync.txn.result, -ECANCELED);
        assert_false(r.resync.copied);
        sf_close(&sf);
        assert_false(slot_has(&sf, without, bucket, "key", &row));
        sem_destroy(&r.over);
        sf_remove(&sf);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_a_member_that_cannot_say),
                cmocka_unit_test(test_all_members_but_one),
                cmocka_unit_test(test_damage_here_and_nothing_there),
                cmocka_unit_test(test_damage_among_those_that_differ),
                cmocka_unit_test(test_names_that_differ),
                cmocka_unit_test(test_no_part_of_the_group),
                cmocka_unit_test(test_an_upload_that_came_back),
                cmocka_unit_test(test_upkeep_finds_it),
                cmocka_unit_test(test_what_nobody_can_decide),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
