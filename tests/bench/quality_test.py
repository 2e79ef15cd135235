#!/usr/bin/env python3
"""Tests of the paired comparison of losses, against a trainer whose losses are known."""

import sys
import tempfile
import unittest
from dataclasses import replace
from pathlib import Path
from unittest import mock

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))

import quality  # noqa: E402


class Bound(unittest.TestCase):
    def test_of_a_known_sample(self):
        # Mean 0.2, standard deviation 0.1, t(3) = 2.35: 0.2 + 2.35 x 0.1 / 2.
        gaps = [0.1, 0.2, 0.2, 0.3]
        self.assertAlmostEqual(quality.upper_bound(gaps), 0.2 + 2.35 * 0.0816497 / 2, places=5)

    def test_grows_with_the_spread(self):
        self.assertGreater(quality.upper_bound([0.0, 0.4] * 4), quality.upper_bound([0.1, 0.3] * 4))


class Branches(unittest.TestCase):
    """Each pair has one seed and one checkpoint, and differs in the recipe alone."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        root = Path(folder.name)
        (root / "base" / "step-20").mkdir(parents=True)
        (root / "base" / "step-20" / "manifest.json").write_text("{}")
        self.study = quality.Study(20, 5, 2, 4, root, root / "text.txt", quality.MODELS["small"])
        self.configs = []

    def run_fake(self, study, config, resume):
        self.configs.append((config, resume))
        output = Path(config["output"]["directory"])
        if resume:
            assert (output / "step-20" / "manifest.json").exists()
        coded = config["parallel"]["recipe"] != "zero3"
        other = config["parallel"].get("wire") == "fp32"
        return 2.0 * (1.01 if coded else 1.001 if other else 1.0)

    def measure(self, recipes):
        with mock.patch.object(quality, "run", self.run_fake):
            return quality.measure(self.study, recipes)

    def test_pairs(self):
        gaps = self.measure({"zero++": "zero++"})["gaps_percent"]
        self.assertEqual([round(gap, 6) for gap in gaps["zero++"]], [1.0, 1.0])
        self.assertEqual([round(gap, 6) for gap in gaps["floor"]], [0.1, 0.1])
        base, *branches = self.configs
        self.assertFalse(base[1])
        self.assertTrue(base[0]["output"]["save_last"])
        self.assertEqual(len(branches), 6)
        for first in (0, 3):
            plain, coded, other = (config for config, _ in branches[first : first + 3])
            seeds = {c["training"]["seed"] for c in (plain, coded, other)}
            self.assertEqual(len(seeds), 1)
            self.assertNotEqual(seeds, {base[0]["training"]["seed"]})
            self.assertEqual(plain["training"], coded["training"])
            self.assertEqual(plain["parallel"]["recipe"], "zero3")
            self.assertEqual(coded["parallel"]["recipe"], "zero++")

    def test_variants_share_the_plain_run(self):
        self.measure({"zero++": "zero++", "other": "qwz"})
        recipes = [config["parallel"]["recipe"] for config, _ in self.configs]
        self.assertEqual(recipes, ["zero3", *["zero3", "zero++", "qwz", "zero3"] * 2])

    def test_a_study_goes_on_where_it_was_stopped(self):
        first = self.measure({"zero++": "zero++"})
        done = len(self.configs)
        self.assertEqual(self.measure({"zero++": "zero++"}), first)
        self.assertEqual(len(self.configs), done)
        self.measure({"zero++": "zero++", "other": "qwz"})
        added = [config["parallel"]["recipe"] for config, _ in self.configs[done:]]
        self.assertEqual(added, ["qwz"] * 2)

    def test_the_floor_of_fp32_is_rounded_too(self):
        self.study = replace(self.study, compute="fp32")
        self.measure({"zero++": "zero++"})
        wires = [config["parallel"].get("wire") for config, _ in self.configs]
        self.assertEqual(wires, [None, *["compute", "compute", "bf16"] * 2])
        self.assertEqual({c["training"]["compute"] for c, _ in self.configs}, {"fp32"})


if __name__ == "__main__":
    unittest.main()
