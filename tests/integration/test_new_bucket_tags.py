"""Tags in CreateBucket's document: kept as PutBucketTagging keeps them, with s3:TagResource, and conditions on them."""
import json

import pytest

from tests.conftest import make_client
from tests.integration.test_iam import clear, client_of
from tests.support.daemon import Daemon
from tests.support.expect import refused

TAGS = [{"Key": "team", "Value": "red ü"}, {"Key": "empty", "Value": ""}]


@pytest.fixture(scope="module")
def daemon():
    with Daemon(drives=1).start() as running:
        running.s3 = make_client(running.endpoint, running.access_key, running.secret_key)
        yield running
        clear(client_of(running, "iam"))


def create(s3, bucket, tags, **more):
    return s3.create_bucket(Bucket=bucket, CreateBucketConfiguration={"Tags": tags}, **more)


def tags_of(s3, bucket):
    return s3.get_bucket_tagging(Bucket=bucket)["TagSet"]


def client(daemon, name, *statements):
    iam = client_of(daemon, "iam")
    iam.create_user(UserName=name)
    iam.put_user_policy(UserName=name, PolicyName="p", PolicyDocument=json.dumps({"Version": "2012-10-17", "Statement": list(statements)}))
    key = iam.create_access_key(UserName=name)["AccessKey"]
    return make_client(daemon.endpoint, key["AccessKeyId"], key["SecretAccessKey"])


def statement(action, condition=None, effect="Allow"):
    return {"Effect": effect, "Action": action, "Resource": "*", **({"Condition": condition} if condition else {})}


def test_tags_are_kept(daemon):
    create(daemon.s3, "tagged", TAGS)
    assert tags_of(daemon.s3, "tagged") == TAGS
    create(daemon.s3, "with-more", TAGS, ObjectOwnership="ObjectWriter", ObjectLockEnabledForBucket=True)
    assert tags_of(daemon.s3, "with-more") == TAGS
    assert daemon.s3.get_bucket_ownership_controls(Bucket="with-more")["OwnershipControls"]["Rules"] == [{"ObjectOwnership": "ObjectWriter"}]
    create(daemon.s3, "without", [])
    refused("NoSuchTagSet", 404, daemon.s3.get_bucket_tagging, Bucket="without")
    daemon.stop()
    daemon.restart()
    daemon.s3 = make_client(daemon.endpoint, daemon.access_key, daemon.secret_key)
    assert tags_of(daemon.s3, "tagged") == TAGS


def test_a_bucket_that_is_there(daemon):
    create(daemon.s3, "twice", TAGS)
    create(daemon.s3, "twice", TAGS)  # as us-east-1 has it
    refused("BucketAlreadyOwnedByYou", 409, create, daemon.s3, "twice", TAGS[:1])
    assert tags_of(daemon.s3, "twice") == TAGS
    daemon.s3.create_bucket(Bucket="twice")


def test_wrong_tags_make_no_bucket(daemon):
    for tags in ([{"Key": "a", "Value": "1"}, {"Key": "a", "Value": "2"}], [{"Key": "aws:x", "Value": "1"}], [{"Key": "a" * 129, "Value": ""}], [{"Key": "a", "Value": "v" * 257}]):
        refused("InvalidTag", 400, create, daemon.s3, "wrong", tags)
    refused("BadRequest", 400, create, daemon.s3, "wrong", [{"Key": str(n), "Value": ""} for n in range(51)])
    refused("404", 404, daemon.s3.head_bucket, Bucket="wrong")


def test_the_right_to_tag(daemon):
    plain = client(daemon, "plain", statement("s3:CreateBucket"))
    refused("AccessDenied", 403, create, plain, "plain-tagged", TAGS)
    refused("404", 404, daemon.s3.head_bucket, Bucket="plain-tagged")
    plain.create_bucket(Bucket="plain-untagged")
    both = client(daemon, "both", statement(["s3:CreateBucket", "s3:TagResource"]))
    create(both, "both-tagged", TAGS)
    assert tags_of(daemon.s3, "both-tagged") == TAGS


def test_conditions_on_tags(daemon):
    red = client(daemon, "red", statement("s3:CreateBucket"), statement("s3:TagResource", {"StringEquals": {"aws:RequestTag/team": "red"}, "ForAllValues:StringEquals": {"aws:TagKeys": ["team"]}}))
    create(red, "red-one", [{"Key": "team", "Value": "red"}])
    refused("AccessDenied", 403, create, red, "red-two", [{"Key": "team", "Value": "blue"}])
    refused("AccessDenied", 403, create, red, "red-two", [{"Key": "team", "Value": "red"}, {"Key": "more", "Value": ""}])
    never = client(daemon, "never", statement("s3:*"), statement("s3:CreateBucket", {"StringEquals": {"aws:RequestTag/team": "blue"}}, "Deny"))
    refused("AccessDenied", 403, create, never, "never-one", [{"Key": "team", "Value": "blue"}])
    create(never, "never-one", [{"Key": "team", "Value": "red"}])
