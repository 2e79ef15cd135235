#!/usr/bin/env python3
"""What a user meets without a compiler, or with another torch than the engine was built for."""

import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import thinwire.build

_TRAIN = """
import torch
import thinwire
config = {"optimizer": {"type": "Adam", "params": {"lr": 0.1}}, "zero_optimization": {"stage": 3}}
engine, *_ = thinwire.initialize(model=torch.nn.Linear(4, 4), config=config)
losses = []
for _ in range(3):
    loss = engine(torch.ones(2, 4)).square().mean()
    engine.backward(loss)
    engine.step()
    losses.append(loss.item())
assert losses[2] < losses[0], losses
"""
_OTHER_TORCH = """
import importlib.metadata
importlib.metadata.version = lambda name: "9.9.1"
import thinwire
thinwire.initialize
"""
_BROKEN = """
import sys
sys.modules["thinwire._native"] = None
import thinwire
thinwire.initialize
"""


def run(script, **more):
    environment = os.environ | more
    return subprocess.run(
        [sys.executable, "-c", script],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


class InstalledTest(unittest.TestCase):
    def test_nothing_is_compiled_at_run_time(self):
        with tempfile.TemporaryDirectory() as nothing:
            done = run(_TRAIN, PATH=nothing, CUDA_HOME=nothing, HOME=nothing)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(list(Path(nothing).iterdir()), [])

    def test_another_torch_is_one_clear_sentence(self):
        done = run(_OTHER_TORCH)
        self.assertEqual(
            done.stderr.splitlines()[-1],
            f"ImportError: thinwire {thinwire.build.__version__} was built for torch "
            f"{thinwire.build.TORCH_VERSION} and finds torch 9.9.1: build it for this one with "
            "`pip install --no-build-isolation --no-deps .` in its sources",
        )

    def test_an_engine_that_does_not_load_says_the_first_cause(self):
        said = run(_BROKEN).stderr
        self.assertIn("thinwire._native", said.splitlines()[-1])
        self.assertNotIn("During handling", said)

    def test_info_tells_what_was_built(self):
        done = subprocess.run(
            [sys.executable, "-m", "thinwire.info"], capture_output=True, text=True, check=True
        )
        for word in (thinwire.build.__version__, "torch", "instruction sets here", "gloo"):
            self.assertIn(word, done.stdout)


if __name__ == "__main__":
    unittest.main()
