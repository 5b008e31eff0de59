/*
 * batches.h - the main program of a simulator: runs the histories of a range of seeds, a batch of
 * them in each child process, adds up what they count, and says of each that failed how to run it
 * again.
 *
 *   PROGRAM --seeds A[-B] [--seconds S] [--trace] [--verbose] [--twice] [an option of the program's own]
 *   PROGRAM --sweep A[-B] [--runs N] [--at I] [...]
 *
 * --seconds begins no batch after so long; --twice runs each seed again, and fails where the second
 * run goes another way. --sweep runs a seed once and counts what may fail in it, then again for
 * each, and that one fails: all of them with --runs 0, else every so manieth, at most N (200); with
 * --at that one alone. The last line counts crash and fault points: what the histories of --seeds
 * met of them, or the runs of a sweep, one each. Exits 1 if a history failed, 2 for what it cannot
 * do.
 */
#ifndef MILLRACE_TESTS_SIM_BATCHES_H
#define MILLRACE_TESTS_SIM_BATCHES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Counters that each child goes on from and leaves to the next; one that fails leaves nothing. */
struct batches_figures {
        void *at;
        size_t size;
};

struct batches {
        unsigned size; /* seeds of a child: what a process that is simulated away leaves behind is freed with it */
        void (*history)(uint64_t seed, bool trace);
        struct batches_figures figures[8]; /* up to the first without a place */
        const char *points;                /* what a sweep fails, in the plural */
        void (*report)(uint64_t events);   /* the figures, on lines that begin with two spaces */
        uint64_t (*spoilt)(void);          /* of these figures, how often something crashed, or was made to fail */
        const char *options;               /* of its own, for the usage message; NULL: none */
        bool (*option)(const char *arg);   /* takes one of them; false: unknown */
};

/*
 * What main returns. Histories run under sim.h's rules: sim_program names the program, sim.digest
 * and sim.events are of the last one.
 */
int batches_main(int argc, char **argv, const struct batches *batches);

#endif
