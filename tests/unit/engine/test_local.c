/*
 * test_local.c - a local drive as a whole: round trips, reopening, visibility, loops.
 */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/lib/drive_fixture.h"
#include "tests/lib/wait.h"

#include "engine/drive/local.h"

#include <setjmp.h>
#include <cmocka.h>

static void hang(void *arg)
{
        static struct eng_watch watch;
        struct eng_local *l = arg;

        l->io_limit_ns = 0;
        eng_watch_begin(l, &watch);
}

static void test_round_trip_and_reopen(void **state)
{
        struct fx fx;
        char name[32], bytes[64];
        unsigned i, round;

        fx_make(&fx, 1);
        assert_int_equal(fx_open(&fx), 0);
        for (i = 0; i < 100; i++) {
                snprintf(name, sizeof(name), "key-%03u", i);
                snprintf(bytes, sizeof(bytes), "value of %u", i);
                assert_int_equal(fx_put(&fx, name, bytes, strlen(bytes)), 0);
        }
        for (i = 0; i < 100; i += 3) {
                snprintf(name, sizeof(name), "key-%03u", i);
                assert_int_equal(fx_delete(&fx, name), 0);
        }
        for (round = 0; round < 3; round++) {
                for (i = 0; i < 100; i++) {
                        snprintf(name, sizeof(name), "key-%03u", i);
                        snprintf(bytes, sizeof(bytes), "value of %u", i);
                        if (i % 3 == 0)
                                assert_int_equal(fx_lookup_rv(&fx, name), -ENOENT);
                        else
                                assert_true(fx_has(&fx, name, bytes, strlen(bytes)));
                }
                fx_close(&fx);
                assert_int_equal(fx_open(&fx), 0);
        }
        fx_destroy(&fx);
}

/* An I/O that takes longer than the limit fails the drive. This one never ends. */
static void test_slow_io(void **state)
{
        struct eng_drive_info info;
        struct fx fx;

        fx_make(&fx, 1);
        assert_int_equal(fx_open(&fx), 0);
        fx_call(&fx, 0, hang, eng_local_of(fx.local));
        WAIT_UNTIL(fx_put(&fx, "a", "b", 1) != 0);
        assert_int_equal(fx_put(&fx, "a", "b", 1), -EIO);
        eng_drive_info(fx.local, &info);
        assert_non_null(strstr(info.reason, "timed out"));
        fx_destroy(&fx);
}

/*
 * I/O that its loop did not begin before it ended says nothing of the drive: it is closed as ever,
 * with all that it has taken in in its index, flushed before. A drive that was given up would leave
 * that to the next start.
 */
static void test_flush_cut_off_by_the_end(void **state)
{
        static uint8_t name[64];
        struct fx_op write = {.op = {.kind = ENG_OP_WRITE}}, sync = {.op = {.kind = ENG_OP_SYNC}}, put = {.op = {.kind = 0}};
        uint8_t *slot = aligned_alloc(4096, LP_SLOT_SIZE);
        struct fx_body body = {.len = 0};
        struct eng_drive_info info;
        struct lp_loop *before;
        struct fx fx;

        memset(slot, 1, LP_SLOT_SIZE);
        fx_make(&fx, 1);
        assert_int_equal(fx_open(&fx), 0);
        assert_int_equal(fx_put(&fx, "key", "kept", 4), 0);
        write.op.write.object_id[0] = 1;
        write.op.write.payload_len = 4096;
        write.op.write.k = 1;
        write.op.write.slot = slot;
        write.op.write.payload = slot + LP_SLOT_HEADER;
        assert_int_equal(fx_run(&fx, &write), 0);
        fx_body_put(&body, name, fx_name(name, "late"), 9, 2, "x", 1);
        fx_fill_append(&put, &body, 2, 1, 0);
        fx_stop(&fx);
        fx_start(&fx, 0, &sync);
        fx_start(&fx, 0, &put);
        before = lp_become(fx.loops[0]);
        while (lp_loop_drain(fx.loops[0]) > 0)
                ;
        lp_become(before);
        assert_int_equal(fx_wait(&sync), -EIO);
        assert_int_equal(fx_wait(&put), -EIO);
        eng_buf_unref(put.op.append.body);
        assert_int_equal(fx.failed[0], 0);
        fx_close(&fx);
        assert_int_equal(fx_open(&fx), 0);
        eng_drive_info(fx.local, &info);
        assert_int_equal(info.memtable_bytes, 0); /* nothing was left for the start to apply */
        assert_true(fx_has(&fx, "key", "kept", 4));
        assert_int_equal(fx_lookup_rv(&fx, "late"), -ENOENT);
        fx_destroy(&fx);
        free(slot);
}

#define MANY 64u

/*
 * The loop is stopped and the drive closed while ops of every kind are under way: nothing is lost,
 * freed twice or left.
 */
static void test_close_under_load(void **state)
{
        static struct fx_op ops[8 * MANY];
        static struct fx_body body;
        static uint8_t *slots[MANY], *read_slots[MANY];
        uint8_t name[64];
        unsigned i, round;
        struct fx fx;
        size_t len;

        for (i = 0; i < MANY; i++) {
                slots[i] = aligned_alloc(4096, LP_SLOT_SIZE);
                read_slots[i] = aligned_alloc(4096, LP_SLOT_SIZE);
                memset(slots[i], 1, LP_SLOT_SIZE);
        }
        len = fx_name(name, "load");
        fx_make(&fx, 1);
        for (round = 0; round < 6; round++) {
                assert_int_equal(fx_open(&fx), 0);
                fx.seq = 1000 * round;
                assert_int_equal(fx_put(&fx, "load", "kept", 4), 0);
                memset(ops, 0, sizeof(ops));
                for (i = 0; i < MANY; i++) {
                        body.len = body.inline_len = 0;
                        fx_body_put(&body, name, len, i, 2, "x", 1);
                        fx_fill_append(&ops[8 * i], &body, 2, round * MANY + i + 1, 0);
                        ops[8 * i + 1].op = (struct eng_op){.kind = ENG_OP_WRITE};
                        ops[8 * i + 1].op.write.object_id[0] = (uint8_t)i;
                        ops[8 * i + 1].op.write.payload_len = 256u << 10;
                        ops[8 * i + 1].op.write.k = 1;
                        ops[8 * i + 1].op.write.slot = slots[i];
                        ops[8 * i + 1].op.write.payload = slots[i] + LP_SLOT_HEADER;
                        ops[8 * i + 2].op.kind = ENG_OP_SYNC;
                        ops[8 * i + 3].op = (struct eng_op){.kind = ENG_OP_READ};
                        ops[8 * i + 3].op.read.object_id[0] = (uint8_t)(i + 1);
                        ops[8 * i + 3].op.read.len = 4096;
                        ops[8 * i + 3].op.read.payload_len = 256u << 10;
                        ops[8 * i + 3].op.read.slot = read_slots[i];
                        ops[8 * i + 4].op = (struct eng_op){.kind = ENG_OP_LOOKUP, .flags = ENG_OP_WANT_INLINE};
                        ops[8 * i + 4].op.lookup.name = name;
                        ops[8 * i + 4].op.lookup.name_len = (uint16_t)len;
                        ops[8 * i + 5].op = (struct eng_op){.kind = ENG_OP_SCAN, .scan = {.max = 10}};
                        ops[8 * i + 6].op =
                                (struct eng_op){.kind = ENG_OP_COMMIT, .commit = {.pg = 2, .seq = round * MANY}};
                        ops[8 * i + 7].op.kind = ENG_OP_TAIL;
                }
                for (i = 0; i < 8 * MANY; i++)
                        fx_start(&fx, 0, &ops[i]);
                usleep(round * 700);
                fx_close(&fx);
                for (i = 0; i < 8 * MANY; i++) {
                        if (ops[i].op.kind == ENG_OP_APPEND)
                                eng_buf_unref(ops[i].op.append.body);
                        if (ops[i].op.kind == ENG_OP_LOOKUP) {
                                eng_buf_unref(ops[i].op.lookup.value);
                                eng_buf_unref(ops[i].op.lookup.bytes);
                        }
                        if (ops[i].op.kind == ENG_OP_SCAN)
                                eng_buf_unref(ops[i].op.scan.entries);
                        if (ops[i].op.kind == ENG_OP_TAIL)
                                eng_buf_unref(ops[i].op.tail.entries);
                }
        }
        assert_int_equal(fx_open(&fx), 0);
        assert_int_equal(fx_commit(&fx, 1, fx.seq), 0);
        assert_true(fx_has(&fx, "load", "kept", 4));
        fx_destroy(&fx);
        for (i = 0; i < MANY; i++) {
                free(slots[i]);
                free(read_slots[i]);
        }
}

/* ---- closed with a segment that was made, and not taken over --------------------------------- */

static unsigned open_descriptors(void)
{
        DIR *dir = opendir("/proc/self/fd");
        unsigned count = 0;

        assert_non_null(dir);
        while (readdir(dir) != NULL)
                count++;
        closedir(dir);
        return count;
}

static bool made;

/* The loop ends before it hears of it. */
static void make_and_end(void *arg)
{
        struct fx *fx = arg;
        struct eng_local *l = eng_local_of(fx->local);
        unsigned i;

        eng_file_make_segment(l);
        for (i = 0; i < 60000 && l->file.make_job.state == ENG_JOB_QUEUED; i++)
                usleep(1000);
        made = l->file.make_job.state == ENG_JOB_RAN;
        lp_loop_stop(fx->loops[0]);
}

static void test_closed_with_a_segment_made(void **state)
{
        unsigned before, round, times = 0;
        struct fx fx;

        fx_make(&fx, 1);
        assert_int_equal(fx_open(&fx), 0);
        fx_close(&fx);
        before = open_descriptors();
        for (round = 0; round < 8; round++) {
                assert_int_equal(fx_open(&fx), 0);
                fx_call(&fx, 0, make_and_end, &fx);
                times += made;
                fx_close(&fx);
                assert_int_equal(open_descriptors(), before);
        }
        assert_true(times > 0);
        fx_destroy(&fx);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_round_trip_and_reopen),
                cmocka_unit_test(test_slow_io),
                cmocka_unit_test(test_flush_cut_off_by_the_end),
                cmocka_unit_test(test_close_under_load),
                cmocka_unit_test(test_closed_with_a_segment_made),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
