"""The client: blocking calls that let go of the GIL, and end on Ctrl-C."""
from __future__ import annotations

import os
import threading
from typing import Any, Callable, Dict, Iterable, Iterator, List, Mapping, Optional, Sequence, Union
from xml.etree import ElementTree

from . import _ops
from ._millrace import ffi, lib
from ._ops import Operation, Strings, error_from, text
from .errors import MillraceError, NotFound, TooLarge, error_of
from .pool import BufferPool
from .types import Bucket, Entry, Get, GetResult, ObjectInfo, PutResult, parse_url

__all__ = ["Client"]

_GUESS = 1 << 20  # bytes that get() has room for before it knows
_SOURCES = {"auto": lib.MR_CREDENTIALS_AUTO, "environment": lib.MR_CREDENTIALS_ENVIRONMENT, "profile": lib.MR_CREDENTIALS_PROFILE,
            "web-identity": lib.MR_CREDENTIALS_WEB_IDENTITY, "container": lib.MR_CREDENTIALS_CONTAINER, "anonymous": lib.MR_CREDENTIALS_NONE}
_CHECKSUMS = {"crc64nvme": lib.MR_CRC64NVME, "crc32c": lib.MR_CRC32C, "crc32": lib.MR_CRC32, "none": lib.MR_CHECKSUM_NONE}
_SIGN_BODY = {"auto": lib.MR_SIGN_AUTO, "always": lib.MR_SIGN_ALWAYS, "never": lib.MR_SIGN_NEVER}


@ffi.def_extern(name="millrace_credentials")
def _credentials(arg, out):
    """Called by a thread of the library."""
    try:
        given = ffi.from_handle(arg)()
        for name, room in (("access_key", 128), ("secret_key", 128), ("session_token", 8192)):
            value = (given.get(name) or "").encode()
            if len(value) > room:
                return -22
            ffi.memmove(getattr(out, name), value, len(value))
        out.expires_s = int(given.get("expires") or 0)
        return 0
    except Exception:  # pylint: disable=broad-except  # there is no Python caller that could be told
        return -13


def _is_tag(element: ElementTree.Element) -> bool:
    return element.tag.rpartition("}")[2] == "Tag"


class _Handle:
    """One process's C client."""

    def __init__(self, settings: Mapping[str, Any]):
        strings, out, error = Strings(), ffi.new("struct mr_client **"), ffi.new("struct mr_error *")
        options = ffi.new("struct mr_options *")
        credentials = settings["credentials"]
        for name in ("endpoint", "region", "ca_file", "profile", "access_key", "secret_key", "session_token", "test_rdma_driver"):
            setattr(options, name, strings(settings[name]))
        for name in ("parallel", "threads", "attempts", "connect_timeout_s", "stall_timeout_s", "part_size", "rdma_rights"):
            setattr(options, name, settings[name])
        options.transport = _ops.TRANSPORTS[settings["transport"]]
        options.checksum = _CHECKSUMS[settings["checksum"]]
        options.sign_body = _SIGN_BODY[settings["sign_body"]]
        self.callback = None
        if callable(credentials):
            self.callback = ffi.new_handle(credentials)
            options.credentials_fn = lib.millrace_credentials
            options.credentials_arg = self.callback
        else:
            options.credentials = _SOURCES[credentials]
        rv = lib.mr_client_open(options, out, error)
        if rv != 0:
            raise error_from(error, rv)
        self.pid = os.getpid()
        self.client = out[0]
        self.pool = BufferPool(self.client)
        self.queues: List[Any] = []
        self.idle: List[Any] = []  # of them, those for one operation that nobody has
        self.lock = threading.Lock()

    def queue(self, capacity: int) -> Any:
        out = ffi.new("struct mr_queue **")
        rv = lib.mr_queue_new(self.client, capacity, out)
        if rv != 0:
            raise error_of(rv)
        with self.lock:
            self.queues.append(out[0])
        return out[0]

    def drop_queue(self, queue: Any) -> None:
        """Cancels what is bound for it, and waits. Nothing where the client was closed before: its queues went with it."""
        with self.lock:
            if queue not in self.queues:
                return
            self.queues.remove(queue)
        lib.mr_queue_free(queue)

    def take_queue(self) -> Any:
        """For one operation; to be put back."""
        try:
            return self.idle.pop()
        except IndexError:
            return self.queue(1)

    def put_queue(self, queue: Any) -> None:
        self.idle.append(queue)

    def close(self) -> None:
        if self.pid != os.getpid():
            return
        lib.mr_client_cancel(self.client)
        with self.lock:
            queues, self.queues = self.queues, []
        for queue in queues:
            lib.mr_queue_free(queue)
        self.pool.close()
        lib.mr_client_free(self.client)


class Client:
    """A store. Cheap to make: nothing is opened before the first call, and again in each process (it can be pickled, and survives fork).

    endpoint: a URL, or several of one cluster with commas between them. endpoint, region, credentials: as the AWS tools find them (environment,
    profile, web identity, container) where not given. credentials: a source by name ("auto", "environment", "profile", "web-identity", "container", "anonymous"), or a function that returns a dict with access_key,
    secret_key and, where they expire, session_token and expires (seconds since 1970). Any thread may use it, several at once."""

    def __init__(self, endpoint: Optional[str] = None, *, region: Optional[str] = None, access_key: Optional[str] = None,
                 secret_key: Optional[str] = None, session_token: Optional[str] = None, profile: Optional[str] = None,
                 credentials: Union[str, Callable[[], Mapping[str, Any]]] = "auto", ca_file: Optional[str] = None, transport: str = "auto",
                 parallel: int = 0, threads: int = 0, attempts: int = 0, connect_timeout: int = 0, stall_timeout: int = 0, part_size: int = 0,
                 checksum: str = "crc64nvme", sign_body: str = "auto", rdma_rights: int = 0, test_rdma_driver: Optional[str] = None):
        for value, known, what in ((transport, _ops.TRANSPORTS, "transport"), (checksum, _CHECKSUMS, "checksum"), (sign_body, _SIGN_BODY, "sign_body")):
            if value not in known:
                raise ValueError(f"{what} is one of {', '.join(known)}, not {value!r}")
        if not callable(credentials) and credentials not in _SOURCES:
            raise ValueError(f"credentials is a function or one of {', '.join(_SOURCES)}, not {credentials!r}")
        self._settings = {
            "endpoint": endpoint, "region": region, "access_key": access_key, "secret_key": secret_key, "session_token": session_token,
            "profile": profile, "credentials": credentials, "ca_file": ca_file, "transport": transport, "parallel": parallel, "threads": threads,
            "attempts": attempts, "connect_timeout_s": connect_timeout, "stall_timeout_s": stall_timeout, "part_size": part_size,
            "checksum": checksum, "sign_body": sign_body, "rdma_rights": rdma_rights, "test_rdma_driver": test_rdma_driver}
        self._made: Optional[_Handle] = None
        self._lock = threading.Lock()

    # ---- life -----------------------------------------------------------------------------------------------

    def _handle(self) -> _Handle:
        made = self._made
        if made is not None and made.pid == os.getpid():
            return made
        if made is not None:  # after a fork: the parent's, and its lock may be held by a thread that is not here
            self._made, self._lock = None, threading.Lock()
        with self._lock:
            if self._made is None:
                self._made = _Handle(self._settings)
            return self._made

    def close(self) -> None:
        """Cancels what is under way. A later call opens it again. No call may be under way, and no piece of the pool be held."""
        with self._lock:
            made, self._made = self._made, None
        if made is not None:
            made.close()

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def __getstate__(self) -> Mapping[str, Any]:
        return {"settings": self._settings}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        self._settings, self._made, self._lock = state["settings"], None, threading.Lock()

    @property
    def endpoint(self) -> str:
        """Of several the first."""
        return text(lib.mr_client_endpoint(self._handle().client))

    @property
    def region(self) -> str:
        return text(lib.mr_client_region(self._handle().client))

    # ---- one call -------------------------------------------------------------------------------------------

    def _run(self, make: Callable[[Any], Operation]) -> Any:
        """Begins the operation and waits for it, a while at a time, so that Ctrl-C is heard."""
        handle = self._handle()
        operation = make(handle.client)
        queue, result, op = handle.take_queue(), ffi.new("struct mr_result *"), ffi.new("uint64_t *")
        rv = operation.start(queue, ffi.NULL, op)
        if rv != 0:
            handle.put_queue(queue)
            raise error_of(rv)
        try:
            while lib.mr_queue_take(queue, result, 1, 250) == 0:
                pass
        except BaseException:
            lib.mr_cancel(handle.client, op[0])
            lib.mr_queue_take(queue, result, 1, -1)  # memory is ours again only then
            lib.mr_result_free(result)
            handle.put_queue(queue)
            raise
        handle.put_queue(queue)
        try:
            return operation.result(result)
        finally:
            lib.mr_result_free(result)

    def _transport(self, transport: Optional[str]) -> str:
        return transport if transport is not None else "auto"

    # ---- reading --------------------------------------------------------------------------------------------

    def get_into(self, bucket: str, key: str, into: Any, *, offset: int = 0, length: Optional[int] = None, suffix: Optional[int] = None,
                 version_id: Optional[str] = None, if_match: Optional[str] = None, transport: Optional[str] = None) -> GetResult:
        """Reads into memory, without a copy: a writable buffer, a NumPy array, a tensor (contiguous, on the CPU). TooLarge where the object has more."""
        get = Get(bucket, key, offset, length, suffix, into, version_id, if_match)
        if _ops.nothing_wanted(get):
            return GetResult(size=self.head(bucket, key, version_id=version_id).size, buffer=into)
        return self._run(lambda handle: _ops.get_into(handle, get, self._transport(transport)))

    def get(self, bucket: str, key: str, *, offset: int = 0, length: Optional[int] = None, suffix: Optional[int] = None,
            version_id: Optional[str] = None, if_match: Optional[str] = None, transport: Optional[str] = None) -> bytes:
        """Reads to bytes."""
        rest = {"offset": offset, "length": length, "suffix": suffix, "version_id": version_id, "if_match": if_match, "transport": transport}
        size = length if length is not None else suffix
        room = min(size, _GUESS) if size is not None else _GUESS
        if size is not None and size > _GUESS:  # it may be more than there is
            room = min(size, max(self.head(bucket, key, version_id=version_id).size, 1))
            rest["length" if length is not None else "suffix"] = room
        for _ in range(4):
            memory = self._handle().pool.take(room)
            try:
                return bytes(self.get_into(bucket, key, memory, **rest).data)
            except TooLarge as error:
                if error.size <= room:
                    raise
                room = max(error.size - offset, 1)
        raise error_of(-116, message="the object grew each time it was read", where=f"{bucket}/{key}")

    def buffer(self, size: int) -> Any:
        """Writable memory of that many bytes from the pool of registered memory, with the buffer protocol; it goes back when nobody holds it."""
        return self._handle().pool.take(size)

    def get_batch(self, gets: Iterable[Get], *, transport: Optional[str] = None) -> List[GetResult]:
        """Many reads at once, results in their order. What one of them fails of is in its result's error; nothing is raised for it."""
        wanted = _ops.with_memory(gets, self._handle().pool.take)
        results: List[Optional[GetResult]] = [GetResult(buffer=get.into) if _ops.nothing_wanted(get) else None for get in wanted]
        left = [i for i, result in enumerate(results) if result is None]
        for at in range(0, len(left), 65536):
            indices = left[at:at + 65536]
            batch = [wanted[i] for i in indices]
            for i, result in zip(indices, self._run(lambda handle, batch=batch: _ops.get_batch(handle, batch, self._transport(transport)))):
                results[i] = result
        return results  # type: ignore[return-value]

    # ---- what is there --------------------------------------------------------------------------------------

    def head(self, bucket: str, key: str, *, version_id: Optional[str] = None) -> ObjectInfo:
        return self._run(lambda handle: _ops.head(handle, bucket, key, version_id))

    def exists(self, bucket: str, key: str) -> bool:
        try:
            self.head(bucket, key)
            return True
        except NotFound:
            return False

    def list(self, bucket: str, prefix: str = "", *, delimiter: str = "", start_after: str = "", page_size: int = 0) -> Iterator[Entry]:
        """Objects in order of their keys and, with a delimiter, what several begin with up to it."""
        token: Optional[str] = None
        while True:
            entries, token = self._run(lambda handle, token=token: _ops.list_page(handle, bucket, prefix, delimiter, start_after, token, page_size))
            yield from entries
            if token is None:
                return

    def versions(self, bucket: str, prefix: str = "", *, delimiter: str = "", start_after: str = "", page_size: int = 0) -> Iterator[Entry]:
        """All versions and delete markers in order of their keys, of each key the newest first."""
        token: Optional[str] = None
        while True:
            entries, token = self._run(
                lambda handle, token=token: _ops.list_page(handle, bucket, prefix, delimiter, start_after, token, page_size, versions=True))
            yield from entries
            if token is None:
                return

    def buckets(self) -> List[Bucket]:
        found: List[Bucket] = []

        @ffi.callback("mr_bucket_fn")
        def take(_arg, bucket):
            found.append(Bucket(text(bucket.name), float(bucket.created_s)))
            return 0
        self._call(lambda handle, error: lib.mr_buckets(handle, take, ffi.NULL, error))
        return found

    def _call(self, function: Callable[[Any, Any], int], where: str = "") -> None:
        error = ffi.new("struct mr_error *")
        rv = function(self._handle().client, error)
        if rv != 0:
            raise error_from(error, rv, where)

    def create_bucket(self, bucket: str) -> None:
        self._call(lambda handle, error: lib.mr_bucket_create(handle, bucket.encode(), error), bucket)

    def delete_bucket(self, bucket: str) -> None:
        self._call(lambda handle, error: lib.mr_bucket_delete(handle, bucket.encode(), error), bucket)

    def bucket_exists(self, bucket: str) -> bool:
        try:
            self._call(lambda handle, error: lib.mr_bucket_head(handle, bucket.encode(), error), bucket)
            return True
        except NotFound:
            return False

    # ---- writing --------------------------------------------------------------------------------------------

    def put(self, bucket: str, key: str, data: Any, *, content_type: Optional[str] = None, metadata: Optional[Mapping[str, str]] = None,
            if_none_match: bool = False, if_match: Optional[str] = None, transport: Optional[str] = None) -> PutResult:
        """Stores memory (a buffer, array or tensor), without a copy; large ones in parts, in parallel. if_none_match: only where the key is new."""
        return self._run(lambda handle: _ops.put(handle, bucket, key, data, content_type, metadata, if_none_match, if_match,
                                                 self._transport(transport)))

    def copy(self, source_bucket: str, source_key: str, bucket: str, key: str, *, if_none_match: bool = False,
             version_id: Optional[str] = None) -> None:
        """The endpoint copies an object of up to 5 GiB. version_id: of the source; onto its own key that makes it the newest again."""
        self._run(lambda handle: _ops.copy(handle, source_bucket, source_key, bucket, key, if_none_match, version_id))

    def delete(self, bucket: str, key: str, *, version_id: Optional[str] = None, bypass_governance: bool = False) -> None:
        """A key that does not exist is deleted, too. version_id: that version, or delete marker, for good."""
        self._run(lambda handle: _ops.delete(handle, bucket, key, version_id, bypass_governance))

    def delete_many(self, bucket: str, keys: Sequence[str]) -> List[MillraceError]:
        """Any number of keys. Returns what could not be deleted, as exceptions that name it."""
        strings, failed = Strings(), []
        array = ffi.new("char *[]", [strings(key) for key in keys])

        @ffi.callback("mr_delete_failed_fn")
        def note(_arg, key, code, message):
            failed.append(MillraceError(5, text(message), s3_code=text(code), where=f"{bucket}/{text(key)}"))
        self._call(lambda handle, error: lib.mr_delete_many(handle, bucket.encode(), ffi.cast("char const * const *", array), len(keys), note,
                                                            ffi.NULL, error), bucket)
        return failed

    # ---- beside objects and buckets -------------------------------------------------------------------------

    def sub_resource(self, method: str, bucket: str, key: Optional[str], name: str, body: Optional[bytes] = None, *,
                     version_id: Optional[str] = None, bypass_governance: bool = False) -> bytes:
        """GET, PUT or DELETE of what S3 keeps beside an object (or, without a key, a bucket) as XML: "tagging", "retention", "legal-hold",
        "object-lock", "versioning", "lifecycle" … Returns the answer as it is."""
        strings, document = Strings(), ffi.new("struct mr_document *")
        data = ffi.from_buffer(body) if body is not None else ffi.NULL
        what = ffi.new("struct mr_sub_resource *", {
            "method": strings(method), "bucket": strings(bucket), "key": strings(key), "name": strings(name), "version_id": strings(version_id),
            "body": data, "len": len(body) if body is not None else 0, "bypass_governance": bypass_governance})
        try:
            self._call(lambda handle, error: lib.mr_sub_resource(handle, what, document, error), f"{bucket}/{key}" if key else bucket)
            return bytes(ffi.buffer(document.text, document.len))
        finally:
            lib.mr_document_free(document)

    def tags(self, bucket: str, key: Optional[str] = None, *, version_id: Optional[str] = None) -> Dict[str, str]:
        """Of an object or, without a key, of the bucket."""
        try:
            answer = self.sub_resource("GET", bucket, key, "tagging", version_id=version_id)
        except MillraceError as error:
            if error.s3_code == "NoSuchTagSet":
                return {}
            raise
        return {tag.findtext("{*}Key", ""): tag.findtext("{*}Value", "") for tag in ElementTree.fromstring(answer).iter() if _is_tag(tag)}

    def set_tags(self, bucket: str, key: Optional[str], tags: Mapping[str, str], *, version_id: Optional[str] = None) -> None:
        """It has exactly these tags afterwards. No key: the bucket's."""
        if not tags:
            self.sub_resource("DELETE", bucket, key, "tagging", version_id=version_id)
            return
        root = ElementTree.Element("Tagging", xmlns="http://s3.amazonaws.com/doc/2006-03-01/")
        tag_set = ElementTree.SubElement(root, "TagSet")
        for name, value in tags.items():
            tag = ElementTree.SubElement(tag_set, "Tag")
            ElementTree.SubElement(tag, "Key").text = name
            ElementTree.SubElement(tag, "Value").text = value
        self.sub_resource("PUT", bucket, key, "tagging", ElementTree.tostring(root, "utf-8"), version_id=version_id)

    # ---- files ----------------------------------------------------------------------------------------------

    def open(self, url: str, mode: str = "rb", **options: Any) -> Any:
        """A file of the object at "millrace://bucket/key": "rb" reads ahead, "wb" writes in parts and makes the object visible when it is closed.

        Options of a reader: see millrace.io.ObjectReader; of a writer: millrace.io.ObjectWriter."""
        from .io import ObjectReader, ObjectWriter  # pylint: disable=import-outside-toplevel  # they know the client

        bucket, key = parse_url(url)
        if not bucket or not key:
            raise ValueError(f"names no object: {url!r}")
        if mode in ("rb", "r+b"):
            if mode != "rb":
                raise ValueError("objects are not changed in place")
            return ObjectReader(self, bucket, key, **options)
        if mode in ("wb", "xb"):
            return ObjectWriter(self, bucket, key, if_none_match=mode == "xb", **options)
        raise ValueError(f"mode is rb, wb or xb, not {mode!r}")
