"""Opening, connecting and ending sessions, and everything that must be refused on the way."""
import json
import secrets
import signal
import time

import pytest

from tests.independent import verbs
from tests.independent.session import PATH, Refused
from tests.independent.signer import Signer
from tests.independent.verbs import Link

from .conftest import ADDRESS, Site, content

OPENING = {"versions": [1], "client_nonce": "00112233445566778899aabbccddeeff", "queue_pairs": 1, "rights": ["window2", "window1", "region"],
           "receives": 32}
STALE = 10  # reason of a rejection by the connection manager itself


def ask(signer, body=None, **how):
    return signer.request("POST", PATH, json.dumps(OPENING if body is None else body).encode(), headers={"content-type": "application/json"}, **how)


@pytest.fixture
def session(site):
    with site.session() as one:
        yield one


# ---- opening --------------------------------------------------------------------------------------------------


def test_a_presigned_or_unsigned_opening_is_refused(site):
    for how in (dict(presigned=True), dict(sign=False), dict(digest="UNSIGNED-PAYLOAD")):
        answer = ask(site.user, **how)
        assert (answer.status, answer.code) == (403, "AccessDenied"), (how, answer)
    answer = ask(site.user.like(site.user.access_key, "wrong"))
    assert (answer.status, answer.code) == (403, "SignatureDoesNotMatch")


@pytest.mark.parametrize("changes, code", [
    ({"versions": [2, 3]}, "RDMAVersionUnsupported"), ({"versions": []}, "MalformedRDMARequest"), ({"versions": list(range(17))}, "MalformedRDMARequest"),
    ({"client_nonce": "00"}, "MalformedRDMARequest"), ({"queue_pairs": 0}, "MalformedRDMARequest"), ({"queue_pairs": 65}, "MalformedRDMARequest"),
    ({"receives": 15}, "MalformedRDMARequest"), ({"receives": 4097}, "MalformedRDMARequest"), ({"rights": "region"}, "MalformedRDMARequest"),
    ({"rights": ["wings"]}, "RDMARightsUnsupported"), ({"padding": "x" * 4096}, "MalformedRDMARequest")])
def test_malformed_openings(site, changes, code):
    answer = ask(site.user, {**OPENING, **changes})
    assert (answer.status, answer.code) == (400, code), answer


def test_unknown_fields_and_versions_are_no_harm(site):
    with site.session(versions=[7, 1], colour="blue") as session:
        assert session.terms["version"] == 1
        assert session.get("/samples/odd", 8192).data == site.objects["/samples/odd"]


# ---- connecting -----------------------------------------------------------------------------------------------


def reason(attempted, /, **bent):
    """Why a connection with such private data was refused."""
    with pytest.raises(Refused) as refused:
        attempted.connect_one(attempted.terms["endpoints"][0], 0, **bent)
    return refused.value.args[0]


def test_forged_private_data_is_rejected_and_costs_nothing(site, session):
    rejected = site.metric("millrace_rdma_rejected_total")
    with_session = site.session(connect=False)
    boot = with_session.terms["endpoints"][0]["boot_id"]
    forgeries = [(2, dict(mac=bytes(16))), (2, dict(mac=secrets.token_bytes(16))), (2, dict(key=session.connect_key)), (2, dict(session=secrets.token_bytes(16))),
                 (2, dict(boot_id=f"{int(boot, 16) ^ 1:016x}")), (2, dict(session=session.id)),
                 (1, dict(version=2)), (1, dict(kind=2)), (1, dict(zero=1)), (1, dict(behind=b"x"))]
    try:
        for expected, bent in forgeries:
            assert reason(with_session, **bent) == expected, bent
        assert site.metric("millrace_rdma_rejected_total") == rejected + len(forgeries)
        with_session.connect()  # the right one still has its turn
        assert with_session.get("/samples/odd", 8192).data == site.objects["/samples/odd"]
    finally:
        with_session.delete()
        with_session.free()
    assert session.get("/samples/one", 10).data == site.objects["/samples/one"]


def test_a_queue_pair_connects_once(site, session):
    """A second queue pair with a good MAC; the same bytes from another queue pair; the same bytes and the same queue pair's number."""
    endpoint = session.terms["endpoints"][0]
    own, _, number = session.control.addresses()
    first = session.private(endpoint, 0, own, number)
    assert reason(session) == 3
    link = Link(endpoint["address"], endpoint["port"])
    link.make_qp(session.domain, 1, 32)
    fate = link.connect(first)
    assert fate.event == verbs.REJECTED and fate.private()[:4] == bytes([1, 3, 2, 0])
    link.free()
    link = Link(endpoint["address"], endpoint["port"])
    fate = link.connect(first, number)
    # the kernel knows that the number is in use, and may be quicker
    assert fate.event == verbs.REJECTED and (fate.status == STALE or fate.private()[:4] == bytes([1, 3, 3, 0])), fate.status
    link.free()
    assert session.get("/samples/block", 1 << 20).data == site.objects["/samples/block"]


def test_a_refused_connection_cannot_be_had_again_later(site):
    """A rejected attempt uses nothing up; one that was accepted and has gone does."""
    session = site.session()
    assert session.get("/samples/one", 10).status == 200
    session.fence()
    session.control.disconnect()
    site.daemon.wait_until(lambda: site.sessions() == 0, 20, "to end the session")
    endpoint = session.terms["endpoints"][0]
    assert reason(session) == 2 and endpoint["control"]
    session.free()


def test_who_has_not_the_key_is_not_the_server(site):
    session = site.session(connect=False)
    try:
        key, session.connect_key = session.connect_key, secrets.token_bytes(32)
        with pytest.raises(Refused, match="MAC"):
            session.connect_one(session.terms["endpoints"][0], 0, key=key)
    finally:
        session.delete()
        session.free()


@pytest.mark.parametrize("depth", [(0, 0), (1, 0), (0, 1), (1, 1), (16, 16)], ids=lambda depth: f"{depth[0]}-{depth[1]}")
def test_no_more_reads_than_were_offered(site, depth):
    """The server accepts with as many as the client offers; who takes no READs is not read."""
    with site.session(depth=depth) as session:
        assert session.accepted[0] <= depth[0] and session.accepted[1] <= depth[1], session.accepted
        assert session.get("/samples/units", 4 << 20).data == site.objects["/samples/units"]
        data = content(f"depth-{depth}", 300000)
        got = session.put("/samples/depth", data)
        if depth[0] > 0:
            assert (got.status, got.transport) == (200, "rdma") and site.user.request("GET", "/samples/depth").body == data
        else:
            assert (got.status, got.answer.code, got.answer.headers["x-millrace-rdma-declined"]) == (501, "RDMADeclined", "reads") and not got.unread


def test_garbage_instead_of_private_data(site):
    session = site.session(connect=False)
    endpoint = session.terms["endpoints"][0]
    for data in (b"", b"\1", secrets.token_bytes(40), secrets.token_bytes(56)):
        link = Link(endpoint["address"], endpoint["port"])
        fate = link.connect(data, 77)
        assert fate.event == verbs.REJECTED and fate.private()[:4] == bytes([1, 3, 1, 0]), data
        link.free()
    session.delete()
    session.free()


# ---- numbers and keys -------------------------------------------------------------------------------------------


def test_request_numbers_count_once(site, session):
    for number in (5, 2000):
        assert session.get("/samples/odd", 8192, number=number).status == 200
    for number in (5, 2000, 976, 1):  # accepted before, or too far behind 2,000
        got = session.get("/samples/odd", 8192, number=number)
        assert (got.status, got.answer.code) == (409, "RDMARequestRepeated") and not got.unread
    assert session.get("/samples/odd", 8192, number=977).status == 200
    assert session.get("/samples/absent", 8192, number=2001).status == 404
    assert session.get("/samples/odd", 8192, number=2001).status == 409  # used up, whatever became of it
    assert session.get("/samples/odd", 8192, number=2002).status == 200


@pytest.mark.parametrize("number", [0, 1 + (1 << 20), (1 << 64) - 1])
def test_numbers_out_of_range(site, session, number):
    got = session.get("/samples/odd", 8192, number=number)
    assert got.status in (400, 409) and not got.unread
    assert session.get("/samples/odd", 8192, number=1).status == 200


def test_only_the_sessions_own_key_signs_for_it(site, session):
    with site.session() as other:
        for signer in (site.user, other.signer, site.user.like("MRDX" + secrets.token_hex(16).upper(), "x" * 64),
                       site.user.like(session.signer.access_key, "0" * 64)):
            got = session.get("/samples/odd", 8192, signer=signer)
            assert got.status == 403 and not got.unread
        # of the three headers each one must be signed
        for header in ("x-millrace-rdma-session", "x-millrace-rdma-request", "x-millrace-rdma-window"):
            got = session.get("/samples/odd", 8192, unsigned=(header,))
            assert got.status == 403 and not got.unread
        # and the key is good for nothing else
        assert session.signer.request("GET", "/samples/odd").status == 403
        assert session.signer.request("GET", "/samples").status == 403
        assert session.signer.request("DELETE", "/samples/odd").status == 403
        assert ask(session.signer).status == 403
        assert other.get("/samples/odd", 8192).data == site.objects["/samples/odd"]
    assert session.get("/samples/odd", 8192).data == site.objects["/samples/odd"]


# ---- the end ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("who", ["user", "session"])
def test_a_session_is_ended_by_request(site, who):
    session = site.session()
    with site.session() as other:
        assert session.delete(other.signer).status == 403
        assert session.get("/samples/one", 10).status == 200
        assert session.delete(site.user if who == "user" else session.signer).status == 204
        session.wait_end()
        answer = session.signer.request("GET", "/samples/odd", headers=session.headers(99, f"{4096:016x}:{1:08x}:{4096:016x}"))
        assert answer.status == 403 and answer.headers["x-millrace-rdma-posted"] == "none"
        assert other.get("/samples/odd", 8192).status == 200
    session.free()


def test_disconnecting_ends_it(site):
    session = site.session()
    session.control.disconnect()
    site.daemon.wait_until(lambda: site.sessions() == 0, 20, "to end the session")
    session.free()


@pytest.fixture
def own(request):
    """A daemon of the test's own; its settings are the parameter."""
    site = Site(**getattr(request, "param", {})).start()
    yield site
    site.end()


@pytest.mark.parametrize("own", [dict(rdma_session_life="10s")], indirect=True)
def test_sessions_expire(own):
    """One in use, and one of which nothing was ever connected."""
    own.store("few", {"thing": content("thing", 70000)})
    used, unused = own.session(), own.session(connect=False)
    assert used.terms["expires_ms"] <= 10000
    assert used.get("/few/thing", 70000).data == own.objects["/few/thing"]
    used.wait_end(40)
    own.daemon.wait_until(lambda: own.sessions() == 0, 20, "to end the sessions")
    answer = used.signer.request("GET", "/few/thing", headers=used.headers(9, f"{4096:016x}:{1:08x}:{4096:016x}"))
    assert answer.status == 403 and answer.headers["x-millrace-rdma-posted"] == "none"
    assert reason(unused) == 2
    used.free()
    unused.free()
    with own.session() as new:
        assert new.get("/few/thing", 70000).data == own.objects["/few/thing"]


@pytest.mark.parametrize("own", [dict(rdma_sessions=3, rdma_sessions_per_key=2)], indirect=True)
def test_sessions_are_bounded(own):
    with own.session(), own.session(connect=False) as idle:
        answer = ask(own.user)
        assert (answer.status, answer.code) == (503, "SlowDown")
        assert idle.delete().status == 204
        idle.over = True
        with own.session():
            pass


def test_sessions_end_with_their_credentials(tmp_path):
    """New root credentials: the old ones' sessions end, and are nobody's."""
    file = tmp_path / "credentials"

    def write(access_key, secret):
        file.write_text(f"access_key = {access_key}\nsecret_key = {secret}\n")
        file.chmod(0o600)

    write("FIRST0000000", "first-secret-of-the-two")
    own = Site(root_credentials=file)
    own.daemon.access_key = None
    try:
        own.daemon.start()
        own.user = Signer(own.daemon.host, own.daemon.port, "FIRST0000000", "first-secret-of-the-two")
        own.store("few", {"thing": content("thing", 70000)})
        session = own.session()
        assert session.get("/few/thing", 70000).data == own.objects["/few/thing"]
        write("SECOND000000", "second-secret-of-the-two")
        own.daemon.signal(signal.SIGHUP)
        second = own.user.like("SECOND000000", "second-secret-of-the-two")
        own.daemon.wait_until(lambda: second.request("GET", "/few/thing").status == 200, 20, "to take the new credentials")
        assert session.delete(second).status in (403, 404) or own.sessions() == 0
        deadline = time.monotonic() + 60
        status = 200
        while status == 200 and time.monotonic() < deadline:
            answer = session.signer.request("HEAD", "/few/thing", headers=session.headers(session.new_number(), f"{4096:016x}:{1:08x}:{4096:016x}"))
            status = answer.status
        assert status == 403
        session.wait_end()
        session.free()
    finally:
        own.end()


def test_two_addresses_are_two_endpoints(second_address):
    """Each endpoint has queue pairs of its own; several of them rule out type 2 windows."""
    own = Site(drives=4, ec="2+2", listen=(ADDRESS, second_address)).start()
    try:
        own.store("few", {"thing": content("two", 5 << 20)})
        with own.session(queue_pairs=4) as session:
            assert len(session.links) == sum(end["queue_pairs"] for end in session.terms["endpoints"])
            assert len(session.links) == 1 or session.rights != "window2"
            for _ in range(3):
                assert session.get("/few/thing", 6 << 20).data == own.objects["/few/thing"]
    finally:
        own.end()


def test_without_a_device_all_else_works():
    own = Site(listen=("127.0.0.1",)).start()
    try:
        own.store("few", {"thing": b"bytes"})
        answer = ask(own.user)
        assert (answer.status, answer.code) == (501, "RDMANotSupported")
        assert own.user.request("GET", "/few/thing").body == b"bytes"
    finally:
        own.end()
