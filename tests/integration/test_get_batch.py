"""GetBatch: many objects in one answer, each with its own result."""
import socket

import pytest

from tests.conftest import both_layouts
from tests.support import checksums, s3raw
from tests.support.getbatch import PATH, TYPE, Entry, ask, body, message

MIB = 1 << 20


def put(s3, bucket, key, data):
    s3.put_object(Bucket=bucket, Key=key, Body=data)
    return data


@both_layouts
def test_mixed(s3, raw, bucket, rng):
    """Small and large objects, ranges, and everything that can be wrong with an entry; one does not disturb another."""
    sizes = {"empty": 0, "one": 1, "small": 10_000, "record": 128 * 1024, "shards": 128 * 1024 + 1, "large": 5 * MIB + 77}
    data = {key: put(s3, bucket, key, rng.randbytes(size)) for key, size in sizes.items()}
    etag = checksums.etag(data["small"]).strip('"')
    cases = [(Entry(bucket, key), 200, 0, data[key]) for key in sizes] + [
        (Entry(bucket, "small", 5, 10), 206, 0, data["small"][5:15]),
        (Entry(bucket, "small", 9_990, 100), 206, 0, data["small"][9_990:]),
        (Entry(bucket, "small", 7), 206, 0, data["small"][7:]),
        (Entry(bucket, "small", 0, 12, suffix=True), 206, 0, data["small"][-12:]),
        (Entry(bucket, "small", 0, 99_999, suffix=True), 206, 0, data["small"]),
        (Entry(bucket, "large", MIB - 3, 2 * MIB), 206, 0, data["large"][MIB - 3:3 * MIB - 3]),
        (Entry(bucket, "small", room=10_000), 200, 0, data["small"]),
        (Entry(bucket, "small", if_match=etag, version_id="null"), 200, 0, data["small"]),
        (Entry(bucket, "empty", 0, 3, suffix=True), 200, 0, b""),
        (Entry(bucket, "none"), 404, 1, b""),
        (Entry("no-such-bucket-here", "small"), 404, 2, b""),
        (Entry(bucket, "small", if_match="0" * 32), 412, 5, b""),
        (Entry(bucket, "small", if_match="what"), 412, 5, b""),
        (Entry(bucket, "small", 10_000), 416, 6, b""),
        (Entry(bucket, "empty", 0, 1), 416, 6, b""),
        (Entry(bucket, "small", room=9_999), 400, 7, b""),
        (Entry(bucket, "large", room=MIB), 400, 7, b""),
        (Entry("NOT_A_NAME", "small"), 400, 8, b""),
        (Entry(bucket, "small", version_id="another"), 400, 8, b""),
    ]
    for ordered in (True, False):
        for entries in (cases, cases[::-1]):
            for (entry, status, code, wanted), result in zip(entries, ask(raw, [case[0] for case in entries], ordered)):
                assert (result.status, result.code, result.data == wanted) == (status, code, True), (entry, result)
                if entry.key in sizes and code not in (2, 8):
                    assert result.size == sizes[entry.key]
                    assert result.etag == checksums.etag(data[entry.key]).strip('"')


def test_as_many_as_may_be(s3, raw, bucket, rng):
    other = bucket + "-two"
    s3.create_bucket(Bucket=other)
    data = [put(s3, (bucket, other)[i % 2], f"k/{i}", rng.randbytes(100 + 37 * i)) for i in range(200)]
    entries = [Entry((bucket, other)[i % 200 % 2], f"k/{i % 200}") for i in range(1024)]
    for ordered in (True, False):
        results = ask(raw, entries, ordered)
        assert [result.data for result in results] == [data[i % 200] for i in range(1024)]
    connection = raw.connect()  # and the connection stays
    for _ in range(3):
        assert [result.data for result in ask(raw, entries[:5], connection=connection)] == data[:5]
    connection.close()


@pytest.mark.slow
def test_many_large_ones(s3, raw, bucket, rng):
    data = put(s3, bucket, "k", rng.randbytes(3 * MIB + 1))
    results = ask(raw, [Entry(bucket, "k", i * 1000, MIB) for i in range(40)], timeout=60)
    assert all(result.data == data[i * 1000:i * 1000 + MIB] for i, result in enumerate(results))


@pytest.mark.parametrize("how, status, code", [
    (dict(anonymous=True), 403, "AccessDenied"),
    (dict(payload=s3raw.UNSIGNED), 403, "AccessDenied"),
    (dict(payload=s3raw.STREAMING_UNSIGNED_TRAILER), 403, "AccessDenied"),
    (dict(alter_signature=lambda text: "0" * 64), 403, "SignatureDoesNotMatch"),
    (dict(content_sha256="0" * 64), 400, "XAmzContentSHA256Mismatch"),
    (dict(headers={"Content-Type": "application/xml"}), 400, "MalformedRDMARequest"),
])
def test_refused(s3, raw, bucket, how, status, code):
    how = {"headers": {"Content-Type": TYPE}, **how}
    answer = raw.request("POST", PATH, body=body([Entry(bucket, "k")]), **how)
    assert (answer.status, answer.code) == (status, code), answer


def test_a_body_in_signed_chunks(s3, raw, bucket):
    put(s3, bucket, "k", b"bytes")
    assert ask(raw, [Entry(bucket, "k")], payload=s3raw.STREAMING)[0].data == b"bytes"


def test_other_requests_of_the_path(raw):
    for method, path, status, code in [("GET", PATH, 405, "MethodNotAllowed"), ("PUT", PATH, 405, "MethodNotAllowed"),
                                       ("POST", PATH + "x", 400, "InvalidBucketName"), ("POST", "/_millrace", 400, "InvalidBucketName")]:
        answer = raw.request(method, path)
        assert (answer.status, answer.code) == (status, code), answer


def malformed(bucket):
    good = [Entry(bucket, f"k{i}") for i in range(3)]
    many = [Entry(bucket, "k")] * 256
    yield b""
    yield message(good)[:-1]
    yield message(good) + b"\0"
    yield message(good) + message(good, 3)[:40]
    yield message([])
    for name, value in [("version", 2), ("kind", 2), ("flags", 2), ("length", 56), ("length", 1 << 31), ("number", 1), ("count", 2), ("count", 4),
                        ("first", 1), ("replies", 0), ("replies", 65), ("zero", 1), ("deadline", 1), ("address", 1), ("window", 1), ("rkey", 1),
                        ("zero2", 1)]:
        yield message(good, **{name: value})
    yield message(good) + message(good, 2)
    yield message(good) + message(good, 3, batch=8)
    yield b"".join(message(many, 256 * i) for i in range(4)) + message(good[:1], 1024)
    yield message([Entry("", "k")])
    yield message([Entry(bucket, "")])
    yield message([Entry(bucket, "k", 1, 5, suffix=True)])
    yield message([Entry(bucket, "k", 0, 0, suffix=True)])


def test_malformed(raw, bucket):
    connection = raw.connect()
    for bad in malformed(bucket):
        answer = raw.request("POST", PATH, headers={"Content-Type": TYPE}, body=bad, connection=connection)
        assert (answer.status, answer.code) == (400, "MalformedRDMARequest"), (bad, answer)
    connection.close()
    answer = raw.request("POST", PATH, headers={"Content-Type": TYPE}, body=b"x" * (2 * MIB + 1))
    assert (answer.status, answer.code) == (400, "MaxMessageLengthExceeded"), answer


def test_a_client_that_stops_reading(s3, raw, bucket, rng):
    """Others are served, and nothing is left of it when it goes."""
    data = put(s3, bucket, "k", rng.randbytes(4 * MIB))
    head, content = raw.build("POST", PATH, headers={"Content-Type": TYPE}, body=body([Entry(bucket, "k")] * 1000))
    stuck = []
    for _ in range(20):
        connection = raw.connect()
        connection.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.send(head + content)
        stuck.append(connection)
    for _ in range(5):
        assert [result.data == data for result in ask(raw, [Entry(bucket, "k")] * 3, timeout=60)] == [True] * 3
    for connection in stuck[::2]:
        connection.close()
    for connection in stuck[1::2]:
        connection.close()
    assert ask(raw, [Entry(bucket, "k")])[0].data == data
