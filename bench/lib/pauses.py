"""Clients of a cluster that notice every pause: each writes, or reads, at one node alone, one object after the other, and asks again at once where that fails."""

import collections
import http.client
import re
import statistics
import threading
import time

from .machine import KIB
from .presign import Signer

BUCKET = "pauses"
# Of an object that lies in its record, and of one of shards: seconds after each operation. What is written stays: so much that drives do not fill.
SIZES = {4 * KIB: 0.005, 64 * KIB: 0.025}
OBJECTS = 200                 # that are read, of each size
TIMEOUT_S = 15                # of an answer


class Site:
    """A cluster's addresses and what clients share. owner of `stopping`: whoever measures"""

    def __init__(self, hosts, port, access, secret):
        self.hosts, self.port, self.access, self.secret = dict(hosts), port, access, secret
        self.stopping = threading.Event()
        self.clients = []

    def request(self, connection, method, machine, path, body=None):
        """The status; a connection that broke is closed. OSError or HTTPException."""
        signer = Signer(self.access, self.secret, f"{self.hosts[machine]}:{self.port}")
        connection.request(method, signer.path(method, path), body)
        answer = connection.getresponse()
        return answer.status, answer.read()

    def connect(self, machine):
        return http.client.HTTPConnection(self.hosts[machine], self.port, timeout=TIMEOUT_S)

    def patiently(self, method, machine, path, body=None, seconds=60):
        """Asked until it succeeds: at its start a store may have no leader yet."""
        until = time.monotonic() + seconds
        while True:
            connection = self.connect(machine)
            try:
                status = self.request(connection, method, machine, path, body)[0]
            except (OSError, http.client.HTTPException) as error:
                status = error
            finally:
                connection.close()
            if status == 200:
                return
            if time.monotonic() > until:
                raise RuntimeError(f"{method} of {path}: {status}")
            time.sleep(0.2)

    def fill(self):
        """The bucket, and the objects that are read."""
        first = next(iter(self.hosts))
        self.patiently("PUT", first, f"/{BUCKET}")
        for size in SIZES:
            for number in range(OBJECTS):
                self.patiently("PUT", list(self.hosts)[number % len(self.hosts)], f"/{BUCKET}/read/{size}/{number}", body_of(size, number))

    def begin(self):
        self.stopping.clear()
        self.clients = [Client(self, machine, kind, size) for machine in self.hosts for kind in ("write", "read") for size in SIZES]
        for client in self.clients:
            client.start()

    def end(self):
        self.stopping.set()
        for client in self.clients:
            client.join(TIMEOUT_S * 2)
        wrong = [client.wrong for client in self.clients if client.wrong]
        if wrong:
            raise RuntimeError(f"wrong answers: {wrong[:3]}")

    def pauses(self, kind, begun, ended, without=()):
        """The longest time between begun and ended in which no client at all succeeded, and in which a single one did not, and which one that was; of those
        at machines not in `without`."""
        clients = [client for client in self.clients if client.kind == kind and client.machine not in without]
        gaps = {client: longest_gap(list(client.done), begun, ended) for client in clients}
        worst = max(gaps, key=gaps.get)
        return {"nobody": longest_gap([moment for client in clients for moment in list(client.done)], begun, ended), "one": gaps[worst],
                "who": f"{worst.name}: {dict(worst.failed)}"}


class Client(threading.Thread):
    """owner of all members but `done`, which grows: its thread"""

    def __init__(self, site, machine, kind, size):
        super().__init__(daemon=True, name=f"{kind} {size} at {machine}")
        self.site, self.machine, self.kind, self.size = site, machine, kind, size
        self.done, self.wrong, self.failed = [], None, collections.Counter()

    def run(self):
        connection, count = self.site.connect(self.machine), 0
        while not self.site.stopping.is_set() and self.wrong is None:
            try:
                failure = self.operate(connection, count)
            except (OSError, http.client.HTTPException) as error:
                failure = type(error).__name__
            if failure is None:
                self.done.append(time.monotonic())
                count += 1
            else:
                self.failed[failure] += 1
                connection.close()
            time.sleep(SIZES[self.size])
        connection.close()

    def operate(self, connection, count):
        """None, or what went wrong."""
        if self.kind == "write":
            path, expected = f"/{BUCKET}/write/{self.machine}/{self.size}/{id(self)}/{count}", b""
            status, body = self.site.request(connection, "PUT", self.machine, path, body_of(self.size, count))
        else:
            number = count * 7 % OBJECTS
            path, expected = f"/{BUCKET}/read/{self.size}/{number}", body_of(self.size, number)
            status, body = self.site.request(connection, "GET", self.machine, path)
        if status == 200 and body != expected:
            self.wrong = f"{self.name}: other bytes than were stored"
        elif 400 <= status < 500:
            self.wrong = f"{self.name}: {status} {body[:300]}"
        if status == 200:
            return None
        said = re.search(rb"<Message>(.*?)</Message>", body)
        return f"{status} {said[1].decode() if said else ''}"


def body_of(size, number):
    return number.to_bytes(8, "big") * (size // 8)


def longest_gap(moments, begun, ended):
    """Between two moments one behind the other; one that lasted at the beginning, or at the end, counts from there, or to there."""
    inside = [begun, *sorted(m for m in moments if begun < m < ended), ended]
    return max(b - a for a, b in zip(inside, inside[1:]))


def shown(values):
    """"0.12 (0.30)": the median, and the longest where it is another."""
    median, longest = f"{statistics.median(values):.2f}", f"{max(values):.2f}"
    return median if median == longest else f"{median} ({longest})"
