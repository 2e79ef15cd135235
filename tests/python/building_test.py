#!/usr/bin/env python3
"""Models larger than a rank: from the meta device into the shards, from files and by init."""

import tempfile
import unittest

import building
import launch
import torch

torch.set_num_threads(1)  # before ranks are forked: the tests share few cores


class BuildingTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        directory = tempfile.TemporaryDirectory()
        cls.addClassCleanup(directory.cleanup)
        cls.directory = directory.name
        cls.wanted = building.write(cls.directory)

    def test_what_is_built_is_the_model(self):
        for result in launch.run(2, building.built, self.directory, self.wanted):
            for one, other in result.pop("losses"):
                self.assertEqual(one, other)
            self.assertTrue(result.pop("tied"))
            self.assertFalse(result.pop("grad"))
            for name, differences in result.items():
                self.assertEqual(differences, [], name)

    def test_a_function_initializes(self):
        results = launch.run(2, building.initialized_by_function)
        for result in results:
            self.assertEqual(result["called"], ["Linear", "Module", "Positions"])
            self.assertEqual(result["weight"], results[0]["weight"])
            self.assertEqual(result["angles"], [2.0] * 4)
            self.assertTrue(result["own"])

    def test_what_cannot_be_built_is_named(self):
        expected = {
            "missing": r"blocks\.2\.self_attn\.in_proj_weight: expected \[72, 24\], found none",
            "unexpected": "key more: the model has none",
            "misshaped": r"key seen\.weight: expected \[24\], found \[25\]",
            "untied": r"keys embed\.weight and head\.weight: the model ties them",
            "whole": r"key seen\.weight: expected a float type, found I32",
            "broken": r"broken\.safetensors: no safetensors file",
            "outside": "expected a file's name without a path",
            "nowhere": "no file or directory",
            "nobody": r"parameter blocks\.0\.mix is on the meta device and 49 of its 49 elements",
            "half done": r"parameter \S+ is on the meta device and \d+ of its",
            "buffer": r"buffer turn\.angles is on the meta device",
            "real": "this one has values",
        }
        results = launch.run(2, building.refused, self.directory)
        for rank, said in enumerate(results):
            for name, text in expected.items():
                self.assertRegex(said[name], text)
            self.assertIn("rank 1 has no luck" if rank == 1 else "another rank", said["one rank"])

    def test_never_more_than_a_unit_beside_the_shard(self):
        # A unit is 12.5 MiB, the model 100.
        for result in launch.run(2, building.memory, self.directory):
            for way, figures in result.items():
                if way != "real":
                    self.assertLess(figures["peak"], 12.5 + 12, result)
                self.assertLess(figures["kept"], 12, (way, result))


if __name__ == "__main__":
    unittest.main()
