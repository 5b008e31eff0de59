"""PUT and UploadPart by RDMA READ against the real daemon, over the fake transport (docs/rdma-protocol.md, "PUT")."""
import base64
import hashlib
import os
import random
import shutil
import signal
import threading
import time

import pytest

from tests.conftest import SEED
from tests.support.checksums import KINDS, checksum, composite, header
from tests.support.rdma import DRIVER, PATH, Session, rdma_daemon
from tests.support.rdma_keys import session_secret
from tests.support.s3raw import EMPTY_SHA256, RawClient

pytestmark = [pytest.mark.daemon, pytest.mark.skipif(not DRIVER.exists(), reason="make fake-rdma builds the transport")]
KIB, MIB = 1 << 10, 1 << 20
SIZES = (0, 1, 10 * KIB, 128 * KIB, 128 * KIB + 1, 300 * KIB, 3 * MIB, 17 * MIB + 12345)


@pytest.fixture(scope="module")
def site():
    daemon = rdma_daemon(drives=4, ec="2+2").start()
    daemon.user = RawClient(daemon.host, daemon.port, daemon.access_key, daemon.secret_key)
    assert daemon.user.request("PUT", "/uploads").status == 200
    daemon.rng = random.Random(SEED)
    yield daemon
    rests(daemon)
    daemon.stop()
    daemon.discard()
    shutil.rmtree(daemon.sockets)


@pytest.fixture
def session(site):
    with Session(site) as one:
        yield one


def metric(site, name):
    return sum(float(line.split()[-1]) for line in site.admin_get("/metrics")[1].decode().splitlines()
               if line.startswith((name + " ", name + "{")))


def until(condition, what, seconds=30):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)


def rests(site):
    """No buffer is held, nothing is on its way."""
    for name in ("millrace_arena_slots_used", "millrace_rdma_in_flight"):
        until(lambda: metric(site, name) == 0, name)
    until(lambda: metric(site, "millrace_arena_slots_reserved") == 0, "slots are still reserved")


def md5(data):
    return hashlib.md5(data).hexdigest()


def stored(site, path, data):
    answer = site.user.request("GET", path)
    assert answer.status == 200 and answer.body == data, (path, answer.status, len(answer.body))
    assert answer.headers["etag"] == f'"{md5(data)}"'


def taken(answer, data):
    """The answer says that exactly these bytes were read and stored."""
    assert answer.status == 200 and answer.body == b"", answer
    assert answer.headers["etag"] == f'"{md5(data)}"'
    assert answer.headers["x-millrace-transport"] == "rdma"
    assert answer.headers["x-millrace-rdma-bytes"] == str(len(data))
    assert "x-millrace-rdma-notices" not in answer.headers and "x-millrace-rdma-posted" not in answer.headers


def absent(site, path):
    assert site.user.request("HEAD", path).status == 404


def refused(answer, status, code, posted):
    assert (answer.status, answer.code) == (status, code), answer
    assert answer.headers.get("x-millrace-rdma-posted") == (None if posted else "none"), answer
    assert "etag" not in answer.headers


# ---- objects ---------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("rights", ["window2", "window1", "region"])
def test_all_sizes(site, rights):
    with Session(site, rights=[rights]) as session:
        for size in SIZES:
            data = site.rng.randbytes(size)
            answer = session.put(f"/uploads/{rights}/{size}", data, offset=4096 + 77)
            taken(answer, data)
            assert answer.headers["x-amz-checksum-crc64nvme"] == checksum("CRC64NVME", data)
            stored(site, f"/uploads/{rights}/{size}", data)
            if size:
                again, memory = session.get(f"/uploads/{rights}/{size}", size)
                assert again.status == 200 and memory == data


def test_each_byte_is_read_once(site, session):
    """As many reads as units of 1 MiB, and as many bytes as the object has."""
    before = metric(site, "millrace_rdma_read_bytes_total"), metric(site, "millrace_rdma_reads_total")
    data = site.rng.randbytes(17 * MIB + 12345)
    taken(session.put("/uploads/once", data), data)
    assert metric(site, "millrace_rdma_read_bytes_total") - before[0] == len(data)
    assert metric(site, "millrace_rdma_reads_total") - before[1] == 18


def test_the_copy_that_was_read_counts(site, session):
    """The memory changes all the while: what is stored is one state of each byte, and the answer's digests are of what is stored."""
    size = 8 * MIB
    index, place = session.grip(0, size, read=True)
    for turn in range(3):
        session.load(0, bytes([turn]) * size)
        result = {}
        asking = threading.Thread(target=lambda: result.update(answer=session.ask("PUT", "/uploads/changing", place)))
        asking.start()
        session.load(0, bytes([turn + 100]) * size)
        asking.join()
        body = site.user.request("GET", "/uploads/changing").body
        assert set(body) <= {turn, turn + 100}
        taken(result["answer"], body)
        assert result["answer"].headers["x-amz-checksum-crc64nvme"] == checksum("CRC64NVME", body)
    session.peer.tell("close", index, 1)


def test_metadata_conditions_and_refused_headers(site, session):
    data, other = site.rng.randbytes(200 * KIB), site.rng.randbytes(5 * MIB)
    headers = {"content-type": "text/x-odd", "x-amz-meta-colour": "blue", "cache-control": "max-age=7", "x-amz-acl": "private"}
    answer = session.put("/uploads/cond", data, headers={**headers, "if-none-match": "*"})
    taken(answer, data)
    head = site.user.request("HEAD", "/uploads/cond").headers
    assert (head["content-type"], head["x-amz-meta-colour"], head["cache-control"]) == ("text/x-odd", "blue", "max-age=7")
    assert head["content-length"] == str(len(data))
    for wrong, status, code in (({"if-none-match": "*"}, 412, "PreconditionFailed"), ({"if-match": '"' + "0" * 32 + '"'}, 412, "PreconditionFailed"),
                                ({"x-amz-acl": "public-read"}, 501, "NotImplemented"), ({"x-amz-tagging": "a=b"}, 501, "NotImplemented"),
                                ({"content-md5": "short"}, 400, "InvalidDigest"), ({"x-amz-meta-big": "x" * 3000}, 400, "MetadataTooLarge")):
        before = metric(site, "millrace_rdma_reads_total")
        refused(session.put("/uploads/cond", other, headers=wrong), status, code, False)
        assert metric(site, "millrace_rdma_reads_total") == before
        tcp = site.user.request("PUT", "/uploads/cond", body=other, headers=wrong)
        assert (tcp.status, tcp.code) == (status, code)
    stored(site, "/uploads/cond", data)
    refused(session.put("/uploads/not-there", other, headers={"if-match": "*"}), 404, "NoSuchKey", False)
    refused(session.put("/no-such-bucket/key", other), 404, "NoSuchBucket", False)
    taken(session.put("/uploads/cond", other, headers={"if-match": f'"{md5(data)}"'}), other)
    stored(site, "/uploads/cond", other)


@pytest.mark.parametrize("size", [0, 10 * KIB, 3 * MIB + 5])
def test_checksums(site, session, size):
    data = site.rng.randbytes(size)
    for kind in KINDS:
        path = f"/uploads/sum-{kind}-{size}"
        wrong = {header(kind): checksum(kind, data + b"x")}
        refused(session.put(path, data, headers=wrong), 400, "BadDigest", size > 0)
        absent(site, path)
        answer = session.put(path, data, headers={header(kind): checksum(kind, data)})
        taken(answer, data)
        assert answer.headers[header(kind)] == checksum(kind, data)
        head = site.user.request("HEAD", path, headers={"x-amz-checksum-mode": "ENABLED"})
        assert head.headers[header(kind)] == checksum(kind, data)
    text = base64.b64encode(hashlib.md5(data + b"x").digest()).decode()
    refused(session.put("/uploads/sum-md5", data, headers={"content-md5": text}), 400, "BadDigest", size > 0)
    absent(site, "/uploads/sum-md5")
    text = base64.b64encode(hashlib.md5(data).digest()).decode()
    taken(session.put("/uploads/sum-md5", data, headers={"content-md5": text}), data)
    assert site.user.request("DELETE", "/uploads/sum-md5").status == 204


def test_many_at_once(site):
    """More uploads than there are buffers for, of all sizes, on several sessions: each comes to its end."""
    sessions = [Session(site, memory=64 * MIB) for _ in range(3)]
    contents, threads, failures = {}, [], []

    def upload(session, place, number, name):
        try:
            taken(session.ask("PUT", name, place, number=number, timeout=120), contents[name])
        except Exception as error:  # told by the main thread
            failures.append((name, error))

    for s, session in enumerate(sessions):
        offset = 0
        for i in range(30):
            size = (1, 100 * KIB, 300 * KIB, 2 * MIB + 3, 5 * MIB)[i % 5]
            name = f"/uploads/many/{s}/{i}"
            contents[name] = site.rng.randbytes(size)
            session.load(offset, contents[name])
            index, place = session.grip(offset, size, read=True)
            offset += size
            threads.append(threading.Thread(target=upload, args=(session, place, i + 1, name)))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures[:3]
    for name, data in contents.items():
        stored(site, name, data)
    for session in sessions:
        session.close()
    rests(site)
