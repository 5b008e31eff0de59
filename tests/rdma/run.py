#!/usr/bin/env python3
"""Real verbs without hardware: boots a guest with Soft-RoCE on a pair of virtual Ethernet devices, and runs server and clients there.

    run.py [--build FOLDER] [--seconds N] [--junit FILE] [--command COMMAND] [ARG...]

ARGs are for pytest, which runs the tests of this folder in the guest; its report is copied to FILE. COMMAND is run in the guest instead, with $ADDRESS an
address that has a device. Fails where the guest can't be had. Needs root and what `tools/deps.sh --qemu` installs.
"""
import argparse
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tests.support import guest  # noqa: E402

ADDRESS = "10.77.0.1"
PYTHON = "build/venv/bin/python"
# rdma_rxe asks the crypto layer for crc32, and does not load it
MODULES = ["crc32_generic", "crc32c_generic", "veth", "rdma_rxe", "rdma_ucm", "ib_uverbs"]
DEVICE = (f"export ADDRESS={ADDRESS}; ip link add v0 type veth peer name v1 && ip addr add $ADDRESS/24 dev v0 && ip link set v0 up && "
          "ip link set v1 up && rdma link add rxe0 type rxe netdev v0 && ulimit -l unlimited && sleep 1")


def compile_tests():
    """Leaves the tests' bytecode beside them, so that the guest need not compile. Whatever is wrong with a test shows there."""
    subprocess.run([PYTHON, "-m", "pytest", "-q", "--collect-only", "-p", "no:cacheprovider", "-p", "pytest_timeout", "--confcutdir=tests/rdma", "tests/rdma"],
                   cwd=ROOT, env={**os.environ, "ADDRESS": ADDRESS, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONDONTWRITEBYTECODE": ""}, stdout=subprocess.DEVNULL, check=False)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default=os.environ.get("MILLRACE_BUILD", "build/release"))
    parser.add_argument("--seconds", type=int, default=500)
    parser.add_argument("--junit", type=Path)
    parser.add_argument("--command")
    arguments, more = parser.parse_known_args()
    lacking = guest.missing(["rdma", "ip"])
    if lacking:
        raise SystemExit(f"not installed: {' '.join(lacking)}; tools/deps.sh --qemu installs them")
    if os.geteuid() != 0:
        raise SystemExit("only root can share its root with the guest")
    environment = f"export MILLRACE_BUILD={arguments.build} MILLRACE_PATIENCE=6 PYTHONDONTWRITEBYTECODE=1 PYTEST_DISABLE_PLUGIN_AUTOLOAD=1 SEED={os.environ.get('SEED', time.time_ns() % (1 << 32))}"
    tests = shlex.join([PYTHON, "-m", "pytest", "-v", "--tb=short", "--color=no", "--no-header", "--show-capture=no", "-p", "no:cacheprovider", "--confcutdir=tests/rdma",
                        "-p", "pytest_timeout", "--timeout=120", "--durations=12", "--junitxml=/mnt/junit.xml", *more,
                        *([] if any(word.startswith("tests/") for word in more) else ["tests/rdma"])])
    compile_tests()
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="millrace-guest-") as out:
        try:
            guest.run(ROOT / "build/guest", f"{DEVICE} && {environment} && {arguments.command or tests}", MODULES, seconds=arguments.seconds, show=True,
                      out=out)
        finally:
            if arguments.junit and (Path(out) / "junit.xml").exists():
                shutil.copy(Path(out) / "junit.xml", arguments.junit)
    print(f"rdma: the guest is through after {time.monotonic() - started:.0f} s")


if __name__ == "__main__":
    main()
