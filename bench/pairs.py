#!/usr/bin/env python3
"""Compares two builds of millraced, in pairs: what a change costs.

    pairs.py --base PROGRAM [--program PROGRAM] [--pairs 7] [--phase TITLE ...] [--json FILE]

Each pair starts one build after the other, the order turned from pair to pair, each on fresh folders
(2+2), and runs the same phases against both by the same load generator. For each phase: the median,
over pairs, of the ratio of the daemon's CPU time per operation (below 1: the new build takes less)
and of throughput (above 1: the new build is faster), with the least and the most of them. Exit
status 1 if a request failed, 3 if a median is beyond --most-cpu or --least-rate.

Nothing but Python's standard library is needed.
"""

import argparse
import json
import shutil
import statistics
import sys
import tempfile
from pathlib import Path

from lib.loadgen import run_load
from lib.machine import allow_many_files, machine, say
from lib.servers import Millrace
from lib.tables import table

ROOT = Path(__file__).resolve().parent.parent

# (title, kind of `load`, arguments); the first of each size writes what the next ones read.
SMALL = ["--prefix", "s/", "--size", "4K"]
LARGE = ["--prefix", "l/", "--size", "16M"]
PHASES = [
    ("PUT 4 KiB", "put", [*SMALL, "--count", 60000, "--conns", 64]),
    ("GET 4 KiB", "get", [*SMALL, "--keys", 60000, "--count", 200000, "--conns", 64]),
    ("HEAD", "head", [*SMALL, "--keys", 60000, "--count", 200000, "--conns", 64]),
    ("LIST of 1,000 names", "list", [*SMALL, "--keys", 60000, "--count", 10000, "--conns", 8]),
    ("PUT 16 MiB", "put", [*LARGE, "--count", 150, "--conns", 4]),
    ("GET 16 MiB", "get", [*LARGE, "--keys", 150, "--count", 600, "--conns", 4]),
    ("DELETE", "delete", [*SMALL, "--count", 60000, "--conns", 64]),
]


def one_run(options, program, folder):
    """Figures of all phases, by title."""
    server, figures = Millrace(folder, program), {}
    server.start()
    try:
        run_load(options, server, "bucket")
        for title, kind, arguments in options.phases:
            figures[title] = run_load(options, server, kind, *arguments)
    finally:
        server.stop()
    return figures


def cpu_each(figures):
    return figures["server_cpu_s"] / figures["ops"]


def absolute(text):
    """A program's path, which is run in another folder."""
    return Path(text).resolve()


def spread(values):
    return f"{statistics.median(values):.3f} ({min(values):.3f} to {max(values):.3f})"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--base", type=absolute, required=True, help="millraced of the build that is compared with")
    parser.add_argument("--program", type=absolute, default=ROOT / "build/release/millraced", help="the new one")
    parser.add_argument("--load", type=absolute, default=ROOT / "build/release/bench/load", help="the load generator")
    parser.add_argument("--pairs", type=int, default=7)
    parser.add_argument("--phase", action="append", choices=[p[0] for p in PHASES], help="only these, and the PUTs that write what is read (default: all)")
    parser.add_argument("--folder", type=Path, help="where stores are made (default: a temporary folder)")
    parser.add_argument("--most-cpu", type=float, default=1.03, help="of the base's CPU per operation (default 1.03)")
    parser.add_argument("--least-rate", type=float, default=0.95, help="of the base's throughput (default 0.95)")
    parser.add_argument("--json", type=Path, help="keeps all figures")
    options = parser.parse_args()
    options.phases = [p for p in PHASES if not options.phase or p[0] in options.phase or p[1] == "put"]
    allow_many_files()
    pairs, errors = [], 0
    for number in range(options.pairs):
        pair = {}
        for name in ("base", "new") if number % 2 == 0 else ("new", "base"):
            folder = Path(tempfile.mkdtemp(prefix="pairs-", dir=options.folder))
            try:
                pair[name] = one_run(options, options.base if name == "base" else options.program, folder)
            finally:
                shutil.rmtree(folder, ignore_errors=True)
            errors += sum(f["errors"] for f in pair[name].values())
        pairs.append(pair)
        say(f"pair {number + 1} of {options.pairs}")
        if options.json:
            options.json.write_text(json.dumps({"machine": machine(), "pairs": pairs}, indent=1), encoding="utf-8")
    rows, beyond = [], False
    for title, _, _ in options.phases:
        cpu = [cpu_each(p["new"][title]) / cpu_each(p["base"][title]) for p in pairs]
        rate = [p["new"][title]["ops_s"] / p["base"][title]["ops_s"] for p in pairs]
        beyond |= statistics.median(cpu) > options.most_cpu or statistics.median(rate) < options.least_rate
        rows.append([title, f"{statistics.median(p['new'][title]['ops_s'] for p in pairs):,.0f}", spread(cpu), spread(rate)])
    print(table(["phase", "operations/s", "CPU per operation, new / base", "throughput, new / base"], rows))
    print(f"\n{options.pairs} pairs, {errors} errors")
    return 1 if errors else 3 if beyond else 0


if __name__ == "__main__":
    sys.exit(main())
