"""The client library's RDMA against the real daemon, over the fake transport: what RDMA carries, what TCP carries instead, and what neither may do."""
import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import threading

import botocore.config
import numpy
import pytest

from tests.conftest import SEED
from tests.support.boto import boto
from tests.support.checksums import checksum
from tests.support.daemon import BUILD, CLI, Daemon, sanitizer_environment
from tests.support.editing_proxy import EditingProxy, header, replaced, without
from tests.support.proxy import Proxy
from tests.support.rdma import DRIVER, rdma_daemon
from tests.support.waits import eventually, metric, run_all

millrace = pytest.importorskip("millrace")

pytestmark = [pytest.mark.daemon, pytest.mark.skipif(not DRIVER.exists(), reason="make fake-rdma builds the transport")]
loads_driver = pytest.mark.only_where(BUILD.name not in ("asan", "tsan"), "a driver that Python can load: a sanitizer's cannot be")
KIB, MIB = 1 << 10, 1 << 20
SIZES = {"none": 0, "one": 1, "small": 10 * KIB, "inline": 128 * KIB, "large": 300 * KIB, "units": 3 * MIB, "big": 17 * MIB + 12345, "huge": 64 * MIB}


def client_of(daemon, **options):
    options = {"transport": "rdma", "region": "us-east-1", "test_rdma_driver": str(DRIVER), "connect_timeout": 30, **options}
    return millrace.Client(options.pop("endpoint", daemon.endpoint), access_key=daemon.access_key, secret_key=daemon.secret_key, **options)


@contextlib.contextmanager
def another(**how):
    """A daemon of the test's own: its fabric is this process's meanwhile."""
    daemon = rdma_daemon(**how)
    with daemon.start():
        before, os.environ["MILLRACE_FAKE_RDMA"] = os.environ["MILLRACE_FAKE_RDMA"], daemon.sockets
        try:
            yield daemon
        finally:
            os.environ["MILLRACE_FAKE_RDMA"] = before
            shutil.rmtree(daemon.sockets)


@contextlib.contextmanager
def beside(daemon):
    """Another one on the same fabric, with the same credentials: to those that read the same objects like another node."""
    other = rdma_daemon(drives=4, ec="2+2", env={"MILLRACE_FAKE_RDMA": daemon.sockets})
    other.access_key, other.secret_key = daemon.access_key, daemon.secret_key
    with other.start(), client_of(other, transport="tcp") as writer:
        writer.create_bucket("samples")
        yield other


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

@loads_driver
@pytest.mark.parametrize("rights", [1, 2, 4])
def test_objects_of_all_sizes(site, rights):
    with client_of(site, rdma_rights=rights) as client:
        for name in site.objects:
            assert got(client, site, name).object_verified == (name != "none" or True)


@loads_driver
def test_ranges(site, client):
    for offset, length in ((0, 1), (MIB - 3, 2 * MIB + 7), (5, 9 * MIB), (17 * MIB, 12345)):
        got(client, site, "big", offset=offset, length=length)
    memory = registered(client, 100000)
    result = client.get_into("samples", "big", memory, suffix=100000)
    assert result.transport == "rdma" and bytes(result.data) == site.objects["big"][-100000:]


@loads_driver
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


@loads_driver
def test_arrays_and_tensors_of_the_pool_are_registered(site):
    data = site.objects["units"]
    with client_of(site, transport="auto") as client, client_of(site, transport="auto") as other:
        array = numpy.frombuffer(client.buffer(len(data)), dtype=numpy.uint8)
        assert client.get_into("samples", "units", array).transport == "rdma" and array.tobytes() == data
        array[:] = 0
        assert client.get_into("samples", "units", array[5:1 << 20], length=(1 << 20) - 5).transport == "rdma"
        assert array[5:1 << 20].tobytes() == data[:(1 << 20) - 5] and not array[:5].any() and not array[1 << 20:].any()
        assert other.get_into("samples", "units", array).transport == "tcp" and array.tobytes() == data  # it is not that one's
        torch = pytest.importorskip("torch")
        tensor = torch.frombuffer(client.buffer(len(data)), dtype=torch.uint8)
        assert client.get_into("samples", "units", tensor).transport == "rdma" and tensor.numpy().tobytes() == data


@loads_driver
def test_many_threads_share_a_session(site, client):
    rng = random.Random(SEED)
    names = [[rng.choice(list(site.objects)) for _ in range(12)] for _ in range(8)]
    run_all([lambda mine=mine: [got(client, site, name) for name in mine] for mine in names])
    assert metric(site, "millrace_rdma_sessions") == 1


@loads_driver
def test_a_batch_of_registered_memory(site, client):
    gets = [millrace.Get("samples", name, length=SIZES.get(name, 10)) for name in ("small", "inline", "units", "absent", "large")]
    results = client.get_batch(gets)
    for get, result in zip(gets, results):
        if get.key == "absent":
            assert isinstance(result.error, millrace.NotFound)
        else:
            assert bytes(result.data) == site.objects[get.key] and result.transport == "rdma"


# ---- what goes ---------------------------------------------------------------------------------------------------------

@loads_driver
def test_uploads(site, client):
    """Whole ones and those in parts, from registered memory and from other."""
    for name, data in site.objects.items():
        memory = client.buffer(len(data))
        memoryview(memory).cast("B")[:] = data
        before = metric(site, "millrace_rdma_read_bytes_total")
        put = client.put("samples", "new/" + name, memory)
        assert put.bytes == len(data) and put.transport == ("rdma" if data else "tcp"), name
        assert metric(site, "millrace_rdma_read_bytes_total") - before == len(data), name
        assert client.get("samples", "new/" + name, transport="tcp") == data
    before = metric(site, "millrace_rdma_read_bytes_total")
    assert client.put("samples", "new/big", site.objects["big"]).bytes == len(site.objects["big"])
    assert metric(site, "millrace_rdma_read_bytes_total") - before == len(site.objects["big"])
    assert client.get("samples", "new/big", transport="tcp") == site.objects["big"]
    with pytest.raises(millrace.PreconditionFailed):
        client.put("samples", "new/big", memory, if_none_match=True)


def cancel_in_mid_transfer(site, endpoint, rights, rounds):
    """Again and again: bytes are right, and none outside the windows is touched."""
    size = 8 * MIB
    whole = numpy.arange(size, dtype=numpy.uint64)
    whole = ((whole * numpy.uint64(2654435761)) >> numpy.uint64(11)).astype(numpy.uint8)
    with client_of(site, transport="tcp") as client:
        client.put("samples", "pattern", whole)
    ended = subprocess.run([str(BUILD / "rdma_stress"), endpoint, site.access_key, site.secret_key, str(DRIVER), "samples", "pattern",
                            str(size), str(rights), str(SEED % 100000), str(rounds)], capture_output=True, text=True, timeout=600,
                           env={**os.environ, **sanitizer_environment()}, check=False)
    print(ended.stdout, ended.stderr)
    assert ended.returncode == 0 and " wrong 0" in ended.stdout
    assert "WARNING: ThreadSanitizer" not in ended.stderr


ROUNDS = 25 if BUILD.name in ("asan", "tsan") else 100


@pytest.mark.parametrize("rights", [1, 2, 4])
def test_threads_that_cancel(site, rights):
    cancel_in_mid_transfer(site, site.endpoint, rights, ROUNDS)


@pytest.mark.parametrize("rights", [1, 2, 4])
def test_threads_that_cancel_at_two_endpoints(site, rights):
    """Two of the same store: each fence is of one session, and the other's transfers are right, too."""
    with Proxy(site.host, site.port, lambda request: None) as other:
        cancel_in_mid_transfer(site, f"{site.endpoint},{other.endpoint}", rights, ROUNDS)
        assert other.requests > ROUNDS // 10


# ---- what AUTO makes of it ---------------------------------------------------------------------------------------------

@loads_driver
def test_auto_takes_rdma_for_large_registered_memory(site):
    with client_of(site, transport="auto") as client:
        got(client, site, "units", "rdma")
        got(client, site, "large", "rdma")
        got(client, site, "small", "tcp")
        memory = bytearray(len(site.objects["big"]))
        assert client.get_into("samples", "big", memory).transport == "tcp" and memory == site.objects["big"]
        got(client, site, "big", "tcp", transport="tcp")
        got(client, site, "small", "rdma", transport="rdma")


@loads_driver
def test_an_endpoint_without_rdma(site):
    with Daemon().start() as daemon:
        with client_of(daemon, transport="auto") as client:
            client.create_bucket("samples")
            client.put("samples", "big", site.objects["big"])
            daemon.objects = site.objects
            got(client, daemon, "big", "tcp")
            with pytest.raises(millrace.MillraceError, match="no RDMA session") as caught:
                client.get("samples", "big", transport="rdma")
            assert caught.value.errno == 95
            got(client, daemon, "big", "tcp")


@loads_driver
def test_a_machine_without_rdma(site):
    with client_of(site, test_rdma_driver=None, transport="auto") as client:
        got(client, site, "big", "tcp")
        with pytest.raises(millrace.MillraceError) as caught:
            client.get("samples", "big", transport="rdma")
        assert caught.value.errno == 95 and ("libibverbs" in str(caught.value) or "RDMA device" in str(caught.value))


# ---- failures --------------------------------------------------------------------------------------------------------

@loads_driver
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


@loads_driver
def test_a_session_that_its_user_ends_is_opened_again_unseen(site, client):
    from tests.support.s3raw import RawClient  # pylint: disable=import-outside-toplevel
    got(client, site, "units")
    # nobody tells the client: the daemon forgets the session when it is started anew
    assert metric(site, "millrace_rdma_sessions") == 1
    user = RawClient(site.host, site.port, site.access_key, site.secret_key)
    assert user.request("GET", "/samples/one").status == 200
    got(client, site, "units")


@loads_driver
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


@loads_driver
@pytest.mark.parametrize("transport", ["auto", "rdma"])
def test_sessions_with_two_endpoints(site, transport):
    """Both have one at the same time; if one dies, the other's goes on, and all is read there; if it comes back, it is used again."""
    with contextlib.ExitStack() as stack:
        one, other = stack.enter_context(beside(site)), stack.enter_context(beside(site))
        for daemon in (one, other):
            with client_of(daemon, transport="tcp") as writer:
                for name in ("units", "big"):
                    writer.put("samples", name, site.objects[name])
        client = stack.enter_context(client_of(one, endpoint=f"{one.endpoint},{other.endpoint}", transport=transport, attempts=20))

        def one_object(name, *carried):
            memory = client.buffer(len(site.objects[name]))
            result = client.get_into("samples", name, memory)
            assert memoryview(memory).cast("B") == site.objects[name] and result.wire_verified and result.transport in carried

        def read():
            run_all([lambda: one_object("units", "rdma"), lambda: one_object("big", "rdma")] * 2)

        def grows(daemon):
            before = metric(daemon, "millrace_rdma_writes_total")

            def more():
                read()
                return metric(daemon, "millrace_rdma_writes_total") > before
            eventually(more)

        for daemon in (one, other):
            grows(daemon)
        assert metric(one, "millrace_rdma_sessions") == metric(other, "millrace_rdma_sessions") == 1
        opened = metric(other, "millrace_rdma_sessions_opened_total")

        one.kill()
        for _ in range(5):
            one_object("big", "rdma", *(["tcp"] if transport == "auto" else []))
        grows(other)
        assert metric(other, "millrace_rdma_sessions") == 1 and metric(other, "millrace_rdma_sessions_opened_total") == opened

        one.format = False
        one.start()
        grows(one)
        assert metric(other, "millrace_rdma_sessions_opened_total") == opened


@loads_driver
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


@loads_driver
def test_temporary_credentials(site):
    """A session opened with a token serves requests and batches until the role is gone, whose next ones are refused."""
    def policy(**more):
        return json.dumps({"Version": "2012-10-17", "Statement": [{"Effect": "Allow", **more}]})

    iam = boto("iam", endpoint_url=site.endpoint, region_name="us-east-1", aws_access_key_id=site.access_key, aws_secret_access_key=site.secret_key,
               config=botocore.config.Config(retries={"total_max_attempts": 6}))
    iam.create_user(UserName="u")
    key = iam.create_access_key(UserName="u")["AccessKey"]
    iam.create_role(RoleName="r", AssumeRolePolicyDocument=policy(Principal={"AWS": "arn:aws:iam::000000000001:user/u"}, Action="sts:AssumeRole"))
    iam.put_role_policy(RoleName="r", PolicyName="p", PolicyDocument=policy(Action="s3:*", Resource="*"))
    sts = boto("sts", endpoint_url=site.endpoint, region_name="us-east-1", aws_access_key_id=key["AccessKeyId"],
               aws_secret_access_key=key["SecretAccessKey"])
    keys = sts.assume_role(RoleArn="arn:aws:iam::000000000001:role/r", RoleSessionName="job")["Credentials"]
    with millrace.Client(site.endpoint, access_key=keys["AccessKeyId"], secret_key=keys["SecretAccessKey"], session_token=keys["SessionToken"],
                         transport="rdma", region="us-east-1", test_rdma_driver=str(DRIVER), connect_timeout=30) as client:
        got(client, site, "units")
        batch = [millrace.Get("samples", name, length=SIZES[name]) for name in ("small", "units")]
        assert [bytes(one.data) for one in client.get_batch(batch)] == [site.objects["small"], site.objects["units"]]
        iam.delete_role_policy(RoleName="r", PolicyName="p")
        with pytest.raises(PermissionError):
            got(client, site, "units")
        assert all(isinstance(one.error, PermissionError) for one in client.get_batch(batch))
        iam.put_role_policy(RoleName="r", PolicyName="p", PolicyDocument=policy(Action="s3:*", Resource="*"))
        got(client, site, "units")
        iam.delete_role_policy(RoleName="r", PolicyName="p")
        iam.delete_role(RoleName="r")
        with pytest.raises(OSError):
            got(client, site, "units")


@loads_driver
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


@loads_driver
def test_sessions_end_with_their_client(site):
    eventually(lambda: metric(site, "millrace_rdma_sessions") == 0)
    with client_of(site) as client:
        got(client, site, "small")
        assert metric(site, "millrace_rdma_sessions") == 1
    eventually(lambda: metric(site, "millrace_rdma_sessions") == 0)


# ---- an endpoint that says wrong things ----------------------------------------------------------------------------------

def by_rdma(lines):
    return header(lines, "x-millrace-transport") == "rdma"


class Edits:
    """Applies an edit to the first so many answers to GETs that RDMA has carried."""

    def __init__(self, edit, times=10 ** 9):
        self.edit = edit
        self.left = times
        self.done = 0
        self.lock = threading.Lock()

    def __call__(self, request, lines, body):
        with self.lock:
            if not (request[0].startswith(b"GET") and by_rdma(lines)) or self.left == 0:
                return lines, body
            self.left -= 1
            self.done += 1
        return self.edit(lines, body)


EDITS = {
    "crc": lambda lines, body: (replaced(lines, "x-millrace-crc32c", "AAAAAA=="), body),
    "no-crc": lambda lines, body: (without(lines, "x-millrace-crc32c"), body),
    "bytes": lambda lines, body: (replaced(lines, "x-millrace-rdma-bytes", "7"), body),
    "more-bytes": lambda lines, body: (replaced(lines, "x-millrace-rdma-bytes", str(1 << 40)), body),
    "no-transport": lambda lines, body: (without(lines, "x-millrace-transport"), body),
    "no-notices": lambda lines, body: (without(lines, "x-millrace-rdma-notices"), body),
    "lost": lambda lines, body: None,
    "unknown-session": lambda lines, body: ([b"HTTP/1.1 403 Forbidden", b"x-millrace-rdma-posted: none", b"Content-Length: 56"],
                                            b"<Error><Code>InvalidAccessKeyId</Code></Error>".ljust(56)),
    "repeated": lambda lines, body: ([b"HTTP/1.1 409 Conflict", b"x-millrace-rdma-posted: none", b"Content-Length: 56"],
                                     b"<Error><Code>RDMARequestRepeated</Code></Error>".ljust(56)),
    "failed": lambda lines, body: ([b"HTTP/1.1 500 Failed", b"Content-Length: 0"], b""),
}


@loads_driver
@pytest.mark.parametrize("name", list(EDITS))
def test_one_wrong_answer_is_made_good(site, name):
    edits = Edits(EDITS[name], 1)
    with EditingProxy(site.host, site.port, after=edits) as proxy, client_of(site, endpoint=proxy.endpoint) as client:
        got(client, site, "units")
        assert edits.done == 1
        got(client, site, "units")


@loads_driver
@pytest.mark.parametrize("name", list(EDITS))
def test_wrong_answers_without_end(site, name):
    """TCP carries the bytes where that is left to the client; else it fails, and says of what."""
    edits = Edits(EDITS[name])
    with EditingProxy(site.host, site.port, after=edits) as proxy:
        with client_of(site, endpoint=proxy.endpoint, transport="auto") as client:
            got(client, site, "units", "tcp")
            assert edits.done > 0
        with client_of(site, endpoint=proxy.endpoint, attempts=2) as client:
            with pytest.raises(millrace.MillraceError):
                client.get("samples", "units")


def error_answer(status, code):
    text = b"<Error><Code>%s</Code></Error>" % code
    return [b"HTTP/1.1 %d Failed" % status, b"x-millrace-rdma-posted: none", b"Content-Length: %d" % len(text)], text


class LostCopy:
    """Closes the connection under the second RDMA request of a kind; what repeats it gets an answer that says that nothing was posted."""

    def __init__(self, method, answer, lose=True):
        self.method = method
        self.answer = answer
        self.lose = lose
        self.numbers = []

    def __call__(self, request):
        if not request[0].startswith(self.method) or not header(request, "x-millrace-rdma-window"):
            return None
        self.numbers.append(header(request, "x-millrace-rdma-request"))
        if len(self.numbers) == 2 and self.lose:
            raise ConnectionError
        return self.answer if len(self.numbers) == 2 + self.lose else None


def sessions_for(site, call):
    before = metric(site, "millrace_rdma_sessions_opened_total")
    call()
    return metric(site, "millrace_rdma_sessions_opened_total") - before


@loads_driver
@pytest.mark.parametrize("lose", [False, True])
def test_an_answer_speaks_of_one_copy(site, lose):
    """curl repeats a GET whose connection has died. The first copy may come yet, so the session ends before the memory is given back (I7)."""
    lost = LostCopy(b"GET", error_answer(404, b"NoSuchKey"), lose)
    with EditingProxy(site.host, site.port, before=lost) as proxy, client_of(site, endpoint=proxy.endpoint) as client:
        got(client, site, "units")

        def refused():
            with pytest.raises(millrace.NotFound):
                client.get_into("samples", "units", registered(client, SIZES["units"]))
            got(client, site, "units")

        assert sessions_for(site, refused) == lose
        assert len(lost.numbers) == 3 + lose and (lost.numbers[1] == lost.numbers[2]) == lose


@loads_driver
def test_a_body_may_answer_one_copy_of_two(site):
    """The other copy may write over it: it is fetched again when nothing can any more."""
    data = site.objects["units"]
    with client_of(site) as client:
        etag = client.head("samples", "units").etag.encode()
    answer = [b"HTTP/1.1 200 OK", b"x-millrace-transport: tcp", b"x-millrace-rdma-declined: off", b'ETag: "%s"' % etag,
              b"x-millrace-crc32c: " + checksum("CRC32C", data).encode(), b"Content-Length: %d" % len(data)], data
    lost = LostCopy(b"GET", answer)
    with EditingProxy(site.host, site.port, before=lost) as proxy, client_of(site, endpoint=proxy.endpoint) as client:
        got(client, site, "units")

        def declined():
            got(client, site, "units", "tcp")
            got(client, site, "units")

        assert sessions_for(site, declined) == 1
        assert len(lost.numbers) == 4 and lost.numbers[1] == lost.numbers[2]


@loads_driver
@pytest.mark.parametrize("lose", [False, True])
def test_an_answer_speaks_of_one_copy_of_an_upload(site, lose):
    lost = LostCopy(b"PUT", error_answer(412, b"PreconditionFailed"), lose)
    with EditingProxy(site.host, site.port, before=lost) as proxy, client_of(site, endpoint=proxy.endpoint) as client:
        memory = registered(client, 300 * KIB)
        client.put("samples", "copied", memory)

        def refused():
            with pytest.raises(millrace.ConnectionFailed if lose else millrace.PreconditionFailed) as caught:
                client.put("samples", "copied", memory)
            assert caught.value.http_status == 412
            client.put("samples", "copied", memory)

        assert sessions_for(site, refused) == lose
        assert len(lost.numbers) == 3 + lose and (lost.numbers[1] == lost.numbers[2]) == lose


@loads_driver
@pytest.mark.parametrize("by", ["rdma", "tcp"])
def test_an_upload_in_doubt(site, by):
    """The first attempt creates the object, its answer is lost, and the next one, by whatever transport, finds what it has made."""
    lost = []

    def before(request):
        return error_answer(501, b"RDMADeclined") if by == "tcp" and lost and header(request, "x-millrace-rdma-window") else None

    def after(request, lines, body):
        if lost or not request[0].startswith(b"PUT") or not header(request, "x-millrace-rdma-window"):
            return lines, body
        lost.append(lines[0])
        return None

    with EditingProxy(site.host, site.port, before=before, after=after) as proxy, client_of(site, endpoint=proxy.endpoint) as client:
        with pytest.raises(millrace.ConnectionFailed) as caught:
            client.put("samples", "doubt/" + by, registered(client, 300 * KIB), if_none_match=True)
        assert caught.value.http_status == 412 and b" 200 " in lost[0]
        with pytest.raises(millrace.PreconditionFailed):
            client.put("samples", "doubt/" + by, registered(client, 300 * KIB), if_none_match=True)


@loads_driver
def test_what_is_declined_comes_in_the_body(site):
    data = site.objects["units"]
    crc = checksum("CRC32C", data).encode()

    def decline(request):
        if not header(request, "x-millrace-rdma-window"):
            return None
        if request[0].startswith(b"PUT"):
            text = b"<Error><Code>RDMADeclined</Code></Error>"
            return [b"HTTP/1.1 501 Declined", b"x-millrace-rdma-posted: none", b"x-millrace-rdma-declined: off",
                    b"Content-Length: %d" % len(text)], text
        return [b"HTTP/1.1 200 OK", b"x-millrace-transport: tcp", b"x-millrace-rdma-declined: off", b'ETag: "e"', b"x-millrace-crc32c: " + crc,
                b"Content-Length: %d" % len(data)], data

    with EditingProxy(site.host, site.port, before=decline) as proxy:
        for transport in ("auto", "rdma"):
            with client_of(site, endpoint=proxy.endpoint, transport=transport) as client:
                before = metric(site, "millrace_rdma_sessions_opened_total")
                got(client, site, "units", "tcp")
                got(client, site, "units", "tcp")
                memory = client.buffer(len(data))
                memoryview(memory).cast("B")[:] = data
                client.put("samples", "declined", memory)
                assert client.get("samples", "declined", transport="tcp") == data
                assert metric(site, "millrace_rdma_sessions_opened_total") - before <= 1


@loads_driver
def test_sessions_are_renewed_unseen(site):
    """They expire after two seconds, as far as the client is told: another one is there before that, and all goes on by RDMA."""
    def short(request, lines, body):
        if request[0].startswith(b"POST") and b"rdma/v1/sessions" in request[0]:
            opened = json.loads(body)
            opened["expires_ms"] = 2000
            body = json.dumps(opened).encode()
            lines = replaced(lines, "content-length", str(len(body)))
        return lines, body

    before = metric(site, "millrace_rdma_sessions_opened_total")
    with EditingProxy(site.host, site.port, after=short) as proxy, client_of(site, endpoint=proxy.endpoint) as client:
        def renewed():
            got(client, site, "units")
            return metric(site, "millrace_rdma_sessions_opened_total") >= before + 3
        eventually(renewed)


ANSWERS = {
    "not-json": lambda opened: b"hello",
    "no-session": lambda opened: {k: v for k, v in opened.items() if k != "session"},
    "version": lambda opened: {**opened, "version": 2},
    "rights": lambda opened: {**opened, "rights": "everything"},
    "no-endpoint": lambda opened: {**opened, "endpoints": []},
    "two-endpoints": lambda opened: {**opened, "endpoints": opened["endpoints"] * 2},
    "address": lambda opened: {**opened, "endpoints": [{**opened["endpoints"][0], "address": "1" * 100}]},
    "limits": lambda opened: {**opened, "limits": {**opened["limits"], "requests": 0}},
    "boot": lambda opened: {**opened, "endpoints": [{**opened["endpoints"][0], "boot_id": "00" * 8}]},  # not the one that is there
    "nonce": lambda opened: {**opened, "server_nonce": "00" * 16},
}


@loads_driver
@pytest.mark.parametrize("name", list(ANSWERS))
def test_sessions_that_cannot_be_opened(site, name):
    asked = []

    def change(request, lines, body):
        if request[0].startswith(b"POST") and b"rdma/v1/sessions" in request[0]:
            asked.append(1)
            body = ANSWERS[name](json.loads(body))
            body = body if isinstance(body, bytes) else json.dumps(body).encode()
            lines = replaced(lines, "content-length", str(len(body)))
        return lines, body

    with EditingProxy(site.host, site.port, after=change) as proxy, client_of(site, endpoint=proxy.endpoint, transport="auto", attempts=2) as client:
        got(client, site, "units", "tcp")
        assert asked
        with pytest.raises(millrace.MillraceError):
            client.get("samples", "units", transport="rdma")


@loads_driver
@pytest.mark.parametrize("status", [200, 400, 403, 404, 405, 412, 500, 501, 503])
def test_endpoints_that_know_no_sessions(site, status):
    """Whatever they answer to the asking, it is not taken for an answer to what was wanted."""
    data, asked = site.objects["units"], []

    def refuse(request):
        if not (request[0].startswith(b"POST") and b"rdma/v1/sessions" in request[0]):
            return None
        asked.append(1)
        text = b"<Error><Code>NoSuchKey</Code></Error>" if status == 404 else b""
        return [b"HTTP/1.1 %d X" % status, b"Content-Length: %d" % len(text), b"Connection: close"], text

    with EditingProxy(site.host, site.port, before=refuse) as proxy, client_of(site, endpoint=proxy.endpoint, transport="auto", attempts=2) as client:
        memory = client.buffer(len(data))
        memoryview(memory).cast("B")[:] = data
        assert client.put("samples", "known", memory).transport == "tcp"
        assert client.get("samples", "known", transport="tcp") == data
        got(client, site, "units", "tcp")
        with pytest.raises(millrace.MillraceError) as caught:
            client.get("samples", "units", transport="rdma")
        assert not isinstance(caught.value, millrace.NotFound) or status == 404
        assert asked


# ---- the program -------------------------------------------------------------------------------------------------------

def millrace_program(daemon, folder, *words):
    config = folder / "config"
    config.write_text(f"endpoint = {daemon.endpoint}\naccess_key = {daemon.access_key}\nsecret_key = {daemon.secret_key}\ntest_rdma_driver = {DRIVER}\n"
                      f"admin = http://{daemon.host}:{daemon.admin_port}\n")
    return subprocess.run([str(CLI), words[0], "--config", str(config), *words[1:]], capture_output=True, text=True, timeout=300, check=False,
                          env={**os.environ, **sanitizer_environment()})


def test_the_program_gets_and_puts(site, tmp_path):
    data = site.objects["big"]
    for transport in ("rdma", "auto", "tcp"):
        before = metric(site, "millrace_rdma_written_bytes_total"), metric(site, "millrace_rdma_read_bytes_total")
        path = tmp_path / transport
        ended = millrace_program(site, tmp_path, "get", "--transport", transport, "s3://samples/big", str(path))
        assert ended.returncode == 0, ended.stderr
        assert path.read_bytes() == data
        ended = millrace_program(site, tmp_path, "put", "--transport", transport, str(path), "s3://samples/again")
        assert ended.returncode == 0, ended.stderr
        with client_of(site, transport="tcp") as client:
            assert client.get("samples", "again") == data
        by_rdma = len(data) if transport == "rdma" else 0
        assert metric(site, "millrace_rdma_written_bytes_total") - before[0] == by_rdma
        assert metric(site, "millrace_rdma_read_bytes_total") - before[1] == by_rdma


def test_the_doctor_tries_it(site, tmp_path):
    ended = millrace_program(site, tmp_path, "doctor")
    assert "from fake0 (fake) to 127.0.0.1:" in ended.stdout and "rights window2" in ended.stdout, ended.stdout
    with Daemon().start() as daemon:
        ended = millrace_program(daemon, tmp_path, "doctor")
        assert "none: the endpoint offers no RDMA session" in ended.stdout and "everything goes over TCP" in ended.stdout, ended.stdout
