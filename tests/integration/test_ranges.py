"""Ranges in all forms, on small (inline) and large (striped) objects, and partNumber."""
import pytest

from tests.conftest import both_layouts
from tests.support import checksums
from tests.support.expect import headers_of, refused, status_of

MIB = 1 << 20


def put(s3, bucket, rng, size):
    data = rng.randbytes(size)
    s3.put_object(Bucket=bucket, Key="k", Body=data)
    return data


@both_layouts
@pytest.mark.parametrize("size", [10, 70000, 128 * 1024, 3 * MIB + 77, 9 * MIB])
def test_forms(s3, raw, bucket, rng, size):
    data = put(s3, bucket, rng, size)
    half = size // 2
    cases = {
        "bytes=0-0": (0, 0), "bytes=0-": (0, size - 1), f"bytes={half}-": (half, size - 1), f"bytes={size - 1}-": (size - 1, size - 1),
        f"bytes=0-{size - 1}": (0, size - 1), f"bytes=0-{size + 100}": (0, size - 1), f"bytes=3-{half}": (3, half),
        "bytes=-1": (size - 1, size - 1), f"bytes=-{half}": (size - half, size - 1), f"bytes=-{size * 2}": (0, size - 1),
        "bytes=5-99999999999999999999": (5, size - 1),
    }
    for text, (first, last) in cases.items():
        answer = raw.request("GET", f"/{bucket}/k", headers={"Range": text})
        assert answer.status == 206, (text, answer)
        assert answer.headers["content-range"] == f"bytes {first}-{last}/{size}", text
        assert answer.headers["content-length"] == str(last - first + 1), text
        assert answer.body == data[first:last + 1], text
        head = raw.request("HEAD", f"/{bucket}/k", headers={"Range": text})
        assert head.status == 206 and head.headers["content-range"] == f"bytes {first}-{last}/{size}", text
        assert head.headers["content-length"] == str(last - first + 1), text
        assert answer.headers["etag"] == head.headers["etag"] == checksums.etag(data)


@pytest.mark.parametrize("text", ["bytes=10-", "bytes=10-20", "bytes=-0", "bytes=999999999999-"])
def test_unsatisfiable(s3, raw, bucket, rng, text):
    put(s3, bucket, rng, 10)
    answer = raw.request("GET", f"/{bucket}/k", headers={"Range": text})
    assert (answer.status, answer.code) == (416, "InvalidRange"), answer
    assert answer.headers.get("content-range") in (None, "bytes */10")
    assert answer.xml.findtext("ActualObjectSize") == "10"
    assert answer.xml.findtext("RangeRequested") == text


@pytest.mark.parametrize("text", ["bytes=5-3", "bytes=", "bytes", "bytes=a-b", "bytes=-", "bytes=1", "items=0-1", "bytes=0-1,3-4", "5-6",
                                  "bytes= 1-2x", "bytes= 1-2", "bytes= -1", "bytes=1 -2", "bytes=0-0,", ""])
def test_ignored(s3, raw, bucket, rng, text):
    """What is no single valid byte range is ignored: the whole object, 200."""
    data = put(s3, bucket, rng, 10)
    answer = raw.request("GET", f"/{bucket}/k", headers={"Range": text})
    assert (answer.status, answer.body) == (200, data), answer


def test_empty_object(s3, raw, bucket):
    s3.put_object(Bucket=bucket, Key="k", Body=b"")
    for text in ("bytes=0-", "bytes=0-0", "bytes=-0"):
        answer = raw.request("GET", f"/{bucket}/k", headers={"Range": text})
        assert (answer.status, answer.code) == (416, "InvalidRange"), (text, answer)
    answer = raw.request("GET", f"/{bucket}/k", headers={"Range": "bytes=-5"})  # the last five of none
    assert (answer.status, answer.body, answer.headers.get("content-range")) == (200, b"", None), answer


@both_layouts
def test_random_ranges(s3, bucket, rng):
    data = put(s3, bucket, rng, 7 * MIB + 12345)
    borders = [0, 4096, 16384, MIB, 2 * MIB, 4 * MIB, 6 * MIB, len(data)]
    for _ in range(60):
        near = rng.choice(borders)
        first = min(max(0, near + rng.randint(-3, 3)), len(data) - 1) if rng.random() < 0.5 else rng.randrange(len(data))
        last = min(len(data) - 1, first + rng.choice([0, 1, 100, 4095, 4096, 70000, MIB, 3 * MIB]))
        got = s3.get_object(Bucket=bucket, Key="k", Range=f"bytes={first}-{last}")
        assert got["Body"].read() == data[first:last + 1], (first, last)
        assert got["ContentRange"] == f"bytes {first}-{last}/{len(data)}"


def test_no_checksum_on_a_part_of_an_object(s3, bucket, rng):
    """A full-object checksum on a 206 makes correct clients fail."""
    put(s3, bucket, rng, 100000)
    got = s3.get_object(Bucket=bucket, Key="k", Range="bytes=0-9", ChecksumMode="ENABLED")
    assert not [name for name in headers_of(got) if name.startswith("x-amz-checksum-")]
    assert len(got["Body"].read()) == 10


def test_range_with_a_condition_that_fails(s3, bucket, rng):
    put(s3, bucket, rng, 100)
    refused("PreconditionFailed", 412, s3.get_object, Bucket=bucket, Key="k", Range="bytes=0-9", IfMatch='"0"')


@both_layouts
def test_part_number(s3, bucket, rng):
    parts = [rng.randbytes(5 * MIB), rng.randbytes(5 * MIB + 1), rng.randbytes(1000)]
    upload = s3.create_multipart_upload(Bucket=bucket, Key="m")["UploadId"]
    done = [{"PartNumber": n, "ETag": s3.upload_part(Bucket=bucket, Key="m", UploadId=upload, PartNumber=n, Body=part)["ETag"]}
            for n, part in zip((1, 4, 7), parts)]
    s3.complete_multipart_upload(Bucket=bucket, Key="m", UploadId=upload, MultipartUpload={"Parts": done})
    whole = b"".join(parts)
    offset = 0
    for number, part in zip((1, 4, 7), parts):
        got = s3.get_object(Bucket=bucket, Key="m", PartNumber=number)
        assert status_of(got) == 206 and got["PartsCount"] == 3
        assert got["ContentRange"] == f"bytes {offset}-{offset + len(part) - 1}/{len(whole)}"
        assert got["Body"].read() == part
        head = s3.head_object(Bucket=bucket, Key="m", PartNumber=number)
        assert head["ContentLength"] == len(part) and head["PartsCount"] == 3
        offset += len(part)
    refused("InvalidPartNumber", 416, s3.get_object, Bucket=bucket, Key="m", PartNumber=2)
    for border in (5 * MIB - 1, 5 * MIB, 10 * MIB, 10 * MIB + 1):
        got = s3.get_object(Bucket=bucket, Key="m", Range=f"bytes={border - 5}-{border + 5}")
        assert got["Body"].read() == whole[border - 5:border + 6]


def test_part_number_of_a_simple_object(s3, raw, bucket, rng):
    data = put(s3, bucket, rng, 1000)
    got = s3.get_object(Bucket=bucket, Key="k", PartNumber=1)
    assert status_of(got) == 206 and got["Body"].read() == data
    refused("InvalidPartNumber", 416, s3.get_object, Bucket=bucket, Key="k", PartNumber=2)
    answer = raw.request("GET", f"/{bucket}/k", query=[("partNumber", "1")], headers={"Range": "bytes=0-1"})
    assert (answer.status, answer.code) == (400, "InvalidRequest"), answer
    for bad in ("0", "-1", "10001", "x", ""):
        answer = raw.request("GET", f"/{bucket}/k", query=[("partNumber", bad)])
        assert (answer.status, answer.code) == (400, "InvalidArgument"), (bad, answer)
