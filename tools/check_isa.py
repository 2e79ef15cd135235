#!/usr/bin/env python3
"""No function compiled for one instruction set may replace another's at link time.

A template or inline function in x_isa.cc is a weak symbol: the linker keeps one copy for the whole
program, perhaps the one with AVX-512, which an older processor cannot run. This looks into the
objects of a build; without any it fails.
"""

import argparse
import subprocess
import sys
from pathlib import Path

SHARED_KINDS = "VWu"  # weak data, weak code, unique globals, as nm prints them


def shared_symbols(nm_output):
    """Symbols that other objects could supply or get."""
    rows = (line.split(maxsplit=2) for line in nm_output.splitlines())
    return [row[2] for row in rows if len(row) == 3 and row[1] in SHARED_KINDS]


def check(build):
    objects = sorted(build.rglob("*_isa.cc.o"))
    if not objects:
        return [f"{build}: no *_isa.cc.o: build first"]
    findings = []
    for path in objects:
        command = ["nm", "--demangle", "--defined-only", path]
        output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        name = path.relative_to(build)
        findings += [f"{name}: {symbol} has external linkage" for symbol in shared_symbols(output)]
    return findings


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("build", type=Path, help="a build directory, such as build/dev")
    found = check(parser.parse_args().build)
    print("\n".join(found))
    sys.exit(bool(found))
