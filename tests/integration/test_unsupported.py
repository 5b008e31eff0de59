"""Sub-resources that are never set give AWS's 'not configured' answer; what is not there answers 501 and stores nothing; and no
header that would change what is stored is ignored."""
import pytest
from botocore.exceptions import ClientError

from tests.support import checksums
from tests.support.expect import absent, keys_of, read
from tests.support.s3raw import error_shape

# sub-resource -> (status, error code or root element of the answer)
BUCKET_GETS = {
    "policy": (404, "NoSuchBucketPolicy"), "policyStatus": (404, "NoSuchBucketPolicy"),
    "lifecycle": (404, "NoSuchLifecycleConfiguration"), "cors": (404, "NoSuchCORSConfiguration"), "tagging": (404, "NoSuchTagSet"),
    "website": (404, "NoSuchWebsiteConfiguration"), "encryption": (404, "ServerSideEncryptionConfigurationNotFoundError"),
    "object-lock": (404, "ObjectLockConfigurationNotFoundError"), "replication": (404, "ReplicationConfigurationNotFoundError"),
    "publicAccessBlock": (200, "PublicAccessBlockConfiguration"), "ownershipControls": (200, "OwnershipControls"),
    "versioning": (200, "VersioningConfiguration"), "acl": (200, "AccessControlPolicy"), "notification": (200, "NotificationConfiguration"),
    "logging": (200, "BucketLoggingStatus"), "accelerate": (200, "AccelerateConfiguration"),
    "requestPayment": (200, "RequestPaymentConfiguration"), "location": (200, "LocationConstraint"),
}
BUCKET_PUTS = {"encryption": b"<ServerSideEncryptionConfiguration/>", "replication": b"<ReplicationConfiguration/>"}


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
    assert answer.xml.findtext("Resource") == f"/{bucket}?{name}", answer
    answer = raw.request("GET", f"/{bucket}", query=[("list-type", "2")])
    assert answer.status == 200


@pytest.mark.parametrize("method, name", [("PUT", "retention"), ("PUT", "legal-hold"), ("GET", "torrent"),
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


def test_sub_resources_of_a_bucket_have_no_key(raw, s3, bucket):
    s3.put_object(Bucket=bucket, Key="k", Body=b"x")
    for name in ("uploads", "versions"):
        answer = raw.request("GET", f"/{bucket}/k", query=[(name, "")])
        assert (answer.status, error_shape(answer)) == (400, "InvalidRequest"), answer


HEADERS = {
    "x-amz-server-side-encryption": "AES256", "x-amz-server-side-encryption-aws-kms-key-id": "k",
    "x-amz-server-side-encryption-customer-algorithm": "AES256", "x-amz-server-side-encryption-context": "e30=",
    "x-amz-server-side-encryption-bucket-key-enabled": "true", "x-amz-acl": "public-read", "x-amz-grant-read": "id=" + "a" * 64, "x-amz-write-offset-bytes": "5",
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
    assert (answer.status, answer.code) == (400, "AccessControlListNotSupported"), answer


def test_creating_with_what_is_not_there(raw, s3, bucket):
    for headers in ({"x-amz-bucket-object-lock-enabled": "perhaps"}, {"x-amz-acl": "public-read"}, {"x-amz-grant-write": "id=x"}):
        answer = raw.request("PUT", f"/{bucket}-n", headers=headers)
        assert answer.status in (400, 501), answer
        assert raw.request("HEAD", f"/{bucket}-n").status == 404
    for headers, status, code in (({"x-amz-object-ownership": "Nobody"}, 400, "InvalidArgument"),
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
    answer = raw.request("PUT", f"/{bucket}/k", headers={"x-amz-expected-bucket-owner": "000000000002"}, body=b"y")
    assert (answer.status, answer.code) == (403, "AccessDenied"), answer
    assert read(s3, bucket, "k") == b"x"


def test_conditional_headers_on_calls_that_do_not_know_them(raw, s3, bucket):
    """A part must not be stored when its condition asks for what parts do not have."""
    upload = s3.create_multipart_upload(Bucket=bucket, Key="m")["UploadId"]
    answer = raw.request("PUT", f"/{bucket}/m", query=[("partNumber", "1"), ("uploadId", upload)], headers={"If-None-Match": "*"}, body=b"x")
    assert answer.status in (200, 400, 501), answer


def test_unknown_query_parameters_are_ignored(raw, bucket):
    assert raw.request("PUT", f"/{bucket}/k", query=[("x-id", "PutObject"), ("foo", "bar")], body=b"x").status == 200
    assert raw.request("GET", f"/{bucket}/k", query=[("x-id", "GetObject"), ("foo", "")]).body == b"x"


# ---- what is refused is named, and what changes nothing is not refused -----------------------------------------

NAMED = [
    ("PUT", "/{b}/k", [], {"x-amz-server-side-encryption": "aws:kms"}, "x-amz-server-side-encryption"),
    ("PUT", "/{b}/k", [], {"x-amz-server-side-encryption-bucket-key-enabled": "true"}, "x-amz-server-side-encryption-bucket-key-enabled"),
    ("PUT", "/{b}/k", [], {"x-amz-checksum-md4": "AAAA"}, "x-amz-checksum-md4"),
    ("PUT", "/{b}/k", [], {"if-match": "\"a\"", "if-none-match": "*"}, "If-None-Match"),
    ("PUT", "/{b}/l", [], {"x-amz-copy-source": "/{b}/k", "x-amz-copy-source-range": "bytes=0-1"}, "x-amz-copy-source-range"),
    ("DELETE", "/{b}/k", [], {"x-amz-mfa": "x"}, "x-amz-mfa"),
    ("DELETE", "/{b}/k", [], {"if-none-match": "*"}, "If-None-Match"),
]


@pytest.mark.parametrize("method, path, query, headers, name", NAMED)
def test_headers_that_are_refused_are_named(raw, s3, bucket, method, path, query, headers, name):
    headers = {k: v.format(b=bucket) for k, v in headers.items()}
    answer = raw.request(method, path.format(b=bucket), query=query, headers=headers)
    assert (answer.status, error_shape(answer)) == (501, "NotImplemented"), answer
    assert answer.xml.findtext("Header") == name, answer
    assert keys_of(s3, bucket) == []


@pytest.mark.parametrize("method, path, query", [("GET", "/{b}/k", "torrent"), ("POST", "/{b}/k", "restore"), ("PUT", "/{b}/k", "encryption"),
                                                 ("GET", "/{b}", "session"), ("DELETE", "/{b}", "acl")])
def test_sub_resources_that_are_refused_are_named(raw, bucket, method, path, query):
    path = path.format(b=bucket)
    answer = raw.request(method, path, query=[(query, "")])
    assert (answer.status, error_shape(answer)) == (501, "NotImplemented"), answer
    assert answer.xml.findtext("Resource") == f"{path}?{query}", answer


@pytest.mark.parametrize("element", ["Bucket", "Location"])
def test_elements_that_are_refused_are_named(raw, bucket, element):
    answer = raw.request("PUT", f"/{bucket}-new", body=f"<CreateBucketConfiguration><{element}/></CreateBucketConfiguration>".encode())
    assert (answer.status, error_shape(answer)) == (501, "NotImplemented") and element in answer.xml.findtext("Message"), answer


def test_headers_that_say_nothing(raw, s3, bucket):
    nothing = {"x-amz-tagging": "", "x-amz-server-side-encryption-bucket-key-enabled": "false", "x-amz-acl": "private"}
    assert raw.request("PUT", f"/{bucket}/k", headers=nothing, body=b"x").status == 200
    assert read(s3, bucket, "k") == b"x"
    assert raw.request("PUT", f"/{bucket}/l", headers={**nothing, "x-amz-copy-source": f"/{bucket}/k"}).status == 200
    assert raw.request("POST", f"/{bucket}/m", query=[("uploads", "")], headers=nothing).status == 200
    made = raw.request("PUT", f"/{bucket}-new", headers={"x-amz-acl": "private", "x-amz-object-ownership": "BucketOwnerEnforced",
                                                         "x-amz-bucket-object-lock-enabled": "false"},
                       body=b"<CreateBucketConfiguration><LocationConstraint>us-east-1</LocationConstraint></CreateBucketConfiguration>")
    assert made.status == 200, made
    assert raw.request("GET", f"/{bucket}-new", query=[("location", "")]).xml.text is None


def test_acls_that_are_so_anyway(raw, s3, bucket):
    s3.put_object(Bucket=bucket, Key="k", Body=b"x")
    policy = {name: s3.get_bucket_acl(Bucket=bucket)[name] for name in ("Owner", "Grants")}
    for call, names in ((s3.put_bucket_acl, {"Bucket": bucket}), (s3.put_object_acl, {"Bucket": bucket, "Key": "k"})):
        call(**names, ACL="private")
        call(**names, AccessControlPolicy=policy)
        everybody = {"Grantee": {"Type": "Group", "URI": "http://acs.amazonaws.com/groups/global/AllUsers"}, "Permission": "READ"}
        other = {"Grantee": {"Type": "CanonicalUser", "ID": "0" * 64}, "Permission": "FULL_CONTROL"}
        for how in ({"ACL": "public-read"}, {"GrantRead": "id=" + "0" * 64}, {"AccessControlPolicy": {**policy, "Grants": policy["Grants"] + [everybody]}},
                    {"AccessControlPolicy": {**policy, "Grants": [other]}}, {"AccessControlPolicy": {**policy, "Grants": []}}):
            with pytest.raises(ClientError) as refused:
                call(**names, **how)
            assert refused.value.response["Error"]["Code"] == "AccessControlListNotSupported", how
    assert raw.request("PUT", f"/{bucket}", query=[("acl", "")]).code == "MissingSecurityHeader"
    assert raw.request("PUT", f"/{bucket}/none", query=[("acl", "")], headers={"x-amz-acl": "private"}).code == "NoSuchKey"
    assert read(s3, bucket, "k") == b"x"


def test_settings_that_are_so_anyway(raw, s3, bucket):
    s3.put_object(Bucket=bucket, Key="k", Body=b"x")
    s3.put_object_tagging(Bucket=bucket, Key="k", Tagging={"TagSet": []})
    assert raw.request("PUT", f"/{bucket}", query=[("publicAccessBlock", "")]).code == "MissingRequestBodyError"
    for name, code in (("publicAccessBlock", "MalformedXML"), ("acl", "MalformedACLError")):
        assert raw.request("PUT", f"/{bucket}", query=[(name, "")], body=b"<no xml").code == code
    assert raw.request("PUT", "/no-such-bucket-here", query=[("publicAccessBlock", "")], body=b"<a/>").code == "NoSuchBucket"
