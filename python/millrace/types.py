"""What operations take and give."""
from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Dict, Optional, Tuple

__all__ = ["Get", "GetResult", "PutResult", "ObjectInfo", "Entry", "Bucket", "parse_url"]

_SCHEMES = ("millrace://", "s3://")


def parse_url(url: str) -> Tuple[str, str]:
    """Bucket and key of "millrace://bucket/key" (or "s3://…", or "bucket/key"); either may be ""."""
    for scheme in _SCHEMES:
        if url.startswith(scheme):
            url = url[len(scheme):]
            break
    else:
        if "://" in url:
            raise ValueError(f"not a millrace:// or s3:// URL: {url!r}")
    bucket, _, key = url.lstrip("/").partition("/")
    return bucket, key


@dataclass
class Get:
    """One read of a batch. length None: to the object's end; suffix: the last bytes instead. into: memory to fill; None: from the pool."""
    bucket: str
    key: str
    offset: int = 0
    length: Optional[int] = None
    suffix: Optional[int] = None
    into: Any = None
    version_id: Optional[str] = None
    if_match: Optional[str] = None

    @classmethod
    def of_url(cls, url: str, **rest: Any) -> "Get":
        bucket, key = parse_url(url)
        return cls(bucket, key, **rest)


@dataclass
class GetResult:
    """What came of one read. In a batch error may be set; then nothing else but size is to be relied on."""
    bytes: int = 0                  # that were got
    size: int = 0                   # of the whole object
    etag: str = ""
    transport: str = ""             # that carried them: "tcp", "rdma"
    wire_verified: bool = False     # compared with the endpoint's CRC32C of what it sent
    object_verified: bool = False   # compared with the object's own checksum
    restarts: int = 0
    error: Optional[Exception] = None
    buffer: Any = None              # the memory filled: that given, or a piece of the pool, which goes back when nobody holds it

    @property
    def data(self) -> memoryview:
        """The bytes got, as a view of the memory filled (which must have the buffer protocol); raises error where there is one."""
        if self.error is not None:
            raise self.error
        return memoryview(self.buffer).cast("B")[:self.bytes]


@dataclass
class PutResult:
    bytes: int
    etag: str
    version_id: str = ""
    transport: str = ""             # that carried them: "tcp", "rdma"


@dataclass
class ObjectInfo:
    size: int
    mtime: float
    etag: str
    version_id: str = ""
    checksum_kind: str = ""
    checksum: str = ""
    headers: Dict[str, str] = field(default_factory=dict)

    @property
    def content_type(self) -> Optional[str]:
        return self.headers.get("content-type")

    @property
    def metadata(self) -> Dict[str, str]:
        """User metadata: x-amz-meta-NAME."""
        return {name[11:]: value for name, value in self.headers.items() if name.startswith("x-amz-meta-")}


@dataclass(frozen=True)
class Entry:
    """Of a listing: an object or, where is_prefix, what several keys begin with."""
    key: str
    size: int = 0
    mtime: float = 0.0
    etag: str = ""
    is_prefix: bool = False
    version_id: str = ""            # of a listing of versions, as are the others below
    latest: bool = False            # the newest of its key
    marker: bool = False            # a delete marker: without size and ETag


@dataclass(frozen=True)
class Bucket:
    name: str
    created: float
