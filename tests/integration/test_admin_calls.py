"""Signed admin calls: what is taken once, from whom, and for which host."""
import os
import subprocess

import pytest

from tests.support.daemon import CLI, Daemon, sanitizer_environment
from tests.support.s3raw import UNSIGNED, RawClient, Signer

INFO = "/admin/v1/info"


def admin_of(daemon):
    return RawClient(daemon.host, daemon.admin_port, daemon.access_key, daemon.secret_key)


@pytest.fixture(scope="module")
def site():
    with Daemon(drives=1, settings={"admin_host": "store.example.org"}).start() as daemon:
        yield daemon, admin_of(daemon)


def denied(answer, part):
    assert answer.status == 403 and part in answer.body.decode(), answer


def test_a_call_is_taken_once(site):
    _, raw = site
    for method, path in (("GET", INFO), ("POST", "/admin/v1/verify"), ("DELETE", INFO)):
        head, body = raw.build(method, path)
        first = raw.send(method, head, body)
        assert first.status in (200, 202, 405, 409), first
        denied(raw.send(method, head, body), "taken once")
        signature = head[head.index(b"Signature=") + 10:][:64]
        denied(raw.send(method, head.replace(signature, signature.upper()), body), "")
        assert raw.request("GET", INFO).status == 200


def test_the_nonce(site):
    _, raw = site
    denied(raw.request("GET", INFO, drop_headers=["x-millrace-nonce"]), "x-millrace-nonce")
    denied(raw.request("GET", INFO, headers={"x-millrace-nonce": "short"}), "x-millrace-nonce")
    denied(raw.request("GET", INFO, drop_headers=["x-millrace-nonce"], unsigned_headers={"x-millrace-nonce": "0" * 32}), "x-millrace-nonce")


def test_the_body_is_signed(site):
    _, raw = site
    denied(raw.request("POST", "/admin/v1/verify", payload=UNSIGNED), "not the one that was signed")
    denied(raw.request("POST", "/admin/v1/verify", body=b"x", content_sha256="0" * 64), "not the one that was signed")


@pytest.mark.parametrize("first", [b"GET /health/live HTTP/1.1\r\nHost: x\r\n\r\n", b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: keep-alive\r\n\r\n",
                                   b"POST /health/live HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
                                   b"POST /admin/v1/verify HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc", b"GET /nothing HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"],
                         ids=["live", "keep-alive", "chunked", "refused", "old"])
def test_an_answer_ends_its_connection(site, first):
    """What comes behind a request is never taken for another: a proxy in front may have seen one only."""
    _, raw = site
    with raw.connect() as connection:
        connection.send(first + b"GET /health/ready HTTP/1.1\r\nHost: x\r\n\r\n")
        answer = connection.answer()
        assert answer.headers["connection"].lower() == "close", answer
        assert connection.to_end() == b""


LIVE = b"GET /health/live HTTP/1.1\r\n"
DOUBTFUL_HEADS = {
    "two hosts": LIVE + b"Host: x\r\nHost: y\r\n\r\n",
    "the same host twice": LIVE + b"Host: x\r\nHost: x\r\n\r\n",
    "no host": LIVE + b"\r\n",
    "empty host": LIVE + b"Host:\r\n\r\n",
    "user in host": LIVE + b"Host: me@x\r\n\r\n",
    "path in host": LIVE + b"Host: x/y\r\n\r\n",
    "another in the target": b"GET http://y/health/live HTTP/1.1\r\nHost: x\r\n\r\n",
    "two lengths": b"POST /health/live HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\nContent-Length: 4\r\n\r\n",
    "the same length twice": b"POST /health/live HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\nContent-Length: 0\r\n\r\n",
    "list of lengths": b"POST /health/live HTTP/1.1\r\nHost: x\r\nContent-Length: 0, 0\r\n\r\n",
    "signed length": b"POST /health/live HTTP/1.1\r\nHost: x\r\nContent-Length: +0\r\n\r\n",
    "length and coding": b"POST /health/live HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "two codings": b"POST /health/live HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "another coding": b"POST /health/live HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    "coding of HTTP/1.0": b"POST /health/live HTTP/1.0\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "folded": LIVE + b"Host: x\r\nX-A: one\r\n two\r\n\r\n",
    "folded coding": LIVE + b"Host: x\r\nTransfer-Encoding:\r\n chunked\r\n\r\n",
    "lone LFs": b"GET /health/live HTTP/1.1\nHost: x\n\n",
    "a lone LF": LIVE + b"Host: x\nX-A: one\r\n\r\n",
    "a lone CR": LIVE + b"Host: x\r\nX-A: one\rtwo\r\n\r\n",
    "a NUL": LIVE + b"Host: x\r\nX-A: one\0\r\n\r\n",
    "a NUL in a name": LIVE + b"Host: x\r\nX\0-A: one\r\n\r\n",
    "a control": LIVE + b"Host: x\r\nX-A: one\x01two\r\n\r\n",
    "blank before the colon": LIVE + b"Host: x\r\nContent-Length : 0\r\n\r\n",
    "no colon": LIVE + b"Host: x\r\nnothing\r\n\r\n",
    "no name": LIVE + b"Host: x\r\n: nothing\r\n\r\n",
    "no token": LIVE + b"Host: x\r\nX-(: nothing\r\n\r\n",
    "two blanks": b"GET /health/live  HTTP/1.1\r\nHost: x\r\n\r\n",
    "too many fields": LIVE + b"Host: x\r\n" + b"X: y\r\n" * 64 + b"\r\n",
    "a long field": LIVE + b"Host: x\r\nX: " + b"y" * 100_000 + b"\r\n\r\n",
    "a long target": b"GET /health/live?" + b"y" * 100_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
}


@pytest.mark.parametrize("name", DOUBTFUL_HEADS)
def test_doubtful_heads_are_refused(site, name):
    """What another on the way may read as other requests. One answer, by us or the library, and the end of the connection."""
    _, raw = site
    with raw.connect() as connection:
        try:
            connection.send(DOUBTFUL_HEADS[name] + LIVE + b"Host: x\r\n\r\n")
            rest = connection.to_end()
        except OSError:  # it may close before it has heard everything
            rest = b""
    assert b" 200 " not in rest and (rest[:9] in (b"HTTP/1.1 ", b"HTTP/1.0 ") and rest[9:10] in b"45" or rest == b""), rest
    assert raw.request("GET", INFO).status == 200


@pytest.mark.parametrize("head", [LIVE + b"Host: x\r\n\r\n", LIVE + b"host:\t[::1]:9 \r\nX-A: \xc3\xa4\r\nX-A:\r\n\r\n",
                                  b"GET http://x/health/live HTTP/1.1\r\nHost: x\r\n\r\n", b"GET /health/live?a=b+%20 HTTP/1.0\r\n\r\n",
                                  b"GET /health/live HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"])
def test_odd_heads_are_taken(site, head):
    _, raw = site
    with raw.connect() as connection:
        connection.send(head)
        assert connection.answer().status == 200
        assert connection.to_end() == b""


def test_the_host(site):
    daemon, raw = site
    port = daemon.admin_port
    for host in (f"127.0.0.1:{port}", f"localhost:{port}", f"LocalHost:{port}", "store.example.org", f"store.example.org:{port + 1}", f"[::1]:{port}"):
        assert raw.request("GET", INFO, host=host).status == 200, host
    for host in ("127.0.0.1", f"127.0.0.1:{daemon.port}", f"other.example:{port}", "store.example.org.evil", f"127.0.0.2:{port}", f"localhost:{port}0"):
        answer = raw.request("GET", INFO, host=host)
        assert answer.status in (400, 403) and b"store" not in answer.body, host


def test_the_start(site):
    """A call names the start of the daemon that it is meant for; every answer says which one that is."""
    _, raw = site
    start = raw.admin_start()
    assert len(start) == 32
    for refused in (dict(drop_headers=["x-millrace-start"]), dict(headers={"x-millrace-start": "0" * 32}), dict(headers={"x-millrace-start": ""}),
                    dict(headers={"x-millrace-start": start[:-1]}),
                    dict(drop_headers=["x-millrace-start"], unsigned_headers={"x-millrace-start": start})):
        answer = raw.request("GET", INFO, **refused)
        denied(answer, "this start of the daemon")
        assert answer.headers["x-millrace-start"] == start
    assert raw.request("GET", INFO, headers={"x-millrace-start": start}).status == 200


@pytest.mark.parametrize("crash", [False, True], ids=["stop", "kill"])
def test_calls_recorded_before_a_restart(crash):
    """Whatever their date, and whichever way the clock was set: what one start of the daemon may have answered, no other one takes."""
    with Daemon(drives=1).start() as daemon:
        raw = admin_of(daemon)
        recorded = [raw.build("POST", "/admin/v1/verify", signer=Signer(daemon.access_key, daemon.secret_key, offset_s=offset))
                    for offset in (-600, -5, 0, 1, 5, 9, 600)]
        unsent = raw.build("GET", INFO)
        for head, body in recorded:
            assert raw.send("POST", head, body).status in (202, 409)
            denied(raw.send("POST", head, body), "taken once")
        daemon.kill() if crash else daemon.stop()
        daemon.restart()
        for head, body in [*recorded, unsent]:
            denied(raw.send("POST", head, body), "")
        for head, body in recorded:
            denied(raw.send("POST", head, body), "this start of the daemon")
        assert raw.request("GET", INFO).status == 200


def test_the_command_works_at_once_after_a_start():
    with Daemon(drives=1).start() as daemon:
        env = {"PATH": os.environ["PATH"], "MILLRACE_ROOT_ACCESS_KEY": daemon.access_key, "MILLRACE_ROOT_SECRET_KEY": daemon.secret_key,
               "MILLRACE_ADMIN": f"http://{daemon.host}:{daemon.admin_port}", **sanitizer_environment()}
        for _ in range(3):
            for _ in range(2):
                call = subprocess.run([str(CLI), "admin", "info"], env=env, capture_output=True, text=True)
                assert call.returncode == 0 and "state      ready" in call.stdout, call
            daemon.stop()
            daemon.restart()
