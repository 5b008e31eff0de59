"""Asks the checker of histories (linear/, Go with porcupine), which tools/deps.sh --cluster builds."""
import dataclasses
import subprocess
import tempfile

from tests.support.daemon import ROOT

LINEAR = ROOT / "build/tools/linear"
REASON = "there is no build/tools/linear: tools/deps.sh --cluster builds it"
KEY_SECONDS = 60


@dataclasses.dataclass
class Verdict:
    status: int  # 0: right, 1: wrong, 2: not a history, 3: undecided
    text: str


def judge(lines, key_seconds=KEY_SECONDS):
    """lines: operations as JSON, of at most some ten keys (linear/history.go says what they hold)."""
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as file:
        file.write("".join(line + "\n" for line in lines))
        file.flush()
        done = subprocess.run([LINEAR, "-patience", f"{key_seconds}s", file.name], capture_output=True, text=True, timeout=key_seconds * 60, check=False)
    return Verdict(done.returncode, done.stdout + done.stderr)


