"""If-Match and its kin on reads, conditional writes, deletes and completes, and their atomicity."""
import datetime
import threading

import pytest

from tests.support import checksums
from tests.support.expect import absent, headers_of, read, refused, status_of

LONG_AGO = datetime.datetime(2001, 1, 1, tzinfo=datetime.timezone.utc)
FAR_AHEAD = datetime.datetime(2037, 1, 1, tzinfo=datetime.timezone.utc)
DATA = b"some data"
ETAG = checksums.etag(DATA)
OTHER = checksums.etag(b"other")


def http_date(when):
    return when.strftime("%a, %d %b %Y %H:%M:%S GMT")


@pytest.fixture
def key(s3, bucket):
    s3.put_object(Bucket=bucket, Key="k", Body=DATA)
    return "k"


# Condition headers -> status of GET and HEAD (RFC 9110 section 13.2.2, and AWS's table for pairs)
READS = [
    ({"If-Match": ETAG}, 200), ({"If-Match": ETAG.strip('"')}, 200), ({"If-Match": "*"}, 200), ({"If-Match": OTHER}, 412),
    ({"If-Match": f"{OTHER}, {ETAG}"}, 200),
    ({"If-None-Match": ETAG}, 304), ({"If-None-Match": ETAG.strip('"')}, 304), ({"If-None-Match": "*"}, 304),
    ({"If-None-Match": OTHER}, 200), ({"If-None-Match": f"{OTHER}, {ETAG}"}, 304),
    ({"If-Modified-Since": http_date(LONG_AGO)}, 200), ({"If-Modified-Since": "FUTURE"}, 200),
    ({"If-Modified-Since": "NOW"}, 304), ({"If-Modified-Since": "no date"}, 200),
    ({"If-Unmodified-Since": http_date(LONG_AGO)}, 412), ({"If-Unmodified-Since": "NOW"}, 200),
    ({"If-Match": ETAG, "If-Unmodified-Since": http_date(LONG_AGO)}, 200),
    ({"If-Match": OTHER, "If-Unmodified-Since": "NOW"}, 412),
    ({"If-None-Match": ETAG, "If-Modified-Since": http_date(LONG_AGO)}, 304),
    ({"If-None-Match": OTHER, "If-Modified-Since": "NOW"}, 200),
]


@pytest.mark.parametrize("headers, status", READS, ids=lambda v: str(v)[:70])
def test_reads(s3, raw, bucket, key, headers, status):
    modified = s3.head_object(Bucket=bucket, Key=key)["LastModified"]
    texts = {"NOW": http_date(modified), "FUTURE": http_date(FAR_AHEAD)}
    headers = {name: texts.get(value, value) for name, value in headers.items()}
    if "FUTURE" in str(headers) or texts["FUTURE"] in headers.values():
        status = None  # a date ahead of the server's clock is invalid (RFC 9110): either answer is met in the field
    for method in ("GET", "HEAD"):
        answer = raw.request(method, f"/{bucket}/{key}", headers=headers)
        if status is None:
            assert answer.status in (200, 304)
            continue
        assert answer.status == status, (method, headers, answer)
        if status == 304:
            assert answer.body == b"" and answer.headers["etag"] == ETAG and "last-modified" in answer.headers
        if status == 412 and method == "GET":
            assert answer.code == "PreconditionFailed"


def test_conditions_on_a_key_that_is_not_there(raw, bucket):
    for headers in ({"If-Match": ETAG}, {"If-None-Match": "*"}, {"If-Unmodified-Since": http_date(LONG_AGO)}):
        assert raw.request("GET", f"/{bucket}/none", headers=headers).status == 404


def test_put_if_none_match(s3, bucket, key):
    refused("PreconditionFailed", 412, s3.put_object, Bucket=bucket, Key=key, Body=b"new", IfNoneMatch="*")
    assert read(s3, bucket, key) == DATA
    assert status_of(s3.put_object(Bucket=bucket, Key="fresh", Body=b"1", IfNoneMatch="*")) == 200
    s3.delete_object(Bucket=bucket, Key="fresh")
    assert status_of(s3.put_object(Bucket=bucket, Key="fresh", Body=b"2", IfNoneMatch="*")) == 200
    assert read(s3, bucket, "fresh") == b"2"


def test_put_if_none_match_takes_only_a_star(raw, bucket):
    answer = raw.request("PUT", f"/{bucket}/k", headers={"If-None-Match": ETAG}, body=b"x")
    assert (answer.status, answer.code) == (501, "NotImplemented"), answer
    assert raw.request("HEAD", f"/{bucket}/k").status == 404


def test_put_if_match(s3, bucket, key):
    refused("PreconditionFailed", 412, s3.put_object, Bucket=bucket, Key=key, Body=b"new", IfMatch=OTHER)
    assert read(s3, bucket, key) == DATA
    new = s3.put_object(Bucket=bucket, Key=key, Body=b"new", IfMatch=ETAG)["ETag"]
    assert read(s3, bucket, key) == b"new"
    refused("PreconditionFailed", 412, s3.put_object, Bucket=bucket, Key=key, Body=b"newer", IfMatch=ETAG)
    s3.put_object(Bucket=bucket, Key=key, Body=b"newer", IfMatch=new.strip('"'))
    refused("NoSuchKey", 404, s3.put_object, Bucket=bucket, Key="none", Body=b"x", IfMatch=ETAG)
    assert absent(s3, bucket, "none")


@pytest.mark.parametrize("size", [100, 300 * 1024])
def test_one_winner(s3, bucket, size):
    """Of many concurrent PUTs with If-None-Match: * exactly one is stored, and all readers see it."""
    for round_number in range(6):
        key = f"race-{round_number}"
        outcomes = {}
        gate = threading.Barrier(8)

        def contend(n):
            gate.wait()
            try:
                s3.put_object(Bucket=bucket, Key=key, Body=bytes([n]) * size, IfNoneMatch="*")
                outcomes[n] = 200
            except s3.exceptions.ClientError as error:
                outcomes[n] = error.response["Error"]["Code"]

        threads = [threading.Thread(target=contend, args=(n,)) for n in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        winners = [n for n, outcome in outcomes.items() if outcome == 200]
        assert len(winners) == 1, outcomes
        assert set(outcomes.values()) <= {200, "PreconditionFailed", "ConditionalRequestConflict"}, outcomes
        assert read(s3, bucket, key) == bytes(winners) * size


def test_compare_and_swap(s3, bucket):
    """A counter moved only by If-Match never loses a step."""
    s3.put_object(Bucket=bucket, Key="counter", Body=b"0")

    def step():
        while True:
            got = s3.get_object(Bucket=bucket, Key="counter")
            value = int(got["Body"].read())
            try:
                s3.put_object(Bucket=bucket, Key="counter", Body=str(value + 1).encode(), IfMatch=got["ETag"])
                return
            except s3.exceptions.ClientError as error:
                assert error.response["Error"]["Code"] in ("PreconditionFailed", "ConditionalRequestConflict")

    threads = [threading.Thread(target=lambda: [step() for _ in range(5)]) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert read(s3, bucket, "counter") == b"30"


def upload_one(s3, bucket, key, body):
    upload = s3.create_multipart_upload(Bucket=bucket, Key=key)["UploadId"]
    etag = s3.upload_part(Bucket=bucket, Key=key, UploadId=upload, PartNumber=1, Body=body)["ETag"]
    return dict(Bucket=bucket, Key=key, UploadId=upload, MultipartUpload={"Parts": [{"PartNumber": 1, "ETag": etag}]})


def test_complete_if_none_match(s3, bucket, key):
    upload = upload_one(s3, bucket, key, b"part")
    refused("PreconditionFailed", 412, s3.complete_multipart_upload, IfNoneMatch="*", **upload)
    assert read(s3, bucket, key) == DATA
    s3.delete_object(Bucket=bucket, Key=key)
    assert s3.complete_multipart_upload(IfNoneMatch="*", **upload)["ETag"] == checksums.multipart_etag([b"part"])
    assert read(s3, bucket, key) == b"part"


def test_complete_if_match(s3, bucket, key):
    upload = upload_one(s3, bucket, key, b"part")
    refused("PreconditionFailed", 412, s3.complete_multipart_upload, IfMatch=OTHER, **upload)
    s3.complete_multipart_upload(IfMatch=ETAG, **upload)
    assert read(s3, bucket, key) == b"part"
    refused("NoSuchKey", 404, s3.complete_multipart_upload, IfMatch=ETAG, **upload_one(s3, bucket, "none", b"x"))


def test_complete_one_winner(s3, bucket):
    uploads = [upload_one(s3, bucket, "race", bytes([n]) * 1000) for n in range(6)]
    gate = threading.Barrier(6)
    outcomes = {}

    def contend(n):
        gate.wait()
        try:
            s3.complete_multipart_upload(IfNoneMatch="*", **uploads[n])
            outcomes[n] = 200
        except s3.exceptions.ClientError as error:
            outcomes[n] = error.response["Error"]["Code"]

    threads = [threading.Thread(target=contend, args=(n,)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    winners = [n for n, outcome in outcomes.items() if outcome == 200]
    assert len(winners) == 1, outcomes
    assert read(s3, bucket, "race") == bytes(winners) * 1000


def test_delete_if_match(s3, bucket, key):
    refused("PreconditionFailed", 412, s3.delete_object, Bucket=bucket, Key=key, IfMatch=OTHER)
    assert read(s3, bucket, key) == DATA
    assert status_of(s3.delete_object(Bucket=bucket, Key=key, IfMatch=ETAG)) == 204
    assert absent(s3, bucket, key)


@pytest.mark.parametrize("etag", [ETAG, "*"])
def test_delete_if_match_of_what_is_not_there(s3, bucket, key, etag):
    refused("NoSuchKey", 404, s3.delete_object, Bucket=bucket, Key="none", IfMatch=etag)
    assert status_of(s3.delete_object(Bucket=bucket, Key="none")) == 204
    assert status_of(s3.delete_object(Bucket=bucket, Key=key, IfMatch="*")) == 204
    refused("NoSuchKey", 404, s3.delete_object, Bucket=bucket, Key=key, IfMatch="*")


def test_not_modified_has_no_body_and_keeps_the_connection(raw, bucket, s3, key):
    with raw.connect() as connection:
        for _ in range(3):
            answer = raw.request("GET", f"/{bucket}/{key}", headers={"If-None-Match": ETAG}, connection=connection)
            assert answer.status == 304
        assert raw.request("GET", f"/{bucket}/{key}", connection=connection).body == DATA


def test_dates_in_the_older_forms(s3, raw, bucket, key):
    """RFC 850 and asctime dates are understood."""
    for text in ("Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994"):
        assert raw.request("GET", f"/{bucket}/{key}", headers={"If-Unmodified-Since": text}).status == 412, text
        assert headers_of(s3.head_object(Bucket=bucket, Key=key))["etag"] == ETAG
