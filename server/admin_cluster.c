/*
 * admin_cluster.c - what the admin listener answers about a cluster: /admin/v1/cluster, at any node, which knows what etcd has
 * and whom it reaches; and /admin/v1/pool, which the pool's leader answers, and which is in the node's answer where a
 * leader answers.
 *
 * /admin/v1/cluster?measure=yes measures the way to the leader, too, by /admin/v1/probe there: MEASURE_TIMES answers of
 * MEASURE_BYTES, for MEASURE_MS at most.
 *
 * On the admin thread, at the leader on the thread that answers nodes.
 */
#include "server/admin_private.h"

#include "server/cluster_link.h"
#include "server/cluster_statistics.h"
#include "server/health_log.h"
#include "server/settings.h"
#include "server/switches.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define POOL_PATH     "/admin/v1/pool"
#define PROBE_PATH    "/admin/v1/probe"
#define PROBE_MAX     (1u << 20)
#define MEASURE_TIMES 16u
#define MEASURE_MS    3000u
#define ASK_POOLS_NS  (5000ull * 1000 * 1000)

/* ---- nodes ----------------------------------------------------------------------------------- */

static const char *reach_refusal(enum net_reason reason)
{
        static const char *const texts[NET_REASONS_END] = {
                [NET_REASON_NONE] = "",
                [NET_REASON_UNKNOWN_NODE] = "it does not know this node",
                [NET_REASON_CERTIFICATE] = "this node's certificate is for another name",
                [NET_REASON_CLUSTER] = "it belongs to another cluster",
                [NET_REASON_GENERATION] = "it goes by another generation of etcd",
                [NET_REASON_WRONG_NODE] = "another node is at its address",
                [NET_REASON_DUPLICATE] = "it knows a newer process of this node",
                [NET_REASON_CLOCK] = "the clocks differ too much",
                [NET_REASON_VERSION] = "the versions do not fit",
                [NET_REASON_SECRET] = "a connection had no proof of another one",
                [NET_REASON_PLAIN] = "it takes TLS alone (cluster_tls)",
                [NET_REASON_OLDER] = "the connection was older than another",
        };

        return (unsigned)reason < NET_REASONS_END && texts[reason] != NULL ? texts[reason] : "unknown";
}

/* "": nothing is known to differ. */
static const char *secrets_text(enum net_secrets_verdict secrets)
{
        static const char *const texts[] = {[NET_SECRETS_UNKNOWN] = "", [NET_SECRETS_SAME] = "", [NET_SECRETS_FIRST_DIFFERS] = "first-key", [NET_SECRETS_ROOT_DIFFERS] = "root-credentials",
                                            [NET_SECRETS_APART] = "keys"};

        return (unsigned)secrets < sizeof(texts) / sizeof(texts[0]) ? texts[secrets] : "";
}

/* What this process knows of a node at first hand; {} for its own. */
static json_t *reach_json(const struct srv_link *link, uint16_t number)
{
        struct net_peer_state state;
        uint64_t now = lp_clock();
        json_t *json;

        if (!srv_cluster_reach(link, number, &state))
                return json_object();
        json = json_pack("{s:b, s:s, s:s}", "up", state.up, "refused", reach_refusal(state.refused), "secrets_differ", secrets_text(state.secrets));
        if (state.heard != 0)
                json_object_set_new(json, "heard_ms_ago", srv_admin_number(now > state.heard ? (now - state.heard) / 1000000 : 0));
        if (state.round_trip_ns != 0)
                json_object_set_new(json, "round_trip_us", srv_admin_number(state.round_trip_ns / 1000));
        if (state.clock_ahead_ms != INT64_MIN)
                json_object_set_new(json, "clock_ahead_ms", json_integer(state.clock_ahead_ms));
        return json;
}

static json_t *node_json(const struct srv_link *link, const struct cl_member *member)
{
        static const char *const states[] = {[CL_NODE_IN] = "in", [CL_NODE_DRAINING] = "draining", [CL_NODE_GONE] = "gone"};
        const struct cl_node *node = &member->node;

        return json_pack("{s:s, s:i, s:i, s:s, s:s, s:s, s:s, s:s, s:o, s:i, s:b, s:o}", "name", node->name, "number", (int)member->number, "rack", (int)node->rack,
                         "state", states[node->state], "address", node->address, "s3", node->s3, "admin", node->admin, "version", node->version, "boot",
                         srv_admin_number(node->boot), "empty_folders", (int)node->drive_count, "asked", member->number == link->settings->number, "reached",
                         reach_json(link, member->number));
}

static json_t *nodes_json(const struct srv_link *link, const struct cl_view *view)
{
        json_t *nodes = json_array();
        unsigned i;

        for (i = 0; i < view->count; i++)
                json_array_append_new(nodes, node_json(link, &view->members[i]));
        return nodes;
}

/* ---- the pool, at its leader ----------------------------------------------------------------- */

/* NULL: it does not catch up. */
static json_t *catch_up_json(const struct eng_catch_up_progress *progress)
{
        if (!progress->running)
                return NULL;
        return json_pack("{s:o, s:o, s:o, s:o, s:o}", "compared", srv_admin_number(progress->compared), "copied", srv_admin_number(progress->copied), "total",
                         srv_admin_number(progress->total), "rate", srv_admin_number(progress->rate), "seconds_left", srv_admin_number(progress->seconds_left));
}

static json_t *pool_drive(const struct eng_drive_info *drive, unsigned slot, const struct cl_pool *pool)
{
        unsigned node = slot < pool->epoch.slots ? pool->epoch.slot[slot].site.node : 0;

        return json_pack("{s:i, s:i, s:o, s:s, s:s, s:b, s:b, s:b, s:b, s:o, s:o, s:o, s:o*}", "slot", (int)slot, "node", (int)node, "path", srv_admin_text(drive->path), "id",
                         drive->id, "state", srv_drive_state_name(drive->state), "adding", drive->adding, "filling", drive->filling, "leaving", drive->leaving,
                         "unreliable", drive->unreliable, "reason", srv_admin_text(drive->reason), "total_bytes", srv_admin_number(drive->total_bytes), "free_bytes",
                         srv_admin_number(drive->free_bytes), "catch_up", catch_up_json(&drive->catch_up));
}

static json_t *pool_drives(const struct eng_health *health, const struct cl_pool *pool)
{
        json_t *drives = json_array();
        unsigned slot;

        for (slot = 0; slot < health->drive_count; slot++)
                json_array_append_new(drives, pool_drive(&health->drives[slot], slot, pool));
        return drives;
}

static json_t *pool_heal(struct eng_store *store, const struct eng_health *health)
{
        struct eng_heal_report *reports = malloc(2 * sizeof(*reports));
        json_t *json = NULL;

        if (reports == NULL)
                return NULL;
        eng_heal_read(store, &reports[0], &reports[1]);
        json = json_pack("{s:b, s:b, s:b, s:i, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "healing", health->healing, "running", reports[0].running, "surveyed",
                         reports[0].surveyed, "level", (int)reports[0].level, "looked_at", srv_admin_number(reports[0].looked_at), "todo_objects",
                         srv_admin_number(reports[0].todo_objects), "done_objects", srv_admin_number(reports[0].done_objects), "todo_bytes",
                         srv_admin_number(reports[0].todo_bytes), "done_bytes", srv_admin_number(reports[0].done_bytes), "failed_objects",
                         srv_admin_number(reports[0].failed_objects), "rate", srv_admin_number(health->heal_rate), "pace", srv_admin_number(health->heal_pace), "bytes_left",
                         srv_admin_number(health->heal_bytes_left), "seconds_left", srv_admin_number(health->heal_seconds_left),
                         "too_close", srv_admin_number(reports[0].too_close));
        free(reports);
        return json;
}

static json_t *pool_json(const struct srv_admin *admin, const struct eng_health *health, const struct cl_view *view)
{
        const struct srv_statistics_source *source = &admin->source;

        return json_pack("{s:i, s:s, s:o, s:o, s:s, s:i, s:i, s:b, s:b, s:b, s:b, s:o, s:i, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "leader", (int)admin->settings->number, "name",
                         admin->settings->node, "uptime_s", srv_admin_number((uint64_t)(lp_wall_ms() - source->started_ms) / 1000), "epoch",
                         srv_admin_number(health->epoch), "store", health->store_id, "k", (int)health->ec_k, "m", (int)health->ec_m, "ready", health->ready, "writable",
                         health->writable, "read_only", srv_switch_read(source->switches, SRV_READ_ONLY).on, "maintenance",
                         srv_switch_read(source->switches, SRV_MAINTENANCE).on, "reason", srv_admin_text(health->reason), "sessions",
                         admin->sessions != NULL ? (int)admin->sessions(admin->sessions_arg) : 0, "objects_below", srv_admin_number(health->objects_below),
                         "objects_lacking", srv_admin_lacking(health->objects_lacking, health->ec_m),
                         "lost_objects", srv_admin_number(health->lost_objects), "undecided_names", srv_admin_number(health->undecided_names), "heal",
                         pool_heal(source->store, health), "drives", pool_drives(health, cl_view_pool(view, admin->pool)), "nodes", nodes_json(admin->link, view));
}

struct admin_answer srv_admin_get_pool(struct admin_request *request)
{
        struct srv_admin *admin = request->admin;
        struct eng_health *health;
        struct admin_answer answer;
        char text[CL_TEXT_MAX];
        struct cl_view *view;
        int why;

        if (admin->link == NULL)
                return srv_admin_error(404, "NotACluster", "this is a store of one machine");
        health = malloc(sizeof(*health));
        view = calloc(1, sizeof(*view));
        if (health == NULL || view == NULL || srv_link_view(admin->link, view, &why, text) != 0) {
                answer = srv_admin_error(503, "OutOfMemory", "out of memory");
        } else {
                srv_health_read(admin->source.store, admin->source.gateway, health);
                answer = srv_admin_json(200, pool_json(admin, health, view));
                cl_view_free(view);
        }
        free(health);
        free(view);
        return answer;
}

/* {"wall_ms": its clock, "bytes": so many of them}. */
struct admin_answer srv_admin_get_probe(struct admin_request *request)
{
        struct admin_parameters *p = srv_admin_parameters(request);
        struct admin_answer answer = {.status = 200, .type = ADMIN_JSON_TYPE};
        uint64_t bytes;
        size_t head;

        if (p == NULL || !srv_admin_parameter_number(p, "bytes", &bytes) || bytes > PROBE_MAX) {
                free(p);
                return srv_admin_error(400, "BadRequest", "bytes=N, up to 1 MiB, must be given");
        }
        free(p);
        answer.body = malloc(bytes + 80);
        if (answer.body == NULL)
                return srv_admin_error(503, "OutOfMemory", "out of memory");
        head = (size_t)sprintf(answer.body, "{\"wall_ms\":%lld,\"bytes\":\"", (long long)lp_wall_ms());
        memset(answer.body + head, 'x', bytes);
        memcpy(answer.body + head + bytes, "\"}", 3);
        answer.len = head + bytes + 2;
        return answer;
}

/* ---- at any node ----------------------------------------------------------------------------- */

static struct admin_answer ask_leader_for(const struct admin_request *request, unsigned pool, const char *path)
{
        struct admin_request ask = *request;
        char target[64];

        snprintf(target, sizeof(target), "%s", path);
        ask.target = target;
        ask.method = "GET";
        ask.body_len = 0;
        return srv_admin_forward(&ask, pool);
}

/* One answer of so many bytes, of the first pool's leader; how long it took, and by how much its clock is ahead. False: there was none. */
static bool probe_leader(const struct admin_request *request, unsigned bytes, uint64_t *took_ns, int64_t *ahead_ms)
{
        struct admin_answer answer;
        int64_t before = lp_wall_ms();
        uint64_t begun = lp_clock();
        char path[64];
        json_t *said;

        snprintf(path, sizeof(path), PROBE_PATH "?bytes=%u", bytes);
        answer = ask_leader_for(request, CL_POOL, path);
        *took_ns = lp_clock() - begun;
        said = answer.status == 200 && answer.body != NULL ? json_loadb(answer.body, answer.len, 0, NULL) : NULL;
        free(answer.body);
        *ahead_ms = json_integer_value(json_object_get(said, "wall_ms")) - before - (int64_t)(*took_ns / 2000000);
        json_decref(said);
        return said != NULL;
}

/* The way to the leader and back: null if nothing was asked for, or it does not answer. */
static json_t *measured_json(const struct admin_request *request)
{
        uint64_t begun = lp_clock(), took, least = UINT64_MAX, sum = 0;
        int64_t ahead = 0, any;
        unsigned i, times = 0;

        for (i = 0; i < MEASURE_TIMES && lp_clock() - begun < MEASURE_MS * 500000ull; i++) {
                if (!probe_leader(request, 0, &took, &any))
                        return json_null();
                ahead = took < least ? any : ahead;
                least = took < least ? took : least;
        }
        for (i = 0; i < MEASURE_TIMES && lp_clock() - begun < MEASURE_MS * 1000000ull; i++) {
                if (!probe_leader(request, PROBE_MAX, &took, &any))
                        return json_null();
                sum += took;
                times++;
        }
        return json_pack("{s:o, s:o, s:o, s:I}", "round_trip_us", srv_admin_number(least / 1000), "bytes", srv_admin_number((uint64_t)times * PROBE_MAX), "bytes_per_second",
                         srv_admin_number(sum > 0 ? (uint64_t)((double)times * PROBE_MAX * 1e9 / (double)sum) : 0), "clock_ahead_ms", (json_int_t)ahead);
}

/* What the leader says of its pool; else null, and *why. */
static json_t *ask_pool(const struct admin_request *request, unsigned pool, json_t **why)
{
        struct admin_answer answer = ask_leader_for(request, pool, POOL_PATH);
        json_t *said;

        said = answer.body != NULL ? json_loadb(answer.body, answer.len, 0, NULL) : NULL;
        free(answer.body);
        if (answer.status == 200 && said != NULL) {
                *why = json_string("");
                return said;
        }
        *why = json_incref(json_object_get(said, "message"));
        if (*why == NULL)
                *why = json_string("the pool's leader has not answered");
        json_decref(said);
        return json_null();
}

/* One that does not answer takes some seconds: the rest is not asked then. */
static json_t *status_of_pool(const struct admin_request *request, const struct cl_view *view, const struct cl_pool *pool, uint64_t begun)
{
        const struct cl_member *leader = pool->is_led ? cl_view_member(view, pool->leader.node) : NULL;
        json_t *why, *said;

        if (lp_clock() - begun < ASK_POOLS_NS) {
                said = ask_pool(request, pool->number, &why);
        } else {
                said = json_null();
                why = json_string("not asked: other pools' leaders do not answer");
        }
        return json_pack("{s:i, s:i, s:s, s:o, s:o, s:o}", "number", (int)pool->number, "leader", pool->is_led ? (int)pool->leader.node : 0, "leader_name",
                         leader != NULL ? leader->node.name : "", "epoch", srv_admin_number(pool->config.number), "pool", said, "pool_reason", why);
}

/* All of them. */
static json_t *pools_status(const struct admin_request *request, const struct cl_view *view)
{
        uint64_t begun = lp_clock();
        json_t *pools = json_array();
        unsigned i;

        for (i = 0; i < view->pool_count; i++)
                if (view->pools[i].has_config)
                        json_array_append_new(pools, status_of_pool(request, view, &view->pools[i], begun));
        return pools;
}

static json_t *etcd_json(const struct cl_view *view, int why, const char *text)
{
        return json_pack("{s:b, s:o, s:o, s:o}", "answers", why == 0 && view->revision > 0, "reason", srv_admin_text(why != 0 ? text : ""), "revision",
                         srv_admin_number((uint64_t)view->revision), "generation", srv_admin_number(view->format.generation));
}

static bool measure_wanted(const struct admin_request *request)
{
        struct admin_parameters *p = srv_admin_parameters(request);
        char text[8];
        bool wanted = p != NULL && srv_admin_parameter(p, "measure", text, sizeof(text)) && strcmp(text, "yes") == 0;

        free(p);
        return wanted;
}

/* "leader", "pool" and "pool_reason" are the first pool's. */
static json_t *cluster_json(struct admin_request *request, const struct cl_view *view, int why, const char *text)
{
        const struct srv_link *link = request->admin->link;
        json_t *pools = pools_status(request, view), *first = json_array_get(pools, 0), *pool = json_object_get(first, "pool");
        json_t *measured = json_is_object(pool) && measure_wanted(request) ? measured_json(request) : json_null();
        const char *leader = json_string_value(json_object_get(first, "leader_name")), *reason = json_string_value(json_object_get(first, "pool_reason"));

        return json_pack("{s:s, s:s, s:i, s:s, s:o, s:o, s:I, s:s, s:O?, s:s, s:o, s:o}", "cluster", link->settings->cluster, "node", link->settings->node, "number",
                         (int)link->settings->number, "version", MILLRACE_VERSION, "etcd", etcd_json(view, why, text), "nodes", nodes_json(link, view), "leader",
                         json_integer_value(json_object_get(first, "leader")), "leader_name", leader != NULL ? leader : "", "pool", pool, "pool_reason",
                         reason != NULL ? reason : "the cluster has no pool yet", "measured", measured, "pools", pools);
}

struct admin_answer srv_admin_get_cluster(struct admin_request *request)
{
        struct srv_admin *admin = request->admin;
        char text[CL_TEXT_MAX] = "";
        struct admin_answer answer;
        struct cl_view *view;
        int why = 0;

        if (admin->link == NULL || admin->ask_leader == NULL)
                return srv_admin_error(404, "NotACluster", "this is a store of one machine");
        view = calloc(1, sizeof(*view));
        if (view == NULL || srv_link_view(admin->link, view, &why, text) != 0) {
                answer = srv_admin_error(503, "OutOfMemory", "out of memory");
        } else {
                answer = srv_admin_json(200, cluster_json(request, view, why, text));
                cl_view_free(view);
        }
        free(view);
        return answer;
}
