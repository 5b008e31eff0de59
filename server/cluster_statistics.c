/*
 * cluster_statistics.c - what a process of a cluster's node knows of the cluster at first hand: whom it reaches, when etcd
 * last answered, and who leads. For the status of the cluster and for metrics. The admin listener's thread.
 */
#include "server/cluster_statistics.h"

#include "server/cluster_link.h"
#include "server/settings.h"

#include <stdlib.h>
#include <string.h>

/* Of all processes of a node that this net knows. False: none is known. */
static bool reach_in(struct net *net, uint16_t number, struct net_peer_state *out)
{
        bool found = false;
        unsigned i;

        for (i = 0; net != NULL && i <= CL_POOLS_MAX + 1; i++) { /* the node process, leaders, the gateway */
                struct net_peer *peer = net_peer_find(net, cl_party(number, i <= CL_POOLS_MAX ? i : CL_POOL_HOMES));
                struct net_peer_state state;

                if (peer == NULL)
                        continue;
                net_peer_state_read(peer, &state);
                if (!found) {
                        *out = state;
                        found = true;
                        continue;
                }
                out->up |= state.up;
                out->heard = state.heard > out->heard ? state.heard : out->heard;
                if (out->round_trip_ns == 0)
                        out->round_trip_ns = state.round_trip_ns;
                if (out->refused == NET_REASON_NONE)
                        out->refused = state.refused;
                if (out->clock_ahead_ms == INT64_MIN)
                        out->clock_ahead_ms = state.clock_ahead_ms;
                if (state.secrets > out->secrets)
                        out->secrets = state.secrets;
        }
        return found;
}

bool srv_cluster_reach(const struct srv_link *link, uint16_t number, struct net_peer_state *out)
{
        struct net_peer_state home;

        if (number == link->settings->number || !reach_in(link->net, number, out))
                return false;
        if (reach_in(link->home_net, number, &home)) {
                out->up |= home.up;
                out->heard = home.heard > out->heard ? home.heard : out->heard;
        }
        return true;
}

static void add_node(struct srv_cluster_statistics *out, const struct srv_link *link, const struct cl_member *member)
{
        struct net_peer_state state;
        uint64_t skew;

        if (member->node.state == CL_NODE_GONE || !srv_cluster_reach(link, member->number, &state))
                return;
        out->nodes_silent += !state.up;
        skew = state.clock_ahead_ms == INT64_MIN ? 0 : (uint64_t)llabs(state.clock_ahead_ms);
        out->clock_skew_ms = skew > out->clock_skew_ms ? skew : out->clock_skew_ms;
}

void srv_cluster_statistics_read(struct srv_link *link, struct srv_cluster_statistics *out)
{
        struct cl_view view;
        unsigned i;

        memset(out, 0, sizeof(*out));
        if (link == NULL)
                return;
        pthread_mutex_lock(&link->lock);
        out->known = cl_view_copy(&view, &link->view) == 0;
        out->etcd_silent_ns = lp_clock() - link->view_answered;
        pthread_mutex_unlock(&link->lock);
        if (!out->known)
                return;
        for (i = 0; i < view.count; i++)
                add_node(out, link, &view.members[i]);
        for (i = 0; i < view.pool_count && out->pool_count < CL_POOLS_MAX; i++)
                if (view.pools[i].has_config)
                        out->pools[out->pool_count++] = (struct srv_pool_led){.number = view.pools[i].number, .led = view.pools[i].is_led,
                                                                              .here = view.pools[i].is_led && view.pools[i].leader.node == link->settings->number};
        cl_view_free(&view);
}
