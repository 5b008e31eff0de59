/*
 * log.c - appending to the log: a queue, and one batch at a time in flight.
 *
 * append.c queues records; whatever has queued while one batch was being written is the next (group commit). A batch is one
 * O_DIRECT | RWF_DSYNC write of whole blocks, so its completion is the durability of all its records (I1), and a crash tears at most
 * that one batch. A failed write fails the drive and is never tried again (I8).
 *
 * Full is not failed: where there is no room for the next file, or (file systems that copy on
 * write) for a batch in a file that was made ahead, records wait in the queue until there is. Such
 * a batch goes back there as it was, and the next one is written to the very same place, beginning
 * with the same records: what may be there of the first is a beginning of it, or broken off where
 * its bytes end, which a replay takes for a tear. None of its records is refused: a crash might
 * bring it back, and other drives may have it. While records wait so, the store refuses changes
 * before they have a number.
 *
 * When a batch does not fit in the current file, the next one is begun, which a worker has made
 * ahead; its header goes in the same write as its first batch. Until it is at hand, and while the
 * tail is at its bound, the queue waits; append.c bounds the queue (I9).
 *
 * owner: the loop.
 */
#include "engine/drive/local.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#define BUFFER_BYTES (FMT_BLOCK + ENG_BATCH_BYTES)
#define BUSY_BYTES_S (32ull << 20) /* of a log: from there on the drive has better to do than to write files ahead */
#define NS_PER_S     1000000000ull
#define SHORT_WRITES_MOST 8u
#define TERM_BYTES (16u * FMT_BLOCK) /* of each file: for TERM records alone, one block each */

_Static_assert(sizeof(struct fmt_record) + FMT_BODY_MAX + FMT_RECORD_ALIGN <= ENG_BATCH_BYTES,
               "a batch has room for any record");

static void make_next(struct eng_local *l);

int eng_log_open(struct eng_local *l)
{
        void *buffer = mmap(NULL, BUFFER_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

        if (buffer == MAP_FAILED)
                return -ENOMEM;
        l->log.buffer = buffer;
        return 0;
}

void eng_log_free(struct eng_local *l)
{
        if (l->log.buffer != NULL)
                munmap(l->log.buffer, BUFFER_BYTES);
        l->log.buffer = NULL;
}

void eng_log_append(struct eng_local *l, struct eng_append *append)
{
        assert(eng_local_on_loop(l) && append->durable != NULL);
        assert(append->rec.body_len <= FMT_BODY_MAX);
        TAILQ_INSERT_TAIL(&l->log.queue, append, link);
        l->log.queue_bytes += eng_rec_size(append->rec.body_len);
        eng_count(&l->statistics.queue, 1);
}

/*
 * Nobody has been told that these are here, and whoever asked for them is not the leader any more. Those that were
 * in a write may be there already: they stay where they are, ahead of the TERM record.
 */
void eng_log_depose(struct eng_local *l, const struct eng_term *term)
{
        struct eng_append *append, *next;

        TAILQ_FOREACH_SAFE (append, &l->log.queue, link, next) {
                if (append->op == NULL || append->written || eng_term_compare(&append->op->term, term) >= 0)
                        continue;
                TAILQ_REMOVE(&l->log.queue, append, link);
                l->log.queue_bytes -= eng_rec_size(append->rec.body_len);
                atomic_fetch_sub_explicit(&l->statistics.queue, 1, memory_order_relaxed);
                append->op->deposed = true;
                eng_local_answer(append->op, -ESTALE);
                eng_append_free(append);
        }
}

void eng_log_append_term(struct eng_local *l, struct eng_append *append)
{
        struct eng_append *at, *behind = NULL;

        assert(append->rec.type == FMT_RECORD_TERM && append->op == NULL);
        TAILQ_FOREACH (at, &l->log.queue, link)
                if (at->op != NULL || at->written)
                        behind = at;
        eng_log_append(l, append);
        TAILQ_REMOVE(&l->log.queue, append, link);
        if (behind != NULL)
                TAILQ_INSERT_AFTER(&l->log.queue, behind, append, link);
        else
                TAILQ_INSERT_HEAD(&l->log.queue, append, link);
}

/* ---- files ----------------------------------------------------------------------------------- */

static void next_run(struct eng_job *job)
{
        struct eng_local *l = container_of(job, struct eng_local, log.make_next);

        l->log.make_result = eng_logfile_prepare(l->files.dir_fd, l->log.next_number, l->log.next_bytes, l->log.next_written);
        while (eng_io_full(l->log.make_result) && l->log.next_bytes / 2 >= ENG_LOG_BYTES_MIN) {
                l->log.next_bytes = l->log.next_bytes / 2 / FMT_BLOCK * FMT_BLOCK; /* a short one is better than none */
                l->log.make_result =
                        eng_logfile_prepare(l->files.dir_fd, l->log.next_number, l->log.next_bytes, l->log.next_written);
        }
        eng_space_look(l->space, l->dir_fd);
}

/*
 * Bytes of the current file that this record may have. A leader that has come must not wait for room, so one that
 * comes has what is kept here. What was in a write goes where it was to go, whatever has been decided since.
 */
static uint64_t log_room(const struct eng_local *l, const struct eng_append *append)
{
        const struct eng_log_file *file = l->log.current;
        uint64_t left = file->capacity > file->bytes ? file->capacity - file->bytes : 0;
        bool keeps = !eng_term_is_none(&l->terms.admitted) && file->capacity >= ENG_LOG_BYTES_MIN &&
                     append->rec.type != FMT_RECORD_TERM && !append->written;

        return !keeps ? left : left > TERM_BYTES ? left - TERM_BYTES : 0;
}

/* Room in the current file for the record that waits first. */
static bool fits(const struct eng_local *l)
{
        const struct eng_append *first = TAILQ_FIRST(&l->log.queue);

        return l->log.fd >= 0 && eng_round_up(eng_rec_size(first->rec.body_len), FMT_BLOCK) <= log_room(l, first);
}

/* There is no room on the file system for the log. */
static void log_is_full(struct eng_local *l)
{
        if (l->options.full != NULL)
                l->options.full(l->options.arg, &l->drive);
        if (!TAILQ_EMPTY(&l->log.queue) && (l->log.retry_at != 0 || !fits(l)))
                atomic_store_explicit(&l->exhausted, true, memory_order_relaxed);
}

static void next_done(struct eng_job *job)
{
        struct eng_local *l = container_of(job, struct eng_local, log.make_next);
        int rv = l->log.make_result;

        if (!eng_local_release(l))
                return;
        assert(l->log.next == ENG_LOG_NEXT_MAKING);
        eng_space_drop(l->space, l->log.claimed);
        l->log.claimed = 0;
        l->log.next = rv == 0 ? ENG_LOG_NEXT_READY : ENG_LOG_NEXT_NONE;
        atomic_store(&l->statistics.starved, eng_io_full(rv));
        if (eng_io_full(rv)) {
                log_is_full(l);
                eng_log_fail_queue(l, -ENOSPC); /* the next append asks again, or the next tick */
                return;
        }
        if (eng_io_again(rv))
                return; /* the same */
        if (rv != 0)
                eng_local_fail(l, rv, "making a log file");
        eng_log_kick(l);
}

/*
 * Few small appends are durable sooner in blocks that were written before; many, or large ones, are
 * not, and then writing twice takes half of the drive.
 */
static bool log_is_busy(const struct eng_local *l)
{
        uint64_t ns = lp_now(l->drive.owner) - l->log.file_began;

        return l->log.file_began != 0 && l->log.current->bytes > BUSY_BYTES_S * (ns / 1000) / (NS_PER_S / 1000);
}

static void make_next(struct eng_local *l)
{
        if (l->log.next != ENG_LOG_NEXT_NONE || l->log.make_next.state != ENG_JOB_IDLE)
                return;
        assert(l->log.claimed == 0);
        l->log.next = ENG_LOG_NEXT_MAKING;
        l->log.next_number = l->log.current->number + 1;
        l->log.next_bytes = eng_space_portion(l->space, l->reserve_bytes, l->log_file_bytes, ENG_LOG_BYTES_MIN) /
                            FMT_BLOCK * FMT_BLOCK;
        l->log.claimed = l->log.next_bytes;
        l->log.next_written = !log_is_busy(l);
        eng_space_claim(l->space, l->log.claimed);
        eng_local_give(l, &l->file_worker, &l->log.make_next, next_run, next_done);
}

/* Ends the current file and begins the prepared one. Its header goes to the front of the buffer. */
static int log_begin_file(struct eng_local *l)
{
        struct eng_log *log = &l->log;
        struct eng_log_file *file;
        struct eng_log_ident ident = {.file = log->next_number};
        int fd;

        assert(log->next == ENG_LOG_NEXT_READY && log->next_number > log->current->number);
        lp_random(&ident.generation, sizeof(ident.generation));
        memcpy(ident.drive_id, l->files.drive_id, FMT_ID);
        fd = eng_logfile_open_write(l->files.dir_fd, log->next_number);
        if (fd < 0)
                return fd;
        file = eng_log_files_add(&l->files, log->next_number, ident.generation);
        if (file == NULL) {
                close(fd);
                return -ENOMEM;
        }
        assert(TAILQ_NEXT(file, order) == NULL);
        eng_logfile_header((struct fmt_log_header *)log->buffer, &ident, log->current->number, log->crc,
                           log->end.file == log->current->number && log->end.prev_crc == log->crc ? log->end.position : 0);
        if (log->fd >= 0)
                close(log->fd);
        file->capacity = log->next_bytes;
        file->bytes = FMT_BLOCK;
        eng_count(&l->statistics.log_bytes, file->capacity);
        log->fd = fd;
        log->current = file;
        log->file_began = lp_now(l->drive.owner);
        log->next = ENG_LOG_NEXT_NONE;
        return 0;
}

/* ---- building a batch ------------------------------------------------------------------------ */

static void put_record(struct eng_local *l, struct eng_append *append, uint64_t batch, uint32_t at)
{
        struct fmt_record *rec = &append->rec;
        uint8_t *to = l->log.buffer + FMT_BLOCK + at;
        size_t used;

        assert(rec->body_len == (append->body != NULL ? append->body->len : 0));
        assert(rec->inline_len <= rec->body_len && rec->type != 0); /* as replay demands: eng_rec_ok() */
        memcpy(rec->drive_id, l->files.drive_id, FMT_ID);
        rec->file = l->log.current->number;
        rec->generation = l->log.current->generation;
        rec->position = batch + at;
        rec->batch = batch;
        rec->prev_crc = l->log.crc;
        eng_rec_seal(rec);
        l->log.crc = rec->header_crc;
        memcpy(to, rec, sizeof(*rec));
        if (rec->body_len > 0)
                memcpy(to + sizeof(*rec), append->body->data, rec->body_len);
        used = sizeof(*rec) + rec->body_len;
        memset(to + used, 0, eng_rec_size(rec->body_len) - used);
}

/*
 * Moves records from the queue into the buffer as far as room goes. Returns the bytes of the batch,
 * a whole number of blocks. terms: TERM records alone.
 */
static uint32_t log_build(struct eng_local *l, bool terms)
{
        uint64_t batch = l->log.current->bytes, size;
        struct eng_append *append;
        uint64_t room;
        uint32_t len = 0, padded;

        assert(!l->log.writing && TAILQ_EMPTY(&l->log.batch)); /* the buffer is ours (I7) */
        assert(batch >= FMT_BLOCK && batch % FMT_BLOCK == 0);
        while ((append = TAILQ_FIRST(&l->log.queue)) != NULL) {
                size = eng_rec_size(append->rec.body_len);
                room = log_room(l, append);
                if (len + size > (room < ENG_BATCH_BYTES ? room : ENG_BATCH_BYTES) ||
                    (terms && append->rec.type != FMT_RECORD_TERM))
                        break;
                assert(l->log.queue_bytes >= size);
                TAILQ_REMOVE(&l->log.queue, append, link);
                l->log.queue_bytes -= size;
                put_record(l, append, batch, len);
                TAILQ_INSERT_TAIL(&l->log.batch, append, link);
                len += (uint32_t)size;
        }
        assert(len > 0); /* the first one fits */
        padded = (uint32_t)eng_round_up(len, FMT_BLOCK);
        memset(l->log.buffer + FMT_BLOCK + len, 0, padded - len);
        return padded;
}

/* ---- writing --------------------------------------------------------------------------------- */

void eng_log_ends_after(struct eng_local *l, const struct fmt_record *rec)
{
        assert(rec->file > l->log.end.file || (rec->file == l->log.end.file && rec->position >= l->log.end.position));
        l->log.end.file = rec->file;
        l->log.end.generation = rec->generation;
        l->log.end.position = rec->position + eng_rec_size(rec->body_len);
        l->log.end.prev_crc = rec->header_crc;
}

/*
 * What was written is taken in, one record after the other, and the end of the log with it: an
 * index batch may begin in between (moving records has an end, too), and must not say that a record
 * is covered which is in no generation yet and not pending either. A record of the drive's own may
 * have the next one appended from here: it is not written before all are taken in, or it would be
 * taken for one of them.
 */
static void finish_batch(struct eng_local *l)
{
        struct eng_log *log = &l->log;
        struct eng_append *append;

        assert(log->writing);
        while ((append = TAILQ_FIRST(&log->batch)) != NULL) {
                assert(append->rec.prev_crc == log->end.prev_crc); /* the chain */
                eng_log_ends_after(l, &append->rec);
                TAILQ_REMOVE(&log->batch, append, link);
                atomic_fetch_sub_explicit(&l->statistics.queue, 1, memory_order_relaxed);
                append->durable(l, append);
        }
        log->writing = false;
}

static void fail_list(struct eng_local *l, struct eng_append_list *list, int rv)
{
        struct eng_append_list own = TAILQ_HEAD_INITIALIZER(own);
        struct eng_append *append;

        while ((append = TAILQ_FIRST(list)) != NULL) {
                TAILQ_REMOVE(list, append, link);
                if (rv == -ENOSPC && (append->op == NULL || append->written || (append->op->flags & ENG_OP_RESERVE) != 0)) {
                        TAILQ_INSERT_TAIL(&own, append, link);
                        continue;
                }
                atomic_fetch_sub_explicit(&l->statistics.queue, 1, memory_order_relaxed);
                if (append->op != NULL)
                        eng_local_answer(append->op, rv);
                eng_append_free(append);
        }
        TAILQ_CONCAT(list, &own, link);
}

void eng_log_fail_queue(struct eng_local *l, int rv)
{
        const struct eng_append *append;

        fail_list(l, &l->log.queue, rv);
        l->log.queue_bytes = 0;
        TAILQ_FOREACH (append, &l->log.queue, link)
                l->log.queue_bytes += eng_rec_size(append->rec.body_len);
}

void eng_log_fail(struct eng_local *l)
{
        eng_log_fail_queue(l, -EIO);
        fail_list(l, &l->log.batch, -EIO); /* whether they became durable is not known */
}

/*
 * The batch goes back to the front of the queue, and will be written again to where it was to be.
 * full: it met a full file system.
 */
static void take_back(struct eng_local *l, bool full)
{
        struct eng_log *log = &l->log;
        struct eng_append *append;

        assert(log->writing && !TAILQ_EMPTY(&log->batch));
        TAILQ_FOREACH (append, &log->batch, link) {
                append->written = true;
                log->queue_bytes += eng_rec_size(append->rec.body_len);
        }
        TAILQ_CONCAT(&log->batch, &log->queue, link);
        TAILQ_CONCAT(&log->queue, &log->batch, link);
        log->current->bytes -= log->write_len - (log->write_header ? FMT_BLOCK : 0);
        assert(log->current->bytes >= FMT_BLOCK && log->crc_before == log->end.prev_crc);
        log->crc = log->crc_before;
        log->header_due = log->write_header;
        log->writing = false;
        log->retry_at = lp_now(l->drive.owner) + ENG_TICK_NS / 2;
        if (!full)
                return;
        atomic_store(&l->statistics.starved, true);
        log_is_full(l);
}

/*
 * The machine had no memory for the write, which is no failure of the drive; but it is not waited
 * for longer than for any I/O.
 */
static bool met_shortage(struct eng_local *l, int res)
{
        uint64_t now = lp_now(l->drive.owner);

        if (!eng_io_again(res) || res == -ECANCELED)
                return false;
        if (l->log.short_since == 0)
                l->log.short_since = now;
        return now - l->log.short_since < l->io_limit_ns;
}

/*
 * A short write is what many file systems say first when they are full; one that goes on being
 * short without ever saying so is not full.
 */
static bool met_full(struct eng_log *log, int res)
{
        if (eng_io_full(res)) {
                log->short_writes = 0;
                return true;
        }
        if (res < 0 || (uint32_t)res >= log->write_len)
                return false;
        return ++log->short_writes < SHORT_WRITES_MOST;
}

static void log_written(struct lp_io *io, int res)
{
        struct eng_local *l = container_of(io, struct eng_local, log.io);
        struct eng_log *log = &l->log;

        if (!eng_local_release(l))
                return;
        assert(log->writing);
        eng_watch_end(l, &log->watch);
        lp_trace(LP_TRACE_LOG_FLUSHED, l->drive.slot, (uint64_t)(int64_t)res);
        if (!eng_local_failed(l) && met_full(log, res)) {
                log->short_since = 0;
                take_back(l, true);
                return;
        }
        log->short_writes = 0;
        if (!eng_local_failed(l) && met_shortage(l, res)) {
                take_back(l, false);
                return;
        }
        log->short_since = 0;
        if (res < 0 || (uint32_t)res != log->write_len || eng_local_failed(l)) {
                eng_local_fail(l, res < 0 ? res : -EIO, "writing log file %llu",
                               (unsigned long long)log->current->number);
                fail_list(l, &log->batch, -EIO);
                return;
        }
        if (log->retry_at != 0)
                atomic_store(&l->statistics.starved, false);
        log->retry_at = 0;
        atomic_store_explicit(&l->exhausted, false, memory_order_relaxed);
        eng_local_time(l, ENG_DRIVE_LOG_WRITE, lp_clock() - log->write_began);
        eng_count(&l->statistics.batches, 1);
        eng_count(&l->statistics.written_bytes, log->write_len);
        finish_batch(l);
        if (eng_batch_due(l))
                eng_batch_start(l);
        eng_log_kick(l);
}

/* How long each has waited for its group to be written. */
static void time_waits(struct eng_local *l)
{
        const struct eng_append *append;

        l->log.write_began = lp_clock();
        TAILQ_FOREACH (append, &l->log.batch, link)
                if (append->op != NULL && append->op->submitted != 0)
                        eng_local_time(l, ENG_DRIVE_LOG_WAIT, l->log.write_began - append->op->submitted);
}

static void start_write(struct eng_local *l, uint32_t len, bool with_header)
{
        struct eng_log *log = &l->log;
        uint8_t *from = log->buffer + (with_header ? 0 : FMT_BLOCK);
        uint64_t offset = with_header ? 0 : log->current->bytes, request = lp_trace_request();

        assert(log->fd >= 0 && !log->writing);
        assert(len > 0 && len <= ENG_BATCH_BYTES && len % FMT_BLOCK == 0);
        assert(!with_header || log->current->bytes == FMT_BLOCK);
        log->current->bytes += len;
        log->write_header = with_header;
        log->header_due = false;
        log->write_len = len + (with_header ? FMT_BLOCK : 0);
        log->writing = true;
        time_waits(l);
        eng_watch_begin(l, &log->watch);
        memset(&log->io, 0, sizeof(log->io));
        log->io.done = log_written;
        eng_local_hold(l);
        lp_trace_set_request(0); /* the write is of many */
        lp_trace_at(log->write_began, LP_TRACE_LOG_WRITE, l->drive.slot, log->write_len);
        lp_write(l->drive.owner, &log->io, log->fd, from, log->write_len, offset, RWF_DSYNC);
        lp_trace_set_request(request);
}

static uint64_t memtable_bytes(const struct eng_local *l)
{
        return l->active->bytes + (l->frozen != NULL ? l->frozen->bytes : 0);
}

bool eng_log_memtable_full(const struct eng_local *l)
{
        return memtable_bytes(l) >= l->memtable_bytes * (atomic_load(&l->index_damaged) ? ENG_ROT_TAILS : 1);
}

/*
 * What is under way ends, and others' way back needs records of this drive too; so only what
 * clients begin is kept away.
 */
static void check_stall(struct eng_local *l)
{
        if (atomic_load(&l->index_damaged) && memtable_bytes(l) >= l->memtable_bytes)
                atomic_store_explicit(&l->stalled, true, memory_order_relaxed);
}

void eng_log_kick(struct eng_local *l)
{
        struct eng_log *log = &l->log;
        bool with_header = log->header_due, full;
        int rv;

        check_stall(l);
        if (log->retry_at != 0 && lp_now(l->drive.owner) < log->retry_at)
                return;
        if (log->writing || TAILQ_EMPTY(&log->queue) || eng_local_failed(l))
                return;
        full = eng_log_memtable_full(l);
        if (full)
                eng_batch_start(l);
        if (full && TAILQ_FIRST(&log->queue)->rec.type != FMT_RECORD_TERM)
                return;
        if (!fits(l)) {
                if (log->next != ENG_LOG_NEXT_READY) {
                        make_next(l);
                        return;
                }
                rv = log_begin_file(l);
                if (eng_io_again(rv))
                        return; /* the next append tries again, or the next tick */
                if (rv != 0) {
                        eng_local_fail(l, rv, "beginning log file %llu", (unsigned long long)log->next_number);
                        return;
                }
                with_header = true;
        }
        log->crc_before = log->crc;
        start_write(l, log_build(l, full), with_header);
        if (log->current->bytes > log->current->capacity / 2)
                make_next(l);
}
