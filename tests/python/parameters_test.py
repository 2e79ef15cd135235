#!/usr/bin/env python3
"""Parameters outside of forward: named errors, whole state, edits, frozen ones."""

import unittest

import launch
import parameters
import torch

torch.set_num_threads(1)  # before ranks are forked: the tests share few cores


class ParametersTest(unittest.TestCase):
    def test_a_released_parameter_says_its_name(self):
        for said in launch.run(2, parameters.released):
            for text in said:
                self.assertRegex(text, "parameter (blocks|embed|twice|never|norm).* has no values")

    def test_state_dict_is_whole(self):
        results = launch.run(2, parameters.whole_state)
        for result in results:
            self.assertTrue(result["same"] and result["tied"] and result["moved"], result)
            self.assertTrue(result["back"])
            self.assertEqual(result["lent"], [0.5])
        self.assertEqual(len({result["digest"] for result in results}), 1)

    def test_edits_reach_all_ranks(self):
        for result in launch.run(3, parameters.edited):
            self.assertEqual(result, {"read": True, "difference": 0.0, "dropped": 0.0})

    def test_full_params_inside_of_it_and_what_it_would_undo(self):
        words = (
            "step inside full_params(...), which holds",
            "load_checkpoint inside full_params",
            "between a forward and its backward",
            "expected a parameter, a module or a sequence of them, found 'head'",
            "found None",
            "found 3",
            "expected modifier_rank= from 0 to 1, found 2",
        )
        for result in launch.run(2, parameters.lent_within):
            self.assertEqual(result["kept"], [0.5])
            self.assertEqual(result["weight"], [0.5])
            self.assertEqual(result["bias"], [1.0])
            self.assertTrue(result["moved"])
            for said, expected in zip(result["said"], words, strict=True):
                self.assertIn(expected, said)

    def test_what_is_not_edited_keeps_its_bits(self):
        for result in launch.run(2, parameters.unedited_masters):
            self.assertEqual(result["changed"], {"norm.bias": 1})
            self.assertEqual(result["types"], ["torch.bfloat16"])

    def test_frozen_parameters_stay(self):
        for result in launch.run(2, parameters.frozen):
            self.assertTrue(result["stayed"])
            for got, expected in result["pairs"]:
                self.assertLess(abs(got - expected), 1e-5 * abs(expected))


if __name__ == "__main__":
    unittest.main()
