/*
 * nodes_process.h - what processes of all kinds have in common (private to nodes.c and nodes_home.c).
 */
#ifndef MILLRACE_TESTS_SIM_NODES_NODES_PROCESS_H
#define MILLRACE_TESTS_SIM_NODES_NODES_PROCESS_H

#include "tests/sim/nodes/nodes.h"

/* Its part of net/, on these loops; it listens if it has a handler. */
void process_connects(struct sim_process *p, struct lp_loop *const *loops, unsigned loop_count);
/* Loops of its own for net/. */
void process_loops(struct sim_process *p, unsigned peer_slots);
/* It is gone. What it had in memory stays as it is: nobody has a pointer to it any more. */
void process_end(struct sim_process *p, bool told);
/* Loops of a store, and what every store is opened with. */
void store_loops(struct lp_loop **loops);
struct eng_options store_options(struct lp_loop *const *loops);

/* ---- home stores (nodes_home.c) -------------------------------------------------------------- */

void home_make(struct sim_node *node);
/* The node has read who leads: the first time, its home begins. */
void home_looked(struct sim_node *node, const struct cl_view *view);
/* It dies with its node process. */
void home_kill(struct sim_home *home, bool told);
/* Behind each event: those that serve now have clients. */
void homes_watch(void);
void homes_check_idle(void);
/* For struct world: no home that believes its copies says otherwise. */
void homes_told_of_bucket(struct eng_str name, bool there);
/* The leader's side: before its store is started. */
void leader_has_homes(struct sim_leader *l);
extern const struct net_handler leader_handler;

#endif
