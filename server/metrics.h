/*
 * metrics.h - all figures of the process as one snapshot, and as Prometheus text.
 */
#ifndef MILLRACE_SERVER_METRICS_H
#define MILLRACE_SERVER_METRICS_H

#include <stdatomic.h>
#include <stdio.h>

#include "engine.h"
#include "gateway.h"
#include "loop.h"
#include "rdma.h"
#include "cluster_node.h"
#include "server/access_log.h"
#include "server/cluster_statistics.h"
#include "server/forecast.h"

#define SRV_LOOPS_MAX 256u

/* The process's stores: at a node a home store of each pool of its cluster, the first pool at 0. Any thread: list up to count is constant. */
struct srv_pool_sources {
        atomic_uint count;
        struct srv_pool_source {
                unsigned number; /* 0: this is no cluster */
                struct eng_store *store;
        } list[CL_POOLS_MAX];
};

/* Where figures are read from. owner: whoever fills it in; all pointers outlive their use. */
struct srv_statistics_source {
        struct eng_store *store;
        const struct srv_pool_sources *pools; /* with the first one, whose store is that above */
        const struct gw_gateway *gateway;
        struct lp_loop *const *loops;
        unsigned loop_count;
        const struct srv_access_log *access_log; /* NULL: none */
        const struct rdx_server *rdma;           /* NULL: none */
        struct srv_switches *switches;
        struct srv_forecast *forecast;
        struct srv_link *link; /* NULL: of no cluster */
        int64_t started_ms; /* since 1970 */
};

struct srv_process_statistics {
        uint64_t resident_bytes, virtual_bytes, open_fds, max_fds, threads;
        double cpu_seconds;
};

/* What a node tells of a pool. */
struct srv_pool_statistics {
        unsigned number;
        bool ready, writable;
        uint64_t epoch, drives_in, objects_below;
        char reason[200];
};

/* About 400 KiB: on the heap. */
struct srv_statistics {
        struct eng_health health;
        struct eng_verify_report verify, scrub, last_scrub;
        struct gw_stats gateway;
        struct gw_lifecycle_stats lifecycle;
        struct gw_logs_stats logs;
        struct gw_inventory_stats inventory;
        struct lp_histogram steps[ENG_STEPS];
        struct lp_histogram drive_steps[ENG_DRIVES_MAX][ENG_DRIVE_STEPS];
        unsigned loop_count;
        struct lp_stats loops[SRV_LOOPS_MAX];
        struct srv_access_stats access;
        struct rdx_stats rdma;
        struct srv_process_statistics process;
        struct srv_forecast_statistics forecast;
        bool read_only, maintenance;
        struct srv_pool_statistics pools[CL_POOLS_MAX];
        unsigned pool_count;
        struct srv_cluster_statistics cluster;
        int64_t started_ms, now_ms;
};

/* Any thread but a loop (reads /proc). */
void srv_statistics_read(const struct srv_statistics_source *source, struct srv_statistics *out);

/* Of its pools. How many; 0: there is but one. */
unsigned srv_pools_read(const struct srv_statistics_source *source, struct srv_pool_statistics out[CL_POOLS_MAX]);

/* Prometheus text format 0.0.4. */
void srv_metrics_write(const struct srv_statistics *statistics, FILE *out);

/* The table of metrics for docs/metrics.md. */
void srv_print_metrics_markdown(FILE *out);

/* "in", "missing", "stale", "failed", "joining" */
const char *srv_drive_state_name(enum eng_drive_state state);

#endif
