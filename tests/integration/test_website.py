"""Buckets as websites: what a browser gets, and what nobody gets. Rules W1 to W11 of docs/design/website.md."""
import http.client
import json

import pytest

from tests.conftest import make_client
from tests.integration.test_acl import UNBLOCKED, allow_acls
from tests.integration.test_switches import cli
from tests.support.daemon import Daemon
from tests.support.s3raw import RawClient

DOMAIN = "web.example.test"
OPEN = {"BlockPublicAcls": True, "IgnorePublicAcls": True, "BlockPublicPolicy": False, "RestrictPublicBuckets": False}
SITE = {"IndexDocument": {"Suffix": "index.html"}, "ErrorDocument": {"Key": "error.html"}}
PAGES = {"index.html": b"<h1>home</h1>", "docs/index.html": b"docs", "error.html": b"<h1>oops</h1>", "page": b"0123456789", "big": b"x" * 3_000_000}


class Site:
    def __init__(self, daemon):
        self.daemon = daemon
        self.s3 = make_client(daemon.endpoint, daemon.access_key, daemon.secret_key)

    def bucket(self, name, site=SITE, actions=("s3:GetObject",), pages=PAGES):
        self.s3.create_bucket(Bucket=name)
        for key, body in pages.items():
            self.s3.put_object(Bucket=name, Key=key, Body=body, ContentType="text/html")
        if site:
            self.s3.put_bucket_website(Bucket=name, WebsiteConfiguration=site)
        self.allow(name, *actions)
        return f"{name}.{DOMAIN}"

    def allow(self, name, *actions, keys="*"):
        self.s3.put_public_access_block(Bucket=name, PublicAccessBlockConfiguration=OPEN)
        resources = [f"arn:aws:s3:::{name}/{keys}", f"arn:aws:s3:::{name}"]
        statements = [{"Effect": "Allow", "Principal": "*", "Action": a, "Resource": resources[a == "s3:ListBucket"]} for a in actions]
        self.s3.put_bucket_policy(Bucket=name, Policy=json.dumps({"Version": "2012-10-17", "Statement": statements}))

    def ask(self, host, path="/", method="GET", body=None, **headers):
        connection = http.client.HTTPConnection(self.daemon.host, self.daemon.port, timeout=30)
        try:
            connection.request(method, path, body=body, headers={"Host": host, **{k.replace("_", "-"): v for k, v in headers.items()}})
            answer = connection.getresponse()
            answer.text = answer.read()
            return answer
        finally:
            connection.close()

    def status(self, *args, **more):
        return self.ask(*args, **more).status

    def place(self, *args, **more):
        answer = self.ask(*args, **more)
        return answer.status, answer.getheader("Location")


@pytest.fixture(scope="module")
def site():
    settings = {"website_domain": DOMAIN, "website_host": "www.example.org, .sites.example.org", "domain": "s3.example.test"}
    with Daemon(settings=settings).start() as daemon:
        yield Site(daemon)


@pytest.fixture(scope="module")
def home(site):
    return site.bucket("home", actions=("s3:GetObject", "s3:ListBucket"))


def test_pages(site, home):
    for path, body in {"/": b"<h1>home</h1>", "/docs/": b"docs", "/page": b"0123456789", "/big": PAGES["big"], "/page?acl&versionId=x&response-content-type=a": b"0123456789"}.items():
        answer = site.ask(home, path)
        assert (answer.status, answer.text, answer.getheader("Content-Type")) == (200, body, "text/html"), path
        head = site.ask(home, path, method="HEAD")
        assert (head.status, head.text, head.getheader("Content-Length")) == (200, b"", str(len(body))), path
    part = site.ask(home, "/page", Range="bytes=2-4")
    assert (part.status, part.text, part.getheader("Content-Range")) == (206, b"234", "bytes 2-4/10")
    etag = part.getheader("ETag")
    assert site.status(home, "/page", If_None_Match=etag) == 304
    assert site.status(home, "/page", If_Match='"other"') == 412
    assert site.place(home, "/docs") == (302, "/docs/")
    assert site.ask(home.upper().replace("HOME", "Home") + ":9000").status == 200


def test_errors(site, home):
    answer = site.ask(home, "/none", Range="bytes=0-1", If_None_Match="*")
    assert (answer.status, answer.text) == (404, b"<h1>oops</h1>")
    assert (answer.getheader("x-amz-error-code"), answer.getheader("x-amz-error-message")) == ("NoSuchKey", "The specified key does not exist.")
    assert site.ask(home, "/none", method="HEAD").status == 404
    site.s3.delete_object(Bucket="home", Key="error.html")
    page = site.ask(home, "/%3Cscript%3E&")
    assert page.status == 404 and page.getheader("Content-Type") == "text/html; charset=utf-8"
    assert b"<li>Code: NoSuchKey</li>" in page.text and b"<h1>404 Not Found</h1>" in page.text and b"<script>" not in page.text
    assert b"<li>Key: &lt;script&gt;&amp;</li>" in page.text
    assert b"Custom Error Document" in page.text and b"<li>Key: error.html</li>" in page.text
    site.s3.put_object(Bucket="home", Key="error.html", Body=PAGES["error.html"], ContentType="text/html")
    for method in ("PUT", "POST", "DELETE", "PATCH"):
        answer = site.ask(home, "/page", method=method)
        assert answer.status == 405 and b"<li>Code: MethodNotAllowed</li>" in answer.text and answer.getheader("Allow") == "GET, HEAD, OPTIONS", method
    assert site.status(home, "/page", body=b"x" * 100) == 400
    assert site.s3.get_object(Bucket="home", Key="page")["Body"].read() == b"0123456789"
    assert b"Code: InvalidURI" in site.ask(home, "/%zz").text
    assert site.status(home, "/" + "k" * 1025) == 400
    for host in (f"nobody.{DOMAIN}", DOMAIN, f"a_b.{DOMAIN}", f"{'x' * 200}.{DOMAIN}"):
        answer = site.ask(host)
        assert answer.status == 404 and b"Code: NoSuchBucket" in answer.text, host
    plain = site.bucket("plain", site=None)
    answer = site.ask(plain)
    assert answer.status == 404 and b"<li>Code: NoSuchWebsiteConfiguration</li>" in answer.text and b"<li>BucketName: plain</li>" in answer.text


def test_only_what_the_policy_shows_to_all(site):
    host = site.bucket("shy", actions=("s3:ListBucket",))
    assert [site.status(host, path) for path in ("/", "/page", "/docs", "/none")] == [403] * 4
    raw = RawClient(site.daemon.host, site.daemon.port, site.daemon.access_key, site.daemon.secret_key)
    signed = raw.request("GET", "/page", headers={"Host": host})
    assert signed.status == 403 and b"Code: AccessDenied" in signed.body and b"Custom Error Document" in signed.body  # root's signature means nothing
    site.allow("shy", "s3:GetObject", keys="docs/*")
    assert [site.status(host, path) for path in ("/page", "/docs/", "/none", "/docs/none")] == [403, 200, 403, 403]
    assert site.status(host, "/docs") == 403  # the key itself is denied
    site.allow("shy", "s3:GetObject")
    assert site.place(host, "/docs") == (302, "/docs/")
    assert site.ask(host, "/none").text == b"<h1>oops</h1>" and site.status(host, "/none") == 403
    site.s3.put_public_access_block(Bucket="shy", PublicAccessBlockConfiguration={**OPEN, "RestrictPublicBuckets": True})
    assert site.status(host, "/page") == 403


def test_owners_and_acls_of_objects_decide(site):
    """The bucket's policy gives nothing of another account's objects away (P16); a public ACL shows one object."""
    host = site.bucket("shared", pages={"index.html": b"home", "error.html": b"oops"})
    made = dict(line.split("\t") for line in cli(site.daemon, "admin", "account", "create", "writer").splitlines())
    allow_acls(site.s3, "shared")
    site.s3.put_bucket_acl(Bucket="shared", GrantWrite=f"id={made['CanonicalId']}")
    other = make_client(site.daemon.endpoint, made["AccessKeyId"], made["SecretAccessKey"])
    for key in ("secret", "shown", "folder/index.html"):
        other.put_object(Bucket="shared", Key=key, Body=b"theirs", **({"ACL": "public-read"} if key == "shown" else {}))
    assert [site.status(host, path) for path in ("/", "/secret", "/shown", "/folder/", "/folder")] == [200, 403, 200, 403, 403]
    assert site.status(host, "/secret", method="HEAD") == 403 and site.ask(host, "/secret").text == b"oops"
    other.put_object(Bucket="shared", Key="error.html", Body=b"theirs")
    assert b"theirs" not in site.ask(host, "/secret").text  # nor as an error document
    site.s3.delete_bucket_policy(Bucket="shared")
    assert [site.status(host, path) for path in ("/", "/secret", "/shown")] == [403, 403, 200]
    site.s3.put_public_access_block(Bucket="shared", PublicAccessBlockConfiguration={**UNBLOCKED, "IgnorePublicAcls": True})
    assert site.status(host, "/shown") == 403


def test_tags_of_objects_decide(site):
    """As for any GetObject (P20)."""
    host = site.bucket("tagged", pages={"index.html": b"home", "error.html": b"oops", "secret": b"hidden"})
    site.s3.put_object_tagging(Bucket="tagged", Key="index.html", Tagging={"TagSet": [{"Key": "public", "Value": "yes"}]})
    policy = {"Effect": "Allow", "Principal": "*", "Action": "s3:GetObject", "Resource": "arn:aws:s3:::tagged/*",
              "Condition": {"StringEquals": {"s3:ExistingObjectTag/public": "yes"}}}
    site.s3.put_bucket_policy(Bucket="tagged", Policy=json.dumps({"Version": "2012-10-17", "Statement": [policy]}))
    assert [site.status(host, path) for path in ("/", "/secret", "/none")] == [200, 403, 403]
    assert site.ask(host, "/").text == b"home" and b"hidden" not in site.ask(host, "/secret").text and b"oops" not in site.ask(host, "/secret").text


def test_redirects(site):
    rules = [{"Condition": {"KeyPrefixEquals": "old/"}, "Redirect": {"ReplaceKeyPrefixWith": "docs/"}},
             {"Condition": {"HttpErrorCodeReturnedEquals": "404", "KeyPrefixEquals": "gone/"}, "Redirect": {"HostName": "other.example", "Protocol": "https", "HttpRedirectCode": "307", "ReplaceKeyWith": "a b"}}]
    host = site.bucket("moves", site={**SITE, "RoutingRules": rules}, actions=("s3:GetObject", "s3:ListBucket"))
    assert site.place(host + ":81", "/old/x%0D%0AA:%20b") == (301, f"http://{host}:81/docs/x%0D%0AA%3A%20b")
    assert site.place(host, "/gone/x") == (307, "https://other.example/a%20b")
    site.s3.put_object(Bucket="moves", Key="//evil.example/index.html", Body=b"")
    assert site.place(host, "///evil.example") == (302, "/%2F/evil.example/")
    site.s3.put_object(Bucket="moves", Key="away", Body=b"stays", WebsiteRedirectLocation="https://example.net/a?b=c&d=%20e\\\"")
    site.s3.put_object(Bucket="moves", Key="here", Body=b"", WebsiteRedirectLocation="/page")
    assert site.place(host, "/away") == (301, "https://example.net/a?b=c&d=%20e%5C%22")
    assert site.place(host, "/here", method="HEAD") == (301, "/page")
    kept = site.s3.get_object(Bucket="moves", Key="away")
    assert kept["WebsiteRedirectLocation"].startswith("https://example.net/") and kept["Body"].read() == b"stays"
    site.s3.put_bucket_website(Bucket="moves", WebsiteConfiguration={"RedirectAllRequestsTo": {"HostName": "new.example:8080", "Protocol": "https"}})
    assert site.place(host, "/a%C3%A9/?q=1") == (301, "https://new.example:8080/a%C3%A9/")
    site.s3.delete_bucket_website(Bucket="moves")
    assert site.status(host, "/page") == 404


def test_hosts_of_ones_own(site):
    site.bucket("www.example.org", pages={"index.html": b"mine"})
    site.bucket("a.sites.example.org", pages={"index.html": b"theirs"})
    site.bucket("localhost.example", pages={"index.html": b"taken"})
    assert site.ask("WWW.example.org").text == b"mine"
    assert site.ask("a.sites.example.org:80").text == b"theirs"
    assert site.status("sites.example.org") == 403  # of S3: no entry of the setting names it
    assert b"<?xml" in site.ask("localhost.example").text  # a bucket's name makes no host a website
    assert b"<?xml" in site.ask("www.example.org.s3.example.test").text


def test_cors(site):
    host = site.bucket("cross", actions=("s3:GetObject",))
    site.s3.put_bucket_cors(Bucket="cross", CORSConfiguration={"CORSRules": [{"AllowedOrigins": ["http://a.example"], "AllowedMethods": ["GET"]}]})
    assert site.ask(host, "/page", Origin="http://a.example").getheader("Access-Control-Allow-Origin") == "http://a.example"
    asked = {"Origin": "http://a.example", "Access_Control_Request_Method": "GET"}
    assert site.status(host, "/page", method="OPTIONS", **asked) == 200
    refused = site.ask(host, "/page", method="OPTIONS", Origin="http://b.example", Access_Control_Request_Method="GET")
    assert refused.status == 403 and refused.getheader("Content-Type").startswith("text/html")


def test_a_host_cannot_be_both(tmp_path):
    daemon = Daemon(folder=tmp_path, settings={"website_domain": DOMAIN, "domain": DOMAIN})
    with pytest.raises(Exception, match="website_domain"):
        daemon.start()
    daemon.discard()
