"""What breaks on a cluster's machines, at random times by a seed, and what ends it. One thing at a time, now and then two."""
import dataclasses
import os
import signal
import statistics
import time
from typing import Callable

from tests.support.daemon import PATIENCE

TICK = 0.05
LEADER_SHARE = 0.6   # of the faults of a node, those of the node that leads
TWO_SHARE = 0.2      # of all faults, those that begin while another one lasts
CALM_SHARE = 0.5     # ..., those after which the next one waits until all drives are in use
CALM_SECONDS = 20
EXIT_SECONDS = 60    # for a node that was asked to end
SLOW_BITS, SLOW_MS = (2_000_000, 50_000_000), (20, 400)  # of a slow link: bits a second, and how long what waits there may wait
BALLAST = "ballast"
LARGEST_PIECE, SMALLEST_PIECE = 64 << 20, 64 << 10
LEFT_BYTES = (0, 96 << 20)  # of a full file system: from nothing to more than the store needs to look for dead bytes
TOGETHER = "two at once"
FULL = "file system full"
AFTER_SECONDS = 10   # in which a fault that has ended may still be felt


BUSY = {
    "node": lambda fault: {fault.machine},
    "leader": lambda fault: {fault.machine},
    "machine": lambda fault: {fault.machine, "etcd"},  # a node and its member of etcd
    "pool": lambda fault: set(fault.cluster.nodes),    # all nodes
    "member": lambda fault: {"etcd"},                  # one of etcd
    "etcd": lambda fault: {"etcd"},                    # all of them
}


@dataclasses.dataclass(frozen=True)
class Kind:
    name: str
    of: str                   # of what: see BUSY; "leader" is a node with a leader process
    seconds: tuple            # how long it lasts
    begin: Callable           # called with the fault
    end: Callable = lambda fault: None


@dataclasses.dataclass
class Fault:
    kind: Kind
    cluster: object
    random: object
    machine: int
    begun: float = 0.0        # seconds of the cluster
    ends: float = 0.0
    ended: float = 0.0
    ids: tuple = ()
    detail: str = ""
    together: bool = False    # another one lasted at some time of it

    @property
    def node(self):
        return self.cluster.nodes[self.machine]

    @property
    def member(self):
        return self.cluster.etcd[self.machine]

    @property
    def busy(self):
        """What no other fault may touch meanwhile: "etcd", and numbers of nodes."""
        return BUSY[self.kind.of](self)


def kill_leader(fault):
    leader = fault.node.leader()
    fault.node.send(signal.SIGKILL, [leader] if leader else [])


def pause(fault):
    fault.ids = tuple(fault.node.ids())
    fault.node.send(signal.SIGSTOP, fault.ids)


def pause_leader(fault):
    leader = fault.node.leader()
    fault.ids = (leader,) if leader else ()
    fault.node.send(signal.SIGSTOP, fault.ids)


def go_on(fault):
    fault.node.send(signal.SIGCONT, fault.ids)


def restart(fault):
    """As an operator does it; it must end with 0."""
    node = fault.node
    node.wanted = False
    leads = node.leader() is not None
    node.send(signal.SIGTERM, [node.process.pid])
    status = node.process.wait(EXIT_SECONDS * PATIENCE)
    fault.detail = "it led" if leads else "it did not lead"
    assert status == 0, f"node {fault.machine}: SIGTERM ended it with {status}\n{node.tail()}"


def link(up):
    return lambda fault: fault.cluster.network.link(fault.machine, up)


def lose(*directions):
    """Of everybody, of the other nodes (clients are still heard), or of one of them."""
    def begin(fault):
        others = [machine for machine in fault.cluster.nodes if machine != fault.machine]
        peers = fault.random.choice(([], others, others, [fault.random.choice(others)]))
        fault.detail = f"of {' and '.join(map(str, peers)) or 'all'}"
        for direction in directions:
            fault.cluster.network.drop(fault.machine, direction, peers)
    return begin


def mend_loss(fault):
    fault.cluster.network.pass_all(fault.machine)


def slow(fault):
    bits, most = (int(fault.random.uniform(*bounds)) for bounds in (SLOW_BITS, SLOW_MS))
    fault.detail = f"{bits / 1e6:.1f} Mbit/s, {most} ms"
    fault.cluster.network.slow(fault.machine, bits, most)


def fill(fault):
    """Takes what is free but for some bytes, piece by piece, as the node goes on: what it writes meanwhile may be first, and memory may be less than the file system."""
    left = fault.random.choice((0, fault.random.randint(*LEFT_BYTES)))
    fault.detail = f"{left >> 20} MiB left"
    with open(fault.node.folder / BALLAST, "wb") as file:
        free = os.statvfs(fault.node.folder)
        at, end, piece = 0, free.f_bavail * free.f_bsize - left, LARGEST_PIECE
        while at < end and piece >= SMALLEST_PIECE:
            size = min(piece, end - at)
            try:
                os.posix_fallocate(file.fileno(), at, size)
                at += size
            except OSError:
                piece //= 2


def make_room(fault):
    (fault.node.folder / BALLAST).unlink()


def all_etcd(action):
    def change(fault):
        for member in fault.cluster.etcd.values():
            action(member)
    return change


def all_nodes(action):
    def change(fault):
        for node in fault.cluster.nodes.values():
            action(node)
    return change


def on_machine(fault, action):
    for process in (fault.node, fault.member):
        getattr(process, action)()


KINDS = [
    Kind("node killed", "node", (0, 5), lambda fault: fault.node.kill(), lambda fault: fault.node.start()),
    Kind("node killed for long", "node", (6, 15), lambda fault: fault.node.kill(), lambda fault: fault.node.start()),
    Kind("machine killed", "machine", (1, 10), lambda fault: on_machine(fault, "kill"), lambda fault: on_machine(fault, "start")),
    Kind("all nodes killed", "pool", (0, 3), all_nodes(lambda node: node.kill()), all_nodes(lambda node: node.start())),
    Kind("leader process killed", "leader", (0, 0), kill_leader),
    Kind("node paused", "node", (1, 10), pause, go_on),
    Kind("leader process paused", "leader", (1, 10), pause_leader, go_on),
    Kind("node restarted", "node", (0, 1), restart, lambda fault: fault.node.start()),
    Kind("link down", "node", (1, 15), link(False), link(True)),
    Kind("nothing comes in", "node", (1, 15), lose("input"), mend_loss),
    Kind("nothing goes out", "node", (1, 15), lose("output"), mend_loss),
    Kind("nothing comes or goes", "node", (5, 12), lose("input", "output"), mend_loss),
    Kind("link slow", "node", (3, 15), slow, lambda fault: fault.cluster.network.fast(fault.machine)),
    Kind(FULL, "node", (1, 10), fill, make_room),
    Kind("etcd member killed", "member", (1, 8), lambda fault: fault.member.kill(), lambda fault: fault.member.start()),
    Kind("etcd killed", "etcd", (1, 10), all_etcd(lambda member: member.kill()), all_etcd(lambda member: member.start())),
    Kind("etcd paused", "etcd", (1, 10), all_etcd(lambda member: member.send(signal.SIGSTOP)), all_etcd(lambda member: member.send(signal.SIGCONT))),
]


class Schedule:
    """Each kind in turn, in an order by the seed, again and again. only: names of kinds, [] for all."""

    def __init__(self, cluster, random, only=()):
        self.cluster, self.random, self.only = cluster, random, list(only)
        unknown = sorted(set(self.only) - {kind.name for kind in KINDS})
        assert not unknown, f"no such faults: {unknown}; there are {[kind.name for kind in KINDS]}"
        self.deck, self.active, self.past = [], [], []

    def draw(self):
        if not self.deck:
            kinds = [kind for kind in KINDS if (not self.only or kind.name in self.only) and (kind.name != FULL or self.cluster.node_bytes)]
            self.deck = self.random.sample(kinds, len(kinds))
        kind = self.deck.pop()
        nodes = self.cluster.nodes.values()
        leaders = [node.machine for node in nodes if node.leader()]
        machine = self.random.choice([node.machine for node in nodes])
        if leaders and (kind.of == "leader" or (kind.of in ("node", "machine") and self.random.random() < LEADER_SHARE)):
            machine = self.random.choice(leaders)
        return Fault(kind, self.cluster, self.random, machine)

    def begin(self, fault):
        fault.begun = self.cluster.seconds()
        fault.kind.begin(fault)
        fault.ends = self.cluster.seconds() + self.random.uniform(*fault.kind.seconds)
        fault.together = bool(self.active)
        for other in self.active:
            other.together = True
        self.active.append(fault)

    def end(self, fault):
        fault.kind.end(fault)
        fault.ended = self.cluster.seconds()
        self.active.remove(fault)
        self.past.append(fault)
        where = "" if fault.kind.of in ("etcd", "pool") else f" {fault.machine}"
        print(f"{fault.begun:9.3f} - {fault.ended:9.3f}  {fault.kind.name}{where} {fault.detail}", flush=True)

    def end_due(self):
        for fault in [fault for fault in self.active if self.cluster.seconds() >= fault.ends]:
            self.end(fault)

    def run(self, seconds):
        until = self.cluster.seconds() + seconds
        following = self.cluster.seconds() + self.random.uniform(1, 3)
        calm = False
        while self.cluster.seconds() < until:
            self.cluster.check_alive()
            self.end_due()
            now = self.cluster.seconds()
            if calm and not self.active and (now > following + CALM_SECONDS or self.cluster.whole()):
                calm, following = False, now + self.random.uniform(0.5, 3)
            if now >= following and not calm:
                fault = self.draw()
                if not any(other.busy & fault.busy for other in self.active):
                    self.begin(fault)
                    two = self.random.random() < TWO_SHARE and len(self.active) == 1 and fault.kind.seconds[1] > 0
                    calm = not two and self.random.random() < CALM_SHARE
                    last = max(other.ends for other in self.active)
                    following = self.random.uniform(self.cluster.seconds(), last) if two else last + self.random.uniform(0.5, 6)
            time.sleep(TICK)
        self.end_all()

    def end_all(self):
        """However far it has come, or failed: everything is as it was."""
        for fault in list(self.active):
            self.end(fault)


def gaps(faults, acknowledged):
    """{kind: for each such fault the longest time without an acknowledged change, from its beginning until it is not felt any more or the next one begins}."""
    found = {}
    for fault in faults:
        until = min([fault.ended + AFTER_SECONDS, *(other.begun for other in faults if other.begun > fault.ended)])
        between = [min(b, until) - max(a, fault.begun) for a, b in zip(acknowledged, acknowledged[1:])]
        found.setdefault(TOGETHER if fault.together else fault.kind.name, []).append(max(between, default=0.0))
    return found


def table(found):
    rows = [f"  {'fault':24} {'times':>5} {'median':>7} {'longest':>7}  seconds without an acknowledged change"]
    for name in [*(kind.name for kind in KINDS), TOGETHER]:
        if name in found:
            rows.append(f"  {name:24} {len(found[name]):5} {statistics.median(found[name]):7.2f} {max(found[name]):7.2f}")
    return "\n".join(rows)
