"""ACLs, ownership of objects, and who owns a bucket."""

from tests.support.expect import read, refused

ALL_USERS = "http://acs.amazonaws.com/groups/global/AllUsers"
OTHER = "b" * 64
UNBLOCKED = {"BlockPublicAcls": False, "IgnorePublicAcls": False, "BlockPublicPolicy": False, "RestrictPublicBuckets": False}


def allow_acls(s3, bucket, mode="ObjectWriter", public=True):
    s3.put_bucket_ownership_controls(Bucket=bucket, OwnershipControls={"Rules": [{"ObjectOwnership": mode}]})
    if public:
        s3.put_public_access_block(Bucket=bucket, PublicAccessBlockConfiguration=UNBLOCKED)


def grants(acl):
    """As (whom, what)."""
    return [(grant["Grantee"].get("URI") or grant["Grantee"]["ID"], grant["Permission"]) for grant in acl["Grants"]]


def stranger(raw, method, path, **more):
    return raw.request(method, path, anonymous=True, **more).status


def test_by_default_acls_are_refused(s3, raw, bucket):
    owner = s3.get_bucket_acl(Bucket=bucket)["Owner"]["ID"]
    s3.put_object(Bucket=bucket, Key="k", Body=b"x", ACL="private")
    s3.put_object(Bucket=bucket, Key="k", Body=b"x", ACL="bucket-owner-full-control")
    for acl in ("public-read", "authenticated-read", "bucket-owner-read", "aws-exec-read"):
        refused("AccessControlListNotSupported", 400, s3.put_object, Bucket=bucket, Key="k", Body=b"y", ACL=acl)
    for how in ({"ACL": "public-read"}, {"GrantRead": f"id={OTHER}"}):
        refused("AccessControlListNotSupported", 400, s3.put_object_acl, Bucket=bucket, Key="k", **how)
        refused("AccessControlListNotSupported", 400, s3.put_bucket_acl, Bucket=bucket, **how)
    assert grants(s3.get_object_acl(Bucket=bucket, Key="k")) == [(owner, "FULL_CONTROL")]
    assert read(s3, bucket, "k") == b"x" and stranger(raw, "GET", f"/{bucket}/k") == 403


def test_public_objects_after_both_switches(s3, raw, bucket):
    allow_acls(s3, bucket, public=False)
    refused("AccessDenied", 403, s3.put_object, Bucket=bucket, Key="k", Body=b"x", ACL="public-read")
    refused("AccessDenied", 403, s3.put_bucket_acl, Bucket=bucket, ACL="public-read")
    allow_acls(s3, bucket)
    s3.put_object(Bucket=bucket, Key="k", Body=b"x", ACL="public-read")
    s3.put_object(Bucket=bucket, Key="own", Body=b"x")
    assert stranger(raw, "GET", f"/{bucket}/k") == 200 and stranger(raw, "GET", f"/{bucket}/own") == 403
    assert stranger(raw, "GET", f"/{bucket}") == 403 and stranger(raw, "GET", f"/{bucket}/none") == 403
    s3.put_bucket_acl(Bucket=bucket, ACL="public-read")
    assert stranger(raw, "GET", f"/{bucket}") == 200 and stranger(raw, "GET", f"/{bucket}/none") == 404
    assert stranger(raw, "PUT", f"/{bucket}/new", body=b"x") == 403
    s3.put_object_acl(Bucket=bucket, Key="k", ACL="private")
    assert stranger(raw, "GET", f"/{bucket}/k") == 403 and read(s3, bucket, "k") == b"x"
    assert s3.get_bucket_acl(Bucket=bucket)["Owner"]["DisplayName"] == "root"


def test_every_way_of_writing_takes_an_acl(s3, bucket):
    allow_acls(s3, bucket)
    owner = s3.get_bucket_acl(Bucket=bucket)["Owner"]["ID"]
    public, private = [(owner, "FULL_CONTROL"), (ALL_USERS, "READ")], [(owner, "FULL_CONTROL")]

    def of(key):
        return grants(s3.get_object_acl(Bucket=bucket, Key=key))

    s3.put_object(Bucket=bucket, Key="put", Body=b"x", ACL="public-read")
    s3.copy_object(Bucket=bucket, Key="copy", CopySource=f"{bucket}/put")
    s3.copy_object(Bucket=bucket, Key="copy2", CopySource=f"{bucket}/put", ACL="public-read", TaggingDirective="REPLACE", Tagging="a=1")
    upload = s3.create_multipart_upload(Bucket=bucket, Key="parts", ACL="public-read")["UploadId"]
    part = s3.upload_part(Bucket=bucket, Key="parts", UploadId=upload, PartNumber=1, Body=b"x")
    s3.complete_multipart_upload(Bucket=bucket, Key="parts", UploadId=upload, MultipartUpload={"Parts": [{"PartNumber": 1, "ETag": part["ETag"]}]})
    assert of("put") == public and of("copy") == private and of("copy2") == public and of("parts") == public
    s3.put_object_tagging(Bucket=bucket, Key="put", Tagging={"TagSet": [{"Key": "a", "Value": "b"}]})
    before = s3.head_object(Bucket=bucket, Key="put")
    s3.put_object_acl(Bucket=bucket, Key="put", GrantRead=f'id="{OTHER}"', GrantFullControl=f"id={owner}")
    assert of("put") == [(OTHER, "READ"), (owner, "FULL_CONTROL")]
    assert s3.head_object(Bucket=bucket, Key="put")["LastModified"] == before["LastModified"]
    assert s3.get_object_tagging(Bucket=bucket, Key="put")["TagSet"] == [{"Key": "a", "Value": "b"}]
    s3.copy_object(Bucket=bucket, Key="put", CopySource=f"{bucket}/put", MetadataDirective="REPLACE")
    assert of("put") == private and read(s3, bucket, "put") == b"x"


def test_documents(s3, bucket):
    allow_acls(s3, bucket)
    s3.put_object(Bucket=bucket, Key="k", Body=b"x")
    owner = s3.get_bucket_acl(Bucket=bucket)["Owner"]
    grant = {"Grantee": {"Type": "Group", "URI": ALL_USERS}, "Permission": "READ_ACP"}
    for call, names, get in ((s3.put_bucket_acl, {"Bucket": bucket}, s3.get_bucket_acl),
                             (s3.put_object_acl, {"Bucket": bucket, "Key": "k"}, s3.get_object_acl)):
        call(**names, AccessControlPolicy={"Owner": owner, "Grants": [grant]})
        assert grants(get(**names)) == [(ALL_USERS, "READ_ACP")]
        refused("AccessDenied", 403, call, **names, AccessControlPolicy={"Owner": {"ID": OTHER}, "Grants": [grant]})
        refused("MalformedACLError", 400, call, **names, AccessControlPolicy={"Grants": [grant]})
        refused("MalformedACLError", 400, call, **names, AccessControlPolicy={"Owner": owner, "Grants": [dict(grant, Permission="ALL")]})
        mail = {"Grantee": {"Type": "AmazonCustomerByEmail", "EmailAddress": "a@example.com"}, "Permission": "READ"}
        refused("UnresolvableGrantByEmailAddress", 400, call, **names, AccessControlPolicy={"Owner": owner, "Grants": [mail]})
        refused("InvalidArgument", 400, call, **names, GrantRead="id=12")
        refused("InvalidArgument", 400, call, **names, ACL="none")
        refused("InvalidRequest", 400, call, **names, ACL="private", GrantRead=f"id={OTHER}")
        refused("UnexpectedContent", 400, call, **names, ACL="private", AccessControlPolicy={"Owner": owner, "Grants": []})
        assert grants(get(**names)) == [(ALL_USERS, "READ_ACP")]
        call(**names, AccessControlPolicy={"Owner": owner, "Grants": []})
        assert grants(get(**names)) == []
    refused("NoSuchKey", 404, s3.put_object_acl, Bucket=bucket, Key="none", ACL="private")


def test_ownership_and_the_acl_of_the_bucket(s3, bucket):
    allow_acls(s3, bucket)
    enforced = {"Rules": [{"ObjectOwnership": "BucketOwnerEnforced"}]}
    s3.put_bucket_acl(Bucket=bucket, ACL="public-read")
    refused("InvalidBucketAclWithObjectOwnership", 400, s3.put_bucket_ownership_controls, Bucket=bucket, OwnershipControls=enforced)
    s3.put_bucket_acl(Bucket=bucket, ACL="private")
    s3.put_bucket_ownership_controls(Bucket=bucket, OwnershipControls=enforced)
    s3.delete_bucket_ownership_controls(Bucket=bucket)
    s3.put_bucket_acl(Bucket=bucket, ACL="log-delivery-write")
    assert [what for _, what in grants(s3.get_bucket_acl(Bucket=bucket))] == ["FULL_CONTROL", "WRITE", "READ_ACP"]


def test_buckets_that_are_made_with_acls(s3, bucket):
    name = bucket + "-acl"
    refused("InvalidBucketAclWithObjectOwnership", 400, s3.create_bucket, Bucket=name, ACL="public-read")
    refused("InvalidBucketAclWithBlockPublicAccessError", 400, s3.create_bucket, Bucket=name, ACL="public-read", ObjectOwnership="ObjectWriter")
    refused("NoSuchBucket", 404, s3.get_bucket_acl, Bucket=name)
    s3.create_bucket(Bucket=name, ObjectOwnership="BucketOwnerPreferred", GrantRead=f"id={OTHER}")
    try:
        assert s3.get_bucket_ownership_controls(Bucket=name)["OwnershipControls"]["Rules"] == [{"ObjectOwnership": "BucketOwnerPreferred"}]
        assert grants(s3.get_bucket_acl(Bucket=name)) == [(OTHER, "READ")]
        refused("BucketAlreadyOwnedByYou", 409, s3.create_bucket, Bucket=name)
    finally:
        s3.delete_bucket(Bucket=name)


def test_versions_have_acls_of_their_own(s3, raw, bucket):
    allow_acls(s3, bucket)
    s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    old = s3.put_object(Bucket=bucket, Key="k", Body=b"old")["VersionId"]
    new = s3.put_object(Bucket=bucket, Key="k", Body=b"new", ACL="public-read")["VersionId"]
    assert stranger(raw, "GET", f"/{bucket}/k") == 200
    assert [stranger(raw, "GET", f"/{bucket}/k", query=[("versionId", v)]) for v in (old, new)] == [403, 200]
    s3.put_object_acl(Bucket=bucket, Key="k", VersionId=old, ACL="public-read")
    s3.put_object_acl(Bucket=bucket, Key="k", ACL="private")
    assert [stranger(raw, "GET", f"/{bucket}/k", query=[("versionId", v)]) for v in (old, new)] == [200, 403]
    marker = s3.delete_object(Bucket=bucket, Key="k")["VersionId"]  # it has no ACL, so strangers are not told that it is one
    s3.put_bucket_acl(Bucket=bucket, ACL="public-read-write")
    for method in ("GET", "HEAD"):
        answer = raw.request(method, f"/{bucket}/k", query=[("versionId", marker)], anonymous=True)
        assert answer.status == 403 and "last-modified" not in {name.lower() for name in answer.headers}
    source = {"x-amz-copy-source": f"/{bucket}/k?versionId={marker}"}
    assert stranger(raw, "PUT", f"/{bucket}/c", headers=source) == 403
    refused("MethodNotAllowed", 405, s3.get_object, Bucket=bucket, Key="k", VersionId=marker)
    refused("InvalidRequest", 400, s3.copy_object, Bucket=bucket, Key="c", CopySource={"Bucket": bucket, "Key": "k", "VersionId": marker})


def test_expected_owners(s3, bucket):
    s3.put_object(Bucket=bucket, Key="k", Body=b"x")
    s3.head_bucket(Bucket=bucket, ExpectedBucketOwner="000000000001")
    refused("AccessDenied", 403, s3.get_object, Bucket=bucket, Key="k", ExpectedBucketOwner="000000000002")
    refused("InvalidBucketOwnerAWSAccountID", 400, s3.get_object, Bucket=bucket, Key="k", ExpectedBucketOwner="me")
    copy = {"Bucket": bucket, "Key": "c", "CopySource": f"{bucket}/k"}
    s3.copy_object(**copy, ExpectedSourceBucketOwner="000000000001")
    refused("AccessDenied", 403, s3.copy_object, **copy, ExpectedSourceBucketOwner="000000000002")
