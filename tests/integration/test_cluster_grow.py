"""A cluster's pool grows, heals and shrinks while it is written to: drives are added and replaced, a node comes, another is drained."""
import hashlib
import json
import os
import shutil
import signal
import subprocess
import threading
import time

import botocore.exceptions
import pytest

from tests.conftest import make_client
from tests.integration.test_cluster import when_it_can
from tests.support.cluster import Cluster, Node, wait_until
from tests.support.daemon import CLI, PATIENCE, DaemonError, sanitizer_environment

pytestmark = pytest.mark.slow  # what it runs of the code others run under sanitizers, too


@pytest.fixture
def cluster():
    with Cluster() as c:
        yield c.start()


def admin(cluster, node, *words, status=0, timeout=240):
    """`millrace admin …` at that node."""
    done = subprocess.run([str(CLI), "admin", *map(str, words), "--admin", f"http://127.0.0.1:{node.admin}", "--endpoint", node.endpoint], capture_output=True, text=True,
                          timeout=timeout * PATIENCE, check=False, env={**sanitizer_environment(), "AWS_ACCESS_KEY_ID": cluster.access_key,
                                                                       "AWS_SECRET_ACCESS_KEY": cluster.secret_key})
    if status is not None and done.returncode != status:
        raise DaemonError(f"{words}: status {done.returncode}\n{done.stdout}{done.stderr}\n{cluster.said()}")
    return done.stdout + done.stderr


def ask(cluster, *words):
    """What `millrace admin … --json` says, asked at some node that runs; None: nobody answers now."""
    for node in cluster.nodes.values():
        if node.process is None or node.process.poll() is not None:
            continue
        done = subprocess.run([str(CLI), "admin", *words, "--json", "--admin", f"http://127.0.0.1:{node.admin}", "--endpoint", node.endpoint], capture_output=True, text=True,
                              timeout=60 * PATIENCE, check=False, env={**sanitizer_environment(), "AWS_ACCESS_KEY_ID": cluster.access_key,
                                                                      "AWS_SECRET_ACCESS_KEY": cluster.secret_key})
        if done.stdout.startswith("{"):
            return json.loads(done.stdout)
    return None


def at_rest(cluster, drives):
    """So many drives are in, no other belongs to the pool, and nothing is left to be done."""
    def look():
        answer, heal = ask(cluster, "drive", "status"), ask(cluster, "heal", "status")
        if answer is None or heal is None:
            return False
        of_pool = [d for d in answer["drives"] if d["state"] != "removed"]
        return len(of_pool) == drives and all(d["state"] == "in" and not (d["filling"] or d["adding"] or d["leaving"]) for d in of_pool) \
            and heal["now"]["below"] == 0 and answer["drives"]
    return wait_until(look, 180, f"{drives} drives are in, and the pool is whole", lambda: f"{ask(cluster, 'drive', 'status')}\n{cluster.said()}")


class Writer:
    """Puts objects at all nodes that run, one after the other, until stop(); keeps what was acknowledged."""

    def __init__(self, cluster):
        self.cluster, self.objects, self.failed, self.over = cluster, {}, 0, threading.Event()
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        i = 0
        while not self.over.is_set():
            running = [n for n in self.cluster.nodes.values() if n.process is not None and n.process.poll() is None]
            node = running[i % len(running)]
            key, body = f"w{i}", hashlib.sha256(str(i).encode()).digest() * (1 + i * 977 % 9000)
            try:
                make_client(f"http://127.0.0.1:{node.s3}", self.cluster.access_key, self.cluster.secret_key).put_object(Bucket="bucket", Key=key, Body=body)
                self.objects[key] = hashlib.sha256(body).hexdigest()
            except (botocore.exceptions.BotoCoreError, botocore.exceptions.ClientError):
                self.failed += 1
            i += 1

    def stop(self):
        self.over.set()
        self.thread.join(120)
        assert not self.thread.is_alive() and self.objects


def fill(cluster, count=12):
    cluster.wait_serving()
    node = cluster.wait_leader()
    s3 = make_client(f"http://127.0.0.1:{node.s3}", cluster.access_key, cluster.secret_key)
    at_rest(cluster, 6)
    when_it_can(cluster, "the bucket is made", lambda: s3.create_bucket(Bucket="bucket"))
    objects = {}
    for i in range(count):
        body = hashlib.sha256(str(-i).encode()).digest() * (1 + i * 8000)
        when_it_can(cluster, f"o{i} is put", lambda i=i, body=body: s3.put_object(Bucket="bucket", Key=f"o{i}", Body=body))
        objects[f"o{i}"] = hashlib.sha256(body).hexdigest()
    return objects


def check(cluster, node, objects):
    """Every byte, through that node."""
    s3 = make_client(f"http://127.0.0.1:{node.s3}", cluster.access_key, cluster.secret_key)

    def read(key):
        try:
            return hashlib.sha256(s3.get_object(Bucket="bucket", Key=key)["Body"].read()).hexdigest()
        except botocore.exceptions.ClientError as error:
            assert error.response["ResponseMetadata"]["HTTPStatusCode"] == 503, (key, error)
            return None
    for key, digest in objects.items():
        assert wait_until(lambda key=key: read(key), 60, f"{key} is read", cluster.said) == digest, key


def restart(node):
    node.terminate()
    node.spawn()


def wait_new_folders(cluster, number, count):
    """The leader has read in etcd that the node has announced so many."""
    wait_until(lambda: any(n["node"] == number and len(n["new_folders"]) == count for n in (ask(cluster, "cluster", "node", "status") or {"nodes": []})["nodes"]), 60,
               f"node {number} has announced its folders", cluster.said)


def fourth(cluster):
    cluster.cli("cluster", "cert", "node", cluster.certs, "n4")
    node = cluster.nodes[4] = Node(cluster, 4, 2)
    node.spawn()
    wait_new_folders(cluster, 4, 2)
    wait_until(node.serves, 60, "node 4 serves", cluster.said)
    return node


def test_drive_is_added_and_replaced(cluster):
    objects = fill(cluster)
    node = cluster.nodes[2]
    assert "has announced no new folders" in admin(cluster, node, "drive", "add", "2", status=1)
    assert "in that node's settings" in admin(cluster, node, "drive", "add", "/srv/new", status=1)
    node.drives.append(node.folder / "drive3")
    node.drives[-1].mkdir()
    restart(node)
    wait_until(lambda: "as a new folder its id is" in node.said(), 60, "the new folder is named", cluster.said)
    wait_new_folders(cluster, 2, 1)
    at_rest(cluster, 6)
    assert "slots from 6" in admin(cluster, cluster.nodes[1], "drive", "add", "n2")
    drives = at_rest(cluster, 7)
    assert drives[6]["path"].startswith("remote:2/")
    check(cluster, cluster.nodes[3], objects)
    # it comes back by itself
    restart(node)
    at_rest(cluster, 7)
    # one that is wiped is lost; its folder, empty and without its NODE, takes its place
    node.terminate()
    shutil.rmtree(node.drives[0])
    node.drives[0].mkdir()
    node.spawn()
    wait_until(lambda: any(d["state"] != "in" for d in (ask(cluster, "drive", "status") or {"drives": []})["drives"]), 60, "a drive is missed", cluster.said)
    slot = next(d["slot"] for d in ask(cluster, "drive", "status")["drives"] if d["path"].startswith("remote:2/") and d["state"] != "in" and d["slot"] < 6)
    wait_until(lambda: "as a new folder its id is" in node.said(), 60, "the new folder is named", cluster.said)
    wait_until(lambda: "has a new drive" in admin(cluster, cluster.nodes[1], "drive", "replace", slot, status=None), 90, "the drive is replaced", cluster.said)
    at_rest(cluster, 7)
    for n in cluster.nodes.values():
        check(cluster, n, objects)


def test_node_comes_and_another_is_drained(cluster):
    """A client writes all the time; the leader is killed in the middle of the drain."""
    objects = fill(cluster)
    assert "no node of that number or name" in admin(cluster, cluster.nodes[2], "cluster", "node", "drain", str(65536 + 1), status=1)
    said = admin(cluster, cluster.nodes[2], "cluster", "node", "drain", "1", status=1)
    assert "add one first" in said or "have room for" in said  # where the tests' disk is nearly full
    node = fourth(cluster)
    check(cluster, node, objects)
    writer = Writer(cluster)
    said = admin(cluster, cluster.nodes[2], "cluster", "node", "add", "4")
    assert "has its share" in said
    assert "are in use" in admin(cluster, cluster.nodes[2], "cluster", "node", "remove", "1", status=1)
    drain = subprocess.Popen([str(CLI), "admin", "cluster", "node", "drain", "n1", "--admin", f"http://127.0.0.1:{node.admin}", "--endpoint", node.endpoint], text=True,
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env={**sanitizer_environment(), "AWS_ACCESS_KEY_ID": cluster.access_key,
                                                                                  "AWS_SECRET_ACCESS_KEY": cluster.secret_key})
    # a drain can be through before anybody has seen it
    wait_until(lambda: drain.poll() is not None or any(d["leaving"] for d in (ask(cluster, "drive", "status") or {"drives": []})["drives"]), 60, "drives are leaving", cluster.said)
    leader = cluster.wait_leader()
    if leader.number != 4 and drain.poll() is None:
        leader.process.send_signal(signal.SIGKILL)
        leader.process.wait()
        time.sleep(3 * PATIENCE)
        leader.spawn()
    cluster.wait_leader()
    try:
        out, _ = drain.communicate(timeout=240 * PATIENCE)
    finally:
        drain.kill()
    if drain.returncode != 0:
        admin(cluster, node, "cluster", "node", "drain", "1")
    writer.stop()
    at_rest(cluster, 6)
    first = cluster.nodes[1]
    # it may have been away until it was drained: then it does not join any more
    wait_until(lambda: "is drained" in first.said() or "was drained" in first.said(), 60, "node 1 says that it is drained", cluster.said)
    if first.process.poll() is None:
        first.terminate()
    status, said = first.run()
    assert status == 2 and "was drained" in said, (status, said)
    objects.update(writer.objects)
    for n in cluster.nodes.values():
        if n is not first:
            check(cluster, n, objects)
    assert "drained" in admin(cluster, node, "cluster", "node", "status")


def test_dead_node_is_removed(cluster):
    """It led: the next leader is asked while it opens the pool."""
    objects = fill(cluster)
    node = fourth(cluster)
    admin(cluster, node, "cluster", "node", "add", "n4")
    leader = cluster.wait_leader().number
    dead = leader if leader != 4 else 3
    assert "are in use" in admin(cluster, node, "cluster", "node", "remove", dead, status=1)
    gone = cluster.nodes.pop(dead)
    processes = [gone.process.pid, *map(int, subprocess.run(["pgrep", "-P", str(gone.process.pid)], capture_output=True, text=True, check=False).stdout.split())]
    for process in processes:
        os.kill(process, signal.SIGSTOP)  # it is back when it has been removed

    def is_out():
        nodes = (ask(cluster, "cluster", "node", "status") or {"nodes": []})["nodes"]
        assert not any(n["node"] == dead and n["state"] in ("drained", "removed") for n in nodes), nodes
        return any(n["node"] == dead and n["in"] == 0 for n in nodes)
    wait_until(is_out, 60, f"node {dead} is out", cluster.said)
    assert "the others refuse it" in admin(cluster, node, "cluster", "node", "remove", dead)
    assert any(n["node"] == dead and n["state"] == "removed" for n in ask(cluster, "cluster", "node", "status")["nodes"])
    at_rest(cluster, 6)
    for n in cluster.nodes.values():
        check(cluster, n, objects)
    for process in processes:
        os.kill(process, signal.SIGCONT)
    assert gone.process.wait(60 * PATIENCE) == 2
    assert "was removed from the cluster" in gone.said()
    status, said = gone.run()
    assert status == 2 and "was removed from the cluster" in said, (status, said)
    assert "was removed" in admin(cluster, node, "cluster", "node", "add", dead, status=1)
