#!/usr/bin/env python3
"""Stages 0 to 3, and passes that do not go as planned."""

import unittest

import launch
import passes
import torch

torch.set_num_threads(1)  # before ranks are forked: the tests share few cores


class PassesTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.ranks = launch.run(2, passes.all_cases)

    def near(self, pairs):
        for got, expected in pairs:
            self.assertLess(abs(got - expected), 1e-5 * abs(expected))

    def test_stages_train_as_plain_torch(self):
        for results in self.ranks:
            for stage, pairs in results["stages"].items():
                with self.subTest(stage=stage):
                    self.near(pairs)

    def test_stages_are_the_same_bits_in_bf16(self):
        for results in self.ranks:
            for stage in (0, 1, 2):
                self.assertEqual(results["bits"][stage], results["bits"][3])

    def test_a_retry_is_as_if_nothing_had_been(self):
        for results in self.ranks:
            for stage, pairs in results["interrupted"].items():
                with self.subTest(stage=stage):
                    self.near(pairs)

    def test_micro_batches_that_went_with_an_abandoned_one_do_not_count(self):
        for results in self.ranks:
            pairs, counts = results["interrupted_between"]
            self.near(pairs)
            self.assertEqual(counts, [1, 0, 3, 2, 5, 4])

    def test_ranks_that_are_done_serve_the_others(self):
        for results in self.ranks:
            self.near(results["served"])

    def test_a_step_is_the_same_however_it_is_split(self):
        for results in self.ranks:
            losses, weights = results["splits"].pop((1, ""))
            for split, (other_losses, other_weights) in results["splits"].items():
                with self.subTest(split=split):
                    self.near(zip(other_losses, losses, strict=True))
                    for name, values in weights.items():
                        for got, expected in zip(other_weights[name], values, strict=True):
                            self.assertAlmostEqual(got, expected, delta=1e-6, msg=name)

    def test_a_boundary_that_comes_too_late_is_an_error(self):
        for results in self.ranks:
            for text, words in zip(
                results["boundaries_refused"],
                ("call it before forward", "came after the forward", "is 1: give it a larger"),
                strict=True,
            ):
                self.assertIn(words, text)

    def test_calls_in_a_wrong_order_are_named(self):
        early = "step() before the backward of the last forward"
        late = "the optimizer's step comes first"
        expected = (early, early, early, "found NoneType", "found one of [2]", early, late)
        for rank, results in enumerate(self.ranks):
            said, pairs = results["wrong_calls"]
            self.near(pairs)
            for text, words in zip(said, expected, strict=True):
                self.assertIn(words, text)
                self.assertIn(f"rank {rank}", text)

    def test_units_that_are_none_and_engines_that_ended(self):
        expected = (
            "is called Blok; the classes of this model are Block, ",
            "is called Conv2d; ",
            "an engine can be neither copied nor pickled",
            "a module that an engine trains can be neither copied nor pickled",
            "the engine was destroyed",
            "the engine was destroyed",
        )
        for results in self.ranks:
            for text, words in zip(results["units_and_ends"], expected, strict=True):
                self.assertIn(words, text)

    def test_an_engine_that_was_dropped_leaves_no_threads(self):
        for results in self.ranks:
            counts = results["dropped"]
            self.assertEqual(counts[1:], counts[:1] * 2)

    def test_experts_that_ranks_choose_differently(self):
        for results in self.ranks:
            pairs, routes = results["routed"]
            self.near(pairs)
            self.assertGreater(routes, 3)


if __name__ == "__main__":
    unittest.main()
