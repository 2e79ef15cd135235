#!/usr/bin/env python3
"""thinwire's recipes over links of falling speed: step time and bytes, and what a peer needs.

  python3 bench/links.py                                   # 20 minutes
  python3 bench/links.py --mbit 50,200 --recipes zero++,ternary --rounds 1    # nothing is saved
  python3 bench/links.py --quick                           # a minute; nothing is saved

Short runs take turns, round after round, so that a busy machine slows all alike; a time is the
median of the rounds. `auto` stands for what the planner chooses at each rate. Times of the peers
at the same rates come from peers.py.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

import result
from cluster import best_cluster
from peers import Sample, Setting, run_thinwire
from trainer import BENCH_MODEL, corpus

_RECIPES = (
    "zero3",
    "zero++",
    "delta4",
    "delta-ternary",
    "delta-ternary+coded",
    "ternary",
    "ternary+coded",
    "auto",
)
# What auto does not choose within the loss budget that it has unless another is given.
_BEYOND_BUDGET = ("ternary", "ternary+coded")
_RATES = (0.0, 400.0, 200.0, 100.0, 80.0, 50.0)
_HOSTS = 2

Rows = list[dict[str, Any]]


def steps_of(recipe: str, mbit: float) -> int:
    """Measured steps, half of what a run takes: a step of zero3 lasts 15 s at 50 Mbit/s."""
    if recipe == "zero3":
        return 2 if 0 < mbit <= 100 else 3
    return 4


def row_of(recipe: str, mbit: float, samples: list[Sample]) -> dict[str, Any]:
    """What one recipe came to at one rate."""
    times = [sample.step_s for sample in samples]
    wires = [s.wire_bytes_per_param for s in samples if s.wire_bytes_per_param is not None]
    return {
        "recipe": recipe,
        "mbit": mbit,
        "step_s": round(statistics.median(times), 4),
        "step_s_all": [round(value, 4) for value in times],
        "wire_bytes_per_param": round(statistics.median(wires), 3) if wires else None,
    }


def measure(recipes: list[str], mbit: float, rounds: int, quick: bool) -> tuple[str, Rows]:
    """All recipes at one rate, in turn; the kind of hosts and a row for each."""
    samples: dict[str, list[Sample]] = {recipe: [] for recipe in recipes}
    with tempfile.TemporaryDirectory() as name, best_cluster(_HOSTS, mbit) as cluster:
        data = corpus(Path(name) / "text.txt", most_bytes=1 << 20)
        for round_ in range(rounds):
            first = round_ % len(recipes)
            for recipe in recipes[first:] + recipes[:first]:
                steps = 2 if quick else steps_of(recipe, mbit)
                setting = Setting(BENCH_MODEL, mbit, rounds, steps)
                sample = run_thinwire(recipe, setting, cluster, data, Path(name))
                samples[recipe].append(sample)
                print(f"{mbit:g} Mbit/s, round {round_ + 1}: {recipe}: {sample.step_s:.2f} s/step")
                sys.stdout.flush()
        limit = mbit if cluster.kind == "emulated" else 0.0
        return cluster.kind, [row_of(recipe, limit, samples[recipe]) for recipe in recipes]


def seconds(rows: Rows, recipe: str, mbit: float) -> float | None:
    """Of a step; None where it was not measured."""
    found = [row["step_s"] for row in rows if row["recipe"] == recipe and row["mbit"] == mbit]
    return found[0] if found else None


def ratio(numerator: float | None, denominator: float | None) -> float | None:
    """None where one of them was not measured."""
    return numerator / denominator if numerator and denominator else None


def bars_of(rows: Rows) -> list[result.Bar]:
    """What recipes below one byte gain over zero++, and that `auto` is never far from the best."""
    zeropp = seconds(rows, "zero++", 50)
    bars = [
        result.at_least(
            f"50 Mbit/s: {recipe} faster than zero++",
            ratio(zeropp, seconds(rows, recipe, 50)),
            bar,
        )
        for recipe, bar in (("delta-ternary", 1.6), ("ternary", 2.2))
    ]
    bars.append(
        result.at_least(
            "delta4 at 80 Mbit/s: speed over zero3 at 400",
            ratio(seconds(rows, "zero3", 400), seconds(rows, "delta4", 80)),
            1.0,
        )
    )
    worst = None
    for rate in {row["mbit"] for row in rows}:
        fixed = [
            row["step_s"]
            for row in rows
            if row["mbit"] == rate and row["recipe"] not in ("auto", *_BEYOND_BUDGET)
        ]
        auto = seconds(rows, "auto", rate)
        if auto and fixed:
            worst = max(worst or 0.0, auto / min(fixed))
    name = "auto: step over that of the best within its loss budget, at the worst rate"
    bars.append(result.at_most(name, worst, 1.1))
    return bars


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--mbit", default=",".join(f"{rate:g}" for rate in _RATES))
    parser.add_argument("--recipes", default=",".join(_RECIPES), help="any of docs/recipes.md")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--quick", action="store_true", help="a minute; nothing is saved")
    args = parser.parse_args()
    recipes = args.recipes.split(",")
    # Without a limit first: the time of computing places the others on the kappa scale.
    rates = sorted((float(rate) for rate in args.mbit.split(",")), key=lambda r: -r if r else -1e9)
    if args.quick:
        rates, recipes = [200.0], ["zero++", "delta4"]
    rows: Rows = []
    kind = "logical"
    for rate in rates:
        kind, measured = measure(recipes, rate, 1 if args.quick else args.rounds, args.quick)
        rows += measured
    compute_s = seconds(rows, "zero3", 0)
    for row in rows:
        row["kappa"] = result.kappa(BENCH_MODEL.parameters(), row["mbit"], compute_s)
    complete = set(recipes) == set(_RECIPES) and set(rates) == set(_RATES) and not args.quick
    made = result.make(
        "links",
        BENCH_MODEL.describe(),
        kind,
        None,
        bars_of(rows),
        topology=f"{_HOSTS} x 2",
        rounds=args.rounds,
        rows=rows,
    )
    result.finish(made, "links" if complete and kind == "emulated" else None)
    return 0


if __name__ == "__main__":
    sys.exit(main())
