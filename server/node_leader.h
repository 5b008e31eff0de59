/*
 * node_leader.h - a leader process of a node, which has one for each pool that it leads, and how the two talk.
 *
 * The node process starts it as a program of its own, with --lead and what that says: the number of the node, the pool, the leader key that was
 * judged, whether all nodes were stopped, what the node has seen of etcd, and the descriptor of a socket pair to the node process. Its settings are those that the node process has: a file that was edited since does not
 * count. Over the pair it says one byte for each step; when the node process closes it, or
 * dies, the leader process ends at once. One that is prepared (docs/design/hand-over.md) does all that needs no right, and
 * takes the leader key when it is told to over the pair.
 *
 * owner: the main thread of each.
 */
#ifndef MILLRACE_SERVER_NODE_LEADER_H
#define MILLRACE_SERVER_NODE_LEADER_H

#include <sys/types.h>

#include "cluster_etcd.h"
#include "server/listeners.h"
#include "server/settings.h"

/* What a leader process has said. */
#define SRV_LEADER_WAITS   'P' /* it is prepared, and waits to be told to lead */
#define SRV_LEADER_LISTENS 'L' /* nodes may ask it from now on */
#define SRV_LEADER_SERVES  'S'
#define SRV_LEADER_WHOLE   'W' /* nothing of the pool is being repaired, moved or filled ... */
#define SRV_LEADER_LACKS   'D' /* ... or something is, again */

struct srv_lead_spec {
        unsigned node;
        unsigned pool;
        unsigned pools; /* of the cluster */
        unsigned leads; /* so many pools a node leads while all nodes serve: the process takes so much less for itself */
        int64_t leader_revision;
        bool prepared;   /* it does not take the key before srv_node_leader_go() */
        bool whole_stop; /* see struct cl_leader_options */
        uint64_t silent; /* likewise */
        struct cl_seen seen;
        int pair;
};
/* What a prepared one is told over the pair: the leader key that was judged, and which slots are silent, as in its spec. */
struct srv_lead_go {
        int64_t leader_revision;
        uint64_t silent;
};
/* Of the setting `lead`. -EINVAL. */
int srv_lead_parse(const char *text, struct srv_lead_spec *out);

/* ---- in the node process --------------------------------------------------------------------- */

struct srv_node_leader {
        pid_t pid; /* 0: none runs */
        bool killed; /* the kernel has not let go of it yet: nothing that it has said counts any more */
        int pair;  /* -1: none */
        unsigned pool, pools; /* as it was started */
        bool listens, serves, whole;
        bool idle;    /* it was started as one that waits, and has not been told to lead */
        bool waits;   /* it has said that it is ready to */
        uint64_t ends_by;        /* lp_clock(): it is killed then; 0: it was not told to end */
        int64_t leader_revision; /* that it was started with */
        unsigned failures;       /* how many, one after the other, ended before they served */
        uint64_t rest_until;     /* lp_clock() */
};

void srv_node_leader_init(struct srv_node_leader *leader, unsigned pool);
/* Starts one. program: argv[0] of this process. Negative errno. */
int srv_node_leader_start(struct srv_node_leader *leader, const char *program, const struct srv_settings *settings, const struct srv_lead_spec *spec);
/* One that is idle leads from now on, as if it had been started with this. */
void srv_node_leader_go(struct srv_node_leader *leader, const struct srv_lead_go *go);
/* What it has said since, and whether it has ended: then it is reaped, and pid is 0. One whose time to end is over is killed. */
void srv_node_leader_look(struct srv_node_leader *leader);
/* Asks it to hand over and end, or to read its files again. */
void srv_node_leader_signal(struct srv_node_leader *leader, int signo);
/* Asks it to hand over and end within so long. Asked again it has no more time. */
void srv_node_leader_end(struct srv_node_leader *leader, uint64_t ms);
/*
 * Kills it, and waits a moment for its end. One that the kernel holds up keeps pid, is killed, and is reaped by a later look; until
 * then no other one may be started.
 */
void srv_node_leader_kill(struct srv_node_leader *leader, const char *why);

#endif
