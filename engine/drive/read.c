/*
 * read.c - READ: bytes of one shard, verified.
 *
 * The owner loop finds the frame's place (active, frozen, index) and pins its segment; the op's
 * home loop reads and checks that it is the frame meant and that every CRC block touched is right
 * (I5). A range near the start is one read, header and blocks together. For one further in, the
 * header's CRCs come from a small table of headers verified before; only without it the header is a
 * read of its own.
 *
 * What is read for the first time is read past the page cache, which spares a copy, and pages that
 * nobody may ask for again. What was read before, no longer ago than memory reaches, is read
 * through the page cache and stays there. So a pass over more than fits pushes nothing out.
 *
 * What the drive cannot read is damage of this shard, not the end of the drive (unreliable.c).
 *
 * owner: the loop, but for what is marked home.
 */
#include "engine/drive/local.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "engine/drive/frame.h"

#define HEADERS          2048u /* frames whose headers are remembered */
#define HEADER_BYTES     offsetof(struct fmt_frame, rest)
#define READ_WITH_HEADER (64u << 10) /* a range that begins up to here is read together with the header */

struct eng_read_headers {
        struct {
                uint64_t segment, generation, position; /* 0: free (frames never stand at 0) */
                uint8_t bytes[HEADER_BYTES];
        } at[HEADERS];
};

/* One READ under way; as many as there are ops. */
struct eng_reading {
        struct eng_flight flight; /* first */
        TAILQ_ENTRY(eng_reading) wait; /* for its turn: owner */
        uint64_t waits_from;           /* lp_now() of the owner */

        /* set by the owner before it goes to the home loop */
        struct eng_local *l;
        struct eng_op *op;
        struct eng_segment *segment; /* pinned */
        struct eng_want descriptors; /* waits for them */
        int read_fd, direct_fd;      /* in use until the I/O has ended; direct_fd -1: none */
        struct eng_frame_where where;
        bool direct;           /* past the page cache */
        bool known;            /* the header is in the slot already, verified before */
        uint32_t first, cover; /* whole CRC blocks */
        struct eng_watch watch;

        /* home, until it goes back */
        struct lp_loop *home;
        void *kept;                                     /* the slot, of an op that was answered as the drive failed ... */
        void (*left)(struct lp_loop *home, void *slot); /* ... and where it goes */
        struct lp_io head_io, io;
        unsigned ios;
        uint8_t *to;
        uint32_t want;
        uint64_t from;
        int res, head_res;
        bool learned;
        uint8_t header[HEADER_BYTES];
        bool unreadable;
        struct lp_msg msg;
};

static struct eng_reading *read_of_msg(struct lp_msg *msg)
{
        return container_of(msg, struct eng_reading, msg);
}

/* ---- headers remembered ---------------------------------------------------------------------- */

static unsigned header_slot(uint64_t segment, uint64_t position)
{
        return (unsigned)((segment * 0x9e3779b97f4a7c15ull + position / FMT_BLOCK) * 0xff51afd7ed558ccdull >> 40) %
               HEADERS;
}

static bool recall(const struct eng_local *l, const struct eng_frame_where *where, struct fmt_frame *frame)
{
        unsigned i = header_slot(where->segment, where->position);

        if (l->headers == NULL || l->headers->at[i].position != where->position ||
            l->headers->at[i].segment != where->segment || l->headers->at[i].generation != where->generation)
                return false;
        memcpy(frame, l->headers->at[i].bytes, HEADER_BYTES);
        return true;
}

static void read_remember(struct eng_local *l, const struct eng_reading *r)
{
        unsigned i = header_slot(r->where.segment, r->where.position);

        if (l->headers == NULL)
                l->headers = calloc(1, sizeof(*l->headers));
        if (l->headers == NULL)
                return;
        l->headers->at[i].segment = r->where.segment;
        l->headers->at[i].generation = r->where.generation;
        l->headers->at[i].position = r->where.position;
        memcpy(l->headers->at[i].bytes, r->header, HEADER_BYTES);
}

void eng_read_free(struct eng_local *l)
{
        struct eng_reading *r;

        while ((r = TAILQ_FIRST(&l->reads.waiting)) != NULL) { /* its op has been given up with the drive */
                TAILQ_REMOVE(&l->reads.waiting, r, wait);
                free(r);
        }
        free(l->headers);
        l->headers = NULL;
        eng_ghosts_clear(&l->unit_ghosts);
}

/* ---- owner, afterwards ----------------------------------------------------------------------- */

/* Loops of a gateway, which have slots for its reads, and loops for other nodes have the same numbers. */
static unsigned *flying(struct eng_local *l, const struct lp_loop *home)
{
        return &l->reads.flying[lp_share_slots(home, LP_SHARE_GET) > 0][lp_index(home) % ENG_READ_LOOPS_MAX];
}

static void read_gone(struct eng_flight *flight)
{
        free(flight);
}

static void fly_next(struct eng_local *l, struct lp_loop *home);

static void read_back_on_owner(struct lp_msg *msg)
{
        struct eng_reading *r = read_of_msg(msg);
        struct eng_local *l = r->l;

        assert(eng_local_on_loop(l) && r->op == NULL);
        if (eng_local_release(l)) {
                assert(*flying(l, r->home) > 0);
                eng_watch_end(l, &r->watch);
                eng_flight_leave(l, &r->flight);
                eng_fd_put(l, &r->segment->fd);
                eng_segment_unpin(l->segments, r->segment);
                (*flying(l, r->home))--;
                if (r->learned)
                        read_remember(l, r);
                if (r->unreadable && !r->watch.late)
                        eng_local_read_error(l, r->where.segment, r->where.position);
                fly_next(l, r->home);
        }
        eng_flight_end(&r->flight);
}

/* ---- home ------------------------------------------------------------------------------------ */

static void read_finish(struct eng_reading *r, int rv)
{
        assert(lp_self() == r->home && (r->op != NULL || r->left != NULL)); /* its slot is the op's, or goes back */
        if (rv == 0)
                eng_count(&r->l->statistics.read_bytes, r->op->read.len);
        if (r->op != NULL)
                eng_local_answer(r->op, rv);
        else
                r->left(r->home, r->kept);
        r->op = NULL;
        r->msg.run = read_back_on_owner;
        lp_post(r->l->drive.owner, &r->msg);
}

static int verify(struct eng_reading *r)
{
        struct eng_op *op = r->op;
        const struct fmt_frame *frame = op->read.slot;
        const uint8_t *payload = (const uint8_t *)op->read.slot + LP_SLOT_HEADER;
        uint64_t began;
        int rv;

        r->unreadable = eng_io_unreadable(r->res) || eng_io_unreadable(r->head_res);
        if (r->res < 0 || r->head_res < 0)
                return r->unreadable ? -EBADMSG : -EAGAIN;
        if ((uint32_t)r->res != r->want || (!r->known && (uint32_t)r->head_res < FMT_BLOCK))
                return -EBADMSG; /* the file is shorter than the frame */
        if (!r->known && eng_frame_check(frame, &r->where) != 0)
                return -EBADMSG;
        if (!eng_frame_is(frame, op->read.object_id, op->read.stripe, op->read.shard, op->read.payload_len))
                return -EBADMSG;
        if (!r->known) {
                r->learned = true;
                memcpy(r->header, frame, HEADER_BYTES);
        }
        began = lp_clock();
        if ((op->flags & ENG_OP_WANT_CRC) != 0)
                rv = eng_frame_sum(frame, payload, op->read.offset, op->read.len, &op->read.crc);
        else
                rv = eng_frame_verify(frame, payload + r->first, r->first, r->cover, NULL);
        eng_local_time(r->l, ENG_DRIVE_CHECKSUM, lp_clock() - began);
        return rv;
}

static void have_part(struct eng_reading *r)
{
        assert(r->ios > 0);
        if (--r->ios == 0)
                read_finish(r, r->op != NULL ? verify(r) : -EIO);
}

/*
 * The drive has failed, or gives these bytes too late: then they are as unreadable. The kernel has
 * the slot.
 */
static void read_give_up(struct eng_flight *flight)
{
        struct eng_reading *r = (struct eng_reading *)flight;
        struct eng_op *op = r->op;

        if (op == NULL || op->read.left == NULL)
                return; /* it is back, or its caller waits for that */
        r->kept = op->read.slot;
        r->left = op->read.left;
        r->op = NULL;
        op->read.slot = NULL;
        eng_local_answer(op, eng_local_failed(r->l) ? -EIO : -EBADMSG);
}

static void read_shard_bytes(struct eng_reading *r)
{
        lp_read(r->home, &r->io, r->direct ? r->direct_fd : r->read_fd, r->to, r->want, r->from);
}

static void have_bytes(struct lp_io *io, int res)
{
        struct eng_reading *r = container_of(io, struct eng_reading, io);

        if (r->direct && res == -EINVAL && r->op != NULL) { /* the file system wants larger blocks than a frame has */
                r->direct = false;
                read_shard_bytes(r);
                return;
        }
        r->res = res;
        have_part(r);
}

static void have_header(struct lp_io *io, int res)
{
        struct eng_reading *r = container_of(io, struct eng_reading, head_io);

        r->head_res = res;
        have_part(r);
}

static void read_on_home(struct lp_msg *msg)
{
        struct eng_reading *r = read_of_msg(msg);
        uint8_t *slot = r->op->read.slot;
        bool together = !r->known && r->first <= READ_WITH_HEADER;

        assert(lp_self() == r->home && r->ios == 0);
        assert(r->first % FMT_CRC_BLOCK == 0 && r->cover > 0);
        assert(r->first + r->cover <= r->op->read.payload_len); /* it lies in the slot */
        r->io.done = have_bytes;
        r->ios = 1;
        r->head_res = FMT_BLOCK;
        if (!r->known && !together) {
                r->ios = 2;
                r->head_io.done = have_header;
                lp_read(r->home, &r->head_io, r->read_fd, slot, FMT_BLOCK, r->where.position);
        }
        r->to = together ? slot : slot + LP_SLOT_HEADER + r->first;
        r->want = together ? LP_SLOT_HEADER + r->first + r->cover : r->cover;
        r->from = together ? r->where.position : r->where.position + FMT_BLOCK + r->first;
        read_shard_bytes(r);
}

/* ---- owner, first ---------------------------------------------------------------------------- */

int eng_location_find(struct eng_local *l, const uint8_t object_id[FMT_ID], uint32_t stripe, uint8_t shard,
                   struct eng_location *location)
{
        int rv;

        rv = eng_memtable_location_find(l->active, object_id, stripe, shard, location);
        if (rv == 0 && l->frozen != NULL)
                rv = eng_memtable_location_find(l->frozen, object_id, stripe, shard, location);
        if (rv != 0)
                return rv == 1 ? 0 : rv;
        rv = eng_index_read_begin(l->reader);
        if (rv != 0)
                return rv;
        rv = eng_index_location_get(l->reader, object_id, stripe, shard, location);
        eng_index_read_end(l->reader);
        eng_local_index_error(l, rv);
        return rv;
}

static int check_read(const struct eng_op *op)
{
        uint64_t end = (uint64_t)op->read.offset + op->read.len;

        if (op->read.len == 0 || op->read.payload_len == 0 || op->read.payload_len > FMT_UNIT_MAX ||
            op->read.payload_len % FMT_BLOCK != 0 || end > op->read.payload_len)
                return -EINVAL;
        return 0;
}

static void read_fly(struct eng_local *l, struct eng_reading *r)
{
        (*flying(l, r->home))++;
        r->watch.file = r->where.segment;
        r->watch.position = r->where.position;
        eng_watch_begin_read(l, &r->watch, &r->flight);
        eng_flight_begin(l, &r->flight, r->home, read_give_up, read_gone);
        eng_local_hold(l);
        r->known = recall(l, &r->where, r->op->read.slot);
        r->msg.run = read_on_home;
        if (r->home == l->drive.owner)
                read_on_home(&r->msg);
        else
                lp_post(r->home, &r->msg);
}

static bool may_fly(struct eng_local *l, struct lp_loop *home)
{
        unsigned most = lp_share_slots(home, LP_SHARE_GET) / ENG_READ_SHARE;

        return *flying(l, home) < (most > ENG_READS_LEAST ? most : ENG_READS_LEAST);
}

/* Those of this home loop that wait, in order, as far as its share goes. */
static void fly_next(struct eng_local *l, struct lp_loop *home)
{
        struct eng_reading *r, *next;

        TAILQ_FOREACH_SAFE (r, &l->reads.waiting, wait, next) {
                if (!may_fly(l, home))
                        return;
                if (r->home != home)
                        continue;
                TAILQ_REMOVE(&l->reads.waiting, r, wait);
                read_fly(l, r);
        }
}

static void turn_away(struct eng_local *l, struct eng_reading *r, int rv)
{
        TAILQ_REMOVE(&l->reads.waiting, r, wait);
        eng_fd_put(l, &r->segment->fd);
        eng_segment_unpin(l->segments, r->segment);
        eng_local_answer(r->op, rv);
        free(r);
}

void eng_read_fail(struct eng_local *l)
{
        while (!TAILQ_EMPTY(&l->reads.waiting))
                turn_away(l, TAILQ_FIRST(&l->reads.waiting), -EIO);
}

void eng_read_late(struct eng_local *l)
{
        uint64_t now = lp_now(l->drive.owner);
        struct eng_reading *r;

        while ((r = TAILQ_FIRST(&l->reads.waiting)) != NULL && now - r->waits_from >= l->io_limit_ns)
                turn_away(l, r, -EAGAIN);
}

/* The descriptors are there. */
static void read_line_up(struct eng_local *l, struct eng_reading *r)
{
        assert(r->segment->pins > 0 && r->segment->fd.users > 0);
        r->read_fd = r->segment->fd.read_fd;
        r->direct_fd = r->segment->fd.direct_fd;
        r->direct = !eng_ghosts_touch(&l->unit_ghosts, r->where.generation, r->where.position + r->first) && r->direct_fd >= 0;
        r->waits_from = lp_now(l->drive.owner);
        TAILQ_INSERT_TAIL(&l->reads.waiting, r, wait);
        fly_next(l, r->home);
}

static void read_have_fds(struct eng_want *want, int rv)
{
        struct eng_reading *r = container_of(want, struct eng_reading, descriptors);
        struct eng_local *l = r->l;

        if (rv == 0) {
                read_line_up(l, r);
                return;
        }
        eng_segment_unpin(l->segments, r->segment);
        if (rv != -ECANCELED)
                eng_local_answer(r->op, rv);
        free(r);
}

static void read_start(struct eng_local *l, struct eng_reading *r, struct eng_segment *segment, const struct eng_location *location)
{
        struct eng_op *op = r->op;

        assert(location->payload_len == op->read.payload_len);
        eng_segment_pin(segment);
        r->l = l;
        r->segment = segment;
        r->home = op->home;
        memcpy(r->where.drive_id, l->files.drive_id, FMT_ID);
        r->where.segment = segment->id;
        r->where.generation = segment->generation;
        r->where.position = location->offset;
        r->cover = eng_frame_cover(op->read.payload_len, op->read.offset, op->read.len, &r->first);
        r->descriptors.have = read_have_fds;
        if (eng_fd_get(l, &segment->fd, &r->descriptors) == 0)
                read_line_up(l, r);
}

static void read_again(struct eng_local *l, struct eng_page_wait *wait, int rv);

static void read_now(struct eng_local *l, struct eng_op *op)
{
        struct eng_segment *segment = NULL;
        struct eng_reading *r = NULL;
        struct eng_location location;
        int rv = eng_location_find(l, op->read.object_id, op->read.stripe, op->read.shard, &location);

        if (rv == ENG_INDEX_ABSENT) {
                eng_pages_wait_op(l, op, read_again);
                return;
        }
        if (rv == 0 && location.payload_len != op->read.payload_len)
                rv = -EBADMSG;
        if (rv == 0) {
                segment = eng_segment_find(l->segments, location.segment);
                r = segment != NULL ? calloc(1, sizeof(*r)) : NULL;
                rv = segment == NULL ? -EBADMSG : r == NULL ? -EAGAIN : 0; /* no segment: the file is lost */
        }
        if (rv != 0) {
                eng_local_answer(op, rv == -ENOMEM ? -EAGAIN : rv);
                return;
        }
        r->op = op;
        read_start(l, r, segment, &location);
}

static void read_again(struct eng_local *l, struct eng_page_wait *wait, int rv)
{
        struct eng_op *op = eng_pages_op(wait);

        if (rv == 0)
                read_now(l, op);
        else if (rv != -ECANCELED)
                eng_local_answer(op, rv);
}

void eng_read_op(struct eng_local *l, struct eng_op *op)
{
        int rv = check_read(op);

        eng_pages_of_op(op)->tries = 0;
        if (rv == 0)
                read_now(l, op);
        else
                eng_local_answer(op, rv);
}
