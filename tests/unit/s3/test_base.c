/*
 * test_base.c - s3/str.c, s3/errors.c, s3/bucket_name.c: strings, UTF-8, numbers, the table of
 * errors, bucket names.
 */
#include "tests/unit/s3/s3_fixture.h"

static void test_strings(void **state)
{
        assert_true(s3_str_eq(S3_STR("abc"), s3_str_of("abc")));
        assert_false(s3_str_eq(S3_STR("abc"), S3_STR("abd")));
        assert_false(s3_str_eq(S3_STR("abc"), S3_STR("ab")));
        assert_true(s3_str_eq(s3_str_of(NULL), S3_STR("")));
        assert_true(s3_str_eq_nocase(S3_STR("X-Amz-Date"), S3_STR("x-amz-DATE")));
        assert_false(s3_str_eq_nocase(S3_STR("a["), S3_STR("a{")));
        assert_true(s3_str_starts(S3_STR("prefix-rest"), S3_STR("prefix")));
        assert_false(s3_str_starts(S3_STR("pre"), S3_STR("prefix")));
        assert_true(s3_str_starts(S3_STR("x"), s3_str_of(NULL)));
        assert_true(s3_str_starts_nocase(S3_STR("BYTES=1-2"), S3_STR("bytes=")));
        expect_str(s3_str_trim(S3_STR(" \t a b\t ")), "a b");
        expect_str(s3_str_trim(S3_STR(" \t ")), "");
        expect_str(s3_str_trim(S3_STR("")), "");
}

static void test_parse_uint(void **state)
{
        uint64_t n = 7;

        assert_int_equal(s3_parse_uint(S3_STR("0"), 10, &n), 0);
        assert_int_equal(n, 0);
        assert_int_equal(s3_parse_uint(S3_STR("18446744073709551615"), UINT64_MAX, &n), 0);
        assert_true(n == UINT64_MAX);
        assert_int_equal(s3_parse_uint(S3_STR("18446744073709551616"), UINT64_MAX, &n), -ERANGE);
        assert_int_equal(s3_parse_uint(S3_STR("99999999999999999999999999"), UINT64_MAX, &n), -ERANGE);
        assert_int_equal(s3_parse_uint(S3_STR("11"), 10, &n), -ERANGE);
        assert_int_equal(s3_parse_uint(S3_STR("007"), 10, &n), 0);
        assert_int_equal(n, 7);
        assert_int_equal(s3_parse_uint(S3_STR(""), 10, &n), -EINVAL);
        assert_int_equal(s3_parse_uint(S3_STR("-1"), 10, &n), -EINVAL);
        assert_int_equal(s3_parse_uint(S3_STR("+1"), 10, &n), -EINVAL);
        assert_int_equal(s3_parse_uint(S3_STR(" 1"), 10, &n), -EINVAL);
        assert_int_equal(s3_parse_uint(S3_STR("99999999999999999999999x"), 10, &n), -EINVAL);
}

static void test_utf8(void **state)
{
        static const char *const good[] = {"",
                                           "ascii",
                                           "\xc2\x80",
                                           "\xdf\xbf",
                                           "\xe0\xa0\x80",
                                           "\xed\x9f\xbf",
                                           "\xee\x80\x80",
                                           "\xef\xbf\xbf",
                                           "\xf0\x90\x80\x80",
                                           "\xf4\x8f\xbf\xbf",
                                           "a\xc3\xa9z\xe2\x82\xac\xf0\x9f\x98\x80"};
        static const char *const bad[] = {"\x80",
                                          "\xbf",
                                          "\xc0\x80",
                                          "\xc1\xbf",
                                          "\xc2",
                                          "\xc2\x41",
                                          "\xe0\x9f\xbf",
                                          "\xe0\xa0",
                                          "\xed\xa0\x80",
                                          "\xed\xbf\xbf",
                                          "\xe2\x82",
                                          "\xe2\x82\x41",
                                          "\xf0\x8f\xbf\xbf",
                                          "\xf0\x90\x80",
                                          "\xf4\x90\x80\x80",
                                          "\xf5\x80\x80\x80",
                                          "\xff",
                                          "ok\xfe",
                                          "\xf8\x88\x80\x80\x80"};

        for (size_t i = 0; i < COUNT(good); i++) {
                struct s3_str s = heap_copy(good[i], strlen(good[i]));

                assert_true(s3_utf8_valid(s));
                heap_free(s);
        }
        for (size_t i = 0; i < COUNT(bad); i++) {
                struct s3_str s = heap_copy(bad[i], strlen(bad[i]));

                if (s3_utf8_valid(s))
                        fail_msg("bad[%zu] passed", i);
                heap_free(s);
        }
        assert_true(s3_utf8_valid((struct s3_str){"a\0b", 3}));
}

static void test_error_table(void **state)
{
        for (unsigned i = S3_OK + 1; i < S3_ERROR_COUNT; i++) {
                const struct s3_error_info *info = s3_error_info((enum s3_error)i);

                assert_true(strlen(info->code) > 0 && strlen(info->message) > 0);
                assert_true(info->status == 304 || (info->status >= 400 && info->status <= 599));
                assert_int_equal(s3_error_by_code(s3_str_of(info->code)), i);
        }
        assert_int_equal(s3_error_info(S3_OK)->status, 200);
        assert_string_equal(s3_error_info(S3_ERR_NO_SUCH_KEY)->code, "NoSuchKey");
        assert_int_equal(s3_error_info(S3_ERR_NO_SUCH_KEY)->status, 404);
        assert_int_equal(s3_error_info(S3_ERR_SLOW_DOWN)->status, 503);
        assert_int_equal(s3_error_info(S3_ERR_INVALID_RANGE)->status, 416);
        assert_int_equal(s3_error_by_code(S3_STR("NeverHeardOf")), S3_ERR_INTERNAL_ERROR);
        assert_string_equal(s3_error_info((enum s3_error)9999)->code, "InternalError");
}

static void test_bucket_names(void **state)
{
        static const char *const good[] = {
                "abc",       "a.b",
                "a-b",       "my.bucket-1",
                "123",       "1.2.3",
                "1.2.3.4.5", "a.1.2.3",
                "x-n--y",    "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcde"};
        static const char *const bad[] = {"",
                                          "a",
                                          "ab",
                                          "Abc",
                                          "a_b",
                                          "-ab",
                                          "ab-",
                                          ".ab",
                                          "ab.",
                                          "a..b",
                                          "192.168.5.4",
                                          "999.999.999.999",
                                          "a b",
                                          "a/b",
                                          "a\xc3\xa9z",
                                          "xn--abc",
                                          "sthree-abc",
                                          "sthree-configurator",
                                          "amzn-s3-demo-x",
                                          "abc-s3alias",
                                          "abc--ol-s3",
                                          "abc.mrap",
                                          "abc--x-s3",
                                          "abc--table-s3",
                                          "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"};

        for (size_t i = 0; i < COUNT(good); i++)
                if (!s3_bucket_name_valid(s3_str_of(good[i])))
                        fail_msg("refused: %s", good[i]);
        for (size_t i = 0; i < COUNT(bad); i++)
                if (s3_bucket_name_valid(s3_str_of(bad[i])))
                        fail_msg("taken: %s", bad[i]);
        assert_false(s3_bucket_name_valid((struct s3_str){"ab\0c", 4}));
}

/* Labels are looked at where a bucket is made, not where one that was made before is named. */
static void test_bucket_labels(void **state)
{
        static const char *const odd[] = {"a.-b", "a-.b", "foo.-bar", "a.b-.c"};

        for (size_t i = 0; i < COUNT(odd); i++) {
                assert_true(s3_bucket_name_valid(s3_str_of(odd[i])));
                assert_false(s3_bucket_name_creatable(s3_str_of(odd[i])));
        }
        assert_true(s3_bucket_name_creatable(S3_STR("a.b-c.d--e")));
        assert_false(s3_bucket_name_creatable(S3_STR("a..b")));
        assert_false(s3_bucket_name_creatable(S3_STR("")));
}

static void test_regions(void **state)
{
        static const char *const none[] = {"", "us", "us-east", "us-east-11", "US-EAST-1", "eu", "nowhere"};

        assert_true(s3_region_known(S3_STR("us-east-1")));
        assert_true(s3_region_known(S3_STR("cn-northwest-1")));
        assert_true(s3_region_known(S3_STR("EU")));
        for (size_t i = 0; i < COUNT(none); i++)
                assert_false(s3_region_known(s3_str_of(none[i])));
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_strings),     cmocka_unit_test(test_parse_uint),   cmocka_unit_test(test_utf8),
                cmocka_unit_test(test_error_table), cmocka_unit_test(test_bucket_names),
                cmocka_unit_test(test_bucket_labels), cmocka_unit_test(test_regions),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
