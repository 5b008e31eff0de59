"""The load that the cuts are put into, and what must be true of it after a cut at any moment.

Each change is noted with the number of the file system's log before it was sent and after its answer came. At a cut between the two it may be
there or not; after it, it must be there; before, it cannot be. Keys belong to one worker each, so at most one change of a
key is under way, and what was answered with an error or not at all may show itself until the next change of that key is answered.
"""
import hashlib
import random
import threading

from tests.support.s3raw import ConnectionClosed, RawClient

KIB, MIB = 1 << 10, 1 << 20
ABSENT = None
BUCKET = "power"
# Many that fill log files, few that fill segments: both are to be rolled with as few bytes as can be.
SIZES = [0, 1, 700, 4 * KIB, 20 * KIB, 90 * KIB, 120 * KIB, 128 * KIB, 128 * KIB + 1, 300 * KIB, MIB + 7]
WEIGHTS = [1, 2, 8, 6, 5, 8, 8, 3, 2, 3, 1]


def digest(data):
    return hashlib.md5(data).hexdigest()


class Refused(Exception):
    def __init__(self, answer):
        super().__init__(repr(answer))
        self.status, self.code = answer.status, answer.code


NO_ANSWER = (ConnectionClosed, OSError)


class Client:
    """S3 requests on one connection at a time."""

    def __init__(self, host, port, keys):
        self.raw = RawClient(host, port, *keys)
        self.connection = None

    def close(self):
        if self.connection is not None:
            self.connection.close()
            self.connection = None

    def call(self, method, path, query=(), body=b"", **how):
        if self.connection is None:
            self.connection = self.raw.connect(60)
        try:
            answer = self.raw.request(method, path, self.connection, query=query, body=body, payload="UNSIGNED-PAYLOAD", **how)
        except BaseException:
            self.close()
            raise
        if answer.headers.get("connection", "").lower() == "close":
            self.close()
        if answer.status >= 300:
            raise Refused(answer)
        return answer

    def put(self, key, body):
        return self.call("PUT", f"/{BUCKET}/{key}", body=body).headers["etag"]

    def delete(self, key):
        self.call("DELETE", f"/{BUCKET}/{key}")

    def get(self, key):
        """Digest of what is there, or ABSENT."""
        try:
            return digest(self.call("GET", f"/{BUCKET}/{key}").body)
        except Refused as refused:
            if refused.code == "NoSuchKey":
                return ABSENT
            raise

    def listed(self):
        root = self.call("GET", f"/{BUCKET}", [("list-type", "2"), ("max-keys", "1000")]).xml
        assert root.findtext("IsTruncated") == "false"
        return {entry.findtext("Key") for entry in root.iter("Contents")}

    def bucket(self, name):
        try:
            self.call("HEAD", f"/{name}")
        except Refused as refused:
            if refused.status == 404:
                return ABSENT
            raise
        return "bucket"

    def start_upload(self, key):
        return self.call("POST", f"/{BUCKET}/{key}", [("uploads", "")]).xml.findtext("UploadId")

    def put_part(self, key, upload, number, body):
        return self.call("PUT", f"/{BUCKET}/{key}", [("partNumber", str(number)), ("uploadId", upload)], body).headers["etag"]

    def parts(self, key, upload):
        """{number: etag}, or ABSENT."""
        try:
            root = self.call("GET", f"/{BUCKET}/{key}", [("uploadId", upload)]).xml
        except Refused as refused:
            if refused.code == "NoSuchUpload":
                return ABSENT
            raise
        return {int(part.findtext("PartNumber")): part.findtext("ETag") for part in root.iter("Part")}

    def complete(self, key, upload, etags):
        body = "".join(f"<Part><PartNumber>{n}</PartNumber><ETag>{etag}</ETag></Part>" for n, etag in sorted(etags.items()))
        body = f"<CompleteMultipartUpload>{body}</CompleteMultipartUpload>".encode()
        answer = self.call("POST", f"/{BUCKET}/{key}", [("uploadId", upload)], body)
        if answer.xml.tag == "Error":
            raise Refused(answer)

    def abort(self, key, upload):
        self.call("DELETE", f"/{BUCKET}/{key}", [("uploadId", upload)])


class Thing:
    """A key, a bucket, a part or an upload: what was done to it, in order, as (before, after or None, what it became)."""

    def __init__(self):
        self.changes = []

    def possible(self, cut):
        states = {ABSENT}
        for before, after, state in self.changes:
            if before > cut:
                break
            if after is not None and after <= cut:
                states = {state}
            else:
                states.add(state)
        return states

    def begun(self, cut):
        return bool(self.changes) and self.changes[0][0] <= cut


class Upload(Thing):
    def __init__(self, key):
        super().__init__()
        self.key, self.id, self.parts, self.bodies = key, None, {}, {}


class Record:
    """All that is known of a history. Threads: each thing belongs to one worker; the dictionaries only grow."""

    def __init__(self, now):
        self.now = now
        self.keys, self.buckets, self.uploads = {}, {}, []
        self.ready = None
        self.phases = []
        self.refused = 0

    def __getstate__(self):
        return {**self.__dict__, "now": None}

    def things(self):
        yield from self.keys.values()
        yield from self.buckets.values()
        for upload in self.uploads:
            yield upload
            yield from upload.parts.values()

    def phase(self, name):
        self.phases.append((self.now(), name))

    def phase_at(self, cut):
        return next((name for at, name in reversed(self.phases) if at <= cut), "before")

    def change(self, thing, state, call):
        """Makes a change; what call() returned, or None if it was not answered with success."""
        before = self.now()
        try:
            result = call()
        except Refused as refused:
            if refused.status < 500:
                raise
            self.refused += 1
            thing.changes.append((before, None, state))
            return None
        except NO_ANSWER:
            thing.changes.append((before, None, state))
            raise
        thing.changes.append((before, self.now(), state))
        return result if result is not None else True


class Worker:
    """Operations on keys of its own."""

    def __init__(self, number, seed, record, keys=12):
        self.number, self.record, self.count = number, record, keys
        self.random = random.Random(f"{seed}/{number}")
        self.block = self.random.randbytes(3 * MIB)
        self.step_number = 0

    def body(self, size):
        start = self.random.randrange(0, len(self.block) - size + 1)
        stamp = f"{self.number}/{self.step_number}/".encode()[:size]
        return stamp + self.block[start + len(stamp):start + size]

    def key(self):
        return f"w{self.number}/{'d/' * self.random.randrange(2)}k{self.random.randrange(self.count)}"

    def thing(self, key):
        return self.record.keys.setdefault(key, Thing())

    def step(self, client, only=None):
        """One operation: of the usual mixture, or the one named."""
        self.step_number += 1
        mixture = [self.put, self.delete, self.multipart, self.bucket]
        operation = getattr(self, only) if only else self.random.choices(mixture, [60, 15, 10, 3])[0]
        operation(client)

    def put(self, client, key=None, size=None):
        key = key or self.key()
        data = self.body(self.random.choices(SIZES, WEIGHTS)[0] if size is None else size)
        self.record.change(self.thing(key), digest(data), lambda: client.put(key, data))

    def delete(self, client, key=None):
        key = key or self.key()
        self.record.change(self.thing(key), ABSENT, lambda: client.delete(key))

    def flood(self, client):
        """Overwrites a few keys often: log files in which soon nothing lives."""
        self.put(client, f"w{self.number}/flood{self.random.randrange(4)}", 120 * KIB)

    def heap(self, client):
        self.put(client, f"w{self.number}/heap{self.step_number}", MIB + 7)

    def clear(self, client):
        for key in sorted(key for key in self.record.keys if key.startswith(f"w{self.number}/")):
            self.delete(client, key)

    def bucket(self, client):
        name = f"extra-{self.number}-{self.random.randrange(2)}"
        thing = self.record.buckets.setdefault(name, Thing())
        there = thing.possible(1 << 60)
        if there == {ABSENT}:
            self.record.change(thing, "bucket", lambda: client.call("PUT", f"/{name}"))
        elif there == {"bucket"}:
            self.record.change(thing, ABSENT, lambda: client.call("DELETE", f"/{name}"))

    def multipart(self, client):
        key, end = self.key(), self.random.choice(["complete", "complete", "abort", "leave"])
        upload = Upload(key)
        upload.id = self.record.change(upload, "open", lambda: client.start_upload(key))
        if upload.id is None:
            return
        self.record.uploads.append(upload)
        sizes = [self.random.choice([5000, 200 * KIB, 600 * KIB + 3])]
        if self.random.random() < 0.1:
            sizes.insert(0, 5 * MIB)
        etags = {}
        for number, size in enumerate(sizes, 1):
            upload.bodies[number] = (self.block * 2)[self.random.randrange(MIB):][:size]
            etag = f'"{digest(upload.bodies[number])}"'
            part = upload.parts.setdefault(number, Thing())
            if self.record.change(part, etag, lambda n=number: client.put_part(key, upload.id, n, upload.bodies[n])) is None:
                return
            etags[number] = etag
        if end == "abort":
            self.record.change(upload, ABSENT, lambda: client.abort(key, upload.id))
        elif end == "complete":
            whole = digest(b"".join(upload.bodies[n] for n in sorted(etags)))
            both = Both(self.thing(key), whole, upload, ABSENT)
            try:
                self.record.change(both, None, lambda: client.complete(key, upload.id, etags))
            finally:
                both.hand_on()


class Both(Thing):
    """One change of two things."""

    def __init__(self, first, first_state, second, second_state):
        super().__init__()
        self.targets = [(first, first_state), (second, second_state)]

    def hand_on(self):
        for thing, state in self.targets:
            thing.changes += [(before, after, state) for before, after, _ in self.changes]
        self.changes = []


def run_workers(workers, make_client, steps, stop=None, **how):
    """Each worker takes so many steps; connections that end early are the end of that worker's part, if stop is given."""
    failures = []

    def work(worker):
        client = make_client()
        try:
            for _ in range(steps):
                worker.step(client, **how)
        except NO_ANSWER as error:
            if stop is None or not stop.is_set():
                failures.append(f"worker {worker.number}: {error!r}")
        except Exception as error:  # must reach the test, which runs in another thread
            failures.append(f"worker {worker.number}: {error!r}")
        finally:
            client.close()

    threads = [threading.Thread(target=work, args=(worker,)) for worker in workers]
    for thread in threads:
        thread.start()
    return threads, failures
