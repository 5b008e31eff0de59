/*
 * nodes_world.h - one history of several nodes: a store over remote drives that is used, disturbed,
 * healed, and looked at closely in the end.
 */
#ifndef MILLRACE_TESTS_SIM_NODES_WORLD_H
#define MILLRACE_TESTS_SIM_NODES_WORLD_H

#include <stdbool.h>
#include <stdint.h>

/* Runs the history of a seed from the beginning to the end; returns only if it holds. */
void nodes_run(uint64_t seed, bool trace);

/* ---- faults (nodes_faults.c) ----------------------------------------------------------------- */

/* What a seed draws: in some histories, as it says, in all or in none. */
enum { NODES_SOME, NODES_ALL, NODES_NONE };
extern int nodes_homes; /* home stores */
extern int nodes_loses; /* groups are lost (nodes_lose.c) */
extern int nodes_bounds; /* one fault, and bounds for how long it is felt */
extern int nodes_moves; /* of those with homes: the lead moves under those who read, and nothing else goes wrong */

void lose_plan(bool none); /* behind the store's */
void lose_start(void); /* nodes fall away from now on */
bool lose_over(void);  /* they have all come back */
void lose_heal(void);  /* no more of it */
void lose_watch(void); /* behind each event */
void lose_aimed(void); /* some nodes fall away now, if all are there */

extern int nodes_grows; /* an operator adds drives and nodes, and drains them (nodes_grow.c) */
void grow_plan(bool none); /* behind lose_plan(), before the machines' */
void grow_start(void);
bool grow_over(void); /* all that was planned is done */
void grow_heal(void); /* no more is begun */

void faults_plan(bool none); /* what the seed has in store; none in every fifth history */
bool faults_planned(void);
void faults_start(void); /* they come from now on, in virtual time */
void faults_step(void);  /* behind each event */
bool faults_failed_drives(void); /* some have failed */
bool faults_over(void);  /* all that were planned have begun */
/* Everything runs again, and nothing is cut any more. False: drives have failed, which only a new process opens again. */
bool faults_heal(void);
uint64_t faults_oust(void); /* for so long; 0: nobody leads */
bool faults_block_home(uint64_t ns); /* a loop of some home store; false: there is none */
struct sim_node;
void faults_host_off(struct sim_node *node); /* power */
void faults_host_on(struct sim_node *node);
void faults_kill_node(struct sim_node *node); /* its process; it comes back */

#endif
