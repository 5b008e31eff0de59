/*
 * What members say of a name that none of them gives: it is absent only where most of them say so,
 * and where one of two says so while the other has something that cannot be read, nobody can tell.
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

#include "engine/drive/index.h"
#include "engine/txn/txn.h"
#include "tests/lib/store_fixture.h"
#include "tests/lib/store_objects.h"

#define KEY     "key"
#define HOLDERS 3u

/* ---- the rule ------------------------------------------------------------------------------- */

static void test_who_outvotes_whom(void **state)
{
        static const struct {
                eng_mask before, in, up, absent, members;
                bool is_absent;
        } cases[] =
                {
                        {0x1, 0x1, 0x1, 0x0, 0x0, false},
                        {0x1, 0x1, 0x1, 0x1, 0x0, true},
                        {0x3, 0x3, 0x3, 0x1, 0x0, false}, /* one of two */
                        {0x3, 0x3, 0x3, 0x3, 0x0, true},
                        {0x3, 0x3, 0x1, 0x1, 0x0, true}, /* the other is gone, as at a start for reading */
                        {0x3, 0x1, 0x3, 0x1, 0x0, true}, /* or does not speak any more */
                        {0x7, 0x7, 0x7, 0x1, 0x0, false},
                        {0x7, 0x7, 0x7, 0x3, 0x0, true},
                        {0x7, 0x7, 0x3, 0x1, 0x0, false},
                        {0xf, 0xf, 0xf, 0x3, 0x0, false},
                        {0xf, 0xf, 0xf, 0x7, 0x0, true},
                        {0x1f, 0x1f, 0x1f, 0x7, 0x0, true},
                        {0x3, 0x3, 0x3, 0x5, 0x0, false}, /* one was none of them */
                        {0x3, 0x3, 0x2, 0x1, 0x0, false}, /* it said so before it was gone */
                        {0x3, 0x3, 0x1, 0x1, 0x3, false}, /* the other failed while it was to be asked */
                        {0x3, 0x1, 0x1, 0x1, 0x3, false},
                        {0x7, 0x3, 0x3, 0x3, 0x7, true},
                        {0x0, 0x3, 0x3, 0x3, 0x0, false},
                        {0x2, 0x3, 0x3, 0x3, 0x1, true}, /* the group has gone from the first while it was asked */
                };
        size_t i;

        for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                struct eng_group group = {.before = cases[i].before, .after = cases[i].before};
                struct eng_placement map = {.groups = &group};
                struct eng_view view = {.map = &map, .in = cases[i].in, .up = cases[i].up};
                struct eng_words words = {.absent = cases[i].absent, .members = cases[i].members};

                if (eng_words_absent(&words, &view, 0) != cases[i].is_absent)
                        fail_msg("case %zu", i);
        }
}

/* ---- whole stores --------------------------------------------------------------------------- */

static bool has_name(const struct sf *sf, unsigned slot, const struct eng_name *name)
{
        struct sf_row row = {.name = *name};

        return sf_get_row(sf, slot, &row);
}

/* Its index loses the name. */
static void lose(const struct sf *sf, unsigned slot, const struct eng_name *name)
{
        sf_put_row(sf, slot, &(struct sf_row){.name = *name});
}

/* Of an object of that size, which is written, in a store that is closed then. */
static void make(struct sf *sf, unsigned drives, unsigned k, unsigned m, size_t size, uint64_t *bucket,
                 struct eng_name *name, unsigned holders[HOLDERS])
{
        unsigned slot, n = 0;

        sf_make(sf, drives, 2);
        sf->options.ec_k = k;
        sf->options.ec_m = m;
        assert_int_equal(sf_open(sf, true), 0);
        assert_true(sf_wait_ready(sf, 20));
        assert_int_equal(sf_bucket(sf, "bucket", bucket), 0);
        assert_int_equal(sf_put(sf, 0, *bucket, KEY, 1, size, true, NULL), 0);
        sf_close(sf);
        eng_name_object(name, *bucket, KEY, strlen(KEY));
        for (slot = 0; slot < drives; slot++)
                if (has_name(sf, slot, name))
                        holders[n++] = slot;
        assert_int_equal(n, m + 1);
}

static bool is_in(const struct eng_health *h, void *arg)
{
        return h->ready && h->writable && h->drives_in == h->drive_count;
}

/* With a drive whose names cannot be read, or none (-1). */
static void start(struct sf *sf, int damaged)
{
        static char faults[64];

        snprintf(faults, sizeof(faults), "corrupt:op=lookup,slot=%d", damaged);
        sf->options.faults = damaged < 0 ? NULL : faults;
        assert_int_equal(sf_open(sf, false), 0);
        assert_true(sf_wait_health(sf, is_in, NULL, 30));
}

/* It is as it was, on all members, once all of them can be read. */
static void assert_whole(struct sf *sf, uint64_t bucket, uint64_t seed, size_t size)
{
        struct eng_verify_report report;

        start(sf, -1);
        assert_true(sf_wait_health(sf, so_whole, NULL, 30));
        assert_int_equal(sf_get(sf, 0, bucket, KEY, seed, size), seed == 0 ? -ENOENT : 0);
        so_verify(sf, &report);
        sf_close(sf);
}

/* Of two members one has lost the name, and the other's copy is damaged, either way round. */
static void test_one_of_two(void **state)
{
        static const struct eng_condition absent = {.if_absent = true}, present = {.if_present = true};
        static const size_t sizes[] = {500, 300000};
        unsigned holders[HOLDERS], i, loop;
        struct eng_name name;
        uint64_t bucket;
        struct sf sf;

        for (i = 0; i < 4; i++) {
                size_t size = sizes[i / 2];
                unsigned lost = i % 2;

                make(&sf, 3, 2, 1, size, &bucket, &name, holders);
                lose(&sf, holders[lost], &name);
                start(&sf, (int)holders[1 - lost]);
                for (loop = 0; loop < sf.loop_count; loop++) {
                        assert_int_equal(sf_get(&sf, loop, bucket, KEY, 1, size), -EHOSTDOWN);
                        assert_int_equal(sf_put(&sf, loop, bucket, KEY, 2, size, true, &absent), -EHOSTDOWN);
                        assert_int_equal(sf_put(&sf, loop, bucket, KEY, 2, size, true, &present), -EHOSTDOWN);
                }
                sf_close(&sf);
                assert_whole(&sf, bucket, 1, size);
                assert_true(has_name(&sf, holders[lost], &name));
                sf_remove(&sf);
        }
}

/* What does not depend on what was there goes on: afterwards all members say the same. */
static void test_overwritten_or_deleted(void **state)
{
        static const size_t sizes[] = {500, 300000};
        unsigned holders[HOLDERS], i;
        struct eng_name name;
        uint64_t bucket;
        struct sf sf;
        bool existed;

        for (i = 0; i < 8; i++) {
                size_t size = sizes[i / 4];
                unsigned lost = i % 2;
                bool deletes = i / 2 % 2;

                make(&sf, 3, 2, 1, size, &bucket, &name, holders);
                lose(&sf, holders[lost], &name);
                start(&sf, (int)holders[1 - lost]);
                if (deletes) {
                        assert_int_equal(sf_delete(&sf, 0, bucket, KEY, &existed), 0);
                        assert_true(existed);
                } else {
                        assert_int_equal(sf_put(&sf, 0, bucket, KEY, 3, size, true, NULL), 0);
                        assert_int_equal(sf_get(&sf, 0, bucket, KEY, 3, size), 0);
                }
                sf_close(&sf);
                assert_whole(&sf, bucket, deletes ? 0 : 3, size);
                sf_remove(&sf);
        }
}

/* Of three members one is damaged: if one has lost the name, the third gives it; if two say that it
 * is not there, it is not. */
static void test_one_of_three(void **state)
{
        unsigned holders[HOLDERS], damaged, lost, loop;
        struct eng_name name;
        uint64_t bucket;
        struct sf sf;
        bool existed;

        make(&sf, 4, 2, 2, 500, &bucket, &name, holders);
        for (damaged = 0; damaged < HOLDERS; damaged++)
                for (lost = 0; lost < HOLDERS; lost++) {
                        if (lost == damaged)
                                continue;
                        lose(&sf, holders[lost], &name);
                        start(&sf, (int)holders[damaged]);
                        for (loop = 0; loop < sf.loop_count; loop++)
                                assert_int_equal(sf_get(&sf, loop, bucket, KEY, 1, 500), 0);
                        sf_close(&sf);
                        assert_whole(&sf, bucket, 1, 500);
                }
        for (damaged = 0; damaged < HOLDERS; damaged++) {
                start(&sf, -1);
                assert_int_equal(sf_delete(&sf, 0, bucket, KEY, &existed), 0);
                sf_close(&sf);
                start(&sf, (int)holders[damaged]);
                for (loop = 0; loop < sf.loop_count; loop++)
                        assert_int_equal(sf_get(&sf, loop, bucket, KEY, 1, 500), -ENOENT);
                sf_close(&sf);
        }
        sf_remove(&sf);
}

/*
 * One member of three has lost a part, and upkeep can't rebuild that, since lookups of the others
 * fail: what they list counts, and a part nobody has is refused.
 */
static void test_a_part_that_one_lost(void **state)
{
        struct eng_complete_part parts[2] = {{.number = 1}, {.number = 2}};
        uint8_t id[ENG_ID_LEN];
        char faults[160];
        unsigned slot, i;
        struct eng_name name;
        uint64_t bucket;
        struct sf sf;

        sf_make(&sf, 4, 2);
        assert_int_equal(sf_open(&sf, true), 0);
        assert_true(sf_wait_ready(&sf, 20));
        assert_int_equal(sf_bucket(&sf, "bucket", &bucket), 0);
        assert_int_equal(sf_put(&sf, 0, bucket, KEY, 1, 500, true, NULL), 0);
        for (slot = 0; slot < 4; slot++) {
                assert_int_equal(sf_upload(&sf, bucket, KEY, id), 0);
                assert_int_equal(sf_part(&sf, 0, bucket, KEY, id, 1, 7, 0, 5000, parts[0].id), 0);
                sf_close(&sf);
                eng_name_part(&name, bucket, KEY, strlen(KEY), id, 1);
                faults[0] = 0;
                for (i = 0; has_name(&sf, slot, &name) && i < 4; i++)
                        if (i != slot)
                                snprintf(faults + strlen(faults), sizeof(faults) - strlen(faults),
                                         "%scorrupt:op=lookup,slot=%u", faults[0] == 0 ? "" : ";", i);
                if (faults[0] != 0)
                        lose(&sf, slot, &name);
                sf.options.faults = faults[0] != 0 ? faults : NULL;
                assert_int_equal(sf_open(&sf, false), 0);
                assert_true(sf_wait_health(&sf, is_in, NULL, 30));
                assert_int_equal(sf_complete(&sf, bucket, KEY, id, parts, 2), -EINVAL);
                assert_int_equal(sf_complete(&sf, bucket, KEY, id, parts, 1), 0);
                assert_int_equal(sf_get(&sf, 0, bucket, KEY, 7, 5000), 0);
                sf_close(&sf);
                start(&sf, -1);
        }
        sf_close(&sf);
        sf_remove(&sf);
}

/* ---- a drive that catches up ---------------------------------------------------------------- */

static bool is_left_alone(const struct eng_health *h, void *arg)
{
        unsigned slot = *(unsigned *)arg;

        return h->ready && (h->drives[slot].state == ENG_DRIVE_FAILED || h->drives[slot].state == ENG_DRIVE_IN);
}

/*
 * A drive comes back, with a name or without, that one member has lost while the other's cannot be
 * read: it is no member before that can.
 */
static void comes_back(bool with)
{
        unsigned holders[HOLDERS];
        struct eng_health health;
        struct eng_name name;
        char faults[64];
        uint64_t bucket;
        struct sf sf;

        make(&sf, 4, 2, 2, 300000, &bucket, &name, holders);
        so_move(&sf, holders[2], true);
        assert_int_equal(sf_open(&sf, false), 0);
        assert_true(sf_wait_health(&sf, so_can_read, NULL, 30));
        assert_int_equal(sf_put(&sf, 0, bucket, "other", 2, 300000, true, NULL), 0);
        sf_close(&sf);
        so_move(&sf, holders[2], false);
        lose(&sf, holders[0], &name);
        if (!with) /* as if it had been written meanwhile */
                lose(&sf, holders[2], &name);
        snprintf(faults, sizeof(faults), "corrupt:op=lookup,slot=%u", holders[1]);
        sf.options.faults = faults;
        assert_int_equal(sf_open(&sf, false), 0);
        assert_true(sf_wait_health(&sf, is_left_alone, &holders[2], 60));
        eng_health_read(sf.store, &health);
        assert_int_equal(health.drives[holders[2]].state, ENG_DRIVE_FAILED);
        sf_close(&sf);
        assert_int_equal(has_name(&sf, holders[2], &name), with);
        assert_whole(&sf, bucket, 1, 300000);
        assert_true(has_name(&sf, holders[0], &name) && has_name(&sf, holders[2], &name));
        sf_remove(&sf);
}

static void test_a_drive_that_has_it(void **state)
{
        comes_back(true);
}

/* Were it compared with the one that lost the name alone, the two would outvote the third. */
static void test_a_drive_that_never_had_it(void **state)
{
        comes_back(false);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_who_outvotes_whom),      cmocka_unit_test(test_one_of_two),
                cmocka_unit_test(test_overwritten_or_deleted), cmocka_unit_test(test_one_of_three),
                cmocka_unit_test(test_a_part_that_one_lost),
                cmocka_unit_test(test_a_drive_that_has_it),    cmocka_unit_test(test_a_drive_that_never_had_it),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
