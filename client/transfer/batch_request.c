/*
 * batch_request.c - gets many small objects by one GetBatch request. Only successes are taken from
 * its answer: whatever else an entry came to, it is asked for again by a GET, so that errors,
 * retries and their words are those of a GET (operation_get.c does that). An endpoint that refuses
 * such a request gets no other while one that has not is up. Each entry's bytes are compared with their
 * CRC32C before they count (I5). On a loop, but for what begins it.
 */
#include "client/transfer/batch_request.h"

#include "client/http/object_info.h"
#include "client/http/retry.h"
#include "ec.h"

#include <errno.h>
#include <string.h>

#define PIECE (64u << 10) /* stays in a cache between its two copies, and malloc() keeps it at hand */

/* What of a frame comes next. */
enum { LENGTH, HEAD, BYTES, TAIL, OVER };

bool mr_batch_offered(struct mr_client *client)
{
        unsigned all = (1u << client->endpoints.count) - 1;

        return atomic_load_explicit(&client->no_batch, memory_order_relaxed) != all;
}

/* ---- what is asked for ----------------------------------------------------------------------- */

static struct rdx_bytes batch_request_bytes_of(const char *text)
{
        return (struct rdx_bytes){text, text != NULL ? strlen(text) : 0};
}

/* An ETag goes without its quotes. */
static struct rdx_bytes etag_of(const char *text)
{
        struct rdx_bytes etag = batch_request_bytes_of(text);

        if (etag.len >= 2 && etag.data[0] == '"' && etag.data[etag.len - 1] == '"')
                etag = (struct rdx_bytes){etag.data + 1, etag.len - 2};
        return etag;
}

void mr_batch_wire(const struct mr_get *get, struct rdx_entry *out)
{
        *out = (struct rdx_entry){
                .bucket = batch_request_bytes_of(get->bucket),
                .key = batch_request_bytes_of(get->key),
                .if_match = etag_of(get->if_match),
                .version_id = batch_request_bytes_of(get->version_id),
                .suffix = get->last != 0,
                .range_first = get->offset,
                .range_length = get->last != 0 ? get->last : get->len,
                .length = get->place.len,
        };
}

uint64_t mr_batch_most(const struct mr_get *get)
{
        return get->len != 0 ? get->len : get->last != 0 ? get->last : get->place.len;
}

int mr_batch_add(struct mr_batch_fetch *batch, const struct mr_get *get, char *memory, size_t index)
{
        struct rdx_message message = {.type = RDX_BATCH};
        struct rdx_entry entry;
        int rv;

        if (mr_batch_most(get) > MR_BATCH_OBJECT)
                return -EINVAL;
        if (batch->count == 0)
                rdx_writer_open(&batch->writer, batch->message, &message);
        mr_batch_wire(get, &entry);
        rv = rdx_writer_entry(&batch->writer, &entry);
        if (rv == 0)
                batch->entry[batch->count++] =
                        (struct mr_batch_entry){.index = index, .memory = memory, .room = get->place.len};
        return rv;
}

/* ---- what is answered ------------------------------------------------------------------------ */

static void expect(struct mr_batch_fetch *batch, unsigned step, size_t len)
{
        batch->step = step;
        batch->piece_want = len;
        batch->piece_len = 0;
}

static void entry_got(struct mr_batch_fetch *batch)
{
        struct mr_batch_entry *entry = &batch->entry[batch->result.index];

        entry->got = true;
        batch->got(batch->arg, entry, &batch->result);
        expect(batch, LENGTH, 4);
}

static int head_came(struct mr_batch_fetch *batch)
{
        struct rdx_result *result = &batch->result;

        memcpy(batch->head, batch->piece, batch->piece_len);
        if (rdx_result_decode(batch->head, batch->piece_len, result) != (int)batch->piece_len ||
            result->index >= batch->count || batch->entry[result->index].got ||
            result->bytes > batch->entry[result->index].room)
                return -EPROTO;
        batch->at = 0;
        batch->crc = 0;
        if (result->code != RDX_CODE_OK)
                expect(batch, LENGTH, 4);
        else if (result->bytes == 0)
                entry_got(batch);
        else
                batch->step = BYTES;
        return 0;
}

/* A piece is complete. */
static int piece_came(struct mr_batch_fetch *batch)
{
        uint32_t crc;
        int len;

        switch (batch->step) {
        case LENGTH:
                len = rdx_frame_length(batch->piece);
                if (len < 0)
                        return -EPROTO;
                expect(batch, len == 0 ? OVER : HEAD, (size_t)len);
                return 0;
        case HEAD:
                return head_came(batch);
        default:
                if (rdx_frame_tail_read(batch->piece, &crc) != 0)
                        return -EPROTO;
                if (crc == batch->crc)
                        entry_got(batch);
                else
                        expect(batch, LENGTH, 4); /* asked for again by itself */
                return 0;
        }
}

static size_t batch_request_take_bytes(struct mr_batch_fetch *batch, const uint8_t *data, size_t len)
{
        struct mr_batch_entry *entry = &batch->entry[batch->result.index];

        if (len > batch->result.bytes - batch->at)
                len = (size_t)(batch->result.bytes - batch->at);
        memcpy(entry->memory + batch->at, data, len);
        batch->crc = era_crc32c(batch->crc, data, len);
        batch->at += len;
        if (batch->at == batch->result.bytes)
                expect(batch, TAIL, RDX_FRAME_TAIL);
        return len;
}

static int take_piece(struct mr_batch_fetch *batch, const uint8_t *data, size_t len, size_t *taken)
{
        *taken = batch->piece_want - batch->piece_len;
        if (*taken > len)
                *taken = len;
        memcpy(batch->piece + batch->piece_len, data, *taken);
        batch->piece_len += *taken;
        return batch->piece_len == batch->piece_want ? piece_came(batch) : 0;
}

static bool is_ours(const struct mr_response *response)
{
        const char *type = mr_response_header(response, "content-type");

        return type != NULL && strcmp(type, RDX_BATCH_TYPE) == 0;
}

static int batch_request_take(void *arg, const struct mr_response *response, const void *data, size_t len)
{
        struct mr_batch_fetch *batch = MR_CAST(mr_batch_fetch, arg);
        const uint8_t *at = data;
        size_t n;
        int rv = is_ours(response) ? 0 : -EPROTO;

        for (; rv == 0 && len > 0; at += n, len -= n) {
                if (batch->step == OVER)
                        return -EPROTO;
                if (batch->step == BYTES)
                        n = batch_request_take_bytes(batch, at, len);
                else
                        rv = take_piece(batch, at, len, &n);
        }
        return rv;
}

/* An answer that another attempt of the same would have, too. */
static bool is_refusal(const struct mr_request *request)
{
        int status = request->response.status;

        if (status / 100 == 2)
                return !is_ours(&request->response);
        return status == 501 ||
               (status / 100 == 4 && mr_retry_class(CURLE_OK, status, request->error.s3_code) == MR_RETRY_NO);
}

static void batch_request_ended(void *arg, struct mr_request *request, int rv)
{
        struct mr_batch_fetch *batch = MR_CAST(mr_batch_fetch, arg);

        if (is_refusal(request))
                atomic_fetch_or_explicit(&batch->client->no_batch, 1u << request->use.index, memory_order_relaxed);
        mr_response_free(&request->response);
        batch->done(batch->arg);
}

int mr_batch_start(struct mr_batch_fetch *batch)
{
        struct mr_request *request = &batch->request;
        struct rdx_message *message = &batch->writer.message;
        int rv;

        message->replies = (uint16_t)((message->count + RDX_RESULT_SHARE - 1) / RDX_RESULT_SHARE);
        batch->magic = mr_batch_fetch_magic;
        request->method = "POST";
        request->reads = true;
        request->bucket = "_millrace";
        request->key = "v1/batch";
        mr_request_header(request, "content-type", RDX_BATCH_TYPE);
        request->signed_body = true;
        request->once = true;
        request->shunned = atomic_load_explicit(&batch->client->no_batch, memory_order_relaxed);
        request->canceled = batch->canceled;
        request->data = (const char *)batch->message;
        request->len = rdx_writer_finish(&batch->writer);
        request->piece = PIECE;
        request->sink = batch_request_take;
        request->sink_arg = batch;
        request->done = batch_request_ended;
        request->done_arg = batch;
        expect(batch, LENGTH, 4);
        rv = mr_request_start(batch->client, request);
        if (rv != 0)
                mr_response_free(&request->response);
        return rv;
}
