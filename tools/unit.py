#!/usr/bin/env python3
"""Runs cmocka test programs, a few at a time, each with a time limit, and counts their tests from their TAP output.

    unit.py [--timeout S] [--seconds S] [--late-fails] [--counts FILE] [--wrap COMMAND] [--jobs N] PROGRAM|FOLDER ...

Prints one line a program and the whole output of those that fail. A program that fails is run once more, alone; if it passes then, a line
beginning with FLAKY names it. A program that has not begun after --seconds is skipped, and counts as one test: as a failed one with
--late-fails. --counts appends
'passed failed skipped name' to FILE for tools/check.sh. Exits 1 if a test failed or a program ended badly.
"""
import argparse
import collections
import concurrent.futures
import os
import re
import shlex
import subprocess
import sys
import threading
import time
from pathlib import Path

LATE = ("not begun",)
# Those that wait for limits of the engine, longest first: they begin first, so that nothing waits for one of them alone at the end. A name that has gone
# does no harm.
LONGEST = ["test_unreadable_store", "test_rebalance", "test_catch_up", "test_lost", "test_hot_add", "test_index_rot", "test_scrub", "test_heal", "test_store", "test_words"]
TAP_LINE = re.compile(r"^(?:1\.\.(?P<planned>\d+)|(?P<verdict>ok|not ok) +(?P<number>\d+)(?P<rest>.*))", re.M)


def programs(paths):
    """Programs that are named, and those of folders; what takes longest first."""
    found = []
    for path in map(Path, paths):
        found += sorted(p for p in path.rglob("test_*") if p.is_file() and os.access(p, os.X_OK)) if path.is_dir() else [path]
    return sorted(found, key=lambda p: LONGEST.index(p.name) if p.name in LONGEST else len(LONGEST))


def count(output):
    """(passed, failed, skipped) of one program's TAP output. Tests that a plan names but that never reported count as failed; of
    verdicts on the same test the last one counts (a test that forks may leave its child's verdict in the output)."""
    total = collections.Counter()
    planned, verdicts = 0, {}

    def close_group():
        total.update(verdicts.values())
        total["failed"] += max(0, planned - len(verdicts))

    for line in TAP_LINE.finditer(output):
        if line["planned"]:
            close_group()
            planned, verdicts = int(line["planned"]), {}
        elif "# skip" in line["rest"].lower():  # cmocka 1.1.5 writes "not ok" before it
            verdicts[line["number"]] = "skipped"
        else:
            verdicts[line["number"]] = "failed" if line["verdict"] == "not ok" else "passed"
    close_group()
    return total["passed"], total["failed"], total["skipped"]


def run(program, timeout, until, wrap):
    if time.monotonic() > until:
        print(f"SKIPPED {program}: no time left", flush=True)
        return LATE
    env = dict(os.environ, CMOCKA_MESSAGE_OUTPUT="TAP")
    env.pop("CMOCKA_XML_FILE", None)
    started = time.monotonic()
    proc = subprocess.Popen(wrap + [str(program)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                            env=env, start_new_session=True)
    late = threading.Event()

    def end():
        late.set()
        os.killpg(proc.pid, 9)

    timer = threading.Timer(timeout, end)
    timer.start()
    with proc.stdout:
        text = proc.stdout.read().decode("utf-8", "replace")
    os.waitid(os.P_PID, proc.pid, os.WEXITED | os.WNOWAIT)  # it is not reaped yet: its number is nobody else's
    timer.cancel()
    timer.join()
    _, status, used = os.wait4(proc.pid, 0)
    proc.returncode = os.waitstatus_to_exitcode(status)
    ending = f"no end after {timeout} s" if late.is_set() else "" if proc.returncode == 0 else f"exit status {proc.returncode}"
    passed, failed, skipped = count(text)
    if ending and failed == 0:
        failed = 1
    if passed + failed + skipped == 0:
        failed, ending = 1, "reported no test"
    line = (f"{'ok  ' if not failed else 'FAIL'} {program}: {passed} passed, {failed} failed"
          f"{f', {skipped} skipped' if skipped else ''} ({time.monotonic() - started:.1f} s, processor {used.ru_utime + used.ru_stime:.1f} s) {ending}")
    if failed:
        line += "\n    " + text[-20000:].replace("\n", "\n    ")
    print(line, flush=True)
    return passed, failed, skipped


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--timeout", type=float, default=120)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="no program begins after so long")
    parser.add_argument("--late-fails", action="store_true", help="what has not begun by then counts as failed, not as skipped")
    parser.add_argument("--counts")
    parser.add_argument("--jobs", type=int, default=1, help="programs run at the same time")
    parser.add_argument("--name", default="unit")
    parser.add_argument("--wrap", default="", help="command that runs each program, e.g. 'setarch -R'")
    parser.add_argument("paths", nargs="+")
    args = parser.parse_args()
    until = time.monotonic() + args.seconds
    total, wrap = [0, 0, 0], shlex.split(args.wrap)
    all_programs = programs(args.paths)
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        results = list(pool.map(lambda program: run(program, args.timeout, until, wrap), all_programs))
    for program, result in zip(all_programs, results):
        if result is LATE:
            result = (0, 1, 0) if args.late_fails else (0, 0, 1)
        elif result[1]:  # once more: what passes then is not counted as failed, but it is named
            result = run(program, args.timeout, float("inf"), wrap)
            if not result[1]:
                print(f"FLAKY {program}: failed once, passed when run again", flush=True)
        for i, n in enumerate(result):
            total[i] += n
    if args.counts:
        with open(args.counts, "a") as counts:
            counts.write(f"{total[0]} {total[1]} {total[2]} {args.name}\n")
    print(f"{args.name}: {total[0]} passed, {total[1]} failed, {total[2]} skipped")
    return 1 if total[1] else 0


if __name__ == "__main__":
    sys.exit(main())
