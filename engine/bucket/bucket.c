/*
 * bucket.c - buckets: the configuration that every loop has a copy of.
 *
 * Creating and deleting are done by the coordinator, one after the other (bucket_queue.c): a record in
 * the CONFIG PG (on every drive), then every loop's copy, then the answer.
 *
 * Deleting looks first, beside all else: a bucket that holds an object is left alone. Then, in its
 * turn: open -> closing (changes wait at their primaries, a bounded number of them; beyond:
 * -EAGAIN) -> those under way have ended -> found empty -> gone, or back to open. What waited is
 * then refused (-EIDRM), or goes on. The id of a bucket is never used again, so what unfinished
 * uploads have left under it is nobody's: the record that deletes the bucket names it as dead, and
 * bucket_drop.c drops them afterwards, over restarts.
 */
#include "engine/bucket/bucket.h"
#include "engine/bucket/bucket_look.h"
#include "engine/bucket/bucket_pool.h"
#include "engine/bucket/bucket_queue.h"
#include "engine/bucket/bucket_text.h"
#include "engine/bucket/home_changes.h"
#include "engine/txn/txn_util.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define DRAIN_NS (5ull * 1000 * 1000)
#define DRAIN_ROUNDS 1000u             /* 5 s, or more; then the bucket is opened again: -EAGAIN */
#define BUCKETS_MAX 100000u

/* ---- a loop's copy --------------------------------------------------------------------------- */

static int bucket_add(struct eng_loop *el, const struct eng_bucket *bucket)
{
        struct eng_str name = {bucket->name, strlen(bucket->name)};
        struct eng_config_bucket *b = calloc(1, sizeof(*b));
        unsigned i = eng_bucket_position(el, name);

        assert(eng_on_loop(el) && eng_bucket_by_id(el, bucket->id) == NULL);
        if (b == NULL)
                return -ENOMEM;
        if (el->bucket_count == el->bucket_cap) {
                unsigned cap = el->bucket_cap * 2 + 16;
                struct eng_config_bucket **grown = realloc(el->buckets, cap * sizeof(*grown));

                if (grown == NULL) {
                        free(b);
                        return -ENOMEM;
                }
                el->buckets = grown;
                el->bucket_cap = cap;
        }
        b->bucket = *bucket;
        TAILQ_INIT(&b->parked);
        memmove(el->buckets + i + 1, el->buckets + i, (el->bucket_count - i) * sizeof(el->buckets[0]));
        el->buckets[i] = b;
        el->bucket_count++;
        HASH_ADD(hh, el->buckets_by_id, bucket.id, sizeof(b->bucket.id), b);
        return 0;
}

void eng_config_drop(struct eng_loop *el, uint64_t id)
{
        struct eng_config_bucket *b;
        unsigned i;

        HASH_FIND(hh, el->buckets_by_id, &id, sizeof(id), b);
        if (b == NULL)
                return;
        HASH_DEL(el->buckets_by_id, b);
        i = eng_bucket_position(el, (struct eng_str){b->bucket.name, strlen(b->bucket.name)});
        assert(el->buckets[i] == b);
        memmove(el->buckets + i, el->buckets + i + 1, (el->bucket_count - i - 1) * sizeof(el->buckets[0]));
        el->bucket_count--;
        eng_txn_unpark(b);
        assert(TAILQ_EMPTY(&b->parked));
        eng_texts_drop(b);
        free(b);
}

void eng_config_stop(struct eng_loop *el)
{
        unsigned i;

        for (i = 0; i < el->bucket_count; i++) {
                el->buckets[i]->closing = false;
                eng_txn_unpark(el->buckets[i]);
        }
}

void eng_config_free(struct eng_loop *el)
{
        while (el->bucket_count > 0)
                eng_config_drop(el, el->buckets[el->bucket_count - 1]->bucket.id);
        free(el->buckets);
}

/* ---- requests -------------------------------------------------------------------------------- */

/* owner: home until sent, then the coordinator until answered */
struct request {
        struct eng_change change;      /* first */
        struct eng_bucket bucket;
        uint64_t meant;                /* of a deletion: the id of the bucket; 0: whichever has the name */
        bool closing;                  /* what the broadcast under way sets */
        atomic_uint busy;              /* changes of the bucket still in flight, summed by a broadcast */
        struct lp_timer drain;
        unsigned rounds;               /* of draining */
        int result;                    /* to be answered once the bucket is open again */
        struct eng_bucket_look look;   /* before it is deleted */
};

static void bucket_free(struct eng_change *change)
{
        eng_bucket_look_free(&((struct request *)change)->look);
        free(change);
}

static struct eng_str request_name(const struct request *req)
{
        return (struct eng_str){req->bucket.name, strlen(req->bucket.name)};
}

static void request_submit(struct request *req, void (*prepare)(struct eng_txn *txn), void (*done)(struct eng_txn *txn))
{
        eng_change_submit(&req->change, req->bucket.name, strlen(req->bucket.name), prepare, done);
}

static struct request *request_of(struct eng_txn *txn)
{
        return (struct request *)eng_change_of(txn);
}

/* ---- create ---------------------------------------------------------------------------------- */

static bool add_everywhere(struct eng_loop *el, void *arg, struct lp_msg *ack)
{
        struct request *req = arg;

        if (bucket_add(el, &req->bucket) != 0)
                abort(); /* the bucket exists: a loop that does not know it would lie */
        return true;
}

static void bucket_touched(struct request *req)
{
        req->change.touched = (struct eng_row_key){.what = ENG_ROW_BUCKET, .id = req->bucket.id};
}

static void added(struct eng_store *store, void *arg)
{
        bucket_touched(arg);
        eng_change_recorded(arg);
}

void eng_bucket_put_row(struct eng_txn *txn, const struct eng_bucket *bucket)
{
        struct eng_buf *value = eng_bucket_value(txn->pg, bucket);
        int rv = value == NULL ? -ENOMEM : 0;

        eng_name_bucket(&txn->name, bucket->name);
        eng_txn_put_value(txn, value, rv);
}

static void bucket_create_prepare(struct eng_txn *txn)
{
        eng_bucket_put_row(txn, &request_of(txn)->bucket);
}

static void create_recorded(struct eng_txn *txn)
{
        struct request *req = request_of(txn);

        if (!txn->counts)
                eng_change_finish(&req->change, txn->result);
        else if (eng_broadcast(txn->store, add_everywhere, added, req) != 0)
                abort(); /* recorded, but the loops can't be told: a restart reads it */
}

static void create_marked(void *arg, int rv)
{
        struct request *req = arg;

        if (rv != 0)
                eng_change_finish(&req->change, rv);
        else
                request_submit(req, bucket_create_prepare, create_recorded);
}

static void create_allowed(void *arg, int rv)
{
        struct request *req = arg;

        if (rv == 0 && req->bucket.rules.lock)
                eng_lock_require(req->change.store, create_marked, req);
        else
                create_marked(req, rv);
}

static void begin_create(struct eng_change *change)
{
        struct request *req = (struct request *)change;
        struct eng_loop *el = change->store->coord_loop;
        int rv = eng_bucket_pool_elsewhere(change->store, request_name(req));

        if (rv == 0 && eng_bucket_find(el, request_name(req)) != NULL)
                rv = -EEXIST;
        if (rv != 0) {
                eng_change_finish(change, rv);
                return;
        }
        if (el->bucket_count >= BUCKETS_MAX) {
                eng_change_finish(change, -ENOSPC);
                return;
        }
        do
                lp_random(&req->bucket.id, sizeof(req->bucket.id));
        while (req->bucket.id == 0 || eng_bucket_by_id(el, req->bucket.id) != NULL);
        req->bucket.created_ms = lp_wall_ms();
        if (req->bucket.rules.generation != 0)
                eng_features_set(change->store, FMT_FEATURE_VERSIONS, create_allowed, req);
        else
                create_allowed(req, 0);
}

/* ---- delete ---------------------------------------------------------------------------------- */

static bool set_closing(struct eng_loop *el, void *arg, struct lp_msg *ack)
{
        struct request *req = arg;
        struct eng_config_bucket *b;

        HASH_FIND(hh, el->buckets_by_id, &req->bucket.id, sizeof(req->bucket.id), b);
        if (b != NULL)
                b->closing = req->closing;
        if (b != NULL && !b->closing)
                eng_txn_unpark(b);
        return true;
}

static void reopened(struct eng_store *store, void *arg)
{
        struct request *req = arg;

        assert(!req->closing);
        eng_change_finish(&req->change, req->result);
}

static void back_to_open(struct request *req, int rv)
{
        assert(req->closing);
        req->closing = false;
        req->result = rv;
        if (eng_broadcast(req->change.store, set_closing, reopened, req) != 0)
                abort(); /* a bucket stuck in closing would refuse writes for ever */
}

static bool drop_everywhere(struct eng_loop *el, void *arg, struct lp_msg *ack)
{
        const struct request *req = arg;

        eng_config_drop(el, req->bucket.id);
        return true;
}

static void dropped(struct eng_store *store, void *arg)
{
        bucket_touched(arg);
        eng_change_recorded(arg);
        eng_drop_consider(store);
}

static void delete_recorded(struct eng_txn *txn)
{
        struct request *req = request_of(txn);

        assert(req->closing);
        if (!txn->counts) {
                back_to_open(req, txn->result);
                return;
        }
        eng_config_of(txn->store)->text_bytes -= eng_texts_bytes(eng_bucket_by_id(txn->store->coord_loop, req->bucket.id));
        if (eng_broadcast(txn->store, drop_everywhere, dropped, req) != 0)
                abort(); /* recorded, but the loops can't be told: a restart reads it */
}

/* One record: the bucket is gone, and what is left under its id is nobody's. */
static void bucket_delete_prepare(struct eng_txn *txn)
{
        const struct request *req = request_of(txn);
        struct eng_buf *value = eng_bucket_value(txn->pg, &req->bucket);
        struct eng_name dead;
        int rv = value == NULL ? -ENOMEM : 0;

        assert(req->closing);
        eng_name_bucket(&txn->name, req->bucket.name);
        eng_name_dead_bucket(&dead, req->bucket.name, req->bucket.id);
        if (rv == 0)
                rv = eng_body_begin(&txn->body, eng_body_need(txn->name.len, 0, 0) + eng_body_need(dead.len, value->len, 0));
        if (rv == 0) {
                eng_body_delete(&txn->body, &txn->name);
                eng_body_put(&txn->body, &dead, value, eng_txn_take_seq(txn), NULL, 0);
        }
        eng_buf_unref(value);
        if (rv == 0)
                eng_txn_append(txn);
        else
                eng_txn_finish(txn, rv);
}

static void look_into(struct request *req, void (*done)(struct eng_bucket_look *look, int rv))
{
        req->look.store = req->change.store;
        req->look.bucket = req->bucket.id;
        req->look.done = done;
        eng_bucket_look(&req->look);
}

/* As AWS does: unfinished uploads do not keep a bucket; they end with it. */
static void looked_at_last(struct eng_bucket_look *look, int rv)
{
        struct request *req = container_of(look, struct request, look);

        assert(req->closing && atomic_load(&req->busy) == 0);
        if (rv != 0)
                back_to_open(req, rv);
        else
                request_submit(req, bucket_delete_prepare, delete_recorded);
}

static bool count_changes(struct eng_loop *el, void *arg, struct lp_msg *ack)
{
        struct request *req = arg;
        struct eng_key_lock *lock, *next;
        struct eng_txn *txn;

        HASH_ITER(hh, el->leader.locks, lock, next)
                TAILQ_FOREACH(txn, &lock->waiting, lock_link)
                        if (txn->bucket == req->bucket.id)
                                atomic_fetch_add(&req->busy, 1);
        return true;
}

static void drain_later(struct request *req)
{
        struct eng_store *store = req->change.store;

        eng_config_of(store)->draining = &req->drain;
        lp_timer_start(store->coord_loop->loop, &req->drain, DRAIN_NS);
}

static void counted(struct eng_store *store, void *arg)
{
        struct request *req = arg;

        if (atomic_load(&req->busy) == 0)
                look_into(req, looked_at_last);
        else if (++req->rounds > DRAIN_ROUNDS)
                back_to_open(req, -EAGAIN);
        else
                drain_later(req);
}

/* Changes admitted before the bucket closed are let finish. */
static void drain(struct request *req)
{
        assert(req->closing);
        atomic_store(&req->busy, 0);
        if (eng_broadcast(req->change.store, count_changes, counted, req) != 0)
                back_to_open(req, -ENOMEM);
}

static void drain_again(struct lp_timer *timer)
{
        eng_config_of(container_of(timer, struct request, drain)->change.store)->draining = NULL;
        drain(container_of(timer, struct request, drain));
}

void eng_deletions_stop(struct eng_store *store)
{
        struct lp_loop *before = lp_become(store->coord_loop->loop);
        struct eng_config *config = eng_config_of(store);
        struct lp_timer *draining = config == NULL ? NULL : config->draining;

        if (draining != NULL) {
                config->draining = NULL;
                lp_timer_stop(store->coord_loop->loop, draining);
                back_to_open(container_of(draining, struct request, drain), -EHOSTDOWN);
        }
        if (config != NULL)
                eng_bucket_looks_stop(store);
        lp_become(before);
}

static void closed(struct eng_store *store, void *arg)
{
        drain(arg);
}

/* NULL: it is gone, whoever has its name now. */
static const struct eng_config_bucket *bucket_meant(struct request *req)
{
        const struct eng_config_bucket *b = eng_bucket_find(req->change.store->coord_loop, request_name(req));

        return b != NULL && (req->meant == 0 || b->bucket.id == req->meant) ? b : NULL;
}

static void begin_delete(struct eng_change *change)
{
        struct request *req = (struct request *)change;
        const struct eng_config_bucket *b = bucket_meant(req);

        if (b == NULL) {
                eng_change_finish(change, -ENOENT);
                return;
        }
        req->bucket = b->bucket;
        req->closing = true;
        req->drain.expired = drain_again;
        if (eng_broadcast(change->store, set_closing, closed, req) != 0)
                eng_change_finish(change, -ENOMEM);
}

static void looked_first(struct eng_bucket_look *look, int rv)
{
        struct request *req = container_of(look, struct request, look);

        if (rv != 0)
                eng_change_refuse(&req->change, rv);
        else
                eng_change_line_up(&req->change);
}

/*
 * Nobody's change waits for a bucket that is in use, and no change of other buckets for this look.
 */
static void look_first(struct eng_change *change)
{
        struct request *req = (struct request *)change;
        const struct eng_config_bucket *b = bucket_meant(req);

        if (b == NULL) {
                eng_change_refuse(change, -ENOENT);
                return;
        }
        req->meant = b->bucket.id; /* from now on, so that none is deleted that was not looked into */
        req->bucket = b->bucket;
        look_into(req, looked_first);
}

/* ---- asked for ------------------------------------------------------------------------------- */

static struct request *request_new(struct eng_str name)
{
        struct request *req = calloc(1, sizeof(*req));

        if (req == NULL)
                return NULL;
        memcpy(req->bucket.name, name.data, name.len);
        req->change.drop = bucket_free;
        return req;
}

static void bucket_early(struct eng_store *store, int rv, eng_done done, void *arg)
{
        eng_early(store, (struct eng_early){.plain = done, .arg = arg, .rv = rv});
}

void eng_bucket_create(struct eng_store *store, struct eng_str name, const struct eng_bucket_rules *rules, const void *attrs,
                       size_t attrs_len, eng_done done, void *arg)
{
        static const struct eng_bucket_rules none = {.versioning = ENG_VERSIONING_NEVER};
        struct eng_bucket_rules wanted = rules != NULL ? *rules : none;
        struct request *req = NULL;
        bool fit = name.len >= 1 && name.len <= ENG_BUCKET_NAME_MAX && attrs_len <= sizeof(req->bucket.attrs);
        int rv = fit ? eng_rules_complete(&none, &wanted) : -EINVAL;

        if (eng_is_home(store)) {
                eng_home_bucket_create(store, name, rules, attrs, attrs_len, done, arg);
                return;
        }
        if (rv == 0)
                req = request_new(name);
        if (req == NULL) {
                bucket_early(store, rv == 0 ? -ENOMEM : rv, done, arg);
                return;
        }
        if (attrs_len != 0)
                memcpy(req->bucket.attrs, attrs, attrs_len);
        req->bucket.attrs_len = (uint16_t)attrs_len;
        req->bucket.rules = wanted;
        req->bucket.rules.generation = !eng_rules_same(&none, &wanted);
        req->change.begin = begin_create;
        eng_change_send(&req->change, store, done, arg);
}

void eng_bucket_delete(struct eng_store *store, struct eng_str name, uint64_t id, eng_done done, void *arg)
{
        bool fit = name.len >= 1 && name.len <= ENG_BUCKET_NAME_MAX;
        struct request *req;

        if (eng_is_home(store)) {
                eng_home_bucket_delete(store, name, id, done, arg);
                return;
        }
        req = fit ? request_new(name) : NULL;
        if (req == NULL) {
                bucket_early(store, fit ? -ENOMEM : -EINVAL, done, arg);
                return;
        }
        req->meant = id;
        req->change.look = look_first;
        req->change.begin = begin_delete;
        eng_change_send(&req->change, store, done, arg);
}

/* ---- loading --------------------------------------------------------------------------------- */

int eng_config_take(struct eng_loop *el, const struct eng_bucket *bucket)
{
        struct eng_config_bucket *known = eng_bucket_by_id(el, bucket->id);

        if (known == NULL)
                return bucket_add(el, bucket);
        known->bucket = *bucket; /* from other members than before (force.c) */
        return 0;
}
