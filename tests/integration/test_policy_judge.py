"""Two evaluators of policies agree: access/ by tests/support/policy_driver.c, and tests/independent/policy_judge.py, which was written apart."""
import copy
import json
import random
import subprocess
from collections import Counter

import pytest

from tests.conftest import SEED
from tests.independent.policy_cases import case
from tests.independent.policy_judge import decide
from tests.support.daemon import BUILD

DRIVER = BUILD / "policy_driver"
PORTION = 2000

pytestmark = pytest.mark.skipif(not DRIVER.exists(), reason="make fake-rdma builds the driver")


def driven(cases):
    lines = "".join(json.dumps(one) + "\n" for one in cases)
    out = subprocess.run([DRIVER], input=lines, capture_output=True, text=True, timeout=300, check=True).stdout
    return [json.loads(line) for line in out.splitlines()]


def agree(one, answer):
    return "decision" not in answer or answer["decision"] == decide(copy.deepcopy(one), answer["public"])


def smaller(one):
    """The case without one of its parts, each in turn."""
    for i, entry in enumerate(one["policies"]):
        less = copy.deepcopy(one)
        del less["policies"][i]
        yield less
        if isinstance(entry["policy"]["Statement"], dict):
            less = copy.deepcopy(one)
            less["policies"][i]["policy"]["Statement"] = [entry["policy"]["Statement"]]
            yield less
            continue
        for k, statement in enumerate(entry["policy"]["Statement"]):
            for path in [None, *statement.get("Condition", {})]:
                less = copy.deepcopy(one)
                if path is not None:
                    del less["policies"][i]["policy"]["Statement"][k]["Condition"][path]
                elif len(entry["policy"]["Statement"]) > 1:
                    del less["policies"][i]["policy"]["Statement"][k]
                else:
                    continue
                yield less
    for key in one["context"]["keys"]:
        less = copy.deepcopy(one)
        del less["context"]["keys"][key]
        yield less


def smallest(one):
    while True:
        tried = list(smaller(one))
        still = next((less for less, answer in zip(tried, driven(tried)) if not agree(less, answer)), None)
        if still is None:
            return one
        one = still


@pytest.mark.parametrize("count", [8000, pytest.param(400_000, marks=pytest.mark.long)])
def test_both_decide_the_same(count):
    rng, seen = random.Random(f"{SEED}-policies"), Counter()
    for _ in range(0, count, PORTION):
        cases = [case(rng) for _ in range(PORTION)]
        for one, answer in zip(cases, driven(cases)):
            assert "error" not in answer, one
            seen[answer.get("decision", "refused")] += 1
            if not agree(one, answer):
                one = smallest(one)
                answer = driven([one])[0]
                pytest.fail(f"SEED={SEED}: {answer}, but the judge says {decide(copy.deepcopy(one), answer['public'])}: {json.dumps(one)}")
    for outcome in ("allow", "explicit-deny", "implicit-deny"):  # else it would compare little
        assert seen[outcome] > count // 12, seen
    assert seen["refused"] < count // 4, seen
