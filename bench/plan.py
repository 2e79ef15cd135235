#!/usr/bin/env python3
"""Predicted against measured: the step time of each recipe over a range of link rates.

python3 bench/plan.py           # about 10 minutes
python3 bench/plan.py --quick   # two rates, few steps; nothing is saved

At each rate a run with recipe `auto` measures the links and the codecs when it starts, and chooses.
`thinwire plan --measured` predicts a step of every recipe from that, and from the time of computing
and the cores a rank comes to, which one run without a limit gives. Then each recipe trains, and its
steps are timed.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import result
from cluster import best_cluster
from trainer import BENCH_MODEL, TrainRun, binary, corpus, train

_HOSTS, _RANKS = 2, 2
_ERROR = 0.15
_AUTO = 1.10
_WARM_UP = 2
# Enough for a mean of a few seconds; a step at 50 Mbit/s takes up to 16.
_STEPS = {50: 3, 100: 4, 200: 6, 400: 10, 0: 20}
# After so many steps a run with recipe auto has measured its computing.
_REVIEW = 13

Json = dict[str, Any]


def run(recipe: str, mbit: float, steps: int, data: Path, folder: Path) -> tuple[str, TrainRun]:
    """Trains for `_WARM_UP + steps` steps; the kind of hosts, and the run."""
    output = folder / f"{recipe}-{mbit:g}"
    config = BENCH_MODEL.config(data, output, recipe, _WARM_UP + steps)
    with best_cluster(_HOSTS, mbit) as cluster:
        return cluster.kind, train(cluster, config, _RANKS, _WARM_UP, timeout_s=900)


def predict(planner: Path, alone: Json) -> dict[str, Json]:
    """What `thinwire plan` makes of a run's measurements and one without a limit, by recipe."""
    model = BENCH_MODEL
    command = [
        str(binary().with_name("thinwire")),
        "plan",
        *("--measured", str(planner), "--compute-s", str(alone["compute_s"])),
        *("--cores-per-rank", str(alone["machine"]["cores_per_rank"])),
        *("--hosts", str(_HOSTS), "--ranks", str(_RANKS), "--params", str(model.parameters())),
        *("--layers", str(model.layers), "--hidden", str(model.hidden)),
        *("--vocab", str(model.vocab), "--json"),
    ]
    answer = json.loads(subprocess.check_output(command, text=True))
    return {each["recipe"]: each for each in answer["recipes"]}


def at_rate(
    mbit: float, alone: Json, recipes: list[str], data: Path, folder: Path
) -> tuple[list[Json], Json]:
    """Every recipe at one rate, predicted and measured, and what `auto` came to."""
    steps = _STEPS.get(int(mbit), 5)
    _, auto = run("auto", mbit, min(steps, _REVIEW - _WARM_UP - 1), data, folder)
    planner = folder / f"auto-{mbit:g}" / "planner.json"
    predicted = predict(planner, alone)
    slow = json.loads(planner.read_text())["machine"]["slow"]["bytes_per_s"]
    rows = []
    for recipe in recipes or list(predicted):
        _, fixed = run(recipe, mbit, steps, data, folder)
        measured_s, predicted_s = fixed.window.step_s(), predicted[recipe]["step_s"]
        error = predicted_s / measured_s - 1
        print(
            f"{mbit:g} Mbit/s {recipe}: measured {measured_s:.3f} s, predicted {predicted_s:.3f} s "
            f"({error:+.1%})",
            flush=True,
        )
        rows.append(
            {
                "recipe": recipe,
                "mbit": mbit,
                "measured_s": round(measured_s, 4),
                "predicted_s": round(predicted_s, 4),
                "error": round(error, 4),
                "expected_gap_percent": predicted[recipe]["expected_gap_percent"],
                "excluded": predicted[recipe]["excluded"],
                "bytes_per_param": round(predicted[recipe]["bytes_per_param"], 4),
            }
        )
    allowed = [row["measured_s"] for row in rows if not row["excluded"]]
    chosen = {
        "mbit": mbit,
        "recipe": auto.summary["recipe"],
        "step_s": round(auto.window.step_s(), 4),
        "probed_bytes_per_s": slow,
        "over_best_fixed": round(auto.window.step_s() / min(allowed), 4),
    }
    print(f"{mbit:g} Mbit/s auto: {chosen}", flush=True)
    return rows, chosen


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rates", type=float, nargs="*", default=[50, 100, 200, 400, 0])
    parser.add_argument("--recipes", nargs="*", default=[], help="default: all that auto knows")
    parser.add_argument("--quick", action="store_true", help="two rates; nothing is saved")
    args = parser.parse_args()
    rates = [400.0, 0.0] if args.quick else args.rates

    rows: list[Json] = []
    autos: list[Json] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        data = corpus(folder / "text.txt", most_bytes=1 << 20)
        kind, _ = run("auto", 0, _REVIEW, data, folder)
        alone = json.loads((folder / "auto-0" / "planner.json").read_text())
        print(
            f"computing takes {alone['compute_s']:.3f} s on a rank alone, which has "
            f"{alone['machine']['cores_per_rank']:.3f} cores when all work",
            flush=True,
        )
        for mbit in rates if kind == "emulated" else [0.0]:
            of_rate, auto = at_rate(mbit, alone, args.recipes, data, folder)
            rows += of_rate
            autos.append(auto)

    def rate(mbit: float) -> str:
        return f"{mbit:g} Mbit/s" if mbit else "no limit"

    bars = [
        result.at_most(
            f"{rate(auto['mbit'])}: largest |predicted / measured - 1|",
            max(abs(row["error"]) for row in rows if row["mbit"] == auto["mbit"]),
            _ERROR,
        )
        for auto in autos
    ] + [
        result.at_most(
            f"{rate(auto['mbit'])}: auto over the best fixed recipe within its loss budget",
            auto["over_best_fixed"],
            _AUTO,
        )
        for auto in autos
    ]
    made = result.make(
        "plan",
        BENCH_MODEL.describe(),
        kind,
        None,
        bars,
        topology=f"{_HOSTS} x {_RANKS}",
        compute_s=alone["compute_s"],
        cores_per_rank=alone["machine"]["cores_per_rank"],
        rows=rows,
        auto=autos,
    )
    result.finish(made, None if args.quick or args.rates != [50, 100, 200, 400, 0] else "plan")
    return 0


if __name__ == "__main__":
    sys.exit(main())
