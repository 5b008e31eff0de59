/*
 * election.h - whether a node tries to lead a pool now: a judgement over what it has read and was told,
 * without a clock or a network (docs/design/leaders.md, "Who tries, and when"). Safety does not depend
 * on it: anybody may try at any time, and a grant that runs keeps a successor waiting. It keeps nodes
 * from deposing a leader that works.
 */
#ifndef MILLRACE_CLUSTER_ELECTION_H
#define MILLRACE_CLUSTER_ELECTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine.h"

#define CL_SILENCE_NS  (2ull * 1000 * 1000 * 1000)  /* nothing was heard of the leader for so long */
#define CL_STANDING_NS (10ull * 1000 * 1000 * 1000) /* ... for so long: then fewer will do ... */
#define CL_STAGGER_NS  (5ull * 1000 * 1000 * 1000)  /* ... after at most so much more, each node another time */
#define CL_PATIENCE_NS (60ull * 1000 * 1000 * 1000) /* and for so long: then groups may be lost (docs/design/lost-groups.md) */
#define CL_REST_NS     (1000ull * 1000 * 1000)      /* after a leader process that never served; doubles ... */
#define CL_REST_MOST   (60ull * 1000 * 1000 * 1000) /* ... up to this */
#define CL_NODES_MAX   64u                          /* that have slots of one pool */
#define CL_TURN_NS     (200ull * 1000 * 1000)       /* that a node waits for each one that goes before it ... */
#define CL_TURN_FIRST  (1000ull * 1000 * 1000)      /* ... where nobody has heard of any leader yet: all have just begun ... */
#define CL_TURN_NODES  5u                           /* ... of so many at most */
#define CL_PREPARED_NS (500ull * 1000 * 1000)       /* that others wait for a node which has a process waiting to lead */

/* What the drive server of a node has said of the pool, after the leader key was read. */
struct cl_witness {
        uint16_t node;
        bool answered;
        uint64_t slots;    /* that it serves, with the drives that the epoch names; a bit each */
        bool heard;        /* anything came of some leader since its process began */
        uint64_t heard_ns; /* since anything came of the newest term's leader, or since its process began */
        bool released;     /* that leader has given its grant back */
        uint64_t newest;   /* the revision of that term */
        bool may_lead;     /* it reaches etcd, or has not been asked for long enough to know */
        bool prepared;     /* it has a process that waits to lead the pool (docs/design/hand-over.md) */
};

struct cl_election {
        uint16_t node;      /* this one */
        bool led;           /* the leader key is there, */
        uint64_t owner;     /* ... and has this revision: that of its owner's term */
        uint64_t unchanged; /* ns for which this node has seen the key as it is now */
        const void *epoch;  /* body that etcd has */
        size_t epoch_len;
        const struct cl_witness *witnesses; /* of all nodes that have slots of it, this one among them */
        unsigned count;                     /* at most CL_NODES_MAX */
        uint64_t stagger; /* random, up to CL_STAGGER_NS: the same for all looks of one key */
};

enum cl_election_verdict {
        CL_TRY,
        CL_NO_SLOT,  /* the pool has no slot on this node */
        CL_HEARD,    /* somebody has heard of the leader */
        CL_TOO_FEW,  /* no more than half of the slots that are in answer; after a while fewer will do */
        CL_NO_COPY,  /* some placement group has no current member among those that answer; after a while more than half of all slots will do */
        CL_NO_MEMORY,
        CL_TURN,     /* others go first. Not of cl_election_judge() */
        CL_BAD_EPOCH /* what etcd has is no epoch */
};

enum cl_election_verdict cl_election_judge(const struct cl_election *e);
/*
 * How many nodes that may lead go before this one, so that the pools of a cluster are led by all of its nodes: each pool has
 * its own order of the nodes that have slots of it (docs/design/pool-leaders.md).
 */
unsigned cl_election_before(const struct cl_election *e, unsigned pool);
/* Ns that this node waits for so many. heard: some node has heard of a leader since it began. */
uint64_t cl_election_turn(unsigned before, bool heard);
/*
 * Ns that this node waits before it tries, with so many before it: one that is prepared does not wait, and others give it a
 * head start.
 */
uint64_t cl_election_wait(const struct cl_election *e, unsigned before, bool heard);
/* Nodes that have slots of a pool, in the order in which they go; at most ENG_DRIVES_MAX. Returns how many; 0: it is no epoch. */
unsigned cl_election_order(const void *epoch, size_t len, unsigned pool, uint16_t out[ENG_DRIVES_MAX]);
/* In words, for logs. */
const char *cl_election_text(enum cl_election_verdict verdict);
/* How long a node rests whose leader process has ended `times` times, one after the other, before it served. */
uint64_t cl_election_rest(unsigned times);

#endif
