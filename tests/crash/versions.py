"""Workers of a bucket with versions. Each remembers every version and delete marker of its own keys that was acknowledged, so that after
a crash all of them must be there, with their bytes and tags, and nothing else.

A change without an answer, or answered 503, may have happened or not: what a listing shows after the restart settles it.
"""
import dataclasses

import botocore.exceptions

from tests.crash.history import KIB, MIB, SIZES, WEIGHTS, Mismatch, Worker, digest

MARKER = "delete marker"


@dataclasses.dataclass
class Version:
    id: str
    content: str  # digest, or MARKER
    tags: str = ""


@dataclasses.dataclass
class Unsure:
    """A change of which nobody knows whether it happened."""
    key: str
    what: str                # add, cut, tag
    value: str               # digest or MARKER; id; id
    older: tuple             # ids of the key then, newest first: an added version is newer than they are
    tags: str = ""


def listed(s3, bucket, prefix):
    """(versions, delete markers) of each key: [(id, is latest), ...], newest first."""
    found = {}
    for page in s3.get_paginator("list_object_versions").paginate(Bucket=bucket, Prefix=prefix):
        for kind, entries in enumerate((page.get("Versions", []), page.get("DeleteMarkers", []))):
            for entry in entries:
                found.setdefault(entry["Key"], ([], []))[kind].append((entry["VersionId"], entry["IsLatest"]))
    return found


def tags_of(s3, bucket, key, version):
    return "&".join(f"{tag['Key']}={tag['Value']}" for tag in s3.get_object_tagging(Bucket=bucket, Key=key, VersionId=version)["TagSet"])


class VersionWorker(Worker):
    def __init__(self, number, seed, bucket):
        super().__init__(f"v{number}", seed, bucket)
        self.versions = {}  # key -> [Version, ...], newest first
        self.unsure = []

    def key(self):
        return f"{self.number}/k{self.random.randrange(6)}"

    def step(self, s3):
        key = self.key()
        many = len(self.versions.get(key, [])) > 8
        operation = self.random.choices([self.put, self.mark, self.cut, self.tag, self.multipart, self.read],
                                        [40, 12, 60 if many else 15, 8, 5, 15])[0]
        self.counts[operation.__name__] = self.counts.get(operation.__name__, 0) + 1
        operation(s3, key)

    def ask(self, change, call):
        """The answer; None: nobody knows whether it happened."""
        self.unsure.append(change)
        try:
            answer = call()
        except botocore.exceptions.ClientError as error:
            if error.response["ResponseMetadata"]["HTTPStatusCode"] != 503:
                raise
            return None
        self.unsure.remove(change)
        return answer

    def add(self, key, content, call):
        mine = self.versions.setdefault(key, [])
        answer = self.ask(Unsure(key, "add", content, tuple(v.id for v in mine)), call)
        if answer is not None:
            mine.insert(0, Version(answer["VersionId"], content))

    def put(self, s3, key):
        data = self.body(self.random.choices(SIZES, WEIGHTS)[0])
        self.add(key, digest(data), lambda: s3.put_object(Bucket=self.bucket, Key=key, Body=data))

    def mark(self, s3, key):
        self.add(key, MARKER, lambda: s3.delete_object(Bucket=self.bucket, Key=key))

    def multipart(self, s3, key):
        parts = [self.body(5 * MIB), self.body(self.random.choice([1, 5000, 200 * KIB]))]
        try:
            upload = s3.create_multipart_upload(Bucket=self.bucket, Key=key)["UploadId"]
            done = [{"PartNumber": n, "ETag": s3.upload_part(Bucket=self.bucket, Key=key, UploadId=upload, PartNumber=n, Body=part)["ETag"]}
                    for n, part in enumerate(parts, 1)]
        except botocore.exceptions.ClientError as error:
            if error.response["ResponseMetadata"]["HTTPStatusCode"] != 503:
                raise
            return
        self.add(key, digest(b"".join(parts)), lambda: s3.complete_multipart_upload(
            Bucket=self.bucket, Key=key, UploadId=upload, MultipartUpload={"Parts": done}))

    def draw(self, key, objects):
        some = [v for v in self.versions.get(key, []) if v.content != MARKER or not objects]
        return self.random.choice(some) if some else None

    def cut(self, s3, key):
        version = self.draw(key, False)
        if version is not None and self.ask(Unsure(key, "cut", version.id, ()), lambda: s3.delete_object(
                Bucket=self.bucket, Key=key, VersionId=version.id)) is not None:
            self.versions[key].remove(version)

    def is_unsure(self, key):
        return any(change.key == key for change in self.unsure)

    def tag(self, s3, key):
        version, tags = self.draw(key, True), f"n={self.random.randrange(1000)}"
        if version is None or self.is_unsure(key):
            return
        name, value = tags.split("=")
        if self.ask(Unsure(key, "tag", version.id, (), tags), lambda: s3.put_object_tagging(
                Bucket=self.bucket, Key=key, VersionId=version.id, Tagging={"TagSet": [{"Key": name, "Value": value}]})) is not None:
            version.tags = tags

    def read(self, s3, key):
        version = self.draw(key, True)
        if version is None or self.is_unsure(key):
            return
        try:
            self.check_version(s3, key, version)
            self.check_newest(s3, key)
        except botocore.exceptions.ClientError as error:
            if error.response["ResponseMetadata"]["HTTPStatusCode"] != 503:
                raise Mismatch(f"{key} version {version.id}: {error}") from error

    def fetch(self, s3, key, **which):
        return digest(s3.get_object(Bucket=self.bucket, Key=key, **which)["Body"].read())

    def check_version(self, s3, key, version):
        found = self.fetch(s3, key, VersionId=version.id)
        if found != version.content:
            raise Mismatch(f"{key} version {version.id}: reads {found}, is {version.content}")

    def check_newest(self, s3, key):
        mine = self.versions.get(key, [])
        expected = mine[0].content if mine else MARKER
        try:
            found = self.fetch(s3, key)
        except botocore.exceptions.ClientError as error:
            if error.response["Error"]["Code"] != "NoSuchKey":
                raise
            found = MARKER
        if found != expected:
            raise Mismatch(f"{key}: reads {found}, the newest version is {expected}")

    def settle(self, s3):
        """After a restart: what was unsure has happened or not, and stays so."""
        found = listed(s3, self.bucket, f"{self.number}/")
        for key in {*self.versions, *found}:
            self.settle_key(s3, key, found.get(key, ([], [])))
        self.unsure = []

    def settle_key(self, s3, key, found):
        unsure, mine = [change for change in self.unsure if change.key == key], self.versions.setdefault(key, [])
        there = {version: content for kind, content in enumerate((None, MARKER)) for version, _ in found[kind]}
        gone = [v for v in mine if v.id not in there]
        lost = {v.id for v in gone} - {change.value for change in unsure if change.what == "cut"}
        if lost:
            raise Mismatch(f"{key}: {len(lost)} of {len(mine)} versions that were acknowledged are gone")
        for version in gone:
            mine.remove(version)
        new = {version: content or self.fetch(s3, key, VersionId=version)
               for version, content in there.items() if version not in {v.id for v in mine}}
        for change in unsure:
            if change.what == "add":
                self.settle_add(change, mine, new)
            elif change.what == "tag":
                for version in mine:
                    if version.id == change.value and tags_of(s3, self.bucket, key, version.id) == change.tags:
                        version.tags = change.tags
        if new:
            raise Mismatch(f"{key}: versions that nobody wrote, or that were deleted: {new}")

    @staticmethod
    def settle_add(change, mine, new):
        """If it happened, its version comes above those that were there before it."""
        added = next((version for version, content in new.items() if content == change.value), None)
        if added is not None:
            del new[added]
            at = next((i for i, v in enumerate(mine) if v.id in change.older), len(mine))
            mine.insert(at, Version(added, change.value))

    def check(self, s3):
        """All versions by content, in the listing's order."""
        found = listed(s3, self.bucket, f"{self.number}/")
        for key in {*self.versions, *found}:
            mine = self.versions.get(key, [])
            expected = tuple([(v.id, v is mine[0]) for v in mine if (v.content == MARKER) == is_marker] for is_marker in (False, True))
            if found.get(key, ([], [])) != expected:
                raise Mismatch(f"{key}: the listing has {found.get(key)}, expected {expected}")
            for version in mine:
                if version.content != MARKER:
                    self.check_version(s3, key, version)
                    if tags_of(s3, self.bucket, key, version.id) != version.tags:
                        raise Mismatch(f"{key} version {version.id}: has other tags than {version.tags!r}")
            self.check_newest(s3, key)
        return sum(len(mine) for mine in self.versions.values())
