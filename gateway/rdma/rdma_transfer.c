/*
 * rdma_transfer.c - the bytes of a request on a session: its number, the gate that they pass, and
 * its end, for both directions (transfer_get.c, transfer_put.c).
 *
 * On the request's loop. A transfer outlives its request where that ends first: it is dropped then,
 * gives no more, and frees itself when the RDMA module says that nothing of it is posted any more.
 * So what a device reads from or writes to stays until it is through with it (I7), and success is
 * answered only behind the last completion.
 */
#include "gateway/rdma/rdma_transfer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static struct gw_transfer *of_rdx(struct rdx_request *rdx)
{
        struct gw_transfer *t = container_of(rdx, struct gw_transfer, rdx);

        GW_CHECK(gw_transfer, t);
        return t;
}

struct gw_piece *gw_piece_idle(struct gw_transfer *t)
{
        unsigned i;

        for (i = 0; i < GW_PIECES; i++)
                if (!t->piece[i].busy)
                        return &t->piece[i];
        return NULL;
}

void gw_transfer_free(struct gw_transfer *t)
{
        GW_CHECK(gw_transfer, t);
        t->magic = 0;
        gw_transfer_get_free(t);
        gw_transfer_put_free(t);
        free(t);
}

/* ---- the gate -------------------------------------------------------------------------------- */

void gw_transfer_close(struct gw_transfer *t, bool whole)
{
        if (t->closed)
                return;
        t->closed = true;
        lp_reserve_cancel(t->lp, &t->reserve);
        if (whole)
                rdx_request_finish(&t->rdx);
        else
                rdx_request_abandon(&t->rdx);
}

void gw_transfer_fail(struct gw_transfer *t, int rv)
{
        if (t->error == 0)
                t->error = rv;
        gw_transfer_close(t, false);
}

static void answer_failed(struct gw_request *req, const struct gw_transfer *t)
{
        req->answer.header_count = 0;
        if (t->error != 0 && t->error != -ECONNRESET)
                gw_reply_errno(req, t->error, t->rdx.read ? GW_ABOUT_WRITE : GW_ABOUT_KEY);
        else
                gw_reply_error(req, S3_ERR_SERVICE_UNAVAILABLE, NULL);
}

/* Nothing of it is posted any more. */
static void transfer_ended(struct rdx_request *rdx, int result)
{
        struct gw_transfer *t = of_rdx(rdx);
        struct gw_request *req = t->req;

        if (req != NULL && gw_back(req)) {
                req->rdma->posted = rdx->posted;
                if (result == 0 && t->error == 0) {
                        if (rdx->read)
                                gw_transfer_read(t);
                        else
                                gw_transfer_written(t);
                        return;
                }
                req->rdma->transfer = NULL;
                answer_failed(req, t);
        }
        gw_transfer_free(t);
}

/* ---- the request's side ---------------------------------------------------------------------- */

/* The body is the way then: the answer's, or one that is to be sent. */
static void decline(struct gw_request *req, enum rdx_decline reason)
{
        if (req->rdma->token != NULL) {
                gw_token_decline(req, reason);
                return;
        }
        rdx_count_decline(req->loop->gw->rdma, reason);
        if (gw_carried_upload(req)) {
                gw_reply_header(req, "x-millrace-rdma-declined", rdx_decline_name(reason));
                gw_reply_error(req, S3_ERR_RDMA_DECLINED, NULL);
                return;
        }
        req->rdma->declined = true;
        req->rdma->reason = reason;
        gw_begin_done(req);
}

/* Answers, or lets the request go on: refused in begin(), it is woken for its answer. */
static void begin_refused(struct gw_request *req, int rv)
{
        if (rv == -ENOENT || req->rdma->token != NULL) {
                decline(req,
                        RDX_DECLINE_DEVICE); /* it ended since its key was looked up; or no initiator can reach the target now */
                return;
        }
        if (rv == -ENOTCONN || rv == -EOPNOTSUPP) {
                decline(req, rv == -ENOTCONN ? RDX_DECLINE_QUEUE_PAIRS : RDX_DECLINE_READS);
                return;
        }
        if (rv == -EEXIST || rv == -ERANGE)
                gw_reply_error(req, S3_ERR_RDMA_REQUEST_REPEATED, NULL);
        else if (rv == -EINVAL && gw_carried_upload(req) && req->rdma->window.length > GW_OBJECT_MAX)
                gw_reply_error(req, S3_ERR_ENTITY_TOO_LARGE, NULL);
        else if (rv == -EINVAL)
                gw_reply_error(req, S3_ERR_MALFORMED_RDMA_REQUEST, NULL);
        else
                gw_reply_error(req, S3_ERR_SLOW_DOWN, NULL);
}

static void begun(struct rdx_request *rdx, int result)
{
        struct gw_transfer *t = of_rdx(rdx);
        struct gw_request *req = t->req;
        bool wanted = req != NULL && gw_back(req);

        assert(!t->begun);
        t->begun = result == 0;
        if (result == 0) {
                if (wanted)
                        t->next(req);
                else
                        gw_transfer_close(t, false);
                return;
        }
        if (wanted) {
                req->rdma->transfer = NULL;
                begin_refused(req, result);
        }
        gw_transfer_free(t);
}

void gw_transfer_begin(struct gw_request *req, void (*next)(struct gw_request *req))
{
        struct gw_rdma *rdma = req->rdma;
        struct gw_transfer *t;

        if (rdma->declined || (rdma->token == NULL && !rdma->connected)) {
                decline(req, rdma->declined ? rdma->reason : RDX_DECLINE_QUEUE_PAIRS);
                return;
        }
        t = calloc(1, sizeof(*t));
        if (t == NULL) {
                gw_reply_no_memory(req);
                return;
        }
        t->magic = gw_transfer_magic;
        t->req = req;
        t->next = next;
        t->loop = req->loop;
        t->lp = req->loop->lp;
        memcpy(t->rdx.session, rdma->session, RDX_ID_LEN);
        t->rdx.token = rdma->token;
        t->rdx.number = rdma->number;
        t->rdx.window = rdma->window;
        t->rdx.read = gw_carried_upload(req);
        t->rdx.begun = begun;
        t->rdx.ended = transfer_ended;
        rdma->transfer = t;
        rdx_request_begin(req->loop->gw->rdma, &t->rdx);
}

static void transfer_drop(struct gw_request *req)
{
        struct gw_transfer *t = req->rdma->transfer;

        if (t == NULL)
                return;
        GW_CHECK(gw_transfer, t);
        assert(t->req == req);
        req->rdma->transfer = NULL;
        t->req = NULL;
        if (t->read)
                gw_transfer_free(t);
        else if (t->begun)
                gw_transfer_fail(t, -ECANCELED);
}

static uint64_t transfer_length(const struct gw_request *req)
{
        return req->rdma->window.length;
}

static bool transfer_under_way(const struct gw_request *req)
{
        return req->rdma->transfer != NULL;
}

/* It holds buffers until its READs are over, and only the end of its session ends these. */
static void transfer_cut(struct gw_request *req)
{
        rdx_session_end(req->loop->gw->rdma, req->rdma->session);
}

const struct gw_carrier gw_transfer_carrier = {
        .drop = transfer_drop,
        .length = transfer_length,
        .under_way = transfer_under_way,
        .waits = gw_transfer_waits,
        .cut = transfer_cut,
};
