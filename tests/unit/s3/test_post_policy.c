/*
 * test_post_policy.c - s3/post_policy.c and s3/sigv4_form.c: AWS's published form, each kind of
 * condition, what is malformed, and every bound.
 */
#include "tests/unit/s3/s3_fixture.h"

#define NOW     1451390400000 /* 2015-12-29T12:00:00Z */
#define IN_TIME "{\"expiration\": \"2015-12-30T12:00:00.000Z\", \"conditions\": "

static struct s3_header field_of(const char *name, const char *value)
{
        return (struct s3_header){s3_str_of(name), s3_str_of(value)};
}

static char last_message[S3_POST_MESSAGE];
static struct s3_post_range last_range;

static enum s3_error check_fields(const char *json, const struct s3_header *fields, size_t count)
{
        struct s3_post_form form = {.bucket = S3_STR("buck"), .fields = fields, .count = count};
        size_t len = strlen(json);
        char *text = malloc(S3_BASE64_SIZE(len));
        enum s3_error error;

        assert_non_null(text);
        s3_base64_encode(json, len, text);
        error = s3_post_policy_check(s3_str_of(text), &form, NOW, &last_range, last_message);
        free(text);
        return error;
}

/* A form of four fields, of which two need a condition. */
static enum s3_error check(const char *json)
{
        const struct s3_header fields[] = {field_of("Key", "user/a.txt"), field_of("policy", "p"),
                                           field_of("x-amz-signature", "s"), field_of("Content-Type", "image/a,image/b")};

        return check_fields(json, fields, COUNT(fields));
}

#define COVERED "{\"bucket\":\"buck\"}, [\"starts-with\",\"$Content-Type\",\"image/\"]"
#define KEY_ANY "[\"starts-with\", \"$key\", \"\"]"

static void conditions(void **state)
{
        static const struct {
                const char *json;
                enum s3_error error;
                const char *message;
        } cases[] = {
                {IN_TIME "[" COVERED "," KEY_ANY "]}", S3_OK, ""},
                {IN_TIME "[" COVERED ", {\"key\": \"user/a.txt\"}]}", S3_OK, ""},
                {IN_TIME "[" COVERED ", [\"EQ\", \"$KEY\", \"user/a.txt\"]]}", S3_OK, ""},
                {IN_TIME "[" COVERED ", [\"starts-with\", \"$key\", \"user/\"], [\"content-length-range\", 1, \"10\"]]}", S3_OK, ""},
                {IN_TIME "[" COVERED "," KEY_ANY ", [\"starts-with\", \"$x-amz-meta-none\", \"\"]]}", S3_OK, ""},
                {IN_TIME "[" COVERED "," KEY_ANY ", [\"starts-with\", \"$x-amz-meta-none\", \"v\"]]}", S3_ERR_ACCESS_DENIED,
                 "Invalid according to Policy: Policy Condition failed: [\"starts-with\", \"$x-amz-meta-none\", \"v\"]"},
                {IN_TIME "[" COVERED ", {\"key\": \"user/b.txt\"}]}", S3_ERR_ACCESS_DENIED,
                 "Invalid according to Policy: Policy Condition failed: [\"eq\", \"$key\", \"user/b.txt\"]"},
                {IN_TIME "[" KEY_ANY ", {\"bucket\":\"buck\"}, [\"starts-with\",\"$Content-Type\",\"image/a\"]]}",
                 S3_ERR_ACCESS_DENIED, "Invalid according to Policy: Policy Condition failed: [\"starts-with\", \"$Content-Type\", \"image/a\"]"},
                {IN_TIME "[" KEY_ANY ", [\"starts-with\",\"$Content-Type\",\"\"]]}", S3_ERR_ACCESS_DENIED,
                 "Invalid according to Policy: Extra input fields: bucket"},
                {IN_TIME "[{\"bucket\":\"other\"}]}", S3_ERR_ACCESS_DENIED,
                 "Invalid according to Policy: Policy Condition failed: [\"eq\", \"$bucket\", \"other\"]"},
                {IN_TIME "[" COVERED "]}", S3_ERR_ACCESS_DENIED, "Invalid according to Policy: Extra input fields: Key"},
                {"{\"expiration\": \"2015-12-29T12:00:00.000Z\", \"conditions\": []}", S3_ERR_ACCESS_DENIED,
                 "Invalid according to Policy: Policy expired."},
        };

        for (size_t i = 0; i < COUNT(cases); i++) {
                assert_int_equal(check(cases[i].json), cases[i].error);
                assert_string_equal(last_message, cases[i].message);
        }
}

static void malformed(void **state)
{
        static const char *const cases[] = {
                "", "{", "[]", "1", "{}", "{\"expiration\": \"2015-12-30T12:00:00.000Z\"}", "{\"conditions\": []}",
                "{\"expiration\": \"tomorrow\", \"conditions\": []}", "{\"expiration\": 1, \"conditions\": []}",
                "{\"EXPIRATION\": \"2015-12-30T12:00:00.000Z\", \"conditions\": []}",
                "{\"expiration\": \"2015-12-30T12:00:00.000Z\", \"CONDITIONS\": []}",
                IN_TIME "{}}", IN_TIME "[1]}", IN_TIME "[{}]}", IN_TIME "[{\"a\":\"b\",\"c\":\"d\"}]}", IN_TIME "[{\"a\":1}]}",
                IN_TIME "[[]]}", IN_TIME "[[1,2,3]]}", IN_TIME "[[\"eq\",\"$key\"]]}", IN_TIME "[[\"eq\",\"key\",\"v\"]]}",
                IN_TIME "[[\"eq\",\"$\",\"v\"]]}", IN_TIME "[[\"eq\",\"$key\",1]]}", IN_TIME "[[\"eq\",\"$key\",\"v\",\"w\"]]}",
                IN_TIME "[[\"like\",\"$key\",\"v\"]]}", IN_TIME "[[\"content-length-range\", 0]]}",
                IN_TIME "[[\"content-length-range\", -1, 0]]}", IN_TIME "[[\"content-length-range\", 2, 1]]}",
                IN_TIME "[[\"content-length-range\", 1.5, 2]]}", IN_TIME "[[\"content-length-range\", \"a\", 2]]}",
                IN_TIME "[[\"content-length-range\", 0, 99999999999999999999]]}", IN_TIME "[]} x",
                IN_TIME "[], \"conditions\": []}", IN_TIME "[[[[[[[[[]]]]]]]]]}", IN_TIME "[[\"eq\",\"$key\",\"\\u0000\"]]}",
                IN_TIME "[[\"eq\",\"$key\",\"\\v\"]]}", IN_TIME "[[\"eq\",\"$key\",\"\\",
        };

        for (size_t i = 0; i < COUNT(cases); i++) {
                if (check(cases[i]) != S3_ERR_INVALID_POLICY_DOCUMENT)
                        fail_msg("%s", cases[i]);
                assert_non_null(strstr(last_message, "Invalid Policy: "));
        }
}

static void no_base64(void **state)
{
        static const char *const cases[] = {"", "e", "e30", "e3==", "e30*", "====", "e30=e30=", " e30="};
        struct s3_post_form form = {.bucket = S3_STR("buck")};

        for (size_t i = 0; i < COUNT(cases); i++)
                assert_int_equal(s3_post_policy_check(s3_str_of(cases[i]), &form, NOW, &last_range, last_message),
                                 S3_ERR_INVALID_POLICY_DOCUMENT);
}

static void ranges(void **state)
{
        assert_int_equal(check(IN_TIME "[" COVERED "," KEY_ANY "]}"), S3_OK);
        assert_true(last_range.min == 0 && last_range.max == UINT64_MAX);
        assert_int_equal(check(IN_TIME "[" COVERED "," KEY_ANY ", [\"content-length-range\", 5, 100], "
                                       "[\"Content-Length-Range\", \"1\", \"50\"]]}"), S3_OK);
        assert_true(last_range.min == 5 && last_range.max == 50);
}

/* AWS's escape of the dollar, and fields that need no condition. */
static void escapes_and_exempt_fields(void **state)
{
        const struct s3_header fields[] = {field_of("key", "$a\\$b"), field_of("AWSAccessKeyId", "k"), field_of("signature", "s"),
                                           field_of("X-Ignore-This", "1"), field_of("file", "")};
        const struct s3_header more[] = {field_of("key", "k"), field_of("submit", "Send")};

        assert_int_equal(check_fields(IN_TIME "[{\"bucket\":\"buck\"}, {\"key\": \"\\$a\\\\$b\"}]}", fields, COUNT(fields)), S3_OK);
        assert_int_equal(check_fields(IN_TIME "[{\"bucket\":\"buck\"}, {\"key\": \"k\"}]}", more, COUNT(more)), S3_ERR_ACCESS_DENIED);
        assert_string_equal(last_message, "Invalid according to Policy: Extra input fields: submit");
}

static void long_lists_and_values(void **state)
{
        char json[16000], *p = json;

        p += sprintf(p, IN_TIME "[");
        for (unsigned i = 0; i <= S3_POST_CONDITIONS_MAX; i++)
                p += sprintf(p, "%s[\"starts-with\",\"$key\",\"\"]", i > 0 ? "," : "");
        sprintf(p, "]}");
        assert_int_equal(check(json), S3_ERR_INVALID_POLICY_DOCUMENT);
        p = json + sprintf(json, IN_TIME "[{\"key\":\"");
        memset(p, 'x', 9000);
        sprintf(p + 9000, "\"}]}");
        assert_int_equal(check(json), S3_ERR_ACCESS_DENIED);
        assert_int_equal(strlen(last_message), S3_POST_MESSAGE - 1);
}

static void keys(void **state)
{
        static const char *const cases[][3] = {
                {"a/${filename}", "f.txt", "a/f.txt"}, {"${filename}${filename}", "x", "xx"},  {"$", "x", "$"},
                {"${filename", "x", "${filename"},     {"${filename}", "", ""},                {"${filename}", "${filename}", "${filename}"},
        };
        char out[32];

        for (size_t i = 0; i < COUNT(cases); i++) {
                int n = s3_post_key(s3_str_of(cases[i][0]), s3_str_of(cases[i][1]), out, sizeof(out));

                assert_true(n >= 0);
                expect_str((struct s3_str){out, (size_t)n}, cases[i][2]);
        }
        assert_int_equal(s3_post_key(S3_STR("${filename}${filename}"), S3_STR("0123456789abcdefg"), out, 32), -ENOBUFS);
        assert_int_equal(s3_post_key(S3_STR("0123456789abcdef0123456789abcdef"), S3_STR(""), out, 32), 32);
        assert_int_equal(s3_post_key(S3_STR("0123456789abcdef0123456789abcdefg"), S3_STR(""), out, 32), -ENOBUFS);
}

/* ---- signatures ------------------------------------------------------------------------------ */

#define SECRET     "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
#define CREDENTIAL "AKIAIOSFODNN7EXAMPLE/20151229/us-east-1/s3/aws4_request"
#define SIGNATURE  "8afdbf4008c03f22c2cd3cdb72e4afbb1f6a588f3255ac628749a66d7f09699e"

/* "Browser-Based Upload using HTTP POST (Using AWS Signature Version 4)", example of AWS's documentation. */
static const char aws_policy[] =
        "eyAiZXhwaXJhdGlvbiI6ICIyMDE1LTEyLTMwVDEyOjAwOjAwLjAwMFoiLA0KICAiY29uZGl0aW9ucyI6IFsNCiAgICB7ImJ1Y2tldCI6ICJzaWd2NGV4"
        "YW1wbGVidWNrZXQifSwNCiAgICBbInN0YXJ0cy13aXRoIiwgIiRrZXkiLCAidXNlci91c2VyMS8iXSwNCiAgICB7ImFjbCI6ICJwdWJsaWMtcmVhZCJ9"
        "LA0KICAgIHsic3VjY2Vzc19hY3Rpb25fcmVkaXJlY3QiOiAiaHR0cDovL3NpZ3Y0ZXhhbXBsZWJ1Y2tldC5zMy5hbWF6b25hd3MuY29tL3N1Y2Nlc3Nm"
        "dWxfdXBsb2FkLmh0bWwifSwNCiAgICBbInN0YXJ0cy13aXRoIiwgIiRDb250ZW50LVR5cGUiLCAiaW1hZ2UvIl0sDQogICAgeyJ4LWFtei1tZXRhLXV1"
        "aWQiOiAiMTQzNjUxMjM2NTEyNzQifSwNCiAgICB7IngtYW16LXNlcnZlci1zaWRlLWVuY3J5cHRpb24iOiAiQUVTMjU2In0sDQogICAgWyJzdGFydHMt"
        "d2l0aCIsICIkeC1hbXotbWV0YS10YWciLCAiIl0sDQoNCiAgICB7IngtYW16LWNyZWRlbnRpYWwiOiAiQUtJQUlPU0ZPRE5ON0VYQU1QTEUvMjAxNTEy"
        "MjkvdXMtZWFzdC0xL3MzL2F3czRfcmVxdWVzdCJ9LA0KICAgIHsieC1hbXotYWxnb3JpdGhtIjogIkFXUzQtSE1BQy1TSEEyNTYifSwNCiAgICB7Ingt"
        "YW16LWRhdGUiOiAiMjAxNTEyMjlUMDAwMDAwWiIgfQ0KICBdDQp9";

static enum s3_auth_reason verify(const char *algorithm, const char *credential, const char *date, const char *signature,
                                  const char *policy)
{
        struct s3_signing_key key;
        struct s3_auth auth;
        enum s3_auth_reason reason = s3_auth_parse_form(s3_str_of(algorithm), s3_str_of(credential), s3_str_of(date),
                                                        s3_str_of(signature), &auth);

        if (reason != S3_AUTH_OK)
                return reason;
        s3_signing_key_derive(S3_STR(SECRET), auth.scope_date, auth.region, auth.service, &key);
        return s3_auth_verify_form(&auth, &key, s3_str_of(policy), "us-east-1");
}

static void signatures(void **state)
{
        const char *alg = "AWS4-HMAC-SHA256", *date = "20151229T000000Z";

        assert_int_equal(verify(alg, CREDENTIAL, date, SIGNATURE, aws_policy), S3_AUTH_OK);
        assert_int_equal(verify(alg, CREDENTIAL, date, SIGNATURE, aws_policy + 1), S3_AUTH_MISMATCH);
        assert_int_equal(verify(alg, CREDENTIAL, date, "", aws_policy), S3_AUTH_MISMATCH);
        assert_int_equal(verify(alg, CREDENTIAL, date, SIGNATURE "00", aws_policy), S3_AUTH_MISMATCH);
        assert_int_equal(verify(alg, CREDENTIAL, "20151230T000000Z", SIGNATURE, aws_policy), S3_AUTH_Q_WRONG_SCOPE_DATE);
        assert_int_equal(verify(alg, CREDENTIAL, "today", SIGNATURE, aws_policy), S3_AUTH_Q_DATE);
        assert_int_equal(verify(alg, "a/20151229/eu-west-1/s3/aws4_request", date, SIGNATURE, aws_policy), S3_AUTH_Q_WRONG_REGION);
        assert_int_equal(verify(alg, "a/20151229/us-east-1/iam/aws4_request", date, SIGNATURE, aws_policy), S3_AUTH_Q_WRONG_SERVICE);
        assert_int_equal(verify(alg, "a", date, SIGNATURE, aws_policy), S3_AUTH_Q_CREDENTIAL);
        assert_int_equal(verify("AWS4-ECDSA-P256-SHA256", CREDENTIAL, date, SIGNATURE, aws_policy), S3_AUTH_SIGV4A);
        assert_int_equal(verify("AWS4-HMAC-SHA1", CREDENTIAL, date, SIGNATURE, aws_policy), S3_AUTH_Q_ALGORITHM);
}

/* By: printf policy | openssl dgst -sha1 -hmac secret -binary | base64 */
static void signatures_of_version_2(void **state)
{
        const char *good = "DQYKsMXInaBeQ2OuQ0nMglptC1c=";

        assert_int_equal(s3_auth_verify_form_v2(S3_STR("secret"), S3_STR("policy"), s3_str_of(good)), S3_AUTH_OK);
        assert_int_equal(s3_auth_verify_form_v2(S3_STR("secret"), S3_STR("policz"), s3_str_of(good)), S3_AUTH_MISMATCH);
        assert_int_equal(s3_auth_verify_form_v2(S3_STR("secret"), S3_STR("policy"), S3_STR("")), S3_AUTH_MISMATCH);
}

int main(void)
{
        static const struct CMUnitTest tests[] = {
                cmocka_unit_test(conditions),
                cmocka_unit_test(malformed),
                cmocka_unit_test(no_base64),
                cmocka_unit_test(ranges),
                cmocka_unit_test(escapes_and_exempt_fields),
                cmocka_unit_test(long_lists_and_values),
                cmocka_unit_test(keys),
                cmocka_unit_test(signatures),
                cmocka_unit_test(signatures_of_version_2),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
