/*
 * test_cors.c - s3/cors.c: CORSConfiguration, and which rule allows a request.
 */
#include "tests/unit/s3/doc_fixture.h"

#define CORS(rules)  "<CORSConfiguration>" rules "</CORSConfiguration>"
#define RULE(inside) "<CORSRule>" inside "</CORSRule>"
#define ORIGIN(o)    "<AllowedOrigin>" o "</AllowedOrigin>"
#define METHOD(m)    "<AllowedMethod>" m "</AllowedMethod>"
#define HEADER(h)    "<AllowedHeader>" h "</AllowedHeader>"

static void test_cors_refused(void **state)
{
        static const struct {
                const char *text;
                enum s3_error error;
                const char *message;
        } cases[] = {
                {"", S3_ERR_MISSING_REQUEST_BODY, NULL},
                {CORS(""), S3_ERR_MALFORMED_XML, NULL},
                {CORS(RULE(ORIGIN("*"))), S3_ERR_MALFORMED_XML, NULL},
                {CORS(RULE(METHOD("GET"))), S3_ERR_MALFORMED_XML, NULL},
                {CORS(RULE(METHOD("GET") ORIGIN(""))), S3_ERR_MALFORMED_XML, NULL},
                {CORS(RULE(METHOD("GET") ORIGIN("*") "<MaxAgeSeconds>-1</MaxAgeSeconds>")), S3_ERR_MALFORMED_XML, NULL},
                {CORS(RULE(METHOD("GET") ORIGIN("*") "<Other/>")), S3_ERR_MALFORMED_XML, NULL},
                {CORS(RULE(METHOD("PATCH") ORIGIN("*"))), S3_ERR_INVALID_REQUEST,
                 "Found unsupported HTTP method in CORS config. Unsupported method is PATCH"},
                {CORS(RULE(METHOD("") ORIGIN("*"))), S3_ERR_INVALID_REQUEST,
                 "Found unsupported HTTP method in CORS config. Unsupported method is "},
                {CORS(RULE(METHOD("GET") ORIGIN("*a*"))), S3_ERR_INVALID_REQUEST,
                 "AllowedOrigin \"*a*\" can not have more than one wildcard."},
                {CORS(RULE(METHOD("GET") ORIGIN("*") HEADER("x-*-*"))), S3_ERR_INVALID_REQUEST,
                 "AllowedHeader \"x-*-*\" can not have more than one wildcard."},
                {CORS(RULE(METHOD("GET") ORIGIN("*") "<ExposeHeader>x-*</ExposeHeader>")), S3_ERR_INVALID_REQUEST,
                 "ExposeHeader \"x-*\" contains wildcard. We currently do not support wildcard for ExposeHeader."},
                {CORS(RULE(METHOD("GET") ORIGIN("*") "<ExposeHeader>a&#13;b</ExposeHeader>")), S3_ERR_INVALID_REQUEST,
                 "ExposeHeader \"a\rb\" contains invalid character."},
                {CORS(RULE(METHOD("GET") ORIGIN("*") HEADER("x-a:b"))), S3_ERR_INVALID_REQUEST,
                 "AllowedHeader \"x-a:b\" contains invalid character."},
                {CORS(RULE(METHOD("GET") ORIGIN("*") HEADER("two words"))), S3_ERR_INVALID_REQUEST,
                 "AllowedHeader \"two words\" contains invalid character."},
        };

        for (size_t i = 0; i < COUNT(cases); i++)
                expect_refused(S3_DOC_CORS, cases[i].text, cases[i].error, cases[i].message);
}

static void test_cors_bounds(void **state)
{
        static const char rule[] = RULE(METHOD("GET") ORIGIN("*"));
        char *text = malloc(128u << 10), *p = stpcpy(text, "<CORSConfiguration>");

        for (unsigned i = 0; i < S3_CORS_RULES_MAX; i++)
                p = stpcpy(p, rule);
        strcpy(p, "</CORSConfiguration>");
        assert_int_equal(read_doc(S3_DOC_CORS, text), S3_OK);
        strcpy(stpcpy(p, rule), "</CORSConfiguration>");
        expect_refused(S3_DOC_CORS, text, S3_ERR_INVALID_REQUEST,
                       "The number of CORS rules should not exceed allowed limit of 100 rules.");
        memset(p, ' ', S3_CORS_BODY_MAX);
        strcpy(p + S3_CORS_BODY_MAX, "</CORSConfiguration>");
        assert_int_equal(read_doc(S3_DOC_CORS, text), S3_ERR_MAX_MESSAGE_LENGTH);
        free(text);
}

/* The number of the rule among its kind; -1: none. */
static int found(const char *origin, const char *method, const char *headers, bool *any)
{
        uint32_t rule = s3_cors_find(doc->config, s3_str_of(origin), s3_str_of(method), s3_str_of(headers), any);
        uint32_t at = s3_config_first(doc->config, 0, "CORSRule");

        for (int n = 0; at != S3_CONFIG_NONE; n++, at = s3_config_next(doc->config, 0, at, "CORSRule"))
                if (at == rule)
                        return n;
        return -1;
}

static void test_cors_find(void **state)
{
        bool any = false;
        char many[1024] = "", *p = many;

        assert_int_equal(
                read_doc(S3_DOC_CORS,
                         CORS(RULE(ORIGIN("http://*.example.com") METHOD("GET") METHOD("PUT") HEADER("x-amz-*"))
                                      RULE(ORIGIN("https://a.org") ORIGIN("*") METHOD("GET") HEADER("Content-Type")))),
                S3_OK);
        assert_int_equal(found("http://www.example.com", "GET", NULL, &any), 0);
        assert_false(any);
        assert_int_equal(found("http://.example.com", "PUT", "x-amz-date, X-Amz-Acl", &any), 0);
        assert_int_equal(found("http://example.com", "GET", NULL, &any), 1); /* the two ends must not overlap */
        assert_true(any);
        assert_int_equal(found("https://a.org", "GET", "content-type", &any), 1);
        assert_false(any);
        assert_int_equal(found("https://A.org", "GET", NULL, &any), 1);
        assert_true(any);
        assert_int_equal(found("http://example.com", "PUT", NULL, &any), -1);
        assert_int_equal(found("http://www.example.com", "GET", "content-type", &any),
                         1); /* the first rule allows no such header */
        assert_int_equal(found("http://www.example.com", "GET", "content-type,x-amz-date", &any), -1);
        assert_int_equal(found("http://www.example.com", "get", NULL, &any), -1);
        for (unsigned i = 0; i < S3_CORS_NAMES_MAX; i++)
                p = stpcpy(p, "x-amz-a,");
        assert_int_equal(found("http://www.example.com", "GET", many, &any), 0);
        strcpy(p, "x-amz-a");
        assert_int_equal(found("http://www.example.com", "GET", many, &any), -1);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_cors_refused),
                cmocka_unit_test(test_cors_bounds),
                cmocka_unit_test(test_cors_find),
        };

        random_seed();
        return cmocka_run_group_tests(tests, NULL, teardown);
}
