#!/usr/bin/env python3
"""Measures millraced beside MinIO: same machine, same disk, same load, one server at a time.

Each round starts a server on four fresh folders (two data, two parity), runs every phase, notes its memory and stops
it; then the other server's turn. The figures are medians over rounds, printed as Markdown tables. The load comes from
`load` (bench/load.c), which checks every answer; a wrong or failed one makes the exit status 1.

With --restart it measures instead how long millraced takes from a SIGKILL with many small objects to being ready.

Nothing but Python's standard library is needed. MinIO is taken from --minio, $PATH or ~/go/bin, or installed by
`go install` where there is a Go toolchain; without it, its column is left out.
"""

import argparse
import contextlib
import json
import os
import platform
import secrets
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path

MINIO_MODULE = "github.com/minio/minio@latest"
KIB, MIB = 1 << 10, 1 << 20
START_LIMIT_S = 60
LOAD_LIMIT_S = 1800


class Phase:
    """One row: what is asked of `load`, which of its figures counts, and the ratio that is wanted."""

    def __init__(self, name, kind, size, conns, figure, unit, wanted, prefix):
        self.name, self.kind, self.size, self.conns = name, kind, size, conns
        self.figure, self.unit, self.wanted, self.prefix = figure, unit, wanted, prefix


PHASES = [
    Phase("PUT 4 KiB", "put", 4 * KIB, 64, "ops_s", "op/s", 5.0, "s/"),
    Phase("GET 4 KiB", "get", 4 * KIB, 64, "ops_s", "op/s", 5.0, "s/"),
    Phase("PUT 64 KiB", "put", 64 * KIB, 32, "ops_s", "op/s", None, "m/"),
    Phase("GET 64 KiB", "get", 64 * KIB, 32, "ops_s", "op/s", None, "m/"),
    Phase("PUT 16 MiB", "put", 16 * MIB, 4, "mib_s", "MiB/s", 1.3, "l/"),
    Phase("GET 16 MiB, warm", "get", 16 * MIB, 4, "mib_s", "MiB/s", 1.0, "l/"),
    Phase("LIST of 1,000", "list", 4 * KIB, 4, "entries_s", "entries/s", 10.0, "s/"),
]


def say(text):
    print(text, file=sys.stderr, flush=True)


class Server:
    """A server process on four folders. The credentials are made anew for each."""

    name = "server"

    def __init__(self, folder):
        self.folder = folder
        self.drives = [folder / f"d{i}" for i in range(1, 5)]
        self.access, self.secret = secrets.token_hex(8), secrets.token_hex(16)
        self.log = folder / "log"
        self.process = None
        self.endpoint = None

    def environment(self):
        return dict(os.environ, MILLRACE_ROOT_ACCESS_KEY=self.access, MILLRACE_ROOT_SECRET_KEY=self.secret)

    def spawn(self, command, environment):
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(command, env=environment, stdout=log, stderr=log, cwd=self.folder)

    def died(self):
        return f"{self.name} ended with {self.process.returncode}:\n{self.log.read_text(errors='replace')[-2000:]}"

    def wait_for(self, condition, pause_s=0.01):
        """The first true value of condition(); the process must live meanwhile."""
        deadline = time.monotonic() + START_LIMIT_S
        while time.monotonic() < deadline:
            value = condition()
            if value:
                return value
            if self.process.poll() is not None:
                raise RuntimeError(self.died())
            time.sleep(pause_s)
        raise RuntimeError(f"{self.name} is not ready after {START_LIMIT_S} s; see {self.log}")

    def stop(self, how=signal.SIGTERM):
        if self.process is None or self.process.poll() is not None:
            return
        self.process.send_signal(how)
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


class Millrace(Server):
    name = "millrace"

    def __init__(self, folder, daemon):
        super().__init__(folder)
        self.daemon = daemon
        self.admin = None
        self.options = []

    def start(self, listen="127.0.0.1:0", admin="127.0.0.1:0"):
        for drive in self.drives:
            drive.mkdir(parents=True, exist_ok=True)
        already = self.log.stat().st_size if self.log.exists() else 0
        command = [str(self.daemon), "--format", "--ec", "2+2", "--listen", listen, "--admin", admin]
        for drive in self.drives:
            command += ["--drive", str(drive)]
        command += self.options
        self.spawn(command, self.environment())
        self.endpoint = "http://" + self.wait_for(lambda: self.said("listening on ", already))
        self.admin = "http://" + self.wait_for(lambda: self.said("admin on ", already))
        self.wait_for(lambda: status_of(self.admin + "/health/ready") == 200, 0.001)

    def said(self, what, already):
        """The word behind `what` in what the daemon has written since `already`."""
        with open(self.log, "rb") as log:
            log.seek(already)
            text = log.read().decode(errors="replace")
        _, found, rest = text.partition(what)
        return rest.split()[0] if found and "\n" in rest else None


class Minio(Server):
    name = "MinIO"

    def __init__(self, folder, program):
        super().__init__(folder)
        self.program = program

    def start(self):
        self.folder.mkdir(parents=True, exist_ok=True)
        port, console = free_port(), free_port()
        self.endpoint = f"http://127.0.0.1:{port}"
        environment = dict(os.environ, MINIO_ROOT_USER=self.access, MINIO_ROOT_PASSWORD=self.secret, MINIO_CI_CD="on",
                           MINIO_UPDATE="off", MINIO_STORAGE_CLASS_STANDARD="EC:2")
        self.spawn([str(self.program), "server", "--quiet", "--address", f"127.0.0.1:{port}", "--console-address",
                    f"127.0.0.1:{console}", str(self.folder / "d{1...4}")], environment)
        self.wait_for(lambda: status_of(self.endpoint + "/minio/health/cluster") == 200, 0.1)


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def status_of(url):
    """HTTP status of a GET, or 0 where nobody answers."""
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        return error.code
    except OSError:
        return 0


def run_load(options, server, kind, *arguments):
    """One run of `load`. Its figures; errors are counted, not raised."""
    command = [str(options.load), kind, "--json", "--endpoint", server.endpoint, "--server-pid", str(server.process.pid)]
    try:
        done = subprocess.run(command + [str(a) for a in arguments], env=server.environment(), capture_output=True, text=True, check=False,
                              timeout=LOAD_LIMIT_S)
    except subprocess.TimeoutExpired as error:
        raise RuntimeError(f"load {kind} against {server.name} did not end in {LOAD_LIMIT_S} s") from error
    if done.stderr:
        say(done.stderr.rstrip())
    if not done.stdout.strip():
        raise RuntimeError(f"load {kind} ended with {done.returncode}")
    return json.loads(done.stdout)


def run_phase(options, server, phase, keys):
    """Runs one phase. keys: how many objects of each prefix were put so far in this round."""
    common = ["--size", phase.size, "--conns", phase.conns, "--prefix", phase.prefix]
    if phase.kind == "put":
        result = run_load(options, server, "put", "--duration", options.seconds, *common)
        keys[phase.prefix] = result["ops"]
        return result
    count = keys[phase.prefix]
    if count == 0:
        raise RuntimeError(f"{server.name} stored nothing to {phase.kind}")
    common += ["--keys", count]
    if phase.size >= MIB:  # warm: everything has been read once
        run_load(options, server, phase.kind, "--count", 2 * count, *common)
    return run_load(options, server, phase.kind, "--duration", options.seconds, *common)


def run_round(options, server):
    """All phases on one server: figures by phase, and its memory at the end."""
    figures, keys = {}, {}
    server.folder.mkdir(parents=True, exist_ok=True)
    try:
        server.start()
        run_load(options, server, "bucket")
        for phase in PHASES:
            result = run_phase(options, server, phase, keys)
            figures[phase.name] = result
            say(f"  {server.name:9} {phase.name:18} {result[phase.figure]:12,.1f} {phase.unit:9} "
                f"p50 {result['p50_us'] / 1000:8.2f} ms  p99 {result['p99_us'] / 1000:8.2f} ms  errors {result['errors']}")
    finally:
        server.stop()
    return figures


def round_servers(options, folder, number):
    servers = []
    if options.only != "minio":
        servers.append(Millrace(folder / f"millrace{number}", options.daemon))
    if options.minio is not None:
        servers.append(Minio(folder / f"minio{number}", options.minio))
    return servers


def compare(options, folder):
    """rounds[server name] is a list of figures by phase."""
    rounds = {}
    for number in range(options.rounds):
        for server in round_servers(options, folder, number):
            say(f"round {number + 1} of {options.rounds}: {server.name}")
            rounds.setdefault(server.name, []).append(run_round(options, server))
            shutil.rmtree(server.folder, ignore_errors=True)
    return rounds


# ---- tables ---------------------------------------------------------------------------------------------------------


def median(rounds, phase, figure):
    return statistics.median(r[phase.name][figure] for r in rounds)


def cost(rounds, phase):
    """Server CPU of a phase: milliseconds per thousand operations, or per GiB where bytes are what counts."""
    values = []
    for r in rounds:
        result = r[phase.name]
        amount = result["ops"] / 1000 if phase.unit != "MiB/s" else result["mib_s"] * result["seconds"] / 1024
        values.append(result.get("server_cpu_s", 0) * 1000 / amount if amount else 0)
    return statistics.median(values)


def table(header, rows):
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows])


def figure_table(rounds):
    names = list(rounds)
    header = ["phase (connections)"] + names + (["ratio", "wanted"] if len(names) == 2 else [])
    rows = []
    for phase in PHASES:
        values = [median(rounds[n], phase, phase.figure) for n in names]
        row = [f"{phase.name} ({phase.conns}), {phase.unit}"] + [f"{v:,.0f}" for v in values]
        if len(names) == 2:
            row += [f"{values[0] / values[1]:.1f}x" if values[1] else "-",
                    f"≥ {phase.wanted:g}x" if phase.wanted else ""]
        rows.append(row)
    return table(header, rows)


def detail_table(rounds):
    header = ["phase"]
    for name in rounds:
        header += [f"{name} p50 / p99 / p99.9, ms", f"{name} server CPU"]
    rows = []
    for phase in PHASES:
        row = [phase.name]
        for figures in rounds.values():
            times = [median(figures, phase, f) / 1000 for f in ("p50_us", "p99_us", "p999_us")]
            unit = "ms/GiB" if phase.unit == "MiB/s" else "ms/1,000"
            row += [" / ".join(f"{t:.2f}" for t in times), f"{cost(figures, phase):,.0f} {unit}"]
        rows.append(row)
    return table(header, rows)


def memory_table(rounds):
    rows = []
    for name, figures in rounds.items():
        last = [r[PHASES[-1].name] for r in figures]
        row = [name]
        for figure in ("server_anonymous", "server_file"):
            row.append(f"{statistics.median(r.get(figure, 0) for r in last) / MIB:,.0f} MiB")
        rows.append(row)
    return table(["memory after the run", "anonymous", "mapped files (LMDB's map, code)"], rows)


def machine():
    model = next((line.split(":", 1)[1].strip() for line in open("/proc/cpuinfo", encoding="ascii", errors="replace")
                  if line.startswith("model name")), platform.machine())
    return f"{os.cpu_count()} x {model}, Linux {platform.release()}"


def report(options, rounds):
    errors = sum(r[p.name]["errors"] for figures in rounds.values() for r in figures for p in PHASES)
    parts = [f"{machine()}; medians of {options.rounds} rounds of {options.seconds:g} s a phase; "
             f"4 folders, 2+2; {errors} errors", figure_table(rounds), detail_table(rounds), memory_table(rounds)]
    text = "\n\n".join(parts)
    print(text)
    if options.out is not None:
        options.out.write_text(text + "\n", encoding="utf-8")
    if options.json is not None:
        options.json.write_text(json.dumps(rounds, indent=1) + "\n", encoding="utf-8")
    return 1 if errors else 0


# ---- restart --------------------------------------------------------------------------------------------------------


def restart(options, folder):
    """Time from starting again after a SIGKILL to being ready; then every key is asked for, and some are compared."""
    server = Millrace(folder / "restart", options.daemon)
    server.folder.mkdir(parents=True)
    rows, errors = [], 0
    common = ["--size", 4 * KIB, "--conns", 64]
    try:
        server.start()
        run_load(options, server, "bucket")
        put = run_load(options, server, "put", "--count", options.objects, *common)
        errors += put["errors"]
        say(f"{put['ops']:,} objects at {put['ops_s']:,.0f} op/s")
        for number in range(options.rounds):
            server.stop(signal.SIGKILL)
            begun = time.monotonic()
            server.start()
            seconds = time.monotonic() - begun
            got = run_load(options, server, "get", "--verify", "--keys", options.objects, "--count",
                           min(options.objects, 20000), *common)
            errors += got["errors"]
            rows.append([str(number + 1), f"{seconds:.3f} s", f"{got['ops']:,} read and compared, {got['errors']} wrong"])
            say(f"restart {number + 1}: ready after {seconds:.3f} s, {got['errors']} errors")
            # something new for the next restart to replay
            errors += run_load(options, server, "put", "--count", 2000, "--prefix", f"r{number}/", *common)["errors"]
    finally:
        server.stop()
    print(f"{machine()}; {options.objects:,} objects of 4 KiB, SIGKILL, start to /health/ready 200 (wanted: ≤ 2 s)\n")
    print(table(["restart", "ready after", "then"], rows))
    return 1 if errors else 0


# ---- programs -------------------------------------------------------------------------------------------------------


def find_minio(options):
    """Path of MinIO, installed if need be, or None with a line that says why."""
    if options.only == "millrace" or options.restart:
        return None
    places = [options.minio, shutil.which("minio"), Path.home() / "go/bin/minio"]
    for place in places:
        if place is not None and Path(place).is_file():
            return Path(place).resolve()
    go = shutil.which("go") or ("/usr/local/go/bin/go" if Path("/usr/local/go/bin/go").exists() else None)
    if go is None:
        say("MinIO is skipped: there is no minio here and no Go toolchain to install it with")
        return None
    say(f"go install {MINIO_MODULE}")
    done = subprocess.run([go, "install", MINIO_MODULE], check=False)
    installed = Path.home() / "go/bin/minio"
    if done.returncode != 0 or not installed.is_file():
        say("MinIO is skipped: go install failed")
        return None
    return installed


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    root = Path(__file__).resolve().parent.parent
    parser.add_argument("--build", type=Path, default=root / "build/release", help="where millraced and bench/load lie")
    parser.add_argument("--folder", type=Path, help="work on this file system (default: $TMPDIR or /tmp)")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=8, help="of each phase")
    parser.add_argument("--only", choices=["millrace", "minio"], help="one server alone")
    parser.add_argument("--minio", type=Path, help="the program")
    parser.add_argument("--out", type=Path, help="write the tables here too")
    parser.add_argument("--json", type=Path, help="write all figures here")
    parser.add_argument("--restart", action="store_true", help="measure restarts instead")
    parser.add_argument("--objects", type=int, default=200_000, help="for --restart")
    options = parser.parse_args()
    build = options.build.resolve()
    options.daemon, options.load = build / "millraced", build / "bench/load"
    needed = [options.load] + ([options.daemon] if options.only != "minio" or options.restart else [])
    for program in needed:
        if not program.is_file():
            parser.error(f"{program} is missing: run make first")
    return options


def main():
    options = arguments()
    options.minio = find_minio(options)
    if options.only == "minio" and options.minio is None:
        return 1
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="millrace-bench-", dir=options.folder))
        folder = Path(folder).resolve()
        try:
            return restart(options, folder) if options.restart else report(options, compare(options, folder))
        except RuntimeError as error:
            say(error)
            return 1


if __name__ == "__main__":
    sys.exit(main())
