"""mr_get_batch() over RDMA against the real daemon, over the fake transport: every entry has its bytes or its error, whatever carries it."""
import contextlib
import os
import random
import shutil
import threading

import pytest

from tests.conftest import SEED
from tests.support.daemon import BUILD, Daemon
from tests.support.rdma import DRIVER, rdma_daemon
from tests.support.waits import eventually, metric, run_all

millrace = pytest.importorskip("millrace")

pytestmark = [pytest.mark.daemon, pytest.mark.skipif(not DRIVER.exists(), reason="make fake-rdma builds the transport"),
              pytest.mark.only_where(BUILD.name not in ("asan", "tsan"), "a driver that Python can load")]
KIB, MIB = 1 << 10, 1 << 20
SAMPLES = 1024
SIZES = {"none": 0, "one": 1, "inline": 128 * KIB, "large": 300 * KIB, "units": 3 * MIB, "huge": 20 * MIB}
UNTOUCHED = 0xee


def client_of(daemon, **options):
    options = {"transport": "rdma", "region": "us-east-1", "test_rdma_driver": str(DRIVER), "connect_timeout": 30, **options}
    return millrace.Client(daemon.endpoint, access_key=daemon.access_key, secret_key=daemon.secret_key, **options)


@contextlib.contextmanager
def another(**how):
    """A daemon of the test's own: its fabric is this process's meanwhile."""
    with rdma_daemon(**how).start() as daemon:
        before, os.environ["MILLRACE_FAKE_RDMA"] = os.environ.get("MILLRACE_FAKE_RDMA", ""), daemon.sockets
        try:
            yield daemon
        finally:
            os.environ["MILLRACE_FAKE_RDMA"] = before
            shutil.rmtree(daemon.sockets)


def fill(daemon, count=SAMPLES, sizes=SIZES):
    rng = random.Random(SEED)
    daemon.objects = {name: rng.randbytes(size) for name, size in sizes.items()}
    daemon.objects.update({f"s{i:05}": rng.randbytes(rng.randrange(1, 12 * KIB)) for i in range(count)})
    with client_of(daemon, transport="tcp") as client:
        client.create_bucket("samples")
        for name, data in daemon.objects.items():
            client.put("samples", name, data)
    return daemon


@pytest.fixture(scope="module")
def site():
    daemon = rdma_daemon(drives=4, ec="2+2").start()
    os.environ["MILLRACE_FAKE_RDMA"] = daemon.sockets
    yield fill(daemon)
    daemon.stop()
    daemon.discard()
    shutil.rmtree(daemon.sockets)


@pytest.fixture
def client(site):
    with client_of(site) as one:
        yield one


def spaces(client, names, objects, registered=lambda i: True):
    """Memory for each, with 64 bytes behind that nobody may touch, and the reads."""
    memories, gets = [], []
    for i, name in enumerate(names):
        size = len(objects[name])
        memory = client.buffer(size + 64) if registered(i) else bytearray(size + 64)
        memoryview(memory).cast("B")[:] = bytes([UNTOUCHED]) * (size + 64)
        memories.append(memory)
        gets.append(millrace.Get("samples", name, length=size or None, into=memory))
    return memories, gets


def check(result, memory, data, transport=None):
    assert result.error is None, result.error
    view = memoryview(memory).cast("B")
    assert result.bytes == len(data) and view[:len(data)] == data
    assert view[len(data):] == bytes([UNTOUCHED]) * (len(view) - len(data))
    assert result.wire_verified
    assert transport is None or result.transport == transport


def read(client, names, objects, expected=None, registered=lambda i: True, **rest):
    memories, gets = spaces(client, names, objects, registered)
    results = client.get_batch(gets, **rest)
    for name, memory, result in zip(names, memories, results):
        check(result, memory, objects[name], expected)
    return results


def sample(i):
    return f"s{i:05}"


# ---- what comes ------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("rights", [1, 2, 4])
@pytest.mark.parametrize("transport", ["rdma", "auto"])
def test_batches_of_all_lengths(site, rights, transport):
    rng = random.Random(SEED)
    with client_of(site, rdma_rights=rights, transport=transport) as client:
        for count in (1, 2, 64, 65, 255, 256, 257, 1024):
            before = metric(site, "millrace_rdma_sessions")
            names = [sample(rng.randrange(SAMPLES)) for _ in range(count)]
            results = read(client, names, site.objects, "rdma" if transport == "rdma" or count > 1 else "tcp")
            assert all(result.size == len(site.objects[name]) and result.etag for name, result in zip(names, results))
            assert before <= 1 and metric(site, "millrace_rdma_sessions") <= 1


def test_sizes_from_nothing_to_20_mib(site, client):
    names = [*SIZES, *(sample(i) for i in range(100)), *SIZES]
    read(client, names, site.objects, "rdma")
    with client_of(site, transport="auto") as auto:
        read(auto, names, site.objects, "rdma")


def test_places_in_no_order_and_several_buffers(site, client):
    rng = random.Random(SEED)
    names = [sample(rng.randrange(SAMPLES)) for _ in range(900)]
    memories, gets = spaces(client, names, site.objects)
    order = list(range(len(names)))
    rng.shuffle(order)
    results = client.get_batch([gets[i] for i in order])
    for i, result in zip(order, results):
        check(result, memories[i], site.objects[names[i]], "rdma")


@pytest.mark.parametrize("transport", ["rdma", "auto"])
def test_memory_that_is_not_registered_among_memory_that_is(site, transport):
    names = [sample(i) for i in range(300)]
    with client_of(site, transport=transport) as client:
        results = read(client, names, site.objects, registered=lambda i: i % 3 != 0)
        for i, result in enumerate(results):
            assert result.transport == ("rdma" if transport == "rdma" or i % 3 != 0 else "tcp")


def test_transports_of_single_calls(site):
    names = [sample(i) for i in range(70)]
    with client_of(site, transport="auto") as client:
        read(client, names, site.objects, "tcp", transport="tcp")
        read(client, names, site.objects, "rdma", transport="rdma")
        read(client, names, site.objects, "rdma")
    with client_of(site, transport="tcp") as client:
        read(client, names, site.objects, "tcp")
        read(client, names, site.objects, "rdma", transport="rdma")


def test_ranges_and_names_of_all_kinds(site, client):
    data = site.objects["units"]
    client.put("samples", "k" * 1000, data[:5000], transport="tcp")
    client.put("samples", "dir/ä €+%2F", data[:77], transport="tcp")
    gets = [millrace.Get("samples", "units", offset=at, length=700) for at in range(0, 3 * MIB, 100 * KIB)]
    gets += [millrace.Get("samples", "units", suffix=999), millrace.Get("samples", "units", offset=3 * MIB - 10, length=500),
             *[millrace.Get("samples", "k" * 1000, length=5000) for _ in range(40)], millrace.Get("samples", "dir/ä €+%2F", length=77)]
    results = client.get_batch(gets)
    for get, result in zip(gets, results):
        assert result.error is None and result.transport == "rdma", result.error
        if get.suffix:
            assert bytes(result.data) == data[-999:]
        else:
            assert bytes(result.data) == data[:5000 if get.key[0] == "k" else 77 if get.key[0] == "d" else None][get.offset:get.offset + get.length]


@pytest.mark.parametrize("transport", ["rdma", "auto", "tcp"])
def test_each_entry_has_its_own_error_whatever_carries_it(site, transport):
    etag = client_etag(site, "large")
    with client_of(site, transport=transport) as client:
        gets = [millrace.Get("samples", "absent", length=10), millrace.Get("nothing-here", "x", length=10),
                millrace.Get("samples", "large", length=10, if_match="0" * 32), millrace.Get("samples", "large", length=10, if_match=etag),
                millrace.Get("samples", "one", offset=5, length=3), millrace.Get("samples", "large", into=client.buffer(1000)),
                millrace.Get("samples", "units", into=client.buffer(1 * MIB)), millrace.Get("samples", "one", length=1, version_id="null")]
        results = client.get_batch(gets)
        errnos = [result.error.errno if result.error is not None else 0 for result in results]
        assert errnos == [2, 2, 116, 0, 34, 90, 90, 0]
        assert [result.size for result in results[5:7]] == [300 * KIB, 3 * MIB]
        assert isinstance(results[0].error, millrace.NotFound) and isinstance(results[5].error, millrace.TooLarge)
        assert results[0].error.s3_code == "NoSuchKey" and results[1].error.s3_code == "NoSuchBucket"
        assert bytes(results[3].data) == site.objects["large"][:10]
        read(client, [sample(i) for i in range(10)], site.objects, "tcp" if transport == "tcp" else "rdma")


def client_etag(site, name):
    with client_of(site, transport="tcp") as client:
        return client.head("samples", name).etag


def test_many_threads_share_a_session(site, client):
    rng = random.Random(SEED)
    lists = [[[rng.choice([sample(rng.randrange(SAMPLES)), "inline", "large"]) for _ in range(rng.randrange(1, 400))]
              for _ in range(5)] for _ in range(6)]
    run_all([lambda mine=mine: [read(client, names, site.objects, "rdma") for names in mine] for mine in lists])
    assert metric(site, "millrace_rdma_sessions") == 1


def test_a_dataset_reads_its_batches_over_rdma(site):
    """The pool's memory is registered: nothing has to be said, or transport says it."""
    torch = pytest.importorskip("torch")
    from millrace.torch import MapDataset  # pylint: disable=import-outside-toplevel
    names = [sample(i) for i in range(200)]
    for transport, carried in (("auto", True), ("rdma", True), ("tcp", False)):
        with client_of(site, transport="auto") as client:
            before = metric(site, "millrace_rdma_batches_total")
            dataset = MapDataset([f"millrace://samples/{name}" for name in names], client=client, transport=transport,
                                 transform=lambda made: made.tensor(torch.uint8).numpy().tobytes())
            assert dataset.__getitems__(list(range(200))) == [site.objects[name] for name in names]
            assert (metric(site, "millrace_rdma_batches_total") > before) == carried


# ---- what does not -----------------------------------------------------------------------------------------------------

def test_an_endpoint_without_rdma(site):
    with Daemon().start() as daemon:
        fill(daemon, 300, {})
        names = [sample(i) for i in range(300)]
        with client_of(daemon, transport="auto") as client:
            read(client, names, daemon.objects, "tcp")
            for result in client.get_batch(spaces(client, names, daemon.objects)[1], transport="rdma"):
                assert result.error.errno == 95, result
            read(client, names, daemon.objects, "tcp")


def test_a_machine_without_rdma(site):
    names = [sample(i) for i in range(300)]
    with client_of(site, test_rdma_driver=None, transport="auto") as client:
        read(client, names, site.objects, "tcp")
        for result in client.get_batch(spaces(client, names, site.objects)[1], transport="rdma"):
            assert result.error.errno == 95, result


@pytest.mark.parametrize("transport", ["auto", "rdma"])
def test_the_daemon_is_killed_in_mid_batch(site, transport):
    """Bytes are right or there is an error; a daemon that is back is used again, sessions and all."""
    with another(drives=4, ec="2+2") as daemon:
        fill(daemon, 600, {})
        names = [sample(i) for i in range(600)]
        with client_of(daemon, transport=transport, attempts=20) as client:
            stop, outcomes = threading.Event(), []

            def load():
                while not stop.is_set():
                    memories, gets = spaces(client, names, daemon.objects)
                    for name, memory, result in zip(names, memories, client.get_batch(gets)):
                        if result.error is None:
                            check(result, memory, daemon.objects[name])
                    outcomes.append({result.transport for result in client.get_batch(gets) if result.error is None})

            threads = [threading.Thread(target=load) for _ in range(2)]
            for thread in threads:
                thread.start()
            eventually(lambda: any("rdma" in outcome for outcome in outcomes))
            for _ in range(2):
                daemon.kill()
                daemon.format = False
                daemon.start()
            stop.set()
            for thread in threads:
                thread.join()
            read(client, names, daemon.objects, "tcp", transport="tcp")


def test_a_session_that_is_over_is_opened_again_unseen(site):
    """The daemon is another one, at the same address: it does not know the session."""
    with another() as daemon:
        fill(daemon, 100, {})
        names = [sample(i) for i in range(100)]
        with client_of(daemon, attempts=20) as client:
            read(client, names, daemon.objects, "rdma")
            daemon.stop()
            daemon.format = False
            daemon.start()
            read(client, names, daemon.objects, "rdma")


def test_pieces_of_a_client_that_is_closed_are_ordinary_memory(site):
    """Also where a later client lies at the same address."""
    names = [sample(i) for i in range(20)]
    for _ in range(20):
        with client_of(site, transport="auto") as gone:
            memories, gets = spaces(gone, names, site.objects)
            for memory, name, result in zip(memories, names, gone.get_batch(gets)):
                check(result, memory, site.objects[name], "rdma")
        with client_of(site, transport="auto") as client:
            for memory, name, result in zip(memories, names, client.get_batch(gets)):
                check(result, memory, site.objects[name], "tcp")
            read(client, names, site.objects, "rdma")


def test_batches_that_are_canceled(site):
    """close() cancels what is under way; nothing is written to afterwards, and the session's end is no fault: another client goes on."""
    rng = random.Random(SEED)
    names = [rng.choice(["large", "units", "inline"]) for _ in range(200)]
    for _ in range(5):
        client = client_of(site)
        read(client, [sample(0)], site.objects, "rdma")
        memories, gets = spaces(client, names, site.objects)
        operation = millrace._ops.get_batch(client._handle().client, gets, "auto")  # pylint: disable=protected-access
        queue, op = client._handle().take_queue(), millrace._ops.ffi.new("uint64_t *")  # pylint: disable=protected-access
        result = millrace._ops.ffi.new("struct mr_result *")
        assert operation.start(queue, millrace._ops.ffi.NULL, op) == 0
        millrace._ops.lib.mr_cancel(client._handle().client, op[0])  # pylint: disable=protected-access
        assert millrace._ops.lib.mr_queue_take(queue, result, 1, -1) == 1
        copies = [bytes(memoryview(memory).cast("B")) for memory in memories]
        for name, copy, got in zip(names, copies, operation.result(result)):
            assert got.error is None and copy[:-64] == site.objects[name] or got.error.errno == 125
        read(client, names[:20], site.objects, "rdma")
        assert [bytes(memoryview(memory).cast("B")) for memory in memories] == copies
        client.close()
