/*
 * test_upgrade.c - a store of layout 1 is refused, untouched, unless it is to be upgraded; then it
 * is one of layout 2 for good.
 *
 * Layouts differ in nothing that a store of this build's could not have, but for FORMAT, so FORMAT
 * is set back here. What layout 1 really left on drives is in tests/formats/.
 */
#include <errno.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "engine/drive/identity.h"
#include "tests/lib/store_objects.h"

#include <setjmp.h>
#include <cmocka.h>

static void format_path(const struct sf *sf, unsigned drive, char path[256])
{
        snprintf(path, 256, "%s/FORMAT", sf->path[drive]);
}

static struct eng_identity read_format(const struct sf *sf, unsigned drive)
{
        struct eng_identity identity;
        enum eng_folder_state state;
        struct eng_error error;

        assert_int_equal(eng_folder_probe(sf->path[drive], &state, &identity, &error), 0);
        assert_int_equal(state, ENG_FOLDER_DRIVE);
        return identity;
}

static void set_back(const struct sf *sf, unsigned drive)
{
        struct eng_identity identity = read_format(sf, drive);
        char path[256], text[1024];
        size_t len;
        FILE *file;

        identity.layout = 1;
        len = eng_identity_print(&identity, text, sizeof(text));
        assert_null(strstr(text, "features"));
        format_path(sf, drive, path);
        file = fopen(path, "w");
        assert_non_null(file);
        assert_int_equal(fwrite(text, 1, len, file), len);
        fclose(file);
}

static void test_refused_without_a_word(void **state)
{
        struct so_expected e;
        uint64_t bucket;
        struct sf sf;
        unsigned i;

        so_begin(&sf, 4, &bucket, &e);
        sf_close(&sf);
        for (i = 0; i < 4; i++)
                set_back(&sf, i);
        assert_int_equal(sf_open(&sf, false), -EPROTO);
        assert_non_null(strstr(sf.error.text, "--upgrade"));
        assert_non_null(strstr(sf.error.text, sf.root));
        for (i = 0; i < 4; i++)
                assert_int_equal(read_format(&sf, i).layout, 1);
        sf.options.upgrade = true;
        assert_int_equal(sf_open(&sf, false), 0);
        assert_true(sf_wait_health(&sf, so_whole, NULL, 60));
        so_check(&sf, bucket, &e);
        so_change(&sf, bucket, &e, 0, 3);
        sf_close(&sf);
        for (i = 0; i < 4; i++)
                assert_int_equal(read_format(&sf, i).layout, FMT_LAYOUT_VERSION);
        sf.options.upgrade = false;
        assert_int_equal(sf_open(&sf, false), 0);
        assert_true(sf_wait_health(&sf, so_whole, NULL, 60));
        so_check(&sf, bucket, &e);
        sf_close(&sf);
        sf_remove(&sf);
}

/* A crash between two drives, or one that was away: the word was given, so the others follow. */
static void test_half_upgraded(void **state)
{
        struct so_expected e;
        uint64_t bucket;
        struct sf sf;

        so_begin(&sf, 4, &bucket, &e);
        sf_close(&sf);
        set_back(&sf, 0);
        set_back(&sf, 3);
        assert_int_equal(sf_open(&sf, false), 0);
        assert_true(sf_wait_health(&sf, so_whole, NULL, 60));
        so_check(&sf, bucket, &e);
        sf_close(&sf);
        assert_int_equal(read_format(&sf, 0).layout, FMT_LAYOUT_VERSION);
        assert_int_equal(read_format(&sf, 3).layout, FMT_LAYOUT_VERSION);
        sf_remove(&sf);
}

/* One of layout 1 comes back while the store serves. */
static void test_comes_back_later(void **state)
{
        struct so_expected e;
        uint64_t bucket;
        struct sf sf;

        so_begin(&sf, 4, &bucket, &e);
        sf_close(&sf);
        set_back(&sf, 0);
        so_move(&sf, 0, true);
        assert_int_equal(sf_open(&sf, false), 0);
        assert_true(sf_wait_ready(&sf, 60));
        so_change(&sf, bucket, &e, 1, 4);
        so_move(&sf, 0, false);
        assert_true(sf_wait_health(&sf, so_whole, NULL, 120));
        so_check(&sf, bucket, &e);
        sf_close(&sf);
        assert_int_equal(read_format(&sf, 0).layout, FMT_LAYOUT_VERSION);
        sf_remove(&sf);
}

/* A drive of layout 1 beside others that have versions says so before it holds any. */
static void test_gets_features(void **state)
{
        const struct eng_bucket_rules rules = {.versioning = ENG_VERSIONING_ENABLED};
        struct so_expected e;
        uint64_t bucket, other;
        struct sf sf;
        unsigned i;

        so_begin(&sf, 4, &bucket, &e);
        sf_close(&sf);
        set_back(&sf, 2);
        so_move(&sf, 2, true);
        assert_int_equal(sf_open(&sf, false), 0);
        assert_true(sf_wait_ready(&sf, 60));
        assert_int_equal(sf_bucket_with(&sf, "versions", &rules, &other), 0);
        so_move(&sf, 2, false);
        assert_true(sf_wait_health(&sf, so_whole, NULL, 60));
        sf_close(&sf);
        for (i = 0; i < 4; i++) {
                assert_int_equal(read_format(&sf, i).layout, FMT_LAYOUT_VERSION);
                assert_int_equal(read_format(&sf, i).features, FMT_FEATURE_VERSIONS);
        }
        set_back(&sf, 1); /* and at a start */
        assert_int_equal(sf_open(&sf, false), 0);
        assert_true(sf_wait_health(&sf, so_whole, NULL, 60));
        so_check(&sf, bucket, &e);
        sf_close(&sf);
        assert_int_equal(read_format(&sf, 1).features, FMT_FEATURE_VERSIONS);
        sf_remove(&sf);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_refused_without_a_word),
                cmocka_unit_test(test_half_upgraded),
                cmocka_unit_test(test_comes_back_later),
                cmocka_unit_test(test_gets_features),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
