"""Operations as the C library takes them: built once here, awaited by client.py (threads) and aio.py (event loops)."""
from __future__ import annotations

from typing import Any, Callable, Iterable, List, Mapping, Optional, Tuple

from ._memory import Memory, memory_of, set_place
from ._millrace import ffi, lib
from .errors import MillraceError, error_of
from .types import Entry, Get, GetResult, ObjectInfo, PutResult

TRANSPORTS = {"auto": lib.MR_TRANSPORT_AUTO, "tcp": lib.MR_TRANSPORT_TCP, "rdma": lib.MR_TRANSPORT_RDMA}
_TRANSPORT_NAMES = {lib.MR_TRANSPORT_AUTO: "", lib.MR_TRANSPORT_TCP: "tcp", lib.MR_TRANSPORT_RDMA: "rdma"}


def text(value: Any) -> str:
    return ffi.string(value).decode("utf-8", "surrogateescape") if value != ffi.NULL else ""


def error_from(error: Any, code: int, where: str = "") -> MillraceError:
    """Of a struct mr_error."""
    return error_of(code, message=text(error.message), s3_code=text(error.s3_code), http_status=error.http_status,
                    request_id=text(error.request_id), where=where)


class Operation:
    """One call: start(queue, tag, op) begins it in C; result(struct mr_result *) makes Python's answer of it, or raises. keep holds what C refers to."""

    def __init__(self, start: Callable[[Any, Any, Any], int], result: Callable[[Any], Any], keep: Any):
        self.start = start
        self.result = result
        self.keep = keep


class Strings:
    """C strings that live as long as this."""

    def __init__(self) -> None:
        self.kept: List[Any] = []

    def __call__(self, value: Optional[str]) -> Any:
        if value is None:
            return ffi.NULL
        data = value.encode("utf-8", "surrogateescape")
        if b"\0" in data:
            raise ValueError("a name holds a NUL")
        made = ffi.new("char[]", data)
        self.kept.append(made)
        return made


def fill_get(handle: Any, out: Any, strings: Strings, get: Get, memory: Memory, transport: str) -> None:
    if get.offset < 0 or (get.length is not None and get.length < 0) or (get.suffix is not None and get.suffix < 0):
        raise ValueError("offset, length and suffix are not negative")
    if get.suffix is not None and (get.offset != 0 or get.length is not None):
        raise ValueError("suffix excludes offset and length")
    out.bucket = strings(get.bucket)
    out.key = strings(get.key)
    out.version_id = strings(get.version_id)
    out.if_match = strings(get.if_match)
    out.offset = get.offset
    out.len = get.length or 0
    out.last = get.suffix or 0
    set_place(out.place, memory, handle)
    out.transport = TRANSPORTS[transport]


def _got(result: Any, buffer: Any) -> GetResult:
    return GetResult(bytes=result.bytes, size=result.object.size, etag=text(result.object.etag), transport=_TRANSPORT_NAMES[result.transport],
                     wire_verified=result.wire_verified, object_verified=result.object_verified, restarts=result.restarts, buffer=buffer)


def nothing_wanted(get: Get) -> bool:
    return get.length == 0 or get.suffix == 0


def get_into(handle: Any, get: Get, transport: str) -> Operation:
    strings, memory = Strings(), memory_of(get.into, writable=True)
    request = ffi.new("struct mr_get *")
    fill_get(handle, request, strings, get, memory, transport)
    where = f"{get.bucket}/{get.key}"

    def finish(result: Any) -> GetResult:
        if result.code != 0:
            error = error_from(result.error, result.code, where)
            error.size = result.object.size
            raise error
        return _got(result, get.into)

    return Operation(lambda queue, tag, op: lib.mr_get_start(handle, request, queue, tag, op), finish, (strings, memory, request))


def get_batch(handle: Any, gets: List[Get], transport: str) -> Operation:
    """All of them have memory. Its answer is a list of GetResult, errors in them."""
    strings, memories = Strings(), []
    requests, got = ffi.new("struct mr_get[]", len(gets)), ffi.new("struct mr_got[]", len(gets))
    bucket_of: dict = {}
    for i, get in enumerate(gets):
        memory = memory_of(get.into, writable=True)
        memories.append(memory)
        fill_get(handle, requests[i], strings, get, memory, transport)
        requests[i].bucket = bucket_of.setdefault(get.bucket, requests[i].bucket)
    batch = ffi.new("struct mr_batch *", {"gets": requests, "count": len(gets), "got": got, "each": False})

    def one(i: int, get: Get) -> GetResult:
        item = got[i]
        if item.code != 0:
            return GetResult(size=item.size, error=error_from(item.error, item.code, f"{get.bucket}/{get.key}"), buffer=get.into)
        return GetResult(bytes=item.bytes, size=item.size, etag=text(item.etag), transport=_TRANSPORT_NAMES[item.transport],
                         wire_verified=item.wire_verified, object_verified=item.object_verified, buffer=get.into)

    return Operation(lambda queue, tag, op: lib.mr_get_batch_start(handle, batch, queue, tag, op),
                     lambda result: [one(i, get) for i, get in enumerate(gets)], (strings, memories, requests, got, batch))


def put_request(strings: Strings, bucket: str, key: str, content_type: Optional[str], metadata: Optional[Mapping[str, str]],
                if_none_match: bool, if_match: Optional[str], transport: str) -> Any:
    """A struct mr_put without a place, and what it refers to."""
    pairs = list((metadata or {}).items())
    headers = ffi.new("struct mr_header[]", max(len(pairs), 1))
    for i, (name, value) in enumerate(pairs):
        headers[i].name = strings(name)
        headers[i].value = strings(value)
    strings.kept.append(headers)
    return ffi.new("struct mr_put *", {
        "bucket": strings(bucket), "key": strings(key), "content_type": strings(content_type), "metadata": headers,
        "metadata_count": len(pairs), "if_none_match": if_none_match, "if_match": strings(if_match), "transport": TRANSPORTS[transport]})


def _put_result(where: str) -> Callable[[Any], PutResult]:
    def finish(result: Any) -> PutResult:
        if result.code != 0:
            raise error_from(result.error, result.code, where)
        return PutResult(result.bytes, text(result.object.etag), text(result.object.version_id), _TRANSPORT_NAMES[result.transport])
    return finish


def put(handle: Any, bucket: str, key: str, data: Any, content_type: Optional[str], metadata: Optional[Mapping[str, str]],
        if_none_match: bool, if_match: Optional[str], transport: str) -> Operation:
    strings, memory = Strings(), memory_of(data, writable=False)
    request = put_request(strings, bucket, key, content_type, metadata, if_none_match, if_match, transport)
    set_place(request.place, memory, handle)
    return Operation(lambda queue, tag, op: lib.mr_put_start(handle, request, queue, tag, op), _put_result(f"{bucket}/{key}"),
                     (strings, memory, request))


def part(handle: Any, upload: Any, number: int, data: Any, where: str) -> Operation:
    memory = memory_of(data, writable=False)
    place = ffi.new("struct mr_place *")
    set_place(place, memory, handle)
    return Operation(lambda queue, tag, op: lib.mr_multipart_part_start(upload, number, place, queue, tag, op), _put_result(where),
                     (memory, place))


def complete(upload: Any, where: str) -> Operation:
    return Operation(lambda queue, tag, op: lib.mr_multipart_complete_start(upload, queue, tag, op), _put_result(where), None)


def head(handle: Any, bucket: str, key: str, version_id: Optional[str]) -> Operation:
    strings = Strings()
    request = ffi.new("struct mr_head *", {"bucket": strings(bucket), "key": strings(key), "version_id": strings(version_id)})

    def finish(result: Any) -> ObjectInfo:
        if result.code != 0:
            raise error_from(result.error, result.code, f"{bucket}/{key}")
        info = result.object
        headers = {text(info.headers[i].name): text(info.headers[i].value) for i in range(info.header_count)}
        return ObjectInfo(info.size, float(info.mtime_s), text(info.etag), text(info.version_id), text(info.checksum_kind),
                          text(info.checksum), headers)

    return Operation(lambda queue, tag, op: lib.mr_head_start(handle, request, queue, tag, op), finish, (strings, request))


def list_page(handle: Any, bucket: str, prefix: str, delimiter: str, start_after: str, token: Optional[str], page: int,
              versions: bool = False) -> Operation:
    """Its answer is a list of Entry, and the token of the next page or None."""
    strings = Strings()
    request = ffi.new("struct mr_list *", {"bucket": strings(bucket), "prefix": strings(prefix), "delimiter": strings(delimiter),
                                           "start_after": strings(start_after), "token": strings(token), "page": page,
                                           "versions": versions})

    def finish(result: Any) -> Tuple[List[Entry], Optional[str]]:
        if result.code != 0:
            raise error_from(result.error, result.code, bucket)
        entries = []
        for i in range(lib.mr_page_count(result.page)):
            entry = lib.mr_page_entry(result.page, i)
            mtime = entry.mtime_ms / 1000 if versions else float(entry.mtime_s)
            entries.append(Entry(text(entry.key), entry.size, mtime, text(entry.etag), entry.is_prefix, text(entry.version_id), entry.latest,
                                 entry.marker))
        following = lib.mr_page_token(result.page)
        return entries, text(following) if following != ffi.NULL else None

    return Operation(lambda queue, tag, op: lib.mr_list_start(handle, request, queue, tag, op), finish, (strings, request))


def _nothing(where: str) -> Callable[[Any], None]:
    def finish(result: Any) -> None:
        if result.code != 0:
            raise error_from(result.error, result.code, where)
    return finish


def delete(handle: Any, bucket: str, key: str, version_id: Optional[str], bypass_governance: bool = False) -> Operation:
    strings = Strings()
    request = ffi.new("struct mr_delete *", {"bucket": strings(bucket), "key": strings(key), "version_id": strings(version_id),
                                             "bypass_governance": bypass_governance})
    return Operation(lambda queue, tag, op: lib.mr_delete_start(handle, request, queue, tag, op), _nothing(f"{bucket}/{key}"),
                     (strings, request))


def copy(handle: Any, source_bucket: str, source_key: str, bucket: str, key: str, if_none_match: bool,
         version_id: Optional[str]) -> Operation:
    strings = Strings()
    request = ffi.new("struct mr_copy *", {"bucket": strings(bucket), "key": strings(key), "source_bucket": strings(source_bucket),
                                           "source_key": strings(source_key), "if_none_match": if_none_match,
                                           "source_version_id": strings(version_id)})
    return Operation(lambda queue, tag, op: lib.mr_copy_start(handle, request, queue, tag, op), _nothing(f"{source_bucket}/{source_key}"),
                     (strings, request))


def with_memory(gets: Iterable[Get], take: Callable[[int], Any]) -> List[Get]:
    """Copies of the reads, each with memory. -ValueError where none is given and the length is not known."""
    out = []
    for get in gets:
        if get.into is None:
            size = get.length if get.length is not None else get.suffix
            if size is None:
                raise ValueError("a read of a batch says either how much it is (length, suffix) or where it goes (into)")
            get = Get(get.bucket, get.key, get.offset, get.length, get.suffix, take(size), get.version_id, get.if_match)
        out.append(get)
    return out
