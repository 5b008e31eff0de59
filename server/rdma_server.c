/*
 * rdma_server.c - the RDMA module put into the daemon: which transport, where it listens, what
 * memory it may send from.
 *
 * Called by the main thread before the loops run. RDMA is an extra: a machine that has no device
 * for a configured address still serves all over TCP, so that one configuration fits a fleet. What
 * is wrong in itself (an address in use, memory that can't be registered) is an error.
 */
#include "server/rdma_server.h"

#include "server/daemon_log.h"

#include <errno.h>
#include <string.h>

static int choose_transport(const struct srv_settings *settings, const struct rdx_transport **out,
                            struct srv_error *error)
{
        int rv;

        *out = rdx_verbs();
        if (*settings->test_rdma_driver == '\0')
                return 0;
        rv = rdx_transport_load(settings->test_rdma_driver, out);
        if (rv != 0)
                return srv_fail(error, rv, "test_rdma_driver: cannot load %.300s: %s", settings->test_rdma_driver,
                                strerror(-rv));
        return 0;
}

static int register_arenas(const struct srv_loops *loops, struct rdx_server *rdma)
{
        unsigned i;
        int rv = 0;

        for (i = 0; i < loops->count && rv == 0; i++) {
                void *base;
                size_t len;

                lp_arena_memory(loops->loops[i], &base, &len);
                if (len > 0)
                        rv = rdx_server_memory(rdma, base, len);
        }
        return rv;
}

static int start_rdma_server(const struct srv_loops *loops, struct rdx_server *rdma, struct srv_error *error)
{
        int rv = register_arenas(loops, rdma);

        if (rv != 0)
                return srv_fail(
                        error, rv,
                        "rdma_listen: cannot register buffers with the device: %s (see the limit of locked memory, "
                        "ulimit -l)",
                        strerror(-rv));
        rv = rdx_server_start(rdma);
        return rv == 0 ? 0 : srv_fail(error, rv, "rdma_listen: cannot start: %s", strerror(-rv));
}

static int make_rdma_server(const struct srv_settings *settings, struct rdx_server_options *options,
                            struct rdx_server **out, struct srv_error *error)
{
        struct rdx_endpoint_options endpoints[SRV_RDMA_LISTEN_MAX];
        struct srv_address addresses[SRV_RDMA_LISTEN_MAX];
        char why[300] = "";
        const char *bad;
        unsigned i;
        int rv;

        for (i = 0; i < settings->rdma_listen.count; i++) {
                if (srv_parse_address(settings->rdma_listen.item[i], &addresses[i], &bad) != 0)
                        return srv_fail(error, -EINVAL, "rdma_listen: %s", bad);
                endpoints[i] = (struct rdx_endpoint_options){addresses[i].host, addresses[i].port};
        }
        rv = srv_token_key(settings->rdma_token_key, &options->token_key, error);
        if (rv != 0)
                return rv;
        options->endpoints = endpoints;
        options->endpoint_count = settings->rdma_listen.count;
        rv = rdx_server_new(options, out, why, sizeof(why));
        if (rv == -ENODEV || rv == -ENOSYS) {
                srv_log(SRV_LOG_WARNING, "no RDMA: %s", *why != '\0' ? why : strerror(-rv));
                return 0;
        }
        if (rv != 0)
                return srv_fail(error, rv, "rdma_listen: %s", *why != '\0' ? why : strerror(-rv));
        return 0;
}

int srv_rdma_open(const struct srv_settings *settings, const struct srv_loops *loops,
                  void (*batch)(void *arg, struct rdx_batch *batch), void *arg, struct rdx_server **out,
                  struct srv_error *error)
{
        struct rdx_server_options options = {
                .loops = loops->loops,
                .loop_count = loops->count,
                .limits = {.sessions = (unsigned)settings->rdma_sessions,
                           .sessions_per_key = (unsigned)settings->rdma_sessions_per_key,
                           .requests = (unsigned)settings->rdma_requests,
                           .writes = (unsigned)settings->rdma_writes,
                           .life_ms = settings->rdma_session_life},
                .tokens = settings->rdma_token_gid.count + settings->rdma_token_gid_plain.count > 0,
                .batch = batch,
                .arg = arg,
        };
        int rv;

        *out = NULL;
        if (settings->rdma_listen.count == 0)
                return 0;
        rv = choose_transport(settings, &options.transport, error);
        if (rv == 0)
                rv = make_rdma_server(settings, &options, out, error);
        if (rv == 0 && *out != NULL)
                rv = start_rdma_server(loops, *out, error);
        return rv; /* what was made is stopped and freed with the rest of the daemon */
}

void srv_rdma_say(const struct srv_settings *settings, const struct rdx_server *rdma)
{
        unsigned i;

        for (i = 0; rdma != NULL && i < settings->rdma_listen.count; i++) {
                struct rdx_device_info device;

                rdx_server_device(rdma, i, &device);
                srv_log(SRV_LOG_INFO, "RDMA on %s: device %s%s", settings->rdma_listen.item[i], device.name,
                        rdx_server_tokens(rdma, i) ? ", also for requests with x-amz-rdma-token" : "");
        }
}
