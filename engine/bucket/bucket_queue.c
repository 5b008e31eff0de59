/*
 * bucket_queue.c - the coordinator's queue of changes of buckets: one after the other, a bounded
 * number of them. What a change does is its own (bucket.c, bucket_rules.c, text_set.c).
 */
#include "engine/bucket/bucket_queue.h"
#include "engine/bucket/bucket.h"
#include "engine/txn/txn_util.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#define CHANGES_MAX 256u /* waiting; beyond: -EAGAIN */

static void change_answer(struct lp_msg *msg)
{
        struct eng_change *change = (struct eng_change *)msg;

        assert(eng_on_loop(change->home));
        change->done(change->arg, change->result);
        change->drop(change);
}

static void change_reply(struct eng_change *change, int rv)
{
        assert(change->msg.run != change_answer);
        change->result = rv;
        change->msg.run = change_answer;
        lp_post(change->home->loop, &change->msg);
}

static void change_waited(struct eng_feed_wait *wait)
{
        struct eng_change *change = container_of(wait, struct eng_change, wait);

        change_reply(change, change->result);
}

/* It is answered when copies in other processes have it, too; others go on meanwhile. */
static void change_is_read(struct eng_change *change, int rv)
{
        eng_feed_add(change->store, &change->touched);
        change->result = rv;
        change->wait.version = eng_feed_version(change->store);
        change->wait.done = change_waited;
        eng_feed_wait(change->store, &change->wait);
}

static void change_begin(struct eng_change *change)
{
        assert(STAILQ_FIRST(&eng_config_of(change->store)->queue) == change);
        if (eng_takes_changes(change->store, &change->store->coord->view))
                change->begin(change);
        else
                eng_change_finish(change, -EROFS);
}

void eng_change_finish(struct eng_change *change, int rv)
{
        struct eng_config *config = eng_config_of(change->store);
        struct eng_change *next;

        assert(eng_on_coordinator(change->store));
        assert(STAILQ_FIRST(&config->queue) == change && config->count > 0);
        STAILQ_REMOVE_HEAD(&config->queue, link);
        config->count--;
        if (change->touched.what != 0)
                change_is_read(change, rv);
        else
                change_reply(change, rv);
        next = STAILQ_FIRST(&config->queue);
        if (next != NULL)
                change_begin(next);
}

void eng_change_submit(struct eng_change *change, const void *key, size_t key_len, void (*prepare)(struct eng_txn *txn),
                       void (*done)(struct eng_txn *txn))
{
        struct eng_txn *txn = &change->txn;

        assert(STAILQ_FIRST(&eng_config_of(change->store)->queue) == change);
        eng_txn_init(txn, change->store, 0, key, key_len);
        txn->pg = change->store->pg_count;
        txn->internal = true;
        txn->prepare = prepare;
        txn->done = done;
        eng_txn_submit(txn);
}

void eng_change_line_up(struct eng_change *change)
{
        struct eng_config *config = eng_config_of(change->store);
        bool first = STAILQ_EMPTY(&config->queue);

        STAILQ_INSERT_TAIL(&config->queue, change, link);
        if (first)
                change_begin(change);
}

void eng_change_refuse(struct eng_change *change, int rv)
{
        assert(eng_config_of(change->store)->count > 0);
        eng_config_of(change->store)->count--;
        change_reply(change, rv);
}

static void change_take(struct eng_change *change)
{
        struct eng_config *config = eng_config_of(change->store);

        assert(eng_on_coordinator(change->store));
        if (change->store->coord->phase != ENG_PHASE_OPEN || config->count >= CHANGES_MAX) {
                change_reply(change, change->store->coord->phase != ENG_PHASE_OPEN ? -EHOSTDOWN : -EAGAIN);
                return;
        }
        config->count++;
        if (change->look != NULL)
                change->look(change);
        else
                eng_change_line_up(change);
}

static void change_arrive(struct lp_msg *msg)
{
        change_take((struct eng_change *)msg);
}

static void change_set(struct eng_change *change, struct eng_store *store, eng_done done, void *arg)
{
        assert(change->begin != NULL && change->drop != NULL);
        change->store = store;
        change->home = eng_here(store);
        change->done = done;
        change->arg = arg;
}

void eng_change_send(struct eng_change *change, struct eng_store *store, eng_done done, void *arg)
{
        change_set(change, store, done, arg);
        change->msg.run = change_arrive;
        lp_post(store->coord_loop->loop, &change->msg);
}

void eng_change_own(struct eng_change *change, struct eng_store *store, eng_done done, void *arg)
{
        change_set(change, store, done, arg);
        change_take(change);
}

int eng_config_begin(struct eng_store *store)
{
        struct eng_config *config = eng_config_of(store);

        if (config == NULL)
                config = calloc(1, sizeof(*config));
        if (config == NULL)
                return -ENOMEM;
        if (store->coord->config == NULL)
                STAILQ_INIT(&config->queue);
        store->coord->config = config;
        return 0;
}
