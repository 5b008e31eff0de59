/*
 * sim_etcd.h - an etcd for simulated processes: cluster_etcd.h over virtual time.
 *
 * Each request takes its time there and back. etcd is down for all now and then, or cannot be reached from a
 * host; a change is then carried out without an answer, later, or never, and who asked is told that the outcome is
 * unknown. It is restored from a backup, under another cluster id, and put right again.
 */
#ifndef MILLRACE_TESTS_SIM_NODES_SIM_ETCD_H
#define MILLRACE_TESTS_SIM_NODES_SIM_ETCD_H

#include <stdbool.h>
#include <stdint.h>

#include "cluster_etcd.h"
#include "tests/sim/sim.h"

#define SIM_ETCD_ID 1u /* its cluster id, until it is restored */
void sim_etcd_begin(void); /* a new history: there is no key */
void sim_etcd_put(const char *key, const void *value, size_t len);
/* The running process's, until it dies. seen: what its folders say (R2). */
struct cl_etcd *sim_etcd_client(unsigned host, const struct cl_seen *seen);
void sim_etcd_killed(unsigned process);

/* ---- faults ---------------------------------------------------------------------------------- */

void sim_etcd_down(uint64_t ns);                 /* for all */
void sim_etcd_cut(unsigned host, uint64_t ns);   /* for one host */
void sim_etcd_lossy(uint64_t ns);                /* one request in three is lost, or its answer is */
void sim_etcd_keep(void);                        /* a backup, in place of the one before */
bool sim_etcd_restore(void);                     /* etcd is what it was then; false: there is no backup, or it is restored already */
bool sim_etcd_right(void);                       /* and this is undone; false: it was not */
void sim_etcd_heal(void);                        /* all is well from now on, but that it is not put right */
/*
 * Once, at the next step of a change of this key: a request for it is on its way, was carried out, or its
 * answer has come. NULL: no more.
 */
void sim_etcd_expect(const char *key, void (*step)(void));

struct sim_etcd_figures {
        uint64_t requests, changes, refused, unknown, late, restored;
};
extern struct sim_etcd_figures sim_etcd_figures;

#endif
