/*
 * get_stripe.c - one stripe of an object being read: where its bytes are, its units from their
 * drives, and those that are missing computed.
 *
 * Healthy: the data units that the range touches, straight from their drives. Degraded: any k
 * shards, whole; what was damaged on a living drive is written anew. get.c says which, and hands
 * out what is there. Home loop throughout.
 */
#include "engine/base/store.h"
#include "engine/object/get.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- slots ----------------------------------------------------------------------------------- */

void eng_get_drop_unit(struct eng_get *get, struct get_stripe *s, unsigned shard)
{
        if (s->slot[shard] == NULL)
                return;
        assert(s->state_of[shard] != SHARD_READING && get->used > 0);
        lp_slot_put(get->el->loop, s->slot[shard]);
        s->slot[shard] = NULL;
        get->used--;
}

/*
 * The drive has failed and keeps the slot, with its part of the reservation, until its I/O has
 * ended: slot_left().
 */
static void lose_unit(struct eng_get *get, struct get_stripe *s, unsigned shard)
{
        assert(get->used > 0 && get->used <= get->reserve.count);
        s->slot[shard] = NULL;
        s->lost = true;
        get->used--;
        get->reserve.count--;
        s->reserved -= s->of != NULL;
}

static void slot_left(struct lp_loop *home, void *slot)
{
        lp_slot_put(home, slot);
        lp_unreserve(home, LP_SHARE_GET, 1);
}

static void *get_take_slot(struct eng_get *get)
{
        if (get->used >= get->reserve.count)
                return NULL;
        get->used++;
        return lp_slot_get(get->el->loop);
}

void eng_get_drop_stripe(struct eng_get *get, struct get_stripe *s)
{
        unsigned i;

        assert(s->pending == 0 && s->repairs == 0 && s->hedge == NULL);
        for (i = 0; i < ERA_MAX_SHARDS; i++)
                eng_get_drop_unit(get, s, i);
        s->state = STRIPE_FREE;
}

void eng_get_drop_stripes(struct eng_get *get)
{
        unsigned i;

        for (i = 0; i < 2; i++)
                if (get->stripes[i] != NULL) /* there may have been memory for one of them */
                        eng_get_drop_stripe(get, get->stripes[i]);
}

/* ---- where a byte is ------------------------------------------------------------------------- */

void eng_get_part_at(const struct eng_get *get, unsigned i, struct eng_part *out)
{
        size_t pos = get->parts[i].pos;

        assert(i < get->part_count);
        eng_value_next_part(get->lookup.value->data, get->lookup.value->len, &pos, out);
}

unsigned eng_get_part_of(const struct eng_get *get, uint64_t offset)
{
        unsigned lo = 0, hi = get->part_count - 1;

        assert(get->part_count > 0);
        while (lo < hi) {
                unsigned mid = (lo + hi + 1) / 2;

                if (get->parts[mid].offset <= offset)
                        lo = mid;
                else
                        hi = mid - 1;
        }
        return lo;
}

void eng_get_locate(struct eng_get *get, struct get_stripe *s, uint64_t offset)
{
        unsigned p = eng_get_part_of(get, offset);
        uint64_t in_part, start, bytes;

        assert(offset < get->end);
        /*
         * parts without bytes share an offset with their successor; eng_get_part_of() gives the
         * last of them, which holds bytes
         */
        eng_get_part_at(get, p, &s->part);
        in_part = offset - get->parts[p].offset;
        s->stripe = (uint32_t)(in_part / ((uint64_t)s->part.head.k * s->part.head.unit));
        s->unit = eng_part_unit(&s->part.head, s->stripe);
        start = get->parts[p].offset + (uint64_t)s->stripe * s->part.head.k * s->part.head.unit;
        bytes = eng_stripe_bytes(&s->part.head, s->stripe);
        s->lo = offset - start;
        s->hi = get->end - start < bytes ? get->end - start : bytes;
        s->at = s->lo;
        s->next = start + s->hi;
        s->first = (unsigned)(s->lo / s->unit);
        s->last = (unsigned)((s->hi - 1) / s->unit);
        assert(s->lo < s->hi && s->last < s->part.head.k);
        s->bad = s->silent = 0;
        s->lost = false;
        s->summed = 0;
        s->pending = 0;
        s->held = 0;
        s->degraded = s->near = s->hedged = false;
        s->asked = s->good = 0;
        s->of = s->hedge = NULL;
        memset(s->state_of, 0, sizeof(s->state_of));
        memset(s->slot, 0, sizeof(s->slot));
}

void eng_get_wanted(const struct get_stripe *s, unsigned unit, uint32_t *offset, uint32_t *len)
{
        uint64_t start = (uint64_t)unit * s->unit;

        assert(unit >= s->first && unit <= s->last);
        *offset = s->lo > start ? (uint32_t)(s->lo - start) : 0;
        *len = (s->hi < start + s->unit ? (uint32_t)(s->hi - start) : s->unit) - *offset;
}

unsigned eng_get_shards(const struct get_stripe *s)
{
        return s->part.head.k + s->part.head.m;
}

int eng_get_drive_of(const struct eng_get *get, const struct get_stripe *s, unsigned shard)
{
        unsigned slot = eng_part_drive(&s->part, s->stripe, shard);

        if (slot >= get->store->drive_count || (s->bad >> shard & 1))
                return -1;
        return get->el->view.in & get->el->view.up & eng_bit(slot) ? (int)slot : -1;
}

unsigned eng_get_plain_units(const struct get_stripe *s)
{
        return s->last - s->first + 1;
}

unsigned eng_get_widest(const struct eng_get *get)
{
        struct eng_part part;
        unsigned i, n = 0, last = eng_get_part_of(get, get->end - 1);

        for (i = eng_get_part_of(get, get->pos); i <= last; i++) {
                eng_get_part_at(get, i, &part);
                if ((unsigned)part.head.k + part.head.m > n)
                        n = (unsigned)part.head.k + part.head.m;
        }
        return n;
}

unsigned eng_get_units_wanted(struct eng_get *get)
{
        struct get_stripe probe;
        unsigned n;

        eng_get_locate(get, &probe, get->pos);
        n = eng_get_plain_units(&probe);
        if (probe.next < get->end)
                n = 2u * probe.part.head.k;
        return n;
}

/* ---- reading shards -------------------------------------------------------------------------- */

static void get_shard_read(struct eng_op *op)
{
        struct get_read *r = container_of(op, struct get_read, op);
        struct get_stripe *s = r->stripe;
        struct eng_get *get = s->get;
        unsigned shard = op->read.shard;
        uint64_t now;

        if (get == NULL) {
                eng_get_left_read(s, op);
                return;
        }
        assert(eng_on_loop(get->el));
        now = lp_now(get->el->loop);
        eng_read_times_add(&get->el->home.read_times, eng_part_drive(&s->part, s->stripe, shard), now > op->submitted ? now - op->submitted : 0, now);
        assert(get->in_flight > 0 && s->pending > 0 && s->state_of[shard] == SHARD_READING);
        get->in_flight--;
        s->pending--;
        if (op->result == 0) {
                s->state_of[shard] = SHARD_GOOD;
                s->good++;
                if ((op->flags & ENG_OP_WANT_CRC) != 0)
                        s->summed |= 1u << shard;
        } else {
                if (op->result == -EAGAIN && (op->flags & ENG_OP_OTHERS) != 0)
                        s->silent |= 1u << shard;
                else
                        s->bad |= 1u << shard;
                if (op->result == -EBADMSG || op->result == -ENOENT)
                        s->damaged |= 1u << shard;
                s->state_of[shard] = SHARD_NONE;
                if (op->read.slot == NULL)
                        lose_unit(get, s, shard);
                else
                        eng_get_drop_unit(get, s, shard);
        }
        if (s->pending > 0)
                return;
        if (s->of != NULL)
                eng_get_hedge_back(get, s);
        else
                eng_get_stripe_done(get, s);
}

/* It says something, as far as is known, and is on another node. */
static bool may_stand_in(const struct eng_get *get, const struct get_stripe *s, unsigned shard, uint16_t node)
{
        int drive = eng_get_drive_of(get, s, shard);

        return drive >= 0 && (s->silent >> shard & 1) == 0 && !eng_drive_is_last(get->store->members[drive].drive) &&
               get->store->members[drive].drive->node != node;
}

/*
 * The stripe can be had without the node of this drive. Each shard is given up once at most: where too many are slow, they
 * are waited for in the end.
 */
static bool others_have_it(const struct eng_get *get, const struct get_stripe *s, unsigned shard, int drive)
{
        const uint16_t node = get->store->members[drive].drive->node;
        unsigned i, n = 0;

        if (node == 0 || (s->silent >> shard & 1))
                return false;
        for (i = 0; i < eng_get_shards(s); i++)
                n += eng_get_is_zero_unit(s, i) || s->state_of[i] == SHARD_GOOD || may_stand_in(get, s, i, node);
        return n >= s->part.head.k;
}

void eng_get_read_shard(struct eng_get *get, struct get_stripe *s, unsigned shard, int drive, uint32_t offset, uint32_t len)
{
        struct eng_op *op = &s->read[shard].op;
        uint32_t from, wanted;

        assert(s->state_of[shard] == SHARD_NONE && s->slot[shard] == NULL);
        s->slot[shard] = get_take_slot(get);
        assert(s->slot[shard] != NULL); /* the reservation has room for all that is begun */
        s->state_of[shard] = SHARD_READING;
        s->read[shard].stripe = s;
        memset(op, 0, sizeof(*op));
        op->kind = ENG_OP_READ;
        op->epoch = get->el->view.epoch;
        op->done = get_shard_read;
        memcpy(op->read.object_id, s->part.head.id, FMT_ID);
        op->read.stripe = s->stripe;
        op->read.shard = (uint8_t)shard;
        op->read.offset = offset;
        op->read.len = len;
        op->read.payload_len = s->unit;
        op->read.slot = s->slot[shard];
        op->read.left = slot_left;
        if (get->summing && shard >= s->first && shard <= s->last) {
                eng_get_wanted(s, shard, &from, &wanted);
                op->flags = from == offset && wanted == len ? ENG_OP_WANT_CRC : 0;
        }
        op->flags |= others_have_it(get, s, shard, drive) ? ENG_OP_OTHERS : 0;
        get->in_flight++;
        s->pending++;
        s->asked++;
        eng_drive_submit(get->store->members[drive].drive, op);
}

static bool is_last(const struct eng_get *get, int drive)
{
        return eng_drive_is_last(get->store->members[drive].drive);
}

bool eng_get_is_zero_unit(const struct get_stripe *s, unsigned shard)
{
        return shard < s->part.head.k && shard >= eng_stripe_units(&s->part.head, s->stripe);
}

/* Such a drive is read only where the stripe cannot be had from others. */
static bool can_do_without(const struct eng_get *get, const struct get_stripe *s)
{
        unsigned i, n = 0;

        for (i = 0; i < eng_get_shards(s); i++) {
                int drive = eng_get_drive_of(get, s, i);

                n += eng_get_is_zero_unit(s, i) || (drive >= 0 && !is_last(get, drive));
        }
        return n >= s->part.head.k;
}

bool eng_get_read_plain(struct eng_get *get, struct get_stripe *s)
{
        uint32_t offset, len;
        unsigned u;

        for (u = s->first; u <= s->last; u++) {
                int drive = eng_get_drive_of(get, s, u);

                if (drive < 0 || (is_last(get, drive) && can_do_without(get, s)))
                        return false;
        }
        for (u = s->first; u <= s->last; u++) {
                eng_get_wanted(s, u, &offset, &len);
                eng_get_read_shard(get, s, u, eng_get_drive_of(get, s, u), offset, len);
        }
        return true;
}

/* k shards in hand (or known zeroes), counting those being read. */
static unsigned in_hand(const struct get_stripe *s)
{
        unsigned i, n = 0;

        for (i = 0; i < eng_get_shards(s); i++)
                n += s->state_of[i] != SHARD_NONE || eng_get_is_zero_unit(s, i);
        return n;
}

/* last: from whichever there is; what was last may be so no more. */
static void read_from(struct eng_get *get, struct get_stripe *s, bool last)
{
        unsigned i;

        for (i = 0; i < eng_get_shards(s) && in_hand(s) < s->part.head.k; i++) {
                int drive = s->state_of[i] != SHARD_NONE || eng_get_is_zero_unit(s, i) ? -1 : eng_get_drive_of(get, s, i);

                if (drive >= 0 && (last || !is_last(get, drive)))
                        eng_get_read_shard(get, s, i, drive, 0, s->unit);
        }
}

int eng_get_read_any(struct eng_get *get, struct get_stripe *s)
{
        assert(s->degraded && !s->lost);
        read_from(get, s, false);
        read_from(get, s, true);
        if (in_hand(s) >= s->part.head.k)
                return 0;
        return s->damaged != 0 ? -EIO : -EHOSTDOWN;
}

/*
 * Its drive has said that it is not there, or damaged; or there is no drive that could have it. One
 * that is only away may have it.
 */
static bool is_gone(const struct eng_get *get, const struct get_stripe *s, unsigned shard)
{
        unsigned slot = eng_part_drive(&s->part, s->stripe, shard);

        return (s->damaged >> shard & 1) || slot >= get->store->drive_count || (get->el->view.map->gone & eng_bit(slot)) != 0;
}

bool eng_get_stripe_lost(const struct eng_get *get, const struct get_stripe *s)
{
        unsigned i, n = 0;

        for (i = 0; i < eng_get_shards(s); i++)
                n += !eng_get_is_zero_unit(s, i) && is_gone(get, s, i);
        return n > s->part.head.m;
}

/* ---- rebuilding ------------------------------------------------------------------------------ */

static void get_stripe_repaired(struct eng_op *op)
{
        struct get_read *r = container_of(op, struct get_read, op);
        struct eng_get *get = r->stripe->get;

        assert(get->in_flight > 0 && r->stripe->repairs > 0);
        if (op->result == 0)
                atomic_fetch_add(&get->store->repaired_reads, 1);
        get->in_flight--;
        if (--r->stripe->repairs == 0)
                eng_get_wake(get); /* the slots of a stripe that was handed out are free now */
        eng_get_proceed(get);
}

/*
 * It is flushed, too: it stands before what else the drive may have of this unit, which heal.c may
 * have written, flushed and counted on meanwhile.
 */
static void rewritten(struct eng_op *op)
{
        const struct get_stripe *s = container_of(op, struct get_read, op)->stripe;
        unsigned slot = eng_part_drive(&s->part, s->stripe, op->write.shard);

        if (op->result != 0) {
                get_stripe_repaired(op);
                return;
        }
        op->kind = ENG_OP_SYNC;
        op->done = get_stripe_repaired;
        eng_drive_submit(s->get->store->members[slot].drive, op);
}

/* Writes a rebuilt unit anew on the living drive that gave damage for it. */
static void get_repair(struct eng_get *get, struct get_stripe *s, unsigned shard)
{
        unsigned slot = eng_part_drive(&s->part, s->stripe, shard);
        struct eng_op *op = &s->read[shard].op;

        assert(s->state_of[shard] == SHARD_GOOD && s->slot[shard] != NULL);
        if (!(s->damaged >> shard & 1) || slot >= get->store->drive_count ||
            !(get->el->view.in & get->el->view.up & eng_bit(slot)))
                return;
        if (eng_is_home(get->store)) { /* its leader writes it */
                eng_upkeep_group(get->store, get->lookup.pg);
                return;
        }
        memset(op, 0, sizeof(*op));
        s->read[shard].stripe = s;
        op->kind = ENG_OP_WRITE;
        op->epoch = get->el->view.epoch;
        op->done = rewritten;
        memcpy(op->write.object_id, s->part.head.id, FMT_ID);
        op->write.stripe = s->stripe;
        op->write.shard = (uint8_t)shard;
        op->write.k = s->part.head.k;
        op->write.m = s->part.head.m;
        op->write.payload_len = s->unit;
        op->write.key_hash = get->key_hash;
        op->write.slot = s->slot[shard];
        op->write.payload = (uint8_t *)s->slot[shard] + LP_SLOT_HEADER;
        get->in_flight++;
        s->repairs++;
        eng_drive_submit(get->store->members[slot].drive, op);
}

int eng_get_code_for(struct eng_get *get, const struct fmt_part *part, struct era_code **out, bool *made)
{
        *made = part->k != get->store->k || part->m != get->store->m;
        *out = get->store->code;
        return *made ? era_code_new(part->k, part->m, out) : 0;
}

int eng_get_rebuild(struct eng_get *get, struct get_stripe *s)
{
        const uint8_t *have[ERA_MAX_SHARDS] = {NULL};
        bool present[ERA_MAX_SHARDS] = {false};
        uint8_t want[ERA_MAX_SHARDS], *out[ERA_MAX_SHARDS];
        unsigned i, n = 0;
        struct era_code *code;
        uint64_t began;
        bool made;
        int rv;

        assert(s->degraded && s->pending == 0 && in_hand(s) >= s->part.head.k);
        for (i = 0; i < eng_get_shards(s); i++) {
                present[i] = s->state_of[i] == SHARD_GOOD || eng_get_is_zero_unit(s, i);
                if (present[i])
                        have[i] = s->slot[i] == NULL ? eng_zero_unit : (uint8_t *)s->slot[i] + LP_SLOT_HEADER;
        }
        for (i = s->first; i <= s->last; i++) {
                if (present[i])
                        continue;
                s->slot[i] = get_take_slot(get);
                if (s->slot[i] == NULL)
                        return -EIO;
                want[n] = (uint8_t)i;
                out[n++] = (uint8_t *)s->slot[i] + LP_SLOT_HEADER;
        }
        rv = eng_get_code_for(get, &s->part.head, &code, &made);
        if (rv != 0)
                return rv;
        if (n != 0) {
                began = lp_clock();
                rv = era_rebuild(code, s->unit, have, present, want, n, out);
                eng_step_ends(get->el, ENG_STEP_REBUILD, began);
        }
        if (made)
                era_code_free(code);
        if (rv == 0 && n != 0 && !get->rebuilt) {
                get->rebuilt = true;
                atomic_fetch_add(&get->store->degraded_reads, 1);
        }
        for (i = 0; rv == 0 && i < n; i++) {
                s->state_of[want[i]] = SHARD_GOOD;
                lp_trace(LP_TRACE_GET_DEGRADED, s->stripe, want[i]);
                get_repair(get, s, want[i]);
        }
        return rv;
}
