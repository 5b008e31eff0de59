"""Makes stores and remembers what they must answer. make_layout*.py say which stores a layout's folder has, and which build made them."""
import json
import mmap
import shutil
import struct
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import botocore.exceptions
import urllib3.exceptions

from tests.formats import image, picture
from tests.formats.content import body, sha256
from tests.formats.store import FixtureDaemon
from tests.support import checksums
from tests.support.daemon import ROOT

HERE = Path(__file__).resolve().parent
KIB, MIB = 1 << 10, 1 << 20
SIZES = [0, 1, 100, 4095, 16 * KIB, 128 * KIB, 128 * KIB + 1, 300_000, MIB, MIB + 7, 5 * MIB + 123]
HEADERS = {"ContentType": "text/plain; charset=utf-8", "CacheControl": "max-age=60", "ContentDisposition": 'attachment; filename="a b.txt"',
           "ContentEncoding": "gzip", "ContentLanguage": "de, en", "Expires": "Wed, 21 Oct 2026 07:28:00 GMT"}
# What every build that makes stores here knows; the order is that of the pictures.
KINDS = ("CRC32", "CRC32C", "CRC64NVME", "SHA1", "SHA256")
METADATA = {"empty": "", "colour": "blue", "long": "x" * 1500, "Case-Of-It": "Kept"}
NO_ANSWER = (botocore.exceptions.BotoCoreError, urllib3.exceptions.HTTPError, ConnectionError)

NAMES = ["space and+plus%25", "a//b", "/leading", "trailing/", "dot/../dot", "\u0001control\u001f", "nul\0in\0it", "\0", "é composed", "e\u0301 decomposed",
         "\ud7ff\ue000\uffff", "\U0001f600\U0010ffff", "ÿ\u0080", "back\\slash", "quote\"'<&>", "~", "d/e/e/p/" * 20]
# About the lengths at which the index cuts names (511, then 503 bytes a piece; a name begins with 9 bytes of its own), and alike up to there.
LONG = [letter * size + end for letter, sizes in (("l", (499, 501, 502, 503, 600)), ("m", (1003, 1004, 1005, 1006, 1023))) for size in sizes for end in ("", "z")]
LONG += ["\u00fc" * 512, "p" * 502 + "/q", "p" * 502 + "/r" * 200, "\0" * 1024, "\0" * 250 + "t"]


class Maker:
    """One store while it is made: what was written is remembered, to be found in the picture."""

    layout = 0  # of the build that makes it: main() sets it

    def __init__(self, folder, name, drives=1, ec=None, settings=None):
        self.name = name
        self.folder = folder / name
        self.drives = [f"drive{i + 1}" for i in range(drives)]
        for drive in self.drives:
            (self.folder / drive).mkdir(parents=True)
        self.daemon = FixtureDaemon(self.folder, self.drives, ec, settings)
        self.wrote = {}        # [bucket][key] -> SHA-256
        self.uploads = []      # under way: what each becomes when it is completed
        self.completed = []    # whose Complete is repeated
        self.doubtful = []
        self.about = {}

    def start(self, faults=None):
        self.daemon.settings.pop("test_faults", None)
        if faults:
            self.daemon.settings["test_faults"] = faults
        self.daemon.start()
        self.daemon.learn_credentials()
        self.client = self.daemon.s3()
        return self

    # ---- changes --------------------------------------------------------------------------------------------

    def bucket(self, name):
        self.client.create_bucket(Bucket=name)
        self.wrote[name] = {}
        return name

    def put(self, bucket, key, size, tag=None, **arguments):
        data = body(tag or key, size)
        self.client.put_object(Bucket=bucket, Key=key, Body=data, **arguments)
        self.wrote[bucket][key] = sha256(data)

    def delete(self, bucket, key):
        self.client.delete_object(Bucket=bucket, Key=key)
        self.wrote[bucket].pop(key, None)

    def copy(self, bucket, key, source, **arguments):
        self.client.copy_object(Bucket=bucket, Key=key, CopySource={"Bucket": bucket, "Key": source}, **arguments)
        self.wrote[bucket][key] = self.wrote[bucket][source]

    def begin(self, bucket, key, sizes, numbers=None, kind=None, whole=None, **arguments):
        """An upload with parts; what Complete must be told and what then is read."""
        created = {**({"ChecksumAlgorithm": kind} if kind else {}), **({"ChecksumType": whole} if whole else {}), **arguments}
        upload = self.client.create_multipart_upload(Bucket=bucket, Key=key, **created)["UploadId"]
        parts, pieces = [], []
        for number, size in zip(numbers or range(1, len(sizes) + 1), sizes):
            pieces.append(body(f"{key}/{number}", size))
            sent = {checksums.field(kind): checksums.checksum(kind, pieces[-1])} if kind else {}
            answer = self.client.upload_part(Bucket=bucket, Key=key, UploadId=upload, PartNumber=number, Body=pieces[-1], **sent)
            parts.append({"PartNumber": number, "ETag": answer["ETag"], **sent})
        data = b"".join(pieces)
        return {"bucket": bucket, "key": key, "upload": upload, "parts": parts, "size": len(data), "sha256": sha256(data),
                "etag": checksums.multipart_etag(pieces)}

    def under_way(self, *arguments, **named):
        self.uploads.append(self.begin(*arguments, **named))
        return self.uploads[-1]

    def multipart(self, *arguments, **named):
        made = self.begin(*arguments, **named)
        self.client.complete_multipart_upload(Bucket=made["bucket"], Key=made["key"], UploadId=made["upload"], MultipartUpload={"Parts": made["parts"]})
        self.wrote[made["bucket"]][made["key"]] = made["sha256"]
        self.completed.append(made)

    # ---- the image ------------------------------------------------------------------------------------------

    def finish(self, out, drives=None, spoil=None):
        """Packs the folders of a daemon that has ended, then starts it once more and keeps what it answers."""
        drives = drives or self.drives
        if spoil:
            spoil(self)
        image.pack(self.folder, drives, out / f"{self.name}.tar.xz")
        self.daemon.drives = [self.folder / name for name in drives]
        self.daemon.format = False
        self.start()
        self.about["drives_in_at_first"] = self.daemon.health_json()[1]["drives_in"]
        if self.about.get("damaged"):
            self.about["verify"] = self.daemon.verify()
        self.daemon.wait_whole()
        self.about.setdefault("verify", self.daemon.verify())
        seen = picture.take(self.client)
        for bucket, keys in self.wrote.items():
            assert keys.keys() == seen[bucket]["listing"].keys() or self.doubtful, (self.name, bucket)
            for key, content in seen[bucket]["objects"].items():
                assert content["sha256"] == keys[key] or [bucket, key] in self.doubtful, (self.name, bucket, key)
        self.daemon.stop()
        commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()
        manifest = {"commit": commit, "layout": self.layout, "drives": drives, "credentials": self.daemon.known,
                    **self.key(), **self.about, "doubtful": self.doubtful, "uploads": self.uploads, "completed": self.completed, "picture": seen}
        (out / f"{self.name}.json").write_text(json.dumps(manifest, indent=1, sort_keys=True) + "\n")
        shutil.rmtree(self.folder)
        print(self.name, (out / f"{self.name}.tar.xz").stat().st_size, (out / f"{self.name}.json").stat().st_size, self.about, flush=True)

    def key(self):
        """What opens the credentials on the drives; layout 1 was made by a build that did not seal them."""
        file = self.folder / "key"
        return {"key": file.read_text()} if file.exists() else {}

    def kill_when(self, state, seconds, **flags):
        """SIGKILL some time after the drives' states have come to show one that is so."""
        def look():
            return any(d["state"] == state and all(d[flag] == value for flag, value in flags.items()) for d in self.daemon.drives_now())

        self.daemon.wait_until(look, 30, f"to have a drive {state} {flags}")
        time.sleep(seconds)
        assert look(), self.daemon.drives_now()
        self.daemon.kill()


# ---- what is written ----------------------------------------------------------------------------------------


def plain_values(m):
    b = m.bucket("plain")
    for size in SIZES:
        m.put(b, f"size/{size}", size)
    m.put(b, "attributes/inline", 1000, Metadata=METADATA, **HEADERS)
    m.put(b, "attributes/striped", 200_000, Metadata=METADATA, **HEADERS)
    for kind in KINDS:
        for size in (0, 1000, 150_000):
            m.put(b, f"checksum/{kind}/{size}", size, **{checksums.field(kind): checksums.checksum(kind, body(f"checksum/{kind}/{size}", size))})
    for source in ("size/100", f"size/{5 * MIB + 123}", "attributes/striped"):
        m.copy(b, f"copy/{source}", source)
    m.copy(b, "attributes/inline", "attributes/inline", MetadataDirective="REPLACE", Metadata={"second": "yes"})
    m.copy(b, "copy/size/100", "copy/size/100", MetadataDirective="REPLACE", ContentType="text/css")
    m.copy(b, "copy/attributes/striped", "copy/attributes/striped", MetadataDirective="REPLACE", Metadata={"only": "attributes changed"})
    m.put(b, "overwritten/inline", 500, tag="old")
    m.put(b, "overwritten/inline", 700, tag="new")
    m.put(b, "overwritten/striped", 400_000, tag="old")
    m.put(b, "overwritten/striped", 200_000, tag="new")
    m.put(b, "overwritten/other kind", 400_000, tag="old")
    m.put(b, "overwritten/other kind", 4, tag="new")
    for size in (10, 300_000):
        m.put(b, f"deleted/{size}", size)
        m.delete(b, f"deleted/{size}")
    m.bucket("empty")
    m.bucket("deleted")
    m.client.delete_bucket(Bucket="deleted")
    del m.wrote["deleted"]


def strange_names(m):
    b = m.bucket("names")
    for key in NAMES + LONG:
        m.put(b, key, 50 + len(key))
    m.put(b, LONG[-3] + "s", 150_000)
    for key in LONG[2:6]:
        m.delete(b, key)


def multipart_objects(m):
    b = m.bucket("multipart")
    m.multipart(b, "plain", [5 * MIB, 10])
    m.multipart(b, "gaps", [5 * MIB, 5 * MIB, 150_000], numbers=[2, 77, 10000])
    m.multipart(b, "one small part", [1000], Metadata=METADATA, ContentType="text/x-parts")
    m.multipart(b, "one empty part", [0])
    for kind in (kind for kind in KINDS if kind in checksums.COMPOSITE_KINDS):
        m.multipart(b, f"composite/{kind}", [200_000], kind=kind)
    for kind in checksums.FULL_OBJECT_KINDS:
        m.multipart(b, f"whole/{kind}", [200_000], kind=kind, whole="FULL_OBJECT")
    m.multipart(b, "overwritten", [200_000])
    m.completed.pop()
    m.put(b, "overwritten", 10)
    m.copy(b, "copied", "gaps")
    gone = m.begin(b, "aborted", [200_000])
    m.client.abort_multipart_upload(Bucket=b, Key="aborted", UploadId=gone["upload"])


def uploads_under_way(m):
    b = m.bucket("uploads")
    for key, sizes in (("a", [5 * MIB, 200_000]), ("b", [1000]), ("c", [100_000]), (LONG[3], [150_000]), (LONG[-3], [10]), ("long/" * 204, [150_000]), ("d", [0])):
        m.under_way(b, key, sizes)
    m.under_way(b, "none", [])
    m.under_way(b, "with", [300_000], kind="SHA256", Metadata=METADATA, **HEADERS)
    m.under_way(b, "whole", [300_000], kind="CRC64NVME", whole="FULL_OBJECT")
    m.under_way(b, "twice the same key", [1000])
    m.under_way(b, "twice the same key", [200_000])
    again = m.under_way(b, "part again", [400_000])
    m.uploads.pop()
    data = body("part again/second", 150_000)
    answer = m.client.upload_part(Bucket=b, Key="part again", UploadId=again["upload"], PartNumber=1, Body=data)
    m.uploads.append({**again, "parts": [{"PartNumber": 1, "ETag": answer["ETag"]}], "size": len(data), "sha256": sha256(data),
                      "etag": checksums.multipart_etag([data])})
    m.put(b, "taken from", 300_000)
    taken = m.begin(b, "part copied", [])
    answer = m.client.upload_part_copy(Bucket=b, Key="part copied", UploadId=taken["upload"], PartNumber=3,
                                       CopySource={"Bucket": b, "Key": "taken from"}, CopySourceRange="bytes=7-199999")
    data = body("taken from", 300_000)[7:200_000]
    m.uploads.append({**taken, "parts": [{"PartNumber": 3, "ETag": answer["CopyPartResult"]["ETag"]}], "size": len(data), "sha256": sha256(data),
                      "etag": checksums.multipart_etag([data])})


def few_values(m, names=0, parts=True):
    """Some of each kind, and many names. Parts of uploads keep drives from being filled and removed until the uploads end."""
    b = m.bucket("few")
    for size in (0, 100, 20_000, 150_000, MIB + 7):
        m.put(b, f"size/{size}", size, Metadata={"size": str(size)})
        m.put(b, f"deleted/{size}", size)
    m.multipart(b, "parts", [5 * MIB, 150_000], kind="CRC32C")
    m.put(b, LONG[-1], 160_000)
    m.under_way(b, "under way", [150_000] if parts else [])
    m.under_way(b, "also", [1000] if parts else [])
    for i in range(names):
        m.put(b, f"{picture.FILLER}{i:04}", 30 + i % 50)
    for size in (0, 150_000):
        m.delete(b, f"deleted/{size}")
    return b


# ---- the stores ---------------------------------------------------------------------------------------------


def everything(m, out):
    m.start()
    plain_values(m)
    strange_names(m)
    multipart_objects(m)
    uploads_under_way(m)
    m.daemon.stop()
    m.finish(out)


def make_single(folder, out):
    """All kinds of values on one drive; stopped."""
    everything(Maker(folder, "single"), out)


def make_four(folder, out):
    """The same on 2+2; stopped."""
    everything(Maker(folder, "four", 4, "2+2"), out)


def make_mirror(folder, out):
    """1+1, stopped."""
    m = Maker(folder, "mirror", 2, "1+1").start()
    few_values(m)
    m.daemon.stop()
    m.finish(out)


def make_six(folder, out):
    """4+2, killed at rest."""
    m = Maker(folder, "six", 6, "4+2").start()
    few_values(m)
    m.daemon.kill()
    m.finish(out)


def make_killed(folder, out):
    """2+1, killed under load: the end of the logs is in no index, and some changes had no answer."""
    m = Maker(folder, "killed", 3, "2+1").start()
    b = few_values(m, 100)
    m.daemon.kill()
    m.start()

    def load(number):
        s3, at = m.daemon.s3(), 0
        while True:
            key, size = f"load/{number}/{at % 8}", (70, 9_000, 150_000)[at % 3]
            data = body(f"{key}/{at}", size)
            m.doubtful.append([b, key])
            try:
                if at % 5 == 4:
                    s3.delete_object(Bucket=b, Key=key)
                    m.wrote[b].pop(key, None)
                else:
                    s3.put_object(Bucket=b, Key=key, Body=data)
                    m.wrote[b][key] = sha256(data)
            except NO_ANSWER:
                return
            m.doubtful.remove([b, key])
            at += 1

    threads = [threading.Thread(target=load, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    time.sleep(1)
    m.daemon.kill()
    for thread in threads:
        thread.join()
    m.finish(out)


def spoil_frames(m):
    """One bit of one shard of data and of one of parity, of different objects and on different drives. Frames so large are of objects that live."""
    large = [(path, at, frame) for path in sorted(m.folder.glob("drive*/data/*.seg")) for at, frame in frames(path) if frame["payload"] > 500_000]
    data = next(entry for entry in large if entry[2]["shard"] < entry[2]["k"])
    parity = next(entry for entry in large if entry[2]["shard"] >= entry[2]["k"] and entry[2]["id"] != data[2]["id"] and entry[0].parent != data[0].parent)
    for path, at, _ in (data, parity):
        with open(path, "r+b") as file:
            file.seek(at + 4096 + 20_000)
            byte = file.read(1)[0]
            file.seek(at + 4096 + 20_000)
            file.write(bytes([byte ^ 16]))
    m.about["damaged"] = [frame["id"] for _, _, frame in (data, parity)]


def make_damaged(folder, out):
    """2+2 with a bad bit in a shard of data and in one of parity."""
    m = Maker(folder, "damaged", 4, "2+2").start()
    few_values(m)
    m.daemon.stop()
    m.finish(out, spoil=spoil_frames)


def churn(m, bucket, rounds, deletes=True):
    """Much that dies among a little that lives: tombstones, overwritten and living values in all log files and segments."""
    for at in range(rounds):
        for i in range(40):
            m.put(bucket, f"churn/{i}" if i % 4 else f"stays/{at}/{i}", (100_000, 150_000)[i // 4 % 2], tag=f"churn/{at}/{i}/{deletes}")
        for i in range(1, 40, 3) if deletes else ():
            m.delete(bucket, f"churn/{i}")


def reclaim_counts(m):
    figures = m.daemon.metrics()
    return [[value for name, value in figures.items() if name.startswith(f"millrace_drive_reclaim_{what}_bytes_total")] for what in ("copied", "freed")]


def make_reclaimed(folder, out):
    """2+2: much was overwritten and deleted; first as it is before any space was taken back, then afterwards."""
    m = Maker(folder, "unreclaimed", 4, "2+2", {"reclaim_rate": "1MiB"}).start()
    b = few_values(m)
    for i in range(50):  # the oldest log file has much that lives; files without tombstones go before it
        m.put(b, f"{picture.FILLER}{i}", 60_000)
    churn(m, b, 6, deletes=False)
    churn(m, b, 1)
    m.daemon.kill()
    copy = folder / "reclaimed"
    shutil.copytree(m.folder, copy)
    m.finish(out)
    after = Maker(folder, "reclaimed-", 4, "2+2")
    shutil.rmtree(after.folder)
    copy.rename(folder / "reclaimed")
    after.name, after.folder = "reclaimed", folder / "reclaimed"
    after.about = {}
    after.daemon = FixtureDaemon(after.folder, after.drives)
    after.daemon.format = False
    after.wrote, after.uploads, after.completed = m.wrote, m.uploads, m.completed
    after.start()
    churn(after, b, 2)
    after.daemon.wait_until(lambda: all(all(values) for values in reclaim_counts(after)), 60, "to take space back on each drive")
    deadline, before = time.monotonic() + 40, None
    while (now := reclaim_counts(after)) != before and time.monotonic() < deadline:
        before = now
        time.sleep(3)
    after.daemon.kill()
    after.about["records"] = counts_of(after)
    assert {"4", "5", "7", "moved"} <= after.about["records"].keys(), after.about
    after.finish(out)


def make_joining(folder, out):
    """2+2: a drive was away while much changed, and is in the middle of catching up; killed."""
    m = Maker(folder, "joining", 4, "2+2").start()
    b = few_values(m, 60)
    m.daemon.stop()
    m.drives.remove("drive3")
    m.daemon.drives.pop(2)
    m.start()
    for i in range(60):
        m.put(b, f"{picture.FILLER}{i + 30:04}", 200 + i)
    m.put(b, "size/20000", 160_000, tag="newer")
    m.put(b, "size/150000", 300, tag="newer")
    m.delete(b, "size/100")
    m.daemon.stop()
    m.drives.insert(2, "drive3")
    m.daemon.drives.insert(2, m.folder / "drive3")
    m.start("delay:op=append,ms=900,slot=2")
    m.kill_when("joining", 2.5)
    m.finish(out)


def make_filling(folder, out):
    """2+2: a drive was lost, an empty one is in its place and is being given what it should hold; killed."""
    m = Maker(folder, "filling", 4, "2+2").start()
    b = few_values(m, parts=False)
    for i in range(30):
        m.put(b, f"striped/{i}", 140_000 + i)
    m.daemon.stop()
    shutil.rmtree(m.folder / "drive2")
    m.daemon.drives.pop(1)
    m.start("delay:op=write,ms=400,slot=1")
    m.put(b, "while it was gone", 170_000)
    (m.folder / "drive2").mkdir()
    m.daemon.ask("drive", "replace", 1, m.folder / "drive2")
    m.kill_when("in", 2, filling=True)
    m.finish(out)


def make_adding(folder, out):
    """2+1: a fourth drive is being added; killed."""
    m = Maker(folder, "adding", 3, "2+1").start()
    few_values(m, 100)
    m.daemon.stop()
    m.start("delay:op=append,ms=900,slot=3")
    (m.folder / "drive4").mkdir()
    m.daemon.ask("drive", "add", m.folder / "drive4")
    m.kill_when("joining", 2.5, adding=True)
    m.drives.append("drive4")
    m.finish(out)


def make_removing(folder, out):
    """2+2 on five drives, one of which is being removed; killed."""
    m = Maker(folder, "removing", 5, "2+2").start()
    b = few_values(m, 60, parts=False)
    for i in range(20):
        m.put(b, f"striped/{i}", 140_000 + i)
    m.daemon.stop()
    m.start(";".join(f"delay:op=append,ms=100,slot={slot};delay:op=write,ms=200,slot={slot}" for slot in (0, 2, 3, 4)))
    m.daemon.ask("drive", "remove", 1)
    m.kill_when("in", 3, leaving=True)
    m.finish(out)


def make_removed(folder, out):
    """2+2 on five drives, one of which was removed, after another was replaced."""
    m = Maker(folder, "removed", 5, "2+2").start()
    few_values(m, 30, parts=False)
    m.daemon.stop()
    shutil.rmtree(m.folder / "drive1")
    m.daemon.drives.pop(0)
    m.start()
    (m.folder / "drive1").mkdir()
    m.daemon.ask("drive", "replace", 0, m.folder / "drive1")
    m.daemon.wait_whole()
    m.daemon.ask("drive", "remove", 1)
    m.daemon.wait_until(lambda: m.daemon.drives_now()[1]["state"] == "removed", 60, "to have removed the drive")
    m.daemon.stop()
    m.finish(out, [name for name in m.drives if name != "drive2"])


def make_inline(folder, out):
    """2+2: written with inline_max = 128 KiB, then 4 KiB, then 0; killed."""
    m = Maker(folder, "inline", 4, "2+2").start()
    few = few_values(m)
    for limit, name in (("128KiB", "under-128k"), ("4KiB", "under-4k"), ("0", "under-0")):
        m.daemon.stop()
        m.daemon.settings["inline_max"] = limit
        m.start()
        b = m.bucket(name)
        for size in (0, 1, 4 * KIB, 4 * KIB + 1, 20_000, 128 * KIB, 128 * KIB + 1):
            m.put(b, f"size/{size}", size, Metadata={"limit": limit})
            m.put(few, f"overwritten/{size}", size, tag=f"{limit}/{size}")
            m.copy(b, f"copy/{size}", f"size/{size}")
        m.copy(few, "size/20000", "size/20000", MetadataDirective="REPLACE", Metadata={"only": limit})
        m.put(b, LONG[-1], 10_000)
        m.multipart(b, "one small part", [1000])
        m.under_way(b, "under way", [3000])
    m.daemon.kill()
    del m.daemon.settings["inline_max"]
    m.finish(out)


def make_upgraded(folder, out):
    """A store of layout 1, with moved frames and copied records, that this build took over and wrote on; killed."""
    old = HERE / "layout1"
    was = json.loads((old / "reclaimed.json").read_text())
    m = Maker(folder, "upgraded", len(was["drives"]))
    for drive in m.drives:
        (m.folder / drive).rmdir()
    image.unpack(old / "reclaimed.tar.xz", m.folder)
    m.daemon.format = False
    m.daemon.options = ["--upgrade"]
    m.wrote = {bucket: {key: of["objects"].get(key, {}).get("sha256") for key in of["listing"]} for bucket, of in was["picture"].items()}
    m.uploads, m.completed = was["uploads"], was["completed"]
    m.start()
    m.daemon.options = []
    churn(m, "few", 1)
    few = m.bucket("later")
    m.put(few, "size/20000", 20_000)
    m.put(few, "size/150000", 150_000)
    m.multipart(few, "parts", [5 * MIB, 10])
    m.daemon.kill()
    m.finish(out)


# ---- the format, as far as has to be looked for -----------------------------------------------------------------

FRAME = struct.Struct("<40x24xIBBBBI")  # behind object id and places: stripe, shard, k, m, flags, length of the payload
RECORD = struct.Struct("<20xH")          # type


def frames(path):
    """Position and head of all that looks like a frame of a segment."""
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        for at in range(4096, len(data), 4096):
            if data[at:at + 4] == b"MRRF":
                names = ("stripe", "shard", "k", "m", "flags", "payload")
                yield at, {"id": data[at + 24:at + 40].hex(), **dict(zip(names, FRAME.unpack_from(data, at)))}


def counts_of(m):
    """How many records of each type the logs hold, and moved frames the segments."""
    counts = {}
    for path in m.folder.glob("drive*/log/*.log"):
        data = path.read_bytes()
        at = data.find(b"MRRC")
        while at >= 0:
            if at % 64 == 0:
                name = str(RECORD.unpack_from(data, at)[0])
                counts[name] = counts.get(name, 0) + 1
            at = data.find(b"MRRC", at + 1)
    moved = sum(1 for path in m.folder.glob("drive*/data/*.seg") for _, frame in frames(path) if frame["flags"] & 1)
    return {**counts, **({"moved": moved} if moved else {})}


MAKERS = {name[5:]: made for name, made in list(globals().items()) if name.startswith("make_")}


def main(layout, names):
    """The stores of a layout: those that the command line names behind the folder, or all."""
    Maker.layout = layout
    out = Path(sys.argv[1]).resolve()
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="millrace-formats-") as folder:
        for name in sys.argv[2:] or names:
            assert name in names, name
            MAKERS[name](Path(folder), out)
