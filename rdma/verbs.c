/*
 * verbs.c - the table of the verbs transport, and the two libraries it stands on, opened when first
 * asked for.
 */
#include "rdma/verbs.h"

#include <dlfcn.h>
#include <pthread.h>
#include <string.h>

struct rdx_libraries rdx_lib;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static bool loaded;

/* Optional: a library without it serves host memory. */
static bool is_optional(const char *name)
{
        return strcmp(name, "ibv_reg_dmabuf_mr") == 0;
}

static bool verbs_find(void *library, const char *name, void *to)
{
        void *symbol = dlsym(library, name);

        memcpy(to, &symbol, sizeof(symbol));
        return symbol != NULL || is_optional(name);
}

static void verbs_load(void)
{
        void *ibverbs = dlopen("libibverbs.so.1", RTLD_NOW | RTLD_GLOBAL);
        void *rdmacm = ibverbs != NULL ? dlopen("librdmacm.so.1", RTLD_NOW | RTLD_GLOBAL) : NULL;
        bool all = ibverbs != NULL && rdmacm != NULL;

#define FIND_IBV(name, result, parameters)  all = all && verbs_find(ibverbs, #name, &rdx_lib.name##_fn);
#define FIND_RDMA(name, result, parameters) all = all && verbs_find(rdmacm, #name, &rdx_lib.name##_fn);
        RDX_IBV_FUNCTIONS(FIND_IBV)
        RDX_RDMA_FUNCTIONS(FIND_RDMA)
        loaded = all; /* they stay open: their threads and handlers don't like to go */
}

const struct rdx_libraries *rdx_libraries(void)
{
        pthread_once(&once, verbs_load);
        return loaded ? &rdx_lib : NULL;
}

const struct rdx_transport *rdx_verbs(void)
{
        static const struct rdx_transport table = {
                .version = RDX_TRANSPORT_VERSION,
                .name = "verbs",
                .devices = rdx_verbs_devices,
                .device_open = rdx_verbs_device_open,
                .device_close = rdx_verbs_device_close,
                .device_info = rdx_verbs_device_info,
                .domain_open = rdx_verbs_domain_open,
                .domain_close = rdx_verbs_domain_close,
                .region_open = rdx_verbs_region_open,
                .region_open_dmabuf = rdx_verbs_region_open_dmabuf,
                .region_close = rdx_verbs_region_close,
                .region_lkey = rdx_verbs_region_lkey,
                .region_rkey = rdx_verbs_region_rkey,
                .window_open = rdx_verbs_window_open,
                .window_close = rdx_verbs_window_close,
                .window_rkey = rdx_verbs_window_rkey,
                .queue_open = rdx_verbs_queue_open,
                .queue_close = rdx_verbs_queue_close,
                .queue_fd = rdx_verbs_queue_fd,
                .queue_arm = rdx_verbs_queue_arm,
                .queue_poll = rdx_verbs_queue_poll,
                .channel_open = rdx_verbs_channel_open,
                .channel_close = rdx_verbs_channel_close,
                .channel_fd = rdx_verbs_channel_fd,
                .channel_next = rdx_verbs_channel_next,
                .listen = rdx_verbs_listen,
                .listener_port = rdx_verbs_listener_port,
                .unlisten = rdx_verbs_unlisten,
                .reject = rdx_verbs_reject,
                .pair_open = rdx_verbs_pair_open,
                .pair_parties = rdx_verbs_pair_parties,
                .pair_read_depth = rdx_verbs_pair_read_depth,
                .pair_connect = rdx_verbs_pair_connect,
                .pair_accept = rdx_verbs_pair_accept,
                .pair_fail = rdx_verbs_pair_fail,
                .pair_close = rdx_verbs_pair_close,
                .post = rdx_verbs_post,
                .post_receive = rdx_verbs_post_receive,
#ifdef RDX_HAVE_DC
                .initiator_open = rdx_verbs_initiator_open,
                .initiator_close = rdx_verbs_initiator_close,
                .initiator_reset = rdx_verbs_initiator_reset,
                .initiator_post = rdx_verbs_initiator_post,
                .route_open = rdx_verbs_route_open,
                .route_close = rdx_verbs_route_close,
                .route_blocks = true, /* the kernel asks for the neighbour's address */
#endif
        };

        return &table;
}
