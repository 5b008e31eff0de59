/*
 * metrics.c - the one table of metrics, and the text made of it.
 *
 * Called by the admin listener's thread over a snapshot. A row is a family: what it is called, what
 * it is, and a function that writes its samples (metrics_samples.c). Figures that the modules count
 * are read, not kept here.
 */
#include "server/metrics_table.h"

#include <assert.h>
#include <string.h>

#define IN(member)       .offset = offsetof(struct srv_statistics, member)
#define IN_OP(member)    .offset = offsetof(struct gw_op_stats, member)
#define IN_LOOP(member)  .offset = offsetof(struct lp_stats, member)
#define IN_DRIVE(member) .offset = offsetof(struct eng_drive_info, member)
#define IN_POOL(member)  .offset = offsetof(struct srv_pool_statistics, member)
#define IN_LED(member)   .offset = offsetof(struct srv_pool_led, member)
#define WHOLE            .offset = 0
#define OF_DRIVE         "drive, path"

static const struct metric metrics[] = {
        {"millrace_build_info", GAUGE, "version", "Always 1. The label is the daemon's version.", srv_write_build,
         WHOLE},
        {"millrace_uptime_seconds", GAUGE, "", "Seconds since the daemon started.", srv_write_uptime, WHOLE},

        {"millrace_ready", GAUGE, "", "1: the store has recovered and answers reads.", srv_write_bool,
         IN(health.ready)},
        {"millrace_writable", GAUGE, "",
         "1: the store can accept changes: it is ready, the write quorum is held, no drive is full, and no index is "
         "stalled. An operator may have switched them off nevertheless: millrace_read_only.",
         srv_write_bool, IN(health.writable)},
        {"millrace_read_only", GAUGE, "",
         "1: an operator has switched off changes, by millrace admin read-only on or the setting read_only.", srv_write_bool, IN(read_only)},
        {"millrace_maintenance", GAUGE, "",
         "1: an operator has switched maintenance on: /health/ready answers 503, and answers end their connections.", srv_write_bool,
         IN(maintenance)},
        {"millrace_lock_clock_frozen", GAUGE, "",
         "1: the start found the wall clock further ahead than the lock clock may follow: retention ends late until millrace admin "
         "lock-clock --confirm.",
         srv_write_bool, IN(health.lock.frozen)},
        {"millrace_changes_active", GAUGE, "", "Requests under way that may change something.", srv_write_u64, IN(gateway.changes_active)},
        {"millrace_full", GAUGE, "",
         "1: PUTs are refused because a drive in use has less free space than its reserve, or no room for a log file.",
         srv_write_bool, IN(health.full)},
        {"millrace_full_forecast_seconds", GAUGE, "",
         "Seconds until PUTs are refused for want of space, at the pace at which the drives in use have grown: the least of "
         "millrace_drive_full_forecast_seconds. +Inf: none grows, or too little is known.",
         srv_write_forecast, WHOLE},
        {"millrace_epoch", GAUGE, "", "Number of the epoch in force. It grows each time the set of members changes.",
         srv_write_u64, IN(health.epoch)},
        {"millrace_buckets", GAUGE, "", "Number of buckets.", srv_write_u64, IN(health.buckets)},
        {"millrace_drives", GAUGE, "", "Drives that belong to the store, whatever their state.", srv_write_drives,
         WHOLE},
        {"millrace_drives_in", GAUGE, "", "Drives that are in use (state in).", srv_write_unsigned,
         IN(health.drives_in)},
        {"millrace_ec_data_shards", GAUGE, "", "Data shards (K) of the erasure code.", srv_write_unsigned,
         IN(health.ec_k)},
        {"millrace_ec_parity_shards", GAUGE, "", "Parity shards (M) of the erasure code.", srv_write_unsigned,
         IN(health.ec_m)},
        {"millrace_drive_losses_left", GAUGE, "",
         "M minus the drives that are not in use: so many more drives may fail while every object that has all its "
         "shards stays readable. Objects in millrace_objects_below_redundancy tolerate fewer.",
         srv_write_losses_left, WHOLE},

        {"millrace_pool_ready", GAUGE, "pool",
         "Of a cluster with several pools, at a node: 1: it answers reads of the pool's buckets. millrace_ready and the rest are of the first pool.", srv_write_pool_bool,
         IN_POOL(ready)},
        {"millrace_pool_writable", GAUGE, "pool", "The same of changes.", srv_write_pool_bool, IN_POOL(writable)},
        {"millrace_pool_epoch", GAUGE, "pool", "Number of the pool's epoch.", srv_write_pool_u64, IN_POOL(epoch)},
        {"millrace_pool_drives_in", GAUGE, "pool", "Drives of the pool that are in use.", srv_write_pool_u64, IN_POOL(drives_in)},

        {"millrace_cluster_etcd_silent_seconds", GAUGE, "",
         "Seconds since etcd last answered this process, which asks it each second.", srv_write_cluster_seconds, IN(cluster.etcd_silent_ns)},
        {"millrace_cluster_nodes_silent", GAUGE, "", "Other nodes of the cluster that this process does not reach.", srv_write_cluster_u64,
         IN(cluster.nodes_silent)},
        {"millrace_cluster_clock_skew_ms", GAUGE, "",
         "The largest difference of another node's clock from this one's, as they said when they last connected.", srv_write_cluster_u64,
         IN(cluster.clock_skew_ms)},
        {"millrace_cluster_pool_led", GAUGE, "pool",
         "1: some node leads the pool, by a lease of etcd; as etcd last answered.", srv_write_cluster_pool, IN_LED(led)},
        {"millrace_cluster_pool_leads", GAUGE, "pool", "1: this node leads the pool.", srv_write_cluster_pool, IN_LED(here)},

        {"millrace_requests_total", COUNTER, "operation, status (2xx to 5xx)",
         "Requests answered, by class of the status. A request that ended without an answer counts only in "
         "millrace_request_duration_seconds.",
         srv_write_op_status, WHOLE},
        {"millrace_request_duration_seconds", HISTOGRAM, "operation",
         "Time from a request's first line to the last byte of its answer.", srv_write_op_latency, WHOLE},
        {"millrace_request_stage_seconds", HISTOGRAM, "stage",
         "The parts of that time, all operations together. The stages follow one another and add up to it. head: "
         "receive the head; parse: parse it; authenticate: check the signature and find the bucket; look: ask the "
         "engine what must be known before the body; body: receive it, hash it, encode it and write it to drives; "
         "work: the engine works (lookups, records, flushes); send: send the answer, and meanwhile read a large "
         "object.",
         srv_write_stages, WHOLE},
        {"millrace_request_step_seconds", HISTOGRAM, "stage (queue, drive, hash, encode), step",
         "Single steps within those stages. A request may take a step often or never, and some steps run in parallel. "
         "Reads and changes by rebuilds count, too. queue: buffers, a GET or PUT of a large object waits for its "
         "buffers (0: they were free); room, an upload waits until some of its own buffers are written and hashed; "
         "key, a change waits for earlier changes of its key (0: there were none). drive: lookup, look up a name; "
         "read, read the wanted units of a stripe, one stripe ahead of the answer; write and sync, from an upload's "
         "last byte until its shards are written, and until they are durable; record, make the record of a change "
         "durable and visible on all its drives. hash: md5, hash a piece of an upload together with other uploads, "
         "waiting included; checksums, SHA-256 and CRCs of a piece of a body; chunks, aws-chunked framing with its "
         "signatures. encode: parity, add a unit to its stripe's parity; rebuild, compute missing units of a stripe.",
         srv_write_steps, WHOLE},
        {"millrace_request_received_bytes_total", COUNTER, "operation", "Bytes of request bodies.", srv_write_op_u64,
         IN_OP(bytes_in)},
        {"millrace_request_sent_bytes_total", COUNTER, "operation", "Bytes of response bodies.", srv_write_op_u64,
         IN_OP(bytes_out)},
        {"millrace_batch_entries_total", COUNTER, "way (http, rdma), code (of docs/rdma-protocol.md, by name)",
         "Entries of batches that got a result. An entry of GetBatch over HTTP counts when all of it was sent, one of "
         "a BATCH message when its writes were handed over.",
         srv_write_batch_entries, WHOLE},
        {"millrace_requests_active", GAUGE, "", "HTTP requests being served now.", srv_write_u64,
         IN(gateway.requests_active)},
        {"millrace_connections_open", GAUGE, "", "HTTP connections open now.", srv_write_u64,
         IN(gateway.connections_open)},
        {"millrace_connections_total", COUNTER, "", "HTTP connections accepted.", srv_write_u64,
         IN(gateway.connections_total)},
        {"millrace_connections_evicted_total", COUNTER, "",
         "Connections that were closed to make room: unauthenticated or idle ones.", srv_write_u64,
         IN(gateway.connections_evicted)},
        {"millrace_upload_memory_bytes", GAUGE, "",
         "Memory reserved for XML bodies, and for uploads until they have buffers of the arena. The setting "
         "upload_memory bounds it.",
         srv_write_u64, IN(gateway.upload_memory_used)},
        {"millrace_answer_memory_bytes", GAUGE, "",
         "Memory reserved for answers until clients have read them; the smallest answers are not counted. The setting "
         "answer_memory bounds it.",
         srv_write_u64, IN(gateway.answer_memory_used)},

        {"millrace_lifecycle_running", GAUGE, "", "1: a pass over the buckets with lifecycle rules is under way.", srv_write_bool,
         IN(lifecycle.running)},
        {"millrace_lifecycle_passes_total", COUNTER, "", "Passes over the buckets with lifecycle rules that have ended.", srv_write_u64,
         IN(lifecycle.passes)},
        {"millrace_lifecycle_looked_at_total", COUNTER, "", "Versions and unfinished uploads that rules were compared with.",
         srv_write_u64, IN(lifecycle.looked_at)},
        {"millrace_lifecycle_expired_total", COUNTER, "",
         "Objects that rules expired: deleted, or given a delete marker where the bucket has versions.", srv_write_u64,
         IN(lifecycle.expired)},
        {"millrace_lifecycle_versions_deleted_total", COUNTER, "", "Noncurrent versions that rules deleted.", srv_write_u64,
         IN(lifecycle.versions)},
        {"millrace_lifecycle_markers_deleted_total", COUNTER, "", "Expired delete markers that rules deleted.", srv_write_u64,
         IN(lifecycle.markers)},
        {"millrace_lifecycle_uploads_aborted_total", COUNTER, "", "Unfinished uploads that rules aborted.", srv_write_u64,
         IN(lifecycle.uploads)},
        {"millrace_lifecycle_protected_total", COUNTER, "", "Versions that were due and stay, because object lock protects them.",
         srv_write_u64, IN(lifecycle.protected)},
        {"millrace_lifecycle_failed_total", COUNTER, "",
         "Changes and pages of listings that failed; pages are tried again, changes with the next pass.", srv_write_u64,
         IN(lifecycle.failed)},
        {"millrace_lifecycle_skipped_total", COUNTER, "",
         "Listings of a prefix that failed again and again: what was left of them is for the next pass.", srv_write_u64,
         IN(lifecycle.skipped)},
        {"millrace_lifecycle_resumed_total", COUNTER, "",
         "Passes that went on where one was cut off: by the end of the process, or by a switch to read-only.", srv_write_u64,
         IN(lifecycle.resumed)},

        {"millrace_inventory_running", GAUGE, "", "1: a pass over the buckets with inventory configurations is under way.",
         srv_write_bool, IN(inventory.running)},
        {"millrace_inventory_passes_total", COUNTER, "", "Passes over the buckets with inventory configurations that have ended.",
         srv_write_u64, IN(inventory.passes)},
        {"millrace_inventory_reports_total", COUNTER, "", "Inventory reports that were written.", srv_write_u64,
         IN(inventory.reports)},
        {"millrace_inventory_listed_total", COUNTER, "", "Objects and versions that were listed for reports.", srv_write_u64,
         IN(inventory.listed)},
        {"millrace_inventory_failed_total", COUNTER, "",
         "Reports that could not be written; the next pass begins them anew.", srv_write_u64, IN(inventory.failed)},
        {"millrace_inventory_refused_total", COUNTER, "",
         "Reports that were not written, since the policy of their destination does not let s3.amazonaws.com in.", srv_write_u64,
         IN(inventory.refused)},
        {"millrace_inventory_skipped_total", COUNTER, "",
         "Configurations that were passed over, since they ask for a format or a field that is not written.", srv_write_u64,
         IN(inventory.skipped)},

        {"millrace_bucket_log_records_total", COUNTER, "", "Records of buckets' access logs that were written to target buckets.",
         srv_write_u64, IN(logs.delivered)},
        {"millrace_bucket_log_objects_total", COUNTER, "", "Objects with such records.", srv_write_u64, IN(logs.objects)},
        {"millrace_bucket_log_dropped_total", COUNTER, "",
         "Records that were dropped, since there was no room for them or they could not be written.", srv_write_u64,
         IN(logs.dropped)},
        {"millrace_bucket_log_refused_total", COUNTER, "",
         "Records that were dropped, since their target bucket is gone, has object lock, or its policy does not let "
         "logging.s3.amazonaws.com in.",
         srv_write_u64, IN(logs.refused)},

        {"millrace_cache_bytes", GAUGE, "", "Memory held by the read cache of small objects.", srv_write_u64,
         IN(health.cache_bytes)},
        {"millrace_cache_hits_total", COUNTER, "", "Reads of small objects answered from the cache.", srv_write_u64,
         IN(health.cache_hits)},
        {"millrace_cache_misses_total", COUNTER, "",
         "Reads of small objects that were not in the cache and went to a drive.", srv_write_u64,
         IN(health.cache_misses)},
        {"millrace_degraded_reads_total", COUNTER, "",
         "Reads that needed reconstruction: a shard was damaged, missing, or on a drive that is out or unreliable.",
         srv_write_u64, IN(health.degraded_reads)},
        {"millrace_hedged_reads_total", COUNTER, "",
         "Extra reads of shards that were begun because others were late; about one in 20 reads at most.",
         srv_write_u64, IN(health.hedged_reads)},
        {"millrace_hedges_won_total", COUNTER, "",
         "Stripes of objects that were there by extra reads before the reads that were late.",
         srv_write_u64, IN(health.hedges_won)},
        {"millrace_repaired_reads_total", COUNTER, "",
         "Shards that reads found damaged on drives in use, reconstructed and rewrote.", srv_write_u64,
         IN(health.repaired_reads)},
        {"millrace_healing", GAUGE, "", "1: a walk is looking for missing shards, or rebuilding them, or a repair that failed is about to be tried again.", srv_write_bool,
         IN(health.healing)},
        {"millrace_objects_below_redundancy", GAUGE, "",
         "Large objects with shards missing or on drives that are out, as of the last complete walk. A walk under way "
         "raises it if it has met more.",
         srv_write_u64, IN(health.objects_below)},
        {"millrace_objects_lacking_shards", GAUGE, "missing (1 to M, more)",
         "The same objects by the number of shards that they lack at their worst place. Those that lack M are lost with the next shard; "
         "those that lack more cannot be read until drives are back.",
         srv_write_lacking, WHOLE},
        {"millrace_lost_objects", GAUGE, "",
         "Large objects known, since the start, to have stripes that lost more than M shards: some of their bytes are "
         "lost. The log names them. An object leaves the count when it is deleted or readable again.",
         srv_write_u64, IN(health.lost_objects)},
        {"millrace_rebuilt_objects_total", COUNTER, "", "Objects whose missing shards were rebuilt.", srv_write_u64,
         IN(health.rebuilt_objects)},
        {"millrace_rebuilt_bytes_total", COUNTER, "", "Bytes of shards that these rebuilds wrote.", srv_write_u64,
         IN(health.rebuilt_bytes)},
        {"millrace_names_undecided", GAUGE, "",
         "Names whose copies differ between members and could not be made equal, as of the last complete walk. A walk "
         "under way raises it if it has met more.",
         srv_write_u64, IN(health.undecided_names)},
        {"millrace_heal_bytes_left", GAUGE, "",
         "Bytes of missing shards that the walk under way has met and not rebuilt yet. 0: no walk is under way.",
         srv_write_u64, IN(health.heal_bytes_left)},
        {"millrace_whole_in_seconds", GAUGE, "",
         "Estimated seconds until these bytes are rebuilt, at the pace so far. 0: nothing is left, or no estimate is "
         "possible yet.",
         srv_write_u64, IN(health.heal_seconds_left)},
        {"millrace_heal_rate", GAUGE, "",
         "Bytes a second that background maintenance may use now: the setting heal_rate, or a rate that follows from "
         "the size of the drives; more while no client works, less while one waits.",
         srv_write_u64, IN(health.heal_rate)},
        {"millrace_collecting_orphans", GAUGE, "",
         "1: drives are being searched for orphans, which are shards that no record refers to.", srv_write_bool,
         IN(health.collecting_orphans)},
        {"millrace_orphan_ids_total", COUNTER, "",
         "Object ids whose orphans a drive discarded, one for each id and drive. Counted when a search ends.",
         srv_write_u64, IN(health.orphan_ids)},
        {"millrace_reconciled_records_total", COUNTER, "",
         "Records that recovery copied to a member that lacked them, one for each record and member.", srv_write_u64,
         IN(health.reconciled_records)},

        {"millrace_drive_state", GAUGE, OF_DRIVE ", state (in, missing, stale, failed, joining, removed)",
         "1 for the state that a drive is in.", srv_write_drive_state, WHOLE},
        {"millrace_drive_total_bytes", GAUGE, OF_DRIVE, "Size of the drive's file system.", srv_write_drive_u64,
         IN_DRIVE(total_bytes)},
        {"millrace_drive_free_bytes", GAUGE, OF_DRIVE, "Free space of the drive's file system.", srv_write_drive_u64,
         IN_DRIVE(free_bytes)},
        {"millrace_drive_reserve_bytes", GAUGE, OF_DRIVE,
         "Free space that is kept for deletes and repairs: PUTs are refused when less is free.", srv_write_drive_u64,
         IN_DRIVE(reserve_bytes)},
        {"millrace_drive_full_forecast_seconds", GAUGE, OF_DRIVE,
         "Seconds until the drive has less free space than its reserve, at the pace of the last 6 hours if that is within "
         "a day, or of the last 7 days, whichever is sooner. +Inf: it does not grow, or it has been in use for less than an "
         "hour (half a day, for the second) since the start, or is being filled from other drives.",
         srv_write_drive_forecast, WHOLE},
        {"millrace_drive_log_bytes", GAUGE, OF_DRIVE, "Bytes of log files, preallocated space included.",
         srv_write_drive_u64, IN_DRIVE(log_bytes)},
        {"millrace_drive_data_bytes", GAUGE, OF_DRIVE, "Bytes of data segments, preallocated space included.",
         srv_write_drive_u64, IN_DRIVE(data_bytes)},
        {"millrace_drive_log_live_bytes", GAUGE, OF_DRIVE,
         "Bytes of log files that are still referred to (names, values, small objects), as of the last write of the "
         "index.",
         srv_write_drive_u64, IN_DRIVE(log_live_bytes)},
        {"millrace_drive_data_live_bytes", GAUGE, OF_DRIVE,
         "Bytes of data segments that are still referred to (shards). The rest is dead or not used yet.",
         srv_write_drive_u64, IN_DRIVE(data_live_bytes)},
        {"millrace_drive_reclaim_copied_bytes_total", COUNTER, OF_DRIVE,
         "Bytes that reclaim moved out of mostly dead log files and segments.", srv_write_drive_u64,
         IN_DRIVE(reclaim_copied)},
        {"millrace_drive_reclaim_freed_bytes_total", COUNTER, OF_DRIVE,
         "Bytes of log files and segments that were deleted.", srv_write_drive_u64, IN_DRIVE(reclaim_freed)},
        {"millrace_drive_index_reads_total", COUNTER, OF_DRIVE,
         "Reads of index pages that a lookup needed and that were not in memory.", srv_write_drive_u64,
         IN_DRIVE(index_reads)},
        {"millrace_drive_reclaim_damaged_total", COUNTER, OF_DRIVE,
         "Shards and values that reclaim found damaged and left in place.", srv_write_drive_u64,
         IN_DRIVE(reclaim_damaged)},
        {"millrace_drive_read_errors_total", COUNTER, OF_DRIVE,
         "Reads that failed or took too long. Other drives serve the data, and it is repaired. A place that is read "
         "again counts again.",
         srv_write_drive_u64, IN_DRIVE(read_errors)},
        {"millrace_drive_unknown_owners", GAUGE, OF_DRIVE,
         "Names whose records do not tell which shards they have. While there is one, no orphan is discarded.",
         srv_write_drive_u64, IN_DRIVE(unknown_owners)},
        {"millrace_drive_unreliable", GAUGE, OF_DRIVE,
         "1: many places of the drive could not be read. It is read last; replace it.", srv_write_drive_bool,
         IN_DRIVE(unreliable)},
        {"millrace_drive_scrub_running", GAUGE, OF_DRIVE,
         "1: a round of the scrub through the drive's files is under way.", srv_write_drive_bool,
         IN_DRIVE(scrub.running)},
        {"millrace_drive_scrub_bytes", GAUGE, OF_DRIVE, "Bytes that this round has gone through.", srv_write_drive_u64,
         IN_DRIVE(scrub.bytes)},
        {"millrace_drive_scrub_total_bytes", GAUGE, OF_DRIVE, "Bytes that this round had to go through when it began.",
         srv_write_drive_u64, IN_DRIVE(scrub.total)},
        {"millrace_drive_scrub_late", GAUGE, OF_DRIVE,
         "1: this round takes longer than the setting scrub_period. Raise scrub_rate, or the period.",
         srv_write_drive_bool, IN_DRIVE(scrub.late)},
        {"millrace_drive_scrub_ended_ms", GAUGE, OF_DRIVE,
         "End of the last complete round, in milliseconds since 1970. 0: none yet.", srv_write_drive_u64,
         IN_DRIVE(scrub.last_ended_ms)},
        {"millrace_drive_scrub_damaged_total", COUNTER, OF_DRIVE,
         "Shards and records that the scrub found damaged since the drive was opened.", srv_write_drive_u64,
         IN_DRIVE(scrub.damaged)},
        {"millrace_drive_scrub_unrepaired", GAUGE, OF_DRIVE, "Shards known to be damaged and not rewritten yet.",
         srv_write_drive_u64, IN_DRIVE(scrub.unrepaired)},
        {"millrace_drive_scrub_gaps", GAUGE, OF_DRIVE,
         "Places where the scrub found nothing valid, so that nobody can tell what was stored there.",
         srv_write_drive_u64, IN_DRIVE(scrub.gaps)},
        {"millrace_drive_scrub_gaps_owed", GAUGE, OF_DRIVE,
         "1: names must be compared because of such places, and have not been yet.", srv_write_drive_bool,
         IN_DRIVE(scrub.owed)},
        {"millrace_drive_scrub_gaps_dropped_total", COUNTER, OF_DRIVE,
         "Such places beyond those that the drive could remember, since it was opened. Another round finds them.",
         srv_write_drive_u64, IN_DRIVE(scrub.gaps_dropped)},
        {"millrace_drive_scrub_rate", GAUGE, OF_DRIVE,
         "Bytes a second at which the round under way should read. 0: none is under way.", srv_write_drive_u64,
         IN_DRIVE(scrub.rate)},
        {"millrace_drive_index_bytes", GAUGE, OF_DRIVE,
         "Bytes in use in the index, as of its last write. 0: not written since the drive was opened.",
         srv_write_drive_u64, IN_DRIVE(index_bytes)},
        {"millrace_drive_memtable_bytes", GAUGE, OF_DRIVE, "Memory of committed entries that the index does not hold yet.",
         srv_write_drive_u64, IN_DRIVE(memtable_bytes)},
        {"millrace_drive_queue", GAUGE, OF_DRIVE, "Records that wait for the log or are being written to it.",
         srv_write_drive_u64, IN_DRIVE(queue)},
        {"millrace_drive_operations_total", COUNTER, OF_DRIVE, "Operations that the drive was asked for.",
         srv_write_drive_u64, IN_DRIVE(ops)},
        {"millrace_drive_errors_total", COUNTER, OF_DRIVE,
         "Operations that ended with an I/O error or a wrong checksum, and the failure of the drive itself.",
         srv_write_drive_u64, IN_DRIVE(errors)},
        {"millrace_drive_appends_total", COUNTER, OF_DRIVE,
         "Records of changes that became durable in the log. Copies made by catch-up, rebuild and reclaim are not "
         "counted.",
         srv_write_drive_u64, IN_DRIVE(appends)},
        {"millrace_drive_batches_total", COUNTER, OF_DRIVE,
         "Durable writes of the log. Records that wait at the same time share one.", srv_write_drive_u64,
         IN_DRIVE(batches)},
        {"millrace_drive_syncs_total", COUNTER, OF_DRIVE,
         "Groups of sync operations that were answered after their data segments were flushed.", srv_write_drive_u64,
         IN_DRIVE(syncs)},
        {"millrace_drive_operation_seconds", HISTOGRAM, "drive, operation",
         "Time of drive operations from submission to answer, for requests, rebuilds and scrubs alike: append (a "
         "record becomes durable), commit (and visible), lookup, scan, write (one frame), sync, read (of one shard, "
         "verified), discard, tail and record (at recovery), held, ids and owned (questions about shards and their "
         "owners), scrub (a stretch of a segment), features (FORMAT is written anew), open (a leader's term is made durable). And the parts of operations: "
         "log_wait, an append waits for its group; log_write, a group is written durably; data_flush, a segment is flushed; checksum, the checksums of a "
         "frame are computed or verified. Operations that never happened are left out. A drive that takes over a slot "
         "continues the histograms of the previous one.",
         srv_write_drive_steps, WHOLE},
        {"millrace_drive_read_bytes_total", COUNTER, OF_DRIVE,
         "Bytes of shards and records that requests, rebuilds, verifications and scrubs read. Reads of the index, by "
         "reclaim and at the start are not counted.",
         srv_write_drive_u64, IN_DRIVE(read_bytes)},
        {"millrace_drive_written_bytes_total", COUNTER, OF_DRIVE,
         "Bytes written to the log and to segments, reclaim included. Writes of the index are not counted.",
         srv_write_drive_u64, IN_DRIVE(written_bytes)},

        {"millrace_verify_running", GAUGE, "",
         "1: a verification is under way. The metrics below describe it, or else the last one.", srv_write_bool,
         IN(verify.running)},
        {"millrace_verify_objects", GAUGE, "", "Objects that the verification has read.", srv_write_u64,
         IN(verify.objects)},
        {"millrace_verify_bytes", GAUGE, "", "Bytes of these objects.", srv_write_u64, IN(verify.bytes)},
        {"millrace_verify_damaged_shards", GAUGE, "", "Shards and copies of names that the verification found damaged.",
         srv_write_u64, IN(verify.damaged_shards)},
        {"millrace_verify_repaired_shards", GAUGE, "", "Shards and copies of names that the verification rewrote.",
         srv_write_u64, IN(verify.repaired_shards)},
        {"millrace_verify_missing_shards", GAUGE, "", "Shards that the verification did not find.", srv_write_u64,
         IN(verify.missing_shards)},
        {"millrace_verify_unread_shards", GAUGE, "",
         "Shards and copies of names that the verification could not examine, because their drives could not read "
         "them.",
         srv_write_u64, IN(verify.unread_shards)},
        {"millrace_verify_unreadable_objects", GAUGE, "", "Objects that the verification could not read.",
         srv_write_u64, IN(verify.unreadable_objects)},
        {"millrace_verify_differing_names", GAUGE, "",
         "Names of which the verification found different copies, or that some member lacked.", srv_write_u64,
         IN(verify.differing_names)},
        {"millrace_verify_repaired_names", GAUGE, "", "Of these, the names whose copies it made equal.", srv_write_u64,
         IN(verify.repaired_names)},
        {"millrace_scrub_differing_names", GAUGE, "",
         "Names of which the scrub's walk found different copies: the walk under way, or else the last one since the "
         "start.",
         srv_write_u64, IN(scrub.differing_names)},
        {"millrace_scrub_running", GAUGE, "", "1: a walk of the scrub through all names is under way.", srv_write_bool,
         IN(scrub.running)},
        {"millrace_scrub_bytes", GAUGE, "", "Bytes of the objects that the walk under way has reached.", srv_write_u64,
         IN(scrub.bytes)},
        {"millrace_scrub_damaged_shards", GAUGE, "",
         "Copies of names and of small objects that the last complete walk found damaged.", srv_write_u64,
         IN(last_scrub.damaged_shards)},
        {"millrace_scrub_repaired_shards", GAUGE, "",
         "Damaged copies and missing shards that the last complete walk rewrote.", srv_write_u64,
         IN(last_scrub.repaired_shards)},
        {"millrace_scrub_missing_shards", GAUGE, "",
         "Shards that the last complete walk found missing, or known to be damaged.", srv_write_u64,
         IN(last_scrub.missing_shards)},
        {"millrace_scrub_unreadable_objects", GAUGE, "", "Objects that had too few shards in the last complete walk.",
         srv_write_u64, IN(last_scrub.unreadable_objects)},
        {"millrace_scrub_ended_ms", GAUGE, "",
         "End of the last complete walk, in milliseconds since 1970. 0: none yet.", srv_write_u64,
         IN(last_scrub.ended_ms)},

        {"millrace_loop_rounds_total", COUNTER, "loop", "Rounds of the event loop.", srv_write_loop_u64,
         IN_LOOP(rounds)},
        {"millrace_loop_messages_total", COUNTER, "loop",
         "Messages that the loop received, from other threads and from itself.", srv_write_loop_u64, IN_LOOP(messages)},
        {"millrace_loop_io_submitted_total", COUNTER, "loop", "File operations passed to the kernel.",
         srv_write_loop_u64, IN_LOOP(io_submitted)},
        {"millrace_loop_io_completed_total", COUNTER, "loop", "File operations that the kernel completed.",
         srv_write_loop_u64, IN_LOOP(io_completed)},
        {"millrace_loop_io_waiting", GAUGE, "loop", "File operations that wait for room in the ring.",
         srv_write_loop_u64, IN_LOOP(io_waiting)},
        {"millrace_arena_slots", GAUGE, "loop", "Buffers of 1 MiB in the arena (the loop's buffer pool).",
         srv_write_loop_u64, IN_LOOP(slots)},
        {"millrace_arena_slots_used", GAUGE, "loop", "Buffers in use.", srv_write_loop_u64, IN_LOOP(slots_used)},
        {"millrace_arena_slots_reserved", GAUGE, "loop, share (get, put, internal, peer)", "Buffers promised to requests.",
         srv_write_loop_shares, IN_LOOP(reserved)},
        {"millrace_arena_waiting", GAUGE, "loop, share (get, put, internal, peer)", "Requests that wait for buffers.",
         srv_write_loop_shares, IN_LOOP(reserve_waiting)},

        {"millrace_rdma_sessions", GAUGE, "", "RDMA sessions open now.", srv_write_u64, IN(rdma.sessions)},
        {"millrace_rdma_sessions_opened_total", COUNTER, "", "RDMA sessions opened.", srv_write_u64, IN(rdma.opened)},
        {"millrace_rdma_sessions_ended_total", COUNTER, "reason",
         "RDMA sessions that ended, by reason: request (the client asked for it), expired, unconnected (no client "
         "connected in time), disconnect (the client left or died), revoked (its credentials), broke-rule (an invalid "
         "message), rights (the client's device refused access), timeout (the client's device did not answer), stalled "
         "(no progress), device (the server's device failed), failed (could not be set up), shutdown.",
         srv_write_rdma_ends, WHOLE},
        {"millrace_rdma_connected_total", COUNTER, "", "Queue pairs connected.", srv_write_u64, IN(rdma.connected)},
        {"millrace_rdma_rejected_total", COUNTER, "",
         "Connections refused: malformed, unknown session, connected before, or no room.", srv_write_u64,
         IN(rdma.rejected)},
        {"millrace_rdma_requests_total", COUNTER, "", "HTTP requests with a window that a session accepted.",
         srv_write_u64, IN(rdma.requests)},
        {"millrace_rdma_batches_total", COUNTER, "", "BATCH messages received.", srv_write_u64, IN(rdma.batches)},
        {"millrace_rdma_batch_entries_total", COUNTER, "", "Entries of BATCH messages received.", srv_write_u64,
         IN(rdma.entries)},
        {"millrace_rdma_writes_total", COUNTER, "", "RDMA WRITEs that succeeded.", srv_write_u64, IN(rdma.writes)},
        {"millrace_rdma_written_bytes_total", COUNTER, "", "Bytes written into clients' memory.", srv_write_u64,
         IN(rdma.bytes_written)},
        {"millrace_rdma_reads_total", COUNTER, "", "RDMA READs that succeeded.", srv_write_u64, IN(rdma.reads)},
        {"millrace_rdma_read_bytes_total", COUNTER, "", "Bytes read from clients' memory.", srv_write_u64,
         IN(rdma.bytes_read)},
        {"millrace_rdma_copied_bytes_total", COUNTER, "",
         "Of the bytes written into clients' memory, those that were first copied into registered memory.",
         srv_write_u64, IN(rdma.bytes_copied)},
        {"millrace_rdma_queue_busy_seconds_total", COUNTER, "",
         "Time in which something was posted on a session's queue pair and not completed, summed over sessions.",
         srv_write_seconds, IN(rdma.busy_ns)},
        {"millrace_rdma_queue_gap_seconds_total", COUNTER, "",
         "Time in which nothing was posted, although a request had had its first WRITE or READ and was to have more, "
         "summed over sessions.",
         srv_write_seconds, IN(rdma.gap_ns)},
        {"millrace_rdma_in_flight", GAUGE, "", "Work requests posted and not completed.", srv_write_u64,
         IN(rdma.in_flight)},
        {"millrace_rdma_starved_total", COUNTER, "",
         "Times that a loop had work to post and no room left on its device.", srv_write_u64, IN(rdma.starved)},
        {"millrace_rdma_tokens_total", COUNTER, "", "Requests with x-amz-rdma-token that an initiator accepted.",
         srv_write_u64, IN(rdma.tokens)},
        {"millrace_rdma_token_resets_total", COUNTER, "",
         "Initiators that were reset or recreated after an error of a target.", srv_write_u64, IN(rdma.token_resets)},
        {"millrace_rdma_declined_total", COUNTER, "reason (off, device, policy, sse-c, queue-pairs, target, reads)",
         "Requests for RDMA that the server declined: it sends a GET's bytes over TCP and refuses an upload, which the "
         "client repeats over TCP.",
         srv_write_rdma_declines, WHOLE},
        {"millrace_rdma_seconds", HISTOGRAM, "stage",
         "Stages of RDMA transfers. queued: a WRITE or READ waits until it is posted; wire: until its completion; "
         "notice: from the end of a request's data to the end of its transfer.",
         srv_write_rdma_stages, WHOLE},

        {"millrace_access_log_lines_total", COUNTER, "", "Lines accepted for the access log.", srv_write_u64,
         IN(access.lines)},
        {"millrace_access_log_dropped_total", COUNTER, "", "Lines dropped because the writer was behind.",
         srv_write_u64, IN(access.dropped)},
        {"millrace_access_log_failed_total", COUNTER, "", "Lines that could not be written to the file.", srv_write_u64,
         IN(access.failed)},

        {"process_resident_memory_bytes", GAUGE, "", "Resident memory, mapped files included.", srv_write_u64,
         IN(process.resident_bytes)},
        {"process_virtual_memory_bytes", GAUGE, "", "Virtual memory.", srv_write_u64, IN(process.virtual_bytes)},
        {"process_open_fds", GAUGE, "", "Open file descriptors.", srv_write_u64, IN(process.open_fds)},
        {"process_max_fds", GAUGE, "", "Limit of open file descriptors.", srv_write_u64, IN(process.max_fds)},
        {"process_threads", GAUGE, "", "Threads.", srv_write_u64, IN(process.threads)},
        {"process_cpu_seconds_total", COUNTER, "", "CPU time, user and system.", srv_write_cpu, WHOLE},
        {"process_start_time_seconds", GAUGE, "", "Time of the start, in seconds since 1970.", srv_write_start_time,
         WHOLE},
};

#define METRIC_COUNT (sizeof(metrics) / sizeof(metrics[0]))

/* Names that metrics had in version 0.1, written beside the new ones until the next version. */
static const struct old_name {
        const char *old, *now;
} old_names[] = {
        {"millrace_mended_objects_total", "millrace_rebuilt_objects_total"},
        {"millrace_mended_bytes_total", "millrace_rebuilt_bytes_total"},
        {"millrace_sweeping", "millrace_collecting_orphans"},
        {"millrace_swept_ids_total", "millrace_orphan_ids_total"},
        {"millrace_settled_records_total", "millrace_reconciled_records_total"},
        {"millrace_drive_tail_bytes", "millrace_drive_memtable_bytes"},
};

#define OLD_NAME_COUNT (sizeof(old_names) / sizeof(old_names[0]))

static const struct metric *find_metric(const char *name)
{
        size_t i;

        for (i = 0; i < METRIC_COUNT; i++)
                if (strcmp(metrics[i].name, name) == 0)
                        return &metrics[i];
        return NULL;
}

static const char *kind_name(enum metric_kind kind)
{
        static const char *const names[] = {[COUNTER] = "counter", [GAUGE] = "gauge", [HISTOGRAM] = "histogram"};

        return names[kind];
}

void srv_metrics_write(const struct srv_statistics *statistics, FILE *out)
{
        size_t i;

        for (i = 0; i < METRIC_COUNT; i++) {
                fprintf(out, "# HELP %s %s\n# TYPE %s %s\n", metrics[i].name, metrics[i].help, metrics[i].name,
                        kind_name(metrics[i].kind));
                metrics[i].write(&metrics[i], statistics, out);
        }
        for (i = 0; i < OLD_NAME_COUNT; i++) {
                struct metric metric = *find_metric(old_names[i].now);

                metric.name = old_names[i].old;
                fprintf(out, "# HELP %s Old name of %s.\n# TYPE %s %s\n", metric.name, old_names[i].now, metric.name,
                        kind_name(metric.kind));
                metric.write(&metric, statistics, out);
        }
}

/* The sections of the page, by the metric that begins each: in the order of the table. */
static const struct section {
        const char *first, *title, *text;
} sections[] = {
        {"millrace_build_info", "The store", ""},
        {"millrace_cluster_etcd_silent_seconds", "The cluster",
         "At a node of a cluster alone; `/metrics/pool` has them as the pool's leader sees them.\n\n"},
        {"millrace_requests_total", "Requests and connections",
         "Operations that were never requested are left out.\n\n"},
        {"millrace_lifecycle_running", "Lifecycle rules", ""},
        {"millrace_inventory_running", "Inventory reports", ""},
        {"millrace_bucket_log_records_total", "Access logs of buckets", ""},
        {"millrace_cache_bytes", "Reads, rebuilds and background maintenance", ""},
        {"millrace_drive_state", "Drives",
         "`drive` is the id of the drive, `path` its folder. A drive's counters begin at 0 when it is opened.\n\n"},
        {"millrace_verify_running", "Verification and scrub",
         "A verification reads everything at once, on command. The scrub's walk goes through all names in the\n"
         "background; its rounds through the files of each drive are among the metrics of drives.\n\n"},
        {"millrace_loop_rounds_total", "Event loops", ""},
        {"millrace_rdma_sessions", "RDMA", ""},
        {"millrace_access_log_lines_total", "Access log and process", ""},
};

#define SECTION_COUNT (sizeof(sections) / sizeof(sections[0]))

static void print_section(const struct section *section, FILE *out)
{
        fprintf(out, "\n## %s\n\n%s| name | kind | labels | meaning |\n|---|---|---|---|\n", section->title,
                section->text);
}

void srv_print_metrics_markdown(FILE *out)
{
        size_t i, next = 0;

        fputs("# Metrics\n\n"
              "<!-- Made by `millraced --print-metrics-markdown` from server/metrics.c; a test compares. -->\n\n"
              "This page is for operators who build dashboards and alerts. `GET /metrics` on the admin listener\n"
              "answers with these metrics in Prometheus' text format. [operations.md](operations.md) says what to\n"
              "watch, and [glossary.md](glossary.md) explains the terms.\n",
              out);
        for (i = 0; i < METRIC_COUNT; i++) {
                if (next < SECTION_COUNT && strcmp(metrics[i].name, sections[next].first) == 0)
                        print_section(&sections[next++], out);
                fprintf(out, "| `%s` | %s | %s | %s |\n", metrics[i].name, kind_name(metrics[i].kind),
                        *metrics[i].labels != '\0' ? metrics[i].labels : "-", metrics[i].help);
        }
        assert(next == SECTION_COUNT);
        fputs("\n## Old names\n\nThese metrics had other names in version 0.1. The next version will write the new names alone.\n\n",
              out);
        for (i = 0; i < OLD_NAME_COUNT; i++)
                fprintf(out, "- `%s` is `%s`\n", old_names[i].old, old_names[i].now);
}
