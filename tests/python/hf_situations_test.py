#!/usr/bin/env python3
"""What went wrong for others with accelerate and PEFT goes right."""

import tempfile
import unittest

import hf_packages
import launch
import torch

torch.set_num_threads(1)  # before ranks are forked: the tests share few cores


@hf_packages.needed
class SituationsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        import hf_situations

        with tempfile.TemporaryDirectory() as directory:
            cls.ranks = launch.run(2, hf_situations.all_cases, directory, timeout=200)

    def test_a_step_is_the_same_however_it_is_split(self):
        for result in self.ranks:
            (loss, norm, weights), *others = result["splits"].values()
            self.assertEqual(len(others), 3)
            for other in others:
                self.assertAlmostEqual(other[0], loss, delta=1e-5 * loss)
                self.assertAlmostEqual(other[1], norm, delta=1e-4 * norm)
                torch.testing.assert_close(
                    torch.tensor(other[2]), torch.tensor(weights), atol=1e-6, rtol=0
                )

    def test_a_state_is_loaded_bit_for_bit(self):
        for first, again, untouched in (result["states"] for result in self.ranks):
            self.assertEqual(first, again)
            self.assertTrue(untouched)

    def test_two_engines_in_a_process(self):
        for result in self.ranks:
            for a, b in zip(*result["two engines"], strict=True):
                self.assertAlmostEqual(a, b, delta=1e-5 * abs(b))

    def test_lora_over_int8_weights(self):
        for got, expected, unchanged in (result["int8"] for result in self.ranks):
            self.assertEqual(unchanged, [True] * 14)  # seven in each of two blocks
            for a, b in zip(got, expected, strict=True):
                self.assertAlmostEqual(a, b, delta=0.01 * b)
            self.assertLess(got[-1], got[0])

    def test_parameters_are_gathered_in_any_order(self):
        for result in self.ranks:
            self.assertEqual(result["any order"], [[0], [1], [2]])

    def test_what_is_made_in_parts(self):
        for result in self.ranks:
            got = result["made inside"]
            self.assertRegex(got.pop("said"), "Linear was made inside of zero.Init and its weight")
            self.assertEqual(got, {"rank 0's": True, "kept": True, "grown": True})

    def test_lora_resumes_bit_for_bit(self):
        for result in self.ranks:
            whole, resumed = result["resumed"]
            self.assertEqual((len(whole[0]), len(whole[1])), (6, 8))
            self.assertEqual(whole, resumed)  # with the log of the first three steps


if __name__ == "__main__":
    unittest.main()
