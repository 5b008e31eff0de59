"""millrace: a client of S3 object stores for AI training data.

    import millrace
    store = millrace.Client()                                      # endpoint and credentials as the AWS tools find them
    store.get_into("dataset", "shard-0", tensor, offset=0, length=tensor.nbytes)
    for result in store.get_batch([millrace.Get("dataset", key, 0, 10_000) for key in keys]): use(result.data)
"""
from .aio import AsyncClient
from .client import Client
from .errors import (AccessDenied, BucketNotEmpty, Busy, Canceled, ChecksumMismatch, ConnectionFailed, MillraceError, NotFound, ObjectChanged,
                     PreconditionFailed, RangeError, RequestTimeout, StoreFull, TooLarge, TransportUnavailable)
from .io import ObjectReader, ObjectWriter
from .pool import BufferPool
from .types import Bucket, Entry, Get, GetResult, ObjectInfo, PutResult, parse_url

__version__ = "0.2.0"

__all__ = [
    "AccessDenied", "AsyncClient", "Bucket", "BucketNotEmpty", "BufferPool", "Busy", "Canceled", "ChecksumMismatch", "Client", "ConnectionFailed",
    "Entry", "Get", "GetResult", "MillraceError", "NotFound", "ObjectChanged", "ObjectInfo", "ObjectReader", "ObjectWriter",
    "PreconditionFailed", "PutResult", "RangeError", "RequestTimeout", "StoreFull", "TooLarge", "TransportUnavailable", "open", "parse_url",
]


def open(url: str, mode: str = "rb", *, client: "Client | None" = None, **options):  # pylint: disable=redefined-builtin
    """A file of the object at "millrace://bucket/key", of a client made from the environment where none is given. See Client.open()."""
    return (client if client is not None else Client()).open(url, mode, **options)
