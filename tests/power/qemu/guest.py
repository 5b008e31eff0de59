"""Runs in the guest: mounts the partitions, loads the daemon, notes what was acknowledged, and writes the notes to the other disk.

After each answer a marker is written straight to the end of the disk, behind the partitions: in the disk's log it stands behind all that the answer
promised.
"""
import mmap
import os
import pickle
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from tests.power.history import SETTINGS  # noqa: E402
from tests.power.qemu.blocklog import SECTOR, marker  # noqa: E402
from tests.power.workload import BUCKET, Client, Record, Thing, Worker, run_workers  # noqa: E402
from tests.support.daemon import Daemon  # noqa: E402


class Marks:
    """The numbers of a record: each is a marker on the disk."""

    def __init__(self, disk, offset):
        self.disk = os.open(disk, os.O_WRONLY | os.O_DIRECT)
        self.offset, self.number, self.lock = offset, 0, threading.Lock()
        self.buffer = mmap.mmap(-1, 4096)

    def now(self):
        with self.lock:
            self.number += 1
            self.buffer[:SECTOR] = marker(self.number)
            os.pwrite(self.disk, memoryview(self.buffer)[:SECTOR], self.offset)
            return self.number


def main(kinds, marks_at, seed, steps):
    folder = Path(tempfile.mkdtemp())
    drives = []
    for number, kind in enumerate(kinds):
        drives.append(folder / f"drive{number + 1}")
        drives[-1].mkdir()
        subprocess.run(["mount", "-t", kind, f"/dev/vda{number + 1}", drives[-1]], check=True)
    marks = Marks("/dev/vda", marks_at)
    record = Record(marks.now)
    daemon = Daemon(drive_paths=drives, ec="2+2", settings={**SETTINGS, "memory": "64MiB"}, folder=folder)
    workers = [Worker(n, seed, record, keys=8) for n in range(2)]
    for number in range(3):
        record.phase(("fill", "after SIGKILL", "after SIGTERM")[number])
        daemon.start(300)
        daemon.format = False
        if number == 0:
            record.ready = marks.now()
            thing = record.buckets.setdefault(BUCKET, Thing())
            client = Client(daemon.host, daemon.port, (daemon.access_key, daemon.secret_key))
            record.change(thing, "bucket", lambda: client.call("PUT", f"/{BUCKET}"))
            client.close()
        threads, failures = run_workers(workers, lambda: Client(daemon.host, daemon.port, (daemon.access_key, daemon.secret_key)), steps)
        for thread in threads:
            thread.join()
        assert not failures, failures
        if number == 1:
            assert daemon.terminate(200) == 0
        else:
            daemon.kill()
    record.phase("end")
    marks.now()
    notes = pickle.dumps((record, (daemon.access_key, daemon.secret_key)))
    with open("/dev/vdb", "r+b") as out:
        out.write(len(notes).to_bytes(8, "little") + notes)
        out.flush()
        os.fsync(out.fileno())
    os.sync()
    print(f"guest: {marks.number} markers, {len(record.keys)} keys, {len(notes)} bytes of notes")


if __name__ == "__main__":
    main(sys.argv[1].split(","), int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))
