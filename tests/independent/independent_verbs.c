/*
 * The verbs that the independent client needs, flat enough for Python's ctypes; everything about
 * the protocol is in Python (session.py).
 *
 * A link is one connection with its queue pair; a domain is a protection domain, which all links of
 * a session share. A link belongs to one thread. Functions return 0 or a negative errno unless they
 * say otherwise. It uses nothing of the project, so that it proves nothing by sharing.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { SENDS = 64, SEND_SIZE = 16384, CM_DATA = 256, RETRIES = 5 };
#define FLUSH_MS 30000
enum { RECEIVE_ID = 1 << 24 }; /* wr_id of the receive in slot n is this plus n */

struct vb_link {
        struct rdma_event_channel *events;
        struct rdma_cm_id *id;
        struct ibv_comp_channel *channel;
        struct ibv_cq *cq;
        struct ibv_mr *receive_mr, *send_mr;
        char *receive_memory, *send_memory;
        uint32_t receive_size, receives_posted;
        unsigned send_next; /* slots in turn: Python bounds what is outstanding */
};

/* As Python sees a connection's fate: event is that of rdma_cm, status its own. */
struct vb_fate {
        int32_t event, status;
        uint32_t qp_number, responder_resources, initiator_depth, length;
        uint8_t data[CM_DATA];
};

struct vb_completion {
        uint64_t id;
        int32_t status, opcode, flags;
        uint32_t length, immediate, rkey;
};

static int64_t now_ms(void)
{
        struct timespec t;

        clock_gettime(CLOCK_MONOTONIC, &t);
        return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* Waits for the next event of the connection; -ETIMEDOUT when there is none in time. */
static int next_event(struct vb_link *link, int timeout_ms, struct vb_fate *fate)
{
        struct pollfd wait = {.fd = link->events->fd, .events = POLLIN};
        struct rdma_cm_event *event;
        const struct rdma_conn_param *conn;

        if (poll(&wait, 1, timeout_ms) <= 0)
                return -ETIMEDOUT;
        if (rdma_get_cm_event(link->events, &event) != 0)
                return -errno;
        memset(fate, 0, sizeof(*fate));
        conn = &event->param.conn;
        fate->event = (int32_t)event->event;
        fate->status = event->status;
        fate->qp_number = conn->qp_num;
        fate->responder_resources = conn->responder_resources;
        fate->initiator_depth = conn->initiator_depth;
        fate->length = conn->private_data == NULL ? 0 : conn->private_data_len;
        if (fate->length != 0)
                memcpy(fate->data, conn->private_data, fate->length);
        rdma_ack_cm_event(event);
        return 0;
}

static int wait_for(struct vb_link *link, enum rdma_cm_event_type wanted, int timeout_ms)
{
        struct vb_fate fate;
        int rv = next_event(link, timeout_ms, &fate);

        if (rv == 0 && fate.event != (int32_t)wanted)
                rv = fate.status < 0 ? fate.status : -EHOSTUNREACH;
        return rv;
}

void vb_free(struct vb_link *link)
{
        if (link->id != NULL && link->id->qp != NULL)
                rdma_destroy_qp(link->id);
        if (link->cq != NULL)
                ibv_destroy_cq(link->cq);
        if (link->channel != NULL)
                ibv_destroy_comp_channel(link->channel);
        if (link->receive_mr != NULL)
                ibv_dereg_mr(link->receive_mr);
        if (link->send_mr != NULL)
                ibv_dereg_mr(link->send_mr);
        if (link->id != NULL)
                rdma_destroy_id(link->id);
        if (link->events != NULL)
                rdma_destroy_event_channel(link->events);
        free(link->receive_memory);
        free(link->send_memory);
        free(link);
}

/* Finds the device and the way to an address. */
int vb_resolve(const char *address, int port, int timeout_ms, struct vb_link **out)
{
        struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
        struct vb_link *link = calloc(1, sizeof(*link));
        int rv;

        if (link == NULL)
                return -ENOMEM;
        if (inet_pton(AF_INET, address, &to.sin_addr) != 1) {
                rv = -EINVAL;
                goto err;
        }
        link->events = rdma_create_event_channel();
        if (link->events == NULL || rdma_create_id(link->events, &link->id, NULL, RDMA_PS_TCP) != 0) {
                rv = -errno;
                goto err;
        }
        if (rdma_resolve_addr(link->id, NULL, (struct sockaddr *)&to, timeout_ms) != 0) {
                rv = -errno;
                goto err;
        }
        rv = wait_for(link, RDMA_CM_EVENT_ADDR_RESOLVED, timeout_ms + 1000);
        if (rv != 0)
                goto err;
        if (rdma_resolve_route(link->id, timeout_ms) != 0) {
                rv = -errno;
                goto err;
        }
        rv = wait_for(link, RDMA_CM_EVENT_ROUTE_RESOLVED, timeout_ms + 1000);
        if (rv != 0)
                goto err;
        *out = link;
        return 0;

err:
        vb_free(link);
        return rv;
}

struct ibv_pd *vb_domain_new(struct vb_link *link)
{
        return ibv_alloc_pd(link->id->verbs);
}

int vb_domain_free(struct ibv_pd *domain)
{
        return -ibv_dealloc_pd(domain);
}

/* Which windows the link's device has: bit 0 type 1, bit 1 type 2. */
int vb_windows(struct vb_link *link)
{
        struct ibv_device_attr attr;

        if (ibv_query_device(link->id->verbs, &attr) != 0)
                return 0;
        return (attr.device_cap_flags & IBV_DEVICE_MEM_WINDOW ? 1 : 0) |
               (attr.device_cap_flags & (IBV_DEVICE_MEM_WINDOW_TYPE_2A | IBV_DEVICE_MEM_WINDOW_TYPE_2B) ? 2 : 0);
}

int vb_post_receive(struct vb_link *link, uint32_t slot)
{
        struct ibv_sge piece = {.addr = (uintptr_t)(link->receive_memory + (size_t)slot * link->receive_size),
                                .length = link->receive_size,
                                .lkey = link->receive_mr->lkey};
        struct ibv_recv_wr wr = {.wr_id = RECEIVE_ID + slot, .sg_list = &piece, .num_sge = 1}, *bad;

        int rv = ibv_post_recv(link->id->qp, &wr, &bad);

        link->receives_posted += rv == 0;
        return -rv;
}

const char *vb_received(struct vb_link *link, uint32_t slot)
{
        return link->receive_memory + (size_t)slot * link->receive_size;
}

/* Makes the link's queue pair, with all its receives posted. */
int vb_make_qp(struct vb_link *link, struct ibv_pd *domain, uint32_t receives, uint32_t receive_size)
{
        struct ibv_qp_init_attr attr = {
                .qp_type = IBV_QPT_RC,
                .cap = {.max_send_wr = SENDS, .max_recv_wr = receives, .max_send_sge = 1, .max_recv_sge = 1}};
        uint32_t slot;
        int rv = 0;

        link->channel = ibv_create_comp_channel(link->id->verbs);
        if (link->channel == NULL)
                return -errno;
        link->cq = ibv_create_cq(link->id->verbs, (int)receives + SENDS, NULL, link->channel, 0);
        if (link->cq == NULL)
                return -errno;
        attr.send_cq = attr.recv_cq = link->cq;
        if (rdma_create_qp(link->id, domain, &attr) != 0)
                return -errno;
        link->receive_size = receive_size;
        link->receive_memory = calloc(receives, receive_size);
        link->send_memory = calloc(SENDS, SEND_SIZE);
        if (link->receive_memory == NULL || link->send_memory == NULL)
                return -ENOMEM;
        link->receive_mr =
                ibv_reg_mr(domain, link->receive_memory, (size_t)receives * receive_size, IBV_ACCESS_LOCAL_WRITE);
        link->send_mr = ibv_reg_mr(domain, link->send_memory, SENDS * SEND_SIZE, 0);
        if (link->receive_mr == NULL || link->send_mr == NULL)
                return -errno;
        for (slot = 0; slot < receives && rv == 0; slot++)
                rv = vb_post_receive(link, slot);
        return rv;
}

/* Both ends' GIDs, and the number of the queue pair made here (0: none). */
void vb_addresses(struct vb_link *link, uint8_t own[16], uint8_t other[16], uint32_t *qp_number)
{
        memcpy(own, link->id->route.addr.addr.ibaddr.sgid.raw, 16);
        memcpy(other, link->id->route.addr.addr.ibaddr.dgid.raw, 16);
        *qp_number = link->id->qp == NULL ? 0 : link->id->qp->qp_num;
}

/*
 * Connects with this private data. Where the link has no queue pair, qp_number is what it says to
 * have: what a forger would do. 0 when an answer of whatever kind came: it is in *fate.
 */
int vb_connect(struct vb_link *link, const void *data, uint32_t length, uint32_t qp_number, uint32_t responder_resources,
               uint32_t initiator_depth, int timeout_ms, struct vb_fate *fate)
{
        struct rdma_conn_param param = {.private_data = data,
                                        .private_data_len = (uint8_t)length,
                                        .responder_resources = (uint8_t)responder_resources,
                                        .initiator_depth = (uint8_t)initiator_depth,
                                        .retry_count = RETRIES,
                                        .rnr_retry_count = 0,
                                        .qp_num = qp_number};

        if (rdma_connect(link->id, &param) != 0)
                return -errno;
        return next_event(link, timeout_ms, fate);
}

int vb_disconnect(struct vb_link *link)
{
        return rdma_disconnect(link->id) == 0 ? 0 : -errno;
}

static int poll_once(struct vb_link *link, struct vb_completion *out)
{
        struct ibv_wc wc;
        int rv = ibv_poll_cq(link->cq, 1, &wc);

        if (rv <= 0)
                return rv;
        if (wc.wr_id >= RECEIVE_ID)
                link->receives_posted--;
        *out = (struct vb_completion){.id = wc.wr_id,
                                      .status = (int32_t)wc.status,
                                      .opcode = (int32_t)wc.opcode,
                                      .flags = (int32_t)wc.wc_flags,
                                      .length = wc.byte_len,
                                      .immediate = ntohl(wc.imm_data),
                                      .rkey = wc.invalidated_rkey};
        return 1;
}

/*
 * Moves the queue pair to the error state and waits until its receives were given back: nobody
 * writes through it any more. A packet that was being taken in when the state changed lies before
 * the last of these completions.
 */
int vb_fence(struct vb_link *link)
{
        struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
        int64_t end = now_ms() + FLUSH_MS;
        struct vb_completion completion;
        int rv = ibv_modify_qp(link->id->qp, &attr, IBV_QP_STATE);

        while (rv == 0 && link->receives_posted > 0) {
                rv = poll_once(link, &completion);
                if (rv == 0 && now_ms() > end)
                        return -ETIMEDOUT;
                if (rv == 0)
                        poll(NULL, 0, 1);
                rv = rv < 0 ? -rv : 0;
        }
        return -rv;
}

/*
 * The next completion: 1. 0 when none came in time. 2 when the connection ended instead: *fate has
 * it.
 */
int vb_poll(struct vb_link *link, int timeout_ms, struct vb_completion *out, struct vb_fate *fate)
{
        int64_t end = now_ms() + timeout_ms;

        for (;;) {
                struct pollfd wait[2] = {{.fd = link->channel->fd, .events = POLLIN},
                                         {.fd = link->events->fd, .events = POLLIN}};
                int64_t left = end - now_ms();
                struct ibv_cq *cq;
                void *context;
                int rv = poll_once(link, out);

                if (rv == 0) {
                        ibv_req_notify_cq(link->cq, 0);
                        rv = poll_once(link, out);
                }
                if (rv != 0)
                        return rv;
                if (left <= 0)
                        return 0;
                poll(wait, 2, (int)left);
                if (wait[0].revents & POLLIN && ibv_get_cq_event(link->channel, &cq, &context) == 0)
                        ibv_ack_cq_events(cq, 1);
                else if (wait[1].revents & POLLIN)
                        return next_event(link, 0, fate) == 0 ? 2 : -EIO;
        }
}

/* Sends a copy of these bytes; the completion has `id`. */
int vb_send(struct vb_link *link, uint64_t id, const void *bytes, uint32_t length)
{
        char *slot = link->send_memory + (size_t)(link->send_next++ % SENDS) * SEND_SIZE;
        struct ibv_sge piece = {.addr = (uintptr_t)slot, .length = length, .lkey = link->send_mr->lkey};
        struct ibv_send_wr wr = {.wr_id = id,
                                 .sg_list = &piece,
                                 .num_sge = 1,
                                 .opcode = IBV_WR_SEND,
                                 .send_flags = IBV_SEND_SIGNALED},
                           *bad;

        if (length > SEND_SIZE)
                return -EMSGSIZE;
        memcpy(slot, bytes, length);
        return -ibv_post_send(link->id->qp, &wr, &bad);
}

struct ibv_mr *vb_register(struct ibv_pd *domain, void *at, size_t length, int access)
{
        return ibv_reg_mr(domain, at, length, access);
}

uint32_t vb_region_rkey(const struct ibv_mr *mr)
{
        return mr->rkey;
}

int vb_deregister(struct ibv_mr *mr)
{
        return -ibv_dereg_mr(mr);
}

struct ibv_mw *vb_window_new(struct ibv_pd *domain, int type)
{
        return ibv_alloc_mw(domain, type == 2 ? IBV_MW_TYPE_2 : IBV_MW_TYPE_1);
}

int vb_window_free(struct ibv_mw *mw)
{
        return -ibv_dealloc_mw(mw);
}

/*
 * Binds a window to a part of a region; a length of 0 (type 1) takes the right back. Completes on
 * the link, as `id`.
 */
int vb_bind(struct vb_link *link, uint64_t id, struct ibv_mw *mw, struct ibv_mr *mr, uint64_t at, uint64_t length,
            int access, uint32_t *rkey)
{
        struct ibv_mw_bind_info info = {.mr = mr, .addr = at, .length = length, .mw_access_flags = (unsigned)access};
        int rv;

        if (mw->type == IBV_MW_TYPE_2) {
                struct ibv_send_wr wr = {.wr_id = id, .opcode = IBV_WR_BIND_MW, .send_flags = IBV_SEND_SIGNALED}, *bad;

                wr.bind_mw.mw = mw;
                wr.bind_mw.rkey = ibv_inc_rkey(mw->rkey);
                wr.bind_mw.bind_info = info;
                rv = ibv_post_send(link->id->qp, &wr, &bad);
                if (rv == 0)
                        mw->rkey = wr.bind_mw.rkey;
        } else {
                struct ibv_mw_bind bind = {.wr_id = id, .send_flags = IBV_SEND_SIGNALED, .bind_info = info};

                rv = ibv_bind_mw(link->id->qp, mw, &bind);
        }
        *rkey = mw->rkey;
        return -rv;
}

/* Takes back the right of a type 2 window. Completes on the link, as `id`. */
int vb_invalidate(struct vb_link *link, uint64_t id, uint32_t rkey)
{
        struct ibv_send_wr wr = {.wr_id = id, .opcode = IBV_WR_LOCAL_INV, .send_flags = IBV_SEND_SIGNALED}, *bad;

        wr.invalidate_rkey = rkey;
        return -ibv_post_send(link->id->qp, &wr, &bad);
}

/*
 * CRC32C of so many bytes that follow those of `crc`: the polynomial as RFC 3720 has it, eight
 * tables at once.
 */
uint32_t vb_crc32c(uint32_t crc, const uint8_t *bytes, size_t length)
{
        static uint32_t table[8][256];
        static int made;

        if (!made) {
                for (uint32_t i = 0; i < 256; i++) {
                        uint32_t c = i;

                        for (int bit = 0; bit < 8; bit++)
                                c = c & 1 ? c >> 1 ^ 0x82f63b78 : c >> 1;
                        table[0][i] = c;
                }
                for (int t = 1; t < 8; t++)
                        for (int i = 0; i < 256; i++)
                                table[t][i] = table[t - 1][i] >> 8 ^ table[0][table[t - 1][i] & 255];
                made = 1;
        }
        crc = ~crc;
        for (; length >= 8; bytes += 8, length -= 8) {
                uint64_t v;

                memcpy(&v, bytes, 8);
                v ^= crc;
                crc = table[7][v & 255] ^ table[6][v >> 8 & 255] ^ table[5][v >> 16 & 255] ^ table[4][v >> 24 & 255] ^
                      table[3][v >> 32 & 255] ^ table[2][v >> 40 & 255] ^ table[1][v >> 48 & 255] ^ table[0][v >> 56];
        }
        while (length-- > 0)
                crc = crc >> 8 ^ table[0][(crc ^ *bytes++) & 255];
        return ~crc;
}
