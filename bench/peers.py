#!/usr/bin/env python3
"""thinwire beside DDP, FSDP2, HSDP and DeepSpeed ZeRO-3: same model, text, ranks and links.

  python3 bench/peers.py                                          # 25 minutes: two rates
  python3 bench/peers.py --mbit 50,100,200,400,0 --tokens 64,128,512    # hours: a result for each
  python3 bench/peers.py --ours python     # the same against thinwire.initialize
  python3 bench/peers.py --quick           # thinwire and FSDP2 without a limit, once

Short runs take turns, round after round, so that a busy machine slows all alike; a time is the
median of the rounds. The peers are installed once into .bench-venv (peers_env.py). What was saved
before counts where a bar compares two rates.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import peers_env
import result
from cluster import Cluster, best_cluster
from trainer import BENCH_MODEL, Model, corpus, python_package, train

_RECIPES = ("zero3", "hpz", "zero++", "delta4", "delta-ternary", "ternary")
_PYTHON = {"python-zero3": "zero3", "python-zero++": "zero++"}  # under thinwire.initialize
_PEERS = ("fsdp2", "deepspeed", "hsdp", "ddp", "ddp-master")
_SHARDED = ("fsdp2", "deepspeed")  # those that, like zero3, keep no full copy anywhere
_FULL_COPY = ("hsdp", "ddp")  # those that keep a full copy on each host or rank
_HOSTS, _RANKS = 2, 2
_WARM_UP = 2  # steps before the measured ones
_TIMEOUT_S = 900.0

Runs = list[dict[str, Any]]
Names = tuple[str, ...]


@dataclass(frozen=True)
class Sample:
    """One short run: seconds per step, and bytes that a host sent per parameter and step."""

    step_s: float
    wire_bytes_per_param: float | None


@dataclass(frozen=True)
class Setting:
    """What all runs of a comparison have in common."""

    model: Model
    mbit: float  # 0: no limit
    rounds: int
    steps: int  # measured in a run of a peer
    of_python: bool = False  # thinwire's Python package is what is compared, not its trainer

    @property
    def name(self) -> str:
        """Of the result."""
        tokens = self.model.sequence
        of_tokens = "" if tokens == BENCH_MODEL.sequence else f"-{tokens}"
        return f"peers-{'python-' if self.of_python else ''}{self.mbit:g}{of_tokens}"


def run_peer(name: str, setting: Setting, cluster: Cluster, data: Path, folder: Path) -> Sample:
    """One run of a peer, or of thinwire in Python, under peers_train.py."""
    model, recipe = setting.model, _PYTHON.get(name)
    sizes = ("hidden", "layers", "heads", "intermediate", "vocab", "sequence")
    argv = [str(peers_env.PEERS.python()), str(Path(__file__).with_name("peers_train.py"))]
    argv += ["thinwire", "--recipe", recipe] if recipe else [name]
    argv += [word for size in sizes for word in (f"--{size}", str(getattr(model, size)))]
    argv += ["--data", str(data)]
    # thinwire is as far ahead of its transfers at the end as at the beginning, but for jitter.
    steps = 2 * setting.steps if recipe else setting.steps
    argv += ["--warm-up", str(_WARM_UP), "--steps", str(steps)]
    env = {"PYTHONPATH": str(python_package())} if recipe else {}
    job = cluster.run(cluster.rank_tasks(argv, _RANKS, env), _TIMEOUT_S, folder / name)
    if job.code != 0:
        sys.exit(f"{job.failure()}\n{name} ended with exit code {job.code}")
    lines = [line for line in job.logs[0].read_text().splitlines() if line.startswith('{"step_s"')]
    report = json.loads(lines[-1])
    if report["parameters"] != model.parameters():
        sys.exit(f"{name} has {report['parameters']} parameters, not {model.parameters()}")
    sent = report["wire_bytes_per_step"] / model.parameters()
    return Sample(report["step_s"], sent if cluster.wire_bytes() else None)


def run_thinwire(
    recipe: str, setting: Setting, cluster: Cluster, data: Path, folder: Path
) -> Sample:
    """One run of thinwire with a recipe."""
    # Its transfers go on during the next step, which blurs the ends of the window: twice as many
    # steps as the peers take halve that, and last no longer.
    config = setting.model.config(data, folder / recipe, recipe, _WARM_UP + 2 * setting.steps)
    window = train(cluster, config, _RANKS, _WARM_UP, _TIMEOUT_S).window
    sent = window.wire_bytes_per_step()
    return Sample(window.step_s(), None if sent is None else sent / BENCH_MODEL.parameters())


def take_turns(
    names: list[str], setting: Setting, cluster: Cluster, data: Path, folder: Path
) -> dict[str, list[Sample]]:
    """A sample of each per round; every round starts with another one."""
    samples: dict[str, list[Sample]] = {name: [] for name in names}
    for round_ in range(setting.rounds):
        for name in names[round_ % len(names) :] + names[: round_ % len(names)]:
            run = run_peer if name in (*_PEERS, *_PYTHON) else run_thinwire
            sample = run(name, setting, cluster, data, folder)
            samples[name].append(sample)
            wire = sample.wire_bytes_per_param
            print(
                f"{cluster.mbit:g} Mbit/s, {setting.model.sequence} tokens, "
                f"round {round_ + 1} of {setting.rounds}: {name}: "
                f"{sample.step_s:.2f} s/step, {'?' if wire is None else f'{wire:.2f}'} bytes",
                flush=True,
            )
    return samples


def label(name: str) -> str:
    """As it stands in results and tables."""
    if name in _PYTHON:
        return f"thinwire {_PYTHON[name]}, Python"
    return name if name in _PEERS else f"thinwire {name}"


def summarize(name: str, mbit: float, samples: list[Sample]) -> dict[str, Any]:
    """The row of one implementation at one rate."""
    times = [sample.step_s for sample in samples]
    wires = [s.wire_bytes_per_param for s in samples if s.wire_bytes_per_param is not None]
    return {
        "name": label(name),
        "mbit": mbit,
        "step_s": round(statistics.median(times), 4),
        "step_s_all": [round(value, 4) for value in times],
        "wire_bytes_per_param": round(statistics.median(wires), 3) if wires else None,
    }


def _ratio(runs: Runs, recipe: str, peers: tuple[str, ...]) -> float | None:
    """How many times faster than the best of `peers`; None unless all were measured."""
    times = {run["name"]: run["step_s"] for run in runs}
    ours = times.get(label(recipe))
    theirs = [times[peer] for peer in peers if peer in times]
    return min(theirs) / ours if ours and len(theirs) == len(peers) else None


def bars_of(setting: Setting, runs: Runs) -> list[result.Bar]:
    """The speed bars: of 128 tokens per rank, with 200 Mbit/s and without a limit."""
    if setting.model != BENCH_MODEL or setting.mbit not in (0, 200):
        return []
    if setting.of_python:
        return bars_of_python(setting, runs)
    if not setting.mbit:
        ratios = [r for name in ("zero3", "hpz") if (r := _ratio(runs, name, ("fsdp2",)))]
        best = max(ratios) if ratios else None
        ours = _ratio(runs, "zero++", ("thinwire zero3",))
        return [
            result.at_least("no limit: better of zero3 and hpz faster than FSDP2", best, 1.15),
            result.at_least("no limit: zero++ as fast as zero3", ours, 1.0),
        ]
    better = "the better of FSDP2 and DeepSpeed ZeRO-3"
    return [
        result.at_least(f"200 Mbit/s: {name} faster than {against}", _ratio(runs, name, peers), bar)
        for name, against, peers, bar in (
            ("zero3", better, _SHARDED, 1.4),
            ("hpz", better, _SHARDED, 2.0),
            ("zero++", better, _SHARDED, 4.0),
            ("zero++", "the better of HSDP and DDP", _FULL_COPY, 2.0),
            ("delta4", better, _SHARDED, 5.5),
        )
    ]


def bars_of_python(setting: Setting, runs: Runs) -> list[result.Bar]:
    """The same of thinwire.initialize, whose model is the very one of the peers."""
    if not setting.mbit:
        names = "better of zero3 and zero++, Python"
        against = (("FSDP2", "fsdp2", 1.25), ("DeepSpeed ZeRO-3", "deepspeed", 1.25))
        # Within 15 % of DDP's time.
        against += (("DDP with fp32 masters", "ddp-master", round(1 / 1.15, 3)),)
        bars = []
        for name, peer, bar in against:
            ratios = [r for recipe in _PYTHON if (r := _ratio(runs, recipe, (peer,)))]
            best = max(ratios) if ratios else None
            bars.append(result.at_least(f"no limit: {names}: speed over {name}", best, bar))
        return bars
    ours = next((run for run in runs if run["name"] == label("python-zero++")), None)
    sent = ours["wire_bytes_per_param"] if ours else None
    bars = [result.at_most("200 Mbit/s: zero++, Python: wire bytes per parameter", sent, 0.81)]
    return bars + [
        result.at_least(
            f"200 Mbit/s: zero++, Python faster than {against}",
            _ratio(runs, "python-zero++", peers),
            bar,
        )
        for against, peers, bar in (
            ("the better of FSDP2 and DeepSpeed ZeRO-3", _SHARDED, 4.0),
            ("the better of HSDP and DDP", _FULL_COPY, 2.0),
        )
    ]


def bars_across(slow: Runs, fast: Runs) -> list[result.Bar]:
    """zero++ over 100 Mbit/s against what others need 400 for."""
    ours = "thinwire zero++"
    runs = [run for run in slow if run["name"] == ours]
    runs += [run for run in fast if run["name"] != ours]
    return [
        result.at_least(
            f"zero++ at 100 Mbit/s: speed over {name} at 400", _ratio(runs, "zero++", (peer,)), bar
        )
        for name, peer, bar in (("zero3", "thinwire zero3", 0.9), ("DeepSpeed's", "deepspeed", 1.0))
    ]


def compare(names: list[str], setting: Setting, compute_s: float | None) -> dict[str, Any]:
    """All of `names` in turn; `compute_s` is zero3's step without a limit, if known."""
    with tempfile.TemporaryDirectory() as folder:
        data = corpus(Path(folder) / "text.txt", most_bytes=1 << 20)
        with best_cluster(_HOSTS, setting.mbit) as cluster:
            kind = cluster.kind
            samples = take_turns(names, setting, cluster, data, Path(folder))
    limit = setting.mbit if kind == "emulated" else 0.0  # logical hosts have no limit
    runs = [summarize(name, limit, samples[name]) for name in names]
    return result.make(
        "peers",
        setting.model.describe(),
        kind,
        result.kappa(setting.model.parameters(), limit, compute_s),
        bars_of(replace(setting, mbit=limit), runs),
        topology=f"{_HOSTS} x {_RANKS}",
        tokens=setting.model.sequence,
        rounds=setting.rounds,
        steps=setting.steps,
        versions=result.pinned(
            "torch",
            "transformers",
            "deepspeed",
            files=("requirements.txt", "bench/requirements.txt"),
        ),
        runs=runs,
    )


def saved_runs(setting: Setting) -> Runs:
    """The rows of the result that is there; none if there is none."""
    path = result.RESULTS / f"{setting.name}.json"
    runs: Runs = json.loads(path.read_text())["runs"] if path.exists() else []
    return runs


def measured_steps(mbit: float) -> int:
    """Fewer on slow links: a step of FSDP2 takes half a minute there, and all take the same."""
    return 5 if not mbit or mbit >= 200 else 3 if mbit >= 100 else 2


def choose(parser: argparse.ArgumentParser, option: str, text: str, known: Names) -> list[str]:
    """The names in `text`, all of them known."""
    names = [name for name in text.split(",") if name]
    if unknown := set(names) - set(known):
        parser.error(f"{option}: unknown {sorted(unknown)}; there are {list(known)}")
    return names


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--mbit", default="0,200", help="Mbit/s, a result for each; 0: no limit")
    parser.add_argument("--tokens", default="128", help="of a sequence; a result for each")
    parser.add_argument(
        "--ours",
        default=",".join(_RECIPES),
        help=f"recipes of the trainer, separated by commas; python: {', '.join(_PYTHON)}",
    )
    parser.add_argument("--peers", default=",".join(_PEERS), help="peers, separated by commas")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="under a minute; nothing is saved")
    args = parser.parse_args()
    of_python = args.ours == "python" or args.ours.startswith("python-")
    named = ",".join(_PYTHON) if args.ours == "python" else args.ours
    ours = choose(parser, "--ours", named, tuple(_PYTHON) if of_python else _RECIPES)
    peers = choose(parser, "--peers", args.peers, _PEERS)
    # The fast ones first: bars of slow ones look back at them.
    rates = sorted({float(rate) or math.inf for rate in args.mbit.split(",")}, reverse=True)
    tokens = [int(count) for count in args.tokens.split(",")]
    rounds = args.rounds
    if args.quick:
        rates, tokens, rounds = [math.inf], [BENCH_MODEL.sequence], 1
        # Making the environment takes longer than a quick form may.
        peers = ["fsdp2"] if peers_env.PEERS.ready() and "fsdp2" in peers else []
    if peers or of_python:
        peers_env.ensure()

    all_ours = set(_PYTHON if of_python else _RECIPES)
    complete = not args.quick and set(ours + peers) == {*all_ours, *_PEERS}
    for count in tokens:
        model = replace(BENCH_MODEL, sequence=count)
        for rate in rates:
            mbit = 0.0 if rate == math.inf else rate
            steps = 3 if args.quick else measured_steps(mbit)
            setting = Setting(model, mbit, rounds, steps, of_python)
            idle = saved_runs(replace(setting, mbit=0.0))
            plain = label("python-zero3" if of_python else "zero3")
            compute_s = next((r["step_s"] for r in idle if r["name"] == plain), None)
            made = compare([*ours, *peers], setting, compute_s)
            if setting.name == "peers-100":
                made["bars"] += bars_across(made["runs"], saved_runs(replace(setting, mbit=400.0)))
            result.finish(made, setting.name if complete else None)
    return 0


if __name__ == "__main__":
    sys.exit(main())
