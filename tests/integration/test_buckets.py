"""Buckets: create, head, list with its paging, location, delete; names; and configurations that are never set."""
import datetime
import secrets
import threading

import pytest

from tests.support.expect import headers_of, refused, status_of


def new_name(prefix="bkt"):
    return f"{prefix}-{secrets.token_hex(6)}"


@pytest.mark.smoke
def test_life_of_a_bucket(s3):
    name = new_name()
    refused("404", 404, s3.head_bucket, Bucket=name)
    answer = s3.create_bucket(Bucket=name)
    assert answer["Location"] == f"/{name}"
    assert headers_of(s3.head_bucket(Bucket=name))["x-amz-bucket-region"] == "us-east-1"
    listed = {b["Name"]: b["CreationDate"] for b in s3.list_buckets()["Buckets"]}
    assert abs(listed[name] - datetime.datetime.now(datetime.timezone.utc)) < datetime.timedelta(minutes=2)
    assert status_of(s3.delete_bucket(Bucket=name)) == 204
    refused("404", 404, s3.head_bucket, Bucket=name)
    refused("NoSuchBucket", 404, s3.delete_bucket, Bucket=name)
    refused("NoSuchBucket", 404, s3.list_objects_v2, Bucket=name)
    assert name not in [b["Name"] for b in s3.list_buckets()["Buckets"]]


def test_creating_again_as_the_owner_is_no_error_in_us_east_1(s3):
    """AWS answers 200 for the owner in us-east-1, and keeps what is in the bucket."""
    name = new_name()
    s3.create_bucket(Bucket=name)
    s3.put_object(Bucket=name, Key="kept", Body=b"x")
    assert status_of(s3.create_bucket(Bucket=name)) == 200
    assert s3.get_object(Bucket=name, Key="kept")["Body"].read() == b"x"


def test_delete_of_a_bucket_that_is_not_empty(s3, bucket):
    s3.put_object(Bucket=bucket, Key="k", Body=b"x")
    refused("BucketNotEmpty", 409, s3.delete_bucket, Bucket=bucket)
    s3.delete_object(Bucket=bucket, Key="k")
    assert status_of(s3.delete_bucket(Bucket=bucket)) == 204


def test_a_new_bucket_of_an_old_name_is_empty(s3):
    name = new_name()
    for _ in range(3):
        s3.create_bucket(Bucket=name)
        assert s3.list_objects_v2(Bucket=name)["KeyCount"] == 0
        s3.put_object(Bucket=name, Key="k", Body=b"x")
        s3.delete_object(Bucket=name, Key="k")
        s3.delete_bucket(Bucket=name)


@pytest.mark.parametrize("name", ["ab", "a" * 64, "Upper-Case", "under_score", "-dash", "dash-", "dot..dot", ".dot", "dot.",
                                  "192.168.5.4", "xn--puny", "ends-s3alias", "ends--ol-s3", "sthree-x", "sp ace"])
def test_invalid_names(raw, name):
    answer = raw.request("PUT", f"/{name}")
    assert (answer.status, answer.code) == (400, "InvalidBucketName"), answer


@pytest.mark.parametrize("name", ["abc", "a1b", "a.b-c.d", "1234567890", "x" * 63, "192.168.5"])
def test_valid_names(s3, name):
    s3.create_bucket(Bucket=name)
    s3.head_bucket(Bucket=name)
    s3.delete_bucket(Bucket=name)


def test_location(s3, raw, bucket):
    assert s3.get_bucket_location(Bucket=bucket)["LocationConstraint"] is None
    answer = raw.request("GET", f"/{bucket}", query=[("location", "")])
    assert answer.status == 200 and answer.xml.tag == "LocationConstraint" and not answer.xml.text
    refused("NoSuchBucket", 404, s3.get_bucket_location, Bucket=new_name())


def test_location_constraint_at_creation(raw, s3):
    def create(body):
        return raw.request("PUT", f"/{new_name()}", body=body.encode())

    good = '<CreateBucketConfiguration xmlns="http://s3.amazonaws.com/doc/2006-03-01/">{}</CreateBucketConfiguration>'
    assert create(good.format("")).status == 200
    other = create(good.format("<LocationConstraint>eu-west-1</LocationConstraint>"))
    assert (other.status, other.code) == (400, "IllegalLocationConstraintException"), other
    other = create(good.format("<LocationConstraint>eu-nowhere-1</LocationConstraint>"))
    assert (other.status, other.code) == (400, "InvalidLocationConstraint"), other
    assert other.xml.findtext("LocationConstraint") == "eu-nowhere-1"
    assert create(good.format("<LocationConstraint>us-east-1</LocationConstraint>")).status == 200  # more than AWS takes: it is meant
    for bad in ["<CreateBucketConfiguration>", "<Other/>", "no xml at all"]:
        answer = create(bad)
        assert (answer.status, answer.code) == (400, "MalformedXML"), (bad, answer)


def test_list_buckets_pages(s3):
    prefix = f"page-{secrets.token_hex(4)}-"
    names = [f"{prefix}{i:03}" for i in range(23)]
    for name in names:
        s3.create_bucket(Bucket=name)
    for size in (1, 5, 23, 1000):
        found, token = [], None
        while True:
            page = s3.list_buckets(Prefix=prefix, MaxBuckets=size, **({"ContinuationToken": token} if token else {}))
            assert len(page["Buckets"]) <= size
            assert page.get("Prefix") == prefix
            found += [b["Name"] for b in page["Buckets"]]
            token = page.get("ContinuationToken")
            if not token:
                break
        assert found == names, size
    assert [b["Name"] for b in s3.list_buckets()["Buckets"] if b["Name"].startswith(prefix)] == names
    assert s3.list_buckets()["Owner"]["ID"]


@pytest.mark.parametrize("value", ["0", "-1", "10001", "x", ""])
def test_list_buckets_bad_max(raw, value):
    answer = raw.request("GET", "/", query=[("max-buckets", value)])
    assert (answer.status, answer.code) == (400, "InvalidArgument"), answer


def test_concurrent_create_and_delete(s3):
    """Many at once: each call either works or gives a plain answer, and the end is consistent."""
    name = new_name()
    wrong = []

    def churn(i):
        for n in range(8):
            try:
                if (i + n) % 2:
                    s3.create_bucket(Bucket=name)
                else:
                    s3.delete_bucket(Bucket=name)
            except s3.exceptions.ClientError as error:
                code = error.response["Error"]["Code"]
                if code not in ("NoSuchBucket", "BucketAlreadyOwnedByYou", "OperationAborted"):
                    wrong.append(code)

    threads = [threading.Thread(target=churn, args=(i,)) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    s3.create_bucket(Bucket=name)
    s3.head_bucket(Bucket=name)
    s3.delete_bucket(Bucket=name)


def test_bucket_with_an_unfinished_upload(s3, bucket):
    """Only objects keep a bucket; unfinished uploads end with it."""
    upload = s3.create_multipart_upload(Bucket=bucket, Key="k")["UploadId"]
    s3.upload_part(Bucket=bucket, Key="k", UploadId=upload, PartNumber=1, Body=b"x" * 300_000)
    assert status_of(s3.delete_bucket(Bucket=bucket)) == 204


def test_writers_do_not_notice_attempts_to_delete(s3):
    """The bucket always holds an object: each attempt is 409, and no write is refused."""
    name = new_name()
    s3.create_bucket(Bucket=name)
    s3.put_object(Bucket=name, Key="kept", Body=b"x")
    over = threading.Event()
    answers = []

    def delete():
        while not over.is_set():
            try:
                s3.delete_bucket(Bucket=name)
                answers.append("deleted")
            except s3.exceptions.ClientError as error:
                answers.append(error.response["Error"]["Code"])

    thread = threading.Thread(target=delete)
    thread.start()
    try:
        for i in range(150):
            s3.put_object(Bucket=name, Key=f"k{i % 7}", Body=b"y" * 100)
            s3.delete_object(Bucket=name, Key=f"k{i % 7}")
    finally:
        over.set()
        thread.join()
    assert set(answers) == {"BucketNotEmpty"}


def test_a_write_meets_an_empty_bucket_that_is_being_deleted(s3):
    """It succeeds, or the bucket is gone: 404 comes only when it is."""
    codes = set()
    for _ in range(25):
        name = new_name()
        s3.create_bucket(Bucket=name)
        start = threading.Barrier(3)

        def put(name=name, start=start):
            start.wait()
            try:
                s3.put_object(Bucket=name, Key="k", Body=b"z")
                codes.add("put")
            except s3.exceptions.ClientError as error:
                codes.add(error.response["Error"]["Code"])

        threads = [threading.Thread(target=put) for _ in range(2)]
        for thread in threads:
            thread.start()
        start.wait()
        try:
            s3.delete_bucket(Bucket=name)
            refused("404", 404, s3.head_bucket, Bucket=name)
        except s3.exceptions.ClientError as error:
            assert error.response["Error"]["Code"] == "BucketNotEmpty"
            assert "k" in [o["Key"] for o in s3.list_objects_v2(Bucket=name)["Contents"]]
        for thread in threads:
            thread.join()
    assert codes <= {"put", "NoSuchBucket"}


def test_uploads_go_with_their_bucket(s3):
    name = new_name()
    s3.create_bucket(Bucket=name)
    for i in range(40):
        upload = s3.create_multipart_upload(Bucket=name, Key=f"u{i}")["UploadId"]
        if i % 8 == 0:
            s3.upload_part(Bucket=name, Key=f"u{i}", UploadId=upload, PartNumber=1, Body=b"p" * 200_000)
    assert status_of(s3.delete_bucket(Bucket=name)) == 204
    refused("NoSuchBucket", 404, s3.upload_part, Bucket=name, Key="u39", UploadId=upload, PartNumber=1, Body=b"p")
    s3.create_bucket(Bucket=name)
    assert "Uploads" not in s3.list_multipart_uploads(Bucket=name)
    refused("NoSuchUpload", 404, s3.upload_part, Bucket=name, Key="u39", UploadId=upload, PartNumber=1, Body=b"p")
    assert status_of(s3.delete_bucket(Bucket=name)) == 204
