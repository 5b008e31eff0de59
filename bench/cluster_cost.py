#!/usr/bin/env python3
"""What an operation costs each thread of three nodes: processor time, system calls' share of it, context switches.

    cluster_cost.py [--only one|three] [--phase PUT|GET|LIST|PUT16|GET16 ...] [--seconds 6] [--conns 63] [--perf FOLDER | --calls]

Groups, machines and phases are those of cluster.py. Threads of one name are added up: of the node processes, and of the process that leads.
--perf records a profile of all server processes into FOLDER (one file a phase); --calls counts their system calls with strace, which slows
them down, so that the times shown with it mean nothing.
"""

import argparse
import collections
import re
import shutil
import subprocess
import tempfile
import threading
import time
from pathlib import Path

from cluster import GROUPS, PHASES, ROOT, groups, run_phase
from lib.machine import allow_many_files, say
from lib.nodes import make_bucket, tree
from lib.tables import table
from lib.watching import TICK
from tests.cluster.network import missing

NAMES = {"PUT": "PUT 4 KiB", "GET": "GET 4 KiB", "LIST": "LIST of 1,000 names", "PUT16": "PUT 16 MiB", "GET16": "GET 16 MiB"}
CALLS = re.compile(r"^\s*[\d.]+\s+[\d.]+\s+\d+\s+(\d+)\s+(?:\d+\s+)?(\w+)$", re.M)


def status_of_task(task):
    """(switches of its own will, others)"""
    text = (task / "status").read_text(encoding="ascii", errors="replace")
    return [int(re.search(rf"^{name}:\s+(\d+)", text, re.M)[1]) for name in ("voluntary_ctxt_switches", "nonvoluntary_ctxt_switches")]


def look(pids):
    """By (process, thread): user and system seconds, switches of either kind."""
    seen = collections.defaultdict(lambda: [0.0, 0.0, 0, 0])
    for pid in pids:
        process = Path(f"/proc/{pid}/comm").read_text(encoding="ascii", errors="replace").strip()
        for task in Path(f"/proc/{pid}/task").iterdir():
            try:
                name = (task / "comm").read_text(encoding="ascii", errors="replace").strip()
                fields = (task / "stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()
                switches = status_of_task(task)
            except OSError:
                continue  # it ended
            row = seen[process, re.sub(r"-\d+$", "", name)]
            for i, more in enumerate([int(fields[11]) / TICK, int(fields[12]) / TICK, *switches]):
                row[i] += more
    return seen


def all_pids(group):
    return [pid for process in group.processes() for pid in tree(process)]


def show(title, before, after, ops):
    rows, total = [], [0.0] * 4
    for key in sorted(after):
        used = [(a - b) * f / ops for a, b, f in zip(after[key], before.get(key, [0] * 4), (1e6, 1e6, 1, 1))]
        total = [t + u for t, u in zip(total, used)]
        if used[0] + used[1] >= 0.05:
            rows.append([" ".join(key), f"{used[0] + used[1]:.1f}", f"{used[0]:.1f}", f"{used[1]:.1f}", f"{used[2]:.2f}", f"{used[3]:.2f}"])
    rows.append(["all", f"{total[0] + total[1]:.1f}", f"{total[0]:.1f}", f"{total[1]:.1f}", f"{total[2]:.2f}", f"{total[3]:.2f}"])
    print(f"\n{title}: {ops} operations\n\n" + table(["process and thread", "us", "user", "system", "sleeps", "preempted"], rows), flush=True)


class Beside:
    """A program that watches the servers during a phase."""

    def __init__(self, command, seconds):
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) if command else None
        self.timer = threading.Timer(seconds, self.end)
        self.timer.start()

    def end(self):
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(2)

    def wait(self):
        self.timer.cancel()
        self.end()
        if self.process is not None:
            self.process.wait(60)


def watcher(options, name, pids, place):
    if options.perf is not None:
        options.perf.mkdir(parents=True, exist_ok=True)
        return ["perf", "record", "-q", "-g", "-F", "2999", "-p", ",".join(map(str, pids)), "-o", str(options.perf / f"{name}.data")]
    if options.calls:
        return ["strace", "-f", "-c", "-U", "time,total-time,avg-time,calls,errors,name", "-o", str(place), *[word for pid in pids for word in ("-p", str(pid))]]
    return None


def show_calls(place, ops):
    counts = [(int(count), name) for count, name in CALLS.findall(place.read_text()) if name != "total"]
    print("\n" + table(["system call", "for an operation"], [[name, f"{count / ops:.2f}"] for count, name in sorted(counts, reverse=True)[:16]]), flush=True)


def measure(options, group, folder):
    keys = {}
    for name in NAMES:
        phase = next(p for p in PHASES if p[0] == NAMES[name])
        size = "l" if "16" in name else "s"
        if name not in options.phase and phase[1] != "put":
            continue
        if name not in options.phase and not any(n in options.phase for n in NAMES if ("16" in n) == ("16" in name)):
            continue
        time.sleep(1)
        pids, before = all_pids(group), look(all_pids(group))
        beside = Beside(watcher(options, name, pids, folder / "calls") if name in options.phase else None, 600)
        time.sleep(0.5 if options.calls or options.perf else 0)
        figures = run_phase(options, group, phase, keys.get(size))
        after = look(pids)
        beside.wait()
        keys.setdefault(size, figures["ops"])
        if name in options.phase:
            show(f"{group.name}: {phase[0]} ({figures['ops_s']:,.0f}/s, p50 {figures['p50_us']:,.0f} us, {figures['errors']} errors)", before, after, max(figures["ops"], 1))
            if options.calls:
                show_calls(folder / "calls", max(figures["ops"], 1))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", type=lambda text: Path(text).resolve(), default=ROOT / "build/release/millraced")
    parser.add_argument("--load", type=Path, default=ROOT / "build/release/bench/load")
    parser.add_argument("--only", action="append", choices=GROUPS[:2])
    parser.add_argument("--phase", action="append", choices=list(NAMES))
    parser.add_argument("--seconds", type=float, default=6)
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--tls", choices=["all", "control"], default="all")
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--perf", type=Path)
    parser.add_argument("--calls", action="store_true")
    options = parser.parse_args()
    options.minio = options.garage = None
    options.phase = options.phase or ["PUT"]
    options.only = options.only or ["three"]
    if missing() is not None:
        say(missing())
        return 2
    allow_many_files()
    for make in groups(options).values():
        folder = Path(tempfile.mkdtemp(prefix="cluster-", dir=options.folder))
        try:
            group = make(folder)
            try:
                group.start()
                make_bucket(options, group)
                measure(options, group, folder)
            finally:
                group.stop()
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
