"""`millrace admin user`, `group`, `role`, `policy` and `key`: IAM from the command line."""
import json

import pytest

from tests.conftest import make_client
from tests.integration.test_iam import TRUST, clear, client_of, policy
from tests.integration.test_switches import cli
from tests.support.daemon import Daemon
from tests.support.expect import refused


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
