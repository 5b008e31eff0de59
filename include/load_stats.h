/*
 * load_stats.h - latencies of a run: a histogram with about 1.6 % of relative error, from 1 ns to
 * 18 s and more, in 18 KiB. Owner: one thread.
 */
#ifndef MILLRACE_LOAD_STATS_H
#define MILLRACE_LOAD_STATS_H

#include <stdint.h>

/* 64 buckets for each power of two; below 64 each number has a bucket of its own. */
#define LOAD_SUB     64u
#define LOAD_BUCKETS ((64u - 6u + 1u) * LOAD_SUB)

struct load_stats {
        uint64_t count, sum, max;
        uint32_t bucket[LOAD_BUCKETS];
};

static inline unsigned load_stats_bucket(uint64_t value)
{
        unsigned shift;

        if (value < LOAD_SUB)
                return (unsigned)value;
        shift = 63u - 6u - (unsigned)__builtin_clzll(value);
        return (shift + 1) * LOAD_SUB + (unsigned)(value >> shift) - LOAD_SUB;
}

/* The largest value that falls into a bucket. */
static inline uint64_t load_stats_upper(unsigned bucket)
{
        unsigned shift;

        if (bucket < LOAD_SUB)
                return bucket;
        shift = bucket / LOAD_SUB - 1;
        return (((uint64_t)(bucket % LOAD_SUB) + LOAD_SUB + 1) << shift) - 1;
}

static inline void load_stats_add(struct load_stats *stats, uint64_t value)
{
        stats->count++;
        stats->sum += value;
        if (value > stats->max)
                stats->max = value;
        stats->bucket[load_stats_bucket(value)]++;
}

/* The value that a share of all (0..1) does not exceed; 0 where there are none. */
static inline uint64_t load_stats_percentile(const struct load_stats *stats, double share)
{
        uint64_t wanted = (uint64_t)(share * (double)stats->count + 0.999999);
        uint64_t seen = 0;

        if (wanted < 1)
                wanted = 1;
        for (unsigned i = 0; i < LOAD_BUCKETS; i++) {
                seen += stats->bucket[i];
                if (seen >= wanted)
                        return load_stats_upper(i) < stats->max ? load_stats_upper(i) : stats->max;
        }
        return stats->max;
}

#endif
