import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))

import run_tests  # noqa: E402 (found through the path above)


def case(status, output=""):
    return f'<testcase name="x" status="{status}"><system-out>{output}</system-out></testcase>'


class CountTest(unittest.TestCase):
    def summary(self, *cases):
        return run_tests.summary(run_tests.count(f"<testsuite>{''.join(cases)}</testsuite>"))

    def test_entries(self):
        self.assertEqual(self.summary(case("run"), case("run"), case("fail")), "2 passed, 1 failed")

    def test_skipped_entries_are_not_passed(self):
        self.assertEqual(self.summary(case("run"), case("notrun")), "1 passed, 0 failed, 1 skipped")

    def test_unittest_files_count_as_their_tests(self):
        self.assertEqual(
            self.summary(case("run"), case("run", "....\nRan 4 tests in 0.1s\n\nOK\n")),
            "5 passed, 0 failed",
        )
        self.assertEqual(
            self.summary(case("run", "Ran 4 tests in 0.1s\n\nOK (skipped=1)\n")),
            "3 passed, 0 failed, 1 skipped",
        )

    def test_failures_in_a_unittest_file(self):
        self.assertEqual(
            self.summary(case("fail", "Ran 6 tests in 0.1s\n\nFAILED (failures=1, errors=2)\n")),
            "3 passed, 3 failed",
        )
        self.assertEqual(
            self.summary(case("fail", "Ran 6 tests in 0.1s\n\nFAILED (errors=2, skipped=1)\n")),
            "3 passed, 2 failed, 1 skipped",
        )

    def test_googletest_programs_count_as_their_tests(self):
        ran = "[==========] 5 tests from 2 test suites ran. (3 ms total)\n"
        skipped = "[  PASSED  ] 4 tests.\n[  SKIPPED ] 1 test, listed below:\n[  SKIPPED ] A.B\n"
        failed = "[  PASSED  ] 3 tests.\n[  FAILED  ] 2 tests, listed below:\n[  FAILED  ] A.B\n"
        self.assertEqual(self.summary(case("run", ran + skipped)), "4 passed, 0 failed, 1 skipped")
        self.assertEqual(self.summary(case("fail", ran + failed)), "3 passed, 2 failed")
        self.assertEqual(self.summary(case("fail", "[ RUN      ] A.B\n")), "0 passed, 1 failed")

    def test_a_unittest_file_that_died_is_one_failure(self):
        self.assertEqual(self.summary(case("fail", "Segmentation fault")), "0 passed, 1 failed")


if __name__ == "__main__":
    unittest.main()
