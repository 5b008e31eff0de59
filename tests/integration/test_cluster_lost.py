"""A cluster's pool that goes on without the groups of names that only dead nodes have, and takes them in again."""
import json
import shutil

import botocore.exceptions
import pytest

from tests.conftest import make_client
from tests.integration.test_drives import cli
from tests.support.cluster import Cluster, Node, wait_until

KEYS = [f"key{i}" for i in range(60)]


def client(cluster, node):
    return make_client(f"http://127.0.0.1:{node.s3}", cluster.access_key, cluster.secret_key, read_timeout=20)


@pytest.fixture
def cluster():
    """Two copies of each group, on two of the nodes: nodes 2 and 3 have some that node 1, with most of the drives, lacks."""
    with Cluster() as c:
        c.nodes = {1: Node(c, 1, 3), 2: Node(c, 2, 1), 3: Node(c, 3, 1)}
        yield c.start("--ec", "2+1")


def status(cluster, node, ask):
    """Of the answer; None: nobody answered."""
    try:
        ask(client(cluster, node))
        return 200
    except botocore.exceptions.ClientError as error:
        return error.response["ResponseMetadata"]["HTTPStatusCode"]
    except botocore.exceptions.BotoCoreError:
        return None


def put_all(cluster, node, body):
    """Once the pool takes changes of all groups."""
    def one(key):
        return status(cluster, node, lambda s3: s3.put_object(Bucket="bucket", Key=key, Body=body + key.encode())) == 200
    for key in KEYS:
        wait_until(lambda key=key: one(key), 90, f"{key} is put", cluster.said)


def drives_in(node):
    answer = node.get("/health/ready", node.admin)
    return json.loads(answer[2])["drives_in"] if answer else None


def get(cluster, node, key, body):
    """The status; an answer has what was put last."""
    try:
        found = client(cluster, node).get_object(Bucket="bucket", Key=key)["Body"].read()
    except botocore.exceptions.ClientError as error:
        return error.response["ResponseMetadata"]["HTTPStatusCode"]
    except botocore.exceptions.BotoCoreError:
        return None
    assert found == body + key.encode(), (key, found[:20])
    return 200


def get_all(cluster, node, body):
    return [get(cluster, node, key, body) for key in KEYS]


def begin(cluster):
    wait_until(lambda: status(cluster, cluster.nodes[1], lambda s3: s3.create_bucket(Bucket="bucket")) in (200, 409), 60, "a bucket is made", cluster.said)
    away = None
    for _ in range(6):
        leader = cluster.wait_leader()
        if leader is cluster.nodes[1]:
            break
        leader.terminate()  # another leads then: the first node at the latest where the third has only just begun again
        if away is not None:
            away.spawn()
        away = leader
    if away is not None:
        away.spawn()
        wait_until(away.serves, 60, "it serves again", cluster.said)
    assert cluster.wait_leader() is cluster.nodes[1]
    put_all(cluster, cluster.nodes[1], b"one ")


def test_lost_and_back(cluster):
    node = cluster.nodes[1]
    begin(cluster)
    cluster.nodes[2].kill()
    cluster.nodes[3].kill()
    wait_until(lambda: {200, 503} == set(get_all(cluster, node, b"one ")), 90, "some groups are lost", cluster.said)
    answers = get_all(cluster, node, b"one ")
    assert 0 < answers.count(503) < len(KEYS) / 2 and answers.count(200) + answers.count(503) == len(KEYS), answers
    assert status(cluster, node, lambda s3: s3.list_objects_v2(Bucket="bucket")) == 503
    cluster.nodes[3].spawn()
    wait_until(lambda: set(get_all(cluster, node, b"one ")) == {200}, 90, "all are found", cluster.said)
    assert status(cluster, node, lambda s3: s3.list_objects_v2(Bucket="bucket")) == 200
    cluster.nodes[2].spawn()
    put_all(cluster, node, b"two ")
    for each in cluster.nodes.values():
        wait_until(each.serves, 60, "every node serves", cluster.said)
        wait_until(lambda each=each: set(get_all(cluster, each, b"two ")) == {200}, 60, "every node has them", cluster.said)


def test_destroyed_and_forced(cluster):
    node = cluster.nodes[1]
    begin(cluster)
    cluster.nodes[3].kill()
    wait_until(lambda: drives_in(node) == 4, 60, "it goes on without node 3", cluster.said)  # its slots fell silent alone
    cluster.nodes[2].kill()
    wait_until(lambda: drives_in(node) == 3, 90, "it goes on without node 2", cluster.said)
    shutil.rmtree(cluster.nodes[2].drives[0])  # the last that had them
    cluster.nodes[3].spawn()
    wait_until(cluster.nodes[3].serves, 60, "node 3 serves", cluster.said)
    assert "do not wait" in cli(node, "admin", "pool", "force", "0", "--yes", status=1)
    said = wait_until(lambda: [text for text in [cli(node, "admin", "pool", "force", "3", status=1)] if "Nothing was done" in text], 60, "slot 3 is waited for", cluster.said)
    assert "slot 3" in said[0] and "of 0 of them no other drive knows anything" in said[0], said
    assert 503 in get_all(cluster, node, b"one ")
    cli(node, "admin", "pool", "force", "3", "--yes")
    wait_until(lambda: set(get_all(cluster, node, b"one ")) == {200}, 90, "what node 3 has counts", cluster.said)
    assert status(cluster, node, lambda s3: s3.list_objects_v2(Bucket="bucket")) == 200
    cli(node, "admin", "pool", "force", "3", "--yes", status=1)  # nothing is lost any more
