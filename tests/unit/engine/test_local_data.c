/*
 * test_local_data.c - shards on a local drive: WRITE, SYNC, READ, DISCARD, from several loops, over
 * crashes and damage.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ec.h"
#include "tests/lib/drive_fixture.h"
#include "tests/lib/wait.h"

#include <setjmp.h>
#include <cmocka.h>

/* Slots of a loop are drawn on that loop; tests use memory of their own of the same shape. */
static uint8_t *new_slot(void)
{
        uint8_t *slot = aligned_alloc(4096, LP_SLOT_SIZE);

        assert_non_null(slot);
        memset(slot, 0xee, LP_SLOT_SIZE);
        return slot;
}

static uint8_t pattern(uint64_t id, uint32_t stripe, size_t i)
{
        return (uint8_t)(id * 31 + stripe * 7 + i + i / 251);
}

static void fill_write(struct fx_op *op, uint8_t *slot, uint64_t id, uint32_t stripe, uint32_t len)
{
        size_t i;

        memset(op, 0, sizeof(*op));
        op->op.kind = ENG_OP_WRITE;
        fx_id(op->op.write.object_id, id);
        op->op.write.stripe = stripe;
        op->op.write.shard = 1;
        op->op.write.k = 2;
        op->op.write.m = 1;
        op->op.write.payload_len = len;
        op->op.write.slot = slot;
        op->op.write.payload = slot + LP_SLOT_HEADER;
        for (i = 0; i < len && len <= FMT_UNIT_MAX; i++)
                slot[LP_SLOT_HEADER + i] = pattern(id, stripe, i);
}

static int write_shard(struct fx *fx, uint64_t id, uint32_t stripe, uint32_t len)
{
        uint8_t *slot = new_slot();
        struct fx_op op;
        int rv;

        fill_write(&op, slot, id, stripe, len);
        rv = fx_run(fx, &op);
        free(slot);
        return rv;
}

static void fill_read(struct fx_op *op, uint8_t *slot, uint64_t id, uint32_t stripe, uint32_t payload_len,
                      uint32_t offset, uint32_t len)
{
        memset(op, 0, sizeof(*op));
        op->op.kind = ENG_OP_READ;
        fx_id(op->op.read.object_id, id);
        op->op.read.stripe = stripe;
        op->op.read.shard = 1;
        op->op.read.offset = offset;
        op->op.read.len = len;
        op->op.read.payload_len = payload_len;
        op->op.read.slot = slot;
}

static bool is_right(const struct fx_op *op, uint64_t id)
{
        const uint8_t *bytes = (const uint8_t *)op->op.read.slot + LP_SLOT_HEADER;
        size_t i;

        for (i = op->op.read.offset; i < op->op.read.offset + op->op.read.len; i++)
                if (bytes[i] != pattern(id, op->op.read.stripe, i))
                        return false;
        return true;
}

/* 0, -ENODATA for wrong bytes (never to be seen), or READ's result. */
static int read_shard(struct fx *fx, uint64_t id, uint32_t stripe, uint32_t payload_len, uint32_t offset, uint32_t len)
{
        uint8_t *slot = new_slot();
        struct fx_op op;
        int rv;

        fill_read(&op, slot, id, stripe, payload_len, offset, len);
        rv = fx_run(fx, &op);
        if (rv == 0 && !is_right(&op, id))
                rv = -ENODATA;
        memset(slot, 0, LP_SLOT_SIZE);
        fill_read(&op, slot, id, stripe, payload_len, offset, len);
        op.op.flags = ENG_OP_WANT_CRC;
        assert_int_equal(fx_run(fx, &op), rv == -ENODATA ? 0 : rv);
        if (rv == 0 && (!is_right(&op, id) || op.op.read.crc != era_crc32c(0, slot + LP_SLOT_HEADER + offset, len)))
                rv = -ENODATA;
        free(slot);
        return rv;
}

static int simple(struct fx *fx, enum eng_op_kind kind, uint64_t id)
{
        struct fx_op op = {.op = {.kind = kind, .epoch = FX_EPOCH}};

        if (kind == ENG_OP_DISCARD)
                fx_id(op.op.discard.object_id, id);
        return fx_run(fx, &op);
}

static void test_write_read_reopen(void **state)
{
        static const uint32_t lens[] = {4096, 16384, 20480, 65536, 1u << 20};
        static const struct {
                uint32_t offset, len;
        } ranges[] = {{0, 1}, {0, 4096}, {4095, 1}, {1000, 3000}};
        unsigned i, j, round;
        struct fx fx;

        fx_make(&fx, 1);
        assert_int_equal(fx_open(&fx), 0);
        for (i = 0; i < 5; i++)
                assert_int_equal(write_shard(&fx, 10 + i, i, lens[i]), 0);
        assert_int_equal(simple(&fx, ENG_OP_SYNC, 0), 0);
        for (round = 0; round < 3; round++) {
                for (i = 0; i < 5; i++) {
                        for (j = 0; j < 4; j++)
                                assert_int_equal(read_shard(&fx, 10 + i, i, lens[i], ranges[j].offset, ranges[j].len),
                                                 0);
                        assert_int_equal(read_shard(&fx, 10 + i, i, lens[i], 0, lens[i]), 0);
                        assert_int_equal(read_shard(&fx, 10 + i, i, lens[i], lens[i] - 1, 1), 0);
                        assert_int_equal(read_shard(&fx, 10 + i, i + 1, lens[i], 0, 1), -ENOENT);
                        assert_int_equal(read_shard(&fx, 99, i, lens[i], 0, 1), -ENOENT);
                        assert_int_equal(read_shard(&fx, 10 + i, i, lens[i] == 4096 ? 8192 : 4096, 0, 1), -EBADMSG);
                }
                /* far inside: with and without a remembered header */
                assert_int_equal(read_shard(&fx, 14, 4, 1u << 20, 700000, 50000), 0);
                assert_int_equal(read_shard(&fx, 14, 4, 1u << 20, 900000, 50000), 0);
                fx_close(&fx);
                assert_int_equal(fx_open(&fx), 0);
        }
        fx_destroy(&fx);
}

static void test_limits(void **state)
{
        struct fx fx;

        fx_make(&fx, 1);
        assert_int_equal(fx_open(&fx), 0);
        assert_int_equal(write_shard(&fx, 1, 0, 0), -EINVAL);
        assert_int_equal(write_shard(&fx, 1, 0, 4095), -EINVAL);
        assert_int_equal(write_shard(&fx, 1, 0, FMT_UNIT_MAX + 4096), -EINVAL);
        assert_int_equal(write_shard(&fx, 1, 0, 4096), 0);
        assert_int_equal(read_shard(&fx, 1, 0, 4096, 0, 0), -EINVAL);
        assert_int_equal(read_shard(&fx, 1, 0, 4096, 4000, 97), -EINVAL);
        assert_int_equal(read_shard(&fx, 1, 0, 4095, 0, 1), -EINVAL);
        assert_int_equal(read_shard(&fx, 1, 0, 0, 0, 0), -EINVAL);
        fx_destroy(&fx);
}

static void test_crash_keeps_synced_frames(void **state)
{
        unsigned i, with_index;
        char command[256];
        struct fx fx;

        fx_make(&fx, 1);
        assert_int_equal(fx_open(&fx), 0);
        for (i = 0; i < 20; i++) /* three segments */
                assert_int_equal(write_shard(&fx, 100 + i, i, 1u << 20), 0);
        assert_int_equal(simple(&fx, ENG_OP_SYNC, 0), 0);
        fx_snapshot(&fx, "crash");
        fx_close(&fx);
        for (with_index = 0; with_index < 2; with_index++) {
                fx_restore(&fx, "crash");
                snprintf(command, sizeof(command), "rm -rf '%s/index'", fx.path);
                if (!with_index)
                        assert_int_equal(system(command), 0);
                assert_int_equal(fx_open(&fx), 0);
                for (i = 0; i < 20; i++)
                        assert_int_equal(read_shard(&fx, 100 + i, i, 1u << 20, 0, 1u << 20), 0);
                fx_close(&fx);
        }
        fx_destroy(&fx);
}

static void test_damage_is_told(void **state)
{
        char path[256];
        struct fx fx;

        fx_make(&fx, 1);
        assert_int_equal(fx_open(&fx), 0);
        assert_int_equal(write_shard(&fx, 1, 0, 65536), 0);
        assert_int_equal(write_shard(&fx, 2, 0, 65536), 0);
        assert_int_equal(simple(&fx, ENG_OP_SYNC, 0), 0);
        fx_close(&fx);
        fx_first(&fx, "data", path, sizeof(path));
        fx_flip(path, 4096 + 4096 + 40000); /* third CRC block of the first */
        assert_int_equal(fx_open(&fx), 0);
        assert_int_equal(read_shard(&fx, 1, 0, 65536, 0, 65536), -EBADMSG);
        assert_int_equal(read_shard(&fx, 1, 0, 65536, 0, 16384), 0);
        assert_int_equal(read_shard(&fx, 1, 0, 65536, 50000, 100), 0);
        assert_int_equal(read_shard(&fx, 1, 0, 65536, 40000, 1), -EBADMSG);
        assert_int_equal(read_shard(&fx, 2, 0, 65536, 0, 65536), 0);
        fx_close(&fx);
        fx_flip(path, 4096 + 10); /* the first one's header */
        assert_int_equal(fx_open(&fx), 0);
        assert_int_equal(read_shard(&fx, 1, 0, 65536, 0, 1), -EBADMSG);
        assert_int_equal(read_shard(&fx, 2, 0, 65536, 0, 65536), 0);
        fx_close(&fx);
        assert_int_equal(truncate(path, 4096 + 4096 + 65536 + 4096 + 30000), 0);
        assert_int_equal(fx_open(&fx), 0);
        assert_int_equal(read_shard(&fx, 2, 0, 65536, 0, 65536), -EBADMSG);
        fx_destroy(&fx);
}

static bool wait_segments(struct fx *fx, unsigned at_most)
{
        WAIT_UNTIL(fx_count_files(fx, "data", ".seg") <= at_most);
        return fx_count_files(fx, "data", ".seg") <= at_most;
}

static void test_discard_frees_segments(void **state)
{
        struct fx fx;
        unsigned i;

        fx_make(&fx, 1);
        assert_int_equal(fx_open(&fx), 0);
        for (i = 0; i < 24; i++)
                assert_int_equal(write_shard(&fx, 100 + i % 4, i, 1u << 20), 0);
        assert_int_equal(simple(&fx, ENG_OP_SYNC, 0), 0);
        assert_true(fx_wait_indexed(&fx));
        assert_true(fx_count_files(&fx, "data", ".seg") >= 4);
        for (i = 0; i < 3; i++)
                assert_int_equal(simple(&fx, ENG_OP_DISCARD, 100 + i), 0);
        assert_int_equal(simple(&fx, ENG_OP_DISCARD, 100), 0);  /* again */
        assert_int_equal(simple(&fx, ENG_OP_DISCARD, 4711), 0); /* unknown */
        for (i = 0; i < 24; i++)
                assert_int_equal(read_shard(&fx, 100 + i % 4, i, 1u << 20, 0, 1), i % 4 == 3 ? 0 : -ENOENT);
        assert_int_equal(simple(&fx, ENG_OP_DISCARD, 103), 0);
        /* written anew after a discard: it lives */
        assert_int_equal(write_shard(&fx, 100, 77, 4096), 0);
        assert_int_equal(simple(&fx, ENG_OP_SYNC, 0), 0);
        assert_true(wait_segments(&fx, 2));
        assert_int_equal(read_shard(&fx, 100, 77, 4096, 0, 4096), 0);
        fx_close(&fx);
        assert_int_equal(fx_open(&fx), 0);
        assert_int_equal(read_shard(&fx, 100, 77, 4096, 0, 4096), 0);
        for (i = 0; i < 24; i++)
                assert_int_equal(read_shard(&fx, 100 + i % 4, i, 1u << 20, 0, 1), -ENOENT);
        fx_destroy(&fx);
}

/* The same shard written twice: the later frame counts, before and after a restart. */
static void test_rewritten_shard(void **state)
{
        struct fx fx;

        fx_make(&fx, 1);
        assert_int_equal(fx_open(&fx), 0);
        assert_int_equal(write_shard(&fx, 5, 0, 8192), 0);
        assert_int_equal(write_shard(&fx, 5, 0, 16384), 0);
        assert_int_equal(simple(&fx, ENG_OP_SYNC, 0), 0);
        assert_int_equal(read_shard(&fx, 5, 0, 16384, 0, 16384), 0);
        assert_int_equal(read_shard(&fx, 5, 0, 8192, 0, 1), -EBADMSG);
        assert_true(fx_wait_indexed(&fx));
        assert_int_equal(write_shard(&fx, 5, 0, 4096), 0);
        assert_int_equal(simple(&fx, ENG_OP_SYNC, 0), 0);
        fx_close(&fx);
        assert_int_equal(fx_open(&fx), 0);
        assert_int_equal(read_shard(&fx, 5, 0, 4096, 0, 4096), 0);
        fx_destroy(&fx);
}

#define MANY 30u

/* Ops from three loops at once; the drive belongs to the first. */
static void test_many_loops(void **state)
{
        static struct fx_op writes[MANY], syncs[MANY], reads[MANY];
        static uint8_t *slots[MANY];
        struct eng_drive_info info;
        uint64_t before;
        bool shared = false;
        unsigned i, tries;
        struct fx fx;

        fx_make(&fx, 3);
        assert_int_equal(fx_open(&fx), 0);
        for (i = 0; i < MANY; i++) {
                slots[i] = new_slot();
                fill_write(&writes[i], slots[i], 1000 + i, i, 256u << 10);
                fx_start(&fx, i % 3, &writes[i]);
        }
        for (i = 0; i < MANY; i++)
                assert_int_equal(fx_wait(&writes[i]), 0);
        for (tries = 0; tries < 20 && !shared; tries++) {
                eng_drive_info(fx.local, &info);
                before = info.syncs; /* the index has segments flushed, too, on a slow machine more than one */
                for (i = 0; i < MANY; i++) {
                        memset(&syncs[i], 0, sizeof(syncs[i]));
                        syncs[i].op.kind = ENG_OP_SYNC;
                }
                fx_start_group(&fx, syncs, MANY);
                for (i = 0; i < MANY; i++)
                        assert_int_equal(fx_wait(&syncs[i]), 0);
                eng_drive_info(fx.local, &info);
                shared = info.syncs - before < MANY;
        }
        assert_true(shared);
        for (i = 0; i < MANY; i++) {
                memset(slots[i], 0xcc, LP_SLOT_SIZE);
                fill_read(&reads[i], slots[i], 1000 + i, i, 256u << 10, 100000, 100000);
                fx_start(&fx, (i + 1) % 3, &reads[i]);
        }
        for (i = 0; i < MANY; i++) {
                assert_int_equal(fx_wait(&reads[i]), 0);
                assert_true(is_right(&reads[i], 1000 + i));
                free(slots[i]);
        }
        fx_destroy(&fx);
}

static void test_full(void **state)
{
        uint8_t *slot = new_slot();
        struct fx_op op;
        struct fx fx;

        fx_make(&fx, 1);
        fx.options.full_reserve_bytes = 1ull << 60;
        assert_int_equal(fx_open(&fx), 0);
        assert_int_equal(write_shard(&fx, 1, 0, 4096), -ENOSPC);
        assert_int_equal(fx_put(&fx, "a", "b", 1), -ENOSPC);
        fill_write(&op, slot, 1, 0, 4096);
        op.op.flags = ENG_OP_RESERVE;
        assert_int_equal(fx_run(&fx, &op), 0);
        assert_int_equal(read_shard(&fx, 1, 0, 4096, 0, 4096), 0);
        free(slot);
        fx_destroy(&fx);
}

/* As far as the drive knows. */
static bool holds(struct fx *fx, uint64_t id)
{
        struct fx_op op = {.op = {.kind = ENG_OP_HELD, .held = {.count = 1, .shard = 1}}};

        fx_id(op.op.held.object_id, id);
        assert_int_equal(fx_run(fx, &op), 0);
        return op.op.held.bits[0] != 0;
}

static void test_old_epoch(void **state)
{
        uint8_t *slot = new_slot();
        struct fx_op op;
        struct fx fx;

        fx_make(&fx, 1);
        assert_int_equal(fx_open(&fx), 0);
        fill_write(&op, slot, 1, 0, 4096);
        op.op.epoch = FX_EPOCH - 1;
        assert_int_equal(fx_run(&fx, &op), -ESTALE);
        op = (struct fx_op){.op = {.kind = ENG_OP_COMMIT, .epoch = FX_EPOCH - 1, .commit = {.pg = 1, .seq = 1}}};
        assert_int_equal(fx_run(&fx, &op), -ESTALE);
        fill_write(&op, slot, 1, 0, 4096);
        assert_int_equal(fx_run(&fx, &op), 0);
        op = (struct fx_op){.op = {.kind = ENG_OP_DISCARD, .epoch = FX_EPOCH - 1}};
        fx_id(op.op.discard.object_id, 1);
        assert_int_equal(fx_run(&fx, &op), -ESTALE);
        assert_true(holds(&fx, 1));
        op.op.epoch = FX_EPOCH;
        assert_int_equal(fx_run(&fx, &op), 0);
        assert_false(holds(&fx, 1));
        free(slot);
        fx_destroy(&fx);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_write_read_reopen),
                cmocka_unit_test(test_limits),
                cmocka_unit_test(test_crash_keeps_synced_frames),
                cmocka_unit_test(test_damage_is_told),
                cmocka_unit_test(test_discard_frees_segments),
                cmocka_unit_test(test_rewritten_shard),
                cmocka_unit_test(test_many_loops),
                cmocka_unit_test(test_full),
                cmocka_unit_test(test_old_epoch),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
