#!/usr/bin/env python3
"""Code that stands in two places: more than 12 lines that differ in little but some names. `make tidy` runs it.

    duplicates.py [FILE ...]

sim_c (Debian's similarity-tester) finds code of the same shape in the modules' sources, or in the files named; of that, what has four words
out of five in common is printed, and makes the exit status 1. tools/duplicates.known lists what stays, with the reason: `PATH FUNCTION PATH
FUNCTION` a line, below a comment, with the functions that most of the lines lie in. A line of that list that matches nothing any more makes
the exit status 1, too, where all files were looked at.
"""
import collections
import difflib
import os
import re
import subprocess
import sys
from pathlib import Path

from tidy import read_known

ROOT = Path(__file__).resolve().parent.parent
KNOWN = "tools/duplicates.known"
FOLDERS = ["engine", "gateway", "client", "rdma", "net", "remote", "cluster", "loop", "server", "cli", "load", "s3", "ec"]
LINES = 12
TOKENS = 60  # more than 4 a line, so that lists of declarations do not count
SAME = 0.8  # of the words, names included: sim_c takes any name for any other, and what callbacks look like is all alike
MATCH = re.compile(r"^(\S+): line (\d+)-(\d+) *\|(\S+): line (\d+)-(\d+) *\[\d+\]", re.M)
FUNCTION = re.compile(r"^(?!(?:struct|enum|union|typedef)\b[^(]*$)[A-Za-z_].*?\b(\w+)\(")


def functions(path):
    """For each line of a file, the function it lies in, as sources of this style show it: its name begins in the first column, and so does its
    closing brace. - outside of one."""
    names, name = [], "-"
    for text in Path(path).read_text(errors="replace").splitlines():
        start = FUNCTION.match(text)
        name = start[1] if start and not text.endswith(";") else name
        names.append(name)
        name = "-" if text.startswith("}") else name
    return names


class Run:
    """Some lines of a file."""

    def __init__(self, path, first, last):
        self.path, self.first, self.last, self.lines = path, first, last, last - first + 1

    def __str__(self):
        return f"{self.path}:{self.first}-{self.last}"

    def key(self):
        """With the function that most of the lines lie in."""
        within = collections.Counter(functions(self.path)[self.first - 1:self.last])
        del within["-"]
        return f"{self.path} {within.most_common(1)[0][0] if within else '-'}"

    def words(self):
        return re.findall(r"\w+|[^\w\s]", "\n".join(Path(self.path).read_text(errors="replace").splitlines()[self.first - 1:self.last]))


def find(files):
    """{key: description}, the longest first."""
    done = subprocess.run(["sim_c", "-f", "-n", "-r", str(TOKENS), *files], capture_output=True, text=True, check=True)
    found = {}
    for match in MATCH.finditer(done.stdout):
        one, other = Run(match[1], int(match[2]), int(match[3])), Run(match[4], int(match[5]), int(match[6]))
        lines = min(one.lines, other.lines)
        if lines > LINES and difflib.SequenceMatcher(None, one.words(), other.words(), autojunk=False).ratio() >= SAME:
            found.setdefault(" ".join(sorted([one.key(), other.key()])), (lines, f"{one} and {other} repeat {lines} lines"))
    return {key: text for key, (_, text) in sorted(found.items(), key=lambda item: -item[1][0])}


def main():
    os.chdir(ROOT)
    files = sys.argv[1:]
    whole = not files
    known = read_known(Path(KNOWN).read_text(), KNOWN, "PATH FUNCTION PATH FUNCTION") if Path(KNOWN).exists() else set()
    if whole:
        files = sorted(str(path) for folder in FOLDERS for path in Path(folder).rglob("*.c"))
    found = find(files)
    new = [key for key in found if key not in known]
    stale = sorted(known.difference(found)) if whole else []
    for key in new:
        print(f"{found[key]}\n    (in {KNOWN} this would be: {key})")
    for key in stale:
        print(f"{KNOWN}: nothing matches any more, take it out: {key}")
    print(f"duplicates: {len(found)} found, {len(found) - len(new)} of them known, {len(new)} new")
    return 1 if new or stale else 0


if __name__ == "__main__":
    sys.exit(main())
