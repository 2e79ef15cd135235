"""The bench-only environment .bench-venv: the peers on top of the very PyTorch of .venv."""

from __future__ import annotations

import sys
from pathlib import Path

from environment import Environment
from result import ROOT

# DeepSpeed would compile its operators for a GPU otherwise.
PEERS = Environment(
    ".bench-venv", ROOT / "bench" / "requirements.txt", variables=(("DS_BUILD_OPS", "0"),)
)


def ensure(torch_python: Path = ROOT / ".venv" / "bin" / "python") -> Path:
    """Makes the environment if it is not ready (a minute and the network); its interpreter.

    Leaves with one line if there is no PyTorch yet or pip cannot install the peers.
    """
    if not PEERS.ready() and not torch_python.exists():
        sys.exit(f"{torch_python} is not there: run `make setup` first")
    return PEERS.ensure(torch_python, share_packages=True)
