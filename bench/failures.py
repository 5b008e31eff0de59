#!/usr/bin/env python3
"""What failures cost: a store of four folders, 2+2, under load while drives go, come back and are replaced, and while bad clients hang on.

  drive dies      a drive's folder is moved away under PUTs: the longest time that no PUT was answered
  catches up      it comes back after so many PUTs: how long until it is a member again
  is replaced     an empty folder takes its place: how fast it is filled, and what small GETs wait meanwhile, against alone (open loop)
  overload        small GETs beside ten times as many connections as there are served at once, and beside clients that read or send a byte a second

Prints Markdown. Nothing but Python's standard library is needed. Exit status 1 if any answer was wrong.
"""

import argparse
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from pathlib import Path

from lib.loadgen import Background, run_load
from lib.machine import KIB, MIB, allow_many_files, anonymous_bytes, machine, say
from lib.servers import Millrace, status_of
from lib.tables import table


def health(server):
    with urllib.request.urlopen(server.admin + "/health/ready", timeout=10) as answer:
        return json.load(answer)


def wait_for(condition, seconds=600):
    """Seconds until it holds."""
    started = time.monotonic()
    while not condition():
        if time.monotonic() - started > seconds:
            raise RuntimeError("it took too long")
        time.sleep(0.02)
    return time.monotonic() - started


def admin(options, server, *arguments):
    environment = dict(server.environment(), MILLRACE_ENDPOINT=server.endpoint, MILLRACE_ADMIN=server.admin)
    return subprocess.run([str(options.cli), "admin", *map(str, arguments)], env=environment, capture_output=True, text=True, check=False)


def small_gets(options, server, seconds):
    return run_load(options, server, "get", "--duration", seconds, "--rate", options.rate, "--conns", 16, "--prefix", "s/",
                    "--keys", options.small, "--verify")


def milliseconds(result):
    return f"{result['p50_us'] / 1000:.2f} / {result['p99_us'] / 1000:.2f}"


def drive_dies(options, server, rows):
    away = server.drives[1].with_name("away")
    load = Background(options, server, "put", "--duration", 10, "--conns", 16, "--size", 4 * KIB, "--prefix", "d/")
    time.sleep(3)
    server.drives[1].rename(away)
    lost = wait_for(lambda: health(server)["drives_in"] == 3)
    result = load.wait()
    rows.append(["a drive's folder is moved away under PUTs of 4 KiB", f"longest PUT {result['max_us'] / 1000:,.0f} ms; noticed after {lost:.2f} s"])
    run_load(options, server, "put", "--count", options.missed, "--conns", 64, "--size", 4 * KIB, "--prefix", "c/")
    missed = options.missed + result["ops"] * 7 // 10
    started = time.monotonic()
    away.rename(server.drives[1])
    wait_for(lambda: health(server)["drives_in"] == 4)
    rows.append([f"it is back after some {missed:,} PUTs", f"a member again after {time.monotonic() - started:.1f} s (it is looked for every 5 s)"])
    return result["errors"]


def is_replaced(options, server, rows):
    alone = small_gets(options, server, options.seconds)
    run_load(options, server, "put", "--count", options.large, "--conns", 4, "--size", 16 * MIB, "--prefix", "l/")
    wait_for(lambda: health(server)["objects_below_redundancy"] == 0 and not health(server)["healing"])
    shutil.move(server.drives[2], server.drives[2].with_name("lost"))
    wait_for(lambda: health(server)["drives_in"] == 3)
    fresh = server.folder / "fresh"
    fresh.mkdir()
    started = time.monotonic()
    done = admin(options, server, "drive", "replace", 2, fresh)
    if done.returncode != 0:
        raise RuntimeError(done.stderr)
    wait_for(lambda: health(server)["drives_in"] == 4)
    joined = time.monotonic() - started
    wait_for(lambda: health(server)["healing"])
    gets = Background(options, server, "get", "--duration", options.seconds, "--rate", options.rate, "--conns", 16, "--prefix", "s/",
                      "--keys", options.small, "--verify")
    began = time.monotonic()
    wait_for(lambda: not health(server)["healing"] and health(server)["objects_below_redundancy"] == 0)
    healed = time.monotonic() - began
    while_healing = gets.wait()
    report = json.loads(admin(options, server, "heal", "status", "--json").stdout)["last"]
    took = max(report["ended_ms"] - report["started_ms"], 1) / 1000
    rows.append(["an empty folder takes a drive's place", f"has all names after {joined:.1f} s; filled with {report['done_bytes'] / MIB:,.0f} MiB in {took:.1f} s: "
                 f"{report['done_bytes'] / MIB / took:,.0f} MiB/s (heal_rate {options.heal_rate})"])
    rows.append([f"GET of 4 KiB, open loop at {options.rate}/s, alone: p50 / p99", f"{milliseconds(alone)} ms"])
    rows.append([f"the same while it heals ({min(healed, options.seconds):.0f} s of it)", f"{milliseconds(while_healing)} ms: p99 "
                 f"{while_healing['p99_us'] / max(alone['p99_us'], 1):.1f}x"])
    return alone["errors"] + while_healing["errors"]


LARGE = "/load/large"  # 16 MiB


def put_large(server):
    url = server.endpoint + server.signer().path("PUT", LARGE)
    with urllib.request.urlopen(urllib.request.Request(url, data=bytes(16 * MIB), method="PUT"), timeout=60) as answer:
        if answer.status != 200:
            raise RuntimeError(f"PUT {LARGE}: {answer.status}")


class Nuisance:
    """Connections that do nothing, send a byte a second of a large upload that has begun, or read one of a large object."""

    def __init__(self, server, count, kind):
        host, signer = server.host(), server.signer()
        address, port = host.split(":")
        self.sockets, self.stop = [], threading.Event()
        for number in range(count):
            one = socket.socket()
            one.settimeout(10)
            if kind == "reads":
                one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            one.connect((address, int(port)))
            if kind == "sends":
                path = signer.path("PUT", f"/load/slow{number}")
                one.sendall(f"PUT {path} HTTP/1.1\r\nHost: {host}\r\nContent-Length: 16777216\r\n\r\n".encode() + b"x" * 100 * KIB)
            elif kind == "reads":
                one.sendall(f"GET {signer.path('GET', LARGE)} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
            one.settimeout(0.001)
            self.sockets.append(one)
        self.kind = kind
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self):
        while not self.stop.wait(1):
            for one in self.sockets:
                try:
                    if self.kind == "sends":
                        one.send(b"x")
                    elif self.kind == "reads":
                        one.recv(1)
                except OSError:
                    pass

    def end(self):
        self.stop.set()
        self.thread.join()
        for one in self.sockets:
            one.close()


def anonymous(server):
    return anonymous_bytes(server.process.pid)


def overload(options, server, rows):
    alone = small_gets(options, server, options.seconds)
    rows.append([f"GET of 4 KiB, open loop at {options.rate}/s, alone: p50 / p99", f"{milliseconds(alone)} ms, {anonymous(server) / MIB:,.0f} MiB"])
    wrong = alone["errors"]
    put_large(server)
    for kind, count, what in (("idles", 2000, "2,000 idle connections"), ("sends", 500, "500 uploads of 16 MiB that send a byte a second"),
                              ("reads", 500, "500 downloads of 16 MiB that read a byte a second")):
        nuisance = Nuisance(server, count, kind)
        large = Background(options, server, "put", "--duration", options.seconds, "--conns", 2, "--size", 16 * MIB, "--prefix", "o/")
        result = small_gets(options, server, options.seconds)
        uploads = large.wait()
        rows.append([f"beside {what}, and 2 streams of PUTs of 16 MiB", f"{milliseconds(result)} ms, {anonymous(server) / MIB:,.0f} MiB, "
                     f"{result['errors']} errors; {uploads['mib_s']:,.0f} MiB/s put, p99 {uploads['p99_us'] / 1e6:.1f} s, {uploads['errors']} errors"])
        nuisance.end()
        wrong += result["errors"]
    flood = Background(options, server, "put", "--duration", options.seconds, "--conns", 1000, "--size", 1 * MIB, "--prefix", "f/")
    result = small_gets(options, server, options.seconds)
    flooded = flood.wait()
    rows.append(["beside 1,000 connections that PUT 1 MiB each, over and over", f"{milliseconds(result)} ms, {anonymous(server) / MIB:,.0f} MiB; "
                 f"{flooded['mib_s']:,.0f} MiB/s put, {flooded['errors']} of {flooded['ops'] + flooded['errors']} refused"])
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--seconds", type=float, default=10, help="of each open-loop run of GETs")
    parser.add_argument("--rate", type=int, default=1000, help="GETs a second")
    parser.add_argument("--small", type=int, default=10000, help="objects of 4 KiB that are read")
    parser.add_argument("--large", type=int, default=100, help="objects of 16 MiB that are healed")
    parser.add_argument("--missed", type=int, default=10000, help="PUTs that the drive misses")
    parser.add_argument("--heal-rate", default="64MiB", help="setting of the daemon")
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()), help="where the drives are made")
    parser.add_argument("--build", type=Path, default=Path(__file__).resolve().parent.parent / "build/release",
                        help="where millraced, millrace and bench/load lie")
    parser.add_argument("--out", type=Path, help="file for the tables")
    options = parser.parse_args()
    build = options.build.resolve()
    options.daemon, options.cli, options.load = build / "millraced", build / "millrace", build / "bench/load"
    allow_many_files()
    rows, wrong = [], 0
    with tempfile.TemporaryDirectory(prefix="millrace-failures-", dir=options.folder) as folder:
        server = Millrace(folder, options.daemon, settings={"heal_rate": options.heal_rate})
        try:
            server.start()
            run_load(options, server, "bucket")
            run_load(options, server, "put", "--count", options.small, "--conns", 64, "--size", 4 * KIB, "--prefix", "s/")
            for part in (drive_dies, is_replaced, overload):
                say(part.__name__)
                wrong += part(options, server, rows)
            if status_of(server.admin + "/health/ready") != 200:
                raise RuntimeError("the store is not ready in the end")
        finally:
            server.stop()
    text = f"{machine()}; 4 folders, 2+2; {wrong} wrong answers or errors\n\n" + table(["what", "figure"], rows)
    print(text)
    if options.out is not None:
        options.out.write_text(text + "\n", encoding="utf-8")
    return 1 if wrong else 0


if __name__ == "__main__":
    os.umask(0o077)
    sys.exit(main())
