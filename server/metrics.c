/*
 * metrics.c - the one table of metrics, and the text made of it.
 *
 * Called by the admin listener's thread over a snapshot. A row is a family: what it is called, what it is, and a
 * function that writes its samples (many share one, which then reads the member at the row's offset). Figures that
 * the houses count are read, not kept here.
 */
#include "server/metrics.h"

#include "s3.h"

#include <inttypes.h>
#include <stddef.h>
#include <string.h>

#define LABELS_MAX 160u

enum kind { COUNTER, GAUGE, HISTOGRAM };

struct metric {
        const char *name;
        enum kind kind;
        const char *labels; /* for the documentation */
        const char *help;
        void (*write)(const struct metric *metric, const struct srv_figures *figures, FILE *out);
        size_t offset; /* of what write() reads, in the structure that it reads */
};

static uint64_t number_at(const void *base, size_t offset)
{
        uint64_t value;

        memcpy(&value, (const char *)base + offset, sizeof(value));
        return value;
}

/*
 * A label's value: quotes, backslashes and newlines escaped, other control characters and bytes that are no UTF-8
 * shown as '?'.
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

/* ---- the process ---------------------------------------------------------------------------------- */

static void write_u64(const struct metric *metric, const struct srv_figures *figures, FILE *out)
{
        fprintf(out, "%s %" PRIu64 "\n", metric->name, number_at(figures, metric->offset));
}

/* Of nanoseconds. */
static void write_seconds(const struct metric *metric, const struct srv_figures *figures, FILE *out)
{
        fprintf(out, "%s %.6f\n", metric->name, (double)number_at(figures, metric->offset) / 1e9);
}

static void write_unsigned(const struct metric *metric, const struct srv_figures *figures, FILE *out)
{
        unsigned value;

        memcpy(&value, (const char *)figures + metric->offset, sizeof(value));
        fprintf(out, "%s %u\n", metric->name, value);
}

static void write_bool(const struct metric *metric, const struct srv_figures *figures, FILE *out)
{
        bool value;

        memcpy(&value, (const char *)figures + metric->offset, sizeof(value));
        fprintf(out, "%s %d\n", metric->name, value);
}

static void write_build(const struct metric *metric, const struct srv_figures *figures, FILE *out)
{
        fprintf(out, "%s{version=\"%s\"} 1\n", metric->name, MILLRACE_VERSION);
}

static void write_uptime(const struct metric *metric, const struct srv_figures *figures, FILE *out)
{
        fprintf(out, "%s %.3f\n", metric->name, (double)(figures->now_ms - figures->started_ms) / 1e3);
}

static void write_start_time(const struct metric *metric, const struct srv_figures *figures, FILE *out)
{
        fprintf(out, "%s %.3f\n", metric->name, (double)figures->started_ms / 1e3);
}

static void write_cpu(const struct metric *metric, const struct srv_figures *figures, FILE *out)
{
        fprintf(out, "%s %.6f\n", metric->name, figures->process.cpu_seconds);
}

/* ---- requests ------------------------------------------------------------------------------------- */

static bool was_used(const struct gw_op_stats *op)
{
        return op->by_status[0] != 0;
}

static void write_op_status(const struct metric *metric, const struct srv_figures *figures, FILE *out)
{
        const struct gw_op_stats *op;
        unsigned i, class;

        for (i = 0; i < figures->gateway.operations; i++) {
                op = &figures->gateway.op[i];
                for (class = 2; was_used(op) && class <= 5; class ++)
                        fprintf(out, "%s{operation=\"%s\",status=\"%uxx\"} %" PRIu64 "\n", metric->name, op->operation,
                                class, op->by_status[class]);
        }
}

static void write_op_u64(const struct metric *metric, const struct srv_figures *figures, FILE *out)
{
        const struct gw_op_stats *op;
        unsigned i;

        for (i = 0; i < figures->gateway.operations; i++) {
                op = &figures->gateway.op[i];
                if (was_used(op))
                        fprintf(out, "%s{operation=\"%s\"} %" PRIu64 "\n", metric->name, op->operation,
                                number_at(op, metric->offset));
        }
}

/* One histogram of those that labels tell apart; labels: "name=\"value\"", and more behind a comma. */
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

static void write_op_latency(const struct metric *metric, const struct srv_figures *figures, FILE *out)
{
        const struct gw_op_stats *op;
        char labels[LABELS_MAX];
        unsigned i;

        for (i = 0; i < figures->gateway.operations; i++) {
                op = &figures->gateway.op[i];
                if (!was_used(op))
                        continue;
                snprintf(labels, sizeof(labels), "operation=\"%s\"", op->operation);
                write_times(metric->name, labels, &op->latency, out);
        }
}

static void write_stages(const struct metric *metric, const struct srv_figures *figures, FILE *out)
{
        char labels[LABELS_MAX];
        unsigned i;

        for (i = 0; i < GW_STAGES; i++) {
                snprintf(labels, sizeof(labels), "stage=\"%s\"", gw_stage_name(i));
                write_times(metric->name, labels, &figures->gateway.stage[i], out);
        }
}

static void write_step(const struct metric *metric, const char *stage, const char *step, const struct lp_histogram *times,
                       FILE *out)
{
        char labels[LABELS_MAX];

        snprintf(labels, sizeof(labels), "stage=\"%s\",step=\"%s\"", stage, step);
        write_times(metric->name, labels, times, out);
}

static void write_steps(const struct metric *metric, const struct srv_figures *figures, FILE *out)
{
        unsigned i;

        for (i = 0; i < ENG_STEPS; i++)
                write_step(metric, eng_step_stage(i), eng_step_name(i), &figures->steps[i], out);
        for (i = 0; i < GW_STEPS; i++)
                write_step(metric, "hash", gw_step_name(i), &figures->gateway.step[i], out);
}

/* ---- loops ---------------------------------------------------------------------------------------- */

static void write_loop_u64(const struct metric *metric, const struct srv_figures *figures, FILE *out)
{
        unsigned i;

        for (i = 0; i < figures->loop_count; i++)
                fprintf(out, "%s{loop=\"%u\"} %" PRIu64 "\n", metric->name, i,
                        number_at(&figures->loops[i], metric->offset));
}

static void write_loop_shares(const struct metric *metric, const struct srv_figures *figures, FILE *out)
{
        static const char *const names[LP_SHARES] = {
                [LP_SHARE_GET] = "get", [LP_SHARE_PUT] = "put", [LP_SHARE_INTERNAL] = "internal"};
        unsigned i, share;

        for (i = 0; i < figures->loop_count; i++)
                for (share = 0; share < LP_SHARES; share++)
                        fprintf(out, "%s{loop=\"%u\",share=\"%s\"} %" PRIu64 "\n", metric->name, i, names[share],
                                number_at(&figures->loops[i], metric->offset + share * sizeof(uint64_t)));
}

/* ---- drives --------------------------------------------------------------------------------------- */

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

static void write_drive_u64(const struct metric *metric, const struct srv_figures *figures, FILE *out)
{
        unsigned i;

        for (i = 0; i < figures->health.drive_count; i++) {
                write_drive_labels(metric, &figures->health.drives[i], out);
                fprintf(out, "} %" PRIu64 "\n", number_at(&figures->health.drives[i], metric->offset));
        }
}

static void write_drive_state(const struct metric *metric, const struct srv_figures *figures, FILE *out)
{
        unsigned i, state;

        for (i = 0; i < figures->health.drive_count; i++)
                for (state = ENG_DRIVE_IN; state < ENG_DRIVE_STATES; state++) {
                        write_drive_labels(metric, &figures->health.drives[i], out);
                        fprintf(out, ",state=\"%s\"} %d\n", srv_drive_state_name((enum eng_drive_state)state),
                                figures->health.drives[i].state == (enum eng_drive_state)state);
                }
}

static void write_drives(const struct metric *metric, const struct srv_figures *figures, FILE *out)
{
        fprintf(out, "%s %u\n", metric->name, figures->health.drive_count - figures->health.drives_removed);
}

static void write_losses_left(const struct metric *metric, const struct srv_figures *figures, FILE *out)
{
        unsigned lost = figures->health.drive_count - figures->health.drives_removed - figures->health.drives_in;

        fprintf(out, "%s %u\n", metric->name, figures->health.ec_m > lost ? figures->health.ec_m - lost : 0);
}

/* By the drive's id alone: paths would make the many rows of a histogram longer still. */
static void write_drive_steps(const struct metric *metric, const struct srv_figures *figures, FILE *out)
{
        char labels[LABELS_MAX];
        unsigned i, step;

        for (i = 0; i < figures->health.drive_count; i++)
                for (step = 0; step < ENG_DRIVE_STEPS; step++) {
                        if (lp_histogram_count(&figures->drive_steps[i][step]) == 0)
                                continue;
                        snprintf(labels, sizeof(labels), "drive=\"%s\",operation=\"%s\"", figures->health.drives[i].id,
                                 eng_drive_step_name(step));
                        write_times(metric->name, labels, &figures->drive_steps[i][step], out);
                }
}

static void write_batch_entries(const struct metric *metric, const struct srv_figures *figures, FILE *out)
{
        static const char *const names[GW_ENTRY_CODES] = {
                "OK",           "NoSuchKey",          "NoSuchBucket", "NoSuchVersion",  "AccessDenied",
                "PreconditionFailed", "InvalidRange", "PlaceTooSmall", "InvalidArgument", "Declined",
                "SlowDown",     "InternalError",      "ServiceUnavailable", "RequestTimeout", "MethodNotAllowed"};
        unsigned way, code;

        for (way = 0; way < GW_ENTRY_WAYS; way++)
                for (code = 0; code < GW_ENTRY_CODES; code++)
                        fprintf(out, "%s{way=\"%s\",code=\"%s\"} %" PRIu64 "\n", metric->name,
                                gw_entry_way_name((enum gw_entry_way)way), names[code],
                                figures->gateway.entries[way][code]);
}

/* ---- RDMA ----------------------------------------------------------------------------------------- */

static void write_rdma_ends(const struct metric *metric, const struct srv_figures *figures, FILE *out)
{
        unsigned end;

        for (end = 0; end < RDX_END_KINDS; end++)
                fprintf(out, "%s{reason=\"%s\"} %" PRIu64 "\n", metric->name, rdx_end_name((enum rdx_end)end),
                        figures->rdma.ended[end]);
}

static void write_rdma_declines(const struct metric *metric, const struct srv_figures *figures, FILE *out)
{
        unsigned i;

        for (i = 0; i < RDX_DECLINE_KINDS; i++)
                fprintf(out, "%s{reason=\"%s\"} %" PRIu64 "\n", metric->name, rdx_decline_name((enum rdx_decline)i),
                        figures->rdma.declined[i]);
}

/* Buckets double from a microsecond on. */
static void write_rdma_stages(const struct metric *metric, const struct srv_figures *figures, FILE *out)
{
        unsigned stage, b;

        for (stage = 0; stage < RDX_STAGE_KINDS; stage++) {
                const char *name = rdx_stage_name((enum rdx_stage)stage);
                uint64_t count = 0;

                for (b = 0; b < RDX_LATENCY_BUCKETS; b++) {
                        count += figures->rdma.latency[stage][b];
                        fprintf(out, "%s_bucket{stage=\"%s\",le=\"", metric->name, name);
                        if (b + 1 < RDX_LATENCY_BUCKETS)
                                fprintf(out, "%.9g", (double)(1ull << b) / 1e6);
                        else
                                fputs("+Inf", out);
                        fprintf(out, "\"} %" PRIu64 "\n", count);
                }
                fprintf(out, "%s_sum{stage=\"%s\"} %.6f\n", metric->name, name,
                        (double)figures->rdma.latency_ns[stage] / 1e9);
                fprintf(out, "%s_count{stage=\"%s\"} %" PRIu64 "\n", metric->name, name, count);
        }
}

/* ---- the table ------------------------------------------------------------------------------------ */

#define IN(member)       .offset = offsetof(struct srv_figures, member)
#define IN_OP(member)    .offset = offsetof(struct gw_op_stats, member)
#define IN_LOOP(member)  .offset = offsetof(struct lp_stats, member)
#define IN_DRIVE(member) .offset = offsetof(struct eng_drive_info, member)
#define WHOLE            .offset = 0
#define OF_DRIVE         "drive, path"

static const struct metric metrics[] = {
        {"millrace_build_info", GAUGE, "version", "Always 1; the version is a label.", write_build, WHOLE},
        {"millrace_uptime_seconds", GAUGE, "", "Time since the start.", write_uptime, WHOLE},

        {"millrace_ready", GAUGE, "", "1: reads are answered.", write_bool, IN(health.ready)},
        {"millrace_writable", GAUGE, "", "1: the write quorum is held and the store is not full.", write_bool,
         IN(health.writable)},
        {"millrace_full", GAUGE, "", "1: PUTs are refused because a file system is at its reserve.", write_bool,
         IN(health.full)},
        {"millrace_epoch", GAUGE, "", "Number of the epoch in force; it grows when a drive leaves.", write_u64,
         IN(health.epoch)},
        {"millrace_buckets", GAUGE, "", "Buckets.", write_u64, IN(health.buckets)},
        {"millrace_drives", GAUGE, "", "Drives that belong to the store.", write_drives, WHOLE},
        {"millrace_drives_in", GAUGE, "", "Drives that are in use.", write_unsigned, IN(health.drives_in)},
        {"millrace_ec_data_shards", GAUGE, "", "Data shards (K) of the erasure code.", write_unsigned, IN(health.ec_k)},
        {"millrace_ec_parity_shards", GAUGE, "", "Parity shards (M) of the erasure code.", write_unsigned,
         IN(health.ec_m)},
        {"millrace_drive_losses_left", GAUGE, "",
         "Drives that may fail, from now on, with every object still readable.", write_losses_left, WHOLE},

        {"millrace_requests_total", COUNTER, "operation, status (2xx to 5xx)", "Requests answered.", write_op_status,
         WHOLE},
        {"millrace_request_duration_seconds", HISTOGRAM, "operation",
         "From the first byte of a request to the last of its answer.", write_op_latency, WHOLE},
        {"millrace_request_stage_seconds", HISTOGRAM, "stage",
         "What that time goes to, all operations together; the stages follow one another and add up to it. head: the head is "
         "received; parse: it is cut into what it says; authenticate: its signature is checked and its bucket found; look: "
         "the engine is asked what must be known before the body; body: it is received, hashed, encoded and written to drives; "
         "work: the engine works (lookups, records, flushes); send: the answer is sent, and a large object read meanwhile.",
         write_stages, WHOLE},
        {"millrace_request_step_seconds", HISTOGRAM, "stage (queue, drive, hash, encode), step",
         "What happens within those stages: one time for each step, of which a request takes some often and some never; some go on side by "
         "side. What healing reads and changes counts, too. queue: buffers, a GET or PUT of a large object waits for its buffers (0: they were there); room, an upload "
         "waits until buffers of its own are written and hashed; key, a change waits for earlier ones of its key (0: none). drive: "
         "lookup, a name is looked up; read, the units wanted of a stripe are read, a stripe ahead of what is sent; write and "
         "sync, after an upload's last byte, until its shards are written and until they are durable; record, the record of a "
         "change becomes durable and visible on all its drives. hash: md5, a piece of an upload until it is hashed side by side with others, waiting included; "
         "checksums, SHA-256 and CRCs of a piece of a body; chunks, aws-chunked framing with its signatures. encode: parity, a "
         "unit is added to its stripe's parity; rebuild, missing units of a stripe are computed.",
         write_steps, WHOLE},
        {"millrace_request_received_bytes_total", COUNTER, "operation", "Bytes of request bodies.", write_op_u64,
         IN_OP(bytes_in)},
        {"millrace_request_sent_bytes_total", COUNTER, "operation", "Bytes of response bodies.", write_op_u64,
         IN_OP(bytes_out)},
        {"millrace_batch_entries_total", COUNTER, "way (http, rdma), code (of docs/rdma-protocol.md, by name)",
         "Entries of batches that were given a result: of GetBatch over HTTP when all of it was sent, of BATCH messages when its writes were handed over.",
         write_batch_entries, WHOLE},
        {"millrace_requests_active", GAUGE, "", "Requests being served now.", write_u64, IN(gateway.requests_active)},
        {"millrace_connections_open", GAUGE, "", "Connections open now.", write_u64, IN(gateway.connections_open)},
        {"millrace_connections_total", COUNTER, "", "Connections accepted.", write_u64, IN(gateway.connections_total)},
        {"millrace_upload_memory_bytes", GAUGE, "", "Memory held by small uploads and XML bodies.", write_u64,
         IN(gateway.upload_memory_used)},

        {"millrace_cache_bytes", GAUGE, "", "Memory held by the read cache of small objects.", write_u64,
         IN(health.cache_bytes)},
        {"millrace_cache_hits_total", COUNTER, "", "Reads answered from the cache.", write_u64, IN(health.cache_hits)},
        {"millrace_cache_misses_total", COUNTER, "", "Reads of small objects that went to a drive.", write_u64,
         IN(health.cache_misses)},
        {"millrace_repaired_reads_total", COUNTER, "",
         "Reads that met a missing or damaged shard and were answered by reconstruction.", write_u64,
         IN(health.repaired_reads)},
        {"millrace_healing", GAUGE, "", "1: objects are being looked at for missing shards, or given them back.", write_bool,
         IN(health.healing)},
        {"millrace_objects_below_redundancy", GAUGE, "",
         "Large objects with shards missing or on drives that are out, as of the last look at all objects.", write_u64,
         IN(health.objects_below)},
        {"millrace_mended_objects_total", COUNTER, "", "Objects that were given missing shards back.", write_u64,
         IN(health.mended_objects)},
        {"millrace_mended_bytes_total", COUNTER, "", "Bytes written for that.", write_u64, IN(health.mended_bytes)},
        {"millrace_heal_bytes_left", GAUGE, "", "Bytes of shards known to be missing that are being given back.", write_u64,
         IN(health.heal_bytes_left)},
        {"millrace_whole_in_seconds", GAUGE, "", "Until then, at the pace so far; 0: nothing left, or not known yet.", write_u64,
         IN(health.heal_seconds_left)},
        {"millrace_sweeping", GAUGE, "", "1: drives are searched for shards that no record names.", write_bool,
         IN(health.sweeping)},
        {"millrace_swept_ids_total", COUNTER, "", "Object ids of which a drive had such shards, and gave them up.", write_u64,
         IN(health.swept_ids)},
        {"millrace_settled_records_total", COUNTER, "", "Records that recovery made stable on all replicas or voided.",
         write_u64, IN(health.settled_records)},

        {"millrace_drive_state", GAUGE, OF_DRIVE ", state (in, missing, stale, failed, joining)",
         "1 for the state a drive is in.", write_drive_state, WHOLE},
        {"millrace_drive_total_bytes", GAUGE, OF_DRIVE, "Size of the drive's file system.", write_drive_u64,
         IN_DRIVE(total_bytes)},
        {"millrace_drive_free_bytes", GAUGE, OF_DRIVE, "What is free of it.", write_drive_u64, IN_DRIVE(free_bytes)},
        {"millrace_drive_log_bytes", GAUGE, OF_DRIVE, "Bytes in log files.", write_drive_u64, IN_DRIVE(log_bytes)},
        {"millrace_drive_data_bytes", GAUGE, OF_DRIVE, "Bytes in data segments.", write_drive_u64,
         IN_DRIVE(data_bytes)},
        {"millrace_drive_log_live_bytes", GAUGE, OF_DRIVE,
         "Of the bytes in log files: names, values and small objects that are still referred to.", write_drive_u64,
         IN_DRIVE(log_live_bytes)},
        {"millrace_drive_data_live_bytes", GAUGE, OF_DRIVE,
         "Of the bytes in data segments: shards that are still referred to. The rest is dead or not yet used.",
         write_drive_u64, IN_DRIVE(data_live_bytes)},
        {"millrace_drive_reclaim_copied_bytes_total", COUNTER, OF_DRIVE,
         "Bytes moved out of mostly dead log files and segments.", write_drive_u64, IN_DRIVE(reclaim_copied)},
        {"millrace_drive_reclaim_freed_bytes_total", COUNTER, OF_DRIVE,
         "Bytes of log files and segments given back to the file system.", write_drive_u64, IN_DRIVE(reclaim_freed)},
        {"millrace_drive_reclaim_damaged_total", COUNTER, OF_DRIVE,
         "Shards and values that reclaim found damaged and left where they are.", write_drive_u64,
         IN_DRIVE(reclaim_damaged)},
        {"millrace_drive_index_bytes", GAUGE, OF_DRIVE, "Bytes of the index.", write_drive_u64, IN_DRIVE(index_bytes)},
        {"millrace_drive_tail_bytes", GAUGE, OF_DRIVE, "Memory of entries that the index does not hold yet.",
         write_drive_u64, IN_DRIVE(tail_bytes)},
        {"millrace_drive_queue", GAUGE, OF_DRIVE, "Operations under way or waiting.", write_drive_u64, IN_DRIVE(queue)},
        {"millrace_drive_operations_total", COUNTER, OF_DRIVE, "Operations done.", write_drive_u64, IN_DRIVE(ops)},
        {"millrace_drive_errors_total", COUNTER, OF_DRIVE, "Operations that failed.", write_drive_u64,
         IN_DRIVE(errors)},
        {"millrace_drive_appends_total", COUNTER, OF_DRIVE, "Records appended to the log.", write_drive_u64,
         IN_DRIVE(appends)},
        {"millrace_drive_batches_total", COUNTER, OF_DRIVE, "Durable writes of the log; appends share them.",
         write_drive_u64, IN_DRIVE(batches)},
        {"millrace_drive_syncs_total", COUNTER, OF_DRIVE, "Flushes of data segments.", write_drive_u64,
         IN_DRIVE(syncs)},
        {"millrace_drive_operation_seconds", HISTOGRAM, "drive, operation",
         "Operations from submission until the drive answers, whoever asks for them (requests, healing, scrub): append (a record "
         "becomes durable), commit (and visible), lookup, scan, write (one frame), sync, read (of one frame, verified), discard, "
         "held, ids, tail, record. And what it does within: log_wait, an append waits for its group; log_write, a group is written "
         "durably; data_flush, a segment is flushed; checksum, a frame is given its checksums or checked by them. Those that "
         "never happened are left out; a drive that takes a slot over goes on from the figures of the one before.",
         write_drive_steps, WHOLE},
        {"millrace_drive_read_bytes_total", COUNTER, OF_DRIVE, "Bytes read.", write_drive_u64, IN_DRIVE(read_bytes)},
        {"millrace_drive_written_bytes_total", COUNTER, OF_DRIVE, "Bytes written.", write_drive_u64,
         IN_DRIVE(written_bytes)},

        {"millrace_verify_running", GAUGE, "", "1: a verification reads everything.", write_bool, IN(verify.running)},
        {"millrace_verify_objects", GAUGE, "", "Objects read by the last verification.", write_u64, IN(verify.objects)},
        {"millrace_verify_bytes", GAUGE, "", "Bytes read by the last verification.", write_u64, IN(verify.bytes)},
        {"millrace_verify_damaged_shards", GAUGE, "", "Shards whose checksum failed in the last verification.",
         write_u64, IN(verify.damaged_shards)},
        {"millrace_verify_repaired_shards", GAUGE, "", "Shards that the last verification mended.", write_u64,
         IN(verify.repaired_shards)},
        {"millrace_verify_missing_shards", GAUGE, "", "Shards that the last verification did not find.", write_u64,
         IN(verify.missing_shards)},
        {"millrace_verify_unreadable_objects", GAUGE, "", "Objects that the last verification could not read.",
         write_u64, IN(verify.unreadable_objects)},
        {"millrace_scrub_running", GAUGE, "", "1: a scrub reads on.", write_bool, IN(scrub.running)},
        {"millrace_scrub_bytes", GAUGE, "", "Bytes of objects read by the scrub under way.", write_u64, IN(scrub.bytes)},
        {"millrace_scrub_damaged_shards", GAUGE, "", "Shards that the last complete scrub found damaged.", write_u64,
         IN(last_scrub.damaged_shards)},
        {"millrace_scrub_repaired_shards", GAUGE, "", "Of these and of the missing, those it wrote anew.", write_u64,
         IN(last_scrub.repaired_shards)},
        {"millrace_scrub_missing_shards", GAUGE, "", "Shards that the last complete scrub did not find.", write_u64,
         IN(last_scrub.missing_shards)},
        {"millrace_scrub_unreadable_objects", GAUGE, "", "Objects that the last complete scrub could not read.", write_u64,
         IN(last_scrub.unreadable_objects)},
        {"millrace_scrub_ended_ms", GAUGE, "", "When it ended, milliseconds since 1970; 0: none has.", write_u64,
         IN(last_scrub.ended_ms)},

        {"millrace_loop_rounds_total", COUNTER, "loop", "Rounds of the event loop.", write_loop_u64, IN_LOOP(rounds)},
        {"millrace_loop_messages_total", COUNTER, "loop", "Messages from other threads.", write_loop_u64,
         IN_LOOP(messages)},
        {"millrace_loop_io_submitted_total", COUNTER, "loop", "File operations started.", write_loop_u64,
         IN_LOOP(io_submitted)},
        {"millrace_loop_io_completed_total", COUNTER, "loop", "File operations done.", write_loop_u64,
         IN_LOOP(io_completed)},
        {"millrace_loop_io_waiting", GAUGE, "loop", "File operations that wait for room in the ring.", write_loop_u64,
         IN_LOOP(io_waiting)},
        {"millrace_arena_slots", GAUGE, "loop", "Buffers of 1 MiB in the arena.", write_loop_u64, IN_LOOP(slots)},
        {"millrace_arena_slots_used", GAUGE, "loop", "Buffers in use.", write_loop_u64, IN_LOOP(slots_used)},
        {"millrace_arena_slots_reserved", GAUGE, "loop, share (get, put, internal)", "Buffers promised to requests.",
         write_loop_shares, IN_LOOP(reserved)},
        {"millrace_arena_waiting", GAUGE, "loop, share (get, put, internal)", "Requests that wait for buffers.",
         write_loop_shares, IN_LOOP(reserve_waiting)},

        {"millrace_rdma_sessions", GAUGE, "", "RDMA sessions open now.", write_u64, IN(rdma.sessions)},
        {"millrace_rdma_sessions_opened_total", COUNTER, "", "RDMA sessions opened.", write_u64, IN(rdma.opened)},
        {"millrace_rdma_sessions_ended_total", COUNTER, "reason",
         "RDMA sessions that ended: request, expired, unconnected (nobody came), disconnect (the client left or died), revoked, "
         "broke-rule, rights (the client's device refused), timeout (it did not answer), stalled, device (ours failed), failed (could "
         "not be set up), shutdown.",
         write_rdma_ends, WHOLE},
        {"millrace_rdma_connected_total", COUNTER, "", "Queue pairs connected.", write_u64, IN(rdma.connected)},
        {"millrace_rdma_rejected_total", COUNTER, "", "Connections refused: malformed, unknown, seen before, or no room.",
         write_u64, IN(rdma.rejected)},
        {"millrace_rdma_requests_total", COUNTER, "", "Requests over HTTP that a session took.", write_u64,
         IN(rdma.requests)},
        {"millrace_rdma_batches_total", COUNTER, "", "BATCH messages.", write_u64, IN(rdma.batches)},
        {"millrace_rdma_batch_entries_total", COUNTER, "", "Entries of them.", write_u64, IN(rdma.entries)},
        {"millrace_rdma_writes_total", COUNTER, "", "RDMA writes done.", write_u64, IN(rdma.writes)},
        {"millrace_rdma_written_bytes_total", COUNTER, "", "Bytes written into clients' memory.", write_u64,
         IN(rdma.bytes_written)},
        {"millrace_rdma_reads_total", COUNTER, "", "RDMA reads done.", write_u64, IN(rdma.reads)},
        {"millrace_rdma_read_bytes_total", COUNTER, "", "Bytes read from clients' memory.", write_u64,
         IN(rdma.bytes_read)},
        {"millrace_rdma_copied_bytes_total", COUNTER, "",
         "Bytes written into clients' memory that had to be copied into registered memory first.", write_u64,
         IN(rdma.bytes_copied)},
        {"millrace_rdma_queue_busy_seconds_total", COUNTER, "",
         "Time in which something was posted on a session's queue pair and not completed, summed over sessions.",
         write_seconds, IN(rdma.busy_ns)},
        {"millrace_rdma_queue_gap_seconds_total", COUNTER, "",
         "Time in which nothing was, though a request had had its first WRITE or READ and more were to come.",
         write_seconds, IN(rdma.gap_ns)},
        {"millrace_rdma_in_flight", GAUGE, "", "Work requests posted and not completed.", write_u64,
         IN(rdma.in_flight)},
        {"millrace_rdma_starved_total", COUNTER, "", "Times a loop had work and no room left on its device.", write_u64,
         IN(rdma.starved)},
        {"millrace_rdma_tokens_total", COUNTER, "", "Requests by x-amz-rdma-token that an initiator took.", write_u64,
         IN(rdma.tokens)},
        {"millrace_rdma_token_resets_total", COUNTER, "", "Initiators made ready again after an error of a target's.",
         write_u64, IN(rdma.token_resets)},
        {"millrace_rdma_declined_total", COUNTER, "reason (off, device, policy, sse-c, queue-pairs, target)",
         "Requests for RDMA that were answered over TCP.", write_rdma_declines, WHOLE},
        {"millrace_rdma_seconds", HISTOGRAM, "stage",
         "Stages of a transfer: queued (a write waits for its turn), wire (until its completion), notice (from the last byte given to the "
         "end).",
         write_rdma_stages, WHOLE},

        {"millrace_access_log_lines_total", COUNTER, "", "Lines taken for the access log.", write_u64,
         IN(access.lines)},
        {"millrace_access_log_dropped_total", COUNTER, "", "Lines dropped because the writer was behind.", write_u64,
         IN(access.dropped)},
        {"millrace_access_log_failed_total", COUNTER, "", "Lines that the file refused.", write_u64, IN(access.failed)},

        {"process_resident_memory_bytes", GAUGE, "", "Resident memory, mapped files included.", write_u64,
         IN(process.resident_bytes)},
        {"process_virtual_memory_bytes", GAUGE, "", "Virtual memory.", write_u64, IN(process.virtual_bytes)},
        {"process_open_fds", GAUGE, "", "Open descriptors.", write_u64, IN(process.open_fds)},
        {"process_max_fds", GAUGE, "", "Limit of open descriptors.", write_u64, IN(process.max_fds)},
        {"process_threads", GAUGE, "", "Threads.", write_u64, IN(process.threads)},
        {"process_cpu_seconds_total", COUNTER, "", "Time on processors, user and system.", write_cpu, WHOLE},
        {"process_start_time_seconds", GAUGE, "", "Time of the start, seconds since 1970.", write_start_time, WHOLE},
};

#define METRIC_COUNT (sizeof(metrics) / sizeof(metrics[0]))

static const char *kind_name(enum kind kind)
{
        static const char *const names[] = {[COUNTER] = "counter", [GAUGE] = "gauge", [HISTOGRAM] = "histogram"};

        return names[kind];
}

void srv_metrics_write(const struct srv_figures *figures, FILE *out)
{
        size_t i;

        for (i = 0; i < METRIC_COUNT; i++) {
                fprintf(out, "# HELP %s %s\n# TYPE %s %s\n", metrics[i].name, metrics[i].help, metrics[i].name,
                        kind_name(metrics[i].kind));
                metrics[i].write(&metrics[i], figures, out);
        }
}

void srv_print_metrics_markdown(FILE *out)
{
        size_t i;

        fprintf(out, "# Metrics\n\n"
                     "<!-- Made by `millraced --print-metrics-markdown` from server/metrics.c; a test compares. -->\n\n"
                     "`GET /metrics` on the admin listener answers them in Prometheus' text format. Rows of operations "
                     "that\n"
                     "were never asked for are left out. What to watch is in [operations.md](operations.md).\n\n"
                     "| name | kind | labels | what it is |\n|---|---|---|---|\n");
        for (i = 0; i < METRIC_COUNT; i++)
                fprintf(out, "| `%s` | %s | %s | %s |\n", metrics[i].name, kind_name(metrics[i].kind),
                        *metrics[i].labels != '\0' ? metrics[i].labels : "-", metrics[i].help);
}
