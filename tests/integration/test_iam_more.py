"""IAM beyond single entities: policies that are always there, whole accounts, simulations, figures."""
import datetime
import json

import pytest

from tests.conftest import make_client
from tests.integration.test_iam import ACCOUNT, TRUST, clear, client_of, pages, policy
from tests.support.daemon import Daemon
from tests.support.expect import refused
from tests.support.s3raw import RawClient

AWS = "arn:aws:iam::aws:policy/"


@pytest.fixture(scope="module")
def daemon():
    with Daemon(drives=1).start() as running:
        yield running


@pytest.fixture
def iam(daemon):
    yield client_of(daemon, "iam")
    clear(client_of(daemon, "iam"))


# ---- policies that are always there ----------------------------------------------------------------


def test_canned_policies_are_shown(iam):
    canned = iam.list_policies(Scope="AWS")["Policies"]
    assert {"AdministratorAccess", "AmazonS3ReadOnlyAccess", "readwrite"} <= {p["PolicyName"] for p in canned}
    own = iam.create_policy(PolicyName="own", PolicyDocument=policy())["Policy"]["Arn"]
    every = [p["Arn"] for p in canned] + [own]
    for size in (1, 3, len(canned), 100):
        assert [p["Arn"] for p in pages(iam.list_policies, "Policies", MaxItems=size)[0]] == every
        assert [p["Arn"] for p in pages(iam.list_policies, "Policies", Scope="AWS", MaxItems=size)[0]] == every[:-1]
        assert [p["Arn"] for p in pages(iam.list_policies, "Policies", Scope="Local", MaxItems=size)[0]] == [own]
    arn = AWS + "AmazonS3ReadOnlyAccess"
    got = iam.get_policy(PolicyArn=arn)["Policy"]
    assert (got["Arn"], got["PolicyId"], got["DefaultVersionId"]) == (arn, "ANPAIZTJ4DXE7G6AGAE6M", "v1")
    document = iam.get_policy_version(PolicyArn=arn, VersionId="v1")["PolicyVersion"]["Document"]
    assert "s3:Get*" in document["Statement"][0]["Action"]
    assert [v["VersionId"] for v in iam.list_policy_versions(PolicyArn=arn)["Versions"]] == ["v1"]
    refused("NoSuchEntity", 404, iam.get_policy, PolicyArn=AWS + "NoSuch")
    refused("NoSuchEntity", 404, iam.get_policy_version, PolicyArn=arn, VersionId="v2")
    iam.create_user(UserName="alice")
    iam.attach_user_policy(UserName="alice", PolicyArn=arn)
    assert [u["UserName"] for u in iam.list_entities_for_policy(PolicyArn=arn)["PolicyUsers"]] == ["alice"]


def test_canned_policies_stay_as_they_are(iam):
    arn = AWS + "readonly"
    refused("AccessDenied", 403, iam.delete_policy, PolicyArn=arn)
    refused("AccessDenied", 403, iam.create_policy_version, PolicyArn=arn, PolicyDocument=policy())
    refused("AccessDenied", 403, iam.set_default_policy_version, PolicyArn=arn, VersionId="v1")
    refused("AccessDenied", 403, iam.delete_policy_version, PolicyArn=arn, VersionId="v1")
    refused("AccessDenied", 403, iam.tag_policy, PolicyArn=arn, Tags=[{"Key": "a", "Value": "b"}])
    user = iam.create_user(UserName="bounded", PermissionsBoundary=arn)["User"]
    assert user["UserName"] == "bounded"


# ---- whole accounts ------------------------------------------------------------------------------


def test_an_account_with_all_it_has(iam):
    assert iam.list_account_aliases()["AccountAliases"] == []
    read = iam.create_policy(PolicyName="read", PolicyDocument=policy())["Policy"]["Arn"]
    iam.create_group(GroupName="staff")
    iam.put_group_policy(GroupName="staff", PolicyName="in", PolicyDocument=policy("s3:PutObject"))
    iam.create_role(RoleName="robot", AssumeRolePolicyDocument=TRUST)
    for name in ("alice", "bob", "carol"):
        iam.create_user(UserName=name)
    iam.add_user_to_group(GroupName="staff", UserName="bob")
    iam.attach_user_policy(UserName="bob", PolicyArn=read)
    summary = iam.get_account_summary()["SummaryMap"]
    assert [summary[k] for k in ("Users", "Groups", "Roles", "Policies", "VersionsPerPolicyQuota")] == [3, 1, 1, 1, 5]

    lists = {"User": "UserDetailList", "Group": "GroupDetailList", "Role": "RoleDetailList", "LocalManagedPolicy": "Policies"}
    whole = iam.get_account_authorization_details(Filter=list(lists))
    assert not whole["IsTruncated"] and [len(whole[lists[k]]) for k in lists] == [3, 1, 1, 1]
    bob = whole["UserDetailList"][1]
    assert bob["GroupList"] == ["staff"] and bob["AttachedManagedPolicies"] == [{"PolicyName": "read", "PolicyArn": read}]
    assert whole["GroupDetailList"][0]["GroupPolicyList"][0]["PolicyDocument"] == json.loads(policy("s3:PutObject"))
    assert whole["RoleDetailList"][0]["AssumeRolePolicyDocument"] == json.loads(TRUST)
    assert whole["Policies"][0]["PolicyVersionList"][0]["Document"] == json.loads(policy())
    for size in (1, 2, 5):
        found = {k: [] for k in lists.values()}
        for page in iam.get_paginator("get_account_authorization_details").paginate(PaginationConfig={"PageSize": size}):
            assert sum(len(page.get(k, [])) for k in found) <= size
            for k in found:
                found[k] += page.get(k, [])
        canned = len(iam.list_policies(Scope="AWS")["Policies"])
        assert [len(found[k]) for k in lists.values()] == [3, 1, 1, 1 + canned]
    only = iam.get_account_authorization_details(Filter=["Group"])
    assert only.get("UserDetailList", []) == [] and len(only["GroupDetailList"]) == 1
    refused("ValidationError", 400, iam.get_account_authorization_details, Filter=["Bucket"])
    refused("ValidationError", 400, iam.get_account_authorization_details, Marker="9/x")


# ---- policies keep whom they name ------------------------------------------------------------------


def key_client(daemon, iam, user):
    key = iam.create_access_key(UserName=user)["AccessKey"]
    return make_client(daemon.endpoint, key["AccessKeyId"], key["SecretAccessKey"]), key["AccessKeyId"]


def test_who_gets_a_name_later_gets_nothing_by_it(daemon, iam):
    root = make_client(daemon.endpoint, daemon.access_key, daemon.secret_key)
    root.create_bucket(Bucket="bound")
    root.put_object(Bucket="bound", Key="k", Body=b"text")
    first = iam.create_user(UserName="alice")["User"]
    document = json.dumps({"Version": "2012-10-17", "Statement": [
        {"Effect": "Allow", "Principal": {"AWS": [first["Arn"], f"arn:aws:iam::{ACCOUNT}:root"]}, "Action": "s3:GetObject", "Resource": "arn:aws:s3:::bound/*"}]}, indent=2)
    root.put_bucket_policy(Bucket="bound", Policy=document)
    assert root.get_bucket_policy(Bucket="bound")["Policy"] == document
    alice, key = key_client(daemon, iam, "alice")
    assert alice.get_object(Bucket="bound", Key="k")["Body"].read() == b"text"

    iam.update_user(UserName="alice", NewPath="/moved/")  # still the same user
    assert alice.get_object(Bucket="bound", Key="k")["Body"].read() == b"text"
    shown = json.loads(root.get_bucket_policy(Bucket="bound")["Policy"])["Statement"][0]["Principal"]["AWS"]
    assert shown == [first["Arn"].replace("/alice", "/moved/alice"), f"arn:aws:iam::{ACCOUNT}:root"]

    iam.delete_access_key(UserName="alice", AccessKeyId=key)
    iam.delete_user(UserName="alice")
    iam.create_user(UserName="alice")
    key = iam.create_access_key(UserName="alice")["AccessKey"]
    own = key["AccessKeyId"], key["SecretAccessKey"]
    refused("AccessDenied", 403, make_client(daemon.endpoint, *own).get_object, Bucket="bound", Key="k")
    shown = json.loads(root.get_bucket_policy(Bucket="bound")["Policy"])["Statement"][0]["Principal"]["AWS"]
    assert shown == [first["UserId"], f"arn:aws:iam::{ACCOUNT}:root"]
    daemon.stop()
    daemon.restart()
    root, other = make_client(daemon.endpoint, daemon.access_key, daemon.secret_key), make_client(daemon.endpoint, *own)
    refused("AccessDenied", 403, other.get_object, Bucket="bound", Key="k")
    root.put_bucket_policy(Bucket="bound", Policy=document)  # now it names the new one
    assert other.get_object(Bucket="bound", Key="k")["Body"].read() == b"text"
    refused("MalformedPolicy", 400, root.put_bucket_policy, Bucket="bound", Policy=document + f"\n#1\n{first['UserId']} {first['Arn']}\n")


def test_a_trust_policy_keeps_whom_it_names(iam):
    first = iam.create_user(UserName="alice")["User"]
    trust = json.dumps({"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Principal": {"AWS": first["Arn"]}, "Action": "sts:AssumeRole"}]})
    role = iam.create_role(RoleName="robot", AssumeRolePolicyDocument=trust)["Role"]
    assert role["AssumeRolePolicyDocument"]["Statement"][0]["Principal"]["AWS"] == first["Arn"]
    iam.delete_user(UserName="alice")
    iam.create_user(UserName="alice")
    assert iam.get_role(RoleName="robot")["Role"]["AssumeRolePolicyDocument"]["Statement"][0]["Principal"]["AWS"] == first["UserId"]
    iam.update_role(RoleName="robot", Description="the trust policy stays as it is")
    assert iam.list_roles()["Roles"][0]["AssumeRolePolicyDocument"]["Statement"][0]["Principal"]["AWS"] == first["UserId"]
    refused("MalformedPolicyDocument", 400, iam.update_assume_role_policy, RoleName="robot", PolicyDocument=trust.replace("alice", "nobody"))
    iam.update_assume_role_policy(RoleName="robot", PolicyDocument=trust)
    assert iam.get_role(RoleName="robot")["Role"]["AssumeRolePolicyDocument"]["Statement"][0]["Principal"]["AWS"] == first["Arn"]


# ---- simulations ---------------------------------------------------------------------------------


def decisions(answer):
    return [(r["EvalActionName"], r["EvalResourceName"], r["EvalDecision"]) for r in answer["EvaluationResults"]]


def test_simulated_documents(iam):
    documents = [policy("s3:Get*", "arn:aws:s3:::b/*"), json.dumps({"Version": "2012-10-17", "Statement": [
        {"Effect": "Allow", "Action": "s3:ListBucket", "Resource": "*"},
        {"Effect": "Deny", "Action": "s3:*", "Resource": "arn:aws:s3:::b/secret/*",
         "Condition": {"Bool": {"aws:SecureTransport": "false"}}}]}, indent=1)]
    ask = {"PolicyInputList": documents, "ActionNames": ["s3:GetObject", "s3:PutObject"],
           "ResourceArns": ["arn:aws:s3:::b/k", "arn:aws:s3:::b/secret/k"]}
    answer = iam.simulate_custom_policy(**ask)
    assert [d[2] for d in decisions(answer)] == ["allowed", "allowed", "implicitDeny", "implicitDeny"]
    assert answer["EvaluationResults"][1]["MissingContextValues"] == ["aws:SecureTransport"]
    matched = answer["EvaluationResults"][0]["MatchedStatements"]
    assert [(m["SourcePolicyId"], m["StartPosition"]["Line"]) for m in matched] == [("PolicyInputList.1", 1)]
    plain = [{"ContextKeyName": "aws:SecureTransport", "ContextKeyType": "boolean", "ContextKeyValues": ["false"]}]
    answer = iam.simulate_custom_policy(ContextEntries=plain, **ask)
    assert [d[2] for d in decisions(answer)] == ["allowed", "explicitDeny", "implicitDeny", "explicitDeny"]
    denied = answer["EvaluationResults"][1]["MatchedStatements"][0]
    lines = documents[1].split("\n")
    assert denied["SourcePolicyId"] == "PolicyInputList.2"
    assert lines[denied["StartPosition"]["Line"] - 1][denied["StartPosition"]["Column"] - 1:] == "{"
    assert '"Deny"' in lines[denied["StartPosition"]["Line"]]
    whole = decisions(iam.simulate_custom_policy(**ask))
    assert [d for p in iam.get_paginator("simulate_custom_policy").paginate(PaginationConfig={"PageSize": 1}, **ask) for d in decisions(p)] == whole
    # a boundary limits, and a bucket's policy grants
    bounded = iam.simulate_custom_policy(PermissionsBoundaryPolicyInputList=[policy("s3:PutObject")], **ask)["EvaluationResults"][0]
    assert bounded["EvalDecision"] == "implicitDeny" and bounded["PermissionsBoundaryDecisionDetail"] == {"AllowedByPermissionsBoundary": False}
    caller = f"arn:aws:iam::{ACCOUNT}:user/alice"
    bucket = json.dumps({"Version": "2012-10-17", "Statement": [
        {"Effect": "Allow", "Principal": {"AWS": caller}, "Action": "s3:PutObject", "Resource": "arn:aws:s3:::b/*"}]})
    assert decisions(iam.simulate_custom_policy(CallerArn=caller, ResourcePolicy=bucket, **ask))[2][2] == "allowed"
    refused("InvalidInput", 400, iam.simulate_custom_policy, ResourcePolicy=bucket, **ask)
    refused("InvalidInput", 400, iam.simulate_custom_policy, PolicyInputList=["{}"], ActionNames=["s3:GetObject"])
    refused("InvalidInput", 400, iam.simulate_custom_policy, PolicyInputList=[policy()], ActionNames=["GetObject"])


def test_a_simulation_too_dear_for_one_page(iam):
    """A page ends early, so that others are answered meanwhile; its marker goes on where it ended."""
    costly = [json.dumps({"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "*", "Resource": [
        f"arn:aws:s3:::*ab*cd*x{i}*" for i in range(start, start + 140)]}]}) for start in range(0, 700, 140)]
    actions = [f"s3:A{i}" for i in range(100)]
    ask = {"PolicyInputList": costly, "ActionNames": actions, "MaxItems": 1000,
           "ResourceArns": [f"arn:aws:s3:::b{i}/" + "abcd" * 240 for i in range(10)]}
    first, seen = iam.simulate_custom_policy(**ask), 0
    assert first["IsTruncated"] and 0 < len(first["EvaluationResults"]) < 1000 and first["Marker"] == str(len(first["EvaluationResults"]))
    for _ in range(3):
        more = iam.simulate_custom_policy(Marker=str(seen), **ask)
        assert decisions(more)[0][:2] == (actions[seen // 10], ask["ResourceArns"][seen % 10])
        seen += len(more["EvaluationResults"])
        assert seen == 1000 or more["Marker"] == str(seen)
        if seen == 1000:
            break


def test_a_simulated_user(daemon, iam):
    iam.create_group(GroupName="staff")
    iam.put_group_policy(GroupName="staff", PolicyName="in", PolicyDocument=policy("s3:PutObject"))
    arn = iam.create_user(UserName="alice")["User"]["Arn"]
    iam.add_user_to_group(GroupName="staff", UserName="alice")
    iam.attach_user_policy(UserName="alice", PolicyArn=AWS + "readonly")
    ask = {"PolicySourceArn": arn, "ActionNames": ["s3:GetObject", "s3:PutObject", "s3:DeleteObject"], "ResourceArns": ["arn:aws:s3:::b/k"]}
    answer = iam.simulate_principal_policy(**ask)
    assert [d[2] for d in decisions(answer)] == ["allowed", "allowed", "implicitDeny"]
    assert [[m["SourcePolicyType"] for m in r["MatchedStatements"]] for r in answer["EvaluationResults"]] == [["aws-managed"], ["group"], []]
    iam.put_user_permissions_boundary(UserName="alice", PermissionsBoundary=AWS + "writeonly")
    assert [d[2] for d in decisions(iam.simulate_principal_policy(**ask))] == ["implicitDeny", "allowed", "implicitDeny"]
    refused("NoSuchEntity", 404, iam.simulate_principal_policy, PolicySourceArn=arn[:-1], ActionNames=["s3:GetObject"])
    refused("InvalidInput", 400, iam.simulate_principal_policy, PolicySourceArn=f"arn:aws:iam::{ACCOUNT}:root", ActionNames=["s3:GetObject"])
    key = iam.create_access_key(UserName="alice")["AccessKey"]
    own = client_of(daemon, "iam", key["AccessKeyId"], key["SecretAccessKey"])
    refused("AccessDenied", 403, own.simulate_principal_policy, **ask)
    refused("AccessDenied", 403, own.get_account_authorization_details)
    refused("AccessDenied", 403, own.get_account_summary)


def test_other_letters_get_around_no_deny(daemon, iam):
    arn = iam.create_user(UserName="bob")["User"]["Arn"]
    kept = iam.create_policy(PolicyName="kept", PolicyDocument=policy())["Policy"]["Arn"]
    iam.create_user(UserName="alice")
    iam.put_user_policy(UserName="alice", PolicyName="p", PolicyDocument=json.dumps({"Version": "2012-10-17", "Statement": [
        {"Effect": "Allow", "Action": "iam:*", "Resource": "*"}, {"Effect": "Deny", "Action": "iam:*", "Resource": [arn, kept]}]}))
    key = iam.create_access_key(UserName="alice")["AccessKey"]
    own = client_of(daemon, "iam", key["AccessKeyId"], key["SecretAccessKey"])
    for spelled in (arn, arn.replace("bob", "BOB")):
        refused("AccessDenied", 403, own.simulate_principal_policy, PolicySourceArn=spelled, ActionNames=["s3:GetObject"])
    for spelled in (kept, kept.replace("kept", "KEPT")):
        refused("AccessDenied", 403, own.get_policy, PolicyArn=spelled)
        refused("AccessDenied", 403, own.delete_policy, PolicyArn=spelled)


# ---- figures -------------------------------------------------------------------------------------


def test_requests_are_counted_by_service(daemon, iam):
    iam.list_users()
    client_of(daemon, "sts").get_caller_identity()
    text = daemon.admin_get("/metrics")[1]
    text = text.decode() if isinstance(text, bytes) else text
    counted = [line for line in text.split("\n") if line.startswith("millrace_requests_total{") and not line.endswith(" 0")]
    assert any('operation="IAM"' in line for line in counted) and any('operation="STS"' in line for line in counted)
    assert not any('operation="None"' in line for line in counted)


# ---- when keys were used -------------------------------------------------------------------------


def test_the_last_use_of_a_key(daemon, iam):
    iam.create_user(UserName="alice")
    key = iam.create_access_key(UserName="alice")["AccessKey"]
    used = lambda: iam.get_access_key_last_used(AccessKeyId=key["AccessKeyId"])  # noqa: E731
    assert used()["UserName"] == "alice" and used()["AccessKeyLastUsed"] == {"ServiceName": "N/A", "Region": "N/A"}
    s3 = make_client(daemon.endpoint, key["AccessKeyId"], key["SecretAccessKey"])
    refused("AccessDenied", 403, s3.list_buckets)  # whether it may or not
    last = used()["AccessKeyLastUsed"]
    assert (last["ServiceName"], last["Region"]) == ("s3", "us-east-1")
    assert abs(last["LastUsedDate"] - datetime.datetime.now(datetime.timezone.utc)) < datetime.timedelta(minutes=5)
    sts = client_of(daemon, "sts", key["AccessKeyId"], key["SecretAccessKey"])
    sts.get_caller_identity()
    assert used()["AccessKeyLastUsed"]["ServiceName"] == "sts"
    refused("AccessDenied", 403, client_of(daemon, "iam", key["AccessKeyId"], key["SecretAccessKey"]).list_users)
    assert used()["AccessKeyLastUsed"]["ServiceName"] == "iam"
    sts.get_session_token()
    wrong = make_client(daemon.endpoint, key["AccessKeyId"], "x" * 40)
    refused("SignatureDoesNotMatch", 403, wrong.list_buckets)  # what did not sign was not used
    assert used()["AccessKeyLastUsed"]["ServiceName"] == "sts"
    refused("NoSuchEntity", 404, iam.get_access_key_last_used, AccessKeyId="AKIAIOSFODNN7EXAMPLE")


# ---- health checks of MinIO ------------------------------------------------------------------------


def test_health_checks_of_minio(daemon):
    raw = RawClient(daemon.host, daemon.port, daemon.access_key, daemon.secret_key)
    for path in ("live", "ready", "cluster", "cluster/read"):
        for method in ("GET", "HEAD"):
            answer = raw.request(method, f"/minio/health/{path}", anonymous=True)
            assert (answer.status, answer.body) == (200, b"")
    assert raw.request("GET", "/minio/health/other", anonymous=True).status == 403
    assert raw.request("PUT", "/minio/health/live", anonymous=True).status == 403
    assert raw.request("GET", "/minio/health/live").status == 404  # signed: a key of a bucket
    root = make_client(daemon.endpoint, daemon.access_key, daemon.secret_key)
    root.create_bucket(Bucket="minio")  # a bucket's objects are not hidden
    assert raw.request("GET", "/minio/health/live", anonymous=True).status == 403
    root.delete_bucket(Bucket="minio")
    assert raw.request("GET", "/minio/health/live", anonymous=True).status == 200
