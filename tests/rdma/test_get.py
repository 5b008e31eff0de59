"""GETs into windows, on real verbs, by the client that was written from the page."""
import threading

import pytest

from tests.independent.session import UNTOUCHED
from tests.independent.verbs import Memory

from .conftest import MIB, SIZES, content

SCHEMES = ("window2", "window1", "region")


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("name", SIZES)
def test_whole(site, scheme, name):
    data = site.objects[f"/samples/{name}"]
    with site.session(rights=[scheme]) as session:
        assert session.rights == scheme
        got = session.get(f"/samples/{name}", len(data) + 4096)
        assert (got.status, got.transport) == (200, "rdma") and got.data == data


@pytest.fixture(params=SCHEMES)
def session(request, site):
    with site.session(rights=[request.param]) as one:
        yield one


RANGES = ["bytes=0-0", "bytes=1-4096", "bytes=-1", "bytes=131071-131072", "bytes=1048575-2097153", "bytes=3145732-", "bytes=-3145733", "bytes=100-99999999"]


def test_ranges(site, session):
    data = site.objects["/samples/units"]
    for text in RANGES:
        plain = site.user.request("GET", "/samples/units", headers={"range": text})
        got = session.get("/samples/units", len(plain.body), headers={"range": text})
        assert (got.status, got.transport) == (206, "rdma") and got.data == plain.body and len(plain.body) <= len(data)
        for header in ("etag", "content-range", "last-modified"):
            assert got.answer.headers[header] == plain.headers[header]
    got = session.get("/samples/units", 100, headers={"range": "bytes=3145733-"})
    assert (got.status, got.answer.code) == (416, "InvalidRange") and not got.unread
    got = session.get("/samples/none", 0, headers={"range": "bytes=0-0"})
    assert got.status == 416 and not got.unread


def test_conditions_and_versions(site, session):
    etag = site.user.request("HEAD", "/samples/odd").headers["etag"]
    data = site.objects["/samples/odd"]
    assert session.get("/samples/odd", 8192, headers={"if-match": etag}).data == data
    assert session.get("/samples/odd", 8192, query={"versionId": "null"}).data == data
    assert session.get("/samples/odd", 8192, query={"partNumber": "1"}).data == data
    for status, headers in ((412, {"if-match": '"0123"'}), (304, {"if-none-match": etag})):
        got = session.get("/samples/odd", 8192, headers=headers)
        assert got.status == status and got.answer.headers["x-millrace-rdma-posted"] == "none"
    got = session.get("/samples/odd", 8192, query={"response-content-type": "text/x-odd"})
    assert got.answer.headers["content-type"] == "text/x-odd" and got.data == data


def test_errors_write_nothing(site, session):
    for path, status, code in (("/samples/absent", 404, "NoSuchKey"), ("/nothing-here/x", 404, "NoSuchBucket")):
        got = session.get(path, 4096)
        assert (got.status, got.answer.code) == (status, code) and not got.unread
    got = session.get("/samples/odd", 4096)
    assert (got.status, got.answer.code) == (400, "RDMAWindowTooSmall") and got.answer.headers["x-millrace-rdma-needed"] == "4097" and not got.unread
    got = session.get("/samples/odd", 8192, method="HEAD")
    assert got.status == 200 and not any(name.startswith("x-millrace-rdma") for name in got.answer.headers)


def test_a_window_in_the_midst_of_memory(site, session):
    """Not a byte before it or behind it is written, wherever it begins."""
    data = site.objects["/samples/units"]
    memory = Memory(4 * MIB, UNTOUCHED)
    for at in (1, 4095, 65536 + 13):
        memory.write(bytes([UNTOUCHED]) * memory.size)
        grant = session.grant(memory, at, len(data))
        got = session.get("/samples/units", None, window=grant)
        assert (got.status, got.transport) == (200, "rdma") and got.data == data
        grant.free()


@pytest.mark.parametrize("window", ["", "x", "0:0:0", f"{1:016x}:{1:08x}:{5 * 1024 ** 3 + 1:016x}", f"{(1 << 64) - 4096:016x}:{1:08x}:{8192:016x}",
                                    f"{1:016X}:{0xABC:08X}:{4096:016x}", f"{1:017x}:{1:08x}:{4096:016x}", f"{1:016x}:{1:08x}:{4096:016x}:"])
def test_malformed_windows(site, window):
    with site.session() as session:
        answer = session.signer.request("GET", "/samples/odd", headers=session.headers(session.new_number(), window))
        assert (answer.status, answer.code) == (400, "MalformedRDMARequest") and answer.headers["x-millrace-rdma-posted"] == "none"


def test_the_body_answers_where_nothing_is_connected(site):
    session = site.session(connect=False)
    answer = session.signer.request("GET", "/samples/odd", headers=session.headers(1, f"{4096:016x}:{1:08x}:{8192:016x}"))
    assert answer.status == 200 and answer.body == site.objects["/samples/odd"]
    assert answer.headers["x-millrace-transport"] == "tcp" and answer.headers["x-millrace-rdma-declined"] == "queue-pairs"
    session.delete()
    session.free()


def test_many_requests_of_one_session_at_once(site):
    """Eight connections ask; replies and notices come in whatever order."""
    with site.session(receives=64) as session:
        signers, answers, problems = [session.signer.like(session.signer.access_key, session.signer.secret) for _ in range(8)], {}, []
        todo = []
        for n in range(24):
            name = ("units", "block", "odd", "one")[n % 4]
            todo.append((name, session.new_number(), session.grant(Memory(len(site.objects[f"/samples/{name}"]) + 100, UNTOUCHED))))

        def ask(signer, mine):
            try:
                for name, number, grant in mine:
                    answers[number] = signer.request("GET", f"/samples/{name}", headers=session.headers(number, grant.text()))
            except Exception as error:  # to the test's thread
                problems.append(error)

        threads = [threading.Thread(target=ask, args=(signer, todo[n::8])) for n, signer in enumerate(signers)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not problems
        for name, number, grant in todo:
            got = session.arrived(answers[number], number, grant)
            assert got.transport == "rdma" and got.data == site.objects[f"/samples/{name}"], name
            grant.free()
        for signer in signers:
            signer.close()


def test_sessions_side_by_side(site):
    """Each in a thread of its own, of every scheme; sessions open and end meanwhile."""
    problems = []

    def work(number):
        try:
            user = site.user.like(site.user.access_key, site.user.secret)
            for turn in range(2):
                with type(site).session(Alike(user), rights=[SCHEMES[(number + turn) % 3]]) as session:
                    for name in ("units", "odd", "block", "units"):
                        got = session.get(f"/samples/{name}", 4 * MIB)
                        assert got.transport == "rdma" and got.data == site.objects[f"/samples/{name}"]
            user.close()
        except Exception as error:  # to the test's thread
            problems.append(error)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not problems, problems


class Alike:
    def __init__(self, user):
        self.user = user


def test_what_was_written_anew_is_read_anew(site, session):
    for size in (100, 300000, 0, 2 * MIB):
        data = content(f"again-{session.rights}-{size}", size)
        assert site.user.request("PUT", "/samples/again", data).status == 200
        assert session.get("/samples/again", 2 * MIB).data == data
