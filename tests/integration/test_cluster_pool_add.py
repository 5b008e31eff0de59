"""A cluster of one pool gets a second one: nodes that run serve its buckets, and none is started anew for it."""
import json
import threading
import time

import botocore.exceptions
import pytest

from tests.integration.test_cluster import client as s3_of
from tests.integration.test_cluster import when_it_can
from tests.integration.test_cluster_grow import admin, restart, wait_new_folders
from tests.support.cluster import Cluster, wait_until

pytestmark = pytest.mark.slow  # what it runs of the code others run under sanitizers, too


@pytest.fixture(scope="module")
def cluster():
    with Cluster(drives=2, pools=2) as c:  # with room for the leader of a second pool, which is made later
        c.pools = 1
        c.start()
        c.wait_serving()
        yield c


def pools_ready(node):
    answer = node.get("/health/ready", node.admin)
    return answer is not None and [pool["pool"] for pool in json.loads(answer[2]).get("pools", []) if pool["ready"]] == [1, 2]


class Reader:
    """Reads an object of the first pool, and the list of buckets, again and again, at one node: who is served by it notices nothing."""

    def __init__(self, s3):
        self.s3, self.reads, self.failed, self.ends = s3, 0, [], threading.Event()
        self.thread = threading.Thread(target=self.run)

    def run(self):
        while not self.ends.wait(0.02) and self.reads < 10000:
            try:
                assert self.s3.get_object(Bucket="before", Key="k")["Body"].read() == b"before"
                assert [bucket["Name"] for bucket in self.s3.list_buckets()["Buckets"]] == ["before"]
            except (botocore.exceptions.ClientError, botocore.exceptions.HTTPClientError) as e:
                self.failed.append(str(e))
            self.reads += 1

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, kind, value, traceback):
        self.ends.set()
        self.thread.join()


def all_start_anew(cluster, names):
    """The new pool's store is closed with the others; what was put into it is there when they are back."""
    for node in cluster.nodes.values():
        assert node.terminate() == 0, cluster.said()
    for node in cluster.nodes.values():
        node.spawn()
    cluster.wait_serving()
    s3 = s3_of(cluster, cluster.nodes[2])
    for name in names:
        assert when_it_can(cluster, "it is read", lambda name=name: s3.get_object(Bucket=name, Key="k")["Body"].read()) == name.encode()


def test_pool_is_added_while_nodes_serve(cluster):
    nodes = list(cluster.nodes.values())
    clients = [s3_of(cluster, node) for node in nodes]
    when_it_can(cluster, "a bucket is made", lambda: clients[0].create_bucket(Bucket="before"))
    when_it_can(cluster, "an object is put", lambda: clients[0].put_object(Bucket="before", Key="k", Body=b"before"))
    for node in nodes:  # settings are read at a start
        node.drives.append(node.folder / "drive3")
        node.drives[-1].mkdir()
        restart(node)
        wait_new_folders(cluster, node.number, 1)
    cluster.wait_serving()
    for s3 in clients:
        when_it_can(cluster, "it is read", lambda s3=s3: s3.get_object(Bucket="before", Key="k")["Body"].read())
    pids = [node.process.pid for node in nodes]
    with Reader(clients[1]) as reader:
        cluster.init("--init-more")
        wait_until(lambda: all(pools_ready(node) for node in nodes), 60, "all gateways serve both pools", cluster.said)
        time.sleep(0.5)
    assert reader.failed == [] and reader.reads > 10
    names = [f"later-{i}" for i in range(16)]
    for i, name in enumerate(names):
        when_it_can(cluster, f"{name} is made", lambda i=i, name=name: clients[i % 3].create_bucket(Bucket=name))
        when_it_can(cluster, f"{name} has an object", lambda i=i, name=name: clients[(i + 1) % 3].put_object(Bucket=name, Key="k", Body=name.encode()))
    for s3 in clients:
        assert {bucket["Name"] for bucket in s3.list_buckets()["Buckets"]} == {"before", *names}
        for name in names:
            assert s3.get_object(Bucket=name, Key="k")["Body"].read() == name.encode()
    counts = wait_until(lambda: [n for pool in (1, 2) if (n := json.loads(admin(cluster, nodes[0], "info", "--json", "--pool", pool))["buckets"]) > 0][1:], 20, "both pools have buckets", cluster.said)
    assert counts[0] < len(names)
    for node in nodes:
        assert 'millrace_pool_ready{pool="2"} 1' in node.get("/metrics", node.admin)[2]
    assert [node.process.pid for node in nodes] == pids and all(node.process.poll() is None for node in nodes)
    all_start_anew(cluster, names)
