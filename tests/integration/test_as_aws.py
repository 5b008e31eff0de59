"""Answers in which servers that speak S3 often differ from AWS, one test each; the page of AWS's documentation is named beside it."""
import base64
import email.header

import pytest

from tests.support import checksums
from tests.support.expect import absent, keys_of, read, refused
from tests.support.s3raw import STREAMING_UNSIGNED_TRAILER, Connection, error_shape

MIB = 1 << 20
DOCUMENT = "<CreateBucketConfiguration><LocationConstraint>{}</LocationConstraint></CreateBucketConfiguration>"


# ---- uploads in parts (User Guide, "Uploading and copying objects using multipart upload") ---------------------


def test_the_upload_of_a_part_that_ends_last_counts(s3, raw, bucket, rng):
    """A part is overwritten by the upload of the same number that ends after it, though it began before."""
    older, newer = rng.randbytes(5 * MIB), rng.randbytes(5 * MIB)
    upload = s3.create_multipart_upload(Bucket=bucket, Key="m")["UploadId"]
    head, _ = raw.build("PUT", f"/{bucket}/m", query=[("partNumber", "1"), ("uploadId", upload)], body=older)
    with Connection(raw.host, raw.port) as slow:
        slow.send(head + older[:MIB])
        replaced = s3.upload_part(Bucket=bucket, Key="m", UploadId=upload, PartNumber=1, Body=newer)["ETag"]
        slow.send(older[MIB:])
        answer = slow.answer()
    assert answer.status == 200, answer
    kept = answer.headers["etag"]
    [part] = s3.list_parts(Bucket=bucket, Key="m", UploadId=upload)["Parts"]
    assert part["ETag"] == kept == checksums.etag(older)
    refused("InvalidPart", 400, s3.complete_multipart_upload, Bucket=bucket, Key="m", UploadId=upload,
            MultipartUpload={"Parts": [{"PartNumber": 1, "ETag": replaced}]})
    s3.complete_multipart_upload(Bucket=bucket, Key="m", UploadId=upload, MultipartUpload={"Parts": [{"PartNumber": 1, "ETag": kept}]})
    assert read(s3, bucket, "m") == older


def test_an_upload_that_is_completed_while_a_part_is_sent_again(s3, raw, bucket, rng):
    """The object is made of what had been uploaded; whoever still sends is told that the upload is gone."""
    upload = s3.create_multipart_upload(Bucket=bucket, Key="m")["UploadId"]
    etag = s3.upload_part(Bucket=bucket, Key="m", UploadId=upload, PartNumber=1, Body=b"first")["ETag"]
    late = rng.randbytes(2 * MIB)
    head, _ = raw.build("PUT", f"/{bucket}/m", query=[("partNumber", "1"), ("uploadId", upload)], body=late)
    with Connection(raw.host, raw.port) as slow:
        slow.send(head + late[:MIB])
        s3.complete_multipart_upload(Bucket=bucket, Key="m", UploadId=upload, MultipartUpload={"Parts": [{"PartNumber": 1, "ETag": etag}]})
        slow.send(late[MIB:])
        answer = slow.answer()
    assert (answer.status, error_shape(answer)) == (404, "NoSuchUpload"), answer
    assert read(s3, bucket, "m") == b"first"


def test_a_part_named_twice(s3, raw, bucket):
    """API Reference, "CompleteMultipartUpload": part numbers ascend, so each comes once, though its ETag is right."""
    upload = s3.create_multipart_upload(Bucket=bucket, Key="m")["UploadId"]
    etag = s3.upload_part(Bucket=bucket, Key="m", UploadId=upload, PartNumber=1, Body=b"x")["ETag"]
    refused("InvalidPartOrder", 400, s3.complete_multipart_upload, Bucket=bucket, Key="m", UploadId=upload,
            MultipartUpload={"Parts": [{"PartNumber": 1, "ETag": etag}] * 2})


@pytest.mark.parametrize("size, said", [("size", "Value for x-amz-mp-object-size header is invalid: 'size'"),
                                        ("-1", "Value for x-amz-mp-object-size header is less than zero: '-1'"),
                                        ("5", "The provided 'x-amz-mp-object-size' header does not match what was computed: 1"),
                                        ("9" * 30, "The provided 'x-amz-mp-object-size' header does not match what was computed: 1")])
def test_sizes_that_are_not_the_objects(s3, raw, bucket, size, said):
    upload = s3.create_multipart_upload(Bucket=bucket, Key="m")["UploadId"]
    etag = s3.upload_part(Bucket=bucket, Key="m", UploadId=upload, PartNumber=1, Body=b"x")["ETag"]
    body = f"<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>{etag}</ETag></Part></CompleteMultipartUpload>".encode()
    answer = raw.request("POST", f"/{bucket}/m", query=[("uploadId", upload)], headers={"x-amz-mp-object-size": size}, body=body)
    assert (answer.status, error_shape(answer), answer.xml.findtext("Message")) == (400, "InvalidRequest", said), answer


def test_no_part_of_that_number(s3, raw, bucket):
    """API Reference, "GetObject": partNumber; the error is the one AWS gives: 416 with what was asked for and what there is."""
    s3.put_object(Bucket=bucket, Key="k", Body=b"12345")
    for method in ("GET", "HEAD"):
        assert raw.request(method, f"/{bucket}/k", query=[("partNumber", "2")]).status == 416
    answer = raw.request("GET", f"/{bucket}/k", query=[("partNumber", "2")])
    assert error_shape(answer) == "InvalidPartNumber", answer
    assert (answer.xml.findtext("ActualPartCount"), answer.xml.findtext("PartNumberRequested")) == ("1", "2")


@pytest.mark.parametrize("body", [b"", b"<CompleteMultipartUpload><Part><PartNumber>1</PartNumber></Part></CompleteMultipartUpload>", b"<CompleteMultipartUpload/>", b'<CompleteMultipartUpload xmlns="http://s3.amazonaws.com/doc/2006-03-01/">'
                                  b"</CompleteMultipartUpload>", b"<CompleteMultipartUpload><Part/></CompleteMultipartUpload>"])
def test_a_list_of_no_parts(s3, raw, bucket, body):
    upload = s3.create_multipart_upload(Bucket=bucket, Key="m")["UploadId"]
    answer = raw.request("POST", f"/{bucket}/m", query=[("uploadId", upload)], body=body)
    assert (answer.status, error_shape(answer)) == (400, "MalformedXML"), answer


@pytest.mark.parametrize("text", ["0-2", "bytes=0", "bytes=hello-world", "bytes=0-bar", "bytes=hello-", "bytes=0-2,3-5", "bytes=5-6", "bytes=0-5",
                                  "bytes=3-1", "bytes=-3", "bytes=2-", ""])
def test_ranges_that_cannot_be_copied(s3, raw, bucket, text):
    """API Reference, "UploadPartCopy": first and last byte, both named, both within the source."""
    s3.put_object(Bucket=bucket, Key="k", Body=b"12345")
    upload = s3.create_multipart_upload(Bucket=bucket, Key="m")["UploadId"]
    answer = raw.request("PUT", f"/{bucket}/m", query=[("partNumber", "1"), ("uploadId", upload)],
                         headers={"x-amz-copy-source": f"{bucket}/k", "x-amz-copy-source-range": text})
    assert (answer.status, error_shape(answer)) == (400, "InvalidArgument"), answer
    assert "Parts" not in s3.list_parts(Bucket=bucket, Key="m", UploadId=upload)


# ---- checksums (User Guide, "Checking object integrity") --------------------------------------------------------


@pytest.mark.parametrize("kind", checksums.KINDS)
def test_a_wrong_checksum_is_a_bad_digest(s3, raw, bucket, kind):
    name, wrong = checksums.header(kind), checksums.checksum(kind, b"other")
    answer = raw.request("PUT", f"/{bucket}/k", headers={name: wrong}, body=b"x")
    assert (answer.status, error_shape(answer)) == (400, "BadDigest"), answer
    answer = raw.request("PUT", f"/{bucket}/k", body=b"x", payload=STREAMING_UNSIGNED_TRAILER, trailers=[(name, wrong)])
    assert (answer.status, error_shape(answer)) == (400, "BadDigest"), answer
    upload = s3.create_multipart_upload(Bucket=bucket, Key="m", ChecksumAlgorithm=kind)["UploadId"]
    answer = raw.request("PUT", f"/{bucket}/m", query=[("partNumber", "1"), ("uploadId", upload)], headers={name: wrong}, body=b"x")
    assert (answer.status, error_shape(answer)) == (400, "BadDigest"), answer
    assert keys_of(s3, bucket) == [] and absent(s3, bucket, "k")


@pytest.mark.parametrize("kind, style", [("CRC32", "COMPOSITE"), ("SHA256", "COMPOSITE"), ("CRC32", "FULL_OBJECT"), ("CRC64NVME", "FULL_OBJECT")])
def test_who_tells_which_checksum(s3, bucket, kind, style):
    """The checksum of checksums ends in the number of parts, but for GetObjectAttributes, which gives it without."""
    field, parts = checksums.field(kind), [b"p" * 5 * MIB, b"end"]
    created = s3.create_multipart_upload(Bucket=bucket, Key="m", ChecksumAlgorithm=kind, ChecksumType=style)
    assert (created["ChecksumAlgorithm"], created["ChecksumType"]) == (kind, style)
    upload, named = created["UploadId"], []
    for number, part in enumerate(parts, 1):
        answer = s3.upload_part(Bucket=bucket, Key="m", UploadId=upload, PartNumber=number, Body=part, **{field: checksums.checksum(kind, part)})
        assert answer[field] == checksums.checksum(kind, part)
        assert "x-amz-checksum-type" not in answer["ResponseMetadata"]["HTTPHeaders"]
        named.append({"PartNumber": number, "ETag": answer["ETag"], field: answer[field]})
    listed = s3.list_parts(Bucket=bucket, Key="m", UploadId=upload)
    assert (listed["ChecksumAlgorithm"], listed["ChecksumType"]) == (kind, style)
    assert [part[field] for part in listed["Parts"]] == [checksums.checksum(kind, part) for part in parts]
    want = checksums.composite(kind, parts) if style == "COMPOSITE" else checksums.checksum(kind, b"".join(parts))
    done = s3.complete_multipart_upload(Bucket=bucket, Key="m", UploadId=upload, MultipartUpload={"Parts": named})
    head = s3.head_object(Bucket=bucket, Key="m", ChecksumMode="ENABLED")
    assert (done[field], done["ChecksumType"]) == (head[field], head["ChecksumType"]) == (want, style)
    told = s3.get_object_attributes(Bucket=bucket, Key="m", ObjectAttributes=["Checksum", "ObjectParts"])
    assert told["Checksum"] == {field: want.split("-")[0], "ChecksumType": style}
    assert [part[field] for part in told["ObjectParts"]["Parts"]] == [checksums.checksum(kind, part) for part in parts]


def test_a_part_tells_no_checksum_that_nobody_named(s3, raw, bucket):
    upload = raw.request("POST", f"/{bucket}/m", query=[("uploads", "")]).xml.findtext("UploadId")
    query = [("partNumber", "1"), ("uploadId", upload)]
    answer = raw.request("PUT", f"/{bucket}/m", query=query, body=b"x")
    assert answer.status == 200 and not [name for name in answer.headers if name.startswith("x-amz-checksum")], answer
    answer = raw.request("PUT", f"/{bucket}/m", query=query, body=b"x", headers={checksums.header("SHA1"): checksums.checksum("SHA1", b"x")})
    assert answer.headers[checksums.header("SHA1")] == checksums.checksum("SHA1", b"x"), answer


# ---- metadata (User Guide, "Working with object metadata") ------------------------------------------------------


def decoded(text):
    return "".join(word.decode(charset or "ascii") if isinstance(word, bytes) else word for word, charset in email.header.decode_header(text))


@pytest.mark.parametrize("value", ["Grüße", "日本語", "a=b?c_d é", "é" * 400, "plain " * 20 + "ü", "🎈" * 50, "ü\tü", "a" * 200 + "é"])
def test_metadata_beyond_ascii_comes_back_as_words(s3, raw, bucket, value):
    """RFC 2047: words of at most 75 characters, of whole characters each."""
    assert raw.request("PUT", f"/{bucket}/k", headers={"x-amz-meta-name": value}, body=b"x").status == 200
    s3.copy_object(Bucket=bucket, Key="copy", CopySource={"Bucket": bucket, "Key": "k"})
    for method, key in (("HEAD", "k"), ("GET", "k"), ("HEAD", "copy")):
        text = raw.request(method, f"/{bucket}/{key}").headers["x-amz-meta-name"]
        assert text.isascii() and decoded(text) == value, text
        for word in text.split(" "):
            assert word.startswith("=?UTF-8?") and word.endswith("?=") and len(word) <= 75, word
            if word.startswith("=?UTF-8?B?"):
                base64.b64decode(word[10:-2], validate=True).decode()


@pytest.mark.parametrize("value", ["plain", "=?UTF-8?B?w7Y=?=", "=?", "a\tb", "100% = 1?"])
def test_metadata_in_ascii_stays_as_it_is(raw, bucket, value):
    assert raw.request("PUT", f"/{bucket}/k", headers={"x-amz-meta-name": value}, body=b"x").status == 200
    assert raw.request("HEAD", f"/{bucket}/k").headers["x-amz-meta-name"] == value


def test_metadata_without_a_name_is_only_counted(s3, raw, bucket):
    """API Reference, "HeadObject": x-amz-missing-meta."""
    assert raw.request("PUT", f"/{bucket}/k", headers={"x-amz-meta-": "lost", "x-amz-meta-name": "kept"}, body=b"x").status == 200
    s3.copy_object(Bucket=bucket, Key="copy", CopySource={"Bucket": bucket, "Key": "k"})
    for method, key in (("HEAD", "k"), ("GET", "k"), ("HEAD", "copy")):
        answer = raw.request(method, f"/{bucket}/{key}")
        assert {name: value for name, value in answer.headers.items() if "meta" in name} == {"x-amz-meta-name": "kept", "x-amz-missing-meta": "1"}
    head = s3.head_object(Bucket=bucket, Key="k")
    assert (head["Metadata"], head["MissingMeta"]) == ({"name": "kept"}, 1)
    s3.put_object(Bucket=bucket, Key="k", Body=b"", Metadata={"name": "kept"})
    assert "MissingMeta" not in s3.head_object(Bucket=bucket, Key="k")


@pytest.mark.parametrize("sent, kept", [("gzip, deflate", "gzip, deflate"), ("gzip,deflate", "gzip,deflate"), ("deflate , gzip", "deflate , gzip"),
                                        ("aws-chunked", None), ("aws-chunked, aws-chunked", None), ("aws-chunked, gzip", "gzip"),
                                        ("gzip, aws-chunked", "gzip"), ("gzip, aws-chunked, br", "gzip, br")])
def test_content_encoding_is_kept_as_sent(raw, bucket, sent, kept):
    """User Guide, "Signature calculations ... multiple chunks": aws-chunked is not stored. The rest is the client's text."""
    assert raw.request("PUT", f"/{bucket}/k", headers={"content-encoding": sent}, body=b"x").status == 200
    assert raw.request("HEAD", f"/{bucket}/k").headers.get("content-encoding") == kept


# ---- listings (API Reference, "ListObjectsV2", "ListBuckets") ---------------------------------------------------


def test_spaces_and_pluses_in_encoded_listings(s3, raw, bucket):
    """A space is a plus, a plus is %2B, in every field that is encoded."""
    s3.put_object(Bucket=bucket, Key="a b+c d", Body=b"")
    s3.put_object(Bucket=bucket, Key="a b+e/f g", Body=b"")
    url = ("encoding-type", "url")
    for query in ([("list-type", "2"), ("start-after", "a +")], [("marker", "a +")], [("versions", ""), ("key-marker", "a +")]):
        answer = raw.request("GET", f"/{bucket}", query=[url, ("prefix", "a b+"), ("delimiter", "/"), *query])
        texts = {element.tag: element.text for element in answer.xml.iter()}
        assert texts["Key"] == "a+b%2Bc+d" and texts["Prefix"] == "a+b%2Be/", answer
        assert answer.xml.findtext("Prefix") == "a+b%2B"
        assert (texts.get("StartAfter") or texts.get("Marker") or texts.get("KeyMarker")) == "a+%2B", answer
    answer = raw.request("GET", f"/{bucket}", query=[url, ("max-keys", "1"), ("delimiter", " ")])
    assert (answer.xml.findtext("Delimiter"), answer.xml.findtext("CommonPrefixes/Prefix")) == ("+", "a+"), answer
    s3.create_multipart_upload(Bucket=bucket, Key="up +")
    answer = raw.request("GET", f"/{bucket}", query=[url, ("uploads", ""), ("key-marker", "a +"), ("prefix", "up ")])
    assert [answer.xml.findtext(path) for path in ("Upload/Key", "KeyMarker", "Prefix")] == ["up+%2B", "a+%2B", "up+"], answer


def test_a_token_of_no_length(raw, bucket):
    """In a listing of objects it is none that was given out; in one of buckets it may be empty, and begins at the beginning."""
    answer = raw.request("GET", f"/{bucket}", query=[("list-type", "2"), ("continuation-token", "")])
    assert (answer.status, error_shape(answer)) == (400, "InvalidArgument"), answer
    assert (answer.xml.findtext("ArgumentName"), answer.xml.find("ArgumentValue")) == ("continuation-token", None)
    answer = raw.request("GET", "/", query=[("continuation-token", ""), ("prefix", bucket)])
    assert answer.status == 200 and [e.text for e in answer.xml.iter("Name")] == [bucket], answer


def test_listings_tell_the_region(s3, raw, bucket):
    """Undocumented; AWS sends it with ListObjects and ListObjectsV2, refused ones included."""
    for query in ([], [("list-type", "2")], [("encoding-type", "html")]):
        assert raw.request("GET", f"/{bucket}", query=query).headers.get("x-amz-bucket-region") == "us-east-1"


def test_the_region_is_told_to_whoever_asks(raw, bucket):
    """API Reference, "GetBucketLocation": HeadBucket always returns it, whether access is authorized or not. It does not tell whether a
    bucket is there."""
    for how in ({"anonymous": True}, {"signer": raw.signer(secret_key="wrong")}, {"signer": raw.signer(access_key="NOBODY")}):
        for name in (bucket, f"{bucket}-not"):
            answer = raw.request("HEAD", f"/{name}", **how)
            assert (answer.status, answer.headers.get("x-amz-bucket-region")) == (403, "us-east-1"), (how, answer)


def test_buckets_of_a_region(raw, bucket):
    def names(region):
        answer = raw.request("GET", "/", query=[("bucket-region", region), ("prefix", bucket)])
        return [e.text for e in answer.xml.iter("Name")] if answer.status == 200 else (answer.status, error_shape(answer))

    assert names("us-east-1") == names("") == [bucket]
    assert names("eu-central-1") == []
    assert names("nowhere-1") == (400, "InvalidArgument")


# ---- names and places of buckets (User Guide, "Bucket naming rules"; API Reference, "CreateBucket", "Error responses") --


@pytest.mark.parametrize("name", ["a.-b", "a-.b", "foo.-bar", "foo-.bar", "a.b.-c", "foo..bar"])
def test_labels_begin_and_end_with_a_letter_or_digit(s3, raw, name):
    answer = raw.request("PUT", f"/{name}")
    assert (answer.status, error_shape(answer)) == (400, "InvalidBucketName"), answer
    assert name not in [entry["Name"] for entry in s3.list_buckets()["Buckets"]]


@pytest.mark.parametrize("name", ["192.168.5.4", "999.0.0.1", "xn--b", "sthree-b", "sthree-configurator", "amzn-s3-demo-b", "b-s3alias", "b--ol-s3",
                                  "b.mrap", "b--x-s3", "b--table-s3", "-b1", "b1-", ".b1", "b1.", "b_1", "Bcd", "ab", "a" * 64])
def test_names_that_are_reserved_or_malformed(raw, name):
    answer = raw.request("PUT", f"/{name}")
    assert (answer.status, error_shape(answer)) == (400, "InvalidBucketName"), answer


@pytest.mark.parametrize("region, code", [("us-west-2", "IllegalLocationConstraintException"), ("eu-west-1", "IllegalLocationConstraintException"),
                                          ("EU", "IllegalLocationConstraintException"), ("nowhere", "InvalidLocationConstraint"),
                                          ("", "InvalidLocationConstraint"), (" ", "InvalidLocationConstraint")])
def test_buckets_elsewhere(raw, region, code):
    answer = raw.request("PUT", "/elsewhere", body=DOCUMENT.format(region).encode())
    assert (answer.status, error_shape(answer)) == (400, code), answer
    assert answer.xml.findtext("LocationConstraint") == (region.strip() if code == "InvalidLocationConstraint" else None)
    assert raw.request("HEAD", "/elsewhere").status == 404


# ---- presigned URLs (User Guide, "Authenticating requests: using query parameters") -----------------------------


def test_a_presigned_url_that_has_expired(s3, raw, bucket):
    s3.put_object(Bucket=bucket, Key="k", Body=b"x")
    answer = raw.plain("GET", raw.presign("GET", f"/{bucket}/k", expires=60, signer=raw.signer(offset_s=-3600)))
    assert (answer.status, error_shape(answer), answer.xml.findtext("Message")) == (403, "AccessDenied", "Request has expired"), answer
    assert answer.xml.findtext("X-Amz-Expires") == "60" and answer.xml.findtext("Expires") and answer.xml.findtext("ServerTime")
