"""Clusters on loopback, each of a few processes on one machine: what an operation costs all of them together."""

import concurrent.futures
import os
import sys
import time
from pathlib import Path

from .loadgen import run_load
from .servers import Minio, Server, free_port, status_of
from .watching import TICK, stat_fields

ROOT = Path(__file__).resolve().parent.parent.parent


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


class Member(Server):
    """A node as the load generator sees it."""

    def __init__(self, group, endpoint, process):
        super().__init__(group.folder, None)
        self.name, self.endpoint, self.process = group.name, endpoint, process
        self.access, self.secret = group.access, group.secret


class MillraceNodes:
    """Three nodes of millraced with four folders each, one etcd, 2+2 as the one node has it."""

    name = key = "millrace, 3 nodes"

    def __init__(self, folder, program, tls="all"):
        os.environ["MILLRACE_BUILD"] = str(program.parent)
        sys.path.insert(0, str(ROOT))
        from tests.support.cluster import Cluster  # pylint: disable=import-outside-toplevel # by then it knows the build
        self.folder = Path(folder)
        self.cluster = Cluster(nodes=3, drives=4)
        self.access, self.secret = self.cluster.access_key, self.cluster.secret_key
        for node in self.cluster.nodes.values():
            node.options = ["--memory=1GiB", "--log-file-size=64MiB", "--segment-size=256MiB", "--full-reserve=64MiB", f"--cluster-tls={tls}"]

    def start(self):
        self.cluster.start("--ec=2+2")
        self.cluster.wait_serving()

    def members(self):
        return [Member(self, f"http://127.0.0.1:{node.s3}", node.process) for node in self.cluster.nodes.values()]

    def processes(self):
        return [node.process.pid for node in self.cluster.nodes.values()]

    def stop(self):
        self.cluster.__exit__(None, None, None)


class MinioNodes(Minio):
    """Three servers of MinIO with four folders each, EC:2 of twelve."""

    name, key = "MinIO, 3 nodes", "minio-nodes"

    def start(self):
        ports = [free_port() for _ in range(3)]
        places = [f"http://127.0.0.1:{port}{self.folder}/n{port}/d{{1...4}}" for port in ports]
        environment = dict(os.environ, MINIO_ROOT_USER=self.access, MINIO_ROOT_PASSWORD=self.secret, MINIO_CI_CD="on", MINIO_UPDATE="off",
                           MINIO_STORAGE_CLASS_STANDARD="EC:2")
        self.all = []
        for port in ports:
            self.spawn([self.program, "server", "--quiet", "--address", f"127.0.0.1:{port}", "--console-address", f"127.0.0.1:{free_port()}", *places], environment)
            self.all.append((port, self.process))
        for port, self.process in self.all:
            self.wait_for(lambda port=port: status_of(f"http://127.0.0.1:{port}/minio/health/cluster") == 200, 0.1)

    def members(self):
        return [Member(self, f"http://127.0.0.1:{port}", process) for port, process in self.all]

    def processes(self):
        return [process.pid for _, process in self.all]

    def stop(self, how=None):
        for _, self.process in self.all:
            super().stop()


class One:
    """A server of one process, with the same face."""

    def __init__(self, server):
        self.server, self.name = server, f"{server.name}, 1 node"

    def start(self):
        self.server.start()

    def members(self):
        return [self.server]

    def processes(self):
        return [self.server.process.pid]

    def stop(self):
        self.server.stop()


def make_bucket(options, group):
    """At a cluster that has just begun it may take a moment. As figures have it: the bucket's own run."""
    for _ in range(100):
        if run_load(options, group.members()[-1], "bucket")["errors"] == 0:
            return
        time.sleep(0.2)
    raise RuntimeError(f"{group.name}: the bucket cannot be made")


def run_at_all(options, group, kind, count, conns, arguments, keys):
    """The same operation through every member at once, count and conns in all: what all of them took. keys: that there are to read; None: it writes, each member its part of them."""
    members = group.members()
    share = count // len(members)
    before = cpu_of_all(group.processes())
    with concurrent.futures.ThreadPoolExecutor(len(members)) as pool:
        runs = [pool.submit(run_load, options, member, kind, *arguments, "--count", share, "--conns", max(1, conns // len(members)),
                            *(["--start", number * share] if keys is None else ["--keys", keys]))
                for number, member in enumerate(members)]
        done = [run.result() for run in runs]
    return {"ops": sum(d["ops"] for d in done), "errors": sum(d["errors"] for d in done), "ops_s": sum(d["ops_s"] for d in done),
            "bytes": sum(d["bytes"] for d in done), "cpu_s": cpu_of_all(group.processes()) - before}
