/*
 * remote_call.c - an operation of a remote drive, from its submission to its answer.
 *
 * Everything is on the owner loop of the drive, and goes out in one order there: so COMMITs have
 * numbers, and what was submitted behind one has seen it. What was sent and not answered is never
 * sent again; what the drive server has refused for want of a buffer is, and the rest of an answer is
 * asked for.
 */
#include "remote/remote_drive.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "ec.h"

static void remote_called(struct net_call *call);

/* ---- room ------------------------------------------------------------------------------------ */

#define SHORT_MOST ((uint32_t)(sizeof(struct eng_scan_entry) + FMT_NAME_MAX + sizeof(struct eng_listed) + 8)) /* of one entry */
#define SHORT_NAME (sizeof(struct eng_scan_entry) + sizeof(struct eng_listed) + 64u) /* of an entry without as much of its name as is known */

/*
 * A page that is longer ends there, and says that there is more. Short entries are taken to have about the name that
 * the page begins with: their room is asked for again with each page, and what need not be touched stays small.
 */
static uint32_t scan_most(const struct eng_op *op)
{
        uint64_t most = op->scan.most == 0 || op->scan.most > REM_SCAN_MOST ? REM_SCAN_MOST : op->scan.most;
        uint64_t likely = (uint64_t)op->scan.max * (SHORT_NAME + op->scan.from_len);

        return (uint32_t)((op->flags & ENG_OP_LISTED) != 0 && likely < most ? likely : most);
}

/* What answers mostly need; the rest of longer ones is asked for. */
static uint32_t room_of(const struct eng_op *op)
{
        switch (op->kind) {
        case ENG_OP_LOOKUP:
                return (op->flags & ENG_OP_WANT_INLINE) != 0 ? 36u << 10 : 4u << 10;
        case ENG_OP_SCAN:
                return scan_most(op) + ((op->flags & ENG_OP_LISTED) != 0 ? SHORT_MOST : 64u << 10);
        case ENG_OP_RECORD:
                return 64u << 10;
        case ENG_OP_TAIL:
                return 320u << 10;
        case ENG_OP_IDS:
                return op->ids.max * (uint32_t)sizeof(struct eng_held_id);
        case ENG_OP_OWNED:
                return ENG_OWNED_MAX / 8;
        case ENG_OP_SCRUB:
                return REM_ROOM_MOST; /* it is done once */
        default:
                return 0;
        }
}

static int remote_call_room(struct remote_call *c)
{
        struct eng_op *op = c->op;
        struct net_call *call = &c->call;
        uint32_t room;

        call->room_count = 0;
        if (op->kind == ENG_OP_READ) {
                call->room[0] =
                        (struct iovec){(uint8_t *)op->read.slot + LP_SLOT_HEADER + op->read.offset, op->read.len};
                call->room_count = 1;
                return 0;
        }
        if (c->whole != NULL) { /* the rest */
                room = c->whole->len - c->have;
                call->room[0] = (struct iovec){c->whole->data + c->have, room < REM_ROOM_MOST ? room : REM_ROOM_MOST};
                call->room_count = 1;
                return 0;
        }
        room = room_of(op);
        if (room == 0)
                return 0;
        if (c->room == NULL)
                c->room = eng_buf_new(room);
        if (c->room == NULL)
                return -ENOMEM;
        c->room->len = room;
        call->room[0] = (struct iovec){c->room->data, room};
        call->room_count = 1;
        return 0;
}

/* ---- nodes that say nothing ------------------------------------------------------------------ */

static void slot_stays(struct remote_call *c, struct eng_op *op)
{
        c->slot = op->read.slot;
        c->left = op->read.left;
        c->home = op->home;
        op->read.slot = NULL;
        atomic_fetch_add(&c->drive->calls, 1); /* as if it were not answered */
}

static void slot_goes_back(struct lp_msg *msg)
{
        struct remote_call *c = container_of(msg, struct remote_call, msg);

        c->left(c->home, c->slot);
        free(c);
}

/* A drive may be slow with a shard, and answers may be long: then it is the node that says nothing. */
static uint64_t last_heard(const struct remote_call *c)
{
        uint64_t heard = c->drive->heard, of_node = c->op->kind == ENG_OP_READ ? net_peer_heard(c->drive->peer) : 0;

        heard = heard > of_node ? heard : of_node;
        return c->sent > heard ? c->sent : heard;
}

/*
 * A node that dies is noticed after seconds, and its drives are waited for until then. Whoever can ask others need not
 * wait: what it asked is answered -EAGAIN, and the drive is asked last, until it says something again. A loop that stood
 * still itself has heard nothing either, and judges nobody by that.
 */
static void mute_look_over(struct lp_timer *timer)
{
        struct remote_drive *d = container_of(timer, struct remote_drive, mute_look);
        uint64_t now = lp_now(d->drive.owner);
        struct remote_call *c;
        unsigned left = 0;

        if (now > d->mute_due + REM_MUTE_LOOK_NS)
                d->heard = now;
        LIST_FOREACH (c, &d->out, link) {
                struct eng_op *op = c->op;

                if (op == NULL || (op->flags & ENG_OP_OTHERS) == 0 || (op->kind == ENG_OP_READ && op->read.left == NULL))
                        continue;
                if (now < last_heard(c) + REM_MUTE_NS) {
                        left++;
                        continue;
                }
                atomic_store_explicit(&d->mute, true, memory_order_relaxed);
                remote_count(d->client, REM_COUNT_mute);
                c->op = NULL;
                if (op->kind == ENG_OP_READ)
                        slot_stays(c, op);
                remote_answer(d, op, -EAGAIN);
        }
        d->mute_looks = left > 0;
        d->mute_due = now + REM_MUTE_LOOK_NS;
        if (left > 0)
                lp_timer_start(d->drive.owner, &d->mute_look, REM_MUTE_LOOK_NS);
}

static void mute_look_begins(struct remote_call *c)
{
        struct remote_drive *d = c->drive;

        c->sent = lp_now(d->drive.owner);
        if (d->mute_looks)
                return;
        d->mute_looks = true;
        d->mute_due = c->sent + REM_MUTE_LOOK_NS;
        d->mute_look.expired = mute_look_over;
        lp_timer_start(d->drive.owner, &d->mute_look, REM_MUTE_LOOK_NS);
}

/* ---- sending --------------------------------------------------------------------------------- */

/* What is answered where it was not begun: an error of APPEND or COMMIT would fail the drive for good. */
static int call_not_begun(const struct eng_op *op)
{
        return op->kind == ENG_OP_APPEND || op->kind == ENG_OP_COMMIT ? -EHOSTUNREACH : -EAGAIN;
}

void remote_call_free(struct remote_call *c)
{
        LIST_REMOVE(c, link);
        c->drive->asked -= c->asks > 0;
        c->drive->asked_bytes -= c->asks;
        eng_buf_unref(c->room);
        eng_buf_unref(c->whole);
        if (c->slot == NULL) {
                free(c);
                return;
        }
        atomic_fetch_sub(&c->drive->calls, 1);
        c->msg.run = slot_goes_back;
        lp_post(c->home, &c->msg);
}

static void others_go_on(struct remote_drive *d);

static void remote_call_end(struct remote_call *c, int rv)
{
        struct remote_drive *d = c->drive;
        struct eng_op *op = c->op;
        bool other = c->other;

        remote_call_free(c);
        remote_answer(d, op, rv);
        if (other) {
                d->others--;
                others_go_on(d);
        }
}

static void remote_call_send(struct remote_call *c)
{
        struct remote_drive *d = c->drive;
        struct eng_op *op = c->op;
        struct rem_head head;

        assert(lp_self() == d->drive.owner);
        if (remote_call_room(c) != 0) {
                remote_call_end(c, call_not_begun(op));
                return;
        }
        remote_head(d, &head);
        head.offset = c->have;
        if (d->client->options.home && op->kind == ENG_OP_SYNC)
                head.incarnation = op->incarnation;
        c->session = head.session;
        c->begun = d->begun;
        c->incarnation = head.incarnation;
        memcpy(c->body, &head, sizeof(head));
        c->call.link = !rem_is_bulk(op->kind) ? NET_LOG : (d->lane & 1) == 0 ? NET_BULK_0 : NET_BULK_1;
        c->call.lane = (uint16_t)(2 * d->lane + (op->kind == ENG_OP_APPEND || op->kind == ENG_OP_WRITE ? 0 : 1));
        c->call.done = remote_called;
        remote_net_call(d, &c->call);
}

/*
 * Once more, or the rest of an answer. -EAGAIN: the store has begun anew since, and given up what it had asked before;
 * what is done now would be done by an incarnation, or behind operations, that it was not meant for.
 */
static int remote_call_resend(struct remote_call *c)
{
        if (c->session != c->drive->session || c->begun != c->drive->begun)
                return -EAGAIN;
        remote_call_send(c);
        return 0;
}

static void call_wait_over(struct lp_timer *timer)
{
        struct remote_call *c = container_of(timer, struct remote_call, again);

        if (c->op == NULL)
                remote_call_free(c);
        else if (remote_call_resend(c) != 0)
                remote_call_end(c, call_not_begun(c->op));
}

/*
 * What comes in thousands, such as the DISCARDs of an object's parts, and need not be done before what comes behind it:
 * a COMMIT that found the link's line full of them would end the session.
 */
static bool may_wait_here(const struct eng_op *op)
{
        switch (op->kind) {
        case ENG_OP_DISCARD:
        case ENG_OP_SYNC:
        case ENG_OP_HELD:
        case ENG_OP_SCRUB:
        case ENG_OP_FEATURES:
                return (op->flags & ENG_OP_ANEW) == 0;
        default:
                return false;
        }
}

static void others_go_on(struct remote_drive *d)
{
        struct remote_call *c;

        while (d->others < REM_OTHERS_MOST && (c = TAILQ_FIRST(&d->waits)) != NULL) {
                TAILQ_REMOVE(&d->waits, c, line);
                c->other = true;
                d->others++;
                if (remote_call_resend(c) == 0)
                        continue;
                c->other = false; /* its end does not come back here */
                d->others--;
                remote_call_end(c, call_not_begun(c->op));
        }
}

static void remote_call_first(struct remote_call *c)
{
        struct remote_drive *d = c->drive;

        if (!may_wait_here(c->op)) {
                remote_call_send(c);
                return;
        }
        c->session = d->session;
        c->begun = d->begun;
        TAILQ_INSERT_TAIL(&d->waits, c, line);
        others_go_on(d);
}

/* It was not begun there. False: for too long. */
static bool remote_call_again(struct remote_call *c)
{
        struct lp_loop *loop = c->drive->drive.owner;
        unsigned doubled = c->tries < REM_BUSY_DOUBLE ? c->tries : REM_BUSY_DOUBLE;

        remote_count(c->drive->client, REM_COUNT_busy);
        if (c->until == 0)
                c->until = lp_now(loop) + REM_BUSY_MOST;
        if (lp_now(loop) >= c->until || atomic_load(&c->drive->given_up))
                return false;
        c->tries++;
        c->again.expired = call_wait_over;
        lp_timer_start(loop, &c->again, REM_BUSY_NS << doubled);
        return true;
}

/* Bytes of the operation into d->scratch; negative: it cannot be sent. */
static int call_encode(struct remote_drive *d, const struct eng_op *op, struct eng_wire_parts *bulk)
{
        struct eng_op sent = *op;

        sent.flags &= ~ENG_OP_OTHERS;
        if (d->client->options.home)
                sent.flags &= ~ENG_OP_ANEW;
        if (op->kind == ENG_OP_SCAN)
                sent.scan.most = scan_most(op);
        return eng_wire_put_request(&sent, d->scratch, bulk);
}

/* A question that waits keeps the room of its answer; and a COMMIT that finds no room in the line ends the session. */
static bool question_fits(const struct remote_drive *d, uint32_t room)
{
        return d->asked == 0 || (d->asked < REM_ASKED_MOST && d->asked_bytes + room <= REM_ASKED_BYTES);
}

void remote_call_submit(struct remote_drive *d, struct eng_op *op)
{
        bool begins = (op->flags & ENG_OP_ANEW) != 0 && !d->client->options.home;
        uint32_t asks = rem_is_question(op->kind) ? room_of(op) : 0;
        struct eng_wire_parts bulk;
        struct remote_call *c;
        int len;
        unsigned i;

        if (op->kind == ENG_OP_COMMIT)
                d->commits++; /* also where it is not sent: then nothing behind it is taken */
        if (begins) {
                d->session = remote_session_new(d->client);
                d->commits = op->kind == ENG_OP_COMMIT;
        }
        len = call_encode(d, op, &bulk);
        if (len < 0 || (asks > 0 && !question_fits(d, asks))) {
                remote_answer(d, op, len < 0 ? -EINVAL : -EAGAIN);
                return;
        }
        c = calloc(1, sizeof(*c) + sizeof(struct rem_head) + (size_t)len);
        if (c == NULL) {
                remote_answer(d, op, call_not_begun(op));
                return;
        }
        c->drive = d;
        c->op = op;
        c->begins = begins;
        c->asks = asks;
        d->asked += asks > 0;
        d->asked_bytes += asks;
        LIST_INSERT_HEAD(&d->out, c, link);
        memcpy(c->body + sizeof(struct rem_head), d->scratch, (size_t)len);
        c->call.peer = d->peer;
        c->call.operation = REM_OP;
        c->call.body = c->body;
        c->call.body_len = (uint32_t)(sizeof(struct rem_head) + (size_t)len);
        for (i = 0; i < bulk.count; i++)
                c->call.bulk[i] = (struct iovec){(void *)bulk.part[i].bytes, bulk.part[i].len};
        c->call.bulk_count = bulk.count;
        if (op->kind == ENG_OP_APPEND && bulk.count == 1) { /* summed by whoever made the record */
                c->call.crc_known = true;
                c->call.bulk_crc = op->append.body_crc;
        }
        if ((op->flags & ENG_OP_OTHERS) != 0)
                mute_look_begins(c);
        remote_call_first(c);
}

/* ---- answers --------------------------------------------------------------------------------- */

bool remote_prefix_read(const struct net_call *call, struct rem_prefix *out)
{
        if (call->answer_len < sizeof(*out))
                return false;
        memcpy(out, call->answer, sizeof(*out));
        return out->incarnation != 0 && (out->flags & ~REM_FLAGS) == 0 && out->zero == 0;
}

/* More than fits into its room has come to `have` bytes of a whole. 1: it is there; 0: the rest is asked for; an error. */
static int call_piece(struct remote_call *c, const struct rem_prefix *prefix)
{
        uint32_t came = c->call.answer_bulk, room = (uint32_t)c->call.room[0].iov_len;

        if (!rem_is_question(c->op->kind) || prefix->total > ENG_WIRE_BULK_MAX)
                return -EBADMSG;
        if (c->whole != NULL &&
            (prefix->total != c->whole->len || prefix->total_crc != c->whole_crc)) { /* it has changed */
                if (++c->afresh >= REM_PIECES_AGAIN)
                        return -EAGAIN;
                eng_buf_unref(c->whole);
                c->whole = NULL;
                c->have = 0;
                return remote_call_resend(c);
        }
        if (came == 0 || prefix->total <= c->have ||
            came != (prefix->total - c->have < room ? prefix->total - c->have : room))
                return -EBADMSG; /* it is as much as there is room for */
        if (c->whole == NULL) {
                remote_count(c->drive->client, REM_COUNT_pieces);
                c->whole = eng_buf_new(prefix->total);
                if (c->whole == NULL)
                        return -ENOMEM;
                c->whole_crc = prefix->total_crc;
                memcpy(c->whole->data, c->room->data, came);
        }
        c->have += came;
        if (c->have == c->whole->len)
                return era_crc32c(0, c->whole->data, c->whole->len) == c->whole_crc ? 1 : -EBADMSG;
        return remote_call_resend(c);
}

/* The bulk of an answer as a buffer of its length, which does not keep much more memory than it has bytes. */
static int call_fit(struct remote_call *c, uint32_t len, struct eng_buf **out)
{
        *out = NULL;
        if (len == 0 || c->room == NULL)
                return 0;
        if (len >= c->room->len / 2) {
                c->room->len = len;
                *out = eng_buf_ref(c->room);
                return 0;
        }
        *out = eng_buf_new(len);
        if (*out == NULL)
                return -ENOMEM;
        memcpy((*out)->data, c->room->data, len);
        return 0;
}

/* As a local drive has looked at it: whoever asked goes through it by its own numbers. */
static bool value_is_sound(const struct eng_op *op)
{
        const struct eng_buf *value = op->lookup.value, *bytes = op->lookup.bytes;
        struct fmt_value head;
        bool has_bytes;

        if (value == NULL)
                return bytes == NULL;
        if (eng_value_check(value->data, value->len) != 0)
                return false;
        memcpy(&head, value->data, sizeof(head));
        has_bytes =
                (op->flags & ENG_OP_WANT_INLINE) != 0 && (head.flags & FMT_VALUE_INLINE) != 0 && head.inline_len > 0;
        return op->result == 0 ? has_bytes == (bytes != NULL) && (bytes == NULL || bytes->len == head.inline_len)
                               : bytes == NULL;
}

/* Attributes, where they were asked for, and fields, of a list of versions, lie within each value. */
static bool page_is_sound(const struct eng_op *op)
{
        const struct eng_buf *entries = op->scan.entries;
        struct eng_scan_entry e;
        struct fmt_value head;
        size_t at, need;

        if ((op->flags & ENG_OP_LISTED) != 0)
                return true; /* there is nothing behind */
        for (at = 0; at < entries->len; at += e.size) {
                memcpy(&e, entries->data + at, sizeof(e));
                if (e.flags != 0)
                        continue;
                memcpy(&head, entries->data + at + sizeof(e) + e.name_len, sizeof(head));
                need = sizeof(head) + ((op->flags & ENG_OP_WANT_ATTRS) != 0 ? head.attrs_len : 0);
                if ((op->flags & (ENG_OP_VERSIONS | ENG_OP_WANT_PARTS)) != 0)
                        need = eng_value_parts_at(&head);
                if (need > e.value_len)
                        return false;
        }
        return true;
}

/*
 * Beyond the form (wire.h): what those who asked rely on. The checksum that an answer names is that of its bytes, which
 * they go on with.
 */
static bool answer_is_sound(const struct remote_call *c)
{
        const struct eng_op *op = c->op;

        if (op->kind == ENG_OP_LOOKUP)
                return (op->result != 0 && op->result != -EBADMSG) || value_is_sound(op);
        if (op->result != 0)
                return true;
        switch (op->kind) {
        case ENG_OP_READ:
                return (op->flags & ENG_OP_WANT_CRC) == 0 ||
                       op->read.crc == (op->read.len == 0 ? 0 : c->call.answer_crc);
        case ENG_OP_RECORD:
                return op->append.body_crc == era_crc32c(0, op->append.body->data, op->append.body->len);
        case ENG_OP_SCAN:
                return page_is_sound(op);
        default:
                return true;
        }
}

static int remote_call_take(struct remote_call *c, const struct rem_prefix *prefix)
{
        const uint8_t *body = c->call.answer + sizeof(*prefix);
        size_t len = c->call.answer_len - sizeof(*prefix);
        uint32_t bulk_len = c->call.answer_bulk;
        struct eng_buf *buf;
        int rv;

        if (c->op->kind != ENG_OP_READ && (c->whole != NULL || prefix->total != bulk_len)) {
                rv = call_piece(c, prefix);
                if (rv <= 0)
                        return rv == 0 ? 1 : rv;
                buf = eng_buf_ref(c->whole);
                bulk_len = buf->len;
        } else {
                rv = call_fit(c, bulk_len, &buf);
                if (rv != 0)
                        return rv;
        }
        rv = eng_wire_get_answer(body, len, buf, bulk_len, c->op);
        eng_buf_unref(buf);
        if (rv == 0 && !answer_is_sound(c)) {
                eng_wire_drop_answer(c->op);
                rv = -EBADMSG;
        }
        return rv;
}

static void call_has_begun(struct remote_call *c, uint64_t incarnation)
{
        struct remote_drive *d = c->drive;

        d->begun = c->session;
        if (d->incarnation != incarnation)
                d->next_value = 0; /* it counts its own */
        d->incarnation = incarnation;
}

static void call_says(struct remote_call *c)
{
        struct remote_drive *d = c->drive;
        struct eng_op *op = c->op;
        struct rem_prefix prefix;
        int rv = -EBADMSG;

        if (remote_prefix_read(&c->call, &prefix) && (c->begins || c->incarnation == 0 || prefix.incarnation == c->incarnation)) {
                if (d->client->options.home)
                        d->incarnation = op->incarnation = prefix.incarnation;
                if (c->begins && c->session == d->session)
                        call_has_begun(c, prefix.incarnation);
                if (prefix.incarnation == d->incarnation)
                        remote_take_prefix(d, &prefix);
                rv = remote_call_take(c, &prefix);
        }
        if (rv == 1)
                return; /* the rest of it was asked for */
        if (rv == -ENOMEM || rv == -EAGAIN) {
                remote_call_end(c, call_not_begun(op));
                return;
        }
        if (rv != 0) {
                remote_count(d->client, REM_COUNT_lies);
                remote_call_end(c, -EHOSTUNREACH);
                return;
        }
        if (op->result == -EIO && prefix.incarnation == d->incarnation) /* else another one had */
                remote_has_failed(d, "its node says that it has failed");
        if (op->result == -ESTALE && op->deposed)
                remote_deposed(d->client, NULL);
        if (op->result == -ENOTCONN)
                remote_refused(d, c->begun, REM_NOT_OPEN); /* as where its server says so */
        remote_call_end(c, op->result == -ENOTCONN ? -EHOSTUNREACH : op->result);
}

static bool has_term(const struct remote_call *c)
{
        return !eng_term_is_none(&c->drive->client->options.term);
}

/* The drive server has not asked the drive. */
static void call_refused(struct remote_call *c, enum rem_status status)
{
        if (status == REM_BUSY && rem_may_wait(c->op->kind)) {
                if (!remote_call_again(c))
                        remote_call_end(c, call_not_begun(c->op));
                return;
        }
        if (status != REM_NO_MEMORY)
                remote_refused(c->drive, c->begun, status);
        if (status == REM_DEPOSED && has_term(c)) { /* R6: nobody knows what came of what was asked before */
                c->op->deposed = true;
                remote_deposed_by(c->drive->client, &c->call);
                remote_call_end(c, -ESTALE);
                return;
        }
        remote_call_end(c, status == REM_NO_MEMORY ? call_not_begun(c->op) : -EHOSTUNREACH);
}

static void remote_called(struct net_call *call)
{
        struct remote_call *c = container_of(call, struct remote_call, call);
        bool waits = call->outcome == NET_UNREACHABLE && call->status == -EBUSY;

        assert(lp_self() == c->drive->drive.owner);
        if (!remote_net_ended(c->drive))
                return;
        if (call->outcome == NET_ANSWERED)
                remote_heard(c->drive);
        if (c->op == NULL) {
                remote_call_free(c);
                return;
        }
        if (call->outcome != NET_ANSWERED)
                remote_call_end(c, waits && (rem_is_question(c->op->kind) || c->op->kind == ENG_OP_READ)
                                           ? -EAGAIN
                                           : -EHOSTUNREACH);
        else if (call->status != (int32_t)REM_DONE)
                call_refused(c, (enum rem_status)(uint32_t)call->status);
        else
                call_says(c);
}
