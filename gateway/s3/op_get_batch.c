/*
 * op_get_batch.c - GetBatch: many objects in one answer, each with its own result
 * (docs/rdma-protocol.md, "GetBatch over HTTP").
 *
 * A request that is not as the protocol has it is refused before anything is done. After that the
 * answer is 200, and the library's content reader takes frames: a head, the bytes as the engine
 * gives them, their CRC32C. What fails before the head has left is that entry's result; what fails
 * behind it cuts the connection, since a length was promised (I5). On the request's loop;
 * get_batch.c looks the entries up.
 */
#include "gateway/rdma/get_batch.h"

#include "gateway/s3/handlers.h"

#include <errno.h>

/* ---- frames ---------------------------------------------------------------------------------- */

static size_t take_small(struct gw_batch *batch, char *buf, size_t max)
{
        size_t n = batch->small_len - batch->small_at;

        if (n > max)
                n = max;
        memcpy(buf, batch->small + batch->small_at, n);
        batch->small_at += n;
        return n;
}

static void small_is(struct gw_batch *batch, size_t len)
{
        batch->small_len = len;
        batch->small_at = 0;
}

/* The current entry has gone out whole. */
static void frame_ends(struct gw_batch *batch)
{
        gw_batch_sent(batch->current);
        batch->current = NULL;
        gw_batch_begin(batch);
}

/* Chooses the next entry and writes its head, or the end. -EAGAIN: none is ready. */
static int frame_begins(struct gw_batch *batch)
{
        struct gw_batch_slot *slot = batch->current != NULL ? batch->current : gw_batch_pick(batch);

        if (slot == NULL) {
                if (batch->sent < batch->count)
                        return -EAGAIN;
                memset(batch->small, 0, RDX_FRAME_END);
                small_is(batch, RDX_FRAME_END);
                batch->ended = true;
                return 0;
        }
        batch->current = slot;
        if (gw_batch_first_bytes(slot) == -EAGAIN)
                return -EAGAIN;
        small_is(batch, rdx_frame_head(&slot->entry.result, batch->small));
        batch->left = slot->entry.result.bytes;
        batch->tail = batch->left > 0;
        batch->in_frame = true;
        return 0;
}

/* Bytes of the current entry. -EAGAIN; what cuts the connection. */
static int take_bytes(struct gw_batch *batch, char *buf, size_t max, size_t *taken)
{
        struct gw_batch_slot *slot = batch->current;
        size_t n;
        int rv = 0;

        if (slot->span_left == 0)
                rv = eng_get_next(slot->entry.get, &slot->span, &slot->span_left);
        if (rv == 0 && slot->span_left > batch->left)
                rv = -EPROTO; /* more than was promised */
        if (rv != 0)
                return rv;
        n = slot->span_left < max ? slot->span_left : max;
        memcpy(buf, slot->span, n);
        slot->span += n;
        slot->span_left -= n;
        batch->left -= n;
        *taken = n;
        return 0;
}

/* One step: bytes into buf, or on to the next piece. */
static int get_batch_step(struct gw_batch *batch, char *buf, size_t max, size_t *taken)
{
        *taken = 0;
        if (batch->small_at < batch->small_len) {
                *taken = take_small(batch, buf, max);
                return 0;
        }
        if (batch->ended)
                return -ENODATA;
        if (!batch->in_frame)
                return frame_begins(batch);
        if (batch->left > 0)
                return take_bytes(batch, buf, max, taken);
        if (batch->tail) {
                rdx_frame_tail(eng_get_crc32c(batch->current->entry.get), batch->small);
                small_is(batch, RDX_FRAME_TAIL);
                batch->tail = false;
                return 0;
        }
        batch->in_frame = false;
        frame_ends(batch);
        return 0;
}

/* Content reader of the library. */
static ssize_t read_frames(void *cls, uint64_t pos, char *buf, size_t max)
{
        struct gw_request *req = cls;
        struct gw_batch *batch = req->work;
        size_t done = 0, n;
        int rv = 0;

        if (req->peer_gone || batch == NULL)
                return MHD_CONTENT_READER_END_WITH_ERROR;
        GW_CHECK(gw_batch, batch);
        assert(batch->req == req);
        while (done < max && rv == 0) {
                rv = get_batch_step(batch, buf + done, max - done, &n);
                done += n;
        }
        req->bytes_out += done;
        if (done > 0)
                return (ssize_t)done;
        if (rv == -ENODATA && batch->ended)
                return MHD_CONTENT_READER_END_OF_STREAM;
        if (rv != -EAGAIN)
                return MHD_CONTENT_READER_END_WITH_ERROR;
        req->inside = true;
        gw_request_wait(req);
        req->inside = false;
        return 0;
}

/* ---- the request ----------------------------------------------------------------------------- */

static void get_batch_release(struct gw_request *req)
{
        gw_batch_end(GW_CAST(gw_batch, req->work));
        req->work = NULL;
}

/* Keys are not to be changed on their way, and are in the body: it must be signed. */
void gw_begin_batch(struct gw_request *req)
{
        const struct s3_auth *auth = &req->loop->auth;
        bool is_signed = auth->kind != S3_AUTH_QUERY_V2 &&
                         (auth->payload == S3_PAYLOAD_SHA256 || auth->payload == S3_PAYLOAD_SIGNED ||
                          auth->payload == S3_PAYLOAD_SIGNED_TRAILER);

        if (!is_signed)
                gw_reply_error(req, S3_ERR_ACCESS_DENIED, "The body of a batch must be signed");
        else if (!s3_str_eq_nocase(gw_header(req, "Content-Type"), S3_STR(RDX_BATCH_TYPE)))
                gw_reply_error(req, S3_ERR_MALFORMED_RDMA_REQUEST, "The Content-Type of a batch is " RDX_BATCH_TYPE);
        else
                gw_begin_done(req);
}

void gw_run_batch(struct gw_request *req)
{
        struct gw_body *body = req->body;
        size_t len = body->kept != NULL ? (size_t)body->received : 0;
        struct gw_batch *batch;
        bool ordered;
        int count = rdx_body_check(body->kept, len, &ordered);

        if (count < 0) {
                gw_reply_error(req, S3_ERR_MALFORMED_RDMA_REQUEST, NULL);
                return;
        }
        batch = gw_batch_new(req, body->kept, len, (unsigned)count, ordered);
        if (batch == NULL) {
                gw_reply_no_memory(req);
                return;
        }
        body->kept = NULL; /* the batch's now */
        req->work = batch;
        req->release = get_batch_release;
        gw_batch_begin(batch);
        gw_reply_header(req, "Content-Type", RDX_BATCH_TYPE);
        gw_reply_header(req, "x-millrace-transport", "tcp");
        gw_reply_chunks(req, 200, read_frames);
}
