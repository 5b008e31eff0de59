/*
 * minio_admin.c - see minio_admin.h. On the request's loop. What is told is the copy of the store's state that health
 * checks read, so no call costs a drive anything.
 */
#include "gateway/s3/minio_admin.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "gateway/http/permit.h"
#include "gateway/rights/owners.h"

#define ADMIN_PATH "admin/v3/"

static void minio_info(struct gw_request *req);

const struct gw_op gw_minio_admin_op = {
        .name = "MinioAdmin",
        .method = "GET",
        .scope = GW_SERVICE,
        .no_bucket = true,
        .permission = "admin:ServerInfo",
        .run = minio_info,
};

bool gw_minio_admin_is(const struct gw_request *req)
{
        const struct eng_bucket *bucket;

        return !req->virtual_host && s3_str_eq(req->bucket, S3_STR("minio")) &&
               s3_str_starts(req->key, S3_STR(ADMIN_PATH)) &&
               gw_bucket_get(req->loop->gw, req->bucket, &bucket, NULL) != 0;
}

/* ---- answers --------------------------------------------------------------------------------- */

/* Takes the JSON over; NULL: no memory. */
static void minio_reply(struct gw_request *req, unsigned status, json_t *json)
{
        char *text = json != NULL ? json_dumps(json, JSON_COMPACT) : NULL;

        json_decref(json);
        if (text == NULL) {
                gw_reply_no_memory(req);
                return;
        }
        gw_reply_header(req, "Content-Type", "application/json");
        gw_reply_buffer(req, status, text, strlen(text));
}

static void minio_refuse(struct gw_request *req, unsigned status, const char *code, const char *message)
{
        const char *path = gw_copy(req, req->cut.path);

        if (path == NULL) {
                gw_reply_no_memory(req);
                return;
        }
        req->answer.error_code = code;
        minio_reply(req, status,
                    json_pack("{s:s, s:s, s:s, s:s, s:s}", "Code", code, "Message", message, "Resource", path,
                              "RequestId", req->id, "HostId", req->loop->gw->host_id));
}

/* ---- who may --------------------------------------------------------------------------------- */

bool gw_minio_admin_permit(struct gw_request *req)
{
        const struct gw_ask ask = {
                .loop = req->loop, .access_key = req->access_key, .req = req, .permission = req->op->permission};
        char account[GW_ACCOUNT_ID_LEN + 1];

        if (!gw_account_of(&ask, account) || strcmp(account, GW_FIRST_ACCOUNT) != 0 || !gw_permit(&ask, NULL)) {
                minio_refuse(req, 403, "AccessDenied", "Access Denied.");
                return false;
        }
        if (s3_str_eq(req->method, S3_STR("GET")) && s3_str_eq(req->key, S3_STR(ADMIN_PATH "info")))
                return true;
        minio_refuse(req, 501, "NotImplemented",
                     "Of MinIO's admin API this server has GET /minio/admin/v3/info alone.");
        return false;
}

/* ---- info ------------------------------------------------------------------------------------ */

/* As MinIO calls them. */
static const char *const minio_drive_states[ENG_DRIVE_STATES] = {
        [ENG_DRIVE_IN] = "ok",         [ENG_DRIVE_MISSING] = "missing", [ENG_DRIVE_STALE] = "offline",
        [ENG_DRIVE_FAILED] = "faulty", [ENG_DRIVE_JOINING] = "ok",      [ENG_DRIVE_REMOVED] = "offline",
};

static bool minio_drive_is_online(const struct eng_drive_info *drive)
{
        return drive->state == ENG_DRIVE_IN || drive->state == ENG_DRIVE_JOINING;
}

/* A path that is no UTF-8 is left out, as JSON cannot have it. */
static json_t *minio_drive(const struct eng_drive_info *drive, unsigned index)
{
        const char *path = s3_utf8_valid(s3_str_of(drive->path)) ? drive->path : "";
        uint64_t used =
                drive->total_bytes - (drive->free_bytes < drive->total_bytes ? drive->free_bytes : drive->total_bytes);

        return json_pack("{s:s, s:s, s:s, s:s, s:b, s:I, s:I, s:I, s:b, s:i, s:i, s:i}", "endpoint", path, "path", path,
                         "state", minio_drive_states[drive->state], "uuid", drive->id, "healing",
                         drive->state == ENG_DRIVE_JOINING || drive->filling, "totalspace",
                         (json_int_t)drive->total_bytes, "usedspace", (json_int_t)used, "availspace",
                         (json_int_t)drive->free_bytes, "local", 1, "pool_index", 0, "set_index", 0, "disk_index",
                         (int)index);
}

/* Of all pools. */
struct minio_totals {
        unsigned drives, online;
        uint64_t buckets, used; /* used: bytes that are referred to */
        bool ready;
};

/* False: no memory. */
static bool minio_drives(json_t *list, const struct eng_health *health, struct minio_totals *totals)
{
        for (unsigned i = 0; i < health->drive_count; i++) {
                const struct eng_drive_info *drive = &health->drives[i];

                if (drive->state == ENG_DRIVE_REMOVED)
                        continue;
                if (json_array_append_new(list, minio_drive(drive, totals->drives)) != 0)
                        return false;
                totals->drives++;
                totals->online += minio_drive_is_online(drive);
                totals->used += drive->log_live_bytes + drive->data_live_bytes;
        }
        return true;
}

/* The one server that there is. Takes the drives over. */
static json_t *minio_server(struct gw_request *req, json_t *drives)
{
        const char *endpoint = gw_copy(req, gw_header(req, "Host"));
        uint64_t uptime_s = (gw_clock_ns() - req->loop->gw->started_ns) / 1000000000u;

        if (endpoint == NULL || !s3_utf8_valid(s3_str_of(endpoint)))
                endpoint = "";
        return json_pack("{s:s, s:s, s:s, s:I, s:s, s:{s:s}, s:o, s:i, s:[i]}", "state", "online", "endpoint", endpoint,
                         "scheme", req->conn->listener->tls ? "https" : "http", "uptime", (json_int_t)uptime_s,
                         "version", MILLRACE_VERSION, "network", endpoint, "online", "drives", drives, "poolNumber", 1,
                         "poolNumbers", 1);
}

static json_t *minio_not_counted(void)
{
        return json_pack("{s:i, s:s}", "count", 0, "error", "not counted");
}

/* `health` is left as that of the first pool. */
static json_t *minio_info_json(struct gw_request *req, struct eng_health *health)
{
        const struct gw_pools *pools = &req->loop->gw->pools;
        struct minio_totals totals = {.ready = true};
        json_t *drives = json_array();

        for (unsigned i = atomic_load(&pools->count); i-- > 0;) {
                eng_health_read(pools->list[i].store, health);
                totals.ready = totals.ready && health->ready;
                totals.buckets += health->buckets;
                if (!minio_drives(drives, health, &totals)) {
                        json_decref(drives);
                        return NULL;
                }
        }
        return json_pack(
                "{s:s, s:s, s:s, s:{s:I}, s:o, s:o, s:o, s:{s:I}, s:{s:s, s:i, s:i, s:i, s:i, s:[i], s:[i]}, s:[o]}",
                "mode", totals.ready ? "online" : "initializing", "region", req->loop->gw->region, "deploymentID",
                health->store_id, "buckets", "count", (json_int_t)totals.buckets, "objects", minio_not_counted(),
                "versions", minio_not_counted(), "deletemarkers", minio_not_counted(), "usage", "size",
                (json_int_t)totals.used, "backend", "backendType", "Erasure", "onlineDisks", (int)totals.online,
                "offlineDisks", (int)(totals.drives - totals.online), "standardSCParity", (int)health->ec_m,
                "rrSCParity", (int)health->ec_m, "totalSets", 1, "totalDrivesPerSet", (int)totals.drives, "servers",
                minio_server(req, drives));
}

static void minio_info(struct gw_request *req)
{
        struct eng_health *health = malloc(sizeof(*health));

        if (health == NULL) {
                gw_reply_no_memory(req);
                return;
        }
        minio_reply(req, 200, minio_info_json(req, health));
        free(health);
}
