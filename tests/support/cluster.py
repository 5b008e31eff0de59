"""A cluster on loopback: one etcd, and nodes that are millraced's, each with a port of its own for its drives, S3 and admin. For tests of what a node says and refuses; what
a cluster promises when machines and links fail is tested in tests/cluster."""
import json
import re
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import urllib.request
from pathlib import Path

from tests.support.daemon import CLI, PATIENCE, PROGRAM, SANITIZER_REPORT, WRAP, DaemonError, mortal, sanitizer_environment
from tests.support.ports import free_ports, free_row


def wait_until(condition, timeout, what, log=lambda: ""):
    end = time.monotonic() + timeout * PATIENCE
    while time.monotonic() < end:
        value = condition()
        if value:
            return value
        time.sleep(0.05)
    raise DaemonError(f"{what}: not within {timeout * PATIENCE} s\n{log()}")


class Etcd:
    def __init__(self, folder):
        self.folder = folder / "etcd"
        self.client, self.peer = free_ports(2)
        self.url = f"http://127.0.0.1:{self.client}"
        self.process = None

    def start(self):
        peer = f"http://127.0.0.1:{self.peer}"
        with open(self.folder.with_suffix(".log"), "ab") as log:
            self.process = subprocess.Popen(mortal() + ["etcd", "--data-dir", str(self.folder), "--listen-client-urls", self.url, "--advertise-client-urls", self.url,
                                                        "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", f"default={peer}",
                                                        "--log-level", "error"], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        wait_until(self.answers, 30, "etcd answers")

    def answers(self):
        with socket.socket() as s:
            return s.connect_ex(("127.0.0.1", self.client)) == 0

    def ask(self, path, **body):
        """What its JSON gateway answers to a POST."""
        request = urllib.request.Request(f"{self.url}/v3/{path}", json.dumps(body).encode())
        with urllib.request.urlopen(request, timeout=10 * PATIENCE) as answer:
            return json.load(answer)

    def kill(self):
        if self.process is not None:
            self.process.kill()
            self.process.wait()


class Node:
    """Node `number` of a cluster. Options given here come behind the usual ones."""

    def __init__(self, cluster, number, drives=2, options=()):
        self.cluster, self.number, self.options = cluster, number, list(options)
        self.folder = cluster.folder / f"node{number}"
        self.drives = [self.folder / f"drive{i + 1}" for i in range(drives)]
        for drive in self.drives:
            drive.mkdir(parents=True, exist_ok=True)
        self.log = self.folder / "millraced.log"
        self.links, (self.s3, self.admin) = free_row(cluster.pools + 1), free_ports(2)  # the leader of pool P listens on the port P further
        self.process, self.log_start, self.environment, self.program = None, 0, {}, PROGRAM
        # as a Daemon has them, for what is asked by the command line
        self.host, self.admin_port, self.endpoint = "127.0.0.1", self.admin, f"http://127.0.0.1:{self.s3}"
        self.access_key, self.secret_key = cluster.access_key, cluster.secret_key

    def command(self):
        given = {"cluster": self.cluster.name, "node": f"n{self.number}", "etcd": self.cluster.etcd.url,
                 "cluster-listen": f"127.0.0.1:{self.links}", "cluster-ca": self.cluster.certs / "ca.crt", "cluster-cert": self.cluster.certs / f"n{self.number}.crt",
                 "cluster-key": self.cluster.certs / f"n{self.number}.key", "listen": f"127.0.0.1:{self.s3}", "admin": f"127.0.0.1:{self.admin}",
                 "key-file": self.cluster.folder / "key", "root-credentials": self.cluster.folder / "credentials", "loops": 1, "memory": "64MiB",
                 "log-file-size": "4MiB", "segment-size": "16MiB", "full-reserve": "1MiB"}
        changed = {option.split("=", 1)[0].removeprefix("--") for option in self.options}
        command = WRAP + [str(self.program)] + [f"--{name}={value}" for name, value in given.items() if name not in changed]
        for drive in self.drives:
            command += ["--drive", str(drive)]
        return command + self.options + ([] if "--format=no" in self.options else ["--format"])

    def spawn(self):
        self.log_start = len(self.log.read_text(errors="replace")) if self.log.exists() else 0
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(mortal() + self.command(), stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                            env={**sanitizer_environment(), **self.environment})
        return self

    def run(self, timeout=30):
        """Until it ends by itself: (status, what it said)."""
        done = subprocess.run(self.command(), stdin=subprocess.DEVNULL, capture_output=True, text=True, env=sanitizer_environment(), timeout=timeout * PATIENCE, check=False)
        return done.returncode, done.stderr

    def said(self):
        """Since it was last started."""
        return self.log.read_text(errors="replace")[self.log_start:] if self.log.exists() else ""

    def serves(self):
        """Its gateway is open: a request without a signature is refused by S3."""
        return (self.get("/") or (0, {}, ""))[0] == 403

    def wait_said(self, text, timeout=30):
        wait_until(lambda: text in self.said(), timeout, f"node {self.number} says {text!r}", self.said)

    def kill(self):
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
        if self.process is not None:
            self.process.wait()

    def terminate(self, timeout=60):
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout * PATIENCE)

    def get(self, path="/some-bucket", port=None):
        """(status, headers, body) of a GET without a signature; None: nobody answers."""
        try:
            with socket.create_connection(("127.0.0.1", port or self.s3), timeout=10 * PATIENCE) as s:
                s.sendall(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n".encode())
                answer = b""
                while piece := s.recv(65536):
                    answer += piece
        except OSError:
            return None
        head, _, body = answer.decode().partition("\r\n\r\n")
        lines = head.split("\r\n")
        if not lines[0]:
            return None
        headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines[1:])}
        return int(lines[0].split()[1]), headers, body


class Cluster:
    """Folders, etcd and nodes live under one temporary folder until discard()."""

    def __init__(self, nodes=3, drives=2, name="c1", pools=1):
        self.folder = Path(tempfile.mkdtemp(prefix="millrace-test-"))
        self.name, self.pools = name, pools
        self.certs = self.folder / "certs"
        self.certs.mkdir()
        self.access_key, self.secret_key = "AK" + secrets.token_hex(9).upper(), secrets.token_urlsafe(30)
        for file, text in (("credentials", f"access_key = {self.access_key}\nsecret_key = {self.secret_key}\n"), ("key", f"key = {secrets.token_hex(32)}\n")):
            (self.folder / file).write_text(text)
            (self.folder / file).chmod(0o600)
        self.cli("cluster", "cert", "ca", self.certs, name)
        self.cli("cluster", "cert", "node", self.certs, *(f"n{i + 1}" for i in range(nodes)))
        self.etcd = Etcd(self.folder)
        self.nodes = {i + 1: Node(self, i + 1, drives) for i in range(nodes)}

    @staticmethod
    def cli(*words):
        subprocess.run([str(CLI), *map(str, words)], capture_output=True, text=True, timeout=60 * PATIENCE, check=True, env=sanitizer_environment())

    def init(self, *options, nodes=None, status=0):
        command = WRAP + [str(PROGRAM), "--init-cluster", "--cluster", self.name, "--etcd", self.etcd.url, "--new-pool-nodes", ",".join(f"n{number}" for number in nodes or self.nodes),
                   *([f"--new-pools={self.pools}"] if self.pools > 1 else [])]
        with subprocess.Popen([*command, *options], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=sanitizer_environment()) as init:
            said = self.wait_init(init)
        assert init.returncode == status, said
        return said

    def wait_init(self, init):
        """What it said. It would wait long for a node that has ended."""
        end = time.monotonic() + 60 * PATIENCE
        while True:
            try:
                return init.communicate(timeout=0.5)[0]
            except subprocess.TimeoutExpired:
                if time.monotonic() > end or any(node.process is not None and node.process.poll() is not None for node in self.nodes.values()):
                    init.kill()
                    raise DaemonError(f"no cluster was made: {init.communicate()[0]}\n{self.said()}") from None

    def reseed_process(self, *options):
        with open(self.folder / "reseed.log", "ab") as log:
            return subprocess.Popen(mortal() + WRAP + [str(PROGRAM), "--reseed-cluster", "--cluster", self.name, "--etcd", self.etcd.url, *options],
                                    stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=sanitizer_environment())

    def reseed(self, *options, status=0):
        done = subprocess.run(WRAP + [str(PROGRAM), "--reseed-cluster", "--cluster", self.name, "--etcd", self.etcd.url, *options], capture_output=True, text=True,
                              timeout=150 * PATIENCE, check=False, env=sanitizer_environment())
        assert done.returncode == status, (done.stdout, done.stderr, self.said())
        return done.stdout + done.stderr

    def start(self, *options):
        self.etcd.start()
        for node in self.nodes.values():
            node.spawn()
        self.init(*options)
        self.wait_leader()
        return self

    def leader(self):
        """The node whose leader process leads, as its admin address says; None."""
        for node in self.nodes.values():
            if node.process is None or node.process.poll() is not None:
                continue
            answer = node.get("/health/ready", node.admin)
            if answer is not None and '"leads":true' in answer[2]:
                return node
        return None

    def leaders(self):
        """Of each pool, by its number, the node that leads it, as nodes that run say of themselves."""
        found = {}
        for node in self.nodes.values():
            if node.process is None or node.process.poll() is not None:
                continue
            answer = node.get("/health/ready", node.admin)
            for pool in json.loads(answer[2]).get("pools", []) if answer is not None else []:
                if pool["leads"]:
                    found[pool["pool"]] = node.number
        return found

    def wait_leader(self, timeout=60):
        return wait_until(self.leader, timeout, "some node leads", self.said)

    def wait_serving(self, timeout=60):
        """Every node's gateway, of nodes that run."""
        for node in self.nodes.values():
            if node.process is not None and node.process.poll() is None:
                wait_until(node.serves, timeout, f"node {node.number} serves", self.said)

    def said(self):
        return "\n".join(f"---- node {n.number}\n{n.log.read_text(errors='replace')[-6000:] if n.log.exists() else ''}" for n in self.nodes.values())

    def __enter__(self):
        return self

    def __exit__(self, kind, value, traceback):
        said = self.said()
        try:
            for node in self.nodes.values():
                node.kill()
            self.etcd.kill()
        finally:
            shutil.rmtree(self.folder, ignore_errors=True)
        if kind is not None:
            print(said)
        elif (report := SANITIZER_REPORT.search(said)) is not None:
            raise DaemonError(f"{report.group(0)}:\n{said}")
        assert kind is not None or not re.search(r"leader process was ended by signal (?!9)", said), said
