"""The client's end of the header protocol over the fake transport: HTTP from here, the memory that tokens name in the program rdma_target (tests/rdma/rdma_target.c)."""
import shutil
import subprocess
import tempfile
import weakref
from pathlib import Path

from tests.support.daemon import BUILD, sanitizer_environment
from tests.support.rdma import DRIVER, PeerError
from tests.support.s3raw import UNSIGNED, RawClient

TARGET = BUILD / "rdma_target"
GID = "::ffff:127.0.0.2"  # of the far end, as the fake has it
KEY = "ffeeddcc"


class Target:
    """A process with memory that tokens name."""

    def __init__(self, sockets, memory=32 << 20, key=KEY):
        env = {**sanitizer_environment(), "MILLRACE_FAKE_RDMA": sockets}
        self.folder = tempfile.mkdtemp(prefix="mr-target-", dir="/tmp")
        weakref.finalize(self, shutil.rmtree, self.folder, ignore_errors=True)
        self.process = subprocess.Popen([str(TARGET), str(DRIVER), key, str(memory)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True, env=env)
        self.gid, self.number, address = self.line()
        self.address = int(address, 16)
        self.memory = memory
        self.rkeys = {}

    def line(self):
        answer = self.process.stdout.readline().split()
        if answer[:1] != ["ok"]:
            raise PeerError(" ".join(answer))
        return answer[1:]

    def tell(self, *words):
        self.process.stdin.write(" ".join(str(word) for word in words) + "\n")
        self.process.stdin.flush()
        return self.line()

    def rkey(self, access):
        """Of a region over all the memory: w or r."""
        if access not in self.rkeys:
            (self.rkeys[access],) = self.tell("region", 0, self.memory, access)
        return self.rkeys[access]

    def token(self, offset, size, access="w", long=False, suffix="", **changes):
        fields = {"address": f"{self.address + offset:016x}", "size": f"{size & 0xffffffff:08x}", "rkey": None, "lid": "0000",
                  "dct": self.number, "has_gid": "1", "gid": self.gid}
        fields.update(changes)
        fields["rkey"] = fields["rkey"] or self.rkey(access)
        text = ":".join(fields[name] for name in ("address", "size", "rkey", "lid", "dct", "has_gid", "gid"))
        return text + (f":{self.address + offset:016x}:{size:016x}" if long else "") + suffix

    def saved(self, offset, length):
        path = Path(self.folder) / "memory"
        self.tell("save", offset, length, path)
        return path.read_bytes()

    def load(self, offset, data):
        path = Path(self.folder) / "memory"
        path.write_bytes(data)
        self.tell("load", offset, path)

    def close(self):
        self.process.stdin.close()
        self.process.wait(60)

    def __enter__(self):
        return self

    def __exit__(self, *rest):
        self.close()


def user_of(daemon, port=None):
    return RawClient(daemon.host, port or daemon.port, daemon.access_key, daemon.secret_key)


def ask(client, method, path, token, headers=None, payload=UNSIGNED, **how):
    """A request with a token, signed as the protocol wants it."""
    return client.request(method, path, headers={"x-amz-rdma-token": token, **(headers or {})}, payload=payload, **how)
