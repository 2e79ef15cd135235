#!/usr/bin/env python3
"""A resumed run goes on bit for bit; other numbers of ranks load; errors are named."""

import math
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
            self.assertEqual(result["client"], {"epoch": 4, "best": math.inf})
            self.assertEqual(result["steps"], 6)

    def test_resume_is_bitwise_with_differences_and_feedback(self):
        for result in launch.run(2, checkpoints.resume_differences, self.directory):
            self.assertEqual(*result["losses"])
            evaluated = result["evaluated"]
            self.assertNotEqual(evaluated["behind"], evaluated["caught up"])
            self.assertAlmostEqual(evaluated["caught up"], evaluated["masters"], places=5)

    def test_other_numbers_of_ranks_load(self):
        saved = launch.run(3, checkpoints.save, self.directory)
        loaded = launch.run(1, checkpoints.load, self.directory)
        self.assertEqual(set(saved), set(loaded))

    def test_a_rank_that_saves_alone_is_an_error(self):
        for text in launch.run(2, checkpoints.alone, self.directory):
            self.assertIn("rank", text)
            self.assertIn("save_checkpoint", text)

    def test_states_of_torch_optimizers_are_saved(self):
        for result in launch.run(2, checkpoints.outside, self.directory):
            for case, (straight, resumed) in result.items():
                self.assertEqual(straight, resumed, case)

    def test_frozen_parameters_come_back_or_stay(self):
        for result in launch.run(2, checkpoints.frozen, self.directory):
            self.assertEqual(*result.pop("loss"))
            self.assertEqual(*result.pop("goes on"))
            self.assertRegex(result.pop("strict"), r"parameter \S+: .*load_module_strict=False")
            self.assertEqual({name for name, right in result.items() if not right}, set())

    def test_a_save_between_micro_batches_holds_the_step_before(self):
        for result in launch.run(2, checkpoints.between_micro_batches, self.directory):
            self.assertEqual(result["saving"], result["straight"])
            self.assertEqual(result["resumed"], result["straight"][4:])
            self.assertEqual(result["steps"], 4)

    def test_other_groups_buffers_and_files_are_named(self):
        for rank, said in enumerate(launch.run(2, checkpoints.others, self.directory)):
            groups, buffer, latest = said
            self.assertIn("settings of 1 parameter groups, expected 2", groups)
            self.assertIn("buffer seen.running_mean: expected 8 bytes, found 4", buffer)
            self.assertIn(f"of rank {rank}/latest is {('missing', 'there')[rank]}", latest)

    def test_what_cannot_be_is_named(self):
        none, missing, state, place = launch.run(1, checkpoints.unusable, self.directory)[0]
        self.assertEqual(none, "(None, {})")
        self.assertIn("missing holds no complete checkpoint", missing)
        self.assertIn("client_state", state)
        self.assertIn("/proc/nowhere", place)


if __name__ == "__main__":
    unittest.main()
