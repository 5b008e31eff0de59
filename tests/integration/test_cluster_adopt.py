"""A store of one machine becomes the first pool of a cluster, with all that was in it; other nodes are added; the first one may be lost once what it held is spread."""
import base64
import hashlib
import json
import os
import random
import re
import shutil
import struct
import subprocess
import time
import urllib.request

import botocore.exceptions
import pytest

from tests.conftest import SEED, make_client
from tests.integration.test_cluster import when_it_can
from tests.integration.test_cluster_grow import admin, ask, wait_new_folders
from tests.integration.test_drives import cli
from tests.integration.test_iam import client_of
from tests.integration.test_user_policies import document
from tests.support.cluster import Cluster, wait_until
from tests.support.daemon import PATIENCE, Daemon, sanitizer_environment

pytestmark = pytest.mark.slow  # what it runs of the code others run under sanitizers, too

DRIVES = 4  # 2+2
ROUNDS = 12


def store_of(cluster, **more):
    """A store of one machine on what are to be the drives of node 1, with the cluster's secrets."""
    options = ["--key-file", str(cluster.folder / "key"), "--log-file-size", "4MiB", "--segment-size", "16MiB", "--full-reserve", "1MiB"]
    daemon = Daemon(drive_paths=cluster.nodes[1].drives, folder=cluster.folder / "alone", loops=1, options=options, **more)
    daemon.folder.mkdir(exist_ok=True)
    if daemon.access_key is not None:
        daemon.access_key, daemon.secret_key = cluster.access_key, cluster.secret_key
    return daemon


@pytest.fixture
def cluster():
    with Cluster(nodes=3, drives=2) as c:
        first = c.nodes[1]
        first.drives = [first.folder / f"drive{i + 1}" for i in range(DRIVES)]
        for drive in first.drives:
            drive.mkdir(parents=True, exist_ok=True)
        c.etcd.start()
        yield c


def adopt_environment(node):
    env = sanitizer_environment()
    if any(format.stat().st_uid != os.geteuid() for format in (drive / "FORMAT" for drive in node.drives) if format.exists()):
        env["ASAN_OPTIONS"] += ":detect_leaks=0"  # it looks at the process from outside, which a process that has changed its user forbids
    return env


def adopt(node, status=0, doit=True):
    """What it said."""
    done = subprocess.run([*node.command(), "--adopt-store", *(["--adopt-yes"] if doit else [])], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=120 * PATIENCE, check=False, env=adopt_environment(node))
    assert done.returncode == status, (done.stdout, done.stderr)
    return done.stdout + done.stderr


def body_of(i, size):
    return (hashlib.sha256(str(i).encode()).digest() * (size // 32 + 1))[:size]


class Content:
    """Objects of all kinds; check() reads all of it."""

    def __init__(self, s3):
        self.objects, self.versions = {}, {}
        s3.create_bucket(Bucket="plain")
        for i, size in enumerate((0, 1, 5000, 300_000, 3_000_000)):
            self.objects[f"o{i}"] = body_of(i, size)
            s3.put_object(Bucket="plain", Key=f"o{i}", Body=self.objects[f"o{i}"], Metadata={"n": str(i)}, Tagging=f"n={i}")
        upload = s3.create_multipart_upload(Bucket="plain", Key="parts")["UploadId"]
        parts = [body_of(100 + i, size) for i, size in enumerate((5 << 20, 400_000))]
        done = [{"PartNumber": i + 1, "ETag": s3.upload_part(Bucket="plain", Key="parts", UploadId=upload, PartNumber=i + 1, Body=p)["ETag"]} for i, p in enumerate(parts)]
        s3.complete_multipart_upload(Bucket="plain", Key="parts", UploadId=upload, MultipartUpload={"Parts": done})
        self.objects["parts"] = b"".join(parts)
        self.upload = s3.create_multipart_upload(Bucket="plain", Key="later")["UploadId"]
        self.part = s3.upload_part(Bucket="plain", Key="later", UploadId=self.upload, PartNumber=1, Body=parts[0])["ETag"]
        self.later = parts[0]
        s3.create_bucket(Bucket="versions", ObjectLockEnabledForBucket=True)
        for i in range(3):
            body = body_of(200 + i, 200_000 * i)
            self.versions[s3.put_object(Bucket="versions", Key="v", Body=body)["VersionId"]] = body
        self.held = s3.put_object(Bucket="versions", Key="held", Body=b"held", ObjectLockLegalHoldStatus="ON")["VersionId"]
        self.marker = s3.delete_object(Bucket="versions", Key="v")["VersionId"]
        s3.put_bucket_tagging(Bucket="plain", Tagging={"TagSet": [{"Key": "made", "Value": "alone"}]})
        s3.put_bucket_policy(Bucket="plain", Policy=json.dumps({"Version": "2012-10-17", "Statement": [
            {"Effect": "Deny", "Principal": "*", "Action": "s3:DeleteObject", "Resource": "arn:aws:s3:::plain/o1"}]}))

    def complete(self, s3):
        s3.complete_multipart_upload(Bucket="plain", Key="later", UploadId=self.upload, MultipartUpload={"Parts": [{"PartNumber": 1, "ETag": self.part}]})
        self.objects["later"] = self.later

    def check(self, cluster, s3):
        def read(bucket, key, **more):
            return when_it_can(cluster, f"{key} is read", lambda: s3.get_object(Bucket=bucket, Key=key, **more)["Body"].read(), timeout=120)
        for key, body in self.objects.items():
            assert read("plain", key) == body, key
        for version, body in self.versions.items():
            assert read("versions", "v", VersionId=version) == body, version

    def check_rest(self, s3):
        """What has no bytes to be read."""
        assert [b["Name"] for b in s3.list_buckets()["Buckets"]] == ["plain", "versions"]
        assert {o["Key"] for o in s3.list_objects_v2(Bucket="plain")["Contents"]} == set(self.objects)
        found = s3.list_object_versions(Bucket="versions", Prefix="v")
        assert {v["VersionId"] for v in found["Versions"]} == set(self.versions) and [m["VersionId"] for m in found["DeleteMarkers"]] == [self.marker]
        assert s3.head_object(Bucket="plain", Key="o3")["Metadata"] == {"n": "3"}
        assert s3.get_object_tagging(Bucket="plain", Key="o3")["TagSet"] == [{"Key": "n", "Value": "3"}]
        assert s3.get_bucket_tagging(Bucket="plain")["TagSet"] == [{"Key": "made", "Value": "alone"}]
        assert "Deny" in s3.get_bucket_policy(Bucket="plain")["Policy"]
        assert s3.get_bucket_versioning(Bucket="versions")["Status"] == "Enabled"
        assert s3.get_object_legal_hold(Bucket="versions", Key="held", VersionId=self.held)["LegalHold"]["Status"] == "ON"
        with pytest.raises(botocore.exceptions.ClientError):
            s3.delete_object(Bucket="versions", Key="held", VersionId=self.held)


def takes_changes(s3):
    try:
        s3.put_object(Bucket="plain", Key="o0", Body=b"", Metadata={"n": "0"}, Tagging="n=0")
        return True
    except botocore.exceptions.ClientError:
        return False


def s3_at(cluster, node):
    return make_client(node.endpoint, cluster.access_key, cluster.secret_key)


def at_rest(cluster, drives):
    def look():
        answer, heal = ask(cluster, "drive", "status"), ask(cluster, "heal", "status")
        if answer is None or heal is None:
            return False
        of_pool = [d for d in answer["drives"] if d["state"] != "removed"]
        return len(of_pool) == drives and all(d["state"] == "in" and not (d["filling"] or d["adding"] or d["leaving"]) for d in of_pool) and heal["now"]["below"] == 0
    wait_until(look, 180, f"{drives} drives are in, and the pool is whole", lambda: f"{ask(cluster, 'drive', 'status')}\n{cluster.said()}")


def fill_alone(cluster):
    """The store, with a user; killed."""
    daemon = store_of(cluster).start()
    content = Content(make_client(daemon.endpoint, daemon.access_key, daemon.secret_key))
    iam = client_of(daemon, "iam")
    iam.create_user(UserName="ann")
    content.key = iam.create_access_key(UserName="ann")["AccessKey"]
    iam.put_user_policy(UserName="ann", PolicyName="p", PolicyDocument=document(("Allow", "s3:GetObject", "arn:aws:s3:::plain/*")))
    cli(daemon, "admin", "read-only", "on")
    daemon.kill()
    return daemon, content


def test_a_store_becomes_a_cluster(cluster):
    daemon, content = fill_alone(cluster)
    first = cluster.nodes[1]
    said = adopt(first, doit=False)
    assert "the 4 drives of this store, erasure code 2+2" in said and "Nothing was done" in said
    daemon.start()  # as before
    daemon.kill()
    image = shutil.copytree(first.drives[2], cluster.folder / "image")
    assert "start millraced" in adopt(first)
    assert "already" in adopt(first)
    status, said = daemon_says(daemon)
    assert status == 2 and "belongs to a cluster's pool" in said, said
    first.spawn()
    cluster.wait_leader()
    cluster.wait_serving()
    s3 = s3_at(cluster, first)
    content.check(cluster, s3)
    with pytest.raises(botocore.exceptions.ClientError):
        content.complete(s3)  # it was switched to read-only
    admin(cluster, first, "read-only", "off")
    wait_until(lambda: takes_changes(s3), 30, "changes are taken", cluster.said)
    content.complete(s3)
    content.check_rest(s3)
    ann = make_client(first.endpoint, content.key["AccessKeyId"], content.key["SecretAccessKey"])
    assert ann.get_object(Bucket="plain", Key="o2")["Body"].read() == content.objects["o2"]
    with pytest.raises(botocore.exceptions.ClientError):
        ann.put_object(Bucket="plain", Key="o2", Body=b"")
    said = admin(cluster, first, "cluster", "status")
    assert "lies on node n1 alone" in said, said
    # two more nodes
    for number in (2, 3):
        node = cluster.nodes[number].spawn()
        wait_new_folders(cluster, number, 2)
        assert "has its share" in admin(cluster, first, "cluster", "node", "add", f"n{number}")
        wait_until(node.serves, 60, f"node {number} serves", cluster.said)
        at_rest(cluster, DRIVES + 2 * (number - 1))
    assert "alone" not in admin(cluster, first, "cluster", "status", status=None)
    for node in cluster.nodes.values():
        content.check(cluster, s3_at(cluster, node))
        content.check_rest(s3_at(cluster, node))
    # what no node's loss may take is moved apart, by itself
    wait_until(lambda: "more of their object" not in admin(cluster, first, "cluster", "status", status=None), 120, "nothing lies too close", cluster.said)
    first.kill()
    for number in (2, 3):
        content.check(cluster, s3_at(cluster, cluster.nodes[number]))
    when_it_can(cluster, "an object is put", lambda: s3_at(cluster, cluster.nodes[2]).put_object(Bucket="plain", Key="new", Body=b"new"), timeout=120)
    first.spawn()
    content.objects["new"] = b"new"
    wait_until(first.serves, 120, "node 1 serves", cluster.said)
    content.check(cluster, s3_at(cluster, first))
    # a disk as it was before
    first.terminate()
    shutil.rmtree(first.drives[2])
    shutil.move(image, first.drives[2])
    status, said = first.run()
    assert status == 2 and "is a drive of a store of one machine" in said, said


def daemon_says(daemon):
    """A start that is refused: (status, what it said)."""
    done = subprocess.run(daemon.command(), stdin=subprocess.DEVNULL, capture_output=True, text=True, env=daemon.environment(), timeout=60 * PATIENCE, check=False)
    return done.returncode, done.stderr


def refused(cluster, says):
    """In one line, and the store is as it was."""
    said = adopt(cluster.nodes[1], status=2)
    assert says in said and "Nothing was done" not in said and len(said.splitlines()) == 1, said
    assert not any(is_marked(drive) for drive in cluster.nodes[1].drives if (drive / "FORMAT").exists())


def test_killed_while_it_adopts(cluster):
    """At any moment: the store starts as before, or it is adopted by the next command."""
    daemon = stop_with_an_object(cluster)
    first, alone, refusals = cluster.nodes[1], 0, 0
    begun = time.monotonic()
    adopt(first, doit=False)
    took = time.monotonic() - begun  # without the steps that change anything
    chance = random.Random(SEED)
    for _ in range(ROUNDS):
        with subprocess.Popen([*first.command(), "--adopt-store", "--adopt-yes"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                              env=sanitizer_environment()) as process:
            time.sleep(chance.uniform(0.3, 2) * took)
            process.kill()
        if not any(map(is_marked, first.drives)):
            daemon.start()
            make_client(daemon.endpoint, daemon.access_key, daemon.secret_key).put_object(Bucket="bucket", Key=f"alone{alone}", Body=b"x")
            daemon.stop()
            alone += 1
            continue
        status, said = daemon_says(daemon)
        assert status == 2 and "cluster adopt" in said, said
        refusals += 1
        if refusals > ROUNDS // 3:
            break
    adopt(first)
    first.spawn()
    cluster.wait_leader()
    cluster.wait_serving()
    s3 = s3_at(cluster, first)
    assert when_it_can(cluster, "k is read", lambda: s3.get_object(Bucket="bucket", Key="k")["Body"].read()) == body_of(1, 500_000)
    assert len(s3.list_objects_v2(Bucket="bucket")["Contents"]) == 1 + alone


def stop_with_an_object(cluster):
    """A store of one machine that has one object, and is stopped: its daemon."""
    daemon = store_of(cluster).start()
    s3 = make_client(daemon.endpoint, daemon.access_key, daemon.secret_key)
    s3.create_bucket(Bucket="bucket")
    s3.put_object(Bucket="bucket", Key="k", Body=body_of(1, 500_000))
    daemon.stop()
    return daemon


def empty_etcd(cluster):
    cluster.etcd.kill()
    shutil.rmtree(cluster.etcd.folder)
    cluster.etcd.start()


def test_etcd_is_lost(cluster):
    """Before a node has led the pool it is adopted again; after that etcd is reseeded."""
    stop_with_an_object(cluster)
    first = cluster.nodes[1]
    adopt(first)
    empty_etcd(cluster)
    first.spawn()
    first.wait_said("millrace admin cluster reseed")
    said = cluster.reseed(status=2)
    assert "millrace admin cluster adopt" in said, said
    first.terminate()
    adopt(first)

    def reads():
        cluster.wait_leader()
        s3 = s3_at(cluster, first)
        assert when_it_can(cluster, "k is read", lambda: s3.get_object(Bucket="bucket", Key="k")["Body"].read()) == body_of(1, 500_000)
    first.spawn()
    cluster.wait_serving()
    reads()
    first.terminate()
    empty_etcd(cluster)
    said = adopt(first, status=2)
    assert "millrace admin cluster reseed" in said, said
    first.spawn()
    first.wait_said("millrace admin cluster reseed")
    assert "etcd was written anew" in cluster.reseed("--reseed-yes")
    cluster.wait_serving()
    reads()


def is_marked(drive):
    """Its FORMAT has the feature of a cluster's pool."""
    return int(re.search(rb"^features ([0-9a-f]+)$", (drive / "FORMAT").read_bytes(), re.M).group(1), 16) & 2 != 0


NOBODY = 65534


def owned_by(folder, user):
    return all(path.lstat().st_uid == user and path.lstat().st_gid == user for path in (folder, *folder.rglob("*")))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_root_adopts_for_another_user(cluster):
    """The daemon's user can open all that the command leaves, and the command does no more than that user could."""
    daemon = store_of(cluster).start()
    daemon.stop()
    first = cluster.nodes[1]
    for path in [path for drive in first.drives for path in (drive, *drive.rglob("*"))]:
        os.chown(path, NOBODY, NOBODY)
    os.chown(first.drives[2] / "FORMAT", NOBODY - 1, NOBODY)
    cluster.folder.chmod(0o711)
    refused(cluster, says="is of another user or group")
    os.chown(first.drives[2] / "FORMAT", NOBODY, NOBODY)
    for drive in first.drives:  # they are made anew when it is opened
        (drive / "LOCK").unlink()
    assert "Nothing was done" in adopt(first, doit=False)
    assert all(owned_by(drive, NOBODY) for drive in first.drives)
    first.drives[3].chmod(0o500)
    (first.drives[3] / "LOCK").unlink()
    refused(cluster, says="Permission denied")
    first.drives[3].chmod(0o700)
    assert "start millraced" in adopt(first)
    assert all(owned_by(drive, NOBODY) and is_marked(drive) for drive in first.drives)
    assert (first.drives[0] / "NODE").stat().st_uid == NOBODY


def test_another_name_is_refused(cluster):
    """It was marked for one node, and cut off before the cluster was made; a disk is lost then."""
    stop_with_an_object(cluster)
    first = cluster.nodes[1]
    adopt(first)
    empty_etcd(cluster)
    first.options = ["--node=n2", f"--cluster-cert={cluster.certs}/n2.crt", f"--cluster-key={cluster.certs}/n2.key"]
    said = adopt(first, status=2)
    assert "is marked for the node n1" in said, said
    first.options = []
    first.spawn()
    first.wait_said("millrace admin cluster reseed")
    with cluster.reseed_process("--reseed-yes") as reseed:  # it asks, and waits for what no drive holds
        wait_until(lambda: etcd_has(cluster, "reseed/request"), 60, "a reseed is asked for", cluster.said)
        reseed.kill()
    first.terminate()
    shutil.rmtree(first.drives[3])
    first.drives = first.drives[:3]
    said = adopt(first)
    assert "slot" in said and "its drive is not here" in said, said
    first.spawn()
    cluster.wait_leader()
    cluster.wait_serving()
    s3 = s3_at(cluster, first)
    assert when_it_can(cluster, "k is read", lambda: s3.get_object(Bucket="bucket", Key="k")["Body"].read()) == body_of(1, 500_000)


# of one slot, which lies on node 2: an epoch's head, and its drive (engine/format.h)
OTHER_EPOCH = struct.pack("<Q16s16sIHBB", 1, b"e" * 16, bytes(16), 64, 1, 1, 0) + struct.pack("<16sBBBBHH", b"d" * 16, 1, 0, 1, 0, 2, 2)
OTHER_CONFIG = {"store_id": "ab" * 16, "number": 1, "epoch": base64.b64encode(OTHER_EPOCH).decode()}


def base64_of(text):
    return base64.b64encode(text.encode()).decode()


def etcd_ask(cluster, what, key, **more):
    body = json.dumps({"key": base64_of(f"/millrace/{cluster.name}/{key}"), **more}).encode()
    with urllib.request.urlopen(urllib.request.Request(f"{cluster.etcd.url}/v3/kv/{what}", data=body, method="POST"), timeout=10 * PATIENCE) as answer:
        assert answer.status == 200
        return json.load(answer)


def etcd_put(cluster, key, value):
    """As somebody else would."""
    etcd_ask(cluster, "put", key, value=base64_of(json.dumps(value)))


def etcd_has(cluster, key):
    return "kvs" in etcd_ask(cluster, "range", key)


def test_refusals(cluster):
    daemon = store_of(cluster, credentials=False).start()  # they are on its drives, sealed
    first = cluster.nodes[1]
    daemon.stop()
    refused(cluster, says="has other root credentials than the drives")
    shown = subprocess.run([*daemon.command(), "--show-credentials"], capture_output=True, text=True, check=True, env=daemon.environment(), timeout=60 * PATIENCE).stdout
    (cluster.folder / "credentials").write_text(shown)
    (cluster.folder / "other-key").write_text(f"key = {os.urandom(32).hex()}\n")
    (cluster.folder / "other-key").chmod(0o600)
    first.options = [f"--key-file={cluster.folder / 'other-key'}"]
    refused(cluster, says="is sealed with the key")
    first.options = []
    daemon.start()
    refused(cluster, says="stop the store first")
    daemon.stop()
    (first.drives[1] / "SWITCHES").write_text("no such thing\n")
    (first.drives[1] / "SWITCHES").chmod(0o600)
    refused(cluster, says="SWITCHES: is damaged")
    (first.drives[1] / "SWITCHES").unlink()
    # drives: one that is missing, one of another store, one that was out
    drives = first.drives
    first.drives = drives[:3]
    refused(cluster, says="its drive is in none of the folders given")
    first.drives = [*drives, cluster.nodes[2].drives[0]]
    refused(cluster, says="is no drive of a store")
    other = Daemon(drive_paths=[cluster.nodes[2].drives[0]], folder=cluster.folder / "other", loops=1, options=["--key-file", str(cluster.folder / "key")])
    other.folder.mkdir()
    other.start()
    other.stop()
    refused(cluster, says="belongs to another store")
    first.drives = [cluster.nodes[2].drives[0]]
    refused(cluster, says="erasure code is 1+0")
    first.drives = drives
    shutil.move(drives[3], cluster.folder / "away")
    drives[3].mkdir()
    daemon.format = False
    daemon.start()
    daemon.stop()
    drives[3].rmdir()
    shutil.move(cluster.folder / "away", drives[3])
    refused(cluster, says="is not in")
    daemon.start()
    daemon.wait_until(lambda: daemon.health_json()[1]["drives_in"] == DRIVES, 60, "all drives to be in")
    daemon.stop()
    # etcd: away, and another cluster's
    first.options = ["--etcd=http://127.0.0.1:1"]
    refused(cluster, says="etcd does not answer")
    first.options = []
    # another cluster is being made, and there is one
    etcd_put(cluster, "pools/1/config", OTHER_CONFIG)
    refused(cluster, says="another cluster of this name has been begun")
    etcd_put(cluster, "format", {"cluster_id": "00112233445566778899aabbccddeeff", "generation": 1, "random": "0011223344556677"})
    refused(cluster, says="there is a cluster of this name already")
    daemon.start()
    daemon.stop()

