/*
 * The rules of a bucket: what S3 refuses, that every loop decides by them after the answer, that they
 * are there after a restart, a kill and the loss of drives, and that each drive says so in FORMAT before
 * it holds them (docs/design/bucket-rules.md).
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "engine/bucket/bucket.h"
#include "engine/drive/identity.h"
#include "tests/lib/store_objects.h"
#include "tests/lib/wait.h"

static const struct eng_bucket_rules enabled = {.versioning = ENG_VERSIONING_ENABLED};
static const struct eng_bucket_rules locked = {
        .versioning = ENG_VERSIONING_ENABLED, .lock = true, .default_mode = ENG_RETENTION_COMPLIANCE, .default_years = true, .default_period = 7};

static void open_whole(struct sf *sf, bool format)
{
        assert_int_equal(sf_open(sf, format), 0);
        assert_true(sf_wait_health(sf, so_whole, NULL, 60));
}

static void make(struct sf *sf, unsigned drives)
{
        sf_make(sf, drives, 2);
        open_whole(sf, true);
}

static struct eng_identity format_of(const struct sf *sf, unsigned drive)
{
        struct eng_identity identity;
        enum eng_folder_state state;
        struct eng_error error;

        assert_int_equal(eng_folder_probe(sf->path[drive], &state, &identity, &error), 0);
        assert_int_equal(state, ENG_FOLDER_DRIVE);
        return identity;
}

/* All loops have these, and that generation. */
static void check(struct sf *sf, const char *name, const struct eng_bucket_rules *want, uint64_t generation)
{
        struct eng_bucket_rules got;
        unsigned loop;

        for (loop = 0; loop < sf->loop_count; loop++) {
                assert_int_equal(sf_rules(sf, loop, name, &got), 0);
                assert_true(eng_rules_same(&got, want));
                assert_int_equal(got.generation, generation);
        }
}

static int set(struct sf *sf, uint64_t id, struct eng_bucket_rules rules, uint64_t generation)
{
        rules.generation = generation;
        return sf_rules_set(sf, 1, id, &rules);
}

/* ---- what S3 allows -------------------------------------------------------------------------- */

static void test_refused(void **state)
{
        struct eng_bucket_rules rules = {.versioning = ENG_VERSIONING_NEVER};
        uint64_t id, other;
        struct sf sf;

        make(&sf, 2);
        assert_int_equal(sf_bucket(&sf, "plain", &id), 0);
        check(&sf, "plain", &rules, 0);
        assert_int_equal(set(&sf, id, rules, 0), 0); /* says the same */
        check(&sf, "plain", &rules, 0);
        assert_int_equal(format_of(&sf, 0).features, 0);
        assert_int_equal(set(&sf, id, enabled, 1), -ESTALE);
        assert_int_equal(set(&sf, id, enabled, 0), 0);
        check(&sf, "plain", &enabled, 1);
        assert_int_equal(set(&sf, id, rules, 1), -EPERM); /* never, again */
        rules.versioning = ENG_VERSIONING_SUSPENDED;
        assert_int_equal(set(&sf, id, rules, 1), 0);
        check(&sf, "plain", &rules, 2);
        rules.lock = true;
        assert_int_equal(set(&sf, id, rules, 2), -EPERM); /* suspended, with a lock */
        assert_int_equal(set(&sf, id, locked, 2), 0);
        assert_int_equal(set(&sf, id, enabled, 3), -EPERM); /* without it */
        assert_int_equal(set(&sf, id, rules, 3), -EPERM);
        check(&sf, "plain", &locked, 3);
        rules = locked;
        rules.default_period = 0;
        assert_int_equal(set(&sf, id, rules, 3), -EINVAL);
        rules.default_period = 101;
        assert_int_equal(set(&sf, id, rules, 3), -EINVAL);
        rules.default_years = false;
        rules.default_period = 36501;
        assert_int_equal(set(&sf, id, rules, 3), -EINVAL);
        rules.default_period = 36500;
        assert_int_equal(set(&sf, id, rules, 3), 0);
        assert_int_equal(sf_bucket(&sf, "other", &other), 0);
        rules = enabled;
        rules.default_mode = ENG_RETENTION_GOVERNANCE;
        rules.default_period = 1;
        assert_int_equal(set(&sf, other, rules, 0), -EINVAL); /* no lock */
        rules = (struct eng_bucket_rules){.lock = true};
        assert_int_equal(set(&sf, other, rules, 0), 0);
        rules.versioning = ENG_VERSIONING_ENABLED;
        check(&sf, "other", &rules, 1);
        assert_int_equal(sf_bucket_delete(&sf, "other"), 0);
        assert_int_equal(set(&sf, other, enabled, 1), -EIDRM);
        assert_int_equal(sf_bucket(&sf, "other", &other), 0);
        check(&sf, "other", &(struct eng_bucket_rules){.lock = false}, 0);
        sf_close(&sf);
        sf_remove(&sf);
}

/* A delete marker keeps its bucket. */
static void test_not_empty(void **state)
{
        uint64_t id;
        struct sf sf;
        bool existed;

        make(&sf, 2);
        assert_int_equal(sf_bucket_with(&sf, "bucket", &enabled, &id), 0);
        assert_int_equal(sf_delete(&sf, 0, id, "key", &existed), 0);
        assert_int_equal(sf_bucket_delete(&sf, "bucket"), -EBUSY);
        sf_close(&sf);
        open_whole(&sf, false);
        assert_int_equal(sf_bucket_delete(&sf, "bucket"), -EBUSY);
        sf_close(&sf);
        sf_remove(&sf);
}

static void test_created_with(void **state)
{
        struct eng_bucket_rules bad = {.versioning = ENG_VERSIONING_SUSPENDED, .lock = true}, lock = {.lock = true};
        uint64_t id;
        struct sf sf;

        make(&sf, 2);
        assert_int_equal(sf_bucket_with(&sf, "bad", &bad, &id), -EPERM);
        bad = (struct eng_bucket_rules){.default_period = 1};
        assert_int_equal(sf_bucket_with(&sf, "bad", &bad, &id), -EINVAL);
        assert_int_equal(format_of(&sf, 0).features, 0);
        assert_int_equal(sf_bucket_with(&sf, "lock", &lock, &id), 0);
        assert_int_equal(format_of(&sf, 1).features, FMT_FEATURE_VERSIONS);
        lock.versioning = ENG_VERSIONING_ENABLED;
        check(&sf, "lock", &lock, 1);
        sf_close(&sf);
        open_whole(&sf, false);
        check(&sf, "lock", &lock, 1);
        sf_close(&sf);
        sf_remove(&sf);
}

/* ---- crashes and drives ---------------------------------------------------------------------- */

static void copy_drives(const struct sf *sf, const char *verb, const char *from, const char *to)
{
        char command[1024];

        snprintf(command, sizeof(command), "%s '%s%s' '%s%s'", verb, sf->root, from, sf->root, to);
        assert_int_equal(system(command), 0);
}

/* What a kill leaves: the folders as they are while the store still runs. */
static void test_killed(void **state)
{
        uint64_t id;
        struct sf sf;

        make(&sf, 4);
        assert_int_equal(sf_bucket(&sf, "bucket", &id), 0);
        assert_int_equal(set(&sf, id, locked, 0), 0);
        copy_drives(&sf, "cp -a", "", ".killed");
        sf_close(&sf);
        copy_drives(&sf, "rm -rf", "", ".none");
        copy_drives(&sf, "mv", ".killed", "");
        open_whole(&sf, false);
        check(&sf, "bucket", &locked, 1);
        sf_close(&sf);
        sf_remove(&sf);
}

static void test_drives_lost(void **state)
{
        uint64_t id;
        struct sf sf;
        unsigned i;

        make(&sf, 4);
        assert_int_equal(sf_bucket(&sf, "bucket", &id), 0);
        assert_int_equal(set(&sf, id, locked, 0), 0);
        sf_close(&sf);
        for (i = 0; i < 4; i++) {
                so_move(&sf, i, true);
                assert_int_equal(sf_open(&sf, false), 0);
                assert_true(sf_wait_health(&sf, so_can_read, NULL, 60));
                check(&sf, "bucket", &locked, 1);
                sf_close(&sf);
                so_move(&sf, i, false);
                open_whole(&sf, false); /* the store may have gone on without it: it comes in again */
                sf_close(&sf);
        }
        sf_remove(&sf);
}

static void old_row(const struct sf *sf, unsigned drive, struct sf_row *row, uint64_t seq)
{
        memcpy(row->value + offsetof(struct fmt_value, seq), &seq, sizeof(seq));
        sf_put_row(sf, drive, row);
}

static void check_row(const struct sf *sf, unsigned drive, struct sf_row *row, uint64_t generation)
{
        struct eng_bucket bucket;

        assert_true(sf_get_row(sf, drive, row));
        assert_int_equal(eng_bucket_decode(row->name.data, row->name.len, row->value, row->len, &bucket), 0);
        assert_int_equal(bucket.rules.generation, generation);
}

/* Members have the row as it was, and a higher number, as copies have: rules never go back. */
static void test_old_copy(void **state)
{
        struct sf_row *row = calloc(1, sizeof(*row)), *now = calloc(1, sizeof(*now));
        uint64_t id;
        struct sf sf;
        const unsigned olds[] = {1, 2, 14, 13}; /* slots; three of four are outvoted, too */
        unsigned i, n;

        for (n = 0; n < sizeof(olds) / sizeof(olds[0]); n++) {
                make(&sf, 4);
                assert_int_equal(sf_bucket(&sf, "bucket", &id), 0);
                assert_int_equal(set(&sf, id, enabled, 0), 0);
                sf_close(&sf);
                eng_name_bucket(&row->name, "bucket");
                assert_true(sf_get_row(&sf, 0, row));
                open_whole(&sf, false);
                assert_int_equal(set(&sf, id, locked, 1), 0);
                sf_close(&sf);
                for (i = 0; i < 4; i++)
                        if (olds[n] >> i & 1)
                                old_row(&sf, i, row, 1u << 20);
                open_whole(&sf, false);
                check(&sf, "bucket", &locked, 2);
                WAIT_UNTIL(sf_config_repaired(&sf));
                sf_close(&sf);
                now->name = row->name;
                for (i = 0; i < 4; i++)
                        check_row(&sf, i, now, 2);
                sf_remove(&sf);
        }
        free(row);
        free(now);
}

/* A field that makes no sense is damage of one row, not a bucket without rules. */
static void test_nonsense(void **state)
{
        struct sf_row *row = calloc(1, sizeof(*row));
        uint64_t id;
        struct sf sf;

        make(&sf, 4);
        assert_int_equal(sf_bucket(&sf, "bucket", &id), 0);
        assert_int_equal(set(&sf, id, locked, 0), 0);
        sf_close(&sf);
        eng_name_bucket(&row->name, "bucket");
        assert_true(sf_get_row(&sf, 1, row));
        row->value[row->len - sizeof(struct fmt_bucket_rules) + offsetof(struct fmt_bucket_rules, versioning)] = 9;
        old_row(&sf, 1, row, 1u << 20);
        open_whole(&sf, false);
        check(&sf, "bucket", &locked, 1);
        WAIT_UNTIL(sf_config_repaired(&sf));
        sf_close(&sf);
        check_row(&sf, 1, row, 1);
        sf_remove(&sf);
        free(row);
}

/* A row that is old where two other members agree: what is in force is theirs, and the next change is everybody's. */
static void test_old_where_nobody_looks(void **state)
{
        struct sf_row *row = calloc(1, sizeof(*row));
        struct eng_bucket_rules other = locked;
        uint64_t id;
        struct sf sf;

        make(&sf, 4);
        assert_int_equal(sf_bucket(&sf, "bucket", &id), 0);
        assert_int_equal(set(&sf, id, enabled, 0), 0);
        sf_close(&sf);
        eng_name_bucket(&row->name, "bucket");
        assert_true(sf_get_row(&sf, 3, row));
        open_whole(&sf, false);
        assert_int_equal(set(&sf, id, locked, 1), 0);
        sf_close(&sf);
        old_row(&sf, 3, row, 2);
        open_whole(&sf, false);
        check(&sf, "bucket", &locked, 2);
        assert_int_equal(set(&sf, id, locked, 1), -ESTALE);
        other.default_period = 8;
        assert_int_equal(set(&sf, id, other, 2), 0);
        sf_close(&sf);
        check_row(&sf, 3, row, 3);
        sf_remove(&sf);
        free(row);
}

/* ---- features -------------------------------------------------------------------------------- */

static bool three_in(const struct eng_health *h, void *arg)
{
        return h->ready && h->writable && h->drives_in == 3;
}

static bool is_reported(struct sf *sf, uint64_t number)
{
        struct eng_hot_add_report report;

        assert_int_equal(eng_hot_add_read(sf->store, number, &report), 0);
        return !report.running;
}

/* A drive that was away, and a new one, have the bit before they hold anything. */
static void test_drives_that_come(void **state)
{
        char command[256];
        uint64_t id, number;
        struct sf sf;
        unsigned i;

        make(&sf, 4);
        assert_int_equal(sf_bucket(&sf, "bucket", &id), 0);
        sf_close(&sf);
        so_move(&sf, 2, true);
        assert_int_equal(sf_open(&sf, false), 0);
        assert_true(sf_wait_health(&sf, three_in, NULL, 60));
        assert_int_equal(set(&sf, id, locked, 0), 0);
        so_move(&sf, 2, false);
        assert_int_equal(format_of(&sf, 2).features, 0);
        assert_true(sf_wait_health(&sf, so_whole, NULL, 60));
        assert_int_equal(format_of(&sf, 2).features, FMT_FEATURE_VERSIONS);
        sf_close(&sf);
        so_move(&sf, 1, true);
        assert_int_equal(sf_open(&sf, false), 0);
        assert_true(sf_wait_health(&sf, three_in, NULL, 60));
        snprintf(command, sizeof(command), "mkdir '%s'", sf.path[1]);
        assert_int_equal(system(command), 0);
        assert_int_equal(eng_drive_hot_add(sf.store, 1, sf.path[1], true, &number), 0);
        WAIT_UNTIL(is_reported(&sf, number));
        assert_true(sf_wait_health(&sf, so_whole, NULL, 60));
        for (i = 0; i < 4; i++)
                assert_int_equal(format_of(&sf, i).features, FMT_FEATURE_VERSIONS);
        check(&sf, "bucket", &locked, 1);
        sf_close(&sf);
        sf_remove(&sf);
}

/* One that was opened before the bit was wanted, and is handed its slot after. */
static void test_opened_before(void **state)
{
        uint64_t id;
        struct sf sf;

        make(&sf, 4);
        assert_int_equal(sf_bucket(&sf, "bucket", &id), 0);
        sf_close(&sf);
        sf.options.faults = "open:slot=2,ms=4000";
        sf.options.drive_wait_ms = 300;
        assert_int_equal(sf_open(&sf, false), 0);
        assert_true(sf_wait_health(&sf, three_in, NULL, 60));
        assert_int_equal(set(&sf, id, locked, 0), 0);
        assert_int_equal(format_of(&sf, 2).features, 0);
        assert_true(sf_wait_health(&sf, so_whole, NULL, 60));
        assert_int_equal(format_of(&sf, 2).features, FMT_FEATURE_VERSIONS);
        sf_close(&sf);
        sf_remove(&sf);
}

/* A start that finds the bit on one drive alone, as a kill between two leaves it. */
static void test_half_marked(void **state)
{
        struct eng_error error;
        struct sf sf;
        unsigned i;
        int fd;

        make(&sf, 4);
        sf_close(&sf);
        fd = open(sf.path[3], O_RDONLY | O_DIRECTORY);
        assert_true(fd >= 0);
        assert_int_equal(eng_folder_features(fd, sf.path[3], FMT_FEATURE_VERSIONS, &error), 0);
        close(fd);
        open_whole(&sf, false);
        for (i = 0; i < 4; i++)
                assert_int_equal(format_of(&sf, i).features, FMT_FEATURE_VERSIONS);
        sf_close(&sf);
        sf_remove(&sf);
}

/* A drive in use that cannot be marked: nothing is changed. One that fails by it counts no more. */
static void test_cannot_be_marked(void **state)
{
        const struct eng_bucket_rules none = {.lock = false};
        uint64_t id;
        struct sf sf;

        sf_make(&sf, 4, 2);
        sf.options.faults = "again:op=features,slot=2";
        open_whole(&sf, true);
        assert_int_equal(sf_bucket(&sf, "bucket", &id), 0);
        assert_int_equal(set(&sf, id, locked, 0), -EAGAIN);
        assert_int_equal(sf_bucket_with(&sf, "other", &locked, &id), -EAGAIN);
        check(&sf, "bucket", &none, 0);
        sf_close(&sf);
        sf.options.faults = NULL;
        open_whole(&sf, false);
        check(&sf, "bucket", &none, 0);
        assert_int_equal(sf_bucket_with(&sf, "other", &locked, &id), 0);
        sf_close(&sf);
        sf_remove(&sf);
}

static void test_fails_when_marked(void **state)
{
        uint64_t id, generation;
        struct sf sf;
        int rv;

        sf_make(&sf, 4, 2);
        sf.options.faults = "fail:op=features,slot=2";
        open_whole(&sf, true);
        assert_int_equal(sf_bucket(&sf, "bucket", &id), 0);
        rv = set(&sf, id, locked, 0);
        assert_true(rv == 0 || rv == -EIO);
        assert_int_equal(sf_bucket(&sf, "another", &(uint64_t){0}), 0); /* whose record the drive cannot take */
        assert_true(sf_wait_health(&sf, three_in, NULL, 60));
        generation = rv == 0;
        do { /* the epoch without the drive may not have been everywhere */
                rv = set(&sf, id, locked, generation);
        } while (rv == -EAGAIN);
        assert_int_equal(rv, 0);
        check(&sf, "bucket", &locked, 1);
        sf_close(&sf);
        sf.options.faults = NULL;
        open_whole(&sf, false);
        check(&sf, "bucket", &locked, 1);
        assert_int_equal(format_of(&sf, 2).features, FMT_FEATURE_VERSIONS);
        sf_close(&sf);
        sf_remove(&sf);
}

/* One that hangs: refused in time, and other changes of buckets go on. */
static void test_hangs_when_marked(void **state)
{
        uint64_t id, other;
        struct sf sf;

        sf_make(&sf, 4, 2);
        sf.options.faults = "delay:op=features,slot=2,ms=20000";
        open_whole(&sf, true);
        assert_int_equal(sf_bucket(&sf, "bucket", &id), 0);
        assert_int_equal(set(&sf, id, locked, 0), -ETIMEDOUT);
        assert_int_equal(sf_bucket(&sf, "other", &other), 0);
        check(&sf, "bucket", &(struct eng_bucket_rules){.lock = false}, 0);
        sleep(20); /* it comes back */
        assert_int_equal(set(&sf, id, locked, 0), 0);
        check(&sf, "bucket", &locked, 1);
        sf_close(&sf);
        sf_remove(&sf);
}

/* Changes go on while a drive goes away and comes back: all have the last one in the end. */
static void test_while_drives_go(void **state)
{
        struct eng_bucket_rules rules = enabled, last = enabled;
        struct sf_row *row = calloc(1, sizeof(*row));
        struct eng_health *h = calloc(1, sizeof(*h));
        uint64_t id, generation = 0;
        unsigned i, turns = 0;
        struct sf sf;
        bool away = false, back = false;
        int rv;

        make(&sf, 4);
        assert_int_equal(sf_bucket(&sf, "bucket", &id), 0);
        do {
                rules.versioning = turns % 2 == 0 ? ENG_VERSIONING_ENABLED : ENG_VERSIONING_SUSPENDED;
                rv = set(&sf, id, rules, generation);
                assert_int_equal(rv, 0);
                generation++;
                last = rules;
                if (turns == 50)
                        so_move(&sf, 1, true);
                eng_health_read(sf.store, h);
                away |= h->drives_in == 3;
                if (away && !back && turns > 50) {
                        so_move(&sf, 1, false);
                        back = true;
                }
                turns++;
                usleep(1000);
        } while (turns < 60000 && !(back && so_whole(h, NULL)));
        assert_true(back && so_whole(h, NULL));
        check(&sf, "bucket", &last, generation);
        sf_close(&sf);
        eng_name_bucket(&row->name, "bucket");
        for (i = 0; i < 4; i++)
                check_row(&sf, i, row, generation);
        sf_remove(&sf);
        free(row);
        free(h);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_refused),          cmocka_unit_test(test_created_with),
                cmocka_unit_test(test_not_empty),        cmocka_unit_test(test_while_drives_go),
                cmocka_unit_test(test_killed),           cmocka_unit_test(test_drives_lost),
                cmocka_unit_test(test_old_copy),         cmocka_unit_test(test_nonsense),
                cmocka_unit_test(test_old_where_nobody_looks),         cmocka_unit_test(test_drives_that_come),
                cmocka_unit_test(test_opened_before),
                cmocka_unit_test(test_half_marked),      cmocka_unit_test(test_cannot_be_marked),
                cmocka_unit_test(test_fails_when_marked), cmocka_unit_test(test_hangs_when_marked),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
