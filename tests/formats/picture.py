"""All that a store answers to clients, as a value that can be kept in JSON and compared.

A picture is {bucket: {"listing": {key: {"size", "etag", "modified"}}, "objects": {key: {"sha256", "headers", "attributes", "parts"}}, "uploads": [...]}}. Keys
that begin with FILLER stand in the listing alone: they are there for their number.
"""
import re

from botocore.exceptions import ClientError

from tests.formats.content import sha256

FILLER = "fill/"
PASSING = {"date", "server", "connection", "keep-alive", "x-amz-request-id", "x-amz-id-2"}
ATTRIBUTES = ["ETag", "Checksum", "ObjectParts", "StorageClass", "ObjectSize"]


def take(s3, brief=False):
    """brief: of objects no more than one GET tells."""
    return {bucket["Name"]: take_bucket(s3, bucket, brief) for bucket in s3.list_buckets()["Buckets"]}


def take_bucket(s3, bucket, brief):
    name = bucket["Name"]
    listing = take_listing(s3, name)
    return {"created": str(bucket["CreationDate"]), "listing": listing, "uploads": take_uploads(s3, name),
            "objects": {key: take_object(s3, name, key, brief) for key in listing if not key.startswith(FILLER)}}


def take_listing(s3, bucket):
    pages = s3.get_paginator("list_objects_v2").paginate(Bucket=bucket)
    return {e["Key"]: {"size": e["Size"], "etag": e["ETag"], "modified": str(e["LastModified"])} for page in pages for e in page.get("Contents", [])}


def take_object(s3, bucket, key, brief):
    answer = s3.get_object(Bucket=bucket, Key=key, ChecksumMode="ENABLED")
    if brief:
        return {"sha256": sha256(answer["Body"].read()), "headers": lasting(answer)}
    headers = lasting(answer)
    attributes = s3.get_object_attributes(Bucket=bucket, Key=key, ObjectAttributes=ATTRIBUTES)
    found = {"sha256": sha256(answer["Body"].read()), "headers": headers, "attributes": fields(attributes)}
    if "ObjectParts" in attributes:
        found["parts"] = take_parts(s3, bucket, key, attributes["ObjectParts"])
    return found


def take_parts(s3, bucket, key, parts):
    """Content of each part that can be asked for by its number."""
    numbers = [part["PartNumber"] for part in parts.get("Parts", [])] or range(1, parts["TotalPartsCount"] + 1)
    found = {}
    for number in numbers:
        try:
            answer = s3.get_object(Bucket=bucket, Key=key, PartNumber=number)
            found[str(number)] = [answer["ContentLength"], sha256(answer["Body"].read())]
        except ClientError as error:
            found[str(number)] = error.response["Error"]["Code"]
    return found


def take_uploads(s3, bucket):
    pages = s3.get_paginator("list_multipart_uploads").paginate(Bucket=bucket)
    return [take_upload(s3, bucket, upload) for page in pages for upload in page.get("Uploads", [])]


def take_upload(s3, bucket, upload):
    parts = s3.get_paginator("list_parts").paginate(Bucket=bucket, Key=upload["Key"], UploadId=upload["UploadId"])
    return {**fields(upload), "Parts": [fields(part) for page in parts for part in page.get("Parts", [])]}


def lasting(answer):
    return {name: value for name, value in answer["ResponseMetadata"]["HTTPHeaders"].items() if name not in PASSING}


def fields(answer):
    """An answer of boto3 as JSON holds it."""
    if isinstance(answer, dict):
        return {name: fields(value) for name, value in answer.items() if name not in ("ResponseMetadata", "Owner", "Initiator")}
    if isinstance(answer, list):
        return [fields(value) for value in answer]
    return answer if isinstance(answer, (str, int, float, bool, type(None))) else str(answer)


CLOSED = ("listing", "objects")
COMPOSITE = re.compile(r"-\d+$")


def is_closed(path):
    """Whether nothing more may be here than is wanted: of a store's buckets, and of a bucket's keys. An object's answers may say more in a later build."""
    return len(path) == 0 or (len(path) == 2 and path[1] in CLOSED)


def as_answered_now(want, path):
    """GetObjectAttributes gives a composite checksum without the number of parts, as S3 does; older builds gave it with that number."""
    of_attributes = len(path) > 2 and path[-3:-1] == ("attributes", "Checksum") and path[-1].startswith("Checksum") and isinstance(want, str)
    return COMPOSITE.sub("", want) if of_attributes else want


def differences(want, got, path=()):
    want = as_answered_now(want, path)
    at = "/".join(name if len(name) < 80 else name[:80] + "..." for name in path)
    if isinstance(want, dict) and isinstance(got, dict):
        for name in (want.keys() | got.keys() if is_closed(path) else want.keys()):
            if name in want and name in got:
                yield from differences(want[name], got[name], (*path, name))
            else:
                yield f"{at}: {name[:100]!r} is {'missing' if name in want else 'too many'}"
    elif isinstance(want, list) and isinstance(got, list) and len(want) == len(got):
        for number, (one, other) in enumerate(zip(want, got)):
            yield from differences(one, other, (*path, str(number)))
    elif want != got:
        yield f"{at}: is {str(got)[:300]}, should be {str(want)[:300]}"


def compare(want, got, doubtful=(), brief=False):
    """Fails unless `got` shows what `want` does. What stands in `doubtful` as [bucket, key] had no answer when the store was killed."""
    want, got = (without(picture, doubtful) for picture in (want, got))
    if brief:
        want = {bucket: {**of, "objects": {key: {name: content[name] for name in ("sha256", "headers")} for key, content in of["objects"].items()}}
                for bucket, of in want.items()}
    found = list(differences(want, got))
    assert not found, "\n".join(found[:20])


def without(picture, doubtful):
    hidden = {(bucket, key) for bucket, key in doubtful}
    return {bucket: {**of, **{part: {key: value for key, value in of[part].items() if (bucket, key) not in hidden} for part in CLOSED}}
            for bucket, of in picture.items()}
