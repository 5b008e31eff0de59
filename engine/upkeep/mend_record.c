/*
 * mend_record.c - the end of a repair that has written something: the record that names the new drives, and the discard of what was written in vain (I6).
 * The primary loop of the key.
 */
#include "engine/txn/txn.h"
#include "engine/upkeep/mend_parts.h"
#include "engine/txn/txn_util.h"

#include <errno.h>
#include <string.h>

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
        size_t i, n = (size_t)plan->part.head.runs * eng_mend_shards_of(&plan->part);
        eng_mask written = 0;

        for (i = 0; i < n; i++)
                if (plan->targets[i] != ENG_NO_DRIVE)
                        written |= eng_bit(plan->targets[i]);
        return written & mend->touched & ~eng_part_drives(&plan->part) & ~named_by(mend->txn.old, plan->part.head.id);
}

static void mend_discarded(struct eng_op *op)
{
        struct eng_mend *mend = ((struct eng_mend_op *)op)->mend;

        if (atomic_fetch_sub(&mend->discards_out, 1) == 1 && !mend->store->stopping)
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
                mo->op.done = mend_discarded;
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
static struct eng_buf *mend_patch(const struct eng_mend *mend, const struct eng_buf *now, int *rv)
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
                        size_t at = (size_t)(part.drives - now->data), i, n = (size_t)part.head.runs * eng_mend_shards_of(&part);

                        if (memcmp(plan->part.head.id, part.head.id, FMT_ID) != 0)
                                continue;
                        for (i = 0; i < n; i++) {
                                if (plan->targets[i] == ENG_NO_DRIVE || !eng_mend_is_homeless(mend, &part, 0, (unsigned)i))
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

static void mend_looked_up(struct eng_txn *txn, int rv)
{
        struct eng_mend *mend = container_of(txn, struct eng_mend, txn);
        bool sure = rv == 0 || eng_words_sure(&txn->words);
        struct fmt_value *head;

        mend->replaced = rv == -ENOENT || (rv == 0 && memcmp(eng_value_head(txn->old->data)->id, eng_value_head(mend->value->data)->id, FMT_ID) != 0);
        if (rv == 0)
                mend->patched = mend_patch(mend, txn->old, &rv);
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

static void mend_prepare(struct eng_txn *txn)
{
        if (!eng_takes_changes(txn->store, &txn->at->view)) {
                eng_txn_finish(txn, -EROFS);
                return;
        }
        eng_name_object(&txn->name, txn->bucket, txn->key, txn->key_len);
        eng_txn_lookup(txn, 0, mend_looked_up);
}

static void mend_recorded(struct eng_txn *txn)
{
        eng_mend_finish(container_of(txn, struct eng_mend, txn), txn->result);
}

void eng_mend_record(struct eng_mend *mend)
{
        mend->txn.prepare = mend_prepare;
        mend->txn.done = mend_recorded;
        mend->txn.moves = true;
        mend->txn.internal = true; /* objects of a bucket that is being closed are repaired like all others */
        eng_txn_submit(&mend->txn);
}
