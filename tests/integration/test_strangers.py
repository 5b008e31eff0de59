"""Connections that nobody has signed anything on: they never keep out a client that has credentials."""
import contextlib
import socket
import subprocess
import time

import pytest

from tests.support.daemon import Daemon, run_daemon
from tests.support.s3raw import RawClient
from tests.support.waits import eventually, metric

LIMIT = 64
HEAD = b"GET /bucket HTTP/1.1\r\nHost: x\r\n\r\n"


def daemon_of(*options, settings=None, **more):
    return Daemon(drives=1, options=["--max-connections", str(LIMIT), *options], settings=settings, **more)


def client(daemon, tls=None):
    return RawClient(daemon.host, daemon.port, daemon.access_key, daemon.secret_key, tls=tls)


def connect(daemon, source="127.0.0.1"):
    """Accepted or in the backlog: a connect never fails."""
    sock = socket.socket()
    sock.settimeout(30)
    sock.bind((source, 0))
    sock.connect((daemon.host, daemon.port))
    return sock


def answered(sock):
    """An anonymous request, kept alive."""
    sock.sendall(HEAD)
    return sock.recv(65536)


def closed(sock):
    """By the other end; what it had sent before is read away."""
    sock.setblocking(False)
    try:
        while sock.recv(65536):
            pass
        return True
    except BlockingIOError:
        return False
    except ConnectionError:
        return True


@pytest.fixture
def crowd():
    with contextlib.ExitStack() as stack:
        def gather(daemon, count, sources=("127.0.0.1",), say=None):
            socks = []
            for i in range(count):
                sock = stack.enter_context(connect(daemon, sources[i % len(sources)]))
                if say:
                    sock.sendall(say)
                socks.append(sock)
            return socks
        yield gather


def serves(daemon, tls=None):
    raw = client(daemon, tls)
    assert raw.request("PUT", "/bucket").status in (200, 409)
    assert raw.request("PUT", "/bucket/key", body=b"value").status == 200
    assert raw.request("GET", "/bucket/key").body == b"value"


@pytest.mark.parametrize("loops", [1, 2, 3])
@pytest.mark.parametrize("sources", [["127.0.0.1"], [f"127.0.{i}.{i}" for i in range(1, 9)]], ids=["one", "eight"])
@pytest.mark.parametrize("say", [b"", b"GET /bucket HTTP/1.1\r\nHost: x\r\nX-Half:", HEAD,
                                 b"PUT /bucket/k HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\nx"], ids=["nothing", "half", "keep-alive", "body"])
def test_strangers_make_room(crowd, loops, sources, say):
    with daemon_of(loops=loops) as daemon:
        daemon.start()
        crowd(daemon, 2 * LIMIT, sources, say)
        serves(daemon)
        assert metric(daemon, "millrace_connections_evicted_total") > 0


def test_bodies_byte_by_byte(crowd):
    with daemon_of() as daemon:
        daemon.start()
        socks = crowd(daemon, LIMIT, [f"127.0.1.{i}" for i in range(1, 9)], b"PUT /b/k HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n")
        for sock in socks:
            with contextlib.suppress(ConnectionError):
                sock.sendall(b"x")
        serves(daemon)


def test_handshakes_that_never_end(crowd, tmp_path):
    import ssl
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj", "/CN=localhost",
                    "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", cert], check=True, capture_output=True)
    with daemon_of("--tls-cert", str(cert), "--tls-key", str(key)) as daemon:
        daemon.start()
        sources = [f"127.0.2.{i}" for i in range(1, 9)]
        crowd(daemon, LIMIT, sources)                                 # nothing at all
        crowd(daemon, LIMIT, sources, b"\x16\x03\x01\x02\x00\x01\x00")  # half a record
        serves(daemon, ssl.create_default_context(cafile=str(cert)))


def test_an_address_has_its_share(crowd):
    with daemon_of("--max-unsigned-connections", "8") as daemon:
        daemon.start()
        other = crowd(daemon, 4, ["127.0.3.2"])
        for sock in other:
            assert answered(sock)
        first = crowd(daemon, 8, ["127.0.3.1"])
        eventually(lambda: metric(daemon, "millrace_connections_open") == 12)
        later = crowd(daemon, 8, ["127.0.3.1"])
        eventually(lambda: all(closed(sock) for sock in first))
        assert not any(closed(sock) for sock in later), "the oldest go"
        assert not any(closed(sock) for sock in other)
        eventually(lambda: metric(daemon, "millrace_connections_open") == 12)


@pytest.mark.parametrize("proxy", ["127.0.3.1", "127.0.3.0/24", "10.0.0.0/8, 127.0.0.0/13"])
def test_proxies_are_not_counted(crowd, proxy):
    with daemon_of("--max-unsigned-connections", "8", settings={"proxy": proxy}) as daemon:
        daemon.start()
        many = crowd(daemon, 20, ["127.0.3.1"])
        eventually(lambda: metric(daemon, "millrace_connections_open") == 20)
        assert all(answered(sock) for sock in many)


def test_who_has_signed_is_not_counted():
    with daemon_of("--max-unsigned-connections", "8") as daemon:
        daemon.start()
        raw = client(daemon)
        with contextlib.ExitStack() as stack:
            signed = [stack.enter_context(raw.connect()) for _ in range(1)]
            for _ in range(19):
                assert raw.request("GET", "/", signed[-1]).status == 200
                signed.append(stack.enter_context(raw.connect()))
            for connection in signed:
                assert raw.request("GET", "/", connection).status == 200
            assert metric(daemon, "millrace_connections_evicted_total") == 0


def test_idle_ones_make_room_and_busy_ones_do_not():
    with daemon_of() as daemon:
        daemon.start()
        raw = client(daemon)
        assert raw.request("PUT", "/bucket").status == 200
        with contextlib.ExitStack() as stack:
            busy = stack.enter_context(raw.connect())
            head, _ = raw.build("PUT", "/bucket/slow", headers={"content-length": "10"}, content_sha256="UNSIGNED-PAYLOAD")
            busy.send(head + b"12345")
            idle = [stack.enter_context(raw.connect()) for _ in range(LIMIT - 1)]
            for connection in idle:
                assert raw.request("GET", "/", connection).status == 200
            time.sleep(1.2)  # so that they count as idle
            serves(daemon)
            assert metric(daemon, "millrace_connections_evicted_total") >= 1
            busy.send(b"67890")
            assert busy.answer("PUT").status == 200
        assert raw.request("GET", "/bucket/slow").body == b"1234567890"


def test_networks_that_are_refused(tmp_path):
    base = ["--drive", tmp_path, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"]
    for proxy in ("10.0.0.0/33", "example.org", "::1/129", "10.0.0.0/", "10.0.0.1,"):
        status, output = run_daemon([*base, "--proxy", proxy])
        assert status == 2 and "proxy" in output, output
