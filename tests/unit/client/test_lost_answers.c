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

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(calls_are_sent_once),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
