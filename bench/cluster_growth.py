#!/usr/bin/env python3
"""What it costs a cluster that nodes come, go and are lost: bytes moved against the least that could be, and what small GETs wait meanwhile.

    cluster_growth.py [--mib 1024] [--rate-share 0.3] [--setting NAME=VALUE ...] [--json FILE]

Three nodes of four folders, each on a machine that is a network namespace, 2+2, hold --mib of shards each, in objects of 1 MiB, and 50,000 of
4 KiB. A fourth node is added; the first is drained; a fifth is added; the second is killed and removed, so that what it held is rebuilt. Small GETs
go on meanwhile at a share of the most that was measured (open loop): their p99 in each two seconds against the one before. Needs root and etcd.
"""

import argparse
import json
import re
import shutil
import statistics
import sys
import tempfile
import threading
import time
from pathlib import Path

from lib.loadgen import run_load
from lib.machine import KIB, MIB, allow_many_files, machine, say
from lib.nodes import SETTINGS, MillraceNodes, make_bucket
from lib.tables import number, table, times
from tests.cluster.network import missing
from tests.cluster.nodes import LINK_PORT

ROOT = Path(__file__).resolve().parent.parent
SMALL = ["--prefix", "s/", "--size", 4 * KIB]
NAMES = 50000
LARGE = 1 * MIB
CHUNK_S, BEFORE_CHUNKS = 2, 5
SETTLED_S = 600
MOVED_MOST, P99_MOST, SHARE_LEAST = 1.1, 2, 0.6


class Pool:
    """What the leader counts now."""

    def __init__(self, cluster):
        body = next(body for status, body in (node.admin_get("/metrics/pool") for node in cluster.nodes.values() if node.alive) if status == 200)
        self.values = {name: float(value) for name, value in re.findall(r"^(\w+) (\S+)$", body, re.M)}
        self.drives = [(name, int(node), float(value)) for name, node, value in re.findall(r'^(\w+)\{drive="\w+",path="remote:(\d+)/[^}]*\} (\S+)$', body, re.M)]

    def of_node(self, node, *names):
        return sum(value for name, number_, value in self.drives if number_ == node and name in names)

    def settled(self):
        return self.values["millrace_healing"] == 0 and self.values["millrace_objects_below_redundancy"] == 0


class Growth:
    def __init__(self, options, folder):
        self.options = options
        self.group = MillraceNodes(folder, options.program)
        self.cluster = self.group.cluster
        self.rows, self.figures, self.before_us, self.rate = [], [], 0, 0

    def start(self):
        self.group.start()
        make_bucket(self.options, self.group)
        count = self.options.mib * len(self.cluster.nodes) // 2  # 2+2: each byte twice
        for arguments in ([*SMALL, "--count", NAMES, "--conns", 64], ["--prefix", "l/", "--size", LARGE, "--count", count, "--conns", 8]):
            figures = run_load(self.options, self.group, "put", *arguments)
            if figures["errors"]:
                raise RuntimeError(f"{figures['errors']} PUTs failed")
        self.cluster.wait_until(lambda: Pool(self.cluster).settled(), SETTLED_S, "until nothing was being moved")

    def gets(self, *more):
        self.group.endpoint = ",".join(f"http://{node.host}:9000" for node in self.cluster.nodes.values() if node.alive)
        self.group.process = next(node.process for node in self.cluster.nodes.values() if node.alive)
        return run_load(self.options, self.group, "get", *SMALL, "--keys", NAMES, "--conns", 32, "--duration", CHUNK_S, *more)

    def chunk(self):
        return self.gets("--rate", self.rate)

    def meanwhile(self, action):
        """(seconds that action took until nothing was moved any more, figures of the chunks until then, budgets seen)"""
        trouble, chunks, budgets = [], [], []

        def run():
            try:
                action()
            except Exception as error:  # must reach the one who waits
                trouble.append(error)

        begun = time.monotonic()
        worker = threading.Thread(target=run, daemon=True)
        worker.start()
        while worker.is_alive() or not Pool(self.cluster).settled():
            chunks.append(self.chunk())
            budgets.append(Pool(self.cluster).values.get("millrace_heal_rate", 0))
            if trouble:
                raise trouble[0]
            if time.monotonic() - begun > SETTLED_S:
                raise RuntimeError("it takes too long")
        return time.monotonic() - begun, chunks, budgets

    def event(self, title, action, least_and_moved, before=None):
        """least_and_moved(pool before, pool after): bytes."""
        self.before_us = statistics.median(self.chunk()["p99_us"] for _ in range(BEFORE_CHUNKS))
        before = before or Pool(self.cluster)
        seconds, chunks, budgets = self.meanwhile(action)
        least, moved = least_and_moved(before, Pool(self.cluster))
        p99 = [chunk["p99_us"] for chunk in chunks] or [self.before_us]
        f = {"title": title, "seconds": seconds, "least": least, "moved": moved, "before_us": self.before_us, "p99_us": p99,
             "errors": sum(chunk["errors"] for chunk in chunks), "budget": statistics.mean(budgets) if budgets else 0}
        self.figures.append(f)
        say(f"  {title}: {seconds:.0f} s, {moved / MIB:,.0f} MiB moved, {least / MIB:,.0f} at least; p99 {self.before_us} us before, {statistics.median(p99):.0f} meanwhile, "
            f"{max(p99)} at most; {f['errors']} errors")

    # ---- events ---------------------------------------------------------------------------------------------

    def add(self):
        node = self.cluster.new_node()  # by the main thread: the kernel takes the end of the thread that starts it for ours
        self.cluster.pool_drives += self.cluster.drives
        number_ = node.machine
        self.cluster.network.count(number_, LINK_PORT)
        live = ("millrace_drive_log_live_bytes", "millrace_drive_data_live_bytes")
        self.event(f"node {number_} is added", lambda: self.cluster.cli(node, "admin", "cluster", "node", "add", str(number_), timeout=SETTLED_S),
                   lambda before, after: (after.of_node(number_, *live), self.cluster.network.counted(number_)))
        say(f"    {Pool(self.cluster).of_node(number_, 'millrace_drive_written_bytes_total') / MIB:,.0f} MiB written to its drives")

    def moved_off(self, number_):
        rebuilt = "millrace_rebuilt_bytes_total"
        return lambda before, after: (before.of_node(number_, "millrace_drive_data_live_bytes"), after.values[rebuilt] - before.values[rebuilt])

    def drain(self, number_):
        node = self.cluster.nodes[number_]
        self.event(f"node {number_} is drained", lambda: self.cluster.cli(node, "admin", "cluster", "node", "drain", str(number_), timeout=SETTLED_S), self.moved_off(number_))
        self.cluster.pool_drives -= self.cluster.drives
        self.cluster.retire(node)

    def lose(self, number_):
        before = Pool(self.cluster)
        self.cluster.nodes[number_].kill()
        self.cluster.wait_until(lambda: self.cluster.drives_in() == self.cluster.pool_drives - self.cluster.drives, 60, "until the node was out")
        before.values["millrace_rebuilt_bytes_total"] = Pool(self.cluster).values["millrace_rebuilt_bytes_total"]  # another leader counts by now, if that one led
        other = next(node for node in self.cluster.nodes.values() if node.alive)
        self.event(f"node {number_} is lost, and removed", lambda: self.cluster.cli(other, "admin", "cluster", "node", "remove", str(number_), timeout=SETTLED_S),
                   self.moved_off(number_), before)

    def run(self):
        self.rate = max(int(self.gets()["ops_s"] * self.options.rate_share), 100)
        say(f"GETs at {self.rate}/s")
        self.add()
        self.drain(1)
        self.add()
        self.lose(2)


def held(value, sign, wanted):
    reached = value <= wanted if sign == "≤" else value >= wanted
    return f"{times(value)} ({sign} {wanted}x{'' if reached else ': not reached'})"


def report(figures):
    rows = []
    for f in figures:
        rate = f["moved"] / max(f["seconds"], 0.1)
        rows.append([f["title"], f"{f['seconds']:.0f}", number(f["least"] / MIB), number(f["moved"] / MIB), held(f["moved"] / max(f["least"], 1), "≤", MOVED_MOST),
                     f"{f['before_us'] / 1000:.2f}", f"{statistics.median(f['p99_us']) / 1000:.2f}", f"{max(f['p99_us']) / 1000:.2f}",
                     held(statistics.median(f["p99_us"]) / max(f["before_us"], 1), "≤", P99_MOST), number(rate / MIB), number(f["budget"] / MIB),
                     held(rate / max(f["budget"], 1), "≥", SHARE_LEAST) if "lost" in f["title"] else times(rate / max(f["budget"], 1))])
    return table(["event", "s", "least, MiB", "moved, MiB", "moved / least", "p99 before, ms", "p99 meanwhile", "worst 2 s", "p99 ratio", "MiB/s", "budget, MiB/s", "of the budget"], rows)


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", type=lambda text: Path(text).resolve(), default=ROOT / "build/release/millraced", help="millraced, with millrace beside it")
    parser.add_argument("--load", type=Path, default=ROOT / "build/release/bench/load", help="the load generator")
    parser.add_argument("--mib", type=int, default=1024, help="of shards that each node holds (default 1024)")
    parser.add_argument("--rate-share", type=float, default=0.3, help="of the most GETs a second (default 0.3)")
    parser.add_argument("--setting", action="append", default=[], metavar="NAME=VALUE", help="a setting of all nodes: heal_rate=16MiB")
    parser.add_argument("--folder", type=Path, help="where the store is made (default: a temporary folder)")
    parser.add_argument("--json", type=Path, help="keeps all figures")
    return parser.parse_args()


def main():
    options = parse()
    if missing() is not None:
        say(missing())
        return 2
    allow_many_files()
    SETTINGS.update(setting.split("=", 1) for setting in options.setting)
    folder = Path(tempfile.mkdtemp(prefix="growth-", dir=options.folder))
    growth = Growth(options, folder)
    try:
        growth.start()
        growth.run()
    finally:
        growth.group.stop()
        shutil.rmtree(folder, ignore_errors=True)
    if options.json:
        options.json.write_text(json.dumps({"machine": machine(), "events": growth.figures}, indent=1), encoding="utf-8")
    print(report(growth.figures))
    print(f"\n{growth.rate} GETs a second; {machine()}")
    return 1 if any(f["errors"] for f in growth.figures) else 0


if __name__ == "__main__":
    sys.exit(main())
