#!/usr/bin/env python3
"""Hugging Face's models train sharded as plain PyTorch trains them on the mean gradient."""

import unittest

import hf_packages
import launch
import torch

torch.set_num_threads(1)  # before ranks are forked: the tests share few cores


@hf_packages.needed
class ModelsTest(unittest.TestCase):
    def test_two_ranks(self):
        import hf_parity

        for rank, cases in enumerate(launch.run(2, hf_parity.compare_all, timeout=200)):
            for case, result in cases.items():
                with self.subTest(rank=rank, case=case):
                    for got, expected in result["losses"]:
                        self.assertLess(abs(got - expected), 1e-5 * abs(expected))
                    self.assertEqual(*result["names"])
                    self.assertLess(result["difference"][1], 1e-6, result["difference"][0])
                    self.assertTrue(result["tied"])


if __name__ == "__main__":
    unittest.main()
