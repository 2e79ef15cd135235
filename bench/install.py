#!/usr/bin/env python3
"""How long `pip install .` takes in an environment that has nothing, and what an import costs.

  python3 bench/install.py      # five minutes; saves the result

The committed tree is exported to an empty folder and installed into a new virtual environment. pip
makes an isolated one to build in, with PyTorch, and installs PyTorch again beside thinwire.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import result

_IMPORT = """
import time
start = time.perf_counter()
import torch
torch_there = time.perf_counter()
import thinwire
thinwire.initialize
print(torch_there - start, time.perf_counter() - torch_there)
"""
_TRAIN = """
import torch
import thinwire
config = {"optimizer": {"type": "SGD", "params": {"lr": 0.1}}, "zero_optimization": {"stage": 3}}
engine, *_ = thinwire.initialize(model=torch.nn.Linear(4, 4), config=config)
losses = []
for _ in range(10):
    loss = engine(torch.ones(2, 4)).square().mean()
    engine.backward(loss)
    engine.step()
    losses.append(loss.item())
assert losses[-1] < losses[0], losses
"""
_IMPORTS = 5


def export(folder: Path) -> None:
    """The committed files, as a release would have them."""
    archive = subprocess.check_output(["git", "-C", str(result.ROOT), "archive", "HEAD"])
    subprocess.run(["tar", "-x", "-C", str(folder)], input=archive, check=True)


def install(source: Path, environment: Path) -> float:
    """Seconds of `pip install .`; leaves with pip's words if it fails."""
    subprocess.run([sys.executable, "-m", "venv", str(environment)], check=True)
    begin = time.perf_counter()
    done = subprocess.run(
        [str(environment / "bin" / "pip"), "install", "."],
        cwd=source,
        # A second build on this machine would be quick for a reason that a new one has not.
        env={**os.environ, "CCACHE_DISABLE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        sys.exit(f"{done.stdout}{done.stderr}pip install . failed")
    return time.perf_counter() - begin


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        source, environment = Path(folder, "source"), Path(folder, "environment")
        source.mkdir()
        export(source)
        seconds = install(source, environment)
        print(f"pip install . took {seconds:.0f} s", flush=True)

        def python(script: str) -> str:
            command = [str(environment / "bin" / "python"), "-c", script]
            return subprocess.check_output(command, cwd=folder, text=True)

        python(_TRAIN)
        times = [[float(part) for part in python(_IMPORT).split()] for _ in range(_IMPORTS)]
    torch_s, ours_s = (statistics.median(part) for part in zip(*times, strict=True))
    print(f"import torch {torch_s:.2f} s, thinwire {ours_s:.2f} s more")
    made = result.make(
        "install",
        None,
        "logical",
        None,
        [
            result.at_most("pip install . into an empty environment, seconds", seconds, 300.0),
            result.at_most("import thinwire, seconds beyond torch's own", ours_s, 1.0),
        ],
        import_torch_s=round(torch_s, 3),
    )
    result.finish(made, "install")
    return 0


if __name__ == "__main__":
    sys.exit(main())
