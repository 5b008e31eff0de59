"""Users of the store and what policies let them do: from IAM's interface to each way in."""
import json

import pytest
import requests

from tests.conftest import make_client
from tests.integration.test_iam import ACCOUNT, clear, client_of, daemon  # noqa: F401: fixture
from tests.support.expect import keys_of, read, refused

READ_ONLY = "arn:aws:iam::aws:policy/AmazonS3ReadOnlyAccess"


def document(*statements):
    """Of (effect, actions, resources)."""
    return json.dumps({"Version": "2012-10-17", "Statement": [{"Effect": effect, "Action": action, "Resource": resource}
                                                              for effect, action, resource in statements]})


class Site:
    """A bucket of root's with an object, and a user without rights."""

    def __init__(self, daemon):  # noqa: F811
        self.daemon, self.iam, self.root = daemon, client_of(daemon, "iam"), make_client(daemon.endpoint, daemon.access_key, daemon.secret_key)
        self.root.create_bucket(Bucket="team")
        self.root.put_object(Bucket="team", Key="docs/k", Body=b"x")
        self.s3 = self.user("alice")

    def user(self, name):
        self.iam.create_user(UserName=name)
        return make_client(self.daemon.endpoint, *self.key(name))

    def key(self, name):
        key = self.iam.create_access_key(UserName=name)["AccessKey"]
        return key["AccessKeyId"], key["SecretAccessKey"]

    def allow(self, action, resource, user="alice", name="p", effect="Allow"):
        self.iam.put_user_policy(UserName=user, PolicyName=name, PolicyDocument=document((effect, action, resource)))

    def can_read(self, s3=None):
        return read(s3 or self.s3, "team", "docs/k") == b"x"

    def cannot_read(self, s3=None):
        refused("AccessDenied", 403, (s3 or self.s3).get_object, Bucket="team", Key="docs/k")

    def clean(self):
        clear(self.iam)
        self.root.delete_bucket_policy(Bucket="team")
        for key in keys_of(self.root, "team"):
            self.root.delete_object(Bucket="team", Key=key)
        self.root.delete_bucket(Bucket="team")


@pytest.fixture
def site(daemon):  # noqa: F811
    made = Site(daemon)
    yield made
    made.clean()


def test_a_managed_policy_of_aws(site):
    site.cannot_read()
    site.iam.attach_user_policy(UserName="alice", PolicyArn=READ_ONLY)
    assert site.can_read() and keys_of(site.s3, "team") == ["docs/k"]
    refused("AccessDenied", 403, site.s3.put_object, Bucket="team", Key="docs/l", Body=b"y")
    refused("AccessDenied", 403, site.s3.delete_object, Bucket="team", Key="docs/k")
    site.iam.detach_user_policy(UserName="alice", PolicyArn=READ_ONLY)
    site.cannot_read()


def test_changes_count_at_once(site):
    for _ in range(20):
        site.allow("s3:GetObject", "arn:aws:s3:::team/docs/*")
        assert site.can_read()
        site.iam.delete_user_policy(UserName="alice", PolicyName="p")
        site.cannot_read()


def test_a_prefix_of_ones_own(site):
    site.allow(["s3:GetObject", "s3:PutObject"], "arn:aws:s3:::team/home/${aws:username}/*")
    site.s3.put_object(Bucket="team", Key="home/alice/a", Body=b"mine")
    assert read(site.s3, "team", "home/alice/a") == b"mine"
    refused("AccessDenied", 403, site.s3.put_object, Bucket="team", Key="home/bob/a", Body=b"")
    refused("AccessDenied", 403, site.s3.get_object, Bucket="team", Key="home/alice/none")  # it may not list, so it is not told
    site.allow("s3:ListBucket", "arn:aws:s3:::team", name="list")
    refused("NoSuchKey", 404, site.s3.get_object, Bucket="team", Key="home/alice/none")


def test_a_copy_needs_both_rights(site):
    source = {"Bucket": "team", "Key": "docs/k"}
    site.allow("s3:PutObject", "arn:aws:s3:::team/*")
    refused("AccessDenied", 403, site.s3.copy_object, Bucket="team", Key="copy", CopySource=source)
    site.allow("s3:GetObject", "arn:aws:s3:::team/docs/*", name="read")
    site.s3.copy_object(Bucket="team", Key="copy", CopySource=source)


def test_delete_objects_key_by_key(site):
    site.root.put_object(Bucket="team", Key="tmp/1", Body=b"")
    site.allow("s3:DeleteObject", "arn:aws:s3:::team/tmp/*")
    answer = site.s3.delete_objects(Bucket="team", Delete={"Objects": [{"Key": "tmp/1"}, {"Key": "docs/k"}]})
    assert [d["Key"] for d in answer["Deleted"]] == ["tmp/1"]
    assert [(e["Key"], e["Code"]) for e in answer["Errors"]] == [("docs/k", "AccessDenied")]
    assert keys_of(site.root, "team") == ["docs/k"]


def test_forms_of_browsers(site):
    site.allow("s3:PutObject", "arn:aws:s3:::team/in/*")
    s3 = make_client(site.daemon.endpoint, *site.key("alice"), signature_version="s3v4")

    def send(key):
        form = s3.generate_presigned_post("team", key)
        return requests.post(form["url"], data=form["fields"], files={"file": ("f", b"bytes")}, timeout=60)

    assert send("in/k").status_code == 204 and read(site.root, "team", "in/k") == b"bytes"
    answer = send("docs/k")
    assert answer.status_code == 403 and "AccessDenied" in answer.text and site.can_read(site.root)


def test_a_deny_of_the_bucket_holds(site):
    site.iam.attach_user_policy(UserName="alice", PolicyArn="arn:aws:iam::aws:policy/AdministratorAccess")
    assert site.can_read()
    site.root.put_bucket_policy(Bucket="team", Policy=json.dumps({"Version": "2012-10-17", "Statement": [
        {"Effect": "Deny", "Principal": {"AWS": f"arn:aws:iam::{ACCOUNT}:user/alice"}, "Action": "s3:GetObject", "Resource": "arn:aws:s3:::team/*"}]}))
    site.cannot_read()
    assert site.can_read(site.root)


def test_a_bucket_lets_a_user_in(site):
    site.root.put_bucket_policy(Bucket="team", Policy=json.dumps({"Version": "2012-10-17", "Statement": [
        {"Effect": "Allow", "Principal": {"AWS": f"arn:aws:iam::{ACCOUNT}:user/alice"}, "Action": "s3:GetObject", "Resource": "arn:aws:s3:::team/*"}]}))
    assert site.can_read()
    site.cannot_read(site.user("bob"))


def test_groups_and_boundaries(site):
    site.iam.create_group(GroupName="staff")
    site.iam.put_group_policy(GroupName="staff", PolicyName="all", PolicyDocument=document(("Allow", "s3:*", "*")))
    site.cannot_read()
    site.iam.add_user_to_group(GroupName="staff", UserName="alice")
    assert site.can_read()
    site.iam.put_user_permissions_boundary(UserName="alice", PermissionsBoundary="arn:aws:iam::aws:policy/writeonly")
    site.cannot_read()
    site.s3.put_object(Bucket="team", Key="w", Body=b"")
    site.iam.delete_user_permissions_boundary(UserName="alice")
    assert site.can_read()
    site.iam.remove_user_from_group(GroupName="staff", UserName="alice")
    site.cannot_read()


def test_a_key_that_is_switched_off(site):
    site.allow("s3:*", "*")
    access, secret = site.key("alice")
    other = make_client(site.daemon.endpoint, access, secret)
    assert site.can_read(other)
    site.iam.update_access_key(UserName="alice", AccessKeyId=access, Status="Inactive")
    refused("InvalidAccessKeyId", 403, other.get_object, Bucket="team", Key="docs/k")
    assert site.can_read()


# ---- IAM's own actions ------------------------------------------------------------------------------------------------


def test_iam_is_decided_by_what_it_is_about(site):
    me = f"arn:aws:iam::{ACCOUNT}:user/alice"
    own = client_of(site.daemon, "iam", *site.key("alice"))
    site.iam.create_user(UserName="bob")
    site.allow("iam:*", me)
    assert own.get_user()["User"]["UserName"] == "alice"
    own.tag_user(UserName="alice", Tags=[{"Key": "k", "Value": "v"}])
    for call, arguments in ((own.create_access_key, {"UserName": "bob"}), (own.get_user, {"UserName": "bob"}), (own.list_users, {}),
                            (own.create_user, {"UserName": "eve"}), (own.create_group, {"GroupName": "g"}),
                            (own.update_user, {"UserName": "alice", "NewPath": "/admins/"})):
        refused("AccessDenied", 403, call, **arguments)


def test_a_deny_about_one_user_holds(site):
    own = client_of(site.daemon, "iam", *site.key("alice"))
    site.iam.create_user(UserName="admin")
    site.allow("iam:*", "*")
    site.allow("iam:*", f"arn:aws:iam::{ACCOUNT}:user/admin", name="not", effect="Deny")
    own.create_user(UserName="eve")
    refused("AccessDenied", 403, own.create_access_key, UserName="admin")
    refused("AccessDenied", 403, own.delete_user, UserName="admin")


def test_rights_in_s3_are_none_in_iam(site):
    own = client_of(site.daemon, "iam", *site.key("alice"))
    site.allow("*", ["arn:aws:s3:::*", "arn:aws:s3:::*/*"])
    assert site.can_read()
    refused("AccessDenied", 403, own.create_user, UserName="eve")
    refused("AccessDenied", 403, own.attach_user_policy, UserName="alice", PolicyArn="arn:aws:iam::aws:policy/AdministratorAccess")
