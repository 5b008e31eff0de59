/*
 * bucket.c - buckets: the configuration that every loop has a copy of.
 *
 * Creating and deleting are done by the coordinator, one after the other: a record in the CONFIG PG
 * (on every drive), then every loop's copy, then the answer.
 *
 * Deleting looks first, beside all else: a bucket that holds an object is left alone. Then, in its
 * turn: open -> closing (changes wait at their primaries, a bounded number of them; beyond:
 * -EAGAIN) -> those under way have ended -> found empty -> gone, or back to open. What waited is
 * then refused (-EIDRM), or goes on. The id of a bucket is never used again, so what unfinished
 * uploads have left under it is nobody's: the record that deletes the bucket names it as dead, and
 * bucket_drop.c drops them afterwards, over restarts.
 */
#include "engine/bucket/bucket.h"
#include "engine/txn/txn_util.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define REQUESTS_MAX 256u              /* waiting; beyond: -EAGAIN */
#define DRAIN_NS (5ull * 1000 * 1000)
#define DRAIN_ROUNDS 1000u             /* 5 s, or more; then the bucket is opened again: -EAGAIN */
#define BUCKETS_MAX 10000u

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

static void bucket_drop(struct eng_loop *el, uint64_t id)
{
        struct eng_config_bucket *b;
        unsigned i;

        HASH_FIND(hh, el->buckets_by_id, &id, sizeof(id), b);
        if (b == NULL)
                return;
        HASH_DEL(el->buckets_by_id, b);
        for (i = 0; el->buckets[i] != b; i++)
                ;
        memmove(el->buckets + i, el->buckets + i + 1, (el->bucket_count - i - 1) * sizeof(el->buckets[0]));
        el->bucket_count--;
        eng_txn_unpark(b);
        assert(TAILQ_EMPTY(&b->parked));
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
                bucket_drop(el, el->buckets[el->bucket_count - 1]->bucket.id);
        free(el->buckets);
}

/* ---- records --------------------------------------------------------------------------------- */

/* Attrs of a bucket's value: id, then the caller's own. */
static struct eng_buf *bucket_value(uint32_t pg, const struct eng_bucket *bucket)
{
        uint8_t attrs[8 + sizeof(bucket->attrs)];
        struct eng_value_spec spec = {
                .space = FMT_SPACE_CONFIG,
                .pg = pg,
                .mtime_ms = bucket->created_ms,
                .attrs = attrs,
                .attrs_len = 8u + bucket->attrs_len,
        };

        memcpy(attrs, &bucket->id, 8);
        memcpy(attrs + 8, bucket->attrs, bucket->attrs_len);
        return eng_value_new(&spec);
}

int eng_bucket_decode(const uint8_t *name, size_t name_len, const uint8_t *value, size_t value_len, struct eng_bucket *out)
{
        struct fmt_value v;

        memset(out, 0, sizeof(*out));
        if (name_len < 11 || name_len - 10 > ENG_BUCKET_NAME_MAX || name[9] != 'b' || value_len < sizeof(v))
                return -EBADMSG;
        memcpy(&v, value, sizeof(v));
        if (v.attrs_len < 8 || v.attrs_len - 8u > sizeof(out->attrs) || value_len < sizeof(v) + v.attrs_len)
                return -EBADMSG;
        memcpy(out->name, name + 10, name_len - 10);
        memcpy(&out->id, value + sizeof(v), 8);
        out->attrs_len = (uint16_t)(v.attrs_len - 8);
        memcpy(out->attrs, value + sizeof(v) + 8, out->attrs_len);
        out->created_ms = v.mtime_ms;
        return 0;
}

/* ---- requests -------------------------------------------------------------------------------- */

enum request_kind { CREATE, DELETE };

/* owner: home until posted, then the coordinator until answered */
struct request {
        struct lp_msg msg;
        STAILQ_ENTRY(request) link;
        struct eng_store *store;
        struct eng_loop *home;
        enum request_kind kind;
        struct eng_bucket bucket;
        struct eng_txn txn;
        bool closing;                  /* what the broadcast under way sets */
        int add_result;                /* written by loops in a broadcast, ENOMEM only */
        atomic_uint busy;              /* changes of the bucket still in flight, summed by a broadcast */
        struct lp_timer drain;
        unsigned rounds;               /* of draining */
        int result;
        eng_done done;
        void *arg;
};
STAILQ_HEAD(request_list, request);

/* owner: coordinator */
struct config {
        struct request_list queue;     /* the head is being done */
        unsigned count;                /* of requests, those that look first included */
};

static struct config *config_of(struct eng_store *store)
{
        return store->coord->config;
}

static void bucket_begin(struct request *req);

static void bucket_answer(struct lp_msg *msg)
{
        struct request *req = (struct request *)msg;

        assert(eng_on_loop(req->home));
        req->done(req->arg, req->result);
        free(req);
}

static void reply(struct request *req, int rv)
{
        assert(req->msg.run != bucket_answer);
        req->result = rv;
        req->msg.run = bucket_answer;
        lp_post(req->home->loop, &req->msg);
}

static void bucket_finish(struct request *req, int rv)
{
        struct config *config = config_of(req->store);
        struct request *next;

        assert(eng_on_coordinator(req->store));
        assert(STAILQ_FIRST(&config->queue) == req && config->count > 0);
        STAILQ_REMOVE_HEAD(&config->queue, link);
        config->count--;
        reply(req, rv);
        next = STAILQ_FIRST(&config->queue);
        if (next != NULL)
                bucket_begin(next);
}

static void start_txn(struct request *req, void (*prepare)(struct eng_txn *txn), void (*done)(struct eng_txn *txn))
{
        struct eng_txn *txn = &req->txn;

        assert(STAILQ_FIRST(&config_of(req->store)->queue) == req);
        eng_txn_init(txn, req->store, 0, req->bucket.name, strlen(req->bucket.name));
        txn->pg = req->store->pg_count;
        txn->internal = true;
        txn->prepare = prepare;
        txn->done = done;
        eng_txn_submit(txn);
}

static struct request *request_of(struct eng_txn *txn)
{
        return container_of(txn, struct request, txn);
}

/* ---- create ---------------------------------------------------------------------------------- */

static bool add_everywhere(struct eng_loop *el, void *arg, struct lp_msg *ack)
{
        struct request *req = arg;

        if (bucket_add(el, &req->bucket) != 0)
                abort(); /* the bucket exists: a loop that does not know it would lie */
        return true;
}

static void added(struct eng_store *store, void *arg)
{
        bucket_finish(arg, 0);
}

static void bucket_create_prepare(struct eng_txn *txn)
{
        struct request *req = request_of(txn);
        struct eng_buf *value = bucket_value(txn->pg, &req->bucket);
        int rv = value == NULL ? -ENOMEM : 0;

        assert(req->kind == CREATE);
        eng_name_bucket(&txn->name, req->bucket.name);
        if (rv == 0)
                rv = eng_body_begin(&txn->body, eng_body_need(txn->name.len, value->len, 0));
        if (rv == 0)
                eng_body_put(&txn->body, &txn->name, value, eng_txn_take_seq(txn), NULL, 0);
        eng_buf_unref(value);
        if (rv == 0)
                eng_txn_append(txn);
        else
                eng_txn_finish(txn, rv);
}

static void create_recorded(struct eng_txn *txn)
{
        struct request *req = request_of(txn);

        assert(req->kind == CREATE);
        if (txn->result != 0)
                bucket_finish(req, txn->result);
        else if (eng_broadcast(req->store, add_everywhere, added, req) != 0)
                abort(); /* recorded, but the loops can't be told: a restart reads it */
}

static void begin_create(struct request *req)
{
        struct eng_loop *el = &req->store->loops[0];
        struct eng_str name = {req->bucket.name, strlen(req->bucket.name)};

        if (eng_bucket_find(el, name) != NULL) {
                bucket_finish(req, -EEXIST);
                return;
        }
        if (el->bucket_count >= BUCKETS_MAX) {
                bucket_finish(req, -ENOSPC);
                return;
        }
        do
                lp_random(&req->bucket.id, sizeof(req->bucket.id));
        while (req->bucket.id == 0 || eng_bucket_by_id(el, req->bucket.id) != NULL);
        req->bucket.created_ms = lp_wall_ms();
        start_txn(req, bucket_create_prepare, create_recorded);
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

        assert(req->kind == DELETE && !req->closing);
        bucket_finish(req, req->result);
}

static void back_to_open(struct request *req, int rv)
{
        assert(req->closing);
        req->closing = false;
        req->result = rv;
        if (eng_broadcast(req->store, set_closing, reopened, req) != 0)
                abort(); /* a bucket stuck in closing would refuse writes for ever */
}

static bool drop_everywhere(struct eng_loop *el, void *arg, struct lp_msg *ack)
{
        const struct request *req = arg;

        bucket_drop(el, req->bucket.id);
        return true;
}

static void dropped(struct eng_store *store, void *arg)
{
        bucket_finish(arg, 0);
        eng_drop_consider(store);
}

static void delete_recorded(struct eng_txn *txn)
{
        struct request *req = request_of(txn);

        assert(req->kind == DELETE && req->closing);
        if (txn->result != 0)
                back_to_open(req, txn->result);
        else if (eng_broadcast(req->store, drop_everywhere, dropped, req) != 0)
                abort(); /* recorded, but the loops can't be told: a restart reads it */
}

/* One record: the bucket is gone, and what is left under its id is nobody's. */
static void bucket_delete_prepare(struct eng_txn *txn)
{
        const struct request *req = request_of(txn);
        struct eng_buf *value = bucket_value(txn->pg, &req->bucket);
        struct eng_name dead;
        int rv = value == NULL ? -ENOMEM : 0;

        assert(req->kind == DELETE && req->closing);
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

static void list_objects(struct request *req, eng_list_done listed)
{
        struct eng_list_params p = {.bucket = req->bucket.id, .max = 1};

        p.prefix.data = p.delimiter.data = p.after.data = "";
        eng_list(req->store, &p, listed, req);
}

/* As AWS does: unfinished uploads do not keep a bucket; they end with it. */
static void objects_listed(void *arg, int rv, const struct eng_list_entry *entries, unsigned count, bool more)
{
        struct request *req = arg;

        assert(req->closing && atomic_load(&req->busy) == 0);
        if (rv != 0)
                back_to_open(req, rv);
        else if (count > 0)
                back_to_open(req, -EBUSY);
        else
                start_txn(req, bucket_delete_prepare, delete_recorded);
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

static void counted(struct eng_store *store, void *arg)
{
        struct request *req = arg;

        if (atomic_load(&req->busy) == 0)
                list_objects(req, objects_listed);
        else if (++req->rounds > DRAIN_ROUNDS)
                back_to_open(req, -EAGAIN);
        else
                lp_timer_start(store->loops[0].loop, &req->drain, DRAIN_NS);
}

/* Changes admitted before the bucket closed are let finish. */
static void drain(struct request *req)
{
        assert(req->closing);
        atomic_store(&req->busy, 0);
        if (eng_broadcast(req->store, count_changes, counted, req) != 0)
                back_to_open(req, -ENOMEM);
}

static void drain_again(struct lp_timer *timer)
{
        drain(container_of(timer, struct request, drain));
}

static void closed(struct eng_store *store, void *arg)
{
        drain(arg);
}

static void begin_delete(struct request *req)
{
        struct eng_str name = {req->bucket.name, strlen(req->bucket.name)};
        struct eng_config_bucket *b = eng_bucket_find(&req->store->loops[0], name);

        if (b == NULL) {
                bucket_finish(req, -ENOENT);
                return;
        }
        req->bucket = b->bucket;
        req->closing = true;
        req->drain.expired = drain_again;
        if (eng_broadcast(req->store, set_closing, closed, req) != 0)
                bucket_finish(req, -ENOMEM);
}

static void bucket_begin(struct request *req)
{
        assert(STAILQ_FIRST(&config_of(req->store)->queue) == req);
        if (!eng_takes_changes(req->store, &req->store->coord->view))
                bucket_finish(req, -EROFS);
        else if (req->kind == CREATE)
                begin_create(req);
        else
                begin_delete(req);
}

static void bucket_line_up(struct request *req)
{
        struct config *config = config_of(req->store);
        bool first = STAILQ_EMPTY(&config->queue);

        STAILQ_INSERT_TAIL(&config->queue, req, link);
        if (first)
                bucket_begin(req);
}

static void bucket_refuse(struct request *req, int rv)
{
        assert(config_of(req->store)->count > 0);
        config_of(req->store)->count--;
        reply(req, rv);
}

static void looked(void *arg, int rv, const struct eng_list_entry *entries, unsigned count, bool more)
{
        struct request *req = arg;

        assert(req->kind == DELETE && !req->closing);
        if (rv != 0 || count > 0)
                bucket_refuse(req, rv != 0 ? rv : -EBUSY);
        else
                bucket_line_up(req);
}

/*
 * Nobody's change waits for a bucket that is in use, and no change of other buckets for this look.
 */
static void look_first(struct request *req)
{
        const struct eng_config_bucket *b =
                eng_bucket_find(&req->store->loops[0], (struct eng_str){req->bucket.name, strlen(req->bucket.name)});

        if (b == NULL) {
                bucket_refuse(req, -ENOENT);
                return;
        }
        req->bucket = b->bucket;
        list_objects(req, looked);
}

static void bucket_arrive(struct lp_msg *msg)
{
        struct request *req = (struct request *)msg;
        struct config *config = config_of(req->store);

        assert(eng_on_coordinator(req->store));
        if (req->store->coord->phase != ENG_PHASE_OPEN || config->count >= REQUESTS_MAX) {
                reply(req, req->store->coord->phase != ENG_PHASE_OPEN ? -EHOSTDOWN : -EAGAIN);
                return;
        }
        config->count++;
        if (req->kind == DELETE)
                look_first(req);
        else
                bucket_line_up(req);
}

static void send(struct eng_store *store, enum request_kind kind, struct eng_str name, const void *attrs, size_t attrs_len,
                 eng_done done, void *arg)
{
        struct request *req = NULL;
        bool fit = name.len >= 1 && name.len <= ENG_BUCKET_NAME_MAX && attrs_len <= sizeof(req->bucket.attrs);

        if (fit)
                req = calloc(1, sizeof(*req));
        if (req == NULL) {
                eng_early(store, (struct eng_early){.plain = done, .arg = arg, .rv = fit ? -ENOMEM : -EINVAL});
                return;
        }
        req->store = store;
        req->home = eng_here(store);
        req->kind = kind;
        memcpy(req->bucket.name, name.data, name.len);
        if (attrs_len != 0)
                memcpy(req->bucket.attrs, attrs, attrs_len);
        req->bucket.attrs_len = (uint16_t)attrs_len;
        req->done = done;
        req->arg = arg;
        req->msg.run = bucket_arrive;
        lp_post(store->loops[0].loop, &req->msg);
}

void eng_bucket_create(struct eng_store *store, struct eng_str name, const void *attrs, size_t attrs_len, eng_done done,
                       void *arg)
{
        send(store, CREATE, name, attrs, attrs_len, done, arg);
}

void eng_bucket_delete(struct eng_store *store, struct eng_str name, eng_done done, void *arg)
{
        send(store, DELETE, name, NULL, 0, done, arg);
}

/* ---- loading --------------------------------------------------------------------------------- */

int eng_config_take(struct eng_loop *el, const struct eng_bucket *bucket)
{
        return eng_bucket_by_id(el, bucket->id) != NULL ? 0 : bucket_add(el, bucket);
}

int eng_config_begin(struct eng_store *store)
{
        struct config *config = config_of(store);

        if (config != NULL)
                return 0;
        config = calloc(1, sizeof(*config));
        if (config == NULL)
                return -ENOMEM;
        STAILQ_INIT(&config->queue);
        store->coord->config = config;
        return 0;
}
