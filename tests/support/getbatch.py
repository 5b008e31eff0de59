"""GetBatch over HTTP as docs/rdma-protocol.md has it: its messages and frames, written from that page."""
import struct
from dataclasses import dataclass, field

import awscrt.checksums

PATH = "/_millrace/v1/batch"
TYPE = "application/x-millrace-batch"
NO_BOUND = (1 << 64) - 1


@dataclass
class Entry:
    bucket: str
    key: str
    first: int = 0
    length: int = 0
    suffix: bool = False
    room: int = NO_BOUND
    if_match: str = ""
    version_id: str = ""

    def pack(self, before):
        bucket = b"" if before is not None and before.bucket == self.bucket else self.bucket.encode()
        key, match, version = self.key.encode(errors="surrogateescape"), self.if_match.encode(), self.version_id.encode()
        return struct.pack("<HBBBBHQQQQ", len(key), len(bucket), len(match), len(version), self.suffix, 0, self.first, self.length, 0,
                           self.room) + bucket + key + match + version


def message(entries, first=0, ordered=False, batch=7, **changes):
    packed = b"".join(entry.pack(entries[i - 1] if i else None) for i, entry in enumerate(entries))
    fields = dict(version=1, kind=1, flags=int(ordered), length=56 + len(packed), number=0, batch=batch, count=len(entries), first=first,
                  replies=-(-len(entries) // 64), zero=0, deadline=0, address=0, window=0, rkey=0, zero2=0)
    fields.update(changes)
    return struct.pack("<HBBIQIHHHHIQQII", *fields.values()) + packed


def body(entries, ordered=False, each=100):
    return b"".join(message(entries[at:at + each], at, ordered) for at in range(0, len(entries), each))


@dataclass
class Result:
    index: int
    status: int
    code: int
    size: int
    etag: str
    version_id: str
    data: bytes = field(repr=False)


def frames(answer):
    """The results of an answer's body, and whether it came to its end. What came whole is checked."""
    results, at = [], 0
    while at + 4 <= len(answer):
        length = struct.unpack_from("<I", answer, at)[0]
        at += 4
        if length == 0:
            assert at == len(answer)
            return results, True
        if at + length > len(answer):
            break
        index, status, code, etag_len, version_len, crc, zero, size, whole = struct.unpack_from("<HHHBBIIQQ", answer, at)
        assert crc == 0 and zero == 0 and length == 32 + etag_len + version_len
        etag = answer[at + 32:at + 32 + etag_len].decode()
        version = answer[at + 32 + etag_len:at + length].decode()
        at += length
        if size and at + size + 8 > len(answer):
            break
        data = answer[at:at + size]
        at += size
        if size:
            assert struct.unpack_from("<II", answer, at) == (awscrt.checksums.crc32c(data), 0), index
            at += 8
        results.append(Result(index, status, code, whole, etag, version, data))
    return results, False


def ask(raw, entries, ordered=False, **how):
    """The results of one batch, in the order of the entries unless they are to come in it."""
    answer = raw.request("POST", PATH, headers={"Content-Type": TYPE}, body=body(entries, ordered), **how)
    assert answer.status == 200, answer
    assert answer.headers["content-type"] == TYPE and answer.headers["x-millrace-transport"] == "tcp"
    results, whole = frames(answer.body)
    assert whole and sorted(result.index for result in results) == list(range(len(entries)))
    if ordered:
        assert [result.index for result in results] == list(range(len(entries)))
    return sorted(results, key=lambda result: result.index)
