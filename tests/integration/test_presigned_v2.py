"""URLs presigned the old way (AWSAccessKeyId, Expires, Signature), which boto3 and aws cli still make by default: taken where the
setting presign_v2 says so, and never longer than a week."""
import base64
import hashlib
import hmac
import json
import secrets
import time
import urllib.parse
import xml.etree.ElementTree as ElementTree

import pytest
import requests

from tests.conftest import Store
from tests.support.daemon import Daemon
from tests.support.expect import read

pytestmark = pytest.mark.daemon


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    log = tmp_path_factory.mktemp("access") / "log"
    with Daemon(drives=1, settings={"presign_v2": "yes", "access_log": str(log)}).start() as daemon:
        store = Store(daemon.host, daemon.port, daemon.access_key, daemon.secret_key, daemon)
        store.log = log
        yield store


@pytest.fixture
def s3(store):
    return store.s3()


@pytest.fixture
def bucket(s3):
    name = f"v2-{secrets.token_hex(4)}"
    s3.create_bucket(Bucket=name)
    return name


@pytest.fixture
def v2(store):
    return store.s3(signature_version="s3")


def signed(store, path, expires_at):
    """A GET that is signed here, so that it may expire whenever one likes."""
    text = f"GET\n\n\n{expires_at}\n{path}"
    signature = base64.b64encode(hmac.new(store.secret_key.encode(), text.encode(), hashlib.sha1).digest()).decode()
    query = urllib.parse.urlencode({"AWSAccessKeyId": store.access_key, "Expires": expires_at, "Signature": signature})
    return f"{store.endpoint}{path}?{query}"


def presign(v2, call, bucket, key="a b/é+%", expires=60, **arguments):
    url = v2.generate_presigned_url(call, Params={"Bucket": bucket, "Key": key, **arguments}, ExpiresIn=expires)
    assert "AWSAccessKeyId=" in url and "X-Amz-Signature" not in url
    return url


def code_of(answer):
    return answer.status_code, answer.content.partition(b"<Code>")[2].partition(b"<")[0].decode()


@pytest.mark.smoke
def test_calls(s3, v2, bucket):
    assert requests.put(presign(v2, "put_object", bucket), data=b"hello", timeout=30).status_code == 200
    assert read(s3, bucket, "a b/é+%") == b"hello"
    get = presign(v2, "get_object", bucket, ResponseContentType="x/y", ResponseCacheControl="a b")
    answer = requests.get(get, timeout=30)
    assert (answer.status_code, answer.content) == (200, b"hello")
    assert (answer.headers["content-type"], answer.headers["cache-control"]) == ("x/y", "a b")
    assert requests.head(presign(v2, "head_object", bucket), timeout=30).status_code == 200
    upload = s3.create_multipart_upload(Bucket=bucket, Key="m")["UploadId"]
    part = presign(v2, "upload_part", bucket, "m", UploadId=upload, PartNumber=1)
    assert requests.put(part, data=b"part", timeout=30).status_code == 200
    assert s3.list_parts(Bucket=bucket, Key="m", UploadId=upload)["Parts"][0]["Size"] == 4
    assert requests.delete(presign(v2, "delete_object", bucket), timeout=30).status_code == 204
    assert code_of(requests.get(get, timeout=30)) == (404, "NoSuchKey")


def test_headers_in_the_url(s3, v2, bucket):
    """botocore signs headers and moves them into the URL; sending them as well changes nothing."""
    url = presign(v2, "put_object", bucket, "n", ContentType="a/b", Metadata={"m": "1 +2"}, CacheControl="no-store")
    same = {"Content-Type": "a/b", "x-amz-meta-m": "1 +2", "Cache-Control": "no-store"}
    for headers in ({"Cache-Control": "no-store"}, same):
        assert requests.put(url, data=b"x", headers=headers, timeout=30).status_code == 200
        head = s3.head_object(Bucket=bucket, Key="n")
        assert (head["Metadata"], head["ContentType"], head["CacheControl"]) == ({"m": "1 +2"}, "a/b", "no-store")
        s3.delete_object(Bucket=bucket, Key="n")
    for bad in ({"Content-Type": "a/c"}, {"x-amz-meta-m": "2"}, {"x-amz-meta-other": "2"}, {"Content-MD5": "1B2M2Y8AsgTpgAmY7PhCfg=="}):
        assert code_of(requests.put(url, data=b"x", headers=bad, timeout=30)) == (403, "SignatureDoesNotMatch"), bad
    for added in ("&x-amz-meta-o=1", "&x-amz-storage-class=REDUCED_REDUNDANCY", "&content-md5=1B2M2Y8AsgTpgAmY7PhCfg=="):
        assert code_of(requests.put(url + added, data=b"x", timeout=30)) == (403, "SignatureDoesNotMatch"), added
    for added in ("&prefix=a", "&attributes", "&Content-Type=x"):
        assert requests.put(url + added, data=b"x", timeout=30).status_code == 400, added


@pytest.mark.parametrize("version", ["s3", "s3v4"])
def test_copy(store, s3, bucket, version):
    """The source is a header that makes another operation of it, wherever it stands."""
    s3.put_object(Bucket=bucket, Key="from", Body=b"copied")
    url = store.s3(signature_version=version).generate_presigned_url("copy_object", Params={
        "Bucket": bucket, "Key": "to", "CopySource": {"Bucket": bucket, "Key": "from"}})
    headers = {"x-amz-copy-source": f"{bucket}/from"} if version == "s3v4" else {}
    assert requests.put(url, headers=headers, timeout=30).status_code == 200
    assert read(s3, bucket, "to") == b"copied"


def test_altered(s3, v2, bucket):
    s3.put_object(Bucket=bucket, Key="k", Body=b"1")
    s3.put_object(Bucket=bucket, Key="l", Body=b"2")
    url = presign(v2, "get_object", bucket, "k", ResponseContentType="a/b")
    assert requests.get(url, timeout=30).status_code == 200
    assert code_of(requests.get(url.replace("/k?", "/l?"), timeout=30)) == (403, "SignatureDoesNotMatch")
    assert code_of(requests.get(url.replace("a%2Fb", "a%2Fc"), timeout=30)) == (403, "SignatureDoesNotMatch")
    assert code_of(requests.put(url, data=b"x", timeout=30)) == (403, "SignatureDoesNotMatch")
    assert code_of(requests.delete(url, timeout=30)) == (403, "SignatureDoesNotMatch")
    parts = urllib.parse.urlsplit(url)
    pairs = dict(urllib.parse.parse_qsl(parts.query))
    later = urllib.parse.urlencode({**pairs, "Expires": str(int(pairs["Expires"]) + 1000)})
    assert code_of(requests.get(parts._replace(query=later).geturl(), timeout=30)) == (403, "SignatureDoesNotMatch")
    unknown = urllib.parse.urlencode({**pairs, "AWSAccessKeyId": "NOBODY"})
    assert code_of(requests.get(parts._replace(query=unknown).geturl(), timeout=30)) == (403, "InvalidAccessKeyId")
    for name in ("Expires", "Signature", "AWSAccessKeyId"):
        without = urllib.parse.urlencode({n: v for n, v in pairs.items() if n != name})
        # without its key it is nobody's, and nobody may ask for headers of the answer
        assert requests.get(parts._replace(query=without).geturl(), timeout=30).status_code == (400 if name == "AWSAccessKeyId" else 403)
        bent = urllib.parse.urlencode({**pairs, name: "!"})
        assert requests.get(parts._replace(query=bent).geturl(), timeout=30).status_code in (400, 403)


def test_expired(s3, v2, bucket):
    s3.put_object(Bucket=bucket, Key="k", Body=b"1")
    url = presign(v2, "get_object", bucket, "k", expires=1)
    time.sleep(2.1)
    answer = requests.get(url, timeout=30)
    assert code_of(answer) == (403, "AccessDenied")
    until = int(urllib.parse.parse_qs(urllib.parse.urlsplit(url).query)["Expires"][0])
    error = ElementTree.fromstring(answer.content)
    assert error.findtext("Message") == "Request has expired"
    assert error.findtext("Expires") == time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(until))
    assert error.findtext("ServerTime") and error.find("X-Amz-Expires") is None, answer.content


def test_a_week_at_most(store, s3, bucket):
    s3.put_object(Bucket=bucket, Key="k", Body=b"1")
    now, week = int(time.time()), 7 * 24 * 3600
    assert requests.get(signed(store, f"/{bucket}/k", now + week - 60), timeout=30).content == b"1"
    for later in (now + week + 60, now + 50 * 52 * week):
        answer = requests.get(signed(store, f"/{bucket}/k", later), timeout=30)
        assert code_of(answer) == (403, "AccessDenied") and b"week" in answer.content, answer.content


def test_signatures_are_not_logged(store, v2, s3, bucket):
    """Neither version's, nor in the header that names where a client came from, nor where a URL was encoded twice."""
    s3.put_object(Bucket=bucket, Key="k", Body=b"1")
    old = presign(v2, "get_object", bucket, "k")
    new = s3.generate_presigned_url("get_object", Params={"Bucket": bucket, "Key": "k"}, ExpiresIn=60)
    found = [urllib.parse.parse_qs(urllib.parse.urlsplit(url).query) for url in (old, new)]
    signatures = [found[0]["Signature"][0], found[1]["X-Amz-Signature"][0]]
    for url in (old, new):
        assert requests.get(url, headers={"Referer": url, "User-Agent": f"agent {url}"}, timeout=30).status_code == 200
        requests.get(url.replace("?", "%3F"), timeout=30)
        requests.get(url.replace("Signature", "%53ignature"), timeout=30)
    end = f"{bucket}-end"
    requests.get(f"{store.endpoint}/{end}", timeout=30)
    for _ in range(500):
        text = store.log.read_text()
        if end in text:
            break
        time.sleep(0.02)
    lines = [json.loads(line) for line in text.splitlines()]
    assert sum("ignature=*" in line["target"] for line in lines) >= 6, text
    for signature in signatures:
        assert signature not in text and urllib.parse.quote(signature, safe="") not in text


def test_off_unless_said_otherwise(pool):
    store = pool.get("single")
    s3, name = store.s3(), f"v2-{secrets.token_hex(4)}"
    s3.create_bucket(Bucket=name)
    s3.put_object(Bucket=name, Key="k", Body=b"1")
    v2 = store.s3(signature_version="s3")
    for call, method in (("get_object", "get"), ("put_object", "put"), ("delete_object", "delete")):
        answer = requests.request(method, presign(v2, call, name, "k"), timeout=30)
        assert code_of(answer) == (400, "InvalidRequest") and b"AWS4-HMAC-SHA256" in answer.content, answer.content
    assert read(s3, name, "k") == b"1"
