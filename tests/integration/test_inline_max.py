"""The setting inline_max: what new objects are stored inline. What is stored under any other value of it stays as it is, and readable."""
import json
import shutil

import pytest

from tests.integration.test_drives import cli, client_of
from tests.support.checksums import etag, multipart_etag
from tests.support.daemon import Daemon, run_daemon
from tests.support.expect import read
from tests.support.rdma import DRIVER, Session, rdma_daemon
from tests.support.s3raw import RawClient

KIB = 1 << 10
BUCKET = "limits"
SIZES = (0, 1, 4 * KIB, 4 * KIB + 1, 20_000, 70_000, 128 * KIB, 128 * KIB + 1)
pytestmark = pytest.mark.daemon


def body(key, size):
    return (key.encode() + b" ") * (size // (len(key) + 1)) + b"x" * (size % (len(key) + 1))


class Site:
    """A daemon whose limit changes with each start, and all that was stored."""

    def __init__(self, **arguments):
        self.daemon = Daemon(drives=4, ec="2+2", **arguments)
        self.bodies = {}

    def __enter__(self):
        self.daemon.__enter__()
        return self

    def __exit__(self, *what):
        return self.daemon.__exit__(*what)

    def start(self, limit=None, clean=True):
        if self.daemon.process is not None:
            if clean:
                self.daemon.stop()
            else:
                self.daemon.kill()
        self.daemon.settings.pop("inline_max", None)
        if limit is not None:
            self.daemon.settings["inline_max"] = limit
        self.daemon.start()
        self.s3 = client_of(self.daemon)
        if not self.bodies:
            self.s3.create_bucket(Bucket=BUCKET)
        self.check()

    def put(self, key, size):
        self.bodies[key] = body(key, size)
        assert self.s3.put_object(Bucket=BUCKET, Key=key, Body=self.bodies[key])["ETag"] == etag(self.bodies[key])

    def put_all(self, name):
        for size in SIZES:
            self.put(f"{name}/{size}", size)

    def check(self):
        for key, data in self.bodies.items():
            assert read(self.s3, BUCKET, key) == data, key
            if len(data) > 2:
                assert self.s3.get_object(Bucket=BUCKET, Key=key, Range="bytes=1-")["Body"].read() == data[1:], key

    def written_shards(self):
        """Shards that the drives have written since the start."""
        return sum(value for name, value in self.daemon.metrics().items()
                   if name.startswith("millrace_drive_operation_seconds_count{") and 'operation="write"' in name)

    def verify(self):
        found = json.JSONDecoder().raw_decode(cli(self.daemon, "admin", "verify", "--json"))[0]
        assert not any(found[name] for name in ("damaged_shards", "missing_shards", "unreadable_objects")), found
        assert found["objects"] == len(self.bodies), found


@pytest.fixture
def site():
    with Site() as made:
        yield made


def sharded(site, put):
    """Of these objects, those that were stored as shards: of each the drives write some."""
    names = []
    for size in SIZES:
        before = site.written_shards()
        put(size)
        if site.written_shards() > before:
            names.append(size)
    return names


def test_the_limit_decides_and_what_is_stored_stays(site):
    site.start()
    assert sharded(site, lambda size: site.put(f"first/{size}", size)) == [128 * KIB + 1]
    for limit, expected in (("4KiB", list(SIZES[3:])), ("0", list(SIZES[1:])), ("64KiB", list(SIZES[5:])), ("128KiB", [128 * KIB + 1])):
        site.start(limit, clean=limit != "0")
        assert sharded(site, lambda size, limit=limit: site.put(f"{limit}/{size}", size)) == expected, limit
        site.verify()
    site.start()
    site.verify()


def test_ways_to_write(site):
    """Overwriting, copying, copying onto itself, an upload's parts: bytes are right whichever limit each was stored under."""
    site.start()
    site.put_all("old")
    site.start("4KiB")
    s3 = site.s3
    for size in SIZES:
        s3.copy_object(Bucket=BUCKET, Key=f"copy/{size}", CopySource={"Bucket": BUCKET, "Key": f"old/{size}"})
        site.bodies[f"copy/{size}"] = site.bodies[f"old/{size}"]
        s3.copy_object(Bucket=BUCKET, Key=f"old/{size}", CopySource={"Bucket": BUCKET, "Key": f"old/{size}"}, MetadataDirective="REPLACE",
                       Metadata={"new": "yes"})
    site.put_all("over")
    parts = []
    upload = s3.create_multipart_upload(Bucket=BUCKET, Key="parts")["UploadId"]
    for number, size in ((1, 5 << 20), (2, 3000)):
        data = body(f"parts/{number}", size)
        parts.append((data, s3.upload_part(Bucket=BUCKET, Key="parts", UploadId=upload, PartNumber=number, Body=data)["ETag"]))
    done = s3.complete_multipart_upload(Bucket=BUCKET, Key="parts", UploadId=upload, MultipartUpload={
        "Parts": [{"PartNumber": number, "ETag": tag} for number, (_, tag) in enumerate(parts, 1)]})
    assert done["ETag"] == multipart_etag([data for data, _ in parts])
    site.bodies["parts"] = b"".join(data for data, _ in parts)
    site.check()
    site.start()
    for name in ("over", "copy"):
        site.put_all(name)
    site.check()
    site.start("0", clean=False)
    site.put_all("over")
    for size in SIZES:
        s3 = site.s3
        assert s3.head_object(Bucket=BUCKET, Key=f"old/{size}")["Metadata"] == {"new": "yes"}
    site.verify()


@pytest.mark.parametrize("limit", ["0", "4KiB"])
def test_a_drive_is_lost(limit):
    """Small objects in shards are read without a drive, and given back what they lack."""
    with Site() as site:
        site.start()
        site.put_all("inline")
        site.start(limit)
        site.put_all("shards")
        site.daemon.kill()
        lost = site.daemon.drives.pop(2)
        lost.rename(lost.with_name("lost"))
        site.daemon.process = None
        site.start("128KiB")
        site.put_all("while it was gone")
        lost.mkdir()
        cli(site.daemon, "admin", "drive", "replace", 2, lost)
        site.daemon.wait_until(lambda: all(d["state"] == "in" and not d["filling"] for d in json.loads(
            cli(site.daemon, "admin", "drive", "status", "--json"))["drives"]), 60, "to have filled the drive")
        site.check()
        site.verify()


@pytest.mark.slow
def test_space_is_taken_back():
    """Reclaim moves inline values of the old limit and small shards of the new one alike."""
    settings = {"segment_size": "4MiB", "log_file_size": "4MiB", "memtable_size": "1MiB", "reclaim_rate": "64MiB"}
    with Site(settings=settings) as site:
        site.start()
        for at in range(3):
            for i in range(60):
                site.put(f"churn/{i}" if i % 4 else f"stays/{at}/{i}", 90_000)
        site.start("4KiB")
        for at in range(3):
            for i in range(60):
                site.put(f"churn/{i}" if i % 4 else f"stays/later/{at}/{i}", 90_000)

        def freed():
            figures = site.daemon.metrics()
            return [v for name, v in figures.items() if name.startswith("millrace_drive_reclaim_freed_bytes_total")]

        site.daemon.wait_until(lambda: all(freed()), 60, "to take space back on each drive")
        site.check()
        site.start("0", clean=False)
        site.verify()


def test_a_round_of_the_scrub(site):
    """It reads what is stored inline and what is stored in shards under another limit, and finds nothing wrong."""
    site.daemon.settings.update(scrub_interval="1h", scrub_period="1h")
    site.start()
    site.put_all("inline")
    site.start("4KiB")
    site.put_all("shards")

    def status():
        return json.loads(cli(site.daemon, "admin", "scrub", "status", "--json"))

    cli(site.daemon, "admin", "scrub", "start")
    site.daemon.wait_until(lambda: status()["last"]["ended_ms"] > 0, 60, "to have walked through the names")
    site.daemon.wait_until(lambda: all(d["last_ended_ms"] for d in status()["data"]), 60, "to have read the drives' data")
    figures = site.daemon.metrics()
    for name in ("damaged_shards", "missing_shards", "unreadable_objects", "differing_names"):
        assert figures[f"millrace_scrub_{name}"] == 0, name
    assert not any(value for name, value in figures.items() if name.startswith("millrace_drive_scrub_damaged_total"))
    assert f"{len(site.bodies)} objects" in cli(site.daemon, "admin", "scrub", "status")
    site.verify()


@pytest.mark.skipif(not DRIVER.exists(), reason="make fake-rdma builds the transport")
def test_gets_by_rdma():
    """However an object is stored: under each limit those of all limits before."""
    daemon = rdma_daemon(drives=4, ec="2+2")
    objects = {}
    try:
        for limit in ("128KiB", "0", "4KiB"):
            daemon.settings["inline_max"] = limit
            daemon.start()
            user = RawClient(daemon.host, daemon.port, daemon.access_key, daemon.secret_key)
            assert user.request("PUT", f"/{BUCKET}").status in (200, 409)
            for size in SIZES:
                objects[f"{limit}/{size}"] = body(f"{limit}/{size}", size)
                assert user.request("PUT", f"/{BUCKET}/{limit}/{size}", body=objects[f"{limit}/{size}"]).status == 200
            with Session(daemon) as session:
                for key, data in objects.items():
                    answer, memory = session.get(f"/{BUCKET}/{key}", len(data) + 64)
                    assert answer.status == 200 and answer.headers["x-millrace-transport"] == "rdma", (limit, key, answer)
                    assert memory[:len(data)] == data, (limit, key)
                    if len(data) > 2:
                        answer, memory = session.get(f"/{BUCKET}/{key}", len(data) - 2, headers={"range": f"bytes=1-{len(data) - 2}"})
                        assert answer.status == 206 and memory == data[1:-1], (limit, key, answer)
            daemon.stop()
    finally:
        daemon.stop()
        daemon.discard()
        shutil.rmtree(daemon.sockets)


def test_values_that_are_refused():
    for value in ("129KiB", "-1", "many"):
        status, output = run_daemon(["--drive", "/nonexistent", "--inline-max", value])
        assert status != 0 and "--inline-max" in output, (value, output)
