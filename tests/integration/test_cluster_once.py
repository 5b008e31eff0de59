"""What runs once runs once in a cluster, also when its leader is killed: inventory reports, lifecycle, access logs. Days last some seconds."""
import collections
import json
import re
import time

import botocore.exceptions
import pytest

from tests.integration.test_access_log_delivery import FIELDS, RECORD
from tests.integration.test_cluster import client, others, when_it_can
from tests.support.cluster import Cluster, wait_until

pytestmark = pytest.mark.slow  # what it runs of the code others run under sanitizers, too

DAY = 6
LOG_INTERVAL = 16


@pytest.fixture(scope="module")
def cluster():
    with Cluster() as c:
        for node in c.nodes.values():
            node.options += [f"--test-day-seconds={DAY}", f"--bucket-log-interval={LOG_INTERVAL}s"]
        c.start()
        c.wait_serving()
        yield c


def s3_of(cluster):
    """Of some node that runs."""
    return client(cluster, next(n for n in cluster.nodes.values() if n.process.poll() is None))


def ask(cluster, what, call):
    return when_it_can(cluster, what, lambda: call(s3_of(cluster)))


def let_in(cluster, bucket, service, source):
    policy = {"Version": "2012-10-17", "Statement": [
        {"Effect": "Allow", "Principal": {"Service": service}, "Action": "s3:PutObject", "Resource": f"arn:aws:s3:::{bucket}/*",
         "Condition": {"ArnLike": {"aws:SourceArn": f"arn:aws:s3:::{source}"}}}]}
    ask(cluster, "a policy is set", lambda s3: s3.put_bucket_policy(Bucket=bucket, Policy=json.dumps(policy)))


def keys(cluster, bucket):
    def look(s3):
        return [o["Key"] for page in s3.get_paginator("list_objects_v2").paginate(Bucket=bucket) for o in page.get("Contents", [])]
    return ask(cluster, f"{bucket} is listed", look)


def test_an_inventory_report_is_written_once(cluster):
    s3 = s3_of(cluster)
    for bucket in ("listed", "reports"):
        ask(cluster, "a bucket is made", lambda s3, b=bucket: s3.create_bucket(Bucket=b))
    for i in range(5):
        s3.put_object(Bucket="listed", Key=f"k{i}", Body=b"x")
    s3.put_bucket_versioning(Bucket="reports", VersioningConfiguration={"Status": "Enabled"})
    let_in(cluster, "reports", "s3.amazonaws.com", "listed")
    s3.put_bucket_inventory_configuration(Bucket="listed", Id="all", InventoryConfiguration={
        "Id": "all", "IsEnabled": True, "IncludedObjectVersions": "Current", "Schedule": {"Frequency": "Daily"},
        "Destination": {"S3BucketDestination": {"Bucket": "arn:aws:s3:::reports", "Format": "CSV"}}})

    def sums():
        return [k for k in keys(cluster, "reports") if k.endswith("manifest.checksum")]
    wait_until(sums, 90, "a report is written", cluster.said)
    leader = cluster.wait_leader()
    leader.kill()
    before = len(sums())
    wait_until(lambda: len(sums()) > before, 90, "another leader writes reports", cluster.said)  # names have minutes, so there is one a minute
    leader.spawn()
    wait_until(leader.serves, 60, "the node serves again", cluster.said)
    # no checksum, which comes last, was written twice: each period has one report, and one version of it
    versions = ask(cluster, "versions are listed", lambda s3: s3.list_object_versions(Bucket="reports")["Versions"])
    written = collections.Counter(v["Key"] for v in versions if v["Key"].endswith("manifest.checksum"))
    assert set(written.values()) == {1}, written
    ask(cluster, "it is switched off", lambda s3: s3.delete_bucket_inventory_configuration(Bucket="listed", Id="all"))


def test_what_expires_gets_one_marker(cluster):
    s3 = s3_of(cluster)
    ask(cluster, "a bucket is made", lambda s3: s3.create_bucket(Bucket="expiring"))
    s3.put_bucket_versioning(Bucket="expiring", VersioningConfiguration={"Status": "Enabled"})
    s3.put_bucket_lifecycle_configuration(Bucket="expiring", LifecycleConfiguration={"Rules": [
        {"ID": "x", "Status": "Enabled", "Filter": {"Prefix": ""}, "Expiration": {"Days": 1}}]})
    for i in range(20):
        s3.put_object(Bucket="expiring", Key=f"a{i}", Body=b"x")
    wait_until(lambda: keys(cluster, "expiring") == [], 90, "objects expire", cluster.said)
    for i in range(20):
        ask(cluster, "an object is put", lambda s3, i=i: s3.put_object(Bucket="expiring", Key=f"b{i}", Body=b"x"))
    leader = cluster.wait_leader()
    time.sleep(DAY / 2)
    leader.kill()
    wait_until(lambda: keys(cluster, "expiring") == [], 90, "objects expire at another leader", cluster.said)
    leader.spawn()
    wait_until(leader.serves, 60, "the node serves again", cluster.said)
    time.sleep(DAY)
    markers = ask(cluster, "versions are listed", lambda s3: s3.list_object_versions(Bucket="expiring")["DeleteMarkers"])
    assert collections.Counter(m["Key"] for m in markers) == {f"{p}{i}": 1 for p in "ab" for i in range(20)}


def test_each_request_is_logged_once(cluster):
    s3 = s3_of(cluster)
    for bucket in ("logged", "logs"):
        ask(cluster, "a bucket is made", lambda s3, b=bucket: s3.create_bucket(Bucket=b))
    let_in(cluster, "logs", "logging.s3.amazonaws.com", "logged")
    s3.put_bucket_logging(Bucket="logged", BucketLoggingStatus={"LoggingEnabled": {"TargetBucket": "logs", "TargetPrefix": "log/"}})
    asked = collections.Counter()

    def get(node, key):
        """Asked once of this node: what fails is not asked again, and is logged, too."""
        try:
            client(cluster, node).get_object(Bucket="logged", Key=key)
        except botocore.exceptions.ClientError:
            pass
        asked[key] += 1

    for node in cluster.nodes.values():
        for i in range(10):
            get(node, f"n{node.number}-{i}")
    leader = cluster.wait_leader()
    for node in cluster.nodes.values():  # what they gather is due while nobody leads
        get(node, f"last-{node.number}")
    time.sleep(LOG_INTERVAL - 2)
    rest = others(cluster, leader)
    leader.kill()
    cluster.wait_leader()
    for node in rest:
        for i in range(5):
            get(node, f"after-{node.number}-{i}")
    mine = {k for k in asked if re.search(r"-?n?(\d)", k) and not k.startswith((f"n{leader.number}-", f"last-{leader.number}"))}

    def logged():
        found = collections.Counter()
        for key in keys(cluster, "logs"):
            text = ask(cluster, "a log is read", lambda s3, key=key: s3.get_object(Bucket="logs", Key=key)["Body"].read()).decode()
            for line in text.splitlines():
                record = dict(zip(FIELDS, RECORD.fullmatch(line).groups()))
                if record["operation"] == "REST.GET.OBJECT":
                    found[record["key"]] += 1
        return found
    wait_until(lambda: mine <= set(logged()), 120, "all requests are logged", cluster.said)
    leader.spawn()
    wait_until(leader.serves, 60, "the node serves again", cluster.said)
    time.sleep(LOG_INTERVAL)
    found = logged()
    assert {k: found[k] for k in mine} == {k: 1 for k in mine}
    assert max(found.values()) == 1  # of the node that was killed, what it had in memory is lost, and nothing comes twice
