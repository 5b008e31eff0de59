/*
 * ghost_table.h - what was read from a drive not long ago, so that only what is read again takes
 * room in the page cache.
 *
 * A mark is 32 bits of a hash in a set of eight, the last one first: the oldest of its set gives
 * way. There are as many marks as what they stand for fills memory, so that what has lost its mark
 * is hardly in memory any more either. A mark found by mistake (two in 10^9) does no harm: it says
 * how to read, not what.
 */
#ifndef MILLRACE_ENGINE_DRIVE_GHOSTS_H
#define MILLRACE_ENGINE_DRIVE_GHOSTS_H

#include <stdbool.h>
#include <stdint.h>

#define ENG_GHOSTS_SET 8u

/* All zero but for memory_each and most is a set without marks. owner: the loop */
struct eng_ghosts {
        uint64_t memory_each; /* bytes of memory for which there is one mark */
        unsigned most;        /* marks, however much memory there is */
        unsigned sets;        /* 0: nothing was marked yet */
        uint32_t (*at)[ENG_GHOSTS_SET];
};

/*
 * Whether (file, position) was marked; it is afterwards, unless there is no memory for marks. file:
 * any number that means one file.
 */
bool eng_ghosts_touch(struct eng_ghosts *ghosts, uint64_t file, uint64_t position);
/* As never marked. */
void eng_ghosts_clear(struct eng_ghosts *ghosts);

#endif
