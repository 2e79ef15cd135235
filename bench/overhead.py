#!/usr/bin/env python3
"""What thinwire adds to the step of a model of 2,000 tiny parameters, against DDP.

  python3 bench/overhead.py             # a minute; saves the result
  python3 bench/overhead.py --quick     # ten seconds; nothing is saved

A layer here computes for microseconds, so whatever an implementation does for each parameter or
module shows. Both are set up in the same processes and take turns of a few dozen steps; a time is
the median of the rounds.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

import builds
import result
from cluster import LogicalCluster
from launch import JobResult
from trainer import python_package

_LAYERS = 1000  # of a weight and a bias each
_WORLDS = (1, 2)
_TIMEOUT_S = 300.0


def run(world: int, rounds: int, steps: int, python: Path, logs: Path) -> dict[str, Any]:
    """Seconds per step of both with `world` ranks: {"ddp": [...], "thinwire": [...]}."""
    argv = [str(python), str(Path(__file__).with_name("overhead_train.py"))]
    argv += ["--layers", str(_LAYERS), "--rounds", str(rounds), "--steps", str(steps)]
    with LogicalCluster(1, 0) as cluster:
        env = {"PYTHONPATH": str(python_package())}
        job: JobResult = cluster.run(cluster.rank_tasks(argv, world, env), _TIMEOUT_S, logs)
    if job.code != 0:
        sys.exit(f"{job.failure()}\n{world} ranks ended with exit code {job.code}")
    lines = [line for line in job.logs[0].read_text().splitlines() if line.startswith('{"ddp"')]
    report: dict[str, Any] = json.loads(lines[-1])
    return report


def row(world: int, times: dict[str, Any]) -> dict[str, Any]:
    """The line of the table."""
    ddp, ours = (statistics.median(times[name]) for name in ("ddp", "thinwire"))
    return {
        "ranks": world,
        "ddp_s": round(ddp, 6),
        "thinwire_s": round(ours, 6),
        "overhead_percent": round(100 * (ours / ddp - 1), 2),
        "ddp_s_all": [round(value, 6) for value in times["ddp"]],
        "thinwire_s_all": [round(value, 6) for value in times["thinwire"]],
    }


def bars_of(rows: list[dict[str, Any]]) -> list[result.Bar]:
    """Less than 5 % more than DDP, whatever the number of ranks."""
    return [
        result.at_most(
            f"2,000 tiny parameters, {r['ranks']} rank{'s' if r['ranks'] > 1 else ''}: "
            "step over DDP's, percent",
            r["overhead_percent"],
            5.0,
        )
        for r in rows
    ]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--steps", type=int, default=40, help="of each, per round")
    parser.add_argument("--quick", action="store_true", help="nothing is saved")
    args = parser.parse_args()
    if args.quick:
        args.rounds, args.steps = 3, 10
    python = builds.project_python()
    with tempfile.TemporaryDirectory() as logs:
        rows = [
            row(world, run(world, args.rounds, args.steps, python, Path(logs))) for world in _WORLDS
        ]
    for each in rows:
        print(
            f"{each['ranks']} ranks: DDP {1000 * each['ddp_s']:.2f} ms, thinwire "
            f"{1000 * each['thinwire_s']:.2f} ms per step, {each['overhead_percent']:+.1f} %"
        )
    made = result.make(
        "overhead",
        f"{_LAYERS} linear layers of 16 x 16 with bias, fp32, AdamW",
        "logical",
        None,
        bars_of(rows),
        rounds=args.rounds,
        steps=args.steps,
        versions=result.pinned("torch"),
        rows=rows,
    )
    result.finish(made, None if args.quick else "overhead")
    return 0


if __name__ == "__main__":
    sys.exit(main())
