"""What can be had at most: servers that only answer (bench/limits/), the disk under fio, and the arithmetic alone."""

import json
import math
import os
import shutil
import subprocess

from .machine import MIB, drop_caches, say
from .servers import Server


class LimitServer(Server):
    """Started anew for each phase, with the size of its answers."""

    stores = False
    kinds = ()

    def start(self, size=4096, entries=1000):
        already = self.log_size()
        self.spawn([self.program, size, os.cpu_count(), entries], self.environment())
        self.endpoint = "http://" + self.wait_for(lambda: self.said("listening on ", already))

    def prepare(self, phase):
        self.stop()
        self.start(phase.size, phase.extra[1] if "--max-keys" in phase.extra else 1000)


class MhdEmpty(LimitServer):
    name, key = "libmicrohttpd, empty handler", "mhd_empty"
    kinds = ("get", "put", "range", "list", "head", "delete", "mixed")


class Bare(LimitServer):
    name, key = "bare recv and send", "bare"
    kinds = ("get", "put", "mixed")


LIMIT_SERVERS = [MhdEmpty, Bare]

# Figures of the disk: fio's arguments, where its figure stands, and by what it is divided.
DISK = {
    "write": ("sequential write of 1 MiB, MiB/s", ["--rw=write", "--bs=1M", "--iodepth=8", "--end_fsync=1"], ("write", "bw_bytes"), MIB),
    "read": ("sequential read of 1 MiB, MiB/s", ["--rw=read", "--bs=1M", "--iodepth=8"], ("read", "bw_bytes"), MIB),
    "random_4k": ("random read of 4 KiB, 64 at a time, 1/s", ["--rw=randread", "--bs=4k", "--iodepth=64"], ("read", "iops"), 1),
    "commit_4k": ("write of 4 KiB and fdatasync, 4 jobs, 1/s", ["--rw=write", "--bs=4k", "--fdatasync=1", "--numjobs=4", "--group_reporting"],
                  ("write", "iops"), 1),
}


def fio(folder, seconds, size, arguments):
    command = ["fio", "--name=limit", f"--directory={folder}", "--direct=1", "--ioengine=io_uring", "--time_based",
               f"--runtime={math.ceil(seconds * 1000)}ms", f"--size={size}", "--output-format=json", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"fio: {done.stderr.strip()[-500:]}")
    return json.loads(done.stdout[done.stdout.index("{"):])["jobs"][0]


def measure_disk(folder, seconds, size):
    """A figure for each row of DISK, and half of what can be written: that is for objects, whose bytes 2+2 doubles. {} without fio."""
    if shutil.which("fio") is None:
        say("fio is skipped: there is none here (Debian's package fio)")
        return {}
    folder = folder / "fio"
    folder.mkdir()
    figures = {}
    for name, (title, arguments, (way, member), unit) in DISK.items():
        drop_caches()
        figures[name] = fio(folder, seconds, size, arguments)[way][member] / unit
        say(f"  fio       {title:44} {figures[name]:12,.0f}")
    figures["write_half"] = figures["write"] / 2
    shutil.rmtree(folder)
    return figures


def measure_kernels(build, seconds):
    """MiB a second of one core by name."""
    done = subprocess.run([str(build / "bench/limits/kernels"), "--json", str(seconds)], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)
