#!/usr/bin/env python3
"""Malformed GGUF files: does each end in one line that names what is wrong, at once?

  python3 bench/malformed.py --model model.gguf    # with edits of a real file; saves the result
  python3 bench/malformed.py --quick               # made files only; nothing is saved

Each file must be refused with exit code 2 and one line that names the key or tensor, within a
second of processor time and half a gigabyte of addresses beyond the file; files with random damage
must be read or refused so.
"""

from __future__ import annotations

import argparse
import random
import re
import resource
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import builds
import malformed_list
import result
from malformed_list import Case

_BINARY = "apps/thinwire"
_MOST_SECONDS = 1.0
_KILLED_AFTER_S = 30
_ADDRESSES = 1 << 29  # beyond the file: an allocation by what a file announces fails and is seen
_BAD_INPUT = 2  # the exit code


@dataclass
class Outcome:
    code: int  # negative: the signal that ended it
    seconds: float  # of processors: what else a machine does is left out
    output: str


def run(command: list[str], file_bytes: int = 0) -> Outcome:
    """One process under limits."""
    addresses = _ADDRESSES + file_bytes

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (addresses, addresses))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

    def used() -> float:
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        return usage.ru_utime + usage.ru_stime

    before = used()
    try:
        done = subprocess.run(
            command, capture_output=True, timeout=_KILLED_AFTER_S, preexec_fn=limit, check=False
        )
    except subprocess.TimeoutExpired:
        return Outcome(-signal.SIGKILL, used() - before, "")
    return Outcome(done.returncode, used() - before, done.stderr.decode(errors="replace"))


def complaint(case: Case, outcome: Outcome) -> str:
    """What is wrong with how a command took the file; empty if nothing is."""
    if outcome.code != _BAD_INPUT:
        return f"exit code {outcome.code}"
    if outcome.output.count("\n") != 1 or not outcome.output.startswith("thinwire: "):
        return "more than one line" if outcome.output else "no message"
    missing = [name for name in case.names if name not in outcome.output]
    if missing:
        return f"the message lacks {missing[0]}"
    return f"{outcome.seconds:.1f} s" if outcome.seconds >= _MOST_SECONDS else ""


def arguments(thinwire: Path, command: str, path: Path) -> list[str]:
    more = ["-p", "x"] if command == "run" else []
    return [str(thinwire), command, str(path), *more]


def write(path: Path, case: Case) -> None:
    with path.open("wb") as file:
        file.write(case.content if isinstance(case.content, bytes) else case.content())
        if case.size is not None:
            file.truncate(case.size)


def check(thinwire: Path, cases: list[Case], commands: set[str], folder: Path) -> list[Any]:
    rows = []
    for case in cases:
        path = folder / "x.gguf"
        write(path, case)
        for command in sorted(commands.intersection(case.commands)):
            outcome = run(arguments(thinwire, command, path), path.stat().st_size)
            wrong = complaint(case, outcome)
            message = outcome.output.strip().removeprefix(f"thinwire: {path}: ")
            said = f"WRONG: {wrong}: {message[:60]}" if wrong else message[:100]
            print(f"{command:7} {case.name:34} {said}", flush=True)
            rows.append(
                {
                    "case": case.name,
                    "command": command,
                    "ok": not wrong,
                    "wrong": wrong,
                    "message": message[:300],
                    "seconds": round(outcome.seconds, 4),
                }
            )
    return rows


def damaged(seed: int, whole: bytes) -> bytes:
    """`whole` with a few bytes, a word or its end changed."""
    dice = random.Random(seed)
    content = bytearray(whole)
    for _ in range(dice.randint(1, 3)):
        at = dice.randrange(len(content))
        match dice.randrange(4):
            case 0:
                content[at] = dice.randrange(256)
            case 1:
                word = dice.choice((0, 1, 1 << 31, 1 << 32, 1 << 61, 1 << 63, (1 << 64) - 1))
                content[at : at + 8] = malformed_list.u64(word)[: len(content) - at]
            case 2:
                del content[at : at + dice.randint(1, 16)]
            case 3:
                del content[max(at, 1) :]
    return bytes(content)


def check_damaged(thinwire: Path, count: int, folder: Path) -> list[str]:
    """Of `count` files with random damage, those that end in anything but an answer."""
    whole, path, failed = malformed_list.small(), folder / "x.gguf", []
    for seed in range(count):
        path.write_bytes(damaged(seed, whole))
        outcome = run(arguments(thinwire, "inspect", path))
        if outcome.code not in (0, _BAD_INPUT) or outcome.seconds >= _MOST_SECONDS:
            failed.append(f"seed {seed}: exit code {outcome.code}, {outcome.seconds:.2f} s")
    return failed


def bars_of(rows: list[Any], failed: list[str]) -> list[result.Bar]:
    return [
        result.at_most("malformed files taken wrongly", sum(not row["ok"] for row in rows), 0),
        result.at_most("files with random damage taken wrongly", len(failed), 0),
        result.at_most(
            "s of processor time for the slowest",
            max(row["seconds"] for row in rows),
            _MOST_SECONDS,
        ),
    ]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--build", type=Path, help="folder of the build; default: build/release")
    parser.add_argument("--model", type=Path, help="a real LLaMA-type GGUF file to edit")
    parser.add_argument("--damaged", type=int, default=1000, help="files with random damage")
    parser.add_argument("--quick", action="store_true", help="some seconds; nothing is saved")
    args = parser.parse_args()
    thinwire = builds.folder_with((_BINARY,), args.build) / _BINARY
    cases = malformed_list.synthetic() + (malformed_list.edits(args.model) if args.model else [])
    help_text = subprocess.run(
        [str(thinwire), "--help"], capture_output=True, text=True, check=True
    )
    commands = set(re.findall(r"^  (inspect|run)\b", help_text.stdout, re.MULTILINE))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "whole.gguf").write_bytes(malformed_list.small())
        whole = run(arguments(thinwire, "inspect", folder / "whole.gguf"))
        if whole.code != 0:
            sys.exit(f"a file with nothing wrong is refused: {whole.output}")
        rows = check(thinwire, cases, commands, folder)
        failed = check_damaged(thinwire, 50 if args.quick else args.damaged, folder)
    for line in failed:
        print(line)
    waiting = [case.name for case in cases if not commands.intersection(case.commands)]
    if waiting:
        print(f"not tried, for want of `thinwire run`: {', '.join(waiting)}")
    made = result.make(
        "malformed",
        args.model.name if args.model else None,
        "real",
        None,
        bars_of(rows, failed),
        commands=sorted(commands),
        damaged=50 if args.quick else args.damaged,
        not_tried=waiting,
        rows=rows,
    )

    result.finish(made, None if args.quick or not args.model else "malformed")
    return int(any(bar["holds"] is False for bar in made["bars"]))


if __name__ == "__main__":
    sys.exit(main())
