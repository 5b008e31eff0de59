"""More than the store can serve, and clients that hold on to what others need: memory stays bounded, what is refused is SlowDown, what is
acknowledged is right, others are served, and afterwards all is as before."""
import concurrent.futures
import contextlib
import socket
import threading
import time

import pytest

from tests.conftest import make_client
from tests.integration.test_daemon import store_of
from tests.support.daemon import Daemon
from tests.support.expect import read
from tests.support.s3raw import UNSIGNED, ConnectionClosed

pytestmark = [pytest.mark.daemon, pytest.mark.slow]
KIB, MIB = 1 << 10, 1 << 20
MEMORY = 50 * MIB  # for transfers, all loops together
SMALL = {"memory": "50MiB", "upload_memory": "8MiB", "cache": "4MiB", "memtable_size": "4MiB", "segment_size": "64MiB", "log_file_size": "8MiB"}
GROWTH = MEMORY + 8 * MIB + 64 * MIB  # transfers, small uploads, and what hundreds of connections and requests take beside them


@contextlib.contextmanager
def store(drives=1, ec=None, **settings):
    """A daemon with little memory, of which it must not take much more than it says, and which must serve in the end as ever."""
    with Daemon(drives=drives, ec=ec, settings={**SMALL, **settings}).start() as daemon:
        s3 = make_client(daemon.endpoint, daemon.access_key, daemon.secret_key, retries=8)
        s3.create_bucket(Bucket="busy")
        s3.put_object(Bucket="busy", Key="small", Body=b"small")
        before = anonymous(daemon)
        with watched(daemon) as most:
            yield daemon, s3
        daemon.wait_until(lambda: daemon.metrics()["millrace_connections_open"] <= 20, 30, "to see connections closed")
        assert read(s3, "busy", "small") == b"small"
        for i in range(4):
            s3.put_object(Bucket="busy", Key=f"after{i}", Body=bytes([i]) * 3 * MIB)
            assert read(s3, "busy", f"after{i}") == bytes([i]) * 3 * MIB
        assert most[0] - before < GROWTH, (before, most[0])
        daemon.stop()


def anonymous(daemon):
    """Bytes of the daemon's own memory, without files."""
    with open(f"/proc/{daemon.process.pid}/status", encoding="ascii") as status:
        return next(int(line.split()[1]) * KIB for line in status if line.startswith("RssAnon"))


@contextlib.contextmanager
def watched(daemon):
    """The most memory seen meanwhile, in a list of one."""
    most, over = [anonymous(daemon)], threading.Event()

    def look():
        while not over.wait(0.05):
            most[0] = max(most[0], anonymous(daemon))

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield most
    finally:
        over.set()
        thread.join()


def put_once(raw, key, body):
    """Status of one PUT on a connection of its own; None if the connection was closed instead."""
    try:
        with raw.connect() as connection:
            return raw.request("PUT", f"/busy/{key}", body=body, payload=UNSIGNED, connection=connection).status
    except (ConnectionClosed, OSError):
        return None


def body_of(number, size):
    return number.to_bytes(4, "big") * (size // 4)


@pytest.mark.parametrize("size", [20 * KIB, 2 * MIB])
def test_ten_times_the_connections(size):
    """200 clients where 20 are served at a time."""
    with store(max_connections="20") as (daemon, s3):
        raw, taken, seen = store_of(daemon).raw, {}, set()

        def client(number):
            for turn in range(3):
                status = put_once(raw, f"{number}-{turn}", body_of(number, size))
                seen.add(status)
                if status == 200:
                    taken[f"{number}-{turn}"] = number

        with concurrent.futures.ThreadPoolExecutor(200) as clients:
            list(clients.map(client, range(200)))
        assert seen <= {200, 503, None} and 200 in seen, seen
        assert len(taken) > 100
        for key, number in taken.items():
            assert read(s3, "busy", key) == body_of(number, size)
        names = {e["Key"] for page in s3.get_paginator("list_objects_v2").paginate(Bucket="busy") for e in page["Contents"]}
        assert set(taken) <= names


def test_large_uploads_at_once():
    """150 uploads of 4 MiB want 20 times the memory for transfers: each is taken in its turn, or told to slow down."""
    with store() as (daemon, s3):
        raw = store_of(daemon).raw
        with concurrent.futures.ThreadPoolExecutor(150) as clients:
            status = dict(zip(range(150), clients.map(lambda i: put_once(raw, f"k{i}", body_of(i, 4 * MIB)), range(150))))
        assert set(status.values()) <= {200, 503}, status
        taken = [i for i, code in status.items() if code == 200]
        assert len(taken) >= 75
        for i in taken:
            assert read(s3, "busy", f"k{i}") == body_of(i, 4 * MIB)


class Droppers:
    """Connections that each have a request under way and then send, or read, a byte a second."""

    def __init__(self, raw, requests, step):
        self.connections, self.step, self.over = [], step, threading.Event()
        for data in requests:
            connection = raw.connect()
            if step == self.read:
                connection.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            connection.send(data)
            self.connections.append(connection)
        self.thread = threading.Thread(target=self.run, args=(step,))
        self.thread.start()

    @staticmethod
    def send(connection):
        connection.send(b"x")

    @staticmethod
    def read(connection):
        connection.socket.recv(1)

    def run(self, step):
        while not self.over.wait(1):
            for connection in self.connections:
                try:
                    connection.socket.settimeout(0.001)
                    step(connection)
                except OSError:
                    pass

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.over.set()
        self.thread.join()
        for connection in self.connections:
            connection.close()


def others_are_served(daemon):
    """Large and small, written and read by ordinary clients, while something else goes on."""
    s3 = make_client(daemon.endpoint, daemon.access_key, daemon.secret_key, retries=8)
    for i in range(6):
        s3.put_object(Bucket="busy", Key=f"other{i}", Body=body_of(i, 5 * MIB))
        s3.put_object(Bucket="busy", Key=f"little{i}", Body=body_of(i, 400))
        assert read(s3, "busy", f"other{i}") == body_of(i, 5 * MIB)
        assert read(s3, "busy", f"little{i}") == body_of(i, 400)


@pytest.mark.parametrize("count", [100, pytest.param(400, marks=pytest.mark.long)])
def test_clients_that_read_a_byte_a_second(count):
    """Each has asked for 8 MiB: together a hundred times the memory there is."""
    with store() as (daemon, s3):
        raw = store_of(daemon).raw
        s3.put_object(Bucket="busy", Key="large", Body=b"l" * 8 * MIB)
        request, _ = raw.build("GET", "/busy/large")
        with Droppers(raw, [request] * count, Droppers.read):
            time.sleep(1)
            others_are_served(daemon)


@pytest.mark.parametrize("size", [60 * KIB, 5 * MIB])
def test_clients_that_send_a_byte_a_second(size):
    """300 uploads, some of whose first bytes are there."""
    with store() as (daemon, s3):
        raw = store_of(daemon).raw
        requests = []
        for i in range(300):
            head, body = raw.build("PUT", f"/busy/slow{i}", body=b"x" * size, payload=UNSIGNED)
            requests.append(head + body[:min(size // 2, 100 * KIB)])
        with Droppers(raw, requests, Droppers.send):
            time.sleep(1)
            others_are_served(daemon)
        time.sleep(0.3)
        names = [e["Key"] for e in s3.list_objects_v2(Bucket="busy")["Contents"]]
        assert not [name for name in names if name.startswith("slow")]


def test_a_drive_that_is_a_hundred_times_slower():
    """Nothing piles up behind it beyond the bounds, and it is no reason to give the drive up."""
    with store(drives=4, ec="2+2", test_faults="delay:ms=50,slot=0") as (daemon, s3):
        raw = store_of(daemon).raw
        with concurrent.futures.ThreadPoolExecutor(60) as clients:
            status = dict(zip(range(240), clients.map(lambda i: put_once(raw, f"k{i}", body_of(i, 2 * MIB if i % 4 == 0 else 8 * KIB)), range(240))))
        assert set(status.values()) <= {200, 503}, set(status.values())
        taken = [i for i, code in status.items() if code == 200]
        assert len(taken) >= 120
        with concurrent.futures.ThreadPoolExecutor(8) as clients:
            assert all(clients.map(lambda i: read(s3, "busy", f"k{i}") == body_of(i, 2 * MIB if i % 4 == 0 else 8 * KIB), taken))
        assert daemon.health_json()[1]["drives_in"] == 4
