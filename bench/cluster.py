#!/usr/bin/env python3
"""What a cluster costs: the same operations through all of three nodes at once, and at one node; and at three nodes of MinIO.

    cluster.py [--rounds 3] [--scale 1.0] [--only NAME ...] [--tls all|control] [--minio PROGRAM] [--json FILE]

All nodes run on this machine, so that CPU time counts here, not throughput: a node more is no processor more. Within a round
the groups take turns, each on fresh folders. For each phase: the median over rounds of CPU time of all server processes for an
operation (small ones) or a GiB (16 MiB), and its ratio to one node's. Exit status 1 if a request failed.

Nothing but Python's standard library is needed, and etcd.
"""

import argparse
import json
import shutil
import statistics
import sys
import tempfile
from pathlib import Path

from lib.machine import allow_many_files, machine, say
from lib.nodes import MillraceNodes, MinioNodes, One, make_bucket, run_at_all
from lib.servers import Millrace, Minio, find_program
from lib.tables import table

ROOT = Path(__file__).resolve().parent.parent
GIB = 1 << 30
SMALL = ["--prefix", "s/", "--size", "4K"]
LARGE = ["--prefix", "l/", "--size", "16M"]
# title, kind of `load`, arguments, operations, connections (of large ones: to each node, since MD5 of several uploads at once costs
# little more than of one), the most that three nodes may take of one node's CPU
PHASES = [
    # what is put is read by the phases behind it
    ("PUT 4 KiB", "put", SMALL, 30000, 63, 2.5),
    ("GET 4 KiB", "get", SMALL, 90000, 63, 2),
    ("LIST of 1,000 names", "list", SMALL, 1500, 9, 2),
    ("PUT 16 MiB", "put", LARGE, 90, 6, 1.6),
    ("GET 16 MiB", "get", LARGE, 300, 6, 1.6),
]


def groups(options):
    made = {"one": lambda folder: One(Millrace(folder, options.program)), "three": lambda folder: MillraceNodes(folder, options.program, options.tls)}
    minio = find_program(Minio, options.minio) if not options.only or "minio" in options.only else None
    if minio:
        made["minio"] = lambda folder: MinioNodes(folder, minio)
    return {name: make for name, make in made.items() if not options.only or name in options.only}


def one_run(options, make, folder):
    group, figures, keys = make(folder), {}, None
    group.start()
    try:
        make_bucket(options, group)
        for title, kind, arguments, count, conns, _ in PHASES:
            count = int(count * options.scale) // 3 * 3
            if kind == "put":
                keys = count
            conns *= len(group.members()) if "MiB" in title else 1
            figures[title] = run_at_all(options, group, kind, count, conns, arguments, None if kind == "put" else keys)
            f = figures[title]
            say(f"  {group.name}: {title}: {f['ops_s']:,.0f}/s, {f['cpu_s'] * 1e6 / max(f['ops'], 1):,.0f} us of CPU each, {f['errors']} errors")
    finally:
        group.stop()
    return figures


def cost(title, figures):
    return figures["cpu_s"] / figures["bytes"] * GIB if "MiB" in title else figures["cpu_s"] * 1e6 / figures["ops"]


def report(rounds):
    names = list(rounds[0])
    rows = []
    for title, *_, most in PHASES:
        row = [title, "s/GiB" if "MiB" in title else "us"]
        row += [f"{statistics.median(cost(title, r[name][title]) for r in rounds):,.2f}" for name in names]
        row += [f"{statistics.median(cost(title, r['three'][title]) / cost(title, r['one'][title]) for r in rounds):.2f} (≤ {most})"
                if {"one", "three"} <= set(names) else "-"]
        row += [f"{statistics.median(r['three'][title]['ops_s'] / r['minio'][title]['ops_s'] for r in rounds):.1f}" if {"three", "minio"} <= set(names) else "-"]
        rows.append(row)
    return table(["phase", "CPU in", *names, "three / one", "operations/s, three / minio"], rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", type=lambda text: Path(text).resolve(), default=ROOT / "build/release/millraced", help="millraced, with millrace beside it")
    parser.add_argument("--load", type=Path, default=ROOT / "build/release/bench/load", help="the load generator")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--scale", type=float, default=1.0, help="of the number of operations")
    parser.add_argument("--only", action="append", choices=["one", "three", "minio"], help="only these (default: all)")
    parser.add_argument("--tls", choices=["all", "control"], default="all", help="cluster_tls of the three nodes: control leaves shards in clear between nodes")
    parser.add_argument("--minio", help="MinIO's program (default: found, or installed by Go)")
    parser.add_argument("--folder", type=Path, help="where stores are made (default: a temporary folder)")
    parser.add_argument("--json", type=Path, help="keeps all figures")
    options = parser.parse_args()
    allow_many_files()
    made, rounds = groups(options), []
    for number in range(options.rounds):
        say(f"round {number + 1} of {options.rounds}")
        figures = {}
        for name, make in made.items():
            folder = Path(tempfile.mkdtemp(prefix="cluster-", dir=options.folder))
            try:
                figures[name] = one_run(options, make, folder)
            finally:
                shutil.rmtree(folder, ignore_errors=True)
        rounds.append(figures)
        if options.json:
            options.json.write_text(json.dumps({"machine": machine(), "rounds": rounds}, indent=1), encoding="utf-8")
    print(report(rounds))
    errors = sum(f["errors"] for r in rounds for phases in r.values() for f in phases.values())
    print(f"\n{len(rounds)} rounds, {errors} errors, cluster_tls = {options.tls}; {machine()}")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
