/*
 * admin_pools.c - which pool's leader answers a call that came to a node's listener: the one that pool=N names. Without it
 * the first pool's answers what is only read; a change has to name its pool where there are several.
 *
 * Switches are the cluster's. The first pool's leader sets them, the others follow what etcd says: a change is answered when
 * they have, or some seconds later, with the number of changes of clients that may be under way yet.
 *
 * On the admin thread of a node.
 */
#include "server/admin_private.h"

#include "server/cluster_link.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FOLLOW_NS (5000ull * 1000 * 1000) /* other leaders read etcd twice a second, and heed it once */
#define FOLLOW_US 100000u

/* Numbers of the cluster's pools; how many. One where that is not known: the first. */
static unsigned admin_pool_numbers(const struct srv_admin *admin, unsigned out[CL_POOLS_MAX])
{
        char text[CL_TEXT_MAX];
        struct cl_view view;
        unsigned i, count = 0;
        int why;

        out[0] = CL_POOL;
        if (admin->link == NULL || srv_link_view(admin->link, &view, &why, text) != 0)
                return 1;
        for (i = 0; i < view.pool_count; i++)
                if (view.pools[i].has_config)
                        out[count++] = view.pools[i].number;
        cl_view_free(&view);
        return count > 0 ? count : 1;
}

/* The target without the parameter `pool`. size: more than the target's length. */
static void without_pool(const char *target, char *out)
{
        const char *at = strchr(target, '?'), *end;
        char separator = '?';

        if (at == NULL) {
                strcpy(out, target);
                return;
        }
        memcpy(out, target, (size_t)(at - target));
        out += at - target;
        for (at++; at != NULL; at = end != NULL ? end + 1 : NULL) {
                end = strchr(at, '&');
                if (strncmp(at, "pool=", 5) == 0)
                        continue;
                *out++ = separator;
                separator = '&';
                memcpy(out, at, end != NULL ? (size_t)(end - at) : strlen(at));
                out += end != NULL ? (size_t)(end - at) : strlen(at);
        }
        *out = '\0';
}

/* False: it names none of the pools. *named: it names one. */
static bool choose_pool(const struct admin_request *request, const unsigned *pools, unsigned count, unsigned *pool, bool *named)
{
        struct admin_parameters *p = srv_admin_parameters(request);
        uint64_t number;
        unsigned i = 0;

        *named = p != NULL && s3_query_find(&p->query, "pool") != NULL;
        *pool = pools[0];
        if (*named) {
                for (i = 0; i < count && !(srv_admin_parameter_number(p, "pool", &number) && number == pools[i]); i++)
                        ;
                *pool = i < count ? pools[i] : 0;
        }
        free(p);
        return i < count;
}

static struct admin_answer forward_to(const struct admin_request *request, unsigned pool)
{
        struct admin_request bare = *request;
        struct admin_answer answer;

        bare.target = malloc(strlen(request->target) + 1);
        if (bare.target == NULL)
                return srv_admin_error(503, "OutOfMemory", "out of memory");
        without_pool(request->target, bare.target);
        answer = srv_admin_forward(&bare, pool);
        free(bare.target);
        return answer;
}

struct admin_answer srv_admin_ask_pool(const struct admin_request *request)
{
        unsigned pools[CL_POOLS_MAX], count = admin_pool_numbers(request->admin, pools), pool;
        bool named;

        if (!choose_pool(request, pools, count, &pool, &named))
                return srv_admin_error(404, "NoSuchPool", "the cluster has no pool of that number");
        if (!named && count > 1 && strcmp(request->method, "POST") == 0)
                return srv_admin_error(400, "PoolMissing", "the cluster has several pools: name one (--pool N; in a call, pool=N)");
        return forward_to(request, pool);
}

/* ---- switches -------------------------------------------------------------------------------- */

/* What a pool's leader says of a switch. NULL: nothing; *changes: what may be under way there. */
static json_t *ask_switch(const struct admin_request *request, unsigned pool, json_int_t *changes)
{
        struct admin_request ask = *request;
        struct admin_answer answer;
        char path[64];
        json_t *said;

        snprintf(path, sizeof(path), "%.*s", (int)request->parts.path.len, request->parts.path.data);
        ask.target = path;
        ask.method = "GET";
        ask.body_len = 0;
        answer = srv_admin_forward(&ask, pool);
        said = answer.body != NULL ? json_loadb(answer.body, answer.len, 0, NULL) : NULL;
        free(answer.body);
        *changes = json_integer_value(json_object_get(said, "changes_under_way"));
        if (answer.status == 200 && said != NULL)
                return said;
        *changes = strcmp(json_string_value(json_object_get(said, "error")) != NULL ? json_string_value(json_object_get(said, "error")) : "", "NotLed") != 0;
        json_decref(said); /* who does not lead changes nothing, and reads the switch when he does */
        return NULL;
}

/*
 * Changes that may be under way in the other pools: one at least of each that has not followed. Who does not answer takes some
 * seconds, in which the node's health is not told to anybody: the rest is not asked behind `until`.
 */
static json_int_t ask_others(const struct admin_request *request, const unsigned *pools, unsigned count, bool on, uint64_t until)
{
        json_int_t changes, sum = 0;
        json_t *said;
        unsigned i;

        for (i = 1; i < count; i++) {
                if (lp_clock() >= until)
                        return sum + (json_int_t)(count - i);
                said = ask_switch(request, pools[i], &changes);
                if (said != NULL && json_is_true(json_object_get(said, "on")) != on && changes == 0)
                        changes = 1;
                sum += changes;
                json_decref(said);
        }
        return sum;
}

struct admin_answer srv_admin_ask_switch(const struct admin_request *request)
{
        unsigned pools[CL_POOLS_MAX], count = admin_pool_numbers(request->admin, pools), pool;
        const bool post = strcmp(request->method, "POST") == 0;
        struct admin_answer answer;
        uint64_t until;
        json_int_t others;
        json_t *said;
        bool named;

        if (!choose_pool(request, pools, count, &pool, &named) || (post && pool != pools[0]))
                return srv_admin_error(400, "BadRequest", "switches are the cluster's: no pool is named");
        answer = forward_to(request, pool);
        if (answer.status != 200 || named || count == 1)
                return answer;
        said = json_loadb(answer.body, answer.len, 0, NULL);
        free(answer.body);
        until = lp_clock() + FOLLOW_NS;
        do {
                others = ask_others(request, pools, count, json_is_true(json_object_get(said, "on")), until);
                if (others > 0 && post)
                        usleep(FOLLOW_US);
        } while (others > 0 && post && lp_clock() < until);
        json_object_set_new(said, "changes_under_way", json_integer(json_integer_value(json_object_get(said, "changes_under_way")) + others));
        return srv_admin_json(200, said);
}
