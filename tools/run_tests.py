#!/usr/bin/env python3
"""Runs the tests of one or more CMake presets and ends with one line: N passed, N failed.

A ctest entry that is a Python unittest file counts as the tests in it.
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


def count(junit):
    """Tests passed, failed and skipped in ctest's JUnit report."""
    counts = Counter()
    for case in ElementTree.fromstring(junit).iter("testcase"):
        output = case.findtext("system-out") or ""
        ran = sum(map(int, _UNITTEST_RAN.findall(output)))
        skipped = sum(map(int, _UNITTEST_SKIPPED.findall(output)))
        if case.get("status") == "run":
            counts["passed"] += max(ran, 1) - skipped
        elif case.get("status") == "fail":
            failures = sum(int(n) for pair in _UNITTEST_FAILED.findall(output) for n in pair if n)
            counts["failed"] += max(failures, 1)
            counts["passed"] += max(ran - max(failures, 1) - skipped, 0)
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
