#!/usr/bin/env python3
"""Three nodes of millrace beside one, and beside three of MinIO and three of Garage: the same operations, in turns.

    cluster.py [--rounds 3] [--seconds 8] [--scale 1.0] [--only NAME ...] [--tls all|control] [--minio PROGRAM] [--garage PROGRAM] [--json FILE]

Each node is on a machine of its own that is a network namespace, with four folders; clients are on another one, and their connections take
turns at all nodes. All machines share one computer, so processor time counts, of all server processes together: for an operation, or for a GiB
of large objects. Throughput is shown beside it. Within a round the groups take turns, each on fresh folders; figures are medians over rounds, and
ratios are medians of the rounds' ratios. Exit status 1 if a request failed, 2 where there can be no namespaces (they need root, and etcd).

Nothing but Python's standard library is needed. MinIO is installed by Go and Garage by cargo where they are not there.
"""

import argparse
import json
import shutil
import statistics
import sys
import tempfile
from pathlib import Path

from lib.machine import allow_many_files, machine, say
from lib.nodes import SETTINGS, GarageNodes, MillraceNodes, MinioNodes, OneNode, make_bucket, memory_of, nodes_of, run_at_all
from lib.servers import Garage, Minio, find_program
from lib.tables import number, table, times
from tests.cluster.network import missing

ROOT = Path(__file__).resolve().parent.parent
MIB, GIB = 1 << 20, 1 << 30
SMALL = ["--prefix", "s/", "--size", "4K"]
LARGE = ["--prefix", "l/", "--size", "16M"]
GROUPS = ["one", "three", "minio", "garage"]
# title, kind of `load`, arguments, operations at most, connections (of large ones: to each node, since MD5 of several uploads at once costs
# little more than of one), the most that three nodes may take of one node's CPU, the least that they do of MinIO's operations
PHASES = [
    # what is put is read by the phases behind it
    ("PUT 4 KiB", "put", SMALL, 60000, 63, 2.5, 15),
    ("GET 4 KiB", "get", SMALL, 200000, 63, 2, 8),
    ("LIST of 1,000 names", "list", SMALL, 3000, 9, 2, None),
    ("PUT 16 MiB", "put", LARGE, 120, 6, 1.6, 1.5),
    ("GET 16 MiB", "get", LARGE, 600, 6, 1.6, 1.5),
]


MEMORY = "memory"  # of each node: {process: bytes}
NODE, LEADER = "millraced", "millraced-lead"
MEMORY_MOST, LED_MOST_MIB = 1.1, 64


def is_large(title):
    return "MiB" in title


def groups(options):
    made = {"one": lambda folder: OneNode(folder, options.program, settings=SETTINGS), "three": lambda folder: MillraceNodes(folder, options.program, options.tls)}
    for key, peer, nodes, given in (("minio", Minio, MinioNodes, options.minio), ("garage", Garage, GarageNodes, options.garage)):
        program = find_program(peer, given) if not options.only or key in options.only else None
        if program:
            made[key] = lambda folder, nodes=nodes, program=program: nodes(folder, program)
    return {name: make for name, make in made.items() if not options.only or name in options.only}


def run_phase(options, group, phase, keys):
    title, kind, arguments, count, conns, *_ = phase
    conns *= nodes_of(group) if is_large(title) else 1
    return run_at_all(options, group, kind, *arguments, "--count", max(int(count * options.scale), 1), "--duration", options.seconds, "--conns", conns,
                      *(["--keys", keys] if kind != "put" else []))


def one_run(options, make, folder):
    group, figures, keys = make(folder), {}, None
    try:
        group.start()
        make_bucket(options, group)
        for phase in PHASES:
            f = figures[phase[0]] = run_phase(options, group, phase, keys)
            if phase[1] == "put":
                keys = f["ops"]
            if f["ops"] == 0:
                raise RuntimeError(f"{group.name}: {phase[0]}: nothing succeeded")
            say(f"  {group.name}: {phase[0]}: {f['ops_s']:,.0f}/s, {f['cpu_s'] * 1e6 / f['ops']:,.0f} us of CPU each, {f['errors']} errors")
        figures[MEMORY] = [memory_of(process) for process in group.processes()]
    finally:
        group.stop()
    return figures


# ---- tables -------------------------------------------------------------------------------------------------


def cost(title, figures):
    return figures["cpu_s"] / figures["bytes"] * GIB if is_large(title) else figures["cpu_s"] * 1e6 / figures["ops"]


def speed(title, figures):
    return figures["mib_s"] if is_large(title) else figures["ops_s"]


def median_ratio(rounds, title, of, name, other):
    """None where one of them was not measured."""
    if not {name, other} <= set(rounds[0]):
        return None
    return statistics.median(of(title, r[name][title]) / max(of(title, r[other][title]), 1e-9) for r in rounds)


def against(ratio, sign, wanted):
    """"2.10x (≤ 2.5x)", and a mark where it is not reached."""
    if ratio is None or wanted is None:
        return times(ratio)
    return f"{times(ratio)} ({sign} {wanted}x{'' if (ratio <= wanted if sign == '≤' else ratio >= wanted) else ': not reached'})"


def cpu_table(rounds):
    names, rows = list(rounds[0]), []
    for title, *_, most, _ in PHASES:
        row = [title, "s/GiB" if is_large(title) else "us", *(number(statistics.median(cost(title, r[name][title]) for r in rounds)) for name in names)]
        rows.append([*row, against(median_ratio(rounds, title, cost, "three", "one"), "≤", most), times(median_ratio(rounds, title, cost, "minio", "three")),
                     times(median_ratio(rounds, title, cost, "garage", "three"))])
    return table(["CPU of all servers", "in", *names, "three / one", "minio / three", "garage / three"], rows)


def speed_table(rounds):
    names, rows = list(rounds[0]), []
    for title, *_, least in PHASES:
        row = [title, "MiB/s" if is_large(title) else "1/s", *(number(statistics.median(speed(title, r[name][title]) for r in rounds)) for name in names)]
        rows.append([*row, times(median_ratio(rounds, title, speed, "three", "one")), against(median_ratio(rounds, title, speed, "three", "minio"), "≥", least),
                     times(median_ratio(rounds, title, speed, "three", "garage"))])
    return table(["throughput", "in", *names, "three / one", "three / minio", "three / garage"], rows)


def memory_lines(rounds):
    """Of node processes, and of those that lead: the median of each round's largest."""
    def largest(group, process):
        return statistics.median(max((node.get(process, 0) for node in r[group][MEMORY]), default=0) for r in rounds) / MIB
    if not {"one", "three"} <= set(rounds[0]):
        return []
    node, one, leader = largest("three", NODE), largest("one", NODE), largest("three", LEADER)
    return [f"memory that is no file's: one node {one:.0f} MiB; a node process of three {node:.0f} MiB, {against(node / max(one, 1), '≤', MEMORY_MOST)}; the process that leads "
            f"{leader:.0f} MiB (≤ {LED_MOST_MIB} MiB{'' if leader <= LED_MOST_MIB else ': not reached'})"]


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", type=lambda text: Path(text).resolve(), default=ROOT / "build/release/millraced", help="millraced, with millrace beside it")
    parser.add_argument("--load", type=Path, default=ROOT / "build/release/bench/load", help="the load generator")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=8, help="of a phase at most (default 8)")
    parser.add_argument("--scale", type=float, default=1.0, help="of the number of operations")
    parser.add_argument("--only", action="append", choices=GROUPS, help="only these (default: all)")
    parser.add_argument("--tls", choices=["all", "control"], default="all", help="cluster_tls of the three nodes: control leaves shards in clear between nodes")
    parser.add_argument("--minio", help="MinIO's program (default: found, or installed by Go)")
    parser.add_argument("--garage", help="Garage's program (default: found, or installed by cargo, a quarter of an hour)")
    parser.add_argument("--folder", type=Path, help="where stores are made (default: a temporary folder)")
    parser.add_argument("--json", type=Path, help="keeps all figures")
    return parser.parse_args()


def main():
    options = parse()
    if missing() is not None:
        say(missing())
        return 2
    allow_many_files()
    made, rounds = groups(options), []
    for turn in range(options.rounds):
        say(f"round {turn + 1} of {options.rounds}")
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
    print("\n\n".join([cpu_table(rounds), speed_table(rounds), *memory_lines(rounds)]))
    errors = sum(phases[title]["errors"] for r in rounds for phases in r.values() for title, *_ in PHASES)
    print(f"\n{len(rounds)} rounds, {errors} errors, cluster_tls = {options.tls}; {machine()}")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
