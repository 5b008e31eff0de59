"""The client for asyncio: results come by the completion queue's descriptor, on the event loop; no threads of Python's."""
from __future__ import annotations

import asyncio
import weakref
from typing import Any, AsyncIterator, Callable, Iterable, List, Mapping, Optional

from . import _ops
from ._millrace import ffi, lib
from .client import Client
from .errors import error_of
from .types import Entry, Get, GetResult, ObjectInfo, PutResult

__all__ = ["AsyncClient"]

_CAPACITY, _TAKE = 4096, 64


class _Loop:
    """A queue of one event loop. owner: that loop"""

    def __init__(self, handle: Any, loop: asyncio.AbstractEventLoop):
        self.handle = handle
        self.loop = loop
        self.queue = handle.queue(_CAPACITY)
        self.room = asyncio.Semaphore(_CAPACITY)
        self.waiting: dict = {}  # by tag: the future, and what C refers to until its result
        self.next_tag = 1
        self.results = ffi.new("struct mr_result[]", _TAKE)
        loop.add_reader(lib.mr_queue_fd(self.queue), self.take)

    def take(self) -> None:
        for i in range(lib.mr_queue_take(self.queue, self.results, _TAKE, 0)):
            result = self.results + i
            future, operation = self.waiting.pop(int(ffi.cast("uintptr_t", result.tag)))
            self.room.release()
            if not future.done():
                try:
                    future.set_result(operation.result(result))
                except Exception as error:  # pylint: disable=broad-except  # whoever awaits is to have it
                    future.set_exception(error)
            lib.mr_result_free(result)

    async def run(self, operation: _ops.Operation) -> Any:
        await self.room.acquire()
        op, tag, future = ffi.new("uint64_t *"), self.next_tag, self.loop.create_future()
        self.next_tag += 1
        self.waiting[tag] = (future, operation)
        rv = operation.start(self.queue, ffi.cast("void *", tag), op)
        if rv != 0:
            del self.waiting[tag]
            self.room.release()
            raise error_of(rv)
        done = asyncio.shield(future)
        try:
            return await done
        except asyncio.CancelledError:
            lib.mr_cancel(self.handle.client, op[0])  # the operation keeps its memory until its result
            while not future.done():
                try:
                    await asyncio.wait([future])
                except asyncio.CancelledError:
                    continue
            if not future.cancelled():
                future.exception()  # seen: nobody else asks
            raise

    def close(self) -> None:
        self.loop.remove_reader(lib.mr_queue_fd(self.queue))
        self.handle.drop_queue(self.queue)


class AsyncClient:
    """Client's calls as coroutines. Takes a Client, or what Client() takes. One object serves any number of event loops, each in its own thread."""

    def __init__(self, client: Optional[Client] = None, **settings: Any):
        self.client = client if client is not None else Client(**settings)
        self._loops: "weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _Loop]" = weakref.WeakKeyDictionary()

    def _loop(self) -> _Loop:
        loop, handle = asyncio.get_running_loop(), self.client._handle()  # pylint: disable=protected-access
        found = self._loops.get(loop)
        if found is None or found.handle is not handle:
            found = self._loops[loop] = _Loop(handle, loop)
        return found

    async def _run(self, make: Callable[[Any], _ops.Operation]) -> Any:
        loop = self._loop()
        return await loop.run(make(loop.handle.client))

    async def aclose(self) -> None:
        """Gives up what this event loop holds; what is under way is canceled."""
        found = self._loops.pop(asyncio.get_running_loop(), None)
        if found is not None:
            found.close()

    async def __aenter__(self) -> "AsyncClient":
        return self

    async def __aexit__(self, *_: Any) -> None:
        await self.aclose()

    async def get_into(self, bucket: str, key: str, into: Any, *, offset: int = 0, length: Optional[int] = None, suffix: Optional[int] = None,
                       version_id: Optional[str] = None, if_match: Optional[str] = None, transport: str = "auto") -> GetResult:
        get = Get(bucket, key, offset, length, suffix, into, version_id, if_match)
        if _ops.nothing_wanted(get):
            return GetResult(size=(await self.head(bucket, key, version_id=version_id)).size, buffer=into)
        return await self._run(lambda handle: _ops.get_into(handle, get, transport))

    async def get(self, bucket: str, key: str, *, offset: int = 0, length: Optional[int] = None, suffix: Optional[int] = None,
                  version_id: Optional[str] = None, if_match: Optional[str] = None, transport: str = "auto") -> bytes:
        size = length if length is not None else suffix
        info = None
        if size is None or size > 1 << 20:
            info = await self.head(bucket, key, version_id=version_id)
            size = min(size, info.size) if size is not None else max(info.size - offset, 0)
            if_match = if_match or info.etag or None
            if offset == 0 and length is None and suffix is None and info.size == 0:
                return b""
            size = max(size, 1)
        memory = self._loop().handle.pool.take(size)
        rest = {"suffix": size} if suffix is not None and size else {"suffix": suffix} if suffix is not None else \
            {"offset": offset, "length": None if length is None else min(length, size)}
        result = await self.get_into(bucket, key, memory, version_id=version_id, if_match=if_match, transport=transport, **rest)
        return bytes(result.data)

    async def get_batch(self, gets: Iterable[Get], *, transport: str = "auto") -> List[GetResult]:
        wanted = _ops.with_memory(gets, self._loop().handle.pool.take)
        results: List[Optional[GetResult]] = [GetResult(buffer=get.into) if _ops.nothing_wanted(get) else None for get in wanted]
        left = [i for i, result in enumerate(results) if result is None]
        for at in range(0, len(left), 65536):
            indices = left[at:at + 65536]
            batch = [wanted[i] for i in indices]
            for i, result in zip(indices, await self._run(lambda handle, batch=batch: _ops.get_batch(handle, batch, transport))):
                results[i] = result
        return results  # type: ignore[return-value]

    async def head(self, bucket: str, key: str, *, version_id: Optional[str] = None) -> ObjectInfo:
        return await self._run(lambda handle: _ops.head(handle, bucket, key, version_id))

    async def list(self, bucket: str, prefix: str = "", *, delimiter: str = "", start_after: str = "", page_size: int = 0) -> AsyncIterator[Entry]:
        token: Optional[str] = None
        while True:
            entries, token = await self._run(
                lambda handle, token=token: _ops.list_page(handle, bucket, prefix, delimiter, start_after, token, page_size))
            for entry in entries:
                yield entry
            if token is None:
                return

    async def versions(self, bucket: str, prefix: str = "", *, delimiter: str = "", start_after: str = "", page_size: int = 0) -> AsyncIterator[Entry]:
        token: Optional[str] = None
        while True:
            entries, token = await self._run(
                lambda handle, token=token: _ops.list_page(handle, bucket, prefix, delimiter, start_after, token, page_size, versions=True))
            for entry in entries:
                yield entry
            if token is None:
                return

    async def put(self, bucket: str, key: str, data: Any, *, content_type: Optional[str] = None, metadata: Optional[Mapping[str, str]] = None,
                  if_none_match: bool = False, if_match: Optional[str] = None, transport: str = "auto") -> PutResult:
        return await self._run(lambda handle: _ops.put(handle, bucket, key, data, content_type, metadata, if_none_match, if_match, transport))

    async def copy(self, source_bucket: str, source_key: str, bucket: str, key: str, *, if_none_match: bool = False,
                   version_id: Optional[str] = None) -> None:
        await self._run(lambda handle: _ops.copy(handle, source_bucket, source_key, bucket, key, if_none_match, version_id))

    async def delete(self, bucket: str, key: str, *, version_id: Optional[str] = None, bypass_governance: bool = False) -> None:
        await self._run(lambda handle: _ops.delete(handle, bucket, key, version_id, bypass_governance))
