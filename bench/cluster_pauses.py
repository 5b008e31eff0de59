#!/usr/bin/env python3
"""For how long nobody can write, or read, when a cluster's drives, processes and machines die, several times each.

    cluster_pauses.py [--times 3] [--only NAME ...] [--etcd-seconds 60] [--keep FOLDER] [--json FILE]

Three nodes of four folders, each on a machine that is a network namespace, with a member of etcd beside each. Four clients at each node write
and read small and large objects one after the other, at that node alone. For each event: the longest time in which no client at all succeeded
("nobody"), and in which a single client did not ("one client"), of clients at nodes that nothing happened to; median over the times, the longest
of them in parentheses. What was wanted is held against the longest of "one client"; where that is more, but not more than when nothing happened, this
machine cannot tell. Then the same while what was lost comes back.

A machine dies with its link, so that no connection is reset, and with its member of etcd. Needs root, etcd, and loop mounts for the drives that die.
Exit status 1 where something is missed, or an answer was wrong.
"""

import argparse
import contextlib
import fcntl
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Callable

from lib.machine import MIB, machine, say
from lib.pauses import Site, shown
from lib.tables import table

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
from tests.cluster.network import missing  # noqa: E402  pylint: disable=wrong-import-position

EXT4_SHUTDOWN, AT_ONCE = 0x8004587D, 2  # _IOR('X', 125, __u32): from then on each call fails with EIO
IMAGE = 4096 * MIB  # with holes
FOLDERS = 4
WHOLE_S = 180
CALM_S = 2          # before an event, and behind its end
ETCD_ELECTION_S = 2  # at most, with its defaults: a candidate waits for 1 to 2 s


@dataclass(frozen=True)
class Event:
    name: str
    title: str
    wanted: tuple        # seconds of writes, of reads; None: nothing is wanted
    seconds: float       # from the event until it is undone
    act: Callable        # called with the rig; returns the machines whose clients do not count
    undo: Callable = None  # None: nothing comes back


class Rig:
    """A cluster whose machines each have one drive on a file system of its own."""

    def __init__(self, options):
        os.environ["MILLRACE_BUILD"] = str(options.program.parent)
        from tests.cluster.nodes import S3_PORT, Cluster  # pylint: disable=import-outside-toplevel # by then it knows the build
        self.options = options
        self.cluster = Cluster(drives=FOLDERS, place=options.folder)
        self.mounted, self.hit, self.rows = {}, None, []
        self.site = Site({machine: node.host for machine, node in self.cluster.nodes.items()}, S3_PORT, self.cluster.access_key, self.cluster.secret_key)

    def start(self):
        if any(event.act is drive_dies for event in chosen(self.options)):
            for number in self.cluster.nodes:
                self.mount(number)
        self.cluster.start()
        self.cluster.wait_until(self.cluster.whole, 60, "until all drives were members")
        self.site.fill()

    def mount(self, number):
        """The node's first drive lies on an image of its own."""
        node = self.cluster.nodes[number]
        image, folder = self.cluster.folder / f"image{number}", self.cluster.folder / f"mounted{number}"
        folder.mkdir()
        with open(image, "wb") as file:
            file.truncate(IMAGE)
        subprocess.run(["mkfs.ext4", "-q", "-F", "-m", "0", str(image)], check=True)
        subprocess.run(["mount", "-o", "loop", str(image), str(folder)], check=True)
        self.mounted[number] = folder
        node.drives[0] = folder / "drive"
        node.drives[0].mkdir()

    def discard(self):
        self.site.stopping.set()
        if self.options.keep:
            self.options.keep.mkdir(parents=True, exist_ok=True)
            for log in self.cluster.folder.glob("*.log"):
                shutil.copy(log, self.options.keep)
        for process in [*self.cluster.nodes.values(), *self.cluster.etcd.values()]:
            process.kill()
        for folder in self.mounted.values():
            subprocess.run(["umount", str(folder)], check=False)
        self.cluster.discard()

    # ---- who does what --------------------------------------------------------------------------------------

    def node(self, number):
        return self.cluster.nodes[number]

    def leader(self):
        """The machine whose node leads."""
        self.cluster.wait_until(lambda: any(node.leader() for node in self.cluster.nodes.values()), 60, "to be led")
        return next(number for number, node in self.cluster.nodes.items() if node.leader())

    def ask_etcd(self, number, what, **words):
        url = f"http://{self.node(number).host}:2379/v3/maintenance/{what}"
        with urllib.request.urlopen(urllib.request.Request(url, data=json.dumps(words).encode(), method="POST"), timeout=5) as answer:
            return json.load(answer)

    def etcd_members(self):
        """{machine: (id of its member, id of the member that it thinks leads)}"""
        said = {number: self.ask_etcd(number, "status") for number in self.cluster.etcd}
        return {number: (status["header"]["member_id"], status.get("leader")) for number, status in said.items()}

    def etcd_leads_at(self, number):
        """Moves etcd's leader there."""
        def there():
            members = self.etcd_members()
            now = next((machine for machine, (member, leader) in members.items() if member == leader), None)
            if now is not None and now != number:
                with contextlib.suppress(OSError):
                    self.ask_etcd(now, "transfer-leadership", targetID=members[number][0])
            return now == number
        self.cluster.wait_until(there, 30, f"until etcd was led at {number}")

    def dies(self, number):
        """A machine: nothing leaves it any more."""
        self.cluster.network.link(number, False)
        self.node(number).kill()
        self.cluster.etcd[number].kill()
        self.hit = number
        return {number}

    def comes_back(self):
        self.cluster.network.link(self.hit, True)
        self.cluster.etcd[self.hit].start()
        self.node(self.hit).start()

    # ---- measuring ------------------------------------------------------------------------------------------

    def rebuilt(self):
        """The drive that died is no part of the pool any more, and nothing is being moved."""
        for node in self.cluster.nodes.values():
            status, body = node.admin_get("/metrics/pool")
            if status == 200:
                slot = (self.hit - 1) * FOLDERS
                left = re.search(rf'^millrace_drive_state{{[^}}]*path="remote:\d+/1/{slot}"[^}}]*state="(?!removed)\w+"}} 1$', body, re.M)
                return left is None and re.search(r"^millrace_healing 0$", body, re.M) is not None
        return False

    def calm(self):
        self.cluster.wait_until(self.cluster.whole, WHOLE_S, "until all drives were members again")
        time.sleep(CALM_S)

    def measure(self, event):
        """One time: {"event": {"write": …, "read": …}, "back": …}, seconds."""
        self.calm()
        prepare = PREPARE.get(event.name)
        if prepare:
            prepare(self)
            time.sleep(CALM_S)
        begun = time.monotonic()
        without = event.act(self)
        say(f"{event.name} at {begun - self.cluster.begun:.3f}, machines {sorted(without)}")
        time.sleep(max(0, begun + event.seconds - time.monotonic()))
        middle = time.monotonic()
        figures = {"event": {kind: self.site.pauses(kind, begun, middle, without) for kind in ("write", "read")}}
        if event.undo:
            event.undo(self)
            self.calm()
            ended = time.monotonic()
            say(f"  undone at {middle - self.cluster.begun:.3f}, whole at {ended - self.cluster.begun:.3f}")
            figures["back"] = {kind: self.site.pauses(kind, middle, ended, without) for kind in ("write", "read")}
        for kind in ("write", "read"):
            say(f"  {figures['event'][kind]['one']:.2f} s: {figures['event'][kind]['who']}")
        return figures

    def measure_all(self, event):
        """So many times, each with new clients: what they remember does not grow."""
        found = []
        times = {etcd_stops: 1, drive_dies: min(self.options.times, len(self.mounted))}.get(event.act, self.options.times)
        for _ in range(times):
            self.site.begin()
            try:
                found.append(self.measure(event))
            finally:
                self.site.end()
        return found


# ---- events -------------------------------------------------------------------------------------------------


def drive_dies(rig):
    """The drive of the next machine that has one left."""
    number, folder = next(iter(rig.mounted.items()))
    rig.hit = number
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.ioctl(fd, EXT4_SHUTDOWN, AT_ONCE.to_bytes(4, "little"))
    finally:
        os.close(fd)
    rig.cluster.pool_drives -= 1
    subprocess.run(["umount", "-l", str(rig.mounted.pop(number))], check=False)
    return set()


def drive_removed(rig):
    """What it held is rebuilt elsewhere, so that the next one that dies is again the only one: with two lost, some names have one copy, and take no changes."""
    rig.cluster.cli(rig.node(rig.hit), "admin", "drive", "remove", str((rig.hit - 1) * FOLDERS))
    rig.cluster.wait_until(rig.rebuilt, WHOLE_S, "until the drive was removed")


def follower(rig):
    """A machine whose node does not lead."""
    leader = rig.leader()
    return next(number for number in rig.cluster.nodes if number != leader)


def process_killed(rig):
    number = follower(rig)
    rig.node(number).kill()
    rig.node(number).start()
    return {number}


def leader_process_killed(rig):
    node = rig.node(rig.leader())
    node.send(signal.SIGKILL, [node.leader()])
    return set()


def restarted(rig, number):
    """As `systemctl restart` does it."""
    node = rig.node(number)
    node.wanted = False
    node.send(signal.SIGTERM, [node.process.pid])
    if node.process.wait(60) != 0:
        raise RuntimeError(f"node {number} did not stop cleanly: {node.tail()}")
    node.start()
    return {number}


def etcd_stops(rig):
    for member in rig.cluster.etcd.values():
        member.kill()
    return set()


def etcd_starts(rig):
    for member in rig.cluster.etcd.values():
        member.start()


def etcd_away_from(rig, number):
    rig.etcd_leads_at(next(other for other in rig.cluster.nodes if other != number))


# What is arranged before an event, and not a part of it.
PREPARE = {
    "node": lambda rig: rig.etcd_leads_at(rig.leader()),
    "leader": lambda rig: etcd_away_from(rig, rig.leader()),
    "leader+etcd": lambda rig: rig.etcd_leads_at(rig.leader()),
}


def all_events(options):
    return [
        Event("nothing", "nothing happens", None, 5, lambda rig: set()),
        Event("process", "a node's process is killed and back at once", (2, 2), 10, process_killed),
        Event("node", "a node dies that does not lead", (3, 0.3), 8, lambda rig: rig.dies(follower(rig)), Rig.comes_back),
        Event("leader-process", "the leader process is killed", (4.5, 4.5), 8, leader_process_killed),
        Event("leader", "the leader's node dies", (4.5, 4.5), 10, lambda rig: rig.dies(rig.leader()), Rig.comes_back),
        Event("leader+etcd", "the same, and etcd's leader with it", (4.5 + ETCD_ELECTION_S, 4.5 + ETCD_ELECTION_S), 12, lambda rig: rig.dies(rig.leader()), Rig.comes_back),
        Event("restart", "a node that does not lead is restarted (SIGTERM)", (0.2, 0.2), 10, lambda rig: restarted(rig, follower(rig))),
        Event("hand-over", "the leader's node is restarted (SIGTERM)", (0.2, 0.2), 10, lambda rig: restarted(rig, rig.leader())),
        Event("etcd", f"etcd is stopped for {options.etcd_seconds:.0f} s", (0.2, 0.2), options.etcd_seconds, etcd_stops, etcd_starts),
        Event("drive", "a drive dies", (0.1, 0.1), 6, drive_dies, drive_removed),
    ]


def chosen(options):
    return [event for event in all_events(options) if not options.only or event.name in options.only]


# ---- the table ----------------------------------------------------------------------------------------------


def cells(found, part):
    return [shown([f[part][kind][who] for f in found]) for kind in ("write", "read") for who in ("nobody", "one")]


def verdict(event, found, noise):
    """The longest of all times counts. noise: the longest pause of a time in which nothing happened; None: not measured."""
    if event.wanted is None:
        return "-"
    missed = [longest for longest, most in ((max(f["event"][kind]["one"] for f in found), most) for kind, most in zip(("write", "read"), event.wanted))
              if longest > most]
    if not missed:
        return "reached"
    return "not told from nothing" if noise is not None and max(missed) <= noise else "not reached"


def noise_of(measured):
    return max((f["event"][kind]["one"] for event, found in measured if event.name == "nothing" for f in found for kind in ("write", "read")), default=None)


def report(measured):
    rows = []
    for event, found in measured:
        wanted = "-" if event.wanted is None else " / ".join(f"{most:g}" for most in event.wanted)
        rows.append([event.title, *cells(found, "event"), wanted, verdict(event, found, noise_of(measured))])
        if event.undo:
            rows.append(["… and is removed" if event.undo is drive_removed else "… is back", *cells(found, "back"), "-", "-"])
    return table(["event", "writes: nobody, s", "writes: one client", "reads: nobody", "reads: one client", "wanted, writes / reads", ""], rows)


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", type=lambda text: Path(text).resolve(), default=ROOT / "build/release/millraced", help="millraced, with millrace beside it")
    parser.add_argument("--times", type=int, default=3, help="that each event happens (default 3; etcd is stopped once; there are 3 drives that can die)")
    parser.add_argument("--only", action="append", metavar="NAME", help="only these events")
    parser.add_argument("--etcd-seconds", type=float, default=60, help="that etcd is stopped (default 60; 600: as it was asked for)")
    parser.add_argument("--folder", type=Path, help="where the store is made (default: in memory where there is room)")
    parser.add_argument("--keep", type=Path, help="keeps the nodes' logs there, whose times are those that are printed")
    parser.add_argument("--json", type=Path, help="keeps all figures")
    options = parser.parse_args()
    unknown = set(options.only or []) - {event.name for event in all_events(options)}
    if unknown or not 1 <= options.times <= 20:
        parser.error(f"events are {', '.join(event.name for event in all_events(options))}; --times is 1 to 20")
    return options


def main():
    options = parse()
    if missing() is not None:
        say(missing())
        return 2
    rig, measured = Rig(options), []
    try:
        rig.start()
        for event in chosen(options):
            measured.append((event, rig.measure_all(event)))
            if options.json:
                options.json.write_text(json.dumps({"machine": machine(), "events": {e.name: found for e, found in measured}}, indent=1), encoding="utf-8")
    finally:
        rig.discard()
    print(report(measured))
    print(f"\n{machine()}")
    return 1 if any(verdict(event, found, noise_of(measured)) == "not reached" for event, found in measured) else 0


if __name__ == "__main__":
    sys.exit(main())
