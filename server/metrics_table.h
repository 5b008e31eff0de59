/*
 * metrics_table.h - a row of the table of metrics (metrics.c), and the functions that write its
 * samples (metrics_samples.c). Of the admin listener's thread.
 */
#ifndef MILLRACE_SERVER_METRICS_TABLE_H
#define MILLRACE_SERVER_METRICS_TABLE_H

#include "server/metrics.h"

#include <stddef.h>

enum metric_kind { COUNTER, GAUGE, HISTOGRAM };

struct metric {
        const char *name;
        enum metric_kind kind;
        const char *labels; /* for the documentation */
        const char *help;
        void (*write)(const struct metric *metric, const struct srv_statistics *statistics, FILE *out);
        size_t offset; /* of what write() reads, in the structure that it reads */
};

/* Of struct srv_statistics: by its type; seconds are kept as nanoseconds there. */
void srv_write_u64(const struct metric *metric, const struct srv_statistics *statistics, FILE *out);
void srv_write_seconds(const struct metric *metric, const struct srv_statistics *statistics, FILE *out);
void srv_write_unsigned(const struct metric *metric, const struct srv_statistics *statistics, FILE *out);
void srv_write_bool(const struct metric *metric, const struct srv_statistics *statistics, FILE *out);

/* Of the process. */
void srv_write_build(const struct metric *metric, const struct srv_statistics *statistics, FILE *out);
void srv_write_uptime(const struct metric *metric, const struct srv_statistics *statistics, FILE *out);
void srv_write_start_time(const struct metric *metric, const struct srv_statistics *statistics, FILE *out);
void srv_write_cpu(const struct metric *metric, const struct srv_statistics *statistics, FILE *out);

/* For each operation that was asked for; the offset is in struct gw_op_stats. */
void srv_write_op_status(const struct metric *metric, const struct srv_statistics *statistics, FILE *out);
void srv_write_op_u64(const struct metric *metric, const struct srv_statistics *statistics, FILE *out);
void srv_write_op_latency(const struct metric *metric, const struct srv_statistics *statistics, FILE *out);

/* For each stage of a request, and for each step of a stage. */
void srv_write_stages(const struct metric *metric, const struct srv_statistics *statistics, FILE *out);
void srv_write_steps(const struct metric *metric, const struct srv_statistics *statistics, FILE *out);

/*
 * For each loop; the offset is in struct lp_stats. A share's figure is one of LP_SHARES from there
 * on.
 */
void srv_write_loop_u64(const struct metric *metric, const struct srv_statistics *statistics, FILE *out);
void srv_write_loop_shares(const struct metric *metric, const struct srv_statistics *statistics, FILE *out);

/* For each drive; the offset is in struct eng_drive_info. */
void srv_write_drive_u64(const struct metric *metric, const struct srv_statistics *statistics, FILE *out);
void srv_write_drive_bool(const struct metric *metric, const struct srv_statistics *statistics, FILE *out);
void srv_write_drive_state(const struct metric *metric, const struct srv_statistics *statistics, FILE *out);
void srv_write_drive_forecast(const struct metric *metric, const struct srv_statistics *statistics, FILE *out);
void srv_write_forecast(const struct metric *metric, const struct srv_statistics *statistics, FILE *out);
void srv_write_drives(const struct metric *metric, const struct srv_statistics *statistics, FILE *out);
void srv_write_lacking(const struct metric *metric, const struct srv_statistics *statistics, FILE *out);
void srv_write_losses_left(const struct metric *metric, const struct srv_statistics *statistics, FILE *out);
void srv_write_drive_steps(const struct metric *metric, const struct srv_statistics *statistics, FILE *out);

/* For each pool, where there are several; the offset is in struct srv_pool_statistics. */
void srv_write_pool_u64(const struct metric *metric, const struct srv_statistics *statistics, FILE *out);
void srv_write_pool_bool(const struct metric *metric, const struct srv_statistics *statistics, FILE *out);

/* Of a cluster alone; seconds are kept as nanoseconds. A pool's offset is in struct srv_pool_led. */
void srv_write_cluster_u64(const struct metric *metric, const struct srv_statistics *statistics, FILE *out);
void srv_write_cluster_seconds(const struct metric *metric, const struct srv_statistics *statistics, FILE *out);
void srv_write_cluster_pool(const struct metric *metric, const struct srv_statistics *statistics, FILE *out);

/* Of batches and of RDMA. */
void srv_write_batch_entries(const struct metric *metric, const struct srv_statistics *statistics, FILE *out);
void srv_write_rdma_ends(const struct metric *metric, const struct srv_statistics *statistics, FILE *out);
void srv_write_rdma_declines(const struct metric *metric, const struct srv_statistics *statistics, FILE *out);
void srv_write_rdma_stages(const struct metric *metric, const struct srv_statistics *statistics, FILE *out);

#endif
