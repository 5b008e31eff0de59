"""The forecast of when drives are full, from the daemon's own looks at them: what it says of a store that fills, and of one that is emptied. A second counts
as six hours here; the arithmetic is in tests/unit/server/test_forecast.c. On a tmpfs, where nobody else writes; skipped without the right to mount one."""
import json
import math

import pytest

from tests.integration.test_drives import cli
from tests.integration.test_full import client_of, drives_on, small  # noqa: F401
from tests.support.daemon import Daemon

pytestmark = pytest.mark.daemon
MIB = 1 << 20
STORE, DRIVE = "millrace_full_forecast_seconds", "millrace_drive_full_forecast_seconds"


def forecast(daemon):
    """Of the store and of its one drive: always the same."""
    metrics = daemon.metrics()
    of_drive = [value for series, value in metrics.items() if series.startswith(DRIVE + "{")]
    assert of_drive == [metrics[STORE]]
    return metrics[STORE]


def of_info(daemon):
    info = json.loads(cli(daemon, "admin", "info", "--json"))
    assert info["drives"][0]["full_in_seconds"] == info["full_in_seconds"]
    return info["full_in_seconds"]


def test_a_store_that_fills_and_is_emptied(small):  # noqa: F811
    settings = {"test_forecast_speed": 21600, "full_reserve": "16MiB", "segment_size": "16MiB", "log_file_size": "4MiB", "memtable_size": "2MiB"}
    with Daemon(drive_paths=drives_on(small(1500), 1), settings=settings).start() as daemon:
        s3 = client_of(daemon)
        s3.create_bucket(Bucket="bucket")
        assert forecast(daemon) == math.inf and of_info(daemon) is None
        stored = 0

        def grows():
            nonlocal stored
            s3.put_object(Bucket="bucket", Key=f"k{stored}", Body=bytes(4 * MIB))
            stored += 1
            return stored > 8 and forecast(daemon) < math.inf

        daemon.wait_until(grows, 60, "to see that it grows")
        assert 0 < forecast(daemon) < 10 * 365 * 86400
        assert of_info(daemon) is not None and "at the pace of the last hours or days" in cli(daemon, "admin", "info")
        for i in range(stored):
            s3.delete_object(Bucket="bucket", Key=f"k{i}")
        daemon.wait_until(lambda: forecast(daemon) == math.inf, 90, "to see that it does not grow any more")


def test_a_full_store(small):  # noqa: F811
    with Daemon(drive_paths=drives_on(small(300), 1), settings={"full_reserve": "299MiB", "segment_size": "16MiB", "log_file_size": "4MiB"}).start() as daemon:
        daemon.wait_until(lambda: forecast(daemon) == 0, 30, "to see that it is full")
        assert json.loads(cli(daemon, "admin", "info", "--json", status=0))["full_in_seconds"] == 0
