/*
 * agree.c - one name on all members of its group: compared, and made equal, while nobody changes
 * it. Verification and scrub ask for it where two members seem to differ.
 *
 * The key's lock is held from the first lookup to the last copy. Of different values the one of the
 * highest number counts: all numbers are of committed records. Whether a name that only some have
 * is there, most members decide; when they are as many, it is: nothing is deleted on one member's
 * word (I6). A name is taken away from a member only if all members of the group answered.
 *
 * Of a version the key's head is a voice, too: what it says decides where members are as many. If
 * the head names a version that is not there, it is written anew under the same lock. A head is there
 * as long as its key has versions, whatever most members say: where these have lost it, and the versions
 * say otherwise than what is left of it, it is written anew by what they say (V34). A version that all
 * members have lost is asked for by name, where a lookup has met its head (V35).
 */
#include "engine/object/version.h"
#include "engine/resync/resync.h"
#include "engine/txn/txn_util.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

static void agree_ask(struct eng_agree *agree);
static void agree_prepare(struct eng_txn *txn);

/* ---- making them the same ------------------------------------------------------------------- */

static void agree_release(struct eng_agree *agree)
{
        eng_buf_unref(agree->value);
        eng_buf_unref(agree->bytes);
        eng_buf_unref(agree->next.value);
        eng_buf_unref(agree->unread);
        agree->value = agree->bytes = agree->next.value = agree->unread = NULL;
}

void eng_agree_drop(struct eng_agree *agree)
{
        eng_txn_abandon(&agree->txn);
        agree_release(agree);
}

/* ---- the head of a version that is gone ------------------------------------------------------ */

static bool is_version(const struct eng_agree *agree)
{
        return agree->name.data[0] == FMT_SPACE_VERSION;
}

static uint64_t agree_number(const struct eng_agree *agree)
{
        return eng_name_version_number(agree->name.data, agree->name.len);
}

static void agree_put_head(struct eng_agree *agree)
{
        struct eng_txn *txn = &agree->txn;
        struct eng_gone_version gone = {.number = agree_number(agree), .head = txn->old, .next = &agree->next};
        int rv = eng_takes_changes(txn->store, &txn->at->view) ? 0 : -EROFS;

        gone.versions = eng_key_rows_of(txn, 0).versions;
        if (rv == 0)
                rv = eng_version_build_delete(txn, &gone);
        if (rv == 0)
                eng_txn_append(txn);
        else
                eng_txn_finish(txn, rv);
}

static void agree_next_found(struct eng_key_scan *scan, int rv)
{
        struct eng_agree *agree = container_of(scan, struct eng_agree, next);

        if (rv == 0 || rv == -ENOENT)
                agree_put_head(agree);
        else
                eng_txn_finish(&agree->txn, rv);
}

static void agree_old_head(struct eng_txn *txn, int rv)
{
        struct eng_agree *agree = (struct eng_agree *)txn;
        struct eng_key_rows rows;

        if (rv != 0) {
                eng_txn_finish(txn, rv == -ENOENT ? 0 : rv);
                return;
        }
        rows = eng_key_rows_of(txn, 0);
        if (rows.state == ENG_KEY_VERSIONS && rows.versions.newest == agree_number(agree)) {
                agree->next.what = ENG_SCAN_NEWEST;
                agree->next.skip = agree_number(agree);
                agree->next.done = agree_next_found;
                eng_key_scan_start(&agree->next, txn);
        } else if (rows.state == ENG_KEY_VERSIONS && rows.versions.null_number == agree_number(agree)) {
                agree_put_head(agree);
        } else {
                eng_txn_finish(txn, 0);
        }
}

static void agree_ask_old_head(struct eng_agree *agree)
{
        struct eng_txn *txn = &agree->txn;

        eng_name_object(&txn->name, txn->bucket, txn->key, txn->key_len);
        eng_txn_lookup_newest(txn, 0, agree_old_head);
}

/* A version that no drive of the store has; all are here, and have said so. */
static bool agree_is_lost(const struct eng_agree *agree)
{
        const struct eng_view *view = &agree->txn.at->view;

        return is_version(agree) && agree->absent != 0 && agree->absent == eng_speakers(view, agree->txn.pg) &&
               (view->in & view->up) == view->map->all;
}

/* All members that could be told have been told. */
static void agree_written_all(struct eng_agree *agree)
{
        struct eng_txn *txn = &agree->txn;

        if (agree->keep || agree->repaired == 0 || !is_version(agree)) {
                eng_txn_finish(txn, 0);
                return;
        }
        agree_ask_old_head(agree);
}

/* ---- writing --------------------------------------------------------------------------------- */

static void agree_write(struct eng_agree *agree);

static void agree_written(struct eng_op *op)
{
        struct eng_agree *agree = container_of(op, struct eng_agree, op);

        assert(agree->txn.state == ENG_TXN_PREPARE);
        eng_buf_unref(op->append.body);
        if (op->result == -EHOSTUNREACH) /* it may come later: of an epoch that is over then */
                eng_drive_erred(agree->txn.store, agree->slot, agree->drive, op->result, "a copy of a name did not reach it");
        if (op->result != 0) {
                eng_txn_finish(&agree->txn, op->result);
                return;
        }
        agree->repaired++;
        agree_write(agree);
}

static int agree_body(const struct eng_agree *agree, uint64_t seq, struct eng_body *body)
{
        const struct eng_buf *value = agree->keep ? agree->value : NULL, *bytes = agree->keep ? agree->bytes : NULL;
        int rv = eng_body_begin(body, eng_body_need(agree->name.len, value == NULL ? 0 : value->len, bytes == NULL ? 0 : bytes->len));

        if (rv != 0)
                return rv;
        if (value != NULL)
                eng_body_put(body, &agree->name, value, seq, bytes == NULL ? NULL : bytes->data, bytes == NULL ? 0 : bytes->len);
        else
                eng_body_delete(body, &agree->name);
        body->buf->len = (uint32_t)body->len;
        return 0;
}

/* A COPY record to the next member that is to be changed. */
static void agree_write(struct eng_agree *agree)
{
        struct eng_txn *txn = &agree->txn;
        struct eng_op *op = &agree->op;
        uint64_t seq = txn->store->pgs[txn->pg].next_seq - 1;
        struct eng_body body;
        int rv;

        assert((agree->change & ~agree->asked) == 0);
        if (agree->change == 0) {
                agree_written_all(agree);
                return;
        }
        agree->slot = (unsigned)__builtin_ctzll(agree->change);
        agree->drive = txn->store->members[agree->slot].drive;
        agree->change &= ~eng_bit(agree->slot);
        rv = agree_body(agree, seq, &body);
        if (rv != 0) {
                eng_txn_finish(txn, rv);
                return;
        }
        eng_copy_append(txn, op, agree->slot, body.buf, agree->keep && agree->bytes != NULL ? agree->bytes->len : 0, seq, agree_written);
}

/* ---- comparing ------------------------------------------------------------------------------- */

/*
 * A bucket is there, with its rules, or is not, as the store has it in memory since its start: the
 * members are told that, and never otherwise.
 */
static bool agree_contradicts(const struct eng_agree *agree)
{
        const size_t at = 1 + sizeof(uint64_t);
        const struct eng_name *name = &agree->name;
        const struct eng_bucket *known;
        struct eng_bucket row;
        struct eng_str bucket;

        if (name->data[0] != FMT_SPACE_CONFIG || name->len <= at || name->data[at] != 'b')
                return false;
        bucket = (struct eng_str){(const char *)name->data + at + 1, name->len - at - 1};
        if (eng_bucket_get(agree->txn.store, bucket, &known) != 0)
                return agree->keep;
        return !agree->keep || eng_bucket_decode(name->data, name->len, agree->value->data, agree->value->len, &row) != 0 ||
               !eng_bucket_same(known, &row);
}

static void agree_decide(struct eng_agree *agree);

/*
 * What the OBJECT row of its key says of a version that is there: it is none above the newest, nor a
 * second null version, nor one of a key without a head.
 */
static void agree_head_found(struct eng_txn *txn, int rv)
{
        struct eng_agree *agree = (struct eng_agree *)txn;
        bool null = (eng_value_head(agree->value->data)->state & FMT_STATE_NULL) != 0;
        struct eng_key_rows rows;

        if (rv == 0 || rv == -ENOENT) {
                rows = eng_key_rows_of(txn, rv);
                agree->head_denies = rows.state != ENG_KEY_VERSIONS || agree_number(agree) > rows.versions.newest ||
                                     (null && rows.versions.null_number != agree_number(agree));
        }
        agree_decide(agree);
}

/* True: what the head says is asked for. */
static bool agree_asks_head(struct eng_agree *agree, eng_mask have)
{
        struct eng_txn *txn = &agree->txn;

        if (agree->head_asked || !is_version(agree) || agree->absent == 0 || eng_outvoted(have, agree->absent) ||
            eng_outvoted(agree->absent, have))
                return false;
        agree->head_asked = true;
        eng_name_object(&txn->name, txn->bucket, txn->key, txn->key_len);
        eng_txn_lookup_newest(txn, 0, agree_head_found);
        return true;
}

/* The head that is left says what the key's versions say. */
static bool agree_says_versions(const struct eng_agree *agree)
{
        struct fmt_head left;

        return eng_value_head_field(agree->value->data, agree->value->len, &left) && left.newest == agree->next.head.newest &&
               left.null_number == agree->next.head.null_number;
}

/* It is an old one, on few members: the versions say what it is to say. */
static void agree_put_scanned(struct eng_agree *agree)
{
        struct eng_txn *txn = &agree->txn;
        int rv = eng_takes_changes(txn->store, &txn->at->view) ? 0 : -EROFS;

        agree->differed = true;
        if (rv == 0)
                rv = eng_body_begin(&txn->body, eng_version_head_need(txn));
        if (rv == 0) {
                eng_name_object(&txn->name, txn->bucket, txn->key, txn->key_len);
                eng_txn_take_seq(txn);
                rv = eng_version_head(txn, agree->next.value, &agree->next.head);
        }
        if (rv != 0) {
                eng_txn_finish(txn, rv);
                return;
        }
        agree->repaired = 1;
        eng_txn_append(txn);
}

static void agree_versions_found(struct eng_key_scan *scan, int rv)
{
        struct eng_agree *agree = container_of(scan, struct eng_agree, next);

        agree->has_versions = rv == 0;
        if (rv == 0 && !agree_says_versions(agree))
                agree_put_scanned(agree);
        else if (rv == 0 || rv == -ENOENT)
                agree_decide(agree);
        else
                eng_txn_finish(&agree->txn, rv);
}

/* True: whether versions of the key are left is asked for, before its head is taken away. */
static bool agree_asks_versions(struct eng_agree *agree, eng_mask have)
{
        struct fmt_head versions;

        if (agree->versions_asked || !eng_outvoted(have, agree->absent) ||
            !eng_value_head_field(agree->value->data, agree->value->len, &versions))
                return false;
        agree->versions_asked = true;
        agree->next.what = ENG_SCAN_HEAD;
        agree->next.done = agree_versions_found;
        eng_key_scan_start(&agree->next, &agree->txn);
        return true;
}

/*
 * A newer value is known, but for its inline bytes. Where another member has these, under a value of
 * the same object, it counts. False: nobody has them.
 */
static bool agree_takes_unread(struct eng_agree *agree)
{
        const struct fmt_value *unread = agree->unread == NULL ? NULL : eng_value_head(agree->unread->data);
        const struct fmt_value *value = eng_value_head(agree->value->data);

        if (unread == NULL || unread->seq <= agree->seq ||
            eng_value_alike(agree->unread->data, agree->unread->len, agree->value->data, agree->value->len))
                return true;
        if (memcmp(unread->id, value->id, FMT_ID) != 0 || unread->inline_len != value->inline_len)
                return false;
        agree->seq = unread->seq;
        eng_buf_unref(agree->value);
        agree->value = agree->unread;
        agree->unread = NULL;
        agree->other |= agree->same;
        agree->same = 0;
        return true;
}

static void agree_decide(struct eng_agree *agree)
{
        struct eng_txn *txn = &agree->txn;
        eng_mask all = eng_speakers(&txn->at->view, txn->pg), have = agree->same | agree->other;

        assert(((have | agree->absent | agree->damaged) & ~agree->asked) == 0);
        assert((agree->same & agree->other) == 0 && (have & (agree->absent | agree->damaged)) == 0);
        if (agree_is_lost(agree)) {
                agree_ask_old_head(agree);
                return;
        }
        if (agree->value == NULL || (agree->other | agree->absent | agree->damaged) == 0) {
                eng_txn_finish(txn, 0);
                return;
        }
        if (!agree_takes_unread(agree)) {
                agree->differed = true;
                eng_txn_finish(txn, 0);
                return;
        }
        if (agree_asks_head(agree, have) || agree_asks_versions(agree, have))
                return;
        agree->differed = (agree->other | agree->absent) != 0;
        agree->keep = (!eng_outvoted(have, agree->absent) && !agree->head_denies) || agree->has_versions;
        if (agree->keep)
                agree->change = agree->other | agree->absent | agree->damaged;
        else if ((all & ~(have | agree->absent)) == 0)
                agree->change = have;
        if (!txn->at->view.writable || agree_contradicts(agree))
                agree->change = 0;
        if (agree->keep && agree->change != 0)
                eng_deferred_keep(txn->at, eng_value_head(agree->value->data)->id); /* else it is discarded when the others have lost it, too */
        agree_write(agree);
}

static void agree_take(struct eng_agree *agree, struct eng_op *op)
{
        uint64_t seq = eng_value_head(op->lookup.value->data)->seq;
        eng_mask slot = eng_bit(agree->slot);

        assert(((agree->same | agree->other) & slot) == 0);
        if (agree->value != NULL &&
            eng_value_alike(op->lookup.value->data, op->lookup.value->len, agree->value->data, agree->value->len)) {
                agree->same |= slot;
                agree->seq = seq > agree->seq ? seq : agree->seq;
        } else if (agree->value != NULL && seq <= agree->seq) {
                agree->other |= slot;
        } else {
                eng_buf_unref(agree->value);
                eng_buf_unref(agree->bytes);
                agree->value = op->lookup.value;
                agree->bytes = op->lookup.bytes;
                agree->other |= agree->same;
                agree->same = slot;
                agree->seq = seq;
                return;
        }
        eng_buf_unref(op->lookup.value);
        eng_buf_unref(op->lookup.bytes);
}

/* Found, but its bytes are damaged. */
static void agree_keep_unread(struct eng_agree *agree, struct eng_buf *value)
{
        if (value != NULL && (agree->unread == NULL || eng_value_head(value->data)->seq > eng_value_head(agree->unread->data)->seq)) {
                eng_buf_unref(agree->unread);
                agree->unread = value;
        } else {
                eng_buf_unref(value);
        }
}

static void agree_answer(struct eng_op *op)
{
        struct eng_agree *agree = container_of(op, struct eng_agree, op);

        if (op->result == 0) {
                agree_take(agree, op);
        } else {
                agree_keep_unread(agree, op->lookup.value);
                eng_buf_unref(op->lookup.bytes);
        }
        if (op->result == -ENOENT) {
                agree->absent |= eng_bit(agree->slot);
        } else if (op->result == -EBADMSG) {
                agree->damaged |= eng_bit(agree->slot);
        } else if (op->result != 0) {
                eng_txn_finish(&agree->txn, op->result);
                return;
        }
        agree_ask(agree);
}

static void agree_ask(struct eng_agree *agree)
{
        struct eng_txn *txn = &agree->txn;
        const struct eng_view *view = &txn->at->view;
        eng_mask left = eng_speakers(view, txn->pg) & view->up & ~agree->asked;
        struct eng_op *op = &agree->op;

        if (left == 0) {
                agree_decide(agree);
                return;
        }
        agree->slot = (unsigned)__builtin_ctzll(left);
        agree->asked |= eng_bit(agree->slot);
        eng_op_lookup(op, &agree->name, ENG_OP_WANT_INLINE, view->epoch, agree_answer);
        eng_drive_submit(txn->store->members[agree->slot].drive, op);
}

/* ---- life ------------------------------------------------------------------------------------ */

static void agree_prepare(struct eng_txn *txn)
{
        agree_ask((struct eng_agree *)txn);
}

static void agree_done(struct eng_txn *txn)
{
        struct eng_agree *agree = (struct eng_agree *)txn;

        assert(txn->prepare == agree_prepare);
        eng_txn_drop(txn);
        agree_release(agree);
        agree->done(agree);
}

int eng_agree_start(struct eng_store *store, struct eng_agree *agree)
{
        const struct eng_name name = agree->name;
        void (*done)(struct eng_agree *) = agree->done;
        uint8_t key[FMT_NAME_MAX];
        uint64_t bucket;
        size_t len;

        assert(done != NULL);
        if (eng_name_key(&name, &bucket, key, &len) != 0 || len > ENG_KEY_MAX)
                return -EBADMSG;
        memset(agree, 0, sizeof(*agree));
        agree->name = name;
        agree->done = done;
        eng_txn_init(&agree->txn, store, bucket, key, len);
        if (name.data[0] == FMT_SPACE_CONFIG)
                agree->txn.pg = store->pg_count;
        agree->txn.internal = true;
        agree->txn.prepare = agree_prepare;
        agree->txn.done = agree_done;
        eng_txn_submit(&agree->txn);
        return 0;
}
