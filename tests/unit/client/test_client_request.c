/*
 * test_client_request.c - single requests against a server of the test's own: what is sent, what is
 * tried again and how often, what failures become.
 */
#include "tests/unit/client/fake_s3.h"

#include <errno.h>
#include <time.h>

/* A server that answers a list of statuses, one after the other, and then 200. */
struct script {
        int status[8];
        const char *code[8];
        char target[8300], authorization[1024], sha256[512];
};

static void serve_script(void *arg, const struct fake_request *request, struct fake_reply *reply)
{
        struct script *script = arg;
        unsigned n = request->number - 1;
        char value[512];

        snprintf(script->target, sizeof(script->target), "%s", request->target);
        snprintf(script->authorization, sizeof(script->authorization), "%s",
                 fake_header(request, "Authorization", value));
        snprintf(script->sha256, sizeof(script->sha256), "%s", fake_header(request, "x-amz-content-sha256", value));
        if (n < 8 && script->status[n] == -1) {
                reply->status = 0;
                return;
        }
        if (n < 8 && script->status[n] != 0) {
                fake_error(reply, script->status[n], script->code[n]);
                return;
        }
        reply->status = strcmp(request->method, "DELETE") == 0 ? 204 : 200;
}

/* Runs one DELETE of a key against a script. */
static int delete_with(struct script *script, unsigned attempts, const char *key, struct mr_error *err,
                       unsigned *requests)
{
        struct fake_s3 fake;
        struct mr_client *client;
        int rv;

        fake_start(&fake, serve_script, script);
        client = fake_client(&fake, attempts);
        rv = mr_delete(client, "bkt", key, err);
        mr_client_free(client);
        fake_stop(&fake);
        *requests = fake.requests;
        return rv;
}

static void keys_are_escaped_and_signed(void **state)
{
        struct script script = {0};
        struct mr_error err;
        unsigned requests;

        assert_int_equal(delete_with(&script, 1, "a//../b c+%\xc3\xbc?&=#", &err, &requests), 0);
        assert_string_equal(script.target, "/bkt/a//../b%20c%2B%25%C3%BC%3F%26%3D%23");
        assert_non_null(strstr(script.authorization, "AWS4-HMAC-SHA256 Credential=AKID/"));
        assert_non_null(strstr(script.authorization, "/us-east-1/s3/aws4_request"));
        assert_non_null(strstr(script.authorization, "host;x-amz-content-sha256;x-amz-date"));
        assert_string_equal(script.sha256, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

static void passing_failures_are_tried_again(void **state)
{
        struct script script = {
                .status = {500, -1, 503, 400},
                .code = {"InternalError", NULL, "SlowDown", "RequestTimeout"},
        };
        struct mr_error err;
        unsigned requests;

        assert_int_equal(delete_with(&script, 5, "k", &err, &requests), 0);
        assert_int_equal(requests, 5);
}

static void attempts_are_bounded(void **state)
{
        struct script script = {
                .status = {503, 503, 503, 503},
                .code = {"SlowDown", "SlowDown", "SlowDown", "SlowDown"},
        };
        struct mr_error err;
        unsigned requests;

        assert_int_equal(delete_with(&script, 3, "k", &err, &requests), -EBUSY);
        assert_int_equal(requests, 3);
        assert_int_equal(err.code, -EBUSY);
        assert_int_equal(err.http_status, 503);
        assert_string_equal(err.s3_code, "SlowDown");
        assert_string_equal(err.message, "said so");
        assert_string_equal(err.request_id, "R1");
}

static void lasting_failures_are_not(void **state)
{
        static const struct {
                int status;
                const char *code;
                int rv;
        } cases[] = {
                {404, "NoSuchKey", -ENOENT},
                {404, "NoSuchBucket", -ENOENT},
                {403, "AccessDenied", -EACCES},
                {403, "RequestTimeTooSkewed", -EACCES},
                {409, "BucketNotEmpty", -ENOTEMPTY},
                {409, "BucketAlreadyOwnedByYou", -EEXIST},
                {412, "PreconditionFailed", -EEXIST},
                {507, "InsufficientStorage", -ENOSPC},
                {501, "NotImplemented", -EREMOTEIO},
                {400, "InvalidArgument", -EINVAL},
                {418, "Teapot", -EINVAL},
                {307, "TemporaryRedirect", -EREMOTEIO},
        };

        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                struct script script = {.status = {cases[i].status}, .code = {cases[i].code}};
                struct mr_error err;
                unsigned requests;

                assert_int_equal(delete_with(&script, 5, "k", &err, &requests), cases[i].rv);
                assert_int_equal(requests, 1);
        }
}

static void serve_nonsense(void *arg, const struct fake_request *request, struct fake_reply *reply)
{
        reply->status = *(int *)arg;
        fake_text(reply, "<html><body>\x01proxy</body></html>");
}

static void answers_without_a_document_are_told_by_status(void **state)
{
        static const struct {
                int status, rv;
        } cases[] = {{404, -ENOENT}, {403, -EACCES}, {502, -EREMOTEIO}, {301, -EREMOTEIO}, {416, -ESTALE}};

        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                int status = cases[i].status;
                struct fake_s3 fake;
                struct mr_client *client;
                struct mr_error err;

                fake_start(&fake, serve_nonsense, &status);
                client = fake_client(&fake, 1);
                assert_int_equal(mr_delete(client, "bkt", "k", &err), cases[i].rv);
                assert_true(err.message[0] != '\0');
                assert_string_equal(err.s3_code, "");
                mr_client_free(client);
                fake_stop(&fake);
        }
}

static void nobody_there(void **state)
{
        struct mr_settings settings;
        struct mr_client *client;
        struct mr_error err;

        mr_settings_default(&settings);
        snprintf(settings.endpoint, sizeof(settings.endpoint), "http://127.0.0.1:1");
        snprintf(settings.access_key, sizeof(settings.access_key), "AKID");
        settings.attempts = 2;
        assert_int_equal(mr_client_new(&settings, &client), 0);
        assert_int_equal(mr_delete(client, "bkt", "k", &err), -ECONNREFUSED);
        assert_int_equal(err.http_status, 0);
        assert_int_equal(mr_delete(client, "bkt", "k", NULL), -ECONNREFUSED);
        mr_client_free(client);
}

static void serve_late(void *arg, const struct fake_request *request, struct fake_reply *reply)
{
        struct timespec pause = {.tv_sec = 3};

        nanosleep(&pause, NULL);
}

static void a_silent_endpoint_is_given_up(void **state)
{
        struct mr_settings settings;
        struct mr_client *client;
        struct mr_error err;
        struct fake_s3 fake;

        fake_start(&fake, serve_late, NULL);
        mr_settings_default(&settings);
        snprintf(settings.endpoint, sizeof(settings.endpoint), "%s", fake.url);
        snprintf(settings.access_key, sizeof(settings.access_key), "AKID");
        settings.stall_timeout_s = 1;
        settings.attempts = 1;
        assert_int_equal(mr_client_new(&settings, &client), 0);
        assert_int_equal(mr_delete(client, "bkt", "k", &err), -ETIMEDOUT);
        mr_client_free(client);
        fake_stop(&fake);
}

static void *cancel_soon(void *arg)
{
        struct timespec pause = {.tv_nsec = 150 * 1000 * 1000};

        nanosleep(&pause, NULL);
        mr_client_cancel(arg);
        return NULL;
}

static void cancellation_ends_waiting(void **state)
{
        struct script script = {.status = {503, 503, 503, 503, 503, 503, 503, 503}};
        struct fake_s3 fake;
        struct mr_client *client;
        struct timespec before, after;
        struct mr_error err;
        pthread_t thread;

        for (int i = 0; i < 8; i++)
                script.code[i] = "SlowDown";
        fake_start(&fake, serve_script, &script);
        client = fake_client(&fake, 20);
        clock_gettime(CLOCK_MONOTONIC, &before);
        assert_int_equal(pthread_create(&thread, NULL, cancel_soon, client), 0);
        assert_int_equal(mr_delete(client, "bkt", "k", &err), -ECANCELED);
        clock_gettime(CLOCK_MONOTONIC, &after);
        assert_true(after.tv_sec - before.tv_sec < 3);
        pthread_join(thread, NULL);
        assert_true(mr_client_canceled(client));
        assert_int_equal(mr_delete(client, "bkt", "k", &err), -ECANCELED);
        mr_client_free(client);
        fake_stop(&fake);
}

static void an_abort_goes_through_after_cancellation(void **state)
{
        struct script script = {.status = {503}, .code = {"SlowDown"}};
        struct fake_s3 fake;
        struct mr_client *client;

        fake_start(&fake, serve_script, &script);
        client = fake_client(&fake, 20);
        mr_client_cancel(client);
        assert_int_equal(mr_upload_abort(client, "bkt", "k", "id", NULL), 0);
        mr_client_free(client);
        fake_stop(&fake);
        assert_int_equal(fake.requests, 2);
}

static void serve_admin(void *arg, const struct fake_request *request, struct fake_reply *reply)
{
        struct script *script = arg;
        char value[512];

        snprintf(script->target, sizeof(script->target), "%s %s", request->method, request->target);
        snprintf(script->authorization, sizeof(script->authorization), "%s",
                 fake_header(request, "Authorization", value));
        reply->status = 409;
        fake_text(reply, "{\"a\":1}");
}

/* Calls itself 'second' from the third request on; refuses calls that name another start. */
static void serve_starts(void *arg, const struct fake_request *request, struct fake_reply *reply)
{
        unsigned *seen = arg;
        const char *start = ++*seen <= 2 ? "first" : "second";
        char value[512];

        snprintf(reply->headers, sizeof(reply->headers), "x-millrace-start: %s\r\n", start);
        reply->status = strcmp(fake_header(request, "x-millrace-start", value), start) == 0 ? 200 : 403;
        assert_true(reply->status == 403 || strstr(fake_header(request, "Authorization", value), "x-millrace-start") != NULL);
        fake_text(reply, "{}");
}

static void a_call_is_sent_again_for_the_start_that_is_there(void **state)
{
        unsigned seen = 0;
        struct fake_s3 fake;
        struct mr_client *client;
        struct mr_reply reply;

        fake_start(&fake, serve_starts, &seen);
        client = fake_client(&fake, 5);
        assert_int_equal(mr_admin(client, "GET", "/admin/v1/info", NULL, &reply, NULL), 0);
        assert_int_equal(reply.status, 200);
        mr_reply_free(&reply);
        assert_int_equal(seen, 2);
        assert_int_equal(mr_admin(client, "GET", "/admin/v1/info", NULL, &reply, NULL), 0); /* it was restarted */
        assert_int_equal(reply.status, 200);
        mr_reply_free(&reply);
        assert_int_equal(seen, 4);
        assert_int_equal(mr_admin(client, "GET", "/admin/v1/info", NULL, &reply, NULL), 0);
        assert_int_equal(reply.status, 200);
        mr_reply_free(&reply);
        assert_int_equal(seen, 5);
        mr_client_free(client);
        fake_stop(&fake);
}

/* With every answer another one. */
static void serve_no_start_twice(void *arg, const struct fake_request *request, struct fake_reply *reply)
{
        unsigned *seen = arg;

        snprintf(reply->headers, sizeof(reply->headers), "x-millrace-start: number-%u\r\n", ++*seen);
        reply->status = 403;
        fake_text(reply, "{}");
}

static void a_call_is_not_sent_again_for_ever(void **state)
{
        unsigned seen = 0;
        struct fake_s3 fake;
        struct mr_client *client;
        struct mr_reply reply;

        fake_start(&fake, serve_no_start_twice, &seen);
        client = fake_client(&fake, 5);
        assert_int_equal(mr_admin(client, "GET", "/admin/v1/info", NULL, &reply, NULL), -EAGAIN);
        assert_int_equal(seen, 3);
        mr_reply_free(&reply);
        mr_client_free(client);
        fake_stop(&fake);
}

static void any_answer_of_the_admin_listener_is_given_back(void **state)
{
        struct script script = {0};
        struct fake_s3 fake;
        struct mr_client *client;
        struct mr_reply reply;

        fake_start(&fake, serve_admin, &script);
        client = fake_client(&fake, 5);
        assert_int_equal(mr_admin(client, "POST", "/admin/v1/verify", NULL, &reply, NULL), 0);
        assert_int_equal(reply.status, 409);
        assert_string_equal(reply.body, "{\"a\":1}");
        assert_string_equal(script.target, "POST /admin/v1/verify");
        assert_true(script.authorization[0] != '\0');
        assert_int_equal(reply.date_s, 1369353600);
        mr_reply_free(&reply);
        assert_int_equal(mr_probe_admin(client, "/health/ready", &reply, NULL), 0);
        assert_string_equal(script.target, "GET /health/ready");
        assert_string_equal(script.authorization, "");
        mr_reply_free(&reply);
        assert_int_equal(mr_probe_endpoint(client, &reply, NULL), 0);
        assert_string_equal(script.target, "GET /");
        mr_reply_free(&reply);
        assert_int_equal(fake.requests, 3);
        mr_client_free(client);
        fake_stop(&fake);
}

static void serve_head(void *arg, const struct fake_request *request, struct fake_reply *reply)
{
        fake_text(reply, "12345");
        snprintf(reply->headers, sizeof(reply->headers),
                 "ETag: \"abc-3\"\r\nLast-Modified: Fri, 24 May 2013 00:00:00 GMT\r\nX-Amz-Meta-Colour: red\r\n"
                 "x-amz-checksum-sha256: AAAA-3\r\n");
}

static void head_tells_what_is_known(void **state)
{
        struct mr_object_info info;
        struct fake_s3 fake;
        struct mr_client *client;
        bool colour = false;

        fake_start(&fake, serve_head, NULL);
        client = fake_client(&fake, 1);
        assert_int_equal(mr_head(client, "bkt", "k", &info, NULL), 0);
        assert_int_equal(info.size, 5);
        assert_int_equal(info.mtime_s, 1369353600);
        assert_string_equal(info.etag, "abc-3");
        assert_string_equal(info.checksum_kind, "SHA256");
        assert_true(info.checksum_composite);
        for (unsigned i = 0; i < info.header_count; i++)
                colour = colour || (strcmp(info.headers[i].name, "x-amz-meta-colour") == 0 &&
                                    strcmp(info.headers[i].value, "red") == 0);
        assert_true(colour);
        mr_object_info_free(&info);
        mr_client_free(client);
        fake_stop(&fake);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(keys_are_escaped_and_signed),
                cmocka_unit_test(passing_failures_are_tried_again),
                cmocka_unit_test(attempts_are_bounded),
                cmocka_unit_test(lasting_failures_are_not),
                cmocka_unit_test(answers_without_a_document_are_told_by_status),
                cmocka_unit_test(nobody_there),
                cmocka_unit_test(a_silent_endpoint_is_given_up),
                cmocka_unit_test(cancellation_ends_waiting),
                cmocka_unit_test(an_abort_goes_through_after_cancellation),
                cmocka_unit_test(any_answer_of_the_admin_listener_is_given_back),
                cmocka_unit_test(a_call_is_sent_again_for_the_start_that_is_there),
                cmocka_unit_test(a_call_is_not_sent_again_for_ever),
                cmocka_unit_test(head_tells_what_is_known),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
