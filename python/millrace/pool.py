"""Memory registered once and given out in pieces."""
from __future__ import annotations

import ctypes
import mmap
import threading
import weakref
from typing import Any, Dict, List, Optional, Tuple

from ._millrace import ffi, lib
from .errors import error_of

_SMALLEST, _SLAB = 4096, 16 << 20
_pools: "weakref.WeakSet[BufferPool]" = weakref.WeakSet()


def registered(handle: Any, address: int, size: int) -> Optional[Tuple[Any, int]]:
    """The registered buffer of this client, and the offset in it, where memory of the pool lies: as an array or a tensor it does not say so itself."""
    for pool in list(_pools):
        if pool.belongs_to(handle):
            return pool.find(address, size)
    return None


class BufferPool:
    """Gives out memory for reads: pieces of registered slabs, rounded up to powers of two. A piece goes back when nobody holds it or a view of it.

    limit bounds the bytes of slabs; what is asked for beyond comes from ordinary memory. Any thread."""

    def __init__(self, handle: Any, limit: int = 256 << 20):
        self._handle = handle
        self._limit = limit
        self._held = 0
        self._free: Dict[int, List[Tuple[int, int]]] = {}  # by size: slab and offset
        self._slabs: List[Tuple[mmap.mmap, Any]] = []
        self._bounds: List[Tuple[int, int, Any]] = []  # of slabs: address, length, registered buffer
        self._lock = threading.RLock()  # a piece may go back while one is taken: the garbage collector runs anywhere
        _pools.add(self)

    def belongs_to(self, handle: Any) -> bool:
        return self._handle is handle  # a client made later may lie at the same address

    def find(self, address: int, size: int) -> Optional[Tuple[Any, int]]:
        for start, length, buffer in self._bounds:
            if start <= address and address + size <= start + length:
                return buffer, address - start
        return None

    def take(self, size: int) -> Any:
        """Writable memory of size bytes, with the buffer protocol."""
        rounded = max(_SMALLEST, 1 << (max(size, 1) - 1).bit_length())
        with self._lock:
            free = self._free.setdefault(rounded, [])
            if not free and not self._grow(rounded, free):
                return (ctypes.c_ubyte * size)()
            slab, offset = free.pop()
        memory, buffer = self._slabs[slab]
        piece = (ctypes.c_ubyte * size).from_buffer(memory, offset)
        piece.millrace_slab = (self._handle, buffer, offset)
        weakref.finalize(piece, self._put, rounded, (slab, offset)).atexit = False
        return piece

    def _grow(self, rounded: int, free: List[Tuple[int, int]]) -> bool:
        slab = max(rounded, _SLAB)
        if self._held + slab > self._limit:
            return False
        memory, out = mmap.mmap(-1, slab), ffi.new("struct mr_buffer **")
        address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
        rv = lib.mr_buffer_register(self._handle, ffi.cast("void *", address), slab, out)
        if rv != 0:
            raise error_of(rv)
        self._slabs.append((memory, out[0]))
        self._bounds.append((address, slab, out[0]))
        self._held += slab
        free.extend((len(self._slabs) - 1, at) for at in range(slab - rounded, -1, -rounded))
        return True

    def _put(self, rounded: int, place: Tuple[int, int]) -> None:
        with self._lock:
            self._free[rounded].append(place)

    def close(self) -> None:
        """Gives the registrations up; pieces that are held stay valid memory."""
        _pools.discard(self)
        with self._lock:
            for _, buffer in self._slabs:
                lib.mr_buffer_free(buffer)
            self._limit = 0
            self._bounds = []
            self._free = {size: [] for size in self._free}
