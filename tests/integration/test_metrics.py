"""Where time goes: after PUTs and GETs, the histograms of /metrics have one time for each thing that happened, and add up."""
import hashlib
import re

import pytest

from tests.integration.test_daemon import store_of
from tests.support.daemon import Daemon
from tests.support.s3raw import STREAMING

pytestmark = pytest.mark.daemon

MIB = 1 << 20
SMALL, LARGE = 5, 2  # objects of each kind
STRIPES, DATA, PARITY = 3, 2, 2  # of a large one: 2+2 by units of 1 MiB
MEMBERS = 3  # drives that keep a record
STAGES = ["head", "parse", "authenticate", "look", "body", "work", "send"]


class Counted:
    """What histograms have grown by since the last look: {(name, label, ...): (count, sum)}"""

    def __init__(self, daemon):
        self.daemon = daemon
        self.before = self.read()

    def read(self):
        found = {}
        for series, value in self.daemon.metrics().items():
            match = re.fullmatch(r"millrace_(request_stage|request_step|drive_operation|request_duration)_seconds_(count|sum)\{(.*)\}", series)
            if match:
                labels = re.findall(r'(\w+)="([^"]*)"', match[3])
                key = (match[1], *(v for k, v in labels if k != "drive"))
                count, total = found.get(key, (0, 0))
                found[key] = (count + value, total) if match[2] == "count" else (count, total + value)
        return found

    def grown(self):
        now, before = self.read(), self.before
        self.before = now
        return {key: (count - before.get(key, (0, 0))[0], total - before.get(key, (0, 0))[1]) for key, (count, total) in now.items()}


@pytest.fixture
def served():
    """No scrub: it would read, too."""
    with Daemon(drives=4, ec="2+2", settings={"scrub_rate": "0"}).start() as daemon:
        store = store_of(daemon)
        store.s3().create_bucket(Bucket="bucket")
        daemon.wait_until(lambda: requests_of(Counted(daemon).read()) == 1, 20, "to have counted that: its last step may come after its answer")
        yield daemon, store


def steps(grown, *wanted):
    return tuple(grown.get(("request_step", *key.split(".")), (0, 0))[0] for key in wanted)


def of_drives(grown, *wanted):
    return tuple(grown.get(("drive_operation", key), (0, 0))[0] for key in wanted)


def requests_of(figures):
    return sum(count for key, (count, _) in figures.items() if key[0] == "request_duration")


def settled(daemon, counted, requests):
    """What grew, once as many requests are over: the last step of one may come after its answer."""
    before = requests_of(counted.before)
    daemon.wait_until(lambda: requests_of(counted.read()) - before == requests, 20, "to have counted all requests")
    return counted.grown()


def stages_add_up(grown, requests):
    """Every request has been through each once; all stages together are the whole time of requests."""
    stages = {stage: grown[("request_stage", stage)] for stage in STAGES}
    for stage in ("head", "parse", "authenticate", "look", "work", "send"):
        assert stages[stage][0] == requests, (stage, stages)
    total = sum(total for _, total in stages.values())
    whole = sum(total for key, (_, total) in grown.items() if key[0] == "request_duration")
    assert total == pytest.approx(whole, rel=0.1, abs=0.001 * requests), (stages, whole)


def test_puts_and_gets(served, rng):
    daemon, store = served
    s3, raw = store.s3(), store.raw
    bodies = {f"small{i}": rng.randbytes(4096) for i in range(SMALL)}
    bodies |= {f"large{i}": rng.randbytes(5 * MIB + 12345) for i in range(LARGE)}
    counted = Counted(daemon)

    for key, body in bodies.items():
        assert raw.request("PUT", f"/bucket/{key}", body=body).status == 200
    grown = settled(daemon, counted, SMALL + LARGE)
    stages_add_up(grown, SMALL + LARGE)
    assert grown[("request_stage", "body")][0] == SMALL + LARGE
    assert steps(grown, "queue.key", "drive.record") == (SMALL + LARGE,) * 2
    assert steps(grown, "queue.buffers", "drive.write", "drive.sync") == (LARGE,) * 3
    assert steps(grown, "encode.parity", "encode.rebuild") == (LARGE * STRIPES * DATA, 0)
    assert all(count >= SMALL + LARGE for count in steps(grown, "hash.md5", "hash.checksums"))
    assert of_drives(grown, "append", "commit", "log_wait") == ((SMALL + LARGE) * MEMBERS,) * 3
    assert 0 < of_drives(grown, "log_write")[0]
    assert of_drives(grown, "write", "checksum") == (LARGE * STRIPES * (DATA + PARITY),) * 2
    assert of_drives(grown, "sync") == (LARGE * 4,)
    # an append's time is that of its group's wait and write, and a little
    parts = [grown[("drive_operation", part)][1] for part in ("log_wait", "append")]
    assert 0 < parts[0] < parts[1]

    for key, body in bodies.items():
        assert hashlib.md5(raw.request("GET", f"/bucket/{key}").body).digest() == hashlib.md5(body).digest()
    grown = settled(daemon, counted, SMALL + LARGE)
    stages_add_up(grown, SMALL + LARGE)
    assert grown[("request_stage", "body")][0] == 0
    assert steps(grown, "drive.lookup", "drive.record") == (SMALL + LARGE, 0)
    assert steps(grown, "queue.buffers", "drive.read", "encode.rebuild") == (LARGE, LARGE * STRIPES, 0)
    assert of_drives(grown, "lookup") == (SMALL + LARGE,)
    assert of_drives(grown, "read", "checksum") == (LARGE * STRIPES * DATA,) * 2
    assert s3.list_objects_v2(Bucket="bucket")["KeyCount"] == SMALL + LARGE


def test_signed_chunks(served, rng):
    """Each is checked by its signature: hashing, too."""
    daemon, store = served
    counted = Counted(daemon)
    assert store.raw.request("PUT", "/bucket/k", body=rng.randbytes(MIB), payload=STREAMING).status == 200
    grown = settled(daemon, counted, 1)
    assert all(count > 0 for count in steps(grown, "hash.md5", "hash.checksums", "hash.chunks"))
    assert grown[("request_step", "hash", "chunks")][1] > 0


def test_refused_requests(served):
    """Who is refused has been parsed; who is a stranger has been asked for a signature; neither has waited for a drive."""
    daemon, store = served
    counted = Counted(daemon)
    assert store.raw.request("GET", "/bucket/k", anonymous=True).status == 403
    grown = settled(daemon, counted, 1)
    assert [grown[("request_stage", stage)][0] for stage in ("head", "parse", "authenticate", "look", "body")] == [1, 1, 1, 0, 0]
    assert steps(grown, "drive.lookup") == (0,)


def test_each_drive_has_its_own(served, rng):
    daemon, store = served
    for i in range(4):
        store.raw.request("PUT", f"/bucket/k{i}", body=rng.randbytes(5 * MIB))
    _, state = daemon.health_json()
    figures = daemon.metrics()
    drives = {drive["id"] for drive in state["drives"]}
    written = {match[1]: value for series, value in figures.items()
               if (match := re.fullmatch(r'millrace_drive_operation_seconds_count\{drive="(\w+)",operation="write"\}', series))}
    assert set(written) == drives and all(value == 4 * 3 for value in written.values()), (written, drives)
