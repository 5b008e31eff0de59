/*
 * test_request.c - s3/range.c, s3/copy_source.c, s3/cond.c: what a request asks of an object.
 */
#include "tests/unit/s3/s3_fixture.h"

/* ---- ranges ---------------------------------------------------------------------------------- */

#define WHOLE UINT64_MAX /* stands for "no range": all of it */

static void test_ranges(void **state)
{
        static const struct {
                const char *value;
                uint64_t size, offset, len; /* len 0: unsatisfiable */
        } cases[] = {
                {"bytes=0-9", 100, 0, 10},
                {"bytes=10-19", 100, 10, 10},
                {"bytes=0-0", 100, 0, 1},
                {"bytes=99-99", 100, 99, 1},
                {"bytes=90-1000", 100, 90, 10},
                {"bytes=0-18446744073709551615", 100, 0, 100},
                {"bytes=0-99999999999999999999999999", 100, 0, 100},
                {"bytes=99-", 100, 99, 1},
                {"bytes=0-", 100, 0, 100},
                {"bytes=-1", 100, 99, 1},
                {"bytes=-100", 100, 0, 100},
                {"bytes=-1000", 100, 0, 100},
                {"bytes=-99999999999999999999999999", 100, 0, 100},
                {"BYTES=1-2", 100, 1, 2},
                {" bytes=1-2 ", 100, 1, 2},
                {"bytes=1-2 ", 100, 1, 2},
                {"bytes= 1-2", 100, 0, WHOLE},
                {"bytes=1 -2", 100, 0, WHOLE},
                {"bytes=1- 2", 100, 0, WHOLE},
                {"bytes= -1", 100, 0, WHOLE},
                {"bytes=100-", 100, 0, 0},
                {"bytes=100-200", 100, 0, 0},
                {"bytes=99999999999999999999999999-", 100, 0, 0},
                {"bytes=-0", 100, 0, 0},
                {"bytes=0-", 0, 0, 0},
                {"bytes=0-0", 0, 0, 0},
                {"bytes=-0", 0, 0, 0},
                {"bytes=9-0", 100, 0, WHOLE},
                {"bytes=", 100, 0, WHOLE},
                {"bytes=-", 100, 0, WHOLE},
                {"bytes=a-b", 100, 0, WHOLE},
                {"bytes=1-b", 100, 0, WHOLE},
                {"bytes=5", 100, 0, WHOLE},
                {"bytes=0-1,5-6", 100, 0, WHOLE},
                {"bytes=0-1,", 100, 0, WHOLE},
                {"bytes=--1", 100, 0, WHOLE},
                {"bytes=1--1", 100, 0, WHOLE},
                {"bytes=0x1-2", 100, 0, WHOLE},
                {"bytes 0-9", 100, 0, WHOLE},
                {"items=0-9", 100, 0, WHOLE},
                {"", 100, 0, WHOLE},
                {"0-9", 100, 0, WHOLE},
        };

        for (size_t i = 0; i < COUNT(cases); i++) {
                struct s3_str copy = heap_copy(cases[i].value, strlen(cases[i].value));
                struct s3_range range = s3_range_parse(copy);
                uint64_t offset = 7, len = 7;
                enum s3_error error = s3_range_resolve(&range, cases[i].size, &offset, &len);

                heap_free(copy);
                if (error != (cases[i].len == 0 ? S3_ERR_INVALID_RANGE : S3_OK))
                        fail_msg("%s of %d: %s", cases[i].value, (int)cases[i].size, s3_error_info(error)->code);
                if (error != S3_OK)
                        continue;
                assert_int_equal(range.form == S3_RANGE_NONE, cases[i].len == WHOLE);
                assert_true(offset == cases[i].offset);
                assert_true(len == (cases[i].len == WHOLE ? cases[i].size : cases[i].len));
        }
}

/* No range means the whole object even if that is empty. */
static void test_no_range(void **state)
{
        struct s3_range range = s3_range_parse(s3_str_of(NULL));
        uint64_t offset, len;

        assert_int_equal(s3_range_resolve(&range, 0, &offset, &len), S3_OK);
        assert_true(offset == 0 && len == 0);
}

static void test_extreme_ranges(void **state)
{
        struct s3_range range = s3_range_parse(S3_STR("bytes=0-18446744073709551615"));
        uint64_t offset, len;

        assert_int_equal(s3_range_resolve(&range, UINT64_MAX, &offset, &len), S3_OK);
        assert_true(offset == 0 && len == UINT64_MAX);
        range = s3_range_parse(S3_STR("bytes=1-18446744073709551614"));
        assert_int_equal(s3_range_resolve(&range, UINT64_MAX, &offset, &len), S3_OK);
        assert_true(offset == 1 && len == UINT64_MAX - 1);
}

static void test_copy_ranges(void **state)
{
        static const char *const bad[] = {"",
                                          "bytes=",
                                          "bytes=0-",
                                          "bytes=-5",
                                          "bytes=5-4",
                                          "bytes=a-b",
                                          "0-5",
                                          "Bytes=0-5",
                                          "bytes=0-5,7-8",
                                          "bytes= 0-5",
                                          "bytes=0-99999999999999999999"};
        struct s3_range range;
        uint64_t offset, len;

        for (size_t i = 0; i < COUNT(bad); i++)
                if (s3_copy_range_parse(s3_str_of(bad[i]), &range) != S3_ERR_INVALID_ARGUMENT)
                        fail_msg("taken: %s", bad[i]);
        assert_int_equal(s3_copy_range_parse(S3_STR("bytes=5-9"), &range), S3_OK);
        assert_int_equal(s3_copy_range_resolve(&range, 10, &offset, &len), S3_OK);
        assert_true(offset == 5 && len == 5);
        assert_int_equal(s3_copy_range_resolve(&range, 9, &offset, &len), S3_ERR_INVALID_ARGUMENT);
        assert_int_equal(s3_copy_range_resolve(&range, 0, &offset, &len), S3_ERR_INVALID_ARGUMENT);
}

/* ---- copy sources ---------------------------------------------------------------------------- */

static struct s3_copy_source source;

static enum s3_error parse_source(const char *value)
{
        struct s3_str copy = heap_copy(value, strlen(value));
        enum s3_error error = s3_copy_source_parse(copy, &source);

        heap_free(copy);
        return error;
}

static void expect_source(const char *value, const char *bucket, const char *key, const char *version)
{
        enum s3_error error = parse_source(value);

        if (error != S3_OK)
                fail_msg("%s: %s", value, s3_error_info(error)->code);
        expect_str(s3_address_bucket(&source.address), bucket);
        expect_str(s3_address_key(&source.address), key);
        assert_int_equal(source.has_version, version != NULL);
        assert_string_equal(source.version, version != NULL ? version : "");
        assert_int_equal(source.version_len, strlen(source.version));
}

static void test_copy_sources(void **state)
{
        expect_source("bucket/key", "bucket", "key", NULL);
        expect_source("/bucket/key", "bucket", "key", NULL);
        expect_source("bucket%2Fkey", "bucket", "key", NULL);
        expect_source("%2Fbucket%2Fkey", "bucket", "key", NULL);
        expect_source("/bucket//a//b/", "bucket", "/a//b/", NULL);
        expect_source("src/a%20b%2Bc/%C3%BC%25%3F?versionId=v+1", "src", "a b+c/\xc3\xbc%?", "v+1");
        expect_source("src/a+b", "src", "a b", NULL);
        expect_source("src/\xc3\xbc", "src", "\xc3\xbc", NULL);
        expect_source("src/what?now", "src", "what?now", NULL);
        expect_source("src/what?now?versionId=3", "src", "what?now", "3");
        expect_source("src/k?versionId=null", "src", "k", "null");
        expect_source("src/k%3FversionId=x", "src", "k?versionId=x", NULL);
        expect_source("  src/k  ", "src", "k", NULL);
        expect_source("src/..", "src", "..", NULL);
}

static void test_bad_copy_sources(void **state)
{
        static const char *const bad[] = {
                "",      "/",   "bucket", "/bucket",        "bucket/",           "/bucket/",    "//key",
                "b/%zz", "b/%", "b/%ff",  "b/k?versionId=", "b/k?versionId=%zz", "?versionId=1"};
        char long_value[S3_KEY_MAX + 2048];

        for (size_t i = 0; i < COUNT(bad); i++)
                if (parse_source(bad[i]) != S3_ERR_INVALID_ARGUMENT)
                        fail_msg("taken: %s", bad[i]);
        assert_int_equal(parse_source("arn:aws:s3:us-east-1:1234:accesspoint/p/object/k"), S3_ERR_INVALID_REQUEST);
        memset(long_value, 'k', sizeof(long_value));
        memcpy(long_value, "bkt/", 4);
        long_value[4 + S3_KEY_MAX] = '\0';
        assert_int_equal(parse_source(long_value), S3_OK);
        assert_int_equal(source.address.key_len, S3_KEY_MAX);
        long_value[4 + S3_KEY_MAX] = 'k';
        long_value[4 + S3_KEY_MAX + 1] = '\0';
        assert_int_equal(parse_source(long_value), S3_ERR_KEY_TOO_LONG);
        long_value[4 + S3_KEY_MAX + 1] = 'k';
        long_value[sizeof(long_value) - 1] = '\0';
        assert_int_equal(parse_source(long_value), S3_ERR_KEY_TOO_LONG);
        memset(long_value, 'b', S3_BUCKET_ONCE_MAX + 1);
        strcpy(long_value + S3_BUCKET_ONCE_MAX + 1, "/k");
        assert_int_equal(parse_source(long_value), S3_ERR_INVALID_BUCKET_NAME);
        strcpy(long_value, "b/k?versionId=");
        memset(long_value + 14, 'v', S3_VERSION_ID_MAX + 1);
        long_value[14 + S3_VERSION_ID_MAX + 1] = '\0';
        assert_int_equal(parse_source(long_value), S3_ERR_INVALID_ARGUMENT);
        long_value[14 + S3_VERSION_ID_MAX] = '\0';
        assert_int_equal(parse_source(long_value), S3_OK);
}

/* ---- conditions ------------------------------------------------------------------------------ */

#define MTIME  784111777500 /* Sun, 06 Nov 1994 08:49:37.5 GMT */
#define NOW    1369353600000
#define AT     "Sun, 06 Nov 1994 08:49:37 GMT"
#define BEFORE "Sun, 06 Nov 1994 08:49:36 GMT"
#define AFTER  "Sun, 06 Nov 1994 08:49:38 GMT"
#define FUTURE "Sat, 01 Jan 2050 00:00:00 GMT"

static void expect_condition(const char *match, const char *none_match, const char *modified, const char *unmodified,
                             enum s3_error wanted)
{
        const struct s3_conditions c = {s3_str_of(match), s3_str_of(none_match), s3_str_of(modified),
                                        s3_str_of(unmodified)};
        enum s3_error copy = wanted == S3_ERR_NOT_MODIFIED ? S3_ERR_PRECONDITION_FAILED : wanted;

        assert_int_equal(s3_conditions_check(&c, S3_STR("\"e\""), MTIME, NOW, false), wanted);
        assert_int_equal(s3_conditions_check(&c, S3_STR("e"), MTIME, NOW, true), copy);
}

static void test_conditions(void **state)
{
        expect_condition(NULL, NULL, NULL, NULL, S3_OK);
        expect_condition("\"e\"", NULL, NULL, NULL, S3_OK);
        expect_condition("e", NULL, NULL, NULL, S3_OK);
        expect_condition("\"f\", \"e\"", NULL, NULL, NULL, S3_OK);
        expect_condition("*", NULL, NULL, NULL, S3_OK);
        expect_condition("\"f\"", NULL, NULL, NULL, S3_ERR_PRECONDITION_FAILED);
        expect_condition("", NULL, NULL, NULL, S3_ERR_PRECONDITION_FAILED);
        expect_condition(NULL, "\"f\"", NULL, NULL, S3_OK);
        expect_condition(NULL, "\"e\"", NULL, NULL, S3_ERR_NOT_MODIFIED);
        expect_condition(NULL, "*", NULL, NULL, S3_ERR_NOT_MODIFIED);
        expect_condition(NULL, "\"f\",\"e\"", NULL, NULL, S3_ERR_NOT_MODIFIED);
        expect_condition(NULL, NULL, BEFORE, NULL, S3_OK);
        expect_condition(NULL, NULL, AT, NULL, S3_ERR_NOT_MODIFIED);
        expect_condition(NULL, NULL, AFTER, NULL, S3_ERR_NOT_MODIFIED);
        expect_condition(NULL, NULL, NULL, BEFORE, S3_ERR_PRECONDITION_FAILED);
        expect_condition(NULL, NULL, NULL, AT, S3_OK);
        expect_condition(NULL, NULL, NULL, AFTER, S3_OK);
        expect_condition(NULL, NULL, "1994-11-06T08:49:37Z", NULL, S3_ERR_NOT_MODIFIED);
        /* dates that do not count */
        expect_condition(NULL, NULL, FUTURE, NULL, S3_OK);
        expect_condition(NULL, NULL, "nonsense", NULL, S3_OK);
        expect_condition(NULL, NULL, NULL, "nonsense", S3_OK);
        expect_condition(NULL, NULL, NULL, FUTURE, S3_OK);
        /* precedence */
        expect_condition("\"e\"", NULL, NULL, BEFORE, S3_OK);
        expect_condition("\"f\"", NULL, NULL, AFTER, S3_ERR_PRECONDITION_FAILED);
        expect_condition(NULL, "\"e\"", BEFORE, NULL, S3_ERR_NOT_MODIFIED);
        expect_condition(NULL, "\"f\"", AFTER, NULL, S3_OK);
        expect_condition("\"e\"", "\"e\"", NULL, NULL, S3_ERR_NOT_MODIFIED);
        expect_condition("\"f\"", "\"e\"", NULL, NULL, S3_ERR_PRECONDITION_FAILED);
        expect_condition(NULL, "\"e\"", NULL, BEFORE, S3_ERR_PRECONDITION_FAILED);
}

static void test_put_conditions(void **state)
{
        const struct s3_str none = {NULL, 0};
        enum s3_put_condition condition;
        struct s3_str etag;

        assert_int_equal(s3_put_condition_parse(none, none, &condition, &etag), S3_OK);
        assert_int_equal(condition, S3_PUT_ALWAYS);
        assert_int_equal(s3_put_condition_parse(none, S3_STR(" * "), &condition, &etag), S3_OK);
        assert_int_equal(condition, S3_PUT_IF_ABSENT);
        assert_int_equal(s3_put_condition_parse(none, S3_STR("\"e\""), &condition, &etag), S3_ERR_NOT_IMPLEMENTED);
        assert_int_equal(s3_put_condition_parse(S3_STR("\"e\""), none, &condition, &etag), S3_OK);
        assert_int_equal(condition, S3_PUT_IF_MATCH);
        expect_str(etag, "e");
        assert_int_equal(s3_put_condition_parse(S3_STR(" e "), none, &condition, &etag), S3_OK);
        expect_str(etag, "e");
        assert_int_equal(s3_put_condition_parse(S3_STR("*"), none, &condition, &etag), S3_OK);
        expect_str(etag, "*");
        assert_int_equal(s3_put_condition_parse(S3_STR("\""), none, &condition, &etag), S3_OK);
        expect_str(etag, "\"");
        assert_int_equal(s3_put_condition_parse(S3_STR("e"), S3_STR("*"), &condition, &etag), S3_ERR_NOT_IMPLEMENTED);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_ranges),         cmocka_unit_test(test_no_range),
                cmocka_unit_test(test_extreme_ranges), cmocka_unit_test(test_copy_ranges),
                cmocka_unit_test(test_copy_sources),   cmocka_unit_test(test_bad_copy_sources),
                cmocka_unit_test(test_conditions),     cmocka_unit_test(test_put_conditions),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
