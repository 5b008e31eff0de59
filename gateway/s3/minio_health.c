/*
 * minio_health.c - see minio_health.h. On the request's loop. Nobody has to sign, and nothing is told but whether
 * requests are served: no figure, no name. A bucket "minio" of the first account goes first, so that no object of the
 * operator's is hidden by this. One of another account does not: its owner must not say who sends requests here.
 */
#include "gateway/s3/minio_health.h"

#include <stdlib.h>
#include <string.h>

#include "engine.h"
#include "gateway/http/operation.h"
#include "gateway/http/reply.h"
#include "gateway/people/bucket_owner.h"

const struct gw_op gw_health_op = {.name = "HealthCheck", .method = "GET", .no_bucket = true};

enum minio_check { MINIO_LIVE, MINIO_READY, MINIO_CLUSTER, MINIO_NONE };

static enum minio_check minio_check_of(struct s3_str key)
{
        if (s3_str_eq(key, S3_STR("health/live")))
                return MINIO_LIVE;
        if (s3_str_eq(key, S3_STR("health/ready")) || s3_str_eq(key, S3_STR("health/cluster/read")))
                return MINIO_READY;
        return s3_str_eq(key, S3_STR("health/cluster")) ? MINIO_CLUSTER : MINIO_NONE;
}

static bool is_signed(const struct gw_request *req)
{
        return gw_header(req, "Authorization").len > 0 || gw_query_has(req, "X-Amz-Algorithm") ||
               gw_query_has(req, "X-Amz-Signature") || gw_query_has(req, "Signature");
}

/*
 * As /health/ready of the admin listener has it, of the first pool: with it users can sign, and each other pool that has a leader
 * is served. Of the cluster, all pools must be ready, and writes must be possible.
 */
static bool minio_passes(const struct gw_gateway *gw, enum minio_check check)
{
        unsigned count = check == MINIO_CLUSTER ? atomic_load(&gw->pools.count) : 1;
        struct eng_health *health;
        bool passes;

        if (check == MINIO_LIVE)
                return true;
        health = malloc(sizeof(*health));
        if (health == NULL)
                return false;
        passes = gw_people_known(gw);
        for (unsigned i = 0; i < count && passes; i++) {
                eng_health_read(gw->pools.list[i].store, health);
                passes = health->ready && (check != MINIO_CLUSTER || health->writable);
        }
        free(health);
        return passes;
}

static bool minio_is_hidden(const struct gw_request *req)
{
        char account[GW_ACCOUNT_ID_LEN + 1];
        const struct eng_bucket *bucket;

        if (gw_bucket_get(req->loop->gw, req->bucket, &bucket, NULL) != 0)
                return false;
        gw_bucket_account(bucket, account);
        return strcmp(account, GW_FIRST_ACCOUNT) == 0;
}

bool gw_minio_health(struct gw_request *req)
{
        bool get = s3_str_eq(req->method, S3_STR("GET")) || req->is_head;
        enum minio_check check;

        if (!get || req->virtual_host || !s3_str_eq(req->bucket, S3_STR("minio")) || is_signed(req))
                return false;
        check = minio_check_of(req->key);
        if (check == MINIO_NONE || minio_is_hidden(req))
                return false;
        req->op = &gw_health_op;
        gw_reply_header(req, "X-Minio-Server-Status", minio_passes(req->loop->gw, MINIO_READY) ? "online" : "offline");
        gw_reply_empty(req, minio_passes(req->loop->gw, check) ? 200 : 503);
        return true;
}
