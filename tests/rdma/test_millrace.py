"""The project's own client on real verbs: the Python package, and the program `millrace`."""
import json
import os
import subprocess
import sys
import threading

import pytest

from tests.support.daemon import CLI, sanitizer_environment

from .conftest import LONG, MIB, SIZES, Site, content
from .package import unpack


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    """The package as `make wheel` made it, for as long as these tests run."""
    folder = tmp_path_factory.mktemp("package")
    yield unpack(folder)
    sys.path.remove(str(folder))


@pytest.fixture
def open_client(site, package):
    """Opens clients, of the shared daemon unless another is named; their sessions have ended when the test has."""
    opened = []

    def make(of=site, **options):
        client = package.Client(of.daemon.endpoint, access_key=of.daemon.access_key, secret_key=of.daemon.secret_key, region="us-east-1",
                                **{"transport": "rdma", "connect_timeout": 30, **options})
        opened.append(client)
        return client
    yield make
    for client in opened:
        client.close()


def got(client, site, name, transport="rdma", **rest):
    """The object, or a range, into registered memory: these bytes and no others are there."""
    data = site.objects[f"/samples/{name}"]
    if rest:
        data = data[rest["offset"]:rest["offset"] + rest["length"]]
    memory = client.buffer(len(data) + 64)
    view = memoryview(memory).cast("B")
    view[:] = b"\xee" * len(view)
    result = client.get_into("samples", name, memory, **rest)
    assert result.bytes == len(data) and view[:len(data)] == data and view[len(data):] == b"\xee" * 64
    assert result.wire_verified and (result.transport == transport or not data)


@pytest.mark.parametrize("rights", [1, 2, 4], ids=["window2", "window1", "region"])
def test_objects_of_all_sizes(site, open_client, rights):
    client = open_client(rdma_rights=rights)
    for name in SIZES:
        got(client, site, name)
    got(client, site, "big", offset=3 * MIB - 1, length=5 * MIB)
    assert client.get("samples", "units") == site.objects["/samples/units"]
    assert site.sessions() == 1


def test_a_batch(site, open_client, package):
    client = open_client()
    gets = [package.Get("samples", name, into=client.buffer(max(size, 1))) for name, size in SIZES.items()]
    for result, name in zip(client.get_batch(gets), SIZES):
        assert bytes(result.data) == site.objects[f"/samples/{name}"] and result.transport in ("rdma", "auto"), name
    absent, = client.get_batch([package.Get("samples", "absent", into=client.buffer(100))])
    assert isinstance(absent.error, package.NotFound)


def test_threads(site, open_client):
    client, problems = open_client(), []

    def work(number):
        try:
            for name in ("units", "odd", "block", "big" if number == 0 else "one"):
                got(client, site, name)
        except BaseException as error:  # to the test's thread
            problems.append(error)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not problems, problems


def test_a_daemon_without_a_device(site, open_client, package):
    """AUTO takes TCP, RDMA says why not; where the device is there AUTO takes it."""
    got(open_client(transport="auto"), site, "big")
    other = Site(listen=("127.0.0.1",)).start()
    try:
        other.store("samples", {"big": site.objects["/samples/big"]})
        got(open_client(other, transport="auto"), other, "big", "tcp")
        with pytest.raises(package.MillraceError) as caught:
            open_client(other).get("samples", "big")
        assert caught.value.errno == 95
    finally:
        other.end()


def test_a_killed_daemon(open_client, package):
    """Bytes are right or there are none; a daemon that is back is used again, by new sessions."""
    own = Site(drives=4, ec="2+2").start()
    try:
        own.store("samples", {"big": content("killed", LONG)})
        client = open_client(own, attempts=20)
        got(client, own, "big")
        outcomes, begun = [], threading.Event()

        def read():
            for _ in range(3):
                begun.set()
                try:
                    got(client, own, "big")
                    outcomes.append("rdma")
                except package.MillraceError as error:
                    outcomes.append(error)

        thread = threading.Thread(target=read)
        thread.start()
        begun.wait()
        own.daemon.wait_until(lambda: own.metric("millrace_rdma_written_bytes_total") > LONG + 8 * MIB, 60, "to be in the middle")
        own.daemon.kill()
        own.daemon.format = False
        own.daemon.restart()
        thread.join()
        assert len(outcomes) == 3
        got(client, own, "big")
    finally:
        own.end()


# ---- the program ------------------------------------------------------------------------------------------------


@pytest.fixture
def run(site, tmp_path):
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "MILLRACE_ENDPOINT": site.daemon.endpoint,
           "MILLRACE_ROOT_ACCESS_KEY": site.daemon.access_key, "MILLRACE_ROOT_SECRET_KEY": site.daemon.secret_key, **sanitizer_environment()}

    def one(*arguments, status=0):
        done = subprocess.run([str(CLI), *map(str, arguments)], env=env, capture_output=True, timeout=100, check=False)
        assert done.returncode == status, (arguments, done.returncode, done.stdout[-2000:], done.stderr[-2000:])
        return done.stdout
    return one


@pytest.mark.parametrize("rights", [1, 2, 4], ids=["window2", "window1", "region"])
def test_uploads(site, open_client, rights):
    """From registered memory, and from any: the daemon reads what it stores."""
    client, before = open_client(rdma_rights=rights), site.metric("millrace_rdma_read_bytes_total")
    for name in SIZES:
        data = content(f"up-{rights}-{name}", SIZES[name])
        memory = client.buffer(max(len(data), 1))
        memoryview(memory).cast("B")[:len(data)] = data
        client.put("samples", f"up/{name}", memoryview(memory).cast("B")[:len(data)])
        assert site.user.request("GET", f"/samples/up/{name}").body == data
        client.put("samples", f"up/{name}", data[::-1])
        assert site.user.request("GET", f"/samples/up/{name}").body == data[::-1]
    assert site.metric("millrace_rdma_read_bytes_total") - before >= sum(SIZES.values())


@pytest.mark.parametrize("transport", ["rdma", "auto", "tcp"])
def test_get_and_put(site, run, tmp_path, transport):
    before = site.metric("millrace_rdma_sessions_opened_total")
    for name in ("one", "units", "big"):
        run("get", "--transport", transport, f"s3://samples/{name}", tmp_path / name)
        assert (tmp_path / name).read_bytes() == site.objects[f"/samples/{name}"]
        run("put", "--transport", transport, tmp_path / name, f"s3://samples/{transport}-{name}")
        assert site.user.request("GET", f"/samples/{transport}-{name}").body == site.objects[f"/samples/{name}"]
    opened = site.metric("millrace_rdma_sessions_opened_total") - before
    assert opened > 0 if transport == "rdma" else opened == 0 if transport == "tcp" else True


@pytest.mark.parametrize("transport", ["rdma", "tcp"])
def test_bench(site, run, transport):
    """Each byte is compared, and all of them went by this transport, as the daemon counts it, too."""
    before = site.metric("millrace_rdma_written_bytes_total"), site.metric("millrace_rdma_read_bytes_total")
    report = json.loads(run("bench", "--transport", transport, "--json", "--verify", "--seconds", "0.5", "--objects", "3", "--connections", "2", "--range-of", "1M", "put-64k", "put-5m",
                            "get-4k", "get-9m", "range-64k", "batch-16-10k", "mixed-4k"))
    assert report["errors"] == 0 and len(report["phases"]) == 7
    for phase in report["phases"]:
        objects = phase["ops"] * phase.get("batch", 1)
        assert phase["ops"] > 0 and phase["fallbacks"] == 0, phase
        assert (phase["by_rdma"], phase["by_tcp"]) == ((objects, 0) if transport == "rdma" else (0, objects)), phase
    moved = site.metric("millrace_rdma_written_bytes_total") - before[0], site.metric("millrace_rdma_read_bytes_total") - before[1]
    for kind, bytes_moved in zip(("get", "put"), moved):
        measured = sum(phase["bytes"] for phase in report["phases"] if phase["phase"] == kind)
        assert bytes_moved >= measured if transport == "rdma" else bytes_moved == 0
