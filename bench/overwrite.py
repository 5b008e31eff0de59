#!/usr/bin/env python3
"""Overwrites a store that is mostly full, uniformly at random, and shows what reclaim makes of it.

A file system of its own (--size; a loop-mounted ext4, or a tmpfs where that cannot be had; root only) is filled with objects to --fill of what
a store may use of it, then single keys drawn at random are overwritten until --times the living bytes were written or --seconds are over. Once
with small objects (in the log), once with large ones (in segments). Shown over time: the rate, what was refused (507), what the file system has in
use, and what reclaim moved for it. At the end: bytes moved for each byte written by the client (the cost of reclaim), and the most that was ever in
use. With --folder an empty folder on a file system of one's own is used instead.

Nothing but Python's standard library is needed.
"""

import argparse
from pathlib import Path

from lib.machine import KIB, MIB
from lib.overwriting import NoFileSystem, Overwriting, file_system, measure

ROOT = Path(__file__).resolve().parent.parent


def row_of(name, f):
    return (f"| {name} | {f['times']:.1f} | {f['mib_s']:.1f} | {f['mib_s_late']:.1f} | {f['refused']} | {f['most'] / MIB:.0f} of {f['room'] / MIB:.0f} "
            f"| {f['moved']:.2f} | {f['written']:.2f} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default=ROOT / "build/release/millraced", help="the daemon")
    parser.add_argument("--size", type=int, default=2048, help="MiB of the file system (default 2048)")
    parser.add_argument("--folder", help="an empty folder on a file system of your own, instead")
    parser.add_argument("--drives", type=int, default=1, choices=(1, 4), help="1, or 4 (two data, two parity)")
    parser.add_argument("--fill", type=float, default=0.7, help="part of the file system that is living data (default 0.7)")
    parser.add_argument("--times", type=float, default=4, help="end when so many times the living bytes were written (default 4)")
    parser.add_argument("--seconds", type=int, default=120, help="or after this long, for each kind (default 120)")
    parser.add_argument("--step", type=float, default=5, help="seconds between rows (default 5)")
    parser.add_argument("--threads", type=int, default=8, help="connections (default 8)")
    parser.add_argument("--rate", type=float, default=24, help="MiB/s that are overwritten; 0: as fast as it goes (default 24)")
    parser.add_argument("--small", type=int, default=32, help="KiB of a small object (default 32)")
    parser.add_argument("--large", type=int, default=2048, help="KiB of a large object (default 2048)")
    parser.add_argument("--reclaim-rate", default="64MiB", help="the setting (default 64MiB)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", choices=("small", "large"))
    arguments = parser.parse_args()
    options = vars(arguments)
    wanted = {name: options.pop(name) for name in ("small", "large", "only")}
    how, rows = Overwriting(verbose=True, **options), []
    for name, size in (("small", wanted["small"] * KIB), ("large", wanted["large"] * KIB)):
        if wanted["only"] in (None, name):
            try:
                with file_system(how) as folder:
                    rows.append(row_of(f"{name}, {size // KIB} KiB", measure(how, name, size, folder)))
            except (NoFileSystem, RuntimeError) as error:
                raise SystemExit(f"overwrite.py: {error}") from error
    print("\n| objects | times overwritten | MiB/s | in the second half | refused | most in use, MiB | moved / written by client "
          "| written by drive / by client |\n|---|---|---|---|---|---|---|---|")
    print("\n".join(rows))


if __name__ == "__main__":
    main()
