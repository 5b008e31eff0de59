/*
 * routes.c - ways to the ports that tokens name. Finding one may ask the network, so a thread does
 * it (the asker) and the loop goes on; a loop keeps what was found, at most RDX_WAYS for each
 * device, and gives up the one that was used longest ago. A way on which a request failed is found
 * anew.
 *
 * Ways belong to their loop. The asker's line is bounded by the ways there are (I9).
 */
#include "rdma/initiator.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct rdx_asker {
        pthread_t thread;
        pthread_mutex_t lock;
        pthread_cond_t more;
        struct rdx_way *first, **last; /* under the lock */
        bool stop, running;
};

static struct rdx_server *server_of(const struct rdx_way *way)
{
        return way->dialer->connection->home->server;
}

static struct rdx_domain *domain_of(const struct rdx_way *way)
{
        return server_of(way)->endpoint[way->dialer->connection->endpoint].domain;
}

/* ---- the asker: a thread --------------------------------------------------------------------- */

static void routes_answer(struct rdx_way *way, int result)
{
        way->result = result;
        lp_post(way->dialer->connection->home->loop, &way->msg);
}

static void *asker_main(void *arg)
{
        struct rdx_asker *asker = arg;
        struct rdx_way *way;

        pthread_mutex_lock(&asker->lock);
        while (!asker->stop) {
                way = asker->first;
                if (way == NULL) {
                        pthread_cond_wait(&asker->more, &asker->lock);
                        continue;
                }
                asker->first = way->next;
                if (asker->first == NULL)
                        asker->last = &asker->first;
                pthread_mutex_unlock(&asker->lock);
                routes_answer(way, server_of(way)->transport->route_open(domain_of(way), &way->port, &way->route));
                pthread_mutex_lock(&asker->lock);
        }
        while ((way = asker->first) != NULL) {
                asker->first = way->next;
                routes_answer(way, -ESHUTDOWN);
        }
        pthread_mutex_unlock(&asker->lock);
        return NULL;
}

static bool any_dialer(const struct rdx_server *server)
{
        unsigned i;

        for (i = 0; i < server->endpoint_count; i++)
                if (rdx_server_tokens(server, i))
                        return true;
        return false;
}

int rdx_asker_open(struct rdx_server *server)
{
        struct rdx_asker *asker;
        int rv;

        if (!any_dialer(server) || !server->transport->route_blocks)
                return 0;
        asker = calloc(1, sizeof(*asker));
        if (asker == NULL)
                return -ENOMEM;
        pthread_mutex_init(&asker->lock, NULL);
        pthread_cond_init(&asker->more, NULL);
        asker->last = &asker->first;
        server->asker = asker;
        rv = pthread_create(&asker->thread, NULL, asker_main, asker);
        asker->running = rv == 0;
        return -rv;
}

void rdx_asker_stop(struct rdx_asker *asker)
{
        if (asker == NULL || !asker->running)
                return;
        pthread_mutex_lock(&asker->lock);
        asker->stop = true;
        pthread_cond_signal(&asker->more);
        pthread_mutex_unlock(&asker->lock);
        pthread_join(asker->thread, NULL);
        asker->running = false;
}

void rdx_asker_free(struct rdx_asker *asker)
{
        if (asker == NULL)
                return;
        rdx_asker_stop(asker);
        pthread_cond_destroy(&asker->more);
        pthread_mutex_destroy(&asker->lock);
        free(asker);
}

/* False: it has stopped. */
static bool routes_ask(struct rdx_asker *asker, struct rdx_way *way)
{
        bool stop;

        pthread_mutex_lock(&asker->lock);
        stop = asker->stop;
        if (!stop) {
                way->next = NULL;
                *asker->last = way;
                asker->last = &way->next;
                pthread_cond_signal(&asker->more);
        }
        pthread_mutex_unlock(&asker->lock);
        return !stop;
}

/* ---- ways: on their loop --------------------------------------------------------------------- */

static void close_way(struct rdx_way *way)
{
        if (way->route != NULL)
                server_of(way)->transport->route_close(way->route);
        way->route = NULL;
        way->state = RDX_WAY_FREE;
        way->stale = false;
}

static void routes_answered(struct lp_msg *msg)
{
        struct rdx_way *way = container_of(msg, struct rdx_way, msg);
        struct rdx_request *request;

        way->state = way->result == 0 ? RDX_WAY_FOUND : RDX_WAY_FREE;
        while ((request = way->waiting) != NULL) {
                way->waiting = request->waits;
                rdx_dial_way(request, way->result);
        }
}

static struct rdx_way *routes_known(struct rdx_dialer *dialer, const struct rdx_port *port)
{
        unsigned i;

        for (i = 0; i < RDX_WAYS; i++) {
                struct rdx_way *way = &dialer->way[i];

                if (way->state != RDX_WAY_FREE && !way->stale && way->port.lid == port->lid &&
                    memcmp(way->port.gid, port->gid, RDX_GID_LEN) == 0)
                        return way;
        }
        return NULL;
}

/* One that is free, or the one that was used longest ago of those that nobody uses. */
static struct rdx_way *vacant(struct rdx_dialer *dialer)
{
        struct rdx_way *chosen = NULL;
        unsigned i;

        for (i = 0; i < RDX_WAYS; i++) {
                struct rdx_way *way = &dialer->way[i];

                if (way->users > 0)
                        continue;
                if (way->state == RDX_WAY_FREE)
                        return way;
                if (chosen == NULL || way->used < chosen->used)
                        chosen = way;
        }
        if (chosen != NULL)
                close_way(chosen);
        return chosen;
}

static int routes_find(struct rdx_way *way)
{
        struct rdx_server *server = server_of(way);
        int rv;

        if (server->asker == NULL) {
                rv = server->transport->route_open(domain_of(way), &way->port, &way->route);
                way->state = rv == 0 ? RDX_WAY_FOUND : RDX_WAY_FREE;
                return rv;
        }
        way->msg.run = routes_answered;
        way->state = RDX_WAY_ASKED;
        if (routes_ask(server->asker, way))
                return -EINPROGRESS;
        way->state = RDX_WAY_FREE;
        return -ESHUTDOWN;
}

int rdx_way_take(struct rdx_dialer *dialer, struct rdx_request *request)
{
        struct rdx_way *way = routes_known(dialer, &request->port);
        int rv = 0;

        if (way == NULL) {
                way = vacant(dialer);
                if (way == NULL)
                        return -EAGAIN;
                way->dialer = dialer;
                way->port = request->port;
                rv = routes_find(way);
        } else if (way->state == RDX_WAY_ASKED) {
                rv = -EINPROGRESS;
        }
        if (rv != 0 && rv != -EINPROGRESS)
                return rv;
        way->users++;
        way->used = lp_now(dialer->connection->home->loop);
        request->flow.way = way;
        if (rv == -EINPROGRESS) {
                request->waits = way->waiting;
                way->waiting = request;
        }
        return rv;
}

void rdx_way_give(struct rdx_way *way)
{
        assert(way->users > 0);
        if (--way->users == 0 && way->stale)
                close_way(way);
}

void rdx_ways_close(struct rdx_dialer *dialer)
{
        unsigned i;

        for (i = 0; i < RDX_WAYS; i++)
                if (dialer->way[i].route != NULL)
                        close_way(&dialer->way[i]);
}
