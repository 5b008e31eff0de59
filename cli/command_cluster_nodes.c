/*
 * command_cluster_nodes.c - `millrace admin cluster node …`: the nodes of a cluster's pool. Main thread only.
 *
 * What changes the pool is begun at its leader and goes on whoever leads; the command only watches it.
 */
#include "command_admin.h"

#include "progress.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define NODES_PATH   "/admin/v1/nodes"
#define DRIVES_PATH  "/admin/v1/drives"
#define CLUSTER_PATH "/admin/v1/cluster"
#define FIRST_LOOK_S 2u /* what nodes are told by is read from etcd: a second old at most */
#define SAY_EVERY    5u  /* looks, of a second each */
#define LEADERS_MOST 5u /* one after the other, that do not know what was begun */
#define LOST_MOST    60u /* looks without an answer: another node begins to lead within seconds */

/* True: nothing is amiss with it. */
static bool show_node(const json_t *node)
{
        const json_t *folders = json_object_get(node, "new_folders");
        const char *state = cli_json_text(node, "state");
        char used[24], total[24], name[256], s3[512];
        size_t i;

        cli_format_bytes(used, sizeof(used), cli_json_number(node, "used_bytes"));
        cli_format_bytes(total, sizeof(total), cli_json_number(node, "total_bytes"));
        printf("%4llu  %-16s %-9s %2llu/%-3zu %10s %10s  %s\n", (unsigned long long)cli_json_number(node, "node"),
               cli_printable(stdout, cli_json_text(node, "name"), name, sizeof(name)), state, (unsigned long long)cli_json_number(node, "in"),
               json_array_size(json_object_get(node, "slots")), used, total, cli_printable(stdout, cli_json_text(node, "s3"), s3, sizeof(s3)));
        for (i = 0; i < json_array_size(folders); i++)
                printf("      new folder %s\n", json_is_string(json_array_get(folders, i)) ? json_string_value(json_array_get(folders, i)) : "?");
        return strcmp(state, "in") == 0 || strcmp(state, "new") == 0 || strcmp(state, "drained") == 0 || strcmp(state, "removed") == 0;
}

static bool show_nodes(const json_t *answer)
{
        const json_t *nodes = json_object_get(answer, "nodes");
        bool fine = true;
        size_t i;

        printf("%4s  %-16s %-9s %6s %10s %10s  %s\n", "node", "name", "state", "drives", "used", "size", "S3");
        for (i = 0; i < json_array_size(nodes); i++)
                fine &= show_node(json_array_get(nodes, i));
        return fine;
}

int cli_admin_node_status(struct cli_call *call)
{
        json_t *answer;
        int status = cli_admin_ask(call, "GET", NODES_PATH, NULL, 200, 200, &answer);

        if (status == CLI_OK && call->json)
                cli_json_print(answer);
        else if (status == CLI_OK && !show_nodes(answer))
                status = CLI_FAILED;
        json_decref(answer);
        return status;
}

/* By name or number, as the daemon looks for it; NULL: it has not joined. */
static const json_t *node_named(const json_t *answer, const char *name)
{
        const json_t *nodes = json_object_get(answer, "nodes"), *numbered = NULL;
        char number[24];
        size_t i;

        for (i = 0; i < json_array_size(nodes); i++) {
                const json_t *node = json_array_get(nodes, i);

                if (strcmp(cli_json_text(node, "name"), name) == 0)
                        return node;
                snprintf(number, sizeof(number), "%llu", (unsigned long long)cli_json_number(node, "node"));
                numbered = strcmp(number, name) == 0 ? node : numbered;
        }
        return numbered;
}

static void say_progress(const json_t *answer, const json_t *node)
{
        char held[24], left[24], rate[24], seconds[24];

        cli_format_bytes(held, sizeof(held), cli_json_number(node, "used_bytes"));
        cli_format_bytes(left, sizeof(left), cli_json_number(answer, "bytes_left"));
        cli_format_bytes(rate, sizeof(rate), cli_json_number(answer, "rate"));
        cli_format_time(seconds, sizeof(seconds), cli_json_number(answer, "seconds_left") > 0 ? (int64_t)cli_json_number(answer, "seconds_left") : -1);
        printf("%s: its drives hold %s, %s known to be left to move, at most %s/s, about %s\n", cli_json_text(node, "state"), held, left, rate, seconds);
        fflush(stdout);
}

/* What is asked for is over: it is in that state; or nothing is on its way in any more, though another drive of it is out. */
static bool is_over(const char *state, const char *until)
{
        if (strcmp(until, "drained") == 0 && strcmp(state, "removed") == 0)
                return true;
        return strcmp(state, until) == 0 || (strcmp(until, "in") == 0 && (strcmp(state, "partly") == 0 || strcmp(state, "out") == 0));
}

/* Until the node is in that state. */
static int watch_node(struct cli_call *call, const char *until)
{
        static const struct timespec pause = {.tv_sec = 1}, first = {.tv_sec = FIRST_LOOK_S};
        unsigned looks, lost = 0;

        nanosleep(&first, NULL);
        for (looks = 0;; looks++) {
                const json_t *node = NULL;
                json_t *answer;
                int status = cli_admin_ask(call, "GET", NODES_PATH, NULL, 200, 503, &answer);
                bool done = false;

                if (status == CLI_OK)
                        node = node_named(answer, call->argv[0]);
                lost = node != NULL ? 0 : lost + 1;
                if (node != NULL) {
                        done = is_over(cli_json_text(node, "state"), until);
                        if (!done && !call->quiet && looks % SAY_EVERY == 0)
                                say_progress(answer, node);
                }
                json_decref(answer);
                if (done)
                        return CLI_OK;
                if (mr_client_canceled(call->client) || lost > LOST_MOST) {
                        cli_error("%s; the cluster goes on with it: give the command again to watch it", lost > LOST_MOST ? "no node answers" : "interrupted");
                        return CLI_FAILED;
                }
                nanosleep(&pause, NULL);
        }
}

/* Has the leader begin it, or say whether it would; at most so many more leaders. ids: of new folders; NULL: all of the node. */
static int begin_change(struct cli_call *call, const char *action, const char *ids, bool check, unsigned tries)
{
        const char *query[12] = {"action", action, "node", call->argv[0]};
        bool forgotten = false;
        uint64_t number;
        json_t *answer;
        int status, n = 4;

        if (ids != NULL) {
                query[n++] = "ids";
                query[n++] = ids;
        }
        if (check) {
                query[n++] = "check";
                query[n++] = "yes";
        }
        status = cli_admin_ask(call, "POST", NODES_PATH, query, 202, tries < LEADERS_MOST ? 409 : 202, &answer);
        if (status == CLI_OK && json_object_get(answer, "error") != NULL && strcmp(cli_json_text(answer, "error"), "NoFolder") != 0) {
                cli_error("node %s: %s", call->argv[0], cli_json_text(answer, "message"));
                status = CLI_FAILED;
        }
        if (status != CLI_OK) {
                json_decref(answer);
                return status;
        }
        number = cli_json_number(answer, "number");
        json_decref(answer);
        if (number == 0)
                return CLI_OK; /* it is under way already, or was only asked about; or the leader before has done it: NoFolder */
        status = cli_admin_wait(call, DRIVES_PATH, number, &forgotten, &answer);
        if (forgotten && tries > 0)
                return begin_change(call, action, ids, check, tries - 1); /* another leader knows whether it is under way */
        if (forgotten)
                cli_error("node %s: the pool's leader has changed again and again: give the command again", call->argv[0]);
        if (status != CLI_OK)
                return status;
        if (!cli_json_true(answer, "taken")) {
                cli_error("node %s: %s", call->argv[0], cli_json_text(answer, "reason"));
                status = CLI_FAILED;
        }
        json_decref(answer);
        return status;
}

/* ---- of several pools ------------------------------------------------------------------------ */

#define POOLS_MOST 64
#define IDS_MOST   4096

/* A pool in which the node is to be changed. */
struct pool_part {
        char pool[8], ids[IDS_MOST]; /* ids: new folders that it gets */
};

/* Numbers of the cluster's pools. An exit status. */
static int read_pools(struct cli_call *call, struct pool_part parts[POOLS_MOST], unsigned *count)
{
        json_t *answer;
        int status = cli_admin_ask(call, "GET", CLUSTER_PATH, NULL, 200, 200, &answer);
        const json_t *pools = json_object_get(answer, "pools");
        size_t i;

        for (i = 0, *count = 0; status == CLI_OK && i < json_array_size(pools) && i < POOLS_MOST; i++) {
                struct pool_part *part = &parts[(*count)++];

                memset(part, 0, sizeof(*part));
                snprintf(part->pool, sizeof(part->pool), "%u", (unsigned)cli_json_number(json_array_get(pools, i), "number"));
        }
        json_decref(answer);
        return status;
}

/* New folders are the same in each pool's answer: they are dealt in turn, beginning with another pool at each node. */
static void deal_folders(const json_t *node, struct pool_part *parts, unsigned count)
{
        const json_t *ids = json_object_get(node, "new_folders");
        size_t i;

        for (i = 0; i < json_array_size(ids); i++) {
                struct pool_part *part = &parts[(i + cli_json_number(node, "node")) % count];
                const char *id = json_string_value(json_array_get(ids, i));

                snprintf(part->ids + strlen(part->ids), IDS_MOST - strlen(part->ids), "%s%s", *part->ids != '\0' ? "," : "", id != NULL ? id : "");
        }
}

/* Leaves those in which there is something to do. An exit status. */
static int choose_parts(struct cli_call *call, bool add, struct pool_part *parts, unsigned *count)
{
        unsigned i, left = 0;
        int status = CLI_OK;

        for (i = 0; i < *count && status == CLI_OK; i++) {
                const json_t *node;
                json_t *answer;

                call->pool = parts[i].pool;
                status = cli_admin_ask(call, "GET", NODES_PATH, NULL, 200, 200, &answer);
                node = node_named(answer, call->argv[0]);
                if (status == CLI_OK && add && i == 0)
                        deal_folders(node, parts, *count);
                if (status == CLI_OK && (add ? *parts[i].ids != '\0' : json_array_size(json_object_get(node, "slots")) > 0))
                        parts[left++] = parts[i];
                json_decref(answer);
        }
        *count = left;
        return status;
}

/* All pools are asked first whether they would: nothing is begun in one if another refuses. */
static int change_parts(struct cli_call *call, const char *action, const char *until, struct pool_part *parts, unsigned count)
{
        const bool add = strcmp(action, "add") == 0;
        int status = choose_parts(call, add, parts, &count);
        unsigned i;

        call->pool = NULL;
        if (status == CLI_OK && count == 0 && strcmp(action, "remove") == 0)
                return CLI_OK; /* it was drained */
        if (status == CLI_OK && count == 0) {
                cli_error("node %s: %s", call->argv[0], add ? "it has announced no new folders, or has not joined" : "it has no drives in any pool");
                return CLI_FAILED;
        }
        for (i = 0; status == CLI_OK && i < 3 * count; i++) {
                struct pool_part *part = &parts[i % count];

                call->pool = part->pool;
                status = i < 2 * count ? begin_change(call, action, add ? part->ids : NULL, i < count, LEADERS_MOST) : watch_node(call, until);
        }
        call->pool = NULL;
        return status;
}

static int change_node(struct cli_call *call, const char *action, const char *until, const char *done)
{
        struct pool_part *parts = calloc(POOLS_MOST, sizeof(*parts));
        unsigned count = 0;
        int status = parts == NULL ? CLI_FAILED : call->pool != NULL ? CLI_OK : read_pools(call, parts, &count);

        if (status == CLI_OK && count > 1) {
                status = change_parts(call, action, until, parts, count);
        } else if (status == CLI_OK) {
                status = begin_change(call, action, NULL, false, LEADERS_MOST);
                if (status == CLI_OK)
                        status = watch_node(call, until);
        }
        if (status == CLI_OK && done != NULL && !call->quiet)
                printf("node %s %s\n", call->argv[0], done);
        free(parts);
        return status;
}

int cli_admin_node_add(struct cli_call *call)
{
        return change_node(call, "add", "in", "has its share of the pool.");
}

int cli_admin_node_drain(struct cli_call *call)
{
        return change_node(call, "drain", "drained", "is drained: it may be switched off. Its number is not used again.");
}

/*
 * Whose drives are all gone has no rights in the cluster any more when that was asked for once more. A leader may see some
 * moments later that those of another pool are gone.
 */
static int take_rights(struct cli_call *call)
{
        static const struct timespec pause = {.tv_sec = 1};
        unsigned looks;

        for (looks = 0; looks <= LOST_MOST; looks++) {
                json_t *answer = NULL;
                int status = begin_change(call, "remove", NULL, false, LEADERS_MOST);
                bool removed;

                if (status == CLI_OK)
                        status = cli_admin_ask(call, "GET", NODES_PATH, NULL, 200, 503, &answer);
                removed = status == CLI_OK && strcmp(cli_json_text(node_named(answer, call->argv[0]), "state"), "removed") == 0;
                json_decref(answer);
                if (status != CLI_OK || removed)
                        return status;
                nanosleep(&pause, NULL);
        }
        cli_error("node %s: its drives are removed, and it is not known yet whether it has rights in the cluster: give the command again", call->argv[0]);
        return CLI_FAILED;
}

/* A pool's leader takes the rights: of several pools any one's. */
static int name_some_pool(struct cli_call *call, char pool[8])
{
        struct pool_part *parts = calloc(POOLS_MOST, sizeof(*parts));
        unsigned count = 0;
        int status = parts == NULL ? CLI_FAILED : read_pools(call, parts, &count);

        if (status == CLI_OK && count > 1) {
                memcpy(pool, parts[0].pool, sizeof(parts[0].pool));
                call->pool = pool;
        }
        free(parts);
        return status;
}

int cli_admin_node_remove(struct cli_call *call)
{
        int status = change_node(call, "remove", "drained", NULL);
        char pool[8];

        if (status == CLI_OK && call->pool == NULL)
                status = name_some_pool(call, pool);
        if (status == CLI_OK)
                status = take_rights(call);
        if (status == CLI_OK && !call->quiet)
                printf("node %s is removed: the others refuse it. Its name and its number are not used again.\n", call->argv[0]);
        return status;
}
