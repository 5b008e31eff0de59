"""Three real nodes and three members of etcd on machines that break: what clients saw must be a history that a store could have.

MILLRACE_CLUSTER_SECONDS (100 by default) is how long things break; SEED=N repeats the choice of faults, not their moments to
the millisecond; MILLRACE_CLUSTER_FAULTS is a list of kinds with commas, where not all are wanted. Of a run that failed, the
history and the logs are kept in build/cluster/, with wrong.txt where clients saw what cannot be: tools/check.sh fails then,
though the test may pass when it is run again.
"""
import collections
import json
import os
import random
import shutil
import tempfile
import time
from pathlib import Path

import pytest

from tests.cluster import network
from tests.cluster.clients import KEYS, Load, Reader
from tests.cluster.faults import Schedule, gaps, table
from tests.cluster.judge import LINEAR, REASON, judge
from tests.cluster.nodes import Cluster
from tests.conftest import SEED
from tests.support.daemon import PATIENCE, ROOT

SECONDS = float(os.environ.get("MILLRACE_CLUSTER_SECONDS", "100"))
ONLY = [name for name in os.environ.get("MILLRACE_CLUSTER_FAULTS", "").split(",") if name]
CLIENTS = 10
BEFORE_SECONDS, AFTER_SECONDS = 3, 3      # of load without a fault
MEMORY_SECONDS = 600                      # longer runs are on disk
NODE_BYTES = (1 << 30) + int(SECONDS) * (4 << 20)  # of each node's file system in memory
WHOLE_SECONDS, ANSWER_SECONDS = 180, 60   # bounds of what must happen at the end
KEPT = ROOT / "build/cluster"

pytestmark = [pytest.mark.daemon, pytest.mark.skipif(network.missing() is not None, reason=str(network.missing())),
              pytest.mark.skipif(not LINEAR.exists(), reason=REASON)]


class Wrong(AssertionError):
    """What was acknowledged is not there, or something else is."""


def keep(cluster, history, wrong):
    """What an analysis needs, and what clients saw that cannot be."""
    folder = KEPT / f"{SEED}-{int(time.time())}"
    folder.mkdir(parents=True)
    if wrong:
        (folder / "wrong.txt").write_text(wrong + "\n")
    (folder / "history.jsonl").write_text("".join(json.dumps(operation) + "\n" for operation in history))
    for log in cluster.folder.glob("*.log"):
        shutil.copy(log, folder)
    return folder


def check_end(load, reader):
    """All keys can be read, what was written once and acknowledged is there, and the listing says the same."""
    values = {key: reader.final(key, ANSWER_SECONDS) for key in KEYS}
    expected = {key: load.etags[value] for key, value in values.items() if value}
    perhaps = {}
    for client in load.clients:
        expected.update(client.kept)
        perhaps.update(client.perhaps)
    listed = reader.listing(ANSWER_SECONDS)
    missing = sorted(key for key in expected if key not in listed)
    strange = sorted(key for key in listed if key not in expected and key not in perhaps)
    other = sorted(key for key in listed if key in expected | perhaps and listed[key] != {**perhaps, **expected}[key])
    if missing or strange or other:
        raise Wrong(f"listing: missing {missing}, never acknowledged {strange}, of other content {other}")
    for key in sorted(listed):
        if key.startswith("once/"):
            value = reader.final(key, ANSWER_SECONDS)
            if load.etags.get(value) != listed[key]:
                raise Wrong(f"{key}: reads {value!r}, is listed as {listed[key]}")
    return len(listed)


def judged(history):
    """The verdict on the contended keys: those of one write only are compared one by one."""
    return judge([json.dumps(operation) for operation in history if operation["key"] in KEYS])


def report(load, schedule, cluster, end, listed, verdict):
    outcomes = collections.Counter(f"{operation['kind']} {operation['outcome']}" for operation in load.history())
    statuses = sum((client.statuses for client in load.clients), collections.Counter())
    acknowledged = [0.0, *(moment - cluster.begun for moment in load.acknowledged()), end]
    lines = [f"{sum(outcomes.values())} operations of {len(load.clients)} clients: " + ", ".join(f"{count} {name}" for name, count in sorted(outcomes.items())),
             "answers: " + ", ".join(f"{count} x {name}" for name, count in statuses.most_common()),
             f"{len(schedule.past)} faults, {listed} objects at the end, all drives in use", table(gaps(schedule.past, acknowledged)), verdict.text.strip()]
    print("\n".join(lines), flush=True)


@pytest.mark.timeout(SECONDS * 3 + 900 * PATIENCE)
def test_faults(capsys):
    seed = f"{SEED}/cluster"
    in_memory = SECONDS <= MEMORY_SECONDS
    cluster = Cluster(place=None if in_memory else Path(tempfile.gettempdir()), node_bytes=NODE_BYTES if in_memory else None)
    load = Load([node.host for node in cluster.nodes.values()], cluster.access_key, cluster.secret_key, seed)
    reader = Reader(load, CLIENTS)
    schedule = Schedule(cluster, random.Random(seed), ONLY)
    try:
        with capsys.disabled():
            print(f"\nSEED={SEED}, {SECONDS:.0f} s of faults (seconds since the start)")
            cluster.start()
            reader.make_bucket(ANSWER_SECONDS)
            load.start(CLIENTS)
            time.sleep(BEFORE_SECONDS)
            schedule.run(SECONDS)
            time.sleep(AFTER_SECONDS)
            load.stop()
            end = cluster.seconds()
            cluster.wait_until(cluster.whole, WHOLE_SECONDS, "until all drives were in use")
            load.clients.append(reader)
            listed = check_end(load, reader)
            cluster.stop()
            verdict = judged(load.history())
            report(load, schedule, cluster, end, listed, verdict)
        assert verdict.status == 0, verdict.text
        assert not load.errors(), "\n".join(load.errors())
        assert not cluster.reports(), "\n".join(cluster.reports())
        assert len(load.acknowledged()) > SECONDS, "too few changes were acknowledged for this to say anything"
    except KeyboardInterrupt:
        load.stopping.set()  # there may be seconds only
        raise
    except BaseException as error:
        load.stop()
        verdict = judged(load.history())
        wrong = [verdict.text] * (verdict.status == 1) + load.errors() + [str(error)] * isinstance(error, Wrong)
        print(f"kept: {keep(cluster, load.history(), chr(10).join(wrong))}\n{verdict.text}")
        raise
    finally:
        cluster.discard()
