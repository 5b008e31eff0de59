#!/usr/bin/env python3
"""What size costs: a store of one drive with many names and files, made in bulk (bench/scale/generate.c), then measured.

  start      from the program's start until it is ready, its files out of the page cache: after a stop, and after SIGKILL; processor and memory
  operations PUT, GET of a hot set, LIST: operations a second, processor, faults and pages read per operation
  orphans    how long the search for shards that no record names takes, and what share of those planted it finds
  rebuild    of a second, small store of 2+2: how fast a drive that was replaced gets its names, and its shards

and what follows from that for a drive of 20 TB and for 1e9 objects, with how each figure was computed. --base FILE: the JSON of a run with fewer names, with
which operations are compared. Prints Markdown. Nothing but Python's standard library is needed. Exit status 1 if a request failed.
"""

import argparse
import http.client
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from lib.loadgen import run_load
from lib.machine import GIB, KIB, MIB, allow_many_files, machine, say
from lib.servers import Millrace
from lib.tables import table
from lib.watching import cpu_seconds, health, metrics, resting, stat_fields, until

ORPHAN_BYTES = 8 * KIB  # of each that generate plants, header included
PAGE = resource.getpagesize()
LARGE_DRIVE = 20 * 10**12
LARGE_SEGMENT = 2 << 30  # of such a drive: eng_segment_size()
LARGE_LOG_FILE = 512 * MIB  # of such a drive: eng_log_file_size()
MANY_OBJECTS = 10**9
HOUR = 3600
EMPTY = "start of an empty store"


def stat_of(pid):
    """What the process has used so far."""
    fields = stat_fields(pid)
    io = dict(line.split(": ") for line in Path(f"/proc/{pid}/io").read_text().splitlines())
    status = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return {"cpu_s": cpu_seconds(pid), "minor": int(fields[7]), "major": int(fields[9]),
            "pages_read": int(io["read_bytes"]) / PAGE, "rss_mib": int(status["VmRSS"].split()[0]) / 1024,
            "anonymous_mib": int(status["RssAnon"].split()[0]) / 1024, "descriptors": len(os.listdir(f"/proc/{pid}/fd"))}


def forget_pages(folder):
    """Writes back what is dirty and puts the files of a folder out of the page cache."""
    os.sync()
    for name in (folder / "index").iterdir():
        drop(name)
    for part in ("log", "data"):
        for name in os.scandir(folder / part):
            drop(name.path)


def drop(path):
    fd = os.open(path, os.O_RDONLY)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(fd)


class Site:
    def __init__(self, options, folder):
        self.options = options
        self.server = Millrace(folder, options.build / "millraced", drives=1, ec=None,
                               settings={"scrub_rate": "0", "log_file_size": options.log_bytes, "segment_size": options.segment_bytes})
        self.drive = self.server.drives[0]
        self.figures = {}

    def load(self, kind, *arguments):
        return run_load(self.options, self.server, kind, "--bucket", "scale", "--size", "64", "--conns", "16", *arguments)

    def fill(self):
        o = self.options
        started = time.monotonic()
        self.server.start()
        self.figures[EMPTY] = {"seconds": time.monotonic() - started, **stat_of(self.server.process.pid)}
        self.load("bucket")
        self.load("put", "--prefix", "first/", "--count", "1")
        self.server.stop()
        started = time.monotonic()
        done = subprocess.run([o.build / "bench/scale/generate", "--drive", self.drive, "--names", str(o.names), "--records", str(o.records),
                               "--log-bytes", str(o.log_bytes), "--files", str(o.files), "--segment-bytes", str(o.segment_bytes),
                               "--orphans", str(o.orphans)], check=True, capture_output=True, text=True)
        self.figures["made"] = {**json.loads(done.stdout), "names": o.names,  "seconds": time.monotonic() - started,
                                "index_gib": sum(f.stat().st_blocks * 512 for f in (self.drive / "index").iterdir()) / GIB,
                                "log_gib": sum(f.stat().st_blocks * 512 for f in (self.drive / "log").iterdir()) / GIB}

    def start(self, name):
        forget_pages(self.drive)
        started = time.monotonic()
        self.server.start()
        self.figures[name] = {"seconds": time.monotonic() - started, **stat_of(self.server.process.pid)}
        self.figures[name]["live_bytes"] = metrics(self.server)["millrace_drive_data_live_bytes"]
        say(f"{name}: {self.figures[name]}")

    def sweep(self):
        """It begins when all objects have been looked at for shards that they lack, which may be over when the daemon is ready."""
        o = self.options
        frames = max(1, o.segment_bytes // (4 * KIB + MIB) // 2)
        named = o.files * frames * (4 * KIB + MIB)
        used, started = stat_of(self.server.process.pid), time.monotonic()
        until(lambda: not self.resting(), 5, "the look at all objects and the search for orphans to begin")
        searched = until(self.resting, o.seconds, "the search for orphans to end")
        took = time.monotonic() - started
        until(self.same_live_bytes, 60, "the index to have taken what was found")
        left = metrics(self.server)["millrace_drive_data_live_bytes"] - named
        now = stat_of(self.server.process.pid)
        self.figures["orphans"] = {"seconds": took if searched is not None else None, "found": o.orphans - left / ORPHAN_BYTES, "planted": o.orphans,
                                   "cpu_s": now["cpu_s"] - used["cpu_s"], "rss_mib": now["rss_mib"]}
        say(f"orphans: {self.figures['orphans']}")

    def resting(self):
        return resting(self.server)

    def same_live_bytes(self):
        one = metrics(self.server)["millrace_drive_data_live_bytes"]
        time.sleep(2)
        return one == metrics(self.server)["millrace_drive_data_live_bytes"]

    def operation(self, name, kind, *arguments):
        before = stat_of(self.server.process.pid)
        result = self.load(kind, *arguments)
        self.note(name, max(1, result["ops"]), before, result)

    def note(self, name, count, before, result):
        after = stat_of(self.server.process.pid)
        per = {unit: (after[unit] - before[unit]) / count for unit in ("cpu_s", "minor", "major", "pages_read")}
        self.figures[name] = {"count": count, "raw": result, **per, "rss_mib": after["rss_mib"], "descriptors": after["descriptors"]}
        say(f"{name}: {count} operations, {per}")

    def operations(self):
        o = self.options
        hot = min(o.records, o.hot)
        some = ["--prefix", "o/", "--random-names"]
        self.operation("GET, first", "get", *some, "--keys", str(hot), "--count", str(o.count))
        self.operation("GET, again", "get", *some, "--keys", str(hot), "--count", str(o.count))
        self.operation("PUT, new", "put", *some, "--start", str(o.names), "--count", str(o.count))
        self.operation("PUT, over", "put", *some, "--start", "0", "--count", str(min(hot, o.count)))
        self.listings(max(10, o.count // 100))

    def listings(self, count):
        """Pages of 1,000 names from anywhere, one after the other. Names are as good as random."""
        connection, signer = http.client.HTTPConnection(self.server.host(), timeout=120), self.server.signer()
        draw, before, errors, started = random.Random(1), stat_of(self.server.process.pid), 0, time.monotonic()
        for _ in range(count):
            connection.request("GET", signer.path("GET", "/scale", f"&list-type=2&max-keys=1000&start-after=o%2F{draw.getrandbits(64):016x}"))
            answer = connection.getresponse()
            errors += answer.status != 200 or b"<Contents>" not in answer.read()
        self.note("LIST of 1,000", count, before, {"ops": count, "errors": errors, "seconds": time.monotonic() - started})


def rebuild(options, folder):
    """Names a second that a new drive catches up, and objects a second that are given their shards."""
    server = Millrace(folder, options.build / "millraced", drives=4, ec="2+2", settings={"scrub_rate": "0", "heal_rate": "1GiB"})
    server.start()
    small, striped = options.rebuild, options.rebuild // 20
    run_load(options, server, "bucket", "--bucket", "scale")
    run_load(options, server, "put", "--bucket", "scale", "--size", "64", "--prefix", "o/", "--count", str(small))
    run_load(options, server, "put", "--bucket", "scale", "--size", str(options.rebuild_size), "--prefix", "s/", "--count", str(striped))
    server.stop()
    lost = server.drives[3]
    shutil.rmtree(lost)
    server.drives = server.drives[:3]
    server.start()
    lost.mkdir()
    environment = dict(server.environment(), MILLRACE_ENDPOINT=server.endpoint, MILLRACE_ADMIN=server.admin)
    started = time.monotonic()
    subprocess.run([options.build / "millrace", "admin", "drive", "replace", "3", lost.resolve()], env=environment, check=True)
    names = until(lambda: health(server)["drives_in"] == 4, options.seconds, "the drive to be in")
    until(lambda: not health(server)["healing"] and health(server)["objects_below_redundancy"] == 0, options.seconds, "the drive to be filled")
    whole = time.monotonic() - started
    server.stop()
    return {"shard_bytes": -(-options.rebuild_size // 2), "names": small + striped, "names_a_second": (small + striped) / names if names else None, "striped": striped,
            "objects_a_second": striped / (whole - (names or 0)), "heal": whole - (names or 0)}


def report(options, figures):
    made = figures["made"]
    print(f"## {options.names:,} names, {made['log_files']:,} log files, {options.files:,} segments ({machine()})\n")
    print(f"Made in {made['seconds']:.0f} s: index {made['index_gib']:.2f} GiB, log {made['log_gib']:.2f} GiB.\n")
    starts = [(name, figures[name]) for name in (EMPTY, "start after a stop", "start after a kill") if name in figures]
    print(table(["", "seconds", "CPU s", "major faults", "pages read", "RSS MiB", "anonymous MiB", "descriptors"],
                [[name, f"{f['seconds']:.2f}", f"{f['cpu_s']:.2f}", str(f["major"]), f"{f['pages_read']:.0f}", f"{f['rss_mib']:.0f}",
                  f"{f['anonymous_mib']:.0f}", str(f["descriptors"])] for name, f in starts]) + "\n")
    operations = [(name, f) for name, f in figures.items() if "raw" in f]
    print(table(["operation", "number", "CPU µs each", "minor faults each", "major faults each", "pages read each", "RSS MiB", "descriptors"],
                [[name, str(f["count"]), f"{f['cpu_s'] * 1e6:.1f}", f"{f['minor']:.3f}", f"{f['major']:.4f}", f"{f['pages_read']:.2f}", f"{f['rss_mib']:.0f}",
                  str(f["descriptors"])] for name, f in operations]) + "\n")
    if "orphans" in figures:
        o = figures["orphans"]
        took = f"{o['seconds']:.1f} s" if o["seconds"] is not None else "not ended"
        print(f"Orphans: found {o['found']:.0f} of {o['planted']:,}; all objects looked at, and the search: {took}, CPU {o['cpu_s']:.1f} s.\n")
    if "rebuild" in figures:
        r = figures["rebuild"]
        names = f"{r['names_a_second']:.0f}" if r["names_a_second"] else "?"
        print(f"Rebuild: {names} names/s of {r['names']:,}, then {r['objects_a_second']:.0f} objects/s of {r['striped']:,} striped.\n")


def extrapolate_starts(options, figures):
    """Seconds that a start takes beyond that of an empty store, by file, times the files of a large drive. Replay after a kill does not grow: memtable_size bounds it."""
    files = options.files + figures["made"]["log_files"]
    large, small = LARGE_DRIVE // LARGE_SEGMENT, LARGE_DRIVE // LARGE_LOG_FILE
    for name, wanted in (("start after a stop", 10), ("start after a kill", 30)):
        if name not in figures:
            continue
        empty, took = figures[EMPTY], figures[name]
        each = max(0.0, took["seconds"] - empty["seconds"]) / files
        memory = max(0.0, took["anonymous_mib"] - empty["anonymous_mib"]) / files
        yield [name + ", 20 TB of large objects", f"{empty['seconds'] + each * large:.1f} s, {memory * large:.0f} MiB", f"{wanted} s",
               f"{empty['seconds']:.2f} s + {each * 1e6:.1f} µs x {large:,} segments of 2 GiB"]
        yield [name + ", 20 TB of small objects", f"{empty['seconds'] + each * small:.1f} s, {memory * small:.0f} MiB", f"{wanted} s",
               f"{empty['seconds']:.2f} s + {each * 1e6:.1f} µs x {small:,} log files of 512 MiB"]


def extrapolate_upkeep(options, figures):
    if "orphans" in figures and figures["orphans"]["seconds"] is not None:
        took, looked = figures["orphans"]["seconds"], options.names + options.orphans
        yield ["search for orphans, 1e9 names on a drive", f"{took * MANY_OBJECTS / looked / HOUR:.1f} h", "",
               f"{took:.1f} s x 1e9 / {looked:,} names and ids, one drive; the look at all objects before it included"]
    r = figures.get("rebuild")
    if r and r["names_a_second"]:
        yield ["names of a replaced drive, 1e9", f"{MANY_OBJECTS / r['names_a_second'] / HOUR:.1f} h", "24 h", f"1e9 / {r['names_a_second']:.0f} names/s"]
    if r and r["striped"]:
        rate = r["objects_a_second"] * r["shard_bytes"]
        yield ["shards of a replaced drive, 20 TB", f"{LARGE_DRIVE / rate / HOUR:.1f} h", "24 h",
               f"20e12 / ({r['objects_a_second']:.0f} objects/s x {r['shard_bytes']:,} bytes of a shard)"]
        yield ["shards of a replaced drive, 1e9 objects", f"{MANY_OBJECTS / r['objects_a_second'] / HOUR:.1f} h", "24 h",
               f"1e9 / {r['objects_a_second']:.0f} objects/s of {options.rebuild_size:,} bytes"]


def report_extrapolations(options, figures):
    rows = list(extrapolate_starts(options, figures)) + list(extrapolate_upkeep(options, figures))
    print("### Extrapolated, from this machine's rates, linearly\n")
    print(table(["", "would take", "wanted", "how"], rows) + "\n")


def report_base(base, figures):
    """CPU and pages read per operation, as a multiple of those with fewer names."""
    rows = []
    for name, f in figures.items():
        if "raw" not in f or name not in base:
            continue
        was, pages = base[name], f"{f['pages_read']:.2f} / {base[name]['pages_read']:.2f}"
        rows.append([name, f"{f['cpu_s'] / max(was['cpu_s'], 1e-9):.2f}", pages])
    print(f"### Against {base['made']['names']:,} names\n" if "names" in base["made"] else "### Against the base\n")
    print(table(["operation", "CPU, multiple (wanted <= 1.3 for what is warm)", "pages read each, now / then"], rows) + "\n")


def parse():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--build", type=lambda t: Path(t).resolve(), default=Path("build/release").resolve())
    p.add_argument("--names", type=int, default=1_000_000)
    p.add_argument("--records", type=int, help="names that can be read (default: all, at most 10,000,000)")
    p.add_argument("--hot", type=int, default=1_000_000, help="names that GETs ask for")
    p.add_argument("--count", type=int, default=100_000, help="operations of a kind")
    p.add_argument("--files", type=int, default=1000, help="segments")
    p.add_argument("--orphans", type=int, default=10_000)
    p.add_argument("--log-bytes", type=int, default=64 * MIB)
    p.add_argument("--segment-bytes", type=int, default=16 * MIB)
    p.add_argument("--rebuild", type=int, default=20_000, help="objects of the store that loses a drive; 0: none")
    p.add_argument("--rebuild-size", type=int, default=160 * KIB, help="bytes of its striped objects")
    p.add_argument("--base", type=Path, help="JSON of an earlier run, with fewer names, to compare with")
    p.add_argument("--seconds", type=float, default=600, help="longest wait for a search or a rebuild")
    p.add_argument("--folder", help="where the stores go (default: a temporary folder)")
    p.add_argument("--json", type=Path)
    options = p.parse_args()
    options.load = options.build / "bench/load"
    options.records = min(options.names, 10_000_000) if options.records is None else options.records
    return options


def main():
    options = parse()
    allow_many_files()
    folder = Path(tempfile.mkdtemp(prefix="millrace-scale-", dir=options.folder))
    site = Site(options, folder / "large")
    try:
        site.fill()
        say(f"made: {site.figures['made']}")
        site.start("start after a stop")
        site.sweep()
        site.operations()
        site.server.stop(signal.SIGKILL)
        site.start("start after a kill")
        site.server.stop()
        if options.rebuild:
            site.figures["rebuild"] = rebuild(options, folder / "small")
    finally:
        site.server.stop(signal.SIGKILL)
        if options.json:
            options.json.parent.mkdir(parents=True, exist_ok=True)
            options.json.write_text(json.dumps(site.figures, indent=1, default=str) + "\n")
        shutil.rmtree(folder, ignore_errors=True)
    report(options, site.figures)
    report_extrapolations(options, site.figures)
    if options.base:
        report_base(json.loads(options.base.read_text()), site.figures)
    return 1 if any(f["raw"].get("errors") for f in site.figures.values() if "raw" in f) else 0


if __name__ == "__main__":
    sys.exit(main())
