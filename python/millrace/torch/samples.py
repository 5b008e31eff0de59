"""What a dataset is made of: a table of ranges of objects, and a sample once its bytes are here."""
from __future__ import annotations

import hashlib
from array import array
from dataclasses import dataclass
from typing import Any, Iterable, List, Optional, Sequence, Union

import torch

from ..client import Client
from ..types import Get, parse_url

__all__ = ["Sample", "Samples", "Source"]

_TO_THE_END = -1  # for a length

Source = Union[str, "Samples", Iterable[Union[str, Get]]]


@dataclass
class Sample:
    """One sample as a transform gets it. data: its bytes, uint8, shape [bytes]; no copy was made of them, and what keeps it (or a view of it) keeps
    the memory."""
    index: int      # in the dataset
    bucket: str
    key: str
    offset: int     # of the range in the object, bytes
    data: torch.Tensor

    def tensor(self, dtype: torch.dtype = torch.uint8, shape: Optional[Sequence[int]] = None) -> torch.Tensor:
        """The bytes as a tensor of that type, in the machine's byte order, of that shape (flat by default); not a copy.

        RuntimeError: as many bytes are no such tensor."""
        made = self.data.view(dtype)
        return made if shape is None else made.view(*shape)


class Samples:
    """A table of ranges, in a fixed order; small for millions of them (24 bytes each, and each key once), the same after pickling.

    Ranges of objects that were listed or named with an ETag are read only while the object is that version: ObjectChanged otherwise."""

    def __init__(self) -> None:
        self._objects: List[tuple] = []     # bucket, key, ETag or ""
        self._object = array("q")           # of each sample: place in _objects,
        self._offset = array("q")           # bytes,
        self._length = array("q")           # bytes, or _TO_THE_END
        self._fingerprint: Optional[str] = None

    @classmethod
    def of(cls, source: Source, client: Client) -> "Samples":
        """Of a prefix "millrace://bucket/prefix" (its objects, listed now, in order of their keys; those that end with "/" and hold nothing are left
        out), of URLs and Gets, or of what is such a table already. A range that goes beyond its object's end gives what there is.
        ValueError: an entry that is no range from a beginning."""
        if isinstance(source, Samples):
            return source
        made = cls()
        if isinstance(source, str):
            bucket, prefix = parse_url(source)
            for entry in client.list(bucket, prefix):
                if entry.size > 0 or not entry.key.endswith("/"):
                    made._add(made._name(bucket, entry.key, entry.etag), 0, entry.size)
            return made
        names: dict = {}
        for one in source:
            get = Get.of_url(one) if isinstance(one, str) else one
            if get.suffix is not None or get.into is not None or get.version_id is not None or not get.bucket or not get.key:
                raise ValueError(f"a sample is a bucket, a key, an offset and a length (or none: to the end), not {one!r}")
            name = (get.bucket, get.key, get.if_match or "")
            if name not in names:
                names[name] = made._name(*name)
            made._add(names[name], get.offset, _TO_THE_END if get.length is None else get.length)
        return made

    @classmethod
    def of_records(cls, source: Source, record_bytes: int, client: Client, *, header_bytes: int = 0) -> "Samples":
        """Records of record_bytes each, one behind the other, in each of the objects, after header_bytes. ValueError: an object does not hold a whole
        number of them."""
        if record_bytes <= 0:
            raise ValueError("a record has bytes")
        made = cls()
        for get in cls.of(source, client).gets():
            size, etag = get.length, get.if_match
            if size is None:
                info = client.head(get.bucket, get.key)
                size, etag = info.size - get.offset, etag or info.etag
            count, rest = divmod(size - header_bytes, record_bytes)
            if count < 0 or rest != 0:
                raise ValueError(f"{get.bucket}/{get.key}: {size} bytes are not {header_bytes} and then records of {record_bytes}")
            name = made._name(get.bucket, get.key, etag or "")
            for i in range(count):
                made._add(name, get.offset + header_bytes + i * record_bytes, record_bytes)
        return made

    def _name(self, bucket: str, key: str, etag: str) -> int:
        self._objects.append((bucket, key, etag))
        return len(self._objects) - 1

    def _add(self, name: int, offset: int, length: int) -> None:
        self._object.append(name)
        self._offset.append(offset)
        self._length.append(length)

    def __len__(self) -> int:
        return len(self._object)

    def get(self, index: int) -> Get:
        """The read of a sample. IndexError where there is none; negative ones count from the end."""
        bucket, key, etag = self._objects[self._object[index]]
        length = self._length[index]
        return Get(bucket, key, self._offset[index], None if length == _TO_THE_END else length, if_match=etag or None)

    def gets(self) -> Iterable[Get]:
        return (self.get(i) for i in range(len(self)))

    @property
    def fingerprint(self) -> str:
        """Of all ranges and their order, hexadecimal: what a state refers to, and what all ranks must agree on. ETags do not count."""
        if self._fingerprint is None:
            digest = hashlib.sha256()
            for bucket, key, _ in self._objects:
                for name in (bucket, key):
                    data = name.encode("utf-8", "surrogateescape")
                    digest.update(len(data).to_bytes(4, "little") + data)
            for column in (self._object, self._offset, self._length):
                digest.update(column.tobytes())
            self._fingerprint = digest.hexdigest()[:32]
        return self._fingerprint

    def sample(self, index: int, buffer: Any, size: int) -> Sample:
        """Of memory that holds its bytes."""
        bucket, key, _ = self._objects[self._object[index]]
        data = torch.frombuffer(buffer, dtype=torch.uint8, count=size) if size > 0 else torch.empty(0, dtype=torch.uint8)
        return Sample(index, bucket, key, self._offset[index], data)
