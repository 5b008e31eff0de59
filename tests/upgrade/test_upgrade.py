"""Three nodes of an older build become nodes of this one, one after the other, while clients read and write at all of them. `make check-upgrade OLD=COMMIT` builds the older one."""
import json
import os
import random
import threading
import time
from pathlib import Path

import botocore.exceptions
import pytest

from tests.integration.test_cluster import client as s3_of
from tests.integration.test_cluster import when_it_can
from tests.integration.test_cluster_grow import admin
from tests.support.cluster import Cluster, wait_until
from tests.support.daemon import PROGRAM

SIZES = (0, 100, 20_000, 300_000, 5_000_000)
KEYS = 12  # that one client writes and reads


def body_of(client, key, number):
    return random.Random(f"{client} {key} {number}").randbytes(SIZES[number % len(SIZES)])


class Client(threading.Thread):
    """
    Puts objects at one node, and reads at another what it has put. It has its keys to itself, so it knows what is there: a put
    whose outcome is unknown may have been done.
    """

    def __init__(self, number, writes_at, reads_at):
        super().__init__()
        self.number, self.writes_at, self.reads_at = number, writes_at, reads_at
        self.may_be = {}  # key: numbers of the bodies that it may have
        self.done = self.refused = 0
        self.error, self.ends = None, threading.Event()

    def attempt(self, ask):
        """Its answer, as a list; None: it failed in a way that clients repeat."""
        try:
            return [ask()]
        except botocore.exceptions.ClientError as error:
            assert error.response["ResponseMetadata"]["HTTPStatusCode"] == 503, error
        except botocore.exceptions.BotoCoreError:
            pass
        self.refused += 1
        time.sleep(0.1)
        return None

    def put(self, key, number):
        body = body_of(self.number, key, number)
        if self.attempt(lambda: self.writes_at.put_object(Bucket="upgraded", Key=f"{self.number}-{key}", Body=body)) is not None:
            self.may_be[key] = {number}
        else:
            self.may_be.setdefault(key, {None}).add(number)

    def read(self, s3, key):
        def get():
            try:
                return s3.get_object(Bucket="upgraded", Key=f"{self.number}-{key}")["Body"].read()
            except s3.exceptions.NoSuchKey:
                return None
        found = self.attempt(get)
        if found is not None:
            matches = {n for n in self.may_be.get(key, {None}) if (None if n is None else body_of(self.number, key, n)) == found[0]}
            assert matches, f"client {self.number}: object {key} has another body than one of {self.may_be.get(key)}"
            self.may_be[key] = matches
        return found is not None

    def run(self):
        draw = random.Random(self.number)
        try:
            for number in range(100_000):
                if self.ends.is_set():
                    return
                self.put(draw.randrange(KEYS), number)
                self.read(self.reads_at, draw.randrange(KEYS))
                self.done += 1
        except Exception as error:  # pylint: disable=broad-exception-caught  # said by the test
            self.error = error


@pytest.fixture
def cluster():
    old = Path(os.environ["MILLRACE_OLD"])
    with Cluster(drives=2) as c:
        for node in c.nodes.values():
            node.program = old
        c.start()
        c.wait_serving()
        yield c


def whole(cluster, node):
    status = json.loads(admin(cluster, node, "drive", "status", "--json", status=None) or "{}")
    return len(status.get("drives", [])) == 6 and all(drive["state"] == "in" for drive in status["drives"])


def upgrade(cluster, node):
    assert node.terminate() == 0, cluster.said()
    node.program = PROGRAM
    node.spawn()
    node.wait_said("is ready", 60)
    wait_until(node.serves, 60, f"node {node.number} serves", cluster.said)
    wait_until(lambda: whole(cluster, node), 90, "all drives are in", cluster.said)


def test_node_by_node(cluster):
    nodes = list(cluster.nodes.values())
    s3 = [s3_of(cluster, node) for node in nodes]
    when_it_can(cluster, "a bucket is made", lambda: s3[0].create_bucket(Bucket="upgraded"))
    s3[0].create_bucket(Bucket="versions")
    s3[1].put_bucket_versioning(Bucket="versions", VersioningConfiguration={"Status": "Enabled"})
    versions = [s3[i % 3].put_object(Bucket="versions", Key="k", Body=b"%d" % i)["VersionId"] for i in range(3)]
    clients = [Client(i, s3[i % 3], s3[(i + 1 + i // 3) % 3]) for i in range(6)]
    for client in clients:
        client.start()
    try:
        time.sleep(3)
        for node in nodes:
            upgrade(cluster, node)
            time.sleep(3)
    finally:
        for client in clients:
            client.ends.set()
        for client in clients:
            client.join()
    for client in clients:
        assert client.error is None, (client.error, cluster.said())
        assert client.done > 10
        for key in client.may_be:
            for at in s3:
                wait_until(lambda client=client, at=at, key=key: client.read(at, key), 30, "it is read", cluster.said)
    for i, version in enumerate(versions):
        assert when_it_can(cluster, "a version is read", lambda i=i, version=version: s3[i % 3].get_object(Bucket="versions", Key="k", VersionId=version)["Body"].read()) == b"%d" % i
    print(f"\n{sum(client.done for client in clients)} objects put and read, {sum(client.refused for client in clients)} calls that were to be repeated")
    assert "VERSION" in admin(cluster, nodes[0], "cluster", "status", status=None).upper()
