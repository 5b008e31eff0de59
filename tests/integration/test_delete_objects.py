"""DeleteObjects: many at once, quiet or not, conditions, limits, and what it demands of its body."""
import xml.sax.saxutils

import pytest

from tests.support import checksums
from tests.support.expect import keys_of, refused
from tests.support.s3raw import error_shape


def body_for(keys, quiet=False):
    objects = "".join(f"<Object><Key>{xml.sax.saxutils.escape(k, {chr(13): '&#13;'})}</Key></Object>" for k in keys)
    return f"<Delete>{'<Quiet>true</Quiet>' if quiet else ''}{objects}</Delete>".encode()


def post(raw, bucket, body, headers=None, query=(("delete", ""),), **how):
    if headers is None:
        headers = {"Content-MD5": checksums.content_md5(body)}
    return raw.request("POST", f"/{bucket}", query=list(query), headers=headers, body=body, **how)


def test_delete(s3, bucket):
    keys = ["a", "b/c", "é &<>\"'", "x y+z%", "//", "k" * 1024]
    for key in keys:
        s3.put_object(Bucket=bucket, Key=key, Body=b"x")
    s3.put_object(Bucket=bucket, Key="stays", Body=b"x")
    answer = s3.delete_objects(Bucket=bucket, Delete={"Objects": [{"Key": k} for k in [*keys, "never there"]]})
    assert sorted(d["Key"] for d in answer["Deleted"]) == sorted([*keys, "never there"])
    assert "Errors" not in answer
    assert keys_of(s3, bucket) == ["stays"]


def test_quiet(s3, bucket):
    s3.put_object(Bucket=bucket, Key="a", Body=b"x")
    answer = s3.delete_objects(Bucket=bucket, Delete={"Objects": [{"Key": "a"}, {"Key": "b"}], "Quiet": True})
    assert "Deleted" not in answer and "Errors" not in answer
    assert keys_of(s3, bucket) == []


def test_a_thousand(s3, bucket):
    keys = [f"{i:04}" for i in range(1000)]
    for key in keys[::10]:
        s3.put_object(Bucket=bucket, Key=key, Body=b"")
    answer = s3.delete_objects(Bucket=bucket, Delete={"Objects": [{"Key": k} for k in keys]})
    assert [d["Key"] for d in answer["Deleted"]] == keys
    assert keys_of(s3, bucket) == []


def test_one_more_is_refused_whole(s3, bucket):
    s3.put_object(Bucket=bucket, Key="0", Body=b"")
    refused("MalformedXML", 400, s3.delete_objects, Bucket=bucket, Delete={"Objects": [{"Key": f"{i}"} for i in range(1001)]})
    assert keys_of(s3, bucket) == ["0"]


def test_conditions(s3, bucket):
    etags = {k: s3.put_object(Bucket=bucket, Key=k, Body=k.encode())["ETag"] for k in ("a", "b")}
    answer = s3.delete_objects(Bucket=bucket, Delete={"Objects": [{"Key": "a", "ETag": etags["a"]}, {"Key": "b", "ETag": etags["a"]}]})
    assert [d["Key"] for d in answer["Deleted"]] == ["a"]
    assert [(e["Key"], e["Code"]) for e in answer["Errors"]] == [("b", "PreconditionFailed")]
    assert keys_of(s3, bucket) == ["b"]
    answer = s3.delete_objects(Bucket=bucket, Delete={"Objects": [{"Key": "none", "ETag": etags["a"]}]})
    assert [(e["Key"], e["Code"]) for e in answer["Errors"]] == [("none", "NoSuchKey")]


def test_key_too_long_refuses_the_document(s3, bucket):
    s3.put_object(Bucket=bucket, Key="a", Body=b"")
    refused("KeyTooLongError", 400, s3.delete_objects, Bucket=bucket, Delete={"Objects": [{"Key": "k" * 1025}, {"Key": "a"}]})
    assert keys_of(s3, bucket) == ["a"]


@pytest.mark.parametrize("body", [b"", b"junk", b"<Delete/>", b"<Delete>", b"<Other><Object><Key>a</Key></Object></Other>",
                                  b"<Delete><Object/></Delete>", b"<Delete><Object><Key></Key></Object></Delete>",
                                  b"<Delete><Object><Key>a</Key></Object></Delete>trailing",
                                  b"<!DOCTYPE x [<!ENTITY e 'a'>]><Delete><Object><Key>&e;</Key></Object></Delete>",
                                  b"<Delete>" + b"<x>" * 5000 + b"</x>" * 5000 + b"</Delete>", b"\xff\xfe\x00<"])
def test_malformed(s3, raw, bucket, body):
    s3.put_object(Bucket=bucket, Key="a", Body=b"x")
    answer = post(raw, bucket, body)
    assert answer.status == 400 and answer.code in ("MalformedXML", "UserKeyMustBeSpecified", "MissingRequestBodyError"), answer
    assert keys_of(s3, bucket) == ["a"]


def test_a_checksum_is_demanded(s3, raw, bucket):
    s3.put_object(Bucket=bucket, Key="a", Body=b"x")
    body = body_for(["a"])
    answer = post(raw, bucket, body, headers={})
    assert (answer.status, error_shape(answer)) == (400, "InvalidRequest"), answer
    answer = post(raw, bucket, body, headers={"Content-MD5": checksums.content_md5(b"other")})
    assert (answer.status, answer.code) == (400, "BadDigest"), answer
    answer = post(raw, bucket, body, headers={"x-amz-checksum-crc32": checksums.checksum("CRC32", b"other")})
    assert (answer.status, answer.code) == (400, "BadDigest"), answer
    assert keys_of(s3, bucket) == ["a"]
    for kind in checksums.KINDS:
        s3.put_object(Bucket=bucket, Key="a", Body=b"x")
        assert post(raw, bucket, body, headers={checksums.header(kind): checksums.checksum(kind, body)}).status == 200, kind
        assert keys_of(s3, bucket) == []


def test_forms_that_sdks_use(s3, raw, bucket):
    """POST /bucket/?delete= is what the JavaScript SDK sends; the namespace on the root is what most send."""
    s3.put_object(Bucket=bucket, Key="a\rb", Body=b"x")
    body = body_for(["a\rb"]).replace(b"<Delete>", b'<?xml version="1.0"?><Delete xmlns="http://s3.amazonaws.com/doc/2006-03-01/">')
    answer = raw.request("POST", f"/{bucket}/", query=[("delete", ""), ("x-id", "DeleteObjects")],
                         headers={"Content-MD5": checksums.content_md5(body)}, body=body)
    assert answer.status == 200, answer
    assert keys_of(s3, bucket) == []


def test_no_such_bucket(raw):
    answer = post(raw, "no-such-bucket-here", body_for(["a"]))
    assert (answer.status, answer.code) == (404, "NoSuchBucket"), answer


def test_the_same_key_twice(s3, bucket):
    s3.put_object(Bucket=bucket, Key="a", Body=b"x")
    answer = s3.delete_objects(Bucket=bucket, Delete={"Objects": [{"Key": "a"}, {"Key": "a"}]})
    assert [d["Key"] for d in answer["Deleted"]] == ["a", "a"]


def test_body_too_large(raw, bucket):
    body = b"<Delete>" + b" " * (4 << 20) + b"</Delete>"
    answer = post(raw, bucket, body)
    assert answer.status in (400, 413) and answer.code in ("MalformedXML", "EntityTooLarge", "MaxMessageLengthExceeded"), answer
