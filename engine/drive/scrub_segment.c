/*
 * scrub_segment.c - SCRUB: a stretch of the drive's segments, read in the order in which it lies
 * there, each frame checked by its own header. Behind the last segment the log follows
 * (scrub_log.c).
 *
 *   STRETCH   a slot full of frames, past the page cache; goes on until the stretch is long enough
 *     | a frame is not right: nothing is said yet, it is read again, alone
 *   HEADER    4 KiB -> BODY   its payload -> damaged, if the index names this very place; else nobody misses it
 *     | no frame's header
 *     +-> a header that is not right, but names a shard whose place is here: that shard is damaged
 *     +-> a gap: block after block, until the next frame (rot.c)
 *
 * No false alarm: bytes of a frame never change (I3), the segment is pinned, and nothing is read
 * behind what has been written. What fails is read twice. It is damage only if tail or index name
 * the place at that moment, as they would to a reader: what was discarded or moved meanwhile, torn
 * by a crash, or never written, they do not name.
 *
 * The op runs on the drive's own loop, one at a time, one read in flight.
 */
#include "engine/drive/local.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "engine/drive/frame.h"

enum scrub_step { SCRUB_STRETCH, SCRUB_HEADER, SCRUB_BODY };

/* One SCRUB under way. owner: the loop */
struct eng_scrubbing {
        struct eng_flight flight; /* first */
        struct eng_local *l;
        struct eng_op *op;           /* NULL: it was answered */
        struct eng_segment *segment; /* pinned, its descriptors held; NULL: none */
        struct eng_want descriptors;
        struct eng_page_wait page;   /* of the index: what was read is looked at again when it is there */
        int res;
        uint64_t bound;              /* nothing behind it is read */
        enum scrub_step step;
        bool buffered;
        uint32_t done;               /* bytes of the payload at state.position that are right; header is set */
        uint64_t read;               /* bytes, by this op */
        uint64_t asked;              /* the same, with those that could not be read: how long the stretch is */
        void *slot;
        void (*left)(struct lp_loop *home, void *slot);
        uint8_t *to;
        uint32_t want;
        uint64_t from;
        struct fmt_frame header;
        struct lp_io io;
        struct eng_watch watch;
};

static struct fmt_drive_scrub *scrub_state(struct eng_scrubbing *s)
{
        return &s->op->scrub.state;
}

static struct eng_frame_where scrub_where(struct eng_scrubbing *s)
{
        struct eng_frame_where where = {.segment = scrub_state(s)->segment,
                                        .generation = scrub_state(s)->generation,
                                        .position = scrub_state(s)->position};

        memcpy(where.drive_id, s->l->files.drive_id, FMT_ID);
        return where;
}

/* ---- the end --------------------------------------------------------------------------------- */

static void scrub_gone(struct eng_flight *flight)
{
        free(flight);
}

static void scrub_let_go(struct eng_scrubbing *s)
{
        if (s->segment == NULL)
                return;
        eng_fd_put(s->l, &s->segment->fd);
        eng_segment_unpin(s->l->segments, s->segment);
        s->segment = NULL;
}

/* It is over. Of an op that was answered as the drive failed the slot goes back. */
static void scrub_answer(struct eng_scrubbing *s, int rv)
{
        struct eng_local *l = s->l;
        struct eng_op *op = s->op;

        assert(l->rot.scrubbing && (op != NULL || s->left != NULL));
        scrub_let_go(s);
        eng_flight_leave(l, &s->flight);
        l->rot.scrubbing = false;
        if (op == NULL) {
                s->left(s->flight.home, s->slot);
                eng_flight_end(&s->flight);
                return;
        }
        if (rv == 0) {
                eng_count(&l->statistics.read_bytes, s->read);
                eng_rot_answer(l, op);
        }
        s->op = NULL;
        eng_local_answer(op, rv);
        eng_flight_end(&s->flight);
}

/* ---- where it is ----------------------------------------------------------------------------- */

/*
 * Up to here everything has been written. (The index may be ahead of that: what reclaim is writing
 * it does not wait for.)
 */
static uint64_t scrub_bound(const struct eng_segment *segment)
{
        return segment->writing == 0 ? segment->end : segment->whole_to;
}

static void scrub_gap_ends(struct eng_scrubbing *s)
{
        struct fmt_drive_scrub *state = scrub_state(s);

        if (state->gap != 0 && state->gap < state->position)
                eng_rot_add_gap(s->l, state->segment, state->gap, state->position, false);
        state->gap = 0;
}

/*
 * The segment that is to be read on; NULL: there are no more. One that is gone, or is another by
 * now, is passed by.
 */
static struct eng_segment *scrub_segment(struct eng_scrubbing *s)
{
        struct fmt_drive_scrub *state = scrub_state(s);
        struct eng_segment *segment = eng_segment_find(s->l->segments, state->segment);

        if (segment != NULL && segment->generation == state->generation && state->position >= FMT_BLOCK &&
            state->position % FMT_BLOCK == 0 && state->position < scrub_bound(segment))
                return segment;
        if (segment != NULL && segment->generation == state->generation)
                scrub_gap_ends(s);
        state->gap = 0;
        segment = eng_segment_from(s->l->segments, state->segment + 1);
        while (segment != NULL && segment->id <= state->last && scrub_bound(segment) <= FMT_BLOCK)
                segment = eng_segment_from(s->l->segments, segment->id + 1);
        if (segment == NULL || segment->id > state->last)
                return NULL;
        state->segment = segment->id;
        state->generation = segment->generation;
        state->position = FMT_BLOCK; /* behind the segment's header */
        return segment;
}

static void scrub_round_begins(struct eng_scrubbing *s)
{
        struct fmt_drive_scrub *state = scrub_state(s);
        struct eng_segment *segment = NULL;

        state->last = state->total = state->bytes = state->frames = state->damaged = state->gap = 0;
        while ((segment = eng_segments_each(s->l->segments, segment)) != NULL) {
                state->last = segment->id;
                state->total += segment->end;
        }
        state->total += eng_scrub_log_bytes(s->l);
        eng_rot_round(s->l);
}

/* ---- I/O ------------------------------------------------------------------------------------- */

static void scrub_next(struct eng_scrubbing *s);
static void scrub_have(struct lp_io *io, int res);

static void scrub_submit(struct eng_scrubbing *s)
{
        const struct eng_fd *fd = &s->segment->fd;
        bool direct = !s->buffered && fd->direct_fd >= 0;

        s->io.done = scrub_have;
        lp_read(s->l->drive.owner, &s->io, direct ? fd->direct_fd : fd->read_fd, s->to, s->want, s->from);
}

static void scrub_read(struct eng_scrubbing *s, uint8_t *to, uint64_t from, uint64_t want)
{
        struct eng_local *l = s->l;

        assert(want > 0 && (uint64_t)(to - (uint8_t *)s->slot) + want <= LP_SLOT_SIZE);
        s->to = to;
        s->from = from;
        s->want = (uint32_t)want;
        eng_watch_begin_read(l, &s->watch, NULL);
        eng_local_hold(l);
        scrub_submit(s);
}

static void scrub_read_step(struct eng_scrubbing *s)
{
        struct fmt_drive_scrub *state = scrub_state(s);
        uint64_t from = state->position, want;

        assert(from >= FMT_BLOCK && from < s->bound && s->segment->fd.users > 0);
        switch (s->step) {
        case SCRUB_HEADER:
                scrub_read(s, s->slot, from, FMT_BLOCK);
                return;
        case SCRUB_BODY:
                scrub_read(s, s->slot, from + FMT_BLOCK, s->header.payload_len);
                return;
        case SCRUB_STRETCH:
                break;
        }
        from += s->done == 0 ? 0 : FMT_BLOCK + s->done;
        want = s->bound - from < LP_SLOT_SIZE ? s->bound - from : LP_SLOT_SIZE;
        if (s->asked >= s->op->scrub.most) /* just the end of the frame it is in */
                want = s->header.payload_len - s->done;
        scrub_read(s, s->slot, from, want);
}

/* ---- what was read --------------------------------------------------------------------------- */

static void scrub_passed(struct eng_scrubbing *s, uint32_t payload_len)
{
        struct fmt_drive_scrub *state = scrub_state(s);

        state->position += FMT_BLOCK + payload_len;
        state->bytes += FMT_BLOCK + payload_len;
        s->done = 0;
        s->step = SCRUB_STRETCH;
}

/* In a gap. */
static void scrub_step_on(struct eng_scrubbing *s)
{
        scrub_state(s)->position += FMT_BLOCK;
        scrub_state(s)->bytes += FMT_BLOCK;
}

/*
 * An older gap that was found here is forgotten before the one that ends here is remembered, which
 * may be the rest of it.
 */
static void scrub_whole(struct eng_scrubbing *s, uint32_t payload_len)
{
        scrub_state(s)->frames++;
        eng_rot_sound(s->l, scrub_state(s)->segment, scrub_state(s)->position);
        scrub_gap_ends(s);
        scrub_passed(s, payload_len);
}

/*
 * The place where this shard is, if that is where the scrub is. 1: it is; 0: it is not; or negative
 * errno, to be tried again.
 */
static int scrub_lives(struct eng_scrubbing *s, const struct fmt_frame *frame, struct eng_location *location)
{
        const struct fmt_drive_scrub *state = scrub_state(s);
        int rv = eng_location_find(s->l, frame->object_id, frame->stripe, frame->shard, location);

        if (rv == -ENOENT || rv == -EBADMSG)
                return 0;
        return rv != 0 ? rv : location->segment == state->segment && location->offset == state->position;
}

static void scrub_damaged(struct eng_scrubbing *s, const struct fmt_frame *frame, const struct eng_location *location)
{
        struct eng_op *op = s->op;

        op->scrub.damaged = true;
        op->scrub.stripe = location->stripe;
        op->scrub.shard = location->shard;
        op->scrub.key_hash = location->key_hash;
        memcpy(op->scrub.object_id, frame->object_id, FMT_ID);
        scrub_state(s)->damaged++;
        eng_rot_found(s->l, frame->object_id, location);
        scrub_gap_ends(s);
        scrub_passed(s, location->payload_len);
}

/* The header is right as far as it lies within what was written. */
static bool scrub_header_right(struct eng_scrubbing *s, const struct fmt_frame *frame)
{
        struct eng_frame_where where = scrub_where(s);

        return eng_frame_check(frame, &where) == 0 && where.position + FMT_BLOCK + frame->payload_len <= s->bound;
}

/* Not a header that is right, but maybe one that was. */
static bool scrub_looks_like_one(struct eng_scrubbing *s, const struct fmt_frame *frame)
{
        const struct fmt_drive_scrub *state = scrub_state(s);

        return frame->magic == FMT_FRAME_MAGIC || frame->generation == state->generation ||
               (frame->segment == state->segment && frame->position == state->position);
}

/* The rest of the frame that the last read ended in. False: it is to be read again, alone. */
static bool scrub_take_rest(struct eng_scrubbing *s, uint32_t *used)
{
        uint32_t rest = s->header.payload_len - s->done;

        if (s->done == 0)
                return true;
        if (rest > s->want || eng_frame_verify(&s->header, s->slot, s->done, rest, NULL) != 0)
                return false;
        scrub_whole(s, s->header.payload_len);
        *used = rest;
        return true;
}

/* A frame at slot + at. False: it is to be read again, alone. */
static bool scrub_take_frame(struct eng_scrubbing *s, const struct fmt_frame *frame, uint32_t room)
{
        uint32_t whole = frame->payload_len;

        if (whole > room)
                whole = room / FMT_CRC_BLOCK * FMT_CRC_BLOCK;
        if (whole > 0 && eng_frame_verify(frame, (const uint8_t *)frame + FMT_BLOCK, 0, whole, NULL) != 0)
                return false;
        if (whole == frame->payload_len) {
                scrub_whole(s, whole);
                return true;
        }
        s->header = *frame;
        s->done = whole;
        return true;
}

static void scrub_take_stretch(struct eng_scrubbing *s, int res)
{
        const uint8_t *slot = s->slot;
        const struct fmt_frame *frame;
        uint64_t base, began = lp_clock();
        uint32_t at = 0;
        bool right;

        s->step = SCRUB_HEADER;
        if (res < 0 || (uint32_t)res != s->want || !scrub_take_rest(s, &at)) {
                s->done = 0;
                return;
        }
        s->step = SCRUB_STRETCH;
        base = scrub_state(s)->position - at;
        while (at + FMT_BLOCK <= s->want && s->done == 0) {
                frame = (const struct fmt_frame *)(slot + at);
                right = scrub_header_right(s, frame);
                if (!right && scrub_state(s)->gap != 0 && !scrub_looks_like_one(s, frame)) {
                        scrub_step_on(s);
                } else if (!right || !scrub_take_frame(s, frame, s->want - at - FMT_BLOCK)) {
                        s->step = SCRUB_HEADER;
                        break;
                } else if (scrub_state(s)->position - base == at) {
                        break; /* not even one block of its payload is here */
                }
                at = (uint32_t)(scrub_state(s)->position - base);
        }
        eng_local_time(s->l, ENG_DRIVE_CHECKSUM, lp_clock() - began);
}

/* 0 or, to be tried again, negative errno. */
static int scrub_take_header(struct eng_scrubbing *s, int res)
{
        struct fmt_drive_scrub *state = scrub_state(s);
        const struct fmt_frame *frame = s->slot;
        struct eng_location location;
        int rv = 0;

        if (res < 0 && !eng_io_unreadable(res))
                return -EAGAIN;
        if (res == (int)FMT_BLOCK && scrub_header_right(s, frame)) {
                s->header = *frame;
                s->step = SCRUB_BODY;
                return 0;
        }
        if (res == (int)FMT_BLOCK)
                rv = scrub_lives(s, frame, &location);
        if (rv < 0)
                return rv;
        if (rv == 1) {
                scrub_damaged(s, frame, &location);
                return 0;
        }
        if (state->gap == 0)
                state->gap = state->position;
        scrub_step_on(s);
        s->step = SCRUB_STRETCH;
        return 0;
}

static int scrub_take_body(struct eng_scrubbing *s, int res)
{
        struct eng_location location;
        int rv;

        if (res < 0 && !eng_io_unreadable(res))
                return -EAGAIN;
        if (res == (int)s->header.payload_len &&
            eng_frame_verify(&s->header, s->slot, 0, s->header.payload_len, NULL) == 0) {
                scrub_whole(s, s->header.payload_len);
                return 0;
        }
        rv = scrub_lives(s, &s->header, &location);
        if (rv < 0)
                return rv;
        if (rv == 1) {
                scrub_damaged(s, &s->header, &location);
                return 0;
        }
        scrub_gap_ends(s);
        scrub_passed(s, s->header.payload_len);
        return 0;
}

static void scrub_take(struct eng_scrubbing *s)
{
        struct eng_local *l = s->l;
        int rv = 0;

        if (s->step == SCRUB_HEADER)
                rv = scrub_take_header(s, s->res);
        else if (s->step == SCRUB_BODY)
                rv = scrub_take_body(s, s->res);
        else
                scrub_take_stretch(s, s->res);
        if (eng_local_failed(l)) /* by what the index said */
                scrub_answer(s, -EIO);
        else if (rv == ENG_INDEX_ABSENT)
                eng_pages_wait(l, &s->page);
        else if (rv != 0)
                scrub_answer(s, -EAGAIN);
        else
                scrub_next(s);
}

/* Nobody waits for an answer: the drive is closed. */
static void scrub_forget(struct eng_scrubbing *s)
{
        eng_flight_leave(s->l, &s->flight);
        eng_flight_end(&s->flight);
}

static void scrub_page_came(struct eng_local *l, struct eng_page_wait *wait, int rv)
{
        struct eng_scrubbing *s = container_of(wait, struct eng_scrubbing, page);

        if (rv == -ECANCELED)
                scrub_forget(s);
        else if (rv == 0 && s->op != NULL && !eng_local_failed(l))
                scrub_take(s);
        else
                scrub_answer(s, rv != 0 && !eng_local_failed(l) ? rv : -EIO);
}

static void scrub_have(struct lp_io *io, int res)
{
        struct eng_scrubbing *s = container_of(io, struct eng_scrubbing, io);
        struct eng_local *l = s->l;

        if (res == -EINVAL && !s->buffered) { /* the file system wants larger blocks */
                s->buffered = true;
                scrub_submit(s);
                return;
        }
        if (!eng_local_release(l)) {
                if (s->op == NULL)
                        s->left(s->flight.home, s->slot);
                eng_flight_end(&s->flight);
                return;
        }
        eng_watch_end(l, &s->watch);
        if (s->op == NULL || eng_local_failed(l)) {
                scrub_answer(s, -EIO);
                return;
        }
        if (res > 0)
                s->read += (uint32_t)res;
        s->asked += s->want;
        if (s->step != SCRUB_STRETCH && eng_io_unreadable(res))
                eng_local_read_error(l, scrub_state(s)->segment, scrub_state(s)->position);
        s->res = res;
        s->page.tries = 0;
        s->page.again = scrub_page_came;
        scrub_take(s);
}

/* The drive has failed, the kernel has the slot. */
static void scrub_give_up(struct eng_flight *flight)
{
        struct eng_scrubbing *s = (struct eng_scrubbing *)flight;
        struct eng_op *op = s->op;

        if (op == NULL || op->scrub.left == NULL)
                return; /* it is back, or its caller waits for that */
        s->left = op->scrub.left;
        s->op = NULL;
        op->scrub.slot = NULL;
        eng_local_answer(op, -EIO);
}

/* ---- the op ---------------------------------------------------------------------------------- */

static void scrub_have_fds(struct eng_want *want, int rv)
{
        struct eng_scrubbing *s = container_of(want, struct eng_scrubbing, descriptors);
        struct fmt_drive_scrub *state;

        if (rv == 0 && s->op != NULL) {
                scrub_read_step(s);
                return;
        }
        if (rv != 0) { /* they are not held */
                eng_segment_unpin(s->l->segments, s->segment);
                s->segment = NULL;
        }
        if (rv == -ECANCELED) {
                scrub_forget(s);
                return;
        }
        if (rv != -EBADMSG || s->op == NULL) {
                scrub_answer(s, rv == 0 ? -EIO : rv);
                return;
        }
        state = scrub_state(s); /* the file is lost: so is all that may be in it */
        if (state->gap == 0)
                state->gap = state->position;
        state->position = s->bound;
        scrub_next(s);
}

/*
 * At the end of a frame: on to where the next one begins, which may be in another segment. True:
 * there is something to be read.
 */
static bool scrub_go_on(struct eng_scrubbing *s)
{
        struct eng_segment *segment = scrub_segment(s);

        if (segment == NULL) {
                s->op->scrub.ended = !eng_scrub_log_first(s->l, scrub_state(s));
                return false;
        }
        s->bound = scrub_bound(segment);
        if (segment == s->segment) {
                scrub_read_step(s);
                return true;
        }
        scrub_let_go(s);
        s->segment = segment;
        eng_segment_pin(segment);
        s->descriptors.have = scrub_have_fds;
        if (eng_fd_get(s->l, &segment->fd, &s->descriptors) == 0)
                scrub_read_step(s);
        return true;
}

/*
 * Reads on, or answers: behind enough bytes at the end of a frame, behind damage, and at the end of
 * the round.
 */
static void scrub_next(struct eng_scrubbing *s)
{
        const struct eng_op *op = s->op;
        bool at_frame = s->step == SCRUB_STRETCH && s->done == 0;

        if (!at_frame && !op->scrub.damaged)
                scrub_read_step(s);
        else if (op->scrub.damaged || s->asked >= op->scrub.most || !scrub_go_on(s))
                scrub_answer(s, 0);
}

/* Somebody waits for what he reads. */
static bool scrub_in_the_way(const struct eng_local *l)
{
        return !TAILQ_EMPTY(&l->flights) || !TAILQ_EMPTY(&l->reads.waiting);
}

static int scrub_check(struct eng_local *l, const struct eng_op *op)
{
        if (op->scrub.what != ENG_SCRUB_READ)
                return 0;
        if (op->scrub.slot == NULL || op->scrub.most == 0 || op->scrub.most > ENG_SCRUB_STRETCH ||
            op->home != l->drive.owner)
                return -EINVAL;
        if (l->rot.scrubbing)
                return -EBUSY;
        return op->scrub.yield && scrub_in_the_way(l) ? -EAGAIN : 0;
}

static void scrub_begin(struct eng_local *l, struct eng_op *op)
{
        struct eng_scrubbing *s = calloc(1, sizeof(*s));

        if (s == NULL) {
                eng_local_answer(op, -EAGAIN);
                return;
        }
        s->l = l;
        s->op = op;
        s->slot = op->scrub.slot;
        assert(!l->rot.scrubbing);
        l->rot.scrubbing = true;
        if (op->scrub.state.segment == 0)
                scrub_round_begins(s);
        eng_flight_begin(l, &s->flight, l->drive.owner, scrub_give_up, scrub_gone);
        scrub_next(s);
}

void eng_scrub_op(struct eng_local *l, struct eng_op *op)
{
        int rv = scrub_check(l, op);

        op->scrub.ended = op->scrub.damaged = op->scrub.gap = false;
        op->scrub.names = NULL;
        eng_rot_tell(l, op);
        if (rv == 0 && op->scrub.what == ENG_SCRUB_READ) {
                if ((op->scrub.state.segment & ENG_UNREADABLE_LOG) != 0)
                        eng_scrub_log(l, op);
                else
                        scrub_begin(l, op);
                return;
        }
        if (op->scrub.what == ENG_SCRUB_LOAD) {
                eng_rot_prune(l);
                op->scrub.state = l->rot.state;
                op->scrub.gap = eng_rot_owed(l);
        }
        if (op->scrub.what == ENG_SCRUB_COMPARED)
                eng_rot_compared(l);
        eng_rot_tell(l, op);
        if (op->scrub.what == ENG_SCRUB_KEEP)
                eng_rot_state(l, &op->scrub.state);
        eng_local_answer(op, rv);
}
