/*
 * local.c - a local drive as the table of operations sees it: submit, dispatch, answer, fail,
 * close.
 *
 * The engine submits on any loop; the op travels to the owner loop, which holds all state, and is
 * answered on the loop it came from by a later message, never from inside submit. The first I/O
 * error ends the drive: every op after it, and all that wait, answer -EIO, and the store is told
 * once (I8).
 */
#include "engine/drive/local.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- operations ------------------------------------------------------------------------------ */

static void (*const handlers[ENG_OP_KINDS])(struct eng_local *l, struct eng_op *op) = {
        [ENG_OP_APPEND] = eng_append_op, [ENG_OP_COMMIT] = eng_commit_op,   [ENG_OP_LOOKUP] = eng_lookup_op,
        [ENG_OP_SCAN] = eng_scan_op,     [ENG_OP_WRITE] = eng_write_op,     [ENG_OP_SYNC] = eng_sync_op,
        [ENG_OP_READ] = eng_read_op,     [ENG_OP_DISCARD] = eng_discard_op, [ENG_OP_TAIL] = eng_tail_op,
        [ENG_OP_RECORD] = eng_record_op, [ENG_OP_HELD] = eng_held_op,     [ENG_OP_IDS] = eng_ids_op,
        [ENG_OP_OWNED] = eng_owned_op,   [ENG_OP_SCRUB] = eng_scrub_op,     [ENG_OP_FEATURES] = eng_features_op,
        [ENG_OP_OPEN] = eng_open_op,
};

static void deliver(struct lp_msg *msg)
{
        struct eng_op *op = container_of(msg, struct eng_op, msg);

        assert(lp_self() == op->home);
        op->done(op);
}

void eng_local_answer(struct eng_op *op, int rv)
{
        struct eng_local *l = eng_local_of(op->drive);
        uint64_t before = lp_trace_request(), now;

        assert(op->msg.run != deliver);    /* answered once */
        lp_trace_set_request(op->request); /* the answer is for its request, whatever brought it about */
        if (rv == -EIO || rv == -EBADMSG)
                eng_count(&l->statistics.errors, 1);
        if (op->submitted != 0) {
                now = lp_clock();
                eng_local_time(l, op->kind, now - op->submitted);
                lp_trace_at(now, LP_TRACE_OP_DONE, ENG_TRACE_OP(op->kind, l->drive.slot), (uint64_t)(int64_t)rv);
        }
        op->result = rv;
        op->msg.run = deliver;
        lp_post(op->home, &op->msg);
        lp_trace_set_request(before);
}

static void dispatch(struct eng_local *l, struct eng_op *op)
{
        int rv;

        assert(lp_self() == l->drive.owner);
        eng_count(&l->statistics.ops, 1);
        if (eng_local_failed(l) || l->closed) {
                eng_local_answer(op, -EIO);
                return;
        }
        assert(!l->emptied);
        rv = eng_term_is_none(&l->terms.admitted) && eng_term_is_none(&op->term) ? 0 : eng_terms_check(&l->terms, op);
        if (rv != 0) {
                eng_local_answer(op, rv);
                return;
        }
        handlers[op->kind](l, op);
}

static void local_arrive(struct lp_msg *msg)
{
        struct eng_op *op = container_of(msg, struct eng_op, msg);

        dispatch(eng_local_of(op->drive), op);
}

static void local_submit(struct eng_drive *drive, struct eng_op *op)
{
        assert(op->kind < ENG_OP_KINDS);
        op->home = lp_self();
        assert(op->home != NULL && op->done != NULL);
        op->drive = drive;
        op->msg.run = local_arrive;
        if (op->kind == ENG_OP_WRITE) {
                eng_write_prepare(op);
                eng_local_time(eng_local_of(drive), ENG_DRIVE_CHECKSUM, lp_clock() - op->submitted);
        }
        if (op->home == drive->owner) {
                dispatch(eng_local_of(drive), op);
                return;
        }
        lp_post(drive->owner, &op->msg);
}

bool eng_local_full(struct eng_local *l, unsigned flags)
{
        return (flags & ENG_OP_RESERVE) == 0 && eng_space_free(l->space) < l->reserve_bytes;
}

/* ---- failure --------------------------------------------------------------------------------- */

static void tell_failed(struct lp_msg *msg)
{
        struct eng_local *l = container_of(msg, struct eng_local, fail_msg);

        assert(eng_local_failed(l) && !l->cut_off);
        if (eng_local_release(l) && l->options.failed != NULL)
                l->options.failed(l->options.arg, &l->drive, l->reason);
}

void eng_local_fail(struct eng_local *l, int rv, const char *format, ...)
{
        char what[96];
        va_list args;

        if (rv != -ECANCELED)
                l->cut_off = false;
        if (eng_local_failed(l))
                return;
        l->cut_off = rv == -ECANCELED;
        va_start(args, format);
        vsnprintf(what, sizeof(what), format, args);
        va_end(args);
        if (rv != 0)
                snprintf(l->reason, sizeof(l->reason), "%s: %s", what, strerror(-rv));
        else
                snprintf(l->reason, sizeof(l->reason), "%s", what);
        eng_count(&l->statistics.errors, 1);
        atomic_store_explicit(&l->failed, true, memory_order_release);
        eng_log_fail(l);
        eng_write_fail(l);
        eng_read_fail(l);
        eng_fds_fail(l, -EIO);
        eng_pages_fail(l);
        eng_flights_fail(l);
        eng_terms_fail(l);
        assert(TAILQ_EMPTY(&l->log.queue) && TAILQ_EMPTY(&l->log.batch) && l->log.queue_bytes == 0);
        assert(TAILQ_EMPTY(&l->writes.waiting) && l->writes.sync_waiting == NULL && l->writes.sync_running == NULL);
        assert(TAILQ_EMPTY(&l->reads.waiting) && TAILQ_EMPTY(&l->fds.queue) && TAILQ_EMPTY(&l->pages.line));
        if (!l->opened || l->cut_off)
                return; /* the opening thread answers for it, and owns everything yet */
        l->fail_msg.run = tell_failed;
        eng_local_hold(l);
        lp_post(l->drive.owner, &l->fail_msg);
}

static void condemn_run(struct eng_job *job)
{
        eng_index_condemn(container_of(job, struct eng_local, condemn_job)->index);
}

static void condemn_done(struct eng_job *job)
{
        eng_local_release(container_of(job, struct eng_local, condemn_job));
}

/*
 * Writes to a drive that may be about to hang: not on the loop. If even that fails, the damage will
 * be met again.
 */
static void condemn(struct eng_local *l)
{
        if (l->opened && l->file_worker.started)
                eng_local_give(l, &l->file_worker, &l->condemn_job, condemn_run, condemn_done);
        else
                eng_index_condemn(l->index);
}

void eng_local_index_error(struct eng_local *l, int rv)
{
        if (rv != -EBADMSG && rv != -EIO)
                return;
        if (!l->index_condemned)
                condemn(l);
        l->index_condemned = true;
        if (rv == -EBADMSG || eng_index_unreadable(l->index))
                atomic_store(&l->index_damaged, true);
        if (rv == -EIO)
                eng_local_fail(l, rv, "reading the index");
}

/* ---- life ------------------------------------------------------------------------------------ */

bool eng_local_release(struct eng_local *l)
{
        bool open = !l->closed;

        assert(l->holds > 0);
        if (--l->holds == 0) {
                assert(l->closed && l->emptied);
                eng_log_free(l);
                eng_reclaim_free(l);
                free(l);
        }
        return open;
}

void eng_local_give(struct eng_local *l, struct eng_worker *worker, struct eng_job *job, void (*run)(struct eng_job *),
                    void (*done)(struct eng_job *))
{
        job->run = run;
        job->done = done;
        eng_local_hold(l);
        eng_worker_give(worker, job);
}

/*
 * The last batch before the drive is closed. What was frozen is in the index if its job went well,
 * though its message is still on the way.
 */
static void cover_log(struct eng_local *l)
{
        if (eng_local_failed(l) && !l->cut_off)
                return;
        if (l->frozen != NULL && l->batch.job.state == ENG_JOB_RAN && l->batch.result == 0) {
                eng_memtable_free(l->frozen);
                l->frozen = NULL;
                eng_batch_free(&l->batch);
        }
        if (l->frozen != NULL && l->batch.job.state == ENG_JOB_IDLE && eng_batch_now(l) != 0)
                return; /* the worker never had it */
        if (l->frozen == NULL)
                eng_batch_now(l);
}

/* What was still queued. Its ops are not answered: whoever closed the drive has given them up. */
static void drop_queues(struct eng_local *l)
{
        struct eng_append_list *lists[] = {&l->log.queue, &l->log.batch};
        struct eng_append *append;
        unsigned i;

        for (i = 0; i < 2; i++) {
                while ((append = TAILQ_FIRST(lists[i])) != NULL) {
                        TAILQ_REMOVE(lists[i], append, link);
                        eng_append_free(append);
                }
        }
        eng_write_drop_waiting(l);
}

/* Space of the file system that was set aside for files to be made. */
static void drop_claims(struct eng_local *l)
{
        eng_space_drop(l->space, l->log.claimed + l->file.make_bytes);
        l->log.claimed = l->file.make_bytes = 0;
}

/*
 * All but what any thread may look at, and what an operation that is still on its way here meets.
 */
static void free_state(struct eng_local *l)
{
        int *const fds[] = {&l->log.fd, &l->files.dir_fd, &l->dir_fd, &l->lock_fd};
        unsigned i;

        if (l->emptied)
                return;
        l->emptied = true;
        drop_queues(l);
        eng_batch_free(&l->batch);
        eng_memtable_free(l->active);
        eng_memtable_free(l->frozen);
        eng_pgs_clear(&l->pgs);
        eng_buf_list_clear(&l->dead);
        eng_buf_unref(l->epochs.newest);
        eng_cache_free(l->cache);
        eng_fds_free(l);
        eng_read_free(l);
        eng_rec_read_free(l);
        eng_pages_close(l);
        eng_probe_close(l);
        eng_rot_free(l);
        eng_index_reader_free(l->reader);
        eng_index_reader_free(l->second_reader);
        eng_index_close(l->index);
        eng_file_drop_made(l);
        eng_segments_close(l->segments);
        eng_log_files_close(&l->files);
        if (l->holds == 1)
                eng_log_free(l); /* else a write may still be under way: the last one frees it */
        free(l->logs_gone);
        free(l->segments_gone);
        free(l->writes.flushes);
        for (i = 0; i < sizeof(fds) / sizeof(fds[0]); i++) {
                if (*fds[i] >= 0)
                        close(*fds[i]);
                *fds[i] = -1;
        }
        if (l->space != NULL)
                drop_claims(l);
}

void eng_local_teardown(struct eng_local *l)
{
        assert(!l->closed);
        free_state(l);
        eng_space_put(l->space);
        l->closed = true;
        eng_local_release(l);
}

bool eng_local_let_go(struct eng_drive *drive)
{
        struct eng_local *l = eng_local_of(drive);

        assert(eng_local_on_loop(l));
        if (l->emptied)
                return true;
        if (!eng_local_failed(l))
                eng_local_fail(l, 0, "the store went on without it");
        if (l->holds > 1 || !TAILQ_EMPTY(&l->watches))
                return false;
        assert(l->fds.now == NULL && l->probe == NULL); /* each is a hold */
        assert(l->pages.reading == 0 && l->writes.flushing == 0);
        assert(TAILQ_EMPTY(&l->flights) && l->writes.count == 0);
        eng_worker_stop(&l->index_worker); /* idle: a job under way would be a hold */
        eng_worker_stop(&l->file_worker);
        eng_fds_stop(l);
        eng_reclaim_stop(l);
        eng_batch_stop(l);
        lp_timer_stop(drive->owner, &l->tick);
        free_state(l);
        return true;
}

bool eng_local_awaits_file(struct eng_drive *drive)
{
        struct eng_local *l = eng_local_of(drive);

        return !l->emptied && !eng_local_failed(l) &&
               (l->fds.now != NULL || l->pages.reading > 0 || l->features.busy || (!TAILQ_EMPTY(&l->writes.waiting) && l->file.make_bytes != 0));
}

bool eng_local_vanished(struct eng_drive *drive)
{
        struct eng_local *l = eng_local_of(drive);

        return atomic_load(&l->vanished) || atomic_load(&l->index_damaged);
}

bool eng_local_index_damaged(struct eng_drive *drive)
{
        return atomic_load(&eng_local_of(drive)->index_damaged);
}

bool eng_local_ends(struct eng_drive *drive, unsigned seconds)
{
        struct eng_local *l = eng_local_of(drive);
        struct eng_worker *const workers[] = {&l->index_worker, &l->file_worker, &l->fds.worker, &l->reclaim.worker};
        unsigned i;

        for (i = 0; i < sizeof(workers) / sizeof(workers[0]) && eng_local_failed(l); i++)
                if (!eng_worker_ends(workers[i], seconds))
                        return false;
        return true;
}

static void local_close(struct eng_drive *drive)
{
        struct eng_local *l = eng_local_of(drive);

        eng_worker_stop(&l->index_worker);
        eng_worker_stop(&l->file_worker);
        eng_fds_stop(l);
        eng_reclaim_stop(l);
        eng_batch_stop(l);
        lp_timer_stop(drive->owner, &l->tick);
        cover_log(l);
        eng_local_teardown(l);
}

/* ---- figures --------------------------------------------------------------------------------- */

static uint64_t statistic(const atomic_uint_fast64_t *from)
{
        return atomic_load_explicit(from, memory_order_relaxed);
}

void eng_local_info(struct eng_drive *drive, struct eng_drive_info *out)
{
        struct eng_local *l = eng_local_of(drive);
        bool failed = eng_local_failed(l);

        memset(out, 0, sizeof(*out));
        out->state = failed ? ENG_DRIVE_FAILED : ENG_DRIVE_IN;
        memcpy(out->path, l->path, sizeof(out->path));
        memcpy(out->id, l->id_text, sizeof(out->id));
        if (failed)
                memcpy(out->reason, l->reason, sizeof(out->reason));
        out->starved = atomic_load(&l->statistics.starved);
        out->total_bytes = statistic(&l->space->total);
        out->free_bytes = statistic(&l->space->free);
        out->log_bytes = statistic(&l->statistics.log_bytes);
        out->data_bytes = statistic(&l->statistics.data_bytes);
        out->index_bytes = statistic(&l->statistics.index_bytes);
        out->ops = statistic(&l->statistics.ops);
        out->errors = statistic(&l->statistics.errors);
        out->queue = statistic(&l->statistics.queue);
        out->memtable_bytes = statistic(&l->statistics.memtable_bytes);
        out->appends = statistic(&l->statistics.appends);
        out->batches = statistic(&l->statistics.batches);
        out->syncs = statistic(&l->statistics.syncs);
        out->read_bytes = statistic(&l->statistics.read_bytes);
        out->written_bytes = statistic(&l->statistics.written_bytes);
        out->cache_bytes = statistic(&l->statistics.cache_bytes);
        out->cache_hits = statistic(&l->statistics.cache_hits);
        out->cache_misses = statistic(&l->statistics.cache_misses);
        out->log_live_bytes = statistic(&l->statistics.log_live_bytes);
        out->data_live_bytes = statistic(&l->statistics.data_live_bytes);
        out->reclaim_copied = statistic(&l->statistics.reclaim_copied);
        out->reclaim_freed = statistic(&l->statistics.reclaim_freed);
        out->index_reads = statistic(&l->statistics.index_reads);
        out->reclaim_damaged = statistic(&l->statistics.reclaim_damaged);
        out->read_errors = statistic(&l->statistics.read_errors);
        out->unknown_owners = statistic(&l->statistics.unknown_owners);
        out->unreliable = atomic_load_explicit(&l->unreliable, memory_order_relaxed);
}

const struct eng_drive_ops eng_local_ops = {
        .submit = local_submit,
        .close = local_close,
        .epoch = eng_local_epoch,
        .log_lost = eng_local_log_lost,
        .let_go = eng_local_let_go,
        .ends = eng_local_ends,
        .awaits_file = eng_local_awaits_file,
        .vanished = eng_local_vanished,
        .index_damaged = eng_local_index_damaged,
        .damage = eng_local_damage,
        .info = eng_local_info,
        .term = eng_local_term,
};
