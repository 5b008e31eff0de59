"""A history of a store on a cutfs: made once, cut at many places.

It goes through what a drive's files go through: format, a load that fills and rolls log files and segments, a drive that fails under load, SIGKILL,
the drive's return and the healing of what it missed, deletion until files are given back, SIGTERM, and one more start.
"""
import os
import pickle
import re
import shutil
import subprocess
import tempfile
import threading
import time
from pathlib import Path

from tests.power.cutfs import CutFs, entries, roomy
from tests.power.workload import BUCKET, Client, Record, Thing, Worker, run_workers
from tests.support.daemon import PROGRAM, Daemon

DRIVES = 4
# As small as they may be, so that files fill within a few seconds.
SETTINGS = {"segment_size": "4MiB", "log_file_size": "4MiB", "memtable_size": "1MiB", "cache": "4MiB"}
SEALED = {"MILLRACE_KEY": "5a" * 32}  # the key is not on the drives, so no power cut touches it
LOG_BYTES = 4 << 20
PATIENCE = 60


class History:
    """The log of a cutfs and the record of what was done meanwhile."""

    def __init__(self, folder, seed, record, keys):
        self.folder, self.seed, self.record, self.keys = Path(folder), seed, record, keys
        self.entries = entries(self.log)
        self.first = next(entry.number for entry in self.entries if entry.kind == "settle") + 1
        self.keys_on_drives = seed % 2 == 0  # else they come from the environment

    def environment(self):
        return SEALED if self.keys_on_drives else {"MILLRACE_ROOT_ACCESS_KEY": self.keys[0], "MILLRACE_ROOT_SECRET_KEY": self.keys[1]}

    @property
    def log(self):
        return self.folder / "cut.log"

    def save(self):
        (self.folder / "record").write_bytes(pickle.dumps((self.seed, self.record, self.keys)))

    @staticmethod
    def load(folder):
        return History(folder, *pickle.loads((Path(folder) / "record").read_bytes()))


def credentials(drive):
    """(access key, secret key) as the daemon keeps them on a drive, sealed."""
    text = subprocess.run([PROGRAM, "--show-credentials", "--drive", drive], check=True, capture_output=True, text=True, env={**os.environ, **SEALED}).stdout
    return tuple(re.search(rf"^export {name}='(.*)'$", text, re.M).group(1) for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"))


def wait_for(what, condition, daemon, seconds=PATIENCE):
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline or not daemon.alive:
            raise AssertionError(f"{what} did not come: {daemon.health()}\n{daemon.tail()}")
        time.sleep(0.05)


def all_in(daemon):
    return daemon.health_json()[1].get("drives_in") == DRIVES


def healed(daemon):
    """A walk is over and has left nothing: one that was overtaken is followed by another."""
    if not all_in(daemon):
        return False
    metrics = daemon.metrics()
    return metrics["millrace_healing"] == 0 and metrics["millrace_objects_below_redundancy"] == 0


class Maker:
    """Runs the phases of a history."""

    def __init__(self, folder, fs, seed, steps):
        self.fs, self.steps = fs, steps
        self.record = Record(fs.now)
        self.drives = [fs.mount / f"drive{i + 1}" for i in range(DRIVES)]
        self.daemon = Daemon(drive_paths=self.drives, ec="2+2", settings=SETTINGS, folder=folder, credentials=seed % 2 == 1, env=SEALED)
        self.workers = [Worker(n, seed, self.record) for n in range(3)]
        self.keys = None

    def client(self):
        return Client(self.daemon.host, self.daemon.port, self.keys)

    def load(self, steps, **how):
        threads, failures = run_workers(self.workers, self.client, steps, **how)
        for thread in threads:
            thread.join()
        assert not failures, failures

    def run(self):
        for phase in (self.format, self.fill, self.lose_a_drive, self.kill, self.take_it_back, self.empty, self.stop_and_start):
            self.record.phase(phase.__name__)
            phase()
        self.record.phase("end")

    def format(self):
        for drive in self.drives:
            drive.mkdir()
        self.fs.tell("settle")
        self.daemon.start(60)
        self.record.ready = self.fs.now()
        self.keys = (self.daemon.access_key, self.daemon.secret_key) if self.daemon.access_key else credentials(self.drives[0])
        self.daemon.format = False
        bucket = self.record.buckets.setdefault(BUCKET, Thing())
        client = self.client()
        self.record.change(bucket, "bucket", lambda: client.call("PUT", f"/{BUCKET}"))
        client.close()

    def fill(self):
        self.load(self.steps // 3)
        self.load(2 * self.steps, only="flood")
        self.load(self.steps * 2 // 3)

    def lose_a_drive(self):
        threads, failures = run_workers(self.workers, self.client, self.steps // 2)
        self.fs.tell("fail drive2")
        for thread in threads:
            thread.join()
        assert not failures, failures
        wait_for("a store of three drives", lambda: self.daemon.health_json()[1].get("drives_in") == DRIVES - 1, self.daemon)
        self.load(self.steps // 3)

    def kill(self):
        """What the page cache holds survives this; it is as volatile as before."""
        stop = threading.Event()
        threads, failures = run_workers(self.workers, self.client, 1000, stop)
        time.sleep(0.1)
        stop.set()
        self.daemon.kill()
        for thread in threads:
            thread.join()
        assert not failures, failures

    def take_it_back(self):
        self.fs.tell("mend drive2")
        self.daemon.restart(60)
        self.load(self.steps // 3)
        wait_for("the end of healing", lambda: healed(self.daemon), self.daemon)
        assert self.daemon.metrics()["millrace_rebuilt_objects_total"] > 0

    def empty(self):
        """Segments are filled, then all keys go, so that whole files are given back."""
        self.load(6, only="heap")
        self.load(1, only="clear")
        time.sleep(3)  # what is dead is discarded with the ticks after the index holds what superseded it
        for _ in range(4):  # the index is committed to again and again, and no segment is made
            self.load(1, only="flood")
            time.sleep(1.05)
        self.load(self.steps // 3)

    def stop_and_start(self):
        self.daemon.stop()
        self.daemon.restart(60)
        self.load(max(2, self.steps // 6))
        self.daemon.stop()


def make(folder, seed, steps):
    """Makes a history in folder."""
    with CutFs(folder) as fs:
        maker = Maker(folder, fs, seed, steps)
        try:
            maker.run()
        except BaseException:
            print(maker.daemon.tail())
            raise
        finally:
            maker.daemon.kill()
    history = History(folder, seed, maker.record, maker.keys)
    history.save()
    return history


def make_somewhere(seed, steps):
    folder = tempfile.mkdtemp(prefix="millrace-power-", dir=roomy())
    try:
        return make(folder, seed, steps)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
