/*
 * cluster_leader.h - the leader of a pool: how it takes the leader key, how its store's epochs get into etcd, and how
 * long it may answer (docs/design/leaders.md).
 *
 *   cl_claim    boot number, leader key, what etcd has then    -> a term
 *   cl_leader   pings, lease, epochs                           -> struct eng_cluster of the store
 *
 * All on one loop, that of the store's coordinator, but where it says any thread. Both take time from the loop and
 * from `clock_ns`, and chance from lp_random(), so a simulator runs this very code.
 */
#ifndef MILLRACE_CLUSTER_LEADER_H
#define MILLRACE_CLUSTER_LEADER_H

#include "cluster_keys.h"
#include "cluster_etcd.h"
#include "cluster_node.h"
#include "engine.h"
#include "engine_term.h"
#include "remote.h"

#define CL_PINGS         6u /* in the time of a lease; after four without an answer the store goes on without the node's slots */
#define CL_ANSWERS_NS    (1000ull * 1000 * 1000)        /* etcd answers, if it did so long ago at most: it is asked with each ping */
#define CL_START_MOST_NS (60ull * 1000 * 1000 * 1000) /* that it may take in all */
#define CL_START_NS      (15ull * 1000 * 1000 * 1000) /* that a start may wait for drives */
#define CL_UNDECIDED_NS  (30ull * 1000 * 1000 * 1000) /* that a proposal may be unknown */
#define CL_LEADER_NODES  64u

/* ---- taking the leader key ------------------------------------------------------------------- */

/* Zero it, fill in the first part. All it points to stays as it is until done(). */
struct cl_claim {
        struct cl_etcd *etcd;
        const char *cluster; /* its name */
        unsigned pool;       /* 1 to CL_POOL_LAST */
        uint16_t node;
        uint64_t boot_taken;     /* a boot number of the node's that was taken for this; 0: one is taken */
        int64_t leader_revision; /* of the leader key when it was judged that there is no leader; 0: there was no key */
        void (*done)(struct cl_claim *claim);
        void *arg;

        /*
         * The answer. 0: this process leads; -EEXIST: somebody else does, or may; -EAGAIN: etcd does not
         * answer; -ENOSPC: its database is full; -EBADMSG: what etcd has makes no sense; -EOVERFLOW: the node has no boot
         * number left
         */
        int rv;
        char text[CL_TEXT_MAX];
        struct eng_term term;
        struct cl_format format;
        struct cl_config config;
        int64_t config_revision;

        /* private */
        struct cl_boot_take boot;
        struct cl_request request;
        struct cl_cas cas;
        struct cl_compare compare;
        struct cl_op ops[2];
        char keys[3][CL_KEY_NAME_MAX];
        char value[CL_JSON_MAX];
        size_t value_len;
};
void cl_claim_start(struct cl_claim *claim);

/* ---- leading --------------------------------------------------------------------------------- */

struct cl_leader;
struct cl_leader_options {
        struct cl_etcd *etcd;
        const char *cluster;
        unsigned pool;
        const struct cl_claim *claim; /* that was won; copied */
        struct rem_client *client;    /* of the claim's term */
        unsigned term_ms;             /* T; 0: REM_TERM_MS */
        bool whole_stop;              /* all nodes of the pool were stopped: they may be on their way, and the start waits for them */
        bool may_lose;                /* of struct eng_cluster */
        uint64_t silent;              /* slots whose nodes were silent before this process began (cl_elector): one unanswered ping will do */
        /* This process does not lead any more: it is to end at once. Called once; then nothing is done any more. */
        void (*ended)(void *arg, const char *why);
        void *arg;
        /* What an operator must know while it goes on: an epoch waits for room in etcd. NULL: nobody does. */
        void (*says)(void *arg, const char *text);
        uint64_t (*clock_ns)(void); /* that of struct eng_cluster and of the client; NULL: CLOCK_BOOTTIME */
};
/* -ENOMEM. */
int cl_leader_new(const struct cl_leader_options *options, struct cl_leader **out);
/* For eng_options.cluster: lives as long as the leader, which outlives the store. */
const struct eng_cluster *cl_leader_cluster(const struct cl_leader *leader);
/* On the loop of the store's coordinator, once: the store was opened with it. Pings begin. */
void cl_leader_start(struct cl_leader *leader, struct eng_store *store);
/*
 * Hands over: nothing is answered any more, and grants are given back; done() when all nodes have said so, or a
 * second later. Then the process ends.
 */
void cl_leader_release(struct cl_leader *leader, void (*done)(void *arg), void *arg);
/*
 * For who takes the process apart instead of ending it (tests, a simulator). On the coordinator's loop, once, while it
 * runs: nothing more is asked, and stopped() is called there when all that was asked was answered. Then the store
 * is closed, and the leader freed, by any thread.
 */
void cl_leader_stop(struct cl_leader *leader, void (*stopped)(void *arg), void *arg);
void cl_leader_free(struct cl_leader *leader); /* NULL is allowed */

#endif
