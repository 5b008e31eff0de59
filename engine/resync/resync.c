/*
 * resync.c - one name of a drive that catches up: made equal to what current members have, while
 * nobody changes it.
 *
 * The key's lock is held from reading the members to the copy's being durable, so no change of this
 * name comes between; changes before and after reach the drive by themselves, because it is written
 * to as members are.
 *
 * The copy has a number above all others, so what is copied is the newest of what all members have:
 * else one member's old row would become the one that counts. What the drive has is taken from it only if the members agree that the name is not there
 * (eng_words_absent()). Where one says so and another has something that cannot be read, the name
 * stays as it is, and the drive has not caught up (I6).
 */
#include "engine/resync/resync.h"
#include "engine/txn/txn_util.h"

#include <assert.h>
#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static void resync_prepare(struct eng_txn *txn);

static void release_op(struct eng_resync *resync)
{
        eng_buf_unref(resync->op.lookup.value);
        eng_buf_unref(resync->op.lookup.bytes);
        resync->op.lookup.value = resync->op.lookup.bytes = NULL;
}

void eng_copy_append(struct eng_txn *txn, struct eng_op *op, unsigned slot, struct eng_buf *body, size_t inline_len, uint64_t seq,
                     void (*done)(struct eng_op *op))
{
        memset(op, 0, sizeof(*op));
        op->kind = ENG_OP_APPEND;
        op->flags = ENG_OP_RESERVE;
        op->epoch = txn->at->view.epoch;
        op->done = done;
        op->append.body = body;
        op->append.body_crc = era_crc32c(0, body->data, body->len);
        op->append.inline_len = (uint32_t)inline_len;
        op->append.pg = txn->pg;
        op->append.type = FMT_RECORD_COPY;
        op->append.seq = seq;
        op->append.committed = txn->store->pgs[txn->pg].committed;
        op->append.time_ms = (uint64_t)lp_wall_ms();
        op->append.record_epoch = txn->at->view.epoch;
        eng_drive_submit(txn->store->members[slot].drive, op);
}

/*
 * It cannot be reached: then it is down. Clients' changes would notice, but there may be none; and a
 * copy that comes to it later is to be of an epoch that is over.
 */
static void resync_answered(const struct eng_resync *resync, int rv)
{
        if (rv == -EHOSTUNREACH)
                eng_drive_erred(resync->txn.store, resync->slot, resync->drive, rv, "a name could not be compared with, or copied to it");
}

static void copied(struct eng_op *op)
{
        struct eng_resync *resync = container_of(op, struct eng_resync, op);

        assert(resync->txn.state == ENG_TXN_PREPARE);
        resync_answered(resync, op->result);
        eng_buf_unref(op->append.body);
        resync->copied = op->result == 0;
        eng_txn_finish(&resync->txn, op->result);
}

/*
 * It catches up, with all groups or with those that come to it; or its copy is damaged. A drive
 * from which the group has gone is given nothing of it any more.
 */
static bool may_be_written(const struct eng_resync *resync, const struct eng_view *view)
{
        eng_mask slot = eng_bit(resync->slot), writers = eng_writers(view, resync->txn.pg);

        if (resync->repair)
                return (writers & view->in & view->up & slot) != 0;
        return (view->joining & slot) != 0 || (writers & ~eng_speakers(view, resync->txn.pg) & view->up & slot) != 0;
}

static void resync_append_copy(struct eng_resync *resync)
{
        struct eng_txn *txn = &resync->txn;
        struct eng_op *op = &resync->op;
        size_t value_len = txn->old == NULL ? 0 : txn->old->len;
        size_t inline_len = txn->old_bytes == NULL ? 0 : txn->old_bytes->len;
        uint64_t seq = txn->store->pgs[txn->pg].next_seq - 1;
        struct eng_body body;
        int rv = -ECANCELED;

        assert(txn->store->pgs[txn->pg].next_seq > 0);
        if (!resync->repair || may_be_written(resync, &txn->at->view)) /* the drives may have changed since they were asked */
                rv = eng_body_begin(&body, eng_body_need(resync->name.len, value_len, inline_len));
        if (rv != 0) {
                eng_txn_finish(txn, rv);
                return;
        }
        if (txn->old != NULL)
                eng_body_put(&body, &resync->name, txn->old, seq, inline_len == 0 ? NULL : txn->old_bytes->data, inline_len);
        else
                eng_body_delete(&body, &resync->name);
        body.buf->len = (uint32_t)body.len;
        resync->drive = txn->store->members[resync->slot].drive;
        eng_copy_append(txn, op, resync->slot, body.buf, inline_len, seq, copied);
}

static void have_both(struct eng_op *op)
{
        struct eng_resync *resync = container_of(op, struct eng_resync, op);
        struct eng_txn *txn = &resync->txn;
        const struct eng_buf *theirs = op->result == 0 ? op->lookup.value : NULL;
        bool same = (theirs == NULL) == (txn->old == NULL);

        resync_answered(resync, op->result);
        if (op->result != 0 && op->result != -ENOENT && op->result != -EBADMSG) {
                eng_txn_finish(txn, op->result);
                return;
        }
        if (op->result == -EBADMSG)
                same = false; /* damaged there */
        else if (same && theirs != NULL)
                same = eng_value_alike(theirs->data, theirs->len, txn->old->data, txn->old->len);
        if (resync->repair && theirs != NULL && txn->old == NULL)
                same = true; /* nothing is damaged there: members that differ are agree.c's */
        release_op(resync);
        if (same)
                eng_txn_finish(txn, 0);
        else
                resync_append_copy(resync);
}

/* A member has the value and could not give its bytes: if the drive has both, it keeps them. */
static void have_unread(struct eng_op *op)
{
        struct eng_resync *resync = container_of(op, struct eng_resync, op);
        const struct eng_buf *ours = resync->txn.unread, *theirs = op->lookup.value;
        bool same = op->result == 0;

        assert(ours != NULL);
        resync_answered(resync, op->result);
        same = same && eng_value_alike(theirs->data, theirs->len, ours->data, ours->len);
        release_op(resync);
        eng_txn_finish(&resync->txn, same ? 0 : -EIO);
}

static void ask_drive(struct eng_resync *resync, unsigned flags, void (*answered)(struct eng_op *op))
{
        struct eng_txn *txn = &resync->txn;
        struct eng_op *op = &resync->op;

        eng_op_lookup(op, &resync->name, flags, txn->at->view.epoch, answered);
        resync->drive = txn->store->members[resync->slot].drive;
        eng_drive_submit(resync->drive, op);
}

/*
 * All members answered, and the index of each that does not say that the name is absent is
 * condemned: it can't be read at that place, which is no sign that something is there. It is built
 * anew only when the store can do without that member, maybe not before this drive has caught up.
 */
static bool only_condemned_differ(const struct eng_txn *txn)
{
        const struct eng_words *words = &txn->words;
        eng_mask all = eng_speakers(&txn->at->view, txn->pg) & txn->at->view.up;
        unsigned i;

        if ((words->absent & all) == 0 || (all & ~(words->absent | words->damaged)) != 0 ||
            txn->unread != NULL)
                return false;
        for (i = 0; i < txn->store->drive_count; i++)
                if ((words->damaged & all & eng_bit(i)) &&
                    !eng_drive_index_damaged(txn->store->members[i].local))
                        return false;
        return true;
}

static void members_have(struct eng_txn *txn, int rv)
{
        struct eng_resync *resync = (struct eng_resync *)txn;

        assert(txn->prepare == resync_prepare);
        if (resync->repair && rv == -ENOENT && !eng_words_sure(&txn->words))
                rv = -EIO; /* one word: what is damaged here may be all there is of it (I6) */
        if (!resync->repair && rv == -EHOSTDOWN && only_condemned_differ(txn))
                rv = -ENOENT;
        if (rv == 0 || rv == -ENOENT)
                ask_drive(resync, resync->repair ? ENG_OP_WANT_INLINE | ENG_OP_WANT_RECORD : 0,
                          have_both);
        else if (!resync->repair && txn->unread != NULL)
                ask_drive(resync, ENG_OP_WANT_INLINE, have_unread);
        else
                eng_txn_finish(txn, rv);
}

static void resync_prepare(struct eng_txn *txn)
{
        struct eng_resync *resync = (struct eng_resync *)txn;

        if (!may_be_written(resync, &txn->at->view)) {
                eng_txn_finish(txn, -ECANCELED);
                return;
        }
        txn->name = resync->name;
        eng_txn_lookup_all(txn, ENG_OP_WANT_INLINE, members_have);
}

static void done(struct eng_txn *txn)
{
        struct eng_resync *resync = (struct eng_resync *)txn;

        assert(txn->prepare == resync_prepare);
        eng_txn_drop(txn);
        resync->done(resync);
}

int eng_resync_start(struct eng_store *store, struct eng_resync *resync)
{
        uint8_t key[FMT_NAME_MAX];
        uint64_t bucket;
        size_t len;

        assert(resync->done != NULL && resync->slot < ENG_DRIVES_MAX);
        if (eng_name_key(&resync->name, &bucket, key, &len) != 0 || len > ENG_KEY_MAX)
                return -EBADMSG;
        memset(&resync->txn, 0, sizeof(resync->txn));
        eng_txn_init(&resync->txn, store, bucket, key, len);
        if (resync->name.data[0] == FMT_SPACE_CONFIG)
                resync->txn.pg = store->pg_count;
        resync->txn.internal = true;
        resync->txn.prepare = resync_prepare;
        resync->txn.done = done;
        resync->copied = false;
        eng_txn_submit(&resync->txn);
        return 0;
}
