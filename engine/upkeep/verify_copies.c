/*
 * verify_copies.c - all members' copies of one name, looked up at once: a damaged one is written
 * anew (resync.c), and where they differ they are made the same (agree.c), each with the key
 * locked. Part of a verification (verify.h). Coordinator.
 *
 * The lookups are of different moments, so what they say is a reason to look again, and no more.
 * After a repair the copies are looked up once more: the value that counts may be another then.
 */
#include "engine/resync/resync.h"
#include "engine/upkeep/verify.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

/* For what the copies are looked up: rounds of one name. */
enum { FIRST, AGREED, RESYNCED };

static void ask_copies(struct eng_verify *v);

static unsigned count_of(eng_mask drives)
{
        return (unsigned)__builtin_popcountll(drives);
}

/* ---- lookups --------------------------------------------------------------------------------- */

static const struct eng_view *verify_copies_view(const struct eng_verify *v)
{
        return &v->store->coord_loop->view;
}

void eng_verify_drop_copies(struct eng_verify *v)
{
        unsigned slot;

        for (slot = 0; slot < ENG_DRIVES_MAX; slot++) {
                eng_buf_unref(v->copies[slot].value);
                v->copies[slot].value = NULL;
        }
}

void eng_verify_ask_copy(struct eng_verify *v, unsigned slot, unsigned flags, void (*done)(struct eng_op *op))
{
        struct eng_op *op = &v->copies[slot].op;

        v->copies[slot].v = v;
        eng_op_lookup(op, &v->name, flags, verify_copies_view(v)->epoch, done);
        eng_drive_submit(v->store->members[slot].drive, op);
}

struct eng_verify_copy *eng_verify_take_copy(struct eng_op *op)
{
        struct eng_verify_copy *copy = (struct eng_verify_copy *)op;

        eng_verify_spend(copy->v, FMT_BLOCK + (op->lookup.bytes == NULL ? 0 : op->lookup.bytes->len));
        eng_buf_unref(op->lookup.bytes);
        eng_buf_unref(copy->value);
        copy->value = op->lookup.value;
        copy->result = op->result;
        if (op->result == 0)
                return copy;
        eng_buf_unref(copy->value); /* found, but its bytes are damaged */
        copy->value = NULL;
        return copy;
}

/* ---- repairs --------------------------------------------------------------------------------- */

static void made_to_agree(struct eng_agree *agree)
{
        struct eng_verify *v = container_of(agree, struct eng_verify, agree);

        assert(v->round == FIRST);
        v->report.differing_names += agree->differed;
        v->report.repaired_names += agree->differed && agree->txn.result == 0 && agree->repaired > 0;
        v->report.unread_shards += !agree->differed && agree->txn.result != 0; /* a copy could not be read */
        v->round = AGREED;
        ask_copies(v);
}

static void make_agree(struct eng_verify *v)
{
        v->agree.name = v->name;
        v->agree.done = made_to_agree;
        if (eng_agree_start(v->store, &v->agree) != 0)
                eng_verify_next(v); /* not to be met: the name was taken apart before */
}

static void resync_next(struct eng_verify *v);

static void verify_copies_resynced(struct eng_resync *resync)
{
        struct eng_verify *v = container_of(resync, struct eng_verify, resync);

        assert(v->round != RESYNCED);
        v->report.repaired_shards += resync->txn.result == 0 && resync->copied;
        resync_next(v);
}

/* Copies that are damaged, one by one. */
static void resync_next(struct eng_verify *v)
{
        if (v->to_resync == 0) {
                v->round = RESYNCED;
                ask_copies(v);
                return;
        }
        v->resync.slot = (unsigned)__builtin_ctzll(v->to_resync);
        v->to_resync &= v->to_resync - 1;
        v->resync.name = v->name;
        v->resync.repair = true;
        v->resync.done = verify_copies_resynced;
        if (eng_resync_start(v->store, &v->resync) != 0)
                eng_verify_next(v); /* likewise */
}

/* ---- what they say --------------------------------------------------------------------------- */

/*
 * Of several values the one of the highest number, as an agreement would decide; v->same: who has
 * it.
 */
static void choose_value(struct eng_verify *v)
{
        const struct eng_buf *best = NULL, *one;
        unsigned slot;

        for (slot = 0; slot < v->store->drive_count; slot++) {
                if (!(v->have & eng_bit(slot)))
                        continue;
                one = v->copies[slot].value;
                assert(one != NULL);
                if (best == NULL || eng_value_head(one->data)->seq > eng_value_head(best->data)->seq)
                        best = one;
        }
        v->same = 0;
        for (slot = 0; slot < v->store->drive_count; slot++) {
                if (!(v->have & eng_bit(slot)))
                        continue;
                one = v->copies[slot].value;
                assert(one != NULL && best != NULL);
                if (eng_value_alike(one->data, one->len, best->data, best->len))
                        v->same |= eng_bit(slot);
        }
}

/*
 * Nobody gave a value: it was deleted since the scan, unless what is damaged may have stood for
 * one.
 */
static void without_value(struct eng_verify *v)
{
        if (v->damaged != 0 && v->unread == 0 && !eng_outvoted(v->damaged, v->absent) && eng_name_is_objects(&v->name))
                v->report.unreadable_objects++;
        if (v->round != FIRST) /* else they are counted */
                v->report.unread_shards += count_of(v->unread);
        eng_verify_next(v);
}

/*
 * Whether the name is there at all comes before what is damaged: a copy that is given to a damaged
 * member on one word could make the most of a few. An agreement writes damaged copies, too, but it
 * does not look at records of which the index has the value.
 */
static void verify_copies_judge(struct eng_verify *v)
{
        bool differ;

        assert(v->out_copies == 0 && (v->asked | v->again) == 0);
        assert((v->have & (v->absent | v->damaged | v->unread)) == 0);
        if (v->have != 0)
                choose_value(v);
        differ = v->have != 0 && (v->absent != 0 || v->same != v->have);
        if (v->round == FIRST) {
                v->report.unread_shards += count_of(v->unread);
                v->report.damaged_shards += count_of(v->damaged);
                v->to_resync = v->damaged;
                if (differ) {
                        make_agree(v);
                        return;
                }
        }
        v->report.repaired_shards += count_of(v->to_resync & v->have);
        v->to_resync &= v->damaged;
        if (v->to_resync != 0 && !differ && v->round != RESYNCED) {
                resync_next(v);
                return;
        }
        if (v->have == 0) {
                without_value(v);
                return;
        }
        eng_buf_unref(v->value);
        v->value = eng_buf_ref(v->copies[__builtin_ctzll(v->same)].value);
        eng_verify_value(v);
}

/* ---- answers --------------------------------------------------------------------------------- */

static void copy_came(struct eng_op *op);

static void verify_copies_ask_again(struct eng_verify *v)
{
        const unsigned flags = v->round == RESYNCED ? ENG_OP_WANT_INLINE : ENG_OP_WANT_INLINE | ENG_OP_WANT_RECORD; /* at last: what a client gets */
        const eng_mask ask = v->again;
        unsigned slot;

        assert(v->out_copies == 0 && ask != 0);
        v->again = 0;
        v->out_copies = count_of(ask);
        for (slot = 0; slot < v->store->drive_count; slot++)
                if (ask & eng_bit(slot))
                        eng_verify_ask_copy(v, slot, flags, copy_came);
}

/* What one drive says; nothing counts of one that has left meanwhile. */
static void take_answer(struct eng_verify *v, unsigned slot)
{
        const int result = v->copies[slot].result;
        const eng_mask bit = eng_bit(slot);

        v->asked &= ~bit;
        if (result == 0 || result == -ENOENT || result == -EBADMSG)
                v->turned_away[slot] = 0;
        if (result == 0)
                v->have |= bit;
        else if (result == -ENOENT)
                v->absent |= bit;
        else if (result == -EBADMSG)
                v->damaged |= bit;
        else if (!eng_verify_usable(v, slot))
                return;
        else if (eng_verify_asks_again(v, slot))
                v->again |= bit;
        else
                v->unread |= bit;
}

static void copy_came(struct eng_op *op)
{
        struct eng_verify *v = eng_verify_take_copy(op)->v;
        unsigned slot;

        assert(v->out_copies > 0);
        if (--v->out_copies > 0 || v->store->stopping)
                return;
        for (slot = 0; slot < v->store->drive_count; slot++)
                if (v->asked & eng_bit(slot))
                        take_answer(v, slot);
        v->asked = v->again;
        if (v->again != 0)
                eng_verify_later(v, ENG_VERIFY_AGAIN_NS, verify_copies_ask_again);
        else
                verify_copies_judge(v);
}

/* Of all members that speak for the group and answer. */
static void ask_copies(struct eng_verify *v)
{
        v->have = v->absent = v->damaged = v->unread = 0;
        eng_verify_drop_copies(v);
        v->asked = v->again = eng_speakers(verify_copies_view(v), v->pg) & verify_copies_view(v)->in & verify_copies_view(v)->up;
        if (v->asked != 0) {
                verify_copies_ask_again(v);
                return;
        }
        v->report.unread_shards++;
        eng_verify_next(v);
}

/* The group that a name is of. -EBADMSG: nobody could have written such a name. */
static int group_of(const struct eng_store *store, const struct eng_name *name, uint32_t *pg)
{
        uint8_t key[FMT_NAME_MAX];
        uint64_t bucket;
        size_t len;

        if (eng_name_key(name, &bucket, key, &len) != 0 || len > ENG_KEY_MAX)
                return -EBADMSG;
        *pg = name->data[0] == FMT_SPACE_CONFIG ? store->pg_count : eng_pg_of_key(store->pg_count, bucket, key, len);
        return 0;
}

void eng_verify_copies(struct eng_verify *v)
{
        v->round = FIRST;
        if (group_of(v->store, &v->name, &v->pg) == 0) {
                ask_copies(v);
                return;
        }
        v->report.damaged_shards++;
        eng_verify_next(v);
}
