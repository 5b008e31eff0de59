"""s3:ExistingObjectTag: who may read or change an object by the tags that it has (rules P20 to P22 of docs/design/rights.md)."""
import json

import pytest
import requests

from tests.integration.test_iam import clear, client_of, daemon  # noqa: F401: fixture
from tests.conftest import REGION, make_client
from tests.support.expect import keys_of, refused
from tests.support.getbatch import Entry, ask
from tests.support.s3raw import RawClient

ACTIONS = ["s3:GetObject", "s3:GetObjectVersion", "s3:GetObjectTagging", "s3:GetObjectAttributes", "s3:PutObject", "s3:DeleteObject",
           "s3:PutObjectTagging", "s3:GetObjectAcl", "s3:PutObjectAcl", "s3:DeleteObjectTagging", "s3:PutObjectVersionTagging"]
BLUE = {"TagSet": [{"Key": "colour", "Value": "blue"}]}
RED = {"TagSet": [{"Key": "colour", "Value": "red"}]}
READS = {
    "get": lambda s3, **of: s3.get_object(Bucket="team", **of),
    "range": lambda s3, **of: s3.get_object(Bucket="team", Range="bytes=0-0", **of),
    "head": lambda s3, **of: s3.head_object(Bucket="team", **of),
    "tagging": lambda s3, **of: s3.get_object_tagging(Bucket="team", **of),
    "attributes": lambda s3, **of: s3.get_object_attributes(Bucket="team", ObjectAttributes=["ETag"], **of),
    "acl": lambda s3, **of: s3.get_object_acl(Bucket="team", **of),
}


def statement(effect, operator, key, value, action=ACTIONS):
    return {"Effect": effect, "Action": action, "Resource": "arn:aws:s3:::team/*", "Condition": {operator: {f"s3:ExistingObjectTag/{key}": value}}}


class Team:
    """A bucket of root's with objects of two colours, and a user without rights."""

    def __init__(self, daemon):  # noqa: F811
        self.iam, self.root = client_of(daemon, "iam"), make_client(daemon.endpoint, daemon.access_key, daemon.secret_key)
        self.root.create_bucket(Bucket="team")
        for key, tags in (("red", "colour=red"), ("blue", "colour=blue"), ("plain", "")):
            self.root.put_object(Bucket="team", Key=key, Body=b"bytes", Tagging=tags)
        self.iam.create_user(UserName="alice")
        key = self.iam.create_access_key(UserName="alice")["AccessKey"]
        self.s3 = make_client(daemon.endpoint, key["AccessKeyId"], key["SecretAccessKey"])
        self.raw = RawClient(daemon.host, daemon.port, key["AccessKeyId"], key["SecretAccessKey"], REGION)

    def allow(self, *statements):
        document = json.dumps({"Version": "2012-10-17", "Statement": list(statements)})
        self.iam.put_user_policy(UserName="alice", PolicyName="p", PolicyDocument=document)

    def clean(self):
        clear(self.iam)
        versions = self.root.list_object_versions(Bucket="team")
        for item in versions.get("Versions", []) + versions.get("DeleteMarkers", []):
            self.root.delete_object(Bucket="team", Key=item["Key"], VersionId=item["VersionId"])
        self.root.delete_bucket(Bucket="team")


@pytest.fixture
def team(daemon):  # noqa: F811
    made = Team(daemon)
    yield made
    made.clean()


def denied(call, s3, **of):
    refused("403" if call == "head" else "AccessDenied", 403, READS[call], s3, **of)


@pytest.mark.parametrize("call", READS)
def test_the_tag_decides(team, call):
    team.allow(statement("Allow", "StringEquals", "colour", "red"))
    READS[call](team.s3, Key="red")
    for key in ("blue", "plain", "not-there"):  # what is not there looks like what may not be read
        denied(call, team.s3, Key=key)
    team.root.put_object_tagging(Bucket="team", Key="red", Tagging={"TagSet": [{"Key": "colour", "Value": "green"}]})
    denied(call, team.s3, Key="red")
    team.root.put_object_tagging(Bucket="team", Key="red", Tagging={"TagSet": [{"Key": "colour", "Value": "red"}]})
    READS[call](team.s3, Key="red")


def test_a_deny_by_tag(team):
    team.allow({"Effect": "Allow", "Action": ACTIONS + ["s3:ListBucket"], "Resource": ["arn:aws:s3:::team", "arn:aws:s3:::team/*"]},
               statement("Deny", "StringEquals", "colour", "red"))
    denied("get", team.s3, Key="red")
    READS["get"](team.s3, Key="blue")
    READS["get"](team.s3, Key="plain")
    refused("NoSuchKey", 404, READS["get"], team.s3, Key="not-there")
    team.allow({"Effect": "Allow", "Action": ACTIONS, "Resource": "arn:aws:s3:::team/*"}, statement("Deny", "StringNotEquals", "colour", "red"))
    READS["get"](team.s3, Key="red")
    for key in ("blue", "plain", "not-there"):
        denied("get", team.s3, Key=key)


def test_versions_have_tags_of_their_own(team):
    team.root.put_bucket_versioning(Bucket="team", VersioningConfiguration={"Status": "Enabled"})
    team.allow(statement("Allow", "StringEquals", "colour", "red"))
    newer = team.root.put_object(Bucket="team", Key="red", Body=b"newer", Tagging="colour=blue")["VersionId"]
    denied("get", team.s3, Key="red")
    denied("get", team.s3, Key="red", VersionId=newer)
    assert READS["get"](team.s3, Key="red", VersionId="null")["Body"].read() == b"bytes"
    marker = team.root.delete_object(Bucket="team", Key="red")["VersionId"]
    denied("get", team.s3, Key="red")
    denied("get", team.s3, Key="red", VersionId=marker)


def test_a_bucket_policy_by_tag_for_anybody(team, daemon):  # noqa: F811
    team.root.delete_public_access_block(Bucket="team")
    policy = {**statement("Allow", "StringEquals", "colour", "red", action="s3:GetObject"), "Principal": "*"}
    team.root.put_bucket_policy(Bucket="team", Policy=json.dumps({"Version": "2012-10-17", "Statement": [policy]}))
    assert requests.get(f"{daemon.endpoint}/team/red", timeout=10).content == b"bytes"
    for key in ("blue", "plain", "not-there"):
        answer = requests.get(f"{daemon.endpoint}/team/{key}", timeout=10)
        assert answer.status_code == 403 and b"bytes" not in answer.content


def test_what_aws_does_not_list_is_not_decided_by_tags(team):
    """P11: what is not known holds for no Allow."""
    team.allow(statement("Allow", "StringEquals", "colour", "red"))
    refused("AccessDenied", 403, team.s3.delete_object, Bucket="team", Key="red")
    refused("AccessDenied", 403, team.s3.put_object, Bucket="team", Key="red", Body=b"mine")
    assert keys_of(team.root, "team") == ["blue", "plain", "red"]


def test_sources_of_copies(team):
    """Also by version and for parts; the tags that a copy takes along are the source's, which are read, too."""
    team.allow({"Effect": "Allow", "Action": ["s3:PutObject", "s3:PutObjectTagging"], "Resource": "arn:aws:s3:::team/new*"},
               statement("Allow", "StringEquals", "colour", "red", ["s3:GetObject", "s3:GetObjectVersion", "s3:GetObjectTagging"]))
    team.s3.copy_object(Bucket="team", Key="new", CopySource="team/red")
    assert team.root.get_object_tagging(Bucket="team", Key="new")["TagSet"] == RED["TagSet"]
    upload = team.s3.create_multipart_upload(Bucket="team", Key="new-parts")["UploadId"]
    team.s3.upload_part_copy(Bucket="team", Key="new-parts", CopySource="team/red", PartNumber=1, UploadId=upload)
    for key in ("blue", "plain", "not-there"):
        refused("AccessDenied", 403, team.s3.copy_object, Bucket="team", Key="new", CopySource=f"team/{key}")
        refused("AccessDenied", 403, team.s3.upload_part_copy, Bucket="team", Key="new-parts", CopySource=f"team/{key}", PartNumber=1, UploadId=upload)
    team.root.put_bucket_versioning(Bucket="team", VersioningConfiguration={"Status": "Enabled"})
    team.root.put_object(Bucket="team", Key="red", Body=b"newer", Tagging="colour=blue")
    refused("AccessDenied", 403, team.s3.copy_object, Bucket="team", Key="new", CopySource="team/red")
    marker = team.root.delete_object(Bucket="team", Key="red")["VersionId"]
    team.allow({"Effect": "Allow", "Action": ["s3:PutObject", "s3:PutObjectTagging"], "Resource": "arn:aws:s3:::team/new*"},
               statement("Allow", "StringEquals", "colour", "red", ["s3:GetObject", "s3:GetObjectVersion", "s3:GetObjectVersionTagging"]))
    team.s3.copy_object(Bucket="team", Key="new", CopySource="team/red?versionId=null")
    refused("AccessDenied", 403, team.s3.copy_object, Bucket="team", Key="new", CopySource=f"team/red?versionId={marker}")
    team.root.abort_multipart_upload(Bucket="team", Key="new-parts", UploadId=upload)


def test_entries_of_batches(team):
    """Each entry is decided for itself; who may list is told what is missing."""
    keys = ["red", "blue", "plain", "not-there", "red"]

    def codes():
        return [(result.status, result.data) for result in ask(team.raw, [Entry("team", key) for key in keys])]

    team.allow(statement("Allow", "StringEquals", "colour", "red"))
    assert codes() == [(200, b"bytes"), (403, b""), (403, b""), (403, b""), (200, b"bytes")]
    listing = {"Effect": "Allow", "Action": ["s3:ListBucket", "s3:GetObject"], "Resource": ["arn:aws:s3:::team", "arn:aws:s3:::team/*"]}
    team.allow(listing, statement("Deny", "StringEquals", "colour", "red"))
    assert codes() == [(403, b""), (200, b"bytes"), (200, b"bytes"), (404, b""), (403, b"")]
    team.root.put_object_tagging(Bucket="team", Key="red", Tagging=BLUE)
    assert codes() == [(200, b"bytes")] * 3 + [(404, b""), (200, b"bytes")]


def test_changes_by_tag(team):
    """Who changes a tag by which it was permitted cannot change it back."""
    team.allow(statement("Allow", "StringEquals", "colour", "red"))
    for key in ("blue", "plain", "not-there"):
        refused("AccessDenied", 403, team.s3.put_object_tagging, Bucket="team", Key=key, Tagging=RED)
        refused("AccessDenied", 403, team.s3.delete_object_tagging, Bucket="team", Key=key)
        refused("AccessDenied", 403, team.s3.put_object_acl, Bucket="team", Key=key, ACL="bucket-owner-full-control")
    team.s3.put_object_acl(Bucket="team", Key="red", ACL="bucket-owner-full-control")
    team.s3.put_object_tagging(Bucket="team", Key="red", Tagging=RED)
    team.s3.put_object_tagging(Bucket="team", Key="red", Tagging=BLUE)
    refused("AccessDenied", 403, team.s3.put_object_tagging, Bucket="team", Key="red", Tagging=RED)
    refused("AccessDenied", 403, team.s3.delete_object_tagging, Bucket="team", Key="red")
    team.root.put_object_tagging(Bucket="team", Key="red", Tagging=RED)
    team.s3.delete_object_tagging(Bucket="team", Key="red")
    assert team.root.get_object_tagging(Bucket="team", Key="red")["TagSet"] == []


def test_changes_of_versions_by_tag(team):
    """The change is made of the version that was looked at."""
    team.root.put_bucket_versioning(Bucket="team", VersioningConfiguration={"Status": "Enabled"})
    newer = team.root.put_object(Bucket="team", Key="red", Body=b"newer", Tagging="colour=blue")["VersionId"]
    team.allow(statement("Allow", "StringEquals", "colour", "red"))
    refused("AccessDenied", 403, team.s3.put_object_tagging, Bucket="team", Key="red", Tagging=RED)
    refused("AccessDenied", 403, team.s3.put_object_tagging, Bucket="team", Key="red", VersionId=newer, Tagging=RED)
    answer = team.s3.put_object_tagging(Bucket="team", Key="red", VersionId="null", Tagging=BLUE)
    assert answer["VersionId"] == "null"
    assert team.root.get_object_tagging(Bucket="team", Key="red", VersionId="null")["TagSet"] == BLUE["TagSet"]
    team.root.put_object_tagging(Bucket="team", Key="red", Tagging=RED)
    assert team.s3.put_object_tagging(Bucket="team", Key="red", Tagging=RED)["VersionId"] == newer


def test_tags_in_variables(team):
    """`${s3:ExistingObjectTag/KEY}` among the values of a condition: each gets what is tagged with its own name."""
    for key, tags in (("mine", "owner=alice"), ("theirs", "owner=bob")):
        team.root.put_object(Bucket="team", Key=key, Body=b"bytes", Tagging=tags)
    all_of_it = {"Effect": "Allow", "Action": ACTIONS, "Resource": "arn:aws:s3:::team/*"}
    own = {"aws:username": "${s3:ExistingObjectTag/owner}"}
    for statements, allowed in (
        ([{**all_of_it, "Condition": {"StringEquals": own}}], {"mine"}),
        ([{**all_of_it, "Condition": {"StringNotEquals": own}}], {"theirs", "plain"}),
        ([all_of_it, {**all_of_it, "Effect": "Deny", "Condition": {"StringEquals": own}}], {"theirs", "plain"}),
        ([all_of_it, {**all_of_it, "Effect": "Deny", "Condition": {"StringNotEquals": own}}], {"mine"}),
    ):
        team.allow(*statements)
        for key in ("mine", "theirs", "plain"):
            for call in ("get", "head", "tagging"):
                if key in allowed:
                    READS[call](team.s3, Key=key)
                else:
                    denied(call, team.s3, Key=key)
        refused("AccessDenied", 403, team.s3.delete_object, Bucket="team", Key="plain")
