"""The daemon and its operator: start, refusals, credentials, health, metrics, signals, drives that come and go."""
import errno
import json
import os
import re
import shutil
import signal
import socket
import stat
import subprocess
import threading
import time

import pytest

from tests.conftest import Store, make_client
from tests.support.daemon import CLI, PATIENCE, PROGRAM, Daemon, mortal, run_daemon, sanitizer_environment
from tests.support.expect import keys_of, read, refused
from tests.support.ports import free_row
from tests.support.s3raw import UNSIGNED, ConnectionClosed
from tests.support.waits import eventually, metric

MIB = 1 << 20
pytestmark = pytest.mark.daemon
KEYS = {"MILLRACE_ROOT_ACCESS_KEY": "AKTESTKEY", "MILLRACE_ROOT_SECRET_KEY": "a-secret-of-some-length"}


def store_of(daemon):
    return Store(daemon.host, daemon.port, daemon.access_key, daemon.secret_key, daemon)


def client_of(daemon, **config):
    return make_client(daemon.endpoint, daemon.access_key, daemon.secret_key, **config)


def refuses(arguments, *words, env=KEYS):
    """Exit status 2 and one line that names what is at fault."""
    status, output = run_daemon(arguments, env)
    lines = [line for line in output.splitlines() if line.strip()]
    assert status == 2, (status, output)
    assert len(lines) == 1, output
    for word in words:
        assert str(word) in lines[0], (word, lines[0])
    return lines[0]


LISTEN = ["--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"]


# ---- refusals -----------------------------------------------------------------------------------------------


def test_bad_options(tmp_path):
    drive = tmp_path / "d"
    drive.mkdir()
    base = ["--drive", drive, "--format", *LISTEN]
    refuses([*base, "--nonsense"], "--nonsense")
    refuses([*base, "--nonsense=1"], "nonsense")
    refuses([*base, "--loops", "x"], "loops")
    refuses([*base, "--loops", "100000"], "loops")
    refuses([*base, "--loops"], "loops")
    refuses([*base, "--ec", "0+1"], "ec")
    refuses([*base, "--ec", "2"], "ec")
    refuses([*base, "--ec", "2+2"], "2+2")
    refuses([*base, "--tls-cert", tmp_path / "none"], "tls")
    refuses([*base, "extra"], "extra")
    refuses(["--drive", drive, "--format", "--listen", "nonsense"], "listen")
    refuses(["--drive", drive, "--format", "--listen", "127.0.0.1:99999"], "listen")
    refuses(LISTEN, "drive")
    assert list(drive.iterdir()) == []


def test_bad_configuration_files(tmp_path):
    drive = tmp_path / "d"
    drive.mkdir()
    config = tmp_path / "c.conf"
    base = ["--drive", drive, "--format", *LISTEN, "--config", config]
    refuses(base, config)
    for text, word in (("nonsense = 1\n", "nonsense"), ("loops = many\n", "loops"), ("loops\n", "c.conf"), ("idle_timeout = 5 apples\n", "idle_timeout"),
                       ("loops = 1\nloops = 2\n", "loops"), ("loops = 1\n\n# fine\nregion = " + "r" * 70 + "\n", "region")):
        config.write_text(text)
        line = refuses(base, word)
        assert "c.conf" in line, line
    assert list(drive.iterdir()) == []


def test_help_version_and_sample(tmp_path):
    for option in ("--help", "--version"):
        status, output = run_daemon([option])
        assert status == 0 and "millraced" in output
    status, help_text = run_daemon(["--help"])
    for option in ("--drive", "--format", "--listen", "--admin", "--config", "--ec", "--loops", "--tls-cert", "--tls-key"):
        assert option in help_text


def test_busy_port(tmp_path):
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        busy = f"127.0.0.1:{holder.getsockname()[1]}"
        for which, other in (("--listen", "--admin"), ("--admin", "--listen")):
            drive = tmp_path / f"d{which}"
            drive.mkdir()
            refuses(["--drive", drive, "--format", which, busy, other, "127.0.0.1:0"], busy)


def test_unusable_drives(tmp_path):
    missing = tmp_path / "none"
    refuses(["--drive", missing, "--format", *LISTEN], missing)
    file = tmp_path / "file"
    file.write_text("x")
    refuses(["--drive", file, "--format", *LISTEN], file)
    twice = tmp_path / "twice"
    twice.mkdir()
    refuses(["--drive", twice, "--drive", twice, "--format", *LISTEN], twice)
    refuses(["--drive", twice, "--drive", f"{twice}/../twice", "--format", *LISTEN], twice)


def test_empty_folders_are_missing_drives(tmp_path):
    drive = tmp_path / "d"
    drive.mkdir()
    refuses(["--drive", drive, *LISTEN], drive)
    assert list(drive.iterdir()) == [], "nothing may be written to it"


def test_foreign_content(tmp_path):
    drive, other = tmp_path / "d", tmp_path / "e"
    for folder in (drive, other):
        folder.mkdir()
    (drive / "a photo").write_text("x")
    refuses(["--drive", drive, "--format", *LISTEN], drive)
    refuses(["--drive", other, "--drive", drive, "--format", *LISTEN], drive)
    refuses(["--drive", drive, *LISTEN], drive)
    assert [p.name for p in drive.iterdir()] == ["a photo"] and list(other.iterdir()) == []


def test_two_daemons_on_one_drive():
    with Daemon(drives=2).start() as daemon:
        line = refuses(["--drive", daemon.drives[0], "--drive", daemon.drives[1], *LISTEN], daemon.drives[0])
        assert "use" in line or "lock" in line, line
        assert daemon.health()[0] == 200


def test_drives_of_two_stores():
    with Daemon(drives=2).start() as one, Daemon(drives=2).start() as two:
        one.stop()
        two.stop()
        refuses(["--drive", one.drives[0], "--drive", two.drives[1], *LISTEN], "store")
        refuses(["--drive", one.drives[0], "--drive", one.drives[1], "--drive", two.drives[1], "--format", *LISTEN], "store")


def test_damaged_and_newer_format_files():
    with Daemon(drives=1).start() as daemon:
        daemon.stop()
        path = daemon.drives[0] / "FORMAT"
        good = path.read_bytes()
        for bad in (b"", b"x" * len(good), good[:-3], good[:10] + bytes([good[10] ^ 1]) + good[11:]):
            path.write_bytes(bad)
            refuses(["--drive", daemon.drives[0], *LISTEN], daemon.drives[0])
            refuses(["--drive", daemon.drives[0], "--format", *LISTEN], daemon.drives[0])
        path.write_bytes(good)
        daemon.restart()
        daemon.stop()


# ---- drives -------------------------------------------------------------------------------------------------


def fill(s3, count=40, bucket="kept"):
    s3.create_bucket(Bucket=bucket)
    bodies = {f"k{i}": bytes([i]) * (1000 if i % 4 else 400_000 + i) for i in range(count)}
    for key, body in bodies.items():
        s3.put_object(Bucket=bucket, Key=key, Body=body)
    return bodies


def holds(s3, bodies, bucket="kept"):
    assert keys_of(s3, bucket) == sorted(bodies)
    for key, body in bodies.items():
        assert read(s3, bucket, key) == body, key


def test_drives_in_other_order_and_under_other_paths():
    with Daemon(drives=4, ec="2+2").start() as daemon:
        bodies = fill(client_of(daemon))
        daemon.stop()
        daemon.drives.reverse()
        moved = daemon.folder / "moved elsewhere"
        daemon.drives[3].rename(moved)  # slot 0's
        daemon.drives[3] = moved
        daemon.start()
        holds(client_of(daemon), bodies)
        assert daemon.health_json()[1]["drives_in"] == 4


def test_format_stays_on_the_command_line():
    with Daemon(drives=2).start() as daemon:
        bodies = fill(client_of(daemon), 8)
        for _ in range(2):
            daemon.stop()
            daemon.restart()
            holds(client_of(daemon), bodies)
        daemon.stop()
        daemon.format = False
        daemon.restart()
        holds(client_of(daemon), bodies)


@pytest.mark.parametrize("gone", [[0], [3], [0, 2]])
def test_start_without_some_drives(gone):
    """Up to m drives may be away at the start: everything is read; one away: it is written too."""
    with Daemon(drives=4, ec="2+2").start() as daemon:
        bodies = fill(client_of(daemon))
        daemon.stop()
        for i in gone:
            daemon.drives[i].rename(daemon.folder / f"away{i}")
            daemon.drives[i].mkdir()
        daemon.start()
        s3 = client_of(daemon)
        holds(s3, bodies)
        state = daemon.health_json()[1]
        assert state["drives_in"] == 4 - len(gone)
        if len(gone) == 1:
            s3.put_object(Bucket="kept", Key="k99", Body=bytes(500_000))
            holds(s3, {**bodies, "k99": bytes(500_000)})
        for i in gone:
            assert list(daemon.drives[i].iterdir()) == [], "an empty folder is a missing drive and stays untouched"


@pytest.mark.parametrize("count", [1, 2])
def test_folders_moved_away_while_it_serves(count):
    """Moving away a drive folder of a running store costs that drive and nothing else."""
    with Daemon(drives=4, ec="2+2").start() as daemon:
        s3 = client_of(daemon, retries=6)
        bodies = fill(s3)
        for i in range(count):
            daemon.drives[i].rename(daemon.folder / f"away{i}")
        holds(s3, bodies)
        if count == 1:
            for i in range(10):
                key, body = f"n{i}", bytes([i]) * (100 if i % 2 else 700_000)
                s3.put_object(Bucket="kept", Key=key, Body=body)
                bodies[key] = body
            holds(s3, bodies)
        # with m drives away at the start, what the others' indexes do not know yet to be on all members would wait for these drives
        time.sleep(1 * PATIENCE)  # figures are up to a quarter of a second old
        kept = [f'path="{drive}"' for drive in daemon.drives[count:]]
        daemon.wait_until(lambda: all(v == 0 for k, v in daemon.metrics().items()
                                      if k.startswith("millrace_drive_memtable_bytes") and any(path in k for path in kept)), 20,
                          "to have everything in the indexes")
        daemon.kill()
        daemon.restart()
        holds(client_of(daemon, retries=6), bodies)


def test_a_stale_drive_catches_up():
    """A drive that was away while others went on does not bring back the past, and is one of them again after a while."""
    with Daemon(drives=4, ec="2+2").start() as daemon:
        s3 = client_of(daemon)
        bodies = fill(s3, 12)
        daemon.stop()
        away = daemon.folder / "away"
        daemon.drives[0].rename(away)
        daemon.drives[0].mkdir()
        daemon.start()
        s3 = client_of(daemon, retries=6)
        s3.delete_object(Bucket="kept", Key="k0")
        s3.put_object(Bucket="kept", Key="k1", Body=b"newer")
        del bodies["k0"]
        bodies["k1"] = b"newer"
        daemon.stop()
        daemon.drives[0].rmdir()
        away.rename(daemon.drives[0])
        daemon.start()
        holds(client_of(daemon, retries=6), bodies)
        daemon.wait_until(lambda: daemon.health_json()[1]["drives_in"] == 4, 30, "to have all drives in")
        daemon.drives[1].rename(daemon.folder / "gone")  # now it is one of three that everything relies on
        daemon.wait_until(lambda: daemon.health_json()[1]["drives_in"] == 3, 30, "to miss a drive")
        client_of(daemon, retries=6).put_object(Bucket="kept", Key="k2", Body=b"newest")
        bodies["k2"] = b"newest"
        holds(client_of(daemon, retries=6), bodies)


def test_too_few_drives():
    """Fewer than can serve: not ready, says why, answers 503, and never 404."""
    with Daemon(drives=4, ec="2+2").start() as daemon:
        fill(client_of(daemon), 4)
        daemon.stop()
        for i in range(3):
            daemon.drives[i].rename(daemon.folder / f"away{i}")
            daemon.drives[i].mkdir()
        daemon.spawn()
        daemon.wait_listening()
        time.sleep(1)
        status, state = daemon.health_json()
        assert status == 503 and state["reason"], state
        raw = store_of(daemon).raw
        answer = raw.request("GET", "/kept/k0")
        assert answer.status == 503 and answer.code in ("ServiceUnavailable", "SlowDown"), answer
        assert daemon.admin_get("/health/live")[0] == 200


def test_index_deleted():
    """The index is derived: delete it, restart, and every answer is the same (I4)."""
    with Daemon(drives=4, ec="2+2").start() as daemon:
        s3 = client_of(daemon)
        bodies = fill(s3)
        upload = s3.create_multipart_upload(Bucket="kept", Key="m")["UploadId"]
        etag = s3.upload_part(Bucket="kept", Key="m", UploadId=upload, PartNumber=1, Body=bytes(600_000))["ETag"]
        before = s3.list_objects_v2(Bucket="kept")["Contents"]
        for which in ([0], [1, 2], [0, 1, 2, 3]):
            daemon.stop()
            for i in which:
                shutil.rmtree(daemon.drives[i] / "index")
            daemon.restart()
            s3 = client_of(daemon)
            holds(s3, bodies)
            assert s3.list_objects_v2(Bucket="kept")["Contents"] == before
            assert s3.list_parts(Bucket="kept", Key="m", UploadId=upload)["Parts"][0]["ETag"] == etag
        s3.complete_multipart_upload(Bucket="kept", Key="m", UploadId=upload, MultipartUpload={"Parts": [{"PartNumber": 1, "ETag": etag}]})
        assert read(s3, "kept", "m") == bytes(600_000)


@pytest.mark.slow
def test_space_comes_back():
    """Overwritten and deleted objects do not fill the drives for ever."""
    settings = {"segment_size": "16MiB", "log_file_size": "4MiB", "memtable_size": "2MiB"}
    with Daemon(drives=1, settings=settings).start() as daemon:
        s3 = client_of(daemon)
        s3.create_bucket(Bucket="churn")
        body = os.urandom(8 * MIB)
        for i in range(40):
            s3.put_object(Bucket="churn", Key=f"k{i % 2}", Body=body)
        s3.delete_object(Bucket="churn", Key="k1")

        def used():
            return sum(p.stat().st_blocks * 512 for p in daemon.drives[0].rglob("*") if p.is_file())

        deadline = time.monotonic() + 20 * PATIENCE
        while used() > 150 * MIB and time.monotonic() < deadline:
            time.sleep(0.2)
        assert used() <= 150 * MIB, used()
        assert read(s3, "churn", "k0") == body


# ---- credentials --------------------------------------------------------------------------------------------


def credentials_of(daemon, drive, *options):
    """As millraced shows them to a shell."""
    status, output = run_daemon(["--show-credentials", "--drive", drive, "--key-file", daemon.folder / "key", *options], env={"MILLRACE_KEY": ""})
    assert status == 0, output
    shown = dict(re.findall(r"^export (\w+)='(.*)'$", output, re.M))
    return {"access_key": shown["AWS_ACCESS_KEY_ID"], "secret_key": shown["AWS_SECRET_ACCESS_KEY"]}


def test_rotated_credentials():
    """New ones by a command, taken on SIGHUP; then a new key; then the key is lost."""
    with Daemon(drives=2, credentials=False).start() as daemon:
        base = [*(word for drive in daemon.drives for word in ("--drive", drive)), "--key-file", daemon.folder / "key"]
        first = credentials_of(daemon, daemon.drives[0])
        for option in ("--rotate-credentials", "--rotate-key"):
            status, output = run_daemon([option, *base], env={"MILLRACE_KEY": ""})
            assert status == 0, output
            second = credentials_of(daemon, daemon.drives[1])
            daemon.signal(signal.SIGHUP)
            daemon.wait_until(lambda: daemon.output().count("reloaded") >= (1 if option == "--rotate-credentials" else 2), 10, "to reload")
            make_client(daemon.endpoint, second["access_key"], second["secret_key"]).list_buckets()
        refused("InvalidAccessKeyId", 403, make_client(daemon.endpoint, first["access_key"], first["secret_key"]).list_buckets)
        daemon.stop()
        (daemon.folder / "key").rename(daemon.folder / "away")
        refuses([*base, *LISTEN], str(daemon.folder / "key"), env={"MILLRACE_KEY": ""})
        (daemon.folder / "away").rename(daemon.folder / "key")
        daemon.restart()
        make_client(daemon.endpoint, second["access_key"], second["secret_key"]).list_buckets()


def test_key_is_made_with_the_store():
    """Also where the credentials come from the environment; then it is left alone, and made by --rotate-key alone."""
    with Daemon(drives=2).start() as daemon:
        key = daemon.folder / "key"
        first = key.read_text()
        assert stat.S_IMODE(key.stat().st_mode) == 0o600 and f"new key in {key}" in daemon.output()
        daemon.stop()
        daemon.restart()
        daemon.stop()
        assert key.read_text() == first
        key.unlink()
        daemon.options = [option for option in daemon.options if option != "--format"]
        base = [*(word for drive in daemon.drives for word in ("--drive", drive)), "--key-file", key]
        status, output = run_daemon(["--rotate-key", *base], env={"MILLRACE_KEY": ""})
        assert status == 0 and key.read_text() != first, output
        daemon.restart()
        make_client(daemon.endpoint, daemon.access_key, daemon.secret_key).list_buckets()


def test_generated_credentials():
    """Made at format time, kept with mode 0600, shown once."""
    with Daemon(drives=2, credentials=False).start() as daemon:
        shown = daemon.output()
        files = [d / "CREDENTIALS" for d in daemon.drives]
        pairs = [credentials_of(daemon, drive) for drive in daemon.drives]
        assert pairs[0] == pairs[1] and len(pairs[0]["secret_key"]) >= 32
        assert not any(pairs[0][name] in f.read_text() for f in files for name in pairs[0])
        assert all(stat.S_IMODE(f.stat().st_mode) == 0o600 for f in files)
        assert pairs[0]["access_key"] in shown and pairs[0]["secret_key"] in shown
        daemon.access_key, daemon.secret_key = None, None
        make_client(daemon.endpoint, pairs[0]["access_key"], pairs[0]["secret_key"]).list_buckets()
        daemon.stop()
        daemon.restart()
        assert pairs[0]["secret_key"] not in daemon.output()
        make_client(daemon.endpoint, pairs[0]["access_key"], pairs[0]["secret_key"]).list_buckets()
        for known in ("minioadmin", "admin", "root", "millrace"):
            refused("InvalidAccessKeyId", 403, make_client(daemon.endpoint, known, known).list_buckets)
        daemon.stop()
        files[0].chmod(0o644)
        refuses(["--drive", daemon.drives[0], "--drive", daemon.drives[1], *LISTEN], "CREDENTIALS", env={})


def test_credentials_file_and_reload(tmp_path):
    path = tmp_path / "root"
    path.write_text("access_key = AKFIRSTKEY\nsecret_key = first-secret-of-some-length\n")
    path.chmod(0o600)
    with Daemon(credentials=False, settings={"root_credentials": str(path)}).start() as daemon:
        make_client(daemon.endpoint, "AKFIRSTKEY", "first-secret-of-some-length").list_buckets()
        path.write_text("access_key = AKSECONDKEY\nsecret_key = second-secret-of-some-length\n")
        daemon.signal(signal.SIGHUP)
        daemon.wait_until(lambda: "reloaded" in daemon.output(), 10, "to reload")
        make_client(daemon.endpoint, "AKSECONDKEY", "second-secret-of-some-length").list_buckets()
        refused("InvalidAccessKeyId", 403, make_client(daemon.endpoint, "AKFIRSTKEY", "first-secret-of-some-length").list_buckets)
        path.write_text("nonsense\n")
        daemon.signal(signal.SIGHUP)
        daemon.wait_until(lambda: daemon.output().count("reloaded") == 2, 10, "to reload")
        make_client(daemon.endpoint, "AKSECONDKEY", "second-secret-of-some-length").list_buckets()


def hup(daemon):
    """What the daemon says while it reloads."""
    before = len(daemon.output())
    daemon.signal(signal.SIGHUP)
    daemon.wait_until(lambda: "reloaded" in daemon.output()[before:], 30, "to reload")
    return daemon.output()[before:]


def enters(daemon, pair):
    make_client(daemon.endpoint, *pair).list_buckets()


OLD, NEW = ("AKFIRSTKEY", "first-secret-of-some-length"), ("AKSECONDKEY", "second-secret-of-some-length")
PAIR = "access_key = {}\nsecret_key = {}\n"
CREDENTIAL_FILES = {  # its text (None: no file), its mode, what is said; "": it is taken
    "missing": (None, 0, "there is no file"),
    "a folder": ("/", 0, ""),
    "for all to read": (PAIR.format(*NEW), 0o644, ""),
    "empty": ("", 0o600, "access key"),
    "half": ("access_key = AKSECONDKEY\n", 0o600, "secret key"),
    "twice": (PAIR.format(*NEW) + PAIR.format(*NEW), 0o600, "twice"),
    "short secret": (PAIR.format(NEW[0], "seven77"), 0o600, "secret key"),
    "long secret": (PAIR.format(NEW[0], "x" * 129), 0o600, "too long"),
    "long access key": (PAIR.format("A" * 129, NEW[1]), 0o600, "too long"),
    "another name": ("user = me\n", 0o600, "user"),
    "no text": ("\0\1\2" * 2000, 0o600, ""),
}


@pytest.fixture(scope="module")
def named_credentials(tmp_path_factory):
    path = tmp_path_factory.mktemp("credentials") / "root"
    path.write_text(PAIR.format(*OLD))
    path.chmod(0o600)
    with Daemon(credentials=False, settings={"root_credentials": str(path)}).start() as daemon:
        yield daemon, path


@pytest.mark.parametrize("name", CREDENTIAL_FILES)
def test_credentials_that_cannot_be_taken_at_sighup(named_credentials, name):
    """Those in force stay, and the log says why; a good file is taken by the next SIGHUP."""
    daemon, path = named_credentials
    text, mode, said = CREDENTIAL_FILES[name]
    path.unlink(missing_ok=True)
    if text == "/":
        path.mkdir()
    elif text is not None:
        path.write_text(text)
        path.chmod(mode)
    words = hup(daemon)
    assert "credentials stay as they are" in words and str(path) in words and said in words, words
    enters(daemon, OLD)
    refused("InvalidAccessKeyId", 403, make_client(daemon.endpoint, *NEW).list_buckets)
    if path.is_dir():
        path.rmdir()
    path.write_text(PAIR.format(*OLD))
    path.chmod(0o600)
    assert "stay" not in hup(daemon)
    enters(daemon, OLD)


def test_credentials_rotated_and_unchanged_at_sighup(named_credentials):
    daemon, path = named_credentials
    for pair, other in ((NEW, OLD), (NEW, OLD), (OLD, NEW), (OLD, NEW)):
        path.write_text(PAIR.format(*pair))
        path.chmod(0o600)
        assert "stay" not in hup(daemon)
        enters(daemon, pair)
        refused("InvalidAccessKeyId", 403, make_client(daemon.endpoint, *other).list_buckets)


def flip_last_digit(path):
    text = path.read_text().rstrip("\n")
    path.write_text(text[:-1] + ("1" if text[-1] == "0" else "0") + "\n")


SEALED = {  # what is done to the copies on these drives, and whether another copy is used
    "one missing": ((0,), lambda path: path.unlink(), True),
    "one damaged": ((0,), flip_last_digit, True),
    "one empty": ((0,), lambda path: path.write_text(""), True),
    "one cut": ((0,), lambda path: path.write_text(path.read_text()[:-20]), True),
    "one for all to read": ((0,), lambda path: path.chmod(0o644), False),
    "all missing": ((0, 1), lambda path: path.unlink(), False),
    "all damaged": ((0, 1), flip_last_digit, False),
    "all empty": ((0, 1), lambda path: path.write_text(""), False),
}


@pytest.fixture(scope="module")
def sealed_credentials():
    with Daemon(drives=2, credentials=False).start() as daemon:
        shown = credentials_of(daemon, daemon.drives[0])
        yield daemon, (shown["access_key"], shown["secret_key"])


@pytest.mark.parametrize("name", [*SEALED, "no key", "another key", "a broken key"])
def test_sealed_credentials_at_sighup(sealed_credentials, name):
    daemon, pair = sealed_credentials
    files = [drive / "CREDENTIALS" for drive in daemon.drives] + [daemon.folder / "key"]
    kept = [file.read_bytes() for file in files]
    if name in SEALED:
        slots, change, used = SEALED[name]
        for slot in slots:
            change(files[slot])
    else:
        used = False
        files[2].write_text({"no key": "", "another key": f"key = {'5' * 64}\n", "a broken key": "key = 12\n"}[name])
        if name == "no key":
            files[2].unlink()
    words = hup(daemon)
    assert ("credentials stay as they are" in words) == (not used), words
    enters(daemon, pair)
    for file, data in zip(files, kept):
        file.write_bytes(data)
        file.chmod(0o600)
    assert "stay" not in hup(daemon)
    enters(daemon, pair)


def test_credentials_of_the_environment_at_sighup():
    """They are the daemon's until it ends, whatever drives hold."""
    with Daemon(drives=2).start() as daemon:
        path = daemon.drives[0] / "CREDENTIALS"
        for text in ("", PAIR.format(*NEW)):
            path.write_text(text)
            path.chmod(0o600)
            assert "stay" not in hup(daemon)
            enters(daemon, (daemon.access_key, daemon.secret_key))
            refused("InvalidAccessKeyId", 403, make_client(daemon.endpoint, *NEW).list_buckets)


def test_half_given_credentials(tmp_path):
    drive = tmp_path / "d"
    drive.mkdir()
    refuses(["--drive", drive, "--format", *LISTEN], "MILLRACE_ROOT_", env={"MILLRACE_ROOT_ACCESS_KEY": "AKTESTKEY"})
    refuses(["--drive", drive, "--format", *LISTEN], "", env={"MILLRACE_ROOT_ACCESS_KEY": "AKTESTKEY", "MILLRACE_ROOT_SECRET_KEY": "short"})


# ---- admin listener -----------------------------------------------------------------------------------------


def test_health_and_metrics(pool, store, s3, bucket):
    daemon = store.daemon
    assert daemon.admin_get("/health/live")[0] == 200
    status, state = daemon.health_json()
    assert status == 200 and state["ready"] is True and len(state["drives"]) == 4
    s3.put_object(Bucket=bucket, Key="k", Body=b"x" * 1000)
    read(s3, bucket, "k")
    refused("NoSuchKey", 404, s3.get_object, Bucket=bucket, Key="none")
    figures = daemon.metrics()
    text = "\n".join(figures)
    assert "PutObject" in text and "GetObject" in text and "_bucket{" in text
    assert figures["millrace_ready"] == 1
    body = daemon.admin_get("/metrics")[1].decode()
    for line in body.splitlines():
        assert re.match(r"^(# (HELP|TYPE) (millrace|process)_\w+ .+|millrace_\w+(\{[^{}]*\})? [-+0-9.eEInfNa]+|process_\w+ [-+0-9.e]+)$", line), line
    assert f"{daemon.secret_key}" not in body


@pytest.mark.parametrize("path", ["/", "/health", "/health/other", "/admin/v1/info", "/admin/v1/verify", "/metrics/x", "/../metrics", "//metrics"])
def test_admin_calls_are_signed(store, path):
    status, body = store.daemon.admin_get(path)
    assert status in (401, 403, 404), (status, body)
    assert store.access_key.encode() not in body


def test_admin_on_a_raw_socket(store):
    """Malformed requests at the admin listener."""
    for data in (b"\r\n\r\n", b"GET /metrics HTTP/1.1\r\nHost: x\r\nX: " + b"y" * 100_000 + b"\r\n\r\n", b"\x16\x03\x01" + bytes(300), b"GET /" + b"a" * 60_000,
                 b"POST /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"):
        with socket.create_connection((store.host, store.daemon.admin_port), timeout=3) as sock:
            try:
                sock.sendall(data)
                sock.shutdown(socket.SHUT_WR)
                while sock.recv(65536):
                    pass
            except OSError:  # it may close before it has heard everything
                pass
    assert store.daemon.admin_get("/health/live")[0] == 200


def test_access_log(tmp_path):
    log = tmp_path / "access.log"
    with Daemon(settings={"access_log": str(log)}).start() as daemon:
        s3 = client_of(daemon)
        s3.create_bucket(Bucket="logged")
        put = s3.put_object(Bucket="logged", Key='k "q\n', Body=b"x" * 77)
        daemon.wait_until(lambda: log.exists() and log.read_text().count("\n") >= 2, 10, "to log")
        lines = [json.loads(line) for line in log.read_text().splitlines()]
        request = [line for line in lines if put["ResponseMetadata"]["HTTPHeaders"]["x-amz-request-id"] in line.values()]
        assert len(request) == 1 and request[0]["status"] == 200, lines
        assert daemon.secret_key not in log.read_text() and "Signature" not in log.read_text()
        log.rename(tmp_path / "old.log")
        daemon.signal(signal.SIGHUP)
        daemon.wait_until(lambda: "reloaded" in daemon.output(), 10, "to reload")
        s3.list_buckets()
        daemon.wait_until(lambda: log.exists() and "ListBuckets" in log.read_text(), 10, "to log into the new file")


def test_the_access_log_names_the_trace(tmp_path):
    """Of a well-formed traceparent, and of no other: the header takes part in nothing but the line."""
    log, trace, parent = tmp_path / "access.log", "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
    sent = [f"00-{trace}-{parent}-01", f"00-{trace}-{parent}", f'00-{trace[:-1]}"-{parent}-01', "x" * 8000]
    with Daemon(drives=1, settings={"access_log": str(log)}).start() as daemon:
        raw = store_of(daemon).raw
        for value in sent:
            assert raw.request("GET", "/", unsigned_headers={"traceparent": value}).status == 200
            assert raw.plain("GET", "/", headers={"traceparent": value}).status == 403
        daemon.wait_until(lambda: log.exists() and log.read_text().count("\n") == 2 * len(sent), 10, "to log")
        lines = [json.loads(line) for line in log.read_text().splitlines()]
        found = sorted((line.get("trace_id", ""), line.get("parent_id", ""), line["status"]) for line in lines)
        assert found == [*[("", "", 200)] * 3, *[("", "", 403)] * 3, (trace, parent, 200), (trace, parent, 403)], lines
        assert "xxxx" not in log.read_text()


# ---- signals ------------------------------------------------------------------------------------------------


def test_sigterm_finishes_what_runs():
    with Daemon(drives=1).start() as daemon:
        raw = store_of(daemon).raw
        client_of(daemon).create_bucket(Bucket="drain")
        head, body = raw.build("PUT", "/drain/k", body=b"x" * 2_000_000, payload=UNSIGNED)
        with raw.connect() as running, raw.connect() as idle:
            running.send(head + body[:1_000_000])
            eventually(lambda: metric(daemon, "millrace_changes_active") == 1)
            daemon.signal(signal.SIGTERM)
            daemon.wait_until(lambda: daemon.admin_get("/health/ready")[0] == 503, 10, "to begin to stop")
            assert "stopping" in daemon.output()
            time.sleep(0.3)
            with pytest.raises((ConnectionRefusedError, ConnectionResetError, ConnectionClosed)):
                with raw.connect(3) as late:
                    late.send(raw.build("GET", "/")[0])
                    late.answer()
            running.send(body[1_000_000:])
            assert running.answer("PUT").status == 200
            assert idle.closed(10)
        assert daemon.process.wait(40 * PATIENCE) == 0
        daemon.restart()
        assert read(client_of(daemon), "drain", "k") == b"x" * 2_000_000


def opened_by_reader(fifo):
    """For writing, as soon as somebody reads it."""
    until = time.monotonic() + 20 * PATIENCE
    while True:
        try:
            return os.fdopen(os.open(fifo, os.O_WRONLY | os.O_NONBLOCK), "w")
        except OSError as error:
            if error.errno != errno.ENXIO or time.monotonic() > until:
                raise
        time.sleep(0.002)


@pytest.mark.parametrize("where", ["on a machine", "in a cluster"])
def test_sigterm_before_it_has_begun(tmp_path, where):
    """It is taken when there is something to end, and the end is a good one."""
    drive, config, said = tmp_path / "drive", tmp_path / "millrace.conf", tmp_path / "said"
    drive.mkdir()
    os.mkfifo(config)
    settings = {"listen": "127.0.0.1:0", "admin": "127.0.0.1:0", "drive": drive}
    if where == "in a cluster":
        for words in (["ca", str(tmp_path), "c"], ["node", str(tmp_path), "n1"]):
            subprocess.run([str(CLI), "cluster", "cert", *words], check=True, timeout=60, stdout=subprocess.DEVNULL)
        settings |= {"cluster": "c", "etcd": "http://127.0.0.1:1", "node": "n1", "cluster_listen": f"127.0.0.1:{free_row(1)}", "cluster_ca": tmp_path / "ca.crt",
                     "cluster_cert": tmp_path / "n1.crt", "cluster_key": tmp_path / "n1.key"}
    with open(said, "wb") as out:
        process = subprocess.Popen([*mortal(), str(PROGRAM), "--config", str(config), "--format"], stdin=subprocess.DEVNULL, stdout=out, stderr=out,
                                   env={**os.environ, **sanitizer_environment(), **KEYS, "MILLRACE_KEY": "00" * 32})
    try:
        with opened_by_reader(config) as lines:  # it waits for what is in the file
            process.send_signal(signal.SIGTERM)
            time.sleep(0.2)
            lines.write("".join(f"{name} = {value}\n" for name, value in settings.items()))
        assert process.wait(40 * PATIENCE) == 0, said.read_text()
    finally:
        process.kill()
        process.wait()
    assert "stopping" in said.read_text() or where == "in a cluster", said.read_text()  # a node that has not joined has nothing to stop


def test_sigterm_does_not_wait_for_ever():
    with Daemon(drives=1, settings={"drain_timeout": "1s"}).start() as daemon:
        raw = store_of(daemon).raw
        client_of(daemon).create_bucket(Bucket="drain")
        head, body = raw.build("PUT", "/drain/k", body=b"x" * 2_000_000, payload=UNSIGNED)
        with raw.connect() as stuck:
            stuck.send(head + body[:1000])
            time.sleep(0.2)
            started = time.monotonic()
            assert daemon.terminate() == 0
            assert time.monotonic() - started < 10 * PATIENCE
        daemon.restart()
        assert keys_of(client_of(daemon), "drain") == []


def test_restarts_keep_everything():
    settings = {"segment_size": "16MiB", "log_file_size": "4MiB", "memtable_size": "2MiB"}
    with Daemon(drives=2, settings=settings).start() as daemon:
        s3 = client_of(daemon)
        s3.create_bucket(Bucket="kept")
        bodies = {}
        for round_number in range(4):
            for i in range(60):
                key = f"k{i}"
                if (i + round_number) % 7 == 0 and key in bodies:
                    s3.delete_object(Bucket="kept", Key=key)
                    del bodies[key]
                else:
                    bodies[key] = os.urandom(20_000 if i % 9 else 300_000)
                    s3.put_object(Bucket="kept", Key=key, Body=bodies[key])
            (daemon.stop if round_number % 2 else daemon.kill)()
            daemon.restart()
            s3 = client_of(daemon)
            holds(s3, bodies)


# ---- limits -------------------------------------------------------------------------------------------------


def test_slow_clients_are_ended():
    """No byte for idle_timeout, or no whole head within request_timeout: the connection ends."""
    with Daemon(drives=1, settings={"idle_timeout": "1s", "request_timeout": "2s"}).start() as daemon:
        raw = store_of(daemon).raw
        client_of(daemon).create_bucket(Bucket="slow")
        wait = 6 * PATIENCE
        with raw.connect() as silent, raw.connect() as half, raw.connect() as drip, raw.connect() as upload:
            half.send(b"GET / HTTP/1.1\r\nHost: x\r\n")
            head, body = raw.build("PUT", "/slow/k", body=b"x" * 300_000, payload=UNSIGNED)
            upload.send(head + body[:1000])
            started = time.monotonic()
            ended = False
            while time.monotonic() - started < wait and not ended:
                try:
                    drip.send(b"a")
                except (BrokenPipeError, ConnectionResetError):
                    ended = True
                time.sleep(0.25)
            assert ended, "a head that comes a byte at a time must end"
            for connection in (silent, half):
                end_of(connection, wait)
            answer = end_of(upload, wait)
            assert answer is None or (answer.status, answer.code) == (400, "RequestTimeout"), answer
        assert keys_of(client_of(daemon), "slow") == []
        with raw.connect() as good:
            for _ in range(3):
                assert raw.request("GET", "/slow", connection=good, query=[("list-type", "2")]).status == 200
                time.sleep(0.5)


def end_of(connection, timeout):
    """The answer that came before the end, if any; fails if there is no end."""
    connection.socket.settimeout(timeout)
    answer = None
    try:
        answer = connection.answer()
    except ConnectionClosed:
        return None
    assert connection.closed(timeout)
    return answer


def test_connection_limit():
    with Daemon(drives=1, loops=1, settings={"max_connections": "50"}).start() as daemon:
        raw = store_of(daemon).raw
        open_ones = []
        try:
            for _ in range(120):
                open_ones.append(socket.create_connection((raw.host, raw.port), timeout=5))
            time.sleep(0.3)
        finally:
            for sock in open_ones:
                sock.close()
        time.sleep(0.3)
        assert raw.request("GET", "/").status == 200


def test_full_store():
    """Where the reserve is reached, PUTs get 507 and deletes still work."""
    with Daemon(drives=1).start() as daemon:
        s3 = client_of(daemon)
        s3.create_bucket(Bucket="full")
        s3.put_object(Bucket="full", Key="k", Body=bytes(200_000))
        daemon.stop()
        daemon.settings["full_reserve"] = "16TiB"
        daemon.restart()
        s3 = client_of(daemon)
        for size in (10, 500_000):
            refused(("InsufficientStorage", "507"), 507, s3.put_object, Bucket="full", Key="n", Body=bytes(size))
        assert read(s3, "full", "k") == bytes(200_000)
        assert keys_of(s3, "full") == ["k"]
        s3.delete_object(Bucket="full", Key="k")
        assert keys_of(s3, "full") == []


# ---- addressing, TLS, users ---------------------------------------------------------------------------------


def test_virtual_hosts():
    with Daemon(drives=1, settings={"domain": "s3.example.test,other.test"}).start() as daemon:
        raw = store_of(daemon).raw
        for host in ("vbucket.s3.example.test", f"vbucket.s3.example.test:{daemon.port}", "vbucket.other.test", "VBucket.S3.Example.TEST"):
            name = "vbucket"
            assert raw.request("PUT", "/", host=host).status == 200, host
            assert raw.request("PUT", "/a/b c", host=host, body=b"x").status == 200
            assert raw.request("GET", "/a/b c", host=host).body == b"x"
            answer = raw.request("GET", "/", host=host, query=[("list-type", "2")])
            assert answer.xml.findtext("Name") == name and answer.xml.findtext("Contents/Key") == "a/b c"
            assert raw.request("GET", f"/{name}/a/b c").body == b"x"
        assert raw.request("GET", "/", host="s3.example.test").xml.tag == "ListAllMyBucketsResult"
        assert raw.request("GET", "/vbucket/a/b c", host="s3.example.test").body == b"x"
        assert raw.request("GET", "/vbucket/a/b c", host="unknown.example").body == b"x"
        answer = raw.request("PUT", "/", host="dotted.name.s3.example.test")
        assert answer.status == 200 and raw.request("HEAD", "/dotted.name").status == 200


@pytest.fixture
def certificate(tmp_path):
    """make(name) -> (certificate, key) of a new self-signed pair for 127.0.0.1."""
    def make(name):
        cert, key = tmp_path / f"{name}.pem", tmp_path / f"{name}.key"
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj",
                        f"/CN={name}", "-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost", "-keyout", key, "-out", cert],
                       check=True, capture_output=True)
        return cert, key
    return make


def test_tls(certificate, rng):
    """awscli and boto3 send STREAMING-UNSIGNED-PAYLOAD-TRAILER over TLS; certificates are reloaded on SIGHUP."""
    cert, key = certificate("first")
    with Daemon(drives=2, options=["--tls-cert", str(cert), "--tls-key", str(key)]) as daemon:
        daemon.tls = True
        daemon.start()
        s3 = client_of(daemon, verify=str(cert))
        s3.create_bucket(Bucket="secure")
        for size in (0, 10, 200_000, 5 * MIB + 1):
            data = rng.randbytes(size)
            s3.put_object(Bucket="secure", Key="k", Body=data)
            assert read(s3, "secure", "k") == data
        with pytest.raises(Exception, match="(?i)ssl|certificate"):
            client_of(daemon).list_buckets()
        with socket.create_connection((daemon.host, daemon.port), timeout=5) as plain:
            plain.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            plain.settimeout(10)
            assert b" 200 " not in plain.recv(4096)
        second, second_key = certificate("second")
        shutil.copy(second, cert)
        shutil.copy(second_key, key)
        daemon.signal(signal.SIGHUP)
        daemon.wait_until(lambda: "reloaded" in daemon.output(), 10, "to reload")
        assert read(client_of(daemon, verify=str(second)), "secure", "k") == data
        cert.write_text("nonsense")
        daemon.signal(signal.SIGHUP)
        daemon.wait_until(lambda: daemon.output().count("reloaded") == 2, 10, "to reload")
        assert read(client_of(daemon, verify=str(second)), "secure", "k") == data


@pytest.mark.slow
def test_tls_under_load(certificate, rng):
    cert, key = certificate("first")
    with Daemon(drives=1, options=["--tls-cert", str(cert), "--tls-key", str(key)]) as daemon:
        daemon.tls = True
        daemon.start()
        s3 = client_of(daemon, verify=str(cert))
        s3.create_bucket(Bucket="secure")
        data = rng.randbytes(3 * MIB)
        wrong = []

        def work(n):
            for i in range(6):
                s3.put_object(Bucket="secure", Key=f"k{n}-{i}", Body=data[n * 1000:])
                if read(s3, "secure", f"k{n}-{i}") != data[n * 1000:]:
                    wrong.append((n, i))

        threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not wrong and len(keys_of(s3, "secure")) == 48


def test_as_an_unprivileged_user():
    if os.getuid() != 0:
        pytest.skip("needs root to become someone else")
    daemon = Daemon(drives=2)
    with daemon:
        for path in (daemon.folder, *daemon.drives):
            os.chown(path, 65534, 65534)
        plain = daemon.command
        daemon.command = lambda: ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", *plain()]
        try:
            daemon.start()
        except Exception as error:
            if "Permission denied" in str(error) and not os.access("/proc/self/exe", os.X_OK):
                pytest.skip("the build folder is not open to others")
            raise
        assert os.stat(f"/proc/{daemon.process.pid}").st_uid == 65534
        fill(client_of(daemon), 6)


def test_ipv6():
    if not socket.has_ipv6:
        pytest.skip("no IPv6")
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError:
        pytest.skip("no IPv6 loopback")
    with Daemon(drives=1) as daemon:
        daemon.host = "[::1]"
        plain = daemon.command
        daemon.command = lambda: [a.replace("[::1]", "127.0.0.1") if plain()[i - 1] == "--admin" else a for i, a in enumerate(plain())]
        daemon.spawn()
        daemon.wait_until(lambda: "ready" in daemon.output(), 20, "to be ready")
        port = int(re.search(r"listening on \[::1\]:(\d+)", daemon.output()).group(1))
        make_client(f"http://[::1]:{port}", daemon.access_key, daemon.secret_key).list_buckets()
