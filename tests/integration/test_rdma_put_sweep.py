"""PUT and UploadPart by RDMA READ against the real daemon over the fake transport, while READs fail: refused when posted, lost on their way there, or done without
an answer. Each in turn, then several at random.

Whatever fails, a request ends in success, with its bytes readable, or in an error that changed nothing; no buffer is lost, and other sessions go on.
"""
import mmap
import random
import shutil
import struct
import threading

import pytest

from tests.conftest import SEED
from tests.integration.test_rdma_put import begin_upload, md5, rests, taken, until
from tests.support.rdma import DRIVER, Session, rdma_daemon
from tests.support.s3raw import RawClient
from tests.support.waits import metric, run_all

pytestmark = [pytest.mark.daemon, pytest.mark.skipif(not DRIVER.exists(), reason="make fake-rdma builds the transport")]
KIB, MIB = 1 << 10, 1 << 20
# into the record; one stripe, of two units; several stripes; more than is read at a time, of which only each seventh point fails
SIZES = {10 * KIB: 1, 300 * KIB: 1, 5 * MIB + 3: 1, 20 * MIB + 1: 7}
CALM = 64 * KIB  # of the object that others read meanwhile


class Faults:
    """The file that the daemon's device looks at: struct fake_faults (tests/fakerdma/fake.h)."""

    def __init__(self, path):
        path.write_bytes(bytes(40))
        with open(path, "r+b") as file:
            self.shared = mmap.mmap(file.fileno(), 40)

    def set(self, fail_at=0, one_in=0, seed=0):
        self.shared[:] = struct.pack("<5Q", 0, fail_at, one_in, seed, 0)

    def failed(self):
        return struct.unpack("<5Q", self.shared[:])[4]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    path = tmp_path_factory.mktemp("faults") / "faults"
    faults = Faults(path)
    daemon = rdma_daemon(drives=4, ec="2+2", env={"MILLRACE_FAKE_RDMA_FAULTS": str(path)}).start()
    daemon.faults, daemon.calm = faults, random.Random(SEED).randbytes(CALM)
    daemon.user = RawClient(daemon.host, daemon.port, daemon.access_key, daemon.secret_key)
    assert daemon.user.request("PUT", "/sweep").status == 200
    assert daemon.user.request("PUT", "/sweep/calm", body=daemon.calm).status == 200
    yield daemon
    rests(daemon)
    daemon.stop()
    daemon.discard()
    shutil.rmtree(daemon.sockets)


class Uploader:
    """A client that opens another session when one has ended under it."""

    def __init__(self, site):
        self.site, self.session = site, None
        self.user = RawClient(site.host, site.port, site.access_key, site.secret_key)

    def put(self, path, data, query=()):
        """The answer. After an error the session is taken as over, and its process is killed: what its memory held is nobody's."""
        if self.session is None:
            self.session = Session(self.site, memory=24 * MIB)
        self.session.load(0, data)
        index, place = self.session.grip(0, len(data), read=True)
        answer = self.session.ask("PUT", path, place, query=list(query), timeout=60)
        if answer.status == 200:
            taken(answer, data)
            self.session.peer.tell("close", index, 1)
        else:
            assert answer.status == 503 and answer.code == "ServiceUnavailable" and "etag" not in answer.headers, answer
            self.end()
        return answer

    def end(self):
        if self.session is not None:
            self.session.forget()
            self.session.peer.kill()
            self.session = None

    def holds(self, path, data):
        """The object has these bytes; None: there is none."""
        answer = self.user.request("GET", path)
        if data is None:
            assert answer.status == 404, answer
        else:
            assert answer.status == 200 and answer.body == data and answer.headers["etag"] == f'"{md5(data)}"', (path, answer.status, len(answer.body))

    def holds_parts(self, path, upload, parts):
        """The upload has exactly these parts, {number: bytes}."""
        answer = self.user.request("GET", path, query=[("uploadId", upload)])
        found = {int(part.findtext("PartNumber")): part.findtext("ETag") for part in answer.xml.iter("Part")}
        assert found == {number: f'"{md5(data)}"' for number, data in parts.items()}


def calm(site, session):
    answer, data = session.get("/sweep/calm", CALM)
    assert answer.status == 200 and answer.headers["x-millrace-transport"] == "rdma" and data == site.calm, answer


def sweep(site, step, change, unchanged):
    """change(uploader, point) again and again, each step-th point failing in turn, until it has fewer; the last that failed."""
    uploader, point = Uploader(site), SEED % step + 1 - step
    with Session(site) as other:
        while True:
            point += step
            site.faults.set(fail_at=point)
            answer = change(uploader, point)
            failed = site.faults.failed()
            site.faults.set()
            assert (answer.status != 200) == (failed > 0), f"point {point}: {answer}"
            calm(site, other)
            if not failed:
                break
            unchanged(uploader, point)
            if point % 5 == 0:
                data = site.calm[::-1]
                taken(other.put("/sweep/others", data), data)
            until(lambda: metric(site, "millrace_rdma_sessions") == 1, f"the session that failed goes on, point {point}")
            rests(site)
        uploader.end()
    return point - step


@pytest.mark.parametrize("size", SIZES)
def test_each_point_of_an_object(site, size):
    """Over an object that is there, and where there is none."""
    rng, old = random.Random(SEED + size), {}

    def path(point):
        return f"/sweep/{size}-{point % 2}"

    def change(uploader, point):
        data = rng.randbytes(size)
        answer = uploader.put(path(point), data)
        if answer.status == 200:
            old[path(point)] = data
        return answer

    old[path(1)] = rng.randbytes(size // 2)
    assert site.user.request("PUT", path(1), body=old[path(1)]).status == 200
    last = sweep(site, SIZES[size], change, lambda uploader, point: uploader.holds(path(point), old.get(path(point))))
    reads = 2 if size == 300 * KIB else -(-size // MIB)
    assert 3 * reads - SIZES[size] < last <= 3 * reads, last  # each READ is posted, goes there, and comes back
    for name, data in old.items():
        Uploader(site).holds(name, data)


@pytest.mark.parametrize("size", [size if size < 20 * MIB else pytest.param(size, marks=pytest.mark.long) for size in SIZES])
def test_each_point_of_a_part(site, size):
    """Over a part that is there: the upload keeps it, and is completed with what it has at last."""
    rng, target = random.Random(SEED - size), f"/sweep/parts-{size}"
    upload = begin_upload(site, target)
    parts = {1: rng.randbytes(5 * MIB), 2: rng.randbytes(1000)}
    first = Uploader(site)
    for number, data in parts.items():
        first.put(target, data, [("partNumber", str(number)), ("uploadId", upload)])
    first.end()

    def change(uploader, point):
        data = rng.randbytes(size)
        answer = uploader.put(target, data, [("partNumber", "2"), ("uploadId", upload)])
        if answer.status == 200:
            parts[2] = data
        return answer

    assert sweep(site, SIZES[size], change, lambda uploader, point: uploader.holds_parts(target, upload, parts)) > 0
    assert len(parts[2]) == size
    finish(site, target, upload, parts)


def finish(site, path, upload, parts):
    text = "".join(f"<Part><PartNumber>{number}</PartNumber><ETag>{md5(parts[number])}</ETag></Part>" for number in sorted(parts))
    answer = site.user.request("POST", path, query=[("uploadId", upload)], body=f"<CompleteMultipartUpload>{text}</CompleteMultipartUpload>".encode())
    assert answer.status == 200, answer
    body = site.user.request("GET", path).body
    assert body == b"".join(parts[number] for number in sorted(parts))


@pytest.mark.parametrize("seed", [SEED, *(pytest.param(SEED + more, marks=pytest.mark.long) for more in (1, 2))])
def test_at_random(site, seed):
    """Several sessions at once, of which READs fail now and then; a session that uploads nothing is served all the while."""
    stop, served = threading.Event(), [0]

    def reader():
        with Session(site) as other:
            while not stop.is_set() or served[0] < 3:
                calm(site, other)
                served[0] += 1

    def uploads(who):
        rng, uploader, objects, parts = random.Random(f"{seed}/{who}"), Uploader(site), {}, {}
        target = f"/sweep/random-{seed}-{who}"
        upload = begin_upload(uploader, target)
        for turn in range(20):
            data = rng.randbytes(rng.choice((1, 9 * KIB, 200 * KIB, MIB + 1, 4 * MIB)))
            if rng.random() < 0.3:
                number = rng.randint(1, 3)
                if uploader.put(target, data, [("partNumber", str(number)), ("uploadId", upload)]).status == 200:
                    parts[number] = data
            else:
                name = f"{target}/{turn % 4}"
                if uploader.put(name, data).status == 200:
                    objects[name] = data
                uploader.holds(name, objects.get(name))
        uploader.holds_parts(target, upload, parts)
        uploader.end()
        for name, data in objects.items():
            uploader.holds(name, data)

    def all_uploads():
        try:
            run_all([lambda who=who: uploads(who) for who in range(3)])
        finally:
            stop.set()

    site.faults.set(one_in=30, seed=seed)
    try:
        run_all([reader, all_uploads])
    finally:
        site.faults.set()
    until(lambda: metric(site, "millrace_rdma_sessions") == 0, "sessions go on")
    rests(site)
