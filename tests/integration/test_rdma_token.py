"""The header protocol, x-amz-rdma-token, against the real daemon over the fake transport (docs/rdma-protocol.md): who is served, who is declined how, who is refused."""
import hashlib
import random
import re
import shutil

import pytest

from tests.conftest import SEED
from tests.support.checksums import checksum
from tests.support.rdma import DRIVER, Session, rdma_daemon
from tests.support.rdma_token import GID, TARGET, Target, ask, user_of
from tests.support.s3raw import STREAMING_UNSIGNED_TRAILER, UNSIGNED
from tests.support.waits import metric

pytestmark = [pytest.mark.daemon, pytest.mark.skipif(not (DRIVER.exists() and TARGET.exists()), reason="make fake-rdma builds them")]
KIB, MIB = 1 << 10, 1 << 20
SIZES = {"none": 0, "one": 1, "small": 10 * KIB, "inline": 128 * KIB, "large": 300 * KIB, "units": 3 * MIB, "big": 17 * MIB + 12345}
NOTHING = b"\xee"


def fill(daemon):
    rng = random.Random(SEED)
    daemon.user = user_of(daemon)
    assert daemon.user.request("PUT", "/samples").status == 200
    daemon.objects = {name: rng.randbytes(size) for name, size in SIZES.items()}
    for name, data in daemon.objects.items():
        assert daemon.user.request("PUT", f"/samples/{name}", body=data).status == 200


def end(daemon):
    daemon.stop()
    daemon.discard()
    shutil.rmtree(daemon.sockets, ignore_errors=True)


@pytest.fixture(scope="module")
def site():
    """A daemon that permits the fake's far end on its first listener, another one on the second."""
    daemon = rdma_daemon(drives=4, ec="2+2", settings={
        "rdma_token_gid": f"fe80::1, {GID}", "plain_listen": "127.0.0.1:0", "rdma_token_gid_plain": "10.1.2.3"}).start()
    daemon.port, plain = (int(port) for port in re.findall(r"listening on 127.0.0.1:(\d+)", daemon.output()))
    daemon.plain_user = user_of(daemon, plain)
    fill(daemon)
    yield daemon
    end(daemon)


@pytest.fixture(scope="module")
def target(site):
    with Target(site.sockets) as one:
        yield one


@pytest.fixture(scope="module")
def off():
    """A daemon as it is without a word of the protocol."""
    daemon = rdma_daemon().start()
    fill(daemon)
    yield daemon
    end(daemon)


def served(answer, data, status=200):
    assert answer.status == status and answer.body == b"", answer
    assert answer.headers["content-length"] == "0"
    assert answer.headers["x-amz-rdma-reply"] == str(status)
    assert answer.headers["x-amz-rdma-bytes-transferred"] == str(len(data))
    assert answer.headers["cache-control"].endswith("no-store")
    assert answer.headers["x-millrace-transport"] == "rdma"
    assert "x-millrace-rdma-notices" not in answer.headers


def declined(answer, data, reason, status=200):
    assert answer.status == status and answer.body == data, answer
    assert answer.headers["x-amz-rdma-reply"] == "501"
    assert answer.headers["x-millrace-rdma-declined"] == reason
    assert answer.headers["x-millrace-transport"] == "tcp"
    assert "x-amz-rdma-bytes-transferred" not in answer.headers


def upload_declined(answer, reason):
    assert answer.status == 200 and answer.code == "RDMANotSupported", answer
    assert answer.headers["x-amz-rdma-reply"] == "501"
    assert answer.headers["x-millrace-rdma-declined"] == reason
    assert "etag" not in answer.headers and "x-amz-rdma-bytes-transferred" not in answer.headers


# ---- served ------------------------------------------------------------------------------------------------------------

def test_objects_of_all_sizes(site, target):
    before = metric(site, "millrace_rdma_tokens_total")
    for name, data in site.objects.items():
        target.load(0, NOTHING * (len(data) + 8192))
        answer = ask(site.user, "GET", f"/samples/{name}", target.token(4096, max(len(data), 1)))
        served(answer, data)
        assert answer.headers["x-millrace-crc32c"] == checksum("CRC32C", data)
        assert answer.headers["etag"] == f'"{hashlib.md5(data).hexdigest()}"'
        memory = target.saved(0, len(data) + 8192)
        assert memory == NOTHING * 4096 + data + NOTHING * 4096, name
    assert metric(site, "millrace_rdma_tokens_total") - before == len(site.objects)


def test_both_forms_and_what_follows_a_semicolon(site, target):
    data = site.objects["large"]
    for token in (target.token(0, len(data)), target.token(0, len(data), long=True), target.token(0, len(data), suffix=";"),
                  target.token(0, len(data), suffix=";v=3, more"), target.token(0, len(data), long=True, suffix=";")):
        target.load(0, NOTHING * len(data))
        served(ask(site.user, "GET", "/samples/large", token), data)
        assert target.saved(0, len(data)) == data
    # the appended place is inside the buffer
    token = target.token(0, MIB) + f":{target.address + 5000:016x}:{len(data):016x}"
    target.load(0, NOTHING * MIB)
    served(ask(site.user, "GET", "/samples/large", token), data)
    assert target.saved(0, 5001 + len(data)) == NOTHING * 5000 + data + NOTHING


def test_ranges_and_parts(site, target):
    data = site.objects["big"]
    for text, part in (("bytes=0-0", data[:1]), ("bytes=1048570-3145735", data[1048570:3145736]), ("bytes=-100000", data[-100000:])):
        answer = ask(site.user, "GET", "/samples/big", target.token(0, len(part)), headers={"range": text})
        served(answer, part, 206)
        assert target.saved(0, len(part)) == part
        assert answer.headers["content-range"] == site.user.request("GET", "/samples/big", headers={"range": text}).headers["content-range"]
    data = site.objects["small"]
    served(ask(site.user, "GET", "/samples/small", target.token(0, len(data)), query=[("partNumber", "1")]), data, 206)


def test_errors_write_nothing(site, target):
    target.load(0, NOTHING * 4096)
    etag = f'"{hashlib.md5(site.objects["small"]).hexdigest()}"'
    for path, headers, status, code in (
            ("/samples/absent", {}, 404, "NoSuchKey"), ("/absent/key", {}, 404, "NoSuchBucket"),
            ("/samples/small", {"if-match": '"0"'}, 412, "PreconditionFailed"), ("/samples/small", {"if-none-match": etag}, 304, None),
            ("/samples/small", {"range": "bytes=99999-"}, 416, "InvalidRange"),
            ("/samples/small", {}, 400, "RDMAWindowTooSmall")):  # the token has no room for it
        answer = ask(site.user, "GET", path, target.token(0, 4096), headers=headers)
        assert answer.status == status and "x-amz-rdma-reply" not in answer.headers, answer
        assert code is None or answer.code == code
        assert answer.headers["x-millrace-rdma-posted"] == "none"
    assert answer.headers["x-millrace-rdma-needed"] == str(SIZES["small"])
    assert target.saved(0, 4096) == NOTHING * 4096


def test_uploads(site, target):
    rng = random.Random(SEED + 1)
    for size in (1, 10 * KIB, 128 * KIB, 300 * KIB, 5 * MIB + 333):
        data = rng.randbytes(size)
        target.load(1000, data)
        answer = ask(site.user, "PUT", "/samples/put", target.token(1000, size, "r"), headers={"x-amz-meta-colour": "blue"})
        served(answer, data)
        assert answer.headers["etag"] == f'"{hashlib.md5(data).hexdigest()}"'
        got = site.user.request("GET", "/samples/put")
        assert got.body == data and got.headers["x-amz-meta-colour"] == "blue"
    sums = {"x-amz-checksum-crc64nvme": checksum("CRC64NVME", data)}
    served(ask(site.user, "PUT", "/samples/put2", target.token(1000, size, "r"), headers=sums), data)
    sums = {"x-amz-checksum-crc64nvme": checksum("CRC64NVME", data[1:])}
    answer = ask(site.user, "PUT", "/samples/put3", target.token(1000, size, "r"), headers=sums)
    assert (answer.status, answer.code) == (400, "BadDigest"), answer
    assert site.user.request("GET", "/samples/put3").status == 404


def test_parts_of_an_upload(site, target):
    data = random.Random(SEED + 2).randbytes(5 * MIB + 100)
    upload = site.user.request("POST", "/samples/parts", query=[("uploads", "")]).xml.findtext("UploadId")
    target.load(0, data)
    parts = ""
    for number, offset, size in ((1, 0, 5 * MIB), (2, 5 * MIB, 100)):
        answer = ask(site.user, "PUT", "/samples/parts", target.token(offset, size, "r"),
                     query=[("uploadId", upload), ("partNumber", str(number))])
        served(answer, data[offset:offset + size])
        parts += f"<Part><PartNumber>{number}</PartNumber><ETag>{answer.headers['etag']}</ETag></Part>"
    body = f"<CompleteMultipartUpload>{parts}</CompleteMultipartUpload>".encode()
    assert site.user.request("POST", "/samples/parts", query=[("uploadId", upload)], body=body).status == 200
    assert site.user.request("GET", "/samples/parts").body == data


def test_a_target_that_refuses_ends_its_request_only(site, target):
    """A key that is not the region's, one of too small a region, and a target that is not there. The others go on."""
    data = site.objects["units"]
    (narrow,) = target.tell("region", 0, 4096, "w")
    target.load(0, NOTHING * len(data))
    for changes in ({"rkey": "7f7f7f7f"}, {"rkey": narrow}, {"dct": f"{int(target.number, 16) ^ 0x5555:06x}"}, {"access": "r"}):
        answer = ask(site.user, "GET", "/samples/units", target.token(0, len(data), **changes))
        assert answer.status == 503 and "x-millrace-rdma-posted" not in answer.headers, answer
        assert "x-amz-rdma-reply" not in answer.headers
        assert target.saved(0, len(data)) == NOTHING * len(data)
        answer = ask(site.user, "PUT", "/samples/refused", target.token(0, 4096, **{"access": "w", **changes, "rkey": "7f7f7f7f"}))
        assert answer.status == 503 and "etag" not in answer.headers
        assert site.user.request("GET", "/samples/refused").status == 404
        served(ask(site.user, "GET", "/samples/large", target.token(20 * MIB, SIZES["large"])), site.objects["large"])
        assert target.saved(20 * MIB, SIZES["large"]) == site.objects["large"]
    assert metric(site, "millrace_rdma_token_resets_total") >= 8


def test_a_target_of_another_key(site):
    with Target(site.sockets, memory=MIB, key="1234") as other:
        answer = ask(site.user, "GET", "/samples/large", other.token(0, MIB))
        assert answer.status == 503 and other.saved(0, 4096) == NOTHING * 4096
    data = site.objects["large"]
    answer = ask(site.user, "GET", "/samples/large", other.token(0, MIB, rkey="00000101"))  # it is gone
    assert answer.status == 503
    with Target(site.sockets, memory=MIB) as other:
        served(ask(site.user, "GET", "/samples/large", other.token(0, MIB)), data)
        assert other.saved(0, len(data)) == data


def test_sessions_beside_it(site, target):
    data = site.objects["big"]
    with Session(site) as session:
        for _ in range(3):
            answer, memory = session.get("/samples/big", len(data))
            assert answer.headers["x-millrace-transport"] == "rdma" and memory == data
            served(ask(site.user, "GET", "/samples/big", target.token(0, len(data))), data)
            assert target.saved(0, len(data)) == data
        index, place = session.grip(0, 100)  # a session's request has no token
        answer = session.ask("GET", "/samples/one", place, headers={"x-amz-rdma-token": target.token(0, 100)})
        assert (answer.status, answer.code) == (403, "AccessDenied")
        session.peer.tell("close", index, 1)


# ---- refused -----------------------------------------------------------------------------------------------------------

GOOD = "00007f0012345000:00100000:0000beef:00a1:012345:1:00000000000000000000ffff7f000002"
MALFORMED = ["", "x", GOOD[:-1], GOOD + "0", GOOD + ":", GOOD.upper(), GOOD.replace(":1:", ":2:"), GOOD.replace(":1:", ":0:"),
             GOOD.replace("00100000", "00000000"), GOOD.replace("00007f", "fffff+"), "ffffffffffffffff" + GOOD[16:],
             GOOD.replace(":", "-"), GOOD + ":00007f0012345000:0000000000100001", GOOD + ":00007f0012344fff:0000000000000001",
             GOOD + ":00007f0012345001:0000000000100000", GOOD + ":00007f0012345000:0000000000000000",
             GOOD + ":00007f0012345000:000000000010000", GOOD + ";" + "x" * 257, GOOD + "," + GOOD]


@pytest.mark.parametrize("token", MALFORMED)
def test_malformed(site, off, token):
    for client in (site.user, off.user):
        for method, path in (("GET", "/samples/small"), ("PUT", "/samples/new")):
            answer = ask(client, method, path, token)
            assert (answer.status, answer.code) == (400, "InvalidRDMAToken"), answer
        assert client.request("GET", "/samples/new").status == 404


def test_more_than_one_token(site, target):
    token = target.token(0, MIB)
    head, body = site.user.build("GET", "/samples/small", headers={"x-amz-rdma-token": token}, payload=UNSIGNED)
    head = head.replace(b"x-amz-rdma-token:", b"x-amz-rdma-token: " + token.encode() + b"\r\nx-amz-rdma-token:", 1)
    assert site.user.send("GET", head, body).status in (400, 403)


def test_signed_in_another_way(site, off, target):
    token = target.token(0, MIB)
    for daemon in (site, off):
        user = daemon.user
        for method, path in (("GET", "/samples/small"), ("PUT", "/samples/new")):
            for answer in (
                    ask(user, method, path, token, payload=None),  # a signed payload
                    ask(user, method, path, token, payload=STREAMING_UNSIGNED_TRAILER),
                    user.request(method, path, payload=UNSIGNED, unsigned_headers={"x-amz-rdma-token": token}),
                    user.plain(method, path, headers={"x-amz-rdma-token": token, "Content-Length": "0"}),
                    user.plain(method, user.presign(method, path), headers={"x-amz-rdma-token": token, "Content-Length": "0"}),
                    user.plain(method, user.presign(method, path, headers={"x-amz-rdma-token": token}),
                               headers={"x-amz-rdma-token": token, "Content-Length": "0"}),
                    user.plain(method, user.presign(method, path, query=[("X-Amz-Rdma-Token", token)]),
                               headers={"Content-Length": "0"})):
                assert (answer.status, answer.code) == (403, "AccessDenied"), answer
        assert user.request("GET", "/samples/new").status == 404
    assert target.saved(0, 4096) != site.objects["small"][:4096]


def test_a_body_beside_a_token(site, off, target):
    for user in (site.user, off.user):
        answer = ask(user, "PUT", "/samples/new", target.token(0, 4, "r"), body=b"body")
        assert (answer.status, answer.code) == (400, "InvalidRequest"), answer
        assert user.request("GET", "/samples/new").status == 404


# ---- declined ----------------------------------------------------------------------------------------------------------

def check_declined(user, objects, token, reason, put_token=None, headers=None):
    data = objects["units"]
    declined(ask(user, "GET", "/samples/units", token, headers=headers), data, reason)
    answer = ask(user, "GET", "/samples/units", token, headers={"range": "bytes=5-1000004", **(headers or {})})
    declined(answer, data[5:1000005], reason, 206)
    assert answer.headers["content-range"] == f"bytes 5-1000004/{len(data)}"
    declined(ask(user, "GET", "/samples/none", token, headers=headers), b"", reason)
    answer = ask(user, "GET", "/samples/absent", token, headers=headers)
    assert (answer.status, answer.code) == (404, "NoSuchKey")
    upload_declined(ask(user, "PUT", "/samples/new", put_token or token, headers=headers), reason)
    assert user.request("GET", "/samples/new").status == 404
    upload_declined(ask(user, "PUT", "/samples/small", put_token or token, headers=headers), reason)
    assert user.request("GET", "/samples/small").body == objects["small"]
    upload = user.request("POST", "/samples/parts-declined", query=[("uploads", "")]).xml.findtext("UploadId")
    upload_declined(ask(user, "PUT", "/samples/parts-declined", put_token or token, headers=headers,
                        query=[("uploadId", upload), ("partNumber", "1")]), reason)
    parts = user.request("GET", "/samples/parts-declined", query=[("uploadId", upload)]).xml
    assert parts.find("Part") is None
    assert user.request("DELETE", "/samples/parts-declined", query=[("uploadId", upload)]).status == 204


def test_off(off, target):
    check_declined(off.user, off.objects, target.token(0, 4 * MIB), "off")
    assert 'millrace_rdma_declined_total{reason="off"} 7' in off.admin_get("/metrics")[1].decode()


def test_a_gid_that_is_not_permitted(site, target):
    check_declined(site.user, site.objects, target.token(0, 4 * MIB, gid="0" * 20 + "ffff" + "0a000001"), "target")
    check_declined(site.plain_user, site.objects, target.token(0, 4 * MIB), "target")  # this listener has a list of its own


def test_without_a_gid(site, target):
    check_declined(site.user, site.objects, target.token(0, 4 * MIB, has_gid="0", gid="0" * 32), "target")


def test_keys_of_customers(site, target):
    """No object is encrypted with a customer's key, so a GET that gives one is refused, as over TCP; an upload that does is declined. (Without a token such a
    PUT is NotImplemented.)"""
    key = {"x-amz-server-side-encryption-customer-algorithm": "AES256"}
    token = target.token(0, 4 * MIB)
    for headers in (key, {"range": "bytes=5-1000004", **key}):
        answer = ask(site.user, "GET", "/samples/units", token, headers=headers)
        assert (answer.status, answer.code) == (400, "InvalidRequest"), answer
    answer = ask(site.user, "GET", "/samples/absent", token, headers=key)
    assert (answer.status, answer.code) == (404, "NoSuchKey"), answer
    upload_declined(ask(site.user, "PUT", "/samples/new", token, headers=key), "sse-c")
    assert site.user.request("GET", "/samples/new").status == 404
    assert target.saved(0, 4096) != site.objects["units"][:4096]


def test_a_device_without_dc(target):
    daemon = rdma_daemon(settings={"rdma_token_gid": GID})
    daemon.extra_env["MILLRACE_FAKE_RDMA_NO_DC"] = "1"
    daemon.start()
    try:
        fill(daemon)
        check_declined(daemon.user, daemon.objects, target.token(0, 4 * MIB), "device")
    finally:
        end(daemon)


def test_without_a_device(target):
    daemon = rdma_daemon(settings={"rdma_token_gid": GID, "test_rdma_driver": ""}).start()
    try:
        fill(daemon)
        check_declined(daemon.user, daemon.objects, target.token(0, 4 * MIB), "device")
    finally:
        end(daemon)


# ---- untouched ---------------------------------------------------------------------------------------------------------

def test_other_operations_and_other_requests(site, target):
    """Where no object's bytes are transferred the header means nothing; and without it nothing is different."""
    token = target.token(0, MIB)
    answer = ask(site.user, "HEAD", "/samples/big", token)
    assert answer.status == 200 and answer.headers["content-length"] == str(SIZES["big"]) and "x-amz-rdma-reply" not in answer.headers
    assert ask(site.user, "GET", "/samples", token, query=[("list-type", "2")], payload=None).status == 200
    answer = site.user.request("PUT", "/samples/copy", headers={"x-amz-copy-source": "/samples/small", "x-amz-rdma-token": token})
    assert answer.status == 200 and b"CopyObjectResult" in answer.body
    answer = site.user.request("GET", "/samples/copy")
    assert answer.body == site.objects["small"]
    assert not any(name.startswith(("x-amz-rdma", "x-millrace-rdma", "x-millrace-transport")) for name in answer.headers)


@pytest.mark.parametrize("settings, text", [
    ({"rdma_token_gid": "*"}, "rdma_token_gid"), ({"rdma_token_gid": "::"}, "rdma_token_gid"), ({"rdma_token_gid": "0.0.0.0"}, "rdma_token_gid"),
    ({"rdma_token_gid": "fe80::1,"}, "rdma_token_gid"), ({"rdma_token_gid": "host.example"}, "rdma_token_gid"),
    ({"rdma_token_gid": "fe80::/64"}, "rdma_token_gid"), ({"rdma_token_gid_plain": "*"}, "rdma_token_gid_plain"),
    ({"rdma_token_gid": "fe80::1", "rdma_listen": None}, "rdma_listen"), ({"rdma_token_key": "xyz"}, "rdma_token_key"),
    ({"rdma_token_key": "0x12"}, "rdma_token_key")])
def test_settings_that_are_refused(settings, text):
    daemon = rdma_daemon(settings=settings)
    daemon.settings = {name: value for name, value in daemon.settings.items() if value is not None}
    try:
        with pytest.raises(Exception):
            daemon.start()
        assert text in daemon.output()
    finally:
        daemon.discard()
        shutil.rmtree(daemon.sockets, ignore_errors=True)
