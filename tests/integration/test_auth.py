"""SigV4 in headers and URLs: what is signed right is served, and whatever is altered, late, early or unknown gets AWS's refusal."""
import time
import urllib.parse

import pytest
import requests

from tests.support.expect import keys_of
from tests.support.s3raw import STREAMING, STREAMING_TRAILER, STREAMING_UNSIGNED_TRAILER, UNSIGNED, error_shape
from tests.support import checksums


def is_refusal(answer, status, *codes):
    assert answer.status == status and error_shape(answer) in codes, answer


@pytest.fixture
def key(s3, bucket):
    s3.put_object(Bucket=bucket, Key="k", Body=b"data")
    return f"/{bucket}/k"


# ---- headers ------------------------------------------------------------------------------------------------


def test_no_credentials_at_all(raw, s3, bucket, key):
    is_refusal(raw.plain("GET", key), 403, "AccessDenied")
    is_refusal(raw.plain("GET", "/"), 403, "AccessDenied")
    is_refusal(raw.plain("GET", f"/{bucket}"), 403, "AccessDenied")
    answer = raw.plain("PUT", f"/{bucket}/n", {"Content-Length": "1"}, b"x")
    is_refusal(answer, 403, "AccessDenied")
    is_refusal(raw.plain("DELETE", key), 403, "AccessDenied")
    assert raw.plain("HEAD", key).status == 403
    assert keys_of(s3, bucket) == ["k"]


def test_existence_is_not_told_to_strangers(raw, key):
    assert raw.plain("GET", "/no-such-bucket-here/k").status == 403


def test_wrong_secret(raw, key):
    is_refusal(raw.request("GET", key, signer=raw.signer(secret_key="x" * 30)), 403, "SignatureDoesNotMatch")


def test_unknown_key(raw, key):
    is_refusal(raw.request("GET", key, signer=raw.signer(access_key="AKNOBODY")), 403, "InvalidAccessKeyId")
    is_refusal(raw.request("GET", key, signer=raw.signer(access_key="x" * 100)), 403, "InvalidAccessKeyId")


def test_wrong_region_and_service(raw, key):
    answer = raw.request("GET", key, signer=raw.signer(region="eu-west-1"))
    is_refusal(answer, 400, "AuthorizationHeaderMalformed")
    assert answer.xml.findtext("Region") == "us-east-1"
    is_refusal(raw.request("GET", key, signer=raw.signer(service="sqs")), 400, "AuthorizationHeaderMalformed")


@pytest.mark.parametrize("offset", [-16 * 60, 16 * 60, -86400 * 3, 86400 * 400])
def test_skewed_clocks(raw, key, offset):
    is_refusal(raw.request("GET", key, signer=raw.signer(offset_s=offset)), 403, "RequestTimeTooSkewed")


@pytest.mark.parametrize("offset", [-14 * 60, 14 * 60])
def test_clocks_that_are_near_enough(raw, key, offset):
    assert raw.request("GET", key, signer=raw.signer(offset_s=offset)).status == 200


def test_scope_of_another_day(raw, key):
    is_refusal(raw.request("GET", key, signer=raw.signer(date="20200101")), 400, "AuthorizationHeaderMalformed", "SignatureDoesNotMatch")


def test_date_header_instead_of_x_amz_date(raw, key):
    """The Date header may carry the time when x-amz-date is absent."""
    signer = raw.signer()
    answer = raw.request("GET", key, signer=signer, headers={"date": signer.stamp}, drop_headers=["x-amz-date"])
    assert answer.status in (200, 403), answer
    is_refusal(raw.request("GET", key, drop_headers=["x-amz-date"]), 403, "AccessDenied")


@pytest.mark.parametrize("stamp", ["", "x", "20200101", "20261321T000000Z", "2026-01-01T00:00:00Z", "99999999T999999Z", "2" * 300])
def test_dates_that_are_none(raw, key, stamp):
    answer = raw.request("GET", key, headers={"x-amz-date": stamp})
    assert answer.status in (400, 403) and answer.code in ("AccessDenied", "RequestTimeTooSkewed", "SignatureDoesNotMatch",
                                                           "AuthorizationHeaderMalformed"), answer


def test_altered_after_signing(raw, s3, bucket, key):
    head, body = raw.build("PUT", f"/{bucket}/n", headers={"x-amz-meta-a": "1", "content-type": "a/b"},
                           query=[("x-id", "PutObject")], body=b"data")
    for old, new in ((b"x-amz-meta-a: 1", b"x-amz-meta-a: 2"), (b"a/b", b"c/d"), (b"PutObject", b"PutOther"),
                     (f"/{bucket}/n".encode(), f"/{bucket}/m".encode()), (b"x-id=", b"x-ie="), (b"PUT /", b"POST /")):
        bent = head.replace(old, new, 1)
        assert bent != head
        answer = raw.send("PUT", bent, body)
        is_refusal(answer, 403, "SignatureDoesNotMatch")
    answer = raw.send("PUT", head, b"dato")
    is_refusal(answer, 400, "XAmzContentSHA256Mismatch")
    assert keys_of(s3, bucket) == ["k"]
    assert raw.send("PUT", head, body).status == 200


@pytest.mark.parametrize("name, value", [("x-amz-meta-late", "1"), ("x-amz-acl", "private"), ("x-amz-copy-source", "/a/b")])
def test_amz_headers_must_be_signed(raw, s3, bucket, key, name, value):
    answer = raw.request("PUT", f"/{bucket}/n", body=b"x", unsigned_headers={name: value})
    is_refusal(answer, 403, "AccessDenied", "SignatureDoesNotMatch")
    assert keys_of(s3, bucket) == ["k"]


def test_other_headers_need_not_be_signed(raw, bucket):
    assert raw.request("PUT", f"/{bucket}/n", body=b"x", unsigned_headers={"user-agent": "u", "accept": "*/*"}).status == 200


def test_host_must_be_signed(raw, key):
    signer = raw.signer()
    headers = {"x-amz-date": signer.stamp, "x-amz-content-sha256": UNSIGNED}
    signed = sorted(headers)
    authorization = signer.authorization(signed, signer.signature("GET", key, [], headers, signed, UNSIGNED))
    answer = raw.plain("GET", key, {**headers, "Authorization": authorization})
    assert answer.status in (400, 403), answer


def test_spaces_in_signed_values(raw, bucket):
    """Runs of spaces count as one, ends are trimmed."""
    answer = raw.request("PUT", f"/{bucket}/n", headers={"x-amz-meta-a": "  a   b  c "}, body=b"x")
    assert answer.status == 200, answer


def test_repeated_signed_headers(raw, bucket):
    """Two headers of one name are signed as one, joined by a comma."""
    head, body = raw.build("PUT", f"/{bucket}/n", headers={"x-amz-meta-a": "1,2"}, body=b"x")
    answer = raw.send("PUT", head.replace(b"x-amz-meta-a: 1,2\r\n", b"x-amz-meta-a: 1\r\nx-amz-meta-a: 2\r\n"), body)
    assert answer.status == 200, answer
    assert raw.request("HEAD", f"/{bucket}/n").headers["x-amz-meta-a"].replace(" ", "") == "1,2"


AUTHORIZATIONS = ["", "x", "Basic dXNlcjpwYXNz", "AWS AKID:sig", "AWS4-HMAC-SHA256", "AWS4-HMAC-SHA256 ", "AWS4-HMAC-SHA256 Credential=",
                  "AWS4-HMAC-SHA256 Credential=a/b/c, SignedHeaders=host, Signature=00",
                  "AWS4-HMAC-SHA256 Credential=a/20260101/us-east-1/s3/aws4_request, SignedHeaders=host",
                  "AWS4-HMAC-SHA256 SignedHeaders=host, Signature=" + "0" * 64,
                  "AWS4-HMAC-SHA256 Credential={ak}/{day}/us-east-1/s3/aws4_request, SignedHeaders=, Signature=" + "0" * 64,
                  "AWS4-HMAC-SHA256 Credential={ak}/{day}/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=zz",
                  "AWS4-HMAC-SHA256 Credential={ak}/{day}/us-east-1/s3/other, SignedHeaders=host, Signature=" + "0" * 64,
                  "AWS4-HMAC-SHA256 Credential={ak}/{day}/us-east-1/s3/aws4_request, SignedHeaders=" + "a;" * 2000 + ", Signature=" + "0" * 64,
                  "AWS4-HMAC-SHA256 " + "Credential=a/b/c/d/e," * 300, "AWS4-ECDSA-P256-SHA256 Credential=a, SignedHeaders=b, Signature=c",
                  "AWS4-HMAC-SHA256 Credential=" + "/" * 3000 + ", SignedHeaders=host, Signature=0"]


@pytest.mark.parametrize("text", AUTHORIZATIONS, ids=range(len(AUTHORIZATIONS)))
def test_malformed_authorizations(raw, store, key, text):
    stamp = raw.signer().stamp
    text = text.replace("{ak}", store.access_key).replace("{day}", stamp[:8])
    answer = raw.plain("GET", key, {"Authorization": text, "x-amz-date": stamp, "x-amz-content-sha256": UNSIGNED})
    assert answer.status in (400, 403), answer
    assert error_shape(answer) in ("AuthorizationHeaderMalformed", "RequestHeaderSectionTooLarge", "AccessDenied", "InvalidRequest", "InvalidArgument", "InvalidAccessKeyId",
                                   "SignatureDoesNotMatch", "MissingSecurityHeader", "UnsupportedSignature"), answer


@pytest.mark.parametrize("text", ["", "x", "UNSIGNED", "STREAMING-AWS4-HMAC-SHA256", "0" * 63, "g" * 64, "0" * 65])
def test_content_sha256_values(raw, s3, bucket, text):
    answer = raw.request("PUT", f"/{bucket}/n", body=b"x", headers={"x-amz-content-sha256": text}, content_sha256=text or " ")
    assert answer.status in (400, 403) and answer.code in ("InvalidArgument", "InvalidRequest", "XAmzContentSHA256Mismatch",
                                                           "SignatureDoesNotMatch", "NotImplemented"), answer
    assert keys_of(s3, bucket) == []


def test_content_sha256_is_demanded(raw, key):
    answer = raw.request("GET", key, drop_headers=["x-amz-content-sha256"])
    assert answer.status in (400, 403) and error_shape(answer) in ("InvalidRequest", "SignatureDoesNotMatch", "MissingSecurityHeader"), answer


def test_unsigned_payload(raw, s3, bucket):
    assert raw.request("PUT", f"/{bucket}/n", body=b"x" * 1000, payload=UNSIGNED).status == 200
    assert s3.get_object(Bucket=bucket, Key="n")["Body"].read() == b"x" * 1000


def test_session_token_is_refused(raw, key):
    """There are no temporary credentials: a token with a root key is not one of ours."""
    answer = raw.request("GET", key, headers={"x-amz-security-token": "token"})
    assert answer.status in (400, 403) and answer.code in ("InvalidToken", "AccessDenied", "InvalidAccessKeyId"), answer


# ---- presigned URLs -----------------------------------------------------------------------------------------


@pytest.mark.smoke
def test_presigned_by_botocore(s3, bucket):
    put = s3.generate_presigned_url("put_object", Params={"Bucket": bucket, "Key": "a b/é+%"}, ExpiresIn=60)
    assert requests.put(put, data=b"hello", timeout=30).status_code == 200
    get = s3.generate_presigned_url("get_object", Params={"Bucket": bucket, "Key": "a b/é+%", "ResponseContentType": "x/y"}, ExpiresIn=60)
    answer = requests.get(get, timeout=30)
    assert (answer.status_code, answer.content, answer.headers["content-type"]) == (200, b"hello", "x/y")
    head = s3.generate_presigned_url("head_object", Params={"Bucket": bucket, "Key": "a b/é+%"}, ExpiresIn=60)
    assert requests.head(head, timeout=30).status_code == 200
    listing = s3.generate_presigned_url("list_objects_v2", Params={"Bucket": bucket, "Prefix": "a"}, ExpiresIn=60)
    assert b"<KeyCount>1</KeyCount>" in requests.get(listing, timeout=30).content
    delete = s3.generate_presigned_url("delete_object", Params={"Bucket": bucket, "Key": "a b/é+%"}, ExpiresIn=60)
    assert requests.delete(delete, timeout=30).status_code == 204
    assert requests.get(get, timeout=30).status_code == 404


def test_presigned_with_the_wrong_method(s3, bucket):
    url = s3.generate_presigned_url("get_object", Params={"Bucket": bucket, "Key": "k"}, ExpiresIn=60)
    answer = requests.put(url, data=b"x", timeout=30)
    assert answer.status_code == 403 and b"SignatureDoesNotMatch" in answer.content


def test_presigned_with_signed_headers(raw, bucket, key):
    target = raw.presign("PUT", f"/{bucket}/n", headers={"content-type": "a/b", "x-amz-meta-a": "1"})
    good = {"Content-Type": "a/b", "x-amz-meta-a": "1", "Content-Length": "1"}
    assert raw.plain("PUT", target, good, b"x").status == 200
    assert raw.request("HEAD", f"/{bucket}/n").headers["x-amz-meta-a"] == "1"
    is_refusal(raw.plain("PUT", target, dict(good, **{"x-amz-meta-a": "2"}), b"x"), 403, "SignatureDoesNotMatch")
    is_refusal(raw.plain("PUT", target, {"Content-Type": "a/b", "Content-Length": "1"}, b"x"), 403, "SignatureDoesNotMatch", "AccessDenied")
    is_refusal(raw.plain("PUT", target, dict(good, **{"x-amz-acl": "private"}), b"x"), 403, "AccessDenied", "SignatureDoesNotMatch")


def test_expired(raw, key):
    assert raw.plain("GET", raw.presign("GET", key, expires=60, signer=raw.signer(offset_s=-50))).status == 200
    is_refusal(raw.plain("GET", raw.presign("GET", key, expires=60, signer=raw.signer(offset_s=-62))), 403, "AccessDenied")
    target = raw.presign("GET", key, expires=1)
    time.sleep(2.1)
    is_refusal(raw.plain("GET", target), 403, "AccessDenied")
    is_refusal(raw.plain("GET", raw.presign("GET", key, signer=raw.signer(offset_s=3600))), 403, "AccessDenied", "RequestTimeTooSkewed")


@pytest.mark.parametrize("expires", ["604801", "-1", "x", "", "99999999999999999999"])
def test_bad_expiries(raw, key, expires):
    is_refusal(raw.plain("GET", raw.presign("GET", key, expires=expires)), 400, "AuthorizationQueryParametersError")


@pytest.mark.parametrize("name", ["X-Amz-Algorithm", "X-Amz-Credential", "X-Amz-Date", "X-Amz-Expires", "X-Amz-SignedHeaders", "X-Amz-Signature"])
def test_presigned_with_a_part_missing_or_bent(raw, key, name):
    path, query = raw.presign("GET", key).split("?", 1)
    pairs = urllib.parse.parse_qsl(query)
    without = urllib.parse.urlencode([(n, v) for n, v in pairs if n != name], quote_via=urllib.parse.quote)
    answer = raw.plain("GET", f"{path}?{without}")
    assert answer.status in (400, 403) and error_shape(answer) in ("AuthorizationQueryParametersError", "AccessDenied"), answer
    bent = urllib.parse.urlencode([(n, "x" if n == name else v) for n, v in pairs], quote_via=urllib.parse.quote)
    answer = raw.plain("GET", f"{path}?{bent}")
    assert answer.status in (400, 403), answer
    error_shape(answer)


def test_presigned_altered(raw, key):
    target = raw.presign("GET", key, query=[("response-content-type", "a/b")])
    assert raw.plain("GET", target).status == 200
    is_refusal(raw.plain("GET", target.replace("a%2Fb", "a%2Fc")), 403, "SignatureDoesNotMatch")
    is_refusal(raw.plain("GET", target + "&response-content-language=x"), 403, "SignatureDoesNotMatch")
    is_refusal(raw.plain("GET", target.replace("/k?", "/l?")), 403, "SignatureDoesNotMatch")


def test_two_ways_at_once(raw, key):
    """A signature in the header and one in the URL: AWS takes only one mechanism."""
    target = raw.presign("GET", key)
    path, query = target.split("?", 1)
    signed = urllib.parse.parse_qsl(query)
    answer = raw.request("GET", key, query=signed, wire_query=query)
    assert answer.status in (400, 403), answer


# ---- streaming payloads -------------------------------------------------------------------------------------

MODES = [STREAMING, STREAMING_TRAILER, STREAMING_UNSIGNED_TRAILER]
HTTP_CHUNKS = {"length": None, "one": [1 << 30], "bytes": [1], "sevens": [7], "cuts": [1, 2, 3, 85, 86, 87, 4096, 1], "blocks": [65536]}


def trailers_for(mode, data):
    return [("x-amz-checksum-crc32c", checksums.checksum("CRC32C", data))] if mode != STREAMING else []


@pytest.mark.smoke
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("http_chunks", HTTP_CHUNKS)
def test_streaming(raw, s3, bucket, rng, mode, http_chunks):
    """Every streaming form, by Content-Length and by HTTP chunks whose borders cut through the aws-chunk headers."""
    for size, chunk in ((0, 8192), (1, 8192), (8192, 8192), (20000, 8192), (300_001, 65536)):
        if http_chunks == "bytes" and size > 20000:
            continue
        data = rng.randbytes(size)
        answer = raw.request("PUT", f"/{bucket}/k", body=data, payload=mode, chunk_size=chunk, trailers=trailers_for(mode, data),
                             http_chunks=HTTP_CHUNKS[http_chunks])
        assert answer.status == 200 and answer.headers["etag"] == checksums.etag(data), answer
        got = s3.get_object(Bucket=bucket, Key="k")
        assert got["Body"].read() == data and "aws-chunked" not in got.get("ContentEncoding", "")


def test_content_encoding_beside_aws_chunked(raw, s3, bucket):
    answer = raw.request("PUT", f"/{bucket}/k", body=b"data", payload=STREAMING, headers={"content-encoding": "aws-chunked,gzip"})
    assert answer.status == 200
    assert s3.head_object(Bucket=bucket, Key="k")["ContentEncoding"] == "gzip"


def test_streaming_part(raw, s3, bucket, rng):
    upload = s3.create_multipart_upload(Bucket=bucket, Key="m")["UploadId"]
    data = rng.randbytes(5_500_000)
    answer = raw.request("PUT", f"/{bucket}/m", query=[("partNumber", "1"), ("uploadId", upload)], body=data, payload=STREAMING,
                         http_chunks=[100_003])
    assert answer.status == 200 and answer.headers["etag"] == checksums.etag(data), answer


def bend_data(kind, index, piece):
    return bytes([piece[0] ^ 1]) + piece[1:] if (kind, index) == ("data", 1) else piece


def bend_signature(kind, index, piece):
    return piece.replace(b"chunk-signature=", b"chunk-signature=0", 1)[:-3] + b"\r\n" if (kind, index) == ("head", 1) else piece


def bend_last_signature(kind, index, piece):
    if kind != "head" or not piece.startswith(b"0;"):
        return piece
    head, signature = piece.split(b"=")
    return head + b"=" + (b"0" if signature[:1] != b"0" else b"1") + signature[1:]


@pytest.mark.parametrize("bend", [bend_data, bend_signature, bend_last_signature])
@pytest.mark.parametrize("http_chunks", [None, [1000]])
def test_bent_chunks(raw, s3, bucket, rng, bend, http_chunks):
    answer = raw.request("PUT", f"/{bucket}/k", body=rng.randbytes(200_000), payload=STREAMING, bend=bend, http_chunks=http_chunks)
    is_refusal(answer, 403, "SignatureDoesNotMatch")
    assert keys_of(s3, bucket) == []


def test_bent_trailer_signature(raw, s3, bucket):
    def bend(kind, index, piece):
        return b"x-amz-trailer-signature:" + b"0" * 64 + b"\r\n" if kind == "trailer-signature" else piece

    answer = raw.request("PUT", f"/{bucket}/k", body=b"data", payload=STREAMING_TRAILER, bend=bend, trailers=trailers_for("t", b"data"))
    is_refusal(answer, 403, "SignatureDoesNotMatch")
    assert keys_of(s3, bucket) == []


@pytest.mark.parametrize("line", [b"zz\r\n", b"-5\r\n", b"fffffffffffffffff\r\n", b"5\n", b"\r\n", b"5 \r\n", b"0x5\r\n", b"5" * 5000 + b"\r\n"])
@pytest.mark.parametrize("http_chunks", [None, [3]])
def test_malformed_chunk_heads(raw, s3, bucket, line, http_chunks):
    def bend(kind, index, piece):
        return line if (kind, index) == ("head", 0) else piece

    answer = raw.request("PUT", f"/{bucket}/k", body=b"12345", payload=STREAMING_UNSIGNED_TRAILER, bend=bend, http_chunks=http_chunks,
                         trailers=trailers_for("t", b"12345"))
    assert answer.status == 400 and answer.code in ("InvalidRequest", "IncompleteBody", "InvalidChunkSizeError", "MalformedTrailerError",
                                                    "InvalidArgument"), answer
    assert keys_of(s3, bucket) == []


@pytest.mark.parametrize("length", ["3", "100", "-1", "x", "99999999999999999999"])
def test_decoded_length_that_lies(raw, s3, bucket, length):
    for http_chunks in (None, [50]):
        answer = raw.request("PUT", f"/{bucket}/k", body=b"12345", payload=STREAMING, headers={"x-amz-decoded-content-length": length},
                             http_chunks=http_chunks)
        assert answer.status in (400, 411) and answer.code in ("IncompleteBody", "InvalidRequest", "InvalidArgument",
                                                              "MissingContentLength", "EntityTooLarge"), answer
    assert keys_of(s3, bucket) == []


def test_decoded_length_is_demanded(raw, s3, bucket):
    answer = raw.request("PUT", f"/{bucket}/k", body=b"12345", payload=STREAMING, drop_headers=["x-amz-decoded-content-length"])
    is_refusal(answer, 411, "MissingContentLength")
    assert keys_of(s3, bucket) == []


def test_body_that_ends_before_the_last_chunk(raw, s3, bucket):
    head, body = raw.build("PUT", f"/{bucket}/k", body=b"x" * 1000, payload=STREAMING)
    end = body[:-90]
    answer = raw.send("PUT", head.replace(f"content-length: {len(body)}".encode(), f"content-length: {len(end)}".encode()), end)
    assert answer.status in (400, 403) and answer.code in ("IncompleteBody", "SignatureDoesNotMatch"), answer
    assert keys_of(s3, bucket) == []


def test_streaming_needs_a_put(raw, key):
    answer = raw.request("GET", key, payload=STREAMING)
    assert answer.status in (200, 400), answer
