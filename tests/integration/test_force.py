"""Drives that are gone for good: what the operator is told, what is refused, what the store is without them, and what comes of them if they come back."""
import json
import shutil
import threading
import time
from contextlib import contextmanager

import pytest
from botocore.exceptions import ClientError, ResponseStreamingError

from tests.conftest import Store, make_client
from tests.integration.test_drives import cli, client_of, fill, holds, whole
from tests.support.daemon import Daemon
from tests.support.expect import read

pytestmark = pytest.mark.daemon


def away(daemon, *slots):
    for i in slots:
        daemon.drives[i].rename(daemon.folder / f"away{i}")


def back(daemon, *slots):
    for i in slots:
        (daemon.folder / f"away{i}").rename(daemon.drives[i])


def spawn(daemon, *words):
    """Starts a daemon that is not ready, or only reads, for a reason that has these words."""
    daemon.spawn()
    daemon.wait_listening()
    daemon.wait_until(lambda: all(word in daemon.health_json()[1]["reason"] for word in words), 30, f"to say {words}")


def force(daemon, without, *options, status=0):
    return cli(daemon, "admin", "start", "--force-without", without, *options, status=status)


def answers(daemon, code, operation, **arguments):
    once = make_client(daemon.endpoint, daemon.access_key, daemon.secret_key, retries=0)
    with pytest.raises(ClientError) as caught:
        getattr(once, operation)(**arguments)
    assert caught.value.response["ResponseMetadata"]["HTTPStatusCode"] == code


def replace(daemon, slot):
    """Empties the folder of a drive that was given up, and gives it the slot."""
    shutil.rmtree(daemon.drives[slot], ignore_errors=True)
    daemon.drives[slot].mkdir()
    cli(daemon, "admin", "drive", "replace", slot, daemon.drives[slot])


def replace_each(daemon, *slots):
    """The last of the store's drives that are out."""
    for out, slot in zip(reversed(range(len(slots))), slots):
        replace(daemon, slot)
        daemon.wait_until(lambda: daemon.health_json()[1]["drives_in"] == len(daemon.drives) - out, 60, f"to have all drives but {out} in")


def gone_on(count, ec, present, small=0):
    """A store of which all drives but `present` have gone on alone: they hold 'newer', and deleted k0. Stopped, with those that went on away."""
    daemon = Daemon(drives=count, ec=ec).start()
    s3 = client_of(daemon)
    bodies = fill(s3)
    for i in range(small):
        bodies[f"s{i}"] = b"small %d" % i
        s3.put_object(Bucket="kept", Key=f"s{i}", Body=bodies[f"s{i}"])
    daemon.stop()
    away(daemon, *present)
    daemon.start()
    once = make_client(daemon.endpoint, daemon.access_key, daemon.secret_key, retries=0)
    for change, arguments in ((once.put_object, {"Key": "newer", "Body": b"newer"}), (once.delete_object, {"Key": "k0"}),
                              (once.put_object, {"Key": "k1", "Body": b"newer" * 100})):
        try:
            change(Bucket="kept", **arguments)
        except ClientError as error:  # only one copy of that name is on the three
            assert ec == "2+2" and error.response["ResponseMetadata"]["HTTPStatusCode"] == 503
    daemon.stop()
    for _ in range(4):  # their epochs get ahead
        daemon.start()
        daemon.stop()
    back(daemon, *present)
    away(daemon, *(i for i in range(count) if i not in present))
    return daemon, bodies


@pytest.mark.parametrize("count,ec,slot", [(2, "1+1", 0), (2, "1+1", 1), (3, "2+1", 0), (3, "2+1", 2)])
def test_the_lost_drive_of_a_small_store_is_replaced(count, ec, slot):
    """Too few are left to replace it after a restart, and the refusal says how: given up first. Nothing is lost."""
    with Daemon(drives=count, ec=ec).start() as daemon:
        bodies = fill(client_of(daemon))
        daemon.stop()
        away(daemon, slot)
        spawn(daemon, "too few to write")
        daemon.wait_ready()
        holds(client_of(daemon), bodies)
        answers(daemon, 503, "put_object", Bucket="kept", Key="n", Body=b"x")
        daemon.drives[slot].mkdir()
        said = cli(daemon, "admin", "drive", "replace", slot, daemon.drives[slot], status=1)
        assert "gone for good" in said and "then replace it" in said and "--force-without" in said, said
        force(daemon, slot, status=1)  # says what it would mean
        assert f"open without {slot}" in force(daemon, slot, "--yes")
        daemon.wait_ready()
        holds(client_of(daemon), bodies)
        cli(daemon, "admin", "drive", "replace", slot, daemon.drives[slot])
        daemon.wait_until(lambda: daemon.health_json()[1]["writable"], 60, "to be writable")
        whole(daemon)
        bodies["n"] = b"n" * 300_000
        client_of(daemon).put_object(Bucket="kept", Key="n", Body=bodies["n"])
        daemon.stop()
        daemon.start()
        whole(daemon)
        holds(client_of(daemon), bodies)
        assert json.loads(cli(daemon, "admin", "verify", "--json"))["missing_shards"] == 0


def test_one_of_three_goes_on():
    daemon, bodies = gone_on(3, "1+2", (2,))
    with daemon:
        spawn(daemon, "waits for 2 drives", "slot 0 1")
        answers(daemon, 503, "get_object", Bucket="kept", Key="k1")
        said = force(daemon, "0,1", status=1)
        for words in ("slot 0", "slot 1", "epoch", "4096 of 4096 groups of names are in doubt", "list of buckets", "1 of 3 drives go on", "--yes"):
            assert words in said, said
        assert "no copy here" not in said and "can't be read" not in said
        assert "other drives" in force(daemon, "0", status=1)
        assert "other drives" in force(daemon, "0", "--yes", status=1)
        assert "it is here" in force(daemon, "0,1,2", "--yes", status=1)
        assert "no drive of this store: 7" in force(daemon, "0,7", "--yes", status=1)
        assert "no drive of this store: x" in force(daemon, "0,x", status=1)
        assert "must be given" in cli(daemon, "admin", "start", status=2)
        assert daemon.health_json()[0] == 503 and "slot 0 1" in daemon.health_json()[1]["reason"], "nothing was done"
        daemon.stop()
        spawn(daemon, "waits for 2 drives", "slot 0 1")
        assert "open without 0,1" in force(daemon, "0,1", "--yes")
        daemon.wait_ready()
        s3 = client_of(daemon)
        holds(s3, bodies)  # as they were before the others went on
        answers(daemon, 404, "get_object", Bucket="kept", Key="newer")
        answers(daemon, 503, "put_object", Bucket="kept", Key="n", Body=b"x")
        answers(daemon, 503, "put_object", Bucket="kept", Key="n", Body=b"x" * 300_000)
        answers(daemon, 503, "create_bucket", Bucket="more")
        answers(daemon, 503, "delete_object", Bucket="kept", Key="k1")
        assert "1 of 3 drives are in" in daemon.health_json()[1]["reason"]
        assert "waits for no drive" in force(daemon, "0,1", "--yes", status=1)
        daemon.stop()
        back(daemon, 0, 1)
        daemon.start()  # without being told again; those given up are here, and far ahead
        s3 = client_of(daemon)
        holds(s3, bodies)
        answers(daemon, 404, "get_object", Bucket="kept", Key="newer")
        state = daemon.health_json()[1]["drives"]
        assert [d["state"] for d in state] == ["failed", "failed", "in"] and "given up" in state[0]["reason"]
        assert "given up" in cli(daemon, "admin", "drive", "return", 0, status=1)
        assert "not empty" in cli(daemon, "admin", "drive", "replace", 0, daemon.drives[0], status=1)
        replace(daemon, 0)
        daemon.wait_until(lambda: daemon.health_json()[1]["writable"], 60, "to be writable")
        s3.put_object(Bucket="kept", Key="n", Body=b"x" * 300_000)
        bodies["n"] = b"x" * 300_000
        replace(daemon, 1)
        whole(daemon)
        assert json.loads(cli(daemon, "admin", "verify", "--json"))["missing_shards"] == 0
        daemon.stop()
        daemon.start()
        whole(daemon)
        holds(client_of(daemon), bodies)
        away(daemon, 2)  # what it had, the others have
        holds(client_of(daemon), bodies)


def test_those_given_up_alone_know_nothing_and_do_not_win():
    """Started by themselves, they go on as ever; together with those that went on without them they are not asked."""
    daemon, bodies = gone_on(3, "1+2", (2,))
    with daemon:
        spawn(daemon, "slot 0 1")
        force(daemon, "0,1", "--yes")
        daemon.stop()
        away(daemon, 2)
        back(daemon, 0, 1)
        daemon.start()
        client_of(daemon).put_object(Bucket="kept", Key="newest", Body=b"newest")
        daemon.stop()
        back(daemon, 2)
        daemon.start()
        holds(client_of(daemon), bodies)
        for key in ("newer", "newest"):
            answers(daemon, 404, "get_object", Bucket="kept", Key=key)
        assert daemon.health_json()[1]["drives_in"] == 1


def test_enough_are_left_to_write():
    daemon, bodies = gone_on(5, "1+4", (3, 4))
    with daemon:
        spawn(daemon, "slot 0 1 2")
        said = force(daemon, "0,1,2", status=1)
        assert "2 of 5 drives go on: they take writes" in said and "no copy here" not in said, said
        force(daemon, "2,1,0", "--yes")
        s3 = client_of(daemon)
        holds(s3, bodies)
        daemon.wait_until(lambda: daemon.health_json()[1]["writable"], 60, "to be writable")  # it reads its users behind the buckets
        for key, size in (("small", 100), ("large", 400_000)):
            bodies[key] = key.encode() * size
            s3.put_object(Bucket="kept", Key=key, Body=bodies[key])
        s3.create_bucket(Bucket="more")
        s3.delete_object(Bucket="kept", Key="k2")
        del bodies["k2"]
        for _ in range(2):
            daemon.stop()
            daemon.start()
            holds(client_of(daemon), bodies)
        daemon.kill()
        back(daemon, 0, 1, 2)
        daemon.start()
        holds(client_of(daemon), bodies)
        assert daemon.health_json()[1]["drives_in"] == 2
        replace_each(daemon, 0, 1, 2)
        whole(daemon)
        holds(client_of(daemon), bodies)
        assert "k2" not in [o["Key"] for o in client_of(daemon).list_objects_v2(Bucket="kept")["Contents"]]


def test_names_without_a_copy():
    """More drives are given up than hold copies of a name: such names are lost, and nobody is told that they are not there until a drive is replaced."""
    daemon, bodies = gone_on(5, "2+2", (3, 4), small=150)
    with daemon:
        spawn(daemon, "slot 0 1 2")
        outlook = json.loads(force(daemon, "0,1,2", "--json", status=1))
        assert outlook["groups_lost"] > 0 and outlook["groups_unreadable"] > 0 and not outlook["writable"]
        assert outlook["drives_left"] == outlook["drives_needed"] == 2 and outlook["refusal"] == ""
        assert [d["slot"] for d in outlook["missed"]] == [0, 1, 2]
        said = force(daemon, "0,1,2", status=1)
        assert f"{outlook['groups_lost']} groups have no copy here" in said and "can't be read" in said
        force(daemon, ",".join(d["id"] for d in outlook["missed"]), "--yes")
        s3 = client_of(daemon)
        found = {}
        once = make_client(daemon.endpoint, daemon.access_key, daemon.secret_key, retries=0)
        for key, body in bodies.items():
            try:
                found[key] = read(once, "kept", key)
                assert found[key] == body
            except ResponseStreamingError:  # its first shard is here, another is not
                pass
            except ClientError as error:
                assert error.response["ResponseMetadata"]["HTTPStatusCode"] >= 500, (key, error)
        lost = [key for key in bodies if key.startswith("s") and key not in found]
        assert lost and len(lost) < 75  # about one in ten
        answers(daemon, 503, "list_objects_v2", Bucket="kept")
        answers(daemon, 503, "put_object", Bucket="kept", Key="n", Body=b"x")
        replace_each(daemon, 0, 1, 2)
        names = [o["Key"] for o in s3.list_objects_v2(Bucket="kept")["Contents"]]
        assert set(found) <= set(names) <= set(bodies) and not set(lost) & set(names)
        holds(s3, found)
        answers(daemon, 404, "get_object", Bucket="kept", Key=lost[0])
        for key in bodies:  # lost ones may be written again
            s3.put_object(Bucket="kept", Key=key, Body=b"again")
        daemon.stop()
        daemon.start()
        holds(client_of(daemon), {key: b"again" for key in bodies})


def test_only_reading_without_those_that_failed():
    """One was out when another was lost: the two left are all that is current, and only read, until they are told to go on."""
    with Daemon(drives=4, ec="2+2").start() as daemon:
        bodies = fill(client_of(daemon))
        daemon.stop()
        away(daemon, 3)
        daemon.start()
        s3 = client_of(daemon)
        bodies["n"] = b"n" * 200_000
        s3.put_object(Bucket="kept", Key="n", Body=bodies["n"])
        s3.delete_object(Bucket="kept", Key="k1")
        del bodies["k1"]
        away(daemon, 2)
        daemon.wait_until(lambda: not daemon.health_json()[1]["writable"], 30, "to be read only")
        assert "restart" in force(daemon, "2", "--yes", status=1)
        daemon.stop()
        back(daemon, 3)
        spawn(daemon, "too few to write")
        assert "2 of 4 drives go on" in force(daemon, "2", status=1)
        assert "other drives" in force(daemon, "2,3", status=1) or "it is here" in force(daemon, "2,3", status=1)
        force(daemon, "2", "--yes")
        daemon.wait_until(lambda: daemon.health_json()[1]["drives_in"] == 3, 60, "to have brought the stale one up to date")
        s3 = client_of(daemon)
        s3.put_object(Bucket="kept", Key="m", Body=b"m" * 300_000)
        bodies["m"] = b"m" * 300_000
        back(daemon, 2)  # while the store serves
        holds(s3, bodies)
        answers(daemon, 404, "get_object", Bucket="kept", Key="k1")
        replace(daemon, 2)
        whole(daemon)
        holds(s3, bodies)
        daemon.stop()
        daemon.start()
        whole(daemon)
        holds(client_of(daemon), bodies)


@contextmanager
def read_meanwhile(daemon, bodies):
    """Reads all the time from two threads: what is answered is right, or 503."""
    wrong, over = [], threading.Event()

    def go_round():
        once = make_client(daemon.endpoint, daemon.access_key, daemon.secret_key, retries=0)
        while not over.is_set():
            for key, body in bodies.items():
                try:
                    if read(once, "kept", key) != body:
                        wrong.append(key)
                except ClientError as error:
                    if error.response["ResponseMetadata"]["HTTPStatusCode"] != 503:
                        wrong.append((key, error))

    threads = [threading.Thread(target=go_round) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        over.set()
        for thread in threads:
            thread.join()
    assert not wrong, wrong


def test_what_they_alone_can_tell():
    """Killed right after changes: only drives that are missing know whether these were on all. Told to go on, the store has what was acknowledged."""
    with Daemon(drives=4, ec="2+2").start() as daemon:
        bodies = fill(client_of(daemon))
        client_of(daemon).create_bucket(Bucket="last")
        daemon.kill()
        away(daemon, 2, 3)
        spawn(daemon, "slot 2 3", "which buckets there are")
        said = force(daemon, "2,3", status=1)
        assert "list of buckets is in doubt" in said, said
        daemon.stop()
        back(daemon, 2, 3)
        daemon.start()
        s3 = client_of(daemon)
        for i in range(12):
            bodies[f"n{i}"] = bytes([i]) * (1000 if i % 2 else 300_000)
            s3.put_object(Bucket="kept", Key=f"n{i}", Body=bodies[f"n{i}"])
        daemon.kill()
        away(daemon, 2, 3)
        spawn(daemon, "too few to write")
        outlook = json.loads(force(daemon, "2,3", "--json", status=1))
        assert 0 < outlook["groups_in_doubt"] <= 12 and not outlook["buckets_in_doubt"]
        answers(daemon, 503, "list_objects_v2", Bucket="kept")
        with read_meanwhile(daemon, bodies):
            time.sleep(0.5)
            force(daemon, "2,3", "--yes")
            time.sleep(0.5)
        holds(client_of(daemon), bodies)
        assert len(client_of(daemon).list_objects_v2(Bucket="kept")["Contents"]) == len(bodies)
        daemon.kill()
        daemon.start()
        holds(client_of(daemon), bodies)
        back(daemon, 2, 3)
        replace_each(daemon, 2, 3)
        whole(daemon)
        holds(client_of(daemon), bodies)


def test_buckets_they_alone_can_tell():
    with Daemon(drives=4, ec="2+2").start() as daemon:
        bodies = fill(client_of(daemon))
        client_of(daemon).create_bucket(Bucket="last")
        daemon.kill()
        away(daemon, 0, 3)
        spawn(daemon, "slot 0 3", "which buckets there are")
        force(daemon, "0,3", "--yes")
        holds(client_of(daemon), bodies)
        assert [b["Name"] for b in client_of(daemon).list_buckets()["Buckets"]] == ["kept", "last"]


def test_what_is_refused():
    with Daemon(drives=4, ec="2+2").start() as daemon:
        assert "waits for no drive" in force(daemon, "0", "--yes", status=1)
        raw = Store(daemon.host, daemon.admin_port, daemon.access_key, daemon.secret_key, daemon).raw
        assert daemon.admin_get("/admin/v1/start?without=0")[0] == 403
        for query in ([], [("without", "0"), ("without", "1")], [("without", "")], [("without", "0,")], [("without", "-1")], [("without", "04x")]):
            assert raw.request("POST", "/admin/v1/start", query=query).status == 400, query
        assert raw.request("POST", "/admin/v1/start", query=[("without", "0")]).status == 409
        assert raw.request("GET", "/admin/v1/start").status == 400
        assert raw.request("GET", "/admin/v1/start", query=[("number", "1")]).status == 404
        fill(client_of(daemon), 4)
        daemon.stop()
        away(daemon, 0, 1, 2)
        spawn(daemon, "waits for 3 drives")
        for options in ((), ("--yes",)):
            said = force(daemon, "0,1,2", *options, status=1)
            assert "1 current drive would be left" in said and "from 2" in said, said
        assert daemon.health_json()[0] == 503
        daemon.stop()
        back(daemon, 0, 1, 2)
        daemon.start()
        assert daemon.health_json()[1]["drives_in"] == 4, "nothing was changed"
