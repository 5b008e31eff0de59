"""What the benchmarks make of figures: medians, ratios, targets, the page. No server is run."""
import importlib
import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
BENCH = ROOT / "bench"


@pytest.fixture(name="lib")
def fixture_lib(monkeypatch):
    """Imports a module of bench/lib."""
    monkeypatch.syspath_prepend(str(BENCH))
    return lambda name: importlib.import_module(f"lib.{name}")


def run_of(ops_s, **more):
    return dict({"ops": 1000, "ops_s": ops_s, "mib_s": ops_s / 256, "entries_s": 0, "bytes": 4096000, "p50_us": 100, "p99_us": 200, "p999_us": 300,
                 "server_cpu_s": 0.05, "client_cpu_s": 0.01, "server_written": 8192000, "server_peak": 1 << 20, "server_anonymous_peak": 1 << 19, "errors": 0},
                **more)


@pytest.fixture(name="results")
def fixture_results(lib):
    results = lib("results").Results.empty({"processor": "P", "topology": "T", "memory_gib": 1.0, "kernel": "Linux 6", "file_system": "ext4"},
                                           {"rounds": 3, "seconds": 1, "scale": "trial", "only": ""})
    results.data["rounds"] = {"millrace": [{"put-4k": run_of(r)} for r in (100, 5000, 300)], "minio": [{"put-4k": run_of(10)}],
                              "versitygw": [{"put-4k": run_of(120)}], "mhd_empty": [{"put-4k": run_of(600)}]}
    results.data["alone"] = {"restart": [{"seconds": 1.5, "objects": 10, "errors": 0}], "flood": []}
    results.data["disk"] = [{"write": 1000.0, "write_half": 500.0, "read": 900.0, "random_4k": 5.0, "commit_4k": 6.0}]
    return results


def test_medians_and_what_follows(results):
    assert results.median("millrace", "put-4k", "ops_s") == 300
    assert results.median("garage", "put-4k", "ops_s") is None
    assert results.best_peer("put-4k", "ops_s") == (120, "versitygw")
    assert results.best_peer("get-4k", "ops_s") == (None, None)
    assert results.median("millrace", "put-4k", "cpu_us_op") == pytest.approx(50)
    assert results.median("millrace", "put-4k", "written_ratio") == 2
    assert results.servers() == ["millrace", "minio", "versitygw"] and results.servers(stores=False) == ["mhd_empty"]


def test_targets(lib, results):
    targets = lib("targets").TARGETS
    assert targets[1].row(results)[1:] == ["≥ 3x", "2.50x", "not reached"]
    rows = {row[0]: row[1:] for row in (target.row(results) for target in targets)}
    assert rows["4 KiB PUT, durable, 64 connections, against MinIO"] == ["≥ 20x", "30.0x", "reached"]
    assert rows["ready after a SIGKILL"] == ["≤ 2 s", "1.50 s", "reached"]
    assert rows["memory under 1,024 uploads at once"][2] == "not measured"
    results.data["alone"]["restart"][0]["seconds"] = 2.5
    assert {t.title: t for t in lib("targets").TARGETS}["ready after a SIGKILL"].row(results)[3] == "not reached"


def test_targets_of_experiments(lib, results):
    results.data["alone"].update(engine=[{"reads_ratio": 0.9, "writes_ratio": 0.5, "errors": 0}], md5=[{"ratio": 0.4, "errors": 0}],
                                 overwriting=[{"written": 1.7, "errors": 0}], written=[{"index_sequential": 300, "errors": 0}])
    rows = {row[0]: row[1:] for row in (target.row(results) for target in lib("targets").TARGETS)}
    found = {words: next(row for title, row in rows.items() if words in title)
             for words in ("random reads of 4 KiB objects through", "sequential write through", "one MD5 at a time", "uniform overwriting", "index on the disk")}
    assert found["random reads of 4 KiB objects through"] == ["≥ 0.8x", "0.90x", "reached"]
    assert found["sequential write through"][2] == "not reached"
    assert found["one MD5 at a time"][2] == "reached" and found["index on the disk"][2] == "reached"
    assert found["uniform overwriting"] == ["-", "1.70", "reported"]
    results.data["alone"].pop("overwriting")
    assert next(t.row(results) for t in lib("targets").TARGETS if "uniform overwriting" in t.title)[3] == "not measured"


RDMA = {"errors": 0, "objects": 1000, "tcp_ops_s": 50000.0, "tcp_cpu_us": 16.0, "tcp_device_us": 0.0, "tcp_at_once": 128, "control_1024_ops_s": 300000.0,
        "control_1024_cpu_us": 2.5, "control_1024_device_us": 1.5, "control_1024_at_once": 2, "http_ratio": 4.0, "control_ratio": 6.0, "copies": 0.0,
        "copied_bytes": 0, "bounced": 0, "written_gib": 2.5, "get_1_mib_s": 3000.0, "get_1_cpu_s_gib": 0.25, "get_1_device_s_gib": 0.01,
        "get_1_client_cpu_s_gib": 0.1, "get_1_client_device_s_gib": 0.2, "gap_1": 3.0, "gap_4": 6.0, "reads_cpu_s_gib": 0.2, "reads_ratio": 1.25}


def test_rdma_on_the_fake(lib, results):
    assert "RDMA" not in lib("page").text_of(results).split("## Errors")[1]
    assert lib("page").rdma_tables(results) == ""
    results.data["alone"]["rdma"] = [RDMA]
    page = lib("page").rdma_tables(results)
    assert "No hardware" in page
    assert "| BATCH over RDMA, 1,024 entries | 300,000 | 6.00x | 2.50 µs | 1.50 µs | 2 batches at once |" in page
    assert "| GetBatch over TCP, 256 entries | - | - | - | - | - batches at once |" in page
    assert "| GET over RDMA, 1 at once | 3,000 | 0.25 s/GiB | 0.01 s/GiB | 0.10 s/GiB | 0.20 s/GiB | 3.00 % |" in page
    assert "Of 2.50 GiB written into clients' memory, 0 bytes were copied by the server first, and 0 GETs by the client." in page
    verdicts = {row[0]: row[3] for row in (target.row(results) for target in lib("targets").TARGETS)}
    found = {words: next(verdict for title, verdict in verdicts.items() if words in title)
             for words in ("GetBatch over TCP", "batches over RDMA", "copies of each byte", "send queue empty", "with 4 GETs", "one CRC32C", "RDMA READ")}
    assert found == {"GetBatch over TCP": "not reached", "batches over RDMA": "reached", "copies of each byte": "reached", "send queue empty": "reached",
                     "with 4 GETs": "not reached", "one CRC32C": "reached", "RDMA READ": "not measured"}


def test_prose_of_the_page_is_wrapped(lib):
    long = " ".join(["word"] * 50)
    page = f"## {long}\n\n{long}\n\n| {long} |\n| {long} |"
    wrapped = lib("page").wrapped(page)
    assert wrapped.split() == page.split()
    assert [line[0] for line in wrapped.splitlines() if len(line) > 100] == ["#", "|", "|"]


def test_a_page_with_plots(lib, results, tmp_path):
    results.data["skipped"].append("Garage was not measured: it is not installed")
    results.write(tmp_path / "r.json")
    done = subprocess.run([sys.executable, BENCH / "compare.py", "--render", tmp_path / "r.json", "--out", tmp_path / "performance.md"],
                          capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "performance.md").read_text(encoding="utf-8")
    assert "- Garage was not measured" in page and "| PUT 4 KiB (64), op/s | 300 | 10 | 120 | 30.0x | 2.50x | 600 | 0.50x |" in page
    assert "](performance/small.svg)" in page
    drawn = (tmp_path / "performance/small.svg").read_text(encoding="utf-8")
    assert drawn.startswith("<svg") and drawn.count("<rect") > 4
    assert json.loads((tmp_path / "r.json").read_text(encoding="utf-8"))["rounds"]["minio"]


def test_errors_of_millrace_count(results, tmp_path):
    results.data["rounds"]["millrace"][0]["put-4k"]["errors"] = 1
    results.write(tmp_path / "r.json")
    assert subprocess.run([sys.executable, BENCH / "compare.py", "--render", tmp_path / "r.json"], capture_output=True, timeout=60, check=False).returncode == 1


@pytest.mark.parametrize("names, status", [("put-4k,nothing", 2), ("", 0), ("millrace", 0)])
def test_names_are_checked(names, status):
    done = subprocess.run([sys.executable, BENCH / "compare.py", "--list", "--only", names], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == status
    assert status or "checkpoints" in done.stdout


def test_names_are_unique(lib):
    names = [e.name for e in [*lib("phases").PHASES, *lib("beside").BESIDE, *lib("alone").ALONE]]
    assert len(set(names)) == len(names)


def test_only_a_program_that_is_there(lib, monkeypatch, capsys):
    monkeypatch.setattr("shutil.which", lambda name: None)
    monkeypatch.setattr("pathlib.Path.home", lambda: Path("/nonexistent"))
    assert lib("servers").find_program(lib("servers").Garage, None) is None
    assert "Garage is skipped" in capsys.readouterr().err


# ---- clusters -----------------------------------------------------------------------------------------------


def script(name, monkeypatch):
    """A program of bench/ as a module."""
    monkeypatch.syspath_prepend(str(BENCH))
    return importlib.import_module(name)


def phase_of(cpu_s, ops_s):
    return {"ops": 1000, "bytes": 1 << 30, "cpu_s": cpu_s, "ops_s": ops_s, "mib_s": ops_s, "errors": 0}


def test_a_cluster_is_held_against_others(monkeypatch):
    cluster = script("cluster", monkeypatch)
    rounds = [{"one": {phase[0]: phase_of(1, 900) for phase in cluster.PHASES}, "three": {phase[0]: phase_of(three, 600) for phase in cluster.PHASES},
               "minio": {phase[0]: phase_of(20, 50) for phase in cluster.PHASES}} for three in (2, 2.2, 9)]
    cpu, speed = cluster.cpu_table(rounds), cluster.speed_table(rounds)
    assert "| GET 4 KiB | us | 1,000 | 2,200 | 20,000 | 2.20x (≤ 2x: not reached) | 9.09x | - |" in cpu
    assert "| PUT 4 KiB | us | 1,000 | 2,200 | 20,000 | 2.20x (≤ 2.5x) | 9.09x | - |" in cpu
    assert "| PUT 4 KiB | 1/s | 900 | 600 | 50 | 0.67x | 12.0x (≥ 15x: not reached) | - |" in speed
    assert "| GET 16 MiB | MiB/s | 900 | 600 | 50 | 0.67x | 12.0x (≥ 1.5x) | - |" in speed


def test_pauses(lib):
    pauses = lib("pauses")
    assert pauses.longest_gap([], 1, 4) == 3
    assert pauses.longest_gap([2, 3.5, 9], 1, 4) == 1.5
    assert pauses.longest_gap([0.5, 3.9], 1, 4) == pytest.approx(2.9)
    assert pauses.shown([0.2, 0.1, 0.9]) == "0.20 (0.90)" and pauses.shown([0.1]) == "0.10"
    site = pauses.Site({1: "a", 2: "b"}, 9000, "key", "secret")
    site.clients = [pauses.Client(site, machine, kind, 4096) for machine in (1, 2) for kind in ("write", "read")]
    for client, done in zip(site.clients, ([1, 2], [1], [4, 6, 8], [])):
        client.done = done
    site.clients[0].failed["503 Slow down"] += 1
    assert site.pauses("write", 0, 10) == {"nobody": 2, "one": 8, "who": "write 4096 at 1: {'503 Slow down': 1}"}
    assert site.pauses("write", 0, 10, without={1}) == {"nobody": 4, "one": 4, "who": "write 4096 at 2: {}"}
    assert site.pauses("read", 0, 10) == {"nobody": 9, "one": 10, "who": "read 4096 at 2: {}"}


def test_pauses_are_judged_by_the_longest_of_one_client(monkeypatch):
    program = script("cluster_pauses", monkeypatch)
    event = program.Event("e", "something dies", (3, 0.3), 1, None)
    found = [{"event": {"write": {"nobody": 0.1, "one": one}, "read": {"nobody": 0.1, "one": 0.2}}} for one in (2.5, 2.8, 2.9)]
    assert program.report([(event, found)]).splitlines()[-1] == "| something dies | 0.10 | 2.80 (2.90) | 0.10 | 0.20 | 3 / 0.3 | reached |"
    found[0]["event"]["write"]["one"] = 3.5
    assert program.report([(event, found)]).endswith("| not reached |")
    nothing = program.Event("nothing", "nothing happens", None, 1, None)
    calm = [{"event": {kind: {"nobody": 0.1, "one": one} for kind in ("write", "read")}} for one in (0.2, 3.6)]
    assert program.report([(nothing, calm), (event, found)]).endswith("| not told from nothing |")


def test_a_cluster_that_grows(monkeypatch):
    program = script("cluster_growth", monkeypatch)
    figures = {"title": "a node", "seconds": 10, "least": 100 << 20, "moved": 120 << 20, "before_us": 1000, "p99_us": [1500, 2500, 1600], "errors": 0, "budget": 64 << 20}
    row = "| 10 | 100 | 120 | 1.20x (≤ 1.1x: not reached) | 1.00 | 1.60 | 2.50 | 1.60x (≤ 2x) | 12.0 | 64.0 |"
    assert program.report([figures]).splitlines()[-1] == f"| a node {row} 0.19x |"
    assert program.report([{**figures, "title": "a node is lost"}]).splitlines()[-1] == f"| a node is lost {row} 0.19x (≥ 0.6x: not reached) |"
