"""Temporary credentials: STS as boto3's client sends it, and every way in that takes them."""
import datetime
import json
import urllib.error
import urllib.request

import botocore.config
import pytest

from tests.integration.test_switches import cli
from tests.support.clock import Clock
from tests.support.boto import boto
from tests.support.daemon import REGION, Daemon
from tests.support.expect import refused

ACCOUNT = "000000000001"
STAMP = "%Y-%m-%dT%H:%M:%SZ"


def fails(call, status, code):
    return refused(code, status, call)


def statement(effect="Allow", action="s3:*", resource="*", **more):
    return {"Effect": effect, "Action": action, "Resource": resource, **more}


def document(*statements):
    return json.dumps({"Version": "2012-10-17", "Statement": list(statements)})


def trust(principal=None, action="sts:AssumeRole", **more):
    return document({"Effect": "Allow", "Principal": principal or {"AWS": ACCOUNT}, "Action": action, **more})


def client_of(daemon, service, keys=None, **more):
    """A client with these credentials, as AssumeRole and CreateAccessKey answer them; without: root's."""
    config = botocore.config.Config(retries={"total_max_attempts": 6, "mode": "standard"}, signature_version="s3v4" if service == "s3" else None,
                                    s3={"addressing_style": "path"})
    keys = keys or {"AccessKeyId": daemon.access_key, "SecretAccessKey": daemon.secret_key}
    return boto(service, endpoint_url=daemon.endpoint, region_name=REGION, config=config, aws_access_key_id=keys["AccessKeyId"],
                                          aws_secret_access_key=keys["SecretAccessKey"], aws_session_token=keys.get("SessionToken"), **more)


class World:
    """A user alice who may assume anything, and a role reader who may do anything with S3."""

    def __init__(self, daemon):
        self.daemon = daemon
        self.iam = client_of(daemon, "iam")
        self.s3 = client_of(daemon, "s3")
        self.s3.create_bucket(Bucket="data")
        self.s3.put_object(Bucket="data", Key="a", Body=b"hello")
        self.iam.create_user(UserName="alice")
        self.iam.put_user_policy(UserName="alice", PolicyName="assume", PolicyDocument=document(statement(action="sts:*"), statement(action="s3:*")))
        self.alice = self.iam.create_access_key(UserName="alice")["AccessKey"]
        self.role("reader", statement(action="s3:*"))

    def role(self, name, *allowed, who=None, **more):
        self.iam.create_role(RoleName=name, AssumeRolePolicyDocument=who or trust(), **more)
        self.iam.put_role_policy(RoleName=name, PolicyName="own", PolicyDocument=document(*allowed))

    def drop_role(self, name):
        self.iam.delete_role_policy(RoleName=name, PolicyName="own")
        self.iam.delete_role(RoleName=name)

    def assume(self, role="reader", session="one", keys=None, **more):
        return client_of(self.daemon, "sts", keys or self.alice).assume_role(RoleArn=arn(role), RoleSessionName=session, **more)["Credentials"]

    def client(self, keys, service="s3"):
        return client_of(self.daemon, service, keys)


def arn(role):
    return f"arn:aws:iam::{ACCOUNT}:role/{role}"


@pytest.fixture(scope="module")
def world():
    with Daemon(drives=1).start() as running:
        client_of(running, "iam").list_users()
        yield World(running)


def test_a_role_is_assumed_and_used(world):
    answer = client_of(world.daemon, "sts", world.alice).assume_role(RoleArn=arn("reader"), RoleSessionName="job-1", DurationSeconds=900)
    keys = answer["Credentials"]
    assert keys["AccessKeyId"].startswith("ASIA") and "PackedPolicySize" not in answer
    left = keys["Expiration"] - datetime.datetime.now(datetime.timezone.utc)
    assert datetime.timedelta(seconds=800) < left <= datetime.timedelta(seconds=900)
    assert answer["AssumedRoleUser"]["Arn"] == f"arn:aws:sts::{ACCOUNT}:assumed-role/reader/job-1"
    s3 = world.client(keys)
    assert s3.get_object(Bucket="data", Key="a")["Body"].read() == b"hello"
    s3.put_object(Bucket="data", Key="chunks", Body=b"x" * 100_000)  # signed by chunks
    s3.copy_object(Bucket="data", Key="copy", CopySource="data/chunks")
    assert s3.delete_objects(Bucket="data", Delete={"Objects": [{"Key": "copy"}]})["Deleted"][0]["Key"] == "copy"
    identity = world.client(keys, "sts").get_caller_identity()
    assert identity["Arn"] == answer["AssumedRoleUser"]["Arn"]
    assert identity["UserId"] == answer["AssumedRoleUser"]["AssumedRoleId"] and identity["Account"] == ACCOUNT
    assert identity["UserId"].startswith("AROA")


def test_urls_and_forms_carry_the_token(world):
    s3 = world.client(world.assume())
    url = s3.generate_presigned_url("get_object", Params={"Bucket": "data", "Key": "a"})
    assert urllib.request.urlopen(url).read() == b"hello"
    assert status(url.replace("X-Amz-Security-Token=", "X-Amz-Security-Token=A")) == (400, "InvalidToken")
    form = s3.generate_presigned_post("data", "posted")
    assert form["fields"]["x-amz-security-token"]
    assert post(form) == 204
    assert s3.get_object(Bucket="data", Key="posted")["Body"].read() == b"form"
    del form["fields"]["x-amz-security-token"]
    assert post(form) == 403


def status(url):
    with pytest.raises(urllib.error.HTTPError) as error:
        urllib.request.urlopen(url)
    body = error.value.read().decode()
    return error.value.code, body.split("<Code>")[1].split("</Code>")[0]


def post(form):
    lines = []
    for name, value in [*form["fields"].items(), ("file", "form")]:
        lines += ["--edge", f'Content-Disposition: form-data; name="{name}"' + ('; filename="f"' if name == "file" else ""), "", value]
    body = "\r\n".join([*lines, "--edge--", ""]).encode()
    request = urllib.request.Request(form["url"], data=body, headers={"Content-Type": "multipart/form-data; boundary=edge"})
    try:
        return urllib.request.urlopen(request).status
    except urllib.error.HTTPError as error:
        return error.code


def test_wrong_tokens_are_refused(world):
    keys, other = world.assume(), world.assume()
    token = keys["SessionToken"]
    for wrong in (other["SessionToken"], token[:-2] + ("AA" if token[-2:] != "AA" else "BB"), token[:-4], token + "AAAA", "A" * 5, "AAAA", "A" * 8000):
        fails(lambda: world.client({**keys, "SessionToken": wrong}).list_buckets(), 400, "InvalidToken")
        fails(lambda: world.client({**keys, "SessionToken": wrong}, "sts").get_caller_identity(), 403, "InvalidClientTokenId")
    fails(lambda: world.client({**keys, "SessionToken": None}).list_buckets(), 403, "InvalidAccessKeyId")
    fails(lambda: world.client({**keys, "SecretAccessKey": other["SecretAccessKey"]}).list_buckets(), 403, "SignatureDoesNotMatch")
    root = {"AccessKeyId": world.daemon.access_key, "SecretAccessKey": world.daemon.secret_key}
    for permanent in (world.alice, root):
        fails(lambda: world.client({**permanent, "SessionToken": token}).list_buckets(), 400, "InvalidToken")
        fails(lambda: world.client({**permanent, "SessionToken": token}, "iam").list_users(), 403, "InvalidClientTokenId")


def test_trust_policies_decide(world):
    iam = world.iam
    iam.create_user(UserName="bob")
    bob = iam.create_access_key(UserName="bob")["AccessKey"]
    fails(lambda: world.assume(keys=bob), 403, "AccessDenied")  # the account is trusted, which does not pass it on
    world.role("bobs", statement(), who=trust({"AWS": f"arn:aws:iam::{ACCOUNT}:user/bob"}))
    world.client(world.assume("bobs", keys=bob)).list_buckets()  # named: that is enough
    fails(lambda: world.assume("bobs"), 403, "AccessDenied")
    fails(lambda: world.assume("nobody"), 403, "AccessDenied")
    for role in ("bobs", "nobody"):  # nor is told which policies there are
        fails(lambda: world.assume(role, PolicyArns=[{"arn": f"arn:aws:iam::{ACCOUNT}:policy/none"}]), 403, "AccessDenied")
    fails(lambda: client_of(world.daemon, "sts").assume_role(RoleArn=arn("reader"), RoleSessionName="root"), 403, "AccessDenied")
    world.role("external", statement(), who=trust(Condition={"StringEquals": {"sts:ExternalId": "42"}, "StringLike": {"sts:RoleSessionName": "a*"}}))
    world.assume("external", session="ab", ExternalId="42")
    fails(lambda: world.assume("external", session="ab", ExternalId="43"), 403, "AccessDenied")
    fails(lambda: world.assume("external", session="ab"), 403, "AccessDenied")
    fails(lambda: world.assume("external", session="b1", ExternalId="42"), 403, "AccessDenied")


def test_parameters_have_limits(world):
    world.role("long", statement(action=["s3:*", "sts:*"]), MaxSessionDuration=7200, who=trust(action=["sts:AssumeRole", "sts:TagSession"]))
    world.assume("long", DurationSeconds=7200)
    for role, seconds in (("long", 7201), ("reader", 3601)):
        fails(lambda: world.assume(role, DurationSeconds=seconds), 400, "ValidationError")
    chained = world.assume("long", keys=world.assume("long"))
    world.client(chained).list_buckets()
    fails(lambda: world.assume("long", keys=chained, DurationSeconds=3601), 400, "ValidationError")
    fails(lambda: world.assume(session="a b"), 400, "ValidationError")
    fails(lambda: world.assume(Policy="{}"), 400, "MalformedPolicyDocument")
    fails(lambda: world.assume(PolicyArns=[{"arn": f"arn:aws:iam::{ACCOUNT}:policy/none"}]), 404, "NoSuchEntity")
    fails(lambda: world.assume("long", Tags=[{"Key": f"k{i}", "Value": "v" * 256} for i in range(50)]), 400, "PackedPolicyTooLarge")
    fails(lambda: world.assume(Tags=[{"Key": "a", "Value": "b"}], TransitiveTagKeys=["c"]), 400, "ValidationError")
    sts = client_of(world.daemon, "sts", world.alice)
    fails(lambda: sts.get_federation_token(Name="someone"), 400, "InvalidAction")


def test_session_policies_limit(world):
    arns = [{"arn": "arn:aws:iam::aws:policy/AmazonS3ReadOnlyAccess"}]
    for more in ({"Policy": document(statement(action="s3:GetObject"))}, {"PolicyArns": arns}):
        s3 = world.client(world.assume(**more))
        assert s3.get_object(Bucket="data", Key="a")["Body"].read() == b"hello"
        fails(lambda: s3.put_object(Bucket="data", Key="b", Body=b""), 403, "AccessDenied")
    world.role("narrow", statement(action="s3:ListAllMyBuckets"))
    wide = world.client(world.assume("narrow", Policy=document(statement())))
    wide.list_buckets()
    fails(lambda: wide.get_object(Bucket="data", Key="a"), 403, "AccessDenied")  # gives nothing that the role has not
    world.iam.put_role_permissions_boundary(RoleName="narrow", PermissionsBoundary="arn:aws:iam::aws:policy/readonly")
    fails(wide.list_buckets, 403, "AccessDenied")  # the role's boundary of now


def test_session_policies_are_of_the_role_s_account(world):
    made = dict(line.split("\t") for line in cli(world.daemon, "admin", "account", "create", "other").splitlines())
    theirs = client_of(world.daemon, "iam", {"AccessKeyId": made["AccessKeyId"], "SecretAccessKey": made["SecretAccessKey"]})
    theirs.create_role(RoleName="guest", AssumeRolePolicyDocument=trust())
    guest, reads = f"arn:aws:iam::{made['Account']}:role/guest", document(statement(action="s3:Get*"))
    arns = [iam.create_policy(PolicyName="reads", PolicyDocument=reads)["Policy"]["Arn"] for iam in (theirs, world.iam)]
    sts = client_of(world.daemon, "sts", world.alice)
    sts.assume_role(RoleArn=guest, RoleSessionName="one", PolicyArns=[{"arn": arns[0]}])
    fails(lambda: sts.assume_role(RoleArn=guest, RoleSessionName="one", PolicyArns=[{"arn": arns[1]}]), 404, "NoSuchEntity")
    world.assume(PolicyArns=[{"arn": arns[1]}])


def test_bucket_policies_name_roles_and_sessions(world):
    world.role("guest", statement(action="s3:ListAllMyBuckets"))
    first, second = (world.client(world.assume("guest", session=name)) for name in ("first", "second"))
    grants = {"Effect": "Allow", "Action": "s3:GetObject", "Resource": "arn:aws:s3:::data/*"}
    world.s3.put_bucket_policy(Bucket="data", Policy=document({**grants, "Principal": {"AWS": f"arn:aws:sts::{ACCOUNT}:assumed-role/guest/first"}}))
    first.get_object(Bucket="data", Key="a")
    fails(lambda: second.get_object(Bucket="data", Key="a"), 403, "AccessDenied")
    world.s3.put_bucket_policy(Bucket="data", Policy=document({**grants, "Principal": {"AWS": arn("guest")}}))
    second.get_object(Bucket="data", Key="a")
    world.s3.delete_public_access_block(Bucket="data")
    for key, value, allowed in (("aws:PrincipalArn", arn("guest"), True), ("aws:userid", "AROA*:first", True), ("aws:userid", "AROA*:other", False),
                                ("aws:PrincipalType", "AssumedRole", True), ("aws:MultiFactorAuthPresent", "false", True)):
        world.s3.put_bucket_policy(Bucket="data", Policy=document({**grants, "Principal": "*", "Condition": {"StringLike": {key: value}}}))
        if allowed:
            first.get_object(Bucket="data", Key="a")
        else:
            fails(lambda: first.get_object(Bucket="data", Key="a"), 403, "AccessDenied")
    world.s3.delete_bucket_policy(Bucket="data")


def test_tags_and_source_identities_go_with_a_session(world):
    own = "arn:aws:s3:::data/${aws:PrincipalTag/team}/${aws:SourceIdentity}"
    world.role("tagged", statement(resource=own), statement(action="sts:*"),
               who=trust(action=["sts:AssumeRole", "sts:TagSession", "sts:SetSourceIdentity"]), Tags=[{"Key": "team", "Value": "grey"}])
    keys = world.assume("tagged", Tags=[{"Key": "Team", "Value": "blue"}], TransitiveTagKeys=["Team"], SourceIdentity="carol")
    s3 = world.client(keys)
    s3.put_object(Bucket="data", Key="blue/carol", Body=b"")
    fails(lambda: s3.put_object(Bucket="data", Key="grey/carol", Body=b""), 403, "AccessDenied")
    chained = world.assume("tagged", keys=keys)
    world.client(chained).put_object(Bucket="data", Key="blue/carol", Body=b"")
    fails(lambda: world.assume("tagged", keys=keys, SourceIdentity="dave"), 403, "AccessDenied")
    fails(lambda: world.assume("tagged", keys=keys, Tags=[{"Key": "team", "Value": "red"}]), 400, "ValidationError")
    fails(lambda: world.assume("reader", Tags=[{"Key": "a", "Value": "b"}]), 403, "AccessDenied")  # its trust policy has no sts:TagSession
    world.role("untagged", statement(), who=trust(action=["sts:AssumeRole", "sts:SetSourceIdentity"]))
    world.assume("untagged", keys=world.assume("tagged", Tags=[{"Key": "Team", "Value": "blue"}], SourceIdentity="carol"))
    fails(lambda: world.assume("untagged", keys=keys), 403, "AccessDenied")  # nor does it take transitive tags


def test_sessions_end(world):
    world.role("short", statement())
    keys = world.assume("short")
    s3 = world.client(keys)
    s3.list_buckets()
    world.iam.put_role_policy(RoleName="short", PolicyName="own", PolicyDocument=document(
        statement(), statement("Deny", "*", Condition={"DateLessThan": {"aws:TokenIssueTime": future().strftime(STAMP)}})))
    fails(s3.list_buckets, 403, "AccessDenied")
    world.iam.put_role_policy(RoleName="short", PolicyName="own", PolicyDocument=document(statement()))
    s3.list_buckets()
    world.drop_role("short")
    fails(s3.list_buckets, 400, "InvalidToken")
    world.role("short", statement())
    fails(s3.list_buckets, 400, "InvalidToken")  # another role of the name


def future():
    return datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(hours=1)


def test_time_ends_a_session(tmp_path):
    """By the server's clock, also of a token that it knows well."""
    clock = Clock(tmp_path)
    with Daemon(drives=1, env=clock.env).start() as running:
        client_of(running, "iam").list_users()
        made = World(running)
        url = made.client(made.assume(DurationSeconds=900)).generate_presigned_url("get_object", Params={"Bucket": "data", "Key": "a"}, ExpiresIn=7200)
        assert urllib.request.urlopen(url).read() == b"hello"
        clock.set(901)
        assert status(url) == (400, "ExpiredToken")


def test_a_user_session_has_the_users_rights(world):
    iam = world.iam
    iam.create_user(UserName="erin")
    iam.put_user_policy(UserName="erin", PolicyName="own", PolicyDocument=document(statement(action="s3:GetObject"), statement(action="iam:*")))
    erin = iam.create_access_key(UserName="erin")["AccessKey"]
    keys = client_of(world.daemon, "sts", erin).get_session_token(DurationSeconds=900)["Credentials"]
    s3, sts = world.client(keys), world.client(keys, "sts")
    s3.get_object(Bucket="data", Key="a")
    fails(s3.list_buckets, 403, "AccessDenied")
    assert sts.get_caller_identity()["Arn"].endswith("user/erin")
    fails(sts.get_session_token, 403, "AccessDenied")
    fails(world.client(keys, "iam").list_users, 403, "InvalidClientTokenId")
    client_of(world.daemon, "iam", erin).list_users()
    iam.update_access_key(UserName="erin", AccessKeyId=erin["AccessKeyId"], Status="Inactive")
    fails(lambda: s3.get_object(Bucket="data", Key="a"), 400, "InvalidToken")
    fails(sts.get_caller_identity, 403, "InvalidClientTokenId")


def test_root_has_sessions_and_assumes_nothing(world):
    keys = client_of(world.daemon, "sts").get_session_token()["Credentials"]
    world.client(keys).list_buckets()
    assert world.client(keys, "sts").get_caller_identity()["Arn"].endswith(":root")
    assert keys["Expiration"] - datetime.datetime.now(datetime.timezone.utc) <= datetime.timedelta(hours=1)
    fails(world.client(keys, "iam").list_users, 403, "InvalidClientTokenId")
    fails(lambda: world.assume(keys=keys), 403, "AccessDenied")


def test_a_roles_session_is_not_taken_for_root(world):
    world.role("admin", statement(action="*"))
    iam = world.client(world.assume("admin"), "iam")
    iam.list_users()
    for call in (iam.create_access_key, iam.list_access_keys, iam.get_user):
        fails(call, 400, "ValidationError")
    assert iam.get_user(UserName="alice")["User"]["UserName"] == "alice"
    fails(world.client(world.assume(), "iam").list_users, 403, "AccessDenied")
