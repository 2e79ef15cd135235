#!/usr/bin/env python3
"""One rank calls alone what all have to: an error that names the call and the ranks, no hang."""

import tempfile
import unittest

import alone
import launch
import torch

torch.set_num_threads(1)  # before ranks are forked: the tests share few cores


def _named(name):
    return name.removesuffix(" of the module")


class AloneTest(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = directory.name

    def _run(self, cases):
        return launch.run(2, alone.alone, self.directory, cases)

    def test_the_others_go_on(self):
        for result in self._run([(name, "forward") for name in alone.CALLS]):
            for (name, _), (said, seconds) in result.items():
                if name == "optimizer step":
                    self.assertIn("rank 1: a training pass after the one that was called", said)
                else:
                    self.assertIn(f"rank 0 wants {_named(name)}", said)
                    self.assertIn("rank 1 wants a training pass", said)
                self.assertLess(seconds, 15)

    def test_the_others_have_ended(self):
        left, ended = self._run([(name, "end") for name in alone.CALLS])
        for (name, _), (said, seconds) in left.items():
            # Whichever is seen first, the farewell or that the connection is closed.
            self.assertIn(f"rank 0 waits in {_named(name)}", said)
            self.assertRegex(said, "for rank 1, which has ended|lost contact with rank 1")
            self.assertLess(seconds, 15)
        self.assertEqual({said for said, _ in ended.values()}, {"nothing"})

    def test_the_others_sleep(self):
        for result in self._run([("save_checkpoint", "sleep"), ("optimizer step", "sleep")]):
            for (name, _), (said, seconds) in result.items():
                self.assertRegex(said, rf"rank 0 has waited \d+ s in {name}.* for rank 1")
                self.assertLess(seconds, 20)

    def test_in_the_middle_of_a_pass(self):
        said, _ = launch.run(2, alone.in_between, self.directory)
        for name, text in zip(alone.CALLS, said, strict=True):
            self.assertRegex(text, "before the backward|between a forward and its backward", name)


if __name__ == "__main__":
    unittest.main()
