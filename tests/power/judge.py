"""Judges an image: starts the daemon on it and compares every answer with the record."""
import json
import os
import random
import shutil
import tempfile
import time
from pathlib import Path

from tests.power.cutfs import image, roomy
from tests.power.files import broken_promises
from tests.power.history import DRIVES, LOG_BYTES, SETTINGS, all_in, credentials, healed, wait_for
from tests.power.workload import BUCKET, Client, digest
from tests.support.daemon import Daemon
from tests.support.s3raw import RawClient


class Mismatch(AssertionError):
    """Something acknowledged is not there, something never sent is, or the store is not well."""


class Cut:
    """Where and how: the number of the last entry, what becomes of volatile pieces, and whether the indexes go, too."""

    def __init__(self, number, mode, seed, forget=False):
        self.number, self.mode, self.seed, self.forget = number, mode, seed, forget

    def __str__(self):
        return f"{self.number}:{self.mode}:{self.seed}{':forget' if self.forget else ''}"

    @staticmethod
    def parse(text):
        number, mode, seed, *rest = text.split(":")
        return Cut(int(number), mode, int(seed), rest == ["forget"])


class Judge:
    """One image, its daemon and what it answers."""

    def __init__(self, history, cut, folder):
        self.history, self.record, self.cut, self.folder = history, history.record, cut, folder
        self.pieces = image(history.log, cut.number, cut.mode, cut.seed, folder / "image")
        self.drives = [folder / f"image/drive{i + 1}" for i in range(DRIVES)]
        self.daemon = Daemon(drive_paths=self.drives, ec="2+2", settings=SETTINGS, folder=folder, credentials=False, env=history.environment())
        self.formatted = cut.number >= self.record.ready
        self.daemon.format = not self.formatted

    def client(self):
        return Client(self.daemon.host, self.daemon.port, self.keys())

    def keys(self):
        return credentials(self.drives[0]) if self.history.keys_on_drives else self.history.keys

    def expect(self, condition, *what):
        if not condition:
            raise Mismatch(" ".join(map(str, what)))

    def check_files(self):
        wrong = broken_promises(self.history, self.cut.number, self.folder / "image", LOG_BYTES)
        self.expect(not wrong, "; ".join(wrong))

    # ---- what the record knows --------------------------------------------------------------------------------

    def objects(self, client):
        found = {}
        for key, thing in self.record.keys.items():
            possible = thing.possible(self.cut.number)
            found[key] = client.get(key)
            self.expect(found[key] in possible, f"{key} is {found[key]}, may be {possible}")
        names = client.listed()
        there = {key for key, content in found.items() if content is not None}
        self.expect(names == there, f"listing: too many {names - there}, missing {there - names}")
        return found

    def buckets(self, client):
        found = {}
        for name, thing in self.record.buckets.items():
            found[name] = client.bucket(name)
            self.expect(found[name] in thing.possible(self.cut.number), f"bucket {name}: {found[name]}")
        return found

    def uploads(self, client):
        found = {}
        for upload in self.record.uploads:
            possible = upload.possible(self.cut.number)
            parts = found[upload.id] = client.parts(upload.key, upload.id)
            self.expect(("open" if parts is not None else None) in possible, f"upload {upload.id} of {upload.key}: {parts}, may be {possible}")
            for number, part in upload.parts.items() if parts is not None else ():
                self.expect(parts.get(number) in part.possible(self.cut.number), f"part {number} of {upload.id}: {parts.get(number)}")
        return found

    def everything(self):
        client = self.client()
        try:
            bucket = self.record.buckets[BUCKET]
            if client.bucket(BUCKET) is None:
                self.expect(None in bucket.possible(self.cut.number), "the bucket is gone")
                return None
            return self.objects(client), self.buckets(client), self.uploads(client)
        finally:
            client.close()

    def complete_what_is_open(self, uploads):
        """Parts that were acknowledged must be as good as before: as an object they are read."""
        client = self.client()
        for upload in self.record.uploads:
            parts = uploads.get(upload.id)
            if not parts:
                continue
            client.complete(upload.key, upload.id, parts)
            self.expect(client.get(upload.key) == digest(b"".join(upload.bodies[n] for n in sorted(parts))), f"completed {upload.key}")
        client.close()

    # ---- the store itself ----------------------------------------------------------------------------------------

    def well(self):
        """No drive is out for good: a power cut is no damage."""
        wait_for("all drives", lambda: all_in(self.daemon), self.daemon)
        health = self.daemon.health_json()[1]
        self.expect(health["writable"], health)

    def goes_on(self):
        client = self.client()
        if client.bucket(BUCKET) is None:
            client.call("PUT", f"/{BUCKET}")
        for key, size in (("after/small", 3000), ("after/large", 300_000)):
            body = os.urandom(size)
            client.put(key, body)
            self.expect(client.get(key) == digest(body), f"{key} after the cut")
            client.delete(key)
        client.close()

    def lacking(self, uploads):
        """There are parts of open uploads from when a drive was out: these are not healed before they are an object."""
        lost = dict((name, at) for at, name in self.record.phases)["lose_a_drive"]
        return any(uploads.get(upload.id) and any(part.changes[-1][1] is None or part.changes[-1][1] > lost for part in upload.parts.values())
                   for upload in self.record.uploads)

    def verified(self, uploads):
        """Every shard of every object is whole where it is said to be."""
        wait_for("the end of healing", lambda: healed(self.daemon), self.daemon)
        raw = RawClient(self.daemon.host, self.daemon.admin_port, *self.keys())
        report = json.loads(raw.request("POST", "/admin/v1/verify").body)
        while report["running"] or not report["ended_ms"]:
            time.sleep(0.02)
            report = json.loads(raw.request("GET", "/admin/v1/verify").body)
        faults = ["damaged_shards", "unreadable_objects"] + ([] if self.lacking(uploads) else ["missing_shards"])
        bad = {name: report[name] for name in faults if report[name] != 0}
        self.expect(not bad, "verification:", bad)

    def forget_indexes(self):
        self.daemon.kill()
        for drive in self.drives:
            shutil.rmtree(drive / "index")
        self.daemon.restart(60)

    def run(self):
        self.check_files()
        self.daemon.start(20)
        self.daemon.format = False
        self.well()
        if not self.formatted:
            self.goes_on()
            return
        self.expect(self.keys() == self.history.keys, "other credentials")
        found = self.everything()
        if self.cut.forget:
            self.forget_indexes()
            self.expect(self.everything() == found, "without the indexes the answers are others")
            self.well()
        self.verified(found[2] if found is not None else {})
        if found is not None:
            self.complete_what_is_open(found[2])
        self.goes_on()


def judge(history, cut):
    """None, or what is wrong."""
    folder = Path(tempfile.mkdtemp(prefix="millrace-image-", dir=roomy()))
    one = None
    try:
        one = Judge(history, cut, folder)
        one.run()
        one.daemon.stop()
        return None
    except Exception as error:  # all that goes wrong is a finding, and the others are to be looked at, too
        text = f"cut {cut} in phase '{history.record.phase_at(cut.number)}': {type(error).__name__}: {error}"
        if one is not None:
            text += f"\n  entry: {history.entries[cut.number - 1]}\n  volatile pieces:\n    " + "\n    ".join(one.pieces.splitlines()[-40:])
            text += f"\n  log of the daemon:\n{one.daemon.tail(3000)}"
        return text
    finally:
        if one is not None:
            one.daemon.kill()
        shutil.rmtree(folder, ignore_errors=True)


# ---- where to cut -----------------------------------------------------------------------------------------------------

FLUSHES = ("range", "fsync", "fsyncdir")
MODES = ["none"] * 9 + ["random"] * 7 + ["but"] * 2 + ["one", "all"]


def kind_of(entry):
    """Entries of one kind are alike: what they do, and to which file of a drive."""
    place = entry.path.split("/")
    return entry.kind, place[1] if len(place) > 1 else ""


def choose(history, first, last, count, seed):
    """So many cuts within first..last: before flushes and after all else, all kinds of entries equally; at acknowledgements; anywhere."""
    chance = random.Random(f"{seed}/{first}")
    kinds, acks = {}, []
    for entry in history.entries[first:last]:
        kinds.setdefault(kind_of(entry), []).append(entry.number - (entry.kind in FLUSHES))
    for thing in history.record.things():
        acks += [after for _, after, _ in thing.changes if after is not None and first < after <= last]
    cuts = []
    for _ in range(count):
        way = chance.random()
        if way < 0.55:
            number = chance.choice(kinds[chance.choice(sorted(kinds))])
        elif way < 0.85 and acks:
            number = chance.choice(acks)
        else:
            number = chance.randint(first + 1, last)
        cuts.append(Cut(max(number, history.first), chance.choice(MODES), chance.randrange(1 << 20), chance.random() < 0.25))
    return cuts
