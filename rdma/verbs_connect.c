/*
 * verbs_connect.c - connections of the verbs transport by rdma_cm: listening, private data, events,
 * and queue pairs.
 *
 * An event is copied and acknowledged at once, so that destroying an id (which waits for its
 * events) never waits for another thread's leisure.
 */
#include "rdma/verbs.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RETRIES 5 /* 7 never errs on Soft-RoCE */

int rdx_verbs_address(const char *address, uint16_t port, struct sockaddr_storage *out)
{
        struct addrinfo hints = {.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV, .ai_socktype = SOCK_STREAM}, *found;
        char service[8];

        snprintf(service, sizeof(service), "%u", port);
        if (getaddrinfo(address, service, &hints, &found) != 0)
                return -EINVAL;
        memset(out, 0, sizeof(*out));
        memcpy(out, found->ai_addr, found->ai_addrlen);
        freeaddrinfo(found);
        return 0;
}

static int event_error(const struct rdma_cm_event *event)
{
        switch (event->event) {
        case RDMA_CM_EVENT_ADDR_ERROR:
        case RDMA_CM_EVENT_ROUTE_ERROR:
        case RDMA_CM_EVENT_UNREACHABLE:
                return -ENETUNREACH;
        case RDMA_CM_EVENT_REJECTED:
                return -ECONNREFUSED;
        default:
                return -ECONNRESET;
        }
}

int rdx_verbs_await(struct rdma_event_channel *channel, enum rdma_cm_event_type kind, unsigned timeout_ms)
{
        struct pollfd item = {.fd = channel->fd, .events = POLLIN};
        struct rdma_cm_event *event;
        int rv;

        if (poll(&item, 1, (int)timeout_ms) != 1)
                return -ETIMEDOUT;
        if (rdx_lib.rdma_get_cm_event_fn(channel, &event) != 0)
                return -errno;
        rv = event->event == kind ? 0 : event_error(event);
        rdx_lib.rdma_ack_cm_event_fn(event);
        return rv;
}

/* ---- channels -------------------------------------------------------------------------------- */

int rdx_verbs_channel_open(struct rdx_device *device, struct rdx_channel **out)
{
        struct rdx_channel *channel = calloc(1, sizeof(*channel));
        int flags;

        *out = NULL;
        if (channel == NULL)
                return -ENOMEM;
        channel->channel = rdx_lib.rdma_create_event_channel_fn();
        if (channel->channel == NULL) {
                free(channel);
                return -EIO;
        }
        flags = fcntl(channel->channel->fd, F_GETFL);
        fcntl(channel->channel->fd, F_SETFL, flags | O_NONBLOCK);
        *out = channel;
        return 0;
}

void rdx_verbs_channel_close(struct rdx_channel *channel)
{
        rdx_lib.rdma_destroy_event_channel_fn(channel->channel);
        free(channel);
}

int rdx_verbs_channel_fd(const struct rdx_channel *channel)
{
        return channel->channel->fd;
}

static void copy_data(const struct rdma_conn_param *from, struct rdx_event *out)
{
        _Static_assert(sizeof(out->data) >= UINT8_MAX, "whatever comes");
        out->len = from->private_data != NULL ? from->private_data_len : 0;
        if (out->len > 0)
                memcpy(out->data, from->private_data, out->len);
}

/* The pair's own end of the address; the peer's is dgid. */
static void copy_gid(uint8_t to[RDX_GID_LEN], const union ibv_gid *from)
{
        memcpy(to, from->raw, RDX_GID_LEN);
}

static bool take_arrival(const struct rdma_cm_event *event, struct rdx_event *out)
{
        struct rdx_arrival *arrival = calloc(1, sizeof(*arrival));

        if (arrival == NULL)
                return false;
        arrival->id = event->id;
        arrival->id->context = NULL;
        copy_gid(arrival->peer.gid, &event->id->route.addr.addr.ibaddr.dgid);
        arrival->peer.pair = event->param.conn.qp_num;
        /* As seen from here: rdma_cm has turned them round. */
        arrival->responder = event->param.conn.responder_resources;
        arrival->initiator = event->param.conn.initiator_depth;
        out->kind = RDX_EVENT_ARRIVAL;
        out->arrival = arrival;
        out->listener = event->listen_id->context;
        out->peer = arrival->peer;
        copy_data(&event->param.conn, out);
        return true;
}

/* False: nobody need know. */
static bool verbs_connect_translate(const struct rdma_cm_event *event, struct rdx_event *out)
{
        struct rdx_pair *pair = event->id->context;

        memset(out, 0, sizeof(*out));
        if (event->event == RDMA_CM_EVENT_CONNECT_REQUEST)
                return take_arrival(event, out);
        if (event->event == RDMA_CM_EVENT_DEVICE_REMOVAL) {
                out->kind = RDX_EVENT_DEVICE_GONE;
                return true;
        }
        if (pair == NULL || event->id->qp == NULL)
                return false;
        out->owner = pair->owner;
        switch (event->event) {
        case RDMA_CM_EVENT_ESTABLISHED:
                out->kind = RDX_EVENT_UP;
                if (event->param.conn.qp_num != 0)
                        pair->peer.pair = event->param.conn.qp_num;
                copy_gid(pair->peer.gid, &event->id->route.addr.addr.ibaddr.dgid);
                copy_data(&event->param.conn, out);
                return true;
        case RDMA_CM_EVENT_REJECTED:
        case RDMA_CM_EVENT_UNREACHABLE:
        case RDMA_CM_EVENT_CONNECT_ERROR:
                out->kind = RDX_EVENT_REJECTED;
                out->result = event_error(event);
                copy_data(&event->param.conn, out);
                return true;
        case RDMA_CM_EVENT_DISCONNECTED:
        case RDMA_CM_EVENT_ADDR_CHANGE:
                out->kind = RDX_EVENT_DOWN;
                out->result = -ECONNRESET;
                return true;
        default:
                return false;
        }
}

int rdx_verbs_channel_next(struct rdx_channel *channel, struct rdx_event *out)
{
        struct rdma_cm_event *event;
        bool told = false;

        while (!told) {
                struct rdma_cm_id *lost = NULL;

                if (rdx_lib.rdma_get_cm_event_fn(channel->channel, &event) != 0)
                        return errno == EAGAIN || errno == EINTR ? 0 : -errno;
                told = verbs_connect_translate(event, out);
                if (!told && event->event == RDMA_CM_EVENT_CONNECT_REQUEST)
                        lost = event->id; /* no memory for it: nobody will answer */
                rdx_lib.rdma_ack_cm_event_fn(event);
                if (lost != NULL)
                        rdx_lib.rdma_destroy_id_fn(lost);
        }
        return 1;
}

/* ---- listening ------------------------------------------------------------------------------- */

int rdx_verbs_listen(struct rdx_channel *channel, const char *address, uint16_t port, unsigned backlog,
                     struct rdx_listener **out)
{
        struct rdx_listener *listener;
        struct sockaddr_storage name;
        int rv = rdx_verbs_address(address, port, &name);

        *out = NULL;
        if (rv != 0)
                return rv;
        listener = calloc(1, sizeof(*listener));
        if (listener == NULL)
                return -ENOMEM;
        rv = -EIO;
        if (rdx_lib.rdma_create_id_fn(channel->channel, &listener->id, listener, RDMA_PS_TCP) != 0)
                goto err_free;
        if (rdx_lib.rdma_bind_addr_fn(listener->id, (struct sockaddr *)&name) != 0 ||
            rdx_lib.rdma_listen_fn(listener->id, (int)backlog) != 0) {
                rv = -errno;
                goto err_id;
        }
        *out = listener;
        return 0;

err_id:
        rdx_lib.rdma_destroy_id_fn(listener->id);
err_free:
        free(listener);
        return rv;
}

uint16_t rdx_verbs_listener_port(const struct rdx_listener *listener)
{
        return ntohs(rdx_lib.rdma_get_src_port_fn(listener->id));
}

void rdx_verbs_unlisten(struct rdx_listener *listener)
{
        rdx_lib.rdma_destroy_id_fn(listener->id);
        free(listener);
}

void rdx_verbs_reject(struct rdx_arrival *arrival, const void *data, size_t len)
{
        rdx_lib.rdma_reject_fn(arrival->id, data, (uint8_t)len);
        rdx_lib.rdma_destroy_id_fn(arrival->id);
        free(arrival);
}

/* ---- pairs ----------------------------------------------------------------------------------- */

unsigned rdx_verbs_depth(int device, unsigned offered)
{
        unsigned depth = device > 0 ? (unsigned)device : 0;

        if (depth > RDX_READ_DEPTH)
                depth = RDX_READ_DEPTH;
        return depth < offered ? depth : offered;
}

static int make_queue_pair(struct rdx_pair *pair, const struct rdx_pair_options *options)
{
        struct ibv_qp_init_attr attr = {.send_cq = options->queue->cq,
                                        .recv_cq = options->queue->cq,
                                        .qp_type = IBV_QPT_RC,
                                        .cap = {.max_send_wr = options->sends,
                                                .max_recv_wr = options->receives,
                                                .max_send_sge = 1,
                                                .max_recv_sge = 1}};

        return rdx_lib.rdma_create_qp_fn(pair->id, options->domain->pd, &attr) == 0 ? 0 : -errno;
}

/* Client: finds the way. The channel is the session's own, so what comes there is this. */
static int verbs_connect_resolve(struct rdx_pair *pair, const struct rdx_pair_options *options)
{
        struct rdma_event_channel *channel = options->channel->channel;
        struct sockaddr_storage name;
        int rv = rdx_verbs_address(options->address, options->port, &name), timeout = (int)options->timeout_ms;

        if (rv != 0)
                return rv;
        if (rdx_lib.rdma_create_id_fn(channel, &pair->id, pair, RDMA_PS_TCP) != 0)
                return -errno;
        if (rdx_lib.rdma_resolve_addr_fn(pair->id, NULL, (struct sockaddr *)&name, timeout) != 0)
                return -errno;
        rv = rdx_verbs_await(channel, RDMA_CM_EVENT_ADDR_RESOLVED, options->timeout_ms);
        if (rv != 0)
                return rv;
        if (rdx_lib.rdma_resolve_route_fn(pair->id, timeout) != 0)
                return -errno;
        return rdx_verbs_await(channel, RDMA_CM_EVENT_ROUTE_RESOLVED, options->timeout_ms);
}

int rdx_verbs_pair_open(const struct rdx_pair_options *options, struct rdx_pair **out)
{
        struct rdx_pair *pair = calloc(1, sizeof(*pair));
        int rv = 0;

        *out = NULL;
        if (pair == NULL) {
                if (options->arrival != NULL)
                        rdx_verbs_reject(options->arrival, NULL, 0);
                return -ENOMEM;
        }
        pair->owner = options->owner;
        pair->device = options->domain->device;
        pair->responder = pair->initiator = RDX_READ_DEPTH;
        if (options->arrival != NULL) {
                pair->responder = options->arrival->responder;
                pair->initiator = options->arrival->initiator;
                pair->id = options->arrival->id;
                pair->peer = options->arrival->peer;
                free(options->arrival);
        } else {
                rv = verbs_connect_resolve(pair, options);
        }
        if (rv == 0 && pair->id->verbs != pair->device->context)
                rv = -EXDEV; /* the way leads through another device by now */
        if (rv == 0)
                rv = make_queue_pair(pair, options);
        if (rv == 0) {
                pair->responder = rdx_verbs_depth(pair->device->attr.max_qp_rd_atom, pair->responder);
                pair->initiator = rdx_verbs_depth(pair->device->attr.max_qp_init_rd_atom, pair->initiator);
                pair->id->context = pair;
                *out = pair;
                return 0;
        }
        if (pair->id != NULL && options->arrival != NULL)
                rdx_lib.rdma_reject_fn(pair->id, NULL, 0);
        if (pair->id != NULL)
                rdx_lib.rdma_destroy_id_fn(pair->id);
        free(pair);
        return rv;
}

void rdx_verbs_pair_parties(const struct rdx_pair *pair, struct rdx_party *own, struct rdx_party *peer)
{
        copy_gid(own->gid, &pair->id->route.addr.addr.ibaddr.sgid);
        own->pair = pair->id->qp->qp_num;
        *peer = pair->peer;
}

unsigned rdx_verbs_pair_read_depth(const struct rdx_pair *pair)
{
        return pair->initiator;
}

static void fill_param(const struct rdx_pair *pair, struct rdma_conn_param *param, const void *data, size_t len)
{
        memset(param, 0, sizeof(*param));
        param->private_data = data;
        param->private_data_len = (uint8_t)len;
        param->responder_resources = (uint8_t)pair->responder;
        param->initiator_depth = (uint8_t)pair->initiator;
        param->retry_count = RETRIES;
        param->rnr_retry_count = 0; /* there is always a receive, see the protocol's flow control */
}

int rdx_verbs_pair_connect(struct rdx_pair *pair, const void *data, size_t len)
{
        struct rdma_conn_param param;

        fill_param(pair, &param, data, len);
        return rdx_lib.rdma_connect_fn(pair->id, &param) == 0 ? 0 : -errno;
}

int rdx_verbs_pair_accept(struct rdx_pair *pair, const void *data, size_t len)
{
        struct rdma_conn_param param;

        fill_param(pair, &param, data, len);
        return rdx_lib.rdma_accept_fn(pair->id, &param) == 0 ? 0 : -errno;
}

/* The state first: rdma_disconnect() alone does nothing for a pair that is not connected. */
void rdx_verbs_pair_fail(struct rdx_pair *pair)
{
        struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};

        if (pair->failed)
                return;
        pair->failed = true;
        rdx_lib.ibv_modify_qp_fn(pair->id->qp, &attr, IBV_QP_STATE);
        rdx_lib.rdma_disconnect_fn(pair->id);
}

void rdx_verbs_pair_close(struct rdx_pair *pair)
{
        rdx_verbs_pair_fail(pair);
        rdx_lib.rdma_destroy_qp_fn(pair->id);
        rdx_lib.rdma_destroy_id_fn(pair->id);
        free(pair);
}
