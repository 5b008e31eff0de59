#!/usr/bin/env python3
"""Measures millraced beside other S3 servers and beside its limits: same machine, same disk, same load, one server at a time.

Each round starts a server on fresh folders, runs every experiment, and stops it; then the next server's turn: MinIO, versitygw and Garage where
they are found (or installed by `go install`), then libmicrohttpd with an empty handler and a bare socket loop, then fio. Some experiments
have millraced alone. The figures are medians over rounds, printed as Markdown; --json keeps all of them, --out writes a page with plots. The load
comes from `load` (bench/load.c), which checks every answer; a wrong or failed one of millraced makes the exit status 1.

Nothing but Python's standard library is needed.
"""

import argparse
import contextlib
import shutil
import sys
import tempfile
import time
from pathlib import Path

from lib.alone import ALONE
from lib.beside import BESIDE
from lib.limits import LIMIT_SERVERS, measure_disk, measure_kernels
from lib.machine import MIB, allow_many_files, describe, say
from lib.page import text_of, write_page
from lib.phases import PHASES, Bench, Skipped, cold_bytes, forget_folder
from lib.results import SERVERS, Results
from lib.scale import SCALES
from lib.servers import PEERS, Millrace, find_program

EXPERIMENTS = {e.name: e for e in [*BESIDE, *PHASES, *ALONE]}
OTHERS = {"disk": "fio on the same disk", "kernels": "digests, CRCs and erasure codes alone"}


def show(server, phase, figures):
    if "ops" in figures:
        say(f"  {server.key:9} {phase.row():44} {figures[phase.figure[0]]:12,.1f}  p50 {figures['p50_us'] / 1000:8.2f} ms  "
            f"p99 {figures['p99_us'] / 1000:8.2f} ms  errors {figures['errors']}")
    else:
        say(f"  {server.key:9} {phase.title:44} " + ", ".join(f"{k} {v:,.2f}" for k, v in figures.items()))


def note(results, kind, line):
    say(line)
    results.data[kind] += [line] if line not in results.data[kind] else []


def attempt(results, server_name, title, work, *arguments):
    """What some work gave; None where it broke down, which is noted, and the others go on."""
    try:
        return work(*arguments)
    except Skipped as why:
        note(results, "skipped", f"{title} was not measured: {why}")
    except (OSError, RuntimeError) as error:
        say(error)
        note(results, "broken" if server_name == "millrace" else "skipped", f"{server_name}: {title} broke down: {str(error).splitlines()[0]}")
    return None


def run_one(bench, experiment):
    bench.before(experiment)
    return experiment.run(bench)


def due(options, experiments, number):
    """Those of a round: what takes long, or has no target, is measured in the first only, unless it was asked for by name."""
    return [e for e in experiments if e.name in options.experiments and (number == 0 or not e.once or e.name in options.named)]


def run_round(options, server, results, number):
    """All experiments that are for every server, on one: figures by name."""
    figures, bench = {}, Bench(options, options.scale, server)
    experiments = due(options, [*BESIDE, *PHASES], number)
    if not server.stores:
        experiments = [e for e in experiments if e in PHASES and e.runs_on(server)]
    try:
        if attempt(results, server.name, "the start", bench.start) is None:
            return figures
        for experiment in experiments:
            result = attempt(results, server.name, experiment.title, run_one, bench, experiment)
            if result is not None:
                figures[experiment.name] = result
                show(server, experiment, result)
    finally:
        bench.server.stop()
    return figures


def round_servers(options, folder):
    """Each server as a fresh one."""
    if "millrace" in options.servers:
        yield Millrace(folder / "millrace", options.daemon)
    for peer in PEERS:
        if peer.key in options.programs:
            yield peer(folder / peer.key, options.programs[peer.key])
    for limit in LIMIT_SERVERS:
        if limit.key in options.servers:
            yield limit(folder / limit.key, options.build / "bench/limits" / limit.key)


def compare(options, folder, results):
    begun = time.monotonic()

    def announce(number, title):
        say(f"{(time.monotonic() - begun) / 60:4.1f} min, round {number + 1} of {options.rounds}: {title}")

    for number in range(options.rounds):
        for server in round_servers(options, folder) if due(options, [*BESIDE, *PHASES], number) else ():
            announce(number, server.name)
            results.data["rounds"].setdefault(server.key, []).append(run_round(options, server, results, number))
            forget_folder(server.folder)
        for experiment in due(options, ALONE, number) if "millrace" in options.servers else ():
            announce(number, experiment.title)
            figures = attempt(results, "millrace", experiment.title, experiment.run, options, options.scale, folder)
            results.data["alone"].setdefault(experiment.name, []).extend([figures] if figures else [])
        if "disk" in options.experiments:
            figures = measure_disk(folder, options.seconds, min(options.scale.cold, 4096 * MIB))
            results.data["disk"] += [figures] if figures else []
        if options.json is not None:
            results.write(options.json)  # hours of work are not lost with what comes behind
    if "kernels" in options.experiments:
        results.data["kernels"] = measure_kernels(options.build, min(options.seconds / 4, 1))
    results.data["settings"]["minutes"] = round(results.data["settings"].get("minutes", 0) + (time.monotonic() - begun) / 60, 1)


def list_experiments():
    print("On each server:\n")
    for experiment in [*BESIDE, *PHASES]:
        print(f"  {experiment.name:14} {experiment.row() if experiment in PHASES else experiment.title}")
    print("\nOn millrace alone:\n")
    for experiment in ALONE:
        print(f"  {experiment.name:14} {experiment.title}")
    print("\nLimits:\n")
    for name, title in OTHERS.items():
        print(f"  {name:14} {title}")
    print("\nServers: " + " ".join(SERVERS))


def choose(options, parser):
    """What --only names: experiments, servers, or both; of the kind that is not named, all."""
    names = [name for name in (options.only or "").split(",") if name]
    unknown = [name for name in names if name not in EXPERIMENTS and name not in OTHERS and name not in SERVERS]
    if unknown:
        parser.error(f"--only: there is no {', '.join(unknown)}; see --list")
    options.named = names
    options.servers = [name for name in names if name in SERVERS] or list(SERVERS)
    options.experiments = [name for name in names if name not in SERVERS] or [*EXPERIMENTS, *OTHERS]
    if any(name in SERVERS for name in names) and not any(name in OTHERS for name in names):
        options.experiments = [name for name in options.experiments if name not in OTHERS]


def find_programs(options, parser):
    """Paths of the programs of this build, which must be there, and of peers, which may be."""
    options.build = options.build.resolve()
    options.daemon, options.load = options.build / "millraced", options.build / "bench/load"
    needed = [options.load, options.build / "bench/micro", options.build / "bench/library_load",
              *(options.build / "bench/limits" / name for name in ("mhd_empty", "bare", "kernels", "reads"))]
    for program in needed + ([options.daemon] if "millrace" in options.servers else []):
        if not program.is_file():
            parser.error(f"{program} is missing: run make first")
    on_each = any(e.name in options.experiments for e in [*BESIDE, *PHASES])
    wanted = [peer for peer in PEERS if on_each and peer.key in options.servers]
    found = {peer.key: find_program(peer, getattr(options, peer.key)) for peer in wanted}
    options.missing = [peer for peer in wanted if found[peer.key] is None]
    options.programs = {key: program for key, program in found.items() if program is not None}


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    root = Path(__file__).resolve().parent.parent
    parser.add_argument("--scale", choices=SCALES, default="bench", help="how much: trial (minutes), bench (half an hour), full (hours)")
    parser.add_argument("--rounds", type=int, help="instead of the scale's")
    parser.add_argument("--seconds", type=float, help="of each phase, instead of the scale's")
    parser.add_argument("--objects", type=int, help="stored for the restart, instead of the scale's")
    parser.add_argument("--only", help="experiments and servers by name, separated by commas")
    parser.add_argument("--list", action="store_true", help="name experiments and servers")
    parser.add_argument("--restart", action="store_true", help="the same as --only restart")
    parser.add_argument("--build", type=Path, default=root / "build/release", help="where millraced and bench/load lie")
    parser.add_argument("--folder", type=Path, help="work on this file system (default: $TMPDIR or /tmp)")
    for peer in PEERS:
        parser.add_argument("--" + peer.key, type=Path, help=f"the program of {peer.name}")
    parser.add_argument("--out", type=Path, help="write a page here, and its plots into a folder of its name")
    parser.add_argument("--json", type=Path, help="write all figures here")
    parser.add_argument("--add", action="store_true", help="add to the figures that --json has already, of the same scale")
    parser.add_argument("--render", type=Path, metavar="JSON", help="measure nothing: show these figures of --json")
    options = parser.parse_args()
    if options.add and (options.json is None or not options.json.is_file()):
        parser.error("--add: --json names no file to add to")
    if options.restart:
        options.only = "restart"
    choose(options, parser)
    options.scale_name, options.scale = options.scale, SCALES[options.scale]
    options.rounds = options.rounds or options.scale.rounds
    options.seconds = options.seconds or options.scale.seconds
    options.scale.restart = options.objects or options.scale.restart
    if not options.list and options.render is None:
        find_programs(options, parser)
    return options


def measure(options):
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="millrace-bench-", dir=options.folder))).resolve()
        results = Results.empty(describe(folder), {"rounds": options.rounds, "seconds": options.seconds, "scale": options.scale_name,
                                                    "only": options.only or ""})
        if options.add:
            results = Results.read(options.json).continued(options)
        for peer in options.missing:
            note(results, "skipped", f"{peer.name} was not measured: it is not installed")
        if "disk" in options.experiments and shutil.which("fio") is None:
            note(results, "skipped", "fio was not run: it is not installed")
        options.scale.cold = cold_bytes(options.scale, folder)
        compare(options, folder, results)
    return results


def main():
    options = arguments()
    if options.list:
        list_experiments()
        return 0
    allow_many_files()
    try:
        for path in filter(None, (options.out, options.json)):  # before hours of work, not behind them
            Path(path).parent.mkdir(parents=True, exist_ok=True)
        results = Results.read(options.render) if options.render else measure(options)
    except RuntimeError as error:
        say(error)
        return 1
    print(text_of(results))
    if options.json is not None:
        results.write(options.json)
    if options.out is not None:
        write_page(results, options.out)
    return 1 if results.errors("millrace") or results.errors_alone() or results.data["broken"] else 0


if __name__ == "__main__":
    sys.exit(main())
