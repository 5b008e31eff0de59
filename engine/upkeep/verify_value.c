/*
 * verify_value.c - looks for the shards of one value, of each part in turn: reads them, or, for a
 * scrub, asks their drives whether they hold them. Part of a verification (verify.h). Coordinator.
 *
 * One shard at a time, on whatever drive is in. What is amiss counts only if the name still has
 * that value afterwards: else it was overwritten meanwhile. It is given back by rebuild.c; parts of
 * unfinished uploads are looked at, but not repaired.
 */
#include "engine/base/store.h"
#include "engine/record/stripe.h"
#include "engine/upkeep/verify.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#define HELD_BYTES 256u                /* what asking for a shard counts as, of the rate */

static void next_shard(struct eng_verify *v);
static void still_there(struct eng_verify *v);

static void put_slot(struct lp_loop *loop, void *slot)
{
        lp_slot_put(loop, slot);
        lp_unreserve(loop, LP_SHARE_INTERNAL, 1);
}

static void drop_slot(struct eng_verify *v)
{
        if (v->slot != NULL)
                put_slot(v->store->coord_loop->loop, v->slot);
        v->slot = NULL;
}

void eng_verify_drop_value(struct eng_verify *v)
{
        lp_reserve_cancel(v->store->coord_loop->loop, &v->reserve);
        eng_buf_unref(v->value);
        v->value = NULL;
}

/* ---- repairs --------------------------------------------------------------------------------- */

static void rebuilt(void *arg, int rv, struct eng_rebuild_written written)
{
        struct eng_verify *v = arg;

        v->rebuild = NULL;
        if (rv == 0 || rv == -ENODATA)
                v->report.repaired_shards += written.shards;
        eng_verify_next(v);
}

static void verify_repair_value(struct eng_verify *v)
{
        const struct eng_view *view = &v->store->coord_loop->view;
        struct eng_rebuild_order order = {
                .name = &v->name, .filling = v->store->coord->filling, .bad = v->bad, .bad_count = v->bad_count};

        if (v->held_only && v->bad_count == ENG_VERIFY_BAD_MAX)
                order.filling = view->in & view->up; /* there may be more, which drives say as they did here */
        v->rebuild = eng_rebuild_start(v->store, &order, rebuilt, v);
        if (v->rebuild == NULL)
                rebuilt(v, -ENOMEM, (struct eng_rebuild_written){0});
}

static void count_amiss(struct eng_verify *v)
{
        v->report.damaged_shards += v->damaged_here;
        v->report.missing_shards += v->missing_here;
        v->report.unreadable_objects += v->unreadable;
        if (v->bad_count > 0 && eng_name_is_objects(&v->name))
                verify_repair_value(v);
        else
                eng_verify_next(v);
}

static void looked_again(struct eng_op *op)
{
        const struct eng_verify_copy *copy = eng_verify_take_copy(op);
        struct eng_verify *v = copy->v;
        unsigned slot = (unsigned)(copy - v->copies);

        if (v->store->stopping)
                return;
        if (copy->result == 0 && memcmp(eng_value_head(copy->value->data)->id, eng_value_head(v->value->data)->id, FMT_ID) == 0) {
                count_amiss(v);
        } else if (copy->result == 0 || copy->result == -ENOENT) {
                eng_verify_next(v);
        } else if (copy->result != -EBADMSG && eng_verify_asks_again(v, slot)) {
                eng_verify_later(v, ENG_VERIFY_AGAIN_NS, still_there);
        } else {
                v->same &= ~eng_bit(slot);
                still_there(v);
        }
}

/*
 * Whether the name still has the value whose shards were looked for: a member that had it is asked.
 */
static void still_there(struct eng_verify *v)
{
        while (v->same != 0 && !eng_verify_usable(v, (unsigned)__builtin_ctzll(v->same)))
                v->same &= v->same - 1;
        if (v->same != 0) {
                eng_verify_ask_copy(v, (unsigned)__builtin_ctzll(v->same), 0, looked_again);
                return;
        }
        v->report.unread_shards += v->damaged_here + v->missing_here;
        eng_verify_next(v);
}

static void value_over(struct eng_verify *v)
{
        drop_slot(v); /* a repair needs its own, and must not wait for one that waits for it */
        if (v->damaged_here + v->missing_here > 0 || v->unreadable)
                still_there(v);
        else
                eng_verify_next(v);
}

/* ---- shards ---------------------------------------------------------------------------------- */

static void note_bad(struct eng_verify *v, int result)
{
        struct eng_rebuild_bad *bad = &v->bad[v->bad_count];

        assert(v->bad_count <= ENG_VERIFY_BAD_MAX && result != 0);
        v->damaged_here += result == -EBADMSG;
        v->missing_here += result != -EBADMSG;
        if (v->bad_count == ENG_VERIFY_BAD_MAX || (result != -EBADMSG && result != -ENOENT))
                return;
        v->bad_count++;
        memcpy(bad->id, v->part.head.id, FMT_ID);
        bad->stripe = v->stripe;
        bad->shard = (uint8_t)v->shard;
}

/*
 * True: the drive could not look, and nothing is known of the shard, which is neither damaged nor
 * missing; what follows is begun.
 */
static bool is_unknown(struct eng_verify *v, int result)
{
        if (result != -EAGAIN && result != -ENOMEM) {
                v->turned_away[v->reading] = 0;
                return false;
        }
        if (eng_verify_asks_again(v, v->reading)) {
                eng_verify_later(v, ENG_VERIFY_AGAIN_NS, next_shard);
                return true;
        }
        v->report.shards++;
        v->report.unread_shards++;
        v->unread_here++;
        v->shard++;
        next_shard(v);
        return true;
}

static void verify_shard_read(struct eng_op *op)
{
        struct eng_verify *v = container_of(op, struct eng_verify, op);

        v->slot = op->read.slot; /* a drive that failed keeps it until its I/O has ended */
        if (v->slot != NULL && is_unknown(v, op->result))
                return;
        v->report.shards++;
        if (op->result == 0) {
                v->good++;
                eng_digest_add(&v->report.digest[v->reading], op->read.object_id, op->read.stripe, op->read.shard,
                               (const uint8_t *)v->slot + LP_SLOT_HEADER, op->read.len);
        } else {
                note_bad(v, op->result);
        }
        v->shard++;
        next_shard(v);
}

/* A shard that the drive knows to be damaged is as one that it does not hold. */
static void shard_asked_for(struct eng_op *op)
{
        struct eng_verify *v = container_of(op, struct eng_verify, op);

        if (is_unknown(v, op->result))
                return;
        v->report.shards++;
        eng_verify_spend(v, HELD_BYTES);
        if (op->result == 0 && (op->held.bits[0] & 1) != 0)
                v->good++;
        else
                note_bad(v, op->result != 0 ? op->result : -ENOENT);
        v->shard++;
        next_shard(v);
}

static void ask_for_shard(struct eng_verify *v)
{
        struct eng_op *op = &v->op;

        op->kind = ENG_OP_HELD;
        op->done = shard_asked_for;
        memcpy(op->held.object_id, v->part.head.id, FMT_ID);
        op->held.stripe = v->stripe;
        op->held.shard = (uint8_t)v->shard;
        op->held.count = 1;
}

static void verify_read_shard(struct eng_verify *v)
{
        struct eng_op *op = &v->op;

        op->kind = ENG_OP_READ;
        op->done = verify_shard_read;
        memcpy(op->read.object_id, v->part.head.id, FMT_ID);
        op->read.stripe = v->stripe;
        op->read.shard = (uint8_t)v->shard;
        op->read.len = op->read.payload_len = eng_part_unit(&v->part.head, v->stripe);
        op->read.slot = v->slot;
        op->read.left = put_slot;
}

/* A data unit without a byte of the part is not stored: it counts as good. */
static bool is_stored(const struct eng_verify *v)
{
        return v->shard >= v->part.head.k || v->shard < eng_stripe_units(&v->part.head, v->stripe);
}

/*
 * The next shard of the stripe that a drive can be asked for, v->reading. False: there is none
 * left.
 */
static bool seek_in_stripe(struct eng_verify *v)
{
        for (; v->shard < (unsigned)v->part.head.k + v->part.head.m; v->shard++) {
                if (!is_stored(v)) {
                        v->good++;
                        continue;
                }
                v->reading = eng_part_drive(&v->part, v->stripe, v->shard);
                if (eng_verify_usable(v, v->reading))
                        return true;
                v->report.shards++;
                v->missing_here++;
        }
        assert(v->good + v->unread_here <= v->shard);
        v->unreadable |= v->good + v->unread_here < v->part.head.k;
        return false;
}

/* The next shard of the value. False: there is none left. */
static bool seek_shard(struct eng_verify *v)
{
        for (;;) {
                int rv;

                if (v->has_part && v->stripe < eng_part_stripes(&v->part.head)) {
                        if (seek_in_stripe(v))
                                return true;
                        v->stripe++;
                } else {
                        rv = eng_value_next_part(v->value->data, v->value->len, &v->part_pos, &v->part);
                        v->has_part = rv == 1;
                        v->unreadable |= rv < 0;
                        v->stripe = 0;
                        if (rv != 1)
                                return false;
                }
                v->shard = v->good = v->unread_here = 0;
        }
}

/* ---- the slot that shards are read into ------------------------------------------------------ */

static void slot_granted(struct lp_reserve *reserve)
{
        struct eng_verify *v = container_of(reserve, struct eng_verify, reserve);

        assert(v->slot == NULL);
        v->slot = lp_slot_get(v->store->coord_loop->loop);
        next_shard(v);
}

/* False: it is waited for, and next_shard() comes. */
static bool has_slot(struct eng_verify *v)
{
        struct lp_loop *loop = v->store->coord_loop->loop;
        int rv;

        if (v->held_only || v->slot != NULL)
                return true;
        v->reserve.count = 1;
        v->reserve.share = LP_SHARE_INTERNAL;
        v->reserve.granted = slot_granted;
        rv = lp_reserve(loop, &v->reserve);
        if (rv == 0)
                v->slot = lp_slot_get(loop);
        else if (rv != -EAGAIN)
                eng_verify_later(v, ENG_VERIFY_AGAIN_NS, next_shard);
        return rv == 0;
}

static void next_shard(struct eng_verify *v)
{
        if (v->store->stopping)
                return;
        if (!seek_shard(v)) {
                value_over(v);
                return;
        }
        if (!has_slot(v) || (v->held_only && eng_verify_waits(v, next_shard)))
                return;
        memset(&v->op, 0, sizeof(v->op));
        v->op.epoch = v->store->coord_loop->view.epoch;
        if (v->held_only)
                ask_for_shard(v);
        else
                verify_read_shard(v);
        eng_drive_submit(v->store->members[v->reading].drive, &v->op);
}

void eng_verify_value(struct eng_verify *v)
{
        const struct fmt_value *head = eng_value_head(v->value->data);

        assert(v->slot == NULL && v->rebuild == NULL);
        if (eng_value_is_object(head)) {
                v->report.objects++;
                v->report.bytes += head->size;
        }
        v->part_pos = 0;
        v->has_part = v->unreadable = false;
        v->damaged_here = v->missing_here = 0;
        v->bad_count = 0;
        next_shard(v);
}
