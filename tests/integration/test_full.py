"""A store whose file system is full: PUTs get 507, everything else goes on, and after deletes it gets well by itself, by unlinking and by
moving what lives out of mostly dead files. On a small tmpfs, which only root may mount; skipped without that right."""
import concurrent.futures
import hashlib
import os
import random
import socket
import subprocess
import time

import pytest
from botocore.exceptions import BotoCoreError, ClientError

from tests.conftest import SEED, make_client
from tests.support.daemon import PATIENCE, Daemon

pytestmark = pytest.mark.daemon
KIB, MIB = 1 << 10, 1 << 20


@pytest.fixture
def small(tmp_path):
    """A function that mounts a tmpfs of so many MiB and returns its folder."""
    mounted = []

    def mount(mib):
        folder = tmp_path / f"small{len(mounted)}"
        folder.mkdir()
        if os.geteuid() != 0 or subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={mib}m", "tmpfs", str(folder)],
                                               capture_output=True).returncode != 0:
            pytest.skip("may not mount a tmpfs")
        mounted.append(folder)
        return folder

    yield mount
    for folder in mounted:
        subprocess.run(["umount", "-l", str(folder)], check=False)


def client_of(daemon):
    return make_client(daemon.endpoint, daemon.access_key, daemon.secret_key, read_timeout=60 * PATIENCE)


def drives_on(folder, count):
    paths = [folder / f"drive{i}" for i in range(count)]
    for path in paths:
        path.mkdir()
    return paths


def body_of(key, version, size):
    seed = hashlib.sha256(f"{SEED}/{key}/{version}".encode()).digest()
    return (seed * (size // len(seed) + 1))[:size]


class Model:
    """What was acknowledged: key -> (version, size)."""

    def __init__(self, daemon, bucket, sizes):
        self.daemon, self.bucket, self.sizes = daemon, bucket, sizes
        self.random = random.Random(f"{SEED}/{bucket}")
        self.objects = {}
        self.version = 0

    def put(self, s3, key, size=None):
        """True: acknowledged. False: refused as full, and then it is as before."""
        self.version += 1
        size = self.random.choice(self.sizes) if size is None else size
        try:
            s3.put_object(Bucket=self.bucket, Key=key, Body=body_of(key, self.version, size))
        except ClientError as error:
            assert error.response["ResponseMetadata"]["HTTPStatusCode"] == 507, error
            return False
        self.objects[key] = (self.version, size)
        return True

    def fill(self, s3, prefix, limit=20000):
        """Puts until several in a row were refused: a large one may be where a small one is not. The number taken."""
        taken = refused = n = 0
        while refused < 8 and n < limit:
            if self.put(s3, f"{prefix}{n:05}"):
                taken += 1
                refused = 0
            else:
                refused += 1
            n += 1
        assert refused == 8, "the store never got full"
        return taken

    def delete(self, s3, keys):
        keys = list(keys)
        for at in range(0, len(keys), 500):
            some = [{"Key": key} for key in keys[at:at + 500]]
            answer = s3.delete_objects(Bucket=self.bucket, Delete={"Objects": some, "Quiet": True})
            assert not answer.get("Errors"), answer["Errors"][:3]
        for key in keys:
            del self.objects[key]

    def check(self, s3):
        def one(item):
            key, (version, size) = item
            assert s3.get_object(Bucket=self.bucket, Key=key)["Body"].read() == body_of(key, version, size), key

        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            list(pool.map(one, self.objects.items()))
        found = [entry["Key"] for page in s3.get_paginator("list_objects_v2").paginate(Bucket=self.bucket)
                 for entry in page.get("Contents", [])]
        assert found == sorted(self.objects)

    def put_when_possible(self, s3, key, size, seconds=40):
        deadline = time.monotonic() + seconds * PATIENCE
        while not self.put(s3, key, size):
            assert time.monotonic() < deadline, "no room came back"
            time.sleep(0.2)


def drives_in(daemon):
    return daemon.health_json()[1]["drives_in"]


@pytest.mark.slow
@pytest.mark.parametrize("layout", [dict(drives=4, ec="2+2", mib=448), pytest.param(dict(drives=1, ec=None, mib=192), marks=pytest.mark.long)],
                         ids=["2+2", "single"])
def test_fill_delete_and_go_on(small, layout):
    folder = small(layout["mib"])
    settings = {"full_reserve": "48MiB", "memtable_size": "4MiB", "cache": "1MiB"}
    paths = drives_on(folder, layout["drives"])
    with Daemon(drive_paths=paths, ec=layout["ec"], settings=settings).start() as daemon:
        s3 = client_of(daemon)
        s3.create_bucket(Bucket="full")
        model = Model(daemon, "full", [900, 20 * KIB, 100 * KIB, 700 * KIB, 3 * MIB])
        first = model.fill(s3, "a")
        assert first > 20
        model.check(s3)
        assert drives_in(daemon) == layout["drives"]
        overwritten = 0
        while model.put(s3, "a00000", 3 * MIB):  # refused too, and then the old one stays; reclaim may have found room for a few
            overwritten += 1
            assert overwritten < 50
        model.check(s3)

        for end in (daemon.stop, daemon.kill):  # restarts while it is full
            end()
            daemon.restart(60)
            s3 = client_of(daemon)
            model.check(s3)
            assert drives_in(daemon) == layout["drives"]
        model.fill(s3, "b")  # what the restarts gave back

        # two of three go, all over the files: nothing is wholly dead, so what lives has to move
        model.delete(s3, [key for i, key in enumerate(sorted(model.objects)) if i % 3 != 0])
        model.put_when_possible(s3, "again", 3 * MIB)
        model.check(s3)
        for _ in range(3):  # round and round: no space gets lost on the way
            time.sleep(6)  # dead shards wait for readers that may still want them
            taken = model.fill(s3, "c")
            assert taken > first / 5, (taken, first)
            model.check(s3)
            model.delete(s3, [key for key in sorted(model.objects) if key.startswith("c")])
        daemon.stop()
        daemon.restart(60)
        s3 = client_of(daemon)
        model.check(s3)
        assert drives_in(daemon) == layout["drives"]
        copied = sum(v for k, v in daemon.metrics().items() if k.startswith("millrace_drive_reclaim_damaged_total"))
        assert copied == 0


@pytest.mark.slow
def test_overwrites_at_seventy_percent(small):
    """Uniform overwriting of a store that is mostly full goes on for ever: dead space comes back as fast as it is made."""
    folder = small(256)
    settings = {"full_reserve": "24MiB", "memtable_size": "4MiB", "cache": "1MiB"}
    with Daemon(drive_paths=drives_on(folder, 1), settings=settings).start() as daemon:
        s3 = client_of(daemon)
        s3.create_bucket(Bucket="over")
        model = Model(daemon, "over", [400 * KIB])
        keys = [f"k{i:04}" for i in range(300)]  # 120 MB live
        for key in keys:
            assert model.put(s3, key)
        refused = 0
        for i in range(1500):  # 600 MB written
            key = model.random.choice(keys)
            if not model.put(s3, key):
                refused += 1
                model.put_when_possible(s3, key, 400 * KIB)
        model.check(s3)
        figures = daemon.metrics()
        freed = sum(v for k, v in figures.items() if k.startswith("millrace_drive_reclaim_freed_bytes_total"))
        copied = sum(v for k, v in figures.items() if k.startswith("millrace_drive_reclaim_copied_bytes_total"))
        print(f"refused {refused} times; freed {freed / MIB:.0f} MiB, moved {copied / MIB:.0f} MiB")
        assert freed > 200 * MIB


def test_really_full(small):
    """Something else takes the file system's last bytes: nothing acknowledged is lost, no drive is, and it goes on when there is room."""
    folder = small(256)
    paths = drives_on(folder, 2)
    with Daemon(drive_paths=paths, ec="1+1", settings={"full_reserve": "1MiB", "memtable_size": "2MiB", "cache": "1MiB"}).start() as daemon:
        s3 = client_of(daemon)
        s3.create_bucket(Bucket="over")
        model = Model(daemon, "over", [2 * KIB, 60 * KIB, 400 * KIB])
        for i in range(100):
            assert model.put(s3, f"early{i:03}")
        filler = folder / "filler"

        def take_all():
            with open(filler, "ab", buffering=0) as out:
                try:
                    while out.write(bytes(1 << 16)) > 0:
                        pass
                except OSError:
                    pass

        take_all()
        for i in range(300):
            model.put(s3, f"late{i:03}")
            if i % 100 == 0:
                take_all()
        time.sleep(2)
        model.check(s3)
        assert drives_in(daemon) == 2
        daemon.kill()
        take_all()
        daemon.restart(60)
        s3 = client_of(daemon)
        model.check(s3)
        assert drives_in(daemon) == 2
        filler.unlink()
        model.put_when_possible(s3, "after", 3 * MIB)
        model.delete(s3, [key for key in model.objects if key.startswith("early")])
        model.check(s3)
        assert drives_in(daemon) == 2


@pytest.mark.slow
def test_deletes_with_no_byte_left(small):
    """Deletes go on until the log has no room, then they are refused or wait; no drive fails, and all goes on when there is room."""
    folder = small(160)
    paths = drives_on(folder, 2)
    settings = {"full_reserve": "1MiB", "memtable_size": "2MiB", "cache": "1MiB", "log_file_size": "4MiB"}
    with Daemon(drive_paths=paths, ec="1+1", settings=settings).start() as daemon:
        s3 = client_of(daemon)
        s3.create_bucket(Bucket="none")
        model = Model(daemon, "none", [2 * KIB])
        keys = [f"early{i:04}" for i in range(2600)]
        for key in keys:
            assert model.put(s3, key)
        filler = folder / "filler"

        def take_all():
            with open(filler, "ab", buffering=0) as out:
                try:
                    while out.write(bytes(4096)) > 0:
                        pass
                except OSError:
                    pass

        take_all()
        impatient = make_client(daemon.endpoint, daemon.access_key, daemon.secret_key, read_timeout=3, retries=0)
        unsure = []
        for i, key in enumerate(keys[100:]):
            if i % 50 == 0:
                take_all()
            try:
                impatient.delete_object(Bucket="none", Key=key)
                model.objects.pop(key)
            except (ClientError, BotoCoreError):
                unsure.append(key)
                model.objects.pop(key)
                if len(unsure) > 3:
                    break
        print(f"{len(unsure)} deletes refused or not answered, {len(model.objects)} objects left")
        assert drives_in(daemon) == 2
        for key, (version, size) in list(model.objects.items())[::20]:
            assert s3.get_object(Bucket="none", Key=key)["Body"].read() == body_of(key, version, size)
        filler.unlink()
        model.put_when_possible(s3, "after", 3 * MIB)
        for key in unsure:
            s3.delete_object(Bucket="none", Key=key)
        model.delete(s3, keys[:50])
        model.check(s3)
        assert drives_in(daemon) == 2
        assert unsure


def test_few_descriptors(tmp_path, monkeypatch):
    """Idle connections of strangers take all the descriptors they are let have: the store has what it needs, and no drive fails."""
    monkeypatch.setattr("tests.support.daemon.WRAP", ["sh", "-c", 'ulimit -n 300; exec "$@"', "sh"])
    settings = {"log_file_size": "4MiB", "segment_size": "4MiB", "loops": "2"}
    daemon = Daemon(drive_paths=drives_on(tmp_path, 4), ec="2+2", settings=settings)
    daemon.start()
    idle = []
    try:
        s3 = client_of(daemon)
        s3.create_bucket(Bucket="few")
        model = Model(daemon, "few", [2 * KIB, 200 * KIB, 3 * MIB])
        host, port = daemon.endpoint.split("//")[1].split(":")
        for _ in range(400):
            idle.append(socket.create_connection((host, int(port)), timeout=10))
        for i in range(30):
            assert model.put(s3, f"k{i}")
        model.check(s3)
        assert drives_in(daemon) == 4
    finally:
        for sock in idle:
            sock.close()
        daemon.discard()
