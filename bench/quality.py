#!/usr/bin/env python3
"""What a recipe does to the loss, by pairs: the seed moves the loss of a small model by 1 % and
more, so each branch is trained twice from one checkpoint on the same data, with and without it.

  python3 bench/quality.py --recipe zero++            # about 15 minutes on two cores
  python3 bench/quality.py --recipe zero++ --quick    # two short branches; nothing is saved

The base is plain ZeRO-3 in bf16, trained past the steep part. A branch goes on from its checkpoint
with other data; the gap is the relative difference of the losses on unseen text. The floor is the
gap of an uncompressed branch whose sums are rounded otherwise (fp32 on the wire): what any change
of the last bits does. The bar holds if the upper 95 % bound of the mean gap (Student's t) is below.
"""

from __future__ import annotations

import argparse
import math
import shutil
import statistics
import sys
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import result
from cluster import LogicalCluster
from trainer import Config, Model, corpus, train

# 2.4 M parameters on the bytes of real text.
_MODEL = Model(192, 5, 6, 6, 512, 257, 128, micro_batch=2)
_HOSTS, _RANKS = 2, 2
_PLAIN = "zero3"
_BARS = {"zero++": 0.25}
# Student's t, one-sided 95 %, by degrees of freedom.
_T95 = {1: 6.31, 2: 2.92, 3: 2.35, 4: 2.13, 5: 2.02, 6: 1.94, 7: 1.89, 8: 1.86, 9: 1.83, 11: 1.80}


@dataclass(frozen=True)
class Study:
    """The lengths of a study, and where it works."""

    base_steps: int
    branch_steps: int
    branches: int
    evaluation_batches: int
    folder: Path
    data: Path


def config_of(study: Study, name: str, recipe: str, seed: int, steps: int) -> Config:
    """A run of `steps` steps in all; every run has the schedule of the whole study."""
    config = _MODEL.config(study.data, study.folder / name, recipe, steps)
    config["training"] |= {
        "seed": seed,
        "warmup_steps": 20,
        "floor_ratio": 1.0,  # a constant rate: a branch goes on as the base would
        "evaluate_every": steps,
        "evaluation_batches": study.evaluation_batches,
    }
    return config


def run(study: Study, config: Config, resume: bool) -> float:
    """Trains to the end; the loss on unseen text."""
    with LogicalCluster(_HOSTS, 0) as cluster:
        done = train(cluster, config, _RANKS, 1, 3600, resume=resume)
    return float(done.evaluations[-1]["evaluation_loss"])


def branch(study: Study, name: str, recipe: str, seed: int, wire: str = "compute") -> float:
    """Goes on from the base's checkpoint with the data of `seed`."""
    steps = study.base_steps + study.branch_steps
    config = config_of(study, name, recipe, seed, steps)
    config["parallel"]["wire"] = wire
    checkpoint = f"step-{study.base_steps}"
    target = study.folder / name / checkpoint
    shutil.rmtree(target.parent, ignore_errors=True)
    shutil.copytree(study.folder / "base" / checkpoint, target)
    loss = run(study, config, resume=True)
    shutil.rmtree(target.parent)
    return loss


def upper_bound(gaps: list[float]) -> float:
    """The upper 95 % bound of the mean."""
    freedom = len(gaps) - 1
    t = _T95.get(freedom) or min(v for k, v in _T95.items() if k <= freedom)
    return statistics.mean(gaps) + t * statistics.stdev(gaps) / math.sqrt(len(gaps))


def measure(study: Study, recipe: str) -> dict[str, Any]:
    """All branches; gaps in percent."""
    base = config_of(study, "base", _PLAIN, 1, study.base_steps)
    base["output"]["save_last"] = True
    base_loss = run(study, base, resume=False)
    print(f"base after {study.base_steps} steps: loss on unseen text {base_loss:.4f}", flush=True)
    rows = []
    for i in range(study.branches):
        seed = 1000 + i
        plain = branch(study, "plain", _PLAIN, seed)
        coded = branch(study, "coded", recipe, seed)
        other = branch(study, "floor", _PLAIN, seed, wire="fp32")
        row = {
            "plain": plain,
            "coded": coded,
            "gap_percent": 100 * (coded / plain - 1),
            "floor_percent": 100 * (other / plain - 1),
        }
        rows.append(row)
        print(
            f"branch {i + 1} of {study.branches}: {plain:.4f} plain, {coded:.4f} {recipe}: gap "
            f"{row['gap_percent']:+.3f} %, floor {row['floor_percent']:+.3f} %",
            flush=True,
        )
    return {"base_loss": base_loss, "branches": rows}


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--recipe", default="zero++", help="any of docs/recipes.md")
    parser.add_argument("--branches", type=int, default=8)
    parser.add_argument("--quick", action="store_true", help="under a minute; nothing is saved")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        data = corpus(folder / "text.txt")
        study = Study(400, 120, args.branches, 32, folder, data)
        if args.quick:
            study = replace(study, base_steps=20, branch_steps=5, branches=2, evaluation_batches=4)
        measured = measure(study, args.recipe)
    gaps = [row["gap_percent"] for row in measured["branches"]]
    floors = [row["floor_percent"] for row in measured["branches"]]
    bound = None if args.quick else upper_bound(gaps)
    made = result.make(
        "quality",
        _MODEL.describe(),
        "logical",
        None,
        [
            result.at_most(
                f"{args.recipe}: upper 95 % bound of the gap, percent",
                bound,
                _BARS.get(args.recipe, 0.25),
            )
        ],
        recipe=args.recipe,
        topology=f"{_HOSTS} x {_RANKS}",
        base_steps=study.base_steps,
        branch_steps=study.branch_steps,
        mean_gap_percent=round(statistics.mean(gaps), 4),
        mean_floor_percent=round(statistics.mean(floors), 4),
        floor_spread_percent=round(statistics.stdev(floors), 4),
        **measured,
    )
    result.finish(made, None if args.quick else f"quality-{args.recipe}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
