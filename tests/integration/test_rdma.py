"""RDMA sessions against the real daemon, over the fake transport: opening, GETs into windows, refusals, fallbacks, endings (docs/rdma-protocol.md)."""
import json
import os
import random
import shutil
import signal
import time

import pytest

from tests.conftest import SEED
from tests.support.checksums import checksum
from tests.support.rdma import DRIVER, PATH, Session, opening, rdma_daemon
from tests.support.rdma_keys import session_secret
from tests.support.s3raw import STREAMING_UNSIGNED_TRAILER, UNSIGNED, RawClient
from tests.support.waits import metric

pytestmark = [pytest.mark.daemon, pytest.mark.skipif(not DRIVER.exists(), reason="make fake-rdma builds the transport")]
KIB, MIB = 1 << 10, 1 << 20
SIZES = {"none": 0, "one": 1, "small": 10 * KIB, "inline": 128 * KIB, "large": 300 * KIB, "units": 3 * MIB, "big": 17 * MIB + 12345}


@pytest.fixture(scope="module")
def site():
    """A daemon with RDMA, and objects of all sizes in one bucket."""
    daemon = rdma_daemon(drives=4, ec="2+2").start()
    rng = random.Random(SEED)
    daemon.user = RawClient(daemon.host, daemon.port, daemon.access_key, daemon.secret_key)
    assert daemon.user.request("PUT", "/samples").status == 200
    daemon.objects = {name: rng.randbytes(size) for name, size in SIZES.items()}
    for name, data in daemon.objects.items():
        assert daemon.user.request("PUT", f"/samples/{name}", body=data).status == 200
    yield daemon
    daemon.stop()
    daemon.discard()
    shutil.rmtree(daemon.sockets)


@pytest.fixture
def session(site):
    with Session(site) as one:
        yield one


def crc_text(data):
    return checksum("CRC32C", data)


def written(answer, data, status=200):
    """The answer says that exactly these bytes were written."""
    assert answer.status == status and answer.body == b"", answer
    assert answer.headers["content-length"] == "0"
    assert answer.headers["x-millrace-transport"] == "rdma"
    assert answer.headers["x-millrace-rdma-bytes"] == str(len(data))
    assert answer.headers["x-millrace-crc32c"] == crc_text(data)
    assert answer.headers["cache-control"].endswith("no-store")
    assert answer.headers.get("x-millrace-rdma-notices") == ("0.0" if data else None)


# ---- GETs ------------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("rights", ["window2", "window1", "region"])
def test_whole_objects_of_all_sizes(site, rights):
    with Session(site, rights=[rights]) as session:
        assert session.opened["rights"] == rights
        for name, data in site.objects.items():
            answer, memory = session.get(f"/samples/{name}", len(data) + 64, offset=4096)
            written(answer, data)
            assert memory[:len(data)] == data, name
            assert memory[len(data):] == b"\xee" * 64 or name != "big", name
            assert answer.headers["accept-ranges"] == "bytes" and answer.headers["etag"]


def test_ranges_parts_and_conditions_as_over_tcp(site, session):
    data = site.objects["big"]
    for text, part in (("bytes=0-0", data[:1]), ("bytes=1048570-3145735", data[1048570:3145736]), ("bytes=-100000", data[-100000:])):
        answer, memory = session.get("/samples/big", len(part), headers={"range": text})
        written(answer, part, 206)
        assert memory == part
        tcp = site.user.request("GET", "/samples/big", headers={"range": text})
        assert answer.headers["content-range"] == tcp.headers["content-range"]
        assert answer.headers["etag"] == tcp.headers["etag"] and answer.headers["last-modified"] == tcp.headers["last-modified"]
    etag = answer.headers["etag"]
    answer, memory = session.get("/samples/big", len(data), headers={"if-match": etag})
    written(answer, data)
    assert memory == data
    answer, memory = session.get("/samples/small", 10 * KIB, query=[("partNumber", "1")])
    written(answer, site.objects["small"], 206)
    for headers, status in (({"if-match": '"0"'}, 412), ({"if-none-match": etag}, 304), ({"range": "bytes=99999999-"}, 416)):
        answer, memory = session.get("/samples/big", 100, offset=20 * MIB, headers=headers)
        assert answer.status == status and answer.headers["x-millrace-rdma-posted"] == "none", answer
        assert memory == b"\xee" * 100


def test_errors_write_nothing(site, session):
    for path, status, code in (("/samples/absent", 404, "NoSuchKey"), ("/nothing-here/x", 404, "NoSuchBucket"),
                               ("/samples/large", 400, "RDMAWindowTooSmall")):
        answer, memory = session.get(path, 1000)
        assert (answer.status, answer.code) == (status, code), answer
        assert answer.headers["x-millrace-rdma-posted"] == "none"
        assert memory == b"\xee" * 1000
    assert answer.headers["x-millrace-rdma-needed"] == str(300 * KIB)


def test_head_writes_nothing(site, session):
    index, place = session.grip(0, 1000)
    answer = session.ask("HEAD", "/samples/big", place)
    assert answer.status == 200 and answer.headers["content-length"] == str(SIZES["big"])
    assert "x-millrace-rdma-notices" not in answer.headers
    session.peer.tell("close", index, 1)
    assert session.saved(0, 1000) == b"\xee" * 1000


def test_large_objects_are_not_copied(site, session):
    """Every write comes from the arena: as many writes as units, and as many bytes as the object has."""
    before = metric(site, "millrace_rdma_written_bytes_total"), metric(site, "millrace_rdma_writes_total")
    session.get("/samples/big", SIZES["big"])
    assert metric(site, "millrace_rdma_written_bytes_total") - before[0] == SIZES["big"]
    assert metric(site, "millrace_rdma_writes_total") - before[1] == 18


def spoil(drive):
    """Damages what stands in a drive's segments, here and there."""
    for path in (drive / "data").iterdir():
        if not path.is_file():
            continue
        with open(path, "r+b") as file:
            for offset in range(8 * KIB, path.stat().st_size, 700 * KIB):
                file.seek(offset)
                file.write(b"damaged!" * 16)


def test_damage_and_a_missing_drive():
    """Degraded reads: the engine changes its buffers in the middle, while writes from them are under way, and repairs."""
    daemon = rdma_daemon(drives=4, ec="2+2").start()
    try:
        user = RawClient(daemon.host, daemon.port, daemon.access_key, daemon.secret_key)
        data = random.Random(SEED).randbytes(33 * MIB + 77)
        assert user.request("PUT", "/bucket").status == 200
        assert user.request("PUT", "/bucket/key", body=data).status == 200
        for i in range(12):  # of one object a drive may hold nothing but parity
            assert user.request("PUT", f"/bucket/{i}", body=data[:3 * MIB]).status == 200
        with Session(daemon, memory=40 * MIB) as session:
            spoil(daemon.drives[0])
            for i in range(12):
                answer, memory = session.get(f"/bucket/{i}", 3 * MIB)
                written(answer, data[:3 * MIB])
                assert memory == data[:3 * MIB]
            for offset, length in ((0, len(data)), (MIB + 5, 9 * MIB), (0, len(data))):
                text = f"bytes={offset}-{offset + length - 1}"
                answer, memory = session.get("/bucket/key", length, headers={"range": text})
                written(answer, data[offset:offset + length], 206)
                assert memory == data[offset:offset + length]
            assert metric(daemon, "millrace_repaired_reads_total") > 0
        daemon.stop()
        daemon.format = False
        shutil.move(daemon.drives[0], daemon.folder / "away")
        daemon.drives = daemon.drives[1:]
        daemon.start()
        with Session(daemon, memory=40 * MIB) as session:
            answer, memory = session.get("/bucket/key", len(data))
            written(answer, data)
            assert memory == data
        daemon.stop()
    finally:
        daemon.discard()


# ---- request numbers and keys ------------------------------------------------------------------------------------------

def test_a_number_counts_once(site, session):
    answer, _ = session.get("/samples/small", 10 * KIB)
    written(answer, site.objects["small"])
    index, place = session.grip(0, 20 * KIB)
    for number in (session.number, (1 << 20) + 100):
        answer = session.ask("GET", "/samples/small", place, number=number)
        assert (answer.status, answer.code) == (409, "RDMARequestRepeated"), answer
        assert answer.headers["x-millrace-rdma-posted"] == "none"
    answer = session.ask("GET", "/samples/absent", place, number=7)
    assert answer.status == 404
    answer = session.ask("GET", "/samples/small", place, number=7)  # used up, though it failed
    assert answer.status == 409
    session.peer.tell("close", index, 1)


def test_the_key_is_needed(site, session):
    with Session(site) as other:
        index, place = session.grip(0, 20 * KIB)
        for client in (site.user, other.client):  # the user's own key; another session's key
            answer = session.ask("GET", "/samples/small", place, client=client)
            assert (answer.status, answer.code) == (403, "AccessDenied"), answer
            assert answer.headers["x-millrace-rdma-posted"] == "none"
        forged = RawClient(site.host, site.port, session.client.access_key, "0" * 64)
        assert session.ask("GET", "/samples/small", place, client=forged).code == "SignatureDoesNotMatch"
        unknown = RawClient(site.host, site.port, "MRDX" + "0" * 32, "0" * 64)
        assert session.ask("GET", "/samples/small", place, client=unknown).status == 403
        # its headers unsigned; none at all; another operation; a URL signed with it
        assert session.client.request("GET", "/samples/small", payload=UNSIGNED,
                                      unsigned_headers=session.headers(place)).status == 403
        assert session.client.request("GET", "/samples/small").status == 403
        assert session.client.request("GET", "/samples", query=[("list-type", "2")]).status == 403
        assert session.client.request("DELETE", "/samples/small").status == 403
        assert site.user.plain("GET", session.client.presign("GET", "/samples/small")).status == 403
        session.peer.tell("close", index, 1)
        assert session.saved(0, 20 * KIB) == b"\xee" * (20 * KIB)


@pytest.mark.parametrize("place", ["", "0:0:0", "0" * 16 + ":" + "0" * 8 + ":" + "G" * 16, "f" * 16 + ":" + "0" * 8 + ":" + "f" * 16])
def test_malformed_windows(site, session, place):
    answer = session.ask("GET", "/samples/small", place)
    assert (answer.status, answer.code) == (400, "MalformedRDMARequest"), answer


def test_a_window_that_is_not_ours_ends_the_session(site):
    with Session(site) as session:
        index, place = session.grip(0, 20 * KIB)
        wrong = place[:17] + f"{int(place[17:25], 16) ^ 0x5a5a5a:08x}" + place[25:]
        answer = session.ask("GET", "/samples/small", wrong)
        assert answer.status == 503 and "x-millrace-rdma-posted" not in answer.headers, answer
        assert session.saved(0, 20 * KIB) == b"\xee" * (20 * KIB)
        assert session.ask("GET", "/samples/small", place).status == 403  # its key is no one's now


# ---- fallback, and the end ---------------------------------------------------------------------------------------------

def test_the_body_answers_where_nothing_is_connected(site):
    with Session(site, connect=False) as session:
        session.client = RawClient(site.host, site.port, "MRDX" + session.id.upper(), session_secret(session))
        answer = session.ask("GET", "/samples/units", "0" * 16 + ":" + "0" * 8 + ":" + f"{4 * MIB:016x}")
        assert answer.status == 200 and answer.body == site.objects["units"]
        assert answer.headers["x-millrace-transport"] == "tcp"
        assert answer.headers["x-millrace-rdma-declined"] == "queue-pairs"


def test_a_session_is_ended_by_its_user(site):
    for by_own_key in (False, True):
        with Session(site) as session, Session(site) as other:
            index, place = session.grip(0, 100)
            assert other.client.request("DELETE", f"{PATH}/{session.id}").code == "AccessDenied"
            client = session.client if by_own_key else site.user
            assert client.request("DELETE", f"{PATH}/{session.id}").status == 204
            answer = session.ask("GET", "/samples/one", place)
            assert answer.status == 403 and answer.headers["x-millrace-rdma-posted"] == "none"
    assert site.user.request("DELETE", f"{PATH}/{session.id}").status == 204
    assert site.user.request("DELETE", f"{PATH}/abc").code == "MalformedRDMARequest"


def test_a_dead_client_costs_its_session_only(site):
    victim = Session(site)
    with Session(site) as session:
        victim.peer.kill()
        for _ in range(3):
            answer, memory = session.get("/samples/big", SIZES["big"])
            assert memory == site.objects["big"]
    deadline = time.monotonic() + 30
    while metric(site, "millrace_rdma_sessions") > 0 and time.monotonic() < deadline:
        time.sleep(0.05)
    assert metric(site, "millrace_rdma_sessions") == 0


# ---- opening -----------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("changes, code", [
    ({"versions": [2, 3]}, "RDMAVersionUnsupported"), ({"versions": []}, "MalformedRDMARequest"),
    ({"versions": "1"}, "MalformedRDMARequest"), ({"client_nonce": "00"}, "MalformedRDMARequest"),
    ({"client_nonce": None}, "MalformedRDMARequest"), ({"queue_pairs": 0}, "MalformedRDMARequest"),
    ({"queue_pairs": 65}, "MalformedRDMARequest"), ({"receives": 15}, "MalformedRDMARequest"),
    ({"receives": 4097}, "MalformedRDMARequest"), ({"rights": "region"}, "MalformedRDMARequest"),
    ({"rights": ["telepathy"]}, "RDMARightsUnsupported"), ({"rights": []}, "RDMARightsUnsupported"),
    ({"more": "x" * 5000}, "MalformedRDMARequest")])
def test_what_opens_no_session(site, changes, code):
    answer = site.user.request("POST", PATH, body=json.dumps(opening(**changes)).encode())
    assert (answer.status, answer.code) == (400, code), answer


def test_who_opens_no_session(site):
    body = json.dumps(opening()).encode()
    assert site.user.request("POST", PATH, body=b"{").code == "MalformedRDMARequest"
    assert site.user.request("POST", PATH).code == "MalformedRDMARequest"
    assert site.user.request("POST", PATH, body=body, payload=UNSIGNED).code == "AccessDenied"
    assert site.user.request("POST", PATH, body=body, payload=STREAMING_UNSIGNED_TRAILER).code == "AccessDenied"
    assert site.user.plain("POST", PATH, body=body, headers={"Content-Length": len(body)}).code == "AccessDenied"
    assert site.user.plain("POST", site.user.presign("POST", PATH), body=body,
                           headers={"Content-Length": len(body)}).code == "AccessDenied"
    assert site.user.request("GET", PATH).status == 405


def test_unknown_fields_are_ignored_and_limits_said(site):
    answer = site.user.request("POST", PATH, body=json.dumps(opening(colour="blue")).encode())
    opened = json.loads(answer.body)
    assert answer.status == 200 and opened["version"] == 1 and len(opened["session"]) == 32
    assert opened["limits"] == {"requests": 64, "messages": 8, "message_bytes": 16384, "message_entries": 256,
                                "batch_entries": 1024, "number_window": 1024, "window_bytes": 5 << 30}
    assert opened["expires_ms"] == 3600000 and opened["connect_ms"] == 10000
    assert [e["control"] for e in opened["endpoints"]] == [True]


def test_sessions_are_bounded_and_revoked_with_their_credentials(tmp_path):
    credentials = tmp_path / "credentials"

    def write(secret):
        credentials.write_text(f"access_key = AKSESSIONS\nsecret_key = {secret}\n")
        os.chmod(credentials, 0o600)

    write("first-secret-of-some-length")
    daemon = rdma_daemon(credentials=False, settings={"rdma_sessions_per_key": 2, "root_credentials": credentials}).start()
    try:
        daemon.access_key, daemon.secret_key = "AKSESSIONS", "first-secret-of-some-length"
        user = RawClient(daemon.host, daemon.port, daemon.access_key, daemon.secret_key)
        with Session(daemon) as session:
            with Session(daemon):
                answer = user.request("POST", PATH, body=json.dumps(opening()).encode())
                assert (answer.status, answer.code) == (503, "SlowDown")
            index, place = session.grip(0, 100)
            write("second-secret-of-some-length")
            daemon.signal(signal.SIGHUP)
            deadline = time.monotonic() + 30
            while session.ask("GET", "/any/thing", place).status != 403 and time.monotonic() < deadline:
                time.sleep(0.05)
            assert session.ask("GET", "/any/thing", place).status == 403
        daemon.stop()
    finally:
        daemon.discard()


def test_without_a_device_all_else_works():
    daemon = rdma_daemon(settings={"test_rdma_driver": "", "rdma_listen": "127.0.0.1:0"}).start()
    try:
        user = RawClient(daemon.host, daemon.port, daemon.access_key, daemon.secret_key)
        assert len([line for line in daemon.output().splitlines() if "no RDMA" in line]) == 1
        assert user.request("PUT", "/bucket").status == 200
        answer = user.request("POST", PATH, body=json.dumps(opening()).encode())
        assert (answer.status, answer.code) == (501, "RDMANotSupported")
        daemon.stop()
    finally:
        daemon.discard()
