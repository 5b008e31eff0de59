"""`millrace admin read-only` and `millrace admin maintenance`: what they refuse at each entry, what goes on, and what stays of them over restarts."""
import json
import shutil
import socket

import pytest
from botocore.exceptions import ClientError

from tests.integration.test_drives import cli, drives_in
from tests.support.daemon import Daemon
from tests.support.getbatch import Entry, ask
from tests.support.rdma import DRIVER, Session, rdma_daemon
from tests.support.s3raw import RawClient
from tests.integration.test_daemon import client_of, refuses

MIB = 1 << 20
SMALL, LARGE = b"small" * 100, bytes(range(256)) * 8192  # one inline, one in shards
PUBLIC = {"BlockPublicAcls": True, "IgnorePublicAcls": True, "BlockPublicPolicy": True, "RestrictPublicBuckets": True}


@pytest.fixture
def site():
    with Daemon(drives=4, ec="2+2").start() as daemon:
        daemon.s3 = client_of(daemon)
        daemon.raw = RawClient(daemon.host, daemon.port, daemon.access_key, daemon.secret_key)
        daemon.s3.create_bucket(Bucket="bucket")
        daemon.s3.create_bucket(Bucket="empty")
        for key, body in (("small", SMALL), ("large", LARGE)):
            daemon.s3.put_object(Bucket="bucket", Key=key, Body=body)
        yield daemon


def state(daemon, switch, action="status", status=None):
    if status is None:
        status = 0
    return json.loads(cli(daemon, "admin", switch, action, "--json", status=status))


def denied(call, **arguments):
    """Refused at once, with the code and status that no SDK sends again."""
    with pytest.raises(ClientError) as caught:
        call(**arguments)
    answer = caught.value.response
    assert answer["Error"]["Code"] == "AccessDenied" and answer["ResponseMetadata"]["HTTPStatusCode"] == 403, answer
    assert "read-only" in answer["Error"]["Message"], answer
    assert answer["ResponseMetadata"]["RetryAttempts"] == 0, answer


def stands(s3):
    """Everything that can be asked is answered as before."""
    assert s3.get_object(Bucket="bucket", Key="small")["Body"].read() == SMALL
    assert s3.get_object(Bucket="bucket", Key="large", Range="bytes=5-9")["Body"].read() == LARGE[5:10]
    assert s3.head_object(Bucket="bucket", Key="large")["ContentLength"] == len(LARGE)
    assert [o["Key"] for o in s3.list_objects_v2(Bucket="bucket")["Contents"]] == ["large", "small"]
    assert {b["Name"] for b in s3.list_buckets()["Buckets"]} == {"bucket", "empty"}
    assert s3.get_bucket_acl(Bucket="bucket")["Grants"] and s3.head_bucket(Bucket="empty")


def test_each_door_is_shut(site):
    s3 = site.s3
    upload = s3.create_multipart_upload(Bucket="bucket", Key="parts")["UploadId"]
    part = {"Bucket": "bucket", "Key": "parts", "UploadId": upload}
    etag = s3.upload_part(**part, PartNumber=1, Body=LARGE)["ETag"]
    source = {"Bucket": "bucket", "Key": "small"}
    assert state(site, "read-only", "on") == {"on": True, "by_setting": False, "kept": True, "changes_under_way": 0, "requests_under_way": 0}

    denied(s3.put_object, Bucket="bucket", Key="new", Body=SMALL)
    denied(s3.put_object, Bucket="bucket", Key="small", Body=LARGE)
    denied(s3.put_object, Bucket="bucket", Key="new", Body=SMALL, IfNoneMatch="*")
    denied(s3.copy_object, Bucket="bucket", Key="copy", CopySource=source)
    denied(s3.delete_object, Bucket="bucket", Key="small")
    denied(s3.delete_object, Bucket="bucket", Key="none")
    denied(s3.delete_objects, Bucket="bucket", Delete={"Objects": [{"Key": "small"}, {"Key": "large"}]})
    denied(s3.create_multipart_upload, Bucket="bucket", Key="other")
    denied(s3.upload_part, **part, PartNumber=2, Body=SMALL)
    denied(s3.upload_part_copy, **part, PartNumber=2, CopySource=source)
    denied(s3.complete_multipart_upload, **part, MultipartUpload={"Parts": [{"PartNumber": 1, "ETag": etag}]})
    denied(s3.abort_multipart_upload, **part)
    denied(s3.create_bucket, Bucket="newbucket")
    denied(s3.delete_bucket, Bucket="empty")
    denied(s3.put_public_access_block, Bucket="bucket", PublicAccessBlockConfiguration=PUBLIC)
    denied(s3.delete_bucket_tagging, Bucket="bucket")

    stands(s3)
    assert [u["UploadId"] for u in s3.list_multipart_uploads(Bucket="bucket")["Uploads"]] == [upload]
    assert [p["PartNumber"] for p in s3.list_parts(**part)["Parts"]] == [1]
    results = ask(site.raw, [Entry("bucket", "small"), Entry("bucket", "large")])
    assert [result.status for result in results] == [200, 200]
    metrics = site.metrics()
    assert metrics["millrace_read_only"] == 1 and metrics["millrace_writable"] == 1 and metrics["millrace_ready"] == 1
    status, ready = site.health_json()
    assert status == 200 and ready["ready"] and ready["read_only"] and not ready["writable"] and "read-only" in ready["reason"]
    cli(site, "admin", "verify")  # upkeep goes on

    assert state(site, "read-only", "off")["on"] is False
    s3.complete_multipart_upload(**part, MultipartUpload={"Parts": [{"PartNumber": 1, "ETag": etag}]})
    assert s3.get_object(Bucket="bucket", Key="parts")["Body"].read() == LARGE
    s3.delete_object(Bucket="bucket", Key="parts")
    s3.delete_bucket(Bucket="empty")
    s3.create_bucket(Bucket="empty")
    stands(s3)
    log = site.output()
    assert log.count("read-only is switched on") == 1 and log.count("read-only is switched off") == 1


def test_an_upload_that_has_begun_ends_as_it_would_have(site):
    """What passed the gate before is counted until it is over; the client's next request is refused."""
    head, body = site.raw.build("PUT", "/bucket/late", body=LARGE)
    with site.raw.connect() as connection:
        connection.send(head + body[:MIB])
        site.wait_until(lambda: site.metrics()["millrace_changes_active"] == 1, 20, "to take the upload in")
        assert state(site, "read-only", "on")["changes_under_way"] == 1
        connection.send(body[MIB:])
        assert connection.answer().status == 200
    site.wait_until(lambda: state(site, "read-only", status=1)["changes_under_way"] == 0, 20, "to be done with it")
    assert site.s3.get_object(Bucket="bucket", Key="late")["Body"].read() == LARGE
    denied(site.s3.delete_object, Bucket="bucket", Key="late")


@pytest.mark.parametrize("crash", [False, True], ids=["stop", "kill"])
def test_switches_are_kept(site, crash):
    def again():
        site.kill() if crash else site.stop()
        site.restart()
        site.s3 = client_of(site)

    assert not list(site.folder.glob("drive*/SWITCHES"))
    state(site, "read-only", "on")
    state(site, "maintenance", "on")
    assert len(list(site.folder.glob("drive*/SWITCHES"))) == 4
    site.kill() if crash else site.stop()
    site.spawn()
    site.wait_listening()
    site.wait_until(lambda: site.metrics()["millrace_ready"] == 1, 30, "to be ready")
    site.s3 = client_of(site)
    assert site.health_json()[0] == 503
    denied(site.s3.put_object, Bucket="bucket", Key="new", Body=SMALL)
    stands(site.s3)
    assert "read-only is on" in site.output() and "maintenance is on" in site.output()
    state(site, "maintenance", "off")
    again()
    denied(site.s3.put_object, Bucket="bucket", Key="new", Body=SMALL)
    state(site, "read-only", "off")
    again()
    site.s3.put_object(Bucket="bucket", Key="new", Body=SMALL)


def test_a_drive_that_was_away_does_not_bring_back_what_was(site):
    """The newest generation counts, however few drives have it; the others learn it when they are in use again."""
    state(site, "read-only", "on")
    old = (site.drives[0] / "SWITCHES").read_text()
    state(site, "read-only", "off")
    newest = (site.drives[1] / "SWITCHES").read_text()
    site.stop()
    (site.drives[0] / "SWITCHES").write_text(old)
    (site.drives[2] / "SWITCHES").write_text("generation = what?\n")
    (site.drives[3] / "SWITCHES").unlink()
    site.restart()
    assert state(site, "read-only")["on"] is False
    client_of(site).put_object(Bucket="bucket", Key="new", Body=SMALL)
    assert "is damaged" in site.output()
    site.wait_until(lambda: all((drive / "SWITCHES").exists() and (drive / "SWITCHES").read_text() == newest for drive in site.drives), 20,
                    "to tell all drives")


def test_a_drive_that_comes_later_learns_it(site):
    site.stop()
    site.drives[3].rename(site.folder / "away")
    site.settings["drive_wait"] = "1s"
    site.restart()
    drives_in(site, 3)
    state(site, "read-only", "on")
    (site.folder / "away").rename(site.drives[3])
    site.wait_until(lambda: (site.drives[3] / "SWITCHES").exists(), 60, "to take the drive in and tell it")


def test_nothing_keeps_it(site):
    """A change that no drive stores is in force, and said to be so only until a restart."""
    for drive in site.drives:
        (drive / "SWITCHES.new").mkdir()  # in the way of each replacement
    assert "no drive" in cli(site, "admin", "read-only", "on", status=1)
    denied(site.s3.put_object, Bucket="bucket", Key="new", Body=SMALL)
    assert state(site, "read-only", status=1)["kept"] is False
    for drive in site.drives:
        (drive / "SWITCHES.new").rmdir()
    assert state(site, "read-only", "on")["kept"] is True


def test_the_setting(tmp_path):
    with Daemon(drives=1).start() as daemon:
        client_of(daemon).create_bucket(Bucket="bucket")
        daemon.stop()
        daemon.settings["read_only"] = "yes"
        daemon.restart()
        denied(client_of(daemon).put_object, Bucket="bucket", Key="new", Body=SMALL)
        assert state(daemon, "read-only", status=1)["by_setting"] is True
        assert "read_only = yes" in cli(daemon, "admin", "read-only", "off", status=1)
        assert "read-only" in cli(daemon, "admin", "info")
        daemon.stop()
        del daemon.settings["read_only"]
        daemon.restart()
        client_of(daemon).put_object(Bucket="bucket", Key="new", Body=SMALL)


def test_what_is_no_state(site):
    raw = RawClient(site.host, site.admin_port, site.access_key, site.secret_key)
    for path in ("/admin/v1/read-only", "/admin/v1/maintenance"):
        for query in ((), (("state", "yes"),), (("state", "on"), ("more", "1"))):
            assert raw.request("POST", path, query=query).status == 400
        assert raw.request("POST", path, query=(("state", "on"),), anonymous=True).status == 403
        assert raw.request("DELETE", path).status == 405
        assert json.loads(raw.request("GET", path).body)["on"] is False


def test_maintenance(site):
    """Balancers see 503, connections end, and whoever comes nevertheless is served."""
    kept = site.raw.connect()
    idle = socket.create_connection((site.host, site.port))
    head, body = site.raw.build("GET", "/bucket/small")
    kept.send(head + body)
    assert kept.answer().headers.get("connection", "").lower() != "close"
    assert state(site, "maintenance", "on")["on"] is True
    status, ready = site.health_json()
    assert status == 503 and not ready["ready"] and "maintenance" in ready["reason"]
    assert site.admin_get("/health/live")[0] == 200 and site.metrics()["millrace_maintenance"] == 1 and site.metrics()["millrace_ready"] == 1
    head, body = site.raw.build("GET", "/bucket/small")
    kept.send(head + body)
    answer = kept.answer()
    assert answer.status == 200 and answer.headers["connection"].lower() == "close" and kept.to_end() == b""
    idle.settimeout(30)
    assert idle.recv(1) == b""  # closed, though it never asked for anything
    idle.close()
    site.s3 = client_of(site)  # the old one's connections end, too, perhaps while it sends the next request
    site.s3.put_object(Bucket="bucket", Key="new", Body=LARGE)
    site.s3.delete_object(Bucket="bucket", Key="new")
    stands(site.s3)
    assert "maintenance" in cli(site, "admin", "info")
    assert state(site, "maintenance", status=1)["on"] is True
    state(site, "maintenance", "off")
    assert site.health_json()[0] == 200
    with site.raw.connect() as connection:
        head, body = site.raw.build("GET", "/bucket/small")
        connection.send(head + body)
        assert connection.answer().headers.get("connection", "").lower() != "close"


@pytest.mark.skipif(not DRIVER.exists(), reason="make fake-rdma builds the transport")
def test_rdma():
    """PUTs by RDMA are refused before a byte is read; sessions are opened, GETs and batches are answered."""
    daemon = rdma_daemon(drives=4, ec="2+2").start()
    try:
        user = RawClient(daemon.host, daemon.port, daemon.access_key, daemon.secret_key)
        assert user.request("PUT", "/bucket").status == 200
        with Session(daemon) as session:
            assert session.put("/bucket/large", LARGE).status == 200
            state(daemon, "read-only", "on")
            for path in ("/bucket/large", "/bucket/new"):
                answer = session.put(path, LARGE[::-1])
                assert (answer.status, answer.code) == (403, "AccessDenied") and answer.headers["x-millrace-rdma-posted"] == "none", answer
        with Session(daemon) as session:
            answer, got = session.get("/bucket/large", len(LARGE))
            assert answer.status == 200 and answer.headers["x-millrace-transport"] == "rdma" and got == LARGE
            state(daemon, "read-only", "off")
            assert session.put("/bucket/new", LARGE).status == 200
    finally:
        daemon.stop()
        daemon.discard()
        shutil.rmtree(daemon.sockets)


def test_a_setting_that_is_none():
    refuses(["--drive", "/nowhere", "--read-only=perhaps"], "read-only")
