"""What is to be reached, and what a run's figures make of it."""

from dataclasses import dataclass
from typing import Callable

from .machine import GIB
from .tables import number, ratio


@dataclass(frozen=True)
class Target:
    title: str
    wanted: float  # None: there is none, the figure is told
    at_least: bool  # else: at most
    unit: str
    value: Callable  # of Results; None: not measured

    def verdict(self, value):
        if value is None:
            return "not measured"
        if self.wanted is None:
            return "reported"
        return "reached" if (value >= self.wanted if self.at_least else value <= self.wanted) else "not reached"

    def row(self, results):
        value = self.value(results)
        wanted = "-" if self.wanted is None else ("≥ " if self.at_least else "≤ ") + f"{self.wanted:g}{self.unit}"
        return [self.title, wanted,
                "-" if value is None else number(value) + self.unit, self.verdict(value)]


def over_minio(name, figure):
    return lambda r: ratio(r.median("millrace", name, figure), r.median("minio", name, figure))


def over_best(name, figure):
    return lambda r: ratio(r.median("millrace", name, figure), r.best_peer(name, figure)[0])


def over_limit(name, figure, server):
    return lambda r: ratio(r.median("millrace", name, figure), r.median(server, name, figure))


def over_disk(name, figure, disk):
    return lambda r: ratio(r.median("millrace", name, figure), r.disk(disk))


def own(name, figure):
    return lambda r: r.median("millrace", name, figure)


def alone(name, figure, unit=1):
    return lambda r: ratio(r.alone(name, figure), unit)


def least_growth(results):
    ratios = [results.alone("growth", figure) for figure in ("put_ratio", "get_ratio")]
    return None if None in ratios else min(ratios)


TARGETS = [
    Target("4 KiB PUT, durable, 64 connections, against MinIO", 20, True, "x", over_minio("put-4k", "ops_s")),
    Target("the same against the best peer", 3, True, "x", over_best("put-4k", "ops_s")),
    Target("4 KiB GET, 64 connections, against MinIO", 8, True, "x", over_minio("get-4k", "ops_s")),
    Target("the same against libmicrohttpd's empty handler", 0.6, True, "x", over_limit("get-4k", "ops_s", "mhd_empty")),
    Target("64 KiB PUT against MinIO", 15, True, "x", over_minio("put-64k", "ops_s")),
    Target("64 KiB GET against MinIO", 6, True, "x", over_minio("get-64k", "ops_s")),
    Target("16 MiB PUT, MD5 as ETag, 4 streams, against MinIO", 2.5, True, "x", over_minio("put-16m", "mib_s")),
    Target("16 MiB GET, warm, against the best peer", 1.2, True, "x", over_best("get-16m", "mib_s")),
    Target("server CPU of the same", 0.4, False, " s/GiB", own("get-16m", "cpu_s_gib")),
    Target("16 MiB GET, cold, against fio", 0.85, True, "x", over_disk("get-16m-cold", "mib_s", "read")),
    Target("the same against the best peer", 1, True, "x", over_best("get-16m-cold", "mib_s")),
    Target("LIST of 1,000, entries/s, against MinIO", 50, True, "x", over_minio("list-1000", "entries_s")),
    Target("the same against the best peer", 3, True, "x", over_best("list-1000", "entries_s")),
    Target("LIST of 40 against the best peer", 5, True, "x", over_best("list-40", "entries_s")),
    Target("p99 of small GETs, open loop at 30 % of the most, beside checkpoints at half of theirs, against alone", 2, False, "x",
           own("checkpoints", "ratio")),
    Target("sequential write over HTTP without an erasure code, against fio", 0.85, True, "x",
           lambda r: ratio(r.alone("sequential", "mib_s"), r.disk("write"))),
    Target("random reads of 4 KiB objects through the engine's API, warm index, cold bytes, against fio at the same block size and depth", 0.8, True, "x",
           alone("engine", "reads_ratio")),
    Target("sequential write through the engine's API without an erasure code, against fio", 0.85, True, "x", alone("engine", "writes_ratio")),
    Target("server CPU of 16 MiB PUTs, MD5 as ETag, 16 streams, against one MD5 at a time", 0.5, False, "x", alone("md5", "ratio")),
    Target("bytes written for each byte of 4 KiB PUTs, one drive, names in order", 2.5, False, "", alone("written", "sequential")),
    Target("the same, names in no order", 4, False, "", alone("written", "random")),
    Target("index on the disk for each small object, names in order", 400, False, " bytes", alone("written", "index_sequential")),
    Target("the same for names in no order", 400, False, " bytes", alone("written", "index_random")),
    Target("bytes written for each byte of uniform overwriting, 70 % full", None, False, "", alone("overwriting", "written")),
    Target("memory of an idle connection", 40, False, " KiB", own("idle", "kib_each")),
    Target("memory under 1,024 uploads at once", 1, False, " GiB", alone("flood", "peak", GIB)),
    Target("op/s of a store that has grown, against before", 0.7, True, "x", least_growth),
    Target("ready after a SIGKILL", 2, False, " s", alone("restart", "seconds")),
    Target("cached objects of 10 KiB a second by GetBatch over TCP, against single GETs at their best", 5, True, "x", alone("rdma", "http_ratio")),
    Target("the same by batches over RDMA, on the fake transport", 5, True, "x", alone("rdma", "control_ratio")),
    Target("copies of each byte of 16 MiB GETs over RDMA, server and client", 0, False, "", alone("rdma", "copies")),
    Target("send queue empty between the WRITEs of a 16 MiB GET, on the fake transport", 5, False, " %", alone("rdma", "gap_1")),
    Target("the same with 4 GETs at once", 5, False, " %", alone("rdma", "gap_4")),
    Target("server CPU of these, against reading as many bytes of another file alone and one CRC32C", 1.3, False, "x", alone("rdma", "reads_ratio")),
    Target("server CPU of 16 MiB PUTs by RDMA READ, on the fake transport, against HTTP", None, False, "x", alone("rdma", "put_ratio")),
    Target("server CPU of a small GET, 2 loops against 1", 1.15, False, "x", alone("loops", "ratio")),
]
