/*
 * get.c - reading one open object: verified bytes, in order, from any k shards of each stripe.
 *
 * Healthy: the data units a range touches are read straight from their drives, a stripe ahead of what is handed out. When a unit's drive is missing,
 * fails, or gives bytes that are not what was written, the stripe is read again from any k shards and the missing units are
 * computed (degraded); what was damaged on a living drive is written anew. Every byte handed out was verified by the drive that read it or
 * rebuilt from verified ones (I5). Home loop throughout.
 */
#include "engine/get.h"
#include "engine/txn_util.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static void fill(struct eng_get *get);
static void settle(struct eng_get *get);

/* ---- opening ---------------------------------------------------------------------------------------------- */

static int index_parts(struct eng_get *get)
{
        const struct eng_buf *value = get->lookup.value;
        unsigned count = eng_value_head(value->data)->parts, i;
        struct eng_part part;
        uint64_t offset = 0;
        size_t pos = 0;

        get->parts = calloc(count + 1, sizeof(get->parts[0]));
        if (get->parts == NULL)
                return -ENOMEM;
        for (i = 0; i < count; i++) {
                get->parts[i].pos = pos;
                get->parts[i].offset = offset;
                if (eng_value_next_part(value->data, value->len, &pos, &part) != 1)
                        return -EIO;
                offset += part.head.size;
        }
        get->parts[count].offset = offset;
        get->part_count = count;
        return offset == get->object.size ? 0 : -EIO;
}

static void free_get(struct eng_lookup *lookup)
{
        struct eng_get *get = (struct eng_get *)lookup;

        eng_buf_unref(lookup->value);
        eng_buf_unref(lookup->bytes);
        free(get->parts);
        free(get->stripes);
        free(get);
}

static void end_get(struct eng_get *get)
{
        TAILQ_REMOVE(&get->el->gets, get, link);
        if (get->lookup.pinned)
                eng_unpin(&get->lookup, free_get);
        else
                free_get(&get->lookup);
}

static void opened(struct eng_lookup *lookup)
{
        struct eng_get *get = (struct eng_get *)lookup;
        int rv = lookup->result;

        get->looked_up = true;
        if (rv == 0) {
                eng_value_object(lookup->value, &get->object);
                if (eng_value_has_shards(eng_value_head(lookup->value->data)))
                        rv = index_parts(get);
                else if (get->object.size != (lookup->bytes == NULL ? 0 : lookup->bytes->len))
                        rv = -EIO;
        }
        get->opened(get->arg, rv, rv == 0 ? get : NULL);
        if (rv != 0)
                end_get(get);
}

void eng_get_open(struct eng_store *store, uint64_t bucket, struct eng_str key, eng_get_opened done, void *arg)
{
        bool fit = key.len <= ENG_KEY_MAX;
        struct eng_get *get = fit ? calloc(1, sizeof(*get)) : NULL;

        if (get == NULL) {
                eng_early(store, (struct eng_early){.get = done, .arg = arg, .rv = fit ? -ENOMEM : -EINVAL});
                return;
        }
        get->store = store;
        get->el = eng_here(store);
        get->number = ++get->el->get_count;
        TAILQ_INSERT_TAIL(&get->el->gets, get, link);
        get->opened = done;
        get->arg = arg;
        get->lookup.store = store;
        get->lookup.pg = eng_pg_of_key(store->pg_count, bucket, key.data, key.len);
        get->lookup.flags = ENG_OP_WANT_INLINE;
        get->lookup.pin = true;
        get->lookup.done = opened;
        eng_name_object(&get->lookup.name, bucket, key.data, key.len);
        eng_lookup_start(&get->lookup);
}

bool eng_get_each_part(const struct eng_loop *el, uint64_t upto, void (*each)(void *arg, const struct eng_part *part), void *arg)
{
        const struct eng_get *get;
        bool known = true;

        TAILQ_FOREACH(get, &el->gets, link) {
                struct eng_part part;
                size_t pos = 0;

                if (!get->looked_up) /* the lookup is the primary loop's */
                        known &= get->number > upto;
                else if (get->lookup.value != NULL)
                        while (eng_value_next_part(get->lookup.value->data, get->lookup.value->len, &pos, &part) == 1)
                                each(arg, &part);
        }
        return known;
}

const struct eng_object *eng_get_object(const struct eng_get *get)
{
        return &get->object;
}

struct eng_buf *eng_get_value(const struct eng_get *get)
{
        return get->lookup.value;
}

static void part_at(const struct eng_get *get, unsigned i, struct eng_part *out)
{
        size_t pos = get->parts[i].pos;

        eng_value_next_part(get->lookup.value->data, get->lookup.value->len, &pos, out);
}

int eng_get_part(const struct eng_get *get, unsigned i, struct eng_part_view *out)
{
        struct eng_part part;

        if (i >= get->object.part_count)
                return -ENOENT;
        part_at(get, i, &part);
        out->number = part.head.number;
        out->offset = get->parts[i].offset;
        out->size = part.head.size;
        memcpy(out->etag, part.head.etag, 16);
        out->attrs.data = (const char *)part.attrs;
        out->attrs.len = part.head.attrs_len;
        return 0;
}

/* ---- slots and reservations ---------------------------------------------------------------------------------- */

static void drop_unit(struct eng_get *get, struct get_stripe *s, unsigned shard)
{
        if (s->slot[shard] == NULL)
                return;
        lp_slot_put(get->el->loop, s->slot[shard]);
        s->slot[shard] = NULL;
        get->used--;
}

static void *take_slot(struct eng_get *get)
{
        if (get->used >= get->reserve.count)
                return NULL;
        get->used++;
        return lp_slot_get(get->el->loop);
}

static void drop_stripe(struct eng_get *get, struct get_stripe *s)
{
        unsigned i;

        for (i = 0; i < ERA_MAX_SHARDS; i++)
                drop_unit(get, s, i);
        s->state = STRIPE_FREE;
}

static void drop_stripes(struct eng_get *get)
{
        if (get->stripes == NULL)
                return;
        drop_stripe(get, &get->stripes[0]);
        drop_stripe(get, &get->stripes[1]);
}

static void wake(struct eng_get *get)
{
        void (*call)(void *arg) = get->wake;

        if (!get->waiting || get->closed)
                return;
        get->waiting = false;
        call(get->wake_arg);
}

static void granted(struct lp_reserve *reserve)
{
        struct eng_get *get = (struct eng_get *)((char *)reserve - offsetof(struct eng_get, reserve));

        get->granted = true;
        get->reserving = false;
        eng_step(get->el, ENG_STEP_BUFFERS, lp_now(get->el->loop) - reserve->since);
        fill(get);
}

static int reserve(struct eng_get *get, unsigned count)
{
        unsigned most = lp_share_slots(get->el->loop, LP_SHARE_GET);
        int rv;

        get->reserve.share = LP_SHARE_GET;
        get->reserve.granted = granted;
        get->reserve.count = count < most ? count : most;
        rv = lp_reserve(get->el->loop, &get->reserve);
        get->granted = rv == 0;
        get->reserving = rv == -EAGAIN;
        if (get->granted)
                eng_step(get->el, ENG_STEP_BUFFERS, 0);
        return rv == -EAGAIN ? 0 : rv;
}

static void unreserve(struct eng_get *get)
{
        if (get->granted)
                lp_unreserve(get->el->loop, LP_SHARE_GET, get->reserve.count);
        else if (get->reserving)
                lp_reserve_cancel(get->el->loop, &get->reserve);
        get->granted = get->reserving = false;
}

/* ---- where a byte is --------------------------------------------------------------------------------------------- */

static unsigned part_of(const struct eng_get *get, uint64_t offset)
{
        unsigned lo = 0, hi = get->part_count - 1;

        while (lo < hi) {
                unsigned mid = (lo + hi + 1) / 2;

                if (get->parts[mid].offset <= offset)
                        lo = mid;
                else
                        hi = mid - 1;
        }
        return lo;
}

/* Describes the stripe that holds byte `offset` of the object and how much of it the range wants. */
static void locate(struct eng_get *get, struct get_stripe *s, uint64_t offset)
{
        unsigned p = part_of(get, offset);
        uint64_t in_part, start, bytes;

        /* parts without bytes share an offset with their successor; part_of() gives the last of them, which holds bytes */
        part_at(get, p, &s->part);
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
        s->bad = 0;
        s->summed = 0;
        s->pending = 0;
        s->held = 0;
        s->degraded = false;
        memset(s->state_of, 0, sizeof(s->state_of));
        memset(s->slot, 0, sizeof(s->slot));
}

/* What the range wants of a data unit between first and last. */
static void wanted_of(const struct get_stripe *s, unsigned unit, uint32_t *offset, uint32_t *len)
{
        uint64_t start = (uint64_t)unit * s->unit;

        *offset = s->lo > start ? (uint32_t)(s->lo - start) : 0;
        *len = (s->hi < start + s->unit ? (uint32_t)(s->hi - start) : s->unit) - *offset;
}

static unsigned shards(const struct get_stripe *s)
{
        return s->part.head.k + s->part.head.m;
}

/* Drive of a shard if it can be asked, else -1. */
static int drive_of(const struct eng_get *get, const struct get_stripe *s, unsigned shard)
{
        unsigned slot = eng_part_drive(&s->part, s->stripe, shard);

        if (slot >= get->store->drive_count || (s->bad >> shard & 1))
                return -1;
        return get->el->view.in & get->el->view.up & eng_bit(slot) ? (int)slot : -1;
}

/* ---- reading shards ------------------------------------------------------------------------------------------------ */

static void stripe_done(struct eng_get *get, struct get_stripe *s);

static void shard_read(struct eng_op *op)
{
        struct get_read *r = (struct get_read *)((char *)op - offsetof(struct get_read, op));
        struct get_stripe *s = r->stripe;
        struct eng_get *get = s->get;
        unsigned shard = op->read.shard;

        get->in_flight--;
        s->pending--;
        if (op->result == 0) {
                s->state_of[shard] = SHARD_GOOD;
                if ((op->flags & ENG_OP_WANT_CRC) != 0)
                        s->summed |= 1u << shard;
        } else {
                s->bad |= 1u << shard;
                if (op->result == -EBADMSG || op->result == -ENOENT)
                        s->damaged |= 1u << shard;
                s->state_of[shard] = SHARD_NONE;
                drop_unit(get, s, shard);
        }
        if (s->pending == 0)
                stripe_done(get, s);
}

static void read_shard(struct eng_get *get, struct get_stripe *s, unsigned shard, int drive, uint32_t offset, uint32_t len)
{
        struct eng_op *op = &s->read[shard].op;
        uint32_t from, wanted;

        s->slot[shard] = take_slot(get);
        s->state_of[shard] = SHARD_READING;
        s->read[shard].stripe = s;
        memset(op, 0, sizeof(*op));
        op->kind = ENG_OP_READ;
        op->epoch = get->el->view.epoch;
        op->done = shard_read;
        memcpy(op->read.object_id, s->part.head.id, FMT_ID);
        op->read.stripe = s->stripe;
        op->read.shard = (uint8_t)shard;
        op->read.offset = offset;
        op->read.len = len;
        op->read.payload_len = s->unit;
        op->read.slot = s->slot[shard];
        if (get->summing && shard >= s->first && shard <= s->last) {
                wanted_of(s, shard, &from, &wanted);
                op->flags = from == offset && wanted == len ? ENG_OP_WANT_CRC : 0;
        }
        get->in_flight++;
        s->pending++;
        eng_drive_submit(get->store->members[drive].drive, op);
}

/* The healthy way: just the data units the range touches. False if one of them can't be asked for. */
static bool read_plain(struct eng_get *get, struct get_stripe *s)
{
        uint32_t offset, len;
        unsigned u;

        for (u = s->first; u <= s->last; u++)
                if (drive_of(get, s, u) < 0)
                        return false;
        for (u = s->first; u <= s->last; u++) {
                wanted_of(s, u, &offset, &len);
                read_shard(get, s, u, drive_of(get, s, u), offset, len);
        }
        return true;
}

static bool is_zero_unit(const struct get_stripe *s, unsigned shard)
{
        return shard < s->part.head.k && shard >= eng_stripe_units(&s->part.head, s->stripe);
}

/* k shards in hand (or known zeroes), counting those being read. */
static unsigned in_hand(const struct get_stripe *s)
{
        unsigned i, n = 0;

        for (i = 0; i < shards(s); i++)
                n += s->state_of[i] != SHARD_NONE || is_zero_unit(s, i);
        return n;
}

/* Reads whole units until k are in hand; data first. -EIO or -EHOSTDOWN when that can't be. */
static int read_any(struct eng_get *get, struct get_stripe *s)
{
        unsigned i;

        for (i = 0; i < shards(s) && in_hand(s) < s->part.head.k; i++) {
                int drive = s->state_of[i] != SHARD_NONE || is_zero_unit(s, i) ? -1 : drive_of(get, s, i);

                if (drive >= 0)
                        read_shard(get, s, i, drive, 0, s->unit);
        }
        if (in_hand(s) >= s->part.head.k)
                return 0;
        return s->damaged != 0 ? -EIO : -EHOSTDOWN;
}

/* ---- rebuilding ------------------------------------------------------------------------------------------------------ */

static void repaired(struct eng_op *op)
{
        struct get_read *r = (struct get_read *)((char *)op - offsetof(struct get_read, op));
        struct eng_get *get = r->stripe->get;

        if (op->result == 0)
                atomic_fetch_add(&get->store->repaired_reads, 1);
        get->in_flight--;
        if (--r->stripe->repairs == 0)
                wake(get); /* the slots of a stripe that was handed out are free now */
        settle(get);
}

/* It is flushed, too: it stands before what else the drive may have of this unit, which heal.c may have written, flushed and counted on meanwhile. */
static void rewritten(struct eng_op *op)
{
        const struct get_stripe *s = ((struct get_read *)((char *)op - offsetof(struct get_read, op)))->stripe;
        unsigned slot = eng_part_drive(&s->part, s->stripe, op->write.shard);

        if (op->result != 0) {
                repaired(op);
                return;
        }
        op->kind = ENG_OP_SYNC;
        op->done = repaired;
        eng_drive_submit(s->get->store->members[slot].drive, op);
}

/* Writes a rebuilt unit anew on the living drive that gave damage for it. */
static void repair(struct eng_get *get, struct get_stripe *s, unsigned shard)
{
        unsigned slot = eng_part_drive(&s->part, s->stripe, shard);
        struct eng_op *op = &s->read[shard].op;

        if (!(s->damaged >> shard & 1) || slot >= get->store->drive_count ||
            !(get->el->view.in & get->el->view.up & eng_bit(slot)))
                return;
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
        op->write.slot = s->slot[shard];
        op->write.payload = (uint8_t *)s->slot[shard] + LP_SLOT_HEADER;
        get->in_flight++;
        s->repairs++;
        eng_drive_submit(get->store->members[slot].drive, op);
}

static int code_for(struct eng_get *get, const struct fmt_part *part, struct era_code **out, bool *made)
{
        *made = part->k != get->store->k || part->m != get->store->m;
        *out = get->store->code;
        return *made ? era_code_new(part->k, part->m, out) : 0;
}

static int rebuild(struct eng_get *get, struct get_stripe *s)
{
        const uint8_t *have[ERA_MAX_SHARDS] = {NULL};
        bool present[ERA_MAX_SHARDS] = {false};
        uint8_t want[ERA_MAX_SHARDS], *out[ERA_MAX_SHARDS];
        unsigned i, n = 0;
        struct era_code *code;
        uint64_t began;
        bool made;
        int rv;

        for (i = 0; i < shards(s); i++) {
                present[i] = s->state_of[i] == SHARD_GOOD || is_zero_unit(s, i);
                if (present[i])
                        have[i] = s->slot[i] == NULL ? eng_zero_unit : (uint8_t *)s->slot[i] + LP_SLOT_HEADER;
        }
        for (i = s->first; i <= s->last; i++) {
                if (present[i])
                        continue;
                s->slot[i] = take_slot(get);
                if (s->slot[i] == NULL)
                        return -EIO;
                want[n] = (uint8_t)i;
                out[n++] = (uint8_t *)s->slot[i] + LP_SLOT_HEADER;
        }
        rv = code_for(get, &s->part.head, &code, &made);
        if (rv != 0)
                return rv;
        if (n != 0) {
                began = lp_clock();
                rv = era_rebuild(code, s->unit, have, present, want, n, out);
                eng_step_ends(get->el, ENG_STEP_REBUILD, began);
        }
        if (made)
                era_code_free(code);
        for (i = 0; rv == 0 && i < n; i++) {
                s->state_of[want[i]] = SHARD_GOOD;
                repair(get, s, want[i]);
        }
        return rv;
}

/* ---- stripes ------------------------------------------------------------------------------------------------------------ */

static void fail(struct eng_get *get, int rv)
{
        if (get->error == 0)
                get->error = rv;
        settle(get);
}

static void stripe_ready(struct eng_get *get, struct get_stripe *s)
{
        s->state = STRIPE_READY;
        if (s == &get->stripes[get->current])
                wake(get);
}

/* All reads of a stripe are back. */
static void stripe_done(struct eng_get *get, struct get_stripe *s)
{
        unsigned u;
        int rv;

        if (get->closed || get->error != 0 || get->degrading) {
                settle(get);
                return;
        }
        if (s->degraded) {
                rv = read_any(get, s);
                if (rv == 0 && s->pending > 0)
                        return;
                eng_step_ends(get->el, ENG_STEP_READ, s->began);
                if (rv == 0)
                        rv = rebuild(get, s);
                if (rv == 0)
                        stripe_ready(get, s);
                else
                        fail(get, rv);
                return;
        }
        eng_step_ends(get->el, ENG_STEP_READ, s->began);
        for (u = s->first; u <= s->last; u++)
                if (s->state_of[u] != SHARD_GOOD) {
                        get->degrading = true;
                        get->keep_bad = s->bad;
                        get->keep_damaged = s->damaged;
                        get->keep_next = s->next;
                        settle(get);
                        return;
                }
        stripe_ready(get, s);
}

/* Units a plain read of this stripe takes. */
static unsigned plain_units(const struct get_stripe *s)
{
        return s->last - s->first + 1;
}

/* Begins to read the stripe at get->ahead. False: no slots for it now. */
static bool start_stripe(struct eng_get *get, struct get_stripe *s)
{
        unsigned room = get->reserve.count - get->used;
        int rv;

        locate(get, s, get->ahead);
        s->get = get;
        s->began = lp_clock();
        s->damaged = 0;
        s->repairs = 0;
        if (get->keep_next == s->next) {
                s->bad = get->keep_bad;
                s->damaged = get->keep_damaged;
        }
        if (plain_units(s) > room)
                return false;
        if (read_plain(get, s)) {
                s->state = STRIPE_READING;
                get->ahead = s->next;
                return true;
        }
        if (get->reserve.count < shards(s)) {
                get->degrading = true; /* needs a larger reservation first */
                return false;
        }
        if (get->used != 0)
                return false;
        s->degraded = true;
        s->state = STRIPE_READING;
        get->ahead = s->next;
        rv = read_any(get, s);
        if (rv != 0)
                fail(get, rv);
        else if (s->pending == 0)
                stripe_done(get, s);
        return true;
}

/* Reads ahead as far as slots and the two stripes go. */
static void fill(struct eng_get *get)
{
        while (get->granted && get->error == 0 && !get->closed && !get->degrading && get->ahead < get->end) {
                struct get_stripe *s = &get->stripes[get->current];

                if (s->state == STRIPE_READING && s->degraded)
                        break; /* it may need every slot there is */
                if (s->state != STRIPE_FREE)
                        s = &get->stripes[get->current ^ 1];
                if (s->state != STRIPE_FREE || s->repairs != 0 || !start_stripe(get, s))
                        break;
        }
        settle(get);
}

/* Degrading: once nothing is in flight and nothing is being handed out, the reservation is changed for one that holds a whole stripe and the reading
 * goes on from where handing out stopped. */
static void degrade(struct eng_get *get)
{
        struct get_stripe *s = &get->stripes[get->current];
        int rv;

        if (s->state == STRIPE_READY || get->stripes[0].held != 0 || get->stripes[1].held != 0)
                return; /* handed out first, and let go */
        drop_stripes(get);
        unreserve(get);
        get->ahead = get->pos;
        get->degrading = false;
        rv = reserve(get, get->widest);
        if (rv != 0)
                fail(get, rv);
        else if (get->granted)
                fill(get);
}

/* Called whenever something came back: ends what waits for the last of it. */
static void settle(struct eng_get *get)
{
        if (get->in_flight > 0)
                return;
        if (get->closing) {
                drop_stripes(get);
                unreserve(get);
                end_get(get);
        } else if (get->error != 0) {
                wake(get);
        } else if (get->degrading) {
                degrade(get);
        }
}

/* ---- the caller's side ----------------------------------------------------------------------------------------------------- */

static unsigned widest_stripe(const struct eng_get *get)
{
        struct eng_part part;
        unsigned i, n = 0, last = part_of(get, get->end - 1);

        for (i = part_of(get, get->pos); i <= last; i++) {
                part_at(get, i, &part);
                if ((unsigned)part.head.k + part.head.m > n)
                        n = (unsigned)part.head.k + part.head.m;
        }
        return n;
}

/* Slots for two stripes of the range, or as many units as there are. */
static unsigned units_wanted(struct eng_get *get)
{
        struct get_stripe probe;
        unsigned n;

        locate(get, &probe, get->pos);
        n = plain_units(&probe);
        if (probe.next < get->end)
                n = 2u * probe.part.head.k;
        return n;
}

int eng_get_start(struct eng_get *get, uint64_t offset, uint64_t len, void (*wake_cb)(void *arg), void *arg)
{
        if (offset > get->object.size || len > get->object.size - offset)
                return -EINVAL;
        get->pos = get->ahead = offset;
        get->end = offset + len;
        get->wake = wake_cb;
        get->wake_arg = arg;
        get->crc = 0;
        if (get->part_count == 0)
                return 0;
        if (get->stripes == NULL)
                get->stripes = calloc(2, sizeof(*get->stripes));
        if (get->stripes == NULL)
                return -ENOMEM;
        if (len == 0)
                return 0;
        if (get->in_flight > 0)
                return ENG_GET_BUSY; /* a repair of the last range is under way */
        drop_stripes(get);
        unreserve(get);
        get->keep_next = 0;
        get->widest = widest_stripe(get);
        return reserve(get, units_wanted(get));
}

/* crc: theirs, from who verified them; NULL: not known. */
static int give(struct eng_get *get, const uint8_t *data, size_t n, const uint32_t *crc, const uint8_t **out,
                size_t *len)
{
        *out = data;
        *len = n;
        get->pos += n;
        if (get->summing)
                get->crc = crc != NULL ? era_crc32c_combine(get->crc, *crc, n) : era_crc32c(get->crc, data, n);
        return 0;
}

static bool handed_out(const struct get_stripe *s)
{
        return s->state == STRIPE_READY && s->at == s->hi;
}

static bool in_use(const struct get_stripe *s)
{
        return s->repairs != 0 || s->held != 0;
}

/* A stripe that was handed out to its end makes room for the next; one of which spans are held stays while the other is handed out. */
static void advance(struct eng_get *get)
{
        struct get_stripe *s = &get->stripes[get->current], *other = &get->stripes[get->current ^ 1];
        bool moved = false;

        if (handed_out(other) && !in_use(other)) {
                drop_stripe(get, other);
                moved = true;
        }
        if (handed_out(s) && s->repairs == 0 && (s->held == 0 || !handed_out(other))) {
                if (s->held == 0)
                        drop_stripe(get, s);
                get->current ^= 1;
                moved = true;
        }
        if (moved)
                fill(get);
}

int eng_get_next(struct eng_get *get, const uint8_t **data, size_t *len)
{
        const uint8_t *unit;
        struct get_stripe *s;
        uint32_t offset, n;
        unsigned u;

        if (get->part_count == 0) {
                if (get->pos == get->end)
                        return -ENODATA;
                return give(get, get->lookup.bytes->data + get->pos, get->end - get->pos, NULL, data, len);
        }
        advance(get);
        if (get->error == 0 && get->ahead == get->pos && get->pos < get->end)
                fill(get);
        if (get->error != 0)
                return get->error;
        if (get->pos == get->end)
                return -ENODATA;
        s = &get->stripes[get->current];
        if (s->state != STRIPE_READY || s->at == s->hi) {
                get->waiting = true;
                return -EAGAIN;
        }
        u = (unsigned)(s->at / s->unit);
        wanted_of(s, u, &offset, &n);
        unit = (const uint8_t *)s->slot[u] + LP_SLOT_HEADER;
        s->at += n;
        s->held += get->holding;
        return give(get, unit + offset, n, s->summed >> u & 1 ? &s->read[u].op.read.crc : NULL, data, len);
}

void eng_get_hold(struct eng_get *get)
{
        get->holding = true;
}

static bool lies_in(const struct get_stripe *s, const uint8_t *data)
{
        unsigned u;

        for (u = s->first; s->held != 0 && u <= s->last; u++)
                if (s->slot[u] != NULL && (uintptr_t)data - (uintptr_t)s->slot[u] < LP_SLOT_SIZE)
                        return true;
        return false;
}

void eng_get_let_go(struct eng_get *get, const uint8_t *data)
{
        struct get_stripe *s = get->stripes;

        if (s == NULL)
                return; /* inline bytes stay as long as the object is open */
        if (!lies_in(s, data))
                s++;
        assert(lies_in(s, data));
        get->waiting = false; /* who lets go asks again */
        if (--s->held == 0)
                settle(get);
}

void eng_get_sum(struct eng_get *get)
{
        get->summing = true;
}

uint32_t eng_get_crc32c(const struct eng_get *get)
{
        return get->crc;
}

static void close_now(struct lp_msg *msg)
{
        struct eng_get *get = (struct eng_get *)((char *)msg - offsetof(struct eng_get, close_msg));

        get->closing = true;
        settle(get);
}

/* By message: the caller may be inside its wake(), and what woke it is not done with get. */
void eng_get_close(struct eng_get *get)
{
        get->closed = true;
        get->waiting = false;
        get->close_msg.run = close_now;
        lp_post(get->el->loop, &get->close_msg);
}
