#!/usr/bin/env python3
"""Bytes on the slow link of one recipe: the formula, what was sent, and what the wire carried.

python3 bench/wire.py --recipe zero3 --hosts 2 --ranks 2 --mbit 200
python3 bench/wire.py --recipe zero++ --quick   # fewer steps; nothing is saved
python3 bench/wire.py --recipe ternary --entropy
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

import result
from cluster import best_cluster
from trainer import BENCH_MODEL, TrainRun, corpus, train

# The formula's bytes and 1 % for scales, headers and control messages; 5 % more for Ethernet, IP
# and TCP headers, which take 66 of 1514 bytes.
_PAYLOAD = 1.01
_WIRE = 1.05


# Bytes per parameter and step that the recipes below one byte may send, times (N-1)/N; the same
# with any number of micro-batches.
_MOST = {
    "delta4": 1.03,
    "delta-ternary": 0.75,
    "delta-ternary+coded": 0.65,
    "ternary": 0.44,
    "ternary+coded": 0.40,
}


def measure(
    args: argparse.Namespace, mbit: float, warm_up: int, steps: int, folder: Path
) -> tuple[str, TrainRun]:
    """Trains BENCH_MODEL for `warm_up + steps` steps; the kind of hosts, and the run."""
    data = corpus(folder / "text.txt", most_bytes=1 << 20)
    output = folder / f"{args.recipe}-{mbit:g}"
    config = BENCH_MODEL.config(data, output, args.recipe, warm_up + steps)
    config["training"]["micro_batches"] = args.micro_batches
    with best_cluster(args.hosts, mbit) as cluster:
        return cluster.kind, train(cluster, config, args.ranks, warm_up, timeout_s=900)


def bars_of_differences(args: argparse.Namespace, payload: float) -> list[result.Bar]:
    """The bars of recipes that send less than a byte, in bytes and against plain ZeRO-3."""
    most = _MOST.get(args.recipe)
    if most is None:
        return []
    share = 1 - 1 / args.hosts
    bars = [result.at_most("payload / ((N-1)/N)", payload / share, most)]
    if args.micro_batches > 1:
        # ZeRO-3 that gathers twice and reduces once in each micro-batch, and this zero3, which
        # reduces once in a step.
        for name, bytes_ in (
            ("ZeRO-3 with a reduction per micro-batch", 6.0 * args.micro_batches),
            ("zero3", 4.0 * args.micro_batches + 2),
        ):
            needed = round(bytes_ / most, 1)
            bars.append(result.at_least(f"less than {name}", bytes_ * share / payload, needed))
    return bars


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--recipe", default="zero3", help="any of docs/recipes.md")
    parser.add_argument("--entropy", action="store_true", help="the recipe with +coded")
    parser.add_argument("--micro-batches", type=int, default=1, help="per optimizer step")
    parser.add_argument("--hosts", type=int, default=2)
    parser.add_argument("--ranks", type=int, default=2, help="ranks per host")
    parser.add_argument("--mbit", type=float, default=200, help="Mbit/s a host sends; 0: no limit")
    parser.add_argument("--quick", action="store_true", help="under a minute; nothing is saved")
    args = parser.parse_args()
    if args.entropy:
        args.recipe += "+coded"
    coded = "coded" in args.recipe
    warm_up, steps = (2, 4) if args.quick else (3, 20)

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        kind, run = measure(args, args.mbit, warm_up, steps, folder)
        compute_s = None
        if kind == "emulated" and args.mbit and not args.quick:
            # The same ranks without a limit: what a step takes when the link costs (almost)
            # nothing. Never subtracted from anything; it places the result on the kappa scale.
            _, unlimited = measure(args, 0, warm_up, steps, folder)
            compute_s = unlimited.window.step_s()

    parameters = BENCH_MODEL.parameters()
    formula, payload = run.formula, run.payload
    predicted = float(run.summary["predicted_bytes_per_param"])
    sent = run.window.wire_bytes_per_step()
    wire = None if sent is None else sent / parameters
    bars = [
        result.at_most("payload / formula", payload / formula if formula else None, _PAYLOAD),
        # Where units are still in a buffer less is sent than the formula says: the plan knows. Of
        # entropy-coded messages it knows the most that they have.
        result.at_most("payload / predicted", payload / predicted if predicted else None, 1)
        if coded
        else result.at_most(
            "|payload / predicted - 1|", abs(payload / predicted - 1) if predicted else None, 0.01
        ),
        result.at_most(
            "wire / formula",
            wire / formula if formula and wire is not None else None,
            round(_PAYLOAD * _WIRE, 4),
        ),
        *bars_of_differences(args, payload),
    ]
    made = result.make(
        "wire",
        BENCH_MODEL.describe(),
        kind,
        result.kappa(parameters, args.mbit if kind == "emulated" else 0, compute_s),
        bars,
        recipe=args.recipe,
        topology=f"{args.hosts} x {args.ranks}",
        mbit=args.mbit,
        micro_batches=args.micro_batches,
        steps=run.window.steps(),
        formula_bytes_per_param=formula,
        predicted_bytes_per_param=predicted,
        payload_bytes_per_param=round(payload, 4),
        wire_bytes_per_param=None if wire is None else round(wire, 4),
        messages_per_step=run.summary["slow_messages_per_step"],
        step_s=round(run.window.step_s(), 4),
        step_s_without_limit=None if compute_s is None else round(compute_s, 4),
    )
    save = f"wire-{args.recipe}-{args.hosts}x{args.ranks}-{args.mbit:g}"
    if args.micro_batches > 1:
        save += f"-micro{args.micro_batches}"
    result.finish(made, None if args.quick else save)
    return 0


if __name__ == "__main__":
    sys.exit(main())
