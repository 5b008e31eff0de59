"""What an operator does with a cluster: makes it of a configuration of few lines, and asks how it is."""
import json
import subprocess

import pytest

from tests.integration.test_drives import cli
from tests.support.cluster import Cluster, Node, wait_until
from tests.support.daemon import CLI, PATIENCE, PROGRAM, WRAP, sanitizer_environment


class Plain(Node):
    """A node of nothing but a settings file, whose other files lie beside it."""

    def __init__(self, cluster, number, name, drives=2):
        super().__init__(cluster, number, drives)
        self.name = name
        etc = self.folder / "etc"
        etc.mkdir(parents=True)
        for file, source in (("ca.crt", cluster.certs / "ca.crt"), (f"{name}.crt", cluster.certs / f"{name}.crt"), (f"{name}.key", cluster.certs / f"{name}.key"),
                             ("key", cluster.folder / "key"), ("root-credentials", cluster.folder / "credentials")):
            (etc / file).write_bytes(source.read_bytes())
            (etc / file).chmod(0o600)
        self.config = etc / "millrace.conf"
        self.config.write_text("\n".join([f"cluster = {cluster.name}", f"node = {name}", f"etcd = {cluster.etcd.url}", f"cluster_listen = 127.0.0.1:{self.links}",
                                          f"listen = 127.0.0.1:{self.s3}", f"admin = 127.0.0.1:{self.admin}", *(f"drive = {drive}" for drive in self.drives),
                                          "loops = 1", "memory = 64MiB", "log_file_size = 4MiB", "segment_size = 16MiB", "full_reserve = 1MiB"]) + "\n")

    def command(self):
        return WRAP + [str(PROGRAM), "--config", str(self.config), *self.options]


def make(names, drives=2):
    cluster = Cluster(nodes=1)
    cluster.cli("cluster", "cert", "node", cluster.certs, *names)
    cluster.nodes = {i + 1: Plain(cluster, i + 1, name, drives) for i, name in enumerate(names)}
    return cluster


def init(cluster, *options, config=None, status=0, stdin=None):
    """`millrace admin cluster init`; what it said."""
    done = subprocess.run([str(CLI), "admin", "cluster", "init", *options, str(config or cluster.nodes[1].config)], input=stdin, stdin=None if stdin is not None else subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=120 * PATIENCE, check=False, env=sanitizer_environment())
    assert done.returncode == status, (done.stdout, done.stderr, cluster.said())
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def cluster():
    with make(["alpha", "node-7", "beta"]) as c:
        c.etcd.start()
        for node in c.nodes.values():
            node.spawn()
        said = init(c, "--nodes", "alpha,node-7,beta")
        assert "Nothing was done" in said and "3+2" in said and "2 drives, or 1 nodes" in said and "alpha" in said, said
        said = init(c, "--nodes", "alpha,node-7,beta", "--ec", "2+2", "--yes")
        assert "2+2" in said and "is made" in said, said
        c.wait_leader()
        c.wait_serving()
        yield c


def test_names_have_numbers_for_good(cluster):
    """A name that ends in a number has that one. A node keeps its number, which only folders and etcd know."""
    numbers = {}
    for node in cluster.nodes.values():
        node.wait_said("is ready")
        files = [json.loads((drive / "NODE").read_text()) for drive in node.drives]
        assert {f["name"] for f in files} == {node.name} and len({f["node"] for f in files}) == 1, files
        numbers[node.name] = files[0]["node"]
    assert numbers["node-7"] == 7 and {numbers["alpha"], numbers["beta"]} == {1, 2}, numbers
    node = cluster.nodes[3]
    assert node.terminate() == 0
    for drive in node.drives:
        (drive / "NODE").unlink()  # etcd knows the name
    node.spawn()
    node.wait_said(f"node {numbers['beta']}, beta, is ready")
    wait_until(lambda: all((drive / "NODE").exists() for drive in node.drives), 30, "NODE is written again", node.said)
    assert json.loads((node.drives[0] / "NODE").read_text())["node"] == numbers["beta"]


def test_names_that_do_not_fit(cluster):
    """Each in one line, and the node that has the name goes on."""
    victim = cluster.nodes[1]
    empty = cluster.folder / "another"
    empty.mkdir()
    twin = Plain(cluster, 9, "beta", drives=1)
    for file in ("crt", "key"):
        (twin.config.parent / f"alpha.{file}").write_bytes((cluster.certs / f"alpha.{file}").read_bytes())
        (twin.config.parent / f"alpha.{file}").chmod(0o600)
    text = twin.config.read_text()
    for name, drive, words in (("beta", victim.drives[0], ["belongs to node alpha", "this is node beta"]), ("a/b", empty, ["node: give this node a name"]),
                               ("alpha", empty, ["has drives in the pool, and none of them is here"])):
        twin.config.write_text(text.replace("node = beta", f"node = {name}").replace(str(twin.drives[0]), str(drive)))
        status, said = twin.run()
        assert status == 2 and len(said.splitlines()) == 1 and all(word in said for word in words), said
    assert victim.process.poll() is None and victim.serves()


def test_a_cluster_is_not_made_again_or_of_nodes_that_are_away(cluster):
    assert "there is a cluster of this name already" in init(cluster, "--nodes", "alpha", "--yes", status=2)
    assert "--nodes is missing" in init(cluster, status=2)
    assert "named twice" in init(cluster, "--nodes", "alpha,alpha", status=2)


def status(cluster, node, *options):
    """(exit status, what it said) of `millrace admin cluster status` asked at a node."""
    code, out, err = cli(node, "admin", "cluster", "status", *options)
    return code, out + err


def whole(cluster, node):
    return wait_until(lambda: (said := status(cluster, node))[0] == 0 and said[1], 90, "all is whole", lambda: status(cluster, node)[1] + cluster.said())


def test_status(cluster):
    """At any node: who is there, who leads; a node that is away is named at once, and with etcd and all leaders away there is an answer, too."""
    for node in cluster.nodes.values():
        said = whole(cluster, node)
        assert said.count(" up ") == 3 and said.count("  leads") == 1 and "2 of 2" in said and "erasure code 2+2" in said and "All is whole" in said, said
    answer = json.loads(status(cluster, cluster.nodes[1], "--json")[1])
    assert {n["name"]: len([d for d in answer["pool"]["drives"] if d["node"] == n["number"]]) for n in answer["nodes"]} == {"alpha": 2, "node-7": 2, "beta": 2}
    assert all(abs(n["reached"].get("clock_ahead_ms", 0)) < 1000 for n in answer["nodes"]), answer
    assert sum("clock_ahead_ms" in n["reached"] for n in answer["pool"]["nodes"] + answer["nodes"]) > 0, answer
    leader = cluster.wait_leader()
    away = next(n for n in cluster.nodes.values() if n is not leader)
    asked = next(n for n in cluster.nodes.values() if n is not leader and n is not away)
    away.kill()
    code, said = wait_until(lambda: (found := status(cluster, asked))[1].count("is silent") == 1 and "0 of 2" in found[1] and found, 60, "it is silent", lambda: status(cluster, asked)[1])
    assert code == 1 and f"node {away.name} is silent" in said and "of node" in said, said
    assert status(cluster, asked, "--json")[0] == 1
    leader.kill()
    code, said = wait_until(lambda: (found := status(cluster, asked))[1].count("is silent") == 2 and found, 60, "nobody leads", lambda: status(cluster, asked)[1])
    assert code == 1 and "has no leader that answers" in said, said
    cluster.etcd.kill()
    code, said = wait_until(lambda: (found := status(cluster, asked))[1].count("etcd does not answer") == 1 and found, 60, "etcd is away", lambda: status(cluster, asked)[1])
    assert code == 1, said
    assert status(cluster, leader)[0] == 2
    cluster.etcd.start()
    away.spawn()
    leader.spawn()
    for node in cluster.nodes.values():
        whole(cluster, node)
