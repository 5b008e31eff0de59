/*
 * test_step.c - where time goes: after PUTs and GETs, each step and each operation of a drive was
 * counted as often as it happened.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/drive/drive.h"
#include "tests/lib/store_fixture.h"

#define DRIVES  4u
#define SMALL   4096u
#define LARGE   ((5u << 20) + 12345u)
#define STRIPES 3u /* of a large one: 2 data units of 1 MiB each, the last ones shorter */
#define DATA    2u
#define PARITY  2u
#define MEMBERS 3u /* of a group of metadata */

struct counts {
        uint64_t step[ENG_STEPS], drive[ENG_DRIVE_STEPS]; /* drive: of all */
};

static void begin(struct sf *sf, uint64_t *bucket)
{
        sf_make(sf, DRIVES, 2);
        assert_int_equal(sf_open(sf, true), 0);
        assert_true(sf_wait_ready(sf, 20));
        assert_int_equal(sf_bucket(sf, "bucket", bucket), 0);
}

static struct counts count(const struct sf *sf)
{
        struct lp_histogram steps[ENG_STEPS], drive[ENG_DRIVE_STEPS];
        struct counts out = {0};
        unsigned i, slot;

        eng_steps_read(sf->store, steps);
        for (i = 0; i < ENG_STEPS; i++)
                out.step[i] = lp_histogram_count(&steps[i]);
        for (slot = 0; slot < DRIVES; slot++) {
                eng_drive_steps_read(sf->store, slot, drive);
                for (i = 0; i < ENG_DRIVE_STEPS; i++)
                        out.drive[i] += lp_histogram_count(&drive[i]);
        }
        return out;
}

/* Since before. */
static struct counts grown(const struct sf *sf, const struct counts *before)
{
        struct counts out = count(sf);
        unsigned i;

        for (i = 0; i < ENG_STEPS; i++)
                out.step[i] -= before->step[i];
        for (i = 0; i < ENG_DRIVE_STEPS; i++)
                out.drive[i] -= before->drive[i];
        return out;
}

static void test_small_objects(void **state)
{
        struct counts before, now;
        uint64_t bucket;
        struct sf sf;
        char key[16];
        unsigned i;

        begin(&sf, &bucket);
        before = count(&sf);
        for (i = 0; i < 6; i++) {
                snprintf(key, sizeof(key), "small%u", i);
                assert_int_equal(sf_put(&sf, i % 2, bucket, key, i, SMALL, true, NULL), 0);
        }
        now = grown(&sf, &before);
        assert_int_equal(now.step[ENG_STEP_KEY], 6);
        assert_int_equal(now.step[ENG_STEP_RECORD], 6);
        assert_int_equal(now.step[ENG_STEP_MD5], 6);
        assert_int_equal(now.step[ENG_STEP_BUFFERS], 0);
        assert_int_equal(now.step[ENG_STEP_PARITY], 0);
        assert_int_equal(now.drive[ENG_OP_APPEND], 6 * MEMBERS);
        assert_int_equal(now.drive[ENG_OP_COMMIT], 6 * MEMBERS);
        assert_int_equal(now.drive[ENG_DRIVE_LOG_WAIT], 6 * MEMBERS);
        assert_true(now.drive[ENG_DRIVE_LOG_WRITE] >= MEMBERS);
        before = count(&sf);
        for (i = 0; i < 6; i++) {
                snprintf(key, sizeof(key), "small%u", i);
                assert_int_equal(sf_get(&sf, i % 2, bucket, key, i, SMALL), 0);
        }
        now = grown(&sf, &before);
        assert_int_equal(now.step[ENG_STEP_LOOKUP], 6);
        assert_int_equal(now.drive[ENG_OP_LOOKUP], 6);
        assert_int_equal(now.step[ENG_STEP_READ], 0);
        assert_int_equal(now.step[ENG_STEP_BUFFERS], 0);
        assert_int_equal(now.step[ENG_STEP_RECORD], 0);
        sf_close(&sf);
        sf_remove(&sf);
}

/*
 * Both are read; again where a read was so late that others were begun for it,
 * or a drive so slow that it was read last.
 */
static struct counts read_both(struct sf *sf, uint64_t bucket)
{
        struct counts before, now;
        uint64_t extra;
        unsigned tries = 0;

        do {
                usleep(tries == 0 ? 0 : 100000); /* what was late comes back */
                extra = atomic_load(&sf->store->hedged_reads);
                before = count(sf);
                assert_int_equal(sf_get(sf, 0, bucket, "large0", 1, LARGE), 0);
                assert_int_equal(sf_get(sf, 1, bucket, "large1", 2, LARGE), 0);
                now = grown(sf, &before);
        } while ((atomic_load(&sf->store->hedged_reads) != extra || now.step[ENG_STEP_REBUILD] != 0) && ++tries < 50);
        return now;
}

static void test_large_objects(void **state)
{
        struct counts before, now;
        uint64_t bucket;
        struct sf sf;

        begin(&sf, &bucket);
        before = count(&sf);
        assert_int_equal(sf_put(&sf, 0, bucket, "large0", 1, LARGE, true, NULL), 0);
        assert_int_equal(sf_put(&sf, 1, bucket, "large1", 2, LARGE, true, NULL), 0);
        now = grown(&sf, &before);
        assert_int_equal(now.step[ENG_STEP_BUFFERS], 2);
        assert_int_equal(now.step[ENG_STEP_PARITY], 2 * STRIPES * DATA);
        assert_int_equal(now.step[ENG_STEP_WRITE], 2);
        assert_int_equal(now.step[ENG_STEP_SYNC], 2);
        assert_int_equal(now.step[ENG_STEP_RECORD], 2);
        assert_true(now.step[ENG_STEP_MD5] >= 2);
        assert_int_equal(now.drive[ENG_OP_WRITE], 2 * STRIPES * (DATA + PARITY));
        assert_int_equal(now.drive[ENG_DRIVE_CHECKSUM], 2 * STRIPES * (DATA + PARITY));
        assert_int_equal(now.drive[ENG_OP_SYNC], 2 * DRIVES);
        assert_true(now.drive[ENG_DRIVE_DATA_FLUSH] >= DRIVES);
        now = read_both(&sf, bucket);
        assert_int_equal(now.step[ENG_STEP_LOOKUP], 2);
        assert_int_equal(now.step[ENG_STEP_BUFFERS], 2);
        assert_int_equal(now.step[ENG_STEP_READ], 2 * STRIPES);
        assert_int_equal(now.step[ENG_STEP_REBUILD], 0);
        assert_int_equal(now.drive[ENG_OP_READ], 2 * STRIPES * DATA);
        assert_int_equal(now.drive[ENG_DRIVE_CHECKSUM], 2 * STRIPES * DATA);
        sf_close(&sf);
        sf_remove(&sf);
}

#define OBJECTS 12u

/*
 * Two drives away: of four shards of each stripe the two that are left are read, and where these
 * aren't just the data, the rest of it is computed. (That they are for all objects has a chance of
 * 1 in 6 to the 12th.)
 */
static void test_rebuilt_stripes(void **state)
{
        struct counts before, now;
        char away[256], key[16];
        uint64_t bucket;
        struct sf sf;
        unsigned i;

        begin(&sf, &bucket);
        for (i = 0; i < OBJECTS; i++) {
                snprintf(key, sizeof(key), "large%u", i);
                assert_int_equal(sf_put(&sf, 0, bucket, key, i, LARGE, true, NULL), 0);
        }
        sf_close(&sf);
        for (i = 0; i < 2; i++) {
                snprintf(away, sizeof(away), "%s.away", sf.path[i]);
                assert_int_equal(rename(sf.path[i], away), 0);
        }
        assert_int_equal(sf_open(&sf, false), 0);
        assert_true(sf_wait_ready(&sf, 20));
        before = count(&sf);
        for (i = 0; i < OBJECTS; i++) {
                snprintf(key, sizeof(key), "large%u", i);
                assert_int_equal(sf_get(&sf, 0, bucket, key, i, LARGE), 0);
        }
        now = grown(&sf, &before);
        assert_true(now.step[ENG_STEP_REBUILD] > 0);
        assert_true(now.step[ENG_STEP_REBUILD] <= OBJECTS * STRIPES);
        assert_int_equal(now.step[ENG_STEP_READ], OBJECTS * STRIPES);
        assert_int_equal(now.drive[ENG_OP_READ], OBJECTS * STRIPES * DATA);
        sf_close(&sf);
        for (i = 0; i < 2; i++) {
                snprintf(away, sizeof(away), "%s.away", sf.path[i]);
                assert_int_equal(rename(away, sf.path[i]), 0);
        }
        sf_remove(&sf);
}

/* What drives have answered is what they count themselves. */
static bool all_are_counted(const struct eng_health *h, void *arg)
{
        struct lp_histogram drive[ENG_DRIVE_STEPS];
        const struct sf *sf = arg;
        unsigned slot, kind;
        bool same = true;

        for (slot = 0; slot < h->drive_count; slot++) {
                uint64_t ops = 0;

                eng_drive_steps_read(sf->store, slot, drive);
                for (kind = 0; kind < ENG_OP_KINDS; kind++)
                        ops += lp_histogram_count(&drive[kind]);
                same &= ops == h->drives[slot].ops;
        }
        return same;
}

static void test_every_operation_is_counted(void **state)
{
        uint64_t bucket;
        struct sf sf;
        bool existed;

        begin(&sf, &bucket);
        assert_int_equal(sf_put(&sf, 0, bucket, "small", 1, SMALL, true, NULL), 0);
        assert_int_equal(sf_put(&sf, 1, bucket, "large", 2, LARGE, true, NULL), 0);
        assert_int_equal(sf_get(&sf, 0, bucket, "large", 2, LARGE), 0);
        assert_int_equal(sf_delete(&sf, 1, bucket, "large", &existed), 0);
        assert_true(sf_wait_health(&sf, all_are_counted, &sf, 30));
        sf_close(&sf);
        sf_remove(&sf);
}

static void test_names(void **state)
{
        unsigned i, j;

        for (i = 0; i < ENG_STEPS; i++) {
                assert_non_null(eng_step_stage(i));
                for (j = 0; j < i; j++)
                        assert_true(strcmp(eng_step_stage(i), eng_step_stage(j)) != 0 ||
                                    strcmp(eng_step_name(i), eng_step_name(j)) != 0);
        }
        for (i = 0; i < ENG_DRIVE_STEPS; i++)
                for (j = 0; j < i; j++)
                        assert_string_not_equal(eng_drive_step_name(i), eng_drive_step_name(j));
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_small_objects),   cmocka_unit_test(test_large_objects),
                cmocka_unit_test(test_rebuilt_stripes), cmocka_unit_test(test_every_operation_is_counted),
                cmocka_unit_test(test_names),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
