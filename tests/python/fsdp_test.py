#!/usr/bin/env python3
"""thinwire.fsdp: FSDP2 with two-hop codecs, as ranks on logical hosts over loopback."""

import re
import runpy
import tempfile
import unittest
from pathlib import Path

import fsdp_ranks
import launch
import numpy as np
import torch

torch.set_num_threads(1)  # before ranks are forked: the tests share few cores

PAGE = Path(__file__).resolve().parents[2] / "docs" / "fsdp.md"

# int8 and int4 with a bf16 scale per 128 elements, in bytes per element.
INT8, INT4 = 1 + 2 / 128, 0.5 + 2 / 128


def run(world, function, *arguments):
    # Seconds each on an idle machine; every step waits for all ranks, which share few cores.
    return launch.run(world, function, *arguments, timeout=240)


def run_page(rank, world, path):
    return runpy.run_path(path)["report"].bytes()


class FsdpTest(unittest.TestCase):
    def assert_near(self, got, expected, share):
        for step, (a, b) in enumerate(zip(got, expected, strict=True)):
            self.assertLess(abs(a - b), share * abs(b), f"step {step}: {a} instead of {b}")

    def check_curves(self, world, ranks_per_host, **options):
        """Losses and bytes; results of all ranks."""
        recipes = [None, "zero3", "zero++"]
        ranks = run(world, fsdp_ranks.curves, ranks_per_host, recipes, *options.values())
        plain, raw, coded = (ranks[0][recipe] for recipe in recipes)
        self.assertLess(plain["losses"][-1], 0.7 * plain["losses"][0])
        self.assert_near(raw["losses"], plain["losses"], 1e-4)
        self.assert_near(coded["losses"], plain["losses"], 0.03)
        hosts = world // ranks_per_host
        # Blocks are gathered for forward and again for backward, the root once.
        blocks = sum(n for name, n in plain["numel"].items() if name.startswith("blocks"))
        root = sum(plain["numel"].values()) - blocks
        share = (hosts - 1) / hosts
        for recipe, gather, reduce in (("zero3", 4, 4), ("zero++", INT8, INT4)):
            formula = share * (blocks * (2 * gather + reduce) + root * (gather + reduce))
            sent = sum(result[recipe]["bytes"] for result in ranks) / hosts
            self.assertLess(abs(sent - formula), 0.02 * formula, recipe)
            for result in ranks:  # all compute with the same bits
                self.assertEqual(result[recipe]["weights"], ranks[0][recipe]["weights"])
                groups = result[recipe]["groups"]
                predicted = sum(2 * g.gather_bytes + g.reduce_bytes for g in groups)
                predicted -= groups[0].gather_bytes
                self.assertEqual(result[recipe]["bytes"], predicted)
        # In fp32 FSDP2 itself sends at least what zero3 does.
        self.assertLess(coded["bytes"], 0.22 * raw["bytes"])

    def test_two_hosts_of_two(self):
        self.check_curves(4, 2)

    def test_two_hosts_of_one(self):
        self.check_curves(2, 1)

    def test_three_hosts_with_padded_shards(self):
        self.check_curves(3, 1, width=61, vocabulary=89)

    def test_mixed_precision(self):
        results = run(4, fsdp_ranks.policies)
        for name, found in results[0].items():
            with self.subTest(name):
                plain, raw, coded = (found[recipe] for recipe in (None, "zero3", "zero++"))
                self.assert_near(raw[0], plain[0], 0.01)
                self.assert_near(coded[0], plain[0], 0.03)
                # The gathers in two bytes, or all.
                share = 2.55 / (8 if "fp32" in name else 6)
                self.assertLess(abs(coded[1] / raw[1] - share), 0.02)

    def test_division_and_accumulation_are_fsdp2s(self):
        for found in run(4, fsdp_ranks.gradients):
            self.assertTrue(bool(found["mean"].any()))
            self.assertTrue(np.array_equal(found["half the mean"], 0.5 * found["mean"]))
            self.assertTrue(np.array_equal(found["sum"], 4 * found["mean"]))
            self.assertTrue(np.array_equal(found["sums alone"], found["mean"]))
            (one, groups), (three, _) = found[1], found[3]
            # Gathers are repeated for each micro-batch, the reduce is not; the root stays gathered
            # until gradients are reduced.
            self.assertLess(one, three)
            self.assertLess(three, 3 * one - 2 * sum(group.reduce_bytes for group in groups) + 1)

    def test_slice_kept_from_forward_to_backward(self):
        for found in run(4, fsdp_ranks.kept_inside_hosts):
            expected = sum(group.gather_bytes + group.reduce_bytes for group in found["groups"])
            self.assertEqual(found["bytes"], expected)
            self.assertIn("inside the host", found["groups"][1].notes[0])
            self.assertLess(found["losses"][-1], found["losses"][0])

    def test_what_cannot_be_compressed_is_reported(self):
        ranks = run(4, fsdp_ranks.reports)
        found = ranks[0]
        report, printed = found["odd"]
        self.assertEqual(str(report), printed.strip())
        self.assertEqual(ranks[1]["odd"][1], "")  # rank 0 speaks for all
        notes = {group.name: " ".join(group.notes) for group in report.groups}
        self.assertEqual(notes["usual"], "")
        self.assertRegex(notes["tiny"], "raw: fewer than 4096 elements")
        self.assertRegex(notes["vectors"], "raw: only vectors")
        self.assertRegex(notes["wide"], "gather raw: .*float64.* reduce by FSDP2: float64")
        self.assertRegex(notes["mixed"], "gather raw: one buffer of bfloat16, float32")
        self.assertRegex(report.notes[0], "hpz has no effect")
        self.assertEqual(found["later"], "")  # nothing that the report had not said
        for name, expected in found["plain"].items():
            tolerance = 0.15 * float(np.abs(expected).max())
            for recipe in (None, "zero++"):
                got = found[recipe][name]
                self.assertLess(float(np.abs(got - expected).max()), tolerance, (recipe, name))
        for name, said in (("hsdp", "on one host"), ("hsdp over hosts", "all-reduce between")):
            report, printed, losses = found[name]
            for group in report.groups:
                self.assertRegex(" ".join(group.notes), said)
            self.assertIn(said, printed)
            self.assert_near(losses, found["hsdp alone"], 0.03)
            self.assertEqual(report.bytes() > 0, name == "hsdp over hosts")

    def test_errors(self):
        for said in run(2, fsdp_ranks.errors):
            for name, pattern in {
                "plain": "Transformer has no module sharded by FSDP2: call .*fully_shard",
                "recipe": 'recipe = "zero\\+" is not known; did you mean zero\\+\\+',
                "twice": "names qwz twice",
                "format": "the block is 100: choose a multiple of 32",
                "hop": "keeps codes but does not pass them on",
                "differences": "FSDP2 keeps nothing between steps",
                "feedback": "FSDP2 keeps nothing between steps",
                "coded": "entropy-coded messages have no fixed size",
                "fast": "the fast hop passes on",
                "hosts": "ranks_per_host = 3: expected a divisor of the 2 ranks",
                "text": "smallest = '4096': expected a number of elements",
                "negative": "smallest = -1: expected",
                "bool": "ranks_per_host = True: expected",
                "ranks": "rank 1 calls compress with .*qwz.* rank 0 with .*qgz",
            }.items():
                self.assertRegex(said[name], pattern)
                self.assertNotIn("\n", said[name])
            text, _, sent = said["one host"]
            self.assertIn("ranks_per_host = 2 from LOCAL_WORLD_SIZE", text)
            self.assertIn("on one host", text)
            self.assertEqual(sent, 0)

    def test_the_example_of_the_page(self):
        example = re.search(
            r"<!-- file: fsdp_example.py -->\n```python\n(.*?)```", PAGE.read_text(), re.DOTALL
        )
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "fsdp_example.py")
            path.write_text(example.group(1))
            for sent in run(4, run_page, str(path)):
                self.assertGreater(sent, 0)


if __name__ == "__main__":
    unittest.main()
