/*
 * peer_request.c - requests of peers on an inbound connection, and their answers.
 *
 * Called on the loop of the connection. A request is one piece of memory with its body, counted
 * against a limit of the process, of which a connection has no more than it leaves free, but always one:
 * those of others that are not answered never keep it from being read. Where the limit is reached, or the handler
 * has no memory for the bulk, the connection is not read from. What a peer may have unanswered was granted to it by WELCOME; one
 * that sends more ends its connection. A request outlives its connection: the answer is dropped then.
 */
#include "net/net_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static size_t request_memory(const struct net_request *request)
{
        return sizeof(*request) + request->body_len;
}

static void request_free(struct net_request *request)
{
        struct net_conn *conn = request->conn;
        struct net *net = conn->at->net;

        atomic_fetch_sub(&net->body_used, request_memory(request));
        conn->from.bytes -= request_memory(request);
        free(request);
        net_conn_drop(conn);
        atomic_fetch_sub(&net->alive, 1);
}

/* ---- receiving ------------------------------------------------------------------------------- */

/* NULL: not now. */
static struct net_request *peer_request_new(struct net_conn *conn)
{
        struct net *net = conn->at->net;
        uint64_t size = sizeof(struct net_request) + conn->head.body_len;
        struct net_request *request = NULL;

        if (atomic_fetch_add(&net->body_used, size) + size + conn->from.bytes <= net->options.limits.body_bytes ||
            conn->from.bytes == 0)
                request = malloc(size);
        if (request == NULL) {
                atomic_fetch_sub(&net->body_used, size);
                return NULL;
        }
        memset(request, 0, sizeof(*request));
        conn->from.bytes += size;
        atomic_fetch_add(&net->alive, 1);
        net_conn_hold(conn);
        return request;
}

static uint32_t head_cost(const struct net_wire_head *head)
{
        return NET_HEAD_SIZE + head->body_len + head->bulk_len + head->room;
}

/* The peer keeps to what was granted. */
static bool within_grant(const struct net_conn *conn)
{
        const struct net_limits *limits = &conn->at->net->options.limits;
        uint32_t there = conn->from.lanes[conn->head.lane];

        return conn->from.requests < limits->requests &&
               (there == 0 || (uint64_t)there + head_cost(&conn->head) <= limits->lane_bytes);
}

int net_serve_head(struct net_conn *conn)
{
        const struct net_wire_head *head = &conn->head;
        struct net_request *request;

        if (head->kind != NET_FRAME_REQUEST || head->id == 0 || !within_grant(conn))
                return -EBADMSG;
        request = peer_request_new(conn);
        conn->from.short_of_memory = request == NULL;
        if (request == NULL)
                return -EAGAIN;
        request->peer = conn->peer;
        request->link = conn->link;
        request->boot = conn->boot;
        request->operation = head->code;
        request->tenant = head->tenant;
        request->class = head->class;
        request->lane = head->lane;
        memcpy(request->trace, head->trace, NET_TRACE_LEN);
        request->deadline = head->deadline_ms != 0 ? lp_now(conn->at->lp) + head->deadline_ms * NET_MS : 0;
        request->body = (const uint8_t *)(request + 1);
        request->body_len = head->body_len;
        request->bulk_len = head->bulk_len;
        request->room = head->room;
        request->conn = conn;
        request->id = head->id;
        request->cost = head_cost(head);
        conn->from.request = request;
        conn->from.asked = false;
        conn->body = (uint8_t *)(request + 1);
        return 0;
}

int net_serve_bulk(struct net_conn *conn)
{
        const struct net_options *options = &conn->at->net->options;
        struct net_request *request = conn->from.request;

        conn->from.asked = true;
        switch (options->handler.bulk(options->handler_arg, request)) {
        case NET_BULK_WAIT:
                return -EAGAIN;
        case NET_BULK_DISCARD:
                request->discarded = true;
                request->bulk_count = 0;
                break;
        default:
                assert(request->bulk_count <= NET_PIECES &&
                       net_pieces_len(request->bulk, request->bulk_count) == request->bulk_len);
                memcpy(conn->bulk, request->bulk, sizeof(conn->bulk));
        }
        conn->bulk_count = request->bulk_count;
        return 0;
}

int net_serve_frame(struct net_conn *conn)
{
        const struct net_options *options = &conn->at->net->options;
        struct net_request *request = conn->from.request;

        conn->from.request = NULL;
        conn->body = NULL; /* the request's */
        conn->from.requests++;
        conn->from.lanes[request->lane] += request->cost;
        net_count(conn->at, NET_COUNT_requests, 1);
        net_count(conn->at, NET_COUNT_requests_in, 1);
        options->handler.request(options->handler_arg, request);
        return 0;
}

void net_request_resume(struct net_request *request)
{
        net_conn_resume(request->conn);
}

/* The one that was on its way does not come. */
void net_serve_closed(struct net_conn *conn)
{
        const struct net_options *options = &conn->at->net->options;
        struct net_request *request = conn->from.request;

        if (request == NULL)
                return;
        conn->from.request = NULL;
        conn->body = NULL;
        if (conn->from.asked)
                options->handler.lost(options->handler_arg, request);
        request_free(request);
}

/* ---- answering ------------------------------------------------------------------------------- */

static void peer_request_over(struct net_request *request)
{
        if (request->answered != NULL)
                request->answered(request);
        request_free(request);
}

static void answer_gone(struct net_out *out, bool sent)
{
        peer_request_over(container_of(out, struct net_request, out));
}

static void answer_dropped(struct lp_msg *msg)
{
        peer_request_over(container_of(msg, struct net_request, msg));
}

void net_reply(struct net_request *request, const struct net_answer *answer)
{
        struct net_conn *conn = request->conn;
        struct net_wire_head head = {.version = conn->version,
                                     .kind = NET_FRAME_REPLY,
                                     .class = request->class,
                                     .tenant = request->tenant,
                                     .id = request->id,
                                     .code = (uint32_t)answer->status,
                                     .body_len = answer->body_len};

        assert(lp_self() == conn->at->lp && request->out.gone == NULL && answer->bulk_count <= NET_PIECES &&
               answer->body_len <= NET_BODY_MAX);
        assert(net_pieces_len(answer->bulk, answer->bulk_count) <= request->room);
        request->answer = *answer;
        request->out.gone = answer_gone;
        conn->from.requests--;
        conn->from.lanes[request->lane] -= request->cost;
        net_count(conn->at, NET_COUNT_requests_in, -1);
        if (conn->state == NET_CONN_CLOSED) {
                request->msg.run = answer_dropped;
                lp_post(conn->at->lp, &request->msg);
                return;
        }
        memcpy(head.trace, request->trace, NET_TRACE_LEN);
        net_out_fill(&request->out, &head, answer->body, request->answer.bulk, answer->bulk_count,
                     answer->crc_known ? &request->answer.bulk_crc : NULL);
        net_conn_send(conn, &request->out);
}

/* ---- the role -------------------------------------------------------------------------------- */

static int inbound_shaken(struct net_conn *conn)
{
        return -EPROTO; /* that was the stranger's */
}

static void inbound_closed(struct net_conn *conn, const char *why)
{
        const struct net_part *part = net_part_of(conn->peer, conn->at);

        if (part->known != NULL && !conn->at->stopped)
                net_log(conn->at, &conn->peer->inbound[conn->link].quiet, "node %u (%s): its %s connection ended: %s",
                        conn->peer->node, part->known->name, net_link_name(conn->link), why);
        net_serve_closed(conn);
        net_inbound_closed(conn);
}

const struct net_role net_role_inbound = {
        .shaken = inbound_shaken,
        .head = net_serve_head,
        .bulk = net_serve_bulk,
        .frame = net_serve_frame,
        .closed = inbound_closed,
};
