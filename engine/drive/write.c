/*
 * write.c - WRITE, SYNC and DISCARD: frames into segments, their flush, and forgetting them.
 *
 * WRITE: the home loop, which has the payload in its cache, sums it and writes the slot; the owner
 * loop gives it its place before and enters the place after. A frame is durable only by a SYNC that
 * comes after its WRITE has completed: SYNCs that arrive while a flush runs wait for it to end and
 * share the next one. A failed write or flush fails the drive (I8); a file system that is full does
 * not, nor does a short write, which is how it begins to be.
 *
 * owner: the loop, but for what is marked home.
 */
#include "engine/drive/local.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "engine/drive/frame.h"

#define DISCARD_TAILS 2u /* times memtable_bytes of memory: beyond, DISCARD is refused */

/* One WRITE under way. Bounded by ENG_WRITES_MAX. */
struct eng_write {
        struct eng_local *l;
        struct eng_op *op;
        struct eng_segment *segment; /* NULL while it waits for one; pinned */
        int fd;
        uint64_t offset;
        uint32_t bytes;
        uint8_t object_id[FMT_ID]; /* of the op, which home may have back already */
        struct eng_location location;
        struct lp_loop *home;
        struct lp_io io; /* home */
        struct eng_watch watch;
        int res;
        struct lp_msg msg;
        TAILQ_ENTRY(eng_write) link; /* waiting or flying */
};

static struct eng_write *write_of_msg(struct lp_msg *msg)
{
        return container_of(msg, struct eng_write, msg);
}

/* ---- WRITE: home ----------------------------------------------------------------------------- */

static bool write_valid(const struct eng_op *op)
{
        return op->write.payload_len > 0 && op->write.payload_len <= FMT_UNIT_MAX &&
               op->write.payload_len % FMT_BLOCK == 0;
}

void eng_write_prepare(struct eng_op *op)
{
        struct eng_frame_what what = {.stripe = op->write.stripe,
                                      .shard = op->write.shard,
                                      .k = op->write.k,
                                      .m = op->write.m,
                                      .payload_len = op->write.payload_len,
                                      .epoch = (uint32_t)op->epoch,
                                      .key_hash = op->write.key_hash};

        if (!write_valid(op))
                return; /* refused by the owner */
        memcpy(what.object_id, op->write.object_id, FMT_ID);
        eng_frame_fill(op->write.slot, &what, op->write.payload);
}

static void write_back_on_owner(struct lp_msg *msg);

static void have_written(struct lp_io *io, int res)
{
        struct eng_write *w = container_of(io, struct eng_write, io);

        w->res = res;
        w->msg.run = write_back_on_owner;
        if (lp_self() == w->l->drive.owner)
                write_back_on_owner(&w->msg);
        else
                lp_post(w->l->drive.owner, &w->msg);
}

static void write_on_home(struct lp_msg *msg)
{
        struct eng_write *w = write_of_msg(msg);

        assert(lp_self() == w->home);
        w->io.done = have_written;
        lp_write(w->home, &w->io, w->fd, w->op->write.slot, w->bytes, w->offset, 0);
}

/* ---- WRITE: owner ---------------------------------------------------------------------------- */

static void end_write(struct eng_local *l, struct eng_write *w, int rv)
{
        assert(l->writes.count > 0);
        eng_local_answer(w->op, rv);
        l->writes.count--;
        free(w);
}

static void write_location_gone(void *arg, const struct eng_location *location)
{
        struct eng_local *l = arg;
        struct eng_segment *segment = eng_segment_find(l->segments, location->segment);

        if (segment != NULL)
                eng_segment_dead(l->segments, segment, eng_location_bytes(location));
}

static int enter_location(struct eng_local *l, const struct eng_write *w)
{
        struct eng_location old;
        int rv = eng_memtable_location(l->active, w->object_id, &w->location, &old);

        if (rv == 1)
                write_location_gone(l, &old);
        if (rv >= 0)
                eng_rot_replaced(l, w->object_id, &w->location);
        return rv < 0 ? rv : 0;
}

static void write_back_on_owner(struct lp_msg *msg)
{
        struct eng_write *w = write_of_msg(msg);
        struct eng_local *l = w->l;
        bool ok = w->res >= 0 && (uint32_t)w->res == w->bytes;
        int rv;

        if (!eng_local_release(l)) {
                free(w);
                return;
        }
        assert(eng_local_on_loop(l) && w->segment != NULL);
        TAILQ_REMOVE(&l->writes.flying, w, link);
        eng_watch_end(l, &w->watch);
        eng_segment_written(l->segments, w->segment, w->bytes, ok);
        rv = ok ? enter_location(l, w) : w->res < 0 ? w->res : -ENOSPC; /* short: there was room for a part of it */
        if (ok && rv != 0)
                write_location_gone(l, &w->location); /* nobody will find it */
        if (rv == -ECANCELED && w->home != l->drive.owner)
                rv = -EAGAIN; /* that loop has ended, and did not begin it: this one may go on */
        if (eng_io_full(rv) || (eng_io_again(rv) && rv != -ECANCELED)) { /* a file system that takes no space ahead, or memory: neither is a failure */
                rv = eng_io_full(rv) ? -ENOSPC : -EAGAIN;
                end_write(l, w, eng_local_failed(l) ? -EIO : rv);
                return;
        }
        if (rv != 0)
                eng_local_fail(l, rv, "writing segment %llu", (unsigned long long)w->location.segment);
        else
                eng_count(&l->statistics.written_bytes, w->bytes);
        end_write(l, w, eng_local_failed(l) ? -EIO : 0);
}

/* Gives the frame its place and sends it to be written. */
static void write_fly(struct eng_local *l, struct eng_write *w)
{
        struct eng_frame_where where = {
                .segment = w->segment->id, .generation = w->segment->generation, .position = w->offset};

        assert(((const struct fmt_frame *)w->op->write.slot)->magic == FMT_FRAME_MAGIC); /* home has prepared it */
        assert(w->offset >= FMT_BLOCK && w->segment->write_fd >= 0);
        memcpy(where.drive_id, l->files.drive_id, FMT_ID);
        eng_frame_locate(w->op->write.slot, &where);
        w->fd = w->segment->write_fd;
        w->location = (struct eng_location){.segment = w->segment->id,
                                      .offset = w->offset,
                                      .payload_len = w->op->write.payload_len,
                                      .stripe = w->op->write.stripe,
                                      .shard = w->op->write.shard,
                                      .key_hash = w->op->write.key_hash};
        TAILQ_INSERT_TAIL(&l->writes.flying, w, link);
        eng_watch_begin(l, &w->watch);
        eng_local_hold(l);
        w->msg.run = write_on_home;
        if (w->home == l->drive.owner)
                write_on_home(&w->msg);
        else
                lp_post(w->home, &w->msg);
}

/* The first that waits. -EAGAIN: it waits on, or was refused (see eng_file_make_segment). */
static int try_fly(struct eng_local *l, struct eng_write *w)
{
        int rv;

        assert(w == TAILQ_FIRST(&l->writes.waiting) && w->segment == NULL);
        rv = eng_segment_reserve(l->segments, w->bytes, &w->segment, &w->offset);
        if (rv == 0) {
                TAILQ_REMOVE(&l->writes.waiting, w, link);
                write_fly(l, w);
        }
        eng_file_make_segment(l);
        return rv;
}

void eng_write_retry(struct eng_local *l, int rv)
{
        struct eng_write *w;

        while ((w = TAILQ_FIRST(&l->writes.waiting)) != NULL) {
                if (rv == 0) {
                        if (try_fly(l, w) != 0)
                                return;
                        continue;
                }
                TAILQ_REMOVE(&l->writes.waiting, w, link);
                end_write(l, w, rv);
        }
}

void eng_write_drop_waiting(struct eng_local *l)
{
        struct eng_write *w;

        while ((w = TAILQ_FIRST(&l->writes.waiting)) != NULL) {
                TAILQ_REMOVE(&l->writes.waiting, w, link);
                free(w);
        }
}

static int write_admit(struct eng_local *l, const struct eng_op *op)
{
        if (!write_valid(op))
                return -EINVAL;
        if (op->epoch < eng_epochs_fence(l))
                return -ESTALE;
        if (eng_local_full(l, op->flags))
                return -ENOSPC;
        return l->writes.count >= ENG_WRITES_MAX ? -EAGAIN : 0;
}

void eng_write_op(struct eng_local *l, struct eng_op *op)
{
        int rv = write_admit(l, op);
        struct eng_write *w = rv == 0 ? calloc(1, sizeof(*w)) : NULL;

        if (w == NULL) {
                eng_local_answer(op, rv != 0 ? rv : -EAGAIN);
                return;
        }
        w->l = l;
        w->op = op;
        w->home = op->home;
        w->bytes = FMT_BLOCK + op->write.payload_len;
        memcpy(w->object_id, op->write.object_id, FMT_ID);
        l->writes.count++;
        TAILQ_INSERT_TAIL(&l->writes.waiting, w, link);
        if (TAILQ_FIRST(&l->writes.waiting) == w)
                eng_write_retry(l, 0);
}

bool eng_write_refuse(struct eng_local *l)
{
        struct eng_write *w, *next;

        TAILQ_FOREACH_SAFE (w, &l->writes.waiting, link, next) {
                if ((w->op->flags & ENG_OP_RESERVE) != 0)
                        continue;
                TAILQ_REMOVE(&l->writes.waiting, w, link);
                end_write(l, w, -ENOSPC);
        }
        return !TAILQ_EMPTY(&l->writes.waiting);
}

uint64_t eng_write_floor(struct eng_local *l, const struct eng_segment *segment)
{
        const struct eng_write *w;
        uint64_t floor = segment->end;

        if (segment->writing == 0)
                return floor;
        TAILQ_FOREACH (w, &l->writes.flying, link) {
                if (w->segment == segment && w->offset < floor)
                        floor = w->offset;
        }
        assert(floor >= segment->indexed_to); /* what is reserved later lies behind */
        return floor;
}

/* ---- SYNC ------------------------------------------------------------------------------------ */

/* One fdatasync of a group; there are ENG_SYNC_SEGMENTS of them. */
struct eng_flush {
        struct eng_local *l;
        struct eng_segment *segment;
        struct eng_watch watch;
        struct lp_io io;
        uint64_t began; /* lp_clock() */
};

static void sync_answer(struct eng_op **list, int rv)
{
        struct eng_op *op;

        while ((op = *list) != NULL) {
                *list = op->next;
                eng_local_answer(op, rv);
        }
}

static void sync_start(struct eng_local *l);

static void have_flushed(struct lp_io *io, int res)
{
        struct eng_flush *flush = container_of(io, struct eng_flush, io);
        struct eng_local *l = flush->l;

        assert(l->writes.flushing > 0);
        l->writes.flushing--;
        if (!eng_local_release(l))
                return;
        eng_watch_end(l, &flush->watch);
        eng_segment_synced(l->segments, flush->segment, res != -ECANCELED);
        eng_local_time(l, ENG_DRIVE_DATA_FLUSH, lp_clock() - flush->began);
        if (res != 0)
                eng_local_fail(l, res < 0 ? res : -EIO, "flushing segment %llu",
                               (unsigned long long)flush->segment->id);
        if (l->writes.flushing > 0)
                return;
        if (eng_local_failed(l))
                sync_answer(&l->writes.sync_running, -EIO);
        sync_start(l);
}

/*
 * Flushes the next few segments of the group that runs. False: there are none. What becomes
 * unsynced from now on is not the group's: when fewer were there than fit, this was the last round,
 * however much is being written meanwhile.
 */
static bool flush_some(struct eng_local *l)
{
        struct eng_segment *segments[ENG_SYNC_SEGMENTS];
        unsigned i, n;

        assert(l->writes.flushing == 0);
        if (!l->writes.sync_more)
                return false;
        n = eng_segments_take_unsynced(l->segments, segments, ENG_SYNC_SEGMENTS);
        l->writes.sync_more = n == ENG_SYNC_SEGMENTS;
        for (i = 0; i < n; i++) {
                struct eng_flush *flush = &l->writes.flushes[i];

                memset(flush, 0, sizeof(*flush));
                flush->l = l;
                flush->segment = segments[i];
                flush->io.done = have_flushed;
                flush->began = lp_clock();
                l->writes.flushing++;
                eng_watch_begin(l, &flush->watch);
                eng_local_hold(l);
                lp_fdatasync(l->drive.owner, &flush->io, segments[i]->write_fd);
        }
        return n > 0;
}

/* Nothing is being flushed: goes on with the group that runs, or takes the next one. */
static void sync_start(struct eng_local *l)
{
        while (!eng_local_failed(l)) {
                if (l->writes.sync_running == NULL) {
                        l->writes.sync_running = l->writes.sync_waiting;
                        l->writes.sync_waiting = NULL;
                        l->writes.sync_more = true;
                }
                if (l->writes.sync_running == NULL || flush_some(l))
                        return;
                eng_count(&l->statistics.syncs, 1);
                sync_answer(&l->writes.sync_running, 0);
        }
}

void eng_sync_op(struct eng_local *l, struct eng_op *op)
{
        if (l->writes.flushes == NULL)
                l->writes.flushes = calloc(ENG_SYNC_SEGMENTS, sizeof(*l->writes.flushes));
        if (l->writes.flushes == NULL) {
                eng_local_answer(op, -EAGAIN);
                return;
        }
        op->next = l->writes.sync_waiting;
        l->writes.sync_waiting = op;
        if (l->writes.flushing == 0)
                sync_start(l);
}

void eng_sync_own(struct eng_local *l, struct eng_op *op, void (*done)(struct eng_op *op))
{
        assert(eng_local_on_loop(l) && !eng_local_failed(l));
        memset(op, 0, sizeof(*op));
        op->kind = ENG_OP_SYNC;
        op->done = done;
        op->home = l->drive.owner;
        op->drive = &l->drive;
        eng_local_hold(l);
        eng_sync_op(l, op);
}

static bool take_out(struct eng_op **list, const struct eng_op *op)
{
        for (; *list != NULL; list = &(*list)->next) {
                if (*list != op)
                        continue;
                *list = op->next;
                return true;
        }
        return false;
}

bool eng_sync_forget(struct eng_local *l, struct eng_op *op)
{
        if (!take_out(&l->writes.sync_waiting, op) && !take_out(&l->writes.sync_running, op))
                return false;
        eng_local_release(l);
        return true;
}

void eng_write_fail(struct eng_local *l)
{
        eng_write_retry(l, -EIO);
        sync_answer(&l->writes.sync_waiting, -EIO);
        sync_answer(&l->writes.sync_running, -EIO);
}

/* ---- DISCARD --------------------------------------------------------------------------------- */

void eng_discard_op(struct eng_local *l, struct eng_op *op)
{
        int rv = -ENOMEM;

        if (op->epoch < eng_epochs_fence(l)) { /* by now the shard may be another's: one that a rebuild wrote again */
                eng_local_answer(op, -ESTALE);
                return;
        }
        /* Discards do not wait for the index as appends do, so they have a bound of their own. */
        if (l->active->bytes < DISCARD_TAILS * l->memtable_bytes)
                rv = eng_memtable_discard(l->active, op->discard.object_id, write_location_gone, l);
        if (rv == 0)
                eng_rot_replaced(l, op->discard.object_id, NULL);
        eng_local_answer(op, rv == -ENOMEM ? -EAGAIN : rv);
        if (rv == 0 && eng_batch_due(l))
                eng_batch_start(l);
}
