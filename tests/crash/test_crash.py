"""SIGKILL in a loop under a mixed load: after each restart every acknowledged object, and every version of a bucket beside it, is compared by
its content.

CRASH_SECONDS bounds all histories together (60 by default); SEED=N repeats one. Between restarts index/ of some drives is deleted now
and then, and in some histories one drive is removed for good.
"""
import os
import shutil
import time

import pytest

from tests.conftest import SEED, make_client
from tests.crash.history import History
from tests.crash.versions import VersionWorker
from tests.support.daemon import PATIENCE, Daemon

pytestmark = pytest.mark.daemon
SECONDS = float(os.environ.get("CRASH_SECONDS", "60"))
# Small files, so that the log wraps, segments fill and the tail reaches its bound within a short history.
SMALL = {"segment_size": "16MiB", "log_file_size": "4MiB", "memtable_size": "1MiB", "cache": "8MiB"}
LAYOUTS = {
    "one drive": (dict(drives=1), False),
    "two drives, 1+1": (dict(drives=2, ec="1+1"), False),
    "four drives, 2+2": (dict(drives=4, ec="2+2"), False),
    "four drives, one lost": (dict(drives=4, ec="2+2"), True),
}


def delete_indexes(daemon, random, lost):
    present = [d for i, d in enumerate(daemon.drives) if i != lost]
    victims = random.sample(present, random.randint(1, len(present)))
    for drive in victims:
        shutil.rmtree(drive / "index", ignore_errors=True)
    return len(victims)


def lose_a_drive(daemon, random):
    number = random.randrange(len(daemon.drives))
    shutil.rmtree(daemon.drives[number])
    daemon.drives[number].mkdir()
    return number


def begin(seed):
    return History(seed, "crash", others=[VersionWorker(n, seed) for n in range(2)])


def make_buckets(s3, history):
    s3.create_bucket(Bucket="crash")
    for worker in history.others:
        worker.begin(s3)


@pytest.mark.timeout(SECONDS * 4 + 400)
@pytest.mark.parametrize("name", LAYOUTS)
def test_kills(name):
    layout, loses_drive = LAYOUTS[name]
    seed = f"{SEED}/{name}"
    print(f"seed {seed}")
    history = begin(seed)
    deadline = time.monotonic() + SECONDS / len(LAYOUTS)
    kills, lost, slowest = 0, None, 0.0
    with Daemon(settings=SMALL, **layout).start() as daemon:
        def client():
            return make_client(daemon.endpoint, daemon.access_key, daemon.secret_key, read_timeout=30 * PATIENCE)

        make_buckets(client(), history)
        while time.monotonic() < deadline or kills < 3:
            history.load(client, history.random.uniform(0.1, 2.0), daemon.kill)
            kills += 1
            if loses_drive and lost is None and kills == 2:
                lost = lose_a_drive(daemon, history.random)
            if history.random.random() < 0.3:
                delete_indexes(daemon, history.random, lost)
            started = time.monotonic()
            daemon.restart(timeout=60)
            slowest = max(slowest, time.monotonic() - started)
            count = history.check(client(), twice=kills % 3 == 0)
            if history.random.random() < 0.2:  # a crash right after recovery
                daemon.kill()
                daemon.restart(timeout=60)
                history.check(client(), twice=False)
        daemon.stop()
        daemon.restart()
        history.check(client())
    print(f"{name}: {kills} kills, {count} objects at the end, slowest restart {slowest:.2f} s, {history.operations()}")


@pytest.mark.timeout(SECONDS * 4 + 400)
def test_kill_during_recovery():
    """A crash while the store recovers from a crash, again and again."""
    history = begin(f"{SEED}/recovery")
    with Daemon(settings=SMALL, drives=4, ec="2+2").start() as daemon:
        def client():
            return make_client(daemon.endpoint, daemon.access_key, daemon.secret_key, read_timeout=30 * PATIENCE)

        make_buckets(client(), history)
        for round_number in range(3):
            history.load(client, 1.0, daemon.kill)
            for _ in range(4):
                if round_number == 1:
                    delete_indexes(daemon, history.random, None)
                daemon.spawn()
                time.sleep(history.random.uniform(0, 0.25))
                daemon.kill()
            daemon.restart(timeout=60)
            history.check(client(), twice=False)
