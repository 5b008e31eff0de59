"""The programs that the benchmarks are made of, at sizes at which they measure nothing: their figures are there and sane, and wrong bytes are noticed."""
import json
import os
import shutil
import subprocess
import sys

import pytest

from tests.support.daemon import BUILD, PATIENCE, ROOT, sanitizer_environment
from tests.support.rdma import DRIVER, rdma_daemon
from tests.support.s3raw import RawClient

pytestmark = [pytest.mark.daemon, pytest.mark.client]
TINY = ("--seconds", "0.05", "--objects", "600", "--records", "600", "--names", "3000", "--size", "2M", "--depth", "8", "--loops", "2")


def run(program, *arguments, status=0, **more):
    env = {"PATH": os.environ["PATH"], **sanitizer_environment(), **more}
    done = subprocess.run([str(BUILD / "bench" / program), *map(str, arguments)], env=env, capture_output=True, text=True, timeout=100 * PATIENCE, check=False)
    assert done.returncode == status, (program, arguments, done.returncode, done.stdout[-2000:], done.stderr[-2000:])
    return done.stdout, done.stderr


def test_micro(tmp_path):
    figures = json.loads(run("micro", "--json", "--folder", tmp_path, *TINY)[0])
    for name in ("commit.depth1", "commit.depth256", "lookup.depth64", "list.depth1", "reclaim.overwriting", "reads"):
        assert figures[name + ".ops_s"] > 0 and 0 < figures[name + ".p50_us"] <= figures[name + ".p99_us"], name
    assert figures["list.depth1.entries_s"] == pytest.approx(1000 * figures["list.depth1.ops_s"], rel=1e-3)
    assert figures["replay.seconds"] > 0 and figures["replay.records"] == 600
    assert figures["writes.plain.mib_s"] > 0 and figures["writes.md5.mib_s"] > 0
    assert figures["reclaim.written_for_each_byte"] > 0
    assert figures["list.index_bytes_for_each_name"] > 0
    assert list(tmp_path.iterdir()) == []


def test_scale(tmp_path):
    """What generate makes is a store: it opens as it is, its names are read, and all orphans in it are found."""
    command = [sys.executable, ROOT / "bench/scale.py", "--build", BUILD, "--names", "20000", "--records", "5000", "--files", "20", "--orphans", "500",
               "--count", "200", "--rebuild", "400", "--folder", tmp_path, "--json", tmp_path / "figures"]
    done = subprocess.run(list(map(str, command)), env={**os.environ, **sanitizer_environment()}, capture_output=True, text=True, timeout=100 * PATIENCE,
                          check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    figures = json.loads((tmp_path / "figures").read_text())
    assert figures["orphans"]["found"] == figures["orphans"]["planted"] == 500
    named = 20 * 7 << 20  # at the least, of 20 segments: they were taken as they are, not lost, and no index was made anew, for which there are no records
    assert figures["start after a stop"]["live_bytes"] > named and figures["start after a kill"]["live_bytes"] > named
    assert figures["rebuild"]["names_a_second"] > 0 and "| GET, first | 200 |" in done.stdout
    assert [path.name for path in tmp_path.iterdir()] == ["figures"]


def test_versions(tmp_path):
    """The store that is made in bulk lists what it should, its versions are deleted by rules and by clients, and every figure is there."""
    command = [sys.executable, ROOT / "bench/versions.py", "--build", BUILD, "--versions", "3000", "--few", "30", "--due", "600", "--meanwhile", "4000",
               "--small", "100", "--seconds", "0.5", "--rounds", "1", "--pages", "2", "--wait", 60 * PATIENCE, "--folder", tmp_path, "--json", tmp_path / "figures"]
    done = subprocess.run(list(map(str, command)), env={**os.environ, **sanitizer_environment()}, capture_output=True, text=True, timeout=100 * PATIENCE,
                          check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    figures = json.loads((tmp_path / "figures").read_text())
    for name in ("objects", "heads", "many", "few"):
        assert figures[f"list {name}"]["entries_s"] > 0, name
    for name in ("calm", "deep", "marked"):
        assert figures[f"neighbours {name}"]["ms"] > 0, name
    for name in ("scan many", "scan few", "lifecycle deletes objects", "lifecycle deletes one", "lifecycle deletes pile"):
        assert figures[name]["ended"] and figures[name]["a_second"] >= 0, name
    assert all(figures[f"client deletes {name}"]["a_second"] > 0 for name in ("at 16", "at 64", "one", "pile"))
    assert 0 < figures["GETs alone"]["p50_us"] <= figures["GETs alone"]["p99_us"]
    assert "| 1e9 scanned |" in done.stdout and "| p99 of small GETs meanwhile |" in done.stdout
    assert [path.name for path in tmp_path.iterdir()] == ["figures"]


def test_users(tmp_path):
    """Everyone gets what the policies allow, and a change is in force once it is answered."""
    done = subprocess.run([sys.executable, ROOT / "bench/users.py", "--build", BUILD, "--rounds", "1", "--count", "500", "--folder", tmp_path,
                           "--json", tmp_path / "users.json"], capture_output=True, text=True, timeout=100 * PATIENCE, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads((tmp_path / "users.json").read_text())
    assert set(found["gets"]) == {"root, bucket without policy", "root", "user", "session of the user", "role",
                                  "root, presigned, bucket without policy"} and found["former"] == 0


def test_versions_that_make_no_sense(tmp_path):
    for wrong in ((), ("--drive", tmp_path), ("--drive", tmp_path, "objects:o/:2:3"), ("--drive", tmp_path, "versions:o/:3:2"), ("--drive", tmp_path, "trees:o/:1:1"),
                  ("--drive", tmp_path, "versions:o/:0:0"), ("--drive", tmp_path, "versions:o/:1")):
        assert "KIND:PREFIX:KEYS:COUNT" in run("scale/versions", *wrong, status=2)[1], wrong
    assert "is no drive" in run("scale/versions", "--drive", tmp_path, "versions:o/:1:1", status=1)[1]


def test_micro_in_lines(tmp_path):
    out, _ = run("micro", "--folder", tmp_path, *TINY, "writes", "reads")
    assert [line.split()[0] for line in out.splitlines()] == ["writes.plain.mib_s", "writes.md5.mib_s", "reads.working_set", "reads.depth", "reads.ops_s",
                                                               "reads.p50_us", "reads.p99_us"]
    assert "no such experiment: nothing" in run("micro", "nothing", status=2)[1]
    assert "Usage" in run("micro", "--depth", "0", status=2)[1]
    assert "No such file" in run("micro", "--folder", tmp_path / "none", "writes", status=1)[1]


def test_kernels():
    figures = json.loads(run("limits/kernels", "--json", "0.001")[0])
    assert figures["MD5, 16 streams"] > 0 and figures["encode 4+2"] > 0
    assert len(run("limits/kernels", "0.001")[0].splitlines()) == len(figures)


def test_wrong_bytes_and_lengths_are_noticed(store, s3, bucket):
    """As many as there should be, but others: only --verify sees it. Fewer: always."""
    env = {"MILLRACE_ENDPOINT": store.endpoint, "AWS_ACCESS_KEY_ID": store.access_key, "AWS_SECRET_ACCESS_KEY": store.secret_key}
    arguments = ("get", "--json", "--bucket", bucket, "--size", "100", "--keys", "1", "--count", "3", "--conns", "1")
    run("load", "put", "--json", "--bucket", bucket, "--size", "100", "--count", "1", **env)
    assert json.loads(run("load", *arguments, "--verify", **env)[0])["error_kinds"] == {}
    s3.put_object(Bucket=bucket, Key="o/000000000000", Body=bytes(100))
    assert json.loads(run("load", *arguments, **env)[0])["errors"] == 0
    assert json.loads(run("load", *arguments, "--verify", status=1, **env)[0])["error_kinds"] == {"content": 3}
    s3.put_object(Bucket=bucket, Key="o/000000000000", Body=bytes(99))
    assert json.loads(run("load", *arguments, status=1, **env)[0])["error_kinds"] == {"length": 3}
    s3.delete_object(Bucket=bucket, Key="o/000000000000")
    assert json.loads(run("load", *arguments, status=1, **env)[0])["error_kinds"] == {"status": 3}


def test_reads(tmp_path):
    figures = json.loads(run("limits/reads", tmp_path, 2, 0.01)[0])
    assert figures["cpu_s_gib"] > 0 and figures["mib_s"] > 0
    assert list(tmp_path.iterdir()) == []
    assert "Usage" in run("limits/reads", "--help")[0]
    for wrong in ((tmp_path, 0, 1), (tmp_path, 70000, 1), (tmp_path, 1, 0), (tmp_path, 1), ()):
        assert "Usage" in run("limits/reads", *wrong, status=2)[1]
    assert "No such file" in run("limits/reads", tmp_path / "none", 1, 0.01, status=1)[1]


# ---- batch ----------------------------------------------------------------------------------------------------------

KEYS = 20


@pytest.fixture(name="fabric", scope="module")
def fixture_fabric():
    """A daemon with RDMA on the fake, objects of 10 KiB below o/, and where it is to be found."""
    if not DRIVER.exists():
        pytest.skip("make fake-rdma builds the transport")
    with rdma_daemon(drives=1).start() as daemon:
        env = {"MILLRACE_ENDPOINT": daemon.endpoint, "AWS_ACCESS_KEY_ID": daemon.access_key, "AWS_SECRET_ACCESS_KEY": daemon.secret_key,
               "MILLRACE_FAKE_RDMA": daemon.sockets}
        run("load", "bucket", "--json", **env)
        run("load", "put", "--json", "--size", "10240", "--count", KEYS, **env)
        daemon.env_of_bench = env
        yield daemon
    shutil.rmtree(daemon.sockets)


def batch(fabric, *arguments, status=0):
    arguments = (*arguments, "--seconds", "0.05", "--driver", DRIVER, "--server-pid", fabric.process.pid)
    return run("library_load", *arguments, status=status, **fabric.env_of_bench)


@pytest.mark.parametrize("transport", ["tcp", "rdma"])
@pytest.mark.parametrize("how", [(), ("--entries", 8), ("--entries", 7, "--threads", 3, "--parallel", 2)])
def test_batch_gets(fabric, transport, how):
    figures = json.loads(batch(fabric, "get", "--keys", KEYS, "--transport", transport, *how)[0])
    assert figures["errors"] == 0 and figures["ops"] > 0 and figures["compared"] == KEYS
    assert figures["bytes"] == figures["ops"] * 10240 and figures["ops_s"] > 0
    assert figures["by_rdma"] == (figures["ops"] if transport == "rdma" else 0)
    assert figures["bounced"] == 0
    for name in ("server_cpu_s", "server_device_s", "client_device_s"):
        assert figures[name] >= 0, name
    assert figures["server_device_s"] == 0 or transport == "rdma"


def test_batch_bounces_what_is_not_registered(fabric):
    figures = json.loads(batch(fabric, "get", "--keys", KEYS, "--transport", "rdma", "--unregistered", "--unverified")[0])
    assert figures["compared"] == 0 and figures["bounced"] >= figures["ops"] == figures["by_rdma"]


@pytest.mark.parametrize("transport", ["tcp", "rdma"])
def test_batch_puts(fabric, transport):
    figures = json.loads(batch(fabric, "put", "--prefix", "p/", "--size", 3 << 20, "--threads", 2, "--transport", transport)[0])
    assert figures["errors"] == 0 and figures["ops"] >= 2 and figures["compared"] == 2
    assert figures["by_rdma"] == (figures["ops"] if transport == "rdma" else 0)


def test_batch_counts_what_is_wrong(fabric):
    """A key that does not exist, and bytes that are not those that were put."""
    out, err = batch(fabric, "get", "--keys", KEYS + 1, "--entries", KEYS + 1, status=1)
    assert json.loads(out)["errors"] > 0 and "the first that failed" in err
    user = RawClient(fabric.host, fabric.port, fabric.access_key, fabric.secret_key)
    assert user.request("PUT", "/load/w/000000000000", body=bytes(10240)).status == 200
    out, err = batch(fabric, "get", "--keys", 1, "--prefix", "w/", status=1)
    assert json.loads(out)["errors"] == 1 and "other bytes" in err
    assert json.loads(batch(fabric, "get", "--keys", 1, "--prefix", "w/", "--unverified")[0])["errors"] == 0


def test_batch_is_told_what_it_can_do():
    assert "Usage" in run("library_load", "--help")[0]
    for wrong in ((), ("list",), ("get", "put"), ("get", "--nothing")):
        assert "Usage" in run("library_load", *wrong, status=2)[1]
    for option, value in (("--threads", 0), ("--threads", 65), ("--size", "10K"), ("--seconds", 0), ("--transport", "pigeon"), ("--entries", 70000)):
        assert f"{option}: {value} is no good" in run("library_load", "get", option, value, status=2)[1]
    assert "no batches of PUTs" in run("library_load", "put", "--entries", 2, status=2)[1]
    assert "4 GiB" in run("library_load", "get", "--size", 1 << 30, "--threads", 8, status=2)[1]


def rdma_bytes(fabric):
    """Written into clients' memory so far, and of that copied first."""
    lines = dict(line.rsplit(" ", 1) for line in fabric.admin_get("/metrics")[1].decode().splitlines() if not line.startswith("#"))
    return [float(lines[f"millrace_rdma_{what}_bytes_total"]) for what in ("written", "copied")]


def test_large_objects_are_not_copied(fabric):
    """As the server counts it: what comes from drives is written from where it was read to; small objects come from the cache."""
    batch(fabric, "put", "--prefix", "c/", "--size", 3 << 20, "--threads", 2)
    written, copied = rdma_bytes(fabric)
    batch(fabric, "get", "--prefix", "c/", "--size", 3 << 20, "--keys", 2, "--transport", "rdma")
    more_written, more_copied = rdma_bytes(fabric)
    assert more_written >= written + (6 << 20) and more_copied == copied
    for entries in (1, 8):
        written, copied = rdma_bytes(fabric)
        batch(fabric, "get", "--keys", KEYS, "--entries", entries, "--transport", "rdma")
        more_written, more_copied = rdma_bytes(fabric)
        assert more_written - written == more_copied - copied >= KEYS * 10240
