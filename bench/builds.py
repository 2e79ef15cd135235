"""Where the programs are that benchmarks run, and what they say."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from result import ROOT


def folder_with(binaries: Sequence[str], named: Path | None) -> Path:
    """`named`, else build/release if the benchmarks are in it, else the newest build with them."""
    depth = len(Path(binaries[0]).parts)
    folders = (
        [named]
        if named
        else sorted(
            (path.parents[depth - 1] for path in ROOT.glob(f"build/*/{binaries[0]}")),
            key=lambda path: (path.name == "release", (path / binaries[0]).stat().st_mtime),
        )
    )
    if not folders or not all((folders[-1] / name).exists() for name in binaries):
        sys.exit(f"no {' and '.join(binaries)} in {named or 'build/*'}: run `make build` first")
    return folders[-1]


def json_lines(binary: Path, *arguments: str) -> list[dict[str, Any]]:
    """What the program prints as lines of JSON, among lines for people; it must end well."""
    job = subprocess.run([str(binary), *arguments], stdout=subprocess.PIPE, text=True, check=False)
    if job.returncode != 0:
        sys.exit(f"{' '.join([binary.name, *arguments])} failed with exit code {job.returncode}")
    return [json.loads(line) for line in job.stdout.splitlines() if line.startswith("{")]


def project_python() -> Path:
    """The interpreter of .venv."""
    python = ROOT / ".venv" / "bin" / "python"
    if not python.exists():
        sys.exit(f"{python} is not there: run `make setup` first")
    return python
