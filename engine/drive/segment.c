/*
 * segment.c - the segments of one drive while it runs: allocation, pins, flushes, counts, and which
 * may be trimmed or unlinked.
 *
 * Called by the local drive on its owner loop only; nothing here blocks or does I/O (files are
 * made, truncated and unlinked by the jobs of segment_file.c, on another thread). Keeps I3 (space
 * is given out once, a sealed segment never again) and its part of I6: a segment leaves only when
 * the count of living frames is zero and nobody uses it.
 */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/drive/segment_priv.h"

static int segment_order(const struct eng_segment *a, const struct eng_segment *b)
{
        return (a->id > b->id) - (a->id < b->id);
}

RB_GENERATE(segment_tree, eng_segment, by_id, segment_order)

/* ---- totals ---------------------------------------------------------------------------------- */

void segment_count_out(struct eng_segments *set, const struct eng_segment *segment)
{
        assert(set->total.segments > 0);
        set->total.segments--;
        set->total.bytes -= segment->file_bytes;
        set->total.live_frames -= segment->live_frames;
        set->total.live_bytes -= segment->live_bytes;
        set->total.damaged -= segment->damaged;
}

void segment_count_in(struct eng_segments *set, const struct eng_segment *segment)
{
        set->total.segments++;
        set->total.bytes += segment->file_bytes;
        set->total.live_frames += segment->live_frames;
        set->total.live_bytes += segment->live_bytes;
        set->total.damaged += segment->damaged;
}

void segment_add(struct eng_segments *set, struct eng_segment *segment)
{
        struct eng_segment *there = RB_INSERT(segment_tree, &set->by_id, segment);

        assert(there == NULL);
        segment_count_in(set, segment);
}

void segment_free(struct eng_segment *segment)
{
        int none = -1;

        eng_fd_close(&segment->fd);
        segment_close_all(&none, &none, &segment->write_fd);
        free(segment);
}

/* ---- rows that are behind -------------------------------------------------------------------- */

static bool row_is_final(const struct eng_segment *segment)
{
        return segment->sealed && segment->trimmed && segment->writing == 0 && segment->indexed_to >= segment->end &&
               segment->row_sealed;
}

void segment_row_changes(struct eng_segments *set, struct eng_segment *segment)
{
        if (segment->stale)
                return;
        segment->stale = true;
        TAILQ_INSERT_TAIL(&set->stale, segment, stale_link);
        set->stale_count++;
}

static void segment_row_settled(struct eng_segments *set, struct eng_segment *segment)
{
        if (!segment->stale)
                return;
        assert(set->stale_count > 0);
        segment->stale = false;
        TAILQ_REMOVE(&set->stale, segment, stale_link);
        set->stale_count--;
}

struct eng_segment *eng_segments_each_stale(struct eng_segments *set, struct eng_segment *after)
{
        return after == NULL ? TAILQ_FIRST(&set->stale) : TAILQ_NEXT(after, stale_link);
}

unsigned eng_segments_stale(const struct eng_segments *set)
{
        return set->stale_count;
}

void eng_segments_close(struct eng_segments *set)
{
        struct eng_segment *segment;

        if (set == NULL)
                return;
        while ((segment = RB_ROOT(&set->by_id)) != NULL) {
                RB_REMOVE(segment_tree, &set->by_id, segment);
                segment_free(segment);
        }
        if (set->next != NULL)
                segment_free(set->next);
        close(set->dir_fd);
        free(set);
}

/* ---- quiet segments -------------------------------------------------------------------------- */

static bool segment_is_quiet(const struct eng_segment *segment)
{
        return segment->sealed && segment->scanned && segment->pins == 0 && !segment->unsynced;
}

static bool segment_is_dead(const struct eng_segment *segment)
{
        return segment_is_quiet(segment) && segment->live_frames == 0 && !segment->damaged;
}

static bool segment_is_long(const struct eng_segment *segment)
{
        return segment_is_quiet(segment) && !segment->trimmed;
}

void segment_note_quiet(struct eng_segments *set, struct eng_segment *segment)
{
        if (segment->quiet || !(segment_is_dead(segment) || segment_is_long(segment)))
                return;
        segment->quiet = true;
        TAILQ_INSERT_TAIL(&set->quiet, segment, quiet_link);
}

static void segment_unquiet(struct eng_segments *set, struct eng_segment *segment)
{
        assert(segment->quiet);
        segment->quiet = false;
        TAILQ_REMOVE(&set->quiet, segment, quiet_link);
}

/*
 * The first segment of the list of which is() is true; those that are neither dead nor long any
 * more leave the list on the way.
 */
static struct eng_segment *segment_pick(struct eng_segments *set, bool (*is)(const struct eng_segment *segment))
{
        struct eng_segment *segment, *next;

        for (segment = TAILQ_FIRST(&set->quiet); segment != NULL; segment = next) {
                next = TAILQ_NEXT(segment, quiet_link);
                if (is(segment)) {
                        segment_unquiet(set, segment);
                        return segment;
                }
                if (!segment_is_dead(segment) && !segment_is_long(segment))
                        segment_unquiet(set, segment);
        }
        return NULL;
}

static void segment_job_for(struct eng_segments *set, const struct eng_segment *segment, struct eng_segment_job *job)
{
        memset(job, 0, sizeof(*job));
        job->set = set;
        job->dir_fd = set->dir_fd;
        job->id = segment->id;
        job->generation = segment->generation;
        job->end = segment->end;
        job->bytes = segment->file_bytes;
        job->read_fd = job->direct_fd = -1;
        job->write_fd = segment->write_fd;
        memcpy(job->drive_id, set->drive_id, FMT_ID);
}

bool eng_segment_unlink_begin(struct eng_segments *set, struct eng_segment_job *job)
{
        struct eng_segment *segment = segment_pick(set, segment_is_dead);

        if (segment == NULL)
                return false;
        assert(segment->writing == 0 && segment != set->active); /* I6 */
        segment_job_for(set, segment, job);
        job->look = !segment->fd.checked;
        eng_fd_take(&segment->fd, &job->read_fd, &job->direct_fd);
        RB_REMOVE(segment_tree, &set->by_id, segment);
        segment_count_out(set, segment);
        segment_row_settled(set, segment);
        free(segment); /* its descriptors go with the job */
        return true;
}

uint64_t eng_segment_job_id(const struct eng_segment_job *job)
{
        return job->id;
}

uint64_t eng_segment_job_bytes(const struct eng_segment_job *job)
{
        return job->bytes;
}

bool eng_segment_trim_begin(struct eng_segments *set, struct eng_segment_job *job)
{
        struct eng_segment *segment = segment_pick(set, segment_is_long);

        if (segment == NULL)
                return false;
        segment_job_for(set, segment, job);
        segment->trimmed = true; /* tried once: a failure costs space until the next start, nothing else */
        segment->write_fd = -1;
        eng_segment_pin(segment);
        return true;
}

void eng_segment_trim_end(struct eng_segments *set, struct eng_segment_job *job)
{
        struct eng_segment *segment = eng_segment_find(set, job->id);

        assert(segment != NULL);
        segment_count_out(set, segment);
        if (job->result == 0)
                segment->file_bytes = segment->end;
        segment_count_in(set, segment);
        if (!row_is_final(segment))
                segment_row_changes(set, segment); /* the next batch says that it is sealed */
        eng_segment_unpin(set, segment);
}

/* ---- the next one ---------------------------------------------------------------------------- */

bool eng_segments_want_next(const struct eng_segments *set)
{
        return set->next == NULL && !set->preparing;
}

void eng_segment_prepare_begin(struct eng_segments *set, struct eng_segment_job *job)
{
        assert(eng_segments_want_next(set));
        memset(job, 0, sizeof(*job));
        job->set = set;
        job->dir_fd = set->dir_fd;
        job->id = set->next_id;
        job->bytes = set->segment_bytes;
        job->read_fd = job->direct_fd = job->write_fd = -1;
        memcpy(job->drive_id, set->drive_id, FMT_ID);
        set->preparing = true;
}

void eng_segment_prepare_size(struct eng_segment_job *job, uint64_t bytes)
{
        bytes = bytes / FMT_BLOCK * FMT_BLOCK;
        job->bytes = bytes < ENG_SEGMENT_BYTES_MIN ? ENG_SEGMENT_BYTES_MIN : bytes;
}

int eng_segments_folder(const struct eng_segments *set)
{
        return set->dir_fd;
}

uint64_t eng_segments_size(const struct eng_segments *set)
{
        return set->segment_bytes;
}

int eng_segment_prepare_end(struct eng_segments *set, struct eng_segment_job *job)
{
        struct eng_segment *segment;

        assert(set->preparing && set->next == NULL && job->id == set->next_id);
        set->preparing = false;
        if (job->result != 0)
                return job->result;
        /*
         * The file is there under its name: the number is used up even if memory is not to be had.
         */
        set->next_id = job->id + 1;
        segment = calloc(1, sizeof(*segment));
        if (segment == NULL) {
                segment_close_all(&job->read_fd, &job->direct_fd, &job->write_fd);
                return -ENOMEM;
        }
        segment->id = job->id;
        segment->generation = job->generation;
        eng_fd_init(&segment->fd, ENG_FD_SEGMENT);
        segment->fd.checked = true;
        segment->write_fd = job->write_fd;
        segment->end = SEGMENT_FIRST_FRAME;
        segment->indexed_to = SEGMENT_FIRST_FRAME;
        segment->file_bytes = job->bytes;
        segment->scanned = true;
        set->next = segment;
        return 0;
}

/* ---- writing --------------------------------------------------------------------------------- */

static void segment_seal(struct eng_segments *set, struct eng_segment *segment)
{
        assert(!segment->sealed && segment != set->active && segment != set->next);
        segment->sealed = true;
        segment_row_changes(set, segment);
        segment_note_quiet(set, segment);
}

int eng_segment_reserve(struct eng_segments *set, uint32_t bytes, struct eng_segment **out, uint64_t *offset)
{
        struct eng_segment *active = set->active;

        assert(bytes > FMT_BLOCK && bytes <= FMT_BLOCK + FMT_UNIT_MAX && bytes % FMT_BLOCK == 0);
        if (active != NULL && active->end + bytes > active->file_bytes) {
                set->active = NULL;
                segment_seal(set, active);
                active = NULL;
        }
        if (active == NULL) {
                if (set->next == NULL)
                        return -EAGAIN;
                active = set->active = set->next;
                set->next = NULL;
                segment_add(set, active);
        }
        assert(!active->sealed && active->write_fd >= 0); /* I3: as the next */
        assert(active->end >= SEGMENT_FIRST_FRAME && active->end % FMT_BLOCK == 0);
        assert(active->end + bytes <= active->file_bytes);
        if (active->writing == 0)
                active->whole_to = active->end;
        *out = active;
        *offset = active->end;
        segment_row_changes(set, active);
        active->end += bytes;
        active->writing++;
        eng_segment_pin(active);
        return 0;
}

bool eng_segment_fits(const struct eng_segments *set, uint32_t bytes)
{
        return set->active != NULL && set->active->end + bytes <= set->active->file_bytes;
}

uint64_t eng_segments_room(const struct eng_segments *set)
{
        uint64_t active = set->active != NULL ? set->active->file_bytes - set->active->end : 0;

        return active + (set->next != NULL ? set->next->file_bytes - set->next->end : 0);
}

void eng_segments_seal_dead(struct eng_segments *set)
{
        struct eng_segment *active = set->active;

        if (active == NULL || active->writing > 0 || active->end == SEGMENT_FIRST_FRAME ||
            active->live_bytes > (active->end - SEGMENT_FIRST_FRAME) / 2)
                return;
        set->active = NULL;
        segment_seal(set, active);
}

static void note_unsynced(struct eng_segments *set, struct eng_segment *segment)
{
        if (segment->unsynced)
                return;
        segment->unsynced = true;
        TAILQ_INSERT_TAIL(&set->unsynced, segment, unsynced_link);
}

void eng_segment_written(struct eng_segments *set, struct eng_segment *segment, uint32_t bytes, bool ok)
{
        assert(segment->writing > 0 && segment->pins >= segment->writing);
        segment->writing--;
        if (ok) {
                eng_segment_found_living(set, segment, bytes);
                note_unsynced(set, segment);
        }
        eng_segment_unpin(set, segment);
}

unsigned eng_segments_take_unsynced(struct eng_segments *set, struct eng_segment **out, unsigned max)
{
        struct eng_segment *segment;
        unsigned n = 0;

        while (n < max && (segment = TAILQ_FIRST(&set->unsynced)) != NULL) {
                assert(segment->unsynced && segment->write_fd >= 0);
                TAILQ_REMOVE(&set->unsynced, segment, unsynced_link);
                segment->unsynced = false;
                eng_segment_pin(segment);
                out[n++] = segment;
        }
        return n;
}

bool eng_segments_unsynced(const struct eng_segments *set)
{
        return !TAILQ_EMPTY(&set->unsynced);
}

int eng_segments_flush(struct eng_segments *set)
{
        struct eng_segment *segment;

        while ((segment = TAILQ_FIRST(&set->unsynced)) != NULL) {
                if (fdatasync(segment->write_fd) != 0)
                        return -errno;
                TAILQ_REMOVE(&set->unsynced, segment, unsynced_link);
                segment->unsynced = false;
        }
        return 0;
}

void eng_segment_synced(struct eng_segments *set, struct eng_segment *segment, bool asked)
{
        if (!asked)
                note_unsynced(set, segment);
        eng_segment_unpin(set, segment);
}

void eng_segment_dead(struct eng_segments *set, struct eng_segment *segment, uint64_t bytes)
{
        segment_count_out(set, segment);
        if (segment->live_frames == 0 || segment->live_bytes < bytes) {
                segment->damaged = true; /* the counts came from the index and are wrong: what lives is not known (I6) */
        } else {
                segment->live_frames--;
                segment->live_bytes -= bytes;
        }
        segment_count_in(set, segment);
        segment_note_quiet(set, segment);
}

void eng_segment_set_indexed(struct eng_segments *set, struct eng_segment *segment, const struct fmt_index_segment *row)
{
        assert(row->segment == segment->id && row->indexed_to <= segment->end);
        if (row->indexed_to > segment->indexed_to)
                segment->indexed_to = row->indexed_to;
        segment->row_sealed = row->sealed != 0;
        if (row_is_final(segment))
                segment_row_settled(set, segment);
}

void eng_segment_seen(struct eng_segments *set, struct eng_segment *segment, uint64_t file_bytes, int looked)
{
        segment_count_out(set, segment);
        segment->damaged |= looked != 0;
        segment->file_bytes = file_bytes;
        if (segment->sealed && segment->trimmed && !segment->damaged && file_bytes > segment->end)
                segment->trimmed = false; /* a process before this one was to give its tail back, and ended */
        segment_count_in(set, segment);
        segment_note_quiet(set, segment);
}

/* ---- looking --------------------------------------------------------------------------------- */

void eng_segments_beyond(struct eng_segments *set, uint64_t id)
{
        assert(!set->preparing);
        if (set->next_id <= id)
                set->next_id = id + 1;
}

struct eng_segment *eng_segment_find(struct eng_segments *set, uint64_t id)
{
        struct eng_segment key = {.id = id};

        return RB_FIND(segment_tree, &set->by_id, &key);
}

struct eng_segment *eng_segment_from(struct eng_segments *set, uint64_t id)
{
        struct eng_segment key = {.id = id};

        return RB_NFIND(segment_tree, &set->by_id, &key);
}

void eng_segment_pin(struct eng_segment *segment)
{
        segment->pins++;
}

void eng_segment_unpin(struct eng_segments *set, struct eng_segment *segment)
{
        assert(segment->pins > 0);
        segment->pins--;
        segment_note_quiet(set, segment);
}

void eng_segments_set_live(struct eng_segments *set, uint64_t id, uint64_t live_frames, uint64_t live_bytes)
{
        struct eng_segment *segment = eng_segment_find(set, id);

        if (segment == NULL)
                return;
        segment_count_out(set, segment);
        segment->live_frames = live_frames;
        segment->live_bytes = live_bytes;
        segment_count_in(set, segment);
        segment_note_quiet(set, segment);
}

void eng_segment_found_living(struct eng_segments *set, struct eng_segment *segment, uint64_t bytes)
{
        segment->live_frames++;
        segment->live_bytes += bytes;
        set->total.live_frames++;
        set->total.live_bytes += bytes;
}

void eng_segment_row(const struct eng_segment *segment, struct fmt_index_segment *out)
{
        assert(segment->indexed_to <= segment->end);
        memset(out, 0, sizeof(*out));
        out->segment = segment->id;
        out->generation = segment->generation;
        out->sealed = segment->sealed && segment->trimmed && !segment->damaged;
        out->end = segment->end;
        out->indexed_to = segment->writing == 0 ? segment->end : segment->indexed_to;
        out->live_frames = segment->live_frames;
        out->live_bytes = segment->live_bytes;
}

struct eng_segment *eng_segments_each(struct eng_segments *set, struct eng_segment *after)
{
        return after == NULL ? RB_MIN(segment_tree, &set->by_id) : RB_NEXT(segment_tree, &set->by_id, after);
}

void eng_segments_info(const struct eng_segments *set, struct eng_segments_info *out)
{
        *out = set->total;
        if (set->next != NULL)
                out->bytes += set->next->file_bytes;
}
