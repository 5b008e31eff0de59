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
#include "engine/drive/index.h"
#include "tests/lib/store_fixture.h"
#include "tests/lib/wait.h"

#define DRIVES 9u
#define KEYS   40u
#define LARGE  300000u
#define FOREVER UINT64_MAX

/* Three nodes of three drives: 4+2, so each group has a copy on each node. */
static const struct eng_site sites[DRIVES] = {{1, 1}, {1, 1}, {1, 1}, {2, 2}, {2, 2}, {2, 2}, {3, 3}, {3, 3}, {3, 3}};

enum word { SAYS_YES, SAYS_NOTHING };

static struct service {
        struct eng_cluster cluster;
        _Alignas(8) uint8_t epoch[FMT_EPOCH_MAX(ENG_DRIVES_MAX)];
        const char *paths[DRIVES];
        _Atomic uint64_t lease_end;
        enum word word;
        atomic_uint proposed, ended;
        atomic_bool mute;
        struct lp_msg msg;
        void (*decided)(void *p);
        void *p;
} service;

static const struct fmt_epoch *etcds(void)
{
        return (const struct fmt_epoch *)service.epoch;
}

static void say_yes(struct lp_msg *msg)
{
        service.decided(service.p);
}

static void propose(void *arg, const void *body, size_t len, void (*decided)(void *p), void *p)
{
        const struct fmt_epoch *next = body;

        assert_ptr_equal(arg, &service);
        assert_true(next->number > etcds()->number);
        assert_memory_equal(next->parent, etcds()->id, FMT_ID);
        memcpy(service.epoch, body, len);
        service.cluster.epoch_len = len;
        service.decided = decided;
        service.p = p;
        atomic_fetch_add(&service.proposed, 1);
        service.msg.run = say_yes;
        if (service.word == SAYS_YES)
                lp_post(lp_self(), &service.msg);
}

static void ended(void *arg, const char *why)
{
        atomic_fetch_add(&service.ended, 1);
}

static bool answers(void *arg)
{
        return !service.mute;
}

static uint64_t now(void)
{
        return 1000;
}

static const char *key_of(unsigned i)
{
        static char key[16];

        snprintf(key, sizeof(key), "key%u", i);
        return key;
}

static size_t size_of(unsigned i)
{
        return i % 2 == 0 ? 100 : LARGE;
}

/* The newest epoch that a closed drive holds. */
static size_t epoch_on(const struct sf *sf, unsigned drive, void *out)
{
        struct eng_index *index = sf_index(sf, drive);
        struct eng_index_txn *txn;
        size_t len;

        assert_int_equal(eng_index_reader_new(index, &txn), 0);
        assert_int_equal(eng_index_read_begin(txn), 0);
        assert_int_equal(eng_index_meta_get(txn, ENG_INDEX_EPOCH, out, FMT_EPOCH_MAX(ENG_DRIVES_MAX), &len), 0);
        eng_index_reader_free(txn);
        eng_index_close(index);
        return len;
}

/* A store of three nodes, closed, whose epoch etcd has from now on. */
static void make_pool(struct sf *sf, uint64_t *bucket)
{
        unsigned i;

        memset(&service, 0, sizeof(service));
        sf_make(sf, DRIVES, 2);
        sf->options.sites = sites;
        assert_int_equal(sf_open(sf, true), 0);
        assert_true(sf_wait_ready(sf, 20));
        assert_int_equal(sf_bucket(sf, "bucket", bucket), 0);
        for (i = 0; i < KEYS; i++)
                assert_int_equal(sf_put(sf, i % 2, *bucket, key_of(i), i, size_of(i), true, NULL), 0);
        memcpy(service.cluster.store_id, sf->store->store_id, FMT_ID);
        sf_close(sf);
        sf->options.sites = NULL;
        service.cluster.epoch_len = epoch_on(sf, 0, service.epoch);
        service.cluster.epoch = service.epoch;
        service.cluster.paths = service.paths;
        for (i = 0; i < DRIVES; i++)
                service.paths[i] = sf->path[i];
        service.cluster.propose = propose;
        service.cluster.ended = ended;
        service.cluster.answers = answers;
        service.cluster.arg = &service;
        service.cluster.clock_ns = now;
        service.cluster.lease_end = &service.lease_end;
        service.lease_end = FOREVER;
        sf->options.cluster = &service.cluster;
}

static bool says(const struct eng_health *h, void *text)
{
        return !h->ready && strstr(h->reason, text) != NULL;
}

static bool all_in(const struct eng_health *h, void *arg)
{
        return h->ready && h->drives_in == DRIVES && !h->healing;
}

static void check_objects(struct sf *sf, uint64_t bucket)
{
        unsigned i;

        for (i = 0; i < KEYS; i++)
                assert_int_equal(sf_get(sf, i % 2, bucket, key_of(i), i, size_of(i)), 0);
}

/* Its start makes one epoch, which is etcd's before any drive has it. */
static void test_a_start(void **state)
{
        uint64_t bucket, before;
        struct sf sf;
        unsigned i;

        make_pool(&sf, &bucket);
        before = etcds()->number;
        assert_int_equal(sf_open(&sf, false), 0);
        assert_true(sf_wait_health(&sf, all_in, NULL, 60));
        assert_int_equal(service.proposed, 1);
        assert_int_equal(etcds()->number, before + 1);
        assert_int_equal(sf_view(&sf).epoch, before + 1);
        check_objects(&sf, bucket);
        for (i = 0; i < KEYS; i++)
                assert_int_equal(sf_put(&sf, i % 2, bucket, key_of(i), i, size_of(i), true, NULL), 0);
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

        make_pool(&sf, &bucket);
        before = etcds()->number;
        service.word = SAYS_NOTHING;
        assert_int_equal(sf_open(&sf, false), 0);
        for (i = 0; i < 6000 && service.proposed == 0; i++)
                usleep(10000);
        assert_int_equal(service.proposed, 1);
        assert_int_equal(sf_get(&sf, 0, bucket, key_of(0), 0, size_of(0)), -EHOSTDOWN);
        sf_close(&sf);
        for (i = 0; i < DRIVES; i++) {
                epoch_on(&sf, i, held);
                assert_int_equal(((struct fmt_epoch *)held)->number, before);
        }
        service.word = SAYS_YES;
        assert_int_equal(sf_open(&sf, false), 0);
        assert_true(sf_wait_health(&sf, all_in, NULL, 60));
        assert_true(sf_view(&sf).epoch >= before + 2); /* the second has not the number of the first */
        check_objects(&sf, bucket);
        sf_close(&sf);
        sf_remove(&sf);
}

/* R2: etcd has an older epoch than drives, or another of the same number. */
static void test_restored(void **state)
{
        static struct service kept;
        uint64_t bucket;
        struct sf sf;
        unsigned i;

        make_pool(&sf, &bucket);
        kept = service;
        assert_int_equal(sf_open(&sf, false), 0);
        assert_true(sf_wait_health(&sf, all_in, NULL, 60));
        sf_close(&sf);
        for (i = 0; i < 2; i++) {
                if (i == 0)
                        memcpy(service.epoch, kept.epoch, sizeof(service.epoch));
                else
                        epoch_on(&sf, 0, service.epoch);
                service.epoch[offsetof(struct fmt_epoch, id)] ^= (uint8_t)i;
                service.proposed = 0;
                assert_int_equal(sf_open(&sf, false), 0);
                assert_true(sf_wait_health(&sf, says, (char[]){"reseed"}, 60));
                assert_int_equal(service.proposed, 0);
                assert_int_equal(sf_get(&sf, 0, bucket, key_of(0), 0, size_of(0)), -EHOSTDOWN);
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

        make_pool(&sf, &bucket);
        for (i = 3; i < DRIVES; i++)
                service.paths[i] = "";
        assert_int_equal(sf_open(&sf, false), 0);
        assert_true(sf_wait_ready(&sf, 60));
        assert_int_equal(sf_view(&sf).in, 7);
        for (i = 0; i < KEYS; i += 2)
                assert_int_equal(sf_get(&sf, 0, bucket, key_of(i), i, size_of(i)), 0);
        assert_int_equal(sf_put(&sf, 0, bucket, key_of(0), 0, 100, true, NULL), -EROFS);
        epoch = sf_view(&sf).epoch;
        sf_close(&sf);
        for (i = 0; i < DRIVES; i++) /* the other six go on by themselves: they are out */
                service.paths[i] = i < 3 ? "" : sf.path[i];
        assert_int_equal(sf_open(&sf, false), 0);
        assert_true(sf_wait_health(&sf, says, (char[]){"no current copy"}, 60));
        sf_close(&sf);
        for (i = 0; i < 3; i++)
                service.paths[i] = sf.path[i];
        assert_int_equal(sf_open(&sf, false), 0);
        assert_true(sf_wait_health(&sf, all_in, NULL, 120));
        assert_true(sf_view(&sf).epoch > epoch);
        check_objects(&sf, bucket);
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

        make_pool(&sf, &bucket);
        assert_int_equal(sf_open(&sf, false), 0);
        assert_true(sf_wait_health(&sf, all_in, NULL, 60));
        assert_true(eng_is_current(sf.store));
        service.lease_end = now(); /* it has just ended */
        assert_false(eng_is_current(sf.store));
        assert_int_equal(sf_get(&sf, 0, bucket, key_of(0), 0, size_of(0)), -EHOSTDOWN);
        assert_int_equal(sf_get(&sf, 1, bucket, key_of(1), 1, size_of(1)), -EHOSTDOWN);
        assert_int_equal(sf_get(&sf, 0, bucket, "no such key", 0, 1), -EHOSTDOWN);
        assert_int_equal(sf_put(&sf, 0, bucket, key_of(0), 0, 100, true, &absent), -EHOSTDOWN);
        assert_int_equal(sf_delete(&sf, 0, bucket, "no such key", &existed), -EHOSTDOWN);
        names = sf_list(&sf, 0, bucket, "", "", "", 10, &rv, &more);
        assert_int_equal(rv, -EHOSTDOWN);
        free(names);
        service.lease_end = now() + 1;
        check_objects(&sf, bucket);
        names = sf_list(&sf, 0, bucket, "", "", "", 10, &rv, &more);
        assert_int_equal(rv, 0);
        free(names);
        sf_close(&sf);
        sf_remove(&sf);
}

static uint64_t fail_drive(struct eng_store *store, uint64_t slot)
{
        eng_drive_failed(store, (unsigned)slot, store->members[slot].drive, "the test says so");
        return 0;
}

/* Drives fail one after the other, each epoch by a proposal, until a group has no current member: then the process ends. */
static void test_drives_fail(void **state)
{
        struct eng_epoch_info info;
        uint64_t bucket;
        struct sf sf;
        unsigned i, wait;

        make_pool(&sf, &bucket);
        assert_int_equal(sf_open(&sf, false), 0);
        assert_true(sf_wait_health(&sf, all_in, NULL, 60));
        for (i = 0; i < DRIVES && service.ended == 0; i++) {
                unsigned proposed = service.proposed;

                sf_ask(&sf, fail_drive, i);
                for (wait = 0; wait < 10000 && service.proposed == proposed && service.ended == 0; wait++)
                        usleep(1000);
        }
        assert_true(i > 6); /* the last node's drives speak for all groups, together */
        assert_true(service.ended > 0);
        assert_int_equal(eng_epoch_read(service.epoch, service.cluster.epoch_len, &info), 0);
        assert_int_equal(eng_epoch_serves(service.epoch, service.cluster.epoch_len, info.in), 1);
        sf_close(&sf);
        assert_int_equal(sf_open(&sf, false), 0);
        assert_true(sf_wait_health(&sf, all_in, NULL, 120));
        sf_close(&sf);
        sf_remove(&sf);
}

static bool eight_in(const struct eng_health *h, void *arg)
{
        return h->ready && h->drives_in == DRIVES - 1;
}

static uint64_t say_silent(struct eng_store *store, uint64_t slot)
{
        eng_slot_silent(store, (unsigned)slot, "the test says so");
        return 0;
}

/* etcd is away: a drive that is silent is out by an epoch all the same; one that is to come back waits for etcd, and nothing else does. */
static void test_mute(void **state)
{
        uint64_t bucket;
        struct sf sf;

        make_pool(&sf, &bucket);
        assert_int_equal(sf_open(&sf, false), 0);
        assert_true(sf_wait_health(&sf, all_in, NULL, 60));
        service.mute = true;
        sf_ask(&sf, say_silent, 5);
        assert_true(sf_wait_health(&sf, eight_in, NULL, 60));
        assert_true(sf_stays_otherwise(&sf, all_in, NULL, 2));
        assert_int_equal(sf_put(&sf, 0, bucket, key_of(0), 0, size_of(0), true, NULL), 0);
        assert_int_equal(sf_put(&sf, 0, bucket, key_of(1), 1, size_of(1), true, NULL), 0);
        service.mute = false;
        assert_true(sf_wait_health(&sf, all_in, NULL, 60));
        check_objects(&sf, bucket);
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

        make_pool(&sf, &bucket);
        cut_log(&sf, 4);
        assert_int_equal(sf_open(&sf, false), 0);
        assert_true(sf_wait_health(&sf, all_in, NULL, 120));
        check_objects(&sf, bucket);
        sf_close(&sf);
        for (i = 3; i < DRIVES; i++)
                cut_log(&sf, i);
        service.proposed = 0;
        assert_int_equal(sf_open(&sf, false), 0);
        assert_true(sf_wait_health(&sf, first_aside, NULL, 60));
        assert_int_equal(service.proposed, 0);
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

        make_pool(&sf, &bucket);
        len = service.cluster.epoch_len;
        memcpy(body, service.epoch, len);
        assert_int_equal(eng_epoch_read(body, len, &info), 0);
        assert_int_equal(info.slots, DRIVES);
        assert_int_equal(info.in, 0x1ff);
        assert_int_equal(info.joining | info.gone, 0);
        assert_true(info.k == 4 && info.m == 2 && info.number == etcds()->number);
        assert_true(info.slot[4].site.node == 2 && info.slot[8].site.rack == 3);
        assert_int_equal(eng_epoch_serves(body, len, 0x1ff), 1);
        assert_int_equal(eng_epoch_serves(body, len, 7), 1); /* a node */
        assert_int_equal(eng_epoch_serves(body, len, 1), 0);
        assert_int_equal(eng_epoch_serves(body, len, 0), 0);
        assert_int_equal(eng_epoch_serves(body, len, ~0ull << DRIVES), 0);
        assert_int_equal(eng_epoch_read(body, 3, &info), -EBADMSG);
        assert_int_equal(eng_epoch_serves(body, sizeof(body), 1), -EBADMSG);
        assert_int_equal(eng_epoch_read(body, sizeof(struct fmt_epoch), &info), -EBADMSG);
        service.cluster.epoch_len = 7;
        assert_int_equal(sf_open(&sf, false), -EBADMSG);
        sf_remove(&sf);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_a_start),     cmocka_unit_test(test_ended_before_the_record),
                cmocka_unit_test(test_restored),    cmocka_unit_test(test_no_majority),
                cmocka_unit_test(test_no_lease),    cmocka_unit_test(test_drives_fail),
                cmocka_unit_test(test_lost_writes), cmocka_unit_test(test_mute), cmocka_unit_test(test_bodies),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
