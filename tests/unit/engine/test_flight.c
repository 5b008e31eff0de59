/*
 * test_flight.c - a drive whose reads hang, or are late: its ops are answered when it fails, or
 * when they are, and slots that the kernel has stay with it until its last completion.
 */
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/drive/local.h"
#include "tests/lib/fd_faults.h"
#include "tests/lib/shard_fixture.h"
#include "tests/lib/wait.h"

#include <setjmp.h>
#include <cmocka.h>

#define LEN   65536u
#define READS 12u

static atomic_uint left_count;
static struct fx_op ops[READS];
static uint8_t *slots[READS];

static void left(struct lp_loop *home, void *slot)
{
        assert_ptr_equal(lp_self(), home);
        assert_non_null(slot);
        atomic_fetch_add(&left_count, 1);
}

static void start_reads(struct fx *fx, unsigned loop, bool lend)
{
        unsigned i;

        atomic_store(&left_count, 0);
        for (i = 0; i < READS; i++) {
                if (slots[i] == NULL)
                        slots[i] = sh_new_slot();
                memset(&ops[i], 0, sizeof(ops[i]));
                ops[i].op.kind = ENG_OP_READ;
                fx_id(ops[i].op.read.object_id, 1 + i);
                ops[i].op.read.shard = SH_SHARD;
                ops[i].op.read.len = ops[i].op.read.payload_len = LEN;
                ops[i].op.read.slot = slots[i];
                ops[i].op.read.left = lend ? left : NULL;
                fx_start(fx, loop, &ops[i]);
        }
}

static void fail_now(void *arg)
{
        struct fx *fx = arg;

        eng_local_fail(eng_local_of(fx->local), -ETIMEDOUT, "a read, write or flush");
}

static void nothing(void *arg)
{
}

static void make(struct fx *fx)
{
        unsigned i;

        fx_make(fx, 2);
        assert_int_equal(fx_open(fx), 0);
        for (i = 0; i < READS; i++)
                assert_int_equal(sh_write(fx, 1 + i, 0, LEN), 0);
        assert_int_equal(sh_sync(fx), 0);
        assert_int_equal(sh_read(fx, 1, 0, LEN), 0); /* opens the file for reading */
}

/*
 * The reads that the drive's share lets fly keep their slots; those that wait for their turn give
 * theirs back.
 */
static void check_hang(unsigned loop)
{
        struct fd_faults faults;
        unsigned i, kept = 0;
        struct fx fx;

        make(&fx);
        fd_faults_hang(&faults, ".seg");
        start_reads(&fx, loop, true);
        fx_call(&fx, 0, nothing, NULL);
        fx_call(&fx, 1, nothing, NULL);
        fx_call(&fx, 0, fail_now, &fx);
        for (i = 0; i < READS; i++) {
                assert_int_equal(fx_wait(&ops[i]), -EIO);
                kept += ops[i].op.read.slot == NULL;
        }
        assert_int_equal(kept, ENG_READS_LEAST);
        assert_int_equal(atomic_load(&left_count), 0);
        fd_faults_end(&faults);
        WAIT_UNTIL(atomic_load(&left_count) >= kept);
        assert_int_equal(atomic_load(&left_count), kept);
        fx_destroy(&fx);
}

static void test_on_the_owner(void **state)
{
        check_hang(0);
}

static void test_on_another_loop(void **state)
{
        check_hang(1);
}

/* A caller that does not lend its slot is answered when the I/O has ended. */
static void test_not_lent(void **state)
{
        struct lp_stats before, now;
        struct fd_faults faults;
        struct fx fx;
        unsigned i;

        make(&fx);
        fd_faults_hang(&faults, ".seg");
        lp_stats_read(fx.loops[1], &before);
        start_reads(&fx, 1, false);
        /*
         * The kernel must have them before the file is itself again: a read that comes later
         * succeeds.
         */
        WAIT_UNTIL((lp_stats_read(fx.loops[1], &now), now.io_submitted >= before.io_submitted + ENG_READS_LEAST));
        fx_call(&fx, 1, nothing, NULL);
        fx_call(&fx, 0, fail_now, &fx);
        fd_faults_end(&faults);
        for (i = 0; i < READS; i++) {
                assert_int_not_equal(fx_wait(&ops[i]), 0);
                assert_ptr_equal(ops[i].op.read.slot, slots[i]);
        }
        fx_destroy(&fx);
}

/* All of them come back right and in the end, whatever the share. */
static void test_turns(void **state)
{
        struct fx fx;
        unsigned i, round;

        make(&fx);
        for (round = 0; round < 20; round++) {
                start_reads(&fx, round % 2, round % 3 == 0);
                for (i = 0; i < READS; i++)
                        assert_int_equal(fx_wait(&ops[i]), 0);
        }
        assert_int_equal(atomic_load(&left_count), 0);
        fx_destroy(&fx);
}

/* Looking small objects up: what is read into is the drive's own. */
static void test_records(void **state)
{
        struct fd_faults faults;
        uint8_t name[FMT_NAME_MAX];
        struct fx_op op = {.op = {.kind = ENG_OP_LOOKUP, .flags = ENG_OP_WANT_INLINE}};
        struct fx fx;

        fx_make(&fx, 2);
        fx.options.cache_bytes = 1;
        assert_int_equal(fx_open(&fx), 0);
        assert_int_equal(fx_put(&fx, "a", "first", 5), 0);
        assert_true(fx_has(&fx, "a", "first", 5));
        fd_faults_hang(&faults, ".log");
        op.op.lookup.name = name;
        op.op.lookup.name_len = fx_name(name, "a");
        fx_start(&fx, 1, &op);
        fx_call(&fx, 0, nothing, NULL);
        fx_call(&fx, 0, fail_now, &fx);
        assert_int_equal(fx_wait(&op), -EIO);
        eng_buf_unref(op.op.lookup.value);
        assert_null(op.op.lookup.bytes);
        fd_faults_end(&faults);
        fx_destroy(&fx);
}

/* ---- reads that are late --------------------------------------------------------------------- */

#define LIMIT (3600 * 1000000000ull) /* the test's own time is nothing against it */

static bool hung;

/* All I/O under way began so many limits ago, and another one ended so many ago. */
static void age(struct fx *fx, unsigned began, unsigned ended)
{
        struct eng_local *l = eng_local_of(fx->local);
        struct eng_watch *watch;

        l->io_limit_ns = LIMIT;
        TAILQ_FOREACH (watch, &l->watches, link)
                watch->started = lp_now(l->drive.owner) - began * LIMIT;
        l->ended_at = lp_now(l->drive.owner) - ended * LIMIT;
        hung = eng_local_check_watches(l);
}

static void late(void *arg)
{
        age(arg, 1, 0);
}

static void late_and_quiet(void *arg)
{
        age(arg, 1, 1);
}

static void look_again(void *arg)
{
        age(arg, 5, 5);
}

static void line_is_late(void *arg)
{
        struct fx *fx = arg;
        struct eng_local *l = eng_local_of(fx->local);

        l->io_limit_ns = 0;
        eng_read_late(l);
        l->io_limit_ns = LIMIT;
}

/* Reads of all objects are with the kernel, or wait for those, and hang. */
static void begin_hung(struct fx *fx, struct fd_faults *faults, unsigned loop)
{
        make(fx);
        fd_faults_hang(faults, ".seg");
        start_reads(fx, loop, true);
        fx_call(fx, loop, nothing, NULL);
}

/* The drive has failed: all are answered. */
static void end_failed(struct fx *fx, struct fd_faults *faults)
{
        unsigned i;

        for (i = 0; i < READS; i++)
                assert_int_equal(fx_wait(&ops[i]), -EIO);
        fd_faults_end(faults);
        fx_destroy(fx);
}

/*
 * What comes late is damage of that place, and others serve it. The drive works; the slots come
 * back with the I/O.
 */
static void check_late(unsigned loop)
{
        struct eng_drive_info info;
        struct fd_faults faults;
        struct fx fx;
        unsigned i;

        begin_hung(&fx, &faults, loop);
        fx_call(&fx, 0, late, &fx);
        assert_false(hung);
        for (i = 0; i < ENG_READS_LEAST; i++) {
                assert_int_equal(fx_wait(&ops[i]), -EBADMSG);
                assert_null(ops[i].op.read.slot);
        }
        fx_call(&fx, 0, look_again, &fx); /* nobody waits for them any more */
        assert_false(hung);
        fx_call(&fx, 0, line_is_late, &fx); /* those that wait for these have their slots */
        for (; i < READS; i++) {
                assert_int_equal(fx_wait(&ops[i]), -EAGAIN);
                assert_ptr_equal(ops[i].op.read.slot, slots[i]);
        }
        assert_int_equal(fx_put(&fx, "a", "b", 1), 0);
        assert_int_equal(atomic_load(&left_count), 0);
        fd_faults_end(&faults);
        WAIT_UNTIL(atomic_load(&left_count) >= ENG_READS_LEAST);
        for (i = 0; i < READS; i++)
                assert_int_equal(sh_read(&fx, 1 + i, 0, LEN), 0);
        eng_drive_info(fx.local, &info);
        assert_string_equal(info.reason, "");
        assert_int_equal(info.read_errors, ENG_READS_LEAST);
        fx_destroy(&fx);
}

static void test_late_on_the_owner(void **state)
{
        check_late(0);
}

static void test_late_on_another_loop(void **state)
{
        check_late(1);
}

/* Nothing of the drive ends any more. */
static void test_late_and_quiet(void **state)
{
        struct fd_faults faults;
        struct fx fx;

        begin_hung(&fx, &faults, 1);
        fx_call(&fx, 0, late_and_quiet, &fx);
        assert_true(hung);
        end_failed(&fx, &faults);
}

/* ---- a drive that does nothing but reads that are late --------------------------------------- */

static void half_quiet(void *arg)
{
        struct fx *fx = arg;
        struct eng_local *l = eng_local_of(fx->local);
        struct eng_watch *watch;

        l->io_limit_ns = LIMIT;
        TAILQ_FOREACH (watch, &l->watches, link)
                watch->started = lp_now(l->drive.owner) - LIMIT / 2;
        l->ended_at = lp_now(l->drive.owner) - LIMIT / 2;
        hung = eng_local_check_watches(l);
}

/* The rest of the limit is over; the probe, if it is back, is what ended. */
static void rest_quiet(void *arg)
{
        struct fx *fx = arg;
        struct eng_local *l = eng_local_of(fx->local);
        struct eng_watch *watch;

        TAILQ_FOREACH (watch, &l->watches, link)
                watch->started -= LIMIT / 2;
        l->ended_at -= LIMIT / 2;
        hung = eng_local_check_watches(l);
}

static bool probing;

static void look_for_probe(void *arg)
{
        struct fx *fx = arg;

        probing = eng_local_of(fx->local)->probe != NULL;
}

static bool is_probing(struct fx *fx)
{
        fx_call(fx, 0, look_for_probe, fx);
        return probing;
}

/*
 * The drive answers when it is asked for something else: what is late is that place. It counts
 * though its I/O never ends.
 */
static void test_reads_alone(void **state)
{
        struct eng_drive_info info;
        struct fd_faults faults;
        struct fx fx;
        unsigned i;

        begin_hung(&fx, &faults, 1);
        fx_call(&fx, 0, half_quiet, &fx);
        assert_false(hung);
        WAIT_UNTIL(!is_probing(&fx));
        fx_call(&fx, 0, rest_quiet, &fx);
        assert_false(hung);
        for (i = 0; i < ENG_READS_LEAST; i++)
                assert_int_equal(fx_wait(&ops[i]), -EBADMSG);
        eng_drive_info(fx.local, &info);
        assert_int_equal(info.read_errors, ENG_READS_LEAST);
        assert_int_equal(fx_put(&fx, "a", "b", 1), 0);
        fx_call(&fx, 0, line_is_late, &fx);
        for (; i < READS; i++)
                assert_int_equal(fx_wait(&ops[i]), -EAGAIN);
        fd_faults_end(&faults);
        WAIT_UNTIL(atomic_load(&left_count) >= ENG_READS_LEAST);
        assert_int_equal(sh_read(&fx, 1, 0, LEN), 0);
        eng_drive_info(fx.local, &info);
        assert_string_equal(info.reason, "");
        assert_int_equal(info.read_errors, ENG_READS_LEAST); /* once each */
        fx_destroy(&fx);
}

/* The probe hangs as well. */
static void test_probe_hangs(void **state)
{
        struct fd_faults faults, all;
        struct fx fx;
        unsigned i;

        make(&fx);
        fd_faults_hang(&faults, ".seg");
        fd_faults_hang(&all, ENG_INDEX_DATA_FILE);
        start_reads(&fx, 1, true);
        fx_call(&fx, 1, nothing, NULL);
        fx_call(&fx, 0, half_quiet, &fx);
        assert_false(hung);
        assert_true(is_probing(&fx));
        fx_call(&fx, 0, rest_quiet, &fx);
        assert_true(hung);
        for (i = 0; i < READS; i++)
                assert_int_equal(fx_wait(&ops[i]), -EIO);
        fd_faults_end(&all);
        fd_faults_end(&faults);
        fx_destroy(&fx);
}

/* The file system refuses it: a read that is late in a drive that does nothing else ends it. */
static void close_probe(void *arg)
{
        struct fx *fx = arg;

        eng_probe_close(eng_local_of(fx->local));
}

static void test_no_probe(void **state)
{
        struct fd_faults faults;
        struct fx fx;

        make(&fx);
        fx_call(&fx, 0, close_probe, &fx);
        fd_faults_hang(&faults, ".seg");
        start_reads(&fx, 1, true);
        fx_call(&fx, 1, nothing, NULL);
        fx_call(&fx, 0, half_quiet, &fx);
        assert_false(hung);
        assert_false(is_probing(&fx));
        fx_call(&fx, 0, rest_quiet, &fx);
        assert_true(hung);
        end_failed(&fx, &faults);
}

static void test_late_record(void **state)
{
        struct fd_faults faults;
        uint8_t name[FMT_NAME_MAX];
        struct fx_op op = {.op = {.kind = ENG_OP_LOOKUP, .flags = ENG_OP_WANT_INLINE}};
        struct fx fx;

        fx_make(&fx, 2);
        fx.options.cache_bytes = 1;
        assert_int_equal(fx_open(&fx), 0);
        assert_int_equal(fx_put(&fx, "a", "first", 5), 0);
        assert_true(fx_has(&fx, "a", "first", 5));
        fd_faults_hang(&faults, ".log");
        op.op.lookup.name = name;
        op.op.lookup.name_len = fx_name(name, "a");
        fx_start(&fx, 1, &op);
        fx_call(&fx, 1, nothing, NULL);
        fx_call(&fx, 0, late, &fx);
        assert_false(hung);
        assert_int_equal(fx_wait(&op), -EBADMSG);
        eng_buf_unref(op.op.lookup.value);
        assert_null(op.op.lookup.bytes);
        fd_faults_end(&faults);
        WAIT_UNTIL(fx_has(&fx, "a", "first", 5));
        fx_destroy(&fx);
}

static struct eng_watch slow;

static void slow_begins(void *arg)
{
        struct fx *fx = arg;

        eng_watch_begin_read(eng_local_of(fx->local), &slow, NULL);
        age(fx, 100, 0);
}

static void slow_in_a_quiet_drive(void *arg)
{
        age(arg, ENG_IO_PATIENCE - 1, ENG_IO_PATIENCE - 1);
}

static void slow_without_end(void *arg)
{
        struct fx *fx = arg;

        age(fx, ENG_IO_PATIENCE, ENG_IO_PATIENCE);
        eng_watch_end(eng_local_of(fx->local), &slow);
}

/* A scrub's read of a sector that the disk tries again and again. */
static void test_nobody_waits(void **state)
{
        struct fx fx;

        fx_make(&fx, 1);
        assert_int_equal(fx_open(&fx), 0);
        fx_call(&fx, 0, slow_begins, &fx);
        assert_false(hung);
        fx_call(&fx, 0, slow_in_a_quiet_drive, &fx);
        assert_false(hung);
        assert_int_equal(fx_put(&fx, "a", "b", 1), 0);
        fx_call(&fx, 0, slow_without_end, &fx);
        assert_true(hung);
        assert_int_equal(fx_put(&fx, "a", "b", 1), -EIO);
        fx_destroy(&fx);
}

static struct eng_watch stuck;

static void write_is_late(void *arg)
{
        struct fx *fx = arg;

        eng_watch_begin(eng_local_of(fx->local), &stuck);
        age(fx, 1, 0);
        eng_watch_end(eng_local_of(fx->local), &stuck);
}

/* Whatever else ends (I8). */
static void test_late_write(void **state)
{
        struct fx fx;

        fx_make(&fx, 1);
        assert_int_equal(fx_open(&fx), 0);
        fx_call(&fx, 0, write_is_late, &fx);
        assert_true(hung);
        fx_destroy(&fx);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_on_the_owner), cmocka_unit_test(test_on_another_loop),
                cmocka_unit_test(test_not_lent),     cmocka_unit_test(test_turns),
                cmocka_unit_test(test_records),
                cmocka_unit_test(test_late_on_the_owner), cmocka_unit_test(test_late_on_another_loop),
                cmocka_unit_test(test_late_and_quiet),    cmocka_unit_test(test_late_record),
                cmocka_unit_test(test_nobody_waits),      cmocka_unit_test(test_late_write),
                cmocka_unit_test(test_reads_alone),       cmocka_unit_test(test_probe_hangs),
                cmocka_unit_test(test_no_probe),
        };
        int rv = cmocka_run_group_tests(tests, NULL, NULL);
        unsigned i;

        for (i = 0; i < READS; i++)
                free(slots[i]);
        return rv;
}
