"""The tools people use: awscli, rclone and s3cmd against the daemon."""
import filecmp
import json
import os
import shutil
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from tests.support import checksums
from tests.support.aws_cli import AwsCli
from tests.support.daemon import PATIENCE
from tests.support.expect import keys_of, read

pytestmark = pytest.mark.client

MIB = 1 << 20
AWS = Path(sys.executable).parent / "aws"


class Tool:
    """Runs one program with the store's credentials in its environment."""

    def __init__(self, program, arguments, env):
        self.program, self.arguments, self.env = program, arguments, env

    def __call__(self, *arguments, fails=False, stdin=None):
        done = subprocess.run([self.program, *self.arguments, *map(str, arguments)], env=self.env, input=stdin, capture_output=True,
                              timeout=100 * PATIENCE, check=False)
        assert (done.returncode != 0) == fails, (arguments, done.returncode, done.stdout[-2000:], done.stderr[-2000:])
        return done.stdout


def base_environment(home):
    return {"PATH": os.environ["PATH"], "HOME": str(home), "LC_ALL": "C.UTF-8"}


@pytest.fixture
def aws_environment(store, tmp_path):
    (tmp_path / "aws-config").write_text("[default]\ns3 =\n    signature_version = s3v4\n")  # of presigned URLs
    return {**base_environment(tmp_path), "AWS_ACCESS_KEY_ID": store.access_key, "AWS_SECRET_ACCESS_KEY": store.secret_key,
            "AWS_DEFAULT_REGION": "us-east-1", "AWS_ENDPOINT_URL": store.endpoint, "AWS_MAX_ATTEMPTS": "1",
            "AWS_EC2_METADATA_DISABLED": "true", "AWS_CONFIG_FILE": str(tmp_path / "aws-config")}


@pytest.fixture
def aws(aws_environment, tmp_path):
    return AwsCli(aws_environment, tmp_path)


@pytest.fixture
def rclone(store, tmp_path):
    prefix = "RCLONE_CONFIG_M_"
    env = {**base_environment(tmp_path), prefix + "TYPE": "s3", prefix + "PROVIDER": "Other", prefix + "ENDPOINT": store.endpoint,
           prefix + "ACCESS_KEY_ID": store.access_key, prefix + "SECRET_ACCESS_KEY": store.secret_key, prefix + "REGION": "us-east-1"}
    if not shutil.which("rclone"):
        pytest.skip("rclone is not installed")
    return Tool("rclone", ["--config", "/dev/null", "--retries", "1", "--low-level-retries", "1"], env)


@pytest.fixture
def s3cmd(store, tmp_path):
    if not shutil.which("s3cmd"):
        pytest.skip("s3cmd is not installed")
    config = tmp_path / "s3cfg"
    address = f"{store.host}:{store.port}"
    config.write_text(f"[default]\naccess_key = {store.access_key}\nsecret_key = {store.secret_key}\nhost_base = {address}\n"
                      f"host_bucket = {address}\nuse_https = False\nsignature_v2 = False\nbucket_location = us-east-1\n"
                      "max_retries = 1\n")
    return Tool("s3cmd", ["-c", str(config), "--no-progress"], base_environment(tmp_path))


@pytest.fixture
def tree(tmp_path, rng):
    """A folder of files of many sizes and odd names."""
    root = tmp_path / "tree"
    sizes = {"small": 10, "empty": 0, "with space": 1000, "sub/dir/file": 70_000, "sub/é 日本 +%": 131_073, "sub/medium": 3 * MIB + 5,
             "large": 20 * MIB + 17}
    for name, size in sizes.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(rng.randbytes(size))
    return root


def names(root):
    return sorted((str(p.relative_to(root)) for p in root.rglob("*") if p.is_file()), key=lambda n: n.encode())


def same(one, two, skip=()):
    wanted = [n for n in names(one) if n not in skip]
    assert wanted == names(two)
    for name in wanted:
        assert filecmp.cmp(one / name, two / name, shallow=False), name
    return True


# ---- awscli -------------------------------------------------------------------------------------------------


def test_aws_itself(aws_environment, bucket):
    """The program as it is started; the other tests take its commands from one that has started already."""
    aws = Tool(str(AWS), [], aws_environment)
    aws("s3", "cp", "-", f"s3://{bucket}/k", stdin=b"hello")
    assert aws("s3", "cp", f"s3://{bucket}/k", "-") == b"hello"
    aws("s3", "ls", "s3://there-is-no-such-bucket", fails=True)


@pytest.mark.slow
def test_aws_recursive_copy_sync_and_remove(aws, s3, bucket, tree, tmp_path):
    aws("s3", "cp", "--recursive", "--quiet", tree, f"s3://{bucket}/t/")
    assert keys_of(s3, bucket) == [f"t/{n}" for n in names(tree)]
    aws("s3", "cp", "--recursive", "--quiet", f"s3://{bucket}/t/", tmp_path / "back")
    assert same(tree, tmp_path / "back")
    assert aws("s3", "sync", tree, f"s3://{bucket}/t/") == b""  # nothing to do
    (tree / "small").write_bytes(b"changed and longer")
    (tree / "empty").unlink()
    out = aws("s3", "sync", "--delete", "--no-progress", tree, f"s3://{bucket}/t/")
    assert b"upload" in out and b"delete" in out
    aws("s3", "sync", "--delete", "--quiet", f"s3://{bucket}/t/", tmp_path / "back")
    assert same(tree, tmp_path / "back")
    listing = aws("s3", "ls", "--recursive", f"s3://{bucket}/").decode()
    assert [line.split(maxsplit=3)[3] for line in listing.splitlines()] == keys_of(s3, bucket)
    assert b"PRE t/" in aws("s3", "ls", f"s3://{bucket}")
    aws("s3", "rm", "--recursive", "--quiet", f"s3://{bucket}/t/sub/")
    assert keys_of(s3, bucket) == ["t/large", "t/small", "t/with space"]
    aws("s3", "rb", "--force", f"s3://{bucket}")
    aws("s3", "ls", f"s3://{bucket}", fails=True)


def test_aws_streams_and_moves(aws, s3, bucket, tmp_path):
    aws("s3", "cp", "-", f"s3://{bucket}/from-stdin", stdin=b"hello")
    assert aws("s3", "cp", f"s3://{bucket}/from-stdin", "-") == b"hello"
    aws("s3", "mv", "--quiet", f"s3://{bucket}/from-stdin", f"s3://{bucket}/moved")
    assert keys_of(s3, bucket) == ["moved"]
    url = aws("s3", "presign", "--expires-in", "60", f"s3://{bucket}/moved").decode().strip()
    with urllib.request.urlopen(url, timeout=20) as answer:
        assert answer.read() == b"hello"


def test_aws_s3api_multipart(aws, s3, bucket, tmp_path, rng):
    part = tmp_path / "part"
    part.write_bytes(rng.randbytes(5 * MIB))
    common = ["--bucket", bucket, "--key", "m"]
    upload = json.loads(aws("s3api", "create-multipart-upload", *common))["UploadId"]
    etags = [json.loads(aws("s3api", "upload-part", *common, "--upload-id", upload, "--part-number", n, "--body", part))["ETag"]
             for n in (1, 2)]
    listed = json.loads(aws("s3api", "list-parts", *common, "--upload-id", upload))
    assert [p["ETag"] for p in listed["Parts"]] == etags
    whole = {"Parts": [{"PartNumber": n, "ETag": e} for n, e in enumerate(etags, 1)]}
    aws("s3api", "complete-multipart-upload", *common, "--upload-id", upload, "--multipart-upload", json.dumps(whole))
    assert read(s3, bucket, "m") == part.read_bytes() * 2


def test_aws_s3api_of_the_rest(aws, s3, bucket, tmp_path):
    body = tmp_path / "body"
    body.write_bytes(b"0123456789")
    common = ["--bucket", bucket, "--key", "k"]
    answer = json.loads(aws("s3api", "put-object", *common, "--body", body, "--checksum-algorithm", "SHA256"))
    assert answer["ChecksumSHA256"] == checksums.checksum("SHA256", b"0123456789")
    aws("s3api", "get-object", *common, "--range", "bytes=2-4", tmp_path / "got")
    assert (tmp_path / "got").read_bytes() == b"234"
    assert json.loads(aws("s3api", "head-object", *common, "--checksum-mode", "ENABLED"))["ContentLength"] == 10
    aws("s3api", "put-object", *common, "--body", body, "--if-none-match", "*", fails=True)
    aws("s3api", "delete-objects", "--bucket", bucket, "--delete", json.dumps({"Objects": [{"Key": "k"}]}))
    assert keys_of(s3, bucket) == []
    assert bucket in [b["Name"] for b in json.loads(aws("s3api", "list-buckets"))["Buckets"]]


# ---- rclone -------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("version", ["1", "2"])
def test_rclone(rclone, s3, bucket, tree, tmp_path, version):
    options = ["--s3-list-version", version, "--s3-chunk-size", "5M", "--s3-upload-cutoff", "10M", "--s3-no-check-bucket"]
    rclone("copy", *options, tree, f"m:{bucket}/t")
    assert keys_of(s3, bucket) == [f"t/{n}" for n in names(tree)]
    rclone("check", *options, "--download", tree, f"m:{bucket}/t")
    rclone("check", *options, tree, f"m:{bucket}/t")
    (tree / "small").write_bytes(b"changed and longer")
    (tree / "empty").unlink()
    rclone("sync", *options, tree, f"m:{bucket}/t")
    rclone("copy", *options, f"m:{bucket}/t", tmp_path / "back")
    assert same(tree, tmp_path / "back")
    assert b"large" in rclone("lsl", *options, f"m:{bucket}/t")
    assert json.loads(rclone("size", *options, "--json", f"m:{bucket}"))["count"] == len(names(tree))
    rclone("moveto", *options, f"m:{bucket}/t/small", f"m:{bucket}/t/moved")
    rclone("purge", *options, f"m:{bucket}/t")
    assert keys_of(s3, bucket) == []


def test_rclone_of_many(rclone, s3, bucket, tmp_path):
    """More than a page of the listing."""
    root = tmp_path / "many"
    for i in range(1100):
        path = root / f"d{i % 7}" / f"f{i:04}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(str(i))
    rclone("copy", "--transfers", "16", "--s3-no-check-bucket", root, f"m:{bucket}")
    rclone("check", "--fast-list", "--s3-list-version", "1", root, f"m:{bucket}")
    assert len(keys_of(s3, bucket)) == 1100


# ---- s3cmd --------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_s3cmd(s3cmd, s3, bucket, tree, tmp_path):
    s3cmd("put", tree / "small", f"s3://{bucket}/k")
    s3cmd("get", f"s3://{bucket}/k", tmp_path / "got")
    assert (tmp_path / "got").read_bytes() == (tree / "small").read_bytes()
    s3cmd("put", "--multipart-chunk-size-mb=5", tree / "large", f"s3://{bucket}/large")
    s3cmd("get", f"s3://{bucket}/large", tmp_path / "large")
    assert filecmp.cmp(tree / "large", tmp_path / "large", shallow=False)
    s3cmd("sync", f"{tree}/", f"s3://{bucket}/t/")
    s3cmd("sync", f"s3://{bucket}/t/", f"{tmp_path}/back/")
    assert same(tree, tmp_path / "back")
    assert f"s3://{bucket}/t/sub/".encode() in s3cmd("ls", f"s3://{bucket}/t/")
    s3cmd("cp", f"s3://{bucket}/k", f"s3://{bucket}/copy")
    s3cmd("mv", f"s3://{bucket}/copy", f"s3://{bucket}/moved")
    assert b"MD5" in s3cmd("info", f"s3://{bucket}/moved")
    s3cmd("del", f"s3://{bucket}/k")
    s3cmd("del", "--recursive", "--force", f"s3://{bucket}/t/")
    assert keys_of(s3, bucket) == ["large", "moved"]
    s3cmd("mb", f"s3://{bucket}-two")
    s3cmd("rb", f"s3://{bucket}-two")
    s3cmd("get", f"s3://{bucket}/none", tmp_path / "none", fails=True)
