"""The bench-only environment .bench-venv: the peers on top of the very PyTorch of .venv."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from result import ROOT

_VENV = ROOT / ".bench-venv"
_REQUIREMENTS = ROOT / "bench" / "requirements.txt"
_STAMP = _VENV / "installed-requirements.txt"


def ready() -> bool:
    """Whether the environment is there, with the versions that are asked for now."""
    return _STAMP.exists() and _STAMP.read_text() == _REQUIREMENTS.read_text()


def python() -> Path:
    """The interpreter of the environment."""
    return _VENV / "bin" / "python"


def ensure(torch_python: Path = ROOT / ".venv" / "bin" / "python") -> Path:
    """Makes the environment if it is not ready (a minute and the network); its interpreter.

    Leaves with one line if there is no PyTorch yet or pip cannot install the peers.
    """
    if ready():
        return python()
    if not torch_python.exists():
        sys.exit(f"{torch_python} is not there: run `make setup` first")
    print(f"installing the peers into {_VENV.name} (once)", flush=True)
    packages = subprocess.check_output(
        [torch_python, "-c", "import sysconfig; print(sysconfig.get_paths()['purelib'])"], text=True
    ).strip()
    subprocess.run([torch_python, "-m", "venv", "--clear", _VENV], check=True)
    own = subprocess.check_output(
        [python(), "-c", "import sysconfig; print(sysconfig.get_paths()['purelib'])"], text=True
    ).strip()
    # pip sees the packages behind this line as installed, so PyTorch is not fetched again, and
    # peers and thinwire compute with the same library.
    Path(own, "torch-of-the-project.pth").write_text(packages + "\n")
    done = subprocess.run(
        [python(), "-m", "pip", "install", "--disable-pip-version-check", "-r", _REQUIREMENTS],
        # DeepSpeed would compile its operators for a GPU otherwise.
        env={**os.environ, "DS_BUILD_OPS": "0"},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        last = (done.stderr.strip() or done.stdout.strip()).splitlines()[-1]
        sys.exit(f"pip could not install {_REQUIREMENTS.relative_to(ROOT)}: {last}")
    _STAMP.write_text(_REQUIREMENTS.read_text())
    return python()
