#!/usr/bin/env python3
"""What a recipe does to the loss, by pairs: the seed moves the loss of a small model by 1 % and
more, so each branch is trained twice from one checkpoint on the same data, with and without it.

  python3 bench/quality.py --recipe zero++               # about 10 minutes on two cores
  python3 bench/quality.py --recipe zero++ --variants    # other block sizes and maps: 25 minutes
  python3 bench/quality.py --recipe zero++ --compute fp16
  python3 bench/quality.py --recipe delta4 delta-ternary ternary --model large --folder out/quality
                                                         # an hour; goes on where it was stopped
  python3 bench/quality.py --recipe zero++ --quick       # two short branches; nothing is saved

The base is plain ZeRO-3, trained past the steep part at a constant rate. A branch goes on from
its checkpoint with other data, along the end of a cosine schedule, as real runs end: at a high
rate the loss of any two runs wanders apart by more than a recipe does. The gap is the relative
difference of the losses on unseen text. The floor is the gap of an uncompressed branch whose sums
are rounded otherwise (fp32 on the wire, or bf16 where fp32 is computed): what any change of the
last bits does. The bar holds if the upper 95 % bound of the mean gap (Student's t) is below.
"""

from __future__ import annotations

import argparse
import json
import math
import shutil
import statistics
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import result
from cluster import LogicalCluster
from trainer import Config, Model, corpus, train

# 2.3 M and 10.8 M parameters on the bytes of real text.
MODELS = {
    "small": Model(192, 5, 6, 6, 512, 257, 128, micro_batch=2),
    "large": Model(384, 6, 6, 6, 1024, 257, 128, micro_batch=2),
}
_HOSTS, _RANKS = 2, 2
_PLAIN = "zero3"
_BARS = {"zero++": 0.25, "delta4": 0.1, "delta-ternary": 0.2, "ternary": 0.3}


def _blocks(block: int, map_: str = "", gradients: str = "int4") -> str:
    coded = f"{gradients}/{block}{map_}"
    return (
        f"slow_gather=int8/{block}, fast_gather=codes, fast_reduce={coded}, "
        f"slow_reduce={coded}, keep=codes"
    )


# What else can be done with the bits of zero++: 4096 is the block of most DeepSpeed configurations.
_VARIANTS = {
    "block 32": _blocks(32),
    "block 512": _blocks(512),
    "block 4096": _blocks(4096),
    "block 4096, scales searched": _blocks(4096, "/searched"),
    "block 128, scales searched": _blocks(128, "/searched"),
    "block 128, gradients int8": _blocks(128, gradients="int8"),
}
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
    model: Model
    compute: str = "bf16"
    constant_rate: bool = False  # of the branches, too


def config_of(study: Study, name: str, recipe: str, seed: int, steps: int) -> Config:
    """A run of `steps` steps in all."""
    config = study.model.config(study.data, study.folder / name, recipe, steps)
    config["training"] |= {
        "seed": seed,
        "compute": study.compute,
        "warmup_steps": 20,
        "floor_ratio": 1.0 if name == "base" or study.constant_rate else 0.1,
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


class Losses:
    """The losses of the runs so far, in a file beside the base's checkpoint: a study that was
    stopped goes on."""

    def __init__(self, path: Path, setup: str) -> None:
        self._path = path
        self._all: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
        if self._all.setdefault("setup", setup) != setup:
            sys.exit(f"{path.parent} has another study: {self._all['setup']}; take a new --folder")

    def of(self, name: str, measure: Callable[..., float], *how: Any) -> float:
        """The loss of the run `name`, which is measure(*how) unless it was measured before."""
        if name not in self._all:
            self._all[name] = measure(*how)
            self._path.write_text(json.dumps(self._all, indent=1))
        return float(self._all[name])


def upper_bound(gaps: list[float]) -> float:
    """The upper 95 % bound of the mean."""
    freedom = len(gaps) - 1
    t = _T95.get(freedom) or min(v for k, v in _T95.items() if k <= freedom)
    return statistics.mean(gaps) + t * statistics.stdev(gaps) / math.sqrt(len(gaps))


def measure(study: Study, recipes: dict[str, str]) -> dict[str, Any]:
    """All branches, each with every recipe (by its label) and the floor; gaps in percent."""
    base = config_of(study, "base", _PLAIN, 1, study.base_steps)
    base["output"]["save_last"] = True
    setup = f"{study.model.describe(study.compute)}, {study.base_steps} + {study.branch_steps}"
    if study.constant_rate:
        setup += ", at a constant rate"
    losses = Losses(study.folder / "losses.json", setup)
    base_loss = losses.of("base", run, study, base, False)
    print(f"base after {study.base_steps} steps: loss on unseen text {base_loss:.4f}", flush=True)
    other_wire = "bf16" if study.compute == "fp32" else "fp32"
    gaps: dict[str, list[float]] = {label: [] for label in (*recipes, "floor")}
    plain_losses = []
    for i in range(study.branches):
        seed = 1000 + i
        plain = losses.of(f"plain {seed}", branch, study, "plain", _PLAIN, seed)
        plain_losses.append(plain)
        print(f"branch {i + 1} of {study.branches}: {plain:.4f} plain", flush=True)
        for label in gaps:
            how = ("floor", _PLAIN, seed, other_wire)
            if label != "floor":
                how = ("coded", recipes[label], seed, "compute")
            loss = losses.of(f"{label} {seed}", branch, study, *how)
            gaps[label].append(100 * (loss / plain - 1))
            print(f"  {label}: {loss:.4f}, gap {gaps[label][-1]:+.3f} %", flush=True)
    return {"base_loss": base_loss, "plain_losses": plain_losses, "gaps_percent": gaps}


def summarize(label: str, recipe: str, gaps: list[float], quick: bool) -> dict[str, Any]:
    """The row of one recipe. Two short branches say nothing about a bound."""
    return {
        "label": label,
        "recipe": recipe,
        "mean_gap_percent": round(statistics.mean(gaps), 4),
        "spread_percent": round(statistics.stdev(gaps), 4),
        "upper_bound_percent": None if quick else round(upper_bound(gaps), 4),
    }


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--recipe", nargs="+", default=["zero++"], help="any of docs/recipes.md, side by side"
    )
    parser.add_argument("--model", choices=list(MODELS), default="small")
    parser.add_argument("--constant-rate", action="store_true", help="branches as the base")
    parser.add_argument("--folder", help="keeps what is done, so that the study can go on later")
    parser.add_argument("--variants", action="store_true", help="other block sizes and maps too")
    parser.add_argument("--compute", choices=["bf16", "fp32", "fp16"], default="bf16")
    parser.add_argument("--branches", type=int, default=8)
    parser.add_argument("--quick", action="store_true", help="under a minute; nothing is saved")
    args = parser.parse_args()
    recipes = {name: name for name in args.recipe} | (_VARIANTS if args.variants else {})
    model = MODELS[args.model]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(args.folder or name)
        folder.mkdir(parents=True, exist_ok=True)
        data = corpus(folder / "text.txt")
        study = Study(400, 120, args.branches, 32, folder, data, model, args.compute)
        study = replace(study, constant_rate=args.constant_rate)
        if args.quick:
            study = replace(study, base_steps=20, branch_steps=5, branches=2, evaluation_batches=4)
        measured = measure(study, recipes)
    gaps = measured["gaps_percent"]
    rows = [summarize(label, recipe, gaps[label], args.quick) for label, recipe in recipes.items()]
    made = result.make(
        "quality",
        model.describe(args.compute),
        "logical",
        None,
        [
            result.at_most(
                f"{row['label']}, {args.compute}: upper 95 % bound of the gap, percent",
                row["upper_bound_percent"],
                _BARS.get(row["label"], 0.25),
            )
            for row in rows[: len(args.recipe)]
        ],
        topology=f"{_HOSTS} x {_RANKS}",
        compute=args.compute,
        constant_rate=args.constant_rate,
        base_steps=study.base_steps,
        branch_steps=study.branch_steps,
        branches=study.branches,
        rows=rows,
        floor=summarize("floor", _PLAIN, gaps["floor"], args.quick),
        **measured,
    )
    parts = ["_".join(args.recipe)]
    parts += [args.compute] if args.compute != "bf16" else []
    parts += [args.model] if args.model != "small" else []
    parts += ["constant"] if args.constant_rate else []
    result.finish(made, None if args.quick else f"quality-{'-'.join(parts)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
