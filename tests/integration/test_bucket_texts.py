"""Configurations of buckets that are kept as texts: tags and lifecycle rules."""
import datetime

import pytest

from tests.conftest import make_client
from tests.support import checksums
from tests.support.daemon import Daemon
from tests.support.expect import refused

RULES = [{"ID": "old logs", "Status": "Enabled", "Filter": {"And": {"Prefix": "logs/", "Tags": [{"Key": "keep", "Value": "no"}]}},
          "Expiration": {"Days": 30}, "NoncurrentVersionExpiration": {"NoncurrentDays": 7, "NewerNoncurrentVersions": 2}},
         {"ID": "uploads", "Status": "Disabled", "Filter": {"Prefix": ""}, "AbortIncompleteMultipartUpload": {"DaysAfterInitiation": 3}}]
TAGS = [{"Key": "team", "Value": "vision"}, {"Key": "ünïcode", "Value": ""}]


def lifecycle(s3, bucket):
    return s3.get_bucket_lifecycle_configuration(Bucket=bucket)["Rules"]


def test_lifecycle(s3, bucket):
    refused("NoSuchLifecycleConfiguration", 404, s3.get_bucket_lifecycle_configuration, Bucket=bucket)
    s3.put_bucket_lifecycle_configuration(Bucket=bucket, LifecycleConfiguration={"Rules": RULES})
    assert lifecycle(s3, bucket) == RULES
    s3.put_bucket_lifecycle_configuration(Bucket=bucket, LifecycleConfiguration={"Rules": RULES[:1]})
    assert lifecycle(s3, bucket) == RULES[:1]
    s3.delete_bucket_lifecycle(Bucket=bucket)
    s3.delete_bucket_lifecycle(Bucket=bucket)
    refused("NoSuchLifecycleConfiguration", 404, s3.get_bucket_lifecycle_configuration, Bucket=bucket)


@pytest.mark.parametrize("rule, code, status", [
    ({"ID": "x", "Status": "Enabled", "Filter": {"Prefix": ""}, "Transitions": [{"Days": 1, "StorageClass": "GLACIER"}]}, "NotImplemented", 501),
    ({"ID": "x", "Status": "Perhaps", "Filter": {"Prefix": ""}, "Expiration": {"Days": 1}}, "MalformedXML", 400),
    ({"ID": "x", "Status": "Enabled", "Filter": {"Prefix": ""}, "Expiration": {"Days": 0}}, "InvalidArgument", 400),
    ({"ID": "x", "Status": "Enabled", "Filter": {"Prefix": ""}}, "InvalidRequest", 400)])
def test_rules_that_are_refused(s3, bucket, rule, code, status):
    refused(code, status, s3.put_bucket_lifecycle_configuration, Bucket=bucket, LifecycleConfiguration={"Rules": [rule]})
    refused("NoSuchLifecycleConfiguration", 404, s3.get_bucket_lifecycle_configuration, Bucket=bucket)


def test_many_rules(s3, bucket):
    """As many as AWS allows; what they may be as long as is less than they could be."""
    rules = [{"ID": f"rule number {i}", "Status": "Enabled", "Filter": {"Prefix": f"logs/of/{i}/"}, "Expiration": {"Days": 30}} for i in range(1000)]
    s3.put_bucket_lifecycle_configuration(Bucket=bucket, LifecycleConfiguration={"Rules": rules})
    assert lifecycle(s3, bucket) == rules
    longer = [{**rule, "Filter": {"Prefix": "p" * 1000 + rule["ID"]}} for rule in rules]
    answer = refused("MaxMessageLengthExceeded", 400, s3.put_bucket_lifecycle_configuration, Bucket=bucket, LifecycleConfiguration={"Rules": longer})
    assert "262144 bytes" in answer["Error"]["Message"]
    assert lifecycle(s3, bucket) == rules


def test_expiration_is_told(s3, bucket):
    s3.put_bucket_lifecycle_configuration(Bucket=bucket, LifecycleConfiguration={"Rules": RULES[:1]})
    assert "Expiration" not in s3.put_object(Bucket=bucket, Key="logs/other", Body=b"x")
    s3.put_object(Bucket=bucket, Key="logs/k", Body=b"x", Tagging="keep=no")
    told = s3.head_object(Bucket=bucket, Key="logs/k")["Expiration"]
    day = (datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(days=31)).strftime("%a, %d %b %Y 00:00:00 GMT")
    assert told == f'expiry-date="{day}", rule-id="old%20logs"', told
    assert s3.get_object(Bucket=bucket, Key="logs/k")["Expiration"] == told
    assert "Expiration" not in s3.get_object(Bucket=bucket, Key="logs/other")


def test_tags_of_a_bucket(s3, bucket):
    refused("NoSuchTagSet", 404, s3.get_bucket_tagging, Bucket=bucket)
    s3.put_bucket_tagging(Bucket=bucket, Tagging={"TagSet": TAGS})
    assert s3.get_bucket_tagging(Bucket=bucket)["TagSet"] == TAGS
    many = [{"Key": f"k{i}", "Value": "v" * 256} for i in range(50)]
    s3.put_bucket_tagging(Bucket=bucket, Tagging={"TagSet": many})
    refused("BadRequest", 400, s3.put_bucket_tagging, Bucket=bucket, Tagging={"TagSet": many + TAGS})
    assert s3.get_bucket_tagging(Bucket=bucket)["TagSet"] == many
    s3.delete_bucket_tagging(Bucket=bucket)
    refused("NoSuchTagSet", 404, s3.get_bucket_tagging, Bucket=bucket)


def test_they_stay_and_go_with_the_bucket():
    with Daemon(drives=4, ec="2+2").start() as daemon:
        s3 = make_client(daemon.endpoint, daemon.access_key, daemon.secret_key)
        for bucket in ("one", "two"):
            s3.create_bucket(Bucket=bucket)
            s3.put_bucket_tagging(Bucket=bucket, Tagging={"TagSet": TAGS})
            s3.put_bucket_lifecycle_configuration(Bucket=bucket, LifecycleConfiguration={"Rules": RULES})
        s3.delete_bucket(Bucket="two")
        s3.create_bucket(Bucket="two")
        for end in (daemon.stop, daemon.kill):
            end()
            daemon.restart()
            s3 = make_client(daemon.endpoint, daemon.access_key, daemon.secret_key, retries=5)
            assert s3.get_bucket_tagging(Bucket="one")["TagSet"] == TAGS and lifecycle(s3, "one") == RULES
            refused("NoSuchTagSet", 404, s3.get_bucket_tagging, Bucket="two")
            refused("NoSuchLifecycleConfiguration", 404, s3.get_bucket_lifecycle_configuration, Bucket="two")


def test_documents_that_need_a_checksum(raw, s3, bucket):
    body = b"<LifecycleConfiguration><Rule><ID>x</ID><Status>Enabled</Status><Filter/><Expiration><Days>1</Days></Expiration></Rule></LifecycleConfiguration>"
    answer = raw.request("PUT", f"/{bucket}", query=[("lifecycle", "")], body=body)
    assert (answer.status, answer.code) == (400, "InvalidRequest"), answer
    answer = raw.request("PUT", f"/{bucket}", query=[("lifecycle", "")], body=body, headers={"Content-MD5": checksums.content_md5(body)})
    assert answer.status == 200 and lifecycle(s3, bucket)[0]["ID"] == "x"
    late = body.replace(b"<Days>1</Days>", b"<Date>9999-12-31T12:00:00-12:00</Date>")
    answer = raw.request("PUT", f"/{bucket}", query=[("lifecycle", "")], body=late, headers={"Content-MD5": checksums.content_md5(late)})
    assert answer.status == 400 and lifecycle(s3, bucket)[0]["Expiration"] == {"Days": 1}, answer


def test_the_least_size_of_what_transitions(s3, bucket):
    """Nothing depends on it, but clients wait until they read what they have set."""
    rules = {"Rules": [{"ID": "a", "Status": "Enabled", "Filter": {"Prefix": ""}, "Expiration": {"Days": 1}}]}
    name = "TransitionDefaultMinimumObjectSize"
    for given in ({}, {name: "all_storage_classes_128K"}):
        assert s3.put_bucket_lifecycle_configuration(Bucket=bucket, LifecycleConfiguration=rules, **given)[name] == "all_storage_classes_128K"
        assert s3.get_bucket_lifecycle_configuration(Bucket=bucket)[name] == "all_storage_classes_128K"
    for given, code, status in (("varies_by_storage_class", "NotImplemented", 501), ("x", "InvalidArgument", 400)):
        refused(code, status, s3.put_bucket_lifecycle_configuration, Bucket=bucket, LifecycleConfiguration=rules, **{name: given})
