/*
 * wire.c - see wire.h. Each kind of operation has one function that goes through the fields of its
 * request, and one for those of its answer, whether they are written or read: so both agree.
 */
#include "engine/drive/wire.h"

#include "engine/drive/rec.h"
#include "engine/drive/wire_fields.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

/* ---- requests -------------------------------------------------------------------------------- */

static void wire_record(struct eng_wire *w, struct eng_op *op)
{
        eng_wire_u32(w, &op->append.pg);
        eng_wire_u32(w, &op->append.body_crc);
        eng_wire_u32(w, &op->append.inline_len);
        eng_wire_u16(w, &op->append.type);
        eng_wire_u64(w, &op->append.seq);
        eng_wire_u64(w, &op->append.committed);
        eng_wire_u64(w, &op->append.time_ms);
        eng_wire_u64(w, &op->append.record_epoch);
}

static void wire_scan(struct eng_wire *w, struct eng_op *op)
{
        const uint8_t *pgs = (const uint8_t *)op->scan.pgs;

        eng_wire_name(w, &op->scan.from, &op->scan.from_len);
        eng_wire_optional(w, &op->scan.to, &op->scan.to_len);
        eng_wire_bool(w, &op->scan.after);
        eng_wire_u16(w, &op->scan.prefix_len);
        eng_wire_optional(w, &op->scan.delimiter, &op->scan.delimiter_len);
        eng_wire_u32(w, &op->scan.max);
        eng_wire_u32(w, &op->scan.most);
        eng_wire_u32(w, &op->scan.pg_words);
        eng_wire_check(w, op->scan.pg_words <= ENG_WIRE_BODY_MAX / sizeof(uint64_t));
        eng_wire_align(w);
        if (!w->bad)
                eng_wire_in_place(w, &pgs, op->scan.pg_words * sizeof(uint64_t));
        if (w->out == NULL && !w->bad)
                op->scan.pgs = op->scan.pg_words == 0 ? NULL : (const uint64_t *)(const void *)pgs;
}

static void wire_shard(struct eng_wire *w, uint8_t id[FMT_ID], uint32_t *stripe, uint8_t *shard)
{
        eng_wire_bytes(w, id, FMT_ID);
        eng_wire_u32(w, stripe);
        eng_wire_u8(w, shard);
}

static void wire_read(struct eng_wire *w, struct eng_op *op)
{
        wire_shard(w, op->read.object_id, &op->read.stripe, &op->read.shard);
        eng_wire_u32(w, &op->read.offset);
        eng_wire_u32(w, &op->read.len);
        eng_wire_u32(w, &op->read.payload_len);
        eng_wire_check(w, op->read.payload_len <= FMT_UNIT_MAX && op->read.offset <= op->read.payload_len &&
                              op->read.len <= op->read.payload_len - op->read.offset);
}

static void wire_owned(struct eng_wire *w, struct eng_op *op)
{
        const uint8_t *ids = (const uint8_t *)op->owned.ids;

        eng_wire_u64(w, &op->owned.mark);
        eng_wire_u32(w, &op->owned.count);
        eng_wire_check(w, op->owned.count <= ENG_OWNED_MAX);
        if (!w->bad)
                eng_wire_in_place(w, &ids, (size_t)op->owned.count * FMT_ID);
        if (w->out == NULL)
                op->owned.ids = (const uint8_t(*)[FMT_ID])(const void *)ids;
}

static void wire_scrub(struct eng_wire *w, struct eng_op *op)
{
        uint8_t what = (uint8_t)op->scrub.what;

        eng_wire_bytes(w, &op->scrub.state, sizeof(op->scrub.state));
        eng_wire_u8(w, &what);
        eng_wire_check(w, what <= ENG_SCRUB_READ);
        op->scrub.what = (enum eng_scrub_what)what;
        eng_wire_u32(w, &op->scrub.most);
        eng_wire_check(w, op->scrub.most <= ENG_SCRUB_STRETCH);
        eng_wire_bool(w, &op->scrub.yield);
}

static void wire_request(struct eng_wire *w, struct eng_op *op)
{
        switch (op->kind) {
        case ENG_OP_APPEND:
        case ENG_OP_RECORD:
                wire_record(w, op);
                break;
        case ENG_OP_COMMIT:
                eng_wire_u32(w, &op->commit.pg);
                eng_wire_u64(w, &op->commit.seq);
                break;
        case ENG_OP_LOOKUP:
                eng_wire_name(w, &op->lookup.name, &op->lookup.name_len);
                break;
        case ENG_OP_SCAN:
                wire_scan(w, op);
                break;
        case ENG_OP_WRITE:
                wire_shard(w, op->write.object_id, &op->write.stripe, &op->write.shard);
                eng_wire_u8(w, &op->write.k);
                eng_wire_u8(w, &op->write.m);
                eng_wire_u64(w, &op->write.key_hash);
                break;
        case ENG_OP_READ:
                wire_read(w, op);
                break;
        case ENG_OP_DISCARD:
                eng_wire_bytes(w, op->discard.object_id, FMT_ID);
                break;
        case ENG_OP_HELD:
                wire_shard(w, op->held.object_id, &op->held.stripe, &op->held.shard);
                eng_wire_u32(w, &op->held.count);
                eng_wire_check(w, op->held.count <= ENG_HELD_MAX);
                break;
        case ENG_OP_IDS:
                eng_wire_bytes(w, op->ids.after, FMT_ID);
                eng_wire_u32(w, &op->ids.max);
                eng_wire_check(w, op->ids.max >= 1 && op->ids.max <= ENG_IDS_MAX);
                break;
        case ENG_OP_OWNED:
                wire_owned(w, op);
                break;
        case ENG_OP_SCRUB:
                wire_scrub(w, op);
                break;
        case ENG_OP_FEATURES:
                eng_wire_u64(w, &op->features.bits);
                break;
        case ENG_OP_OPEN:
                eng_wire_bytes(w, op->open.cluster, FMT_ID);
                break;
        case ENG_OP_SYNC:
        case ENG_OP_TAIL:
        case ENG_OP_KINDS:
                break;
        }
}

#define WIRE_FLAGS 0xbffu /* all that drive.h has, but what does not cross the wire */
_Static_assert((WIRE_FLAGS & (ENG_OP_RESERVE | ENG_OP_WANT_INLINE | ENG_OP_WANT_ATTRS | ENG_OP_WANT_PARTS | ENG_OP_WANT_CRC | ENG_OP_CACHE |
                              ENG_OP_WANT_RECORD | ENG_OP_VERSIONS | ENG_OP_NO_MARKERS | ENG_OP_ANEW | ENG_OP_LISTED)) == WIRE_FLAGS,
               "flags");

static void wire_head(struct eng_wire *w, struct eng_op *op)
{
        uint8_t kind = (uint8_t)op->kind;
        uint32_t flags = op->flags;

        eng_wire_u8(w, &kind);
        eng_wire_check(w, kind < ENG_OP_KINDS);
        op->kind = (enum eng_op_kind)kind;
        eng_wire_u32(w, &flags);
        eng_wire_check(w, (flags & ~WIRE_FLAGS) == 0 && eng_flags_agree(flags));
        op->flags = flags;
        eng_wire_u64(w, &op->epoch);
}

static void add_part(struct eng_wire_parts *parts, const void *bytes, size_t len)
{
        assert(parts->count < 2);
        parts->part[parts->count].bytes = bytes;
        parts->part[parts->count++].len = len;
}

static void add_buf(struct eng_wire_parts *parts, const struct eng_buf *buf, uint32_t len)
{
        if (buf != NULL && len > 0)
                add_part(parts, buf->data, len);
}

int eng_wire_put_request(const struct eng_op *op, uint8_t body[ENG_WIRE_BODY_MAX], struct eng_wire_parts *bulk)
{
        struct eng_wire w = {.out = body, .len = ENG_WIRE_BODY_MAX};
        struct eng_op copy = *op;

        memset(bulk, 0, sizeof(*bulk));
        if (op->kind == ENG_OP_SCAN && op->scan.pgs != NULL && op->scan.pg_words == 0)
                return -EINVAL;
        if (op->kind == ENG_OP_SCAN && op->scan.pgs == NULL)
                copy.scan.pg_words = 0;
        wire_head(&w, &copy);
        wire_request(&w, &copy);
        if (op->kind == ENG_OP_APPEND)
                add_buf(bulk, op->append.body, op->append.body == NULL ? 0 : op->append.body->len);
        else if (op->kind == ENG_OP_WRITE)
                add_part(bulk, op->write.payload, op->write.payload_len);
        return w.bad ? -EMSGSIZE : (int)w.at;
}

int eng_wire_request_needs(const uint8_t *body, size_t len, enum eng_wire_bulk *bulk, bool *slot)
{
        if (len < 1 || body[0] >= ENG_OP_KINDS)
                return -EBADMSG;
        *bulk = body[0] == ENG_OP_APPEND ? ENG_WIRE_BULK_BUF : body[0] == ENG_OP_WRITE ? ENG_WIRE_BULK_SLOT : ENG_WIRE_BULK_NONE;
        *slot = body[0] == ENG_OP_WRITE || body[0] == ENG_OP_READ || body[0] == ENG_OP_SCRUB;
        return 0;
}

/* The bulk part of a request. */
static bool take_bulk(struct eng_op *op, struct eng_buf *buf, void *slot, size_t len)
{
        switch (op->kind) {
        case ENG_OP_APPEND:
                op->append.body = len == 0 ? NULL : buf;
                return len <= FMT_BODY_MAX && (len == 0 || (buf != NULL && buf->len == len));
        case ENG_OP_WRITE:
                op->write.slot = slot;
                op->write.payload = slot == NULL ? NULL : (uint8_t *)slot + LP_SLOT_HEADER;
                op->write.payload_len = (uint32_t)len;
                return slot != NULL && len <= LP_SLOT_UNIT;
        case ENG_OP_READ:
                op->read.slot = slot;
                return slot != NULL && len == 0;
        case ENG_OP_SCRUB:
                op->scrub.slot = slot;
                return slot != NULL && len == 0;
        default:
                return len == 0;
        }
}

int eng_wire_get_request(const uint8_t *body, size_t len, struct eng_buf *buf, void *slot, size_t bulk_len, struct eng_op *op)
{
        struct eng_wire w = {.in = body, .len = len};

        assert((uintptr_t)body % 8 == 0);
        memset(op, 0, sizeof(*op));
        if (len > ENG_WIRE_BODY_MAX)
                return -EBADMSG;
        wire_head(&w, op);
        if (!w.bad)
                wire_request(&w, op);
        return !w.bad && w.at == len && take_bulk(op, buf, slot, bulk_len) ? 0 : -EBADMSG;
}

/* ---- answers --------------------------------------------------------------------------------- */

/* Whether this answer says more than its result. A value comes with damaged bytes, too, and a newer term with a refusal. */
static bool answers_more(const struct eng_op *op, int result)
{
        return result == 0 || (op->kind == ENG_OP_LOOKUP && result == -EBADMSG) ||
               (op->kind == ENG_OP_OPEN && (result == -ESTALE || result == -EXDEV));
}

static void wire_lengths(struct eng_wire *w, bool there[2], uint32_t len[2])
{
        unsigned i;

        for (i = 0; i < 2; i++) {
                eng_wire_bool(w, &there[i]);
                if (there[i])
                        eng_wire_u32(w, &len[i]);
        }
}

static void wire_scrub_answer(struct eng_wire *w, struct eng_op *op)
{
        eng_wire_bytes(w, &op->scrub.state, sizeof(op->scrub.state));
        wire_shard(w, op->scrub.object_id, &op->scrub.stripe, &op->scrub.shard);
        eng_wire_u64(w, &op->scrub.key_hash);
        eng_wire_u32(w, &op->scrub.remembered);
        eng_wire_bool(w, &op->scrub.ended);
        eng_wire_bool(w, &op->scrub.damaged);
        eng_wire_bool(w, &op->scrub.gap);
        eng_wire_bool(w, &op->scrub.more);
        eng_wire_u32(w, &op->scrub.gaps);
        eng_wire_u64(w, &op->scrub.gaps_dropped);
}

/* All but the buffers. */
static void wire_answer(struct eng_wire *w, struct eng_op *op)
{
        switch (op->kind) {
        case ENG_OP_RECORD:
                wire_record(w, op);
                break;
        case ENG_OP_SCAN:
                eng_wire_u32(w, &op->scan.count);
                eng_wire_bool(w, &op->scan.more);
                break;
        case ENG_OP_READ:
                eng_wire_u32(w, &op->read.crc);
                break;
        case ENG_OP_TAIL:
                eng_wire_u32(w, &op->tail.count);
                break;
        case ENG_OP_HELD:
                eng_wire_bytes(w, op->held.bits, sizeof(op->held.bits));
                break;
        case ENG_OP_IDS:
                eng_wire_u32(w, &op->ids.count);
                break;
        case ENG_OP_OWNED:
                eng_wire_u64(w, &op->owned.mark);
                break;
        case ENG_OP_SCRUB:
                wire_scrub_answer(w, op);
                break;
        case ENG_OP_OPEN:
                eng_wire_bytes(w, &op->open.newest, sizeof(op->open.newest));
                eng_wire_check(w, eng_term_is_sound(&op->open.newest));
                break;
        default:
                break;
        }
}

/* Where the buffers of an answer are; unused ones NULL. */
static void bufs_of(struct eng_op *op, struct eng_buf **bufs[2])
{
        bufs[0] = bufs[1] = NULL;
        switch (op->kind) {
        case ENG_OP_RECORD:
                bufs[0] = &op->append.body;
                break;
        case ENG_OP_LOOKUP:
                bufs[0] = &op->lookup.value;
                bufs[1] = &op->lookup.bytes;
                break;
        case ENG_OP_SCAN:
                bufs[0] = &op->scan.entries;
                break;
        case ENG_OP_TAIL:
                bufs[0] = &op->tail.entries;
                break;
        case ENG_OP_IDS:
                bufs[0] = &op->ids.ids;
                break;
        case ENG_OP_OWNED:
                bufs[0] = &op->owned.bits;
                break;
        case ENG_OP_SCRUB:
                bufs[0] = &op->scrub.names;
                break;
        default:
                break;
        }
}

int eng_wire_put_answer(const struct eng_op *op, uint8_t body[ENG_WIRE_BODY_MAX], struct eng_wire_parts *bulk)
{
        struct eng_wire w = {.out = body, .len = ENG_WIRE_BODY_MAX};
        struct eng_op copy = *op;
        struct eng_buf **bufs[2];
        uint32_t result = (uint32_t)op->result, len[2] = {0, 0};
        bool there[2] = {false, false};
        unsigned i;

        memset(bulk, 0, sizeof(*bulk));
        eng_wire_u32(&w, &result);
        if (op->result == -ESTALE)
                eng_wire_bool(&w, &copy.deposed);
        if (!answers_more(op, op->result))
                return (int)w.at;
        bufs_of(&copy, bufs);
        for (i = 0; i < 2; i++) {
                if (bufs[i] == NULL || *bufs[i] == NULL)
                        continue;
                there[i] = true;
                len[i] = op->kind == ENG_OP_IDS ? op->ids.count * (uint32_t)sizeof(struct eng_held_id) /* it had room for more */
                                                : (*bufs[i])->len;
                add_buf(bulk, *bufs[i], len[i]);
        }
        if (op->kind == ENG_OP_READ)
                add_part(bulk, (const uint8_t *)op->read.slot + LP_SLOT_HEADER + op->read.offset, op->read.len);
        wire_lengths(&w, there, len);
        wire_answer(&w, &copy);
        return w.bad || (uint64_t)len[0] + len[1] > ENG_WIRE_BULK_MAX ? -EMSGSIZE : (int)w.at;
}

enum eng_wire_bulk eng_wire_answer_needs(const struct eng_op *asked)
{
        struct eng_op copy = *asked;
        struct eng_buf **bufs[2];

        bufs_of(&copy, bufs);
        return asked->kind == ENG_OP_READ ? ENG_WIRE_BULK_SLOT : bufs[0] != NULL ? ENG_WIRE_BULK_BUF : ENG_WIRE_BULK_NONE;
}

/* ---- what answers have in their buffers ------------------------------------------------------ */

static bool value_is_whole(size_t len)
{
        return len >= sizeof(struct fmt_value);
}

/*
 * Where the names of a page may begin. A prefix stands for names that begin with it, of which one is
 * not below `from`; with `after` its names are all behind.
 */
static bool entry_follows(const struct eng_op *asked, const uint8_t *name, size_t len, bool is_prefix)
{
        const size_t from_len = asked->scan.from_len;
        int order = eng_name_compare(name, len, asked->scan.from, from_len);

        if (order > 0 || (order == 0 && !asked->scan.after))
                return true;
        return is_prefix && !asked->scan.after && len <= from_len && memcmp(name, asked->scan.from, len) == 0;
}

/*
 * In order, and of what was asked: whoever goes on behind the last one comes to an end, and a prefix,
 * which has no value, comes to nobody who asked for none.
 */
static bool entry_is_wanted(const struct eng_op *asked, const struct eng_scan_entry *e, const uint8_t *name, const uint8_t *last, size_t last_len)
{
        const bool is_prefix = e->flags != 0;

        if (is_prefix && (asked->scan.delimiter == NULL || e->name_len < asked->scan.prefix_len + asked->scan.delimiter_len))
                return false;
        if (last == NULL ? !entry_follows(asked, name, e->name_len, is_prefix) : eng_name_compare(name, e->name_len, last, last_len) <= 0)
                return false;
        return asked->scan.to == NULL || eng_name_compare(name, e->name_len, asked->scan.to, asked->scan.to_len) < 0;
}

/* left: bytes from there to the end of the page. */
static bool entry_is_whole(const struct eng_op *asked, const struct eng_scan_entry *e, size_t left)
{
        if (e->size % 8 != 0 || e->size > left || e->size < sizeof(*e) || e->name_len > FMT_NAME_MAX || e->flags > 1 ||
            e->value_len > FMT_BODY_MAX || sizeof(*e) + e->name_len + e->value_len > e->size)
                return false;
        if (e->flags != 0)
                return e->value_len == 0;
        return (asked->flags & ENG_OP_LISTED) != 0 ? e->value_len == sizeof(struct eng_listed) : value_is_whole(e->value_len);
}

bool eng_wire_page_answers(const struct eng_op *asked, const uint8_t *bytes, size_t len, uint32_t count)
{
        const uint8_t *last = NULL, *name;
        struct eng_scan_entry e;
        size_t at = 0, last_len = 0;

        for (; at < len; at += e.size, last = name, last_len = e.name_len, count--) {
                if (count == 0 || len - at < sizeof(e))
                        return false;
                memcpy(&e, bytes + at, sizeof(e));
                name = bytes + at + sizeof(e);
                if (!entry_is_whole(asked, &e, len - at) || !entry_is_wanted(asked, &e, name, last, last_len))
                        return false;
        }
        return count == 0;
}

static bool array_is_whole(const struct eng_buf *buf, uint32_t count, size_t size)
{
        return (buf == NULL ? 0 : buf->len) == (uint64_t)count * size;
}

/* | length u16 | name | of each */
static bool names_are_whole(const struct eng_buf *buf)
{
        uint16_t len;
        size_t at = 0;

        while (buf != NULL && at < buf->len) {
                if (buf->len - at < sizeof(len))
                        return false;
                memcpy(&len, buf->data + at, sizeof(len));
                at += sizeof(len);
                if (len > FMT_NAME_MAX || len > buf->len - at)
                        return false;
                at += len;
        }
        return true;
}

/* By what the caller goes through without asking. */
static bool answer_is_whole(const struct eng_op *asked, const struct eng_op *got)
{
        switch (got->kind) {
        case ENG_OP_RECORD:
                return got->append.pg == asked->append.pg && got->append.seq == asked->append.seq && got->append.type == FMT_RECORD_PG &&
                       got->append.body != NULL && got->append.body->len <= FMT_BODY_MAX && got->append.inline_len <= got->append.body->len;
        case ENG_OP_LOOKUP:
                return (got->lookup.value == NULL && got->result != 0 && got->lookup.bytes == NULL) ||
                       (got->lookup.value != NULL && value_is_whole(got->lookup.value->len));
        case ENG_OP_SCAN:
                return got->scan.entries != NULL && got->scan.count <= asked->scan.max && (got->scan.count > 0 || !got->scan.more) &&
                       eng_wire_page_answers(asked, got->scan.entries->data, got->scan.entries->len, got->scan.count);
        case ENG_OP_TAIL:
                return got->tail.entries != NULL && array_is_whole(got->tail.entries, got->tail.count, sizeof(struct eng_memtable_entry));
        case ENG_OP_IDS:
                return got->ids.count <= asked->ids.max && (got->ids.ids == NULL) == (got->ids.count == 0) &&
                       (got->ids.ids == NULL || got->ids.ids->len == got->ids.count * sizeof(struct eng_held_id));
        case ENG_OP_OWNED:
                return asked->owned.count == 0 ? got->owned.bits == NULL
                                               : got->owned.bits != NULL && got->owned.bits->len == ENG_OWNED_MAX / 8;
        case ENG_OP_SCRUB:
                return names_are_whole(got->scrub.names);
        default:
                return true;
        }
}

/* Slices of the bulk part, in order; together they are all of it. */
static int take_bufs(struct eng_op *op, const bool there[2], const uint32_t len[2], struct eng_buf *buf, size_t bulk_len)
{
        struct eng_buf **bufs[2];
        size_t at = 0;
        unsigned i;

        bufs_of(op, bufs);
        for (i = 0; i < 2; i++) {
                if (bufs[i] == NULL && there[i])
                        return -EBADMSG;
                if (bufs[i] != NULL)
                        *bufs[i] = NULL;
        }
        if ((uint64_t)len[0] + len[1] != bulk_len || bulk_len > ENG_WIRE_BULK_MAX || (bulk_len > 0 && (buf == NULL || buf->len != bulk_len)))
                return -EBADMSG;
        for (i = 0; i < 2; i++) {
                if (!there[i])
                        continue;
                if (len[i] == 0)
                        *bufs[i] = eng_buf_new(0);
                else
                        *bufs[i] = len[i] == bulk_len ? eng_buf_ref(buf) : eng_buf_slice(buf, at, len[i]);
                if (*bufs[i] == NULL)
                        return -ENOMEM;
                at += len[i];
        }
        return 0;
}

static void drop_bufs(struct eng_op *op)
{
        struct eng_buf **bufs[2];
        unsigned i;

        bufs_of(op, bufs);
        for (i = 0; i < 2; i++) {
                if (bufs[i] == NULL)
                        continue;
                eng_buf_unref(*bufs[i]);
                *bufs[i] = NULL;
        }
}

void eng_wire_drop_answer(struct eng_op *op)
{
        if (answers_more(op, op->result))
                drop_bufs(op);
}

int eng_wire_get_answer(const uint8_t *body, size_t len, struct eng_buf *buf, size_t bulk_len, struct eng_op *op)
{
        struct eng_wire w = {.in = body, .len = len};
        struct eng_op got = *op;
        uint32_t result = 0, lengths[2] = {0, 0};
        bool there[2] = {false, false};
        int rv;

        eng_wire_u32(&w, &result);
        got.result = (int)result;
        if (w.bad || got.result > 0 || got.result < -4095)
                return -EBADMSG;
        got.deposed = false;
        if (got.result == -ESTALE)
                eng_wire_bool(&w, &got.deposed);
        if (!answers_more(op, got.result)) {
                if (w.bad || w.at != len || bulk_len != 0)
                        return -EBADMSG;
                op->result = got.result;
                op->deposed = got.deposed;
                return 0;
        }
        wire_lengths(&w, there, lengths);
        wire_answer(&w, &got);
        if (w.bad || w.at != len)
                return -EBADMSG;
        if (op->kind == ENG_OP_READ)
                rv = bulk_len == op->read.len && !there[0] && !there[1] ? 0 : -EBADMSG;
        else
                rv = take_bufs(&got, there, lengths, buf, bulk_len);
        if (rv == 0 && !answer_is_whole(op, &got))
                rv = -EBADMSG;
        if (rv != 0 && op->kind != ENG_OP_READ)
                drop_bufs(&got);
        if (rv == 0)
                *op = got;
        return rv;
}
