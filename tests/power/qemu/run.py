#!/usr/bin/env python3
"""Power cuts on real file systems: the daemon in a guest on ext4 and XFS, every write and flush of its disks logged, the logs cut at many places.

    run.py [--points N] [--steps N] [--seed N] [--keep]

The guest is Debian's kernel under QEMU's emulation over this machine's own root (9p, read-only, a tmpfs above it). Its disk lies behind QEMU's
blklogwrites and has four partitions, two with ext4, two with XFS: one log, so that there is one order of what happened on all four. From it the
disk is made as a cut leaves it, its partitions are mounted here by loop devices, and judged as in tests/power/judge.py: LMDB, the
journals of the file systems and the daemon are the real ones. A flush of one partition flushes the others, too, so this is milder than
tests/power/test_power.py. Needs root and what `tools/deps.sh --qemu` installs.
"""
import argparse
import os
import pickle
import random
import shutil
import struct
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT))
os.environ.setdefault("MILLRACE_BUILD", "build/release")

from tests.power.cutfs import roomy  # noqa: E402
from tests.power.history import SETTINGS  # noqa: E402
from tests.power.judge import Cut, Judge  # noqa: E402
from tests.power.qemu import blocklog  # noqa: E402
from tests.support import guest  # noqa: E402
from tests.support.daemon import Daemon  # noqa: E402

KINDS = ["ext4", "ext4", "xfs", "xfs"]
MIB = 1 << 20
FS_BYTES = 320 * MIB                            # XFS wants 300
STARTS = [MIB + n * FS_BYTES for n in range(4)]  # of the partitions
MARKS_AT = MIB + len(KINDS) * FS_BYTES           # the markers stand behind them
DISK_BYTES = MARKS_AT + MIB
LOG_BYTES = 4096 * MIB                           # sparse
MODULES = ["virtio_blk", "crc32c_generic", "ext4", "xfs"]


def sparse(path, size):
    with open(path, "wb") as file:
        file.truncate(size)
    return path


def partition_table():
    """An old one: four entries of type Linux."""
    entries = b"".join(struct.pack("<B3sB3sII", 0, b"", 0x83, b"", start // 512, FS_BYTES // 512) for start in STARTS)
    return bytes(446) + entries + b"\x55\xaa"


def make_disk(folder):
    """The disk, and a copy as it is before the guest has it."""
    base = sparse(folder / "base", DISK_BYTES)
    with open(base, "r+b") as file:
        file.write(partition_table())
    for kind, start in zip(KINDS, STARTS):
        part = sparse(folder / "part", FS_BYTES)
        subprocess.run([f"mkfs.{kind}", "-q", part], check=True)
        subprocess.run(["dd", f"if={part}", f"of={base}", "bs=1M", f"seek={start // MIB}", "conv=notrunc,sparse", "status=none"], check=True)
        part.unlink()
    subprocess.run(["cp", "--sparse=always", base, folder / "disk"], check=True)
    sparse(folder / "log", LOG_BYTES)
    sparse(folder / "notes", 256 * MIB)


def run_guest(work, folder, steps, seed, seconds=1500):
    arguments = f"{','.join(KINDS)} {MARKS_AT} {seed} {steps}"
    build = os.environ["MILLRACE_BUILD"]
    devices = ["-blockdev", f"driver=blklogwrites,node-name=disk,file.driver=file,file.filename={folder}/disk,"
                            f"log.driver=file,log.filename={folder}/log", "-device", "virtio-blk-pci,drive=disk",
               "-blockdev", f"driver=file,node-name=notes,filename={folder}/notes", "-device", "virtio-blk-pci,drive=notes"]
    guest.run(work, f"MILLRACE_BUILD={build} build/venv/bin/python tests/power/qemu/guest.py {arguments}", MODULES, devices, seconds)
    raw = (folder / "notes").read_bytes()
    return pickle.loads(raw[8:8 + int.from_bytes(raw[:8], "little")])


class History:
    """What Judge wants to know."""

    keys_on_drives = False

    def __init__(self, folder, record, keys):
        self.folder, self.record, self.keys = folder, record, keys
        self.log = blocklog.entries(folder / "log")
        self.marks = blocklog.markers(folder / "log", self.log, MARKS_AT)

    def environment(self):
        return {"MILLRACE_ROOT_ACCESS_KEY": self.keys[0], "MILLRACE_ROOT_SECRET_KEY": self.keys[1]}

    def entry_of(self, cut):
        """Number of entries up to the cut: at the marker, or somewhere before the next one."""
        first = self.marks[cut.number] + 1
        last = self.marks.get(cut.number + 1, len(self.log) - 1) + 1
        return random.Random(cut.seed).randrange(first, max(first + 1, last))


class DiskJudge(Judge):
    """On loop devices instead of plain folders."""

    def __init__(self, history, cut, folder):  # pylint: disable=super-init-not-called
        self.history, self.record, self.cut, self.folder = history, history.record, cut, folder
        self.formatted = cut.number >= self.record.ready
        self.drives = [folder / f"drive{number + 1}" for number in range(len(KINDS))]
        disk = folder / "disk"
        self.volatile = blocklog.image(history.folder / "log", history.log, history.folder / "base", history.entry_of(cut), cut.mode, cut.seed, disk)
        for drive, kind, start in zip(self.drives, KINDS, STARTS):
            drive.mkdir()
            options = f"loop,offset={start},sizelimit={FS_BYTES}" + (",nouuid" if kind == "xfs" else "")
            subprocess.run(["mount", "-t", kind, "-o", options, disk, drive], check=True)
        self.daemon = Daemon(drive_paths=self.drives, ec="2+2", settings=SETTINGS, folder=folder, credentials=False, env=history.environment())
        self.daemon.format = not self.formatted

    def lacking(self, uploads):
        return False

    def check_files(self):
        """That is a promise of cutfs' worst case; a real journal keeps it or the judge's other questions show."""


def judge(history, cut):
    folder = Path(tempfile.mkdtemp(prefix="millrace-disk-", dir=roomy()))
    one = None
    try:
        one = DiskJudge(history, cut, folder)
        one.run()
        one.daemon.stop()
        return None
    except Exception as error:  # a finding like any other
        return f"cut {cut}: {type(error).__name__}: {error}\n{one.daemon.tail(3000) if one is not None else ''}"
    finally:
        if one is not None:
            one.daemon.kill()
        for number in range(len(KINDS)):
            subprocess.run(["umount", folder / f"drive{number + 1}"], check=False, stderr=subprocess.DEVNULL)
        shutil.rmtree(folder, ignore_errors=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--points", type=int, default=60)
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", action="store_true")
    arguments = parser.parse_args()
    missing = guest.missing(["mkfs.xfs", "mkfs.ext4"])
    if missing or os.getuid() != 0:
        print(f"left out: {'needs root' if os.getuid() != 0 else 'missing: ' + ' '.join(missing) + ' (tools/deps.sh --qemu)'}")
        return 0
    work = ROOT / "build/qemu"
    work.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="millrace-qemu-", dir=roomy()))
    started, wrong = time.monotonic(), ["the guest did not end"]
    try:
        make_disk(folder)
        history = History(folder, *run_guest(work, folder, arguments.steps, arguments.seed))
        print(f"guest: {time.monotonic() - started:.0f} s, {len(history.log)} entries in the log, {max(history.marks)} markers")
        chance = random.Random(arguments.seed)
        cuts = [Cut(chance.randrange(history.record.ready, max(history.marks)), chance.choice(["none", "none", "random", "all"]),
                    chance.randrange(1 << 20), chance.random() < 0.25) for _ in range(arguments.points)]
        with ThreadPoolExecutor(2) as pool:
            wrong = [text for text in pool.map(lambda cut: judge(history, cut), cuts) if text is not None]
        print("\n\n".join(wrong[:5]))
        print(f"{len(cuts) - len(wrong)} cuts passed, {len(wrong)} failed, {time.monotonic() - started:.0f} s (seed {arguments.seed})")
        return 1 if wrong else 0
    finally:
        if not arguments.keep and not wrong:
            shutil.rmtree(folder, ignore_errors=True)
        else:
            print(f"kept: {folder}")


if __name__ == "__main__":
    sys.exit(main())
