/*
 * reclaim_segment.c - one mostly dead segment: its living frames are written anew, and the index
 * told.
 *
 *   headers (worker) -> which live (loop) -> load, verify (worker) -> write -> SYNC -> places (loop) -> load ... -> headers ... -> end
 *
 * Frames go into the segment that is being appended to, like any WRITE, with a new header. Only
 * after the SYNC does the tail get the new place, and only if the index still names the old one: a
 * frame discarded meanwhile is dead in both. The index batch that holds the new places takes the
 * old ones off the victim's count; with none left file.c unlinks it, unless a read has it pinned.
 *
 * A crash leaves copies that the index does not name. They carry FMT_FRAME_MOVED, and are made only
 * of frames that the index knew durably. So a scan takes no notice of them while the index is whole
 * - it names the frame they were made of, or that was discarded - and only an index that is built
 * anew takes them in (open.c).
 *
 * owner: the loop, but for what segment_copy.c does on the worker.
 */
#include "engine/drive/local.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "engine/drive/frame.h"

#define OF(member, at) (container_of((at), struct eng_local, reclaim.member))

static void headers_start(struct eng_local *l);
static void load_start(struct eng_local *l);
static void write_some(struct eng_local *l);

static uint32_t frame_bytes(const struct eng_copy_frame *frame)
{
        return FMT_BLOCK + frame->payload_len;
}

/*
 * 1: the frame of the victim is the one that counts. 0; ENG_INDEX_ABSENT: not to be said without
 * reading a page.
 */
static int reclaim_segment_lives(struct eng_local *l, const struct eng_copy_frame *frame)
{
        struct eng_location location;
        int rv = eng_location_find(l, frame->object_id, frame->stripe, frame->shard, &location);

        if (rv == ENG_INDEX_ABSENT)
                return rv;
        return rv == 0 && location.segment == l->reclaim.segment_id && location.offset == frame->position &&
               location.payload_len == frame->payload_len;
}

static void reclaim_segment_give_up(struct eng_local *l)
{
        l->reclaim.incomplete = true;
        eng_reclaim_passed(l);
}

/* ---- places ---------------------------------------------------------------------------------- */

static void one_dead(struct eng_local *l, uint64_t id, uint64_t bytes)
{
        struct eng_segment *segment = eng_segment_find(l->segments, id);

        if (segment != NULL)
                eng_segment_dead(l->segments, segment, bytes);
}

static void lost_copy(struct eng_local *l, const struct eng_copy_frame *frame)
{
        one_dead(l, frame->to_segment, frame_bytes(frame));
}

static int reclaim_segment_enter(struct eng_local *l, const struct eng_copy_frame *frame)
{
        struct eng_location old, location = {.segment = frame->to_segment,
                                       .offset = frame->to_position,
                                       .payload_len = frame->payload_len,
                                       .stripe = frame->stripe,
                                       .shard = frame->shard,
                                       .key_hash = frame->key_hash};
        int rv;

        rv = reclaim_segment_lives(l, frame);
        if (rv != 1) { /* ABSENT: it was there when the frame was written. The victim is tried again */
                l->reclaim.incomplete |= rv != 0;
                lost_copy(l, frame);
                return 0;
        }
        eng_count(&l->statistics.reclaim_copied, frame_bytes(frame));
        rv = eng_memtable_location(l->active, frame->object_id, &location, &old);
        if (rv == 1)
                one_dead(l, old.segment, eng_location_bytes(&old));
        return rv < 0 ? rv : 0;
}

static void reclaim_segment_synced(struct eng_op *op)
{
        struct eng_local *l = OF(sync, op);
        struct eng_reclaim *rc = &l->reclaim;
        uint64_t bytes = 0;
        unsigned i;
        int rv = op->result;

        if (!eng_local_release(l) || eng_local_failed(l))
                return;
        assert(rc->state == ENG_RECLAIM_FLUSH);
        for (i = rc->copy.loaded_from; i < rc->copy.loaded_to && rv == 0; i++) {
                if (rc->copy.frames[i].to_segment == 0)
                        continue;
                bytes += frame_bytes(&rc->copy.frames[i]);
                rv = reclaim_segment_enter(l, &rc->copy.frames[i]);
        }
        if (rv == -EAGAIN) { /* no memory for a flush: what was written stays dead space */
                for (i = rc->copy.loaded_from; i < rc->copy.loaded_to; i++)
                        if (rc->copy.frames[i].to_segment != 0)
                                lost_copy(l, &rc->copy.frames[i]);
                reclaim_segment_give_up(l);
                return;
        }
        if (rv != 0) {
                eng_local_fail(l, rv, "moving frames");
                return;
        }
        if (eng_batch_due(l))
                eng_batch_start(l);
        if (rc->incomplete)
                eng_reclaim_passed(l);
        else
                eng_reclaim_pace(l, 2 * bytes, load_start);
}

/* ---- writing --------------------------------------------------------------------------------- */

static void flush(struct eng_local *l)
{
        struct eng_reclaim *rc = &l->reclaim;
        unsigned i;

        for (i = rc->copy.loaded_from; i < rc->copy.loaded_to && rc->copy.frames[i].to_segment == 0; i++)
                ;
        if (i == rc->copy.loaded_to) { /* nothing was written */
                if (rc->incomplete)
                        eng_reclaim_passed(l);
                else
                        load_start(l);
                return;
        }
        rc->state = ENG_RECLAIM_FLUSH;
        eng_sync_own(l, &rc->sync, reclaim_segment_synced);
}

static void run_written(struct lp_io *io, int res)
{
        struct eng_local *l = OF(io, io);
        struct eng_reclaim *rc = &l->reclaim;
        bool ok = res >= 0 && (uint32_t)res == rc->run_bytes, again;
        unsigned i;

        if (!eng_local_release(l))
                return;
        assert(rc->state == ENG_RECLAIM_WRITE && rc->run_first < rc->run_end);
        eng_watch_end(l, &rc->watch);
        for (i = rc->run_first; i < rc->run_end; i++)
                eng_segment_written(l->segments, rc->run_to, frame_bytes(&rc->copy.frames[i]), ok);
        again = eng_io_again(res) && res != -ECANCELED;
        if (!ok && (res >= 0 || eng_io_full(res) || again) && !eng_local_failed(l)) { /* no room: what was written before counts, the rest waits */
                for (i = rc->run_first; i < rc->run_end; i++)
                        rc->copy.frames[i].to_segment = 0;
                rc->incomplete = true;
                flush(l);
                return;
        }
        if (!ok)
                eng_local_fail(l, res < 0 ? res : -EIO, "writing segment %llu", (unsigned long long)rc->run_to->id);
        if (eng_local_failed(l))
                return;
        eng_count(&l->statistics.written_bytes, rc->run_bytes);
        write_some(l);
}

/* The next place, with the header rewritten for it. */
static int location_one(struct eng_local *l, struct eng_copy_frame *frame)
{
        struct fmt_frame *header = (struct fmt_frame *)(l->reclaim.copy.buffer + frame->at);
        struct eng_frame_where where;
        struct eng_segment *to;
        uint64_t position;
        int rv = eng_segment_reserve(l->segments, frame_bytes(frame), &to, &position);

        eng_file_make_segment(l);
        if (rv != 0)
                return rv;
        where = (struct eng_frame_where){.segment = to->id, .generation = to->generation, .position = position};
        memcpy(where.drive_id, l->files.drive_id, FMT_ID);
        header->flags |= FMT_FRAME_MOVED;
        eng_frame_locate(header, &where);
        frame->to_segment = to->id;
        frame->to_position = position;
        l->reclaim.run_to = to;
        return 0;
}

/*
 * Gathers frames that lie side by side in the buffer and will in the segment. 0: there is a run (or
 * none is left); -EAGAIN: no segment.
 */
static int reclaim_segment_gather(struct eng_local *l)
{
        struct eng_reclaim *rc = &l->reclaim;
        struct eng_copy_frame *frame;
        int rv;

        rc->run_bytes = 0;
        for (; rc->cursor < rc->copy.loaded_to; rc->cursor++) {
                frame = &rc->copy.frames[rc->cursor];
                if (!frame->wanted || !frame->good || reclaim_segment_lives(l, frame) == 0) {
                        if (rc->run_bytes > 0)
                                return 0;
                        continue;
                }
                if (rc->run_bytes > 0 && !eng_segment_fits(l->segments, frame_bytes(frame)))
                        return 0;
                rv = location_one(l, frame);
                if (rv != 0)
                        return rv;
                if (rc->run_bytes == 0)
                        rc->run_first = rc->cursor;
                assert(frame->at == rc->copy.frames[rc->run_first].at + rc->run_bytes);
                assert(frame->to_segment == rc->copy.frames[rc->run_first].to_segment &&
                       frame->to_position == rc->copy.frames[rc->run_first].to_position + rc->run_bytes);
                rc->run_end = rc->cursor + 1;
                rc->run_bytes += frame_bytes(frame);
        }
        return 0;
}

static void write_some(struct eng_local *l)
{
        struct eng_reclaim *rc = &l->reclaim;
        int rv = reclaim_segment_gather(l);

        if (rv == -EAGAIN) {
                rc->state = ENG_RECLAIM_ROOM;
                eng_file_make_segment(l);
                return;
        }
        if (rc->run_bytes == 0) {
                flush(l);
                return;
        }
        rc->state = ENG_RECLAIM_WRITE;
        memset(&rc->io, 0, sizeof(rc->io));
        rc->io.done = run_written;
        eng_watch_begin(l, &rc->watch);
        eng_local_hold(l);
        lp_write(l->drive.owner, &rc->io, rc->run_to->write_fd, rc->copy.buffer + rc->copy.frames[rc->run_first].at,
                 rc->run_bytes, rc->copy.frames[rc->run_first].to_position, 0);
}

void eng_reclaim_room(struct eng_local *l, int rv)
{
        struct eng_reclaim *rc = &l->reclaim;

        if (rc->state != ENG_RECLAIM_ROOM || eng_local_failed(l))
                return;
        if (rv == 0) {
                write_some(l);
                return;
        }
        rc->incomplete = true; /* no room even for this: what is written so far counts, the rest waits */
        flush(l);
}

/* ---- reading --------------------------------------------------------------------------------- */

static void load_run(struct eng_job *job)
{
        eng_segment_copy_load(&OF(job, job)->reclaim.copy);
}

static void reclaim_segment_load_done(struct eng_job *job)
{
        struct eng_local *l = OF(job, job);
        const struct eng_segment_copy *copy = &l->reclaim.copy;
        unsigned i;

        if (!eng_local_release(l) || eng_local_failed(l))
                return;
        assert(l->reclaim.state == ENG_RECLAIM_LOAD);
        for (i = copy->loaded_from; i < copy->loaded_to; i++)
                if (copy->frames[i].unreadable)
                        eng_local_read_error(l, copy->segment, copy->frames[i].position);
        l->reclaim.cursor = l->reclaim.copy.loaded_from;
        write_some(l);
}

static void load_start(struct eng_local *l)
{
        struct eng_reclaim *rc = &l->reclaim;

        while (rc->copy.loaded_to < rc->copy.count && !rc->copy.frames[rc->copy.loaded_to].wanted)
                rc->copy.loaded_to++;
        if (rc->copy.loaded_to == rc->copy.count) {
                eng_reclaim_pace(l, (uint64_t)rc->copy.count * FMT_BLOCK, headers_start);
                return;
        }
        rc->state = ENG_RECLAIM_LOAD;
        eng_local_give(l, &rc->worker, &rc->job, load_run, reclaim_segment_load_done);
}

static void headers_run(struct eng_job *job)
{
        eng_segment_copy_headers(&OF(job, job)->reclaim.copy);
}

static void headers_again(struct eng_local *l, struct eng_page_wait *wait, int rv);

/* Which frames are to be copied, from number wait.done on. */
static void find_wanted(struct eng_local *l)
{
        struct eng_segment_copy *copy = &l->reclaim.copy;
        struct eng_page_wait *wait = &l->reclaim.wait;
        int rv;

        for (; wait->done < copy->count; wait->done++) {
                rv = reclaim_segment_lives(l, &copy->frames[wait->done]);
                if (rv == ENG_INDEX_ABSENT) {
                        wait->again = headers_again;
                        eng_pages_wait(l, wait);
                        return;
                }
                copy->frames[wait->done].wanted = rv == 1;
                wait->tries = 0;
        }
        load_start(l);
}

static void headers_again(struct eng_local *l, struct eng_page_wait *wait, int rv)
{
        (void)wait;
        if (rv == -ECANCELED || eng_local_failed(l))
                return;
        if (rv == 0)
                find_wanted(l);
        else
                reclaim_segment_give_up(l);
}

static void headers_done(struct eng_job *job)
{
        struct eng_local *l = OF(job, job);
        struct eng_segment_copy *copy = &l->reclaim.copy;

        if (!eng_local_release(l) || eng_local_failed(l))
                return;
        assert(l->reclaim.state == ENG_RECLAIM_HEADERS);
        if (copy->result != 0) {
                reclaim_segment_give_up(l);
                return;
        }
        if (copy->count == 0) {
                eng_reclaim_passed(l);
                return;
        }
        l->reclaim.wait.done = l->reclaim.wait.tries = 0;
        find_wanted(l);
}

static void headers_start(struct eng_local *l)
{
        struct eng_reclaim *rc = &l->reclaim;

        rc->state = ENG_RECLAIM_HEADERS;
        eng_local_give(l, &rc->worker, &rc->job, headers_run, headers_done);
}

int eng_reclaim_segment(struct eng_local *l, struct eng_segment *victim)
{
        struct eng_reclaim *rc = &l->reclaim;
        int rv;

        assert(rc->state == ENG_RECLAIM_IDLE && victim->writing == 0);
        rv = eng_segment_copy_begin(l->segments, victim, &rc->copy);
        if (rv != 0)
                return rv;
        rc->segment = victim;
        rc->segment_id = victim->id;
        eng_segment_pin(victim);
        headers_start(l);
        return 0;
}
