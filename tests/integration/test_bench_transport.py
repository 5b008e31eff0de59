"""`millrace bench --transport` against the daemon, over the fake RDMA and over TCP: what it measures went the way it says, and nothing is left behind."""
import json
import os
import re
import shutil
import signal
import subprocess

import pytest

from tests.support.daemon import CLI, PATIENCE, Daemon, sanitizer_environment
from tests.support.editing_proxy import EditingProxy, header
from tests.support.rdma import DRIVER, rdma_daemon
from tests.support.s3raw import RawClient
from tests.support.waits import eventually, metric

pytestmark = [pytest.mark.daemon, pytest.mark.client, pytest.mark.skipif(not DRIVER.exists(), reason="make fake-rdma builds the transport")]
MIB = 1 << 20
SMALL = ("--seconds", "0.2", "--objects", "40", "--range-of", "1M")
USUAL = ["put-4k", "put-64k", "put-1m", "put-16m", "get-4k", "get-64k", "get-1m", "get-16m", "batch-64-4k", "batch-64-64k", "range-64k", "mixed-4k"]


@pytest.fixture(name="site", scope="module")
def fixture_site():
    daemon = rdma_daemon(drives=4, ec="2+2").start()
    yield daemon
    daemon.stop()
    daemon.discard()
    shutil.rmtree(daemon.sockets)


@pytest.fixture(name="user")
def fixture_user(site):
    """Of a test after which nothing is left of what bench has stored, and no session."""
    user = RawClient(site.host, site.port, site.access_key, site.secret_key)
    yield user
    assert site.alive
    assert b"millrace-bench" not in user.request("GET", "/").body
    eventually(lambda: metric(site, "millrace_rdma_sessions") == 0)


def command(daemon, folder, *arguments, endpoint=None, driver=DRIVER, attempts=5):
    config = folder / "config"
    config.write_text(f"endpoint = {endpoint or daemon.endpoint}\naccess_key = {daemon.access_key}\nsecret_key = {daemon.secret_key}\n"
                      f"test_rdma_driver = {driver}\nattempts = {attempts}\n")
    env = {"PATH": os.environ["PATH"], "HOME": str(folder), **sanitizer_environment()}
    if hasattr(daemon, "sockets"):
        env["MILLRACE_FAKE_RDMA"] = daemon.sockets
    return [str(CLI), "bench", "--config", str(config), *map(str, arguments)], env


def bench(daemon, folder, *arguments, status=0, **how):
    """(standard output, standard error)"""
    words, env = command(daemon, folder, *arguments, **how)
    done = subprocess.run(words, env=env, capture_output=True, text=True, timeout=100 * PATIENCE, check=False)
    assert done.returncode == status, (arguments, done.returncode, done.stdout[-2000:], done.stderr[-2000:])
    return done.stdout, done.stderr


def until_it_runs(process, phase):
    """By what --progress says: something has been measured."""
    line = process.stderr.readline()
    while not re.match(rf"{phase}: \d+ s, [1-9]", line):
        assert line, "it has ended"
        line = process.stderr.readline()


def objects_of(phase):
    return phase["ops"] * phase.get("batch", 1)


# ---- what is measured ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("transport", ["rdma", "tcp", "auto"])
def test_every_phase(site, user, tmp_path, transport):
    """All that was got and put went by this transport, as the daemon counts it, too; each byte was compared."""
    before = metric(site, "millrace_rdma_written_bytes_total"), metric(site, "millrace_rdma_read_bytes_total")
    out, err = bench(site, tmp_path, *SMALL, "--json", "--verify", "--transport", transport)
    report = json.loads(out)
    assert (report["errors"], report["interrupted"], err) == (0, False, "") and "no_rdma" not in report
    assert [p["name"] for p in report["phases"]] == USUAL
    for phase in report["phases"]:
        assert phase["ops"] > 0 and phase["errors"] == 0 and phase["verified"] and phase["transport"] == transport, phase
        assert 0 < phase["p50_us"] <= phase["p99_us"] <= phase["p999_us"] <= phase["max_us"] and phase["client_cpu_s"] > 0, phase
        assert phase["bytes"] == objects_of(phase) * (65536 if phase["name"] == "range-64k" else phase["size"]), phase
        large = phase["name"] in ("put-1m", "put-16m", "get-1m", "get-16m")  # what auto sends over RDMA, beside batches
        by_rdma = transport == "rdma" or (transport == "auto" and (large or "batch" in phase))
        assert (phase["by_rdma"], phase["by_tcp"]) == ((objects_of(phase), 0) if by_rdma else (0, objects_of(phase))), phase
        assert phase["fallbacks"] == 0, phase
    batch = report["phases"][8]
    assert batch["batch"] == 64 and batch["entries_s"] == pytest.approx(64 * batch["ops_s"], rel=1e-3)
    mixed = report["phases"][-1]
    assert mixed["get_ops"] + mixed["put_ops"] == mixed["ops"]
    written, read = (metric(site, f"millrace_rdma_{what}_bytes_total") - was for what, was in zip(("written", "read"), before))
    measured = {kind: sum(p["bytes"] for p in report["phases"] if p["by_rdma"] and p["phase"] == kind) for kind in ("get", "put")}
    if transport == "tcp":
        assert written == read == 0
    else:
        assert written >= measured["get"] > 0 and read >= measured["put"] > 0


def test_the_table_says_how_objects_travelled(site, user, tmp_path):
    out, err = bench(site, tmp_path, *SMALL, "--transport", "rdma", "-C", 3, "get-300k", "batch-5-1k")
    lines = out.splitlines()
    assert re.split(r" {2,}", lines[0].strip())[-3:] == ["by RDMA", "by TCP", "fallbacks"] and lines[0].split()[:2] == ["phase", "flight"]
    assert [line.split()[:2] for line in lines[1:3]] == [["get-300k", "3"], ["batch-5-1k", "3"]]
    for line in lines[1:3]:
        by_rdma, by_tcp, fallbacks = map(int, line.split()[-3:])
        assert by_rdma > 0 and by_tcp == fallbacks == 0, line
    assert err == ""


def test_without_a_transport_all_is_as_it_was(site, user, tmp_path):
    """Also where the configuration names one."""
    before = metric(site, "millrace_rdma_sessions_opened_total")
    out, _ = bench(site, tmp_path, *SMALL, "get-64k")
    assert "RDMA" not in out and out.split()[:2] == ["phase", "conns"]
    phase, = json.loads(bench(site, tmp_path, *SMALL, "--json", "get-64k")[0])["phases"]
    assert phase["ops"] > 0 and not {"transport", "by_rdma", "by_tcp", "fallbacks", "batch"} & set(phase)
    assert metric(site, "millrace_rdma_sessions_opened_total") == before


def test_open_loop(site, user, tmp_path):
    phase, = json.loads(bench(site, tmp_path, "--transport", "rdma", "--json", "--seconds", 1, "--rate", 50, "--objects", 5, "get-4k")[0])["phases"]
    assert phase["rate"] == 50 and 10 <= phase["ops"] <= 51 and phase["by_rdma"] == phase["ops"]


# ---- what RDMA does not carry ----------------------------------------------------------------------------------------


def test_an_endpoint_without_rdma(tmp_path):
    """auto says why, and counts what should have gone otherwise; rdma fails before anything is stored."""
    with Daemon(drives=1).start() as daemon:
        arguments = (*SMALL, "put-1m", "get-4k", "get-1m", "batch-8-4k")
        report = json.loads(bench(daemon, tmp_path, "--transport", "auto", "--json", "--verify", *arguments)[0])
        assert report["errors"] == 0 and "RDMA" in report["no_rdma"]
        for phase in report["phases"]:
            assert phase["by_rdma"] == 0 and phase["by_tcp"] == objects_of(phase) > 0, phase
            assert phase["fallbacks"] == (0 if phase["name"] == "get-4k" else phase["by_tcp"]), phase
        out, _ = bench(daemon, tmp_path, "--transport", "auto", *SMALL, "get-4k")
        assert out.splitlines()[-1].startswith("No RDMA: "), out
        out, err = bench(daemon, tmp_path, "--transport", "rdma", *arguments, status=1)
        assert out == "" and "RDMA" in err and len(err.splitlines()) == 1, err
        out, err = bench(daemon, tmp_path, "--transport", "rdma", *arguments, status=1, driver="")
        assert out == "" and ("libibverbs" in err or "RDMA device" in err) and len(err.splitlines()) == 1, err
        user = RawClient(daemon.host, daemon.port, daemon.access_key, daemon.secret_key)
        assert b"millrace-bench" not in user.request("GET", "/").body


def test_what_the_endpoint_declines_is_a_fallback(site, user, tmp_path):
    """As `millrace put --transport rdma` has it: the endpoint may decline single objects, which TCP carries then."""
    def decline(request):
        if not header(request, "x-millrace-rdma-window") or not request[0].startswith(b"PUT"):
            return None
        text = b"<Error><Code>RDMADeclined</Code></Error>"
        return [b"HTTP/1.1 501 Declined", b"x-millrace-rdma-posted: none", b"x-millrace-rdma-declined: off", b"Content-Length: %d" % len(text)], text

    with EditingProxy(site.host, site.port, before=decline) as proxy:
        for transport in ("auto", "rdma"):
            out, _ = bench(site, tmp_path, *SMALL, "--transport", transport, "--json", "--verify", "put-1m", "get-1m", endpoint=proxy.endpoint)
            put, get = json.loads(out)["phases"]
            assert put["errors"] == get["errors"] == 0
            assert put["by_tcp"] == put["fallbacks"] == put["ops"] > 0 == put["by_rdma"], put
            assert get["by_rdma"] == get["ops"] > 0 == get["by_tcp"] == get["fallbacks"], get


def test_wrong_bytes_are_noticed(site, user, tmp_path):
    """Those that have no checksum: only --verify can tell."""
    def change(request, lines, body):
        if request[0].startswith(b"GET") and b"/set-" in request[0] and body:
            lines = [line for line in lines if not re.match(rb"x-(millrace|amz)-c", line.lower())]
            body = bytes([body[0] ^ 1]) + body[1:]
        return lines, body

    with EditingProxy(site.host, site.port, after=change) as proxy:
        arguments = (*SMALL, "--transport", "tcp", "--json", "get-10k")
        phase, = json.loads(bench(site, tmp_path, *arguments, endpoint=proxy.endpoint)[0])["phases"]
        assert phase["errors"] == 0 < phase["ops"]
        out, err = bench(site, tmp_path, *arguments, "--verify", endpoint=proxy.endpoint, status=1)
        phase, = json.loads(out)["phases"]
        assert phase["error_kinds"] == {"content": phase["errors"]} and phase["ops"] == phase["by_tcp"] == 0 < phase["errors"]
        assert "other bytes" in err


# ---- what is refused -------------------------------------------------------------------------------------------------


def test_what_cannot_be_is_said_in_a_line(site, user, tmp_path):
    for arguments, words in (
            (("--transport", "tcp", "list"), "list moves no objects"),
            (("--transport", "rdma", "put-4k", "head"), "head moves no objects"),
            (("--transport", "auto", "delete"), "delete moves no objects"),
            (("--transport", "auto", "multipart"), "multipart moves no objects"),
            (("batch-4-4k",), "with --transport only"),
            (("--transport", "tcp", "batch-0"), "no such phase: batch-0"),
            (("--transport", "tcp", "-C", 65), "at most 64 operations"),
            (("--transport", "tcp", "-C", 64, "get-64m"), "1024 MiB"),
            (("--transport", "tcp", "--range-of", "2G"), "1024 MiB"),
            (("--transport", "pigeon"), "transport")):
        out, err = bench(site, tmp_path, *arguments, status=2)
        assert words in err and len(err.splitlines()) == 1 and out == "", (arguments, out, err)
    out, err = bench(site, tmp_path, "--transport", "rdma", "--bucket", "no-such-bucket-here", "get-4k", status=1)
    assert "NoSuchBucket" in err


# ---- interrupts and failures -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("transport", ["rdma", "tcp"])
@pytest.mark.parametrize("phase", ["put-64k", "put-20m", "get-1m", "batch-16-4k"])
def test_interrupted(site, user, tmp_path, phase, transport):
    words, env = command(site, tmp_path, "--transport", transport, "--seconds", 600, "--objects", 8, "--progress", phase)
    with subprocess.Popen(words, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        until_it_runs(process, phase)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60 * PATIENCE)
    assert process.returncode == 1
    assert "interrupted; nothing is left behind" in err
    row = out.splitlines()[1].split()
    assert row[0] == phase and row[7] == "0" and int(row[-3 if transport == "rdma" else -2]) > 0, out


@pytest.mark.parametrize("transport", ["rdma", "tcp"])
def test_errors_make_the_exit_status(tmp_path, transport):
    """The daemon dies: what fails is counted, and that nothing could be deleted is said."""
    with rdma_daemon(drives=1).start() as daemon:
        words, env = command(daemon, tmp_path, "--json", "--transport", transport, "--progress", "--seconds", 600, "put-4k", "get-4k", attempts=1)
        with subprocess.Popen(words, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            until_it_runs(process, "put-4k")
            daemon.process.kill()
            out, err = process.communicate(timeout=200 * PATIENCE)
        report = json.loads(out)
        assert process.returncode == 1
        phase = report["phases"][0]
        assert report["errors"] > 0 and phase["errors"] > 0 and phase["ops"] > 0
        assert sum(phase["error_kinds"].values()) == phase["errors"]
        assert "may be left behind" in err
        shutil.rmtree(daemon.sockets)
