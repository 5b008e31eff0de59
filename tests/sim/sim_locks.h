/*
 * sim_locks.h - the wall clock of a store with locks, which goes wrong now and then, and the judge of
 * the clock by which retention ends (docs/design/bucket-rules.md, L1 to L7).
 */
#ifndef MILLRACE_TESTS_SIM_LOCKS_H
#define MILLRACE_TESTS_SIM_LOCKS_H

#include <stdbool.h>
#include <stdint.h>

#include "engine.h"

struct lock_figures {
        uint64_t buckets, set_wrong, frozen, confirmed, retained, refused, days_off;
};
extern struct lock_figures lock_figures;

void locks_plan(bool locks); /* a new history; locks: it has a bucket with object lock, or will have */
/* What the store is opened with. */
int64_t locks_wall_ms(void);
uint64_t locks_clock_ns(void);
/* Between two processes: the machine has restarted, was off for a while, or its wall clock was set. */
void locks_between(bool power_cut);
/* While a process runs: now and then the wall clock is set. */
void locks_life(void);
/* There is a bucket with lock for certain: from now on the clock is judged. */
void locks_in_use(void);
/* What the lock clock shows, or showed last in a process that ends; 0: it is not to be known yet. */
int64_t locks_now(void);
/* After each event: it must be as the rules say. */
void locks_watch(void);

/* An operator who looks at the clock sets it right now and then, and confirms it; false: not now. */
bool locks_confirm(eng_done done, void *arg);
void locks_confirmed(int rv);
/* Nothing goes wrong any more: the next confirmation is of the right time, and that must hold from then on. */
void locks_last(void);

#endif
