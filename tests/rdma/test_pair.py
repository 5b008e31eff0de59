"""The two ends of the engine on real verbs, without the daemon: the C program, whose own tests are listed in its output."""
import subprocess

from .conftest import ADDRESS, BUILD


def test_the_pair_of_engines():
    done = subprocess.run([BUILD / "unit/rdma/test_pair", "--verbs", ADDRESS], capture_output=True, text=True, timeout=100)
    print(done.stdout + done.stderr)
    assert done.returncode == 0 and "[       OK ]" in done.stdout + done.stderr
