"""Access logs of buckets arrive in their target bucket. Rules G1 to G10 of docs/design/access-logs.md."""
import json
import re

import pytest

from tests.conftest import make_client
from tests.integration.test_switches import cli
from tests.support.daemon import Daemon
from tests.support.expect import refused
from tests.support.s3raw import RawClient

FIELDS = ("owner bucket time remote requester request operation key uri status error sent size total turn referer agent version host_id "
          "signature cipher auth host tls access_point acl").split()
RECORD = re.compile(r'(\S+) (\S+) \[([^]]+)\] (\S+) (\S+) (\S+) (\S+) (\S+) "([^"]*)" (\S+) (\S+) (\S+) (\S+) (\S+) (\S+) "([^"]*)" "([^"]*)" '
                    r"(\S+) (\S+) (\S+) (\S+) (\S+) (\S+) (\S+) (\S+) (\S+)")


@pytest.fixture
def site():
    with Daemon(settings={"bucket_log_interval": "1s"}).start() as daemon:
        daemon.s3 = make_client(daemon.endpoint, daemon.access_key, daemon.secret_key)
        daemon.raw = RawClient(daemon.host, daemon.port, daemon.access_key, daemon.secret_key)
        for name in ("source", "logs"):
            daemon.s3.create_bucket(Bucket=name)
        yield daemon


def let_in(site, bucket="logs", source="source", service="logging.s3.amazonaws.com"):
    site.s3.put_bucket_policy(Bucket=bucket, Policy=json.dumps({"Version": "2012-10-17", "Statement": [
        {"Effect": "Allow", "Principal": {"Service": service}, "Action": "s3:PutObject", "Resource": f"arn:aws:s3:::{bucket}/*",
         "Condition": {"ArnLike": {"aws:SourceArn": f"arn:aws:s3:::{source}"}}}]}))


def switch_on(site, prefix="log/", bucket="source", target="logs", **more):
    site.s3.put_bucket_logging(Bucket=bucket, BucketLoggingStatus={"LoggingEnabled": {"TargetBucket": target, "TargetPrefix": prefix, **more}})


def names(site, bucket="logs"):
    return [o["Key"] for o in site.s3.list_objects_v2(Bucket=bucket).get("Contents", [])]


def records(site, bucket="logs"):
    found = []
    for name in names(site, bucket):
        for line in site.s3.get_object(Bucket=bucket, Key=name)["Body"].read().decode().splitlines():
            match = RECORD.fullmatch(line)
            assert match, line
            found.append(dict(zip(FIELDS, match.groups())))
    return found


def wait_for(site, *operations):
    site.wait_until(lambda: set(operations) <= {r["operation"] for r in records(site)}, 30, f"to deliver {operations}")
    return {r["operation"]: r for r in records(site)}


def test_records(site):
    let_in(site)
    switch_on(site)
    assert site.s3.get_bucket_logging(Bucket="source")["LoggingEnabled"]["TargetPrefix"] == "log/"
    site.s3.put_object(Bucket="source", Key="a b/é", Body=b"x" * 1000)
    site.s3.get_object(Bucket="source", Key="a b/é", Range="bytes=0-9")["Body"].read()
    site.s3.list_objects_v2(Bucket="source")
    site.s3.copy_object(Bucket="source", Key="copy", CopySource={"Bucket": "source", "Key": "a b/é"})
    site.raw.request("GET", "/source/none", anonymous=True, headers={"User-Agent": 'a" 200 "', "Referer": "http://r.example/ x"})
    site.raw.request("HEAD", "/logs")
    site.wait_until(lambda: {"206", "403"} <= {r["status"] for r in records(site)}, 30, "to deliver both reads")
    found = wait_for(site, "REST.PUT.OBJECT", "REST.GET.OBJECT", "REST.GET.BUCKET", "REST.COPY.OBJECT")
    put, copy = found["REST.PUT.OBJECT"], found["REST.COPY.OBJECT"]
    assert put["bucket"] == "source" and put["key"] == "a%20b/%C3%A9" and put["size"] == "1000" and put["status"] == "200"
    assert (put["signature"], put["auth"], put["host"], put["tls"], put["error"], put["sent"]) == ("SigV4", "AuthHeader", f"{site.host}:{site.port}", "-", "-", "-")
    assert put["requester"] == put["owner"] and len(put["owner"]) == 64 and put["uri"].startswith("PUT /source/a%20b/%C3%A9")
    assert copy["key"] == "copy" and copy["remote"] == site.host
    gets = [r for r in records(site) if r["operation"] == "REST.GET.OBJECT"]
    part = next(r for r in gets if r["status"] == "206")
    assert (part["sent"], part["size"]) == ("10", "1000")
    stranger = next(r for r in gets if r["status"] == "403")
    assert (stranger["requester"], stranger["error"], stranger["signature"], stranger["auth"]) == ("-", "AccessDenied", "-", "-")
    assert stranger["agent"] == "a%22 200 %22" and stranger["referer"] == "http://r.example/ x"
    assert all(r["bucket"] == "source" for r in records(site))  # the target has no logging of its own
    assert all(re.fullmatch(r"log/\d{4}-\d\d-\d\d-\d\d-\d\d-\d\d-[0-9A-F]{16}", name) for name in names(site))
    figures = site.metrics()
    assert figures["millrace_bucket_log_records_total"] >= 6 and figures["millrace_bucket_log_dropped_total"] == 0


def test_only_where_the_target_lets_it_in(site):
    switch_on(site)
    site.s3.list_objects_v2(Bucket="source")
    site.wait_until(lambda: site.metrics()["millrace_bucket_log_refused_total"] > 0, 30, "to refuse")
    let_in(site, source="another")
    before = site.metrics()["millrace_bucket_log_refused_total"]
    site.s3.list_objects_v2(Bucket="source")
    site.wait_until(lambda: site.metrics()["millrace_bucket_log_refused_total"] > before, 30, "to refuse")
    assert names(site) == []
    with pytest.raises(site.s3.exceptions.ClientError, match="InvalidTargetBucketForLogging"):
        switch_on(site, target="none-there")
    site.s3.create_bucket(Bucket="locked", ObjectLockEnabledForBucket=True)
    with pytest.raises(site.s3.exceptions.ClientError, match="InvalidTargetBucketForLogging"):
        switch_on(site, target="locked")
    site.s3.put_bucket_logging(Bucket="source", BucketLoggingStatus={})
    assert "LoggingEnabled" not in site.s3.get_bucket_logging(Bucket="source")


def test_partitions_and_a_log_of_the_target_itself(site):
    let_in(site)
    switch_on(site, prefix="p/", TargetObjectKeyFormat={"PartitionedPrefix": {"PartitionDateSource": "EventTime"}})
    site.s3.list_objects_v2(Bucket="source")
    site.wait_until(lambda: names(site), 30, "to deliver")
    assert re.fullmatch(r"p/\d{12}/us-east-1/source/(\d{4})/(\d\d)/(\d\d)/\1-\2-\3-00-00-00-[0-9A-F]{16}", names(site)[0])
    let_in(site, source="*")
    switch_on(site, bucket="logs", target="logs", prefix="own/")
    site.s3.head_bucket(Bucket="logs")
    site.wait_until(lambda: site.metrics()["millrace_bucket_log_objects_total"] >= 2, 30, "to deliver")
    settled = []  # deliveries are no requests: nothing but what this test asks is logged

    def quiet():
        settled.append(site.metrics()["millrace_bucket_log_objects_total"])
        return len(settled) > 30 and len(set(settled[-20:])) == 1
    site.wait_until(quiet, 30, "to become quiet")


def test_an_orderly_stop_writes_what_is_gathered(site):
    site.settings["bucket_log_interval"] = "1h"
    site.stop()
    site.restart()
    site.s3 = make_client(site.endpoint, site.access_key, site.secret_key)
    site.raw = RawClient(site.host, site.port, site.access_key, site.secret_key)
    let_in(site)
    switch_on(site)
    for _ in range(20):
        site.s3.list_objects_v2(Bucket="source")
    assert names(site) == []
    with site.raw.connect() as connection:  # one loop: a batch of 1 MiB does not wait
        for _ in range(140):
            assert site.raw.request("HEAD", "/source", connection=connection, headers={"User-Agent": "x" * 8000}).status == 200
    site.wait_until(lambda: names(site), 30, "to deliver a full batch")
    assert site.s3.head_object(Bucket="logs", Key=names(site)[0])["ContentLength"] >= 1 << 20
    site.stop()
    site.restart()
    site.s3 = make_client(site.endpoint, site.access_key, site.secret_key)
    assert sum(r["operation"] == "REST.HEAD.BUCKET" for r in records(site)) == 140
    assert sum(r["operation"] == "REST.GET.BUCKET" for r in records(site)) == 20


def test_another_bucket_of_the_name_gets_no_records_of_the_first():
    """Source and target are deleted and made anew while records wait: whoever has the names now is somebody else."""
    with Daemon(loops=1, settings={"bucket_log_interval": "1d"}).start() as site:
        site.s3 = make_client(site.endpoint, site.access_key, site.secret_key)
        for name in ("source", "logs"):
            site.s3.create_bucket(Bucket=name)
        let_in(site)
        switch_on(site)
        site.s3.list_objects_v2(Bucket="source")
        for name in ("source", "logs"):
            site.s3.delete_bucket(Bucket=name)
            site.s3.create_bucket(Bucket=name)
        let_in(site)
        site.stop()
        site.restart()
        site.s3 = make_client(site.endpoint, site.access_key, site.secret_key)
        assert names(site) == []


ALL = "http://acs.amazonaws.com/groups/global/AllUsers"


def grant(permission, **grantee):
    return {"Grantee": {"Type": "Group" if "URI" in grantee else "CanonicalUser", **grantee}, "Permission": permission}


def test_target_grants(site):
    """They become the ACL of each object of the log, while ACLs count in the target."""
    other = dict(line.split("\t") for line in cli(site, "admin", "account", "create", "other").splitlines())
    grants = [grant("READ", ID=other["CanonicalId"]), grant("READ", URI=ALL)]
    let_in(site)
    error = refused("AccessControlListNotSupported", 400, switch_on, site, TargetGrants=grants)
    assert error["Error"]["Message"] == "Target grants not allowed for bucket owner enforced buckets"
    site.s3.put_bucket_ownership_controls(Bucket="logs", OwnershipControls={"Rules": [{"ObjectOwnership": "ObjectWriter"}]})
    for wrong, code in ((grant("READ", ID="x"), "InvalidArgument"), (grant("READ", URI="http://example.com/"), "InvalidArgument")):
        refused(code, 400, switch_on, site, TargetGrants=[wrong])

    def delivered(prefix):
        site.s3.list_objects_v2(Bucket="source")
        site.wait_until(lambda: [name for name in names(site) if name.startswith(prefix)], 30, "to deliver")
        return next(name for name in names(site) if name.startswith(prefix))

    def granted(name):
        answer = site.s3.get_object_acl(Bucket="logs", Key=name)
        return answer["Owner"]["ID"], sorted((g["Permission"], g["Grantee"].get("ID", g["Grantee"].get("URI"))) for g in answer["Grants"])

    switch_on(site, prefix="blocked/", TargetGrants=grants)  # all access of the public is blocked at first
    name = delivered("blocked/")
    owner = site.s3.get_bucket_acl(Bucket="logs")["Owner"]["ID"]
    assert granted(name) == (owner, sorted([("FULL_CONTROL", owner), ("READ", other["CanonicalId"])]))
    theirs = make_client(site.endpoint, other["AccessKeyId"], other["SecretAccessKey"])
    assert theirs.get_object(Bucket="logs", Key=name)["Body"].read()
    assert site.raw.request("GET", f"/logs/{name}", anonymous=True).status == 403
    site.s3.delete_public_access_block(Bucket="logs")
    let_in(site)
    switch_on(site, prefix="open/", TargetGrants=grants)
    name = delivered("open/")
    assert granted(name) == (owner, sorted([("FULL_CONTROL", owner), ("READ", other["CanonicalId"]), ("READ", ALL)]))
    assert site.raw.request("GET", f"/logs/{name}", anonymous=True).status == 200
    switch_on(site, prefix="plain/")
    assert granted(delivered("plain/"))[1] == [("FULL_CONTROL", owner)]
    switch_on(site, prefix="later/", TargetGrants=grants)
    site.s3.put_bucket_ownership_controls(Bucket="logs", OwnershipControls={"Rules": [{"ObjectOwnership": "BucketOwnerEnforced"}]})
    name = delivered("later/")
    assert granted(name)[1] == [("FULL_CONTROL", owner)]
    refused("AccessDenied", 403, theirs.get_object, Bucket="logs", Key=name)
