/*
 * server.c - devices and listeners of the daemon, arenas registered with all of them, and what
 * rdma_cm reports, on loop 0.
 *
 * Set up before the loops run; nothing here is on the way of a request. A device that goes away
 * ends its sessions and is not chosen again.
 */
#include "rdma/initiator.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#define BACKLOG     128
#define EVENTS_MOST 64u /* taken in one round */

static void rdma_server_set_limits(struct rdx_limits *limits)
{
#define DEFAULT(field, value)                                                                                          \
        if (limits->field == 0)                                                                                        \
                limits->field = (value);
        DEFAULT(sessions, 256)
        DEFAULT(sessions_per_key, 64)
        DEFAULT(requests, 64)
        DEFAULT(messages, 8)
        DEFAULT(writes, 256)
        DEFAULT(window_bytes, 5ull << 30)
        DEFAULT(life_ms, 3600 * 1000)
        DEFAULT(connect_ms, 10 * 1000)
        DEFAULT(stall_ms, 10 * 1000)
#undef DEFAULT
}

/* ---- events of rdma_cm, on loop 0 ------------------------------------------------------------ */

static void arrival(struct rdx_endpoint *endpoint, const struct rdx_event *event)
{
        struct rdx_server *server = endpoint->server;
        int reason = rdx_registry_take(server, (unsigned)(endpoint - server->endpoint), event);
        uint8_t data[RDX_REJECT_LEN];

        if (reason == 0)
                return;
        pthread_mutex_lock(&server->lock);
        server->rejected++;
        pthread_mutex_unlock(&server->lock);
        rdx_reject_build((enum rdx_reject)reason, data);
        server->transport->reject(event->arrival, data, sizeof(data));
}

static void take_event(struct rdx_endpoint *endpoint, const struct rdx_event *event)
{
        struct rdx_server *server = endpoint->server;

        switch (event->kind) {
        case RDX_EVENT_ARRIVAL:
                arrival(endpoint, event);
                break;
        case RDX_EVENT_UP:
                rdx_registry_established(server, (uintptr_t)event->owner);
                break;
        case RDX_EVENT_DOWN:
        case RDX_EVENT_REJECTED:
                rdx_registry_down(server, (uintptr_t)event->owner, RDX_END_DISCONNECT);
                break;
        case RDX_EVENT_DEVICE_GONE:
                atomic_store(&endpoint->gone, true);
                rdx_registry_device_gone(server, (unsigned)(endpoint - server->endpoint));
                break;
        default:
                break;
        }
}

static void channel_ready(struct lp_watch *watch, uint32_t events)
{
        struct rdx_endpoint *endpoint = container_of(watch, struct rdx_endpoint, watch);
        struct rdx_event event;
        unsigned i;

        for (i = 0; i < EVENTS_MOST; i++) {
                if (endpoint->server->transport->channel_next(endpoint->channel, &event) != 1)
                        break;
                take_event(endpoint, &event);
        }
}

static void queue_ready(struct lp_watch *watch, uint32_t events)
{
        rdx_connection_poll(container_of(watch, struct rdx_connection, watch));
}

/* What the round has given to sessions is posted together. */
static uint64_t pump_all(struct lp_hook *hook)
{
        struct rdx_home *home = container_of(hook, struct rdx_home, hook);
        unsigned i;

        for (i = 0; i < home->server->endpoint_count; i++)
                rdx_pump(&home->connection[i]);
        return UINT64_MAX;
}

/* ---- making ---------------------------------------------------------------------------------- */

static int open_endpoint(struct rdx_server *server, const struct rdx_endpoint_options *options, char *why,
                         size_t why_len)
{
        const struct rdx_transport *transport = server->transport;
        struct rdx_endpoint *endpoint = &server->endpoint[server->endpoint_count++];
        int rv;

        endpoint->server = server;
        if (snprintf(endpoint->address, sizeof(endpoint->address), "%s", options->address) >=
            (int)sizeof(endpoint->address))
                return -EINVAL;
        rv = transport->device_open(options->address, options->port, false, 0, &endpoint->device, why, why_len);
        if (rv != 0)
                return rv;
        transport->device_info(endpoint->device, &endpoint->info);
        rv = transport->domain_open(endpoint->device, &endpoint->domain);
        if (rv == 0)
                rv = transport->channel_open(endpoint->device, &endpoint->channel);
        if (rv == 0)
                rv = transport->listen(endpoint->channel, options->address, options->port, BACKLOG,
                                       &endpoint->listener);
        if (rv == 0)
                endpoint->port = transport->listener_port(endpoint->listener);
        else
                snprintf(why, why_len, "%s: cannot be listened on for RDMA: %s", options->address, strerror(-rv));
        return rv;
}

static int open_home(struct rdx_server *server, unsigned index, struct lp_loop *loop)
{
        const struct rdx_limits *limits = &server->limits;
        struct rdx_home *home = &server->home[index];
        unsigned i;
        int rv = 0;

        home->server = server;
        home->index = index;
        home->loop = loop;
        home->established_msg.run = rdx_home_established;
        home->share = limits->writes / server->home_count > 0 ? limits->writes / server->home_count : 1;
        home->slot_count = (limits->sessions + server->home_count - 1) / server->home_count;
        home->slot = calloc(home->slot_count, sizeof(*home->slot));
        if (home->slot == NULL)
                return -ENOMEM;
        for (i = 0; i < home->slot_count; i++) {
                home->slot[i].home = home;
                home->slot[i].index = (uint16_t)i;
        }
        for (i = 0; i < server->endpoint_count && rv == 0; i++) {
                struct rdx_connection *connection = &home->connection[i];

                connection->home = home;
                connection->endpoint = i;
                connection->last = &connection->first;
                rv = server->transport->queue_open(server->endpoint[i].device,
                                                   home->slot_count * (RDX_PAIR_SENDS + limits->messages) +
                                                           rdx_dialer_entries(connection),
                                                   &connection->queue);
                if (rv == 0)
                        rv = rdx_dialer_open(connection);
        }
        return rv;
}

int rdx_server_new(const struct rdx_server_options *options, struct rdx_server **out, char *why, size_t why_len)
{
        struct rdx_server *server = calloc(1, sizeof(*server));
        unsigned i;
        int rv = 0;

        *out = NULL;
        snprintf(why, why_len, "out of memory");
        if (server == NULL)
                return -ENOMEM;
        server->transport = options->transport;
        server->tokens = options->tokens;
        server->token_key = options->token_key;
        server->limits = options->limits;
        server->batch = options->batch;
        server->arg = options->arg;
        rdma_server_set_limits(&server->limits);
        pthread_mutex_init(&server->lock, NULL);
        lp_random(server->boot, sizeof(server->boot));
        if (options->endpoint_count == 0 || options->endpoint_count > RDX_ENDPOINTS_MAX || options->loop_count == 0 ||
            server->limits.messages > RDX_MESSAGES_MAX || server->limits.sessions > UINT16_MAX)
                rv = -EINVAL;
        for (i = 0; rv == 0 && i < options->endpoint_count; i++)
                rv = open_endpoint(server, &options->endpoints[i], why, why_len);
        if (rv == 0)
                server->home = calloc(options->loop_count, sizeof(*server->home));
        if (rv == 0 && server->home == NULL)
                rv = -ENOMEM;
        if (rv == 0)
                server->home_count = options->loop_count;
        for (i = 0; rv == 0 && i < options->loop_count; i++)
                rv = open_home(server, i, options->loops[i]);
        if (rv == 0)
                rv = rdx_registry_new(server);
        for (i = 0; rv == 0 && i < server->record_count; i++)
                server->record[i].server = server;
        if (rv == 0)
                rv = rdx_asker_open(server);
        if (rv != 0) {
                rdx_server_free(server);
                return rv;
        }
        *out = server;
        return 0;
}

int rdx_server_memory(struct rdx_server *server, void *base, size_t len)
{
        unsigned i;
        int rv = 0;

        if (server->arena_count == RDX_ARENAS_MAX)
                return -ENOSPC;
        for (i = 0; i < server->endpoint_count && rv == 0; i++)
                rv = server->transport->region_open(server->endpoint[i].domain, base, len, RDX_LOCAL_WRITE,
                                                    &server->endpoint[i].region[server->arena_count]);
        if (rv == 0) {
                server->arena[server->arena_count++] = (struct rdx_arena){.base = base, .len = len};
                return 0;
        }
        while (i-- > 0) {
                struct rdx_region **region = &server->endpoint[i].region[server->arena_count];

                if (*region != NULL)
                        server->transport->region_close(*region);
                *region = NULL;
        }
        return rv;
}

static int start_home(struct rdx_home *home)
{
        struct rdx_server *server = home->server;
        unsigned i;
        int rv = 0;

        for (i = 0; i < server->endpoint_count && rv == 0; i++) {
                struct rdx_connection *connection = &home->connection[i];

                rv = server->transport->queue_arm(connection->queue);
                connection->watch.fd = server->transport->queue_fd(connection->queue);
                connection->watch.ready = queue_ready;
                if (rv == 0)
                        rv = lp_watch_add(home->loop, &connection->watch, EPOLLIN);
        }
        home->hook.before_sleep = pump_all;
        lp_hook_add(home->loop, &home->hook);
        home->timer.expired = rdx_home_tick;
        if (rv == 0)
                lp_timer_start(home->loop, &home->timer, RDX_TICK_NS);
        return rv;
}

int rdx_server_start(struct rdx_server *server)
{
        unsigned i;
        int rv = 0;

        for (i = 0; i < server->home_count && rv == 0; i++)
                rv = start_home(&server->home[i]);
        for (i = 0; i < server->endpoint_count && rv == 0; i++) {
                struct rdx_endpoint *endpoint = &server->endpoint[i];

                endpoint->watch.fd = server->transport->channel_fd(endpoint->channel);
                endpoint->watch.ready = channel_ready;
                rv = lp_watch_add(server->home[0].loop, &endpoint->watch, EPOLLIN);
        }
        return rv;
}

/* ---- ending ---------------------------------------------------------------------------------- */

void rdx_server_stop(struct rdx_server *server)
{
        unsigned i;

        atomic_store(&server->stopped, true);
        for (i = 0; i < server->endpoint_count; i++) {
                server->transport->unlisten(server->endpoint[i].listener);
                server->endpoint[i].listener = NULL;
        }
        rdx_asker_stop(server->asker);
        rdx_registry_stop(server);
        for (i = 0; i < server->home_count; i++)
                rdx_home_stop(&server->home[i]);
}

static void free_home(struct rdx_home *home)
{
        const struct rdx_transport *transport = home->server->transport;
        unsigned i, e;

        for (i = 0; i < home->slot_count && home->slot != NULL; i++) {
                for (e = 0; e < RDX_ENDPOINTS_MAX; e++)
                        if (home->slot[i].region[e] != NULL)
                                transport->region_close(home->slot[i].region[e]);
                free(home->slot[i].memory);
        }
        for (e = 0; e < RDX_ENDPOINTS_MAX; e++) {
                rdx_dialer_free(home->connection[e].dialer);
                if (home->connection[e].queue != NULL)
                        transport->queue_close(home->connection[e].queue);
        }
        free(home->slot);
}

static void close_endpoint(struct rdx_server *server, struct rdx_endpoint *endpoint)
{
        const struct rdx_transport *transport = server->transport;
        unsigned i;

        if (endpoint->listener != NULL)
                transport->unlisten(endpoint->listener);
        for (i = 0; i < server->arena_count; i++)
                if (endpoint->region[i] != NULL)
                        transport->region_close(endpoint->region[i]);
        if (endpoint->channel != NULL)
                transport->channel_close(endpoint->channel);
        if (endpoint->domain != NULL)
                transport->domain_close(endpoint->domain);
        if (endpoint->device != NULL)
                transport->device_close(endpoint->device);
}

void rdx_server_free(struct rdx_server *server)
{
        unsigned i;

        if (server == NULL)
                return;
        rdx_asker_free(server->asker);
        for (i = 0; i < server->home_count; i++)
                if (server->home[i].server != NULL)
                        free_home(&server->home[i]);
        for (i = 0; i < server->endpoint_count; i++)
                close_endpoint(server, &server->endpoint[i]);
        free(server->home);
        rdx_registry_free(server);
        pthread_mutex_destroy(&server->lock);
        free(server);
}

void rdx_server_device(const struct rdx_server *server, unsigned endpoint, struct rdx_device_info *out)
{
        *out = server->endpoint[endpoint].info;
}

bool rdx_server_tokens(const struct rdx_server *server, unsigned endpoint)
{
        return server->home[0].connection[endpoint].dialer != NULL;
}
