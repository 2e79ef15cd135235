#!/usr/bin/env python3
"""Situations in which sharded training was reported to hang, to diverge or to take too much."""

import tempfile
import unittest

import launch
import situations
import torch

torch.set_num_threads(1)  # before ranks are forked: the tests share few cores


class TwoRanksTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        with tempfile.TemporaryDirectory() as directory:
            cls.ranks = launch.run(2, situations.two_ranks, directory)

    def test_a_module_that_one_rank_skips_in_evaluation(self):
        for result in self.ranks:
            for got, expected in result["skipped"]:
                self.assertLess(abs(got - expected), 1e-5 * abs(expected))

    def test_what_is_not_offered_is_named(self):
        expected = {
            "mpu": "mpu= (model parallelism) is not offered",
            "no module": "expected model=, a torch.nn.Module, found str",
            "nothing in it": "ReLU has no parameters",
            "an engine": "found an engine of one",
            "a model of an engine": "parameter embed.weight belongs to an engine",
            "a model of one that ended": "parameter embed.weight has no values",
            "a lazy module": "parameter weight has no shape yet",
            "an expanded buffer": "ones is expanded",
            "two configs": "config= and config_params= are the same",
            "a unit": "expected names of modules, or classes, found 3",
            "a parameter": "a sequence of them, found 'head'",
            "a rank": "expected modifier_rank= from 0 to 1, found 7",
        }
        for result in self.ranks:
            for name, words in expected.items():
                self.assertIn(words, result["refused"].get(name, "nothing"), name)

    def test_loading_reads_no_more_than_the_shard(self):
        for peak, shard in (result["loading"] for result in self.ranks):
            self.assertLess(peak, 0.2 * shard)


class FourRanksTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        directory = tempfile.TemporaryDirectory()
        cls.addClassCleanup(directory.cleanup)
        cls.directory = directory.name
        cls.ranks = launch.run(4, situations.four_ranks, cls.directory)

    def test_the_norm_is_that_of_one_process_on_any_hosts(self):
        for result in self.ranks:
            found, expected = result["norms"]
            self.assertGreater(max(norm for _, norm in expected), 0.05)  # or nothing was clipped
            for hosts, got in found.items():
                with self.subTest(hosts=hosts):
                    for a, b in zip(got, expected, strict=True):
                        self.assertAlmostEqual(a[0], b[0], delta=1e-5 * b[0])
                        self.assertAlmostEqual(a[1], b[1], delta=1e-5 * b[1])

    def test_an_edit_reaches_kept_slices(self):
        for result in self.ranks:
            for recipe, (got, expected) in result["edited"].items():
                bound = 1e-5 if recipe == "hpz" else 1e-2
                self.assertLess(abs(got - expected), bound * expected, recipe)

    def test_other_ranks_and_another_stage_go_on(self):
        expected = self.ranks[0]["saved"]
        for world, stage in ((3, 2), (1, 1)):
            for got in launch.run(world, situations.load, self.directory, stage):
                for a, b in zip(got, expected, strict=True):
                    self.assertAlmostEqual(a, b, delta=1e-5 * b)


if __name__ == "__main__":
    unittest.main()
