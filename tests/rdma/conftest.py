"""Tests of the daemon on real verbs. They run in a guest with a Soft-RoCE device, which run.py boots: $ADDRESS is an address of the device.

tests/conftest.py is not loaded here (--confcutdir): what it imports takes long in an emulated machine.
"""
import hashlib
import os
import secrets
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

ADDRESS = os.environ.get("ADDRESS")
SEED = int(os.environ.setdefault("SEED", str(secrets.randbelow(1 << 32))))
KIB, MIB = 1 << 10, 1 << 20
# of one block and less, of several units, and of many WRITEs and two of the client's parts
SIZES = {"none": 0, "one": 1, "odd": 4097, "block": 128 * KIB, "units": 3 * MIB + 5, "big": 9 * MIB}
LONG = 20 * MIB  # takes half a second: something can break in the middle of it
# The guest's disk is its memory, and the files of drives are allocated whole: those of the default size take seconds.
SMALL_FILES = {"log_file_size": "8MiB", "segment_size": "32MiB"}
PERIOD = MIB + 4117

if ADDRESS is None:
    pytest.exit("tests/rdma/run.py runs these tests", returncode=2)

from tests.independent.session import Session  # noqa: E402
from tests.independent.signer import UNSIGNED, Signer  # noqa: E402
from tests.support.daemon import BUILD, Daemon  # noqa: E402,F401


def pytest_report_header():
    return [f"SEED={SEED}"]


def pytest_addoption(parser):
    parser.addoption("--quick", action="store_true", help="most tests with one way of granting rights, and none without RDMA")


WITH_EACH_WAY = ("test_whole[units-", "test_many_objects[")
# What the tests of integration/ say over the transport without hardware, or another test here.
ELSEWHERE = {"test_a_daemon_without_a_device", "test_without_a_device_all_else_works", "test_threads", "test_objects_of_all_sizes",
             "test_batches_over_http_that_are_refused", "test_an_interface_that_was_down_for_a_moment"}


def left_to_long_runs(item):
    """What says the same in another way, or needs no device."""
    words = set(item.name.rstrip("]").replace("[", "-").split("-"))
    if words & {"window1", "region"}:
        return not item.name.startswith(WITH_EACH_WAY)
    return bool(words & {"tcp", "auto", "test_bench", *ELSEWHERE})


def pytest_collection_modifyitems(config, items):
    """The C program comes last: nothing connects on Soft-RoCE's device any more when it is through."""
    if config.getoption("quick"):
        items[:] = [item for item in items if not left_to_long_runs(item)]
    items.sort(key=lambda item: item.path.name == "test_pair.py")


def content(name, size):
    """The bytes of an object, by its name and the seed. They repeat after a prime number of bytes, so that no two units, stripes or WRITEs are alike: random
    ones throughout take seconds in an emulated machine."""
    once = hashlib.shake_128(f"{SEED}/{name}".encode()).digest(min(size, PERIOD))
    return (once * (size // PERIOD + 1))[:size]


class Site:
    """A daemon with RDMA, a user of it, and what was stored."""

    def __init__(self, drives=1, ec=None, listen=(ADDRESS,), options=(), **settings):
        self.daemon = Daemon(drives=drives, ec=ec, settings={**SMALL_FILES, **settings},
                             options=[*options, *(word for address in listen for word in ("--rdma-listen", f"{address}:0"))])
        self.objects = {}

    def start(self):
        self.daemon.start()
        self.user = Signer(self.daemon.host, self.daemon.port, self.daemon.access_key, self.daemon.secret_key)
        return self

    def store(self, bucket, objects):
        assert self.user.request("PUT", f"/{bucket}").status == 200
        for name, data in objects.items():
            answer = self.user.request("PUT", f"/{bucket}/{name}", data, digest=UNSIGNED)
            assert answer.status == 200, answer
            self.objects[f"/{bucket}/{name}"] = data

    def session(self, **how):
        return Session(self.user, **how)

    def metric(self, name):
        return self.daemon.metrics()[name]

    def sessions(self):
        return self.metric("millrace_rdma_sessions")

    def end(self):
        try:
            if self.daemon.alive:
                self.daemon.stop()
        finally:
            self.daemon.discard()


@pytest.fixture(scope="session")
def shared():
    site = Site(drives=4, ec="2+2").start()
    site.store("samples", {name: content(name, size) for name, size in SIZES.items()})
    yield site
    site.end()


@pytest.fixture
def site(shared):
    """The daemon that tests share: it must live on, and every session that a test opened must come to its end."""
    yield shared
    assert shared.daemon.alive, shared.daemon.tail()
    shared.daemon.wait_until(lambda: shared.sessions() == 0, 30, "to end all sessions")


@pytest.fixture
def second_address():
    """Another address of the device."""
    address = ADDRESS.rsplit(".", 1)[0] + ".2"
    subprocess.run(["ip", "address", "add", f"{address}/24", "dev", "v0"], check=True)
    yield address
    subprocess.run(["ip", "address", "del", f"{address}/24", "dev", "v0"], check=True)


def pytest_runtest_logreport(report):
    """A failure is shown at once: the guest may not come to its end."""
    if report.failed:
        print(f"\n---- {report.nodeid} ({report.when})\n{report.longreprtext[-4000:]}", flush=True)
        for name, text in report.sections:
            print(f"---- {name}\n{text[-3000:]}", flush=True)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    """Puts the end of the daemon's log beside a failure."""
    outcome = yield
    report = outcome.get_result()
    if report.failed:
        for name in ("site", "shared", "own"):
            site = getattr(item, "funcargs", {}).get(name)
            if isinstance(site, Site):
                report.sections.append(("millraced", site.daemon.tail(3000)))
                break
