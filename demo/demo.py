#!/usr/bin/env python3
"""`make demo`: a store on four drive folders, from ingest to a killed daemon and a lost drive, with every byte compared.

Exits 0 only if everything that was acknowledged could be read back right.
"""
import argparse
import concurrent.futures
import hashlib
import os
import random
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import boto3  # noqa: E402
import botocore.config  # noqa: E402
import botocore.exceptions  # noqa: E402
from boto3.s3.transfer import TransferConfig  # noqa: E402

from demo.corpus import copy_tree, digest_of, make_shards, real_files  # noqa: E402
from demo.report import Progress, latencies, table  # noqa: E402
from tests.support.daemon import Daemon  # noqa: E402

MIB = 1 << 20
AWS = Path(sys.executable).parent / "aws"
BUCKET = "dataset"
TRANSFER = TransferConfig(multipart_threshold=8 * MIB, multipart_chunksize=8 * MIB, max_concurrency=4)


class Wrong(Exception):
    """The store did not keep its word."""


class Demo:
    def __init__(self, arguments):
        self.arguments = arguments
        self.folder = Path(tempfile.mkdtemp(prefix="millrace-demo-"))
        self.random = random.Random(arguments.seed)
        self.daemon = Daemon(folder=self.folder / "store", drive_paths=[self.folder / f"store/drive{i}" for i in range(1, 5)],
                             ec="2+2", loops=max(1, os.cpu_count() or 1))
        self.facts = {}   # key -> (size, md5) of what was acknowledged
        self.rows = [("phase", "objects", "MiB", "seconds", "MiB/s", "p50 / p99 ms")]
        self.survived = []

    def client(self, attempts=1):
        config = botocore.config.Config(signature_version="s3v4", s3={"addressing_style": "path"}, max_pool_connections=64,
                                        retries={"max_attempts": attempts - 1, "mode": "standard"}, read_timeout=60)
        return boto3.session.Session().client("s3", endpoint_url=self.daemon.endpoint, aws_access_key_id=self.daemon.access_key,
                                              aws_secret_access_key=self.daemon.secret_key, region_name="us-east-1", config=config)

    def row(self, title, objects, size, seconds, times=None):
        self.rows.append((title, f"{objects:,}", f"{size / MIB:,.0f}", f"{seconds:.1f}", f"{size / MIB / max(seconds, 1e-9):,.0f}",
                          latencies(times) if times else ""))

    # ---- phases ---------------------------------------------------------------------------------------------

    def prepare(self):
        print("Preparing: files of this machine, and tar shards made of them")
        with Progress("copying files"):
            files = real_files(self.arguments.files, 400 * MIB)
            self.files = copy_tree(files, self.folder / "files")
        if len(self.files) < 100:
            raise Wrong(f"only {len(self.files)} files found on this machine to store")
        with Progress("packing shards"):
            (self.folder / "shards").mkdir()
            self.shards = make_shards(self.folder / "shards", self.folder / "files", self.arguments.shards, self.arguments.shard_size * MIB)

    def start(self):
        print("Starting a store on four drive folders (2+2)")
        for drive in self.daemon.drives:
            drive.mkdir(parents=True)
        self.daemon.start()
        self.client().create_bucket(Bucket=BUCKET)

    def ingest_files(self):
        total = sum(size for size, _ in self.files.values())
        print(f"Ingesting {len(self.files):,} files ({total / MIB:,.0f} MiB) with aws s3 cp --recursive")
        env = {k: v for k, v in os.environ.items() if not k.startswith("AWS_")}
        env.update(AWS_ACCESS_KEY_ID=self.daemon.access_key, AWS_SECRET_ACCESS_KEY=self.daemon.secret_key, AWS_DEFAULT_REGION="us-east-1",
                   AWS_EC2_METADATA_DISABLED="true", HOME=str(self.folder), AWS_PAGER="")
        started = time.monotonic()
        with Progress("aws s3 cp", len(self.files), "files") as progress:
            process = subprocess.Popen([str(AWS), "--endpoint-url", self.daemon.endpoint, "s3", "cp", "--recursive", "--no-progress",
                                        str(self.folder / "files"), f"s3://{BUCKET}/files/"], env=env, stdout=subprocess.PIPE,
                                       stderr=subprocess.STDOUT, text=True)
            said = []
            for line in process.stdout:
                if line.startswith("upload:"):
                    progress.add()
                else:
                    said.append(line)
            if process.wait() != 0:
                raise Wrong("aws s3 cp failed: " + "".join(said[-5:]))
        self.facts.update({f"files/{name}": fact for name, fact in self.files.items()})
        self.row("aws s3 cp --recursive", len(self.files), total, time.monotonic() - started)

    def ingest_shards(self):
        sizes = [path.stat().st_size for path in self.shards]
        print(f"Ingesting {len(self.shards)} tar shards ({sum(sizes) / MIB:,.0f} MiB) by multipart upload")
        s3 = self.client()
        started = time.monotonic()
        with Progress("multipart", sum(sizes) // MIB, "MiB") as progress:
            rest = 0

            def count(size):
                nonlocal rest
                rest += size
                progress.add(rest // MIB)
                rest %= MIB

            for path in self.shards:
                s3.upload_file(str(path), BUCKET, f"shards/{path.name}", Config=TRANSFER, Callback=count)
        self.row("multipart upload", len(self.shards), sum(sizes), time.monotonic() - started)
        for path, size in zip(self.shards, sizes):
            self.facts[f"shards/{path.name}"] = (size, digest_of(path))

    def check_listing(self):
        s3 = self.client()
        names = []
        for page in s3.get_paginator("list_objects_v2").paginate(Bucket=BUCKET):
            names += [entry["Key"] for entry in page.get("Contents", [])]
        if names != sorted(self.facts, key=lambda k: k.encode()):
            raise Wrong(f"the listing has {len(names)} keys, {len(self.facts)} were stored")

    def read_all(self, title, workers=16):
        """Every object whole, in shuffled order, with many connections; every byte compared by its digest."""
        self.check_listing()
        s3 = self.client()
        keys = list(self.facts)
        self.random.shuffle(keys)
        total = sum(size for size, _ in self.facts.values())
        times = []

        def one(key):
            size, want = self.facts[key]
            begun = time.monotonic()
            body = s3.get_object(Bucket=BUCKET, Key=key)["Body"]
            whole, length = hashlib.md5(), 0
            while block := body.read(MIB):
                whole.update(block)
                length += len(block)
            if size <= 128 * 1024:
                times.append(time.monotonic() - begun)
            if length != size or whole.hexdigest() != want:
                raise Wrong(f"{key}: {length} bytes of {size}, digest {whole.hexdigest()} instead of {want}")
            progress.add()

        started = time.monotonic()
        with Progress(title, len(keys), "objects") as progress, concurrent.futures.ThreadPoolExecutor(workers) as pool:
            for result in concurrent.futures.as_completed([pool.submit(one, key) for key in keys]):
                result.result()
        self.row(title, len(keys), total, time.monotonic() - started, times)

    def read_ranges(self, count=3000, workers=32):
        """Random ranges of the shards, as a training job reads samples; compared with the files they were made from."""
        s3 = self.client()
        times, volume = [], 0
        plan = []
        for _ in range(count):
            path = self.random.choice(self.shards)
            size = path.stat().st_size
            length = min(size, self.random.choice([1000, 10_000, 50_000, 200_000, MIB]))
            plan.append((path, self.random.randrange(size - length + 1), length))
            volume += length

        def one(item):
            path, offset, length = item
            begun = time.monotonic()
            got = s3.get_object(Bucket=BUCKET, Key=f"shards/{path.name}", Range=f"bytes={offset}-{offset + length - 1}")["Body"].read()
            times.append(time.monotonic() - begun)
            with open(path, "rb") as file:
                file.seek(offset)
                if file.read(length) != got:
                    raise Wrong(f"{path.name}: bytes {offset}+{length} are not those that were stored")
            progress.add()

        started = time.monotonic()
        with Progress("ranges of shards", count, "ranges") as progress, concurrent.futures.ThreadPoolExecutor(workers) as pool:
            for result in concurrent.futures.as_completed([pool.submit(one, item) for item in plan]):
                result.result()
        self.row("random ranges, 32 connections", count, volume, time.monotonic() - started, times)

    def kill_in_the_middle(self):
        """SIGKILL while small files and a multipart upload are under way; then all that was acknowledged must be there."""
        print("Killing the daemon (SIGKILL) in the middle of uploads")
        acknowledged, died = {}, threading.Event()
        lock = threading.Lock()
        size, digest = self.facts[f"shards/{self.shards[0].name}"]
        sent = 0  # bytes of the shard that is on its way

        def small(worker):
            s3 = self.client()
            number = 0
            while not died.is_set():
                data = secrets.token_bytes(16) * (1 + (number * 37 + worker) % 4000)
                key = f"killed/{worker}-{number:05}"
                try:
                    s3.put_object(Bucket=BUCKET, Key=key, Body=data)
                except (botocore.exceptions.BotoCoreError, botocore.exceptions.ClientError):
                    break
                with lock:
                    acknowledged[key] = (len(data), hashlib.md5(data).hexdigest())
                number += 1

        def count(more):
            nonlocal sent
            sent += more

        def large():
            nonlocal sent
            number = 0
            while not died.is_set():
                sent, key = 0, f"killed/large-{number}.tar"
                try:
                    self.client().upload_file(str(self.shards[0]), BUCKET, key, Config=TRANSFER, Callback=count)
                except Exception:  # whatever boto3 makes of a dead server: this upload was not acknowledged
                    break
                with lock:
                    acknowledged[key] = (size, digest)
                number += 1

        threads = [threading.Thread(target=small, args=(n,)) for n in range(6)] + [threading.Thread(target=large)]
        for thread in threads:
            thread.start()
        deadline = time.monotonic() + 30
        while (len(acknowledged) < 200 or not size * 0.2 < sent < size * 0.8) and time.monotonic() < deadline:
            time.sleep(0.002)
        self.daemon.kill()
        died.set()
        for thread in threads:
            thread.join()
        if len(acknowledged) < 200:
            raise Wrong(f"only {len(acknowledged)} uploads were acknowledged in 30 s")
        started = time.monotonic()
        self.daemon.restart()
        ready = time.monotonic() - started
        s3 = self.client()
        found = {e["Key"] for page in s3.get_paginator("list_objects_v2").paginate(Bucket=BUCKET, Prefix="killed/") for e in page["Contents"]}
        missing = set(acknowledged) - found
        if missing:
            raise Wrong(f"{len(missing)} acknowledged objects are gone, e.g. {sorted(missing)[:3]}")
        # What was in flight may be there or not; it is not ours to judge, so it goes.
        for key in found - set(acknowledged):
            s3.delete_object(Bucket=BUCKET, Key=key)
        self.facts.update(acknowledged)
        self.survived.append(f"SIGKILL with a multipart upload and six small ones under way: {len(acknowledged):,} uploads acknowledged until "
                             f"then, all there; ready again in {ready:.2f} s")

    def lose_a_drive(self):
        print("Moving one drive folder away from under the running daemon")
        self.daemon.drives[1].rename(self.folder / "drive-moved-away")
        self.daemon.wait_until(lambda: self.daemon.health_json()[1]["drives_in"] == 3, 30, "to notice the missing drive")
        self.read_all("read all, one drive gone")
        s3 = self.client(attempts=8)
        for i in range(20):
            data = secrets.token_bytes(1000 if i % 2 else 700_000)
            s3.put_object(Bucket=BUCKET, Key=f"after/{i}", Body=data)
            self.facts[f"after/{i}"] = (len(data), hashlib.md5(data).hexdigest())
            if s3.get_object(Bucket=BUCKET, Key=f"after/{i}")["Body"].read() != data:
                raise Wrong(f"after/{i}: not what was just written")
        self.survived.append("one drive folder of four moved away: everything read, new objects written")

    def end(self):
        status = self.daemon.terminate()
        if status != 0:
            raise Wrong(f"the daemon ended with status {status}")

    def run(self):
        self.prepare()
        self.start()
        self.ingest_files()
        self.ingest_shards()
        print("Reading everything back: shuffled, with many connections, every byte compared")
        self.read_all("read all, 16 connections")
        self.read_ranges()
        self.kill_in_the_middle()
        self.read_all("read all after SIGKILL")
        self.lose_a_drive()
        self.end()
        total = sum(size for size, _ in self.facts.values())
        print(f"\n{len(self.facts):,} objects, {total / MIB:,.0f} MiB, at the end; every phase of reading compared all there were, byte by byte\n")
        table(self.rows)
        print("  (p50 / p99: whole requests for objects up to 128 KiB, and the ranges, as boto3 saw them)\n")
        for line in self.survived:
            print(f"  survived  {line}")

    def clean(self):
        self.daemon.kill()
        shutil.rmtree(self.folder, ignore_errors=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=4000, help="files of the machine to store (default %(default)s)")
    parser.add_argument("--shards", type=int, default=4, help="tar shards (default %(default)s)")
    parser.add_argument("--shard-size", type=int, default=100, help="MiB of each, at least (default %(default)s)")
    parser.add_argument("--seed", type=int, default=secrets.randbelow(1 << 32))
    arguments = parser.parse_args()
    print(f"millrace demo, seed {arguments.seed}")
    demo = Demo(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    started = time.monotonic()
    try:
        demo.run()
    except KeyboardInterrupt:
        print("\ninterrupted")
        return 130
    except Exception as error:
        print(f"\nFAILED: {type(error).__name__}: {error}\n---- the daemon's log ----\n{demo.daemon.tail()}")
        return 1
    finally:
        demo.clean()
    print(f"\nAll of it was right, in {time.monotonic() - started:.0f} s.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
