"""Versioning as clients see it: ids, delete markers, null versions, listings, copies, uploads, conditions."""
import shutil

import pytest
from botocore.exceptions import ClientError

from tests.conftest import both_layouts, make_client
from tests.support.daemon import Daemon
from tests.support.expect import refused
from tests.support.getbatch import Entry, ask

MIB = 1 << 20


def switch(s3, bucket, status):
    s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": status})


@pytest.fixture
def versioned(s3, bucket):
    switch(s3, bucket, "Enabled")
    return bucket


def put(s3, bucket, key, body):
    return s3.put_object(Bucket=bucket, Key=key, Body=body)["VersionId"]


def body(s3, bucket, key, **version):
    return s3.get_object(Bucket=bucket, Key=key, **version)["Body"].read()


def listed(s3, bucket, **arguments):
    """(key, id, latest, marker) of all versions, in the order of the pages."""
    found = []
    for page in s3.get_paginator("list_object_versions").paginate(Bucket=bucket, **arguments):
        rows = [(v["Key"], v["VersionId"], v["IsLatest"], False, v["LastModified"]) for v in page.get("Versions", [])]
        rows += [(m["Key"], m["VersionId"], m["IsLatest"], True, m["LastModified"]) for m in page.get("DeleteMarkers", [])]
        found += rows
    return [row[:4] for row in found]


def status_of(call, **arguments):
    with pytest.raises(ClientError) as caught:
        call(**arguments)
    answer = caught.value.response
    return answer["ResponseMetadata"]["HTTPStatusCode"], answer["Error"]["Code"], answer["ResponseMetadata"]["HTTPHeaders"]


def test_state(s3, bucket):
    assert "Status" not in s3.get_bucket_versioning(Bucket=bucket)
    assert "VersionId" not in s3.put_object(Bucket=bucket, Key="k", Body=b"x")
    assert "VersionId" not in s3.get_object(Bucket=bucket, Key="k")
    switch(s3, bucket, "Enabled")
    assert s3.get_bucket_versioning(Bucket=bucket)["Status"] == "Enabled"
    switch(s3, bucket, "Suspended")
    assert s3.get_bucket_versioning(Bucket=bucket)["Status"] == "Suspended"
    refused("MalformedXML", 400, s3.put_bucket_versioning, Bucket=bucket, VersioningConfiguration={"Status": "Perhaps"})
    refused("NotImplemented", 501, s3.put_bucket_versioning, Bucket=bucket, VersioningConfiguration={"Status": "Enabled", "MFADelete": "Enabled"})


@both_layouts
@pytest.mark.parametrize("size", [0, 5, 300_000, 5 * MIB])
def test_versions_of_a_key(s3, versioned, rng, size):
    bodies = [rng.randbytes(size) for _ in range(4)]
    ids = [put(s3, versioned, "k", data) for data in bodies]
    assert len(set(ids)) == 4 and all(len(i) <= 32 and i != "null" for i in ids)
    assert body(s3, versioned, "k") == bodies[-1]
    for version, data in zip(ids, bodies):
        got = s3.get_object(Bucket=versioned, Key="k", VersionId=version)
        assert got["Body"].read() == data and got["VersionId"] == version
        assert s3.head_object(Bucket=versioned, Key="k", VersionId=version)["ContentLength"] == size
    assert listed(s3, versioned) == [("k", i, i == ids[-1], False) for i in reversed(ids)]
    assert len(s3.list_objects_v2(Bucket=versioned)["Contents"]) == 1
    s3.delete_object(Bucket=versioned, Key="k", VersionId=ids[3])
    assert body(s3, versioned, "k") == bodies[2]
    s3.delete_object(Bucket=versioned, Key="k", VersionId=ids[0])
    assert listed(s3, versioned) == [("k", ids[2], True, False), ("k", ids[1], False, False)]
    assert status_of(s3.get_object, Bucket=versioned, Key="k", VersionId=ids[0])[:2] == (404, "NoSuchVersion")


def test_markers(s3, versioned):
    first = put(s3, versioned, "k", b"one")
    answer = s3.delete_object(Bucket=versioned, Key="k")
    marker = answer["VersionId"]
    assert answer["DeleteMarker"] is True and marker != first
    status, code, headers = status_of(s3.get_object, Bucket=versioned, Key="k")
    assert (status, code) == (404, "NoSuchKey") and headers["x-amz-delete-marker"] == "true" and headers["x-amz-version-id"] == marker
    status, code, headers = status_of(s3.get_object, Bucket=versioned, Key="k", VersionId=marker)
    assert (status, code) == (405, "MethodNotAllowed") and headers["x-amz-delete-marker"] == "true"
    assert status_of(s3.head_object, Bucket=versioned, Key="k")[0] == 404
    assert status_of(s3.head_object, Bucket=versioned, Key="k", VersionId=marker)[0] == 405
    assert status_of(s3.get_object_tagging, Bucket=versioned, Key="k", VersionId=marker)[:2] == (405, "MethodNotAllowed")
    assert body(s3, versioned, "k", VersionId=first) == b"one"
    assert "Contents" not in s3.list_objects_v2(Bucket=versioned)
    assert listed(s3, versioned) == [("k", first, False, False), ("k", marker, True, True)]
    refused("BucketNotEmpty", 409, s3.delete_bucket, Bucket=versioned)
    answer = s3.delete_object(Bucket=versioned, Key="k", VersionId=marker)
    assert answer["DeleteMarker"] is True and answer["VersionId"] == marker
    assert body(s3, versioned, "k") == b"one"
    again = s3.delete_object(Bucket=versioned, Key="nothing")  # a marker without anything below it
    assert again["DeleteMarker"] is True
    s3.delete_object(Bucket=versioned, Key="nothing", VersionId=again["VersionId"])
    s3.delete_object(Bucket=versioned, Key="k", VersionId=first)
    assert listed(s3, versioned) == []
    s3.delete_bucket(Bucket=versioned)


def test_null_versions(s3, bucket):
    s3.put_object(Bucket=bucket, Key="k", Body=b"before")
    switch(s3, bucket, "Enabled")
    assert s3.get_object(Bucket=bucket, Key="k")["VersionId"] == "null"
    second = put(s3, bucket, "k", b"second")
    assert body(s3, bucket, "k", VersionId="null") == b"before"
    switch(s3, bucket, "Suspended")
    assert s3.put_object(Bucket=bucket, Key="k", Body=b"third")["VersionId"] == "null"
    assert body(s3, bucket, "k") == b"third" == body(s3, bucket, "k", VersionId="null")
    assert listed(s3, bucket) == [("k", "null", True, False), ("k", second, False, False)]
    answer = s3.delete_object(Bucket=bucket, Key="k")  # the null version becomes a marker
    assert answer["VersionId"] == "null" and answer["DeleteMarker"] is True
    assert status_of(s3.get_object, Bucket=bucket, Key="k")[0] == 404
    assert listed(s3, bucket) == [("k", second, False, False), ("k", "null", True, True)]
    answer = s3.delete_object(Bucket=bucket, Key="k", VersionId="null")
    assert body(s3, bucket, "k") == b"second"
    switch(s3, bucket, "Enabled")
    third = put(s3, bucket, "k", b"fourth")
    assert [row[1] for row in listed(s3, bucket)] == [third, second]


def test_ids_that_are_none(s3, versioned):
    other = put(s3, versioned, "other", b"x")
    put(s3, versioned, "k", b"x")
    for bad in ("null2", "?" * 32, "../../etc", other[:-1]):
        assert status_of(s3.get_object, Bucket=versioned, Key="k", VersionId=bad)[:2] == (400, "InvalidArgument"), bad
        assert status_of(s3.delete_object, Bucket=versioned, Key="k", VersionId=bad)[:2] == (400, "InvalidArgument"), bad
    assert status_of(s3.delete_object, Bucket=versioned, Key="k", VersionId="A" * 11 + "xyz" * 7)[:2] == (400, "InvalidArgument")  # number 0
    assert status_of(s3.get_object, Bucket=versioned, Key="k", VersionId="x" * 32)[:2] == (404, "NoSuchVersion")
    assert status_of(s3.get_object, Bucket=versioned, Key="k", VersionId=other)[:2] == (404, "NoSuchVersion")
    assert status_of(s3.get_object, Bucket=versioned, Key="k", VersionId="null")[:2] == (404, "NoSuchVersion")
    assert s3.delete_object(Bucket=versioned, Key="k", VersionId=other)["ResponseMetadata"]["HTTPStatusCode"] == 204
    assert body(s3, versioned, "k") == b"x" == body(s3, versioned, "other", VersionId=other)


def test_pages(s3, versioned, rng):
    """Each page begins behind the last, also inside a key; prefixes and delimiters as for objects."""
    expected = []
    for key in ("a", "b/1", "b/2", "c"):
        ids = [put(s3, versioned, key, b"x") for _ in range(5)]
        expected += [(key, i, n == 0, False) for n, i in enumerate(reversed(ids))]
    for size in (1, 2, 3, 7, 1000):
        assert listed(s3, versioned, PaginationConfig={"PageSize": size}) == expected, size
    assert listed(s3, versioned, Prefix="b/") == expected[5:15]
    page = s3.list_object_versions(Bucket=versioned, Delimiter="/", MaxKeys=6)
    assert [p["Prefix"] for p in page["CommonPrefixes"]] == ["b/"] and len(page["Versions"]) == 5 and page["IsTruncated"]
    assert page["NextKeyMarker"] == "b/" and "NextVersionIdMarker" not in page
    rest = s3.list_object_versions(Bucket=versioned, Delimiter="/", KeyMarker="b/")
    assert [v["Key"] for v in rest["Versions"]] == ["c"] * 5
    page = s3.list_object_versions(Bucket=versioned, KeyMarker="a", VersionIdMarker=expected[2][1], MaxKeys=3)
    assert [(v["Key"], v["VersionId"]) for v in page["Versions"]] == [row[:2] for row in expected[3:6]]
    refused("InvalidArgument", 400, s3.list_object_versions, Bucket=versioned, VersionIdMarker=expected[2][1])
    refused("InvalidArgument", 400, s3.list_object_versions, Bucket=versioned, KeyMarker="a", VersionIdMarker="nonsense")


def test_copies(s3, versioned, bucket):
    old = put(s3, versioned, "k", b"old")
    put(s3, versioned, "k", b"new")
    answer = s3.copy_object(Bucket=versioned, Key="k", CopySource={"Bucket": versioned, "Key": "k", "VersionId": old})
    assert answer["CopySourceVersionId"] == old and answer["VersionId"] not in (old, "null")
    assert body(s3, versioned, "k") == b"old" and len(listed(s3, versioned)) == 3
    marker = s3.delete_object(Bucket=versioned, Key="k")["VersionId"]
    assert status_of(s3.copy_object, Bucket=versioned, Key="x", CopySource={"Bucket": versioned, "Key": "k"})[:2] == (404, "NoSuchKey")
    assert status_of(s3.copy_object, Bucket=versioned, Key="x",
                     CopySource={"Bucket": versioned, "Key": "k", "VersionId": marker})[:2] == (400, "InvalidRequest")
    put(s3, versioned, "m", b"metadata")
    s3.copy_object(Bucket=versioned, Key="m", CopySource={"Bucket": versioned, "Key": "m"}, MetadataDirective="REPLACE", Metadata={"a": "b"})
    assert s3.head_object(Bucket=versioned, Key="m")["Metadata"] == {"a": "b"} and len(listed(s3, versioned, Prefix="m")) == 2


@both_layouts
def test_uploads(s3, versioned, rng):
    first = put(s3, versioned, "k", b"small")
    data = [rng.randbytes(5 * MIB), rng.randbytes(100)]
    upload = s3.create_multipart_upload(Bucket=versioned, Key="k", Tagging="a=1")["UploadId"]
    parts = [{"PartNumber": n + 1, "ETag": s3.upload_part(Bucket=versioned, Key="k", UploadId=upload, PartNumber=n + 1, Body=d)["ETag"]}
             for n, d in enumerate(data)]
    done = s3.complete_multipart_upload(Bucket=versioned, Key="k", UploadId=upload, MultipartUpload={"Parts": parts})
    again = s3.complete_multipart_upload(Bucket=versioned, Key="k", UploadId=upload, MultipartUpload={"Parts": parts})
    assert again["VersionId"] == done["VersionId"]
    later = put(s3, versioned, "k", b"later")
    assert body(s3, versioned, "k", VersionId=done["VersionId"]) == b"".join(data)
    got = s3.get_object_attributes(Bucket=versioned, Key="k", VersionId=done["VersionId"], ObjectAttributes=["ObjectParts", "ObjectSize"])
    assert got["ObjectParts"]["TotalPartsCount"] == 2 and got["VersionId"] == done["VersionId"]
    assert s3.get_object(Bucket=versioned, Key="k", VersionId=done["VersionId"], PartNumber=2)["Body"].read() == data[1]
    assert s3.get_object_tagging(Bucket=versioned, Key="k", VersionId=done["VersionId"])["TagSet"] == [{"Key": "a", "Value": "1"}]
    assert [row[1] for row in listed(s3, versioned)] == [later, done["VersionId"], first]


def test_a_repeated_complete_under_later_versions(s3, versioned):
    """Its answer got lost; by the time it is asked again the key has other versions, and longer keys follow it."""
    upload = s3.create_multipart_upload(Bucket=versioned, Key="k")["UploadId"]
    etag = s3.upload_part(Bucket=versioned, Key="k", UploadId=upload, PartNumber=1, Body=b"x")["ETag"]
    complete = dict(Bucket=versioned, Key="k", UploadId=upload, MultipartUpload={"Parts": [{"PartNumber": 1, "ETag": etag}]})
    done = s3.complete_multipart_upload(**complete)
    put(s3, versioned, "key", b"x")
    for i in range(130):  # more than are looked at at once
        put(s3, versioned, "k", b"later")
    s3.delete_object(Bucket=versioned, Key="k")
    again = s3.complete_multipart_upload(**complete)
    assert (again["VersionId"], again["ETag"]) == (done["VersionId"], done["ETag"])
    other = {"Parts": [{"PartNumber": 1, "ETag": '"' + "0" * 32 + '"'}]}
    refused("InvalidPart", 400, s3.complete_multipart_upload, **{**complete, "MultipartUpload": other})
    s3.delete_object(Bucket=versioned, Key="k", VersionId=done["VersionId"])
    refused("NoSuchUpload", 404, s3.complete_multipart_upload, **complete)
    refused("NoSuchUpload", 404, s3.complete_multipart_upload, **{**complete, "Key": "none"})


def test_many_deleted(s3, versioned):
    ids = [put(s3, versioned, f"k{i}", b"x") for i in range(4)]
    answer = s3.delete_objects(Bucket=versioned, Delete={"Objects": [
        {"Key": "k0"}, {"Key": "k1", "VersionId": ids[1]}, {"Key": "k2", "VersionId": "nonsense"}, {"Key": "none"}]})
    deleted = {d["Key"]: d for d in answer["Deleted"]}
    assert deleted["k0"]["DeleteMarker"] is True and deleted["k0"]["DeleteMarkerVersionId"] and "VersionId" not in deleted["k0"]
    assert deleted["k1"] == {"Key": "k1", "VersionId": ids[1]}
    assert deleted["none"]["DeleteMarker"] is True
    assert [(e["Key"], e["Code"]) for e in answer["Errors"]] == [("k2", "NoSuchVersion")]
    marker = deleted["k0"]["DeleteMarkerVersionId"]
    answer = s3.delete_objects(Bucket=versioned, Delete={"Objects": [{"Key": "k0", "VersionId": marker}]})
    assert answer["Deleted"] == [{"Key": "k0", "VersionId": marker, "DeleteMarker": True, "DeleteMarkerVersionId": marker}]
    assert body(s3, versioned, "k0") == b"x"


def test_conditions(s3, versioned):
    etag = s3.put_object(Bucket=versioned, Key="k", Body=b"one")["ETag"]
    refused("PreconditionFailed", 412, s3.put_object, Bucket=versioned, Key="k", Body=b"two", IfNoneMatch="*")
    s3.put_object(Bucket=versioned, Key="k", Body=b"two", IfMatch=etag)
    refused("PreconditionFailed", 412, s3.put_object, Bucket=versioned, Key="k", Body=b"three", IfMatch=etag)
    s3.delete_object(Bucket=versioned, Key="k")
    s3.put_object(Bucket=versioned, Key="k", Body=b"four", IfNoneMatch="*")  # a marker is no object
    assert body(s3, versioned, "k") == b"four" and len(listed(s3, versioned)) == 4


def test_restarts_keep_versions():
    with Daemon(drives=4, ec="2+2").start() as daemon:
        s3 = make_client(daemon.endpoint, daemon.access_key, daemon.secret_key)
        s3.create_bucket(Bucket="bucket")
        s3.put_object(Bucket="bucket", Key="k", Body=b"null")
        switch(s3, "bucket", "Enabled")
        bodies = [b"", b"x" * 1000, b"y" * MIB]
        ids = [put(s3, "bucket", "k", data) for data in bodies]
        for end in (daemon.stop, daemon.kill):
            end()
            daemon.restart()
            s3 = make_client(daemon.endpoint, daemon.access_key, daemon.secret_key, retries=5)
            assert [row[1] for row in listed(s3, "bucket")] == ids[::-1] + ["null"]
            assert [body(s3, "bucket", "k", VersionId=i) for i in ids] == bodies and body(s3, "bucket", "k", VersionId="null") == b"null"
            assert s3.get_bucket_versioning(Bucket="bucket")["Status"] == "Enabled"
            ids.append(put(s3, "bucket", "k", b"z"))
            bodies.append(b"z")
        daemon.stop()
        shutil.rmtree(daemon.drives[1])
        daemon.restart()
        s3 = make_client(daemon.endpoint, daemon.access_key, daemon.secret_key, retries=5)
        assert [body(s3, "bucket", "k", VersionId=i) for i in ids] == bodies


def test_batches(raw, s3, versioned):
    old, new = put(s3, versioned, "k", b"old" * 50_000), put(s3, versioned, "k", b"new")
    put(s3, versioned, "gone", b"x")
    marker = s3.delete_object(Bucket=versioned, Key="gone")["VersionId"]
    cases = [(("k", ""), 200, 0, b"new", new), (("k", old), 200, 0, b"old" * 50_000, old), (("k", new), 200, 0, b"new", new),
             (("k", "null"), 404, 3, b"", ""), (("gone", ""), 404, 1, b"", ""), (("gone", marker), 405, 14, b"", ""),
             (("k", "nonsense"), 400, 8, b"", "")]
    results = ask(raw, [Entry(versioned, key, version_id=version) for (key, version), *_ in cases])
    for result, (names, status, code, data, version) in zip(results, cases):
        assert (result.status, result.code, result.data) == (status, code, data), names
        assert result.version_id == version, names
