"""How fast the daemon delivers on Soft-RoCE, beside what ib_write_bw and ib_read_bw reach in the same guest: `make rdma-speed`. Emulated: a ratio means
something, a figure does not.
"""
import os
import re
import subprocess
import time

from tests.independent.messages import Want
from tests.independent.session import UNTOUCHED, Session
from tests.independent.signer import UNSIGNED, Signer
from tests.independent.verbs import REMOTE_READ, Memory
from tests.support.daemon import Daemon

MIB = 1 << 20
SIZE, ROUNDS, SMALL = 32 * MIB, 4, 16 << 10


def perftest(program):
    """MB/s of so many transfers of 1 MiB, each end a process."""
    arguments = [program, "-R", "-s", str(MIB), "-n", "200", "-t", "8", "-F"]
    server = subprocess.Popen(arguments, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    time.sleep(2)
    done = subprocess.run([*arguments, os.environ["ADDRESS"]], capture_output=True, text=True, timeout=120, check=False)
    server.kill()
    server.wait()
    found = re.search(r"^\s*1048576\s+\d+\s+[\d.]+\s+([\d.]+)", done.stdout, re.M)
    return float(found.group(1)) if found else None


def timed(what, size, action):
    started = time.monotonic()
    for _ in range(ROUNDS):
        action()
    print(f"{what:34} {ROUNDS * size / MIB / (time.monotonic() - started):8.1f} MiB/s", flush=True)


def main():
    daemon = Daemon(drives=1, options=["--rdma-listen", f"{os.environ['ADDRESS']}:0"]).start()
    user = Signer(daemon.host, daemon.port, daemon.access_key, daemon.secret_key)
    data = os.urandom(MIB) * (SIZE // MIB)
    assert user.request("PUT", "/speed").status == user.request("PUT", "/speed/big", data).status == 200
    for n in range(256):
        assert user.request("PUT", f"/speed/{n}", data[n:n + SMALL]).status == 200
    with Session(user) as session:
        memory = Memory(SIZE, UNTOUCHED)

        def get():
            number, grant = session.new_number(), session.grant(memory)
            answer = session.signer.request("GET", "/speed/big", headers=session.headers(number, grant.text()))
            assert answer.headers["x-millrace-transport"] == "rdma"
            session.wait_notice("0.0", number)
            grant.free()

        def put():
            number, grant = session.new_number(), session.grant(memory, access=REMOTE_READ)
            answer = session.signer.request("PUT", "/speed/put", digest=UNSIGNED, headers=session.headers(number, grant.text()))
            assert answer.status == 200, answer
            grant.take_back()
            grant.free()

        timed("GET of 32 MiB into a window", SIZE, get)
        timed("PUT of 32 MiB by READ", SIZE, put)
        wants = [Want("speed", str(n), n * SMALL, SMALL) for n in range(256)]
        timed("batch of 256 objects of 16 KiB", 256 * SMALL, lambda: session.batch(wants, memory))
        timed("GET of 32 MiB over TCP (loopback)", SIZE, lambda: user.request("GET", "/speed/big"))
    daemon.stop()
    daemon.discard()
    for program in ("ib_write_bw", "ib_read_bw"):
        print(f"{program + ', 1 MiB':34} {perftest(program) or float('nan'):8.1f} MB/s", flush=True)


if __name__ == "__main__":
    main()
