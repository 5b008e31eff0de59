"""Connections and event loops."""
import pytest

from tests.integration.test_daemon import store_of
from tests.support.daemon import Daemon

pytestmark = pytest.mark.daemon


def test_connections_are_spread_evenly():
    """A loop takes its share of max_connections and no more, so as many as that are served at once only if each loop has as many as the
    others; the kernel's hash of addresses would hardly ever see to that."""
    with Daemon(drives=1, loops=4, settings={"max_connections": "64"}).start() as daemon:
        raw = store_of(daemon).raw
        for _ in range(3):
            connections = [raw.connect() for _ in range(64)]
            try:
                for _ in range(2):
                    for connection in connections:
                        assert raw.request("GET", "/", connection=connection).status == 200
            finally:
                for connection in connections:
                    connection.close()
            daemon.wait_until(lambda: daemon.metrics()["millrace_connections_open"] == 0, 20, "to see them closed")
