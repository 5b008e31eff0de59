"""The program `millrace` against the daemon."""
import base64
import filecmp
import json
import os
import re
import subprocess
import tarfile
import urllib.parse
from pathlib import Path

import pytest

from tests.support.daemon import CLI, PATIENCE, Daemon, sanitizer_environment
from tests.support.expect import keys_of, read
from tests.support.s3raw import RawClient

MIB = 1 << 20
pytestmark = pytest.mark.daemon


@pytest.fixture
def cli(store, tmp_path):
    return cli_of(store.daemon, tmp_path)


def cli_of(daemon, home):
    env = {"PATH": os.environ["PATH"], "HOME": str(home), "MILLRACE_ENDPOINT": daemon.endpoint,
           "MILLRACE_ROOT_ACCESS_KEY": daemon.access_key, "MILLRACE_ROOT_SECRET_KEY": daemon.secret_key,
           "MILLRACE_ADMIN": f"http://{daemon.host}:{daemon.admin_port}", **sanitizer_environment()}

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


def test_metadata_beyond_ascii(cli, bucket, tmp_path):
    """On the wire it is encoded, which nobody who stored it wants to see."""
    (tmp_path / "one").write_bytes(b"x")
    cli("put", "-m", "name=Grüße, 日本", tmp_path / "one", f"s3://{bucket}/one")
    assert "x-amz-meta-name: Grüße, 日本\n" in cli("stat", f"s3://{bucket}/one").decode()


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


def test_support_bundle(cli, store, bucket, s3, tmp_path):
    """All parts are there and none has a secret, however it may be written."""
    s3.put_object(Bucket=bucket, Key="a-name-of-an-object", Body=b"x")
    made = tmp_path / "bundle.tar.gz"
    assert cli("admin", "support-bundle", made).decode().strip() == str(made)
    assert made.stat().st_mode & 0o777 == 0o600
    with tarfile.open(made) as tar:
        files = {Path(member.name).name: tar.extractfile(member).read() for member in tar.getmembers()}
        assert all(member.isfile() and member.name.startswith("millrace-support-") for member in tar.getmembers())
    assert set(files) == {"support.json", "info.json", "drives.json", "heal.json", "scrub.json", "verify.json", "trace.json", "lock-clock.json",
                          "ready.json", "live.json", "metrics.txt", "contents.json"}
    contents = json.loads(files["contents.json"])
    assert all(part["status"] == 200 for part in contents["parts"]) and len(contents["parts"]) == len(files) - 1, contents
    support, info = json.loads(files["support.json"]), json.loads(files["info.json"])
    assert support["version"] == info["version"] == contents["client"] and support["machine"]["release"]
    assert [line["line"] for line in support["log"] if "ready" in line["line"] or "serving" in line["line"] or "S3" in line["line"]], support["log"]
    assert support["settings"]["region"] == {"value": "us-east-1", "source": "default"}
    assert support["settings"]["rdma_token_key"]["value"] == "*"
    assert "millrace_ready 1" in files["metrics.txt"].decode() and info["drives"][0]["id"] in files["drives.json"].decode()
    everything = b"\n".join(files.values())
    secret = store.secret_key.encode()
    for form in (secret, base64.b64encode(secret), secret.hex().encode(), urllib.parse.quote(secret, safe="").encode(), b"Signature="):
        assert form not in everything, form
    assert b"a-name-of-an-object" not in everything
    cli("admin", "support-bundle", made, status=1)  # it is there


def test_trace(cli, s3, bucket):
    """The stages of one request, from the HTTP head to the drives and back; and of all, the newest."""
    request = s3.put_object(Bucket=bucket, Key="big", Body=bytes(3_000_000))["ResponseMetadata"]["RequestId"]
    answer = json.loads(cli("admin", "trace", "--request", request, "--json"))
    assert {e["request"] for e in answer["events"]} == {request} and not answer["truncated"]
    names = [e["event"] for e in answer["events"]]
    assert names[0] == "http-begin" and names[-1] == "http-end", names
    assert [e["time_ns"] for e in answer["events"]] == sorted(e["time_ns"] for e in answer["events"])
    assert {"put-begin", "put-stripe", "op-submit", "op-done", "txn-state", "txn-end", "put-end", "http-answer"} <= set(names)
    operations = [e["op"].split("/")[0] for e in answer["events"] if e["event"] == "op-submit"]
    assert operations.count("write") == operations.count("sync") * 2 == 8 and operations.count("append") == 3, operations
    states = [e["state"] for e in answer["events"] if e["event"] == "txn-state"]
    assert states == ["posted", "locking", "prepare", "append", "commit", "answer"]
    request = s3.get_object(Bucket=bucket, Key="big")["ResponseMetadata"]["RequestId"]
    lines = cli("admin", "trace", "--request", request).decode().splitlines()
    assert sum(" get-found result=0 size=3000000" in line for line in lines) == 1 and all(request in line for line in lines[1:])
    everything = cli("admin", "trace").decode()
    assert request in everything and "http-state state=run operation=GetObject" in everything and "big" not in everything
    cli("admin", "trace", "--request", "0123456789ABCDEF", status=1)
    cli("admin", "trace", "--request", "no-id", status=1)


def test_a_bundle_has_no_secret_that_the_daemon_has_shown(tmp_path):
    """Credentials that it made itself stood among its messages; the key of the RDMA tokens is in its settings."""
    made = tmp_path / "bundle.tar.gz"
    with Daemon(drives=1, credentials=False, settings={"rdma_token_key": "0badcafe"}).start() as daemon:
        shown = dict(re.findall(r"(access|secret) key: (\S+)", daemon.output()))
        env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "MILLRACE_ADMIN": f"http://{daemon.host}:{daemon.admin_port}",
               "MILLRACE_ROOT_ACCESS_KEY": shown["access"], "MILLRACE_ROOT_SECRET_KEY": shown["secret"], **sanitizer_environment()}
        subprocess.run([str(CLI), "admin", "support-bundle", str(made)], env=env, check=True, timeout=60 * PATIENCE)
        # what the program takes out is not there to begin with
        raw = RawClient(daemon.host, daemon.admin_port, shown["access"], shown["secret"])
        told = raw.request("GET", "/admin/v1/support").body.decode()
    with tarfile.open(made) as tar:
        everything = told + "".join(tar.extractfile(member).read().decode() for member in tar.getmembers())
    assert "new root credentials" in everything and f"access key: {shown['access']}" in everything
    assert shown["secret"] not in everything and "secret key" not in everything and "0badcafe" not in everything


def test_a_bundle_of_a_daemon_that_is_not_there(cli, tmp_path):
    made = tmp_path / "bundle.tar.gz"
    cli("admin", "support-bundle", "--admin", "http://127.0.0.1:9", made, status=1)
    with tarfile.open(made) as tar:
        [member] = tar.getmembers()
        parts = json.load(tar.extractfile(member))["parts"]
    assert parts and all(part["missing"] for part in parts)


def test_a_report_of_damage_is_one_document(tmp_path):
    """On a store of its own: what else a common one holds, as parts of uploads that are still open, may stay damaged."""
    with Daemon(drives=4, ec="2+2").start() as daemon:
        cli = cli_of(daemon, tmp_path)
        cli("mb", "s3://bucket")
        (tmp_path / "rots").write_bytes(bytes(300_000))
        cli("put", tmp_path / "rots", "s3://bucket/rots")
        damaged = 0
        for segment in daemon.drives[0].glob("data/*"):
            with open(segment, "r+b") as file:
                for at in range(4096, segment.stat().st_size, 4096):  # headers of frames and payload alike
                    file.seek(at + 2048)
                    byte = file.read(1)
                    if byte:
                        file.seek(at + 2048)
                        file.write(bytes([byte[0] ^ 1]))
                        damaged += 1
        assert damaged > 0
        report = json.loads(cli("admin", "verify", "--json", status=1))
        assert report["damaged_shards"] + report["missing_shards"] > 0
        assert json.loads(cli("admin", "verify", "--json", "--quiet"))["damaged_shards"] == 0  # all were repaired


def test_usage(cli):
    assert b"put" in cli("--help")
    assert cli("--version").startswith(b"millrace ")
    cli("nonsense", status=2)
    cli("get", status=2)
    cli("put", "--nonsense", "a", "s3://b/c", status=2)
