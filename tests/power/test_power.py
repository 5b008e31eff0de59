"""Power cuts: the daemon on a file system that forgets what was not flushed (cutfs.c), cut at many moments of one history.

POWER_POINTS images (100 by default) are made and judged, two at a time. SEED=N repeats the load and the choice of cuts, but not the
order in which threads run; so a history in which something failed is kept, and a cut in it can be judged again:

    POWER_HISTORY=FOLDER POWER_CUT=NUMBER:MODE:SEED build/venv/bin/python -m pytest tests/power/test_power.py
"""
import os
import shutil
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.conftest import SEED
from tests.power import cutfs
from tests.power.history import History, make_somewhere
from tests.power.judge import Cut, choose, judge
from tests.power.workload import BUCKET, Client
from tests.support.daemon import Daemon

pytestmark = [pytest.mark.daemon, pytest.mark.skipif(cutfs.missing() is not None, reason=str(cutfs.missing()))]
POINTS = int(os.environ.get("POWER_POINTS", "100"))
STEPS = int(os.environ.get("POWER_STEPS", "24"))
ENOUGH = int(os.environ.get("POWER_ENOUGH", "5"))  # so many wrong ones of a phase, and the others are not looked at
PHASES = ["format", "fill", "lose_a_drive", "kill", "take_it_back", "empty", "stop_and_start"]


@pytest.fixture(scope="module")
def history():
    if "POWER_HISTORY" in os.environ:
        yield History.load(os.environ["POWER_HISTORY"])
        return
    made = make_somewhere(SEED, STEPS)
    print(f"seed {SEED}: {len(made.entries)} entries")
    yield made
    if not getattr(made, "wanted", False):
        shutil.rmtree(made.folder)


def bounds(history, phase):
    starts = {name: at for at, name in history.record.phases}
    names = [*PHASES, "end"]
    return starts[phase], starts[names[names.index(phase) + 1]]


@pytest.mark.timeout(POINTS * 10 + 300)
@pytest.mark.parametrize("phase", PHASES)
def test_cuts(history, phase):
    if "POWER_CUT" in os.environ:
        cuts = [Cut.parse(os.environ["POWER_CUT"])]
    else:
        count = -(-POINTS // len(PHASES))
        cuts = choose(history, *bounds(history, phase), 2 * count if phase == "format" else count, SEED)  # these take a tenth of the time
    wrong = []
    with ThreadPoolExecutor(2) as pool:
        for text in pool.map(lambda cut: judge(history, cut) if len(wrong) < ENOUGH else None, cuts):
            wrong += [text] if text is not None else []
    print(f"{phase}: {len(cuts)} cuts, {len(wrong)} wrong")
    history.wanted = getattr(history, "wanted", False) or bool(wrong) and os.environ.get("POWER_KEEP") != "0"
    assert not wrong, f"SEED={SEED}, history kept in {Path(history.folder)}\n" + "\n\n".join(wrong)


def test_a_condemned_index_stays_condemned():
    """An index in which damage was met is rebuilt by the next start, a power cut between or not."""
    with tempfile.TemporaryDirectory(prefix="millrace-power-", dir=cutfs.roomy()) as name, cutfs.CutFs(name) as fs:
        drive = fs.mount / "drive1"
        drive.mkdir()
        fs.tell("settle")
        with Daemon(drive_paths=[drive], folder=name) as daemon:
            daemon.start()
            client = Client(daemon.host, daemon.port, (daemon.access_key, daemon.secret_key))
            client.call("PUT", f"/{BUCKET}")
            etags = {f"k{n}": client.put(f"k{n}", f"body {n}".encode()) for n in range(20)}
            client.close()
            daemon.stop()
            damage(drive / "index/data.mdb", [bytes.fromhex(etag.strip('"')) for etag in etags.values()])
            daemon.spawn()  # one drive alone does not get ready on it
            daemon.wait_until((drive / "index/CONDEMNED").exists, 20, "to condemn its index")
            time.sleep(0.5)
            cutfs.image(fs.log, fs.now(), "none", 1, Path(name) / "image")
            assert (Path(name) / "image/drive1/index/CONDEMNED").exists()
            daemon.kill()
            daemon.restart()  # removes it and makes a new one
            look_at_the_removal(fs, Path(name) / "image")
            daemon.kill()
            cutfs.image(fs.log, fs.now(), "none", 1, Path(name) / "image")
            daemon.drives = [Path(name) / "image/drive1"]
            daemon.restart()
            client = Client(daemon.host, daemon.port, (daemon.access_key, daemon.secret_key))
            assert all(client.get(key) == etag.strip('"') for key, etag in etags.items())
            client.close()


def look_at_the_removal(fs, folder):
    """Wherever a cut comes: the damaged index is never there without its mark."""
    entries = [entry for entry in cutfs.entries(fs.log) if entry.path.startswith("drive1/index")]
    mark = next(at for at in reversed(range(len(entries))) if entries[at].kind == "create" and entries[at].path.endswith("CONDEMNED"))
    cutfs.image(fs.log, entries[mark].number + 2, "all", 1, folder)
    damaged = (folder / "drive1/index/data.mdb").read_bytes()
    for number in [entry.number for entry in entries[mark + 3:]]:
        for seed in range(40):
            cutfs.image(fs.log, number, "random", seed, folder)
            index = folder / "drive1/index"
            data = (index / "data.mdb").read_bytes() if (index / "data.mdb").exists() else None
            assert (index / "CONDEMNED").exists() or data != damaged, f"cut {number}:random:{seed} brings the damaged index back"


def damage(path, values):
    """Turns a bit of each of these values, wherever they stand."""
    data = bytearray(path.read_bytes())
    for value in values:
        at = data.find(value)
        while at >= 0:
            data[at] ^= 1
            at = data.find(value, at + 1)
    with open(path, "r+b") as file:
        file.write(data)
        os.fsync(file.fileno())
