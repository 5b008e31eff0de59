"""libibverbs and librdmacm by way of independent_verbs.c: links, protection domains, regions, windows. Errors are OSError."""
import ctypes
import os
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LOCAL_WRITE, REMOTE_WRITE, REMOTE_READ, BIND = 1, 2, 4, 16
RECEIVE_ID = 1 << 24
ESTABLISHED, REJECTED, CONNECT_RESPONSE, DISCONNECTED = 9, 8, 5, 10
WITH_IMM, WITH_INV = 2, 8


class LinkFate(ctypes.Structure):
    """What rdma_cm said of a connection."""
    _fields_ = [("event", ctypes.c_int32), ("status", ctypes.c_int32), ("qp_number", ctypes.c_uint32),
                ("responder_resources", ctypes.c_uint32), ("initiator_depth", ctypes.c_uint32), ("length", ctypes.c_uint32),
                ("data", ctypes.c_uint8 * 256)]

    def private(self):
        return bytes(self.data[:self.length])


class Completion(ctypes.Structure):
    _fields_ = [("id", ctypes.c_uint64), ("status", ctypes.c_int32), ("opcode", ctypes.c_int32), ("flags", ctypes.c_int32),
                ("length", ctypes.c_uint32), ("immediate", ctypes.c_uint32), ("rkey", ctypes.c_uint32)]


def load():
    build = ROOT / os.environ.get("MILLRACE_BUILD", "build/release")
    library = ctypes.CDLL(str(build / "independent.so"))
    p, i, u32, u64, size = ctypes.c_void_p, ctypes.c_int, ctypes.c_uint32, ctypes.c_uint64, ctypes.c_size_t
    for name, result, arguments in [
            ("resolve", i, [ctypes.c_char_p, i, i, p]), ("free", None, [p]), ("domain_new", p, [p]), ("domain_free", i, [p]), ("windows", i, [p]),
            ("make_qp", i, [p, p, u32, u32]), ("post_receive", i, [p, u32]), ("received", p, [p, u32]), ("addresses", None, [p, p, p, p]),
            ("connect", i, [p, ctypes.c_char_p, u32, u32, u32, u32, i, p]), ("disconnect", i, [p]), ("fence", i, [p]), ("poll", i, [p, i, p, p]),
            ("send", i, [p, u64, ctypes.c_char_p, u32]), ("register", p, [p, p, size, i]), ("region_rkey", u32, [p]), ("deregister", i, [p]),
            ("window_new", p, [p, i]), ("window_free", i, [p]), ("bind", i, [p, u64, p, p, u64, u64, i, p]), ("invalidate", i, [p, u64, u32]),
            ("crc32c", u32, [u32, p, size])]:
        function = getattr(library, "vb_" + name)
        function.restype, function.argtypes = result, arguments
    return library


LIBRARY = load()


def check(rv, what):
    if rv < 0:
        raise OSError(-rv, f"{what}: {os.strerror(-rv)}")
    return rv


def made(pointer, what):
    if not pointer:
        raise OSError(0, f"{what} failed")
    return pointer


def crc32c(data):
    """Of bytes, or of a Memory."""
    if isinstance(data, Memory):
        return LIBRARY.vb_crc32c(0, data.address, data.size)
    view = (ctypes.c_char * len(data)).from_buffer_copy(data) if not isinstance(data, bytes) else data
    return LIBRARY.vb_crc32c(0, ctypes.cast(view, ctypes.c_void_p), len(data))


class Memory:
    """So many bytes at a fixed address; `at` and `to` cut a part out."""

    def __init__(self, size, fill=0):
        self.size = size
        self.bytes = (ctypes.c_char * max(size, 1))()
        self.address = ctypes.addressof(self.bytes)
        if fill:
            ctypes.memset(self.address, fill, size)

    def write(self, data, at=0):
        assert at + len(data) <= self.size
        ctypes.memmove(self.address + at, data, len(data))

    def read(self, at=0, size=None):
        return ctypes.string_at(self.address + at, self.size - at if size is None else size)

    def crc32c(self, at, size):
        assert at + size <= self.size
        return LIBRARY.vb_crc32c(0, self.address + at, size)


class Link:
    """One connection and its queue pair; owned by one thread."""

    def __init__(self, address, port, timeout_ms=10000):
        pointer = ctypes.c_void_p()
        check(LIBRARY.vb_resolve(address.encode(), port, timeout_ms, ctypes.byref(pointer)), f"resolve {address}")
        self.pointer = pointer
        self.next_id = 0
        self.ended = None  # the LinkFate that ended it

    def windows(self):
        """Which types of windows the device has: a set of 1 and 2."""
        bits = LIBRARY.vb_windows(self.pointer)
        return {kind for kind in (1, 2) if bits >> (kind - 1) & 1}

    def make_qp(self, domain, receives, size):
        check(LIBRARY.vb_make_qp(self.pointer, domain.pointer, receives, size), "queue pair")

    def addresses(self):
        """(own GID, the other's GID, number of the own queue pair)"""
        own, other, number = (ctypes.c_uint8 * 16)(), (ctypes.c_uint8 * 16)(), ctypes.c_uint32()
        LIBRARY.vb_addresses(self.pointer, own, other, ctypes.byref(number))
        return bytes(own), bytes(other), number.value

    def connect(self, data, qp_number=0, timeout_ms=10000, depth=(16, 16)):
        """depth: responder_resources and initiator_depth that are offered."""
        fate = LinkFate()
        check(LIBRARY.vb_connect(self.pointer, data, len(data), qp_number, *depth, timeout_ms, ctypes.byref(fate)), "connect")
        return fate

    def poll(self, timeout_ms):
        """A Completion, or None when the time is over or the connection has ended (`ended`)."""
        completion, fate = Completion(), LinkFate()
        what = check(LIBRARY.vb_poll(self.pointer, timeout_ms, ctypes.byref(completion), ctypes.byref(fate)), "poll")
        if what == 2:
            self.ended = fate
        return completion if what == 1 else None

    def new_id(self):
        self.next_id = (self.next_id + 1) % RECEIVE_ID
        return self.next_id

    def received(self, completion):
        """The bytes that came with a receive; the receive is posted again."""
        slot = completion.id - RECEIVE_ID
        data = ctypes.string_at(LIBRARY.vb_received(self.pointer, slot), completion.length)
        check(LIBRARY.vb_post_receive(self.pointer, slot), "post a receive")
        return data

    def send(self, data):
        number = self.new_id()
        check(LIBRARY.vb_send(self.pointer, number, data, len(data)), "send")
        return number

    def disconnect(self):
        LIBRARY.vb_disconnect(self.pointer)

    def fence(self):
        check(LIBRARY.vb_fence(self.pointer), "move a queue pair to the error state")

    def free(self):
        if self.pointer is not None:
            LIBRARY.vb_free(self.pointer)
            self.pointer = None


class Domain:
    def __init__(self, link):
        self.pointer = made(LIBRARY.vb_domain_new(link.pointer), "protection domain")

    def free(self):
        check(LIBRARY.vb_domain_free(self.pointer), "free a protection domain")


class Region:
    """Memory that the device knows."""

    def __init__(self, domain, memory, access):
        self.memory = memory
        self.pointer = made(LIBRARY.vb_register(domain.pointer, memory.address, max(memory.size, 1), access), "memory region")
        self.rkey = LIBRARY.vb_region_rkey(self.pointer)

    def free(self):
        check(LIBRARY.vb_deregister(self.pointer), "deregister")


class Window:
    def __init__(self, domain, kind):
        self.kind = kind
        self.pointer = made(LIBRARY.vb_window_new(domain.pointer, kind), "memory window")

    def bind(self, link, region, at, length, access):
        """(id of the completion, rkey)"""
        number, rkey = link.new_id(), ctypes.c_uint32()
        check(LIBRARY.vb_bind(link.pointer, number, self.pointer, region.pointer, region.memory.address + at, length, access, ctypes.byref(rkey)), "bind")
        return number, rkey.value

    def invalidate(self, link, rkey):
        number = link.new_id()
        check(LIBRARY.vb_invalidate(link.pointer, number, rkey), "invalidate")
        return number

    def free(self):
        check(LIBRARY.vb_window_free(self.pointer), "free a window")
