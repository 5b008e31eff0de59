/*
 * reclaim.c - when a drive gets dead space back, from which file, and how fast.
 *
 * Looked at once a second, and when a victim is done with. The file with the most dead bytes per
 * living one is taken first, if it is dead enough: half, while the file system has a quarter free,
 * and less the less there is. One victim at a time, and the next one only when the index durably
 * names nothing in it, so that copies never take more than one file's worth ahead of what they
 * free.
 *
 * Log files: a file whose records hide older ones (tombstones) may go only when all older files are
 * gone. So any file without tombstones may be the victim, or else the oldest; and when nothing else
 * is dead enough but the log as a whole is, the oldest goes on that account: one round through the
 * log frees all that is dead in it, at a cost that its dead part bounds.
 *
 * The rate is the operator's at leisure, four times that while nothing else is asked of the drive,
 * and rises without bound as free space goes towards the reserve: a PUT must not be refused for
 * dead space. owner: the loop.
 */
#include "engine/drive/local.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#define DEAD_AT_LEISURE 50u /* percent */
#define DEAD_AT_LEAST   8u
#define ROOMY_PARTS     4u /* a quarter of the file system free: at leisure */
#define URGENT_PARTS    16u
#define BURST_NS        100000000ull
#define PAUSE_MAX_NS    1000000000ull
#define RETRY_NS        3000000000ull
#define MEMTABLE_WAIT_NS    20000000ull
#define NAME_OVERHEAD   192u /* what a living value takes in its file beside its own bytes: header, mutation, rounding */

static struct eng_local *of_timer(struct lp_timer *timer)
{
        return container_of(timer, struct eng_local, reclaim.timer);
}

/* ---- how short of space ---------------------------------------------------------------------- */

/* Free above the reserve, as a part of ROOMY: 0 none .. 1024 enough. */
static unsigned ease(const struct eng_local *l, unsigned parts)
{
        uint64_t total = atomic_load_explicit(&l->space->total, memory_order_relaxed);
        uint64_t left = eng_space_free(l->space), roomy = total / parts;

        left = left > l->reserve_bytes ? left - l->reserve_bytes : 0;
        if (left >= roomy || roomy == 0)
                return 1024;
        return (unsigned)(left * 1024 / roomy);
}

static unsigned dead_wanted(const struct eng_local *l)
{
        if (l->reclaim.dead_percent != 0)
                return l->reclaim.dead_percent;
        return DEAD_AT_LEAST + (DEAD_AT_LEISURE - DEAD_AT_LEAST) * ease(l, ROOMY_PARTS) / 1024;
}

/* Bytes a second; UINT64_MAX: no bound. */
static uint64_t rate_now(const struct eng_local *l)
{
        bool busy = l->writes.count > 0 || l->log.queue_bytes > 0;
        unsigned at = ease(l, URGENT_PARTS);
        uint64_t rate = l->reclaim.rate;

        if (rate == UINT64_MAX || at < 256)
                return UINT64_MAX;
        rate = rate > UINT64_MAX / 4096 ? UINT64_MAX / 4096 : rate;
        return (busy ? rate : 4 * rate) * 1024 / at;
}

/* ---- victims --------------------------------------------------------------------------------- */

/* Of size bytes live are living. */
static unsigned dead_percent(uint64_t live, uint64_t size)
{
        return live >= size || size == 0 ? 0 : (unsigned)((size - live) * 100 / size);
}

static bool segment_eligible(const struct eng_segment *segment)
{
        return segment->sealed && !segment->damaged && !segment->kept && segment->live_frames > 0 &&
               segment->writing == 0 && !segment->unsynced && segment->indexed_to >= segment->end;
}

/*
 * Nothing of a victim is given back before all that lives in it is elsewhere: one for which there
 * is no room would only fill the drive, to its last byte.
 */
static bool reclaim_has_room(const struct eng_local *l, const struct eng_segment *segment)
{
        return segment->live_bytes + ENG_LOG_BYTES_MIN <= eng_segments_room(l->segments) + eng_space_free(l->space);
}

static struct eng_segment *best_segment(struct eng_local *l, unsigned *dead)
{
        struct eng_segment *segment = NULL, *best = NULL;
        unsigned percent;

        *dead = 0;
        while ((segment = eng_segments_each(l->segments, segment)) != NULL) {
                percent = dead_percent(segment->live_bytes, segment->end);
                if (!segment_eligible(segment) || percent <= *dead || !reclaim_has_room(l, segment))
                        continue;
                *dead = percent;
                best = segment;
        }
        return best;
}

static uint64_t log_live(const struct eng_log_file *file)
{
        return file->live_bytes + file->live_names * NAME_OVERHEAD;
}

static bool log_closed(const struct eng_local *l, const struct eng_log_file *file)
{
        return file != l->log.current && file->number < l->covered.file;
}

static bool log_eligible(const struct eng_local *l, const struct eng_log_file *file)
{
        return file->live_names > 0 && !file->kept && lp_now(l->drive.owner) >= file->not_before;
}

static struct eng_log_file *best_log(struct eng_local *l, unsigned wanted, unsigned *dead)
{
        struct eng_log_file *file, *best = NULL, *oldest = TAILQ_FIRST(&l->files.list);
        uint64_t live = 0, size = 0;
        unsigned percent;

        *dead = 0;
        TAILQ_FOREACH (file, &l->files.list, order) {
                if (!log_closed(l, file))
                        break;
                live += log_live(file);
                size += file->capacity;
                percent = dead_percent(log_live(file), file->capacity);
                if (!log_eligible(l, file) || (file != oldest && file->tombstones > 0) || percent <= *dead)
                        continue;
                *dead = percent;
                best = file;
        }
        percent = dead_percent(live, size);
        if (*dead < wanted && percent >= wanted && log_eligible(l, oldest)) {
                *dead = percent;
                best = oldest;
        }
        return best;
}

static void reclaim_begin(struct eng_local *l)
{
        struct eng_reclaim *rc = &l->reclaim;
        unsigned wanted = dead_wanted(l), segment_dead, log_dead;
        struct eng_segment *segment = best_segment(l, &segment_dead);
        struct eng_log_file *file = best_log(l, wanted, &log_dead);
        int rv = 0;

        assert(rc->state == ENG_RECLAIM_IDLE && rc->segment == NULL && rc->file == NULL);
        rc->incomplete = rc->look = false;
        if (segment != NULL && segment_dead >= wanted &&
            (file == NULL || segment_dead >= log_dead || log_dead < wanted))
                rv = eng_reclaim_segment(l, segment);
        else if (file != NULL && log_dead >= wanted)
                rv = eng_reclaim_log(l, file);
        if (rv != 0)
                rc->retry_at = lp_now(l->drive.owner) + RETRY_NS; /* memory: later */
}

/* ---- pace ------------------------------------------------------------------------------------ */

static void pause_over(struct lp_timer *timer)
{
        struct eng_local *l = of_timer(timer);

        assert(eng_local_on_loop(l));
        if (!eng_local_failed(l) && l->reclaim.state == ENG_RECLAIM_PAUSE)
                eng_reclaim_pace(l, 0, l->reclaim.after_pause);
}

void eng_reclaim_wait(struct eng_local *l, uint64_t ns, void (*step)(struct eng_local *l))
{
        struct eng_reclaim *rc = &l->reclaim;

        assert(rc->segment != NULL || rc->file != NULL);
        rc->state = ENG_RECLAIM_PAUSE;
        rc->after_pause = step;
        rc->timer.expired = pause_over;
        lp_timer_start(l->drive.owner, &rc->timer, ns < PAUSE_MAX_NS ? ns + 1 : PAUSE_MAX_NS);
}

/* What is moved waits in the tail for the index; appends have the same bound. */
static bool memtable_full(const struct eng_local *l)
{
        return l->active->bytes + (l->frozen != NULL ? l->frozen->bytes : 0) >= l->memtable_bytes;
}

static void reclaim_refill(struct eng_local *l, uint64_t rate)
{
        struct eng_reclaim *rc = &l->reclaim;
        uint64_t now = lp_now(l->drive.owner), past = now - rc->refilled;
        int64_t most = (int64_t)(rate / (1000000000ull / BURST_NS));

        rc->refilled = now;
        if (past > 1000000000ull)
                past = 1000000000ull;
        rc->tokens += (int64_t)((double)rate * (double)past / 1e9);
        if (rc->tokens > most)
                rc->tokens = most;
}

void eng_reclaim_pace(struct eng_local *l, uint64_t bytes, void (*step)(struct eng_local *l))
{
        struct eng_reclaim *rc = &l->reclaim;
        uint64_t rate = rate_now(l);

        if (memtable_full(l)) {
                eng_batch_start(l);
                eng_reclaim_wait(l, MEMTABLE_WAIT_NS, step);
                return;
        }
        if (rate == UINT64_MAX) {
                rc->tokens = 0;
                rc->refilled = lp_now(l->drive.owner);
                step(l);
                return;
        }
        rc->tokens -= (int64_t)bytes;
        reclaim_refill(l, rate);
        if (rc->tokens >= 0)
                step(l);
        else
                eng_reclaim_wait(l, (uint64_t)((double)-rc->tokens / (double)(rate + 1) * 1e9), step);
}

/* ---- before and after one victim ------------------------------------------------------------- */

static void victim_end(struct eng_local *l)
{
        struct eng_reclaim *rc = &l->reclaim;

        rc->state = ENG_RECLAIM_IDLE;
        rc->segment_id = rc->file_number = 0;
}

void eng_reclaim_passed(struct eng_local *l)
{
        struct eng_reclaim *rc = &l->reclaim;

        assert((rc->segment != NULL) != (rc->file != NULL)); /* one victim at a time */
        assert(rc->state != ENG_RECLAIM_IDLE && rc->state != ENG_RECLAIM_SETTLE);
        if (rc->segment != NULL) {
                eng_count(&l->statistics.reclaim_damaged, rc->copy.damaged);
                eng_segment_unpin(l->segments, rc->segment);
                eng_segment_copy_end(&rc->copy);
                rc->segment = NULL;
        }
        if (rc->file != NULL) {
                assert(rc->file->pins > 0 && rc->out == 0);
                rc->file->pins--;
                eng_log_move_end(&rc->move);
                rc->file = NULL;
        }
        rc->state = ENG_RECLAIM_SETTLE;
        rc->settle_batch = l->batches_begun + !eng_memtable_empty(l->active);
        eng_batch_start(l);
        eng_reclaim_settled(l);
}

/* All that the pass has changed is in the index: is the victim empty? */
static void reclaim_judge(struct eng_local *l)
{
        struct eng_reclaim *rc = &l->reclaim;
        struct eng_segment *segment = rc->segment_id != 0 ? eng_segment_find(l->segments, rc->segment_id) : NULL;
        struct eng_log_file *file = rc->file_number != 0 ? eng_log_files_find(&l->files, rc->file_number) : NULL;

        assert(rc->state == ENG_RECLAIM_SETTLE && rc->segment == NULL && rc->file == NULL);
        if (rc->incomplete && file != NULL)
                file->not_before = lp_now(l->drive.owner) + RETRY_NS;
        else if (rc->incomplete)
                rc->retry_at = lp_now(l->drive.owner) + RETRY_NS; /* no room, or no memory */
        if (!rc->incomplete && segment != NULL && segment->live_frames > 0)
                segment->kept = true;
        if (!rc->incomplete && file != NULL && file->live_names > 0) {
                file->kept = true;
                eng_count(&l->statistics.reclaim_damaged, file->live_names);
        }
        victim_end(l);
}

void eng_reclaim_settled(struct eng_local *l)
{
        struct eng_reclaim *rc = &l->reclaim;

        if (eng_local_failed(l) || rc->off)
                return;
        if (rc->state == ENG_RECLAIM_SETTLE) {
                if (l->batches_ended < rc->settle_batch)
                        return;
                reclaim_judge(l);
                rc->look = true;
        }
        if (rc->state == ENG_RECLAIM_IDLE && rc->look && lp_now(l->drive.owner) >= rc->retry_at)
                reclaim_begin(l);
}

void eng_reclaim_tick(struct eng_local *l)
{
        if (eng_local_failed(l) || l->reclaim.off)
                return;
        if (eng_space_free(l->space) < 2 * l->reserve_bytes)
                eng_segments_seal_dead(l->segments);
        if (l->reclaim.state == ENG_RECLAIM_SETTLE)
                eng_batch_start(l);
        eng_reclaim_settled(l);
}

/* ---- life ------------------------------------------------------------------------------------ */

int eng_reclaim_open(struct eng_local *l)
{
        struct eng_reclaim *rc = &l->reclaim;

        rc->off = l->options.reclaim_rate == ENG_RECLAIM_OFF;
        rc->rate = l->options.reclaim_rate != 0 ? l->options.reclaim_rate : ENG_RECLAIM_RATE_DEFAULT;
        rc->dead_percent = l->options.reclaim_dead_percent;
        return eng_worker_start(&rc->worker, l->drive.owner, "drive-reclaim");
}

void eng_reclaim_stop(struct eng_local *l)
{
        eng_worker_stop(&l->reclaim.worker);
        lp_timer_stop(l->drive.owner, &l->reclaim.timer);
        if (l->reclaim.state == ENG_RECLAIM_FLUSH)
                eng_sync_forget(l, &l->reclaim.sync);
}

void eng_reclaim_free(struct eng_local *l)
{
        eng_segment_copy_end(&l->reclaim.copy);
        eng_log_move_end(&l->reclaim.move);
}
