#!/usr/bin/env python3
"""Runs the tests of one or more CMake presets and ends with one line: N passed, N failed.

A ctest entry that is a Python unittest file or a GoogleTest program counts as the tests in it.
"""

import argparse
import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
_UNITTEST_RAN = re.compile(r"^Ran (\d+) tests? in ", re.MULTILINE)
_UNITTEST_SKIPPED = re.compile(r"^(?:OK|FAILED) \(.*\bskipped=(\d+)", re.MULTILINE)
_UNITTEST_FAILED = re.compile(
    r"^FAILED \(.*?\b(?:failures=(\d+))?(?:, )?(?:errors=(\d+))?", re.MULTILINE
)
_GOOGLETEST_RAN = re.compile(r"^\[={10}\] (\d+) tests? from .* ran\.", re.MULTILINE)
_GOOGLETEST_SKIPPED = re.compile(r"^\[  SKIPPED \] (\d+) tests?, listed below", re.MULTILINE)
_GOOGLETEST_FAILED = re.compile(r"^\[  FAILED  \] (\d+) tests?, listed below", re.MULTILINE)


def _total(output, *patterns):
    """The sum of all numbers that the groups of `patterns` find in `output`."""
    found = (match.groups() for pattern in patterns for match in pattern.finditer(output))
    return sum(int(number) for groups in found for number in groups if number)


def count(junit):
    """Tests passed, failed and skipped in ctest's JUnit report."""
    counts = Counter()
    for case in ElementTree.fromstring(junit).iter("testcase"):
        output = case.findtext("system-out") or ""

        ran = _total(output, _UNITTEST_RAN, _GOOGLETEST_RAN)
        skipped = _total(output, _UNITTEST_SKIPPED, _GOOGLETEST_SKIPPED)
        if case.get("status") == "run":
            counts["passed"] += max(ran, 1) - skipped
        elif case.get("status") == "fail":
            failures = max(_total(output, _UNITTEST_FAILED, _GOOGLETEST_FAILED), 1)
            counts["failed"] += failures
            counts["passed"] += max(ran - failures - skipped, 0)
        elif case.get("status") != "disabled":
            skipped = max(skipped, 1)
        counts["skipped"] += skipped
    return counts


def summary(counts):
    line = f"{counts['passed']} passed, {counts['failed']} failed"
    return f"{line}, {counts['skipped']} skipped" if counts["skipped"] else line


def run(preset, arguments):
    """Runs the preset's tests; their counts, and whether ctest was content."""
    report = ROOT / "build" / preset / "ctest.xml"
    report.unlink(missing_ok=True)
    # Unittest's summary stands at the end of the output: cut the head if anything.
    command = [
        "ctest",
        "--preset",
        preset,
        "--output-junit",
        str(report),
        "--no-tests=error",
        "--test-output-truncation",
        "head",
        *arguments,
    ]
    # Tests that start python3 get the one of .venv, with its packages.
    environment = dict(os.environ, PATH=f"{ROOT / '.venv/bin'}:{os.environ['PATH']}")
    content = subprocess.run(command, cwd=ROOT, env=environment).returncode == 0
    counts = count(report.read_text()) if report.exists() else Counter()
    return counts, content and counts["passed"] > 0


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("presets", nargs="+", help="configured and built presets")
    parser.add_argument(
        "--label", help="only the tests of this label: a layer, lint, tools, docs, e2e"
    )
    options = parser.parse_args()
    arguments = ["--label-regex", f"^{options.label}$"] if options.label else []
    total, content = Counter(), True
    for preset in options.presets:
        counts, passed = run(preset, arguments)
        total += counts
        content = content and passed
    print(summary(total), flush=True)
    sys.exit(0 if content else 1)


if __name__ == "__main__":
    main()
