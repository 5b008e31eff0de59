/*
 * service.c - S3 as a gateway serves it: the table of operations, and what the HTTP side calls
 * without knowing whom.
 */
#include "gateway/iam/iam.h"
#include "gateway/people/people.h"
#include "gateway/rdma/executor.h"
#include "gateway/rights/rights.h"
#include "gateway/s3/acl_request.h"
#include "gateway/s3/cors_answer.h"
#include "gateway/s3/head.h"
#include "gateway/s3/inventory_run.h"
#include "gateway/s3/lifecycle_run.h"
#include "gateway/s3/log_delivery.h"
#include "gateway/s3/minio_admin.h"
#include "gateway/s3/minio_health.h"
#include "gateway/s3/public_access.h"
#include "gateway/s3/route.h"
#include "gateway/rdma/rdma_session.h"
#include "gateway/sts/issuers.h"
#include "gateway/sts/signer.h"

static void service_last_headers(struct gw_request *req)
{
        if (req->answer.status >= 300 && gw_session_none_posted(req))
                gw_reply_header(req, "x-millrace-rdma-posted", "none");
        gw_cors_headers(req);
}

static void service_credential_gone(struct gw_gateway *gw, const char *access_key)
{
        if (gw->rdma != NULL)
                rdx_sessions_revoke(gw->rdma, access_key);
}

static void service_loop_end(struct gw_loop *loop)
{
        gw_executor_end(loop->executor);
        gw_logs_free(loop->logs);
        loop->logs = NULL;
        gw_sts_loop_end(loop);
        if (loop == &loop->gw->loops[0]) {
                gw_lifecycle_free(loop->gw->lifecycle);
                loop->gw->lifecycle = NULL;
                gw_inventory_free(loop->gw->inventory);
                loop->gw->inventory = NULL;
                gw_people_free(loop->gw);
                gw_rights_free(loop->gw);
                gw_issuers_free(loop->gw);
                gw_sts_free(loop->gw);
        }
}

static const struct gw_op *const service_others[] = {&gw_iam_op, &gw_sts_op, &gw_health_op, &gw_minio_admin_op, NULL};

static const struct gw_service service = {
        .ops = gw_ops,
        .op_count = &gw_op_count,
        .others = service_others,
        .accept = gw_head_accept,
        .last_headers = service_last_headers,
        .credential_gone = service_credential_gone,
        .signer = gw_people_signer,
        .permits = gw_rights_decide,
        .temporary_put = gw_temporary_put,
        .restricts_public = gw_public_restricted,
        .ended = gw_logs_ended,
        .takes_acls = gw_takes_acls,
        .ignores_public_acls = gw_ignores_public_acls,
        .loop_end = service_loop_end,
};

int gw_new(const struct gw_options *options, struct gw_gateway **out)
{
        struct gw_gateway *gw;
        int rv = gw_site_new(options, &service, &gw);

        if (rv != 0)
                return rv;
        rv = gw_rights_start(gw);
        if (rv == 0)
                rv = gw_sts_start(gw);
        if (rv == 0 && options->oidc != NULL)
                rv = gw_issuers_start(gw, options->oidc);
        if (rv == 0 && options->sealer.open != NULL)
                rv = gw_people_start(gw);
        if (rv == 0)
                *out = gw;
        else
                gw_free(gw);
        return rv;
}
