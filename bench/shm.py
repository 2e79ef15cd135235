#!/usr/bin/env python3
"""Two ranks of one machine: shared memory against Gloo and against one memcpy, by size of message.

python3 bench/shm.py           # 5 rounds of each way in turn, saved; an idle machine
python3 bench/shm.py --quick   # 1 round; nothing is saved

Of each the best round counts, since neighbours only ever slow one down. `copy` is memcpy from one
buffer to another in one process, which is what a transport comes to that copies once on one core.
"""

from __future__ import annotations

import argparse
import socket
import sys
from pathlib import Path
from typing import Any

import builds
import result

BINARY = "launch_near_transport_bench"
WAYS = ("gloo", "shared", "copy")

Row = dict[str, Any]


def run(binary: Path, way: str, repeats: int) -> list[Row]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    return builds.json_lines(binary, way, str(repeats), str(port))


def measure(binary: Path, rounds: int) -> list[Row]:
    best: dict[tuple[str, int], Row] = {}
    for number in range(rounds):
        for way in WAYS:
            print(f"round {number + 1} of {rounds}: {way}", flush=True)
            for row in run(binary, way, 5):
                kept = best.setdefault((way, row["kib"]), row)
                kept["one_way_us"] = min(kept["one_way_us"], row["one_way_us"])
                kept["mib_per_s"] = max(kept["mib_per_s"], row["mib_per_s"])
    return list(best.values())


def ratios(rows: list[Row]) -> dict[int, dict[str, float]]:
    """Of throughputs, by KiB: how near shared memory is to one copy, and a copy to Gloo."""
    speed = {(row["way"], row["kib"]): row["mib_per_s"] for row in rows}
    return {
        kib: {
            f"{one} / {other}": speed[one, kib] / speed[other, kib]
            for one, other in (("shared", "gloo"), ("shared", "copy"), ("copy", "gloo"))
            if (one, kib) in speed and (other, kib) in speed
        }
        for kib in dict.fromkeys(row["kib"] for row in rows)
    }


def bars_of(rows: list[Row]) -> list[result.Bar]:
    one_way = {(row["way"], row["kib"]): row["one_way_us"] for row in rows}
    faster = ratios(rows)[16384]["shared / gloo"]
    return [
        result.at_least("16 MiB: throughput over Gloo's", faster, 4),
        result.at_most("64 KiB: us one way", one_way["shared", 64], 50),
    ]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--build", type=Path, help="folder of the build; default: build/release")
    parser.add_argument("--quick", action="store_true", help="some seconds; nothing is saved")
    args = parser.parse_args()
    folder = builds.folder_with((BINARY,), args.build)
    rows = measure(folder / BINARY, 1 if args.quick else 5)
    for row in rows:
        print(
            f"{row['way']:7} {row['kib']:6} KiB  {row['one_way_us']:8.1f} us one way  "
            f"{row['mib_per_s']:6.0f} MiB/s"
        )
    for kib, found in ratios(rows).items():
        shown = ", ".join(f"{name} {ratio:.2f}" for name, ratio in found.items())
        print(f"{kib:14} KiB  {shown}")
    made = result.make(
        "shm", None, "real", None, bars_of(rows), build=folder.resolve().name, rows=rows
    )
    result.finish(made, None if args.quick else "shm")
    return 0


if __name__ == "__main__":
    sys.exit(main())
