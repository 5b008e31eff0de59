"""The client's side of a session: opening, connecting, windows, GET, PUT, batches, the end.

Whatever is delivered is checked by its CRC32C here, and nothing outside of it may have changed. Tests bend what is sent by the arguments of open(),
private() and get().
"""
import base64
import dataclasses
import hmac
import json
import secrets
import struct
import time

from . import messages, verbs
from .messages import Broken, need
from .signer import UNSIGNED, mac, signing_key
from .verbs import LOCAL_WRITE, REMOTE_READ, REMOTE_WRITE, Domain, Link, Memory, Region, Window, crc32c

PATH = "/_millrace/rdma/v1/sessions"
BATCH_PATH, BATCH_TYPE = "/_millrace/v1/batch", "application/x-millrace-batch"
SCHEMES = ("window2", "window1", "region")
PATIENCE = 60  # seconds for what must come
UNTOUCHED = 0xA5  # what memory holds before it is given to anybody


class Ended(Exception):
    """The session is at its end: an error of a queue pair, or the server disconnected."""


class Refused(Exception):
    """The server did not open the session, or did not take a connection; the first argument is the answer, or the reason's number."""


@dataclasses.dataclass
class Got:
    """What a GET brought. `data` are the verified bytes; None where the answer is an error."""
    answer: object
    data: bytes = None
    transport: str = None
    unread: bool = False  # an error after which the session has to be fenced

    @property
    def status(self):
        return self.answer.status


class Grant:
    """The right to a part of some memory, by the session's scheme, for one request."""

    def __init__(self, session, memory, at=0, length=None, access=REMOTE_WRITE):
        self.session, self.memory, self.at, self.access = session, memory, at, access
        self.length = memory.size - at if length is None else length
        self.taken_back = False
        self.window = None
        link = session.control
        kind = {"window2": 2, "window1": 1, "region": 0}[session.rights]
        self.region = Region(session.domain, memory, LOCAL_WRITE | (verbs.BIND if kind else access))
        self.rkey = self.region.rkey
        session.grants.add(self)
        if kind:
            self.window = Window(session.domain, kind)
            done, self.rkey = self.window.bind(link, self.region, at, max(self.length, 1), access)  # no type 2 window has a length of 0
            session.wait_done(link, done)

    @property
    def address(self):
        return self.memory.address + self.at

    def text(self):
        return f"{self.address:016x}:{self.rkey:08x}:{self.length:016x}"

    def take_back(self):
        """Ends the right from this side. A region's ends with the queue pairs only: it stays given."""
        if self.taken_back:
            return
        self.taken_back = True
        session, link = self.session, self.session.control
        if self.window is not None and self.window.kind == 2:
            session.wait_done(link, self.window.invalidate(link, self.rkey))
        elif self.window is not None:
            session.wait_done(link, self.window.bind(link, self.region, self.at, 0, 0)[0])

    def free(self):
        self.session.grants.discard(self)
        if self.window is not None:
            self.window.free()
            self.window = None
        if self.region is not None:
            self.region.free()
            self.region = None


class Session:
    def __init__(self, user, rights=SCHEMES, queue_pairs=1, receives=32, connect=True, depth=(16, 16), **changes):
        """user: a Signer. depth: READs that are offered, here and at the server. `changes` replace fields of the opening request."""
        self.user, self.receives, self.depth = user, receives, depth
        self.links, self.grants, self.domain = {}, set(), None
        self.number = 0
        self.notices, self.results = {}, {}
        self.done, self.over = {}, False
        self.asked = {"versions": [1], "client_nonce": secrets.token_hex(16), "queue_pairs": queue_pairs, "rights": list(rights), "receives": receives,
                      **changes}
        answer = user.request("POST", PATH, json.dumps(self.asked).encode(), headers={"content-type": "application/json"})
        if answer.status != 200:
            raise Refused(answer)
        self.open(answer)
        if connect:
            try:
                self.connect()
            except BaseException:
                self.free()
                raise

    # ---- opening ----------------------------------------------------------------------------------------------

    def open(self, answer):
        need(answer.headers.get("cache-control") == "no-store", "Cache-Control of an opening")
        self.terms = json.loads(answer.body)
        need(self.terms["version"] == 1 and self.terms["rights"] in self.asked["rights"], f"terms: {self.terms}")
        need(sum(end["control"] for end in self.terms["endpoints"]) == 1, "exactly one control queue pair")
        self.rights, self.limits = self.terms["rights"], self.terms["limits"]
        self.id = bytes.fromhex(self.terms["session"])
        nonces = bytes.fromhex(self.asked["client_nonce"]) + bytes.fromhex(self.terms["server_nonce"])
        root = signing_key(self.user.secret, self.user.last_date, self.user.region)
        self.key = mac(root, b"millrace-rdma\0" + struct.pack("<H", 1) + self.id + nonces)
        self.connect_key = mac(self.key, b"connect")
        self.signer = self.user.like("MRDX" + self.id.hex().upper(), mac(self.key, b"request").hex())

    def private(self, endpoint, index, own_gid, qp_number, **bent):
        """The private data of a connection. `bent` replaces fields, or the mac."""
        head = messages.PRIVATE.pack(bent.get("version", 1), bent.get("kind", messages.CONNECT), bent.get("endpoint", endpoint["endpoint"]),
                                     bent.get("index", index), bent.get("zero", 0), bent.get("session", self.id), b"")[:24]
        boot = bytes.fromhex(bent.get("boot_id", endpoint["boot_id"]))
        code = mac(bent.get("key", self.connect_key), b"C" + head + boot + own_gid + struct.pack("<I", qp_number))[:16]
        return head + bent.get("mac", code) + bent.get("behind", b"")

    def connect(self):
        for endpoint in sorted(self.terms["endpoints"], key=lambda one: not one["control"]):
            for index in range(endpoint["queue_pairs"]):
                self.connect_one(endpoint, index)

    def connect_one(self, endpoint, index, **bent):
        control = endpoint["control"] and index == 0
        link = Link(endpoint["address"], endpoint["port"])
        try:
            if self.domain is None:
                self.domain = Domain(link)
            link.make_qp(self.domain, self.receives, self.limits["message_bytes"] if control else 32)
            own, other, number = link.addresses()
            fate = link.connect(self.private(endpoint, index, own, number, **bent), depth=self.depth)
            self.accepted = fate.responder_resources, fate.initiator_depth
            self.verify_accepted(endpoint, index, fate, control, own, other, number)
        except BaseException:
            link.free()
            raise
        self.links[f"{endpoint['endpoint']}.{index}"] = link
        if control:
            self.control = link

    def verify_accepted(self, endpoint, index, fate, control, own, other, number):
        data = fate.private()
        if fate.event == verbs.REJECTED:
            need(data[:2] == bytes([1, messages.REFUSED]), f"a rejection with {data[:8].hex()}, status {fate.status}")
            raise Refused(struct.unpack_from("<H", data, 2)[0])
        if fate.event not in (verbs.ESTABLISHED, verbs.CONNECT_RESPONSE):
            raise Ended(f"event {fate.event} status {fate.status} instead of a connection")
        version, kind, number_of_endpoint, got_index, receives, session, code = messages.PRIVATE.unpack(data[:40])
        need((version, kind, number_of_endpoint, got_index, session) == (1, messages.ACCEPTED, endpoint["endpoint"], index, self.id), "acceptance")
        need(not any(data[40:]), "bytes behind the acceptance")
        need(receives == (self.limits["messages"] if control else 0), f"{receives} receives for messages")
        right = mac(self.connect_key, b"S" + data[:24] + bytes.fromhex(endpoint["boot_id"]) + other + struct.pack("<I", fate.qp_number) + own +
                    struct.pack("<I", number))[:16]
        if not hmac.compare_digest(right, code):
            raise Refused("the server's MAC is wrong")

    # ---- completions ------------------------------------------------------------------------------------------

    def take(self, link, timeout_ms):
        """Takes one completion of a link into where it is waited for; false when none came."""
        completion = link.poll(timeout_ms)
        if link.ended is not None:
            self.over = True
            raise Ended(f"event {link.ended.event} of the connection, status {link.ended.status}")
        if completion is None:
            return False
        if completion.status != 0:
            self.over = True
            raise Ended(f"completion {completion.id:x} with status {completion.status}")
        if completion.id < verbs.RECEIVE_ID:
            self.done[link, completion.id] = True
            return True
        data = link.received(completion)
        if completion.flags & verbs.WITH_IMM:
            need(completion.length == 0 and self.rights != "window2", "a notice by WRITE_WITH_IMM")
            self.notices[link, completion.immediate] = self.notices.get((link, completion.immediate), 0) + 1
            return True
        head = messages.header(data)
        if completion.flags & verbs.WITH_INV:  # Soft-RoCE does not tell
            need(any(grant.rkey == completion.rkey for grant in self.grants), "a window of nobody was invalidated")
        if head.type == messages.NOTICE:
            need(self.rights == "window2" and len(data) == 32, "a notice by SEND")
            low = head.number & 0xffffffff
            self.notices[link, low] = self.notices.get((link, low), 0) + 1
        else:
            self.results.setdefault(head.number, []).append(messages.results(data))
        return True

    def wait_for(self, link, condition, what):
        until = time.monotonic() + PATIENCE
        while not condition():
            self.take(link, 1000)
            if time.monotonic() > until:
                raise Ended(f"no {what} after {PATIENCE} s")

    def wait_done(self, link, number):
        self.wait_for(link, lambda: self.done.pop((link, number), False), "completion")

    def wait_notice(self, name, number):
        link = self.links[name]
        self.wait_for(link, lambda: self.notices.get((link, number & 0xffffffff)), "notice")
        count = self.notices.pop((link, number & 0xffffffff))
        need(count == 1, f"{count} notices of one request")

    def wait_end(self, seconds=PATIENCE):
        """Waits until the session is at its end; why."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            try:
                for link in self.links.values():
                    self.take(link, 100)
            except Ended as why:
                return str(why)
        raise AssertionError(f"the session goes on after {seconds} s")

    # ---- requests ---------------------------------------------------------------------------------------------

    def new_number(self):
        self.number += 1
        return self.number

    def headers(self, number, window):
        return {"x-millrace-rdma-session": self.id.hex(), "x-millrace-rdma-request": str(number), "x-millrace-rdma-window": window}

    def grant(self, memory, at=0, length=None, access=REMOTE_WRITE):
        return Grant(self, memory, at, length, access)

    def get(self, path, room, headers=(), query=(), number=None, signer=None, method="GET", window=None, rkey=None, **how):
        """A GET into new memory of `room` bytes (or `window`, a Grant, which stays the caller's). `rkey`, `number` and `signer` bend it."""
        number = self.new_number() if number is None else number
        grant = window or self.grant(Memory(room, UNTOUCHED))
        text = grant.text() if rkey is None else f"{grant.address:016x}:{rkey:08x}:{grant.length:016x}"
        try:
            answer = (signer or self.signer).request(method, path, query=query, headers={**self.headers(number, text), **dict(headers)}, **how)
            return self.arrived(answer, number, grant, method == "HEAD")
        finally:
            if window is None:
                grant.free()

    def arrived(self, answer, number, grant, head=False):
        """The fence of the page, and the checks of what was delivered."""
        transport = answer.headers.get("x-millrace-transport")
        if answer.status in (200, 206) and transport == "rdma":
            need(answer.body == b"" and answer.headers.get("content-length") == "0", f"a body: {answer}")
            need(answer.headers.get("cache-control") == "no-store", f"Cache-Control: {answer}")
            names = [name for name in answer.headers.get("x-millrace-rdma-notices", "").split(",") if name]
            count = int(answer.headers["x-millrace-rdma-bytes"])
            need(bool(names) == (count > 0), f"notices: {answer}")
            for name in names:
                self.wait_notice(name, number)
            if names and self.rights == "window2":
                grant.taken_back = True  # by the server's SEND_WITH_INV
            else:
                grant.take_back()
            return Got(answer, self.checked(answer, grant.memory, grant.at, count), "rdma")
        if answer.status in (200, 206) or transport == "tcp" or answer.headers.get("x-millrace-rdma-posted") == "none":
            grant.take_back()
            need(self.untouched(grant.memory, 0, grant.memory.size), "memory was written, and the answer says that it was not")
            if answer.status in (200, 206) and not head:
                need("x-millrace-rdma-declined" in answer.headers, f"no reason: {answer}")
                need(self.crc_of(answer) == crc32c(answer.body), "crc32c of the body")
                return Got(answer, answer.body, "tcp")
            return Got(answer)
        self.fence()
        return Got(answer, unread=True)

    def fence(self):
        """From here on nobody writes into any memory of this session."""
        self.over = True
        for link in self.links.values():
            link.fence()

    @staticmethod
    def crc_of(answer):
        return int.from_bytes(base64.b64decode(answer.headers["x-millrace-crc32c"]), "big")

    @staticmethod
    def untouched(memory, at, size):
        return memory.read(at, size) == bytes([UNTOUCHED]) * size

    def checked(self, answer, memory, at, count):
        need(at + count <= memory.size, f"{count} bytes in a window of {memory.size}")
        need(memory.crc32c(at, count) == self.crc_of(answer), "crc32c of what was written")
        need(self.untouched(memory, 0, at) and self.untouched(memory, at + count, memory.size - at - count), "bytes outside were written")
        return memory.read(at, count)

    def put(self, path, data, headers=(), query=(), number=None, signer=None, rkey=None, length=None):
        """A PUT of these bytes, which the server reads; a Got without data."""
        number = self.new_number() if number is None else number
        memory = Memory(len(data))
        memory.write(data)
        grant = self.grant(memory, access=REMOTE_READ)
        try:
            text = f"{grant.address:016x}:{grant.rkey if rkey is None else rkey:08x}:{len(data) if length is None else length:016x}"
            answer = (signer or self.signer).request("PUT", path, query=query, digest=UNSIGNED, headers={**self.headers(number, text), **dict(headers)})
            need(memory.read() == data, "a PUT wrote into the memory")
            fenced = answer.status == 200 or answer.headers.get("x-millrace-rdma-posted") == "none"
            if fenced:
                grant.take_back()
            else:
                self.fence()
            if answer.status == 200:
                need(answer.headers.get("x-millrace-transport") == "rdma" and answer.headers.get("x-millrace-rdma-bytes") == str(len(data)), f"{answer}")
            return Got(answer, transport=answer.headers.get("x-millrace-transport"), unread=not fenced)
        finally:
            grant.free()

    # ---- batches ----------------------------------------------------------------------------------------------

    def batch(self, wants, memory, ordered=False, replies=None, most=256, deadline=0):
        """Entries into one memory, in as many messages as they need; {index: (Result, bytes)} in the order in which they came."""
        batch, queue, first, found, open_messages = secrets.randbits(32), messages.cut(wants, self.limits["message_bytes"], most), 0, {}, {}
        receives = self.receives
        while queue or open_messages:
            while queue and len(open_messages) < self.limits["messages"]:
                part = queue[0]
                answers = replies or (len(part) + 63) // 64
                if receives < answers:
                    break
                queue.pop(0)
                number, grant = self.new_number(), self.grant(memory)
                data = messages.batch_message(part, number, batch, first, answers, (grant.address, grant.length, grant.rkey), ordered, deadline)
                self.wait_done(self.control, self.control.send(data))
                receives -= answers
                open_messages[number] = dict(first=first, count=len(part), answers=answers, came=0, grant=grant)
                first += len(part)
            self.wait_for(self.control, lambda: any(number in self.results for number in open_messages), "result")
            for number in [number for number in open_messages if number in self.results]:
                for head, several in self.results.pop(number):
                    self.take_results(head, several, open_messages[number], batch, wants, memory, found)
                    if head.flags & messages.LAST:
                        receives += open_messages.pop(number)["answers"]
        need(len(found) == len(wants), f"{len(found)} results of {len(wants)}")
        if ordered:
            need(list(found) == sorted(found), "results out of order")
        return found

    def take_results(self, head, several, message, batch, wants, memory, found):
        message["came"] += 1
        need(head.batch == batch and message["came"] <= message["answers"], f"{head}")
        need(head.first == 0, "notices of other queue pairs")
        for one in several:
            need(message["first"] <= one.index < message["first"] + message["count"] and one.index not in found, f"index {one.index}")
            want = wants[one.index]
            need(one.bytes <= want.room, "more than the place has room for")
            need(memory.crc32c(want.offset, one.bytes) == one.crc32c or one.bytes == 0, f"crc32c of entry {one.index}")
            found[one.index] = (one, memory.read(want.offset, one.bytes))
        if head.flags & messages.LAST:
            if self.rights == "window2":
                message["grant"].taken_back = True
            message["grant"].take_back()
            message["grant"].free()

    def send_message(self, data):
        """Whatever bytes, on the control queue pair."""
        self.control.send(data)

    # ---- the end ----------------------------------------------------------------------------------------------

    def delete(self, signer=None):
        return (signer or self.user).request("DELETE", f"{PATH}/{self.id.hex()}")

    def free(self):
        """Everything of this side. Windows first: a queue pair that is destroyed while one is bound takes 50 s."""
        self.fence()
        for grant in list(self.grants):
            grant.free()
        for link in self.links.values():
            link.disconnect()
            link.free()
        self.links = {}
        if self.domain is not None:
            self.domain.free()
            self.domain = None
        self.signer.close()

    def __enter__(self):
        return self

    def __exit__(self, kind, value, traceback):
        try:
            if kind is None and not self.over:
                answer = self.delete()
                need(answer.status == 204, f"end: {answer}")
        finally:
            self.free()


def get_batch(signer, wants, ordered=False, body=None, content_type=BATCH_TYPE, most=256, **how):
    """A batch over HTTP: (Answer, [(Result, bytes)]); each entry's bytes are checked. `body` bends it."""
    if body is None:
        body, first = b"", 0
        for part in messages.cut(wants, 16384, most):
            body += messages.batch_message(part, 0, 7, first, (len(part) + 63) // 64, ordered=ordered)
            first += len(part)
    answer = signer.request("POST", BATCH_PATH, body, headers={"content-type": content_type}, **how)
    if answer.status != 200:
        return answer, []
    need(answer.headers.get("content-type") == BATCH_TYPE and answer.headers.get("x-millrace-transport") == "tcp", f"{answer}")
    found, whole = messages.frames(answer.body)
    if not whole:
        raise Broken("the stream has no end")
    for one, data, crc in found:
        need(one.bytes == 0 or crc32c(data) == crc, f"crc32c of entry {one.index}")
    return answer, [(one, data) for one, data, _ in found]
