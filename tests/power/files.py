"""What the files of a drive must be after a cut, whatever the store makes of them: promises that one module makes to another.

segment_file.c: a segment of the right name has a good header; a half-made one (.new) may come back, as a start removes what it finds.
logfile.c: a file made ahead is full of zeroes, so it has its whole length. file.c: log files are unlinked one after the other, and nothing
goes from the index before it is durably gone from the folder. index.c: a commit that was answered is on stable storage, its name included.
"""
import struct

import awscrt.checksums

SEGMENT_MAGIC = b"MRSG"
FIRST_LOG = "0000000000000001.log"


class Promises:
    """What a history says up to a cut: names that must be gone, names that must be there."""

    def __init__(self, history, cut):
        self.gone, self.there = set(), set()
        begun, unlinked, commits = set(), {}, {}
        for entry in history.entries[:cut]:
            drive, folder, *_ = [*entry.path.split("/"), "", ""]
            if entry.kind == "range":
                begun.add(entry.path)
                if folder == "index":
                    commits[drive] = commits.get(drive, 0) + 1
                    self.settle_segments(unlinked, drive)
            elif entry.kind in ("create", "rename"):
                self.gone.discard(entry.path)
                unlinked.pop(entry.path, None)
            elif entry.kind == "unlink" and folder == "log" and entry.path in begun:
                self.gone |= {path for path in unlinked if path.startswith(f"{drive}/log/")}
                unlinked[entry.path] = 0
            elif entry.kind == "unlink" and folder == "data" and entry.path.endswith(".seg"):
                unlinked[entry.path] = 0
            elif entry.kind == "unlink" and folder == "index":
                commits[drive] = 0
        self.there = {f"{drive}/index/data.mdb" for drive, count in commits.items() if count >= 2}

    def settle_segments(self, unlinked, drive):
        """A commit: the first after an unlink may be of a batch from before it, the second has the row of the segment no more."""
        for path in [path for path in unlinked if path.startswith(f"{drive}/data/")]:
            unlinked[path] += 1
            if unlinked[path] == 2:
                self.gone.add(path)


def header_is_good(path):
    with open(path, "rb") as file:
        header = file.read(4096)
    zeroed = header[:4] + bytes(4) + header[8:]
    return len(header) == 4096 and header[:4] == SEGMENT_MAGIC and struct.unpack("<I", header[4:8])[0] == awscrt.checksums.crc32c(zeroed)


def broken_promises(history, cut, top, log_bytes):
    """Texts; top is the image."""
    promises, wrong = Promises(history, cut), []
    wrong += [f"{path} was unlinked and is back" for path in sorted(promises.gone) if (top / path).exists()]
    wrong += [f"{path} was committed to and is gone" for path in sorted(promises.there) if not (top / path).exists()]
    wrong += [f"{path} has a bad header" for path in sorted(top.glob("*/data/*.seg")) if not header_is_good(path)]
    wrong += [f"{path} was not made whole" for path in sorted(top.glob("*/log/*.log")) if path.name != FIRST_LOG and path.stat().st_size < log_bytes]
    return wrong
