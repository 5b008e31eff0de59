"""The daemon is told to stop amid everything at once: it ends within its time, and leaks and breaks nothing; what was acknowledged is there afterwards.

Meant for a build with sanitizers, whose report at the end is what Daemon.stop() looks for: whoever waits for something at that moment (a file being opened, a page
of an index, a drive that is late) holds memory until it is told.
"""
import concurrent.futures
import itertools
import random
import threading

import pytest

from tests.conftest import SEED
from tests.support.daemon import PATIENCE, Daemon
from tests.support.s3raw import UNSIGNED, ConnectionClosed, RawClient

pytestmark = pytest.mark.daemon
KIB, MIB = 1 << 10, 1 << 20
SETTINGS = {"segment_size": "16MiB", "log_file_size": "4MiB", "memtable_size": "2MiB", "cache": "0", "scrub_interval": "1m"}
FAULTS = ["", "files:ms=200", "pages:ms=200", "delay:ms=200"]
SIZES = [700, 90 * KIB, 600 * KIB, 3 * MIB]


class Mix:
    """Clients that never end by themselves, one kind of request each."""

    def __init__(self, daemon, name):
        self.rng = random.Random(f"{SEED}/stop/{name}")
        self.raw = RawClient(daemon.host, daemon.port, daemon.access_key, daemon.secret_key)
        self.admin = RawClient(daemon.host, daemon.admin_port, daemon.access_key, daemon.secret_key)
        self.numbers = itertools.count()
        self.kept = {}  # acknowledged, and touched by nobody again
        self.done = {}  # requests answered, by kind
        self.ended = threading.Event()
        self.body = self.rng.randbytes(max(SIZES))

    def send(self, method, path, **how):
        how.setdefault("payload", UNSIGNED if how.get("body") else None)
        return self.raw.request(method, path, timeout=60 * PATIENCE, **how)

    def put(self):
        key, size = f"put{next(self.numbers)}", self.rng.choice(SIZES)
        if self.send("PUT", f"/mix/{key}", body=self.body[:size]).status == 200:
            self.kept[key] = size

    def multipart(self):
        path = f"/mix/parts{next(self.numbers)}"
        upload = self.send("POST", path, query=[("uploads", "")]).xml.findtext("UploadId")
        part = self.send("PUT", path, query=[("partNumber", "1"), ("uploadId", upload)], body=self.body[:600 * KIB])
        text = f"<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>{part.headers['etag']}</ETag></Part></CompleteMultipartUpload>"
        if self.send("POST", path, query=[("uploadId", upload)], body=text.encode()).status == 200:
            self.kept[path[5:]] = 600 * KIB

    def get(self):
        self.send("GET", f"/mix/old{self.rng.randrange(24)}")

    def copy(self):
        self.send("PUT", f"/mix/copy{next(self.numbers)}", headers={"x-amz-copy-source": f"/mix/old{self.rng.randrange(24)}"})

    def listing(self):
        self.send("GET", "/mix", query=[("list-type", "2")])
        self.send("GET", "/mix", query=[("uploads", "")])

    def delete(self):
        keys = [f"gone{next(self.numbers)}" for _ in range(8)]
        for key in keys[:2]:
            self.send("PUT", f"/mix/{key}", body=b"x" * 100_000)
        text = "<Delete>" + "".join(f"<Object><Key>{key}</Key></Object>" for key in keys) + "</Delete>"
        self.raw.request("POST", "/mix", query=[("delete", "")], body=text.encode(), timeout=60 * PATIENCE)

    def verify(self):
        self.admin.request("POST", "/admin/v1/verify", timeout=60 * PATIENCE)
        self.admin.request("POST", "/admin/v1/scrub", timeout=60 * PATIENCE)

    def bucket(self):
        name = f"/bucket{next(self.numbers)}"
        self.send("PUT", name)
        self.send("DELETE", name)

    KINDS = ["put", "put", "multipart", "multipart", "get", "get", "get", "copy", "listing", "delete", "verify", "bucket"]

    def run(self, kind):
        while not self.ended.is_set():
            try:
                getattr(self, kind)()
                self.done[kind] = self.done.get(kind, 0) + 1
            except (OSError, ConnectionClosed, AttributeError, KeyError):  # refused, cut, or an error in place of what was asked for
                if self.ended.wait(0.02):
                    return


def fill(mix):
    assert mix.send("PUT", "/mix").status == 200
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        for answer in pool.map(lambda i: mix.send("PUT", f"/mix/old{i}", body=mix.body[:SIZES[i % 4]]), range(24)):
            assert answer.status == 200, answer


def stop_amid(daemon, mix, progress):
    threads = [threading.Thread(target=mix.run, args=(kind,)) for kind in mix.KINDS]
    for thread in threads:
        thread.start()
    try:
        daemon.wait_until(lambda: sum(mix.done.values()) >= progress, 60, "to serve the mix")
        daemon.stop()
    finally:
        mix.ended.set()
        for thread in threads:
            thread.join()


@pytest.mark.parametrize("faults", FAULTS)
def test_a_stop_amid_everything(faults):
    settings = {**SETTINGS, "drain_timeout": "0"}
    env = {}
    if "delay" in faults:  # it waits by timers, which end with the loops: whoever waits is left in memory. Crashes are still found
        env["ASAN_OPTIONS"] = "detect_leaks=0:exitcode=99:abort_on_error=0:allocator_may_return_null=1"
    with Daemon(drives=4, ec="2+2", settings=settings, env=env).start() as daemon:
        first = Mix(daemon, faults)
        fill(first)
        daemon.stop()
        daemon.settings["test_faults"] = faults or "duplicate"
        kept = {f"old{i}": SIZES[i % 4] for i in range(24)}
        for progress in (1, 12, 24):
            daemon.restart(60)
            mix = Mix(daemon, f"{faults}/{progress}")
            mix.body, mix.numbers = first.body, first.numbers
            stop_amid(daemon, mix, progress)
            kept.update(mix.kept)
        daemon.settings.pop("test_faults")
        daemon.restart(60)
        mix = Mix(daemon, "after")
        for key, size in kept.items():
            answer = mix.send("GET", f"/mix/{key}")
            assert answer.status == 200 and answer.body == first.body[:size], (key, answer)
