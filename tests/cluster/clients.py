"""Clients of a cluster that contend for a few keys, and remember what each operation was answered and when.

Every value is written once, so a read tells which write it shows: by the MD5 of its bytes, which is its ETag, too. Besides, each
client writes keys that nobody writes again: those must all be there at the end.
"""
import collections
import hashlib
import random
import secrets
import threading
import time

from tests.cluster.nodes import S3_PORT
from tests.support.daemon import REGION
from tests.support.s3raw import ConnectionClosed, RawClient

BUCKET = "contended"
KEYS = [f"k{number}" for number in range(8)]
SIZES, SIZE_WEIGHTS = [100, 60 << 10, 1 << 20], [60, 34, 6]
KINDS, KIND_WEIGHTS = ["get", "head", "put", "put if absent", "put if same", "delete", "put once"], [36, 5, 36, 7, 6, 4, 6]
CONNECT_SECONDS = 2
PATIENCES = [3, 5, 15]   # seconds before an answer is given up, of a third of the clients each: some wait until a paused leader goes on
PAUSE = 0.03             # on average, after an operation
UNLED_PAUSE = 0.15       # on average, where nobody leads
STRAY_SHARE = 0.03       # of all operations, those that go to some node, whoever leads
ERRORS_KEPT = 20
NOT_LED = ("leads the pool", "No node leads the pool", "is about to lead the pool", "has not joined its cluster")


class NoAnswer(Exception):
    """sent: the server may have got it."""

    def __init__(self, sent, why):
        super().__init__(why)
        self.sent = sent


class Load:
    """What the clients of a run share. Members that several threads change are changed in one step each."""

    def __init__(self, hosts, access_key, secret_key, seed):
        self.hosts, self.access_key, self.secret_key, self.seed = list(hosts), access_key, secret_key, seed
        self.stopping = threading.Event()
        self.values = {}   # ETag -> id of the value, from before it is sent
        self.last = {}     # key -> id of a value that somebody has seen there
        self.etags = {}    # id of the value -> ETag
        self.block = secrets.token_bytes(SIZES[-1])
        self.clients = []

    def value(self, name, size):
        """Bytes that no other value has."""
        body = (name + "\n").encode() + self.block
        body = body[:size]
        etag = hashlib.md5(body).hexdigest()
        self.etags[name] = etag
        self.values[etag] = name
        return body

    def start(self, count):
        self.clients = [Client(self, number) for number in range(count)]
        for client in self.clients:
            client.start()

    def stop(self):
        self.stopping.set()
        for client in self.clients:
            if client.is_alive():
                client.join(PATIENCES[-1] * 4)
        stuck = [client.number for client in self.clients if client.is_alive()]
        assert not stuck, f"clients whose request neither ended nor ran out of time: {stuck}"

    def history(self):
        return [operation for client in self.clients for operation in client.operations]

    def acknowledged(self):
        """When changes were acknowledged, seconds of time.monotonic(), in order."""
        return sorted(operation["return"] / 1e9 for operation in self.history() if operation["outcome"] == "ok" and operation["kind"] in ("put", "delete"))

    def errors(self):
        return [error for client in self.clients for error in client.errors]


class Client(threading.Thread):
    """owner of all members: its thread, until it has ended"""

    def __init__(self, load, number):
        super().__init__(daemon=True, name=f"client {number}")
        self.load, self.number = load, number
        self.random = random.Random(f"{load.seed}/client {number}")
        self.host = self.random.choice(load.hosts)
        self.connection = None
        self.operations = []
        self.kept = {}     # key that only this client writes, once -> ETag; acknowledged
        self.perhaps = {}  # the same, of unknown outcome
        self.statuses = collections.Counter()
        self.errors = []
        self.count = 0

    def run(self):
        try:
            while not self.load.stopping.is_set():
                if self.random.random() < STRAY_SHARE:
                    self.go_to(self.random.choice(self.load.hosts))
                self.step()
                self.load.stopping.wait(self.random.expovariate(1 / PAUSE))
        except Exception as error:  # must reach the test, which runs in another thread
            self.error(repr(error))
        finally:
            self.disconnect()

    def error(self, text):
        if len(self.errors) < ERRORS_KEPT:
            self.errors.append(f"client {self.number}: {text}")

    # ---- operations -----------------------------------------------------------------------------------------

    def step(self):
        kind = self.random.choices(KINDS, KIND_WEIGHTS)[0]
        key = self.random.choice(KEYS)
        if kind in ("get", "head"):
            self.read(kind, key)
        elif kind == "delete":
            self.change(key, "DELETE", dict(kind="delete", value=""))
        elif kind == "put once":
            self.put(f"once/{self.number}/{self.count}")
        elif kind == "put if absent":
            self.put(key, {"if-none-match": "*"}, if_none_match=True)
        elif kind == "put if same" and self.load.last.get(key):
            same = self.load.last[key]
            self.put(key, {"if-match": f'"{self.load.etags[same]}"'}, if_match=same)
        else:
            self.put(key)

    def put(self, key, headers=None, **condition):
        self.count += 1
        name = f"c{self.number}-{self.count}"
        body = self.load.value(name, self.random.choices(SIZES, SIZE_WEIGHTS)[0])
        outcome = self.change(key, "PUT", dict(kind="put", value=name, **condition), headers, body)
        if key.startswith("once/") and outcome in ("ok", "unknown"):
            (self.kept if outcome == "ok" else self.perhaps)[key] = self.load.etags[name]

    def change(self, key, method, operation, headers=None, body=b""):
        call = time.monotonic_ns()
        try:
            answer = self.request(method, key, headers, body)
        except NoAnswer as failure:
            outcome = "unknown" if failure.sent else "failed"
        else:
            outcome = self.outcome_of(answer, key, operation)
        self.operations.append(dict(client=self.number, key=key, call=call, outcome=outcome, **{"return": time.monotonic_ns()}, **operation))
        if outcome == "ok" and operation["value"]:
            self.load.last[key] = operation["value"]
            etag = answer.headers.get("etag", "").strip('"')
            if etag != self.load.etags[operation["value"]]:
                self.error(f"the ETag of a put is {etag}, not the MD5 of its bytes: {answer}")
        return outcome

    def outcome_of(self, answer, key, operation):
        conditional = "if_none_match" in operation or "if_match" in operation
        if answer.status in (200, 204):
            return "ok"
        if answer.status == 412 and conditional or answer.code == "NoSuchKey" and "if_match" in operation:
            return "refused"
        if answer.status == 409 and conditional:
            return "failed"
        if answer.status == 507:  # nothing of it is stored, and nothing will be
            self.load.stopping.wait(self.random.expovariate(1 / UNLED_PAUSE))
            return "failed"
        if answer.status >= 500:
            return "failed" if self.not_led(answer) else "unknown"
        self.error(f"{operation} of {key}: {answer}")
        return "unknown"

    def read(self, kind, key):
        call = time.monotonic_ns()
        try:
            answer = self.request(kind.upper(), key)
        except NoAnswer:
            return None
        value = self.value_of(answer, kind, key)
        if value is not None:
            self.operations.append(dict(client=self.number, key=key, kind=kind, value=value, call=call, outcome="ok", **{"return": time.monotonic_ns()}))
            self.load.last[key] = value
        return value

    def value_of(self, answer, kind, key):
        """Id of the value that an answer shows, "" for no object, None where it shows nothing."""
        if answer.status == 404 and (kind == "head" or answer.code == "NoSuchKey"):
            return ""
        if answer.status == 200:
            etag = answer.headers.get("etag", "").strip('"')
            if kind == "get" and hashlib.md5(answer.body).hexdigest() != etag:
                self.error(f"{key}: the bytes read ({len(answer.body)}) are not those of the ETag {etag}, value {self.load.values.get(etag)}; first {answer.body[:60]}")
            elif etag not in self.load.values:
                self.error(f"{key}: what is read was never written: {answer}")
            else:
                return self.load.values[etag]
        elif answer.status < 500:
            self.error(f"{kind} of {key}: {answer}")
        return None

    # ---- requests -------------------------------------------------------------------------------------------

    def request(self, method, key, headers=None, body=b"", query=()):
        """One try at the node that this client thinks leads; its answer says where to go next."""
        raw = RawClient(self.host, S3_PORT, self.load.access_key, self.load.secret_key, REGION)
        head, body = raw.build(method, f"/{BUCKET}/{key}" if key else f"/{BUCKET}", query=query, headers=headers, body=body)
        if self.connection is None:
            try:
                self.connection = raw.connect(CONNECT_SECONDS)
            except OSError as error:
                self.statuses["not connected"] += 1
                self.go_elsewhere()
                raise NoAnswer(False, str(error)) from error
            self.connection.socket.settimeout(PATIENCES[self.number % len(PATIENCES)])
        try:
            try:
                self.connection.send(head + body)
            except (BrokenPipeError, ConnectionResetError):
                pass  # refused early: the answer may be there
            answer = self.connection.answer(method)
        except (OSError, ConnectionClosed) as error:
            self.statuses["no answer"] += 1
            self.go_elsewhere()
            raise NoAnswer(True, repr(error)) from error
        self.statuses[self.status_of(answer)] += 1
        if answer.headers.get("connection", "").lower() == "close":
            self.disconnect()
        if self.not_led(answer):
            leader = answer.headers.get("x-millrace-leader", "").rpartition(":")[0]
            if leader and leader != self.host:
                self.go_to(leader)
            else:
                self.go_elsewhere()
        return answer

    def status_of(self, answer):
        if self.not_led(answer):
            return f"{answer.status} not led"
        if answer.status < 500:
            return str(answer.status)
        return f"{answer.status} {answer.xml.findtext('Message') if answer.body else 'without a body'}"

    @staticmethod
    def not_led(answer):
        """Whether it is a node's word that another one leads, or nobody: then nothing was done. A leader's own 503 says less."""
        return answer.status == 503 and ("x-millrace-leader" in answer.headers or any(text.encode() in answer.body for text in NOT_LED))

    def go_to(self, host):
        if host != self.host:
            self.disconnect()
        self.host = host

    def go_elsewhere(self):
        self.disconnect()
        self.host = self.random.choice(self.load.hosts)
        self.load.stopping.wait(self.random.expovariate(1 / UNLED_PAUSE))

    def disconnect(self):
        if self.connection is not None:
            self.connection.close()
        self.connection = None


class Reader(Client):
    """Asks again until it is answered. Not a thread: the caller's."""

    def until_answered(self, ask, seconds):
        until = time.monotonic() + seconds
        last = None
        while time.monotonic() < until:
            try:
                last = ask()
            except NoAnswer as failure:
                last = failure
            else:
                if last is not None and getattr(last, "status", 200) < 500:
                    return last
            time.sleep(0.05)
        raise AssertionError(f"not answered in {seconds} s: {last}")

    def make_bucket(self, seconds):
        answer = self.until_answered(lambda: self.request("PUT", ""), seconds)
        assert answer.status == 200 or answer.code == "BucketAlreadyOwnedByYou", answer

    def final(self, key, seconds):
        """The value that a key has now; the read is part of the history."""
        return self.until_answered(lambda: self.read("get", key), seconds)

    def listing(self, seconds):
        """{key: ETag} of all objects, page by page."""
        found, token = {}, None
        for _ in range(10000):
            query = [("list-type", "2"), ("max-keys", "300")] + ([("continuation-token", token)] if token else [])
            answer = self.until_answered(lambda: self.request("GET", "", query=query), seconds)  # pylint: disable=cell-var-from-loop
            assert answer.status == 200, answer
            for entry in answer.xml.findall("Contents"):
                assert entry.findtext("Key") not in found, f"listed twice: {entry.findtext('Key')}"
                found[entry.findtext("Key")] = entry.findtext("ETag").strip('"')
            token = answer.xml.findtext("NextContinuationToken")
            if not token:
                return found
        raise AssertionError("a listing without an end")
