"""Experiments on every server that are more than one run of `load`. Each: run(bench) gives its figures."""

import contextlib
import socket
import time

from .loadgen import Background
from .machine import KIB, MIB, anonymous_bytes
from .phases import SMALL

CHECKPOINT = ["--size", 64 * MIB, "--part", "8M", "--conns", 4]


class IdleConnections:
    """Anonymous memory for each connection that has had an answer and is kept, on a server just started."""

    name, title = "idle", "memory of an idle connection"
    once = True

    def run(self, bench):
        keys, server = bench.keys(SMALL), bench.server
        bench.restart()
        bench.must("get", "--prefix", SMALL.prefix, "--size", SMALL.size, "--keys", keys, "--count", 500, "--conns", 16)
        before, signer = anonymous_bytes(server.process.pid), server.signer()
        address, port = server.host().split(":")
        target = signer.path("GET", f"/load/{SMALL.prefix}{0:012}")
        request = f"GET {target} HTTP/1.1\r\nHost: {server.host()}\r\n\r\n".encode()
        errors = 0
        with contextlib.ExitStack() as held:
            for _ in range(bench.scale.idle):
                one = held.enter_context(socket.create_connection((address, int(port)), timeout=10))
                one.sendall(request)
                errors += not whole_answer(one, SMALL.size)
            time.sleep(0.2)
            after = anonymous_bytes(server.process.pid)
        return {"errors": errors, "connections": bench.scale.idle, "kib_each": max(after - before, 0) / bench.scale.idle / KIB}


def whole_answer(connection, size):
    """True when a 200 with so many bytes has come."""
    got = b""
    try:
        while b"\r\n\r\n" not in got or len(got) - got.index(b"\r\n\r\n") - 4 < size:
            some = connection.recv(64 * KIB)
            if not some:
                return False
            got += some
    except OSError:
        return False
    return got.startswith(b"HTTP/1.1 200")


class Checkpoints:
    """Small GETs, open loop at 30 % of what can be had at most, alone and beside streams of multipart uploads paced at half of their most."""

    name, title = "checkpoints", "small GETs beside checkpoints"
    once = False

    def run(self, bench):
        seconds = bench.options.seconds
        gets = ["--prefix", SMALL.prefix, "--size", SMALL.size, "--keys", bench.keys(SMALL), "--conns", 64]
        most = bench.load("get", "--duration", seconds, *gets)
        streams = bench.load("multipart", "--duration", seconds, "--prefix", "checkpoint/", *CHECKPOINT)
        rate, pace = max(most["ops_s"] * 0.3, 1), max(int(streams["mib_s"] * MIB / 2), 1)
        alone = bench.load("get", "--duration", seconds, "--rate", rate, *gets)
        load = Background(bench.options, bench.server, "multipart", "--duration", seconds + 0.5, "--pace", pace, "--prefix", "paced/", *CHECKPOINT)
        time.sleep(0.25)
        beside = bench.load("get", "--duration", seconds, "--rate", rate, *gets)
        paced = load.wait()
        return {"errors": sum(r["errors"] for r in (most, streams, alone, beside, paced)), "rate": rate, "pace_mib_s": pace / MIB,
                "paced_mib_s": paced["mib_s"], "alone_p50_us": alone["p50_us"], "alone_p99_us": alone["p99_us"],
                "beside_p50_us": beside["p50_us"], "beside_p99_us": beside["p99_us"],
                "ratio": beside["p99_us"] / max(alone["p99_us"], 1)}


BESIDE = [IdleConnections(), Checkpoints()]
