/*
 * test_admin_forward.c - admin calls from a node's listener to the pool's leader: what the leader says,
 * in any shape; questions that make no sense; more of them than are held; an end while some wait.
 */
#include <errno.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "remote_home.h"
#include "server/admin_private.h"

static sem_t answered;

/* remote/ would send it. */
void __wrap_rem_home_asked_answer(struct rem_home_asked *asked);
void __wrap_rem_home_asked_answer(struct rem_home_asked *asked)
{
        sem_post(&answered);
}

/* ---- the node's side ------------------------------------------------------------------------- */

static const char *said;
static ssize_t said_len; /* or an error */
static char asked_text[200];

static ssize_t leader_says(void *arg, unsigned pool, const uint8_t *bytes, size_t len, uint8_t *room)
{
        snprintf(asked_text, sizeof(asked_text), "%.*s", (int)len, (const char *)bytes);
        if (said_len > 0)
                memcpy(room, said, (size_t)said_len);
        return said_len;
}

static unsigned forwarded(const char *text, ssize_t len, char **body)
{
        struct srv_admin admin = {.ask_leader = leader_says};
        char target[] = "/admin/v1/scrub?a=b", sent[] = "{}";
        struct admin_request request = {.admin = &admin, .method = "POST", .target = target, .body = sent, .body_len = 2};
        struct admin_answer answer;

        said = text;
        said_len = len;
        answer = srv_admin_forward(&request, CL_POOL);
        assert_string_equal(asked_text, "POST /admin/v1/scrub?a=b\n{}");
        assert_non_null(answer.type);
        if (body != NULL)
                *body = strndup(answer.body, answer.len);
        free(answer.body);
        return answer.status;
}

static void test_what_the_leader_says(void **state)
{
        static const char *const nonsense[] = {"200 J", "", "\n", "J 200\n", "99 J\n", "600 J\nx", "200\n", "-20 J\n"};
        char *body;
        unsigned i;

        assert_int_equal(forwarded("202 J\n{\"a\":1}", 13, &body), 202);
        assert_string_equal(body, "{\"a\":1}");
        free(body);
        assert_int_equal(forwarded("200 M\n", 6, &body), 200);
        assert_string_equal(body, "");
        free(body);
        for (i = 0; i < sizeof(nonsense) / sizeof(nonsense[0]); i++)
                assert_int_equal(forwarded(nonsense[i], (ssize_t)strlen(nonsense[i]), NULL), 502);
        assert_int_equal(forwarded(NULL, -EHOSTDOWN, NULL), 503);
        assert_int_equal(forwarded(NULL, -ETIMEDOUT, &body), 503);
        assert_non_null(strstr(body, "it may have been done"));
        free(body);
        assert_int_equal(forwarded(NULL, -EMSGSIZE, NULL), 500);
}

/* ---- the leader's ---------------------------------------------------------------------------- */

static void test_questions_of_nodes(void **state)
{
        static const struct {
                const char *text, *begins;
        } asked[] = {
                {"GET /admin/v1/nothing\n", "404 J\n"}, {"GET /health/live\n", "404 J\n"}, {"POST /admin/v1/info\n", "404 J\n"},
                {"GET /admin/v1/people\n", "404 J\n"},  {"", "400 J\n"},                   {"GET", "400 J\n"},
                {"GET /admin/v1/info", "400 J\n"},      {"GET\n/x y", "400 J\n"},          {"TOOLONGAMETHOD /x\n", "400 J\n"},
                {" \n", "400 J\n"},
        };
        struct srv_admin admin = {.conn_count = 0};
        struct rem_home_asked one;
        unsigned i;

        assert_int_equal(srv_admin_far_start(&admin), 0);
        for (i = 0; i < sizeof(asked) / sizeof(asked[0]); i++) {
                one = (struct rem_home_asked){.bytes = (const uint8_t *)asked[i].text, .len = strlen(asked[i].text)};
                srv_admin_ask(&admin, &one);
                sem_wait(&answered);
                assert_true(one.answer_len > 6 && memcmp(one.answer, asked[i].begins, 6) == 0);
                free(one.answer);
        }
        srv_admin_far_stop(admin.far);
}

/* Those that do not fit, and those that wait at the end, get no answer; each is told once. */
static void test_many_and_the_end(void **state)
{
        enum { MANY = 300 };
        static struct rem_home_asked all[MANY];
        struct srv_admin admin = {.conn_count = 0};
        unsigned i, with = 0;

        assert_int_equal(srv_admin_far_start(&admin), 0);
        for (i = 0; i < MANY; i++) {
                all[i] = (struct rem_home_asked){.bytes = (const uint8_t *)"GET /x\n", .len = 7};
                srv_admin_ask(&admin, &all[i]);
        }
        srv_admin_far_stop(admin.far);
        for (i = 0; i < MANY; i++) {
                assert_int_equal(sem_trywait(&answered), 0);
                with += all[i].answer != NULL;
                free(all[i].answer);
        }
        assert_int_not_equal(sem_trywait(&answered), 0);
        print_message("%u of %u were answered\n", with, (unsigned)MANY);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_what_the_leader_says),
                cmocka_unit_test(test_questions_of_nodes),
                cmocka_unit_test(test_many_and_the_end),
        };

        sem_init(&answered, 0, 0);
        return cmocka_run_group_tests(tests, NULL, NULL);
}
