"""Inventory reports list what a bucket has. Rules N1 to N10 of docs/design/inventory.md; days last some seconds."""
import concurrent.futures
import csv
import datetime
import gzip
import hashlib
import io
import json
import re
import urllib.parse

import pytest

from tests.conftest import make_client
from tests.integration.test_versions import switch
from tests.support.daemon import Daemon
from tests.support.expect import refused

FIELDS = ["Size", "LastModifiedDate", "ETag", "StorageClass", "IsMultipartUploaded", "ReplicationStatus", "EncryptionStatus",
          "ObjectLockRetainUntilDate", "ObjectLockMode", "ObjectLockLegalHoldStatus", "IntelligentTieringAccessTier", "BucketKeyStatus",
          "ChecksumAlgorithm", "ObjectOwner"]


@pytest.fixture
def site():
    with Daemon(settings={"test_day_seconds": "6"}).start() as daemon:
        daemon.s3 = make_client(daemon.endpoint, daemon.access_key, daemon.secret_key)
        daemon.s3.create_bucket(Bucket="reports")
        daemon.s3.create_bucket(Bucket="source", ObjectLockEnabledForBucket=True)
        yield daemon


def let_in(site, service="s3.amazonaws.com", source="source", keys="*"):
    site.s3.put_bucket_policy(Bucket="reports", Policy=json.dumps({"Version": "2012-10-17", "Statement": [
        {"Effect": "Allow", "Principal": {"Service": service}, "Action": "s3:PutObject", "Resource": f"arn:aws:s3:::reports/{keys}",
         "Condition": {"ArnLike": {"aws:SourceArn": f"arn:aws:s3:::{source}"}, "StringEquals": {"s3:x-amz-acl": "bucket-owner-full-control"}}}]}))


def configure(site, name, versions="Current", fields=(), prefix=None, form="CSV", frequency="Daily", enabled=True, account=None):
    value = {"Id": name, "IsEnabled": enabled, "IncludedObjectVersions": versions, "Schedule": {"Frequency": frequency},
             "Destination": {"S3BucketDestination": {"Bucket": "arn:aws:s3:::reports", "Format": form, "Prefix": "inv"}}}
    if account:
        value["Destination"]["S3BucketDestination"]["AccountId"] = account
    if fields:
        value["OptionalFields"] = list(fields)
    if prefix:
        value["Filter"] = {"Prefix": prefix}
    site.s3.put_bucket_inventory_configuration(Bucket="source", Id=name, InventoryConfiguration=value)


def keys(site):
    return [o["Key"] for page in site.s3.get_paginator("list_objects_v2").paginate(Bucket="reports") for o in page.get("Contents", [])]


def read(site, key):
    return site.s3.get_object(Bucket="reports", Key=key)["Body"].read()


def csv_rows(data, columns):
    rows = list(csv.reader(io.StringIO(gzip.decompress(data).decode())))
    assert all(len(row) == len(columns) for row in rows)
    return [dict(zip(columns, row)) for row in rows]


def parquet_rows(data, columns):
    parquet = pytest.importorskip("pyarrow.parquet")
    table = parquet.read_table(io.BytesIO(data))
    table.validate(full=True)
    assert table.schema.names == columns
    return table.to_pylist()


def report(site, name):
    """The newest whole report of a configuration: its manifest and rows."""
    def marks():
        return sorted(k for k in keys(site) if k.startswith(f"inv/source/{name}/") and k.endswith("/manifest.checksum"))
    site.wait_until(marks, 60, f"to write report {name}")
    mark = marks()[-1]
    assert re.fullmatch(rf"inv/source/{name}/\d{{4}}-\d\d-\d\dT\d\d-\d\dZ/manifest\.checksum", mark)
    text = read(site, mark.replace(".checksum", ".json"))
    assert hashlib.md5(text).hexdigest().encode() == read(site, mark)
    manifest = json.loads(text)
    rows = []
    if manifest["fileFormat"] == "Parquet":
        suffix, rows_of = "parquet", parquet_rows
        columns = re.findall(r"(?:binary|int64|boolean) (\w+)", manifest["fileSchema"])
    else:
        suffix, rows_of, columns = r"csv\.gz", csv_rows, manifest["fileSchema"].split(", ")
    for file in manifest["files"]:
        data = read(site, file["key"])
        assert len(data) == file["size"] and hashlib.md5(data).hexdigest() == file["MD5checksum"]
        assert re.fullmatch(rf"inv/source/{name}/data/[0-9a-f-]{{36}}\.{suffix}", file["key"])
        rows += rows_of(data, columns)
    dated = mark.split("/")[3]
    links = read(site, f"inv/source/{name}/hive/dt={dated[:10]}-{dated[11:13]}-{dated[14:16]}/symlink.txt").decode().split()
    assert links == [f"s3://reports/{file['key']}" for file in manifest["files"]]
    return manifest, rows


def test_current_versions(site):
    let_in(site)
    wanted = {'a "quoted",\nkey é': 10, "big": 2_000_000, "plain": 0}
    for key, size in wanted.items():
        site.s3.put_object(Bucket="source", Key=key, Body=b"x" * size, ChecksumAlgorithm="CRC32")
    site.s3.put_object(Bucket="source", Key="gone", Body=b"", ChecksumAlgorithm="CRC32")
    site.s3.delete_object(Bucket="source", Key="gone")
    held = site.s3.put_object(Bucket="source", Key="held", Body=b"1", ObjectLockLegalHoldStatus="ON", ChecksumAlgorithm="CRC32", StorageClass="STANDARD_IA")
    site.s3.put_object(Bucket="source", Key="kept", Body=b"1", ObjectLockMode="GOVERNANCE", ObjectLockRetainUntilDate="2100-01-01T00:00:00Z", ChecksumAlgorithm="CRC32")
    upload = site.s3.create_multipart_upload(Bucket="source", Key="parts")["UploadId"]
    part = site.s3.upload_part(Bucket="source", Key="parts", UploadId=upload, PartNumber=1, Body=b"x" * 100)["ETag"]
    site.s3.complete_multipart_upload(Bucket="source", Key="parts", UploadId=upload, MultipartUpload={"Parts": [{"PartNumber": 1, "ETag": part}]})
    configure(site, "all-fields", fields=FIELDS)
    manifest, rows = report(site, "all-fields")
    assert manifest["sourceBucket"] == "source" and manifest["destinationBucket"] == "arn:aws:s3:::reports" and manifest["fileFormat"] == "CSV"
    assert manifest["fileSchema"] == ", ".join(["Bucket", "Key"] + FIELDS) and manifest["version"] == "2016-11-30"
    found = {urllib.parse.unquote(row["Key"]): row for row in rows}
    assert {key: int(row["Size"]) for key, row in found.items()} == {**wanted, "held": 1, "kept": 1, "parts": 100}
    row = found["held"]
    assert found["kept"]["ObjectLockMode"] == "GOVERNANCE" and found["kept"]["ObjectLockRetainUntilDate"] == "2100-01-01T00:00:00.000Z"
    assert row["ETag"] == held["ETag"].strip('"') and row["StorageClass"] == "STANDARD_IA" and row["ObjectLockLegalHoldStatus"] == "On"
    assert (row["EncryptionStatus"], row["ChecksumAlgorithm"], row["IsMultipartUploaded"], row["ObjectLockMode"]) == ("NOT-SSE", "CRC32", "false", "")
    assert found["parts"]["IsMultipartUploaded"] == "true" and found["parts"]["ETag"].endswith("-1")
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", row["LastModifiedDate"]) and len(row["ObjectOwner"]) == 64


def test_all_versions_below_a_prefix_in_many_pages(site):
    let_in(site, keys="inv/source/*")
    switch(site.s3, "source", "Enabled")
    ids = [site.s3.put_object(Bucket="source", Key="logs/many", Body=b"x", ChecksumAlgorithm="CRC32")["VersionId"] for _ in range(20)]
    with concurrent.futures.ThreadPoolExecutor(8) as pool:  # the page ends within the versions of a key
        names = sorted(f"logs/a{i:04}" for i in range(990))
        list(pool.map(lambda key: site.s3.put_object(Bucket="source", Key=key, Body=b"", ChecksumAlgorithm="CRC32"), names))
    site.s3.put_object(Bucket="source", Key="other", Body=b"x", ChecksumAlgorithm="CRC32")
    marker = site.s3.delete_object(Bucket="source", Key="logs/many")["VersionId"]
    configure(site, "versions", versions="All", fields=["Size"], prefix="logs/", frequency="Weekly")
    _, rows = report(site, "versions")
    assert [row["Key"] for row in rows[:990]] == names
    rows = rows[990:]
    assert [row["VersionId"] for row in rows] == [marker] + ids[::-1]
    assert rows[0] == {"Bucket": "source", "Key": "logs/many", "VersionId": marker, "IsLatest": "true", "IsDeleteMarker": "true", "Size": ""}
    assert rows[1]["IsLatest"] == "false" and rows[1]["Size"] == "1"
    before = keys(site)
    passes = site.metrics()["millrace_inventory_passes_total"]
    site.wait_until(lambda: site.metrics()["millrace_inventory_passes_total"] > passes + 3, 60, "to pass")
    assert site.metrics()["millrace_inventory_reports_total"] == 1 or keys(site) != before  # one in each period


def test_parquet(site):
    """Other programs read it, with AWS's names and types of columns; keys are as they are."""
    let_in(site)
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        names = sorted(f"many/{i:04}" for i in range(1500))  # two pages
        list(pool.map(lambda key: site.s3.put_object(Bucket="source", Key=key, Body=b"xyz", ChecksumAlgorithm="CRC32"), names))
    odd, until = 'a "quoted",\nkey é%20', datetime.datetime(2100, 1, 1, tzinfo=datetime.timezone.utc)
    put = site.s3.put_object(Bucket="source", Key=odd, Body=b"", ObjectLockMode="GOVERNANCE", ObjectLockRetainUntilDate=until, ChecksumAlgorithm="CRC32")
    site.s3.put_object(Bucket="source", Key="gone", Body=b"", ChecksumAlgorithm="CRC32")
    marker = site.s3.delete_object(Bucket="source", Key="gone")["VersionId"]
    configure(site, "parquet", versions="All", fields=FIELDS, form="Parquet")
    manifest, rows = report(site, "parquet")
    assert manifest["fileFormat"] == "Parquet" and manifest["fileSchema"].startswith("message s3.inventory { required binary bucket (UTF8); required binary key (UTF8); optional binary version_id (UTF8); ")
    assert [row["key"] for row in rows] == [odd, "gone", "gone"] + names and {row["bucket"] for row in rows} == {"source"}
    first, gone = rows[0], rows[1]
    assert (first["version_id"], first["is_latest"], first["is_delete_marker"], first["size"], first["e_tag"]) == (put["VersionId"], True, False, 0, put["ETag"].strip('"'))
    assert (first["object_lock_mode"], first["object_lock_retain_until_date"], first["checksum_algorithm"]) == ("GOVERNANCE", until, "CRC32")
    assert (first["encryption_status"], first["is_multipart_uploaded"], first["replication_status"]) == ("NOT-SSE", False, None)
    assert abs(first["last_modified_date"] - datetime.datetime.now(datetime.timezone.utc)) < datetime.timedelta(days=1)
    assert (gone["version_id"], gone["is_latest"], gone["is_delete_marker"], gone["size"], gone["e_tag"]) == (marker, True, True, None, None)
    assert not rows[2]["is_latest"] and all(row["size"] == 3 and row["object_lock_mode"] is None for row in rows[3:])
    key = manifest["files"][0]["key"]
    assert site.s3.head_object(Bucket="reports", Key=key)["ContentType"] == "application/vnd.apache.parquet"


def test_the_owner_of_the_destination(site):
    """A bucket of another account may have the destination's name by then, with a policy that takes reports."""
    let_in(site)
    site.s3.put_object(Bucket="source", Key="k", Body=b"", ChecksumAlgorithm="CRC32")
    configure(site, "theirs", account="111111111111")
    site.wait_until(lambda: site.metrics()["millrace_inventory_refused_total"] > 0, 60, "to refuse")
    assert keys(site) == []
    configure(site, "ours", account="000000000001")
    assert [row["Key"] for row in report(site, "ours")[1]] == ["k"] and not [key for key in keys(site) if "/theirs/" in key]


def test_what_is_refused(site):
    configure(site, "nobody-lets-it-in")
    site.wait_until(lambda: site.metrics()["millrace_inventory_refused_total"] > 0, 60, "to refuse")
    let_in(site, source="another")
    refused_before = site.metrics()["millrace_inventory_refused_total"]
    site.wait_until(lambda: site.metrics()["millrace_inventory_refused_total"] > refused_before, 60, "to refuse")
    assert keys(site) == []
    for more in ({"form": "ORC"}, {"fields": ["ObjectAccessControlList"]}, {"fields": ["LifecycleExpirationDate"]}):
        refused("NotImplemented", 501, configure, site, "x", **more)
    site.s3.delete_bucket_inventory_configuration(Bucket="source", Id="nobody-lets-it-in")
    configure(site, "off", enabled=False)
    let_in(site)
    configure(site, "empty")
    manifest, rows = report(site, "empty")
    assert manifest["files"] == [] and rows == []
    assert not [k for k in keys(site) if "/off/" in k]
