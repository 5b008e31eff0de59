/*
 * test_website.c - s3/website.c: WebsiteConfiguration, and what becomes of a request.
 */
#include "tests/unit/s3/doc_fixture.h"

#define SITE(inside)    "<WebsiteConfiguration>" inside "</WebsiteConfiguration>"
#define INDEX           "<IndexDocument><Suffix>index.html</Suffix></IndexDocument>"
#define ERRORS          "<ErrorDocument><Key>error.html</Key></ErrorDocument>"
#define RULES(inside)   "<RoutingRules>" inside "</RoutingRules>"
#define RULE(when, how) "<RoutingRule>" when "<Redirect>" how "</Redirect></RoutingRule>"
#define WHEN(inside)    "<Condition>" inside "</Condition>"
#define PREFIX(p)       "<KeyPrefixEquals>" p "</KeyPrefixEquals>"
#define CODE(c)         "<HttpErrorCodeReturnedEquals>" c "</HttpErrorCodeReturnedEquals>"
#define TO_PREFIX(p)    "<ReplaceKeyPrefixWith>" p "</ReplaceKeyPrefixWith>"

static struct s3_website_answer answer;

static void ask(const char *key)
{
        struct s3_website_request request = {.key = s3_str_of(key), .host = S3_STR("b.web.example:9000")};

        s3_website_ask(doc->config, &request, &answer);
}

static void failed(const char *key, unsigned status)
{
        struct s3_website_request request = {.key = s3_str_of(key), .host = S3_STR("b.web.example:9000")};

        s3_website_failed(doc->config, &request, status, &answer);
}

static void expect(enum s3_website_kind kind, unsigned status, const char *text)
{
        assert_int_equal(answer.kind, kind);
        assert_int_equal(answer.status, status);
        assert_string_equal(answer.text, text);
        assert_int_equal(answer.len, strlen(text));
}

static void test_website_refused(void **state)
{
        static const struct {
                const char *text;
                enum s3_error error;
        } cases[] = {
                {"", S3_ERR_MISSING_REQUEST_BODY},
                {SITE(""), S3_ERR_INVALID_ARGUMENT},
                {SITE(ERRORS), S3_ERR_INVALID_ARGUMENT},
                {SITE("<IndexDocument><Suffix>a/b</Suffix></IndexDocument>"), S3_ERR_INVALID_ARGUMENT},
                {SITE("<IndexDocument><Suffix></Suffix></IndexDocument>"), S3_ERR_INVALID_ARGUMENT},
                {SITE("<IndexDocument/>"), S3_ERR_MALFORMED_XML},
                {SITE(INDEX "<ErrorDocument><Key></Key></ErrorDocument>"), S3_ERR_INVALID_ARGUMENT},
                {SITE(INDEX "<RedirectAllRequestsTo><HostName>a</HostName></RedirectAllRequestsTo>"),
                 S3_ERR_MALFORMED_XML},
                {SITE("<RedirectAllRequestsTo><HostName>a&#13;b</HostName></RedirectAllRequestsTo>"),
                 S3_ERR_INVALID_REQUEST},
                {SITE("<RedirectAllRequestsTo><HostName>a</HostName><Protocol>ftp</Protocol></RedirectAllRequestsTo>"),
                 S3_ERR_INVALID_REQUEST},
                {SITE(INDEX RULES("")), S3_ERR_MALFORMED_XML},
                {SITE(INDEX RULES(RULE("", ""))), S3_ERR_MALFORMED_XML},
                {SITE(INDEX RULES(RULE(WHEN(""), TO_PREFIX("a")))), S3_ERR_MALFORMED_XML},
                {SITE(INDEX RULES(RULE("", TO_PREFIX("a") "<ReplaceKeyWith>b</ReplaceKeyWith>"))),
                 S3_ERR_INVALID_REQUEST},
                {SITE(INDEX RULES(RULE("", "<HttpRedirectCode>300</HttpRedirectCode>"))), S3_ERR_INVALID_REQUEST},
                {SITE(INDEX RULES(RULE("", "<HttpRedirectCode>400</HttpRedirectCode>"))), S3_ERR_INVALID_REQUEST},
                {SITE(INDEX RULES(RULE(WHEN(CODE("399")), TO_PREFIX("a")))), S3_ERR_INVALID_REQUEST},
                {SITE(INDEX RULES(RULE(WHEN(CODE("418")), TO_PREFIX("a")))), S3_ERR_INVALID_REQUEST},
                {SITE(INDEX RULES(RULE(WHEN(CODE("506")), TO_PREFIX("a")))), S3_ERR_INVALID_REQUEST},
                {SITE(INDEX RULES(RULE(WHEN(CODE("4o4")), TO_PREFIX("a")))), S3_ERR_MALFORMED_XML},
                {SITE(INDEX RULES(RULE("", "<HttpRedirectCode>306</HttpRedirectCode>"))), S3_ERR_INVALID_REQUEST},
                {SITE(INDEX RULES(RULE("", "<HttpRedirectCode>309</HttpRedirectCode>"))), S3_ERR_INVALID_REQUEST},
                {SITE(INDEX RULES(RULE("", "<HttpRedirectCode>3xx</HttpRedirectCode>"))), S3_ERR_MALFORMED_XML},
        };

        for (size_t i = 0; i < COUNT(cases); i++) {
                enum s3_error error = read_doc(S3_DOC_WEBSITE, cases[i].text);

                if (error != cases[i].error)
                        fail_msg("%s: %s", cases[i].text, s3_error_info(error)->code);
        }
}

/* What a store has from before a rule is served on. */
static void test_website_kept(void **state)
{
        static const char text[] =
                SITE(INDEX RULES(RULE(WHEN(CODE("499")), "<HttpRedirectCode>306</HttpRedirectCode>")));
        struct s3_doc *kept;

        assert_int_equal(s3_doc_read(S3_DOC_WEBSITE, s3_str_of(text), &kept), S3_OK);
        s3_doc_free(kept);
        assert_int_equal(read_doc(S3_DOC_WEBSITE, text), S3_ERR_INVALID_REQUEST);
}

static void test_website_rules_bound(void **state)
{
        static const char rule[] = RULE("", TO_PREFIX("a"));
        char *text = malloc(64u << 10), *p = stpcpy(text, "<WebsiteConfiguration>" INDEX "<RoutingRules>");

        for (unsigned i = 0; i < S3_WEBSITE_RULES_MAX; i++)
                p = stpcpy(p, rule);
        strcpy(p, "</RoutingRules></WebsiteConfiguration>");
        assert_int_equal(read_doc(S3_DOC_WEBSITE, text), S3_OK);
        strcpy(stpcpy(p, rule), "</RoutingRules></WebsiteConfiguration>");
        assert_int_equal(read_doc(S3_DOC_WEBSITE, text), S3_ERR_INVALID_REQUEST);
        free(text);
}

static void test_website_objects(void **state)
{
        assert_int_equal(read_doc(S3_DOC_WEBSITE, SITE(INDEX ERRORS)), S3_OK);
        ask("");
        expect(S3_WEBSITE_OBJECT, 200, "index.html");
        ask("docs/");
        expect(S3_WEBSITE_OBJECT, 200, "docs/index.html");
        ask("docs");
        expect(S3_WEBSITE_OBJECT, 200, "docs");
        failed("docs", 404);
        expect(S3_WEBSITE_OBJECT, 404, "error.html");
        failed("docs", 503);
        expect(S3_WEBSITE_PAGE, 503, "");
        assert_int_equal(read_doc(S3_DOC_WEBSITE, SITE(INDEX)), S3_OK);
        failed("docs", 403);
        expect(S3_WEBSITE_PAGE, 403, "");
}

static void test_website_folders(void **state)
{
        struct s3_website_request request = {.key = S3_STR("a b/c")};
        char key[S3_WEBSITE_KEY_SIZE], longest[1025];

        memset(longest, 'a', sizeof(longest));
        assert_int_equal(read_doc(S3_DOC_WEBSITE, SITE(INDEX)), S3_OK);
        assert_int_equal(s3_website_index(doc->config, S3_STR("docs"), key), 15);
        assert_memory_equal(key, "docs/index.html", 15);
        assert_int_equal(s3_website_index(doc->config, (struct s3_str){longest, 1024 - 11}, key), 1024);
        assert_int_equal(s3_website_index(doc->config, (struct s3_str){longest, 1024 - 10}, key), 0);
        longest[1023] = '/';
        request.key = (struct s3_str){longest, 1024};
        s3_website_ask(doc->config, &request, &answer);
        expect(S3_WEBSITE_PAGE, 404, "");
        request.key = S3_STR("a b/c");
        s3_website_to_folder(&request, &answer);
        expect(S3_WEBSITE_REDIRECT, 302, "/a%20b/c/");
        request.key = S3_STR("/other.example"); /* two slashes would begin another host */
        s3_website_to_folder(&request, &answer);
        expect(S3_WEBSITE_REDIRECT, 302, "/%2Fother.example/");
}

static void test_website_redirects(void **state)
{
        assert_int_equal(
                read_doc(S3_DOC_WEBSITE,
                         SITE("<RedirectAllRequestsTo><HostName>other.example</HostName><Protocol>https</Protocol>"
                              "</RedirectAllRequestsTo>")),
                S3_OK);
        ask("a b");
        expect(S3_WEBSITE_REDIRECT, 301, "https://other.example/a%20b");
        assert_int_equal(
                read_doc(S3_DOC_WEBSITE,
                         SITE(INDEX RULES(RULE(WHEN(PREFIX("docs/")), TO_PREFIX("documents/")) RULE(
                                 WHEN(PREFIX("old") CODE("404")),
                                 "<ReplaceKeyWith>gone\r\n.html</ReplaceKeyWith><HttpRedirectCode>302</"
                                 "HttpRedirectCode>") RULE(WHEN(CODE("404")),
                                                           "<HostName>archive.example:81</HostName><Protocol>http</"
                                                           "Protocol>" TO_PREFIX("x/"))))),
                S3_OK);
        ask("docs/a");
        expect(S3_WEBSITE_REDIRECT, 301, "http://b.web.example:9000/documents/a");
        ask("doc");
        expect(S3_WEBSITE_OBJECT, 200, "doc");
        failed("older", 404);
        expect(S3_WEBSITE_REDIRECT, 302, "http://b.web.example:9000/gone%0A.html"); /* no header of its own */
        failed("new", 404);
        expect(S3_WEBSITE_REDIRECT, 301, "http://archive.example:81/x/new");
        failed("new", 403);
        expect(S3_WEBSITE_PAGE, 403, "");
}

/* The longest that a document and a request can make fits. */
static void test_website_longest(void **state)
{
        char text[4096], bytes[1025], *p;
        struct s3_website_request request = {.host = S3_STR("h"), .key = {bytes, 1024}};

        memset(bytes, ' ', 1024);
        bytes[1024] = '\0';
        p = stpcpy(text, "<WebsiteConfiguration>" INDEX "<RoutingRules><RoutingRule><Redirect><ReplaceKeyPrefixWith>");
        p = stpcpy(p, bytes);
        strcpy(p, "</ReplaceKeyPrefixWith></Redirect></RoutingRule></RoutingRules></WebsiteConfiguration>");
        assert_int_equal(read_doc(S3_DOC_WEBSITE, text), S3_OK);
        s3_website_ask(doc->config, &request, &answer);
        assert_int_equal(answer.kind, S3_WEBSITE_REDIRECT);
        assert_int_equal(answer.len, strlen("http://h/") + 2 * 1024 * 3);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_website_refused),   cmocka_unit_test(test_website_rules_bound),
                cmocka_unit_test(test_website_objects),   cmocka_unit_test(test_website_folders),
                cmocka_unit_test(test_website_redirects), cmocka_unit_test(test_website_longest),
                cmocka_unit_test(test_website_kept),
        };

        random_seed();
        return cmocka_run_group_tests(tests, NULL, teardown);
}
