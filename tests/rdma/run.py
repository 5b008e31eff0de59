#!/usr/bin/env python3
"""Real verbs without hardware: boots a guest with Soft-RoCE on a pair of virtual Ethernet devices, and runs server and client there.

    run.py [--build FOLDER] [--seconds N] [COMMAND]

COMMAND is run in the guest instead of the tests, with $ADDRESS an address that has a device. Fails where the guest can't be had. Needs root and what
`tools/deps.sh --qemu` installs.
"""
import argparse
import os
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tests.support import guest  # noqa: E402

ADDRESS = "10.77.0.1"
# rdma_rxe asks the crypto layer for crc32, and does not load it
MODULES = ["crc32_generic", "crc32c_generic", "veth", "rdma_rxe", "rdma_ucm", "ib_uverbs"]
DEVICE = (f"export ADDRESS={ADDRESS}; ip link add v0 type veth peer name v1 && ip addr add $ADDRESS/24 dev v0 && ip link set v0 up && "
          "ip link set v1 up && rdma link add rxe0 type rxe netdev v0 && ulimit -l unlimited && sleep 1")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default=os.environ.get("MILLRACE_BUILD", "build/release"))
    parser.add_argument("--seconds", type=int, default=240)
    parser.add_argument("command", nargs="?")
    arguments = parser.parse_args()
    lacking = guest.missing(["rdma", "ip"])
    if lacking:
        raise SystemExit(f"not installed: {' '.join(lacking)}; tools/deps.sh --qemu installs them")
    if os.geteuid() != 0:
        raise SystemExit("only root can share its root with the guest")
    command = arguments.command or f"{arguments.build}/unit/rdma/test_pair --verbs $ADDRESS"
    started = time.monotonic()
    guest.run(ROOT / "build/guest", f"{DEVICE} && {command}", MODULES, seconds=arguments.seconds, show=True)
    print(f"rdma: the guest is through after {time.monotonic() - started:.0f} s")


if __name__ == "__main__":
    main()
