"""The rows of the comparison: each is one run of `load` against each server, which asks for presigned (so: signed) requests.

Phases that read do so from sets of objects stored before, the same number on every server; those that write do so under a prefix of
their own. Warm: all of the set has been read twice, as some caches admit only what is asked for again. Cold: on a store of its own; the server was
started again and the page cache dropped, and no object is read twice.
"""

import os
import shutil
from dataclasses import dataclass, field

from .loadgen import run_load
from .machine import GIB, KIB, MIB, drop_caches, free_bytes, memory_bytes, say


@dataclass(frozen=True)
class Set:
    """Objects that are stored once in a round, for those who read."""

    prefix: str
    size: int
    count: str  # member of Scale
    conns: int


SMALL = Set("s/", 4 * KIB, "small", 64)
MEDIUM = Set("m/", 64 * KIB, "medium", 32)
MEGA = Set("n/", MIB, "mega", 16)
LARGE = Set("l/", 16 * MIB, "large", 4)
RANGED = Set("x/", 64 * MIB, "ranged", 4)

# What a phase is asked for: the figure of `load`, its unit, and what server CPU is counted by.
OPS = ("ops_s", "op/s", "op")
BYTES = ("mib_s", "MiB/s", "GiB")
ENTRIES = ("entries_s", "entries/s", "op")


def forget_folder(folder):
    """Takes a store's folder away, and waits until the file system is done with it: what comes next is measured."""
    shutil.rmtree(folder, ignore_errors=True)
    os.sync()


class Skipped(Exception):
    """An experiment cannot be done here; the text says why."""


class Bench:
    """One server in one round: what is stored there, and runs of `load`."""

    def __init__(self, options, scale, server):
        self.options, self.scale, self.server = options, scale, server
        self.stored = {}
        self.room = 0  # free bytes with nothing stored

    def start(self):
        """Starts the server with an empty bucket. True."""
        self.server.folder.mkdir(parents=True, exist_ok=True)
        self.room = free_bytes(self.server.folder)
        self.server.start()
        if self.server.stores:
            self.must("bucket")
        return True

    def start_afresh(self):
        """The same, everything that was stored forgotten."""
        self.server.stop()
        forget_folder(self.server.folder)
        self.stored.clear()
        self.server = self.server.another()
        self.start()

    def before(self, experiment):
        """Uploads as fast as they go fill a disk soon; and a server may have died of the last experiment, whose errors tell."""
        process = self.server.process
        died = process is None or process.poll() is not None
        if died and process is not None:
            say(self.server.died())
        if died or (self.server.stores and free_bytes(self.server.folder) < self.room / 2):
            self.start_afresh()
        self.server.prepare(experiment)

    def load(self, kind, *arguments):
        return run_load(self.options, self.server, kind, *arguments)

    def must(self, kind, *arguments):
        """Work that is not measured, but has to succeed."""
        result = self.load(kind, *arguments)
        if result["errors"]:
            raise RuntimeError(f"{self.server.name}: {result['errors']} of the {kind}s before a phase failed: {result['error_kinds']}")
        return result

    def put(self, prefix, size, count, conns):
        if self.server.stores and self.stored.get(prefix) != count:
            self.must("put", "--prefix", prefix, "--size", size, "--count", count, "--conns", conns)
            self.stored[prefix] = count
        return count

    def keys(self, wanted):
        """Stores a set, unless it is there. How many objects it has."""
        return self.put(wanted.prefix, wanted.size, getattr(self.scale, wanted.count), wanted.conns)

    def restart(self):
        self.server.stop()
        self.server.start()


@dataclass(frozen=True)
class Phase:
    name: str
    title: str
    kind: str
    size: int
    conns: int
    figure: tuple = OPS
    reads: Set = None
    limit: str = "mhd_empty"  # what it is held against: a server of limits, or a figure of the disk
    extra: tuple = field(default=())
    once: bool = False  # not in every round

    def runs_on(self, server):
        return server.stores or self.kind in server.kinds

    def row(self):
        return f"{self.title} ({self.conns}), {self.figure[1]}"

    def common(self):
        prefix = self.reads.prefix if self.reads else self.name + "/"
        return ["--size", self.size, "--conns", self.conns, "--prefix", prefix, *self.extra]

    def run(self, bench):
        """The figures of one run."""
        common = self.common()
        if self.reads is not None:
            keys = bench.keys(self.reads)
            common += ["--keys", keys]
            for _ in range(2 if self.kind in ("get", "range") and bench.server.stores else 0):  # warm
                bench.load("get", "--once", "--keys", keys, "--size", self.size, "--conns", self.conns, "--prefix", self.reads.prefix)
        return bench.load(self.kind, "--duration", bench.options.seconds, *common)


class Multipart(Phase):
    """Uploads of 1 GiB each, one on each connection, in parts of 16 MiB."""

    def run(self, bench):
        return bench.load("multipart", "--count", self.conns, "--size", bench.scale.multipart, "--part", "16M", "--conns", self.conns,
                          "--prefix", self.name + "/")


class Delete(Phase):
    def run(self, bench):
        count = bench.put(self.name + "/", self.size, bench.scale.deletes, 64)
        bench.stored.pop(self.name + "/", None)
        return bench.load("delete", "--count", count, *self.common())


class Cold(Phase):
    def runs_on(self, server):
        return server.stores

    def run(self, bench):
        bench.start_afresh()
        count = max(bench.scale.cold // self.size, 1)
        if self.size < MIB:  # what can be read in the time is enough, and storing more takes long
            count = min(count, bench.scale.small * 2)
        bench.put(self.name + "/", self.size, count, self.conns)
        bench.restart()
        if not drop_caches():
            raise Skipped("the page cache cannot be dropped")
        result = bench.load("get", "--once", "--keys", count, "--duration", bench.options.seconds, *self.common())
        result["working_set"] = count * self.size
        return result


def cold_bytes(scale, folder):
    """What is read cold: as much as the scale has, or twice the memory, as far as the disk has room for it twice (2+2) and a fifth more."""
    wanted, room = scale.cold or 2 * memory_bytes(), int(free_bytes(folder) / 2 / 1.2)
    if room < wanted:
        say(f"cold phases read {room / GIB:.1f} GiB instead of {wanted / GIB:.1f}: the disk has no room for more")
    return min(wanted, room)


def by_connections(kind, title):
    """4 KiB on other numbers of connections than 64."""
    reads = SMALL if kind == "get" else None
    return [Phase(f"{kind}-4k-c{conns}", f"{title} 4 KiB", kind, 4 * KIB, conns, reads=reads, once=True) for conns in (1, 16, 256, 1024)]


PHASES = [
    Phase("put-4k", "PUT 4 KiB", "put", 4 * KIB, 64),
    Phase("get-4k", "GET 4 KiB", "get", 4 * KIB, 64, reads=SMALL),
    Phase("put-64k", "PUT 64 KiB", "put", 64 * KIB, 32),
    Phase("get-64k", "GET 64 KiB", "get", 64 * KIB, 32, reads=MEDIUM),
    Phase("put-1m", "PUT 1 MiB", "put", MIB, 16, BYTES, limit="write_half", once=True),
    Phase("get-1m", "GET 1 MiB", "get", MIB, 16, BYTES, reads=MEGA, once=True),
    Phase("put-16m", "PUT 16 MiB", "put", 16 * MIB, 4, BYTES, limit="write_half"),
    Phase("get-16m", "GET 16 MiB, warm", "get", 16 * MIB, 4, BYTES, reads=LARGE),
    Phase("range-64k", "GET of 64 KiB in 64 MiB", "range", 64 * MIB, 32, reads=RANGED, extra=("--range", 64 * KIB), once=True),
    Multipart("multipart", "multipart upload of 1 GiB", "multipart", GIB, 2, BYTES, limit="write_half", once=True),
    Phase("list-1000", "LIST of 1,000", "list", 4 * KIB, 4, ENTRIES, reads=SMALL),
    Phase("list-40", "LIST of 40", "list", 4 * KIB, 4, ENTRIES, reads=SMALL, extra=("--max-keys", 40)),
    Phase("head", "HEAD", "head", 4 * KIB, 64, reads=SMALL, once=True),
    Phase("mixed", "GET and PUT of 4 KiB, 70:30", "mixed", 4 * KIB, 64, reads=SMALL, once=True),
    *by_connections("get", "GET"),
    *by_connections("put", "PUT"),
    Delete("delete", "DELETE", "delete", 4 * KIB, 64, once=True),
    Cold("get-4k-cold", "GET 4 KiB, cold", "get", 4 * KIB, 64, limit="random_4k", once=True),
    Cold("get-16m-cold", "GET 16 MiB, cold", "get", 16 * MIB, 4, BYTES, limit="read"),
]
