#!/usr/bin/env python3
"""Whether thinwire trains as DistributedDataParallel does, at every stage, model by model.

  python3 bench/parity.py             # W = 1, 2, 3, 4, 6; ten minutes; saves the result
  python3 bench/parity.py --quick     # two models, W = 2, five steps; nothing is saved

Hugging Face models with random weights, and SmolLM2-135M (W = 2), under SGD without codecs. In fp32
the reference is DDP: its sums are in another order, so losses and weights agree to rounding. In
bf16 it is thinwire's own stage 0, and they agree bit for bit.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import builds
import result
from cluster import LogicalCluster
from trainer import python_package

_MODELS = "llama,qwen2,gpt2,opt,bert,t5"
_WORLDS = (1, 2, 3, 4, 6)
_LARGE, _LARGE_WORLD = "smollm2-135m", 2
_TIMEOUT_S = 1800.0

Row = dict[str, Any]


def run(world: int, models: str, steps: int, python: Path) -> list[Row]:
    """What is farthest apart on any rank: a row per model and number type."""
    argv = [str(python), str(Path(__file__).with_name("parity_train.py"))]
    argv += ["--steps", str(steps), "--models", models]
    path = f"{python_package()}:{result.ROOT / 'tests' / 'python'}"  # its models are the tests'
    env = {"PYTHONPATH": path, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    with LogicalCluster(1, 0) as cluster, tempfile.TemporaryDirectory() as logs:
        job = cluster.run(cluster.rank_tasks(argv, world, env), _TIMEOUT_S, Path(logs))
        if job.code != 0:
            sys.exit(f"{job.failure()}\n{world} ranks ended with exit code {job.code}")
        ranks = [
            [json.loads(line) for line in log.read_text().splitlines() if line.startswith("{")]
            for log in job.logs
        ]
    return [worst(world, rows) for rows in zip(*ranks, strict=True)]


def worst(world: int, rows: tuple[Row, ...]) -> Row:
    """Of one model and number type, over the ranks."""
    farthest = {key: max(row[key] for row in rows) for key in ("loss", "weight")}
    return rows[0] | {"ranks": world} | farthest


def bars_of(rows: list[Row]) -> list[result.Bar]:
    def largest(dtype: str, key: str) -> float:
        return max(float(row[key]) for row in rows if row["dtype"] == dtype)

    return [
        result.at_most("fp32 beside DDP: losses, relative", largest("fp32", "loss"), 1e-5),
        result.at_most("fp32 beside DDP: weights at the end", largest("fp32", "weight"), 1e-6),
        result.at_most("bf16 beside stage 0: losses", largest("bf16", "loss"), 0.0),
        result.at_most("bf16 beside stage 0: weights at the end", largest("bf16", "weight"), 0.0),
    ]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--quick", action="store_true", help="nothing is saved")
    args = parser.parse_args()
    jobs = [(world, _MODELS) for world in _WORLDS] + [(_LARGE_WORLD, _LARGE)]
    if args.quick:
        args.steps, jobs = 5, [(2, "llama,t5")]
    python = builds.project_python()
    rows = []
    for world, models in jobs:
        for row in run(world, models, args.steps, python):
            rows.append(row)
            print(
                f"{row['model']}, {world} ranks, {row['dtype']}, stages {row['stages']}: losses "
                f"{row['loss']:.1e} apart, weights {row['weight']:.1e}",
                flush=True,
            )
    made = result.make(
        "parity",
        "Hugging Face models with random weights (width 16), SmolLM2-135M; SGD",
        "logical",
        None,
        bars_of(rows),
        steps=args.steps,
        versions=result.pinned(
            "torch", "transformers", files=("requirements.txt", "requirements-hf.txt")
        ),
        rows=rows,
    )
    result.finish(made, None if args.quick else "parity")
    return 0


if __name__ == "__main__":
    sys.exit(main())
