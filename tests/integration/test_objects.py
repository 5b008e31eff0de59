"""PutObject, GetObject, HeadObject, DeleteObject: bytes of all sizes, headers that travel, keys of every kind."""
import datetime
import os
import threading
import urllib.parse

import pytest

from tests.conftest import both_layouts
from tests.support import checksums
from tests.support.expect import HTTP_DATE, absent, headers_of, keys_of, read, refused, status_of

KIB, MIB = 1 << 10, 1 << 20
SIZES = [0, 1, 15, 16, 4095, 4 * KIB, 4097, 64 * KIB, 128 * KIB - 1, 128 * KIB, 128 * KIB + 1, 256 * KIB + 7, MIB - 1, MIB, MIB + 1,
         2 * MIB, 2 * MIB + 4097, 5 * MIB, 17 * MIB + 3]


@both_layouts
@pytest.mark.parametrize("size", SIZES)
def test_sizes(s3, bucket, rng, size):
    data = rng.randbytes(size)
    put = s3.put_object(Bucket=bucket, Key="k", Body=data)
    assert put["ETag"] == checksums.etag(data)
    got = s3.get_object(Bucket=bucket, Key="k")
    assert got["ContentLength"] == size and got["ETag"] == put["ETag"]
    assert got["Body"].read() == data
    head = s3.head_object(Bucket=bucket, Key="k")
    assert head["ContentLength"] == size and head["ETag"] == put["ETag"] and head["AcceptRanges"] == "bytes"
    assert s3.list_objects_v2(Bucket=bucket)["Contents"][0]["Size"] == size


@pytest.mark.smoke
def test_put_get_delete(s3, bucket):
    s3.put_object(Bucket=bucket, Key="a/b", Body=b"hello")
    assert read(s3, bucket, "a/b") == b"hello"
    assert status_of(s3.delete_object(Bucket=bucket, Key="a/b")) == 204
    refused("NoSuchKey", 404, s3.get_object, Bucket=bucket, Key="a/b")
    assert absent(s3, bucket, "a/b")
    assert status_of(s3.delete_object(Bucket=bucket, Key="a/b")) == 204
    assert keys_of(s3, bucket) == []


@pytest.mark.slow
@both_layouts
def test_a_large_one(s3, bucket, tmp_path):
    """A single PUT of 200 MiB streams through."""
    path = tmp_path / "large"
    block = os.urandom(8 * MIB)
    with open(path, "wb") as file:
        for i in range(25):
            file.write(block[i:] + block[:i])
    with open(path, "rb") as file:
        s3.put_object(Bucket=bucket, Key="large", Body=file)
    body = s3.get_object(Bucket=bucket, Key="large")["Body"]
    with open(path, "rb") as file:
        while piece := file.read(4 * MIB):
            assert body.read(len(piece)) == piece
    assert body.read(1) == b""


def test_overwrite(s3, bucket, rng):
    for size in (10, 300 * KIB, 5, 0, 2 * MIB, 128 * KIB):
        data = rng.randbytes(size)
        s3.put_object(Bucket=bucket, Key="k", Body=data)
        assert read(s3, bucket, "k") == data
    assert keys_of(s3, bucket) == ["k"]


def test_no_such_bucket(s3):
    for call, extra in [(s3.put_object, {"Body": b"x"}), (s3.get_object, {}), (s3.delete_object, {})]:
        refused("NoSuchBucket", 404, call, Bucket="no-such-bucket-here", Key="k", **extra)
    refused("404", 404, s3.head_object, Bucket="no-such-bucket-here", Key="k")


# ---- headers ------------------------------------------------------------------------------------------------


def test_headers_round_trip(s3, bucket):
    expires = datetime.datetime(2031, 5, 6, 7, 8, 9, tzinfo=datetime.timezone.utc)
    given = dict(CacheControl="max-age=60, public", ContentDisposition='attachment; filename="a b.txt"',
                 ContentEncoding="gzip", ContentLanguage="de-CH, en", ContentType="text/plain; charset=utf-8")
    s3.put_object(Bucket=bucket, Key="k", Body=b"x", Expires=expires, Metadata={"one": "1", "two-words": "a b  c"},
                  StorageClass="STANDARD", WebsiteRedirectLocation="/elsewhere", **given)
    for answer in (s3.get_object(Bucket=bucket, Key="k"), s3.head_object(Bucket=bucket, Key="k")):
        for name, value in given.items():
            assert answer[name] == value, name
        assert headers_of(answer)["expires"] == "Tue, 06 May 2031 07:08:09 GMT"
        assert answer["Metadata"] == {"one": "1", "two-words": "a b  c"}
        assert answer["WebsiteRedirectLocation"] == "/elsewhere"
        assert "StorageClass" not in answer  # AWS names it only when it is not STANDARD
        assert HTTP_DATE.match(headers_of(answer)["last-modified"])
        assert HTTP_DATE.match(headers_of(answer)["date"])
        assert headers_of(answer)["x-amz-request-id"]


def test_default_content_type(s3, raw, bucket):
    s3.put_object(Bucket=bucket, Key="k", Body=b"x")
    raw.request("PUT", f"/{bucket}/none", body=b"x")
    assert s3.head_object(Bucket=bucket, Key="none")["ContentType"] == "binary/octet-stream"
    assert s3.head_object(Bucket=bucket, Key="k")["ContentType"] in ("binary/octet-stream", "application/octet-stream")


def test_overwrite_replaces_metadata(s3, bucket):
    s3.put_object(Bucket=bucket, Key="k", Body=b"x", Metadata={"a": "1"}, CacheControl="no-cache")
    s3.put_object(Bucket=bucket, Key="k", Body=b"x", Metadata={"b": "2"})
    head = s3.head_object(Bucket=bucket, Key="k")
    assert head["Metadata"] == {"b": "2"} and "CacheControl" not in head


def test_metadata_of_every_printable_byte(raw, bucket):
    value = "".join(chr(c) for c in range(0x21, 0x7F))
    answer = raw.request("PUT", f"/{bucket}/k", headers={"x-amz-meta-all": value, "X-Amz-Meta-CASE": "v"}, body=b"x")
    assert answer.status == 200, answer
    got = raw.request("HEAD", f"/{bucket}/k")
    assert got.headers["x-amz-meta-all"] == value and got.headers["x-amz-meta-case"] == "v"


def test_metadata_in_utf8(raw, bucket):
    """AWS answers non-ASCII metadata as RFC 2047 words or as the bytes it was given; never mangled."""
    answer = raw.request("PUT", f"/{bucket}/k", headers={"x-amz-meta-name": "Grüße"}, body=b"x")
    assert answer.status == 200, answer
    got = raw.request("HEAD", f"/{bucket}/k").headers["x-amz-meta-name"]
    assert got.encode("latin-1") == "Grüße".encode() or got.startswith("=?UTF-8?"), got


def test_metadata_limit(s3, bucket):
    """2 KB in all: names and values counted together."""
    assert status_of(s3.put_object(Bucket=bucket, Key="k", Body=b"x", Metadata={"n" * 20: "v" * 2000})) == 200
    refused("MetadataTooLarge", 400, s3.put_object, Bucket=bucket, Key="l", Body=b"x", Metadata={"n" * 49: "v" * 2000})
    refused("MetadataTooLarge", 400, s3.put_object, Bucket=bucket, Key="l", Body=b"x",
            Metadata={f"n{i:03}": "v" * 60 for i in range(40)})
    assert absent(s3, bucket, "l")


def test_response_overrides(s3, raw, bucket):
    s3.put_object(Bucket=bucket, Key="k", Body=b"x", ContentType="text/plain")
    expires = datetime.datetime(2032, 1, 2, 3, 4, 5, tzinfo=datetime.timezone.utc)
    got = s3.get_object(Bucket=bucket, Key="k", ResponseContentType="a/b", ResponseCacheControl="no-store",
                        ResponseContentDisposition="inline", ResponseContentEncoding="br", ResponseContentLanguage="fr",
                        ResponseExpires=expires)
    seen = headers_of(got)
    assert (seen["content-type"], seen["cache-control"], seen["content-disposition"]) == ("a/b", "no-store", "inline")
    assert (seen["content-encoding"], seen["content-language"]) == ("br", "fr")
    assert seen["expires"] == "Fri, 02 Jan 2032 03:04:05 GMT"
    head = raw.request("HEAD", f"/{bucket}/k", query=[("response-content-type", "c/d")])
    assert head.headers["content-type"] == "c/d"


def test_response_override_cannot_split_headers(raw, bucket):
    raw.request("PUT", f"/{bucket}/k", body=b"x")
    answer = raw.request("GET", f"/{bucket}/k", query=[("response-content-type", "a/b\r\nx-evil: 1")])
    assert "x-evil" not in answer.headers, answer
    assert answer.status in (200, 400), answer


def test_content_md5(raw, bucket):
    good = checksums.content_md5(b"data")
    assert raw.request("PUT", f"/{bucket}/k", headers={"Content-MD5": good}, body=b"data").status == 200
    answer = raw.request("PUT", f"/{bucket}/bad", headers={"Content-MD5": good}, body=b"dato")
    assert (answer.status, answer.code) == (400, "BadDigest"), answer
    for text in ("nonsense", "", "AAAA", good[:-4] + "====", good + "AAAA"):
        answer = raw.request("PUT", f"/{bucket}/bad", headers={"Content-MD5": text}, body=b"data")
        assert (answer.status, answer.code) == (400, "InvalidDigest"), (text, answer)
    assert raw.request("HEAD", f"/{bucket}/bad").status == 404


# ---- keys ---------------------------------------------------------------------------------------------------

ODD_KEYS = ["a", "/", "//", "/leading", "trailing/", "a//b", "a/./b", "a/../b", ".", "..", "../../etc/passwd", "a b", " a ",
            "a+b", "a%20b", "%", "%2F", "100%", "a?b", "a#b", "a&b=c", "a;b", "a:b", "a\\b", "a|b", "a\"b", "a'b", "a<b>c", "a`b",
            "{a}", "[a]", "~a", "a^b", "a@b", "a,b", "a!b", "a$b", "a*b", "(a)", "a=b", "tab\tkey", "new\nline", "cr\rkey", "bell\x07",
            "\x01", "\x7f", "del\x7fete", "Grüße", "日本語/キー", "😀", "e\u0301", "\u00e9", "\ufeffbom", "\U0010ffff", "\u2028",
            "k" * 1024, "é" * 512, "d/" * 512, "policy", "a?policy", "uploads", "null", "-", "--", "x" * 255 + "/" + "y" * 255,
            "soap", "favicon.ico", "health/live", "metrics"]


def test_odd_keys_through_boto3(s3, bucket):
    for i, key in enumerate(ODD_KEYS):
        s3.put_object(Bucket=bucket, Key=key, Body=f"{i}".encode())
    for i, key in enumerate(ODD_KEYS):
        assert read(s3, bucket, key) == f"{i}".encode(), key
        assert s3.head_object(Bucket=bucket, Key=key)["ContentLength"] == len(str(i))
    assert keys_of(s3, bucket) == sorted(ODD_KEYS, key=lambda k: k.encode())
    for key in ODD_KEYS[::2]:
        s3.delete_object(Bucket=bucket, Key=key)
    assert keys_of(s3, bucket) == sorted(ODD_KEYS[1::2], key=lambda k: k.encode())


def test_every_character_of_one_byte_and_the_borders_of_the_others(s3, bucket):
    points = [*range(0x01, 0x80), 0x80, 0x7FF, 0x800, 0xD7FF, 0xE000, 0xFFFD, 0xFFFF, 0x10000, 0x10FFFF]
    for point in points:
        s3.put_object(Bucket=bucket, Key=f"p{chr(point)}q", Body=chr(point).encode())
    for point in points:
        assert read(s3, bucket, f"p{chr(point)}q") == chr(point).encode(), hex(point)
    assert keys_of(s3, bucket) == sorted((f"p{chr(p)}q" for p in points), key=lambda k: k.encode())


def test_one_key_written_in_several_ways(raw, bucket):
    """The same key, whatever the client chose to percent-encode; '+' in a path is a plus."""
    assert raw.request("PUT", f"/{bucket}/a+b c~", body=b"x").status == 200
    for wire in (f"/{bucket}/a+b%20c~", f"/{bucket}/a%2Bb%20c%7E", f"/{bucket}/%61%2bb%20c%7e"):
        answer = raw.request("GET", f"/{bucket}/a+b c~", wire_path=wire)
        assert (answer.status, answer.body) == (200, b"x"), (wire, answer)


def test_encoded_slash_is_a_slash(raw, bucket):
    assert raw.request("PUT", f"/{bucket}/x/y", body=b"1", wire_path=f"/{bucket}/x%2Fy").status == 200
    assert raw.request("GET", f"/{bucket}/x/y").body == b"1"


def test_dots_are_not_resolved(s3, raw, bucket):
    s3.put_object(Bucket=bucket, Key="top", Body=b"top")
    assert raw.request("GET", f"/{bucket}/a/../top").status == 404
    assert raw.request("GET", f"/{bucket}/./top").status == 404
    assert raw.request("GET", f"/{bucket}//top").status == 404


@pytest.mark.parametrize("key", ["k" * 1025, "é" * 513, "x/" * 600, "k" * 5000])
def test_keys_too_long(s3, raw, bucket, key):
    answer = raw.request("PUT", f"/{bucket}/{key}", body=b"x")
    assert (answer.status, answer.code) == (400, "KeyTooLongError"), answer
    assert keys_of(s3, bucket) == []


@pytest.mark.parametrize("wire", ["%ff", "a%c3", "%c0%af", "%ed%a0%80", "%f4%90%80%80", "%fe%fe", "x%80y"])
def test_keys_that_are_no_utf8(s3, raw, bucket, wire):
    """Signed as the bytes that they are, so that only the key itself is at fault."""
    signer = raw.signer()
    key = urllib.parse.unquote_to_bytes(wire)
    path = f"/{bucket}/".encode() + key
    head, body = raw.build("PUT", path, body=b"x", wire_path=f"/{bucket}/{wire}", signer=signer)
    answer = raw.send("PUT", head, body)
    assert answer.status == 400, answer
    assert keys_of(s3, bucket) == []


@pytest.mark.parametrize("wire", ["%", "%2", "%zz", "a%0", "%g1"])
def test_broken_percent_encoding(s3, raw, bucket, wire):
    answer = raw.request("PUT", f"/{bucket}/x", wire_path=f"/{bucket}/{wire}", body=b"x")
    assert answer.status in (400, 403), answer
    assert keys_of(s3, bucket) == []


def test_nul_in_a_key(s3, raw, bucket):
    answer = raw.request("PUT", f"/{bucket}/a\0b", body=b"x")
    assert answer.status in (200, 400), answer
    if answer.status == 200:
        assert raw.request("GET", f"/{bucket}/a\0b").body == b"x"
        assert raw.request("GET", f"/{bucket}/a").status == 404
    else:
        assert keys_of(s3, bucket) == []


# ---- under load ---------------------------------------------------------------------------------------------


@pytest.mark.smoke
@both_layouts
def test_many_at_once(s3, bucket, rng):
    """Writers, readers and overwriters on a few keys: a read gives one whole version that was written."""
    versions = {f"k{i}": [bytes([i, v]) * rng.choice([10, 5000, 100 * KIB]) for v in range(4)] for i in range(6)}
    for key, bodies in versions.items():
        s3.put_object(Bucket=bucket, Key=key, Body=bodies[0])
    wrong = []

    def work(n):
        try:
            for i in range(25):
                key = f"k{(n + i) % 6}"
                if (n + i) % 3 == 0:
                    s3.put_object(Bucket=bucket, Key=key, Body=versions[key][(n + i) % 4])
                elif read(s3, bucket, key) not in versions[key]:
                    wrong.append(key)
        except Exception as error:  # a thread's failure must reach the test
            wrong.append(repr(error))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong, wrong
