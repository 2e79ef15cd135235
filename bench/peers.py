#!/usr/bin/env python3
"""thinwire beside DDP, FSDP2, HSDP and DeepSpeed ZeRO-3: same model, text, ranks and links.

  python3 bench/peers.py                   # about 40 minutes: three rounds at two rates
  python3 bench/peers.py --quick           # thinwire and FSDP2 without a limit, once

Short runs take turns, round after round, so that a busy machine slows all alike; a time is the
median of the rounds. The peers are installed once into .bench-venv (peers_env.py).
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import peers_env
import result
from cluster import Cluster, best_cluster
from trainer import BENCH_MODEL, corpus, train

_RECIPES = ("zero3", "hpz", "zero++")
_PEERS = ("fsdp2", "deepspeed", "hsdp", "ddp", "ddp-master")
_SHARDED = ("fsdp2", "deepspeed")  # those that, like zero3, keep no full copy anywhere
_HOSTS, _RANKS = 2, 2
_TIMEOUT_S = 900.0


@dataclass(frozen=True)
class Sample:
    """One short run: seconds per step, and bytes that a host sent per parameter and step."""

    step_s: float
    wire_bytes_per_param: float | None


def run_peer(name: str, cluster: Cluster, data: Path, folder: Path, steps: int) -> Sample:
    """One run of a peer under peers_train.py."""
    model = BENCH_MODEL
    sizes = ("hidden", "layers", "heads", "intermediate", "vocab", "sequence")
    argv = [str(peers_env.python()), str(Path(__file__).with_name("peers_train.py")), name]
    argv += [word for size in sizes for word in (f"--{size}", str(getattr(model, size)))]
    argv += ["--data", str(data), "--warm-up", "2", "--steps", str(steps)]
    job = cluster.run(cluster.rank_tasks(argv, _RANKS), _TIMEOUT_S, folder / name)
    if job.code != 0:
        sys.exit(f"{job.failure()}\n{name} ended with exit code {job.code}")
    lines = [line for line in job.logs[0].read_text().splitlines() if line.startswith('{"step_s"')]
    report = json.loads(lines[-1])
    if report["parameters"] != model.parameters():
        sys.exit(f"{name} has {report['parameters']} parameters, not {model.parameters()}")
    sent = report["wire_bytes_per_step"] / model.parameters()
    return Sample(report["step_s"], sent if cluster.wire_bytes() else None)


def run_thinwire(recipe: str, cluster: Cluster, data: Path, folder: Path, steps: int) -> Sample:
    """One run of thinwire with a recipe."""
    # Its transfers go on during the next step, which blurs the ends of the window: twice as many
    # steps as the peers take halve that, and last no longer.
    warm_up = 2
    config = BENCH_MODEL.config(data, folder / recipe, recipe, warm_up + 2 * steps)
    window = train(cluster, config, _RANKS, warm_up, _TIMEOUT_S).window
    sent = window.wire_bytes_per_step()
    return Sample(window.step_s(), None if sent is None else sent / BENCH_MODEL.parameters())


def take_turns(
    names: list[str], cluster: Cluster, data: Path, folder: Path, rounds: int, steps: int
) -> dict[str, list[Sample]]:
    """`rounds` samples of each; every round starts with another one."""
    samples: dict[str, list[Sample]] = {name: [] for name in names}
    for round_ in range(rounds):
        for name in names[round_ % len(names) :] + names[: round_ % len(names)]:
            run = run_thinwire if name in _RECIPES else run_peer
            sample = run(name, cluster, data, folder, steps)
            samples[name].append(sample)
            wire = sample.wire_bytes_per_param
            print(
                f"{cluster.mbit:g} Mbit/s, round {round_ + 1} of {rounds}: {name}: "
                f"{sample.step_s:.2f} s/step, {'?' if wire is None else f'{wire:.2f}'} bytes",
                flush=True,
            )
    return samples


def summarize(name: str, mbit: float, samples: list[Sample]) -> dict[str, Any]:
    """The row of one implementation at one rate."""
    times = [sample.step_s for sample in samples]
    wires = [s.wire_bytes_per_param for s in samples if s.wire_bytes_per_param is not None]
    return {
        "name": name if name not in _RECIPES else f"thinwire {name}",
        "mbit": mbit,
        "step_s": round(statistics.median(times), 4),
        "step_s_all": [round(value, 4) for value in times],
        "wire_bytes_per_param": round(statistics.median(wires), 3) if wires else None,
    }


def bars_of(runs: list[dict[str, Any]], limited: bool) -> list[result.Bar]:
    """The speed bars: how many times faster than the better fully sharded peer, or than FSDP2."""
    times = {run["name"]: run["step_s"] for run in runs}

    def ratio(recipe: str, peers: tuple[str, ...]) -> float | None:
        ours = times.get(f"thinwire {recipe}")
        theirs = [times[peer] for peer in peers if peer in times]
        return min(theirs) / ours if ours and len(theirs) == len(peers) else None

    if not limited:
        ratios = [r for recipe in ("zero3", "hpz") if (r := ratio(recipe, ("fsdp2",))) is not None]
        name = "no limit: better of zero3 and hpz faster than FSDP2"
        return [result.at_least(name, max(ratios) if ratios else None, 1.15)]
    better = "the better of FSDP2 and DeepSpeed ZeRO-3"
    return [
        result.at_least(f"limited link: {name} faster than {better}", ratio(name, _SHARDED), bar)
        for name, bar in (("zero3", 1.4), ("hpz", 2.0))
    ]


def compare(
    names: list[str], mbit: float, rounds: int, steps: int, compute_s: float | None
) -> dict[str, Any]:
    """All of `names` in turn at one rate; `compute_s` is zero3's step without a limit, if known."""
    with tempfile.TemporaryDirectory() as folder:
        data = corpus(Path(folder) / "text.txt", most_bytes=1 << 20)
        with best_cluster(_HOSTS, mbit) as cluster:
            kind = cluster.kind
            samples = take_turns(names, cluster, data, Path(folder), rounds, steps)
    limit = mbit if kind == "emulated" else 0.0  # logical hosts have no limit
    runs = [summarize(name, limit, samples[name]) for name in names]
    return result.make(
        "peers",
        BENCH_MODEL.describe(),
        kind,
        result.kappa(BENCH_MODEL.parameters(), limit, compute_s),
        bars_of(runs, limit > 0),
        topology=f"{_HOSTS} x {_RANKS}",
        rounds=rounds,
        steps=steps,
        versions=peers_env.versions(),
        runs=runs,
    )


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--mbit", default="0,200", help="Mbit/s, a result for each; 0: no limit")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="", help="names of implementations, separated by commas")
    parser.add_argument("--quick", action="store_true", help="under a minute; nothing is saved")
    args = parser.parse_args()
    rates = [0.0] if args.quick else [float(rate) for rate in args.mbit.split(",")]
    rounds, steps = (1, 3) if args.quick else (args.rounds, 5)
    names = args.only.split(",") if args.only else [*_RECIPES, *_PEERS]
    if unknown := set(names) - {*_RECIPES, *_PEERS}:
        parser.error(f"--only: unknown {sorted(unknown)}; there are {[*_RECIPES, *_PEERS]}")
    if args.quick:
        # Making the environment takes longer than a quick form may.
        names = [n for n in names if n in _RECIPES or (n == "fsdp2" and peers_env.ready())]
    elif set(names) & set(_PEERS):
        peers_env.ensure()

    compute_s = None
    for mbit in rates:
        made = compare(names, mbit, rounds, steps, compute_s)
        times = {run["name"]: run["step_s"] for run in made["runs"] if not run["mbit"]}
        compute_s = times.get("thinwire zero3", compute_s)
        result.finish(made, None if args.quick or args.only else f"peers-{mbit:g}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
