#!/usr/bin/env python3
"""What is allocated on the heap while a model runs, in thinwire and in llama.cpp.

  python3 bench/mallocs.py                  # SmolLM2-135M, a prompt of 512 tokens, an answer of 128
  python3 bench/mallocs.py --model FILE     # another model; nothing is saved

The same counter is loaded before both programs and counts malloc, calloc, realloc and aligned
allocations of all threads. Of thinwire it is `thinwire bench`: what one round more allocates, all
of what a request needs included. Of llama.cpp it is llama_decode, in the second round.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import builds
import result
from llama_peers import PEER, shipped_model

_HERE = Path(__file__).parent
_BINARY = "apps/thinwire"
_PROMPT, _ANSWER = 512, 128


def counter(folder: Path) -> Path:
    """The library that counts."""
    library = folder / "mallocs.so"
    command = ["cc", "-O2", "-shared", "-fPIC", "-Wall", "-Wextra", "-Werror"]
    subprocess.run([*command, str(_HERE / "mallocs.c"), "-o", str(library)], check=True)
    return library


def total(binary: Path, model: Path, library: Path, threads: int, *more: str) -> int:
    """What `thinwire bench` allocates from its beginning to its end."""
    file = library.with_name("count")
    subprocess.run(
        [str(binary), "bench", str(model), "--json", "-t", str(threads), *more],
        env={**os.environ, "LD_PRELOAD": str(library), "MALLOCS_FILE": str(file)},
        check=True,
        stdout=subprocess.DEVNULL,
    )
    return int(file.read_text())


def ours(binary: Path, model: Path, library: Path, threads: int) -> dict[str, int]:
    found = {}
    for what, size in (
        ("prompt", ["-p", str(_PROMPT), "-n", "0"]),
        ("answer", ["-p", "0", "-n", str(_ANSWER)]),
        ("answer of half the length", ["-p", "0", "-n", str(_ANSWER // 2)]),
    ):
        rounds = [total(binary, model, library, threads, *size, "-r", r) for r in ("3", "4")]
        found[what] = rounds[1] - rounds[0]
    return found


def theirs(model: Path, library: Path, threads: int) -> dict[str, int]:
    command = [
        *(str(PEER.python()), str(_HERE / "mallocs_run.py"), str(model)),
        *("--threads", str(threads), "--prompt", str(_PROMPT), "--answer", str(_ANSWER)),
    ]
    done = subprocess.check_output(command, text=True, env={**os.environ, "LD_PRELOAD": library})
    return dict(json.loads(done.splitlines()[-1]))


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", type=Path, help="another .gguf file")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--build", type=Path, help="the folder with apps/thinwire")
    args = parser.parse_args()
    binary = builds.folder_with([_BINARY], args.build) / _BINARY
    PEER.ensure()
    model = args.model or shipped_model()
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        library = counter(Path(folder))
        for who, found in (
            ("thinwire", ours(binary, model, library, args.threads)),
            ("llama.cpp", theirs(model, library, args.threads)),
        ):
            rows.append({"engine": who, **found})
            print(
                f"{who:10} {found['prompt']} allocations in a prompt of {_PROMPT} tokens, "
                f"{found['answer'] / _ANSWER:.3f} per token of an answer of {_ANSWER}",
                flush=True,
            )
    mine = rows[0]
    per_token = (mine["answer"] - mine["answer of half the length"]) / (_ANSWER // 2)
    made = result.make(
        "mallocs",
        "SmolLM2-135M-Instruct" if args.model is None else model.name,
        "real",
        None,
        [result.at_most("allocations per token more of an answer", per_token, 0)],
        versions=result.pinned("llama-cpp-python", files=("bench/requirements-llama.txt",)),
        threads=args.threads,
        rows=rows,
    )
    result.finish(made, "mallocs" if args.model is None else None)
    return 0


if __name__ == "__main__":
    sys.exit(main())
