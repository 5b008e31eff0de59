/*
 * peer_call.c - calls to a peer: they wait in lanes for credit, are sent, and end exactly once.
 *
 * A lane is something at the peer that can be slow by itself, such as one drive. What is unanswered
 * on it is bounded by the bytes that the peer granted for a lane, so that a slow one holds up
 * nobody but its own callers; lanes take turns. Of the number of calls that may be unanswered, and
 * that may wait, one half belongs to the lanes in equal parts, and of the other a lane takes no more
 * than it leaves free: so lanes that hang, however many, never stop another. Credit comes back with
 * the answer, not with the deadline: the peer works on a call that timed out here as long as it has not answered. So each
 * call that was given to the connection has an entry there until its answer comes, with or without
 * the call, and an answer without an entry is a wrong frame.
 *
 * net_call() is called on any loop; all else on the loop of the link.
 */
#include "net/net_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* net_call.state */
enum {
        CALL_POSTED,
        CALL_WAITING,
        CALL_SENDING,
        CALL_LATE /* its deadline came in the middle of it */,
        CALL_SENT,
        CALL_ENDED
};

#define ENTRY_BITS 16u /* of an id; the rest counts */

static struct net_link *call_link(const struct net_call *call)
{
        return &call->peer->links[call->link];
}

static struct net_loop *link_loop(const struct net_link *link)
{
        return net_owner(link->peer, link->number);
}

/* ---- the end --------------------------------------------------------------------------------- */

static void call_ended(struct lp_msg *msg)
{
        struct net_call *call = container_of(msg, struct net_call, msg);
        uint8_t *memory = call->answer_memory;
        struct net *net = call->peer->net;

        call->done(call);
        free(memory);
        atomic_fetch_sub(&net->alive, 1);
}

static void call_end(struct net_call *call, enum net_outcome outcome, int32_t status)
{
        static const enum net_counter counters[NET_OUTCOMES] = {NET_COUNT_answered, NET_COUNT_unreachable,
                                                                NET_COUNT_unknown, NET_COUNT_timed_out};
        struct net_loop *at = link_loop(call_link(call));

        assert(call->state != CALL_ENDED && !call->out.queued);
        lp_timer_stop(at->lp, &call->timer);
        net_count(at, counters[outcome], 1);
        net_count(at, NET_COUNT_calls_out, -1);
        call->sent = call->state >= CALL_LATE || call->out.begun;
        call->state = CALL_ENDED;
        call->outcome = outcome;
        call->status = status;
        call->msg.run = call_ended;
        lp_post(call->home, &call->msg);
}

/* ---- lanes ----------------------------------------------------------------------------------- */

/* What each lane has for itself of so many that all lanes may have. */
static unsigned lane_own(unsigned most)
{
        return most / 2 / NET_LANES;
}

/* A lane has so many already of what is bounded for all: whether it may have another one. */
static bool lane_may_have_more(unsigned has, unsigned shared, unsigned most)
{
        unsigned own = lane_own(most);

        return has < own || has - own < most - own * NET_LANES - shared;
}

/* One more, or one less, of what a lane has: counts those that are beyond its own. */
static void lane_adds(unsigned *has, unsigned *shared, unsigned most)
{
        *shared += (*has)++ >= lane_own(most);
}

static void lane_drops(unsigned *has, unsigned *shared, unsigned most)
{
        *shared -= --*has >= lane_own(most);
}

static unsigned link_waits_most(const struct net_link *link)
{
        return link->peer->net->options.limits.calls;
}

static void lane_activate(struct net_link *link, struct net_lane *lane)
{
        if (lane->active || lane->first == NULL)
                return;
        lane->active = true;
        lane->next_active = NULL;
        if (link->active_last != NULL)
                link->active_last->next_active = lane;
        else
                link->active_first = lane;
        link->active_last = lane;
}

static struct net_lane *lane_take_turn(struct net_link *link)
{
        struct net_lane *lane = link->active_first;

        link->active_first = lane->next_active;
        if (link->active_first == NULL)
                link->active_last = NULL;
        lane->active = false;
        return lane;
}

static void lane_append(struct net_link *link, struct net_call *call)
{
        struct net_lane *lane = &link->lanes[call->lane];

        call->next = NULL;
        call->prev = lane->last;
        if (lane->last != NULL)
                lane->last->next = call;
        else
                lane->first = call;
        lane->last = call;
        lane_adds(&lane->waiting, &link->waiting_shared, link_waits_most(link));
        link->waiting++;
        lane_activate(link, lane);
}

static void lane_remove(struct net_link *link, struct net_call *call)
{
        struct net_lane *lane = &link->lanes[call->lane];

        if (call->prev != NULL)
                call->prev->next = call->next;
        else
                lane->first = call->next;
        if (call->next != NULL)
                call->next->prev = call->prev;
        else
                lane->last = call->prev;
        call->next = call->prev = NULL;
        lane_drops(&lane->waiting, &link->waiting_shared, link_waits_most(link));
        link->waiting--;
}

void net_calls_fail(struct net_link *link, int status)
{
        struct net_call *call;
        unsigned i;

        for (i = 0; i < NET_LANES && link->waiting > 0; i++)
                while ((call = link->lanes[i].first) != NULL) {
                        lane_remove(link, call);
                        call_end(call, NET_UNREACHABLE, status);
                }
}

/* ---- entries --------------------------------------------------------------------------------- */

static struct net_entry *entry_of(const struct net_conn *conn, uint64_t id)
{
        uint64_t index = id & ((1u << ENTRY_BITS) - 1);
        struct net_entry *entry;

        if (index >= conn->to.entry_count)
                return NULL;
        entry = &conn->to.entries[index];
        return id != 0 && entry->id == id ? entry : NULL;
}

/* The credit comes back. */
static void entry_free(struct net_link *link, struct net_conn *conn, struct net_entry *entry)
{
        struct net_lane *lane = &link->lanes[entry->lane];

        lane->bytes -= entry->cost;
        lane_drops(&lane->calls, &link->calls_shared, conn->to.entry_count);
        entry->id = 0;
        entry->call = NULL;
        entry->next_free = (uint16_t)conn->to.free_entry;
        conn->to.free_entry = (unsigned)(entry - conn->to.entries);
        conn->to.outstanding--;
        lane_activate(link, lane);
}

void net_calls_lost(struct net_link *link, struct net_conn *conn)
{
        struct net_call *call;
        unsigned i;

        for (i = 0; i < conn->to.entry_count; i++) {
                call = conn->to.entries[i].call;
                if (call == NULL)
                        continue;
                if (call->state == CALL_LATE)
                        call_end(call, NET_TIMED_OUT, -ETIMEDOUT);
                else if (call->state == CALL_SENT || call->out.begun)
                        call_end(call, NET_UNKNOWN, -ECONNRESET);
                else
                        call_end(call, NET_UNREACHABLE, -ENOTCONN);
        }
        free(conn->to.entries);
        conn->to.entries = NULL;
        conn->to.entry_count = 0;
        for (i = 0; i < NET_LANES; i++)
                link->lanes[i].bytes = link->lanes[i].calls = 0;
        link->calls_shared = 0;
}

/* ---- sending --------------------------------------------------------------------------------- */

static void call_out_gone(struct net_out *out, bool sent)
{
        struct net_call *call = container_of(out, struct net_call, out);
        struct net_conn *conn = call_link(call)->conn;

        if (!sent)
                return; /* the connection is gone: net_calls_lost() */
        if (call->state == CALL_SENDING) {
                call->state = CALL_SENT;
                return;
        }
        assert(call->state == CALL_LATE);
        conn->to.entries[call->entry].call = NULL;
        call_end(call, NET_TIMED_OUT, -ETIMEDOUT);
}

static uint32_t deadline_left_ms(const struct net_call *call, uint64_t now)
{
        uint64_t left = call->deadline > now ? (call->deadline - now) / NET_MS : 0;

        if (call->deadline == 0)
                return 0;
        return left == 0 ? 1 : left < UINT32_MAX ? (uint32_t)left : UINT32_MAX;
}

static void call_start(struct net_link *link, struct net_conn *conn, struct net_call *call)
{
        unsigned index = conn->to.free_entry;
        struct net_entry *entry = &conn->to.entries[index];
        struct net_wire_head head = {.version = conn->version,
                                     .kind = NET_FRAME_REQUEST,
                                     .lane = call->lane,
                                     .class = call->class,
                                     .tenant = call->tenant,
                                     .id = ++conn->to.ids << ENTRY_BITS | index,
                                     .code = call->operation,
                                     .deadline_ms = deadline_left_ms(call, lp_now(conn->at->lp)),
                                     .body_len = call->body_len,
                                     .room = call->room_len};

        conn->to.free_entry = entry->next_free;
        conn->to.outstanding++;
        *entry = (struct net_entry){.id = head.id, .call = call, .cost = call->cost, .lane = call->lane};
        link->lanes[call->lane].bytes += call->cost;
        lane_adds(&link->lanes[call->lane].calls, &link->calls_shared, conn->to.entry_count);
        call->entry = index;
        call->state = CALL_SENDING;
        memcpy(head.trace, call->trace, NET_TRACE_LEN);
        call->out.gone = call_out_gone;
        net_out_fill(&call->out, &head, call->body, call->bulk, call->bulk_count,
                     call->crc_known ? &call->bulk_crc : NULL);
        net_conn_send(conn, &call->out);
}

/* A call that is larger than a lane's credit has the lane to itself. */
static bool lane_has_credit(const struct net_lane *lane, const struct net_conn *conn)
{
        uint32_t cost = lane->first->cost;

        return lane->bytes == 0 || (lane->bytes < conn->to.lane_bytes && cost <= conn->to.lane_bytes - lane->bytes);
}

void net_calls_pump(struct net_link *link)
{
        struct net_conn *conn = link->conn;
        struct net_lane *lane, *passed = NULL; /* passed: the first of those that were passed over in a row */
        struct net_call *call;

        if (link->state != NET_LINK_OPEN)
                return;
        while (link->active_first != NULL && link->active_first != passed &&
               conn->to.outstanding < conn->to.entry_count) {
                lane = lane_take_turn(link);
                if (lane->first == NULL || !lane_has_credit(lane, conn))
                        continue; /* active again when credit comes back */
                if (!lane_may_have_more(lane->calls, link->calls_shared, conn->to.entry_count)) {
                        lane_activate(link, lane);
                        passed = passed != NULL ? passed : lane;
                        continue;
                }
                passed = NULL;
                call = lane->first;
                lane_remove(link, call);
                if (call->body_len > conn->to.body_max)
                        call_end(call, NET_UNREACHABLE, -EMSGSIZE);
                else
                        call_start(link, conn, call);
                lane_activate(link, lane);
        }
}

/* ---- deadlines ------------------------------------------------------------------------------- */

static void call_expired(struct lp_timer *timer)
{
        struct net_call *call = container_of(timer, struct net_call, timer);
        struct net_link *link = call_link(call);
        struct net_conn *conn = link->conn;

        switch (call->state) {
        case CALL_WAITING:
                lane_remove(link, call);
                lane_activate(link, &link->lanes[call->lane]); /* the next one may fit */
                break;
        case CALL_SENDING:
                if (call->out.begun) {
                        call->state = CALL_LATE;
                        conn->out_since = lp_now(conn->at->lp); /* its time to end begins */
                        return;
                }
                net_conn_unsend(conn, &call->out);
                entry_free(link, conn, &conn->to.entries[call->entry]);
                break;
        default:
                assert(call->state == CALL_SENT);
                if (conn->to.receiving == call)
                        return; /* its answer has come, the rest of it within frame_ms */
                conn->to.entries[call->entry].call = NULL;
        }
        call_end(call, NET_TIMED_OUT, -ETIMEDOUT);
        net_calls_pump(link);
}

bool net_call_is_late(const struct net_out *out)
{
        return out->gone == call_out_gone && container_of(out, const struct net_call, out)->state == CALL_LATE;
}

/* ---- submitting ------------------------------------------------------------------------------ */

void net_calls_submit(struct net_link *link, struct net_call *call)
{
        struct net_loop *at = link_loop(link);
        uint64_t now = lp_now(at->lp);

        net_count(at, NET_COUNT_calls_out, 1);
        if (call->deadline != 0 && call->deadline <= now) {
                call_end(call, NET_TIMED_OUT, -ETIMEDOUT);
                return;
        }
        if (link->state == NET_LINK_IDLE)
                net_link_open(link);
        if (link->state == NET_LINK_IDLE || link->state == NET_LINK_RESTING) {
                call_end(call, NET_UNREACHABLE, -ENOTCONN);
                return;
        }
        if (!lane_may_have_more(link->lanes[call->lane].waiting, link->waiting_shared, link_waits_most(link))) {
                call_end(call, NET_UNREACHABLE, -EBUSY);
                return;
        }
        call->state = CALL_WAITING;
        if (call->deadline != 0) {
                call->timer.expired = call_expired;
                lp_timer_start(at->lp, &call->timer, call->deadline - now);
        }
        lane_append(link, call);
        net_calls_pump(link);
}

static void call_arrives(struct lp_msg *msg)
{
        struct net_call *call = container_of(msg, struct net_call, msg);

        net_calls_submit(call_link(call), call);
}

void net_call(struct net_call *call)
{
        struct net_link *link = call_link(call);

        assert(call->body_len <= NET_BODY_MAX && call->lane < NET_LANES && (unsigned)call->link < NET_LINKS);
        assert(call->bulk_count <= NET_PIECES && call->room_count <= NET_PIECES && lp_self() != NULL);
        call->home = lp_self();
        call->bulk_len = net_pieces_len(call->bulk, call->bulk_count);
        call->room_len = net_pieces_len(call->room, call->room_count);
        call->cost = NET_HEAD_SIZE + call->body_len + call->bulk_len + call->room_len;
        call->state = CALL_POSTED;
        call->out.queued = call->out.begun = false;
        call->answer_memory = NULL;
        call->answer = NULL;
        call->answer_len = call->answer_bulk = 0;
        atomic_fetch_add(&call->peer->net->alive, 1);
        call->msg.run = call_arrives;
        lp_post(link_loop(link)->lp, &call->msg);
}

/* ---- answers --------------------------------------------------------------------------------- */

int net_calls_reply_head(struct net_conn *conn)
{
        const struct net_entry *entry = entry_of(conn, conn->head.id);

        if (conn->head.kind != NET_FRAME_REPLY || entry == NULL)
                return -EBADMSG;
        if (entry->call != NULL && (entry->call->state != CALL_SENT || conn->head.bulk_len > entry->call->room_len))
                return -EBADMSG;
        if (conn->head.body_len == 0)
                return 0;
        conn->body = malloc(conn->head.body_len);
        return conn->body != NULL ? 0 : -ENOMEM;
}

/* The call may have timed out since its answer's head came: the answer is thrown away then. */
int net_calls_reply_bulk(struct net_conn *conn)
{
        struct net_call *call = entry_of(conn, conn->head.id)->call;

        if (call == NULL)
                return 0;
        memcpy(conn->bulk, call->room, sizeof(conn->bulk));
        conn->bulk_count = call->room_count;
        conn->to.receiving = call;
        return 0;
}

int net_calls_reply(struct net_conn *conn)
{
        struct net_link *link = &conn->peer->links[conn->link];
        struct net_entry *entry = entry_of(conn, conn->head.id);
        struct net_call *call = entry->call;

        conn->to.receiving = NULL;
        entry_free(link, conn, entry);
        if (call != NULL) {
                call->answer_memory = conn->body;
                call->answer = conn->body;
                call->answer_len = conn->head.body_len;
                call->answer_bulk = conn->head.bulk_len;
                call->answer_crc = conn->head.bulk_crc;
                call->boot = conn->boot;
                call_end(call, NET_ANSWERED, (int32_t)conn->head.code);
        } else {
                net_count(conn->at, NET_COUNT_late, 1);
                free(conn->body);
        }
        conn->body = NULL;
        net_calls_pump(link);
        return 0;
}
