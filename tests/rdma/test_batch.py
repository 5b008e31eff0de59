"""Batched GETs over the control queue pair, and the same batches over HTTP."""
import pytest

from tests.independent import messages
from tests.independent.messages import Want
from tests.independent.session import UNTOUCHED, get_batch
from tests.independent.verbs import Memory

from .conftest import content

MANY = 600


@pytest.fixture(scope="module")
def small(shared):
    """Objects of many sizes, most of them small."""
    if "/many/0" not in shared.objects:
        shared.store("many", {str(n): content(f"many-{n}", (0, 1, 700, 4096, 9000, 70000, 300000)[n % 7]) for n in range(60)})
    return shared


def placed(names, site, room=None):
    """Wants of whole objects side by side, and the memory for them."""
    wants, at = [], 0
    for name in names:
        size = len(site.objects[name]) if room is None else room
        bucket, key = name[1:].split("/", 1)
        wants.append(Want(bucket, key, at, size))
        at += size
    return wants, Memory(at + 64, UNTOUCHED)


@pytest.mark.parametrize("ordered", [False, True], ids=["any-order", "ordered"])
@pytest.mark.parametrize("scheme", ["window2", "window1", "region"])
def test_many_objects(site, small, scheme, ordered):
    names = [f"/many/{n % 60}" for n in range(120)]
    wants, memory = placed(names, site)
    with site.session(rights=[scheme], receives=64) as session:
        found = session.batch(wants, memory, ordered=ordered, most=25)
        for index, name in enumerate(names):
            result, data = found[index]
            assert (result.status, result.size) == (200, len(site.objects[name])) and data == site.objects[name], name
    assert memory.read(memory.size - 64) == bytes([UNTOUCHED]) * 64


def test_a_whole_batch_of_messages(site, small):
    """As many entries as a batch may have, more messages than may be outstanding."""
    names = [f"/many/{(1, 2, 3)[n % 3]}" for n in range(1024)]
    wants, memory = placed(names, site)
    with site.session(receives=64) as session:
        assert session.limits["batch_entries"] == 1024
        found = session.batch(wants, memory, most=80)
        assert all(found[index][1] == site.objects[name] for index, name in enumerate(names))
        found = session.batch(wants[:10], memory, replies=10)
        assert [found[index][1] for index in range(10)] == [site.objects[name] for name in names[:10]]


def test_each_entry_has_its_own_fate(site, small):
    data = site.objects["/many/5"]
    etag = site.user.request("HEAD", "/many/5").headers["etag"].strip('"')
    cases = [
        (Want("many", "5"), (200, "OK", data)),
        (Want("many", "absent"), (404, "NoSuchKey", b"")),
        (Want("no-such-bucket", "5"), (404, "NoSuchBucket", b"")),
        (Want("many", "5", first=10, length=100), (206, "OK", data[10:110])),
        (Want("many", "5", first=69990, length=100), (206, "OK", data[69990:])),
        (Want("many", "5", first=69999), (206, "OK", data[69999:])),
        (Want("many", "5", first=70000, length=1), (416, "InvalidRange", b"")),
        (Want("many", "5", length=33, suffix=True), (206, "OK", data[-33:])),
        (Want("many", "5", if_match=etag), (200, "OK", data)),
        (Want("many", "5", if_match="0" * 32), (412, "PreconditionFailed", b"")),
        (Want("many", "5", version="null"), (200, "OK", data)),
        (Want("Bad_Bucket!", "5"), (400, "InvalidArgument", b"")),
        (Want("many", "0"), (200, "OK", b"")),
    ]
    for number, (want, _) in enumerate(cases):
        want.offset, want.room = number * 70000, 70000
    cases.append((Want("many", "5", offset=len(cases) * 70000, room=69999), (400, "PlaceTooSmall", b"")))
    wants, memory = [want for want, _ in cases], Memory(len(cases) * 70000, UNTOUCHED)
    with site.session() as session:
        for ordered in (False, True):
            found = session.batch(wants, memory, ordered=ordered)
            for index, (want, expected) in enumerate(cases):
                result, got = found[index]
                assert (result.status, result.code, got) == expected, (want, result)
            assert found[0][0].etag == etag and found[6][0].size == found[len(cases) - 1][0].size == len(data)
        # over HTTP the same, but for where the bytes go
        for want in wants:
            want.offset = 0
        for ordered in (False, True):
            answer, results = get_batch(site.user, wants, ordered=ordered)
            assert answer.status == 200 and len(results) == len(wants)
            assert not ordered or [result.index for result, _ in results] == list(range(len(wants)))
            for result, got in results:
                assert (result.status, result.code, got) == cases[result.index][1], (wants[result.index], result)


def test_batches_and_gets_side_by_side(site, small):
    with site.session() as session:
        for n in (3, 20):
            names = [f"/many/{m}" for m in range(n)]
            wants, memory = placed(names, site)
            found = session.batch(wants, memory)
            assert [found[index][1] for index in range(n)] == [site.objects[name] for name in names]
            assert session.get("/samples/units", 4 << 20).data == site.objects["/samples/units"]


def test_large_entries(site, small):
    wants, memory = placed(["/samples/big", "/samples/units", "/samples/none"], site)
    with site.session() as session:
        found = session.batch(wants, memory)
        assert [found[index][1] for index in range(3)] == [site.objects["/samples/" + name] for name in ("big", "units", "none")]


def broken(session, change):
    """A BATCH of one right entry and what spoils it."""
    memory = Memory(8192, UNTOUCHED)
    grant = session.grant(memory)
    fields = dict(wants=[Want("many", "3", 0, 4096)], number=session.new_number(), batch=1, first=0, replies=1,
                  window=(grant.address, grant.length, grant.rkey))
    cut = 0
    if change == "number":
        assert session.get("/samples/odd", 8192, number=fields["number"]).status == 200
    elif change == "first":
        fields["first"] = 1024
    elif change == "replies":
        fields["replies"] = 0
    elif change == "too many replies":
        fields["replies"] = 65
    elif change == "place":
        fields["wants"][0].offset = 4097
    elif change == "range":
        fields["wants"][0] = Want("many", "3", 0, 4096, first=1, length=1, suffix=True)
    elif change == "no bucket":
        fields["wants"][0].bucket = ""
    elif change == "cut off":
        cut = 1
    data = messages.batch_message(**fields)
    return memory, data[:len(data) - cut]


@pytest.mark.parametrize("change", ["number", "first", "replies", "too many replies", "place", "range", "no bucket", "cut off"])
def test_a_message_that_breaks_a_rule_ends_its_session(site, small, change):
    session = site.session()
    with site.session() as other:
        memory, data = broken(session, change)
        session.send_message(data)
        session.wait_end()
        session.fence()
        assert memory.read() == bytes([UNTOUCHED]) * memory.size
        session.free()
        assert other.get("/samples/odd", 8192).data == site.objects["/samples/odd"]


def test_batches_over_http_that_are_refused(site, small):
    wants = [Want("many", "3")]
    for how, status, code in ((dict(content_type="text/plain"), 400, "MalformedRDMARequest"), (dict(body=b"xyz"), 400, "MalformedRDMARequest"),
                              (dict(sign=False), 403, "AccessDenied"), (dict(digest="UNSIGNED-PAYLOAD"), 403, "AccessDenied"),
                              (dict(presigned=True), 403, "AccessDenied"), (dict(digest="0" * 64), 400, "XAmzContentSHA256Mismatch")):
        answer, _ = get_batch(site.user, wants, **how)
        assert (answer.status, answer.code) == (status, code), (how, answer)
    answer, results = get_batch(site.user, [Want("many", str(n % 60)) for n in range(MANY)], most=50)
    assert len(results) == MANY
    assert all(data == site.objects[f"/many/{result.index % 60}"] for result, data in results)
