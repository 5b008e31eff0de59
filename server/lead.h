/*
 * lead.h - a leader process: what the daemon is given in place of drives of its own. It takes the pool's leader
 * key, reaches the drives of all nodes, and ends by _exit() at the first sign that it is deposed
 * (docs/design/leaders.md).
 *
 * owner: the main thread.
 */
#ifndef MILLRACE_SERVER_LEAD_H
#define MILLRACE_SERVER_LEAD_H

#include <semaphore.h>

#include "cluster_leader.h"
#include "remote_home.h"
#include "server/cluster_link.h"
#include "server/node_leader.h"

struct srv_admin;

struct srv_lead {
        struct srv_lead_spec spec;
        struct srv_lead_go go; /* by which it claims: of the watching thread until `told` */
        sem_t told;
        struct srv_link link;
        struct cl_boot_take boot;
        struct cl_format format; /* that its connections were made by */
        struct cl_claim claim;
        struct cl_leader *leader;
        struct rem_home_server *_Atomic homes; /* NULL: not yet */
        struct srv_admin *_Atomic admin;       /* likewise */
        struct lp_loop *coordinator; /* of the store */
        bool serves_told, whole_told;
};

/*
 * As --lead says. What needs no leader key: it reaches etcd, has a boot number, and may be connected to other nodes. NULL, where
 * there is no --lead. Negative errno, with a line.
 */
int srv_lead_open(const struct srv_settings *settings, struct srv_lead **out, struct srv_error *error);
/*
 * Blocks until the leader key is this process's: at once, or, if it was started as one that waits, when the node process has
 * told it to. Negative errno, with a line.
 */
int srv_lead_claim(struct srv_lead *lead, struct srv_error *error);
/* What the store is opened with. */
void srv_lead_options(struct srv_lead *lead, struct eng_options *options);
/* The store is open, and not started: other processes may be homes of it. -ENOMEM, with a line. */
int srv_lead_homes(struct srv_lead *lead, struct eng_store *store, struct lp_loop *coordinator, struct srv_error *error);
/* rem_home_server_read_only(), rem_home_server_changing(). Any thread. */
void srv_lead_read_only(struct srv_lead *lead, uint64_t generation);
unsigned srv_lead_changing(struct srv_lead *lead);
/* Who answers what nodes are asked of the pool. */
void srv_lead_admin(struct srv_lead *lead, struct srv_admin *admin);
/* Gateways that are in a session with it. Any thread. */
unsigned srv_lead_sessions(void *lead);
/* The store's loops run. */
void srv_lead_start(struct srv_lead *lead, struct eng_store *store, struct lp_loop *coordinator);
/* Now and then: other nodes, and what loops have to say; what the node process is to know of the store's health. */
void srv_lead_keep(struct srv_lead *lead, const struct eng_health *health);
/* It leads the first pool, whose leader sets the cluster's switches. */
bool srv_lead_is_first(const struct srv_lead *lead);
/* What etcd says of them: into `out`. False: nothing was read, or there is no memory now. */
bool srv_lead_switches(struct srv_lead *lead, char out[CL_SWITCHES_MAX]);
/* SIGHUP: what other nodes compare is read again. Main thread. */
void srv_lead_reload(struct srv_lead *lead);
/* Hands over, and ends the process: nothing of a leader is taken apart. status: of the process. */
_Noreturn void srv_lead_leave(struct srv_lead *lead, int status);

#endif
