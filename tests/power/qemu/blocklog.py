"""Logs of a disk's writes as QEMU's blklogwrites keeps them (the format of Linux' dm-log-writes), and what a power cut leaves of the disk.

A log is | superblock | entry | data | entry | data | ..., in sectors of 512 bytes. Writes stand in the order in which they completed; a flush makes
those before it durable, FUA makes its own write so. What came after the last flush may be there, lost, or torn by sectors.
"""
import random
import struct
import subprocess

SECTOR = 512
MAGIC = 0x6A736677736872
FLUSH, FUA, DISCARD = 1, 2, 4


class Write:
    def __init__(self, offset, length, flags, at):
        self.offset, self.length, self.flags, self.at = offset, length, flags, at


def entries(log):
    """All entries; `at` is where an entry's data stands in the log."""
    with open(log, "rb") as file:
        magic, _, count, sector = struct.unpack("<QQQI", file.read(28))
        assert magic == MAGIC and sector == SECTOR, (log, hex(magic), sector)
        at, found = SECTOR, []
        for _ in range(count):
            file.seek(at)
            start, sectors, flags, _ = struct.unpack("<QQQQ", file.read(32))
            at += SECTOR
            found.append(Write(start * SECTOR, sectors * SECTOR, flags, at))
            if not flags & DISCARD:
                at += sectors * SECTOR
    return found


def marker(number):
    return struct.pack("<8sQ", b"POWERCUT", number).ljust(SECTOR, b"\0")


def markers(log, found, offset):
    """{number: index of the entry} of what was written at the place for markers."""
    result = {}
    with open(log, "rb") as file:
        for index, entry in enumerate(found):
            if entry.offset == offset and entry.length:
                file.seek(entry.at)
                name, number = struct.unpack("<8sQ", file.read(16))
                assert name == b"POWERCUT"
                result[number] = index
    return result


def image(log, found, base, cut, mode, seed, path):
    """Makes path: the disk after its first `cut` entries, what is volatile then by mode (none, all, random)."""
    subprocess.run(["cp", "--sparse=always", base, path], check=True)
    chance = random.Random(f"{seed}/{cut}")
    likely = {"none": 0.0, "all": 1.0, "random": chance.choice([0.1, 0.5, 0.9])}[mode]
    flushed = max((index for index, entry in enumerate(found[:cut]) if entry.flags & FLUSH), default=0)
    with open(log, "rb") as source, open(path, "r+b") as disk:
        for index, entry in enumerate(found[:cut]):
            if entry.length == 0 or entry.flags & DISCARD:
                continue
            source.seek(entry.at)
            data = source.read(entry.length)
            if index < flushed or entry.flags & FUA or chance.random() < likely:
                disk.seek(entry.offset)
                disk.write(data)
            elif mode == "random" and chance.random() < 0.3:
                for at in range(0, entry.length, SECTOR):
                    if chance.random() < 0.5:
                        disk.seek(entry.offset + at)
                        disk.write(data[at:at + SECTOR])
    return sum(1 for entry in found[flushed:cut] if entry.length)
