/*
 * features.c - the features of the store: bits of FORMAT's line 'features' that each of its drives has
 * before the first record which needs them is appended (docs/design/bucket-rules.md, F1 to F4).
 * Coordinator.
 */
#include "engine/bucket/bucket.h"
#include "engine/bucket/bucket_queue.h"
#include "engine/txn/txn_util.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#define FEATURES_LOOK_NS (50ull * 1000 * 1000)
#define FEATURES_LOOKS 300u /* 15 s; then the change is refused, and a drive that hangs left to itself */

/* owner: coordinator; ops: the drives while out. Freed when the last has come back */
struct features_asked {
        struct eng_store *store;
        uint64_t bits;
        void (*done)(void *arg, int rv); /* NULL once called */
        void *arg;
        int rv;                        /* of a drive that could not */
        eng_mask waiting;              /* slots that have not answered, and are waited for */
        unsigned out, looks;
        struct lp_timer timer;
        struct features_op {
                struct eng_op op;
                struct features_asked *asked;
                struct eng_drive *drive; /* that of the slot then */
                unsigned slot;
        } ops[ENG_DRIVES_MAX];
};

/* The slot has a drive that is asked, and counts. */
static bool features_counts(const struct eng_member *m)
{
        return m->drive != NULL && !eng_member_failed(m) && m->state != ENG_DRIVE_FAILED && m->state != ENG_DRIVE_MISSING &&
               m->state != ENG_DRIVE_REMOVED;
}

static void features_end(struct features_asked *asked, int rv)
{
        void (*done)(void *, int) = asked->done;
        struct eng_store *store = asked->store;

        assert(done != NULL);
        asked->done = NULL;
        lp_timer_stop(store->coord_loop->loop, &asked->timer);
        if (rv == 0)
                atomic_fetch_or(&store->features, asked->bits);
        done(asked->arg, rv);
}

/* All that count have answered, or one of them could not. */
static void features_consider(struct features_asked *asked)
{
        if (asked->done == NULL)
                return;
        if (asked->rv != 0)
                features_end(asked, asked->rv);
        else if (asked->waiting == 0)
                features_end(asked, 0);
}

static void features_look(struct lp_timer *timer)
{
        struct features_asked *asked = container_of(timer, struct features_asked, timer);
        unsigned i;

        assert(asked->done != NULL);
        for (i = 0; i < ENG_DRIVES_MAX; i++)
                if ((asked->waiting & eng_bit(i)) && !features_counts(&asked->store->members[i]))
                        asked->waiting &= ~eng_bit(i);
        if (asked->rv == 0 && asked->waiting != 0 && ++asked->looks >= FEATURES_LOOKS)
                asked->rv = -ETIMEDOUT;
        if (asked->rv == 0 && asked->waiting != 0)
                lp_timer_start(asked->store->coord_loop->loop, timer, FEATURES_LOOK_NS);
        else
                features_consider(asked);
}

static void features_answered(struct eng_op *op)
{
        struct features_op *fo = container_of(op, struct features_op, op);
        struct features_asked *asked = fo->asked;
        struct eng_member *m = &asked->store->members[fo->slot];

        assert(eng_on_coordinator(asked->store) && asked->out > 0);
        asked->out--;
        if (m->drive == fo->drive && op->result == 0)
                m->identity.features |= asked->bits;
        else if (m->drive == fo->drive && features_counts(m) && asked->rv == 0)
                asked->rv = op->result;
        asked->waiting &= ~eng_bit(fo->slot);
        features_consider(asked);
        if (asked->out == 0 && asked->done == NULL)
                free(asked);
}

static void features_ask(struct features_asked *asked, unsigned slot)
{
        struct features_op *fo = &asked->ops[slot];

        fo->asked = asked;
        fo->slot = slot;
        fo->drive = asked->store->members[slot].drive;
        fo->op.kind = ENG_OP_FEATURES;
        fo->op.flags = ENG_OP_RESERVE;
        fo->op.epoch = asked->store->coord->view.epoch;
        fo->op.done = features_answered;
        fo->op.features.bits = asked->bits;
        asked->out++;
        asked->waiting |= eng_bit(slot);
        eng_drive_submit(fo->drive, &fo->op);
}

void eng_features_set(struct eng_store *store, uint64_t bits, void (*done)(void *arg, int rv), void *arg)
{
        struct eng_coord *c = store->coord;
        eng_mask lack = 0;
        struct features_asked *asked;
        unsigned i;

        assert(eng_on_coordinator(store) && c->phase == ENG_PHASE_OPEN);
        c->features |= bits; /* first: drives that are handed a slot from here on have them */
        for (i = 0; i < store->drive_count; i++)
                if (features_counts(&store->members[i]) && (bits & ~store->members[i].identity.features) != 0)
                        lack |= eng_bit(i);
        if (lack == 0) {
                atomic_fetch_or(&store->features, bits);
                done(arg, 0);
                return;
        }
        asked = calloc(1, sizeof(*asked));
        if (asked == NULL) {
                done(arg, -ENOMEM);
                return;
        }
        asked->store = store;
        asked->bits = bits;
        asked->done = done;
        asked->arg = arg;
        asked->timer.expired = features_look;
        lp_timer_start(store->coord_loop->loop, &asked->timer, FEATURES_LOOK_NS);
        for (i = 0; i < store->drive_count; i++)
                if (lack & eng_bit(i))
                        features_ask(asked, i);
}

/* ---- asked for by others --------------------------------------------------------------------- */

/* owner: home until sent, then the coordinator until answered */
struct features_change {
        struct eng_change change;      /* first */
        uint64_t bits;
};

static void features_had(void *arg, int rv)
{
        eng_change_finish(arg, rv);
}

static void features_begin(struct eng_change *change)
{
        eng_features_set(change->store, ((struct features_change *)change)->bits, features_had, change);
}

static void features_free(struct eng_change *change)
{
        free(change);
}

void eng_features_want(struct eng_store *store, uint64_t bits, eng_done done, void *arg)
{
        struct features_change *change = calloc(1, sizeof(*change));

        if (change == NULL) {
                eng_early(store, (struct eng_early){.plain = done, .arg = arg, .rv = -ENOMEM});
                return;
        }
        change->bits = bits;
        change->change.begin = features_begin;
        change->change.drop = features_free;
        eng_change_send(&change->change, store, done, arg);
}
