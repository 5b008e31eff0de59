"""ListObjects, ListObjectsV2 and ListObjectVersions, against a sorted list in memory with the same rules."""
import concurrent.futures
import urllib.parse

import pytest

from tests.conftest import both_layouts
from tests.support import checksums
from tests.support.expect import headers_of, keys_of, refused


def order(key):
    return key.encode()


def model(keys, prefix="", delimiter="", after="", limit=1000):
    """What a listing gives: ([('key' or 'prefix', text)], truncated). What lies under a common prefix at or before `after` is gone."""
    entries, seen = [], set()
    for key in sorted(keys, key=order):
        if not key.startswith(prefix):
            continue
        entry = ("key", key)
        if delimiter and delimiter in key[len(prefix):]:
            common = prefix + key[len(prefix):].split(delimiter, 1)[0] + delimiter
            if common in seen or order(common) <= order(after):
                continue
            seen.add(common)
            entry = ("prefix", common)
        elif order(key) <= order(after):
            continue
        entries.append(entry)
    return entries[:limit], len(entries) > limit


def entries_of(answer, key_list="Contents"):
    found = [("key", e["Key"]) for e in answer.get(key_list, [])] + [("prefix", p["Prefix"]) for p in answer.get("CommonPrefixes", [])]
    return sorted(found, key=lambda e: order(e[1]))


def fill(s3, bucket, keys):
    with concurrent.futures.ThreadPoolExecutor(8) as workers:
        for result in [workers.submit(s3.put_object, Bucket=bucket, Key=key, Body=key.encode()[:20]) for key in keys]:
            result.result()


def random_keys(rng, count):
    """Keys that share prefixes, some up to the longest allowed, with every sort of character."""
    long_prefixes = ["p" * n for n in (255, 500, 510, 511, 512, 900, 1015)] + ["日/" * 127, "dir/" * 125, "q" * 511 + "/" + "r" * 490]
    alphabet = ["a", "b", "c", "/", "//", "-", ".", " ", "+", "%", "é", "日", "😀", "\x01", "~", "A", "0", "\uffff"]
    keys = set()
    while len(keys) < count:
        base = rng.choice(long_prefixes) if rng.random() < 0.35 else ""
        tail = "".join(rng.choice(alphabet) for _ in range(rng.randint(1, 8)))
        key = base + tail
        if len(key.encode()) <= 1024:
            keys.add(key)
    return sorted(keys, key=order)


def pages_v2(s3, bucket, **arguments):
    entries, token = [], None
    while True:
        page = s3.list_objects_v2(Bucket=bucket, **arguments, **({"ContinuationToken": token} if token else {}))
        got = entries_of(page)
        assert page["KeyCount"] == len(got) <= arguments.get("MaxKeys", 1000)
        entries += got
        token = page.get("NextContinuationToken")
        assert page["IsTruncated"] == bool(token)
        if not token:
            return entries


def pages_v1(s3, bucket, **arguments):
    entries, marker = [], None
    while True:
        page = s3.list_objects(Bucket=bucket, **arguments, **({"Marker": marker} if marker else {}))
        got = entries_of(page)
        entries += got
        if not page["IsTruncated"]:
            assert "NextMarker" not in page
            return entries
        if arguments.get("Delimiter"):
            marker = page["NextMarker"]
            assert marker == got[-1][1]
        else:
            marker = got[-1][1]


def pages_versions(s3, bucket, **arguments):
    entries, markers = [], {}
    while True:
        page = s3.list_object_versions(Bucket=bucket, **arguments, **markers)
        got = entries_of(page, "Versions")
        assert all(v["VersionId"] == "null" and v["IsLatest"] for v in page.get("Versions", []))
        entries += got
        if not page["IsTruncated"]:
            return entries
        markers = {"KeyMarker": page["NextKeyMarker"]}
        if page.get("NextVersionIdMarker"):
            markers["VersionIdMarker"] = page["NextVersionIdMarker"]


@pytest.mark.slow
@both_layouts
def test_against_the_model(s3, bucket, rng):
    keys = random_keys(rng, 500)
    fill(s3, bucket, keys)
    for key in rng.sample(keys, 60):  # deleted ones must be gone from every listing
        s3.delete_object(Bucket=bucket, Key=key)
        keys.remove(key)
    prefixes = ["", "p", "p" * 255, "p" * 511, "p" * 512 + "a", "a", "a/", "/", "//", "dir/", "dir/" * 125, "日/" * 100, "zz", "q" * 511 + "/"]
    delimiters = ["", "/", "//", "a", "dir/", "日", "p"]
    for number in range(70):
        prefix, delimiter = rng.choice(prefixes), rng.choice(delimiters)
        size = rng.choice([1, 2, 3, 7, 50, 1000])
        want, _ = model(keys, prefix, delimiter, limit=1 << 30)
        if len(want) > 60 * size:
            size = 50
        arguments = {"Prefix": prefix, "Delimiter": delimiter, "MaxKeys": size}
        lister = (pages_v2, pages_v1, pages_versions)[number % 3]
        got = lister(s3, bucket, **arguments)
        assert got == want, (lister.__name__, prefix[-20:], delimiter, size)
    for _ in range(30):
        after = rng.choice(keys)
        after = rng.choice([after, after[:-1], after + "\x01", after[:rng.randint(0, len(after))]])
        for delimiter in ("", "/"):
            arguments = {"Delimiter": delimiter} if delimiter else {}
            want = model(keys, "", delimiter, after, 1000)[0]
            assert entries_of(s3.list_objects(Bucket=bucket, Marker=after, **arguments)) == want, (after, delimiter)
            if not delimiter and after:
                assert entries_of(s3.list_objects_v2(Bucket=bucket, StartAfter=after)) == want, after


@pytest.mark.smoke
def test_what_an_entry_tells(s3, bucket):
    s3.put_object(Bucket=bucket, Key="k", Body=b"1234")
    s3.put_object(Bucket=bucket, Key="sum", Body=b"1234", ChecksumAlgorithm="SHA256")
    page = s3.list_objects_v2(Bucket=bucket, FetchOwner=True)
    entry = page["Contents"][0]
    head = s3.head_object(Bucket=bucket, Key="k")
    assert (entry["Size"], entry["ETag"], entry["StorageClass"]) == (4, checksums.etag(b"1234"), "STANDARD")
    assert entry["LastModified"].replace(microsecond=0) == head["LastModified"]
    assert entry["Owner"]["ID"]
    assert page["Contents"][1]["ChecksumAlgorithm"] == ["SHA256"]
    assert "Owner" not in s3.list_objects_v2(Bucket=bucket)["Contents"][0]
    assert s3.list_objects(Bucket=bucket)["Contents"][0]["Owner"]["ID"]
    assert headers_of(page)["content-type"].startswith("application/xml")
    version = s3.list_object_versions(Bucket=bucket)["Versions"][0]
    assert version["VersionId"] == "null" and version["IsLatest"] is True and version["Size"] == 4


def test_echoes(s3, bucket):
    fill(s3, bucket, ["a/1", "a/2", "b"])
    page = s3.list_objects_v2(Bucket=bucket, Prefix="a", Delimiter="/", MaxKeys=7, StartAfter="A", EncodingType="url")
    assert (page["Name"], page["Prefix"], page["Delimiter"], page["MaxKeys"], page["StartAfter"]) == (bucket, "a", "/", 7, "A")
    page = s3.list_objects(Bucket=bucket, Prefix="a", Delimiter="/", MaxKeys=7, Marker="A")
    assert (page["Name"], page["Prefix"], page["Delimiter"], page["MaxKeys"], page["Marker"]) == (bucket, "a", "/", 7, "A")
    page = s3.list_objects_v2(Bucket=bucket, MaxKeys=1)
    again = s3.list_objects_v2(Bucket=bucket, ContinuationToken=page["NextContinuationToken"], StartAfter="ignored then")
    assert [e["Key"] for e in again["Contents"]] == ["a/2", "b"]
    assert again["ContinuationToken"] == page["NextContinuationToken"]


def test_max_keys(s3, raw, bucket):
    fill(s3, bucket, [f"{i:04}" for i in range(1105)])
    assert s3.list_objects_v2(Bucket=bucket, MaxKeys=0)["KeyCount"] == 0
    assert s3.list_objects_v2(Bucket=bucket, MaxKeys=0)["IsTruncated"] is False
    assert s3.list_objects_v2(Bucket=bucket)["KeyCount"] == 1000
    for asked in (1001, 5000, 2147483647):
        page = s3.list_objects_v2(Bucket=bucket, MaxKeys=asked)
        assert page["KeyCount"] == 1000 and page["MaxKeys"] == 1000 and page["IsTruncated"]
    assert len(s3.list_objects(Bucket=bucket)["Contents"]) == 1000
    assert keys_of(s3, bucket) == [f"{i:04}" for i in range(1105)]
    for bad in ("-1", "x", "1.5", "99999999999999999999"):
        for kind in ([("list-type", "2")], []):
            answer = raw.request("GET", f"/{bucket}", query=[*kind, ("max-keys", bad)])
            assert (answer.status, answer.code) == (400, "InvalidArgument"), (bad, answer)


@pytest.mark.parametrize("query", [[("list-type", "2"), ("encoding-type", "base64")], [("encoding-type", "x")], [("list-type", "3")],
                                   [("list-type", "2"), ("continuation-token", "garbage!")],
                                   [("list-type", "2"), ("continuation-token", "")], [("list-type", "2"), ("prefix", "p" * 1025)]])
def test_bad_arguments(raw, bucket, query):
    answer = raw.request("GET", f"/{bucket}", query=query)
    if query[-1][0] == "prefix":
        assert answer.status in (200, 400), answer
    else:
        assert (answer.status, answer.code) == (400, "InvalidArgument"), answer


def test_a_token_is_not_taken_apart(s3, raw, bucket):
    """Altered tokens are refused or treated as a place in the order; never a crash or another bucket's keys."""
    fill(s3, bucket, ["a", "b", "c"])
    token = s3.list_objects_v2(Bucket=bucket, MaxKeys=1)["NextContinuationToken"]
    for i in range(len(token)):
        bent = token[:i] + ("A" if token[i] != "A" else "B") + token[i + 1:]
        answer = raw.request("GET", f"/{bucket}", query=[("list-type", "2"), ("continuation-token", bent)])
        assert answer.status in (200, 400), (bent, answer)


def test_encoding_type_url(s3, raw, bucket):
    keys = ["a b+c", "d/e\x01f", "é%/x&y", "<&>\"'", "new\nline", "日本/"]
    fill(s3, bucket, keys)
    for kind in ([("list-type", "2")], []):
        answer = raw.request("GET", f"/{bucket}", query=[*kind, ("encoding-type", "url")])
        got = [urllib.parse.unquote_plus(e.findtext("Key")) for e in answer.xml.findall("Contents")]
        assert got == sorted(keys, key=order)
        assert answer.xml.findtext("EncodingType") == "url"
        answer = raw.request("GET", f"/{bucket}", query=[*kind, ("encoding-type", "url"), ("delimiter", "%/"), ("prefix", "é")])
        assert urllib.parse.unquote_plus(answer.xml.findtext("CommonPrefixes/Prefix")) == "é%/"
        assert urllib.parse.unquote_plus(answer.xml.findtext("Delimiter")) == "%/"
        assert urllib.parse.unquote_plus(answer.xml.findtext("Prefix")) == "é"


def test_plain_xml_is_escaped(s3, raw, bucket):
    keys = ["a&b", "<c>", "d\"e'f", "g]]>h", "i\tj", "k\nl", "m\rn"]
    fill(s3, bucket, keys)
    answer = raw.request("GET", f"/{bucket}", query=[("list-type", "2")])
    assert [e.findtext("Key") for e in answer.xml.findall("Contents")] == sorted(keys, key=order)


def test_listing_of_a_bucket_with_slash(s3, raw, bucket):
    """'/bucket/' is the bucket too."""
    fill(s3, bucket, ["k"])
    answer = raw.request("GET", f"/{bucket}/", query=[("list-type", "2")])
    assert answer.xml.tag == "ListBucketResult" and answer.xml.findtext("Contents/Key") == "k"


def test_list_while_writing(s3, bucket):
    """Keys that were there before a listing began and stay are in it, in order, once; whatever is written beside them."""
    steady = [f"s{i:03}" for i in range(0, 300)]
    fill(s3, bucket, steady)
    stop = False

    def churn(n):
        i = 0
        while not stop:
            s3.put_object(Bucket=bucket, Key=f"s{i % 300:03}-{n}", Body=b"x")
            s3.delete_object(Bucket=bucket, Key=f"s{i % 300:03}-{n}")
            i += 1

    with concurrent.futures.ThreadPoolExecutor(3) as workers:
        running = [workers.submit(churn, n) for n in range(3)]
        try:
            for _ in range(15):
                seen = [key for _, key in pages_v2(s3, bucket, MaxKeys=37)]
                assert seen == sorted(set(seen), key=order)
                assert [k for k in seen if len(k) == 4] == steady
        finally:
            stop = True
        for worker in running:
            worker.result()


def test_version_markers(s3, raw, bucket):
    fill(s3, bucket, ["a", "b", "c"])
    page = s3.list_object_versions(Bucket=bucket, MaxKeys=1)
    assert page["NextKeyMarker"] == "a" and page["NextVersionIdMarker"] == "null"
    answer = raw.request("GET", f"/{bucket}", query=[("versions", ""), ("version-id-marker", "null")])
    assert (answer.status, answer.code) == (400, "InvalidArgument"), answer


def test_no_such_bucket(s3):
    for call in (s3.list_objects, s3.list_objects_v2, s3.list_object_versions, s3.list_multipart_uploads):
        refused("NoSuchBucket", 404, call, Bucket="no-such-bucket-here")
