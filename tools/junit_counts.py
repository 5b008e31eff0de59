#!/usr/bin/env python3
"""Prints 'passed failed skipped' for a junit file that pytest wrote. Exits 1 without one.

    junit_counts.py [--late-fails] FILE
    junit_counts.py --costs FILE

--late-fails counts a test as failed that tests/conftest.py skipped because no time was left. --costs prints the files of tests that took most
processor time instead, in seconds, on one line.
"""
import argparse
import collections
import sys
import xml.etree.ElementTree as ElementTree


COSTS_SHOWN = 15


def costs(suites):
    """What tests/conftest.py measured, by the file of tests."""
    by_file = collections.Counter()
    for suite in suites:
        for case in suite.iter("testcase"):
            seconds = sum(float(p.get("value")) for p in case.iter("property") if p.get("name") == "processor_seconds")
            by_file[case.get("classname", "").split(".")[-1]] += seconds
    shown = ", ".join(f"{name} {seconds:.0f}" for name, seconds in by_file.most_common(COSTS_SHOWN))
    return f"{sum(by_file.values()):.0f} s of processors in tests: {shown}"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--costs", action="store_true")
    parser.add_argument("--late-fails", action="store_true")
    parser.add_argument("path")
    arguments = parser.parse_args()
    path = arguments.path
    try:
        suites = list(ElementTree.parse(path).getroot().iter("testsuite"))
    except (OSError, ElementTree.ParseError) as error:
        print(f"{path}: {error}", file=sys.stderr)
        return 1
    if arguments.costs:
        print(costs(suites))
        return 0
    total = sum(int(s.get("tests", 0)) for s in suites)
    failed = sum(int(s.get("failures", 0)) + int(s.get("errors", 0)) for s in suites)
    skipped = sum(int(s.get("skipped", 0)) for s in suites)
    late = 0
    if arguments.late_fails:
        late = sum("no time left" in skip.get("message", "") for suite in suites for skip in suite.iter("skipped"))
    print(total - failed - skipped, failed + late, skipped - late)
    return 0


if __name__ == "__main__":
    sys.exit(main())
