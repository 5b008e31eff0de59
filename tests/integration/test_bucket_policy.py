"""Bucket policies: as they are kept, and what they let strangers and root do."""
import json

import pytest

from tests.support.expect import refused

OPEN = {"PublicAccessBlockConfiguration": {"BlockPublicAcls": True, "IgnorePublicAcls": True, "BlockPublicPolicy": False, "RestrictPublicBuckets": False}}


def statement(effect, action, resource, **more):
    return {"Effect": effect, "Principal": "*", "Action": action, "Resource": f"arn:aws:s3:::{resource}", **more}


def policy(*statements):
    return json.dumps({"Version": "2012-10-17", "Statement": statements})


def status(raw, method, path, **more):
    return raw.request(method, path, anonymous=True, **more).status


def test_kept_as_it_was_sent(s3, bucket):
    refused("NoSuchBucketPolicy", 404, s3.get_bucket_policy, Bucket=bucket)
    text = policy(statement("Allow", "s3:GetObject", f"{bucket}/*", Condition={"IpAddress": {"aws:SourceIp": "10.0.0.0/8"}})).replace(", ", ",\n  ")
    s3.put_bucket_policy(Bucket=bucket, Policy=text)
    assert s3.get_bucket_policy(Bucket=bucket)["Policy"] == text
    assert s3.get_bucket_policy_status(Bucket=bucket)["PolicyStatus"] == {"IsPublic": False}
    s3.delete_bucket_policy(Bucket=bucket)
    s3.delete_bucket_policy(Bucket=bucket)
    refused("NoSuchBucketPolicy", 404, s3.get_bucket_policy_status, Bucket=bucket)


@pytest.mark.parametrize("text", ["{}", "[]", "{", '{"Version": "2012-10-17", "Statement": []}', policy(statement("Allow", "s3:GetObject", "another/*")),
                                  policy(statement("Perhaps", "s3:GetObject", "{b}/*")), policy(statement("Allow", "s3:FlyObject", "{b}/*")),
                                  policy(statement("Deny", ["s3:GetObject", "s3:PutObject"], "{b}/*", Condition={"StringEquals": {"s3:x-amz-acl": "private"}})),
                                  policy(statement("Allow", "s3:GetObject", "{b}/*", Condition={"NotIpAddress": {"aws:SourceIp": "10.0.0/40"}})),
                                  policy({**statement("Allow", "s3:GetObject", "{b}/*"), "Principal": {"AWS": "arn:aws:iam::000000000001:user/nobody"}})])
def test_policies_that_are_refused(s3, bucket, text):
    refused("MalformedPolicy", 400, s3.put_bucket_policy, Bucket=bucket, Policy=text.replace("{b}", bucket))
    refused("NoSuchBucketPolicy", 404, s3.get_bucket_policy, Bucket=bucket)


def test_public_access_block(s3, raw, bucket):
    s3.put_object(Bucket=bucket, Key="k", Body=b"text")
    text = policy(statement("Allow", "s3:GetObject", f"{bucket}/*"))
    refused("AccessDenied", 403, s3.put_bucket_policy, Bucket=bucket, Policy=text)
    s3.put_public_access_block(Bucket=bucket, **OPEN)
    s3.put_bucket_policy(Bucket=bucket, Policy=text)
    assert s3.get_bucket_policy_status(Bucket=bucket)["PolicyStatus"] == {"IsPublic": True}
    assert raw.request("GET", f"/{bucket}/k", anonymous=True).body == b"text"
    s3.put_public_access_block(Bucket=bucket, PublicAccessBlockConfiguration={"RestrictPublicBuckets": True})
    assert status(raw, "GET", f"/{bucket}/k") == 403
    s3.delete_public_access_block(Bucket=bucket)
    assert status(raw, "GET", f"/{bucket}/k") == 200
    s3.delete_bucket_policy(Bucket=bucket)
    assert status(raw, "GET", f"/{bucket}/k") == 403


def test_strangers_get_what_the_policy_says(s3, raw, bucket):
    for key in ("public/a", "private"):
        s3.put_object(Bucket=bucket, Key=key, Body=b"text")
    s3.put_public_access_block(Bucket=bucket, **OPEN)
    s3.put_bucket_policy(Bucket=bucket, Policy=policy(statement("Allow", "s3:GetObject", f"{bucket}/public/*")))
    assert [status(raw, method, f"/{bucket}/public/a") for method in ("GET", "HEAD", "PUT", "DELETE")] == [200, 200, 403, 403]
    assert status(raw, "GET", f"/{bucket}/private") == 403
    assert status(raw, "GET", f"/{bucket}/public/none") == 403
    assert status(raw, "GET", f"/{bucket}") == 403
    assert status(raw, "GET", f"/{bucket}/public/a", query=[("response-content-type", "text/html")]) == 400
    assert status(raw, "GET", f"/{bucket}/public/a", query=[("versionId", "null")]) == 403
    s3.put_bucket_policy(Bucket=bucket, Policy=policy(
        statement("Allow", "s3:*", f"{bucket}/*"),
        statement("Allow", "s3:ListBucket", bucket, Condition={"StringEquals": {"s3:prefix": "public/"}})))
    assert status(raw, "GET", f"/{bucket}", query=[("prefix", "public/")]) == 200
    assert status(raw, "GET", f"/{bucket}", query=[("prefix", "")]) == 403
    assert status(raw, "PUT", f"/{bucket}/new", body=b"theirs") == 200
    assert s3.get_object(Bucket=bucket, Key="new")["Body"].read() == b"theirs"
    assert status(raw, "DELETE", f"/{bucket}/new") == 204
    for method, path in (("GET", "/"), ("PUT", f"/{bucket}-new"), ("POST", "/_millrace/v1/batch"), ("DELETE", f"/{bucket}"), ("GET", f"/{bucket}-none/k")):
        assert status(raw, method, path) == 403, path


def test_a_deny_binds_root_but_for_the_policy(s3, bucket):
    s3.put_object(Bucket=bucket, Key="k", Body=b"text")
    s3.put_bucket_policy(Bucket=bucket, Policy=policy(statement("Deny", "s3:*", bucket), statement("Deny", "s3:*", f"{bucket}/*")))
    refused("AccessDenied", 403, s3.get_object, Bucket=bucket, Key="k")
    refused("AccessDenied", 403, s3.list_objects_v2, Bucket=bucket)
    answer = s3.delete_objects(Bucket=bucket, Delete={"Objects": [{"Key": "k"}]})
    assert answer["Errors"][0]["Code"] == "AccessDenied"
    assert json.loads(s3.get_bucket_policy(Bucket=bucket)["Policy"])["Statement"][0]["Effect"] == "Deny"
    s3.delete_bucket_policy(Bucket=bucket)
    assert s3.get_object(Bucket=bucket, Key="k")["Body"].read() == b"text"


def test_conditional_writes_are_demanded(s3, bucket):
    """As AWS's user guide has it: what makes an object needs a condition; uploads in parts, which have none, are exempt."""
    s3.put_bucket_policy(Bucket=bucket, Policy=policy(statement("Deny", "s3:PutObject", f"{bucket}/*", Condition={
        "Null": {"s3:if-none-match": "true"}, "Bool": {"s3:ObjectCreationOperation": "true"}})))
    refused("AccessDenied", 403, s3.put_object, Bucket=bucket, Key="k", Body=b"x")
    s3.put_object(Bucket=bucket, Key="k", Body=b"x", IfNoneMatch="*")
    refused("AccessDenied", 403, s3.copy_object, Bucket=bucket, Key="copy", CopySource=f"{bucket}/k")
    upload = {"Bucket": bucket, "Key": "parts", "UploadId": s3.create_multipart_upload(Bucket=bucket, Key="parts")["UploadId"]}
    s3.upload_part_copy(**upload, PartNumber=1, CopySource=f"{bucket}/k")
    parts = {"Parts": [{"PartNumber": 2, "ETag": s3.upload_part(**upload, PartNumber=2, Body=b"x")["ETag"]}]}
    refused("AccessDenied", 403, s3.complete_multipart_upload, **upload, MultipartUpload=parts)
    s3.complete_multipart_upload(**upload, MultipartUpload=parts, IfNoneMatch="*")
    s3.delete_bucket_policy(Bucket=bucket)
