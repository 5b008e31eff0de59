"""A cluster on machines that are network namespaces: on each a member of etcd, a node of millrace, and what breaks and mends them.

All is called by the main thread but for what says otherwise. Processes are ended by their ids.
"""
import contextlib
import os
import re
import secrets
import shutil
import signal
import subprocess
import tempfile
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path

from tests.cluster.network import HUB, Network
from tests.support.daemon import CLI, PATIENCE, PROGRAM, SANITIZER_REPORT, WRAP, DaemonError, mortal, sanitizer_environment

NODES = (1, 2, 3)
DRIVES = 2
CLUSTER = "c1"
S3_PORT, ADMIN_PORT, LINK_PORT = 9000, 9001, 7000
# Small files, so that logs wrap and segments fill within minutes.
SMALL = {"segment_size": "16MiB", "log_file_size": "4MiB", "memtable_size": "1MiB", "cache": "8MiB"}
ROOM = 8 << 30  # less than this in memory: folders are on disk
FOLDER = "millrace-cluster"
LEADER_NAME = "millraced-lead"


def folder_for_drives(place=None):
    """Below that place; without one in memory where there is room: what is killed and stopped here loses nothing that was written."""
    memory = Path("/dev/shm")
    if place is None:
        place = memory if memory.is_dir() and shutil.disk_usage(memory).free > ROOM else Path(tempfile.gettempdir())
    for folder in place.glob(f"{FOLDER}-*"):  # of tests that were killed
        if not Path(f"/proc/{folder.name.split('-')[2]}").exists():
            remove_folder(folder)
    return Path(tempfile.mkdtemp(prefix=f"{FOLDER}-{os.getpid()}-", dir=place))


def remove_folder(folder):
    """With the file systems of nodes below it."""
    for node in folder.glob("node*"):
        if node.is_mount():
            subprocess.run(["umount", "--lazy", str(node)], timeout=20, check=False)
    shutil.rmtree(folder, ignore_errors=True)


class Process:
    """A program on a machine, with a log that grows over its restarts."""

    def __init__(self, cluster, machine, name):
        self.cluster, self.machine = cluster, machine
        self.log = cluster.folder / f"{name}{machine}.log"
        self.process = None
        self.wanted = False  # it is to run: its end is a failure

    def command(self):
        raise NotImplementedError

    def start(self):
        assert not self.alive
        self.process = subprocess.Popen(mortal() + self.cluster.network.within(self.machine) + self.command(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                        stderr=subprocess.STDOUT, env=self.cluster.environment, start_new_session=True)
        self.note("started")
        threading.Thread(target=self.copy_log, args=(self.process.stdout,), daemon=True).start()
        self.wanted = True

    def copy_log(self, lines):
        """Puts the time before each line, so that logs and faults can be read side by side."""
        with lines:
            for line in lines:
                self.note(line.decode("utf-8", "replace").rstrip("\n"))

    def note(self, line):
        with contextlib.suppress(FileNotFoundError), open(self.log, "a") as log:  # the folder may be gone already
            log.write(f"{self.cluster.seconds():9.3f} {line}\n")

    @property
    def alive(self):
        return self.process is not None and self.process.poll() is None

    def ids(self):
        """Of the process and of its children."""
        if not self.alive:
            return []
        return [self.process.pid, *children(self.process.pid)]

    def kill(self):
        self.wanted = False
        if self.alive:
            os.kill(self.process.pid, signal.SIGKILL)
            self.process.wait(20)

    def send(self, number, ids=None):
        for process in self.ids() if ids is None else ids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, number)

    def tail(self, size=3000):
        return self.log.read_text(errors="replace")[-size:] if self.log.exists() else ""


def children(process):
    try:
        return [int(word) for word in Path(f"/proc/{process}/task/{process}/children").read_text().split()]
    except OSError:
        return []


class Etcd(Process):
    def __init__(self, cluster, machine):
        super().__init__(cluster, machine, "etcd")

    def url(self, port):
        return f"http://{self.cluster.network.address(self.machine)}:{port}"

    def command(self):
        members = ",".join(f"m{member.machine}={member.url(2380)}" for member in self.cluster.etcd.values())
        return ["etcd", "--name", f"m{self.machine}", "--data-dir", str(self.cluster.folder / f"etcd{self.machine}"), "--listen-client-urls", self.url(2379),
                "--advertise-client-urls", self.url(2379), "--listen-peer-urls", self.url(2380), "--initial-advertise-peer-urls", self.url(2380),
                "--initial-cluster", members, "--initial-cluster-state", "new", "--initial-cluster-token", "test", "--logger", "zap", "--log-level", "error",
                "--enable-v2=false", "--log-outputs", "stderr"]


class Node(Process):
    def __init__(self, cluster, machine):
        super().__init__(cluster, machine, "node")
        self.host = cluster.network.address(machine)
        self.folder = cluster.folder / f"node{machine}"
        self.folder.mkdir()
        if cluster.node_bytes:
            subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={cluster.node_bytes}", "tmpfs", str(self.folder)], check=True, timeout=20)
        self.drives = [self.folder / f"drive{number}" for number in range(cluster.drives)]
        for drive in self.drives:
            drive.mkdir()

    def command(self):
        files = self.cluster.folder
        command = [*WRAP, str(PROGRAM), "--config", str(files / "millrace.conf"), "--node", f"n{self.machine}", "--cluster-listen", f"{self.host}:{LINK_PORT}",
                   "--cluster-cert", str(files / f"n{self.machine}.crt"), "--cluster-key", str(files / f"n{self.machine}.key"),
                   "--listen", f"{self.host}:{S3_PORT}", "--admin", f"{self.host}:{ADMIN_PORT}", "--format"]
        for drive in self.drives:
            command += ["--drive", str(drive)]
        return command

    def start(self):
        """With SIGTERM blocked, as the daemon has it from its first line on: a stop at any moment is one that it takes, also while its process runs what starts it."""
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
        try:
            super().start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def leader(self):
        """Id of its leader process, or None."""
        for process in children(self.process.pid) if self.alive else []:
            with contextlib.suppress(OSError):
                if Path(f"/proc/{process}/comm").read_text().strip() == LEADER_NAME:
                    return process
        return None

    def admin_get(self, path, timeout=3):
        """(status, body); (0, reason) where nothing answers. Any thread that has entered the hub."""
        try:
            with urllib.request.urlopen(f"http://{self.host}:{ADMIN_PORT}{path}", timeout=timeout) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()
        except OSError as error:
            return 0, str(error)


class Cluster:
    """Three machines. The main thread is on the hub as long as there is a cluster, as threads that it starts are. settings: instead of SMALL.

    node_bytes: the folders of each node are on a file system of that size, in memory.
    """

    def __init__(self, drives=DRIVES, settings=None, place=None, node_bytes=None):
        self.begun, self.drives, self.settings, self.node_bytes = time.monotonic(), drives, SMALL if settings is None else settings, node_bytes
        self.pool_drives = len(NODES) * drives  # that the pool is to have
        self.on_term = signal.signal(signal.SIGTERM, signal.default_int_handler)  # discard() is reached then, too
        self.folder = folder_for_drives(place)
        self.network = None
        self.etcd, self.nodes = {}, {}
        self.access_key, self.secret_key = "AK" + secrets.token_hex(9).upper(), secrets.token_urlsafe(30)
        self.environment = {name: value for name, value in os.environ.items() if not name.startswith(("MILLRACE_ROOT", "MILLRACE_KEY", "AWS_", "ETCD"))}
        self.environment.update(sanitizer_environment())
        try:
            self.network = Network(NODES)
            self.etcd = {machine: Etcd(self, machine) for machine in NODES}
            self.nodes = {machine: Node(self, machine) for machine in NODES}
            self.write_files()
            self.network.enter(HUB)
        except BaseException:
            self.discard()
            raise

    def write_files(self):
        for words in (["ca", str(self.folder), CLUSTER], ["node", str(self.folder), *(f"n{machine}" for machine in self.nodes)]):
            subprocess.run([str(CLI), "cluster", "cert", *words], check=True, timeout=60, stdout=subprocess.DEVNULL)
        self.secret("credentials", f"access_key = {self.access_key}\nsecret_key = {self.secret_key}\n")
        self.secret("key", f"key = {secrets.token_hex(32)}\n")
        settings = {"cluster": CLUSTER, "cluster_ca": self.folder / "ca.crt", "root_credentials": self.folder / "credentials",
                    "key_file": self.folder / "key", "loops": 1, **self.settings}
        lines = [f"{name} = {value}" for name, value in settings.items()] + [f"etcd = {member.url(2379)}" for member in self.etcd.values()]
        (self.folder / "millrace.conf").write_text("\n".join(lines) + "\n")

    def secret(self, name, text):
        with open(os.open(self.folder / name, os.O_WRONLY | os.O_CREAT, 0o600), "w") as file:
            file.write(text)

    def seconds(self):
        """Since there is a cluster: what logs and faults are told by."""
        return time.monotonic() - self.begun

    # ---- beginning ------------------------------------------------------------------------------------------

    def start(self):
        for process in [*self.etcd.values(), *self.nodes.values()]:
            process.start()
        command = [*WRAP, str(PROGRAM), "--init-cluster", "--cluster", CLUSTER, "--new-pool-nodes", ",".join(f"n{machine}" for machine in NODES), "--ec", "2+2"]
        for member in self.etcd.values():
            command += ["--etcd", member.url(2379)]
        done = subprocess.run(self.network.within(1) + command, capture_output=True, text=True, timeout=120 * PATIENCE, check=False, env=self.environment)
        if done.returncode != 0:
            raise DaemonError(f"--init-cluster ended with {done.returncode}: {done.stdout}{done.stderr}\n{self.tails()}")
        self.wait_until(lambda: self.leads() is not None, 120, "to be led")

    def leads(self):
        """The node that answers as the leader, or None."""
        for node in self.nodes.values():
            if node.admin_get("/health/ready")[0] == 200:
                return node
        return None

    def wait_until(self, condition, seconds, what):
        until = time.monotonic() + seconds * PATIENCE
        while not condition():
            self.check_alive()
            if time.monotonic() > until:
                raise DaemonError(f"the cluster took more than {seconds * PATIENCE} s {what}\n{self.tails()}")
            time.sleep(0.1)

    def check_alive(self):
        """Nothing has ended that was not ended on purpose."""
        for process in [*self.etcd.values(), *self.nodes.values()]:
            if process.wanted and not process.alive:
                raise DaemonError(f"{process.log.name}: ended by itself, with {process.process.returncode}\n{process.tail(8000)}")

    # ---- looking --------------------------------------------------------------------------------------------

    def drives_in(self):
        """How many drives the leader counts as in use; None: nobody leads."""
        for node in self.nodes.values():
            status, body = node.admin_get("/metrics/pool")
            found = re.search(r"^millrace_drives_in (\d+)$", body, re.M) if status == 200 else None
            if found:
                return int(found[1])
        return None

    def whole(self):
        return self.drives_in() == self.pool_drives

    # ---- nodes that come and go -----------------------------------------------------------------------------

    def cli(self, node, *words, timeout=240):
        """What `millrace WORDS` says, asked at that node."""
        environment = {**self.environment, "AWS_ACCESS_KEY_ID": self.access_key, "AWS_SECRET_ACCESS_KEY": self.secret_key}
        done = subprocess.run([str(CLI), *words, "--admin", f"http://{node.host}:{ADMIN_PORT}", "--endpoint", f"http://{node.host}:{S3_PORT}"], capture_output=True,
                              text=True, timeout=timeout * PATIENCE, check=False, env=environment)
        if done.returncode != 0:
            raise DaemonError(f"{' '.join(words)} ended with {done.returncode}: {done.stdout}{done.stderr}\n{self.tails()}")
        return done.stdout

    def new_node(self):
        """A machine more, without a member of etcd, whose node has started and has no drives in the pool yet."""
        machine = max(self.nodes) + 1
        self.network.add(machine)
        node = Node(self, machine)
        subprocess.run([str(CLI), "cluster", "cert", "node", str(self.folder), f"n{machine}"], check=True, timeout=60, stdout=subprocess.DEVNULL)
        self.nodes[machine] = node
        node.start()
        self.wait_until(lambda: node.admin_get("/health/ready")[0] == 200, 60, f"until node {machine} served")
        return node

    def retire(self, node):
        """A node that was drained is switched off."""
        node.wanted = False
        node.send(signal.SIGTERM, [node.process.pid])
        if node.process.wait(60 * PATIENCE) != 0:
            raise DaemonError(f"{node.log.name}: SIGTERM ended it with {node.process.returncode}\n{node.tail()}")
        del self.nodes[node.machine]

    def tails(self):
        return "\n".join(f"---- {process.log.name} ----\n{process.tail()}" for process in [*self.nodes.values(), *self.etcd.values()])

    def reports(self):
        """What sanitizers and failed assertions have said."""
        found = []
        for node in self.nodes.values():
            text = node.log.read_text(errors="replace")
            match = SANITIZER_REPORT.search(text)
            if match:
                found.append(f"{node.log.name}: {text[max(0, match.start() - 300):match.start() + 4000]}")
        return found

    # ---- ending ---------------------------------------------------------------------------------------------

    def stop(self):
        """SIGTERM to all nodes at once: each must end with 0."""
        for node in self.nodes.values():
            node.wanted = False
            node.send(signal.SIGTERM, [node.process.pid])
        for node in self.nodes.values():
            status = node.process.wait(90 * PATIENCE)
            if status != 0:
                raise DaemonError(f"{node.log.name}: SIGTERM ended it with {status}\n{node.tail()}")

    def discard(self):
        """Whatever has happened: no process, no namespace and no folder stays."""
        for process in [*self.nodes.values(), *self.etcd.values()]:
            process.send(signal.SIGCONT)
            process.kill()
        if self.network is not None:
            self.network.leave()
            self.network.remove()
            self.network = None
        remove_folder(self.folder)
        signal.signal(signal.SIGTERM, self.on_term)
