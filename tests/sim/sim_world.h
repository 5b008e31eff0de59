/*
 * sim_world.h - one history: a store that is opened, used, spoilt and ended again and again, and
 * looked at closely in the end.
 */
#ifndef MILLRACE_TESTS_SIM_WORLD_H
#define MILLRACE_TESTS_SIM_WORLD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct world_figures {
        uint64_t histories, lives, faults, leaked_frames, settled;
};
extern struct world_figures world_figures;

/*
 * Whether this drive is asked what is in the group, and others are: nobody can tell if it alone
 * errs.
 */
bool world_others_speak(unsigned slot, uint32_t pg);

/*
 * Runs the history of a seed from the beginning to the end; returns only if it holds. Its digest is
 * in sim.digest.
 */
void world_run(uint64_t seed, bool trace);

/* ---- checks of an idle store (sim_check.c) --------------------------------------------------- */

/* All members of a group hold the same names. */
void check_replicas(void);
/*
 * Every shard that a record names is where it says and is what it should be; rotten: but on this
 * disk (-1: none).
 */
void check_shards(int rotten);
/*
 * Whether every shard that a record names is there, and durable, just now; those of stripes beyond
 * repair are not looked for.
 */
bool shards_whole(void);
/* Each value once. */
struct sim_name;
void check_values(void (*look)(const struct sim_name *entry, void *arg), void *arg);
/*
 * Objects with stripes that are beyond repair, each of which was made to be so; shards of any
 * objects that are gone.
 */
struct lost_count {
        void (*found)(const uint8_t *name, size_t len); /* NULL: they are counted only */
        uint64_t objects, shards;
};
void check_lost(struct lost_count *count);
/* Frames that no record names. */
uint64_t check_leaks(void);
/* All drives are in, nothing lacks shards, and nothing is being repaired. */
bool check_healed(void);
/* And nothing is left of a change of the drives: what took another's place has all that it should. */
bool check_at_rest(void);
void check_tell_rest(void); /* prints what keeps it from that */
/* Nothing is held that should have been given back: slots, locks, pins, changes in flight. */
void check_idle(void);

#endif
