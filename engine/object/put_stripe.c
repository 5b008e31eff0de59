/*
 * put_stripe.c - the slots of an upload, its stripes, and the frames they become.
 *
 * Slots are drawn from the upload's reservation. A full unit is added into its stripe's parity and
 * written at once; drives are chosen for each run of stripes, and a drive that fails is lost to the
 * upload, which goes on while enough of each run are left. Home loop throughout.
 */
#include "engine/base/store.h"
#include "engine/object/object.h"
#include "engine/object/put.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define STALE_MOST_NS (10ull * 1000 * 1000 * 1000) /* that a newer view is waited for */

/* ---- slots ----------------------------------------------------------------------------------- */

void *eng_put_take_slot(struct eng_put *put)
{
        if (!put->granted || put->used >= put->reserve.count)
                return NULL;
        put->used++;
        return lp_slot_get(put->el->loop);
}

void eng_put_drop_slot(struct eng_put *put, void *slot)
{
        assert(put->used > 0);
        lp_slot_put(put->el->loop, slot);
        put->used--;
}

/* The hasher waits for those that hold slots, as they will have something for it. */
static void set_granted(struct eng_put *put, bool is)
{
        if (put->params.md5 && put->striped && is != put->granted)
                atomic_fetch_add(&put->el->home.bulk_hasher->expected, is ? 1u : -1u);
        put->granted = is;
}

static void put_stripe_granted(struct lp_reserve *reserve)
{
        struct eng_put *put = container_of(reserve, struct eng_put, reserve);

        assert(put->reserved && !put->granted);
        set_granted(put, true);
        eng_step(put->el, ENG_STEP_BUFFERS, lp_now(put->el->loop) - reserve->since);
        eng_put_wake(put);
}

/* The client is told to slow down. */
static void expired(struct lp_reserve *reserve)
{
        struct eng_put *put = container_of(reserve, struct eng_put, reserve);

        assert(put->reserved && !put->granted);
        if (put->error == 0)
                put->error = -EAGAIN;
        eng_put_wake(put);
}

/*
 * Enough for a stripe under way and the next one begun, if it is to be had at once; else the least
 * that can make progress.
 */
int eng_put_reserve(struct eng_put *put)
{
        struct lp_loop *loop = put->el->loop;
        unsigned least = put->striped ? 2 + put->m : 1, good = put->striped ? put->k + 2 * put->m + 1 : 1;
        unsigned half = lp_share_slots(loop, LP_SHARE_PUT) / 2;
        int rv;

        assert(!put->reserved && !put->granted && put->used == 0);
        put->reserve.share = LP_SHARE_PUT;
        put->reserve.granted = put_stripe_granted;
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

void eng_put_unreserve(struct eng_put *put)
{
        struct lp_loop *loop = put->el->loop;

        assert(put->used == 0);
        if (put->reserved && put->granted)
                lp_unreserve(loop, LP_SHARE_PUT, put->reserve.count);
        else if (put->reserved)
                lp_reserve_cancel(loop, &put->reserve);
        set_granted(put, false);
        put->reserved = false;
}

void eng_put_drop_unwritten(struct eng_put *put)
{
        unsigned i;

        eng_put_drop_lent(put);
        if (put->current != NULL)
                eng_put_drop_slot(put, put->current);
        put->current = NULL;
        for (i = 0; i < put->m; i++) {
                if (put->parity[i] != NULL)
                        eng_put_drop_slot(put, put->parity[i]);
                put->parity[i] = NULL;
        }
}

/* ---- placing and writing shards -------------------------------------------------------------- */

static uint16_t *run_drives(struct eng_put *put, unsigned run)
{
        return put->drives + (size_t)run * eng_put_shards(put);
}

bool eng_put_is_new(const struct eng_put *put, unsigned slot)
{
        if (put->proofs != NULL)
                return put->proofs[slot].drive != NULL && put->proofs[slot].drive != put->store->members[slot].drive;
        return put->el->view.since[slot] > put->epoch;
}

/*
 * Drives that shards are placed on: not one that came after the upload began, since it would not
 * count (eng_put_is_new()), and none that leaves.
 */
static eng_mask takers(const struct eng_put *put, eng_mask leaving)
{
        const struct eng_view *view = &put->el->view;
        eng_mask mask = view->in & view->up & ~leaving;
        unsigned i;

        for (i = 0; i < view->map->drives; i++)
                if (eng_put_is_new(put, i))
                        mask &= ~eng_bit(i);
        return mask;
}

int eng_put_buffer_run(struct eng_put *put, unsigned run)
{
        const struct eng_view *view = &put->el->view;
        uint32_t pg = eng_pg_of_run(put->store->pg_count, put->id, run);
        uint16_t *grown = realloc(put->drives, (size_t)(run + 1) * eng_put_shards(put) * sizeof(uint16_t));
        eng_mask mask = takers(put, view->map->leaving);
        unsigned filled;

        assert(run == put->runs);
        if (grown == NULL)
                return -ENOMEM;
        put->drives = grown;
        put->runs = run + 1;
        /*
         * What took the place of a drive that leaves may be too new for this upload. The removal
         * waits for uploads that began before it (heal.c).
         */
        if ((unsigned)__builtin_popcountll(mask) < put->need)
                mask = takers(put, put->leaving);
        filled = eng_place_shards(eng_placement_order(view->map, pg), view->map->drives, mask, view->map->domains,
                                  eng_put_shards(put), run_drives(put, run));
        return filled < put->need ? -EROFS : 0;
}

eng_mask eng_put_named(const struct eng_put *put)
{
        size_t i, n = (size_t)put->runs * eng_put_shards(put);
        eng_mask named = 0;

        for (i = 0; i < n; i++)
                if (put->drives[i] != ENG_NO_DRIVE)
                        named |= eng_bit(put->drives[i]);
        return named;
}

void eng_put_lose_drive(struct eng_put *put, unsigned slot)
{
        unsigned run, shard, left;

        assert(slot < ENG_DRIVES_MAX);
        for (run = 0; run < put->runs; run++) {
                uint16_t *drives = run_drives(put, run);

                for (left = 0, shard = 0; shard < eng_put_shards(put); shard++) {
                        if (drives[shard] == slot)
                                drives[shard] = ENG_NO_DRIVE;
                        left += drives[shard] != ENG_NO_DRIVE;
                }
                if (left < put->need && put->error == 0)
                        put->error = -EROFS;
        }
}

static void submit_write(struct put_write *w);

/* It waits no more: there is a newer view, or there was none for long. */
static void stale_write_go(struct put_write *w)
{
        struct eng_loop *el = w->put->el;

        lp_timer_stop(el->loop, &w->stale);
        TAILQ_REMOVE(&el->home.stale_writes, w, stale_link);
        submit_write(w);
}

static void stale_for_long(struct lp_timer *timer)
{
        stale_write_go(container_of(timer, struct put_write, stale));
}

void eng_puts_view_changed(struct eng_loop *el)
{
        struct put_write *w, *next;

        TAILQ_FOREACH_SAFE (w, &el->home.stale_writes, stale_link, next)
                if (el->view.epoch > w->op.epoch)
                        stale_write_go(w);
}

/* An epoch change is under way, and the drive has it already. False: that has been so for too long. */
static bool waits_for_view(struct put_write *w)
{
        struct eng_loop *el = w->put->el;
        uint64_t now = lp_now(el->loop);

        if (w->stale_until == 0)
                w->stale_until = now + STALE_MOST_NS;
        if (now >= w->stale_until)
                return false;
        TAILQ_INSERT_TAIL(&el->home.stale_writes, w, stale_link);
        lp_timer_start(el->loop, &w->stale, w->stale_until - now);
        if (el->view.epoch > w->op.epoch)
                stale_write_go(w);
        return true;
}

/*
 * False: another drive, or another process of it, has taken shards of this upload before, and may have lost
 * them since.
 */
static bool takes_proof(struct eng_put *put, const struct put_write *w)
{
        struct eng_proof *proof = &put->proofs[w->slot_no];

        if (proof->drive == NULL) {
                proof->drive = w->drive;
                proof->incarnation = w->op.incarnation;
                memcpy(proof->drive_id, w->drive->id, FMT_ID);
        }
        return proof->drive == w->drive && proof->incarnation == w->op.incarnation;
}

/*
 * An epoch waits for so long for some other member: this one has its record, and refuses what is of the last. No leader
 * but this one has told it so: whom another has deposed is told that.
 */
static bool still_changes(const struct eng_put *put, const struct eng_op *op)
{
        return op->result == -ESTALE && !op->deposed && (put->store->options.cluster != NULL || eng_is_home(put->store));
}

static void put_stripe_written(struct eng_op *op)
{
        struct put_write *w = container_of(op, struct put_write, op);
        struct eng_put *put = w->put;

        assert(eng_on_loop(put->el) && w->users > 0);
        if (op->result == -ESTALE && !op->deposed && waits_for_view(w))
                return;
        if (op->result == -ENOSPC || op->result == -EAGAIN || still_changes(put, op)) { /* full, or too much at a time: the drive has not failed */
                if (put->error == 0)
                        put->error = op->result == -ENOSPC ? -ENOSPC : -EBUSY;
        } else if (op->result != 0) {
                eng_drive_erred(put->store, w->slot_no, w->drive, op->result, "a shard could not be written");
                eng_put_lose_drive(put, w->slot_no);
        } else if (put->proofs != NULL && !takes_proof(put, w)) {
                eng_put_lose_drive(put, w->slot_no);
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

/*
 * Sends one full slot on its way; the slot is given back when it is written. len: bytes of the
 * upload in it, 0 for parity.
 */
static void put_write_shard(struct eng_put *put, void *slot, unsigned shard, size_t len)
{
        unsigned drive = run_drives(put, put->runs - 1)[shard];
        uint8_t *payload;
        struct put_write *w;

        assert(shard < eng_put_shards(put) && slot != NULL);
        payload = (uint8_t *)slot + LP_SLOT_HEADER;
        if (drive != ENG_NO_DRIVE && eng_put_is_new(put, drive)) {
                eng_put_lose_drive(put, drive);
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
        w->stale.expired = stale_for_long;
        w->op.kind = ENG_OP_WRITE;
        w->op.done = put_stripe_written;
        memcpy(w->op.write.object_id, put->id, FMT_ID);
        w->op.write.stripe = put->stripe;
        w->op.write.shard = (uint8_t)shard;
        w->op.write.k = (uint8_t)put->k;
        w->op.write.m = (uint8_t)put->m;
        w->op.write.payload_len = put->stripe_unit;
        w->op.write.key_hash = put->key_hash;
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

/* ---- stripes --------------------------------------------------------------------------------- */

uint32_t eng_put_unit_of(const struct eng_put *put, uint32_t stripe)
{
        uint64_t full = (uint64_t)put->k * put->unit, start = full * stripe;

        if (put->params.size == ENG_SIZE_UNKNOWN || put->params.size - start >= full)
                return put->unit;
        return eng_stripe_last_unit(put->params.size - start, put->k);
}

bool eng_put_has_slots(struct eng_put *put, unsigned count)
{
        assert(put->used <= put->reserve.count);
        if (put->reserve.count - put->used < count && eng_put_md5_wait(put))
                return false;
        return put->reserve.count - put->used >= count;
}

int eng_put_begin_stripe(struct eng_put *put)
{
        int rv;

        assert(!put->in_stripe && put->current == NULL && put->fill == 0);
        if (put->stripe % eng_stripes_per_run(put->k, put->unit) == 0) {
                rv = eng_put_buffer_run(put, put->stripe / eng_stripes_per_run(put->k, put->unit));
                if (rv != 0)
                        return rv;
        }
        put->stripe_unit = eng_put_unit_of(put, put->stripe);
        put->unit_no = 0;
        put->in_stripe = true;
        return 0;
}

/*
 * Parity accumulators and a first slot for a new stripe; all or nothing. 0, -EAGAIN (no slots now),
 * or an error.
 */
static int put_begin_stripe(struct eng_put *put)
{
        unsigned i;
        int rv;

        if (!eng_put_has_slots(put, put->m + 1))
                return -EAGAIN;
        rv = eng_put_begin_stripe(put);
        for (i = 0; rv == 0 && i < put->m; i++)
                put->parity[i] = eng_put_take_slot(put);
        return rv;
}

void eng_put_end_stripe(struct eng_put *put)
{
        unsigned i;

        assert(put->in_stripe && put->current == NULL);
        for (i = 0; i < put->m; i++) {
                put_write_shard(put, put->parity[i], put->k + i, 0);
                put->parity[i] = NULL;
        }
        put->last_unit = put->stripe_unit;
        lp_trace(LP_TRACE_PUT_STRIPE, put->stripe, put->k + put->m);
        put->stripe++;
        put->in_stripe = false;
}

void eng_put_flush_unit(struct eng_put *put)
{
        uint8_t *parity[ERA_MAX_M], *payload = (uint8_t *)put->current + LP_SLOT_HEADER;
        uint64_t began;
        unsigned i;

        assert(put->in_stripe && put->unit_no < put->k);
        assert(put->fill > 0 && put->fill <= put->stripe_unit);
        memset(payload + put->fill, 0, put->stripe_unit - put->fill);
        for (i = 0; i < put->m; i++)
                parity[i] = (uint8_t *)put->parity[i] + LP_SLOT_HEADER;
        if (put->m != 0) {
                began = lp_clock();
                era_update(put->code, put->stripe_unit, put->unit_no, put->unit_no == 0, payload, parity);
                eng_step_ends(put->el, ENG_STEP_PARITY, began);
        }
        put_write_shard(put, put->current, put->unit_no, put->fill);
        put->current = NULL;
        put->fill = 0;
        if (++put->unit_no == put->k)
                eng_put_end_stripe(put);
}

ssize_t eng_put_write_striped(struct eng_put *put, const uint8_t *data, size_t len)
{
        size_t taken = 0;

        while (taken < len && put->error == 0) {
                size_t n;
                int rv = 0;

                if (!put->granted)
                        break;
                if (!put->in_stripe)
                        rv = put_begin_stripe(put);
                if (rv == -EAGAIN)
                        break;
                if (rv != 0)
                        return put->error = rv;
                if (put->current == NULL && eng_put_has_slots(put, 1))
                        put->current = eng_put_take_slot(put);
                if (put->current == NULL)
                        break;
                n = put->stripe_unit - put->fill < len - taken ? put->stripe_unit - put->fill : len - taken;
                memcpy((uint8_t *)put->current + LP_SLOT_HEADER + put->fill, data + taken, n);
                put->fill += (uint32_t)n;
                taken += n;
                if (put->fill == put->stripe_unit)
                        eng_put_flush_unit(put);
        }
        return put->error != 0 ? put->error : (ssize_t)taken;
}
