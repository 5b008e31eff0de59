"""What SDKs never send, on raw sockets: malformed requests of every kind, smuggling, pipelining, Expect, odd bodies, many connections."""
import concurrent.futures
import resource
import socket
import time

import pytest

from tests.support.daemon import PATIENCE
from tests.support.expect import absent, keys_of, read
from tests.support.s3raw import STREAMING_UNSIGNED_TRAILER, UNSIGNED, Connection, ConnectionClosed, error_shape, http_chunked


def exchange(raw, data, timeout=10, method="GET"):
    """Sends bytes; the list of answers until the server closes or says no more, and whether it closed."""
    answers = []
    with raw.connect(timeout) as connection:
        try:
            connection.send(data)
        except (BrokenPipeError, ConnectionResetError):
            pass
        try:
            while True:
                answers.append(connection.answer(method))
                connection.socket.settimeout(1.0)
        except ConnectionClosed:
            return answers, True
        except TimeoutError:
            return answers, False


def still_serves(raw, bucket):
    assert raw.request("GET", f"/{bucket}", query=[("list-type", "2")]).status == 200


# ---- malformed ----------------------------------------------------------------------------------------------

HOST = b"Host: x\r\n"
MALFORMED = [
    b"\r\n\r\n\r\n", b"GET\r\n\r\n", b"GET /\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"GET / HTTP/1.1 x\r\n\r\n", b" GET / HTTP/1.1\r\n" + HOST + b"\r\n",
    b"GET  /  HTTP/1.1\r\n" + HOST + b"\r\n", b"GET / HTTP/1.1\r\n\r\n", b"GET / http/1.1\r\n" + HOST + b"\r\n", b"\x00\x01\x02\x03\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(200), b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"GET http://x/ HTTP/1.1\r\n" + HOST + b"\r\n",
    b"CONNECT x:80 HTTP/1.1\r\n" + HOST + b"\r\n", b"GET * HTTP/1.1\r\n" + HOST + b"\r\n", b"GET x HTTP/1.1\r\n" + HOST + b"\r\n",
    b"GET / HTTP/1.1\r\nHost: x\r\nNoColon\r\n\r\n", b"GET / HTTP/1.1\r\nHost: x\r\n: novalue\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: x\r\nBad Name: 1\r\n\r\n", b"GET / HTTP/1.1\r\nHost: x\r\nBad\x00Name: 1\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: x\r\nName: a\x00b\r\n\r\n", b"GET /\x00 HTTP/1.1\r\n" + HOST + b"\r\n", b"GET /\xff\xfe HTTP/1.1\r\n" + HOST + b"\r\n",
    b"GET /?" + b"a&" * 3000 + b" HTTP/1.1\r\n" + HOST + b"\r\n", b"GET /" + b"a" * 30000 + b" HTTP/1.1\r\n" + HOST + b"\r\n",
    b"GET / HTTP/1.1\r\nHost: x\r\n" + b"X: y\r\n" * 5000 + b"\r\n", b"GET / HTTP/1.1\r\nHost: x\r\nX: " + b"y" * 100000 + b"\r\n\r\n",
    b"G" * 100000, b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", b"GET / HTTP/1.1\r\nHost: " + b"h" * 5000 + b"\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: a b/c?d\r\n\r\n", b"GET /%00 HTTP/1.1\r\n" + HOST + b"\r\n", b"GET /? HTTP/1.1\r\n" + HOST + b"\r\n",
    b"GET /?=&==&a=b=c&%zz=%z HTTP/1.1\r\n" + HOST + b"\r\n", b"GET / HTTP/1.0\r\n\r\n", b"HEAD / HTTP/1.0\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: x\r\nConnection: upgrade\r\nUpgrade: h2c\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: x\r\nRange: " + b"bytes=0-0," * 2000 + b"\r\n\r\n",
]


@pytest.mark.parametrize("data", MALFORMED, ids=range(len(MALFORMED)))
def test_malformed(raw, bucket, data):
    """Every one is refused or dropped: a 4xx or 5xx or a closed connection, never a success, and the daemon serves on."""
    answers, closed = exchange(raw, data, method="HEAD" if data.startswith(b"HEAD") else "GET", timeout=4)
    assert len(answers) <= 1, answers
    assert all(400 <= a.status < 600 for a in answers), answers
    # what the HTTP library takes for the beginning of a head, or has no memory for, is cut by request_timeout, later than this waits
    left_waiting = data[:1] == b"\x00" or b"a&a&" in data
    assert answers or closed or left_waiting or b"\r\n\r\n" not in data.lstrip(b"\r\n"), (answers, closed)
    still_serves(raw, bucket)


def test_huge_header_gets_431_or_400(raw, bucket):
    answers, _ = exchange(raw, b"GET / HTTP/1.1\r\nHost: x\r\nX: " + b"y" * 200000 + b"\r\n\r\n")
    assert not answers or answers[0].status in (400, 413, 414, 431), answers
    still_serves(raw, bucket)


def test_signed_headers_of_many_kilobytes(raw, s3, bucket):
    """What AWS allows fits: 2 KB of metadata, a long key in the URL, and a long Authorization."""
    headers = {f"x-amz-meta-{i:02}": "v" * 60 for i in range(28)}
    key = "é" * 512
    assert raw.request("PUT", f"/{bucket}/{key}", headers=headers, body=b"x").status == 200
    assert read(s3, bucket, key) == b"x"


# ---- smuggling ----------------------------------------------------------------------------------------------


def smuggle(raw, bucket, extra, body, drop=b""):
    """A PUT whose framing is bent, with a second request hidden behind what one reader may take for the end of the body."""
    head, _ = raw.build("PUT", f"/{bucket}/first", payload=UNSIGNED)
    head = head.replace(b"content-length: 0\r\n", b"")
    if drop:
        head = head.replace(drop, b"")
    hidden, _ = raw.build("PUT", f"/{bucket}/hidden", payload=UNSIGNED)
    return exchange(raw, head[:-2] + extra + b"\r\n" + body + hidden, timeout=5)


FRAMINGS = {
    "cl-te": b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
    "te-cl": b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n",
    "two-cl": b"Content-Length: 5\r\nContent-Length: 0\r\n",
    "two-cl-same": b"Content-Length: 5\r\nContent-Length: 5\r\n",
    "cl-list": b"Content-Length: 5, 5\r\n",
    "cl-plus": b"Content-Length: +5\r\n",
    "cl-hex": b"Content-Length: 0x5\r\n",
    "cl-negative": b"Content-Length: -5\r\n",
    "cl-empty": b"Content-Length: \r\n",
    "cl-space": b"Content-Length: 5 5\r\n",
    "cl-huge": b"Content-Length: 99999999999999999999999\r\n",
    "cl-wrap": b"Content-Length: 18446744073709551621\r\n",
    "te-identity": b"Transfer-Encoding: identity\r\n",
    "te-list": b"Transfer-Encoding: gzip, chunked\r\n",
    "te-twice": b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
    "te-case": b"Transfer-Encoding: xchunked\r\n",
    "te-tab": b"Transfer-Encoding:\tchunked\r\nContent-Length: 5\r\n",
    "te-quoted": b"Transfer-Encoding: \"chunked\"\r\n",
    "te-semicolon": b"Transfer-Encoding: chunked;x=y\r\n",
    "te-cow": b"Transfer-Encoding: cow\r\nTransfer-Encoding: chunked\r\n",
    "te-fold": b"Transfer-Encoding:\r\n chunked\r\nContent-Length: 5\r\n",
    "space-name": b"Content-Length : 5\r\n",
    "fold-cl": b"X-A: b\r\n Content-Length: 5\r\n",
    "bare-cr": b"X-A: b\rContent-Length: 5\r\n",
}


@pytest.mark.parametrize("name", FRAMINGS)
def test_smuggling(raw, s3, bucket, name):
    """The hidden request must not run. At most one answer of success, and none where the framing is ambiguous."""
    answers, closed = smuggle(raw, bucket, FRAMINGS[name], b"0\r\n\r\n")
    assert absent(s3, bucket, "hidden"), (name, answers)
    assert len(answers) <= 1, (name, answers)
    if name in ("cl-te", "te-cl", "two-cl", "te-twice", "te-identity", "te-list", "te-cow", "te-tab", "te-semicolon", "te-case"):
        assert not answers or answers[0].status >= 400, (name, answers)
        assert absent(s3, bucket, "first")
    still_serves(raw, bucket)


INNER = b"5\r\nhello\r\n0\r\n\r\n"  # 15 bytes of aws-chunked: HTTP's chunks carry nothing else
AWS_CHUNKS = b"Transfer-Encoding: chunked\r\nContent-Encoding: aws-chunked\r\n"
LENIENT = [b"f\n" + INNER + b"\n0\n\n", b"f \r\n" + INNER + b"\r\n0\r\n\r\n", b"f;ext=\"a b\"\r\n" + INNER + b"\r\n0\r\n\r\n",
           b"0f\r\n" + INNER + b"\r\n00\r\n\r\n", b"f\r\n" + INNER + b"\r\n0\r\nTrailer: x\r\n\r\n"]
BROKEN = [b"+f\r\n" + INNER + b"\r\n0\r\n\r\n", b"-1\r\n" + INNER + b"\r\n0\r\n\r\n", b"ffffffffffffffffff\r\n" + INNER + b"\r\n0\r\n\r\n",
          b"\r\n" + INNER + b"\r\n0\r\n\r\n", b"f\r\n" + INNER + b"X\r\n0\r\n\r\n", b"g\r\n" + INNER + b"\r\n0\r\n\r\n",
          b"0xf\r\n" + INNER + b"\r\n0\r\n\r\n", b"f\r\n" + INNER + b"\r\n" + b"0" * 20000, b"f;a\r\nb\r\n" + INNER + b"\r\n0\r\n\r\n"]


@pytest.mark.parametrize("body", LENIENT)
def test_odd_http_chunks(raw, s3, bucket, body):
    """Chunked coding that one may read leniently: the whole body or a refusal, and a request behind it is a request."""
    head, _ = raw.build("PUT", f"/{bucket}/first", payload=UNSIGNED)
    after, _ = raw.build("GET", f"/{bucket}/none")
    answers, _ = exchange(raw, head.replace(b"content-length: 0\r\n", AWS_CHUNKS) + body + after, timeout=4)
    assert answers and answers[0].status != 501, answers
    if answers[0].status == 200:
        assert read(s3, bucket, "first") == b"hello" and [a.status for a in answers[1:]] in ([404], []), answers
    else:
        assert absent(s3, bucket, "first") and len(answers) <= 1, answers


@pytest.mark.parametrize("body", BROKEN)
def test_broken_http_chunks(raw, s3, bucket, body):
    """Chunked coding that is not right: no hidden request runs and nothing broken is taken for a whole body."""
    answers, closed = smuggle(raw, bucket, AWS_CHUNKS, body)
    assert absent(s3, bucket, "hidden"), answers
    assert absent(s3, bucket, "first"), answers
    assert len(answers) <= 1 and all(a.status >= 400 and a.status != 501 for a in answers), answers
    still_serves(raw, bucket)


@pytest.mark.parametrize("mangle", [lambda h: h.replace(b"\r\n", b"\n"), lambda h: h.replace(b"\r\nhost:", b"\nhost:"),
                                    lambda h: h.replace(b"x-amz-date: ", b"x-amz-date:\r\n "), lambda h: h.replace(b"host: ", b"host:\t")])
def test_lenient_parsing_gives_exactly_one_request(raw, s3, bucket, mangle):
    """Bare LF and folded lines are parsed leniently by the library: exactly one request must result, or a refusal."""
    head, body = raw.build("PUT", f"/{bucket}/first", body=b"hello")
    answers, _ = exchange(raw, mangle(head) + body, timeout=5)
    assert len(answers) <= 1, answers
    if answers and answers[0].status == 200:
        assert read(s3, bucket, "first") == b"hello"
    else:
        assert absent(s3, bucket, "first")
    still_serves(raw, bucket)


def test_a_get_with_a_body_does_not_hide_a_request(raw, s3, bucket):
    s3.put_object(Bucket=bucket, Key="k", Body=b"x")
    hidden = b"".join(raw.build("PUT", f"/{bucket}/hidden", body=b"x"))
    head, _ = raw.build("GET", f"/{bucket}/k", headers={"content-length": str(len(hidden))}, payload=UNSIGNED)
    answers, _ = exchange(raw, head + hidden)
    assert len(answers) == 1, answers
    assert absent(s3, bucket, "hidden")


# ---- Expect: 100-continue -----------------------------------------------------------------------------------


def send_head(raw, connection, path, body, **how):
    head, data = raw.build("PUT", path, body=body, unsigned_headers={"Expect": "100-continue"}, **how)
    connection.send(head)
    return data


@pytest.mark.smoke
def test_continue(raw, s3, bucket):
    with raw.connect() as connection:
        for size in (5, 300_000):
            body = b"x" * size
            data = send_head(raw, connection, f"/{bucket}/k", body)
            status, _, _ = connection.head()
            assert status == 100
            connection.send(data)
            assert connection.answer("PUT").status == 200
            assert read(s3, bucket, "k") == body


@pytest.mark.parametrize("how, status, code", [
    (dict(signer_secret="wrong"), 403, "SignatureDoesNotMatch"), (dict(path="/no-such-bucket-here/k"), 404, "NoSuchBucket"),
    (dict(headers={"x-amz-server-side-encryption": "aws:kms"}), 501, "NotImplemented"), (dict(headers={"Content-MD5": "x"}), 400, "InvalidDigest"),
    (dict(path="/{b}/" + "k" * 1025), 400, "KeyTooLongError")])
def test_no_continue_on_a_refusal(raw, bucket, how, status, code):
    how = dict(how)
    path = how.pop("path", "/{b}/k").format(b=bucket)
    if "signer_secret" in how:
        how["signer"] = raw.signer(secret_key=how.pop("signer_secret"))
    with raw.connect() as connection:
        send_head(raw, connection, path, b"x" * 1_000_000, **how)
        answer = connection.answer("PUT")
        assert answer.interim == [] and (answer.status, error_shape(answer)) == (status, code), answer
        assert connection.closed(), "the body was never asked for: the connection must end"


def test_a_failed_condition_known_before_the_body(raw, s3, bucket):
    """If-None-Match: * on a key that is there fails, whenever it is looked at, and the body is not stored."""
    s3.put_object(Bucket=bucket, Key="k", Body=b"old")
    with raw.connect() as connection:
        data = send_head(raw, connection, f"/{bucket}/k", b"new", headers={"If-None-Match": "*"})
        connection.send(data)
        answer = connection.answer("PUT")
        assert answer.status == 412, answer
    assert read(s3, bucket, "k") == b"old"


def test_other_expectations(raw, bucket):
    answer = raw.request("GET", f"/{bucket}", unsigned_headers={"Expect": "magic"}, query=[("list-type", "2")])
    assert answer.status in (200, 417), answer


# ---- keep-alive, pipelining, HEAD, OPTIONS ------------------------------------------------------------------


@pytest.mark.smoke
def test_keep_alive(raw, s3, bucket):
    with raw.connect() as connection:
        for i in range(50):
            assert raw.request("PUT", f"/{bucket}/k{i % 3}", body=f"{i}".encode(), connection=connection).status == 200
            assert raw.request("GET", f"/{bucket}/k{i % 3}", connection=connection).body == f"{i}".encode()
            assert raw.request("HEAD", f"/{bucket}/k{i % 3}", connection=connection).headers["content-length"] == str(len(f"{i}"))
            assert raw.request("GET", f"/{bucket}/none", connection=connection).status == 404
            assert raw.request("HEAD", f"/{bucket}/none", connection=connection).status == 404
            assert raw.request("DELETE", f"/{bucket}/k{i % 3}", connection=connection).status == 204


def test_connection_close_and_http_10(raw, s3, bucket):
    s3.put_object(Bucket=bucket, Key="k", Body=b"data")
    with raw.connect() as connection:
        answer = raw.request("GET", f"/{bucket}/k", unsigned_headers={"Connection": "close"}, connection=connection)
        assert answer.body == b"data" and connection.closed()
    head, _ = raw.build("GET", f"/{bucket}/k")
    with raw.connect() as connection:
        connection.send(head.replace(b"HTTP/1.1", b"HTTP/1.0"))
        answer = connection.answer()
        assert (answer.status, answer.body) == (200, b"data") and "transfer-encoding" not in answer.headers
        assert connection.closed()


def test_pipelining(raw, s3, bucket):
    """Many requests in one go are answered in their order."""
    for i in range(10):
        s3.put_object(Bucket=bucket, Key=f"k{i}", Body=str(i).encode() * (1 if i % 2 else 200_000))
    batch = b""
    for i in range(40):
        head, body = raw.build("GET", f"/{bucket}/k{i % 10}") if i % 4 else raw.build("PUT", f"/{bucket}/p{i}", body=f"{i}".encode())
        batch += head + body
    with raw.connect() as connection:
        connection.send(batch)
        for i in range(40):
            answer = connection.answer("GET")
            assert answer.status == 200
            if i % 4:
                assert answer.body == str(i % 10).encode() * (1 if i % 10 % 2 else 200_000), i
    assert read(s3, bucket, "p36") == b"36"


def test_pipelined_byte_by_byte(raw, bucket):
    head, body = raw.build("PUT", f"/{bucket}/k", body=b"hello")
    data = (head + body) * 3
    with raw.connect() as connection:
        for i in range(len(data)):
            connection.send(data[i:i + 1])
        assert [connection.answer("PUT").status for _ in range(3)] == [200] * 3


def test_head_has_no_body(raw, s3, bucket):
    s3.put_object(Bucket=bucket, Key="k", Body=b"x" * 100_000)
    with raw.connect() as connection:
        for path, status in ((f"/{bucket}/k", 200), (f"/{bucket}/none", 404), (f"/{bucket}", 200), ("/no-such-bucket-here", 404)):
            answer = raw.request("HEAD", path, connection=connection)
            assert answer.status == status
            connection.socket.settimeout(0.15)
            with pytest.raises(TimeoutError):
                connection.fill()
            connection.socket.settimeout(10)


def test_options(raw, bucket):
    """Without a CORS configuration AWS refuses every preflight."""
    answer = raw.plain("OPTIONS", f"/{bucket}/k", {"Origin": "http://x", "Access-Control-Request-Method": "GET"})
    assert answer.status == 403 and error_shape(answer) in ("AccessForbidden", "CORSResponse", "AccessDenied"), answer
    for headers, said in (({}, "Origin"), ({"Origin": "http://x"}, "null"),
                          ({"Origin": "http://x", "Access-Control-Request-Method": "PATCH"}, "PATCH"),
                          ({"Origin": "http://x", "Access-Control-Request-Method": "PUT", "Access-Control-Request-Headers": "a,b c"}, "b c")):
        answer = raw.plain("OPTIONS", f"/{bucket}/k", headers)
        assert (answer.status, error_shape(answer)) == (400, "BadRequest") and said in answer.xml.findtext("Message"), answer


# ---- bodies -------------------------------------------------------------------------------------------------


def test_no_length_at_all(raw, s3, bucket):
    head, _ = raw.build("PUT", f"/{bucket}/k", payload=UNSIGNED)
    answer = raw.send("PUT", head.replace(b"content-length: 0\r\n", b""), b"")
    assert (answer.status, answer.code) in [(411, "MissingContentLength"), (200, None)], answer


@pytest.mark.parametrize("part", [False, True])
@pytest.mark.parametrize("expect", ["", "expect: 100-continue\r\n"])
def test_chunked_without_aws_chunked(raw, s3, bucket, part, expect):
    """AWS wants a length, or aws-chunked within the chunks: it answers 501 and names the header."""
    query = []
    if part:
        query = [("partNumber", "1"), ("uploadId", s3.create_multipart_upload(Bucket=bucket, Key="k")["UploadId"])]
    head, _ = raw.build("PUT", f"/{bucket}/k", query=query, payload=UNSIGNED)
    head = head.replace(b"content-length: 0\r\n", f"transfer-encoding: chunked\r\n{expect}".encode())
    answer = raw.send("PUT", head, b"5\r\nhello\r\n0\r\n\r\n")
    assert (answer.status, answer.code, answer.xml.findtext("Header")) == (501, "NotImplemented", "Transfer-Encoding"), answer
    assert "A header you provided implies functionality that is not implemented" in answer.xml.findtext("Message")
    assert absent(s3, bucket, "k")
    if part:
        assert "Parts" not in s3.list_parts(Bucket=bucket, Key="k", UploadId=query[1][1])


XML_OF = "<{0} xmlns='http://s3.amazonaws.com/doc/2006-03-01/'>{1}</{0}>"
DOCUMENTS = {
    "CompleteMultipartUpload": ("POST", "/k", [("uploadId", "")], XML_OF.format("CompleteMultipartUpload", "")),
    "DeleteObjects": ("POST", "", [("delete", "")], XML_OF.format("Delete", "<Object><Key>kept</Key></Object>")),
    "CreateBucket": ("PUT", "-new", [], XML_OF.format("CreateBucketConfiguration", "")),
    "PutPublicAccessBlock": ("PUT", "", [("publicAccessBlock", "")],
                             XML_OF.format("PublicAccessBlockConfiguration", "<BlockPublicAcls>true</BlockPublicAcls>")),
    "CreateMultipartUpload": ("POST", "/k", [("uploads", "")], ""),
    "DeleteObject": ("DELETE", "/kept", [], ""),
    "GetObject": ("GET", "/kept", [], ""),
}


@pytest.mark.parametrize("decoded", [False, True])
@pytest.mark.parametrize("name", DOCUMENTS)
def test_chunked_documents(raw, s3, bucket, name, decoded):
    """As PutObject: HTTP's chunks carry nothing but aws-chunked, whatever the operation is, and nothing of it is done."""
    method, rest, query, document = DOCUMENTS[name]
    s3.put_object(Bucket=bucket, Key="kept", Body=b"kept")
    if name == "CompleteMultipartUpload":
        upload = s3.create_multipart_upload(Bucket=bucket, Key="k")["UploadId"]
        part = s3.upload_part(Bucket=bucket, Key="k", UploadId=upload, PartNumber=1, Body=b"x")["ETag"]
        query = [("uploadId", upload)]
        document = XML_OF.format("CompleteMultipartUpload", f"<Part><PartNumber>1</PartNumber><ETag>{part}</ETag></Part>")
    headers = {"x-amz-decoded-content-length": str(len(document))} if decoded else {}
    body = http_chunked(document.encode(), [7])
    head, _ = raw.build(method, f"/{bucket}{rest}", query=query, payload=UNSIGNED, headers=headers)
    head = head.replace(b"\r\ncontent-length: 0\r\n", b"\r\n")
    answer = raw.send(method, head.replace(b"\r\n\r\n", b"\r\ntransfer-encoding: chunked\r\n\r\n"), body)
    assert (answer.status, answer.code, answer.xml.findtext("Header")) == (501, "NotImplemented", "Transfer-Encoding"), answer
    assert read(s3, bucket, "kept") == b"kept" and absent(s3, bucket, "k")
    assert f"{bucket}-new" not in [b["Name"] for b in s3.list_buckets()["Buckets"]]
    if name == "CompleteMultipartUpload":
        assert len(s3.list_parts(Bucket=bucket, Key="k", UploadId=upload)["Parts"]) == 1


@pytest.mark.parametrize("size", [1, 4097, 300_000])
def test_chunks_of_one_byte(raw, s3, bucket, size):
    """aws-chunked, as SDKs send what they do not know the length of, in the smallest chunks that HTTP has."""
    data = bytes(i % 251 for i in range(size))
    body = f"{size:x}\r\n".encode() + data + b"\r\n0\r\n\r\n"
    head, _ = raw.build("PUT", f"/{bucket}/k", payload=UNSIGNED,
                        headers={"content-encoding": "aws-chunked", "x-amz-decoded-content-length": str(size)})
    head = head.replace(b"content-length: 0\r\n", b"transfer-encoding: chunked\r\n")
    answer = raw.send("PUT", head, b"".join(b"1\r\n%c\r\n" % byte for byte in body) + b"0\r\n\r\n")
    assert answer.status == 200, answer
    assert read(s3, bucket, "k") == data


def test_pipelined_requests(raw, s3, bucket):
    """Sent at once, answered in order, each to its own."""
    keys = [f"k{i}" for i in range(20)]
    with raw.connect() as connection:
        connection.send(b"".join(b"".join(raw.build("PUT", f"/{bucket}/{key}", body=key.encode() * (i + 1))) for i, key in enumerate(keys)))
        for key in keys:
            assert connection.answer("PUT").status == 200, key
        connection.send(b"".join(raw.build("GET", f"/{bucket}/{key}")[0] for key in [*keys, "none", keys[0]]))
        answers = [connection.answer("GET") for _ in range(len(keys) + 2)]
    assert [a.body for a in answers[:20]] == [key.encode() * (i + 1) for i, key in enumerate(keys)]
    assert answers[20].status == 404 and answers[21].body == b"k0"


def test_expect_and_no_body(raw, s3, bucket):
    """Told to go on, the client sends nothing and goes away: nothing is stored, and others are served."""
    head, _ = raw.build("PUT", f"/{bucket}/k", body=b"x" * 100_000, headers={"expect": "100-continue"})
    with raw.connect() as connection:
        connection.send(head)
        assert connection.until(b"\r\n\r\n").startswith(b"HTTP/1.1 100 ")
        still_serves(raw, bucket)
    still_serves(raw, bucket)
    assert absent(s3, bucket, "k")


@pytest.mark.parametrize("mangle", [lambda h: h.replace(b"\r\nhost:", b"\nhost:"), lambda h: h[:-2] + b"\n",
                                    lambda h: h.replace(b"\r\n", b"\n")], ids=["first line", "end", "all"])
def test_a_lone_line_feed_byte_by_byte(raw, s3, bucket, mangle):
    """However slowly it comes, a lone LF is no line's end."""
    head, _ = raw.build("PUT", f"/{bucket}/k")
    with raw.connect() as connection:
        connection.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            for byte in mangle(head):
                connection.send(bytes([byte]))
            assert connection.answer("PUT").status == 400
        except (OSError, ConnectionClosed):  # it may close before it has heard everything
            pass
    assert absent(s3, bucket, "k")
    still_serves(raw, bucket)


@pytest.mark.parametrize("size", [100, 100_000, 3_000_000])
@pytest.mark.parametrize("sent", [0, 0.5, 0.99])
def test_body_cut_short(raw, s3, bucket, size, sent):
    """The client goes away in the middle: nothing is stored and the daemon forgets it."""
    head, body = raw.build("PUT", f"/{bucket}/k", body=b"x" * size, payload=UNSIGNED)
    with raw.connect() as connection:
        connection.send(head + body[:int(size * sent)])
        connection.socket.shutdown(socket.SHUT_WR)
        try:
            assert connection.answer("PUT").status >= 400
        except ConnectionClosed:
            pass
    time.sleep(0.05)
    assert absent(s3, bucket, "k")


def test_reset_in_the_middle(raw, s3, bucket):
    for size in (1000, 3_000_000):
        for _ in range(10):
            head, body = raw.build("PUT", f"/{bucket}/k", body=b"x" * size, payload=UNSIGNED)
            connection = raw.connect()
            connection.send(head + body[:size // 2])
            connection.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00")
            connection.close()
    assert absent(s3, bucket, "k")
    still_serves(raw, bucket)


def test_readers_that_go_away(raw, s3, bucket):
    s3.put_object(Bucket=bucket, Key="k", Body=b"x" * 8_000_000)
    for _ in range(20):
        head, _ = raw.build("GET", f"/{bucket}/k")
        connection = raw.connect()
        connection.send(head)
        connection.fill()
        connection.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00")
        connection.close()
    assert len(read(s3, bucket, "k")) == 8_000_000


def test_body_longer_than_said(raw, s3, bucket):
    """What follows the body is the next request, and this is none."""
    head, body = raw.build("PUT", f"/{bucket}/k", body=b"hello")
    answers, _ = exchange(raw, head + body + b"MORE BYTES\r\n\r\n")
    assert answers[0].status == 200 and all(a.status >= 400 for a in answers[1:]), answers
    assert read(s3, bucket, "k") == b"hello"


def test_a_refusal_does_not_wait_for_a_large_body(raw, bucket):
    """Refused with the head: the answer comes although the body does not."""
    head, _ = raw.build("PUT", f"/{bucket}/k", body=b"", headers={"content-length": str(1 << 30)}, payload=UNSIGNED,
                        signer=raw.signer(secret_key="wrong"))
    with raw.connect() as connection:
        connection.send(head)
        assert connection.answer("PUT").status == 403
        assert connection.closed()


def test_a_put_of_more_than_5_gib_is_refused_at_once(raw, bucket):
    head, _ = raw.build("PUT", f"/{bucket}/k", headers={"content-length": str((5 << 30) + 1)}, payload=UNSIGNED)
    with raw.connect() as connection:
        connection.send(head)
        answer = connection.answer("PUT")
        assert (answer.status, error_shape(answer)) == (400, "EntityTooLarge"), answer


def test_bodies_where_there_should_be_none(raw, s3, bucket):
    s3.put_object(Bucket=bucket, Key="k", Body=b"x")
    for method in ("GET", "DELETE"):
        answer = raw.request(method, f"/{bucket}/k", body=b"unexpected body", headers={"content-length": "15"})
        assert answer.status in (200, 204, 400), answer
    still_serves(raw, bucket)


def test_slow_but_steady(raw, s3, bucket):
    """A client that sends little by little is served."""
    head, body = raw.build("PUT", f"/{bucket}/k", body=b"x" * 2000, payload=STREAMING_UNSIGNED_TRAILER,
                           trailers=[("x-amz-checksum-crc32", "8bnoJg==")])
    with raw.connect() as connection:
        connection.send(head)
        for i in range(0, len(body), 100):
            connection.send(body[i:i + 100])
            time.sleep(0.02)
        assert connection.answer("PUT").status in (200, 400)


# ---- many connections ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [127, 128, 129, 256, 384])
def test_connections_in_multiples_of_128(raw, s3, bucket, count):
    """libmicrohttpd's own epoll loop stalls when the ready events are a multiple of 128: all requests must be answered, quickly."""
    s3.put_object(Bucket=bucket, Key="k", Body=b"data")
    head, _ = raw.build("GET", f"/{bucket}/k")
    connections = [raw.connect() for _ in range(count)]
    try:
        for _ in range(5):
            started = time.monotonic()
            for connection in connections:
                connection.send(head)
            for connection in connections:
                answer = connection.answer()
                assert (answer.status, answer.body) == (200, b"data")
            assert time.monotonic() - started < 5 * PATIENCE
    finally:
        for connection in connections:
            connection.close()


def test_thousands_of_idle_connections(raw, s3, bucket):
    """Idle connections up to what this process may open, each of which has carried a signature; requests beside them are answered as before."""
    s3.put_object(Bucket=bucket, Key="k", Body=b"data")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 4000
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, wanted + 500)), hard))
    count = min(wanted, resource.getrlimit(resource.RLIMIT_NOFILE)[0] - 300)
    head, _ = raw.build("HEAD", f"/{bucket}/k")
    idle = []

    def asks(sock):
        sock.settimeout(10 * PATIENCE)
        sock.sendall(head)
        answer = b""
        while b"\r\n\r\n" not in answer:
            more = sock.recv(4096)
            assert more, answer
            answer += more
        assert answer.startswith(b"HTTP/1.1 200"), answer

    try:
        for _ in range(count):
            idle.append((socket.create_connection((raw.host, raw.port), timeout=10 * PATIENCE), time.monotonic()))
            asks(idle[-1][0])
        for _ in range(20):
            assert raw.request("GET", f"/{bucket}/k").body == b"data"
        for sock, when in idle[::100]:
            if time.monotonic() - when < 40:  # a machine that is so slow today has left the others idle for longer than a connection may be
                asks(sock)
    finally:
        for sock, _ in idle:
            sock.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    still_serves(raw, bucket)


def test_many_slow_uploads_at_once(raw, s3, bucket):
    """300 uploads of which each has sent a little hold no memory that others need."""
    waiting = []
    for i in range(300):
        head, body = raw.build("PUT", f"/{bucket}/slow{i}", body=b"x" * 3_000_000, payload=UNSIGNED)
        connection = raw.connect()
        connection.send(head + body[:10_000])
        waiting.append((connection, body[10_000:]))
    try:
        with concurrent.futures.ThreadPoolExecutor(8) as workers:
            def transfer(i):
                s3.put_object(Bucket=bucket, Key=f"k{i}", Body=bytes([i]) * 2_000_000)
                return read(s3, bucket, f"k{i}") == bytes([i]) * 2_000_000
            assert all(workers.map(transfer, range(16)))
        for connection, rest in waiting[:20]:
            connection.send(rest)
        for connection, _ in waiting[:20]:
            assert connection.answer("PUT").status == 200
    finally:
        for connection, _ in waiting:
            connection.close()
    time.sleep(0.2)
    assert len(keys_of(s3, bucket, Prefix="slow")) == 20


def test_connect_and_leave(raw, bucket):
    for _ in range(300):
        Connection(raw.host, raw.port).close()
    still_serves(raw, bucket)
