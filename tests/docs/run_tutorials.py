#!/usr/bin/env python3
"""Runs the commands of the documentation as a reader would: each page in an empty folder, in order.

In a page, a fenced block right below one of these lines takes part:
    <!-- run -->         its commands are run by bash, and must succeed
    <!-- file: NAME -->  it is written to NAME
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_MARKED = re.compile(
    r"^<!-- (?:(run)|file: (\S+)) -->\n```\w*\n(.*?)^```$", re.MULTILINE | re.DOTALL
)
_TIMEOUT_S = 200  # many times what an idle machine takes


def steps(page):
    """The marked blocks of a page: (name of the file or None, text)."""
    marked = [(match.group(2), match.group(3)) for match in _MARKED.finditer(page)]
    if len(marked) != len(re.findall(r"^<!-- (?:run|file:)", page, re.MULTILINE)):
        raise ValueError("a <!-- run --> or <!-- file: --> line without a fenced block below it")
    return marked


def run_page(page, environment):
    """Runs the page's steps in an empty folder; the error as text, or None."""
    with tempfile.TemporaryDirectory() as folder:
        for name, text in steps(page.read_text()):
            if name is not None:
                Path(folder, name).write_text(text)
                continue
            print(text, end="", flush=True)
            command = ["bash", "-euo", "pipefail", "-c", text]
            try:
                status = subprocess.run(
                    command,
                    cwd=folder,
                    env=environment,
                    timeout=_TIMEOUT_S,
                    stdin=subprocess.DEVNULL,
                ).returncode
            except subprocess.TimeoutExpired:
                return f"took longer than {_TIMEOUT_S} s:\n{text}"
            if status != 0:
                return f"exit status {status}:\n{text}"
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bin", type=Path, required=True, help="folder of the thinwire program")
    parser.add_argument("pages", nargs="*", type=Path, default=sorted((ROOT / "docs").glob("*.md")))
    options = parser.parse_args()
    environment = dict(os.environ, PATH=f"{options.bin.resolve()}:{os.environ['PATH']}")
    ran = 0
    for page in options.pages:
        error = run_page(page, environment)
        if error:
            sys.exit(f"{page}: {error}")
        ran += len(steps(page.read_text()))
    if ran == 0:
        sys.exit("no page has a marked block: nothing was tested")


if __name__ == "__main__":
    main()
