"""PUTs by RDMA READ."""
import base64
import hashlib

import pytest

from tests.independent.signer import UNSIGNED
from tests.independent.verbs import Memory, crc32c

from .conftest import MIB, SIZES, content


@pytest.fixture(scope="module")
def bucket(shared):
    shared.user.request("PUT", "/uploads")
    return "/uploads"


@pytest.mark.parametrize("scheme", ["window2", "window1", "region"])
@pytest.mark.parametrize("name", SIZES)
def test_whole(site, bucket, scheme, name):
    data = content(f"put-{name}-{scheme}", SIZES[name])
    with site.session(rights=[scheme]) as session:
        got = session.put(f"{bucket}/{name}", data, headers={"x-amz-meta-colour": "blue"})
        assert got.status == 200 and got.transport == ("rdma" if data else got.transport)
        assert got.answer.headers["etag"] == f'"{hashlib.md5(data).hexdigest()}"'
        plain = site.user.request("GET", f"{bucket}/{name}")
        assert plain.body == data and plain.headers["x-amz-meta-colour"] == "blue"
        assert session.get(f"{bucket}/{name}", len(data)).data == data


def test_checksums_are_verified(site, bucket):
    data = content("summed", 300000)
    with site.session() as session:
        right = base64.b64encode(crc32c(data).to_bytes(4, "big")).decode()
        assert session.put(f"{bucket}/summed", data, headers={"x-amz-checksum-crc32c": right}).status == 200
        got = session.put(f"{bucket}/wrong", data, headers={"x-amz-checksum-crc32c": "AAAAAA=="})
        assert (got.status, got.answer.code) == (400, "BadDigest")
    assert site.user.request("GET", f"{bucket}/summed").body == data
    assert site.user.request("GET", f"{bucket}/wrong").status == 404


def test_an_upload_in_parts(site, bucket):
    parts = [content("first part", 5 * MIB), content("second part", 12345)]
    answer = site.user.request("POST", f"{bucket}/parts", query={"uploads": ""})
    upload = answer.body.split(b"<UploadId>")[1].split(b"<")[0].decode()
    etags = []
    with site.session() as session:
        for number, part in enumerate(parts, 1):
            got = session.put(f"{bucket}/parts", part, query={"partNumber": str(number), "uploadId": upload})
            assert got.status == 200, got.answer
            etags.append(got.answer.headers["etag"])
    complete = "".join(f"<Part><PartNumber>{number}</PartNumber><ETag>{etag}</ETag></Part>" for number, etag in enumerate(etags, 1))
    answer = site.user.request("POST", f"{bucket}/parts", f"<CompleteMultipartUpload>{complete}</CompleteMultipartUpload>".encode(),
                               query={"uploadId": upload})
    assert answer.status == 200 and b"<ETag>" in answer.body, answer
    assert site.user.request("GET", f"{bucket}/parts").body == b"".join(parts)


def test_what_is_refused_stores_nothing(site, bucket):
    data = content("refused", 10000)
    with site.session() as session, site.session() as other:
        assert session.put(f"{bucket}/first", data).status == 200
        got = session.put(f"{bucket}/refused", data, number=1)
        assert (got.status, got.answer.code) == (409, "RDMARequestRepeated") and not got.unread
        for signer in (site.user, other.signer):
            got = session.put(f"{bucket}/refused", data, signer=signer)
            assert got.status == 403 and not got.unread
        got = session.put("/no-such-bucket/refused", data)
        assert (got.status, got.answer.code) == (404, "NoSuchBucket")
        got = session.put(f"{bucket}/first", data, headers={"if-none-match": "*"})
        assert (got.status, got.answer.code) == (412, "PreconditionFailed")
        assert session.put(f"{bucket}/second", data).status == 200
    assert site.user.request("GET", f"{bucket}/refused").status == 404


def test_a_wrong_rkey_costs_its_session(site, bucket):
    data = content("wrong", 100000)
    with site.session() as other:
        session = site.session()
        grant_of_nobody = 0x5a5a5a
        got = session.put(f"{bucket}/wrong", data, rkey=grant_of_nobody)
        assert got.unread and got.status >= 500, got.answer
        session.free()
        assert other.put(f"{bucket}/right", data).status == 200
    assert site.user.request("GET", f"{bucket}/wrong").status == 404
    assert site.user.request("GET", f"{bucket}/right").body == data


def test_a_window_for_writing_is_not_read(site, bucket):
    """The right to write does not give the right to read."""
    session = site.session()
    grant = session.grant(Memory(4096))
    answer = session.signer.request("PUT", f"{bucket}/unreadable", digest=UNSIGNED, headers=session.headers(session.new_number(), grant.text()))
    assert answer.status >= 500 and "x-millrace-rdma-posted" not in answer.headers
    session.free()
    assert site.user.request("GET", f"{bucket}/unreadable").status == 404
