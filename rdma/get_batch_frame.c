/*
 * get_batch_frame.c - GetBatch over HTTP: the messages of its request and the frames of its answer,
 * as docs/rdma-protocol.md draws them. Pure; what is read may be anybody's.
 */
#include "rdma_wire.h"

#include "rdma/bytes.h"

#include <errno.h>

#define AT_LENGTH  4u
#define RESULT_LEN 32u

/* ---- the request ----------------------------------------------------------------------------- */

/* What only RDMA has a use for is zero, and messages continue each other. */
static bool message_is_right(const struct rdx_body *body, const struct rdx_message *message, uint32_t batch)
{
        const struct rdx_window_span *window = &message->window;

        return message->type == RDX_BATCH && message->number == 0 && message->deadline_ms == 0 &&
               window->address == 0 && window->length == 0 && window->rkey == 0 && message->first == body->next &&
               message->batch == batch;
}

static int open_message(struct rdx_body *body)
{
        const uint8_t *at = body->data + body->at;
        bool is_first = body->at == 0;
        uint32_t batch = body->reader.message.batch;
        size_t len;

        if (body->len - body->at < RDX_HEADER_LEN)
                return -EBADMSG;
        len = rdx_get32(at + AT_LENGTH);
        if (len > body->len - body->at || rdx_reader_open(&body->reader, at, len) != 0 ||
            !message_is_right(body, &body->reader.message, is_first ? body->reader.message.batch : batch))
                return -EBADMSG;
        body->at += len;
        return 0;
}

int rdx_body_next(struct rdx_body *body, struct rdx_entry *out, unsigned *index)
{
        int rv;

        /* A message has an entry at least, so this comes round at most twice. */
        for (;;) {
                rv = body->reader.data != NULL ? rdx_reader_entry(&body->reader, out) : 0;
                if (rv != 0)
                        break;
                if (body->reader.data != NULL && body->at == body->len)
                        return 0;
                rv = open_message(body);
                if (rv != 0)
                        break;
        }
        if (rv < 0 || out->offset != 0)
                return -EBADMSG;
        *index = body->next++;
        return 1;
}

int rdx_body_check(const void *data, size_t len, bool *ordered)
{
        struct rdx_body body = {.data = data, .len = len};
        struct rdx_entry entry;
        unsigned index;
        int rv = rdx_body_next(&body, &entry, &index);

        *ordered = rv == 1 && (body.reader.message.flags & RDX_ORDERED) != 0;
        while (rv == 1)
                rv = rdx_body_next(&body, &entry, &index);
        return rv != 0 ? rv : (int)body.next;
}

/* ---- the answer ------------------------------------------------------------------------------ */

size_t rdx_frame_head(const struct rdx_result *result, uint8_t out[RDX_FRAME_HEAD_MOST])
{
        int len = rdx_result_encode(result, out + 4);

        if (len < 0)
                return 0;
        rdx_put32(out, (uint32_t)len);
        return 4 + (size_t)len;
}

void rdx_frame_tail(uint32_t crc32c, uint8_t out[RDX_FRAME_TAIL])
{
        rdx_put32(out, crc32c);
        rdx_put32(out + 4, 0);
}

int rdx_frame_length(const uint8_t at[4])
{
        uint32_t len = rdx_get32(at);

        return len != 0 && (len < RESULT_LEN || len > RDX_RESULT_MOST) ? -EBADMSG : (int)len;
}

int rdx_frame_tail_read(const uint8_t at[RDX_FRAME_TAIL], uint32_t *crc32c)
{
        *crc32c = rdx_get32(at);
        return rdx_get32(at + 4) == 0 ? 0 : -EBADMSG;
}
