/*
 * file.c - what a drive does with files besides reading and writing them: free space, freeing log
 * files and segments, making segments.
 *
 * The loop decides, the file worker does. Freeing keeps I6: a log file goes only when the durable
 * index names nothing in it and covers all of it, nobody reads it, and what its tombstones hide is
 * gone from all older files (so: it is the oldest, or has none); when it is not the oldest, a FREED
 * record goes first, so that replay can tell a freed file from a lost one, and before that an ENDS
 * record with what its header says of the end of the file before it, so that replay can tell a tear
 * from damage there. And a MARKS record that says how far each group was applied stands in a later
 * file before any file goes, so that a rebuilt index still knows the numbers that were given.
 *
 * Once a second the drive also checks that its path still leads to the folder it opened: a folder
 * moved away or remounted must not be written to unseen.
 */
#include "engine/drive/local.h"

#include "engine/drive/replay.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- free space, and is it still the same folder --------------------------------------------- */

int eng_file_look(struct eng_local *l)
{
        char name[sizeof(l->path) + 8];
        struct stat now;

        snprintf(name, sizeof(name), "%s/FORMAT", l->path);
        if (stat(name, &now) != 0)
                return errno == ENOENT || errno == ENOTDIR ? -ESTALE : -errno;
        if (now.st_dev != l->format.st_dev || now.st_ino != l->format.st_ino)
                return -ESTALE;
        return eng_space_look(l->space, l->dir_fd);
}

static void look_run(struct eng_job *job)
{
        struct eng_local *l = container_of(job, struct eng_local, file.tick_job);

        l->file.tick_result = eng_file_look(l);
}

static void look_done(struct eng_job *job)
{
        struct eng_local *l = container_of(job, struct eng_local, file.tick_job);
        int rv = l->file.tick_result;

        if (!eng_local_release(l))
                return;
        if (rv == -ESTALE) {
                atomic_store(&l->vanished, true);
                eng_local_fail(l, 0, "the folder was moved away or replaced");
        } else if (rv != 0 && !eng_io_again(rv)) {
                eng_local_fail(l, rv, "looking at the folder");
        }
        if (eng_space_free(l->space) >= l->reserve_bytes + 2 * ENG_LOG_BYTES_MIN)
                atomic_store(&l->statistics.starved, false); /* the next append that needs a file will tell */
}

void eng_file_tick(struct eng_local *l)
{
        if (l->file.tick_job.state == ENG_JOB_IDLE)
                eng_local_give(l, &l->file_worker, &l->file.tick_job, look_run, look_done);
}

/* ---- freeing --------------------------------------------------------------------------------- */

static void unlink_logs(struct eng_local *l)
{
        char name[ENG_LOGFILE_NAME_MAX];
        unsigned i;
        int rv;

        l->file.free_result = 0;
        for (i = 0; i < l->file.log_count && l->file.free_result == 0; i++) {
                eng_logfile_name(name, l->file.logs[i]->number);
                /*
                 * One after the other, oldest first: a crash never leaves a gap that no FREED
                 * record explains.
                 */
                rv = unlinkat(l->files.dir_fd, name, 0) == 0 || errno == ENOENT ? 0 : -errno;
                if (eng_io_full(rv) || eng_io_again(rv))
                        break; /* nothing was done; this one and those behind it are picked again */
                if (rv == 0 && fsync(l->files.dir_fd) != 0)
                        rv = -errno;
                l->file.free_result = rv;
        }
        while (l->file.log_count > i) {
                assert(l->file.free_bytes >= l->file.logs[l->file.log_count - 1]->capacity);
                l->file.free_bytes -= l->file.logs[--l->file.log_count]->capacity;
        }
}

/* How the file before this one ended, from this one's header. */
static int read_end(const struct eng_local *l, struct eng_log_head *look)
{
        struct eng_replay_file head = {.number = look->number};
        int rv = eng_replay_header(l->files.dir_fd, l->files.drive_id, &head);

        if (rv != 0)
                return rv;
        if (!head.begun || head.header.prev_file != look->number - 1 ||
            (look->generation != 0 && head.header.generation != look->generation))
                return -EBADMSG;
        look->crc = head.header.prev_crc;
        look->end = head.header.prev_end;
        return 0;
}

static void free_run(struct eng_job *job)
{
        struct eng_local *l = container_of(job, struct eng_local, file.free_job);
        unsigned i;

        unlink_logs(l);
        for (i = 0; i < l->file.head_count; i++)
                l->file.heads[i].result = read_end(l, &l->file.heads[i]);
        for (i = 0; i < l->file.unlink_count; i++)
                eng_segment_unlink_run(&l->file.unlinks[i]);
        eng_space_look(l->space, l->dir_fd);
}

static int note_gone(uint64_t **list, unsigned *count, unsigned *size, uint64_t number)
{
        unsigned grown = *size == 0 ? 16 : 2 * *size;
        uint64_t *items;

        if (*count == *size) {
                items = realloc(*list, grown * sizeof(*items));
                if (items == NULL)
                        return -ENOMEM;
                *list = items;
                *size = grown;
        }
        (*list)[(*count)++] = number;
        return 0;
}

static int forget_logs(struct eng_local *l)
{
        struct eng_log_file *file;
        unsigned i;
        int rv = l->file.free_result;

        for (i = 0; i < l->file.log_count && rv == 0; i++) {
                file = l->file.logs[i];
                assert(file != l->log.current && file->live_names == 0);
                rv = note_gone(&l->logs_gone, &l->log_gone_count, &l->log_gone_size, file->number);
                atomic_fetch_sub_explicit(&l->statistics.log_bytes, file->capacity, memory_order_relaxed);
                eng_log_files_remove(&l->files, file);
        }
        return rv;
}

static int forget_segments(struct eng_local *l)
{
        const struct eng_segment_job *unlinks = l->file.unlinks;
        unsigned i;
        int rv = 0;

        l->file.unlink_again = 0;
        for (i = 0; i < l->file.unlink_count && rv == 0; i++) {
                if (unlinks[i].result == -EBADMSG) /* not the file that the index means: it stays, and so does its row */
                        continue;
                if (eng_io_again(unlinks[i].result))
                        l->file.unlinks[l->file.unlink_again++] = unlinks[i];
                else if (unlinks[i].result != 0)
                        rv = unlinks[i].result;
                else
                        rv = note_gone(&l->segments_gone, &l->segment_gone_count, &l->segment_gone_size,
                                       eng_segment_job_id(&unlinks[i]));
        }
        return rv;
}

/*
 * True: of one of them, at least, it is known now. Where there was no descriptor, it is tried
 * again.
 */
static bool file_take_ends(struct eng_local *l)
{
        struct eng_log_file *file, *before;
        bool any = false;
        unsigned i;

        for (i = 0; i < l->file.head_count; i++) {
                const struct eng_log_head *head = &l->file.heads[i];

                file = head->file;
                before = TAILQ_PREV(file, eng_log_file_list, order);
                if (head->result != 0 || before == NULL || before->number != file->number - 1) {
                        file->headless = head->result != 0 && !eng_io_again(head->result);
                        continue;
                }
                before->end_crc = head->crc;
                before->end = head->end;
                eng_log_file_touch(&l->files, before);
                any = true;
        }
        l->file.head_count = 0;
        return any;
}

static void reclaim_freed(struct eng_local *l)
{
        eng_count(&l->statistics.reclaim_freed, l->file.free_bytes);
        lp_trace(LP_TRACE_RECLAIM, l->drive.slot, l->file.free_bytes);
}

static void free_done(struct eng_job *job)
{
        struct eng_local *l = container_of(job, struct eng_local, file.free_job);
        struct eng_log_file *file;
        bool more;
        int rv;

        if (!eng_local_release(l))
                return;
        TAILQ_FOREACH (file, &l->files.list, order)
                file->going = false; /* those that could not be unlinked stay */
        more = file_take_ends(l);
        rv = forget_logs(l);
        if (rv == 0)
                rv = forget_segments(l);
        if (rv != 0)
                eng_local_fail(l, rv, "freeing files");
        else
                reclaim_freed(l);
        if (rv == 0 && more)
                eng_file_free_dead(l);
}

/* All gaps are told, or those that could not be are told another time. */
static void freed_end(struct eng_local *l)
{
        struct eng_log_file *file;

        TAILQ_FOREACH (file, &l->files.list, order) {
                if (l->file.freed_short && !file->freed)
                        file->freeing = false;
                file->freed = file->freeing;
        }
}

static void freed_durable(void *arg, struct eng_append *append)
{
        struct eng_local *l = arg;

        assert(l->file.freed_in_flight > 0);
        eng_append_free(append);
        if (--l->file.freed_in_flight > 0)
                return;
        freed_end(l);
        eng_file_free_dead(l);
}

/*
 * The gap behind *after, the number of a file that stays: *after is the file behind it then. False:
 * there is none.
 */
static bool next_gap(const struct eng_log_file **after, struct fmt_freed *gap)
{
        const struct eng_log_file *file = *after;
        uint64_t last = file->number;

        while ((file = TAILQ_NEXT(file, order)) != NULL) {
                assert(file->number > last);
                if (file->freeing)
                        continue;
                *gap = (struct fmt_freed){.first = last + 1, .last = file->number - 1};
                last = file->number;
                *after = file;
                if (gap->first <= gap->last)
                        return true;
        }
        return false;
}

static const struct eng_log_file *first_that_stays(const struct eng_local *l)
{
        const struct eng_log_file *file = TAILQ_FIRST(&l->files.list);

        while (file != NULL && file->freeing)
                file = TAILQ_NEXT(file, order);
        return file;
}

_Static_assert(sizeof(struct fmt_end) == sizeof(struct fmt_freed), "a record of one holds as many as a record of the other");

/*
 * The next gaps, as many as one record may hold, and how the files before them ended, where that is
 * known. -ENOMEM.
 */
static int list_gaps(struct eng_local *l, const struct eng_log_file **after, struct eng_buf *gaps[2])
{
        unsigned most = l->file.freed_most != 0 ? l->file.freed_most : FMT_BODY_MAX / sizeof(struct fmt_freed);
        unsigned size = l->files.count < most ? l->files.count + 1 : most;
        const struct eng_log_file *before;
        struct fmt_freed gap;
        struct fmt_end end;
        unsigned i;

        for (i = 0; i < 2; i++) {
                gaps[i] = eng_buf_new(size * sizeof(struct fmt_freed));
                if (gaps[i] == NULL)
                        return -ENOMEM;
                gaps[i]->len = 0;
        }
        for (i = 0; i < size && next_gap(after, &gap); i++) {
                memcpy(gaps[1]->data + gaps[1]->len, &gap, sizeof(gap));
                gaps[1]->len += sizeof(gap);
                before = eng_log_files_find(&l->files, gap.first - 1);
                if (before == NULL || before->end_crc == 0)
                        continue;
                end = (struct fmt_end){.file = before->number, .crc = before->end_crc, .end_units = (uint32_t)(before->end / FMT_RECORD_ALIGN)};
                memcpy(gaps[0]->data + gaps[0]->len, &end, sizeof(end));
                gaps[0]->len += sizeof(end);
        }
        return 0;
}

/* ENDS before FREED: whoever finds the second knows the first. -ENOMEM. */
static int append_gaps(struct eng_local *l, struct eng_buf *const gaps[2])
{
        static const enum fmt_record_type types[2] = {FMT_RECORD_ENDS, FMT_RECORD_FREED};
        unsigned i;

        for (i = 0; i < 2; i++) {
                if (gaps[i]->len == 0)
                        continue;
                if (eng_append_own(l, types[i], gaps[i], 0, freed_durable) != 0)
                        return -ENOMEM;
                l->file.freed_in_flight++;
        }
        return 0;
}

/*
 * The numbers missing between the oldest file and the current one, those being freed among them.
 * All of them are told each time, in as many records as that takes, so when a file that holds such
 * a record is freed itself, what it said stands in newer ones. Files go when the last record is
 * durable.
 */
static void write_freed(struct eng_local *l)
{
        const struct eng_log_file *at = first_that_stays(l);
        bool more = at != NULL;

        assert(l->file.freed_in_flight == 0);
        l->file.freed_short = false;
        while (more && !l->file.freed_short) {
                struct eng_buf *gaps[2] = {NULL, NULL};

                l->file.freed_short = list_gaps(l, &at, gaps) != 0 || append_gaps(l, gaps) != 0;
                more = !l->file.freed_short && gaps[1]->len > 0;
                eng_buf_unref(gaps[0]);
                eng_buf_unref(gaps[1]);
        }
        if (l->file.freed_in_flight == 0)
                freed_end(l);
}

/* ---- marks of groups ------------------------------------------------------------------------- */

static void marks_durable(void *arg, struct eng_append *append)
{
        struct eng_local *l = arg;

        assert(l->file.marks_in_flight && l->file.marks_from >= l->file.marks_file);
        l->file.marks_file = l->file.marks_from;
        l->file.marks_in_flight = false;
        eng_append_free(append);
        eng_file_free_dead(l);
}

static struct eng_buf *list_marks(const struct eng_local *l)
{
        struct eng_buf *body = eng_buf_new(l->pgs.count * sizeof(struct fmt_mark));
        struct eng_log_pg *pg = NULL;
        struct fmt_mark mark;

        if (body == NULL)
                return NULL;
        body->len = 0;
        while ((pg = eng_pgs_next(&l->pgs, pg)) != NULL) {
                mark = (struct fmt_mark){.pg = pg->pg, .seq = pg->seen, .epoch = pg->epoch};
                if (pg->applied > mark.seq)
                        mark.seq = pg->applied;
                if (mark.seq == 0)
                        continue;
                memcpy(body->data + body->len, &mark, sizeof(mark));
                body->len += sizeof(mark);
        }
        assert(body->len <= l->pgs.count * sizeof(mark));
        return body;
}

/*
 * True: a MARKS record stands behind this file. Else one is on its way, and what was asked for is
 * asked for again when it is durable.
 */
static bool marks_behind(struct eng_local *l, const struct eng_log_file *file)
{
        struct eng_buf *body;

        if (l->file.marks_file > file->number)
                return true;
        if (l->file.marks_in_flight)
                return false;
        l->file.marks_from = l->log.current->number; /* what stands in earlier files is durable, and listed */
        body = list_marks(l);
        if (body != NULL && body->len <= FMT_BODY_MAX)
                l->file.marks_in_flight = eng_append_own(l, FMT_RECORD_MARKS, body, 0, marks_durable) == 0;
        eng_buf_unref(body);
        return false;
}

int eng_file_take_marks(struct eng_local *l, const uint8_t *body, size_t len)
{
        struct eng_log_pg *pg;
        struct fmt_mark mark;
        size_t at;

        if (len % sizeof(mark) != 0)
                return -EBADMSG;
        for (at = 0; at < len; at += sizeof(mark)) {
                memcpy(&mark, body + at, sizeof(mark));
                pg = eng_pgs_get(&l->pgs, mark.pg);
                if (pg == NULL)
                        return -ENOMEM;
                if (l->damage.there) /* a record that waited may have been among what is lost: that it is not here does not say that it was applied */
                        eng_pgs_see(pg, mark.seq, mark.epoch);
                else
                        eng_pgs_mark(pg, mark.seq, mark.epoch);
        }
        return 0;
}

/* ---- which log files go ---------------------------------------------------------------------- */

/* Nothing lives in it as far as names go, and nobody uses it. */
static bool file_is_dead(const struct eng_local *l, const struct eng_log_file *file)
{
        return file != l->log.current && file->number < l->covered.file && file->live_names == 0 && file->pins == 0;
}

/* EPOCH and TERM records it holds are copied first. True: it holds none any more. */
static bool without_epochs(struct eng_local *l, struct eng_log_file *file)
{
        if (file->epochs == 0)
                return true;
        if (!file->moving)
                file->moving = eng_epochs_move(l, file) == 0 && eng_terms_move(l, file) == 0;
        return false;
}

/*
 * True: how the file before this one ended is known, or does not matter since that one goes, too,
 * or is not its neighbour. Else this one's header is read, if that is worth trying.
 */
static bool knows_end_before(struct eng_local *l, struct eng_log_file *file)
{
        const struct eng_log_file *before = TAILQ_PREV(file, eng_log_file_list, order);

        if (before == NULL || before->freeing || before->number != file->number - 1 || before->end_crc != 0)
                return true;
        if (!file->headless && l->file.head_count < ENG_HEADS_AT_ONCE)
                l->file.heads[l->file.head_count++] = (struct eng_log_head){
                        .file = file, .number = file->number, .generation = file->generation};
        return false;
}

/*
 * Those just marked are told together with those whose headers are being read: each record tells
 * all there are.
 */
static void unmark(struct eng_local *l)
{
        struct eng_log_file *file;

        TAILQ_FOREACH (file, &l->files.list, order)
                file->freeing = file->freed;
}

/*
 * Gathers log files to be unlinked; has a FREED record written for those that are not the oldest.
 */
static void pick_logs(struct eng_local *l)
{
        struct eng_log_file *file;
        bool oldest = true, marked = false;

        TAILQ_FOREACH (file, &l->files.list, order) {
                if (l->file.log_count == ENG_FREE_AT_ONCE || file->number >= l->covered.file)
                        break;
                if (file_is_dead(l, file) && (oldest || file->tombstones == 0) && marks_behind(l, file) &&
                    without_epochs(l, file)) {
                        if (oldest || file->freed) {
                                l->file.logs[l->file.log_count++] = file;
                                continue;
                        }
                        if (l->file.freed_in_flight == 0 && !file->freeing && knows_end_before(l, file))
                                file->freeing = marked = true;
                }
                oldest = false;
        }
        if (marked && l->file.head_count > 0)
                unmark(l);
        else if (marked)
                write_freed(l);
}

static void trim_next(struct eng_local *l);

static void trim_run(struct eng_job *job)
{
        eng_segment_trim_run(&container_of(job, struct eng_local, file.trim_job)->file.trim);
}

static void trim_done(struct eng_job *job)
{
        struct eng_local *l = container_of(job, struct eng_local, file.trim_job);

        if (!eng_local_release(l))
                return;
        eng_segment_trim_end(l->segments, &l->file.trim);
        trim_next(l); /* each has a descriptor for writing until then */
}

static void trim_next(struct eng_local *l)
{
        if (!eng_local_failed(l) && l->file.trim_job.state == ENG_JOB_IDLE && eng_segment_trim_begin(l->segments, &l->file.trim))
                eng_local_give(l, &l->file_worker, &l->file.trim_job, trim_run, trim_done);
}

/* What the files picked take; from here on they are on their way. */
static void count_free(struct eng_local *l)
{
        unsigned i;

        l->file.free_bytes = 0;
        for (i = 0; i < l->file.log_count; i++) {
                assert(!l->file.logs[i]->going);
                assert(i == 0 || l->file.logs[i - 1]->number < l->file.logs[i]->number); /* oldest first */
                l->file.free_bytes += l->file.logs[i]->capacity;
                l->file.logs[i]->going = true;
        }
        for (i = 0; i < l->file.unlink_count; i++)
                l->file.free_bytes += eng_segment_job_bytes(&l->file.unlinks[i]);
}

void eng_file_free_dead(struct eng_local *l)
{
        assert(eng_local_on_loop(l));
        if (eng_local_failed(l))
                return;
        trim_next(l);
        if (l->file.free_job.state != ENG_JOB_IDLE)
                return;
        assert(l->file.unlink_again <= ENG_FREE_AT_ONCE);
        l->file.log_count = l->file.head_count = 0;
        l->file.unlink_count = l->file.unlink_again; /* there was no descriptor to look at them */
        l->file.unlink_again = 0;
        pick_logs(l);
        while (l->file.unlink_count < ENG_FREE_AT_ONCE &&
               eng_segment_unlink_begin(l->segments, &l->file.unlinks[l->file.unlink_count]))
                l->file.unlink_count++;
        count_free(l);
        if (l->file.log_count + l->file.head_count + l->file.unlink_count > 0)
                eng_local_give(l, &l->file_worker, &l->file.free_job, free_run, free_done);
}

/* ---- segments -------------------------------------------------------------------------------- */

static void make_run(struct eng_job *job)
{
        struct eng_local *l = container_of(job, struct eng_local, file.make_job);

        eng_segment_prepare_run(&l->file.segment);
        eng_space_look(l->space, l->dir_fd);
}

void eng_file_drop_made(struct eng_local *l)
{
        if (l->file.make_job.state == ENG_JOB_RAN)
                eng_segment_prepare_end(l->segments, &l->file.segment);
}

static void make_done(struct eng_job *job)
{
        struct eng_local *l = container_of(job, struct eng_local, file.make_job);
        int rv;

        if (!eng_local_release(l))
                return;
        assert(l->file.make_bytes > 0);
        eng_space_drop(l->space, l->file.make_bytes);
        l->file.make_bytes = 0;
        rv = eng_segment_prepare_end(l->segments, &l->file.segment);
        if (eng_io_again(rv)) {
                eng_reclaim_room(l, -ENOSPC); /* it comes again; WRITEs wait for the next tick */
                return;
        }
        if (rv != 0 && !eng_io_full(rv)) {
                eng_local_fail(l, rv, "making a segment");
                return;
        }
        eng_write_retry(l, rv == 0 ? 0 : -ENOSPC);
        eng_reclaim_room(l, rv == 0 ? 0 : -ENOSPC);
}

/*
 * A segment takes its space ahead, so it is here that PUTs meet the watermark: one that does not
 * fit above the reserve is made only for those who may use that. False: none is to be made.
 */
static bool may_make(struct eng_local *l, uint64_t bytes)
{
        if (eng_space_free(l->space) >= l->reserve_bytes + bytes)
                return true;
        return eng_write_refuse(l) || l->reclaim.state == ENG_RECLAIM_ROOM;
}

void eng_file_make_segment(struct eng_local *l)
{
        uint64_t bytes =
                eng_space_portion(l->space, l->reserve_bytes, eng_segments_size(l->segments), ENG_SEGMENT_BYTES_MIN);

        if (l->file.make_job.state != ENG_JOB_IDLE || !eng_segments_want_next(l->segments) || eng_local_failed(l))
                return;
        if (!may_make(l, bytes))
                return;
        assert(l->file.make_bytes == 0);
        eng_segment_prepare_begin(l->segments, &l->file.segment);
        eng_segment_prepare_size(&l->file.segment, bytes);
        l->file.make_bytes = bytes;
        eng_space_claim(l->space, bytes);
        eng_local_give(l, &l->file_worker, &l->file.make_job, make_run, make_done);
}
