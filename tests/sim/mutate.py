#!/usr/bin/env python3
"""Breaks the engine on purpose, one way after the other, in a copy of the tree, and shows that the simulator notices.

    tests/sim/mutate.py [--seeds N] [NAME ...]

Each mutation names a text of the engine that must be there, and what takes its place. Exits 1 if one is not noticed within N seeds, or if its text
is gone: then this list is out of date.
"""
import argparse
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent

MUTATIONS = {
    "answers-early": (
        "a change is committed when all members but one have it",
        "engine/txn.c",
        "!= NULL && !txn->held && txn->waiting == 0)\n                commit(txn);",
        "!= NULL && !txn->held && (txn->waiting & (txn->waiting - 1)) == 0)\n                commit(txn);",
    ),
    "answers-before-commit": (
        "a change is answered when its COMMITs are sent, not when they are back",
        "engine/txn.c",
        "        if (n == 0)\n                leave(txn, -EIO);",
        "        leave(txn, n == 0 ? -EIO : 0);",
    ),
    "no-key-lock": (
        "changes of one key run at the same time",
        "engine/txn.c",
        "        memcpy(name, &txn->bucket, 8);",
        "        memcpy(name, &txn, 8);",
    ),
    "no-settling": (
        "a start copies no record to members that lack it",
        "engine/settle.c",
        "                        if (from >= 0) {",
        "                        if (false) {",
    ),
    "joins-early": (
        "a drive that catches up is a member before its names were compared",
        "engine/join.c",
        "                join->step = STEP_COMPARE;\n                restart_compare(join);",
        "                join->step = STEP_LEAVE;\n                eng_epoch_change(store);",
    ),
    "stale-counts": (
        "a drive that was out counts as a member at the next start",
        "engine/recover.c",
        "} else if (d[i].in != FMT_EPOCH_IN) {",
        "} else if (d[i].in == FMT_EPOCH_JOINING) {",
    ),
    "no-sync": (
        "a record names shards that were written and not made durable",
        "engine/put.c",
        "if (put->error == 0 && put->striped && put->touched != 0) {",
        "if (put->error == 0 && put->striped && put->touched == 0) {",
    ),
    "no-pins": (
        "shards are discarded while they are read",
        "engine/reap.c",
        "        return p != NULL;",
        "        return p == NULL && p != NULL;",
    ),
    "condition-ignored": (
        "If-None-Match is not looked at",
        "engine/txn.c",
        "                return v == NULL ? 0 : -EEXIST;",
        "                return 0;",
    ),
    "few-may-go-on": (
        "an epoch may have any number of members",
        "engine/place.c",
        "        return eng_epoch_can_write(next, drives, k, m) && 2 * __builtin_popcountll(next) > __builtin_popcountll(prev);",
        "        return __builtin_popcountll(next) >= (int)(m == 0 ? k : k + 1) && drives > 0;",
    ),
    "parts-die": (
        "parts that a copy deletes are taken for dead (the drive's side of it: simulated)",
        "tests/sim/sim_names.c",
        "!(kind == SIM_GONE && name[0] == FMT_SPACE_PART)",
        "kind != SIM_PUT",
    ),
}


def copy_tree(to):
    for name in ("Makefile", "include", "engine", "ec", "tests/sim"):
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, to / name)
        else:
            shutil.copy(source, to / name)


def build(tree):
    done = subprocess.run(["make", "-s", "O=out", "out/sim"], cwd=tree, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{done.stdout}{done.stderr}")


def first_failure(tree, seeds):
    done = subprocess.run([tree / "out/sim", "--seeds", f"1-{seeds}"], capture_output=True, text=True)
    lines = [line for line in done.stdout.splitlines() if line.startswith("FAILED")]
    return lines[0] if lines else None


def try_one(tree, name, seeds):
    what, file, old, new = MUTATIONS[name]
    path = tree / file
    text = path.read_text()
    if text.count(old) != 1:
        print(f"{name}: its text is not in {file} any more, or not once")
        return False
    path.write_text(text.replace(old, new))
    build(tree)
    found = first_failure(tree, seeds)
    path.write_text(text)
    print(f"{name} ({what}): {'not noticed' if found is None else found}", flush=True)
    return found is not None


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=6000)
    parser.add_argument("names", nargs="*", metavar="NAME", choices=[[], *MUTATIONS])
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="millrace-mutate.") as tmp:
        tree = Path(tmp)
        copy_tree(tree)
        build(tree)
        results = [try_one(tree, name, args.seeds) for name in args.names or MUTATIONS]
    print(f"{sum(results)} of {len(results)} noticed")
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
