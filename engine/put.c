/*
 * put.c - an upload of an object or part: bytes in, verified durable shards or an inline record out.
 *
 * Small objects gather in memory and go into their log record. Larger ones fill one unit at a time in an arena slot; a full unit is added into the
 * stripe's parity and written at once. commit: last units, then SYNC on every drive used, then the record (a txn), so that a
 * record never names a shard that is not stable (I2). Memory per upload is its reservation of slots. Home loop throughout.
 */
#include "engine/put.h"

#include <assert.h>
#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define STALE_RETRY_NS (5ull * 1000 * 1000)
#define STALE_RETRIES 2000u
#define GATHER_BYTES (64u << 10)

static void step(struct eng_put *put);

/* ---- slots ------------------------------------------------------------------------------------------------- */

static void *take_slot(struct eng_put *put)
{
        if (!put->granted || put->used >= put->reserve.count)
                return NULL;
        put->used++;
        return lp_slot_get(put->el->loop);
}

void eng_put_drop_slot(struct eng_put *put, void *slot)
{
        lp_slot_put(put->el->loop, slot);
        put->used--;
}

void eng_put_wake(struct eng_put *put)
{
        if (!put->waiting)
                return;
        put->waiting = false;
        if (put->no_room != 0)
                eng_step_ends(put->el, ENG_STEP_ROOM, put->no_room);
        put->no_room = 0;
        put->params.wake(put->params.arg);
}

void eng_put_back(struct eng_put *put)
{
        put->in_flight--;
        step(put);
}

/* The hasher waits for those that hold slots, as they will have something for it. */
static void set_granted(struct eng_put *put, bool is)
{
        if (put->params.md5 && is != put->granted)
                atomic_fetch_add(&put->el->bulk_hasher->expected, is ? 1u : -1u);
        put->granted = is;
}

static void granted(struct lp_reserve *reserve)
{
        struct eng_put *put = (struct eng_put *)((char *)reserve - offsetof(struct eng_put, reserve));

        set_granted(put, true);
        eng_step(put->el, ENG_STEP_BUFFERS, lp_now(put->el->loop) - reserve->since);
        eng_put_wake(put);
}

/* The client is told to slow down. */
static void expired(struct lp_reserve *reserve)
{
        struct eng_put *put = (struct eng_put *)((char *)reserve - offsetof(struct eng_put, reserve));

        if (put->error == 0)
                put->error = -EAGAIN;
        eng_put_wake(put);
}

/* Enough for a stripe under way and the next one begun, if it is to be had at once; else the least that can make progress. */
static int reserve_slots(struct eng_put *put)
{
        struct lp_loop *loop = put->el->loop;
        unsigned least = 2 + put->m, good = put->k + 2 * put->m + 1, half = lp_share_slots(loop, LP_SHARE_PUT) / 2;
        int rv;

        put->reserve.share = LP_SHARE_PUT;
        put->reserve.granted = granted;
        put->reserve.expired = expired;
        put->reserve.count = good < half ? good : least;
        rv = lp_reserve(loop, &put->reserve);
        if (rv == -EAGAIN && put->reserve.count > least) {
                lp_reserve_cancel(loop, &put->reserve);
                put->reserve.count = least;
                rv = lp_reserve(loop, &put->reserve);
        }
        set_granted(put, rv == 0);
        if (put->granted)
                eng_step(put->el, ENG_STEP_BUFFERS, 0);
        if (rv == -EBUSY)
                return -EAGAIN;
        return rv == 0 || rv == -EAGAIN ? 0 : rv;
}

/* ---- placing and writing shards -------------------------------------------------------------------------------- */

static unsigned shards_of(const struct eng_put *put)
{
        return put->k + put->m;
}

static uint16_t *run_drives(struct eng_put *put, unsigned run)
{
        return put->drives + (size_t)run * shards_of(put);
}

/* Another drive, or the same opened again, is in the slot since: what was written there before is not to be relied on. */
static bool is_new(const struct eng_put *put, unsigned slot)
{
        return put->el->view.since[slot] > put->epoch;
}

/* Drives that shards are placed on: not one that came after the upload began, since it would not count (is_new()), and none that leaves. */
static eng_mask takers(const struct eng_put *put, eng_mask leaving)
{
        const struct eng_view *view = &put->el->view;
        eng_mask mask = view->in & view->up & ~leaving;
        unsigned i;

        for (i = 0; i < view->map->drives; i++)
                if (is_new(put, i))
                        mask &= ~eng_bit(i);
        return mask;
}

static int place_run(struct eng_put *put, unsigned run)
{
        const struct eng_view *view = &put->el->view;
        uint32_t pg = eng_pg_of_run(put->store->pg_count, put->id, run);
        uint16_t *grown = realloc(put->drives, (size_t)(run + 1) * shards_of(put) * sizeof(uint16_t));
        eng_mask mask = takers(put, view->map->leaving);
        unsigned placed;

        if (grown == NULL)
                return -ENOMEM;
        put->drives = grown;
        put->runs = run + 1;
        /* What took the place of a drive that leaves may be too new for this upload. The removal waits for uploads that began before it (heal.c). */
        if ((unsigned)__builtin_popcountll(mask) < put->need)
                mask = takers(put, put->leaving);
        placed = eng_place_shards(eng_placement_order(view->map, pg), view->map->drives, mask, shards_of(put),
                                  run_drives(put, run));
        return placed < put->need ? -EROFS : 0;
}

/* Shards on this drive are lost to the upload: it goes on while enough of each run are left. */
static void lose_drive(struct eng_put *put, unsigned slot)
{
        unsigned run, shard, left;

        for (run = 0; run < put->runs; run++) {
                uint16_t *drives = run_drives(put, run);

                for (left = 0, shard = 0; shard < shards_of(put); shard++) {
                        if (drives[shard] == slot)
                                drives[shard] = ENG_NO_DRIVE;
                        left += drives[shard] != ENG_NO_DRIVE;
                }
                if (left < put->need && put->error == 0)
                        put->error = -EROFS;
        }
}

static void submit_write(struct put_write *w);

static void retry_write(struct lp_timer *timer)
{
        submit_write((struct put_write *)((char *)timer - offsetof(struct put_write, retry)));
}

static void written(struct eng_op *op)
{
        struct put_write *w = (struct put_write *)((char *)op - offsetof(struct put_write, op));
        struct eng_put *put = w->put;

        if (op->result == -ESTALE && ++w->retries < STALE_RETRIES &&
            lp_timer_start(put->el->loop, &w->retry, STALE_RETRY_NS) == 0)
                return; /* an epoch change is under way */
        if (op->result == -ENOSPC) {
                if (put->error == 0)
                        put->error = -ENOSPC;
        } else if (op->result != 0) {
                eng_drive_failed(put->store, w->slot_no, w->drive, "a shard could not be written");
                lose_drive(put, w->slot_no);
        }
        eng_put_write_done(put, w);
        eng_put_back(put);
}

static void submit_write(struct put_write *w)
{
        w->op.epoch = w->put->el->view.epoch;
        if (w->drive == NULL)
                w->drive = w->put->store->members[w->slot_no].drive;
        eng_drive_submit(w->drive, &w->op);
}

/* Sends one full slot on its way; the slot is given back when it is written. len: bytes of the upload in it, 0 for parity. */
static void write_shard(struct eng_put *put, void *slot, unsigned shard, size_t len)
{
        unsigned drive = run_drives(put, put->runs - 1)[shard];
        uint8_t *payload = (uint8_t *)slot + LP_SLOT_HEADER;
        struct put_write *w;

        if (drive != ENG_NO_DRIVE && is_new(put, drive)) {
                lose_drive(put, drive);
                drive = ENG_NO_DRIVE;
        }
        w = put->error != 0 ? NULL : calloc(1, sizeof(*w));
        if (w == NULL) {
                if (put->error == 0)
                        put->error = -ENOMEM;
                eng_put_drop_slot(put, slot);
                return;
        }
        w->put = put;
        w->users = 1;
        w->slot_no = drive;
        w->retry.expired = retry_write;
        w->op.kind = ENG_OP_WRITE;
        w->op.done = written;
        memcpy(w->op.write.object_id, put->id, FMT_ID);
        w->op.write.stripe = put->stripe;
        w->op.write.shard = (uint8_t)shard;
        w->op.write.k = (uint8_t)put->k;
        w->op.write.m = (uint8_t)put->m;
        w->op.write.payload_len = put->stripe_unit;
        w->op.write.slot = slot;
        w->op.write.payload = payload;
        eng_put_md5_add(put, w, len);
        if (drive == ENG_NO_DRIVE) {
                eng_put_write_done(put, w);
                return;
        }
        put->touched |= eng_bit(drive);
        put->in_flight++;
        submit_write(w);
}

/* ---- stripes ------------------------------------------------------------------------------------------------------ */

static uint32_t unit_of_stripe(const struct eng_put *put)
{
        uint64_t full = (uint64_t)put->k * put->unit, start = full * put->stripe;

        if (put->params.size == ENG_SIZE_UNKNOWN || put->params.size - start >= full)
                return put->unit;
        return eng_stripe_last_unit(put->params.size - start, put->k);
}

/* Some may only wait to be hashed. */
static bool has_slots(struct eng_put *put, unsigned count)
{
        if (put->reserve.count - put->used < count && eng_put_md5_wait(put))
                return false;
        return put->reserve.count - put->used >= count;
}

/* Parity accumulators and a first slot for a new stripe; all or nothing. 0, -EAGAIN (no slots now), or an error. */
static int begin_stripe(struct eng_put *put)
{
        unsigned i;
        int rv;

        if (!has_slots(put, put->m + 1))
                return -EAGAIN;
        if (put->stripe % eng_stripes_per_run(put->k, put->unit) == 0) {
                rv = place_run(put, put->stripe / eng_stripes_per_run(put->k, put->unit));
                if (rv != 0)
                        return rv;
        }
        put->stripe_unit = unit_of_stripe(put);
        for (i = 0; i < put->m; i++)
                put->parity[i] = take_slot(put);
        put->unit_no = 0;
        put->in_stripe = true;
        return 0;
}

static void end_stripe(struct eng_put *put)
{
        unsigned i;

        for (i = 0; i < put->m; i++) {
                write_shard(put, put->parity[i], put->k + i, 0);
                put->parity[i] = NULL;
        }
        put->last_unit = put->stripe_unit;
        put->stripe++;
        put->in_stripe = false;
}

static void flush_unit(struct eng_put *put)
{
        uint8_t *parity[ERA_MAX_M], *payload = (uint8_t *)put->current + LP_SLOT_HEADER;
        uint64_t began;
        unsigned i;

        memset(payload + put->fill, 0, put->stripe_unit - put->fill);
        for (i = 0; i < put->m; i++)
                parity[i] = (uint8_t *)put->parity[i] + LP_SLOT_HEADER;
        if (put->m != 0) {
                began = lp_clock();
                era_update(put->code, put->stripe_unit, put->unit_no, put->unit_no == 0, payload, parity);
                eng_step_ends(put->el, ENG_STEP_PARITY, began);
        }
        write_shard(put, put->current, put->unit_no, put->fill);
        put->current = NULL;
        put->fill = 0;
        if (++put->unit_no == put->k)
                end_stripe(put);
}

/* Copies into the current unit as far as slots go. */
static ssize_t write_striped(struct eng_put *put, const uint8_t *data, size_t len)
{
        size_t taken = 0;

        while (taken < len && put->error == 0) {
                size_t n;
                int rv = 0;

                if (!put->granted)
                        break;
                if (!put->in_stripe)
                        rv = begin_stripe(put);
                if (rv == -EAGAIN)
                        break;
                if (rv != 0)
                        return put->error = rv;
                if (put->current == NULL && has_slots(put, 1))
                        put->current = take_slot(put);
                if (put->current == NULL)
                        break;
                n = put->stripe_unit - put->fill < len - taken ? put->stripe_unit - put->fill : len - taken;
                memcpy((uint8_t *)put->current + LP_SLOT_HEADER + put->fill, data + taken, n);
                put->fill += (uint32_t)n;
                taken += n;
                if (put->fill == put->stripe_unit)
                        flush_unit(put);
        }
        return put->error != 0 ? put->error : (ssize_t)taken;
}

/* ---- before the first stripe ---------------------------------------------------------------------------------------------------------- */

/* Bytes gathered in memory before slots are asked for: a slow upload holds what it has sent, not what it will. */
static uint64_t gather_limit(const struct eng_put *put)
{
        return put->striped ? GATHER_BYTES : ENG_INLINE_MAX;
}

static int grow_head(struct eng_put *put, size_t need)
{
        size_t cap = put->head_cap * 2 + 4096;
        uint8_t *grown;

        if (need <= put->head_cap)
                return 0;
        if (cap > gather_limit(put))
                cap = gather_limit(put);
        if (put->params.size < cap)
                cap = (size_t)put->params.size;
        if (cap < need)
                cap = need;
        grown = realloc(put->head, cap);
        if (grown == NULL)
                return -ENOMEM;
        put->head = grown;
        put->head_cap = cap;
        return 0;
}

static int gather(struct eng_put *put, const void *data, size_t len)
{
        int rv = grow_head(put, put->head_len + len);

        if (rv != 0)
                return rv;
        memcpy(put->head + put->head_len, data, len);
        put->head_len += len;
        put->taken += len;
        return 0;
}

/* Too much to be gathered: what was is the beginning of the first stripe. */
static int begin_striped(struct eng_put *put)
{
        int rv;

        put->striped = true;
        rv = reserve_slots(put);
        if (rv == 0)
                put->reserved = true;
        return rv;
}

/* Moves what was gathered before the first stripe existed. True when all of it is. */
static bool drain_head(struct eng_put *put)
{
        ssize_t n;

        if (put->head_at == put->head_len)
                return true;
        n = write_striped(put, put->head + put->head_at, put->head_len - put->head_at);
        if (n > 0)
                put->head_at += (size_t)n;
        return put->head_at == put->head_len;
}

ssize_t eng_put_write(struct eng_put *put, const void *data, size_t len)
{
        ssize_t n;
        int rv = 0;

        assert(put->state == PUT_BODY);
        if (put->error != 0)
                return put->error;
        if (put->params.size != ENG_SIZE_UNKNOWN && put->taken + len > put->params.size)
                return put->error = -EINVAL;
        if (!put->reserved && put->taken + len <= gather_limit(put)) {
                rv = gather(put, data, len);
                if (rv == 0)
                        return (ssize_t)len;
        } else if (!put->reserved) {
                rv = begin_striped(put);
        }
        if (rv != 0)
                return put->error = rv;
        n = drain_head(put) ? write_striped(put, data, len) : put->error;
        if (n > 0)
                put->taken += (uint64_t)n;
        if (n >= 0 && (size_t)n < len) {
                put->waiting = true;
                put->no_room = put->granted ? lp_clock() : 0;
        }
        return n;
}

/* ---- open ---------------------------------------------------------------------------------------------------------------- */

static int check_open(struct eng_store *store, const struct eng_put_params *p)
{
        const struct eng_loop *el = eng_here(store);
        const struct eng_config_bucket *bucket;

        if (p->key.len > ENG_KEY_MAX || (p->is_part && (p->part_number < 1 || p->part_number > ENG_PARTS_MAX)))
                return -EINVAL;
        if (!el->view.ready)
                return -EHOSTDOWN;
        if (!eng_takes_changes(store, &el->view))
                return -EROFS;
        if (atomic_load(&store->full))
                return -ENOSPC;
        bucket = eng_bucket_by_id(el, p->bucket);
        return bucket == NULL || bucket->closing ? -ENOENT : 0;
}

int eng_put_open(struct eng_store *store, const struct eng_put_params *params, struct eng_put **out)
{
        int rv = check_open(store, params);
        struct eng_put *put;

        if (rv != 0)
                return rv;
        put = calloc(1, sizeof(*put));
        if (put == NULL)
                return -ENOMEM;
        put->store = store;
        put->el = eng_here(store);
        put->params = *params;
        memcpy(put->key, params->key.data, params->key.len);
        put->params.key.data = put->key;
        put->k = store->k;
        put->m = store->m;
        put->need = store->m == 0 ? store->k : store->k + 1;
        put->code = store->code;
        put->unit = params->size == ENG_SIZE_UNKNOWN ? FMT_UNIT_MAX : eng_stripe_unit(params->size, put->k);
        eng_new_id(put->el, put->id);
        put->epoch = put->el->view.epoch;
        put->leaving = put->el->view.map->leaving;
        TAILQ_INSERT_TAIL(&put->el->puts, put, link);
        put->striped = params->is_part || (params->size != ENG_SIZE_UNKNOWN && params->size > ENG_INLINE_MAX);
        *out = put;
        return 0;
}

void eng_put_oldest(const struct eng_loop *el, uint32_t *epoch, uint64_t *counter)
{
        const struct eng_put *oldest = TAILQ_FIRST(&el->puts);
        uint64_t be;

        if (oldest == NULL)
                return;
        memcpy(epoch, oldest->id, 4);
        *epoch = be32toh(*epoch);
        memcpy(&be, oldest->id + 8, 8);
        *counter = be64toh(be);
}

/* ---- the end ------------------------------------------------------------------------------------------------------------- */

static void put_free(struct eng_put *put)
{
        struct lp_loop *loop = put->el->loop;

        TAILQ_REMOVE(&put->el->puts, put, link);
        assert(put->md5.out == 0);
        if (put->reserved && put->granted)
                lp_unreserve(loop, LP_SHARE_PUT, put->reserve.count);
        else if (put->reserved)
                lp_reserve_cancel(loop, &put->reserve);
        set_granted(put, false);
        free(put->head);
        free(put->drives);
        free(put->syncs);
        free(put->commit_attrs);
        free(put);
}

static void drop_unwritten(struct eng_put *put)
{
        unsigned i;

        if (put->current != NULL)
                eng_put_drop_slot(put, put->current);
        put->current = NULL;
        for (i = 0; i < put->m; i++) {
                if (put->parity[i] != NULL)
                        eng_put_drop_slot(put, put->parity[i]);
                put->parity[i] = NULL;
        }
}

static void discard_all(struct eng_put *put)
{
        if (put->touched != 0)
                eng_discard(put->store, put->id, put->touched);
}

static void finish(struct eng_put *put, int rv, const struct eng_object *object)
{
        put->state = PUT_DONE;
        put->done(put->done_arg, rv, object);
        put_free(put);
}

static void txn_done(struct eng_txn *txn)
{
        struct eng_txn_put *change = (struct eng_txn_put *)txn;
        struct eng_put *put = change->arg;
        struct eng_object object;
        int rv = txn->result;

        if (rv == 0)
                eng_value_object(change->value, &object);
        else if (!txn->appended)
                discard_all(put); /* no record names them, and none will: the primary refused before it numbered one */
        finish(put, rv, rv == 0 ? &object : NULL);
        eng_txn_put_free(change);
}

/* The fmt_part of a striped upload, with its drives; NULL: no memory. */
static uint8_t *encode_part(struct eng_put *put, size_t *len)
{
        size_t attrs_len = put->params.is_part ? put->commit.attrs_len : 0;
        size_t drives_len = (size_t)put->runs * shards_of(put) * sizeof(uint16_t);
        struct fmt_part part = {
                .number = (uint16_t)put->params.part_number,
                .k = (uint8_t)put->k,
                .m = (uint8_t)put->m,
                .attrs_len = (uint16_t)attrs_len,
                .runs = (uint16_t)put->runs,
                .unit = put->unit,
                .last_unit = put->last_unit,
                .size = put->taken,
        };
        uint8_t *out = malloc(sizeof(part) + attrs_len + drives_len);

        if (out == NULL)
                return NULL;
        memcpy(part.id, put->id, FMT_ID);
        memcpy(part.etag, put->commit.etag, 16);
        memcpy(out, &part, sizeof(part));
        if (attrs_len != 0)
                memcpy(out + sizeof(part), put->commit_attrs, attrs_len);
        memcpy(out + sizeof(part) + attrs_len, put->drives, drives_len);
        *len = sizeof(part) + attrs_len + drives_len;
        return out;
}

static struct eng_buf *make_value(struct eng_put *put, uint32_t pg)
{
        struct eng_value_spec spec = {
                .space = put->params.is_part ? FMT_SPACE_PART : FMT_SPACE_OBJECT,
                .inline_value = !put->striped,
                .pg = pg,
                .inline_len = put->striped ? 0 : (uint32_t)put->head_len,
                .size = put->taken,
                .mtime_ms = put->commit.mtime_ms != 0 ? put->commit.mtime_ms : lp_wall_ms(),
                .id = put->id,
                .etag = put->commit.etag,
                .upload_id = put->params.is_part ? put->params.upload_id : NULL,
                .tag = put->commit.tag,
                .attrs = put->commit_attrs,
                .attrs_len = put->commit.attrs_len,
        };
        struct eng_buf *value;
        uint8_t *part = NULL;

        if (put->striped) {
                part = encode_part(put, &spec.parts_len);
                if (part == NULL)
                        return NULL;
                spec.parts = part;
                spec.part_count = 1;
        }
        value = eng_value_new(&spec);
        free(part);
        return value;
}

static void send_txn(struct eng_put *put)
{
        struct eng_txn_put *change =
                eng_txn_put_new(put->store, put->params.bucket, put->key, put->params.key.len);

        put->state = PUT_RECORD;
        if (change != NULL) {
                change->value = make_value(put, change->txn.pg);
                if (!put->striped && put->head_len != 0) {
                        change->bytes = eng_buf_new(put->head_len);
                        if (change->bytes != NULL)
                                memcpy(change->bytes->data, put->head, put->head_len);
                }
        }
        if (change == NULL || change->value == NULL || (!put->striped && put->head_len != 0 && change->bytes == NULL)) {
                if (change != NULL)
                        eng_txn_put_free(change);
                discard_all(put);
                finish(put, -ENOMEM, NULL);
                return;
        }
        change->condition = put->commit.condition;
        change->is_part = put->params.is_part;
        memcpy(change->upload_id, put->params.upload_id, FMT_ID);
        change->part_number = put->params.part_number;
        change->arg = put;
        change->txn.done = txn_done;
        eng_txn_submit(&change->txn);
}

static void synced(struct eng_op *op)
{
        struct put_sync *sync = (struct put_sync *)((char *)op - offsetof(struct put_sync, op));
        struct eng_put *put = sync->put;

        if (op->result != 0) {
                eng_drive_failed(put->store, sync->slot_no, sync->drive, "shards could not be made durable");
                lose_drive(put, sync->slot_no);
        }
        put->in_flight--;
        step(put);
}

static int send_syncs(struct eng_put *put)
{
        unsigned i, n = 0;

        for (i = 0; i < put->store->drive_count; i++)
                if ((put->touched & eng_bit(i)) && is_new(put, i)) {
                        lose_drive(put, i);
                        put->touched &= ~eng_bit(i);
                }
        if (put->error != 0)
                return put->error;
        put->syncs = calloc((unsigned)__builtin_popcountll(put->touched) + 1u, sizeof(put->syncs[0]));
        if (put->syncs == NULL)
                return -ENOMEM;
        put->state = PUT_SYNC;
        put->step_began = lp_clock();
        put->in_flight++; /* so that step() does not run ahead */
        for (i = 0; i < put->store->drive_count; i++) {
                struct put_sync *sync = &put->syncs[n];

                if (!(put->touched & eng_bit(i)))
                        continue;
                n++;
                sync->put = put;
                sync->slot_no = i;
                sync->drive = put->store->members[i].drive;
                sync->op.kind = ENG_OP_SYNC;
                sync->op.epoch = put->el->view.epoch;
                sync->op.done = synced;
                put->in_flight++;
                eng_drive_submit(sync->drive, &sync->op);
        }
        put->in_flight--;
        return 0;
}

/* Last units: what is left of the head, the unfinished unit, the parity of an unfinished stripe. True when all are on their way. */
static bool flush_rest(struct eng_put *put)
{
        if (put->error == 0 && !put->reserved)
                put->error = begin_striped(put); /* a small part: all of it is in the head */
        if (put->error != 0)
                return true;
        if (!put->granted || !drain_head(put)) {
                put->waiting = !put->granted;
                return put->error != 0;
        }
        if (put->taken == 0 && put->runs == 0 && put->error == 0)
                put->error = place_run(put, 0);
        if (put->current != NULL && put->fill != 0) {
                if (put->params.size == ENG_SIZE_UNKNOWN && put->unit_no == 0)
                        put->stripe_unit = eng_stripe_last_unit(put->fill, 1);
                flush_unit(put);
        }
        if (put->in_stripe)
                end_stripe(put);
        return true;
}

static void fail(struct eng_put *put)
{
        drop_unwritten(put);
        discard_all(put);
        finish(put, put->error, NULL);
}

/* The one place that moves a put between its states; called whenever something came back. */
static void step(struct eng_put *put)
{
        switch (put->state) {
        case PUT_BODY:
                eng_put_wake(put);
                break;
        case PUT_FLUSH:
                if ((put->striped && !flush_rest(put)) || put->in_flight > 0)
                        break;
                if (put->striped)
                        eng_step_ends(put->el, ENG_STEP_WRITE, put->step_began);
                if (put->error == 0 && put->striped && put->touched != 0) {
                        put->error = send_syncs(put);
                        if (put->error == 0)
                                break;
                }
                if (put->error != 0)
                        fail(put);
                else
                        send_txn(put);
                break;
        case PUT_SYNC:
                if (put->in_flight > 0)
                        break;
                eng_step_ends(put->el, ENG_STEP_SYNC, put->step_began);
                if (put->error != 0)
                        fail(put);
                else
                        send_txn(put);
                break;
        case PUT_ABORT:
                if (put->in_flight > 0)
                        break;
                drop_unwritten(put);
                discard_all(put);
                put_free(put);
                break;
        case PUT_CALLED:
        case PUT_RECORD:
        case PUT_DONE:
                break;
        }
}

static void commit_begins(struct lp_msg *msg)
{
        struct eng_put *put = (struct eng_put *)((char *)msg - offsetof(struct eng_put, msg));

        put->state = PUT_FLUSH;
        put->step_began = lp_clock();
        eng_put_md5_hurry(put); /* of one that failed there may be some left */
        step(put);
}

static void wake_flush(void *arg)
{
        step(arg);
}

void eng_put_commit(struct eng_put *put, const struct eng_put_commit *commit, eng_put_done done, void *arg)
{
        assert(put->state == PUT_BODY);
        put->state = PUT_CALLED;
        put->commit = *commit;
        put->done = done;
        put->done_arg = arg;
        put->params.wake = wake_flush; /* slots granted late wake the flush */
        put->params.arg = put;
        put->waiting = put->reserved && !put->granted;
        if (commit->attrs_len > ENG_ATTRS_MAX)
                put->error = -EINVAL;
        else if (put->params.size != ENG_SIZE_UNKNOWN && put->taken != put->params.size)
                put->error = -EINVAL;
        put->commit_attrs = put->error == 0 ? malloc(commit->attrs_len + 1) : NULL;
        if (put->commit_attrs != NULL)
                memcpy(put->commit_attrs, commit->attrs, commit->attrs_len);
        else if (put->error == 0)
                put->error = -ENOMEM;
        put->msg.run = commit_begins;
        lp_post(put->el->loop, &put->msg);
}

void eng_put_abort(struct eng_put *put)
{
        put->state = PUT_ABORT;
        put->waiting = false;
        eng_put_md5_hurry(put);
        step(put);
}
