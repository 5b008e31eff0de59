/*
 * transfer_get.c - the bytes of a GET on their way into a window of the client's: spans of the
 * engine, which lie in the loop's registered arena, are given to the RDMA module as they are,
 * several at a time, and let go when their WRITE has completed.
 *
 * On the request's loop. What was not read into the arena (small objects, from log and cache) is
 * copied into a slot of it. rdma_transfer.c says what keeps I7.
 */
#include "gateway/http/stream.h"
#include "gateway/rdma/rdma_transfer.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

_Static_assert(LP_SLOT_UNIT <= RDX_WRITE_MAX, "a span is one WRITE");

static void get_pump(struct gw_transfer *t);

void gw_transfer_get_free(struct gw_transfer *t)
{
        if (t->bounce != NULL)
                lp_slot_put(t->lp, t->bounce);
        if (t->reserved)
                lp_unreserve(t->lp, t->reserve.share, t->reserve.count);
        if (t->get != NULL)
                eng_get_close(t->get);
}

void gw_transfer_written(struct gw_transfer *t)
{
        struct gw_request *req = t->req;

        assert(req->rdma->transfer == t && t->given == t->len);
        req->rdma->transfer = NULL;
        gw_session_headers(req, t->status, t->len);
        if (t->rdx.notice)
                gw_reply_header(req, "x-millrace-rdma-notices", gw_printf(req, "%u.0", t->rdx.endpoint));
        gw_crc_header(req, t->get);
        gw_reply_empty(req, t->status);
        gw_transfer_free(t);
}

/* ---- giving ---------------------------------------------------------------------------------- */

static void get_piece_done(struct rdx_write *write, int result)
{
        struct gw_piece *piece = container_of(write, struct gw_piece, write);
        struct gw_transfer *t = piece->transfer;

        GW_CHECK(gw_transfer, t);
        assert(piece->busy);
        piece->busy = false;
        if (write->buf == t->bounce)
                t->bounce_busy = false;
        if (piece->span != NULL)
                eng_get_let_go(t->get, piece->span);
        if (result != 0)
                gw_transfer_fail(t, -ECONNRESET);
        else
                get_pump(t);
}

static void bounce_granted(struct lp_reserve *reserve)
{
        struct gw_transfer *t = container_of(reserve, struct gw_transfer, reserve);

        GW_CHECK(gw_transfer, t);
        assert(t->reserving && !t->reserved);
        t->reserving = false;
        t->reserved = true;
        get_pump(t);
}

static void bounce_refused(struct lp_reserve *reserve)
{
        struct gw_transfer *t = container_of(reserve, struct gw_transfer, reserve);

        GW_CHECK(gw_transfer, t);
        assert(t->reserving && !t->reserved);
        gw_transfer_fail(t, ENG_GET_BUSY);
}

/* A slot to copy into: 0, -EAGAIN (get_pump() is called when there is one), or an error. */
static int need_bounce(struct gw_transfer *t)
{
        int rv;

        if (t->bounce != NULL)
                return t->bounce_busy ? -EAGAIN : 0;
        if (t->reserving)
                return -EAGAIN;
        if (!t->reserved) {
                t->reserve = (struct lp_reserve){
                        .count = 1, .share = LP_SHARE_GET, .granted = bounce_granted, .expired = bounce_refused};
                rv = lp_reserve(t->lp, &t->reserve);
                t->reserving = rv == -EAGAIN;
                t->reserved = rv == 0;
                if (rv != 0)
                        return rv;
        }
        t->bounce = lp_slot_get(t->lp);
        return 0;
}

/* Hands over the next piece of the span. 0, -EAGAIN, or an error. */
static int get_give(struct gw_transfer *t, struct gw_piece *piece)
{
        size_t n = t->span_left < RDX_WRITE_MAX ? t->span_left : RDX_WRITE_MAX;
        const uint8_t *from = t->span;
        bool in_arena = rdx_server_registered(t->loop->gw->rdma, from, n);
        int rv = in_arena ? 0 : need_bounce(t);

        if (rv != 0)
                return rv;
        assert(!in_arena || n == t->span_left); /* a span is let go as a whole */
        piece->transfer = t;
        piece->busy = true;
        piece->span = in_arena ? from : NULL;
        piece->write =
                (struct rdx_write){.buf = (void *)from, .len = (uint32_t)n, .offset = t->given, .done = get_piece_done};
        if (!in_arena) {
                memcpy(t->bounce, from, n);
                t->bounce_busy = true;
                piece->write.buf = t->bounce;
                piece->write.copied = true;
        }
        t->span += n;
        t->span_left -= n;
        t->given += n;
        rdx_request_write(&t->rdx, &piece->write);
        return 0;
}

static void get_pump(struct gw_transfer *t)
{
        struct gw_piece *piece;
        int rv = 0;

        while (!t->closed && rv == 0 && t->given < t->len && (piece = gw_piece_idle(t)) != NULL) {
                if (t->span_left == 0)
                        rv = eng_get_next(t->get, &t->span, &t->span_left);
                if (rv == 0)
                        rv = get_give(t, piece);
        }
        if (t->closed)
                return;
        if (rv != 0 && rv != -EAGAIN)
                gw_transfer_fail(t, rv);
        else if (t->given == t->len)
                gw_transfer_close(t, true);
}

static void get_wake(void *arg)
{
        get_pump(GW_CAST(gw_transfer, arg));
}

bool gw_transfer_send(struct gw_request *req, unsigned status, uint64_t offset, uint64_t len)
{
        struct gw_rdma *rdma = req->rdma;
        struct gw_transfer *t = rdma->transfer;
        int rv;

        if (rdma->declined) {
                gw_reply_header(req, "x-amz-rdma-reply", rdma->token != NULL ? "501" : NULL);
                gw_reply_header(req, "x-millrace-transport", "tcp");
                gw_reply_header(req, "x-millrace-rdma-declined", rdx_decline_name(rdma->reason));
                return false;
        }
        if (len > rdma->window.length) {
                req->answer.header_count = 0;
                gw_reply_header_uint(req, "x-millrace-rdma-needed", len);
                gw_reply_error(req, S3_ERR_RDMA_WINDOW_TOO_SMALL, NULL);
                return true;
        }
        eng_get_sum(req->get);
        eng_get_hold(req->get);
        rv = eng_get_start(req->get, offset, len, get_wake, t);
        if (rv != 0) {
                req->answer.header_count = 0;
                gw_reply_errno(req, rv, GW_ABOUT_KEY);
                return true;
        }
        GW_CHECK(gw_transfer, t);
        assert(t->req == req && t->get == NULL);
        t->get = req->get;
        req->get = NULL;
        t->status = status;
        t->len = len;
        get_pump(t);
        return true;
}
