/*
 * remote_nodes.h - two nodes with loops on threads, over TCP and TLS: the second has a drive server
 * for real drives, the first a client of it.
 */
#ifndef MILLRACE_TEST_REMOTE_NODES_H
#define MILLRACE_TEST_REMOTE_NODES_H

#include "engine/drive/drive.h"
#include "remote.h"
#include "tests/unit/net/net_fixture.h"

#define RN_POOL 1u

struct rn {
        struct node a, b;
        struct net_peer *to_b;
        struct rem_server *server;
        struct rem_client *client;
};

static inline void rn_start(struct rn *rn, unsigned peer_slots)
{
        struct net_options options = node_options(1, 5);

        memset(rn, 0, sizeof(*rn));
        node_start(&rn->a, &options);
        MUST(rem_server_new(&rn->server) == 0);
        options = node_options(2, 6);
        options.handler =
                (struct net_handler){.bulk = rem_server_bulk, .request = rem_server_request, .lost = rem_server_lost};
        options.handler_arg = rn->server;
        fixture_peer_slots = peer_slots;
        node_start(&rn->b, &options);
        fixture_peer_slots = 0;
        rn->to_b = node_meets(&rn->a, &rn->b);
        node_meets(&rn->b, &rn->a);
        MUST(rem_client_new(&(struct rem_client_options){.net = rn->a.net, .loop = rn->a.lp[0]}, &rn->client) == 0);
}

/* The first node, when its remote drives are closed; then the second, whose loops stop before its drives are closed: closed() does that. */
static inline void rn_stop(struct rn *rn, void (*closed)(void *arg), void *arg)
{
        unsigned i;

        node_stop(&rn->a);
        rem_client_free(rn->client);
        rem_server_stop(rn->server);
        net_stop(rn->b.net, node_has_stopped, &rn->b);
        sem_wait_or_fail(&rn->b.stopped);
        for (i = 0; i < NODE_LOOPS; i++)
                lp_loop_stop(rn->b.loops[i].lp);
        for (i = 0; i < NODE_LOOPS; i++)
                pthread_join(rn->b.loops[i].thread, NULL);
        net_free(rn->b.net);
        closed(arg);
        rem_server_free(rn->server);
        for (i = 0; i < NODE_LOOPS; i++)
                lp_loop_free(rn->b.loops[i].lp);
        net_tcp_free(rn->b.transport);
        sem_destroy(&rn->b.listening);
        sem_destroy(&rn->b.stopped);
        pthread_mutex_destroy(&rn->b.lock);
}

/* The first node loses the second, or meets it again. */
static inline void rn_cut(struct rn *rn, bool away)
{
        if (away)
                MUST(net_peer_remove(rn->to_b) == 0);
        else
                node_meets(&rn->a, &rn->b);
        node_all_know(&rn->a);
}

static inline void rn_gone(void *arg)
{
        sem_post(arg);
}

/* Until nothing of the drive is used by the server any more. */
static inline void rn_withdraw(struct rem_served *served)
{
        sem_t gone;

        sem_init(&gone, 0, 0);
        rem_served_withdraw(served, rn_gone, &gone);
        sem_wait_or_fail(&gone);
        sem_destroy(&gone);
}

#endif
