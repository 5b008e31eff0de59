"""Stores of three nodes, and of one, on machines that are network namespaces: what an operation costs all their processes together."""

import os
import signal
import sys
import time
from pathlib import Path

from .loadgen import run_load
from .servers import STOP_LIMIT_S, Garage, Millrace, Minio, Server, status_of
from .watching import TICK, stat_fields

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT))

from tests.cluster.network import HUB, Network  # noqa: E402  pylint: disable=wrong-import-position

MACHINES = (1, 2, 3)
FOLDERS = 4  # of a node
PORT = 9000
BUCKET_LIMIT_S = 60
# Of a node of millrace, in a cluster and alone: files small enough for the disk of a small machine.
SETTINGS = {"memory": "1GiB", "log_file_size": "64MiB", "segment_size": "256MiB", "full_reserve": "64MiB"}


def tree(process):
    """Ids of a process and all below it."""
    found = [process]
    for pid in found:
        try:
            found += [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
        except OSError:
            continue  # it ended
    return found


def cpu_of_all(processes):
    """That these and all below them have used, themselves and by children that ended."""
    total = 0
    for pid in (pid for process in processes for pid in tree(process)):
        try:
            fields = stat_fields(pid)
        except OSError:
            continue
        total += sum(int(field) for field in fields[11:15])
    return total / TICK


def memory_of(process):
    """Bytes that it alone has, which are not files' pages: {name: bytes} of it and of all below it, by their names."""
    found = {}
    for pid in tree(process):
        try:
            lines = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text(encoding="ascii", errors="replace").splitlines())
        except OSError:
            continue  # it ended
        name = lines["Name"].strip()
        found[name] = max(found.get(name, 0), int(lines.get("RssAnon", "0 kB").split()[0]) << 10)
    return found


class MillraceNodes(Server):
    """Three nodes of millraced with a member of etcd beside each, 2+2."""

    name, key = "millrace, 3 nodes", "three"

    def __init__(self, folder, program, tls="all"):
        super().__init__(folder, program)
        os.environ["MILLRACE_BUILD"] = str(program.parent)
        from tests.cluster.nodes import S3_PORT, Cluster  # pylint: disable=import-outside-toplevel # by then it knows the build
        self.cluster = Cluster(drives=FOLDERS, settings={**SETTINGS, "cluster_tls": tls}, place=self.folder)
        self.access, self.secret = self.cluster.access_key, self.cluster.secret_key
        self.endpoint = ",".join(f"http://{node.host}:{S3_PORT}" for node in self.cluster.nodes.values())

    def start(self):
        self.cluster.start()
        self.cluster.wait_until(self.cluster.whole, 60, "until all drives were members")
        self.process = next(iter(self.cluster.nodes.values())).process

    def processes(self):
        return [node.process.pid for node in self.cluster.nodes.values()]

    def stop(self, how=signal.SIGTERM):
        self.cluster.discard()


class OnMachines:
    """What servers have in common that run on machines of a network of their own, started with `within`. Clients are on the hub."""

    machines = MACHINES
    network = None

    def join(self):
        self.network = Network(self.machines)
        self.network.enter(HUB)

    def within(self, machine):
        return ["setpriv", "--pdeathsig", "KILL", "--", *self.network.within(machine)]

    def leave(self):
        if self.network is not None:
            self.network.leave()
            self.network.remove()
            self.network = None


class OneNode(OnMachines, Millrace):
    """millraced alone, without a cluster, on the first machine."""

    name, key = "millrace, 1 node", "one"
    machines = MACHINES[:1]

    def spawn(self, command, environment):
        super().spawn([*self.within(1), *command], environment)

    def start(self, listen=None, admin=None):
        self.join()
        address = self.network.address(1)
        super().start(f"{address}:{PORT}", f"{address}:{PORT + 1}")

    def processes(self):
        return [self.process.pid]

    def stop(self, how=signal.SIGTERM):
        super().stop(how)
        self.leave()


class MinioNodes(OnMachines, Minio):
    """Three servers of MinIO, one erasure set over all twelve folders with MinIO's own parity for it, EC:4: a node may be lost, as with 2+2 here."""

    name, key = "MinIO, 3 nodes", "minio"

    def __init__(self, folder, program):
        super().__init__(folder, program)
        self.all = []

    def start(self):
        self.join()
        hosts = {machine: self.network.address(machine) for machine in self.machines}
        # each by itself: a pattern like d{1...4} would be a pool of one node
        places = [f"http://{host}:{PORT}{self.folder}/n{machine}/d{number + 1}" for number in range(FOLDERS) for machine, host in hosts.items()]
        environment = dict(os.environ, MINIO_ROOT_USER=self.access, MINIO_ROOT_PASSWORD=self.secret, MINIO_CI_CD="on", MINIO_UPDATE="off")
        for machine, host in hosts.items():
            self.log = self.folder / f"log{machine}"
            self.spawn([*self.within(machine), self.program, "server", "--quiet", "--address", f"{host}:{PORT}", "--console-address", f"{host}:{PORT + 1}", *places],
                       environment)
            self.all.append(self.process)
        self.endpoint = ",".join(f"http://{host}:{PORT}" for host in hosts.values())
        for host in hosts.values():
            self.wait_for(lambda host=host: status_of(f"http://{host}:{PORT}/minio/health/cluster") == 200, 0.1)

    def processes(self):
        return [process.pid for process in self.all]

    def stop(self, how=signal.SIGTERM):
        stop_all(self.all, how)
        self.leave()


class GarageNodes(OnMachines, Server):
    """Three nodes of Garage, each a zone with four folders, three copies of everything, flushed."""

    name, key, copies = "Garage, 3 nodes", "garage", 3

    def __init__(self, folder, program):
        super().__init__(folder, program)
        self.nodes = []

    def start(self):
        self.join()
        shared = os.urandom(32).hex()
        for machine in self.machines:
            self.nodes.append(Garage(self.folder / f"n{machine}", self.program, self.network.address(machine), FOLDERS, self.copies, shared, self.within(machine)))
        for node in self.nodes:
            node.configure()
            node.serve()
        self.nodes[0].lay_out(self.nodes[1:])
        for node in self.nodes:
            node.wait_for(lambda node=node: status_of(f"http://{node.admin}/health") == 200, 0.1)
        self.access, self.secret, self.process = self.nodes[0].access, self.nodes[0].secret, self.nodes[0].process
        self.endpoint = ",".join(node.endpoint for node in self.nodes)

    def processes(self):
        return [node.process.pid for node in self.nodes]

    def stop(self, how=signal.SIGTERM):
        stop_all([node.process for node in self.nodes if node.process is not None], how)
        self.leave()


def stop_all(processes, how):
    for process in processes:
        if process.poll() is None:
            process.send_signal(how)
    until = time.monotonic() + STOP_LIMIT_S
    for process in processes:
        while process.poll() is None and time.monotonic() < until:
            time.sleep(0.05)
        process.kill()
        process.wait()


def nodes_of(group):
    return group.endpoint.count(",") + 1


def make_bucket(options, group):
    """At a cluster that has just begun it may take a moment."""
    until = time.monotonic() + BUCKET_LIMIT_S
    while run_load(options, group, "bucket")["errors"] > 0:
        if time.monotonic() > until:
            raise RuntimeError(f"{group.name}: the bucket cannot be made")
        time.sleep(0.2)


def run_at_all(options, group, kind, *arguments):
    """One phase whose connections take turns at all nodes: what all of them took."""
    before = cpu_of_all(group.processes())
    figures = run_load(options, group, kind, *arguments)
    return {**{name: figures[name] for name in ("ops", "errors", "ops_s", "mib_s", "bytes", "p50_us", "p99_us")}, "cpu_s": cpu_of_all(group.processes()) - before}
