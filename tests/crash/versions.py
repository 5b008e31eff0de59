"""Workers of buckets with versions, each of a bucket of its own. They remember every version and delete marker that was acknowledged, so
that after a crash all of them must be there, with their bytes and tags, and nothing else. Versioning is suspended now and then, so that
some versions are null versions.

A change without an answer, or answered 503, may have happened or not: what a listing shows after the restart settles it. Until then its
key is left alone.
"""
import dataclasses

import botocore.exceptions

from tests.crash.history import KIB, MIB, SIZES, WEIGHTS, Mismatch, Worker, digest, send_parts

MARKER = "delete marker"
NULL = "null"
STATES = ("Enabled", "Suspended")


@dataclasses.dataclass
class Version:
    id: str
    content: str  # digest, or MARKER
    tags: str = ""


@dataclasses.dataclass
class Unsure:
    """A change of which nobody knows whether it happened."""
    key: str                 # "": the bucket's versioning
    what: str                # add, cut, tag, switch
    value: str               # digest or MARKER; id; id; state
    tags: str = ""


def listed(s3, bucket):
    """(versions, delete markers) of each key: [(id, is latest), ...], newest first."""
    found = {}
    for page in s3.get_paginator("list_object_versions").paginate(Bucket=bucket):
        for kind, entries in enumerate((page.get("Versions", []), page.get("DeleteMarkers", []))):
            for entry in entries:
                found.setdefault(entry["Key"], ([], []))[kind].append((entry["VersionId"], entry["IsLatest"]))
    return found


def tags_of(s3, bucket, key, version):
    return "&".join(f"{tag['Key']}={tag['Value']}" for tag in s3.get_object_tagging(Bucket=bucket, Key=key, VersionId=version)["TagSet"])


class VersionWorker(Worker):
    def __init__(self, number, seed):
        super().__init__(f"v{number}", seed, f"versions{number}")
        self.state = STATES[0]
        self.versions = {}  # key -> [Version, ...], newest first
        self.unsure = []

    def begin(self, s3):
        s3.create_bucket(Bucket=self.bucket)
        self.set_state(s3, self.state)

    def set_state(self, s3, state):
        return s3.put_bucket_versioning(Bucket=self.bucket, VersioningConfiguration={"Status": state})

    def key(self):
        return f"k{self.random.randrange(6)}"

    def step(self, s3):
        key = self.key()
        if any(change.key in (key, "") for change in self.unsure):
            return
        if self.random.random() < 0.05:
            self.counts["switch"] = self.counts.get("switch", 0) + 1
            self.switch(s3)
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
        answer = self.ask(Unsure(key, "add", content), call)
        if answer is None:
            return
        version = answer["VersionId"]
        if (version == NULL) != (self.state != STATES[0]):
            raise Mismatch(f"{key}: a version {version} while versioning is {self.state}")
        self.added(key, Version(version, content))

    def added(self, key, version):
        mine = self.versions.setdefault(key, [])
        if version.id == NULL:
            mine[:] = [v for v in mine if v.id != NULL]
        mine.insert(0, version)

    def switch(self, s3):
        state = STATES[self.state == STATES[0]]
        if self.ask(Unsure("", "switch", state), lambda: self.set_state(s3, state)) is not None:
            self.state = state

    def put(self, s3, key):
        data = self.body(self.random.choices(SIZES, WEIGHTS)[0])
        self.add(key, digest(data), lambda: s3.put_object(Bucket=self.bucket, Key=key, Body=data))

    def mark(self, s3, key):
        self.add(key, MARKER, lambda: s3.delete_object(Bucket=self.bucket, Key=key))

    def multipart(self, s3, key):
        parts = [self.body(5 * MIB), self.body(self.random.choice([1, 5000, 200 * KIB]))]
        complete = send_parts(s3, self.bucket, key, parts)
        if complete:
            self.add(key, digest(b"".join(parts)), lambda: s3.complete_multipart_upload(**complete))

    def draw(self, key, objects):
        some = [v for v in self.versions.get(key, []) if v.content != MARKER or not objects]
        return self.random.choice(some) if some else None

    def cut(self, s3, key):
        version = self.draw(key, False)
        if version is not None and self.ask(Unsure(key, "cut", version.id), lambda: s3.delete_object(
                Bucket=self.bucket, Key=key, VersionId=version.id)) is not None:
            self.versions[key].remove(version)

    def tag(self, s3, key):
        version, tags = self.draw(key, True), f"n={self.random.randrange(1000)}"
        if version is None:
            return
        name, value = tags.split("=")
        if self.ask(Unsure(key, "tag", version.id, tags), lambda: s3.put_object_tagging(
                Bucket=self.bucket, Key=key, VersionId=version.id, Tagging={"TagSet": [{"Key": name, "Value": value}]})) is not None:
            version.tags = tags

    def read(self, s3, key):
        version = self.draw(key, True)
        if version is None:
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
        state = s3.get_bucket_versioning(Bucket=self.bucket).get("Status")
        if state not in {self.state} | {change.value for change in self.unsure if change.what == "switch"}:
            raise Mismatch(f"versioning of {self.bucket} is {state}, was {self.state}")
        self.state = state
        found = listed(s3, self.bucket)
        for change in self.unsure:
            if change.key != "":
                self.settle_change(s3, change, found.get(change.key, ([], [])))
        self.unsure = []

    def settle_change(self, s3, change, found):
        """check() judges what it comes to."""
        mine, there = self.versions.setdefault(change.key, []), [version for kind in found for version, _ in kind]
        if change.what == "add":
            newest = next((version for version, latest in found[change.value == MARKER] if latest), None)
            known = next((v for v in mine if v.id == newest), None)
            if newest is None or (known is not None and newest != NULL):
                return
            if known is not None and known is mine[0] and known.content == change.value:  # the same but for its tags
                known.tags = "" if known.content == MARKER else tags_of(s3, self.bucket, change.key, NULL) and known.tags
            elif change.value == MARKER or self.fetch(s3, change.key, VersionId=newest) == change.value:
                self.added(change.key, Version(newest, change.value))
        elif change.what == "cut":
            mine[:] = [v for v in mine if v.id != change.value or v.id in there]
        else:
            for version in mine:
                if version.id == change.value and tags_of(s3, self.bucket, change.key, version.id) == change.tags:
                    version.tags = change.tags

    def check(self, s3):
        """All versions by content, in the listing's order."""
        found = listed(s3, self.bucket)
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
