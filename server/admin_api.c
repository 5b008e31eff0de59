/*
 * admin_api.c - what the admin listener answers.
 *
 * On the admin thread. One table of paths; those under /admin/ are answered only when signed (a
 * path that does not exist, too: who may not ask is told nothing). What the engine wants done on a
 * loop is posted there, and waited for at most a few seconds.
 */
#include "server/admin_private.h"

#include "server/health_log.h"
#include "server/switches.h"

#include <errno.h>
#include <math.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define LOOP_ANSWER_S 5              /* how long a call waits for a loop */
#define LOOP_STUCK_NS 20000000000ull /* a loop that answers no message for this long is not alive */
#define ADMIN_PREFIX  "/admin/"

/* ---- answers --------------------------------------------------------------------------------- */

struct admin_answer srv_admin_json(unsigned status, json_t *json)
{
        struct admin_answer answer = {.status = status, .type = ADMIN_JSON_TYPE};

        answer.body = json != NULL ? json_dumps(json, JSON_COMPACT) : NULL;
        json_decref(json);
        if (answer.body == NULL)
                answer.status = 500;
        else
                answer.len = strlen(answer.body);
        return answer;
}

struct admin_answer srv_admin_error(unsigned status, const char *code, const char *message)
{
        return srv_admin_json(status, json_pack("{s:s, s:s}", "error", code, "message", message));
}

json_t *srv_admin_text(const char *value)
{
        json_t *json = json_string(value);
        char *copy, *p;

        if (json != NULL)
                return json;
        copy = strdup(value);
        for (p = copy; p != NULL && *p != '\0'; p++)
                if ((unsigned char)*p >= 0x80)
                        *p = '?';
        json = copy != NULL ? json_string(copy) : NULL;
        free(copy);
        return json;
}

json_t *srv_admin_number(uint64_t value)
{
        return json_integer((json_int_t)value);
}

/* ---- health ---------------------------------------------------------------------------------- */

static uint64_t monotonic_ns(void)
{
        struct timespec now;

        clock_gettime(CLOCK_MONOTONIC, &now);
        return (uint64_t)now.tv_sec * 1000000000ull + (uint64_t)now.tv_nsec;
}

/* On the loop. */
static void ping_answered(struct lp_msg *msg)
{
        struct admin_ping *ping = container_of(msg, struct admin_ping, msg);

        atomic_store(&ping->pending, false);
}

/*
 * Asks every loop, and finds one that has not answered an earlier question for too long: -1 if
 * there is none.
 */
static int find_stuck_loop(struct srv_admin *admin)
{
        uint64_t now = monotonic_ns();
        struct admin_ping *ping;
        int stuck = -1;
        unsigned i;

        for (i = 0; i < admin->source.loop_count; i++) {
                ping = &admin->pings[i];
                if (atomic_load(&ping->pending)) {
                        if (now - ping->since_ns > LOOP_STUCK_NS)
                                stuck = (int)i;
                        continue;
                }
                ping->since_ns = now;
                ping->msg.run = ping_answered;
                atomic_store(&ping->pending, true);
                lp_post(admin->source.loops[i], &ping->msg);
        }
        return stuck;
}

static struct admin_answer get_live(struct admin_request *request)
{
        int stuck = find_stuck_loop(request->admin);

        if (stuck < 0)
                return srv_admin_json(200, json_pack("{s:b}", "live", 1));
        return srv_admin_json(
                503, json_pack("{s:b, s:o}", "live", 0, "reason", json_sprintf("loop %d does not answer", stuck)));
}

static json_t *health_drives(const struct eng_health *health)
{
        json_t *drives = json_array();
        unsigned i;

        for (i = 0; i < health->drive_count; i++)
                json_array_append_new(drives, json_pack("{s:o, s:s, s:s, s:b, s:o}", "path", srv_admin_text(health->drives[i].path),
                                                        "id", health->drives[i].id, "state",
                                                        srv_drive_state_name(health->drives[i].state), "unreliable",
                                                        health->drives[i].unreliable, "reason",
                                                        srv_admin_text(health->drives[i].reason)));
        return drives;
}

/* Why requests should go elsewhere though the store is well; NULL: they should not. */
static const char *not_now(struct srv_admin *admin)
{
        if (atomic_load(&admin->draining))
                return "the daemon is stopping";
        if (srv_switch_read(admin->source.switches, SRV_MAINTENANCE).on)
                return "maintenance: millrace admin maintenance off ends it";
        return NULL;
}

/* Requests for buckets of a pool that is not ready are answered 503; the others go on. */
static json_t *ready_pools(const struct srv_admin *admin)
{
        struct srv_pool_statistics pools[CL_POOLS_MAX];
        unsigned i, count = srv_pools_read(&admin->source, pools);
        json_t *list = json_array();

        for (i = 0; i < count; i++)
                json_array_append_new(list, json_pack("{s:i, s:b, s:b, s:s, s:b}", "pool", (int)pools[i].number, "ready", pools[i].ready, "writable", pools[i].writable, "reason",
                                                      pools[i].reason, "leads", (int)(atomic_load(&admin->leads) >> pools[i].number & 1)));
        return list;
}

static struct admin_answer get_ready(struct admin_request *request)
{
        struct eng_health *health = malloc(sizeof(*health));
        bool ready, read_only = srv_switch_read(request->admin->source.switches, SRV_READ_ONLY).on;
        const char *why = not_now(request->admin), *reason;
        char awaits[120];
        json_t *json;
        int rv;

        if (health == NULL)
                return srv_admin_error(503, "OutOfMemory", "out of memory");
        srv_health_read(request->admin->source.store, request->admin->source.gateway, health);
        rv = srv_admin_awaits_drives(request, health, awaits, sizeof(awaits));
        if (rv < 0) {
                free(health);
                return rv == -EINVAL ? srv_admin_error(400, "InvalidArgument", "drives=in is known, and for=SECONDS beside it") : srv_admin_error(503, "OutOfMemory", "out of memory");
        }
        if (why == NULL && health->ready && rv == 1)
                why = awaits;
        ready = health->ready && why == NULL;
        reason = why != NULL ? why : health->reason;
        if (*reason == '\0' && read_only)
                reason = "read-only: its operator has switched off changes";
        if (*reason == '\0' && health->lock.frozen)
                reason = "the lock clock is frozen: locks end late until millrace admin lock-clock --confirm";
        json = json_pack("{s:b, s:b, s:b, s:b, s:o, s:i, s:i, s:b, s:o, s:o, s:o}", "ready", ready, "writable",
                         health->writable && ready && !read_only, "read_only", read_only, "lock_clock_frozen", health->lock.frozen, "reason",
                         srv_admin_text(reason), "drives_in",
                         (int)health->drives_in, "drives_total", (int)(health->drive_count - health->drives_removed), "healing", health->healing,
                         "objects_below_redundancy", srv_admin_number(health->objects_below), "whole_in_seconds",
                         srv_admin_number(health->heal_seconds_left), "drives", health_drives(health));
        free(health);
        if (request->admin->ask_leader != NULL && json != NULL)
                json_object_set_new(json, "leads", json_boolean(atomic_load(&request->admin->leads) >> CL_POOL & 1));
        if (atomic_load(&request->admin->source.pools->count) > 1 && json != NULL)
                json_object_set_new(json, "pools", ready_pools(request->admin));
        return srv_admin_json(ready ? 200 : 503, json);
}

/* ---- metrics --------------------------------------------------------------------------------- */

static struct admin_answer get_metrics(struct admin_request *request)
{
        struct admin_answer answer = {.status = 500, .type = ADMIN_METRICS_TYPE};
        struct srv_statistics *statistics = malloc(sizeof(*statistics));
        FILE *out = open_memstream(&answer.body, &answer.len);

        if (statistics != NULL && out != NULL) {
                srv_statistics_read(&request->admin->source, statistics);
                srv_metrics_write(statistics, out);
                answer.status = 200;
        }
        if (out != NULL && fclose(out) != 0)
                answer.status = 500;
        free(statistics);
        return answer;
}

/* ---- info ------------------------------------------------------------------------------------ */

/* Seconds; null: never, as far as is known. */
static json_t *admin_seconds_left(double seconds)
{
        return isinf(seconds) ? json_null() : srv_admin_number((uint64_t)seconds);
}

static json_t *info_drive(const struct eng_drive_info *drive, double full_in_s)
{
        return json_pack("{s:o, s:s, s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "path", srv_admin_text(drive->path), "id", drive->id,
                         "state", srv_drive_state_name(drive->state), "reason", srv_admin_text(drive->reason), "total_bytes",
                         srv_admin_number(drive->total_bytes), "free_bytes", srv_admin_number(drive->free_bytes), "log_bytes",
                         srv_admin_number(drive->log_bytes), "data_bytes", srv_admin_number(drive->data_bytes), "index_bytes",
                         srv_admin_number(drive->index_bytes), "reserve_bytes", srv_admin_number(drive->reserve_bytes),
                         "full_in_seconds", admin_seconds_left(full_in_s));
}

static struct admin_answer get_info(struct admin_request *request)
{
        const struct srv_statistics_source *source = &request->admin->source;
        struct eng_health *health = malloc(sizeof(*health));
        json_t *drives = json_array(), *json;
        struct srv_forecast_statistics forecast;
        unsigned i;

        if (health == NULL) {
                json_decref(drives);
                return srv_admin_error(503, "OutOfMemory", "out of memory");
        }
        srv_health_read(source->store, source->gateway, health);
        srv_forecast_read(source->forecast, &forecast);
        for (i = 0; i < health->drive_count; i++)
                json_array_append_new(drives, info_drive(&health->drives[i], forecast.drive_s[i]));
        json = json_pack("{s:s, s:o, s:o, s:b, s:b, s:b, s:b, s:b, s:o, s:o, s:o, s:o, s:s, s:o}", "store", health->store_id, "ec",
                         json_sprintf("%u+%u", health->ec_k, health->ec_m), "epoch", srv_admin_number(health->epoch), "ready",
                         health->ready, "writable", health->writable, "read_only", srv_switch_read(source->switches, SRV_READ_ONLY).on,
                         "maintenance", srv_switch_read(source->switches, SRV_MAINTENANCE).on, "lock_clock_frozen", health->lock.frozen,
                         "reason", srv_admin_text(health->reason), "buckets",
                         srv_admin_number(health->buckets), "full_in_seconds", admin_seconds_left(forecast.store_s), "drives", drives, "version", MILLRACE_VERSION, "uptime_s",
                         srv_admin_number((uint64_t)(lp_wall_ms() - source->started_ms) / 1000));
        free(health);
        return srv_admin_json(200, json);
}

/* ---- verify ---------------------------------------------------------------------------------- */

void srv_admin_verify_init(struct admin_verify_call *call, struct eng_store *store)
{
        pthread_condattr_t attr;

        call->store = store;
        pthread_mutex_init(&call->lock, NULL);
        pthread_condattr_init(&attr);
        pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
        pthread_cond_init(&call->answered, &attr);
        pthread_condattr_destroy(&attr);
}

/* On the loop. The lock is held for a few instructions by either side. */
static void start_verify(struct lp_msg *msg)
{
        struct admin_verify_call *call =
                container_of(msg, struct admin_verify_call, msg);
        int rv = eng_verify_start(call->store);

        pthread_mutex_lock(&call->lock);
        call->rv = rv;
        call->pending = false;
        pthread_cond_signal(&call->answered);
        pthread_mutex_unlock(&call->lock);
}

/*
 * What eng_verify_start() said; -ETIMEDOUT: the loop has not answered yet (and may start it later).
 */
static int ask_verify(struct srv_admin *admin)
{
        struct admin_verify_call *call = &admin->verify;
        struct timespec until;
        int rv = 0;

        clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_sec += LOOP_ANSWER_S;
        pthread_mutex_lock(&call->lock);
        if (!call->pending) {
                call->pending = true;
                call->msg.run = start_verify;
                lp_post(admin->source.loops[0], &call->msg);
        }
        while (call->pending && rv == 0)
                rv = pthread_cond_timedwait(&call->answered, &call->lock, &until);
        rv = call->pending ? -ETIMEDOUT : call->rv;
        pthread_mutex_unlock(&call->lock);
        return rv;
}

static json_t *report_json(const struct eng_verify_report *report)
{
        return json_pack("{s:b, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "running", report->running, "objects",
                         srv_admin_number(report->objects), "bytes", srv_admin_number(report->bytes), "shards", srv_admin_number(report->shards),
                         "damaged_shards", srv_admin_number(report->damaged_shards), "repaired_shards",
                         srv_admin_number(report->repaired_shards), "missing_shards", srv_admin_number(report->missing_shards), "unread_shards",
                         srv_admin_number(report->unread_shards),
                         "unreadable_objects", srv_admin_number(report->unreadable_objects), "differing_names",
                         srv_admin_number(report->differing_names), "repaired_names", srv_admin_number(report->repaired_names), "started_ms",
                         json_integer(report->started_ms), "ended_ms", json_integer(report->ended_ms), "drives",
                         srv_admin_digests(report->digest));
}

static json_t *verify_report(struct srv_admin *admin)
{
        struct eng_verify_report report;

        eng_verify_read(admin->source.store, &report);
        return report_json(&report);
}

static struct admin_answer get_verify(struct admin_request *request)
{
        return srv_admin_json(200, verify_report(request->admin));
}

static struct admin_answer post_verify(struct admin_request *request)
{
        int rv = ask_verify(request->admin);

        if (rv == 0)
                return srv_admin_json(202, verify_report(request->admin));
        if (rv == -EALREADY)
                return srv_admin_error(409, "AlreadyRunning", "a verification is running");
        if (rv == -EHOSTDOWN)
                return srv_admin_error(503, "NotReady", "the store is not ready");
        return srv_admin_error(503, "Unavailable", strerror(-rv));
}

/* ---- scrub ----------------------------------------------------------------------------------- */

static json_t *drive_scrub_json(const struct eng_drive_info *drive)
{
        const struct eng_scrub_progress *p = &drive->scrub;

        return json_pack("{s:s, s:s, s:b, s:b, s:o, s:o, s:I, s:I, s:o, s:o, s:o, s:o, s:o, s:b, s:o, s:o}", "id", drive->id, "path", drive->path, "running",
                         p->running, "late", p->late, "bytes", srv_admin_number(p->bytes), "total_bytes",
                         srv_admin_number(p->total), "started_ms", (json_int_t)p->started_ms, "last_ended_ms",
                         (json_int_t)p->last_ended_ms, "last_bytes", srv_admin_number(p->last_bytes), "last_damaged_shards",
                         srv_admin_number(p->last_damaged), "damaged_shards", srv_admin_number(p->damaged),
                         "unrepaired_shards", srv_admin_number(p->unrepaired), "gaps", srv_admin_number(p->gaps), "names_owed", p->owed,
                         "gaps_dropped", srv_admin_number(p->gaps_dropped), "rate", srv_admin_number(p->rate));
}

/* Of drives that are in use: the others are not read. */
static json_t *drive_scrubs_json(const struct eng_health *health)
{
        json_t *list = json_array();
        unsigned i;

        for (i = 0; i < health->drive_count; i++)
                if (health->drives[i].state == ENG_DRIVE_IN)
                        json_array_append_new(list, drive_scrub_json(&health->drives[i]));
        return list;
}

static struct admin_answer answer_scrub(struct admin_request *request)
{
        struct eng_verify_report *reports = malloc(2 * sizeof(*reports));
        struct eng_health *health = malloc(sizeof(*health));
        struct admin_answer answer;

        if (reports == NULL || health == NULL) {
                free(reports);
                free(health);
                return srv_admin_error(503, "OutOfMemory", "out of memory");
        }
        eng_scrub_read(request->admin->source.store, &reports[0], &reports[1]);
        eng_health_read(request->admin->source.store, health);
        answer = srv_admin_json(200, json_pack("{s:o, s:o, s:o}", "now", report_json(&reports[0]), "last", report_json(&reports[1]),
                                               "data", drive_scrubs_json(health)));
        free(reports);
        free(health);
        return answer;
}

static struct admin_answer post_scrub(struct admin_request *request)
{
        int rv = eng_scrub_start(request->admin->source.store);

        if (rv == -EOPNOTSUPP)
                return srv_admin_error(409, "ScrubIsOff", "scrub_rate is 0");
        if (rv != 0)
                return srv_admin_error(503, "Unavailable", strerror(-rv));
        return srv_admin_json(202, json_pack("{s:b}", "started", 1));
}

/* ---- paths ----------------------------------------------------------------------------------- */

typedef struct admin_answer (*admin_handler)(struct admin_request *request);

static const struct route {
        const char *path;
        admin_handler get, post; /* NULL: 405 */
        enum { AT_NODE, AT_LEADER, AT_LEADERS } asked; /* in a cluster: the node itself, a pool's leader, or all of them, of a switch */
} routes[] = {
        {"/health/live", get_live, NULL, AT_NODE},
        {"/health/ready", get_ready, NULL, AT_NODE},
        {"/metrics", get_metrics, NULL, AT_NODE},
        {"/metrics/pool", get_metrics, NULL, AT_LEADER},
        {"/admin/v1/cluster", srv_admin_get_cluster, NULL, AT_NODE},
        {"/admin/v1/pool", srv_admin_get_pool, NULL, AT_LEADER},
        {"/admin/v1/probe", srv_admin_get_probe, NULL, AT_LEADER},
        {"/admin/v1/info", get_info, NULL, AT_LEADER},
        {"/admin/v1/verify", get_verify, post_verify, AT_LEADER},
        {"/admin/v1/scrub", answer_scrub, post_scrub, AT_LEADER},
        {"/admin/v1/drives", srv_admin_get_drives, srv_admin_post_drives, AT_LEADER},
        {"/admin/v1/nodes", srv_admin_get_nodes, srv_admin_post_nodes, AT_LEADER},
        {"/admin/v1/heal", srv_admin_get_heal, NULL, AT_LEADER},
        {"/admin/v1/start", srv_admin_get_start, srv_admin_post_start, AT_LEADER},
        {"/admin/v1/read-only", srv_admin_get_read_only, srv_admin_post_read_only, AT_LEADERS},
        {"/admin/v1/maintenance", srv_admin_get_maintenance, srv_admin_post_maintenance, AT_LEADERS},
        {"/admin/v1/lock-clock", srv_admin_get_lock_clock, srv_admin_post_lock_clock, AT_LEADER},
        {"/admin/v1/people", srv_admin_get_people, srv_admin_post_people, AT_NODE},
        {"/admin/v1/accounts", NULL, srv_admin_post_accounts, AT_NODE},
        {"/admin/v1/support", srv_admin_get_support, NULL, AT_NODE},
        {"/admin/v1/trace", srv_admin_get_trace, NULL, AT_NODE},
};

static const struct route *find_route(struct s3_str path)
{
        size_t i;

        for (i = 0; i < sizeof(routes) / sizeof(routes[0]); i++)
                if (s3_str_eq(path, s3_str_of(routes[i].path)))
                        return &routes[i];
        return NULL;
}

struct admin_answer srv_admin_answer(struct admin_request *request)
{
        bool get = strcmp(request->method, "GET") == 0 || strcmp(request->method, "HEAD") == 0;
        bool post = strcmp(request->method, "POST") == 0;
        const struct route *route;
        struct admin_answer answer;
        const char *code, *message;
        admin_handler handler;

        if (s3_str_starts(request->parts.path, S3_STR(ADMIN_PREFIX)) && !srv_admin_authorised(request, &code, &message))
                return srv_admin_error(403, code, message);
        route = find_route(request->parts.path);
        if (route == NULL)
                return srv_admin_error(404, "NotFound", "there is nothing at this path");
        handler = get ? route->get : post ? route->post : NULL;
        if (handler != NULL)
                return request->admin->ask_leader == NULL || route->asked == AT_NODE ? handler(request)
                       : route->asked == AT_LEADERS                                 ? srv_admin_ask_switch(request)
                                                                                    : srv_admin_ask_pool(request);
        answer = srv_admin_error(405, "MethodNotAllowed", "this path does not take this method");
        answer.allow = route->post == NULL ? "GET, HEAD" : route->get == NULL ? "POST" : "GET, HEAD, POST";
        return answer;
}

struct admin_answer srv_admin_answer_of_pool(struct admin_request *request)
{
        const struct route *route = find_route(request->parts.path);
        admin_handler handler = route == NULL || route->asked == AT_NODE ? NULL : strcmp(request->method, "POST") == 0 ? route->post : route->get;

        return handler != NULL ? handler(request) : srv_admin_error(404, "NotFound", "there is nothing at this path at the pool's leader");
}
