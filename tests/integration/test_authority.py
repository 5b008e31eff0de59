"""Whom a request names: the Host header, which its signature covers, and nothing else. Raw sockets, since no SDK sends these."""
import pytest

from tests.conftest import Store
from tests.support.daemon import Daemon
from tests.support.s3raw import UNSIGNED, RawClient, Signer, error_shape

pytestmark = pytest.mark.daemon
DOMAIN = "s3.example.test"


class Site:
    """A store with buckets aaa and bbb, each with an object k that holds the bucket's name."""

    def __init__(self, daemon):
        self.store = Store(daemon.host, daemon.port, daemon.access_key, daemon.secret_key, daemon)
        self.raw = self.store.raw
        for name in ("aaa", "bbb"):
            assert self.raw.request("PUT", f"/{name}").status == 200
            self.reset(name)

    def reset(self, name):
        assert self.raw.request("PUT", f"/{name}/k", body=name.encode()).status == 200

    def value(self, name):
        answer = self.raw.request("GET", f"/{name}/k")
        return answer.body if answer.status == 200 else None

    def presigned(self, method, path, host):
        """Path and query of a URL that was handed out for that host."""
        signer = self.raw.signer()
        query = [("X-Amz-Algorithm", "AWS4-HMAC-SHA256"), ("X-Amz-Credential", f"{signer.access_key}/{signer.scope}"),
                 ("X-Amz-Date", signer.stamp), ("X-Amz-Expires", "60"), ("X-Amz-SignedHeaders", "host")]
        signature = signer.signature(method, path, query, {"host": host}, ["host"], UNSIGNED)
        return f"{path}?{Signer.canonical_query(query)}&X-Amz-Signature={signature}"

    def send(self, method, target, hosts, body=b"", version="HTTP/1.1"):
        head = f"{method} {target} {version}\r\n" + "".join(f"Host: {host}\r\n" for host in hosts)
        return self.raw.send(method, head.encode() + f"Content-Length: {len(body)}\r\n\r\n".encode(), body)


@pytest.fixture(scope="module")
def site():
    with Daemon(drives=1, settings={"domain": f"{DOMAIN},longer.{DOMAIN}"}).start() as daemon:
        yield Site(daemon)


@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "DELETE"])
@pytest.mark.parametrize("authority", [f"bbb.{DOMAIN}", f"bbb.{DOMAIN}:80", f"BBB.{DOMAIN}.", f"aaa.{DOMAIN}:80", f"user@aaa.{DOMAIN}",
                                       f"bbb.{DOMAIN}@aaa.{DOMAIN}", f"aaa.{DOMAIN}%2f", "[::1]", ""])
def test_the_request_line_does_not_choose_another_bucket(site, method, authority):
    host = f"aaa.{DOMAIN}"
    target = site.presigned(method, "/k", host)
    answer = site.send(method, f"http://{authority}{target}", [host], b"x" if method == "PUT" else b"")
    assert answer.status == 400, answer
    assert (site.value("aaa"), site.value("bbb")) == (b"aaa", b"bbb")


def test_an_absolute_form_that_names_the_same(site):
    host = f"aaa.{DOMAIN}"
    for authority in (host, host.upper(), host + "."):
        answer = site.send("GET", f"http://{authority}{site.presigned('GET', '/k', host)}", [host])
        assert (answer.status, answer.body) == (200, b"aaa"), (authority, answer)
    answer = site.send("GET", f"https://{host}:443{site.presigned('GET', '/k', host + ':443')}", [host + ":443"])
    assert (answer.status, answer.body) == (200, b"aaa"), answer


# Host header -> status and body of GET /k, or of GET /aaa/k: each is signed for the very host it is sent with.
HOSTS = [
    (f"aaa.{DOMAIN}", "/k", 200, b"aaa"),
    (f"AAA.S3.Example.Test:9000", "/k", 200, b"aaa"),
    (f"aaa.{DOMAIN}.", "/k", 200, b"aaa"),
    (f"aaa.{DOMAIN}.:1", "/k", 200, b"aaa"),
    (f"aaa.longer.{DOMAIN}", "/k", 200, b"aaa"),
    (DOMAIN, "/aaa/k", 200, b"aaa"),
    (f"longer.{DOMAIN}", "/aaa/k", 200, b"aaa"),
    ("127.0.0.1", "/aaa/k", 200, b"aaa"),
    ("[::1]:9000", "/aaa/k", 200, b"aaa"),
    ("aaa.example.org", "/aaa/k", 200, b"aaa"),
    (f"none.{DOMAIN}", "/k", 404, "NoSuchBucket"),
    (f"a_b.{DOMAIN}", "/k", 404, "NoSuchBucket"),
    (f"x{DOMAIN}", "/aaa/k", 200, b"aaa"),
    (f"aaa.{DOMAIN}..", "/k", 400, "BadRequest"),
    (f".{DOMAIN}", "/aaa/k", 400, "BadRequest"),
    (f"user@aaa.{DOMAIN}", "/k", 400, "BadRequest"),
    (f"aaa.{DOMAIN}:65536", "/k", 400, "BadRequest"),
    (f"aaa.{DOMAIN}:80:80", "/k", 400, "BadRequest"),
    (f"aaa.{DOMAIN}/bbb", "/k", 400, "BadRequest"),
    (f"aaa.{DOMAIN},bbb.{DOMAIN}", "/k", 400, "BadRequest"),
    (f"aaa%2e{DOMAIN}", "/k", 400, "BadRequest"),
    ("[::1", "/aaa/k", 400, "BadRequest"),
    ("[::1%25lo]", "/aaa/k", 400, "BadRequest"),
    ("", "/aaa/k", 400, "BadRequest"),
]


@pytest.mark.parametrize("host, path, status, said", HOSTS)
def test_hosts(site, host, path, status, said):
    answer = site.send("GET", site.presigned("GET", path, host), [host])
    assert answer.status == status, answer
    assert (answer.body if status == 200 else error_shape(answer)) == said, answer


@pytest.mark.parametrize("hosts", [[f"aaa.{DOMAIN}", f"bbb.{DOMAIN}"], [f"bbb.{DOMAIN}", f"aaa.{DOMAIN}"],
                                   [f"aaa.{DOMAIN}", f"aaa.{DOMAIN}"], []])
def test_there_is_one_host(site, hosts):
    answer = site.send("GET", site.presigned("GET", "/k", f"aaa.{DOMAIN}"), hosts)
    assert (answer.status, error_shape(answer)) == (400, "BadRequest"), answer


# wire path -> (status, body or code): nothing of it is folded into another name.
PATHS = [
    ("/aaa/k", 200, b"aaa"), ("/%61aa/k", 200, b"aaa"), ("//aaa/k", 400, "InvalidBucketName"), ("//bbb/k", 400, "InvalidBucketName"),
    ("/aaa%2Fk", 400, "InvalidBucketName"), ("/aaa%2f..%2fbbb/k", 400, "InvalidBucketName"), ("/aaa/../bbb/k", 404, "NoSuchKey"),
    ("/aaa//k", 404, "NoSuchKey"), ("/./aaa/k", 400, "InvalidBucketName"), ("/AAA/k", 404, "NoSuchBucket"),
    ("/Once_Legal.", 404, "NoSuchBucket"), ("/" + "L" * 255 + "/k", 404, "NoSuchBucket"), ("/" + "L" * 256 + "/k", 400, "InvalidBucketName"),
]


@pytest.mark.parametrize("wire, status, said", PATHS)
def test_paths(site, wire, status, said):
    raw: RawClient = site.raw
    answer = raw.request("GET", "/" + wire[1:].replace("%61", "a").replace("%2F", "\0").replace("%2f", "\0").replace("\0", "/"), wire_path=wire)
    if answer.status == 403:  # the canonical URI keeps an encoded slash: it can't be signed as a plain one, which is the point
        assert "%2" in wire.lower(), answer
        return
    assert answer.status == status, answer
    assert (answer.body if status == 200 else error_shape(answer)) == said, answer


def test_names_that_were_legal_once(site):
    for method, query in (("GET", []), ("GET", [("uploads", "")]), ("GET", [("policy", "")]), ("HEAD", [])):
        answer = site.raw.request(method, "/Once_Legal", query=query)
        assert answer.status == 404 and (method == "HEAD" or answer.code == "NoSuchBucket"), answer
    for method, path in (("PUT", "/Once_Legal"), ("PUT", "/Once_Legal/k"), ("DELETE", "/Once_Legal")):
        answer = site.raw.request(method, path)
        assert (answer.status, answer.code) == (400, "InvalidBucketName"), answer
