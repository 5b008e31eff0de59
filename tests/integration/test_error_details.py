"""What an error document says beside code and message: which argument, bucket, key, upload, header or time it was."""
import base64
import datetime
import hashlib

import pytest

from tests.support.expect import read, refused
from tests.support.s3raw import error_shape


def texts(answer, *names):
    error_shape(answer)
    return tuple(answer.xml.findtext(name) for name in names)


@pytest.mark.parametrize("query, name, value", [
    ([("max-keys", "no number")], "max-keys", "no number"), ([("max-keys", "-1")], "max-keys", "-1"),
    ([("list-type", "2"), ("max-keys", "2147483648")], "max-keys", "2147483648"),
    ([("encoding-type", "html")], "encoding-type", "html"), ([("list-type", "2"), ("continuation-token", "?")], "continuation-token", None),
    ([("uploads", ""), ("max-uploads", "<&>")], "max-uploads", "<&>"), ([("versions", ""), ("version-id-marker", "v")], "version-id-marker", "v"),
])
def test_arguments_of_listings(raw, bucket, query, name, value):
    answer = raw.request("GET", f"/{bucket}", query=query)
    assert answer.status == 400 and error_shape(answer) == "InvalidArgument", answer
    assert texts(answer, "ArgumentName", "ArgumentValue") == (name, value)


@pytest.mark.parametrize("mode, until, hold, wrong", [
    ("GOVERNANCE", "tomorrow", "ON", "x-amz-object-lock-retain-until-date"), ("NONE", "2100-01-01T00:00:00Z", "ON", "x-amz-object-lock-mode"),
    ("GOVERNANCE", "2100-01-01T00:00:00Z", "maybe", "x-amz-object-lock-legal-hold"),
])
def test_which_header_of_a_lock_is_wrong(raw, bucket, mode, until, hold, wrong):
    headers = {"x-amz-object-lock-mode": mode, "x-amz-object-lock-retain-until-date": until, "x-amz-object-lock-legal-hold": hold}
    answer = raw.request("PUT", f"/{bucket}/k", headers=headers)
    assert (answer.status, answer.code) == (400, "InvalidArgument"), answer
    assert texts(answer, "ArgumentName", "ArgumentValue") == (wrong, headers[wrong])


def test_part_number_comes_before_upload_id(raw, s3, bucket):
    s3.put_object(Bucket=bucket, Key="source", Body=b"x")
    for headers in ({}, {"x-amz-copy-source": f"{bucket}/source"}):
        for number in ("0", "10001", "-1", "x"):
            answer = raw.request("PUT", f"/{bucket}/k", query=[("partNumber", number), ("uploadId", "none")], headers=headers)
            assert (answer.status, answer.code) == (400, "InvalidArgument"), (number, answer)
            assert texts(answer, "ArgumentName", "ArgumentValue") == ("partNumber", number)
        answer = raw.request("PUT", f"/{bucket}/k", query=[("partNumber", "1"), ("uploadId", "none")], headers=headers)
        assert (answer.status, answer.code) == (404, "NoSuchUpload") and texts(answer, "UploadId") == ("none",), answer


def test_what_is_missing(raw, s3, bucket):
    answer = raw.request("GET", f"/{bucket}/a<b")
    assert answer.code == "NoSuchKey" and texts(answer, "Key") == ("a<b",), answer
    answer = raw.request("GET", f"/{bucket}-not/k")
    assert answer.code == "NoSuchBucket" and texts(answer, "BucketName") == (f"{bucket}-not",), answer
    answer = raw.request("PUT", f"/{bucket}/k", headers={"x-amz-copy-source": f"/{bucket}/source"})
    assert answer.code == "NoSuchKey" and texts(answer, "Key") == ("source",), answer
    answer = raw.request("PUT", f"/{bucket}/k", headers={"x-amz-copy-source": f"/{bucket}-not/source"})
    assert answer.code == "NoSuchBucket" and texts(answer, "BucketName") == (f"{bucket}-not",), answer
    upload = s3.create_multipart_upload(Bucket=bucket, Key="k")["UploadId"]
    answer = refused("InvalidPart", 400, s3.complete_multipart_upload, Bucket=bucket, Key="k", UploadId=upload,
                     MultipartUpload={"Parts": [{"PartNumber": 3, "ETag": '"' + "0" * 32 + '"'}]})
    assert (answer["Error"]["UploadId"], answer["Error"]["PartNumber"], answer["Error"]["ETag"]) == (upload, "3", "0" * 32)
    answer = refused("InvalidPart", 400, s3.complete_multipart_upload, Bucket=bucket, Key="k", UploadId=upload,
                     MultipartUpload={"Parts": [{"PartNumber": 4, "ETag": '"<gibberish>"'}]})
    assert (answer["Error"]["PartNumber"], answer["Error"]["ETag"]) == ("4", "<gibberish>")


def test_the_condition_that_failed(raw, s3, bucket):
    s3.put_object(Bucket=bucket, Key="k", Body=b"x")
    for method, headers in (("GET", {"If-Match": '"no"'}), ("PUT", {"If-None-Match": "*"}), ("DELETE", {"If-Match": '"no"'})):
        answer = raw.request(method, f"/{bucket}/k", headers=headers)
        assert (answer.status, answer.code) == (412, "PreconditionFailed"), answer
        assert texts(answer, "Condition") == tuple(headers), answer


def test_methods(raw, bucket):
    for path, kind, methods in ((f"/{bucket}/k", "OBJECT", "DELETE, GET, HEAD, PUT"), (f"/{bucket}", "BUCKET", "DELETE, POST, GET, HEAD, PUT"),
                                ("/", "SERVICE", "GET")):
        answer = raw.request("PATCH", path)
        assert (answer.status, answer.code, answer.headers.get("allow")) == (405, "MethodNotAllowed", methods), answer
        assert texts(answer, "Method", "ResourceType") == ("PATCH", kind)
    answer = raw.request("PUT", f"/{bucket}/k", query=[("uploadId", "x")], body=b"x")
    assert (answer.status, answer.code, answer.headers.get("allow")) == (405, "MethodNotAllowed", "DELETE, POST, GET"), answer
    assert texts(answer, "Method", "ResourceType") == ("PUT", "UPLOAD")


def test_overrides_that_there_are_none_of(raw, s3, bucket):
    s3.put_object(Bucket=bucket, Key="k", Body=b"x")
    answer = raw.request("GET", f"/{bucket}/k", query=[("response-server", "a<b")])
    assert (answer.status, answer.code) == (400, "InvalidArgument") and "response-server is not in the set of" in answer.xml.findtext("Message"), answer
    assert texts(answer, "ArgumentName", "ArgumentValue") == ("response-server", "a<b")
    assert raw.request("HEAD", f"/{bucket}/k", query=[("response-server", "x")]).status == 400


def test_values_that_do_not_fit(raw, s3, bucket):
    answer = raw.request("PUT", f"/{bucket}/k", body=b"x", content_sha256="0" * 64)
    assert answer.code == "XAmzContentSHA256Mismatch", answer
    assert texts(answer, "ClientComputedContentSHA256", "S3ComputedContentSHA256") == ("0" * 64, hashlib.sha256(b"x").hexdigest())
    for body, query in ((b"x", []), (b"<Delete><Object><Key>k</Key></Object></Delete>", [("delete", "")])):
        wrong, right = (base64.b64encode(hashlib.md5(text).digest()).decode() for text in (b"other", body))
        answer = raw.request("POST" if query else "PUT", f"/{bucket}" + ("" if query else "/k"), query=query, body=body, headers={"Content-MD5": wrong})
        assert (answer.status, answer.code) == (400, "BadDigest"), answer
        expected = wrong if query else base64.b64decode(wrong).hex()  # of an object in hexadecimal, as AWS has it
        assert texts(answer, "CalculatedDigest", "ExpectedDigest") == (right, expected), answer
    # What no bucket could take comes before what this bucket cannot take.
    answer = raw.request("PUT", f"/{bucket}/k", body=b"x", headers={"x-amz-object-lock-mode": "GOVERNANCE", "Content-MD5": base64.b64encode(hashlib.md5(b"x").digest()).decode()})
    assert (answer.status, answer.code) == (400, "InvalidArgument"), answer
    answer = raw.request("PUT", f"/{bucket}/k", body=b"x", headers={"Content-MD5": "no md5"})
    assert answer.code == "InvalidDigest" and texts(answer, "Content-MD5") == ("no md5",), answer
    s3.put_object(Bucket=bucket, Key="k", Body=b"x")
    answer = raw.request("GET", f"/{bucket}/k", query=[("partNumber", "7")])
    assert (answer.status, answer.code) == (416, "InvalidPartNumber"), answer
    assert texts(answer, "ActualPartCount", "PartNumberRequested") == ("1", "7")


@pytest.mark.parametrize("method, query, headers, argument", [
    ("GET", [], {"x-amz-copy-source": "b/k"}, ("x-amz-copy-source", "b/k")), ("DELETE", [], {"x-amz-copy-source": "b/k"}, ("x-amz-copy-source", "b/k")),
    ("POST", [("uploadId", "x")], {"x-amz-copy-source": "b/k"}, ("x-amz-copy-source", "b/k")),
    ("PUT", [("partNumber", "2")], {}, ("partNumber", "2")),
])
def test_what_belongs_to_another_request(raw, s3, bucket, method, query, headers, argument):
    s3.put_object(Bucket=bucket, Key="k", Body=b"x")
    answer = raw.request(method, f"/{bucket}/k", query=query, headers=headers)
    assert (answer.status, answer.code) == (400, "InvalidArgument") and texts(answer, "ArgumentName", "ArgumentValue") == argument, answer
    assert read(s3, bucket, "k") == b"x"


def test_headers_not_signed(raw, bucket):
    answer = raw.request("PUT", f"/{bucket}/k", unsigned_headers={"X-Amz-Acl": "private", "x-amz-meta-a": "b"})
    assert (answer.status, answer.code) == (403, "AccessDenied"), answer
    assert texts(answer, "HeadersNotSigned") == ("x-amz-acl, x-amz-meta-a",)


def is_now(text):
    """A time of day in whole seconds, as AWS writes them, and not long ago."""
    then = datetime.datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=datetime.timezone.utc)
    return abs((datetime.datetime.now(datetime.timezone.utc) - then).total_seconds()) < 60


def test_times(raw, bucket):
    answer = raw.request("GET", f"/{bucket}", signer=raw.signer(offset_s=-3600))
    assert (answer.status, answer.code) == (403, "RequestTimeTooSkewed"), answer
    assert texts(answer, "MaxAllowedSkewMilliseconds") == ("900000",) and all(texts(answer, "RequestTime"))
    assert is_now(answer.xml.findtext("ServerTime")), answer


def test_times_of_presigned_urls(raw, bucket):
    late, early = raw.signer(offset_s=-60), raw.signer(offset_s=7200)
    answer = raw.plain("GET", raw.presign("GET", f"/{bucket}", expires=1, signer=late))
    assert (answer.status, answer.code, answer.xml.findtext("Message")) == (403, "AccessDenied", "Request has expired"), answer
    signed = datetime.datetime.strptime(late.stamp, "%Y%m%dT%H%M%SZ")
    assert texts(answer, "X-Amz-Expires", "X-Amz-Date", "Expires") == ("1", None, f"{signed + datetime.timedelta(seconds=1):%Y-%m-%dT%H:%M:%SZ}")
    assert is_now(answer.xml.findtext("ServerTime")), answer
    answer = raw.plain("GET", raw.presign("GET", f"/{bucket}", expires=60, signer=early))
    assert (answer.status, answer.code, answer.xml.findtext("Message")) == (403, "AccessDenied", "Request is not yet valid"), answer
    signed = datetime.datetime.strptime(early.stamp, "%Y%m%dT%H%M%SZ")
    milliseconds = str(int(signed.replace(tzinfo=datetime.timezone.utc).timestamp()) * 1000)
    assert texts(answer, "X-Amz-Expires", "X-Amz-Date", "Expires") == (None, milliseconds, f"{signed + datetime.timedelta(minutes=1):%Y-%m-%dT%H:%M:%SZ}")
    assert is_now(answer.xml.findtext("ServerTime")), answer


@pytest.mark.parametrize("value, code, name", [
    ("no-space", "InvalidArgument", "Authorization"), ("Bearer x", "InvalidArgument", "Authorization"),
    ("AWS4-HMAC-SHA256 Credential=a/20200101/us-east-1/s3/aws4_request", "AuthorizationHeaderMalformed", None),
    ("AWS4-HMAC-SHA256 Credential=a/20200101/us-east-1/s3/aws4_request,SignedHeaders-host,Signature=x", "AuthorizationHeaderMalformed", None),
])
def test_authorization(raw, bucket, value, code, name):
    answer = raw.plain("GET", f"/{bucket}", headers={"Authorization": value, "x-amz-date": raw.signer().stamp,
                                                     "x-amz-content-sha256": "UNSIGNED-PAYLOAD"})
    assert (answer.status, answer.code) == (400, code), answer
    assert texts(answer, "ArgumentName", "ArgumentValue") == ((name, value) if name else (None, None))


def test_a_scope_that_is_not_ours_is_named(raw, bucket):
    for service, region, said in (("ec2", "us-east-1", '"ec2"'), ("s3", "eu-west-1", "'eu-west-1'")):
        answer = raw.request("GET", f"/{bucket}", signer=raw.signer(service=service, region=region))
        assert (answer.status, answer.code) == (400, "AuthorizationHeaderMalformed") and said in answer.xml.findtext("Message"), answer


@pytest.mark.parametrize("source, said", [
    ("b%ZZ/k", "Invalid copy source encoding"), ("%", "Invalid copy source encoding"), ("bucket/%ff", "Invalid copy source encoding"),
    ("192.168.1.1/k", "Invalid copy source bucket name"), ("No_Bucket/k", "Invalid copy source bucket name"),
    ("//k", "Invalid copy source bucket name"), ("/", "Invalid copy source bucket name"), ("bucket", "Invalid copy source object key"),
    ("bucket/", "Invalid copy source object key"), ("/bucket", "Invalid copy source object key"),
    ("bucket/k?versionId=", "Version id cannot be the empty string"),
])
def test_copy_sources(raw, bucket, source, said):
    answer = raw.request("PUT", f"/{bucket}/k", headers={"x-amz-copy-source": source})
    assert (answer.status, answer.code, answer.xml.findtext("Message")) == (400, "InvalidArgument", said), answer
    assert texts(answer, "ArgumentName", "ArgumentValue") == ("x-amz-copy-source", source)
