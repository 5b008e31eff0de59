"""UpdateUser and UpdateGroup with new names: who it was stays who it is, with keys, groups, policies and sessions."""
import json
import threading
import time

import pytest
from botocore.exceptions import BotoCoreError, ClientError

from tests.conftest import make_client
from tests.integration.test_iam import ACCOUNT, clear, client_of, policy
from tests.support.boto import boto
from tests.support.daemon import REGION, Daemon
from tests.support.expect import refused


@pytest.fixture(scope="module")
def daemon():
    with Daemon(drives=1).start() as running:
        running.s3 = make_client(running.endpoint, running.access_key, running.secret_key)
        yield running


@pytest.fixture
def iam(daemon):
    yield client_of(daemon, "iam")
    clear(client_of(daemon, "iam"))


def arn(kind, name):
    return f"arn:aws:iam::{ACCOUNT}:{kind}/{name}"


def key_of(iam, user):
    key = iam.create_access_key(UserName=user)["AccessKey"]
    return key["AccessKeyId"], key["SecretAccessKey"]


def test_a_user_keeps_everything(daemon, iam):
    user = iam.create_user(UserName="alice", Path="/a/", Tags=[{"Key": "k", "Value": "v"}])["User"]
    iam.create_group(GroupName="staff")
    iam.add_user_to_group(GroupName="staff", UserName="alice")
    iam.put_user_policy(UserName="alice", PolicyName="own", PolicyDocument=policy("s3:ListAllMyBuckets", "*"))
    key = key_of(iam, "alice")
    session = client_of(daemon, "sts", *key).get_session_token()["Credentials"]
    daemon.s3.create_bucket(Bucket="named")
    daemon.s3.put_object(Bucket="named", Key="k", Body=b"x")
    daemon.s3.put_bucket_policy(Bucket="named", Policy=json.dumps({"Version": "2012-10-17", "Statement": [
        {"Effect": "Allow", "Principal": {"AWS": user["Arn"]}, "Action": "s3:GetObject", "Resource": "arn:aws:s3:::named/*"}]}))
    iam.update_user(UserName="alice", NewUserName="Bob", NewPath="/b/")
    got = iam.get_user(UserName="bob")["User"]
    assert (got["UserName"], got["Path"], got["Arn"], got["UserId"], got["Tags"]) == ("Bob", "/b/", arn("user", "b/Bob"), user["UserId"], [{"Key": "k", "Value": "v"}])
    refused("NoSuchEntity", 404, iam.get_user, UserName="alice")
    assert [u["UserName"] for u in iam.list_users()["Users"]] == ["Bob"] == [u["UserName"] for u in iam.get_group(GroupName="staff")["Users"]]
    assert iam.list_user_policies(UserName="Bob")["PolicyNames"] == ["own"]
    assert [(k["UserName"], k["AccessKeyId"]) for k in iam.list_access_keys(UserName="Bob")["AccessKeyMetadata"]] == [("Bob", key[0])]
    assert client_of(daemon, "sts", *key).get_caller_identity()["Arn"] == arn("user", "b/Bob")
    mine = make_client(daemon.endpoint, *key)
    assert mine.get_object(Bucket="named", Key="k")["Body"].read() == b"x"  # the policy means the id
    assert mine.list_buckets()["Buckets"]
    later = boto("s3", endpoint_url=daemon.endpoint, region_name=REGION, aws_access_key_id=session["AccessKeyId"],
                 aws_secret_access_key=session["SecretAccessKey"], aws_session_token=session["SessionToken"])
    assert later.list_buckets()["Buckets"]
    assert user["UserId"] in daemon.s3.get_bucket_policy(Bucket="named")["Policy"]
    other = iam.create_user(UserName="alice", Path="/a/")["User"]  # somebody else
    assert other["Arn"] == user["Arn"]
    refused("AccessDenied", 403, make_client(daemon.endpoint, *key_of(iam, "alice")).get_object, Bucket="named", Key="k")
    daemon.stop()
    daemon.restart()
    assert make_client(daemon.endpoint, *key).get_object(Bucket="named", Key="k")["Body"].read() == b"x"


def test_what_is_refused(daemon, iam):
    iam.create_user(UserName="alice")
    iam.create_user(UserName="bob")
    refused("EntityAlreadyExists", 409, iam.update_user, UserName="alice", NewUserName="BOB")
    refused("NoSuchEntity", 404, iam.update_user, UserName="carol", NewUserName="dan")
    refused("ValidationError", 400, iam.update_user, UserName="alice", NewUserName="a/b")
    refused("NoSuchEntity", 404, iam.update_group, GroupName="none", NewGroupName="more")
    iam.update_user(UserName="alice", NewUserName="alice")
    iam.update_user(UserName="alice", NewUserName="ALICE")
    assert [u["UserName"] for u in iam.list_users()["Users"]] == ["ALICE", "bob"]


def test_a_group_keeps_its_members(iam):
    group = iam.create_group(GroupName="staff", Path="/x/")["Group"]
    iam.create_group(GroupName="crowd")
    read = iam.create_policy(PolicyName="read", PolicyDocument=policy())["Policy"]["Arn"]
    iam.attach_group_policy(GroupName="staff", PolicyArn=read)
    for name in ("a", "b", "c"):
        iam.create_user(UserName=name)
        iam.add_user_to_group(GroupName="staff", UserName=name)
    refused("EntityAlreadyExists", 409, iam.update_group, GroupName="staff", NewGroupName="Crowd")
    iam.update_group(GroupName="staff", NewGroupName="crew", NewPath="/y/")
    got = iam.get_group(GroupName="crew")
    assert (got["Group"]["GroupId"], got["Group"]["Arn"], [u["UserName"] for u in got["Users"]]) == (group["GroupId"], arn("group", "y/crew"), ["a", "b", "c"])
    assert [g["GroupName"] for g in iam.list_groups_for_user(UserName="b")["Groups"]] == ["crew"]
    assert iam.list_attached_group_policies(GroupName="crew")["AttachedPolicies"] == [{"PolicyName": "read", "PolicyArn": read}]
    assert [g["GroupName"] for g in iam.list_entities_for_policy(PolicyArn=read)["PolicyGroups"]] == ["crew"]
    refused("NoSuchEntity", 404, iam.get_group, GroupName="staff")
    refused("DeleteConflict", 409, iam.delete_group, GroupName="crew")
    iam.update_group(GroupName="crew", NewPath="/z/")
    assert iam.get_group(GroupName="crew")["Group"]["Path"] == "/z/"


def test_both_names_must_be_allowed(daemon, iam):
    """As AWS has it: the right for the old ARN and for the new one."""
    iam.create_user(UserName="manager")
    iam.put_user_policy(UserName="manager", PolicyName="p", PolicyDocument=policy("iam:UpdateUser", [arn("user", "team-*"), arn("user", "manager")]))
    client = client_of(daemon, "iam", *key_of(iam, "manager"))
    iam.create_user(UserName="team-a")
    iam.create_user(UserName="boss")
    refused("AccessDenied", 403, client.update_user, UserName="team-a", NewUserName="admin")
    refused("AccessDenied", 403, client.update_user, UserName="boss", NewUserName="team-boss")
    refused("AccessDenied", 403, client.update_user, UserName="team-a", NewUserName="team-b", NewPath="/x/")
    client.update_user(UserName="team-a", NewUserName="team-b")
    client.update_user(UserName="manager", NewUserName="team-m")  # whoever asks
    client.update_user(UserName="team-b", NewUserName="team-c")


def test_tags_decide_for_both_names(daemon, iam):
    iam.create_user(UserName="manager")
    iam.put_user_policy(UserName="manager", PolicyName="p", PolicyDocument=json.dumps({"Version": "2012-10-17", "Statement": [
        {"Effect": "Allow", "Action": "iam:UpdateUser", "Resource": "*", "Condition": {"StringEquals": {"aws:ResourceTag/team": "red"}}}]}))
    client = client_of(daemon, "iam", *key_of(iam, "manager"))
    iam.create_user(UserName="red", Tags=[{"Key": "team", "Value": "red"}])
    iam.create_user(UserName="blue")
    client.update_user(UserName="red", NewUserName="redder")
    refused("AccessDenied", 403, client.update_user, UserName="blue", NewUserName="bluer")


def test_a_kill_leaves_one_name(rng):
    """Wherever the process is killed, the group has one of the two names afterwards, with all of its members; so has the user, with the keys."""
    with Daemon(drives=1).start() as site:
        iam = client_of(site, "iam")
        group, user = iam.create_group(GroupName="g0")["Group"]["GroupId"], iam.create_user(UserName="u0")["User"]["UserId"]
        keys = [key_of(iam, "u0") for _ in range(2)]
        members = [f"m{n:02}" for n in range(20)]
        for name in members:
            iam.create_user(UserName=name)
            iam.add_user_to_group(GroupName="g0", UserName=name)
        names = ["g0", "u0"]
        for step in range(1, 5):
            def rename():
                try:
                    client_of(site, "iam").update_user(UserName=names[1], NewUserName=f"u{step}")
                    client_of(site, "iam").update_group(GroupName=names[0], NewGroupName=f"g{step}")
                except (ClientError, BotoCoreError):
                    pass  # the connection ends with the process
            thread = threading.Thread(target=rename)
            thread.start()
            time.sleep(rng.random() * 0.3)
            site.kill()
            thread.join()
            site.restart()
            iam = client_of(site, "iam")
            site.wait_until(lambda: len(iam.list_groups()["Groups"]) == 1 and len(iam.list_users()["Users"]) == 21, 60, "to finish what was begun")
            names[0] = iam.list_groups()["Groups"][0]["GroupName"]
            names[1] = next(u["UserName"] for u in iam.list_users()["Users"] if u["UserName"].startswith("u"))
            got = iam.get_group(GroupName=names[0])
            assert got["Group"]["GroupId"] == group and [u["UserName"] for u in got["Users"]] == members
            assert iam.get_user(UserName=names[1])["User"]["UserId"] == user
            assert {k["AccessKeyId"] for k in iam.list_access_keys(UserName=names[1])["AccessKeyMetadata"]} == {key for key, _ in keys}
            for key in keys:
                assert client_of(site, "sts", *key).get_caller_identity()["Arn"] == arn("user", names[1])
