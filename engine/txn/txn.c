/*
 * txn.c - one atomic change of one key: numbered by the key's primary, appended on every member,
 * then made visible.
 *
 * Everything here runs on the primary loop but eng_txn_submit() and the answer. Keeps I1 (answered
 * only after every member of the epoch has the record on stable storage) and I2 (visible only after
 * that). Changes of one key run one after the other; changes of one PG are appended in the order of
 * their numbers.
 */
#include "engine/txn/txn.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "engine/drive/rec.h"

/*
 * Bodies in flight to the drives, all loops together: well below what a drive's queue takes, so
 * that no member refuses what another has.
 */
#define APPEND_BYTES (64ull << 20)

/* That the epoch which a change waits for may bring to its group. */
#define MORE_MEMBERS 2u

static void txn_arrive(struct lp_msg *msg);
static void txn_answer(struct lp_msg *msg);

/* States that come before each. A txn may be submitted again when it has been answered. */
static const unsigned txn_before[] = {
        [ENG_TXN_POSTED] = 1u << ENG_TXN_POSTED | 1u << ENG_TXN_PARKED | 1u << ENG_TXN_ANSWER,
        [ENG_TXN_PARKED] = 1u << ENG_TXN_POSTED,
        [ENG_TXN_LOCKING] = 1u << ENG_TXN_POSTED,
        [ENG_TXN_PREPARE] = 1u << ENG_TXN_LOCKING | 1u << ENG_TXN_COMMIT, /* the latter: of the first of two records */
        [ENG_TXN_APPEND] = 1u << ENG_TXN_PREPARE,
        [ENG_TXN_COMMIT] = 1u << ENG_TXN_APPEND,
        [ENG_TXN_ANSWER] = 1u << ENG_TXN_POSTED | 1u << ENG_TXN_PREPARE | 1u << ENG_TXN_APPEND | 1u << ENG_TXN_COMMIT,
};

/* The only place where a state changes, but for what the caller sets up. */
static void txn_enter(struct eng_txn *txn, enum eng_txn_state state)
{
        assert((txn_before[state] >> txn->state & 1) != 0);
        txn->state = state;
        lp_trace_set_request(txn->request); /* others' answers bring it about, too */
        lp_trace(LP_TRACE_TXN_STATE, state, txn->seq);
}

void eng_txn_submit(struct eng_txn *txn)
{
        assert(txn->lock == NULL && txn->fan == NULL && txn->body.buf == NULL);
        txn->request = lp_trace_request();
        txn->counts = false;
        txn_enter(txn, ENG_TXN_POSTED);
        txn->home = eng_here(txn->store);
        if (!txn->home->view.ready) { /* and there may be no PGs yet */
                txn->result = -EHOSTDOWN;
                txn->msg.run = txn_answer;
                lp_post(txn->home->loop, &txn->msg);
                return;
        }
        txn->at = eng_primary(txn->store, txn->pg);
        txn->msg.run = txn_arrive;
        lp_post(txn->at->loop, &txn->msg);
}

/* It is the one change of its key that goes on, and its record is still to be built. */
static bool is_preparing(const struct eng_txn *txn)
{
        return eng_on_loop(txn->at) && txn->state == ENG_TXN_PREPARE && TAILQ_FIRST(&txn->lock->waiting) == txn;
}

/* ---- the key's lock -------------------------------------------------------------------------- */

static int lock_key(struct eng_txn *txn)
{
        struct eng_loop *el = txn->at;
        struct eng_key_lock *lock;
        uint8_t name[8 + ENG_KEY_MAX];
        unsigned len = 8u + txn->key_len;

        assert(eng_on_loop(el));
        assert(txn->key_len <= ENG_KEY_MAX);
        memcpy(name, &txn->bucket, 8);
        memcpy(name + 8, txn->key, txn->key_len);
        HASH_FIND(hh, el->leader.locks, name, len, lock);
        if (lock == NULL) {
                lock = calloc(1, sizeof(*lock) + len);
                if (lock == NULL)
                        return -ENOMEM;
                TAILQ_INIT(&lock->waiting);
                lock->name_len = (uint16_t)len;
                memcpy(lock->name, name, len);
                HASH_ADD_KEYPTR(hh, el->leader.locks, lock->name, len, lock);
        } else if (lock->count >= ENG_KEY_WAITERS) {
                return -EAGAIN;
        }
        txn->lock = lock;
        txn_enter(txn, ENG_TXN_LOCKING);
        TAILQ_INSERT_TAIL(&lock->waiting, txn, lock_link);
        lock->count++;
        return 0;
}

static void txn_prepare(struct eng_txn *txn)
{
        assert(TAILQ_FIRST(&txn->lock->waiting) == txn);
        txn_enter(txn, ENG_TXN_PREPARE);
        eng_step(txn->at, ENG_STEP_KEY, lp_now(txn->at->loop) - txn->started);
        txn->prepare(txn);
}

static void unlock_key(struct eng_txn *txn)
{
        struct eng_key_lock *lock = txn->lock;
        struct eng_txn *next;

        if (lock == NULL)
                return;
        assert(TAILQ_FIRST(&lock->waiting) == txn && lock->count > 0);
        txn->lock = NULL;
        TAILQ_REMOVE(&lock->waiting, txn, lock_link);
        lock->count--;
        next = TAILQ_FIRST(&lock->waiting);
        if (next != NULL) {
                txn_prepare(next);
                return;
        }
        assert(lock->count == 0);
        HASH_DELETE(hh, txn->at->leader.locks, lock);
        free(lock);
}

/* ---- arrival and answer ---------------------------------------------------------------------- */

/* 1: waits until its bucket is gone, or open again. */
static int park(struct eng_txn *txn, struct eng_config_bucket *bucket)
{
        if (bucket->parked_count >= ENG_PARKED_MAX)
                return -EAGAIN;
        bucket->parked_count++;
        txn_enter(txn, ENG_TXN_PARKED);
        TAILQ_INSERT_TAIL(&bucket->parked, txn, lock_link);
        return 1;
}

/*
 * A change would wait for a drive without room in its log, or fill the memory of one that cannot
 * write its index.
 */
static int txn_has_room(const struct eng_loop *el, uint32_t pg)
{
        eng_mask writers = eng_writers(&el->view, pg);
        unsigned i;

        for (i = 0; i < el->store->drive_count; i++) {
                if (!(writers & eng_bit(i)))
                        continue;
                if (eng_drive_exhausted(el->store->members[i].drive))
                        return -ENOSPC;
                if (eng_drive_stalled(el->store->members[i].drive))
                        return -EAGAIN;
        }
        return 0;
}

static int txn_admit(struct eng_txn *txn)
{
        struct eng_loop *el = txn->at;
        struct eng_config_bucket *bucket;
        int rv;

        if (!el->view.ready)
                return -EHOSTDOWN;
        if (!el->view.writable)
                return -EROFS;
        if (el->leader.txns >= ENG_TXNS_PER_LOOP)
                return -EAGAIN;
        if (txn->internal)
                return 0;
        if (!eng_takes_changes(el->store, &el->view))
                return -EROFS;
        rv = txn_has_room(el, txn->pg);
        if (rv != 0)
                return rv;
        bucket = eng_bucket_by_id(el, txn->bucket);
        if (bucket == NULL)
                return -EIDRM;
        return bucket->closing ? park(txn, bucket) : 0;
}

static void send_answer(struct eng_txn *txn)
{
        txn_enter(txn, ENG_TXN_ANSWER);
        lp_trace(LP_TRACE_TXN_END, (uint64_t)(int64_t)txn->result, txn->seq);
        txn->msg.run = txn_answer;
        lp_post(txn->home->loop, &txn->msg);
}

static void txn_arrive(struct lp_msg *msg)
{
        struct eng_txn *txn = container_of(msg, struct eng_txn, msg);
        int rv;

        assert(eng_on_loop(txn->at) && txn->state == ENG_TXN_POSTED);
        rv = txn_admit(txn);
        if (rv == 1)
                return;
        if (rv == 0)
                rv = lock_key(txn);
        if (rv != 0) {
                txn->result = rv;
                send_answer(txn);
                return;
        }
        txn->at->leader.txns++;
        txn->started = lp_now(txn->at->loop);
        if (TAILQ_FIRST(&txn->lock->waiting) == txn)
                txn_prepare(txn);
}

void eng_txn_unpark(struct eng_config_bucket *bucket)
{
        struct eng_txn_list all = TAILQ_HEAD_INITIALIZER(all);
        struct eng_txn *txn;

        TAILQ_CONCAT(&all, &bucket->parked, lock_link);
        bucket->parked_count = 0;
        while ((txn = TAILQ_FIRST(&all)) != NULL) {
                TAILQ_REMOVE(&all, txn, lock_link);
                txn_enter(txn, ENG_TXN_POSTED);
                txn->msg.run = txn_arrive; /* by message: what it begins may change the bucket's copy */
                lp_post(txn->at->loop, &txn->msg);
        }
}

void eng_txn_finish(struct eng_txn *txn, int result)
{
        assert(eng_on_loop(txn->at) && txn->at->leader.txns > 0);
        assert(txn->fan == NULL);
        eng_buf_unref(txn->body.buf);
        txn->body.buf = NULL;
        txn->then = NULL; /* of a first record that failed: a txn may be submitted again */
        txn->result = result;
        txn->counts |= result == 0;
        txn->at->leader.txns--;
        unlock_key(txn);
        send_answer(txn);
}

static void txn_answer(struct lp_msg *msg)
{
        struct eng_txn *txn = container_of(msg, struct eng_txn, msg);

        assert(eng_on_loop(txn->home));
        txn->done(txn);
}

/* ---- looking up what a change depends on ----------------------------------------------------- */

int eng_pg_reader(struct eng_loop *el, uint32_t pg, eng_mask tried)
{
        struct eng_store *store = el->store;
        eng_mask fit = eng_speakers(&el->view, pg) & el->view.up & ~tried;
        int best = -1, last = -1; /* last: eng_drive_is_last() */
        unsigned i;

        assert(eng_on_loop(el));
        for (i = 0; i < store->drive_count; i++) {
                if (!(fit & eng_bit(i)))
                        continue;
                if (eng_drive_is_last(store->members[i].drive))
                        last = (int)i;
                else if (store->members[i].drive->owner == el->loop)
                        return (int)i;
                else if (best < 0)
                        best = (int)i;
        }
        return best >= 0 ? best : last;
}

static void lookup_next(struct eng_txn *txn);

/* Of several the one of the highest number. */
static void keep_unread(struct eng_txn *txn, struct eng_buf *value)
{
        if (value != NULL && txn->unread != NULL &&
            eng_value_head(value->data)->seq <= eng_value_head(txn->unread->data)->seq) {
                eng_buf_unref(value);
                return;
        }
        if (value != NULL) {
                eng_buf_unref(txn->unread);
                txn->unread = value;
        }
}

/* Of what several members have the value of the highest number counts. */
static bool is_newest(const struct eng_txn *txn, const struct eng_buf *value)
{
        return txn->lookup_found == 0 || eng_value_head(value->data)->seq > eng_value_head(txn->old->data)->seq;
}

static void keep_found(struct eng_txn *txn, struct eng_op *op)
{
        if (!is_newest(txn, op->lookup.value)) {
                eng_buf_unref(op->lookup.value);
                eng_buf_unref(op->lookup.bytes);
        } else {
                eng_buf_unref(txn->old);
                eng_buf_unref(txn->old_bytes);
                txn->old = op->lookup.value;
                txn->old_bytes = op->lookup.bytes;
        }
        txn->lookup_found++;
}

static void txn_looked_up(struct eng_txn *txn, int rv)
{
        if ((rv == 0 || rv == -ENOENT) && !eng_is_current(txn->store))
                rv = -EHOSTDOWN;
        txn->looked_up(txn, rv);
}

static void lookup_ask(struct eng_txn *txn, unsigned flags);

static void lookup_done(struct eng_op *op)
{
        struct eng_txn *txn = container_of(op, struct eng_txn, lookup);

        assert(is_preparing(txn));
        eng_step_ends(txn->at, ENG_STEP_LOOKUP, op->submitted);
        if (op->result == 0 && op->flags != txn->lookup_flags && is_newest(txn, op->lookup.value)) {
                eng_buf_unref(op->lookup.value);
                lookup_ask(txn, txn->lookup_flags); /* with its bytes */
                return;
        }
        if (op->result == 0) {
                keep_found(txn, op);
        } else {
                keep_unread(txn, op->lookup.value); /* found, but its bytes are damaged */
                eng_buf_unref(op->lookup.bytes);
        }
        eng_words_take(&txn->words, &txn->at->view, txn->pg, op->result);
        if (op->result == 0 && txn->lookup_found == txn->lookup_wanted)
                txn_looked_up(txn, 0);
        else
                lookup_next(txn);
}

/* The member that was chosen last. */
static void lookup_ask(struct eng_txn *txn, unsigned flags)
{
        struct eng_op *op = &txn->lookup;

        eng_op_lookup(op, &txn->name, flags, txn->at->view.epoch, lookup_done);
        eng_drive_submit(txn->store->members[txn->words.slot].drive, op);
}

/* What one member has is outvoted. */
static void forget_found(struct eng_txn *txn)
{
        eng_buf_unref(txn->old);
        eng_buf_unref(txn->old_bytes);
        txn->old = txn->old_bytes = NULL;
}

/* Nobody is left to be asked, and the name is not absent. */
static int lookup_result(struct eng_txn *txn)
{
        if (txn->lookup_found == 0)
                return eng_words_unsure(txn->at, txn->pg, &txn->words);
        if (!eng_words_heard(&txn->words, &txn->at->view, txn->pg, txn->lookup_wanted))
                return -EHOSTDOWN;
        if (txn->lookup_wanted == 1 || txn->unread == NULL || !is_newest(txn, txn->unread) ||
            eng_value_alike(txn->unread->data, txn->unread->len, txn->old->data, txn->old->len))
                return 0;
        eng_upkeep_group(txn->store, txn->pg);
        return -EHOSTDOWN;
}

static void lookup_next(struct eng_txn *txn)
{
        struct eng_words *words = &txn->words;
        int slot;

        if (eng_words_absent(words, &txn->at->view, txn->pg)) {
                if (txn->lookup_found > 0)
                        forget_found(txn);
                txn_looked_up(txn, -ENOENT);
                return;
        }
        slot = eng_pg_reader(txn->at, txn->pg, words->asked);
        if (slot < 0) {
                txn_looked_up(txn, lookup_result(txn));
                return;
        }
        assert((words->asked & eng_bit((unsigned)slot)) == 0);
        words->slot = (unsigned)slot;
        words->asked |= eng_bit(words->slot);
        lookup_ask(txn, txn->lookup_found == 0 ? txn->lookup_flags : txn->lookup_flags & ~(unsigned)ENG_OP_WANT_INLINE);
}

static void lookup_begin(struct eng_txn *txn, unsigned flags, unsigned wanted, void (*looked_up)(struct eng_txn *txn, int rv))
{
        assert(is_preparing(txn));
        txn->looked_up = looked_up;
        txn->lookup_wanted = wanted;
        txn->lookup_found = 0;
        eng_words_begin(&txn->words, &txn->at->view, txn->pg);
        eng_buf_unref(txn->unread);
        txn->unread = NULL;
        txn->lookup_flags = flags;
        lookup_next(txn);
}

void eng_txn_lookup(struct eng_txn *txn, unsigned flags, void (*looked_up)(struct eng_txn *txn, int rv))
{
        lookup_begin(txn, flags, 1, looked_up);
}

void eng_txn_lookup_newest(struct eng_txn *txn, unsigned flags, void (*looked_up)(struct eng_txn *txn, int rv))
{
        lookup_begin(txn, flags, 2, looked_up);
}

bool eng_txn_may_be_newer(const struct eng_txn *txn)
{
        return txn->words.damaged != 0 && txn->unread == NULL && txn->lookup_found < 2;
}

void eng_txn_lookup_all(struct eng_txn *txn, unsigned flags, void (*looked_up)(struct eng_txn *txn, int rv))
{
        lookup_begin(txn, flags, ENG_DRIVES_MAX, looked_up);
}

static int check_etag(const struct eng_condition *c, const struct fmt_value *v)
{
        return v->etag_parts == c->etag_parts && memcmp(v->etag, c->etag, 16) == 0 ? 0 : -ESTALE;
}

int eng_condition_check(const struct eng_condition *c, const struct eng_buf *present)
{
        const struct fmt_value *v = present == NULL ? NULL : eng_value_head(present->data);

        if (c->if_absent)
                return v == NULL ? 0 : -EEXIST;
        if (!c->if_etag && !c->if_present && !c->if_mtime && !c->if_size)
                return 0;
        if (v == NULL)
                return -ENOENT;
        if (c->if_etag && check_etag(c, v) != 0)
                return -ESTALE;
        if (c->if_mtime && v->mtime_ms / 1000 != c->mtime_s)
                return -ESTALE;
        if (c->if_size && v->size != c->size)
                return -ESTALE;
        return 0;
}

/* ---- appending ------------------------------------------------------------------------------- */

static void progress(struct eng_loop *el, struct eng_pg *pg);

uint64_t eng_txn_take_seq(struct eng_txn *txn)
{
        assert(is_preparing(txn));
        txn->seq = txn->store->pgs[txn->pg].next_seq++;
        return txn->seq;
}

/*
 * Whether no append or commit to a drive that is up is in flight: what an epoch change waits for.
 * One that has failed since the view was spread is not waited for: the view that says so comes only
 * after this change.
 */
static bool txn_quiet(const struct eng_loop *el)
{
        const struct eng_store *store = el->store;
        const struct eng_txn *txn;
        eng_mask up = el->view.up;
        unsigned i;

        for (i = 0; i < store->drive_count; i++)
                if (eng_member_failed(&store->members[i]))
                        up &= ~eng_bit(i);
        TAILQ_FOREACH(txn, &el->leader.appended, loop_link)
                if (!txn->held && (txn->waiting & up) != 0)
                        return false;
        return true;
}

static void tell_quiet(struct eng_loop *el)
{
        struct lp_msg *msg = el->leader.quiet;

        if (msg == NULL || !txn_quiet(el))
                return;
        assert(el->view.paused);
        el->leader.quiet = NULL;
        lp_post(el->store->coord_loop->loop, msg);
}

static void fan_release(struct eng_fan *fan)
{
        assert(fan->out > 0);
        if (--fan->out > 0)
                return;
        assert(fan->txn == NULL && fan->at->leader.append_bytes >= fan->body->len);
        fan->at->leader.append_bytes -= fan->body->len;
        eng_buf_unref(fan->body);
        free(fan);
}

static void appended(struct eng_op *op)
{
        struct eng_fan_op *fo = container_of(op, struct eng_fan_op, op);
        struct eng_fan *fan = fo->fan;
        struct eng_loop *el = fan->at;
        struct eng_txn *txn = fan->txn;

        assert(eng_on_loop(el));
        assert(txn == NULL || txn->fan == fan);
        if (op->result != 0) {
                eng_drive_erred(el->store, fo->slot, fo->drive, op->result, "a record could not be appended");
        } else if (txn != NULL && txn->state == ENG_TXN_APPEND && (el->view.up & eng_bit(fo->slot)) &&
                   el->store->members[fo->slot].drive == fo->drive && !eng_member_failed(&el->store->members[fo->slot])) {
                /*
                 * a drive that is out, or is about to be, may still answer; to commit on its word would send the old
                 * epoch to drives that have the new one
                 */
                txn->waiting &= ~eng_bit(fo->slot);
                progress(el, &el->store->pgs[txn->pg]);
                tell_quiet(el);
        }
        fan_release(fan);
}

static void submit_appends(struct eng_txn *txn)
{
        struct eng_store *store = txn->store;
        struct eng_fan *fan = txn->fan;
        int reader = eng_pg_reader(txn->at, txn->pg, 0);
        unsigned i, n = 0;

        assert(txn->held && fan->out == 0 && txn->state == ENG_TXN_APPEND);
        assert(txn->at->view.writable && !txn->at->view.paused);
        txn->held = false;
        txn->sent = eng_writers(&txn->at->view, txn->pg);
        txn->waiting = txn->sent;
        assert((unsigned)__builtin_popcountll(txn->waiting) <= fan->members);
        fan->members = (unsigned)__builtin_popcountll(txn->waiting);
        fan->out = 1; /* the txn's own hold, until it leaves */
        for (i = 0; i < store->drive_count; i++) {
                struct eng_fan_op *fo = &fan->ops[n];

                if (!(txn->waiting & eng_bit(i)))
                        continue;
                n++;
                fo->fan = fan;
                fo->slot = i;
                fo->op.kind = ENG_OP_APPEND;
                fo->op.flags = ENG_OP_RESERVE | ((int)i == reader ? ENG_OP_CACHE : 0);
                fo->op.epoch = txn->at->view.epoch;
                fo->op.done = appended;
                fo->op.append.body = fan->body;
                fo->op.append.body_crc = txn->body_crc;
                fo->op.append.inline_len = txn->inline_len;
                fo->op.append.pg = txn->pg;
                fo->op.append.type = FMT_RECORD_PG;
                fo->op.append.seq = txn->seq;
                fo->op.append.committed = store->pgs[txn->pg].committed;
                fo->op.append.time_ms = (uint64_t)lp_wall_ms();
                fo->op.append.record_epoch = txn->at->view.epoch;
                fan->out++;
                fo->drive = store->members[i].drive;
                eng_drive_submit(fo->drive, &fo->op);
        }
}

void eng_txn_append(struct eng_txn *txn)
{
        struct eng_loop *el = txn->at;
        struct eng_pg *pg = &txn->store->pgs[txn->pg];
        const struct eng_group *group = &el->view.map->groups[txn->pg];
        unsigned members = (unsigned)__builtin_popcountll(group->before | group->after) + MORE_MEMBERS;
        unsigned live = (unsigned)__builtin_popcountll(eng_speakers(&el->view, txn->pg));
        struct eng_fan *fan;

        assert(is_preparing(txn));
        assert(txn->seq + 1 == pg->next_seq);
        if (live == 0 && el->view.lost != 0) {
                eng_txn_finish(txn, -EHOSTDOWN);
                return;
        }
        if (!el->view.writable || live < (txn->store->m == 0 || txn->moves ? 1u : 2u)) {
                eng_txn_finish(txn, -EROFS);
                return;
        }
        if (eng_rec_check_body(txn->body.buf->data, txn->body.len, txn->inline_len) != 0) { /* all members would refuse it */
                eng_txn_finish(txn, -EPROTO);
                return;
        }
        if (el->leader.append_bytes > APPEND_BYTES / el->store->loop_count) {
                eng_txn_finish(txn, -EAGAIN);
                return;
        }
        fan = calloc(1, sizeof(*fan) + 2 * members * sizeof(fan->ops[0]));
        if (fan == NULL) {
                eng_txn_finish(txn, -ENOMEM);
                return;
        }
        el->leader.append_bytes += txn->body.len;
        txn->body.buf->len = (uint32_t)txn->body.len;
        txn->body_crc = era_crc32c(0, txn->body.buf->data, txn->body.len);
        fan->at = el;
        fan->txn = txn;
        fan->members = members;
        fan->body = txn->body.buf;
        txn->body.buf = NULL;
        txn->fan = fan;
        txn_enter(txn, ENG_TXN_APPEND);
        txn->append_began = lp_clock();
        txn->appended = true;
        assert(TAILQ_EMPTY(&pg->inflight) || TAILQ_LAST(&pg->inflight, eng_txn_list)->seq < txn->seq);
        TAILQ_INSERT_TAIL(&pg->inflight, txn, pg_link);
        txn->append_number = ++el->leader.append_count;
        TAILQ_INSERT_TAIL(&el->leader.appended, txn, loop_link);
        txn->held = true;
        if (!el->view.paused)
                submit_appends(txn);
}

/* ---- committing ------------------------------------------------------------------------------ */

/* The first of two records counts: the second is prepared, with the key still locked. */
static void txn_go_on(struct eng_txn *txn)
{
        void (*then)(struct eng_txn *) = txn->then;

        txn->then = NULL;
        txn->counts = false;
        txn->appended = false; /* what the second record will name is not in a log yet */
        txn->inline_len = 0;
        txn_enter(txn, ENG_TXN_PREPARE);
        then(txn);
}

/*
 * In a cluster's pool nothing is acknowledged that one drive could lose: where only one member has
 * the record in the end, it counts, and the client is told that the outcome is unknown.
 */
static bool is_alone(const struct eng_txn *txn)
{
        const struct eng_view *view = &txn->at->view;
        eng_mask holders = txn->holders & eng_speakers(view, txn->pg) & view->up;

        return view->map->by_groups && txn->store->m > 0 && !txn->moves && __builtin_popcountll(holders) < 2;
}

/* The txn is settled, or given up: nothing of it waits here any more. */
static void txn_leave(struct eng_txn *txn, int result)
{
        struct eng_fan *fan = txn->fan;

        txn->counts = result == 0;
        if (result == 0 && is_alone(txn))
                result = -EROFS;
        assert(fan->txn == txn);
        eng_step_ends(txn->at, ENG_STEP_RECORD, txn->append_began);
        TAILQ_REMOVE(&txn->at->leader.appended, txn, loop_link);
        txn->fan = NULL;
        fan->txn = NULL;
        if (fan->out == 0)
                fan->out = 1; /* was never submitted */
        fan_release(fan);
        if (result == 0 && txn->then != NULL)
                txn_go_on(txn);
        else
                eng_txn_finish(txn, result);
}

void eng_txn_abandon(struct eng_txn *txn)
{
        if (txn->fan == NULL)
                return;
        TAILQ_REMOVE(&txn->at->leader.appended, txn, loop_link);
        eng_buf_unref(txn->fan->body);
        free(txn->fan);
        txn->fan = NULL;
}

static void txn_committed(struct eng_op *op)
{
        struct eng_fan_op *fo = container_of(op, struct eng_fan_op, op);
        struct eng_fan *fan = fo->fan;
        struct eng_txn *txn = fan->txn;

        assert(txn == NULL || (txn->fan == fan && txn->state == ENG_TXN_COMMIT));
        if (op->result != 0)
                eng_drive_erred(fan->at->store, fo->slot, fo->drive, op->result, "a record could not be committed");
        if (txn != NULL && fan->at->store->members[fo->slot].drive == fo->drive) {
                txn->waiting &= ~eng_bit(fo->slot);
                if (txn->waiting == 0)
                        txn_leave(txn, 0);
                tell_quiet(fan->at);
        }
        fan_release(fan);
}

static void commit(struct eng_txn *txn)
{
        struct eng_loop *el = txn->at;
        struct eng_store *store = txn->store;
        struct eng_pg *pg = &store->pgs[txn->pg];
        struct eng_fan *fan = txn->fan;
        eng_mask members = txn->sent & (el->view.in | el->view.joining) & el->view.up;
        unsigned i, n = 0;

        assert(TAILQ_FIRST(&pg->inflight) == txn && !txn->held && txn->waiting == 0);
        pg->committed = txn->seq;
        TAILQ_REMOVE(&pg->inflight, txn, pg_link);
        txn_enter(txn, ENG_TXN_COMMIT);
        txn->waiting = txn->holders = members;
        for (i = 0; i < store->drive_count; i++) {
                struct eng_fan_op *fo = &fan->ops[fan->members + n];

                if (!(members & eng_bit(i)))
                        continue;
                n++;
                fo->fan = fan;
                fo->slot = i;
                fo->op.kind = ENG_OP_COMMIT;
                fo->op.flags = ENG_OP_RESERVE;
                fo->op.epoch = el->view.epoch;
                fo->op.done = txn_committed;
                fo->op.commit.pg = txn->pg;
                fo->op.commit.seq = txn->seq;
                fan->out++;
                fo->drive = store->members[i].drive;
                eng_drive_submit(fo->drive, &fo->op);
        }
        if (n == 0) {
                atomic_store(store->options.cluster != NULL ? &store->unsettled_lost : &store->unsettled, true);
                txn_leave(txn, store->options.cluster != NULL ? -EROFS : -EIO); /* it counts if a truth has it that comes back */
        }
}

/* Commits what has become stable, in the order of the PG. */
static void progress(struct eng_loop *el, struct eng_pg *pg)
{
        struct eng_txn *txn;

        while ((txn = TAILQ_FIRST(&pg->inflight)) != NULL && !txn->held && txn->waiting == 0)
                commit(txn);
}

static void txn_give_up(struct eng_txn *txn)
{
        if (txn->state == ENG_TXN_APPEND)
                TAILQ_REMOVE(&txn->store->pgs[txn->pg].inflight, txn, pg_link);
        if (!txn->held)
                atomic_store(&txn->store->unsettled, true);
        txn_leave(txn, -EROFS);
}

void eng_txn_view_changed(struct eng_loop *el)
{
        struct eng_txn *txn, *next;
        eng_mask gone = ~((el->view.in | el->view.joining) & el->view.up);

        assert(eng_on_loop(el));
        for (txn = TAILQ_FIRST(&el->leader.appended); txn != NULL; txn = next) {
                next = TAILQ_NEXT(txn, loop_link);
                assert(txn->state == ENG_TXN_APPEND || (txn->state == ENG_TXN_COMMIT && !txn->held));
                if (txn->state == ENG_TXN_COMMIT) {
                        txn->waiting &= ~gone;
                        if (txn->waiting == 0)
                                txn_leave(txn, 0);
                } else if (!el->view.writable) {
                        txn_give_up(txn);
                } else if (!el->view.paused && txn->held) {
                        submit_appends(txn);
                } else if (!el->view.paused) {
                        txn->waiting &= ~gone;
                }
        }
        if (!el->view.paused) {
                /* restarts from the head after every step: a commit may end several */
                for (txn = TAILQ_FIRST(&el->leader.appended); txn != NULL; txn = next) {
                        next = TAILQ_NEXT(txn, loop_link);
                        if (txn->state == ENG_TXN_APPEND && !txn->held && txn->waiting == 0 &&
                            TAILQ_FIRST(&el->store->pgs[txn->pg].inflight) == txn)
                                commit(txn);
                }
        }
        tell_quiet(el);
}
