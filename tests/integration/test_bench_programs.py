"""The programs that the benchmarks are made of, at sizes at which they measure nothing: their figures are there and sane, and wrong bytes are noticed."""
import json
import os
import subprocess

import pytest

from tests.support.daemon import BUILD, PATIENCE, sanitizer_environment

pytestmark = pytest.mark.daemon
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
