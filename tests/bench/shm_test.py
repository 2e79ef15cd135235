#!/usr/bin/env python3
"""Tests of shm.py with a benchmark that prints known numbers."""

import contextlib
import io
import json
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bench"))

import shm  # noqa: E402

FAKE = """#!/bin/sh
case $1 in
  gloo) us=100 mib=2000 ;; shared) us=20 mib=9000 ;; copy) us=10 mib=12000 ;; *) exit 2 ;;
esac
echo 'a line for people'
for kib in 64 16384; do
  echo "{\\"way\\": \\"$1\\", \\"kib\\": $kib, \\"one_way_us\\": $us, \\"mib_per_s\\": $mib}"
done
"""


class ShmTest(unittest.TestCase):
    def test_quick_form_compares_with_gloo(self):
        with tempfile.TemporaryDirectory() as folder:
            binary = Path(folder) / shm.BINARY
            binary.write_text(FAKE)
            binary.chmod(0o755)
            out = io.StringIO()
            arguments = ["shm.py", "--quick", "--build", folder]
            with mock.patch.object(sys, "argv", arguments), contextlib.redirect_stdout(out):
                self.assertEqual(shm.main(), 0)
        made = json.loads(out.getvalue().splitlines()[-1])
        self.assertEqual(made["bench"], "shm")
        self.assertEqual(
            [(bar["value"], bar["holds"]) for bar in made["bars"]],
            [(4.5, True), (20.0, True)],
        )
        self.assertEqual(len(made["rows"]), 6)
        self.assertRegex(
            out.getvalue(), "16384 KiB  shared / gloo 4.50, shared / copy 0.75, copy /"
        )
        self.assertEqual(shm.ratios(made["rows"])[64]["copy / gloo"], 6)

    def test_ratios_of_what_was_measured(self):
        rows = [{"way": way, "kib": 64, "mib_per_s": 10} for way in ("gloo", "shared")]
        self.assertEqual(shm.ratios(rows), {64: {"shared / gloo": 1}})

    def test_best_of_rounds(self):
        rounds = [[{"way": "gloo", "kib": 64, "one_way_us": us, "mib_per_s": mib}]
                  for us, mib in ((9.0, 10), (7.0, 30), (8.0, 20))]  # fmt: skip
        with (
            mock.patch.object(shm, "WAYS", ("gloo",)),
            mock.patch.object(shm, "run", side_effect=rounds),
            contextlib.redirect_stdout(io.StringIO()),
        ):
            self.assertEqual(
                shm.measure(Path("unused"), 3),
                [{"way": "gloo", "kib": 64, "one_way_us": 7.0, "mib_per_s": 30}],
            )


if __name__ == "__main__":
    unittest.main()
