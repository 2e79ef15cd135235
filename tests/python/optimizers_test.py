#!/usr/bin/env python3
"""Optimizers, parameter groups, schedules, clipping and accumulation as in plain torch."""

import unittest

import launch
import optimizers
import torch

torch.set_num_threads(1)  # before ranks are forked: the tests share few cores


class OptimizersTest(unittest.TestCase):
    def near(self, pairs):
        for got, expected in pairs:
            self.assertLess(abs(got - expected), 1e-5 * abs(expected))

    def test_the_callers_own(self):
        for results in launch.run(2, optimizers.callers_own):
            for name, pairs in results.items():
                with self.subTest(optimizer=name):
                    self.near(pairs)

    def test_accumulation_and_clipping(self):
        for pairs in launch.run(2, optimizers.accumulated):
            self.near(pairs)

    def test_sparse_gradients(self):
        for pairs in launch.run(2, optimizers.sparse):
            self.near(pairs)

    def test_what_cannot_be_sharded_is_named(self):
        expected = (
            "LBFGS",
            "Adafactor",
            "does not have embed.weight",
            "group 0 of the optimizer has a parameter of shape [5, 7] that is none of the model's",
            "add_param_group: expected all groups at initialize()",
            "comes with load_checkpoint",
            "step: ",
        )
        for said in launch.run(1, optimizers.refused):
            for text, words in zip(said, expected, strict=True):
                self.assertIn(words, text)

    def test_what_is_no_schedule_is_named(self):
        for said in launch.run(1, optimizers.schedules_refused):
            for text, words in zip(
                said,
                ("found <class", "found 'WarmupLR'", "found <class", "wants a loss"),
                strict=True,
            ):
                self.assertIn(words, text)


if __name__ == "__main__":
    unittest.main()
