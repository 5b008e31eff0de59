"""Nodes of a cluster on loopback: how one is made, who answers, how leadership moves, and what is refused in one line."""
import contextlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import time
from base64 import b64decode, b64encode
from pathlib import Path

import botocore.exceptions
import pytest

from tests.conftest import make_client
from tests.integration.test_cluster_ops import status as cluster_status
from tests.integration.test_drives import cli
from tests.support.cluster import Cluster, Node, wait_until
from tests.support.daemon import PATIENCE, PROGRAM, run_daemon


LARGE = b"%08d\n" * 1_000_000 % tuple(range(1_000_000))


@pytest.fixture(scope="module")
def cluster():
    """With a bucket and an object in it: any test of this file may be the only one that its fixture sees."""
    with Cluster() as c:
        c.start()
        c.wait_serving()
        s3 = client(c, c.nodes[1])
        when_it_can(c, "a bucket is made", lambda: s3.create_bucket(Bucket="bucket"))
        when_it_can(c, "an object is put", lambda: s3.put_object(Bucket="bucket", Key="large", Body=LARGE))
        yield c


def client(cluster, node):
    return make_client(f"http://127.0.0.1:{node.s3}", cluster.access_key, cluster.secret_key)


def others(cluster, leader):
    return [n for n in cluster.nodes.values() if n is not leader]


def wait_whole(cluster):
    """Some node leads, and all drives are members. That node."""
    def look():
        leader = cluster.leader()
        answer = leader and leader.get("/health/ready", leader.admin)
        return leader if answer and answer[0] == 200 and json.loads(answer[2])["drives_in"] == 6 else None
    return wait_until(look, 90, "all drives are in", cluster.said)


def when_it_can(cluster, what, ask, timeout=60):
    """What ask() answers, asked again while there is no leader that is reached."""
    def once():
        try:
            return [ask()]
        except botocore.exceptions.ClientError as error:
            assert error.response["ResponseMetadata"]["HTTPStatusCode"] == 503, error
        except botocore.exceptions.BotoCoreError:
            pass
        return None
    return wait_until(once, timeout, what, cluster.said)[0]


def read(cluster, node, key):
    return when_it_can(cluster, f"{key} is read", lambda: client(cluster, node).get_object(Bucket="bucket", Key=key)["Body"].read())


def put_when_it_can(cluster, key, body, timeout=60):
    """At the gateway of the node that leads; that node."""
    def once():
        leader = cluster.wait_leader()
        client(cluster, leader).put_object(Bucket="bucket", Key=key, Body=body)
        return leader
    return when_it_can(cluster, f"{key} is put", once, timeout)


def test_any_node_serves(cluster):
    """What one node's gateway took, every other reads, lists and replaces; admin, too: who is asked asks the leader."""
    cluster.wait_serving()
    clients = [client(cluster, node) for node in cluster.nodes.values()]
    for s3 in clients:
        when_it_can(cluster, "the leader is reached", s3.list_buckets)
    clients[0].create_bucket(Bucket="any-node")
    sizes = (0, 100, 300_000, 9_000_000)
    for i, size in enumerate(sizes):
        body = (bytes(i * 7 % 251 for i in range(1000)) * (size // 1000 + 1))[:size]
        clients[i % 3].put_object(Bucket="any-node", Key=f"o{size}", Body=body)
        for s3 in clients:
            assert s3.get_object(Bucket="any-node", Key=f"o{size}")["Body"].read() == body
    for s3 in clients:
        assert [o["Size"] for o in s3.list_objects_v2(Bucket="any-node")["Contents"]] == list(sizes)
    clients[1].put_object(Bucket="any-node", Key="o0", Body=b"replaced")
    assert clients[2].get_object(Bucket="any-node", Key="o0")["Body"].read() == b"replaced"
    clients[2].delete_object(Bucket="any-node", Key="o0")
    for s3 in clients:
        with pytest.raises(botocore.exceptions.ClientError) as error:
            s3.get_object(Bucket="any-node", Key="o0")
        assert error.value.response["Error"]["Code"] == "NoSuchKey"
    leader = cluster.leader()
    for node in cluster.nodes.values():
        assert node.get("/health/live", node.admin)[0] == 200
        wait_until(lambda n=node: n.get("/health/ready", n.admin)[0] == 200, 20, f"node {node.number} is ready", cluster.said)
        assert json.loads(node.get("/health/ready", node.admin)[2])["leads"] == (node is leader)
        assert "millrace_requests_total{" in node.get("/metrics", node.admin)[2]
        assert 'state="in"' in node.get("/metrics/pool", node.admin)[2]
        assert len(json.loads(cli(node, "admin", "drive", "status", "--json"))["drives"]) == 6
        cli(node, "admin", "maintenance", "on")
        wait_until(lambda: all(n.get("/health/ready", n.admin)[0] == 503 for n in cluster.nodes.values()), 20, "all are to be left alone", cluster.said)
        cli(node, "admin", "maintenance", "off")
        assert node.get("/admin/v1/info", node.admin)[0] == 403


def test_a_planned_stop_hands_over(cluster):
    leader = cluster.leader()
    put_when_it_can(cluster, "before", b"1")
    assert leader.terminate() == 0
    ready = re.search(r"node (\d) is ready to lead pool 1|no other node is ready to lead pool 1", leader.said())
    assert ready, leader.said()
    after = put_when_it_can(cluster, "after", b"2")
    assert after is not leader
    if ready[1]:  # it had the time for that
        assert "gets ready to lead" in cluster.nodes[int(ready[1])].said(), cluster.said()
    assert read(cluster, after, "before") == b"1"
    leader.spawn()
    leader.wait_said("is ready")
    wait_until(leader.serves, 30, "its gateway serves", cluster.said)
    assert read(cluster, leader, "after") == b"2"


def leader_processes(node):
    """That the node process has started and not reaped, and that run their program by now."""
    def leads(process):
        try:
            return b"--lead=" in Path(f"/proc/{process}/cmdline").read_bytes()
        except OSError:  # it has ended
            return False
    pid = node.process.pid
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split() if leads(child)]


def test_a_process_that_gets_ready_stands_still(cluster):
    """Whoever was to lead next does nothing: another node does, and the process is ended."""
    leader = put_when_it_can(cluster, "still-before", b"1")
    cluster.wait_serving()
    others = [node for node in cluster.nodes.values() if node is not leader]
    leader.process.send_signal(signal.SIGTERM)
    end = time.monotonic() + 30 * PATIENCE
    found = []
    while not found and time.monotonic() < end:
        found = [(node, process) for node in others for process in leader_processes(node)]
        time.sleep(0.001)
    assert found, cluster.said()
    following, process = found[0]
    os.kill(process, signal.SIGSTOP)
    assert leader.process.wait(60 * PATIENCE) == 0
    after = put_when_it_can(cluster, "still-after", b"2")
    assert after not in (leader, following), cluster.said()
    wait_until(lambda: process not in leader_processes(following), 30, "the process is ended", cluster.said)
    assert read(cluster, following, "still-before") == b"1"
    leader.spawn()
    leader.wait_said("is ready")
    wait_until(leader.serves, 30, "its gateway serves", cluster.said)
    assert read(cluster, leader, "still-after") == b"2"


def test_a_second_signal_ends_the_waiting(cluster):
    """For a leader process that does nothing, which has drain_timeout and more to hand over."""
    for node in cluster.nodes.values():
        node.options = ["--drain-timeout=1h"]
        node.kill()
    for node in cluster.nodes.values():
        node.spawn()
        node.options = []
    leader = put_when_it_can(cluster, "twice-before", b"1")
    wait_whole(cluster)
    for process in leader_processes(leader):
        os.kill(process, signal.SIGSTOP)
    leader.process.send_signal(signal.SIGTERM)
    leader.wait_said("stopping")
    assert leader.terminate() == 0
    assert "it has not ended in time" in leader.said()
    after = put_when_it_can(cluster, "twice-after", b"2")
    assert read(cluster, after, "twice-before") == b"1"
    leader.spawn()
    wait_whole(cluster)


def test_a_leader_that_is_killed_is_followed(cluster):
    leader = put_when_it_can(cluster, "k1", b"1")
    leader.kill()
    said = cli(others(cluster, leader)[0], "admin", "drive", "status", status=1)  # it waits for the next leader, which lacks drives
    assert "waiting for one" in said and "HTTP 503" not in said, said
    after = put_when_it_can(cluster, "k2", b"2")
    assert after is not leader
    assert read(cluster, after, "k1") == b"1"
    assert read(cluster, after, "large") == LARGE
    leader.spawn()


def test_switches_stay_with_the_cluster(cluster):
    leader = put_when_it_can(cluster, "s1", b"1")
    cluster.wait_serving()
    cli(others(cluster, leader)[0], "admin", "read-only", "on")

    def ready(node):  # a load balancer goes on with it
        code, _, body = node.get("/health/ready", node.admin)
        answer = json.loads(body)
        return answer["read_only"] and (code, answer["ready"], answer["writable"]) == (200, True, False)
    for node in cluster.nodes.values():
        wait_until(lambda n=node: ready(n), 30, f"node {node.number} serves reads alone", cluster.said)
        assert read(cluster, node, "s1") == b"1"
    leader.kill()
    after = cluster.wait_leader()

    def refused(node):
        try:
            client(cluster, node).put_object(Bucket="bucket", Key="s2", Body=b"")
        except botocore.exceptions.ClientError as error:
            return error.response["Error"]["Code"] == "AccessDenied"
        except botocore.exceptions.BotoCoreError:
            pass
        return False
    for node in others(cluster, leader):
        wait_until(lambda n=node: refused(n), 30, f"read-only is on at node {node.number}", cluster.said)
    cli(after, "admin", "read-only", "off")
    for node in others(cluster, leader):
        wait_until(lambda n=node: not refused(n), 30, f"read-only is off at node {node.number}", cluster.said)
    put_when_it_can(cluster, "s2", b"2")
    leader.spawn()


def test_the_whole_pool_stops_and_starts(cluster):
    put_when_it_can(cluster, "w1", b"1")
    for node in cluster.nodes.values():
        node.kill()
    for node in cluster.nodes.values():
        node.spawn()
    leader = put_when_it_can(cluster, "w2", b"2")
    assert read(cluster, leader, "w1") == b"1"


def test_etcd_is_away(cluster):
    """Nothing needs it while nothing fails; a node that starts waits for it."""
    leader = wait_whole(cluster)
    put_when_it_can(cluster, "e1", b"1")
    cluster.etcd.kill()
    try:
        time.sleep(5)
        s3 = client(cluster, leader)
        s3.put_object(Bucket="bucket", Key="e2", Body=b"2")
        assert s3.get_object(Bucket="bucket", Key="e1")["Body"].read() == b"1"
    finally:
        cluster.etcd.start()
    put_when_it_can(cluster, "e3", b"3")


def test_a_node_starts_while_etcd_is_full(cluster):
    """It waits for space, as for an etcd that is away."""
    node = others(cluster, wait_whole(cluster))[0]
    assert node.terminate() == 0
    alarm = {"memberID": cluster.etcd.ask("maintenance/status")["header"]["member_id"], "alarm": "NOSPACE"}  # as if the quota had been reached
    cluster.etcd.ask("maintenance/alarm", action="ACTIVATE", **alarm)
    try:
        node.spawn()
        node.wait_said("cannot join yet: etcd's database is full")
    finally:
        cluster.etcd.ask("maintenance/alarm", action="DEACTIVATE", **alarm)
    node.wait_said("is ready", 60)
    assert node.process.poll() is None
    wait_whole(cluster)


def swap_etcd(cluster, to=None):
    """etcd is made anew, or is one that was kept; the folder of the one before."""
    cluster.etcd.kill()
    for node in cluster.nodes.values():
        node.log_start = len(node.log.read_text(errors="replace"))
    kept = cluster.folder / f"etcd.{time.monotonic_ns()}"
    cluster.etcd.folder.rename(kept)
    if to is not None:
        shutil.copytree(to, cluster.etcd.folder)
    cluster.etcd.start()
    return kept


def etcd_revision(cluster):
    return cluster.etcd.ask("kv/range", key="bm9uZQ==")["header"]["revision"]


def copy_etcd(cluster):
    cluster.etcd.kill()
    kept = cluster.folder / f"etcd.copy.{time.monotonic_ns()}"
    shutil.copytree(cluster.etcd.folder, kept)
    cluster.etcd.start()
    return kept


def wait_waits(cluster, nodes=None):
    for node in nodes or cluster.nodes.values():
        wait_until(lambda n=node: "this node serves nothing, and waits" in n.said(), 60, f"node {node.number} waits", cluster.said)


@contextlib.contextmanager
def service_manager(cluster, node):
    """The node is started anew by one: a function that gives what it has told since, datagram by datagram."""
    path = cluster.folder / "notify"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as s:
        s.bind(str(path))

        def told():
            found = []
            with contextlib.suppress(BlockingIOError):
                while True:
                    found.append(s.recv(4096).decode())
            return found
        try:
            node.terminate()
            node.environment = {"NOTIFY_SOCKET": str(path)}
            node.spawn()
            yield told
        finally:
            node.environment = {}
            path.unlink()


def test_another_etcd_is_not_taken(cluster):
    """Made anew, or restored from a backup: nodes serve nothing, and wait; when the right one is back they go on by themselves.
    A service manager is not told that they stop: it would kill them."""
    with service_manager(cluster, cluster.nodes[1]) as told:
        put_when_it_can(cluster, "r1", b"1")
        wait_whole(cluster)
        cluster.nodes[1].wait_said("is ready")
        time.sleep(1)  # what was seen is kept once it serves
        kept = swap_etcd(cluster)
        wait_waits(cluster)
        shutil.rmtree(swap_etcd(cluster, kept))
        leader = put_when_it_can(cluster, "r2", b"2")
        assert read(cluster, leader, "r1") == b"1"
        cluster.nodes[1].wait_said("is ready")
        said = told()
        assert any(text.startswith("READY=1") for text in said) and not any("STOPPING=1" in text for text in said), said
        assert cluster.nodes[1].terminate() == 0
        assert sum("STOPPING=1" in text for text in told()) == 1
    cluster.nodes[1].spawn()


@contextlib.contextmanager
def half_sent(cluster, node, key):
    """A PUT at a node's gateway that the client does not finish."""
    url = client(cluster, node).generate_presigned_url("put_object", Params={"Bucket": "bucket", "Key": key})
    with socket.create_connection(("127.0.0.1", node.s3), timeout=30 * PATIENCE) as s:
        path = url.split("/", 3)[3]
        s.sendall(f"PUT /{path} HTTP/1.1\r\nHost: 127.0.0.1:{node.s3}\r\nContent-Length: 1000\r\nExpect: 100-continue\r\n\r\n".encode())
        answer = s.recv(4096)
        assert answer.startswith(b"HTTP/1.1 100 "), answer  # it runs
        s.sendall(b"x" * 500)
        yield


def test_a_node_that_is_to_begin_anew_is_told_to_end(cluster):
    """While it waits for a client's request. One that cannot begin anew has failed: a service manager starts it again."""
    fails = cluster.nodes[3]
    fails.program = cluster.folder / "millraced"
    shutil.copy(PROGRAM, fails.program)
    fails.terminate()
    fails.spawn()
    put_when_it_can(cluster, "d1", b"1")
    fails.wait_said("is ready")
    wait_whole(cluster)
    cluster.wait_serving()
    time.sleep(1)
    fails.program.chmod(0)
    node = cluster.nodes[2]
    with half_sent(cluster, node, "d2"):
        kept = swap_etcd(cluster)
        node.wait_said("stopping")
        assert node.terminate() == 0
    assert "this node serves nothing, and waits" not in node.said()
    assert fails.process.wait(60 * PATIENCE) == 1
    assert "cannot begin anew" in fails.said()
    wait_waits(cluster, [cluster.nodes[1]])
    shutil.rmtree(swap_etcd(cluster, kept))
    fails.program = PROGRAM
    fails.spawn()
    node.spawn()
    leader = put_when_it_can(cluster, "d2", b"2")
    assert read(cluster, leader, "d1") == b"1"


def test_etcd_is_lost_and_written_anew(cluster):
    leader = put_when_it_can(cluster, "l1", b"1")
    cli(leader, "admin", "read-only", "on")
    cli(leader, "admin", "read-only", "off")
    wait_whole(cluster)
    time.sleep(1)
    swap_etcd(cluster)
    wait_waits(cluster)
    said = cluster.reseed()
    assert "Nothing was done" in said and "slot  0, node 1, in" in said and cluster.leader() is None
    revision = etcd_revision(cluster)
    time.sleep(3)
    assert etcd_revision(cluster) == revision  # who waits does not fill it
    assert "written anew" in cluster.reseed("--reseed-yes")
    leader = put_when_it_can(cluster, "l2", b"2")
    assert read(cluster, leader, "l1") == b"1"
    assert read(cluster, leader, "large") == LARGE
    wait_whole(cluster)


def test_a_restored_etcd_knows_fewer_members_and_a_reseed_is_killed(cluster):
    """A backup from before a node was excluded: that node lacks acknowledged changes, and must not be believed."""
    leader = wait_whole(cluster)
    backup = copy_etcd(cluster)
    leader = wait_whole(cluster)
    away = others(cluster, leader)[0]
    away.kill()
    put_when_it_can(cluster, "m1", b"only without it")
    swap_etcd(cluster, backup)
    time.sleep(3)  # some notice; others, which see higher revisions by then, meet drives that know a higher epoch, and report when they are asked
    away.spawn()
    killed = cluster.reseed_process("--reseed-yes")
    time.sleep(0.7)
    killed.kill()
    killed.wait()
    done = cluster.reseed_process("--reseed-yes")
    other = cluster.reseed_process("--reseed-yes")
    assert 0 in (done.wait(120), other.wait(120)), cluster.said()
    leader = put_when_it_can(cluster, "m2", b"2")
    assert read(cluster, leader, "m1") == b"only without it"
    wait_whole(cluster)


def reports(cluster):
    """What nodes have reported: the drives that each holds, by its number."""
    prefix = f"/millrace/{cluster.name}/reseed/nodes/"
    found = cluster.etcd.ask("kv/range", key=b64encode(prefix.encode()).decode(), range_end=b64encode(prefix[:-1].encode() + b"0").decode())
    values = [json.loads(b64decode(pair["value"])) for pair in found.get("kvs", [])]
    return {value["node"]: value["held"] for value in values}


def test_a_drive_that_hangs_does_not_keep_its_node_out_of_a_reseed():
    """Its file NODE cannot be written: whoever opens it waits. The node reports the others, and joins without it."""
    with Cluster() as cluster:
        cluster.start()
        wait_whole(cluster)
        time.sleep(1)
        swap_etcd(cluster)
        wait_waits(cluster)
        wait_until(lambda: len(reports(cluster)) == 3, 30, "all nodes have reported", cluster.said)
        node = cluster.nodes[1]
        hangs = node.drives[0] / "NODE.new"
        os.mkfifo(hangs)
        asks = cluster.reseed_process("--reseed-yes")
        wait_until(lambda: any(held["fault"] == "it does not answer" for held in reports(cluster)[1]), 30, "the drive is reported", cluster.said)
        asks.kill()
        asks.wait()
        held = {one["fault"]: one for one in reports(cluster)[1]}
        assert len(held) == 2 and held[""]["fenced"] and not held["it does not answer"]["fenced"]
        slot = held["it does not answer"]["slot"]
        assert "written anew" in cluster.reseed(f"--reseed-without=slot:{slot}", "--reseed-yes")
        wait_until(node.serves, 60, "the node serves", cluster.said)
        assert "drive1: does not answer: it is left out until it does" in node.said()
        said = len(node.said())
        with open(hangs, "rb"):  # it goes on, and fails
            wait_until(lambda: not hangs.exists(), 30, "the drive answers", cluster.said)
        wait_until(lambda: "drive1" in node.said()[said:] or f"slot {slot}" in node.said()[said:], 30, "it is looked at again", cluster.said)
        assert cluster.wait_leader()


# ---- refusals ------------------------------------------------------------------------------------------------


def refused(node, words):
    status, said = node.run()
    assert status == 2, said
    lines = [line for line in said.splitlines() if line]
    assert len(lines) == 1 and all(word in lines[0] for word in words), said


def test_a_node_is_refused_in_one_line(cluster):
    first, others_ca = cluster.nodes[1], cluster.folder / "another-ca"
    others_ca.mkdir()
    cluster.cli("cluster", "cert", "ca", others_ca, "another")
    first.kill()
    try:
        for options, words in ((["--node=n7"], ["cluster_cert", "it is not for n7, this node's name"]),
                               (["--cluster=other"], ["belongs to the cluster c1", "other"]),
                               (["--node=n2", f"--cluster-cert={cluster.certs}/n2.crt", f"--cluster-key={cluster.certs}/n2.key"], ["belongs to node n1", "n2"]),
                               ([f"--cluster-cert={cluster.certs}/n2.crt", f"--cluster-key={cluster.certs}/n2.key"], ["cluster_cert", "n2.crt", "it is not for n1, this node's name"]),
                               ([f"--cluster-ca={others_ca}/ca.crt"], ["cluster_cert", "other nodes would refuse it"]),
                               (["--cluster-listen=0.0.0.0:7000"], ["cluster_listen"]),
                               ([f"--cluster-cert={cluster.certs}/n2.crt"], ["key values mismatch"]),
                               ([f"--cluster-ca={cluster.folder}/key"], ["key"]),
                               ([f"--key-file={cluster.folder}/nothing"], ["key_file"]),
                               ([f"--root-credentials={cluster.folder}/nothing"], ["nothing"])):
            first.options = options
            refused(first, words)
    finally:
        first.options = []
        first.spawn()


def test_secrets_of_nodes_are_compared(cluster):
    """Other root credentials: both ends say so, and serve. A key that the others lack: both ends refuse each other, and say why; clients are served by the others."""
    wait_whole(cluster)
    node, other = cluster.nodes[3], cluster.nodes[1]
    files = {name: cluster.folder / f"{name}3" for name in ("key", "credentials")}
    before = len(other.said())

    def said_since(who, text, start=0):
        return wait_until(lambda: text in who.said()[start:], 40, f"node {who.number} says {text!r}", cluster.said)

    try:
        for name, text in (("credentials", f"access_key = {cluster.access_key}\nsecret_key = another-secret-of-root\n"), ("key", f"key = {'5' * 64}\n")):
            files[name].write_text(text)
            files[name].chmod(0o600)
        node.options = [f"--root-credentials={files['credentials']}"]
        node.kill()
        node.spawn()
        said_since(node, "node 1, n1, has other root credentials than this node")
        said_since(other, "node 3, n3, has other root credentials than this node", before)
        wait_until(lambda: "! node n3: its root credentials are not those of n1" in cluster_status(cluster, other)[1], 40, "cluster status names the node",
                   lambda: cluster_status(cluster, other)[1])
        wait_whole(cluster)
        before = len(other.said())
        node.options = [f"--key-file={files['key']}"]
        node.kill()
        node.spawn()
        said_since(node, "refuses this node: one end's key_file lacks the key that the other end seals with")
        said_since(other, "which says it is node 3: refused: one end's key_file lacks the key", before)
        wait_until(lambda: "! node n3: its secrets are not those of n1" in cluster_status(cluster, other)[1], 40, "cluster status names the node",
                   lambda: cluster_status(cluster, other)[1])
        when_it_can(cluster, "a bucket is made", lambda: client(cluster, other).create_bucket(Bucket="while-a-node-is-refused"))
        assert cluster.leader() is not node
        assert node.process.poll() is None
    finally:
        node.options = []
        node.kill()
        node.spawn()
    wait_whole(cluster)


def test_a_folder_that_was_emptied_is_not_made_anew(cluster):
    """Its node's other drives serve; what it held is not taken for being there. The same of one where nothing is mounted."""
    node = cluster.nodes[2]
    for lost in (["log", "data", "index", "FORMAT", "LOCK"], ["log", "data", "index", "FORMAT", "LOCK", "NODE"]):
        wait_whole(cluster)
        node.kill()
        kept = node.folder / "kept"
        shutil.copytree(node.drives[0], kept)
        for name in lost:
            path = node.drives[0] / name
            shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
        time.sleep(4)  # the pool goes on without its drives
        node.spawn()
        node.wait_said("serves slot 3")
        node.wait_said("what it held is lost" if "NODE" not in lost else "is empty, and no drive of the pool")
        time.sleep(2)
        assert not (node.drives[0] / "FORMAT").exists()
        node.kill()
        shutil.rmtree(node.drives[0])
        shutil.move(kept, node.drives[0])
        node.spawn()
    wait_whole(cluster)


def test_another_machine_by_the_number_of_a_node(cluster):
    node = cluster.nodes[3]
    twin = Node(cluster, 3, drives=0)
    twin.drives = [cluster.folder / "twin"]
    twin.drives[0].mkdir()
    refused(twin, ["node 3 has drives in the pool, and none of them is here"])
    assert node.process.poll() is None


def test_settings_are_those_of_the_start(cluster):
    """A file that was edited since does not decide what the next leader process does."""
    leader = wait_whole(cluster)
    assert "--config=/proc/self/fd/" in subprocess.run(["pgrep", "-a", "-P", str(leader.process.pid)], capture_output=True, text=True, check=True).stdout


def test_a_copy_of_a_machine():
    """The later one is the node. The other one ends, and is not to be started again: the two would replace each other for ever."""
    with Cluster(nodes=1) as cluster:
        cluster.start()
        node, copy = cluster.nodes[1], Node(cluster, 1, drives=0)
        copy.folder = cluster.folder / "copy"
        node.kill()
        shutil.copytree(node.folder, copy.folder)
        copy.drives, copy.log = [copy.folder / drive.name for drive in node.drives], copy.folder / "millraced.log"
        node.spawn().wait_said("is ready")
        try:
            copy.spawn().wait_said("is ready")
            assert node.process.wait(60 * PATIENCE) == 2
            assert f"another process has entered the cluster as n1, at 127.0.0.1:{copy.links}: this one ends. Of two machines with one name" in node.said()
            assert copy.process.poll() is None
        finally:
            copy.kill()


def test_folders_of_others(cluster):
    cluster.cli("cluster", "cert", "node", cluster.certs, "n9")
    stranger = Node(cluster, 9, drives=0)
    stranger.drives = [cluster.nodes[2].drives[0]]
    refused(stranger, ["belongs to node n2", "node n9"])
    copy = cluster.folder / "copy"
    shutil.copytree(cluster.nodes[2].drives[0], copy)
    for drive in (cluster.nodes[2].drives[0], copy):
        (copy / "NODE").unlink(missing_ok=True)
        status, said = run_daemon(["--drive", drive, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"])
        assert status == 2 and "belongs to a cluster's pool" in said
    shutil.rmtree(copy)
    shutil.copytree(cluster.nodes[2].drives[0], copy)
    stranger = Node(cluster, 2, drives=0)
    stranger.drives = [cluster.nodes[2].drives[0], copy]
    refused(stranger, ["is a copy of"])


def test_a_cluster_is_made_once(cluster):
    assert "there is a cluster of this name already" in cluster.init(status=2)


def test_settings_that_lack_something():
    for given, word in ((["--cluster", "c"], "etcd"), (["--cluster", "c", "--etcd", "http://127.0.0.1:1"], "node"), (["--cluster", "a/b", "--etcd", "http://127.0.0.1:1"], "a/b"),
                        (["--cluster", "c", "--etcd", "http://127.0.0.1:1", "--node", "a/b"], "a name of letters"), (["--init-cluster"], "cluster")):
        status, said = run_daemon(["--drive", "/nowhere", *given])
        assert status == 2 and word in said and len(said.splitlines()) == 1, said


def test_a_node_that_is_missing_is_named_or_nothing_is_done():
    with Cluster() as cluster:
        cluster.start()
        when_it_can(cluster, "a bucket is made", lambda: client(cluster, cluster.nodes[1]).create_bucket(Bucket="bucket"))
        wait_whole(cluster)
        give_up_node_3(cluster)


def give_up_node_3(cluster):
    put_when_it_can(cluster, "n1", b"1")
    away = cluster.nodes[3]
    for node in cluster.nodes.values():
        node.kill()  # none can exclude the other
    swap_etcd(cluster)
    for node in others(cluster, away):
        node.spawn()
    wait_waits(cluster, others(cluster, away))
    assert "nothing is known of slots" in cluster.reseed(status=2)
    assert "given up" in cluster.reseed("--reseed-without=3", "--reseed-yes")
    leader = put_when_it_can(cluster, "n2", b"2")
    assert read(cluster, leader, "n1") == b"1"
    away.spawn()
    away.wait_said("this node goes by it")
    put_when_it_can(cluster, "n3", b"3")
    answer = json.loads(cluster.leader().get("/health/ready", cluster.leader().admin)[2])
    assert answer["drives_in"] == 4
