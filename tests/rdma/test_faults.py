"""What breaks in the middle of transfers costs the sessions concerned and no others, and the daemon lives on."""
import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from tests.independent.session import UNTOUCHED, Ended
from tests.independent.verbs import Memory

from .conftest import LONG, MIB, Site, content


class Transfer:
    """A GET of a large object on its way: its reply is waited for in a thread, its first bytes are here."""

    def __init__(self, session, path, size):
        self.session, self.memory = session, Memory(size, UNTOUCHED)
        self.number, self.grant = session.new_number(), session.grant(self.memory)
        self.answer = self.error = None
        self.thread = threading.Thread(target=self.ask, args=(path,))
        self.thread.start()
        while self.memory.read(0, 64) == bytes([UNTOUCHED]) * 64:
            assert self.thread.is_alive(), self.answer or self.error
            time.sleep(0.001)

    def ask(self, path):
        try:
            self.answer = self.session.signer.request("GET", path, headers=self.session.headers(self.number, self.grant.text()))
        except Exception as error:
            self.error = error

    def outcome(self):
        """The Got, or what failed."""
        self.thread.join()
        if self.error:
            return self.error
        try:
            return self.session.arrived(self.answer, self.number, self.grant)
        except (Ended, OSError) as error:
            return error


def failed(outcome, data):
    """Where bytes were said to be there, they are."""
    if isinstance(outcome, Exception):
        return True
    assert outcome.data is None or outcome.data == data
    return outcome.data is None


def test_a_wrong_rkey_costs_its_session(site):
    with site.session() as other:
        for scheme in ("window2", "window1", "region"):
            session = site.session(rights=[scheme])
            grant = session.grant(Memory(8192, UNTOUCHED))
            got = session.get("/samples/odd", 8192, window=grant, rkey=grant.rkey ^ 0x5500)
            assert got.unread and got.status >= 500, got
            assert grant.memory.read() == bytes([UNTOUCHED]) * 8192
            session.free()
            assert other.get("/samples/odd", 8192).data == site.objects["/samples/odd"]


def test_a_window_counts_for_one_request(site):
    """The server ended the window's right: who names it again loses the session, and nothing is written."""
    session = site.session(rights=["window2"])
    memory = Memory(8192, UNTOUCHED)
    grant = session.grant(memory)
    assert session.get("/samples/odd", None, window=grant).data == site.objects["/samples/odd"]
    memory.write(bytes([UNTOUCHED]) * 8192)
    got = session.get("/samples/odd", None, window=grant)
    assert got.unread and memory.read() == bytes([UNTOUCHED]) * 8192
    session.free()


def test_a_right_that_was_taken_back(site):
    for scheme in ("window2", "window1"):
        session = site.session(rights=[scheme])
        grant = session.grant(Memory(8192, UNTOUCHED))
        grant.take_back()
        got = session.get("/samples/odd", None, window=grant)
        assert got.unread and grant.memory.read() == bytes([UNTOUCHED]) * 8192
        session.free()


@pytest.fixture(scope="module", autouse=True)
def long_object(shared):
    shared.store("long", {"object": content("long", LONG)})


def test_a_client_that_fences_in_the_middle(site):
    session = site.session()
    with site.session() as other:
        transfer = Transfer(session, "/long/object", LONG)
        session.fence()
        seen = transfer.memory.crc32c(0, transfer.memory.size)
        assert other.get("/samples/units", 4 * MIB).data == site.objects["/samples/units"]
        transfer.thread.join()
        assert transfer.answer is not None and transfer.answer.status >= 500
        assert transfer.memory.crc32c(0, transfer.memory.size) == seen, "written behind the fence"
    session.free()


def test_a_killed_client(site):
    arguments = [str(word) for word in (site.daemon.host, site.daemon.port, site.user.access_key, site.user.secret, "/long/object", LONG)]
    with site.session() as other:
        victims = [subprocess.Popen([sys.executable, "-m", "tests.independent.hold", *arguments], stdout=subprocess.PIPE, text=True) for _ in range(2)]
        for victim in victims:
            assert victim.stdout.readline() == "begun\n"
        assert site.sessions() == 3
        for victim in victims:
            os.kill(victim.pid, signal.SIGKILL)
        assert other.get("/samples/units", 4 * MIB).data == site.objects["/samples/units"]
        for victim in victims:
            victim.wait()
            victim.stdout.close()
        site.daemon.wait_until(lambda: site.sessions() == 1, 30, "to end the sessions of dead clients")
        assert other.get("/long/object", LONG).data == site.objects["/long/object"]


@pytest.fixture
def own():
    site = Site(drives=4, ec="2+2").start()
    site.store("few", {"big": content("few", LONG), "small": content("small", 5000)})
    yield site
    site.end()


def test_a_killed_server(own):
    session = own.session()
    boot = session.terms["endpoints"][0]["boot_id"]
    transfer = Transfer(session, "/few/big", LONG)
    own.daemon.kill()
    assert failed(transfer.outcome(), own.objects["/few/big"])
    session.wait_end()
    headers = session.headers(session.new_number(), transfer.grant.text())
    session.free()
    own.user.close()
    own.daemon.restart()
    answer = session.signer.request("GET", "/few/small", headers=headers)
    assert answer.status == 403
    with own.session() as new:
        assert new.terms["endpoints"][0]["boot_id"] != boot
        assert new.get("/few/big", LONG).data == own.objects["/few/big"]


def test_a_server_that_ends_in_the_middle(own):
    """SIGTERM: what is under way is whole, or an error; the daemon's end is clean."""
    session = own.session()
    transfer = Transfer(session, "/few/big", LONG)
    own.daemon.signal(signal.SIGTERM)
    failed(transfer.outcome(), own.objects["/few/big"])
    assert own.daemon.process.wait(60) == 0, own.daemon.tail()
    session.free()


@pytest.fixture(scope="module")
def second_device():
    """Interface and address of a device for these tests alone: Linux 6.1 does not get over a message of its connection manager that it tries to send while
    the interface is down, and connects nothing on this device any more. It can't be removed either."""
    for command in ("ip link add v2 type veth peer name v3", "ip address add 10.78.0.1/24 dev v2", "ip link set v2 up", "ip link set v3 up",
                    "rdma link add rxe1 type rxe netdev v2"):
        subprocess.run(command.split(), check=True)
    time.sleep(1)
    return "v2", "10.78.0.1"


@pytest.fixture
def elsewhere(second_device):
    """A daemon on that device."""
    site = Site(drives=4, ec="2+2", listen=(second_device[1],)).start()
    site.store("few", {"big": content("few", LONG), "small": content("small", 5000)})
    yield site
    site.end()


def test_an_interface_that_was_down_for_a_moment(elsewhere, second_device):
    with elsewhere.session() as session:
        assert session.get("/few/small", 5000).data == elsewhere.objects["/few/small"]
        for turn in ("down", "up"):
            subprocess.run(["ip", "link", "set", second_device[0], turn], check=True)
        time.sleep(0.5)
        assert session.get("/few/small", 5000).data == elsewhere.objects["/few/small"]
    with elsewhere.session() as new:
        assert new.get("/few/big", LONG).data == elsewhere.objects["/few/big"]


def test_an_interface_that_goes_down_in_the_middle(elsewhere, second_device, site):
    """Every session of the device ends; HTTP goes on, and so do the sessions of another device."""
    with site.session() as other:
        session = elsewhere.session()
        transfer = Transfer(session, "/few/big", LONG)
        subprocess.run(["ip", "link", "set", second_device[0], "down"], check=True)
        try:
            assert failed(transfer.outcome(), elsewhere.objects["/few/big"])
            assert elsewhere.user.request("GET", "/few/small").body == elsewhere.objects["/few/small"]
        finally:
            subprocess.run(["ip", "link", "set", second_device[0], "up"], check=True)
        session.free()
        elsewhere.daemon.wait_until(lambda: elsewhere.sessions() == 0, 30, "to end the session")
        assert other.get("/long/object", LONG).data == site.objects["/long/object"]


@pytest.mark.parametrize("data", [b"", b"x", b"\1\0\1\0" + bytes(28), b"\2\0\1\0\x20\0\0\0" + bytes(24), os.urandom(500), bytes(16384)],
                         ids=["empty", "a byte", "no length", "version 2", "random", "zeros"])
def test_an_undecodable_message_ends_its_session(site, data):
    with site.session() as other:
        session = site.session()
        session.send_message(data)
        session.wait_end()
        session.free()
        assert other.get("/samples/odd", 8192).data == site.objects["/samples/odd"]
