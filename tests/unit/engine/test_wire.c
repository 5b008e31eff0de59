/*
 * Operations as bytes: each kind there and back, and bodies that are cut, too long, or have any byte
 * changed: what is taken has one form, and lies within what came.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "engine/drive/wire.h"

static uint64_t seed;

static uint64_t draw(void)
{
        seed = eng_hash(&seed, sizeof(seed), 1);
        return seed;
}

/* What an operation of a test points to. */
static struct {
        uint8_t name[FMT_NAME_MAX], to[FMT_NAME_MAX], delimiter[64], ids[ENG_OWNED_MAX][FMT_ID];
        uint64_t pgs[65];
        uint8_t *slot, *slot_there;
        struct eng_buf *body;
} memory;

static int begin_memory(void **state)
{
        size_t i;

        memory.slot = aligned_alloc(4096, LP_SLOT_SIZE);
        memory.slot_there = aligned_alloc(4096, LP_SLOT_SIZE);
        memory.body = eng_buf_new(100000);
        for (i = 0; i < sizeof(memory.name); i++)
                memory.name[i] = memory.to[i] = (uint8_t)draw();
        for (i = 0; i < sizeof(memory.ids); i++)
                ((uint8_t *)memory.ids)[i] = (uint8_t)draw();
        for (i = 0; i < LP_SLOT_SIZE; i++)
                memory.slot[i] = (uint8_t)(i * 7);
        for (i = 0; i < 65; i++)
                memory.pgs[i] = draw();
        memset(memory.body->data, 0x5a, memory.body->len);
        return 0;
}

static int end_memory(void **state)
{
        free(memory.slot);
        free(memory.slot_there);
        eng_buf_unref(memory.body);
        return 0;
}

static void fill(void *to, size_t len)
{
        uint8_t *p = to;

        while (len-- > 0)
                *p++ = (uint8_t)draw();
}

static void request_of(enum eng_op_kind kind, struct eng_op *op)
{
        *op = (struct eng_op){.kind = kind, .flags = (unsigned)(draw() & 0x1ff), .epoch = draw()};
        switch (kind) {
        case ENG_OP_APPEND:
        case ENG_OP_RECORD:
                op->append.pg = (uint32_t)draw();
                op->append.body_crc = (uint32_t)draw();
                op->append.inline_len = (uint32_t)draw();
                op->append.type = (uint16_t)draw();
                op->append.seq = draw();
                op->append.committed = draw();
                op->append.time_ms = draw();
                op->append.record_epoch = draw();
                op->append.body = kind == ENG_OP_APPEND && draw() % 4 != 0 ? memory.body : NULL;
                break;
        case ENG_OP_COMMIT:
                op->commit.pg = (uint32_t)draw();
                op->commit.seq = draw();
                break;
        case ENG_OP_LOOKUP:
                op->lookup.name = memory.name;
                op->lookup.name_len = (uint16_t)(draw() % (FMT_NAME_MAX + 1));
                break;
        case ENG_OP_SCAN:
                op->scan.from = memory.name;
                op->scan.from_len = (uint16_t)(draw() % (FMT_NAME_MAX + 1));
                op->scan.to = draw() % 2 ? memory.to : NULL;
                op->scan.to_len = op->scan.to == NULL ? 0 : (uint16_t)(draw() % (FMT_NAME_MAX + 1));
                op->scan.after = draw() % 2;
                op->scan.prefix_len = (uint16_t)draw();
                op->scan.delimiter = draw() % 2 ? memory.delimiter : NULL;
                op->scan.delimiter_len = op->scan.delimiter == NULL ? 0 : (uint16_t)(draw() % sizeof(memory.delimiter));
                op->scan.max = (uint32_t)draw();
                op->scan.most = (uint32_t)draw();
                op->scan.pg_words = (uint32_t)(draw() % 66);
                op->scan.pgs = op->scan.pg_words == 0 ? NULL : memory.pgs;
                if (draw() % 2)
                        op->flags = ENG_OP_LISTED | (op->flags & ENG_OP_NO_MARKERS);
                break;
        case ENG_OP_WRITE:
                fill(op->write.object_id, FMT_ID);
                op->write.stripe = (uint32_t)draw();
                op->write.shard = (uint8_t)draw();
                op->write.k = (uint8_t)draw();
                op->write.m = (uint8_t)draw();
                op->write.key_hash = draw();
                op->write.payload_len = 4096u * (1u + (uint32_t)(draw() % 256));
                op->write.slot = memory.slot;
                op->write.payload = memory.slot + LP_SLOT_HEADER;
                break;
        case ENG_OP_READ:
                fill(op->read.object_id, FMT_ID);
                op->read.stripe = (uint32_t)draw();
                op->read.shard = (uint8_t)draw();
                op->read.payload_len = 4096u * (1u + (uint32_t)(draw() % 256));
                op->read.offset = (uint32_t)(draw() % op->read.payload_len);
                op->read.len = (uint32_t)(draw() % (op->read.payload_len - op->read.offset + 1));
                op->read.slot = memory.slot;
                break;
        case ENG_OP_DISCARD:
                fill(op->discard.object_id, FMT_ID);
                break;
        case ENG_OP_HELD:
                fill(op->held.object_id, FMT_ID);
                op->held.stripe = (uint32_t)draw();
                op->held.count = (uint32_t)(draw() % (ENG_HELD_MAX + 1));
                op->held.shard = (uint8_t)draw();
                break;
        case ENG_OP_IDS:
                fill(op->ids.after, FMT_ID);
                op->ids.max = 1 + (uint32_t)(draw() % ENG_IDS_MAX);
                break;
        case ENG_OP_OWNED:
                op->owned.ids = (const uint8_t(*)[FMT_ID])memory.ids;
                op->owned.count = (uint32_t)(draw() % (ENG_OWNED_MAX + 1));
                op->owned.mark = draw();
                break;
        case ENG_OP_SCRUB:
                fill(&op->scrub.state, sizeof(op->scrub.state));
                op->scrub.what = (enum eng_scrub_what)(draw() % 4);
                op->scrub.most = (uint32_t)(draw() % (ENG_SCRUB_STRETCH + 1));
                op->scrub.yield = draw() % 2;
                op->scrub.slot = memory.slot;
                break;
        case ENG_OP_FEATURES:
                op->features.bits = draw();
                break;
        case ENG_OP_OPEN:
                fill(op->open.cluster, FMT_ID);
                break;
        case ENG_OP_SYNC:
        case ENG_OP_TAIL:
        case ENG_OP_KINDS:
                break;
        }
}

static size_t bulk_of(const struct eng_wire_parts *parts)
{
        return (parts->count > 0 ? parts->part[0].len : 0) + (parts->count > 1 ? parts->part[1].len : 0);
}

/* The body once more, of what was made of it. */
static void check_again(const struct eng_op *op, const uint8_t *body, size_t len)
{
        _Alignas(8) static uint8_t again[ENG_WIRE_BODY_MAX];
        struct eng_wire_parts parts;

        assert_int_equal(eng_wire_put_request(op, again, &parts), (int)len);
        assert_memory_equal(again, body, len);
}

static void test_requests(void **state)
{
        _Alignas(8) static uint8_t body[ENG_WIRE_BODY_MAX];
        struct eng_wire_parts parts;
        enum eng_wire_bulk bulk;
        unsigned kind, round;
        struct eng_op op, got;
        size_t bulk_len;
        bool slot;
        int len;

        for (round = 0; round < 400; round++) {
                for (kind = 0; kind < ENG_OP_KINDS; kind++) {
                        request_of((enum eng_op_kind)kind, &op);
                        len = eng_wire_put_request(&op, body, &parts);
                        assert_true(len > 0);
                        assert_int_equal(eng_wire_request_needs(body, (size_t)len, &bulk, &slot), 0);
                        bulk_len = bulk_of(&parts);
                        assert_true(bulk != ENG_WIRE_BULK_NONE || bulk_len == 0);
                        if (kind == ENG_OP_WRITE) {
                                assert_ptr_equal(parts.part[0].bytes, op.write.payload);
                                assert_int_equal(bulk_len, op.write.payload_len);
                        }
                        assert_int_equal(eng_wire_get_request(body, (size_t)len, op.kind == ENG_OP_APPEND ? op.append.body : NULL,
                                                              slot ? memory.slot_there : NULL, bulk_len, &got),
                                         0);
                        assert_int_equal(got.kind, op.kind);
                        assert_int_equal(got.flags, op.flags);
                        assert_int_equal(got.epoch, op.epoch);
                        check_again(&got, body, (size_t)len);
                        if (kind == ENG_OP_SCAN) {
                                assert_int_equal(got.scan.to != NULL, op.scan.to != NULL);
                                assert_int_equal((uintptr_t)got.scan.pgs % 8, 0);
                                assert_int_equal(got.scan.pg_words, op.scan.pg_words);
                        }
                        if (kind == ENG_OP_READ)
                                assert_ptr_equal(got.read.slot, memory.slot_there);
                }
        }
        request_of(ENG_OP_SCAN, &op);
        op.flags = ENG_OP_LISTED | ENG_OP_WANT_ATTRS; /* short, and more than short */
        assert_int_equal(eng_wire_get_request(body, (size_t)eng_wire_put_request(&op, body, &parts), NULL, NULL, 0, &got), -EBADMSG);
        request_of(ENG_OP_SCAN, &op);
        op.scan.pgs = memory.pgs;
        op.scan.pg_words = 0;
        assert_int_equal(eng_wire_put_request(&op, body, &parts), -EINVAL);
        op.scan.pg_words = ENG_WIRE_BODY_MAX / 8;
        op.scan.pgs = calloc(op.scan.pg_words, 8);
        assert_int_equal(eng_wire_put_request(&op, body, &parts), -EMSGSIZE);
        free((void *)op.scan.pgs);
}

/* Cut anywhere, or longer, it is refused; with a byte changed it is refused, or has one form still. */
static void test_bodies_that_are_not_whole(void **state)
{
        _Alignas(8) static uint8_t body[ENG_WIRE_BODY_MAX], bad[ENG_WIRE_BODY_MAX];
        struct eng_wire_parts parts;
        unsigned kind, round, taken = 0, refused = 0;
        struct eng_op op, got;
        size_t cut, bulk;
        int len;

        for (kind = 0; kind < ENG_OP_KINDS; kind++) {
                request_of((enum eng_op_kind)kind, &op);
                len = eng_wire_put_request(&op, body, &parts);
                bulk = bulk_of(&parts);
                for (cut = 0; cut < (size_t)len; cut += 1 + cut / 50)
                        assert_int_equal(eng_wire_get_request(body, cut, op.append.body, memory.slot, bulk, &got), -EBADMSG);
                body[len] = 0;
                assert_int_equal(eng_wire_get_request(body, (size_t)len + 1, memory.body, memory.slot, bulk, &got), -EBADMSG);
                for (round = 0; round < 3000; round++) {
                        memcpy(bad, body, (size_t)len);
                        bad[draw() % (uint64_t)len] ^= (uint8_t)(1u << draw() % 8);
                        if (eng_wire_get_request(bad, (size_t)len, memory.body, memory.slot, bulk, &got) == 0) {
                                check_again(&got, bad, (size_t)len);
                                taken++;
                        } else {
                                refused++;
                        }
                }
        }
        assert_true(taken > 1000 && refused > 1000);
        request_of(ENG_OP_SYNC, &op);
        len = eng_wire_put_request(&op, body, &parts);
        assert_int_equal(eng_wire_get_request(body, (size_t)len, NULL, NULL, 1, &got), -EBADMSG); /* a bulk part it has not */
        assert_int_equal(eng_wire_get_request(body, ENG_WIRE_BODY_MAX + 1, NULL, NULL, 0, &got), -EBADMSG);
        request_of(ENG_OP_WRITE, &op);
        len = eng_wire_put_request(&op, body, &parts);
        assert_int_equal(eng_wire_get_request(body, (size_t)len, NULL, memory.slot, LP_SLOT_UNIT + 1u, &got), -EBADMSG);
        assert_int_equal(eng_wire_get_request(body, (size_t)len, NULL, NULL, 4096, &got), -EBADMSG);
        body[0] = ENG_OP_KINDS;
        assert_int_equal(eng_wire_request_needs(body, (size_t)len, &(enum eng_wire_bulk){0}, &(bool){0}), -EBADMSG);
        assert_int_equal(eng_wire_request_needs(body, 0, &(enum eng_wire_bulk){0}, &(bool){0}), -EBADMSG);
}

/* ---- answers --------------------------------------------------------------------------------- */

static struct eng_buf *buf_of(size_t len)
{
        struct eng_buf *buf = eng_buf_new(len);

        fill(buf->data, len);
        return buf;
}

static uint32_t value_size(unsigned flags)
{
        return (flags & ENG_OP_LISTED) != 0 ? sizeof(struct eng_listed) : sizeof(struct fmt_value);
}

/* Entries as a drive packs them. */
static struct eng_buf *entries_of(unsigned count, unsigned flags)
{
        struct eng_buf *buf = eng_buf_new((size_t)count * 256);
        unsigned i;

        memset(buf->data, 0, buf->len);
        for (i = 0; i < count; i++) {
                struct eng_scan_entry e = {.size = 256, .name_len = (uint16_t)(1 + draw() % 100), .flags = (uint16_t)(i % 3 == 0)};

                e.value_len = e.flags == 0 ? value_size(flags) : 0;
                memcpy(buf->data + (size_t)i * 256, &e, sizeof(e));
                buf->data[(size_t)i * 256 + sizeof(e)] = (uint8_t)(i + 1); /* in order */
        }
        return buf;
}

static void answer_of(struct eng_op *op)
{
        static const uint8_t names[] = {3, 0, 'a', 'b', 'c', 0, 0, 1, 0, 'x'};

        op->result = 0;
        switch (op->kind) {
        case ENG_OP_RECORD:
                op->append.body = buf_of(1 + draw() % 5000);
                op->append.inline_len = (uint32_t)(draw() % (op->append.body->len + 1));
                op->append.type = FMT_RECORD_PG;
                break;
        case ENG_OP_LOOKUP:
                op->result = draw() % 4 == 0 ? -EBADMSG : 0;
                op->lookup.value = buf_of(sizeof(struct fmt_value) + draw() % 300);
                op->lookup.bytes = draw() % 2 ? buf_of(1 + draw() % 1000) : NULL;
                break;
        case ENG_OP_SCAN:
                op->scan.count = (uint32_t)(draw() % 20);
                op->scan.more = op->scan.count > 0 && draw() % 2;
                op->scan.entries = entries_of(op->scan.count, op->flags);
                break;
        case ENG_OP_READ:
                op->read.crc = (uint32_t)draw();
                break;
        case ENG_OP_TAIL:
                op->tail.count = (uint32_t)(draw() % 100);
                op->tail.entries = buf_of(op->tail.count * sizeof(struct eng_memtable_entry));
                break;
        case ENG_OP_HELD:
                fill(op->held.bits, sizeof(op->held.bits));
                break;
        case ENG_OP_IDS:
                op->ids.count = (uint32_t)(draw() % (op->ids.max + 1));
                op->ids.ids = op->ids.count == 0 ? NULL : buf_of(op->ids.max * sizeof(struct eng_held_id));
                break;
        case ENG_OP_OWNED:
                op->owned.bits = op->owned.count == 0 ? NULL : buf_of(ENG_OWNED_MAX / 8);
                op->owned.mark = draw();
                break;
        case ENG_OP_SCRUB:
                op->scrub.ended = draw() % 2;
                op->scrub.damaged = draw() % 2;
                op->scrub.remembered = (uint32_t)draw();
                op->scrub.gaps_dropped = draw();
                op->scrub.names = draw() % 2 ? eng_buf_new(sizeof(names)) : NULL;
                if (op->scrub.names != NULL)
                        memcpy(op->scrub.names->data, names, sizeof(names));
                break;
        default:
                break;
        }
}

static void drop_answer(struct eng_op *op)
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

/* The bulk part as it comes: in one piece. */
static struct eng_buf *joined(const struct eng_wire_parts *parts)
{
        struct eng_buf *buf = eng_buf_new(bulk_of(parts));
        size_t at = 0;
        unsigned i;

        for (i = 0; i < parts->count; i++) {
                memcpy(buf->data + at, parts->part[i].bytes, parts->part[i].len);
                at += parts->part[i].len;
        }
        return buf;
}

static void check_answer(const struct eng_op *got, const uint8_t *body, size_t len, const struct eng_buf *bulk)
{
        _Alignas(8) static uint8_t again[ENG_WIRE_BODY_MAX];
        struct eng_wire_parts parts;
        struct eng_buf *buf;

        assert_int_equal(eng_wire_put_answer(got, again, &parts), (int)len);
        assert_memory_equal(again, body, len);
        buf = joined(&parts);
        if (got->kind != ENG_OP_READ && got->result == 0) {
                assert_int_equal(buf->len, bulk->len);
                assert_memory_equal(buf->data, bulk->data, bulk->len);
        }
        eng_buf_unref(buf);
}

static void test_answers(void **state)
{
        _Alignas(8) static uint8_t body[ENG_WIRE_BODY_MAX], bad[ENG_WIRE_BODY_MAX];
        struct eng_wire_parts parts;
        unsigned kind, round, i, taken = 0, refused = 0;
        struct eng_op asked, answered, got;
        struct eng_buf *bulk, *spoilt;
        size_t cut;
        int len;

        for (round = 0; round < 200; round++) {
                for (kind = 0; kind < ENG_OP_KINDS; kind++) {
                        request_of((enum eng_op_kind)kind, &asked);
                        if (kind == ENG_OP_APPEND)
                                asked.append.body = memory.body;
                        if (kind == ENG_OP_SCAN) { /* what entries_of() may be the answer to */
                                asked.scan.from_len = 0;
                                asked.scan.to = NULL;
                                asked.scan.delimiter = memory.delimiter;
                                asked.scan.prefix_len = asked.scan.delimiter_len = 0;
                                asked.scan.max = 20;
                        }
                        answered = asked;
                        answer_of(&answered);
                        len = eng_wire_put_answer(&answered, body, &parts);
                        assert_true(len > 0);
                        bulk = joined(&parts);
                        got = asked;
                        assert_int_equal(eng_wire_get_answer(body, (size_t)len, bulk, bulk->len, &got), 0);
                        assert_int_equal(got.result, answered.result);
                        check_answer(&got, body, (size_t)len, bulk);
                        drop_answer(&got);
                        for (cut = 0; cut < (size_t)len; cut++) {
                                got = asked;
                                assert_int_equal(eng_wire_get_answer(body, cut, bulk, bulk->len, &got), -EBADMSG);
                        }
                        for (i = 0; i < 40; i++) {
                                memcpy(bad, body, (size_t)len);
                                spoilt = eng_buf_new(bulk->len);
                                memcpy(spoilt->data, bulk->data, bulk->len);
                                if (i % 2 == 0 || bulk->len == 0)
                                        bad[draw() % (uint64_t)len] ^= (uint8_t)(1u << draw() % 8);
                                else
                                        spoilt->data[draw() % (bulk->len < 300 ? bulk->len : 300)] ^= (uint8_t)(1u << draw() % 8);
                                got = asked;
                                if (eng_wire_get_answer(bad, (size_t)len, spoilt, spoilt->len, &got) == 0) {
                                        check_answer(&got, bad, (size_t)len, spoilt);
                                        if (got.result == 0 || got.result == answered.result)
                                                drop_answer(&got);
                                        taken++;
                                } else {
                                        refused++;
                                }
                                eng_buf_unref(spoilt);
                        }
                        drop_answer(&answered);
                        eng_buf_unref(bulk);
                }
        }
        assert_true(taken > 1000 && refused > 1000);
}

/* Pages whose entries do not lie within them, each but for one field as it should be. */
static void test_pages(void **state)
{
        static const struct {
                struct eng_scan_entry e;
                uint32_t count;
                bool whole;
                unsigned flags, prefix_len;
        } cases[] = {
                {{.size = 256, .name_len = 9, .value_len = sizeof(struct fmt_value)}, 1, true, 0, 0},
                {{.size = 264, .name_len = 9, .value_len = sizeof(struct fmt_value)}, 1, false, 0, 0}, /* it ends behind the page */
                {{.size = 0, .name_len = 0, .value_len = 0, .flags = 1}, 1, false, 0, 0},
                {{.size = 252, .name_len = 9, .value_len = sizeof(struct fmt_value)}, 1, false, 0, 0},
                {{.size = 256, .name_len = 250, .value_len = sizeof(struct fmt_value)}, 1, false, 0, 0},
                {{.size = 256, .name_len = 9, .value_len = sizeof(struct fmt_value) - 1}, 1, false, 0, 0},
                {{.size = 256, .name_len = 9, .value_len = UINT32_MAX - 8}, 1, false, 0, 0},
                {{.size = 256, .name_len = 9, .value_len = 8, .flags = 1}, 1, false, 0, 0}, /* a prefix has no value */
                {{.size = 256, .name_len = 9, .flags = 1}, 1, true, 0, 0},
                {{.size = 256, .name_len = 9, .flags = 2}, 1, false, 0, 0},
                {{.size = 256, .name_len = 9, .flags = 1}, 2, false, 0, 0},
                {{.size = 256, .name_len = 9, .flags = 1}, 0, false, 0, 0},
                {{.size = 256, .name_len = 9, .flags = 1}, 1, true, 0, 9},
                {{.size = 256, .name_len = 9, .flags = 1}, 1, false, 0, 10}, /* shorter than what was asked for begins with */
                {{.size = 256, .name_len = 9, .value_len = sizeof(struct eng_listed)}, 1, false, 0, 0}, /* short values for somebody who did not ask for them */
                {{.size = 256, .name_len = 9, .value_len = sizeof(struct eng_listed)}, 1, true, ENG_OP_LISTED, 0},
                {{.size = 256, .name_len = 9, .value_len = sizeof(struct eng_listed)}, 1, true, ENG_OP_LISTED | ENG_OP_NO_MARKERS, 0},
                {{.size = 256, .name_len = 9, .value_len = sizeof(struct eng_listed) - 1}, 1, false, ENG_OP_LISTED, 0},
                {{.size = 256, .name_len = 9, .value_len = sizeof(struct eng_listed) + 1}, 1, false, ENG_OP_LISTED, 0},
                {{.size = 256, .name_len = 9, .value_len = sizeof(struct fmt_value)}, 1, false, ENG_OP_LISTED, 0},
                {{.size = 256, .name_len = 197, .value_len = sizeof(struct eng_listed)}, 1, false, ENG_OP_LISTED, 0}, /* it ends behind its entry */
                {{.size = 256, .name_len = 9, .flags = 1}, 1, true, ENG_OP_LISTED, 0},
                {{.size = 256, .name_len = 9, .flags = 1, .value_len = sizeof(struct eng_listed)}, 1, false, ENG_OP_LISTED, 0},
        };
        uint8_t body[ENG_WIRE_BODY_MAX];
        struct eng_wire_parts parts;
        struct eng_op asked = {.kind = ENG_OP_SCAN, .scan = {.from = memory.name, .delimiter = memory.delimiter, .max = 2}}, got;
        size_t i;
        int len;

        for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                struct eng_op answered = asked;

                answered.scan.entries = eng_buf_new(256);
                memset(answered.scan.entries->data, 0, 256);
                memcpy(answered.scan.entries->data, &cases[i].e, sizeof(cases[i].e));
                answered.scan.count = cases[i].count;
                len = eng_wire_put_answer(&answered, body, &parts);
                got = asked;
                got.flags = cases[i].flags;
                got.scan.prefix_len = (uint16_t)cases[i].prefix_len;
                assert_int_equal(eng_wire_get_answer(body, (size_t)len, answered.scan.entries, 256, &got), cases[i].whole ? 0 : -EBADMSG);
                if (cases[i].whole)
                        eng_buf_unref(got.scan.entries);
                eng_buf_unref(answered.scan.entries);
        }
}

/* Two entries, each a name or (ending in '/') a prefix; NULL: none. */
static int answer_page(struct eng_op asked, const char *first, const char *second, bool more)
{
        const char *names[] = {first, second};
        uint8_t body[ENG_WIRE_BODY_MAX];
        struct eng_op answered = asked;
        struct eng_wire_parts parts;
        unsigned i, n = (first != NULL) + (second != NULL);
        int len, rv;

        answered.scan.entries = eng_buf_new(256 * n);
        memset(answered.scan.entries->data, 0, 256 * n);
        for (i = 0; i < n; i++) {
                size_t name_len = strlen(names[i]);
                struct eng_scan_entry e = {.size = 256, .name_len = (uint16_t)name_len, .flags = names[i][name_len - 1] == '/'};

                e.value_len = e.flags == 0 ? sizeof(struct fmt_value) : 0;
                memcpy(answered.scan.entries->data + 256 * i, &e, sizeof(e));
                memcpy(answered.scan.entries->data + 256 * i + sizeof(e), names[i], name_len);
        }
        answered.scan.count = n;
        answered.scan.more = more;
        len = eng_wire_put_answer(&answered, body, &parts);
        rv = eng_wire_get_answer(body, (size_t)len, answered.scan.entries, answered.scan.entries->len, &asked);
        if (rv == 0)
                eng_buf_unref(asked.scan.entries);
        eng_buf_unref(answered.scan.entries);
        return rv;
}

/*
 * A page that is whole, and no answer to what was asked: whoever goes on behind its last name would
 * never come to an end, or take a prefix for a name with a value.
 */
static void test_pages_of_something_else(void **state)
{
        static const struct {
                const char *from, *to, *first, *second;
                uint32_t max;
                bool after, delimiter, more;
                int rv;
        } cases[] = {
                {"b", "x", "b", "c", 2, false, false, true, 0},
                {"b", "x", "b", "c", 2, true, false, true, -EBADMSG},      /* it has been given */
                {"b", "x", "a", "c", 2, false, false, true, -EBADMSG},     /* before all that was asked for */
                {"b", "x", "c", "x", 2, false, false, true, -EBADMSG},     /* behind it */
                {"b", NULL, "c", "x", 2, false, false, true, 0},
                {"b", "x", "d", "c", 2, false, false, true, -EBADMSG},     /* not in order */
                {"b", "x", "c", "c", 2, false, false, true, -EBADMSG},
                {"b", "x", "c", "d", 1, false, false, true, -EBADMSG},     /* too many */
                {"b", "x", NULL, NULL, 2, false, false, true, -EBADMSG},   /* more, behind nothing */
                {"b", "x", NULL, NULL, 2, false, false, false, 0},
                {"b", "x", "c/", "d", 2, false, false, true, -EBADMSG},    /* a prefix that nobody asked for */
                {"b", "x", "c/", "d", 2, false, true, true, 0},
                {"b/k", "x", "b/", "d", 2, false, true, true, 0},          /* of b/k, or of what follows */
                {"b/k", "x", "b/", "d", 2, true, true, true, -EBADMSG},    /* it was given with b/k */
                {"b0", "x", "b/", "d", 2, false, true, true, -EBADMSG},    /* all of its names come before */
        };
        size_t i;

        for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                struct eng_op asked = {.kind = ENG_OP_SCAN};

                asked.scan.from = (const uint8_t *)cases[i].from;
                asked.scan.from_len = (uint16_t)strlen(cases[i].from);
                asked.scan.to = (const uint8_t *)cases[i].to;
                asked.scan.to_len = cases[i].to == NULL ? 0 : (uint16_t)strlen(cases[i].to);
                asked.scan.after = cases[i].after;
                asked.scan.delimiter = cases[i].delimiter ? (const uint8_t *)"/" : NULL;
                asked.scan.delimiter_len = cases[i].delimiter;
                asked.scan.max = cases[i].max;
                assert_int_equal(answer_page(asked, cases[i].first, cases[i].second, cases[i].more), cases[i].rv);
        }
}

/* A record is the one that was asked for: it is given to another drive under that number. */
static void test_another_record(void **state)
{
        uint8_t body[ENG_WIRE_BODY_MAX];
        struct eng_wire_parts parts;
        struct eng_op asked = {.kind = ENG_OP_RECORD, .append = {.pg = 5, .seq = 9}}, answered, got;
        struct eng_buf *bytes = buf_of(100);
        unsigned i;
        int len;

        for (i = 0; i < 4; i++) {
                answered = asked;
                answered.append.body = bytes;
                answered.append.type = i == 1 ? FMT_RECORD_EPOCH : FMT_RECORD_PG;
                answered.append.pg += i == 2;
                answered.append.seq += i == 3;
                len = eng_wire_put_answer(&answered, body, &parts);
                got = asked;
                assert_int_equal(eng_wire_get_answer(body, (size_t)len, bytes, bytes->len, &got), i == 0 ? 0 : -EBADMSG);
                if (i == 0)
                        eng_buf_unref(got.append.body);
        }
        eng_buf_unref(bytes);
}

static void test_errors(void **state)
{
        uint8_t body[ENG_WIRE_BODY_MAX];
        struct eng_wire_parts parts;
        unsigned kind;
        struct eng_op asked, got;
        uint32_t result;
        int len;

        for (kind = 0; kind < ENG_OP_KINDS; kind++) {
                request_of((enum eng_op_kind)kind, &asked);
                asked.result = -ENOSPC;
                len = eng_wire_put_answer(&asked, body, &parts);
                assert_int_equal(len, 4);
                got = asked;
                got.result = 7;
                assert_int_equal(eng_wire_get_answer(body, 4, NULL, 0, &got), 0);
                assert_int_equal(got.result, -ENOSPC);
                assert_int_equal(eng_wire_get_answer(body, 4, NULL, 1, &got), -EBADMSG);
                for (result = 1; result != 0; result = result == 1 ? 0x80000000u : 0) { /* no error has such a number */
                        memcpy(body, &result, 4);
                        assert_int_equal(eng_wire_get_answer(body, 4, NULL, 0, &got), -EBADMSG);
                }
        }
}

/* Whether it is the term, and of OPEN which one is newer, comes with the refusal. */
static void test_deposed(void **state)
{
        uint8_t body[ENG_WIRE_BODY_MAX];
        struct eng_wire_parts parts;
        struct eng_op asked, got;
        unsigned kind, deposed;
        int len;

        for (kind = 0; kind < ENG_OP_KINDS; kind++) {
                for (deposed = 0; deposed < 2; deposed++) {
                        request_of((enum eng_op_kind)kind, &asked);
                        asked.result = -ESTALE;
                        asked.deposed = deposed;
                        if (kind == ENG_OP_OPEN)
                                asked.open.newest = (struct eng_term){.generation = 1, .revision = 9, .boot = 4, .node = 2};
                        len = eng_wire_put_answer(&asked, body, &parts);
                        got = asked;
                        got.deposed = !deposed;
                        memset(&got.open.newest, 0, kind == ENG_OP_OPEN ? sizeof(got.open.newest) : 0);
                        assert_int_equal(eng_wire_get_answer(body, (size_t)len, NULL, 0, &got), 0);
                        assert_true(got.result == -ESTALE && got.deposed == deposed);
                        if (kind == ENG_OP_OPEN)
                                assert_memory_equal(&got.open.newest, &asked.open.newest, sizeof(got.open.newest));
                        assert_int_equal(eng_wire_get_answer(body, (size_t)len - 1, NULL, 0, &got), -EBADMSG);
                        body[4] = 2;
                        assert_int_equal(eng_wire_get_answer(body, (size_t)len, NULL, 0, &got), -EBADMSG);
                        body[4] = (uint8_t)deposed;
                        body[len - 1] = 1; /* zeroes of a term */
                        if (kind == ENG_OP_OPEN)
                                assert_int_equal(eng_wire_get_answer(body, (size_t)len, NULL, 0, &got), -EBADMSG);
                }
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_requests),
                cmocka_unit_test(test_deposed),
                cmocka_unit_test(test_bodies_that_are_not_whole),
                cmocka_unit_test(test_answers),
                cmocka_unit_test(test_pages),
                cmocka_unit_test(test_pages_of_something_else),
                cmocka_unit_test(test_another_record),
                cmocka_unit_test(test_errors),
        };
        const char *given = getenv("SEED");

        seed = given != NULL ? strtoull(given, NULL, 0) : (uint64_t)time(NULL);
        print_message("SEED=%llu\n", (unsigned long long)seed);
        return cmocka_run_group_tests(tests, begin_memory, end_memory);
}
