"""Overwrites a store that is mostly full, uniformly at random: what reclaim makes of it."""

import contextlib
import http.client
import os
import random
import secrets
import shutil
import subprocess
import tempfile
import threading
import time
import urllib.request
from dataclasses import dataclass
from pathlib import Path

from .machine import KIB, MIB, say
from .servers import Millrace


@dataclass(frozen=True)
class Overwriting:
    """How it is done; sizes in MiB where nothing else is said."""

    program: Path
    size: int = 2048  # of the file system
    folder: str = None  # an empty one on a file system of one's own, instead
    below: str = None  # where its image lies: $TMPDIR or /tmp
    drives: int = 1
    fill: float = 0.7
    times: float = 4
    seconds: float = 120
    step: float = 5
    threads: int = 8
    rate: float = 24
    reclaim_rate: str = "64MiB"
    seed: int = 1
    verbose: bool = False  # print rows as it goes


def drive_figures(server):
    """Sums over drives, by the metric's name without millrace_drive_."""
    sums = {}
    with urllib.request.urlopen(server.admin + "/metrics", timeout=10) as answer:
        for line in answer.read().decode().splitlines():
            if line.startswith("millrace_drive_"):
                name, value = line.rsplit(" ", 1)
                name = name.split("{")[0][len("millrace_drive_"):]
                sums[name] = sums.get(name, 0) + float(value)
    return sums


class NoFileSystem(Exception):
    """There is none to be had here."""


class Writer(threading.Thread):
    """PUTs what next_key() gives until that is None. A 507 or 503 is counted and tried again after a moment."""

    def __init__(self, store, next_key, body, total):
        super().__init__(daemon=True)
        self.store, self.next_key, self.body, self.total = store, next_key, body, total
        self.wrong = None

    def put(self, connection, signer, path):
        connection.request("PUT", signer.path("PUT", path), self.body)
        answer = connection.getresponse()
        answer.read()
        return answer.status

    def run(self):
        connection, signer = http.client.HTTPConnection(self.store.host(), timeout=120), self.store.signer()
        try:
            while (key := self.next_key()) is not None:
                while (status := self.put(connection, signer, f"/over/{key}")) in (503, 507):
                    with self.total.lock:
                        self.total.refused += 1
                    if self.total.over:
                        return
                    time.sleep(0.1)
                if status != 200:
                    raise RuntimeError(f"PUT of {key}: {status}")
                with self.total.lock:
                    self.total.bytes += len(self.body)
        except (OSError, RuntimeError, http.client.HTTPException) as error:
            self.wrong = error


class Total:
    def __init__(self):
        self.lock = threading.Lock()
        self.bytes = self.refused = 0
        self.over = False


def used_bytes(folder):
    space = os.statvfs(folder)
    return (space.f_blocks - space.f_bfree) * space.f_frsize


def run_writers(store, keys, body, threads, watch, rate=0):
    """keys: an iterator. watch(total) is called every second; true: enough. rate: bytes a second at most; 0: as fast as it goes."""
    total = Total()
    lock = threading.Lock()
    begun, given = time.monotonic(), 0

    def next_key():
        nonlocal given
        with lock:
            due = begun + given * len(body) / rate if rate else 0
            given += 1
            key = None if total.over else next(keys, None)
        time.sleep(max(0, due - time.monotonic()))
        return key

    writers = [Writer(store, next_key, body, total) for _ in range(threads)]
    for writer in writers:
        writer.start()
    while any(writer.is_alive() for writer in writers):
        time.sleep(0.5)
        if watch(total):
            total.over = True
    for writer in writers:
        if writer.wrong:
            raise RuntimeError(str(writer.wrong))
    return total


def measure(arguments, name, size, folder):
    """One store, filled and overwritten: figures. size: of an object, bytes."""
    settings = {"reclaim_rate": arguments.reclaim_rate, "cache": "1MiB"}
    space = os.statvfs(folder)
    usable = space.f_bavail * space.f_frsize * 0.95
    store = Millrace(folder / "store", arguments.program, drives=arguments.drives, ec=None, settings=settings)
    try:
        store.start()
        copies = 1 if arguments.drives == 1 else 2
        count = int(usable * arguments.fill / copies / (size + (512 if size <= 128 * KIB else 4096)))
        live = count * size
        body = secrets.token_bytes(size)
        connection = http.client.HTTPConnection(store.host(), timeout=60)
        connection.request("PUT", store.signer().path("PUT", "/over"))
        if connection.getresponse().status != 200:
            raise RuntimeError("no bucket")
        say(f"{name}: {count} objects of {size / KIB:.0f} KiB, {live / MIB:.0f} MiB, into {usable / MIB:.0f} MiB")
        run_writers(store, iter(f"k{i:08}" for i in range(count)), body, arguments.threads, lambda total: False)
        before, begun = drive_figures(store), time.monotonic()
        last = dict(at=begun, bytes=0, copied=0.0, refused=0)
        state = dict(most=used_bytes(folder), rates=[])
        draw = random.Random(arguments.seed)
        if arguments.verbose:
            print(f"\n{name}\n\n| s | MiB/s | refused | in use, MiB | living, MiB | moved for each byte written |\n|---|---|---|---|---|---|")

        def watch(total):
            now = time.monotonic()
            state["most"] = max(state["most"], used_bytes(folder))
            if now - last["at"] >= arguments.step:
                figures = drive_figures(store)
                copied = figures["reclaim_copied_bytes_total"] - before["reclaim_copied_bytes_total"]
                written = total.bytes - last["bytes"]
                state["rates"].append(written / MIB / (now - last["at"]))
                row = (f"| {now - begun:.0f} | {state['rates'][-1]:.1f} | {total.refused - last['refused']} "
                       f"| {used_bytes(folder) / MIB:.0f} | {(figures['log_live_bytes'] + figures['data_live_bytes']) / MIB:.0f} "
                       f"| {(copied - last['copied']) / max(written, 1):.2f} |")
                if arguments.verbose:
                    print(row, flush=True)
                last.update(at=now, bytes=total.bytes, copied=copied, refused=total.refused)
            return now - begun >= arguments.seconds or total.bytes >= arguments.times * live

        keys = (f"k{draw.randrange(count):08}" for _ in iter(int, 1))
        total = run_writers(store, keys, body, arguments.threads, watch, arguments.rate * MIB)
        took = time.monotonic() - begun
        figures = drive_figures(store)
        moved = figures["reclaim_copied_bytes_total"] - before["reclaim_copied_bytes_total"]
        drive = figures["written_bytes_total"] - before["written_bytes_total"]
        half = len(state["rates"]) // 2
        late = sum(state["rates"][half:]) / max(len(state["rates"][half:]), 1)
        return {"times": total.bytes / live, "mib_s": total.bytes / MIB / took, "mib_s_late": late, "refused": total.refused, "most": state["most"],
                "room": space.f_blocks * space.f_frsize, "moved": moved / max(total.bytes, 1), "written": drive / max(total.bytes, 1)}
    finally:
        store.stop()


@contextlib.contextmanager
def file_system(arguments):
    """An empty folder on a file system of its own."""
    if arguments.folder:
        folder = Path(arguments.folder)
        if any(entry.name != "lost+found" for entry in folder.iterdir()):
            raise RuntimeError(f"{folder} is not empty")
        yield folder
        for entry in folder.iterdir():
            if entry.name == "store":
                shutil.rmtree(entry)
        return
    with tempfile.TemporaryDirectory(prefix="millrace-overwrite-", dir=arguments.below) as name:
        folder, image = Path(name) / "fs", Path(name) / "image"
        folder.mkdir()
        with open(image, "wb") as out:
            os.posix_fallocate(out.fileno(), 0, arguments.size * MIB)
        made = subprocess.run(["mkfs.ext4", "-q", "-F", "-m", "0", str(image)], capture_output=True, check=False)
        mounted = made.returncode == 0 and subprocess.run(["mount", "-o", "loop", str(image), str(folder)], capture_output=True,
                                                          check=False).returncode == 0
        if not mounted:
            image.unlink()
            say("no loop mount here: a tmpfs is used")
            if subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={arguments.size}m", "tmpfs", str(folder)], capture_output=True,
                              check=False).returncode != 0:
                raise NoFileSystem("a file system of its own is needed: run as root, or give one")
        try:
            yield folder
        finally:
            subprocess.run(["umount", str(folder)], check=False)
