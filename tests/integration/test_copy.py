"""CopyObject: directives, conditions, odd names, copies onto itself, refusals."""
import datetime
import urllib.parse

import pytest

from tests.conftest import both_layouts
from tests.support import checksums
from tests.support.expect import absent, read, refused

MIB = 1 << 20
LONG_AGO = datetime.datetime(2001, 1, 1, tzinfo=datetime.timezone.utc)


def copy(s3, bucket, key, source, **arguments):
    return s3.copy_object(Bucket=bucket, Key=key, CopySource={"Bucket": arguments.pop("source_bucket", bucket), "Key": source}, **arguments)


@both_layouts
@pytest.mark.parametrize("size", [0, 10, 128 * 1024, 128 * 1024 + 1, 5 * MIB + 7])
def test_copy(s3, bucket, rng, size):
    data = rng.randbytes(size)
    s3.put_object(Bucket=bucket, Key="src", Body=data, ContentType="a/b", Metadata={"m": "1"}, CacheControl="no-store")
    answer = copy(s3, bucket, "dst", "src")
    assert answer["CopyObjectResult"]["ETag"] == checksums.etag(data) and answer["CopyObjectResult"]["LastModified"]
    got = s3.get_object(Bucket=bucket, Key="dst")
    assert got["Body"].read() == data
    assert (got["ContentType"], got["Metadata"], got["CacheControl"]) == ("a/b", {"m": "1"}, "no-store")
    s3.delete_object(Bucket=bucket, Key="src")
    assert read(s3, bucket, "dst") == data


def test_replace(s3, bucket):
    s3.put_object(Bucket=bucket, Key="src", Body=b"x", ContentType="a/b", Metadata={"m": "1"})
    copy(s3, bucket, "dst", "src", MetadataDirective="REPLACE", Metadata={"n": "2"}, ContentType="c/d")
    head = s3.head_object(Bucket=bucket, Key="dst")
    assert head["Metadata"] == {"n": "2"} and head["ContentType"] == "c/d"
    copy(s3, bucket, "dst2", "src", Metadata={"n": "2"}, ContentType="c/d")  # without the directive they are ignored
    head = s3.head_object(Bucket=bucket, Key="dst2")
    assert head["Metadata"] == {"m": "1"} and head["ContentType"] == "a/b"
    refused("InvalidArgument", 400, copy, s3, bucket, "dst3", "src", MetadataDirective="OTHER")
    assert absent(s3, bucket, "dst3")


def test_onto_itself(s3, bucket, rng):
    for size in (10, 3 * MIB):
        data = rng.randbytes(size)
        s3.put_object(Bucket=bucket, Key="k", Body=data, Metadata={"m": "1"})
        refused("InvalidRequest", 400, copy, s3, bucket, "k", "k")
        copy(s3, bucket, "k", "k", MetadataDirective="REPLACE", Metadata={"m": "2"})
        got = s3.get_object(Bucket=bucket, Key="k")
        assert got["Metadata"] == {"m": "2"} and got["Body"].read() == data


def test_between_buckets(s3, bucket):
    other = f"{bucket}-other"
    s3.create_bucket(Bucket=other)
    s3.put_object(Bucket=other, Key="src", Body=b"x")
    copy(s3, bucket, "src", "src", source_bucket=other)
    assert read(s3, bucket, "src") == b"x"


@pytest.mark.parametrize("name", ["a b", "a+b", "a%20b", "é/日本", "a?b", "a#b", "a&b", "//x", "a/../b", "q?versionId=1", "k" * 1024])
def test_odd_source_names(s3, bucket, name):
    s3.put_object(Bucket=bucket, Key=name, Body=name.encode())
    copy(s3, bucket, "dst", name)
    assert read(s3, bucket, "dst") == name.encode()


def test_forms_of_the_source_header(s3, raw, bucket):
    s3.put_object(Bucket=bucket, Key="a+b c", Body=b"x")
    quoted = urllib.parse.quote("a+b c")
    for text in (f"{bucket}/{quoted}", f"/{bucket}/{quoted}", f"/{bucket}%2F{quoted}", f"{bucket}/{quoted}?versionId=null"):
        answer = raw.request("PUT", f"/{bucket}/dst", headers={"x-amz-copy-source": text})
        assert answer.status == 200, (text, answer)
        assert read(s3, bucket, "dst") == b"x"


@pytest.mark.parametrize("text", ["", "/", "nobucket", "nobucket/", "/x", "%zz/k", "//k"])
def test_malformed_source(s3, raw, bucket, text):
    answer = raw.request("PUT", f"/{bucket}/dst", headers={"x-amz-copy-source": text})
    assert answer.status in (400, 404) and answer.code in ("InvalidArgument", "NoSuchBucket", "NoSuchKey", "InvalidBucketName"), answer
    assert absent(s3, bucket, "dst")


def test_missing_sources(s3, bucket):
    refused("NoSuchKey", 404, copy, s3, bucket, "dst", "none")
    refused("NoSuchBucket", 404, copy, s3, bucket, "dst", "k", source_bucket="no-such-bucket-here")
    s3.put_object(Bucket=bucket, Key="k", Body=b"x")
    refused("NoSuchBucket", 404, copy, s3, "no-such-bucket-here", "dst", "k", source_bucket=bucket)


def test_a_version_that_never_was(s3, raw, bucket):
    """There is only 'null' in a bucket without versions; AWS says InvalidArgument to an id it could not have given."""
    s3.put_object(Bucket=bucket, Key="k", Body=b"x")
    for source in (f"/{bucket}/k?versionId=x", f"/{bucket}/k?versionId=" + "a" * 32):
        answer = raw.request("PUT", f"/{bucket}/dst", headers={"x-amz-copy-source": source})
        assert (answer.status, answer.code) in [(400, "InvalidArgument"), (404, "NoSuchVersion")], answer
    assert absent(s3, bucket, "dst")


def test_conditions(s3, bucket):
    etag = s3.put_object(Bucket=bucket, Key="k", Body=b"x")["ETag"]
    now = s3.head_object(Bucket=bucket, Key="k")["LastModified"]
    good = [dict(CopySourceIfMatch=etag), dict(CopySourceIfNoneMatch='"0"'), dict(CopySourceIfModifiedSince=LONG_AGO),
            dict(CopySourceIfUnmodifiedSince=now), dict(CopySourceIfMatch=etag, CopySourceIfUnmodifiedSince=LONG_AGO)]
    bad = [dict(CopySourceIfMatch='"0"'), dict(CopySourceIfNoneMatch=etag), dict(CopySourceIfModifiedSince=now),
           dict(CopySourceIfUnmodifiedSince=LONG_AGO), dict(CopySourceIfNoneMatch=etag, CopySourceIfModifiedSince=LONG_AGO)]
    for conditions in bad:
        refused("PreconditionFailed", 412, copy, s3, bucket, "dst", "k", **conditions)
    assert absent(s3, bucket, "dst")
    for conditions in good:
        copy(s3, bucket, "dst", "k", **conditions)


def test_conditions_on_the_destination(s3, bucket):
    s3.put_object(Bucket=bucket, Key="k", Body=b"x")
    old = s3.put_object(Bucket=bucket, Key="dst", Body=b"old")["ETag"]
    refused("PreconditionFailed", 412, copy, s3, bucket, "dst", "k", IfNoneMatch="*")
    refused("PreconditionFailed", 412, copy, s3, bucket, "dst", "k", IfMatch='"00000000000000000000000000000000"')
    assert read(s3, bucket, "dst") == b"old"
    copy(s3, bucket, "dst", "k", IfMatch=old)
    assert read(s3, bucket, "dst") == b"x"


def test_of_a_multipart_object(s3, bucket, rng):
    """The copy is one object with a plain MD5 for its ETag."""
    parts = [rng.randbytes(5 * MIB), b"end"]
    upload = s3.create_multipart_upload(Bucket=bucket, Key="m")["UploadId"]
    done = [{"PartNumber": n, "ETag": s3.upload_part(Bucket=bucket, Key="m", UploadId=upload, PartNumber=n, Body=p)["ETag"]}
            for n, p in enumerate(parts, 1)]
    s3.complete_multipart_upload(Bucket=bucket, Key="m", UploadId=upload, MultipartUpload={"Parts": done})
    whole = b"".join(parts)
    assert copy(s3, bucket, "dst", "m")["CopyObjectResult"]["ETag"] == checksums.etag(whole)
    assert read(s3, bucket, "dst") == whole


def test_checksum_of_a_copy(s3, bucket):
    s3.put_object(Bucket=bucket, Key="k", Body=b"x", ChecksumAlgorithm="SHA1")
    kept = copy(s3, bucket, "dst", "k")["CopyObjectResult"]
    assert kept["ChecksumSHA1"] == checksums.checksum("SHA1", b"x")
    other = copy(s3, bucket, "dst", "k", ChecksumAlgorithm="SHA256")["CopyObjectResult"]
    assert other["ChecksumSHA256"] == checksums.checksum("SHA256", b"x")
    head = s3.head_object(Bucket=bucket, Key="dst", ChecksumMode="ENABLED")
    assert head["ChecksumSHA256"] == checksums.checksum("SHA256", b"x")
