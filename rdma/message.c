/*
 * message.c - BATCH, RESULT and NOTICE messages, byte for byte as docs/rdma-protocol.md draws them.
 * Pure; the decoder takes what anybody may have sent, never reads outside it, and hands out strings
 * that point into it.
 */
#include "rdma_wire.h"

#include "rdma/bytes.h"

#include <assert.h>
#include <errno.h>

#define WINDOW_LEN 24u
#define ENTRY_LEN  40u
#define RESULT_LEN 32u
#define SUFFIX     1u

/* The header's fields. */
enum {
        AT_VERSION = 0,
        AT_TYPE = 2,
        AT_FLAGS = 3,
        AT_LENGTH = 4,
        AT_NUMBER = 8,
        AT_BATCH = 16,
        AT_COUNT = 20,
        AT_FIRST = 22,
        AT_REPLIES = 24,
        AT_ZERO = 26,
        AT_DEADLINE = 28,
};

unsigned rdx_code_status(unsigned code)
{
        switch (code) {
#define RDX_CODE_STATUS(name, number, status)                                                                          \
        case (number):                                                                                                 \
                return (status);
                RDX_CODES(RDX_CODE_STATUS)
#undef RDX_CODE_STATUS
        default:
                return 500;
        }
}

/* ---- the header ------------------------------------------------------------------------------ */

static bool batch_is_valid(const struct rdx_message *message)
{
        unsigned per_reply = (message->count + RDX_RESULT_SHARE - 1) / RDX_RESULT_SHARE;

        return (message->flags & ~RDX_ORDERED) == 0 && message->count > 0 && message->count <= RDX_MESSAGE_ENTRIES &&
               message->first + message->count <= RDX_BATCH_ENTRIES && message->replies >= per_reply &&
               message->replies <= RDX_REPLIES_MOST;
}

static bool header_is_valid(const struct rdx_message *message)
{
        switch (message->type) {
        case RDX_BATCH:
                return batch_is_valid(message);
        case RDX_RESULT:
                return (message->flags & ~RDX_LAST) == 0 && message->count <= RDX_MESSAGE_ENTRIES &&
                       message->replies == 0 && message->deadline_ms == 0;
        case RDX_NOTICE:
                return message->flags == 0 && message->count == 0 && message->first == 0 && message->replies == 0 &&
                       message->deadline_ms == 0;
        default:
                return false;
        }
}

static int rdma_message_read_window(struct rdx_reader *reader)
{
        struct rdx_window_span *window = &reader->message.window;
        const uint8_t *at = reader->data + reader->at;

        if (reader->len - reader->at < WINDOW_LEN || rdx_get32(at + 20) != 0)
                return -EBADMSG;
        window->address = rdx_get64(at);
        window->length = rdx_get64(at + 8);
        window->rkey = rdx_get32(at + 16);
        reader->at += WINDOW_LEN;
        return window->length > UINT64_MAX - window->address ? -EBADMSG : 0;
}

int rdx_reader_open(struct rdx_reader *reader, const void *data, size_t len)
{
        struct rdx_message *message = &reader->message;
        const uint8_t *at = data;

        memset(reader, 0, sizeof(*reader));
        if (len < RDX_HEADER_LEN || len > RDX_MESSAGE_MAX || rdx_get16(at + AT_VERSION) != RDX_VERSION)
                return -EBADMSG;
        message->type = at[AT_TYPE];
        message->flags = at[AT_FLAGS];
        message->length = rdx_get32(at + AT_LENGTH);
        message->number = rdx_get64(at + AT_NUMBER);
        message->batch = rdx_get32(at + AT_BATCH);
        message->count = rdx_get16(at + AT_COUNT);
        message->first = rdx_get16(at + AT_FIRST);
        message->replies = rdx_get16(at + AT_REPLIES);
        message->deadline_ms = rdx_get32(at + AT_DEADLINE);
        if (message->length != len || rdx_get16(at + AT_ZERO) != 0 || !header_is_valid(message))
                return -EBADMSG;
        reader->data = data;
        reader->len = len;
        reader->at = RDX_HEADER_LEN;
        reader->left = message->count;
        return message->type == RDX_BATCH ? rdma_message_read_window(reader) : 0;
}

/* ---- entries --------------------------------------------------------------------------------- */

/* Nothing is left over behind the last entry. */
static int reader_end(const struct rdx_reader *reader)
{
        return reader->at == reader->len ? 0 : -EBADMSG;
}

static struct rdx_bytes rdma_message_take(const uint8_t **at, size_t len)
{
        struct rdx_bytes bytes = {(const char *)*at, len};

        *at += len;
        return bytes;
}

/* A range may end wherever it likes, behind 2^64 too: it is cut off at the end of the object. */
static bool range_is_valid(const struct rdx_entry *entry)
{
        return !entry->suffix || (entry->range_first == 0 && entry->range_length > 0);
}

int rdx_reader_entry(struct rdx_reader *reader, struct rdx_entry *out)
{
        const uint8_t *at = reader->data + reader->at;
        size_t room = reader->len - reader->at, key, bucket, if_match, version_id, flags;

        assert(reader->message.type == RDX_BATCH);
        memset(out, 0, sizeof(*out));
        if (reader->left == 0)
                return reader_end(reader);
        if (room < ENTRY_LEN)
                return -EBADMSG;
        key = rdx_get16(at);
        bucket = at[2];
        if_match = at[3];
        version_id = at[4];
        flags = at[5];
        if (key == 0 || key > RDX_KEY_MOST || bucket > RDX_BUCKET_MOST || if_match > RDX_ETAG_MOST ||
            version_id > RDX_VERSION_ID_MOST || (flags & ~SUFFIX) != 0 || rdx_get16(at + 6) != 0 ||
            key + bucket + if_match + version_id > room - ENTRY_LEN)
                return -EBADMSG;
        out->suffix = (flags & SUFFIX) != 0;
        out->range_first = rdx_get64(at + 8);
        out->range_length = rdx_get64(at + 16);
        out->offset = rdx_get64(at + 24);
        out->length = rdx_get64(at + 32);
        at += ENTRY_LEN;
        out->bucket = bucket > 0 ? rdma_message_take(&at, bucket) : reader->bucket;
        out->key = rdma_message_take(&at, key);
        out->if_match = rdma_message_take(&at, if_match);
        out->version_id = rdma_message_take(&at, version_id);
        if (out->bucket.len == 0 || !range_is_valid(out))
                return -EBADMSG;
        reader->bucket = out->bucket;
        reader->at = (size_t)(at - reader->data);
        assert(reader->left > 0);
        reader->left--;
        return 1;
}

int rdx_result_decode(const void *data, size_t len, struct rdx_result *out)
{
        const uint8_t *at = data;
        size_t etag, version_id;

        memset(out, 0, sizeof(*out));
        if (len < RESULT_LEN)
                return -EBADMSG;
        etag = at[6];
        version_id = at[7];
        if (etag > RDX_ETAG_MOST || version_id > RDX_VERSION_ID_MOST || etag + version_id > len - RESULT_LEN ||
            rdx_get32(at + 12) != 0)
                return -EBADMSG;
        out->index = rdx_get16(at);
        out->status = rdx_get16(at + 2);
        out->code = rdx_get16(at + 4);
        out->crc32c = rdx_get32(at + 8);
        out->bytes = rdx_get64(at + 16);
        out->size = rdx_get64(at + 24);
        if (out->index >= RDX_BATCH_ENTRIES || (out->code == RDX_CODE_OK) != (out->status / 100 == 2) ||
            (out->code != RDX_CODE_OK && out->bytes != 0))
                return -EBADMSG;
        at += RESULT_LEN;
        out->etag = rdma_message_take(&at, etag);
        out->version_id = rdma_message_take(&at, version_id);
        return (int)(at - (const uint8_t *)data);
}

int rdx_reader_result(struct rdx_reader *reader, struct rdx_result *out)
{
        int used;

        assert(reader->message.type == RDX_RESULT);
        if (reader->left == 0) {
                memset(out, 0, sizeof(*out));
                return reader_end(reader);
        }
        used = rdx_result_decode(reader->data + reader->at, reader->len - reader->at, out);
        if (used < 0)
                return used;
        reader->at += (size_t)used;
        assert(reader->left > 0);
        reader->left--;
        return 1;
}

int rdx_reader_check(const struct rdx_reader *from)
{
        struct rdx_reader reader = *from;
        struct rdx_result result;
        struct rdx_entry entry = {.length = 0};
        int rv;

        do {
                if (reader.message.type == RDX_BATCH)
                        rv = rdx_reader_entry(&reader, &entry);
                else if (reader.message.type == RDX_RESULT)
                        rv = rdx_reader_result(&reader, &result);
                else
                        rv = reader_end(&reader);
                if (rv == 1 && reader.message.type == RDX_BATCH &&
                    !rdx_window_span_holds(&reader.message.window, entry.offset, entry.length))
                        rv = -EBADMSG;
        } while (rv == 1);
        return rv;
}

/* ---- writing --------------------------------------------------------------------------------- */

void rdx_writer_open(struct rdx_writer *writer, uint8_t *buf, const struct rdx_message *message)
{
        *writer = (struct rdx_writer){.data = buf, .len = RDX_HEADER_LEN, .message = *message};
        writer->message.count = 0;
        if (message->type == RDX_BATCH) {
                rdx_put64(buf + writer->len, message->window.address);
                rdx_put64(buf + writer->len + 8, message->window.length);
                rdx_put32(buf + writer->len + 16, message->window.rkey);
                rdx_put32(buf + writer->len + 20, 0);
                writer->len += WINDOW_LEN;
        }
}

static uint8_t *rdma_message_put_bytes(uint8_t *at, struct rdx_bytes bytes)
{
        if (bytes.len > 0)
                memcpy(at, bytes.data, bytes.len);
        return at + bytes.len;
}

static bool is_same(struct rdx_bytes a, struct rdx_bytes b)
{
        return a.len == b.len && memcmp(a.data, b.data, a.len) == 0;
}

int rdx_writer_entry(struct rdx_writer *writer, const struct rdx_entry *entry)
{
        bool again = writer->bucket.len > 0 && is_same(writer->bucket, entry->bucket);
        struct rdx_bytes bucket = again ? (struct rdx_bytes){NULL, 0} : entry->bucket;
        uint8_t *at = writer->data + writer->len;

        if (entry->key.len == 0 || entry->key.len > RDX_KEY_MOST || entry->bucket.len == 0 ||
            entry->bucket.len > RDX_BUCKET_MOST || entry->if_match.len > RDX_ETAG_MOST ||
            entry->version_id.len > RDX_VERSION_ID_MOST || !range_is_valid(entry))
                return -EINVAL;
        if (writer->message.count == RDX_MESSAGE_ENTRIES ||
            ENTRY_LEN + bucket.len + entry->key.len + entry->if_match.len + entry->version_id.len >
                    RDX_MESSAGE_MAX - writer->len)
                return -ENOSPC;
        rdx_put16(at, (uint16_t)entry->key.len);
        at[2] = (uint8_t)bucket.len;
        at[3] = (uint8_t)entry->if_match.len;
        at[4] = (uint8_t)entry->version_id.len;
        at[5] = entry->suffix ? SUFFIX : 0;
        rdx_put16(at + 6, 0);
        rdx_put64(at + 8, entry->range_first);
        rdx_put64(at + 16, entry->range_length);
        rdx_put64(at + 24, entry->offset);
        rdx_put64(at + 32, entry->length);
        at += ENTRY_LEN;
        if (!again)
                writer->bucket = (struct rdx_bytes){(const char *)at, bucket.len};
        at = rdma_message_put_bytes(at, bucket);
        at = rdma_message_put_bytes(at, entry->key);
        at = rdma_message_put_bytes(at, entry->if_match);
        at = rdma_message_put_bytes(at, entry->version_id);
        writer->len = (size_t)(at - writer->data);
        writer->message.count++;
        return 0;
}

int rdx_result_encode(const struct rdx_result *result, void *out)
{
        uint8_t *at = out;

        if (result->etag.len > RDX_ETAG_MOST || result->version_id.len > RDX_VERSION_ID_MOST ||
            result->index >= RDX_BATCH_ENTRIES)
                return -EINVAL;
        rdx_put16(at, result->index);
        rdx_put16(at + 2, result->status);
        rdx_put16(at + 4, result->code);
        at[6] = (uint8_t)result->etag.len;
        at[7] = (uint8_t)result->version_id.len;
        rdx_put32(at + 8, result->crc32c);
        rdx_put32(at + 12, 0);
        rdx_put64(at + 16, result->bytes);
        rdx_put64(at + 24, result->size);
        at = rdma_message_put_bytes(at + RESULT_LEN, result->etag);
        at = rdma_message_put_bytes(at, result->version_id);
        return (int)(at - (uint8_t *)out);
}

int rdx_writer_result(struct rdx_writer *writer, const struct rdx_result *result)
{
        int used;

        if (result->etag.len > RDX_ETAG_MOST || result->version_id.len > RDX_VERSION_ID_MOST)
                return -EINVAL;
        if (writer->message.count == RDX_MESSAGE_ENTRIES ||
            RESULT_LEN + result->etag.len + result->version_id.len > RDX_MESSAGE_MAX - writer->len)
                return -ENOSPC;
        used = rdx_result_encode(result, writer->data + writer->len);
        if (used < 0)
                return used;
        writer->len += (size_t)used;
        writer->message.count++;
        return 0;
}

size_t rdx_writer_finish(struct rdx_writer *writer)
{
        const struct rdx_message *message = &writer->message;
        uint8_t *at = writer->data;

        rdx_put16(at + AT_VERSION, RDX_VERSION);
        at[AT_TYPE] = (uint8_t)message->type;
        at[AT_FLAGS] = message->flags;
        rdx_put32(at + AT_LENGTH, (uint32_t)writer->len);
        rdx_put64(at + AT_NUMBER, message->number);
        rdx_put32(at + AT_BATCH, message->batch);
        rdx_put16(at + AT_COUNT, message->count);
        rdx_put16(at + AT_FIRST, message->first);
        rdx_put16(at + AT_REPLIES, message->replies);
        rdx_put16(at + AT_ZERO, 0);
        rdx_put32(at + AT_DEADLINE, message->deadline_ms);
        return writer->len;
}
