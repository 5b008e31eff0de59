"""Answers of GET and HEAD that no other suite looks at: If-Range, storage classes, empty parts."""
import base64

import pytest

from tests.support.expect import headers_of, refused, status_of

MIB = 1 << 20
OLD, NEW = "Mon, 03 Jan 2000 00:00:00 GMT", "Fri, 01 Jan 2100 00:00:00 GMT"


def test_if_range(s3, raw, bucket):
    etag = s3.put_object(Bucket=bucket, Key="k", Body=b"0123456789")["ETag"]
    date = headers_of(s3.head_object(Bucket=bucket, Key="k"))["last-modified"]
    for validator, partial in ((etag, True), ('"0"', False), (date, True), (OLD, False), (NEW, False), ("nonsense", False),
                               ('W/' + etag, False)):
        answer = raw.request("GET", f"/{bucket}/k", headers={"Range": "bytes=2-4", "If-Range": validator})
        assert (answer.status, answer.body) == ((206, b"234") if partial else (200, b"0123456789")), (validator, answer)


def test_storage_class(s3, bucket):
    s3.put_object(Bucket=bucket, Key="k", Body=b"1", StorageClass="REDUCED_REDUNDANCY")
    for call in (s3.get_object, s3.head_object):
        assert call(Bucket=bucket, Key="k")["StorageClass"] == "REDUCED_REDUNDANCY"
    assert s3.list_objects_v2(Bucket=bucket)["Contents"][0]["StorageClass"] == "REDUCED_REDUNDANCY"
    s3.put_object(Bucket=bucket, Key="k", Body=b"1", StorageClass="STANDARD")
    assert "StorageClass" not in s3.head_object(Bucket=bucket, Key="k")
    refused("InvalidStorageClass", 400, s3.put_object, Bucket=bucket, Key="k", Body=b"1", StorageClass="COLD")


def test_part_without_bytes(s3, bucket, rng):
    """There is no range to be named, so the answer is no 206."""
    s3.put_object(Bucket=bucket, Key="empty", Body=b"")
    upload = s3.create_multipart_upload(Bucket=bucket, Key="m")["UploadId"]
    done = [{"PartNumber": n, "ETag": s3.upload_part(Bucket=bucket, Key="m", UploadId=upload, PartNumber=n, Body=body)["ETag"]}
            for n, body in ((1, rng.randbytes(5 * MIB)), (2, b""))]
    s3.complete_multipart_upload(Bucket=bucket, Key="m", UploadId=upload, MultipartUpload={"Parts": done})
    for key, number in (("empty", 1), ("m", 2)):
        got = s3.get_object(Bucket=bucket, Key=key, PartNumber=number)
        assert status_of(got) == 200 and got["ContentLength"] == 0 and "ContentRange" not in got
        assert got["Body"].read() == b""


@pytest.mark.parametrize("status", [200, 206])
def test_crc_of_large_answers_follows_them(s3, raw, bucket, rng, status):
    from tests.support.checksums import checksum
    data = rng.randbytes(5_000_000)
    s3.put_object(Bucket=bucket, Key="k", Body=data)
    headers, sent = ({}, data) if status == 200 else ({"Range": "bytes=7-4500000"}, data[7:4500001])
    answer = raw.request("GET", f"/{bucket}/k", headers=headers)
    assert (answer.status, answer.body) == (status, sent) and "x-millrace-crc32c" not in answer.headers
    answer = raw.request("GET", f"/{bucket}/k", headers={**headers, "x-millrace-crc32c": "follows"})
    assert (answer.status, answer.body[:-4]) == (status, sent) and answer.headers["x-millrace-crc32c"] == "follows"
    assert base64.b64encode(answer.body[-4:]).decode() == checksum("CRC32C", sent)
    small = raw.request("GET", f"/{bucket}/k", headers={"Range": "bytes=0-9", "x-millrace-crc32c": "follows"})
    assert small.body == data[:10] and small.headers["x-millrace-crc32c"] == checksum("CRC32C", data[:10])


@pytest.mark.parametrize("status", [200, 206])
def test_crc_of_small_answers(s3, raw, bucket, rng, status):
    from tests.support.checksums import checksum
    data = rng.randbytes(300_000)
    s3.put_object(Bucket=bucket, Key="k", Body=data)
    headers, sent = ({}, data) if status == 200 else ({"Range": "bytes=7-250000"}, data[7:250001])
    answer = raw.request("GET", f"/{bucket}/k", headers=headers)
    assert (answer.status, answer.body) == (status, sent)
    assert answer.headers["x-millrace-crc32c"] == checksum("CRC32C", sent)
