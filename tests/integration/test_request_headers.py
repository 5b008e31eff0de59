"""No header that would change what is stored is ignored: each x-amz-* request header that botocore's model has for an operation of
millrace's is either understood or refused. The operations are read from the gateway's table, the headers from the model."""
import gzip
import json
import pathlib
import re

import botocore
import pytest

from tests.support import checksums

ROUTES = pathlib.Path(__file__).parents[2] / "gateway" / "s3" / "route.c"
MODEL = json.loads(gzip.open(pathlib.Path(botocore.__file__).parent / "data" / "s3" / "2006-03-01" / "service-2.json.gz").read())

# What requests are done by, or what says nothing about what is stored.
UNDERSTOOD = {
    "x-amz-acl", "x-amz-bypass-governance-retention", "x-amz-checksum-algorithm", "x-amz-checksum-crc32", "x-amz-checksum-crc32c",
    "x-amz-checksum-crc64nvme", "x-amz-checksum-sha1", "x-amz-checksum-sha256", "x-amz-checksum-sha512", "x-amz-checksum-md5",
    "x-amz-checksum-xxhash64", "x-amz-checksum-xxhash3", "x-amz-checksum-xxhash128", "x-amz-checksum-type", "x-amz-copy-source",
    "x-amz-copy-source-if-match", "x-amz-copy-source-if-modified-since", "x-amz-copy-source-if-none-match",
    "x-amz-copy-source-if-unmodified-since", "x-amz-copy-source-range", "x-amz-expected-bucket-owner", "x-amz-if-match-last-modified-time",
    "x-amz-if-match-size", "x-amz-meta-", "x-amz-metadata-directive", "x-amz-mp-object-size", "x-amz-object-lock-legal-hold",
    "x-amz-object-lock-mode", "x-amz-object-lock-retain-until-date", "x-amz-request-payer", "x-amz-sdk-checksum-algorithm",
    "x-amz-source-expected-bucket-owner", "x-amz-storage-class", "x-amz-tagging", "x-amz-tagging-directive",
    "x-amz-transition-default-minimum-object-size", "x-amz-website-redirect-location", "x-amz-bucket-object-lock-enabled",
    "x-amz-object-ownership", "x-amz-bucket-namespace", "x-amz-confirm-remove-self-bucket-access",
    "x-amz-bucket-object-lock-token",      # lets AWS's support enable object lock: here it needs nobody's leave
    "x-amz-skip-destination-validation",   # of destinations, which no notification that is taken has
}


def routed():
    names = set(re.findall(r'^\s+[A-Z_]+\("(\w+)"', ROUTES.read_text(), re.M))
    return sorted(name for name in names & set(MODEL["operations"]) if MODEL["operations"][name]["http"]["method"] in ("PUT", "POST", "DELETE"))


def members(name, location):
    shape = MODEL["operations"][name].get("input", {}).get("shape")
    fields = MODEL["shapes"][shape]["members"].values() if shape else ()
    return [field["locationName"] for field in fields if field.get("location") in (location, location + "s")]


CASES = [(name, header) for name in routed() for header in members(name, "header")
         if header.lower().startswith("x-amz-") and header.lower() not in UNDERSTOOD]


def test_the_table_was_read():
    assert {"PutObject", "CopyObject", "DeleteObjects", "PutBucketCors", "CreateBucket"} <= set(routed()) and len(CASES) > 50


@pytest.mark.parametrize("name, header", CASES)
def test_refused(raw, s3, bucket, name, header):
    http = MODEL["operations"][name]["http"]
    path, _, query = http["requestUri"].partition("?")
    made = name == "CreateBucket"
    path = path.replace("{Bucket}", bucket + "-new" if made else bucket).replace("{Key+}", "k")
    query = [(part.partition("=")[0], part.partition("=")[2]) for part in query.split("&") if part]
    headers = {header: "1"}
    if "uploadId" in members(name, "querystring"):
        query = [(k, v) for k, v in query if k != "x-id"] + [("uploadId", s3.create_multipart_upload(Bucket=bucket, Key="k")["UploadId"])]
        query += [("partNumber", "1")] if "partNumber" in members(name, "querystring") else []
    else:
        s3.put_object(Bucket=bucket, Key="k", Body=b"before")
    query += [("id", "i")] if "id" in members(name, "querystring") else []
    if "x-amz-copy-source" in members(name, "header"):
        s3.put_object(Bucket=bucket, Key="source", Body=b"x")
        headers["x-amz-copy-source"] = f"/{bucket}/source"
    if MODEL["operations"][name].get("httpChecksum", {}).get("requestChecksumRequired"):
        headers["Content-MD5"] = checksums.content_md5(b"")
    answer = raw.request(http["method"], path, query=query, headers=headers)
    assert answer.status in (400, 501), answer
    assert answer.status == 501 or answer.code in ("InvalidArgument", "InvalidRequest"), answer
    if made:
        assert raw.request("HEAD", path).status == 404


def sub_resources():
    """(operation, method, path, query) of those that botocore's model has and the gateway's table has not."""
    names = set(re.findall(r'^\s+[A-Z_]+\("(\w+)"', ROUTES.read_text(), re.M))
    for name, operation in sorted(MODEL["operations"].items()):
        path, _, query = operation["http"]["requestUri"].partition("?")
        query = [(part.partition("=")[0], part.partition("=")[2]) for part in query.split("&") if part and not part.startswith("x-id")]
        if name not in names and query and path.startswith("/{Bucket}"):
            yield name, operation["http"]["method"], path, query


# Operations of older names, or lists of what is also read one by one.
DONE_UNDER_ANOTHER_NAME = {"GetBucketLifecycle", "GetBucketNotification", "PutBucketLifecycle", "PutBucketNotification"}
MISSING = [operation for operation in sub_resources() if operation[0] not in DONE_UNDER_ANOTHER_NAME and not operation[0].startswith("ListBucket")]


@pytest.mark.parametrize("name, method, path, query", MISSING, ids=lambda value: value if isinstance(value, str) else "")
def test_what_is_missing_never_falls_through_to_the_object(raw, s3, bucket, name, method, path, query):
    s3.put_object(Bucket=bucket, Key="k", Body=b"before")
    body = b"<X/>" if method in ("PUT", "POST") else b""
    headers = {"Content-MD5": checksums.content_md5(body)} if body else {}
    answer = raw.request(method, path.replace("{Bucket}", bucket).replace("{Key+}", "k"), query=query, body=body, headers=headers)
    # To take away what cannot be there succeeds.
    assert answer.status == 501 or method == "DELETE" and answer.status == 204 and "annotation" not in dict(query), answer
    assert s3.get_object(Bucket=bucket, Key="k")["Body"].read() == b"before"


def test_keys_of_ones_own_are_refused_in_reading(raw, s3, bucket):
    """SSE-C: nothing here is encrypted with a client's key, so a request that names one is wrong about the object."""
    s3.put_object(Bucket=bucket, Key="k", Body=b"x")
    upload = s3.create_multipart_upload(Bucket=bucket, Key="k")["UploadId"]
    for method, query in (("GET", []), ("HEAD", []), ("GET", [("attributes", "")]), ("GET", [("uploadId", upload)])):
        for name in ("algorithm", "key", "key-MD5"):
            headers = {f"x-amz-server-side-encryption-customer-{name}": "AES256", "x-amz-object-attributes": "ETag"}
            assert raw.request(method, f"/{bucket}/k", query=query, headers=headers).status == 400, (method, query, name)
