"""Tags, retention and legal hold of objects and versions; object lock of buckets."""
import datetime

import pytest

from tests.conftest import both_layouts
from tests.support import checksums
from tests.support.expect import refused
from tests.integration.test_versions import body, listed, put, status_of, switch, versioned  # noqa: F401: a fixture

NOW = datetime.datetime.now(datetime.timezone.utc).replace(microsecond=0)
LATER, MUCH_LATER = NOW + datetime.timedelta(days=1), NOW + datetime.timedelta(days=3)


def tags(s3, bucket, key, **version):
    return {t["Key"]: t["Value"] for t in s3.get_object_tagging(Bucket=bucket, Key=key, **version)["TagSet"]}


def tag_set(**pairs):
    return {"TagSet": [{"Key": k, "Value": v} for k, v in pairs.items()]}


@pytest.fixture
def locked(s3, bucket):
    name = bucket + "-locked"
    s3.create_bucket(Bucket=name, ObjectLockEnabledForBucket=True)
    return name


@both_layouts
@pytest.mark.parametrize("size", [5, 400_000])
def test_tags_of_an_object(s3, bucket, rng, size):
    data = rng.randbytes(size)
    s3.put_object(Bucket=bucket, Key="k", Body=data, Tagging="a=1&b=two%20words&empty=")
    before = s3.head_object(Bucket=bucket, Key="k")
    assert tags(s3, bucket, "k") == {"a": "1", "b": "two words", "empty": ""}
    assert s3.get_object(Bucket=bucket, Key="k")["TagCount"] == 3
    s3.put_object_tagging(Bucket=bucket, Key="k", Tagging=tag_set(c="3"))
    assert tags(s3, bucket, "k") == {"c": "3"}
    after = s3.head_object(Bucket=bucket, Key="k")
    assert after["LastModified"] == before["LastModified"] and after["ETag"] == before["ETag"]
    assert body(s3, bucket, "k") == data
    s3.delete_object_tagging(Bucket=bucket, Key="k")
    assert tags(s3, bucket, "k") == {} and "TagCount" not in s3.get_object(Bucket=bucket, Key="k")
    refused("NoSuchKey", 404, s3.get_object_tagging, Bucket=bucket, Key="none")
    refused("NoSuchKey", 404, s3.put_object_tagging, Bucket=bucket, Key="none", Tagging=tag_set(a="1"))


def test_tags_that_are_none(s3, bucket):
    s3.put_object(Bucket=bucket, Key="k", Body=b"x")
    ten = {f"k{i}": "v" for i in range(10)}
    s3.put_object_tagging(Bucket=bucket, Key="k", Tagging=tag_set(**ten))
    refused("BadRequest", 400, s3.put_object_tagging, Bucket=bucket, Key="k", Tagging=tag_set(**ten, more="v"))
    refused("InvalidTag", 400, s3.put_object_tagging, Bucket=bucket, Key="k", Tagging=tag_set(**{"k" * 129: "v"}))
    refused("InvalidTag", 400, s3.put_object_tagging, Bucket=bucket, Key="k", Tagging=tag_set(k="v" * 257))
    refused("InvalidTag", 400, s3.put_object_tagging, Bucket=bucket, Key="k",
            Tagging={"TagSet": [{"Key": "a", "Value": "1"}, {"Key": "a", "Value": "2"}]})
    refused("InvalidArgument", 400, s3.put_object, Bucket=bucket, Key="k2", Body=b"x", Tagging="a=1&a=2")
    assert tags(s3, bucket, "k") == ten


def test_tags_of_versions_and_copies(s3, versioned):  # noqa: F811
    first = s3.put_object(Bucket=versioned, Key="k", Body=b"1", Tagging="v=1")["VersionId"]
    second = s3.put_object(Bucket=versioned, Key="k", Body=b"2", Tagging="v=2")["VersionId"]
    assert s3.put_object_tagging(Bucket=versioned, Key="k", VersionId=first, Tagging=tag_set(v="one"))["VersionId"] == first
    assert tags(s3, versioned, "k", VersionId=first) == {"v": "one"} and tags(s3, versioned, "k") == {"v": "2"}
    s3.copy_object(Bucket=versioned, Key="c", CopySource={"Bucket": versioned, "Key": "k", "VersionId": first})
    assert tags(s3, versioned, "c") == {"v": "one"}
    s3.copy_object(Bucket=versioned, Key="c", CopySource={"Bucket": versioned, "Key": "k"}, TaggingDirective="REPLACE", Tagging="n=3")
    assert tags(s3, versioned, "c") == {"n": "3"}
    assert [row[1] for row in listed(s3, versioned, Prefix="k")] == [second, first]


def test_lock_of_a_bucket(s3, bucket, locked):
    assert s3.get_bucket_versioning(Bucket=locked)["Status"] == "Enabled"
    assert s3.get_object_lock_configuration(Bucket=locked)["ObjectLockConfiguration"] == {"ObjectLockEnabled": "Enabled"}
    refused("InvalidBucketState", 409, s3.put_bucket_versioning, Bucket=locked, VersioningConfiguration={"Status": "Suspended"})
    refused("ObjectLockConfigurationNotFoundError", 404, s3.get_object_lock_configuration, Bucket=bucket)
    rule = {"ObjectLockEnabled": "Enabled", "Rule": {"DefaultRetention": {"Mode": "GOVERNANCE", "Days": 1}}}
    refused("InvalidBucketState", 409, s3.put_object_lock_configuration, Bucket=bucket, ObjectLockConfiguration=rule)
    switch(s3, bucket, "Enabled")
    for name in (bucket, locked):
        s3.put_object_lock_configuration(Bucket=name, ObjectLockConfiguration=rule)
        assert s3.get_object_lock_configuration(Bucket=name)["ObjectLockConfiguration"] == rule
        s3.put_object(Bucket=name, Key="k", Body=b"x")
        kept, day = s3.get_object_retention(Bucket=name, Key="k")["Retention"], datetime.timedelta(days=1)
        assert kept["Mode"] == "GOVERNANCE" and abs(kept["RetainUntilDate"] - datetime.datetime.now(datetime.timezone.utc) - day) < datetime.timedelta(minutes=10)


def test_retention(s3, locked):
    first = s3.put_object(Bucket=locked, Key="k", Body=b"1", ObjectLockMode="GOVERNANCE", ObjectLockRetainUntilDate=LATER)["VersionId"]
    head = s3.head_object(Bucket=locked, Key="k")
    assert (head["ObjectLockMode"], head["ObjectLockRetainUntilDate"]) == ("GOVERNANCE", LATER)
    second = put(s3, locked, "k", b"2")  # a new version is no change of the old one
    refused("AccessDenied", 403, s3.delete_object, Bucket=locked, Key="k", VersionId=first)
    answer = s3.delete_objects(Bucket=locked, Delete={"Objects": [{"Key": "k", "VersionId": first}]})
    assert [e["Code"] for e in answer["Errors"]] == ["AccessDenied"]
    marker = s3.delete_object(Bucket=locked, Key="k")["VersionId"]  # nor is a marker
    s3.delete_object(Bucket=locked, Key="k", VersionId=marker)
    s3.delete_object(Bucket=locked, Key="k", VersionId=second)
    change = dict(Bucket=locked, Key="k", VersionId=first)
    s3.put_object_retention(**change, Retention={"Mode": "GOVERNANCE", "RetainUntilDate": MUCH_LATER})
    refused("AccessDenied", 403, s3.put_object_retention, **change, Retention={"Mode": "GOVERNANCE", "RetainUntilDate": LATER})
    s3.put_object_retention(**change, Retention={"Mode": "GOVERNANCE", "RetainUntilDate": LATER}, BypassGovernanceRetention=True)
    refused("InvalidArgument", 400, s3.put_object_retention, **change,
            Retention={"Mode": "GOVERNANCE", "RetainUntilDate": NOW - datetime.timedelta(days=1)}, BypassGovernanceRetention=True)
    s3.put_object_retention(**change, Retention={"Mode": "COMPLIANCE", "RetainUntilDate": LATER}, BypassGovernanceRetention=True)
    refused("AccessDenied", 403, s3.put_object_retention, **change, Retention={"Mode": "GOVERNANCE", "RetainUntilDate": MUCH_LATER},
            BypassGovernanceRetention=True)
    refused("AccessDenied", 403, s3.delete_object, **change, BypassGovernanceRetention=True)
    assert body(s3, locked, "k", VersionId=first) == b"1"
    refused("BucketNotEmpty", 409, s3.delete_bucket, Bucket=locked)


def test_governance_is_bypassed(s3, locked):
    version = s3.put_object(Bucket=locked, Key="k", Body=b"1", ObjectLockMode="GOVERNANCE", ObjectLockRetainUntilDate=LATER)["VersionId"]
    s3.delete_object(Bucket=locked, Key="k", VersionId=version, BypassGovernanceRetention=True)
    assert listed(s3, locked) == []


def test_retention_is_taken_off(raw, s3, locked):
    version = s3.put_object(Bucket=locked, Key="k", Body=b"1", ObjectLockMode="GOVERNANCE", ObjectLockRetainUntilDate=LATER)["VersionId"]
    body = b"<Retention/>"
    query, md5 = [("retention", ""), ("versionId", version)], {"Content-MD5": checksums.content_md5(body)}
    assert raw.request("PUT", f"/{locked}/k", query=query, body=body, headers=md5).code == "AccessDenied"
    assert raw.request("PUT", f"/{locked}/k", query=query, body=body, headers={**md5, "x-amz-bypass-governance-retention": "true"}).status == 200
    refused("NoSuchObjectLockConfiguration", 404, s3.get_object_retention, Bucket=locked, Key="k")
    s3.delete_object(Bucket=locked, Key="k", VersionId=version)
    assert listed(s3, locked) == []


def test_a_hold_that_was_never_set(s3, locked):
    """AWS tells it from one that was taken off."""
    held = dict(Bucket=locked, Key="k")
    put(s3, locked, "k", b"1")
    refused("NoSuchObjectLockConfiguration", 404, s3.get_object_legal_hold, **held)
    assert "ObjectLockLegalHoldStatus" not in s3.head_object(**held)
    s3.put_object(**held, Body=b"2", ObjectLockLegalHoldStatus="OFF")
    assert s3.get_object_legal_hold(**held)["LegalHold"] == {"Status": "OFF"}
    assert s3.head_object(**held)["ObjectLockLegalHoldStatus"] == "OFF"
    put(s3, locked, "k", b"3")
    s3.put_object_legal_hold(**held, LegalHold={"Status": "ON"})
    s3.put_object_tagging(**held, Tagging=tag_set(a="1"))
    s3.put_object_legal_hold(**held, LegalHold={"Status": "OFF"})
    assert s3.get_object_legal_hold(**held)["LegalHold"] == {"Status": "OFF"} and tags(s3, locked, "k") == {"a": "1"}
    upload = s3.create_multipart_upload(Bucket=locked, Key="k", ObjectLockLegalHoldStatus="OFF")["UploadId"]
    etag = s3.upload_part(**held, UploadId=upload, PartNumber=1, Body=b"4")["ETag"]
    s3.complete_multipart_upload(**held, UploadId=upload, MultipartUpload={"Parts": [{"PartNumber": 1, "ETag": etag}]})
    assert s3.get_object_legal_hold(**held)["LegalHold"] == {"Status": "OFF"}


def test_what_is_to_be_kept_comes_with_a_checksum(raw, s3, locked):
    """By headers of the put or of the upload, or by default: AWS takes no byte of it without Content-MD5 or a checksum."""
    def ask(path, body=b"x", query=(), **headers):
        answer = raw.request("PUT", path, query=list(query), body=body, headers={k.replace("_", "-"): v for k, v in headers.items()})
        return answer.status, answer.code

    def parts_of(upload):
        return [("partNumber", "1"), ("uploadId", upload)]

    summed = {"Content_MD5": checksums.content_md5(b"x")}
    until = {"x_amz_object_lock_mode": "GOVERNANCE", "x_amz_object_lock_retain_until_date": LATER.strftime("%Y-%m-%dT%H:%M:%SZ")}
    path, refusal = f"/{locked}/k", (400, "InvalidRequest")
    plain = s3.create_multipart_upload(Bucket=locked, Key="k")["UploadId"]
    held = s3.create_multipart_upload(Bucket=locked, Key="k", ObjectLockLegalHoldStatus="ON")["UploadId"]
    assert ask(path)[0] == 200 and ask(path, query=parts_of(plain))[0] == 200
    assert ask(path, **until) == refusal and ask(path, **until, **summed)[0] == 200
    assert ask(path, query=parts_of(held)) == refusal and ask(path, query=parts_of(held), **summed)[0] == 200
    s3.put_object_lock_configuration(Bucket=locked, ObjectLockConfiguration={
        "ObjectLockEnabled": "Enabled", "Rule": {"DefaultRetention": {"Mode": "GOVERNANCE", "Days": 1}}})
    assert ask(path) == refusal and ask(path, **summed)[0] == 200
    assert ask(path, query=parts_of(plain)) == refusal and ask(path, query=parts_of(plain), **summed)[0] == 200
    assert "checksum- HTTP header is required for Put Object requests" in raw.request("PUT", path, body=b"x").xml.findtext("Message")
    s3.copy_object(Bucket=locked, Key="copy", CopySource={"Bucket": locked, "Key": "k"})  # nothing is sent


def test_legal_hold(s3, locked, bucket):
    version = s3.put_object(Bucket=locked, Key="k", Body=b"1", ObjectLockLegalHoldStatus="ON")["VersionId"]
    assert s3.head_object(Bucket=locked, Key="k")["ObjectLockLegalHoldStatus"] == "ON"
    assert s3.get_object_legal_hold(Bucket=locked, Key="k")["LegalHold"] == {"Status": "ON"}
    refused("NoSuchObjectLockConfiguration", 404, s3.get_object_retention, Bucket=locked, Key="k")
    refused("AccessDenied", 403, s3.delete_object, Bucket=locked, Key="k", VersionId=version, BypassGovernanceRetention=True)
    s3.put_object_legal_hold(Bucket=locked, Key="k", LegalHold={"Status": "OFF"})
    assert s3.get_object_legal_hold(Bucket=locked, Key="k")["LegalHold"] == {"Status": "OFF"}
    s3.delete_object(Bucket=locked, Key="k", VersionId=version)
    s3.put_object(Bucket=bucket, Key="k", Body=b"1")
    for call, more in ((s3.put_object_legal_hold, {"LegalHold": {"Status": "ON"}}), (s3.get_object_legal_hold, {}),
                       (s3.get_object_retention, {}), (s3.put_object, {"ObjectLockLegalHoldStatus": "ON"})):
        assert status_of(call, Bucket=bucket, Key="k", **more)[:2] == (400, "InvalidRequest"), call
