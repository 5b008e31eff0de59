"""Sub-resources that are never set give AWS's 'not configured' answer; what is not there answers 501 and stores nothing; and no
header that would change what is stored is ignored."""
import pytest

from tests.support import checksums
from tests.support.expect import absent, keys_of, read
from tests.support.s3raw import error_shape

# sub-resource -> (status, error code or root element of the answer)
BUCKET_GETS = {
    "policy": (404, "NoSuchBucketPolicy"), "policyStatus": (404, "NoSuchBucketPolicy"),
    "lifecycle": (404, "NoSuchLifecycleConfiguration"), "cors": (404, "NoSuchCORSConfiguration"), "tagging": (404, "NoSuchTagSet"),
    "website": (404, "NoSuchWebsiteConfiguration"), "encryption": (404, "ServerSideEncryptionConfigurationNotFoundError"),
    "object-lock": (404, "ObjectLockConfigurationNotFoundError"), "replication": (404, "ReplicationConfigurationNotFoundError"),
    "publicAccessBlock": (404, "NoSuchPublicAccessBlockConfiguration"), "ownershipControls": (200, "OwnershipControls"),
    "versioning": (200, "VersioningConfiguration"), "acl": (200, "AccessControlPolicy"), "notification": (200, "NotificationConfiguration"),
    "logging": (200, "BucketLoggingStatus"), "accelerate": (200, "AccelerateConfiguration"),
    "requestPayment": (200, "RequestPaymentConfiguration"), "location": (200, "LocationConstraint"),
}
BUCKET_PUTS = {"policy": b"{}", "lifecycle": b"<LifecycleConfiguration/>", "cors": b"<CORSConfiguration/>", "tagging": b"<Tagging/>",
               "website": b"<WebsiteConfiguration/>", "encryption": b"<ServerSideEncryptionConfiguration/>",
               "object-lock": b"<ObjectLockConfiguration/>", "replication": b"<ReplicationConfiguration/>",
               "publicAccessBlock": b"<PublicAccessBlockConfiguration/>", "ownershipControls": b"<OwnershipControls/>",
               "versioning": b"<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>",
               "acl": b"<AccessControlPolicy/>", "notification": b"<NotificationConfiguration/>", "logging": b"<BucketLoggingStatus/>",
               "accelerate": b"<AccelerateConfiguration/>", "requestPayment": b"<RequestPaymentConfiguration/>",
               "inventory": b"<InventoryConfiguration/>", "analytics": b"<AnalyticsConfiguration/>", "metrics": b"<MetricsConfiguration/>",
               "intelligent-tiering": b"<IntelligentTieringConfiguration/>"}


@pytest.mark.parametrize("name", BUCKET_GETS)
def test_get_of_what_was_never_set(raw, bucket, name):
    status, word = BUCKET_GETS[name]
    answer = raw.request("GET", f"/{bucket}", query=[(name, "")])
    assert answer.status == status, answer
    assert (error_shape(answer) if status == 404 else answer.xml.tag) == word, answer


@pytest.mark.parametrize("name", BUCKET_GETS)
def test_get_on_no_bucket(raw, name):
    answer = raw.request("GET", "/no-such-bucket-here", query=[(name, "")])
    assert (answer.status, answer.code) == (404, "NoSuchBucket"), answer


def test_contents_of_the_empty_answers(raw, s3, bucket):
    assert len(raw.request("GET", f"/{bucket}", query=[("versioning", "")]).xml) == 0
    assert raw.request("GET", f"/{bucket}", query=[("requestPayment", "")]).xml.findtext("Payer") == "BucketOwner"
    acl = s3.get_bucket_acl(Bucket=bucket)
    rules = s3.get_bucket_ownership_controls(Bucket=bucket)["OwnershipControls"]["Rules"]
    assert rules == [{"ObjectOwnership": "BucketOwnerEnforced"}]  # as AWS makes every bucket since 2023
    assert acl["Owner"]["ID"] and [g["Permission"] for g in acl["Grants"]] == ["FULL_CONTROL"]
    s3.put_object(Bucket=bucket, Key="k", Body=b"x")
    assert s3.get_object_acl(Bucket=bucket, Key="k")["Grants"][0]["Permission"] == "FULL_CONTROL"
    assert s3.get_object_tagging(Bucket=bucket, Key="k")["TagSet"] == []
    assert raw.request("GET", f"/{bucket}/none", query=[("tagging", "")]).code == "NoSuchKey"


@pytest.mark.parametrize("name", BUCKET_PUTS)
def test_put_of_configurations(raw, s3, bucket, name):
    body = BUCKET_PUTS[name]
    answer = raw.request("PUT", f"/{bucket}", query=[(name, "")], body=body, headers={"Content-MD5": checksums.content_md5(body)})
    assert (answer.status, error_shape(answer)) == (501, "NotImplemented"), answer
    answer = raw.request("GET", f"/{bucket}", query=[("list-type", "2")])
    assert answer.status == 200


@pytest.mark.parametrize("method, name", [("PUT", "tagging"), ("PUT", "acl"), ("PUT", "retention"), ("PUT", "legal-hold"), ("GET", "torrent"),
                                          ("POST", "restore"), ("POST", "select"), ("GET", "retention"), ("GET", "legal-hold"),
                                          ("PUT", "renameObject"), ("PUT", "encryption")])
def test_object_calls_that_are_not_there(raw, s3, bucket, method, name):
    s3.put_object(Bucket=bucket, Key="k", Body=b"x", Metadata={"a": "1"})
    query = [(name, "")] + ([("select-type", "2")] if name == "select" else [])
    body = b"<X/>" if method != "GET" else b""
    answer = raw.request(method, f"/{bucket}/k", query=query, body=body, headers={"Content-MD5": checksums.content_md5(body)} if body else {})
    assert (answer.status, error_shape(answer)) in [(501, "NotImplemented"), (404, "NoSuchObjectLockConfiguration"),
                                                    (400, "InvalidRequest")], answer
    assert read(s3, bucket, "k") == b"x"
    raw.request("PUT", f"/{bucket}/new", query=query, body=b"x")
    assert absent(s3, bucket, "new")


@pytest.mark.parametrize("name", ["policy", "lifecycle", "cors", "tagging", "website", "encryption", "replication", "publicAccessBlock",
                                  "ownershipControls"])
def test_delete_of_configurations_does_not_delete_the_bucket(raw, s3, bucket, name):
    answer = raw.request("DELETE", f"/{bucket}", query=[(name, "")])
    assert answer.status in (204, 501), answer
    s3.head_bucket(Bucket=bucket)


def test_delete_of_tags_does_not_delete_the_object(raw, s3, bucket):
    s3.put_object(Bucket=bucket, Key="k", Body=b"x")
    for query in ([("tagging", "")], [("acl", "")], [("retention", "")], [("unknown", "")]):
        answer = raw.request("DELETE", f"/{bucket}/k", query=query)
        assert answer.status in (204, 400, 405, 501), answer
        if query[0][0] != "unknown":
            assert read(s3, bucket, "k") == b"x", query


@pytest.mark.parametrize("method, path", [("PATCH", "/{b}/k"), ("TRACE", "/{b}/k"), ("POST", "/{b}/k"), ("POST", "/{b}"), ("POST", "/"),
                                          ("PUT", "/"), ("DELETE", "/"), ("FOO", "/{b}/k"), ("PROPFIND", "/")])
def test_methods_that_are_none(raw, s3, bucket, method, path):
    answer = raw.request(method, path.format(b=bucket))
    assert answer.status in (400, 405, 411, 412, 501), answer
    assert keys_of(s3, bucket) == []
    stranger = raw.plain(method, path.format(b=bucket), {"Content-Length": "0"})
    assert (stranger.status, stranger.code) == (answer.status, answer.code), stranger


def test_a_form_of_a_browser(raw, s3, bucket):
    """POST with a form carries its own signature: that it is not there must not look like a signature that is wrong."""
    body = b'--x\r\nContent-Disposition: form-data; name="key"\r\n\r\nk\r\n--x--\r\n'
    answer = raw.plain("POST", f"/{bucket}", {"Content-Type": "multipart/form-data; boundary=x", "Content-Length": str(len(body))}, body)
    assert (answer.status, error_shape(answer)) == (501, "NotImplemented"), answer
    assert keys_of(s3, bucket) == []


def test_sub_resources_of_a_bucket_have_no_key(raw, s3, bucket):
    s3.put_object(Bucket=bucket, Key="k", Body=b"x")
    for name in ("uploads", "versions"):
        answer = raw.request("GET", f"/{bucket}/k", query=[(name, "")])
        assert (answer.status, error_shape(answer)) == (400, "InvalidRequest"), answer


HEADERS = {
    "x-amz-server-side-encryption": "AES256", "x-amz-server-side-encryption-aws-kms-key-id": "k",
    "x-amz-server-side-encryption-customer-algorithm": "AES256", "x-amz-server-side-encryption-context": "e30=",
    "x-amz-server-side-encryption-bucket-key-enabled": "true", "x-amz-object-lock-mode": "GOVERNANCE",
    "x-amz-object-lock-retain-until-date": "2030-01-01T00:00:00Z", "x-amz-object-lock-legal-hold": "ON", "x-amz-tagging": "a=b",
    "x-amz-acl": "public-read", "x-amz-grant-read": "id=x", "x-amz-grant-full-control": "id=x", "x-amz-write-offset-bytes": "5",
}


@pytest.mark.parametrize("name", HEADERS)
def test_headers_that_would_change_what_is_stored(raw, s3, bucket, name):
    for method, path, query in (("PUT", f"/{bucket}/k", []), ("POST", f"/{bucket}/k", [("uploads", "")])):
        answer = raw.request(method, path, query=query, headers={name: HEADERS[name]}, body=b"x" if method == "PUT" else b"")
        assert (answer.status, error_shape(answer)) in [(501, "NotImplemented"), (400, "AccessControlListNotSupported")], (method, answer)
    assert keys_of(s3, bucket) == []
    assert "Uploads" not in s3.list_multipart_uploads(Bucket=bucket)
    s3.put_object(Bucket=bucket, Key="src", Body=b"x")
    answer = raw.request("PUT", f"/{bucket}/k", headers={name: HEADERS[name], "x-amz-copy-source": f"/{bucket}/src"})
    assert answer.status in (400, 501), answer
    assert keys_of(s3, bucket) == ["src"]


def test_acl_private_is_what_there_is(s3, raw, bucket):
    assert raw.request("PUT", f"/{bucket}/k", headers={"x-amz-acl": "private"}, body=b"x").status == 200
    answer = raw.request("PUT", f"/{bucket}/k2", headers={"x-amz-acl": "bucket-owner-full-control"}, body=b"x")
    assert answer.status in (200, 501), answer
    answer = raw.request("PUT", f"/{bucket}/k3", headers={"x-amz-acl": "nonsense"}, body=b"x")
    assert (answer.status, answer.code, answer.xml.findtext("ArgumentName")) == (400, "InvalidArgument", "x-amz-acl"), answer
    assert absent(s3, bucket, "k3")
    answer = raw.request("PUT", f"/{bucket}/k3", headers={"x-amz-acl": "public-read"}, body=b"x")
    assert (answer.status, answer.code, answer.xml.findtext("Header")) == (501, "NotImplemented", "x-amz-acl"), answer


def test_creating_with_what_is_not_there(raw, s3, bucket):
    for headers in ({"x-amz-bucket-object-lock-enabled": "true"}, {"x-amz-acl": "public-read"}, {"x-amz-grant-write": "id=x"}):
        answer = raw.request("PUT", f"/{bucket}-n", headers=headers)
        assert answer.status in (400, 501), answer
        assert raw.request("HEAD", f"/{bucket}-n").status == 404
    for headers, status, code in (({"x-amz-object-ownership": "Nobody"}, 400, "InvalidArgument"),
                                  ({"x-amz-object-ownership": "ObjectWriter"}, 501, "NotImplemented"),
                                  ({"x-amz-object-ownership": "BucketOwnerEnforced", "x-amz-acl": "public-read"}, 400,
                                   "InvalidBucketAclWithObjectOwnership"),
                                  ({"x-amz-acl": "nonsense"}, 400, "InvalidArgument")):
        answer = raw.request("PUT", f"/{bucket}-n", headers=headers)
        assert (answer.status, answer.code) == (status, code), answer
        assert raw.request("HEAD", f"/{bucket}-n").status == 404


def test_storage_classes(raw, s3, bucket):
    answer = raw.request("PUT", f"/{bucket}/k", headers={"x-amz-storage-class": "NONSENSE"}, body=b"x")
    assert (answer.status, answer.code) == (400, "InvalidStorageClass"), answer
    answer = raw.request("PUT", f"/{bucket}/k", headers={"x-amz-storage-class": "GLACIER"}, body=b"x")
    assert (answer.status, answer.code) in [(400, "InvalidStorageClass"), (501, "NotImplemented")], answer
    assert keys_of(s3, bucket) == []
    assert raw.request("PUT", f"/{bucket}/k", headers={"x-amz-storage-class": "STANDARD"}, body=b"x").status == 200


def test_version_ids(raw, s3, bucket):
    s3.put_object(Bucket=bucket, Key="k", Body=b"x")
    for method in ("GET", "HEAD"):
        assert raw.request(method, f"/{bucket}/k", query=[("versionId", "null")]).status == 200
        assert raw.request(method, f"/{bucket}/k", query=[("versionId", "nonsense")]).status in (400, 404)
    answer = raw.request("DELETE", f"/{bucket}/k", query=[("versionId", "nonsense")])
    assert answer.status in (204, 400, 404), answer
    assert read(s3, bucket, "k") == b"x"
    assert raw.request("DELETE", f"/{bucket}/k", query=[("versionId", "null")]).status == 204
    assert absent(s3, bucket, "k")


def test_mfa_and_lock_overrides(raw, s3, bucket):
    """Headers on a DELETE that ask for more than a plain DELETE are not waved through."""
    s3.put_object(Bucket=bucket, Key="k", Body=b"x")
    answer = raw.request("DELETE", f"/{bucket}/k", headers={"x-amz-bypass-governance-retention": "true"})
    assert answer.status in (204, 501), answer


def test_expected_bucket_owner(raw, s3, bucket):
    s3.put_object(Bucket=bucket, Key="k", Body=b"x")
    answer = raw.request("PUT", f"/{bucket}/k", headers={"x-amz-expected-bucket-owner": "000000000001"}, body=b"y")
    assert answer.status in (403, 400, 501), answer
    assert read(s3, bucket, "k") == b"x"


def test_conditional_headers_on_calls_that_do_not_know_them(raw, s3, bucket):
    """A part must not be stored when its condition asks for what parts do not have."""
    upload = s3.create_multipart_upload(Bucket=bucket, Key="m")["UploadId"]
    answer = raw.request("PUT", f"/{bucket}/m", query=[("partNumber", "1"), ("uploadId", upload)], headers={"If-None-Match": "*"}, body=b"x")
    assert answer.status in (200, 400, 501), answer


def test_unknown_query_parameters_are_ignored(raw, bucket):
    assert raw.request("PUT", f"/{bucket}/k", query=[("x-id", "PutObject"), ("foo", "bar")], body=b"x").status == 200
    assert raw.request("GET", f"/{bucket}/k", query=[("x-id", "GetObject"), ("foo", "")]).body == b"x"
