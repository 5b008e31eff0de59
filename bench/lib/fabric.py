"""RDMA on the fake transport: sessions and batches against the same objects over TCP. No hardware: what the fake's device threads take is told apart, and what a
network card would need, or a network, is not in it."""

import json
import shutil
import subprocess
import tempfile
import urllib.request
from contextlib import contextmanager

from .loadgen import run_load
from .machine import GIB, KIB, MIB, say
from .phases import Skipped, forget_folder
from .servers import Millrace

SAMPLE = 10 * KIB
OBJECT = 16 * MIB
BATCH_LIMIT_S = 300
CONNECTIONS = (1, 4, 16, 64, 128)
AT_ONCE = (1, 16, 64)  # GETs on a session
ENTRIES = (256, 1024)
BATCHES = (1, 2)  # at once
PHASE_S = 1  # at most: there are many
STREAMS = (1, 4)


class OnTheFake(Millrace):
    """millraced with RDMA over tests/fakerdma, whose sockets need a short path."""

    def __init__(self, folder, program, driver):
        super().__init__(folder, program, settings={"rdma_listen": "127.0.0.1:0", "test_rdma_driver": driver})
        self.driver, self.sockets = driver, tempfile.mkdtemp(prefix="mr-bench-", dir="/tmp")

    def environment(self):
        return dict(super().environment(), MILLRACE_FAKE_RDMA=self.sockets)

    def metrics(self):
        """Those of RDMA that have no labels, by name without millrace_rdma_."""
        found = {}
        with urllib.request.urlopen(self.admin + "/metrics", timeout=10) as answer:
            for line in answer.read().decode().splitlines():
                name, _, value = line.rpartition(" ")
                if name.startswith("millrace_rdma_") and "{" not in name:
                    found[name.removeprefix("millrace_rdma_")] = float(value)
        return found


def phase_s(options):
    return min(options.seconds, PHASE_S)


@contextmanager
def fabric_store(options, folder):
    driver = options.build / "libfakerdma.so"
    if not driver.is_file():
        raise Skipped(f"there is no {driver.name}: make fake-rdma")
    server = OnTheFake(folder / "alone", options.daemon, driver)
    try:
        server.start()
        run_load(options, server, "bucket")
        yield server
    finally:
        server.stop()
        forget_folder(server.folder)
        shutil.rmtree(server.sockets, ignore_errors=True)


class Rdma:
    """Everything in one run of one server: ratios are of figures of the same minute."""

    name, title = "rdma", "RDMA on the fake transport, against TCP"
    once = True

    def batch(self, options, server, kind, *arguments, rdma=True):
        """One run of `batch`: its figures, and what the server's counters of RDMA went up by meanwhile (what it compares beforehand included)."""
        command = [options.build / "bench/library_load", kind, "--endpoint", server.endpoint, "--server-pid", server.process.pid, "--seconds", phase_s(options),
                   "--driver", server.driver, "--transport", "rdma" if rdma else "tcp", *arguments]
        before = server.metrics()
        try:
            done = subprocess.run([str(c) for c in command], env=server.environment(), capture_output=True, text=True, check=False, timeout=BATCH_LIMIT_S)
        except subprocess.TimeoutExpired as error:
            raise RuntimeError(f"batch {kind} did not end in {BATCH_LIMIT_S} s") from error
        if done.stderr:
            say(done.stderr.rstrip())
        if not done.stdout.strip():
            raise RuntimeError(f"batch {kind} ended with {done.returncode}")
        figures = json.loads(done.stdout)
        if figures["by_rdma"] != (figures["ops"] if rdma else 0):
            say(f"  {figures['by_rdma']} of {figures['ops']} came by RDMA")
            figures["errors"] += 1
        after = server.metrics()
        figures["counted"] = {name: value - before.get(name, 0) for name, value in after.items()}
        return figures

    def small(self, options, scale, server, figures):
        """Objects of 10 KiB, which the server has in its cache."""
        which = ["--size", SAMPLE, "--keys", scale.small]
        figures["errors"] += run_load(options, server, "put", "--size", SAMPLE, "--count", scale.small, "--conns", 64)["errors"]
        for _ in range(2):
            warm = run_load(options, server, "get", *which, "--once", "--verify", "--count", scale.small, "--conns", 16)
            figures["errors"] += warm["errors"]
        runs = {f"tcp-{n}": run_load(options, server, "get", *which, "--conns", n, "--duration", phase_s(options)) for n in CONNECTIONS}
        self.best(figures, "tcp", runs)
        self.best(figures, "session", {f"session-{n}": self.batch(options, server, "get", *which, "--threads", n, "--parallel", n) for n in AT_ONCE})
        for entries in ENTRIES:
            for way, how in (("http", ["--parallel", 4]), ("control", [])):
                runs = {f"{way}-{entries}-{n}": self.batch(options, server, "get", *which, "--entries", entries, "--threads", n, *how, rdma=way == "control")
                        for n in BATCHES}
                self.best(figures, f"{way}_{entries}", runs)
        for kind in ("http", "control"):
            figures[f"{kind}_ratio"] = max(figures[f"{kind}_{n}_ops_s"] for n in ENTRIES) / max(figures["tcp_ops_s"], 1)
            figures[f"{kind}_cpu_ratio"] = figures["tcp_cpu_us"] / max(min(figures[f"{kind}_{n}_cpu_us"] for n in ENTRIES), 1e-3)

    def best(self, figures, name, runs):
        """Of runs that differ in how much there is at once, the one with most."""
        for key, run in runs.items():
            figures["errors"] += run["errors"]
            say(f"  {key:14} {run['ops_s']:12,.0f} op/s, server {run['server_cpu_s'] * 1e6 / max(run['ops'], 1):8.2f} us/op"
                f" (its device {run.get('server_device_s', 0) * 1e6 / max(run['ops'], 1):.2f})")
        key, run = max(runs.items(), key=lambda item: item[1]["ops_s"])
        figures[f"{name}_ops_s"], figures[f"{name}_at_once"] = run["ops_s"], int(key.rsplit("-", 1)[1])
        figures[f"{name}_cpu_us"] = run["server_cpu_s"] * 1e6 / max(run["ops"], 1)
        figures[f"{name}_device_us"] = run.get("server_device_s", 0) * 1e6 / max(run["ops"], 1)

    def large(self, options, scale, server, figures):
        """Objects of 16 MiB that lie in the page cache, got in one piece."""
        count = max(scale.large, 4)
        which = ["--prefix", "l/", "--size", OBJECT, "--keys", count]
        figures["errors"] += run_load(options, server, "put", "--prefix", "l/", "--size", OBJECT, "--count", count, "--conns", 4)["errors"]
        for _ in range(2):
            figures["errors"] += run_load(options, server, "get", *which, "--once", "--verify", "--count", count, "--conns", 4)["errors"]
        http = run_load(options, server, "get", *which, "--conns", 4, "--duration", phase_s(options))
        figures["errors"] += http["errors"]
        figures["get_http_cpu_s_gib"], figures["get_http_mib_s"] = http["server_cpu_s"] * GIB / max(http["bytes"], 1), http["mib_s"]
        written = copied = bounced = 0
        for streams in STREAMS:
            run = self.batch(options, server, "get", *which, "--threads", streams, "--part", 2 * OBJECT)
            counted = run["counted"]
            self.costs(figures, f"get_{streams}", run)
            gap, busy = counted["queue_gap_seconds_total"], counted["queue_busy_seconds_total"]
            figures[f"gap_{streams}"] = 100 * gap / max(gap + busy, 1e-9)
            written, copied, bounced = written + counted["written_bytes_total"], copied + counted["copied_bytes_total"], bounced + run["bounced"]
            say(f"  16 MiB, {streams} at once: {run['mib_s']:,.0f} MiB/s, {figures[f'get_{streams}_cpu_s_gib']:.3f} s/GiB, "
                f"queue empty for {figures[f'gap_{streams}']:.1f} %")
        figures["copies"] = copied / max(written, 1) + bounced  # a client's copy would be of all that it got so
        figures["written_gib"], figures["copied_bytes"], figures["bounced"] = written / GIB, int(copied), bounced
        reads = subprocess.run([str(options.build / "bench/limits/reads"), str(server.folder), str(count * OBJECT // MIB), str(phase_s(options))],
                               capture_output=True, text=True, check=True, timeout=BATCH_LIMIT_S)
        limit = json.loads(reads.stdout)
        figures["reads_cpu_s_gib"], figures["reads_mib_s"] = limit["cpu_s_gib"], limit["mib_s"]
        figures["reads_ratio"] = figures["get_4_cpu_s_gib"] / max(figures["reads_cpu_s_gib"], 1e-6)

    def costs(self, figures, name, run):
        figures["errors"] += run["errors"]
        figures[f"{name}_mib_s"] = run["mib_s"]
        for whose in ("server", "client"):
            short = "" if whose == "server" else "client_"
            figures[f"{name}_{short}cpu_s_gib"] = run[f"{whose}_cpu_s"] * GIB / max(run["bytes"], 1)
            figures[f"{name}_{short}device_s_gib"] = run[f"{whose}_device_s"] * GIB / max(run["bytes"], 1)

    def puts(self, options, server, figures):
        """The same client with the same objects, its bodies unsigned, over RDMA and over HTTP."""
        for name, rdma in (("put_http", False), ("put", True)):
            run = self.batch(options, server, "put", "--prefix", "p/", "--size", OBJECT, "--threads", 4, "--part", 2 * OBJECT, rdma=rdma)
            self.costs(figures, name, run)
            say(f"  16 MiB {name}: {run['mib_s']:,.0f} MiB/s, {figures[f'{name}_cpu_s_gib']:.3f} s/GiB")
        figures["put_ratio"] = figures["put_cpu_s_gib"] / max(figures["put_http_cpu_s_gib"], 1e-6)

    def run(self, options, scale, folder):
        figures = {"errors": 0, "objects": scale.small}
        with fabric_store(options, folder) as server:
            self.small(options, scale, server, figures)
            self.large(options, scale, server, figures)
            self.puts(options, server, figures)
        return figures
