"""Fixtures: stores that run for the whole session, clients for them, and a fresh bucket for each test.

A daemon that dies fails the test in which it died and is started anew, so that one crash does not hide the other results.
MILLRACE_TEST_ENDPOINT=http://ACCESS:SECRET@HOST:PORT runs the S3 suites against another server (not tests of the daemon itself).
"""
import itertools
import os
import random
import secrets
import sys
import time
import urllib.parse
from pathlib import Path

import botocore.config
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.support.boto import boto  # noqa: E402
from tests.support.daemon import PATIENCE, PROGRAM, REGION, SANITIZER_REPORT, Daemon  # noqa: E402
from tests.support.s3raw import RawClient  # noqa: E402

FOREIGN = os.environ.get("MILLRACE_TEST_ENDPOINT")
LAYOUTS = {"single": dict(drives=1), "four": dict(drives=4, ec="2+2")}
BUCKET_NUMBER = itertools.count(1)
SEED = int(os.environ.setdefault("SEED", str(secrets.randbelow(1 << 32))))  # in the environment, for pytest's worker processes
UNTIL = float(os.environ.get("MILLRACE_UNTIL", "inf"))  # seconds since 1970: a test that has not begun by then is skipped


def pytest_configure(config):
    config.addinivalue_line("markers", "slow: left out of the sanitizer runs")
    config.addinivalue_line("markers", "long: says what another test says, in another way: make check-long runs it")
    config.addinivalue_line("markers", "single: on one drive what is also run on four: left out of the sanitizer runs")
    config.addinivalue_line("markers", "client: of programs and packages that are the release build's whatever the daemon is: left out, too")
    config.addinivalue_line("markers", "only_where(condition, needs): does not exist where the condition is false")
    config.addinivalue_line("markers", "smoke: the few tests of the TSan run")
    config.addinivalue_line("markers", "daemon: tests of the daemon itself, not runnable against a foreign endpoint")
    if not config.getoption("--timeout", None):
        config.option.timeout = 120 * PATIENCE


def pytest_report_header(config):
    return [f"daemon: {FOREIGN or PROGRAM}", f"SEED={SEED}"]


def pytest_collection_modifyitems(config, items):
    elsewhere = [item for item in items if any(not mark.args[0] for mark in item.iter_markers("only_where"))]
    if elsewhere:
        config.hook.pytest_deselected(items=elsewhere)
        items[:] = [item for item in items if item not in elsewhere]
    for item in items:
        if FOREIGN and item.get_closest_marker("daemon"):
            item.add_marker(pytest.mark.skip(reason="tests millraced itself"))


def processor_seconds():
    """Of this process, and of the processes that it has waited for."""
    return sum(os.times()[:4])


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    item.processor_seconds_before = processor_seconds()
    if time.time() > UNTIL:
        pytest.skip("no time left")


class Store:
    """A running store as the tests see it."""

    def __init__(self, host, port, access_key, secret_key, daemon=None):
        self.host, self.port, self.access_key, self.secret_key, self.daemon = host, port, access_key, secret_key, daemon
        self.clients = {}

    @property
    def endpoint(self):
        return f"http://{self.host}:{self.port}"

    def s3(self, **config):
        """A boto3 client; the same arguments give the same client."""
        name = repr(sorted(config.items()))
        if name not in self.clients:
            self.clients[name] = make_client(self.endpoint, self.access_key, self.secret_key, **config)
        return self.clients[name]

    @property
    def raw(self):
        return RawClient(self.host, self.port, self.access_key, self.secret_key, REGION)


def make_client(endpoint, access_key, secret_key, verify=None, retries=0, addressing="path", **config):
    settings = dict(signature_version="s3v4", s3={"addressing_style": addressing}, max_pool_connections=64,
                    retries={"max_attempts": retries, "mode": "standard"}, read_timeout=60 * PATIENCE, connect_timeout=10)
    settings.update(config)
    return boto("s3", endpoint_url=endpoint, aws_access_key_id=access_key, aws_secret_access_key=secret_key, region_name=REGION, verify=verify,
                config=botocore.config.Config(**settings))


class Pool:
    """The stores of this session, started when first asked for."""

    def __init__(self):
        self.stores = {}

    def get(self, layout):
        if FOREIGN:
            url = urllib.parse.urlsplit(FOREIGN)
            return self.stores.setdefault("foreign", Store(url.hostname, url.port, url.username, url.password))
        store = self.stores.get(layout)
        if store is None or not store.daemon.alive:
            if store is not None:
                store.daemon.discard()
            daemon = Daemon(**LAYOUTS[layout]).start()
            store = Store(daemon.host, daemon.port, daemon.access_key, daemon.secret_key, daemon)
            self.stores[layout] = store
        return store

    def casualties(self):
        """Logs of daemons that ended, or printed a sanitizer's report, since they were last looked at."""
        found = []
        for layout, store in self.stores.items():
            daemon = store.daemon
            if daemon is None or getattr(daemon, "reported", False):
                continue
            if not daemon.alive or SANITIZER_REPORT.search(daemon.output()):
                daemon.reported = True
                found.append(f"store '{layout}' (status {daemon.process.poll()}):\n{daemon.tail()}")
        return found

    def stop(self):
        errors = []
        for store in self.stores.values():
            if store.daemon is None:
                continue
            try:
                if store.daemon.alive:
                    store.daemon.stop()
            except Exception as error:  # every store must be ended, whatever one of them does
                errors.append(str(error))
            finally:
                store.daemon.discard()
        assert not errors, "\n".join(errors)


@pytest.fixture(scope="session")
def pool():
    pool = Pool()
    yield pool
    pool.stop()


@pytest.fixture(autouse=True)
def casualty_watch(request):
    """Fails the test in which a shared daemon died."""
    yield
    if "pool" in request.fixturenames:
        found = request.getfixturevalue("pool").casualties()
        assert not found, "\n".join(found)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    """Puts the end of the daemon's log beside a failure, and into the report what the test has cost (a daemon that goes on counts nowhere)."""
    if call.when == "teardown":
        item.user_properties.append(("processor_seconds", f"{processor_seconds() - item.processor_seconds_before:.2f}"))
    outcome = yield
    report = outcome.get_result()
    store = getattr(item, "funcargs", {}).get("store")
    if report.failed and store is not None and getattr(store, "daemon", None) is not None:
        report.sections.append(("millraced", store.daemon.tail(3000)))


@pytest.fixture(params=["four"])
def store(request, pool):
    """A store on four drives (2+2); tests that are also run on one drive say so with `both_layouts`."""
    return pool.get(request.param)


both_layouts = pytest.mark.parametrize("store", [pytest.param("single", marks=pytest.mark.single), "four"], indirect=True)


@pytest.fixture
def s3(store):
    return store.s3()


@pytest.fixture
def raw(store):
    return store.raw


@pytest.fixture
def bucket(s3):
    """Name of a new, empty bucket."""
    name = f"test-{next(BUCKET_NUMBER)}-{secrets.token_hex(4)}"
    s3.create_bucket(Bucket=name)
    return name


@pytest.fixture
def rng():
    """Random numbers from the session's seed, which pytest's header prints; SEED=N repeats a run."""
    return random.Random(SEED)
