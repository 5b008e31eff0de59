#!/usr/bin/env python3
"""Made the stores of layout2/ with a build of the commit that each NAME.json names, from the top of its tree:

    MILLRACE_BUILD=build/release build/venv/bin/python -m tests.formats.make_layout2 FOLDER [NAME ...]

A store that newer builds of layout 2 write differently (a new setting, a new record) is added under a new name; those that are there stay as they are.
"""
from tests.formats.maker import main

STORES = ("single", "four", "killed", "damaged", "reclaimed", "joining", "filling", "removed", "inline", "upgraded")

if __name__ == "__main__":
    main(2, STORES)
