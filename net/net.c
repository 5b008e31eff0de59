/*
 * net.c - life of the links: start, stop, the tick, the tour of all loops, counters and log lines.
 * The process (server/) makes one struct net; everything else is called from the loops.
 */
#include "net/net_internal.h"

#include "ec.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STOP_POLL_NS  (10 * NET_MS)
#define LINE_MAX_LEN  512u
#define SAME_LINE_NS  (60000 * NET_MS)
#define OTHER_LINE_NS (1000 * NET_MS)

/* ---- tours ----------------------------------------------------------------------------------- */

static void tour_arrives(struct lp_msg *msg)
{
        struct net_tour *tour = container_of(msg, struct net_tour, msg);
        struct net_loop *at = &tour->net->loops[tour->next++];

        tour->visit(tour, at);
        if (tour->next == tour->net->options.loop_count)
                tour->end(tour, at);
        else
                lp_post(tour->net->loops[tour->next].lp, msg);
}

void net_tour_begin(struct net *net, struct net_tour *tour)
{
        tour->net = net;
        tour->next = 0;
        tour->msg.run = tour_arrives;
        lp_post(net->loops[0].lp, &tour->msg);
}

/* ---- log ------------------------------------------------------------------------------------- */

/* True: not now. */
static bool log_is_quiet(struct net_quiet *quiet, const char *line, uint64_t now)
{
        uint32_t checksum = era_crc32c(0, line, strlen(line));
        uint64_t pause = quiet->line == checksum ? SAME_LINE_NS : OTHER_LINE_NS;

        if (quiet->said != 0 && now - quiet->said < pause) {
                quiet->left_out++;
                return true;
        }
        quiet->said = now;
        quiet->line = checksum;
        return false;
}

void net_log(struct net_loop *at, struct net_quiet *quiet, const char *format, ...)
{
        const struct net_options *options = &at->net->options;
        char line[LINE_MAX_LEN];
        va_list list;
        int len;

        if (options->log == NULL)
                return;
        va_start(list, format);
        len = vsnprintf(line, sizeof(line), format, list);
        va_end(list);
        if (quiet != NULL && log_is_quiet(quiet, line, lp_now(at->lp)))
                return;
        if (quiet != NULL && quiet->left_out > 0 && len > 0 && (size_t)len < sizeof(line))
                snprintf(line + len, sizeof(line) - (size_t)len, " (%u lines before it were left out)",
                         quiet->left_out);
        if (quiet != NULL)
                quiet->left_out = 0;
        options->log(options->log_arg, line);
}

/* ---- tick ------------------------------------------------------------------------------------ */

static void loop_tick(struct lp_timer *timer)
{
        struct net_loop *at = container_of(timer, struct net_loop, tick);
        uint64_t now = lp_now(at->lp);
        struct net_conn *conn, *next;

        for (conn = at->conns; conn != NULL; conn = next) {
                next = conn->next;
                if (conn->role == &net_role_inbound && conn->stalled && conn->from.short_of_memory)
                        net_conn_resume(conn);
                net_conn_tick(conn, now);
        }
        lp_timer_start(at->lp, &at->tick, NET_TICK_NS);
}

/* ---- start ----------------------------------------------------------------------------------- */

static void start_visit(struct net_tour *tour, struct net_loop *at)
{
        struct net *net = tour->net;
        struct net_transport *transport = net->options.transport;
        int rv = 0;

        if (at->stopped)
                return;
        at->tick.expired = loop_tick;
        lp_timer_start(at->lp, &at->tick, NET_TICK_NS);
        if (at->index != 0)
                return;
        if (net->options.listen[0] != '\0') {
                net->listener.accepted = net_accepted;
                rv = transport->ops->listen(transport, at->lp, &net->listener, net->options.listen,
                                            sizeof(net->options.listen));
                net->listening = rv == 0;
        }
        if (net->listening_done != NULL)
                net->listening_done(net->listening_arg, rv, net->options.listen);
}

static void start_end(struct net_tour *tour, struct net_loop *last)
{
        atomic_fetch_sub(&tour->net->alive, 1);
}

void net_start(struct net *net, void (*listening)(void *arg, int result, const char *address), void *arg)
{
        net->listening_done = listening;
        net->listening_arg = arg;
        net->start_tour = (struct net_tour){.visit = start_visit, .end = start_end};
        atomic_fetch_add(&net->alive, 1);
        net_tour_begin(net, &net->start_tour);
}

/* ---- stop ------------------------------------------------------------------------------------ */

static void stop_links(struct net *net, struct net_loop *at)
{
        unsigned count = atomic_load(&net->peer_count), i, link;

        for (i = 0; i < count; i++) {
                struct net_peer *peer = atomic_load(&net->peers[i]);

                for (link = 0; link < NET_LINKS; link++)
                        if (net_owner(peer, link) == at)
                                net_link_end(&peer->links[link], "this node stops");
        }
}

static void stop_visit(struct net_tour *tour, struct net_loop *at)
{
        struct net *net = tour->net;

        at->stopped = true;
        lp_timer_stop(at->lp, &at->tick);
        if (at->index == 0 && net->listening)
                net->options.transport->ops->unlisten(net->options.transport, &net->listener);
        stop_links(net, at);
        while (at->conns != NULL)
                net_conn_close(at->conns, "this node stops");
}

static void stop_look(struct lp_timer *timer)
{
        struct net *net = container_of(timer, struct net, stop_poll);

        if (atomic_load(&net->alive) > 0)
                lp_timer_start(net->loops[0].lp, &net->stop_poll, STOP_POLL_NS);
        else if (net->stopped != NULL)
                net->stopped(net->stopped_arg);
}

static void stop_begins_to_look(struct lp_msg *msg)
{
        struct net *net = container_of(msg, struct net, stop_tour.msg);

        net->stop_poll.expired = stop_look;
        stop_look(&net->stop_poll);
}

static void stop_end(struct net_tour *tour, struct net_loop *last)
{
        tour->msg.run = stop_begins_to_look;
        lp_post(tour->net->loops[0].lp, &tour->msg);
}

void net_stop(struct net *net, void (*stopped)(void *arg), void *arg)
{
        net->stopped = stopped;
        net->stopped_arg = arg;
        net->stop_tour = (struct net_tour){.visit = stop_visit, .end = stop_end};
        net_tour_begin(net, &net->stop_tour);
}

/* ---- life ------------------------------------------------------------------------------------ */

static void limits_fill(struct net_limits *limits)
{
#define LIMIT(field, standard)                                                                                         \
        if (limits->field == 0)                                                                                        \
        limits->field = (standard)
        LIMIT(guests, 64);
        LIMIT(guests_of_address, 16);
        LIMIT(requests, 1024);
        LIMIT(calls, 1u << 20);
        LIMIT(lane_bytes, 8u << 20);
        LIMIT(body_bytes, 256ull << 20);
        LIMIT(handshake_ms, 5000);
        LIMIT(frame_ms, 10000);
        LIMIT(silence_ms, 5000);
        LIMIT(clock_s, 300);
        LIMIT(backoff_ms, 4096);
#undef LIMIT
}

/* A process that can never take the largest request would wait for ever. */
static bool limits_fit(const struct net_limits *limits)
{
        return limits->body_bytes >= sizeof(struct net_request) + NET_BODY_MAX && limits->requests <= UINT16_MAX &&
               limits->backoff_ms >= 64;
}

static int loops_make(struct net *net)
{
        unsigned i;

        net->loops = calloc(net->options.loop_count, sizeof(*net->loops));
        if (net->loops == NULL)
                return -ENOMEM;
        for (i = 0; i < net->options.loop_count; i++) {
                net->loops[i].net = net;
                net->loops[i].index = i;
                net->loops[i].lp = net->options.loops[i];
                net->loops[i].scratch = malloc(NET_SCRATCH);
                if (net->loops[i].scratch == NULL)
                        return -ENOMEM;
        }
        return 0;
}

int net_new(const struct net_options *options, struct net **out)
{
        struct net *net;
        int rv;

        if (options->loop_count == 0 || options->boot == 0 || options->transport == NULL)
                return -EINVAL;
        net = calloc(1, sizeof(*net));
        if (net == NULL)
                return -ENOMEM;
        net->options = *options;
        net->secrets = options->secrets;
        pthread_mutex_init(&net->secrets_lock, NULL);
        limits_fill(&net->options.limits);
        memcpy(net->self.cluster, options->cluster, NET_CLUSTER_LEN);
        net->self.generation = options->generation;
        net->self.node = options->node;
        net->self.boot = options->boot;
        net->self.clock_s = net->options.limits.clock_s;
        rv = limits_fit(&net->options.limits) ? loops_make(net) : -EINVAL;
        if (rv != 0)
                net_free(net);
        else
                *out = net;
        return rv;
}

void net_free(struct net *net)
{
        unsigned i;

        if (net == NULL)
                return;
        for (i = 0; i < atomic_load(&net->peer_count); i++) {
                struct net_peer *peer = atomic_load(&net->peers[i]);

                free((void *)peer->parts[0].known);
                free(peer->parts);
                free(peer);
        }
        for (i = 0; net->loops != NULL && i < net->options.loop_count; i++)
                free(net->loops[i].scratch);
        free(net->loops);
        pthread_mutex_destroy(&net->secrets_lock);
        free(net);
}

void net_secrets_set(struct net *net, const struct net_secrets *secrets)
{
        pthread_mutex_lock(&net->secrets_lock);
        net->secrets = *secrets;
        pthread_mutex_unlock(&net->secrets_lock);
}

void net_secrets_read(struct net *net, struct net_secrets *out)
{
        pthread_mutex_lock(&net->secrets_lock);
        *out = net->secrets;
        pthread_mutex_unlock(&net->secrets_lock);
}

/* ---- counters -------------------------------------------------------------------------------- */

void net_stats_read(const struct net *net, struct net_stats *out)
{
        uint64_t sums[NET_COUNTS] = {0};
        unsigned i, counter;

        for (i = 0; i < net->options.loop_count; i++)
                for (counter = 0; counter < NET_COUNTS; counter++)
                        sums[counter] += atomic_load_explicit(&net->loops[i].counts[counter], memory_order_relaxed);
        sums[NET_COUNT_guests] = atomic_load(&net->guests);
        sums[NET_COUNT_body_memory] = atomic_load(&net->body_used);
#define NET_COUNTER_COPY(name, grows, help) out->name = sums[NET_COUNT_##name];
        NET_COUNTERS(NET_COUNTER_COPY)
#undef NET_COUNTER_COPY
}
