"""Runs thinwire-train on a cluster and measures a window of its steps from outside."""

from __future__ import annotations

import json
import os
import shutil
import sys
import sysconfig
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cluster import Cluster
from launch import JobResult
from result import ROOT

Config = dict[str, dict[str, Any]]


@dataclass(frozen=True)
class Model:
    """A LLaMA-type model and what one rank feeds it per step."""

    hidden: int
    layers: int
    heads: int
    kv_heads: int
    intermediate: int
    vocab: int
    sequence: int
    micro_batch: int = 1

    def parameters(self) -> int:
        """Untied embedding and head, blocks of four attention and three feed-forward matrices."""
        kv_width = self.hidden // self.heads * self.kv_heads
        attention = 2 * self.hidden * self.hidden + 2 * self.hidden * kv_width
        block = attention + 3 * self.hidden * self.intermediate + 2 * self.hidden
        return 2 * self.vocab * self.hidden + self.layers * block + self.hidden

    def describe(self, compute: str = "bf16") -> str:
        """For people: size, shape, type and batch."""
        return (
            f"LLaMA-type, {self.parameters() / 1e6:.1f} M parameters (hidden {self.hidden}, "
            f"{self.layers} layers, {self.heads} heads, intermediate {self.intermediate}, "
            f"vocab {self.vocab} untied), {compute}, {self.micro_batch} x {self.sequence} tokens "
            "per rank"
        )

    def config(self, data: Path, output: Path, recipe: str, steps: int) -> Config:
        """The trainer's configuration, without evaluation; docs/config.md has all keys."""
        return {
            "model": {
                "vocab_size": self.vocab,
                "hidden": self.hidden,
                "layers": self.layers,
                "heads": self.heads,
                "kv_heads": self.kv_heads,
                "intermediate": self.intermediate,
            },
            "data": {"files": [str(data)], "sequence_length": self.sequence},
            "training": {
                "steps": steps,
                "micro_batch": self.micro_batch,
                "warmup_steps": min(20, steps),
                "evaluate_every": 0,
            },
            "parallel": {"recipe": recipe},
            "output": {"directory": str(output), "save_last": False},
        }


# The model of every speed and byte bar: small enough for two cores, large enough that a link of
# 200 Mbit/s is the bottleneck, as links are for large models (kappa about 11).
BENCH_MODEL = Model(512, 8, 8, 8, 1408, 4096, 128)


@dataclass
class Window:
    """Follows metrics.jsonl while a job runs and notes time and wire bytes at two steps.

    The first is `first`, the last is the newest. Steps end together on all ranks, so the time
    between two of them, divided by their number, is the time of a step.
    """

    metrics: Path
    first: int
    cluster: Cluster
    _read: int = 0
    _marks: list[tuple[int, float, list[int] | None]] = field(default_factory=list)

    def poll(self) -> None:
        """Called often: reads what was added to the file."""
        if not self.metrics.exists():
            return
        with self.metrics.open("rb") as file:
            file.seek(self._read)
            text = file.read()
        complete = text[: text.rfind(b"\n") + 1]
        self._read += len(complete)
        lines = map(json.loads, complete.splitlines())
        steps = [int(line["step"]) for line in lines if "loss" in line]  # not evaluations
        if not steps or steps[-1] < self.first:
            return
        mark = (steps[-1], time.monotonic(), self.cluster.wire_bytes())
        self._marks = [*self._marks[:1], mark]

    def steps(self) -> int:
        """Steps in the window."""
        return self._marks[-1][0] - self._marks[0][0] if len(self._marks) == 2 else 0

    def step_s(self) -> float:
        """Seconds per step."""
        return (self._marks[1][1] - self._marks[0][1]) / self.steps()

    def wire_bytes_per_step(self) -> float | None:
        """Bytes that the host which sent most sent per step; None if they cannot be counted."""
        first, last = self._marks[0][2], self._marks[1][2]
        if first is None or last is None:
            return None
        return max(b - a for a, b in zip(first, last, strict=True)) / self.steps()


@dataclass
class TrainRun:
    """One finished training run."""

    job: JobResult
    window: Window
    summary: dict[str, Any]
    metrics: list[dict[str, Any]]  # a line per step
    evaluations: list[dict[str, Any]]

    @property
    def formula(self) -> float:
        """Bytes per parameter, host and step that the recipe's formula gives."""
        return float(self.summary["formula_bytes_per_param"])

    @property
    def payload(self) -> float:
        """What hosts handed to the link per parameter and step, as thinwire counted it."""
        return float(self.summary["slow_bytes_per_param"])


def python_package() -> Path:
    """The folder of the newest Python package that was built, for PYTHONPATH."""
    named = os.environ.get("THINWIRE_PYTHON_PACKAGE")
    built = sorted(ROOT.glob("build/*/python/thinwire/_native*"), key=lambda p: p.stat().st_mtime)
    if not named and not built:
        sys.exit("thinwire's Python package is not there: run `make build` first")
    return Path(named) if named else built[-1].parents[1]


def binary() -> Path:
    """The newest thinwire-train of this tree, or the one that THINWIRE_TRAIN names."""
    named = os.environ.get("THINWIRE_TRAIN")
    built = (
        [Path(named)]
        if named
        else sorted(ROOT.glob("build/*/apps/thinwire-train"), key=lambda p: p.stat().st_mtime)
    )
    if not built or not built[-1].exists():
        sys.exit(f"{named or 'thinwire-train'} is not there: run `make build` first")
    return built[-1]


def corpus(path: Path, most_bytes: int = 0) -> Path:
    """Writes the Python standard library's sources into one file, in order; 0: all of them.

    Real text that is on every machine with Python. Only top-level modules, so that tests and
    installed packages stay out.
    """
    folder = Path(sysconfig.get_paths()["stdlib"])
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as out:
        for source in sorted(folder.glob("*.py")):
            out.write(source.read_bytes())
            if most_bytes and out.tell() >= most_bytes:
                break
    return path


def train(
    cluster: Cluster,
    config: Config,
    ranks_per_host: int,
    warm_up: int,
    timeout_s: float,
    stream: bool = False,
    resume: bool = False,
) -> TrainRun:
    """Trains on all ranks of the cluster and measures the steps after `warm_up`.

    Leaves with the ends of the logs if the run fails.
    """
    output = Path(config["output"]["directory"])
    output.mkdir(parents=True, exist_ok=True)
    for left in ("metrics.jsonl", "summary.json"):
        (output / left).unlink(missing_ok=True)
    if not resume:  # checkpoints of an earlier run, which the trainer would not touch
        for left in output.glob("step-*"):
            shutil.rmtree(left)
    # Given, not detected: logical hosts all look like one machine.
    config["parallel"] |= {"hosts": cluster.hosts, "ranks_per_host": ranks_per_host}
    path = output / "config.json"
    path.write_text(json.dumps(config, indent=1) + "\n")
    window = Window(output / "metrics.jsonl", warm_up, cluster)
    argv = [str(binary()), "train", str(path), *(["--resume"] if resume else [])]
    tasks = cluster.rank_tasks(argv, ranks_per_host)
    job = cluster.run(tasks, timeout_s, output / "logs", stream, window.poll)
    if job.code != 0:
        sys.exit(f"{job.failure()}\ntraining ended with exit code {job.code} (config {path})")
    lines = [json.loads(line) for line in (output / "metrics.jsonl").read_text().splitlines()]
    summary = json.loads((output / "summary.json").read_text())
    return TrainRun(
        job,
        window,
        summary,
        metrics=[line for line in lines if "loss" in line],
        evaluations=[line for line in lines if "evaluation_loss" in line],
    )
