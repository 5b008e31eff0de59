"""Edges of S3 that clients meet now and then: odd heads, odd names in listings, copies and parts at their borders, each as AWS documents it."""
import threading

import pytest

from tests.support import checksums
from tests.support.expect import absent, keys_of, read, refused

MIB = 1 << 20
COPYABLE = [" ", "_", "__", "?versionId", "a" * 1024, "%2F", "x=y&z"]


# ---- heads ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("length", ["-1", "", "+1", "1 2", "0x1", "1,1", "99999999999999999999"])
def test_lengths_that_are_none(raw, s3, bucket, length):
    head, _ = raw.build("PUT", f"/{bucket}/k", body=b"x")
    answer = raw.send("PUT", head.replace(b"content-length: 1\r\n", f"content-length: {length}\r\n".encode()), b"x")
    assert answer.status in (400, 411, 413), answer
    assert absent(s3, bucket, "k")


def test_an_authorization_that_says_nothing_is_none(raw, bucket):
    for value in ("", "   "):
        answer = raw.plain("GET", f"/{bucket}", headers={"Authorization": value})
        assert (answer.status, answer.code) == (403, "AccessDenied"), answer


def test_a_date_beside_x_amz_date_counts_for_nothing(raw, bucket):
    for value in ("no date", "", "Tue, 07 Jul 2009 21:53:04 GMT", "Tue, 07 Jul 2037 21:53:04 GMT"):
        assert raw.request("PUT", f"/{bucket}/k", headers={"Date": value}, body=b"x").status == 200, value


# ---- listings ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("delimiter, keys, prefixes, rest", [
    ("a", ["bar", "baz", "cab", "foo"], ["ba", "ca"], ["foo"]), ("%", ["b%ar", "b%az", "c%ab", "foo"], ["b%", "c%"], ["foo"]),
    (" ", ["b ar", "b az", "c ab", "foo"], ["b ", "c "], ["foo"]), (".", ["b.ar", "b.az", "c.ab", "foo"], ["b.", "c."], ["foo"]),
    ("\n", ["bar", "foo"], [], ["bar", "foo"]), ("", ["a/b", "foo"], [], ["a/b", "foo"]), ("+", ["a+b", "a b"], ["a+"], ["a b"]),
])
def test_delimiters(s3, bucket, delimiter, keys, prefixes, rest):
    for key in keys:
        s3.put_object(Bucket=bucket, Key=key, Body=b"")
    for call in (s3.list_objects, s3.list_objects_v2, s3.list_object_versions):
        page = call(Bucket=bucket, Delimiter=delimiter)
        assert [p["Prefix"] for p in page.get("CommonPrefixes", [])] == prefixes, call
        assert [o["Key"] for o in page.get("Contents", page.get("Versions", []))] == rest, call
        assert page.get("Delimiter", "") == delimiter, call
        assert page["IsTruncated"] is False


def test_places_that_no_key_has(s3, bucket):
    for key in ("bar", "baz", "foo", "quxx"):
        s3.put_object(Bucket=bucket, Key=key, Body=b"")
    for after, want in (("blah", ["foo", "quxx"]), ("zzz", []), ("\n", ["bar", "baz", "foo", "quxx"]), ("", ["bar", "baz", "foo", "quxx"])):
        page = s3.list_objects(Bucket=bucket, Marker=after)
        assert [o["Key"] for o in page.get("Contents", [])] == want and page["Marker"] == after and not page["IsTruncated"]
        page = s3.list_objects_v2(Bucket=bucket, StartAfter=after)
        assert [o["Key"] for o in page.get("Contents", [])] == want and page["KeyCount"] == len(want)
    page = s3.list_objects_v2(Bucket=bucket, Prefix="\n")
    assert page["Prefix"] == "\n" and page["KeyCount"] == 0
    page = s3.list_objects(Bucket=bucket, Prefix="ba", Delimiter="d")
    assert [o["Key"] for o in page["Contents"]] == ["bar", "baz"] and "CommonPrefixes" not in page


def test_max_keys_without_a_value(raw, s3, bucket):
    s3.put_object(Bucket=bucket, Key="k", Body=b"")
    answer = raw.request("GET", f"/{bucket}", query=[("max-keys", "")])
    assert answer.status == 200 and answer.xml.findtext("MaxKeys") == "1000", answer


def test_a_page_that_ends_with_a_prefix(s3, bucket):
    for key in ("a/1", "a/2", "b/1", "c"):
        s3.put_object(Bucket=bucket, Key=key, Body=b"")
    page = s3.list_objects(Bucket=bucket, Delimiter="/", MaxKeys=1)
    assert [p["Prefix"] for p in page["CommonPrefixes"]] == ["a/"] and page["NextMarker"] == "a/" and page["IsTruncated"]
    page = s3.list_objects(Bucket=bucket, Delimiter="/", MaxKeys=1, Marker="a/")
    assert [p["Prefix"] for p in page["CommonPrefixes"]] == ["b/"] and "Contents" not in page
    assert "NextMarker" not in s3.list_objects(Bucket=bucket, MaxKeys=1)  # only where there is a delimiter


# ---- copies -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", COPYABLE)
def test_copy_from_and_to_odd_names(s3, bucket, name):
    s3.put_object(Bucket=bucket, Key=name, Body=b"x", ContentType="text/x", Metadata={"a": "b"})
    s3.copy_object(Bucket=bucket, Key="to", CopySource={"Bucket": bucket, "Key": name})
    head = s3.head_object(Bucket=bucket, Key="to")
    assert (head["ContentType"], head["Metadata"]) == ("text/x", {"a": "b"})
    s3.copy_object(Bucket=bucket, Key=name, CopySource={"Bucket": bucket, "Key": "to"}, MetadataDirective="REPLACE")
    head = s3.head_object(Bucket=bucket, Key=name)
    assert (head["ContentType"], head["Metadata"]) == ("binary/octet-stream", {})


def test_copy_of_nothing_and_of_much(s3, bucket, rng):
    for size in (0, 16 * MIB):
        data = rng.randbytes(size)
        s3.put_object(Bucket=bucket, Key="from", Body=data)
        answer = s3.copy_object(Bucket=bucket, Key="to", CopySource={"Bucket": bucket, "Key": "from"})
        assert answer["CopyObjectResult"]["ETag"] == checksums.etag(data)
        assert read(s3, bucket, "to") == data


def test_replacing_metadata_in_place(s3, bucket, rng):
    """The bytes stay where they are; a multipart object keeps its ETag and its parts."""
    parts = [rng.randbytes(5 * MIB), b"end"]
    upload = s3.create_multipart_upload(Bucket=bucket, Key="m")["UploadId"]
    done = [{"PartNumber": n, "ETag": s3.upload_part(Bucket=bucket, Key="m", UploadId=upload, PartNumber=n, Body=p)["ETag"]}
            for n, p in enumerate(parts, 1)]
    whole = s3.complete_multipart_upload(Bucket=bucket, Key="m", UploadId=upload, MultipartUpload={"Parts": done})["ETag"]
    answer = s3.copy_object(Bucket=bucket, Key="m", CopySource={"Bucket": bucket, "Key": "m"}, MetadataDirective="REPLACE",
                            Metadata={"n": "1"}, ContentType="a/b")
    assert answer["CopyObjectResult"]["ETag"] == whole
    head = s3.head_object(Bucket=bucket, Key="m", PartNumber=2)
    assert (head["ContentLength"], head["PartsCount"], head["ETag"], head["Metadata"]) == (3, 2, whole, {"n": "1"})
    assert read(s3, bucket, "m") == b"".join(parts)


# ---- parts ------------------------------------------------------------------------------------------------


def test_a_part_sent_twice_at_once(s3, bucket, rng):
    """The part that is whole last counts, and Complete tells it by its ETag."""
    data = [rng.randbytes(5 * MIB), rng.randbytes(5 * MIB)]
    upload = s3.create_multipart_upload(Bucket=bucket, Key="m")["UploadId"]
    etags = {}

    def send(n):
        etags[n] = s3.upload_part(Bucket=bucket, Key="m", UploadId=upload, PartNumber=1, Body=data[n])["ETag"]

    threads = [threading.Thread(target=send, args=(n,)) for n in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    [part] = s3.list_parts(Bucket=bucket, Key="m", UploadId=upload)["Parts"]
    assert part["ETag"] in etags.values()
    loser = next(etag for etag in etags.values() if etag != part["ETag"])
    refused("InvalidPart", 400, s3.complete_multipart_upload, Bucket=bucket, Key="m", UploadId=upload,
            MultipartUpload={"Parts": [{"PartNumber": 1, "ETag": loser}]})
    s3.complete_multipart_upload(Bucket=bucket, Key="m", UploadId=upload, MultipartUpload={"Parts": [{"PartNumber": 1, "ETag": part["ETag"]}]})
    assert checksums.etag(read(s3, bucket, "m")) == part["ETag"]


def test_a_copied_part_tells_only_the_checksum_that_was_asked_for(s3, bucket):
    s3.put_object(Bucket=bucket, Key="from", Body=b"x", ChecksumAlgorithm="SHA1")
    for arguments, want in (({}, {}), ({"ChecksumAlgorithm": "SHA256"}, {"ChecksumSHA256": checksums.checksum("SHA256", b"x")})):
        upload = s3.create_multipart_upload(Bucket=bucket, Key="m", **arguments)["UploadId"]
        result = s3.upload_part_copy(Bucket=bucket, Key="m", UploadId=upload, PartNumber=1,
                                     CopySource={"Bucket": bucket, "Key": "from"})["CopyPartResult"]
        assert {name: value for name, value in result.items() if name.startswith("Checksum")} == want


def test_checksums_that_complete_cannot_name(raw, s3, bucket):
    upload = s3.create_multipart_upload(Bucket=bucket, Key="m", ChecksumAlgorithm="CRC32C", ChecksumType="FULL_OBJECT")["UploadId"]
    etag = s3.upload_part(Bucket=bucket, Key="m", UploadId=upload, PartNumber=1, Body=b"x", ChecksumAlgorithm="CRC32C")["ETag"]
    own, other = checksums.checksum("CRC32C", b"x"), checksums.checksum("SHA256", b"x")

    def complete(part=None, **headers):
        document = f"<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>{etag}</ETag>{part or ''}</Part></CompleteMultipartUpload>"
        return raw.request("POST", f"/{bucket}/m", query=[("uploadId", upload)], body=document.encode(), headers=headers)

    for answer, code, said in (
            (complete(f"<ChecksumSHA256>{other}</ChecksumSHA256>"), "BadDigest", "The sha256 you specified for part 1"),
            (complete(f"<ChecksumCRC32C>{checksums.checksum('CRC32C', b'y')}</ChecksumCRC32C>"), "InvalidPart", "One or more"),
            (complete(**{"x-amz-checksum-crc32c": own, "x-amz-checksum-sha256": other}), "InvalidRequest", "Multiple checksum"),
            (complete(**{"x-amz-mp-object-size": "-1"}), "InvalidRequest", "less than zero: '-1'")):
        assert (answer.status, answer.code) == (400, code) and said in answer.xml.findtext("Message"), answer
    assert absent(s3, bucket, "m")
    answer = complete(f"<ChecksumCRC32C>{own}</ChecksumCRC32C>", **{"x-amz-checksum-crc32c": own})
    assert answer.status == 200 and answer.xml.findtext("ChecksumCRC32C") == own, answer


# ---- conditions and atomicity -----------------------------------------------------------------------------


def test_a_reader_keeps_what_it_began_with(s3, bucket, rng):
    """An object that is overwritten or deleted while it is read is read to its end as it was."""
    old, new = rng.randbytes(8 * MIB), rng.randbytes(8 * MIB)
    for change in ("overwrite", "delete"):
        s3.put_object(Bucket=bucket, Key="k", Body=old)
        body = s3.get_object(Bucket=bucket, Key="k")["Body"]
        first = body.read(MIB)
        if change == "overwrite":
            s3.put_object(Bucket=bucket, Key="k", Body=new)
            assert read(s3, bucket, "k") == new
        else:
            s3.delete_object(Bucket=bucket, Key="k")
            assert keys_of(s3, bucket) == []
        assert first + body.read() == old, change


def test_a_condition_that_is_not_there_is_named(raw, s3, bucket):
    for headers in ({"If-None-Match": '"abc"'}, {"If-None-Match": "*", "If-Match": "*"}):
        answer = raw.request("PUT", f"/{bucket}/k", headers=headers, body=b"x")
        assert (answer.status, answer.code, answer.xml.findtext("Header")) == (501, "NotImplemented", "If-None-Match"), answer
    assert absent(s3, bucket, "k")


# ---- buckets ----------------------------------------------------------------------------------------------


def test_the_arn_of_a_bucket(raw, s3, bucket):
    assert s3.head_bucket(Bucket=bucket)["BucketArn"] == f"arn:aws:s3:::{bucket}"
    assert raw.request("PUT", f"/{bucket}").headers["x-amz-bucket-arn"] == f"arn:aws:s3:::{bucket}"
