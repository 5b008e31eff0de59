/*
 * test_small_document.c - requests for small documents beside objects and buckets, and deletes of
 * versions: what goes out, and what comes of the answer.
 */
#include "tests/unit/client/fake_s3.h"

#include <errno.h>

/* The last request; what is answered. */
struct exchange {
        char line[256], checksum[512], bypass[512];
        char body[512];
        int status;
        const char *headers, *text;
};

static void serve_exchange(void *arg, const struct fake_request *request, struct fake_reply *reply)
{
        struct exchange *exchange = arg;

        snprintf(exchange->line, sizeof(exchange->line), "%s %.200s", request->method, request->target);
        fake_header(request, "x-amz-checksum-crc32", exchange->checksum);
        fake_header(request, "x-amz-bypass-governance-retention", exchange->bypass);
        snprintf(exchange->body, sizeof(exchange->body), "%.*s", (int)request->body_len,
                 request->body != NULL ? request->body : "");
        fake_text(reply, exchange->text);
        reply->status = exchange->status;
        snprintf(reply->headers, sizeof(reply->headers), "%s", exchange->headers);
}

struct fixture {
        struct fake_s3 fake;
        struct exchange exchange;
        struct mr_client *client;
};

static void set_up(struct fixture *f)
{
        memset(f, 0, sizeof(*f));
        f->exchange = (struct exchange){.status = 200, .headers = "", .text = ""};
        fake_start(&f->fake, serve_exchange, &f->exchange);
        f->client = fake_client(&f->fake, 1);
}

static void tear_down(struct fixture *f)
{
        mr_client_free(f->client);
        fake_stop(&f->fake);
}

static void a_document_is_put_with_a_checksum(void **state)
{
        struct mr_sub_resource what = {
                .method = "PUT",
                .bucket = "bkt",
                .key = "a b",
                .name = "retention",
                .version_id = "v+1",
                .body = "<Retention/>",
                .len = 12,
                .bypass_governance = true,
        };
        struct mr_document answer;
        struct mr_error err;
        struct fixture f;

        set_up(&f);
        f.exchange.headers = "x-amz-version-id: v+1\r\n";
        assert_int_equal(mr_sub_resource(f.client, &what, &answer, &err), 0);
        assert_string_equal(f.exchange.line, "PUT /bkt/a%20b?retention=&versionId=v%2B1");
        assert_string_equal(f.exchange.body, "<Retention/>");
        assert_string_equal(f.exchange.bypass, "true");
        assert_true(f.exchange.checksum[0] != '\0');
        assert_string_equal(answer.version_id, "v+1");
        assert_string_equal(answer.text, "");
        mr_document_free(&answer);
        what.bypass_governance = false;
        /* nobody wants the answer */
        assert_int_equal(mr_sub_resource(f.client, &what, NULL, NULL), 0);
        assert_string_equal(f.exchange.bypass, "");
        tear_down(&f);
}

static void a_document_is_handed_over_as_it_is(void **state)
{
        struct mr_sub_resource what = {.method = "GET", .bucket = "bkt", .name = "tagging"};
        struct mr_document answer;
        struct mr_error err;
        struct fixture f;

        set_up(&f);
        f.exchange.text = "<Tagging>x</Tagging>";
        assert_int_equal(mr_sub_resource(f.client, &what, &answer, &err), 0);
        assert_string_equal(f.exchange.line, "GET /bkt?tagging=");
        assert_string_equal(answer.text, "<Tagging>x</Tagging>");
        assert_int_equal(answer.len, 20);
        assert_string_equal(answer.version_id, "");
        mr_document_free(&answer);
        f.exchange.status = 404;
        f.exchange.text = "<Error><Code>NoSuchTagSet</Code><Message>none</Message></Error>";
        assert_int_equal(mr_sub_resource(f.client, &what, &answer, &err), -ENOENT);
        assert_string_equal(err.s3_code, "NoSuchTagSet");
        assert_null(answer.text);
        mr_document_free(&answer);
        tear_down(&f);
}

static void requests_that_are_none_are_not_sent(void **state)
{
        static const struct mr_sub_resource cases[] = {
                {.method = "POST", .bucket = "bkt", .name = "tagging"},
                {.bucket = "bkt", .name = "tagging"},
                {.method = "GET", .bucket = "", .name = "tagging"},
                {.method = "GET", .name = "tagging"},
                {.method = "GET", .bucket = "bkt", .name = ""},
                {.method = "GET", .bucket = "bkt"},
                {.method = "GET", .bucket = "bkt", .key = "", .name = "tagging"},
        };
        struct mr_document answer;
        struct mr_error err;
        struct fixture f;

        set_up(&f);
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                assert_int_equal(mr_sub_resource(f.client, &cases[i], &answer, &err), -EINVAL);
                assert_int_equal(err.code, -EINVAL);
        }
        assert_int_equal(f.fake.requests, 0);
        tear_down(&f);
}

static void a_delete_names_its_version(void **state)
{
        struct mr_delete del = {.bucket = "bkt", .key = "k", .version_id = "null", .bypass_governance = true};
        struct mr_error err;
        struct fixture f;

        set_up(&f);
        f.exchange.status = 204;
        assert_int_equal(mr_delete_version(f.client, &del, &err), 0);
        assert_string_equal(f.exchange.line, "DELETE /bkt/k?versionId=null");
        assert_string_equal(f.exchange.bypass, "true");
        assert_int_equal(mr_delete(f.client, "bkt", "k", &err), 0);
        assert_string_equal(f.exchange.line, "DELETE /bkt/k");
        assert_string_equal(f.exchange.bypass, "");
        tear_down(&f);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(a_document_is_put_with_a_checksum),
                cmocka_unit_test(a_document_is_handed_over_as_it_is),
                cmocka_unit_test(requests_that_are_none_are_not_sent),
                cmocka_unit_test(a_delete_names_its_version),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
