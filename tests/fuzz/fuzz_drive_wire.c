/*
 * fuzz_drive_wire.c - libFuzzer: bytes that claim to be an operation of a drive, or the answer to
 * one. What is taken lies within what came, and is the same bytes when it is written again.
 *
 * The first byte chooses: a request, or an answer to which kind, and whether its values are to be
 * short; the next two how much of the rest is the bulk part.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "ec.h"
#include "engine/drive/wire.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint8_t *slot;
static _Alignas(8) uint8_t body[ENG_WIRE_BODY_MAX], again[ENG_WIRE_BODY_MAX];
static volatile uint32_t sum; /* so that all bytes are read */

static void same(int len, size_t size)
{
        if (len < 0 || (size_t)len != size || memcmp(again, body, size) != 0)
                abort();
}

static void take_request(size_t len, struct eng_buf *buf)
{
        struct eng_wire_parts parts;
        enum eng_wire_bulk bulk;
        struct eng_op op;
        bool needs;

        if (eng_wire_request_needs(body, len, &bulk, &needs) != 0)
                return;
        if (bulk == ENG_WIRE_BULK_SLOT)
                memcpy(slot + LP_SLOT_HEADER, buf->data, buf->len);
        if (eng_wire_get_request(body, len, buf, needs ? slot : NULL, buf->len, &op) != 0)
                return;
        same(eng_wire_put_request(&op, again, &parts), len);
        if (op.kind == ENG_OP_LOOKUP)
                sum = era_crc32c(0, op.lookup.name, op.lookup.name_len);
        if (op.kind == ENG_OP_OWNED)
                sum = era_crc32c(0, op.owned.ids, (size_t)op.owned.count * FMT_ID);
        if (op.kind == ENG_OP_SCAN && op.scan.pgs != NULL)
                sum = era_crc32c(0, op.scan.pgs, op.scan.pg_words * sizeof(op.scan.pgs[0]));
}

static void walk_entries(const struct eng_op *op)
{
        struct eng_scan_entry e;
        struct eng_object object;
        size_t at = 0;
        uint32_t i;

        for (i = 0; i < op->scan.count; i++, at += e.size) {
                memcpy(&e, op->scan.entries->data + at, sizeof(e));
                sum = era_crc32c(0, op->scan.entries->data + at + sizeof(e), (size_t)e.name_len + e.value_len);
                if (e.flags == 0 && (op->flags & ENG_OP_LISTED) != 0)
                        eng_listed_object(op->scan.entries->data + at + sizeof(e) + e.name_len, &object);
                else if (e.flags == 0)
                        eng_encoded_object(op->scan.entries->data + at + sizeof(e) + e.name_len, e.value_len, &object);
        }
}

static void take_answer(enum eng_op_kind kind, bool listed, size_t len, struct eng_buf *buf)
{
        struct eng_wire_parts parts;
        struct eng_op op = {.kind = kind, .flags = listed ? ENG_OP_LISTED : 0};

        if (kind == ENG_OP_READ) {
                op.read.slot = slot;
                op.read.len = buf->len;
        }
        if (kind == ENG_OP_IDS)
                op.ids.max = ENG_IDS_MAX;
        if (kind == ENG_OP_SCAN) {
                op.scan.from = op.scan.delimiter = slot;
                op.scan.max = UINT32_MAX;
        }
        if (kind == ENG_OP_OWNED)
                op.owned.count = 1;
        if (eng_wire_get_answer(body, len, buf, buf->len, &op) != 0)
                return;
        same(eng_wire_put_answer(&op, again, &parts), len);
        if (kind == ENG_OP_SCAN && op.result == 0)
                walk_entries(&op);
        if (kind == ENG_OP_RECORD)
                eng_buf_unref(op.append.body);
        if (kind == ENG_OP_LOOKUP) {
                eng_buf_unref(op.lookup.value);
                eng_buf_unref(op.lookup.bytes);
        }
        if (kind == ENG_OP_SCAN)
                eng_buf_unref(op.scan.entries);
        if (kind == ENG_OP_TAIL)
                eng_buf_unref(op.tail.entries);
        if (kind == ENG_OP_IDS)
                eng_buf_unref(op.ids.ids);
        if (kind == ENG_OP_OWNED)
                eng_buf_unref(op.owned.bits);
        if (kind == ENG_OP_SCRUB)
                eng_buf_unref(op.scrub.names);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        struct eng_buf *buf;
        size_t bulk, len;

        if (size < 3)
                return 0;
        if (slot == NULL)
                slot = aligned_alloc(FMT_BLOCK, LP_SLOT_SIZE);
        bulk = ((size_t)data[1] | (size_t)data[2] << 8) % (size - 2);
        len = size - 3 - bulk;
        if (len > sizeof(body))
                return 0;
        memcpy(body, data + 3, len);
        buf = eng_buf_new(bulk);
        memcpy(buf->data, data + 3 + len, bulk);
        if (data[0] % (ENG_OP_KINDS + 1) == ENG_OP_KINDS)
                take_request(len, buf);
        else
                take_answer((enum eng_op_kind)(data[0] % (ENG_OP_KINDS + 1)), data[0] / (ENG_OP_KINDS + 1) % 2 != 0, len, buf);
        eng_buf_unref(buf);
        return 0;
}
