"""The client library's RDMA against the real daemon, over the fake transport: what RDMA carries, what TCP carries instead, and what neither may do."""
import contextlib
import os
import random
import shutil
import signal
import threading
import time

import pytest

from tests.conftest import SEED
from tests.support.rdma import DRIVER, rdma_daemon

millrace = pytest.importorskip("millrace")

pytestmark = [pytest.mark.daemon, pytest.mark.skipif(not DRIVER.exists(), reason="make fake-rdma builds the transport")]
KIB, MIB = 1 << 10, 1 << 20
SIZES = {"none": 0, "one": 1, "small": 10 * KIB, "inline": 128 * KIB, "large": 300 * KIB, "units": 3 * MIB, "big": 17 * MIB + 12345, "huge": 64 * MIB}


def client_of(daemon, **options):
    options = {"transport": "rdma", "region": "us-east-1", "test_rdma_driver": str(DRIVER), "connect_timeout": 30, **options}
    return millrace.Client(daemon.endpoint, access_key=daemon.access_key, secret_key=daemon.secret_key, **options)


@contextlib.contextmanager
def another(**how):
    """A daemon of the test's own: its fabric is this process's meanwhile."""
    with rdma_daemon(**how).start() as daemon:
        before, os.environ["MILLRACE_FAKE_RDMA"] = os.environ["MILLRACE_FAKE_RDMA"], daemon.sockets
        try:
            yield daemon
        finally:
            os.environ["MILLRACE_FAKE_RDMA"] = before
            shutil.rmtree(daemon.sockets)


def metric(site, name):
    for line in site.admin_get("/metrics")[1].decode().splitlines():
        if line.startswith(name + " "):
            return float(line.split()[-1])
    raise AssertionError(name)


def eventually(condition, seconds=120):
    """Something else has to happen first, and it does not say when."""
    until = time.monotonic() + seconds
    while not condition() and time.monotonic() < until:
        time.sleep(0.02)
    assert condition()


@pytest.fixture(scope="module")
def site():
    daemon = rdma_daemon(drives=4, ec="2+2").start()
    os.environ["MILLRACE_FAKE_RDMA"] = daemon.sockets
    rng = random.Random(SEED)
    daemon.objects = {name: rng.randbytes(size) for name, size in SIZES.items()}
    with client_of(daemon, transport="tcp") as client:
        client.create_bucket("samples")
        for name, data in daemon.objects.items():
            client.put("samples", name, data)
    yield daemon
    daemon.stop()
    daemon.discard()
    shutil.rmtree(daemon.sockets)


@pytest.fixture
def client(site):
    with client_of(site) as one:
        yield one


def registered(client, size):
    """Memory of the pool, each byte of it 0xee, with 64 more behind."""
    memory = client.buffer(size + 64)
    memoryview(memory).cast("B")[:] = b"\xee" * (size + 64)
    return memory


def got(client, site, name, expected="rdma", **rest):
    """The object, or a range of it, into registered memory; nothing else of that is touched."""
    data = site.objects[name]
    if "offset" in rest or "length" in rest:
        data = data[rest.get("offset", 0):][:rest.get("length")]
    memory = registered(client, len(data))
    result = client.get_into("samples", name, memory, **rest)
    view = memoryview(memory).cast("B")
    assert result.bytes == len(data) and result.size == len(site.objects[name])
    assert view[:len(data)] == data, name
    assert view[len(data):] == b"\xee" * 64, name
    assert result.transport == expected and result.wire_verified, name
    return result


# ---- what comes ------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("rights", [1, 2, 4])
def test_objects_of_all_sizes(site, rights):
    with client_of(site, rdma_rights=rights) as client:
        for name in site.objects:
            assert got(client, site, name).object_verified == (name != "none" or True)


def test_ranges(site, client):
    for offset, length in ((0, 1), (MIB - 3, 2 * MIB + 7), (5, 9 * MIB), (17 * MIB, 12345)):
        got(client, site, "big", offset=offset, length=length)
    memory = registered(client, 100000)
    result = client.get_into("samples", "big", memory, suffix=100000)
    assert result.transport == "rdma" and bytes(result.data) == site.objects["big"][-100000:]


def test_memory_that_is_not_registered_is_bounced(site, client):
    """By a bounded pool: more pieces than that has slots, from several threads."""
    def one(name):
        memory = bytearray(len(site.objects[name]))
        result = client.get_into("samples", name, memory)
        assert result.transport == "rdma" and memory == site.objects[name]
        assert client.get("samples", name) == site.objects[name]

    for name in ("huge", "big", "one"):
        one(name)
    run_all([lambda: one("big")] * 6)


def run_all(jobs):
    failed = []

    def run(job):
        try:
            job()
        except BaseException as error:  # pylint: disable=broad-except
            failed.append(error)

    threads = [threading.Thread(target=run, args=(job,)) for job in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed:
        raise failed[0]


def test_many_threads_share_a_session(site, client):
    rng = random.Random(SEED)
    names = [[rng.choice(list(site.objects)) for _ in range(12)] for _ in range(8)]
    run_all([lambda mine=mine: [got(client, site, name) for name in mine] for mine in names])
    assert metric(site, "millrace_rdma_sessions") == 1


def test_a_batch_of_registered_memory(site, client):
    gets = [millrace.Get("samples", name) for name in ("small", "inline", "units", "absent", "large")]
    results = client.get_batch(gets)
    for get, result in zip(gets, results):
        if get.key == "absent":
            assert isinstance(result.error, millrace.NotFound)
        else:
            assert bytes(result.data) == site.objects[get.key] and result.transport == "rdma"


# ---- what AUTO makes of it ---------------------------------------------------------------------------------------------

def test_auto_takes_rdma_for_large_registered_memory(site):
    with client_of(site, transport="auto") as client:
        got(client, site, "big", "rdma")
        got(client, site, "large", "rdma")
        got(client, site, "small", "tcp")
        memory = bytearray(len(site.objects["big"]))
        assert client.get_into("samples", "big", memory).transport == "tcp" and memory == site.objects["big"]
        got(client, site, "big", "tcp", transport="tcp")
        got(client, site, "small", "rdma", transport="rdma")


def test_an_endpoint_without_rdma(site):
    with another(settings={"rdma_listen": ""}) as daemon:
        with client_of(daemon, transport="auto") as client:
            client.create_bucket("samples")
            client.put("samples", "big", site.objects["big"])
            daemon.objects = site.objects
            got(client, daemon, "big", "tcp")
            with pytest.raises(millrace.MillraceError, match="no RDMA session") as caught:
                client.get("samples", "big", transport="rdma")
            assert caught.value.errno == 95
            got(client, daemon, "big", "tcp")


def test_a_machine_without_rdma(site):
    with client_of(site, test_rdma_driver=None, transport="auto") as client:
        got(client, site, "big", "tcp")
        with pytest.raises(millrace.MillraceError) as caught:
            client.get("samples", "big", transport="rdma")
        assert caught.value.errno == 95 and ("libibverbs" in str(caught.value) or "RDMA device" in str(caught.value))


# ---- failures --------------------------------------------------------------------------------------------------------

def test_errors_are_those_of_tcp(site, client):
    with pytest.raises(millrace.NotFound):
        client.get("samples", "absent")
    with pytest.raises(millrace.TooLarge) as caught:
        client.get_into("samples", "large", registered(client, 1000))
    assert caught.value.size == 300 * KIB
    with pytest.raises(millrace.MillraceError) as caught:
        client.get("samples", "small", offset=MIB)
    assert caught.value.errno == 34
    with pytest.raises(millrace.MillraceError) as caught:
        client.get("samples", "small", if_match="0")
    assert caught.value.errno == 116


def test_a_session_that_its_user_ends_is_opened_again_unseen(site, client):
    from tests.support.s3raw import RawClient  # pylint: disable=import-outside-toplevel
    got(client, site, "units")
    # nobody tells the client: the daemon forgets the session when it is started anew
    assert metric(site, "millrace_rdma_sessions") == 1
    user = RawClient(site.host, site.port, site.access_key, site.secret_key)
    assert user.request("GET", "/samples/one").status == 200
    got(client, site, "units")


@pytest.mark.parametrize("transport", ["auto", "rdma"])
def test_the_daemon_is_killed_in_mid_transfer(site, transport):
    """Bytes are right or there are none; a daemon that is back is used again, sessions and all."""
    with another(drives=4, ec="2+2") as daemon:
        daemon.objects = {"huge": site.objects["huge"]}
        with client_of(daemon, transport="tcp") as writer:
            writer.create_bucket("samples")
            writer.put("samples", "huge", daemon.objects["huge"])
        with client_of(daemon, transport=transport, attempts=20) as client:
            stop, outcomes = threading.Event(), []

            def read():
                while not stop.is_set():
                    memory = client.buffer(16 * MIB)
                    try:
                        result = client.get_into("samples", "huge", memory, offset=MIB, length=16 * MIB)
                        assert memoryview(memory).cast("B") == daemon.objects["huge"][MIB:17 * MIB] and result.wire_verified
                        outcomes.append(result.transport)
                    except millrace.MillraceError as error:
                        outcomes.append(error)

            threads = [threading.Thread(target=read) for _ in range(2)]
            for thread in threads:
                thread.start()
            eventually(lambda: "rdma" in outcomes)
            for _ in range(2):
                daemon.kill()
                daemon.format = False
                daemon.start()
            stop.set()
            for thread in threads:
                thread.join()
            assert all(outcome in ("rdma", "tcp") or isinstance(outcome, millrace.MillraceError) for outcome in outcomes)
            assert client.get("samples", "huge", transport="tcp") == daemon.objects["huge"]


def test_credentials_that_are_revoked(site, tmp_path):
    credentials = tmp_path / "credentials"

    def write(secret):
        credentials.write_text(f"access_key = AKCLIENT\nsecret_key = {secret}\n")
        os.chmod(credentials, 0o600)

    write("first-secret-of-some-length")
    with another(credentials=False, settings={"root_credentials": credentials}) as daemon:
        daemon.access_key, daemon.secret_key = "AKCLIENT", "first-secret-of-some-length"
        with client_of(daemon) as client:
            client.create_bucket("samples")
            client.put("samples", "units", site.objects["units"], transport="tcp")
            assert client.get("samples", "units") == site.objects["units"]
            write("second-secret-of-some-length")
            daemon.signal(signal.SIGHUP)

            def refused():
                try:
                    client.get("samples", "units")
                    return False
                except PermissionError:
                    return True
            eventually(refused)


def test_a_fork_leaves_the_session_to_the_parent(site, client):
    got(client, site, "units")
    child = os.fork()
    if child == 0:
        status = 1
        try:
            # the fake is not made for forks
            status = 0 if client.get("samples", "units", transport="tcp") == site.objects["units"] else 2
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
    got(client, site, "units")


def test_sessions_end_with_their_client(site):
    eventually(lambda: metric(site, "millrace_rdma_sessions") == 0)
    with client_of(site) as client:
        got(client, site, "small")
        assert metric(site, "millrace_rdma_sessions") == 1
    eventually(lambda: metric(site, "millrace_rdma_sessions") == 0)
