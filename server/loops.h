/*
 * loops.h - the event loops and their threads.
 */
#ifndef MILLRACE_SERVER_LOOPS_H
#define MILLRACE_SERVER_LOOPS_H

#include "loop.h"
#include "server/settings.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>

struct srv_loop_thread {
        struct lp_loop *loop;
        pthread_t thread;
        const struct srv_loop_thread *host; /* whose thread runs it; NULL: one of its own */
        sem_t left;         /* a guest has ended */
        _Atomic int result; /* 0, or why lp_loop_run() ended by itself */
};

/* owner: the main thread, but for result */
struct srv_loops {
        unsigned count;   /* that serve */
        unsigned hashers; /* behind them: for hashing alone */
        unsigned made;
        unsigned running; /* threads started */
        struct lp_loop **loops;
        struct srv_loop_thread *threads;
};

/* Whose loops: `memory` is all that a machine's processes have together. */
enum srv_part {
        SRV_PART_ALL,     /* a store of one machine */
        SRV_PART_GATEWAY, /* of a node: half of it */
        SRV_PART_LINKS,   /* of a node, for other nodes: 3/8 */
        SRV_PART_LEADER,  /* of a node that leads: 1/8, and no more than serves upkeep */
        SRV_PARTS
};

/*
 * Number of loops and of arena slots for each that the settings ask for. -EINVAL with a line:
 * memory is too little for that many.
 */
int srv_loops_plan(const struct srv_settings *settings, enum srv_part part, unsigned *count, unsigned *slots, struct srv_error *error);

/* How many of these a process takes that is one of so many alike: one at least. */
unsigned srv_loops_share(unsigned count, unsigned of);

/* Makes them; none runs yet. After an error srv_loops_free() is still to be called. */
int srv_loops_make(unsigned count, unsigned slots, struct srv_loops *out, struct srv_error *error);
/* The same for the network between nodes: no buffers but those for other nodes, and no hashers. */
int srv_loops_make_links(unsigned count, unsigned peer_slots, struct srv_loops *out, struct srv_error *error);
/* Starts a thread for each. Signals that the main thread waits for must be blocked by now. */
int srv_loops_start(struct srv_loops *loops, struct srv_error *error);
/*
 * The same, but those that serve are run by the threads of `hosts` (lp_loop_join()), which run, and are not stopped
 * before these; what is more than they are has threads of its own.
 */
int srv_loops_start_with(struct srv_loops *loops, const struct srv_loops *hosts, struct srv_error *error);
/* 0, or the error with which a loop ended that was not told to. Any thread. */
int srv_loops_failed(const struct srv_loops *loops);
/*
 * Ends and joins the threads. False: some of their I/O does not come back, so nothing that it was
 * given may be freed.
 */
bool srv_loops_stop(struct srv_loops *loops);
/*
 * After that: what the loops were doing comes to its end here (callbacks run on this thread), so
 * that its owners can be freed.
 */
void srv_loops_drain(struct srv_loops *loops);
void srv_loops_free(struct srv_loops *loops);

#endif
