"""IAM and STS, as boto3's clients and awscli send them, on the endpoint of S3."""
import concurrent.futures
import datetime
import hashlib
import hmac
import http.client
import json
import urllib.parse
import urllib.request

import botocore.auth
import botocore.awsrequest
import botocore.config
import botocore.credentials
import pytest
from botocore.exceptions import ClientError

from tests.conftest import make_client
from tests.support.aws_cli import AwsCli
from tests.support.boto import boto
from tests.support.daemon import REGION, Daemon
from tests.support.expect import refused
from tests.integration.test_switches import state

ACCOUNT = "000000000001"
TRUST = json.dumps({"Version": "2012-10-17", "Statement": [
    {"Effect": "Allow", "Principal": {"AWS": ACCOUNT}, "Action": "sts:AssumeRole"}]})


def policy(action="s3:GetObject", resource="arn:aws:s3:::b/*"):
    return json.dumps({"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": action, "Resource": resource}]})


def client_of(daemon, service, access_key=None, secret_key=None, region=REGION):
    config = botocore.config.Config(retries={"total_max_attempts": 1})  # a daemon that is ready answers
    return boto(service, endpoint_url=daemon.endpoint, region_name=region, config=config,
                aws_access_key_id=access_key or daemon.access_key, aws_secret_access_key=secret_key or daemon.secret_key)


@pytest.fixture(scope="module")
def daemon():
    with Daemon(drives=1).start() as running:
        yield running


@pytest.fixture
def iam(daemon):
    """A client, and afterwards a directory without anybody."""
    yield client_of(daemon, "iam")
    clear(client_of(daemon, "iam"))


def pages(call, key, **arguments):
    """All of a list, and of how many pages it came."""
    found, count = [], 0
    while count < 100:
        page = call(**arguments)
        found += page[key]
        count += 1
        if not page["IsTruncated"]:
            return found, count
        arguments["Marker"] = page["Marker"]
    raise AssertionError("the list does not end")


def clear(iam):
    for kind, key in (("User", "Users"), ("Group", "Groups"), ("Role", "Roles")):
        for one in pages(getattr(iam, f"list_{kind.lower()}s"), key)[0]:
            name = {f"{kind}Name": one[f"{kind}Name"]}
            for p in pages(getattr(iam, f"list_attached_{kind.lower()}_policies"), "AttachedPolicies", **name)[0]:
                getattr(iam, f"detach_{kind.lower()}_policy")(PolicyArn=p["PolicyArn"], **name)
            for p in pages(getattr(iam, f"list_{kind.lower()}_policies"), "PolicyNames", **name)[0]:
                getattr(iam, f"delete_{kind.lower()}_policy")(PolicyName=p, **name)
            if kind == "User":
                for k in iam.list_access_keys(**name)["AccessKeyMetadata"]:
                    iam.delete_access_key(AccessKeyId=k["AccessKeyId"], **name)
                for g in iam.list_groups_for_user(**name)["Groups"]:
                    iam.remove_user_from_group(GroupName=g["GroupName"], **name)
            getattr(iam, f"delete_{kind.lower()}")(**name)
    for p in pages(iam.list_policies, "Policies", Scope="Local")[0]:
        for v in iam.list_policy_versions(PolicyArn=p["Arn"])["Versions"]:
            if not v["IsDefaultVersion"]:
                iam.delete_policy_version(PolicyArn=p["Arn"], VersionId=v["VersionId"])
        iam.delete_policy(PolicyArn=p["Arn"])


# ---- users and keys ------------------------------------------------------------------------------


def test_users(iam):
    made = iam.create_user(UserName="Alice", Path="/team/", Tags=[{"Key": "a", "Value": "1 @ ü=2"}])
    user = made["User"]
    assert user["Arn"] == f"arn:aws:iam::{ACCOUNT}:user/team/Alice" and user["Path"] == "/team/" and user["UserName"] == "Alice"
    assert user["UserId"].startswith("AIDA") and len(user["UserId"]) == 21
    assert abs(user["CreateDate"] - datetime.datetime.now(datetime.timezone.utc)) < datetime.timedelta(minutes=10)
    assert made["ResponseMetadata"]["RequestId"]
    assert iam.get_user(UserName="alice")["User"] == {**user, "Tags": [{"Key": "a", "Value": "1 @ ü=2"}]}
    refused("EntityAlreadyExists", 409, iam.create_user, UserName="ALICE")
    refused("NoSuchEntity", 404, iam.get_user, UserName="bob")
    refused("ValidationError", 400, iam.create_user, UserName="a b")
    refused("ValidationError", 400, iam.create_user, UserName="x" * 65)
    refused("ValidationError", 400, iam.create_user, UserName="x", Path="/no-end")
    iam.update_user(UserName="Alice", NewPath="/other/")
    assert iam.get_user(UserName="Alice")["User"]["Arn"].endswith("user/other/Alice")
    iam.delete_user(UserName="Alice")
    refused("NoSuchEntity", 404, iam.delete_user, UserName="Alice")
    assert iam.get_user()["User"]["Arn"] == f"arn:aws:iam::{ACCOUNT}:root"


def test_pages_of_users(iam):
    names = sorted(f"u{i:02}" for i in range(23))
    for i, name in enumerate(names):
        iam.create_user(UserName=name, Path="/even/" if i % 2 == 0 else "/")
    for size in (1, 7, 23, 1000):
        found, count = pages(iam.list_users, "Users", MaxItems=size)
        assert [u["UserName"] for u in found] == names and count == -(-23 // size)
    assert [u["UserName"] for u in pages(iam.list_users, "Users", PathPrefix="/even/", MaxItems=5)[0]] == names[::2]
    refused("ValidationError", 400, iam.list_users, Marker="x" * 200)


def test_a_key_signs_until_it_is_switched_off(daemon, iam):
    iam.create_user(UserName="alice")
    key = iam.create_access_key(UserName="alice")["AccessKey"]
    assert len(key["AccessKeyId"]) == 20 and len(key["SecretAccessKey"]) == 40 and key["Status"] == "Active"
    own = key["AccessKeyId"], key["SecretAccessKey"]
    s3 = make_client(daemon.endpoint, *own)
    refused("AccessDenied", 403, s3.list_buckets)
    refused("AccessDenied", 403, client_of(daemon, "iam", *own).list_users)
    who = client_of(daemon, "sts", *own).get_caller_identity()
    assert (who["Account"], who["Arn"]) == (ACCOUNT, f"arn:aws:iam::{ACCOUNT}:user/alice")
    assert who["UserId"] == iam.get_user(UserName="alice")["User"]["UserId"]
    iam.update_access_key(UserName="alice", AccessKeyId=own[0], Status="Inactive")
    refused("InvalidAccessKeyId", 403, s3.list_buckets)
    refused("InvalidClientTokenId", 403, client_of(daemon, "sts", *own).get_caller_identity)
    iam.update_access_key(UserName="alice", AccessKeyId=own[0], Status="Active")
    refused("AccessDenied", 403, s3.list_buckets)
    listed = iam.list_access_keys(UserName="alice")["AccessKeyMetadata"]
    assert [(k["AccessKeyId"], k["Status"], "SecretAccessKey" in k) for k in listed] == [(own[0], "Active", False)]
    assert iam.get_access_key_last_used(AccessKeyId=own[0])["UserName"] == "alice"
    iam.create_access_key(UserName="alice")
    refused("LimitExceeded", 409, iam.create_access_key, UserName="alice")
    refused("DeleteConflict", 409, iam.delete_user, UserName="alice")
    iam.create_user(UserName="bob")
    refused("NoSuchEntity", 404, iam.delete_access_key, UserName="bob", AccessKeyId=own[0])
    iam.delete_access_key(UserName="alice", AccessKeyId=own[0])
    refused("InvalidAccessKeyId", 403, s3.list_buckets)
    refused("AccessDenied", 403, iam.create_access_key)


def test_who_asks(daemon):
    who = client_of(daemon, "sts").get_caller_identity()
    assert (who["Account"], who["UserId"], who["Arn"]) == (ACCOUNT, ACCOUNT, f"arn:aws:iam::{ACCOUNT}:root")
    refused("SignatureDoesNotMatch", 403, client_of(daemon, "sts", secret_key="wrong").get_caller_identity)
    refused("InvalidClientTokenId", 403, client_of(daemon, "sts", access_key="AKIANOBODY0000000000").get_caller_identity)
    refused("SignatureDoesNotMatch", 403, client_of(daemon, "iam", region="eu-central-1").list_users)


def test_of_many_at_once_none_is_lost(daemon, iam):
    """Changes of one user by others at the same time: each is there afterwards; a name has one winner."""
    iam.create_user(UserName="u")
    with concurrent.futures.ThreadPoolExecutor(6) as threads:
        list(threads.map(lambda i: client_of(daemon, "iam").tag_user(UserName="u", Tags=[{"Key": f"k{i}", "Value": str(i)}]), range(24)))

        def make(_):
            try:
                return client_of(daemon, "iam").create_user(UserName="one")["User"]["UserId"]
            except ClientError as error:
                assert error.response["Error"]["Code"] == "EntityAlreadyExists"
                return None

        made = [user for user in threads.map(make, range(6)) if user]
    assert sorted(t["Key"] for t in iam.list_user_tags(UserName="u")["Tags"]) == sorted(f"k{i}" for i in range(24))
    assert made == [iam.get_user(UserName="one")["User"]["UserId"]]


def test_a_store_that_is_read_only_keeps_its_users(daemon, iam):
    iam.create_user(UserName="u")
    state(daemon, "read-only", "on")
    try:
        answer = refused("AccessDenied", 403, iam.create_user, UserName="v")
        assert "read-only" in answer["Error"]["Message"]
        refused("AccessDenied", 403, iam.delete_user, UserName="u")
        refused("AccessDenied", 403, iam.attach_user_policy, UserName="u", PolicyArn=f"arn:aws:iam::{ACCOUNT}:policy/p")
        assert [u["UserName"] for u in iam.list_users()["Users"]] == ["u"] and iam.get_user(UserName="u")
        assert client_of(daemon, "sts").get_caller_identity()["Account"] == ACCOUNT
        assert state(daemon, "read-only", status=1)["changes_under_way"] == 0
    finally:
        state(daemon, "read-only", "off")


# ---- groups --------------------------------------------------------------------------------------


def test_groups(iam):
    made = iam.create_group(GroupName="Staff", Path="/x/")["Group"]
    assert made["Arn"] == f"arn:aws:iam::{ACCOUNT}:group/x/Staff" and made["GroupId"].startswith("AGPA")
    refused("EntityAlreadyExists", 409, iam.create_group, GroupName="staff")
    for i in range(5):
        iam.create_user(UserName=f"u{i}")
        iam.add_user_to_group(GroupName="staff", UserName=f"u{i}")
    iam.add_user_to_group(GroupName="staff", UserName="u0")
    refused("NoSuchEntity", 404, iam.add_user_to_group, GroupName="none", UserName="u0")
    refused("NoSuchEntity", 404, iam.add_user_to_group, GroupName="staff", UserName="none")
    answer = iam.get_group(GroupName="staff", MaxItems=2)
    assert answer["Group"]["GroupName"] == "Staff" and answer["IsTruncated"]
    assert [u["UserName"] for u in pages(iam.get_group, "Users", GroupName="staff", MaxItems=2)[0]] == [f"u{i}" for i in range(5)]
    assert [g["GroupName"] for g in iam.list_groups_for_user(UserName="u0")["Groups"]] == ["Staff"]
    refused("DeleteConflict", 409, iam.delete_group, GroupName="staff")
    refused("DeleteConflict", 409, iam.delete_user, UserName="u0")
    for i in range(5):
        iam.remove_user_from_group(GroupName="staff", UserName=f"u{i}")
    refused("NoSuchEntity", 404, iam.remove_user_from_group, GroupName="staff", UserName="u0")
    assert [g["GroupName"] for g in iam.list_groups()["Groups"]] == ["Staff"]
    iam.delete_group(GroupName="staff")
    refused("NoSuchEntity", 404, iam.get_group, GroupName="staff")


def test_a_user_is_in_ten_groups_at_most(iam):
    iam.create_user(UserName="u")
    for i in range(11):
        iam.create_group(GroupName=f"g{i}")
    for i in range(10):
        iam.add_user_to_group(GroupName=f"g{i}", UserName="u")
    refused("LimitExceeded", 409, iam.add_user_to_group, GroupName="g10", UserName="u")
    found, count = pages(iam.list_groups_for_user, "Groups", UserName="u", MaxItems=4)
    assert (len(found), count) == (10, 3)


# ---- policies ------------------------------------------------------------------------------------


def test_policies_and_their_versions(iam):
    made = iam.create_policy(PolicyName="Read", PolicyDocument=policy(), Path="/p/", Description="reads",
                             Tags=[{"Key": "k", "Value": "v"}])["Policy"]
    arn = made["Arn"]
    assert arn == f"arn:aws:iam::{ACCOUNT}:policy/p/Read" and made["DefaultVersionId"] == "v1" and made["PolicyId"].startswith("ANPA")
    assert iam.get_policy(PolicyArn=arn)["Policy"]["Description"] == "reads"
    assert iam.get_policy_version(PolicyArn=arn, VersionId="v1")["PolicyVersion"]["Document"] == json.loads(policy())
    refused("EntityAlreadyExists", 409, iam.create_policy, PolicyName="read", PolicyDocument=policy())
    refused("MalformedPolicyDocument", 400, iam.create_policy, PolicyName="bad", PolicyDocument="{}")
    refused("MalformedPolicyDocument", 400, iam.create_policy, PolicyName="bad", PolicyDocument="[" * 1000)
    refused("LimitExceeded", 409, iam.create_policy, PolicyName="bad", PolicyDocument=policy(["s3:" + "x" * 100] * 70))
    refused("NoSuchEntity", 404, iam.get_policy, PolicyArn=arn + "er")
    refused("ValidationError", 400, iam.get_policy, PolicyArn="arn:aws:iam::what:ever")
    for i in range(2, 6):
        version = iam.create_policy_version(PolicyArn=arn, PolicyDocument=policy(f"s3:Get{i}*"), SetAsDefault=i == 3)["PolicyVersion"]
        assert (version["VersionId"], version["IsDefaultVersion"]) == (f"v{i}", i == 3)
    refused("LimitExceeded", 409, iam.create_policy_version, PolicyArn=arn, PolicyDocument=policy())
    refused("DeleteConflict", 409, iam.delete_policy_version, PolicyArn=arn, VersionId="v3")
    refused("NoSuchEntity", 404, iam.delete_policy_version, PolicyArn=arn, VersionId="v9")
    refused("NoSuchEntity", 404, iam.set_default_policy_version, PolicyArn=arn, VersionId="v9")
    iam.set_default_policy_version(PolicyArn=arn, VersionId="v5")
    found, count = pages(iam.list_policy_versions, "Versions", PolicyArn=arn, MaxItems=2)
    assert [v["VersionId"] for v in found] == ["v5", "v4", "v3", "v2", "v1"] and count == 3
    assert [v["VersionId"] for v in found if v["IsDefaultVersion"]] == ["v5"]
    refused("DeleteConflict", 409, iam.delete_policy, PolicyArn=arn)
    assert [p["PolicyName"] for p in iam.list_policies(Scope="Local")["Policies"]] == ["Read"]
    assert len(iam.list_policies()["Policies"]) > 1  # the policies that are always there, too
    refused("ValidationError", 400, iam.list_policies, OnlyAttached=True)


@pytest.mark.parametrize("kind", ["user", "group", "role"])
def test_attached_and_inline_policies(iam, kind):
    title = kind.title()
    name = {f"{title}Name": "one"}
    getattr(iam, f"create_{kind}")(**name, **(dict(AssumeRolePolicyDocument=TRUST) if kind == "role" else {}))
    arns = [iam.create_policy(PolicyName=f"p{i}", PolicyDocument=policy())["Policy"]["Arn"] for i in range(3)]
    attach, detach = getattr(iam, f"attach_{kind}_policy"), getattr(iam, f"detach_{kind}_policy")
    attached, delete = getattr(iam, f"list_attached_{kind}_policies"), getattr(iam, f"delete_{kind}")
    for arn in arns + arns[:1]:
        attach(PolicyArn=arn, **name)
    found, count = pages(attached, "AttachedPolicies", MaxItems=2, **name)
    assert [(p["PolicyName"], p["PolicyArn"]) for p in found] == [(f"p{i}", arns[i]) for i in range(3)] and count == 2
    holders = iam.list_entities_for_policy(PolicyArn=arns[0])
    assert [h[f"{title}Name"] for h in holders[f"Policy{title}s"]] == ["one"] and not holders["IsTruncated"]
    assert sum(len(holders[f"Policy{k}s"]) for k in ("User", "Group", "Role")) == 1
    refused("DeleteConflict", 409, iam.delete_policy, PolicyArn=arns[0])
    refused("DeleteConflict", 409, delete, **name)
    refused("NoSuchEntity", 404, attach, PolicyArn=arns[0] + "x", **name)
    refused("NoSuchEntity", 404, attach, PolicyArn="arn:aws:iam::aws:policy/ThereIsNone", **name)
    for arn in arns:
        detach(PolicyArn=arn, **name)
    refused("NoSuchEntity", 404, detach, PolicyArn=arns[0], **name)

    put, get, drop = (getattr(iam, f"{verb}_{kind}_policy") for verb in ("put", "get", "delete"))
    put(PolicyName="in", PolicyDocument=policy(), **name)
    put(PolicyName="in", PolicyDocument=policy("s3:PutObject"), **name)
    put(PolicyName="too", PolicyDocument=policy(), **name)
    assert get(PolicyName="in", **name)["PolicyDocument"] == json.loads(policy("s3:PutObject"))
    assert getattr(iam, f"list_{kind}_policies")(**name)["PolicyNames"] == ["in", "too"]
    refused("MalformedPolicyDocument", 400, put, PolicyName="bad", PolicyDocument="no", **name)
    refused("NoSuchEntity", 404, get, PolicyName="none", **name)
    refused("NoSuchEntity", 404, drop, PolicyName="none", **name)
    refused("DeleteConflict", 409, delete, **name)
    drop(PolicyName="in", **name)
    drop(PolicyName="too", **name)
    delete(**name)


# ---- roles, tags, boundaries ---------------------------------------------------------------------


def test_roles(iam):
    made = iam.create_role(RoleName="R", AssumeRolePolicyDocument=TRUST, Description="d", MaxSessionDuration=7200)["Role"]
    assert made["Arn"] == f"arn:aws:iam::{ACCOUNT}:role/R" and made["RoleId"].startswith("AROA")
    assert made["AssumeRolePolicyDocument"] == json.loads(TRUST) and made["MaxSessionDuration"] == 7200
    refused("EntityAlreadyExists", 409, iam.create_role, RoleName="r", AssumeRolePolicyDocument=TRUST)
    refused("MalformedPolicyDocument", 400, iam.create_role, RoleName="bad", AssumeRolePolicyDocument=policy())
    refused("ValidationError", 400, iam.create_role, RoleName="bad", AssumeRolePolicyDocument=TRUST, MaxSessionDuration=99999)
    iam.update_role(RoleName="R", Description="other")
    other = TRUST.replace("Allow", "Deny")
    iam.update_assume_role_policy(RoleName="R", PolicyDocument=other)
    role = iam.get_role(RoleName="R")["Role"]
    assert (role["Description"], role["MaxSessionDuration"], role["AssumeRolePolicyDocument"]) == ("other", 7200, json.loads(other))
    assert [r["RoleName"] for r in iam.list_roles()["Roles"]] == ["R"]
    iam.delete_role(RoleName="R")
    refused("NoSuchEntity", 404, iam.get_role, RoleName="R")


def test_tags(iam):
    iam.create_user(UserName="u")
    iam.create_role(RoleName="u", AssumeRolePolicyDocument=TRUST)
    arn = iam.create_policy(PolicyName="u", PolicyDocument=policy())["Policy"]["Arn"]
    for kind, name in (("user", {"UserName": "u"}), ("role", {"RoleName": "u"}), ("policy", {"PolicyArn": arn})):
        tag, untag, listed = (getattr(iam, call.format(kind)) for call in ("tag_{}", "untag_{}", "list_{}_tags"))
        tag(Tags=[{"Key": f"k{i}", "Value": f"ü {i}"} for i in range(50)], **name)
        tag(Tags=[{"Key": "K1", "Value": ""}], **name)
        refused("LimitExceeded", 409, tag, Tags=[{"Key": "more", "Value": ""}], **name)
        refused("InvalidInput", 400, tag, Tags=[{"Key": "a", "Value": ""}, {"Key": "A", "Value": ""}], **name)
        refused("ValidationError", 400, tag, Tags=[{"Key": "k" * 129, "Value": ""}], **name)
        found, count = pages(listed, "Tags", MaxItems=20, **name)
        assert {t["Key"]: t["Value"] for t in found} == {**{f"k{i}": f"ü {i}" for i in range(50) if i != 1}, "K1": ""} and count == 3
        untag(TagKeys=[f"k{i}" for i in range(50) if i != 7], **name)
        assert listed(**name)["Tags"] == [{"Key": "k7", "Value": "ü 7"}]


def test_boundaries(iam):
    arn = iam.create_policy(PolicyName="edge", PolicyDocument=policy())["Policy"]["Arn"]
    iam.create_user(UserName="u", PermissionsBoundary=arn)
    iam.create_role(RoleName="r", AssumeRolePolicyDocument=TRUST)
    iam.put_role_permissions_boundary(RoleName="r", PermissionsBoundary=arn)
    assert iam.get_user(UserName="u")["User"]["PermissionsBoundary"]["PermissionsBoundaryArn"] == arn
    assert iam.get_role(RoleName="r")["Role"]["PermissionsBoundary"]["PermissionsBoundaryArn"] == arn
    held = iam.list_entities_for_policy(PolicyArn=arn, PolicyUsageFilter="PermissionsBoundary")
    assert [u["UserName"] for u in held["PolicyUsers"]] == ["u"] and [r["RoleName"] for r in held["PolicyRoles"]] == ["r"]
    refused("DeleteConflict", 409, iam.delete_policy, PolicyArn=arn)
    iam.delete_user_permissions_boundary(UserName="u")
    iam.delete_role_permissions_boundary(RoleName="r")
    refused("NoSuchEntity", 404, iam.delete_user_permissions_boundary, UserName="u")
    refused("NoSuchEntity", 404, iam.put_user_permissions_boundary, UserName="u", PermissionsBoundary=arn + "x")


# ---- the request itself --------------------------------------------------------------------------


def post(daemon, body, service="iam", path="/", **changes):
    """A signed form. changes: what is sent instead of what was signed, or otherwise signed."""
    now = datetime.datetime.now(datetime.timezone.utc) + changes.get("later", datetime.timedelta())
    date, day = now.strftime("%Y%m%dT%H%M%SZ"), now.strftime("%Y%m%d")
    host = daemon.endpoint.split("//")[1]
    headers = {"content-type": "application/x-www-form-urlencoded; charset=utf-8", "host": host, "x-amz-date": date, **changes.get("headers", {})}
    names = ";".join(sorted(headers))
    canonical = "\n".join(["POST", path, "", *(f"{k}:{headers[k]}" for k in sorted(headers)), "", names,
                           headers.get("x-amz-content-sha256", hashlib.sha256(body).hexdigest())])
    scope = f"{day}/us-east-1/{service}/aws4_request"
    text = "\n".join(["AWS4-HMAC-SHA256", date, scope, hashlib.sha256(canonical.encode()).hexdigest()])
    access_key, secret_key = changes.get("key", (daemon.access_key, daemon.secret_key))
    key = ("AWS4" + secret_key).encode()
    for part in (day, "us-east-1", service, "aws4_request", text):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    headers["Authorization"] = f"AWS4-HMAC-SHA256 Credential={access_key}/{scope}, SignedHeaders={names}, Signature={key.hex()}"
    connection = http.client.HTTPConnection(host, timeout=20)
    connection.request("POST", path, body=changes.get("sent", body), headers={k: v for k, v in headers.items() if k not in changes.get("without", ())})
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    return answer.status, text


def form(**parameters):
    return urllib.parse.urlencode({"Version": "2010-05-08", **parameters}).encode()


def test_forms_that_are_wrong(daemon, iam):
    def says(code, status, answer):
        assert answer[0] == status and f"<Code>{code}</Code>" in answer[1], answer

    good = form(Action="ListUsers")
    assert post(daemon, good)[0] == 200
    assert post(daemon, good, headers={"x-amz-content-sha256": hashlib.sha256(good).hexdigest()})[0] == 200
    says("SignatureDoesNotMatch", 403, post(daemon, good, headers={"x-amz-content-sha256": hashlib.sha256(b"").hexdigest()}))
    says("IncompleteSignature", 400, post(daemon, good, headers={"x-amz-content-sha256": "UNSIGNED-PAYLOAD"}))
    says("SignatureDoesNotMatch", 403, post(daemon, good, sent=form(Action="DeleteUser", UserName="x")))
    says("SignatureDoesNotMatch", 403, post(daemon, good, sent=good[:-1] + b"z"))
    says("SignatureDoesNotMatch", 403, post(daemon, good, service="s3"))
    says("SignatureDoesNotMatch", 403, post(daemon, good, later=datetime.timedelta(hours=1)))
    says("MissingAuthenticationToken", 403, post(daemon, good, without=("Authorization",)))
    says("InvalidAction", 400, post(daemon, good, service="sts"))
    says("InvalidAction", 400, post(daemon, b"Action=ListUsers"))
    says("InvalidAction", 400, post(daemon, form(Action="MakeCoffee")))
    says("MissingAction", 400, post(daemon, b""))
    says("MalformedQueryString", 404, post(daemon, good + b"&a=%zz"))
    says("MalformedQueryString", 404, post(daemon, good + b"&Action=ListUsers"))
    for number in (b"x", b"1x", b""):
        says("MalformedInput", 400, post(daemon, good + b"&MaxItems=" + number))
    tags = {"Tags.member.1.Key": "a", "Tags.member.1.Value": "1", "Tags.member.2.Key": "A", "Tags.member.2.Value": "2"}
    says("InvalidInput", 400, post(daemon, form(Action="CreateUser", UserName="twice", **tags)))
    says("ValidationError", 400, post(daemon, form(Action="CreateUser", UserName="odd", **{"Tags.member.1.Key": "a*", "Tags.member.1.Value": ""})))
    assert iam.list_users()["Users"] == []

    says("MalformedQueryString", 404, post(daemon, good + b"".join(b"&a%d=" % i for i in range(300))))
    says("ValidationError", 400, post(daemon, good + b"&Unheard=1"))
    says("ValidationError", 400, post(daemon, form(Action="DeleteUser")))
    says("RequestEntityTooLarge", 413, post(daemon, good + b"&x=" + b"y" * (64 << 10)))
    assert post(daemon, good, path="/bucket")[0] != 200, "S3's paths are not signed for IAM"


def get(daemon, query, service="iam", headers=(), secret_key=None, presigned=None, added=""):
    """GET of a signed query; presigned: by the URL, for so many seconds (0: it does not say)."""
    request = botocore.awsrequest.AWSRequest("GET", f"{daemon.endpoint}/?{query}", headers=dict(headers))
    keys = botocore.credentials.Credentials(daemon.access_key, secret_key or daemon.secret_key)
    if presigned is None:
        botocore.auth.SigV4Auth(keys, service, "us-east-1").add_auth(request)
    elif service:
        botocore.auth.SigV4QueryAuth(keys, service, "us-east-1", expires=presigned).add_auth(request)
    connection = http.client.HTTPConnection(daemon.endpoint.split("//")[1], timeout=20)
    connection.request("GET", "/?" + request.prepare().url.split("?", 1)[1] + added, headers=dict(request.headers))
    answer = connection.getresponse()
    text = answer.read().decode()
    assert "<ListAllMyBucketsResult" in text or answer.headers["Cache-Control"] == "no-store"
    connection.close()
    return answer.status, text


def test_queries_in_place_of_forms(daemon, iam):
    def says(code, status, answer):
        assert answer[0] == status and f"<Code>{code}</Code>" in answer[1] and "<ErrorResponse xmlns=" in answer[1], answer

    users, identity = "Action=ListUsers&Version=2010-05-08", "Action=GetCallerIdentity&Version=2011-06-15"
    assert "<UserName>by+get</UserName>" in get(daemon, "Action=CreateUser&UserName=by%2Bget&Version=2010-05-08")[1]
    assert "<UserName>by+get</UserName>" in get(daemon, users)[1]
    for seconds in (1, 60, 900, 604800):
        assert f"<Arn>arn:aws:iam::{ACCOUNT}:root</Arn>" in get(daemon, identity, "sts", presigned=seconds)[1]
    url = client_of(daemon, "sts").generate_presigned_url("get_caller_identity", HttpMethod="GET")
    assert "GetCallerIdentityResult" in urllib.request.urlopen(url).read().decode()
    # what is signed for S3 stays S3's
    unsigned = {"x-amz-content-sha256": hashlib.sha256(b"").hexdigest()}
    assert "<ListAllMyBucketsResult" in get(daemon, users, "s3", headers=unsigned)[1]
    for service, answer in ((service, get(daemon, users, service, presigned=60)) for service in ("sts", "ec2")):
        says("InvalidAction" if service == "sts" else "SignatureDoesNotMatch", 400 if service == "sts" else 403, answer)
    says("SignatureDoesNotMatch", 403, get(daemon, users, secret_key="wrong"))
    says("SignatureDoesNotMatch", 403, get(daemon, users, secret_key="wrong", presigned=60))
    says("SignatureDoesNotMatch", 403, get(daemon, users, added="&PathPrefix=/a"))
    says("SignatureDoesNotMatch", 403, get(daemon, users, presigned=60, added="&PathPrefix=/a"))
    says("MalformedQueryString", 404, get(daemon, users + "&Action=DeleteUser"))
    says("RequestExpired", 400, get(daemon, users, presigned=0))
    for wrong in ({"Authorization": "Basic YTpi"}, {"Authorization": "nothing"}, {}):
        says("MissingAuthenticationToken", 403, get(daemon, users, service="", presigned=0, headers=wrong))
    says("IncompleteSignature", 400, get(daemon, users, service="", presigned=0, headers={"Authorization": "AWS a:b"}))
    for scope in ("20200101/us-east-1/iam/aws4_request", "20200101/us-east-1/iam/request"):
        wrong = {"Authorization": f"AWS4-HMAC-SHA256 Credential=a/{scope}, SignedHeaders=host, Signature={'0' * 64}", "X-Amz-Date": "20200102T000000Z"}
        says("SignatureDoesNotMatch", 403, get(daemon, users, service="", presigned=0, headers=wrong))
    wrong["Authorization"] = wrong["Authorization"].replace("/request", "/aws4_request").replace("0101", "0102")
    answer = get(daemon, users, service="", presigned=0, headers=wrong)
    assert "<Code>SignatureDoesNotMatch</Code><Message>Signature expired: 20200102T000000Z is now earlier than" in answer[1], answer


def test_a_user_may_do_nothing(daemon, iam):
    """Each action asks, also where its parameters are wrong; those that are not offered say so to root alike."""
    iam.create_user(UserName="u")
    key = iam.create_access_key(UserName="u")["AccessKey"]
    own = key["AccessKeyId"], key["SecretAccessKey"]
    offered = 0
    for action in iam.meta.service_model.operation_names:
        as_user, as_root = post(daemon, form(Action=action), key=own), post(daemon, form(Action=action, Unheard="1"))
        if "<Code>InvalidAction</Code>" in as_root[1]:
            assert as_user[0] == 400 and "<Code>InvalidAction</Code>" in as_user[1], (action, as_user)
            continue
        offered += 1
        assert as_user[0] == 403 and "<Code>AccessDenied</Code>" in as_user[1] and f"iam:{action}" in as_user[1], (action, as_user)
        assert as_root[0] == 400 and "<Code>ValidationError</Code>" in as_root[1], (action, as_root)
    assert offered == 83


def test_everything_is_there_after_a_restart(iam, daemon):
    iam.create_user(UserName="u", Tags=[{"Key": "k", "Value": "v"}])
    key = iam.create_access_key(UserName="u")["AccessKey"]
    iam.create_group(GroupName="g")
    iam.add_user_to_group(GroupName="g", UserName="u")
    arn = iam.create_policy(PolicyName="p", PolicyDocument=policy())["Policy"]["Arn"]
    iam.attach_group_policy(GroupName="g", PolicyArn=arn)
    iam.create_role(RoleName="r", AssumeRolePolicyDocument=TRUST)

    def everything(client):
        calls = [client.list_users(), client.list_groups(), client.list_policies(), client.list_roles(), client.list_access_keys(UserName="u"),
                 client.get_group(GroupName="g"), client.list_attached_group_policies(GroupName="g"), client.list_user_tags(UserName="u")]
        return [{k: v for k, v in answer.items() if k != "ResponseMetadata"} for answer in calls]

    before = everything(iam)
    daemon.stop()
    secret = key["SecretAccessKey"].encode()
    kept = [path for drive in daemon.drives for path in drive.rglob("*") if path.is_file()]
    assert kept and not [path for path in [daemon.log, *kept] if secret in path.read_bytes()], "a secret lies open"
    daemon.restart()
    again = client_of(daemon, "iam")
    assert everything(again) == before
    refused("AccessDenied", 403, make_client(daemon.endpoint, key["AccessKeyId"], key["SecretAccessKey"]).list_buckets)


def test_awscli(daemon, iam, tmp_path):
    aws = AwsCli({"AWS_ACCESS_KEY_ID": daemon.access_key, "AWS_SECRET_ACCESS_KEY": daemon.secret_key, "AWS_DEFAULT_REGION": REGION,
                  "HOME": str(tmp_path), "AWS_EC2_METADATA_DISABLED": "true"}, tmp_path)

    def ask(*words, **options):
        out = aws(*words, "--endpoint-url", daemon.endpoint, **options)
        return json.loads(out) if out.strip() else None

    document = tmp_path / "read.json"
    document.write_text(policy())
    assert ask("iam", "create-user", "--user-name", "alice")["User"]["UserName"] == "alice"
    assert ask("iam", "create-access-key", "--user-name", "alice")["AccessKey"]["SecretAccessKey"]
    arn = ask("iam", "create-policy", "--policy-name", "read", "--policy-document", f"file://{document}")["Policy"]["Arn"]
    ask("iam", "attach-user-policy", "--user-name", "alice", "--policy-arn", arn)
    assert ask("iam", "list-attached-user-policies", "--user-name", "alice")["AttachedPolicies"] == [{"PolicyName": "read", "PolicyArn": arn}]
    assert ask("sts", "get-caller-identity")["Account"] == ACCOUNT
    ask("iam", "create-user", "--user-name", "alice", fails=True)
