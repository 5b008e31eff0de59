"""Clients that know every node of a cluster: what they ask goes to all, and goes on when the node that leads is killed. And a list of which one endpoint is not there."""
import contextlib
import subprocess

import pytest

import millrace
from tests.integration.test_drives import cli
from tests.support.cluster import Cluster, wait_until
from tests.support.ports import free_ports
from tests.support.daemon import CLI, PATIENCE, sanitizer_environment
from tests.support.proxy import Proxy

MIB = 1 << 20
pytestmark = [pytest.mark.daemon, pytest.mark.client]


@pytest.fixture(scope="module")
def cluster():
    with Cluster() as c:
        c.start()
        c.wait_serving()
        yield c


def endpoints(cluster):
    return " , ".join(node.endpoint for node in cluster.nodes.values())


def client_of(cluster, **settings):
    return millrace.Client(endpoints(cluster), access_key=cluster.access_key, secret_key=cluster.secret_key, **{"attempts": 20, **settings})


def until_done(cluster, what, ask):
    """What ask() answers, asked again while the cluster has no leader that is reached."""
    def once():
        try:
            return [ask()]
        except (millrace.Busy, millrace.ConnectionFailed):
            return None
    return wait_until(once, 90, what, cluster.said)[0]


def test_all_nodes_are_asked_and_one_may_be_killed(cluster, rng):
    small, large = rng.randbytes(1000), rng.randbytes(40 * MIB)
    with client_of(cluster) as client:
        until_done(cluster, "a bucket is made", lambda: None if client.bucket_exists("bucket") else client.create_bucket("bucket"))
        until_done(cluster, "an upload in parts", lambda: client.put("bucket", "large", large))
        for i in range(60):
            until_done(cluster, "a small upload", lambda key=f"o{i}": client.put("bucket", key, small))
        for i in range(60):
            assert client.get("bucket", f"o{i}") == small
        into = bytearray(len(large))
        client.get_into("bucket", "large", into)
        assert into == large
        assert client.endpoint == cluster.nodes[1].endpoint

        killed = cluster.wait_leader()
        killed.kill()
        until_done(cluster, "reads go on", lambda: client.get("bucket", "o0"))
        until_done(cluster, "uploads go on", lambda: client.put("bucket", "after", large))
        into = bytearray(len(large))
        client.get_into("bucket", "after", into)
        assert into == large
        for i in range(60):
            assert client.get("bucket", f"o{i}") == small

        killed.spawn()
        wait_until(killed.serves, 60, "the node serves again", cluster.said)
    with contextlib.ExitStack() as stack:
        proxies = [stack.enter_context(Proxy(node.host, node.s3, lambda request: None)) for node in cluster.nodes.values()]
        client = stack.enter_context(millrace.Client(",".join(p.endpoint for p in proxies), access_key=cluster.access_key, secret_key=cluster.secret_key, attempts=20))
        for i in range(60):
            assert client.get("bucket", f"o{i}") == small
        assert all(proxy.requests >= 5 for proxy in proxies), [proxy.requests for proxy in proxies]


@pytest.mark.parametrize("order", ["first", "last"])
def test_one_endpoint_that_is_not_there(store, order):
    nobody = f"http://127.0.0.1:{free_ports(1)[0]}"
    listed = f"{nobody},{store.endpoint}" if order == "first" else f"{store.endpoint}, {nobody}"
    bucket = f"endpoints-{order}"
    env = {"MILLRACE_ENDPOINT": listed}
    for i in range(8):
        cli(store.daemon, "mb" if i == 0 else "ls", f"s3://{bucket}", env=env)
    assert "commas" in cli(store.daemon, "ls", "--endpoint", f"{store.endpoint},https://127.0.0.1:1", status=2)


def test_aws_variables_take_lists(store, bucket, s3, monkeypatch):
    s3.put_object(Bucket=bucket, Key="k", Body=b"there")
    nobody = f"http://127.0.0.1:{free_ports(1)[0]}"
    for name in ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"):
        monkeypatch.setenv(name, f"{nobody},{store.endpoint}")
        with millrace.Client(access_key=store.access_key, secret_key=store.secret_key) as client:
            for _ in range(8):
                assert client.get(bucket, "k") == b"there"
        monkeypatch.delenv(name)


def test_bench_spreads_over_a_list(store):
    with Proxy(store.host, store.port, lambda request: None) as one, Proxy(store.host, store.port, lambda request: None) as other:
        for way in ([], ["--transport", "tcp"]):
            cli(store.daemon, "bench", "--seconds", 1, "--objects", 5, "--rate", 50, *way, "get-4k", env={"MILLRACE_ENDPOINT": f"{one.endpoint},{other.endpoint}"})
            assert one.requests > 10 and other.requests > 10, (way, one.requests, other.requests)
            one.requests = other.requests = 0
