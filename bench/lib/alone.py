"""Experiments on millraced alone, each with stores of its own. Each: run(options, scale, folder) gives its figures of one round."""

import json
import os
import shutil
import signal
import subprocess
import time
from contextlib import contextmanager

from .fabric import Rdma
from .limits import fio
from .loadgen import run_load
from .machine import KIB, MIB, device_written_bytes, say, settled, written_bytes
from .overwriting import NoFileSystem, Overwriting, file_system, measure
from .phases import Skipped, forget_folder
from .servers import Millrace

SMALL = ["--size", 4 * KIB, "--conns", 64]


@contextmanager
def store(options, folder, **how):
    """A fresh store with a bucket, gone afterwards."""
    server = Millrace(folder / "alone", options.daemon, **how)
    try:
        server.start()
        run_load(options, server, "bucket")
        yield server
    finally:
        server.stop()
        forget_folder(server.folder)


def index_bytes(server):
    """What the indexes take on the disk, holes not counted."""
    return sum(file.stat().st_blocks * 512 for drive in server.drives for file in (drive / "index").iterdir())


class Restart:
    """From starting again after a SIGKILL to being ready; then keys are read and compared."""

    name, title = "restart", "ready after a SIGKILL"
    once = True

    def run(self, options, scale, folder):
        with store(options, folder) as server:
            put = run_load(options, server, "put", "--count", scale.restart, *SMALL)
            server.stop(signal.SIGKILL)
            begun = time.monotonic()
            server.start()
            seconds = time.monotonic() - begun
            got = run_load(options, server, "get", "--verify", "--keys", scale.restart, "--count", min(scale.restart, 20000), *SMALL)
        say(f"  {scale.restart:,} objects: ready after {seconds:.3f} s, {got['errors']} errors")
        return {"errors": put["errors"] + got["errors"], "objects": scale.restart, "seconds": seconds, "compared": got["ops"]}


class Growth:
    """Small PUTs and GETs on a store with few objects, and on one with many, of 1 KiB."""

    name, title = "growth", "a store that has grown"
    once = True

    def run(self, options, scale, folder):
        figures, small = {"errors": 0, "base": scale.base, "grown": scale.grown}, ["--size", KIB, "--conns", 64]
        with store(options, folder) as server:
            stored = 0
            for when, wanted in (("few", scale.base), ("many", scale.grown)):
                put = run_load(options, server, "put", "--start", stored, "--count", wanted - stored, *small)
                stored = wanted
                rates = {kind: run_load(options, server, kind, "--duration", options.seconds, *small, *more)
                         for kind, more in (("put", ["--prefix", f"{when}/"]), ("get", ["--keys", wanted]))}
                figures["errors"] += put["errors"] + sum(r["errors"] for r in rates.values())
                figures.update({f"{kind}_{when}": r["ops_s"] for kind, r in rates.items()})
        for kind in ("put", "get"):
            figures[f"{kind}_ratio"] = figures[f"{kind}_many"] / max(figures[f"{kind}_few"], 1)
            say(f"  {kind} with {scale.grown:,} objects: {figures[f'{kind}_ratio']:.2f} of that with {scale.base:,}")
        return figures


class Written:
    """Bytes written to one drive for each byte of PUTs of 4 KiB, what follows them in the background included: names in order on a
    fresh store, and names in no order, the last tenth of a store's. And what the index takes on the disk then for each of them.

    Counted at the device, the file system's journal included: the kernel's count of a process charges whole large folios of the page cache, of which
    a batch of the index writes single pages. Where there is no device to ask, it has to do."""

    name, title = "written", "bytes written for each byte stored"
    once = True

    def written(self, server, still_s):
        """Bytes so far, once there come no more."""
        process = settled(lambda: written_bytes(server.process.pid), still_s)
        os.sync()
        device = device_written_bytes(server.folder)
        return process if device is None else device

    def puts(self, options, server, start, count, *names):
        before = self.written(server, 1)
        put = run_load(options, server, "put", "--start", start, "--count", count, *SMALL, *names)
        return (self.written(server, 2) - before) / max(put["bytes"], 1), put["errors"]

    def run(self, options, scale, folder):
        figures = {"objects": scale.names}
        one_drive = {"drives": 1, "ec": None}
        with store(options, folder, **one_drive) as server:
            figures["sequential"], errors = self.puts(options, server, 0, scale.names)
            figures["index_sequential"] = index_bytes(server) / scale.names
        with store(options, folder, **one_drive) as server:
            fill = run_load(options, server, "put", "--count", scale.names * 9 // 10, *SMALL, "--random-names")
            figures["random"], wrong = self.puts(options, server, scale.names * 9 // 10, scale.names // 10, "--random-names")
            figures["index_random"] = index_bytes(server) / scale.names
        figures["errors"] = errors + wrong + fill["errors"]
        say(f"  {figures['sequential']:.2f} names in order, {figures['random']:.2f} in no order; bytes of index for each name {figures['index_sequential']:.0f}, "
            f"{figures['index_random']:.0f}")
        return figures


class Loops:
    """Server CPU of a small GET with two loops against one."""

    name, title = "loops", "CPU of a small GET by loops"
    once = False

    def run(self, options, scale, folder):
        figures = {"errors": 0}
        for loops in (1, 2):
            with store(options, folder, settings={"loops": loops}) as server:
                run_load(options, server, "put", "--count", scale.small, *SMALL)
                got = run_load(options, server, "get", "--keys", scale.small, "--duration", options.seconds, *SMALL)
                figures["errors"] += got["errors"]
                figures[f"cpu_us_{loops}"] = got["server_cpu_s"] * 1e6 / max(got["ops"], 1)
                figures[f"ops_s_{loops}"] = got["ops_s"]
        figures["ratio"] = figures["cpu_us_2"] / max(figures["cpu_us_1"], 0.001)
        return figures


class Sequential:
    """PUTs of 16 MiB over HTTP on one drive without an erasure code, to be held against fio."""

    name, title = "sequential", "large PUTs without an erasure code"
    once = False

    def run(self, options, scale, folder):
        with store(options, folder, drives=1, ec=None) as server:
            put = run_load(options, server, "put", "--duration", options.seconds, "--size", 16 * MIB, "--conns", 4)
        return {"errors": put["errors"], "mib_s": put["mib_s"], "server_cpu_s_gib": put["server_cpu_s"] * 1024 * MIB / max(put["bytes"], 1)}


class Engine:
    """The engine through its own API, without a network, on one drive without an erasure code, held against fio on the same disk: random reads of
    4 KiB objects whose bytes are cold and whose index is warm, at the same block size and depth; and large objects written."""

    name, title = "engine", "the engine alone, against fio"
    once, depth = False, 64

    def micro(self, options, scale, folder):
        command = [options.build / "bench/micro", "--json", "--folder", folder, "--seconds", options.seconds, "--objects", scale.engine, "--depth", self.depth,
                   "reads", "writes"]
        done = subprocess.run([str(c) for c in command], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"micro: {done.stderr.strip()[-500:]}")
        return json.loads(done.stdout)

    def run(self, options, scale, folder):
        if shutil.which("fio") is None:
            raise Skipped("fio is not installed")
        mine = self.micro(options, scale, folder)
        with_fio = folder / "fio-engine"
        with_fio.mkdir()
        try:
            reads = fio(with_fio, options.seconds, int(mine["reads.working_set"]), ["--rw=randread", "--bs=4k", f"--iodepth={self.depth}"])["read"]["iops"]
            writes = fio(with_fio, options.seconds, 1024 * MIB, ["--rw=write", "--bs=1M", "--iodepth=8", "--end_fsync=1"])["write"]["bw_bytes"] / MIB
        finally:
            shutil.rmtree(with_fio)
        figures = {"errors": 0, "objects": scale.engine, "reads_s": mine["reads.ops_s"], "fio_reads_s": reads, "writes_mib_s": mine["writes.plain.mib_s"],
                   "md5_mib_s": mine["writes.md5.mib_s"], "fio_writes_mib_s": writes}
        figures["reads_ratio"] = figures["reads_s"] / max(reads, 1)
        figures["writes_ratio"] = figures["writes_mib_s"] / max(writes, 1)
        say(f"  reads of 4 KiB {figures['reads_s']:,.0f}/s, {figures['reads_ratio']:.2f} of fio; writes {figures['writes_mib_s']:,.0f} MiB/s, "
            f"{figures['writes_ratio']:.2f} of fio")
        return figures


class Md5:
    """Server CPU of large PUTs on 16 connections, their bodies unsigned and their MD5 computed, against the same program that hashes one stream at a time
    (the setting test_md5_lanes, which is there for this)."""

    name, title = "md5", "MD5 of 16 uploads side by side"
    once = False

    def run(self, options, scale, folder):
        figures = {"errors": 0}
        for name, settings in (("wide", {}), ("one", {"test_md5_lanes": 1})):
            with store(options, folder, settings=settings) as server:
                put = run_load(options, server, "put", "--duration", options.seconds, "--size", 16 * MIB, "--conns", 16)
            figures["errors"] += put["errors"]
            figures[f"cpu_s_gib_{name}"] = put["server_cpu_s"] * 1024 * MIB / max(put["bytes"], 1)
            figures[f"mib_s_{name}"] = put["mib_s"]
        figures["ratio"] = figures["cpu_s_gib_wide"] / max(figures["cpu_s_gib_one"], 1e-6)
        say(f"  {figures['cpu_s_gib_wide']:.2f} s/GiB, one at a time {figures['cpu_s_gib_one']:.2f}: {figures['ratio']:.2f}")
        return figures


class Overwrite:
    """Objects of 32 KiB overwritten uniformly at random in a store of one drive that is 70 % full, on a file system of its own."""

    name, title = "overwriting", "overwriting of a store that is 70 % full"
    once = True

    def run(self, options, scale, folder):
        how = Overwriting(options.daemon, size=scale.overwritten, below=str(folder), times=3, seconds=scale.overwriting, rate=48)
        try:
            with file_system(how) as own:
                figures = measure(how, "overwriting", 32 * KIB, own)
        except NoFileSystem as why:
            raise Skipped(str(why)) from why
        say(f"  {figures['written']:.2f} bytes written for each byte, {figures['times']:.1f} times overwritten, {figures['refused']} refused")
        return {"errors": 0, **figures}


class Flood:
    """Memory while 1,024 connections upload a large object each. To be told to slow down is an answer, not an error."""

    name, title = "flood", "memory under 1,024 uploads"
    once = True

    def run(self, options, scale, folder):
        with store(options, folder) as server:
            put = run_load(options, server, "put", "--conns", 1024, "--count", 1024, "--size", scale.flood)
        refused = put["error_kinds"].get("refused", 0)
        return {"errors": put["errors"] - refused, "refused": refused, "size": scale.flood, "peak": put["server_peak"], "anonymous": put["server_anonymous_peak"],
                "mib_s": put["mib_s"]}


ALONE = [Restart(), Growth(), Written(), Loops(), Sequential(), Engine(), Md5(), Overwrite(), Flood(), Rdma()]
