"""Objects as files: a reader that reads ahead, a writer whose object appears when it is closed."""
from __future__ import annotations

import io
import os
from collections import OrderedDict, deque
from typing import Any, Deque, Mapping, Optional, Tuple

from . import _ops
from ._millrace import ffi, lib
from ._ops import Operation, Strings, error_from
from .errors import error_of
from .types import Get, PutResult

__all__ = ["ObjectReader", "ObjectWriter"]


class Flights:
    """Operations under way for one file or reader ahead: begun, and awaited by their tag (from 1 on). One thread at a time."""

    def __init__(self, handle: Any, capacity: int):
        self.handle = handle
        self.capacity = capacity
        self.queue = handle.queue(capacity)
        self.flying: dict = {}  # by tag: operation and C's number of it
        self.done: dict = {}
        self.result = ffi.new("struct mr_result *")

    def begin(self, tag: int, operation: Operation) -> None:
        op = ffi.new("uint64_t *")
        rv = operation.start(self.queue, ffi.cast("void *", tag), op)
        if rv != 0:
            raise error_of(rv)
        self.flying[tag] = (operation, op[0])

    def take(self) -> None:
        """Waits for one more result."""
        while lib.mr_queue_take(self.queue, self.result, 1, 250) == 0:
            pass
        tag = int(ffi.cast("uintptr_t", self.result.tag))
        operation, _ = self.flying.pop(tag)
        try:
            self.done[tag] = (operation.result(self.result), None)
        except Exception as error:  # pylint: disable=broad-except  # for whoever asks for this tag
            self.done[tag] = (None, error)
        finally:
            lib.mr_result_free(self.result)

    def wait(self, tag: int) -> Any:
        while tag not in self.done:
            self.take()
        answer, error = self.done.pop(tag)
        if error is not None:
            raise error
        return answer

    def close(self) -> None:
        """Cancels and waits: memory is free again."""
        if self.handle.pid == os.getpid():
            self.handle.drop_queue(self.queue)
        self.flying.clear()


class ObjectReader(io.RawIOBase):
    """Reads one version of an object: that which it has when it is opened.

    Blocks of block_size are kept, ahead of them in a read from front to back, behind them a few, up to read_ahead bytes in all. readinto() of large
    memory goes straight into it. One thread at a time, as with files."""

    def __init__(self, client: Any, bucket: str, key: str, *, size: Optional[int] = None, etag: Optional[str] = None, block_size: int = 4 << 20,
                 read_ahead: int = 32 << 20):
        super().__init__()
        self._client, self.bucket, self.key = client, bucket, key
        if size is None or etag is None:
            info = client.head(bucket, key)
            size, etag = info.size, info.etag
        self.size, self.etag = size, etag
        self._block = block_size
        self._blocks = max(2, read_ahead // block_size)
        self._flights: Optional[Flights] = None
        self._kept: "OrderedDict[int, Any]" = OrderedDict()  # by number of the block: its memory, or None while it comes
        self._at = 0
        self._expected = 0  # where a read from front to back goes on
        self._streak = 0

    # ---- blocks ---------------------------------------------------------------------------------------------

    def _length(self, block: int) -> int:
        return min(self._block, self.size - block * self._block)

    def _fetch(self, block: int) -> None:
        if block in self._kept or block * self._block >= self.size:
            return
        if self._flights is None:
            self._flights = Flights(self._client._handle(), 2 * self._blocks + 2)  # pylint: disable=protected-access
        while len(self._kept) >= self._blocks:
            oldest = next((number for number, memory in self._kept.items() if memory is not None), None)
            if oldest is None:
                return
            del self._kept[oldest]
        memory = self._flights.handle.pool.take(self._length(block))
        get = Get(self.bucket, self.key, block * self._block, self._length(block), None, memory, None, self.etag or None)
        self._flights.begin(block + 1, _ops.get_into(self._flights.handle.client, get, "auto"))
        self._kept[block] = None

    def _memory(self, block: int) -> Any:
        self._fetch(block)
        if block not in self._kept:  # all places are taken by blocks that come: the first of them is let go of once it is there
            self._kept[next(iter(self._kept))] = self._flights.wait(next(iter(self._kept)) + 1).buffer
            self._fetch(block)
        if self._streak > 0:  # front to back: twice as far ahead each time
            for ahead in range(1, min(1 << self._streak, self._blocks - 1) + 1):
                self._fetch(block + ahead)
        if self._kept[block] is None:
            try:
                self._kept[block] = self._flights.wait(block + 1).buffer
            except BaseException:
                self._kept.pop(block, None)
                raise
        self._kept.move_to_end(block)
        return self._kept[block]

    def _note(self, length: int) -> None:
        """Is this read from front to back?"""
        self._streak = min(self._streak + 1, 16) if self._at == self._expected else 0
        self._expected = self._at + length

    # ---- as a file ------------------------------------------------------------------------------------------

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        self._check()
        return self._at

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self._check()
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self.size}[whence]
        if base + offset < 0:
            raise ValueError("negative seek position")
        self._at = base + offset
        return self._at

    def _check(self) -> None:
        if self.closed:
            raise ValueError("I/O operation on closed file")

    def readinto(self, into: Any) -> int:
        """Fills the memory, but for what lies behind the object's end."""
        self._check()
        view = memoryview(into).cast("B")
        length = min(len(view), max(self.size - self._at, 0))
        self._note(length)
        if length >= 2 * self._block and self._at // self._block not in self._kept:  # not by way of blocks: straight there, in parallel
            self._client.get_into(self.bucket, self.key, view[:length], offset=self._at, length=length, if_match=self.etag or None)
            self._at += length
            return length
        done = 0
        while done < length:
            block, start = divmod(self._at, self._block)
            piece = memoryview(self._memory(block)).cast("B")[start:start + length - done]
            view[done:done + len(piece)] = piece
            done += len(piece)
            self._at += len(piece)
        return done

    def read(self, size: Optional[int] = -1) -> bytes:
        self._check()
        left = max(self.size - self._at, 0)
        data = bytearray(left if size is None or size < 0 else min(size, left))
        self.readinto(data)
        return bytes(data)

    def readall(self) -> bytes:
        return self.read()

    def close(self) -> None:
        if not self.closed and self._flights is not None:
            self._flights.close()
            self._kept.clear()
        super().close()


class ObjectWriter(io.RawIOBase):
    """Writes an object in parts, in parallel, in memory of in_flight + 1 parts at most. The object appears, whole, when the file is closed; it never does
    where a with statement ends by an exception, or after abort(). result has size and ETag afterwards.

    Parts begin at part_size and grow, so that 10,000 of them carry any object. One thread at a time, as with files."""

    def __init__(self, client: Any, bucket: str, key: str, *, content_type: Optional[str] = None, metadata: Optional[Mapping[str, str]] = None,
                 if_none_match: bool = False, if_match: Optional[str] = None, part_size: int = 8 << 20, in_flight: int = 4):
        super().__init__()
        self._upload = None
        if part_size < 5 << 20:
            raise ValueError("parts are at least 5 MiB")
        self._client, self.bucket, self.key = client, bucket, key
        self._about = (content_type, metadata, if_none_match, if_match)
        self._part_size, self._in_flight = part_size, max(1, in_flight)
        self._buffer = bytearray()
        self._written = 0
        self._number = 0
        self._flights: Optional[Flights] = None
        self._strings: Optional[Tuple[Strings, Any]] = None
        self._free: Deque[bytearray] = deque()
        self._failed = False
        self.result: Optional[PutResult] = None

    # ---- parts ----------------------------------------------------------------------------------------------

    def _size_of_next(self) -> int:
        return self._part_size << min(self._number // 1000, 7)

    def _begin(self) -> None:
        handle = self._client._handle()  # pylint: disable=protected-access
        strings, out = Strings(), ffi.new("struct mr_multipart **")
        request = _ops.put_request(strings, self.bucket, self.key, *self._about, "auto")
        rv = lib.mr_multipart_new(handle.client, request, out)
        if rv != 0:
            raise error_of(rv)
        self._upload = out[0]
        self._flights = Flights(handle, self._in_flight + 1)

    def _settle(self) -> None:
        """Waits for one part; raises what it failed of."""
        if not self._flights.done:
            self._flights.take()
        tag = next(iter(self._flights.done))
        self._flights.wait(tag)

    def _send(self) -> None:
        if self._upload is None:
            self._begin()
        while len(self._flights.flying) + len(self._flights.done) >= self._in_flight:
            self._settle()
        self._number += 1
        data, self._buffer = self._buffer, bytearray()
        handle = self._client._handle().client  # pylint: disable=protected-access
        self._flights.begin(self._number, _ops.part(handle, self._upload, self._number, data, f"{self.bucket}/{self.key}"))

    # ---- as a file ------------------------------------------------------------------------------------------

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._written

    def write(self, data: Any) -> int:
        if self.closed:
            raise ValueError("I/O operation on closed file")
        view = memoryview(data).cast("B")
        done = 0
        try:
            while done < len(view):
                if len(self._buffer) == self._size_of_next():
                    self._send()
                piece = view[done:done + self._size_of_next() - len(self._buffer)]
                self._buffer += piece
                done += len(piece)
        except BaseException:
            self._failed = True
            raise
        self._written += len(view)
        return len(view)

    def abort(self) -> None:
        """Gives the object up: nothing of it appears."""
        self._failed = True
        self.close()

    def close(self) -> None:
        if self.closed:
            return
        super().close()
        try:
            if not self._failed:
                self._finish()
        finally:
            self._clean_up()

    def _finish(self) -> None:
        if self._upload is None:
            content_type, metadata, if_none_match, if_match = self._about
            self.result = self._client.put(self.bucket, self.key, self._buffer, content_type=content_type, metadata=metadata,
                                           if_none_match=if_none_match, if_match=if_match)
            return
        if self._buffer:
            self._send()
        while self._flights.flying or self._flights.done:
            self._settle()
        self._flights.begin(self._number + 1, _ops.complete(self._upload, f"{self.bucket}/{self.key}"))
        self.result = self._flights.wait(self._number + 1)

    def _clean_up(self) -> None:
        self._buffer = bytearray()
        if self._flights is not None:
            self._flights.close()  # before the upload: no part of it is under way then
        if self._upload is not None and self._flights.handle.pid == os.getpid():
            lib.mr_multipart_free(self._upload)
        self._upload = None

    def __exit__(self, kind: Any, value: Any, traceback: Any) -> None:
        if kind is not None:
            self._failed = True
        self.close()

    def __del__(self) -> None:
        if not self.closed and getattr(self, "_part_size", None) is not None:
            self._failed = True  # forgotten, not finished: nothing appears
            self.close()
