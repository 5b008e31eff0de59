"""Lifecycle rules are carried out: with days that last a second."""
import random
import time

import pytest

from tests.conftest import make_client
from tests.integration.test_versions import listed, put, switch
from tests.support.daemon import Daemon


def rule(name, **more):
    return {"ID": name, "Status": "Enabled", "Filter": {"Prefix": ""}, **more}


@pytest.fixture
def site():
    with Daemon(drives=4, ec="2+2", settings={"test_day_seconds": "1"}).start() as daemon:
        daemon.s3 = make_client(daemon.endpoint, daemon.access_key, daemon.secret_key)
        daemon.s3.create_bucket(Bucket="bucket")
        yield daemon


def rules(site, *given, bucket="bucket"):
    site.s3.put_bucket_lifecycle_configuration(Bucket=bucket, LifecycleConfiguration={"Rules": list(given)})


def keys(site, bucket="bucket"):
    return [o["Key"] for o in site.s3.list_objects_v2(Bucket=bucket).get("Contents", [])]


def passes(site, count=2):
    """Waits for passes that began from now on."""
    before = site.metrics()["millrace_lifecycle_passes_total"]
    site.wait_until(lambda: site.metrics()["millrace_lifecycle_passes_total"] >= before + count, 60, "to pass")


def test_objects_expire(site):
    for key in ("logs/a", "logs/b", "data/a"):
        site.s3.put_object(Bucket="bucket", Key=key, Body=b"x" * 300_000)
    site.s3.put_object(Bucket="bucket", Key="logs/kept", Body=b"x", Tagging="keep=yes")
    site.s3.put_object(Bucket="bucket", Key="logs/gone", Body=b"x", Tagging="keep=no")
    passes(site)
    assert len(keys(site)) == 5  # there are no rules yet
    rules(site, rule("x", Filter={"And": {"Prefix": "logs/", "Tags": [{"Key": "keep", "Value": "no"}]}}, Expiration={"Days": 1}))
    site.wait_until(lambda: "logs/gone" not in keys(site), 60, "to expire an object with the tag")
    passes(site)
    assert keys(site) == ["data/a", "logs/a", "logs/b", "logs/kept"]
    rules(site, rule("x", Filter={"Prefix": "logs/"}, Expiration={"Days": 1}))
    site.wait_until(lambda: keys(site) == ["data/a"], 60, "to expire what is below a prefix")
    passes(site)
    assert keys(site) == ["data/a"] and site.metrics()["millrace_lifecycle_expired_total"] == 4
    rules(site, {**rule("x", Expiration={"Days": 1}), "Status": "Disabled"})
    passes(site)
    assert keys(site) == ["data/a"]


def test_versions_expire(site):
    switch(site.s3, "bucket", "Enabled")
    ids = [put(site.s3, "bucket", "k", b"x") for _ in range(5)]
    rules(site, rule("x", NoncurrentVersionExpiration={"NoncurrentDays": 1, "NewerNoncurrentVersions": 2}))
    site.wait_until(lambda: [row[1] for row in listed(site.s3, "bucket")] == ids[:1:-1], 60, "to leave the current and two versions")
    passes(site)
    assert [row[1] for row in listed(site.s3, "bucket")] == ids[:1:-1]
    rules(site, rule("x", NoncurrentVersionExpiration={"NoncurrentDays": 1}), rule("y", Expiration={"Days": 1}))
    site.wait_until(lambda: listed(site.s3, "bucket") == [], 60, "to leave nothing")  # Days are for a marker that is alone, too
    figures = site.metrics()
    assert figures["millrace_lifecycle_versions_deleted_total"] == 5 and figures["millrace_lifecycle_markers_deleted_total"] == 1


def test_a_marker_that_is_alone(site):
    switch(site.s3, "bucket", "Enabled")
    put(site.s3, "bucket", "kept", b"x")
    for key in ("kept", "gone"):
        site.s3.delete_object(Bucket="bucket", Key=key)
    rules(site, rule("z", Expiration={"ExpiredObjectDeleteMarker": True}))
    site.wait_until(lambda: {row[0] for row in listed(site.s3, "bucket")} == {"kept"}, 60, "to delete the marker")
    passes(site)
    assert [row[2:] for row in listed(site.s3, "bucket")] == [(False, False), (True, True)]


def test_uploads_are_aborted(site):
    site.s3.create_multipart_upload(Bucket="bucket", Key="logs/u")
    kept = site.s3.create_multipart_upload(Bucket="bucket", Key="other/u")["UploadId"]
    rules(site, rule("x", Filter={"Prefix": "logs/"}, AbortIncompleteMultipartUpload={"DaysAfterInitiation": 1}))
    site.wait_until(lambda: [u["UploadId"] for u in site.s3.list_multipart_uploads(Bucket="bucket").get("Uploads", [])] == [kept], 60, "to abort")
    passes(site)
    assert site.metrics()["millrace_lifecycle_uploads_aborted_total"] == 1


def test_locked_versions_stay(site):
    site.s3.create_bucket(Bucket="locked", ObjectLockEnabledForBucket=True)
    held = site.s3.put_object(Bucket="locked", Key="k", Body=b"1", ObjectLockLegalHoldStatus="ON")["VersionId"]
    put(site.s3, "locked", "k", b"2")
    last = put(site.s3, "locked", "k", b"3")
    rules(site, rule("x", NoncurrentVersionExpiration={"NoncurrentDays": 1}), bucket="locked")
    site.wait_until(lambda: [row[1] for row in listed(site.s3, "locked")] == [last, held], 60, "to leave what is held")
    passes(site)
    assert [row[1] for row in listed(site.s3, "locked")] == [last, held] and site.metrics()["millrace_lifecycle_protected_total"] > 0


def test_many_pages(site):
    """More versions than a page has, of one key and of many; a pass while the store is read-only changes nothing."""
    switch(site.s3, "bucket", "Enabled")
    for i in range(1300):
        site.s3.put_object(Bucket="bucket", Key="many" if i % 2 else f"k{i:04}", Body=b"x")
    site.s3.delete_objects(Bucket="bucket", Delete={"Objects": [{"Key": key} for key in keys(site) if key != "many"]})
    rules(site, rule("x", NoncurrentVersionExpiration={"NoncurrentDays": 1}), rule("y", Expiration={"ExpiredObjectDeleteMarker": True}))
    site.wait_until(lambda: len(listed(site.s3, "bucket")) == 1, 120, "to leave one version")
    assert listed(site.s3, "bucket")[0][0] == "many"


def test_rules_that_are_taken_back(site):
    """A pass by rules that are in force no more deletes nothing further."""
    for i in range(200):
        site.s3.put_object(Bucket="bucket", Key=f"k{i}", Body=b"x")
    rules(site, rule("x", Expiration={"Days": 1}))
    site.wait_until(lambda: site.metrics()["millrace_lifecycle_expired_total"] > 0, 60, "to begin")
    site.s3.delete_bucket_lifecycle(Bucket="bucket")
    left = keys(site)
    passes(site)
    assert len(left) - len(keys(site)) <= 32  # what was under way


def test_a_pass_goes_on_after_a_restart(site):
    """Passes over many prefixes, which take a second or so: one that a kill cuts off is gone on with, not begun anew."""
    many = [rule(f"x{n}", Filter={"Prefix": f"{n:02}/"}, Expiration={"Days": 1000},
                 AbortIncompleteMultipartUpload={"DaysAfterInitiation": 1000}) for n in range(40)]
    for i in range(8):
        site.s3.create_bucket(Bucket=f"bucket-{i}")
        rules(site, *many, bucket=f"bucket-{i}")
    for _ in range(20):
        passes(site, 1)
        time.sleep(random.uniform(0.2, 0.8))
        site.kill()
        site.restart()
        passes(site, 1)
        if site.metrics()["millrace_lifecycle_resumed_total"] == 1:
            break
    else:
        pytest.fail("each pass began anew")


def test_with_and_without_versioning(site):
    """What a pass takes is the null version, too, whatever the state of the bucket is by then."""
    put_of = {}
    for state in (None, "Enabled", "Suspended"):
        if state is not None:
            switch(site.s3, "bucket", state)
        put_of[state] = site.s3.put_object(Bucket="bucket", Key=str(state), Body=b"x").get("VersionId")
    assert put_of == {None: None, "Enabled": put_of["Enabled"], "Suspended": "null"}
    rules(site, rule("x", Expiration={"Days": 1}), rule("y", NoncurrentVersionExpiration={"NoncurrentDays": 1}))
    site.wait_until(lambda: listed(site.s3, "bucket") == [], 60, "to leave nothing")
