"""Versions, tags, object lock and lifecycle rules as other clients use them: rclone and awscli themselves, mc and the Terraform AWS provider by their calls."""
import datetime
import json
import re
import secrets
import time
from pathlib import Path

import pytest

from tests.integration.test_tools import aws, aws_environment, rclone  # noqa: F401: fixtures
from tests.integration.test_versions import body, listed, put, versioned  # noqa: F401: a fixture
from tests.support.recording import lacks, replay

RECORDED = Path(__file__).parent / "recorded"


def now():
    return datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


# ---- calls that were recorded -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("client", sorted(path.stem for path in RECORDED.glob("*.json")))
def test_recorded_calls(raw, client):
    """Everything that the client read when it was content is answered still; the fixtures are described in recorded/README.md."""
    wrong = replay(raw, RECORDED / f"{client}.json", f"recorded-{secrets.token_hex(4)}")
    assert not wrong, "\n".join(wrong)


def test_what_is_missing_is_noticed():
    wanted = {"status": 200, "headers": {"a": "1"}, "texts": ["R/A=1", "R/B=2"]}
    assert lacks(wanted, {"status": 200, "headers": {"a": "1", "b": "2"}, "texts": ["R/A=1", "R/More=", "R/B=2"]}) == []
    assert len(lacks(wanted, {"status": 404, "headers": {"a": "2"}, "texts": ["R/B=2", "R/A=1"]})) == 3  # an order that is another
    assert lacks(wanted, {"status": 200, "headers": {"a": "1"}, "body": "x"}) == ["body 'x', not None", "no R/A=1 where it should be", "no R/B=2 where it should be"]


# ---- rclone -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def history(s3, versioned):  # noqa: F811
    """A bucket in which a file was changed, another deleted and a third made, all after `moment`."""
    put(s3, versioned, "folder/changed.txt", b"one")
    put(s3, versioned, "folder/deleted.txt", b"still here")
    time.sleep(1.1)  # rclone is told a time in seconds
    moment = now()
    time.sleep(1.1)
    put(s3, versioned, "folder/changed.txt", b"two")
    s3.delete_object(Bucket=versioned, Key="folder/deleted.txt")
    put(s3, versioned, "folder/made.txt", b"new")
    return versioned, moment


def names(output):
    return sorted(output.decode().splitlines())


def test_rclone_versions(rclone, history):  # noqa: F811
    bucket, _ = history
    assert names(rclone("lsf", "-R", "--files-only", f"m:{bucket}")) == ["folder/changed.txt", "folder/made.txt"]
    found = names(rclone("lsf", "-R", "--files-only", "--s3-versions", f"m:{bucket}"))
    old = [name for name in found if re.fullmatch(r"folder/(changed|deleted)-v\d{4}-\d\d-\d\d-\d{6}-\d{3}\.txt", name)]
    assert len(old) == 2 and sorted(set(found) - set(old)) == ["folder/changed.txt", "folder/made.txt"]
    got = [rclone("cat", "--s3-versions", "--include", "/" + name, f"m:{bucket}") for name in old]  # 1.60 takes such a name for a folder, on its own
    assert got == [b"one", b"still here"]


def test_rclone_versions_at_a_time(rclone, history, tmp_path):  # noqa: F811
    bucket, moment = history
    then = ["--s3-version-at", moment]
    assert names(rclone("lsf", "-R", "--files-only", *then, f"m:{bucket}")) == ["folder/changed.txt", "folder/deleted.txt"]
    rclone("copy", *then, f"m:{bucket}", tmp_path / "then")
    assert {p.name: p.read_bytes() for p in (tmp_path / "then/folder").iterdir()} == {"changed.txt": b"one", "deleted.txt": b"still here"}
    rclone("copy", *then, tmp_path / "then", f"m:{bucket}/other", fails=True)  # the past is not written
    rclone("check", "--download", *then, f"m:{bucket}", tmp_path / "then")


def test_rclone_deletes_versions(rclone, s3, history):  # noqa: F811
    bucket, _ = history
    old = next(name for name in names(rclone("lsf", "-R", "--files-only", "--s3-versions", f"m:{bucket}")) if "changed-v" in name)
    rclone("delete", "--s3-versions", "--include", "/" + old, f"m:{bucket}")
    assert [row[:1] + row[2:] for row in listed(s3, bucket, Prefix="folder/changed")] == [("folder/changed.txt", True, False)]
    rclone("backend", "cleanup-hidden", f"m:{bucket}")
    assert [row[:1] + row[2:] for row in listed(s3, bucket)] == [("folder/changed.txt", True, False), ("folder/made.txt", True, False)]
    assert body(s3, bucket, "folder/changed.txt") == b"two"


def test_rclone_sets_versioning(rclone, s3, bucket):  # noqa: F811
    assert b"Unversioned" in rclone("backend", "versioning", f"m:{bucket}")
    for state in ("Enabled", "Suspended"):
        assert state.encode() in rclone("backend", "versioning", f"m:{bucket}", state)
        assert s3.get_bucket_versioning(Bucket=bucket)["Status"] == state
        assert state.encode() in rclone("backend", "versioning", f"m:{bucket}")


# ---- awscli -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def api(aws):  # noqa: F811
    def call(name, **arguments):
        words = [word for key, value in arguments.items() for word in ("--" + key.replace("_", "-"), value) if word is not True]
        out = aws("s3api", name, *(json.dumps(word) if isinstance(word, (dict, list)) else word for word in words))
        return json.loads(out) if out.strip() else {}
    return call


@pytest.mark.slow
def test_aws_versions_and_tags(api, aws, bucket, tmp_path):  # noqa: F811
    (tmp_path / "one").write_bytes(b"one")
    (tmp_path / "two").write_bytes(b"two")
    key = {"bucket": bucket, "key": "k"}
    api("put-bucket-versioning", bucket=bucket, versioning_configuration="Status=Enabled")
    assert api("get-bucket-versioning", bucket=bucket) == {"Status": "Enabled"}
    first, second = (api("put-object", **key, body=tmp_path / name, tagging=f"name={name}")["VersionId"] for name in ("one", "two"))
    marker = api("delete-object", **key)["VersionId"]
    versions = api("list-object-versions", bucket=bucket)
    assert [v["VersionId"] for v in versions["Versions"]] == [second, first] and [m["VersionId"] for m in versions["DeleteMarkers"]] == [marker]
    aws("s3api", "get-object", "--bucket", bucket, "--key", "k", "--version-id", first, tmp_path / "got")
    assert (tmp_path / "got").read_bytes() == b"one"
    api("copy-object", **key, copy_source=f"{bucket}/k?versionId={first}")
    assert aws("s3", "cp", f"s3://{bucket}/k", "-") == b"one"
    assert api("get-object-tagging", **key)["TagSet"] == [{"Key": "name", "Value": "one"}]
    api("put-object-tagging", **key, version_id=second, tagging={"TagSet": [{"Key": "a", "Value": "1"}]})
    assert api("get-object-tagging", **key, version_id=second) == {"VersionId": second, "TagSet": [{"Key": "a", "Value": "1"}]}
    api("delete-object-tagging", **key, version_id=second)
    assert api("head-object", **key, version_id=second)["VersionId"] == second
    api("put-bucket-tagging", bucket=bucket, tagging={"TagSet": [{"Key": "env", "Value": "test"}]})
    assert api("get-bucket-tagging", bucket=bucket)["TagSet"] == [{"Key": "env", "Value": "test"}]
    rows = api("list-object-versions", bucket=bucket)
    api("delete-objects", bucket=bucket, delete={"Objects": [{"Key": "k", "VersionId": row["VersionId"]} for row in rows["Versions"] + rows["DeleteMarkers"]]})
    assert "Versions" not in api("list-object-versions", bucket=bucket)


@pytest.mark.slow
def test_aws_locks_and_rules(api, bucket):
    locked = bucket + "-locked"
    key = {"bucket": locked, "key": "k"}
    api("create-bucket", bucket=locked, object_lock_enabled_for_bucket=True)
    lock = {"ObjectLockEnabled": "Enabled", "Rule": {"DefaultRetention": {"Mode": "GOVERNANCE", "Days": 1}}}
    api("put-object-lock-configuration", bucket=locked, object_lock_configuration=lock)
    assert api("get-object-lock-configuration", bucket=locked)["ObjectLockConfiguration"] == lock
    version = api("put-object", **key)["VersionId"]
    assert api("get-object-retention", **key)["Retention"]["Mode"] == "GOVERNANCE"
    api("put-object-retention", **key, retention={"Mode": "GOVERNANCE", "RetainUntilDate": "2099-01-01T00:00:00Z"})
    api("put-object-legal-hold", **key, legal_hold="Status=ON")
    head = api("head-object", **key)
    assert (head["ObjectLockLegalHoldStatus"], head["ObjectLockRetainUntilDate"][:10]) == ("ON", "2099-01-01")
    api("put-object-legal-hold", **key, legal_hold="Status=OFF")
    api("delete-object", **key, version_id=version, bypass_governance_retention=True)
    rules = [{"ID": "old", "Status": "Enabled", "Filter": {"Prefix": "logs/"}, "Expiration": {"Days": 3},
              "NoncurrentVersionExpiration": {"NoncurrentDays": 2, "NewerNoncurrentVersions": 1}, "AbortIncompleteMultipartUpload": {"DaysAfterInitiation": 1}}]
    api("put-bucket-lifecycle-configuration", bucket=locked, lifecycle_configuration={"Rules": rules})
    assert api("get-bucket-lifecycle-configuration", bucket=locked)["Rules"] == rules
    api("delete-bucket-lifecycle", bucket=locked)
    api("delete-bucket", bucket=locked)
