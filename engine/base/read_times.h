/*
 * read_times.h - how long reads of shards take on each drive, as one loop sees it; what follows for reads to
 * come: from when on one is late, and which drives are slow. A state machine over values: times are given.
 *
 * Late is what takes longer than 99 of 100 reads of the drive in the middle, and at least 20 ms: so one slow
 * drive, or a few, do not make it normal. Extra reads, for late ones, are at most one in 20.
 */
#ifndef MILLRACE_ENGINE_READ_TIMES_H
#define MILLRACE_ENGINE_READ_TIMES_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/format.h"
#include "engine/placement/place.h"
#include "loop_times.h"

#define ENG_LATE_LEAST_NS  (20ull * 1000 * 1000)
#define ENG_EXTRA_SHARE    20u /* one extra read for so many others ... */
#define ENG_EXTRA_AT_ONCE  64u /* ... but for so many, which are had in advance */
#define ENG_SLOW_TIMES     4u  /* slower than the drive in the middle, and than the least above: slow */

/* Zeroes: nothing is known yet. owner: the loop */
struct eng_read_times {
        struct {
                uint16_t count[LP_TIME_BUCKETS]; /* halved now and then */
                uint16_t total, lately;          /* lately: since it was looked at */
                uint64_t mean_ns;                /* of the last few */
        } drive[ENG_DRIVES_MAX];
        uint64_t looked, late_ns, middle_ns;
        uint64_t least_ns; /* instead of ENG_LATE_LEAST_NS; 0: that. For tests */
        eng_mask slow;
        unsigned owed; /* extra reads x ENG_EXTRA_SHARE that others have not made up for yet */
};

/* A read of a drive took so long, or takes so long already. */
void eng_read_times_add(struct eng_read_times *times, unsigned slot, uint64_t ns, uint64_t now);
static inline uint64_t eng_read_least_ns(const struct eng_read_times *times)
{
        return times->least_ns != 0 ? times->least_ns : ENG_LATE_LEAST_NS;
}
/* A read is late behind that. */
static inline uint64_t eng_read_late_ns(const struct eng_read_times *times)
{
        return times->late_ns > eng_read_least_ns(times) ? times->late_ns : eng_read_least_ns(times);
}
/* Others are read first where they have the same. */
static inline bool eng_read_is_slow(const struct eng_read_times *times, unsigned slot)
{
        return (times->slow & eng_bit(slot)) != 0;
}
/* So many extra reads may be made now: they are counted. */
bool eng_read_times_spend(struct eng_read_times *times, unsigned reads);

#endif
