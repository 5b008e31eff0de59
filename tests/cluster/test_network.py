"""Machines that are network namespaces: what is said to be lost is lost, in that direction alone, and nothing of them stays."""
import socket
import subprocess
import threading

import pytest

from tests.cluster.network import HUB, Network, ip, missing, remove_leftovers
from tests.support.waits import eventually

pytestmark = pytest.mark.skipif(missing() is not None, reason=str(missing()))
PORT = 7


@pytest.fixture
def network():
    made = Network([1, 2, 3])
    yield made
    names = [made.name(machine) for machine in [HUB, 1, 2, 3]]
    made.remove()
    assert not set(names) & {line.split()[0] for line in ip("netns", "list").splitlines()}


def on(network, machine, job):
    """What a job returns that runs on a machine."""
    found = []

    def run():
        network.enter(machine)
        found.append(job())

    thread = threading.Thread(target=run)
    thread.start()
    thread.join(30)
    return found[0]


def receiver(network, machine):
    def make():
        made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        made.bind((network.address(machine), PORT))
        made.settimeout(0.3)
        return made
    return on(network, machine, make)


def arrives(network, sender, machine):
    """Whether a packet gets from one machine to another."""
    with receiver(network, machine) as waits:
        def send():
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sends:
                try:
                    sends.sendto(b"here", (network.address(machine), PORT))
                except OSError:  # it is told at once, or not
                    pass
        on(network, sender, send)
        try:
            return waits.recv(10) == b"here"
        except TimeoutError:
            return False


PAIRS = [(a, b) for a in (1, 2, 3) for b in (1, 2, 3) if a != b]


def lost(network):
    return {pair for pair in PAIRS if not arrives(network, *pair)}


def test_nothing_is_lost_and_nothing_leads_out(network):
    assert lost(network) == set()
    for machine in (HUB, 1):
        assert "default" not in subprocess.run([*network.within(machine), "ip", "route"], capture_output=True, text=True, timeout=20, check=True).stdout


@pytest.mark.parametrize("direction, peers, pairs", [
    ("input", (), {(2, 1), (3, 1)}), ("output", (), {(1, 2), (1, 3)}), ("input", (3,), {(3, 1)}), ("output", (2,), {(1, 2)})])
def test_loss_one_way(network, direction, peers, pairs):
    network.drop(1, direction, peers)
    assert lost(network) == pairs
    network.pass_all(1)
    assert lost(network) == set()
    network.pass_all(1)


def test_loss_both_ways(network):
    network.drop(1, "input", (2,))
    network.drop(1, "output", (2, 3))
    assert lost(network) == {(2, 1), (1, 2), (1, 3)}
    network.pass_all(1)
    assert lost(network) == set()


def test_a_link_that_is_down(network):
    network.link(2, False)
    assert lost(network) == {pair for pair in PAIRS if 2 in pair}
    network.link(2, True)
    eventually(lambda: lost(network) == set(), 30)  # the carrier, and what machines know of each other's addresses


def test_a_slow_link_loses_what_waits_for_too_long(network):
    def arrived(count=80, size=1400):
        with receiver(network, 1) as waits:
            def send():
                with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sends:
                    for _ in range(count):
                        sends.sendto(bytes(size), (network.address(1), PORT))
            on(network, 2, send)
            found = 0
            try:
                while found < count:
                    found += len(waits.recv(size)) == size
            except TimeoutError:
                pass
            return found, count
    network.slow(1, 1_000_000, 20)
    found, count = arrived()
    assert 0 < found < count
    network.fast(1)
    found, count = arrived()
    assert found == count


def test_leftovers_are_removed():
    done = subprocess.Popen(["true"])
    done.wait()
    name = f"millrace-{done.pid}-1"
    ip("netns", "add", name)
    remove_leftovers()
    assert name not in ip("netns", "list")
