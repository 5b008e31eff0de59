/*
 * verbs.h - the transport on libibverbs and librdmacm: what its files share. The libraries are
 * opened at the first use (dlopen), by daemon and client alike: where they are not installed,
 * everything else works. Of their headers only types, and inline functions that call through a
 * device's own table, are used.
 */
#ifndef RDX_VERBS_H
#define RDX_VERBS_H

#include "rdma_transport.h"

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

/* Name, result, parameters: from libibverbs */
#define RDX_IBV_FUNCTIONS(X)                                                                                           \
        X(ibv_get_device_list, struct ibv_device **, (int *))                                                          \
        X(ibv_free_device_list, void, (struct ibv_device **))                                                          \
        X(ibv_get_device_name, const char *, (struct ibv_device *))                                                    \
        X(ibv_open_device, struct ibv_context *, (struct ibv_device *))                                                \
        X(ibv_close_device, int, (struct ibv_context *))                                                               \
        X(ibv_query_device, int, (struct ibv_context *, struct ibv_device_attr *))                                     \
        X(ibv_query_gid, int, (struct ibv_context *, uint8_t, int, union ibv_gid *))                                   \
        X(ibv_query_port, int, (struct ibv_context *, uint8_t, struct _compat_ibv_port_attr *))                        \
        X(ibv_alloc_pd, struct ibv_pd *, (struct ibv_context *))                                                       \
        X(ibv_dealloc_pd, int, (struct ibv_pd *))                                                                      \
        X(ibv_reg_mr, struct ibv_mr *, (struct ibv_pd *, void *, size_t, int))                                         \
        X(ibv_reg_dmabuf_mr, struct ibv_mr *, (struct ibv_pd *, uint64_t, size_t, uint64_t, int, int))                 \
        X(ibv_dereg_mr, int, (struct ibv_mr *))                                                                        \
        X(ibv_create_comp_channel, struct ibv_comp_channel *, (struct ibv_context *))                                  \
        X(ibv_destroy_comp_channel, int, (struct ibv_comp_channel *))                                                  \
        X(ibv_create_cq, struct ibv_cq *, (struct ibv_context *, int, void *, struct ibv_comp_channel *, int))         \
        X(ibv_destroy_cq, int, (struct ibv_cq *))                                                                      \
        X(ibv_get_cq_event, int, (struct ibv_comp_channel *, struct ibv_cq **, void **))                               \
        X(ibv_ack_cq_events, void, (struct ibv_cq *, unsigned int))                                                    \
        X(ibv_modify_qp, int, (struct ibv_qp *, struct ibv_qp_attr *, int))

/* and from librdmacm */
#define RDX_RDMA_FUNCTIONS(X)                                                                                          \
        X(rdma_create_event_channel, struct rdma_event_channel *, (void))                                              \
        X(rdma_destroy_event_channel, void, (struct rdma_event_channel *))                                             \
        X(rdma_create_id, int, (struct rdma_event_channel *, struct rdma_cm_id **, void *, enum rdma_port_space))      \
        X(rdma_destroy_id, int, (struct rdma_cm_id *))                                                                 \
        X(rdma_bind_addr, int, (struct rdma_cm_id *, struct sockaddr *))                                               \
        X(rdma_resolve_addr, int, (struct rdma_cm_id *, struct sockaddr *, struct sockaddr *, int))                    \
        X(rdma_resolve_route, int, (struct rdma_cm_id *, int))                                                         \
        X(rdma_create_qp, int, (struct rdma_cm_id *, struct ibv_pd *, struct ibv_qp_init_attr *))                      \
        X(rdma_destroy_qp, void, (struct rdma_cm_id *))                                                                \
        X(rdma_connect, int, (struct rdma_cm_id *, struct rdma_conn_param *))                                          \
        X(rdma_listen, int, (struct rdma_cm_id *, int))                                                                \
        X(rdma_accept, int, (struct rdma_cm_id *, struct rdma_conn_param *))                                           \
        X(rdma_reject, int, (struct rdma_cm_id *, const void *, uint8_t))                                              \
        X(rdma_disconnect, int, (struct rdma_cm_id *))                                                                 \
        X(rdma_get_cm_event, int, (struct rdma_event_channel *, struct rdma_cm_event **))                              \
        X(rdma_ack_cm_event, int, (struct rdma_cm_event *))                                                            \
        X(rdma_get_src_port, __be16, (struct rdma_cm_id *))

struct rdx_libraries {
#define RDX_MEMBER(name, result, parameters) result(*name##_fn) parameters;
        RDX_IBV_FUNCTIONS(RDX_MEMBER)
        RDX_RDMA_FUNCTIONS(RDX_MEMBER)
#undef RDX_MEMBER
};

/* NULL where they are not, or too old. Blocking at the first call; any thread. */
const struct rdx_libraries *rdx_libraries(void);
/* After a call that said that they are there. */
extern struct rdx_libraries rdx_lib;

struct rdx_device {
        struct rdma_event_channel *channel;
        struct rdma_cm_id *id; /* keeps the context open */
        struct ibv_context *context;
        uint8_t port;
        struct ibv_device_attr attr;
};

struct rdx_domain {
        struct ibv_pd *pd;
        struct rdx_device *device;
};

struct rdx_region {
        struct ibv_mr *mr;
};

struct rdx_window {
        struct ibv_mw *mw;
};

struct rdx_queue {
        struct ibv_comp_channel *channel;
        struct ibv_cq *cq;
};

struct rdx_channel {
        struct rdma_event_channel *channel;
};

struct rdx_listener {
        struct rdma_cm_id *id;
};

struct rdx_arrival {
        struct rdma_cm_id *id;
        struct rdx_party peer;
        unsigned responder, initiator; /* READs that the peer will have outstanding here, and takes itself */
};

/* What an id's context points to. */
struct rdx_pair {
        struct rdma_cm_id *id;
        struct rdx_device *device;
        void *owner;
        struct rdx_party peer;
        unsigned responder, initiator; /* READs outstanding here, and at the peer */
        bool failed;
};

#define RDX_READ_DEPTH 16u

#if __has_include(<infiniband/mlx5dv.h>)
#define RDX_HAVE_DC 1 /* dynamically connected transport is compiled in */
#endif

/* verbs_device.c */
int rdx_verbs_devices(void (*visit)(void *arg, const struct rdx_device_info *info), void *arg);
int rdx_verbs_device_open(const char *address, uint16_t port, bool remote, unsigned timeout_ms, struct rdx_device **out,
                          char *why, size_t why_len);
void rdx_verbs_device_close(struct rdx_device *device);
void rdx_verbs_device_info(struct rdx_device *device, struct rdx_device_info *out);
int rdx_verbs_domain_open(struct rdx_device *device, struct rdx_domain **out);
void rdx_verbs_domain_close(struct rdx_domain *domain);
int rdx_verbs_region_open(struct rdx_domain *domain, void *address, size_t len, unsigned access,
                          struct rdx_region **out);
int rdx_verbs_region_open_dmabuf(struct rdx_domain *domain, int fd, uint64_t offset, uint64_t address, size_t len,
                                 unsigned access, struct rdx_region **out);
void rdx_verbs_region_close(struct rdx_region *region);
uint32_t rdx_verbs_region_lkey(const struct rdx_region *region);
uint32_t rdx_verbs_region_rkey(const struct rdx_region *region);
int rdx_verbs_window_open(struct rdx_domain *domain, unsigned type, struct rdx_window **out);
void rdx_verbs_window_close(struct rdx_window *window);
uint32_t rdx_verbs_window_rkey(const struct rdx_window *window);

/* verbs_connect.c */
int rdx_verbs_address(const char *address, uint16_t port, struct sockaddr_storage *out);
/* The next event of this kind on a channel of one's own, by then; another one is an error. */
int rdx_verbs_await(struct rdma_event_channel *channel, enum rdma_cm_event_type kind, unsigned timeout_ms);
int rdx_verbs_channel_open(struct rdx_device *device, struct rdx_channel **out);
void rdx_verbs_channel_close(struct rdx_channel *channel);
int rdx_verbs_channel_fd(const struct rdx_channel *channel);
int rdx_verbs_channel_next(struct rdx_channel *channel, struct rdx_event *out);
int rdx_verbs_listen(struct rdx_channel *channel, const char *address, uint16_t port, unsigned backlog,
                     struct rdx_listener **out);
uint16_t rdx_verbs_listener_port(const struct rdx_listener *listener);
void rdx_verbs_unlisten(struct rdx_listener *listener);
void rdx_verbs_reject(struct rdx_arrival *arrival, const void *data, size_t len);
int rdx_verbs_pair_open(const struct rdx_pair_options *options, struct rdx_pair **out);
unsigned rdx_verbs_pair_read_depth(const struct rdx_pair *pair);
/* As many as this device has, the protocol allows, and the peer offers. */
unsigned rdx_verbs_depth(int device, unsigned offered);
void rdx_verbs_pair_parties(const struct rdx_pair *pair, struct rdx_party *own, struct rdx_party *peer);
int rdx_verbs_pair_connect(struct rdx_pair *pair, const void *data, size_t len);
int rdx_verbs_pair_accept(struct rdx_pair *pair, const void *data, size_t len);
void rdx_verbs_pair_fail(struct rdx_pair *pair);
void rdx_verbs_pair_close(struct rdx_pair *pair);

/* verbs_work.c */
int rdx_verbs_queue_open(struct rdx_device *device, unsigned entries, struct rdx_queue **out);
void rdx_verbs_queue_close(struct rdx_queue *queue);
int rdx_verbs_queue_fd(const struct rdx_queue *queue);
int rdx_verbs_queue_arm(struct rdx_queue *queue);
int rdx_verbs_queue_poll(struct rdx_queue *queue, struct rdx_done *out, unsigned most);
int rdx_verbs_post(struct rdx_pair *pair, const struct rdx_work *work, unsigned count, unsigned *posted);
int rdx_verbs_post_receive(struct rdx_pair *pair, uint64_t tag, void *address, uint32_t len, uint32_t lkey);

/* verbs_dc.c */
/* Compiled in, and this device has it. */
bool rdx_verbs_dc(struct ibv_context *context);
int rdx_verbs_initiator_open(struct rdx_domain *domain, struct rdx_queue *queue, unsigned sends,
                             struct rdx_initiator **out);
void rdx_verbs_initiator_close(struct rdx_initiator *initiator);
int rdx_verbs_initiator_reset(struct rdx_initiator *initiator);
int rdx_verbs_initiator_post(struct rdx_initiator *initiator, const struct rdx_work *work, unsigned count,
                             unsigned *posted);
int rdx_verbs_route_open(struct rdx_domain *domain, const struct rdx_port *port, struct rdx_route **out);
void rdx_verbs_route_close(struct rdx_route *route);

#endif
