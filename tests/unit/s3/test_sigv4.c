/*
 * test_sigv4.c - s3/sigv4*.c beside AWS's published examples, every way to be refused, and every
 * byte altered.
 */
#include "tests/unit/s3/sigv4_fixture.h"

#define NOW        1369353600000 /* 2013-05-24T00:00:00Z */
#define EMPTY      "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
#define CREDENTIAL ACCESS_KEY "/20130524/us-east-1/s3/aws4_request"
#define HOST       "Host: examplebucket.s3.amazonaws.com\n"
#define DATE       "x-amz-date: 20130524T000000Z\n"
#define NO_BODY    "x-amz-content-sha256: " EMPTY "\n"

static struct wire wire;
static struct s3_auth auth;

/* ---- the examples of AWS's documentation ----------------------------------------------------- */

static void test_get_object(void **state)
{
        char text[1024];

        wire_make(&wire, "GET", "/test.txt",
                  HOST "Authorization: AWS4-HMAC-SHA256 Credential=" CREDENTIAL
                       ",SignedHeaders=host;range;x-amz-content-sha256;x-amz-date,"
                       "Signature=f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41\n"
                       "Range: bytes=0-9\n" NO_BODY DATE);
        expect_reason(wire_verify(&wire, NOW, &auth), S3_AUTH_OK);
        assert_int_equal(auth.kind, S3_AUTH_HEADER);
        assert_int_equal(auth.payload, S3_PAYLOAD_SHA256);
        assert_string_equal(auth.access_key, ACCESS_KEY);
        assert_true(s3_canonical_request(&wire.request, &auth, text, sizeof(text)) > 0);
        assert_string_equal(text, "GET\n/test.txt\n\nhost:examplebucket.s3.amazonaws.com\nrange:bytes=0-9\n"
                                  "x-amz-content-sha256:" EMPTY "\nx-amz-date:20130524T000000Z\n\n"
                                  "host;range;x-amz-content-sha256;x-amz-date\n" EMPTY);
        assert_true(s3_string_to_sign(&wire.request, &auth, text, sizeof(text)) > 0);
        assert_string_equal(text, "AWS4-HMAC-SHA256\n20130524T000000Z\n20130524/us-east-1/s3/aws4_request\n"
                                  "7344ae5b7ee6c3e7e6b0fe0640412a37625d1fbfff95c48bbb2dc43964946972");
        assert_int_equal(s3_string_to_sign(&wire.request, &auth, text, 40), -ENOBUFS);
        assert_int_equal(s3_canonical_request(&wire.request, &auth, text, 40), -ENOBUFS);
        assert_int_equal(s3_canonical_request(&wire.request, &auth, text, 0), -ENOBUFS);
}

static void test_put_object(void **state)
{
        wire_make(&wire, "PUT", "/test%24file.text",
                  HOST "Date: Fri, 24 May 2013 00:00:00 GMT\n"
                       "Authorization: AWS4-HMAC-SHA256 Credential=" CREDENTIAL
                       ",SignedHeaders=date;host;x-amz-content-sha256;x-amz-date;x-amz-storage-class,"
                       "Signature=98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd\n" DATE
                       "x-amz-storage-class: REDUCED_REDUNDANCY\n"
                       "x-amz-content-sha256: 44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072\n");
        expect_reason(wire_verify(&wire, NOW, &auth), S3_AUTH_OK);
        assert_int_equal(auth.payload_sha256[0], 0x44);
        /* The same path with the dollar not escaped names the same key and must do as well. */
        wire.request.path = S3_STR("/test$file.text");
        expect_reason(wire_verify(&wire, NOW, &auth), S3_AUTH_OK);
        wire.request.path = S3_STR("/%74est$file.text");
        expect_reason(wire_verify(&wire, NOW, &auth), S3_AUTH_OK);
}

static void test_sub_resource_and_list(void **state)
{
#define SIGNED_GET                                                                                                     \
        "Authorization: AWS4-HMAC-SHA256 Credential=" CREDENTIAL                                                       \
        ",SignedHeaders=host;x-amz-content-sha256;x-amz-date,Signature="
        wire_make(&wire, "GET", "/?lifecycle",
                  HOST DATE NO_BODY SIGNED_GET "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543\n");
        expect_reason(wire_verify(&wire, NOW, &auth), S3_AUTH_OK);
        wire_make(&wire, "GET", "/?max-keys=2&prefix=J",
                  HOST DATE NO_BODY SIGNED_GET "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7\n");
        expect_reason(wire_verify(&wire, NOW, &auth), S3_AUTH_OK);
        wire.request.query = S3_STR("prefix=%4A&&max-keys=2"); /* order and spelling do not matter */
        expect_reason(wire_verify(&wire, NOW, &auth), S3_AUTH_OK);
        wire.request.query = S3_STR("prefix=j&max-keys=2");
        expect_reason(wire_verify(&wire, NOW, &auth), S3_AUTH_MISMATCH);
}

#define PRESIGNED                                                                                                      \
        "/test.txt?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=AKIAIOSFODNN7EXAMPLE%2F20130524%2Fus-east-1%2Fs3" \
        "%2Faws4_request&X-Amz-Date=20130524T000000Z&X-Amz-Expires=86400&X-Amz-SignedHeaders=host"
#define PRESIGNED_SIGNATURE "&X-Amz-Signature=aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404"

static void test_presigned(void **state)
{
        wire_make(&wire, "GET", PRESIGNED PRESIGNED_SIGNATURE, HOST);
        expect_reason(wire_verify(&wire, NOW, &auth), S3_AUTH_OK);
        assert_int_equal(auth.kind, S3_AUTH_QUERY);
        assert_int_equal(auth.payload, S3_PAYLOAD_UNSIGNED);
        assert_int_equal(auth.expires_s, 86400);
        expect_reason(wire_verify(&wire, NOW + 86400000 - 1, &auth), S3_AUTH_OK);
        expect_reason(wire_verify(&wire, NOW + 86400000, &auth), S3_AUTH_Q_EXPIRED);
        expect_reason(wire_verify(&wire, NOW - S3_SKEW_MS, &auth), S3_AUTH_OK);
        expect_reason(wire_verify(&wire, NOW - S3_SKEW_MS - 1, &auth), S3_AUTH_Q_NOT_YET);
        wire.request.method = S3_STR("PUT");
        expect_reason(wire_verify(&wire, NOW, &auth), S3_AUTH_MISMATCH);
}

/* ---- the header form refused ----------------------------------------------------------------- */

#define SIGNATURE "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41"
#define SIGNED    "SignedHeaders=host;x-amz-content-sha256;x-amz-date"

static void expect_authorization(const char *value, enum s3_auth_reason wanted)
{
        char headers[6144];

        snprintf(headers, sizeof(headers), HOST DATE NO_BODY "Authorization: %s\n", value);
        wire_make(&wire, "GET", "/test.txt", headers);
        expect_reason(wire_verify(&wire, NOW, &auth), wanted);
}

static void test_authorization_syntax(void **state)
{
        static const struct {
                const char *value;
                enum s3_auth_reason reason;
        } cases[] = {
                /* whole but for the signature: blanks, order and empty elements do not matter */
                {"AWS4-HMAC-SHA256 Credential=" CREDENTIAL "," SIGNED ",Signature=" SIGNATURE, S3_AUTH_MISMATCH},
                {"AWS4-HMAC-SHA256   Signature=" SIGNATURE " ,  " SIGNED ",\tCredential=" CREDENTIAL " , ",
                 S3_AUTH_MISMATCH},
                {"AWS4-HMAC-SHA256 Credential=" CREDENTIAL "," SIGNED ",Signature=abc", S3_AUTH_MISMATCH},
                {"", S3_AUTH_MISMATCH}, /* as good as none: anonymous */
                {"AWS4-HMAC-SHA256", S3_AUTH_NO_SPACE},
                {"AWS AKID:c2lnbmF0dXJl", S3_AUTH_UNSUPPORTED_VERSION},
                {"AWS4-ECDSA-P256-SHA256 Credential=x", S3_AUTH_UNSUPPORTED_VERSION},
                {"Bearer abc", S3_AUTH_UNSUPPORTED_TYPE},
                {"Basic dXNlcjpwYXNz", S3_AUTH_UNSUPPORTED_TYPE},
                {"aws4-hmac-sha256 Credential=x", S3_AUTH_UNSUPPORTED_TYPE},
                {"AWS4-HMAC-SHA256 " SIGNED ",Signature=" SIGNATURE, S3_AUTH_NO_COMPONENTS},
                {"AWS4-HMAC-SHA256 x=y," SIGNED ",Signature=" SIGNATURE, S3_AUTH_NO_CREDENTIAL},
                {"AWS4-HMAC-SHA256 Credential=" CREDENTIAL ",x=y,Signature=" SIGNATURE, S3_AUTH_NO_SIGNED_HEADERS},
                {"AWS4-HMAC-SHA256 Credential=" CREDENTIAL ",SignedHeaders=,Signature=" SIGNATURE,
                 S3_AUTH_NO_SIGNED_HEADERS},
                {"AWS4-HMAC-SHA256 Credential=" CREDENTIAL "," SIGNED, S3_AUTH_NO_COMPONENTS},
                {"AWS4-HMAC-SHA256 Credential=" CREDENTIAL "," SIGNED ",x=y", S3_AUTH_NO_SIGNATURE},
                {"AWS4-HMAC-SHA256 Credential=" CREDENTIAL "," SIGNED ",Signature=", S3_AUTH_NO_SIGNATURE},
                {"AWS4-HMAC-SHA256 Credential=" CREDENTIAL "," SIGNED ",Signature", S3_AUTH_BAD_HEADER_FIELD},
                {"AWS4-HMAC-SHA256 Credential=" CREDENTIAL "," SIGNED ",Signature=a,Signature=b",
                 S3_AUTH_BAD_HEADER_FIELD},
                {"AWS4-HMAC-SHA256 Foo=bar,Credential=" CREDENTIAL "," SIGNED ",Signature=" SIGNATURE,
                 S3_AUTH_BAD_HEADER_FIELD},
                {"AWS4-HMAC-SHA256 Credential=AKID," SIGNED ",Signature=a", S3_AUTH_BAD_CREDENTIAL},
                {"AWS4-HMAC-SHA256 Credential=/20130524/us-east-1/s3/aws4_request," SIGNED ",Signature=a",
                 S3_AUTH_BAD_CREDENTIAL},
                {"AWS4-HMAC-SHA256 Credential=A/2013-05-24/us-east-1/s3/aws4_request," SIGNED ",Signature=a",
                 S3_AUTH_BAD_SCOPE_DATE},
                {"AWS4-HMAC-SHA256 Credential=A/2013052x/us-east-1/s3/aws4_request," SIGNED ",Signature=a",
                 S3_AUTH_BAD_SCOPE_DATE},
                {"AWS4-HMAC-SHA256 Credential=A/20130524/us-east-1/s3/aws3_request," SIGNED ",Signature=a",
                 S3_AUTH_WRONG_TERMINAL},
                {"AWS4-HMAC-SHA256 Credential=A/20130524/us-east-1/ec2/aws4_request," SIGNED ",Signature=a",
                 S3_AUTH_WRONG_SERVICE},
                {"AWS4-HMAC-SHA256 Credential=A/20130524/eu-west-1/s3/aws4_request," SIGNED ",Signature=a",
                 S3_AUTH_WRONG_REGION},
                {"AWS4-HMAC-SHA256 Credential=A/20130524//s3/aws4_request," SIGNED ",Signature=a",
                 S3_AUTH_WRONG_REGION},
                {"AWS4-HMAC-SHA256 Credential=A/20130523/us-east-1/s3/aws4_request," SIGNED ",Signature=a",
                 S3_AUTH_WRONG_SCOPE_DATE},
                {"AWS4-HMAC-SHA256 Credential=" CREDENTIAL ",SignedHeaders=x-amz-content-sha256;x-amz-date,Signature=a",
                 S3_AUTH_UNSIGNED_HEADERS},
                {"AWS4-HMAC-SHA256 Credential=" CREDENTIAL ",SignedHeaders=host;x-amz-date,Signature=a",
                 S3_AUTH_UNSIGNED_HEADERS},
                {"AWS4-HMAC-SHA256 Credential=" CREDENTIAL ",SignedHeaders=host;x-amz-content-sha256,Signature=a",
                 S3_AUTH_UNSIGNED_HEADERS},
        };

        for (size_t i = 0; i < COUNT(cases); i++)
                expect_authorization(cases[i].value, cases[i].reason);
}

/* 128 names are taken, each once. */
static void test_signed_names(void **state)
{
        char value[2048], list[1024], target[2048];

        for (unsigned count = 128; count <= 129; count++) {
                size_t used = (size_t)snprintf(list, sizeof(list), "host;x-amz-content-sha256;x-amz-date");

                for (unsigned i = 3; i < count; i++)
                        used += (size_t)snprintf(list + used, sizeof(list) - used, ";h%u", i);
                snprintf(value, sizeof(value),
                         "AWS4-HMAC-SHA256 Credential=" CREDENTIAL ",SignedHeaders=%s,Signature=a", list);
                expect_authorization(value, count == 128 ? S3_AUTH_MISMATCH : S3_AUTH_TOO_LARGE);
        }
        expect_authorization("AWS4-HMAC-SHA256 Credential=" CREDENTIAL "," SIGNED ";Host,Signature=a",
                             S3_AUTH_BAD_HEADER_FIELD);
        snprintf(target, sizeof(target), "/?%s%s;host%s", strchr(PRESIGNED, '?') + 1, "%3Bdate", PRESIGNED_SIGNATURE);
        wire_make(&wire, "GET", target, HOST);
        expect_reason(wire_verify(&wire, NOW, &auth), S3_AUTH_Q_DUPLICATE);
}

static void test_long_fields(void **state)
{
        char value[5120], long_text[4200];

        memset(long_text, 'a', sizeof(long_text));
        long_text[4100] = '\0';
        snprintf(value, sizeof(value), "AWS4-HMAC-SHA256 Credential=" CREDENTIAL ",SignedHeaders=%s,Signature=a",
                 long_text);
        expect_authorization(value, S3_AUTH_TOO_LARGE);
        long_text[S3_ACCESS_KEY_MAX + 1] = '\0';
        snprintf(value, sizeof(value),
                 "AWS4-HMAC-SHA256 Credential=%s/20130524/us-east-1/s3/aws4_request," SIGNED ",Signature=a", long_text);
        expect_authorization(value, S3_AUTH_BAD_CREDENTIAL);
        long_text[S3_ACCESS_KEY_MAX] = '\0';
        snprintf(value, sizeof(value),
                 "AWS4-HMAC-SHA256 Credential=%s/20130524/us-east-1/s3/aws4_request," SIGNED ",Signature=a", long_text);
        expect_authorization(value, S3_AUTH_MISMATCH);
        assert_string_equal(auth.access_key, long_text);
        long_text[S3_REGION_MAX + 1] = '\0';
        snprintf(value, sizeof(value),
                 "AWS4-HMAC-SHA256 Credential=A/20130524/%s/s3/aws4_request," SIGNED ",Signature=a", long_text);
        expect_authorization(value, S3_AUTH_BAD_CREDENTIAL);
        /* Access keys may hold slashes. */
        expect_authorization("AWS4-HMAC-SHA256 Credential=A/B/C/20130524/us-east-1/s3/aws4_request," SIGNED
                             ",Signature=a",
                             S3_AUTH_MISMATCH);
        assert_string_equal(auth.access_key, "A/B/C");
}

static void expect_headers(const char *target, const char *headers, int64_t now, enum s3_auth_reason wanted)
{
        wire_make(&wire, "GET", target, headers);
        expect_reason(wire_verify(&wire, now, &auth), wanted);
}

#define AUTH "Authorization: AWS4-HMAC-SHA256 Credential=" CREDENTIAL "," SIGNED ",Signature=" SIGNATURE "\n"

static void test_dates(void **state)
{
        expect_headers("/", HOST NO_BODY AUTH, NOW, S3_AUTH_NO_DATE);
        expect_headers("/", HOST NO_BODY AUTH "x-amz-date: yesterday\n", NOW, S3_AUTH_NO_DATE);
        expect_headers("/", HOST NO_BODY AUTH "Date: yesterday\n", NOW, S3_AUTH_NO_DATE);
        expect_headers("/", HOST NO_BODY AUTH "Date: Fri, 24 May 2013 00:00:00 GMT\n", NOW, S3_AUTH_MISMATCH);
        assert_string_equal(auth.amz_date, "20130524T000000Z");
        expect_headers("/", HOST NO_BODY AUTH "Date: 20130524T000000Z\n", NOW, S3_AUTH_MISMATCH);
        expect_headers("/", HOST NO_BODY AUTH "x-amz-date: Fri, 24 May 2013 00:00:00 GMT\n", NOW, S3_AUTH_MISMATCH);
        /* x-amz-date goes before Date. */
        expect_headers("/", HOST NO_BODY AUTH DATE "Date: Sat, 01 Jan 2000 00:00:00 GMT\n", NOW, S3_AUTH_MISMATCH);
        expect_headers("/", HOST NO_BODY AUTH DATE, NOW + S3_SKEW_MS, S3_AUTH_MISMATCH);
        expect_headers("/", HOST NO_BODY AUTH DATE, NOW + S3_SKEW_MS + 1, S3_AUTH_SKEWED);
        expect_headers("/", HOST NO_BODY AUTH DATE, NOW - S3_SKEW_MS, S3_AUTH_MISMATCH);
        expect_headers("/", HOST NO_BODY AUTH DATE, NOW - S3_SKEW_MS - 1, S3_AUTH_SKEWED);
}

static void test_payload_header(void **state)
{
        static const struct {
                const char *value;
                enum s3_auth_reason reason;
                enum s3_payload payload;
        } cases[] = {
                {EMPTY, S3_AUTH_MISMATCH, S3_PAYLOAD_SHA256},
                {"UNSIGNED-PAYLOAD", S3_AUTH_MISMATCH, S3_PAYLOAD_UNSIGNED},
                {"STREAMING-AWS4-HMAC-SHA256-PAYLOAD", S3_AUTH_MISMATCH, S3_PAYLOAD_SIGNED},
                {"STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER", S3_AUTH_MISMATCH, S3_PAYLOAD_SIGNED_TRAILER},
                {"STREAMING-UNSIGNED-PAYLOAD-TRAILER", S3_AUTH_MISMATCH, S3_PAYLOAD_UNSIGNED_TRAILER},
                {"STREAMING-AWS4-ECDSA-P256-SHA256-PAYLOAD", S3_AUTH_SIGV4A_PAYLOAD, S3_PAYLOAD_UNSIGNED},
                {"STREAMING-AWS4-ECDSA-P256-SHA256-PAYLOAD-TRAILER", S3_AUTH_SIGV4A_PAYLOAD, S3_PAYLOAD_UNSIGNED},
                {"", S3_AUTH_BAD_CONTENT_SHA256, S3_PAYLOAD_UNSIGNED},
                {"unsigned-payload", S3_AUTH_BAD_CONTENT_SHA256, S3_PAYLOAD_UNSIGNED},
                {"abc", S3_AUTH_BAD_CONTENT_SHA256, S3_PAYLOAD_UNSIGNED},
                {EMPTY "0", S3_AUTH_BAD_CONTENT_SHA256, S3_PAYLOAD_UNSIGNED},
                {"g3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855", S3_AUTH_BAD_CONTENT_SHA256,
                 S3_PAYLOAD_UNSIGNED},
        };
        char headers[2048];

        expect_headers("/", HOST DATE AUTH, NOW, S3_AUTH_NO_CONTENT_SHA256);
        for (size_t i = 0; i < COUNT(cases); i++) {
                snprintf(headers, sizeof(headers), HOST DATE AUTH "x-amz-content-sha256: %s\n", cases[i].value);
                expect_headers("/", headers, NOW, cases[i].reason);
                assert_int_equal(auth.payload, cases[i].payload);
        }
}

static void test_other_refusals(void **state)
{
        expect_headers("/", HOST DATE NO_BODY AUTH "x-amz-acl: public-read\n", NOW, S3_AUTH_UNSIGNED_HEADERS);
        expect_headers("/", HOST DATE NO_BODY AUTH "X-AMZ-Meta-Foo: x\n", NOW, S3_AUTH_UNSIGNED_HEADERS);
        expect_headers("/", HOST DATE NO_BODY AUTH "x-amzn-trace-id: x\n", NOW, S3_AUTH_MISMATCH);
        expect_headers("/", HOST DATE NO_BODY AUTH AUTH, NOW, S3_AUTH_BAD_HEADER_FIELD);
        expect_headers("/?X-Amz-Algorithm=AWS4-HMAC-SHA256", HOST DATE NO_BODY AUTH, NOW, S3_AUTH_BOTH_FORMS);
        expect_headers("/?AWSAccessKeyId=a&Signature=b&Expires=1", HOST DATE NO_BODY AUTH, NOW, S3_AUTH_BOTH_FORMS);
        expect_headers("/?AWSAccessKeyId=a&Signature=b&Expires=1", HOST, NOW, S3_AUTH_UNSUPPORTED_VERSION);
        expect_headers("/?a=%zz", HOST DATE NO_BODY AUTH, NOW, S3_AUTH_BAD_URI);
        expect_headers("/?%f=a", HOST DATE NO_BODY AUTH, NOW, S3_AUTH_BAD_URI);
        expect_headers("/%zz", HOST DATE NO_BODY AUTH, NOW, S3_AUTH_BAD_URI);
        expect_headers("/",
                       HOST DATE NO_BODY
                       "x-amz-security-token: t\nAuthorization: AWS4-HMAC-SHA256 Credential=" CREDENTIAL "," SIGNED
                       ";x-amz-security-token,Signature=" SIGNATURE "\n",
                       NOW, S3_AUTH_TOKEN);
}

static void test_too_many_params(void **state)
{
        char target[1024] = "/?";

        for (unsigned i = 0; i <= S3_QUERY_PARAMS_MAX; i++)
                strcat(target, "a&");
        expect_headers(target, HOST DATE NO_BODY AUTH, NOW, S3_AUTH_BAD_URI);
}

static void test_anonymous(void **state)
{
        wire_make(&wire, "GET", "/b/k?prefix=x", HOST);
        expect_reason(s3_auth_parse(&wire.request, &auth), S3_AUTH_OK);
        assert_int_equal(auth.kind, S3_AUTH_ANONYMOUS);
        assert_int_equal(auth.payload, S3_PAYLOAD_UNSIGNED);
        wire_make(&wire, "PUT", "/b/k", HOST NO_BODY);
        expect_reason(s3_auth_parse(&wire.request, &auth), S3_AUTH_OK);
        assert_int_equal(auth.payload, S3_PAYLOAD_SHA256);
        wire_make(&wire, "PUT", "/b/k", HOST "x-amz-content-sha256: zz\n");
        expect_reason(s3_auth_parse(&wire.request, &auth), S3_AUTH_BAD_CONTENT_SHA256);
        wire_make(&wire, "PUT", "/b/k", HOST);
        expect_reason(wire_verify(&wire, NOW, &auth), S3_AUTH_MISMATCH); /* a mistake of the caller grants nothing */
}

/* ---- the query form refused ------------------------------------------------------------------ */

#define Q_ALGORITHM  "X-Amz-Algorithm=AWS4-HMAC-SHA256"
#define Q_CREDENTIAL "&X-Amz-Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request"
#define Q_DATE       "&X-Amz-Date=20130524T000000Z"
#define Q_EXPIRES    "&X-Amz-Expires=86400"
#define Q_SIGNED     "&X-Amz-SignedHeaders=host"

static void test_query_syntax(void **state)
{
        static const struct {
                const char *target;
                enum s3_auth_reason reason;
        } cases[] = {
                {"/test.txt?" Q_ALGORITHM Q_CREDENTIAL Q_DATE Q_EXPIRES Q_SIGNED PRESIGNED_SIGNATURE, S3_AUTH_OK},
                {"/test.txt?" Q_SIGNED Q_EXPIRES PRESIGNED_SIGNATURE Q_DATE Q_CREDENTIAL "&" Q_ALGORITHM, S3_AUTH_OK},
                {"/?" Q_CREDENTIAL Q_DATE Q_EXPIRES Q_SIGNED PRESIGNED_SIGNATURE, S3_AUTH_Q_MISSING},
                {"/?" Q_ALGORITHM Q_DATE Q_EXPIRES Q_SIGNED PRESIGNED_SIGNATURE, S3_AUTH_Q_MISSING},
                {"/?" Q_ALGORITHM Q_CREDENTIAL Q_EXPIRES Q_SIGNED PRESIGNED_SIGNATURE, S3_AUTH_Q_MISSING},
                {"/?" Q_ALGORITHM Q_CREDENTIAL Q_DATE Q_SIGNED PRESIGNED_SIGNATURE, S3_AUTH_Q_MISSING},
                {"/?" Q_ALGORITHM Q_CREDENTIAL Q_DATE Q_EXPIRES PRESIGNED_SIGNATURE, S3_AUTH_Q_MISSING},
                {"/?" Q_ALGORITHM Q_CREDENTIAL Q_DATE Q_EXPIRES Q_SIGNED, S3_AUTH_Q_MISSING},
                {"/?X-Amz-Signature", S3_AUTH_Q_MISSING},
                {"/?" Q_ALGORITHM Q_CREDENTIAL Q_DATE Q_EXPIRES "&X-Amz-SignedHeaders=" PRESIGNED_SIGNATURE,
                 S3_AUTH_Q_MISSING},
                {"/?" Q_ALGORITHM Q_CREDENTIAL Q_DATE Q_EXPIRES Q_EXPIRES Q_SIGNED PRESIGNED_SIGNATURE,
                 S3_AUTH_Q_DUPLICATE},
                {"/?X-Amz-Algorithm=AWS4-ECDSA-P256-SHA256" Q_CREDENTIAL Q_DATE Q_EXPIRES Q_SIGNED PRESIGNED_SIGNATURE,
                 S3_AUTH_SIGV4A},
                {"/?X-Amz-Algorithm=%zz" Q_CREDENTIAL Q_DATE Q_EXPIRES Q_SIGNED PRESIGNED_SIGNATURE,
                 S3_AUTH_Q_ALGORITHM},
                {"/?" Q_ALGORITHM "&X-Amz-Credential=AKID" Q_DATE Q_EXPIRES Q_SIGNED PRESIGNED_SIGNATURE,
                 S3_AUTH_Q_CREDENTIAL},
                {"/?" Q_ALGORITHM "&X-Amz-Credential=%f" Q_DATE Q_EXPIRES Q_SIGNED PRESIGNED_SIGNATURE,
                 S3_AUTH_Q_CREDENTIAL},
                {"/?" Q_ALGORITHM "&X-Amz-Credential=A%00B/20130524/us-east-1/s3/aws4_request" Q_DATE Q_EXPIRES Q_SIGNED
                         PRESIGNED_SIGNATURE,
                 S3_AUTH_Q_CREDENTIAL},
                {"/?" Q_ALGORITHM
                 "&X-Amz-Credential=A/0524/us-east-1/s3/aws4_request" Q_DATE Q_EXPIRES Q_SIGNED PRESIGNED_SIGNATURE,
                 S3_AUTH_Q_SCOPE_DATE},
                {"/?" Q_ALGORITHM
                 "&X-Amz-Credential=A/20130525/us-east-1/s3/aws4_request" Q_DATE Q_EXPIRES Q_SIGNED PRESIGNED_SIGNATURE,
                 S3_AUTH_Q_WRONG_SCOPE_DATE},
                {"/?" Q_ALGORITHM
                 "&X-Amz-Credential=A/20130524/eu-west-1/s3/aws4_request" Q_DATE Q_EXPIRES Q_SIGNED PRESIGNED_SIGNATURE,
                 S3_AUTH_Q_WRONG_REGION},
                {"/?" Q_ALGORITHM "&X-Amz-Credential=A/20130524/us-east-1/iam/aws4_request" Q_DATE Q_EXPIRES Q_SIGNED
                         PRESIGNED_SIGNATURE,
                 S3_AUTH_Q_WRONG_SERVICE},
                {"/?" Q_ALGORITHM
                 "&X-Amz-Credential=A/20130524/us-east-1/s3/aws4" Q_DATE Q_EXPIRES Q_SIGNED PRESIGNED_SIGNATURE,
                 S3_AUTH_Q_WRONG_TERMINAL},
                {"/?" Q_ALGORITHM Q_CREDENTIAL
                 "&X-Amz-Date=Fri,+24+May+2013+00:00:00+GMT" Q_EXPIRES Q_SIGNED PRESIGNED_SIGNATURE,
                 S3_AUTH_Q_DATE},
                {"/?" Q_ALGORITHM Q_CREDENTIAL Q_DATE "&X-Amz-Expires=soon" Q_SIGNED PRESIGNED_SIGNATURE,
                 S3_AUTH_Q_EXPIRES_NUMBER},
                {"/?" Q_ALGORITHM Q_CREDENTIAL Q_DATE "&X-Amz-Expires=1.5" Q_SIGNED PRESIGNED_SIGNATURE,
                 S3_AUTH_Q_EXPIRES_NUMBER},
                {"/?" Q_ALGORITHM Q_CREDENTIAL Q_DATE "&X-Amz-Expires=%f" Q_SIGNED PRESIGNED_SIGNATURE,
                 S3_AUTH_Q_EXPIRES_NUMBER},
                {"/?" Q_ALGORITHM Q_CREDENTIAL Q_DATE "&X-Amz-Expires=-" Q_SIGNED PRESIGNED_SIGNATURE,
                 S3_AUTH_Q_EXPIRES_NUMBER},
                {"/?" Q_ALGORITHM Q_CREDENTIAL Q_DATE "&X-Amz-Expires=-1" Q_SIGNED PRESIGNED_SIGNATURE,
                 S3_AUTH_Q_EXPIRES_NEGATIVE},
                {"/?" Q_ALGORITHM Q_CREDENTIAL Q_DATE "&X-Amz-Expires=604801" Q_SIGNED PRESIGNED_SIGNATURE,
                 S3_AUTH_Q_EXPIRES_MAX},
                {"/?" Q_ALGORITHM Q_CREDENTIAL Q_DATE
                 "&X-Amz-Expires=99999999999999999999" Q_SIGNED PRESIGNED_SIGNATURE,
                 S3_AUTH_Q_EXPIRES_MAX},
                {"/?" Q_ALGORITHM Q_CREDENTIAL Q_DATE "&X-Amz-Expires=0" Q_SIGNED PRESIGNED_SIGNATURE,
                 S3_AUTH_Q_EXPIRED},
                {"/?" Q_ALGORITHM Q_CREDENTIAL Q_DATE Q_EXPIRES "&X-Amz-SignedHeaders=ho%zzst" PRESIGNED_SIGNATURE,
                 S3_AUTH_BAD_URI},
                {"/?" Q_ALGORITHM Q_CREDENTIAL Q_DATE Q_EXPIRES "&X-Amz-SignedHeaders=host%00" PRESIGNED_SIGNATURE,
                 S3_AUTH_BAD_URI},
                {"/?" Q_ALGORITHM Q_CREDENTIAL Q_DATE Q_EXPIRES "&X-Amz-SignedHeaders=range" PRESIGNED_SIGNATURE,
                 S3_AUTH_UNSIGNED_HEADERS},
                {"/?" Q_ALGORITHM Q_CREDENTIAL Q_DATE Q_EXPIRES Q_SIGNED "&X-Amz-Signature=%zz", S3_AUTH_MISMATCH},
                {"/?" Q_ALGORITHM Q_CREDENTIAL Q_DATE Q_EXPIRES Q_SIGNED "&X-Amz-Security-Token=t" PRESIGNED_SIGNATURE,
                 S3_AUTH_TOKEN},
                {"/?" Q_ALGORITHM Q_CREDENTIAL Q_DATE Q_EXPIRES Q_SIGNED "&X-Amz-Content-Sha256=zz" PRESIGNED_SIGNATURE,
                 S3_AUTH_BAD_CONTENT_SHA256},
                {"/?" Q_ALGORITHM Q_CREDENTIAL Q_DATE Q_EXPIRES Q_SIGNED
                 "&X-Amz-Content-Sha256=%zz" PRESIGNED_SIGNATURE,
                 S3_AUTH_BAD_CONTENT_SHA256},
        };
        char target[5120], long_text[4100];

        for (size_t i = 0; i < COUNT(cases); i++)
                expect_headers(cases[i].target, HOST, NOW, cases[i].reason);
        /* A header nobody signed, on an otherwise good URL. */
        expect_headers(PRESIGNED PRESIGNED_SIGNATURE, HOST "x-amz-acl: public-read\n", NOW, S3_AUTH_UNSIGNED_HEADERS);
        memset(long_text, 'a', sizeof(long_text) - 1);
        long_text[sizeof(long_text) - 1] = '\0';
        snprintf(target, sizeof(target), "/?" Q_ALGORITHM Q_CREDENTIAL Q_DATE Q_EXPIRES "&X-Amz-SignedHeaders=%s%s",
                 long_text, PRESIGNED_SIGNATURE);
        expect_headers(target, HOST, NOW, S3_AUTH_TOO_LARGE);
}

/* ---- headers as they are signed -------------------------------------------------------------- */

static void test_canonical_headers(void **state)
{
        char text[1024];

        wire_make(&wire, "GET", "/a%2fb//../%c3%a9+?b=2&a=%20+&a=1&c&A=&%c3=%7e&aa=0",
                  "Host: h\nX-Amz-Meta-B:  two  words \t x \nx-amz-meta-b: again\nX-AMZ-META-A:\n" DATE NO_BODY
                  "Authorization: AWS4-HMAC-SHA256 Credential=" CREDENTIAL
                  ",SignedHeaders=gone;host;x-amz-content-sha256;x-amz-date;x-amz-meta-a;x-amz-meta-b,Signature=a\n");
        expect_reason(wire_verify(&wire, NOW, &auth), S3_AUTH_MISMATCH);
        assert_true(s3_canonical_request(&wire.request, &auth, text, sizeof(text)) > 0);
        assert_string_equal(text, "GET\n/a/b//../%C3%A9%2B\n%C3=~&A=&a=%20%20&a=1&aa=0&b=2&c=\n"
                                  "gone:\nhost:h\nx-amz-content-sha256:" EMPTY "\nx-amz-date:20130524T000000Z\n"
                                  "x-amz-meta-a:\nx-amz-meta-b:two words x,again\n\n"
                                  "gone;host;x-amz-content-sha256;x-amz-date;x-amz-meta-a;x-amz-meta-b\n" EMPTY);
}

/* ---- nothing altered passes ------------------------------------------------------------------ */

/*
 * Flips each bit of a text in turn; what verifies must name exactly the same request, which only
 * happens for spellings that mean the same (case of hex digits in escapes, of header names, of the
 * host's own spelling: none here).
 */
static void test_altered_header_form(void **state)
{
        static const char *const headers =
                HOST "Authorization: AWS4-HMAC-SHA256 Credential=" CREDENTIAL
                     ",SignedHeaders=host;range;x-amz-content-sha256;x-amz-date,Signature=" SIGNATURE
                     "\nRange: bytes=0-9\n" NO_BODY DATE;
        struct s3_header *h;

        wire_make(&wire, "GET", "/test.txt", headers);
        expect_reason(wire_verify(&wire, NOW, &auth), S3_AUTH_OK);
        for (size_t i = 0; i < wire.request.header_count; i++) {
                h = &wire.headers[i];
                for (size_t at = 0; at < h->value.len; at++) {
                        char *byte = (char *)(uintptr_t)(h->value.data + at), was = *byte;

                        for (unsigned bit = 0; bit < 8; bit++) {
                                *byte = (char)(was ^ (1 << bit));
                                if (wire_verify(&wire, NOW, &auth) == S3_AUTH_OK && (was != ',' && *byte != ' '))
                                        fail_msg("header %zu, byte %zu, bit %u", i, at, bit);
                                *byte = was;
                        }
                }
        }
        wire.request.method = S3_STR("HEAD");
        expect_reason(wire_verify(&wire, NOW, &auth), S3_AUTH_MISMATCH);
        wire.request.method = S3_STR("GET");
        wire.request.path = S3_STR("/test.txT");
        expect_reason(wire_verify(&wire, NOW, &auth), S3_AUTH_MISMATCH);
        wire.request.path = S3_STR("/test.txt/");
        expect_reason(wire_verify(&wire, NOW, &auth), S3_AUTH_MISMATCH);
        wire.request.path = S3_STR("/test.txt");
        wire.request.query = S3_STR("acl");
        expect_reason(wire_verify(&wire, NOW, &auth), S3_AUTH_MISMATCH);
}

static void test_altered_query_form(void **state)
{
        static char target[] = PRESIGNED PRESIGNED_SIGNATURE;
        static struct wire altered;

        for (size_t at = 1; at < sizeof(target) - 1; at++) {
                char was = target[at];

                for (unsigned bit = 0; bit < 7; bit++) {
                        struct s3_target split;
                        struct s3_header host = {S3_STR("host"), S3_STR("examplebucket.s3.amazonaws.com")};

                        target[at] = (char)(was ^ (1 << bit));
                        /* "%2f" is "%2F" */
                        if (s3_target_split(s3_str_of(target), &split) == S3_OK && !(was == 'F' && target[at] == 'f')) {
                                altered.request = (struct s3_request){S3_STR("GET"), split.path, split.query, &host, 1};
                                if (wire_verify(&altered, NOW, &auth) == S3_AUTH_OK && auth.kind != S3_AUTH_ANONYMOUS)
                                        fail_msg("byte %zu, bit %u", at, bit);
                        }
                        target[at] = was;
                }
        }
}

/* ---- tables ---------------------------------------------------------------------------------- */

static void test_reasons(void **state)
{
        static const struct {
                const char *credential, *message;
        } faults[] = {
                {"A/2013-05-24/us-east-1/s3/aws4_request", "The authorization header is malformed; incorrect date "
                                                           "format \"2013-05-24\". This date in the credential "
                                                           "must be in the format \"yyyyMMdd\"."},
                {"A/20130524/us-east-1/ec2/aws4_request",
                 "The authorization header is malformed; incorrect service \"ec2\". This endpoint belongs to \"s3\"."},
                {"A/20130524/us-east-1/s3/aws5_request",
                 "The authorization header is malformed; incorrect terminal \"aws5_request\". This endpoint uses "
                 "\"aws4_request\"."},
        };
        char buf[256], value[512];

        for (size_t i = 0; i < COUNT(faults); i++) {
                snprintf(value, sizeof(value),
                         HOST DATE NO_BODY "Authorization: AWS4-HMAC-SHA256 Credential=%s," SIGNED ",Signature=a\n",
                         faults[i].credential);
                wire_make(&wire, "GET", "/test.txt", value);
                assert_string_equal(s3_auth_describe(wire_verify(&wire, NOW, &auth), &auth, REGION, buf, sizeof(buf)),
                                    faults[i].message);
        }
        for (unsigned i = S3_AUTH_OK + 1; i < S3_AUTH_REASON_COUNT; i++) {
                assert_true(s3_auth_error((enum s3_auth_reason)i) != S3_OK);
                assert_true(strlen(s3_auth_message((enum s3_auth_reason)i)) > 0);
        }
        assert_int_equal(s3_auth_error(S3_AUTH_OK), S3_OK);
        assert_int_equal(s3_auth_error((enum s3_auth_reason)9999), S3_ERR_INTERNAL_ERROR);
        assert_int_equal(s3_auth_error(S3_AUTH_SKEWED), S3_ERR_REQUEST_TIME_TOO_SKEWED);
        assert_string_equal(s3_auth_message(S3_AUTH_SKEWED), s3_error_info(S3_ERR_REQUEST_TIME_TOO_SKEWED)->message);
        assert_true(s3_auth_wants_region(S3_AUTH_WRONG_REGION) && s3_auth_wants_region(S3_AUTH_Q_WRONG_REGION));
        assert_false(s3_auth_wants_region(S3_AUTH_MISMATCH));
        expect_authorization("AWS4-HMAC-SHA256 Credential=A/20130524/eu-west-1/s3/aws4_request," SIGNED ",Signature=a",
                             S3_AUTH_WRONG_REGION);
        assert_string_equal(s3_auth_describe(S3_AUTH_WRONG_REGION, &auth, REGION, buf, sizeof(buf)),
                            "The authorization header is malformed; the region 'eu-west-1' is wrong; expecting "
                            "'us-east-1'");
        assert_string_equal(s3_auth_describe(S3_AUTH_Q_WRONG_REGION, &auth, REGION, buf, sizeof(buf)),
                            "Error parsing the X-Amz-Credential parameter; the region 'eu-west-1' is wrong; expecting "
                            "'us-east-1'");
        assert_string_equal(s3_auth_describe(S3_AUTH_NO_DATE, &auth, REGION, buf, sizeof(buf)),
                            s3_auth_message(S3_AUTH_NO_DATE));
}

static void test_equal_secret(void **state)
{
        assert_true(s3_equal_secret("abc", "abd", 2));
        assert_false(s3_equal_secret("abc", "abd", 3));
}

/* The example of AWS's "Signature Version 4 signing process", which is of IAM. */
static void forms_are_signed_for_iam_or_sts(void **state)
{
#define IAM_HEAD(service)                                                                                              \
        "Content-Type: application/x-www-form-urlencoded; charset=utf-8\nHost: iam.amazonaws.com\n"                    \
        "X-Amz-Date: 20150830T123600Z\nAuthorization: AWS4-HMAC-SHA256 "                                               \
        "Credential=AKIDEXAMPLE/20150830/us-east-1/" service                                                           \
        "/aws4_request, SignedHeaders=content-type;host;x-amz-date, "                                                  \
        "Signature=5d672d79c15b13162d9279b0855cfba6789a8edb4c82c400e06b5924a6f2b5d7\n"
        struct s3_signing_key key;

        wire_make(&wire, "GET", "/?Action=ListUsers&Version=2010-05-08", IAM_HEAD("iam"));
        expect_reason(s3_auth_parse(&wire.request, &auth), S3_AUTH_WRONG_SERVICE);
        expect_reason(s3_auth_parse_service(&wire.request, &auth), S3_AUTH_OK);
        assert_string_equal(auth.service, "iam");
        assert_int_equal(auth.payload, S3_PAYLOAD_SHA256);
        assert_int_equal(s3_hex_decode(S3_STR(S3_EMPTY_SHA256), auth.payload_sha256, S3_SHA256_LEN), 0);
        s3_signing_key_derive(S3_STR("wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"), "20150830", "us-east-1", "iam", &key);
        expect_reason(s3_auth_verify(&wire.request, &auth, &key, "us-east-1", auth.time_ms), S3_AUTH_OK);
        auth.payload_sha256[0] ^= 1;
        expect_reason(s3_auth_verify(&wire.request, &auth, &key, "us-east-1", auth.time_ms), S3_AUTH_MISMATCH);

        wire_make(&wire, "POST", "/", IAM_HEAD("sts"));
        expect_reason(s3_auth_parse_service(&wire.request, &auth), S3_AUTH_OK);
        assert_string_equal(auth.service, "sts");
        wire_make(&wire, "POST", "/", IAM_HEAD("s3"));
        expect_reason(s3_auth_parse(&wire.request, &auth), S3_AUTH_NO_CONTENT_SHA256);
        expect_reason(s3_auth_parse_service(&wire.request, &auth), S3_AUTH_WRONG_SERVICE);
        wire_make(&wire, "POST", "/", IAM_HEAD("iamx"));
        expect_reason(s3_auth_parse_service(&wire.request, &auth), S3_AUTH_WRONG_SERVICE);
#undef IAM_HEAD
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_get_object),
                cmocka_unit_test(test_put_object),
                cmocka_unit_test(test_sub_resource_and_list),
                cmocka_unit_test(test_presigned),
                cmocka_unit_test(test_authorization_syntax),
                cmocka_unit_test(test_signed_names),
                cmocka_unit_test(test_long_fields),
                cmocka_unit_test(test_dates),
                cmocka_unit_test(test_payload_header),
                cmocka_unit_test(test_other_refusals),
                cmocka_unit_test(test_too_many_params),
                cmocka_unit_test(test_anonymous),
                cmocka_unit_test(test_query_syntax),
                cmocka_unit_test(test_canonical_headers),
                cmocka_unit_test(test_altered_header_form),
                cmocka_unit_test(test_altered_query_form),
                cmocka_unit_test(test_reasons),
                cmocka_unit_test(test_equal_secret),
                cmocka_unit_test(forms_are_signed_for_iam_or_sts),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
