"""A run as a page of Markdown with plots: what `bench/compare.py` prints, and docs/performance.md."""

import textwrap

from .beside import BESIDE
from .limits import DISK
from .machine import KIB, MIB
from .phases import PHASES
from .plots import bars
from .results import SERVERS
from .tables import number, ratio, table, times
from .targets import TARGETS

MADE = "<!-- Made by bench/compare.py from the figures of a run; change that, not this. -->\n\n"


def spent(settings):
    return f", {settings['minutes']:.0f} minutes" if "minutes" in settings else ""


def opening(results):
    machine, settings = results.data["machine"], results.data["settings"]
    lines = [f"{machine['processor']}: {machine['topology']}; {machine['memory_gib']:g} GiB of memory, {machine['kernel']}, "
             f"{machine['file_system']}. One server at a time, load and server on the same processors. Medians of up to {results.rounds()} round(s), "
             f"{settings['seconds']:g} s a phase (`--scale {settings['scale']}`{spent(settings)}); what has no target, and what takes long, was measured once. millrace and MinIO: four folders, two data and two parity; "
             "versitygw: one folder, without flushes; Garage: one copy, with flushes. All requests are signed (presigned URLs); status and length of every "
             "answer are checked."]
    lines += [f"- {line}" for line in results.data["skipped"] + results.data["broken"]]
    return "\n".join(lines)


def target_table(results):
    rows = [target.row(results) for target in TARGETS]
    if results.data["settings"]["only"]:
        rows = [row for row in rows if row[-1] != "not measured"]
    return "## Targets\n\n" + table(["figure", "wanted", "measured", ""], rows) if rows else ""


def measured(results):
    return [phase for phase in PHASES if any(results.runs(server, phase.name) for server in results.servers())]


def speed_table(results):
    servers = results.servers()
    header = ["phase (connections)", *(SERVERS[s] for s in servers), "against MinIO", "against the best peer", "its limit", "of its limit"]
    rows = []
    for phase in measured(results):
        figure, limit = phase.figure[0], results.limit(phase)
        mine = results.median("millrace", phase.name, figure)
        best, _ = results.best_peer(phase.name, figure)
        rows.append([phase.row(), *(number(results.median(s, phase.name, figure)) for s in servers),
                     times(ratio(mine, results.median("minio", phase.name, figure))), times(ratio(mine, best)), number(limit), times(ratio(mine, limit))])
    sets = [(phase.title, results.median("millrace", phase.name, "working_set")) for phase in measured(results)]
    cold = "".join(f" {title}: out of {amount / MIB:,.0f} MiB." for title, amount in sets if amount)
    return ("## Speed\n\nThe limit is libmicrohttpd with an empty handler under the same load; for large uploads half of what fio writes (2+2 writes "
            "each byte twice), for cold reads what fio reads." + cold + "\n\n" + table(header, rows))


def latency_table(results):
    servers = results.servers()
    rows = []
    for phase in measured(results):
        row = [phase.row().rsplit(",", 1)[0]]
        for server in servers:
            values = [results.median(server, phase.name, f) for f in ("p50_us", "p99_us", "p999_us")]
            errors = sum(run["errors"] for run in results.runs(server, phase.name))
            row.append("-" if None in values else " / ".join(number(v / 1000) for v in values) + (f"; {errors:,} errors" if errors else ""))
        rows.append(row)
    return ("## Latency\n\np50 / p99 / p99.9 in ms of what succeeded; errors of all rounds, where there were any.\n\n"
            + table(["phase (connections)", *(SERVERS[s] for s in servers)], rows))


def cost(results, phase, server):
    """Server CPU, memory at most, bytes written for each byte stored."""
    by_bytes = phase.figure[2] == "GiB"
    cpu = results.median(server, phase.name, "cpu_s_gib" if by_bytes else "cpu_us_op")
    if cpu is None:
        return "-"
    peak, anonymous = (results.median(server, phase.name, f) for f in ("server_peak", "server_anonymous_peak"))
    text = f"{number(cpu)} {'s/GiB' if by_bytes else 'µs/op'}"
    gib = results.median(server, phase.name, "cpu_s_gib")
    if not by_bytes and gib is not None and phase.kind != "list":
        text += f" ({number(gib)} s/GiB)"
    text += f"; {number(peak / MIB)} / {number(anonymous / MIB)} MiB" if peak is not None else ""
    written = results.median(server, phase.name, "written_ratio") if phase.kind in ("put", "multipart") else None
    return text + (f"; {number(written)}" if written is not None else "")


def cost_table(results):
    servers = results.servers()
    rows = [[phase.row().rsplit(",", 1)[0], *(cost(results, phase, s) for s in servers),
             number(results.median("millrace", phase.name, "client_cpu_s")), number(results.median("millrace", phase.name, "server_cpu_s"))]
            for phase in measured(results)]
    return ("## Cost\n\nServer CPU; memory at most, all of it (VmHWM) / anonymous; bytes written to the disk for each byte stored. At the right the CPU that the "
            "load generator took beside millrace, and millrace's own, in s.\n\n"
            + table(["phase (connections)", *(SERVERS[s] for s in servers), "load", "millrace"], rows))


def errors_table(results):
    rows = [[SERVERS[s], f"{results.errors(s):,}"] for s in results.servers()] + [["millrace, alone", f"{results.errors_alone():,}"]]
    return "## Errors\n\n" + table(["server", "failed or wrong answers"], rows)


def beside_table(results):
    rows = []
    for server in results.servers():
        idle, checkpoints = (bool(results.runs(server, experiment.name)) for experiment in BESIDE)

        def of(name, figure, unit=1, key=server):
            value = results.median(key, name, figure)
            return number(value / unit if value is not None else None)

        if idle or checkpoints:
            rows.append([SERVERS[server], of("idle", "kib_each") + " KiB", of("checkpoints", "rate") + "/s",
                         " / ".join(of("checkpoints", f"alone_{p}_us", 1000) for p in ("p50", "p99")), of("checkpoints", "paced_mib_s") + " MiB/s",
                         " / ".join(of("checkpoints", f"beside_{p}_us", 1000) for p in ("p50", "p99")), of("checkpoints", "ratio") + "x"])
    header = ["server", "memory of an idle connection", "small GETs, open loop", "alone: p50 / p99, ms", "checkpoints, paced", "beside them: p50 / p99, ms",
              "p99 against alone"]
    return "## Idle connections, checkpoints\n\n" + table(header, rows) if rows else ""


# Experiments of millrace alone: what is said of each, and its figures.
ALONE_ROWS = [
    ("restart", "ready after a SIGKILL, {} objects", "objects", [("seconds", 1, " s")]),
    ("growth", "PUT / GET with {} objects of 1 KiB, against a few", "grown", [("put_ratio", 1, "x"), ("get_ratio", 1, "x")]),
    ("written", "bytes written for each byte of {} PUTs of 4 KiB, one drive: names in order / in no order", "objects",
     [("sequential", 1, ""), ("random", 1, "")]),
    ("written", "index on the disk for each of {} small objects: names in order / in no order", "objects",
     [("index_sequential", 1, " bytes"), ("index_random", 1, " bytes")]),
    ("loops", "server CPU of a small GET, 1 loop / 2 loops", None, [("cpu_us_1", 1, " µs"), ("cpu_us_2", 1, " µs")]),
    ("sequential", "PUT of 16 MiB on one drive without an erasure code", None, [("mib_s", 1, " MiB/s"), ("server_cpu_s_gib", 1, " s/GiB")]),
    ("engine", "the engine's API: reads of 4 KiB out of {} cold ones, 64 at a time / fio the same", "objects", [("reads_s", 1, "/s"), ("fio_reads_s", 1, "/s")]),
    ("engine", "the engine's API: writes of 16 MiB, without / with MD5 / fio", None,
     [("writes_mib_s", 1, " MiB/s"), ("md5_mib_s", 1, " MiB/s"), ("fio_writes_mib_s", 1, " MiB/s")]),
    ("md5", "server CPU of PUTs of 16 MiB, 16 streams / with one MD5 at a time", None, [("cpu_s_gib_wide", 1, " s/GiB"), ("cpu_s_gib_one", 1, " s/GiB")]),
    ("overwriting", "32 KiB objects overwritten at random, 70 % full: bytes written / moved for each byte; rate at the end", None,
     [("written", 1, ""), ("moved", 1, ""), ("mib_s_late", 1, " MiB/s")]),
    ("flood", "memory under 1,024 uploads of {} KiB at once, all / anonymous; told to slow down", "size",
     [("peak", MIB, " MiB"), ("anonymous", MIB, " MiB"), ("refused", 1, " uploads")]),
]


def alone_table(results):
    rows = []
    for name, title, amount, figures in ALONE_ROWS:
        if not results.data["alone"].get(name):
            continue
        of = results.alone(name, amount) if amount else 0
        rows.append([title.format(f"{of / KIB if amount == 'size' else of:,.0f}"),
                     " / ".join(number(results.alone(name, figure) if unit == 1 else results.alone(name, figure) / unit) + suffix
                                for figure, unit, suffix in figures)])
    return "## millrace alone\n\n" + table(["what", "figure"], rows) if rows else ""


# On the fake transport: rows of small objects and of large ones, and the names of their figures.
RDMA_SMALL = [("single GETs over TCP", "tcp", "{} connections"), ("GETs on an RDMA session", "session", "{} at once"),
              ("GetBatch over TCP, 256 entries", "http_256", "{} batches at once"), ("GetBatch over TCP, 1,024 entries", "http_1024", "{} batches at once"),
              ("BATCH over RDMA, 256 entries", "control_256", "{} batches at once"), ("BATCH over RDMA, 1,024 entries", "control_1024", "{} batches at once")]
RDMA_LARGE = [("GET over HTTP, 4 at once", "get_http"), ("GET over RDMA, 1 at once", "get_1"), ("GET over RDMA, 4 at once", "get_4"),
              ("PUT over HTTP, 4 at once", "put_http"), ("PUT by RDMA READ, 4 at once", "put")]
RDMA_TEXT = """## RDMA on the fake transport

No hardware: `tests/fakerdma`, in place of verbs, moves the bytes from process to process. In the server and in the client a thread of it does what a device would do
by itself; its CPU time is told apart (by `/proc/PID/task`), but it takes its share of the same processors, so rates are lower than they would be beside a
device. Nothing here says anything about a network. All figures of a round are of one run of one server (2+2); memory is registered, and every byte was
compared once."""


def rdma_tables(results):
    if not results.data["alone"].get("rdma"):
        return ""

    def of(figure, suffix=""):
        value = results.alone("rdma", figure)
        return "-" if value is None else number(value) + suffix

    best = results.alone("rdma", "tcp_ops_s")
    small = [[title, of(f"{name}_ops_s"), times(ratio(results.alone("rdma", f"{name}_ops_s"), best)), of(f"{name}_cpu_us", " µs"), of(f"{name}_device_us", " µs"),
              at_once.format(of(f"{name}_at_once"))] for title, name, at_once in RDMA_SMALL]
    large = [[title, of(f"{name}_mib_s"), *(of(f"{name}_{whose}_s_gib", " s/GiB") for whose in ("cpu", "device", "client_cpu", "client_device")),
              of(f"gap_{name.removeprefix('get_')}", " %")] for title, name in RDMA_LARGE]
    large.append(["as many bytes of a file written through the page cache, read by one thread alone, and one CRC32C", of("reads_mib_s"), of("reads_cpu_s_gib", " s/GiB"), "-", "-", "-", "-"])
    return "\n\n".join([
        RDMA_TEXT, f"Cached objects of 10 KiB, {of('objects')} of them, each way at its best:",
        table(["how", "op/s", "against single GETs", "server CPU", "the fake's device there", "at its best with"], small),
        "Objects of 16 MiB, in the page cache, each got as one piece. The send queue is empty when its loop knows of nothing posted, though a GET has had its first "
        "WRITE and not its last: where the fake copies faster than a loop reads and checks, it has to be. The last row is less than a server can come to: what a "
        "store has in the page cache lies there in single pages, not in large folios, and the copies of the fake's devices slow others down.",
        table(["how", "MiB/s", "server CPU", "the fake's device there", "client CPU", "the fake's device there", "send queue empty"], large),
        f"Of {of('written_gib')} GiB written into clients' memory, {of('copied_bytes')} bytes were copied by the server first, and {of('bounced')} GETs by the "
        "client."])


def limit_tables(results):
    parts, limits = [], results.servers(stores=False)
    phases = [phase for phase in PHASES if any(results.runs(server, phase.name) for server in limits)]
    if phases:
        rows = [[phase.row(), *(number(results.median(s, phase.name, phase.figure[0])) for s in limits)] for phase in phases]
        parts.append(table(["phase (connections)", *(SERVERS[s] for s in limits)], rows))
    if results.data["disk"]:
        parts.append(table(["the disk, by fio", "figure"], [[row[0], number(results.disk(name))] for name, row in DISK.items()]))
    if results.data["kernels"]:
        parts.append(table(["arithmetic of one core, 1 MiB at a time", "MiB/s"], [[name, number(v)] for name, v in results.data["kernels"].items()]))
    return "## Limits\n\n" + "\n\n".join(parts) if parts else ""


def text_of(results):
    parts = [opening(results), target_table(results)]
    if measured(results):
        parts += [speed_table(results), latency_table(results), cost_table(results)]
    parts += [beside_table(results), alone_table(results), rdma_tables(results), limit_tables(results), errors_table(results)]
    return "\n\n".join(part for part in parts if part)


# ---- plots ----------------------------------------------------------------------------------------------------------

# File: title, phases with their labels, figure, what it is divided by, whether the limits are shown too.
PLOTS = {
    "small": ("Small objects, op/s", {"put-4k": "PUT 4 KiB", "get-4k": "GET 4 KiB", "put-64k": "PUT 64 KiB", "get-64k": "GET 64 KiB", "mixed": "mixed 4 KiB"},
              "ops_s", 1, True),
    "large": ("Large objects, MiB/s", {"put-1m": "PUT 1 MiB", "get-1m": "GET 1 MiB", "put-16m": "PUT 16 MiB", "get-16m": "GET 16 MiB", "multipart": "multipart",
                                       "get-16m-cold": "GET 16 MiB, cold"}, "mib_s", 1, False),
    "list": ("LIST, entries/s", {"list-1000": "1,000 a page", "list-40": "40 a page"}, "entries_s", 1, False),
    "get-connections": ("GET 4 KiB by connections, op/s", {"get-4k-c1": "1", "get-4k-c16": "16", "get-4k": "64", "get-4k-c256": "256", "get-4k-c1024": "1,024"},
                        "ops_s", 1, True),
    "put-connections": ("PUT 4 KiB by connections, op/s", {"put-4k-c1": "1", "put-4k-c16": "16", "put-4k": "64", "put-4k-c256": "256", "put-4k-c1024": "1,024"},
                        "ops_s", 1, False),
    "latency": ("p99 on 64 connections, ms", {"put-4k": "PUT 4 KiB", "get-4k": "GET 4 KiB", "head": "HEAD", "delete": "DELETE"}, "p99_us", 1000, False),
    "cpu": ("Server CPU, s/GiB", {"put-16m": "PUT 16 MiB", "get-16m": "GET 16 MiB", "multipart": "multipart"}, "cpu_s_gib", 1, False),
}


def plots_of(results):
    """SVG documents by file name, of what was measured."""
    found = {}
    for name, (title, phases, figure, unit, limits) in PLOTS.items():
        servers = results.servers() + (results.servers(stores=False) if limits else [])
        groups = []
        for phase, label in phases.items():
            values = {s: results.median(s, phase, figure) for s in servers}
            groups.append((label, {s: v / unit for s, v in values.items() if v is not None}))
        drawn = bars(title, {s: SERVERS[s] for s in servers}, groups)
        if drawn is not None:
            found[name + ".svg"] = drawn
    return found


def wrapped(text):
    """The same with lines of prose that end at 100 columns; tables, headings, pictures and comments are as they were."""
    parts = []
    for part in text.split("\n\n"):
        prose = not part.startswith(("|", "#", "!", "<", "- ", "```"))
        parts.append(textwrap.fill(part, 100, break_long_words=False, break_on_hyphens=False) if prose else part)
    return "\n\n".join(parts)


def write_page(results, path):
    """The page, and its plots in a folder beside it that has its name."""
    folder, plots = path.with_suffix(""), plots_of(results)
    folder.mkdir(parents=True, exist_ok=True)
    for name, drawn in plots.items():
        (folder / name).write_text(drawn, encoding="utf-8")
    shown = "\n".join(f"![{PLOTS[name.removesuffix('.svg')][0]}]({folder.name}/{name})" for name in plots)
    path.write_text(f"{MADE}# Performance\n\n{wrapped(text_of(results))}\n\n## Plots\n\n{shown}\n", encoding="utf-8")
