"""Conditions on tags in IAM's own actions: aws:ResourceTag, iam:ResourceTag, aws:RequestTag, aws:TagKeys."""
import json

import pytest

from tests.integration.test_iam import TRUST, clear, client_of, policy
from tests.integration.test_switches import cli
from tests.support.daemon import Daemon
from tests.support.expect import refused

RED, BLUE = [{"Key": "Team", "Value": "red"}], [{"Key": "Team", "Value": "blue"}]


@pytest.fixture(scope="module")
def daemon():
    with Daemon(drives=1).start() as running:
        yield running


@pytest.fixture
def iam(daemon):
    yield client_of(daemon, "iam")
    clear(client_of(daemon, "iam"))


def statement(action, condition=None, effect="Allow"):
    return {"Effect": effect, "Action": action, "Resource": "*", **({"Condition": condition} if condition else {})}


def manager(daemon, iam, *statements):
    """A client of a user with these statements."""
    iam.create_user(UserName="manager")
    iam.put_user_policy(UserName="manager", PolicyName="p", PolicyDocument=json.dumps({"Version": "2012-10-17", "Statement": list(statements)}))
    key = iam.create_access_key(UserName="manager")["AccessKey"]
    return client_of(daemon, "iam", key["AccessKeyId"], key["SecretAccessKey"])


@pytest.mark.parametrize("name", ["aws:ResourceTag/team", "iam:ResourceTag/Team"])
def test_tags_of_what_is_there(daemon, iam, name):
    client = manager(daemon, iam, statement("iam:*", {"StringEquals": {name: "red"}}))
    iam.create_user(UserName="red", Tags=RED)
    iam.create_user(UserName="blue", Tags=BLUE)
    iam.create_user(UserName="none")
    iam.create_role(RoleName="red", AssumeRolePolicyDocument=TRUST, Tags=RED)
    iam.create_role(RoleName="blue", AssumeRolePolicyDocument=TRUST, Tags=BLUE)
    own = iam.create_policy(PolicyName="red", PolicyDocument=policy(), Tags=RED)["Policy"]["Arn"]
    other = iam.create_policy(PolicyName="blue", PolicyDocument=policy(), Tags=BLUE)["Policy"]["Arn"]
    assert client.get_user(UserName="red")["User"]["Tags"] == RED and client.get_role(RoleName="RED")["Role"]["RoleName"] == "red"
    assert client.get_policy(PolicyArn=own)["Policy"]["Arn"] == own
    key = client.create_access_key(UserName="red")["AccessKey"]["AccessKeyId"]
    client.update_access_key(UserName="red", AccessKeyId=key, Status="Inactive")
    client.get_access_key_last_used(AccessKeyId=key)  # its user's tags
    client.delete_access_key(UserName="red", AccessKeyId=key)
    client.update_user(UserName="red", NewPath="/moved/")
    for user in ("blue", "none", "nobody"):
        refused("AccessDenied", 403, client.get_user, UserName=user)
        refused("AccessDenied", 403, client.create_access_key, UserName=user)
    refused("AccessDenied", 403, client.delete_role, RoleName="blue")
    refused("AccessDenied", 403, client.get_policy, PolicyArn=other)
    refused("AccessDenied", 403, client.list_users)  # all of them have no tags
    refused("AccessDenied", 403, client.create_user, UserName="more", Tags=RED)  # what is made has none yet
    refused("AccessDenied", 403, client.create_user, UserName="red", Tags=RED)  # also where somebody has the name
    iam.untag_user(UserName="red", TagKeys=["Team"])
    refused("AccessDenied", 403, client.get_user, UserName="red")  # at once


def test_a_denial_by_tag(daemon, iam):
    client = manager(daemon, iam, statement("iam:*"), statement("iam:*", {"StringEquals": {"aws:ResourceTag/Protected": "yes"}}, "Deny"))
    iam.create_user(UserName="safe", Tags=[{"Key": "protected", "Value": "yes"}])
    iam.create_user(UserName="plain")
    refused("AccessDenied", 403, client.delete_user, UserName="safe")
    refused("AccessDenied", 403, client.untag_user, UserName="safe", TagKeys=["protected"])
    client.delete_user(UserName="plain")  # a tag that is not there is absent, not unknown
    client.list_users()


def test_tags_of_the_request(daemon, iam):
    client = manager(daemon, iam, statement(["iam:CreateUser", "iam:CreateRole", "iam:TagUser"], {"StringEquals": {"aws:RequestTag/team": "red"}}))
    client.create_user(UserName="a", Tags=RED)
    client.create_role(RoleName="a", AssumeRolePolicyDocument=TRUST, Tags=RED + [{"Key": "more", "Value": "1"}])
    for tags in (BLUE, [], [{"Key": "more", "Value": "red"}]):
        refused("AccessDenied", 403, client.create_user, UserName="b", Tags=tags)
        refused("AccessDenied", 403, client.create_role, RoleName="b", AssumeRolePolicyDocument=TRUST, Tags=tags)
    client.tag_user(UserName="a", Tags=RED)
    refused("AccessDenied", 403, client.tag_user, UserName="a", Tags=BLUE)


def test_keys_of_tags(daemon, iam):
    only = {"ForAllValues:StringEquals": {"aws:TagKeys": ["a", "b"]}}
    client = manager(daemon, iam, statement(["iam:CreateUser", "iam:TagUser", "iam:UntagUser"], only), statement("iam:DeleteUser", {"Null": {"aws:TagKeys": "true"}}))
    client.create_user(UserName="u", Tags=[{"Key": "a", "Value": "1"}])
    refused("AccessDenied", 403, client.create_user, UserName="v", Tags=[{"Key": "a", "Value": "1"}, {"Key": "c", "Value": "1"}])
    client.tag_user(UserName="u", Tags=[{"Key": "b", "Value": "1"}])
    refused("AccessDenied", 403, client.untag_user, UserName="u", TagKeys=["a", "c"])
    client.untag_user(UserName="u", TagKeys=["a", "b"])
    client.delete_user(UserName="u")  # it names none


def test_root_and_other_accounts(daemon, iam):
    iam.create_user(UserName="red", Tags=RED)
    assert iam.get_user(UserName="red")
    made = dict(line.split("\t") for line in cli(daemon, "admin", "account", "create", "other").splitlines())
    theirs = client_of(daemon, "iam", made["AccessKeyId"], made["SecretAccessKey"])
    client = manager(daemon, theirs, statement("iam:*", {"StringEquals": {"aws:ResourceTag/team": "red"}}))
    theirs.create_user(UserName="red")  # without the tag that its namesake has
    refused("AccessDenied", 403, client.get_user, UserName="red")
    theirs.tag_user(UserName="red", Tags=RED)
    assert client.get_user(UserName="red")["User"]["Arn"].startswith(f"arn:aws:iam::{made['Account']}:")
    clear(theirs)


def test_a_store_that_is_read_only(daemon, iam):
    client = manager(daemon, iam, statement("iam:*"))
    cli(daemon, "admin", "read-only", "on")
    try:
        refused("AccessDenied", 403, client.create_user, UserName="x")
        assert client.list_users()["Users"]
    finally:
        cli(daemon, "admin", "read-only", "off")
