#!/usr/bin/env python3
"""Prints the coverage of each folder, and of all, from the CSV that gcovr wrote: cov_table.py FILE."""
import collections
import csv
import sys

COLUMNS = ("line_total", "line_covered", "branch_total", "branch_covered")


def share(covered, total):
    return f"{100 * covered / total:.1f} %" if total else "-"


def main():
    folders = collections.defaultdict(lambda: [0] * len(COLUMNS))
    with open(sys.argv[1], newline="") as file:
        for row in csv.DictReader(file):
            for name in (row["filename"].split("/")[0], "all"):
                folders[name] = [have + int(row[column]) for have, column in zip(folders[name], COLUMNS)]
    if not folders:
        print("cov_table.py: nothing was measured", file=sys.stderr)
        return 1
    print(f"{'folder':<10} {'lines':>7} {'covered':>9} {'branches':>9} {'covered':>9}")
    for name in sorted(folders, key=lambda folder: (folder == "all", folder)):
        lines, lines_covered, branches, branches_covered = folders[name]
        print(f"{name:<10} {lines:>7} {share(lines_covered, lines):>9} {branches:>9} {share(branches_covered, branches):>9}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
