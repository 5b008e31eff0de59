/*
 * down.c - drives that do not answer, and have not failed: an operation said -EHOSTUNREACH. An epoch
 * goes on without such a drive as without one that failed; but it is asked from time to time, and
 * when it answers again it is stale, and catches up. Coordinator.
 *
 * A drive that failed stays out, on one machine. In a cluster it is asked from time to time, too: its
 * node's process may begin anew, and open the drive again. While it answers -EIO it has failed; if the
 * node does not answer, or knows nothing of the session, it is down from then on. One that answers though
 * it was left alone, since it could not be brought up to date, is tried again after a pause.
 *
 * What was on its way to it may still arrive. The VOID record by which it begins to catch up is of
 * an epoch that is newer than all of that, and the drive refuses what is older from there on
 * (drive.h), so it holds nothing that was not compared.
 */
#include "engine/epoch/epoch.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#define SECOND_NS (1000ull * 1000 * 1000)
#define PAUSE_MOST_NS (60 * SECOND_NS)
#define CALM_NS (60 * SECOND_NS) /* a member for so long flaps no more */

/* owner: coordinator; op: the drive while out */
struct eng_down {
        struct eng_store *store;
        struct down_look {
                struct eng_op op;      /* first */
                struct eng_down *all;
                struct eng_drive *drive;
                bool out;
                bool failed;           /* it had failed when it was asked */
        } looks[ENG_DRIVES_MAX];
};

void eng_down_free(struct eng_store *store)
{
        free(store->coord->down_looks);
        store->coord->down_looks = NULL;
}

/* The store serves with an epoch that it is not in, or waits for it. */
static bool may_return(const struct eng_store *store, unsigned slot)
{
        const struct eng_coord *c = store->coord;

        if (c->phase == ENG_PHASE_WAITING)
                return true;
        return c->phase == ENG_PHASE_OPEN && c->view.writable && !c->changing && c->catch_up == NULL && c->hot_add == NULL &&
               ((c->view.in | c->view.joining) & eng_bit(slot)) == 0;
}

/* ---- pauses ---------------------------------------------------------------------------------- */

void eng_down_fell_out(struct eng_store *store, unsigned slot)
{
        struct eng_return *r = &store->coord->returns[slot];
        const uint64_t now = lp_now(store->coord_loop->loop);

        assert(eng_on_coordinator(store) && slot < ENG_DRIVES_MAX);
        if (store->options.cluster == NULL || r->out)
                return;
        if (now >= r->calm_from)
                r->pause = 0;
        else
                r->pause = r->pause == 0 ? SECOND_NS : 2 * r->pause;
        if (r->pause > PAUSE_MOST_NS)
                r->pause = PAUSE_MOST_NS;
        r->out = true;
        r->at = r->asked = now;
        r->at += r->pause;
        r->calm_from = UINT64_MAX;
}

void eng_down_is_back(struct eng_store *store, unsigned slot)
{
        store->coord->returns[slot].out = false;
}

void eng_down_is_in(struct eng_store *store, unsigned slot)
{
        store->coord->returns[slot].calm_from = lp_now(store->coord_loop->loop) + CALM_NS;
}

/* What vanished is looked for by its folder (hot_add.c). */
static bool failed_is_asked(const struct eng_store *store, unsigned slot)
{
        const struct eng_coord *c = store->coord;
        const struct eng_member *m = &store->members[slot];

        return store->options.cluster != NULL && m->state == ENG_DRIVE_FAILED && m->drive != NULL && !eng_drive_vanished(m->local) &&
               ((c->given_up | c->shape.gone) & eng_bit(slot)) == 0 && may_return(store, slot) &&
               lp_now(store->coord_loop->loop) >= c->returns[slot].asked + SECOND_NS;
}

/* Of one that failed. Another incarnation is tried at once; what only could not be brought up to date has a pause. */
static bool is_tried(const struct eng_store *store, unsigned slot, int rv)
{
        const struct eng_return *r = &store->coord->returns[slot];

        return rv == -EHOSTUNREACH || (rv == 0 && lp_now(store->coord_loop->loop) >= r->at);
}

/* ---- asking ---------------------------------------------------------------------------------- */

/*
 * Every loop is told before the drive is asked again: its process may begin anew, and then answers a
 * SYNC though what it had WRITTEN is gone.
 */
void eng_down_write_off(struct eng_coord *c)
{
        eng_mask out = c->down & ~(c->next_in | c->next_joining);
        unsigned i;

        for (i = 0; i < ENG_DRIVES_MAX; i++)
                if (out & eng_bit(i))
                        c->view.since[i] = c->view.epoch;
}

static void down_returns(struct eng_store *store, unsigned slot)
{
        struct eng_coord *c = store->coord;

        lp_trace(LP_TRACE_DRIVE_STATE, slot, ENG_DRIVE_STALE);
        c->down &= ~eng_bit(slot);
        eng_down_is_back(store, slot);
        eng_member_new_turn(&store->members[slot]);
        if (c->phase == ENG_PHASE_WAITING) {
                eng_recover_answers(store);
                return;
        }
        c->view.since[slot] = c->view.epoch + 1; /* what uploads wrote to it before may be gone */
        eng_member_state(store, slot, ENG_DRIVE_STALE, "did not answer while the store went on without it");
        eng_catch_up_consider(store);
}

/* From here on it is asked as one that is down, which begins a session. */
static void failed_is_down(struct eng_store *store, unsigned slot)
{
        struct eng_coord *c = store->coord;

        c->down |= eng_bit(slot);
        c->returns[slot].at = lp_now(store->coord_loop->loop);
        eng_member_state(store, slot, ENG_DRIVE_MISSING, "had failed, and is tried again");
}

static void down_answered(struct eng_op *op)
{
        struct down_look *look = container_of(op, struct down_look, op);
        struct eng_store *store = look->all->store;
        struct eng_coord *c = store->coord;
        unsigned slot = (unsigned)(look - look->all->looks);

        assert(eng_on_coordinator(store) && look->out);
        look->out = false;
        if (store->stopping || store->members[slot].drive != look->drive)
                return;
        if (look->failed && store->members[slot].state == ENG_DRIVE_FAILED && is_tried(store, slot, op->result))
                failed_is_down(store, slot);
        if (look->failed || !(c->down & eng_bit(slot)))
                return;
        if (op->result == -EIO) { /* it answers, and has failed meanwhile */
                c->down &= ~eng_bit(slot);
                eng_down_fell_out(store, slot);
                eng_member_state(store, slot, ENG_DRIVE_FAILED, "failed while it did not answer");
        }
        if (op->result != 0)
                return;
        if (op->kind == ENG_OP_FEATURES)
                store->members[slot].identity.features |= op->features.bits;
        if ((c->features & ~store->members[slot].identity.features) == 0 && may_return(store, slot))
                down_returns(store, slot);
}

/* Whether it answers; where it lacks features of the store, by what gives it those. failed: as one that had. */
static void down_ask(struct eng_down *all, unsigned slot, bool failed)
{
        const struct eng_coord *c = all->store->coord;
        struct down_look *look = &all->looks[slot];
        uint64_t lacks = c->features & ~all->store->members[slot].identity.features;

        look->op = (struct eng_op){.kind = lacks != 0 ? ENG_OP_FEATURES : ENG_OP_HELD,
                                   .flags = ENG_OP_RESERVE | ENG_OP_ANEW, /* nothing is expected of it any more: may_return() */
                                   .epoch = c->view.epoch,
                                   .done = down_answered};
        if (failed) {
                look->op.kind = ENG_OP_HELD;
                look->op.flags = ENG_OP_RESERVE;
        }
        if (look->op.kind == ENG_OP_FEATURES)
                look->op.features.bits = c->features;
        else
                look->op.held.count = 1;
        look->failed = failed;
        look->all = all;
        look->drive = all->store->members[slot].drive;
        look->out = true;
        eng_drive_submit(look->drive, &look->op);
}

static void down_look_at(struct eng_down *all, unsigned slot)
{
        struct eng_store *store = all->store;
        struct eng_return *r = &store->coord->returns[slot];

        if (store->coord->down & eng_bit(slot)) {
                if (store->members[slot].drive != NULL && may_return(store, slot) && lp_now(store->coord_loop->loop) >= r->at)
                        down_ask(all, slot, false);
        } else if (failed_is_asked(store, slot)) {
                r->asked = lp_now(store->coord_loop->loop);
                down_ask(all, slot, true);
        }
}

void eng_down_look(struct eng_store *store)
{
        struct eng_coord *c = store->coord;
        unsigned i;

        assert(eng_on_coordinator(store));
        c->down &= ~(c->shape.gone | c->given_up);
        if ((c->down == 0 && store->options.cluster == NULL) || store->stopping)
                return;
        if (c->down_looks == NULL)
                c->down_looks = calloc(1, sizeof(*c->down_looks));
        if (c->down_looks == NULL)
                return; /* the next time */
        c->down_looks->store = store;
        for (i = 0; i < store->drive_count; i++)
                if (!c->down_looks->looks[i].out)
                        down_look_at(c->down_looks, i);
}
