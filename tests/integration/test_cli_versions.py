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


def test_rm_of_all_versions(cli, s3, versioned):  # noqa: F811
    for _ in range(3):
        put(s3, versioned, "ab", b"x")
        put(s3, versioned, "a/k", b"x")
        delete(s3, versioned, "a/k")
    for _ in range(1100):
        put(s3, versioned, "a/l", b"x")
    cli("rm", "--versions", f"s3://{versioned}/a", status=2)
    assert lines(cli("rm", "-r", "--versions", f"s3://{versioned}/a")) == [f"rm s3://{versioned}/a/: 1106 versions"]
    assert [row[0] for row in listed(s3, versioned)] == ["ab", "ab", "ab"]
    cli("rb", "-f", f"s3://{versioned}", status=1)  # a marker, and the versions
    assert len(listed(s3, versioned)) == 4
    cli("rb", "--versions", f"s3://{versioned}", status=2)
    cli("rb", "-f", "--versions", f"s3://{versioned}")
    refused("NoSuchBucket", 404, s3.list_objects_v2, Bucket=versioned)


def test_rm_of_all_versions_that_are_locked(cli, s3, locked):  # noqa: F811
    later = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(days=1)
    put(s3, locked, "k", b"1")
    kept = s3.put_object(Bucket=locked, Key="k", Body=b"2", ObjectLockMode="GOVERNANCE", ObjectLockRetainUntilDate=later)["VersionId"]
    cli("rm", "-r", "--versions", f"s3://{locked}", status=1)
    assert [row[1] for row in listed(s3, locked)] == [kept]
    cli("rm", "-r", "--versions", "--bypass-governance", f"s3://{locked}")
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


def test_get_of_a_version(cli, s3, versioned, tmp_path, rng):  # noqa: F811
    old = rng.randbytes(20 * (1 << 20) + 7)  # in several ranges
    first, url = put(s3, versioned, "k", old), f"s3://{versioned}/k"
    put(s3, versioned, "k", b"new")
    delete(s3, versioned, "k")
    cli("get", "--version-id", first, url, tmp_path / "old")
    assert (tmp_path / "old").read_bytes() == old
    cli("get", "--progress", "--version-id", first, url, tmp_path / "again")
    assert cli("cat", "--version-id", first, url) == old == (tmp_path / "again").read_bytes()
    assert str(len(old)).encode() in cli("stat", "--version-id", first, url) and first.encode() in cli("stat", "--version-id", first, url)
    small = put(s3, versioned, "small", b"1")
    put(s3, versioned, "small", b"2")
    assert cli("get", "--version-id", small, f"s3://{versioned}/small", "-") == cli("cat", "--version-id", small, f"s3://{versioned}/small") == b"1"
    cli("get", url, tmp_path / "none", status=1)
    cli("get", "--version-id", small, url, tmp_path / "none", status=1)
    for arguments in (["get", "-r", f"s3://{versioned}", tmp_path], ["get", url, url, tmp_path], ["cat", url, url], ["stat", url, url],
                      ["stat", f"s3://{versioned}"]):
        cli(arguments[0], "--version-id", first, *arguments[1:], status=2)
    assert not (tmp_path / "none").exists()


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


# ---- tag --------------------------------------------------------------------------------------------------------


def test_tags_of_an_object(cli, s3, versioned):  # noqa: F811
    first = put(s3, versioned, "k", b"1")
    put(s3, versioned, "k", b"2")
    url = f"s3://{versioned}/k"
    assert cli("tag", "get", url) == b""
    assert cli("tag", "set", url, "kind=a=", "größe=1", "empty=") == f"{url}: 3 tags\n".encode()
    assert sorted(lines(cli("tag", "get", url))) == ["empty=", "größe=1", "kind=a="]
    cli("tag", "set", "-q", url, "a=1", "b=2", "c=3")  # instead of the others
    cli("tag", "set", "--version-id", first, url, "old=yes")
    assert lines(cli("tag", "get", "--version-id", first, url)) == ["old=yes"]
    cli("tag", "remove", url, "b")
    assert {tag["Key"]: tag["Value"] for tag in s3.get_object_tagging(Bucket=versioned, Key="k")["TagSet"]} == {"a": "1", "c": "3"}
    cli("tag", "remove", url, "a", "b", status=1)  # it has no b, and keeps a
    assert sorted(lines(cli("tag", "get", url))) == ["a=1", "c=3"]
    cli("tag", "remove", url, "c", "a")
    assert cli("tag", "get", url) == b""
    cli("tag", "remove", "--version-id", first, url)
    assert s3.get_object_tagging(Bucket=versioned, Key="k", VersionId=first)["TagSet"] == []
    cli("tag", "set", url, *(f"k{i}=v" for i in range(11)), status=1)
    for bad in (["novalue"], ["=v"], ["a=1", "a=2"], ["aws:a=1"], ["a=" + 257 * "x"], []):
        cli("tag", "set", url, *bad, status=2)
    cli("tag", "get", f"s3://{versioned}/none", status=1)


def test_tags_of_a_bucket(cli, s3, bucket):
    assert cli("tag", "get", f"s3://{bucket}") == b""
    cli("tag", "remove", f"s3://{bucket}", "a", status=1)
    cli("tag", "set", f"s3://{bucket}", *(f"k{i}=v" for i in range(20)))
    assert len(s3.get_bucket_tagging(Bucket=bucket)["TagSet"]) == len(lines(cli("tag", "get", f"s3://{bucket}"))) == 20
    cli("tag", "remove", f"s3://{bucket}")
    refused("NoSuchTagSet", 404, s3.get_bucket_tagging, Bucket=bucket)
    cli("tag", status=2)


# ---- lock -------------------------------------------------------------------------------------------------------


def test_lock_of_a_bucket(cli, s3, bucket, locked):  # noqa: F811
    assert lines(cli("lock", "status", f"s3://{bucket}")) == ["object lock: off"]
    assert lines(cli("lock", "status", f"s3://{locked}")) == ["object lock: on", "default retention: none"]
    cli("lock", "retain", f"s3://{locked}", "governance", "30d")
    assert lines(cli("lock", "status", f"s3://{locked}"))[1] == "default retention: GOVERNANCE for 30 days"
    assert s3.get_object_lock_configuration(Bucket=locked)["ObjectLockConfiguration"]["Rule"] == {"DefaultRetention": {"Mode": "GOVERNANCE", "Days": 30}}
    cli("lock", "retain", f"s3://{locked}", "compliance", "2y")
    assert lines(cli("lock", "status", f"s3://{locked}"))[1] == "default retention: COMPLIANCE for 2 years"
    cli("lock", "retain", f"s3://{locked}", "none")
    assert lines(cli("lock", "status", f"s3://{locked}"))[1] == "default retention: none"
    for bad in (["governance"], ["governance", "2026-01-01"], ["none", "1d"], ["governance", "0d"], ["forever", "1d"]):
        cli("lock", "retain", f"s3://{locked}", *bad, status=2)
    cli("lock", "retain", f"s3://{bucket}", "governance", "1d", status=1)  # it keeps no versions


def test_lock_of_a_version(cli, s3, locked, bucket):  # noqa: F811
    version, url = put(s3, locked, "k", b"1"), f"s3://{locked}/k"
    put(s3, locked, "k", b"2")
    one = ["--version-id", version, url]
    assert lines(cli("lock", "status", *one)) == ["retention: none", "legal hold: off"]
    cli("lock", "hold", *one, "on")
    assert lines(cli("lock", "status", *one)) == ["retention: none", "legal hold: on"]
    assert lines(cli("lock", "status", url)) == ["retention: none", "legal hold: off"]  # the newest
    cli("rm", *one, status=1)
    cli("lock", "hold", *one, "off")
    cli("lock", "retain", *one, "governance", "2099-01-31T12:00:00Z")
    assert lines(cli("lock", "status", *one))[0] == "retention: GOVERNANCE until 2099-01-31T12:00:00.000Z"
    cli("lock", "retain", *one, "governance", "1d", status=1)  # shorter
    cli("lock", "retain", "--bypass-governance", *one, "governance", "1d")
    until = s3.get_object_retention(Bucket=locked, Key="k", VersionId=version)["Retention"]["RetainUntilDate"]
    assert abs(until - datetime.datetime.now(datetime.timezone.utc) - datetime.timedelta(days=1)) < datetime.timedelta(minutes=10)
    cli("rm", *one, status=1)
    cli("lock", "retain", "--bypass-governance", *one, "none")
    assert lines(cli("lock", "status", *one)) == ["retention: none", "legal hold: off"]
    cli("rm", *one)
    for bad in (["governance", "soon"], ["governance"], ["none", "1d"]):
        cli("lock", "retain", url, *bad, status=2)
    cli("lock", "retain", url, "governance", "2020-01-01", status=1)  # it is past
    cli("lock", "hold", url, "perhaps", status=2)
    cli("lock", "hold", f"s3://{locked}", "on", status=2)
    s3.put_object(Bucket=bucket, Key="k", Body=b"x")
    cli("lock", "status", f"s3://{bucket}/k", status=1)  # the bucket has no lock
    cli("lock", "status", f"s3://{locked}/none", status=1)


# ---- lifecycle --------------------------------------------------------------------------------------------------


def test_lifecycle(cli, s3, bucket, tmp_path):
    rules = {"Rules": [
        {"ID": "scratch", "Status": "Enabled", "Filter": {"And": {"Prefix": "tmp/", "ObjectSizeGreaterThan": 5,
                                                                  "Tags": [{"Key": "a", "Value": "ü"}]}}, "Expiration": {"Days": 7}},
        {"ID": "old", "Status": "Disabled", "Filter": {"Prefix": ""},
         "NoncurrentVersionExpiration": {"NoncurrentDays": 30, "NewerNoncurrentVersions": 3},
         "AbortIncompleteMultipartUpload": {"DaysAfterInitiation": 2}},
        {"ID": "day", "Status": "Enabled", "Filter": {"Tag": {"Key": "b", "Value": "c"}}, "Expiration": {"Date": "2099-01-31"}}]}
    url, file = f"s3://{bucket}", tmp_path / "rules.json"
    cli("lifecycle", "get", url, status=1)
    file.write_text(json.dumps(rules))
    assert cli("lifecycle", "set", url, file).decode() == f"{url}: 3 rules\n"
    stored = s3.get_bucket_lifecycle_configuration(Bucket=bucket)["Rules"]
    assert [rule["ID"] for rule in stored] == ["scratch", "old", "day"] and stored[:2] == rules["Rules"][:2]
    got = cli("lifecycle", "get", url)
    assert json.loads(got)["Rules"][:2] == rules["Rules"][:2]
    cli("lifecycle", "remove", url)
    refused("NoSuchLifecycleConfiguration", 404, s3.get_bucket_lifecycle_configuration, Bucket=bucket)
    cli("lifecycle", "set", "-q", url, stdin=got)  # what it wrote it takes
    assert cli("lifecycle", "get", url) == got and s3.get_bucket_lifecycle_configuration(Bucket=bucket)["Rules"] == stored
    for bad in ('{"Rules": [{"Id": "x"}]}', "no JSON", '{"Rules": []}', '{"Rules": [{"Status": "Enabled", "Filter": {}}]}'):
        cli("lifecycle", "set", url, "-", stdin=bad.encode(), status=1)
    cli("lifecycle", "set", url, tmp_path / "none", status=1)
    cli("lifecycle", "get", url + "/k", status=2)
    assert cli("lifecycle", "get", url) == got


# ---- diff -------------------------------------------------------------------------------------------------------


def moment():
    """A time that lies between what was done before and what is done after."""
    time.sleep(0.05)
    now = datetime.datetime.now(datetime.timezone.utc)
    time.sleep(0.05)
    return now.strftime("%Y-%m-%dT%H:%M:%S.") + f"{now.microsecond // 1000:03}Z"


def test_diff(cli, s3, versioned):  # noqa: F811
    start = moment()
    same = put(s3, versioned, "a/same", b"1")
    changed = [put(s3, versioned, "a/changed", b"1")]
    gone = put(s3, versioned, "a/gone", b"1")
    put(s3, versioned, "a/back", b"1")
    delete(s3, versioned, "a/back")
    put(s3, versioned, "ab", b"1")
    first = moment()
    changed += [put(s3, versioned, "a/changed", b"2"), put(s3, versioned, "a/changed", b"3")]
    delete(s3, versioned, "a/gone")
    new = put(s3, versioned, "a/new", b"1")
    put(s3, versioned, "a/passing", b"1")
    delete(s3, versioned, "a/passing")
    again = put(s3, versioned, "a/back", b"1")
    put(s3, versioned, "ab", b"2")
    second = moment()
    delete(s3, versioned, "a/new")
    url = f"s3://{versioned}/a"

    def diff(*arguments):
        rows = [line.split() for line in lines(cli("diff", "-q", *arguments))]
        return [(row[0], *row[1:3], row[3].removeprefix(f"s3://{versioned}/")) for row in rows]
    expected = [("added", "-", again, "a/back"), ("changed", changed[0], changed[2], "a/changed"), ("deleted", gone, "-", "a/gone"),
                ("added", "-", new, "a/new")]
    assert diff("--from", first, "--to", second, url) == expected
    assert diff("--from", first, url) == expected[:-1]  # until now
    assert diff("--from", second, url) == [("deleted", new, "-", "a/new")]
    assert diff("--from", second, "--to", second, url) == []
    assert diff("--from", start, "--to", first, url) == [("added", "-", changed[0], "a/changed"), ("added", "-", gone, "a/gone"),
                                                         ("added", "-", same, "a/same")]
    assert [row[3] for row in diff("--from", "1h", f"s3://{versioned}")] == ["a/back", "a/changed", "a/same", "ab"]
    assert lines(cli("diff", "--from", first, "--to", second, url))[-1] == f"{url}: 2 added, 1 changed, 1 deleted"
    cli("cp", "-q", "--version-id", changed[0], f"{url}/changed", f"{url}/changed")  # what it names can be had again
    assert body(s3, versioned, "a/changed") == b"1"


def test_diff_says_what_it_cannot(cli, s3, bucket):
    url = f"s3://{bucket}"
    cli("diff", "--from", "1h", url, status=1)  # it keeps no versions
    switch(s3, bucket, "Enabled")
    cli("diff", "--from", "1h", f"{url}/none", status=1)
    assert lines(cli("diff", "--from", "1h", url)) == [f"{url}: 0 added, 0 changed, 0 deleted"]
    cli("diff", url, status=2)
    cli("diff", "--from", "soon", url, status=2)
    cli("diff", "--from", "1h", "--to", "2h", url, status=2)
