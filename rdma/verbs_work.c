/*
 * verbs_work.c - completion queues and work requests of the verbs transport. Called for every
 * WRITE: no allocation, no system call of its own.
 */
#include "rdma/verbs.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#define CHAIN 16u /* work requests given to a device at a time */
#define POLL  32u

/* ---- completion queues ----------------------------------------------------------------------- */

int rdx_verbs_queue_open(struct rdx_device *device, unsigned entries, struct rdx_queue **out)
{
        struct rdx_queue *queue = calloc(1, sizeof(*queue));
        int rv = -EIO;

        *out = NULL;
        if (queue == NULL)
                return -ENOMEM;
        queue->channel = rdx_lib.ibv_create_comp_channel_fn(device->context);
        if (queue->channel == NULL)
                goto err_free;
        fcntl(queue->channel->fd, F_SETFL, fcntl(queue->channel->fd, F_GETFL) | O_NONBLOCK);
        queue->cq = rdx_lib.ibv_create_cq_fn(device->context, (int)entries, NULL, queue->channel, 0);
        if (queue->cq == NULL) {
                rv = errno != 0 ? -errno : -EIO;
                goto err_channel;
        }
        *out = queue;
        return 0;

err_channel:
        rdx_lib.ibv_destroy_comp_channel_fn(queue->channel);
err_free:
        free(queue);
        return rv;
}

void rdx_verbs_queue_close(struct rdx_queue *queue)
{
        rdx_lib.ibv_destroy_cq_fn(queue->cq);
        rdx_lib.ibv_destroy_comp_channel_fn(queue->channel);
        free(queue);
}

int rdx_verbs_queue_fd(const struct rdx_queue *queue)
{
        return queue->channel->fd;
}

int rdx_verbs_queue_arm(struct rdx_queue *queue)
{
        struct ibv_cq *cq;
        void *context;
        unsigned events = 0;

        while (rdx_lib.ibv_get_cq_event_fn(queue->channel, &cq, &context) == 0)
                events++;
        if (events > 0)
                rdx_lib.ibv_ack_cq_events_fn(queue->cq, events);
        return ibv_req_notify_cq(queue->cq, 0) == 0 ? 0 : -EIO;
}

static int result_of(enum ibv_wc_status status)
{
        switch (status) {
        case IBV_WC_SUCCESS:
                return 0;
        case IBV_WC_WR_FLUSH_ERR:
                return -ECANCELED;
        case IBV_WC_REM_ACCESS_ERR:
        case IBV_WC_REM_INV_RD_REQ_ERR:
                return -EACCES;
        case IBV_WC_RETRY_EXC_ERR:
        case IBV_WC_RNR_RETRY_EXC_ERR:
        case IBV_WC_RESP_TIMEOUT_ERR:
                return -ETIMEDOUT;
        default:
                return -EIO;
        }
}

static void verbs_work_translate(const struct ibv_wc *wc, struct rdx_done *out)
{
        memset(out, 0, sizeof(*out));
        out->tag = wc->wr_id;
        out->result = result_of(wc->status);
        if (wc->status != IBV_WC_SUCCESS)
                return; /* nothing else is valid */
        out->kind = (wc->opcode & IBV_WC_RECV) != 0 ? RDX_DONE_RECEIVED : RDX_DONE_SENT;
        out->len = wc->byte_len;
        out->has_imm = (wc->wc_flags & IBV_WC_WITH_IMM) != 0;
        out->invalidated = (wc->wc_flags & IBV_WC_WITH_INV) != 0;
        if (out->has_imm)
                out->imm = be32toh(wc->imm_data);
        else if (out->invalidated)
                out->imm = wc->invalidated_rkey;
}

int rdx_verbs_queue_poll(struct rdx_queue *queue, struct rdx_done *out, unsigned most)
{
        struct ibv_wc wc[POLL];
        int i, n = ibv_poll_cq(queue->cq, (int)(most < POLL ? most : POLL), wc);

        for (i = 0; i < n; i++)
                verbs_work_translate(&wc[i], &out[i]);
        return n < 0 ? -EIO : n;
}

/* ---- work requests --------------------------------------------------------------------------- */

static void set_bind(const struct rdx_work *work, struct ibv_mw_bind_info *info)
{
        info->mr = work->region->mr; /* also of a window that is unbound: some libraries look at it */
        info->addr = work->bind_len > 0 ? (uint64_t)(uintptr_t)work->address : 0;
        info->length = work->bind_len;
        info->mw_access_flags = (work->access & RDX_REMOTE_WRITE) != 0 ? IBV_ACCESS_REMOTE_WRITE : 0;
        if ((work->access & RDX_REMOTE_READ) != 0)
                info->mw_access_flags |= IBV_ACCESS_REMOTE_READ;
}

/* A type 1 window has a call of its own. */
static int bind_type1(struct rdx_pair *pair, const struct rdx_work *work)
{
        struct ibv_mw_bind bind = {.wr_id = work->tag, .send_flags = work->signalled ? IBV_SEND_SIGNALED : 0};

        set_bind(work, &bind.bind_info);
        return -ibv_bind_mw(pair->id->qp, work->window->mw, &bind);
}

static bool is_type1(const struct rdx_work *work)
{
        return work->op == RDX_OP_BIND && work->window->mw->type == IBV_MW_TYPE_1;
}

static void verbs_work_make(const struct rdx_work *work, struct ibv_send_wr *wr, struct ibv_sge *sge)
{
        static const enum ibv_wr_opcode opcodes[] = {
                [RDX_OP_WRITE] = IBV_WR_RDMA_WRITE,
                [RDX_OP_WRITE_NOTICE] = IBV_WR_RDMA_WRITE_WITH_IMM,
                [RDX_OP_READ] = IBV_WR_RDMA_READ,
                [RDX_OP_SEND] = IBV_WR_SEND,
                [RDX_OP_SEND_INVALIDATE] = IBV_WR_SEND_WITH_INV,
                [RDX_OP_BIND] = IBV_WR_BIND_MW,
                [RDX_OP_INVALIDATE] = IBV_WR_LOCAL_INV,
        };

        memset(wr, 0, sizeof(*wr));
        *sge = (struct ibv_sge){.addr = (uint64_t)(uintptr_t)work->address, .length = work->len, .lkey = work->lkey};
        wr->wr_id = work->tag;
        wr->opcode = opcodes[work->op];
        wr->send_flags = work->signalled ? IBV_SEND_SIGNALED : 0;
        wr->sg_list = work->len > 0 ? sge : NULL;
        wr->num_sge = work->len > 0;
        if (work->op == RDX_OP_WRITE || work->op == RDX_OP_READ || work->op == RDX_OP_WRITE_NOTICE) {
                wr->wr.rdma.remote_addr = work->remote;
                wr->wr.rdma.rkey = work->rkey;
                wr->imm_data = htobe32(work->imm);
        } else if (work->op == RDX_OP_BIND) {
                wr->bind_mw.mw = work->window->mw;
                wr->bind_mw.rkey = ibv_inc_rkey(work->window->mw->rkey);
                set_bind(work, &wr->bind_mw.bind_info);
        } else {
                wr->invalidate_rkey = work->rkey;
        }
}

/* How many of them the device took. */
static int post_chain(struct rdx_pair *pair, const struct rdx_work *work, unsigned count, unsigned *posted)
{
        struct ibv_send_wr wr[CHAIN], *bad = NULL;
        struct ibv_sge sge[CHAIN];
        unsigned i;
        int rv;

        for (i = 0; i < count; i++) {
                verbs_work_make(&work[i], &wr[i], &sge[i]);
                wr[i].next = i + 1 < count ? &wr[i + 1] : NULL;
        }
        rv = ibv_post_send(pair->id->qp, wr, &bad);
        *posted = rv == 0 ? count : (unsigned)(bad - wr);
        for (i = 0; i < *posted; i++) /* the library looks at the old one until it is posted */
                if (work[i].op == RDX_OP_BIND)
                        work[i].window->mw->rkey = wr[i].bind_mw.rkey;
        return -rv;
}

int rdx_verbs_post(struct rdx_pair *pair, const struct rdx_work *work, unsigned count, unsigned *posted)
{
        int rv = 0;

        *posted = 0;
        while (rv == 0 && *posted < count) {
                unsigned n = 0, taken = 0;

                if (is_type1(&work[*posted])) {
                        rv = bind_type1(pair, &work[*posted]);
                        taken = rv == 0;
                } else {
                        while (n < CHAIN && *posted + n < count && !is_type1(&work[*posted + n]))
                                n++;
                        rv = post_chain(pair, &work[*posted], n, &taken);
                }
                *posted += taken;
        }
        return rv;
}

int rdx_verbs_post_receive(struct rdx_pair *pair, uint64_t tag, void *address, uint32_t len, uint32_t lkey)
{
        struct ibv_sge sge = {.addr = (uint64_t)(uintptr_t)address, .length = len, .lkey = lkey};
        struct ibv_recv_wr wr = {.wr_id = tag, .sg_list = &sge, .num_sge = 1}, *bad;

        return -ibv_post_recv(pair->id->qp, &wr, &bad);
}
