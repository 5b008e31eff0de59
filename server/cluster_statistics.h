/*
 * cluster_statistics.h - what a process of a cluster's node knows of the cluster at first hand. Any thread but a loop.
 */
#ifndef MILLRACE_SERVER_CLUSTER_STATISTICS_H
#define MILLRACE_SERVER_CLUSTER_STATISTICS_H

#include <stdbool.h>
#include <stdint.h>

#include "cluster_node.h"
#include "net.h"

struct srv_link;

/* A pool's leader, as etcd has it: its key lives as long as its lease. here: it is of this node. */
struct srv_pool_led {
        unsigned number;
        bool led, here;
};

struct srv_cluster_statistics {
        bool known;              /* else the process belongs to no cluster */
        uint64_t etcd_silent_ns; /* since etcd last answered */
        uint64_t nodes_silent;   /* other nodes that are not reached */
        uint64_t clock_skew_ms;  /* the largest, of another node's clock from this one's */
        struct srv_pool_led pools[CL_POOLS_MAX];
        unsigned pool_count;
};

/* link: NULL: of no cluster. */
void srv_cluster_statistics_read(struct srv_link *link, struct srv_cluster_statistics *out);
/*
 * What is known of a node, all its processes together: it is up if one of them is, and each of the other fields is that of
 * one that has it. False: nothing, or it is this node.
 */
bool srv_cluster_reach(const struct srv_link *link, uint16_t number, struct net_peer_state *out);

#endif
