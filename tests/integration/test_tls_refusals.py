"""Refusals over TLS: an answer must reach its client also where it is written in the middle of a body."""
import ssl
import subprocess

import pytest

from tests.support.daemon import Daemon
from tests.support.s3raw import STREAMING_UNSIGNED_TRAILER, RawClient

pytestmark = pytest.mark.daemon
MIB = 1 << 20


@pytest.fixture(scope="module")
def raw_tls(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tls")
    cert, key = folder / "cert.pem", folder / "key.pem"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj",
                    "/CN=test", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", cert], check=True, capture_output=True)
    with Daemon(drives=1, options=["--tls-cert", str(cert), "--tls-key", str(key)]) as daemon:
        daemon.tls = True
        daemon.start()
        context = ssl.create_default_context(cafile=str(cert))
        raw = RawClient(daemon.host, daemon.port, daemon.access_key, daemon.secret_key, tls=context)
        assert raw.request("PUT", "/bucket").status == 200
        yield raw


@pytest.mark.parametrize("sent_on", [0, 64 << 10, 4 * MIB])
def test_in_the_middle_of_a_long_body(raw_tls, sent_on):
    """Too much is to come to be read to its end."""
    head, _ = raw_tls.build("PUT", "/bucket/k", payload=STREAMING_UNSIGNED_TRAILER,
                            headers={"content-length": 60_000_000, "x-amz-decoded-content-length": 50_000_000})
    with raw_tls.connect(timeout=10) as connection:
        connection.send(head + b"5\r\nhello\r\nno chunk\r\n")
        try:
            connection.send(bytes(sent_on))
        except (BrokenPipeError, ConnectionResetError, ssl.SSLEOFError):
            pass
        answer = connection.answer("PUT")
        assert (answer.status, answer.code) == (400, "IncompleteBody"), answer
        assert connection.closed()
    assert raw_tls.request("GET", "/bucket/k").status == 404


def test_before_a_long_body(raw_tls):
    head, _ = raw_tls.build("PUT", "/none/k", headers={"content-length": 60_000_000}, content_sha256="UNSIGNED-PAYLOAD")
    with raw_tls.connect(timeout=10) as connection:
        connection.send(head)
        try:
            connection.send(bytes(MIB))
        except (BrokenPipeError, ConnectionResetError, ssl.SSLEOFError):
            pass
        answer = connection.answer("PUT")
        assert (answer.status, answer.code) == (404, "NoSuchBucket"), answer


def test_a_short_body_keeps_the_connection(raw_tls):
    with raw_tls.connect(timeout=10) as connection:
        for _ in range(3):
            answer = raw_tls.request("PUT", "/none/k", connection, body=bytes(300_000))
            assert (answer.status, answer.code) == (404, "NoSuchBucket"), answer
        assert raw_tls.request("GET", "/bucket", connection).status == 200
