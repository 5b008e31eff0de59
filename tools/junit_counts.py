#!/usr/bin/env python3
"""Prints 'passed failed skipped' for a junit file that pytest wrote: junit_counts.py FILE. Exits 1 without one."""
import sys
import xml.etree.ElementTree as ElementTree


def main():
    path = sys.argv[1]
    try:
        suites = list(ElementTree.parse(path).getroot().iter("testsuite"))
    except (OSError, ElementTree.ParseError) as error:
        print(f"{path}: {error}", file=sys.stderr)
        return 1
    total = sum(int(s.get("tests", 0)) for s in suites)
    failed = sum(int(s.get("failures", 0)) + int(s.get("errors", 0)) for s in suites)
    skipped = sum(int(s.get("skipped", 0)) for s in suites)
    print(total - failed - skipped, failed, skipped)
    return 0


if __name__ == "__main__":
    sys.exit(main())
