"""Power cuts: the daemon on a file system that forgets what was not flushed (cutfs.c), cut at many moments of one history.

POWER_POINTS images (100 by default) are made and judged, two at a time. SEED=N repeats the load and the choice of cuts, but not the
order in which threads run; so a history in which something failed is kept, and a cut in it can be judged again:

    POWER_HISTORY=FOLDER POWER_CUT=NUMBER:MODE:SEED build/venv/bin/python -m pytest tests/power/test_power.py
"""
import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.conftest import SEED
from tests.power import cutfs
from tests.power.history import History, make_somewhere
from tests.power.judge import Cut, choose, judge

pytestmark = [pytest.mark.daemon, pytest.mark.skipif(cutfs.missing() is not None, reason=str(cutfs.missing()))]
POINTS = int(os.environ.get("POWER_POINTS", "100"))
STEPS = int(os.environ.get("POWER_STEPS", "24"))
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
        cuts = choose(history, *bounds(history, phase), -(-POINTS // len(PHASES)), SEED)
    with ThreadPoolExecutor(2) as pool:
        wrong = [text for text in pool.map(lambda cut: judge(history, cut), cuts) if text is not None]
    print(f"{phase}: {len(cuts)} cuts, {len(wrong)} wrong")
    if wrong:
        history.wanted = True
        shutil.rmtree(history.folder / "mount", ignore_errors=True)
    assert not wrong, f"SEED={SEED}, history kept in {Path(history.folder)}\n" + "\n\n".join(wrong[:5])
