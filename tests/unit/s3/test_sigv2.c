/*
 * test_sigv2.c - s3/sigv2.c: URLs as botocore presigns them by default for endpoints that are not
 * AWS's.
 */
#include "tests/unit/s3/sigv4_fixture.h"

#define EXPIRES_MS      1716557696000
#define KEY_ID          "AWSAccessKeyId=AKIAIOSFODNN7EXAMPLE"
#define EXPIRES         "Expires=1716557696"
#define PLAIN_SIGNATURE "Signature=6ePjf0SD%2BFCwraoLCLaKvP3Z5Ic%3D"
#define PLAIN_PATH      "/bucket/a%20b%2B%C3%BC~/%28x%29"
#define HOST            "Host: s3.example.com:9000\n"

static struct wire wire;
static struct s3_auth auth;

static enum s3_auth_reason verify(const char *method, const char *target, const char *headers, const char *bucket,
                                  int64_t now_ms)
{
        enum s3_auth_reason reason;

        wire_make(&wire, method, target, headers);
        reason = s3_auth_parse(&wire.request, &auth);
        if (reason != S3_AUTH_OK)
                return reason;
        assert_int_equal(auth.kind, S3_AUTH_QUERY_V2);
        assert_int_equal(auth.payload, S3_PAYLOAD_UNSIGNED);
        return s3_auth_verify_v2(&wire.request, &auth, S3_STR(SECRET_KEY), s3_str_of(bucket), now_ms);
}

static void test_botocore(void **state)
{
        static const struct {
                const char *method, *path, *query;
        } cases[] = {
                {"GET", "/a%20b%2B%C3%BC~/%28x%29", KEY_ID "&" PLAIN_SIGNATURE "&" EXPIRES},
                {"GET", "/k",
                 "response-content-disposition=attachment%3B%20filename%3D%22x%20y%2Bz.txt%22&versionId=a%2Fb%2Bc%3D"
                 "&" KEY_ID "&Signature=PC3PCx7iI3d4xuGcg6mM2IESq2Y%3D&" EXPIRES},
                {"PUT", "/k", KEY_ID "&Signature=IxK%2FBqkgRERV6wv6%2FkDvWeFQx6A%3D&" EXPIRES},
                {"PUT", "/k",
                 "uploadId=u%2B%2F%3D&partNumber=1&" KEY_ID "&Signature=hyj8Ai5Lo3upfHuQdggGARcssxA%3D&" EXPIRES},
                {"HEAD", "/k", KEY_ID "&Signature=5t2cpGsBkaVnHZnzdxXinjYZLU8%3D&" EXPIRES},
        };
        char target[1024];

        for (size_t i = 0; i < COUNT(cases); i++) {
                snprintf(target, sizeof(target), "/bucket%s?%s", cases[i].path, cases[i].query);
                expect_reason(verify(cases[i].method, target, HOST, NULL, EXPIRES_MS - 1), S3_AUTH_OK);
                assert_string_equal(auth.access_key, ACCESS_KEY);
                assert_true(auth.time_ms == EXPIRES_MS);
                expect_reason(verify(cases[i].method, target, HOST, NULL, EXPIRES_MS), S3_AUTH_Q_EXPIRED);
                snprintf(target, sizeof(target), "%s?%s", cases[i].path, cases[i].query);
                expect_reason(verify(cases[i].method, target, HOST, "bucket", EXPIRES_MS - 1), S3_AUTH_OK);
                expect_reason(verify(cases[i].method, target, HOST, "other", EXPIRES_MS - 1), S3_AUTH_MISMATCH);
        }
}

static void test_refused(void **state)
{
        static const struct {
                const char *target, *headers;
                enum s3_auth_reason reason;
        } cases[] = {
                {PLAIN_PATH "?" KEY_ID "&" PLAIN_SIGNATURE "&" EXPIRES, HOST, S3_AUTH_OK},
                {PLAIN_PATH "?&&" EXPIRES "&" PLAIN_SIGNATURE "&" KEY_ID "&", HOST, S3_AUTH_OK},
                {PLAIN_PATH "?" KEY_ID "&" PLAIN_SIGNATURE, HOST, S3_AUTH_V2_MISSING},
                {PLAIN_PATH "?" KEY_ID "&" EXPIRES, HOST, S3_AUTH_V2_MISSING},
                {PLAIN_PATH "?" KEY_ID "&Signature&" EXPIRES, HOST, S3_AUTH_V2_MISSING},
                {PLAIN_PATH "?AWSAccessKeyId=&" PLAIN_SIGNATURE "&" EXPIRES, HOST, S3_AUTH_V2_MISSING},
                {PLAIN_PATH "?" KEY_ID "&" PLAIN_SIGNATURE "&" EXPIRES "&" EXPIRES, HOST, S3_AUTH_V2_MISSING},
                {PLAIN_PATH "?" KEY_ID "&" PLAIN_SIGNATURE "&Expires=soon", HOST, S3_AUTH_V2_EXPIRES},
                {PLAIN_PATH "?" KEY_ID "&" PLAIN_SIGNATURE "&Expires=9223372036854775807", HOST, S3_AUTH_V2_EXPIRES},
                {PLAIN_PATH "?" KEY_ID "&" PLAIN_SIGNATURE "&Expires=1716557697", HOST, S3_AUTH_MISMATCH},
                {PLAIN_PATH "?" KEY_ID "&Signature=%zz&" EXPIRES, HOST, S3_AUTH_MISMATCH},
                {PLAIN_PATH "?" KEY_ID "&Signature=6ePj&" EXPIRES, HOST, S3_AUTH_MISMATCH},
                {PLAIN_PATH "?AWSAccessKeyId=%00&" PLAIN_SIGNATURE "&" EXPIRES, HOST, S3_AUTH_OK}, /* names nobody */
                {PLAIN_PATH "x?" KEY_ID "&" PLAIN_SIGNATURE "&" EXPIRES, HOST, S3_AUTH_MISMATCH},
                {PLAIN_PATH "?acl&" KEY_ID "&" PLAIN_SIGNATURE "&" EXPIRES, HOST, S3_AUTH_MISMATCH},
                {PLAIN_PATH "?versionId=%zz&" KEY_ID "&" PLAIN_SIGNATURE "&" EXPIRES, HOST,
                 S3_AUTH_UNSUPPORTED_VERSION},
                /* not covered by the signature */
                {PLAIN_PATH "?attributes&" KEY_ID "&" PLAIN_SIGNATURE "&" EXPIRES, HOST, S3_AUTH_UNSUPPORTED_VERSION},
                {PLAIN_PATH "?" KEY_ID "&" PLAIN_SIGNATURE "&" EXPIRES "&prefix=p", HOST, S3_AUTH_UNSUPPORTED_VERSION},
                /* covered headers that were not there when it was signed */
                {PLAIN_PATH "?" KEY_ID "&" PLAIN_SIGNATURE "&" EXPIRES, HOST "Content-Type: a/b\n", S3_AUTH_MISMATCH},
                {PLAIN_PATH "?" KEY_ID "&" PLAIN_SIGNATURE "&" EXPIRES, HOST "Content-MD5: a\n", S3_AUTH_MISMATCH},
                {PLAIN_PATH "?" KEY_ID "&" PLAIN_SIGNATURE "&" EXPIRES, HOST "X-Amz-Acl: public-read\n",
                 S3_AUTH_MISMATCH},
                /* two ways at once */
                {PLAIN_PATH "?" KEY_ID "&" PLAIN_SIGNATURE "&" EXPIRES, HOST "Authorization: AWS4-HMAC-SHA256 x\n",
                 S3_AUTH_BOTH_FORMS},
                {PLAIN_PATH "?" KEY_ID "&" PLAIN_SIGNATURE "&" EXPIRES "&X-Amz-Signature=a", HOST, S3_AUTH_BOTH_FORMS},
        };

        for (size_t i = 0; i < COUNT(cases); i++)
                expect_reason(verify("GET", cases[i].target, cases[i].headers, NULL, EXPIRES_MS - 1), cases[i].reason);
        expect_reason(verify("PUT", cases[0].target, HOST, NULL, EXPIRES_MS - 1), S3_AUTH_MISMATCH);
}

/* Who does not ask for version 2 never takes it, and the other way round. */
static void test_kept_apart(void **state)
{
        struct s3_signing_key key = {{0}};

        expect_reason(verify("GET", PLAIN_PATH "?" KEY_ID "&" PLAIN_SIGNATURE "&" EXPIRES, HOST, NULL, EXPIRES_MS - 1), S3_AUTH_OK);
        expect_reason(s3_auth_check(&wire.request, &auth, REGION, 0), S3_AUTH_UNSUPPORTED_VERSION);
        expect_reason(s3_auth_verify(&wire.request, &auth, &key, REGION, EXPIRES_MS - 1), S3_AUTH_UNSUPPORTED_VERSION);
        auth.kind = S3_AUTH_HEADER;
        expect_reason(s3_auth_verify_v2(&wire.request, &auth, S3_STR(SECRET_KEY), s3_str_of(NULL), EXPIRES_MS - 1),
                      S3_AUTH_UNSUPPORTED_VERSION);
        /* A parameter called Expires or Signature alone means nothing. */
        wire_make(&wire, "GET", "/b/k?Expires=1&Signature=x", HOST);
        expect_reason(s3_auth_parse(&wire.request, &auth), S3_AUTH_OK);
        assert_int_equal(auth.kind, S3_AUTH_ANONYMOUS);
}

/* x-amz- headers: sorted, joined, trimmed; signed with openssl beforehand. */
static void test_amz_headers(void **state)
{
        expect_reason(verify("PUT",
                             "/bucket/k?uploads&" KEY_ID "&Signature=UbJX0x107XokDBUZo35pXHGSo1w%3D&acl=&" EXPIRES,
                             HOST "X-Amz-Meta-B:  2 \nContent-Type: a/b\nx-amz-meta-b: 3\nx-amz-meta-a: 1\n"
                                  "x-amz-meta: 0\nContent-MD5: m\n",
                             NULL, EXPIRES_MS - 1),
                      S3_AUTH_OK);
}

/* botocore signs headers and moves them into the URL. */
static void test_moved_headers(void **state)
{
#define MOVED "/bucket/k?" KEY_ID "&Signature=Ff4xTPXjkb%2BQxRbOqm9e8iGg8e4%3D&content-type=a%2Fb%3B%20c%3D%22d%20e%22"
        static const struct {
                const char *target, *headers;
                enum s3_auth_reason reason;
        } cases[] = {
                {MOVED "&x-amz-meta-b=2%20%2B~&x-amz-meta-a=1&content-md5=bQ%3D%3D&" EXPIRES, HOST, S3_AUTH_OK},
                {MOVED "&x-amz-meta-a=1&x-amz-meta-b=2+%2B~&content-md5=bQ%3D%3D&" EXPIRES, HOST, S3_AUTH_OK},
                {"/bucket/k?" KEY_ID "&Signature=GXmKAa6sA8h6ZI%2B%2BdTja1BaSoB8%3D&x-amz-copy-source=%2Fb%2Fk%2520l&" EXPIRES,
                 HOST, S3_AUTH_OK},
                /* a header of the same name counts */
                {MOVED "&x-amz-meta-b=2%20%2B~&x-amz-meta-a=1&content-md5=bQ%3D%3D&" EXPIRES,
                 HOST "Content-Type: a/b; c=\"d e\"\nX-Amz-Meta-A: 1\n", S3_AUTH_OK},
                {MOVED "&x-amz-meta-b=2%20%2B~&x-amz-meta-a=9&content-md5=bQ%3D%3D&" EXPIRES, HOST "X-Amz-Meta-A: 1\n",
                 S3_AUTH_OK},
                {MOVED "&x-amz-meta-b=2%20%2B~&x-amz-meta-a=1&content-md5=bQ%3D%3D&" EXPIRES, HOST "Content-Type: a/c\n",
                 S3_AUTH_MISMATCH},
                {MOVED "&x-amz-meta-b=2%20%2B~&x-amz-meta-a=1&content-md5=bQ%3D%3D&" EXPIRES, HOST "X-Amz-Meta-A: 2\n",
                 S3_AUTH_MISMATCH},
                /* altered, added, taken away */
                {MOVED "&x-amz-meta-b=2%20%2B~&x-amz-meta-a=2&content-md5=bQ%3D%3D&" EXPIRES, HOST, S3_AUTH_MISMATCH},
                {MOVED "&x-amz-meta-b=2%20%2B~&x-amz-meta-a=1&x-amz-meta-a=1&content-md5=bQ%3D%3D&" EXPIRES, HOST,
                 S3_AUTH_MISMATCH},
                {MOVED "&x-amz-meta-b=2%20%2B~&x-amz-meta-a=1&x-amz-acl=private&content-md5=bQ%3D%3D&" EXPIRES, HOST,
                 S3_AUTH_MISMATCH},
                {MOVED "&x-amz-meta-b=2%20%2B~&x-amz-meta-a=1&" EXPIRES, HOST, S3_AUTH_MISMATCH},
                /* one that would be two lines, and names that need decoding or are in capitals */
                {MOVED "&x-amz-meta-a=1%0ax-amz-meta-b:2%20%2B~&content-md5=bQ%3D%3D&" EXPIRES, HOST,
                 S3_AUTH_UNSUPPORTED_VERSION},
                {MOVED "&x-amz-meta-b=2%20%2B~&x-amz-meta-a=1&content-md5=%0a&" EXPIRES, HOST, S3_AUTH_UNSUPPORTED_VERSION},
                {MOVED "&x-amz-meta-b=%zz&" EXPIRES, HOST, S3_AUTH_UNSUPPORTED_VERSION},
                {MOVED "&x-amz-meta-b=2%20%2B~&x-amz-meta-%61=1&content-md5=bQ%3D%3D&" EXPIRES, HOST,
                 S3_AUTH_UNSUPPORTED_VERSION},
                {MOVED "&x-amz-meta-b=2%20%2B~&X-Amz-Meta-A=1&content-md5=bQ%3D%3D&" EXPIRES, HOST,
                 S3_AUTH_UNSUPPORTED_VERSION},
                {MOVED "&Content-Type=x&" EXPIRES, HOST, S3_AUTH_UNSUPPORTED_VERSION},
        };

        for (size_t i = 0; i < COUNT(cases); i++)
                expect_reason(verify("PUT", cases[i].target, cases[i].headers, NULL, EXPIRES_MS - 1), cases[i].reason);
}

/* It lives as long as one of version 4 may. */
static void test_a_week(void **state)
{
        const int64_t week = S3_EXPIRES_MAX * 1000ll;
        const char *target = PLAIN_PATH "?" KEY_ID "&" PLAIN_SIGNATURE "&" EXPIRES;

        expect_reason(verify("GET", target, HOST, NULL, EXPIRES_MS - week), S3_AUTH_OK);
        expect_reason(verify("GET", target, HOST, NULL, EXPIRES_MS - week - 1), S3_AUTH_V2_EXPIRES_MAX);
        expect_reason(verify("GET", target, HOST, NULL, 0), S3_AUTH_V2_EXPIRES_MAX);
        assert_int_equal(s3_auth_error(S3_AUTH_V2_EXPIRES_MAX), S3_ERR_ACCESS_DENIED);
}

static void test_bounds(void **state)
{
        static char target[S3_TARGET_MAX + 1], headers[6000];
        size_t used = (size_t)snprintf(target, sizeof(target), "%s", "/b/k?" KEY_ID "&" PLAIN_SIGNATURE "&" EXPIRES);

        for (unsigned i = 0; i <= S3_QUERY_PARAMS_MAX; i++)
                used += (size_t)snprintf(target + used, sizeof(target) - used, "&acl");
        expect_reason(verify("GET", target, HOST, NULL, EXPIRES_MS - 1), S3_AUTH_UNSUPPORTED_VERSION);
        used = (size_t)snprintf(headers, sizeof(headers), HOST);
        for (unsigned i = 0; i < 63; i++)
                used += (size_t)snprintf(headers + used, sizeof(headers) - used, "x-amz-meta-a: %u\n", i);
        expect_reason(verify("GET", "/b/k?" KEY_ID "&" PLAIN_SIGNATURE "&" EXPIRES, headers, NULL, EXPIRES_MS - 1),
                      S3_AUTH_MISMATCH);
        {
                struct s3_header many[80];
                char *value = malloc(60 << 10);

                assert_non_null(value);
                memset(value, 'v', 60 << 10);
                for (size_t i = 0; i < COUNT(many); i++)
                        many[i] = wire.headers[1];
                wire.request.headers = many;
                wire.request.header_count = COUNT(many);
                expect_reason(s3_auth_verify_v2(&wire.request, &auth, S3_STR(SECRET_KEY), s3_str_of(NULL), EXPIRES_MS - 1),
                              S3_AUTH_TOO_LARGE);
                wire.request.header_count = 1;
                many[0].value = (struct s3_str){value, 60 << 10};
                expect_reason(s3_auth_verify_v2(&wire.request, &auth, S3_STR(SECRET_KEY), s3_str_of(NULL), EXPIRES_MS - 1),
                              S3_AUTH_TOO_LARGE);
                free(value);
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_botocore),    cmocka_unit_test(test_refused), cmocka_unit_test(test_kept_apart),
                cmocka_unit_test(test_amz_headers), cmocka_unit_test(test_a_week), cmocka_unit_test(test_bounds),  cmocka_unit_test(test_moved_headers),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
