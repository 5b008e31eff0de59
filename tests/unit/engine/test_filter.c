/*
 * test_filter.c - filters before a drive: their grammar, and that what they do to operations is
 * what they say.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tests/lib/drive_fixture.h"
#include "tests/lib/filter_wire.h"

#include <setjmp.h>
#include <cmocka.h>

static void close_nothing(struct eng_drive *drive)
{
}

static void test_grammar(void **state)
{
        static const char *const good[] = {"",
                                           "fail",
                                           "fail:op=append,after=100;delay:op=read,ms=50",
                                           "corrupt:op=lookup,every=3",
                                           "drop:op=sync,ms=10",
                                           "duplicate;serialise",
                                           "unreach:op=append,after=3,ms=10",
                                           "delay:ms=1,slot=63"};
        static const char *const bad[] = {"fails",          "fail:op=none",        "fail:op",
                                          "fail:after=x",   "fail:after=-1",       "corrupt:op=write",
                                          "delay:every=0",  "delay:slot=64",       "fail:after=",
                                          "delay:ms=1x",    "fail:op=append;oops", ":",
                                          "fail:colour=red"};
        static const struct eng_drive_ops none = {.close = close_nothing};
        struct eng_drive inner = {.ops = &none, .slot = 3}, *out;
        struct eng_error error;
        unsigned i;

        assert_int_equal(eng_filter_stack(&inner, "serialise", &out, &error), -EINVAL); /* as in a daemon */
        filter_wire_use();
        for (i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
                assert_int_equal(eng_filter_stack(&inner, good[i], &out, &error), 0);
                out->ops->close(out);
        }
        assert_int_equal(eng_filter_stack(&inner, NULL, &out, &error), 0);
        assert_ptr_equal(out, &inner);
        assert_int_equal(eng_filter_stack(&inner, "fail:slot=4", &out, &error), 0);
        assert_ptr_equal(out, &inner);
        for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
                assert_int_equal(eng_filter_stack(&inner, bad[i], &out, &error), -EINVAL);
                assert_ptr_equal(out, &inner);
                assert_true(error.text[0] != '\0');
        }
}

static void open_with(struct fx *fx, unsigned loops, const char *filters)
{
        fx_make(fx, loops);
        fx->filters = filters;
        assert_int_equal(fx_open(fx), 0);
}

static void fill_write(struct fx_op *op, uint8_t *slot, uint64_t id, uint32_t len)
{
        *op = (struct fx_op){.op = {.kind = ENG_OP_WRITE}};
        fx_id(op->op.write.object_id, id);
        op->op.write.k = 1;
        op->op.write.payload_len = len;
        op->op.write.slot = slot;
        op->op.write.payload = slot + LP_SLOT_HEADER;
        memset(slot + LP_SLOT_HEADER, (int)id, len);
}

static int read_back(struct fx *fx, uint8_t *slot, uint64_t id, uint32_t len)
{
        struct fx_op op = {.op = {.kind = ENG_OP_READ}};
        uint32_t i;
        int rv;

        fx_id(op.op.read.object_id, id);
        op.op.read.payload_len = len;
        op.op.read.offset = 100;
        op.op.read.len = len - 200;
        op.op.read.slot = slot;
        memset(slot, 0, LP_SLOT_SIZE);
        rv = fx_run(fx, &op);
        for (i = 100; rv == 0 && i < len - 100; i++)
                if (slot[LP_SLOT_HEADER + i] != (uint8_t)id)
                        return -ENODATA;
        return rv;
}

/* Every kind of op through the stack, with answers that must be as without it. */
static void use_everything(struct fx *fx)
{
        uint8_t *slot = aligned_alloc(4096, LP_SLOT_SIZE);
        struct fx_op op;
        static struct fx_body body;
        uint64_t pgs[1] = {2};
        uint8_t name[64];
        size_t len;

        assert_int_equal(fx_put(fx, "a", "1", 1), 0);
        assert_int_equal(fx_put(fx, "b/c", "22", 2), 0);
        assert_int_equal(fx_put(fx, "b/d", "", 0), 0);
        assert_int_equal(fx_delete(fx, "a"), 0);
        assert_int_equal(fx_put(fx, "a", "111", 3), 0);
        assert_true(fx_has(fx, "a", "111", 3));
        assert_true(fx_has(fx, "b/d", "", 0));
        assert_int_equal(fx_lookup_rv(fx, "nothing"), -ENOENT);

        len = fx_name(name, "");
        op = (struct fx_op){.op = {.kind = ENG_OP_SCAN, .scan = {.max = 10}}};
        op.op.scan.from = name;
        op.op.scan.from_len = (uint16_t)len;
        op.op.scan.prefix_len = (uint16_t)len;
        op.op.scan.delimiter = (const uint8_t *)"/";
        op.op.scan.delimiter_len = 1;
        op.op.scan.pgs = pgs;
        op.op.scan.pg_words = 1;
        assert_int_equal(fx_run(fx, &op), 0);
        assert_int_equal(op.op.scan.count, 2);
        assert_false(op.op.scan.more);
        eng_buf_unref(op.op.scan.entries);

        len = fx_name(name, "pending");
        body.len = body.inline_len = 0;
        fx_body_put(&body, name, len, 500, 2, "xyz", 3);
        assert_int_equal(fx_append(fx, &body, 2, 1, 0), 0);
        op = (struct fx_op){.op = {.kind = ENG_OP_TAIL}};
        assert_int_equal(fx_run(fx, &op), 0);
        assert_int_equal(op.op.tail.count, 3);
        eng_buf_unref(op.op.tail.entries);
        op = (struct fx_op){.op = {.kind = ENG_OP_RECORD, .append = {.pg = 2, .seq = 1}}};
        assert_int_equal(fx_run(fx, &op), 0);
        assert_int_equal(op.op.append.body->len, body.len);
        assert_memory_equal(op.op.append.body->data, body.bytes, body.len);
        assert_int_equal(op.op.append.seq, 1);
        eng_buf_unref(op.op.append.body);

        fill_write(&op, slot, 9, 32768);
        assert_int_equal(fx_run(fx, &op), 0);
        op = (struct fx_op){.op = {.kind = ENG_OP_SYNC}};
        assert_int_equal(fx_run(fx, &op), 0);
        assert_int_equal(read_back(fx, slot, 9, 32768), 0);
        op = (struct fx_op){.op = {.kind = ENG_OP_DISCARD, .epoch = FX_EPOCH}};
        fx_id(op.op.discard.object_id, 9);
        assert_int_equal(fx_run(fx, &op), 0);
        assert_int_equal(read_back(fx, slot, 9, 32768), -ENOENT);
        free(slot);
}

static void test_harmless_filters(void **state)
{
        static const char *const texts[] = {"serialise", "duplicate", "delay:ms=1",
                                            "serialise;duplicate;delay:ms=1,every=3",
                                            "duplicate:every=2;serialise;duplicate"};
        struct fx fx;
        unsigned i;

        for (i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
                open_with(&fx, 1, texts[i]);
                use_everything(&fx);
                fx_close(&fx);
                assert_int_equal(fx_open(&fx), 0);
                assert_int_equal(fx_commit(&fx, 1, fx.seq), 0);
                assert_true(fx_has(&fx, "a", "111", 3));
                fx_destroy(&fx);
        }
}

static void test_fail(void **state)
{
        struct fx fx;

        open_with(&fx, 1, "fail:op=append,after=2");
        assert_int_equal(fx_put(&fx, "a", "1", 1), 0);
        assert_int_equal(fx_put(&fx, "b", "1", 1), 0);
        assert_int_equal(fx_lookup_rv(&fx, "b"), 0);
        assert_int_equal(fx_put(&fx, "c", "1", 1), -EIO);
        assert_int_equal(fx_lookup_rv(&fx, "b"), -EIO);
        fx_destroy(&fx);
}

static void test_corrupt(void **state)
{
        uint8_t *slot = aligned_alloc(4096, LP_SLOT_SIZE);
        struct fx_op op;
        struct fx fx;

        open_with(&fx, 1, "corrupt:op=read,every=2");
        fill_write(&op, slot, 9, 4096);
        assert_int_equal(fx_run(&fx, &op), 0);
        assert_int_equal(read_back(&fx, slot, 9, 4096), 0);
        assert_int_equal(read_back(&fx, slot, 9, 4096), -EBADMSG);
        assert_int_equal(read_back(&fx, slot, 9, 4096), 0);
        assert_int_equal(fx_put(&fx, "a", "1", 1), 0);
        assert_int_equal(fx_lookup_rv(&fx, "a"), 0);
        free(slot);
        fx_destroy(&fx);
}

static uint64_t now_ms(void)
{
        struct timespec t;

        clock_gettime(CLOCK_MONOTONIC, &t);
        return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

static void test_delay_and_drop(void **state)
{
        uint64_t begin;
        struct fx fx;

        open_with(&fx, 2, "delay:op=lookup,ms=80;drop:op=sync,ms=60");
        assert_int_equal(fx_put(&fx, "a", "1", 1), 0);
        begin = now_ms();
        assert_int_equal(fx_lookup_rv(&fx, "a"), 0);
        assert_true(now_ms() - begin >= 79);
        begin = now_ms();
        assert_int_equal(fx_run(&fx, &(struct fx_op){.op = {.kind = ENG_OP_SYNC}}), -EIO);
        assert_true(now_ms() - begin >= 59);
        assert_int_equal(fx_put(&fx, "b", "1", 1), -EIO);
        fx_destroy(&fx);
}

/* It has not failed: some of what was asked is done, and afterwards it answers as before. */
static void test_unreach(void **state)
{
        uint8_t *slot = aligned_alloc(4096, LP_SLOT_SIZE);
        struct fx_op op;
        struct fx fx;
        unsigned i;

        open_with(&fx, 1, "unreach:op=sync,ms=3000");
        assert_int_equal(fx_put(&fx, "a", "1", 1), 0);
        fill_write(&op, slot, 9, 4096);
        assert_int_equal(fx_run(&fx, &op), 0);
        for (i = 0; i < 2; i++) { /* one is lost on its way there, one on its way back */
                assert_int_equal(fx_run(&fx, &(struct fx_op){.op = {.kind = ENG_OP_SYNC}}), -EHOSTUNREACH);
                assert_int_equal(fx_lookup_rv(&fx, "a"), -EHOSTUNREACH);
                assert_int_equal(read_back(&fx, slot, 9, 4096), -EHOSTUNREACH);
                assert_int_equal(fx_put(&fx, i == 0 ? "b" : "c", "2", 1), -EHOSTUNREACH);
        }
        usleep(3100000);
        assert_true(fx_has(&fx, "a", "1", 1));
        assert_int_equal(read_back(&fx, slot, 9, 4096), 0);
        assert_int_equal(fx_put(&fx, "d", "3", 1), 0);
        free(slot);
        fx_destroy(&fx);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_grammar), cmocka_unit_test(test_harmless_filters), cmocka_unit_test(test_fail),
                cmocka_unit_test(test_corrupt), cmocka_unit_test(test_delay_and_drop), cmocka_unit_test(test_unreach),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
