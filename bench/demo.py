#!/usr/bin/env python3
"""`make demo`: trains one small language model twice over a thin wire and says what each cost.

Two hosts with two ranks each, joined by a link of 200 Mbit/s, all on this machine. The first run
uses plain ZeRO-3 (recipe zero3), the second sends int8 weights once and int4 gradients (zero++).
Same seed, same text, same steps. Exits 1 if a loss is not finite or did not fall.
"""

from __future__ import annotations

import argparse
import math
import os
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import result
from cluster import best_cluster
from trainer import Config, Model, TrainRun, binary, corpus, train

_HOSTS, _RANKS, _MBIT = 2, 2, 200.0
# 1.7 M parameters; two runs of 400 steps with their traffic stay under five minutes on two cores.
_MODEL = Model(192, 4, 6, 3, 512, 257, sequence=128, micro_batch=2)
_STEPS = 400
_RECIPES = {
    "zero3": "a rank keeps a quarter of the weights and fetches the rest twice per step",
    "zero++": "a host keeps all weights as int8 codes, sent once per step; gradients cross as int4",
}


@dataclass
class Outcome:
    """What one recipe cost and reached; a row of the table per field."""

    recipe: str
    formula: float
    payload: float
    wire: float | None
    step_s: float
    tokens_per_s: float
    loss: float
    first_loss: float
    peak_mib: float


def config(recipe: str, data: Path, steps: int) -> Config:
    """The configuration of one run; saved beside its output, to be read and changed."""
    made = _MODEL.config(data, data.parent / recipe, recipe, steps)
    # Evaluated once, after the last step, on the text that was kept back.
    made["training"] |= {"learning_rate": 2e-3, "seed": 1, "evaluate_every": steps}
    made["output"]["save_last"] = True  # the model to generate from
    return made


def outcome(recipe: str, run: TrainRun) -> Outcome:
    """Reads a finished run."""
    window = run.window
    sent = window.wire_bytes_per_step()
    tokens = _MODEL.micro_batch * _MODEL.sequence * _HOSTS * _RANKS
    return Outcome(
        recipe,
        formula=run.formula,
        payload=run.payload,
        wire=None if sent is None else sent / _MODEL.parameters(),
        step_s=window.step_s(),
        tokens_per_s=tokens / window.step_s(),
        loss=_number(run.evaluations[-1]["evaluation_loss"]),
        first_loss=_number(run.metrics[0]["loss"]),
        peak_mib=float(run.summary["peak_memory_bytes"]) / 2**20,
    )


def _number(value: float | None) -> float:
    """JSON has no NaN; the trainer writes null."""
    return math.nan if value is None else float(value)


def table(outcomes: list[Outcome], steps: int) -> str:
    """The comparison, one column per recipe."""

    def row(label: str, values: list[str]) -> str:
        return f"  {label:<56}" + "".join(f"{value:>11}" for value in values)

    def wire(o: Outcome) -> str:
        return "not counted" if o.wire is None else f"{o.wire:.2f}"

    return "\n".join(
        [
            row("", [o.recipe for o in outcomes]),
            "  bytes per parameter and step, sent by a host over the link",
            row("  what the recipe's formula says", [f"{o.formula:.2f}" for o in outcomes]),
            row("  payload: what was handed to the link", [f"{o.payload:.2f}" for o in outcomes]),
            row("  on the wire: payload and network headers", [wire(o) for o in outcomes]),
            row("seconds per step", [f"{o.step_s:.3f}" for o in outcomes]),
            row("tokens per second, all ranks", [f"{o.tokens_per_s:,.0f}" for o in outcomes]),
            row(f"loss on unseen text after {steps} steps (at first: {outcomes[0].first_loss:.2f})",
                [f"{o.loss:.3f}" for o in outcomes]),
            row("peak memory of a rank, MiB", [f"{o.peak_mib:.0f}" for o in outcomes]),
        ]
    )  # fmt: skip


def sample(checkpoint: Path, steps: int) -> str:
    """What the trained model writes after "def ", and what to make of it."""
    command = [str(binary()), "generate", str(checkpoint), "--prompt", "def ", "--tokens", "240"]
    command += ["--temperature", "0.7"]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    if done.returncode != 0:
        sys.exit(f"thinwire-train generate failed: {done.stderr.strip()}")
    seen = steps * _HOSTS * _RANKS * _MODEL.micro_batch * _MODEL.sequence
    text = "".join(f"  | {line}\n" for line in done.stdout.splitlines())
    return (
        f'The zero++ model continues "def ". It has read {seen / 1e6:.1f} MB, so it knows how\n'
        f"such text looks, but hardly any words:\n\n{text}"
    )


def rounded(o: Outcome) -> dict[str, Any]:
    """The outcome as it is saved: no more digits than mean anything."""
    return {k: round(v, 5) if isinstance(v, float) else v for k, v in vars(o).items()}


def failures(outcomes: list[Outcome]) -> list[str]:
    """What is wrong with the runs, in words; empty if nothing is."""
    wrong = []
    for o in outcomes:
        if not math.isfinite(o.loss):
            wrong.append(f"{o.recipe}: the loss is not a finite number")
        elif o.loss >= o.first_loss:
            wrong.append(f"{o.recipe}: the loss did not fall ({o.first_loss:.3f} to {o.loss:.3f})")
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="40 steps in place of 400")
    parser.add_argument("--out", type=Path, default=result.ROOT / "out" / "demo")
    parser.add_argument("--save", action="store_true", help="keep the result for the tables")
    args = parser.parse_args()
    steps, warm_up = (40, 5) if args.quick else (_STEPS, 20)

    for recipe in _RECIPES:
        shutil.rmtree(args.out / recipe, ignore_errors=True)
    data = corpus(args.out / "text.txt")
    print(f"model    {_MODEL.describe()}")
    print(f"text     the Python standard library's sources, {data.stat().st_size / 1e6:.1f} MB")
    outcomes: list[Outcome] = []
    started = time.monotonic()
    with best_cluster(_HOSTS, _MBIT) as cluster:
        print(f"cluster  {_HOSTS} hosts x {_RANKS} ranks on this machine; {cluster.describe()}")
        for i, (recipe, meaning) in enumerate(_RECIPES.items()):
            print(f"\nrun {i + 1} of {len(_RECIPES)}: {recipe}: {meaning}", flush=True)
            run = train(
                cluster, config(recipe, data, steps), _RANKS, warm_up, timeout_s=900, stream=True
            )
            outcomes.append(outcome(recipe, run))

    print(f"\n{table(outcomes, steps)}\n")
    if any(o.payload < 0.99 * o.formula for o in outcomes):
        print(
            "The payload is below the formula where the last weights of the forward pass are\n"
            "still there when the backward pass begins with them: they are not fetched again.\n"
        )
    if cluster.kind != "emulated":
        print("Hosts were logical: the link was not slowed, so times say nothing about it.\n")
    print(sample(args.out / "zero++", steps))
    print(f"Configs, metrics and checkpoints: {os.path.relpath(args.out)}/")
    wrong = failures(outcomes)
    for line in wrong:
        print(f"demo failed: {line}", file=sys.stderr)
    made = result.make(
        "demo", _MODEL.describe(), cluster.kind, None,
        [], steps=steps, seconds=round(time.monotonic() - started, 1),
        runs=[rounded(o) for o in outcomes],
    )  # fmt: skip
    result.finish(made, "demo" if args.save else None)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
