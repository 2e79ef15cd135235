#!/usr/bin/env python3
"""Ranks that share memory, again and again: they train to the end, are killed, stopped or paused.

  nice python3 bench/soak.py --minutes 15   # saves the result
  python3 bench/soak.py --quick             # a minute; nothing is saved

Every run must end as it should: with the losses of the same run over the network, or within the
deadline with an error that names the rank, and with no process left.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import builds
import result
from trainer import corpus

_DEADLINE_S = 4.0
# For the others to notice, and for the launcher's own patience with those that do not.
_GRACE_S = 120.0
_STEPS = 16


class Run:
    """One launch of `ranks` processes of the trainer."""

    def __init__(self, folder: Path, binary: Path, ranks: int, shared: bool) -> None:
        self.out = folder / "out"
        shutil.rmtree(self.out, ignore_errors=True)
        config = {
            "model": {"hidden": 64, "layers": 3, "heads": 4},
            "data": {"files": [str(folder / "text.txt")], "sequence_length": 32},
            "training": {"steps": _STEPS, "warmup_steps": 2, "evaluate_every": 8},
            "parallel": {"deadline_s": _DEADLINE_S, "shared_memory": shared},
            "output": {"directory": str(self.out), "save_every": 8},
        }
        path = folder / "config.json"
        path.write_text(json.dumps(config))
        self.log = folder / "log.txt"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [str(binary), "train", str(path), "--ranks", str(ranks)],
                stdout=log,
                stderr=log,
                env=os.environ | {"OMP_NUM_THREADS": "1"},
                start_new_session=True,
            )
        self.ranks = ranks

    def pids(self) -> list[int]:
        """Of the ranks, in their order, once all are there."""
        path = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        return sorted(map(int, path.read_text().split())) if path.exists() else []

    def await_step(self, step: int) -> None:
        metrics = self.out / "metrics.jsonl"
        end = time.monotonic() + _GRACE_S
        while time.monotonic() < end and self.process.poll() is None:
            if metrics.exists() and metrics.read_text().count('"grad_norm"') >= step:
                return
            time.sleep(0.005)

    def end(self) -> int | None:
        """The exit code, or None when it had to be killed."""
        try:
            return self.process.wait(timeout=_GRACE_S)
        except subprocess.TimeoutExpired:
            for pid in [*self.pids(), self.process.pid]:
                os.kill(pid, signal.SIGKILL)
            self.process.wait()
            return None

    def losses(self) -> list[float]:
        lines = (self.out / "metrics.jsonl").read_text().splitlines()
        return [line["loss"] for line in map(json.loads, lines) if "loss" in line]

    def shares(self) -> bool:
        return "fast link     shared memory\n" in self.log.read_text(errors="replace")


def gone(pids: list[int]) -> bool:
    end = time.monotonic() + 5
    while any(Path(f"/proc/{pid}").exists() for pid in pids):
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True


def disturb(run: Run, kind: str, rng: random.Random) -> list[int]:
    """Does to some rank, at some moment, what `kind` says; the pids of all."""
    if rng.random() < 0.3:
        time.sleep(rng.uniform(0.2, 1.5))  # while they find each other, too
    else:
        run.await_step(rng.randint(1, _STEPS - 5))
        time.sleep(rng.uniform(0, 0.03))
    pids = run.pids()
    if len(pids) == run.ranks and kind != "finish":
        victim = rng.choice(pids)
        name = {"kill": signal.SIGKILL, "stop": signal.SIGSTOP, "pause": signal.SIGSTOP}[kind]
        os.kill(victim, name)
        if kind == "pause":
            time.sleep(rng.uniform(0.1, 1.0))
            os.kill(victim, signal.SIGCONT)
    return pids


def fault(run: Run, kind: str, expected: list[float]) -> str:
    """What is wrong with how it ended; empty: nothing."""
    pids = run.pids()
    code = run.end()
    if code is None:
        return f"did not end within {_GRACE_S:g} s"
    if not gone(pids):
        return "left processes behind"
    if kind in ("finish", "pause") or code == 0:  # a rank may have ended before it was hit
        if code != 0:
            return f"exit code {code}"
        if not run.shares():
            return "did not share memory"
        if run.losses() != expected:
            return "other losses than over the network"
    elif "rank" not in run.log.read_text(errors="replace"):
        return "an error that names no rank"
    return ""


def soak(folder: Path, binary: Path, seconds: float, seed: int) -> tuple[Counter[str], list[str]]:
    corpus(folder / "text.txt", most_bytes=1 << 18)
    rng = random.Random(seed)
    expected = {}
    for ranks in (2, 3):
        run = Run(folder, binary, ranks, shared=False)
        if run.end() != 0:
            sys.exit(run.log.read_text(errors="replace"))
        expected[ranks] = run.losses()
    done: Counter[str] = Counter()
    faults = []
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        kind = rng.choice(["finish", "kill", "kill", "stop", "pause"])
        ranks = rng.choice([2, 3])
        run = Run(folder, binary, ranks, shared=True)
        disturb(run, kind, rng)
        wrong = fault(run, kind, expected[ranks])
        done[kind] += 1
        if wrong:
            faults.append(f"{kind}, {ranks} ranks: {wrong}")
            print(faults[-1], "\n", run.log.read_text(errors="replace")[-2000:], flush=True)
    return done, faults


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--build", type=Path, help="folder of the build; default: the newest")
    parser.add_argument("--minutes", type=float, default=15)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--quick", action="store_true", help="a minute; nothing is saved")
    args = parser.parse_args()
    minutes = 0.7 if args.quick else args.minutes
    binary = builds.folder_with(("apps/thinwire-train",), args.build) / "apps/thinwire-train"
    with tempfile.TemporaryDirectory() as name:
        done, faults = soak(Path(name), binary, 60 * minutes, args.seed)
    print(f"{sum(done.values())} runs ({dict(done)}), {len(faults)} faults")
    made = result.make(
        "soak",
        None,
        "real",
        None,
        [result.at_most("runs that did not end as they should", len(faults), 0)],
        minutes=minutes,
        runs=dict(sorted(done.items())),
        faults=faults,
    )
    result.finish(made, None if args.quick else "soak")
    return 0


if __name__ == "__main__":
    sys.exit(main())
