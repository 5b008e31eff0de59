"""Sub-resources of buckets that are kept: each is put, read back, deleted, never set, malformed, too large, and survives a restart;
and CORS, which answers by one of them."""
from concurrent.futures import ThreadPoolExecutor

import pytest
from botocore.exceptions import ClientError

from tests.conftest import make_client
from tests.support import checksums
from tests.support.daemon import Daemon
from tests.support.expect import refused

ORIGIN = "https://app.example.com"
CORS = {"CORSRules": [
    {"ID": "app", "AllowedOrigins": ["https://*.example.com"], "AllowedMethods": ["GET", "PUT"], "AllowedHeaders": ["x-amz-*", "content-type"],
     "ExposeHeaders": ["ETag", "x-amz-version-id"], "MaxAgeSeconds": 3000},
    {"AllowedOrigins": ["*"], "AllowedMethods": ["GET"]}]}
WEBSITE = {"IndexDocument": {"Suffix": "index.html"}, "ErrorDocument": {"Key": "error.html"},
           "RoutingRules": [{"Condition": {"KeyPrefixEquals": "docs/", "HttpErrorCodeReturnedEquals": "404"},
                             "Redirect": {"ReplaceKeyPrefixWith": "documents/", "HttpRedirectCode": "302", "Protocol": "https"}}]}
ARN = "arn:aws:s3:::reports"
FILTER = {"And": {"Prefix": "a/", "Tags": [{"Key": "k", "Value": "<&>"}, {"Key": "l", "Value": ""}]}}

# name -> (argument of put, value, another value, code where never set or None, code once deleted or None: as never set)
ONE = {
    "cors": ("CORSConfiguration", CORS, {"CORSRules": CORS["CORSRules"][1:]}, "NoSuchCORSConfiguration", "NoSuchCORSConfiguration"),
    "website": ("WebsiteConfiguration", WEBSITE, {"RedirectAllRequestsTo": {"HostName": "h.example", "Protocol": "https"}},
                "NoSuchWebsiteConfiguration", "NoSuchWebsiteConfiguration"),
    "ownership_controls": ("OwnershipControls", {"Rules": [{"ObjectOwnership": "BucketOwnerPreferred"}]},
                           {"Rules": [{"ObjectOwnership": "BucketOwnerEnforced"}]}, None, "OwnershipControlsNotFoundError"),
    "public_access_block": ("PublicAccessBlockConfiguration",
                            {"BlockPublicAcls": True, "IgnorePublicAcls": False, "BlockPublicPolicy": True, "RestrictPublicBuckets": False},
                            {"BlockPublicAcls": False, "IgnorePublicAcls": False, "BlockPublicPolicy": False, "RestrictPublicBuckets": False},
                            None, "NoSuchPublicAccessBlockConfiguration"),
    "request_payment": ("RequestPaymentConfiguration", {"Payer": "Requester"}, {"Payer": "BucketOwner"}, None, None),
    "accelerate_configuration": ("AccelerateConfiguration", {"Status": "Enabled"}, {"Status": "Suspended"}, None, None),
}
NAMES = {"public_access_block": "{}_public_access_block"}
LISTS = {
    "inventory": ("InventoryConfiguration", {
        "Destination": {"S3BucketDestination": {"Bucket": ARN, "Format": "CSV", "Prefix": "p"}}, "IsEnabled": True, "Filter": {"Prefix": "a/"},
        "IncludedObjectVersions": "All", "OptionalFields": ["Size", "ETag"], "Schedule": {"Frequency": "Weekly"}}),
    "metrics": ("MetricsConfiguration", {"Filter": FILTER}),
    "analytics": ("AnalyticsConfiguration", {"Filter": FILTER, "StorageClassAnalysis": {"DataExport": {
        "OutputSchemaVersion": "V_1", "Destination": {"S3BucketDestination": {"Format": "CSV", "Bucket": ARN}}}}}),
    "intelligent_tiering": ("IntelligentTieringConfiguration", {
        "Status": "Enabled", "Tierings": [{"Days": 90, "AccessTier": "ARCHIVE_ACCESS"}, {"Days": 730, "AccessTier": "DEEP_ARCHIVE_ACCESS"}]}),
}


def call(s3, verb, name):
    return getattr(s3, NAMES.get(name, "{}_bucket_" + name).format(verb))


def put(s3, bucket, name, value):
    call(s3, "put", name)(Bucket=bucket, **{ONE[name][0]: value})


def get(s3, bucket, name):
    answer = call(s3, "get", name)(Bucket=bucket)
    answer.pop("ResponseMetadata")
    return answer[ONE[name][0]] if ONE[name][0] in answer else answer


@pytest.mark.parametrize("name", ONE)
def test_put_get_delete(s3, bucket, name):
    _, value, other, never, deleted = ONE[name]
    before = None
    if never:
        refused(never, 404, get, s3, bucket, name)
    else:
        before = get(s3, bucket, name)
    for wanted in (value, other, value):
        put(s3, bucket, name, wanted)
        assert get(s3, bucket, name) == wanted
    if name in ("request_payment", "accelerate_configuration"):  # AWS has no DELETE of these
        return
    for _ in range(2):
        call(s3, "delete", name)(Bucket=bucket)
        refused(deleted, 404, get, s3, bucket, name)
    assert before != value
    put(s3, bucket, name, other)
    assert get(s3, bucket, name) == other


def list_call(s3, verb, name):
    return getattr(s3, f"{verb}_bucket_{name}_configuration{'s' if verb == 'list' else ''}")


@pytest.mark.parametrize("name", LISTS)
def test_one_of_many(s3, bucket, name):
    argument, value = LISTS[name]
    members = argument + "List"
    assert members not in list_call(s3, "list", name)(Bucket=bucket)
    refused("NoSuchConfiguration", 404, list_call(s3, "get", name), Bucket=bucket, Id="b")
    refused("NoSuchConfiguration", 404, list_call(s3, "delete", name), Bucket=bucket, Id="b")
    for id in ("b", "a.long_id-1", "c", "b"):
        list_call(s3, "put", name)(Bucket=bucket, Id=id, **{argument: {"Id": id, **value}})
    assert list_call(s3, "get", name)(Bucket=bucket, Id="b")[argument] == {"Id": "b", **value}
    answer = list_call(s3, "list", name)(Bucket=bucket)
    assert [entry["Id"] for entry in answer[members]] == ["a.long_id-1", "b", "c"] and answer["IsTruncated"] is False
    assert answer[members][2] == {"Id": "c", **value}
    refused("InvalidArgument", 400, list_call(s3, "put", name), Bucket=bucket, Id="x", **{argument: {"Id": "y", **value}})
    refused("InvalidArgument", 400, list_call(s3, "put", name), Bucket=bucket, Id="a b", **{argument: {"Id": "a b", **value}})
    list_call(s3, "delete", name)(Bucket=bucket, Id="b")
    refused("NoSuchConfiguration", 404, list_call(s3, "get", name), Bucket=bucket, Id="b")
    for id in ("a.long_id-1", "c"):
        list_call(s3, "delete", name)(Bucket=bucket, Id=id)
    assert members not in list_call(s3, "list", name)(Bucket=bucket)


def test_pages_of_many(s3, bucket):
    ids = [f"m{n:03}" for n in range(205)]
    for id in reversed(ids):
        s3.put_bucket_metrics_configuration(Bucket=bucket, Id=id, MetricsConfiguration={"Id": id})
    found, token, pages = [], None, 0
    while pages < 10:
        answer = s3.list_bucket_metrics_configurations(Bucket=bucket, **({"ContinuationToken": token} if token else {}))
        found += [entry["Id"] for entry in answer["MetricsConfigurationList"]]
        pages += 1
        token = answer.get("NextContinuationToken")
        assert answer["IsTruncated"] is (token is not None)
        if token is None:
            break
    assert found == ids and pages == 3
    refused("InvalidArgument", 400, s3.list_bucket_metrics_configurations, Bucket=bucket, ContinuationToken="m100")


def test_changes_of_many_at_once(s3, bucket):
    """Each change is made from the text that it replaces: none is lost."""
    ids = [f"m{n:02}" for n in range(24)]

    def one(id):
        try:
            s3.put_bucket_metrics_configuration(Bucket=bucket, Id=id, MetricsConfiguration={"Id": id})
            return id
        except ClientError as error:  # it met too many others
            assert error.response["Error"]["Code"] == "OperationAborted", error
            return None

    with ThreadPoolExecutor(6) as threads:
        put_ids = [id for id in threads.map(one, ids) if id]
    assert len(put_ids) > 6
    found = s3.list_bucket_metrics_configurations(Bucket=bucket)["MetricsConfigurationList"]
    assert [entry["Id"] for entry in found] == put_ids


def test_too_many(s3, bucket):
    big = {"Filter": {"Prefix": "&" * 1024}}  # kept as entities: 5 KiB
    with pytest.raises(ClientError) as error:
        for n in range(60):
            s3.put_bucket_metrics_configuration(Bucket=bucket, Id=f"m{n}", MetricsConfiguration={"Id": f"m{n}", **big})
    assert error.value.response["Error"]["Code"] == "TooManyConfigurations" and n > 45
    s3.put_bucket_metrics_configuration(Bucket=bucket, Id="m0", MetricsConfiguration={"Id": "m0"})
    assert len(s3.list_bucket_metrics_configurations(Bucket=bucket)["MetricsConfigurationList"]) == n


def test_logging(s3, bucket):
    assert "LoggingEnabled" not in s3.get_bucket_logging(Bucket=bucket)
    value = {"TargetBucket": bucket, "TargetPrefix": "logs/", "TargetObjectKeyFormat": {"PartitionedPrefix": {"PartitionDateSource": "EventTime"}}}
    s3.put_bucket_logging(Bucket=bucket, BucketLoggingStatus={"LoggingEnabled": value})
    assert s3.get_bucket_logging(Bucket=bucket)["LoggingEnabled"] == value
    refused("InvalidTargetBucketForLogging", 400, s3.put_bucket_logging, Bucket=bucket,
            BucketLoggingStatus={"LoggingEnabled": {"TargetBucket": "no-such-bucket-here", "TargetPrefix": ""}})
    grants = [{"Grantee": {"Type": "Group", "URI": "http://acs.amazonaws.com/groups/global/AllUsers"}, "Permission": "READ"}]
    refused("AccessControlListNotSupported", 400, s3.put_bucket_logging, Bucket=bucket,
            BucketLoggingStatus={"LoggingEnabled": {"TargetBucket": bucket, "TargetPrefix": "", "TargetGrants": grants}})
    s3.put_bucket_ownership_controls(Bucket=bucket, OwnershipControls={"Rules": [{"ObjectOwnership": "ObjectWriter"}]})
    value = {"TargetBucket": bucket, "TargetPrefix": "", "TargetGrants": grants}
    s3.put_bucket_logging(Bucket=bucket, BucketLoggingStatus={"LoggingEnabled": value})
    assert s3.get_bucket_logging(Bucket=bucket)["LoggingEnabled"] == value
    s3.put_bucket_logging(Bucket=bucket, BucketLoggingStatus={})
    assert "LoggingEnabled" not in s3.get_bucket_logging(Bucket=bucket)


def test_notification(s3, bucket):
    s3.put_bucket_notification_configuration(Bucket=bucket, NotificationConfiguration={})
    refused("NotImplemented", 501, s3.put_bucket_notification_configuration, Bucket=bucket,
            NotificationConfiguration={"EventBridgeConfiguration": {}})
    refused("NotImplemented", 501, s3.put_bucket_notification_configuration, Bucket=bucket, NotificationConfiguration={
        "QueueConfigurations": [{"QueueArn": "arn:aws:sqs:us-east-1:1:q", "Events": ["s3:ObjectCreated:*"]}]})
    assert set(s3.get_bucket_notification_configuration(Bucket=bucket)) == {"ResponseMetadata"}


KEPT = ["cors", "website", "logging", "ownershipControls", "publicAccessBlock", "requestPayment", "accelerate", "inventory", "metrics",
        "analytics", "intelligent-tiering", "notification"]


@pytest.mark.parametrize("name", KEPT)
def test_malformed_and_too_large(raw, bucket, name):
    for body, code in ((b"", "MissingRequestBodyError"), (b"<X/>", "MalformedXML"), (b"<X>", "MalformedXML"), (b"{}", "MalformedXML"),
                       (b"<!DOCTYPE a [<!ENTITY b 'c'>]><a>&b;</a>", "MalformedXML")):
        answer = raw.request("PUT", f"/{bucket}", query=[(name, ""), ("id", "x")], body=body, headers={"Content-MD5": checksums.content_md5(body)})
        assert (answer.status, answer.code) == (400, code), (body, answer)
    root = {"cors": "CORSConfiguration", "website": "WebsiteConfiguration", "logging": "BucketLoggingStatus", "ownershipControls": "OwnershipControls",
            "publicAccessBlock": "PublicAccessBlockConfiguration", "requestPayment": "RequestPaymentConfiguration",
            "accelerate": "AccelerateConfiguration", "inventory": "InventoryConfiguration", "metrics": "MetricsConfiguration",
            "analytics": "AnalyticsConfiguration", "intelligent-tiering": "IntelligentTieringConfiguration",
            "notification": "NotificationConfiguration"}[name]
    for inside, code in ((b"<Unknown/>", "MalformedXML"), (b"<!-- -->" * 17000, "MaxMessageLengthExceeded")):
        body = b"<%s>%s</%s>" % (root.encode(), inside, root.encode())
        answer = raw.request("PUT", f"/{bucket}", query=[(name, ""), ("id", "x")], body=body, headers={"Content-MD5": checksums.content_md5(body)})
        assert (answer.status, answer.code) == (400, code), (body[:60], answer)


def test_cors_wants_a_checksum(raw, bucket):
    body = b"<CORSConfiguration><CORSRule><AllowedOrigin>*</AllowedOrigin><AllowedMethod>GET</AllowedMethod></CORSRule></CORSConfiguration>"
    answer = raw.request("PUT", f"/{bucket}", query=[("cors", "")], body=body)
    assert (answer.status, answer.code) == (400, "InvalidRequest"), answer


@pytest.mark.parametrize("name, inside, code", [
    ("cors", "<CORSRule><AllowedOrigin>*</AllowedOrigin><AllowedMethod>GET</AllowedMethod><AllowedHeader>x:y</AllowedHeader></CORSRule>",
     "InvalidRequest"),
    ("website", "<IndexDocument><Suffix>i</Suffix></IndexDocument><RoutingRules><RoutingRule><Redirect><HostName>h</HostName>"
     "<HttpRedirectCode>306</HttpRedirectCode></Redirect></RoutingRule></RoutingRules>", "InvalidRequest"),
    ("website", "<IndexDocument><Suffix>%s</Suffix></IndexDocument>" % ("x" * (128 << 10)), "MaxMessageLengthExceeded"),
])
def test_what_aws_refuses(raw, bucket, name, inside, code):
    root = {"cors": "CORSConfiguration", "website": "WebsiteConfiguration"}[name]
    body = f"<{root}>{inside}</{root}>".encode()
    answer = raw.request("PUT", f"/{bucket}", query=[(name, "")], body=body, headers={"Content-MD5": checksums.content_md5(body)})
    assert (answer.status, answer.code) == (400, code), answer
    assert raw.request("GET", f"/{bucket}", query=[(name, "")]).status == 404


def test_restart():
    with Daemon(drives=2, ec="1+1").start() as daemon:
        s3 = make_client(daemon.endpoint, daemon.access_key, daemon.secret_key)
        s3.create_bucket(Bucket="bucket-kept")
        for name, (_, value, *_) in ONE.items():
            put(s3, "bucket-kept", name, value)
        for name, (argument, value) in LISTS.items():
            list_call(s3, "put", name)(Bucket="bucket-kept", Id="i", **{argument: {"Id": "i", **value}})
        s3.create_bucket(Bucket="bucket-gone")
        s3.delete_public_access_block(Bucket="bucket-gone")
        s3.put_object(Bucket="bucket-kept", Key="ia", Body=b"x", StorageClass="STANDARD_IA")
        daemon.stop()
        daemon.restart()
        s3 = make_client(daemon.endpoint, daemon.access_key, daemon.secret_key, retries=5)
        for name, (_, value, *_) in ONE.items():
            assert get(s3, "bucket-kept", name) == value
        for name, (argument, value) in LISTS.items():
            assert list_call(s3, "get", name)(Bucket="bucket-kept", Id="i")[argument] == {"Id": "i", **value}
        refused("NoSuchPublicAccessBlockConfiguration", 404, s3.get_public_access_block, Bucket="bucket-gone")
        assert s3.head_object(Bucket="bucket-kept", Key="ia")["StorageClass"] == "STANDARD_IA"


# ---- CORS ---------------------------------------------------------------------------------------------------

VARY = "Origin, Access-Control-Request-Headers, Access-Control-Request-Method"


def preflight(raw, path, method="GET", origin=ORIGIN, names=None):
    headers = {"Origin": origin, "Access-Control-Request-Method": method}
    return raw.plain("OPTIONS", path, {**headers, **({"Access-Control-Request-Headers": names} if names else {})})


def test_preflight(raw, s3, bucket):
    s3.put_bucket_cors(Bucket=bucket, CORSConfiguration=CORS)
    for path in (f"/{bucket}", f"/{bucket}/some/key"):
        answer = preflight(raw, path, "PUT", names="content-type, X-Amz-Date")
        assert answer.status == 200 and answer.body == b"", answer
        assert answer.headers["access-control-allow-origin"] == ORIGIN
        assert answer.headers["access-control-allow-credentials"] == "true"
        assert answer.headers["access-control-allow-methods"] == "GET, PUT"
        assert answer.headers["access-control-allow-headers"] == "content-type, X-Amz-Date"
        assert answer.headers["access-control-expose-headers"] == "ETag, x-amz-version-id"
        assert answer.headers["access-control-max-age"] == "3000"
        assert answer.headers["vary"] == VARY
    answer = preflight(raw, f"/{bucket}/k", origin="http://elsewhere")
    assert answer.status == 200 and answer.headers["access-control-allow-origin"] == "*", answer
    assert "access-control-allow-credentials" not in answer.headers
    for how in ({"method": "DELETE"}, {"method": "PUT", "origin": "http://elsewhere"}, {"names": "x-other"},
                {"names": ",".join(["x-amz-a"] * 101)}):
        answer = preflight(raw, f"/{bucket}/k", **how)
        assert (answer.status, answer.code) == (403, "AccessForbidden"), (how, answer)
        assert answer.xml.findtext("Message").startswith("CORSResponse: This CORS request is not allowed."), answer
        assert answer.xml.findtext("ResourceType") == "OBJECT" and not any(n.startswith("access-control") for n in answer.headers), answer


def test_preflight_without_rules(raw, bucket):
    for path in (f"/{bucket}/k", "/no-such-bucket-here", "/"):
        answer = preflight(raw, path)
        assert (answer.status, answer.code) == (403, "AccessForbidden"), answer
        assert answer.xml.findtext("Message") == "CORSResponse: CORS is not enabled for this bucket.", answer


def test_headers_of_answers(raw, s3, bucket):
    s3.put_bucket_cors(Bucket=bucket, CORSConfiguration=CORS)
    s3.put_object(Bucket=bucket, Key="k", Body=b"x")
    for path, status in ((f"/{bucket}/k", 200), (f"/{bucket}/none", 404)):
        answer = raw.request("GET", path, headers={"Origin": ORIGIN})
        assert answer.status == status and answer.headers["access-control-allow-origin"] == ORIGIN and answer.headers["vary"] == VARY, answer
        assert answer.headers["access-control-expose-headers"] == "ETag, x-amz-version-id", answer
        answer = raw.request("GET", path)
        assert not any(name.startswith("access-control") or name == "vary" for name in answer.headers), answer
    answer = raw.plain("GET", f"/{bucket}/k", {"Origin": ORIGIN})  # a stranger: the page learns that it was refused
    assert answer.status == 403 and answer.headers["access-control-allow-origin"] == ORIGIN, answer
    answer = raw.request("DELETE", f"/{bucket}/k", headers={"Origin": ORIGIN})
    assert answer.status == 204 and "access-control-allow-origin" not in answer.headers, answer
    s3.delete_bucket_cors(Bucket=bucket)
    answer = raw.request("GET", f"/{bucket}/none", headers={"Origin": ORIGIN})
    assert "access-control-allow-origin" not in answer.headers, answer


# ---- storage classes ----------------------------------------------------------------------------------------

@pytest.mark.parametrize("name", ["STANDARD_IA", "ONEZONE_IA", "INTELLIGENT_TIERING", "GLACIER_IR", "REDUCED_REDUNDANCY"])
def test_storage_classes(s3, bucket, name):
    s3.put_object(Bucket=bucket, Key="put", Body=b"x", StorageClass=name)
    s3.copy_object(Bucket=bucket, Key="copy", CopySource={"Bucket": bucket, "Key": "put"}, StorageClass=name)
    s3.copy_object(Bucket=bucket, Key="plain", CopySource={"Bucket": bucket, "Key": "put"})
    upload = s3.create_multipart_upload(Bucket=bucket, Key="parts", StorageClass=name)["UploadId"]
    assert s3.list_multipart_uploads(Bucket=bucket)["Uploads"][0]["StorageClass"] == name
    etag = s3.upload_part(Bucket=bucket, Key="parts", UploadId=upload, PartNumber=1, Body=b"x")["ETag"]
    assert s3.list_parts(Bucket=bucket, Key="parts", UploadId=upload)["StorageClass"] == name
    s3.complete_multipart_upload(Bucket=bucket, Key="parts", UploadId=upload, MultipartUpload={"Parts": [{"ETag": etag, "PartNumber": 1}]})
    for key in ("put", "copy", "parts"):
        assert s3.head_object(Bucket=bucket, Key=key)["StorageClass"] == name
        assert s3.get_object(Bucket=bucket, Key=key)["StorageClass"] == name
        attributes = s3.get_object_attributes(Bucket=bucket, Key=key, ObjectAttributes=["StorageClass"])
        assert attributes["StorageClass"] == name
    assert "StorageClass" not in s3.head_object(Bucket=bucket, Key="plain")
    wanted = {"put": name, "copy": name, "parts": name, "plain": "STANDARD"}
    assert {entry["Key"]: entry["StorageClass"] for entry in s3.list_objects_v2(Bucket=bucket)["Contents"]} == wanted
    assert {entry["Key"]: entry["StorageClass"] for entry in s3.list_object_versions(Bucket=bucket)["Versions"]} == wanted


@pytest.mark.parametrize("name", ["GLACIER", "DEEP_ARCHIVE", "OUTPOSTS", "SNOW", "EXPRESS_ONEZONE", "standard_ia", "NONE"])
def test_storage_classes_that_are_none(s3, bucket, name):
    for method in (s3.put_object, s3.create_multipart_upload):
        refused("InvalidStorageClass", 400, method, Bucket=bucket, Key="k", StorageClass=name)
    assert "Contents" not in s3.list_objects_v2(Bucket=bucket)
