/*
 * rebuild_write.c - the bytes of a repair: stripes are read through get.c, encoded, written to the
 * drives that are to have them, and made durable before a record may name them (I2). At the pace of
 * store->pacer. The primary loop of the key.
 */
#include "engine/object/object.h"
#include "engine/upkeep/lost_objects.h"
#include "engine/upkeep/rebuild_parts.h"
#include "engine/record/stripe.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

/* What next_span() answers beside errors. */
enum { SPAN, STEPPED, END };

static void rebuild_go_on(struct eng_rebuild *rebuild);

/* ---- writing --------------------------------------------------------------------------------- */

static void rebuild_written(struct eng_op *op)
{
        const struct eng_rebuild_op *mo = (struct eng_rebuild_op *)op;
        struct eng_rebuild *rebuild = mo->rebuild;

        assert(rebuild->in_flight > 0);
        if (op->result != 0 && rebuild->error == 0)
                rebuild->error = op->result;
        rebuild->written.shards += op->result == 0;
        if (op->result == 0 && rebuild->digests != NULL && !rebuild->store->stopping)
                eng_digest_add(&rebuild->digests[mo->target], op->write.object_id, op->write.stripe, op->write.shard, op->write.payload,
                               op->write.payload_len);
        if (--rebuild->in_flight == 0 && !rebuild->store->stopping)
                rebuild_go_on(rebuild);
}

static bool rebuild_is_bad(const struct eng_rebuild *rebuild, unsigned shard)
{
        unsigned i;

        for (i = 0; i < rebuild->bad_count; i++)
                if (rebuild->bad[i].stripe == rebuild->stripe && rebuild->bad[i].shard == shard &&
                    memcmp(rebuild->bad[i].id, rebuild->plan->part.head.id, FMT_ID) == 0)
                        return true;
        return false;
}

/* The drive that the record names, if it can be written to. */
static unsigned named_fit(const struct eng_rebuild *rebuild, unsigned run, unsigned shard)
{
        unsigned slot = eng_rebuild_named(&rebuild->plan->part, run, shard);

        return slot < ENG_DRIVES_MAX && (rebuild->el->view.in & rebuild->el->view.up & eng_bit(slot)) ? slot : ENG_NO_DRIVE;
}

/* The drive that is to have this shard of the stripe under way, or ENG_NO_DRIVE. */
static unsigned target_of(const struct eng_rebuild *rebuild, unsigned shard)
{
        const struct eng_rebuild_plan *plan = rebuild->plan;
        uint32_t per = eng_stripes_per_run(plan->part.head.k, plan->part.head.unit), at = rebuild->stripe % per;
        unsigned run = rebuild->stripe / per, slot = eng_rebuild_filling_drive(rebuild, plan, run, shard);
        unsigned moves_to = plan->targets[(size_t)run * eng_rebuild_shards_of(&plan->part) + shard];

        if (moves_to != ENG_NO_DRIVE)
                return moves_to; /* damaged or not: the record will name that one */
        if (rebuild_is_bad(rebuild, shard))
                return named_fit(rebuild, run, shard);
        if (slot == ENG_NO_DRIVE)
                return ENG_NO_DRIVE;
        return eng_rebuild_held_bits(plan, run, shard)[at / 64] >> (at % 64) & 1 ? ENG_NO_DRIVE : slot;
}

/* Writes one shard of the stripe if it is one of those that are missing. */
static void rebuild_write_shard(struct eng_rebuild *rebuild, void *slot, unsigned shard)
{
        const struct eng_part *part = &rebuild->plan->part;
        unsigned target = target_of(rebuild, shard);
        struct eng_rebuild_op *mo = &rebuild->ops[shard];
        struct eng_op *op = &mo->op;

        assert(shard < eng_rebuild_shards_of(part) && rebuild->granted && slot != NULL);
        if (target == ENG_NO_DRIVE)
                return;
        memset(mo, 0, sizeof(*mo));
        mo->rebuild = rebuild;
        mo->target = target;
        op->kind = ENG_OP_WRITE;
        op->epoch = rebuild->el->view.epoch;
        op->done = rebuild_written;
        memcpy(op->write.object_id, rebuild->plan->id, FMT_ID);
        op->write.stripe = rebuild->stripe;
        op->write.shard = (uint8_t)shard;
        op->write.k = part->head.k;
        op->write.m = part->head.m;
        op->write.payload_len = rebuild->unit_len;
        op->write.key_hash = eng_hash_of_key(rebuild->txn.bucket, rebuild->txn.key, rebuild->txn.key_len);
        op->write.slot = slot;
        op->write.payload = (uint8_t *)slot + LP_SLOT_HEADER;
        rebuild->touched |= eng_bit(target);
        rebuild->written.bytes += rebuild->unit_len;
        rebuild->in_flight++;
        eng_drive_submit(rebuild->store->members[target].drive, op);
}

static void rebuild_begin_stripe(struct eng_rebuild *rebuild)
{
        const struct eng_part *part = &rebuild->plan->part;

        assert(!rebuild->stripe_begun && rebuild->has_turn && !rebuild->awaits_turn);
        rebuild->unit_len = eng_part_unit(&part->head, rebuild->stripe);
        rebuild->stripe_left = eng_stripe_bytes(&part->head, rebuild->stripe);
        rebuild->unit_no = 0;
        rebuild->fill = 0;
        rebuild->has_turn = false;
        rebuild->copied = 0;
}

static void end_stripe(struct eng_rebuild *rebuild)
{
        assert(rebuild->stripe_begun);
        rebuild->stripe++;
        rebuild->stripe_begun = false;
}

static void end_unit(struct eng_rebuild *rebuild)
{
        const struct eng_part *part = &rebuild->plan->part;
        uint8_t *payload = (uint8_t *)rebuild->unit + LP_SLOT_HEADER, *parity[ERA_MAX_M];
        unsigned i;

        assert(rebuild->fill <= rebuild->unit_len && rebuild->unit_no < part->head.k);
        memset(payload + rebuild->fill, 0, rebuild->unit_len - rebuild->fill);
        for (i = 0; i < part->head.m; i++)
                parity[i] = (uint8_t *)rebuild->parity[i] + LP_SLOT_HEADER;
        if (part->head.m != 0)
                era_update(rebuild->code, rebuild->unit_len, rebuild->unit_no, rebuild->unit_no == 0, payload, parity);
        rebuild_write_shard(rebuild, rebuild->unit, rebuild->unit_no);
        rebuild->unit_no++;
        rebuild->fill = 0;
        if (rebuild->stripe_left > 0)
                return;
        for (i = 0; i < part->head.m; i++)
                rebuild_write_shard(rebuild, rebuild->parity[i], part->head.k + i);
        end_stripe(rebuild);
}

/* Copies what has come into the unit under way. */
static void take_span(struct eng_rebuild *rebuild)
{
        size_t n = rebuild->unit_len - rebuild->fill;

        assert(rebuild->span_len > 0 && rebuild->stripe_left > 0);
        if (n > rebuild->span_len)
                n = rebuild->span_len;
        if (n > rebuild->stripe_left)
                n = (size_t)rebuild->stripe_left;
        memcpy((uint8_t *)rebuild->unit + LP_SLOT_HEADER + rebuild->fill, rebuild->span, n);
        rebuild->span += n;
        rebuild->span_len -= n;
        rebuild->stripe_left -= n;
        rebuild->fill += (uint32_t)n;
        if (rebuild->fill == rebuild->unit_len || rebuild->stripe_left == 0)
                end_unit(rebuild);
}

/* ---- stripes beyond repair ------------------------------------------------------------------- */

static uint64_t start_of(const struct eng_rebuild *rebuild, uint32_t stripe)
{
        const struct fmt_part *part = &rebuild->plan->part.head;

        return rebuild->plan->offset + (uint64_t)stripe * part->k * part->unit;
}

static void rebuild_woken(void *arg)
{
        rebuild_go_on(arg);
}

/* What is left of the stripe before the one that is lost; or all that is behind it. */
static int restart_get(struct eng_rebuild *rebuild)
{
        uint64_t from = start_of(rebuild, rebuild->stripe) + eng_stripe_bytes(&rebuild->plan->part.head, rebuild->stripe) - rebuild->stripe_left;
        uint64_t end = rebuild->lost_stripe == NO_STRIPE ? rebuild->plan->offset + rebuild->plan->part.head.size : start_of(rebuild, rebuild->lost_stripe);
        int rv = eng_get_restart(rebuild->get, from, end - from, rebuild_woken, rebuild);

        rebuild->restart = rv == -EAGAIN;
        return rv;
}

static void rebuild_slot_left(struct lp_loop *home, void *slot)
{
        lp_slot_put(home, slot);
        lp_unreserve(home, LP_SHARE_INTERNAL, 1);
}

/* A shard of a lost stripe, from the drive that leaves; it is verified. */
static void rebuild_remnant_read(struct eng_op *op)
{
        struct eng_rebuild *rebuild = container_of(op, struct eng_rebuild, ask);

        assert(rebuild->in_flight > 0);
        rebuild->in_flight--;
        if (rebuild->store->stopping)
                return;
        if (op->read.slot == NULL) { /* the drive has failed, and keeps it until its I/O has ended */
                rebuild->unit = NULL;
                rebuild->reserve.count--;
                if (rebuild->error == 0) /* one that is only late says no more than that it cannot be read (drive/watch.c); without the slot nothing goes on */
                        rebuild->error = -EIO;
        }
        if (op->result == 0 && rebuild->error == 0 && rebuild->unit != NULL)
                rebuild_write_shard(rebuild, rebuild->unit, op->read.shard);
        else if (op->result != -ENOENT && op->result != -EBADMSG && rebuild->error == 0)
                rebuild->error = op->result != 0 ? op->result : -EIO;
        rebuild->copied++;
        if (rebuild->in_flight == 0)
                rebuild_go_on(rebuild);
}

static void read_remnant(struct eng_rebuild *rebuild, unsigned slot)
{
        struct eng_op *op = &rebuild->ask;

        memset(op, 0, sizeof(*op));
        op->kind = ENG_OP_READ;
        op->epoch = rebuild->el->view.epoch;
        op->done = rebuild_remnant_read;
        memcpy(op->read.object_id, rebuild->plan->part.head.id, FMT_ID);
        op->read.stripe = rebuild->stripe;
        op->read.shard = (uint8_t)rebuild->copied;
        op->read.len = op->read.payload_len = rebuild->unit_len;
        op->read.slot = rebuild->unit;
        op->read.left = rebuild_slot_left;
        rebuild->in_flight++;
        eng_drive_submit(rebuild->store->members[slot].drive, op);
}

/*
 * The record is to name other drives for some shards of this run. Of a stripe that is lost they get
 * what there is; there may be units with bytes that can still be read. Where a drive does not
 * answer nobody knows: it stays named. True: one is being copied, and it comes again.
 */
static bool copy_remnants(struct eng_rebuild *rebuild)
{
        const struct eng_part *part = &rebuild->plan->part;
        const struct eng_view *view = &rebuild->el->view;
        unsigned run = rebuild->stripe / eng_stripes_per_run(part->head.k, part->head.unit), n = eng_rebuild_shards_of(part);

        for (; rebuild->copied < n; rebuild->copied++) {
                uint16_t *target = &rebuild->plan->targets[(size_t)run * n + rebuild->copied];
                unsigned slot = eng_rebuild_named(part, run, rebuild->copied);

                if (*target == ENG_NO_DRIVE || !eng_rebuild_is_stored(part, rebuild->stripe, rebuild->copied) || slot >= rebuild->store->drive_count ||
                    (view->map->gone & eng_bit(slot)))
                        continue;
                if (view->in & view->up & eng_bit(slot)) {
                        read_remnant(rebuild, slot);
                        return true;
                }
                *target = ENG_NO_DRIVE;
                rebuild->kept = true;
        }
        return false;
}

/* 1: that was it; -EAGAIN: it comes again. */
static int pass_lost(struct eng_rebuild *rebuild)
{
        assert(rebuild->stripe == rebuild->lost_stripe);
        if (copy_remnants(rebuild))
                return -EAGAIN;
        rebuild->lost++;
        memcpy(rebuild->lost_id, rebuild->plan->part.head.id, FMT_ID);
        rebuild->lost_stripe = NO_STRIPE;
        rebuild->restart = true;
        end_stripe(rebuild);
        return 1;
}

/* ---- making it durable ----------------------------------------------------------------------- */

static void written_all(struct eng_rebuild *rebuild)
{
        assert(rebuild->error == 0 && rebuild->in_flight == 0);
        if (rebuild->named_new)
                eng_rebuild_record(rebuild);
        else
                eng_rebuild_finish(rebuild, 0); /* the record names those drives already */
}

static void rebuild_synced(struct eng_op *op)
{
        struct eng_rebuild_op *mo = (struct eng_rebuild_op *)op;
        struct eng_rebuild *rebuild = mo->rebuild;

        assert(rebuild->in_flight > 0);
        if (op->result != 0 && rebuild->error == 0)
                rebuild->error = op->result;
        if (--rebuild->in_flight > 0 || rebuild->store->stopping)
                return;
        rebuild->durable = rebuild->error == 0;
        if (rebuild->error != 0)
                eng_rebuild_finish(rebuild, rebuild->error);
        else
                written_all(rebuild);
}

/* rebuild_synced() comes for each, unless there are none. */
static void sync_drives(struct eng_rebuild *rebuild, eng_mask drives)
{
        unsigned i;

        assert(rebuild->in_flight == 0);
        rebuild->in_flight = 1;
        for (i = 0; i < rebuild->store->drive_count; i++) {
                struct eng_rebuild_op *mo = &rebuild->ops[i];

                if (!(drives & eng_bit(i)))
                        continue;
                memset(mo, 0, sizeof(*mo));
                mo->rebuild = rebuild;
                mo->op.kind = ENG_OP_SYNC;
                mo->op.epoch = rebuild->el->view.epoch;
                mo->op.done = rebuild_synced;
                rebuild->in_flight++;
                eng_drive_submit(rebuild->store->members[i].drive, &mo->op);
        }
        rebuild->in_flight--;
}

/*
 * What was written is named by a record if it was written anew, and may stand before a copy that
 * was durable: it is flushed whatever comes of the rest (I2).
 */
void eng_rebuild_give_up(struct eng_rebuild *rebuild, int rv)
{
        assert(rv != 0);
        rebuild->error = rv;
        sync_drives(rebuild, rebuild->touched & rebuild->el->view.in & rebuild->el->view.up);
        if (rebuild->in_flight == 0)
                eng_rebuild_finish(rebuild, rv);
}

/* Everything is written; now it is made durable, before a record may name it (I2). */
static void sync_all(struct eng_rebuild *rebuild)
{
        if (eng_rebuild_touched_anew(rebuild, &rebuild->el->view)) {
                eng_rebuild_give_up(rebuild, -ESTALE);
                return;
        }
        sync_drives(rebuild, rebuild->touched);
        if (rebuild->in_flight == 0)
                written_all(rebuild); /* parts without bytes */
}

/* ---- going through the parts ----------------------------------------------------------------- */

static int rebuild_code_for(struct eng_rebuild *rebuild, const struct eng_part *part)
{
        era_code_free(rebuild->code);
        rebuild->code = NULL;
        return era_code_new(part->head.k, part->head.m, &rebuild->code);
}

/* STEPPED: there is one; END: that was the last; else the error. */
static int next_plan(struct eng_rebuild *rebuild)
{
        int rv;

        rebuild->plan = rebuild->plan == NULL ? STAILQ_FIRST(&rebuild->plans) : STAILQ_NEXT(rebuild->plan, link);
        rebuild->stripe = 0;
        rebuild->stripe_begun = false;
        rebuild->lost_stripe = NO_STRIPE;
        rebuild->span_len = 0;
        if (rebuild->plan == NULL)
                return END;
        if (rebuild->plan->part.head.m + 1u > rebuild->reserve.count)
                return -EINVAL;
        rv = rebuild_code_for(rebuild, &rebuild->plan->part);
        rebuild->restart = true;
        return rv != 0 ? rv : STEPPED;
}

static void rebuild_paced(struct lp_timer *timer)
{
        struct eng_rebuild *rebuild = container_of(timer, struct eng_rebuild, timer);

        assert(rebuild->has_turn && rebuild->awaits_turn);
        rebuild->awaits_turn = false;
        rebuild_go_on(rebuild);
}

/*
 * Bytes that the next stripe is paid for with: what will be written; if that is nothing, it is read
 * all the same.
 */
static uint64_t stripe_cost(const struct eng_rebuild *rebuild)
{
        const struct eng_part *part = &rebuild->plan->part;
        unsigned shard, n = 0;

        for (shard = 0; shard < eng_rebuild_shards_of(part); shard++)
                n += eng_rebuild_is_stored(part, rebuild->stripe, shard) && target_of(rebuild, shard) != ENG_NO_DRIVE;
        return (uint64_t)(n == 0 ? 1 : n) * eng_part_unit(&part->head, rebuild->stripe);
}

/* True until its turn among all of the store's upkeep has come: it will be called again. */
static bool wait_for_rate(struct eng_rebuild *rebuild)
{
        struct eng_pacer *pacer = &rebuild->store->pacer;
        struct lp_loop *loop = rebuild->el->loop;
        uint64_t wait;

        if (rebuild->has_turn)
                return rebuild->awaits_turn;
        eng_pacer_look(pacer, rebuild->el); /* who waits for repairs looks at nothing else meanwhile */
        wait = eng_pacer_take(pacer, &rebuild->turn, lp_now(loop), stripe_cost(rebuild));
        rebuild->has_turn = true;
        rebuild->awaits_turn = wait > 0;
        rebuild->timer.expired = rebuild_paced;
        if (rebuild->awaits_turn)
                lp_timer_start(loop, &rebuild->timer, wait);
        return rebuild->awaits_turn;
}

/*
 * What kept it from being read: a stripe that is lost is passed when it is come to, and what is
 * before it is read first. Else the error.
 */
static int get_failed(struct eng_rebuild *rebuild, int rv)
{
        const struct fmt_part *part = &rebuild->plan->part.head;
        uint64_t at;

        if (rv == -ENODATA)
                return -EIO;
        if (rv == -EAGAIN || !eng_get_lost(rebuild->get, &at))
                return rv;
        if (rebuild->anew) { /* it lacks something after all, and stays where it is */
                eng_lost_object_found(rebuild->el, &rebuild->name, eng_value_head(rebuild->value->data)->id, part->id, true);
                return -ENODATA;
        }
        rebuild->lost_stripe = (uint32_t)((at - rebuild->plan->offset) / ((uint64_t)part->k * part->unit));
        rebuild->restart = rebuild->lost_stripe != rebuild->stripe;
        return STEPPED;
}

/*
 * SPAN: one is at hand; STEPPED: it is to be called again; END: the part is through; else -EAGAIN
 * or the error.
 */
static int next_span(struct eng_rebuild *rebuild)
{
        int rv;

        if (rebuild->stripe == eng_part_stripes(&rebuild->plan->part.head))
                return END;
        if (!rebuild->stripe_begun) {
                if (wait_for_rate(rebuild))
                        return -EAGAIN;
                rebuild_begin_stripe(rebuild);
                rebuild->stripe_begun = true;
        }
        if (rebuild->stripe == rebuild->lost_stripe) {
                rv = pass_lost(rebuild);
                return rv == 1 ? STEPPED : rv;
        }
        rv = rebuild->restart ? restart_get(rebuild) : 0;
        if (rv != 0)
                return rv;
        if (rebuild->span_len > 0)
                return SPAN;
        rv = eng_get_next(rebuild->get, &rebuild->span, &rebuild->span_len);
        return rv == 0 ? SPAN : get_failed(rebuild, rv);
}

static void rebuild_go_on(struct eng_rebuild *rebuild)
{
        int rv = rebuild->error, step;

        while (rv == 0 && rebuild->in_flight == 0) {
                step = rebuild->plan == NULL ? END : next_span(rebuild);
                if (step == SPAN)
                        take_span(rebuild);
                if (step == END)
                        step = next_plan(rebuild);
                if (step == END) {
                        sync_all(rebuild);
                        return;
                }
                rv = step < 0 ? step : 0;
        }
        if (rv != 0 && (rv != -EAGAIN || rebuild->error != 0)) { /* a drive may have said -EAGAIN: that is no reason to wait for anything */
                if (rebuild->in_flight == 0)
                        eng_rebuild_give_up(rebuild, rv);
                else
                        rebuild->error = rv;
        }
}

static void rebuild_begin(struct eng_rebuild *rebuild)
{
        unsigned i;

        assert(!rebuild->granted && rebuild->in_flight == 0);
        rebuild->granted = true;
        rebuild->unit = lp_slot_get(rebuild->el->loop);
        for (i = 0; i + 1 < rebuild->reserve.count; i++)
                rebuild->parity[i] = lp_slot_get(rebuild->el->loop);
        rebuild_go_on(rebuild);
}

static void rebuild_granted(struct lp_reserve *reserve)
{
        struct eng_rebuild *rebuild = container_of(reserve, struct eng_rebuild, reserve);

        assert(rebuild->queued);
        rebuild->queued = false;
        rebuild_begin(rebuild);
}

void eng_rebuild_begin_writing(struct eng_rebuild *rebuild)
{
        int rv;

        assert(rebuild->plan == NULL && !rebuild->granted && !rebuild->queued);
        if (STAILQ_EMPTY(&rebuild->plans)) {
                eng_rebuild_finish(rebuild, 0);
                return;
        }
        rebuild->reserve.count = rebuild->store->m + 1;
        rebuild->reserve.share = LP_SHARE_INTERNAL;
        rebuild->reserve.granted = rebuild_granted;
        rv = lp_reserve(rebuild->el->loop, &rebuild->reserve);
        rebuild->queued = rv == -EAGAIN;
        if (rv == 0)
                rebuild_begin(rebuild);
        else if (rv != -EAGAIN)
                eng_rebuild_finish(rebuild, rv);
}
