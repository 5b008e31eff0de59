/*
 * lock_mark.c - the mark of the lock clock and its budget on the drives: read at the start; written once
 * the store is open, from time to time then, before a bucket gets a lock, and when the operator confirms
 * the wall clock (docs/design/bucket-rules.md, L2 to L5, L7). Coordinator.
 */
#include "engine/bucket/bucket.h"
#include "engine/bucket/bucket_queue.h"
#include "engine/bucket/home_changes.h"
#include "engine/txn/txn_util.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define MARK_KEY      't'
#define MARK_NS       (600ull * 1000 * 1000 * 1000)
#define MARK_AGAIN_NS (10ull * 1000 * 1000 * 1000)
#define MARK_SLACK_MS 60000

static void mark_name(struct eng_name *name)
{
        eng_name_space(name, FMT_SPACE_CONFIG, 0);
        name->data[name->len++] = MARK_KEY;
}

static struct eng_lock_mark *lock_mark_of(struct eng_store *store)
{
        return &eng_config_of(store)->mark;
}

/* ---- reading --------------------------------------------------------------------------------- */

static void mark_ask(struct eng_lock_mark *mark);

/* False: it makes no sense. Builds before the budget wrote the mark alone. */
static bool mark_parse(const struct eng_object *object, struct fmt_lock_clock *out)
{
        *out = (struct fmt_lock_clock){.budget_ms = FMT_LOCK_BUDGET_MS};
        if (object->attrs.len != sizeof(*out) && object->attrs.len != offsetof(struct fmt_lock_clock, budget_ms))
                return false;
        memcpy(out, object->attrs.data, object->attrs.len);
        return out->mark_ms >= 0 && out->budget_ms >= 0 && out->budget_ms <= FMT_LOCK_BUDGET_MS;
}

static void mark_take(struct eng_lock_mark *mark, const struct eng_buf *value)
{
        struct fmt_lock_clock kept;
        struct eng_object object;
        uint64_t seq = eng_value_head(value->data)->seq;

        eng_value_object(value, NULL, &object);
        if (!mark_parse(&object, &kept)) {
                mark->unread = true;
                return;
        }
        if (mark->found && seq < mark->seq)
                return;
        mark->found = true;
        mark->seq = seq;
        mark->found_last = kept;
}

static void mark_answered(struct eng_op *op)
{
        struct eng_lock_mark *mark = container_of(op, struct eng_lock_mark, op);

        if (op->result == 0)
                mark_take(mark, op->lookup.value);
        else if (op->result != -ENOENT)
                mark->unread = true;
        if (op->result == 0 || op->result == -EBADMSG) {
                eng_buf_unref(op->lookup.value);
                eng_buf_unref(op->lookup.bytes);
        }
        mark_ask(mark);
}

static void mark_ask(struct eng_lock_mark *mark)
{
        struct eng_store *store = mark->store;
        const struct eng_view *view = &store->coord->view;
        eng_mask left = eng_speakers(view, store->pg_count) & view->up & ~mark->asked;
        struct eng_op *op = &mark->op;

        if (left == 0) {
                if (mark->unread && !mark->found)
                        mark->found_last = (struct fmt_lock_clock){0}; /* nothing ends until the operator confirms */
                eng_lock_begin(store, mark->found || mark->unread ? &mark->found_last : NULL);
                mark->kept = mark->found;
                mark->loaded(mark->arg, 0);
                return;
        }
        eng_op_lookup(op, &mark->name, 0, view->epoch, mark_answered);
        mark->asked |= left & (~left + 1);
        eng_drive_submit(store->members[__builtin_ctzll(left)].drive, op);
}

void eng_lock_load(struct eng_store *store, eng_done loaded, void *arg)
{
        struct eng_lock_mark *mark = lock_mark_of(store);

        mark->store = store;
        mark->loaded = loaded;
        mark->arg = arg;
        mark->asked = 0;
        mark->found = mark->unread = false;
        mark_name(&mark->name);
        mark_ask(mark);
}

/* ---- writing --------------------------------------------------------------------------------- */

static void mark_prepare(struct eng_txn *txn)
{
        const struct eng_lock_mark *mark = container_of(txn, struct eng_lock_mark, txn);
        const struct fmt_lock_clock *kept = &mark->point.kept;
        struct eng_value_spec spec = {
                .space = FMT_SPACE_CONFIG, .pg = txn->pg, .mtime_ms = kept->mark_ms, .attrs = kept, .attrs_len = sizeof(*kept)};
        struct eng_buf *value = eng_value_new(&spec);
        int rv = value == NULL ? -ENOMEM : 0;

        mark_name(&txn->name);
        eng_txn_put_value(txn, value, rv);
}

static void mark_write(struct eng_lock_mark *mark);

/* A confirmation, or a bucket that gets a lock, waited for the write under way. */
static void mark_written(struct eng_txn *txn)
{
        struct eng_lock_mark *mark = container_of(txn, struct eng_lock_mark, txn);
        void (*done)(void *, int) = mark->done;

        assert(mark->busy);
        mark->busy = false;
        if (txn->result == 0) {
                mark->kept = true;
                eng_lock_reach(mark->store, &mark->point);
        }
        if (mark->store->stopping)
                return;
        if (mark->waiting) {
                mark->waiting = false;
                mark_write(mark);
                return;
        }
        mark->done = NULL;
        if (done != NULL)
                done(mark->done_arg, txn->result);
        lp_timer_start(mark->store->coord_loop->loop, &mark->timer, txn->result == 0 ? MARK_NS : MARK_AGAIN_NS);
}

static void mark_write(struct eng_lock_mark *mark)
{
        struct eng_txn *txn = &mark->txn;
        const char key = MARK_KEY;

        if (mark->busy) {
                mark->waiting = true;
                return;
        }
        lp_timer_stop(mark->store->coord_loop->loop, &mark->timer);
        eng_lock_point(mark->store, mark->confirmed_ms, &mark->point);
        mark->busy = true;
        memset(txn, 0, sizeof(*txn));
        eng_txn_init(txn, mark->store, 0, &key, 1);
        txn->pg = mark->store->pg_count;
        txn->internal = true;
        txn->prepare = mark_prepare;
        txn->done = mark_written;
        eng_txn_submit(txn);
}

static void mark_tick(struct lp_timer *timer)
{
        struct eng_lock_mark *mark = container_of(timer, struct eng_lock_mark, timer);
        struct eng_store *store = mark->store;

        if (store->stopping)
                return;
        if (store->coord->view.writable && (store->coord->features & FMT_FEATURE_VERSIONS) != 0 && !mark->busy && (mark->kept || !mark->unread))
                mark_write(mark);
        else
                lp_timer_start(store->coord_loop->loop, timer, MARK_AGAIN_NS);
}

void eng_lock_start(struct eng_store *store)
{
        struct eng_lock_mark *mark = lock_mark_of(store);

        mark->timer.expired = mark_tick;
        mark_tick(&mark->timer); /* at once: what this start gains is not shown before */
}

void eng_lock_mark(struct eng_store *store, void (*done)(void *arg, int rv), void *arg)
{
        struct eng_lock_mark *mark = lock_mark_of(store);

        assert(mark->done == NULL); /* the queue's head alone asks */
        mark->done = done;
        mark->done_arg = arg;
        mark_write(mark);
}

void eng_lock_require(struct eng_store *store, void (*done)(void *arg, int rv), void *arg)
{
        if (lock_mark_of(store)->kept)
                done(arg, 0);
        else
                eng_lock_mark(store, done, arg);
}

void eng_lock_free(struct eng_store *store)
{
        struct eng_lock_mark *mark = eng_config_of(store) == NULL ? NULL : lock_mark_of(store);

        if (mark == NULL || mark->store == NULL)
                return;
        lp_timer_stop(store->coord_loop->loop, &mark->timer);
        if (!mark->busy)
                return;
        eng_txn_abandon(&mark->txn);
        eng_txn_drop(&mark->txn);
}

/* ---- asked for ------------------------------------------------------------------------------- */

/* owner: home until sent, then the coordinator until answered */
struct lock_change {
        struct eng_change change;      /* first */
        int64_t confirmed_ms;          /* 0: the mark is kept as it is */
};

static void lock_change_marked(void *arg, int rv)
{
        struct lock_change *lc = arg;
        struct eng_store *store = lc->change.store;

        lock_mark_of(store)->confirmed_ms = 0;
        if (rv == 0 && lc->confirmed_ms != 0)
                lc->change.touched.what = ENG_ROW_CLOCK; /* homes show it before it is answered */
        eng_change_finish(&lc->change, rv);
}

static void lock_change_allowed(void *arg, int rv)
{
        struct lock_change *lc = arg;
        struct eng_store *store = lc->change.store;
        int64_t wall = eng_lock_wall(store);

        if (rv == 0 && lc->confirmed_ms != 0) {
                if (wall - lc->confirmed_ms > MARK_SLACK_MS || lc->confirmed_ms - wall > MARK_SLACK_MS)
                        rv = -ESTALE;
                lc->confirmed_ms = wall;
        }
        if (rv != 0) {
                eng_change_finish(&lc->change, rv);
                return;
        }
        lock_mark_of(store)->confirmed_ms = lc->confirmed_ms;
        eng_lock_mark(store, lock_change_marked, lc);
}

static void lock_change_begin(struct eng_change *change)
{
        bool confirms = ((struct lock_change *)change)->confirmed_ms != 0;

        if ((change->store->coord->features & FMT_FEATURE_VERSIONS) == 0)
                eng_change_finish(change, confirms ? -ENODATA : 0); /* no lock was ever set */
        else
                eng_features_set(change->store, FMT_FEATURE_VERSIONS, lock_change_allowed, change);
}

static void lock_change_free(struct eng_change *change)
{
        free(change);
}

static void lock_change_send(struct eng_store *store, int64_t confirmed_ms, eng_done done, void *arg)
{
        struct lock_change *lc = calloc(1, sizeof(*lc));

        if (lc == NULL) {
                eng_early(store, (struct eng_early){.plain = done, .arg = arg, .rv = -ENOMEM});
                return;
        }
        lc->confirmed_ms = confirmed_ms;
        lc->change.begin = lock_change_begin;
        lc->change.drop = lock_change_free;
        eng_change_send(&lc->change, store, done, arg);
}

void eng_lock_confirm(struct eng_store *store, int64_t wall_ms, eng_done done, void *arg)
{
        if (eng_is_home(store))
                eng_home_lock_confirm(store, wall_ms, done, arg);
        else if (wall_ms > 0)
                lock_change_send(store, wall_ms, done, arg);
        else
                eng_early(store, (struct eng_early){.plain = done, .arg = arg, .rv = -EINVAL});
}

void eng_lock_keep(struct eng_store *store, eng_done done, void *arg)
{
        if (eng_is_home(store)) /* its leader does it by itself */
                eng_early(store, (struct eng_early){.plain = done, .arg = arg});
        else
                lock_change_send(store, 0, done, arg);
}
