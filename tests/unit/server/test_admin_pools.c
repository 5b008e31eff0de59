/*
 * test_admin_pools.c - which pool's leader a call goes to that came to a node of a cluster with three pools, and switches,
 * which all of them heed.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "server/admin_private.h"
#include "server/cluster_link.h"

static struct cl_pool pools[3];
static struct srv_link link;

/* The last question of each pool, and how many. */
static struct {
        unsigned count;
        char text[200];
} asked[CL_POOLS_MAX + 1];

static unsigned behind, away; /* pool 3 says so often that it has not followed; this pool has no leader */
static bool hangs; /* pool 2 does not answer in time */
static bool switched;

static ssize_t leader_says(void *arg, unsigned pool, const uint8_t *bytes, size_t len, uint8_t *room)
{
        bool on = switched;

        assert_in_range(pool, 1, CL_POOLS_MAX);
        asked[pool].count++;
        snprintf(asked[pool].text, sizeof(asked[pool].text), "%.*s", (int)len, (const char *)bytes);
        if (pool == away)
                return -EHOSTDOWN;
        if (pool == 2 && hangs) {
                nanosleep(&(struct timespec){.tv_sec = 5}, NULL);
                return -ETIMEDOUT;
        }
        if (strncmp((const char *)bytes, "POST", 4) == 0)
                switched = on = strstr(asked[pool].text, "state=on") != NULL;
        else if (pool == 3 && behind > 0 && behind-- > 0)
                on = !on;
        return sprintf((char *)room, "200 J\n{\"on\":%s,\"changes_under_way\":0,\"pool\":%u}", on ? "true" : "false", pool);
}

static int setup(void **state)
{
        unsigned i;

        memset(asked, 0, sizeof(asked));
        behind = away = 0;
        switched = false;
        memset(&link, 0, sizeof(link));
        pthread_mutex_init(&link.lock, NULL);
        for (i = 0; i < 3; i++)
                pools[i] = (struct cl_pool){.number = i + 1, .has_config = true};
        link.view = (struct cl_view){.revision = 1, .pool_count = 3, .pools = pools};
        return 0;
}

static int teardown(void **state)
{
        pthread_mutex_destroy(&link.lock);
        return 0;
}

/* The answer's status; *body is the caller's. */
static unsigned ask(struct admin_answer (*what)(const struct admin_request *request), const char *method, const char *target, char **body)
{
        struct srv_admin admin = {.ask_leader = leader_says, .link = &link};
        struct admin_request request = {.admin = &admin, .method = method, .target = strdup(target)};
        struct admin_answer answer;

        assert_int_equal(s3_target_split(s3_str_of(request.target), &request.parts), S3_OK);
        answer = what(&request);
        if (body != NULL)
                *body = strndup(answer.body, answer.len);
        free(answer.body);
        free(request.target);
        return answer.status;
}

static void goes_to(const char *method, const char *target, unsigned pool, const char *as)
{
        unsigned i;

        memset(asked, 0, sizeof(asked));
        assert_int_equal(ask(srv_admin_ask_pool, method, target, NULL), 200);
        for (i = 1; i <= CL_POOLS_MAX; i++)
                assert_int_equal(asked[i].count, i == pool);
        assert_string_equal(asked[pool].text, as);
}

static void test_which_pool(void **state)
{
        goes_to("GET", "/admin/v1/drives", 1, "GET /admin/v1/drives\n");
        goes_to("GET", "/admin/v1/drives?pool=2", 2, "GET /admin/v1/drives\n");
        goes_to("GET", "/admin/v1/drives?number=4&pool=3", 3, "GET /admin/v1/drives?number=4\n");
        goes_to("POST", "/admin/v1/drives?pool=3&slot=1&pools=x", 3, "POST /admin/v1/drives?slot=1&pools=x\n");
        assert_int_equal(ask(srv_admin_ask_pool, "GET", "/admin/v1/drives?pool=4", NULL), 404);
        assert_int_equal(ask(srv_admin_ask_pool, "GET", "/admin/v1/drives?pool=", NULL), 404);
        assert_int_equal(ask(srv_admin_ask_pool, "GET", "/admin/v1/drives?pool=1&pool=2", NULL), 404);
        assert_int_equal(ask(srv_admin_ask_pool, "POST", "/admin/v1/verify", NULL), 400); /* of which? */
        link.view.pool_count = 1;
        goes_to("POST", "/admin/v1/verify", 1, "POST /admin/v1/verify\n");
        goes_to("POST", "/admin/v1/verify?pool=1", 1, "POST /admin/v1/verify\n");
        link.view.pool_count = 0; /* etcd was not read yet */
        goes_to("GET", "/admin/v1/info", 1, "GET /admin/v1/info\n");
}

static void test_switches(void **state)
{
        char *body;

        behind = 2;
        assert_int_equal(ask(srv_admin_ask_switch, "POST", "/admin/v1/read-only?state=on", &body), 200);
        assert_string_equal(asked[1].text, "POST /admin/v1/read-only?state=on\n");
        assert_int_equal(asked[1].count, 1);
        assert_string_equal(asked[3].text, "GET /admin/v1/read-only\n");
        assert_int_equal(asked[3].count, 3); /* until it has followed */
        assert_non_null(strstr(body, "\"changes_under_way\":0"));
        assert_non_null(strstr(body, "\"on\":true"));
        free(body);
        behind = 1; /* who only asks is told how it is now */
        assert_int_equal(ask(srv_admin_ask_switch, "GET", "/admin/v1/read-only", &body), 200);
        assert_non_null(strstr(body, "\"changes_under_way\":1"));
        free(body);
        away = 2; /* nobody changes anything there */
        assert_int_equal(ask(srv_admin_ask_switch, "POST", "/admin/v1/read-only?state=off", &body), 200);
        assert_non_null(strstr(body, "\"changes_under_way\":0"));
        free(body);
        away = 1;
        memset(asked, 0, sizeof(asked));
        assert_int_equal(ask(srv_admin_ask_switch, "POST", "/admin/v1/read-only?state=on", NULL), 503);
        assert_int_equal(asked[2].count + asked[3].count, 0);
        assert_int_equal(ask(srv_admin_ask_switch, "POST", "/admin/v1/read-only?state=on&pool=2", NULL), 400);
        assert_int_equal(ask(srv_admin_ask_switch, "GET", "/admin/v1/read-only?pool=2", &body), 200); /* what that pool says */
        assert_non_null(strstr(body, "\"pool\":2"));
        free(body);
}

/* One leader takes all the time that there is: the others are not asked, and count as some that have not followed. */
static void test_leader_hangs(void **state)
{
        char *body;

        hangs = true;
        assert_int_equal(ask(srv_admin_ask_switch, "POST", "/admin/v1/read-only?state=on", &body), 200);
        hangs = false;
        assert_int_equal(asked[2].count, 1);
        assert_int_equal(asked[3].count, 0);
        assert_non_null(strstr(body, "\"changes_under_way\":2"));
        free(body);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(test_which_pool, setup, teardown),
                cmocka_unit_test_setup_teardown(test_switches, setup, teardown),
                cmocka_unit_test_setup_teardown(test_leader_hangs, setup, teardown),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
