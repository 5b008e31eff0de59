/*
 * A home store and its leader in one process: objects of all sizes, listings, uploads in parts,
 * configuration; drives that it does not reach or that began anew, answers that are lost, a lease that is
 * over; what a home may not say.
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

#include "engine/object/object.h"
#include "engine_home.h"
#include "tests/lib/home_fixture.h"
#include "tests/lib/store_objects.h"
#include "tests/lib/wait.h"

#define SMALL 3000u
#define LARGE (5u << 20)

static struct sf leader;
static struct hf hf;
static uint64_t bucket;

static int begin(void **state)
{
        sf_make(&leader, 5, 2);
        leader.options.inline_max = 16u << 10;
        leader.options.ec_k = leader.options.ec_m = 2;
        assert_int_equal(sf_open(&leader, true), 0);
        assert_true(sf_wait_ready(&leader, 20));
        assert_int_equal(sf_bucket(&leader, "bucket", &bucket), 0);
        hf_open(&hf, &leader, 2);
        return 0;
}

static int end(void **state)
{
        hf_close(&hf);
        sf_close(&leader);
        sf_remove(&leader);
        return 0;
}

static void test_objects(void **state)
{
        static const size_t sizes[] = {0, 1, SMALL, 16u << 10, (16u << 10) + 1, 100000, 1u << 20, LARGE};
        char key[32];
        unsigned i, loop;
        bool existed;

        for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
                for (loop = 0; loop < 2; loop++) {
                        snprintf(key, sizeof(key), "o/%u-%u", i, loop);
                        assert_int_equal(sf_put(&hf.home, loop, bucket, key, 7 * i + loop, sizes[i], i % 2 == 0, NULL), 0);
                        assert_int_equal(sf_get(&hf.home, 1 - loop, bucket, key, 7 * i + loop, sizes[i]), 0);
                        assert_int_equal(sf_get(&leader, loop, bucket, key, 7 * i + loop, sizes[i]), 0);
                }
        assert_int_equal(sf_put(&leader, 0, bucket, "o/3-1", 99, LARGE, true, NULL), 0);
        assert_int_equal(sf_get(&hf.home, 0, bucket, "o/3-1", 99, LARGE), 0);
        assert_int_equal(sf_delete(&hf.home, 0, bucket, "o/3-1", &existed), 0);
        assert_true(existed);
        assert_int_equal(sf_get(&leader, 0, bucket, "o/3-1", 99, LARGE), -ENOENT);
        assert_int_equal(sf_get(&hf.home, 0, bucket, "o/3-1", 99, LARGE), -ENOENT);
        assert_int_equal(atomic_load(&hf.pins), 0);
}

static void test_conditions(void **state)
{
        const struct eng_condition absent = {.if_absent = true}, present = {.if_present = true};

        assert_int_equal(sf_put(&hf.home, 0, bucket, "c", 1, SMALL, true, &present), -ENOENT);
        assert_int_equal(sf_put(&hf.home, 0, bucket, "c", 1, LARGE, true, &absent), 0);
        assert_int_equal(sf_put(&hf.home, 0, bucket, "c", 2, LARGE, true, &absent), -EEXIST);
        assert_int_equal(sf_get(&leader, 0, bucket, "c", 1, LARGE), 0);
        assert_int_equal(sf_put(&hf.home, 0, bucket + 1, "c", 2, SMALL, true, NULL), -EIDRM);
}

static void same_list(const char *prefix, const char *delimiter, const char *after, unsigned max)
{
        bool more, more_there;
        int rv, rv_there;
        char *here = sf_list(&hf.home, 1, bucket, prefix, delimiter, after, max, &rv, &more);
        char *there = sf_list(&leader, 0, bucket, prefix, delimiter, after, max, &rv_there, &more_there);

        assert_int_equal(rv, 0);
        assert_int_equal(rv_there, 0);
        assert_int_equal(more, more_there);
        assert_string_equal(here, there);
        free(here);
        free(there);
}

static void test_lists(void **state)
{
        char key[1000];
        unsigned i;

        memset(key, 'k', sizeof(key)); /* long names: a page takes more than one answer */
        for (i = 0; i < 1200; i++) {
                snprintf(key, 16, "l/%u/%04u", i % 7, i);
                key[strlen(key)] = 'k';
                key[990] = 0;
                assert_int_equal(sf_put(i % 2 == 0 ? &hf.home : &leader, i % 2, bucket, key, i, 10, true, NULL), 0);
        }
        same_list("l/", "", "", 1001);
        same_list("l/", "/", "", 1001);
        same_list("l/", "/", "l/3/", 3);
        same_list("l/4", "", "l/4/0300", 50);
        same_list("", "", "", 1);
        same_list("nothing", "", "", 100);
        same_list("", "/", "", 1000);
}

static void test_uploads(void **state)
{
        uint8_t id[ENG_ID_LEN];
        struct eng_complete_part parts[3];
        unsigned i;

        assert_int_equal(sf_upload(&hf.home, bucket, "u", id), 0);
        for (i = 0; i < 3; i++) {
                parts[i].number = i + 1;
                assert_int_equal(sf_part(i == 1 ? &leader : &hf.home, 0, bucket, "u", id, i + 1, 5, i * (size_t)LARGE, LARGE, parts[i].id), 0);
        }
        assert_int_equal(sf_complete(&hf.home, bucket, "u", id, parts, 3), 0);
        assert_int_equal(sf_complete(&hf.home, bucket, "u", id, parts, 3), 0); /* repeated */
        assert_int_equal(sf_get(&hf.home, 0, bucket, "u", 5, 3 * (size_t)LARGE), 0);
        assert_int_equal(sf_get(&leader, 0, bucket, "u", 5, 3 * (size_t)LARGE), 0);
        assert_int_equal(sf_upload(&hf.home, bucket, "u2", id), 0);
        assert_int_equal(sf_upload_abort(&hf.home, bucket, "u2", id), 0);
        assert_int_equal(sf_complete(&hf.home, bucket, "u2", id, parts, 3), -ENOENT);
}

/* What the leader has, and changes that homes have asked for. */
static void test_configuration(void **state)
{
        struct eng_bucket_rules rules = {.versioning = ENG_VERSIONING_ENABLED}, seen;
        struct eng_text *text;
        uint64_t other, gone;

        assert_int_equal(sf_bucket(&leader, "other", &other), 0);
        assert_int_equal(sf_bucket(&leader, "gone", &gone), 0);
        assert_int_equal(sf_text_set(&leader, 0, other, 3, 0, "text", 4), 0);
        assert_int_equal(sf_text_set(&leader, 0, 12345, 200, 0, "entry", 5), 0);
        hf_follow(&hf);
        assert_int_equal(sf_text(&hf.home, 1, other, 3, &text), 0);
        assert_int_equal(eng_text_bytes(text).len, 4);
        eng_text_unref(text);
        assert_int_equal(sf_text(&hf.home, 0, 12345, 200, &text), 0);
        eng_text_unref(text);
        assert_int_equal(sf_rules_set(&hf.home, 0, other, &rules), 0);
        assert_int_equal(sf_text_set(&hf.home, 1, other, 3, ENG_TEXT_ANY, "longer text", 11), 0);
        assert_int_equal(sf_text_set(&hf.home, 1, other, 3, 1, "x", 1), -ESTALE);
        assert_int_equal(sf_text_delete(&hf.home, 0, 12345, 200, ENG_TEXT_ANY), 0);
        assert_int_equal(sf_bucket_delete(&hf.home, "gone"), 0);
        hf_follow(&hf);
        assert_int_equal(sf_rules(&hf.home, 1, "other", &seen), 0);
        assert_int_equal(seen.versioning, ENG_VERSIONING_ENABLED);
        assert_int_equal(sf_text(&hf.home, 0, other, 3, &text), 0);
        assert_int_equal(eng_text_bytes(text).len, 11);
        eng_text_unref(text);
        assert_int_equal(sf_text(&hf.home, 0, 12345, 200, &text), -ENOENT);
        assert_int_equal(sf_rules(&hf.home, 0, "gone", &seen), -ENOENT);
        assert_int_equal(sf_rules(&leader, 0, "gone", &seen), -ENOENT);
        /* a bucket of the same name is another */
        assert_int_equal(sf_bucket_delete(&leader, "other"), 0);
        assert_int_equal(sf_bucket(&leader, "other", &gone), 0);
        hf_follow(&hf);
        assert_int_equal(sf_text(&hf.home, 0, other, 3, &text), -EIDRM);
        assert_int_equal(sf_text(&hf.home, 0, gone, 3, &text), -ENOENT);
}

/* All rows anew, as from a leader that has just begun: what is gone meanwhile goes here, too. */
static void test_all_rows_anew(void **state)
{
        struct eng_bucket_rules seen;
        struct eng_text *text;
        uint64_t id, kept;
        char name[16];
        unsigned i;

        assert_int_equal(sf_bucket(&leader, "kept", &kept), 0);
        assert_int_equal(sf_text_set(&leader, 0, 777, 222, 0, "entry", 5), 0);
        assert_int_equal(sf_text_set(&leader, 0, 778, 222, 0, "entry", 5), 0);
        for (i = 0; i < 5; i++) {
                snprintf(name, sizeof(name), "many-%u", i);
                assert_int_equal(sf_bucket(&leader, name, &id), 0);
                assert_int_equal(sf_text_set(&leader, 0, id, 1, 0, leader.root, sizeof(leader.root)), 0);
        }
        hf_follow(&hf);
        assert_int_equal(sf_bucket_delete(&leader, "many-3"), 0);
        assert_int_equal(sf_text_delete(&leader, 0, 777, 222, ENG_TEXT_ANY), 0);
        memset(hf.reading, 0, sizeof(*hf.reading));
        hf.reading->version = UINT64_MAX;
        hf_follow(&hf);
        assert_int_equal(sf_rules(&hf.home, 1, "many-3", &seen), -ENOENT);
        assert_int_equal(sf_rules(&hf.home, 1, "many-4", &seen), 0);
        assert_int_equal(sf_rules(&hf.home, 0, "kept", &seen), 0);
        assert_int_equal(sf_text(&hf.home, 0, 777, 222, &text), -ENOENT);
        assert_int_equal(sf_text(&hf.home, 0, 778, 222, &text), 0);
        eng_text_unref(text);
}

/* Shards that it could not write are given back by the leader. */
static void test_drive_not_reached(void **state)
{
        struct eng_verify_report report;
        unsigned i;

        atomic_store(&hf.unreached, 1u << 1);
        for (i = 0; i < 4; i++)
                assert_int_equal(sf_put(&hf.home, i % 2, bucket, i % 2 == 0 ? "r0" : "r1", i, LARGE, true, NULL), 0);
        assert_int_equal(sf_get(&hf.home, 0, bucket, "r0", 2, LARGE), 0);
        assert_int_equal(sf_get(&hf.home, 0, bucket, "r1", 3, LARGE), 0);
        assert_true(sf_wait_health(&leader, so_whole, NULL, 60));
        so_verify(&leader, &report);
        assert_int_equal(report.missing_shards, 0);
        atomic_store(&hf.unreached, 0);
        for (i = 0; i < 100 * WAIT_MOST && (sf_view(&hf.home).up & 2) == 0; i++)
                usleep(10000);
        assert_true((sf_view(&hf.home).up & 2) != 0);
        assert_int_equal(sf_put(&hf.home, 0, bucket, "r2", 9, LARGE, true, NULL), 0);
        assert_int_equal(sf_get(&hf.home, 0, bucket, "r2", 9, LARGE), 0);
}

/* Too few drives are reached for k + 1 shards: nothing is made. */
static void test_too_few_reached(void **state)
{
        atomic_store(&hf.unreached, 7);
        assert_int_not_equal(sf_put(&hf.home, 0, bucket, "few", 1, LARGE, true, NULL), 0);
        assert_int_equal(sf_get(&leader, 0, bucket, "few", 1, LARGE), -ENOENT);
        assert_int_equal(sf_put(&hf.home, 0, bucket, "few", 1, SMALL, true, NULL), 0); /* its bytes go to the leader */
        atomic_store(&hf.unreached, 0);
}

static void test_outcome_unknown(void **state)
{
        unsigned i;

        for (i = 0; i < 100 * WAIT_MOST && sf_view(&hf.home).up != 31; i++)
                usleep(10000);
        atomic_store(&hf.lose_answers, true);
        assert_int_equal(sf_put(&hf.home, 0, bucket, "lost", 1, LARGE, true, NULL), -EHOSTDOWN);
        assert_int_equal(sf_get(&hf.home, 0, bucket, "lost", 1, LARGE), -EHOSTDOWN);
        atomic_store(&hf.lose_answers, false);
        assert_int_equal(sf_get(&leader, 0, bucket, "lost", 1, LARGE), 0); /* its shards were not discarded */
        atomic_store(&hf.cut, true);
        assert_int_equal(sf_put(&hf.home, 0, bucket, "cut", 1, LARGE, true, NULL), -EHOSTDOWN);
        atomic_store(&hf.cut, false);
        assert_int_equal(sf_get(&leader, 0, bucket, "cut", 1, LARGE), -ENOENT);
        assert_int_equal(sf_get(&hf.home, 0, bucket, "lost", 1, LARGE), 0);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(test_objects, begin, end),
                cmocka_unit_test_setup_teardown(test_conditions, begin, end),
                cmocka_unit_test_setup_teardown(test_lists, begin, end),
                cmocka_unit_test_setup_teardown(test_uploads, begin, end),
                cmocka_unit_test_setup_teardown(test_configuration, begin, end),
                cmocka_unit_test_setup_teardown(test_all_rows_anew, begin, end),
                cmocka_unit_test_setup_teardown(test_drive_not_reached, begin, end),
                cmocka_unit_test_setup_teardown(test_too_few_reached, begin, end),
                cmocka_unit_test_setup_teardown(test_outcome_unknown, begin, end),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
