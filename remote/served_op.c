/*
 * served_op.c - operations of remote drives: their memory, the way to the drive, their answers.
 *
 * READ and WRITE are submitted on the loop of their connection, whose peer slots they use. A slot is
 * the request's from its reservation to its answer's last byte; one of a READ that a failed drive
 * still fills comes back by read_left(). All other operations go to the owner loop of the drive,
 * where they are let in one after the other, as they came.
 */
#include "engine_home.h"
#include "remote/drive_server.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "ec.h"

static const uint8_t *op_body(const struct served_request *r)
{
        return r->request->body + sizeof(struct rem_head);
}

static size_t op_body_len(const struct served_request *r)
{
        return r->request->body_len - sizeof(struct rem_head);
}

static enum eng_op_kind op_kind(const struct served_request *r)
{
        return (enum eng_op_kind)op_body(r)[0];
}

/* ---- memory ---------------------------------------------------------------------------------- */

static unsigned *slots_of(const struct served_request *r)
{
        unsigned index = lp_index(r->at);

        assert(lp_self() == r->at && index < REM_LOOPS_MAX);
        return &r->served->slots[index];
}

/*
 * False: the drive has as many as it leaves free, half of them where it is alone. So any number of drives that hang
 * leave some, and nobody waits in line, least of all a connection, which has requests for other drives, too.
 */
static bool peer_slot_get(struct served_request *r)
{
        struct lp_reserve reserve = {.count = 1, .share = LP_SHARE_PEER};
        unsigned *slots = slots_of(r);

        assert(r->slot == NULL);
        if (*slots >= lp_share_free(r->at, LP_SHARE_PEER))
                return false;
        if (lp_reserve(r->at, &reserve) != 0) {
                lp_reserve_cancel(r->at, &reserve);
                return false;
        }
        (*slots)++;
        r->slot = lp_slot_get(r->at);
        return true;
}

static void peer_slot_end(struct served_request *r)
{
        bool left = op_kind(r) == ENG_OP_READ && r->op.kind == ENG_OP_READ && r->op.read.slot == NULL;

        if (r->slot == NULL)
                return;
        --*slots_of(r);
        if (left)
                return; /* read_left() gives it back */
        lp_slot_put(r->at, r->slot);
        lp_unreserve(r->at, LP_SHARE_PEER, 1);
}

/*
 * A connection has no more than the credit of its lane: but requests outlive connections, of which each brings its own,
 * and a peer may use any lane. NULL: too much waits for the drive, or no memory.
 */
static struct eng_buf *append_body(struct served_request *r, uint32_t len)
{
        atomic_size_t *bytes = &r->served->append_bytes;

        if (atomic_fetch_add(bytes, len) + len <= REM_APPEND_BYTES)
                r->body = eng_buf_new(len);
        if (r->body == NULL)
                atomic_fetch_sub(bytes, len);
        return r->body;
}

static void append_body_end(struct served_request *r)
{
        if (r->body != NULL)
                atomic_fetch_sub(&r->served->append_bytes, r->body->len);
        eng_buf_unref(r->body);
}

/* The drive has failed, its answer is given, and now the kernel is done with the slot. */
static void read_left(struct lp_loop *home, void *slot)
{
        lp_slot_put(home, slot);
        lp_unreserve(home, LP_SHARE_PEER, 1);
}

void served_op_end(struct served_request *r)
{
        if (r->answers)
                eng_wire_drop_answer(&r->op);
        peer_slot_end(r);
        append_body_end(r);
}

static enum net_bulk take(struct served_request *r, void *memory)
{
        r->request->bulk[0] = (struct iovec){memory, r->request->bulk_len};
        r->request->bulk_count = 1;
        return NET_BULK_TAKE;
}

enum net_bulk served_op_bulk(struct served_request *r, enum rem_status *refused)
{
        uint32_t len = r->request->bulk_len;
        enum eng_wire_bulk bulk;
        bool slot;

        *refused = REM_BAD;
        if (eng_wire_request_needs(op_body(r), op_body_len(r), &bulk, &slot) != 0 || bulk == ENG_WIRE_BULK_NONE ||
            len > (bulk == ENG_WIRE_BULK_SLOT ? LP_SLOT_UNIT : FMT_BODY_MAX))
                return NET_BULK_DISCARD;
        if (bulk == ENG_WIRE_BULK_BUF) {
                *refused = REM_NO_MEMORY;
                return append_body(r, len) == NULL ? NET_BULK_DISCARD : take(r, r->body->data);
        }
        *refused = REM_BUSY;
        if (!peer_slot_get(r))
                return NET_BULK_DISCARD;
        return take(r, (uint8_t *)r->slot + LP_SLOT_HEADER);
}

/* ---- answers --------------------------------------------------------------------------------- */

/* From `offset` on, as far as there is room. */
static void answer_slice(struct net_answer *answer, const struct eng_wire_parts *parts, uint32_t offset, uint32_t room)
{
        unsigned i;

        for (i = 0; i < parts->count; i++) {
                size_t skip = offset < parts->part[i].len ? offset : parts->part[i].len;
                size_t len = parts->part[i].len - skip < room ? parts->part[i].len - skip : room;

                offset -= (uint32_t)skip;
                room -= (uint32_t)len;
                if (len > 0)
                        answer->bulk[answer->bulk_count++] = (struct iovec){(void *)(parts->part[i].bytes + skip), len};
        }
}

static void op_say(struct served_request *r)
{
        uint8_t body[ENG_WIRE_BODY_MAX];
        struct eng_wire_parts parts;
        struct rem_prefix prefix;
        size_t total = 0;
        unsigned i;
        int len = eng_wire_put_answer(&r->op, body, &parts);

        if (len < 0 && r->op.result == 0) { /* longer than any that is sent */
                eng_wire_drop_answer(&r->op);
                r->op.result = -EAGAIN;
                len = eng_wire_put_answer(&r->op, body, &parts);
        }
        assert(len > 0 && (size_t)len + sizeof(prefix) <= sizeof(r->small));
        for (i = 0; i < parts.count; i++)
                total += parts.part[i].len;
        served_prefix(r->served, &prefix);
        prefix.total = (uint32_t)total;
        if (total > r->request->room || r->head.offset > 0)
                for (i = 0; i < parts.count; i++)
                        prefix.total_crc = era_crc32c(prefix.total_crc, parts.part[i].bytes, parts.part[i].len);
        memcpy(r->small, &prefix, sizeof(prefix));
        memcpy(r->small + sizeof(prefix), body, (size_t)len);
        r->answer.body = r->small;
        r->answer.body_len = (uint32_t)(sizeof(prefix) + (size_t)len);
        answer_slice(&r->answer, &parts, r->head.offset, r->request->room);
        r->answer.crc_known = r->op.kind == ENG_OP_READ && (r->op.flags & ENG_OP_WANT_CRC) != 0 &&
                              r->answer.bulk_count == 1 && r->answer.bulk[0].iov_len == total;
        r->answer.bulk_crc = r->op.read.crc;
        if (!r->answer.crc_known)
                r->answer.bulk_crc = 0;
}

static void served_op_done(struct eng_op *op)
{
        struct served_request *r = container_of(op, struct served_request, op);

        r->answers = true;
        if (op->kind == ENG_OP_SCRUB)
                r->served->scratch_out = false;
        if (op->kind == ENG_OP_FEATURES && op->result == 0)
                r->served->identity.features |= op->features.bits; /* owner */
        r->status = REM_DONE;
        op_say(r);
        served_answer(r);
}

/* ---- the way to the drive -------------------------------------------------------------------- */

static int op_decode(struct served_request *r, void *slot)
{
        int rv = eng_wire_get_request(op_body(r), op_body_len(r), r->body, slot, r->request->bulk_len, &r->op);

        r->op.term = r->head.term;
        r->op.of_home = (r->head.flags & REM_HOME) != 0; /* and then home_may() looks */
        if (rv == 0 && r->op.kind == ENG_OP_OPEN)
                rv = -EBADMSG; /* it has a request of its own */
        if (rv == 0 && r->op.kind == ENG_OP_READ && r->op.read.len > LP_SLOT_UNIT)
                rv = -EBADMSG;
        if (rv == 0 && r->op.kind == ENG_OP_APPEND && r->body != NULL &&
            r->op.append.body_crc != era_crc32c(0, r->body->data, r->body->len))
                rv = -EBADMSG; /* the log would end there when it is read */
        if (rv == 0 && r->op.kind == ENG_OP_SCAN && (r->op.scan.most == 0 || r->op.scan.most > REM_SCAN_MOST))
                r->op.scan.most = REM_SCAN_MOST;
        if (rv == 0 && r->op.kind == ENG_OP_FEATURES && !rem_is_known(0, r->op.features.bits))
                rv = -EBADMSG; /* the folder could not be opened again */
        if (rv == 0 && r->head.offset > 0 && !rem_is_question(r->op.kind))
                rv = -EBADMSG;
        return rv;
}

static void op_submit(struct served_request *r)
{
        r->op.done = served_op_done;
        eng_drive_submit(r->served->drive, &r->op);
}

static bool is_of_home(const struct served_request *r)
{
        return (r->head.flags & REM_HOME) != 0;
}

/* A home store reads what it likes, and writes shards of its own uploads alone. */
static bool home_may(const struct served_request *r)
{
        uint16_t node;
        uint32_t boot;

        if (!is_of_home(r))
                return true;
        if (!eng_term_is_none(&r->head.term) || (r->op.flags & ENG_OP_ANEW) != 0)
                return false;
        if (r->op.kind != ENG_OP_WRITE)
                return r->op.kind == ENG_OP_READ || r->op.kind == ENG_OP_SYNC || r->op.kind == ENG_OP_HELD;
        eng_id_maker(r->op.write.object_id, &node, &boot);
        return node == net_peer_node(r->request->peer) && boot == r->request->boot;
}

/* On the connection's loop. */
static void server_bulk_op(struct served_request *r)
{
        if (op_kind(r) == ENG_OP_READ && !peer_slot_get(r)) {
                served_refuse(r, REM_BUSY);
                return;
        }
        if (op_decode(r, r->slot) != 0 || !home_may(r)) {
                memset(&r->op, 0, sizeof(r->op)); /* the slot is no operation's */
                served_refuse(r, REM_BAD);
                return;
        }
        if (r->op.kind == ENG_OP_READ)
                r->op.read.left = read_left;
        op_submit(r);
}

/* One SCRUB at a time needs a slot that is no peer's: nobody waits for it. */
static bool take_scratch(struct rem_served *served)
{
        if (served->scratch == NULL)
                served->scratch = aligned_alloc(FMT_BLOCK, LP_SLOT_SIZE);
        if (served->scratch == NULL || served->scratch_out)
                return false;
        served->scratch_out = true;
        return true;
}

/* A COMMIT is the next one; everything else but an APPEND, which may be overtaken, has seen the last. */
static bool commits_match(struct rem_served *served, const struct served_request *r)
{
        if (r->op.kind == ENG_OP_COMMIT && r->head.commits == served->commits + 1) {
                served->commits++;
                return true;
        }
        return r->op.kind == ENG_OP_APPEND || (r->op.kind != ENG_OP_COMMIT && r->head.commits == served->commits);
}

static void op_on_owner(struct lp_msg *msg)
{
        struct served_request *r = container_of(msg, struct served_request, msg);
        struct rem_served *served = r->served;
        enum rem_status status;

        assert(lp_self() == served->owner);
        if (op_decode(r, served) != 0) { /* a slot, of SCRUB, is given below */
                served_refuse(r, REM_BAD);
                return;
        }
        if (!home_may(r)) {
                served_refuse(r, REM_BAD);
                return;
        }
        status = is_of_home(r) ? REM_DONE : served_admit(served, r, (r->op.flags & ENG_OP_ANEW) != 0);
        if (!is_of_home(r) && status == REM_DONE && !commits_match(served, r))
                status = REM_GAP;
        if (status == REM_DONE && r->op.kind == ENG_OP_SCRUB && !take_scratch(served))
                status = REM_BUSY;
        if (status != REM_DONE) {
                served_refuse(r, status);
                return;
        }
        if (r->op.kind == ENG_OP_SCRUB) {
                r->op.scrub.slot = served->scratch;
                r->op.scrub.left = NULL;
        }
        op_submit(r);
}

void served_op(struct served_request *r)
{
        if (rem_is_bulk(op_kind(r))) {
                server_bulk_op(r);
                return;
        }
        r->msg.run = op_on_owner;
        lp_post(r->served->owner, &r->msg);
}
