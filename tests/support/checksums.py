"""The checksums of S3, as the base64 text that headers carry, and their combinations for multipart uploads."""
import base64
import hashlib
import zlib

import awscrt.checksums
from awscrt.checksums import XXHash


def xxhash(running, data):
    running.update(data)
    return running.finalize()


# Name as the API has it -> function(bytes) -> digest bytes
DIGESTS = {
    "CRC32": lambda data: zlib.crc32(data).to_bytes(4, "big"),
    "CRC32C": lambda data: awscrt.checksums.crc32c(data).to_bytes(4, "big"),
    "CRC64NVME": lambda data: awscrt.checksums.crc64nvme(data).to_bytes(8, "big"),
    "SHA1": lambda data: hashlib.sha1(data).digest(),
    "SHA256": lambda data: hashlib.sha256(data).digest(),
    "SHA512": lambda data: hashlib.sha512(data).digest(),
    "MD5": lambda data: hashlib.md5(data).digest(),
    "XXHASH64": lambda data: xxhash(XXHash.new_xxhash64(), data),
    "XXHASH3": lambda data: xxhash(XXHash.new_xxhash3_64(), data),
    "XXHASH128": lambda data: xxhash(XXHash.new_xxhash3_128(), data),
}
KINDS = tuple(DIGESTS)
FULL_OBJECT_KINDS = ("CRC32", "CRC32C", "CRC64NVME")
COMPOSITE_KINDS = tuple(kind for kind in KINDS if kind != "CRC64NVME")


def checksum(kind, data):
    """Base64 text of data's checksum."""
    return base64.b64encode(DIGESTS[kind](data)).decode()


def composite(kind, parts):
    """Checksum of the parts' checksums with the number of parts, as S3 gives it for a COMPOSITE upload."""
    whole = b"".join(DIGESTS[kind](part) for part in parts)
    return f"{checksum(kind, whole)}-{len(parts)}"


def header(kind):
    return f"x-amz-checksum-{kind.lower()}"


def field(kind):
    """Name of the checksum in boto3's arguments and answers."""
    return f"Checksum{kind}"


def etag(data):
    return f'"{hashlib.md5(data).hexdigest()}"'


def multipart_etag(parts):
    whole = b"".join(hashlib.md5(part).digest() for part in parts)
    return f'"{hashlib.md5(whole).hexdigest()}-{len(parts)}"'


def content_md5(data):
    return base64.b64encode(hashlib.md5(data).digest()).decode()
