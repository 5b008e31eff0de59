"""Users and what lets them do things, at all nodes of a cluster: what was changed at one node holds at each other once it is answered, also when the leader is killed."""
import threading

import botocore.exceptions
import pytest

from tests.conftest import make_client
from tests.integration.test_cluster import client, others, when_it_can
from tests.integration.test_iam import client_of
from tests.integration.test_user_policies import document
from tests.support.cluster import Cluster, wait_until

ROUNDS = 6


@pytest.fixture(scope="module")
def cluster():
    with Cluster() as c:
        c.start()
        c.wait_serving()
        when_it_can(c, "a bucket is made", lambda: client(c, c.nodes[1]).create_bucket(Bucket="team"))
        when_it_can(c, "an object is put", lambda: client(c, c.nodes[1]).put_object(Bucket="team", Key="k", Body=b"x"))
        for node in c.nodes.values():
            wait_known(c, node)
        yield c


def wait_known(cluster, node):
    """It serves, and its directory of users is whole."""
    wait_until(lambda: (node.get("/health/ready", node.admin) or [0])[0] == 200, 60, f"node {node.number} knows all users", cluster.said)


def iam_of(node):
    return client_of(node, "iam")


def user_at(node, key):
    return make_client(node.endpoint, key["AccessKeyId"], key["SecretAccessKey"])


def says(s3):
    """What a read comes to: 200, 403, or 503 while nobody knows."""
    try:
        s3.get_object(Bucket="team", Key="k")["Body"].read()
        return 200
    except botocore.exceptions.ClientError as error:
        return error.response["ResponseMetadata"]["HTTPStatusCode"]
    except botocore.exceptions.BotoCoreError:
        return 503


def ring(cluster, i):
    """Three nodes, beginning with another one each time."""
    nodes = list(cluster.nodes.values())
    return [nodes[(i + j) % len(nodes)] for j in range(len(nodes))]


ALLOWED = document(("Allow", "s3:GetObject", "arn:aws:s3:::team/*"))


def test_a_change_at_one_node_holds_at_the_others(cluster):
    for i in range(ROUNDS):
        one, two, three = ring(cluster, i)
        name = f"user{i}"
        iam_of(one).create_user(UserName=name)
        key = iam_of(two).create_access_key(UserName=name)["AccessKey"]
        assert [says(user_at(n, key)) for n in (one, two, three)] == [403] * 3
        iam_of(three).put_user_policy(UserName=name, PolicyName="p", PolicyDocument=ALLOWED)
        assert [says(user_at(n, key)) for n in (one, two, three)] == [200] * 3
        iam_of(one).delete_user_policy(UserName=name, PolicyName="p")
        assert [says(user_at(n, key)) for n in (three, two, one)] == [403] * 3
        iam_of(two).put_user_policy(UserName=name, PolicyName="p", PolicyDocument=ALLOWED)
        assert [says(user_at(n, key)) for n in (three, one, two)] == [200] * 3
        iam_of(three).update_access_key(UserName=name, AccessKeyId=key["AccessKeyId"], Status="Inactive")
        assert [says(user_at(n, key)) for n in (two, one, three)] == [403] * 3
        iam_of(one).update_access_key(UserName=name, AccessKeyId=key["AccessKeyId"], Status="Active")
        assert [says(user_at(n, key)) for n in (two, three, one)] == [200] * 3
        iam_of(two).delete_access_key(UserName=name, AccessKeyId=key["AccessKeyId"])
        assert [says(user_at(n, key)) for n in (one, three, two)] == [403] * 3


def test_a_bucket_policy_made_at_one_node_holds_at_the_others(cluster):
    key = None
    for i in range(ROUNDS):
        one, two, three = ring(cluster, i)
        if key is None:
            iam_of(one).create_user(UserName="guest")
            key = iam_of(one).create_access_key(UserName="guest")["AccessKey"]
            iam_of(one).put_user_policy(UserName="guest", PolicyName="p", PolicyDocument=ALLOWED)
        denied = document(("Deny", "s3:GetObject", "arn:aws:s3:::team/*")).replace('"Action"', '"Principal": "*", "Action"')
        client(cluster, two).put_bucket_policy(Bucket="team", Policy=denied)
        assert [says(user_at(n, key)) for n in (one, three, two)] == [403] * 3
        client(cluster, three).delete_bucket_policy(Bucket="team")
        assert [says(user_at(n, key)) for n in (two, one, three)] == [200] * 3


def code_of(call):
    try:
        call()
        return "ok"
    except botocore.exceptions.ClientError as error:
        return error.response["Error"]["Code"]


def at_once(*calls):
    """What each comes to."""
    came = [None] * len(calls)

    def run(i):
        came[i] = code_of(calls[i])
    threads = [threading.Thread(target=run, args=(i,)) for i in range(len(calls))]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    return came


def test_changes_at_two_nodes_see_each_other(cluster):
    """What may not be both is not both: a policy that is deleted here and attached there, a user who is deleted here and gets a key there."""
    one, two, three = (iam_of(n) for n in cluster.nodes.values())
    one.create_user(UserName="dora")
    for i in range(25):
        arn = three.create_policy(PolicyName=f"p{i}", PolicyDocument=ALLOWED)["Policy"]["Arn"]
        attached, deleted = at_once(lambda a=arn: one.attach_user_policy(UserName="dora", PolicyArn=a), lambda a=arn: two.delete_policy(PolicyArn=a))
        assert (attached, deleted) in (("ok", "DeleteConflict"), ("NoSuchEntity", "ok"))
        if attached == "ok":
            three.detach_user_policy(UserName="dora", PolicyArn=arn)
            three.delete_policy(PolicyArn=arn)
        three.create_user(UserName=f"eve{i}")
        made, deleted = at_once(lambda n=f"eve{i}": two.create_access_key(UserName=n), lambda n=f"eve{i}": one.delete_user(UserName=n))
        assert (made, deleted) in (("ok", "DeleteConflict"), ("NoSuchEntity", "ok"))
    # and what may be both is both, though each has to be decided again
    names = [f"many{i}" for i in range(12)]
    assert at_once(*(lambda n=n, c=(one, two, three)[i % 3]: c.create_user(UserName=n) for i, n in enumerate(names))) == ["ok"] * len(names)
    for iam in (one, two, three):
        assert set(names) <= {u["UserName"] for u in iam.list_users()["Users"]}


def test_what_was_revoked_stays_so_when_the_leader_is_killed(cluster):
    """From the answer on, no node lets the user in, whoever leads; and what was granted holds once a node answers at all."""
    one, two, _ = ring(cluster, 0)
    for name in ("bob", "carol"):
        iam_of(one).create_user(UserName=name)
        iam_of(one).put_user_policy(UserName=name, PolicyName="p", PolicyDocument=ALLOWED)
    keys = {name: iam_of(two).create_access_key(UserName=name)["AccessKey"] for name in ("bob", "carol")}
    for _ in range(2):
        leader = cluster.wait_leader()
        rest = others(cluster, leader)
        assert [says(user_at(n, keys["bob"])) for n in rest] == [200] * 2
        iam_of(rest[0]).delete_user_policy(UserName="bob", PolicyName="p")
        leader.kill()
        seen, stop = {200: 0, 403: 0, 503: 0}, threading.Event()

        def look(node, seen=seen, stop=stop):
            s3 = user_at(node, keys["bob"])
            while not stop.is_set():
                seen[says(s3)] += 1
        threads = [threading.Thread(target=look, args=(node,)) for node in rest]
        for t in threads:
            t.start()
        try:
            cluster.wait_leader()
            for node in rest:
                wait_until(lambda n=node: says(user_at(n, keys["carol"])) == 200, 60, "another's right holds", cluster.said)
        finally:
            stop.set()
            for t in threads:
                t.join()
        assert seen[200] == 0 and seen[403] > 0, seen
        # and the other way: granted by the leader after
        when_it_can(cluster, "a policy is set", lambda: iam_of(rest[1]).put_user_policy(UserName="bob", PolicyName="p", PolicyDocument=ALLOWED))
        assert [says(user_at(n, keys["bob"])) for n in rest] == [200] * 2
        leader.spawn()
        wait_known(cluster, leader)
        wait_until(lambda n=leader: says(user_at(n, keys["bob"])) == 200, 60, "it knows the user", cluster.said)
