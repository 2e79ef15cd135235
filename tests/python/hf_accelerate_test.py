#!/usr/bin/env python3
"""A training loop over accelerate, and LoRA by peft, over thinwire as by themselves."""

import tempfile
import unittest

import hf_packages
import launch
import torch

torch.set_num_threads(1)  # before ranks are forked: the tests share few cores


@hf_packages.needed
class AccelerateTest(unittest.TestCase):
    def near(self, got, expected, absolute):
        self.assertEqual(got.keys(), expected.keys())
        for name in got:
            torch.testing.assert_close(
                torch.tensor(got[name]), torch.tensor(expected[name]), atol=absolute, rtol=0
            )

    def test_a_loop_of_its_own(self):
        import hf_accelerate

        for accumulation in (1, 4):  # of 5 micro-batches in an epoch
            with self.subTest(accumulation=accumulation):
                got = launch.run(2, hf_accelerate.loop, True, accumulation, timeout=200)
                expected = launch.run(2, hf_accelerate.loop, False, accumulation, timeout=200)
                for (mine, _), (theirs, _) in zip(got, expected, strict=True):
                    for a, b in zip(mine, theirs, strict=True):
                        self.assertLess(abs(a - b), 1e-5 * abs(b))
                self.near(got[0][1], expected[0][1], 1e-6)
                self.assertIsNone(got[1][1])  # rank 0 alone has the weights, as with DeepSpeed

    def test_lora(self):
        import hf_accelerate

        with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as two:
            got = launch.run(2, hf_accelerate.lora, one, "zero3", timeout=200)
            expected = launch.run(2, hf_accelerate.lora, two, "none", timeout=200)
        for mine, theirs in zip(got, expected, strict=True):
            for a, b in zip(mine["losses"], theirs["losses"], strict=True):
                self.assertLess(abs(a - b), 1e-5 * abs(b))
            self.near(mine["saved"], theirs["saved"], 1e-4)  # AdamW: little gradients, full steps
            self.assertEqual(mine["bytes"], theirs["bytes"])
            self.assertEqual(mine["own"], mine["saved"])
            self.assertEqual(*mine["generated"])
            self.assertIn("adapter_model.safetensors", mine["checkpoint"])


if __name__ == "__main__":
    unittest.main()
