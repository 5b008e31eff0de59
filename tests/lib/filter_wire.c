/*
 * filter_wire.c - operations as bytes (engine/drive/wire.h), there and back: what the serialise
 * filter sends them through, in tests.
 *
 * This shows that an operation holds all that the drive needs, and an answer all that the caller
 * needs, without a pointer from one side to the other. Memory of the decoded op is its own
 * (of->wire, of->slot). Each call is on the op's home loop.
 */
#include "tests/lib/filter_wire.h"

#include "engine/drive/filter.h"
#include "engine/drive/wire.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static size_t join(const struct eng_wire_parts *parts, uint8_t *to)
{
        size_t len = 0;
        unsigned i;

        for (i = 0; i < parts->count; i++) {
                if (to != NULL)
                        memcpy(to + len, parts->part[i].bytes, parts->part[i].len);
                len += parts->part[i].len;
        }
        return len;
}

/* The bulk part in a buffer of its own. NULL: no memory. */
static struct eng_buf *gather(const struct eng_wire_parts *parts)
{
        struct eng_buf *buf = eng_buf_new(join(parts, NULL));

        if (buf != NULL)
                join(parts, buf->data);
        return buf;
}

static int decode(struct eng_filter_op *of, size_t len, const struct eng_wire_parts *parts)
{
        struct eng_buf *buf = NULL;
        enum eng_wire_bulk bulk;
        size_t bulk_len = join(parts, NULL);
        bool slot;
        int rv;

        assert(eng_wire_request_needs(of->wire, len, &bulk, &slot) == 0);
        if (slot) {
                of->slot = aligned_alloc(FMT_BLOCK, LP_SLOT_SIZE);
                if (of->slot == NULL)
                        return -ENOMEM;
        }
        if (bulk == ENG_WIRE_BULK_BUF) {
                buf = gather(parts);
                if (buf == NULL)
                        return -ENOMEM;
        } else if (bulk == ENG_WIRE_BULK_SLOT && bulk_len <= LP_SLOT_UNIT) {
                join(parts, (uint8_t *)of->slot + LP_SLOT_HEADER);
        }
        rv = eng_wire_get_request(of->wire, len, buf, of->slot, bulk_len, &of->op);
        if (rv != 0 || bulk_len == 0)
                eng_buf_unref(buf); /* else it is the op's, until wire_free() */
        return rv;
}

static int wire_request(struct eng_filter_op *of)
{
        struct eng_op above = *of->above;
        struct eng_wire_parts parts;
        int len, rv;

        if (above.kind == ENG_OP_SCAN && above.scan.pg_words == 0)
                above.scan.pgs = NULL; /* a bitmap whose length was not said stays the caller's memory */
        of->wire = malloc(ENG_WIRE_BODY_MAX);
        if (of->wire == NULL)
                return -ENOMEM;
        len = eng_wire_put_request(&above, of->wire, &parts);
        assert(len > 0);
        rv = decode(of, (size_t)len, &parts);
        of->op.term = above.term;
        of->op.of_home = above.of_home;
        if (rv == 0 && above.kind == ENG_OP_SCAN && above.scan.pg_words == 0)
                of->op.scan.pgs = of->above->scan.pgs;
        return rv;
}

static void wire_free(struct eng_filter_op *of)
{
        if (of->wire == NULL)
                return;
        if (of->op.kind == ENG_OP_APPEND)
                eng_buf_unref(of->op.append.body);
        free(of->slot);
        free(of->wire);
}

static int wire_answer(struct eng_filter_op *of)
{
        struct eng_op *above = of->above;
        struct eng_wire_parts parts;
        struct eng_buf *buf = NULL;
        uint8_t *body = malloc(ENG_WIRE_BODY_MAX);
        int len, rv = -ENOMEM;

        len = body == NULL ? -ENOMEM : eng_wire_put_answer(&of->op, body, &parts);
        if (len > 0 && eng_wire_answer_needs(above) == ENG_WIRE_BULK_BUF)
                buf = gather(&parts);
        else if (len > 0 && above->kind == ENG_OP_READ)
                join(&parts, (uint8_t *)above->read.slot + LP_SLOT_HEADER + above->read.offset);
        if (len > 0 && (buf != NULL || eng_wire_answer_needs(above) != ENG_WIRE_BULK_BUF))
                rv = eng_wire_get_answer(body, (size_t)len, buf, join(&parts, NULL), above);
        eng_filter_drop_answer(&of->op);
        eng_buf_unref(buf);
        free(body);
        return rv == -ENOMEM ? -EAGAIN : rv;
}

static const struct eng_filter_codec wire_codec = {.request = wire_request, .answer = wire_answer, .free = wire_free};

void filter_wire_use(void)
{
        eng_filter_serialise_by(&wire_codec);
}
