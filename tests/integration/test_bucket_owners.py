"""Buckets of one name and several accounts: what is asked about one never happens to the next of its name (P22 in docs/design/rights.md)."""
import concurrent.futures

import pytest
import requests

from tests.conftest import make_client
from tests.integration.test_switches import cli
from tests.support.daemon import Daemon
from tests.support.expect import status_of

ROUNDS, DELETIONS = 40, 6


@pytest.fixture(scope="module")
def owners():
    with Daemon(drives=1).start() as daemon:
        made = dict(line.split("\t") for line in cli(daemon, "admin", "account", "create", "other").splitlines())
        yield (make_client(daemon.endpoint, daemon.access_key, daemon.secret_key),
               make_client(daemon.endpoint, made["AccessKeyId"], made["SecretAccessKey"]), daemon.endpoint)


def code_of(call, **arguments):
    """"" where it is done."""
    try:
        call(**arguments)
    except Exception as error:
        return error.response["Error"]["Code"]
    return ""


def make_until(s3, bucket):
    while code_of(s3.create_bucket, Bucket=bucket) == "BucketAlreadyExists":
        pass


def test_deletions_of_a_bucket_leave_the_next_one_of_its_name(owners):
    """One of many deletions deletes it; those that come later must not delete what another account has made meanwhile."""
    first, second, _ = owners
    with concurrent.futures.ThreadPoolExecutor(DELETIONS + 1) as threads:
        for _ in range(ROUNDS):
            first.create_bucket(Bucket="wanted")
            makes = threads.submit(make_until, second, "wanted")
            deletions = [threads.submit(code_of, first.delete_bucket, Bucket="wanted") for _ in range(DELETIONS)]
            assert {one.result() for one in deletions} <= {"", "NoSuchBucket", "AccessDenied"}
            makes.result()
            assert status_of(second.head_bucket(Bucket="wanted")) == 200
            second.delete_bucket(Bucket="wanted")


def test_a_bucket_that_is_not_finished_is_taken_away_alone(owners):
    """Whoever deletes a bucket while it is made has it taken away, and not the one that another account makes then."""
    first, second, _ = owners
    more = {"ObjectOwnership": "ObjectWriter", "CreateBucketConfiguration": {"Tags": [{"Key": "a", "Value": "b"}]}}
    with concurrent.futures.ThreadPoolExecutor(DELETIONS + 2) as threads:
        for _ in range(ROUNDS):
            begun = threads.submit(code_of, first.create_bucket, Bucket="wanted", **more)
            deletions = [threads.submit(code_of, first.delete_bucket, Bucket="wanted") for _ in range(DELETIONS)]
            makes = threads.submit(make_until, second, "wanted")
            assert begun.result() in ("", "NoSuchBucket", "BucketAlreadyExists", "AccessDenied")  # the last for tags of what is another's by then
            for one in deletions:
                one.result()
            code_of(first.delete_bucket, Bucket="wanted")  # where none of them came in time
            makes.result()
            assert status_of(second.head_bucket(Bucket="wanted")) == 200
            second.delete_bucket(Bucket="wanted")


def test_health_checks_are_not_for_another_account_to_answer(owners):
    first, second, endpoint = owners
    checks = [f"{endpoint}/minio/health/{check}" for check in ("live", "ready", "cluster", "cluster/read")]

    def answers():
        return {requests.get(check, timeout=60).status_code for check in checks}

    second.create_bucket(Bucket="minio")
    assert answers() == {200}
    second.delete_bucket(Bucket="minio")
    first.create_bucket(Bucket="minio")
    assert answers() == {403}  # keys of the bucket
    first.delete_bucket(Bucket="minio")
    assert answers() == {200}
