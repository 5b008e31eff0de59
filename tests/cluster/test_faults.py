"""Which faults are chosen, and how the time without an acknowledged change is told."""
import random
from types import SimpleNamespace

import pytest

from tests.cluster.faults import AFTER_SECONDS, KINDS, TOGETHER, Fault, Schedule, gaps, table

BY_NAME = {kind.name: kind for kind in KINDS}


def fault(name, begun, ended, together=False):
    return Fault(BY_NAME[name], None, None, 1, begun=begun, ended=ended, together=together)


def every(step, until, without=()):
    moments = [number * step for number in range(int(until / step) + 1)]
    return [moment for moment in moments if not any(a < moment < b for a, b in without)]


def test_a_gap_is_that_of_the_fault_in_which_it_lies():
    acknowledged = every(0.1, 100, without=[(20, 24), (50.05, 57)])
    found = gaps([fault("node killed", 20, 21), fault("link down", 50.05, 55), fault("node killed", 80, 81)], acknowledged)
    assert found["node killed"] == [pytest.approx(4, abs=0.2), pytest.approx(0.1, abs=0.05)]
    assert found["link down"] == [pytest.approx(7, abs=0.2)]
    assert "node killed                  2" in table(found) and TOGETHER not in table(found)


def test_a_gap_ends_where_the_next_fault_begins():
    found = gaps([fault("link down", 20, 22), fault("node killed", 25, 26)], every(0.1, 60, without=[(20, 30)]))
    assert found == {"link down": [pytest.approx(5, abs=0.2)], "node killed": [pytest.approx(5, abs=0.2)]}


def test_a_gap_long_after_a_fault_is_not_its():
    found = gaps([fault("link down", 20, 22)], every(0.1, 60, without=[(22 + AFTER_SECONDS + 1, 50)]))
    assert found == {"link down": [pytest.approx(0.1, abs=0.05)]}


def test_two_at_once():
    found = gaps([fault("link down", 20, 30, True), fault("node killed", 25, 26, True)], every(0.1, 60))
    assert list(found) == [TOGETHER] and len(found[TOGETHER]) == 2


def cluster(leads):
    nodes = {machine: SimpleNamespace(machine=machine, leader=lambda machine=machine: 77 if machine == leads else None) for machine in (1, 2, 3)}
    return SimpleNamespace(nodes=nodes, node_bytes=1)


def test_each_kind_in_turn_and_the_leader_more_often():
    schedule = Schedule(cluster(leads=2), random.Random(1))
    drawn = [schedule.draw() for _ in range(20 * len(KINDS))]
    assert {kind.name: sum(fault.kind is kind for fault in drawn) for kind in KINDS} == {kind.name: 20 for kind in KINDS}
    assert all(fault.machine == 2 for fault in drawn if fault.kind.of == "leader")
    of_nodes = [fault.machine for fault in drawn if fault.kind.of == "node"]
    assert of_nodes.count(2) > len(of_nodes) / 2 and {1, 3} <= set(of_nodes)
    again = Schedule(cluster(leads=2), random.Random(1))
    assert [(fault.kind.name, fault.machine) for fault in drawn] == [(fault.kind.name, fault.machine) for fault in (again.draw() for _ in drawn)]


def test_some_kinds_alone():
    schedule = Schedule(cluster(leads=1), random.Random(1), ["link down"])
    assert {schedule.draw().kind.name for _ in range(9)} == {"link down"}
    with pytest.raises(AssertionError, match="no such faults"):
        Schedule(cluster(leads=1), random.Random(1), ["link up"])
