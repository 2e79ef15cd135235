#!/usr/bin/env python3
"""The Trainer of transformers over thinwire does what it does by itself, on two ranks."""

import tempfile
import unittest

import hf_packages
import launch
import torch

torch.set_num_threads(1)  # before ranks are forked: the tests share few cores


@hf_packages.needed
class TrainerTest(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = directory.name

    def train(self, config, accumulation, decay=0.0):
        import hf_trainer

        arguments = (self.directory, config, accumulation, decay)
        return launch.run(2, hf_trainer.train, *arguments, timeout=200)

    def close(self, got, expected, relative, names):
        for rank, (mine, theirs) in enumerate(zip(got, expected, strict=True)):
            for name in names:
                self.assertEqual(len(mine[name]), len(theirs[name]), name)
                for a, b in zip(mine[name], theirs[name], strict=True):
                    self.assertLessEqual(abs(a - b), relative * abs(b), (rank, name))

    def test_zero3_trains_as_without(self):
        for accumulation in (1, 4):
            with self.subTest(accumulation=accumulation):
                got = self.train("zero3", accumulation)
                self.assertEqual(got[0]["engine"], "thinwire.hf.engine")
                expected = self.train("none", accumulation)
                self.close(got, expected, 1e-5, ("losses", "evaluated"))
                self.close(got, expected, 1e-4, ("norms",))
                # As with DeepSpeed, whose engine has moved the schedule on when rates are logged.
                self.assertEqual(got[0]["rates"][:-1], expected[0]["rates"][1:])

    def test_the_trainers_own_optimizer(self):
        # Two groups, decayed and not, and its schedule outside of the engine.
        got, expected = self.train("zero2", 2, 0.1), self.train("none", 2, 0.1)
        self.close(got, expected, 1e-5, ("losses", "evaluated", "rates"))

    def test_zeropp(self):
        got, expected = self.train("zero++", 1), self.train("none", 1)
        self.close(got, expected, 0.01, ("losses", "evaluated"))
        self.assertNotEqual(got[0]["losses"], expected[0]["losses"])  # it is quantized

    def test_save_resume_generate(self):
        import hf_trainer

        saved = launch.run(2, hf_trainer.save, self.directory, timeout=200)
        for result in saved:
            self.assertTrue(result["same"], "what was saved is not the model")
            self.assertEqual(*result["generated"])
        resumed = launch.run(2, hf_trainer.resume, self.directory, timeout=200)
        for before, after in zip(saved, resumed, strict=True):
            self.assertEqual(len(before["losses"]), 6)
            self.assertEqual(before["losses"], after)  # the log of the first four comes along


if __name__ == "__main__":
    unittest.main()
