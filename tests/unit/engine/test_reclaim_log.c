/*
 * test_reclaim_log.c - living values leave mostly dead log files, numbers and all; what the log
 * alone tells afterwards is the same.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/drive/local.h"
#include "engine/drive/logfile.h"
#include "engine/drive/rec.h"
#include "tests/lib/shard_fixture.h"
#include "tests/lib/wait.h"

#include <setjmp.h>
#include <cmocka.h>

#define BIG (64u << 10)

static uint8_t bytes[BIG];

static void make(struct fx *fx)
{
        fx_make(fx, 1);
        fx->options.reclaim_rate = UINT64_MAX;
        fx->options.reclaim_dead_percent = 30;
        fx->options.cache_bytes = 1; /* every byte is read from the log */
}

static void must_open(struct fx *fx)
{
        int rv = fx_open(fx);

        if (rv != 0)
                print_message("%s\n", fx->error.text);
        assert_int_equal(rv, 0);
}

static struct eng_drive_info info_of(struct fx *fx)
{
        struct eng_drive_info info;

        eng_drive_info(fx->local, &info);
        return info;
}

static const uint8_t *content(unsigned key, unsigned version, size_t len)
{
        memset(bytes, (int)(key * 7 + version * 31 + 1), len);
        memcpy(bytes, &key, sizeof(key));
        memcpy(bytes + 4, &version, sizeof(version));
        return bytes;
}

static void put(struct fx *fx, unsigned key, unsigned version)
{
        char name[32];

        snprintf(name, sizeof(name), "key-%05u", key);
        assert_int_equal(fx_put(fx, name, content(key, version, BIG), BIG), 0);
}

static bool has(struct fx *fx, unsigned key, unsigned version)
{
        char name[32];

        snprintf(name, sizeof(name), "key-%05u", key);
        return fx_has(fx, name, content(key, version, BIG), BIG);
}

static bool log_exists(const struct fx *fx, uint64_t number)
{
        char path[256], name[ENG_LOGFILE_NAME_MAX];

        eng_logfile_name(name, number);
        snprintf(path, sizeof(path), "%s/log/%s", fx->path, name);
        return access(path, F_OK) == 0;
}

static bool wait_log_gone(struct fx *fx, uint64_t number)
{
        WAIT_UNTIL(!log_exists(fx, number));
        return !log_exists(fx, number);
}

/* COMMIT of all that waits, as recovery would. */
static void settle(struct fx *fx, uint32_t pg)
{
        assert_int_equal(fx_commit(fx, pg, UINT64_MAX - 1), 0);
}

/* Opens the drive in three ways: as it is, and with the index made anew, once and again. */
static void reopen(struct fx *fx, unsigned round)
{
        fx_close(fx);
        if (round > 0)
                sh_remove_index(fx);
        must_open(fx);
        settle(fx, 1);
}

static void test_living_values_move(void **state)
{
        struct eng_drive_info info;
        unsigned i, round;
        struct fx fx;

        make(&fx);
        must_open(&fx);
        for (round = 0; round < 8; round++) /* every eighth key is written once and never again */
                for (i = 0; i < 40; i++)
                        if (round == 0 || i % 8 != 0)
                                put(&fx, i, round);
        assert_true(wait_log_gone(&fx, 1));
        info = info_of(&fx);
        assert_true(info.reclaim_copied >= 5 * BIG);
        assert_true(info.reclaim_freed >= 2 * (4ull << 20));
        for (round = 0; round < 4; round++) {
                for (i = 0; i < 40; i++)
                        assert_true(has(&fx, i, i % 8 == 0 ? 0 : 7));
                reopen(&fx, round);
        }
        fx_destroy(&fx);
}

/*
 * A name is deleted behind cold ones: its tombstone goes only when no older record of it is left.
 */
static void test_deleted_stays_deleted(void **state)
{
        unsigned i, round;
        struct fx fx;

        make(&fx);
        must_open(&fx);
        for (i = 0; i < 100; i++)
                put(&fx, i, 0); /* two files' worth */
        for (i = 0; i < 100; i++)
                if (i % 4 != 0) {
                        char name[32];

                        snprintf(name, sizeof(name), "key-%05u", i);
                        assert_int_equal(fx_delete(&fx, name), 0);
                }
        for (round = 0; round < 5; round++)
                for (i = 200; i < 260; i++)
                        put(&fx, i, round);
        assert_true(wait_log_gone(&fx, 1));
        for (round = 0; round < 4; round++) {
                char name[32];

                for (i = 0; i < 100; i++) {
                        snprintf(name, sizeof(name), "key-%05u", i);
                        if (i % 4 == 0)
                                assert_true(has(&fx, i, 0));
                        else
                                assert_int_equal(fx_lookup_rv(&fx, name), -ENOENT);
                }
                for (i = 200; i < 260; i++)
                        assert_true(has(&fx, i, 4));
                reopen(&fx, round);
        }
        fx_destroy(&fx);
}

/*
 * A file of nothing but tombstones and dead values waits for an older one that still has a record
 * of such a name.
 */
static void test_tombstones_wait(void **state)
{
        unsigned i, round;
        struct fx fx;

        make(&fx);
        fx.options.reclaim_dead_percent = 99; /* nothing is emptied: what is dead by itself may go */
        must_open(&fx);
        for (i = 0; i < 60; i++)
                put(&fx, i, 0);
        for (i = 60; !log_exists(&fx, 3); i++) /* into the next file */
                put(&fx, 100 + i % 10, i);
        assert_int_equal(fx_delete(&fx, "key-00007"), 0);
        for (round = 0; round < 30; round++)
                for (i = 0; i < 10; i++)
                        put(&fx, 100 + i, 1000 + round);
        WAIT_UNTIL(info_of(&fx).reclaim_freed != 0);
        assert_true(info_of(&fx).reclaim_freed > 0);
        assert_true(log_exists(&fx, 1));
        for (round = 0; round < 3; round++) {
                reopen(&fx, round);
                assert_int_equal(fx_lookup_rv(&fx, "key-00007"), -ENOENT);
                for (i = 0; i < 60; i++)
                        assert_true(i == 7 || has(&fx, i, 0));
                for (i = 0; i < 10; i++)
                        assert_true(has(&fx, 100 + i, 1029));
        }
        fx_destroy(&fx);
}

/*
 * The number that a group had reached is known though no record of it is left and the index is made
 * anew.
 */
static uint64_t mark_of(struct fx *fx, uint32_t pg)
{
        struct fx_op op = {.op = {.kind = ENG_OP_TAIL}};
        const struct eng_memtable_entry *entry;
        uint64_t seq = 0;
        uint32_t i;

        assert_int_equal(fx_run(fx, &op), 0);
        entry = (const struct eng_memtable_entry *)op.op.tail.entries->data;
        for (i = 0; i < op.op.tail.count; i++)
                if (entry[i].pg == pg && !entry[i].pending)
                        seq = entry[i].seq;
        eng_buf_unref(op.op.tail.entries);
        return seq;
}

static void test_numbers_are_remembered(void **state)
{
        static struct fx_body body;
        uint8_t name[FMT_NAME_MAX];
        size_t len = fx_name(name, "once");
        unsigned i, round;
        struct fx fx;

        make(&fx);
        must_open(&fx);
        fx_body_put(&body, name, len, 77, 3, "x", 1);
        assert_int_equal(fx_append(&fx, &body, 3, 40, 0), 0);
        assert_int_equal(fx_commit(&fx, 3, 40), 0);
        memset(&body, 0, sizeof(body));
        fx_body_delete(&body, name, len);
        assert_int_equal(fx_append(&fx, &body, 3, 41, 40), 0);
        assert_int_equal(fx_commit(&fx, 3, 41), 0);
        for (round = 0; round < 6; round++)
                for (i = 0; i < 30; i++)
                        put(&fx, i, round);
        assert_true(wait_log_gone(&fx, 1));
        for (round = 0; round < 3; round++) {
                assert_int_equal(mark_of(&fx, 3), 41);
                assert_int_equal(fx_lookup_rv(&fx, "once"), -ENOENT);
                for (i = 0; i < 30; i++)
                        assert_true(has(&fx, i, 5));
                reopen(&fx, round);
        }
        fx_destroy(&fx);
}

static void freed(void *arg, struct eng_append *append)
{
        eng_append_free(append);
}

static void append_marks(void *arg)
{
        struct fmt_mark mark = {.pg = 3, .seq = 9, .epoch = FX_EPOCH};
        struct eng_buf *body = eng_buf_new(sizeof(mark));
        struct fx *fx = arg;

        assert_non_null(body);
        memcpy(body->data, &mark, sizeof(mark));
        assert_int_equal(eng_append_own(eng_local_of(fx->local), FMT_RECORD_MARKS, body, 0, freed), 0);
        eng_buf_unref(body);
}

/*
 * MARKS say what was seen. A record that waits for COMMIT was, and goes on waiting, however often
 * the drive is opened.
 */
static void test_marks_commit_nothing(void **state)
{
        static struct fx_body body;
        uint8_t name[FMT_NAME_MAX];
        size_t len = fx_name(name, "waits");
        unsigned round;
        struct fx fx;

        make(&fx);
        must_open(&fx);
        fx_body_put(&body, name, len, 77, 3, "x", 1);
        assert_int_equal(fx_append(&fx, &body, 3, 9, 0), 0);
        fx_call(&fx, 0, append_marks, &fx);
        assert_int_equal(fx_put(&fx, "behind", "x", 1), 0);
        for (round = 0; round < 3; round++) {
                fx_close(&fx);
                must_open(&fx);
                assert_int_equal(mark_of(&fx, 3), 9);
                assert_int_equal(fx_lookup_rv(&fx, "waits"), -ENOENT);
                settle(&fx, 1);
        }
        settle(&fx, 3);
        assert_true(fx_has(&fx, "waits", "x", 1));
        fx_destroy(&fx);
}

/*
 * A group with a record that waits for COMMIT is left alone, so that no copy comes behind it in the
 * log; the others move.
 */
static void test_busy_group_waits(void **state)
{
        static struct fx_body body;
        uint8_t name[FMT_NAME_MAX];
        unsigned i, round;
        size_t len;
        struct fx fx;

        make(&fx);
        fx.options.reclaim_rate = ENG_RECLAIM_OFF; /* until the group waits */
        must_open(&fx);
        len = fx_name(name, "other");
        fx_body_put(&body, name, len, 5000, 2, content(5000, 0, 1000), 1000);
        assert_int_equal(fx_append(&fx, &body, 2, 1, 0), 0);
        assert_int_equal(fx_commit(&fx, 2, 1), 0);
        for (round = 0; round < 6; round++)
                for (i = 0; i < 30; i++)
                        if (round == 0 || i > 2)
                                put(&fx, i, round);
        len = fx_name(name, "key-00001"); /* deleted, but not known committed */
        memset(&body, 0, sizeof(body));
        fx_body_delete(&body, name, len);
        assert_int_equal(fx_append(&fx, &body, 1, fx.seq + 1, fx.seq), 0);
        fx.seq++;
        fx_close(&fx);
        fx.options.reclaim_rate = UINT64_MAX;
        must_open(&fx);
        usleep(2500000);
        assert_true(has(&fx, 1, 0));
        assert_true(log_exists(&fx, 1));
        assert_true(fx_has(&fx, "other", content(5000, 0, 1000), 1000));
        settle(&fx, 1);
        assert_true(wait_log_gone(&fx, 1));
        for (round = 0; round < 3; round++) {
                assert_int_equal(fx_lookup_rv(&fx, "key-00001"), -ENOENT);
                assert_true(has(&fx, 0, 0));
                assert_true(has(&fx, 2, 0));
                assert_true(fx_has(&fx, "other", content(5000, 0, 1000), 1000));
                for (i = 3; i < 30; i++)
                        assert_true(has(&fx, i, 5));
                reopen(&fx, round);
        }
        fx_destroy(&fx);
}

/*
 * Bytes that went bad are not copied as good: what stands behind them moves, and the file stays
 * until they are written anew.
 */
static void test_damaged_record_keeps_its_file(void **state)
{
        unsigned i, round;
        char path[256];
        struct fx fx;

        make(&fx);
        fx.options.reclaim_rate = ENG_RECLAIM_OFF;
        must_open(&fx);
        put(&fx, 0, 0);
        put(&fx, 1, 0);
        put(&fx, 31, 0);
        for (round = 0; round < 6; round++)
                for (i = 2; i < 30; i++)
                        put(&fx, i, round);
        assert_true(fx_wait_indexed(&fx));
        fx_close(&fx);
        fx_first(&fx, "log", path, sizeof(path));
        fx_flip(path, 8192 + BIG + 20000); /* inside the bytes of key 1 */
        fx.options.reclaim_rate = UINT64_MAX;
        must_open(&fx);
        settle(&fx, 1);
        WAIT_UNTIL(info_of(&fx).reclaim_damaged != 0);
        assert_true(info_of(&fx).reclaim_damaged > 0);
        assert_int_equal(access(path, F_OK), 0);
        assert_true(has(&fx, 0, 0));
        assert_false(has(&fx, 1, 0));
        assert_int_equal(fx_lookup_rv(&fx, "key-00001"), 0);
        for (i = 2; i < 30; i++)
                assert_true(has(&fx, i, 5));
        put(&fx, 1, 9);
        WAIT_UNTIL(access(path, F_OK) != 0);
        assert_int_not_equal(access(path, F_OK), 0);
        assert_true(has(&fx, 0, 0));
        assert_true(has(&fx, 1, 9));
        assert_true(has(&fx, 31, 0));
        fx_destroy(&fx);
}

/* The epoch that the drive was formatted with stands in the first file, and outlives it. */
static void test_epochs_outlive_their_file(void **state)
{
        uint8_t body[sizeof(struct fmt_epoch)];
        struct fmt_epoch epoch;
        unsigned i, round;
        struct fx fx;
        size_t len;

        make(&fx);
        must_open(&fx);
        for (round = 0; round < 6; round++)
                for (i = 0; i < 30; i++)
                        put(&fx, i, round);
        assert_true(wait_log_gone(&fx, 1));
        for (round = 0; round < 2; round++) {
                reopen(&fx, round);
                assert_int_equal(eng_drive_epoch(fx.local, body, sizeof(body), &len, NULL), 0);
                memcpy(&epoch, body, sizeof(epoch));
                assert_int_equal(epoch.number, FX_EPOCH);
        }
        fx_destroy(&fx);
}

/* A move's last record, and behind it in the same write a record of a client. */
struct together {
        struct fx *fx;
        struct fx_body moved;
        struct fx_op appended;
        bool still;
};

static struct together together;

static void moved(void *arg, struct eng_append *append)
{
        assert_int_equal(eng_apply_copy(arg, append), 0);
        eng_append_free(append);
}

static void moved_and_over(void *arg, struct eng_append *append)
{
        struct eng_local *l = arg;

        moved(arg, append);
        assert_int_equal(eng_batch_now(l), 0); /* as at the end of a move, but waited for */
        fx_snapshot(together.fx, "crash");
}

static void append_together(void *arg)
{
        struct together *t = arg;
        struct eng_local *l = eng_local_of(t->fx->local);
        struct eng_buf *body = fx_body_buf(&t->moved);

        /* the first is written at once, the second waits for it, and so does what comes behind */
        assert_int_equal(eng_append_own(l, FMT_RECORD_COPY, body, FX_EPOCH, moved), 0);
        assert_int_equal(eng_append_own(l, FMT_RECORD_COPY, body, FX_EPOCH, moved_and_over), 0);
        eng_drive_submit(t->fx->drive, &t->appended.op);
        eng_buf_unref(body);
}

/* No index batch is under way, and none is begun by itself from now on. */
static void keep_still(void *arg)
{
        struct together *t = arg;
        struct eng_local *l = eng_local_of(t->fx->local);

        lp_timer_stop(l->drive.owner, &l->tick);
        t->still = l->frozen == NULL && l->batch.job.state == ENG_JOB_IDLE;
}

static void answered(struct eng_op *op)
{
        sem_post(&container_of(op, struct fx_op, op)->ended);
}

/*
 * The end of a move begins an index batch while a record of the same write waits to be taken in:
 * the batch does not cover it.
 */
static void test_crash_after_a_move(void **state)
{
        static struct fx_body body;
        uint8_t name[FMT_NAME_MAX];
        size_t len = fx_name(name, "moved");
        struct fx fx;

        make(&fx);
        must_open(&fx);
        fx_body_delete(&together.moved, name, len); /* any change will do */
        len = fx_name(name, "put");
        fx_body_put(&body, name, len, 2, 2, "p", 1);
        fx_fill_append(&together.appended, &body, 2, 50, 0);
        together.fx = &fx;
        together.appended.op.epoch = FX_EPOCH;
        together.appended.op.done = answered;
        sem_init(&together.appended.ended, 0, 0);
        while (!together.still)
                fx_call(&fx, 0, keep_still, &together);
        fx_call(&fx, 0, append_together, &together);
        assert_int_equal(fx_wait(&together.appended), 0);
        fx_close(&fx);
        fx_restore(&fx, "crash");
        must_open(&fx);
        settle(&fx, 2);
        assert_true(fx_has(&fx, "put", "p", 1));
        eng_buf_unref(together.appended.op.append.body);
        fx_destroy(&fx);
}

/* Two records of the drive's own, the second appended when the first is durable. */
static struct {
        struct fx_body body;
        uint64_t writes[2]; /* that had come back when each was durable */
        sem_t ended;
} in_turn;

static void second_durable(void *arg, struct eng_append *append)
{
        struct eng_local *l = arg;

        in_turn.writes[1] = atomic_load(&l->statistics.batches);
        moved(arg, append);
        sem_post(&in_turn.ended);
}

static void first_durable(void *arg, struct eng_append *append)
{
        struct eng_local *l = arg;

        in_turn.writes[0] = atomic_load(&l->statistics.batches);
        assert_int_equal(eng_append_own(l, FMT_RECORD_COPY, append->body, FX_EPOCH, second_durable), 0);
        moved(arg, append);
}

static void append_in_turn(void *arg)
{
        struct eng_buf *body = fx_body_buf(&in_turn.body);

        assert_int_equal(eng_append_own(arg, FMT_RECORD_COPY, body, FX_EPOCH, first_durable), 0);
        eng_buf_unref(body);
}

/*
 * What is appended while the last record of a write is taken in was not in that write, and is not
 * durable with it.
 */
static void test_appended_while_taken_in(void **state)
{
        uint8_t name[FMT_NAME_MAX];
        size_t len = fx_name(name, "moved");
        struct fx fx;

        make(&fx);
        must_open(&fx);
        fx_body_delete(&in_turn.body, name, len);
        sem_init(&in_turn.ended, 0, 0);
        fx_call(&fx, 0, append_in_turn, eng_local_of(fx.local));
        while (sem_wait(&in_turn.ended) != 0)
                assert_int_equal(errno, EINTR);
        assert_int_equal(in_turn.writes[1], in_turn.writes[0] + 1);
        sem_destroy(&in_turn.ended);
        fx_destroy(&fx);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_marks_commit_nothing),      cmocka_unit_test(test_appended_while_taken_in),
                cmocka_unit_test(test_living_values_move),        cmocka_unit_test(test_deleted_stays_deleted),
                cmocka_unit_test(test_tombstones_wait),           cmocka_unit_test(test_numbers_are_remembered),
                cmocka_unit_test(test_busy_group_waits),          cmocka_unit_test(test_damaged_record_keeps_its_file),
                cmocka_unit_test(test_epochs_outlive_their_file), cmocka_unit_test(test_crash_after_a_move),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
