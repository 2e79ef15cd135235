#!/usr/bin/env python3
"""A resumed run goes on bit for bit; other numbers of ranks load; errors are named."""

import tempfile
import unittest

import checkpoints
import launch
import torch

torch.set_num_threads(1)  # before ranks are forked: the tests share few cores


class CheckpointsTest(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = directory.name

    def test_resume_is_bitwise(self):
        for rank, result in enumerate(launch.run(2, checkpoints.resume, self.directory)):
            for name in ("losses", "rates", "paths"):
                self.assertEqual(*result[name], name)
            if rank == 0:  # whose buffers are those of all ranks then
                self.assertEqual(*result["buffers"])
            self.assertEqual(result["client"], {"epoch": 4})
            self.assertEqual(result["steps"], 6)

    def test_other_numbers_of_ranks_load(self):
        saved = launch.run(3, checkpoints.save, self.directory)
        loaded = launch.run(1, checkpoints.load, self.directory)
        self.assertEqual(set(saved), set(loaded))

    def test_a_rank_that_saves_alone_is_an_error(self):
        for text in launch.run(2, checkpoints.alone, self.directory):
            self.assertIn("rank", text)
            self.assertIn("save_checkpoint", text)

    def test_what_cannot_be_is_named(self):
        none, missing, state, place = launch.run(1, checkpoints.unusable, self.directory)[0]
        self.assertEqual(none, "(None, {})")
        self.assertIn("missing holds no complete checkpoint", missing)
        self.assertIn("client_state", state)
        self.assertIn("/proc/nowhere", place)


if __name__ == "__main__":
    unittest.main()
