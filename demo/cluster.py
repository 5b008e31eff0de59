#!/usr/bin/env python3
"""`make demo-cluster`: a store of three nodes on machines that are network namespaces, each with four drive folders and a member of etcd.

Objects are stored through all nodes and read back through each. Then writers and readers go on while nodes are killed, cut off and
restarted, and etcd is stopped: how long nobody could write or read is shown for each event. Then a fourth node comes and the first is
drained, while writers go on: what was moved is shown against the least that could be. At the end every byte that was acknowledged is
compared: the data set through each node, what was written meanwhile through one. Exits 0 only if all of it is there. Needs root.
"""
import argparse
import concurrent.futures
import hashlib
import json
import random
import re
import signal
import sys
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import boto3  # noqa: E402
import botocore.config  # noqa: E402
import botocore.exceptions  # noqa: E402

from demo.report import Progress, table  # noqa: E402
from tests.cluster.network import missing  # noqa: E402
from tests.cluster.nodes import S3_PORT, Cluster  # noqa: E402

KIB, MIB = 1 << 10, 1 << 20
BUCKET = "dataset"
SIZES = (4 * KIB, 100 * KIB, MIB, 6 * MIB)
LIVE_SIZE = 64 * KIB
MOVED_MOST = 1.1      # of the least possible
WHOLE_SECONDS = 120   # after an event, until all drives are members again
AFTER_SECONDS = 2


class Wrong(Exception):
    """The store did not keep its word."""


def client(cluster, node):
    config = botocore.config.Config(signature_version="s3v4", s3={"addressing_style": "path"}, retries={"max_attempts": 0}, connect_timeout=1, read_timeout=5,
                                    max_pool_connections=4)
    return boto3.session.Session().client("s3", endpoint_url=f"http://{node.host}:{S3_PORT}", aws_access_key_id=cluster.access_key,
                                          aws_secret_access_key=cluster.secret_key, region_name="us-east-1", config=config)


class Worker(threading.Thread):
    """Writes, or reads, one object after the other at one node; where that fails, at the next one."""

    def __init__(self, demo, kind, number):
        super().__init__(daemon=True)
        self.demo, self.kind, self.number = demo, kind, number
        self.random = random.Random(f"{demo.seed}/{kind}/{number}")
        self.at = number
        self.clients = [client(demo.cluster, node) for node in demo.cluster.nodes.values()]
        self.done, self.failed, self.wrong = [], 0, None

    def run(self):
        count = 0
        while not self.demo.stopping.is_set() and self.wrong is None:
            try:
                self.write(count) if self.kind == "write" else self.read()
                self.done.append(time.monotonic())
                count += 1
            except (botocore.exceptions.BotoCoreError, botocore.exceptions.ClientError) as error:
                status = error.response["ResponseMetadata"]["HTTPStatusCode"] if isinstance(error, botocore.exceptions.ClientError) else 503
                if status < 500:
                    self.wrong = f"{self.kind}: {error}"
                self.failed += 1
                self.at += 1
            self.demo.stopping.wait(0.01)

    def s3(self):
        return self.clients[self.at % len(self.clients)]

    def write(self, count):
        key, body = f"live/{self.demo.phase}/{self.number}/{count}", self.random.randbytes(LIVE_SIZE)
        self.s3().put_object(Bucket=BUCKET, Key=key, Body=body)
        self.demo.facts[key] = hashlib.md5(body).hexdigest()

    def read(self):
        key = self.random.choice(self.demo.readable)
        body = self.s3().get_object(Bucket=BUCKET, Key=key)["Body"].read()
        if hashlib.md5(body).hexdigest() != self.demo.facts[key]:
            self.wrong = f"{key}: other bytes than were stored"


class Demo:
    def __init__(self, arguments):
        self.seed, self.objects = arguments.seed, arguments.objects
        self.random = random.Random(self.seed)
        self.cluster = Cluster(drives=4)
        self.facts = {}      # key -> MD5 of what was acknowledged
        self.readable = []   # keys of the data set
        self.stopping = threading.Event()
        self.workers, self.phase = [], 0
        self.rows = [("event", "without a write, s", "without a read, s", "whole again after, s")]

    # ---- objects --------------------------------------------------------------------------------------------

    def store(self):
        clients = [client(self.cluster, node) for node in self.cluster.nodes.values()]
        self.patiently(lambda: clients[0].create_bucket(Bucket=BUCKET))
        size = 0
        with Progress(f"storing {self.objects} objects, each through another node"):
            for number in range(self.objects):
                key, body = f"data/{number:05}", self.random.randbytes(SIZES[number % len(SIZES)])
                self.patiently(lambda key=key, body=body, s3=clients[number % 3]: s3.put_object(Bucket=BUCKET, Key=key, Body=body))
                self.facts[key] = hashlib.md5(body).hexdigest()
                size += len(body)
        self.readable = list(self.facts)
        print(f"  {self.objects} objects, {size / MIB:.0f} MiB")

    def patiently(self, ask):
        """Again, for a while, where the store cannot answer: at its start it may have no leader yet."""
        for tries in range(60):
            try:
                return ask()
            except (botocore.exceptions.BotoCoreError, botocore.exceptions.ClientError):
                if tries == 59:
                    raise
                time.sleep(0.5)

    def digest(self, s3, key):
        return hashlib.md5(self.patiently(lambda: s3.get_object(Bucket=BUCKET, Key=key)["Body"].read())).hexdigest()

    def compare(self):
        """All that was acknowledged: the data set through each node, what was written meanwhile through one of them."""
        nodes = list(self.cluster.nodes.values())
        for turn, node in enumerate(nodes):
            s3 = client(self.cluster, node)
            keys = [key for i, key in enumerate(self.facts) if i < self.objects or i % len(nodes) == turn]
            with Progress(f"comparing {len(keys):,} objects through node {node.machine}"):
                with concurrent.futures.ThreadPoolExecutor(4) as pool:
                    for key, md5 in zip(keys, pool.map(lambda key, s3=s3: self.digest(s3, key), keys)):
                        if md5 != self.facts[key]:
                            raise Wrong(f"{key}: other bytes than were stored, at node {node.machine}")
            listed = {o["Key"] for page in s3.get_paginator("list_objects_v2").paginate(Bucket=BUCKET) for o in page.get("Contents", [])}
            if not listed >= set(self.facts):
                raise Wrong(f"node {node.machine} does not list {sorted(set(self.facts) - listed)[:5]}")

    # ---- events ---------------------------------------------------------------------------------------------

    def leader(self):
        return next((node for node in self.cluster.nodes.values() if node.leader()), None)

    def follower(self):
        return next(node for node in self.cluster.nodes.values() if not node.leader())

    def kill(self, node, seconds):
        node.kill()
        time.sleep(seconds)
        node.start()

    def kill_leader_process(self):
        node = self.leader()
        node.send(signal.SIGKILL, [node.leader()])

    def cut_off(self, node, seconds):
        self.cluster.network.link(node.machine, False)
        time.sleep(seconds)
        self.cluster.network.link(node.machine, True)

    def stop_etcd(self, seconds):
        for member in self.cluster.etcd.values():
            member.kill()
        time.sleep(seconds)
        for member in self.cluster.etcd.values():
            member.start()

    def restart_all(self):
        for node in self.cluster.nodes.values():
            node.wanted = False
            node.send(signal.SIGTERM, [node.process.pid])
            if node.process.wait(60) != 0:
                raise Wrong(f"node {node.machine} did not stop cleanly: {node.tail()}")
            node.start()
            self.wait_whole()

    def wait_whole(self):
        time.sleep(AFTER_SECONDS)  # what is amiss is noticed by then
        self.cluster.wait_until(self.cluster.whole, WHOLE_SECONDS, "until all drives were members again")

    def longest(self, kind, begun, ended):
        moments = sorted(m for worker in self.workers if worker.kind == kind for m in list(worker.done))
        inside = [begun, *(m for m in moments if begun < m < ended), ended]
        return max(b - a for a, b in zip(inside, inside[1:]))

    def event(self, title, action):
        begun = time.monotonic()
        with Progress(title):
            action()
            acted = time.monotonic()
            self.wait_whole()
        ended = time.monotonic()
        self.rows.append((title, f"{self.longest('write', begun, ended):.2f}", f"{self.longest('read', begun, ended):.2f}", f"{ended - acted - AFTER_SECONDS:.1f}"))
        for worker in self.workers:
            if worker.wrong is not None:
                raise Wrong(worker.wrong)

    def begin_work(self):
        self.stopping.clear()
        self.phase += 1
        self.workers = [Worker(self, kind, number) for kind in ("write", "read") for number in range(3)]
        for worker in self.workers:
            worker.start()

    def end_work(self):
        self.stopping.set()
        for worker in self.workers:
            worker.join(30)
        done = {kind: sum(len(w.done) for w in self.workers if w.kind == kind) for kind in ("write", "read")}
        print(f"  {done['write']:,} writes and {done['read']:,} reads meanwhile; {sum(w.failed for w in self.workers):,} answers were errors or never came, and were asked "
              "for at another node")

    def events(self, etcd_seconds):
        self.begin_work()
        try:
            self.event("nothing happens", lambda: time.sleep(3))
            self.event("a node is killed, and back after 5 s", lambda: self.kill(self.follower(), 5))
            self.event("the leader process is killed", self.kill_leader_process)
            self.event("the leader's node is killed, and back after 5 s", lambda: self.kill(self.leader(), 5))
            self.event("a node is cut off for 10 s", lambda: self.cut_off(self.follower(), 10))
            self.event(f"etcd is stopped for {etcd_seconds} s", lambda: self.stop_etcd(etcd_seconds))
            self.event("nodes are restarted, one after the other", self.restart_all)
        finally:
            self.end_work()

    # ---- a node comes, another goes -------------------------------------------------------------------------

    def figures(self):
        """Of the pool, by name; and of its drives: (name, node, value)."""
        body = next(body for status, body in (node.admin_get("/metrics/pool") for node in self.cluster.nodes.values()) if status == 200)
        pool = {name: float(value) for name, value in re.findall(r"^(\w+) (\S+)$", body, re.M)}
        drives = [(name, int(node), float(value)) for name, node, value in re.findall(r'^(\w+)\{drive="\w+",path="remote:(\d+)/[^}]*\} (\S+)$', body, re.M)]
        return pool, drives

    def settled(self, node):
        """Nothing is being moved."""
        pool, _ = self.figures()
        drives = json.loads(self.cluster.cli(node, "admin", "drive", "status", "--json"))["drives"]
        return self.cluster.whole() and pool["millrace_healing"] == 0 and pool["millrace_objects_below_redundancy"] == 0 \
            and not any(drive["filling"] or drive["adding"] or drive["leaving"] for drive in drives)

    def of_node(self, number, *names):
        return sum(value for name, of, value in self.figures()[1] if name in names and of == number)

    def come_and_go(self):
        """What is live on a node that has come is the least that it can have been given; of one that goes it is what it holds."""
        first, live = self.cluster.nodes[1], ("millrace_drive_log_live_bytes", "millrace_drive_data_live_bytes")
        self.begin_work()
        try:
            node = self.cluster.new_node()
            self.event("a fourth node comes", lambda: self.change(node, "add", node.machine, self.cluster.drives))
            given, written = self.of_node(node.machine, *live), self.of_node(node.machine, "millrace_drive_written_bytes_total")
            print(f"  node {node.machine} holds {given / MIB:.0f} MiB, and {written / MIB:.0f} MiB were written to it, {written / max(given, 1):.2f} of the least possible")
            held, before = self.of_node(first.machine, "millrace_drive_data_live_bytes"), self.figures()[0]["millrace_rebuilt_bytes_total"]
            self.event("the first node is drained", lambda: self.change(node, "drain", first.machine, -self.cluster.drives))
            moved = self.figures()[0]["millrace_rebuilt_bytes_total"] - before
        finally:
            self.end_work()
        self.cluster.retire(first)
        print(f"  node {first.machine} held {held / MIB:.0f} MiB of shards, and {moved / MIB:.0f} MiB were moved, {moved / max(held, 1):.2f} of the least possible")
        if moved > MOVED_MOST * held:
            raise Wrong(f"{moved / held:.2f} of the least possible was moved")

    def change(self, node, action, number, drives):
        self.cluster.cli(node, "admin", "cluster", "node", action, str(number))
        self.cluster.pool_drives += drives
        self.cluster.wait_until(lambda: self.settled(node), WHOLE_SECONDS, "until nothing was being moved")

    def run(self, etcd_seconds):
        with Progress("starting three nodes of four folders each, and etcd"):
            self.cluster.start()
        self.store()
        self.compare()
        self.events(etcd_seconds)
        self.come_and_go()
        self.compare()
        table(self.rows)
        print(f"{len(self.facts):,} objects were acknowledged: 0 lost, 0 wrong.")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--objects", type=int, default=96, help="of the data set (default 96)")
    parser.add_argument("--etcd-seconds", type=int, default=60, help="that etcd is stopped (default 60)")
    parser.add_argument("--seed", default="1", help="of contents (default 1)")
    arguments = parser.parse_args()
    if missing() is not None:
        print(missing(), file=sys.stderr)
        return 2
    demo = Demo(arguments)
    try:
        demo.run(arguments.etcd_seconds)
    except Wrong as error:
        print(f"WRONG: {error}", file=sys.stderr)
        return 1
    finally:
        demo.stopping.set()
        demo.cluster.discard()
    return 0


if __name__ == "__main__":
    sys.exit(main())
