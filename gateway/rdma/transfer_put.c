/*
 * transfer_put.c - the bytes of an upload on their way from a window of the client's: the engine
 * lends places of the stripe under way, in the loop's registered arena, the RDMA module READs into
 * them, several at a time, and what has come is hashed there and given back.
 *
 * On the request's loop. Each byte is read once: the copy that was hashed is the one that is
 * stored, whatever the client does to its memory meanwhile. The upload belongs to the transfer
 * until all is read, and is aborted with it: what a READ may still write to stays (rdma_transfer.c;
 * I7).
 */
#include "gateway/rdma/rdma_transfer.h"

#include <assert.h>
#include <errno.h>

_Static_assert(LP_SLOT_UNIT <= RDX_WRITE_MAX, "a place is one READ");

static void put_pump(struct gw_transfer *t);

void gw_transfer_put_free(struct gw_transfer *t)
{
        if (t->put != NULL)
                eng_put_abort(t->put);
}

/* All is read: once it is hashed, too, the upload is the request's again. */
static void put_hand_over(struct gw_transfer *t)
{
        struct gw_request *req = t->req;

        assert(t->read && req != NULL && req->rdma->transfer == t);
        assert(req->put == NULL);
        if (!eng_put_md5_ready(t->put))
                return; /* wakes */
        req->rdma->transfer = NULL;
        req->put = t->put;
        t->put = NULL;
        gw_transfer_free(t);
        gw_request_wake(req);
}

/* Nothing of the window is read any more: what fails from here on says so. */
void gw_transfer_read(struct gw_transfer *t)
{
        assert(!t->read && t->given == t->len);
        t->req->rdma->posted = false;
        t->read = true;
        put_hand_over(t);
}

/*
 * READs of a session complete in the order in which they were given, so places go back in the order
 * in which they were lent.
 */
static void put_piece_done(struct rdx_write *write, int result)
{
        struct gw_piece *piece = container_of(write, struct gw_piece, write);
        struct gw_transfer *t = piece->transfer;

        GW_CHECK(gw_transfer, t);
        assert(piece->busy);
        piece->busy = false;
        if (result != 0)
                gw_transfer_fail(t, -ECONNRESET);
        if (t->error != 0)
                return; /* the abort takes back what is lent */
        gw_body_placed(t->req, write->buf, write->len);
        eng_put_filled(t->put, write->buf);
        put_pump(t);
}

static void put_pump(struct gw_transfer *t)
{
        struct gw_piece *piece;
        void *place;
        ssize_t n;

        while (!t->closed && t->given < t->len && (piece = gw_piece_idle(t)) != NULL) {
                n = eng_put_buffer(t->put, &place);
                if (n < 0)
                        gw_transfer_fail(t, (int)n);
                if (n <= 0)
                        return;
                piece->transfer = t;
                piece->busy = true;
                piece->write = (struct rdx_write){
                        .buf = place, .len = (uint32_t)n, .offset = t->given, .done = put_piece_done};
                t->given += (uint64_t)n;
                rdx_request_write(&t->rdx, &piece->write);
        }
        if (t->given == t->len)
                gw_transfer_close(t, true);
}

static void put_wake(void *arg)
{
        struct gw_transfer *t = GW_CAST(gw_transfer, arg);

        if (t->read)
                put_hand_over(t);
        else
                put_pump(t);
}

bool gw_transfer_waits(const struct gw_request *req)
{
        const struct gw_transfer *t = req->rdma->transfer;
        unsigned i;

        for (i = 0; t != NULL && i < GW_PIECES; i++)
                if (t->piece[i].busy)
                        return true;
        return false;
}

void gw_transfer_wakes(struct gw_request *req, struct eng_put_params *params)
{
        params->wake = put_wake;
        params->arg = req->rdma->transfer;
}

void gw_transfer_receive(struct gw_request *req)
{
        struct gw_transfer *t = req->rdma->transfer;

        GW_CHECK(gw_transfer, t);
        assert(t->req == req && t->put == NULL);
        t->put = req->put;
        req->put = NULL;
        t->len = req->rdma->window.length;
        gw_begin_done(req);
        put_pump(t);
}
