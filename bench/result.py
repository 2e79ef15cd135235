"""The one JSON line that every benchmark ends with, and the files under bench/results/.

A result names what was measured (commit, machine, model, kind of hosts, kappa), carries its bars
with the measured values, and whatever else the benchmark reports. Tables in README and docs are
made from the committed files (tables.py), never typed.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "bench" / "results"

Bar = dict[str, Any]


def at_most(name: str, value: float | None, bar: float) -> Bar:
    """A bar that holds when `value` <= `bar`; a value of None was not measured in this form."""
    return _bar(name, value, bar, None if value is None else value <= bar)


def at_least(name: str, value: float | None, bar: float) -> Bar:
    """A bar that holds when `value` >= `bar`; a value of None was not measured in this form."""
    return _bar(name, value, bar, None if value is None else value >= bar)


def _bar(name: str, value: float | None, bar: float, holds: bool | None) -> Bar:
    rounded = None if value is None else float(f"{value:.4g}")
    return {"name": name, "value": rounded, "bar": bar, "holds": holds}


def kappa(parameters: int, mbit: float, compute_s: float | None) -> float | None:
    """Time on the link over time of computing, both of one uncompressed step.

    kappa = F / (B T): F is what a host computes per second, B the bytes its link carries per
    second, T its tokens per step. A step computes 6 operations per parameter and token, so
    F = 6 M T / compute_s, and with it kappa = 6 M / (B compute_s): the 6 bytes that plain ZeRO-3
    sends per parameter, over the rate, against the time of computing. None without a limit.
    """
    if not mbit or not compute_s:
        return None
    return round(6 * parameters / (mbit * 1e6 / 8) / compute_s, 2)


def commit() -> str:
    """The commit measured, with "+" if the tree had changes; "unknown" outside a checkout."""
    try:
        head = _git("rev-parse", "--short=10", "HEAD")
        return head + ("+" if _git("status", "--porcelain", "--untracked-files=no") else "")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def _git(*arguments: str) -> str:
    return subprocess.check_output(
        ["git", "-C", str(ROOT), *arguments], text=True, stderr=subprocess.DEVNULL
    ).strip()


def pinned(*names: str, files: Sequence[str] = ("requirements.txt",)) -> list[str]:
    """The lines of the requirement files that pin these packages."""
    lines = [line for file in files for line in (ROOT / file).read_text().splitlines()]
    return [line for line in lines if line.partition("==")[0] in names]


def machine() -> str:
    """Processor, usable cores and memory, e.g. "AMD EPYC 7R13, 2 cores, 24 GiB"."""
    model = platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text().splitlines():
            if line.startswith("model name"):
                model = line.partition(":")[2].strip()
                break
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return f"{model}, {len(os.sched_getaffinity(0))} cores, {memory / 2**30:.0f} GiB"


def make(
    bench: str,
    model: str | None,
    hosts: str,
    kappa: float | None,
    bars: Sequence[Bar],
    **more: Any,
) -> dict[str, Any]:
    """A result; `hosts` is "real", "emulated" or "logical"."""
    if hosts not in ("real", "emulated", "logical"):
        raise ValueError(f"hosts must be real, emulated or logical, not {hosts}")
    return {
        "bench": bench,
        "commit": commit(),
        "machine": machine(),
        "model": model,
        "hosts": hosts,
        "kappa": kappa,
        "bars": list(bars),
        **more,
    }


def finish(result: dict[str, Any], save_as: str | None = None) -> None:
    """Prints the bars for people and the JSON line last; a full form saves the result."""
    for bar in result["bars"]:
        verdict = {True: "holds", False: "DOES NOT HOLD", None: "not measured in this form"}
        value = "" if bar["value"] is None else f"{bar['value']:g} "
        print(f"bar: {bar['name']}: {value}(needed {bar['bar']:g}): {verdict[bar['holds']]}")
    if save_as is not None:
        RESULTS.mkdir(exist_ok=True)
        path = RESULTS / f"{save_as}.json"
        path.write_text(json.dumps(result, indent=1) + "\n")
        print(f"saved {path.relative_to(ROOT)}")
    print(json.dumps(result), flush=True)
