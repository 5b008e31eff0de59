#!/usr/bin/env python3
"""Writes s3/tag_ranges.h: the characters beyond ASCII that tags may contain, which are Unicode's letters, numbers and separators.

    tag_ranges.py > s3/tag_ranges.h

Run it again only to follow another version of Unicode; the table is part of the source, so that a build needs no Python.
"""
import unicodedata


def ranges():
    """(first, last) of each run of allowed characters from U+0080 on."""
    first = None
    for c in range(0x80, 0x110001):
        if c < 0x110000 and unicodedata.category(chr(c))[0] in "LNZ":
            first = c if first is None else first
        elif first is not None:
            yield first, c - 1
            first = None


def main():
    print(f"""/*
 * tag_ranges.h - the characters beyond ASCII that tags may contain: letters, numbers and separators
 * of Unicode {unicodedata.unidata_version}, as ranges in ascending order. Written by tools/tag_ranges.py.
 */
/* clang-format off */""")
    line = ""
    for first, last in ranges():
        text = f"{{0x{first:x}, 0x{last:x}}},"
        if len(line) + len(text) > 110:
            print("       " + line)
            line = ""
        line += " " + text
    print("       " + line)


main()
