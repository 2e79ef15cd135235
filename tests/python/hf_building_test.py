#!/usr/bin/env python3
"""Hugging Face models larger than a rank: from the meta device into the shards."""

import tempfile
import unittest

import hf_packages
import launch
import torch

torch.set_num_threads(1)  # before ranks are forked: the tests share few cores


@hf_packages.needed
class BuildingTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        import hf_building

        with tempfile.TemporaryDirectory() as directory:
            hf_building.write(directory)
            cls.ranks = launch.run(2, hf_building.all_cases, directory, timeout=200)

    def test_files_give_what_from_pretrained_gives(self):
        for result in self.ranks:
            for name, got in result["loaded"].items():
                with self.subTest(name):
                    self.assertEqual(got["different"], [])
                    self.assertEqual(*got["losses"])

    def test_initialized_as_transformers_does(self):
        for result in self.ranks:
            for name, different in result["initialized"].items():
                with self.subTest(name):
                    self.assertEqual(different, [])

    def test_never_more_than_a_unit_beside_the_shard(self):
        # A unit is 12 MiB at most, the model 60.
        for result in self.ranks:
            for way in ("files", "init"):
                figures = result["memory"][way]
                self.assertLess(figures["peak"], 12 + 8, result["memory"])
                self.assertLess(figures["kept"], 12, result["memory"])


if __name__ == "__main__":
    unittest.main()
