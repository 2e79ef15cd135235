#!/usr/bin/env python3
"""The Trainer gives the same at every stage, saves a plain model there, and keeps fp32 masters."""

import tempfile
import unittest

import hf_packages
import launch
import torch

torch.set_num_threads(1)  # before ranks are forked: the tests share few cores


@hf_packages.needed
class StagesTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        import hf_stages

        with tempfile.TemporaryDirectory() as directory:
            cls.ranks = launch.run(2, hf_stages.stages, directory, timeout=200)

    def test_stages_train_alike(self):
        for result in self.ranks:
            for stage in (0, 1, 2):
                for name in ("losses", "evaluated"):
                    got, expected = result[f"stage {stage}"][name], result["stage 3"][name]
                    self.assertEqual(got, expected, (stage, name))
                    self.assertEqual(len(got), 4)

    def test_what_is_saved_is_the_plain_model(self):
        for result in self.ranks:
            for stage in range(4):
                self.assertTrue(result[f"stage {stage}"]["saved"], stage)

    def test_adapters_are_whole(self):
        shapes = sorted([(2, 16), (2, 16), (16, 2), (8, 2)] * 2)  # q and v of two blocks
        for result in self.ranks:
            for stage in range(4):
                got = result[f"stage {stage}"]["adapter"]
                self.assertTrue(got["tied"], stage)
                self.assertEqual(got["shapes"], shapes, stage)
                self.assertLess(got["bytes beside"], 2000, stage)

    def test_from_pretrained_while_sharded(self):
        for rank, result in enumerate(self.ranks):
            got = result["pretrained"]
            self.assertEqual(len(got["plain"]), 4)
            self.assertEqual(got["sharded"], got["plain"])
            self.assertEqual(got["resumed"], got["plain"])  # the log of the first two comes along
            self.assertTrue(got["saved"])
            self.assertEqual(got["sharded, adapted"], got["plain, adapted"])
            self.assertEqual(len(got["sharded says"]), 1 - rank)
            self.assertEqual(got["plain says"], [])

    def test_masters_are_fp32(self):
        names = {"bf16": "torch.bfloat16", "fp16": "torch.float16"}
        for rank, result in enumerate(self.ranks):
            for kind in ("bf16", "fp16"):
                got = result[kind]
                self.assertEqual(got["computed in"], names[kind])
                self.assertGreater(got["moved"], 0.5, got)
                self.assertTrue(got["saved"])
                self.assertEqual(got["not saved"], ["lm_head.weight"])  # the embedding is it
                if rank == 0:
                    said = f"computed in {kind}, fp32 master weights"
                    self.assertIn(said, got["printed"])

    def test_other_numbers_of_ranks(self):
        import hf_stages

        for world in (1, 3, 4):
            with self.subTest(world=world), tempfile.TemporaryDirectory() as directory:
                for got, expected in launch.run(world, hf_stages.light, directory, timeout=200):
                    self.assertEqual(len(got), 4)
                    for a, b in zip(got, expected, strict=True):
                        self.assertLess(abs(a - b), 1e-5 * abs(b))


if __name__ == "__main__":
    unittest.main()
