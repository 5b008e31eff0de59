"""Batched GETs on the control queue pair, against the real daemon over the fake transport (docs/rdma-protocol.md): every result there is, and every byte."""
import os
import random
import shutil
import signal
import threading
import time

import awscrt.checksums
import pytest

from tests.conftest import SEED
from tests.support.rdma import DRIVER, Entry, PeerError, Session, rdma_daemon
from tests.support.s3raw import RawClient
from tests.support.waits import eventually, metric

pytestmark = [pytest.mark.daemon, pytest.mark.skipif(not DRIVER.exists(), reason="make fake-rdma builds the transport")]
KIB, MIB = 1 << 10, 1 << 20
SIZES = {"none": 0, "one": 1, "small": 10 * KIB, "inline": 128 * KIB, "large": 300 * KIB, "units": 3 * MIB, "big": 9 * MIB + 12345}
OK, NO_KEY, NO_BUCKET, DENIED, PRECONDITION, RANGE, TOO_SMALL, ARGUMENT = 0, 1, 2, 4, 5, 6, 7, 8
TIMEOUT, UNAVAILABLE = 13, 12
UNTOUCHED = 0xee


def fill(daemon, count=300):
    """A bucket of samples, and objects of all sizes."""
    rng = random.Random(SEED)
    daemon.user = RawClient(daemon.host, daemon.port, daemon.access_key, daemon.secret_key)
    assert daemon.user.request("PUT", "/samples").status == 200
    daemon.objects = {name: rng.randbytes(size) for name, size in SIZES.items()}
    daemon.objects.update({f"s{i}": rng.randbytes(rng.randrange(1, 20 * KIB)) for i in range(count)})
    daemon.etags = {}
    for name, data in daemon.objects.items():
        answer = daemon.user.request("PUT", f"/samples/{name}", body=data)
        assert answer.status == 200
        daemon.etags[name] = answer.headers["etag"].strip('"')
    return daemon


@pytest.fixture(scope="module")
def site():
    daemon = fill(rdma_daemon(drives=4, ec="2+2").start())
    yield daemon
    daemon.stop()
    daemon.discard()
    shutil.rmtree(daemon.sockets)


@pytest.fixture
def session(site):
    with Session(site, receives=512, memory=64 * MIB) as one:
        yield one


def ask(session, entries, offset=0, length=None, ordered=False, replies=None, deadline=0):
    """One batch in as many messages as it takes, in one window each, of memory[offset, offset + length). Results by index, and that memory."""
    length = length if length is not None else max([entry.place + entry.room for entry in entries] + [1])
    grips, sent = [], 0
    while sent < len(entries):
        left = entries[sent:sent + 256]
        answers = -(-len(left) // 64) if replies is None else replies
        grip, _ = session.grip(offset, length, replies=answers)
        grips.append(grip)
        sent += session.send(left, grip, first=sent, ordered=ordered, replies=answers, deadline=deadline)
    for grip in grips:
        session.peer.tell("wait", grip, 20000)
    results, messages = session.results()
    for grip in grips:
        session.peer.tell("close", grip, 0)
    assert sorted(result.index for result in results) == list(range(len(entries)))
    if ordered:
        assert [result.index for result in results] == list(range(len(entries)))
    return sorted(results, key=lambda result: result.index), session.saved(offset, length), messages


def check(result, data, memory, place, whole=None, etag=None):
    """It says that these bytes were written, and they were."""
    whole = len(data) if whole is None else whole
    assert (result.code, result.bytes, result.size) == (OK, len(data), whole), result
    assert result.crc == awscrt.checksums.crc32c(data)
    assert memory[place:place + len(data)] == data, result
    assert etag is None or result.etag == etag


def places(names, objects, gap=0):
    """Entries for whole objects, side by side."""
    at, entries = 0, []
    for name in names:
        entries.append(Entry("samples", name, at, len(objects[name])))
        at += len(objects[name]) + gap
    return entries


def spoil(drive):
    """Damages what stands in a drive's segments, here and there."""
    for path in (drive / "data").iterdir():
        if path.is_file():
            with open(path, "r+b") as file:
                for offset in range(8 * KIB, path.stat().st_size, 700 * KIB):
                    file.seek(offset)
                    file.write(b"damaged!" * 16)


def empty(drive):
    for path in (drive / "data").iterdir():
        if path.is_file():
            os.truncate(path, 0)


# ---- what comes ------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("rights", ["window2", "window1", "region"])
@pytest.mark.parametrize("ordered", [False, True])
def test_whole_objects_of_all_sizes(site, rights, ordered):
    with Session(site, rights=[rights]) as session:
        names = list(SIZES)
        entries = places(names, site.objects, gap=100)
        results, memory, _ = ask(session, entries, offset=4096, ordered=ordered)
        for name, entry, result in zip(names, entries, results):
            check(result, site.objects[name], memory, entry.place, etag=site.etags[name])
            assert result.status == 200
            gap = memory[entry.place + entry.room:entry.place + entry.room + 100]
            assert gap == bytes([UNTOUCHED]) * len(gap)


def test_all_results(site, session):
    big, etag = site.objects["big"], site.etags["big"]
    cases = [
        (Entry("samples", "absent", room=10), 404, NO_KEY, None),
        (Entry("nothing-here", "x", room=10), 404, NO_BUCKET, None),
        (Entry("No_Bucket", "x", room=10), 400, ARGUMENT, None),
        (Entry("samples", "one", room=10, version="other"), 400, ARGUMENT, None),
        (Entry("samples", "one", room=10, version="null"), 200, OK, site.objects["one"]),
        (Entry("samples", "big", room=len(big), if_match=etag), 200, OK, big),
        (Entry("samples", "big", room=len(big), if_match="0" * 32), 412, PRECONDITION, None),
        (Entry("samples", "big", room=len(big), if_match="nonsense"), 412, PRECONDITION, None),
        (Entry("samples", "big", room=len(big) - 1), 400, TOO_SMALL, None),
        (Entry("samples", "small", room=0), 400, TOO_SMALL, None),
        (Entry("samples", "none", room=0), 200, OK, b""),
        (Entry("samples", "none", room=5, first=0, length=3), 416, RANGE, None),
        (Entry("samples", "big", room=5, first=len(big), length=5), 416, RANGE, None),
        (Entry("samples", "big", room=5, first=len(big) - 1, length=5), 206, OK, big[-1:]),
        (Entry("samples", "big", room=MIB * 2, first=MIB - 7, length=MIB * 2), 206, OK, big[MIB - 7:3 * MIB - 7]),
        (Entry("samples", "big", room=77777, length=77777, suffix=True), 206, OK, big[-77777:]),
        (Entry("samples", "small", room=99999, length=99999, suffix=True), 206, OK, site.objects["small"]),
        (Entry("samples", "small", room=1, first=5000, length=1), 206, OK, site.objects["small"][5000:5001]),
        (Entry("samples", "inline", room=128 * KIB, first=1), 206, OK, site.objects["inline"][1:]),
    ]
    at = 0
    for entry, *_ in cases:
        entry.place, at = at, at + entry.room
    results, memory, _ = ask(session, [case[0] for case in cases], length=at + 64)
    for (entry, status, code, data), result in zip(cases, results):
        assert (result.status, result.code) == (status, code), (entry, result)
        whole = len(site.objects.get(entry.key, b"")) if code in (OK, PRECONDITION, RANGE, TOO_SMALL) else 0
        if data is not None:
            check(result, data, memory, entry.place, whole)
        else:
            assert (result.bytes, result.size, result.crc) == (0, whole, 0), (entry, result)
            assert set(memory[entry.place:entry.place + entry.room]) <= {UNTOUCHED}
    assert set(memory[at:]) == {UNTOUCHED}


@pytest.mark.parametrize("ordered", [False, True])
def test_a_batch_of_1024(site, session, ordered):
    """Several messages, all outstanding at once; as many RESULTs as were asked for."""
    rng = random.Random(SEED)
    names = [f"s{rng.randrange(300)}" for _ in range(1024)]
    entries = places(names, site.objects)
    before = metric(site, "millrace_rdma_batch_entries_total")
    results, memory, messages = ask(session, entries, ordered=ordered)
    assert messages == 16
    for name, entry, result in zip(names, entries, results):
        check(result, site.objects[name], memory, entry.place, etag=site.etags[name])
    assert metric(site, "millrace_rdma_batch_entries_total") - before == 1024


@pytest.mark.parametrize("replies", [4, 5, 7, 64])
def test_replies_are_bounded(site, session, replies):
    entries = places([f"s{i}" for i in range(200)], site.objects)
    results, memory, messages = ask(session, entries, replies=replies)
    assert messages == -(-200 // -(-200 // replies))
    for i, result in enumerate(results):
        check(result, site.objects[f"s{i}"], memory, entries[i].place)


def test_large_objects_are_not_copied(site, session):
    """They are written as they lie: as many writes as units. Small ones take one each."""
    before = metric(site, "millrace_rdma_written_bytes_total"), metric(site, "millrace_rdma_writes_total")
    ask(session, places(["big", "small", "one"], site.objects))
    eventually(lambda: metric(site, "millrace_rdma_written_bytes_total") - before[0] == SIZES["big"] + SIZES["small"] + 1)
    assert metric(site, "millrace_rdma_writes_total") - before[1] == 10 + 2


def test_results_are_counted_by_code(site, session):
    def counted(code):
        return metric(site, f'millrace_batch_entries_total{{way="rdma",code="{code}"}}')
    before = counted("OK"), counted("NoSuchKey"), counted("InvalidRange")
    ask(session, [Entry("samples", "one", 0, 1), Entry("samples", "absent", 1, 1), Entry("samples", "absent", 2, 1),
                  Entry("samples", "small", 3, 1, first=10 * KIB)])
    assert (counted("OK"), counted("NoSuchKey"), counted("InvalidRange")) == (before[0] + 1, before[1] + 2, before[2] + 1)


def test_a_batch_and_other_requests_side_by_side(site):
    """GETs with windows and batches of two sessions at once, HTTP beside them."""
    def read(session, offset, rounds, failures):
        try:
            for _ in range(rounds):
                names = ["units", "s1", "large", "s2", "inline", "big"]
                entries = places(names, site.objects)
                results, memory, _ = ask(session, entries, offset=offset)
                for name, entry, result in zip(names, entries, results):
                    check(result, site.objects[name], memory, entry.place)
                answer, memory = session.get("/samples/units", 3 * MIB, offset=24 * MIB)
                assert answer.status == 200 and memory == site.objects["units"]
        except BaseException as failure:  # noqa: B902 - told to the test's thread
            failures.append(failure)
    failures = []
    with Session(site) as one, Session(site) as two:
        threads = [threading.Thread(target=read, args=(session, 0, 5, failures)) for session in (one, two)]
        for thread in threads:
            thread.start()
        for _ in range(50):
            assert site.user.request("GET", "/samples/small").body == site.objects["small"]
        for thread in threads:
            thread.join()
    assert not failures, failures


def test_no_session_waits_for_another(site):
    """One asks for much, over and over; another's single entries are answered meanwhile."""
    with Session(site, receives=512, memory=80 * MIB) as greedy, Session(site) as modest:
        entries = [Entry("samples", "big", i * len(site.objects["big"]), len(site.objects["big"])) for i in range(8)] * 30
        grips = []
        for batch in range(8):
            grip, _ = greedy.grip(0, 80 * MIB, replies=4)
            greedy.send(entries, grip, batch=batch, replies=4)
            grips.append(grip)
        for _ in range(20):
            results, memory, _ = ask(modest, [Entry("samples", "small", 0, 10 * KIB)])
            check(results[0], site.objects["small"], memory, 0)
        came, _ = greedy.results()
        assert len(came) < 8 * 240
        greedy.peer.kill()
        greedy.close = lambda: None


# ---- random ----------------------------------------------------------------------------------------------------------

def random_entry(rng, objects, at, room):
    """An entry that fits into room bytes at a place, and what must become of it."""
    name = rng.choice(list(objects)) if rng.random() < 0.9 else "absent"
    data = objects.get(name, b"")
    entry = Entry("samples", name, at)
    kind = rng.randrange(4)
    if kind == 1 and data:
        entry.first, entry.length = rng.randrange(len(data) + 10), rng.randrange(1, room)
        data = data[entry.first:entry.first + entry.length]
        code = OK if data else RANGE
    elif kind == 2 and name != "absent":
        entry.suffix, entry.length = True, rng.randrange(1, room)
        data, code = data[-entry.length:], OK
    else:
        code = OK
    if name == "absent":
        code, data = NO_KEY, b""
    if rng.random() < 0.1:
        entry.room = rng.randrange(room)
    else:
        entry.room = min(room, len(data) + rng.randrange(100))
    if code == OK and len(data) > entry.room:
        code = TOO_SMALL
    return entry, code, data


@pytest.mark.parametrize("round_", range(4))
def test_random_batches_byte_for_byte(site, round_):
    """Whatever is asked for: exactly those bytes, and nothing else of the memory has changed."""
    rng = random.Random(SEED * 10 + round_)
    print("seed", SEED, "round", round_)
    rights = rng.choice(["window2", "window1", "region"])
    objects = {name: data for name, data in site.objects.items() if len(data) < 4 * MIB}
    with Session(site, receives=512, rights=[rights], memory=48 * MIB) as session:
        shadow = bytearray([UNTOUCHED]) * (48 * MIB)
        for _ in range(3):
            at, asked = rng.randrange(4096), []
            while at < 40 * MIB and len(asked) < rng.randrange(1, 900):
                asked.append(random_entry(rng, objects, at, rng.choice([100, 20 * KIB, 200 * KIB, 3 * MIB])))
                at += asked[-1][0].room + rng.randrange(64)
            results, memory, _ = ask(session, [entry for entry, _, _ in asked], length=48 * MIB, ordered=rng.random() < 0.5)
            for (entry, code, data), result in zip(asked, results):
                assert result.code == code, (entry, result)
                if code == OK:
                    assert result.bytes == len(data) and result.crc == awscrt.checksums.crc32c(data), (entry, result)
                    shadow[entry.place:entry.place + len(data)] = data
            assert memory == bytes(shadow)


# ---- trouble ---------------------------------------------------------------------------------------------------------

def test_a_deadline(site, session):
    """Behind so much, what waits for longer than it was given is not begun."""
    entries = [Entry("samples", "big", 0, len(site.objects["big"]))] * 200
    results, _, _ = ask(session, entries, deadline=1)
    assert {result.code for result in results} <= {OK, TIMEOUT}
    assert results[-1].code == TIMEOUT and results[-1].status == 400 and results[-1].bytes == 0
    results, memory, _ = ask(session, [Entry("samples", "small", 0, 10 * KIB)], deadline=20000)
    check(results[0], site.objects["small"], memory, 0)


def test_a_number_counts_once(site):
    session = Session(site)
    grip, _ = session.grip(0, 100, replies=1)
    assert session.send([Entry("samples", "one", 0, 1)], grip) == 1
    with pytest.raises(PeerError):
        session.send([Entry("samples", "one", 0, 1)], grip)
        for _ in range(100):
            session.peer.tell("poll", 1000)
    session.peer.kill()
    before = site.user.request("GET", "/samples/one")
    assert before.status == 200


def test_a_window_that_is_not_ours_ends_the_session(site):
    """The client's device refuses the WRITE; others go on."""
    with Session(site) as other:
        session = Session(site)
        grip, _ = session.grip(0, 100, replies=1)
        session.peer.tell("close", grip, 1)
        with pytest.raises(PeerError):
            session.send([Entry("samples", "one", 0, 1)], grip)
            for _ in range(100):
                session.peer.tell("poll", 1000)
        session.peer.kill()
        results, memory, _ = ask(other, [Entry("samples", "one", 0, 1)])
        check(results[0], site.objects["one"], memory, 0)


def test_dead_clients_leave_nothing_behind(site):
    for how in ("kill", "fence", "end"):
        before = metric(site, "millrace_rdma_sessions")
        for _ in range(4):
            session = Session(site, receives=512)
            entries = places(["big", "units", "large"], site.objects) + places([f"s{i}" for i in range(200)], site.objects)
            for batch in range(4):
                grip, _ = session.grip(0, 16 * MIB, replies=4)
                session.send(entries, grip, batch=batch, replies=4)
            if how == "end":
                answer = site.user.request("DELETE", f"/_millrace/rdma/v1/sessions/{session.id}")
                assert answer.status == 204
            elif how == "fence":
                session.peer.tell("fence")
            session.peer.kill()
        for _ in range(200):
            if metric(site, "millrace_rdma_sessions") <= before and metric(site, "millrace_rdma_in_flight") == 0:
                break
            time.sleep(0.1)
        assert metric(site, "millrace_rdma_sessions") <= before
    with Session(site) as session:
        results, memory, _ = ask(session, places(["big", "small"], site.objects))
        check(results[0], site.objects["big"], memory, 0)
    used = [line for line in site.admin_get("/metrics")[1].decode().splitlines() if line.startswith("millrace_arena_slots_used{")]
    assert used and all(line.endswith(" 0") for line in used), used


@pytest.mark.parametrize("faults", ["", "files:ms=200"])
def test_the_daemon_ends_in_the_midst(faults):
    """Of reads, or of openings of the files that are to be read."""
    daemon = fill(rdma_daemon(drives=3, ec="2+1", settings={"test_faults": faults}).start(), count=10)
    session = Session(daemon)
    entries = [Entry("samples", "big", 0, len(daemon.objects["big"]))] * 100
    for batch in range(3):
        grip, _ = session.grip(0, 16 * MIB, replies=2)
        session.send(entries, grip, batch=batch, replies=2)
    daemon.stop()
    session.peer.kill()
    daemon.discard()
    shutil.rmtree(daemon.sockets)


def test_damage_and_a_missing_drive():
    """Degraded reads, while writes from the buffers of what came before are under way."""
    daemon = fill(rdma_daemon(drives=4, ec="2+2").start(), count=40)
    for i in range(12):  # of one object a drive may hold nothing but parity
        daemon.objects[f"x{i}"] = daemon.objects["large"]
        assert daemon.user.request("PUT", f"/samples/x{i}", body=daemon.objects["large"]).status == 200
    names = list(SIZES) + [f"s{i}" for i in range(40)] + [f"x{i}" for i in range(12)]
    entries = places(names * 2, daemon.objects)
    try:
        with Session(daemon, memory=64 * MIB) as session:
            spoil(daemon.drives[0])
            for _ in range(2):
                results, memory, _ = ask(session, entries)
                for name, entry, result in zip(names * 2, entries, results):
                    check(result, daemon.objects[name], memory, entry.place)
            deadline = time.monotonic() + 60  # repairs are flushed behind the answers
            while metric(daemon, "millrace_repaired_reads_total") == 0 and time.monotonic() < deadline:
                time.sleep(0.05)
            assert metric(daemon, "millrace_repaired_reads_total") > 0
        daemon.stop()
        daemon.format = False
        shutil.move(daemon.drives[0], daemon.folder / "away")
        daemon.drives = daemon.drives[1:]
        daemon.start()
        with Session(daemon, memory=64 * MIB) as session:
            results, memory, _ = ask(session, entries)
            for name, entry, result in zip(names * 2, entries, results):
                check(result, daemon.objects[name], memory, entry.place)
        daemon.stop()
    finally:
        daemon.discard()


def test_a_store_that_loses_drives_meanwhile():
    """A drive's files go while it is read: an entry has all its bytes, or a failure that says to try again. Nothing else is disturbed."""
    daemon = fill(rdma_daemon(drives=4, ec="2+2").start(), count=40)
    names = ["big", "units", "large"] * 10 + [f"s{i}" for i in range(40)]
    entries = places(names[:3], daemon.objects)
    entries = [Entry("samples", name, entries[i % 3].place if i < 30 else 13 * MIB, len(daemon.objects[name])) for i, name in enumerate(names)]
    try:
        with Session(daemon) as session:
            for drive in daemon.drives[:3]:
                results, _, _ = ask(session, entries)
                for name, result in zip(names, results):
                    assert result.code in (OK, 10, 11, UNAVAILABLE), (name, result)
                    if result.code == OK:
                        assert result.crc == awscrt.checksums.crc32c(daemon.objects[name]), name
                empty(drive)
            for drive in daemon.drives[:3]:  # what was read meanwhile was mended
                empty(drive)
            results, _, _ = ask(session, entries[:3])
            assert any(result.code in (11, UNAVAILABLE) for result in results), results
    finally:
        daemon.discard()


def test_sessions_end_with_their_credentials(tmp_path):
    """Revoked in the midst of batches: results may come or not, the session ends, the daemon goes on."""
    credentials = tmp_path / "credentials"

    def write(secret):
        credentials.write_text(f"access_key = AKSESSIONS\nsecret_key = {secret}\n")
        os.chmod(credentials, 0o600)

    write("first-secret-of-some-length")
    daemon = rdma_daemon(drives=3, ec="2+1", credentials=False, settings={"root_credentials": credentials}).start()
    try:
        daemon.access_key, daemon.secret_key = "AKSESSIONS", "first-secret-of-some-length"
        fill(daemon, count=20)
        session = Session(daemon, receives=512)
        entries = [Entry("samples", "big", 0, len(daemon.objects["big"]))] * 100
        for batch in range(4):
            grip, _ = session.grip(0, 16 * MIB, replies=2)
            session.send(entries, grip, batch=batch, replies=2)
        write("second-secret-of-some-length")
        daemon.signal(signal.SIGHUP)
        with pytest.raises(PeerError):
            for _ in range(1000):
                session.peer.tell("poll", 20000)
        session.peer.kill()
        daemon.secret_key = "second-secret-of-some-length"
        with Session(daemon) as session:
            results, memory, _ = ask(session, [Entry("samples", "big", 0, len(daemon.objects["big"]))])
            check(results[0], daemon.objects["big"], memory, 0)
        daemon.stop()
    finally:
        daemon.discard()
