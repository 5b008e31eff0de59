"""PUT and UploadPart by RDMA READ against the real daemon, over the fake transport (docs/rdma-protocol.md, "PUT")."""
import base64
import hashlib
import os
import random
import shutil
import signal
import threading
import time
from pathlib import Path

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
                                ({"x-amz-acl": "public-read"}, 400, "AccessControlListNotSupported"), ({"x-amz-grant-read": "id=x"}, 400, "InvalidArgument"),
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
        refused(session.put(path, data, headers=wrong), 400, "BadDigest", False)
        absent(site, path)
        answer = session.put(path, data, headers={header(kind): checksum(kind, data)})
        taken(answer, data)
        assert answer.headers[header(kind)] == checksum(kind, data)
        head = site.user.request("HEAD", path, headers={"x-amz-checksum-mode": "ENABLED"})
        assert head.headers[header(kind)] == checksum(kind, data)
    text = base64.b64encode(hashlib.md5(data + b"x").digest()).decode()
    refused(session.put("/uploads/sum-md5", data, headers={"content-md5": text}), 400, "BadDigest", False)
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


# ---- parts -----------------------------------------------------------------------------------------------------------

def begin_upload(site, path, headers=None):
    answer = site.user.request("POST", path, query=[("uploads", "")], headers=headers)
    assert answer.status == 200, answer
    return answer.xml.findtext("UploadId")


def complete(site, path, upload, etags):
    parts = "".join(f"<Part><PartNumber>{number}</PartNumber><ETag>{etag}</ETag><ChecksumCRC32C>{crc}</ChecksumCRC32C></Part>"
                    for number, etag, crc in etags)
    return site.user.request("POST", path, query=[("uploadId", upload)],
                             body=f"<CompleteMultipartUpload>{parts}</CompleteMultipartUpload>".encode())


def test_parts(site, session):
    path = "/uploads/parts"
    upload = begin_upload(site, path, {"x-amz-checksum-algorithm": "CRC32C"})
    datas = [site.rng.randbytes(size) for size in (5 * MIB, 6 * MIB + 1, 3 * KIB)]
    etags = []
    for number, data in enumerate(datas, 1):
        query = [("partNumber", str(number)), ("uploadId", upload)]
        refused(session.put(path, data, query=query), 400, "InvalidRequest", False)  # a COMPOSITE upload wants each part's
        wrong = {header("CRC32C"): checksum("CRC32C", data + b"x")}
        refused(session.put(path, data, query=query, headers=wrong), 400, "BadDigest", False)
        answer = session.put(path, data, query=query, headers={header("CRC32C"): checksum("CRC32C", data)})
        taken(answer, data)
        assert answer.headers[header("CRC32C")] == checksum("CRC32C", data)
        etags.append((number, answer.headers["etag"], checksum("CRC32C", data)))
    absent(site, path)
    # one of them over TCP, again
    answer = site.user.request("PUT", path, query=[("partNumber", "2"), ("uploadId", upload)], body=datas[1],
                               headers={header("CRC32C"): checksum("CRC32C", datas[1])})
    assert answer.headers["etag"] == etags[1][1]
    done = complete(site, path, upload, etags)
    assert done.status == 200 and done.xml.findtext("ChecksumCRC32C") == composite("CRC32C", datas), done
    answer = site.user.request("GET", path)
    assert answer.body == b"".join(datas)
    answer, memory = session.get(path, len(answer.body))
    assert answer.status == 200 and memory == b"".join(datas)


def test_parts_that_are_refused(site, session):
    path, data = "/uploads/refused-parts", site.rng.randbytes(10 * KIB)
    upload = begin_upload(site, path)
    for query, status, code in (([("partNumber", "0"), ("uploadId", upload)], 400, "InvalidArgument"),
                                ([("partNumber", "1"), ("uploadId", "no-such-upload")], 404, "NoSuchUpload"),
                                ([("partNumber", "1"), ("uploadId", upload[::-1])], 404, "NoSuchUpload")):
        refused(session.put(path, data, query=query), status, code, False)
    for size in (0, 1, 10 * KIB, 70 * KIB):
        taken(session.put(path, data[:size] * (1 + size // (10 * KIB)), query=[("partNumber", "1"), ("uploadId", upload)]),
              data[:size] * (1 + size // (10 * KIB)))
    assert site.user.request("DELETE", path, query=[("uploadId", upload)]).status == 204
    refused(session.put(path, data, query=[("partNumber", "1"), ("uploadId", upload)]), 404, "NoSuchUpload", False)
    absent(site, path)


# ---- numbers, keys, forms ----------------------------------------------------------------------------------------------

def test_a_number_counts_once(site, session):
    data = site.rng.randbytes(100 * KIB)
    taken(session.put("/uploads/number", data), data)
    index, place = session.grip(0, 100 * KIB, read=True)
    session.load(0, b"x" * 100 * KIB)
    for number in (session.number, (1 << 20) + 100):
        refused(session.ask("PUT", "/uploads/number", place, number=number), 409, "RDMARequestRepeated", False)
    refused(session.ask("PUT", "/no-such-bucket/x", place, number=7), 404, "NoSuchBucket", False)
    refused(session.ask("PUT", "/uploads/other", place, number=8, headers={"if-match": "*"}), 404, "NoSuchKey", False)
    refused(session.ask("PUT", "/uploads/number", place, number=8), 409, "RDMARequestRepeated", False)
    session.peer.tell("close", index, 1)
    stored(site, "/uploads/number", data)


def test_the_key_is_needed(site, session):
    with Session(site) as other:
        index, place = session.grip(0, 20 * KIB, read=True)
        for client in (site.user, other.client):
            refused(session.ask("PUT", "/uploads/key", place, client=client), 403, "AccessDenied", False)
        forged = RawClient(site.host, site.port, session.client.access_key, "0" * 64)
        refused(session.ask("PUT", "/uploads/key", place, client=forged), 403, "SignatureDoesNotMatch", False)
        answer = session.client.request("PUT", "/uploads/key", body=b"x")  # the session's key signs its own requests only
        assert answer.status == 403
        answer = session.ask("PUT", "/uploads/key", place, headers={"x-amz-copy-source": "/uploads/number"})
        assert answer.status == 403
        session.peer.tell("close", index, 1)
    absent(site, "/uploads/key")


def test_a_body_and_a_window_are_one_too_many(site, session):
    index, place = session.grip(0, 20 * KIB, read=True)

    def ask(**how):
        session.number += 1
        return session.client.request("PUT", "/uploads/form", headers=session.headers(place, session.number), **how)

    for how in (dict(body=b"x" * 100, payload="UNSIGNED-PAYLOAD"), dict(), dict(body=b"x" * 100),
                dict(body=b"x" * 100, payload="STREAMING-UNSIGNED-PAYLOAD-TRAILER", trailers=[("x-amz-checksum-crc32", "AAAAAA==")]),
                dict(body=b"x" * 100, payload="UNSIGNED-PAYLOAD", http_chunks=[100]), dict(content_sha256=EMPTY_SHA256)):
        refused(ask(**how), 400, "MalformedRDMARequest", False)
    for bad in ("", "0:0:0", place[:26] + "f" * 16):
        refused(session.ask("PUT", "/uploads/form", bad), 400, "MalformedRDMARequest", False)
    refused(session.ask("PUT", "/uploads/form", place[:26] + f"{(5 << 30) + 1:016x}"), 400, "EntityTooLarge", False)
    session.peer.tell("close", index, 1)
    absent(site, "/uploads/form")


def test_declined_where_nothing_is_connected(site):
    with Session(site, connect=False) as session:
        session.client = RawClient(site.host, site.port, "MRDX" + session.id.upper(), session_secret(session))
        answer = session.ask("PUT", "/uploads/declined", "0" * 16 + ":" + "0" * 8 + ":" + f"{4 * MIB:016x}")
        refused(answer, 501, "RDMADeclined", False)
        assert answer.headers["x-millrace-rdma-declined"] == "queue-pairs"
    absent(site, "/uploads/declined")


# ---- what goes wrong on the way ----------------------------------------------------------------------------------------

def test_a_right_that_is_not_there(site):
    """A forged rkey, a window for writing, one that was ended, one that is too small: nothing is stored, and the session ends."""
    def forge(session):
        place = session.grip(0, 4 * MIB, read=True)[1]
        return place[:17] + f"{int(place[17:25], 16) ^ 0x5a5a5a:08x}" + place[25:]

    def for_writing(session):
        return session.grip(0, 4 * MIB)[1]

    def ended(session):
        index, place = session.grip(0, 4 * MIB, read=True)
        session.peer.tell("close", index, 1)
        return place

    def too_small(session):
        return session.grip(0, 3 * MIB, read=True)[1][:26] + f"{4 * MIB:016x}"

    for bend in (forge, for_writing, ended, too_small):
        with Session(site, rights=["window2"]) as session:
            answer = session.ask("PUT", "/uploads/right", bend(session))
            refused(answer, 503, "ServiceUnavailable", True)
            absent(site, "/uploads/right")
            assert session.ask("PUT", "/uploads/right", "0" * 16 + ":" + "0" * 8 + ":" + "0" * 16).status == 403
    rests(site)


def stop(peer):
    """The process with all its threads, of which one is its device, does nothing from here on."""
    peer.process.send_signal(signal.SIGSTOP)
    tasks = Path(f"/proc/{peer.process.pid}/task")
    until(lambda: all((task / "stat").read_text().rsplit(")", 1)[1].split()[0] == "T" for task in tasks.iterdir()), "it runs on")


def stalled(session, size, path):
    """A PUT that is in mid-transfer, since the client's device does not answer. Its answer comes into the list."""
    index, place = session.grip(0, size, read=True)
    stop(session.peer)
    answers = []

    def ask():
        try:
            answers.append(session.ask("PUT", path, place, timeout=60))
        except Exception as error:  # judged by the test
            answers.append(error)

    thread = threading.Thread(target=ask)
    thread.start()
    until(lambda: metric(session.daemon, "millrace_rdma_in_flight") > 0 or answers, "nothing was posted")
    assert not answers
    return thread, answers


@pytest.mark.parametrize("size", [10 * KIB, 17 * MIB])
def test_a_client_that_dies(site, size):
    session = Session(site)
    thread, answers = stalled(session, size, "/uploads/dies")
    session.peer.kill()
    thread.join()
    refused(answers[0], 503, "ServiceUnavailable", True)
    absent(site, "/uploads/dies")
    rests(site)


def test_a_session_that_is_ended(site):
    with Session(site) as session:
        thread, answers = stalled(session, 17 * MIB, "/uploads/ended")
        assert site.user.request("DELETE", f"{PATH}/{session.id}").status == 204
        thread.join()
        refused(answers[0], 503, "ServiceUnavailable", True)
        session.peer.process.send_signal(signal.SIGCONT)
    absent(site, "/uploads/ended")
    rests(site)


def test_a_client_that_stalls(site):
    with Session(site) as session:
        thread, answers = stalled(session, 17 * MIB, "/uploads/stalls")
        thread.join()
        refused(answers[0], 503, "ServiceUnavailable", True)
        session.peer.process.send_signal(signal.SIGCONT)
    absent(site, "/uploads/stalls")
    rests(site)


def test_a_connection_that_breaks(site):
    """The request is gone in mid-transfer: what is posted is waited for, and the session goes on."""
    with Session(site) as session:
        data = site.rng.randbytes(17 * MIB)
        session.load(0, data)
        index, place = session.grip(0, len(data), read=True)
        stop(session.peer)
        connection = site.user.connect()
        head, _ = session.client.build("PUT", "/uploads/breaks", headers=session.headers(place), payload="UNSIGNED-PAYLOAD")
        connection.send(head)
        until(lambda: metric(site, "millrace_rdma_in_flight") > 0, "nothing was posted")
        connection.close()
        until(lambda: metric(site, "millrace_requests_active") == 0, "the request goes on", 30)
        session.peer.process.send_signal(signal.SIGCONT)
        rests(site)
        absent(site, "/uploads/breaks")
        session.peer.tell("close", index, 1)
        taken(session.put("/uploads/breaks", data), data)


def test_credentials_that_are_revoked(tmp_path):
    credentials = tmp_path / "credentials"

    def write(secret):
        credentials.write_text(f"access_key = AKPUTS\nsecret_key = {secret}\n")
        os.chmod(credentials, 0o600)

    write("first-secret-of-some-length")
    daemon = rdma_daemon(credentials=False, settings={"root_credentials": credentials}).start()
    try:
        daemon.access_key, daemon.secret_key = "AKPUTS", "first-secret-of-some-length"
        user = RawClient(daemon.host, daemon.port, daemon.access_key, daemon.secret_key)
        assert user.request("PUT", "/bucket").status == 200
        with Session(daemon) as session:
            thread, answers = stalled(session, 3 * MIB, "/bucket/key")
            write("second-secret-of-some-length")
            daemon.signal(signal.SIGHUP)
            thread.join()
            refused(answers[0], 503, "ServiceUnavailable", True)
            session.peer.process.send_signal(signal.SIGCONT)
        user.secret_key = "second-secret-of-some-length"
        assert user.request("HEAD", "/bucket/key").status == 404
        rests(daemon)
        daemon.stop()
    finally:
        daemon.discard()


def test_the_end_of_the_daemon_in_mid_transfer():
    daemon = rdma_daemon().start()
    try:
        user = RawClient(daemon.host, daemon.port, daemon.access_key, daemon.secret_key)
        assert user.request("PUT", "/bucket").status == 200
        session = Session(daemon)
        thread, answers = stalled(session, 17 * MIB, "/bucket/key")
        daemon.stop()
        thread.join()
        session.peer.kill()
        daemon.format = False
        daemon.start()
        assert user.request("HEAD", "/bucket/key").status == 404 or not answers
        daemon.stop()
    finally:
        daemon.discard()


def test_what_was_answered_is_there_after_a_kill():
    daemon = rdma_daemon(drives=4, ec="2+2").start()
    rng = random.Random(SEED)
    try:
        user = RawClient(daemon.host, daemon.port, daemon.access_key, daemon.secret_key)
        assert user.request("PUT", "/bucket").status == 200
        contents = {}
        for turn in range(4):
            with Session(daemon) as session:
                for size in SIZES:
                    data = rng.randbytes(size)
                    taken(session.put(f"/bucket/{turn}-{size}", data), data)
                    contents[f"/bucket/{turn}-{size}"] = data
            daemon.kill()
            daemon.format = False
            daemon.start()
            user = RawClient(daemon.host, daemon.port, daemon.access_key, daemon.secret_key)
            daemon.user = user
            for path, data in contents.items():
                stored(daemon, path, data)
        daemon.stop()
    finally:
        daemon.discard()


def test_a_full_store():
    daemon = rdma_daemon(drives=4, ec="2+2").start()
    try:
        user = RawClient(daemon.host, daemon.port, daemon.access_key, daemon.secret_key)
        assert user.request("PUT", "/bucket").status == 200
        daemon.stop()
        daemon.format = False
        daemon.settings["full_reserve"] = "16TiB"
        daemon.start()
        with Session(daemon) as session:
            for size in (10, 5 * MIB):
                refused(session.put("/bucket/key", b"x" * size), 507, "InsufficientStorage", False)
        daemon.stop()
    finally:
        daemon.discard()


@pytest.mark.parametrize("faults, stays", [("fail:op=write,slot=0,after=9", True), ("fail:op=write,slot=0,after=2;fail:op=write,slot=2,after=2", False),
                                           ("fail:op=sync,slot=0", True)])
def test_drives_that_fail_in_mid_transfer(faults, stays):
    daemon = rdma_daemon(drives=4, ec="2+2", settings={"test_faults": faults}).start()
    try:
        daemon.user = RawClient(daemon.host, daemon.port, daemon.access_key, daemon.secret_key)
        assert daemon.user.request("PUT", "/bucket").status == 200
        data = random.Random(SEED).randbytes(17 * MIB + 1)
        with Session(daemon) as session:
            answer = session.put("/bucket/key", data)
            if stays:
                taken(answer, data)
                stored(daemon, "/bucket/key", data)
            else:
                refused(answer, 503, "SlowDown", True)
                assert daemon.user.request("HEAD", "/bucket/key").status != 200
        rests(daemon)
        daemon.stop()
    finally:
        daemon.discard()
