"""`millrace bench` against the daemon: each phase runs, what it reports is sane, and nothing is left behind."""
import json
import os
import secrets
import signal
import subprocess
import time

import pytest

from tests.support.daemon import CLI, PATIENCE, Daemon, sanitizer_environment
from tests.support.expect import keys_of

MIB = 1 << 20
pytestmark = [pytest.mark.daemon, pytest.mark.client]
SMALL = ("--seconds", "0.2", "--objects", "40", "--size", "6M", "--part-size", "5M", "--range-of", "1M")


@pytest.fixture(name="env")
def fixture_env(store, tmp_path):
    return {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "MILLRACE_ENDPOINT": store.endpoint, "AWS_ACCESS_KEY_ID": store.access_key,
            "AWS_SECRET_ACCESS_KEY": store.secret_key, "MILLRACE_ATTEMPTS": "2", **sanitizer_environment()}


def bench(env, *arguments, status=0):
    """(standard output, standard error)"""
    done = subprocess.run([str(CLI), "bench", *map(str, arguments)], env=env, capture_output=True, text=True, timeout=100 * PATIENCE, check=False)
    assert done.returncode == status, (arguments, done.returncode, done.stdout[-2000:], done.stderr[-2000:])
    return done.stdout, done.stderr


def buckets_of(s3):
    return {b["Name"] for b in s3.list_buckets()["Buckets"]}


def test_every_phase(env, s3):
    before = buckets_of(s3)
    out, err = bench(env, *SMALL, "--json", "--verify")
    report = json.loads(out)
    phases = {p["name"]: p for p in report["phases"]}
    assert list(phases) == ["put-4k", "put-64k", "put-1m", "put-16m", "get-4k", "get-64k", "get-1m", "get-16m", "range-64k", "multipart",
                            "list-1000", "list-40", "head", "mixed-4k", "delete"]
    assert (report["errors"], report["interrupted"], err) == (0, False, "")
    for name, phase in phases.items():
        assert phase["ops"] > 0 and phase["errors"] == 0 and phase["verified"], phase
        assert 0 < phase["p50_us"] <= phase["p99_us"] <= phase["p999_us"] <= phase["max_us"], phase
        assert phase["ops_s"] == pytest.approx(phase["ops"] / phase["seconds"], rel=1e-3)
        assert phase["client_cpu_s"] > 0
        if name.startswith(("put", "get", "multipart")):
            assert phase["bytes"] == phase["ops"] * phase["size"]
    assert phases["delete"]["ops"] == 40
    assert phases["range-64k"]["bytes"] == phases["range-64k"]["ops"] << 16
    assert phases["list-40"]["entries_s"] == pytest.approx(40 * phases["list-40"]["ops_s"], rel=1e-3)
    assert phases["mixed-4k"]["get_ops"] + phases["mixed-4k"]["put_ops"] == phases["mixed-4k"]["ops"]
    assert buckets_of(s3) == before


def test_a_table_in_a_bucket_of_ones_own(env, s3, bucket):
    """What was there before stays, also below the prefix."""
    s3.put_object(Bucket=bucket, Key="p/mine", Body=b"x")
    out, err = bench(env, *SMALL, "--bucket", bucket, "--prefix", "p/", "--progress", "-C", 3, "put-10k", "multipart", "delete")
    lines = out.splitlines()
    assert [line.split()[0] for line in lines[:4]] == ["phase", "put-10k", "multipart", "delete"]
    assert lines[1].split()[1] == "3" and lines[1].split()[7] == "0"
    assert "millrace:" not in err
    assert keys_of(s3, bucket) == ["p/mine"]
    assert "Uploads" not in s3.list_multipart_uploads(Bucket=bucket)


def test_open_loop(env, s3, bucket):
    """As many as were asked for begin, however fast they are answered. And a name is as good as an address."""
    env["MILLRACE_ENDPOINT"] = env["MILLRACE_ENDPOINT"].replace("127.0.0.1", "localhost")
    begun = time.monotonic()
    out, _ = bench(env, "--json", "--bucket", bucket, "--seconds", 1, "--rate", 50, "--objects", 5, "get-4k")
    phase = json.loads(out)["phases"][0]
    assert phase["rate"] == 50 and 10 <= phase["ops"] <= 51
    assert phase["max_us"] < (time.monotonic() - begun) * 1e6, "no request waited longer than the run took"
    assert keys_of(s3, bucket) == []


@pytest.mark.parametrize("phase", ["multipart", "put-64k"])
def test_interrupted(env, s3, bucket, phase):
    command = [str(CLI), "bench", "--bucket", bucket, "--seconds", "600", "--size", "200M", "--progress", "put-4k", phase]
    command = command if phase == "put-64k" else command[:-2] + [phase]
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        line = process.stderr.readline()  # the phase runs
        assert line.startswith(("put-4k: ", "multipart: ")), line
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60 * PATIENCE)
    assert process.returncode == 1
    assert "interrupted; nothing is left behind" in err
    assert keys_of(s3, bucket) == []
    assert "Uploads" not in s3.list_multipart_uploads(Bucket=bucket)


def test_what_cannot_work_is_said_in_a_line(env, s3):
    before = buckets_of(s3)
    for change, arguments, status, words in (
            ({"AWS_SECRET_ACCESS_KEY": "wrong"}, (), 1, "SignatureDoesNotMatch"),
            ({"AWS_ACCESS_KEY_ID": "NOBODY"}, (), 1, "InvalidAccessKeyId"),
            ({"AWS_SECRET_ACCESS_KEY": ""}, (), 2, "no credentials"),
            ({}, ("--bucket", "no-such-" + secrets.token_hex(4)), 1, "NoSuchBucket"),
            ({"MILLRACE_ENDPOINT": "http://127.0.0.1:1"}, (), 1, "127.0.0.1"),
            ({}, ("frobnicate",), 2, "no such phase: frobnicate"),
            ({}, ("--bucket", "NOT/A/NAME"), 2, "--bucket"),
            ({}, ("--seconds", "0"), 2, "--seconds"),
            ({}, ("--rate", "x"), 2, "--rate"),
            ({}, ("--size", "100G", "--part-size", "5M", "multipart"), 2, "10,000 parts"),
            ({}, ("--connections", "20001"), 2, "--connections")):
        out, err = bench({**env, **change}, *arguments, status=status)
        assert words in err and len(err.splitlines()) == 1, (arguments, err)
        assert out == "" or out.startswith("phase "), out
    assert buckets_of(s3) == before


def test_errors_make_the_exit_status(tmp_path):
    """The daemon dies: what fails is counted, and that nothing could be deleted is said."""
    with Daemon(drives=1) as daemon:
        daemon.start()
        env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "MILLRACE_ENDPOINT": daemon.endpoint, "AWS_ACCESS_KEY_ID": daemon.access_key,
               "AWS_SECRET_ACCESS_KEY": daemon.secret_key, "MILLRACE_ATTEMPTS": "1", **sanitizer_environment()}
        with subprocess.Popen([str(CLI), "bench", "--json", "--progress", "--seconds", "600", "put-4k"], env=env, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True) as process:
            process.stderr.readline()
            daemon.process.kill()
            out, err = process.communicate(timeout=100 * PATIENCE)
        report = json.loads(out)
        assert process.returncode == 1
        assert report["errors"] > 0 and report["phases"][0]["errors"] == report["errors"]
        assert "may be left behind" in err


@pytest.mark.slow
def test_https(tmp_path):
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj",
                    "/CN=test", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", cert], check=True, capture_output=True)
    with Daemon(drives=1, options=["--tls-cert", str(cert), "--tls-key", str(key)]) as daemon:
        daemon.tls = True
        daemon.start()
        env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "MILLRACE_ENDPOINT": daemon.endpoint, "AWS_ACCESS_KEY_ID": daemon.access_key,
               "AWS_SECRET_ACCESS_KEY": daemon.secret_key, "MILLRACE_ATTEMPTS": "1", **sanitizer_environment()}
        out, _ = bench(env, *SMALL, "--ca-file", cert, "--json", "--verify", "put-1m", "get-64k", "range-64k", "multipart", "list-40", "head", "mixed", "delete")
        report = json.loads(out)
        assert report["errors"] == 0 and len(report["phases"]) == 8
        assert all(p["ops"] > 0 for p in report["phases"])
        _, err = bench(env, *SMALL, status=1)
        assert "certificate" in err
