/*
 * mend_write.c - the bytes of a repair: stripes are read through get.c, encoded, written to the drives that are to have them, and made durable before a
 * record may name them (I2). At the pace of store->pacer. The primary loop of the key.
 */
#include "engine/mend_parts.h"
#include "engine/stripe.h"

#include <errno.h>
#include <string.h>

static void mend_go_on(struct eng_mend *mend);

/* ---- writing --------------------------------------------------------------------------------------------------------- */

static void mend_written(struct eng_op *op)
{
        const struct eng_mend_op *mo = (struct eng_mend_op *)op;
        struct eng_mend *mend = mo->mend;

        if (op->result != 0 && mend->error == 0)
                mend->error = op->result;
        if (op->result == 0 && mend->digests != NULL && !mend->store->coord->stopping)
                eng_digest_add(&mend->digests[mo->target], op->write.object_id, op->write.stripe, op->write.shard, op->write.payload,
                               op->write.payload_len);
        if (--mend->in_flight == 0 && !mend->store->coord->stopping)
                mend_go_on(mend);
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
        unsigned slot = eng_mend_named(&mend->plan->part, run, shard);

        return slot < ENG_DRIVES_MAX && (mend->el->view.in & mend->el->view.up & eng_bit(slot)) ? slot : ENG_NO_DRIVE;
}

/* The drive that is to have this shard of the stripe under way, or ENG_NO_DRIVE. */
static unsigned target_of(const struct eng_mend *mend, unsigned shard)
{
        const struct eng_mend_plan *plan = mend->plan;
        uint32_t per = eng_stripes_per_run(plan->part.head.k, plan->part.head.unit), at = mend->stripe % per;
        unsigned run = mend->stripe / per, slot = eng_mend_filling_drive(mend, plan, run, shard);

        if (is_bad(mend, shard))
                return named_fit(mend, run, shard);
        if (slot == ENG_NO_DRIVE)
                return plan->targets[(size_t)run * eng_mend_shards_of(&plan->part) + shard];
        return eng_mend_held_bits(plan, run, shard)[at / 64] >> (at % 64) & 1 ? ENG_NO_DRIVE : slot;
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
        op->done = mend_written;
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
        mend->written += mend->unit_len;
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
        mend->has_turn = false;
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

/* ---- making it durable ------------------------------------------------------------------------------------------------ */

static void written_all(struct eng_mend *mend)
{
        if (mend->named_new)
                eng_mend_record(mend);
        else
                eng_mend_finish(mend, 0); /* the record names those drives already */
}

static void mend_synced(struct eng_op *op)
{
        struct eng_mend_op *mo = (struct eng_mend_op *)op;
        struct eng_mend *mend = mo->mend;

        if (op->result != 0 && mend->error == 0)
                mend->error = op->result;
        if (--mend->in_flight > 0 || mend->store->coord->stopping)
                return;
        if (mend->error != 0)
                eng_mend_finish(mend, mend->error);
        else
                written_all(mend);
}

/* mend_synced() comes for each, unless there are none. */
static void sync_drives(struct eng_mend *mend, eng_mask drives)
{
        unsigned i;

        mend->in_flight = 1;
        for (i = 0; i < mend->store->drive_count; i++) {
                struct eng_mend_op *mo = &mend->ops[i];

                if (!(drives & eng_bit(i)))
                        continue;
                memset(mo, 0, sizeof(*mo));
                mo->mend = mend;
                mo->op.kind = ENG_OP_SYNC;
                mo->op.epoch = mend->el->view.epoch;
                mo->op.done = mend_synced;
                mend->in_flight++;
                eng_drive_submit(mend->store->members[i].drive, &mo->op);
        }
        mend->in_flight--;
}

/* What was written is named by a record if it was written anew, and may stand before a copy that was durable: it is flushed whatever comes of the rest (I2). */
void eng_mend_give_up(struct eng_mend *mend, int rv)
{
        mend->error = rv;
        sync_drives(mend, mend->touched & mend->el->view.in & mend->el->view.up);
        if (mend->in_flight == 0)
                eng_mend_finish(mend, rv);
}

/* Everything is written; now it is made durable, before a record may name it (I2). */
static void sync_all(struct eng_mend *mend)
{
        unsigned i;

        for (i = 0; i < mend->store->drive_count; i++)
                if ((mend->touched & eng_bit(i)) && mend->el->view.since[i] > mend->epoch) {
                        eng_mend_give_up(mend, -ESTALE); /* that drive was opened anew meanwhile */
                        return;
                }
        sync_drives(mend, mend->touched);
        if (mend->in_flight == 0)
                written_all(mend); /* parts without bytes */
}

/* ---- going through the parts -------------------------------------------------------------------------------------------- */

static void mend_woken(void *arg)
{
        mend_go_on(arg);
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
                rv = eng_get_start(mend->get, mend->plan->offset, mend->plan->part.head.size, mend_woken, mend);
        return rv != 0 ? rv : 1;
}

static void mend_paced(struct lp_timer *timer)
{
        struct eng_mend *mend = MEND_OF(timer, timer);

        mend->awaits_turn = false;
        mend_go_on(mend);
}

/* Bytes that the next stripe is paid for with: what will be written; if that is nothing, it is read all the same. */
static uint64_t stripe_cost(const struct eng_mend *mend)
{
        const struct eng_part *part = &mend->plan->part;
        unsigned shard, n = 0;

        for (shard = 0; shard < eng_mend_shards_of(part); shard++)
                n += eng_mend_is_stored(part, mend->stripe, shard) && target_of(mend, shard) != ENG_NO_DRIVE;
        return (uint64_t)(n == 0 ? 1 : n) * eng_part_unit(&part->head, mend->stripe);
}

/* True until its turn among all of the store's upkeep has come: it will be called again. */
static bool wait_for_rate(struct eng_mend *mend)
{
        struct eng_pacer *pacer = &mend->store->pacer;
        struct lp_loop *loop = mend->el->loop;
        uint64_t wait;

        if (mend->has_turn)
                return mend->awaits_turn;
        eng_pacer_look(pacer, mend->el); /* who waits for repairs looks at nothing else meanwhile */
        wait = eng_pacer_take(pacer, &mend->turn, lp_now(loop), stripe_cost(mend));
        mend->has_turn = true;
        mend->awaits_turn = wait > 0;
        mend->timer.expired = mend_paced;
        if (mend->awaits_turn)
                lp_timer_start(loop, &mend->timer, wait);
        return mend->awaits_turn;
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

static void mend_go_on(struct eng_mend *mend)
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
                eng_mend_give_up(mend, rv);
        else if (rv != 0 && rv != -EAGAIN)
                mend->error = rv;
}

static void mend_begin(struct eng_mend *mend)
{
        unsigned i;

        mend->granted = true;
        mend->unit = lp_slot_get(mend->el->loop);
        for (i = 0; i + 1 < mend->reserve.count; i++)
                mend->parity[i] = lp_slot_get(mend->el->loop);
        mend_go_on(mend);
}

static void mend_granted(struct lp_reserve *reserve)
{
        MEND_OF(reserve, reserve)->queued = false;
        mend_begin(MEND_OF(reserve, reserve));
}

void eng_mend_begin_writing(struct eng_mend *mend)
{
        int rv;

        if (STAILQ_EMPTY(&mend->plans)) {
                eng_mend_finish(mend, 0);
                return;
        }
        mend->reserve.count = mend->store->m + 1;
        mend->reserve.share = LP_SHARE_INTERNAL;
        mend->reserve.granted = mend_granted;
        rv = lp_reserve(mend->el->loop, &mend->reserve);
        mend->queued = rv == -EAGAIN;
        if (rv == 0)
                mend_begin(mend);
        else if (rv != -EAGAIN)
                eng_mend_finish(mend, rv);
}
