#!/usr/bin/env python3
"""What versions, delete markers and lifecycle rules cost, in a store of one drive that is filled in bulk (bench/scale/versions.c).

  listings    entries a second of ListObjectVersions, --versions in as many keys and in --few keys, against ListObjectsV2 of as many objects, without
              and with the owner of each, which versions always have
  neighbours  ListObjectsV2 of 1,000 keys, one of which has --versions versions, or delete markers, against 1,000 keys of one version each
  scan        a pass of lifecycle rules over --versions of which nothing is due
  deletions   lifecycle rules that delete --due objects, or noncurrent versions, one of a key or 99 of each, against DELETEs of a client at 16 and 64
              connections, and against DeleteObjects of 1,000 versions each
  GETs        p99 of small GETs (open loop, --rate) while rules delete, against the same before and after

and what follows for 1e9 versions. Medians over --rounds, in which what is compared takes turns. Prints Markdown. Nothing but Python's standard library is
needed. Exit status 1 if a request failed.
"""

import argparse
import json
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from lib.loadgen import run_load
from lib.machine import GIB, allow_many_files, machine, say
from lib.s3client import S3Client, entries_of, versions_of
from lib.servers import Millrace
from lib.tables import number, ratio, table
from lib.watching import cpu_seconds, metrics, resting, until

PLAIN, VERSIONED, SMALL = "plain", "versioned", "small"  # buckets
NEIGHBOURS = 1000
MIDDLE = "000000000500-"  # behind the 500th of them
MANY = 10**9
LOOK_S = 0.1  # between looks at a counter
DAY = 86400
NOTHING_IS_DUE = "<Filter><And><Prefix>{}</Prefix><ObjectSizeGreaterThan>1099511627776</ObjectSizeGreaterThan></And></Filter>" \
    "<Expiration><Days>1</Days></Expiration><NoncurrentVersionExpiration><NoncurrentDays>1</NoncurrentDays></NoncurrentVersionExpiration>"
ALL_EXPIRE = "<Filter><Prefix>{}</Prefix></Filter><Expiration><Days>1</Days></Expiration>"
OLD_ONES_EXPIRE = "<Filter><Prefix>{}</Prefix></Filter><NoncurrentVersionExpiration><NoncurrentDays>1</NoncurrentDays></NoncurrentVersionExpiration>"
ENABLED = b"<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>"


class Site:
    def __init__(self, options, folder):
        self.options = options
        self.server = Millrace(folder, options.build / "millraced", drives=1, ec=None,
                               settings={"scrub_rate": "0", "log_file_size": "64MiB", "test_day_seconds": "24"})
        self.figures, self.errors = {}, 0
        self.s3 = None

    def load(self, kind, bucket, *arguments):
        result = run_load(self.options, self.server, kind, "--bucket", bucket, *arguments)
        self.errors += result["errors"]
        return result

    def cpu(self):
        return cpu_seconds(self.server.process.pid)

    def keep(self, name, **figures):
        self.figures[name] = figures
        say(f"{name}: {figures}")

    # ---- the store -----------------------------------------------------------------------------

    def fill(self):
        o = self.options
        self.server.start()
        self.s3 = S3Client(self.server)
        for bucket in (PLAIN, VERSIONED):
            self.s3.request("PUT", f"/{bucket}")
        self.s3.request("PUT", f"/{VERSIONED}", {"versioning": ""}, ENABLED)
        for bucket in (PLAIN, VERSIONED):
            self.s3.request("PUT", f"/{bucket}/0", body=b"x")
        self.server.stop()
        started = time.monotonic()
        sets = [f"objects:gone/:{2 * o.due * o.rounds}:{2 * o.due * o.rounds}", *(f"objects:expired{i}/:{o.due}:{o.due}" for i in range(o.rounds)),
                f"objects:meanwhile/:{o.meanwhile}:{o.meanwhile}", f"objects:o/:{o.versions}:{o.versions}",
                f"versions:calm/:{NEIGHBOURS}:{NEIGHBOURS}", f"versions:deep/:{NEIGHBOURS}:{NEIGHBOURS}", f"versions:deep/{MIDDLE}:1:{o.versions}",
                f"versions:few/:{o.few}:{o.versions}", f"versions:many/:{o.versions}:{o.versions}",
                f"versions:marked/:{NEIGHBOURS}:{NEIGHBOURS}", f"markers:marked/{MIDDLE}:1:{o.versions}",
                f"versions:one/:{2 * o.due}:{4 * o.due}", f"versions:pile/:{max(1, o.due // 50)}:{2 * max(1, o.due // 50) * 50}"]
        subprocess.run([o.build / "bench/scale/versions", "--drive", self.server.drives[0], *sets], check=True)
        made = time.monotonic() - started
        self.server.start()
        self.s3 = S3Client(self.server)
        until(lambda: not resting(self.server), 5, "the look at all objects to begin")
        until(lambda: resting(self.server), o.wait, "the look at all objects to end")
        self.load("bucket", SMALL)
        self.load("put", SMALL, "--size", "4K", "--count", str(o.small), "--conns", "16")
        self.keep("made", seconds=made, gib=self.gib())

    def gib(self):
        return sum(f.stat().st_blocks * 512 for f in self.server.drives[0].rglob("*") if f.is_file()) / GIB

    # ---- listings ------------------------------------------------------------------------------

    def listing(self, bucket, prefix, versions, owner):
        started, used, entries = time.monotonic(), self.cpu(), 0
        for page in self.s3.pages(bucket, prefix, versions, owner):
            entries += entries_of(page)
        if entries != self.options.versions:
            raise RuntimeError(f"{entries} entries below {bucket}/{prefix}")
        return {"entries_s": entries / (time.monotonic() - started), "cpu_us": (self.cpu() - used) * 1e6 / entries}

    def listings(self):
        kinds = {"objects": (PLAIN, "o/", False, False), "objects with owners": (PLAIN, "o/", False, True), "heads": (VERSIONED, "many/", False, False),
                 "many": (VERSIONED, "many/", True, True), "few": (VERSIONED, "few/", True, True)}
        found = {name: [] for name in kinds}
        for _ in range(self.options.rounds):
            for name, kind in kinds.items():
                found[name].append(self.listing(*kind))
        for name, rounds in found.items():
            self.keep(f"list {name}", **medians(rounds))

    def neighbours(self):
        took = {"calm": [], "deep": [], "marked": []}
        for _ in range(self.options.pages):
            for name, times in took.items():
                started = time.monotonic()
                page = self.s3.request("GET", f"/{VERSIONED}", {"list-type": "2", "max-keys": "1000", "prefix": name + "/"})
                times.append(time.monotonic() - started)
                if entries_of(page) != NEIGHBOURS:
                    raise RuntimeError(f"{entries_of(page)} of {NEIGHBOURS} neighbours below {name}/")
        for name, times in took.items():
            self.keep(f"neighbours {name}", ms=statistics.median(times) * 1000)

    # ---- lifecycle -----------------------------------------------------------------------------

    def counter(self, name):
        return metrics(self.server)[f"millrace_lifecycle_{name}_total"]

    def counted(self, bucket, rule, counter, amount):
        """Steps a second of a counter under a rule, from its first to that of so many, or until that took too long."""
        before = self.counter(counter)
        self.s3.lifecycle(bucket, rule)
        try:
            until(lambda: self.counter(counter) > before, self.options.wait, f"{counter} to move", LOOK_S)
            started, used, first = time.monotonic(), self.cpu(), self.counter(counter) - before
            ended = until(lambda: self.counter(counter) >= before + amount, self.options.wait, f"{counter} to grow by {amount}", LOOK_S) is not None
            took, steps = time.monotonic() - started, min(self.counter(counter) - before, amount) - first
            return {"a_second": steps / max(took, 1e-3), "cpu_us": (self.cpu() - used) * 1e6 / max(steps, 1), "ended": ended}
        finally:
            self.s3.lifecycle(bucket, None)

    def scans(self):
        for name in ("many", "few"):
            self.keep(f"scan {name}", **self.counted(VERSIONED, NOTHING_IS_DUE.format(name + "/"), "looked_at", self.options.versions))

    def deletions(self):
        o = self.options
        found = {name: [] for name in ("client deletes at 16", "client deletes at 64", "lifecycle deletes objects")}
        for i in range(o.rounds):
            found["client deletes at 16"].append(self.delete_objects(16, 2 * i * o.due))
            found["client deletes at 64"].append(self.delete_objects(64, (2 * i + 1) * o.due))
            found["lifecycle deletes objects"].append(self.counted(PLAIN, ALL_EXPIRE.format(f"expired{i}/"), "expired", o.due))
        for name, rounds in found.items():
            self.keep(name, **medians(rounds), rounds=rounds)
        for name in ("one", "pile"):
            left = self.delete_half(name)
            self.keep(f"lifecycle deletes {name}", **self.counted(VERSIONED, OLD_ONES_EXPIRE.format(name + "/"), "versions_deleted", left))

    def delete_objects(self, conns, start):
        result = self.load("delete", PLAIN, "--prefix", "gone/", "--conns", str(conns), "--start", str(start), "--count", str(self.options.due))
        return {"a_second": result["ops"] / result["seconds"], "cpu_us": result["server_cpu_s"] * 1e6 / max(result["ops"], 1)}

    def delete_half(self, name):
        """By DeleteObjects, the first half of the noncurrent versions; how many there are still. Only the requests are timed."""
        old = [(key, version) for page in self.s3.pages(VERSIONED, name + "/", True) for key, version, latest in versions_of(page) if not latest]
        half, took, used = old[:len(old) // 2], 0.0, self.cpu()
        for at in range(0, len(half), 1000):
            started = time.monotonic()
            self.s3.delete(VERSIONED, half[at:at + 1000])
            took += time.monotonic() - started
        self.keep(f"client deletes {name}", a_second=len(half) / took, cpu_us=(self.cpu() - used) * 1e6 / len(half))
        return len(old) - len(half)

    def read_small(self):
        o = self.options
        result = self.load("get", SMALL, "--size", "4K", "--keys", str(o.small), "--conns", "32", "--rate", str(o.rate), "--duration", str(o.seconds))
        return {"p50_us": result["p50_us"], "p99_us": result["p99_us"]}

    def gets_beside(self, all_gone):
        """The same while rules delete, and how many they deleted a second. It counts only if something was left to the end: all_gone is the counter if not."""
        before = self.counter("expired")
        self.s3.lifecycle(PLAIN, ALL_EXPIRE.format("meanwhile/"))
        try:
            until(lambda: self.counter("expired") > before, self.options.wait, "rules to delete", LOOK_S)
            begun, started = self.counter("expired"), time.monotonic()
            figures = self.read_small()
            took, ended = time.monotonic() - started, self.counter("expired")
        finally:
            self.s3.lifecycle(PLAIN, None)
        return {**figures, "deleted_s": (ended - begun) / took, "counts": ended < all_gone}

    def gets(self):
        alone, beside, all_gone = [self.read_small()], [], self.counter("expired") + self.options.meanwhile
        for _ in range(self.options.rounds):
            beside.append(self.gets_beside(all_gone))
            alone.append(self.read_small())
        self.keep("GETs alone", **medians(alone), rounds=alone)
        self.keep("GETs beside", **medians(beside), rounds=beside)


def medians(rounds):
    """Of each figure; what is true or false is true if it always was."""
    def of(values):
        return all(values) if isinstance(values[0], bool) else statistics.median(values)
    return {name: of([one[name] for one in rounds]) for name in rounds[0]}


# ---- the report --------------------------------------------------------------------------------


def compared(figures, name, base, figure):
    """name / base of a figure."""
    return ratio(figures[name].get(figure), figures[base].get(figure))


def rows_of_listings(_, figures):
    for name, what in (("many", "as many keys"), ("few", "few keys")):
        for base in ("objects", "objects with owners"):
            one, other = figures[f"list {name}"], figures[f"list {base}"]
            value = ratio(one["entries_s"], other["entries_s"])
            yield [f"versions listed, {what}; {base}", f"{number(one['entries_s'])} entries/s; {number(other['entries_s'])}", number(value), ">= 0.7",
                   value is not None and value >= 0.7]
            yield ["the same by processor time of the server", f"{number(one['cpu_us'])} µs an entry; {number(other['cpu_us'])}",
                   number(ratio(other["cpu_us"], one["cpu_us"])), "", None]
    yield ["objects listed that have versions", f"{number(figures['list heads']['entries_s'])} entries/s",
           number(compared(figures, "list heads", "list objects", "entries_s")), "", None]


def rows_of_neighbours(_, figures):
    for name, what in (("deep", "versions"), ("marked", "delete markers")):
        value = compared(figures, f"neighbours {name}", "neighbours calm", "ms")
        yield [f"neighbours of a key with many {what}", f"{number(figures[f'neighbours {name}']['ms'])} ms, {number(figures['neighbours calm']['ms'])} without",
               number(value), "<= 1.1", value <= 1.1]


def rows_of_scans(options, figures):
    for name, what in (("many", "as many keys"), ("few", "few keys")):
        rate = figures[f"scan {name}"]["a_second"]
        took = ratio(options.versions, rate)
        yield [f"scan without anything due, {what}", f"{number(rate)} versions/s", f"{number(took)} s", "<= 60 s for 1e6", rate is not None and rate >= 1e6 / 60]


def rows_of_deletions(_, figures):
    rate = figures["lifecycle deletes objects"]["a_second"]
    for conns in (16, 64):
        client = figures[f"client deletes at {conns}"]["a_second"]
        value = ratio(rate, client)
        yield [f"objects deleted by rules; DELETEs of a client with {conns} connections", f"{number(rate)} /s; {number(client)}", number(value), ">= 0.5",
               value is not None and value >= 0.5]
    for name, what in (("one", "one of each key"), ("pile", "99 of each key")):
        value = compared(figures, f"lifecycle deletes {name}", f"client deletes {name}", "a_second")
        yield [f"versions deleted by rules, {what}; DeleteObjects", f"{number(figures[f'lifecycle deletes {name}']['a_second'])} /s; "
               f"{number(figures[f'client deletes {name}']['a_second'])}", number(value), ">= 0.5", value is not None and value >= 0.5]


def rows_of_gets(_, figures):
    value = compared(figures, "GETs beside", "GETs alone", "p99_us") if all(one["counts"] for one in figures["GETs beside"]["rounds"]) else None
    yield ["p99 of small GETs meanwhile", f"{number(figures['GETs beside']['p99_us'])} µs, {number(figures['GETs alone']['p99_us'])} alone; "
           f"{number(figures['GETs beside']['deleted_s'])} deleted/s", number(value), "<= 1.5", value is not None and value <= 1.5]


def rows_of_many(figures):
    """1e9 in a day, at the rates of this run."""
    for name, what in (("scan many", "scanned"), ("lifecycle deletes one", "versions deleted"), ("lifecycle deletes objects", "objects deleted"),
                       ("GETs beside", "objects deleted beside GETs")):
        if name not in figures:
            continue
        rate = figures[name].get("a_second", figures[name].get("deleted_s"))
        hours = ratio(MANY / 3600, rate)
        yield [f"1e9 {what}", f"1e9 / {number(rate)} a second", f"{number(hours)} h", "<= 24 h", hours is not None and hours <= DAY / 3600]


ROWS = {"listings": rows_of_listings, "neighbours": rows_of_neighbours, "scans": rows_of_scans, "deletions": rows_of_deletions, "gets": rows_of_gets}


def report(options, figures):
    made = figures["made"]
    print(f"## {options.versions:,} versions ({machine()}; load and server on the same processors)\n")
    print(f"One drive, filled in {made['seconds']:.0f} s: {made['gib']:.2f} GiB.\n")
    rows = [row for part, rows_of in ROWS.items() if part in options.only for row in rows_of(options, figures)]
    rows += [*rows_of_many(figures), ["disk in use at the end", "", f"{figures['disk']['gib']:.2f} GiB", "<= 30 GiB", figures["disk"]["gib"] <= 30]]
    says = {True: "reached", False: "missed", None: ""}
    print(table(["", "measured", "figure", "wanted", ""], [[*row[:4], says[row[4]]] for row in rows]))


def parse():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--build", type=lambda t: Path(t).resolve(), default=Path("build/release").resolve())
    p.add_argument("--versions", type=int, default=1_000_000, help="of each set; about 2 KiB of disk for each (default 1,000,000)")
    p.add_argument("--few", type=int, default=1000, help="keys of the set with many versions each (default 1,000)")
    p.add_argument("--due", type=int, default=100_000, help="objects, and versions, deleted in each way and round (default 100,000)")
    p.add_argument("--meanwhile", type=int, default=400_000, help="objects that rules may delete beside GETs (default 400,000)")
    p.add_argument("--small", type=int, default=10_000, help="objects of 4 KiB that GETs read (default 10,000)")
    p.add_argument("--rate", type=float, default=500, help="GETs that begin each second (default 500)")
    p.add_argument("--seconds", type=float, default=8, help="of GETs in each round (default 8)")
    p.add_argument("--rounds", type=int, default=3, help="of listings, deletions of objects and GETs (default 3)")
    p.add_argument("--pages", type=int, default=100, help="listings of neighbours (default 100)")
    p.add_argument("--wait", type=float, default=600, help="longest wait for a pass, seconds (default 600)")
    p.add_argument("--only", default=",".join(ROWS), help="parts, with commas between (default: %(default)s)")
    p.add_argument("--folder", help="where the store goes (default: a temporary folder)")
    p.add_argument("--json", type=Path)
    options = p.parse_args()
    options.load = options.build / "bench/load"
    options.only = options.only.split(",")
    if not set(options.only) <= set(ROWS):
        p.error(f"--only: parts are {', '.join(ROWS)}")
    return options


def main():
    options = parse()
    allow_many_files()
    folder = Path(tempfile.mkdtemp(prefix="millrace-versions-", dir=options.folder))
    site = Site(options, folder)
    try:
        site.fill()
        for part in options.only:
            getattr(site, part)()
        site.keep("disk", gib=site.gib())
        site.server.stop()
    finally:
        site.server.stop(signal.SIGKILL)
        if options.json:
            options.json.parent.mkdir(parents=True, exist_ok=True)
            options.json.write_text(json.dumps(site.figures, indent=1) + "\n", encoding="utf-8")
        shutil.rmtree(folder, ignore_errors=True)
    report(options, site.figures)
    return 1 if site.errors else 0


if __name__ == "__main__":
    sys.exit(main())
