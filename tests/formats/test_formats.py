"""Stores that older builds made: this build opens each, finds in it what stood there, and goes on with it.

Every layout*/NAME.tar.xz is a store's folders; NAME.json beside it has its credentials and what it must answer. A new folder needs nothing here but, where the
daemon must be told to go on to a newer layout, its line in FIRST_START.
"""
import json
import shutil
from pathlib import Path

import pytest

from tests.formats import image, picture
from tests.formats.content import body, sha256
from tests.formats.store import FixtureDaemon
from tests.support import checksums
from tests.support.daemon import DaemonError

pytestmark = [pytest.mark.daemon, pytest.mark.slow]
HERE = Path(__file__).resolve().parent
STORES = sorted(HERE.glob("layout*/*.tar.xz"))
# Of layout 1, which no build has made since long, those in which most can go wrong; the others are check-long's.
BRIEF = ("four", "damaged", "reclaimed", "joining")
FIRST_START = {"layout1": ["--upgrade"]}  # folder -> options of the first start, which takes the store to this build's layout
KIB, MIB = 1 << 10, 1 << 20


class Opened:
    """A fixture that was unpacked; `model` is the picture that it must give by now."""

    def __init__(self, path, folder):
        self.manifest = json.loads(path.with_name(path.name.replace(".tar.xz", ".json")).read_text())
        image.unpack(path, folder)
        if "key" in self.manifest:
            (folder / "key").write_text(self.manifest["key"])
            (folder / "key").chmod(0o600)
        self.daemon = FixtureDaemon(folder, self.manifest["drives"])
        self.daemon.format = False
        self.daemon.use_credentials(self.manifest["credentials"])
        self.first_options = list(FIRST_START.get(path.parent.name, []))
        self.model = self.manifest["picture"]
        self.doubtful = self.manifest["doubtful"]

    def start(self):
        self.daemon.options = list(self.first_options)
        self.first_options = []
        self.daemon.start(60)
        self.s3 = self.daemon.s3()

    def delete_indexes(self):
        for drive in self.daemon.drives:
            shutil.rmtree(drive / "index")

    def look(self, brief=True):
        picture.compare(self.model, picture.take(self.s3, brief), self.doubtful, brief)

    def repeat_completes(self):
        """A Complete that was answered once is answered the same again."""
        for made in self.manifest["completed"]:
            answer = self.s3.complete_multipart_upload(Bucket=made["bucket"], Key=made["key"], UploadId=made["upload"],
                                                       MultipartUpload={"Parts": made["parts"]})
            assert answer["ETag"] == made["etag"], made

    # ---- changes: the model takes each over -----------------------------------------------------------------

    def wrote(self, bucket, key, data_sha256, size, etag):
        of = self.model[bucket]
        of["objects"][key] = {"sha256": data_sha256, "headers": {"etag": etag, "content-length": str(size)}}
        of["listing"][key] = {"size": size, "etag": etag}
        self.forget_complete(bucket, key)

    def forget_complete(self, bucket, key):
        """The object that remembers its upload has gone."""
        self.manifest["completed"] = [made for made in self.manifest["completed"] if (made["bucket"], made["key"]) != (bucket, key)]

    def put(self, bucket, key, size):
        data = body(f"new/{key}", size)
        self.s3.put_object(Bucket=bucket, Key=key, Body=data, ChecksumAlgorithm="CRC64NVME")
        self.wrote(bucket, key, sha256(data), size, checksums.etag(data))

    def delete(self, bucket, key):
        self.s3.delete_object(Bucket=bucket, Key=key)
        self.model[bucket]["objects"].pop(key, None)
        self.model[bucket]["listing"].pop(key, None)
        self.forget_complete(bucket, key)

    def change_bucket(self, bucket):
        keys = sorted(self.model[bucket]["objects"])
        for key, size in zip(keys[::5], (10, 0, 200_000, MIB + 9, 3000) * len(keys)):
            self.put(bucket, key, size)
        for key in keys[1::7]:
            self.delete(bucket, key)
        for key, size in (("new/inline", 20_000), ("new/striped", 700_000), ("new/" + "n" * 1000, 150_000)):
            self.put(bucket, key, size)
        self.multipart(bucket, "new/parts")

    def multipart(self, bucket, key):
        upload = self.s3.create_multipart_upload(Bucket=bucket, Key=key)["UploadId"]
        pieces = [body(f"{key}/1", 5 * MIB), body(f"{key}/2", 100)]
        parts = [{"PartNumber": n, "ETag": self.s3.upload_part(Bucket=bucket, Key=key, UploadId=upload, PartNumber=n, Body=piece)["ETag"]}
                 for n, piece in enumerate(pieces, 1)]
        self.s3.complete_multipart_upload(Bucket=bucket, Key=key, UploadId=upload, MultipartUpload={"Parts": parts})
        data = b"".join(pieces)
        self.wrote(bucket, key, sha256(data), len(data), checksums.multipart_etag(pieces))

    def end_uploads(self):
        """Of those under way each third is aborted, and each third goes on."""
        for number, made in enumerate(self.manifest["uploads"]):
            here = {"Bucket": made["bucket"], "Key": made["key"], "UploadId": made["upload"]}
            if number % 3 == 1:
                self.s3.abort_multipart_upload(**here)
            elif number % 3 == 2 or not made["parts"]:
                continue
            else:
                answer = self.s3.complete_multipart_upload(**here, MultipartUpload={"Parts": made["parts"]})
                assert answer["ETag"] == made["etag"], made
                self.wrote(made["bucket"], made["key"], made["sha256"], made["size"], made["etag"])
                self.manifest["completed"].append(made)
            left = self.model[made["bucket"]]["uploads"]
            left[:] = [upload for upload in left if upload["UploadId"] != made["upload"]]

    def change(self):
        for bucket in list(self.model):
            self.change_bucket(bucket)
        self.s3.create_bucket(Bucket="made-later")
        self.model["made-later"] = {"listing": {}, "objects": {}, "uploads": []}
        self.change_bucket("made-later")
        self.end_uploads()
        # What is left of the uploads takes more parts.
        for bucket, of in self.model.items():
            for upload in of["uploads"]:
                if not upload["Parts"] or "ChecksumAlgorithm" not in upload:
                    self.s3.upload_part(Bucket=bucket, Key=upload["Key"], UploadId=upload["UploadId"], PartNumber=9, Body=body("ninth", 150_000))
                    upload["Parts"].append({"PartNumber": 9, "Size": 150_000})

    def check_damage(self):
        """What is damaged is found when all is read, and mended by that. A drive that was on its way has come in before."""
        if "damaged" not in self.manifest:
            self.daemon.wait_whole()
        assert self.daemon.verify() == self.manifest["verify"]

    def check_whole(self):
        """No damage is left, and nothing lacks a shard."""
        found = self.daemon.verify()
        assert not any(found[name] for name in ("damaged_shards", "missing_shards", "unreadable_objects")), found


def name_of(path):
    return f"{path.parent.name}-{path.name.split('.')[0]}"


def is_long(path):
    return path.parent.name == "layout1" and path.name.split(".")[0] not in BRIEF


@pytest.fixture(params=[pytest.param(path, marks=pytest.mark.long) if is_long(path) else path for path in STORES], ids=name_of)
def opened(request, tmp_path):
    opened = Opened(request.param, tmp_path)
    with opened.daemon:
        yield opened


def test_everything_is_there(opened):
    opened.start()
    if "damaged" in opened.manifest:
        opened.check_damage()
    opened.look(brief=False)
    opened.repeat_completes()
    if "damaged" not in opened.manifest:
        opened.check_damage()
    opened.change()
    opened.look()
    opened.daemon.stop()
    opened.start()
    opened.look()
    opened.put(next(iter(opened.model)), "just before a kill", 150_000)
    opened.daemon.kill()
    opened.start()
    opened.look()
    opened.daemon.stop()
    opened.delete_indexes()
    opened.start()
    opened.look(brief=False)
    opened.repeat_completes()
    opened.check_whole()


@pytest.mark.parametrize("opened", [path if path.name.split(".")[0] in ("four", "killed", "reclaimed") and not is_long(path) else pytest.param(path, marks=pytest.mark.long)
                                    for path in STORES], indirect=True, ids=name_of)
def test_everything_is_there_without_indexes(opened):
    """I4: the older build's log is enough. That the store goes on from there is what the last start above has shown."""
    opened.delete_indexes()
    opened.start()
    opened.look(brief=False)
    opened.repeat_completes()
    opened.daemon.wait_whole()


@pytest.mark.parametrize("limit", ["0", "4KiB"])
@pytest.mark.parametrize("opened", [path for path in STORES if path.name.split(".")[0] == "four"], indirect=True, ids=name_of)
def test_everything_is_there_under_another_limit(opened, limit):
    """What was stored inline by an older build stays so under another inline_max, also where the index is made anew from the log."""
    opened.daemon.settings["inline_max"] = limit
    opened.start()
    opened.look(brief=False)
    opened.change()
    opened.daemon.kill()
    opened.delete_indexes()
    opened.start()
    opened.look()
    opened.check_whole()


@pytest.mark.parametrize("opened", [path for path in STORES if path.parent.name in FIRST_START], indirect=True, ids=name_of)
def test_nothing_is_upgraded_unasked(opened):
    """A start that was not told to refuses a store of an older layout, and changes nothing of it."""
    formats = [(drive / "FORMAT").read_bytes() for drive in opened.daemon.drives]
    opened.first_options.clear()
    with pytest.raises(DaemonError, match="--upgrade"):
        opened.start()
    assert [(drive / "FORMAT").read_bytes() for drive in opened.daemon.drives] == formats


# ---- the comparison: one that can't fail is none --------------------------------------------------------------


SEEN = {"b": {"created": "then", "listing": {"k": {"size": 1, "etag": "e"}}, "uploads": [{"Key": "u", "Parts": []}],
              "objects": {"k": {"sha256": "s", "headers": {"etag": "e"}}}}}


def changed(edit):
    picture_ = json.loads(json.dumps(SEEN))
    edit(picture_)
    return picture_


@pytest.mark.parametrize("edit, what", [
    (lambda p: p.pop("b"), "missing"), (lambda p: p.update(more={"listing": {}, "objects": {}}), "too many"),
    (lambda p: p["b"]["listing"].pop("k"), "missing"), (lambda p: p["b"]["listing"].update(more={}), "too many"),
    (lambda p: p["b"]["objects"].update(more={}), "too many"), (lambda p: p["b"]["objects"]["k"].update(sha256="t"), "should be s"),
    (lambda p: p["b"]["objects"]["k"].pop("headers"), "missing"), (lambda p: p["b"]["uploads"].append({}), "should be"),
    (lambda p: p["b"]["uploads"][0].update(Key="v"), "should be u"), (lambda p: p["b"].update(created="now"), "should be then")])
def test_a_picture_that_differs(edit, what):
    with pytest.raises(AssertionError, match=what):
        picture.compare(SEEN, changed(edit))


def test_pictures_that_agree():
    picture.compare(SEEN, changed(lambda p: p["b"]["objects"]["k"]["headers"].update(more="of it")))
    picture.compare(SEEN, changed(lambda p: p["b"]["objects"]["k"].update(sha256="t")), doubtful=[["b", "k"]])
