/*
 * mend.c - gives one object back the shards it lacks. The primary loop of its key; each loop repairs some at a time.
 *
 * It is read and encoded again. Shards for which its record names no drive go to drives that hold none of their run, and the record then says
 * so. Shards that it names on a drive which is being filled, and which that drive does not hold, are written there; and so are those that the
 * caller found damaged.
 *
 * What is to be written: mend_plan.c. Reading, encoding and writing: mend_write.c. The record: mend_record.c. Here: the life of a repair.
 *
 * The bytes come through get.c, so they are verified, rebuilt where need be, and pinned. The record is changed with
 * the key locked, and only if it is still that object.
 *
 * A stripe beyond repair, one of which more than m shards are gone, is passed by: all others are repaired, and the repair ends with -ENODATA. What is
 * left of such a stripe on drives that leave is copied as it is before the record names others (mend_write.c).
 *
 * Heal, scrub and verification can all ask for the same object. One of them repairs it at a time (el->mends); the next one reads its
 * value anew. What was written in vain is discarded (I6) while the key is locked, on drives that the value read under that lock does not name
 * for it, and only where that value, or two members' word that there is none, was there to be read. After any other end nothing is discarded:
 * the sweep finds what no record names.
 */
#include "engine/object/object.h"
#include "engine/upkeep/upkeep.h"
#include "engine/upkeep/lost_objects.h"
#include "engine/upkeep/mend_parts.h"
#include "engine/txn/txn_util.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static void read_object(struct eng_mend *mend);

/* ---- the end ------------------------------------------------------------------------------------------------- */

static void drop_slots(struct eng_mend *mend)
{
        struct lp_loop *loop = mend->el->loop;
        unsigned i;

        if (mend->unit != NULL)
                lp_slot_put(loop, mend->unit);
        for (i = 0; i < ERA_MAX_M; i++)
                if (mend->parity[i] != NULL)
                        lp_slot_put(loop, mend->parity[i]);
        if (mend->granted)
                lp_unreserve(loop, LP_SHARE_INTERNAL, mend->reserve.count);
        mend->granted = false;
}

/* Lets go of all it has but itself. Its operations that are out go on. */
static void mend_clear(struct eng_mend *mend)
{
        struct eng_mend_plan *plan;

        if (mend->listed)
                TAILQ_REMOVE(&mend->el->mends, mend, link);
        mend->listed = false;
        lp_timer_stop(mend->el->loop, &mend->timer);
        if (mend->has_turn)
                eng_pacer_give_back(&mend->store->pacer, &mend->turn);
        mend->has_turn = mend->awaits_turn = false;
        if (mend->queued)
                lp_reserve_cancel(mend->el->loop, &mend->reserve);
        mend->queued = false;
        if (mend->get != NULL)
                eng_get_close(mend->get);
        while ((plan = STAILQ_FIRST(&mend->plans)) != NULL) {
                STAILQ_REMOVE_HEAD(&mend->plans, link);
                eng_mend_free_plan(plan);
        }
        eng_buf_unref(mend->value);
        eng_buf_unref(mend->patched);
        era_code_free(mend->code);
        mend->get = NULL;
        mend->value = mend->patched = NULL;
        mend->code = NULL;
        eng_txn_abandon(&mend->txn);
        eng_txn_drop(&mend->txn);
}

void eng_mend_drop(struct eng_mend *mend)
{
        if (!mend->ended)
                mend_clear(mend);
        if (mend->in_flight == 0 && atomic_load(&mend->discards_out) == 0) {
                free(mend);
                return;
        }
        mend->error = -ECANCELED;
        mend->next_late = mend->store->coord->late_mends;
        mend->store->coord->late_mends = mend;
}

void eng_mend_free_late(struct eng_store *store)
{
        struct eng_mend *mend;

        while ((mend = store->coord->late_mends) != NULL) {
                store->coord->late_mends = mend->next_late;
                free(mend);
        }
}

static struct eng_mend *find_mend(struct eng_loop *el, const struct eng_name *name)
{
        struct eng_mend *mend;

        TAILQ_FOREACH(mend, &el->mends, link)
                if (mend->name.len == name->len && memcmp(mend->name.data, name->data, name->len) == 0)
                        break;
        return mend;
}

/* At home: it has been cleared on its own loop. */
static void mend_over(struct eng_mend *mend)
{
        eng_mend_done done = mend->done;
        struct eng_mend_written written = mend->written;
        int rv = mend->result;
        void *arg = mend->arg;

        if (!mend->durable)
                written.shards = 0;
        free(mend);
        done(arg, rv, written);
}

static void came_home(struct lp_msg *msg)
{
        struct eng_mend *mend = container_of(msg, struct eng_mend, msg);

        if (!mend->store->stopping) /* else eng_mend_drop() frees it */
                mend_over(mend);
}

/* All was done that could be: what that is for an object with stripes beyond repair. */
static int mend_verdict(const struct eng_mend *mend)
{
        struct eng_mend_plan *plan;

        if (mend->value == NULL || mend->replaced)
                return 0;
        if (mend->lost > 0) {
                eng_lost_object_found(mend->el, &mend->name, eng_value_head(mend->value->data)->id, mend->lost_id, !mend->kept);
                return mend->kept ? -EHOSTDOWN : -ENODATA;
        }
        STAILQ_FOREACH(plan, &mend->plans, link)
                eng_lost_object_readable(mend->el, plan->part.head.id);
        return 0;
}

void eng_mend_finish(struct eng_mend *mend, int rv)
{
        struct eng_store *store = mend->store;
        struct eng_mend *next;

        if (rv == 0)
                rv = mend_verdict(mend); /* before the get is closed: what it reads is not given back until then, and with that forgotten */
        drop_slots(mend);
        mend_clear(mend);
        mend->ended = true;
        mend->result = rv;
        next = find_mend(mend->el, &mend->name);
        if (next != NULL && !store->stopping)
                read_object(next);
        if (mend->home == mend->el) {
                mend_over(mend);
                return;
        }
        mend->msg.run = came_home;
        lp_post(mend->home->loop, &mend->msg);
}

/* What waits for its turn behind another one is none that others wait for. */
static void leave_line(struct eng_mend *mend)
{
        mend_clear(mend);
        mend->ended = true;
        mend->result = mend->error;
        mend_over(mend);
}

void eng_mend_cancel(struct eng_mend *mend)
{
        if (mend->ended || (mend->granted && mend->plan == NULL)) /* all is written: it ends by itself */
                return;
        if (mend->error == 0)
                mend->error = -ECANCELED;
        if (mend->waits)
                leave_line(mend);
        else if (mend->queued || (mend->granted && mend->in_flight == 0)) /* it waits for slots, its rate, or what is read */
                eng_mend_give_up(mend, mend->error);
}

static void mend_opened(void *arg, int rv, struct eng_get *get)
{
        struct eng_mend *mend = arg;

        mend->get = rv == 0 ? get : NULL;
        if (rv == 0 && mend->error != 0)
                rv = mend->error;
        if (rv == 0 && eng_get_object(get)->size > 0) {
                mend->value = eng_buf_ref(eng_get_value(get));
                rv = eng_mend_make_plans(mend);
        }
        if (rv != 0) {
                eng_mend_finish(mend, rv == -ENOENT ? 0 : rv);
                return;
        }
        eng_mend_ask_held(mend);
}

/* Nobody else repairs it now. */
static void read_object(struct eng_mend *mend)
{
        const struct eng_name *name = &mend->name;

        mend->waits = false;
        mend->lost_stripe = NO_STRIPE;
        mend->epoch = mend->el->view.epoch;
        mend->homeless = eng_placement_homeless(mend->el->view.map);
        mend->filling &= ~mend->homeless & mend->el->view.in & mend->el->view.up;
        mend->el->own_gets++;
        eng_get_open(mend->store, mend->txn.bucket, (struct eng_str){(const char *)name->data + 9, name->len - 9u}, mend_opened, mend);
}

/* On its own loop. */
static void take_turn(struct eng_mend *mend)
{
        mend->waits = find_mend(mend->el, &mend->name) != NULL;
        TAILQ_INSERT_TAIL(&mend->el->mends, mend, link);
        mend->listed = true;
        if (!mend->waits)
                read_object(mend);
}

static void mend_came(struct lp_msg *msg)
{
        struct eng_mend *mend = container_of(msg, struct eng_mend, msg);

        if (!mend->store->stopping)
                take_turn(mend);
}

struct eng_mend *eng_mend_start(struct eng_store *store, const struct eng_mend_order *order, eng_mend_done done, void *arg)
{
        struct eng_mend *mend = calloc(1, sizeof(*mend));
        const struct eng_name *name = order->name;
        uint64_t bucket;

        if (mend == NULL)
                return NULL;
        memcpy(&bucket, name->data + 1, 8);
        mend->store = store;
        mend->home = eng_here(store);
        mend->name = *name;
        mend->filling = order->filling;
        mend->digests = order->digests;
        mend->bad = order->bad;
        mend->bad_count = order->bad_count;
        mend->done = done;
        mend->arg = arg;
        STAILQ_INIT(&mend->plans);
        eng_txn_init(&mend->txn, store, be64toh(bucket), name->data + 9, name->len - 9u);
        mend->el = eng_primary(store, mend->txn.pg);
        assert(order->digests == NULL || mend->el == mend->home);
        if (mend->el == mend->home) {
                take_turn(mend);
                return mend;
        }
        mend->msg.run = mend_came;
        lp_post(mend->el->loop, &mend->msg);
        return mend;
}
