"""The one call of MinIO's admin API, as madmin makes it: signed for S3 and no region; errors as JSON."""
import json

import pytest

from tests.conftest import make_client
from tests.integration.test_iam import client_of, policy
from tests.integration.test_switches import cli
from tests.support.daemon import Daemon
from tests.support.s3raw import RawClient

INFO = "/minio/admin/v3/info"


@pytest.fixture(scope="module")
def daemon():
    with Daemon(drives=4, ec="1+1").start() as running:
        yield running


def ask(daemon, key=None, path=INFO, method="GET", region="", **how):
    access, secret = key or (daemon.access_key, daemon.secret_key)
    return RawClient(daemon.host, daemon.port, access, secret, region=region).request(method, path, query=[("metrics", "false")], **how)


def denied(answer, code="AccessDenied", status=403):
    error = json.loads(answer.body)
    assert (answer.status, error["Code"]) == (status, code) and answer.headers["content-type"] == "application/json", answer
    assert error["Message"] and error["RequestId"] == answer.headers["x-amz-request-id"] and error["Resource"].startswith("/minio/admin/v3/")


def user(daemon, name, *actions):
    iam = client_of(daemon, "iam")
    iam.create_user(UserName=name)
    if actions:
        iam.put_user_policy(UserName=name, PolicyName="p", PolicyDocument=policy(list(actions), "*"))
    made = iam.create_access_key(UserName=name)["AccessKey"]
    return made["AccessKeyId"], made["SecretAccessKey"]


def test_info(daemon):
    """Members by the names that madmin.InfoMessage has for them."""
    answer = ask(daemon)
    assert answer.status == 200 and answer.headers["content-type"] == "application/json"
    info = json.loads(answer.body)
    assert (info["mode"], info["region"], info["buckets"]["count"]) == ("online", "us-east-1", 0) and info["deploymentID"]
    assert info["objects"] == {"count": 0, "error": "not counted"} and info["usage"]["size"] >= 0
    backend = info["backend"]
    assert (backend["backendType"], backend["onlineDisks"], backend["offlineDisks"]) == ("Erasure", 4, 0)
    assert backend["totalSets"] == [1] and backend["totalDrivesPerSet"] == [4] and backend["standardSCParity"] == 1
    server, = info["servers"]
    assert (server["state"], server["endpoint"], server["scheme"], server["poolNumber"]) == ("online", f"{daemon.host}:{daemon.port}", "http", 1)
    assert server["version"] and server["uptime"] >= 0 and server["network"] == {server["endpoint"]: "online"}
    assert [drive["disk_index"] for drive in server["drives"]] == [0, 1, 2, 3]
    for drive in server["drives"]:
        assert drive["state"] == "ok" and drive["uuid"] and drive["path"].startswith("/") and not drive["healing"] and (drive["pool_index"], drive["set_index"]) == (0, 0)
        assert 0 < drive["availspace"] <= drive["totalspace"] and drive["usedspace"] <= drive["totalspace"]
    assert ask(daemon, region="us-east-1").status == 200  # clients that sign for the server's own region


def test_who_may_ask(daemon):
    denied(ask(daemon, user(daemon, "nobody")))
    denied(ask(daemon, user(daemon, "reader", "s3:*", "iam:*")))
    assert ask(daemon, user(daemon, "watcher", "admin:ServerInfo")).status == 200
    assert ask(daemon, user(daemon, "admin", "*")).status == 200
    made = dict(line.split("\t") for line in cli(daemon, "admin", "account", "create", "other").splitlines())
    denied(ask(daemon, (made["AccessKeyId"], made["SecretAccessKey"])))  # a root, but not of the store


def test_signatures_count(daemon):
    for how, code in (({"alter_signature": lambda s: s[::-1]}, "SignatureDoesNotMatch"), ({"region": "eu-west-1"}, "AuthorizationHeaderMalformed")):
        answer = ask(daemon, **how)
        assert answer.code == code, answer
    assert ask(daemon, ("AKIANOBODY0000000000", "x" * 40)).code == "InvalidAccessKeyId"
    assert ask(daemon, anonymous=True).code == "AccessDenied"
    assert ask(daemon, path="/some-bucket/key").code == "AuthorizationHeaderMalformed"  # no region is for this API alone


def test_other_calls_are_not_implemented(daemon):
    for method, path, body in (("GET", "list-users", b""), ("PUT", "add-user", b"x" * 1000), ("POST", "service", b""), ("PUT", "info", b"")):
        denied(ask(daemon, path="/minio/admin/v3/" + path, method=method, body=body), "NotImplemented", 501)
    denied(ask(daemon, user(daemon, "stranger"), path="/minio/admin/v3/list-users"))


def test_it_answers_while_the_store_is_read_only(daemon):
    cli(daemon, "admin", "read-only", "on")
    try:
        assert ask(daemon).status == 200
    finally:
        cli(daemon, "admin", "read-only", "off")


def test_drives_that_are_away():
    with Daemon(drives=4, ec="1+1").start() as daemon:
        drive = json.loads(ask(daemon).body)["servers"][0]["drives"][1]
        cli(daemon, "admin", "drive", "remove", 1)
        daemon.wait_until(lambda: len(json.loads(ask(daemon).body)["servers"][0]["drives"]) == 3, 60, "to let the drive go")
        info = json.loads(ask(daemon).body)
    assert drive["uuid"] not in [each["uuid"] for each in info["servers"][0]["drives"]] and info["backend"]["onlineDisks"] == 3
    assert [each["disk_index"] for each in info["servers"][0]["drives"]] == [0, 1, 2]


def test_a_bucket_of_that_name_goes_first(daemon):
    s3 = make_client(daemon.endpoint, daemon.access_key, daemon.secret_key)
    s3.create_bucket(Bucket="minio")
    s3.put_object(Bucket="minio", Key="admin/v3/info", Body=b"mine")
    assert s3.get_object(Bucket="minio", Key="admin/v3/info")["Body"].read() == b"mine"
    assert ask(daemon).code == "AuthorizationHeaderMalformed"
    s3.delete_object(Bucket="minio", Key="admin/v3/info")
    s3.delete_bucket(Bucket="minio")
