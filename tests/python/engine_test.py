#!/usr/bin/env python3
"""Modules of many kinds train as plain PyTorch trains them on the mean gradient of all ranks."""

import unittest

import launch
import parity
import torch

torch.set_num_threads(1)  # before ranks are forked: the tests share few cores


class ParityTest(unittest.TestCase):
    def check(self, world):
        for rank, (cases, threads) in enumerate(launch.run(world, parity.compare_all)):
            self.assertLessEqual(threads[-1], threads[0], f"{world} ranks")
            for case, pairs in cases.items():
                with self.subTest(world=world, rank=rank, case=case):
                    for got, expected in pairs:
                        self.assertLess(abs(got - expected), 1e-5 * abs(expected))

    def test_one_rank(self):
        self.check(1)

    def test_two_ranks(self):
        self.check(2)

    def test_three_ranks(self):
        self.check(3)

    def test_four_ranks(self):
        self.check(4)


if __name__ == "__main__":
    unittest.main()
