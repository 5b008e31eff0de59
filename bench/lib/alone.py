"""Experiments on millraced alone, each with stores of its own. Each: run(options, scale, folder) gives its figures of one round."""

import signal
import time
from contextlib import contextmanager

from .loadgen import run_load
from .machine import KIB, MIB, say, written_bytes
from .phases import forget_folder
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


class Restart:
    """From starting again after a SIGKILL to being ready; then keys are read and compared."""

    name, title = "restart", "ready after a SIGKILL"

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
    fresh store, and names in no order, the last tenth of a store's."""

    name, title = "written", "bytes written for each byte stored"

    def puts(self, options, server, start, count, *names):
        before = written_bytes(server.process.pid, settled_s=1)
        put = run_load(options, server, "put", "--start", start, "--count", count, *SMALL, *names)
        return (written_bytes(server.process.pid, settled_s=2) - before) / max(put["bytes"], 1), put["errors"]

    def run(self, options, scale, folder):
        figures = {"objects": scale.names}
        one_drive = {"drives": 1, "ec": None}
        with store(options, folder, **one_drive) as server:
            figures["sequential"], errors = self.puts(options, server, 0, scale.names)
        with store(options, folder, **one_drive) as server:
            fill = run_load(options, server, "put", "--count", scale.names * 9 // 10, *SMALL, "--random-names")
            figures["random"], wrong = self.puts(options, server, scale.names * 9 // 10, scale.names // 10, "--random-names")
        figures["errors"] = errors + wrong + fill["errors"]
        say(f"  {figures['sequential']:.2f} names in order, {figures['random']:.2f} in no order")
        return figures


class Loops:
    """Server CPU of a small GET with two loops against one."""

    name, title = "loops", "CPU of a small GET by loops"

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

    def run(self, options, scale, folder):
        with store(options, folder, drives=1, ec=None) as server:
            put = run_load(options, server, "put", "--duration", options.seconds, "--size", 16 * MIB, "--conns", 4)
        return {"errors": put["errors"], "mib_s": put["mib_s"], "server_cpu_s_gib": put["server_cpu_s"] * 1024 * MIB / max(put["bytes"], 1)}


class Flood:
    """Memory while 1,024 connections upload a large object each. To be told to slow down is an answer, not an error."""

    name, title = "flood", "memory under 1,024 uploads"

    def run(self, options, scale, folder):
        with store(options, folder) as server:
            put = run_load(options, server, "put", "--conns", 1024, "--count", 1024, "--size", scale.flood)
        refused = put["error_kinds"].get("refused", 0)
        return {"errors": put["errors"] - refused, "refused": refused, "size": scale.flood, "peak": put["server_peak"], "anonymous": put["server_anonymous_peak"],
                "mib_s": put["mib_s"]}


ALONE = [Restart(), Growth(), Written(), Loops(), Sequential(), Flood()]
