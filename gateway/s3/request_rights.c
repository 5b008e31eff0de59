/*
 * request_rights.c - see request_rights.h. Nothing here waits.
 */
#include "gateway/s3/request_rights.h"

#include "gateway/http/permit.h"

/* A header that says no asks for nothing. */
static bool right_is_needed(const struct gw_request *req, const struct gw_right *right)
{
        struct s3_str value;

        if (right->header == NULL)
                return true;
        value = s3_str_trim(gw_header(req, right->header));
        return value.len > 0 && !s3_str_eq_nocase(value, S3_STR("false"));
}

static bool rights_ask(struct gw_request *req, struct s3_str bucket, struct s3_str key, bool version)
{
        const struct gw_op *op = req->op;
        const struct gw_right *more;

        if (!gw_permit(req->loop, req->access_key, version && op->of_version != NULL ? op->of_version : op->permission,
                       bucket, key))
                return false;
        for (more = op->more; more != NULL && more->permission != NULL; more++)
                if (right_is_needed(req, more) &&
                    !gw_permit(req->loop, req->access_key,
                               version && more->of_version != NULL ? more->of_version : more->permission, bucket, key))
                        return false;
        return true;
}

bool gw_rights_permit(struct gw_request *req, struct s3_str key, bool version)
{
        return rights_ask(req, req->bucket, key, version);
}

bool gw_rights_permit_request(struct gw_request *req)
{
        const struct s3_str none = {NULL, 0};
        bool version = req->op->scope == GW_OBJECT && gw_query_has(req, "versionId");

        if (req->op->scope == GW_RESERVED)
                return rights_ask(req, none, none, false);
        return rights_ask(req, req->bucket, req->key, version) ||
               (req->op->scope == GW_BUCKET && req->op->of_version != NULL && rights_ask(req, req->bucket, req->key, true));
}
