/*
 * test_lost_answers.c - requests that an endpoint carries out, and whose answer it never sends: what
 * is sent a second time and what is not, and what the answer to a repetition is worth.
 */
#include "tests/unit/client/fake_s3.h"

#include <errno.h>

/* What the endpoint does with one request after another; 200 to all further ones. */
struct answers {
        struct {
                int status; /* -1: it hangs up */
                const char *code;
        } answer[8];
        unsigned changes; /* requests but GETs */
};

static void serve_answers(void *arg, const struct fake_request *request, struct fake_reply *reply)
{
        struct answers *answers = arg;
        unsigned n = request->number - 1;

        answers->changes += strcmp(request->method, "GET") != 0;
        if (n >= 8 || answers->answer[n].status == 0)
                fake_text(reply, "{}");
        else if (answers->answer[n].status == -1)
                reply->status = 0;
        else if (answers->answer[n].code != NULL)
                fake_error(reply, answers->answer[n].status, answers->answer[n].code);
        else
                reply->status = answers->answer[n].status;
}

/* ---- what must not be sent twice ------------------------------------------------------------- */

static int iam_call(struct mr_client *client)
{
        static const char *const pairs[] = {"Action", "CreateAccessKey", "UserName", "u", NULL};
        struct mr_reply reply;
        int rv = mr_iam(client, "iam", pairs, &reply, NULL);

        mr_reply_free(&reply);
        return rv;
}

static int admin_call(struct mr_client *client)
{
        struct mr_reply reply;
        int rv = mr_admin(client, "POST", "/admin/v1/verify", NULL, &reply, NULL);

        mr_reply_free(&reply);
        return rv;
}

/* curl repeats by itself what went over a connection that it had kept. */
static void calls_are_sent_once(void **state)
{
        static int (*const calls[])(struct mr_client *client) = {iam_call, admin_call};

        for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
                struct answers answers = {.answer[1].status = -1};
                struct fake_s3 fake;
                struct mr_client *client;
                struct mr_reply reply;

                fake_start(&fake, serve_answers, &answers);
                client = fake_client(&fake, 5);
                assert_int_equal(mr_probe_endpoint(client, &reply, NULL), 0);
                mr_reply_free(&reply);
                assert_int_equal(calls[i](client), -EIO);
                assert_int_equal(calls[i](client), 0);
                mr_client_free(client);
                fake_stop(&fake);
                assert_int_equal(answers.changes, 2);
        }
}

/* ---- what is repeated ------------------------------------------------------------------------ */

struct outcome {
        struct mr_error error;
        unsigned requests;
};

static struct outcome outcome_of(int (*call)(struct mr_client *client, struct mr_error *err), struct answers answers,
                                 unsigned attempts)
{
        struct outcome outcome;
        struct fake_s3 fake;
        struct mr_client *client;
        int rv;

        fake_start(&fake, serve_answers, &answers);
        client = fake_client(&fake, attempts);
        rv = call(client, &outcome.error);
        assert_int_equal(rv, outcome.error.code);
        mr_client_free(client);
        fake_stop(&fake);
        outcome.requests = fake.requests;
        return outcome;
}

static int put_object(struct mr_client *client, bool if_none_match, const char *if_match, struct mr_error *err)
{
        static char bytes[] = "bytes";
        struct mr_put put = {.bucket = "bkt",
                             .key = "k",
                             .place = {.memory = bytes, .len = 5},
                             .if_none_match = if_none_match,
                             .if_match = if_match};
        struct mr_result result;
        int rv = mr_put(client, &put, &result);

        *err = result.error;
        mr_result_free(&result);
        return rv;
}

static int create_object(struct mr_client *client, struct mr_error *err)
{
        return put_object(client, true, NULL, err);
}

static int replace_object(struct mr_client *client, struct mr_error *err)
{
        return put_object(client, false, "e", err);
}

static int copy_object(struct mr_client *client, struct mr_error *err)
{
        return mr_copy(client,
                       &(struct mr_copy){.bucket = "bkt",
                                         .key = "k",
                                         .source_bucket = "bkt",
                                         .source_key = "from",
                                         .if_none_match = true},
                       err);
}

static int delete_object(struct mr_client *client, struct mr_error *err)
{
        return mr_delete(client, "bkt", "k", err);
}

static int create_bucket(struct mr_client *client, struct mr_error *err)
{
        return mr_bucket_create(client, "bkt", err);
}

static int delete_bucket(struct mr_client *client, struct mr_error *err)
{
        return mr_bucket_delete(client, "bkt", err);
}

static int abort_upload(struct mr_client *client, struct mr_error *err)
{
        return mr_upload_abort(client, "bkt", "k", "id", err);
}

static int get_object(struct mr_client *client, struct mr_error *err)
{
        struct mr_get get = {.bucket = "bkt", .key = "k", .if_match = "e"};
        struct mr_result result;
        char into[16];
        int rv;

        get.place = (struct mr_place){.memory = into, .len = sizeof(into)};
        rv = mr_get(client, &get, &result);
        *err = result.error;
        mr_result_free(&result);
        return rv;
}

/* Failures that what was done before may be the reason of, and one that says nothing of it. */
static const struct {
        int (*call)(struct mr_client *client, struct mr_error *err);
        int status;
        const char *code;
        int rv; /* of a first attempt */
} repeated[] = {
        {create_object, 412, "PreconditionFailed", -EEXIST},
        {create_object, 409, "ConditionalRequestConflict", -EINVAL},
        {replace_object, 412, "PreconditionFailed", -EEXIST},
        {copy_object, 412, "PreconditionFailed", -EEXIST},
        {copy_object, 200, "PreconditionFailed", -EEXIST},
        {create_bucket, 409, "BucketAlreadyOwnedByYou", -EEXIST},
        {create_bucket, 409, "BucketAlreadyExists", -EEXIST},
        {delete_bucket, 404, "NoSuchBucket", -ENOENT},
        {abort_upload, 404, "NoSuchUpload", -ENOENT},
        {create_object, 403, "AccessDenied", -EACCES},
};

static void a_lost_answer_leaves_doubt(void **state)
{
        static const struct {
                int status;
                const char *code;
        } lost[] = {{-1, NULL}, {500, "InternalError"}, {503, "ServiceUnavailable"}};

        for (size_t i = 0; i < sizeof(repeated) / sizeof(repeated[0]); i++)
                for (size_t k = 0; k < sizeof(lost) / sizeof(lost[0]); k++) {
                        struct answers answers = {.answer = {{lost[k].status, lost[k].code},
                                                             {repeated[i].status, repeated[i].code}}};
                        struct outcome outcome = outcome_of(repeated[i].call, answers, 2);

                        assert_int_equal(outcome.error.code, -EIO);
                        assert_int_equal(outcome.error.http_status, repeated[i].status);
                        assert_string_equal(outcome.error.s3_code, repeated[i].code);
                        assert_string_equal(outcome.error.message, "said so; an earlier attempt, whose outcome is unknown, may "
                                                                   "have done it");
                        assert_int_equal(outcome.requests, 2);
                }
}

static void a_first_answer_is_believed(void **state)
{
        for (size_t i = 0; i < sizeof(repeated) / sizeof(repeated[0]); i++) {
                struct answers answers = {.answer[0] = {repeated[i].status, repeated[i].code}};
                struct outcome outcome = outcome_of(repeated[i].call, answers, 1);

                assert_int_equal(outcome.error.code, repeated[i].rv);
                assert_string_equal(outcome.error.message, "said so");
        }
}

/* The attempts before it were refused, with nothing done. */
static void refusals_leave_none(void **state)
{
        struct answers answers = {.answer = {{400, "RequestTimeout"}, {412, "PreconditionFailed"}}};
        struct outcome outcome = outcome_of(create_object, answers, 2);

        assert_int_equal(outcome.error.code, -EEXIST);
        assert_int_equal(outcome.requests, 2);
}

static void what_no_attempt_can_have_caused(void **state)
{
        struct answers no_bucket = {.answer = {{-1, NULL}, {404, "NoSuchBucket"}}};
        struct answers changed = {.answer = {{-1, NULL}, {412, "PreconditionFailed"}}};

        assert_int_equal(outcome_of(create_object, no_bucket, 2).error.code, -ENOENT);
        assert_int_equal(outcome_of(delete_object, no_bucket, 2).error.code, -ENOENT);
        assert_int_equal(outcome_of(get_object, changed, 2).error.code, -ESTALE);
}

/* curl repeats by itself what went over a connection that it had kept: that is an attempt, too. */
static int create_over_a_kept_connection(struct mr_client *client, struct mr_error *err)
{
        assert_int_equal(mr_bucket_head(client, "bkt", NULL), 0);
        return create_object(client, err);
}

static int copy_over_a_kept_connection(struct mr_client *client, struct mr_error *err)
{
        assert_int_equal(mr_bucket_head(client, "bkt", NULL), 0);
        return copy_object(client, err);
}

static void copies_that_curl_sends_count(void **state)
{
        struct answers answers = {.answer = {{200, NULL}, {-1, NULL}, {412, "PreconditionFailed"}}};
        struct outcome outcome = outcome_of(create_over_a_kept_connection, answers, 1);

        assert_int_equal(outcome.error.code, -EIO);
        assert_int_equal(outcome.requests, 3);
        answers.answer[2].status = 200; /* with an error in it */
        outcome = outcome_of(copy_over_a_kept_connection, answers, 1);
        assert_int_equal(outcome.error.code, -EIO);
        assert_int_equal(outcome.requests, 3);
}

/* Answers to others do not become it. */
static void what_leaves_it_open_stays(void **state)
{
        struct answers slow = {.answer = {{-1, NULL}, {503, "SlowDown"}}};
        struct answers failed = {.answer = {{-1, NULL}, {500, "InternalError"}}};

        assert_int_equal(outcome_of(create_object, slow, 2).error.code, -EBUSY);
        assert_int_equal(outcome_of(create_object, failed, 2).error.code, -EREMOTEIO);
}

/* Nobody is there any more: that does not mean that nothing was done. */
static struct fake_s3 leaving;

static void serve_and_leave(void *arg, const struct fake_request *request, struct fake_reply *reply)
{
        shutdown(leaving.listen_fd, SHUT_RDWR);
        reply->status = 0;
}

static void an_endpoint_that_leaves(void **state)
{
        struct mr_client *client;
        struct mr_error err;

        fake_start(&leaving, serve_and_leave, NULL);
        client = fake_client(&leaving, 3);
        assert_int_equal(create_object(client, &err), -EIO);
        assert_int_equal(err.http_status, 0);
        assert_int_equal(create_object(client, &err), -ECONNREFUSED);
        mr_client_free(client);
        fake_stop(&leaving);
        assert_int_equal(leaving.requests, 1);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(calls_are_sent_once),
                cmocka_unit_test(a_lost_answer_leaves_doubt),
                cmocka_unit_test(a_first_answer_is_believed),
                cmocka_unit_test(refusals_leave_none),
                cmocka_unit_test(what_no_attempt_can_have_caused),
                cmocka_unit_test(copies_that_curl_sends_count),
                cmocka_unit_test(what_leaves_it_open_stays),
                cmocka_unit_test(an_endpoint_that_leaves),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
