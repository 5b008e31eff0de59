"""What the TLS listeners agree on, as a scanner sees it (nmap's ssl-enum-ciphers): TLS 1.2 and 1.3 with forward secrecy and authenticated encryption."""
import re
import ssl
import subprocess
import urllib.request

import pytest

from tests.support.daemon import Daemon, run_daemon

SUITE = re.compile(r"^\|\s+(TLS_\w+)", re.M)
VERSION = re.compile(r"^\|\s+(SSLv\d|TLSv1\.\d):", re.M)
GOOD = re.compile(r"TLS_(AKE_WITH_|ECDHE_(RSA|ECDSA)_WITH_)(AES_128_GCM_SHA256|AES_256_GCM_SHA384|CHACHA20_POLY1305_SHA256)")


def make_pair(folder, algorithm):
    cert, key = folder / f"{algorithm}.pem", folder / f"{algorithm}.key"
    kind = {"rsa": ["rsa:2048"], "ec": ["ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"]}[algorithm]
    subprocess.run(["openssl", "req", "-x509", "-newkey", *kind, "-nodes", "-days", "2", "-subj", "/CN=localhost", "-addext",
                    "subjectAltName=IP:127.0.0.1,DNS:localhost", "-keyout", key, "-out", cert], check=True, capture_output=True)
    return cert, key


def scan(port):
    """(versions, suites) that the listener takes."""
    output = subprocess.run(["nmap", "-Pn", "-n", "-p", str(port), "--script", "+ssl-enum-ciphers", "127.0.0.1"], check=True, capture_output=True,
                            text=True).stdout
    return set(VERSION.findall(output)), set(SUITE.findall(output)), output


def with_tls(cert, key, *options):
    daemon = Daemon(drives=1, options=["--tls-cert", str(cert), "--tls-key", str(key), *options])
    daemon.tls = True
    return daemon


@pytest.mark.parametrize("algorithm", ["rsa", "ec"])
def test_a_scanner_finds_only_what_is_sound(tmp_path, algorithm):
    cert, key = make_pair(tmp_path, algorithm)
    with with_tls(cert, key, "--admin-tls") as daemon:
        daemon.start()
        for port in (daemon.port, daemon.admin_port):
            versions, suites, output = scan(port)
            assert versions == {"TLSv1.2", "TLSv1.3"}, output
            assert len(suites) >= 6 and all(GOOD.fullmatch(suite) for suite in suites), output
            assert "least strength: A" in output, output


def test_the_list_is_a_setting(tmp_path):
    cert, key = make_pair(tmp_path, "ec")
    with with_tls(cert, key, "--tls-priorities", "NORMAL:-VERS-ALL:+VERS-TLS1.3") as daemon:
        daemon.start()
        assert scan(daemon.port)[0] == {"TLSv1.3"}


def test_the_admin_listener_by_tls(tmp_path):
    cert, key = make_pair(tmp_path, "ec")
    with with_tls(cert, key, "--admin-tls") as daemon:
        daemon.start()
        context = ssl.create_default_context(cafile=str(cert))
        with urllib.request.urlopen(f"https://127.0.0.1:{daemon.admin_port}/health/ready", timeout=10, context=context) as answer:
            assert answer.status == 200


def test_settings_that_are_refused(tmp_path):
    base = ["--drive", tmp_path, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"]
    status, output = run_daemon([*base, "--tls-priorities", "NORMAL:+VERS-SSL9"])
    assert status == 2 and "tls_priorities" in output and "+VERS-SSL9" in output
    status, output = run_daemon([*base, "--admin-tls"])
    assert status == 2 and "admin_tls" in output
