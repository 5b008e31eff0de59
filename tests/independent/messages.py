"""The binary layouts of the page: private data of connections, and messages of the control queue pair."""
import dataclasses
import struct

VERSION = 1
CONNECT, ACCEPTED, REFUSED = 1, 2, 3
BATCH, RESULT, NOTICE = 1, 2, 3
ORDERED, LAST, SUFFIX = 1, 2, 1
UNBOUNDED = (1 << 64) - 1
PRIVATE = struct.Struct("<BBHHH16s16s")
ENTRY = struct.Struct("<HBBBBHQQQQ")
RESULT_ENTRY = struct.Struct("<HHHBBIIQQ")
HEADER = struct.Struct("<HBBIQIHHHHI")
WINDOW = struct.Struct("<QQII")
CODES = {0: "OK", 1: "NoSuchKey", 2: "NoSuchBucket", 3: "NoSuchVersion", 4: "AccessDenied", 5: "PreconditionFailed", 6: "InvalidRange", 7: "PlaceTooSmall",
         8: "InvalidArgument", 9: "Declined", 10: "SlowDown", 11: "InternalError", 12: "ServiceUnavailable", 13: "RequestTimeout",
         14: "MethodNotAllowed"}


class Broken(Exception):
    """The other side broke a rule of the page."""


def need(condition, what):
    if not condition:
        raise Broken(what)


@dataclasses.dataclass
class Want:
    """An entry of a batch: what is wanted, and its place in the window."""
    bucket: str
    key: str
    offset: int = 0
    room: int = UNBOUNDED
    first: int = 0
    length: int = 0
    suffix: bool = False
    if_match: str = ""
    version: str = ""

    def packed(self, before):
        bucket = b"" if self.bucket == before else self.bucket.encode()
        key, if_match, version = self.key.encode(), self.if_match.encode(), self.version.encode()
        return ENTRY.pack(len(key), len(bucket), len(if_match), len(version), SUFFIX if self.suffix else 0, 0, self.first, self.length,
                          self.offset, self.room) + bucket + key + if_match + version


@dataclasses.dataclass
class Result:
    index: int
    status: int
    code: str
    crc32c: int
    bytes: int
    size: int
    etag: str
    version: str


@dataclasses.dataclass
class Header:
    type: int
    flags: int
    length: int
    number: int
    batch: int
    count: int
    first: int


def batch_message(wants, number, batch, first, replies, window=(0, 0, 0), ordered=False, deadline=0):
    """window: address, length, rkey."""
    body, before = b"", None
    for want in wants:
        body += want.packed(before)
        before = want.bucket
    address, length, rkey = window
    head = HEADER.pack(VERSION, BATCH, ORDERED if ordered else 0, HEADER.size + WINDOW.size + len(body), number, batch, len(wants), first, replies, 0,
                       deadline)
    return head + WINDOW.pack(address, length, rkey, 0) + body


def cut(wants, limit, most):
    """Parts of `wants` that fit one message each."""
    parts, size, before = [[]], HEADER.size + WINDOW.size, None
    for want in wants:
        more = len(want.packed(before))
        if len(parts[-1]) == most or (size + more > limit and parts[-1]):
            parts.append([])
            size, more = HEADER.size + WINDOW.size, len(want.packed(None))
        parts[-1].append(want)
        size += more
        before = want.bucket
    return parts


def header(data):
    """Of a RESULT or NOTICE."""
    need(HEADER.size <= len(data) <= 16384, f"a message of {len(data)} bytes")
    version, kind, flags, length, number, batch, count, first, replies, zero, deadline = HEADER.unpack_from(data)
    need(version == VERSION, f"version {version}")
    need(length == len(data), f"length {length} of {len(data)}")
    need(kind in (RESULT, NOTICE) and replies == zero == deadline == 0, f"type {kind}, or a field that is not zero")
    need(flags & ~LAST == 0 if kind == RESULT else flags == count == first == batch == 0, f"flags {flags}")
    return Header(kind, flags, length, number, batch, count, first)


def result(data, at, wire=True):
    """(Result, where the next one begins). wire: over the control queue pair, not in a body."""
    need(at + RESULT_ENTRY.size <= len(data), "a result is cut off")
    index, status, code, etag, version, crc, zero, count, size = RESULT_ENTRY.unpack_from(data, at)
    at += RESULT_ENTRY.size
    need(zero == 0, "a field that is not zero")
    need(at + etag + version <= len(data), "strings are cut off")
    need((status in (200, 206)) == (code == 0), f"status {status} with code {code}")
    need(status in (200, 206) or count == 0, f"status {status} with {count} bytes")
    texts = data[at:at + etag].decode(), data[at + etag:at + etag + version].decode()
    return Result(index, status, CODES.get(code, str(code)), crc, count, size, *texts), at + etag + version


def results(data):
    """(Header, [Result]) of a whole RESULT message."""
    head = header(data)
    need(head.type == RESULT, "not a RESULT")
    found, at = [], HEADER.size
    for _ in range(head.count):
        one, at = result(data, at)
        found.append(one)
    need(at == len(data), "bytes behind the last result")
    return head, found


def frames(body):
    """[(Result, its bytes, crc)] of a GetBatch answer over HTTP, and whether the stream came to its end."""
    found, at = [], 0
    while at + 4 <= len(body):
        length, = struct.unpack_from("<I", body, at)
        at += 4
        if length == 0:
            need(at == len(body), "bytes behind the end")
            return found, True
        one, end = result(body[at:at + length], 0)
        need(end == length, "length of a frame")
        end += at
        data, crc = body[end:end + one.bytes], 0
        at = end + one.bytes
        if one.bytes:
            crc, zero = struct.unpack_from("<II", body, at)
            need(zero == 0, "the frame's last field")
            at += 8
        need(one.crc32c == 0, "a crc32c before the bytes")
        found.append((one, data, crc))
    return found, False
