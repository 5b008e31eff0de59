"""`millrace cluster cert` makes certificates that OpenSSL's own program takes. It needs no daemon, no endpoint and no credentials."""
import subprocess

from tests.support.daemon import CLI, PATIENCE, sanitizer_environment


def run(home, *words, status=0):
    done = subprocess.run([str(CLI), *map(str, words)], capture_output=True, text=True, timeout=60 * PATIENCE, check=False,
                          env={"HOME": str(home), **sanitizer_environment()})
    assert done.returncode == status, (words, done.stdout, done.stderr)
    return done.stdout + done.stderr


def openssl(*words):
    return subprocess.run(["openssl", *map(str, words)], capture_output=True, text=True, timeout=60 * PATIENCE, check=True).stdout


def test_a_ca_and_nodes(tmp_path):
    said = run(tmp_path, "cluster", "cert", "ca", tmp_path, "our cluster")
    assert f"keep {tmp_path}/ca.key away" in said
    run(tmp_path, "cluster", "cert", "node", tmp_path, "node-1.example.net", "192.0.2.7")
    for path in tmp_path.iterdir():
        assert path.stat().st_mode & 0o777 == (0o600 if path.suffix == ".key" else 0o644), path
    for name, check in (("node-1.example.net", "-verify_hostname"), ("192.0.2.7", "-verify_ip")):
        for purpose in ("sslserver", "sslclient"):
            assert "OK" in openssl("verify", "-x509_strict", "-CAfile", tmp_path / "ca.crt", "-purpose", purpose, check, name, tmp_path / f"{name}.crt")
    assert "our cluster" in openssl("x509", "-in", tmp_path / "node-1.example.net.crt", "-noout", "-issuer")


def test_nothing_is_replaced(tmp_path):
    run(tmp_path, "cluster", "cert", "ca", tmp_path, "one")
    run(tmp_path, "cluster", "cert", "node", "-q", tmp_path, "node-1")
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert "ca.key: File exists" in run(tmp_path, "cluster", "cert", "ca", tmp_path, "two", status=1)
    assert "node-1.key: File exists" in run(tmp_path, "cluster", "cert", "node", tmp_path, "node-1", status=1)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_wrong_usage(tmp_path):
    assert "ca.crt" in run(tmp_path, "cluster", "cert", "node", tmp_path, "node-1", status=1)
    run(tmp_path, "cluster", "cert", "ca", tmp_path, "one")
    assert "a/b: a node's name has letters" in run(tmp_path, "cluster", "cert", "node", tmp_path, "node-1", "a/b", status=1)
    assert not (tmp_path / "node-1.crt").exists()  # all or none
    run(tmp_path, "cluster", "cert", "node", tmp_path, status=2)
    run(tmp_path, "cluster", "cert", "ca", tmp_path, status=2)
