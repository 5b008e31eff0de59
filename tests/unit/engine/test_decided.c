/*
 * Stores whose epochs a configuration service decides (struct eng_cluster): it is the test that decides.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "engine/base/store.h"
#include "tests/lib/decided_fixture.h"
#include "tests/lib/wait.h"

static bool says(const struct eng_health *h, void *text)
{
        return !h->ready && strstr(h->reason, text) != NULL;
}

/* Its start makes one epoch, which is etcd's before any drive has it. */
static void test_a_start(void **state)
{
        uint64_t bucket, before;
        struct sf sf;
        unsigned i;

        df_make(&sf, &bucket);
        before = df_epoch()->number;
        assert_int_equal(sf_open(&sf, false), 0);
        assert_true(sf_wait_health(&sf, df_all_in, NULL, 60));
        assert_int_equal(df_service.proposed, 1);
        assert_int_equal(df_epoch()->number, before + 1);
        assert_int_equal(sf_view(&sf).epoch, before + 1);
        df_check_objects(&sf, bucket);
        for (i = 0; i < DF_KEYS; i++)
                assert_int_equal(sf_put(&sf, i % 2, bucket, df_key(i), i, df_size(i), true, NULL), 0);
        sf_close(&sf);
        sf_remove(&sf);
}

/* Undecided: nothing is written, nothing is served. The process ends; the next one finds the epoch in etcd, and no drive has it. */
static void test_ended_before_the_record(void **state)
{
        _Alignas(8) uint8_t held[FMT_EPOCH_MAX(ENG_DRIVES_MAX)];
        uint64_t bucket, before;
        struct sf sf;
        unsigned i;

        df_make(&sf, &bucket);
        before = df_epoch()->number;
        df_service.word = DF_SAYS_NOTHING;
        assert_int_equal(sf_open(&sf, false), 0);
        for (i = 0; i < 6000 && df_service.proposed == 0; i++)
                usleep(10000);
        assert_int_equal(df_service.proposed, 1);
        assert_int_equal(sf_get(&sf, 0, bucket, df_key(0), 0, df_size(0)), -EHOSTDOWN);
        sf_close(&sf);
        for (i = 0; i < DF_DRIVES; i++) {
                df_epoch_on(&sf, i, held);
                assert_int_equal(((struct fmt_epoch *)held)->number, before);
        }
        df_service.word = DF_SAYS_YES;
        assert_int_equal(sf_open(&sf, false), 0);
        assert_true(sf_wait_health(&sf, df_all_in, NULL, 60));
        assert_true(sf_view(&sf).epoch >= before + 2); /* the second has not the number of the first */
        df_check_objects(&sf, bucket);
        sf_close(&sf);
        sf_remove(&sf);
}

/* R2: etcd has an older epoch than drives, or another of the same number. */
static void test_restored(void **state)
{
        static struct df_service kept;
        uint64_t bucket;
        struct sf sf;
        unsigned i;

        df_make(&sf, &bucket);
        kept = df_service;
        assert_int_equal(sf_open(&sf, false), 0);
        assert_true(sf_wait_health(&sf, df_all_in, NULL, 60));
        sf_close(&sf);
        for (i = 0; i < 2; i++) {
                memcpy(df_service.epoch, kept.epoch, sizeof(df_service.epoch));
                df_service.cluster.epoch_len = i == 0 ? kept.cluster.epoch_len : df_epoch_on(&sf, 0, df_service.epoch);
                df_service.epoch[offsetof(struct fmt_epoch, id)] ^= (uint8_t)i;
                df_service.proposed = 0;
                assert_int_equal(sf_open(&sf, false), 0);
                assert_true(sf_wait_health(&sf, says, (char[]){"reseed"}, 60));
                assert_int_equal(df_service.proposed, 0);
                assert_int_equal(sf_get(&sf, 0, bucket, df_key(0), 0, df_size(0)), -EHOSTDOWN);
                sf_close(&sf);
        }
        sf_remove(&sf);
}

/* One node of three: no majority, and a current member of each group. Two nodes away, and changes wait; when they are back, all goes on. */
static void test_no_majority(void **state)
{
        uint64_t bucket, epoch;
        struct sf sf;
        unsigned i;

        df_make(&sf, &bucket);
        for (i = 3; i < DF_DRIVES; i++)
                df_service.paths[i] = "";
        assert_int_equal(sf_open(&sf, false), 0);
        assert_true(sf_wait_ready(&sf, 60));
        assert_int_equal(sf_view(&sf).in, 7);
        for (i = 0; i < DF_KEYS; i += 2)
                assert_int_equal(sf_get(&sf, 0, bucket, df_key(i), i, df_size(i)), 0);
        assert_int_equal(sf_put(&sf, 0, bucket, df_key(0), 0, 100, true, NULL), -EROFS);
        epoch = sf_view(&sf).epoch;
        sf_close(&sf);
        for (i = 0; i < DF_DRIVES; i++) /* the other six go on by themselves: they are out */
                df_service.paths[i] = i < 3 ? "" : sf.path[i];
        assert_int_equal(sf_open(&sf, false), 0);
        assert_true(sf_wait_health(&sf, says, (char[]){"no current copy"}, 60));
        sf_close(&sf);
        for (i = 0; i < 3; i++)
                df_service.paths[i] = sf.path[i];
        assert_int_equal(sf_open(&sf, false), 0);
        assert_true(sf_wait_health(&sf, df_all_in, NULL, 120));
        assert_true(sf_view(&sf).epoch > epoch);
        df_check_objects(&sf, bucket);
        sf_close(&sf);
        sf_remove(&sf);
}

/* Without a lease nothing that was read is said. */
static void test_no_lease(void **state)
{
        struct eng_condition absent = {.if_absent = true};
        uint64_t bucket;
        struct sf sf;
        bool more, existed;
        char *names;
        int rv;

        df_make(&sf, &bucket);
        assert_int_equal(sf_open(&sf, false), 0);
        assert_true(sf_wait_health(&sf, df_all_in, NULL, 60));
        assert_true(eng_is_current(sf.store));
        df_service.lease_end = df_now(); /* it has just ended */
        assert_false(eng_is_current(sf.store));
        assert_int_equal(sf_get(&sf, 0, bucket, df_key(0), 0, df_size(0)), -EHOSTDOWN);
        assert_int_equal(sf_get(&sf, 1, bucket, df_key(1), 1, df_size(1)), -EHOSTDOWN);
        assert_int_equal(sf_get(&sf, 0, bucket, "no such key", 0, 1), -EHOSTDOWN);
        assert_int_equal(sf_put(&sf, 0, bucket, df_key(0), 0, 100, true, &absent), -EHOSTDOWN);
        assert_int_equal(sf_delete(&sf, 0, bucket, "no such key", &existed), -EHOSTDOWN);
        names = sf_list(&sf, 0, bucket, "", "", "", 10, &rv, &more);
        assert_int_equal(rv, -EHOSTDOWN);
        free(names);
        df_service.lease_end = df_now() + 1;
        df_check_objects(&sf, bucket);
        names = sf_list(&sf, 0, bucket, "", "", "", 10, &rv, &more);
        assert_int_equal(rv, 0);
        free(names);
        sf_close(&sf);
        sf_remove(&sf);
}

/* Drives fail one after the other, each epoch by a proposal, until a group has no current member: then the process ends. */
static void test_drives_fail(void **state)
{
        struct eng_epoch_info info;
        uint64_t bucket;
        struct sf sf;
        unsigned i, wait;

        df_make(&sf, &bucket);
        assert_int_equal(sf_open(&sf, false), 0);
        assert_true(sf_wait_health(&sf, df_all_in, NULL, 60));
        for (i = 0; i < DF_DRIVES && df_service.ended == 0; i++) {
                unsigned proposed = df_service.proposed;

                sf_ask(&sf, df_fail_drive, i);
                for (wait = 0; wait < 10000 && df_service.proposed == proposed && df_service.ended == 0; wait++)
                        usleep(1000);
        }
        assert_true(i > 6); /* the last node's drives speak for all groups, together */
        assert_true(df_service.ended > 0);
        assert_int_equal(eng_epoch_read(df_service.epoch, df_service.cluster.epoch_len, &info), 0);
        assert_int_equal(eng_epoch_serves(df_service.epoch, df_service.cluster.epoch_len, info.in), 1);
        sf_close(&sf);
        assert_int_equal(sf_open(&sf, false), 0);
        assert_true(sf_wait_health(&sf, df_all_in, NULL, 120));
        sf_close(&sf);
        sf_remove(&sf);
}

static uint64_t say_nothing(struct eng_store *store, uint64_t arg)
{
        df_service.word = DF_SAYS_NOTHING;
        return 0;
}

/* To what it was asked last; to what it is asked from now on as `word` says. */
static uint64_t say_yes(struct eng_store *store, uint64_t word)
{
        df_service.word = (enum df_word)word;
        lp_post(lp_self(), &df_service.msg);
        return 0;
}

static void wait_proposed(unsigned count)
{
        unsigned i;

        for (i = 0; i < 10000 && df_service.proposed < count; i++)
                usleep(1000);
        assert_true(df_service.proposed >= count);
}

/* While etcd has not decided the epoch without one drive, another fails: once decided, that epoch is never in force, and the next one is. */
static void test_fails_undecided(void **state)
{
        struct fmt_epoch_tail tail;
        uint64_t bucket, before;
        struct sf sf;
        unsigned proposed;

        df_make(&sf, &bucket);
        assert_int_equal(sf_open(&sf, false), 0);
        assert_true(sf_wait_health(&sf, df_all_in, NULL, 60));
        before = sf_view(&sf).epoch;
        proposed = df_service.proposed;
        sf_ask(&sf, say_nothing, 0);
        sf_ask(&sf, df_fail_drive, 0);
        wait_proposed(proposed + 1);
        sf_ask(&sf, df_fail_drive, 1);
        sf_ask(&sf, say_yes, DF_SAYS_NOTHING);
        wait_proposed(proposed + 2);
        memcpy(&tail, df_service.epoch + FMT_EPOCH_PLACED(DF_DRIVES), sizeof(tail));
        assert_int_equal(tail.in_force, before);
        sf_ask(&sf, say_yes, DF_SAYS_YES);
        assert_true(sf_wait_health(&sf, df_all_in, NULL, 60));
        df_check_objects(&sf, bucket);
        sf_close(&sf);
        sf_remove(&sf);
}

static bool eight_in(const struct eng_health *h, void *arg)
{
        return h->ready && h->drives_in == DF_DRIVES - 1;
}

/* etcd is away: a drive that is silent is out by an epoch all the same; one that is to come back waits for etcd, and nothing else does. */
static void test_mute(void **state)
{
        uint64_t bucket;
        struct sf sf;

        df_make(&sf, &bucket);
        assert_int_equal(sf_open(&sf, false), 0);
        assert_true(sf_wait_health(&sf, df_all_in, NULL, 60));
        df_service.mute = true;
        sf_ask(&sf, df_say_silent, 5);
        assert_true(sf_wait_health(&sf, eight_in, NULL, 60));
        assert_true(sf_stays_otherwise(&sf, df_all_in, NULL, 2));
        assert_int_equal(sf_put(&sf, 0, bucket, df_key(0), 0, df_size(0), true, NULL), 0);
        assert_int_equal(sf_put(&sf, 0, bucket, df_key(1), 1, df_size(1), true, NULL), 0);
        df_service.mute = false;
        assert_true(sf_wait_health(&sf, df_all_in, NULL, 60));
        df_check_objects(&sf, bucket);
        sf_close(&sf);
        sf_remove(&sf);
}

static bool first_aside(const struct eng_health *h, void *arg)
{
        return !h->ready && strstr(h->reason, "seem to have lost writes") != NULL;
}

/* The end of its log is lost, by a disk that lied, say. */
static void cut_log(const struct sf *sf, unsigned drive)
{
        char command[400];

        snprintf(command, sizeof(command), "truncate -s 8192 \"$(ls '%s'/log/* | tail -n 1)\"", sf->path[drive]);
        assert_int_equal(system(command), 0);
}

/* One of nine has lost writes: the others go on, and it catches up. Of two nodes all drives have: nobody says that the third is right. */
static void test_lost_writes(void **state)
{
        uint64_t bucket;
        struct sf sf;
        unsigned i;

        df_make(&sf, &bucket);
        cut_log(&sf, 4);
        assert_int_equal(sf_open(&sf, false), 0);
        assert_true(sf_wait_health(&sf, df_all_in, NULL, 120));
        df_check_objects(&sf, bucket);
        sf_close(&sf);
        for (i = 3; i < DF_DRIVES; i++)
                cut_log(&sf, i);
        df_service.proposed = 0;
        assert_int_equal(sf_open(&sf, false), 0);
        assert_true(sf_wait_health(&sf, first_aside, NULL, 60));
        assert_int_equal(df_service.proposed, 0);
        sf_close(&sf);
        sf_remove(&sf);
}

static bool is_open(const struct eng_health *h, void *arg)
{
        return h->ready;
}

/* One has, and a node is away that could be the second to say so: the start waits until the operator gives it up. */
static void test_lost_writes_given_up(void **state)
{
        struct eng_outlook outlook;
        uint64_t bucket, number;
        struct sf sf;
        char why[200];
        unsigned i;

        df_make(&sf, &bucket);
        cut_log(&sf, 4);
        for (i = 6; i < DF_DRIVES; i++)
                df_service.paths[i] = "";
        assert_int_equal(sf_open(&sf, false), 0);
        assert_true(sf_wait_health(&sf, first_aside, NULL, 60));
        eng_outlook_read(sf.store, &outlook);
        assert_int_equal(outlook.missed, 1u << 4);
        eng_outlook_refuse(&outlook, 1u << 4 | 1u << 6, why);
        assert_non_null(strstr(why, "other drives"));
        eng_outlook_refuse(&outlook, 1u << 4, why);
        assert_string_equal(why, "");
        assert_int_equal(eng_force(sf.store, 1u << 4, &number), 0);
        assert_true(sf_wait_health(&sf, is_open, NULL, 60)); /* with too few shards of most objects */
        assert_int_equal(df_service.ended, 0);
        sf_close(&sf);
        sf_remove(&sf);
}

/* What others know of an epoch's body. */
static void test_bodies(void **state)
{
        struct eng_epoch_info info;
        uint8_t body[FMT_EPOCH_MAX(ENG_DRIVES_MAX) + 1];
        uint64_t bucket;
        struct sf sf;
        size_t len;

        df_make(&sf, &bucket);
        len = df_service.cluster.epoch_len;
        memcpy(body, df_service.epoch, len);
        assert_int_equal(eng_epoch_read(body, len, &info), 0);
        assert_int_equal(info.slots, DF_DRIVES);
        assert_int_equal(info.in, 0x1ff);
        assert_int_equal(info.joining | info.gone, 0);
        assert_true(info.k == 4 && info.m == 2 && info.number == df_epoch()->number);
        assert_true(info.slot[4].site.node == 2 && info.slot[8].site.rack == 3);
        assert_int_equal(eng_epoch_serves(body, len, 0x1ff), 1);
        assert_int_equal(eng_epoch_serves(body, len, 7), 1); /* a node */
        assert_int_equal(eng_epoch_serves(body, len, 1), 0);
        assert_int_equal(eng_epoch_serves(body, len, 0), 0);
        assert_int_equal(eng_epoch_serves(body, len, ~0ull << DF_DRIVES), 0);
        assert_int_equal(eng_epoch_read(body, 3, &info), -EBADMSG);
        assert_int_equal(eng_epoch_serves(body, sizeof(body), 1), -EBADMSG);
        assert_int_equal(eng_epoch_read(body, sizeof(struct fmt_epoch), &info), -EBADMSG);
        df_service.cluster.epoch_len = 7;
        assert_int_equal(sf_open(&sf, false), -EBADMSG);
        sf_remove(&sf);
}

/* Stands before a drive that refuses shards, as it does while it has the record of an epoch that others wait for. */
static struct {
        struct eng_drive_ops ops;
        const struct eng_drive_ops *real;
        atomic_bool refuses, deposes;
} stale;

static void stale_answered(struct lp_msg *msg)
{
        struct eng_op *op = container_of(msg, struct eng_op, msg);

        op->done(op);
}

static void stale_submit(struct eng_drive *drive, struct eng_op *op)
{
        if (op->kind != ENG_OP_WRITE || !atomic_load(&stale.refuses)) {
                stale.real->submit(drive, op);
                return;
        }
        op->result = -ESTALE;
        op->deposed = atomic_load(&stale.deposes);
        op->msg.run = stale_answered;
        lp_post(lp_self(), &op->msg);
}

static uint64_t put_stale(struct eng_store *store, uint64_t slot)
{
        struct eng_drive *drive = store->members[slot].drive;

        stale.real = drive->ops;
        stale.ops = *drive->ops;
        stale.ops.submit = stale_submit;
        drive->ops = &stale.ops;
        return 0;
}

/* The epoch waits for longer than an upload does: that is busy, and its leader leads on. Who is told that he is deposed ends. */
static void test_long_change(void **state)
{
        uint64_t bucket;
        struct sf sf;
        unsigned i;

        df_make(&sf, &bucket);
        assert_int_equal(sf_open(&sf, false), 0);
        assert_true(sf_wait_health(&sf, df_all_in, NULL, 60));
        memset(&stale, 0, sizeof(stale));
        for (i = 0; i < 4; i++) /* a shard of each object lies on one of them, at least */
                sf_ask(&sf, put_stale, i);
        atomic_store(&stale.refuses, true);
        assert_int_equal(sf_put(&sf, 0, bucket, df_key(1), 1, df_size(1), true, NULL), -EBUSY);
        assert_int_equal(df_service.ended, 0);
        atomic_store(&stale.refuses, false);
        assert_int_equal(sf_put(&sf, 0, bucket, df_key(1), 1, df_size(1), true, NULL), 0);
        df_check_objects(&sf, bucket);
        atomic_store(&stale.deposes, true);
        atomic_store(&stale.refuses, true);
        sf_put(&sf, 0, bucket, df_key(1), 1, df_size(1), true, NULL);
        assert_true(df_service.ended > 0);
        sf_close(&sf);
        sf_remove(&sf);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_a_start),     cmocka_unit_test(test_ended_before_the_record),
                cmocka_unit_test(test_restored),    cmocka_unit_test(test_no_majority),
                cmocka_unit_test(test_no_lease),    cmocka_unit_test(test_drives_fail),
                cmocka_unit_test(test_lost_writes_given_up), cmocka_unit_test(test_lost_writes), cmocka_unit_test(test_fails_undecided), cmocka_unit_test(test_mute), cmocka_unit_test(test_bodies), cmocka_unit_test(test_long_change),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
