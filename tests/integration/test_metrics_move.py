"""Each metric moves when that happens which its help text says: a table of actions, and of what each must change. What no action here can move cheaply is
listed with the test that looks at it, or the reason why none does; so a new metric needs a row in one of the two."""
import contextlib
import re
import socket
from pathlib import Path

import pytest

from tests.integration.test_drives import cli, drives_in, whole
from tests.integration.test_daemon import store_of
from tests.support.daemon import Daemon
from tests.support.getbatch import Entry, ask

MIB = 1 << 20
ROOT = Path(__file__).resolve().parent.parent.parent
UP, DOWN = "more", "less"
SMALL, LARGE = b"small" * 1000, b"".join(b"%015d\n" % i for i in range(5 * MIB // 16))
SETTINGS = {"segment_size": "16MiB", "log_file_size": "4MiB", "memtable_size": "2MiB", "scrub_interval": "1h", "scrub_period": "1h"}


class Site:
    def __init__(self, daemon):
        self.daemon, self.s3, self.raw, self.open, self.lost = daemon, None, None, [], None
        self.connect()

    def connect(self):
        store = store_of(self.daemon)
        self.s3, self.raw = store.s3(), store.raw

    def put(self, key, body):
        self.s3.put_object(Bucket="bucket", Key=key, Body=body)

    def get(self, key, body):
        assert self.s3.get_object(Bucket="bucket", Key=key)["Body"].read() == body

    def copies(self, slot, body):
        """Where the first bytes of that object lie on a drive: [(file, offset)]."""
        found = []
        for path in sorted((self.daemon.drives[slot] / "data").glob("*.seg")):
            with contextlib.suppress(FileNotFoundError):  # reclaim has deleted it: what it held lies elsewhere
                found += [(path, match.start()) for match in re.finditer(re.escape(body[:4096]), path.read_bytes())]
        return found

    def slot_of(self, body):
        """A drive that has the first bytes of that object."""
        return next(slot for slot in range(len(self.daemon.drives)) if self.copies(slot, body))

    def flip(self, body):
        """Damages a data shard of that object, wherever reclaim moves it meanwhile."""
        slot = self.slot_of(body)
        while found := self.copies(slot, body):
            for path, at in found:
                with contextlib.suppress(FileNotFoundError), open(path, "r+b") as file:
                    file.seek(at)
                    file.write(bytes([body[0] ^ 1]))


def multipart(site):
    upload = site.s3.create_multipart_upload(Bucket="bucket", Key="parts")["UploadId"]
    etag = site.s3.upload_part(Bucket="bucket", Key="parts", UploadId=upload, PartNumber=1, Body=LARGE[::-1])["ETag"]
    site.s3.complete_multipart_upload(Bucket="bucket", Key="parts", UploadId=upload, MultipartUpload={"Parts": [{"PartNumber": 1, "ETag": etag}]})


def get_batch(site):
    results = ask(site.raw, [Entry("bucket", "small"), Entry("bucket", "large"), Entry("bucket", "none")])
    assert [result.status for result in results] == [200, 200, 404]


def restart(site):
    site.daemon.stop()
    site.daemon.restart()
    site.connect()


def damaged_get(site):
    site.flip(LARGE)
    site.get("large", LARGE)


def verify_damage(site):
    site.flip(LARGE)
    cli(site.daemon, "admin", "verify", status=1)


def scrub_damage(site):
    site.flip(LARGE)
    cli(site.daemon, "admin", "scrub", "start")


def lose_a_drive(site):
    """One that has a data shard of the large object."""
    site.lost = site.slot_of(LARGE)
    site.daemon.drives[site.lost].rename(site.daemon.folder / "broken")
    drives_in(site.daemon, 3)


def replace_it(site):
    new = site.daemon.folder / "new"
    new.mkdir()
    cli(site.daemon, "admin", "drive", "replace", site.lost, new)
    whole(site.daemon)
    site.daemon.drives[site.lost] = new


def connect_only(site):
    site.open.append(socket.create_connection((site.daemon.host, site.daemon.port)))


def disconnect(site):
    for connection in site.open:
        connection.close()


def overwrite_much(site):
    for i in range(12):
        site.put("churn", bytes([i]) * (4 * MIB))


# (what is done, how, {series, with labels: by how much its sum changes, or UP, or DOWN})
ACTIONS = [
    ("a bucket is made", lambda site: site.s3.create_bucket(Bucket="bucket"),
     {"millrace_buckets": 1, "millrace_requests_total operation=CreateBucket status=2xx": 1}),
    ("a small object is put", lambda site: site.put("small", SMALL),
     {"millrace_requests_total operation=PutObject status=2xx": 1, "millrace_request_received_bytes_total operation=PutObject": len(SMALL),
      "millrace_request_duration_seconds_count operation=PutObject": 1, "millrace_request_stage_seconds_count stage=work": UP,
      "millrace_request_step_seconds_count stage=drive step=record": UP, "millrace_drive_appends_total": UP, "millrace_drive_batches_total": UP,
      "millrace_drive_operations_total": UP, "millrace_drive_operation_seconds_count operation=append": UP, "millrace_drive_written_bytes_total": UP,
      "millrace_loop_rounds_total": UP, "millrace_loop_messages_total": UP, "millrace_loop_io_submitted_total": UP,
      "millrace_loop_io_completed_total": UP, "millrace_access_log_lines_total": UP, "process_cpu_seconds_total": UP, "millrace_uptime_seconds": UP,
      "millrace_drive_log_live_bytes": UP, "millrace_drive_index_bytes": UP}),
    ("a large object is put", lambda site: site.put("large", LARGE),
     {"millrace_drive_syncs_total": UP, "millrace_drive_data_live_bytes": UP, "millrace_drive_operation_seconds_count operation=sync": UP,
      "millrace_request_step_seconds_count stage=encode step=parity": UP}),
    ("an object is put in parts", multipart,
     {f"millrace_requests_total operation={name} status=2xx": 1 for name in ("CreateMultipartUpload", "UploadPart", "CompleteMultipartUpload")}),
    ("a small object is read after a restart", lambda site: (restart(site), site.get("small", SMALL)),
     {"millrace_cache_misses_total": UP, "millrace_cache_bytes": UP}),
    ("and again", lambda site: site.get("small", SMALL),
     {"millrace_cache_hits_total": 1, "millrace_cache_misses_total": 0, "millrace_request_sent_bytes_total operation=GetObject": len(SMALL)}),
    ("a large object is read", lambda site: site.get("large", LARGE),
     {"millrace_request_sent_bytes_total operation=GetObject": len(LARGE), "millrace_drive_read_bytes_total": UP, "millrace_degraded_reads_total": 0}),
    ("a bucket is listed", lambda site: site.s3.list_objects_v2(Bucket="bucket"),
     {"millrace_requests_total operation=ListObjectsV2 status=2xx": 1, "millrace_drive_operation_seconds_count operation=scan": UP}),
    ("a stranger asks", lambda site: site.raw.request("GET", "/bucket/small", anonymous=True), {"millrace_requests_total operation=GetObject status=4xx": 1}),
    ("a batch is read", get_batch,
     {"millrace_batch_entries_total way=http code=OK": 2, "millrace_batch_entries_total way=http code=NoSuchKey": 1}),
    ("somebody connects", connect_only, {"millrace_connections_total": 1, "millrace_connections_open": 1, "process_open_fds": UP}),
    ("and leaves", disconnect, {"millrace_connections_open": DOWN}),
    ("an object is overwritten again and again", overwrite_much,
     {"millrace_drive_reclaim_freed_bytes_total": UP, "millrace_drive_data_bytes": UP}),
    ("an object is deleted", lambda site: site.s3.delete_object(Bucket="bucket", Key="parts"),
     {"millrace_requests_total operation=DeleteObject status=2xx": 1, "millrace_drive_data_live_bytes": DOWN}),
    ("everything is verified", lambda site: cli(site.daemon, "admin", "verify"), {"millrace_verify_objects": 3, "millrace_verify_bytes": UP}),
    ("a damaged shard is read", damaged_get,
     {"millrace_degraded_reads_total": 1, "millrace_repaired_reads_total": 1, "millrace_drive_errors_total": UP,
      "millrace_request_step_seconds_count stage=encode step=rebuild": UP}),
    ("a damaged shard is met by a verification", verify_damage, {"millrace_verify_damaged_shards": 1, "millrace_verify_repaired_shards": 1}),
    ("a damaged shard is met by a scrub", scrub_damage,
     {"millrace_drive_scrub_damaged_total": UP, "millrace_scrub_ended_ms": UP, "millrace_drive_scrub_ended_ms": UP, "millrace_drive_scrub_bytes": UP,
      "millrace_drive_scrub_total_bytes": UP}),
    ("a drive is lost", lose_a_drive,
     {"millrace_drives_in": -1, "millrace_drive_losses_left": -1, "millrace_epoch": UP, "millrace_drive_state state=in": -1,
      "millrace_drive_state state=failed": 1, "millrace_drive_errors_total": UP,
      "millrace_objects_below_redundancy": 2, "millrace_objects_lacking_shards missing=1": 2}),
    ("what had a shard there is read", lambda site: site.get("large", LARGE), {"millrace_degraded_reads_total": UP}),
    ("the drive is replaced", replace_it,
     {"millrace_drives_in": 1, "millrace_drive_losses_left": 1, "millrace_rebuilt_objects_total": UP, "millrace_rebuilt_bytes_total": UP,
      "millrace_objects_below_redundancy": -2, "millrace_objects_lacking_shards missing=1": -2}),
]

# What is right at any time: (series, what must be so)
ALWAYS = {"millrace_build_info": 1, "millrace_ready": 1, "millrace_writable": 1, "millrace_full": 0, "millrace_drives": 4, "millrace_ec_data_shards": 2,
          "millrace_ec_parity_shards": 2, "millrace_lost_objects": 0, "millrace_drive_unreliable": 0, "millrace_access_log_dropped_total": 0,
          "millrace_access_log_failed_total": 0, "millrace_drive_unknown_owners": 0, "millrace_drive_scrub_gaps": 0, "millrace_drive_scrub_late": 0,
          "millrace_read_only": 0, "millrace_maintenance": 0, "millrace_changes_active": 0, "millrace_lock_clock_frozen": 0,
          "millrace_verify_unread_shards": 0, "millrace_verify_unreadable_objects": 0, "millrace_rdma_sessions": 0}
POSITIVE = ["millrace_arena_slots", "millrace_drive_total_bytes", "millrace_drive_free_bytes", "millrace_drive_log_bytes", "millrace_heal_rate", "millrace_drive_reserve_bytes",
            "process_resident_memory_bytes", "process_virtual_memory_bytes", "process_max_fds", "process_threads", "process_start_time_seconds"]

MOMENTS = "a state of moments, that no test could meet for sure"
FAULTS = "needs a drive that fails in a certain way: unit tests of the engine, the simulators"
ELSEWHERE = {
    **dict.fromkeys(["millrace_full_forecast_seconds", "millrace_drive_full_forecast_seconds"], "test_forecast.py"),
    **dict.fromkeys(["millrace_lifecycle_passes_total", "millrace_lifecycle_looked_at_total", "millrace_lifecycle_expired_total",
                     "millrace_lifecycle_versions_deleted_total", "millrace_lifecycle_markers_deleted_total",
                     "millrace_lifecycle_uploads_aborted_total", "millrace_lifecycle_protected_total",
                     "millrace_lifecycle_resumed_total"], "test_lifecycle.py"),
    **dict.fromkeys(["millrace_inventory_passes_total", "millrace_inventory_reports_total", "millrace_inventory_listed_total",
                     "millrace_inventory_refused_total"], "test_inventory.py"),
    **dict.fromkeys(["millrace_bucket_log_records_total", "millrace_bucket_log_objects_total", "millrace_bucket_log_refused_total"],
                    "test_access_log_delivery.py"),
    **dict.fromkeys(["millrace_inventory_failed_total", "millrace_inventory_skipped_total", "millrace_bucket_log_dropped_total"], FAULTS),
    **dict.fromkeys(["millrace_lifecycle_running", "millrace_inventory_running"], MOMENTS), **dict.fromkeys(["millrace_lifecycle_failed_total", "millrace_lifecycle_skipped_total"], FAULTS),
    **dict.fromkeys(["millrace_pool_ready", "millrace_pool_writable", "millrace_pool_epoch", "millrace_pool_drives_in"], "test_cluster_pools.py"),
    **dict.fromkeys([f"millrace_cluster_{name}" for name in ("etcd_silent_seconds", "nodes_silent", "clock_skew_ms", "pool_led", "pool_leads")], "test_cluster_ops.py"),
    "millrace_connections_evicted_total": "test_strangers.py", "millrace_reconciled_records_total": "test_daemon.py",
    **dict.fromkeys(["millrace_requests_active", "millrace_upload_memory_bytes", "millrace_answer_memory_bytes", "millrace_healing", "millrace_collecting_orphans",
                     "millrace_heal_bytes_left", "millrace_whole_in_seconds", "millrace_drive_queue", "millrace_drive_memtable_bytes",
                     "millrace_verify_running", "millrace_scrub_running", "millrace_scrub_bytes", "millrace_drive_scrub_running",
                     "millrace_drive_scrub_rate", "millrace_loop_io_waiting", "millrace_arena_slots_used", "millrace_arena_slots_reserved",
                     "millrace_arena_waiting"], MOMENTS),
    **dict.fromkeys(["millrace_hedged_reads_total", "millrace_hedges_won_total"], FAULTS),
    **dict.fromkeys(["millrace_names_undecided", "millrace_orphan_ids_total", "millrace_drive_index_reads_total", "millrace_drive_reclaim_damaged_total",
                     "millrace_drive_read_errors_total", "millrace_drive_scrub_unrepaired", "millrace_drive_scrub_gaps_owed",
                     "millrace_drive_scrub_gaps_dropped_total", "millrace_verify_missing_shards", "millrace_verify_differing_names",
                     "millrace_verify_repaired_names", "millrace_scrub_differing_names", "millrace_scrub_damaged_shards",
                     "millrace_scrub_repaired_shards", "millrace_scrub_missing_shards", "millrace_scrub_unreadable_objects",
                     "millrace_drive_reclaim_copied_bytes_total"], FAULTS),
}


def stem(series):
    return re.sub(r"_(count|sum|bucket)$", "", series.split(" ")[0]) if "seconds_" in series else series.split(" ")[0]


def test_each_metric_has_its_place():
    named = set(re.findall(r"^\| `(\w+)` \|", (ROOT / "docs/metrics.md").read_text(), re.MULTILINE))
    moved = {stem(series) for _, _, changes in ACTIONS for series in changes} | set(ALWAYS) | set(POSITIVE)
    assert moved <= named and set(ELSEWHERE) <= named, (moved | set(ELSEWHERE)) - named
    assert moved & set(ELSEWHERE) == set()
    rest = {name for name in named - moved - set(ELSEWHERE) if not name.startswith("millrace_rdma_")}  # test_rdma*.py
    assert rest == set(), "new metrics need a row here"


def total(metrics, wanted):
    name, *labels = wanted.split(" ")
    labels = [label.replace("=", '="') + '"' for label in labels]
    return sum(value for series, value in metrics.items() if series.split("{")[0] == name and all(label in series for label in labels))


def has_moved(before, now, change):
    if change in (UP, DOWN):
        return now > before if change == UP else now < before
    return now - before == change


@pytest.mark.daemon
def test_each_moves(tmp_path):
    with Daemon(drives=4, ec="2+2", settings={**SETTINGS, "access_log": tmp_path / "access.log"}).start() as daemon:
        site = Site(daemon)
        for title, act, changes in ACTIONS:
            before = daemon.metrics()
            if title.endswith("after a restart"):
                before = {}
            act(site)

            def stuck(before=before, changes=changes):
                now = daemon.metrics()
                return {series: (total(before, series), total(now, series), change) for series, change in changes.items()
                        if not has_moved(total(before, series), total(now, series), change)}

            try:
                daemon.wait_until(lambda: not stuck(), 90, f"to count that {title}")
            except Exception as error:
                raise AssertionError(f"{title}: {stuck()}") from error
        now = daemon.metrics()
        assert {series: total(now, series) for series in ALWAYS} | {"millrace_build_info": 1} == ALWAYS
        assert [series for series in POSITIVE if total(now, series) <= 0] == []
