/*
 * metrics_samples.c - the samples of each family of metrics: what they are read from, their labels,
 * and their text.
 *
 * Called by the admin listener's thread over a snapshot, from the table of metrics.c. Many families
 * share a function, which then reads the member at the row's offset.
 */
#include "server/metrics_table.h"

#include "s3.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#define LABELS_MAX 160u

static uint64_t number_at(const void *base, size_t offset)
{
        uint64_t value;

        memcpy(&value, (const char *)base + offset, sizeof(value));
        return value;
}

/*
 * A label's value: quotes, backslashes and newlines escaped, other control characters and bytes
 * that are no UTF-8 shown as '?'.
 */
static void write_label(FILE *out, const char *value)
{
        bool utf8 = s3_utf8_valid(s3_str_of(value));
        unsigned char c;

        for (; (c = (unsigned char)*value) != '\0'; value++) {
                if (c == '"' || c == '\\')
                        fprintf(out, "\\%c", c);
                else if (c == '\n')
                        fputs("\\n", out);
                else
                        fputc(c < 0x20 || c == 0x7f || (c >= 0x80 && !utf8) ? '?' : c, out);
        }
}

/* ---- the process ----------------------------------------------------------------------------- */

void srv_write_u64(const struct metric *metric, const struct srv_statistics *statistics, FILE *out)
{
        fprintf(out, "%s %" PRIu64 "\n", metric->name, number_at(statistics, metric->offset));
}

/* Of nanoseconds. */
void srv_write_seconds(const struct metric *metric, const struct srv_statistics *statistics, FILE *out)
{
        fprintf(out, "%s %.6f\n", metric->name, (double)number_at(statistics, metric->offset) / 1e9);
}

void srv_write_unsigned(const struct metric *metric, const struct srv_statistics *statistics, FILE *out)
{
        unsigned value;

        memcpy(&value, (const char *)statistics + metric->offset, sizeof(value));
        fprintf(out, "%s %u\n", metric->name, value);
}

void srv_write_bool(const struct metric *metric, const struct srv_statistics *statistics, FILE *out)
{
        bool value;

        memcpy(&value, (const char *)statistics + metric->offset, sizeof(value));
        fprintf(out, "%s %d\n", metric->name, value);
}

void srv_write_build(const struct metric *metric, const struct srv_statistics *statistics, FILE *out)
{
        fprintf(out, "%s{version=\"%s\"} 1\n", metric->name, MILLRACE_VERSION);
}

void srv_write_uptime(const struct metric *metric, const struct srv_statistics *statistics, FILE *out)
{
        fprintf(out, "%s %.3f\n", metric->name, (double)(statistics->now_ms - statistics->started_ms) / 1e3);
}

void srv_write_start_time(const struct metric *metric, const struct srv_statistics *statistics, FILE *out)
{
        fprintf(out, "%s %.3f\n", metric->name, (double)statistics->started_ms / 1e3);
}

void srv_write_cpu(const struct metric *metric, const struct srv_statistics *statistics, FILE *out)
{
        fprintf(out, "%s %.6f\n", metric->name, statistics->process.cpu_seconds);
}

/* ---- pools ----------------------------------------------------------------------------------- */

void srv_write_pool_u64(const struct metric *metric, const struct srv_statistics *statistics, FILE *out)
{
        unsigned i;

        for (i = 0; i < statistics->pool_count; i++)
                fprintf(out, "%s{pool=\"%u\"} %" PRIu64 "\n", metric->name, statistics->pools[i].number, number_at(&statistics->pools[i], metric->offset));
}

void srv_write_pool_bool(const struct metric *metric, const struct srv_statistics *statistics, FILE *out)
{
        bool value;
        unsigned i;

        for (i = 0; i < statistics->pool_count; i++) {
                memcpy(&value, (const char *)&statistics->pools[i] + metric->offset, sizeof(value));
                fprintf(out, "%s{pool=\"%u\"} %d\n", metric->name, statistics->pools[i].number, value);
        }
}

/* ---- the cluster ----------------------------------------------------------------------------- */

void srv_write_cluster_u64(const struct metric *metric, const struct srv_statistics *statistics, FILE *out)
{
        if (statistics->cluster.known)
                srv_write_u64(metric, statistics, out);
}

void srv_write_cluster_seconds(const struct metric *metric, const struct srv_statistics *statistics, FILE *out)
{
        if (statistics->cluster.known)
                srv_write_seconds(metric, statistics, out);
}

void srv_write_cluster_pool(const struct metric *metric, const struct srv_statistics *statistics, FILE *out)
{
        const struct srv_cluster_statistics *cluster = &statistics->cluster;
        unsigned i;
        bool value;

        for (i = 0; i < cluster->pool_count; i++) {
                memcpy(&value, (const char *)&cluster->pools[i] + metric->offset, sizeof(value));
                fprintf(out, "%s{pool=\"%u\"} %d\n", metric->name, cluster->pools[i].number, value);
        }
}

/* ---- requests -------------------------------------------------------------------------------- */

static bool was_used(const struct gw_op_stats *op)
{
        return op->by_status[0] != 0;
}

void srv_write_op_status(const struct metric *metric, const struct srv_statistics *statistics, FILE *out)
{
        const struct gw_op_stats *op;
        unsigned i, class;

        for (i = 0; i < statistics->gateway.operations; i++) {
                op = &statistics->gateway.op[i];
                for (class = 2; was_used(op) && class <= 5; class ++)
                        fprintf(out, "%s{operation=\"%s\",status=\"%uxx\"} %" PRIu64 "\n", metric->name, op->operation,
                                class, op->by_status[class]);
        }
}

void srv_write_op_u64(const struct metric *metric, const struct srv_statistics *statistics, FILE *out)
{
        const struct gw_op_stats *op;
        unsigned i;

        for (i = 0; i < statistics->gateway.operations; i++) {
                op = &statistics->gateway.op[i];
                if (was_used(op))
                        fprintf(out, "%s{operation=\"%s\"} %" PRIu64 "\n", metric->name, op->operation,
                                number_at(op, metric->offset));
        }
}

/*
 * One histogram of those that labels tell apart; labels: "name=\"value\"", and more behind a comma.
 */
static void write_times(const char *name, const char *labels, const struct lp_histogram *times, FILE *out)
{
        uint64_t count = 0;
        unsigned b;

        for (b = 0; b < LP_TIME_BUCKETS; b++) {
                count += times->count[b];
                fprintf(out, "%s_bucket{%s,le=\"", name, labels);
                if (b + 1 < LP_TIME_BUCKETS)
                        fprintf(out, "%.9g", (double)lp_time_bound_ns(b) / 1e9);
                else
                        fputs("+Inf", out);
                fprintf(out, "\"} %" PRIu64 "\n", count);
        }
        fprintf(out, "%s_sum{%s} %.6f\n", name, labels, (double)times->sum_ns / 1e9);
        fprintf(out, "%s_count{%s} %" PRIu64 "\n", name, labels, count);
}

void srv_write_op_latency(const struct metric *metric, const struct srv_statistics *statistics, FILE *out)
{
        const struct gw_op_stats *op;
        char labels[LABELS_MAX];
        unsigned i;

        for (i = 0; i < statistics->gateway.operations; i++) {
                op = &statistics->gateway.op[i];
                if (!was_used(op))
                        continue;
                snprintf(labels, sizeof(labels), "operation=\"%s\"", op->operation);
                write_times(metric->name, labels, &op->latency, out);
        }
}

void srv_write_stages(const struct metric *metric, const struct srv_statistics *statistics, FILE *out)
{
        char labels[LABELS_MAX];
        unsigned i;

        for (i = 0; i < GW_STAGES; i++) {
                snprintf(labels, sizeof(labels), "stage=\"%s\"", gw_stage_name(i));
                write_times(metric->name, labels, &statistics->gateway.stage[i], out);
        }
}

static void write_step(const struct metric *metric, const char *stage, const char *step,
                       const struct lp_histogram *times, FILE *out)
{
        char labels[LABELS_MAX];

        snprintf(labels, sizeof(labels), "stage=\"%s\",step=\"%s\"", stage, step);
        write_times(metric->name, labels, times, out);
}

void srv_write_steps(const struct metric *metric, const struct srv_statistics *statistics, FILE *out)
{
        unsigned i;

        for (i = 0; i < ENG_STEPS; i++)
                write_step(metric, eng_step_stage(i), eng_step_name(i), &statistics->steps[i], out);
        for (i = 0; i < GW_STEPS; i++)
                write_step(metric, "hash", gw_step_name(i), &statistics->gateway.step[i], out);
}

/* ---- loops ----------------------------------------------------------------------------------- */

void srv_write_loop_u64(const struct metric *metric, const struct srv_statistics *statistics, FILE *out)
{
        unsigned i;

        for (i = 0; i < statistics->loop_count; i++)
                fprintf(out, "%s{loop=\"%u\"} %" PRIu64 "\n", metric->name, i,
                        number_at(&statistics->loops[i], metric->offset));
}

void srv_write_loop_shares(const struct metric *metric, const struct srv_statistics *statistics, FILE *out)
{
        static const char *const names[LP_SHARES] = {
                [LP_SHARE_GET] = "get", [LP_SHARE_PUT] = "put", [LP_SHARE_INTERNAL] = "internal", [LP_SHARE_PEER] = "peer"};
        unsigned i, share;

        for (i = 0; i < statistics->loop_count; i++)
                for (share = 0; share < LP_SHARES; share++)
                        fprintf(out, "%s{loop=\"%u\",share=\"%s\"} %" PRIu64 "\n", metric->name, i, names[share],
                                number_at(&statistics->loops[i], metric->offset + share * sizeof(uint64_t)));
}

/* ---- drives ---------------------------------------------------------------------------------- */

const char *srv_drive_state_name(enum eng_drive_state state)
{
        switch (state) {
        case ENG_DRIVE_IN:
                return "in";
        case ENG_DRIVE_MISSING:
                return "missing";
        case ENG_DRIVE_STALE:
                return "stale";
        case ENG_DRIVE_FAILED:
                return "failed";
        case ENG_DRIVE_JOINING:
                return "joining";
        case ENG_DRIVE_REMOVED:
                return "removed";
        }
        return "unknown";
}

static void write_drive_labels(const struct metric *metric, const struct eng_drive_info *drive, FILE *out)
{
        fprintf(out, "%s{drive=\"%s\",path=\"", metric->name, drive->id);
        write_label(out, drive->path);
        fputc('"', out);
}

void srv_write_drive_u64(const struct metric *metric, const struct srv_statistics *statistics, FILE *out)
{
        unsigned i;

        for (i = 0; i < statistics->health.drive_count; i++) {
                write_drive_labels(metric, &statistics->health.drives[i], out);
                fprintf(out, "} %" PRIu64 "\n", number_at(&statistics->health.drives[i], metric->offset));
        }
}

void srv_write_drive_bool(const struct metric *metric, const struct srv_statistics *statistics, FILE *out)
{
        unsigned i;
        bool value;

        for (i = 0; i < statistics->health.drive_count; i++) {
                memcpy(&value, (const char *)&statistics->health.drives[i] + metric->offset, sizeof(value));
                write_drive_labels(metric, &statistics->health.drives[i], out);
                fprintf(out, "} %d\n", value);
        }
}

/* Prometheus writes infinity its own way. */
static void write_seconds_left(double seconds, FILE *out)
{
        if (isinf(seconds))
                fputs("+Inf\n", out);
        else
                fprintf(out, "%.0f\n", seconds);
}

void srv_write_drive_forecast(const struct metric *metric, const struct srv_statistics *statistics, FILE *out)
{
        unsigned i;

        for (i = 0; i < statistics->health.drive_count; i++) {
                write_drive_labels(metric, &statistics->health.drives[i], out);
                fputs("} ", out);
                write_seconds_left(statistics->forecast.drive_s[i], out);
        }
}

void srv_write_forecast(const struct metric *metric, const struct srv_statistics *statistics, FILE *out)
{
        fprintf(out, "%s ", metric->name);
        write_seconds_left(statistics->forecast.store_s, out);
}

void srv_write_drive_state(const struct metric *metric, const struct srv_statistics *statistics, FILE *out)
{
        unsigned i, state;

        for (i = 0; i < statistics->health.drive_count; i++)
                for (state = ENG_DRIVE_IN; state < ENG_DRIVE_STATES; state++) {
                        write_drive_labels(metric, &statistics->health.drives[i], out);
                        fprintf(out, ",state=\"%s\"} %d\n", srv_drive_state_name((enum eng_drive_state)state),
                                statistics->health.drives[i].state == (enum eng_drive_state)state);
                }
}

void srv_write_drives(const struct metric *metric, const struct srv_statistics *statistics, FILE *out)
{
        fprintf(out, "%s %u\n", metric->name, statistics->health.drive_count - statistics->health.drives_removed);
}

void srv_write_losses_left(const struct metric *metric, const struct srv_statistics *statistics, FILE *out)
{
        unsigned lost = statistics->health.drive_count - statistics->health.drives_removed - statistics->health.drives_in;

        fprintf(out, "%s %u\n", metric->name, statistics->health.ec_m > lost ? statistics->health.ec_m - lost : 0);
}

void srv_write_lacking(const struct metric *metric, const struct srv_statistics *statistics, FILE *out)
{
        const struct eng_health *health = &statistics->health;
        unsigned i;

        for (i = 0; i < health->ec_m; i++)
                fprintf(out, "%s{missing=\"%u\"} %" PRIu64 "\n", metric->name, i + 1, health->objects_lacking[i]);
        fprintf(out, "%s{missing=\"more\"} %" PRIu64 "\n", metric->name, health->objects_lacking[i]);
}

/* By the drive's id alone: paths would make the many rows of a histogram longer still. */
void srv_write_drive_steps(const struct metric *metric, const struct srv_statistics *statistics, FILE *out)
{
        char labels[LABELS_MAX];
        unsigned i, step;

        for (i = 0; i < statistics->health.drive_count; i++)
                for (step = 0; step < ENG_DRIVE_STEPS; step++) {
                        if (lp_histogram_count(&statistics->drive_steps[i][step]) == 0)
                                continue;
                        snprintf(labels, sizeof(labels), "drive=\"%s\",operation=\"%s\"", statistics->health.drives[i].id,
                                 eng_drive_step_name(step));
                        write_times(metric->name, labels, &statistics->drive_steps[i][step], out);
                }
}

void srv_write_batch_entries(const struct metric *metric, const struct srv_statistics *statistics, FILE *out)
{
        static const char *const names[GW_ENTRY_CODES] = {"OK",
                                                          "NoSuchKey",
                                                          "NoSuchBucket",
                                                          "NoSuchVersion",
                                                          "AccessDenied",
                                                          "PreconditionFailed",
                                                          "InvalidRange",
                                                          "PlaceTooSmall",
                                                          "InvalidArgument",
                                                          "Declined",
                                                          "SlowDown",
                                                          "InternalError",
                                                          "ServiceUnavailable",
                                                          "RequestTimeout",
                                                          "MethodNotAllowed"};
        unsigned way, code;

        for (way = 0; way < GW_ENTRY_WAYS; way++)
                for (code = 0; code < GW_ENTRY_CODES; code++)
                        fprintf(out, "%s{way=\"%s\",code=\"%s\"} %" PRIu64 "\n", metric->name,
                                gw_entry_way_name((enum gw_entry_way)way), names[code],
                                statistics->gateway.entries[way][code]);
}

/* ---- RDMA ------------------------------------------------------------------------------------ */

void srv_write_rdma_ends(const struct metric *metric, const struct srv_statistics *statistics, FILE *out)
{
        unsigned end;

        for (end = 0; end < RDX_END_KINDS; end++)
                fprintf(out, "%s{reason=\"%s\"} %" PRIu64 "\n", metric->name, rdx_end_name((enum rdx_end)end),
                        statistics->rdma.ended[end]);
}

void srv_write_rdma_declines(const struct metric *metric, const struct srv_statistics *statistics, FILE *out)
{
        unsigned i;

        for (i = 0; i < RDX_DECLINE_KINDS; i++)
                fprintf(out, "%s{reason=\"%s\"} %" PRIu64 "\n", metric->name, rdx_decline_name((enum rdx_decline)i),
                        statistics->rdma.declined[i]);
}

/* Buckets double from a microsecond on. */
void srv_write_rdma_stages(const struct metric *metric, const struct srv_statistics *statistics, FILE *out)
{
        unsigned stage, b;

        for (stage = 0; stage < RDX_STAGE_KINDS; stage++) {
                const char *name = rdx_stage_name((enum rdx_stage)stage);
                uint64_t count = 0;

                for (b = 0; b < RDX_LATENCY_BUCKETS; b++) {
                        count += statistics->rdma.latency[stage][b];
                        fprintf(out, "%s_bucket{stage=\"%s\",le=\"", metric->name, name);
                        if (b + 1 < RDX_LATENCY_BUCKETS)
                                fprintf(out, "%.9g", (double)(1ull << b) / 1e6);
                        else
                                fputs("+Inf", out);
                        fprintf(out, "\"} %" PRIu64 "\n", count);
                }
                fprintf(out, "%s_sum{stage=\"%s\"} %.6f\n", metric->name, name,
                        (double)statistics->rdma.latency_ns[stage] / 1e9);
                fprintf(out, "%s_count{stage=\"%s\"} %" PRIu64 "\n", metric->name, name, count);
        }
}
