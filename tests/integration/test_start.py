"""One bad drive does not keep the others from serving: damaged, hanging and slow drives at the start of the real daemon."""
import os
import re
import shutil

import pytest

from tests.conftest import make_client
from tests.support.daemon import Daemon
from tests.support.expect import read

MIB = 1 << 20
SETTINGS = {"drive_wait": "2s"}
pytestmark = pytest.mark.daemon


def client_of(daemon):
    return make_client(daemon.endpoint, daemon.access_key, daemon.secret_key, retries=6)


def fill(daemon):
    s3 = client_of(daemon)
    s3.create_bucket(Bucket="kept")
    bodies = {f"k{i}": bytes([i]) * (100 + i, 300_000 + i, 3 * MIB + i)[i % 3] for i in range(9)}
    for key, body in bodies.items():
        s3.put_object(Bucket="kept", Key=key, Body=body)
    return bodies


def serves(daemon, bodies):
    s3 = client_of(daemon)
    for key, body in bodies.items():
        assert read(s3, "kept", key) == body
    s3.put_object(Bucket="kept", Key="new", Body=b"written without the drive")
    assert read(s3, "kept", "new") == b"written without the drive"


def drives_in(daemon, count):
    daemon.wait_until(lambda: daemon.health_json()[1]["drives_in"] == count, 60, f"to have {count} drives in")


@pytest.fixture(name="daemon")
def fixture_daemon():
    daemon = Daemon(drives=4, settings=SETTINGS)
    daemon.start()
    yield daemon
    daemon.discard()


def truncated(path):
    path.write_bytes(path.read_bytes()[:40])


def flipped(path):
    body = bytearray(path.read_bytes())
    body[30] ^= 1
    path.write_bytes(bytes(body))


def emptied(path):
    path.write_bytes(b"")


def unreadable(path):
    path.unlink()
    path.mkdir()


def fifo(path):
    path.unlink()
    os.mkfifo(path)


def removed(path):
    path.unlink()


@pytest.mark.parametrize("slot", [0, 2])
@pytest.mark.parametrize("damage", [truncated, flipped, emptied, unreadable, fifo, removed])
def test_damaged_format(daemon, damage, slot):
    bodies = fill(daemon)
    daemon.stop()
    victim = daemon.drives[slot] / "FORMAT"
    good = victim.read_bytes()
    damage(victim)
    daemon.start()
    assert str(daemon.drives[slot]) in daemon.output()
    health = daemon.health_json()[1]
    assert health["drives_in"] == 3
    serves(daemon, bodies)
    daemon.stop()
    if victim.is_dir():
        victim.rmdir()
    victim.unlink(missing_ok=True)
    victim.write_bytes(good)
    daemon.start()
    drives_in(daemon, 4)
    serves(daemon, bodies)


@pytest.mark.parametrize("slot", [0, 2])
def test_an_opening_that_never_returns(daemon, slot):
    """A log file that is a FIFO: open() waits for somebody to write to it."""
    bodies = fill(daemon)
    daemon.stop()
    log = sorted((daemon.drives[slot] / "log").iterdir())[-1]
    shutil.move(log, daemon.folder / "kept")
    os.mkfifo(log)
    daemon.start()
    assert daemon.health_json()[1]["drives_in"] == 3
    serves(daemon, bodies)
    daemon.stop()
    log.unlink()
    shutil.move(daemon.folder / "kept", log)
    daemon.start()
    drives_in(daemon, 4)
    serves(daemon, bodies)


@pytest.mark.parametrize("slot", [0, 2])
def test_an_opening_that_takes_long(daemon, slot):
    """The drive comes in by itself when it has been opened."""
    bodies = fill(daemon)
    daemon.stop()
    daemon.settings["test_faults"] = f"open:slot={slot},ms=6000"
    daemon.start()
    serves(daemon, bodies)
    drives_in(daemon, 4)
    serves(daemon, bodies)
    daemon.stop()
    daemon.settings.pop("test_faults")
    daemon.start()
    drives_in(daemon, 4)
    serves(daemon, bodies)


def test_too_few_without_those_that_take_long(daemon):
    """Two of four cannot go on alone: the start waits for the others, however long they take."""
    bodies = fill(daemon)
    daemon.stop()
    daemon.settings["test_faults"] = "open:slot=0,ms=5000;open:slot=3,ms=5000"
    daemon.start()
    drives_in(daemon, 4)
    serves(daemon, bodies)


def test_stopping_while_a_drive_is_being_opened(daemon):
    fill(daemon)
    daemon.stop()
    daemon.settings["test_faults"] = "open:slot=0,ms=3600000"
    daemon.start()
    daemon.stop()
    assert re.search(r"a drive has not come back", daemon.output())


def test_stopping_with_a_drive_that_hangs(daemon):
    """It has failed, and its thread does not come back from opening a file: the stop leaves it behind, and closes the others."""
    bodies = fill(daemon)
    daemon.stop()
    daemon.settings["test_faults"] = "files:slot=1,ms=3600000"
    daemon.start()
    serves(daemon, bodies)
    drives_in(daemon, 3)
    daemon.stop()
    assert re.search(r"a drive has not come back", daemon.output())
    daemon.settings.pop("test_faults")
    daemon.start()
    drives_in(daemon, 4)
    serves(daemon, bodies)
