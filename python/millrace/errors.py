"""What goes wrong, as exceptions. Each is also the built-in exception that says the same, so that `except FileNotFoundError` works."""
from __future__ import annotations

import errno
import os

__all__ = ["MillraceError", "NotFound", "AccessDenied", "PreconditionFailed", "ObjectChanged", "ChecksumMismatch", "TooLarge", "RangeError",
           "Busy", "StoreFull", "ConnectionFailed", "RequestTimeout", "Canceled", "TransportUnavailable", "BucketNotEmpty", "error_of"]


class MillraceError(OSError):
    """A failed operation. errno, s3_code ("NoSuchKey"; "" where the endpoint gave none), http_status (0: no answer) and request_id say more."""

    def __init__(self, code: "int | str", message: str = "", *, s3_code: str = "", http_status: int = 0, request_id: str = "", where: str = ""):
        if isinstance(code, str):  # made anew of its text alone, as PyTorch does with what a worker raised
            code, message = next((known for known, kind in _KINDS.items() if kind is type(self)), errno.EIO), code
        text = message or os.strerror(code)
        super().__init__(code, f"{where}: {text}" if where else text)
        self.s3_code = s3_code
        self.http_status = http_status
        self.request_id = request_id

    def __reduce__(self):
        return _again, (type(self), self.errno, self.strerror, self.s3_code, self.http_status, self.request_id)


def _again(kind, code, message, s3_code, http_status, request_id):
    return kind(code, message, s3_code=s3_code, http_status=http_status, request_id=request_id)


class NotFound(MillraceError, FileNotFoundError):
    """No such key, bucket, version or upload."""


class AccessDenied(MillraceError, PermissionError):
    """Refused, or there are no credentials."""


class PreconditionFailed(MillraceError, FileExistsError):
    """It exists already, or a condition does not hold."""


class ObjectChanged(MillraceError):
    """The object was replaced while it was read, or is not the version asked for."""


class ChecksumMismatch(MillraceError):
    """Bytes do not match their checksum."""


class TooLarge(MillraceError):
    """The bytes do not fit their place."""


class RangeError(MillraceError, ValueError):
    """The range begins behind the object's end."""


class Busy(MillraceError, BlockingIOError):
    """The endpoint asked for fewer requests to the last attempt. What was to be changed may have been."""


class StoreFull(MillraceError):
    """The store is full."""


class ConnectionFailed(MillraceError, ConnectionError):
    """The endpoint was not reached, or the connection broke. What was to be changed may have been: look what is there."""


class RequestTimeout(MillraceError, TimeoutError):
    """No answer in time."""


class Canceled(MillraceError, InterruptedError):
    """Canceled."""


class TransportUnavailable(MillraceError):
    """This transport is not there."""


class BucketNotEmpty(MillraceError):
    """The bucket holds objects."""


_KINDS = {
    errno.ENOENT: NotFound, errno.EACCES: AccessDenied, errno.EEXIST: PreconditionFailed, errno.ESTALE: ObjectChanged,
    errno.EBADMSG: ChecksumMismatch, errno.EMSGSIZE: TooLarge, errno.ERANGE: RangeError, errno.EBUSY: Busy, errno.ENOSPC: StoreFull,
    errno.ECONNREFUSED: ConnectionFailed, errno.EIO: ConnectionFailed, errno.ETIMEDOUT: RequestTimeout, errno.ECANCELED: Canceled,
    errno.EOPNOTSUPP: TransportUnavailable, errno.ENOTEMPTY: BucketNotEmpty,
}


def error_of(code: int, **details) -> MillraceError:
    """The exception of a (negative) result."""
    return _KINDS.get(-code, MillraceError)(-code, **details)
