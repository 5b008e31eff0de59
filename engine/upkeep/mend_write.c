/*
 * mend_write.c - the bytes of a repair: stripes are read through get.c, encoded, written to the drives that are to have them, and made durable before a
 * record may name them (I2). At the pace of store->pacer. The primary loop of the key.
 */
#include "engine/object/object.h"
#include "engine/upkeep/mend_parts.h"
#include "engine/record/stripe.h"

#include <errno.h>
#include <string.h>

/* What next_span() answers beside errors. */
enum { SPAN, STEPPED, END };

static void mend_go_on(struct eng_mend *mend);

/* ---- writing --------------------------------------------------------------------------------------------------------- */

static void mend_written(struct eng_op *op)
{
        const struct eng_mend_op *mo = (struct eng_mend_op *)op;
        struct eng_mend *mend = mo->mend;

        if (op->result != 0 && mend->error == 0)
                mend->error = op->result;
        mend->written.shards += op->result == 0;
        if (op->result == 0 && mend->digests != NULL && !mend->store->stopping)
                eng_digest_add(&mend->digests[mo->target], op->write.object_id, op->write.stripe, op->write.shard, op->write.payload,
                               op->write.payload_len);
        if (--mend->in_flight == 0 && !mend->store->stopping)
                mend_go_on(mend);
}

static bool mend_is_bad(const struct eng_mend *mend, unsigned shard)
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
        unsigned moves_to = plan->targets[(size_t)run * eng_mend_shards_of(&plan->part) + shard];

        if (moves_to != ENG_NO_DRIVE)
                return moves_to; /* damaged or not: the record will name that one */
        if (mend_is_bad(mend, shard))
                return named_fit(mend, run, shard);
        if (slot == ENG_NO_DRIVE)
                return ENG_NO_DRIVE;
        return eng_mend_held_bits(plan, run, shard)[at / 64] >> (at % 64) & 1 ? ENG_NO_DRIVE : slot;
}

/* Writes one shard of the stripe if it is one of those that are missing. */
static void mend_write_shard(struct eng_mend *mend, void *slot, unsigned shard)
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
        mend->written.bytes += mend->unit_len;
        mend->in_flight++;
        eng_drive_submit(mend->store->members[target].drive, op);
}

static void mend_begin_stripe(struct eng_mend *mend)
{
        const struct eng_part *part = &mend->plan->part;

        mend->unit_len = eng_part_unit(&part->head, mend->stripe);
        mend->stripe_left = eng_stripe_bytes(&part->head, mend->stripe);
        mend->unit_no = 0;
        mend->fill = 0;
        mend->has_turn = false;
        mend->copied = 0;
}

static void end_stripe(struct eng_mend *mend)
{
        mend->stripe++;
        mend->stripe_begun = false;
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
        mend_write_shard(mend, mend->unit, mend->unit_no);
        mend->unit_no++;
        mend->fill = 0;
        if (mend->stripe_left > 0)
                return;
        for (i = 0; i < part->head.m; i++)
                mend_write_shard(mend, mend->parity[i], part->head.k + i);
        end_stripe(mend);
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

/* ---- stripes beyond repair ------------------------------------------------------------------------------------------------- */

static uint64_t start_of(const struct eng_mend *mend, uint32_t stripe)
{
        const struct fmt_part *part = &mend->plan->part.head;

        return mend->plan->offset + (uint64_t)stripe * part->k * part->unit;
}

static void mend_woken(void *arg)
{
        mend_go_on(arg);
}

/* What is left of the stripe before the one that is lost; or all that is behind it. */
static int restart_get(struct eng_mend *mend)
{
        uint64_t from = start_of(mend, mend->stripe) + eng_stripe_bytes(&mend->plan->part.head, mend->stripe) - mend->stripe_left;
        uint64_t end = mend->lost_stripe == NO_STRIPE ? mend->plan->offset + mend->plan->part.head.size : start_of(mend, mend->lost_stripe);
        int rv = eng_get_restart(mend->get, from, end - from, mend_woken, mend);

        mend->restart = rv == -EAGAIN;
        return rv;
}

static void mend_slot_left(struct lp_loop *home, void *slot)
{
        lp_slot_put(home, slot);
        lp_unreserve(home, LP_SHARE_INTERNAL, 1);
}

/* A shard of a lost stripe, from the drive that leaves; it is verified. */
static void mend_remnant_read(struct eng_op *op)
{
        struct eng_mend *mend = container_of(op, struct eng_mend, ask);

        mend->in_flight--;
        if (mend->store->stopping)
                return;
        if (op->read.slot == NULL) { /* the drive has failed, and keeps it until its I/O has ended */
                mend->unit = NULL;
                mend->reserve.count--;
        }
        if (op->result == 0 && mend->error == 0 && mend->unit != NULL)
                mend_write_shard(mend, mend->unit, op->read.shard);
        else if (op->result != -ENOENT && op->result != -EBADMSG && mend->error == 0)
                mend->error = op->result != 0 ? op->result : -EIO;
        mend->copied++;
        if (mend->in_flight == 0)
                mend_go_on(mend);
}

static void read_remnant(struct eng_mend *mend, unsigned slot)
{
        struct eng_op *op = &mend->ask;

        memset(op, 0, sizeof(*op));
        op->kind = ENG_OP_READ;
        op->epoch = mend->el->view.epoch;
        op->done = mend_remnant_read;
        memcpy(op->read.object_id, mend->plan->part.head.id, FMT_ID);
        op->read.stripe = mend->stripe;
        op->read.shard = (uint8_t)mend->copied;
        op->read.len = op->read.payload_len = mend->unit_len;
        op->read.slot = mend->unit;
        op->read.left = mend_slot_left;
        mend->in_flight++;
        eng_drive_submit(mend->store->members[slot].drive, op);
}

/*
 * The record is to name other drives for some shards of this run. Of a stripe that is lost they get what there is; there may be units with bytes that can still
 * be read. Where a drive does not answer nobody knows: it stays named. True: one is being copied, and it comes again.
 */
static bool copy_remnants(struct eng_mend *mend)
{
        const struct eng_part *part = &mend->plan->part;
        const struct eng_view *view = &mend->el->view;
        unsigned run = mend->stripe / eng_stripes_per_run(part->head.k, part->head.unit), n = eng_mend_shards_of(part);

        for (; mend->copied < n; mend->copied++) {
                uint16_t *target = &mend->plan->targets[(size_t)run * n + mend->copied];
                unsigned slot = eng_mend_named(part, run, mend->copied);

                if (*target == ENG_NO_DRIVE || !eng_mend_is_stored(part, mend->stripe, mend->copied) || slot >= mend->store->drive_count ||
                    (view->map->gone & eng_bit(slot)))
                        continue;
                if (view->in & view->up & eng_bit(slot)) {
                        read_remnant(mend, slot);
                        return true;
                }
                *target = ENG_NO_DRIVE;
                mend->kept = true;
        }
        return false;
}

/* 1: that was it; -EAGAIN: it comes again. */
static int pass_lost(struct eng_mend *mend)
{
        if (copy_remnants(mend))
                return -EAGAIN;
        mend->lost++;
        memcpy(mend->lost_id, mend->plan->part.head.id, FMT_ID);
        mend->lost_stripe = NO_STRIPE;
        mend->restart = true;
        end_stripe(mend);
        return 1;
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
        if (--mend->in_flight > 0 || mend->store->stopping)
                return;
        mend->durable = mend->error == 0;
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

static int mend_code_for(struct eng_mend *mend, const struct eng_part *part)
{
        era_code_free(mend->code);
        mend->code = NULL;
        return era_code_new(part->head.k, part->head.m, &mend->code);
}

/* STEPPED: there is one; END: that was the last; else the error. */
static int next_plan(struct eng_mend *mend)
{
        int rv;

        mend->plan = mend->plan == NULL ? STAILQ_FIRST(&mend->plans) : STAILQ_NEXT(mend->plan, link);
        mend->stripe = 0;
        mend->stripe_begun = false;
        mend->lost_stripe = NO_STRIPE;
        mend->span_len = 0;
        if (mend->plan == NULL)
                return END;
        if (mend->plan->part.head.m + 1u > mend->reserve.count)
                return -EINVAL;
        rv = mend_code_for(mend, &mend->plan->part);
        mend->restart = true;
        return rv != 0 ? rv : STEPPED;
}

static void mend_paced(struct lp_timer *timer)
{
        struct eng_mend *mend = container_of(timer, struct eng_mend, timer);

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

/* What kept it from being read: a stripe that is lost is passed when it is come to, and what is before it is read first. Else the error. */
static int get_failed(struct eng_mend *mend, int rv)
{
        const struct fmt_part *part = &mend->plan->part.head;
        uint64_t at;

        if (rv == -ENODATA)
                return -EIO;
        if (rv == -EAGAIN || !eng_get_lost(mend->get, &at))
                return rv;
        mend->lost_stripe = (uint32_t)((at - mend->plan->offset) / ((uint64_t)part->k * part->unit));
        mend->restart = mend->lost_stripe != mend->stripe;
        return STEPPED;
}

/* SPAN: one is at hand; STEPPED: it is to be called again; END: the part is through; else -EAGAIN or the error. */
static int next_span(struct eng_mend *mend)
{
        int rv;

        if (mend->stripe == eng_part_stripes(&mend->plan->part.head))
                return END;
        if (!mend->stripe_begun) {
                if (wait_for_rate(mend))
                        return -EAGAIN;
                mend_begin_stripe(mend);
                mend->stripe_begun = true;
        }
        if (mend->stripe == mend->lost_stripe) {
                rv = pass_lost(mend);
                return rv == 1 ? STEPPED : rv;
        }
        rv = mend->restart ? restart_get(mend) : 0;
        if (rv != 0)
                return rv;
        if (mend->span_len > 0)
                return SPAN;
        rv = eng_get_next(mend->get, &mend->span, &mend->span_len);
        return rv == 0 ? SPAN : get_failed(mend, rv);
}

static void mend_go_on(struct eng_mend *mend)
{
        int rv = mend->error, step;

        while (rv == 0 && mend->in_flight == 0) {
                step = mend->plan == NULL ? END : next_span(mend);
                if (step == SPAN)
                        take_span(mend);
                if (step == END)
                        step = next_plan(mend);
                if (step == END) {
                        sync_all(mend);
                        return;
                }
                rv = step < 0 ? step : 0;
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
        container_of(reserve, struct eng_mend, reserve)->queued = false;
        mend_begin(container_of(reserve, struct eng_mend, reserve));
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
