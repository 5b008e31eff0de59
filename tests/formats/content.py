"""Bodies that compress well, with parity that does, and in which no two blocks are alike: a block in the wrong place is noticed."""
import hashlib

BLOCK = 16 << 10


def body(tag, size):
    """`size` bytes that follow from `tag`."""
    filler = hashlib.sha256(tag.encode("utf-8", "surrogatepass")).digest() * (BLOCK // 32)
    blocks = [b"%016x" % at + filler[16:] for at in range(0, size, BLOCK)]
    return b"".join(blocks)[:size]


def sha256(data):
    return hashlib.sha256(data).hexdigest()
