/*
 * epoch_append.c - the record of an epoch on its way to the members: proposed to the configuration service
 * where there is one, appended on each drive, and asked for again where a drive lacks something for the
 * moment. Coordinator.
 */
#include "engine/epoch/epoch.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define AGAIN_NS (50ull * 1000 * 1000)
#define APPEND_TRIES 200u /* by a drive that lacks memory or room in its queue */

/* owner: coordinator */
struct epoch_append {
        struct eng_store *store;
        struct eng_buf *body;
        void (*done)(struct eng_store *store, eng_mask failed);
        uint64_t number;
        eng_mask to;
        unsigned left, tries;
        eng_mask failed, refused; /* refused: -EAGAIN, so it is asked again */
        struct epoch_op {
                struct eng_op op;
                struct epoch_append *all;
                unsigned slot;
        } ops[];
};

static void epoch_append_free(struct epoch_append *all)
{
        eng_buf_unref(all->body);
        free(all);
}

void eng_epoch_append_free(struct eng_store *store)
{
        if (store->coord->append_later != NULL)
                epoch_append_free(store->coord->append_later);
        store->coord->append_later = NULL;
        eng_decision_free(store->coord);
}

static void epoch_append_later(struct epoch_append *all);

/* Who asked for it says why a drive that failed has; one that is down is told now. */
static void epoch_refused(struct epoch_op *eo, int rv)
{
        struct eng_store *store = eo->all->store;

        eo->all->failed |= eng_bit(eo->slot);
        if (rv == -EHOSTUNREACH)
                eng_drive_erred(store, eo->slot, store->members[eo->slot].drive, rv, "the record of an epoch did not reach it");
}

static void epoch_appended(struct eng_op *op)
{
        struct epoch_op *eo = container_of(op, struct epoch_op, op);
        struct epoch_append *all = eo->all;

        assert(eng_on_coordinator(all->store) && all->left > 0);
        if (op->result == -EAGAIN && all->tries < APPEND_TRIES)
                all->refused |= eng_bit(eo->slot);
        else if (op->result != 0)
                epoch_refused(eo, op->result);
        if (--all->left > 0)
                return;
        if (all->failed == 0 && all->refused != 0 && all->store->coord->append_later == NULL) {
                epoch_append_later(all);
                return;
        }
        all->done(all->store, all->failed != 0 ? all->failed : all->refused);
        epoch_append_free(all);
}

static void epoch_submit(struct epoch_append *all, struct epoch_op *eo, unsigned slot)
{
        eo->all = all;
        eo->slot = slot;
        memset(&eo->op, 0, sizeof(eo->op));
        eo->op.kind = ENG_OP_APPEND;
        eo->op.flags = ENG_OP_RESERVE;
        eo->op.epoch = all->number;
        eo->op.done = epoch_appended;
        eo->op.append.body = all->body;
        eo->op.append.body_crc = era_crc32c(0, all->body->data, all->body->len);
        eo->op.append.pg = all->store->pg_count;
        eo->op.append.type = FMT_RECORD_EPOCH;
        eo->op.append.time_ms = (uint64_t)lp_wall_ms();
        eo->op.append.record_epoch = all->number;
        eng_drive_submit(all->store->members[slot].drive, &eo->op);
}

/* all may be gone afterwards. */
static void epoch_submit_to(struct epoch_append *all, eng_mask to)
{
        const struct eng_store *store = all->store;
        unsigned i, at = 0;

        assert(to != 0);
        all->left = (unsigned)__builtin_popcountll(to);
        for (i = 0; i < store->drive_count; i++)
                if (to & eng_bit(i))
                        epoch_submit(all, &all->ops[at++], i);
}

static void epoch_append_again(struct lp_timer *timer)
{
        struct eng_coord *c = container_of(timer, struct eng_coord, append_timer);
        struct epoch_append *all = c->append_later;
        eng_mask refused = all->refused;

        c->append_later = NULL;
        all->refused = 0;
        all->tries++;
        epoch_submit_to(all, refused);
}

/*
 * Lacking something for the moment is no failure: those that refused the record get it a little
 * later. The loops stay paused.
 */
static void epoch_append_later(struct epoch_append *all)
{
        struct eng_coord *c = all->store->coord;

        assert(c->append_later == NULL && all->left == 0);
        c->append_later = all;
        c->append_timer.expired = epoch_append_again;
        lp_timer_start(all->store->coord_loop->loop, &c->append_timer, AGAIN_NS);
}

static void epoch_is_decided(struct eng_store *store)
{
        struct epoch_append *all = store->coord->append_later;

        store->coord->append_later = NULL;
        epoch_submit_to(all, all->to);
}

int eng_epoch_append(struct eng_store *store, uint64_t number, struct eng_buf *body, eng_mask to,
                     void (*done)(struct eng_store *store, eng_mask failed))
{
        struct epoch_append *all = calloc(1, sizeof(*all) + (size_t)__builtin_popcountll(to) * sizeof(all->ops[0]));

        if (all == NULL)
                return -ENOMEM;
        all->store = store;
        all->body = eng_buf_ref(body);
        all->number = number;
        all->to = to;
        all->done = done;
        if (store->options.cluster == NULL) {
                epoch_submit_to(all, to);
                return 0;
        }
        store->coord->append_later = all;
        if (eng_decision_ask(store, body, epoch_is_decided) == 0)
                return 0;
        eng_epoch_append_free(store);
        return -ENOMEM;
}
