"""The client's end of RDMA sessions over the fake transport: HTTP from here, RDMA by the program rdma_peer (tests/rdma/rdma_peer.c)."""
import hashlib
import json
import secrets
import shutil
import subprocess
import tempfile
import weakref
from dataclasses import dataclass
from pathlib import Path

from tests.support.daemon import BUILD, Daemon, sanitizer_environment
from tests.support.s3raw import UNSIGNED, RawClient

DRIVER = BUILD / "libfakerdma.so"
PEER = BUILD / "rdma_peer"
SCHEMES = {"window2": 1, "window1": 2, "region": 4}
PATH = "/_millrace/rdma/v1/sessions"


def rdma_daemon(**how):
    """A daemon with RDMA over the fake; its sockets lie in a short path."""
    sockets = tempfile.mkdtemp(prefix="mr-rdma-", dir="/tmp")
    settings = {"rdma_listen": "127.0.0.1:0", "test_rdma_driver": DRIVER, **how.pop("settings", {})}
    daemon = Daemon(settings=settings, env={"MILLRACE_FAKE_RDMA": sockets, **how.pop("env", {})}, **how)
    daemon.sockets = sockets
    weakref.finalize(daemon, shutil.rmtree, sockets, ignore_errors=True)
    return daemon


def opening(**changes):
    """The body of the request that opens a session."""
    asked = {"versions": [1], "client_nonce": secrets.token_hex(16), "queue_pairs": 1, "rights": ["window2", "window1", "region"],
             "receives": 64}
    asked.update(changes)
    return {name: value for name, value in asked.items() if value is not None}


class PeerError(Exception):
    """What the peer was told to do failed; the errno is the argument."""


class Peer:
    """A process that holds the client's end of one session."""

    def __init__(self, sockets, env=None):
        env = {**sanitizer_environment(), "MILLRACE_FAKE_RDMA": sockets, **(env or {})}
        self.process = subprocess.Popen([str(PEER), str(DRIVER)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env)

    def line(self):
        return self.process.stdout.readline().split()

    def tell(self, *words):
        self.process.stdin.write(" ".join(str(word) for word in words) + "\n")
        self.process.stdin.flush()
        answer = self.line()
        if answer[:1] != ["ok"]:
            raise PeerError(" ".join(answer))
        return answer[1:]

    def end(self):
        self.process.stdin.close()
        return self.process.wait(60)

    def kill(self):
        self.process.kill()
        self.process.wait()


@dataclass
class Entry:
    """An entry of a BATCH message: what of which object goes where in the window."""
    bucket: str
    key: str
    place: int = 0
    room: int = 0
    first: int = 0
    length: int = 0
    suffix: bool = False
    if_match: str = "-"
    version: str = "-"

    def line(self):
        return (f"{self.bucket} {self.key} {self.first} {self.length} {self.place} {self.room} {int(self.suffix)} "
                f"{self.if_match} {self.version}\n")


class Result:
    """A result of one."""

    def __init__(self, number, index, status, code, crc, size, whole, etag=""):
        self.number, self.index, self.status, self.code = int(number), int(index), int(status), int(code)
        self.crc, self.bytes, self.size, self.etag = int(crc, 16), int(size), int(whole), etag

    def __repr__(self):
        return f"{self.index}: {self.status}/{self.code}, {self.bytes} of {self.size}"


class Session:
    """One session: opened, connected, with memory to read into."""

    def __init__(self, daemon, memory=32 << 20, connect=True, env=None, **changes):
        self.daemon = daemon
        self.user = RawClient(daemon.host, daemon.port, daemon.access_key, daemon.secret_key)
        self.signer = self.user.signer()
        self.asked = opening(**changes)
        answer = self.user.request("POST", PATH, body=json.dumps(self.asked).encode(), signer=self.signer,
                                   headers={"content-type": "application/json"})
        assert answer.status == 200, answer
        assert answer.headers["cache-control"] == "no-store", answer
        self.opened = json.loads(answer.body)
        self.id = self.opened["session"]
        self.number = 0
        self.folder = tempfile.mkdtemp(prefix="mr-peer-", dir="/tmp")
        self.forget = weakref.finalize(self, shutil.rmtree, self.folder, ignore_errors=True)
        endpoint = self.opened["endpoints"][0]
        self.peer = Peer(daemon.sockets, env)
        rights = SCHEMES[self.opened["rights"]]
        if connect:
            self.peer.tell("link", endpoint["address"], endpoint["port"], rights)
            self.peer.tell("memory", memory)
            access_key, secret = self.peer.tell(
                "connect", self.signer.key.hex(), self.asked["client_nonce"], self.opened["server_nonce"], self.id,
                endpoint["boot_id"], rights, endpoint["address"], endpoint["port"], endpoint["endpoint"],
                self.opened["limits"]["requests"], self.opened["limits"]["messages"], self.asked["receives"])
            self.client = RawClient(daemon.host, daemon.port, access_key, secret)

    def grip(self, offset, length, read=False, replies=0):
        index, place, number = self.peer.tell("grip", offset, length, int(read), replies)
        self.number = max(self.number, int(number) - 1)  # batches and requests count together
        return int(index), place

    def headers(self, place, number=None):
        if number is None:
            self.number += 1
            number = self.number
        return {"x-millrace-rdma-session": self.id, "x-millrace-rdma-request": number, "x-millrace-rdma-window": place}

    def ask(self, method, path, place, number=None, headers=None, client=None, **how):
        """A request that names a window, signed with the session's key."""
        return (client or self.client).request(method, path, headers={**self.headers(place, number), **(headers or {})},
                                               payload=UNSIGNED, **how)

    def get(self, path, length, offset=0, headers=None, **how):
        """A GET into memory[offset, offset + length): its answer, and the bytes that are in that memory when all is over."""
        index, place = self.grip(offset, length)
        answer = self.ask("GET", path, place, headers=headers, **how)
        noticed = "x-millrace-rdma-notices" in answer.headers
        if noticed:
            self.peer.tell("wait", index, 20000)
        self.peer.tell("close", index, int(not noticed))
        return answer, self.saved(offset, length)

    def put(self, path, data, offset=0, headers=None, **how):
        """A PUT of memory[offset, offset + len(data)), which is filled with data before: its answer."""
        self.load(offset, data)
        index, place = self.grip(offset, max(1, len(data)), read=True)
        answer = self.ask("PUT", path, place[:26] + f"{len(data):016x}", headers=headers, **how)
        self.peer.tell("close", index, 1)
        return answer

    def saved(self, offset, length):
        path = Path(self.folder) / "memory"
        self.peer.tell("save", offset, length, path)
        return path.read_bytes()

    def load(self, offset, data):
        path = Path(self.folder) / "memory"
        path.write_bytes(data)
        self.peer.tell("load", offset, path)

    def batch(self, entries, grip, ordered=False, replies=1):
        """entries: (bucket, key, first, length, place offset, room). Results by index."""
        path = Path(self.folder) / "entries"
        path.write_text("".join(" ".join(str(word) for word in entry) + "\n" for entry in entries))
        (count,) = self.peer.tell("get", grip, int(ordered), replies, path)
        return [self.peer.line() for _ in range(int(count))]

    def send(self, entries, grip, batch=1, first=0, ordered=False, replies=None, deadline=0):
        """One BATCH message of entries (class Entry), which is not waited for. How many went into it."""
        path = Path(self.folder) / "message"
        path.write_text("".join(entry.line() for entry in entries), errors="surrogateescape")
        replies = -(-len(entries) // 64) if replies is None else replies
        (sent,) = self.peer.tell("send", grip, batch, first, int(ordered), replies, deadline, path)
        return int(sent)

    def results(self):
        """Results that came since they were last asked for, in that order; and how many messages they were."""
        count, messages = self.peer.tell("results")
        return [Result(*self.peer.line()) for _ in range(int(count))], int(messages)

    def close(self):
        self.forget()
        assert self.peer.end() == 0

    def __enter__(self):
        return self

    def __exit__(self, kind, *rest):
        if kind is None:
            self.close()
        else:
            self.forget()
            self.peer.kill()


def sha(data):
    return hashlib.sha256(data).hexdigest()
