"""`millrace admin user`, `group`, `role`, `policy` and `key`: IAM from the command line."""
import json
import os
import pty
import re
import subprocess

import pytest

from tests.conftest import make_client
from tests.integration.test_iam import TRUST, clear, client_of, policy
from tests.integration.test_switches import cli
from tests.support.daemon import CLI, Daemon, sanitizer_environment
from tests.support.expect import refused
from tests.support.s3raw import RawClient


@pytest.fixture(scope="module")
def daemon():
    with Daemon(drives=1).start() as running:
        yield running
        clear(client_of(running, "iam"))


def rows(text):
    return [line.split("\t") for line in text.splitlines()]


def test_from_nobody_to_a_user_who_reads(daemon, tmp_path):
    (tmp_path / "list.json").write_text(policy("s3:ListAllMyBuckets", "*"))
    cli(daemon, "admin", "user", "create", "alice", "/team/")
    assert "EntityAlreadyExists" in cli(daemon, "admin", "user", "create", "ALICE", status=1)
    cli(daemon, "admin", "group", "create", "staff")
    cli(daemon, "admin", "group", "add", "staff", "alice")
    cli(daemon, "admin", "policy", "create", "list", str(tmp_path / "list.json"))
    assert cli(daemon, "admin", "group", "attach", "staff", "list") == "group attach: done\n"
    assert "there is no policy lost" in cli(daemon, "admin", "group", "attach", "staff", "lost", status=1)
    made = dict(rows(cli(daemon, "admin", "key", "create", "alice")))
    own = made["AccessKeyId"], made["SecretAccessKey"]
    assert make_client(daemon.endpoint, *own).list_buckets()["Buckets"] == []

    assert made["SecretAccessKey"] not in cli(daemon, "admin", "key", "list", "alice")
    assert rows(cli(daemon, "admin", "key", "list", "alice"))[0][:2] == [own[0], "Active"]
    cli(daemon, "admin", "key", "disable", own[0])
    refused("InvalidAccessKeyId", 403, make_client(daemon.endpoint, *own).list_buckets)
    cli(daemon, "admin", "key", "enable", own[0])
    make_client(daemon.endpoint, *own).list_buckets()

    shown = cli(daemon, "admin", "user", "show", "alice")
    assert "Arn\tarn:aws:iam::000000000001:user/team/alice\n" in shown and "GroupName\tstaff\n" in shown
    assert "PolicyName\tlist\n" in cli(daemon, "admin", "group", "show", "staff")
    assert policy("s3:ListAllMyBuckets", "*") in cli(daemon, "admin", "policy", "show", "list")
    assert json.loads(cli(daemon, "admin", "user", "list", "--json"))[0]["UserName"] == "alice"
    assert [row[0] for row in rows(cli(daemon, "admin", "policy", "list"))][-1] == "list"
    assert "AmazonS3FullAccess" in cli(daemon, "admin", "policy", "list")

    assert "DeleteConflict" in cli(daemon, "admin", "user", "delete", "alice", status=1)
    cli(daemon, "admin", "key", "delete", own[0])
    cli(daemon, "admin", "group", "remove", "staff", "alice")
    cli(daemon, "admin", "user", "delete", "alice")
    assert cli(daemon, "admin", "user", "list") == ""


def test_roles_and_refusals(daemon, tmp_path):
    (tmp_path / "trust.json").write_text(TRUST)
    cli(daemon, "admin", "role", "create", "robot", str(tmp_path / "trust.json"))
    cli(daemon, "admin", "role", "attach", "robot", "readonly")
    shown = cli(daemon, "admin", "role", "show", "robot")
    assert "PolicyName\treadonly\n" in shown and TRUST in shown
    cli(daemon, "admin", "role", "detach", "robot", "arn:aws:iam::aws:policy/readonly")
    cli(daemon, "admin", "role", "delete", "robot")
    assert "NoSuchEntity" in cli(daemon, "admin", "role", "show", "robot", status=1)
    (tmp_path / "bad.json").write_text("{}")
    assert "MalformedPolicyDocument" in cli(daemon, "admin", "policy", "create", "bad", str(tmp_path / "bad.json"), status=1)
    assert "missing" in cli(daemon, "admin", "policy", "create", "bad", str(tmp_path / "missing.json"), status=1)
    assert "NoSuchEntity" in cli(daemon, "admin", "key", "delete", "AKIAAAAAAAAAAAAAAAAA", status=1)
    cli(daemon, "admin", "user", "create", status=2)


# ---- accounts ------------------------------------------------------------------------------------


def test_accounts(daemon):
    assert cli(daemon, "admin", "account", "list") == ""
    made = dict(rows(cli(daemon, "admin", "account", "create", "Red Team")))
    assert rows(cli(daemon, "admin", "account", "list")) == [[made["Account"], "Red Team", made["CanonicalId"]]]
    root = client_of(daemon, "sts", made["AccessKeyId"], made["SecretAccessKey"]).get_caller_identity()
    assert (root["Account"], root["Arn"]) == (made["Account"], f"arn:aws:iam::{made['Account']}:root")
    iam = client_of(daemon, "iam", made["AccessKeyId"], made["SecretAccessKey"])
    assert iam.create_user(UserName="alice")["User"]["Arn"] == f"arn:aws:iam::{made['Account']}:user/alice"
    assert "delete what belongs to it first" in cli(daemon, "admin", "account", "delete", made["Account"], status=1)
    iam.delete_user(UserName="alice")
    cli(daemon, "admin", "account", "delete", made["Account"])
    assert cli(daemon, "admin", "account", "list") == ""
    refused("InvalidClientTokenId", 403, iam.list_users)
    assert "first account" in cli(daemon, "admin", "account", "delete", "000000000001", status=1)
    assert "not there" in cli(daemon, "admin", "account", "delete", "123456789012", status=1)


# ---- export and import ---------------------------------------------------------------------------

CORS = {"CORSRules": [{"AllowedMethods": ["GET"], "AllowedOrigins": ["https://a.example"]}]}


def fill(daemon):
    """People, and buckets with documents. Returns the key of a user, who may read by the bucket's policy."""
    iam, s3 = client_of(daemon, "iam"), make_client(daemon.endpoint, daemon.access_key, daemon.secret_key)
    user = iam.create_user(UserName="alice", Path="/team/", Tags=[{"Key": "a", "Value": "ü"}])["User"]
    iam.create_group(GroupName="staff")
    iam.create_open_id_connect_provider(Url="https://id.example.org/A", ClientIDList=["b", "a"])
    read = iam.create_policy(PolicyName="read", PolicyDocument=policy("s3:ListAllMyBuckets", "*"))["Policy"]["Arn"]
    iam.attach_group_policy(GroupName="staff", PolicyArn=read)
    iam.add_user_to_group(GroupName="staff", UserName="alice")
    iam.create_role(RoleName="robot", AssumeRolePolicyDocument=json.dumps({"Version": "2012-10-17", "Statement": [
        {"Effect": "Allow", "Principal": {"AWS": user["Arn"]}, "Action": "sts:AssumeRole"}]}))
    key = iam.create_access_key(UserName="alice")["AccessKey"]
    for bucket in ("one", "two"):
        s3.create_bucket(Bucket=bucket)
    s3.put_bucket_versioning(Bucket="one", VersioningConfiguration={"Status": "Enabled"})
    s3.put_bucket_cors(Bucket="one", CORSConfiguration=CORS)
    s3.delete_public_access_block(Bucket="two")
    s3.put_bucket_policy(Bucket="two", Policy=json.dumps({"Version": "2012-10-17", "Statement": [
        {"Effect": "Allow", "Principal": {"AWS": user["Arn"]}, "Action": "s3:GetObject", "Resource": "arn:aws:s3:::two/*"}]}))
    return key["AccessKeyId"], key["SecretAccessKey"], user["UserId"]


def test_a_store_made_again_from_its_export(tmp_path):
    key_file = tmp_path / "key"
    exported, again = tmp_path / "config.json", tmp_path / "again.json"
    with Daemon(drives=1, options=["--key-file", str(key_file)]).start() as first:
        access_key, secret_key, user_id = fill(first)
        assert "buckets" in cli(first, "admin", "config", "export", str(exported))
        assert "exists" in cli(first, "admin", "config", "export", str(exported), status=1)
        assert cli(first, "admin", "config", "import", str(exported)).startswith("0 made")
        secret = exported.read_text()
        assert secret_key not in secret and oct(exported.stat().st_mode & 0o777) == "0o600"
    json.loads(secret)  # one document
    with Daemon(drives=1, options=["--key-file", str(key_file)]).start() as second:
        assert ", 0 failed" in cli(second, "admin", "config", "import", str(exported))
        assert cli(second, "admin", "config", "import", str(exported)).startswith("0 made")
        root = make_client(second.endpoint, second.access_key, second.secret_key)
        assert client_of(second, "iam").get_user(UserName="alice")["User"]["UserId"] == user_id
        alice = make_client(second.endpoint, access_key, secret_key)
        assert [b["Name"] for b in alice.list_buckets()["Buckets"]] == ["one", "two"]
        root.put_object(Bucket="two", Key="k", Body=b"text")
        assert alice.get_object(Bucket="two", Key="k")["Body"].read() == b"text"
        assert root.get_bucket_versioning(Bucket="one")["Status"] == "Enabled"
        refused("NoSuchPublicAccessBlockConfiguration", 404, root.get_public_access_block, Bucket="two")
        cli(second, "admin", "config", "export", str(again))
        assert again.read_text().split("\n")[1:] == secret.split("\n")[1:]

        root.delete_bucket_cors(Bucket="one")
        client_of(second, "iam").update_user(UserName="alice", NewPath="/")
        assert "nothing was changed" in cli(second, "admin", "config", "import", str(exported), status=1)
        refused("NoSuchCORSConfiguration", 404, root.get_bucket_cors, Bucket="one")
        assert "kept as it is here: 1 user 000000000001 - alice" in cli(second, "admin", "config", "import", "--merge", str(exported))
        assert root.get_bucket_cors(Bucket="one")["CORSRules"][0]["AllowedMethods"] == ["GET"]
        assert client_of(second, "iam").get_user(UserName="alice")["User"]["Path"] == "/"

        client_of(second, "iam").update_user(UserName="alice", NewUserName="alicia")  # she has the id that the file's alice has
        said = cli(second, "admin", "config", "import", str(exported), status=1)
        assert "nothing was changed" in said and "alice: somebody has its id" in said
        client_of(second, "iam").delete_role(RoleName="robot")
        merged = cli(second, "admin", "config", "import", "--merge", str(exported), status=1)
        assert "alice: somebody has its id" in merged and client_of(second, "iam").get_role(RoleName="robot")  # the others are made
        users = client_of(second, "iam").list_users()["Users"]
        assert [u["UserName"] for u in users if u["UserId"] == user_id] == ["alicia"]

        (tmp_path / "other.json").write_text('{"a": 1}\n')
        assert "not a file" in cli(second, "admin", "config", "import", str(tmp_path / "other.json"), status=1)
        again.write_text(secret.replace("1 user ", "1 person "))
        assert "nothing was changed" in cli(second, "admin", "config", "import", str(again), status=1)
    with Daemon(drives=1, options=["--key-file", str(tmp_path / "another")]).start() as third:
        assert "sealed with a key" in cli(third, "admin", "config", "import", str(exported), status=1)
        refused("InvalidAccessKeyId", 403, make_client(third.endpoint, access_key, secret_key).list_buckets)


# ---- against it ----------------------------------------------------------------------------------


def test_import_opens_no_bucket_that_is_there_and_takes_no_cut_file(daemon, tmp_path):
    s3 = make_client(daemon.endpoint, daemon.access_key, daemon.secret_key)
    whole, cut = tmp_path / "whole.json", tmp_path / "cut.json"
    s3.create_bucket(Bucket="shut")
    s3.delete_public_access_block(Bucket="shut")
    cli(daemon, "admin", "config", "export", str(whole))
    block = {"BlockPublicAcls": True, "IgnorePublicAcls": True, "BlockPublicPolicy": True, "RestrictPublicBuckets": True}
    s3.put_public_access_block(Bucket="shut", PublicAccessBlockConfiguration=block)
    assert "kept as it is here: bucket shut" in cli(daemon, "admin", "config", "import", "--merge", str(whole))
    assert s3.get_public_access_block(Bucket="shut")["PublicAccessBlockConfiguration"] == block

    s3.delete_bucket(Bucket="shut")
    lines = whole.read_text().splitlines(keepends=True)
    for count in range(len(lines)):
        cut.write_text("".join(lines[:count]))
        assert "not a file" in cli(daemon, "admin", "config", "import", "--merge", str(cut), status=1)
    cut.write_text(whole.read_text().replace('"millrace_config": 1,', '"millrace_config": 2,'))
    assert "not a file" in cli(daemon, "admin", "config", "import", "--merge", str(cut), status=1)
    refused("404", 404, s3.head_bucket, Bucket="shut")


def test_acls_and_configurations_with_ids_are_taken_along(tmp_path):
    exported, again = tmp_path / "config.json", tmp_path / "again.json"
    with Daemon(drives=1).start() as first:
        s3 = make_client(first.endpoint, first.access_key, first.secret_key)
        s3.create_bucket(Bucket="open", ObjectOwnership="BucketOwnerPreferred")
        s3.delete_public_access_block(Bucket="open")
        s3.put_bucket_acl(Bucket="open", ACL="public-read")
        s3.put_bucket_policy(Bucket="open", Policy=json.dumps({"Version": "2012-10-17", "Statement": [
            {"Effect": "Allow", "Principal": "*", "Action": "s3:GetObject", "Resource": "arn:aws:s3:::open/*"}]}))
        s3.put_public_access_block(Bucket="open", PublicAccessBlockConfiguration={"BlockPublicAcls": True, "BlockPublicPolicy": True})
        for i in range(101):  # more than one page
            s3.put_bucket_metrics_configuration(Bucket="open", Id=f"m{i}", MetricsConfiguration={
                "Id": f"m{i}", "Filter": {"Prefix": "a&b <\n"}})
        s3.put_bucket_inventory_configuration(Bucket="open", Id="daily", InventoryConfiguration={
            "Id": "daily", "IsEnabled": False, "IncludedObjectVersions": "All", "Schedule": {"Frequency": "Daily"},
            "Destination": {"S3BucketDestination": {"Bucket": "arn:aws:s3:::open", "Format": "CSV"}}})
        cli(first, "admin", "config", "export", str(exported))
    with Daemon(drives=1).start() as second:
        s3 = make_client(second.endpoint, second.access_key, second.secret_key)
        assert ", 0 failed" in cli(second, "admin", "config", "import", str(exported))
        assert len(s3.get_bucket_acl(Bucket="open")["Grants"]) == 2
        assert s3.get_public_access_block(Bucket="open")["PublicAccessBlockConfiguration"]["BlockPublicPolicy"]
        assert s3.get_bucket_metrics_configuration(Bucket="open", Id="m7")["MetricsConfiguration"]["Filter"]["Prefix"] == "a&b <\n"
        cli(second, "admin", "config", "export", str(again))
        assert again.read_text().split("\n")[1:] == exported.read_text().split("\n")[1:]


def test_a_file_writes_nothing_but_text_to_a_terminal(daemon, tmp_path):
    hostile = tmp_path / "hostile.json"
    hostile.write_text('{"millrace_config": 1, "exported": "",\n"entries": [\n"1 user 000000000001 - \\u001b]0;owned\\u0007"\n],\n'
                       '"buckets": [\n{"bucket":"\\u001b[2J","documents":{}}\n]}\n')
    ours, theirs = pty.openpty()
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "MILLRACE_ENDPOINT": daemon.endpoint,
           "MILLRACE_ROOT_ACCESS_KEY": daemon.access_key, "MILLRACE_ROOT_SECRET_KEY": daemon.secret_key,
           "MILLRACE_ADMIN": f"http://{daemon.host}:{daemon.admin_port}", **sanitizer_environment()}
    done = subprocess.run([str(CLI), "admin", "config", "import", "--merge", str(hostile)], env=env, stdout=theirs, stderr=theirs, check=False)
    os.close(theirs)
    shown = os.read(ours, 65536)
    os.close(ours)
    assert done.returncode == 1 and b"owned" in shown and b"\x1b" not in shown and b"\x07" not in shown, shown


# ---- names that are somebody else's here ---------------------------------------------------------


def statement(**who):
    return json.dumps({"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "s3:GetObject", "Resource": "arn:aws:s3:::two/*", **who}]})


def test_a_merge_makes_nothing_for_somebody_else(tmp_path):
    """The file's alice, staff and policy are others than those that are called so here; ann is the same."""
    key_file, exported = tmp_path / "key", tmp_path / "config.json"
    read = "arn:aws:iam::000000000001:policy/read"
    with Daemon(drives=1, options=["--key-file", str(key_file)]).start() as first:
        iam, s3 = client_of(first, "iam"), make_client(first.endpoint, first.access_key, first.secret_key)
        for name in ("alice", "ann", "member", "holder", "bounded", "free", "long"):
            iam.create_user(UserName=name)
        iam.create_group(GroupName="staff")
        iam.create_group(GroupName="crew")
        iam.add_user_to_group(GroupName="crew", UserName="long")
        for i in range(9):  # so long that it goes alone
            iam.put_user_policy(UserName="long", PolicyName=f"p{i}", PolicyDocument=(policy() + "\n" * 10_000)[:10_200])
        iam.create_policy(PolicyName="read", PolicyDocument=policy("s3:ListAllMyBuckets", "*"))
        iam.add_user_to_group(GroupName="staff", UserName="member")
        iam.attach_user_policy(UserName="holder", PolicyArn=read)
        iam.put_user_permissions_boundary(UserName="bounded", PermissionsBoundary=read)
        iam.create_role(RoleName="robot", AssumeRolePolicyDocument=TRUST)
        keys = {name: iam.create_access_key(UserName=name)["AccessKey"] for name in ("alice", "ann", "free")}
        for bucket, name in (("two", "alice"), ("three", "ann")):
            s3.create_bucket(Bucket=bucket)
            arn = f"arn:aws:iam::000000000001:user/{name}"
            s3.put_bucket_policy(Bucket=bucket, Policy=statement(Principal={"AWS": arn}).replace("two", bucket))
        cli(first, "admin", "config", "export", str(exported))
    text = exported.read_text()
    with Daemon(drives=1, options=["--key-file", str(key_file)]).start() as second:
        iam, s3 = client_of(second, "iam"), make_client(second.endpoint, second.access_key, second.secret_key)
        lines = [json.loads(line.rstrip(",")) for line in text.splitlines() if line.startswith('"1 ')]
        assert people(second, next(line for line in lines if "- ann" in line).encode())[1]["result"] == "new"
        for name in ("Alice", "local"):
            iam.create_user(UserName=name)
        iam.create_group(GroupName="staff")
        iam.create_policy(PolicyName="read", PolicyDocument=policy("*", "*"))
        assert "nothing was changed" in cli(second, "admin", "config", "import", str(exported), status=1)
        assert {u["UserName"] for u in iam.list_users()["Users"]} == {"Alice", "ann", "local"}

        said = cli(second, "admin", "config", "import", "--merge", str(exported), status=1)
        for left, who in ((f"1 key - alice {keys['alice']['AccessKeyId']}", "user 000000000001 - alice"), ("1 user 000000000001 - member", "group 000000000001 - staff"),
                          ("1 user 000000000001 - holder", "policy 000000000001 - read"), ("1 user 000000000001 - bounded", "policy 000000000001 - read"),
                          ("policy of bucket two", "user 000000000001 - alice")):
            assert f"left out: {left} names 1 {who}, who is somebody else here" in said, said
        assert "kept as it is here, somebody else: 1 user 000000000001 - alice" in said and " 5 left out, 0 failed" in said
        assert {u["UserName"] for u in iam.list_users()["Users"]} == {"Alice", "ann", "local", "free", "long"}
        assert [u["UserName"] for u in iam.get_group(GroupName="crew")["Users"]] == ["long"]
        assert iam.list_access_keys(UserName="Alice")["AccessKeyMetadata"] == [] and iam.get_group(GroupName="staff")["Users"] == []
        assert iam.list_entities_for_policy(PolicyArn=read)["PolicyUsers"] == [] and iam.get_role(RoleName="robot")
        refused("InvalidAccessKeyId", 403, make_client(second.endpoint, keys["alice"]["AccessKeyId"], keys["alice"]["SecretAccessKey"]).list_buckets)
        for name in ("ann", "free"):
            refused("AccessDenied", 403, make_client(second.endpoint, keys[name]["AccessKeyId"], keys[name]["SecretAccessKey"]).list_buckets)
        refused("NoSuchBucketPolicy", 404, s3.get_bucket_policy, Bucket="two")
        assert "user/ann" in s3.get_bucket_policy(Bucket="three")["Policy"]

        iam.delete_user(UserName="Alice")  # the name is nobody's: she and her key are made
        said = cli(second, "admin", "config", "import", "--merge", str(exported), status=1)
        assert said.splitlines()[-1].startswith("2 made") and " 3 left out, 0 failed" in said
        assert iam.list_access_keys(UserName="alice")["AccessKeyMetadata"][0]["AccessKeyId"] == keys["alice"]["AccessKeyId"]
        assert "user/alice" in s3.get_bucket_policy(Bucket="two")["Policy"]


def test_whom_a_cut_file_means_is_not_known(daemon, tmp_path):
    """Of a user whose own entry is not in the file the id is not known; without --merge names decide, as before."""
    iam = client_of(daemon, "iam")
    clear(iam)
    iam.create_user(UserName="alice")
    iam.create_group(GroupName="staff")
    iam.add_user_to_group(GroupName="staff", UserName="alice")
    cli(daemon, "admin", "config", "export", str(tmp_path / "c.json"))
    alice = next(json.loads(line.rstrip(",")) for line in (tmp_path / "c.json").read_text().splitlines() if "- alice" in line)
    config_file(tmp_path / "one.json", [called(alice, "alice", "bob")])
    assert "left out: 1 user 000000000001 - bob names 1 group 000000000001 - staff" in cli(daemon, "admin", "config", "import", "--merge", str(tmp_path / "one.json"), status=1)
    assert cli(daemon, "admin", "config", "import", str(tmp_path / "one.json")).startswith("1 made")
    assert {u["UserName"] for u in iam.get_group(GroupName="staff")["Users"]} == {"alice", "bob"}
    clear(iam)


def test_ids_of_a_file_are_letters_and_digits(daemon, tmp_path):
    iam = client_of(daemon, "iam")
    clear(iam)
    iam.create_user(UserName="pattern")
    cli(daemon, "admin", "config", "export", str(tmp_path / "c.json"))
    iam.delete_user(UserName="pattern")
    pattern = next(json.loads(line.rstrip(",")) for line in (tmp_path / "c.json").read_text().splitlines() if "- pattern" in line)
    user_id = json.loads(pattern.split("\n")[1])["id"]
    for wrong in ("AIDA X", "AIDA\\nAIDB arn:aws:iam::000000000001:user/root", "AIDA-1", "", "AIDA\u00fc"):
        entry = pattern.replace(user_id, wrong)
        config_file(tmp_path / "bad.json", [entry, called(pattern, "pattern", "good")])
        for options in ((), ("--merge",)):
            said = cli(daemon, "admin", "config", "import", *options, str(tmp_path / "bad.json"), status=1)
            assert "1 user 000000000001 - pattern: an id has letters and digits" in said and "nothing was changed" in said, said
        assert people(daemon, [entry])[1]["results"][0]["error"] == "BadId" and people(daemon, entry.encode())[0] == 400
    assert iam.list_users()["Users"] == []
    for wrong in ('{"1 user 000000000001 - a":"A"}', '{"a":"A"}\n' + pattern, '{"1 user 000000000001 - a":""}\n' + pattern, '[]\n' + pattern):
        assert people(daemon, [wrong])[1]["results"][0]["error"] == "BadEntry"
    config_file(tmp_path / "named.json", ['{"1 user 000000000001 - a":"A"}\n' + pattern])  # whom entries mean is not the file's to say
    assert "1 cannot be taken" in cli(daemon, "admin", "config", "import", "--merge", str(tmp_path / "named.json"), status=1)
    clear(iam)


# ---- many entries --------------------------------------------------------------------------------


def config_file(path, entries):
    path.write_text('{"millrace_config": 1, "exported": "x",\n"entries": [\n' + ",\n".join(json.dumps(e) for e in entries) + '\n],\n"buckets": [\n\n]}\n')


def called(text, old, new):
    """An entry with another name, and an id of its own."""
    return re.sub(r'("id":"A[A-Z]{3})[A-Z0-9]+"', rf'\g<1>{new.upper():A>16}"', text.replace(f"- {old}", f"- {new}"))


def people(daemon, body, query=()):
    raw = RawClient(daemon.host, daemon.admin_port, daemon.access_key, daemon.secret_key)
    answer = raw.request("POST", "/admin/v1/people", body=body if isinstance(body, bytes) else json.dumps(body).encode(), query=query)
    return answer.status, json.loads(answer.body)


def test_lists_of_entries(daemon, tmp_path):
    """Each is answered for itself, and one that is refused stops no other."""
    iam = client_of(daemon, "iam")
    iam.create_user(UserName="pattern")
    cli(daemon, "admin", "config", "export", str(tmp_path / "c.json"))
    pattern = next(json.loads(line.rstrip(",")) for line in (tmp_path / "c.json").read_text().splitlines() if "- pattern" in line)
    renamed = lambda name: called(pattern, "pattern", name)  # noqa: E731
    orphan = renamed("orphan").replace("{", '{"groups":{"nobody":""},', 1)
    entries = [renamed("a"), pattern, "no entry", renamed("b"), orphan, 7, "x\0y", renamed("a"), pattern.replace("- pattern", "- again")]
    status, answer = people(daemon, entries, query=[("only", "look")])
    assert status == 200 and [r.get("result", r.get("error")) for r in answer["results"]][:5] == ["new", "same", "BadEntry", "new", "new"]
    assert {u["UserName"] for u in iam.list_users()["Users"]} == {"pattern"}
    status, answer = people(daemon, entries)
    assert [r.get("result", r.get("error")) for r in answer["results"]] == ["new", "same", "BadEntry", "new", "NoSuchEntity", "BadEntry", "BadEntry", "same", "EntityAlreadyExists"]
    assert {u["UserName"] for u in iam.list_users()["Users"]} == {"pattern", "a", "b"}
    assert people(daemon, []) == (200, {"results": []})
    for wrong in (b"[", b'["a"', [pattern] * 101):
        assert people(daemon, wrong)[0] == 400
    assert people(daemon, pattern.encode()) == (200, {"result": "same", "opens": True})
    assert people(daemon, b"no entry")[0] == 400
    clear(iam)


@pytest.mark.slow
def test_an_import_of_more_than_the_listener_takes_calls(tmp_path):
    """13,000 entries were 26,000 calls once, of which the last were refused. Some are long, so that they go in small lists or alone."""
    with Daemon(drives=1).start() as daemon:
        iam = client_of(daemon, "iam")
        iam.create_user(UserName="pattern", Tags=[{"Key": "a", "Value": "ü"}])
        made = iam.create_policy(PolicyName="long", PolicyDocument=policy())["Policy"]["Arn"]
        for _ in range(4):  # white space does not count for AWS's limit of 6,144
            iam.create_policy_version(PolicyArn=made, PolicyDocument=policy() + "\n" * 12_000)
        cli(daemon, "admin", "config", "export", str(tmp_path / "pattern.json"))
        lines = [json.loads(line.rstrip(",")) for line in (tmp_path / "pattern.json").read_text().splitlines() if line.startswith('"1 ')]
        user, long = next(t for t in lines if "- pattern" in t), next(t for t in lines if "- long" in t)
        entries = [called(user, "pattern", f"u{n:05}") for n in range(13_000)]
        for n in range(5):
            entries.insert(n * 1000, called(long, "long", f"long{n}"))
        config_file(tmp_path / "many.json", entries)
        out = cli(daemon, "admin", "config", "import", str(tmp_path / "many.json"))
        assert out.startswith("13005 made, 0 entries were there, 0 kept as they were, 0 failed"), out[:500]
        assert cli(daemon, "admin", "config", "import", str(tmp_path / "many.json")).startswith("0 made, 13005 entries were there")
        assert iam.get_user(UserName="u12999")["User"]["UserName"] == "u12999"
