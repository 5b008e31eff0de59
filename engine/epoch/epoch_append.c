/*
 * epoch_append.c - the record of an epoch on its way to the members: proposed to the configuration service
 * where there is one, appended on each drive, and asked for again where a drive lacks something for the
 * moment. Coordinator.
 *
 * A drive that fails, or does not answer any more, while the record is on its way is not waited for: its
 * operation may end seconds later, with its connection. The record may reach it even then. That is no
 * more than where its answer was lost: the epoch is not in force, and the next one goes on without it.
 */
#include "engine/epoch/epoch.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define AGAIN_NS (50ull * 1000 * 1000)
#define APPEND_TRIES 200u /* by a drive that lacks memory or room in its queue */

#define APPEND_STATES(X) \
        X(PROPOSED) /* the configuration service has not decided it */    \
        X(SENT)     /* the answers of `out` are waited for */             \
        X(LATER)    /* those that refused it are asked again, by timer */ \
        X(OVER)     /* done() was called; operations may be under way */

enum append_state {
#define APPEND_STATE_ENUM(name, ...) APPEND_##name,
        APPEND_STATES(APPEND_STATE_ENUM)
#undef APPEND_STATE_ENUM
};

/* owner: coordinator */
struct epoch_append {
        struct eng_store *store;
        struct eng_buf *body;
        void (*done)(struct eng_store *store, eng_mask failed);
        uint64_t number;
        enum append_state state;
        eng_mask to, out;
        unsigned under_way, tries; /* under_way: operations that have not come back */
        eng_mask failed, refused;  /* refused: -EAGAIN, so it is asked again */
        struct epoch_op {
                struct eng_op op;
                struct epoch_append *all;
                unsigned slot;
        } ops[]; /* of `to`, by slot */
};

static void epoch_append_free(struct epoch_append *all)
{
        assert(all->under_way == 0);
        eng_buf_unref(all->body);
        free(all);
}

void eng_epoch_append_free(struct eng_store *store)
{
        struct epoch_append *all = store->coord->append;

        if (all != NULL && all->under_way == 0)
                epoch_append_free(all);
        store->coord->append = NULL;
        eng_decision_free(store->coord);
}

/* all may be gone afterwards. */
static void epoch_append_over(struct epoch_append *all)
{
        struct eng_store *store = all->store;
        eng_mask failed = all->failed != 0 ? all->failed : all->refused;
        void (*done)(struct eng_store *, eng_mask) = all->done;

        assert(store->coord->append == all && all->out == 0);
        all->state = APPEND_OVER;
        store->coord->append = NULL;
        if (all->under_way == 0)
                epoch_append_free(all);
        done(store, failed);
}

static void epoch_append_later(struct epoch_append *all);

/* All that are waited for have answered. */
static void epoch_append_answered(struct epoch_append *all)
{
        assert(all->state == APPEND_SENT && all->out == 0);
        if (all->failed == 0 && all->refused != 0)
                epoch_append_later(all);
        else
                epoch_append_over(all);
}

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

        assert(eng_on_coordinator(all->store) && all->under_way > 0);
        all->under_way--;
        if (all->state == APPEND_OVER) {
                if (all->under_way == 0)
                        epoch_append_free(all);
                return;
        }
        if ((all->out & eng_bit(eo->slot)) == 0)
                return; /* it was given up */
        all->out &= ~eng_bit(eo->slot);
        if (op->result == -EAGAIN && all->tries < APPEND_TRIES)
                all->refused |= eng_bit(eo->slot);
        else if (op->result != 0)
                epoch_refused(eo, op->result);
        if (all->out == 0)
                epoch_append_answered(all);
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

/* The operation of a slot is the slot's own: one that was given up may still be under way. */
static void epoch_submit_to(struct epoch_append *all, eng_mask to)
{
        const struct eng_store *store = all->store;
        unsigned i, at = 0;

        assert(to != 0 && (to & ~all->to) == 0);
        all->state = APPEND_SENT;
        all->out = to;
        all->under_way += (unsigned)__builtin_popcountll(to);
        for (i = 0; i < store->drive_count; i++) {
                if (to & eng_bit(i))
                        epoch_submit(all, &all->ops[at], i);
                at += (all->to & eng_bit(i)) != 0;
        }
}

static void epoch_append_again(struct lp_timer *timer)
{
        struct eng_coord *c = container_of(timer, struct eng_coord, append_timer);
        struct epoch_append *all = c->append;
        eng_mask refused = all->refused;

        assert(all->state == APPEND_LATER);
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

        all->state = APPEND_LATER;
        c->append_timer.expired = epoch_append_again;
        lp_timer_start(all->store->coord_loop->loop, &c->append_timer, AGAIN_NS);
}

/* A member that has gone meanwhile: it can't come into force. */
static void epoch_is_decided(struct eng_store *store)
{
        struct epoch_append *all = store->coord->append;

        assert(all->state == APPEND_PROPOSED);
        if (all->failed != 0)
                epoch_append_over(all);
        else
                epoch_submit_to(all, all->to);
}

int eng_epoch_append(struct eng_store *store, uint64_t number, struct eng_buf *body, eng_mask to,
                     void (*done)(struct eng_store *store, eng_mask failed))
{
        struct epoch_append *all = calloc(1, sizeof(*all) + (size_t)__builtin_popcountll(to) * sizeof(all->ops[0]));

        assert(store->coord->append == NULL);
        if (all == NULL)
                return -ENOMEM;
        all->store = store;
        all->body = eng_buf_ref(body);
        all->number = number;
        all->to = to;
        all->done = done;
        store->coord->append = all;
        if (store->options.cluster == NULL) {
                epoch_submit_to(all, to);
                return 0;
        }
        if (eng_decision_ask(store, body, epoch_is_decided) == 0)
                return 0;
        eng_epoch_append_free(store);
        return -ENOMEM;
}

void eng_epoch_append_without(struct eng_store *store, unsigned slot)
{
        struct epoch_append *all = store->coord->append;
        const eng_mask gone = eng_bit(slot);

        assert(eng_on_coordinator(store));
        if (all == NULL)
                return;
        switch (all->state) {
        case APPEND_PROPOSED:
                all->failed |= all->to & gone;
                break;
        case APPEND_SENT:
                all->failed |= (all->out | all->refused) & gone;
                if ((all->out & gone) == 0)
                        break;
                all->out &= ~gone;
                if (all->out == 0)
                        epoch_append_answered(all);
                break;
        case APPEND_LATER:
                if ((all->refused & gone) == 0)
                        break;
                lp_timer_stop(store->coord_loop->loop, &store->coord->append_timer);
                all->failed |= gone;
                epoch_append_over(all);
                break;
        case APPEND_OVER:
                break;
        }
}
