#!/usr/bin/env python3
"""Runs the cases of versitygw's integration suite against millraced, each case in a process of its own: a case that crashes ends
itself alone. `make conformance` calls this; tests/conformance/README.md says how to read what it prints.

Each worker has a store and a daemon of its own, on loopback. After a case that failed, its store is thrown away and a new one is
made, so that no case meets the buckets or users of another. A case that failed is tried once more in the new store.

Results stay in build/conformance/results.jsonl, so that a run that was interrupted goes on: they count for the same daemon and
suite only. exceptions.txt lists the cases that are known to fail, and why; any other failure ends the run with status 1."""
import argparse
import concurrent.futures
import hashlib
import json
import os
import queue
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))
from tests.support.daemon import PROGRAM, Daemon, DaemonError  # noqa: E402
from tests.support.s3raw import RawClient  # noqa: E402

MODULE = "github.com/versity/versitygw"
VERSION = "v1.8.0"
GROUPS = {"full-flow": "TestFullFlow", "access-control": "TestAccessControl", "iam": "TestIAM", "s3-iam": "TestS3IAMAccessControl",
          "s3-iam-session": "TestS3IAMSessionAccessControl"}
EXCEPTIONS = Path(__file__).with_name("exceptions.txt")
# The suite makes its users by the command line of versitygw. The folder that cases run in has no such program.
OWN_PROGRAM = "fork/exec ./versitygw"
NOT_ALONE = "No help topic for"  # a case that the suite runs in its group alone
ISSUER = ["--oidc-issuer", "https://127.0.0.1"]  # that nobody answers at; without one, requests for web identities are refused unread
COLOURS = re.compile(r"\x1b\[[0-9;]*m")
WORDING = "WORDING expected"  # printed by suite.patch where only the text of an error for people differs
SHOWN = 600  # characters of a failed case's output


def installed(tools):
    """The suite's program and the source that says which case belongs to which group, installed when they are missing."""
    program, groups = tools / f"versitygw-{VERSION}", tools / f"versitygw-{VERSION}-groups.go"
    if not (program.is_file() and groups.is_file()):
        done = subprocess.run([ROOT / "tools/deps.sh", "--conformance"], check=False)
        if done.returncode != 0 or not (program.is_file() and groups.is_file()):
            raise SystemExit("conformance: versitygw could not be installed: tools/deps.sh --conformance")
    return program, groups


def functions_of(source):
    """{function: names it runs, in order} of group-tests.go: the cases of ts.Run() and calls of other groups."""
    found = {}
    for name, body in re.findall(r"^func (Test\w+)\(ts \*TestState\) \{\n(.*?)^\}", source, re.M | re.S):
        found[name] = re.findall(r"^\s*(?:ts\.(?:Run|Sync)\((\w+)\)|(Test\w+)\(ts\))", body, re.M)
    return found


def cases_of(group, functions):
    def walk(function):
        for case, called in functions[function]:
            if case:
                yield case
            else:
                yield from walk(called)

    return list(dict.fromkeys(walk(GROUPS[group])))


def read_exceptions(text):
    """{case: (section, reason)}. A section is a line in brackets; cases start a line; the reason of the cases above is indented."""
    found, section, cases, ended = {}, None, [], False
    for number, line in enumerate(text.splitlines(), 1):
        name = line.strip()
        if not name or line.startswith("#"):
            continue
        if line[0].isspace():
            if not cases:
                raise ValueError(f"exceptions.txt:{number}: a reason without a case")
            for case in cases:
                found[case] = (found[case][0], (found[case][1] + " " + name).strip())
            ended = True
            continue
        if cases and ended:
            cases, ended = [], False
        if line.startswith("["):
            section = line.strip("[] ")
            continue
        if name in found or section is None or not re.fullmatch(r"\w+", name):
            raise ValueError(f"exceptions.txt:{number}: {name}: twice, outside a section, or no name")
        found[name] = (section, "")
        cases.append(name)
    if any(not reason for _, reason in found.values()):
        raise ValueError("exceptions.txt: without a reason: " + ", ".join(case for case, (_, reason) in found.items() if not reason))
    return found


def wait_for_users(daemon):
    """Just after a start, IAM answers 503 until the directory of users is read; SDKs ask again, and the suite does not."""
    client = RawClient(daemon.host, daemon.port, daemon.access_key, daemon.secret_key)
    ask = {"headers": {"Content-Type": "application/x-www-form-urlencoded"}, "body": b"Action=ListUsers&Version=2010-05-08"}
    daemon.wait_until(lambda: client.request("POST", "/", signer=client.signer(service="iam"), **ask).status != 503, 10, "to read its users")


class Worker:
    """One daemon over a store of its own, and the cases that are run against it one after the other."""

    def __init__(self, suite, seconds):
        self.suite, self.seconds, self.daemon = suite, seconds, None
        self.lock, self.closed = threading.Lock(), False

    def store(self):
        with self.lock:
            if self.closed:
                raise DaemonError("stopped")
            if self.daemon is None:
                self.daemon = Daemon(drives=1, loops=1, options=ISSUER)
                self.daemon.start()
                wait_for_users(self.daemon)
            return self.daemon

    def close(self):
        with self.lock:
            self.closed = True
            self.forget_store()

    def drop_store(self):
        with self.lock:
            self.forget_store()

    def forget_store(self):
        if self.daemon is not None:
            self.daemon.discard()
            self.daemon = None

    def try_case(self, case):
        """(verdict, output). Verdicts: passed, failed, skipped, left out."""
        daemon = self.store()
        environment = {k: v for k, v in os.environ.items() if not k.startswith("AWS_")}
        # With versions the suite also removes those of an object when it removes a bucket.
        command = [self.suite, "test", "--access", daemon.access_key, "--secret", daemon.secret_key, "--endpoint", daemon.endpoint, case,
                   "--versioning-enabled"]
        try:
            done = subprocess.run(command, cwd=daemon.folder, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, timeout=self.seconds, check=False)
        except subprocess.TimeoutExpired as late:
            return "failed", f"did not end within {self.seconds} s\n" + (late.stdout or b"").decode("utf-8", "replace")
        output = COLOURS.sub("", done.stdout.decode("utf-8", "replace"))
        if not daemon.alive:
            return "failed", f"the daemon ended with {daemon.process.returncode}\n{daemon.tail()}\n{output}"
        if OWN_PROGRAM in output or NOT_ALONE in output:
            return "left out", output
        if re.search(r"^SKIP ", output, re.M) and done.returncode == 0:
            return "skipped", output
        passed = done.returncode == 0 and re.search(r"^PASS ", output, re.M) and not re.search(r"^FAIL ", output, re.M)
        return ("passed" if passed else "failed"), output

    def run(self, case):
        begin = time.monotonic()
        verdict, output = self.try_case(case)
        tries = 1
        if verdict != "passed" and verdict != "skipped":
            self.drop_store()
        if verdict == "failed":
            verdict, output = self.try_case(case)
            tries = 2
            if verdict == "failed":
                self.drop_store()
        return {"case": case, "verdict": verdict, "tries": tries, "seconds": round(time.monotonic() - begin, 2), "output": output[-4000:]}


class Results:
    """What is known of each case, kept in a file of which the first line says for which daemon and suite."""

    def __init__(self, path, mark, again):
        self.path, self.known, self.lock = path, {}, threading.Lock()
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            lines = [json.loads(line) for line in path.read_text().splitlines()]
        except (OSError, ValueError):
            lines = []
        if not again and lines and lines[0] == {"of": mark}:
            self.known = {line["case"]: line for line in lines[1:]}
        else:
            path.write_text(json.dumps({"of": mark}) + "\n")

    def add(self, result):
        with self.lock:
            self.known[result["case"]] = result
            with open(self.path, "a") as file:
                file.write(json.dumps(result) + "\n")


def run_cases(cases, suite, results, jobs, seconds, deadline):
    """Runs what is not known yet; False if time ended before all were run."""
    waiting = queue.Queue()
    for case in cases:
        waiting.put(case)
    total, counts, lock = len(cases), {}, threading.Lock()

    def work(worker):
        try:
            while time.monotonic() < deadline:
                try:
                    case = waiting.get_nowait()
                except queue.Empty:
                    return
                result = worker.run(case)
                results.add(result)
                with lock:
                    counts[result["verdict"]] = counts.get(result["verdict"], 0) + 1
                    done = sum(counts.values())
                    line = f"{done}/{total}  " + "  ".join(f"{name}: {counts[name]}" for name in sorted(counts))
                    if sys.stdout.isatty():
                        print(f"\r{line}  {case[:50]:<50}", end="", flush=True)
                    elif done % 50 == 0 or done == total:
                        print(line, flush=True)
        finally:
            worker.close()

    workers = [Worker(suite, seconds) for _ in range(jobs)]
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        tasks = [pool.submit(work, worker) for worker in workers]
        try:
            for task in tasks:
                task.result()
        except BaseException:  # also the signals that end us: no daemon stays behind
            for worker in workers:
                worker.close()
            raise
    print()
    return waiting.empty()


def why_failed(output):
    lines = [line for line in output.splitlines() if line.startswith("FAIL ")] or output.strip().splitlines()[:3]
    return " ".join(lines)[:SHOWN]


def report(groups, known, exceptions, verbose):
    """Prints the table, the exceptions and the failures that are not listed; returns the number of those."""
    print(f"{'group':<16}{'cases':>7}{'passed':>8}{'listed':>8}{'failed':>8}{'skipped':>9}{'left out':>10}{'not run':>9}")
    unlisted, listed, left_out, second, worded, names = [], [], [], [], [], set()
    for group, cases in groups.items():
        row = dict.fromkeys(("passed", "listed", "failed", "skipped", "left out", "not run"), 0)
        for case in cases:
            result = known.get(case)
            verdict = "not run" if result is None else result["verdict"]
            if verdict == "failed" and case in exceptions:
                verdict = "listed"
            row[verdict] += 1
            if case in names:
                continue
            names.add(case)
            for kind, place in (("failed", unlisted), ("listed", listed), ("left out", left_out)):
                if verdict == kind:
                    place.append(case)
            if verdict == "passed" and result["tries"] > 1:
                second.append(case)
            if verdict == "passed" and WORDING in result["output"]:
                worded.append(case)
        print(f"{group:<16}{len(cases):>7}{row['passed']:>8}{row['listed']:>8}{row['failed']:>8}{row['skipped']:>9}{row['left out']:>10}{row['not run']:>9}")
    for section in dict.fromkeys(exceptions[case][0] for case in listed):
        of_section = [case for case in listed if exceptions[case][0] == section]
        print(f"\nListed: {section} ({len(of_section)})")
        for case in of_section if verbose else ():
            print(f"  {case}: {exceptions[case][1]}")
    if worded:
        print(f"\nPassed with another message of an error ({len(worded)})" + (":" if verbose else ""))
        for case in worded if verbose else ():
            print("  " + case + "".join(f"\n    {line}" for line in known[case]["output"].splitlines() if WORDING in line))
    if left_out:
        print(f"\nLeft out, since they run versitygw's own command line or cannot be run alone ({len(left_out)})" + (":" if verbose else ""))
        for case in left_out if verbose else ():
            print(f"  {case}")
    if second:
        print("\nPassed at the second try:", ", ".join(second))
    stale = sorted(case for case in exceptions if case in names and known.get(case, {}).get("verdict") == "passed")
    if stale:
        print("\nIn exceptions.txt, but they pass; take them out:", ", ".join(stale))
    if unlisted:
        print(f"\nFailed and not in exceptions.txt ({len(unlisted)}):")
        for case in unlisted:
            print(f"  {case}: {why_failed(known[case]['output'])}")
    return len(unlisted)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0], formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--group", action="append", choices=list(GROUPS), help="only this group; may be repeated")
    parser.add_argument("--case", action="append", default=[], metavar="REGEX", help="only cases whose name this matches")
    parser.add_argument("--jobs", type=int, default=min(4, os.cpu_count() or 1), help="stores at once (default %(default)s)")
    parser.add_argument("--seconds", type=float, default=60, help="limit of one case (default %(default)s)")
    parser.add_argument("--minutes", type=float, default=60, help="limit of all cases; what is left is run by the next call (default %(default)s)")
    parser.add_argument("--again", action="store_true", help="forget earlier results")
    parser.add_argument("--failed", action="store_true", help="run those again that failed")
    parser.add_argument("--verbose", action="store_true", help="name each listed case with its reason")
    parser.add_argument("--tools", type=Path, default=ROOT / "build/tools", help="where the suite is installed")
    parser.add_argument("--results", type=Path, default=ROOT / "build/conformance/results.jsonl")
    return parser.parse_args()


def main():
    args = arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("conformance: stopped; run it again to go on"))
    exceptions = read_exceptions(EXCEPTIONS.read_text())
    suite, source = installed(args.tools)
    functions = functions_of(source.read_text())
    wanted = [re.compile(pattern) for pattern in args.case]
    groups = {group: [case for case in cases_of(group, functions) if not wanted or any(w.search(case) for w in wanted)]
              for group in args.group or GROUPS}
    mark = {name: hashlib.sha256(program.read_bytes()).hexdigest() for name, program in (("suite", suite), ("daemon", PROGRAM))}
    results = Results(args.results, mark, args.again)
    if args.failed:
        results.known = {case: result for case, result in results.known.items() if result["verdict"] != "failed"}
    cases = list(dict.fromkeys(case for of_group in groups.values() for case in of_group))
    todo = [case for case in cases if case not in results.known]
    print(f"versitygw {VERSION}: {len(cases)} cases, {len(cases) - len(todo)} known from an earlier run of the same daemon", flush=True)
    try:
        complete = run_cases(todo, suite, results, args.jobs, args.seconds, time.monotonic() + args.minutes * 60)
    except DaemonError as error:
        raise SystemExit(f"conformance: {error}") from None
    failed = report(groups, results.known, exceptions, args.verbose)
    if not complete:
        print("\nThe time is over: run this again for the cases that are left.")
    return 1 if failed or not complete else 0


if __name__ == "__main__":
    sys.exit(main())
