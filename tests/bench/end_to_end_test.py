#!/usr/bin/env python3
"""The demo's short form with the real trainer: python3 end_to_end_test.py THINWIRE_TRAIN.

Over emulated hosts where they are permitted, so what the kernel counted is tested too.
"""

import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

DEMO = Path(__file__).resolve().parents[2] / "bench" / "demo.py"


class DemoTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        with tempfile.TemporaryDirectory() as folder:
            cls.done = subprocess.run(
                [sys.executable, str(DEMO), "--quick", "--out", folder],
                env={**os.environ, "THINWIRE_TRAIN": TRAINER},
                capture_output=True,
                text=True,
            )

    def setUp(self):
        self.assertEqual(self.done.returncode, 0, self.done.stdout + self.done.stderr)
        self.made = json.loads(self.done.stdout.splitlines()[-1])
        self.zero3, self.coded = self.made["runs"]

    def test_coding_changes_the_traffic_and_hardly_the_model(self):
        self.assertEqual(self.coded["recipe"], "zero++")
        # In the steep part of training; bench/quality.py has the fine comparison.
        self.assertLess(abs(self.coded["loss"] / self.zero3["loss"] - 1), 0.06)
        self.assertLess(self.coded["payload"], self.zero3["payload"] / 3)
        self.assertEqual(self.zero3["formula"], 3.0)

    def test_traffic_is_the_formula_at_most(self):
        for run in (self.zero3, self.coded):
            self.assertLessEqual(run["payload"], run["formula"] * 1.01, run)
            self.assertGreater(run["payload"], run["formula"] * 0.7, run)
            if self.made["hosts"] == "emulated":
                # Of 40 steps, those at the ends of the window blur it by about one in fifty.
                self.assertLessEqual(run["wire"], run["payload"] * 1.07, run)
                self.assertGreater(run["wire"], run["payload"] * 0.95, run)

    def test_ends_with_a_table_and_a_sample(self):
        for expected in ("seconds per step", "on the wire", 'continues "def "', "  | def "):
            self.assertIn(expected, self.done.stdout)


if __name__ == "__main__":
    TRAINER = sys.argv.pop(1)
    unittest.main()
