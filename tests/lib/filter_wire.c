/*
 * filter_wire.c - operations as bytes: what the serialise filter sends them through, in tests.
 *
 * A remote drive will get its operations so; until then this shows that an operation holds all that
 * the drive needs, and an answer all that the caller needs, without a pointer from one side to the
 * other. Memory of the decoded op is its own (of->wire, of->slot). Each call is on the op's home
 * loop.
 */
#include "tests/lib/filter_wire.h"

#include "engine/drive/filter.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- writing and reading bytes --------------------------------------------------------------- */

/* Bytes under construction, or being read. */
struct wire {
        uint8_t *bytes;
        size_t len, size, at;
        bool failed; /* no memory */
};

static void put(struct wire *wire, const void *from, size_t len)
{
        size_t size = wire->size == 0 ? 512 : wire->size;
        uint8_t *bytes;

        while (size < wire->len + len)
                size *= 2;
        if (size != wire->size && !wire->failed) {
                bytes = realloc(wire->bytes, size);
                wire->failed = bytes == NULL;
                if (bytes != NULL) {
                        wire->bytes = bytes;
                        wire->size = size;
                }
        }
        if (wire->failed)
                return;
        if (len > 0)
                memcpy(wire->bytes + wire->len, from, len);
        wire->len += len;
}

static void put_number(struct wire *wire, uint64_t n)
{
        put(wire, &n, sizeof(n));
}

static void put_string(struct wire *wire, const void *from, size_t len)
{
        put_number(wire, len);
        put(wire, from, len);
}

/* A buffer, or that there is none. */
static void put_buf(struct wire *wire, const struct eng_buf *buf)
{
        put_number(wire, buf != NULL);
        if (buf != NULL)
                put_string(wire, buf->data, buf->len);
}

static const uint8_t *get(struct wire *wire, size_t len)
{
        const uint8_t *from = wire->bytes + wire->at;

        assert(wire->at + len <= wire->len); /* we wrote it ourselves */
        wire->at += len;
        return from;
}

static uint64_t get_number(struct wire *wire)
{
        uint64_t n;

        memcpy(&n, get(wire, sizeof(n)), sizeof(n));
        return n;
}

static const uint8_t *get_string(struct wire *wire, size_t *len)
{
        *len = get_number(wire);
        return get(wire, *len);
}

static struct eng_buf *get_buf(struct wire *wire)
{
        struct eng_buf *buf;
        const uint8_t *from;
        size_t len;

        if (get_number(wire) == 0)
                return NULL;
        from = get_string(wire, &len);
        buf = eng_buf_new(len);
        if (buf == NULL)
                wire->failed = true;
        else
                memcpy(buf->data, from, len);
        return buf;
}

/* ---- requests -------------------------------------------------------------------------------- */

static void wire_put_append(struct wire *wire, const struct eng_op *op)
{
        put_buf(wire, op->kind == ENG_OP_APPEND ? op->append.body : NULL);
        put_number(wire, op->append.pg);
        put_number(wire, op->append.body_crc);
        put_number(wire, op->append.inline_len);
        put_number(wire, op->append.type);
        put_number(wire, op->append.seq);
        put_number(wire, op->append.committed);
        put_number(wire, op->append.time_ms);
        put_number(wire, op->append.record_epoch);
}

static void get_append(struct wire *wire, struct eng_op *op)
{
        op->append.body = get_buf(wire);
        op->append.pg = (uint32_t)get_number(wire);
        op->append.body_crc = (uint32_t)get_number(wire);
        op->append.inline_len = (uint32_t)get_number(wire);
        op->append.type = (uint16_t)get_number(wire);
        op->append.seq = get_number(wire);
        op->append.committed = get_number(wire);
        op->append.time_ms = get_number(wire);
        op->append.record_epoch = get_number(wire);
}

/* A bitmap whose length was not said stays the caller's memory. */
static void put_scan(struct wire *wire, const struct eng_op *op)
{
        uint32_t words = op->scan.pgs != NULL ? op->scan.pg_words : 0;

        put_string(wire, op->scan.from, op->scan.from_len);
        put_number(wire, op->scan.to != NULL);
        put_string(wire, op->scan.to, op->scan.to_len);
        put_number(wire, op->scan.after);
        put_number(wire, op->scan.prefix_len);
        put_number(wire, op->scan.delimiter != NULL);
        put_string(wire, op->scan.delimiter, op->scan.delimiter_len);
        put_number(wire, op->scan.max);
        put_number(wire, op->scan.most);
        put_string(wire, op->scan.pgs, words * sizeof(*op->scan.pgs));
}

static void get_scan(struct wire *wire, struct eng_op *op, const struct eng_op *above)
{
        const uint8_t *bytes;
        bool given;
        size_t len;

        op->scan.from = get_string(wire, &len);
        op->scan.from_len = (uint16_t)len;
        given = get_number(wire) != 0;
        bytes = get_string(wire, &len);
        op->scan.to = given ? bytes : NULL;
        op->scan.to_len = (uint16_t)len;
        op->scan.after = get_number(wire) != 0;
        op->scan.prefix_len = (uint16_t)get_number(wire);
        given = get_number(wire) != 0;
        bytes = get_string(wire, &len);
        op->scan.delimiter = given ? bytes : NULL;
        op->scan.delimiter_len = (uint16_t)len;
        op->scan.max = (uint32_t)get_number(wire);
        op->scan.most = (uint32_t)get_number(wire);
        bytes = get_string(wire, &len);
        op->scan.pg_words = (uint32_t)(len / sizeof(*op->scan.pgs));
        op->scan.pgs = above->scan.pgs;
        if (len == 0)
                return;
        op->scan.pgs = malloc(len); /* aligned; freed with the op */
        if (op->scan.pgs == NULL)
                wire->failed = true;
        else
                memcpy((void *)op->scan.pgs, bytes, len);
}

static void put_request(struct wire *wire, const struct eng_op *op)
{
        switch (op->kind) {
        case ENG_OP_APPEND:
        case ENG_OP_RECORD:
                wire_put_append(wire, op);
                break;
        case ENG_OP_COMMIT:
                put_number(wire, op->commit.pg);
                put_number(wire, op->commit.seq);
                break;
        case ENG_OP_LOOKUP:
                put_string(wire, op->lookup.name, op->lookup.name_len);
                break;
        case ENG_OP_SCAN:
                put_scan(wire, op);
                break;
        case ENG_OP_WRITE:
                put(wire, op->write.object_id, FMT_ID);
                put_number(wire, op->write.stripe);
                put_number(wire, op->write.shard | (uint64_t)op->write.k << 8 | (uint64_t)op->write.m << 16);
                put_number(wire, op->write.key_hash);
                put_string(wire, op->write.payload, op->write.payload_len);
                break;
        case ENG_OP_READ:
                put(wire, op->read.object_id, FMT_ID);
                put_number(wire, op->read.stripe);
                put_number(wire, op->read.shard);
                put_number(wire, op->read.offset);
                put_number(wire, op->read.len);
                put_number(wire, op->read.payload_len);
                break;
        case ENG_OP_DISCARD:
                put(wire, op->discard.object_id, FMT_ID);
                break;
        case ENG_OP_HELD:
                put(wire, op->held.object_id, FMT_ID);
                put_number(wire, op->held.stripe);
                put_number(wire, op->held.count);
                put_number(wire, op->held.shard);
                break;
        case ENG_OP_IDS:
                put(wire, op->ids.after, FMT_ID);
                put_number(wire, op->ids.max);
                break;
        case ENG_OP_OWNED:
                put_number(wire, op->owned.mark);
                put_string(wire, op->owned.ids, op->owned.count * FMT_ID);
                break;
        case ENG_OP_SCRUB:
                put(wire, &op->scrub.state, sizeof(op->scrub.state));
                put_number(wire, op->scrub.what);
                put_number(wire, op->scrub.most);
                put_number(wire, op->scrub.yield);
                break;
        case ENG_OP_FEATURES:
                put_number(wire, op->features.bits);
                break;
        case ENG_OP_SYNC:
        case ENG_OP_TAIL:
        case ENG_OP_KINDS:
                break;
        }
}

static void *wire_new_slot(struct wire *wire)
{
        void *slot = aligned_alloc(FMT_BLOCK, LP_SLOT_SIZE);

        if (slot == NULL)
                wire->failed = true;
        return slot;
}

static void get_write(struct wire *wire, struct eng_filter_op *of)
{
        struct eng_op *op = &of->op;
        const uint8_t *payload;
        uint64_t shard;
        size_t len;

        memcpy(op->write.object_id, get(wire, FMT_ID), FMT_ID);
        op->write.stripe = (uint32_t)get_number(wire);
        shard = get_number(wire);
        op->write.shard = (uint8_t)shard;
        op->write.k = (uint8_t)(shard >> 8);
        op->write.m = (uint8_t)(shard >> 16);
        op->write.key_hash = get_number(wire);
        payload = get_string(wire, &len);
        op->write.payload_len = (uint32_t)len;
        op->write.slot = of->slot = wire_new_slot(wire);
        if (of->slot == NULL)
                return;
        op->write.payload = (uint8_t *)of->slot + LP_SLOT_HEADER;
        if (len <= LP_SLOT_UNIT) /* what is longer the drive refuses unread */
                memcpy((uint8_t *)of->slot + LP_SLOT_HEADER, payload, len);
}

static void get_read(struct wire *wire, struct eng_filter_op *of)
{
        struct eng_op *op = &of->op;

        memcpy(op->read.object_id, get(wire, FMT_ID), FMT_ID);
        op->read.stripe = (uint32_t)get_number(wire);
        op->read.shard = (uint8_t)get_number(wire);
        op->read.offset = (uint32_t)get_number(wire);
        op->read.len = (uint32_t)get_number(wire);
        op->read.payload_len = (uint32_t)get_number(wire);
        op->read.slot = of->slot = wire_new_slot(wire);
}

static void get_request(struct wire *wire, struct eng_filter_op *of)
{
        struct eng_op *op = &of->op;
        size_t len;

        switch (op->kind) {
        case ENG_OP_APPEND:
        case ENG_OP_RECORD:
                get_append(wire, op);
                break;
        case ENG_OP_COMMIT:
                op->commit.pg = (uint32_t)get_number(wire);
                op->commit.seq = get_number(wire);
                break;
        case ENG_OP_LOOKUP:
                op->lookup.name = get_string(wire, &len);
                op->lookup.name_len = (uint16_t)len;
                break;
        case ENG_OP_SCAN:
                get_scan(wire, op, of->above);
                break;
        case ENG_OP_WRITE:
                get_write(wire, of);
                break;
        case ENG_OP_READ:
                get_read(wire, of);
                break;
        case ENG_OP_DISCARD:
                memcpy(op->discard.object_id, get(wire, FMT_ID), FMT_ID);
                break;
        case ENG_OP_HELD:
                memcpy(op->held.object_id, get(wire, FMT_ID), FMT_ID);
                op->held.stripe = (uint32_t)get_number(wire);
                op->held.count = (uint32_t)get_number(wire);
                op->held.shard = (uint8_t)get_number(wire);
                break;
        case ENG_OP_IDS:
                memcpy(op->ids.after, get(wire, FMT_ID), FMT_ID);
                op->ids.max = (uint32_t)get_number(wire);
                break;
        case ENG_OP_OWNED:
                op->owned.mark = get_number(wire);
                op->owned.ids = (const uint8_t(*)[FMT_ID])get_string(wire, &len);
                op->owned.count = (uint32_t)(len / FMT_ID);
                break;
        case ENG_OP_SCRUB:
                memcpy(&op->scrub.state, get(wire, sizeof(op->scrub.state)), sizeof(op->scrub.state));
                op->scrub.what = (enum eng_scrub_what)get_number(wire);
                op->scrub.most = (uint32_t)get_number(wire);
                op->scrub.yield = get_number(wire) != 0;
                op->scrub.slot = of->slot = wire_new_slot(wire);
                break;
        case ENG_OP_FEATURES:
                op->features.bits = get_number(wire);
                break;
        case ENG_OP_SYNC:
        case ENG_OP_TAIL:
        case ENG_OP_KINDS:
                break;
        }
}

static int wire_request(struct eng_filter_op *of)
{
        struct wire wire = {0};

        put_number(&wire, of->above->kind);
        put_number(&wire, of->above->flags);
        put_number(&wire, of->above->epoch);
        put_request(&wire, of->above);
        if (wire.failed) {
                free(wire.bytes);
                return -ENOMEM;
        }
        memset(&of->op, 0, sizeof(of->op));
        of->op.kind = (enum eng_op_kind)get_number(&wire);
        of->op.flags = (unsigned)get_number(&wire);
        of->op.epoch = get_number(&wire);
        of->wire = wire.bytes; /* names are read from it */
        get_request(&wire, of);
        return wire.failed ? -ENOMEM : 0;
}

static void wire_free(struct eng_filter_op *of)
{
        if (of->wire == NULL)
                return;
        if (of->op.kind == ENG_OP_APPEND)
                eng_buf_unref(of->op.append.body);
        if (of->op.kind == ENG_OP_SCAN && of->op.scan.pgs != of->above->scan.pgs)
                free((void *)of->op.scan.pgs);
        free(of->slot);
        free(of->wire);
}

/* ---- answers --------------------------------------------------------------------------------- */

static void put_answer(struct wire *wire, const struct eng_op *op)
{
        switch (op->kind) {
        case ENG_OP_RECORD:
                put_buf(wire, op->append.body);
                wire_put_append(wire, op);
                break;
        case ENG_OP_LOOKUP:
                put_buf(wire, op->lookup.value);
                put_buf(wire, op->lookup.bytes);
                break;
        case ENG_OP_SCAN:
                put_buf(wire, op->scan.entries);
                put_number(wire, op->scan.count);
                put_number(wire, op->scan.more);
                break;
        case ENG_OP_TAIL:
                put_buf(wire, op->tail.entries);
                put_number(wire, op->tail.count);
                break;
        case ENG_OP_HELD:
                put(wire, op->held.bits, sizeof(op->held.bits));
                break;
        case ENG_OP_IDS:
                put_buf(wire, op->ids.ids);
                put_number(wire, op->ids.count);
                break;
        case ENG_OP_OWNED:
                put_number(wire, op->owned.mark);
                put_buf(wire, op->owned.bits);
                break;
        case ENG_OP_SCRUB:
                put(wire, &op->scrub.state, sizeof(op->scrub.state));
                put(wire, op->scrub.object_id, FMT_ID);
                put_number(wire, op->scrub.stripe);
                put_number(wire, op->scrub.shard);
                put_number(wire, op->scrub.key_hash);
                put_number(wire, op->scrub.remembered);
                put_number(wire, (uint64_t)op->scrub.ended | (uint64_t)op->scrub.damaged << 1 | (uint64_t)op->scrub.gap << 2 |
                                         (uint64_t)op->scrub.more << 3);
                put_number(wire, op->scrub.gaps);
                put_number(wire, op->scrub.gaps_dropped);
                put_buf(wire, op->scrub.names);
                break;
        case ENG_OP_READ:
                put(wire, (const uint8_t *)op->read.slot + LP_SLOT_HEADER + op->read.offset, op->read.len);
                put_number(wire, op->read.crc);
                break;
        default:
                break;
        }
}

static void get_scrub(struct wire *wire, struct eng_op *op)
{
        uint64_t flags;

        memcpy(&op->scrub.state, get(wire, sizeof(op->scrub.state)), sizeof(op->scrub.state));
        memcpy(op->scrub.object_id, get(wire, FMT_ID), FMT_ID);
        op->scrub.stripe = (uint32_t)get_number(wire);
        op->scrub.shard = (uint8_t)get_number(wire);
        op->scrub.key_hash = get_number(wire);
        op->scrub.remembered = (uint32_t)get_number(wire);
        flags = get_number(wire);
        op->scrub.ended = (flags & 1) != 0;
        op->scrub.damaged = (flags & 2) != 0;
        op->scrub.gap = (flags & 4) != 0;
        op->scrub.more = (flags & 8) != 0;
        op->scrub.gaps = (uint32_t)get_number(wire);
        op->scrub.gaps_dropped = get_number(wire);
        op->scrub.names = get_buf(wire);
}

static void get_answer(struct wire *wire, struct eng_op *op)
{
        struct eng_buf *body;

        switch (op->kind) {
        case ENG_OP_RECORD:
                body = get_buf(wire);
                get_append(wire, op);
                op->append.body = body;
                break;
        case ENG_OP_LOOKUP:
                op->lookup.value = get_buf(wire);
                op->lookup.bytes = get_buf(wire);
                break;
        case ENG_OP_SCAN:
                op->scan.entries = get_buf(wire);
                op->scan.count = (uint32_t)get_number(wire);
                op->scan.more = get_number(wire) != 0;
                break;
        case ENG_OP_TAIL:
                op->tail.entries = get_buf(wire);
                op->tail.count = (uint32_t)get_number(wire);
                break;
        case ENG_OP_HELD:
                memcpy(op->held.bits, get(wire, sizeof(op->held.bits)), sizeof(op->held.bits));
                break;
        case ENG_OP_IDS:
                op->ids.ids = get_buf(wire);
                op->ids.count = (uint32_t)get_number(wire);
                break;
        case ENG_OP_OWNED:
                op->owned.mark = get_number(wire);
                op->owned.bits = get_buf(wire);
                break;
        case ENG_OP_SCRUB:
                get_scrub(wire, op);
                break;
        case ENG_OP_READ:
                memcpy((uint8_t *)op->read.slot + LP_SLOT_HEADER + op->read.offset, get(wire, op->read.len),
                       op->read.len);
                op->read.crc = (uint32_t)get_number(wire);
                break;
        default:
                break;
        }
}

static int wire_answer(struct eng_filter_op *of)
{
        struct wire wire = {0};

        put_answer(&wire, &of->op);
        eng_filter_drop_answer(&of->op);
        if (!wire.failed)
                get_answer(&wire, of->above);
        free(wire.bytes);
        return wire.failed ? -EAGAIN : 0;
}

static const struct eng_filter_codec wire_codec = {.request = wire_request, .answer = wire_answer, .free = wire_free};

void filter_wire_use(void)
{
        eng_filter_serialise_by(&wire_codec);
}
