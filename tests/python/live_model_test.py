#!/usr/bin/env python3
"""thinwire.infer.from_engine and export_gguf: a trained model answers and is saved for it."""

import tempfile
import unittest

import launch
import live_model
import torch

torch.set_num_threads(1)  # before ranks are forked: the tests share few cores


class LiveModelTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        with tempfile.TemporaryDirectory() as directory:
            cls.ranks = launch.run(2, live_model.all_of_it, directory)

    def test_it_follows_training_in_the_same_memory(self):
        for rank in self.ranks:
            for stage in (1, 3):
                result = rank[f"stage {stage}"]
                self.assertLess(result["before"], 1e-3)
                self.assertGreater(result["not yet"], 0.1)
                self.assertLess(result["after"], 1e-3)
                self.assertLess(result["kept"], 1e-3)
                self.assertLess(result["grew"], 1024)  # KiB

    def test_one_rank_alone(self):
        (said, gap), (elsewhere, nothing) = (rank["alone"] for rank in self.ranks)
        self.assertLess(gap, 0.05)
        self.assertIsNone(nothing)
        self.assertEqual(len(said), 1)
        self.assertIn("an answer is being written", said[0])
        self.assertIn("everywhere=True", elsewhere[0])
        self.assertIn("failed on another rank", elsewhere[1])

    def test_what_is_exported_is_loaded(self):
        result = self.ranks[0]["exported"]
        self.assertLess(result["f32"], 1e-3)
        self.assertLess(result["q8_0"], 0.05)
        for type_ in ("f32", "q8_0"):
            self.assertEqual(result[f"{type_} text"], ([195, 169], "é"))

    def test_what_is_no_such_model(self):
        said, there = self.ranks[0]["refused"]
        self.assertFalse(there)
        for text, words in zip(
            said,
            (
                "tokenizer=: expected",
                "config=: the model has none",
                '"model.layers.2.input_layernorm.weight" is missing',
                "[259, 64] expected by config.json, found [260, 64]",
                "mamba",
                "no tokenizer.json in it",
                "no recipe is called",
            ),
            strict=True,
        ):
            self.assertIn(words, text)


if __name__ == "__main__":
    unittest.main()
