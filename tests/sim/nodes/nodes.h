/*
 * nodes.h - nodes of a simulated cluster and their processes: on each a node process, which serves its drives and takes
 * part in elections, and now and then a leader process, which has the store.
 *
 * A process can be killed, started again, stopped for a while and cut off, at any event. What runs in it is the code of
 * net/, remote/, cluster/ and engine/; the part of server/node_process.c and server/lead.c is here.
 */
#ifndef MILLRACE_TESTS_SIM_NODES_NODES_H
#define MILLRACE_TESTS_SIM_NODES_NODES_H

#include <stdbool.h>
#include <stdint.h>

#include "cluster_leader.h"
#include "net.h"
#include "remote.h"
#include "remote_home.h"
#include "tests/sim/sim_clients.h"
#include "tests/sim/sim_disk.h"

#define NODES_MAX     5u
#define NODE_DRIVES   8u
#define NODE_LOOPS    2u
#define NODES_CLUSTER "sim"
#define ALL_PROCESSES (1 + 3 * NODES_MAX)

/* owner: the world */
struct sim_process {
        unsigned number; /* of sim.h */
        uint16_t party;  /* of net.h */
        unsigned host;
        bool runs, ends; /* ends: it has ended itself, and is taken away behind this event */
        uint64_t boot;
        struct lp_loop *loops[NODE_LOOPS]; /* of its net */
        unsigned loop_count;
        struct net *net;
        struct cl_etcd *etcd;
        struct rem_server *server; /* of a node process alone */
        const struct net_handler *handler; /* NULL: it does not listen */
        void *handler_arg;
        struct rem_client *client;
};

/* Of this node. */
struct sim_leader {
        struct sim_process process; /* first */
        struct sim_node *node;
        struct lp_loop *loops[LOOPS_MAX]; /* of its store; the first is the coordinator's */
        int64_t judged;                   /* the leader key's revision when it was started */
        bool whole_stop;
        uint64_t silent; /* slots, as its elector has said */
        struct cl_claim *claim;
        struct cl_leader *leader;
        struct eng_store *store; /* NULL: not opened yet */
        bool serves, releases;
        uint64_t mute; /* sim.now: when it last had no store or no lease */
        struct rem_home_server *homes; /* NULL: it has no store yet, or nobody has homes */
};

/*
 * The gateway of this node, without one: a home store, and what it is connected by. In the daemon it is a part of the
 * node process; here it is a process that begins, stops and dies with it.
 */
struct sim_home {
        struct sim_process process; /* first */
        struct sim_node *node;
        struct lp_loop *loops[LOOPS_MAX]; /* of its store */
        struct rem_home_link *link;
        uint8_t store_id[CL_ID];
        uint16_t leads;          /* party, as its node has read last */
        struct eng_store *store; /* NULL: not opened yet */
        bool serves;             /* it has served since it was opened */
        bool believes;           /* it might answer from its copies after the last event */
};

struct sim_node {
        struct sim_process process; /* first */
        bool off;
        struct sim_disk *disks[NODE_DRIVES];
        unsigned disk_count;
        struct sim_folder { /* of each disk, beside what is on it */
                bool made;      /* the folder's NODE says that it is, or was about to be, a drive of the pool */
                bool withdrawn; /* in this process: its slot is gone */
                bool works;     /* likewise: it is being formatted, or opened */
        } folders[NODE_DRIVES];
        struct rem_served *served[NODE_DRIVES]; /* NULL: it is none of the pool's, or was not opened */
        struct cl_directory *directory;
        struct cl_elector *elector;
        bool looks; /* the directory has been started */
        struct cl_seen seen; /* on its folders */
        uint64_t kept;       /* when that was written */
        int64_t leader_revision; /* as it was last read */
        unsigned failures;   /* leader processes in a row that never served */
        uint64_t rest_until; /* by its clock */
        struct sim_leader leader;
        struct sim_home home;
};

/* What the seed says of them. */
struct nodes_plan {
        unsigned nodes, drives_each, k, m;
        unsigned first_more;     /* drives that the first node has besides */
        unsigned bare_nodes;     /* the last so many have none */
        unsigned loops_each;     /* of a drive server's net, and of a leader's */
        bool shared_loops;       /* a leader's net runs on the loops of its store */
        bool plain_bulk;
        bool homes;              /* each node has a home store */
        bool loses;              /* the pool goes on without groups (nodes_lose.c) */
        bool grows;              /* an operator changes its drives (nodes_grow.c) */
        bool kills_old;          /* a node that reads that another leads ends its own leader process, as the daemon does */
        unsigned slots, peer_slots; /* of a loop */
        int ppm[NODES_MAX];         /* by host */
        int64_t offset_ns[NODES_MAX];
        uint64_t heal_rate;
        uint32_t inline_max;
        uint32_t home_rows_bytes;
};

extern struct nodes_plan nodes_plan;
extern struct sim_node sim_nodes[NODES_MAX];

/* As nodes_plan says: disks, and nodes that run nothing yet. */
void nodes_make(void);
/* Formats the store on local drives, in a process of its own, which makes the first buckets; then etcd has its epoch. */
void nodes_format(void);
void node_start(struct sim_node *node);
/* Its process dies, and its leader process. power: what was not flushed may be gone; told: connections end, or are reset. */
void node_kill(struct sim_node *node, bool power, bool told);
/* An empty folder, which it announces: its disk has the id that was drawn for it. NULL: there have been too many. */
struct sim_disk *node_new_folder(struct sim_node *node);
/* Begins to take the leader key, if this is its revision. */
void leader_start(struct sim_node *node, int64_t judged, bool whole_stop, uint64_t silent);
/* told: its connections are reset. */
void leader_kill(struct sim_leader *leader, bool told);
/* It hands over, and ends. False: it does not lead. */
bool leader_release(struct sim_leader *leader);
/* The one of the newest term that runs and has taken the key; NULL: none. */
struct sim_leader *newest_leader(void);
/* world.store serves: it is the newest's. */
bool leader_serves(void);
/* One event. */
void nodes_step(void);
/* Operations begin: what goes on beside them where there are homes, until the last life. */
void homes_start(void);
/* Each node's home store serves, and goes by what the leader has. */
bool homes_have_joined(void);
/* Prints what keeps them from that. */
void homes_tell(void);
/* No process holds what it should have given back. */
void nodes_check_idle(void);
/* The key that epochs are in. */
const char *nodes_config_key(void);

struct nodes_figures {
        uint64_t histories, server_kills, nodes_off, leader_kills, stopped, faults, leaders, served, ended, old, unreachable, refused, begins, leaked, restarts, bounds, moved,
                aimed, epochs, homes, in_epoch, lost, found, added, drained;
        uint64_t felt_member, felt_epoch, felt_leader, felt_moved, felt_process, felt_drive, felt_read; /* ns: the longest that was felt in histories with one fault */
};
extern struct nodes_figures nodes_figures;

#endif
