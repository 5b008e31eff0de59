"""Multipart uploads: every call, sizes and their limits, errors, repeats, copies of parts, paging, checksums."""
import concurrent.futures

import pytest

from tests.conftest import both_layouts
from tests.support import checksums
from tests.support.expect import absent, headers_of, keys_of, read, refused, status_of
from tests.support.s3raw import error_shape

MIB = 1 << 20
FAKE = "0" * 32


def create(s3, bucket, key="m", **arguments):
    return s3.create_multipart_upload(Bucket=bucket, Key=key, **arguments)["UploadId"]


def send(s3, bucket, upload, number, body, key="m", **arguments):
    return s3.upload_part(Bucket=bucket, Key=key, UploadId=upload, PartNumber=number, Body=body, **arguments)


def complete(s3, bucket, upload, parts, key="m", **arguments):
    """parts: [(number, etag)]"""
    named = {"Parts": [{"PartNumber": number, "ETag": etag} for number, etag in parts]}
    return s3.complete_multipart_upload(Bucket=bucket, Key=key, UploadId=upload, MultipartUpload=named, **arguments)


def whole_upload(s3, bucket, parts, key="m", **arguments):
    upload = create(s3, bucket, key, **arguments)
    etags = [(n, send(s3, bucket, upload, n, part, key)["ETag"]) for n, part in enumerate(parts, 1)]
    return complete(s3, bucket, upload, etags, key)


@pytest.mark.smoke
@both_layouts
def test_upload(s3, bucket, rng):
    parts = [rng.randbytes(5 * MIB), rng.randbytes(6 * MIB + 11), rng.randbytes(17)]
    upload = create(s3, bucket, ContentType="a/b", Metadata={"m": "1"}, CacheControl="no-store")
    etags = []
    for number, part in zip((2, 5, 9000), parts):
        etag = send(s3, bucket, upload, number, part)["ETag"]
        assert etag == checksums.etag(part)
        etags.append((number, etag))
    assert absent(s3, bucket, "m") and keys_of(s3, bucket) == []
    done = complete(s3, bucket, upload, etags)
    assert done["ETag"] == checksums.multipart_etag(parts)
    assert (done["Bucket"], done["Key"]) == (bucket, "m") and done["Location"].endswith(f"/{bucket}/m")
    got = s3.get_object(Bucket=bucket, Key="m")
    assert got["Body"].read() == b"".join(parts)
    assert (got["ContentType"], got["Metadata"], got["CacheControl"]) == ("a/b", {"m": "1"}, "no-store")
    assert got["ETag"] == done["ETag"]
    entry = s3.list_objects_v2(Bucket=bucket)["Contents"][0]
    assert (entry["ETag"], entry["Size"]) == (done["ETag"], sum(map(len, parts)))
    refused("NoSuchUpload", 404, s3.list_parts, Bucket=bucket, Key="m", UploadId=upload)
    assert "Uploads" not in s3.list_multipart_uploads(Bucket=bucket)


def test_parts_in_any_order_and_at_once(s3, bucket, rng):
    parts = [rng.randbytes(5 * MIB + n) for n in range(6)]
    upload = create(s3, bucket)
    order = list(range(6))
    rng.shuffle(order)
    with concurrent.futures.ThreadPoolExecutor(6) as workers:
        sent = {n: workers.submit(send, s3, bucket, upload, n + 1, parts[n]) for n in order}
        etags = [(n + 1, sent[n].result()["ETag"]) for n in range(6)]
    complete(s3, bucket, upload, etags)
    assert read(s3, bucket, "m") == b"".join(parts)


def test_a_part_sent_again_replaces(s3, bucket, rng):
    upload = create(s3, bucket)
    old = send(s3, bucket, upload, 1, rng.randbytes(5 * MIB))["ETag"]
    new_body = rng.randbytes(5 * MIB + 5)
    new = send(s3, bucket, upload, 1, new_body)["ETag"]
    listed = s3.list_parts(Bucket=bucket, Key="m", UploadId=upload)["Parts"]
    assert [(p["PartNumber"], p["ETag"], p["Size"]) for p in listed] == [(1, new, len(new_body))]
    refused("InvalidPart", 400, complete, s3, bucket, upload, [(1, old)])
    complete(s3, bucket, upload, [(1, new)])
    assert read(s3, bucket, "m") == new_body


def test_parts_left_out_are_dropped(s3, bucket, rng):
    upload = create(s3, bucket)
    keep = rng.randbytes(100)
    send(s3, bucket, upload, 1, rng.randbytes(5 * MIB))
    etag = send(s3, bucket, upload, 3, keep)["ETag"]
    assert complete(s3, bucket, upload, [(3, etag)])["ETag"] == checksums.multipart_etag([keep])
    assert read(s3, bucket, "m") == keep


def test_an_empty_part(s3, bucket):
    upload = create(s3, bucket)
    etag = send(s3, bucket, upload, 1, b"")["ETag"]
    assert complete(s3, bucket, upload, [(1, etag)])["ETag"] == checksums.multipart_etag([b""])
    assert read(s3, bucket, "m") == b""


def test_complete_refusals(s3, bucket):
    upload = create(s3, bucket)
    small = send(s3, bucket, upload, 1, b"small")["ETag"]
    last = send(s3, bucket, upload, 2, b"last")["ETag"]
    answer = refused("EntityTooSmall", 400, complete, s3, bucket, upload, [(1, small), (2, last)])
    assert "small" in answer["Error"]["Message"].lower()
    refused("InvalidPartOrder", 400, complete, s3, bucket, upload, [(2, last), (1, small)])
    refused("InvalidPartOrder", 400, complete, s3, bucket, upload, [(1, small), (1, small)])
    refused("InvalidPart", 400, complete, s3, bucket, upload, [(1, small), (3, last)])
    refused("InvalidPart", 400, complete, s3, bucket, upload, [(1, last)])
    refused("MalformedXML", 400, complete, s3, bucket, upload, [])
    refused("NoSuchUpload", 404, complete, s3, bucket, FAKE, [(1, small)])
    refused("NoSuchUpload", 404, complete, s3, bucket, upload, [(1, small)], key="other-key")
    assert keys_of(s3, bucket) == []
    complete(s3, bucket, upload, [(1, small)])


@pytest.mark.parametrize("body", [b"", b"junk", b"<CompleteMultipartUpload>", b"<CompleteMultipartUpload/>", b"<Other/>",
                                  b"<CompleteMultipartUpload><Part><PartNumber>1</PartNumber></Part></CompleteMultipartUpload>",
                                  b"<CompleteMultipartUpload><Part><ETag>x</ETag></Part></CompleteMultipartUpload>",
                                  b"<CompleteMultipartUpload><Part><PartNumber>x</PartNumber><ETag>y</ETag></Part></CompleteMultipartUpload>",
                                  b"<CompleteMultipartUpload><Part><PartNumber>0</PartNumber><ETag>y</ETag></Part></CompleteMultipartUpload>",
                                  b"<!DOCTYPE a [<!ENTITY x \"y\">]><CompleteMultipartUpload>&x;</CompleteMultipartUpload>",
                                  b"<!DOCTYPE a [<!ENTITY x SYSTEM \"file:///etc/passwd\">]><CompleteMultipartUpload><Part><PartNumber>1"
                                  b"</PartNumber><ETag>&x;</ETag></Part></CompleteMultipartUpload>"])
def test_complete_with_bad_xml(s3, raw, bucket, body):
    upload = create(s3, bucket)
    send(s3, bucket, upload, 1, b"x")
    answer = raw.request("POST", f"/{bucket}/m", query=[("uploadId", upload)], body=body)
    assert answer.status == 400 and answer.code in ("MalformedXML", "InvalidPart", "InvalidArgument", "InvalidRequest"), answer
    assert b"root:" not in answer.body
    assert len(s3.list_parts(Bucket=bucket, Key="m", UploadId=upload)["Parts"]) == 1


def test_complete_again_gives_the_same_answer(s3, bucket, rng):
    parts = [rng.randbytes(5 * MIB), b"end"]
    upload = create(s3, bucket)
    etags = [(n, send(s3, bucket, upload, n, part)["ETag"]) for n, part in enumerate(parts, 1)]
    first = complete(s3, bucket, upload, etags)
    second = complete(s3, bucket, upload, etags)
    assert first["ETag"] == second["ETag"]
    assert read(s3, bucket, "m") == b"".join(parts)
    s3.put_object(Bucket=bucket, Key="m", Body=b"newer")
    refused("NoSuchUpload", 404, complete, s3, bucket, upload, etags)
    assert read(s3, bucket, "m") == b"newer"


def test_concurrent_completes_of_one_upload(s3, bucket, rng):
    upload = create(s3, bucket)
    etag = send(s3, bucket, upload, 1, b"body")["ETag"]
    with concurrent.futures.ThreadPoolExecutor(6) as workers:
        runs = [workers.submit(complete, s3, bucket, upload, [(1, etag)]) for _ in range(6)]
        etags = {run.result()["ETag"] for run in runs}
    assert etags == {checksums.multipart_etag([b"body"])}


def test_abort(s3, bucket, rng):
    upload = create(s3, bucket)
    etag = send(s3, bucket, upload, 1, rng.randbytes(1000))["ETag"]
    assert status_of(s3.abort_multipart_upload(Bucket=bucket, Key="m", UploadId=upload)) == 204
    refused("NoSuchUpload", 404, s3.abort_multipart_upload, Bucket=bucket, Key="m", UploadId=upload)
    refused("NoSuchUpload", 404, send, s3, bucket, upload, 2, b"x")
    refused("NoSuchUpload", 404, complete, s3, bucket, upload, [(1, etag)])
    refused("NoSuchUpload", 404, s3.list_parts, Bucket=bucket, Key="m", UploadId=upload)
    assert "Uploads" not in s3.list_multipart_uploads(Bucket=bucket)
    assert absent(s3, bucket, "m")


@pytest.mark.parametrize("upload", [FAKE, "x", "../..", "a" * 2000, "-"])
def test_upload_ids_that_never_were(s3, bucket, upload):
    refused("NoSuchUpload", 404, send, s3, bucket, upload, 1, b"x")
    refused("NoSuchUpload", 404, s3.abort_multipart_upload, Bucket=bucket, Key="m", UploadId=upload)
    refused("NoSuchUpload", 404, s3.list_parts, Bucket=bucket, Key="m", UploadId=upload)


@pytest.mark.parametrize("number", ["0", "-1", "10001", "x", "", "1.5", "99999999999"])
def test_bad_part_numbers(s3, raw, bucket, number):
    upload = create(s3, bucket)
    answer = raw.request("PUT", f"/{bucket}/m", query=[("partNumber", number), ("uploadId", upload)], body=b"x")
    assert (answer.status, answer.code) == (400, "InvalidArgument"), answer
    assert "Parts" not in s3.list_parts(Bucket=bucket, Key="m", UploadId=upload)


def test_half_a_part_request_is_not_a_put(s3, raw, bucket):
    """partNumber without uploadId (or the other way round) must not store an object."""
    for query in ([("partNumber", "1")], [("uploadId", FAKE)]):
        answer = raw.request("PUT", f"/{bucket}/m", query=query, body=b"x")
        assert answer.status in (400, 404, 405, 501), answer
    assert keys_of(s3, bucket) == []


@pytest.mark.parametrize("key", ["\0" * 1024, "a\0\x01b", "\0\x01" * 512, "\x1f" * 1024, "\"" * 1024, "\ufffe" * 341])
def test_keys_of_any_bytes(raw, bucket, key):
    """What XML has no form for, and what grows most when it is escaped, on disk and in answers: every call takes such a key, or names nothing."""
    path, nothing = f"/{bucket}/{key}", [("uploadId", "0" * 32)]
    created = raw.request("POST", path, query=[("uploads", "")])
    assert created.status == 200
    upload = [("uploadId", created.body.split(b"<UploadId>")[1].split(b"<")[0].decode())]
    part = raw.request("PUT", path, query=[("partNumber", "1"), *upload], body=b"part")
    assert part.status == 200
    assert raw.request("GET", path, query=upload).status == 200
    for query in ([("uploads", "")], [("uploads", ""), ("prefix", key)], [("uploads", ""), ("key-marker", key)],
                  [("uploads", ""), ("delimiter", key)], [("list-type", "2"), ("prefix", key)], [("list-type", "2"), ("start-after", key)],
                  [("marker", key)], [("delimiter", key), ("encoding-type", "url")]):
        assert raw.request("GET", f"/{bucket}", query=query).status == 200, query
    for query in ([("list-type", "2"), ("continuation-token", key)], [("uploads", ""), ("key-marker", "a"), ("upload-id-marker", key)]):
        assert raw.request("GET", f"/{bucket}", query=query).status == 400, query
    assert raw.request("GET", path, query=[("uploadId", key)]).status == 404
    assert raw.request("DELETE", path, query=nothing).status == 404
    done = raw.request("POST", path, query=upload, body=b"<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>"
                       + part.headers["etag"].encode() + b"</ETag></Part></CompleteMultipartUpload>")
    assert done.status == 200 and b"<ETag>" in done.body
    assert raw.request("GET", path).body == b"part"
    assert raw.request("DELETE", path).status == 204


def test_list_parts_pages(s3, raw, bucket):
    upload = create(s3, bucket)
    numbers = [1, 2, 3, 10, 11, 500, 9999, 10000]
    for number in numbers:
        send(s3, bucket, upload, number, f"part {number}".encode())
    for size in (1, 3, 8, 1000):
        found, marker = [], None
        while True:
            page = s3.list_parts(Bucket=bucket, Key="m", UploadId=upload, MaxParts=size,
                                 **({"PartNumberMarker": marker} if marker is not None else {}))
            assert len(page.get("Parts", [])) <= size and page["MaxParts"] == size
            found += page.get("Parts", [])
            if not page["IsTruncated"]:
                break
            marker = page["NextPartNumberMarker"]
        assert [p["PartNumber"] for p in found] == numbers
        assert all(p["ETag"] == checksums.etag(f"part {p['PartNumber']}".encode()) for p in found)
    page = s3.list_parts(Bucket=bucket, Key="m", UploadId=upload)
    assert (page["Bucket"], page["Key"], page["UploadId"], page["StorageClass"]) == (bucket, "m", upload, "STANDARD")
    assert page["Initiator"]["ID"] and page["Owner"]["ID"]
    for name, bad in (("max-parts", "-1"), ("max-parts", "x"), ("part-number-marker", "x"), ("part-number-marker", "-1")):
        answer = raw.request("GET", f"/{bucket}/m", query=[("uploadId", upload), (name, bad)])
        assert (answer.status, answer.code) == (400, "InvalidArgument"), (name, bad, answer)


def test_list_uploads_pages(s3, bucket):
    keys = ["a", "a", "a", "b/1", "b/2", "c", "d/x/1", "é", "p" * 700, "p" * 700 + "q"]
    uploads = [(key, create(s3, bucket, key)) for key in keys]
    uploads.sort(key=lambda u: u[0].encode())  # of one key: in order of creation, which sorted() keeps
    for size in (1, 2, 3, 1000):
        found, markers = [], {}
        while True:
            page = s3.list_multipart_uploads(Bucket=bucket, MaxUploads=size, **markers)
            assert len(page.get("Uploads", [])) <= size
            found += [(u["Key"], u["UploadId"]) for u in page.get("Uploads", [])]
            assert (page["NextKeyMarker"], page["NextUploadIdMarker"]) == found[-1]  # on the last page, too
            if not page["IsTruncated"]:
                break
            markers = {"KeyMarker": page["NextKeyMarker"], "UploadIdMarker": page["NextUploadIdMarker"]}
        assert found == uploads, size
    page = s3.list_multipart_uploads(Bucket=bucket, Prefix="b/")
    assert [u["Key"] for u in page["Uploads"]] == ["b/1", "b/2"]
    page = s3.list_multipart_uploads(Bucket=bucket, Delimiter="/")
    assert [p["Prefix"] for p in page["CommonPrefixes"]] == ["b/", "d/"]
    assert [u["Key"] for u in page["Uploads"]] == ["a", "a", "a", "c", "p" * 700, "p" * 700 + "q", "é"]
    page = s3.list_multipart_uploads(Bucket=bucket, KeyMarker="c")
    assert page["Uploads"][0]["Key"] == "d/x/1"
    first = page["Uploads"][0]
    assert first["Initiated"] and first["StorageClass"] == "STANDARD" and first["Owner"]["ID"] and first["Initiator"]["ID"]


def test_create_checks_the_key(s3, bucket):
    refused("KeyTooLongError", 400, s3.create_multipart_upload, Bucket=bucket, Key="k" * 1025)
    refused("NoSuchBucket", 404, s3.create_multipart_upload, Bucket="no-such-bucket-here", Key="k")
    assert "Uploads" not in s3.list_multipart_uploads(Bucket=bucket)


@pytest.mark.slow
def test_many_parts(s3, bucket, rng):
    """60 parts of 5 MiB; then ranges across part borders."""
    block = rng.randbytes(5 * MIB)
    upload = create(s3, bucket)
    bodies = [block[i:] + block[:i] for i in range(60)]
    with concurrent.futures.ThreadPoolExecutor(8) as workers:
        etags = list(workers.map(lambda n: (n + 1, send(s3, bucket, upload, n + 1, bodies[n])["ETag"]), range(60)))
    complete(s3, bucket, upload, etags)
    for n in (1, 17, 59):
        at = n * 5 * MIB
        got = s3.get_object(Bucket=bucket, Key="m", Range=f"bytes={at - 1000}-{at + 999}")["Body"].read()
        assert got == bodies[n - 1][-1000:] + bodies[n][:1000]
    body = s3.get_object(Bucket=bucket, Key="m")["Body"]
    assert all(body.read(5 * MIB) == part for part in bodies)


# ---- UploadPartCopy -----------------------------------------------------------------------------------------


@both_layouts
def test_copy_parts(s3, bucket, rng):
    source = rng.randbytes(12 * MIB + 100)
    s3.put_object(Bucket=bucket, Key="src/é +%", Body=source)
    upload = create(s3, bucket)
    name = {"Bucket": bucket, "Key": "src/é +%"}
    first = s3.upload_part_copy(Bucket=bucket, Key="m", UploadId=upload, PartNumber=1, CopySource=name,
                                CopySourceRange=f"bytes=100-{6 * MIB}")
    assert first["CopyPartResult"]["ETag"] == checksums.etag(source[100:6 * MIB + 1]) and first["CopyPartResult"]["LastModified"]
    second = s3.upload_part_copy(Bucket=bucket, Key="m", UploadId=upload, PartNumber=2, CopySource=name)
    complete(s3, bucket, upload, [(1, first["CopyPartResult"]["ETag"]), (2, second["CopyPartResult"]["ETag"])])
    assert read(s3, bucket, "m") == source[100:6 * MIB + 1] + source


def test_copy_part_refusals(s3, bucket, rng):
    s3.put_object(Bucket=bucket, Key="src", Body=b"0123456789")
    upload = create(s3, bucket)

    def copy(source="src", **arguments):
        return s3.upload_part_copy(Bucket=bucket, Key="m", UploadId=arguments.pop("UploadId", upload), PartNumber=1,
                                   CopySource={"Bucket": bucket, "Key": source}, **arguments)

    for text in ("bytes=0-10", "bytes=5-3", "bytes=0-", "bytes=-5", "0-5", "bytes=a-b"):
        refused(("InvalidArgument", "InvalidRange", "InvalidRequest"), 400, copy, CopySourceRange=text)
    refused("NoSuchKey", 404, copy, source="none")
    refused("NoSuchUpload", 404, copy, UploadId=FAKE)
    refused("PreconditionFailed", 412, copy, CopySourceIfMatch='"0"')
    refused("PreconditionFailed", 412, copy, CopySourceIfNoneMatch=checksums.etag(b"0123456789"))
    assert "Parts" not in s3.list_parts(Bucket=bucket, Key="m", UploadId=upload)
    copy(CopySourceRange="bytes=2-5", CopySourceIfMatch=checksums.etag(b"0123456789"))
    assert s3.list_parts(Bucket=bucket, Key="m", UploadId=upload)["Parts"][0]["Size"] == 4


# ---- checksums ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", checksums.COMPOSITE_KINDS)
def test_composite_checksum(s3, bucket, rng, kind):
    parts = [rng.randbytes(5 * MIB), b"end"]
    upload = create(s3, bucket, ChecksumAlgorithm=kind, ChecksumType="COMPOSITE")
    named = []
    for number, part in enumerate(parts, 1):
        # boto3 computes all kinds but MD5
        given = {checksums.field(kind): checksums.checksum(kind, part)} if kind == "MD5" else {"ChecksumAlgorithm": kind}
        answer = send(s3, bucket, upload, number, part, **given)
        assert answer[checksums.field(kind)] == checksums.checksum(kind, part)
        named.append({"PartNumber": number, "ETag": answer["ETag"], checksums.field(kind): answer[checksums.field(kind)]})
    listed = s3.list_parts(Bucket=bucket, Key="m", UploadId=upload)
    assert listed["ChecksumAlgorithm"] == kind and listed["ChecksumType"] == "COMPOSITE"
    assert [p[checksums.field(kind)] for p in listed["Parts"]] == [checksums.checksum(kind, p) for p in parts]
    wrong = [dict(named[0], **{checksums.field(kind): checksums.checksum(kind, b"wrong")}), named[1]]
    refused("InvalidPart", 400, s3.complete_multipart_upload, Bucket=bucket, Key="m", UploadId=upload, MultipartUpload={"Parts": wrong})
    done = s3.complete_multipart_upload(Bucket=bucket, Key="m", UploadId=upload, MultipartUpload={"Parts": named})
    want = checksums.composite(kind, parts)
    assert done[checksums.field(kind)] == want and done["ChecksumType"] == "COMPOSITE"
    head = s3.head_object(Bucket=bucket, Key="m", ChecksumMode="ENABLED")
    assert head[checksums.field(kind)] == want and head["ChecksumType"] == "COMPOSITE"


def test_a_part_without_the_checksum_that_the_upload_asks_for(raw, s3, bucket):
    """A checksum of checksums takes one of each part from the client; one over all bytes is computed here."""
    for arguments, status in (({"ChecksumAlgorithm": "SHA256"}, 400), ({"ChecksumAlgorithm": "CRC32", "ChecksumType": "COMPOSITE"}, 400),
                              ({"ChecksumAlgorithm": "CRC32", "ChecksumType": "FULL_OBJECT"}, 200), ({"ChecksumAlgorithm": "CRC64NVME"}, 200),
                              ({}, 200)):
        upload = create(s3, bucket, **arguments)
        answer = raw.request("PUT", f"/{bucket}/m", query=[("partNumber", "1"), ("uploadId", upload)], body=b"part")
        assert answer.status == status, (arguments, answer)
        if status == 400:
            assert error_shape(answer) == "InvalidRequest" and answer.xml.findtext("Message").endswith("actual checksum Type: null"), answer
            assert "Parts" not in s3.list_parts(Bucket=bucket, Key="m", UploadId=upload)
        else:
            assert complete(s3, bucket, upload, [(1, answer.headers["etag"])])["ETag"]


@pytest.mark.parametrize("kind", checksums.FULL_OBJECT_KINDS)
def test_full_object_checksum(s3, bucket, rng, kind):
    parts = [rng.randbytes(5 * MIB), rng.randbytes(5 * MIB + 3), b"end"]
    want = checksums.checksum(kind, b"".join(parts))
    for claimed in (None, want, checksums.checksum(kind, b"wrong")):
        upload = create(s3, bucket, ChecksumAlgorithm=kind, ChecksumType="FULL_OBJECT")
        etags = [(n, send(s3, bucket, upload, n, part, ChecksumAlgorithm=kind)["ETag"]) for n, part in enumerate(parts, 1)]
        extra = {checksums.field(kind): claimed, "ChecksumType": "FULL_OBJECT"} if claimed else {}
        if claimed not in (None, want):
            refused("BadDigest", 400, complete, s3, bucket, upload, etags, **extra)
            continue
        done = complete(s3, bucket, upload, etags, **extra)
        assert done[checksums.field(kind)] == want and done["ChecksumType"] == "FULL_OBJECT"
        head = s3.head_object(Bucket=bucket, Key="m", ChecksumMode="ENABLED")
        assert head[checksums.field(kind)] == want and head["ChecksumType"] == "FULL_OBJECT"
        assert read(s3, bucket, "m", ChecksumMode="ENABLED") == b"".join(parts)


def test_crc64nvme_where_the_client_asked_for_none(s3, raw, bucket, rng):
    parts = [rng.randbytes(5 * MIB), b"end"]
    upload = raw.request("POST", f"/{bucket}/m", query=[("uploads", "")]).xml.findtext("UploadId")
    etags = []
    for number, part in enumerate(parts, 1):
        answer = raw.request("PUT", f"/{bucket}/m", query=[("partNumber", str(number)), ("uploadId", upload)], body=part)
        assert answer.status == 200, answer
        etags.append((number, answer.headers["etag"]))
    complete(s3, bucket, upload, etags)
    head = s3.head_object(Bucket=bucket, Key="m", ChecksumMode="ENABLED")
    assert head["ChecksumCRC64NVME"] == checksums.checksum("CRC64NVME", b"".join(parts))
    assert head["ChecksumType"] == "FULL_OBJECT"


@pytest.mark.parametrize("kind, style", [("SHA1", "FULL_OBJECT"), ("SHA256", "FULL_OBJECT"), ("CRC64NVME", "COMPOSITE")])
def test_pairs_that_are_not_allowed(s3, bucket, kind, style):
    refused("InvalidRequest", 400, s3.create_multipart_upload, Bucket=bucket, Key="m", ChecksumAlgorithm=kind, ChecksumType=style)


def test_part_with_a_wrong_checksum(s3, bucket):
    upload = create(s3, bucket, ChecksumAlgorithm="CRC32")
    refused("BadDigest", 400, send, s3, bucket, upload, 1, b"x", ChecksumCRC32=checksums.checksum("CRC32", b"y"))
    refused("InvalidRequest", 400, send, s3, bucket, upload, 1, b"x", ChecksumSHA256=checksums.checksum("SHA256", b"x"))
    assert "Parts" not in s3.list_parts(Bucket=bucket, Key="m", UploadId=upload)


def test_object_size_at_complete(s3, bucket):
    upload = create(s3, bucket)
    etag = send(s3, bucket, upload, 1, b"12345")["ETag"]
    refused("InvalidRequest", 400, complete, s3, bucket, upload, [(1, etag)], MpuObjectSize=6)
    assert complete(s3, bucket, upload, [(1, etag)], MpuObjectSize=5)["ETag"]


def test_refusals_are_whole_documents(raw, bucket):
    answer = raw.request("POST", f"/{bucket}/m", query=[("uploadId", FAKE)], body=b"<CompleteMultipartUpload><Part><PartNumber>1</PartNumber>"
                         b"<ETag>x</ETag></Part></CompleteMultipartUpload>")
    assert answer.status == 404 and error_shape(answer) == "NoSuchUpload"


def test_complete_keeps_the_connection_and_its_headers(s3, bucket):
    upload = create(s3, bucket)
    etag = send(s3, bucket, upload, 1, b"x")["ETag"]
    assert headers_of(complete(s3, bucket, upload, [(1, etag)]))["content-type"].startswith("application/xml")
