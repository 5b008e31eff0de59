"""The checker of histories: what is right passes, what is wrong in a known way does not, and the part that it shows is the wrong one."""
import json
import random
import re
import subprocess

import pytest

from tests.cluster.judge import LINEAR, REASON, judge

pytestmark = pytest.mark.skipif(not LINEAR.exists(), reason=REASON)
OK, REFUSED, FAILED, UNKNOWN = "ok", "refused", "failed", "unknown"


def put(value, call, back, outcome=OK, **more):
    return dict(kind="put", value=value, call=call, outcome=outcome, **{"return": back}, **more)


def get(value, call, back, kind="get"):
    return dict(kind=kind, value=value, call=call, outcome=OK, **{"return": back})


def delete(call, back, outcome=OK):
    return dict(kind="delete", value="", call=call, outcome=outcome, **{"return": back})


RIGHT = {
    "nothing": [],
    "absent at first": [get("", 0, 1), put("a", 2, 3), get("a", 4, 5), delete(6, 7), get("", 8, 9, kind="head")],
    "concurrent": [put("a", 0, 10), put("b", 0, 10), get("b", 11, 12), get("b", 13, 14)],
    "an unknown put that never was": [put("a", 0, 1), put("b", 2, 3, UNKNOWN), get("a", 4, 5)],
    "an unknown put that is late": [put("a", 0, 1), put("b", 2, 3, UNKNOWN), get("a", 4, 5), get("b", 9, 10)],
    "an unknown put that counts after another": [put("b", 0, 1, UNKNOWN), put("a", 2, 3), get("a", 4, 5), get("b", 6, 7), put("c", 8, 9), get("c", 10, 11)],
    "an unknown delete": [put("a", 0, 1), delete(2, 3, UNKNOWN), get("a", 4, 5), get("", 6, 7), put("b", 8, 9), get("b", 10, 11)],
    "two unknown deletes": [put("a", 0, 1), delete(2, 3, UNKNOWN), get("", 4, 5), delete(6, 7, UNKNOWN), put("b", 8, 9), get("b", 10, 11), get("", 12, 13)],
    "refused by an unknown delete": [put("a", 0, 1), delete(2, 3, UNKNOWN), put("b", 4, 5, REFUSED, if_match="a"), get("", 6, 7)],
    "a failed put": [put("a", 0, 1), put("b", 2, 3, FAILED), get("a", 4, 5)],
    "only if absent": [put("a", 0, 1, if_none_match=True), put("b", 2, 3, REFUSED, if_none_match=True), delete(4, 5), put("c", 6, 7, if_none_match=True)],
    "one of two if absent": [put("a", 0, 5, if_none_match=True), put("b", 0, 5, REFUSED, if_none_match=True), get("a", 6, 7)],
    "if it is the value": [put("a", 0, 1), put("b", 2, 3, if_match="a"), put("c", 4, 5, REFUSED, if_match="a"), get("b", 6, 7)],
    "refused by what nobody saw": [put("a", 0, 1, UNKNOWN), put("b", 2, 3, REFUSED, if_none_match=True), delete(4, 5), get("", 6, 7)],
    "if it is an unknown value": [put("a", 0, 1, UNKNOWN), put("b", 2, 3, if_match="a"), get("b", 4, 5)],
    "an unknown put if absent, late": [put("a", 0, 1), put("b", 2, 3, UNKNOWN, if_none_match=True), get("a", 4, 5), delete(6, 7), get("", 8, 9), get("b", 10, 11)],
}
# The history, and the values that the part shown must name.
WRONG = {
    "stale read": ([put("a", 0, 1), put("b", 2, 3), get("a", 4, 5)], "ab"),
    "lost write": ([put("a", 0, 1), get("a", 2, 3), get("", 4, 5)], "a"),
    "a write lost for another": ([put("a", 0, 1), put("b", 2, 3), get("b", 4, 5), get("a", 6, 7)], "ab"),
    "a read that goes back": ([put("a", 0, 1), put("b", 2, 20), get("b", 4, 5), get("a", 6, 7)], "ab"),
    "a read of what was never written": ([put("a", 0, 1), get("x", 2, 3)], "x"),
    "a read of the future": ([get("a", 0, 1), put("a", 2, 3)], "a"),
    "a read of an unknown future": ([get("a", 0, 1), put("a", 2, 3, UNKNOWN)], "a"),
    "an unknown put that comes and goes": ([put("a", 0, 1), put("b", 2, 3, UNKNOWN), get("b", 4, 5), get("a", 6, 7)], "ab"),
    "a failed put that is seen": ([put("a", 0, 1), put("b", 2, 3, FAILED), get("b", 4, 5)], "b"),
    "a deleted object is back": ([put("a", 0, 1), delete(2, 3), get("", 4, 5), get("a", 6, 7)], "a"),
    "two successes if absent": ([put("a", 0, 5, if_none_match=True), put("b", 0, 5, if_none_match=True)], "ab"),
    "two successes if it is the value": ([put("a", 0, 1), put("b", 2, 9, if_match="a"), put("c", 2, 9, if_match="a")], "bc"),
    "refused though absent": ([put("a", 0, 1), delete(2, 3), put("b", 4, 5, REFUSED, if_none_match=True)], "b"),
    "refused though it is the value": ([put("a", 0, 1), put("b", 2, 3, REFUSED, if_match="a")], "ab"),
    "an unknown delete counts twice": ([put("a", 0, 1), delete(2, 3, UNKNOWN), get("", 4, 5), put("b", 6, 7), get("", 8, 9)], "ab"),
    "an unknown delete counts before it is called": ([put("a", 0, 1), get("", 2, 3), delete(4, 5, UNKNOWN)], "a"),
    "an unknown put counts twice": ([put("a", 0, 1, UNKNOWN), get("a", 2, 3), put("b", 4, 5), get("b", 6, 7), get("a", 8, 9)], "ab"),
}


def lines(*histories):
    """Each history on a key of its own."""
    return [json.dumps(dict(client=0, key=f"k{number}", **op)) for number, history in enumerate(histories) for op in history]


@pytest.mark.parametrize("name", RIGHT)
def test_right(name):
    verdict = judge(lines(RIGHT[name]))
    assert verdict.status == 0, verdict.text


@pytest.mark.parametrize("name", WRONG)
def test_wrong(name):
    history, values = WRONG[name]
    verdict = judge(lines(RIGHT["concurrent"], history))
    assert verdict.status == 1 and "key k1: no order" in verdict.text and "key k0" not in verdict.text, verdict.text
    shown = [line for line in verdict.text.splitlines() if " client " in line]
    assert all(any(value in re.sub(r"client \d+|absent|delete|head", "", line) for line in shown) for value in values), verdict.text


def simulated(seed, clients=10, count=4000, loss=0.01):
    """Operations of a register that clients really had: each takes effect at a moment between its call and its return. Some answers are lost."""
    rng = random.Random(seed)
    free, state, plan = [0] * clients, "", []
    for number in range(count):
        client = rng.randrange(clients)
        call = free[client] + rng.randrange(1, 20)
        effect = call + rng.randrange(1, 60)
        free[client] = effect + rng.randrange(1, 60)
        kind = rng.choices(["get", "head", "put", "absent", "same", "delete"], [40, 5, 40, 5, 5, 5])[0]
        plan.append((effect, number, client, call, free[client], kind, rng.random()))
    out, former = [], ""
    for effect, number, client, call, back, kind, luck in sorted(plan):
        op = dict(client=client, key="k", call=call, outcome=OK, **{"return": back})
        lost, value, wanted = luck < loss, f"v{number}", former if luck > 0.5 else state
        if kind in ("get", "head"):
            op.update(kind=kind, value=state)
        elif lost and luck < loss / 2:  # and it has no effect
            op.update(kind="delete" if kind == "delete" else "put", value="" if kind == "delete" else value, outcome=UNKNOWN)
        elif kind == "delete":
            op.update(kind="delete", value="")
            former, state = state, ""
        else:
            holds = state == "" if kind == "absent" else wanted != "" and state == wanted if kind == "same" else True
            op.update(kind="put", value=value, outcome=OK if holds else REFUSED)
            if kind == "absent":
                op["if_none_match"] = True
            elif kind == "same":
                op["if_match"] = wanted or "none"
            if holds:
                former, state = state, value
        if lost and op["kind"] in ("put", "delete"):
            op["outcome"] = UNKNOWN
        out.append(op)
    return out


@pytest.mark.parametrize("seed", range(3))
def test_long_histories(seed):
    """What a register does is right. One read that shows what was there long before is found among 4,000 operations, and little is shown."""
    history = simulated(seed)
    verdict = judge([json.dumps(op) for op in history])
    assert verdict.status == 0, verdict.text
    reads = [op for op in history if op["kind"] == "get" and op["value"] != ""]
    late, early = reads[-5], reads[len(reads) // 2]
    late["value"] = early["value"]
    verdict = judge([json.dumps(op) for op in history])
    assert verdict.status == 1 and late["value"] in verdict.text, verdict.text
    assert len(verdict.text.splitlines()) < 40, verdict.text


def test_much_that_is_unknown():
    verdict = judge([json.dumps(op) for op in simulated(1, count=15000, loss=0.08)], key_seconds=300)
    assert verdict.status == 0, verdict.text


@pytest.mark.parametrize("line", [
    "{", "{}", '{"kind": "get", "key": "k", "call": 5, "return": 4, "outcome": "ok"}', '{"kind": "put", "key": "k", "outcome": "ok"}',
    '{"kind": "get", "key": "k", "if_none_match": true, "outcome": "ok"}', '{"kind": "put", "value": "a", "key": "k", "outcome": "refused"}',
    '{"kind": "get", "key": "k", "outcome": "good"}', '{"kind": "move", "key": "k", "outcome": "ok"}', '{"knd": "get", "key": "k", "outcome": "ok"}'])
def test_not_a_history(line):
    assert judge([line]).status == 2


def test_a_value_is_put_once():
    verdict = judge(lines([put("a", 0, 1), put("a", 2, 3)]))
    assert verdict.status == 2 and "line 2: line 1 put the same value" in verdict.text


def test_no_file(tmp_path):
    assert subprocess.run([LINEAR, tmp_path / "none"], capture_output=True, timeout=20, check=False).returncode == 2
