/*
 * append.c - records into the log (APPEND), out of it into the tail (COMMIT), and what recovery
 * asks of them (TAIL, RECORD).
 *
 * A durable record of a placement group is pending: kept, but invisible, until its primary says by
 * COMMIT that it is stable on all members (I2). Then its mutations are applied to the active
 * generation in order of seq. EPOCH records count from the moment they are durable. What is queued
 * and pending is bounded; at the bound APPEND is refused, not made to wait, because a pending
 * record may wait for another drive that waits for this one.
 *
 * owner: the loop (replay: the opening thread).
 */
#include "engine/drive/local.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "ec.h"

/* ---- applying -------------------------------------------------------------------------------- */

/*
 * A record whose seq is not above all applied before it (a copy, or replayed again) must not hide
 * what is newer, further down. 1: there is something newer; 0: nothing; an error: nobody can tell,
 * and neither must be supposed.
 */
static int newer_below(struct eng_local *l, const struct eng_mut *mut, uint64_t seq)
{
        const struct eng_memtable_name *entry;
        struct eng_index_entry found;
        struct fmt_value value;
        int rv;

        /*
         * The record counts now, and cannot wait for a page; whoever copied it has looked at the
         * name just before.
         */
        if (l->frozen != NULL) {
                entry = eng_memtable_find(l->frozen, mut->name, mut->name_len);
                if (entry != NULL)
                        return entry->seq > seq;
        }
        l->pages.open = true;
        rv = eng_index_read_begin(l->reader);
        if (rv == 0) {
                rv = eng_index_get(l->reader, mut->name, mut->name_len, &found);
                if (rv == 0) {
                        memcpy(&value, found.value, sizeof(value));
                        rv = value.seq > seq;
                }
                eng_index_read_end(l->reader);
        }
        l->pages.open = false;
        if (rv == -ENOENT)
                return 0;
        if (rv < 0)
                eng_local_index_error(l, rv);
        return rv == -EBADMSG ? -EIO : rv; /* it is not the record that is damaged */
}

/* Without copying: the record's body is the same for all drives. */
static void cache_inline(struct eng_local *l, const struct fmt_value *value, const struct eng_append *append, const struct eng_mut *mut)
{
        size_t offset = (size_t)(mut->inline_bytes - append->body->data);
        struct eng_buf *bytes;

        assert(offset + mut->inline_len == append->body->len); /* they end the body */
        bytes = eng_buf_slice(append->body, offset, mut->inline_len);
        if (bytes == NULL)
                return;
        eng_cache_put(l->cache, value->id, bytes);
        atomic_store_explicit(&l->statistics.cache_bytes, eng_cache_bytes(l->cache), memory_order_relaxed);
        eng_buf_unref(bytes);
}

static int apply_put(struct eng_local *l, const struct eng_append *append, const struct eng_mut *mut)
{
        struct eng_buf *value = eng_buf_new(mut->value_len);
        struct fmt_value *head;

        assert(mut->value_len >= sizeof(*head)); /* the record was checked: as below */
        if (value == NULL)
                return -ENOMEM;
        memcpy(value->data, mut->value, mut->value_len);
        head = (struct fmt_value *)value->data;
        head->crc = 0;
        head->seq = append->rec.seq;
        head->log_file = append->rec.file;
        head->log_position = append->rec.position;
        if (mut->inline_len > 0 && append->body != NULL && append->cached)
                cache_inline(l, head, append, mut);
        return eng_memtable_put(l->active, mut->name, mut->name_len, value, append->rec.seq);
}

static int apply_end_upload(struct eng_local *l, const struct eng_append *append, const struct eng_mut *mut)
{
        struct eng_buf *ids = eng_buf_new(mut->value_len);

        assert(mut->value_len % FMT_ID == 0);
        if (ids == NULL)
                return -ENOMEM;
        memcpy(ids->data, mut->value, mut->value_len);
        return eng_memtable_end_upload(l->active, mut->name, mut->name_len, ids, append->rec.seq);
}

static void count_tombstone(struct eng_local *l, const struct eng_append *append)
{
        struct eng_log_file *file = eng_log_files_find(&l->files, append->rec.file);

        if (file == NULL)
                return;
        file->tombstones++;
        eng_log_file_touch(&l->files, file);
}

static int apply_mutation(struct eng_local *l, const struct eng_append *append, const struct eng_mut *mut, bool late)
{
        int rv = 0;

        if (mut->kind != FMT_MUT_PUT)
                count_tombstone(l, append);
        if (late && mut->kind != FMT_MUT_END_UPLOAD)
                rv = newer_below(l, mut, append->rec.seq);
        if (rv != 0)
                return rv < 0 ? rv : 0;
        switch (mut->kind) {
        case FMT_MUT_PUT:
                return apply_put(l, append, mut);
        case FMT_MUT_DELETE:
                return eng_memtable_delete(l->active, mut->name, mut->name_len, append->rec.seq);
        case FMT_MUT_END_UPLOAD:
                return apply_end_upload(l, append, mut);
        }
        return -EBADMSG;
}

static int apply(struct eng_local *l, const struct eng_append *append, bool late)
{
        const struct eng_buf *body = append->body != NULL ? append->body : append->head;
        struct eng_mut mut;
        size_t pos = 0;
        int rv;

        assert(body->len + (append->body == NULL ? append->rec.inline_len : 0) == append->rec.body_len);
        while ((rv = eng_rec_next(body->data, append->rec.body_len, append->rec.inline_len, &pos, &mut)) == 1) {
                rv = apply_mutation(l, append, &mut, late);
                if (rv != 0)
                        return rv;
        }
        return rv;
}

int eng_apply_up_to(struct eng_local *l, struct eng_log_pg *pg, uint64_t seq)
{
        struct eng_append *append;
        uint64_t applied;
        int rv = 0;

        for (;;) {
                applied = pg->applied > pg->copied ? pg->applied : pg->copied;
                append = eng_pgs_take(&l->pgs, pg, seq);
                if (append == NULL)
                        break;
                assert(append->rec.type == FMT_RECORD_PG && append->rec.pg == pg->pg);
                rv = apply(l, append, append->rec.seq <= applied);
                eng_append_free(append);
                if (rv != 0)
                        break;
        }
        atomic_store_explicit(&l->statistics.memtable_bytes, l->active->bytes + (l->frozen != NULL ? l->frozen->bytes : 0),
                              memory_order_relaxed);
        return rv;
}

int eng_apply_copy(struct eng_local *l, const struct eng_append *append)
{
        struct eng_log_pg *pg = eng_pgs_find(&l->pgs, append->rec.pg); /* none: nothing of it is pending */
        int rv = 0;

        assert(append->rec.type == FMT_RECORD_COPY && !l->active->copying);
        if (pg != NULL && append->rec.committed > 0) { /* a replay may not have known it yet */
                eng_pgs_set_committed(pg, append->rec.committed);
                rv = eng_apply_up_to(l, pg, append->rec.committed);
        }
        if (pg != NULL && append->rec.seq > pg->copied)
                pg->copied = append->rec.seq;
        l->active->copying = true;
        rv = rv != 0 ? rv : apply(l, append, true);
        l->active->copying = false;
        return rv;
}

int eng_apply_void(struct eng_local *l, const struct eng_append *append)
{
        const struct eng_buf *body = append->body != NULL ? append->body : append->head;
        struct eng_log_pg *pg = NULL;
        struct fmt_void one;
        size_t at;
        int rv = 0;

        assert(append->rec.type == FMT_RECORD_VOID);
        count_tombstone(l, append); /* it must not go before the records that it speaks of */
        for (at = 0; body != NULL && at + sizeof(one) <= body->len; at += sizeof(one)) {
                memcpy(&one, body->data + at, sizeof(one));
                eng_pgs_void(&l->pgs, &one);
        }
        while (rv == 0 && (pg = eng_pgs_next(&l->pgs, pg)) !=
                                  NULL) /* the log does not say of each that it was applied: this does */
                rv = eng_apply_up_to(l, pg, UINT64_MAX);
        return rv;
}

static void log_end(const struct eng_local *l, struct fmt_index_covered *out)
{
        memset(out, 0, sizeof(*out));
        out->file = l->log.end.file;
        out->generation = l->log.end.generation;
        out->position = l->log.end.position;
        out->prev_crc = l->log.end.prev_crc;
}

void eng_append_covered(const struct eng_local *l, struct fmt_index_covered *out)
{
        const struct eng_append *oldest = TAILQ_FIRST(&l->pgs.order);

        memset(out, 0, sizeof(*out));
        if (oldest != NULL) {
                assert(oldest->rec.file < l->log.end.file ||
                       (oldest->rec.file == l->log.end.file && oldest->rec.position < l->log.end.position));
                out->file = oldest->rec.file;
                out->generation = oldest->rec.generation;
                out->position = oldest->rec.position;
                out->prev_crc = oldest->rec.prev_crc;
                return;
        }
        log_end(l, out);
}

/* While a replay has not come to where the index reached, that must not be forgotten. */
void eng_append_reach(const struct eng_local *l, struct fmt_index_covered *out)
{
        if (l->reach.file != 0)
                *out = l->reach;
        else
                log_end(l, out);
}

/* ---- APPEND ---------------------------------------------------------------------------------- */

static void append_answer(struct eng_append *append, int rv)
{
        struct eng_op *op = append->op;

        append->op = NULL;
        if (op != NULL)
                eng_local_answer(op, rv);
}

static void durable_pg(void *arg, struct eng_append *append)
{
        struct eng_local *l = arg;
        struct eng_log_pg *pg = eng_pgs_get(&l->pgs, append->rec.pg);

        assert(append->rec.type == FMT_RECORD_PG);
        eng_count(&l->statistics.appends, 1);
        if (pg == NULL) {
                append_answer(append, -EIO);
                eng_local_fail(l, -ENOMEM, "keeping a record");
                eng_append_free(append);
                return;
        }
        eng_pgs_set_committed(pg, append->rec.committed);
        append_answer(append, 0);
        if (!eng_pgs_add(&l->pgs, pg, append))
                eng_append_free(append); /* the same record once more: the first one counts */
}

static void durable_copy(void *arg, struct eng_append *append)
{
        struct eng_local *l = arg;
        int rv = 0;

        if (append->rec.type == FMT_RECORD_COPY)
                rv = eng_apply_copy(l, append);
        else
                rv = eng_apply_void(l, append);
        if (rv != 0)
                eng_local_fail(l, rv, "applying a record");
        append_answer(append, rv != 0 ? -EIO : 0);
        eng_append_free(append);
}

void eng_append_epoch_durable(void *arg, struct eng_append *append)
{
        struct eng_local *l = arg;
        int rv;

        assert(append->rec.type == FMT_RECORD_EPOCH);
        rv = eng_epochs_add(l, append->body, append->rec.file);
        append_answer(append, rv);
        eng_append_free(append);
}

static int append_admit(struct eng_local *l, const struct eng_op *op)
{
        uint64_t bound = ENG_APPEND_QUEUE_BYTES * ((op->flags & ENG_OP_RESERVE) != 0 ? 2 : 1);
        uint64_t len = op->append.body != NULL ? op->append.body->len : 0;
        int rv = eng_append_check(op);

        if (rv != 0)
                return rv;
        if (op->epoch < eng_epochs_fence(l))
                return -ESTALE;
        if (eng_local_full(l, op->flags))
                return -ENOSPC;
        if (l->log.queue_bytes + l->pgs.pending_bytes + len > bound)
                return -EAGAIN;
        return 0;
}

static void (*durable_of(uint16_t type))(void *arg, struct eng_append *append)
{
        switch (type) {
        case FMT_RECORD_EPOCH:
                return eng_append_epoch_durable;
        case FMT_RECORD_COPY:
        case FMT_RECORD_VOID:
                return durable_copy;
        default:
                return durable_pg;
        }
}

/* The drive itself knows best what it has not applied. */
static bool name_void(struct eng_local *l, struct eng_append *append)
{
        append->body = eng_pgs_void_body(&l->pgs);
        if (append->body == NULL)
                return false;
        append->rec.body_len = append->body->len;
        append->rec.body_crc = era_crc32c(0, append->body->data, append->body->len);
        return true;
}

void eng_append_op(struct eng_local *l, struct eng_op *op)
{
        struct eng_append *append;
        int rv = append_admit(l, op);

        if (rv != 0 || eng_append_have(&l->pgs, op)) {
                eng_local_answer(op, rv);
                return;
        }
        append = eng_append_new(op->append.type, op->append.body);
        if (append != NULL && op->append.type == FMT_RECORD_VOID && !name_void(l, append)) {
                eng_append_free(append);
                append = NULL;
        }
        if (append == NULL) {
                eng_local_answer(op, -EAGAIN);
                return;
        }
        if (op->append.type == FMT_RECORD_VOID)
                atomic_store(&l->epochs.fence, op->epoch); /* not below it: it was admitted */
        eng_append_describe(append, op);
        append->cached = (op->flags & ENG_OP_CACHE) != 0;
        append->op = op;
        append->durable = durable_of(op->append.type);
        eng_log_append(l, append);
        eng_log_kick(l);
}

int eng_append_own(struct eng_local *l, enum fmt_record_type type, struct eng_buf *body, uint64_t epoch,
                   void (*durable)(void *arg, struct eng_append *append))
{
        struct eng_append *append = eng_append_new(type, body);

        if (append == NULL)
                return -ENOMEM;
        append->rec.body_crc = era_crc32c(0, body->data, body->len);
        append->rec.time_ms = (uint64_t)lp_wall_ms();
        append->rec.epoch = epoch;
        append->rec.flags = type == FMT_RECORD_ENDS ? FMT_RECORD_OPTIONAL : 0;
        append->durable = durable;
        eng_log_append(l, append);
        eng_log_kick(l);
        return 0;
}

/* ---- COMMIT, TAIL, RECORD -------------------------------------------------------------------- */

void eng_commit_op(struct eng_local *l, struct eng_op *op)
{
        struct eng_log_pg *pg;
        int rv;

        if (op->epoch < eng_epochs_fence(l)) {
                eng_local_answer(op, -ESTALE);
                return;
        }
        pg = eng_pgs_get(&l->pgs, op->commit.pg);
        if (pg == NULL) {
                eng_local_answer(op, -EAGAIN);
                return;
        }
        eng_pgs_set_committed(pg, op->commit.seq);
        rv = eng_apply_up_to(l, pg, op->commit.seq);
        if (rv != 0)
                eng_local_fail(l, rv, "applying records of group %u", op->commit.pg);
        eng_local_answer(op, rv != 0 ? -EIO : 0);
        if (rv == 0 && eng_batch_due(l))
                eng_batch_start(l);
}

void eng_tail_op(struct eng_local *l, struct eng_op *op)
{
        op->tail.entries = eng_pgs_tail(&l->pgs, &op->tail.count);
        eng_local_answer(op, op->tail.entries == NULL ? -EAGAIN : 0);
}

void eng_record_op(struct eng_local *l, struct eng_op *op)
{
        const struct eng_log_pg *pg = eng_pgs_find(&l->pgs, op->append.pg);
        const struct eng_append *found = pg != NULL ? eng_pgs_find_pending(pg, op->append.seq) : NULL;

        op->append.body = NULL;
        if (found == NULL) {
                eng_local_answer(op, -ENOENT);
                return;
        }
        op->append.body_crc = found->rec.body_crc;
        op->append.inline_len = found->rec.inline_len;
        op->append.type = found->rec.type;
        op->append.committed = found->rec.committed;
        op->append.time_ms = found->rec.time_ms;
        op->append.record_epoch = found->rec.epoch;
        if (found->body == NULL) {
                eng_rec_read(l, op, found->rec.file, found->rec.position, sizeof(found->rec) + found->rec.body_len);
                return;
        }
        op->append.body = eng_buf_ref(found->body);
        eng_local_answer(op, 0);
}
