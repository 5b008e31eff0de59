/*
 * rdma_token.c - the header protocol: requests with x-amz-rdma-token, which name a target somewhere
 * on the fabric (docs/rdma-protocol.md, "The header protocol"). What they must look like, and
 * whether they are served by RDMA or declined. On the request's loop; nothing here waits. The
 * bytes' way is that of sessions (rdma_transfer.c).
 *
 * A token makes the server write to (or read from) whomever it names, so it counts only under a
 * signature, and only where the listener's list has the target's GID.
 */
#include "gateway/rdma/rdma_session.h"

#include <string.h>


/* ---- may it be served ------------------------------------------------------------------------ */

static bool is_permitted_target(const struct gw_targets *targets, const struct rdx_token *token)
{
        unsigned i;

        for (i = 0; token->has_gid && i < targets->count; i++)
                if (memcmp(targets->gid[i], token->gid, RDX_GID_LEN) == 0)
                        return true;
        return false;
}

/* Its bytes may be seen by nobody on the way. */
static bool has_customer_key(const struct gw_request *req)
{
        unsigned i;

        for (i = 0; i < req->header_count; i++)
                if (s3_str_starts_nocase(req->headers[i].name, S3_STR("x-amz-server-side-encryption-customer-")))
                        return true;
        return false;
}

/* Why it is not, before anything is asked of a device. False: nothing speaks against it. */
static bool is_declined(const struct gw_request *req, const struct rdx_token *token, enum rdx_decline *reason)
{
        const struct gw_targets *targets = req->conn->listener->targets;

        if (targets == NULL || targets->count == 0)
                *reason = RDX_DECLINE_OFF;
        else if (!is_permitted_target(targets, token))
                *reason = RDX_DECLINE_TARGET;
        else if (has_customer_key(req))
                *reason = RDX_DECLINE_SSE_C;
        else if (req->loop->gw->rdma == NULL)
                *reason = RDX_DECLINE_DEVICE;
        else
                return false;
        return true;
}

void gw_token_decline(struct gw_request *req, enum rdx_decline reason)
{
        if (req->loop->gw->rdma != NULL)
                rdx_count_decline(req->loop->gw->rdma, reason);
        if (!gw_carried_upload(req)) {
                req->rdma->declined = true;
                req->rdma->reason = reason;
                gw_begin_done(req);
                return;
        }
        gw_reply_header(req, "x-amz-rdma-reply", "501");
        gw_reply_header(req, "x-millrace-rdma-declined", rdx_decline_name(reason));
        gw_reply_error(req, S3_ERR_RDMA_NOT_SUPPORTED, "Not over RDMA: nothing was stored. Send it with a body.");
        req->answer.status = 200; /* as the protocol has it: x-amz-rdma-reply says what happened */
}

/* ---- what it must look like ------------------------------------------------------------------ */

/* Nothing else transfers an object's bytes; there the header means nothing. */
static bool is_about_bytes(const struct gw_request *req)
{
        return req->op->body == GW_BODY_DATA || (req->op->sends_object && !req->is_head);
}

static bool has_token_header(const struct gw_request *req, bool *once)
{
        unsigned i, count = 0;

        for (i = 0; i < req->header_count; i++)
                count += s3_str_eq_nocase(req->headers[i].name, S3_STR(GW_TOKEN_HEADER));
        *once = count == 1;
        return count > 0;
}

static enum s3_error read_rdma_token(struct gw_request *req, bool once)
{
        const struct s3_auth *auth = &req->loop->auth;
        struct s3_str text = gw_header(req, GW_TOKEN_HEADER);
        struct rdx_token *token;
        struct gw_rdma *rdma;

        if (req->rdma != NULL || auth->kind != S3_AUTH_HEADER || auth->payload != S3_PAYLOAD_UNSIGNED ||
            !gw_session_signed(auth, GW_TOKEN_HEADER))
                return S3_ERR_ACCESS_DENIED;
        rdma = gw_alloc(req, sizeof(*rdma));
        token = gw_alloc(req, sizeof(*token));
        if (rdma == NULL || token == NULL)
                return S3_ERR_SLOW_DOWN;
        if (!once || rdx_token_parse(text.data, text.len, token) != 0)
                return S3_ERR_INVALID_RDMA_TOKEN;
        if (req->op->body == GW_BODY_DATA && !gw_session_bodyless(req))
                return S3_ERR_INVALID_REQUEST;
        rdma->token = token;
        rdma->window = (struct rdx_window_span){.address = token->address, .rkey = token->rkey, .length = token->size};
        rdma->declined = is_declined(req, token, &rdma->reason);
        gw_session_attach(req, rdma);
        return S3_OK;
}

bool gw_token_accept(struct gw_request *req)
{
        enum s3_error error;
        bool once;

        if (!is_about_bytes(req) || !has_token_header(req, &once))
                return true;
        error = read_rdma_token(req, once);
        if (error != S3_OK)
                gw_reply_error(req, error,
                               error == S3_ERR_INVALID_REQUEST ? "A request with x-amz-rdma-token has no body" : NULL);
        return error == S3_OK;
}
