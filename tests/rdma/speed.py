"""How fast the daemon is on Soft-RoCE, beside ib_write_bw and ib_read_bw in the same guest: `make rdma-speed`.

    speed.py [--rounds N] [--seconds S] [--ec K+M]

Each round takes every way once, in turn, with perftest's programs between; what is printed are medians, in MiB/s (perftest's "MB" are MiB, says its page). The guest is emulated
and everything in it shares its two processors: a ratio means something, a figure does not. So beside each rate stands where CPU time went, by /proc: of the
daemon, and of all else (the clients, or both ends of perftest, and threads of the kernel), each parted into own code and kernel. Soft-RoCE is in the kernel.
"""
import argparse
import ctypes
import os
import re
import statistics
import subprocess
import tempfile
import threading
import time

from tests.independent.messages import Want
from tests.independent.session import UNTOUCHED, Session
from tests.independent.signer import UNSIGNED, Signer
from tests.independent.verbs import REMOTE_READ, Memory
from tests.rdma.package import unpack
from tests.support.daemon import Daemon

MIB = 1 << 20
SIZE, SMALL, ENTRIES = 32 * MIB, 16 << 10, 256
ADDRESS = os.environ["ADDRESS"]
TICK = os.sysconf("SC_CLK_TCK")


# ---- where CPU time goes -----------------------------------------------------------------------------------------------

def machine():
    """Seconds that the processors were busy since the start: (in programs, in the kernel)."""
    with open("/proc/stat", encoding="ascii") as file:
        user, nice, system, _, _, irq, softirq, *_ = map(int, file.readline().split()[1:])
    return (user + nice) / TICK, (system + irq + softirq) / TICK


def process(pid):
    """The same of one process."""
    with open(f"/proc/{pid}/stat", encoding="ascii") as file:
        words = file.read().rsplit(")", 1)[1].split()
    return int(words[11]) / TICK, int(words[12]) / TICK


class Sample:
    """What one run of a way gave: MiB/s, and CPU as (daemon's code, daemon in the kernel, other code, the kernel else), in s/GiB."""

    def __init__(self, mib, seconds, daemon, total):
        self.rate = mib / seconds
        self.cpu = [max(0.0, one) * 1024 / mib for one in (*daemon, total[0] - daemon[0], total[1] - daemon[1])]


def sampled(daemon, action):
    """action() says how many MiB it moved, and in how many seconds if it knows better."""
    def look():
        return (*process(daemon.process.pid), *machine())

    before, started = look(), time.monotonic()
    result = action()
    seconds, used = time.monotonic() - started, [after - then for after, then in zip(look(), before)]
    mib, seconds = result if isinstance(result, tuple) else (result, seconds)
    return Sample(mib, seconds, used[:2], used[2:])


def checksum_cost():
    """What a CRC32C costs here, by the library that the daemon has it from, in s/GiB."""
    crc, data = ctypes.CDLL("libisal.so.2").crc32_iscsi, ctypes.create_string_buffer(MIB)
    started = time.thread_time()
    for _ in range(64):
        crc(data, MIB, 0)
    return (time.thread_time() - started) * 1024 / 64


def at_once(count, seconds, make):
    """So many threads, each calling what make(n) gave it until the time is over; MiB."""
    calls, moved, until = [make(n) for n in range(count)], [0] * count, time.monotonic() + seconds
    failures = []

    def work(n):
        try:
            while time.monotonic() < until:
                moved[n] += calls[n]() / MIB
        except BaseException as error:  # to the main thread
            failures.append(error)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    return sum(moved)


# ---- perftest ----------------------------------------------------------------------------------------------------------

def perftest(program, count):
    """So many transfers of 1 MiB, 8 at a time, each end a process; (MiB, seconds)."""
    arguments = [program, "-R", "-s", str(MIB), "-t", "8", "-F", "-n", str(count)]
    server = subprocess.Popen(arguments, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        for _ in range(10):  # it does not say when it listens
            time.sleep(1)
            done = subprocess.run([*arguments, ADDRESS], capture_output=True, text=True, timeout=120, check=False)
            found = re.search(rf"^\s*{MIB}\s+{count}\s+[\d.]+\s+([\d.]+)", done.stdout, re.M)
            if found:
                return count, count / float(found.group(1))
    finally:
        server.kill()
        server.wait()
    raise RuntimeError(f"{program} gave no figure:\n{done.stdout}\n{done.stderr}")


# ---- the two clients ---------------------------------------------------------------------------------------------------

class Independent:
    """A session each; nothing is verified while time is taken, since this client checks in Python."""

    def __init__(self, user):
        self.session, self.memory = Session(user), Memory(SIZE, UNTOUCHED)

    def get(self):
        session, number = self.session, self.session.new_number()
        grant = session.grant(self.memory)
        answer = session.signer.request("GET", "/speed/big", headers=session.headers(number, grant.text()))
        assert answer.headers["x-millrace-transport"] == "rdma", answer
        session.wait_notice("0.0", number)
        grant.free()
        return SIZE

    def put(self):
        session, number = self.session, self.session.new_number()
        grant = session.grant(self.memory, access=REMOTE_READ)
        answer = session.signer.request("PUT", "/speed/put", digest=UNSIGNED, headers=session.headers(number, grant.text()))
        assert answer.status == 200, answer
        grant.take_back()
        grant.free()
        return SIZE

    def batch(self):
        self.session.batch([Want("speed", str(n), n * SMALL, SMALL) for n in range(ENTRIES)], self.memory)
        return ENTRIES * SMALL


class Library:
    """libmillrace by its Python package: one client, which verifies each byte."""

    def __init__(self, millrace, daemon):
        self.client = millrace.Client(daemon.endpoint, access_key=daemon.access_key, secret_key=daemon.secret_key, region="us-east-1", transport="rdma",
                                      connect_timeout=30)
        self.memory = [self.client.buffer(SIZE) for _ in range(4)]

    def get(self, n):
        result = self.client.get_into("speed", "big", self.memory[n])
        assert result.transport == "rdma" and result.wire_verified and result.bytes == SIZE
        return SIZE

    def put(self, n):
        self.client.put("speed", f"put-{n}", self.memory[n])
        return SIZE


# ---- the whole ---------------------------------------------------------------------------------------------------------

def ways(daemon, user, four, library, data, seconds):
    """(what, how many at once, beside which program, action)"""
    def loop(count, make):
        return lambda: at_once(count, seconds, make)

    def tcp():
        assert user.request("GET", "/speed/big").body == data
        return SIZE

    return [("ib_write_bw", 1, None, lambda: perftest("ib_write_bw", 64 * seconds)),
            ("GET, independent client", 1, "ib_write_bw", loop(1, lambda n: four[n].get)),
            ("GET, independent client", 4, "ib_write_bw", loop(4, lambda n: four[n].get)),
            ("GET, libmillrace", 1, "ib_write_bw", loop(1, lambda n: lambda: library.get(n))),
            ("GET, libmillrace", 4, "ib_write_bw", loop(4, lambda n: lambda: library.get(n))),
            (f"BATCH of {ENTRIES} x {SMALL >> 10} KiB", 1, "ib_write_bw", loop(1, lambda n: four[n].batch)),
            ("ib_read_bw", 1, None, lambda: perftest("ib_read_bw", 64 * seconds)),
            ("PUT, independent client", 1, "ib_read_bw", loop(1, lambda n: four[n].put)),
            ("PUT, libmillrace", 1, "ib_read_bw", loop(1, lambda n: lambda: library.put(n))),
            ("PUT, libmillrace", 4, "ib_read_bw", loop(4, lambda n: lambda: library.put(n))),
            ("GET over TCP (loopback)", 1, "ib_write_bw", loop(1, lambda n: tcp))]


def table(taken, results):
    print(f"\n{'':27}{'at':>5}{'':>8}{'':>7}   CPU, s/GiB: {'daemon,':>8} {'in the':>7} {'other':>7} {'kernel':>7}")
    print(f"{f'medians of {len(results[0])}':27}{'once':>5}{'MiB/s':>8}{'ratio':>7}   {'':11} {'its code':>8} {'kernel':>7} {'code':>7} {'else':>7}")
    names = [way[0] for way in taken]
    for (what, count, beside, _), samples in zip(taken, results):
        # each round's own, so that what else the machine did meanwhile takes from both
        ratio = f"{statistics.median(one.rate / other.rate for one, other in zip(samples, results[names.index(beside)])):.2f}" if beside else ""
        cpu = " ".join(f"{statistics.median(one.cpu[n] for one in samples):7.1f}" for n in range(4))
        print(f"{what:27}{count:5}{statistics.median(one.rate for one in samples):8.1f}{ratio:>7}   {'':12} {cpu}")
    print(f"CRC32C alone: {checksum_cost():.1f} s/GiB")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=int, default=4, help="that each way takes in each round")
    parser.add_argument("--ec", default="2+2", help="of the store, K+M: the more data shards, the more of a GET is under way at a time (twice K units of 1 MiB)")
    arguments = parser.parse_args()
    drives = sum(map(int, arguments.ec.split("+")))
    data = os.urandom(MIB) * (SIZE // MIB)
    with tempfile.TemporaryDirectory() as folder, \
            Daemon(drives=drives, ec=arguments.ec, options=["--rdma-listen", f"{ADDRESS}:0"]).start() as daemon:
        millrace = unpack(folder)
        user = Signer(daemon.host, daemon.port, daemon.access_key, daemon.secret_key)
        for path, body in (("/speed", b""), ("/speed/big", data), *((f"/speed/{n}", data[n:n + SMALL]) for n in range(ENTRIES))):
            assert user.request("PUT", path, body).status == 200
        four, library = [Independent(user) for _ in range(4)], Library(millrace, daemon)
        for one in four:  # what was delivered once is right; and everything is connected
            one.get()
            assert one.memory.read() == data
        library.get(0)
        taken = ways(daemon, user, four, library, data, arguments.seconds)
        results = [[] for _ in taken]
        for turn in range(arguments.rounds):
            for (what, count, _, action), samples in zip(taken, results):
                samples.append(sampled(daemon, action))
                print(f"round {turn + 1}: {what}, {count} at once: {samples[-1].rate:.1f} MiB/s", flush=True)
        table(taken, results)
        for one in four:
            one.session.free()
        library.client.close()


if __name__ == "__main__":
    main()
