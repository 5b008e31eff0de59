"""Conditions in IAM's own actions: aws:ResourceTag, iam:ResourceTag, aws:RequestTag, aws:TagKeys, iam:PolicyARN, iam:PermissionsBoundary."""
import concurrent.futures
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
    client = manager(daemon, iam, statement(["iam:CreateUser", "iam:CreateRole", "iam:TagUser", "iam:TagRole"], {"StringEquals": {"aws:RequestTag/team": "red"}}))
    client.create_user(UserName="a", Tags=RED)
    client.create_role(RoleName="a", AssumeRolePolicyDocument=TRUST, Tags=RED + [{"Key": "more", "Value": "1"}])
    for tags in (BLUE, [], [{"Key": "more", "Value": "red"}]):
        refused("AccessDenied", 403, client.create_user, UserName="b", Tags=tags)
        refused("AccessDenied", 403, client.create_role, RoleName="b", AssumeRolePolicyDocument=TRUST, Tags=tags)
    client.tag_user(UserName="a", Tags=RED)
    refused("AccessDenied", 403, client.tag_user, UserName="a", Tags=BLUE)


def test_what_is_made_with_tags_needs_the_right_to_tag_it(daemon, iam):
    client = manager(daemon, iam, statement(["iam:CreateUser", "iam:CreateRole", "iam:CreatePolicy"]))
    client.create_user(UserName="plain")
    for call, arguments in ((client.create_user, {"UserName": "u"}), (client.create_role, {"RoleName": "r", "AssumeRolePolicyDocument": TRUST}),
                            (client.create_policy, {"PolicyName": "p", "PolicyDocument": policy()})):
        refused("AccessDenied", 403, call, Tags=RED, **arguments)
    refused("NoSuchEntity", 404, iam.get_user, UserName="u")
    iam.put_user_policy(UserName="manager", PolicyName="more", PolicyDocument=json.dumps({"Version": "2012-10-17", "Statement": [
        statement(["iam:TagUser", "iam:TagPolicy"], {"StringEquals": {"aws:RequestTag/team": "red"}})]}))
    client.create_user(UserName="u", Tags=RED)
    client.create_policy(PolicyName="p", PolicyDocument=policy(), Tags=RED)
    refused("AccessDenied", 403, client.create_user, UserName="v", Tags=BLUE)
    refused("AccessDenied", 403, client.create_role, RoleName="r", AssumeRolePolicyDocument=TRUST, Tags=RED)


ADMIN, READ_ONLY = "arn:aws:iam::aws:policy/AdministratorAccess", "arn:aws:iam::aws:policy/AmazonS3ReadOnlyAccess"


def test_policies_that_may_not_be_attached(daemon, iam):
    strong = iam.create_policy(PolicyName="Strong", PolicyDocument=policy())["Policy"]["Arn"]
    client = manager(daemon, iam, statement("iam:*"), statement(["iam:Attach*", "iam:Detach*"], {"ArnEquals": {"iam:PolicyARN": [ADMIN, strong]}}, "Deny"))
    iam.create_group(GroupName="g")
    iam.create_role(RoleName="r", AssumeRolePolicyDocument=TRUST)
    for arn in (ADMIN, strong, strong.replace("Strong", "STRONG")):
        refused("AccessDenied", 403, client.attach_user_policy, UserName="manager", PolicyArn=arn)
        refused("AccessDenied", 403, client.attach_group_policy, GroupName="g", PolicyArn=arn)
        refused("AccessDenied", 403, client.attach_role_policy, RoleName="r", PolicyArn=arn)
    client.attach_user_policy(UserName="manager", PolicyArn=READ_ONLY)
    iam.attach_role_policy(RoleName="r", PolicyArn=strong)
    refused("AccessDenied", 403, client.detach_role_policy, RoleName="r", PolicyArn=strong)
    iam.detach_role_policy(RoleName="r", PolicyArn=strong)


def test_policies_that_alone_may_be_attached(daemon, iam):
    client = manager(daemon, iam, statement("iam:AttachUserPolicy", {"ArnEquals": {"iam:PolicyARN": READ_ONLY}}))
    client.attach_user_policy(UserName="manager", PolicyArn=READ_ONLY)
    refused("AccessDenied", 403, client.attach_user_policy, UserName="manager", PolicyArn=ADMIN)


def test_boundaries_are_passed_on(daemon, iam):
    """AWS's way to let somebody make users who have no more rights than a boundary."""
    most = iam.create_policy(PolicyName="most", PolicyDocument=policy())["Policy"]["Arn"]
    bounded = {"StringEquals": {"iam:PermissionsBoundary": most}}
    client = manager(daemon, iam, statement(["iam:CreateUser", "iam:PutUserPolicy", "iam:DeleteUserPolicy", "iam:AttachUserPolicy", "iam:DetachUserPolicy",
                                             "iam:PutUserPermissionsBoundary"], bounded),
                     statement("iam:DeleteUserPermissionsBoundary"), statement("iam:DeleteUserPermissionsBoundary", bounded, "Deny"))
    for arguments in ({}, {"PermissionsBoundary": READ_ONLY}):
        refused("AccessDenied", 403, client.create_user, UserName="made", **arguments)
    client.create_user(UserName="made", PermissionsBoundary=most)
    client.put_user_policy(UserName="made", PolicyName="p", PolicyDocument=policy())
    client.attach_user_policy(UserName="made", PolicyArn=ADMIN)
    client.detach_user_policy(UserName="made", PolicyArn=ADMIN)
    client.delete_user_policy(UserName="made", PolicyName="p")
    refused("AccessDenied", 403, client.put_user_permissions_boundary, UserName="made", PermissionsBoundary=READ_ONLY)
    refused("AccessDenied", 403, client.delete_user_permissions_boundary, UserName="made")
    iam.create_user(UserName="free")
    for call, arguments in ((client.put_user_policy, {"PolicyName": "p", "PolicyDocument": policy()}), (client.attach_user_policy, {"PolicyArn": ADMIN})):
        refused("AccessDenied", 403, call, UserName="free", **arguments)
        refused("AccessDenied", 403, call, UserName="manager", **arguments)
    client.put_user_permissions_boundary(UserName="free", PermissionsBoundary=most)
    client.put_user_policy(UserName="free", PolicyName="p", PolicyDocument=policy())


def test_a_tag_that_changes_while_a_change_waits(daemon, iam):
    """A change that was permitted by a tag, and is tried again since the user was changed meanwhile, is asked for again."""
    client = manager(daemon, iam, statement("iam:TagUser", {"StringEquals": {"aws:ResourceTag/team": "red"}}))
    iam.create_user(UserName="u")

    def mark():
        try:
            client.tag_user(UserName="u", Tags=[{"Key": "mark", "Value": ""}])
        except client.exceptions.ClientError as error:
            assert error.response["Error"]["Code"] == "AccessDenied"

    def marked():
        return "mark" in [tag["Key"] for tag in iam.list_user_tags(UserName="u")["Tags"]]

    with concurrent.futures.ThreadPoolExecutor(4) as threads:
        for _ in range(60):
            iam.tag_user(UserName="u", Tags=RED)
            iam.untag_user(UserName="u", TagKeys=["mark"])
            waiting = [threads.submit(mark) for _ in range(4)]
            iam.tag_user(UserName="u", Tags=BLUE)
            before = marked()
            for one in waiting:
                one.result()
            assert marked() == before  # nothing of this user was hers to change any more


@pytest.mark.parametrize("change", ["create", "update", "delete"])
def test_keys_of_a_user_whose_tag_changes(daemon, iam, change):
    """A key is another entity than its user, and is changed only while the user is as it was decided about."""
    client = manager(daemon, iam, statement("iam:*AccessKey*", {"StringEquals": {"aws:ResourceTag/team": "red"}}))
    iam.create_user(UserName="u")

    def keys():
        return sorted((key["AccessKeyId"], key["Status"]) for key in iam.list_access_keys(UserName="u")["AccessKeyMetadata"])

    def act(key):
        try:
            if change == "create":
                client.create_access_key(UserName="u")
            elif change == "update":
                client.update_access_key(UserName="u", AccessKeyId=key, Status="Inactive")
            else:
                client.delete_access_key(UserName="u", AccessKeyId=key)
        except client.exceptions.ClientError as error:
            assert error.response["Error"]["Code"] in ("AccessDenied", "LimitExceeded", "NoSuchEntity")

    with concurrent.futures.ThreadPoolExecutor(4) as threads:
        for _ in range(40):
            iam.tag_user(UserName="u", Tags=RED)
            for key, _status in keys():
                iam.delete_access_key(UserName="u", AccessKeyId=key)
            key = iam.create_access_key(UserName="u")["AccessKey"]["AccessKeyId"] if change != "create" else None
            waiting = [threads.submit(act, key) for _ in range(4)]
            iam.tag_user(UserName="u", Tags=BLUE)
            before = keys()
            for one in waiting:
                one.result()
            assert keys() == before  # none of this user's keys was hers to make or change any more


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
