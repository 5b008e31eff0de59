/*
 * nodes.h - nodes of a simulated cluster and their processes: a drive server on each, and a leader,
 * which is a process of its own and has the store.
 *
 * A process can be killed, started again, stopped for a while and cut off, at any event. What runs in
 * it is the code of net/, remote/ and engine/.
 */
#ifndef MILLRACE_TESTS_SIM_NODES_NODES_H
#define MILLRACE_TESTS_SIM_NODES_NODES_H

#include <stdbool.h>
#include <stdint.h>

#include "net.h"
#include "remote.h"
#include "tests/sim/sim_disk.h"

#define NODES_MAX      5u
#define NODE_DRIVES    4u
#define NODE_LOOPS     2u
#define NODES_POOL     1u
#define LEADER_PARTY   100u
#define LEADER_PROCESS (NODES_MAX + 1u)

/* owner: the world */
struct sim_process {
        unsigned number; /* of sim.h */
        uint16_t party;  /* of net.h */
        unsigned host;
        bool runs;
        uint64_t boot;
        struct lp_loop *loops[NODE_LOOPS]; /* of its net */
        unsigned loop_count;
        struct net *net;
        struct rem_server *server;                /* NULL: the leader */
        struct rem_served *served[NODE_DRIVES];
        struct rem_client *client; /* NULL: a drive server */
};

struct sim_node {
        struct sim_process process; /* its drive server */
        bool off;
        struct sim_disk *disks[NODE_DRIVES];
        unsigned disk_count;
};

/* What the seed says of them. */
struct nodes_plan {
        unsigned nodes, drives_each, k, m;
        unsigned loops_each;     /* of a drive server's net, and of the leader's */
        bool shared_loops;       /* the leader's net runs on the loops of the store */
        bool plain_bulk;
        bool waits_for_streams;  /* a leader begins when nothing of the one before it is on its way any more: nothing fences it yet */
        unsigned silence_ms, handshake_ms;
        unsigned slots, peer_slots; /* of a loop */
        int ppm[NODES_MAX + 2];     /* by process */
        int64_t offset_ns[NODES_MAX + 2];
        uint64_t heal_rate;
        uint32_t inline_max;
};

extern struct nodes_plan nodes_plan;
extern bool nodes_unfenced; /* no leader waits for the streams of the one before */
extern struct sim_node sim_nodes[NODES_MAX];
extern struct sim_process sim_leader;

/* As nodes_plan says: disks, and nodes that run nothing yet. */
void nodes_make(void);
/* Formats the store on local drives, in a process of its own, which makes the first buckets. */
void nodes_format(void);
void node_start(struct sim_node *node);
/* Its process dies. power: what was not flushed may be gone; told: its connections end, or are reset. */
void node_kill(struct sim_node *node, bool power, bool told);
/* Begins to open the store. */
void leader_start(void);
/* After so long, and when nothing of the one before is on its way any more, unless one runs then. */
void leader_start_later(uint64_t ns);
/* told: its connections are reset. */
void leader_kill(bool told);
/* world.store serves. */
bool leader_serves(void);
/* One event. */
void nodes_step(void);
/* No process holds what it should have given back. */
void nodes_check_idle(void);

struct nodes_figures {
        uint64_t histories, server_kills, nodes_off, leader_kills, stopped, faults, leaders, unreachable, refused, begins, leaked, restarts, bounds;
};
extern struct nodes_figures nodes_figures;

#endif
