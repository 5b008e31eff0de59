/*
 * loop_times.h - histograms of times: counted by the one thread that owns them, read by any.
 *
 * To count is a shift and two plain additions; no lock, nothing allocated, no instruction that
 * other cores wait for. Buckets are powers of two, so that all histograms of the process can be
 * added up and compared.
 */
#ifndef MILLRACE_LOOP_TIMES_H
#define MILLRACE_LOOP_TIMES_H

#include <stdatomic.h>
#include <stdint.h>

/*
 * Bucket i: up to lp_time_bound_ns(i), 1 us << i (the last of these: 134 s); the last bucket: no
 * bound.
 */
#define LP_TIME_BUCKETS 29u

/* owner: one thread counts; any thread reads */
struct lp_times {
        atomic_uint_least64_t count[LP_TIME_BUCKETS];
        atomic_uint_least64_t sum_ns;
};

/* What it came to. Owner: whoever has it. */
struct lp_histogram {
        uint64_t count[LP_TIME_BUCKETS];
        uint64_t sum_ns;
};

/* UINT64_MAX: no bound. */
static inline uint64_t lp_time_bound_ns(unsigned bucket)
{
        return bucket < LP_TIME_BUCKETS - 1 ? 1000ull << bucket : UINT64_MAX;
}

static inline unsigned lp_time_bucket(uint64_t ns)
{
        uint64_t us = ns / 1000 + (ns % 1000 != 0);
        unsigned bucket = us <= 1 ? 0 : 64 - (unsigned)__builtin_clzll(us - 1);

        return bucket < LP_TIME_BUCKETS ? bucket : LP_TIME_BUCKETS - 1;
}

/* A counter with one writer needs no locked instruction. */
static inline void lp_times_count(atomic_uint_least64_t *counter, uint64_t n)
{
        atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + n, memory_order_relaxed);
}

/* Owner. */
static inline void lp_times_add(struct lp_times *times, uint64_t ns)
{
        lp_times_count(&times->count[lp_time_bucket(ns)], 1);
        lp_times_count(&times->sum_ns, ns);
}

/*
 * Any thread: adds what has been counted to a histogram. Each number is read atomically, the set is
 * not a snapshot.
 */
static inline void lp_times_sum(const struct lp_times *times, struct lp_histogram *sum)
{
        for (unsigned i = 0; i < LP_TIME_BUCKETS; i++)
                sum->count[i] += atomic_load_explicit((atomic_uint_least64_t *)&times->count[i], memory_order_relaxed);
        sum->sum_ns += atomic_load_explicit((atomic_uint_least64_t *)&times->sum_ns, memory_order_relaxed);
}

static inline uint64_t lp_histogram_count(const struct lp_histogram *histogram)
{
        uint64_t count = 0;

        for (unsigned i = 0; i < LP_TIME_BUCKETS; i++)
                count += histogram->count[i];
        return count;
}

#endif
