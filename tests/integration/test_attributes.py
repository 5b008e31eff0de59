"""GetObjectAttributes: what was asked for and nothing else, parts in pages, and what is refused."""
import pytest

from tests.conftest import both_layouts
from tests.support import checksums
from tests.support.expect import refused

MIB = 1 << 20
ALL = ["ETag", "Checksum", "ObjectParts", "StorageClass", "ObjectSize"]
ANSWERS = set(ALL) | {"LastModified"}


def attributes(s3, bucket, key, names=tuple(ALL), **arguments):
    return s3.get_object_attributes(Bucket=bucket, Key=key, ObjectAttributes=list(names), **arguments)


def upload(s3, bucket, key, parts, numbers=None, kind=None):
    """A multipart object; with a checksum of each part where a kind is named."""
    created = {"ChecksumAlgorithm": kind} if kind else {}
    upload_id = s3.create_multipart_upload(Bucket=bucket, Key=key, **created)["UploadId"]
    done = []
    for number, part in zip(numbers or range(1, len(parts) + 1), parts):
        sent = {checksums.field(kind): checksums.checksum(kind, part)} if kind else {}
        answer = s3.upload_part(Bucket=bucket, Key=key, UploadId=upload_id, PartNumber=number, Body=part, **sent)
        done.append({"PartNumber": number, "ETag": answer["ETag"], **sent})
    s3.complete_multipart_upload(Bucket=bucket, Key=key, UploadId=upload_id, MultipartUpload={"Parts": done})


@both_layouts
@pytest.mark.parametrize("kind", checksums.KINDS)
def test_simple_object(s3, bucket, rng, kind):
    for size in (0, 1000, 300_000):
        data = rng.randbytes(size)
        text = checksums.checksum(kind, data)
        put = s3.put_object(Bucket=bucket, Key="k", Body=data, **{checksums.field(kind): text})
        got = attributes(s3, bucket, "k")
        assert got["ETag"] == put["ETag"].strip('"')
        assert got["Checksum"] == {checksums.field(kind): text, "ChecksumType": "FULL_OBJECT"}
        assert got["ObjectSize"] == size and got["StorageClass"] == "STANDARD"
        assert "ObjectParts" not in got
        assert got["LastModified"] == s3.head_object(Bucket=bucket, Key="k")["LastModified"]


@pytest.mark.parametrize("name", ALL)
def test_only_what_was_asked_for(s3, bucket, name):
    s3.put_object(Bucket=bucket, Key="k", Body=b"abc")
    got = attributes(s3, bucket, "k", [name])
    assert ANSWERS & set(got) == ({name, "LastModified"} if name != "ObjectParts" else {"LastModified"})


def test_names_in_several_headers(raw, s3, bucket):
    s3.put_object(Bucket=bucket, Key="k", Body=b"abc")
    answer = raw.request("GET", f"/{bucket}/k", query=[("attributes", "")],
                         headers={"x-amz-object-attributes": " ETag ,ObjectSize"})
    assert answer.status == 200 and b"<ObjectSize>3<" in answer.body and b"<ETag>" in answer.body, answer
    assert b"<StorageClass>" not in answer.body


@both_layouts
def test_parts(s3, bucket, rng):
    parts = [rng.randbytes(5 * MIB), rng.randbytes(5 * MIB + 1), rng.randbytes(10)]
    upload(s3, bucket, "m", parts, numbers=(2, 30, 9999), kind="SHA256")
    got = attributes(s3, bucket, "m")
    assert got["ObjectSize"] == sum(map(len, parts))
    assert got["ETag"] == checksums.multipart_etag(parts).strip('"')
    assert got["Checksum"] == {"ChecksumSHA256": checksums.composite("SHA256", parts).split("-")[0], "ChecksumType": "COMPOSITE"}
    listed = got["ObjectParts"]
    assert (listed["TotalPartsCount"], listed["IsTruncated"], listed["PartNumberMarker"]) == (3, False, 0)
    assert listed["Parts"] == [{"PartNumber": number, "Size": len(part), "ChecksumSHA256": checksums.checksum("SHA256", part)}
                               for number, part in zip((2, 30, 9999), parts)]


def test_parts_in_pages(s3, bucket, rng):
    parts = [rng.randbytes(5 * MIB), rng.randbytes(5 * MIB), rng.randbytes(1)]
    upload(s3, bucket, "m", parts, numbers=(1, 5, 6))
    first = attributes(s3, bucket, "m", MaxParts=2)["ObjectParts"]
    assert [part["PartNumber"] for part in first["Parts"]] == [1, 5]
    assert (first["IsTruncated"], first["NextPartNumberMarker"], first["MaxParts"]) == (True, 5, 2)
    second = attributes(s3, bucket, "m", PartNumberMarker=5)["ObjectParts"]
    assert [part["PartNumber"] for part in second["Parts"]] == [6]
    assert (second["IsTruncated"], second["PartNumberMarker"], second["TotalPartsCount"]) == (False, 5, 3)
    beyond = attributes(s3, bucket, "m", PartNumberMarker=10000)["ObjectParts"]
    assert "Parts" not in beyond and not beyond["IsTruncated"]


def test_refusals(s3, raw, bucket):
    refused("NoSuchKey", 404, attributes, s3, bucket, "nothing")
    refused("NoSuchBucket", 404, attributes, s3, bucket + "-not", "k")
    s3.put_object(Bucket=bucket, Key="k", Body=b"abc")
    refused("InvalidArgument", 400, attributes, s3, bucket, "k", VersionId="x")
    assert attributes(s3, bucket, "k", VersionId="null")["ObjectSize"] == 3
    for headers in ({}, {"x-amz-object-attributes": ""}):
        answer = raw.request("GET", f"/{bucket}/k", query=[("attributes", "")], headers=headers)
        assert (answer.status, answer.code) == (400, "InvalidRequest"), (headers, answer)
    for headers in ({"x-amz-object-attributes": "ETag,Nothing"},
                    {"x-amz-object-attributes": "etag"}, {"x-amz-object-attributes": "ETag", "x-amz-max-parts": "x"},
                    {"x-amz-object-attributes": "ETag", "x-amz-part-number-marker": "-1"}):
        answer = raw.request("GET", f"/{bucket}/k", query=[("attributes", "")], headers=headers)
        assert (answer.status, answer.code) == (400, "InvalidArgument"), (headers, answer)
