/*
 * transfer.c - the bytes of a GET on their way into a window of the client's: spans of the engine, which lie in the loop's registered arena, are given to the
 * RDMA house as they are, several at a time, and let go when their WRITE has completed.
 *
 * On the request's loop. A transfer outlives its request where that ends first: it is dropped then, gives no more, and frees itself when the RDMA house says that
 * nothing of it is posted any more. So what a device reads from stays until it is through with it (I7), and success is answered only behind the
 * last completion. What was not read into the arena (small objects, from log and cache) is copied into a slot of it.
 */
#include "session.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "ops.h"

#define PIECES 16u /* handed over and not through, of one request */

_Static_assert(LP_SLOT_UNIT <= RDX_WRITE_MAX, "a span is one WRITE");

/* One WRITE. */
struct piece {
        struct rdx_write write;
        struct gw_transfer *transfer;
        const uint8_t *span; /* of the engine's, to be let go; NULL: it was copied */
        bool busy;
};

/* owner: the request's loop */
struct gw_transfer {
        struct rdx_request rdx;
        struct gw_request *req; /* NULL: dropped */
        struct gw_loop *loop;
        struct eng_get *get; /* from gw_transfer_send() on */
        unsigned status;
        uint64_t given, len; /* handed over, to be handed over */
        bool begun, closed;  /* the gate: finish or abandon was called */
        int error;
        const uint8_t *span; /* the engine's last, and what of it was not handed over */
        size_t span_left;
        struct lp_reserve reserve;
        bool reserving, reserved, bounce_busy;
        uint8_t *bounce; /* a slot for what does not lie in the arena */
        struct piece piece[PIECES];
};

static void pump(struct gw_transfer *t);

static struct gw_transfer *of_rdx(struct rdx_request *rdx)
{
        return (struct gw_transfer *)((char *)rdx - offsetof(struct gw_transfer, rdx));
}

static void free_transfer(struct gw_transfer *t)
{
        struct lp_loop *loop = t->loop->lp;

        if (t->bounce != NULL)
                lp_slot_put(loop, t->bounce);
        if (t->reserved)
                lp_unreserve(loop, t->reserve.share, t->reserve.count);
        if (t->get != NULL)
                eng_get_close(t->get);
        free(t);
}

/* No more is handed over. */
static void close_gate(struct gw_transfer *t)
{
        if (t->closed)
                return;
        t->closed = true;
        lp_reserve_cancel(t->loop->lp, &t->reserve);
        if (t->error == 0 && t->given == t->len && t->get != NULL)
                rdx_request_finish(&t->rdx);
        else
                rdx_request_abandon(&t->rdx);
}

/* ---- the answer ----------------------------------------------------------------------------------- */

static void answer_written(struct gw_request *req, const struct gw_transfer *t)
{
        gw_reply_header(req, "Cache-Control", "no-store");
        gw_reply_header(req, "x-millrace-transport", "rdma");
        gw_reply_header_uint(req, "x-millrace-rdma-bytes", t->len);
        if (t->rdx.notice)
                gw_reply_header(req, "x-millrace-rdma-notices", gw_printf(req, "%u.0", t->rdx.endpoint));
        gw_crc_header(req, t->get);
        gw_reply_empty(req, t->status);
}

/* Nothing of it is posted any more. */
static void ended(struct rdx_request *rdx, int result)
{
        struct gw_transfer *t = of_rdx(rdx);
        struct gw_request *req = t->req;

        if (req != NULL && gw_back(req)) {
                req->rdma->transfer = NULL;
                req->rdma->posted = rdx->posted;
                if (result == 0) {
                        answer_written(req, t);
                } else {
                        req->answer.header_count = 0;
                        if (t->error != 0 && t->error != -ECONNRESET)
                                gw_reply_errno(req, t->error, GW_ABOUT_KEY);
                        else
                                gw_reply_error(req, S3_ERR_SERVICE_UNAVAILABLE, NULL);
                }
        }
        free_transfer(t);
}

/* ---- giving --------------------------------------------------------------------------------------- */

static void fail(struct gw_transfer *t, int rv)
{
        if (t->error == 0)
                t->error = rv;
        close_gate(t);
}

static void piece_done(struct rdx_write *write, int result)
{
        struct piece *piece = (struct piece *)((char *)write - offsetof(struct piece, write));
        struct gw_transfer *t = piece->transfer;

        piece->busy = false;
        if (write->buf == t->bounce)
                t->bounce_busy = false;
        if (piece->span != NULL)
                eng_get_let_go(t->get, piece->span);
        if (result != 0)
                fail(t, -ECONNRESET);
        else
                pump(t);
}

static struct piece *idle_piece(struct gw_transfer *t)
{
        unsigned i;

        for (i = 0; i < PIECES; i++)
                if (!t->piece[i].busy)
                        return &t->piece[i];
        return NULL;
}

static void bounce_granted(struct lp_reserve *reserve)
{
        struct gw_transfer *t = (struct gw_transfer *)((char *)reserve - offsetof(struct gw_transfer, reserve));

        t->reserving = false;
        t->reserved = true;
        pump(t);
}

static void bounce_refused(struct lp_reserve *reserve)
{
        fail((struct gw_transfer *)((char *)reserve - offsetof(struct gw_transfer, reserve)), ENG_GET_BUSY);
}

/* A slot to copy into: 0, -EAGAIN (pump() is called when there is one), or an error. */
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
                rv = lp_reserve(t->loop->lp, &t->reserve);
                t->reserving = rv == -EAGAIN;
                t->reserved = rv == 0;
                if (rv != 0)
                        return rv;
        }
        t->bounce = lp_slot_get(t->loop->lp);
        return 0;
}

/* Hands over the next piece of the span. 0, -EAGAIN, or an error. */
static int give(struct gw_transfer *t, struct piece *piece)
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
                (struct rdx_write){.buf = (void *)from, .len = (uint32_t)n, .offset = t->given, .done = piece_done};
        if (!in_arena) {
                memcpy(t->bounce, from, n);
                t->bounce_busy = true;
                piece->write.buf = t->bounce;
        }
        t->span += n;
        t->span_left -= n;
        t->given += n;
        rdx_request_write(&t->rdx, &piece->write);
        return 0;
}

static void pump(struct gw_transfer *t)
{
        struct piece *piece;
        int rv = 0;

        while (!t->closed && rv == 0 && t->given < t->len && (piece = idle_piece(t)) != NULL) {
                if (t->span_left == 0)
                        rv = eng_get_next(t->get, &t->span, &t->span_left);
                if (rv == 0)
                        rv = give(t, piece);
        }
        if (t->closed)
                return;
        if (rv != 0 && rv != -EAGAIN)
                fail(t, rv);
        else if (t->given == t->len)
                close_gate(t);
}

static void wake(void *arg)
{
        pump(arg);
}

/* ---- the request's side --------------------------------------------------------------------------- */

static void decline(struct gw_request *req, enum rdx_decline reason)
{
        req->rdma->declined = true;
        req->rdma->reason = reason;
        rdx_count_decline(req->loop->gw->rdma, reason);
        gw_begin_done(req);
}

/* Answers, or lets the request go on: refused in begin(), it is woken for its answer. */
static void begin_refused(struct gw_request *req, int rv)
{
        if (rv == -ENOENT) {
                decline(req, RDX_DECLINE_DEVICE); /* it ended since its key was looked up */
                return;
        }
        if (rv == -EEXIST || rv == -ERANGE)
                gw_reply_error(req, S3_ERR_RDMA_REQUEST_REPEATED, NULL);
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

        t->begun = result == 0;
        if (result == 0) {
                if (wanted)
                        gw_begin_done(req);
                else
                        close_gate(t);
                return;
        }
        if (wanted) {
                req->rdma->transfer = NULL;
                begin_refused(req, result);
        }
        free_transfer(t);
}

void gw_transfer_begin(struct gw_request *req)
{
        struct gw_rdma *rdma = req->rdma;
        struct gw_transfer *t;

        if (!rdma->connected) {
                decline(req, RDX_DECLINE_QUEUE_PAIRS);
                return;
        }
        t = calloc(1, sizeof(*t));
        if (t == NULL) {
                gw_reply_no_memory(req);
                return;
        }
        t->req = req;
        t->loop = req->loop;
        memcpy(t->rdx.session, rdma->session, RDX_ID_LEN);
        t->rdx.number = rdma->number;
        t->rdx.window = rdma->window;
        t->rdx.begun = begun;
        t->rdx.ended = ended;
        rdma->transfer = t;
        rdx_request_begin(req->loop->gw->rdma, &t->rdx);
}

bool gw_transfer_send(struct gw_request *req, unsigned status, uint64_t offset, uint64_t len)
{
        struct gw_rdma *rdma = req->rdma;
        struct gw_transfer *t = rdma->transfer;
        int rv;

        if (rdma->declined) {
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
        rv = eng_get_start(req->get, offset, len, wake, t);
        if (rv != 0) {
                req->answer.header_count = 0;
                gw_reply_errno(req, rv, GW_ABOUT_KEY);
                return true;
        }
        t->get = req->get;
        req->get = NULL;
        t->status = status;
        t->len = len;
        pump(t);
        return true;
}

void gw_transfer_drop(struct gw_request *req)
{
        struct gw_transfer *t = req->rdma->transfer;

        if (t == NULL)
                return;
        req->rdma->transfer = NULL;
        t->req = NULL;
        if (t->begun)
                fail(t, -ECANCELED);
}
