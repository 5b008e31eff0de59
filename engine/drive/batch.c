/*
 * batch.c - freezing the active generation and getting it into the index.
 *
 * The loop freezes the active generation together with what has to go into the same transaction
 * (how far the log is covered, groups, epochs, rows), and hands it to the index worker
 * (batch_write.c). When that is durable the generation is dropped, values that died are told to the
 * store, and files with nothing living in them are freed. One batch is under way at a time; appends
 * go on meanwhile, up to the bound of the tail.
 *
 * Frames that it names are flushed before the worker has it: what the index names is durable (I2).
 * Else a drive that is being filled would be asked what it holds (HELD) after a restart, say so of
 * frames that are in the page cache alone, and be taken for full.
 *
 * owner: the loop; open and close call eng_batch_now() while no loop runs.
 */
#include "engine/drive/local.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define HISTORY_BYTES 4096u

bool eng_batch_due(const struct eng_local *l)
{
        return l->frozen == NULL && (l->active->name_count >= ENG_FREEZE_NAMES ||
                                     l->active->bytes >= l->memtable_bytes / ENG_FREEZE_BYTES_SHARE);
}

/* ---- what goes along ------------------------------------------------------------------------- */

static int snapshot_pgs(struct eng_local *l, struct eng_batch *batch)
{
        struct eng_log_pg *pg = NULL;
        struct fmt_index_pg *row;

        batch->pgs = calloc(l->pgs.count + 1, sizeof(*batch->pgs));
        if (batch->pgs == NULL)
                return -ENOMEM;
        while ((pg = eng_pgs_next(&l->pgs, pg)) != NULL) {
                if (!pg->dirty)
                        continue;
                assert(batch->pg_count < l->pgs.count);
                row = &batch->pgs[batch->pg_count++];
                row->pg = pg->pg;
                row->seq = pg->applied;
                row->committed = pg->committed;
                row->epoch = pg->applied_epoch;
        }
        return 0;
}

static int snapshot_logs(struct eng_local *l, struct eng_batch *batch)
{
        const struct eng_log_file *file;
        struct fmt_index_log *row;

        batch->logs = calloc(l->files.dirty_count + 1, sizeof(*batch->logs));
        if (batch->logs == NULL)
                return -ENOMEM;
        TAILQ_FOREACH (file, &l->files.dirty, dirty_link) {
                row = &batch->logs[batch->log_count++];
                row->file = file->number;
                row->tombstones = file->tombstones;
                row->bytes = file->bytes;
                row->end_crc = file->end_crc;
        }
        assert(batch->log_count == l->files.dirty_count);
        return 0;
}

/* Segments of which more is written than the index knows, or that were sealed. */
static int snapshot_segments(struct eng_local *l, struct eng_batch *batch)
{
        struct eng_segment *segment = NULL;
        struct fmt_index_segment *row;

        batch->segments = calloc(eng_segments_stale(l->segments) + 1, sizeof(*batch->segments));
        if (batch->segments == NULL)
                return -ENOMEM;
        while ((segment = eng_segments_each_stale(l->segments, segment)) != NULL) {
                row = &batch->segments[batch->segment_count];
                eng_segment_row(segment, row);
                row->indexed_to = eng_write_floor(l, segment);
                assert(row->indexed_to <= row->end && batch->segment_count < eng_segments_stale(l->segments));
                if (row->indexed_to > segment->indexed_to || (row->sealed && !segment->row_sealed))
                        batch->segment_count++;
        }
        return 0;
}

static int snapshot_epochs(struct eng_local *l, struct eng_batch *batch)
{
        if (!l->epochs.dirty)
                return 0;
        batch->history = eng_buf_new(HISTORY_BYTES);
        if (batch->history == NULL)
                return -ENOMEM;
        batch->history->len = (uint32_t)eng_epochs_encode(&l->epochs, batch->history->data, HISTORY_BYTES);
        batch->epoch = eng_buf_ref(l->epochs.newest);
        return 0;
}

static int snapshot(struct eng_local *l, struct eng_batch *batch)
{
        int rv;

        eng_append_covered(l, &batch->covered);
        eng_append_reach(l, &batch->reach);
        rv = snapshot_pgs(l, batch);
        if (rv == 0)
                rv = snapshot_logs(l, batch);
        if (rv == 0)
                rv = snapshot_segments(l, batch);
        if (rv == 0)
                rv = snapshot_epochs(l, batch);
        if (rv == 0)
                rv = eng_rot_snapshot(l, &batch->scrub);
        batch->has_term = l->terms.dirty;
        eng_terms_snapshot(l, &batch->term);
        return rv;
}

/* The snapshot is complete: what it holds counts as written. */
static void mark_clean(struct eng_local *l, struct eng_batch *batch)
{
        struct eng_log_pg *pg = NULL;

        while ((pg = eng_pgs_next(&l->pgs, pg)) != NULL)
                pg->dirty = false;
        eng_log_files_clean(&l->files);
        l->epochs.dirty = l->terms.dirty = false;
        if (batch->scrub != NULL)
                eng_rot_kept(l);
        batch->logs_gone = l->logs_gone;
        batch->log_gone_count = l->log_gone_count;
        l->logs_gone = NULL;
        l->log_gone_count = l->log_gone_size = 0;
        batch->segments_gone = l->segments_gone;
        batch->segment_gone_count = l->segment_gone_count;
        l->segments_gone = NULL;
        l->segment_gone_count = l->segment_gone_size = 0;
}

void eng_batch_free(struct eng_batch *batch)
{
        struct eng_job job = batch->job;

        free(batch->pgs);
        free(batch->logs);
        free(batch->segments);
        free(batch->logs_gone);
        free(batch->segments_gone);
        free(batch->gone.items);
        free(batch->rows);
        eng_buf_unref(batch->epoch);
        eng_buf_unref(batch->history);
        eng_buf_unref(batch->scrub);
        eng_buf_list_clear(&batch->dead);
        memset(batch, 0, sizeof(*batch));
        batch->job = job; /* its message may be on the way */
}

static bool anything_new(struct eng_local *l, bool running)
{
        struct fmt_index_covered covered;

        if (!eng_memtable_empty(l->active) || l->log_gone_count > 0 || l->segment_gone_count > 0 || l->epochs.dirty ||
            l->terms.dirty || eng_rot_due(l, running))
                return true;
        eng_append_covered(l, &covered);
        return memcmp(&covered, &l->covered, sizeof(covered)) != 0;
}

/* What the index covers grows. */
static bool follows(const struct fmt_index_covered *later, const struct fmt_index_covered *earlier)
{
        return later->file > earlier->file || (later->file == earlier->file && later->position >= earlier->position);
}

/* 1: frozen; 0: nothing to do; -ENOMEM. */
static int freeze(struct eng_local *l, bool running)
{
        struct eng_memtable *fresh;
        int rv;

        assert(l->frozen == NULL && l->batch.tail == NULL);
        if (!anything_new(l, running) && (l->owners_complete || !running))
                return 0;
        fresh = eng_memtable_new();
        if (fresh == NULL)
                return -ENOMEM;
        rv = snapshot(l, &l->batch);
        if (rv != 0) {
                eng_batch_free(&l->batch);
                eng_memtable_free(fresh);
                return rv;
        }
        assert(follows(&l->batch.covered, &l->covered));
        mark_clean(l, &l->batch);
        l->frozen = l->active;
        l->active = fresh;
        l->batch.tail = l->frozen;
        l->batch.owners_complete = l->owners_complete;
        l->batches_begun++;
        return 1;
}

/* ---- afterwards ------------------------------------------------------------------------------ */

static void take_rows(struct eng_local *l, const struct eng_batch *batch)
{
        struct eng_log_file *file;
        unsigned i;

        for (i = 0; i < batch->row_count; i++) {
                file = eng_log_files_find(&l->files, batch->rows[i].file);
                if (file == NULL)
                        continue;
                eng_log_file_set_live(&l->files, file, batch->rows[i].live_names, batch->rows[i].live_bytes);
        }
        atomic_store_explicit(&l->statistics.log_live_bytes, l->files.live_bytes, memory_order_relaxed);
}

static void take_segments(struct eng_local *l, const struct eng_batch *batch)
{
        struct eng_segment *segment;
        unsigned i;

        for (i = 0; i < batch->segment_count; i++) {
                segment = eng_segment_find(l->segments, batch->segments[i].segment);
                if (segment != NULL)
                        eng_segment_set_indexed(l->segments, segment, &batch->segments[i]);
        }
        for (i = 0; i < batch->gone.count; i++) {
                segment = eng_segment_find(l->segments, batch->gone.items[i].segment);
                if (segment != NULL)
                        eng_segment_dead(l->segments, segment, eng_location_bytes(&batch->gone.items[i]));
        }
}

static void keep_for_later(struct eng_local *l, struct eng_buf_list *list)
{
        unsigned i;

        for (i = 0; i < list->count && l->dead.count < ENG_DEAD_REPLAYED_MAX; i++)
                eng_buf_list_add(&l->dead, eng_buf_ref(list->items[i]));
}

static void tell_superseded(struct eng_local *l, const struct eng_buf_list *list)
{
        if (list->count > 0 && l->options.superseded != NULL)
                l->options.superseded(l->options.arg, &l->drive, list->items, list->count);
}

/* The batch is durable. running: the loop is, so the store can be told. */
static void thaw(struct eng_local *l, bool running)
{
        struct eng_memtable *frozen = l->frozen;

        assert(frozen != NULL && l->batch.tail == frozen && l->batches_ended < l->batches_begun);
        l->covered = l->batch.covered;
        l->owners_complete = l->batch.owners_complete;
        atomic_store_explicit(&l->statistics.unknown_owners, l->batch.unknown_owners, memory_order_relaxed);
        l->batches_ended++;
        l->frozen = NULL;
        take_rows(l, &l->batch);
        take_segments(l, &l->batch);
        if (running) {
                tell_superseded(l, &l->batch.dead);
                tell_superseded(l, &frozen->dead);
        } else {
                keep_for_later(l, &l->batch.dead);
                keep_for_later(l, &frozen->dead);
        }
        eng_memtable_free(frozen);
        if (l->batch.index_bytes != 0)
                atomic_store_explicit(&l->statistics.index_bytes, l->batch.index_bytes, memory_order_relaxed);
        eng_batch_free(&l->batch);
        atomic_store_explicit(&l->statistics.memtable_bytes, l->active->bytes, memory_order_relaxed);
}

static void batch_run(struct eng_job *job)
{
        struct eng_local *l = container_of(job, struct eng_local, batch.job);

        l->batch.result = eng_batch_write(l->index, &l->batch);
}

static void batch_done(struct eng_job *job);

static void batch_give(struct eng_local *l)
{
        assert(l->frozen != NULL && l->batch.tail == l->frozen && !l->batch_flushing);
        eng_local_give(l, &l->index_worker, &l->batch.job, batch_run, batch_done);
}

static void batch_flushed(struct eng_op *op)
{
        struct eng_local *l = container_of(op, struct eng_local, batch_sync);

        assert(l->batch_flushing);
        l->batch_flushing = false;
        if (!eng_local_release(l) || eng_local_failed(l))
                return;
        if (op->result == 0)
                batch_give(l); /* else there was no memory for it: eng_batch_tick() tries again */
}

static void flush_and_give(struct eng_local *l)
{
        assert(l->frozen != NULL && !l->batch_flushing);
        if (l->writes.flushing == 0 && !eng_segments_unsynced(l->segments)) {
                batch_give(l);
                return;
        }
        l->batch_flushing = true;
        eng_sync_own(l, &l->batch_sync, batch_flushed);
}

void eng_batch_stop(struct eng_local *l)
{
        if (l->batch_flushing && eng_sync_forget(l, &l->batch_sync))
                l->batch_flushing = false;
}

static void batch_done(struct eng_job *job)
{
        struct eng_local *l = container_of(job, struct eng_local, batch.job);
        bool more_owners;
        int rv;

        if (!eng_local_release(l) || eng_local_failed(l))
                return;
        rv = l->batch.result;
        if (rv == -EFBIG) { /* the worker is idle and this loop reads nothing now: nobody uses the map */
                rv = eng_index_grow(l->index);
                if (rv == 0) {
                        batch_give(l);
                        return;
                }
        }
        if (rv == -ENOSPC || eng_io_again(rv))
                return; /* nothing was written; eng_batch_tick() tries again */
        if (rv != 0) {
                eng_local_index_error(l, rv);
                /*
                 * The log has what the damaged index does not: the drive serves from memory till
                 * the store can do without it, or that is full although clients' changes were kept
                 * away.
                 */
                if (rv != -EBADMSG || eng_log_memtable_full(l))
                        eng_local_fail(l, rv, "writing the index");
                eng_log_kick(l); /* what waited for room waits for none any more */
                return;
        }
        more_owners = !l->batch.owners_complete && l->batch.owners_moved;
        thaw(l, true);
        eng_file_free_dead(l);
        eng_reclaim_settled(l);
        if (eng_batch_due(l) || l->reclaim.state == ENG_RECLAIM_SETTLE || more_owners)
                eng_batch_start(l);
        eng_log_kick(l);
}

void eng_batch_start(struct eng_local *l)
{
        assert(eng_local_on_loop(l));
        if (l->frozen != NULL || l->batch.job.state != ENG_JOB_IDLE || eng_local_failed(l))
                return;
        if (freeze(l, true) == 1)
                flush_and_give(l);
}

void eng_batch_tick(struct eng_local *l)
{
        if (l->batch_flushing || l->batch.job.state != ENG_JOB_IDLE || eng_local_failed(l))
                return;
        if (l->frozen != NULL)
                flush_and_give(l);
        else
                eng_batch_start(l);
}

int eng_batch_now(struct eng_local *l)
{
        int rv = l->frozen != NULL ? 1 : freeze(l, false); /* one that met a full disk is tried again */

        if (rv <= 0)
                return rv;
        rv = eng_segments_flush(l->segments);
        if (rv != 0)
                return rv;
        do {
                rv = eng_batch_write(l->index, &l->batch);
        } while (rv == -EFBIG && (rv = eng_index_grow(l->index)) == 0);
        if (rv == 0)
                thaw(l, false);
        eng_local_index_error(l, rv);
        return rv;
}
