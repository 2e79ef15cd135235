#!/usr/bin/env python3
"""thinwire's tokens beside those of Hugging Face's tokenizers: equal, and how fast?

  python3 bench/tokenizer_peers.py --model model.gguf           # saves the result; an idle machine
  python3 bench/tokenizer_peers.py --model model.gguf --quick   # fewer texts; nothing is saved

Needs the packages gguf, tokenizers and sentencepiece. Their tokenizer is made from the same file:
its tokens, its merges and the pre-tokenizer that it names (tests/text/pre_tokenizers.py). Compared
are ids and decoded texts of reported troublemakers, of random mixtures of alphabets, of slices of
source code, with control tokens found and not found. Speed: one thread each, over the sources of
Python's library.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

os.environ["TOKENIZERS_PARALLELISM"] = "false"
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "text"))
import builds  # noqa: E402
import gguf  # noqa: E402
import golden  # noqa: E402
import pre_tokenizers  # noqa: E402
import result  # noqa: E402
import strings  # noqa: E402
import tokenizers  # noqa: E402

_COMMAND = "apps/thinwire"
_CONTROL, _USER_DEFINED = 3, 4


def reference(path: Path) -> tokenizers.Tokenizer:
    """Hugging Face's tokenizer of the file's vocabulary."""
    reader = gguf.GGUFReader(path)

    def field(name: str) -> Any:
        return reader.fields[f"tokenizer.ggml.{name}"].contents()

    if field("model") != "gpt2" or field("pre") not in pre_tokenizers.RULES:
        sys.exit(f"{path}: only byte-level vocabularies with a known pre-tokenizer are compared")
    tokens = field("tokens")
    merges = [tuple(merge.split(" ")) for merge in field("merges")]
    model = tokenizers.models.BPE(
        vocab={token: i for i, token in enumerate(tokens)},
        merges=merges,
        ignore_merges=field("pre") in ("llama-bpe", "tekken"),
    )
    made = tokenizers.Tokenizer(model)
    made.pre_tokenizer = pre_tokenizers.byte_level(field("pre"))
    made.decoder = tokenizers.decoders.ByteLevel()
    types = field("token_type")

    def added(kind: int) -> list[tokenizers.AddedToken]:
        return [
            tokenizers.AddedToken(token, special=kind == _CONTROL, normalized=False)
            for token, type_ in zip(tokens, types, strict=True)
            if type_ == kind
        ]

    made.add_special_tokens(added(_CONTROL))
    made.add_tokens(added(_USER_DEFINED))
    return made


def texts_to_compare(count: int, source: str) -> list[str]:
    slices = [source[i : i + 300] for i in range(0, min(len(source), 300 * count), 3000)]
    return strings.REPORTED + strings.random_texts(1, count) + slices


def differences(
    command: Path, model: Path, theirs: tokenizers.Tokenizer, texts: list[str], special: bool
) -> list[str]:
    """The texts of which ids or decoded text differ."""
    theirs.encode_special_tokens = not special
    lines = "".join(json.dumps(text) + "\n" for text in texts)
    arguments = [command, "tokenize", model, "--json-lines"] + (["--special"] if special else [])
    job = subprocess.run(
        [str(a) for a in arguments], input=lines, stdout=subprocess.PIPE, text=True, check=True
    )
    found = []
    for text, line in zip(texts, job.stdout.removesuffix("\n").split("\n"), strict=True):
        ours = json.loads(line)
        ids = theirs.encode(text, add_special_tokens=False).ids
        if ours["ids"] != ids or ours["text"] != theirs.decode(ids):
            found.append(text)
    return found


def speeds(
    command: Path, model: Path, theirs: tokenizers.Tokenizer, source: str
) -> dict[str, float]:
    theirs.encode_special_tokens = True
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        file.write(source)
        file.flush()
        ours = builds.json_lines(command, "tokenize", str(model), "--speed", "-f", file.name)[-1]
    best = min(_seconds(theirs, source) for _ in range(3))
    their_rate = len(source.encode()) / 1e6 / best
    return {**ours, "hugging_face_mb_per_s": their_rate, "ratio": ours["mb_per_s"] / their_rate}


def _seconds(theirs: tokenizers.Tokenizer, source: str) -> float:
    begin = time.perf_counter()
    theirs.encode(source)
    return time.perf_counter() - begin


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--build", type=Path, help="folder of the build; default: build/release")
    parser.add_argument("--model", type=Path, required=True, help="a GGUF file")
    parser.add_argument("--quick", action="store_true", help="a few seconds; nothing is saved")
    args = parser.parse_args()
    command = builds.folder_with((_COMMAND,), args.build) / _COMMAND
    theirs = reference(args.model)
    source = golden.sources(500_000 if args.quick else 4_000_000)
    texts = texts_to_compare(500 if args.quick else 20_000, source)
    differing = []
    for special in (True, False):
        differing += differences(command, args.model, theirs, texts, special)
    for text in differing[:10]:
        print(f"differs: {text!r}")
    speed = speeds(command, args.model, theirs, source)
    print(
        f"{2 * len(texts)} comparisons, {len(differing)} differ; {speed['mb_per_s']:.1f} MB/s,"
        f" {speed['ratio']:.1f} times Hugging Face's; loaded in {speed['load_ms']:.1f} ms"
    )
    made = result.make(
        "tokenizer_peers",
        args.model.name,
        "real",
        None,
        [
            result.at_most("texts that differ", len(differing), 0),
            result.at_least("speed / Hugging Face's", speed["ratio"], 1.0),
            result.at_most("ms to load the vocabulary", speed["load_ms"], 15.0),
        ],
        build=command.parents[1].resolve().name,
        texts=len(texts),
        **speed,
    )
    result.finish(made, None if args.quick else "tokenizer_peers")
    return 0


if __name__ == "__main__":
    sys.exit(main())
