"""A cluster of three nodes and three pools: each node leads one; what happens to the others when one is killed; what an operator sees."""
import base64
import contextlib
import json
import re
import time
import urllib.request

import pytest

from tests.integration.test_cluster import client as s3_of
from tests.integration.test_cluster import reports, swap_etcd, wait_waits, when_it_can
from tests.integration.test_cluster_grow import admin
from tests.support.cluster import Cluster, Node, wait_until
from tests.support.daemon import PATIENCE

pytestmark = pytest.mark.slow  # what it runs of the code others run under sanitizers, too

NAMES = [f"many-{i}" for i in range(24)]  # buckets that are there from the start, so many that each pool has some; each has an object "k", its name
TURN = {1: 1, 2: 2, 3: 3}  # pool: the node that leads it, when all do
GIVE_BACK = "--test-give-back=3s"


def make_buckets(cluster):
    """Each at one node, and its object at the next. Any test of this file may be the only one that its fixture sees."""
    clients = [s3_of(cluster, node) for node in cluster.nodes.values()]
    for i, name in enumerate(NAMES):
        when_it_can(cluster, f"{name} is made", lambda i=i, name=name: clients[i % 3].create_bucket(Bucket=name))
        when_it_can(cluster, f"{name} has an object", lambda i=i, name=name: clients[(i + 1) % 3].put_object(Bucket=name, Key="k", Body=name.encode()))


def reads_all(cluster, node):
    s3 = s3_of(cluster, node)
    for name in NAMES:
        assert when_it_can(cluster, f"{name} is served", lambda name=name: s3.get_object(Bucket=name, Key="k")["Body"].read()) == name.encode()


@contextlib.contextmanager
def made():
    with Cluster(drives=3, pools=3) as c:
        for node in c.nodes.values():
            node.options.append(GIVE_BACK)
        c.start()
        c.wait_serving()
        make_buckets(c)
        wait_in_turn(c)
        wait_whole(c, c.nodes[1])
        yield c


@pytest.fixture(scope="module")
def cluster():
    with made() as c:
        yield c


def wait_in_turn(cluster, timeout=90, turn=None):
    wait_until(lambda: cluster.leaders() == (turn or TURN), timeout, "each pool is led by whose turn it is", lambda: f"{cluster.leaders()}\n{cluster.said()}")


def status(cluster, node):
    return json.loads(admin(cluster, node, "cluster", "status", "--json", status=None))


def pools_of(cluster, node):
    return {pool["number"]: pool for pool in status(cluster, node)["pools"]}


def serves_all(node):
    """It runs, and its gateway answers for buckets of each pool; or it does not run."""
    if node.process is None or node.process.poll() is not None:
        return True
    answer = node.get("/health/ready", node.admin)
    pools = json.loads(answer[2]).get("pools", []) if answer is not None else []
    return len(pools) == 3 and answer[0] == 200 and all(pool["ready"] for pool in pools)


def wait_whole(cluster, node, timeout=120, drives=3):
    """Each pool has a leader, which says that all its drives are in. What they say."""
    def look():
        pools = pools_of(cluster, node)
        whole = len(pools) == 3 and all(pool["pool"] and pool["pool"]["ready"] and pool["pool"]["objects_below"] == 0 and len(members(pool)) == drives and
                                        all(drive["state"] == "in" for drive in members(pool)) for pool in pools.values())
        return pools if whole else None
    wait_until(lambda: all(serves_all(n) for n in cluster.nodes.values()), timeout, "all gateways serve all pools", cluster.said)
    return wait_until(look, timeout, "all pools are whole", cluster.said)


def members(pool):
    return [drive for drive in pool["pool"]["drives"] if drive["state"] != "removed"]


def test_each_node_leads_one(cluster):
    pools = wait_whole(cluster, cluster.nodes[3])
    assert {number: pool["leader_name"] for number, pool in pools.items()} == {1: "n1", 2: "n2", 3: "n3"}
    assert len({pool["pool"]["store"] for pool in pools.values()}) == 3
    for pool in pools.values():  # a folder of each node, and no folder twice
        assert {drive["node"] for drive in pool["pool"]["drives"]} == {1, 2, 3}
    assert len({drive["id"] for pool in pools.values() for drive in pool["pool"]["drives"]}) == 9


def test_what_an_operator_sees(cluster):
    node = cluster.nodes[2]
    said = admin(cluster, node, "cluster", "status")
    for pool in (1, 2, 3):
        assert f"pool {pool}     led by n{pool}" in said, said
    assert "leads 2" in said and "All is whole" in said and "3 of 3" in said, said
    ready = json.loads(node.get("/health/ready", node.admin)[2])
    assert ready["ready"] and not ready["leads"] and [(pool["pool"], pool["ready"], pool["leads"]) for pool in ready["pools"]] == [(1, True, False), (2, True, True), (3, True, False)]
    metrics = node.get("/metrics", node.admin)[2]
    assert 'millrace_pool_ready{pool="3"} 1' in metrics and 'millrace_pool_drives_in{pool="2"} 3' in metrics
    ids = [{drive["id"] for drive in json.loads(admin(cluster, node, "drive", "status", "--json", "--pool", pool))["drives"]} for pool in (1, 2, 3)]
    assert len(ids[0] | ids[1] | ids[2]) == 9
    assert json.loads(admin(cluster, node, "drive", "status", "--json"))["drives"][0]["id"] in ids[0]
    assert 'state="in"' in node.get("/metrics/pool?pool=2", node.admin)[2]
    admin(cluster, node, "scrub", "start", "--pool", 3)
    assert "name one" in admin(cluster, node, "scrub", "start", status=1)
    assert "no pool of that number" in admin(cluster, node, "scrub", "start", "--pool", 4, status=1)


def test_switches_are_of_all_pools(cluster):
    node = cluster.nodes[3]
    admin(cluster, node, "read-only", "on")
    for pool in pools_of(cluster, node).values():
        assert pool["pool"]["read_only"], pool["number"]
    admin(cluster, node, "read-only", "off")
    wait_until(lambda: not any(pool["pool"]["read_only"] for pool in pools_of(cluster, node).values()), 20, "all pools take changes again", cluster.said)


def test_buckets_lie_in_all_pools(cluster):
    """Made at any node, known at all; copied from one pool to another; each pool has some of them."""
    nodes = list(cluster.nodes.values())
    clients = [s3_of(cluster, node) for node in nodes]
    for s3 in clients:
        assert {bucket["Name"] for bucket in s3.list_buckets()["Buckets"]} >= set(NAMES)

    def counts():
        found = [json.loads(admin(cluster, nodes[0], "info", "--json", "--pool", pool))["buckets"] for pool in (1, 2, 3)]
        return found if sum(found) >= len(NAMES) else None
    assert min(wait_until(counts, 20, "pools say what they have", cluster.said)) > 0
    for i, name in enumerate(NAMES):
        clients[i % 3].copy_object(Bucket=NAMES[i - 1], Key="copy", CopySource=f"{name}/k")
        assert clients[(i + 2) % 3].get_object(Bucket=NAMES[i - 1], Key="copy")["Body"].read() == name.encode()


def etcd_call(cluster, what, **fields):
    body = json.dumps({name: base64.b64encode(value).decode() for name, value in fields.items()}).encode()
    with urllib.request.urlopen(f"{cluster.etcd.url}/v3/kv/{what}", body, 10) as answer:
        return json.loads(answer.read())


def test_a_node_is_killed(cluster):
    """Its pool is led by another within seconds; the others' leaders go on; it gets its pool back, and nobody else's moves."""
    node = cluster.nodes[1]
    s3 = s3_of(cluster, node)
    before = wait_whole(cluster, node)
    cluster.nodes[2].kill()
    begun = time.monotonic()
    wait_until(lambda: cluster.leaders().get(2) in (1, 3), 30, "another node leads pool 2", cluster.said)
    took = time.monotonic() - begun
    assert took < 10 * PATIENCE, took
    when_it_can(cluster, "an object is put", lambda: s3.put_object(Bucket=NAMES[0], Key="meanwhile", Body=b"x"))
    wait_in_turn(cluster, turn={1: 1, 2: 3, 3: 3})  # whose turn it is next
    after = pools_of(cluster, node)
    for pool in (1, 3):
        assert after[pool]["leader"] == before[pool]["leader"]
        assert after[pool]["pool"]["uptime_s"] >= before[pool]["pool"]["uptime_s"]
    cluster.nodes[2].spawn()
    cluster.nodes[2].wait_said("is ready", 60)
    wait_whole(cluster, node)
    wait_in_turn(cluster)
    cluster.nodes[3].wait_said("pool 2 is handed over: another node leads it in its turn")
    assert re.search(r"(node 2 is|no other node is) ready to lead pool 2", cluster.nodes[3].said())
    wait_whole(cluster, node)
    assert when_it_can(cluster, "it is read", lambda: s3.get_object(Bucket=NAMES[0], Key="meanwhile")["Body"].read()) == b"x"
    reads_all(cluster, cluster.nodes[1])


def test_a_key_is_lost(cluster):
    """Of a pool that etcd does not have, or not as it was, by somebody's mistake nothing is known: its drives and gateways go on."""
    s3 = s3_of(cluster, cluster.nodes[1])
    for pool in (1, 2):
        key = f"/millrace/c1/pools/{pool}/config".encode()
        value = base64.b64decode(etcd_call(cluster, "range", key=key)["kvs"][0]["value"])
        etcd_call(cluster, "deleterange", key=key)
        time.sleep(4)
        etcd_call(cluster, "put", key=key, value=b"{}")
        for node in cluster.nodes.values():
            node.wait_said(f"what etcd has of pool {pool}, its config or its leader, makes no sense", 30)
        reads_all(cluster, cluster.nodes[3])
        etcd_call(cluster, "put", key=key, value=value)
    assert "is no drive of the pool any more" not in cluster.said()
    reads_all(cluster, cluster.nodes[1])
    wait_whole(cluster, cluster.nodes[3])
    wait_in_turn(cluster)


def test_all_are_stopped_and_started(cluster):
    for node in cluster.nodes.values():
        node.process.terminate()
    for node in cluster.nodes.values():
        assert node.process.wait(60 * PATIENCE) == 0
    for node in cluster.nodes.values():
        node.spawn()
    cluster.wait_serving()
    wait_in_turn(cluster, 120)
    node = cluster.nodes[2]
    wait_whole(cluster, node)
    reads_all(cluster, node)


def test_etcd_is_lost_and_written_anew(cluster):
    before = wait_whole(cluster, cluster.nodes[1])
    time.sleep(1)
    swap_etcd(cluster)
    wait_waits(cluster)
    said = cluster.reseed()
    assert "Nothing was done" in said and all(f"pool {pool}: slot  0, node 1, in" in said for pool in (1, 2, 3)), said
    # two nodes are fenced, and begin anew, before the third comes: which pool a drive is of is still known
    cluster.nodes[1].terminate()
    with cluster.reseed_process("--reseed-yes") as asks:
        wait_until(lambda: all(all(held["fenced"] for held in reports(cluster)[number]) for number in (2, 3)), 60, "two nodes are fenced", cluster.said)
        asks.kill()
    for number in (2, 3):
        cluster.nodes[number].terminate()
        cluster.nodes[number].spawn()
        cluster.nodes[number].wait_said("waits", 60)
    wait_until(lambda: "Nothing was done" in cluster.reseed("--reseed-without=1"), 60, "two nodes have reported anew", cluster.said)
    said = cluster.reseed("--reseed-without=1")
    assert all(f"pool {pool}: store {before[pool]['pool']['store']}," in said for pool in (1, 2, 3)), said
    cluster.nodes[1].spawn()
    assert "written anew" in cluster.reseed("--reseed-yes")
    cluster.wait_serving(120)
    wait_in_turn(cluster, 120)
    after = wait_whole(cluster, cluster.nodes[1])
    for pool in (1, 2, 3):
        assert after[pool]["pool"]["store"] == before[pool]["pool"]["store"]
        assert after[pool]["epoch"] > before[pool]["epoch"] + 1_000_000
    reads_all(cluster, cluster.nodes[2])


def test_a_node_comes_and_another_is_drained():
    """Its folders are dealt among the pools, all of which the other leaves; the pools are led in the turn of those that are left."""
    with made() as cluster:
        come_and_drain(cluster)


def come_and_drain(cluster):
    """Two come, and two others go: one is drained, the other one dies, and is removed."""
    cluster.cli("cluster", "cert", "node", cluster.certs, "n4", "n5")
    for number in (4, 5):
        node = cluster.nodes[number] = Node(cluster, number, 3, [GIVE_BACK])
        node.spawn()
        wait_until(node.serves, 60, f"node {number} serves", cluster.said)
        wait_until(lambda n=number: any(of["node"] == n and len(of["new_folders"]) == 3 for of in json.loads(admin(cluster, cluster.nodes[1], "cluster", "node", "status", "--json", status=None))["nodes"]),
                   60, f"node {number} has announced its folders", cluster.said)
        assert "has its share" in admin(cluster, node, "cluster", "node", "add", f"n{number}")
    for pool in pools_of(cluster, node).values():
        assert sorted(drive["node"] for drive in members(pool)) == [1, 2, 3, 4, 5]
    assert "are in use" in admin(cluster, node, "cluster", "node", "remove", "n2", status=1)
    assert "is drained" in admin(cluster, node, "cluster", "node", "drain", "n2")
    for pool in pools_of(cluster, node).values():
        assert sorted(drive["node"] for drive in members(pool)) == [1, 3, 4, 5]
    cluster.nodes[2].wait_said("is drained: none of its drives", 60)
    wait_in_turn(cluster, 60, {1: 1, 2: 3, 3: 4})
    cluster.nodes[2].terminate()
    wait_whole(cluster, node, drives=4)
    reads_all(cluster, node)
    assert "it has no drives in any pool" in admin(cluster, node, "cluster", "node", "drain", str(65536 + 3), status=1)
    cluster.nodes[3].kill()
    wait_until(lambda: 3 not in cluster.leaders().values(), 60, "others lead its pool", cluster.said)
    assert "the others refuse it" in admin(cluster, node, "cluster", "node", "remove", "n3")
    for pool in pools_of(cluster, node).values():
        assert sorted(drive["node"] for drive in members(pool)) == [1, 4, 5]
    reads_all(cluster, node)
