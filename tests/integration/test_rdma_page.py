"""What docs/rdma-protocol.md says at its edges, as tables: (case, message, what is expected). Each sentence there that a client could read in two ways has its line here.
tests/rdma runs those on real verbs that need them."""
import secrets
import shutil

import pytest

from tests.support import getbatch
from tests.support.rdma import DRIVER, PATH, Entry, Session, rdma_daemon
from tests.support.s3raw import UNSIGNED, RawClient

pytestmark = [pytest.mark.daemon, pytest.mark.skipif(not DRIVER.exists(), reason="make fake-rdma builds the transport")]
SIZE, TOP = 10000, 1 << 64
DATA = bytes(n * 7 % 251 for n in range(SIZE))


@pytest.fixture(scope="module")
def site():
    daemon = rdma_daemon().start()
    daemon.user = RawClient(daemon.host, daemon.port, daemon.access_key, daemon.secret_key)
    for path, body in (("/samples", b""), ("/samples/ten", DATA), ("/samples/none", b"")):
        assert daemon.user.request("PUT", path, body=body).status == 200
    yield daemon
    daemon.stop()
    daemon.discard()
    shutil.rmtree(daemon.sockets)


@pytest.fixture
def session(site):
    with Session(site) as one:
        yield one


# ---- entries of a batch, over RDMA and over HTTP ----------------------------------------------------------------------

OK, RANGE, ARGUMENT = 0, 6, 8
ENTRIES = [  # case, what of which object, (status, code, bytes)
    ("a range that ends at 2^64", dict(key="ten", first=10, length=TOP - 10), (206, OK, DATA[10:])),
    ("a range that ends behind 2^64", dict(key="ten", first=10, length=TOP - 1), (206, OK, DATA[10:])),
    ("the last byte there could be", dict(key="ten", first=TOP - 1, length=1), (416, RANGE, b"")),
    ("everything behind it", dict(key="ten", first=TOP - 1, length=TOP - 1), (416, RANGE, b"")),
    ("from there to the end", dict(key="ten", first=TOP - 1), (416, RANGE, b"")),
    ("the longest suffix", dict(key="ten", length=TOP - 1, suffix=True), (206, OK, DATA)),
    ("the whole of an empty object", dict(key="none"), (200, OK, b"")),
    ("a range of an empty object", dict(key="none", length=1), (416, RANGE, b"")),
    ("a suffix of an empty object", dict(key="none", length=1, suffix=True), (200, OK, b"")),
    ("a key that is not UTF-8", dict(key="\udcff"), (400, ARGUMENT, b"")),
    ("a key that is UTF-8 cut off", dict(key="x\udcc3"), (400, ARGUMENT, b"")),
    ("a surrogate in the key", dict(key="\udced\udca0\udc80"), (400, ARGUMENT, b"")),
]


@pytest.mark.parametrize("case, what, expected", ENTRIES, ids=[case for case, _, _ in ENTRIES])
def test_entries(site, session, case, what, expected):
    """Its own result, the same both ways; its neighbours have theirs."""
    grip, _ = session.grip(0, 3 * SIZE, replies=1)
    session.send([Entry("samples", "ten", 0, SIZE), Entry("samples", place=SIZE, room=SIZE, **what), Entry("samples", "ten", 2 * SIZE, SIZE)], grip)
    session.peer.tell("wait", grip, 20000)
    results, _ = session.results()
    session.peer.tell("close", grip, 0)
    memory = session.saved(0, 3 * SIZE)
    first, result, last = sorted(results, key=lambda one: one.index)
    assert (result.status, result.code, memory[SIZE:SIZE + result.bytes]) == expected
    assert first.status == last.status == 200 and memory[:SIZE] == memory[2 * SIZE:] == DATA
    entries = [getbatch.Entry("samples", "ten"), getbatch.Entry("samples", **what), getbatch.Entry("samples", "ten")]
    first, result, last = getbatch.ask(site.user, entries)
    assert (result.status, result.code, result.data) == expected
    assert first.data == last.data == DATA


# ---- requests on a session ----------------------------------------------------------------------------------------------

WINDOW = f"{4096:016x}:{1:08x}:{8192:016x}"
MALFORMED = (400, "MalformedRDMARequest")
HEADERS = [  # case, headers that are bent, (status, code)
    ("a number with leading zeros", {"x-millrace-rdma-request": "0000000000000000000000000000000000000007"}, (404, "NoSuchKey")),
    ("a number with a sign", {"x-millrace-rdma-request": "+7"}, MALFORMED),
    ("a number in hexadecimal", {"x-millrace-rdma-request": "0x7"}, MALFORMED),
    ("no number", {"x-millrace-rdma-request": ""}, MALFORMED),
    ("number 0", {"x-millrace-rdma-request": "00"}, MALFORMED),
    ("number 2^64", {"x-millrace-rdma-request": str(TOP)}, MALFORMED),
    ("the highest number", {"x-millrace-rdma-request": str(TOP - 1)}, (409, "RDMARequestRepeated")),
    ("a window that ends at 2^64", {"x-millrace-rdma-window": f"{TOP - 4096:016x}:{1:08x}:{4096:016x}"}, MALFORMED),
    ("a window that ends just before", {"x-millrace-rdma-window": f"{TOP - 4096:016x}:{1:08x}:{4095:016x}"}, (404, "NoSuchKey")),
    ("a window of no bytes at address 0", {"x-millrace-rdma-window": f"{0:016x}:{0:08x}:{0:016x}"}, (404, "NoSuchKey")),
    ("a session in upper case", "upper", MALFORMED),
]


@pytest.mark.parametrize("case, bent, expected", HEADERS, ids=[case for case, _, _ in HEADERS])
def test_headers(session, case, bent, expected):
    """Of an object that is not there: what is taken is 404. Nothing is written in any case, and the answer says so."""
    if bent == "upper":
        bent = {"x-millrace-rdma-session": session.id.upper()}
        if session.id.isdigit():
            pytest.skip("no letters in it")
    answer = session.ask("GET", "/samples/absent", WINDOW, headers=bent)
    assert (answer.status, answer.code) == expected
    assert answer.headers["x-millrace-rdma-posted"] == "none"


def none_posted(answer, status, code):
    assert (answer.status, answer.code, answer.headers.get("x-millrace-rdma-posted")) == (status, code, "none"), answer


def test_posted_none_where_nothing_is_under_way(site, session):
    # all of it was read, and is wrong: nothing reads any more
    answer = session.put("/samples/wrong", DATA, headers={"x-amz-checksum-crc32c": "AAAAAA=="})
    none_posted(answer, 400, "BadDigest")
    assert session.put("/samples/right", DATA).status == 200
    # a session's key, and none of its headers
    none_posted(session.client.request("GET", "/samples/ten", payload=UNSIGNED), 403, "AccessDenied")
    # a session that never was
    stranger = RawClient(site.host, site.port, "MRDX" + secrets.token_hex(16).upper(), "x" * 64)
    answer = stranger.request("GET", "/samples/ten", payload=UNSIGNED)
    none_posted(answer, 403, answer.code)
    # no session is meant: nothing is said
    assert "x-millrace-rdma-posted" not in site.user.request("GET", "/samples/absent").headers


def test_sse_c_on_a_session(session):
    """As over TCP: it is not there."""
    headers = {"x-amz-server-side-encryption-customer-algorithm": "AES256", "x-amz-server-side-encryption-customer-key": "A" * 43 + "=",
               "x-amz-server-side-encryption-customer-key-md5": "A" * 22 + "=="}
    tcp = session.user.request("GET", "/samples/ten", headers=headers)
    answer, _ = session.get("/samples/ten", SIZE, headers=headers)
    assert answer.status == tcp.status
    if answer.status != 200:
        none_posted(answer, tcp.status, tcp.code)
    answer = session.ask("PUT", "/samples/new", WINDOW, headers=headers)
    none_posted(answer, 501, "NotImplemented")


ENDS = [  # case, session that is named, (status, code)
    ("unknown", "0" * 32, (204, None)),
    ("too short", "0" * 30, (400, "MalformedRDMARequest")),
    ("upper case", "A" * 32, (400, "MalformedRDMARequest")),
]


@pytest.mark.parametrize("case, name, expected", ENDS, ids=[case for case, _, _ in ENDS])
def test_ends_of_sessions_that_are_not(site, case, name, expected):
    answer = site.user.request("DELETE", f"{PATH}/{name}")
    assert (answer.status, answer.code if answer.body else None) == expected


def test_only_its_own_key_or_its_user_ends_a_session(site, session):
    with Session(site) as other:
        assert other.client.request("DELETE", f"{PATH}/{session.id}").status == 403
        assert other.client.request("DELETE", f"{PATH}/{'0' * 32}").status == 403
    assert session.get("/samples/ten", SIZE)[1] == DATA


# ---- clients whose connections are not as others' ------------------------------------------------------------------------

def test_a_client_that_takes_no_reads(site):
    """It offered no responder resources: uploads go with a body, all else as ever."""
    with Session(site, env={"MILLRACE_FAKE_RDMA_NO_READS": "1"}) as session:
        answer = session.put("/samples/unread", DATA)
        none_posted(answer, 501, "RDMADeclined")
        assert answer.headers["x-millrace-rdma-declined"] == "reads"
        answer, memory = session.get("/samples/ten", SIZE)
        assert answer.headers["x-millrace-transport"] == "rdma" and memory == DATA
    assert site.user.request("GET", "/samples/unread").status == 404


def test_a_client_that_is_not_established(site):
    """Accepted, and it has not said that it knows: the body answers, and soon."""
    with Session(site, env={"MILLRACE_FAKE_RDMA_MUTE": "1"}) as session:
        answer, memory = session.get("/samples/ten", SIZE)
        assert (answer.status, answer.body) == (200, DATA) and memory == b"\xee" * SIZE
        assert (answer.headers["x-millrace-transport"], answer.headers["x-millrace-rdma-declined"]) == ("tcp", "queue-pairs")
        answer = session.put("/samples/unread", DATA)
        none_posted(answer, 501, "RDMADeclined")
        assert answer.headers["x-millrace-rdma-declined"] == "queue-pairs"


def test_one_endpoint_with_one_queue_pair(site):
    """However many the client could connect."""
    with Session(site, queue_pairs=64, receives=4096) as session:
        endpoint, = session.opened["endpoints"]
        assert endpoint["queue_pairs"] == 1 and endpoint["control"] is True
