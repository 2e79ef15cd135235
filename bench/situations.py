#!/usr/bin/env python3
"""Runs the tests of every situation of situations_list.py: a table with their outcomes.

  python3 bench/situations.py             # ten minutes; saves the result
  python3 bench/situations.py --quick     # those that are tests in C++ alone; nothing is saved

It needs a build (`make build`); the Hugging Face situations need requirements-hf.txt in .venv.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import builds
import result
import situations_list
from trainer import python_package

_PYTHON_TESTS = result.ROOT / "tests" / "python"
_OUTCOMES = {"ok": "passed", "FAIL": "failed", "ERROR": "failed", "skipped": "skipped"}


def is_python(test: str) -> bool:
    return test.count(".") == 2


def python_outcomes(tests: set[str], package: Path) -> dict[str, str]:
    """Of these tests, file by file: what a file sets up serves all of its tests."""
    python = builds.project_python()
    environment = os.environ | {"PYTHONPATH": str(package), "HF_HUB_OFFLINE": "1"}
    found = dict.fromkeys(tests, "failed")
    for file in sorted({test.split(".")[0] for test in tests}):
        names = sorted(test.partition(".")[2] for test in tests if test.startswith(f"{file}."))
        done = subprocess.run(
            [str(python), str(_PYTHON_TESTS / f"{file}.py"), "-v", *names],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        print(f"{file}: {done.stderr.splitlines()[-1] if done.stderr else ''}", flush=True)
        for name, said in re.findall(
            r"^(test_\w+) .*? \.\.\. (?:.*?)(ok|FAIL|ERROR|skipped)\b", done.stderr, re.M
        ):
            for test in tests:
                if test.startswith(f"{file}.") and test.endswith(f".{name}"):
                    found[test] = _OUTCOMES[said]
    return found


def cpp_outcomes(tests: set[str], build: Path) -> dict[str, str]:
    """Of these tests, with all their parameters."""
    report = build / "situations.xml"
    pattern = "|".join(rf"[.]{re.escape(test)}|/{re.escape(test)}/" for test in sorted(tests))
    subprocess.run(
        ["ctest", "-R", f"({pattern})", "--output-junit", str(report), "-Q"], cwd=build, check=False
    )
    seen: dict[str, list[bool]] = {test: [] for test in tests}
    for case in ElementTree.parse(report).iter("testcase"):
        for test in tests:
            if re.search(rf"[./]{re.escape(test)}(/|$| )", case.attrib["name"]):
                seen[test].append(case.attrib["status"] == "run")
    return {test: "passed" if runs and all(runs) else "failed" for test, runs in seen.items()}


def outcome_of(outcomes: list[str]) -> str:
    for worst in ("failed", "skipped", "not run"):
        if worst in outcomes:
            return worst
    return "passed"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="nothing is saved")
    args = parser.parse_args()
    package = python_package()
    groups = situations_list.GROUPS
    tests = {test for group in groups.values() for each in group for test in each.tests}
    python_tests = {test for test in tests if is_python(test)}
    outcomes = cpp_outcomes(tests - python_tests, package.parent)
    outcomes |= (
        dict.fromkeys(python_tests, "not run")
        if args.quick
        else python_outcomes(python_tests, package)
    )
    rows = [
        {
            "group": name,
            "report": each.report,
            "trouble": each.trouble,
            "here": each.here,
            "tests": len(each.tests),
            "outcome": outcome_of([outcomes[test] for test in each.tests]),
        }
        for name, group in groups.items()
        for each in group
    ]
    for row in rows:
        print(f"{row['outcome']:8} {row['report']}: {row['trouble']}")
    for test in sorted(test for test, outcome in outcomes.items() if outcome == "failed"):
        print(f"failed: {test}")
    passed = sum(row["outcome"] == "passed" for row in rows)
    share = None if args.quick else 100.0 * passed / len(rows)
    made = result.make(
        "situations",
        None,
        "logical",
        None,
        [result.at_least(f"situations whose tests pass, of {len(rows)}, percent", share, 100.0)],
        rows=rows,
    )
    result.finish(made, None if args.quick else "situations")
    return int("failed" in outcomes.values())


if __name__ == "__main__":
    sys.exit(main())
