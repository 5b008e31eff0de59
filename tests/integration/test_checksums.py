"""Checksums of all kinds, in headers and trailers: good ones kept and returned, bad ones refused with nothing stored."""
import pytest

from tests.conftest import both_layouts
from tests.support import checksums
from tests.support.expect import headers_of, keys_of
from tests.support.s3raw import STREAMING_TRAILER, STREAMING_UNSIGNED_TRAILER, error_shape

SIZES = [0, 5, 200_000, 2_500_000]


def put(raw, bucket, body, headers=None, key="k", **how):
    return raw.request("PUT", f"/{bucket}/{key}", headers=headers or {}, body=body, **how)


@both_layouts
@pytest.mark.parametrize("kind", checksums.KINDS)
def test_good_header(s3, raw, bucket, rng, kind):
    for size in SIZES:
        data = rng.randbytes(size)
        text = checksums.checksum(kind, data)
        answer = put(raw, bucket, data, {checksums.header(kind): text})
        assert answer.status == 200, answer
        assert answer.headers[checksums.header(kind)] == text and answer.headers["x-amz-checksum-type"] == "FULL_OBJECT"
        plain = s3.head_object(Bucket=bucket, Key="k")
        assert checksums.field(kind) not in plain
        for call in (s3.head_object, s3.get_object):
            got = call(Bucket=bucket, Key="k", ChecksumMode="ENABLED")
            assert got[checksums.field(kind)] == text and got["ChecksumType"] == "FULL_OBJECT"
        assert got["Body"].read() == data


@pytest.mark.parametrize("kind", checksums.KINDS)
def test_bad_header(s3, raw, bucket, kind):
    wrong = checksums.checksum(kind, b"other")
    answer = put(raw, bucket, b"data", {checksums.header(kind): wrong})
    assert (answer.status, error_shape(answer)) == (400, "BadDigest"), answer
    answer = put(raw, bucket, bytes(300_000), {checksums.header(kind): wrong})
    assert (answer.status, answer.code) == (400, "BadDigest"), answer
    for text in ("", "x", "AAAA", "!!!!", checksums.checksum(kind, b"data") + "AAAA", checksums.checksum(kind, b"data")[:-2]):
        answer = put(raw, bucket, b"data", {checksums.header(kind): text})
        assert (answer.status, answer.code) == (400, "InvalidRequest"), (text, answer)
    assert keys_of(s3, bucket) == []


@both_layouts
@pytest.mark.parametrize("payload", [STREAMING_UNSIGNED_TRAILER, STREAMING_TRAILER])
@pytest.mark.parametrize("kind", checksums.KINDS)
def test_good_trailer(s3, raw, bucket, rng, kind, payload):
    for size in SIZES:
        data = rng.randbytes(size)
        text = checksums.checksum(kind, data)
        answer = put(raw, bucket, data, payload=payload, trailers=[(checksums.header(kind), text)])
        assert answer.status == 200, answer
        assert answer.headers[checksums.header(kind)] == text
        got = s3.get_object(Bucket=bucket, Key="k", ChecksumMode="ENABLED")
        assert got[checksums.field(kind)] == text and got["Body"].read() == data
        assert "ContentEncoding" not in got or "aws-chunked" not in got["ContentEncoding"]


@pytest.mark.parametrize("payload", [STREAMING_UNSIGNED_TRAILER, STREAMING_TRAILER])
def test_bad_trailers(s3, raw, bucket, payload):
    name = "x-amz-checksum-crc32"
    good = checksums.checksum("CRC32", b"data")

    def refused(codes, statuses=(400,), **how):
        answer = put(raw, bucket, b"data", payload=payload, **how)
        assert answer.status in statuses and error_shape(answer) in codes, answer

    refused({"BadDigest"}, trailers=[(name, checksums.checksum("CRC32", b"other"))])
    refused({"MalformedTrailerError"}, headers={"x-amz-trailer": name})  # announced, not sent
    refused({"MalformedTrailerError", "InvalidRequest"}, trailers=[(name, "nonsense")])
    refused({"MalformedTrailerError", "InvalidRequest"}, headers={"x-amz-trailer": "x-amz-checksum-sha1"}, trailers=[(name, good)])
    refused({"MalformedTrailerError", "InvalidRequest"}, headers={"x-amz-trailer": "x-amz-other"}, trailers=[("x-amz-other", "1")])
    assert keys_of(s3, bucket) == []


def test_unknown_kinds(s3, raw, bucket):
    """A checksum that is not computed is refused: nothing is stored unchecked."""
    name = "x-amz-checksum-md4"
    answer = put(raw, bucket, b"x", {name: "eA=="})
    assert (answer.status, error_shape(answer)) == (501, "NotImplemented"), answer
    answer = put(raw, bucket, b"x", {"x-amz-sdk-checksum-algorithm": "MD4"})
    assert (answer.status, error_shape(answer)) == (400, "InvalidRequest"), answer
    answer = put(raw, bucket, b"x", payload=STREAMING_UNSIGNED_TRAILER, trailers=[(name, "eA==")])
    assert (answer.status, error_shape(answer)) == (400, "InvalidRequest"), answer
    answer = raw.request("POST", f"/{bucket}/k", query=[("uploads", "")], headers={"x-amz-checksum-algorithm": "MD4"})
    assert (answer.status, error_shape(answer)) == (400, "InvalidRequest"), answer
    assert keys_of(s3, bucket) == []


def test_one_kind_at_a_time(s3, raw, bucket):
    both = {checksums.header(kind): checksums.checksum(kind, b"x") for kind in ("CRC32", "SHA1")}
    answer = put(raw, bucket, b"x", both)
    assert (answer.status, answer.code) == (400, "InvalidRequest"), answer
    assert keys_of(s3, bucket) == []


def test_algorithm_named_but_not_given(s3, raw, bucket):
    answer = put(raw, bucket, b"x", {"x-amz-sdk-checksum-algorithm": "CRC32"})
    assert (answer.status, answer.code) == (400, "InvalidRequest"), answer
    answer = put(raw, bucket, b"x", {"x-amz-sdk-checksum-algorithm": "SHA1", checksums.header("CRC32"): checksums.checksum("CRC32", b"x")})
    assert answer.status in (200, 400), answer
    answer = put(raw, bucket, b"x", {"x-amz-sdk-checksum-algorithm": "MD4"})
    assert (answer.status, answer.code) == (400, "InvalidRequest"), answer


@both_layouts
def test_crc64nvme_where_none_was_sent(s3, raw, bucket, rng):
    for size in SIZES:
        data = rng.randbytes(size)
        answer = put(raw, bucket, data)
        text = checksums.checksum("CRC64NVME", data)
        assert answer.headers.get("x-amz-checksum-crc64nvme") == text, answer
        got = s3.head_object(Bucket=bucket, Key="k", ChecksumMode="ENABLED")
        assert got["ChecksumCRC64NVME"] == text and got["ChecksumType"] == "FULL_OBJECT"


def test_no_checksum_unless_asked(s3, bucket):
    s3.put_object(Bucket=bucket, Key="k", Body=b"x")
    assert not [h for h in headers_of(s3.get_object(Bucket=bucket, Key="k", ChecksumMode="ENABLED", Range="bytes=0-0"))
                if h.startswith("x-amz-checksum-")]


def sums_of(answer):
    return {name: value for name, value in headers_of(answer).items() if name.startswith("x-amz-checksum-")}


KINDS_AND_TYPES = [(None, None)] + [(kind, "COMPOSITE") for kind in checksums.COMPOSITE_KINDS] + [(kind, "FULL_OBJECT") for kind in checksums.FULL_OBJECT_KINDS]


@both_layouts
@pytest.mark.parametrize("kind, of", KINDS_AND_TYPES)
def test_checksums_of_parts(s3, bucket, rng, kind, of):
    """GET and HEAD of a part give its own checksum and the type of the object's, and GetObjectAttributes the same."""
    parts = {2: rng.randbytes(5 << 20), 3: rng.randbytes(5 << 20), 7: rng.randbytes(1234)}
    created = {"ChecksumAlgorithm": kind, "ChecksumType": of} if kind else {}
    upload = s3.create_multipart_upload(Bucket=bucket, Key="k", **created)["UploadId"]
    kind, of = kind or "CRC64NVME", of or "FULL_OBJECT"
    texts = {number: checksums.checksum(kind, data) for number, data in parts.items()}
    done = []
    for number, data in parts.items():
        given = {checksums.field(kind): texts[number]} if created else {}
        etag = s3.upload_part(Bucket=bucket, Key="k", UploadId=upload, PartNumber=number, Body=data, **given)["ETag"]
        done.append({"PartNumber": number, "ETag": etag, **given})
    s3.complete_multipart_upload(Bucket=bucket, Key="k", UploadId=upload, MultipartUpload={"Parts": done})
    for number, data in parts.items():
        wanted = {checksums.header(kind): texts[number], "x-amz-checksum-type": of}
        got = s3.get_object(Bucket=bucket, Key="k", PartNumber=number, ChecksumMode="ENABLED")
        assert sums_of(got) == wanted and got["PartsCount"] == 3 and got["Body"].read() == data
        assert sums_of(s3.head_object(Bucket=bucket, Key="k", PartNumber=number, ChecksumMode="ENABLED")) == wanted
        assert not sums_of(s3.head_object(Bucket=bucket, Key="k", PartNumber=number))
    named = s3.get_object_attributes(Bucket=bucket, Key="k", ObjectAttributes=["ObjectParts", "Checksum"])
    assert {p["PartNumber"]: p[checksums.field(kind)] for p in named["ObjectParts"]["Parts"]} == texts
    assert named["Checksum"]["ChecksumType"] == of
    whole = b"".join(parts.values())
    text = checksums.composite(kind, list(parts.values())) if of == "COMPOSITE" else checksums.checksum(kind, whole)
    assert sums_of(s3.head_object(Bucket=bucket, Key="k", ChecksumMode="ENABLED")) == {checksums.header(kind): text, "x-amz-checksum-type": of}
    at = 0
    for number, data in parts.items():
        wanted, end = {checksums.header(kind): texts[number], "x-amz-checksum-type": of}, at + len(data)
        ranged = s3.get_object(Bucket=bucket, Key="k", Range=f"bytes={at}-{end - 1}", ChecksumMode="ENABLED")
        assert sums_of(ranged) == wanted and "PartsCount" not in ranged and ranged["Body"].read() == data
        assert sums_of(s3.head_object(Bucket=bucket, Key="k", Range=f"bytes={at}-{end - 1}", ChecksumMode="ENABLED")) == wanted
        for first, last in ((at, end - 2), (at + 1, end - 1), (at - 1, end - 1), (at, end)):
            if first >= 0 and last < len(whole):
                ranged = s3.get_object(Bucket=bucket, Key="k", Range=f"bytes={first}-{last}", ChecksumMode="ENABLED")
                assert not sums_of(ranged) and ranged["Body"].read() == whole[first:last + 1], (first, last)
        at = end
    assert not sums_of(s3.head_object(Bucket=bucket, Key="k", Range="bytes=0-", ChecksumMode="ENABLED"))
    assert sums_of(s3.head_object(Bucket=bucket, Key="k", Range="bytes=-1234", ChecksumMode="ENABLED"))[checksums.header(kind)] == texts[7]


def test_checksum_of_a_part_behind_one_without_bytes(s3, bucket):
    """Only the last part may be small, so the one without bytes is it: its range names nothing, and the part before it has its own."""
    data = b"p" * (5 << 20)
    upload = s3.create_multipart_upload(Bucket=bucket, Key="k", ChecksumAlgorithm="CRC32")["UploadId"]
    done = [{"PartNumber": n, "ETag": (a := s3.upload_part(Bucket=bucket, Key="k", UploadId=upload, PartNumber=n, Body=body,
                                                           ChecksumAlgorithm="CRC32"))["ETag"], "ChecksumCRC32": a["ChecksumCRC32"]}
            for n, body in ((1, data), (2, b""))]
    s3.complete_multipart_upload(Bucket=bucket, Key="k", UploadId=upload, MultipartUpload={"Parts": done})
    got = s3.get_object(Bucket=bucket, Key="k", Range="bytes=0-", ChecksumMode="ENABLED")
    assert sums_of(got)["x-amz-checksum-crc32"] == checksums.checksum("CRC32", data) and got["Body"].read() == data


@both_layouts
@pytest.mark.parametrize("kind", checksums.KINDS)
def test_checksum_of_the_only_part(s3, bucket, rng, kind):
    """An object that was not made of parts is its own part 1."""
    for size in (0, 100, 300_000):
        data = rng.randbytes(size)
        s3.put_object(Bucket=bucket, Key="k", Body=data, **{checksums.field(kind): checksums.checksum(kind, data)})
        wanted = {checksums.header(kind): checksums.checksum(kind, data), "x-amz-checksum-type": "FULL_OBJECT"}
        got = s3.get_object(Bucket=bucket, Key="k", PartNumber=1, ChecksumMode="ENABLED")
        assert sums_of(got) == wanted and got["Body"].read() == data
        assert sums_of(s3.head_object(Bucket=bucket, Key="k", PartNumber=1, ChecksumMode="ENABLED")) == wanted


def test_sha256_of_the_payload(s3, raw, bucket):
    answer = put(raw, bucket, b"data", content_sha256="0" * 64)
    assert (answer.status, error_shape(answer)) == (400, "XAmzContentSHA256Mismatch"), answer
    answer = put(raw, bucket, bytes(1_000_000), content_sha256="0" * 64)
    assert (answer.status, answer.code) == (400, "XAmzContentSHA256Mismatch"), answer
    assert keys_of(s3, bucket) == []


def test_a_failed_overwrite_leaves_the_old(s3, raw, bucket):
    s3.put_object(Bucket=bucket, Key="k", Body=b"old")
    for size in (5, 500_000):
        put(raw, bucket, bytes(size), {"x-amz-checksum-crc32": checksums.checksum("CRC32", b"other")})
        assert s3.get_object(Bucket=bucket, Key="k")["Body"].read() == b"old"
