"""An operator's day: a drive is lost and replaced, vanishes and is back, is given back, and what the commands say of it."""
import json
import os
import shutil
import subprocess

import pytest

from tests.conftest import SEED, Store, make_client
from tests.crash.history import History
from tests.support.daemon import CLI, PATIENCE, Daemon, sanitizer_environment
from tests.support.expect import read

MIB = 1 << 20
pytestmark = pytest.mark.daemon


def client_of(daemon):
    return make_client(daemon.endpoint, daemon.access_key, daemon.secret_key, retries=6)


def cli(daemon, *arguments, status=0, env=None):
    env = {"PATH": os.environ["PATH"], "HOME": str(daemon.folder), "MILLRACE_ENDPOINT": daemon.endpoint,
           "MILLRACE_ROOT_ACCESS_KEY": daemon.access_key, "MILLRACE_ROOT_SECRET_KEY": daemon.secret_key,
           "MILLRACE_ADMIN": f"http://{daemon.host}:{daemon.admin_port}", **sanitizer_environment(), **(env or {})}
    done = subprocess.run([str(CLI), *map(str, arguments)], env=env, capture_output=True, text=True, timeout=60 * PATIENCE, check=False)
    assert done.returncode == status, (arguments, done.returncode, done.stdout[-2000:], done.stderr[-2000:])
    return done.stdout + done.stderr


def fill(s3, count=12):
    s3.create_bucket(Bucket="kept")
    bodies = {}
    for i in range(count):
        bodies[f"k{i}"] = bytes([i]) * (100 + i, 300_000 + i, 3 * MIB + i)[i % 3]
        s3.put_object(Bucket="kept", Key=f"k{i}", Body=bodies[f"k{i}"])
    return bodies


def holds(s3, bodies):
    for key, body in bodies.items():
        assert read(s3, "kept", key) == body


def drives_in(daemon, count):
    daemon.wait_until(lambda: daemon.health_json()[1]["drives_in"] == count, 40, f"to have {count} drives in")


def whole(daemon):
    def look():
        drives = json.loads(cli(daemon, "admin", "drive", "status", "--json"))["drives"]
        return all(d["state"] == "in" and not d["filling"] for d in drives)

    daemon.wait_until(look, 60, "to have all drives in and filled")


def digests(report):
    return {d["slot"]: (d["shards"], d["bytes"], d["digest"]) for d in report["drives"]}


@pytest.mark.parametrize("slot", [0, 1])
def test_a_lost_drive_is_replaced(slot):
    with Daemon(drives=4, ec="2+2").start() as daemon:
        s3 = client_of(daemon)
        bodies = fill(s3)
        daemon.drives[slot].rename(daemon.folder / "broken")
        drives_in(daemon, 3)
        assert "failed" in cli(daemon, "admin", "drive", "status", status=1)
        new = daemon.folder / "new drive +%"
        new.mkdir()
        said = cli(daemon, "admin", "drive", "replace", slot, new)
        assert "next start" in said and str(new) in said
        whole(daemon)
        holds(s3, bodies)
        report = json.loads(cli(daemon, "admin", "heal", "status", "--json"))["last"]
        found = json.loads(cli(daemon, "admin", "verify", "--json"))
        assert found["missing_shards"] == found["damaged_shards"] == 0
        assert digests(report)[slot] == digests(found)[slot]
        assert report["done_objects"] == report["todo_objects"] == 8
        assert "digest" in cli(daemon, "admin", "heal", "status")
        state = daemon.health_json()[1]
        assert state["objects_below_redundancy"] == 0 and not state["healing"]
        shutil.rmtree(daemon.folder / "broken")
        daemon.stop()
        daemon.drives[slot] = new
        daemon.start()
        whole(daemon)
        for gone in {0, 1, 2} - {slot}:  # two of four are enough to read everything, the new one among them
            daemon.drives[gone].rename(daemon.folder / f"away{gone}")
        holds(client_of(daemon), bodies)


@pytest.mark.parametrize("vanishes, given_back", [(0, 3), (2, 0)])
def test_a_vanished_drive_is_back(vanishes, given_back):
    with Daemon(drives=4, ec="2+2").start() as daemon:
        s3 = client_of(daemon)
        bodies = fill(s3)
        daemon.drives[vanishes].rename(daemon.folder / "away")
        drives_in(daemon, 3)
        s3.delete_object(Bucket="kept", Key="k0")
        del bodies["k0"]
        bodies["k1"] = b"newer" * 100_000
        s3.put_object(Bucket="kept", Key="k1", Body=bodies["k1"])
        (daemon.folder / "away").rename(daemon.drives[vanishes])
        whole(daemon)
        daemon.drives[given_back].rename(daemon.folder / "gone")
        drives_in(daemon, 3)
        assert "use" in cli(daemon, "admin", "drive", "return", vanishes, status=1)
        assert "k0" not in [o["Key"] for o in s3.list_objects_v2(Bucket="kept")["Contents"]]
        (daemon.folder / "gone").rename(daemon.folder / "elsewhere")
        cli(daemon, "admin", "drive", "return", given_back, daemon.folder / "elsewhere")
        whole(daemon)
        holds(s3, bodies)


def test_a_drive_is_added_and_another_removed():
    """Under load; what was acknowledged is judged before and after a restart that is given the drives as they are then."""
    with Daemon(drives=4, ec="2+2").start() as daemon:
        s3 = client_of(daemon)
        bodies = fill(s3)
        history = History(f"{SEED}/reshape", "moved", workers=4)
        s3.create_bucket(Bucket="moved")

        def states():
            return [(d["state"], d["leaving"]) for d in json.loads(cli(daemon, "admin", "drive", "status", "--json"))["drives"]]

        def change_drives():
            new = daemon.folder / "more"
            new.mkdir()
            said = cli(daemon, "admin", "drive", "add", new)
            assert "slot 4" in said and "next start" in said
            daemon.wait_until(lambda: states() == 5 * [("in", False)], 60, "to have the new drive in")
            daemon.drives.append(new)
            assert "slot 0" in cli(daemon, "admin", "drive", "remove", 0)
            again = cli(daemon, "admin", "drive", "remove", 0, status=1)
            assert "already" in again or "removed before" in again, again  # it may have gone meanwhile
            daemon.wait_until(lambda: states()[0] == ("removed", False), 120, "to have removed the drive")

        history.load(lambda: client_of(daemon), 1, change_drives)
        assert history.check(s3, restarted=False) > 0
        holds(s3, bodies)
        health = daemon.health_json()[1]
        assert (health["drives_in"], health["drives_total"]) == (4, 4)
        assert daemon.metrics()["millrace_drives"] == 4
        found = json.loads(cli(daemon, "admin", "verify", "--json"))
        assert found["missing_shards"] == found["damaged_shards"] == found["unreadable_objects"] == 0
        assert "so few drives" in cli(daemon, "admin", "drive", "remove", 1, status=1)
        daemon.stop()
        shutil.rmtree(daemon.drives.pop(0))
        daemon.format = False
        daemon.restart(60)
        s3 = client_of(daemon)
        drives_in(daemon, 4)
        holds(s3, bodies)
        history.check(s3)


def test_what_is_refused():
    with Daemon(drives=4, ec="2+2").start() as daemon:
        empty = daemon.folder / "empty"
        empty.mkdir()
        assert "in use" in cli(daemon, "admin", "drive", "replace", 0, empty, status=1)
        assert "no such slot" in cli(daemon, "admin", "drive", "replace", 7, empty, status=1)
        assert "SLOT" in cli(daemon, "admin", "drive", "replace", "x", empty, status=2)
        assert "SLOT" in cli(daemon, "admin", "drive", "remove", "x", status=2)
        assert "no such slot" in cli(daemon, "admin", "drive", "remove", 9, status=1)
        assert "so few drives" in cli(daemon, "admin", "drive", "remove", 0, status=1)
        assert "whole path" in cli(daemon, "admin", "drive", "add", "empty", status=1)  # in a cluster the word may be a node
        assert "not empty" in cli(daemon, "admin", "drive", "add", daemon.drives[1], status=1)
        assert "no folder" in cli(daemon, "admin", "drive", "add", daemon.folder / "nowhere", status=1)
        assert "whole path" in cli(daemon, "admin", "drive", "replace", 0, "empty", status=1)
        daemon.drives[0].rename(daemon.folder / "away")
        drives_in(daemon, 3)
        assert "not empty" in cli(daemon, "admin", "drive", "replace", 0, daemon.drives[1], status=1)
        assert "no folder" in cli(daemon, "admin", "drive", "replace", 0, daemon.folder / "nowhere", status=1)
        assert list(empty.iterdir()) == []
        raw = Store(daemon.host, daemon.admin_port, daemon.access_key, daemon.secret_key, daemon).raw
        assert daemon.admin_get("/admin/v1/drives")[0] == 403
        for query in ([], [("action", "replace")], [("action", "replace"), ("slot", "0")], [("action", "eat"), ("slot", "0")],
                      [("action", "replace"), ("slot", "0"), ("path", "relative")], [("action", "replace"), ("slot", "-1"), ("path", "/x")],
                      [("action", "add")], [("action", "add"), ("path", "relative")], [("action", "add"), ("path", "/x"), ("slot", "5")],
                      [("action", "remove")], [("action", "remove"), ("slot", "0"), ("path", "/x")],
                      [("action", "return"), ("slot", "0"), ("slot", "1")], [("action", "replace"), ("slot", "0"), ("path", "/x\0y")]):
            answer = raw.request("POST", "/admin/v1/drives", query=query)
            assert answer.status == 400, (query, answer)
        assert raw.request("GET", "/admin/v1/drives", query=[("number", "99")]).status == 404
        assert raw.request("POST", "/admin/v1/heal").status == 405


def test_scrub():
    with Daemon(drives=4, ec="2+2", settings={"scrub_interval": "1h", "scrub_period": "1h"}).start() as daemon:
        fill(client_of(daemon))
        assert "at rest" in cli(daemon, "admin", "scrub", "status")
        cli(daemon, "admin", "scrub", "start")
        daemon.wait_until(lambda: json.loads(cli(daemon, "admin", "scrub", "status", "--json"))["last"]["ended_ms"] > 0, 60, "to be scrubbed")
        rounds = lambda: [d["last_ended_ms"] for d in json.loads(cli(daemon, "admin", "scrub", "status", "--json"))["data"]]
        daemon.wait_until(lambda: len(rounds()) == 4 and all(rounds()), 60, "to have the data of all drives read")
        assert daemon.metrics()["millrace_heal_rate"] >= 64 << 20 and "rate allowed now: " in cli(daemon, "admin", "heal", "status")
        assert json.loads(cli(daemon, "admin", "heal", "status", "--json"))["rate"] >= 64 << 20
        said = cli(daemon, "admin", "scrub", "status")
        assert "12 objects" in said and "0 damaged" in said and said.count("0 shards damaged") == 4
        assert sum(v for k, v in daemon.metrics().items() if k.startswith("millrace_drive_scrub_damaged_total")) == 0
        assert daemon.metrics()["millrace_scrub_missing_shards"] == 0
    with Daemon(drives=1, settings={"scrub_rate": "0"}).start() as daemon:
        assert "scrub_rate" in cli(daemon, "admin", "scrub", "start", status=1)
