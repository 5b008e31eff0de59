/*
 * metrics.c - the one table of metrics, and the text made of it.
 *
 * Called by the admin listener's thread over a snapshot. A row is a family: what it is called, what it is, and a
 * function that writes its samples (metrics_samples.c). Figures that the houses count are read, not kept here.
 */
#include "server/metrics_table.h"

#define IN(member)       .offset = offsetof(struct srv_figures, member)
#define IN_OP(member)    .offset = offsetof(struct gw_op_stats, member)
#define IN_LOOP(member)  .offset = offsetof(struct lp_stats, member)
#define IN_DRIVE(member) .offset = offsetof(struct eng_drive_info, member)
#define WHOLE            .offset = 0
#define OF_DRIVE         "drive, path"

static const struct metric metrics[] = {
        {"millrace_build_info", GAUGE, "version", "Always 1; the version is a label.", srv_write_build, WHOLE},
        {"millrace_uptime_seconds", GAUGE, "", "Time since the start.", srv_write_uptime, WHOLE},

        {"millrace_ready", GAUGE, "", "1: reads are answered.", srv_write_bool, IN(health.ready)},
        {"millrace_writable", GAUGE, "", "1: the write quorum is held and the store is not full.", srv_write_bool,
         IN(health.writable)},
        {"millrace_full", GAUGE, "", "1: PUTs are refused because a file system is at its reserve.", srv_write_bool,
         IN(health.full)},
        {"millrace_epoch", GAUGE, "", "Number of the epoch in force; it grows when a drive leaves.", srv_write_u64,
         IN(health.epoch)},
        {"millrace_buckets", GAUGE, "", "Buckets.", srv_write_u64, IN(health.buckets)},
        {"millrace_drives", GAUGE, "", "Drives that belong to the store.", srv_write_drives, WHOLE},
        {"millrace_drives_in", GAUGE, "", "Drives that are in use.", srv_write_unsigned, IN(health.drives_in)},
        {"millrace_ec_data_shards", GAUGE, "", "Data shards (K) of the erasure code.", srv_write_unsigned,
         IN(health.ec_k)},
        {"millrace_ec_parity_shards", GAUGE, "", "Parity shards (M) of the erasure code.", srv_write_unsigned,
         IN(health.ec_m)},
        {"millrace_drive_losses_left", GAUGE, "",
         "Drives that may fail, from now on, with every object still readable.", srv_write_losses_left, WHOLE},

        {"millrace_requests_total", COUNTER, "operation, status (2xx to 5xx)", "Requests answered.",
         srv_write_op_status, WHOLE},
        {"millrace_request_duration_seconds", HISTOGRAM, "operation",
         "From the first byte of a request to the last of its answer.", srv_write_op_latency, WHOLE},
        {"millrace_request_stage_seconds", HISTOGRAM, "stage",
         "What that time goes to, all operations together; the stages follow one another and add up to it. head: the "
         "head is received; parse: it is cut into what it says; authenticate: its signature is checked and its bucket "
         "found; look: the engine is asked what must be known before the body; body: it is received, hashed, encoded "
         "and written to drives; work: the engine works (lookups, records, flushes); send: the answer is sent, and a "
         "large object read meanwhile.",
         srv_write_stages, WHOLE},
        {"millrace_request_step_seconds", HISTOGRAM, "stage (queue, drive, hash, encode), step",
         "What happens within those stages: one time for each step, of which a request takes some often and some "
         "never; some go on side by side. What healing reads and changes counts, too. queue: buffers, a GET or PUT of "
         "a large object waits for its buffers (0: they were there); room, an upload waits until buffers of its own "
         "are written and hashed; key, a change waits for earlier ones of its key (0: none). drive: lookup, a name is "
         "looked up; read, the units wanted of a stripe are read, a stripe ahead of what is sent; write and sync, "
         "after an upload's last byte, until its shards are written and until they are durable; record, the record of "
         "a change becomes durable and visible on all its drives. hash: md5, a piece of an upload until it is hashed "
         "side by side with others, waiting included; checksums, SHA-256 and CRCs of a piece of a body; chunks, "
         "aws-chunked framing with its signatures. encode: parity, a unit is added to its stripe's parity; rebuild, "
         "missing units of a stripe are computed.",
         srv_write_steps, WHOLE},
        {"millrace_request_received_bytes_total", COUNTER, "operation", "Bytes of request bodies.", srv_write_op_u64,
         IN_OP(bytes_in)},
        {"millrace_request_sent_bytes_total", COUNTER, "operation", "Bytes of response bodies.", srv_write_op_u64,
         IN_OP(bytes_out)},
        {"millrace_batch_entries_total", COUNTER, "way (http, rdma), code (of docs/rdma-protocol.md, by name)",
         "Entries of batches that were given a result: of GetBatch over HTTP when all of it was sent, of BATCH "
         "messages when its writes were handed over.",
         srv_write_batch_entries, WHOLE},
        {"millrace_requests_active", GAUGE, "", "Requests being served now.", srv_write_u64,
         IN(gateway.requests_active)},
        {"millrace_connections_open", GAUGE, "", "Connections open now.", srv_write_u64, IN(gateway.connections_open)},
        {"millrace_connections_total", COUNTER, "", "Connections accepted.", srv_write_u64,
         IN(gateway.connections_total)},
        {"millrace_connections_evicted_total", COUNTER, "",
         "Connections without a valid signature, or idle ones, that were closed to make room.", srv_write_u64,
         IN(gateway.connections_evicted)},
        {"millrace_upload_memory_bytes", GAUGE, "", "Memory held by small uploads and XML bodies.", srv_write_u64,
         IN(gateway.upload_memory_used)},
        {"millrace_answer_memory_bytes", GAUGE, "", "Memory held by answers that are being sent.", srv_write_u64,
         IN(gateway.answer_memory_used)},

        {"millrace_cache_bytes", GAUGE, "", "Memory held by the read cache of small objects.", srv_write_u64,
         IN(health.cache_bytes)},
        {"millrace_cache_hits_total", COUNTER, "", "Reads answered from the cache.", srv_write_u64,
         IN(health.cache_hits)},
        {"millrace_cache_misses_total", COUNTER, "", "Reads of small objects that went to a drive.", srv_write_u64,
         IN(health.cache_misses)},
        {"millrace_degraded_reads_total", COUNTER, "",
         "Reads that were answered by reconstruction: a shard was damaged, missing, or on a drive that is out or unreliable.",
         srv_write_u64, IN(health.degraded_reads)},
        {"millrace_repaired_reads_total", COUNTER, "",
         "Shards that reads found damaged on drives that are in, reconstructed and wrote anew.", srv_write_u64,
         IN(health.repaired_reads)},
        {"millrace_healing", GAUGE, "", "1: objects are being looked at for missing shards, or given them back.",
         srv_write_bool, IN(health.healing)},
        {"millrace_objects_below_redundancy", GAUGE, "",
         "Large objects with shards missing or on drives that are out, as of the last walk; a walk under way that has met more raises it.",
         srv_write_u64, IN(health.objects_below)},
        {"millrace_lost_objects", GAUGE, "",
         "Large objects met since the start with stripes of which more shards are gone than parity makes good for: bytes of them are lost. The log names them.",
         srv_write_u64, IN(health.lost_objects)},
        {"millrace_mended_objects_total", COUNTER, "", "Objects that were given missing shards back.", srv_write_u64,
         IN(health.mended_objects)},
        {"millrace_mended_bytes_total", COUNTER, "", "Bytes written for that.", srv_write_u64, IN(health.mended_bytes)},
        {"millrace_names_undecided", GAUGE, "",
         "Names that members have differently and that could not be made equal, as of the last walk; a walk under way that has met more raises it.",
         srv_write_u64, IN(health.undecided_names)},
        {"millrace_heal_bytes_left", GAUGE, "", "Bytes of shards met so far that are missing and are being given back.",
         srv_write_u64, IN(health.heal_bytes_left)},
        {"millrace_whole_in_seconds", GAUGE, "", "Until then, at the pace so far; 0: nothing left, or not known yet.",
         srv_write_u64, IN(health.heal_seconds_left)},
        {"millrace_heal_rate", GAUGE, "",
         "Bytes a second that upkeep is allowed now: heal_rate, or what follows from the size of drives; more while no client works, less while one waits.",
         srv_write_u64, IN(health.heal_rate)},
        {"millrace_sweeping", GAUGE, "", "1: drives are searched for shards that no record names.", srv_write_bool,
         IN(health.sweeping)},
        {"millrace_swept_ids_total", COUNTER, "", "Object ids of which a drive had such shards, and gave them up.",
         srv_write_u64, IN(health.swept_ids)},
        {"millrace_settled_records_total", COUNTER, "", "Records that recovery made stable on all replicas or voided.",
         srv_write_u64, IN(health.settled_records)},

        {"millrace_drive_state", GAUGE, OF_DRIVE ", state (in, missing, stale, failed, joining)",
         "1 for the state a drive is in.", srv_write_drive_state, WHOLE},
        {"millrace_drive_total_bytes", GAUGE, OF_DRIVE, "Size of the drive's file system.", srv_write_drive_u64,
         IN_DRIVE(total_bytes)},
        {"millrace_drive_free_bytes", GAUGE, OF_DRIVE, "What is free of it.", srv_write_drive_u64,
         IN_DRIVE(free_bytes)},
        {"millrace_drive_log_bytes", GAUGE, OF_DRIVE, "Bytes in log files.", srv_write_drive_u64, IN_DRIVE(log_bytes)},
        {"millrace_drive_data_bytes", GAUGE, OF_DRIVE, "Bytes in data segments.", srv_write_drive_u64,
         IN_DRIVE(data_bytes)},
        {"millrace_drive_log_live_bytes", GAUGE, OF_DRIVE,
         "Of the bytes in log files: names, values and small objects that are still referred to.", srv_write_drive_u64,
         IN_DRIVE(log_live_bytes)},
        {"millrace_drive_data_live_bytes", GAUGE, OF_DRIVE,
         "Of the bytes in data segments: shards that are still referred to. The rest is dead or not yet used.",
         srv_write_drive_u64, IN_DRIVE(data_live_bytes)},
        {"millrace_drive_reclaim_copied_bytes_total", COUNTER, OF_DRIVE,
         "Bytes moved out of mostly dead log files and segments.", srv_write_drive_u64, IN_DRIVE(reclaim_copied)},
        {"millrace_drive_reclaim_freed_bytes_total", COUNTER, OF_DRIVE,
         "Bytes of log files and segments given back to the file system.", srv_write_drive_u64,
         IN_DRIVE(reclaim_freed)},
        {"millrace_drive_index_reads_total", COUNTER, OF_DRIVE,
         "Reads of pages of the index that were not in memory when a lookup needed them.", srv_write_drive_u64,
         IN_DRIVE(index_reads)},
        {"millrace_drive_reclaim_damaged_total", COUNTER, OF_DRIVE,
         "Shards and values that reclaim found damaged and left where they are.", srv_write_drive_u64,
         IN_DRIVE(reclaim_damaged)},
        {"millrace_drive_read_errors_total", COUNTER, OF_DRIVE,
         "Reads that the drive could not do. Each is served from other drives, and repaired.", srv_write_drive_u64,
         IN_DRIVE(read_errors)},
        {"millrace_drive_unknown_owners", GAUGE, OF_DRIVE,
         "Names whose records do not say which shards they have. While there is one no orphan is discarded.",
         srv_write_drive_u64, IN_DRIVE(unknown_owners)},
        {"millrace_drive_unreliable", GAUGE, OF_DRIVE,
         "1: many places of the drive could not be read. It is read last; replace it.", srv_write_drive_bool,
         IN_DRIVE(unreliable)},
        {"millrace_drive_scrub_running", GAUGE, OF_DRIVE, "1: a round of the scrub through the drive's data is under way.",
         srv_write_drive_bool, IN_DRIVE(scrub.running)},
        {"millrace_drive_scrub_bytes", GAUGE, OF_DRIVE, "Bytes that the round has gone through.", srv_write_drive_u64,
         IN_DRIVE(scrub.bytes)},
        {"millrace_drive_scrub_total_bytes", GAUGE, OF_DRIVE, "Bytes that there were to go through when it began.",
         srv_write_drive_u64, IN_DRIVE(scrub.total)},
        {"millrace_drive_scrub_late", GAUGE, OF_DRIVE,
         "1: the round takes longer than scrub_period. Raise scrub_rate, or the period.", srv_write_drive_bool,
         IN_DRIVE(scrub.late)},
        {"millrace_drive_scrub_ended_ms", GAUGE, OF_DRIVE,
         "When the last complete round ended, milliseconds since 1970; 0: none has.", srv_write_drive_u64,
         IN_DRIVE(scrub.last_ended_ms)},
        {"millrace_drive_scrub_damaged_total", COUNTER, OF_DRIVE,
         "Shards and records that the scrub found damaged since the drive was opened.", srv_write_drive_u64, IN_DRIVE(scrub.damaged)},
        {"millrace_drive_scrub_unrepaired", GAUGE, OF_DRIVE,
         "Shards known to be damaged, and not written anew yet.", srv_write_drive_u64, IN_DRIVE(scrub.unrepaired)},
        {"millrace_drive_scrub_gaps", GAUGE, OF_DRIVE, "Places where the scrub found nothing that is right, and nobody can tell what stood there.",
         srv_write_drive_u64, IN_DRIVE(scrub.gaps)},
        {"millrace_drive_scrub_gaps_owed", GAUGE, OF_DRIVE, "1: names are to be compared for such places, and have not been yet.",
         srv_write_drive_bool, IN_DRIVE(scrub.owed)},
        {"millrace_drive_scrub_gaps_dropped_total", COUNTER, OF_DRIVE,
         "Such places that were too many to be remembered, since the drive was opened: another round finds them.", srv_write_drive_u64,
         IN_DRIVE(scrub.gaps_dropped)},
        {"millrace_drive_scrub_rate", GAUGE, OF_DRIVE, "Bytes a second at which the round is to be read; 0: none is under way.",
         srv_write_drive_u64, IN_DRIVE(scrub.rate)},
        {"millrace_drive_index_bytes", GAUGE, OF_DRIVE, "Bytes of the index.", srv_write_drive_u64,
         IN_DRIVE(index_bytes)},
        {"millrace_drive_tail_bytes", GAUGE, OF_DRIVE, "Memory of entries that the index does not hold yet.",
         srv_write_drive_u64, IN_DRIVE(tail_bytes)},
        {"millrace_drive_queue", GAUGE, OF_DRIVE, "Operations under way or waiting.", srv_write_drive_u64,
         IN_DRIVE(queue)},
        {"millrace_drive_operations_total", COUNTER, OF_DRIVE, "Operations done.", srv_write_drive_u64, IN_DRIVE(ops)},
        {"millrace_drive_errors_total", COUNTER, OF_DRIVE, "Operations that failed.", srv_write_drive_u64,
         IN_DRIVE(errors)},
        {"millrace_drive_appends_total", COUNTER, OF_DRIVE, "Records appended to the log.", srv_write_drive_u64,
         IN_DRIVE(appends)},
        {"millrace_drive_batches_total", COUNTER, OF_DRIVE, "Durable writes of the log; appends share them.",
         srv_write_drive_u64, IN_DRIVE(batches)},
        {"millrace_drive_syncs_total", COUNTER, OF_DRIVE, "Flushes of data segments.", srv_write_drive_u64,
         IN_DRIVE(syncs)},
        {"millrace_drive_operation_seconds", HISTOGRAM, "drive, operation",
         "Operations from submission until the drive answers, whoever asks for them (requests, healing, scrub): "
         "append (a record becomes durable), commit (and visible), lookup, scan, write (one frame), sync, read (of "
         "one frame, verified), discard, held, ids, tail, record, scrub (a stretch of a segment). And what it does within: log_wait, an append waits "
         "for its group; log_write, a group is written durably; data_flush, a segment is flushed; checksum, a frame "
         "is given its checksums or checked by them. Those that never happened are left out; a drive that takes a "
         "slot over goes on from the figures of the one before.",
         srv_write_drive_steps, WHOLE},
        {"millrace_drive_read_bytes_total", COUNTER, OF_DRIVE, "Bytes read.", srv_write_drive_u64,
         IN_DRIVE(read_bytes)},
        {"millrace_drive_written_bytes_total", COUNTER, OF_DRIVE, "Bytes written.", srv_write_drive_u64,
         IN_DRIVE(written_bytes)},

        {"millrace_verify_running", GAUGE, "", "1: a verification reads everything.", srv_write_bool,
         IN(verify.running)},
        {"millrace_verify_objects", GAUGE, "", "Objects read by the last verification.", srv_write_u64,
         IN(verify.objects)},
        {"millrace_verify_bytes", GAUGE, "", "Bytes read by the last verification.", srv_write_u64, IN(verify.bytes)},
        {"millrace_verify_damaged_shards", GAUGE, "", "Shards whose checksum failed in the last verification.",
         srv_write_u64, IN(verify.damaged_shards)},
        {"millrace_verify_repaired_shards", GAUGE, "", "Shards that the last verification mended.", srv_write_u64,
         IN(verify.repaired_shards)},
        {"millrace_verify_missing_shards", GAUGE, "", "Shards that the last verification did not find.", srv_write_u64,
         IN(verify.missing_shards)},
        {"millrace_verify_unread_shards", GAUGE, "", "Shards and copies of names of which the last verification knows nothing: their drives could not look.",
         srv_write_u64, IN(verify.unread_shards)},
        {"millrace_verify_unreadable_objects", GAUGE, "", "Objects that the last verification could not read.",
         srv_write_u64, IN(verify.unreadable_objects)},
        {"millrace_verify_differing_names", GAUGE, "", "Names of which the last verification found different copies.",
         srv_write_u64, IN(verify.differing_names)},
        {"millrace_verify_repaired_names", GAUGE, "", "Of these, those whose copies it made the same.", srv_write_u64,
         IN(verify.repaired_names)},
        {"millrace_scrub_differing_names", GAUGE, "", "Names of which the walk under way, or the last since the start, found different copies.",
         srv_write_u64, IN(scrub.differing_names)},
        {"millrace_scrub_running", GAUGE, "", "1: a walk of the scrub through all names is under way.", srv_write_bool, IN(scrub.running)},
        {"millrace_scrub_bytes", GAUGE, "", "Bytes of the objects that the walk under way has come to.", srv_write_u64,
         IN(scrub.bytes)},
        {"millrace_scrub_damaged_shards", GAUGE, "", "Copies of names and of small objects that the last complete walk found damaged.",
         srv_write_u64, IN(last_scrub.damaged_shards)},
        {"millrace_scrub_repaired_shards", GAUGE, "", "Of these and of the missing shards, those it wrote anew.",
         srv_write_u64, IN(last_scrub.repaired_shards)},
        {"millrace_scrub_missing_shards", GAUGE, "", "Shards that drives did not hold in the last complete walk, or held damaged.", srv_write_u64,
         IN(last_scrub.missing_shards)},
        {"millrace_scrub_unreadable_objects", GAUGE, "", "Objects that had too few shards in the last complete walk.",
         srv_write_u64, IN(last_scrub.unreadable_objects)},
        {"millrace_scrub_ended_ms", GAUGE, "", "When it ended, milliseconds since 1970; 0: none has.", srv_write_u64,
         IN(last_scrub.ended_ms)},

        {"millrace_loop_rounds_total", COUNTER, "loop", "Rounds of the event loop.", srv_write_loop_u64,
         IN_LOOP(rounds)},
        {"millrace_loop_messages_total", COUNTER, "loop", "Messages from other threads.", srv_write_loop_u64,
         IN_LOOP(messages)},
        {"millrace_loop_io_submitted_total", COUNTER, "loop", "File operations started.", srv_write_loop_u64,
         IN_LOOP(io_submitted)},
        {"millrace_loop_io_completed_total", COUNTER, "loop", "File operations done.", srv_write_loop_u64,
         IN_LOOP(io_completed)},
        {"millrace_loop_io_waiting", GAUGE, "loop", "File operations that wait for room in the ring.",
         srv_write_loop_u64, IN_LOOP(io_waiting)},
        {"millrace_arena_slots", GAUGE, "loop", "Buffers of 1 MiB in the arena.", srv_write_loop_u64, IN_LOOP(slots)},
        {"millrace_arena_slots_used", GAUGE, "loop", "Buffers in use.", srv_write_loop_u64, IN_LOOP(slots_used)},
        {"millrace_arena_slots_reserved", GAUGE, "loop, share (get, put, internal)", "Buffers promised to requests.",
         srv_write_loop_shares, IN_LOOP(reserved)},
        {"millrace_arena_waiting", GAUGE, "loop, share (get, put, internal)", "Requests that wait for buffers.",
         srv_write_loop_shares, IN_LOOP(reserve_waiting)},

        {"millrace_rdma_sessions", GAUGE, "", "RDMA sessions open now.", srv_write_u64, IN(rdma.sessions)},
        {"millrace_rdma_sessions_opened_total", COUNTER, "", "RDMA sessions opened.", srv_write_u64, IN(rdma.opened)},
        {"millrace_rdma_sessions_ended_total", COUNTER, "reason",
         "RDMA sessions that ended: request, expired, unconnected (nobody came), disconnect (the client left or "
         "died), revoked, broke-rule, rights (the client's device refused), timeout (it did not answer), stalled, "
         "device (ours failed), failed (could not be set up), shutdown.",
         srv_write_rdma_ends, WHOLE},
        {"millrace_rdma_connected_total", COUNTER, "", "Queue pairs connected.", srv_write_u64, IN(rdma.connected)},
        {"millrace_rdma_rejected_total", COUNTER, "",
         "Connections refused: malformed, unknown, seen before, or no room.", srv_write_u64, IN(rdma.rejected)},
        {"millrace_rdma_requests_total", COUNTER, "", "Requests over HTTP that a session took.", srv_write_u64,
         IN(rdma.requests)},
        {"millrace_rdma_batches_total", COUNTER, "", "BATCH messages.", srv_write_u64, IN(rdma.batches)},
        {"millrace_rdma_batch_entries_total", COUNTER, "", "Entries of them.", srv_write_u64, IN(rdma.entries)},
        {"millrace_rdma_writes_total", COUNTER, "", "RDMA writes done.", srv_write_u64, IN(rdma.writes)},
        {"millrace_rdma_written_bytes_total", COUNTER, "", "Bytes written into clients' memory.", srv_write_u64,
         IN(rdma.bytes_written)},
        {"millrace_rdma_reads_total", COUNTER, "", "RDMA reads done.", srv_write_u64, IN(rdma.reads)},
        {"millrace_rdma_read_bytes_total", COUNTER, "", "Bytes read from clients' memory.", srv_write_u64,
         IN(rdma.bytes_read)},
        {"millrace_rdma_copied_bytes_total", COUNTER, "",
         "Bytes written into clients' memory that had to be copied into registered memory first.", srv_write_u64,
         IN(rdma.bytes_copied)},
        {"millrace_rdma_queue_busy_seconds_total", COUNTER, "",
         "Time in which something was posted on a session's queue pair and not completed, summed over sessions.",
         srv_write_seconds, IN(rdma.busy_ns)},
        {"millrace_rdma_queue_gap_seconds_total", COUNTER, "",
         "Time in which nothing was, though a request had had its first WRITE or READ and more were to come.",
         srv_write_seconds, IN(rdma.gap_ns)},
        {"millrace_rdma_in_flight", GAUGE, "", "Work requests posted and not completed.", srv_write_u64,
         IN(rdma.in_flight)},
        {"millrace_rdma_starved_total", COUNTER, "", "Times a loop had work and no room left on its device.",
         srv_write_u64, IN(rdma.starved)},
        {"millrace_rdma_tokens_total", COUNTER, "", "Requests by x-amz-rdma-token that an initiator took.",
         srv_write_u64, IN(rdma.tokens)},
        {"millrace_rdma_token_resets_total", COUNTER, "", "Initiators made ready again after an error of a target's.",
         srv_write_u64, IN(rdma.token_resets)},
        {"millrace_rdma_declined_total", COUNTER, "reason (off, device, policy, sse-c, queue-pairs, target, reads)",
         "Requests for RDMA that were answered over TCP.", srv_write_rdma_declines, WHOLE},
        {"millrace_rdma_seconds", HISTOGRAM, "stage",
         "Stages of a transfer: queued (a write waits for its turn), wire (until its completion), notice (from the "
         "last byte given to the end).",
         srv_write_rdma_stages, WHOLE},

        {"millrace_access_log_lines_total", COUNTER, "", "Lines taken for the access log.", srv_write_u64,
         IN(access.lines)},
        {"millrace_access_log_dropped_total", COUNTER, "", "Lines dropped because the writer was behind.",
         srv_write_u64, IN(access.dropped)},
        {"millrace_access_log_failed_total", COUNTER, "", "Lines that the file refused.", srv_write_u64,
         IN(access.failed)},

        {"process_resident_memory_bytes", GAUGE, "", "Resident memory, mapped files included.", srv_write_u64,
         IN(process.resident_bytes)},
        {"process_virtual_memory_bytes", GAUGE, "", "Virtual memory.", srv_write_u64, IN(process.virtual_bytes)},
        {"process_open_fds", GAUGE, "", "Open descriptors.", srv_write_u64, IN(process.open_fds)},
        {"process_max_fds", GAUGE, "", "Limit of open descriptors.", srv_write_u64, IN(process.max_fds)},
        {"process_threads", GAUGE, "", "Threads.", srv_write_u64, IN(process.threads)},
        {"process_cpu_seconds_total", COUNTER, "", "Time on processors, user and system.", srv_write_cpu, WHOLE},
        {"process_start_time_seconds", GAUGE, "", "Time of the start, seconds since 1970.", srv_write_start_time,
         WHOLE},
};

#define METRIC_COUNT (sizeof(metrics) / sizeof(metrics[0]))

static const char *kind_name(enum metric_kind kind)
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
