/*
 * filter_copy.c - copies of operations and of their answers, member by member, for the filters
 * (filter.c). Each call is on the op's home loop.
 */
#include "engine/drive/filter.h"

#include <string.h>

void eng_filter_copy_request(struct eng_op *to, const struct eng_op *from)
{
        memset(to, 0, sizeof(*to));
        to->kind = from->kind;
        to->flags = from->flags;
        to->epoch = from->epoch;
        to->term = from->term;
        to->of_home = from->of_home;
        switch (from->kind) { /* the union, member by member */
        case ENG_OP_APPEND:
        case ENG_OP_RECORD:
                to->append = from->append;
                break;
        case ENG_OP_COMMIT:
                to->commit = from->commit;
                break;
        case ENG_OP_LOOKUP:
                to->lookup = from->lookup;
                break;
        case ENG_OP_SCAN:
                to->scan = from->scan;
                break;
        case ENG_OP_WRITE:
                to->write = from->write;
                break;
        case ENG_OP_READ:
                to->read = from->read;
                break;
        case ENG_OP_DISCARD:
                to->discard = from->discard;
                break;
        case ENG_OP_TAIL:
                to->tail = from->tail;
                break;
        case ENG_OP_HELD:
                to->held = from->held;
                break;
        case ENG_OP_IDS:
                to->ids = from->ids;
                break;
        case ENG_OP_OWNED:
                to->owned = from->owned;
                break;
        case ENG_OP_SCRUB:
                to->scrub = from->scrub;
                break;
        case ENG_OP_FEATURES:
                to->features = from->features;
                break;
        case ENG_OP_OPEN:
                to->open = from->open;
                break;
        case ENG_OP_SYNC:
        case ENG_OP_KINDS:
                break;
        }
}

void eng_filter_copy_answer(struct eng_op *to, const struct eng_op *from)
{
        to->deposed = from->deposed;
        switch (from->kind) {
        case ENG_OP_RECORD:
                to->append = from->append;
                break;
        case ENG_OP_LOOKUP:
                to->lookup.value = from->lookup.value;
                to->lookup.bytes = from->lookup.bytes;
                break;
        case ENG_OP_SCAN:
                to->scan.entries = from->scan.entries;
                to->scan.count = from->scan.count;
                to->scan.more = from->scan.more;
                break;
        case ENG_OP_READ:
                to->read.crc = from->read.crc;
                to->read.slot = from->read.slot;
                break;
        case ENG_OP_TAIL:
                to->tail = from->tail;
                break;
        case ENG_OP_HELD:
                to->held = from->held;
                break;
        case ENG_OP_IDS:
                to->ids = from->ids;
                break;
        case ENG_OP_OWNED:
                to->owned.mark = from->owned.mark;
                to->owned.bits = from->owned.bits;
                break;
        case ENG_OP_SCRUB:
                to->scrub = from->scrub;
                break;
        case ENG_OP_OPEN:
                to->open.newest = from->open.newest;
                break;
        default:
                break;
        }
}

void eng_filter_drop_answer(struct eng_op *op)
{
        if (op->kind == ENG_OP_RECORD)
                eng_buf_unref(op->append.body);
        if (op->kind == ENG_OP_LOOKUP) {
                eng_buf_unref(op->lookup.value);
                eng_buf_unref(op->lookup.bytes);
        }
        if (op->kind == ENG_OP_SCAN)
                eng_buf_unref(op->scan.entries);
        if (op->kind == ENG_OP_TAIL)
                eng_buf_unref(op->tail.entries);
        if (op->kind == ENG_OP_IDS)
                eng_buf_unref(op->ids.ids);
        if (op->kind == ENG_OP_OWNED)
                eng_buf_unref(op->owned.bits);
        if (op->kind == ENG_OP_SCRUB)
                eng_buf_unref(op->scrub.names);
}
