"""Bits that change in the indexes of a store that serves, and logs that are damaged where an index has to be built from them: the daemon lives, no
answer is wrong, and drives come back by themselves."""
import os
import random
import shutil
import threading

import pytest

from tests.conftest import SEED, make_client
from tests.crash.history import History
from tests.support.daemon import PATIENCE, Daemon

pytestmark = pytest.mark.daemon
KIB, MIB = 1 << 10, 1 << 20
SMALL = {"segment_size": "16MiB", "log_file_size": "4MiB", "memtable_size": "16MiB", "cache": "0"}
PAGE = 4096
FLIPS = int(os.environ.get("MILLRACE_ROT_FLIPS", "24"))


def client_of(daemon, retries=8):
    return make_client(daemon.endpoint, daemon.access_key, daemon.secret_key, retries=retries)


def flip_index(drive, rng):
    """One bit of a page of the index that is in use; in every other case of its head."""
    try:
        with open(drive / "index" / "data.mdb", "r+b") as file:
            pages = os.fstat(file.fileno()).st_size // PAGE
            for _ in range(100):
                at = rng.randrange(pages) * PAGE
                file.seek(at)
                page = file.read(PAGE)
                if len(page) == PAGE and page[10] & 0xf:
                    break
            at += rng.randrange(64 if rng.randrange(2) else PAGE)
            file.seek(at)
            old = file.read(1)
            file.seek(at)
            file.write(bytes([old[0] ^ (1 << rng.randrange(8))]))
    except FileNotFoundError:
        pass  # it is being built anew


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.timeout(1200)
def test_rot_under_load():
    """At most as many indexes are rotten as there are parity shards: all answers are right, and all drives are in at the end."""
    rng = random.Random(f"{SEED}/rot")
    history = History(f"{SEED}/rot", "rotten", workers=4)
    with Daemon(drives=4, ec="2+2", settings=SMALL).start() as daemon:
        client_of(daemon).create_bucket(Bucket="rotten")
        victims = rng.sample(daemon.drives, 2)
        left = 0

        def client():
            return make_client(daemon.endpoint, daemon.access_key, daemon.secret_key, read_timeout=30 * PATIENCE)

        def all_in():
            return daemon.health_json()[1]["drives_in"] == 4

        each = max(8, FLIPS // 8)
        rounds = max(1, FLIPS // each)
        for number in range(rounds):
            def flips():
                nonlocal left
                for _ in range(each):
                    flip_index(rng.choice(victims), rng)
                    threading.Event().wait(0.05)
                left += daemon.health_json()[1]["drives_in"] < 4

            history.load(client, 1.5, flips)
            history.check(client_of(daemon), restarted=False)
            assert daemon.alive
            daemon.wait_until(all_in, 120, f"to have all drives in again after round {number}")
        history.check(client_of(daemon), restarted=False)
        daemon.stop()
        daemon.restart(60)
        daemon.wait_until(all_in, 120, "to have all drives in again")
        history.check(client_of(daemon))
        print(f"{rounds * each} flips, drives were out after {left} of {rounds} rounds, {history.operations()}")


def fill(s3, count):
    s3.create_bucket(Bucket="damaged")
    bodies = {f"key/{i:04}": bytes([i % 251]) * (i % 3 * 40 * KIB + 100) for i in range(count)}
    for key, body in bodies.items():
        s3.put_object(Bucket="damaged", Key=key, Body=body)
    return bodies


def damage_log(drive):
    """Its index goes, and in the middle of its oldest log file a block."""
    shutil.rmtree(drive / "index")
    oldest = min((drive / "log").glob("*.log"))
    with open(oldest, "r+b") as file:
        file.seek(os.fstat(file.fileno()).st_size // 2 // PAGE * PAGE)
        file.write(os.urandom(PAGE))


def state_of(daemon, drive):
    return next(d for d in daemon.health_json()[1]["drives"] if d["path"] == str(drive))


@pytest.mark.slow
def test_damage_in_a_log_without_an_index():
    """The drive catches up with its peers, and no name is missing or back."""
    with Daemon(drives=4, ec="2+2", settings=SMALL).start() as daemon:
        bodies = fill(client_of(daemon), 200)
        for key in list(bodies)[::5]:
            client_of(daemon).delete_object(Bucket="damaged", Key=key)
            del bodies[key]
        daemon.stop()
        damage_log(daemon.drives[0])
        daemon.restart(60)
        daemon.wait_until(lambda: daemon.health_json()[1]["drives_in"] == 4, 60, "to have its drive back")
        s3 = client_of(daemon)
        assert {o["Key"] for o in s3.list_objects_v2(Bucket="damaged")["Contents"]} == set(bodies)
        daemon.stop()
        for drive in daemon.drives[2:]:  # those that are left must hold all
            shutil.move(drive, f"{drive}.away")
        daemon.start()
        s3 = client_of(daemon)
        assert {o["Key"] for o in s3.list_objects_v2(Bucket="damaged")["Contents"]} == set(bodies)
        for key, body in bodies.items():
            assert s3.get_object(Bucket="damaged", Key=key)["Body"].read() == body
        daemon.stop()


def test_damage_without_peers():
    """The only drive opens, read-only, and says what may be lost."""
    with Daemon(drives=1, settings=SMALL).start() as daemon:
        bodies = fill(client_of(daemon), 200)
        daemon.stop()
        damage_log(daemon.drives[0])
        daemon.start()
        health = daemon.health_json()[1]
        assert not health["writable"]
        assert "log is damaged" in state_of(daemon, daemon.drives[0])["reason"]
        s3 = client_of(daemon, retries=1)
        with pytest.raises(s3.exceptions.ClientError) as error:
            s3.put_object(Bucket="damaged", Key="new", Body=b"new")
        assert error.value.response["ResponseMetadata"]["HTTPStatusCode"] == 503
        found = 0
        for key, body in bodies.items():
            try:
                assert s3.get_object(Bucket="damaged", Key=key)["Body"].read() == body
                found += 1
            except s3.exceptions.ClientError as refusal:
                assert refusal.response["ResponseMetadata"]["HTTPStatusCode"] in (404, 503)
        assert len(bodies) - 40 < found < len(bodies)
        daemon.stop()
