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

    def test_files_that_transformers_converts(self):
        for result in self.ranks:
            self.assertRegex(result["refused"], r"mlp\.experts\.gate_up_proj of several keys")

    def test_initialized_as_transformers_does(self):
        for result in self.ranks:
            for name, different in result["initialized"].items():
                with self.subTest(name):
                    self.assertEqual(different, [])

    def test_never_more_than_a_unit_beside_the_shard(self):
        # A unit is 14 MiB at most, the model 85.
        for result in self.ranks:
            for way in ("files", "init"):
                figures = result["memory"][way]
                self.assertLess(figures["peak"], 14 + 8, result["memory"])
                self.assertLess(figures["kept"], 14, result["memory"])

    def test_parts_of_a_model_that_is_made_for_the_trainer(self):
        # A part is 42.5 MiB. On their way are the parameters of a module, several times.
        for rank, result in enumerate(self.ranks):
            for way in ("from_pretrained", "from_config"):
                figures = result["memory"][way]
                mapped = 85 if rank == 0 and way == "from_pretrained" else 0  # the file
                self.assertLess(figures["peak"] - mapped, 42.5 + 28, result["memory"])
                self.assertLess(figures["kept"], 42.5 + 14, result["memory"])
                self.assertLess(figures["taking"], 42.5 + 8, result["memory"])


if __name__ == "__main__":
    unittest.main()
