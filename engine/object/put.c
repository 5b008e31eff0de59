/*
 * put.c - an upload of an object or part: bytes in, verified durable shards or an inline record
 * out.
 *
 * Objects up to the store's inline_max gather in memory and go into their log record (an empty one
 * always does: there is nothing that a shard could hold). Larger ones, and all parts, fill one unit
 * at a time in an arena slot; a full unit is added into the stripe's parity and written at once.
 * commit: last units, then SYNC on every drive used, then the record (a txn), so that a record
 * never names a shard that is not stable (I2). Memory per upload is its reservation of slots. Home
 * loop throughout. Its other files: put_stripe.c, put_buffer.c, put_md5.c, put_value.c.
 */
#include "engine/call/leader_call.h"
#include "engine/object/home_calls.h"
#include "engine/object/object.h"
#include "engine/object/put.h"
#include "engine/object/version.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define GATHER_BYTES (64u << 10)

static void put_step(struct eng_put *put);

/* ---- coming back ----------------------------------------------------------------------------- */

void eng_put_wake(struct eng_put *put)
{
        lp_trace_set_request(put->request);
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
        assert(eng_on_loop(put->el) && put->in_flight > 0);
        put->in_flight--;
        put_step(put);
}

/* ---- before the first stripe ----------------------------------------------------------------- */

/*
 * Bytes gathered in memory before slots are asked for: a slow upload holds what it has sent, not
 * what it will.
 */
static uint64_t gather_limit(const struct eng_put *put)
{
        return put->striped ? GATHER_BYTES : put->store->inline_max;
}

uint64_t eng_put_held_max(const struct eng_store *store)
{
        return store->inline_max > GATHER_BYTES ? store->inline_max : GATHER_BYTES;
}

static int grow_head(struct eng_put *put, size_t need)
{
        size_t cap = put->head_cap * 2 + 4096;
        struct eng_buf *grown;

        if (need <= put->head_cap)
                return 0;
        if (cap > gather_limit(put))
                cap = gather_limit(put);
        if (put->params.size < cap)
                cap = (size_t)put->params.size;
        if (cap < need)
                cap = need;
        grown = eng_buf_new(cap);
        if (grown == NULL)
                return -ENOMEM;
        if (put->head_len > 0)
                memcpy(grown->data, put->head, put->head_len);
        eng_buf_unref(put->head_buf);
        put->head_buf = grown;
        put->head = grown->data;
        put->head_cap = cap;
        return 0;
}

static int put_gather(struct eng_put *put, const void *data, size_t len)
{
        int rv = grow_head(put, put->head_len + len);

        if (rv != 0)
                return rv;
        assert(put->head_len + len <= put->head_cap && !put->reserved);
        memcpy(put->head + put->head_len, data, len);
        put->head_len += len;
        put->taken += len;
        return 0;
}

/*
 * Too much to be gathered, or all has come: what was gathered is the beginning of the first stripe.
 */
static int begin_striped(struct eng_put *put)
{
        int rv;

        assert(!put->reserved);
        if (eng_is_home(put->store)) {
                put->proofs = calloc(ENG_DRIVES_MAX, sizeof(put->proofs[0]));
                if (put->proofs == NULL)
                        return -ENOMEM;
        }
        rv = eng_put_reserve(put);
        if (rv == 0)
                put->reserved = true;
        return rv;
}

/* Moves what was gathered before the first stripe existed. True when all of it is. */
static bool drain_head(struct eng_put *put)
{
        ssize_t n;

        assert(put->head_at <= put->head_len);
        if (put->head_at == put->head_len)
                return true;
        n = eng_put_write_striped(put, put->head + put->head_at, put->head_len - put->head_at);
        if (n > 0)
                put->head_at += (size_t)n;
        return put->head_at == put->head_len;
}

ssize_t eng_put_write(struct eng_put *put, const void *data, size_t len)
{
        ssize_t n;
        int rv = 0;

        assert(put->state == PUT_BODY && put->lent_to == 0);
        if (put->error != 0)
                return put->error;
        if (put->params.size != ENG_SIZE_UNKNOWN && put->taken + len > put->params.size)
                return put->error = -EINVAL;
        if (put->taken + len > put->store->inline_max)
                put->striped = true; /* its size was not known */
        if (!put->reserved && put->taken + len <= gather_limit(put)) {
                rv = put_gather(put, data, len);
                if (rv == 0)
                        return (ssize_t)len;
        } else if (!put->reserved) {
                rv = begin_striped(put);
        }
        if (rv != 0)
                return put->error = rv;
        n = drain_head(put) ? eng_put_write_striped(put, data, len) : put->error;
        if (n > 0)
                put->taken += (uint64_t)n;
        if (n >= 0 && (size_t)n < len) {
                put->waiting = true;
                put->no_room = put->granted ? lp_clock() : 0;
        }
        return n;
}

/* ---- open ------------------------------------------------------------------------------------ */

/* Known to, before its bytes have come. */
static bool wants_shards(const struct eng_store *store, const struct eng_put_params *p)
{
        return p->is_part || (p->size != ENG_SIZE_UNKNOWN && p->size > store->inline_max);
}

static int check_open(struct eng_store *store, const struct eng_put_params *p)
{
        const struct eng_loop *el = eng_here(store);
        const struct eng_config_bucket *bucket;

        if (p->key.len > ENG_KEY_MAX || (p->is_part && (p->part_number < 1 || p->part_number > ENG_PARTS_MAX)))
                return -EINVAL;
        if (!el->view.ready)
                return -EHOSTDOWN;
        if (!eng_takes_changes(store, &el->view) || (wants_shards(store, p) && !eng_takes_shards(store, &el->view)))
                return -EROFS;
        if (atomic_load(&store->full))
                return -ENOSPC;
        if (atomic_load(&store->stalled))
                return -EAGAIN;
        bucket = eng_bucket_by_id(el, p->bucket);
        return bucket == NULL ? -EIDRM : 0; /* one that is being closed may be open again when the body has come */
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
        put->request = lp_trace_request();
        put->params = *params;
        memcpy(put->key, params->key.data, params->key.len);
        put->params.key.data = put->key;
        put->key_hash = eng_hash_of_key(params->bucket, params->key.data, params->key.len);
        put->k = store->k;
        put->m = store->m;
        put->need = store->m == 0 ? store->k : store->k + 1;
        put->code = store->code;
        put->unit = params->size == ENG_SIZE_UNKNOWN ? FMT_UNIT_MAX : eng_stripe_unit(params->size, put->k);
        eng_new_id(put->el, put->id);
        put->epoch = put->el->view.epoch;
        put->leaving = put->el->view.map->leaving;
        TAILQ_INSERT_TAIL(&put->el->home.puts, put, link);
        put->striped = wants_shards(store, params);
        lp_trace(LP_TRACE_PUT_BEGIN, params->size, !put->striped);
        *out = put;
        return 0;
}

bool eng_put_oldest(const struct eng_loop *el, uint8_t id[FMT_ID], uint64_t *epoch)
{
        const struct eng_put *oldest = TAILQ_FIRST(&el->home.puts);

        if (oldest == NULL)
                return false;
        memcpy(id, oldest->id, FMT_ID);
        *epoch = oldest->epoch;
        return true;
}

/* ---- the end --------------------------------------------------------------------------------- */

static void put_free(struct eng_put *put)
{
        TAILQ_REMOVE(&put->el->home.puts, put, link);
        assert(put->md5.out == 0 && put->in_flight == 0 && put->used == 0);
        eng_put_unreserve(put);
        eng_buf_unref(put->head_buf);
        free(put->drives);
        free(put->proofs);
        free(put->syncs);
        free(put->commit_attrs);
        free(put->commit_fields.data);
        free(put);
}

static void discard_all(struct eng_put *put)
{
        if (put->touched != 0)
                eng_discard(put->store, put->id, put->touched);
}

static void put_finish(struct eng_put *put, int rv, const struct eng_object *object)
{
        assert(put->state != PUT_ABORT && put->state != PUT_DONE);
        put->state = PUT_DONE;
        lp_trace(LP_TRACE_PUT_END, (uint64_t)(int64_t)rv, put->params.size);
        put->done(put->done_arg, rv, object);
        put_free(put);
}

/*
 * Its drives have changed since it began, and it has a shard on none of those that came: the walk that
 * came with them has passed its group, as far as it knows, and the next comes tomorrow.
 */
static bool is_unseen(const struct eng_put *put)
{
        size_t i;

        if (put->el->view.epoch == put->epoch)
                return false;
        for (i = 0; i < (size_t)put->runs * eng_put_shards(put); i++)
                if (put->drives[i] == ENG_NO_DRIVE)
                        return true;
        return false;
}

static void record_done(struct eng_txn_put *change, const struct eng_object *stored)
{
        struct eng_put *put = change->arg;
        int rv = change->txn.result;

        assert(put->state == PUT_RECORD);
        if (rv != 0 && !change->txn.appended)
                discard_all(put); /* no record names them, and none will: the primary refused before it numbered one */
        put_finish(put, rv, stored);
        eng_txn_put_free(change);
}

static void txn_done(struct eng_txn *txn)
{
        struct eng_txn_put *change = (struct eng_txn_put *)txn;
        struct eng_object object;

        if (txn->result == 0)
                eng_value_object(change->value, &change->txn.name, &object);
        if (txn->result == 0 && is_unseen(change->arg))
                eng_upkeep_group(txn->store, txn->pg);
        record_done(change, txn->result == 0 ? &object : NULL);
}

/* The drive that has the upload's shards of this slot; one of which all were empty has nothing to lose. NULL: none. */
static const uint8_t *proven_drive(const struct eng_put *put, unsigned slot)
{
        const struct eng_drive *drive = put->store->members[slot].drive;

        if (put->touched & eng_bit(slot))
                return put->proofs[slot].drive == NULL ? NULL : put->proofs[slot].drive_id;
        return drive == NULL ? NULL : drive->id;
}

/* Of the drives that its value names: how many. */
static unsigned add_proofs(const struct eng_put *put, struct eng_call_proof out[ENG_DRIVES_MAX])
{
        eng_mask named = put->proofs == NULL ? 0 : eng_put_named(put) | put->touched;
        unsigned i, n = 0;

        for (i = 0; i < ENG_DRIVES_MAX; i++) {
                const uint8_t *drive_id = named & eng_bit(i) ? proven_drive(put, i) : NULL;

                if (drive_id == NULL)
                        continue;
                out[n].slot = i;
                memcpy(&out[n++].drive_key, drive_id, sizeof(out[0].drive_key));
        }
        return n;
}

static void send_txn(struct eng_put *put)
{
        struct eng_call_proof proofs[ENG_DRIVES_MAX];
        struct eng_txn_put *change =
                eng_txn_put_new(put->store, put->params.bucket, put->key, put->params.key.len);

        assert(put->error == 0 && put->in_flight == 0 && (put->state == PUT_FLUSH || put->state == PUT_SYNC));
        put->state = PUT_RECORD;
        if (change != NULL) {
                change->value = eng_put_value(put, change->txn.pg);
                if (!put->striped && put->head_len != 0) {
                        put->head_buf->len = (uint32_t)put->head_len;
                        change->bytes = eng_buf_ref(put->head_buf);
                }
        }
        if (change == NULL || change->value == NULL) {
                if (change != NULL)
                        eng_txn_put_free(change);
                discard_all(put);
                put_finish(put, -ENOMEM, NULL);
                return;
        }
        change->condition = put->commit.condition;
        change->is_part = put->params.is_part;
        memcpy(change->upload_id, put->params.upload_id, FMT_ID);
        change->part_number = put->params.part_number;
        change->epoch = put->epoch;
        change->now = put->commit.mtime_ms == 0;
        change->arg = put;
        change->txn.done = txn_done;
        if (eng_is_home(put->store))
                eng_home_put(change, proofs, add_proofs(put, proofs), record_done);
        else
                eng_txn_submit(&change->txn);
}

static void put_synced(struct eng_op *op)
{
        struct put_sync *sync = container_of(op, struct put_sync, op);
        struct eng_put *put = sync->put;

        assert(put->state == PUT_SYNC && put->in_flight > 0);
        if (op->result == -EAGAIN) { /* no memory to flush with: the drive has not failed */
                if (put->error == 0)
                        put->error = -EBUSY;
        } else if (op->result != 0) {
                eng_drive_erred(put->store, sync->slot_no, sync->drive, op->result, "shards could not be made durable");
                eng_put_lose_drive(put, sync->slot_no);
        }
        put->in_flight--;
        put_step(put);
}

/* A drive that has left, or is not reached, is not asked: to connect to a node that is dead takes seconds. */
static int send_syncs(struct eng_put *put)
{
        const eng_mask asked = put->el->view.in & put->el->view.up;
        unsigned i, n = 0;

        assert(put->state == PUT_FLUSH && put->in_flight == 0);
        for (i = 0; i < put->store->drive_count; i++)
                if ((put->touched & eng_bit(i)) && ((asked & eng_bit(i)) == 0 || eng_put_is_new(put, i))) {
                        eng_put_lose_drive(put, i);
                        put->touched &= ~eng_bit(i);
                }
        if (put->error != 0)
                return put->error;
        put->syncs = calloc((unsigned)__builtin_popcountll(put->touched) + 1u, sizeof(put->syncs[0]));
        if (put->syncs == NULL)
                return -ENOMEM;
        put->state = PUT_SYNC;
        put->step_began = lp_clock();
        put->in_flight++; /* so that put_step() does not run ahead */
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
                if (put->proofs != NULL) {
                        sync->op.incarnation = put->proofs[i].incarnation;
                        sync->drive = put->store->members[i].drive;
                }
                sync->op.done = put_synced;
                put->in_flight++;
                eng_drive_submit(sync->drive, &sync->op);
        }
        put->in_flight--;
        return 0;
}

/*
 * Last units: what is left of the head, the unfinished unit, the parity of an unfinished stripe.
 * True when all are on their way.
 */
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
                put->error = eng_put_buffer_run(put, 0);
        if (put->current != NULL && put->fill != 0) {
                if (put->params.size == ENG_SIZE_UNKNOWN && put->unit_no == 0)
                        put->stripe_unit = eng_stripe_last_unit(put->fill, 1);
                eng_put_flush_unit(put);
        }
        if (put->in_stripe)
                eng_put_end_stripe(put);
        return true;
}

static void put_fail(struct eng_put *put)
{
        assert(put->error != 0 && put->in_flight == 0);
        eng_put_drop_unwritten(put);
        discard_all(put);
        put_finish(put, put->error, NULL);
}

/* The one place that moves a put between its states; called whenever something came back. */
static void put_step(struct eng_put *put)
{
        lp_trace_set_request(put->request);
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
                        put_fail(put);
                else
                        send_txn(put);
                break;
        case PUT_SYNC:
                if (put->in_flight > 0)
                        break;
                eng_step_ends(put->el, ENG_STEP_SYNC, put->step_began);
                if (put->error != 0)
                        put_fail(put);
                else
                        send_txn(put);
                break;
        case PUT_ABORT:
                if (put->in_flight > 0)
                        break;
                eng_put_drop_unwritten(put);
                discard_all(put);
                put_free(put);
                break;
        case PUT_CALLED:
        case PUT_RECORD:
        case PUT_DONE:
                break;
        }
}

static void commit_goes_on(void *arg, int rv)
{
        struct eng_put *put = arg;

        assert(put->state == PUT_CALLED);
        if (put->error == 0)
                put->error = rv;
        put->state = PUT_FLUSH;
        put->step_began = lp_clock();
        eng_put_md5_hurry(put); /* of one that failed there may be some left */
        put_step(put);
}

/* What builds without versions do not know is written only where they refuse the drives. */
static void commit_begins(struct lp_msg *msg)
{
        struct eng_put *put = container_of(msg, struct eng_put, msg);

        if ((put->commit_fields.len > 0 || put->commit_state != 0) && !eng_is_home(put->store) && !eng_features_are(put->store, FMT_FEATURE_VERSIONS))
                eng_features_want(put->store, FMT_FEATURE_VERSIONS, commit_goes_on, put);
        else
                commit_goes_on(put, 0);
}

static void wake_flush(void *arg)
{
        put_step(arg);
}

void eng_put_commit(struct eng_put *put, const struct eng_put_commit *commit, eng_put_done done, void *arg)
{
        assert(put->state == PUT_BODY && put->lent_count == 0);
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
        if (put->error == 0)
                put->error = eng_extras_encode(&commit->extras, &put->commit_fields, &put->commit_state);
        put->msg.run = commit_begins;
        lp_post(put->el->loop, &put->msg);
}

void eng_put_abort(struct eng_put *put)
{
        assert(put->state == PUT_BODY);
        put->state = PUT_ABORT;
        put->waiting = false;
        eng_put_md5_hurry(put);
        put_step(put);
}
