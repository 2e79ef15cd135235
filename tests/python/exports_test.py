#!/usr/bin/env python3
"""save_16bit_model: what plain torch loads from it, and what is left when it fails."""

import tempfile
import unittest

import exports
import launch
import torch

torch.set_num_threads(1)  # before ranks are forked: the tests share few cores


class ExportsTest(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = directory.name

    def test_plain_torch_loads_it(self):
        result = launch.run(2, exports.exported, self.directory)[0]
        self.assertEqual(result.pop("types"), ["torch.bfloat16", "torch.float32", "None"])
        self.assertEqual(result.pop("metadata"), {"format": "pt", "head.weight": "embed.weight"})
        self.assertEqual(result.pop("bf16 type"), "torch.bfloat16")
        self.assertEqual(result.pop("fp16 type"), "torch.float16")
        self.assertEqual({name for name, value in result.items() if not value}, set())

    def test_several_files(self):
        for result in launch.run(2, exports.sharded, self.directory):
            self.assertIn("model.safetensors.index.json", result["files"])
            self.assertIn(
                f"model-00001-of-{len(result['files']) - 1:05}.safetensors", result["files"]
            )
            self.assertGreater(len(result["files"]), 3)
            self.assertTrue(result["same"])
            self.assertEqual(result["then"], ["model.safetensors"])

    def test_a_failed_export_leaves_the_old_file(self):
        results = launch.run(2, exports.troubled, self.directory)
        for rank, result in enumerate(results):
            name, size, *full = result["said"][:-1]
            self.assertIn("a name that ends in .safetensors, found 'pytorch_model.bin'", name)
            self.assertIn("max_shard_size: expected bytes or text", size)
            for text in full:
                wanted = r"model\S*: \d+ bytes wanted, \d+ free" if rank == 0 else "another rank"
                self.assertRegex(text, wanted)
            self.assertEqual(result["said"][-1], "nothing")
            self.assertEqual(result["left"], ["model.safetensors"])
        self.assertTrue(results[0]["kept"])


if __name__ == "__main__":
    unittest.main()
