#!/usr/bin/env python3
"""Seeds for fuzz targets from the stores of tests/formats: bodies of log records, values of the index that they put, headers of frames.

    tests/fuzz/make_corpus.py FOLDER

FOLDER/log_record, FOLDER/index_value and FOLDER/frame get a file for each shape that occurs, small ones first: what a fuzzer changes from there on is
accepted deeper than what it makes from nothing. tools/fuzz.sh calls this.
"""
import struct
import sys
import tarfile
from pathlib import Path

STORES = Path(__file__).resolve().parent.parent / "formats" / "layout1"
RECORD, RECORD_MAGIC = 128, 0x4352524D
MUTATION = struct.Struct("<BxHI")
PUT, SIZE_MAX, EACH_MAX = 1, 4096, 40


def bodies(log):
    """(type, inline_len, body) of each record that stands in a log file."""
    for at in range(0, len(log) - RECORD, 64):
        magic, _, _, body_len, inline_len, kind = struct.unpack_from("<IIIIIH", log, at)
        if magic == RECORD_MAGIC and at + RECORD + body_len <= len(log):
            yield kind, inline_len, log[at + RECORD:at + RECORD + body_len]


def values(body):
    """The values that a body puts, one after the other."""
    at = 0
    while at + MUTATION.size <= len(body):
        kind, name_len, value_len = MUTATION.unpack_from(body, at)
        at += MUTATION.size + name_len
        if at + value_len > len(body):
            return
        if kind == PUT and value_len > 0:
            yield body[at:at + value_len]
        at += value_len


def files(suffix):
    for path in sorted(STORES.glob("*.tar.xz")):
        with tarfile.open(path) as tar:
            for member in tar:
                if member.isfile() and member.name.endswith(suffix):
                    yield tar.extractfile(member).read()


def keep(folder, seeds):
    """Of each length once, the shortest first."""
    folder.mkdir(parents=True, exist_ok=True)
    shapes = {len(seed): seed for seed in seeds if 0 < len(seed) <= SIZE_MAX}
    for number, length in enumerate(sorted(shapes)[:EACH_MAX]):
        (folder / f"store-{number}").write_bytes(shapes[length])


def main():
    out = Path(sys.argv[1])
    records, puts, frames = [], [], []
    for log in files(".log"):
        for kind, inline_len, body in bodies(log):
            if inline_len < 256:
                records.append(bytes([0, inline_len]) + body)
            if kind in (1, 3):
                puts.extend(values(body))
    for segment in files(".seg"):
        frames.extend(b"\x02" + segment[at:at + SIZE_MAX - 1] for at in range(4096, min(len(segment), 1 << 20), 4096) if any(segment[at:at + 4]))
    keep(out / "log_record", records)
    keep(out / "index_value", puts)
    (out / "frame").mkdir(parents=True, exist_ok=True)
    for number, frame in enumerate(frames[:EACH_MAX]):
        (out / "frame" / f"store-{number}").write_bytes(frame)


if __name__ == "__main__":
    main()
