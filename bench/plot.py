#!/usr/bin/env python3
"""Draws docs/links.svg from the committed results: the time of a step over the speed of the link,
of thinwire's recipes (links.json) and of the peers (peers-MBIT.json).

  python3 bench/plot.py       # needs .bench-venv, which peers.py makes
"""

from __future__ import annotations

import os
import sys
from typing import Any

import peers_env
from result import ROOT
from tables import load

_PICTURE = ROOT / "docs" / "links.svg"
_UNLIMITED = 4000.0  # Mbit/s: where "no limit" stands on the axis
_PEERS = {"fsdp2": "FSDP2", "deepspeed": "DeepSpeed ZeRO-3", "hsdp": "HSDP", "ddp": "DDP"}

Curve = tuple[list[float], list[float]]


def curves(results: dict[str, dict[str, Any]]) -> tuple[dict[str, Curve], dict[str, Curve]]:
    """(rates, seconds per step) of each recipe and of each peer."""
    points: dict[str, list[tuple[float, float]]] = {}
    for row in results["links"]["rows"]:
        points.setdefault(row["recipe"], []).append((row["mbit"], row["step_s"]))
    of_peers: dict[str, list[tuple[float, float]]] = {}
    for rate in sorted({row["mbit"] for row in results["links"]["rows"]}):
        for run in results.get(f"peers-{rate:g}", {}).get("runs", []):
            if run["name"] in _PEERS:
                of_peers.setdefault(_PEERS[run["name"]], []).append((rate, run["step_s"]))

    def curve(found: list[tuple[float, float]]) -> Curve:
        by_rate = sorted((rate or _UNLIMITED, seconds) for rate, seconds in found)
        return [rate for rate, _ in by_rate], [seconds for _, seconds in by_rate]

    return (
        {name: curve(found) for name, found in points.items()},
        {name: curve(found) for name, found in of_peers.items()},
    )


def draw(results: dict[str, dict[str, Any]]) -> None:
    """Writes the picture."""
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "thinwire"  # the same bytes each time
    from matplotlib import pyplot

    ours, theirs = curves(results)
    figure, axes = pyplot.subplots(figsize=(8, 5))
    for name, (rates, seconds) in theirs.items():
        axes.plot(rates, seconds, "--", marker=".", color="gray", linewidth=1)
        axes.annotate(name, (rates[0], seconds[0]), fontsize=8, color="gray")
    for name, (rates, seconds) in ours.items():
        if name == "auto":
            axes.plot(rates, seconds, "o", mfc="none", ms=10, color="black", label=name)
        else:
            axes.plot(rates, seconds, marker="o", ms=4, label=name)
    ticks = sorted({rate for rates, _ in ours.values() for rate in rates})
    kappas = {row["mbit"]: row["kappa"] for row in results["links"]["rows"]}
    axes.set(xscale="log", yscale="log", ylabel="seconds per step")
    axes.set_xlabel(
        "Mbit/s that a host sends; below it kappa, link time over compute time of ZeRO-3"
    )
    labels = [
        "no limit" if rate == _UNLIMITED else f"{rate:g}\n{kappas.get(rate) or '-'}"
        for rate in ticks
    ]
    axes.set_xticks(ticks, labels)
    axes.minorticks_off()
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(_PICTURE, metadata={"Date": None})
    print(f"wrote {_PICTURE.relative_to(ROOT)}")


def main() -> int:
    python = peers_env.PEERS.python()
    if sys.executable != str(python):
        peers_env.ensure()
        os.execv(python, [str(python), *sys.argv])
    draw(load(ROOT / "bench" / "results"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
