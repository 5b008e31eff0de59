/*
 * sim.h - the simulator's world: one thread, virtual time, a queue of events, and randomness from
 * one seed.
 *
 * Everything that happens in a history is an event; which one is next depends on nothing but the
 * seed. The engine's own code runs inside the events and meets the world only through loop.h
 * (sim_loop.c) and engine/drive/drive.h (sim_drive.c).
 */
#ifndef MILLRACE_TESTS_SIM_H
#define MILLRACE_TESTS_SIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "loop.h"

#define SIM_US 1000ull
#define SIM_MS 1000000ull
#define SIM_S  1000000000ull

/*
 * Each purpose draws from a stream of its own, so that a change of one does not shift all others.
 */
enum sim_stream {
        SIM_SCHEDULE, SIM_DRIVES, SIM_FAULTS, SIM_CLIENTS, SIM_ENGINE, SIM_PLAN, SIM_OPERATOR, SIM_ROLLBACK, SIM_TROUBLE,
        SIM_SCRUB, SIM_PAGES, SIM_INLINE, SIM_FORGET, SIM_HEAL, SIM_LOSS,
        SIM_VERSIONS, SIM_LOCKS, SIM_SITES, SIM_CUTS, SIM_TERMS, SIM_NET, SIM_NODES, SIM_HOMES, SIM_LOST, SIM_STREAMS
};

struct sim {
        uint64_t seed, now;
        uint64_t digest; /* of everything that happened */
        uint64_t events;
        bool trace;
        struct lp_loop *self; /* the loop whose event runs, or NULL */
        unsigned process;     /* whose event runs; 0: the world's, and the only one of most simulators */
        uint64_t streams[SIM_STREAMS];
        bool slow_loops; /* loops stall now and then */
        uint64_t points; /* sim_sweep_point() */
};
extern struct sim sim;

extern const char *sim_program; /* whose histories these are: named with a seed that failed */

void sim_begin(uint64_t seed, bool trace);

/* ---- sweeps: the same history again and again, and one thing that may fail does, each time another ---- */

#define SIM_SWEEP_COUNT UINT64_MAX
extern uint64_t
        sim_sweep_at; /* which of them, from 1 on; SIM_SWEEP_COUNT: none, they are counted; 0: this is no sweep */
/* One of them: counts it; true: it fails. */
bool sim_sweep_point(void);

/* ---- randomness ------------------------------------------------------------------------------ */

uint64_t sim_mix(uint64_t x);
uint64_t sim_random(enum sim_stream stream);
uint64_t sim_below(enum sim_stream stream, uint64_t n); /* 0..n-1; n > 0 */
bool sim_chance(enum sim_stream stream, unsigned of);   /* true once in so many; 0: never */
/* Between lo and hi, small ones much more often. */
uint64_t sim_skewed(enum sim_stream stream, uint64_t lo, uint64_t hi);

/* ---- events ---------------------------------------------------------------------------------- */

/* Runs fn(arg) on self (may be NULL) after delay ns. The handle cancels it, until it has run. */
uint32_t sim_at(uint64_t delay, struct lp_loop *self, void (*fn)(void *arg), void *arg);
void sim_cancel(uint32_t handle);
bool sim_step(void);         /* runs the next event; false: there is none */
void sim_events_clear(void); /* the process is gone */
/*
 * The event that runs is over here: what its process would have done next, it never does. Returns where no event runs.
 * Not on a stack of its own (fiber.h).
 */
void sim_abandon(void);
/*
 * The loop does nothing for so long: what was to happen on it happens then, in the same order. One
 * at a time.
 */
void sim_block(struct lp_loop *self, uint64_t ns);

/* ---- processes ------------------------------------------------------------------------------- */

/*
 * Several processes in one history: each event belongs to the one that asked for it. Process 0 is the
 * world itself, whose clock is right.
 */
#define SIM_PROCESSES 16u

/* What is asked for from now on, but on a loop, is this one's. Returns the one before. */
unsigned sim_enter(unsigned process);
/* Its clock is ahead by offset ns, and gains ppm us a second. */
void sim_clock_set(unsigned process, int64_t offset_ns, int ppm);
uint64_t sim_clock(unsigned process);            /* what it shows now */
uint64_t sim_span(unsigned process, uint64_t ns); /* when ns have passed by its clock, so many have */
/* It is dead: nothing that it asked for happens. */
void sim_process_clear(unsigned process);
/* It does nothing for so long (SIGSTOP); what was to happen happens then. 0: it goes on now. */
void sim_process_stop(unsigned process, uint64_t ns);
/* Nothing happens on this loop any more. */
void sim_events_drop(const struct lp_loop *self);

/* ---- what happened --------------------------------------------------------------------------- */

/* Folds into the digest. */
void sim_note(uint64_t what, uint64_t a, uint64_t b);
void sim_trace(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* The history has failed: says so, with its seed, and ends the process. */
void sim_fail(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));
#define SIM_FAILED 3 /* its exit status */

/* ---- loops (sim_loop.c) ---------------------------------------------------------------------- */

/* Forgets all loops, as a crash does. */
void sim_loops_clear(void);
/* Those of one process. */
void sim_loops_clear_of(unsigned process);
unsigned sim_loop_process(const struct lp_loop *loop);
/* Slots drawn and not given back. */
unsigned sim_slots_out(const struct lp_loop *loop);

#endif
