#!/usr/bin/env python3
"""Every kernel on every instruction set against a plain loop that moves the same bytes.

python3 bench/codec.py           # 21 rounds, saved; PRESET=release, and an idle machine
python3 bench/codec.py --quick   # 5 rounds; nothing is saved
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import builds
import result

BINARIES = ("kernels_quantize_bench", "kernels_kernels_bench")

# Of the throughput of the plain loop, for each vector instruction set.
_BAR = 0.8

Row = dict[str, Any]


def rows_of(measured: dict[str, Any]) -> list[Row]:
    """A row per kernel and instruction set from the JSON line of one binary."""
    rows = []
    for line in [*measured["bars"], *measured["without_bar"]]:
        kernel, _, isa = line["name"].rpartition(", ")
        rows.append(
            {
                "kernel": kernel,
                "isa": isa,
                "ratio": round(line["value"], 3),
                "gigabytes_per_second": round(line["gigabytes_per_second"], 2),
                "has_bar": "bar" in line,
            }
        )
    return rows


def measure(folder: Path, quick: bool) -> list[Row]:
    """Runs the benchmarks in `folder` one after the other."""
    rows = []
    for name in BINARIES:
        print(f"{name}: running", flush=True)
        (measured,) = builds.json_lines(folder / name, "--json", *(["--quick"] if quick else []))
        rows += rows_of(measured)
    return rows


def bars_of(rows: list[Row]) -> list[result.Bar]:
    """A bar per kernel: the least ratio among the instruction sets that have one."""
    ratios: dict[str, list[float]] = {}
    for row in rows:
        if row["has_bar"]:
            ratios.setdefault(row["kernel"], []).append(row["ratio"])
    return [
        result.at_least(f"{kernel}: of a plain loop's throughput", min(found), _BAR)
        for kernel, found in ratios.items()
    ]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--build", type=Path, help="folder of the build; default: build/release")
    parser.add_argument("--quick", action="store_true", help="under a minute; nothing is saved")
    args = parser.parse_args()
    folder = builds.folder_with(BINARIES, args.build)
    rows = measure(folder, args.quick)
    for row in rows:
        speed, ratio = row["gigabytes_per_second"], row["ratio"]
        print(f"{row['kernel']:32} {row['isa']:7} {speed:6.1f} GB/s  {ratio:5.2f} of a plain loop")
    made = result.make(
        "codec", None, "real", None, bars_of(rows), build=folder.resolve().name, rows=rows
    )
    result.finish(made, None if args.quick else "codec")
    return 0


if __name__ == "__main__":
    sys.exit(main())
