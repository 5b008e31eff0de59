"""The clock by which retention ends, with the real daemon, whose wall clock jumps: docs/design/bucket-rules.md, "The lock clock"."""
import json
import time

import pytest

from tests.integration.test_drives import cli, client_of
from tests.support.clock import Clock
from tests.support.daemon import PATIENCE, Daemon

HOUR, DAY = 3600, 86400
SOON = 600 * PATIENCE  # seconds; more than a test takes
pytestmark = pytest.mark.daemon


@pytest.fixture
def site(tmp_path):
    """A daemon, and what `millrace` says of it, with one wall clock."""
    clock = Clock(tmp_path)
    with Daemon(drives=4, ec="2+2", env=clock.env).start() as daemon:
        daemon.clock = clock
        daemon.s3 = client_of(daemon)
        yield daemon


def run(site, *arguments, status=0):
    return cli(site, *arguments, status=status, env=site.clock.env)


def lock_clock(site, *arguments, frozen=False):
    state = json.loads(run(site, "admin", "lock-clock", "--json", *arguments, status=int(frozen)))
    assert state["frozen"] == frozen and (state["frozen_since_ms"] > 0) == frozen and state["in_use"], state
    assert abs(state["wall_ms"] / 1000 - time.time() - site.clock.ahead_s) < SOON
    return state


def shows(site, ahead_s, **arguments):
    """The lock clock shows the real time and this."""
    return abs(lock_clock(site, **arguments)["lock_ms"] / 1000 - time.time() - ahead_s) < SOON


def locked(site, key, seconds):
    """A version that is locked for so long, and the command that deletes it."""
    if "archive" not in [bucket["Name"] for bucket in site.s3.list_buckets()["Buckets"]]:
        site.s3.create_bucket(Bucket="archive", ObjectLockEnabledForBucket=True)
    version = site.s3.put_object(Bucket="archive", Key=key, Body=b"kept", ObjectLockMode="COMPLIANCE",
                                 ObjectLockRetainUntilDate=site.clock.time(seconds))["VersionId"]
    return "rm", "--version-id", version, f"s3://archive/{key}"


def restart(site, ahead_s):
    site.stop()
    site.clock.set(ahead_s)
    site.restart()


def told(site):
    """Whether it is frozen, by health, metric and what `millrace` says, which agree."""
    status, health = site.health_json()
    info = json.loads(run(site, "admin", "info", "--json"))
    frozen = site.metrics()["millrace_lock_clock_frozen"] == 1
    assert status == 200 and health["ready"] and health["writable"]
    assert health["lock_clock_frozen"] == info["lock_clock_frozen"] == frozen and ("lock clock" in health["reason"]) == frozen
    assert ("FROZEN" in run(site, "admin", "info", status=int(frozen))) == frozen
    assert ("FROZEN" in run(site, "admin", "lock-clock", status=int(frozen))) == frozen
    return frozen


def test_a_running_daemon_does_not_follow_jumps(site):
    soon, late = locked(site, "soon", 8 * PATIENCE), locked(site, "late", 30 * DAY)
    began = time.monotonic()
    site.clock.set(40 * DAY)
    assert shows(site, 0)
    run(site, *late, status=1)
    if time.monotonic() - began < 6 * PATIENCE:
        run(site, *soon, status=1)
    time.sleep(max(0, 8 * PATIENCE + 1 - (time.monotonic() - began)))
    run(site, *soon)  # by the time that has passed
    run(site, *late, status=1)

    site.clock.set(-40 * DAY)  # back: it stands
    stands = lock_clock(site)["lock_ms"]
    time.sleep(0.1)
    assert lock_clock(site)["lock_ms"] == stands
    run(site, *late, status=1)
    site.clock.set(0)
    assert stands < lock_clock(site)["lock_ms"] and shows(site, 0) and not told(site)


def test_a_jump_across_a_restart_freezes_until_it_is_confirmed(site):
    late = locked(site, "late", 30 * DAY)
    restart(site, 23 * HOUR)  # it was off for so long
    site.wait_until(lambda: shows(site, 23 * HOUR), 10, "to take what it gains")
    assert abs(lock_clock(site)["budget_ms"] / 1000 - HOUR) < SOON and not told(site)
    restart(site, 26 * HOUR)  # no day, but more than what is left
    assert shows(site, 23 * HOUR, frozen=True) and told(site)

    restart(site, 40 * DAY)
    assert shows(site, 23 * HOUR, frozen=True) and told(site)
    run(site, *late, status=1)
    assert site.output().count("lock clock frozen: lock_time=") == 1
    wrong = run(site, "admin", "lock-clock", "--confirm", site.clock.text(-300), status=1)
    assert "409" in wrong and "more than a minute" in wrong, wrong
    assert told(site) and "confirmed" not in site.output()

    state = lock_clock(site, "--confirm", site.clock.text(5))
    assert state["budget_ms"] == DAY * 1000 and shows(site, 40 * DAY) and not told(site)
    site.wait_until(lambda: "lock clock confirmed: lock_time=" in site.output(), 10, "to log it")
    assert site.output().count("lock clock confirmed") == site.output().count("lock clock frozen") == 1
    run(site, *late)
    site.kill()
    site.restart()
    assert shows(site, 40 * DAY) and not told(site)


def test_refusals(site):
    def refused(why):
        answer = run(site, "admin", "lock-clock", "--confirm", site.clock.text(), status=1)
        assert why in answer, answer

    refused("no bucket")
    assert "not in use" in run(site, "admin", "lock-clock")
    for time_of in ("0s", "now", "1d"):
        run(site, "admin", "lock-clock", "--confirm", time_of, status=2)
    locked(site, "late", DAY)
    lock_clock(site, "--confirm", site.clock.text())
    site.stop()
    for drive in site.drives[2:]:
        drive.rename(drive.with_suffix(".away"))
    site.drives = site.drives[:2]
    site.settings["drive_wait"] = "1s"
    site.restart()
    assert not site.health_json()[1]["writable"]
    refused("takes no changes")
    assert not lock_clock(site)["frozen"]
