#!/usr/bin/env python3
"""Runs the commands of the documentation as a reader would: each page in an empty folder, in order.

In a page, a fenced block right below one of these lines takes part:
    <!-- run -->         its commands are run by bash, and must succeed
    <!-- file: NAME -->  it is written to NAME
THINWIRE_SOURCE is the folder of the checkout. A page with the line
    <!-- needs: NAMES -->  is left out, with a line that says so, without these Python packages
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
_NEEDS = re.compile(r"^<!-- needs: (.+) -->$", re.MULTILINE)
_FIND = "import importlib.util as u, sys; print(*[n for n in sys.argv[1:] if not u.find_spec(n)])"
_SKIPPED = 77  # the exit status that ctest takes for this
_TIMEOUT_S = 200  # many times what an idle machine takes


def steps(page):
    """The marked blocks of a page: (name of the file or None, text)."""
    marked = [(match.group(2), match.group(3)) for match in _MARKED.finditer(page)]
    if len(marked) != len(re.findall(r"^<!-- (?:run|file:)", page, re.MULTILINE)):
        raise ValueError("a <!-- run --> or <!-- file: --> line without a fenced block below it")
    return marked


def missing(page, environment):
    """The Python packages that the page needs and python3 does not have, as text."""
    needs = _NEEDS.search(page)
    if not needs:
        return ""
    command = ["python3", "-c", _FIND, *needs[1].split()]
    return subprocess.check_output(command, env=environment, text=True).strip()


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
    path = f"{options.bin.resolve()}:{os.environ['PATH']}"
    environment = dict(os.environ, PATH=path, THINWIRE_SOURCE=str(ROOT))
    ran = left_out = 0
    for page in options.pages:
        without = missing(page.read_text(), environment)
        if without:
            print(f"{page.name} is left out: python3 has no {without}")
            left_out += 1
            continue
        error = run_page(page, environment)
        if error:
            sys.exit(f"{page}: {error}")
        ran += len(steps(page.read_text()))
    if ran == 0 and left_out > 0:
        sys.exit(_SKIPPED)
    if ran == 0:
        sys.exit("no page has a marked block: nothing was tested")


if __name__ == "__main__":
    main()
