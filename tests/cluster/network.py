"""Machines that are network namespaces: a bridge in one of its own, and the others joined to it. Nothing leads out of them.

Needs root. Namespaces of processes that are gone are removed when the next network is made.
"""
import ctypes
import os
import re
import shutil
import subprocess
from pathlib import Path

CLONE_NEWNET = 0x40000000
PREFIX = "millrace-"
SUBNET = "10.9.0"
HUB = "hub"


def missing():
    """Why there can be no namespaces here, or None."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    lacking = [program for program in ("ip", "tc", "nft", "etcd") if shutil.which(program) is None]
    return f"{', '.join(lacking)}: tools/deps.sh --cluster installs it" if lacking else None


def set_namespace(path):
    libc = ctypes.CDLL(None, use_errno=True)
    with open(path, "rb") as namespace:
        if libc.setns(namespace.fileno(), CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), f"setns to {path}")


def ip(*words, check=True):
    done = subprocess.run(["ip", *words], capture_output=True, text=True, timeout=20, check=False)
    if check and done.returncode != 0:
        raise RuntimeError(f"ip {' '.join(words)}: {done.stderr.strip()}")
    return done.stdout


def remove_leftovers():
    for line in ip("netns", "list").splitlines():
        name = line.split()[0]
        words = name.split("-")
        if name.startswith(PREFIX) and len(words) == 3 and words[1].isdigit() and not Path(f"/proc/{words[1]}").exists():
            ip("netns", "del", name, check=False)


class Network:
    """The hub is 10.9.0.254; machine N is 10.9.0.N."""

    def __init__(self, machines):
        self.machines = list(machines)
        self.outside = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        remove_leftovers()
        try:
            self.make()
        except BaseException:
            self.remove()
            raise

    def make(self):
        hub = self.name(HUB)
        self.make_namespace(HUB)
        ip("-n", hub, "link", "add", "bridge", "type", "bridge", "forward_delay", "0")
        ip("-n", hub, "address", "add", f"{SUBNET}.254/24", "dev", "bridge")
        ip("-n", hub, "link", "set", "bridge", "up")
        for machine in self.machines:
            self.make_machine(machine)

    def make_namespace(self, machine):
        ip("netns", "add", self.name(machine))
        ip("-n", self.name(machine), "link", "set", "lo", "up")

    def make_machine(self, machine):
        hub = self.name(HUB)
        self.make_namespace(machine)
        ip("-n", hub, "link", "add", f"port{machine}", "type", "veth", "peer", "name", "eth0", "netns", self.name(machine))
        ip("-n", hub, "link", "set", f"port{machine}", "master", "bridge", "up")
        ip("-n", self.name(machine), "address", "add", f"{self.address(machine)}/24", "dev", "eth0")
        ip("-n", self.name(machine), "link", "set", "eth0", "up")

    def add(self, machine):
        """One more machine."""
        self.machines.append(machine)
        self.make_machine(machine)

    def name(self, machine):
        return f"{PREFIX}{os.getpid()}-{machine}"

    @staticmethod
    def address(machine):
        return f"{SUBNET}.{machine}"

    def within(self, machine):
        """What a command is started by on that machine."""
        return ["ip", "netns", "exec", self.name(machine)]

    def enter(self, machine):
        """The sockets of the calling thread, and of threads and processes that it starts, are that machine's from now on."""
        set_namespace(f"/run/netns/{self.name(machine)}")

    def leave(self):
        """The calling thread is where the network was made."""
        set_namespace(f"/proc/self/fd/{self.outside}")

    def link(self, machine, up):
        ip("-n", self.name(machine), "link", "set", "eth0", "up" if up else "down")

    def drop(self, machine, direction, peers=()):
        """Loses all packets that come to a machine ('input') or leave it ('output'), or those from or to some others, until pass_all()."""
        others = f"{{ {', '.join(self.address(peer) for peer in peers)} }}"
        if direction == "input":
            rule = f"ip saddr {others} drop" if peers else "iifname eth0 drop"
        else:
            rule = f"ip daddr {others} drop" if peers else "oifname eth0 drop"
        self.nft(machine, f"add table inet broken; add chain inet broken {direction} {{ type filter hook {direction} priority 0; }}; "
                          f"add rule inet broken {direction} {rule}")

    def pass_all(self, machine):
        self.nft(machine, "add table inet broken; delete table inet broken")

    def slow(self, machine, bits, milliseconds):
        """Of what comes to a machine and leaves it, that many bits a second pass each way; the rest waits for at most that long, or is lost. Until fast()."""
        for namespace, device in self.ends(machine):
            self.tc(namespace, "replace", device, "root", "tbf", "rate", f"{bits}bit", "burst", "16kb", "latency", f"{milliseconds}ms")

    def fast(self, machine):
        for namespace, device in self.ends(machine):
            self.tc(namespace, "del", device, "root")

    def ends(self, machine):
        return (self.name(machine), "eth0"), (self.name(HUB), f"port{machine}")

    @staticmethod
    def tc(namespace, action, device, *words):
        done = subprocess.run(["tc", "-n", namespace, "qdisc", action, "dev", device, *words], capture_output=True, text=True, timeout=20, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"tc qdisc {action}: {done.stderr.strip()}")

    def count(self, machine, port):
        """From now on counts what comes to a TCP port of a machine: counted()."""
        self.nft(machine, "add table inet counted; add chain inet counted input { type filter hook input priority 0; }; "
                          f"add rule inet counted input tcp dport {port} counter")

    def counted(self, machine):
        """Bytes of packets, their headers included; those of one that is sent in pieces once."""
        return int(re.search(r"counter packets \d+ bytes (\d+)", self.nft(machine, "list table inet counted"))[1])

    def nft(self, machine, text):
        done = subprocess.run([*self.within(machine), "nft", text], capture_output=True, text=True, timeout=20, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"nft {text}: {done.stderr.strip()}")
        return done.stdout

    def remove(self):
        """Processes in them must have ended, and no thread may be there."""
        for machine in [*self.machines, HUB]:
            ip("netns", "del", self.name(machine), check=False)
        os.close(self.outside)
