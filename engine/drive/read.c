/*
 * read.c - READ: bytes of one shard, verified.
 *
 * The owner loop finds the frame's place (active, frozen, index) and pins its segment; the op's home loop reads and checks
 * that it is the frame meant and that every CRC block touched is right (I5). A range near the start is one read, header and blocks
 * together. For one further in, the header's CRCs come from a small table of headers verified before; only without it the header is a read of its
 * own.
 *
 * What is read for the first time is read past the page cache, which spares a copy, and pages that nobody may ask for again. What was read before, no
 * longer ago than memory reaches, is read through the page cache and stays there. So a pass over more than fits pushes nothing out.
 *
 * owner: the loop, but for what is marked home.
 */
#include "engine/drive/local.h"

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
struct reading {
        /* set by the owner before it goes to the home loop */
        struct eng_local *l;
        struct eng_op *op;
        struct eng_segment *segment; /* pinned */
        struct eng_frame_where where;
        bool direct;           /* past the page cache */
        bool known;            /* the header is in the slot already, verified before */
        uint32_t first, cover; /* whole CRC blocks */
        struct eng_watch watch;

        /* home, until it goes back */
        struct lp_loop *home;
        struct lp_io head_io, io;
        unsigned ios;
        uint8_t *to;
        uint32_t want;
        uint64_t from;
        int res, head_res;
        bool learned;
        uint8_t header[HEADER_BYTES];
        int failed;
        struct lp_msg msg;
};

static struct reading *of_msg(struct lp_msg *msg)
{
        return (struct reading *)((char *)msg - offsetof(struct reading, msg));
}

/* ---- headers remembered ---------------------------------------------------------------------------- */

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

static void remember(struct eng_local *l, const struct reading *r)
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
        free(l->headers);
        l->headers = NULL;
        eng_marks_clear(&l->unit_marks);
}

/* ---- owner, afterwards ----------------------------------------------------------------------------- */

static void back_on_owner(struct lp_msg *msg)
{
        struct reading *r = of_msg(msg);
        struct eng_local *l = r->l;

        if (eng_local_release(l)) {
                eng_watch_end(l, &r->watch);
                eng_segment_unpin(l->segments, r->segment);
                if (r->learned)
                        remember(l, r);
                if (r->failed != 0)
                        eng_local_fail(l, r->failed, "reading segment %llu", (unsigned long long)r->where.segment);
        }
        free(r);
}

/* ---- home ------------------------------------------------------------------------------------------ */

static void finish(struct reading *r, int rv)
{
        if (rv == 0)
                eng_count(&r->l->figures.read_bytes, r->op->read.len);
        r->failed = rv == -EIO ? rv : 0;
        eng_local_answer(r->op, rv);
        r->msg.run = back_on_owner;
        lp_post(r->l->drive.owner, &r->msg);
}

static int verify(struct reading *r)
{
        struct eng_op *op = r->op;
        const struct fmt_frame *frame = op->read.slot;
        const uint8_t *payload = (const uint8_t *)op->read.slot + LP_SLOT_HEADER;
        uint64_t began;
        int rv;

        if (r->res < 0 || r->head_res < 0)
                return -EIO;
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

static void have_part(struct reading *r)
{
        if (--r->ios == 0)
                finish(r, verify(r));
}

static void read_bytes(struct reading *r)
{
        lp_read(r->home, &r->io, r->direct ? r->segment->direct_fd : r->segment->read_fd, r->to, r->want, r->from);
}

static void have_bytes(struct lp_io *io, int res)
{
        struct reading *r = (struct reading *)((char *)io - offsetof(struct reading, io));

        if (r->direct && res == -EINVAL) { /* the file system wants larger blocks than a frame has */
                r->direct = false;
                read_bytes(r);
                return;
        }
        r->res = res;
        have_part(r);
}

static void have_header(struct lp_io *io, int res)
{
        struct reading *r = (struct reading *)((char *)io - offsetof(struct reading, head_io));

        r->head_res = res;
        have_part(r);
}

static void on_home(struct lp_msg *msg)
{
        struct reading *r = of_msg(msg);
        uint8_t *slot = r->op->read.slot;
        bool together = !r->known && r->first <= READ_WITH_HEADER;

        r->io.done = have_bytes;
        r->ios = 1;
        r->head_res = FMT_BLOCK;
        if (!r->known && !together) {
                r->ios = 2;
                r->head_io.done = have_header;
                lp_read(r->home, &r->head_io, r->segment->read_fd, slot, FMT_BLOCK, r->where.position);
        }
        r->to = together ? slot : slot + LP_SLOT_HEADER + r->first;
        r->want = together ? LP_SLOT_HEADER + r->first + r->cover : r->cover;
        r->from = together ? r->where.position : r->where.position + FMT_BLOCK + r->first;
        read_bytes(r);
}

/* ---- owner, first ---------------------------------------------------------------------------------- */

int eng_place_find(struct eng_local *l, const uint8_t object_id[FMT_ID], uint32_t stripe, uint8_t shard,
                   struct eng_place *place)
{
        int rv;

        rv = eng_tail_place_find(l->active, object_id, stripe, shard, place);
        if (rv == 0 && l->frozen != NULL)
                rv = eng_tail_place_find(l->frozen, object_id, stripe, shard, place);
        if (rv != 0)
                return rv == 1 ? 0 : rv;
        rv = eng_index_read_begin(l->reader);
        if (rv != 0)
                return rv;
        rv = eng_index_place_get(l->reader, object_id, stripe, shard, place);
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

static void start(struct eng_local *l, struct reading *r, struct eng_segment *segment, const struct eng_place *place)
{
        struct eng_op *op = r->op;

        eng_segment_pin(segment);
        eng_watch_begin(l, &r->watch);
        eng_local_hold(l);
        r->l = l;
        r->segment = segment;
        r->home = op->home;
        memcpy(r->where.drive_id, l->files.drive_id, FMT_ID);
        r->where.segment = segment->id;
        r->where.generation = segment->generation;
        r->where.position = place->offset;
        r->cover = eng_frame_cover(op->read.payload_len, op->read.offset, op->read.len, &r->first);
        r->direct = !eng_marks_touch(&l->unit_marks, segment->generation, place->offset + r->first) &&
                    segment->direct_fd >= 0;
        r->known = recall(l, &r->where, op->read.slot);
        r->msg.run = on_home;
        if (r->home == l->drive.owner)
                on_home(&r->msg);
        else
                lp_post(r->home, &r->msg);
}

void eng_read_op(struct eng_local *l, struct eng_op *op)
{
        struct eng_segment *segment = NULL;
        struct reading *r = NULL;
        struct eng_place place;
        int rv = check_read(op);

        if (rv == 0)
                rv = eng_place_find(l, op->read.object_id, op->read.stripe, op->read.shard, &place);
        if (rv == 0 && place.payload_len != op->read.payload_len)
                rv = -EBADMSG;
        if (rv == 0) {
                segment = eng_segment_find(l->segments, place.segment);
                r = segment != NULL ? calloc(1, sizeof(*r)) : NULL;
                rv = segment == NULL ? -EBADMSG : r == NULL ? -EAGAIN : 0; /* no segment: the file is lost */
        }
        if (rv != 0) {
                eng_local_answer(op, rv == -ENOMEM ? -EAGAIN : rv);
                return;
        }
        r->op = op;
        start(l, r, segment, &place);
}
