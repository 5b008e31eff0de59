/*
 * verbs_dc.c - dynamically connected transport of mlx5 devices: initiators for requests by a token,
 * and the ways to their targets.
 *
 * NEVER RUN. There was no device to run it on: it compiles against rdma-core's headers and follows
 * its manual pages (mlx5dv_create_qp, mlx5dv_wr_post), and what stands above it is tested on the
 * fake. Compiled where the headers have mlx5 DC; libmlx5 is opened at the first use, like the other
 * libraries (verbs.c), and where it is missing no device has DC.
 */
#include "rdma/verbs.h"

#ifdef RDX_HAVE_DC

#include <dlfcn.h>
#include <errno.h>
#include <infiniband/mlx5dv.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define TIMEOUT     14u /* 4.096 us * 2^14: 67 ms for one try */
#define TRIES       5u
#define HOPS        64u
#define PROBE_SENDS 4u

struct rdx_initiator {
        struct rdx_device *device;
        struct ibv_qp *qp;
        struct ibv_qp_ex *ex;
        struct mlx5dv_qp_ex *dv;
};

struct rdx_route {
        struct ibv_ah *ah;
};

/* ---- the libraries --------------------------------------------------------------------------- */

#define FROM_IBVERBS(X)                                                                                                \
        X(ibv_create_ah, struct ibv_ah *, (struct ibv_pd *, struct ibv_ah_attr *))                                     \
        X(ibv_destroy_ah, int, (struct ibv_ah *))                                                                      \
        X(ibv_destroy_qp, int, (struct ibv_qp *))                                                                      \
        X(ibv_qp_to_qp_ex, struct ibv_qp_ex *, (struct ibv_qp *))                                                      \
        X(_ibv_query_gid_ex, int, (struct ibv_context *, uint32_t, uint32_t, struct ibv_gid_entry *, uint32_t, size_t))
#define FROM_MLX5(X)                                                                                                   \
        X(mlx5dv_is_supported, bool, (struct ibv_device *))                                                            \
        X(mlx5dv_create_qp, struct ibv_qp *,                                                                           \
          (struct ibv_context *, struct ibv_qp_init_attr_ex *, struct mlx5dv_qp_init_attr *))                          \
        X(mlx5dv_qp_ex_from_ibv_qp_ex, struct mlx5dv_qp_ex *, (struct ibv_qp_ex *))

static struct {
#define MEMBER(name, result, parameters) result(*name##_fn) parameters;
        FROM_IBVERBS(MEMBER)
        FROM_MLX5(MEMBER)
#undef MEMBER
} dc;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static bool loaded;

static bool verbs_dc_find(void *library, const char *name, void *to)
{
        void *symbol = dlsym(library, name);

        memcpy(to, &symbol, sizeof(symbol));
        return symbol != NULL;
}

static void verbs_dc_load(void)
{
        void *ibverbs = dlopen("libibverbs.so.1", RTLD_NOW | RTLD_GLOBAL);
        void *mlx5 = ibverbs != NULL ? dlopen("libmlx5.so.1", RTLD_NOW | RTLD_LOCAL) : NULL;
        bool all = mlx5 != NULL;

#define FIND_IBVERBS(name, result, parameters) all = all && verbs_dc_find(ibverbs, #name, &dc.name##_fn);
#define FIND_MLX5(name, result, parameters)    all = all && verbs_dc_find(mlx5, #name, &dc.name##_fn);
        FROM_IBVERBS(FIND_IBVERBS)
        FROM_MLX5(FIND_MLX5)
        loaded = all;
}

/* ---- initiators ------------------------------------------------------------------------------ */

static struct ibv_qp *create(struct ibv_context *context, struct ibv_pd *pd, struct ibv_cq *cq, unsigned sends)
{
        struct ibv_qp_init_attr_ex attr = {
                .qp_type = IBV_QPT_DRIVER,
                .send_cq = cq,
                .recv_cq = cq,
                .pd = pd,
                .cap = {.max_send_wr = sends, .max_send_sge = 1},
                .comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
                .send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_READ,
        };
        struct mlx5dv_qp_init_attr dv = {
                .comp_mask = MLX5DV_QP_INIT_ATTR_MASK_DC | MLX5DV_QP_INIT_ATTR_MASK_QP_CREATE_FLAGS,
                .create_flags = MLX5DV_QP_CREATE_DISABLE_SCATTER_TO_CQE,
                .dc_init_attr = {.dc_type = MLX5DV_DCTYPE_DCI},
        };

        return dc.mlx5dv_create_qp_fn(context, &attr, &dv);
}

static int modify(struct ibv_qp *qp, struct ibv_qp_attr *attr, enum ibv_qp_state state, int mask)
{
        attr->qp_state = state;
        return -rdx_lib.ibv_modify_qp_fn(qp, attr, mask | IBV_QP_STATE);
}

/* From RESET to where it sends. An initiator has no peer, so no address is set here. */
static int make_ready(struct rdx_device *device, struct ibv_qp *qp)
{
        struct ibv_port_attr port;
        struct ibv_qp_attr attr = {.port_num = device->port,
                                   .timeout = TIMEOUT,
                                   .retry_cnt = TRIES,
                                   .rnr_retry = 0,
                                   .max_rd_atomic = RDX_READ_DEPTH};
        int rv;

        if (device->attr.max_qp_rd_atom < (int)RDX_READ_DEPTH)
                attr.max_rd_atomic = (uint8_t)device->attr.max_qp_rd_atom;
        memset(&port, 0, sizeof(port));
        if (rdx_lib.ibv_query_port_fn(device->context, device->port, (struct _compat_ibv_port_attr *)&port) != 0)
                return -EIO;
        attr.path_mtu = port.active_mtu;
        rv = modify(qp, &attr, IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT);
        if (rv == 0)
                rv = modify(qp, &attr, IBV_QPS_RTR, IBV_QP_PATH_MTU);
        if (rv == 0)
                rv = modify(qp, &attr, IBV_QPS_RTS,
                            IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
                                    IBV_QP_MAX_QP_RD_ATOMIC);
        return rv;
}

int rdx_verbs_initiator_open(struct rdx_domain *domain, struct rdx_queue *queue, unsigned sends,
                             struct rdx_initiator **out)
{
        struct rdx_initiator *initiator = calloc(1, sizeof(*initiator));
        int rv;

        *out = NULL;
        if (initiator == NULL)
                return -ENOMEM;
        initiator->device = domain->device;
        initiator->qp = create(domain->device->context, domain->pd, queue->cq, sends);
        rv = initiator->qp != NULL ? 0 : errno != 0 ? -errno : -EIO;
        if (rv != 0)
                goto err_free;
        initiator->ex = dc.ibv_qp_to_qp_ex_fn(initiator->qp);
        initiator->dv = initiator->ex != NULL ? dc.mlx5dv_qp_ex_from_ibv_qp_ex_fn(initiator->ex) : NULL;
        rv = initiator->dv != NULL ? make_ready(domain->device, initiator->qp) : -ENOTSUP;
        if (rv != 0)
                goto err_qp;
        *out = initiator;
        return 0;

err_qp:
        dc.ibv_destroy_qp_fn(initiator->qp);
err_free:
        free(initiator);
        return rv;
}

void rdx_verbs_initiator_close(struct rdx_initiator *initiator)
{
        dc.ibv_destroy_qp_fn(initiator->qp);
        free(initiator);
}

int rdx_verbs_initiator_reset(struct rdx_initiator *initiator)
{
        struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RESET};
        int rv = modify(initiator->qp, &attr, IBV_QPS_RESET, 0);

        return rv == 0 ? make_ready(initiator->device, initiator->qp) : rv;
}

/* All of it or nothing. */
int rdx_verbs_initiator_post(struct rdx_initiator *initiator, const struct rdx_work *work, unsigned count,
                             unsigned *posted)
{
        struct ibv_qp_ex *ex = initiator->ex;
        unsigned i;
        int rv;

        ibv_wr_start(ex);
        for (i = 0; i < count; i++) {
                ex->wr_id = work[i].tag;
                ex->wr_flags = work[i].signalled ? IBV_SEND_SIGNALED : 0;
                if (work[i].op == RDX_OP_READ)
                        ibv_wr_rdma_read(ex, work[i].rkey, work[i].remote);
                else
                        ibv_wr_rdma_write(ex, work[i].rkey, work[i].remote);
                mlx5dv_wr_set_dc_addr(initiator->dv, work[i].route->ah, work[i].target, work[i].key);
                ibv_wr_set_sge(ex, work[i].lkey, (uint64_t)(uintptr_t)work[i].address, work[i].len);
        }
        rv = -ibv_wr_complete(ex);
        *posted = rv == 0 ? count : 0;
        return rv;
}

/* ---- ways ------------------------------------------------------------------------------------ */

/* The index of the device's own address; with RoCE that of version 2, the one that is routed. */
static int own_index(struct rdx_device *device)
{
        const uint8_t *own = device->id->route.addr.addr.ibaddr.sgid.raw;
        struct ibv_port_attr port;
        struct ibv_gid_entry entry;
        int i;

        memset(&port, 0, sizeof(port));
        if (rdx_lib.ibv_query_port_fn(device->context, device->port, (struct _compat_ibv_port_attr *)&port) != 0)
                return -EIO;
        for (i = 0; i < port.gid_tbl_len; i++) {
                if (dc._ibv_query_gid_ex_fn(device->context, device->port, (uint32_t)i, &entry, 0, sizeof(entry)) != 0)
                        continue;
                if (memcmp(entry.gid.raw, own, RDX_GID_LEN) == 0 && entry.gid_type != IBV_GID_TYPE_ROCE_V1)
                        return i;
        }
        return -ENOENT;
}

int rdx_verbs_route_open(struct rdx_domain *domain, const struct rdx_port *port, struct rdx_route **out)
{
        struct ibv_ah_attr attr = {.is_global = 1, .dlid = port->lid, .port_num = domain->device->port};
        struct rdx_route *route;
        int index = own_index(domain->device);

        *out = NULL;
        if (index < 0)
                return index;
        route = calloc(1, sizeof(*route));
        if (route == NULL)
                return -ENOMEM;
        memcpy(attr.grh.dgid.raw, port->gid, RDX_GID_LEN);
        attr.grh.sgid_index = (uint8_t)index;
        attr.grh.hop_limit = HOPS;
        route->ah = dc.ibv_create_ah_fn(domain->pd, &attr);
        if (route->ah == NULL) {
                free(route);
                return -EHOSTUNREACH;
        }
        *out = route;
        return 0;
}

void rdx_verbs_route_close(struct rdx_route *route)
{
        dc.ibv_destroy_ah_fn(route->ah);
        free(route);
}

/* ---- is it there ----------------------------------------------------------------------------- */

/* No flag of the device says it: one is made. */
bool rdx_verbs_dc(struct ibv_context *context)
{
        struct ibv_pd *pd;
        struct ibv_cq *cq;
        struct ibv_qp *qp = NULL;

        pthread_once(&once, verbs_dc_load);
        if (!loaded || !dc.mlx5dv_is_supported_fn(context->device))
                return false;
        pd = rdx_lib.ibv_alloc_pd_fn(context);
        cq = pd != NULL ? rdx_lib.ibv_create_cq_fn(context, (int)PROBE_SENDS, NULL, NULL, 0) : NULL;
        if (cq != NULL)
                qp = create(context, pd, cq, PROBE_SENDS);
        if (qp != NULL)
                dc.ibv_destroy_qp_fn(qp);
        if (cq != NULL)
                rdx_lib.ibv_destroy_cq_fn(cq);
        if (pd != NULL)
                rdx_lib.ibv_dealloc_pd_fn(pd);
        return qp != NULL;
}

#else

bool rdx_verbs_dc(struct ibv_context *context)
{
        return false;
}

#endif
