#!/usr/bin/env python3
"""Parameters of odd shapes under several optimizers, and unused ones, as in plain PyTorch."""

import unittest

import launch
import shapes
import torch

torch.set_num_threads(1)  # before ranks are forked: the tests share few cores


class ShapesTest(unittest.TestCase):
    def check(self, world):
        for results in launch.run(world, shapes.all_cases):
            for case, (pairs, apart) in results["odd"].items():
                with self.subTest(case=case):
                    for got, expected in pairs:
                        self.assertLess(abs(got - expected), 1e-5 * abs(expected))
                    # Where a gradient is a rounding error, Lion's sign of it may differ: 2 lr.
                    self.assertLess(apart, 2.1e-3 if case[0] == "Lion" else 1e-5)
            for case, apart in results["unused"].items():
                with self.subTest(case=case):
                    self.assertLess(apart, 1e-5)

    def test_one_rank(self):
        self.check(1)

    def test_two_ranks(self):
        self.check(2)

    def test_three_ranks(self):
        self.check(3)


if __name__ == "__main__":
    unittest.main()
