"""Requests that mean something other than what they seem to, and are refused instead of taken for something else."""
import base64
import hashlib
import time

import pytest
from botocore.exceptions import ClientError

from tests.support.expect import absent, keys_of, read
from tests.support.s3raw import STREAMING_UNSIGNED_TRAILER, UNSIGNED, error_shape

MIB = 1 << 20
KEY = hashlib.sha256(b"a key").digest()
SSE_C = {"x-amz-server-side-encryption-customer-algorithm": "AES256",
         "x-amz-server-side-encryption-customer-key": base64.b64encode(KEY).decode(),
         "x-amz-server-side-encryption-customer-key-md5": base64.b64encode(hashlib.md5(KEY).digest()).decode()}


# ---- uploads ------------------------------------------------------------------------------------------------


def test_a_slow_upload_that_is_refused_gets_its_answer(raw, bucket):
    """Slower than a refused body is waited for, and still sending when the answer comes: no reset, and no answer lost."""
    head, body = raw.build("PUT", "/no-such-bucket-here/k", body=b"x" * 100_000, payload=UNSIGNED)
    with raw.connect() as connection:
        connection.send(head)
        for _ in range(60):
            connection.send(body[:10])  # raises where the connection was reset
            time.sleep(0.1)
        answer = connection.answer("PUT")
    assert (answer.status, answer.code) == (404, "NoSuchBucket"), answer


@pytest.mark.parametrize("method, query", [("PUT", []), ("POST", [("uploads", "")]), ("PUT", [("partNumber", "1"), ("uploadId", "0" * 32)]),
                                           ("POST", [("uploadId", "0" * 32)]), ("GET", [("uploadId", "0" * 32)]),
                                           ("DELETE", [("uploadId", "0" * 32)])])
@pytest.mark.parametrize("version", ["", "null", "3HL4kqtJlcpXroDTDmJ+rmSpXd3dIbrHY"])
def test_writes_take_no_version(raw, s3, bucket, method, query, version):
    s3.put_object(Bucket=bucket, Key="k", Body=b"old")
    answer = raw.request(method, f"/{bucket}/k", query=query + [("versionId", version)], body=b"new" if method == "PUT" else b"")
    assert (answer.status, error_shape(answer)) == (400, "InvalidArgument"), answer
    assert (answer.xml.findtext("ArgumentName"), answer.xml.findtext("ArgumentValue") or "") == ("versionId", version), answer
    assert read(s3, bucket, "k") == b"old"


def test_a_copy_takes_no_version(raw, s3, bucket):
    s3.put_object(Bucket=bucket, Key="k", Body=b"old")
    answer = raw.request("PUT", f"/{bucket}/l", query=[("versionId", "null")], headers={"x-amz-copy-source": f"/{bucket}/k"})
    assert (answer.status, answer.code) == (400, "InvalidArgument") and absent(s3, bucket, "l"), answer


@pytest.mark.parametrize("encoding, kept", [("x-aws-chunked-y", "x-aws-chunked-y"), ("aws-chunkedx", "aws-chunkedx"), ("gzip,xaws-chunked", "gzip,xaws-chunked"),
                                            ("aws-chunked;q=1", "aws-chunked;q=1")])
def test_encodings_that_only_look_like_aws_chunked(raw, s3, bucket, encoding, kept):
    body = b"5\r\nhello\r\n0\r\n\r\n"
    assert raw.request("PUT", f"/{bucket}/k", body=body, payload=UNSIGNED, headers={"content-encoding": encoding}).status == 200
    answer = s3.get_object(Bucket=bucket, Key="k")
    assert (answer["Body"].read(), answer["ContentEncoding"]) == (body, kept)


@pytest.mark.parametrize("encoding, kept", [("aws-chunked", None), ("gzip , AWS-Chunked", "gzip"), (",aws-chunked,br", "br")])
def test_encodings_with_aws_chunked_among_them(raw, s3, bucket, encoding, kept):
    body = b"5\r\nhello\r\n0\r\n\r\n"
    assert raw.request("PUT", f"/{bucket}/k", body=body, payload=UNSIGNED, headers={"content-encoding": encoding}).status == 200
    answer = s3.get_object(Bucket=bucket, Key="k")
    assert (answer["Body"].read(), answer.get("ContentEncoding")) == (b"hello", kept)


def test_aws_chunked_in_a_second_header(raw, s3, bucket):
    head, _ = raw.build("PUT", f"/{bucket}/k", payload=UNSIGNED, headers={"content-length": "15"})
    head = head[:-2] + b"Content-Encoding: gzip\r\nContent-Encoding: aws-chunked\r\n\r\n"
    assert raw.send("PUT", head, b"5\r\nhello\r\n0\r\n\r\n").status == 200
    assert read(s3, bucket, "k") == b"hello" and s3.head_object(Bucket=bucket, Key="k")["ContentEncoding"] == "gzip"


@pytest.mark.parametrize("body", [b"5\nhello\r\n0\r\n\r\n", b"5\r\nhello\n0\r\n\r\n", b"5\r\nhello\r\n0\n\r\n", b"5\r\nhello\r\n0\r\n\n"])
def test_lone_line_feeds_in_aws_chunked_bodies(raw, s3, bucket, body):
    headers = {"content-encoding": "aws-chunked", "x-amz-decoded-content-length": "5", "content-length": str(len(body))}
    head, _ = raw.build("PUT", f"/{bucket}/k", headers=headers, content_sha256=STREAMING_UNSIGNED_TRAILER)
    answer = raw.send("PUT", head, body)
    assert answer.status == 400 and absent(s3, bucket, "k"), answer


@pytest.mark.parametrize("body", [b"f\n5\r\nhello\r\n0\r\n\r\n\r\n0\r\n\r\n", b"5\r\n5\r\nhe\na\r\nllo\r\n0\r\n\r\n\r\n0\r\n\r\n",
                                  b"5\r\n5\r\nhe\r\na\nllo\r\n0\r\n\r\n\r\n0\r\n\r\n"])
def test_lone_line_feeds_in_chunks(raw, s3, bucket, body):
    """Of HTTP's chunks, around a body in aws-chunked."""
    head, _ = raw.build("PUT", f"/{bucket}/k", payload=UNSIGNED, headers={"content-encoding": "aws-chunked"})
    head = head.replace(b"content-length: 0\r\n", b"Transfer-Encoding: chunked\r\n")
    answer = raw.send("PUT", head, body)
    assert (answer.status, answer.code) == (400, "BadRequest") and absent(s3, bucket, "k"), answer


def test_nothing_follows_a_chunked_body(raw, s3, bucket):
    """Whatever else a line may be taken for by another on the way, there is no second request on this connection."""
    head, body = raw.build("PUT", f"/{bucket}/first", body=b"hello", payload=STREAMING_UNSIGNED_TRAILER, http_chunks=[5])
    hidden, _ = raw.build("PUT", f"/{bucket}/hidden", payload=UNSIGNED)
    with raw.connect() as connection:
        connection.send(head + body + hidden)
        answer = connection.answer("PUT")
        assert answer.status == 200 and answer.headers["connection"] == "close", answer
        assert connection.closed()
    assert keys_of(s3, bucket) == ["first"]


# ---- reads --------------------------------------------------------------------------------------------------

OVERRIDES = ["content-type", "content-language", "expires", "cache-control", "content-disposition", "content-encoding"]


@pytest.mark.parametrize("name", OVERRIDES)
@pytest.mark.parametrize("value", ["a\r\nX-Added: 1", "a\nb", "a\rb", "a\x00b", "a\x7fb", "\r\n"])
def test_overrides_are_one_line(raw, s3, bucket, name, value):
    s3.put_object(Bucket=bucket, Key="k", Body=b"x", ContentType="text/plain")
    for method in ("GET", "HEAD"):
        answer = raw.request(method, f"/{bucket}/k", query=[(f"response-{name}", value)])
        assert answer.status == 400 and "x-added" not in answer.headers, answer
        if method == "GET" and "\0" not in value:  # of which XML knows no character
            assert error_shape(answer) == "InvalidArgument" and answer.xml.findtext("ArgumentName") == f"response-{name}", answer
    answer = raw.request("GET", f"/{bucket}/k", query=[(f"response-{name}", "a \t;b=\"c\"")])
    assert answer.status == 200 and answer.headers[name] == "a \t;b=\"c\"", answer


def test_keys_for_what_is_not_encrypted(raw, s3, bucket):
    s3.put_object(Bucket=bucket, Key="k", Body=b"x")
    for method, query, more in (("GET", [], {}), ("HEAD", [], {}), ("GET", [("attributes", "")], {"x-amz-object-attributes": "ETag"})):
        answer = raw.request(method, f"/{bucket}/k", query=query, headers={**SSE_C, **more})
        assert answer.status == 400 and (method == "HEAD" or error_shape(answer) == "InvalidRequest"), answer
        answer = raw.request(method, f"/{bucket}/none", query=query, headers={**SSE_C, **more})
        assert answer.status == 404, answer
        answer = raw.request(method, f"/{bucket}/k", query=query, headers={"x-amz-server-side-encryption": "AES256", **more})
        assert answer.status == 400 and (method == "HEAD" or error_shape(answer) == "InvalidArgument"), answer
    source = {name.replace("x-amz-", "x-amz-copy-source-", 1): value for name, value in SSE_C.items()}
    for key, status, code in (("k", 400, "InvalidRequest"), ("none", 404, "NoSuchKey")):
        answer = raw.request("PUT", f"/{bucket}/copy", headers={"x-amz-copy-source": f"/{bucket}/{key}", **source})
        assert (answer.status, error_shape(answer)) == (status, code), answer
    answer = raw.request("PUT", f"/{bucket}/copy", headers={"x-amz-copy-source": f"/{bucket}/k", **SSE_C})
    assert (answer.status, error_shape(answer)) == (501, "NotImplemented") and absent(s3, bucket, "copy"), answer


# ---- pages --------------------------------------------------------------------------------------------------


def test_pages_of_nothing_end(raw, s3, bucket):
    """A pager that goes on while a page is truncated comes to an end."""
    upload = s3.create_multipart_upload(Bucket=bucket, Key="m")["UploadId"]
    etag = s3.upload_part(Bucket=bucket, Key="m", UploadId=upload, PartNumber=1, Body=b"x")["ETag"]
    queries = [(f"/{bucket}", [("max-keys", "0")]), (f"/{bucket}", [("list-type", "2"), ("max-keys", "0")]),
               (f"/{bucket}", [("versions", ""), ("max-keys", "0")]), (f"/{bucket}", [("uploads", ""), ("max-uploads", "0")]),
               (f"/{bucket}/m", [("uploadId", upload), ("max-parts", "0")])]
    s3.put_object(Bucket=bucket, Key="k", Body=b"x")
    for path, query in queries:
        page = raw.request("GET", path, query=query).xml
        assert page.findtext("IsTruncated") == "false", query
        assert not [e for e in page if e.tag in ("Contents", "Version", "Upload", "Part", "CommonPrefixes")], query
    s3.complete_multipart_upload(Bucket=bucket, Key="m", UploadId=upload, MultipartUpload={"Parts": [{"PartNumber": 1, "ETag": etag}]})
    answer = raw.request("GET", f"/{bucket}/m", query=[("attributes", "")],
                         headers={"x-amz-object-attributes": "ObjectParts", "x-amz-max-parts": "0"}).xml.find("ObjectParts")
    assert (answer.findtext("IsTruncated"), answer.findtext("PartsCount"), answer.find("Part")) == ("false", "1", None)


# ---- uploads in parts ---------------------------------------------------------------------------------------


def test_a_repeated_complete_names_the_same_parts(s3, bucket, rng):
    upload = s3.create_multipart_upload(Bucket=bucket, Key="m")["UploadId"]
    data = [rng.randbytes(5 * MIB), rng.randbytes(1000)]
    parts = [{"PartNumber": i + 1, "ETag": s3.upload_part(Bucket=bucket, Key="m", UploadId=upload, PartNumber=i + 1, Body=piece)["ETag"]}
             for i, piece in enumerate(data)]

    def complete(named):
        return s3.complete_multipart_upload(Bucket=bucket, Key="m", UploadId=upload, MultipartUpload={"Parts": named})
    first = complete(parts)
    assert complete(parts)["ETag"] == first["ETag"]
    others = [parts[:1], parts[1:], [parts[0], {**parts[1], "PartNumber": 3}], [parts[0], {**parts[1], "ETag": parts[0]["ETag"]}],
              parts + [{"PartNumber": 3, "ETag": parts[0]["ETag"]}]]
    for named in others:
        with pytest.raises(ClientError) as refused:
            complete(named)
        assert refused.value.response["Error"]["Code"] == "InvalidPart", named
    assert read(s3, bucket, "m") == b"".join(data)
