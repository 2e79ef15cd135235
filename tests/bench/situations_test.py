#!/usr/bin/env python3
"""Every test that situations_list.py names is there."""

import re
import sys
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))

import situations  # noqa: E402
import situations_list  # noqa: E402


def cpp_tests():
    text = "".join(path.read_text() for path in ROOT.glob("thinwire/*/*_test.cc"))
    return {
        f"{suite}.{name}"
        for suite, name in re.findall(r"^TEST(?:_[PF])?\((\w+), (\w+)\)", text, re.M)
    }


def python_tests():
    found = set()
    for path in (ROOT / "tests" / "python").glob("*_test.py"):
        suite = None
        for kind, name in re.findall(r"^ *(class|def) (\w+)", path.read_text(), re.M):
            if kind == "class":
                suite = name
            else:
                found.add(f"{path.stem}.{suite}.{name}")
    return found


class SituationsTest(unittest.TestCase):
    def test_named_tests_exist(self):
        there = cpp_tests() | python_tests()
        for group in situations_list.GROUPS.values():
            for each in group:
                self.assertTrue(each.tests, each.report)
                self.assertEqual(set(each.tests) - there, set(), each.report)

    def test_the_worst_outcome_counts(self):
        self.assertEqual(situations.outcome_of(["passed", "skipped", "failed"]), "failed")
        self.assertEqual(situations.outcome_of(["passed", "skipped"]), "skipped")
        self.assertEqual(situations.outcome_of(["passed", "passed"]), "passed")


if __name__ == "__main__":
    unittest.main()
