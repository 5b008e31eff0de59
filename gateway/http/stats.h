/*
 * stats.h - counters of one loop: written by it, read by anyone, relaxed.
 */
#ifndef GATEWAY_HTTP_STATS_H
#define GATEWAY_HTTP_STATS_H

#include <stdatomic.h>
#include <stdint.h>

#include "gateway.h"

#define GW_STATS_OPS GW_OPERATIONS_MAX

typedef atomic_uint_least64_t gw_counter;

struct gw_op_counters {
        gw_counter by_status[6];
        gw_counter bytes_in, bytes_out;
        struct lp_times latency;
};

struct gw_loop_stats {
        gw_counter connections_open, connections_total, connections_evicted, requests_active, requests_total,
                changes_active; /* raised in one order with gw_read_only(), not relaxed */
        struct gw_op_counters op[GW_STATS_OPS];
        struct lp_times stage[GW_STAGES];
        struct lp_times step[GW_STEPS];
        gw_counter entries[GW_ENTRY_WAYS][GW_ENTRY_CODES];
};

/* One writer: no need for a locked instruction. */
static inline void gw_count(gw_counter *counter, uint64_t delta)
{
        atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + delta,
                              memory_order_relaxed);
}

static inline uint64_t gw_counted(const gw_counter *counter)
{
        return atomic_load_explicit((gw_counter *)counter, memory_order_relaxed);
}

/* One finished request of operation number op. */
void gw_stats_request(struct gw_loop_stats *stats, unsigned op, unsigned status, uint64_t bytes_in, uint64_t bytes_out,
                      uint64_t ns);

#endif
