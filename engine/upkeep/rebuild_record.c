/*
 * rebuild_record.c - the end of a repair that has written something: the record that names the new
 * drives, and the discard of what was written in vain (I6). The primary loop of the key.
 */
#include "engine/txn/txn.h"
#include "engine/upkeep/rebuild_parts.h"
#include "engine/txn/txn_util.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

/* ---- what was written in vain ---------------------------------------------------------------- */

static void discard_on(struct eng_rebuild *rebuild);

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
 * Drives that were given shards of the part by this rebuild alone. One that the value names for
 * another run of it, then or now, keeps what it has: that goes with the object.
 */
static eng_mask written_in_vain(const struct eng_rebuild *rebuild, const struct eng_rebuild_plan *plan)
{
        size_t i, n = (size_t)plan->part.head.runs * eng_rebuild_shards_of(&plan->part);
        eng_mask written = 0;

        for (i = 0; i < n; i++)
                if (plan->targets[i] != ENG_NO_DRIVE)
                        written |= eng_bit(plan->targets[i]);
        if (!rebuild->anew)
                written &= ~eng_part_drives(&plan->part);
        return written & rebuild->touched & ~named_by(rebuild->txn.old, plan->id);
}

static void rebuild_discarded(struct eng_op *op)
{
        struct eng_rebuild *rebuild = ((struct eng_rebuild_op *)op)->rebuild;

        assert(atomic_load(&rebuild->discards_out) > 0);
        if (atomic_fetch_sub(&rebuild->discards_out, 1) == 1 && !rebuild->store->stopping)
                discard_on(rebuild); /* a failure leaves dead bytes, nothing worse */
}

static void discard_part(struct eng_rebuild *rebuild, const struct eng_rebuild_plan *plan)
{
        const struct eng_view *view = &rebuild->txn.at->view;
        eng_mask drives = written_in_vain(rebuild, plan) & view->up;
        unsigned i;

        for (i = 0; i < rebuild->store->drive_count; i++) {
                struct eng_rebuild_op *mo = &rebuild->ops[i];

                if (!(drives & eng_bit(i)))
                        continue;
                memset(mo, 0, sizeof(*mo));
                mo->rebuild = rebuild;
                mo->op.kind = ENG_OP_DISCARD;
                mo->op.flags = ENG_OP_RESERVE;
                mo->op.epoch = view->epoch;
                mo->op.done = rebuild_discarded;
                memcpy(mo->op.discard.object_id, plan->id, FMT_ID);
                atomic_fetch_add(&rebuild->discards_out, 1);
                eng_drive_submit(rebuild->store->members[i].drive, &mo->op);
        }
}

/*
 * The key stays locked until all drives have answered: nobody writes such a shard again while one
 * is being discarded.
 */
static void discard_on(struct eng_rebuild *rebuild)
{
        assert(rebuild->over && rebuild->txn.state == ENG_TXN_PREPARE);
        while (rebuild->discarding != NULL) {
                const struct eng_rebuild_plan *plan = rebuild->discarding;

                rebuild->discarding = STAILQ_NEXT(plan, link);
                discard_part(rebuild, plan);
                if (atomic_load(&rebuild->discards_out) > 0)
                        return;
        }
        eng_txn_finish(&rebuild->txn, 0);
}

/*
 * By what was read under the key's lock, no record will name what was written. sure: that there is
 * no value is more than one member's word.
 */
static void written_for_nothing(struct eng_rebuild *rebuild, bool sure)
{
        assert(rebuild->discarding == NULL);
        rebuild->over = true;
        rebuild->discarding = sure ? STAILQ_FIRST(&rebuild->plans) : NULL;
        discard_on(rebuild);
}

/* ---- the record ------------------------------------------------------------------------------ */

static const struct eng_rebuild_plan *plan_of(const struct eng_rebuild *rebuild, const struct eng_part *part)
{
        const struct eng_rebuild_plan *plan;

        STAILQ_FOREACH(plan, &rebuild->plans, link)
                if (memcmp(plan->part.head.id, part->head.id, FMT_ID) == 0 && plan->part.head.runs == part->head.runs &&
                    eng_rebuild_shards_of(&plan->part) == eng_rebuild_shards_of(part)) /* else another member's word, of another shape */
                        return plan;
        return NULL;
}

/* A slot that was written to has gone, or leaves: removals do not wait for what began before them for ever. */
static bool targets_are_fit(const struct eng_rebuild *rebuild)
{
        const struct eng_view *view = &rebuild->txn.at->view;

        return !eng_rebuild_touched_anew(rebuild, view) && (rebuild->touched & ~(view->in & view->up & ~eng_placement_homeless(view->map))) == 0;
}

/* The value as it is now, but for its ids and drives. NULL with *rv: -ENOENT if it is another one; -ESTALE. */
static struct eng_buf *rebuild_renew(const struct eng_rebuild *rebuild, const struct eng_buf *now, int *rv)
{
        struct eng_buf *out = eng_buf_new(now->len);
        struct fmt_value *head;
        struct eng_part part;
        size_t pos = 0, i;

        *rv = out == NULL ? -ENOMEM : rebuild->replaced ? -ENOENT : targets_are_fit(rebuild) ? 0 : -ESTALE;
        if (out != NULL)
                memcpy(out->data, now->data, now->len);
        while (*rv == 0 && eng_value_next_part(now->data, now->len, &pos, &part) == 1) {
                const struct eng_rebuild_plan *plan = plan_of(rebuild, &part);

                *rv = plan != NULL ? 0 : -ENOENT;
                if (plan == NULL)
                        break;
                memcpy(out->data + (part.attrs - now->data) - sizeof(part.head) + offsetof(struct fmt_part, id), plan->id, FMT_ID);
                for (i = 0; i < (size_t)part.head.runs * eng_rebuild_shards_of(&part); i++)
                        eng_part_slot_set(out->data + (part.drives - now->data), part.width, i, plan->targets[i]);
        }
        if (*rv != 0) {
                eng_buf_unref(out);
                return NULL;
        }
        head = (struct fmt_value *)out->data;
        memcpy(head->id, rebuild->id, FMT_ID);
        return out;
}

/*
 * The value as it is now, naming the drives written to. NULL with *rv: -ENOENT if it does not hold
 * those parts any more, or they lack no drive.
 */
static struct eng_buf *rebuild_patch(const struct eng_rebuild *rebuild, const struct eng_buf *now, int *rv)
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
                const struct eng_rebuild_plan *plan = plan_of(rebuild, &part);
                size_t at = (size_t)(part.drives - now->data), i, n = (size_t)part.head.runs * eng_rebuild_shards_of(&part);

                for (i = 0; plan != NULL && i < n; i++) {
                        if (plan->targets[i] == ENG_NO_DRIVE || !eng_rebuild_is_homeless(rebuild, &part, 0, (unsigned)i))
                                continue;
                        eng_part_slot_set(out->data + at, part.width, i, plan->targets[i]);
                        patched++;
                }
        }
        *rv = patched != 0 ? 0 : -ENOENT;
        if (patched == 0) {
                eng_buf_unref(out);
                return NULL;
        }
        return out;
}

/*
 * The plain object that the repair began with has become the null version of its key: what was
 * written is recorded, or discarded, by what that version's row says (V15).
 */
static bool has_moved(const struct eng_rebuild *rebuild, const struct eng_buf *now, uint64_t *number)
{
        struct fmt_head versions;

        if (!eng_value_head_field(now->data, now->len, &versions) ||
            memcmp(versions.null_id, eng_value_head(rebuild->value->data)->id, FMT_ID) != 0)
                return false;
        *number = versions.null_number;
        return true;
}

static void rebuild_looked_up(struct eng_txn *txn, int rv)
{
        struct eng_rebuild *rebuild = container_of(txn, struct eng_rebuild, txn);
        uint64_t number;
        bool sure = rv == 0 || eng_words_sure(&txn->words);
        struct fmt_value *head;

        assert(rebuild->patched == NULL);
        if (rv == 0 && !rebuild->anew && has_moved(rebuild, txn->old, &number)) {
                eng_name_version(&txn->name, txn->bucket, txn->key, txn->key_len, number);
                eng_txn_lookup_newest(txn, 0, rebuild_looked_up);
                return;
        }
        rebuild->replaced = rv == -ENOENT || (rv == 0 && memcmp(eng_value_head(txn->old->data)->id, eng_value_head(rebuild->value->data)->id, FMT_ID) != 0);
        if (rv == 0)
                rebuild->patched = (rebuild->anew ? rebuild_renew : rebuild_patch)(rebuild, txn->old, &rv);
        if (rv == -ENOENT) {
                written_for_nothing(rebuild, sure);
                return;
        }
        if (rv == 0)
                rv = eng_body_begin(&txn->body, eng_body_need(txn->name.len, rebuild->patched->len, 0));
        if (rv != 0) {
                eng_txn_finish(txn, rv);
                return;
        }
        head = (struct fmt_value *)rebuild->patched->data;
        head->crc = 0;
        head->log_file = head->log_position = 0;
        eng_body_put(&txn->body, &txn->name, rebuild->patched, eng_txn_take_seq(txn), NULL, 0);
        eng_txn_append(txn);
}

static void rebuild_prepare(struct eng_txn *txn)
{
        if (!eng_takes_changes(txn->store, &txn->at->view)) {
                eng_txn_finish(txn, -EROFS);
                return;
        }
        txn->name = container_of(txn, struct eng_rebuild, txn)->name;
        eng_txn_lookup_newest(txn, 0, rebuild_looked_up);
}

static void rebuild_recorded(struct eng_txn *txn)
{
        eng_rebuild_finish(container_of(txn, struct eng_rebuild, txn), txn->result);
}

void eng_rebuild_record(struct eng_rebuild *rebuild)
{
        assert(rebuild->durable || rebuild->touched == 0);
        assert(rebuild->named_new && rebuild->in_flight == 0);
        rebuild->txn.prepare = rebuild_prepare;
        rebuild->txn.done = rebuild_recorded;
        rebuild->txn.moves = !rebuild->anew;
        rebuild->txn.internal = true; /* objects of a bucket that is being closed are repaired like all others */
        eng_txn_submit(&rebuild->txn);
}
