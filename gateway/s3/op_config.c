/*
 * op_config.c - configurations of buckets that are never set here: S3's "not configured" answers. On
 * the request's loop.
 *
 * Taking a configuration away that cannot be there succeeds, as in S3. Those that are kept:
 * text_rows.c.
 */
#include "gateway/s3/handlers.h"

void gw_run_config(struct gw_request *req)
{
        req->refused_query = s3_str_of(req->op->sub);
        gw_reply_error(req, req->op->arg, NULL);
}

void gw_run_config_delete(struct gw_request *req)
{
        gw_reply_empty(req, 204);
}
