/*
 * One member has a row that is older than what the others have, or has lost it: its word alone
 * decides nothing. Each member in turn is the one.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "engine/drive/index.h"
#include "tests/lib/store_objects.h"
#include "tests/lib/store_versions.h"
#include "tests/lib/wait.h"

#define KEY    "key"
#define SMALL  500u
#define OTHERS 10000u

static const struct eng_bucket_rules enabled = {.versioning = ENG_VERSIONING_ENABLED};
static const struct eng_bucket_rules locked = {.versioning = ENG_VERSIONING_ENABLED, .lock = true};

static bool all_in(const struct eng_health *h, void *arg)
{
        return h->ready && h->writable && h->drives_in == h->drive_count;
}

/* Of 1 + m drives, each of which has all shards and rows. */
static void begin(struct sf *sf, unsigned m, uint64_t *bucket, const struct eng_bucket_rules *rules)
{
        sf_make(sf, 1 + m, 2);
        sf->keep_version = true;
        sf->options.ec_k = 1;
        sf->options.ec_m = m;
        assert_int_equal(sf_open(sf, true), 0);
        assert_true(sf_wait_ready(sf, 20));
        assert_int_equal(sf_bucket_with(sf, "bucket", rules, bucket), 0);
}

static void again(struct sf *sf, const char *faults)
{
        sf->options.faults = faults;
        assert_int_equal(sf_open(sf, false), 0);
        assert_true(sf_wait_health(sf, all_in, NULL, 30));
}

static void end(struct sf *sf)
{
        sf_close(sf);
        sf_remove(sf);
}

static struct eng_version put(struct sf *sf, uint64_t bucket, const char *key, uint64_t seed)
{
        assert_int_equal(sf_put(sf, 0, bucket, key, seed, SMALL, true, NULL), 0);
        return sf->put_version;
}

/* Names that a walk comes to before those that a test is about: the test is quicker. */
static void put_others(struct sf *sf, uint64_t bucket)
{
        char key[16];
        unsigned i;

        for (i = 0; i < OTHERS; i++) {
                snprintf(key, sizeof(key), "a%05u", i);
                assert_int_equal(sf_put(sf, 0, bucket, key, i, 8, true, NULL), 0);
        }
}

/* A member that does not know of a hold does not let the version go. */
static void test_a_hold_that_one_member_has_not(void **state)
{
        const struct eng_extras_change hold = {.set_hold = true, .extras = {.hold = true}};
        static struct sf_row old;
        unsigned slot;
        struct sf sf;

        for (slot = 0; slot < 2; slot++) {
                struct eng_deleted deleted;
                struct eng_version v1;
                uint64_t bucket;

                begin(&sf, 1, &bucket, &locked);
                put_others(&sf, bucket);
                v1 = put(&sf, bucket, KEY, 1);
                sf_close(&sf);
                assert_true(sv_version_row(&sf, slot, bucket, KEY, &v1, &old));
                again(&sf, NULL);
                assert_int_equal(sv_extras(&sf, bucket, KEY, &v1, &hold), 0);
                sf_close(&sf);
                sf_put_row(&sf, slot, &old);
                again(&sf, NULL);
                assert_int_equal(sv_delete(&sf, bucket, KEY, &v1, &deleted), -EACCES);
                end(&sf);
        }
}

/* Nor does one that does not know of a retention let it be shortened. */
static void test_a_retention_that_one_member_has_not(void **state)
{
        struct eng_extras_change keep = {.set_retention = true, .extras = {.retention = {.mode = ENG_RETENTION_COMPLIANCE}}};
        static struct sf_row old;
        unsigned slot;
        struct sf sf;

        for (slot = 0; slot < 2; slot++) {
                struct eng_version v1;
                uint64_t bucket;

                begin(&sf, 1, &bucket, &locked);
                put_others(&sf, bucket);
                v1 = put(&sf, bucket, KEY, 1);
                sf_close(&sf);
                assert_true(sv_version_row(&sf, slot, bucket, KEY, &v1, &old));
                again(&sf, NULL);
                keep.extras.retention.until_ms = lp_wall_ms() + 1000000;
                assert_int_equal(sv_extras(&sf, bucket, KEY, &v1, &keep), 0);
                sf_close(&sf);
                sf_put_row(&sf, slot, &old);
                again(&sf, NULL);
                keep.extras.retention.until_ms = lp_wall_ms() + 1000;
                assert_int_equal(sv_extras(&sf, bucket, KEY, &v1, &keep), -EACCES);
                end(&sf);
        }
}

#define NEWEST_KEYS 8u /* of which some are asked for at one member first, some at the other */

static const char *newest_key(unsigned i)
{
        static char key[8];

        snprintf(key, sizeof(key), "key%u", i);
        return key;
}

static void put_newest_keys(struct sf *sf, uint64_t bucket, uint64_t seed)
{
        unsigned i;

        for (i = 0; i < NEWEST_KEYS; i++)
                put(sf, bucket, newest_key(i), seed);
}

static const uint8_t *id_in(const struct sf_row *row)
{
        return row->value + offsetof(struct fmt_value, id);
}

static void open_without_one(struct sf *sf)
{
        assert_int_equal(sf_open(sf, false), 0);
        assert_true(sf_wait_health(sf, so_can_read, NULL, 30));
}

/*
 * A drive that catches up is given the newest value, also where the member that is asked first has an old one. Names
 * of that member cannot be read: else upkeep may see that it is old, and be there first.
 */
static void test_catching_up_with_the_newest(void **state)
{
        static const char *const faults[] = {"again:op=scan,slot=0", "again:op=scan,slot=1"};
        static struct sf_row old[NEWEST_KEYS], newest[NEWEST_KEYS], row;
        unsigned slot, i;
        struct sf sf;

        for (slot = 0; slot < 2; slot++) {
                uint64_t bucket;

                begin(&sf, 2, &bucket, NULL);
                sf_close(&sf);
                so_move(&sf, 2, true);
                open_without_one(&sf);
                put_newest_keys(&sf, bucket, 1);
                sf_close(&sf);
                for (i = 0; i < NEWEST_KEYS; i++)
                        assert_true(sv_object_row(&sf, slot, bucket, newest_key(i), &old[i]));
                open_without_one(&sf);
                put_newest_keys(&sf, bucket, 2);
                sf_close(&sf);
                for (i = 0; i < NEWEST_KEYS; i++) {
                        assert_true(sv_object_row(&sf, 1 - slot, bucket, newest_key(i), &newest[i]));
                        sf_put_row(&sf, slot, &old[i]);
                }
                so_move(&sf, 2, false);
                again(&sf, faults[slot]);
                sf_close(&sf);
                for (i = 0; i < NEWEST_KEYS; i++) {
                        assert_true(sv_object_row(&sf, 2, bucket, newest_key(i), &row));
                        assert_memory_equal(id_in(&row), id_in(&newest[i]), FMT_ID);
                }
                sf_remove(&sf);
        }
}

/* A head that names a version which was deleted hides the others only until another member is asked. */
static void test_an_old_head_does_not_hide_the_key(void **state)
{
        static struct sf_row old;
        unsigned slot, loop;
        struct sf sf;

        for (slot = 0; slot < 2; slot++) {
                struct eng_deleted deleted;
                struct eng_version v2;
                uint64_t bucket;

                begin(&sf, 1, &bucket, &enabled);
                put_others(&sf, bucket);
                put(&sf, bucket, KEY, 1);
                v2 = put(&sf, bucket, KEY, 2);
                sf_close(&sf);
                assert_true(sv_object_row(&sf, slot, bucket, KEY, &old));
                again(&sf, NULL);
                assert_int_equal(sv_delete(&sf, bucket, KEY, &v2, &deleted), 0);
                sf_close(&sf);
                sf_put_row(&sf, slot, &old);
                again(&sf, NULL);
                for (loop = 0; loop < sf.loop_count; loop++)
                        assert_int_equal(sf_get(&sf, loop, bucket, KEY, 1, SMALL), 0);
                end(&sf);
        }
}

/* Where two are to be asked, one that cannot answer is not passed over. */
static void test_a_member_that_cannot_answer(void **state)
{
        static const char *const faults[] = {"again:op=lookup,slot=0", "again:op=lookup,slot=1", "again:op=scan,slot=0",
                                             "again:op=scan,slot=1"};
        struct eng_deleted deleted;
        struct eng_version v2;
        uint64_t bucket, other;
        struct sf sf;
        unsigned i;

        begin(&sf, 1, &bucket, &enabled);
        assert_int_equal(sf_bucket(&sf, "empty", &other), 0);
        put(&sf, bucket, KEY, 1);
        v2 = put(&sf, bucket, KEY, 2);
        for (i = 0; i < sizeof(faults) / sizeof(faults[0]); i++) {
                sf_close(&sf);
                again(&sf, faults[i]);
                assert_int_equal(sf_get(&sf, 0, bucket, KEY, 2, SMALL), 0);
                if (i < 2)
                        assert_int_equal(sf_put(&sf, 0, bucket, KEY, 3, SMALL, true, NULL), -EHOSTDOWN);
                else
                        assert_int_equal(sf_bucket_delete(&sf, "empty"), -EAGAIN);
                assert_int_equal(sv_delete(&sf, bucket, KEY, &v2, &deleted), -EHOSTDOWN);
        }
        sf_close(&sf);
        again(&sf, NULL);
        assert_int_equal(sv_delete(&sf, bucket, KEY, &v2, &deleted), 0);
        assert_int_equal(sf_bucket_delete(&sf, "empty"), 0);
        end(&sf);
}

/* Two of three members have lost a head: as long as there are versions, it is given back. */
static void test_a_head_that_most_have_lost(void **state)
{
        static struct sf_row row;
        unsigned slot;
        struct sf sf;

        for (slot = 0; slot < 3; slot++) {
                struct eng_verify_report report;
                struct eng_version v1;
                uint64_t bucket;
                unsigned i;

                begin(&sf, 2, &bucket, &enabled);
                v1 = put(&sf, bucket, KEY, 1);
                put(&sf, bucket, KEY, 2);
                sf_close(&sf);
                assert_true(sv_object_row(&sf, slot, bucket, KEY, &row));
                for (i = 0; i < 3; i++)
                        if (i != slot)
                                sv_lose_row(&sf, i, &row);
                again(&sf, NULL);
                assert_true(sf_wait_health(&sf, so_whole, NULL, 30));
                so_verify(&sf, &report);
                assert_int_equal(sf_get(&sf, 0, bucket, KEY, 2, SMALL), 0);
                assert_int_equal(sf_get_version(&sf, bucket, KEY, &v1, 1, SMALL), 0);
                sf_close(&sf);
                for (i = 0; i < 3; i++)
                        assert_true(sv_object_row(&sf, i, bucket, KEY, &row));
                sf_remove(&sf);
        }
}

/* V34: it is an old head that one member alone has left, of a version that was deleted since. */
static void test_an_old_head_that_most_have_lost(void **state)
{
        static struct sf_row old, row;
        unsigned slot;
        struct sf sf;

        for (slot = 0; slot < 3; slot++) {
                struct eng_verify_report report;
                struct eng_deleted deleted;
                struct eng_version v1, v2;
                uint64_t bucket;
                unsigned i;

                begin(&sf, 2, &bucket, &enabled);
                v1 = put(&sf, bucket, KEY, 1);
                v2 = put(&sf, bucket, KEY, 2);
                sf_close(&sf);
                assert_true(sv_object_row(&sf, slot, bucket, KEY, &old));
                again(&sf, NULL);
                assert_int_equal(sv_delete(&sf, bucket, KEY, &v2, &deleted), 0);
                sf_close(&sf);
                for (i = 0; i < 3; i++) {
                        assert_true(sv_object_row(&sf, i, bucket, KEY, &row));
                        sv_lose_row(&sf, i, &row);
                }
                sf_put_row(&sf, slot, &old);
                again(&sf, NULL);
                assert_true(sf_wait_health(&sf, so_whole, NULL, 30));
                so_verify(&sf, &report);
                assert_int_equal(sf_get(&sf, 0, bucket, KEY, 1, SMALL), 0);
                assert_int_equal(sf_get_version(&sf, bucket, KEY, &v1, 1, SMALL), 0);
                sf_close(&sf);
                for (i = 0; i < 3; i++)
                        assert_true(sv_object_row(&sf, i, bucket, KEY, &row));
                sf_remove(&sf);
        }
}

/* What one member alone has keeps a bucket: what is in a deleted one is discarded. */
static void test_a_bucket_that_seems_empty(void **state)
{
        static struct sf_row row;
        unsigned slot;
        struct sf sf;

        for (slot = 0; slot < 2; slot++) {
                uint64_t bucket;
                bool existed;

                begin(&sf, 1, &bucket, NULL);
                put(&sf, bucket, KEY, 1);
                sf_close(&sf);
                assert_true(sv_object_row(&sf, slot, bucket, KEY, &row));
                sv_lose_row(&sf, slot, &row);
                again(&sf, NULL);
                assert_int_equal(sf_bucket_delete(&sf, "bucket"), -EBUSY);
                assert_true(sf_wait_health(&sf, so_whole, NULL, 30));
                assert_int_equal(sf_get(&sf, 0, bucket, KEY, 1, SMALL), 0);
                assert_int_equal(sf_delete(&sf, 0, bucket, KEY, &existed), 0);
                assert_int_equal(sf_bucket_delete(&sf, "bucket"), 0);
                end(&sf);
        }
}

/* The value of a row says that its record is where none is: its inline bytes cannot be read. */
static void spoil_bytes(const struct sf *sf, unsigned slot, struct sf_row *row)
{
        struct fmt_value v;

        memcpy(&v, row->value, sizeof(v)); /* it is not aligned */
        v.log_position += FMT_BLOCK;
        memcpy(row->value, &v, sizeof(v));
        sf_put_row(sf, slot, row);
}

static void count_up(struct sf_row *row)
{
        struct fmt_value v;

        memcpy(&v, row->value, sizeof(v));
        v.seq++;
        memcpy(row->value, &v, sizeof(v));
}

/* A member whose inline bytes are damaged, of the same value under a higher number, keeps nobody from a change. */
static void test_a_copy_whose_bytes_are_damaged(void **state)
{
        const struct eng_extras_change tags = {.set_tags = true, .extras = {.tags = {"tags", 4}}};
        static struct sf_row row;
        unsigned slot;
        struct sf sf;

        for (slot = 0; slot < 2; slot++) {
                uint64_t bucket;

                begin(&sf, 1, &bucket, NULL);
                put(&sf, bucket, KEY, 1);
                sf_close(&sf);
                assert_true(sv_object_row(&sf, slot, bucket, KEY, &row));
                count_up(&row);
                spoil_bytes(&sf, slot, &row);
                again(&sf, NULL);
                assert_int_equal(sv_extras(&sf, bucket, KEY, NULL, &tags), 0);
                assert_int_equal(sf_get(&sf, 0, bucket, KEY, 1, SMALL), 0);
                end(&sf);
        }
}

/* What one of four members has of an object that was deleted does not go to a drive that catches up. */
static void test_catching_up_with_what_is_outvoted(void **state)
{
        static struct sf_row old;
        unsigned slot;
        struct sf sf;

        for (slot = 0; slot < 3; slot++) {
                uint64_t bucket;
                bool existed;

                begin(&sf, 3, &bucket, NULL);
                put(&sf, bucket, KEY, 1);
                sf_close(&sf);
                assert_true(sv_object_row(&sf, slot, bucket, KEY, &old));
                so_move(&sf, 3, true);
                assert_int_equal(sf_open(&sf, false), 0);
                assert_true(sf_wait_health(&sf, so_can_read, NULL, 30));
                assert_int_equal(sf_delete(&sf, 0, bucket, KEY, &existed), 0);
                sf_close(&sf);
                sf_put_row(&sf, slot, &old);
                so_move(&sf, 3, false);
                again(&sf, NULL);
                assert_true(sf_wait_health(&sf, so_whole, NULL, 30));
                assert_int_equal(sf_get(&sf, 0, bucket, KEY, 1, SMALL), -ENOENT);
                end(&sf);
        }
}

/* One member does not know of the hold, and what the other has cannot be read, or not all of it. */
static void test_a_hold_that_cannot_be_read(void **state)
{
        static const char *const faults[] = {"corrupt:op=lookup,slot=1", "corrupt:op=lookup,slot=0"};
        const struct eng_extras_change hold = {.set_hold = true, .extras = {.hold = true}};
        static struct sf_row old, row;
        unsigned slot;
        struct sf sf;

        for (slot = 0; slot < 2; slot++) {
                struct eng_verify_report report;
                struct eng_deleted deleted;
                struct eng_version v1;
                uint64_t bucket;

                begin(&sf, 1, &bucket, &locked);
                put_others(&sf, bucket);
                v1 = put(&sf, bucket, KEY, 1);
                sf_close(&sf);
                assert_true(sv_version_row(&sf, slot, bucket, KEY, &v1, &old));
                again(&sf, NULL);
                assert_int_equal(sv_extras(&sf, bucket, KEY, &v1, &hold), 0);
                sf_close(&sf);
                sf_put_row(&sf, slot, &old);
                again(&sf, faults[slot]);
                assert_int_equal(sv_delete(&sf, bucket, KEY, &v1, &deleted), -EHOSTDOWN);
                sf_close(&sf);
                sf_put_row(&sf, slot, &old);
                assert_true(sv_version_row(&sf, 1 - slot, bucket, KEY, &v1, &row));
                spoil_bytes(&sf, 1 - slot, &row);
                again(&sf, NULL);
                assert_true(sf_wait_health(&sf, so_whole, NULL, 60));
                so_verify(&sf, &report);
                assert_int_equal(sv_delete(&sf, bucket, KEY, &v1, &deleted), -EACCES);
                assert_int_equal(sf_get_version(&sf, bucket, KEY, &v1, 1, SMALL), 0);
                end(&sf);
        }
}

/* Nothing is said of a bucket by a member that has lost a row, and another that cannot be read. */
static void test_a_bucket_that_cannot_be_looked_into(void **state)
{
        static const char *const faults[] = {"corrupt:op=scan,slot=1", "corrupt:op=scan,slot=0"};
        static struct sf_row row;
        unsigned slot;
        struct sf sf;

        for (slot = 0; slot < 2; slot++) {
                uint64_t bucket;

                begin(&sf, 1, &bucket, NULL);
                put(&sf, bucket, KEY, 1);
                sf_close(&sf);
                assert_true(sv_object_row(&sf, slot, bucket, KEY, &row));
                sv_lose_row(&sf, slot, &row);
                again(&sf, faults[slot]);
                assert_int_equal(sf_bucket_delete(&sf, "bucket"), -EAGAIN);
                end(&sf);
        }
}

struct deletion {
        struct lp_msg msg;
        struct sf *sf;
        atomic_int result;             /* 1: not answered */
        atomic_bool begun;
};

static void deletion_answered(void *arg, int rv)
{
        atomic_store(&((struct deletion *)arg)->result, rv);
}

static void deletion_begins(struct lp_msg *msg)
{
        struct deletion *d = (struct deletion *)msg;

        eng_bucket_delete(d->sf->store, (struct eng_str){"bucket", 6}, 0, deletion_answered, d);
        atomic_store(&d->begun, true);
}

/* The store is closed while a deletion waits for its next look into the bucket: it is answered. */
static void test_a_look_that_the_end_cuts_off(void **state)
{
        static struct deletion d;
        static struct sf_row row;
        uint64_t bucket;
        struct sf sf;

        begin(&sf, 1, &bucket, NULL);
        put(&sf, bucket, KEY, 1);
        sf_close(&sf);
        assert_true(sv_object_row(&sf, 0, bucket, KEY, &row));
        sv_lose_row(&sf, 0, &row);
        again(&sf, "corrupt:op=scan,slot=1");
        d.sf = &sf;
        d.msg.run = deletion_begins;
        atomic_store(&d.result, 1);
        lp_post(sf.loops[0], &d.msg);
        WAIT_UNTIL(atomic_load(&d.begun));
        end(&sf);
        assert_int_not_equal(atomic_load(&d.result), 1);
        assert_int_not_equal(atomic_load(&d.result), 0);
}

static bool is_deleted(struct sf *sf)
{
        return sf_bucket_delete(sf, "bucket") == 0;
}

/* What one of three members has of an object that was deleted keeps a bucket until they were compared. */
static void test_a_bucket_with_what_is_outvoted(void **state)
{
        static struct sf_row old;
        unsigned slot;
        struct sf sf;

        for (slot = 0; slot < 3; slot++) {
                uint64_t bucket;
                bool existed;

                begin(&sf, 2, &bucket, NULL);
                put(&sf, bucket, KEY, 1);
                sf_close(&sf);
                assert_true(sv_object_row(&sf, slot, bucket, KEY, &old));
                again(&sf, NULL);
                assert_int_equal(sf_delete(&sf, 0, bucket, KEY, &existed), 0);
                sf_close(&sf);
                sf_put_row(&sf, slot, &old);
                again(&sf, NULL);
                WAIT_UNTIL(is_deleted(&sf));
                assert_int_equal(sf_bucket_delete(&sf, "bucket"), -ENOENT);
                end(&sf);
        }
}

/* A drive is added while a bucket is looked into again and again. */
static void test_looking_while_a_drive_is_added(void **state)
{
        uint64_t bucket, number;
        char path[200];
        struct sf sf;

        begin(&sf, 1, &bucket, NULL);
        sf_close(&sf);
        again(&sf, "again:op=scan,slot=0");
        snprintf(path, sizeof(path), "%s/added", sf.root);
        assert_int_equal(mkdir(path, 0700), 0);
        assert_int_equal(eng_drive_add(sf.store, path, &number), 0);
        assert_int_equal(sf_bucket_delete(&sf, "bucket"), -EAGAIN);
        end(&sf);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_a_hold_that_one_member_has_not),
                cmocka_unit_test(test_a_retention_that_one_member_has_not),
                cmocka_unit_test(test_catching_up_with_the_newest),
                cmocka_unit_test(test_an_old_head_does_not_hide_the_key),
                cmocka_unit_test(test_a_member_that_cannot_answer),
                cmocka_unit_test(test_a_head_that_most_have_lost),
                cmocka_unit_test(test_an_old_head_that_most_have_lost),
                cmocka_unit_test(test_a_bucket_that_seems_empty),
                cmocka_unit_test(test_a_copy_whose_bytes_are_damaged),
                cmocka_unit_test(test_catching_up_with_what_is_outvoted),
                cmocka_unit_test(test_a_hold_that_cannot_be_read),
                cmocka_unit_test(test_a_bucket_that_cannot_be_looked_into),
                cmocka_unit_test(test_a_look_that_the_end_cuts_off),
                cmocka_unit_test(test_a_bucket_with_what_is_outvoted),
                cmocka_unit_test(test_looking_while_a_drive_is_added),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
