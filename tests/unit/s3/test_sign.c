/*
 * test_sign.c - s3/sigv4_sign.c: what the client side signs is what AWS publishes, and what the
 * server side verifies.
 */
#include "tests/unit/s3/sigv4_fixture.h"

#define NOW 1369353600000 /* 2013-05-24T00:00:00Z */

static struct s3_signer signer;
static struct s3_auth auth;

static int setup(void **state)
{
        s3_signer_init(&signer, S3_STR(ACCESS_KEY), S3_STR(SECRET_KEY), REGION, NOW);
        return 0;
}

static void test_published_header(void **state)
{
        const struct s3_header headers[] = {
                {S3_STR("x-amz-date"), S3_STR("20130524T000000Z")},
                {S3_STR("Range"), S3_STR("bytes=0-9")},
                {S3_STR("Host"), S3_STR("examplebucket.s3.amazonaws.com")},
                {S3_STR("X-Amz-Content-Sha256"), S3_STR(S3_EMPTY_SHA256)},
        };
        const struct s3_request request = {S3_STR("GET"), S3_STR("/test.txt"), {NULL, 0}, headers, COUNT(headers)};
        char out[512], seed[S3_SIGNATURE_LEN + 1];
        int n = s3_sign_headers(&request, &signer, out, sizeof(out), seed);

        assert_string_equal(out, "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request, "
                                 "SignedHeaders=host;range;x-amz-content-sha256;x-amz-date, "
                                 "Signature=f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41");
        assert_int_equal(n, (int)strlen(out));
        assert_string_equal(seed, "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41");
        assert_int_equal(s3_sign_headers(&request, &signer, out, (size_t)n + 1, NULL), n);
        assert_int_equal(s3_sign_headers(&request, &signer, out, (size_t)n, NULL), -ENOBUFS);
}

static void test_published_url(void **state)
{
        const struct s3_header headers[] = {{S3_STR("Host"), S3_STR("examplebucket.s3.amazonaws.com")}};
        struct s3_request request = {S3_STR("GET"), S3_STR("/test.txt"), {NULL, 0}, headers, COUNT(headers)};
        const struct s3_str none = {NULL, 0};
        char out[1024], small[1024];
        int n = s3_presign(&request, &signer, NOW, 86400, none, out, sizeof(out));

        assert_string_equal(out, "/test.txt?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=AKIAIOSFODNN7EXAMPLE%2F"
                                 "20130524%2Fus-east-1%2Fs3%2Faws4_request&X-Amz-Date=20130524T000000Z&X-Amz-Expires="
                                 "86400&X-Amz-SignedHeaders=host&X-Amz-Signature="
                                 "aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404");
        assert_int_equal(n, (int)strlen(out));
        for (size_t cap = 1; cap <= (size_t)n; cap++)
                assert_int_equal(s3_presign(&request, &signer, NOW, 86400, none, small, cap), -ENOBUFS);
        assert_int_equal(s3_presign(&request, &signer, NOW, 86400, none, small, (size_t)n + 1), n);
        assert_int_equal(s3_presign(&request, &signer, NOW, 0, none, out, sizeof(out)), -EINVAL);
        assert_int_equal(s3_presign(&request, &signer, NOW, 604801, none, out, sizeof(out)), -EINVAL);
        assert_int_equal(s3_presign(&request, &signer, NOW, 60, none, out, 0), -EINVAL);
        request.header_count = 0;
        assert_int_equal(s3_presign(&request, &signer, NOW, 60, none, out, sizeof(out)), -EINVAL);
        request.header_count = 1;
        request.path = S3_STR("/%zz");
        assert_int_equal(s3_presign(&request, &signer, NOW, 60, none, out, sizeof(out)), -EINVAL);
}

static void test_refused(void **state)
{
        struct s3_header headers[] = {
                {S3_STR("host"), S3_STR("h")},
                {S3_STR("x-amz-content-sha256"), S3_STR("UNSIGNED-PAYLOAD")},
                {S3_STR("x-amz-date"), S3_STR("20130524T000000Z")},
        };
        struct s3_request request = {S3_STR("GET"), S3_STR("/"), {NULL, 0}, headers, COUNT(headers)};
        struct s3_header many[65];
        struct s3_signer wrong;
        char out[512], region[80];

        assert_true(s3_sign_headers(&request, &signer, out, sizeof(out), NULL) > 0);
        for (size_t i = 0; i < COUNT(headers); i++) {
                struct s3_str name = headers[i].name;

                headers[i].name = S3_STR("x-else");
                assert_int_equal(s3_sign_headers(&request, &signer, out, sizeof(out), NULL), -EINVAL);
                headers[i].name = name;
        }
        headers[2].value = S3_STR("20130524");
        assert_int_equal(s3_sign_headers(&request, &signer, out, sizeof(out), NULL), -EINVAL);
        headers[2].value = S3_STR("20130524T000000Z");
        request.query = S3_STR("a=%");
        assert_int_equal(s3_sign_headers(&request, &signer, out, sizeof(out), NULL), -EINVAL);
        request.query = S3_STR("");
        for (size_t i = 0; i < COUNT(many); i++)
                many[i] = headers[i % 3];
        request.headers = many;
        request.header_count = COUNT(many);
        assert_int_equal(s3_sign_headers(&request, &signer, out, sizeof(out), NULL), -EINVAL);
        request.header_count = COUNT(many) - 1; /* repeated names are signed once */
        assert_true(s3_sign_headers(&request, &signer, out, sizeof(out), NULL) > 0);
        assert_non_null(strstr(out, "SignedHeaders=host;x-amz-content-sha256;x-amz-date,"));
        memset(region, 'r', sizeof(region) - 1);
        region[sizeof(region) - 1] = '\0';
        s3_signer_init(&wrong, S3_STR(ACCESS_KEY), S3_STR(SECRET_KEY), region, NOW);
        assert_int_equal(s3_sign_headers(&request, &wrong, out, sizeof(out), NULL), -EINVAL);
}

static void test_long_header_list(void **state)
{
        static char names[80][64];
        struct s3_header headers[83] = {
                {S3_STR("host"), S3_STR("h")},
                {S3_STR("x-amz-content-sha256"), S3_STR("UNSIGNED-PAYLOAD")},
                {S3_STR("x-amz-date"), S3_STR("20130524T000000Z")},
        };
        struct s3_request request = {S3_STR("GET"), S3_STR("/"), {NULL, 0}, headers, COUNT(headers)};
        char out[8192];

        for (size_t i = 0; i < COUNT(names); i++) {
                snprintf(names[i], sizeof(names[i]), "x-amz-meta-%050zu", i);
                headers[3 + i] = (struct s3_header){s3_str_of(names[i]), S3_STR("v")};
        }
        assert_int_equal(s3_sign_headers(&request, &signer, out, sizeof(out), NULL), -EINVAL);
        request.header_count = 60;
        assert_true(s3_sign_headers(&request, &signer, out, sizeof(out), NULL) > 0);
}

/* ---- forth and back -------------------------------------------------------------------------- */

static const char *const pieces[] = {"a", "B", "~", "%20", "%2F", "/", "//", "..", "+", "%C3%A9", "%", "*", "=", "&"};

/* Random text of pieces; a bare "%" is left out. */
static void random_text(char *out, bool query)
{
        unsigned count = (unsigned)(random_next() % 12);

        *out = '\0';
        for (unsigned i = 0; i < count; i++) {
                const char *piece = pieces[random_next() % COUNT(pieces)];

                if (strcmp(piece, "%") == 0 || (!query && strcmp(piece, "&") == 0))
                        continue;
                strcat(out, piece);
        }
}

static void check_signed(const char *path, const char *query)
{
        struct s3_header headers[6] = {
                {S3_STR("x-amz-date"), S3_STR("20130524T000000Z")},
                {S3_STR("Host"), S3_STR("127.0.0.1:9000")},
                {S3_STR("X-Amz-Content-SHA256"), S3_STR("UNSIGNED-PAYLOAD")},
                {S3_STR("x-amz-meta-a"), S3_STR("  spaced   value ")},
                {S3_STR("x-amz-meta-a"), S3_STR("again")},
        };
        struct s3_request request = {S3_STR("PUT"), s3_str_of(path), s3_str_of(query), headers, 5};
        char authorization[1024];
        int n = s3_sign_headers(&request, &signer, authorization, sizeof(authorization), NULL);

        assert_true(n > 0);
        headers[5] = (struct s3_header){S3_STR("Authorization"), {authorization, (size_t)n}};
        request.header_count = 6;
        assert_int_equal(s3_auth_parse(&request, &auth), S3_AUTH_OK);
        expect_reason(s3_auth_verify(&request, &auth, &signer.key, REGION, NOW), S3_AUTH_OK);
}

static void check_presigned(const char *path, const char *query, bool token)
{
        struct s3_header headers[] = {{S3_STR("Host"), S3_STR("[::1]:9000")}, {S3_STR("Content-Type"), S3_STR("a/b")}};
        struct s3_request request = {S3_STR("PUT"), s3_str_of(path), s3_str_of(query), headers, COUNT(headers)};
        struct s3_str token_text = token ? S3_STR("to/ken+=") : (struct s3_str){NULL, 0};
        struct s3_target target;
        char out[2048];
        int n = s3_presign(&request, &signer, NOW, 604800, token_text, out, sizeof(out));

        assert_true(n > 0);
        assert_int_equal(s3_target_split((struct s3_str){out, (size_t)n}, &target), S3_OK);
        request.path = target.path;
        request.query = target.query;
        assert_int_equal(s3_auth_parse(&request, &auth), S3_AUTH_OK);
        assert_string_equal(auth.signed_headers, "content-type;host");
        expect_reason(s3_auth_verify(&request, &auth, &signer.key, REGION, NOW), token ? S3_AUTH_TOKEN : S3_AUTH_OK);
        auth.has_token = false; /* the signature covers the token */
        expect_reason(s3_auth_verify(&request, &auth, &signer.key, REGION, NOW), S3_AUTH_OK);
}

static void test_round_trips(void **state)
{
        char path[256] = "/", query[256];

        for (int i = 0; i < 3000; i++) {
                random_text(path + 1, false);
                random_text(query, true);
                check_signed(path, query);
                check_presigned(path, query, i % 2 == 0);
        }
}

/*
 * Payload named in the query of a presigned URL, as aws-sdk-js does; or its hash, which then is the
 * last canonical line.
 */
static void test_presigned_payload(void **state)
{
        struct s3_header headers[] = {{S3_STR("Host"), S3_STR("h")}};
        struct s3_request request = {S3_STR("PUT"), S3_STR("/b/k"), S3_STR("X-Amz-Content-Sha256=UNSIGNED-PAYLOAD"),
                                     headers, 1};
        struct s3_target target;
        char out[2048], text[2048];
        int n = s3_presign(&request, &signer, NOW, 60, (struct s3_str){NULL, 0}, out, sizeof(out));

        assert_true(n > 0);
        assert_int_equal(s3_target_split((struct s3_str){out, (size_t)n}, &target), S3_OK);
        request.query = target.query;
        assert_int_equal(s3_auth_parse(&request, &auth), S3_AUTH_OK);
        assert_int_equal(auth.payload, S3_PAYLOAD_UNSIGNED);
        expect_reason(s3_auth_verify(&request, &auth, &signer.key, REGION, NOW), S3_AUTH_OK);
        snprintf(text, sizeof(text), "X-Amz-Content-Sha256=" S3_EMPTY_SHA256 "%s", strchr(out, '&'));
        request.query = s3_str_of(text);
        assert_int_equal(s3_auth_parse(&request, &auth), S3_AUTH_OK);
        assert_int_equal(auth.payload, S3_PAYLOAD_SHA256);
        n = s3_canonical_request(&request, &auth, out, sizeof(out));
        assert_true(n > 0);
        assert_string_equal(out + n - 64, S3_EMPTY_SHA256);
        request.path = S3_STR("/%");
        assert_int_equal(s3_canonical_request(&request, &auth, out, sizeof(out)), -EINVAL);
}

static void test_key_derivation(void **state)
{
        struct s3_signing_key key;
        char hex[65], long_secret[300];

        /* AWS's documentation of key derivation. */
        s3_signing_key_derive(S3_STR("wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"), "20120215", "us-east-1", "iam", &key);
        s3_hex_encode(key.bytes, sizeof(key.bytes), hex);
        assert_string_equal(hex, "f4780e2d9f65fa895f9c67b32ce1baf0b0d8a43505a000a1a9e090d414db404d");
        /* A secret beyond one block of the hash, and none at all. */
        memset(long_secret, 's', sizeof(long_secret));
        s3_signing_key_derive((struct s3_str){long_secret, 128}, "20120215", "r", "s3", &key);
        s3_hex_encode(key.bytes, sizeof(key.bytes), hex);
        assert_string_equal(hex, "f0280f83ce2cd55a5338143204af404f0abaec2c9f0053ca5ccc8c9cd01ae176");
        s3_signing_key_derive(S3_STR(""), "20120215", "r", "s3", &key);
        s3_hex_encode(key.bytes, sizeof(key.bytes), hex);
        assert_string_equal(hex, "8950ed4324ced236f6b492522e1eeec1c71ff3145b9ed55fe74be9ac70bcdedf");
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_published_header), cmocka_unit_test(test_published_url),
                cmocka_unit_test(test_refused),          cmocka_unit_test(test_long_header_list),
                cmocka_unit_test(test_round_trips),      cmocka_unit_test(test_presigned_payload),
                cmocka_unit_test(test_key_derivation),
        };

        random_seed();
        return cmocka_run_group_tests(tests, setup, NULL);
}
