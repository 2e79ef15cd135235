#!/usr/bin/env python3
"""Number types of parameters, of passes and of messages, beside plain torch."""

import tempfile
import unittest

import launch
import number_types
import torch

torch.set_num_threads(1)  # before ranks are forked: the tests share few cores


class NumberTypesTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        with tempfile.TemporaryDirectory() as directory:
            cls.ranks = launch.run(2, number_types.all_cases, directory, timeout=200)

    def near(self, pairs, bound=1e-5):
        for got, expected in pairs:
            self.assertLess(abs(got - expected), bound * abs(expected))

    def test_a_bf16_base_and_fp32_adapters_keep_their_types(self):
        for results in self.ranks:
            for stage, (pairs, seen, kept) in results["mixed"].items():
                with self.subTest(stage=stage):
                    self.near(pairs, 5e-3 if stage == "zero++" else 1e-5)
                    self.assertEqual(seen, ["torch.bfloat16", "torch.float32"])
                    self.assertTrue(kept)

    def test_integers_stay_whole_and_are_saved(self):
        for rank, results in enumerate(self.ranks):
            result = results["wholes"]
            self.near(result["pairs"])
            self.assertTrue(result["alike"] and result["back"] and result["restored"], result)
            self.assertEqual(len(result["lines"]), 1 if rank == 0 else 0)
            # 3 x 24 x 24 of int8, 5 bools, 3 complex64, 4 float64, 7 int16 and none of int32.
            size = 3 * 24 * 24 + 5 + 3 * 8 + 4 * 8 + 7 * 2
            for line in result["lines"]:
                self.assertIn(
                    f"8 parameters of bool, complex64, float64, int16, int32, int8, {size} bytes",
                    line,
                )

    def test_trained_parameters_of_other_types_are_refused(self):
        for results in self.ranks:
            for said, name in zip(results["refused"], ("float64", "complex64"), strict=True):
                self.assertIn(f"parameter head.bias is {name} and requires grad", said)

    def test_autocast_trains_as_plain_torch_under_it(self):
        for results in self.ranks:
            for whose, pairs in results["autocast"].items():
                with self.subTest(whose=whose):
                    self.near(pairs)

    def test_autograd_saves_no_casts_of_gathered_matrices(self):
        for results in self.ranks:
            ours, plain = results["saved_by_autograd"]
            self.assertEqual(ours, 0)
            self.assertGreaterEqual(plain, 2 * 2 * 24 * 24)  # or this test would see nothing

    def test_stages_are_the_same_bits_in_all_types(self):
        for results in self.ranks:
            for kind, stages in results["same_bits"].items():
                for stage in range(1, 4):
                    self.assertEqual(stages[stage], stages[0], (kind, stage))

    def test_an_overflow_of_one_rank_skips_the_step_and_the_schedule(self):
        for results in self.ranks:
            for kind, steps in results["loss_scaling"].items():
                overflows, scales, rates, moved = zip(*steps, strict=True)
                self.assertEqual(overflows, (False, True, False, False, False))
                self.assertEqual(moved, (True, False, True, True, True))
                self.assertEqual(rates[0], rates[1])
                self.assertGreater(rates[2], rates[1])
                adapted = (8.0, 4.0, 4.0, 8.0, 8.0)  # two good steps double it
                self.assertEqual(scales, adapted if kind == "dynamic" else (8.0,) * 5)

    def test_auto_cast_casts_inputs(self):
        for results in self.ranks:
            without, with_it = results["cast_inputs"]
            self.assertRegex(without, "dtype|type")
            self.assertEqual(with_it, "fine")

    def test_drop_last_drops_the_short_batch(self):
        for results in self.ranks:
            self.assertEqual(results["batches"], {False: [3, 3], True: [3]})

    def test_each_type_of_messages_in_each_stage(self):
        for results in self.ranks:
            runs, bits = results["sent_types"]
            for (dtype, stage), (pairs, line) in runs.items():
                with self.subTest(dtype=dtype, stage=stage):
                    self.near(pairs, 1e-5 if dtype == "fp32" else 1e-2)
                    self.assertIn(f"fast reduce   {dtype},", line)
            self.assertEqual(set(bits.values()), {1})  # the same in all stages

    def test_codes_of_bf16_are_within_their_bounds(self):
        for results in self.ranks:
            types, worst, ratios = results["coded"]
            self.assertEqual(types, ["torch.bfloat16"])
            self.assertLessEqual(worst, 1)
            self.assertGreater(worst, 0.3)  # or nothing was coded
            for least, most in ratios.values():
                self.assertGreaterEqual(least, 1 - 1 / 16)
                self.assertLessEqual(most, 1 + 1 / 16)


if __name__ == "__main__":
    unittest.main()
