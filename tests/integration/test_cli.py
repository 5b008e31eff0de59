"""The program `millrace` against the daemon."""
import filecmp
import json
import os
import subprocess

import pytest

from tests.support.daemon import CLI, PATIENCE, sanitizer_environment
from tests.support.expect import keys_of, read

MIB = 1 << 20
pytestmark = pytest.mark.daemon


@pytest.fixture
def cli(store, tmp_path):
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "MILLRACE_ENDPOINT": store.endpoint,
           "MILLRACE_ROOT_ACCESS_KEY": store.access_key, "MILLRACE_ROOT_SECRET_KEY": store.secret_key,
           "MILLRACE_ADMIN": f"http://{store.host}:{store.daemon.admin_port}", **sanitizer_environment()}

    def run(*arguments, status=0, stdin=None):
        done = subprocess.run([str(CLI), *map(str, arguments)], env=env, input=stdin, capture_output=True, timeout=60 * PATIENCE, check=False)
        assert done.returncode == status, (arguments, done.returncode, done.stdout[-2000:], done.stderr[-2000:])
        return done.stdout
    return run


def test_put_get_ls_cat_stat_rm(cli, s3, bucket, tmp_path, rng):
    one = tmp_path / "one"
    one.write_bytes(rng.randbytes(100_000))
    cli("put", one, f"s3://{bucket}/a/one")
    assert read(s3, bucket, "a/one") == one.read_bytes()
    cli("get", f"s3://{bucket}/a/one", tmp_path / "back")
    assert filecmp.cmp(one, tmp_path / "back", shallow=False)
    assert cli("cat", f"s3://{bucket}/a/one") == one.read_bytes()
    assert b"a/" in cli("ls", f"s3://{bucket}")
    assert b"a/one" in cli("ls", "-r", f"s3://{bucket}")
    assert bucket.encode() in cli("ls")
    assert b"100000" in cli("stat", f"s3://{bucket}/a/one")
    cli("rm", f"s3://{bucket}/a/one")
    assert keys_of(s3, bucket) == []
    cli("get", f"s3://{bucket}/a/one", tmp_path / "none", status=1)
    assert not (tmp_path / "none").exists()


def test_the_transport_asked_for_is_the_one_used(cli, bucket, tmp_path):
    (tmp_path / "one").write_bytes(b"x")
    cli("put", "--transport", "tcp", tmp_path / "one", f"s3://{bucket}/one")
    cli("put", "--transport", "rdma", tmp_path / "one", f"s3://{bucket}/two", status=1)
    cli("get", "--transport", "auto", f"s3://{bucket}/one", tmp_path / "back")
    cli("get", "--transport", "rdma", f"s3://{bucket}/one", tmp_path / "none", status=1)
    cli("cat", "--transport", "rdma", f"s3://{bucket}/one", status=1)
    assert (tmp_path / "back").read_bytes() == b"x" and not (tmp_path / "none").exists()


def test_large_files_go_in_parts(cli, s3, bucket, tmp_path, rng):
    large = tmp_path / "large"
    large.write_bytes(rng.randbytes(40 * MIB + 5))
    cli("put", large, f"s3://{bucket}/large")
    assert "-" in s3.head_object(Bucket=bucket, Key="large")["ETag"]
    cli("get", f"s3://{bucket}/large", tmp_path / "back")
    assert filecmp.cmp(large, tmp_path / "back", shallow=False)
    assert "Uploads" not in s3.list_multipart_uploads(Bucket=bucket)


def test_folders(cli, s3, bucket, tmp_path, rng):
    root = tmp_path / "tree"
    for i in range(30):
        path = root / f"d{i % 3}" / f"f {i} é"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(rng.randbytes(i * 1000))
    cli("put", "-r", root, f"s3://{bucket}/t/")
    assert len(keys_of(s3, bucket, Prefix="t/")) == 30
    cli("get", "-r", f"s3://{bucket}/t/", tmp_path / "back")
    found = sorted(p.name for p in (tmp_path / "back").rglob("*") if p.is_file())
    assert found == sorted(p.name for p in root.rglob("*") if p.is_file())
    cli("rm", "-r", f"s3://{bucket}/t/")
    assert keys_of(s3, bucket) == []


def test_stdin_and_buckets(cli, s3, bucket):
    cli("put", "-", f"s3://{bucket}/k", stdin=b"hello")
    assert read(s3, bucket, "k") == b"hello"
    cli("mb", f"s3://{bucket}-two")
    cli("rb", f"s3://{bucket}-two")
    cli("rb", f"s3://{bucket}", status=1)
    cli("rb", "-f", f"s3://{bucket}")
    cli("ls", f"s3://{bucket}", status=1)


def test_admin(cli, s3, bucket):
    s3.put_object(Bucket=bucket, Key="k", Body=bytes(300_000))
    info = json.loads(cli("admin", "info", "--json"))
    assert info["ready"] and info["writable"] and len(info["drives"]) == 4 and info["ec"] == "2+2"
    assert all(d["state"] == "in" for d in info["drives"]) or all(d["state"] for d in info["drives"])
    assert cli("admin", "info")
    report = json.loads(cli("admin", "verify", "--json"))
    assert report["objects"] >= 1 and report["damaged_shards"] == 0 and report["unreadable_objects"] == 0
    upload = s3.create_multipart_upload(Bucket=bucket, Key="up/load")["UploadId"]
    assert upload.encode() in cli("admin", "uploads", "ls", f"s3://{bucket}")
    cli("admin", "uploads", "abort", f"s3://{bucket}/up/load", upload)
    assert "Uploads" not in s3.list_multipart_uploads(Bucket=bucket)


def test_usage(cli):
    assert b"put" in cli("--help")
    assert cli("--version").startswith(b"millrace ")
    cli("nonsense", status=2)
    cli("get", status=2)
    cli("put", "--nonsense", "a", "s3://b/c", status=2)
