"""Drives that fail, lie, stall, repeat and lose operations (the filters of test_faults), and bytes that rot on disk: what was acknowledged
stays right, and no byte that failed its checksum reaches a client (I5)."""
import threading

import pytest

from tests.conftest import SEED, make_client
from tests.crash.history import NO_ANSWER, History
from tests.support.daemon import PATIENCE, Daemon

pytestmark = pytest.mark.daemon
KIB, MIB = 1 << 10, 1 << 20
SMALL = {"segment_size": "16MiB", "log_file_size": "4MiB", "memtable_size": "2MiB", "cache": "0"}


def run_history(faults, seconds=1.0, kill=True, costs=0, **layout):
    """A mixed load over drives with these faults, until they have cost so many drives, then every object by content; then the same after a crash,
    without the faults."""
    layout = layout or dict(drives=4, ec="2+2")
    history = History(f"{SEED}/{faults}", "faulty", workers=5)
    with Daemon(settings={**SMALL, "test_faults": faults}, **layout).start() as daemon:
        def client():
            return make_client(daemon.endpoint, daemon.access_key, daemon.secret_key, read_timeout=30 * PATIENCE)

        make_client(daemon.endpoint, daemon.access_key, daemon.secret_key, retries=8).create_bucket(Bucket="faulty")
        drives_in = len(daemon.drives) - costs
        history.load(client, seconds, lambda: daemon.wait_until(lambda: daemon.health_json()[1]["drives_in"] <= drives_in, 60, "to lose drives"))
        patient = make_client(daemon.endpoint, daemon.access_key, daemon.secret_key, retries=8)
        count = history.check(patient, restarted=False)
        in_use = daemon.health_json()[1]["drives_in"]
        if kill:
            history.load(client, seconds / 2, daemon.kill)
            daemon.settings.pop("test_faults")
            daemon.restart(60)
            history.check(make_client(daemon.endpoint, daemon.access_key, daemon.secret_key, retries=8))
    assert count > 0
    print(f"{faults}: {count} objects, {in_use} drives in, {history.operations()}")
    return in_use


LATE = ["delay:ms=3,every=5", "duplicate;delay:ms=2,every=7", "delay:ms=30,slot=1", "delay:op=append,ms=5,slot=3", "delay:op=commit,ms=20"]
ALIKE = ["corrupt:slot=0,every=2", "corrupt:slot=2"]
HARMLESS = ["duplicate", "corrupt:slot=0,every=3;corrupt:slot=3,every=5", "pages",
            *(pytest.param(faults, marks=pytest.mark.long) for faults in LATE + ALIKE)]


@pytest.mark.parametrize("faults", HARMLESS)
def test_no_drive_is_lost(faults):
    assert run_history(faults) == 4


COSTS_A_DRIVE = [*(pytest.param(faults, marks=pytest.mark.long) for faults in
                   ("fail:slot=0,after=300", "fail:op=write,slot=2,after=20", "drop:slot=0,after=300,ms=300")),
                 "fail:op=append,slot=1,after=50", "fail:op=sync,slot=3,after=3", "drop:op=append,slot=2,after=40,ms=500", "duplicate;fail:slot=1,after=400",
                 "delay:op=append,ms=80,slot=0;delay:op=append,ms=50,slot=2;fail:slot=0,after=300"]  # it answers while the epoch changes


@pytest.mark.parametrize("faults", COSTS_A_DRIVE)
def test_one_drive_is_lost(faults):
    """The drive leaves by an epoch and the store goes on with the others."""
    assert run_history(faults, costs=1) == 3


def test_reads_go_on_without_a_write_quorum():
    """Two of four drives gone: writes get 503, what is there is read, and nothing is pretended."""
    run_history("fail:slot=0,after=300;fail:slot=1,after=500", costs=2)


def test_one_drive_that_lies():
    """Where nothing is left to reconstruct from, a client gets an error or a broken connection, never wrong bytes."""
    with Daemon(drives=1, settings=SMALL).start() as daemon:
        s3 = make_client(daemon.endpoint, daemon.access_key, daemon.secret_key)
        s3.create_bucket(Bucket="lies")
        bodies = {f"k{i}": bytes([i]) * size for i, size in enumerate((100, 100 * KIB, 300 * KIB, 5 * MIB))}
        for key, body in bodies.items():
            s3.put_object(Bucket="lies", Key=key, Body=body)
        daemon.stop()
        daemon.settings["test_faults"] = "corrupt:every=2,op=read;corrupt:every=3,op=lookup"
        daemon.restart()
        s3 = make_client(daemon.endpoint, daemon.access_key, daemon.secret_key)
        errors = 0
        for _ in range(10):
            for key, body in bodies.items():
                try:
                    assert s3.get_object(Bucket="lies", Key=key)["Body"].read() == body
                except s3.exceptions.ClientError as error:
                    assert error.response["ResponseMetadata"]["HTTPStatusCode"] >= 500, error.response
                    errors += 1
                except NO_ANSWER:
                    errors += 1
        assert errors > 0
        daemon.stop()


# ---- rot ----------------------------------------------------------------------------------------------------


def rot(folder, rng, pieces):
    """Flips bytes at random places of the files below folder; returns how many."""
    files = [p for p in folder.rglob("*") if p.is_file() and p.stat().st_blocks > 0]
    flipped = 0
    for _ in range(pieces):
        path = rng.choice(files)
        with open(path, "r+b") as file:
            at = rng.randrange(path.stat().st_size)
            file.seek(at)
            old = file.read(1)
            if old == b"\0":
                continue  # most likely a place never written
            file.seek(at)
            file.write(bytes([old[0] ^ (1 << rng.randrange(8))]))
            flipped += 1
    return flipped


def stored(daemon, rng):
    s3 = make_client(daemon.endpoint, daemon.access_key, daemon.secret_key)
    s3.create_bucket(Bucket="rot")
    bodies = {f"k{i:03}": rng.randbytes(rng.choice([50, 3000, 100 * KIB, 200 * KIB, MIB + 3])) for i in range(80)}
    for key, body in bodies.items():
        s3.put_object(Bucket="rot", Key=key, Body=body)
    return bodies


def all_right(daemon, bodies):
    s3 = make_client(daemon.endpoint, daemon.access_key, daemon.secret_key, retries=4)
    assert [e["Key"] for e in s3.list_objects_v2(Bucket="rot")["Contents"]] == sorted(bodies)
    for key, body in bodies.items():
        assert s3.get_object(Bucket="rot", Key=key)["Body"].read() == body, key


@pytest.mark.parametrize("where, drives", [("data", [0]), ("data", [0, 3]), ("index", [1]), ("log", [2])])
def test_rot_on_disk(rng, where, drives):
    with Daemon(drives=4, ec="2+2", settings=SMALL).start() as daemon:
        bodies = stored(daemon, rng)
        daemon.stop()
        for number in drives:
            assert rot(daemon.drives[number] / where, rng, 300) > 0
        daemon.restart(60)
        all_right(daemon, bodies)
        all_right(daemon, bodies)


@pytest.mark.parametrize("name", ["data", "log", "index"])
def test_parts_of_a_drive_deleted(rng, name):
    """A drive whose files are gone is a drive lost, not a store lost."""
    with Daemon(drives=4, ec="2+2", settings=SMALL).start() as daemon:
        bodies = stored(daemon, rng)
        daemon.stop()
        path = daemon.drives[0] / name
        for file in [p for p in path.rglob("*") if p.is_file()]:
            file.unlink()
        daemon.format = False
        daemon.restart(60)
        all_right(daemon, bodies)


def test_truncated_files(rng):
    with Daemon(drives=4, ec="2+2", settings=SMALL).start() as daemon:
        bodies = stored(daemon, rng)
        daemon.kill()
        for path in (daemon.drives[0] / "data").rglob("*"):
            if path.is_file():
                with open(path, "r+b") as file:
                    file.truncate(path.stat().st_size // 2)
        daemon.restart(60)
        all_right(daemon, bodies)


@pytest.mark.parametrize("slot", [0, 2])
def test_a_page_of_an_index_never_comes(slot):
    """A drive hangs inside its index: the loop that it shares with others goes on, readers wait for its limit at most, and it leaves."""
    with Daemon(drives=4, ec="2+2", settings=SMALL).start() as daemon:
        s3 = make_client(daemon.endpoint, daemon.access_key, daemon.secret_key)
        s3.create_bucket(Bucket="hung")
        bodies = {f"k{i}": bytes([i]) * size for i, size in enumerate([700, 90 * KIB, 600 * KIB] * 12)}
        for key, body in bodies.items():
            s3.put_object(Bucket="hung", Key=key, Body=body)
        daemon.stop()
        daemon.settings["test_faults"] = f"pages:slot={slot},after=2,ms=3600000"
        daemon.restart(60)
        wrong, ended = [], threading.Event()

        def reader():
            client = make_client(daemon.endpoint, daemon.access_key, daemon.secret_key, read_timeout=30 * PATIENCE)
            while not ended.is_set():
                for key, body in bodies.items():
                    if client.get_object(Bucket="hung", Key=key)["Body"].read() != body:
                        wrong.append(key)

        threads = [threading.Thread(target=reader) for _ in range(4)]
        for thread in threads:
            thread.start()
        try:
            daemon.wait_until(lambda: daemon.health_json()[1]["drives_in"] == 3, 60, "to give the drive up")
        finally:
            ended.set()
            for thread in threads:
                thread.join()
        assert not wrong
        drive = daemon.health_json()[1]["drives"][slot]
        assert "a read, write or flush" in drive["reason"], drive
        assert not wrong and all(s3.get_object(Bucket="hung", Key=key)["Body"].read() == body for key, body in bodies.items())


def test_reads_while_a_drive_stalls():
    """A drive that answers late is passed by: readers of others' shards do not wait for it."""
    with Daemon(drives=4, ec="2+2", settings={**SMALL, "test_faults": "delay:op=read,ms=1500,slot=0"}).start() as daemon:
        s3 = make_client(daemon.endpoint, daemon.access_key, daemon.secret_key)
        s3.create_bucket(Bucket="late")
        body = bytes(range(256)) * 8 * KIB
        for i in range(8):
            s3.put_object(Bucket="late", Key=f"k{i}", Body=body)
        wrong = []

        def reader(i):
            for _ in range(3):
                if s3.get_object(Bucket="late", Key=f"k{i}")["Body"].read() != body:
                    wrong.append(i)

        threads = [threading.Thread(target=reader, args=(i,)) for i in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not wrong
