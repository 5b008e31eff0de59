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
