#include "tests/lib/decided_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "engine/drive/index.h"

#define LARGE 300000u

/* Three nodes of three drives: 4+2, so each group has a copy on each node. */
static const struct eng_site sites[DF_DRIVES] = {{1, 1}, {1, 1}, {1, 1}, {2, 2}, {2, 2}, {2, 2}, {3, 3}, {3, 3}, {3, 3}};

struct df_service df_service;

const struct fmt_epoch *df_epoch(void)
{
        return (const struct fmt_epoch *)df_service.epoch;
}

static void df_say_yes(struct lp_msg *msg)
{
        df_service.decided(df_service.p);
}

static void df_propose(void *arg, const void *body, size_t len, void (*decided)(void *p), void *p)
{
        const struct fmt_epoch *next = body;

        assert_ptr_equal(arg, &df_service);
        assert_true(next->number > df_epoch()->number);
        assert_memory_equal(next->parent, df_epoch()->id, FMT_ID);
        memcpy(df_service.epoch, body, len);
        df_service.cluster.epoch_len = len;
        df_service.decided = decided;
        df_service.p = p;
        atomic_fetch_add(&df_service.proposed, 1);
        df_service.msg.run = df_say_yes;
        if (df_service.word == DF_SAYS_YES)
                lp_post(lp_self(), &df_service.msg);
}

static void df_ended(void *arg, const char *why)
{
        atomic_fetch_add(&df_service.ended, 1);
}

static bool df_answers(void *arg)
{
        return !df_service.mute;
}

uint64_t df_now(void)
{
        return 1000;
}

const char *df_key(unsigned i)
{
        static char key[16];

        snprintf(key, sizeof(key), "key%u", i);
        return key;
}

size_t df_size(unsigned i)
{
        return i % 2 == 0 ? 100 : LARGE;
}

size_t df_epoch_on(const struct sf *sf, unsigned drive, void *out)
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

void df_serve(struct sf *sf, const uint8_t store_id[FMT_ID], const void *epoch, size_t len)
{
        unsigned i;

        memset(&df_service, 0, sizeof(df_service));
        memcpy(df_service.cluster.store_id, store_id, FMT_ID);
        memcpy(df_service.epoch, epoch, len);
        df_service.cluster.epoch_len = len;
        df_service.cluster.epoch = df_service.epoch;
        df_service.cluster.paths = df_service.paths;
        for (i = 0; i < ENG_DRIVES_MAX; i++)
                df_service.paths[i] = i < sf->drives ? sf->path[i] : "";
        df_service.cluster.propose = df_propose;
        df_service.cluster.may_lose = true;
        df_service.cluster.ended = df_ended;
        df_service.cluster.answers = df_answers;
        df_service.cluster.arg = &df_service;
        df_service.cluster.clock_ns = df_now;
        df_service.cluster.lease_end = &df_service.lease_end;
        df_service.lease_end = DF_FOREVER;
        sf->options.cluster = &df_service.cluster;
}

void df_make(struct sf *sf, uint64_t *bucket)
{
        _Alignas(8) uint8_t epoch[FMT_EPOCH_MAX(ENG_DRIVES_MAX)];
        uint8_t store_id[FMT_ID];
        unsigned i;

        sf_make(sf, DF_DRIVES, 2);
        sf->options.sites = sites;
        assert_int_equal(sf_open(sf, true), 0);
        assert_true(sf_wait_ready(sf, 20));
        assert_int_equal(sf_bucket(sf, "bucket", bucket), 0);
        for (i = 0; i < DF_KEYS; i++)
                assert_int_equal(sf_put(sf, i % 2, *bucket, df_key(i), i, df_size(i), true, NULL), 0);
        memcpy(store_id, sf->store->store_id, FMT_ID);
        sf_close(sf);
        sf->options.sites = NULL;
        df_serve(sf, store_id, epoch, df_epoch_on(sf, 0, epoch));
}

bool df_all_in(const struct eng_health *h, void *arg)
{
        return h->ready && h->drives_in == DF_DRIVES && !h->healing;
}

void df_check_objects(struct sf *sf, uint64_t bucket)
{
        unsigned i;

        for (i = 0; i < DF_KEYS; i++)
                assert_int_equal(sf_get(sf, i % 2, bucket, df_key(i), i, df_size(i)), 0);
}

uint64_t df_fail_drive(struct eng_store *store, uint64_t slot)
{
        eng_drive_failed(store, (unsigned)slot, store->members[slot].drive, "the test says so");
        return 0;
}

uint64_t df_say_silent(struct eng_store *store, uint64_t slot)
{
        eng_slot_silent(store, (unsigned)slot, "the test says so");
        return 0;
}
