"""A mixed load whose every acknowledgement is remembered, so that after a crash each object can be judged by its content.

Each worker owns keys of its own, so that it knows what the last acknowledged state of each is. At a kill at most one operation of
a worker is in flight: its key may then be in the old state or the new one, but must be the same in every read from then on.

A change that was answered 503 has an outcome that nobody knows: it may show itself at any time until a restart has settled it.
"""
import hashlib
import os
import random
import threading

import botocore.exceptions
import urllib3.exceptions

KIB, MIB = 1 << 10, 1 << 20
ABSENT = None
SIZES = [0, 1, 100, 4 * KIB, 30 * KIB, 128 * KIB, 128 * KIB + 1, 300 * KIB, MIB + 7, 2 * MIB + 4096, 3 * MIB]
WEIGHTS = [1, 3, 12, 12, 8, 3, 3, 5, 3, 2, 2]
# What a client sees of a server that dies: no answer. An answer with an error says that the operation did not happen.
NO_ANSWER = (botocore.exceptions.BotoCoreError, urllib3.exceptions.HTTPError, ConnectionError)


class Mismatch(AssertionError):
    """Something acknowledged is not there, or something never written is."""


def digest(data):
    return hashlib.md5(data).hexdigest()


class Worker:
    """Runs operations on its own keys until told to stop or until the server dies."""

    def __init__(self, number, seed, bucket):
        self.number = number
        self.random = random.Random(f"{seed}/{number}")
        self.bucket = bucket
        self.state = {}       # key -> digest of what was acknowledged last, or ABSENT
        self.doubt = {}       # key -> digests it may have, after an operation without an answer
        self.late = {}        # key -> what changes answered 503 may still make of it
        self.settled = {}     # key -> what it might have been, where the last settling decided
        self.uploads = []     # ids of multipart uploads whose Complete was not acknowledged
        self.counts = {}
        self.block = os.urandom(6 * MIB)

    def body(self, size):
        start = self.random.randrange(0, len(self.block) - size + 1) if size < len(self.block) else 0
        stamp = self.random.randbytes(min(size, 16))
        return stamp + self.block[start + len(stamp):start + size]

    def key(self):
        return f"w{self.number}/{'d/' * self.random.randrange(3)}k{self.random.randrange(25)}"

    def run(self, s3, stop, failures):
        try:
            while not stop.is_set():
                self.step(s3)
        except NO_ANSWER:
            pass
        except Exception as error:  # must reach the test, which runs in another thread
            failures.append(f"worker {self.number}: {error!r}")

    def step(self, s3):
        key = self.key()
        operation = self.random.choices([self.put, self.delete, self.multipart, self.read, self.copy], [60, 12, 8, 15, 5])[0]
        self.counts[operation.__name__] = self.counts.get(operation.__name__, 0) + 1
        operation(s3, key)

    def intend(self, key, new):
        self.doubt[key] = {self.state.get(key, ABSENT), new}

    def acknowledge(self, key, new):
        self.state[key] = new
        self.doubt.pop(key, None)
        self.late.pop(key, None)
        self.settled.pop(key, None)

    def change(self, key, new, call):
        """Runs a change. An answer of refusal leaves the key as it was; no answer leaves it in doubt."""
        self.intend(key, new)
        try:
            call()
        except botocore.exceptions.ClientError as error:
            status = error.response["ResponseMetadata"]["HTTPStatusCode"]
            if status != 503:
                raise
            self.doubt.pop(key)
            self.late.setdefault(key, set()).add(new)
            return False
        self.acknowledge(key, new)
        return True

    def put(self, s3, key):
        data = self.body(self.random.choices(SIZES, WEIGHTS)[0])
        self.change(key, digest(data), lambda: s3.put_object(Bucket=self.bucket, Key=key, Body=data))

    def delete(self, s3, key):
        self.change(key, ABSENT, lambda: s3.delete_object(Bucket=self.bucket, Key=key))

    def copy(self, s3, key):
        source = self.key()
        if source == key or self.state.get(source, ABSENT) is ABSENT or source in self.late:
            return
        self.change(key, self.state[source],
                    lambda: s3.copy_object(Bucket=self.bucket, Key=key, CopySource={"Bucket": self.bucket, "Key": source}))

    def multipart(self, s3, key):
        parts = [self.body(5 * MIB) for _ in range(self.random.randrange(2))]
        parts.append(self.body(self.random.choice([1, 5000, 200 * KIB])))
        complete = send_parts(s3, self.bucket, key, parts, begun=lambda upload: self.uploads.append((key, upload)))
        if complete and self.change(key, digest(b"".join(parts)), lambda: s3.complete_multipart_upload(**complete)):
            self.uploads.remove((key, complete["UploadId"]))

    def read(self, s3, key):
        try:
            found = fetch(s3, self.bucket, key)
        except botocore.exceptions.ClientError as error:
            if error.response["ResponseMetadata"]["HTTPStatusCode"] != 503:
                raise
            return
        if found not in self.possible(key):
            raise Mismatch(f"{key}: reads {found}, may be {self.possible(key)}")

    def possible(self, key):
        return {self.state.get(key, ABSENT)} | self.late.get(key, set())

    def settle(self, s3):
        """After a restart: what was in doubt must be in one of its states; that one is the truth from now on."""
        for key in {*self.doubt, *self.late}:
            possible = self.doubt.get(key, set()) | self.possible(key)
            found = fetch(s3, self.bucket, key)
            if found not in possible:
                raise Mismatch(f"{key}: is {found}, may be {possible}")
            self.acknowledge(key, found)
            self.late.pop(key, None)
            self.settled[key] = possible

    def present(self):
        return {key: content for key, content in self.state.items() if content is not ABSENT}


def send_parts(s3, bucket, key, parts, begun=lambda upload: None):
    """Begins an upload, which begun() is told of, and sends its parts: what completes it; None: the store is not ready for it."""
    try:
        upload = s3.create_multipart_upload(Bucket=bucket, Key=key)["UploadId"]
        begun(upload)
        done = [{"PartNumber": n, "ETag": s3.upload_part(Bucket=bucket, Key=key, UploadId=upload, PartNumber=n, Body=part)["ETag"]}
                for n, part in enumerate(parts, 1)]
    except botocore.exceptions.ClientError as error:
        if error.response["ResponseMetadata"]["HTTPStatusCode"] != 503:
            raise
        return None
    return {"Bucket": bucket, "Key": key, "UploadId": upload, "MultipartUpload": {"Parts": done}}


def fetch(s3, bucket, key):
    """Digest of an object as it is read now, or ABSENT."""
    try:
        return digest(s3.get_object(Bucket=bucket, Key=key)["Body"].read())
    except botocore.exceptions.ClientError as error:
        if error.response["Error"]["Code"] == "NoSuchKey":
            return ABSENT
        raise


def again(s3, bucket, key):
    """What a key that was read wrong says of itself, and whether it says the same each time."""
    found = {fetch(s3, bucket, key) for _ in range(20)}
    try:
        head = s3.head_object(Bucket=bucket, Key=key)
        of_head = f"head: etag {head['ETag']}, {head['ContentLength']} bytes, {head['LastModified'].isoformat()}"
    except botocore.exceptions.ClientError as error:
        of_head = f"head: {error.response['Error']['Code']}"
    return f"read 20 times more: {found}; {of_head}"


def listed(s3, bucket):
    sizes = {}
    for page in s3.get_paginator("list_objects_v2").paginate(Bucket=bucket):
        for entry in page.get("Contents", []):
            sizes[entry["Key"]] = entry["ETag"]
    return sizes


class History:
    """Workers, and the checks of everything they know."""

    def __init__(self, seed, bucket, workers=6, others=()):
        """others: workers of another kind, which settle and check what they know by themselves (versions.py)."""
        self.random = random.Random(seed)
        self.bucket = bucket
        self.workers = [Worker(n, seed, bucket) for n in range(workers)]
        self.others = list(others)

    def load(self, make_client, seconds, end):
        """Runs the workers for some seconds, then calls end() (which may kill the server) and waits for them."""
        stop, failures = threading.Event(), []
        threads = [threading.Thread(target=w.run, args=(make_client(), stop, failures)) for w in [*self.workers, *self.others]]
        for thread in threads:
            thread.start()
        stop.wait(seconds)
        end()
        stop.set()
        for thread in threads:
            thread.join(120)
            if thread.is_alive():
                failures.append("a request was never answered")
        if failures:
            raise Mismatch("; ".join(failures))

    def check(self, s3, twice=True, restarted=True):
        """Every key by content, and the listing against what is there."""
        if restarted:
            for worker in [*self.workers, *self.others]:
                worker.settle(s3)
        for worker in self.others:
            worker.check(s3)
        everything = {key: content for worker in self.workers for key, content in worker.present().items()}
        unsure = {key for worker in self.workers for key in worker.late}
        for _ in range(2 if twice else 1):
            for worker in self.workers:
                for key in {*worker.state, *worker.late}:
                    found = fetch(s3, self.bucket, key)
                    if found not in worker.possible(key):
                        raise Mismatch(f"{key}: is {found}, may be {worker.possible(key)}; {again(s3, self.bucket, key)}"
                                       + (f"; settled when it might have been any of {worker.settled[key]}" if key in worker.settled else ""))
            names = set(listed(s3, self.bucket)) - unsure
            if names != set(everything) - unsure:
                raise Mismatch(f"listing: too many {sorted(names - set(everything))}, missing {sorted(set(everything) - unsure - names)}")
        return len(everything)

    def operations(self):
        total = {}
        for worker in [*self.workers, *self.others]:
            for name, count in worker.counts.items():
                total[name] = total.get(name, 0) + count
        return total
