/*
 * pacer.h - how fast the store's upkeep goes: one for all that repairs, compares, copies and
 * collects orphans, whatever loop it runs on.
 *
 * Work is paid for in bytes. While clients use the store it goes at the rate that is set, at a
 * quarter of that while a client waits for buffers, and ENG_PACER_IDLE times as fast when no client
 * was seen for a while.
 *
 * First come, first served, across loops and without a queue: who takes a turn pays for it at once,
 * and so learns when it begins. Whoever comes later begins later, but for the few milliseconds that
 * work may be ahead of its rate.
 */
#ifndef MILLRACE_ENGINE_PACER_H
#define MILLRACE_ENGINE_PACER_H

#include <stdatomic.h>
#include <stdint.h>

struct eng_loop;
struct eng_store;

#define ENG_PACER_IDLE 8u
#define ENG_PACER_NAME 512u            /* bytes that a name stands for which is looked at on all its members */
#define ENG_PACER_ID   64u             /* and an object id that is asked for */
#define ENG_PACER_FULL_S (20u * 3600u) /* in which a drive is full again where no rate is set; the rest of a day is for times in which clients wait */

/* Any thread. */
struct eng_pacer {
        atomic_uint_fast64_t rate;     /* bytes/s, not 0 */
        atomic_uint_fast64_t due;      /* lp_now() at which all that was begun is paid for */
        atomic_uint_fast64_t busy;     /* lp_now() when a client was last seen at work */
        atomic_uint_fast64_t pressed;  /* or waiting */
};

/*
 * The rate where none is set: `drives` drives, that hold no more than `held` bytes each, are being
 * filled or emptied. At least ENG_HEAL_RATE.
 */
uint64_t eng_pacer_rate(uint64_t held, unsigned drives);
/* Bytes a second that are allowed now. */
uint64_t eng_pacer_rate_now(const struct eng_pacer *pacer, uint64_t now);
/* So much has been begun: a few gigabytes at most. */
void eng_pacer_spend(struct eng_pacer *pacer, uint64_t now, uint64_t bytes);
/*
 * Nanoseconds after which more may be begun; 0: now. To be asked once: who asks again after that
 * time would wait for all that came meanwhile.
 */
uint64_t eng_pacer_wait(const struct eng_pacer *pacer, uint64_t now);
/* owner: whoever takes it. Zeroed: none is taken */
struct eng_pacer_turn {
        uint64_t cost;                 /* in nanoseconds at the rate of that time */
};
/* Pays for so much and returns the nanoseconds after which it is to begin; 0: now. */
uint64_t eng_pacer_take(struct eng_pacer *pacer, struct eng_pacer_turn *turn, uint64_t now, uint64_t bytes);
/*
 * A turn that will not begin. Those that wait already begin as they were told; whoever comes next
 * begins sooner. Harmless when none is taken.
 */
void eng_pacer_give_back(struct eng_pacer *pacer, struct eng_pacer_turn *turn);
/*
 * How many things of so many bytes are worth a turn: what the rate allows in the time by which work
 * may be ahead, from 1 to most.
 */
unsigned eng_pacer_batch(const struct eng_pacer *pacer, uint64_t now, uint64_t bytes, unsigned most);
/*
 * What goes on beside the repairs at the same rate, and neither waits for them nor holds them up: a
 * large repair begins at once and is paid for afterwards, and names would wait behind many of
 * those. owner: one loop
 */
struct eng_pacer_share {
        uint64_t most;                 /* bytes/s; 0: what the pacer gives */
        uint64_t due;                  /* as above */
};
void eng_pacer_share_spend(const struct eng_pacer *pacer, struct eng_pacer_share *share, uint64_t now, uint64_t bytes);
uint64_t eng_pacer_share_wait(const struct eng_pacer_share *share, uint64_t now);
/* Looks at who is at work on this loop; on it. What the store does for itself does not count. */
void eng_pacer_look(struct eng_pacer *pacer, struct eng_loop *el);
/* All loops look, for store->pacer, soon: for who works on one loop alone. Coordinator. */
void eng_pacer_look_everywhere(struct eng_store *store);

#endif
