"""Memory that the library reads and writes directly: anything with the buffer protocol, tensors by data_ptr() or DLPack."""
from __future__ import annotations

import ctypes
from typing import Any, NamedTuple

from ._millrace import ffi
from .pool import registered


class Memory(NamedTuple):
    """An address with what keeps it valid."""
    address: Any  # cffi: char *
    size: int
    owner: Any
    slab: Any = None  # of a pool: its client, the registered buffer, and the offset in it


class _DLDevice(ctypes.Structure):
    _fields_ = [("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32)]


class _DLDataType(ctypes.Structure):
    _fields_ = [("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16)]


class _DLTensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device", _DLDevice), ("ndim", ctypes.c_int32), ("dtype", _DLDataType),
                ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64)]


_HOST_DEVICES = (1, 3)  # kDLCPU, kDLCUDAHost (pinned)
_capsule_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_capsule_pointer.restype = ctypes.c_void_p
_capsule_pointer.argtypes = [ctypes.py_object, ctypes.c_char_p]


class _PyBuffer(ctypes.Structure):
    _fields_ = [("buf", ctypes.c_void_p), ("obj", ctypes.c_void_p), ("len", ctypes.c_ssize_t), ("itemsize", ctypes.c_ssize_t),
                ("readonly", ctypes.c_int), ("ndim", ctypes.c_int), ("format", ctypes.c_void_p), ("shape", ctypes.c_void_p),
                ("strides", ctypes.c_void_p), ("suboffsets", ctypes.c_void_p), ("internal", ctypes.c_void_p)]


_get_buffer = ctypes.pythonapi.PyObject_GetBuffer
_get_buffer.argtypes = [ctypes.py_object, ctypes.POINTER(_PyBuffer), ctypes.c_int]
_release_buffer = ctypes.pythonapi.PyBuffer_Release
_release_buffer.argtypes = [ctypes.POINTER(_PyBuffer)]
_release_buffer.restype = None


class _Export:
    """Holds memory by the buffer protocol: it neither moves nor goes meanwhile. (ffi.from_buffer() would do, but cffi 2.1 releases a buffer twice
    where the garbage collector finds it in a cycle.)"""

    def __init__(self, thing: Any, writable: bool):
        self.buffer = _PyBuffer()
        self.held = False
        _get_buffer(thing, ctypes.byref(self.buffer), 1 if writable else 0)
        self.held = True

    def __del__(self) -> None:
        if self.held:
            self.held = False
            _release_buffer(ctypes.byref(self.buffer))


def _of_tensor(tensor: Any) -> Memory:
    """torch and what looks like it."""
    device = getattr(getattr(tensor, "device", None), "type", "cpu")
    if device != "cpu":
        raise TypeError(f"memory of device {device!r} cannot be reached over TCP: copy through a tensor on the CPU")
    if not tensor.is_contiguous():
        raise ValueError("the tensor is not contiguous")
    return Memory(ffi.cast("char *", tensor.data_ptr()), tensor.numel() * tensor.element_size(), tensor)


def _of_dlpack(tensor: Any) -> Memory:
    device, _ = tensor.__dlpack_device__()
    if int(device) not in _HOST_DEVICES:
        raise TypeError("memory of this device cannot be reached over TCP")
    capsule = tensor.__dlpack__()
    view = _DLTensor.from_address(_capsule_pointer(capsule, b"dltensor"))
    shape = [view.shape[i] for i in range(view.ndim)]
    expected = 1
    for i in reversed(range(view.ndim)):
        if view.strides and shape[i] != 1 and view.strides[i] != expected:
            raise ValueError("the tensor is not contiguous")
        expected *= shape[i]
    size = expected * ((view.dtype.bits * view.dtype.lanes + 7) // 8)
    return Memory(ffi.cast("char *", (view.data or 0) + view.byte_offset), size, (capsule, tensor))


def memory_of(thing: Any, writable: bool) -> Memory:
    """The memory of a buffer or tensor, contiguous and on this host. TypeError, ValueError or BufferError where it is not."""
    if hasattr(thing, "data_ptr") and hasattr(thing, "is_contiguous"):
        return _of_tensor(thing)
    try:
        view = memoryview(thing)
    except TypeError:
        if hasattr(thing, "__dlpack__"):
            return _of_dlpack(thing)
        raise
    if writable and view.readonly:
        raise BufferError("the memory is read-only")
    if not view.c_contiguous:
        raise ValueError("the memory is not contiguous")
    if view.nbytes == 0:
        return Memory(ffi.NULL, 0, thing)
    export = _Export(view, writable)
    return Memory(ffi.cast("char *", export.buffer.buf), view.nbytes, export, getattr(thing, "millrace_slab", None))


def set_place(place: Any, memory: Memory, handle: Any) -> None:
    """Of a struct mr_place, for this client."""
    slab = memory.slab[1:] if memory.slab is not None and memory.slab[0] is handle else None
    if slab is None and memory.size > 0:
        slab = registered(handle, int(ffi.cast("uintptr_t", memory.address)), memory.size)
    if slab is not None:
        place.buffer, place.offset = slab
    else:
        place.memory = memory.address
    place.len = memory.size
