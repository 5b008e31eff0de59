#!/usr/bin/env python3
"""Made the stores of layout1/. It was run with a build of commit 1168aac4d9a3, from the top of that commit's tree:

    MILLRACE_BUILD=build/release build/venv/bin/python -m tests.formats.make_layout1 FOLDER [NAME ...]

It is kept to show what stands in them, not to be run again: a newer build would write its own layout, and the point of these stores is that no newer
build had a hand in them. A later layout gets a folder and a script of its own.
"""
from tests.formats.maker import main

STORES = ("single", "four", "mirror", "six", "killed", "damaged", "reclaimed", "joining", "filling", "adding", "removing", "removed")

if __name__ == "__main__":
    main(1, STORES)
