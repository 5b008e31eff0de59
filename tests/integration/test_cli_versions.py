"""The program `millrace` with versions, tags, locks and rules, against the daemon."""
import datetime
import json
import time

import pytest

from tests.integration.test_cli import cli  # noqa: F401  # pylint: disable=unused-import  # a fixture
from tests.integration.test_tags_and_locks import locked  # noqa: F401  # pylint: disable=unused-import  # a fixture
from tests.integration.test_versions import body, listed, put, switch, versioned  # noqa: F401  # pylint: disable=unused-import
from tests.support.expect import refused

pytestmark = pytest.mark.daemon


def lines(output):
    return output.decode().splitlines()


def delete(s3, bucket, key):
    return s3.delete_object(Bucket=bucket, Key=key)["VersionId"]


# ---- ls, rm, cp -------------------------------------------------------------------------------------------------


def test_ls_versions(cli, s3, versioned):  # noqa: F811
    first, second = put(s3, versioned, "d/k", b"1"), put(s3, versioned, "d/k", b"22")
    marker = delete(s3, versioned, "d/k")
    other = put(s3, versioned, "d/other key", bytes(2048))
    rows = [line[21:] for line in lines(cli("ls", "--versions", f"s3://{versioned}/d/"))]
    assert [row.split() for row in rows] == [
        ["DELETED", marker, "*", "k"], ["2", second, "k"], ["1", first, "k"], ["2048", other, "*", "other", "key"]]
    assert lines(cli("ls", "--versions", f"s3://{versioned}"))[0].split() == ["PREFIX", "d/"]
    assert len(lines(cli("ls", "--versions", "-r", "-H", f"s3://{versioned}"))) == 4
    cli("ls", "--versions", f"s3://{versioned}/nothing", status=1)
    cli("ls", "--versions", status=2)


def test_ls_versions_of_more_than_a_page(cli, s3, versioned):  # noqa: F811
    ids = [put(s3, versioned, "k", b"x") for _ in range(1005)]
    put(s3, versioned, "l", b"y")
    rows = [line.split() for line in lines(cli("ls", "--versions", f"s3://{versioned}"))]
    assert [row[3] for row in rows[:1005]] == ids[::-1] and rows[1005][-1] == "l"
    assert ["*" in row for row in rows] == [True] + 1004 * [False] + [True]


def test_ls_versions_of_a_bucket_without(cli, s3, bucket):
    s3.put_object(Bucket=bucket, Key="a+b ü%", Body=b"x")
    assert lines(cli("ls", "--versions", f"s3://{bucket}"))[0].split()[2:] == ["1", "null", "*", "a+b", "ü%"]


def test_rm_version(cli, s3, versioned):  # noqa: F811
    first, second = put(s3, versioned, "k", b"1"), put(s3, versioned, "k", b"2")
    assert second in cli("rm", "--version-id", second, f"s3://{versioned}/k").decode()
    assert listed(s3, versioned) == [("k", first, True, False)]
    cli("rm", f"s3://{versioned}/k")
    marker = next(row[1] for row in listed(s3, versioned) if row[3])
    cli("rm", "--version-id", marker, f"s3://{versioned}/k")
    assert body(s3, versioned, "k") == b"1"
    cli("rm", "--version-id", "nonsense", f"s3://{versioned}/k", status=1)
    cli("rm", "--version-id", first, f"s3://{versioned}/k", f"s3://{versioned}/l", status=2)
    cli("rm", "-r", "--version-id", first, f"s3://{versioned}/k", status=2)
    cli("rm", "--bypass-governance", f"s3://{versioned}/k", status=2)
    assert listed(s3, versioned) == [("k", first, True, False)]


def test_rm_of_a_locked_version(cli, s3, locked):  # noqa: F811
    later = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(days=1)
    version = s3.put_object(Bucket=locked, Key="k", Body=b"1", ObjectLockMode="GOVERNANCE", ObjectLockRetainUntilDate=later)["VersionId"]
    cli("rm", "--version-id", version, f"s3://{locked}/k", status=1)
    assert body(s3, locked, "k") == b"1"
    cli("rm", "--version-id", version, "--bypass-governance", f"s3://{locked}/k")
    assert listed(s3, locked) == []


def test_cp(cli, s3, versioned):  # noqa: F811
    first = put(s3, versioned, "d/k ü", b"1")
    put(s3, versioned, "d/k ü", b"2")
    cli("cp", f"s3://{versioned}/d/k ü", f"s3://{versioned}/other")
    assert body(s3, versioned, "other") == b"2"
    cli("cp", "--version-id", first, f"s3://{versioned}/d/k ü", f"s3://{versioned}/e/")
    assert body(s3, versioned, "e/k ü") == b"1"
    cli("cp", "--version-id", first, f"s3://{versioned}/d/k ü", f"s3://{versioned}")
    assert body(s3, versioned, "k ü") == b"1"
    cli("cp", "--version-id", first, f"s3://{versioned}/d/k ü", f"s3://{versioned}/d/k ü")  # what it was is the newest again
    assert body(s3, versioned, "d/k ü") == b"1" and len(listed(s3, versioned, Prefix="d/")) == 3
    cli("cp", "-n", f"s3://{versioned}/other", f"s3://{versioned}/d/k ü", status=1)
    cli("cp", "--version-id", "0" * 32, f"s3://{versioned}/other", f"s3://{versioned}/x", status=1)
    cli("cp", f"s3://{versioned}/d/", f"s3://{versioned}", status=2)
    cli("cp", f"s3://{versioned}/nothing", f"s3://{versioned}/x", status=1)


# ---- undo -------------------------------------------------------------------------------------------------------


def test_undo(cli, s3, versioned):  # noqa: F811
    kept = put(s3, versioned, "a/once", b"1")
    put(s3, versioned, "a/changed", b"1")
    second = put(s3, versioned, "a/changed", b"2")
    put(s3, versioned, "a/deleted", b"1")
    marker = delete(s3, versioned, "a/deleted")
    outside = [put(s3, versioned, "ab", b"1"), put(s3, versioned, "ab", b"2")]
    before = listed(s3, versioned)
    says = lines(cli("undo", "--dry-run", f"s3://{versioned}/a"))
    assert [line.split() for line in says[:-1]] == [["revert", second, f"s3://{versioned}/a/changed"],
                                                    ["undelete", marker, f"s3://{versioned}/a/deleted"],
                                                    ["keep", kept, f"s3://{versioned}/a/once"]]
    assert says[-1] == f"s3://{versioned}/a: 2 would be taken back, 1 kept"
    assert listed(s3, versioned) == before
    says = lines(cli("undo", f"s3://{versioned}/a"))
    assert sorted(line.split()[0] for line in says[:-1]) == ["keep", "revert", "undelete"] and says[-1].endswith("2 taken back, 1 kept")
    assert {key: body(s3, versioned, key) for key in ("a/once", "a/changed", "a/deleted")} == dict.fromkeys(("a/once", "a/changed", "a/deleted"), b"1")
    assert [row[1] for row in listed(s3, versioned, Prefix="ab")] == outside[::-1]
    assert cli("undo", "-q", f"s3://{versioned}/ab") == b""
    assert body(s3, versioned, "ab") == b"1"
    before = listed(s3, versioned)
    assert lines(cli("undo", f"s3://{versioned}"))[-1].endswith("0 taken back, 4 kept")  # nothing is lost by once too often
    assert listed(s3, versioned) == before


def test_undo_of_a_change_after_a_delete(cli, s3, versioned):  # noqa: F811
    put(s3, versioned, "k", b"1")
    delete(s3, versioned, "k")
    put(s3, versioned, "k", b"2")
    cli("undo", f"s3://{versioned}/k")
    refused("NoSuchKey", 404, s3.get_object, Bucket=versioned, Key="k")
    cli("undo", f"s3://{versioned}/k")
    assert body(s3, versioned, "k") == b"1"


def test_undo_of_many(cli, s3, versioned):  # noqa: F811
    for i in range(700):
        put(s3, versioned, f"{i:04}", b"1")
    assert lines(cli("rm", "-r", f"s3://{versioned}"))[-1].endswith("700 objects")
    for i in range(0, 700, 2):
        put(s3, versioned, f"{i:04}", b"2")
    assert lines(cli("undo", f"s3://{versioned}"))[-1].endswith("700 taken back, 0 kept")
    assert [line[-4:] for line in lines(cli("ls", f"s3://{versioned}"))] == [f"{i:04}" for i in range(1, 700, 2)]
    cli("undo", "-q", f"s3://{versioned}")
    assert len(lines(cli("ls", f"s3://{versioned}"))) == 700


def test_undo_says_what_it_cannot(cli, s3, bucket, locked):  # noqa: F811
    s3.put_object(Bucket=bucket, Key="k", Body=b"x")
    cli("undo", f"s3://{bucket}/k", status=1)  # the bucket keeps no versions
    cli("undo", f"s3://{locked}/k", status=1)  # no such key
    later = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(days=1)
    put(s3, locked, "k", b"1")
    s3.put_object(Bucket=locked, Key="k", Body=b"2", ObjectLockMode="GOVERNANCE", ObjectLockRetainUntilDate=later)
    cli("undo", f"s3://{locked}/k", status=1)
    assert body(s3, locked, "k") == b"2"
    cli("undo", "--bypass-governance", f"s3://{locked}/k")
    assert body(s3, locked, "k") == b"1"
    cli("undo", f"s3://{bucket}-none", status=1)
    cli("undo", status=2)
