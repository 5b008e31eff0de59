"""What an operator does with a cluster: makes it of a configuration of few lines, and asks how it is."""
import json
import os
import pty
import re
import signal
import socket
import subprocess
import tarfile
from pathlib import Path

import pytest

from tests.conftest import make_client
from tests.support.cluster import Cluster, Node, wait_until
from tests.support.daemon import CLI, PATIENCE, PROGRAM, WRAP, Daemon, sanitizer_environment
from tests.support.ports import free_ports


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

    notify = None  # a socket in place of systemd's

    def command(self):
        return ([] if self.notify is None else ["env", f"NOTIFY_SOCKET={self.notify}"]) + WRAP + [str(PROGRAM), "--config", str(self.config), *self.options]


def make(names, drives=2):
    cluster = Cluster(nodes=1)
    cluster.cli("cluster", "cert", "node", cluster.certs, *names)
    for file in ("key", "credentials"):
        (cluster.folder / file).unlink()
    cluster.cli("cluster", "secrets", cluster.folder)
    (cluster.folder / "root-credentials").rename(cluster.folder / "credentials")
    cluster.access_key, cluster.secret_key = (line.split(" = ")[1] for line in (cluster.folder / "credentials").read_text().splitlines())
    cluster.nodes = {i + 1: Plain(cluster, i + 1, name, drives) for i, name in enumerate(names)}
    return cluster


def init(cluster, *options, status=0, types=None):
    """`millrace admin cluster init`; what it said. types: at a terminal."""
    ours, its = pty.openpty() if types is not None else (None, subprocess.DEVNULL)
    try:
        if types is not None:
            os.write(ours, types)
        done = subprocess.run([str(CLI), "admin", "cluster", "init", *options, str(cluster.nodes[1].config)], stdin=its, capture_output=True, text=True, timeout=120 * PATIENCE,
                              check=False, env=sanitizer_environment())
    finally:
        if types is not None:
            os.close(ours)
            os.close(its)
    assert done.returncode == status, (done.stdout, done.stderr, cluster.said())
    return done.stdout + done.stderr


def wait_told(cluster, what):
    """The first node has told its service manager that; what it told before is forgotten."""
    cluster.manager.settimeout(60 * PATIENCE)
    while cluster.manager.recv(4096).decode() != what:
        pass


@pytest.fixture(scope="module")
def cluster():
    with make(["alpha", "node-7", "beta"]) as c:
        c.etcd.start()
        for drive, number in zip(c.nodes[2].drives, (0, 99)):  # as processes leave them that ended before they had joined, or before etcd was made anew
            (drive / "NODE").write_text(json.dumps({"cluster": c.name, "node": number, "name": "node-7", "drive": os.urandom(16).hex(), "made": False, "etcd": "0" * 16,
                                                    "generation": 0, "random": "0" * 16, "revision": 0}))
        c.nodes[1].notify = c.folder / "notify"
        c.manager = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        c.manager.bind(str(c.nodes[1].notify))
        for node in c.nodes.values():
            node.spawn()
        wait_told(c, "READY=1\nSTATUS=waits for the cluster to be made: millrace admin cluster init, or adopt")  # who started it may type that now
        said = doctor(c, c.nodes[1])[1]
        assert "it serves nothing yet: The cluster has not been made yet" in said and "access key" not in said, said
        code, said = status(c, c.nodes[1])
        assert code == 2 and "The cluster has not been made yet" in said, said
        said = init(c, "--nodes", "alpha,node-7,beta")
        assert "Nothing was done" in said and "3+2" in said and "2 drives, or 1 nodes" in said and "alpha" in said, said
        said = init(c, "--nodes", "alpha,node-7,beta", "--ec", "2+2", types=b"no\n")
        assert "[y/N] Nothing was done" in said, said
        said = init(c, "--nodes", "alpha,node-7,beta", "--ec", "2+2", types=b"y\n")
        assert "2+2" in said and "is made" in said, said
        c.wait_leader()
        c.wait_serving()
        wait_told(c, "READY=1\nSTATUS=serves")
        yield c
        c.manager.close()


def test_secrets_are_never_replaced(cluster):
    folder = cluster.folder / "secrets"
    folder.mkdir()
    cluster.cli("cluster", "secrets", "-q", folder)
    made = {file: (folder / file).read_text() for file in ("key", "root-credentials")}
    assert all((folder / file).stat().st_mode & 0o777 == 0o600 for file in made) and made["key"] != (cluster.folder / "key").read_text()
    done = subprocess.run([str(CLI), "cluster", "secrets", str(folder)], capture_output=True, text=True, check=False, timeout=60, env=sanitizer_environment())
    assert done.returncode == 1 and "File exists" in done.stderr
    assert made == {file: (folder / file).read_text() for file in made}


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


def operate(cluster, *words, **env):
    """(exit status, what it said), with nothing in the environment but what is given."""
    done = subprocess.run([str(CLI), *map(str, words)], env={"PATH": os.environ["PATH"], "HOME": str(cluster.folder), **sanitizer_environment(), **env}, capture_output=True,
                          text=True, timeout=60 * PATIENCE, check=False)
    return done.returncode, done.stdout + done.stderr


def millrace(cluster, node, *words):
    """(exit status, what it said)."""
    env = {"PATH": os.environ["PATH"], "HOME": str(cluster.folder), "MILLRACE_ENDPOINT": node.endpoint, "MILLRACE_ROOT_ACCESS_KEY": node.access_key,
           "MILLRACE_ROOT_SECRET_KEY": node.secret_key, "MILLRACE_ADMIN": f"http://{node.host}:{node.admin_port}", **sanitizer_environment()}
    done = subprocess.run([str(CLI), *map(str, words)], env=env, capture_output=True, text=True, timeout=60 * PATIENCE, check=False)
    return done.returncode, done.stdout + done.stderr


def status(cluster, node, *options):
    return millrace(cluster, node, "admin", "cluster", "status", *options)


def whole(cluster, node):
    return wait_until(lambda: (said := status(cluster, node))[0] == 0 and said[1], 90, "all is whole", lambda: status(cluster, node)[1] + cluster.said())


def doctor(cluster, node, settings=None):
    """Findings of what belongs to the cluster: {what: [(mark, text)]}."""
    said = millrace(cluster, node, "doctor", "--settings", settings or node.config)[1]
    found = {}
    for line in said.splitlines():
        if line[:6].strip() in ("ok", "note", "MEND"):
            found.setdefault(line[6:22].strip(), []).append((line[:6].strip(), line[23:]))
    return found, said


def test_doctor(cluster):
    """Of a node that is as it should be: nothing to mend, and it goes on. Then one thing after the other is amiss."""
    node = cluster.nodes[1]
    cluster.wait_serving()
    whole(cluster, node)
    found, said = doctor(cluster, node)
    assert "MEND" not in said and "0 to mend" in said, said
    assert [mark for mark, _ in found["other node"]] == ["ok", "ok"] and [mark for mark, _ in found["TLS"]] == ["ok", "ok"], said
    assert [mark for mark, _ in found["MTU"]] == ["ok", "ok"] and len(found["clock"]) == 4 and all(mark == "ok" for mark, _ in found["clock"][1:]), said
    assert found["name"] == [("ok", f"alpha is node {json.loads((node.drives[0] / 'NODE').read_text())['node']}")] and found["cluster"][0][0] == "ok", said
    assert [mark for mark, _ in found["folder"]] == ["ok", "ok"] and found["cluster_cert"][0][0] == "ok" and found["its CA"][0][0] == found["its name"][0][0] == "ok", said
    assert [mark for mark, _ in found["etcd"]] == ["note", "ok"] and found["disk"][0][0] in ("ok", "note") and "a flush takes" in found["disk"][0][1], said  # one member
    for other in cluster.nodes.values():
        assert other.process.poll() is None and "runs twice" not in other.said(), other.said()

    strange = node.config.parent / "strange.conf"
    text = node.config.read_text()

    def amiss(what, changed):
        strange.write_text(changed)
        found, said = doctor(cluster, node, strange)
        assert any(mark == "MEND" for mark, _ in found.get(what, [])), (what, said)
        return said
    assert "belongs to node alpha" in amiss("folder", text.replace("node = alpha", "node = gamma"))
    assert "is not for the name" in amiss("its name", text + f"cluster_cert = {cluster.certs}/beta.crt\ncluster_key = {cluster.certs}/beta.key\n")
    with Cluster(nodes=1) as foreign:
        said = amiss("its CA", text + f"cluster_ca = {foreign.certs}/ca.crt\n")
        assert said.count("its certificate: ") == 2, said  # that of each other node
        assert "it refuses this node's certificate" in amiss("TLS", text + f"cluster_cert = {foreign.certs}/n1.crt\ncluster_key = {foreign.certs}/n1.key\n")
    amiss("key_file", text + "key_file = /nowhere/key\n")
    amiss("root_credentials", text + "root_credentials = /nowhere/credentials\n")
    amiss("etcd", text.replace(cluster.etcd.url, "http://127.0.0.1:1"))
    assert "it knows 1, and 2 are given" in amiss("members", text + f"etcd = {cluster.etcd.url.replace('127.0.0.1', 'localhost')}\n")
    assert "is the address of node beta" in amiss("name", text.replace(f"cluster_listen = 127.0.0.1:{node.links}", f"cluster_listen = 127.0.0.1:{cluster.nodes[3].links}"))
    assert "a name of letters" in amiss("settings", text.replace("node = alpha", "node = a/b"))
    cluster.nodes[3].kill()
    try:
        assert "Connection refused" in amiss("other node", text)
    finally:
        cluster.nodes[3].spawn()


def test_settings_say_whom_to_ask_and_as_whom(cluster):
    """Commands as the page prints them, on a node, with nothing but its settings file."""
    node = next(n for n in cluster.nodes.values() if n is not cluster.wait_leader())
    whole(cluster, node)
    settings = {"MILLRACE_SETTINGS": str(node.config)}
    for words in (("doctor",), ("admin", "cluster", "status"), ("admin", "cluster", "node", "status"), ("admin", "drive", "status"), ("admin", "user", "list"), ("admin", "info")):
        assert operate(cluster, *words, **settings)[0] == 0, operate(cluster, *words, **settings)
        assert operate(cluster, *words, "--settings", node.config)[0] == 0, words
    assert operate(cluster, "admin", "info")[0] != 0
    # what is given counts
    assert "127.0.0.1:1" in operate(cluster, "admin", "info", "--admin", "http://127.0.0.1:1", **settings)[1]
    assert operate(cluster, "admin", "info", MILLRACE_ADMIN="http://127.0.0.1:1", **settings)[0] != 0
    assert operate(cluster, "admin", "info", MILLRACE_ROOT_ACCESS_KEY="another", MILLRACE_ROOT_SECRET_KEY="anothers-secret", **settings)[0] != 0
    code, said = operate(cluster, "admin", "info", "--settings", "/nowhere/at.all")
    assert code == 2 and "/nowhere/at.all" in said, said
    # the same as a configuration of the client
    shown = subprocess.run([str(PROGRAM), "--config", str(node.config), "--show-client"], capture_output=True, text=True, check=True, timeout=60 * PATIENCE, env=sanitizer_environment()).stdout
    (cluster.folder / "client").write_text(shown)
    assert operate(cluster, "ls", "--config", cluster.folder / "client")[0] == 0, shown


def test_doctor_says_what_it_does_not_measure(cluster):
    leader = cluster.wait_leader()
    follower = next(n for n in cluster.nodes.values() if n is not leader)
    whole(cluster, follower)
    assert "leads; the other nodes measure their ways to it" in operate(cluster, "doctor", "--settings", leader.config)[1]
    said = operate(cluster, "doctor", "--settings", follower.config)[1]
    assert f"node {follower.name} to {leader.name}: a call takes" in said and "MB/s from there to here" in said and "from this node's" in said, said
    assert "not measured: the admin listener does not answer" in operate(cluster, "doctor", "--settings", follower.config, "--admin", "http://127.0.0.1:1")[1]
    said = operate(cluster, "doctor", "--settings", follower.config, MILLRACE_ROOT_ACCESS_KEY="another", MILLRACE_ROOT_SECRET_KEY="anothers-secret")[1]
    assert "not measured: the admin listener answers HTTP 403" in said, said


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_doctor_looks_as_the_daemons_user(cluster):
    """As files are that root has copied: the node's certificate and the CA's can be read, keys and secrets cannot, until they are the user's."""
    node = Plain(cluster, 8, "beta")
    secret = [node.config.parent / name for name in ("beta.key", "key", "root-credentials")]
    for path in node.config.parent.iterdir():
        path.chmod(0o600 if path in secret else 0o644)
    for drive in node.drives:
        os.chown(drive, 65534, 65534)
    cluster.folder.chmod(0o711)
    found, said = doctor(cluster, cluster.nodes[1], node.config)
    assert [mark for mark, _ in found["files"]] == ["MEND"] * 3 and all(f"{path}: the user" in said for path in secret), said
    for path in secret:
        os.chown(path, 65534, 65534)
    found, said = doctor(cluster, cluster.nodes[1], node.config)
    assert [mark for mark, _ in found["files"]] == ["ok"], said


def test_support_bundle(cluster, tmp_path):
    """Of the node that is asked, its settings and messages; of the cluster all nodes, and each pool as its leader has it."""
    for node in cluster.nodes.values():
        wait_until(lambda node=node: (node.get("/health/ready", node.admin) or (0,))[0] == 200, 60, f"{node.name} is ready", cluster.said)
        whole(cluster, node)
        made = tmp_path / f"{node.name}.tar.gz"
        code, said = millrace(cluster, node, "admin", "support-bundle", made)
        assert code == 0, said
        with tarfile.open(made) as tar:
            files = {Path(member.name).name: tar.extractfile(member).read().decode() for member in tar.getmembers()}
        assert {part["status"] for part in json.loads(files["contents.json"])["parts"]} == {200}, files["ready.json"]
        assert json.loads(files["support.json"])["settings"]["node"]["value"] == node.name
        assert {n["name"] for n in json.loads(files["cluster.json"])["nodes"]} == {"alpha", "node-7", "beta"}
        assert len(json.loads(files["nodes.json"])["nodes"]) == 3 and len(json.loads(files["pool-1-drives.json"])["drives"]) == 6
        assert "millrace_drives_in 6" in files["pool-1-metrics.txt"] and cluster.secret_key not in "".join(files.values())


def cluster_metrics(node):
    """{what is behind millrace_cluster_: its value}, of a node's metrics."""
    lines = node.get("/metrics", node.admin)[2].splitlines()
    return {name.removeprefix("millrace_cluster_"): float(value) for name, value in (line.rsplit(" ", 1) for line in lines if line.startswith("millrace_cluster_"))}


def test_status(cluster):
    """At any node: who is there, who leads; a node that is away is named at once, and with etcd and all leaders away there is an answer, too."""
    for node in cluster.nodes.values():
        said = whole(cluster, node)
        assert said.count("  up  ") == 3 and said.count("  leads") == 1 and "2 of 2" in said and "erasure code 2+2" in said and "All is whole" in said, said
    answer = json.loads(status(cluster, cluster.nodes[1], "--json")[1])
    assert {n["name"]: len([d for d in answer["pool"]["drives"] if d["node"] == n["number"]]) for n in answer["nodes"]} == {"alpha": 2, "node-7": 2, "beta": 2}
    assert all(abs(n["reached"].get("clock_ahead_ms", 0)) < 1000 for n in answer["nodes"]), answer
    assert sum("clock_ahead_ms" in n["reached"] for n in answer["pool"]["nodes"] + answer["nodes"]) > 0, answer
    leader = cluster.wait_leader()
    for node in cluster.nodes.values():
        found = cluster_metrics(node)
        assert found["nodes_silent"] == 0 and found["clock_skew_ms"] < 1000 and found["etcd_silent_seconds"] < 30, found
        assert found['pool_led{pool="1"}'] == 1 and found['pool_leads{pool="1"}'] == (node is leader), found
    s3 = make_client(leader.endpoint, cluster.access_key, cluster.secret_key)
    s3.create_bucket(Bucket="status")
    for i in range(8):
        s3.put_object(Bucket="status", Key=f"o{i}", Body=bytes(3 << 20))
    away = next(n for n in cluster.nodes.values() if n is not leader)
    asked = next(n for n in cluster.nodes.values() if n is not leader and n is not away)
    away.kill()
    code, said = wait_until(lambda: (found := status(cluster, asked))[1].count("is silent") == 1 and f"of node {away.name}, is missing" in found[1] and found, 60, "it is silent",
                            lambda: status(cluster, asked)[1])
    assert code == 1 and f"node {away.name} is silent" in said and "0 of 2" in said, said
    assert status(cluster, asked, "--json")[0] == 1

    def lacking():  # of 2+2 over three nodes, each object has one or two shards on the node that is away
        pool = json.loads(status(cluster, asked, "--json")[1])["pool"]
        return pool and pool["objects_below"] == 8 and pool["objects_lacking"]
    found = wait_until(lacking, 60, "objects lack shards", lambda: status(cluster, asked)[1])
    assert list(found) == ["1", "2", "more"] and found["1"] + found["2"] == 8 and found["more"] == 0, found
    words = ", ".join(f"{found[n]} lack {n}" for n in ("1", "2") if found[n])
    said = status(cluster, asked)[1]
    assert re.search(f"redundancy 8 objects lack shards: {words}(; \\d+ lack none of those that were looked at)?\n", said) and f"! 8 objects lack shards: {words}" in said, said
    metrics = asked.get("/metrics/pool", asked.admin)[2]
    assert all(f'millrace_objects_lacking_shards{{missing="{n}"}} {count}\n' in metrics for n, count in found.items()), metrics
    leader.kill()
    code, said = wait_until(lambda: (found := status(cluster, asked))[1].count("is silent") == 2 and found, 60, "nobody leads", lambda: status(cluster, asked)[1])
    assert code == 1 and "has no leader that answers" in said and "; epoch " in said, said
    cluster.etcd.kill()
    code, said = wait_until(lambda: (found := status(cluster, asked))[1].count("etcd does not answer") == 1 and found, 60, "etcd is away", lambda: status(cluster, asked)[1])
    assert code == 1, said
    assert status(cluster, leader)[0] == 2
    found = cluster_metrics(asked)
    assert found["nodes_silent"] == 2 and found["etcd_silent_seconds"] > 0, found
    silent = found["etcd_silent_seconds"]
    wait_until(lambda: cluster_metrics(asked)["etcd_silent_seconds"] > silent + 1, 30, "the time since etcd's last answer grows", cluster.said)
    cluster.etcd.start()
    away.spawn()
    leader.spawn()
    for node in cluster.nodes.values():
        whole(cluster, node)


def test_a_node_is_ready_for_the_next_to_restart(cluster):
    """Where that is asked for: not before its own drives are in use, for a time. It serves meanwhile."""
    node, other = cluster.nodes[2], cluster.nodes[3]
    whole(cluster, node)

    def ready(which, query):
        answer = which.get(f"/health/ready{query}", which.admin)
        return (answer or [0])[0]
    wait_until(lambda: [ready(node, query) for query in ("", "?drives=in", "?drives=in&for=100000")] == [200] * 3, 60, "it knows all users", cluster.said)
    assert [ready(node, query) for query in ("?drives=out", "?drives=", "?drives=in&for=x", "?drives=in&for=")] == [400] * 4
    node.kill()
    hidden = node.drives[0].with_suffix(".hidden")
    node.drives[0].rename(hidden)
    node.spawn()
    wait_until(lambda: ready(node, "") == 200 and ready(node, "?drives=in&for=100000") == 503, 60, "it serves without a drive", cluster.said)
    assert "of the 2 drives here" in node.get("/health/ready?drives=in&for=100000", node.admin)[2]
    assert ready(other, "?drives=in&for=100000") == 200  # those of others are not its own
    wait_until(lambda: ready(node, "?drives=in&for=2") == 200, 60, "it waits no longer", cluster.said)
    hidden.rename(node.drives[0])
    wait_until(lambda: ready(node, "?drives=in&for=100000") == 200, 90, "all its drives are in use", cluster.said)


def test_a_start_that_waits_for_etcd_has_ended(cluster):
    """As far as the service manager knows: it boots the machine further."""
    node = cluster.nodes[1]
    cluster.etcd.kill()
    node.kill()
    node.spawn()
    wait_told(cluster, "READY=1\nSTATUS=waits for etcd")
    cluster.etcd.start()
    wait_told(cluster, "READY=1\nSTATUS=serves")
    whole(cluster, node)


def test_settings_of_a_store_of_one_machine(tmp_path):
    """Its credentials are on the drives, sealed."""
    with Daemon(drives=1, credentials=False) as daemon:
        daemon.port, daemon.admin_port = free_ports(2)
        daemon.start()
        config = tmp_path / "millrace.conf"
        config.write_text(f"listen = 127.0.0.1:{daemon.port}\nadmin = *:{daemon.admin_port}\ndrive = {daemon.drives[0]}\nkey_file = {daemon.folder}/key\n")
        env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), **sanitizer_environment()}
        for words in ("admin info", "doctor", "admin user list"):
            done = subprocess.run([str(CLI), *words.split(), "--settings", str(config)], capture_output=True, text=True, timeout=60 * PATIENCE, check=False, env=env)
            assert done.returncode == 0, done
            assert words != "doctor" or ("of a store of one machine" in done.stdout and "to the leader" not in done.stdout), done


def test_the_ca_is_changed_while_it_serves(cluster):
    """As the page says: both CAs on all nodes, then new certificates, then the new CA alone; SIGHUP to each node each time. Who restarts then connects."""
    certs = cluster.folder / "certs-2"
    cluster.cli("cluster", "cert", "ca", certs, cluster.name)
    cluster.cli("cluster", "cert", "node", certs, *(node.name for node in cluster.nodes.values()))
    old, new = ((folder / "ca.crt").read_text() for folder in (cluster.certs, certs))

    def everywhere(change):
        for node in cluster.nodes.values():
            change(node)
            said = node.said().count("reloaded")
            node.process.send_signal(signal.SIGHUP)
            wait_until(lambda n=node, before=said: n.said().count("reloaded") > before, 30, "it reloads", node.said)
            assert "stay as they are" not in node.said(), node.said()

    def restarted(node):
        assert node.terminate() == 0
        node.spawn()
        node.wait_said("is ready")
        whole(cluster, node)

    def give(node):
        for end in ("crt", "key"):
            (node.config.parent / f"{node.name}.{end}").write_bytes((certs / f"{node.name}.{end}").read_bytes())
    first, second, third = cluster.nodes.values()
    whole(cluster, first)
    everywhere(lambda node: (node.config.parent / "ca.crt").write_text(old + new))
    assert [mark for mark, _ in doctor(cluster, first)[0]["cluster_ca"]] == ["ok", "ok"]
    give(first)
    first.process.send_signal(signal.SIGHUP)
    restarted(second)  # it meets a node with a certificate of the new CA
    everywhere(give)
    restarted(third)
    everywhere(lambda node: (node.config.parent / "ca.crt").write_text(new))
    restarted(first)
    assert "MEND" not in doctor(cluster, first)[1]


def test_a_store_of_one_machine_is_no_cluster(tmp_path):
    with Daemon(drives=1).start() as daemon:
        done = subprocess.run([str(CLI), "admin", "cluster", "status"], capture_output=True, text=True, timeout=60 * PATIENCE, check=False, env={
            "PATH": os.environ["PATH"], "HOME": str(tmp_path), "MILLRACE_ADMIN": f"http://{daemon.host}:{daemon.admin_port}", "MILLRACE_ROOT_ACCESS_KEY": daemon.access_key,
            "MILLRACE_ROOT_SECRET_KEY": daemon.secret_key, **sanitizer_environment()})
        assert done.returncode == 2 and "store of one machine" in done.stderr, done
