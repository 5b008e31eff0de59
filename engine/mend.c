/*
 * mend.c - gives one object back the shards it lacks. The primary loop of its key; each loop repairs some at a time.
 *
 * It is read and encoded again. Shards for which its record names no drive go to drives that hold none of their run, and the record then says
 * so. Shards that it names on a drive which is being filled, and which that drive does not hold, are written there; and so are those that the
 * caller found damaged.
 *
 * The bytes come through get.c, so they are verified, rebuilt where need be, and pinned. The record is changed with
 * the key locked, and only if it is still that object.
 *
 * Heal, scrub and verification can all ask for the same object. One of them repairs it at a time (el->mends); the next one reads its
 * value anew. What was written in vain is discarded (I6) while the key is locked, on drives that the value read under that lock does not name
 * for it, and only where that value, or two members' word that there is none, was there to be read. After any other end nothing is discarded:
 * the sweep finds what no record names.
 */
#include "engine/mend.h"
#include "engine/stripe.h"
#include "engine/txn_util.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define MEND_OF(m, field) ((struct eng_mend *)((char *)(m) - offsetof(struct eng_mend, field)))

static void go_on(struct eng_mend *mend);

static unsigned shards_of(const struct eng_part *part)
{
        return part->head.k + part->head.m;
}

static unsigned named_drive(const struct eng_part *part, unsigned run, unsigned shard)
{
        return eng_part_slot(part, (size_t)run * shards_of(part) + shard);
}

/* ---- which shards, and where to -------------------------------------------------------------------------- */

static bool is_lacking(const struct eng_part *part, unsigned run, unsigned shard, eng_mask drives)
{
        unsigned slot = named_drive(part, run, shard);

        return slot >= ENG_DRIVES_MAX || (drives & eng_bit(slot)) != 0;
}

unsigned eng_mend_lack(const struct eng_part *part, eng_mask drives)
{
        unsigned run, shard, n, most = 0;

        for (run = 0; run < part->head.runs; run++) {
                for (n = 0, shard = 0; shard < shards_of(part); shard++)
                        n += is_lacking(part, run, shard, drives);
                most = n > most ? n : most;
        }
        return most;
}

static uint32_t stripes_of_run(const struct eng_part *part, unsigned run)
{
        uint32_t per = eng_stripes_per_run(part->head.k, part->head.unit), left = eng_part_stripes(&part->head) - run * per;

        return left < per ? left : per;
}

uint64_t eng_mend_lack_bytes(const struct eng_part *part, eng_mask drives)
{
        uint64_t bytes = 0;
        unsigned run, shard;

        for (run = 0; run < part->head.runs; run++)
                for (shard = 0; shard < shards_of(part); shard++)
                        if (is_lacking(part, run, shard, drives))
                                bytes += (uint64_t)stripes_of_run(part, run) * part->head.unit;
        return bytes;
}

/* No drive is named that is to keep it. */
static bool is_homeless(const struct eng_mend *mend, const struct eng_part *part, unsigned run, unsigned shard)
{
        return is_lacking(part, run, shard, mend->homeless);
}

/* A drive for each missing shard of one run, the preferred ones first. False: there is none for any of them. */
static bool plan_run(const struct eng_mend *mend, const struct eng_part *part, unsigned run, uint16_t *targets)
{
        const struct eng_placement *map = mend->el->view.map;
        uint32_t pg = eng_pg_of_run(mend->store->pg_count, part->head.id, run);
        const uint16_t *order = eng_placement_order(map, pg);
        eng_mask fit = mend->el->view.in & mend->el->view.up & ~mend->homeless;
        unsigned shard, next = 0;
        bool any = false;

        for (shard = 0; shard < shards_of(part); shard++)
                if (named_drive(part, run, shard) < ENG_DRIVES_MAX)
                        fit &= ~eng_bit(named_drive(part, run, shard));
        for (shard = 0; shard < shards_of(part); shard++) {
                targets[shard] = ENG_NO_DRIVE;
                if (!is_homeless(mend, part, run, shard))
                        continue;
                while (next < map->drives && !(fit & eng_bit(order[next])))
                        next++;
                if (next == map->drives)
                        continue;
                targets[shard] = order[next++];
                any = true;
        }
        return any;
}

static bool names_filling(const struct eng_mend *mend, const struct eng_part *part)
{
        unsigned i, n = part->head.runs * shards_of(part);

        for (i = 0; i < n; i++) {
                unsigned slot = named_drive(part, 0, i);

                if (slot < ENG_DRIVES_MAX && (mend->filling & eng_bit(slot)))
                        return true;
        }
        return false;
}

static bool has_bad(const struct eng_mend *mend, const struct eng_part *part)
{
        unsigned i;

        for (i = 0; i < mend->bad_count; i++)
                if (memcmp(mend->bad[i].id, part->head.id, FMT_ID) == 0)
                        return true;
        return false;
}

static int add_plan(struct eng_mend *mend, const struct eng_part *part, uint64_t offset)
{
        size_t n = (size_t)part->head.runs * shards_of(part);
        struct eng_mend_plan *plan = calloc(1, sizeof(*plan) + n * sizeof(uint16_t));
        unsigned run;

        if (plan == NULL)
                return -ENOMEM;
        plan->part = *part;
        plan->offset = offset;
        plan->words = (eng_stripes_per_run(part->head.k, part->head.unit) + 63) / 64;
        plan->held = NULL;
        for (run = 0; run < part->head.runs; run++)
                plan->wanted |= plan_run(mend, part, run, plan->targets + (size_t)run * shards_of(part));
        mend->named_new |= plan->wanted;
        plan->wanted |= has_bad(mend, part);
        if (names_filling(mend, part)) {
                plan->held = calloc(n * plan->words + 1, sizeof(plan->held[0]));
                if (plan->held == NULL) {
                        free(plan);
                        return -ENOMEM;
                }
        }
        STAILQ_INSERT_TAIL(&mend->plans, plan, link);
        return 0;
}

static int make_plans(struct eng_mend *mend)
{
        struct eng_part part;
        uint64_t offset = 0;
        size_t pos = 0;
        int rv = 0;

        while (rv == 0 && eng_value_next_part(mend->value->data, mend->value->len, &pos, &part) == 1) {
                if (eng_mend_lack(&part, mend->filling | mend->homeless) > 0 || has_bad(mend, &part))
                        rv = add_plan(mend, &part, offset);
                offset += part.head.size;
        }
        return rv;
}

static void free_plan(struct eng_mend_plan *plan)
{
        free(plan->held);
        free(plan);
}

/* ---- what drives that are being filled have already ----------------------------------------------------------- */

static void begin_writing(struct eng_mend *mend);
static void ask_on(struct eng_mend *mend);
static void finish(struct eng_mend *mend, int rv);
static void read_object(struct eng_mend *mend);

static uint64_t *held_bits(const struct eng_mend_plan *plan, unsigned run, unsigned shard)
{
        return plan->held + ((size_t)run * shards_of(&plan->part) + shard) * plan->words;
}

/* The drive that is being filled on which the record names this shard, or ENG_NO_DRIVE. */
static unsigned filling_drive(const struct eng_mend *mend, const struct eng_mend_plan *plan, unsigned run, unsigned shard)
{
        unsigned slot = plan->held == NULL ? ENG_NO_DRIVE : named_drive(&plan->part, run, shard);

        return slot < ENG_DRIVES_MAX && (mend->filling & eng_bit(slot)) ? slot : ENG_NO_DRIVE;
}

/* A data unit without a byte of the part is not stored anywhere. */
static bool is_stored(const struct eng_part *part, uint32_t stripe, unsigned shard)
{
        return shard >= part->head.k || shard < eng_stripe_units(&part->head, stripe);
}

static void answered(struct eng_op *op)
{
        struct eng_mend *mend = MEND_OF(op, ask);
        struct eng_mend_plan *plan = mend->plan;
        uint32_t per = eng_stripes_per_run(plan->part.head.k, plan->part.head.unit), i;
        uint64_t *bits = held_bits(plan, mend->ask_run, mend->ask_shard);

        if (op->result != 0 || mend->error != 0) {
                finish(mend, op->result != 0 ? op->result : mend->error);
                return;
        }
        for (i = 0; i < op->held.count; i++) {
                uint32_t at = mend->ask_stripe + i;

                if (op->held.bits[i / 64] >> (i % 64) & 1)
                        bits[at / 64] |= 1ull << (at % 64);
                else if (is_stored(&plan->part, mend->ask_run * per + at, mend->ask_shard))
                        plan->wanted = true;
        }
        mend->ask_stripe += op->held.count;
        ask_on(mend);
}

static void ask(struct eng_mend *mend, unsigned slot, uint32_t left)
{
        const struct eng_part *part = &mend->plan->part;
        struct eng_op *op = &mend->ask;

        memset(op, 0, sizeof(*op));
        op->kind = ENG_OP_HELD;
        op->epoch = mend->el->view.epoch;
        op->done = answered;
        memcpy(op->held.object_id, part->head.id, FMT_ID);
        op->held.stripe = mend->ask_run * eng_stripes_per_run(part->head.k, part->head.unit) + mend->ask_stripe;
        op->held.count = left < ENG_HELD_MAX ? left : ENG_HELD_MAX;
        op->held.shard = (uint8_t)mend->ask_shard;
        eng_drive_submit(mend->store->members[slot].drive, op);
}

/* Asks for the next shards of the plan under way; false: it has been asked for all. */
static bool ask_next(struct eng_mend *mend)
{
        const struct eng_part *part = &mend->plan->part;

        for (; mend->ask_run < part->head.runs; mend->ask_run++, mend->ask_shard = 0) {
                uint32_t stripes = stripes_of_run(part, mend->ask_run);

                for (; mend->ask_shard < shards_of(part); mend->ask_shard++, mend->ask_stripe = 0) {
                        unsigned slot = filling_drive(mend, mend->plan, mend->ask_run, mend->ask_shard);

                        if (slot == ENG_NO_DRIVE || mend->ask_stripe >= stripes)
                                continue;
                        ask(mend, slot, stripes - mend->ask_stripe);
                        return true;
                }
        }
        return false;
}

/* Goes through the plans; those of which nothing is to be written are dropped. */
static void ask_on(struct eng_mend *mend)
{
        struct eng_mend_plan *plan;

        while ((plan = mend->plan) != NULL) {
                if (plan->held != NULL && ask_next(mend))
                        return;
                mend->plan = STAILQ_NEXT(plan, link);
                mend->ask_run = mend->ask_shard = 0;
                mend->ask_stripe = 0;
                if (!plan->wanted) {
                        STAILQ_REMOVE(&mend->plans, plan, eng_mend_plan, link);
                        free_plan(plan);
                }
        }
        begin_writing(mend);
}

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
static void clear(struct eng_mend *mend)
{
        struct eng_mend_plan *plan;

        if (mend->listed)
                TAILQ_REMOVE(&mend->el->mends, mend, link);
        mend->listed = false;
        lp_timer_stop(mend->el->loop, &mend->timer);
        if (mend->queued)
                lp_reserve_cancel(mend->el->loop, &mend->reserve);
        mend->queued = false;
        if (mend->get != NULL)
                eng_get_close(mend->get);
        while ((plan = STAILQ_FIRST(&mend->plans)) != NULL) {
                STAILQ_REMOVE_HEAD(&mend->plans, link);
                free_plan(plan);
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
                clear(mend);
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
        uint64_t bytes = mend->written;
        int rv = mend->result;
        void *arg = mend->arg;

        free(mend);
        done(arg, rv, bytes);
}

static void came_home(struct lp_msg *msg)
{
        struct eng_mend *mend = MEND_OF(msg, msg);

        if (!mend->store->coord->stopping) /* else eng_mend_drop() frees it */
                mend_over(mend);
}

static void finish(struct eng_mend *mend, int rv)
{
        struct eng_store *store = mend->store;
        struct eng_mend *next;

        drop_slots(mend);
        clear(mend);
        mend->ended = true;
        mend->result = rv;
        next = find_mend(mend->el, &mend->name);
        if (next != NULL && !store->coord->stopping)
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
        clear(mend);
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
                finish(mend, mend->error);
}

/* ---- what was written in vain ------------------------------------------------------------------------------------- */

static void discard_on(struct eng_mend *mend);

/* Drives that this value names for shards of a part. */
static eng_mask named_by(const struct eng_buf *value, const uint8_t id[FMT_ID])
{
        struct eng_part part;
        eng_mask named = 0;
        size_t pos = 0;

        while (value != NULL && eng_value_next_part(value->data, value->len, &pos, &part) == 1)
                if (memcmp(part.head.id, id, FMT_ID) == 0)
                        named |= eng_part_drives(&part);
        return named;
}

/*
 * Drives that were given shards of the part by this mend alone. One that the value names for another run of it, then or now, keeps what it
 * has: that goes with the object.
 */
static eng_mask written_in_vain(const struct eng_mend *mend, const struct eng_mend_plan *plan)
{
        size_t i, n = (size_t)plan->part.head.runs * shards_of(&plan->part);
        eng_mask written = 0;

        for (i = 0; i < n; i++)
                if (plan->targets[i] != ENG_NO_DRIVE)
                        written |= eng_bit(plan->targets[i]);
        return written & mend->touched & ~eng_part_drives(&plan->part) & ~named_by(mend->txn.old, plan->part.head.id);
}

static void discarded(struct eng_op *op)
{
        struct eng_mend *mend = ((struct eng_mend_op *)op)->mend;

        if (atomic_fetch_sub(&mend->discards_out, 1) == 1 && !mend->store->coord->stopping)
                discard_on(mend); /* a failure leaves dead bytes, nothing worse */
}

static void discard_part(struct eng_mend *mend, const struct eng_mend_plan *plan)
{
        const struct eng_view *view = &mend->txn.at->view;
        eng_mask drives = written_in_vain(mend, plan) & view->up;
        unsigned i;

        for (i = 0; i < mend->store->drive_count; i++) {
                struct eng_mend_op *mo = &mend->ops[i];

                if (!(drives & eng_bit(i)))
                        continue;
                memset(mo, 0, sizeof(*mo));
                mo->mend = mend;
                mo->op.kind = ENG_OP_DISCARD;
                mo->op.flags = ENG_OP_RESERVE;
                mo->op.epoch = view->epoch;
                mo->op.done = discarded;
                memcpy(mo->op.discard.object_id, plan->part.head.id, FMT_ID);
                atomic_fetch_add(&mend->discards_out, 1);
                eng_drive_submit(mend->store->members[i].drive, &mo->op);
        }
}

/* The key stays locked until all drives have answered: nobody writes such a shard again while one is being discarded. */
static void discard_on(struct eng_mend *mend)
{
        while (mend->discarding != NULL) {
                const struct eng_mend_plan *plan = mend->discarding;

                mend->discarding = STAILQ_NEXT(plan, link);
                discard_part(mend, plan);
                if (atomic_load(&mend->discards_out) > 0)
                        return;
        }
        eng_txn_finish(&mend->txn, 0);
}

/* By what was read under the key's lock, no record will name what was written. sure: that there is no value is more than one member's word. */
static void written_for_nothing(struct eng_mend *mend, bool sure)
{
        mend->over = true;
        mend->discarding = sure ? STAILQ_FIRST(&mend->plans) : NULL;
        discard_on(mend);
}

/* ---- the record -------------------------------------------------------------------------------------------------- */

/* The value as it is now, naming the drives written to. NULL with *rv: -ENOENT if it does not hold those parts any more, or they lack no drive. */
static struct eng_buf *patch(const struct eng_mend *mend, const struct eng_buf *now, int *rv)
{
        struct eng_buf *out = eng_buf_new(now->len);
        struct eng_part part;
        unsigned patched = 0;
        size_t pos = 0;

        *rv = -ENOMEM;
        if (out == NULL)
                return NULL;
        memcpy(out->data, now->data, now->len);
        while (eng_value_next_part(now->data, now->len, &pos, &part) == 1) {
                const struct eng_mend_plan *plan;

                STAILQ_FOREACH(plan, &mend->plans, link) {
                        size_t at = (size_t)(part.drives - now->data), i, n = (size_t)part.head.runs * shards_of(&part);

                        if (memcmp(plan->part.head.id, part.head.id, FMT_ID) != 0)
                                continue;
                        for (i = 0; i < n; i++) {
                                if (plan->targets[i] == ENG_NO_DRIVE || !is_homeless(mend, &part, 0, (unsigned)i))
                                        continue;
                                eng_part_slot_set(out->data + at, part.width, i, plan->targets[i]);
                                patched++;
                        }
                }
        }
        *rv = patched != 0 ? 0 : -ENOENT;
        if (patched == 0) {
                eng_buf_unref(out);
                return NULL;
        }
        return out;
}

static void looked_up(struct eng_txn *txn, int rv)
{
        struct eng_mend *mend = MEND_OF(txn, txn);
        bool sure = rv == 0 || eng_words_sure(&txn->words);
        struct fmt_value *head;

        if (rv == 0)
                mend->patched = patch(mend, txn->old, &rv);
        if (rv == -ENOENT) {
                written_for_nothing(mend, sure);
                return;
        }
        if (rv == 0)
                rv = eng_body_begin(&txn->body, eng_body_need(txn->name.len, mend->patched->len, 0));
        if (rv != 0) {
                eng_txn_finish(txn, rv);
                return;
        }
        head = (struct fmt_value *)mend->patched->data;
        head->crc = 0;
        head->log_file = head->log_position = 0;
        eng_body_put(&txn->body, &txn->name, mend->patched, eng_txn_take_seq(txn), NULL, 0);
        eng_txn_append(txn);
}

static void prepare(struct eng_txn *txn)
{
        if (!eng_takes_changes(txn->store, &txn->at->view)) {
                eng_txn_finish(txn, -EROFS);
                return;
        }
        eng_name_object(&txn->name, txn->bucket, txn->key, txn->key_len);
        eng_txn_lookup(txn, 0, looked_up);
}

static void recorded(struct eng_txn *txn)
{
        finish(MEND_OF(txn, txn), txn->result);
}

static void record(struct eng_mend *mend)
{
        mend->txn.prepare = prepare;
        mend->txn.done = recorded;
        mend->txn.moves = true;
        mend->txn.internal = true; /* objects of a bucket that is being closed are repaired like all others */
        eng_txn_submit(&mend->txn);
}

static void written_all(struct eng_mend *mend)
{
        if (mend->named_new)
                record(mend);
        else
                finish(mend, 0); /* the record names those drives already */
}

static void synced(struct eng_op *op)
{
        struct eng_mend_op *mo = (struct eng_mend_op *)op;
        struct eng_mend *mend = mo->mend;

        if (op->result != 0 && mend->error == 0)
                mend->error = op->result;
        if (--mend->in_flight > 0 || mend->store->coord->stopping)
                return;
        if (mend->error != 0)
                finish(mend, mend->error);
        else
                written_all(mend);
}

/* Everything is written; now it is made durable, before a record may name it (I2). */
static void sync_all(struct eng_mend *mend)
{
        unsigned i;

        for (i = 0; i < mend->store->drive_count; i++)
                if ((mend->touched & eng_bit(i)) && mend->el->view.since[i] > mend->epoch) {
                        finish(mend, -ESTALE); /* that drive was opened anew meanwhile */
                        return;
                }
        mend->in_flight = 1;
        for (i = 0; i < mend->store->drive_count; i++) {
                struct eng_mend_op *mo = &mend->ops[i];

                if (!(mend->touched & eng_bit(i)))
                        continue;
                memset(mo, 0, sizeof(*mo));
                mo->mend = mend;
                mo->op.kind = ENG_OP_SYNC;
                mo->op.epoch = mend->el->view.epoch;
                mo->op.done = synced;
                mend->in_flight++;
                eng_drive_submit(mend->store->members[i].drive, &mo->op);
        }
        if (--mend->in_flight == 0)
                written_all(mend); /* parts without bytes */
}

/* ---- writing --------------------------------------------------------------------------------------------------------- */

static void written(struct eng_op *op)
{
        const struct eng_mend_op *mo = (struct eng_mend_op *)op;
        struct eng_mend *mend = mo->mend;

        if (op->result != 0 && mend->error == 0)
                mend->error = op->result;
        if (op->result == 0 && mend->digests != NULL && !mend->store->coord->stopping)
                eng_digest_add(&mend->digests[mo->target], op->write.object_id, op->write.stripe, op->write.shard, op->write.payload,
                               op->write.payload_len);
        if (--mend->in_flight == 0 && !mend->store->coord->stopping)
                go_on(mend);
}

static bool is_bad(const struct eng_mend *mend, unsigned shard)
{
        unsigned i;

        for (i = 0; i < mend->bad_count; i++)
                if (mend->bad[i].stripe == mend->stripe && mend->bad[i].shard == shard &&
                    memcmp(mend->bad[i].id, mend->plan->part.head.id, FMT_ID) == 0)
                        return true;
        return false;
}

/* The drive that the record names, if it can be written to. */
static unsigned named_fit(const struct eng_mend *mend, unsigned run, unsigned shard)
{
        unsigned slot = named_drive(&mend->plan->part, run, shard);

        return slot < ENG_DRIVES_MAX && (mend->el->view.in & mend->el->view.up & eng_bit(slot)) ? slot : ENG_NO_DRIVE;
}

/* The drive that is to have this shard of the stripe under way, or ENG_NO_DRIVE. */
static unsigned target_of(const struct eng_mend *mend, unsigned shard)
{
        const struct eng_mend_plan *plan = mend->plan;
        uint32_t per = eng_stripes_per_run(plan->part.head.k, plan->part.head.unit), at = mend->stripe % per;
        unsigned run = mend->stripe / per, slot = filling_drive(mend, plan, run, shard);

        if (is_bad(mend, shard))
                return named_fit(mend, run, shard);
        if (slot == ENG_NO_DRIVE)
                return plan->targets[(size_t)run * shards_of(&plan->part) + shard];
        return held_bits(plan, run, shard)[at / 64] >> (at % 64) & 1 ? ENG_NO_DRIVE : slot;
}

/* Writes one shard of the stripe if it is one of those that are missing. */
static void write_shard(struct eng_mend *mend, void *slot, unsigned shard)
{
        const struct eng_part *part = &mend->plan->part;
        unsigned target = target_of(mend, shard);
        struct eng_mend_op *mo = &mend->ops[shard];
        struct eng_op *op = &mo->op;

        if (target == ENG_NO_DRIVE)
                return;
        memset(mo, 0, sizeof(*mo));
        mo->mend = mend;
        mo->target = target;
        op->kind = ENG_OP_WRITE;
        op->epoch = mend->el->view.epoch;
        op->done = written;
        memcpy(op->write.object_id, part->head.id, FMT_ID);
        op->write.stripe = mend->stripe;
        op->write.shard = (uint8_t)shard;
        op->write.k = part->head.k;
        op->write.m = part->head.m;
        op->write.payload_len = mend->unit_len;
        op->write.key_hash = eng_hash_of_key(mend->txn.bucket, mend->txn.key, mend->txn.key_len);
        op->write.slot = slot;
        op->write.payload = (uint8_t *)slot + LP_SLOT_HEADER;
        mend->touched |= eng_bit(target);
        mend->paid = true;
        mend->written += mend->unit_len;
        eng_pacer_spend(&mend->store->pacer, lp_now(mend->el->loop), mend->unit_len);
        mend->in_flight++;
        eng_drive_submit(mend->store->members[target].drive, op);
}

static void begin_stripe(struct eng_mend *mend)
{
        const struct eng_part *part = &mend->plan->part;

        mend->unit_len = eng_part_unit(&part->head, mend->stripe);
        mend->stripe_left = eng_stripe_bytes(&part->head, mend->stripe);
        mend->unit_no = 0;
        mend->fill = 0;
        mend->paid = false;
}

static void end_unit(struct eng_mend *mend)
{
        const struct eng_part *part = &mend->plan->part;
        uint8_t *payload = (uint8_t *)mend->unit + LP_SLOT_HEADER, *parity[ERA_MAX_M];
        unsigned i;

        memset(payload + mend->fill, 0, mend->unit_len - mend->fill);
        for (i = 0; i < part->head.m; i++)
                parity[i] = (uint8_t *)mend->parity[i] + LP_SLOT_HEADER;
        if (part->head.m != 0)
                era_update(mend->code, mend->unit_len, mend->unit_no, mend->unit_no == 0, payload, parity);
        write_shard(mend, mend->unit, mend->unit_no);
        mend->unit_no++;
        mend->fill = 0;
        if (mend->stripe_left > 0)
                return;
        for (i = 0; i < part->head.m; i++)
                write_shard(mend, mend->parity[i], part->head.k + i);
        if (!mend->paid) /* it was read all the same */
                eng_pacer_spend(&mend->store->pacer, lp_now(mend->el->loop), mend->unit_len);
        mend->stripe++;
        mend->stripe_begun = false;
}

/* Copies what has come into the unit under way. */
static void take_span(struct eng_mend *mend)
{
        size_t n = mend->unit_len - mend->fill;

        if (n > mend->span_len)
                n = mend->span_len;
        if (n > mend->stripe_left)
                n = (size_t)mend->stripe_left;
        memcpy((uint8_t *)mend->unit + LP_SLOT_HEADER + mend->fill, mend->span, n);
        mend->span += n;
        mend->span_len -= n;
        mend->stripe_left -= n;
        mend->fill += (uint32_t)n;
        if (mend->fill == mend->unit_len || mend->stripe_left == 0)
                end_unit(mend);
}

/* ---- going through the parts -------------------------------------------------------------------------------------------- */

static void woken(void *arg)
{
        go_on(arg);
}

static int code_for(struct eng_mend *mend, const struct eng_part *part)
{
        era_code_free(mend->code);
        mend->code = NULL;
        return era_code_new(part->head.k, part->head.m, &mend->code);
}

/* 1: there is one; 0: that was the last. */
static int next_plan(struct eng_mend *mend)
{
        int rv;

        mend->plan = mend->plan == NULL ? STAILQ_FIRST(&mend->plans) : STAILQ_NEXT(mend->plan, link);
        mend->stripe = 0;
        mend->stripe_begun = false;
        mend->span_len = 0;
        if (mend->plan == NULL)
                return 0;
        if (mend->plan->part.head.m + 1u > mend->reserve.count)
                return -EINVAL;
        rv = code_for(mend, &mend->plan->part);
        if (rv == 0 && mend->plan->part.head.size > 0)
                rv = eng_get_start(mend->get, mend->plan->offset, mend->plan->part.head.size, woken, mend);
        return rv != 0 ? rv : 1;
}

static void paced(struct lp_timer *timer)
{
        go_on(MEND_OF(timer, timer));
}

/* True if the store's upkeep is ahead of its rate: it will be called again. */
static bool wait_for_rate(struct eng_mend *mend)
{
        uint64_t wait;

        eng_pacer_look(&mend->store->pacer, mend->el); /* who waits for repairs looks at nothing else meanwhile */
        wait = eng_pacer_wait(&mend->store->pacer, lp_now(mend->el->loop));
        mend->timer.expired = paced;
        if (wait > 0)
                lp_timer_start(mend->el->loop, &mend->timer, wait);
        return wait > 0;
}

/* 0: a span is at hand; 1: the part is through; else -EAGAIN or the error. */
static int next_span(struct eng_mend *mend)
{
        int rv;

        if (mend->stripe == eng_part_stripes(&mend->plan->part.head))
                return 1;
        if (!mend->stripe_begun) {
                if (wait_for_rate(mend))
                        return -EAGAIN;
                begin_stripe(mend);
                mend->stripe_begun = true;
        }
        if (mend->span_len > 0)
                return 0;
        rv = eng_get_next(mend->get, &mend->span, &mend->span_len);
        return rv == -ENODATA ? -EIO : rv;
}

static void go_on(struct eng_mend *mend)
{
        int rv = mend->error;

        while (rv == 0 && mend->in_flight == 0) {
                rv = mend->plan == NULL ? 1 : next_span(mend);
                if (rv == 0)
                        take_span(mend);
                else if (rv == 1) {
                        rv = next_plan(mend);
                        if (rv == 0) {
                                sync_all(mend);
                                return;
                        }
                        rv = rv == 1 ? 0 : rv;
                }
        }
        if (rv != 0 && rv != -EAGAIN && mend->in_flight == 0)
                finish(mend, rv);
        else if (rv != 0 && rv != -EAGAIN)
                mend->error = rv;
}

static void begin(struct eng_mend *mend)
{
        unsigned i;

        mend->granted = true;
        mend->unit = lp_slot_get(mend->el->loop);
        for (i = 0; i + 1 < mend->reserve.count; i++)
                mend->parity[i] = lp_slot_get(mend->el->loop);
        go_on(mend);
}

static void granted(struct lp_reserve *reserve)
{
        MEND_OF(reserve, reserve)->queued = false;
        begin(MEND_OF(reserve, reserve));
}

static void begin_writing(struct eng_mend *mend)
{
        int rv;

        if (STAILQ_EMPTY(&mend->plans)) {
                finish(mend, 0);
                return;
        }
        mend->reserve.count = mend->store->m + 1;
        mend->reserve.share = LP_SHARE_INTERNAL;
        mend->reserve.granted = granted;
        rv = lp_reserve(mend->el->loop, &mend->reserve);
        mend->queued = rv == -EAGAIN;
        if (rv == 0)
                begin(mend);
        else if (rv != -EAGAIN)
                finish(mend, rv);
}

static void opened(void *arg, int rv, struct eng_get *get)
{
        struct eng_mend *mend = arg;

        mend->get = rv == 0 ? get : NULL;
        if (rv == 0 && mend->error != 0)
                rv = mend->error;
        if (rv == 0 && eng_get_object(get)->size > 0) {
                mend->value = eng_buf_ref(eng_get_value(get));
                rv = make_plans(mend);
        }
        if (rv != 0) {
                finish(mend, rv == -ENOENT ? 0 : rv);
                return;
        }
        mend->plan = STAILQ_FIRST(&mend->plans);
        ask_on(mend);
}

/* Nobody else repairs it now. */
static void read_object(struct eng_mend *mend)
{
        const struct eng_name *name = &mend->name;

        mend->waits = false;
        mend->epoch = mend->el->view.epoch;
        mend->homeless = eng_placement_homeless(mend->el->view.map);
        mend->filling &= ~mend->homeless & mend->el->view.in & mend->el->view.up;
        mend->el->own_gets++;
        eng_get_open(mend->store, mend->txn.bucket, (struct eng_str){(const char *)name->data + 9, name->len - 9u}, opened, mend);
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

static void came(struct lp_msg *msg)
{
        struct eng_mend *mend = MEND_OF(msg, msg);

        if (!mend->store->coord->stopping)
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
        mend->msg.run = came;
        lp_post(mend->el->loop, &mend->msg);
        return mend;
}
