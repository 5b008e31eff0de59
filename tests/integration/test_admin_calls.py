"""Signed admin calls: what is taken once, from whom, and for which host."""
import time

import pytest

from tests.support.daemon import Daemon
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


def test_the_host(site):
    daemon, raw = site
    port = daemon.admin_port
    for host in (f"127.0.0.1:{port}", f"localhost:{port}", f"LocalHost:{port}", "store.example.org", f"store.example.org:{port + 1}", f"[::1]:{port}"):
        assert raw.request("GET", INFO, host=host).status == 200, host
    for host in ("127.0.0.1", f"127.0.0.1:{daemon.port}", f"other.example:{port}", "store.example.org.evil", f"127.0.0.2:{port}", f"localhost:{port}0"):
        answer = raw.request("GET", INFO, host=host)
        assert answer.status in (400, 403) and b"store" not in answer.body, host


def test_dates_ahead_of_the_clock():
    """What is dated ahead could be sent again after a restart: only as far ahead as clocks differ."""
    with Daemon(drives=1).start() as daemon:
        raw = admin_of(daemon)
        for ahead, taken in ((5, True), (60, False), (600, False)):
            head, body = raw.build("GET", INFO, signer=Signer(daemon.access_key, daemon.secret_key, offset_s=ahead))
            answer = raw.send("GET", head, body)
            if taken:
                assert answer.status == 200, answer
            else:
                denied(answer, "ahead of the daemon")


def test_what_was_recorded_before_a_restart():
    with Daemon(drives=1).start() as daemon:
        raw = admin_of(daemon)
        head, body = raw.build("GET", INFO, signer=Signer(daemon.access_key, daemon.secret_key, offset_s=-5))
        denied(raw.send("GET", head, body), "before the daemon started")
        head, body = raw.build("GET", INFO)
        daemon.stop()
        time.sleep(1.1)  # dates are in seconds
        daemon.restart()
        denied(raw.send("GET", head, body), "before the daemon started")
        assert raw.request("GET", INFO).status == 200
