#!/usr/bin/env python3
"""Tests of codec.py with kernel benchmarks that print known numbers."""

import contextlib
import io
import json
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bench"))

import builds  # noqa: E402
import codec  # noqa: E402

FAKE = """#!/bin/sh
[ "$*" = "--json --quick" ] || exit 2
echo 'a line for people'
echo '{json}'
"""


def line(name, ratio, **more):
    return {"name": name, "value": ratio, "gigabytes_per_second": 10 * ratio} | more


class CodecTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)

    def build(self, name):
        """A build folder with fake benchmarks."""
        folder = self.root / "build" / name
        folder.mkdir(parents=True)
        quantize = {
            "bars": [
                line("fp32 to int8, searched, avx2", 0.9, bar=0.8, holds=True),
                line("fp32 to int8, searched, avx512", 0.7, bar=0.8, holds=False),
            ],
            "without_bar": [line("fp32 to int8, searched, scalar", 0.1)],
        }
        kernels = {"bars": [line("adamw, avx2", 1.0, bar=0.8, holds=True)], "without_bar": []}
        for binary, made in zip(codec.BINARIES, (quantize, kernels), strict=True):
            path = folder / binary
            path.write_text(FAKE.format(json=json.dumps(made)))
            path.chmod(0o755)
        return folder

    def test_quick_form_merges_both_benchmarks(self):
        folder, out = self.build("dev"), io.StringIO()
        arguments = ["codec.py", "--quick", "--build", str(folder)]
        with mock.patch.object(sys, "argv", arguments), contextlib.redirect_stdout(out):
            self.assertEqual(codec.main(), 0)
        made = json.loads(out.getvalue().splitlines()[-1])
        self.assertEqual((made["bench"], made["build"]), ("codec", "dev"))
        self.assertEqual(
            [(row["kernel"], row["isa"], row["ratio"], row["has_bar"]) for row in made["rows"]],
            [
                ("fp32 to int8, searched", "avx2", 0.9, True),
                ("fp32 to int8, searched", "avx512", 0.7, True),
                ("fp32 to int8, searched", "scalar", 0.1, False),
                ("adamw", "avx2", 1.0, True),
            ],
        )
        self.assertEqual(made["rows"][0]["gigabytes_per_second"], 9.0)
        self.assertEqual([(bar["value"], bar["holds"]) for bar in made["bars"]],
                         [(0.7, False), (1.0, True)])  # fmt: skip

    def test_release_is_preferred_to_newer_builds(self):
        release = self.build("release")
        self.build("dev")
        with mock.patch.object(builds, "ROOT", self.root):
            self.assertEqual(builds.folder_with(codec.BINARIES, None), release)

    def test_a_missing_build_and_a_failed_benchmark_end_the_command(self):
        with self.assertRaisesRegex(SystemExit, "make build"):
            builds.folder_with(codec.BINARIES, self.root)
        folder = self.build("dev")
        with (
            contextlib.redirect_stdout(io.StringIO()),
            self.assertRaisesRegex(
                SystemExit, "kernels_quantize_bench --json failed with exit code 2"
            ),
        ):
            codec.measure(folder, quick=False)


if __name__ == "__main__":
    unittest.main()
