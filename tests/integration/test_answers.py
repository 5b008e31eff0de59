"""Answers that clients do not read: their memory has a bound, others are told to come again, and who reads nothing is cut."""
import contextlib
import re
import socket
from pathlib import Path

import pytest

from tests.support.daemon import BUILD, Daemon
from tests.support.s3raw import RawClient
from tests.support.waits import eventually, metric, run_all

MIB = 1 << 20
SETTINGS = {"memory": "64MiB", "answer_memory": "16MiB", "cache": "1MiB", "memtable_size": "4MiB"}
READERS = 60


def resident(daemon):
    return int(re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{daemon.process.pid}/status").read_text()).group(1)) * 1024


def slow_reader(raw, stack, path, query=(), times=1):
    """Has asked, so many times at once, and reads nothing."""
    sock = stack.enter_context(contextlib.closing(socket.socket()))
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    sock.connect((raw.host, raw.port))
    head, body = raw.build("GET", path, query=query)
    sock.sendall((head + body) * times)
    return sock


def kernel_holds():
    """Bytes at most that a connection of the daemon's has sent and nobody has read: only what comes after them waits in the daemon."""
    return int(Path("/proc/sys/net/ipv4/tcp_wmem").read_text().split()[2])


@pytest.fixture(scope="module")
def site():
    with Daemon(drives=1, settings=SETTINGS).start() as daemon:
        raw = RawClient(daemon.host, daemon.port, daemon.access_key, daemon.secret_key)
        assert raw.request("PUT", "/bucket").status == 200

        def put(first):
            with raw.connect() as connection:
                for i in range(first, 1000, 4):
                    assert raw.request("PUT", "/bucket/" + f"{i:04}" + "&" * 1000, connection).status == 200

        run_all([lambda first=first: put(first) for first in range(4)])
        assert raw.request("PUT", "/small").status == 200
        assert raw.request("PUT", "/small/gathered", body=bytes(900_000)).status == 200
        yield daemon, raw


def test_slow_readers_of_listings(site):
    daemon, raw = site
    page = raw.request("GET", "/bucket")
    assert page.status == 200 and len(page.body) > 5 * MIB
    before = resident(daemon)
    with contextlib.ExitStack() as stack:
        for _ in range(READERS):
            slow_reader(raw, stack, "/bucket")
        eventually(lambda: metric(daemon, 'millrace_requests_total{operation="ListObjects",status="5xx"}') >= 1)
        assert metric(daemon, "millrace_answer_memory_bytes") <= 16 * MIB
        if BUILD.name == "release":
            assert resident(daemon) - before <= (16 + 32) * MIB
        # The budget is in the hands of clients that read nothing: they are cut, and another one is served.
        eventually(lambda: raw.request("GET", "/bucket").status == 200)
    eventually(lambda: metric(daemon, "millrace_answer_memory_bytes") == 0)


def test_slow_readers_of_objects(site):
    """Small objects are gathered in memory; where that has no room they are streamed, and take turns for the arena."""
    daemon, raw = site
    before = resident(daemon)
    with contextlib.ExitStack() as stack:
        for _ in range(50):
            slow_reader(raw, stack, "/small/gathered", times=kernel_holds() // 900_000 + 2)
        eventually(lambda: metric(daemon, "millrace_answer_memory_bytes") > 8 * MIB)
        assert metric(daemon, "millrace_answer_memory_bytes") <= 16 * MIB
        if BUILD.name == "release":
            assert resident(daemon) - before <= (16 + 64 + 32) * MIB
        eventually(lambda: raw.request("GET", "/small/gathered").status == 200)
    eventually(lambda: metric(daemon, "millrace_answer_memory_bytes") == 0)


def test_small_uploads_are_counted():
    with Daemon(drives=1, settings={"upload_memory": "1MiB"}).start() as daemon:
        raw = RawClient(daemon.host, daemon.port, daemon.access_key, daemon.secret_key)
        assert raw.request("PUT", "/bucket").status == 200
        with contextlib.ExitStack() as stack:
            under_way = []
            for i in range(10):
                connection = stack.enter_context(raw.connect())
                head, _ = raw.build("PUT", f"/bucket/{i}", headers={"content-length": "100000"}, content_sha256="UNSIGNED-PAYLOAD")
                connection.send(head + b"x")
                under_way.append(connection)
            eventually(lambda: metric(daemon, "millrace_upload_memory_bytes") == 1_000_000)
            answer = raw.request("PUT", "/bucket/one-more", body=bytes(100_000))
            assert answer.status == 503 and answer.code == "SlowDown"
            assert raw.request("PUT", "/bucket/large", body=bytes(3 * MIB)).status == 503
            assert raw.request("PUT", "/bucket/tiny", body=b"tiny").status == 200
            for connection in under_way:
                connection.send(bytes(99_999))
                assert connection.answer("PUT").status == 200
        eventually(lambda: metric(daemon, "millrace_upload_memory_bytes") == 0)  # given back behind the answer
        assert raw.request("PUT", "/bucket/one-more", body=bytes(100_000)).status == 200
        assert raw.request("PUT", "/bucket/large", body=bytes(3 * MIB)).status == 200
