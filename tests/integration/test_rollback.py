"""A drive is put back to an earlier copy of its folder: what was acknowledged since is there, what was deleted stays deleted."""
import json
import os
import random
import shutil
import subprocess

import pytest
from botocore.exceptions import ClientError

from tests.integration.test_drives import cli, client_of, whole
from tests.support.daemon import Daemon
from tests.support.expect import read

BUCKET = "rollback"
KEYS = 20
PART = 5 << 20
pytestmark = pytest.mark.daemon


def body_of(i, version):
    return f"{i} {version} ".encode() * (50_000 if i % 4 == 0 else 30)


def put(s3, version, keys):
    for i in keys:
        s3.put_object(Bucket=BUCKET, Key=f"k{i}", Body=body_of(i, version))


def begin_upload(s3, name):
    """An upload with two parts: its id, and what completing it takes."""
    upload = s3.create_multipart_upload(Bucket=BUCKET, Key=name)["UploadId"]
    parts = []
    for number, size in ((1, PART), (2, 300_000)):
        part = s3.upload_part(Bucket=BUCKET, Key=name, UploadId=upload, PartNumber=number, Body=bytes([number]) * size)
        parts.append({"PartNumber": number, "ETag": part["ETag"]})
    return upload, parts


def put_back(daemon, slot):
    shutil.rmtree(daemon.drives[slot])
    (daemon.folder / "image").rename(daemon.drives[slot])


def check(s3, bodies):
    for key, body in bodies.items():
        if body is None:
            with pytest.raises(ClientError) as caught:
                s3.get_object(Bucket=BUCKET, Key=key)
            assert caught.value.response["ResponseMetadata"]["HTTPStatusCode"] == 404, key
        else:
            assert read(s3, BUCKET, key) == body, key
    listed = [entry["Key"] for page in s3.get_paginator("list_objects_v2").paginate(Bucket=BUCKET)
              for entry in page.get("Contents", ())]
    assert sorted(listed) == sorted(key for key, body in bodies.items() if body is not None)


@pytest.mark.parametrize("slot", [0, 2])
def test_one_drive_of_four_is_put_back(slot):
    with Daemon(drives=4, ec="2+2").start() as daemon:
        s3 = client_of(daemon)
        s3.create_bucket(Bucket=BUCKET)
        put(s3, 1, range(KEYS))
        uploads = {f"u{i}": begin_upload(s3, f"u{i}") for i in range(6)}
        while subprocess.run(["cp", "-a", daemon.drives[slot], daemon.folder / "image"], check=False).returncode != 0:
            shutil.rmtree(daemon.folder / "image")  # a file went meanwhile

        bodies = {f"k{i}": body_of(i, 1) for i in range(KEYS)}
        put(s3, 3, range(0, KEYS, 2))
        put(s3, 2, range(0, KEYS, 2))  # the others' logs say that the records before these counted: the drive's lack of them is proof
        bodies.update({f"k{i}": body_of(i, 2) for i in range(0, KEYS, 2)})
        for i in range(1, KEYS, 4):
            s3.delete_object(Bucket=BUCKET, Key=f"k{i}")
            bodies[f"k{i}"] = None
        for name, (upload, parts) in uploads.items():
            s3.complete_multipart_upload(Bucket=BUCKET, Key=name, UploadId=upload, MultipartUpload={"Parts": parts})
            bodies[name] = b"\x01" * PART + b"\x02" * 300_000
        s3.create_bucket(Bucket="since")
        s3.put_object(Bucket="since", Key="k", Body=b"kept")
        daemon.kill()
        put_back(daemon, slot)
        daemon.start()

        s3 = client_of(daemon)
        check(s3, bodies)
        assert read(s3, "since", "k") == b"kept"
        assert {b["Name"] for b in s3.list_buckets()["Buckets"]} == {BUCKET, "since"}
        assert not s3.list_multipart_uploads(Bucket=BUCKET).get("Uploads")
        for name, (upload, _) in uploads.items():  # they ended: there is nothing to abort, and nothing of the objects goes
            with pytest.raises(ClientError):
                s3.abort_multipart_upload(Bucket=BUCKET, Key=name, UploadId=upload)
        whole(daemon)
        found = json.loads(cli(daemon, "admin", "verify", "--json"))
        assert found["missing_shards"] == found["damaged_shards"] == found["unreadable_objects"] == found["differing_names"] == 0
        check(s3, bodies)
        for other in range(2):  # what it holds is enough, with two of the others away
            if other != slot:
                daemon.drives[other].rename(daemon.folder / f"away{other}")
                break
        check(s3, bodies)


PAGE_BYTES, LEAF = 4096, 0x02


def old_leaves_back(index, old, rng):
    """Puts leaf pages of an earlier index back in their places, whole and with the right sums: as if the drive had lost those writes. How many."""
    with open(index, "r+b") as file:
        now = file.read()
        places = [at for at in range(2 * PAGE_BYTES, min(len(old), len(now)), PAGE_BYTES)
                  if all(int.from_bytes(image[at:at + 8], "little") == at // PAGE_BYTES and image[at + 10] & 0x7f == LEAF for image in (old, now))
                  and old[at:at + PAGE_BYTES] != now[at:at + PAGE_BYTES]]
        for at in rng.sample(places, min(4, len(places))):
            file.seek(at)
            file.write(old[at:at + PAGE_BYTES])
    return min(4, len(places))


def verified(daemon):
    """The report of a verification that found nothing amiss, or None."""
    try:
        return json.loads(cli(daemon, "admin", "verify", "--json"))
    except AssertionError:
        return None


@pytest.mark.parametrize("slot", [0, pytest.param(3, marks=pytest.mark.long)])
def test_stale_pages(slot):
    """No sum tells that a page is yesterday's. Comparing the members does: verified, nothing differs any more, and nothing is lost."""
    seed = int(os.environ.get("SEED", "7"))
    print("SEED", seed)
    rng, keys, bodies = random.Random(seed), range(600), {}
    with Daemon(drives=4, ec="2+2").start() as daemon:
        s3 = client_of(daemon)
        s3.create_bucket(Bucket=BUCKET)
        for i in keys:
            bodies[f"k{i}"] = f"{i} first ".encode() * 20
            s3.put_object(Bucket=BUCKET, Key=f"k{i}", Body=bodies[f"k{i}"])
        daemon.stop()
        index = daemon.drives[slot] / "index" / "data.mdb"
        old = index.read_bytes()
        daemon.start()
        s3 = client_of(daemon)
        for i in rng.sample(keys, 200):
            bodies[f"k{i}"] = f"{i} second ".encode() * 25
            s3.put_object(Bucket=BUCKET, Key=f"k{i}", Body=bodies[f"k{i}"])
        for i in rng.sample(keys, 50):
            bodies[f"k{i}"] = None
            s3.delete_object(Bucket=BUCKET, Key=f"k{i}")
        daemon.stop()
        assert old_leaves_back(index, old, rng) > 0
        daemon.start()
        whole(daemon)

        def clean():  # what is met of it now and then ends in an index that is built anew: that has the right names, too
            found = verified(daemon)
            return found is not None and found["objects"] == sum(body is not None for body in bodies.values())

        daemon.wait_until(clean, 60, "to have members that agree")
        whole(daemon)
        again = json.loads(cli(daemon, "admin", "verify", "--json"))
        assert again["differing_names"] == again["missing_shards"] == again["damaged_shards"] == again["unreadable_objects"] == 0
        check(client_of(daemon), bodies)
