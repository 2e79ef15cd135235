"""Environments with what benchmarks compare with, apart from what the project itself needs."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from result import ROOT


@dataclass(frozen=True)
class Environment:
    """A virtual environment in the project's folder, made when it is first asked for."""

    name: str
    requirements: Path
    variables: tuple[tuple[str, str], ...] = ()  # for pip

    @property
    def folder(self) -> Path:
        return ROOT / self.name

    @property
    def _stamp(self) -> Path:
        return self.folder / "installed-requirements.txt"

    def ready(self) -> bool:
        """Whether the environment is there, with the versions that are asked for now."""
        wanted = self.requirements.read_text()
        return self._stamp.exists() and self._stamp.read_text() == wanted

    def python(self) -> Path:
        """The interpreter of the environment."""
        return self.folder / "bin" / "python"

    def ensure(self, base: Path = Path(sys.executable), share_packages: bool = False) -> Path:
        """Makes the environment if it is not ready; its interpreter.

        `share_packages`: it sees those of `base`. Leaves with one line if pip cannot install.
        """
        if self.ready():
            return self.python()
        print(f"installing the peers into {self.name} (once)", flush=True)
        subprocess.run([base, "-m", "venv", "--clear", self.folder], check=True)
        if share_packages:
            # pip sees the packages behind this line as installed: they are not fetched again, and
            # peers and thinwire use the same.
            shared = self._packages_of(base)
            Path(self._packages_of(self.python()), "shared-packages.pth").write_text(shared + "\n")
        done = subprocess.run(
            [
                *(self.python(), "-m", "pip", "install", "--disable-pip-version-check"),
                *("-r", self.requirements),
            ],
            env={**os.environ, **dict(self.variables)},
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            last = (done.stderr.strip() or done.stdout.strip()).splitlines()[-1]
            sys.exit(f"pip could not install {self.requirements.relative_to(ROOT)}: {last}")
        self._stamp.write_text(self.requirements.read_text())
        return self.python()

    @staticmethod
    def _packages_of(python: Path) -> str:
        command = [python, "-c", "import sysconfig; print(sysconfig.get_paths()['purelib'])"]
        return subprocess.check_output(command, text=True).strip()
