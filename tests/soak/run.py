#!/usr/bin/env python3
"""A day's work in minutes: a mixed load for a while, over drives that come and go, with scrubs, reclaim, abandoned uploads and clients that hang on.

What a day must not show is growth: memory, descriptors, threads and disk are sampled all the time, and the end of the run is compared with its
middle. Every object is compared by content at the end, and all shards are verified.

    make soak                                  20 minutes
    make soak SOAK_SECONDS=120                 shorter
"""
import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.conftest import SEED, make_client  # noqa: E402  (the project's own packages)
from tests.crash.history import History  # noqa: E402
from tests.support.daemon import CLI, Daemon  # noqa: E402

MIB = 1 << 20
SETTINGS = {"segment_size": "16MiB", "log_file_size": "8MiB", "memtable_size": "4MiB", "cache": "16MiB", "scrub_rate": "16MiB", "scrub_interval": "60s"}
# what may be more at the end than in the middle: a share, and this much
SLACK = {"memory": (0.10, 16 * MIB), "descriptors": (0.10, 8), "threads": (0.0, 2), "disk": (0.15, 64 * MIB), "index": (0.25, 4 * MIB)}


def sample(daemon):
    """Figures of the process and of its drives, in bytes and counts."""
    process = Path(f"/proc/{daemon.process.pid}")
    status = dict(line.split(":", 1) for line in (process / "status").read_text().splitlines() if ":" in line)
    figures = daemon.metrics()
    return {"memory": int(status["RssAnon"].split()[0]) * 1024,
            "descriptors": len(list((process / "fd").iterdir())),
            "threads": int(status["Threads"]),
            "disk": sum(v for k, v in figures.items() if k.startswith(("millrace_drive_log_bytes{", "millrace_drive_data_bytes{"))),
            "index": sum(v for k, v in figures.items() if k.startswith("millrace_drive_index_bytes{"))}


class Trouble(threading.Thread):
    """What happens to a store in a day beside its work."""

    def __init__(self, daemon, stop):
        super().__init__(daemon=True)
        self.daemon_process, self.stop, self.counts, self.error = daemon, stop, {}, None

    def count(self, what):
        self.counts[what] = self.counts.get(what, 0) + 1

    def drive_away(self, number):
        path = self.daemon_process.drives[number % len(self.daemon_process.drives)]
        away = path.with_name(path.name + ".away")
        path.rename(away)
        self.stop.wait(8)
        away.rename(path)
        self.count("drives away and back")

    def hang_on(self):
        held = [socket.create_connection((self.daemon_process.host, self.daemon_process.port), timeout=10) for _ in range(50)]
        for connection in held:
            connection.sendall(b"PUT /soak/slow HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n")
        self.stop.wait(2)
        for connection in held:
            connection.close()
        self.count("rounds of clients that hang on")

    def abandon(self):
        s3 = make_client(self.daemon_process.endpoint, self.daemon_process.access_key, self.daemon_process.secret_key, retries=6)
        for i in range(4):
            upload = s3.create_multipart_upload(Bucket="soak", Key=f"abandoned{i}")["UploadId"]
            s3.upload_part(Bucket="soak", Key=f"abandoned{i}", UploadId=upload, PartNumber=1, Body=bytes(5 * MIB))
            s3.abort_multipart_upload(Bucket="soak", Key=f"abandoned{i}", UploadId=upload)
        self.count("rounds of aborted uploads")

    def run(self):
        number = 0
        try:
            while not self.stop.wait(10):
                self.abandon()
                self.hang_on()
                if number % 3 == 2:
                    self.drive_away(number)
                number += 1
        except Exception as error:  # must reach the main thread
            self.error = error


def run_load(daemon, history, seconds):
    """The samples of the whole run, one every few seconds."""
    stop, samples = threading.Event(), []
    trouble = Trouble(daemon, stop)
    started = time.monotonic()

    def watch():
        while not stop.wait(min(5, seconds / 50)):
            samples.append(sample(daemon))
            now = samples[-1]
            if len(samples) % 6 == 0:
                print(f"{time.monotonic() - started:6.0f} s  memory {now['memory'] / MIB:6.0f} MiB  descriptors {now['descriptors']:5}  "
                      f"disk {now['disk'] / MIB:7.0f} MiB  index {now['index'] / MIB:5.0f} MiB", flush=True)

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    trouble.start()
    history.load(lambda: make_client(daemon.endpoint, daemon.access_key, daemon.secret_key, retries=6), seconds, lambda: None)
    stop.set()
    trouble.join(60)
    watcher.join(60)
    if trouble.error is not None:
        raise trouble.error
    return samples, trouble.counts


def judge(samples):
    """Lines of a table, and whether something grew: the last fifth against the third and fourth tenth."""
    n, bad, lines = len(samples), False, []
    for what, (share, slack) in SLACK.items():
        before = statistics.median(s[what] for s in samples[3 * n // 10:n // 2])
        after = statistics.median(s[what] for s in samples[4 * n // 5:])
        grew = after > before * (1 + share) + slack
        bad |= grew
        unit = 1 if what in ("descriptors", "threads") else MIB
        lines.append(f"| {what} | {before / unit:.0f} | {after / unit:.0f} | {'GREW' if grew else 'steady'} |")
    return lines, bad


def verify(daemon):
    environment = {"PATH": os.environ["PATH"], "HOME": str(daemon.folder), "MILLRACE_ENDPOINT": daemon.endpoint,
                   "MILLRACE_ROOT_ACCESS_KEY": daemon.access_key, "MILLRACE_ROOT_SECRET_KEY": daemon.secret_key,
                   "MILLRACE_ADMIN": f"http://{daemon.host}:{daemon.admin_port}"}
    done = subprocess.run([str(CLI), "admin", "verify", "--json"], env=environment, capture_output=True, text=True, timeout=600, check=False)
    found = json.loads(done.stdout)
    return found["damaged_shards"] + found["missing_shards"] + found["unreadable_objects"], found["shards"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seconds", type=int, default=1200)
    options = parser.parse_args()
    history = History(f"{SEED}/soak", "soak", workers=8)
    print(f"seed {SEED}, {options.seconds} s", flush=True)
    with Daemon(drives=4, ec="2+2", settings=SETTINGS).start() as daemon:
        s3 = make_client(daemon.endpoint, daemon.access_key, daemon.secret_key, retries=8)
        s3.create_bucket(Bucket="soak")
        samples, counts = run_load(daemon, history, options.seconds)
        daemon.wait_until(lambda: daemon.health_json()[1]["drives_in"] == 4, 120, "to have all drives in")
        daemon.wait_until(lambda: daemon.health_json()[1]["objects_below_redundancy"] == 0, 300, "to be whole")
        objects = history.check(s3, restarted=True)
        wrong, shards = verify(daemon)
    lines, grew = judge(samples)
    print("\n| MiB or number | in the middle | at the end | |\n|---|---|---|---|")
    print("\n".join(lines))
    print(f"\n{history.operations()}, {counts}: {objects} objects as acknowledged, {shards} shards verified, {wrong} wrong")
    return 1 if grew or wrong else 0


if __name__ == "__main__":
    sys.exit(main())
