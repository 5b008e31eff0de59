#!/usr/bin/env python3
"""Simulates until a million crashes and faults were met, and says what they have cost: `make check-long` begins with it.

    check_long.py [--points N] [--hours H] [--jobs N] [--build build/release] [--state FOLDER] [--first SEED] [--again]

The simulators (tests/sim/README.md) run portions of seeds, each another: histories, and sweeps, in which one allocation or I/O after the other fails.
A point is a power cut, a kill, or a fault that was met in a history; a run of a sweep is one, whatever else it meets. What was run is kept in FOLDER
(build/long), for these very programs: when it is begun again it goes on behind the last portion, and other programs begin anew. --again begins anew in
any case. It ends when there are enough points, or after H hours. The last line is the sum; exit status 1 if a history failed, 2 if too few points
were met in the time.
"""
import argparse
import concurrent.futures
import hashlib
import json
import os
import re
import subprocess
import sys
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

# (name, program, arguments, seeds of a portion): taken in turn, by the points each has given so far in proportion to what is wanted of it.
KINDS = [
    ("histories of stores", "sim", ["--seeds"], 400, 50),
    ("histories of a drive", "simdrive", ["--seeds"], 200, 35),
    ("histories of nodes", "simnodes", ["--seeds"], 200, 50),
    ("sweeps of stores", "sim", ["--runs", "100", "--sweep"], 8, 10),
    ("sweeps of a drive", "simdrive", ["--runs", "100", "--sweep"], 8, 5),
]
LOST = re.compile(r"lost|gone|is missing|not there|forgotten|unreadable|gives \d+ names of|should be value")


def programs_digest(build):
    digest = hashlib.sha256()
    for program in sorted({kind[1] for kind in KINDS}):
        digest.update((build / program).read_bytes())
    return digest.hexdigest()[:16]


class State:
    """What was run so far, on disk after each portion. Portions that were under way when it was stopped are run again."""

    def __init__(self, folder, digest, first, again):
        self.file = folder / "state.json"
        self.lock = threading.Lock()
        folder.mkdir(parents=True, exist_ok=True)
        kept = json.loads(self.file.read_text()) if self.file.exists() and not again else {}
        if kept.get("programs") != digest:
            kept = {"programs": digest, "seconds": 0, "failures": [],
                    "kinds": {kind[0]: {"next": first, "points": 0, "histories": 0, "open": []} for kind in KINDS}}
        self.kept = kept
        for kind in kept["kinds"].values():  # not done: once more, first
            kind["again"] = kind.pop("open") + kind.get("again", [])
            kind["open"] = []

    def points(self):
        return sum(kind["points"] for kind in self.kept["kinds"].values())

    def take(self):
        """The next portion, of the kind that is most behind: (kind, first seed)."""
        with self.lock:
            kind = min(KINDS, key=lambda k: (self.kept["kinds"][k[0]]["points"] + len(self.kept["kinds"][k[0]]["open"]) * 100 * k[4]) / k[4])
            mine = self.kept["kinds"][kind[0]]
            seed = mine["again"].pop(0) if mine["again"] else mine["next"]
            mine["next"] = max(mine["next"], seed + kind[3])
            mine["open"].append(seed)
            return kind, seed

    def done(self, kind, seed, points, histories, failures, seconds):
        with self.lock:
            mine = self.kept["kinds"][kind[0]]
            mine["open"].remove(seed)
            mine["points"] += points
            mine["histories"] += histories
            self.kept["failures"] += failures
            self.kept["seconds"] += seconds
            self.save()

    def save(self):
        written = self.file.with_suffix(".new")
        written.write_text(json.dumps(self.kept, indent=1))
        os.replace(written, self.file)


def run(build, kind, seed):
    """(points, histories, [what failed])"""
    _, program, arguments, seeds, _ = kind
    command = [str(build / program), *arguments, f"{seed}-{seed + seeds - 1}"]
    text = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", check=False).stdout
    head = re.search(rf"^{program}: (\d+) histories, (\d+) failed", text, re.M)
    points = re.search(r"^ +(\d+) crash and fault points", text, re.M)
    lines = text.splitlines()
    failures = [" | ".join([line] + [after.strip() for after in lines[at + 1:at + 2] if "replay:" in after])
                for at, line in enumerate(lines) if line.startswith("FAILED")]
    if head is None or points is None:
        return 0, 0, [*failures, f"FAILED: {' '.join(command)} did not come to an end"]
    return int(points.group(1)), int(head.group(1)), failures


class Progress:
    """A line now and then, and each failure as soon as it is known."""

    def __init__(self, state, wanted):
        self.state, self.wanted = state, wanted
        self.began, self.had, self.said = time.monotonic(), state.points(), 0

    def say(self, failures):
        now, points = time.monotonic(), self.state.points()
        for line in failures:
            print(line, flush=True)
        if now - self.said < 30 and points < self.wanted:
            return
        self.said = now
        rate = (points - self.had) / max(now - self.began, 1)
        left = f", {(self.wanted - points) / rate / 60:.0f} min left" if rate > 0 and points < self.wanted else ""
        print(f"{points:>9,} of {self.wanted:,} points, {rate:.0f} a second{left}; {len(self.state.kept['failures'])} failed", flush=True)


def work(state, build, wanted, until, progress):
    while state.points() < wanted and time.monotonic() < until:
        kind, seed = state.take()
        began = time.monotonic()
        points, histories, failures = run(build, kind, seed)
        state.done(kind, seed, points, histories, failures, time.monotonic() - began)
        with state.lock:
            progress.say(failures)


def tell(state):
    for name, kind in state.kept["kinds"].items():
        print(f"  {name}: {kind['histories']:,} runs, {kind['points']:,} points")
    for line in state.kept["failures"]:
        print(f"  {line}")
    failures = state.kept["failures"]
    lost = sum(1 for line in failures if LOST.search(line))
    print(f"check-long: {state.points():,} simulated crash and fault points in {sum(k['histories'] for k in state.kept['kinds'].values()):,} histories and "
          f"{state.kept['seconds'] / 3600:.1f} hours of runs: {lost} lost, {len(failures) - lost} wrong", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--points", type=int, default=1_000_000)
    parser.add_argument("--hours", type=float, default=3)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--build", type=Path, default=ROOT / "build/release")
    parser.add_argument("--state", type=Path, default=ROOT / "build/long")
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--again", action="store_true")
    arguments = parser.parse_args()
    build = arguments.build.resolve()
    state = State(arguments.state, programs_digest(build), arguments.first, arguments.again)
    if state.points() > 0:
        print(f"goes on behind {state.points():,} points", flush=True)
    until = time.monotonic() + arguments.hours * 3600
    progress = Progress(state, arguments.points)
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        for one in [pool.submit(work, state, build, arguments.points, until, progress) for _ in range(arguments.jobs)]:
            one.result()
    tell(state)
    if state.kept["failures"]:
        return 1
    return 0 if state.points() >= arguments.points else 2


if __name__ == "__main__":
    sys.exit(main())
