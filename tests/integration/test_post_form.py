"""Uploads by browsers' forms (POST object): what boto3 signs and requests sends, and forms that are made here byte by byte."""
import base64
import datetime
import hashlib
import hmac
import json
import re
import secrets
import urllib.parse
import xml.etree.ElementTree as ElementTree

import pytest
import requests

from tests.conftest import Store
from tests.support.daemon import Daemon
from tests.support.expect import read
from tests.support.s3raw import error_shape

pytestmark = pytest.mark.daemon
BOUNDARY = "----aBoundary"


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    log = tmp_path_factory.mktemp("access") / "log"
    with Daemon(drives=1, settings={"access_log": str(log)}).start() as daemon:
        store = Store(daemon.host, daemon.port, daemon.access_key, daemon.secret_key, daemon)
        store.log = log
        yield store


def keys_of(s3, bucket):
    return [row["Key"] for row in s3.list_objects_v2(Bucket=bucket).get("Contents", [])]


def post(s3, bucket, key, body, fields=None, conditions=None, name="local.txt", **how):
    signed = s3.generate_presigned_post(bucket, key, Fields=fields, Conditions=conditions, **how)
    return requests.post(signed["url"], data=signed["fields"], files={"file": (name, body)}, allow_redirects=False, timeout=60)


def code_of(answer):
    return ElementTree.fromstring(answer.content).findtext("Code")


def message_of(answer):
    return ElementTree.fromstring(answer.content).findtext("Message")


class Form:
    """A form with a policy of one's own, signed here."""

    def __init__(self, store, bucket, key="k", conditions=None, expires=600, **fields):
        now = datetime.datetime.now(datetime.timezone.utc)
        day, self.bucket, self.raw = now.strftime("%Y%m%d"), bucket, store.raw
        until = (now + datetime.timedelta(seconds=expires)).strftime("%Y-%m-%dT%H:%M:%S.000Z")
        auth = {"x-amz-algorithm": "AWS4-HMAC-SHA256", "x-amz-date": now.strftime("%Y%m%dT%H%M%SZ"),
                "x-amz-credential": f"{store.access_key}/{day}/{store.raw.region}/s3/aws4_request"}
        fields = {name.replace("_", "-") if name.startswith("x_") else name: value for name, value in fields.items()}
        named = [{"bucket": bucket}, ["starts-with", "$key", ""], *({k: v} for k, v in {**auth, **fields}.items())]
        self.policy = json.dumps({"expiration": until, "conditions": named + (conditions or [])})
        secret = ("AWS4" + store.secret_key).encode()
        for step in (day, store.raw.region, "s3", "aws4_request"):
            secret = hmac.new(secret, step.encode(), hashlib.sha256).digest()
        self.secret = secret
        self.fields = {"key": key, **fields, **auth}
        self.sign()

    def sign(self):
        policy = self.policy if isinstance(self.policy, bytes) else base64.b64encode(self.policy.encode())
        self.fields["policy"] = policy.decode()
        self.fields["x-amz-signature"] = hmac.new(self.secret, policy, hashlib.sha256).hexdigest()

    def body(self, data, end=True, filename="f.txt", late=""):
        parts = "".join(f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n' for name, value in self.fields.items())
        parts += f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="file"; filename="{filename}"\r\nContent-Type: text/x-part\r\n\r\n'
        return parts.encode() + data + late.encode() + (f"\r\n--{BOUNDARY}--\r\n".encode() if end else b"")

    def send(self, data, body=None, headers=None, path=None, **how):
        body = self.body(data, **how) if body is None else body
        headers = {"Content-Type": f"multipart/form-data; boundary={BOUNDARY}", "Content-Length": str(len(body)), **(headers or {})}
        return self.raw.plain("POST", path or f"/{self.bucket}", headers, body)


# ---- what works ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [0, 1, 100_000, 3_000_001])
def test_boto3_signs_and_requests_sends(s3, bucket, size):
    body = secrets.token_bytes(size)
    answer = post(s3, bucket, "a b/é.bin", body, {"Content-Type": "image/x", "x-amz-meta-who": "me", "acl": "private"},
                  [{"Content-Type": "image/x"}, {"x-amz-meta-who": "me"}, {"acl": "private"}, ["content-length-range", 0, size]])
    assert (answer.status_code, answer.content) == (204, b""), answer.content
    assert answer.headers["ETag"] == f'"{hashlib.md5(body).hexdigest()}"'
    found = s3.get_object(Bucket=bucket, Key="a b/é.bin")
    assert found["Body"].read() == body
    assert (found["ContentType"], found["Metadata"]) == ("image/x", {"who": "me"})


def test_the_name_of_the_file_becomes_part_of_the_key(s3, bucket):
    assert post(s3, bucket, "up/${filename}", b"x", name="photo 1.jpg").status_code == 204
    assert keys_of(s3, bucket) == ["up/photo 1.jpg"]
    assert s3.head_object(Bucket=bucket, Key="up/photo 1.jpg")["ContentType"] == "binary/octet-stream"  # not the part's


def test_statuses_and_documents(s3, bucket):
    for status, wanted in (("200", 200), ("201", 201), ("204", 204), ("404", 204), ("", 204)):
        answer = post(s3, bucket, "k&1", b"x", {"success_action_status": status}, [["starts-with", "$success_action_status", ""]])
        assert answer.status_code == wanted, status
        assert urllib.parse.urlsplit(answer.headers["Location"]).path == f"/{bucket}/k%261"
        if wanted == 201:
            root = ElementTree.fromstring(answer.content)
            assert (root.tag, root.findtext("Bucket"), root.findtext("Key")) == ("PostResponse", bucket, "k&1")
            assert root.findtext("ETag") == answer.headers["ETag"] and root.findtext("Location") == answer.headers["Location"]
        else:
            assert answer.content == b""


@pytest.mark.parametrize("field", ["success_action_redirect", "redirect"])
def test_redirects(s3, bucket, field):
    etag = urllib.parse.quote(f'"{hashlib.md5(b"x").hexdigest()}"')
    for url, wanted in (("http://a.example/ok", "http://a.example/ok?"), ("https://a.example/?a=1#top", "https://a.example/?a=1&")):
        answer = post(s3, bucket, "a/k", b"x", {field: url, "success_action_status": "201"},
                      [{field: url}, {"success_action_status": "201"}])
        assert answer.status_code == 303
        assert answer.headers["Location"] == f"{wanted}bucket={bucket}&key=a%2Fk&etag={etag}"
    for url in ("javascript:alert(1)", "http://a.example/\r\nSet-Cookie: a=b", "http://a.example/é", "/local", "http://" + "a" * 3000):
        answer = post(s3, bucket, "k", b"x", {field: url}, [["starts-with", f"${field}", ""]])
        assert answer.status_code == 204 and "Set-Cookie" not in answer.headers, url


def test_tags_storage_class_and_checksums(store, s3, bucket):
    tags = "<Tagging><TagSet><Tag><Key>a b</Key><Value>1=2</Value></Tag><Tag><Key>é</Key><Value></Value></Tag></TagSet></Tagging>"
    crc = base64.b64encode((0xe3069283).to_bytes(4, "big")).decode()  # of 123456789
    answer = Form(store, bucket, tagging=tags, x_amz_storage_class="STANDARD_IA", x_amz_checksum_crc32c=crc).send(b"123456789")
    assert answer.status == 204, answer.body
    assert s3.get_object_tagging(Bucket=bucket, Key="k")["TagSet"] == [{"Key": "a b", "Value": "1=2"}, {"Key": "é", "Value": ""}]
    head = s3.head_object(Bucket=bucket, Key="k", ChecksumMode="ENABLED")
    assert (head["StorageClass"], head["ChecksumCRC32C"]) == ("STANDARD_IA", crc)
    assert Form(store, bucket, "l", x_amz_checksum_crc32c=crc).send(b"12345678x").code == "BadDigest"
    assert Form(store, bucket, "l", tagging="<Tagging>").send(b"x").code == "MalformedXML"
    assert keys_of(s3, bucket) == ["k"]


def test_versions(s3, bucket):
    s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    answer = post(s3, bucket, "k", b"one")
    assert s3.get_object(Bucket=bucket, Key="k", VersionId=answer.headers["x-amz-version-id"])["Body"].read() == b"one"


def test_fields_behind_the_file_are_ignored(store, s3, bucket):
    late = f'\r\n--{BOUNDARY}\r\nContent-Disposition: form-data; name="submit"\r\n\r\nSend'
    assert Form(store, bucket).send(b"data", late=late).status == 204
    assert read(s3, bucket, "k") == b"data"


# ---- what is refused: nothing is stored ------------------------------------------------------------------------------------------


def test_sizes_out_of_range(s3, bucket):
    few, many = post(s3, bucket, "k", b"1234", conditions=[["content-length-range", 5, 10]]), None
    assert (few.status_code, code_of(few)) == (400, "EntityTooSmall"), few.content
    for size in (11, 5_000_000):
        many = post(s3, bucket, "k", b"x" * size, conditions=[["content-length-range", 5, 10]])
        assert (many.status_code, code_of(many)) == (400, "EntityTooLarge"), many.content
        assert ElementTree.fromstring(many.content).findtext("MaxSizeAllowed") == "10"
    assert keys_of(s3, bucket) == []


def test_too_large_is_said_in_the_middle_of_the_body(store, s3, bucket):
    """The rest of a long body is not waited for."""
    form = Form(store, bucket, conditions=[["content-length-range", 0, 1000]])
    body = form.body(b"x" * 200_000, end=False)
    answer = form.send(b"", body=body, headers={"Content-Length": str(1 << 30)})
    assert (answer.status, answer.code) == (400, "EntityTooLarge"), answer
    assert keys_of(s3, bucket) == []


@pytest.mark.parametrize("cut", ["end", "file", "fields"])
def test_what_is_not_whole(store, s3, bucket, cut):
    form = Form(store, bucket)
    body = form.body(b"x" * 300_000, end=False)
    if cut == "fields":
        body = body[:300]
    elif cut == "file":
        body += f"\r\n--{BOUNDARY}".encode()
    answer = form.send(b"", body=body)
    assert (answer.status, error_shape(answer)) == (400, "MalformedPOSTRequest"), answer
    assert keys_of(s3, bucket) == []


def test_signatures(store, s3, bucket):
    def refused(change, status, code):
        form = Form(store, bucket)
        change(form.fields)
        answer = form.send(b"x")
        assert (answer.status, error_shape(answer)) == (status, code), answer

    key, day = store.access_key, datetime.datetime.now(datetime.timezone.utc).strftime("%Y%m%d")
    refused(lambda f: f.update({"x-amz-signature": "0" * 64}), 403, "SignatureDoesNotMatch")
    refused(lambda f: f.update({"x-amz-signature": "zz"}), 403, "SignatureDoesNotMatch")
    refused(lambda f: f.update({"policy": f["policy"][:-4] + "AAAA"}), 403, "SignatureDoesNotMatch")
    refused(lambda f: f.update({"x-amz-credential": f"nobody/{day}/{store.raw.region}/s3/aws4_request"}), 403, "InvalidAccessKeyId")
    refused(lambda f: f.update({"x-amz-credential": f"{key}/{day}/mars-1/s3/aws4_request"}), 400, "AuthorizationQueryParametersError")
    refused(lambda f: f.update({"x-amz-algorithm": "AWS4-ECDSA-P256-SHA256"}), 501, "NotImplemented")
    refused(lambda f: f.update({"x-amz-security-token": "t"}), 400, "InvalidToken")
    refused(lambda f: f.update({"AWSAccessKeyId": key}), 400, "InvalidArgument")
    for name in ("policy", "x-amz-signature", "x-amz-date", "x-amz-credential", "x-amz-algorithm", "key"):
        refused(lambda f: f.pop(name), 400, "InvalidArgument")
    refused(lambda f: [f.pop(name) for name in list(f) if name != "key"], 403, "AccessDenied")  # nobody's
    assert keys_of(s3, bucket) == []


def test_policies(store, s3, bucket):
    def refused(form, status, code, message=""):
        answer = form.send(b"x")
        assert (answer.status, error_shape(answer)) == (status, code), answer
        assert message in answer.xml.findtext("Message")

    def policy(text):
        form = Form(store, bucket)
        form.policy = text
        form.sign()
        return form

    refused(Form(store, bucket, expires=-1), 403, "AccessDenied", "Policy expired.")
    refused(Form(store, bucket, conditions=[["starts-with", "$key", "user/"]]), 403, "AccessDenied", 'Policy Condition failed: ["starts-with", "$key", "user/"]')
    form = Form(store, bucket)
    form.fields["x-amz-meta-more"] = "1"
    refused(form, 403, "AccessDenied", "Extra input fields: x-amz-meta-more")
    form = Form(store, bucket)
    form.fields["x-ignore-more"] = "1"
    assert form.send(b"x").status == 204
    s3.delete_object(Bucket=bucket, Key="k")
    for text in ("{", "[]", '{"conditions": []}', "[" * 9000, b"e30*", b""):
        refused(policy(text), 400, "InvalidPolicyDocument")
    other = Form(store, bucket)
    s3.create_bucket(Bucket=bucket + "-2")
    answer = other.send(b"x", path=f"/{bucket}-2")
    assert (answer.status, answer.code) == (403, "AccessDenied"), answer
    assert keys_of(s3, bucket) == keys_of(s3, bucket + "-2") == []


def test_limits(store, s3, bucket):
    def refused(form, code, status=400, **how):
        answer = form.send(b"x", **how)
        assert (answer.status, error_shape(answer)) == (status, code), answer

    refused(Form(store, bucket, a="v" * 21_000), "MaxPostPreDataLengthExceededError")
    refused(Form(store, bucket, key="k" * 1025), "KeyTooLongError")
    refused(Form(store, bucket, key="${filename}"), "InvalidArgument", filename="")
    refused(Form(store, bucket, x_amz_meta_a="v" * 2100), "MetadataTooLarge")
    refused(Form(store, bucket, acl="public-read"), "AccessControlListNotSupported")
    refused(Form(store, bucket, acl="none-such"), "InvalidArgument")
    refused(Form(store, bucket, x_amz_server_side_encryption="AES256"), "NotImplemented", 501)
    refused(Form(store, bucket, x_amz_unheard_of="1"), "NotImplemented", 501)
    refused(Form(store, bucket, **{"Content-MD5": "AAAAAAAAAAAAAAAAAAAAAA=="}), "BadDigest")
    refused(Form(store, bucket, **{"success_action_status": "200"}), "MalformedPOSTRequest", body=b"no form at all")
    refused(Form(store, bucket), "NotImplemented", 501, headers={"x-amz-meta-a": "1"})
    refused(Form(store, bucket), "PreconditionFailed", 412, headers={"Content-Type": "text/plain"})
    refused(Form(store, bucket), "MalformedPOSTRequest", headers={"Content-Type": "multipart/form-data"})
    refused(Form(store, bucket), "MalformedPOSTRequest", headers={"Content-Type": "multipart/form-data; boundary="})
    assert keys_of(s3, bucket) == []


def test_a_bucket_that_is_not_there(store):
    answer = Form(store, "none-such-bucket").send(b"x")
    assert (answer.status, answer.code) == (404, "NoSuchBucket"), answer


def test_nothing_is_injected(store, s3, bucket):
    """Lines in fields neither become headers of answers nor lines of the log."""
    form = Form(store, bucket, key="a\r\nX-Injected: 1\r\nb", x_amz_meta_a="a\r\nx-injected: 1")
    assert (answer := form.send(b"x")).code == "InvalidArgument" and "x-injected" not in answer.headers
    for name in ("x-amz-meta-a: b", "x-amz-meta-a:", "x-amz-meta-a b", "x-amz-meta-é"):  # none that would come back so
        assert Form(store, bucket, key="named", **{name: "v"}).send(b"x").code == "InvalidArgument"
    form = Form(store, bucket, key="a\r\nX-Injected: 1", success_action_status="201")
    answer = form.send(b"x")
    assert answer.status == 201 and "x-injected" not in answer.headers
    assert read(s3, bucket, "a\r\nX-Injected: 1") == b"x"
    lines = store.log.read_text().splitlines()
    assert lines and all(json.loads(line) for line in lines)
    assert not any(re.match("X-Injected", line, re.I) for line in lines)


def test_signed_twice(raw, s3, bucket):
    headers = {"content-type": f"multipart/form-data; boundary={BOUNDARY}"}
    assert raw.request("POST", f"/{bucket}", headers=headers).code == "InvalidArgument"
    assert raw.request("POST", f"/{bucket}").code == "PreconditionFailed"


def test_version_2_is_off_unless_set(store, s3, bucket, tmp_path):
    old = store.s3(signature_version="s3")
    answer = post(old, bucket, "k", b"x")
    assert (answer.status_code, code_of(answer)) == (400, "InvalidRequest"), answer.content
    with Daemon(drives=1, settings={"presign_v2": "yes"}).start() as daemon:
        taken = Store(daemon.host, daemon.port, daemon.access_key, daemon.secret_key, daemon)
        taken.s3().create_bucket(Bucket="old-forms")
        assert post(taken.s3(signature_version="s3"), "old-forms", "k", b"old").status_code == 204
        assert read(taken.s3(), "old-forms", "k") == b"old"
        signed = taken.s3(signature_version="s3").generate_presigned_post("old-forms", "k")
        signed["fields"]["signature"] = "AAAAAAAAAAAAAAAAAAAAAAAAAAA="
        answer = requests.post(signed["url"], data=signed["fields"], files={"file": b"x"}, timeout=60)
        assert code_of(answer) == "SignatureDoesNotMatch"


def test_random_cuts(store, s3, bucket, rng):
    """The same form in pieces of random sizes."""
    data = (b"\r\n--" + BOUNDARY.encode()[:-1]) * 5000
    form = Form(store, bucket)
    body = form.body(data)
    head = f"POST /{bucket} HTTP/1.1\r\nHost: {store.host}\r\nContent-Type: multipart/form-data; boundary={BOUNDARY}\r\nContent-Length: {len(body)}\r\n\r\n"
    connection = store.raw.connect(60)
    try:
        connection.send(head.encode())
        at = 0
        while at < len(body):
            n = rng.choice([1, 2, 17, 400, 9000])
            connection.send(body[at:at + n])
            at += n
        assert connection.answer("POST").status == 204
    finally:
        connection.close()
    assert read(s3, bucket, "k") == data
