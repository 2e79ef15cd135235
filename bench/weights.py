#!/usr/bin/env python3
"""`thinwire quantize` beside ggml: how far are the weights moved, and how long does it take?

  python3 bench/weights.py --model model.gguf   # saves the result; PRESET=release, an idle machine
  python3 bench/weights.py --quick              # fewer rows, no real ones; nothing is saved

Needs the packages gguf (whose decoder is the judge of both) and llama-cpp-python (for
libggml-base.so; --ggml names another one). Both quantize the same fp32 rows without importances, on
one thread.
"""

from __future__ import annotations

import argparse
import ctypes
import importlib.util
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import builds
import gguf
import numpy as np
import result

TYPES = (
    "Q8_0",
    "Q6_K",
    "Q5_K",
    "Q5_1",
    "Q5_0",
    "Q4_K",
    "Q4_1",
    "Q4_0",
    "IQ4_NL",
    "MXFP4",
    "Q3_K",
    "Q2_K",
)
_COMMAND = "apps/thinwire"
_BENCH = "blocks_blocks_bench"
_COLUMNS = 1024
_TENSOR = "rows.weight"

Rows = np.ndarray


def sample_rows(count: int) -> dict[str, Rows]:
    """Weights as trained matrices have them, by name."""
    random = np.random.default_rng(1)
    shape = (count, _COLUMNS)
    normal = random.normal(scale=0.02, size=shape)
    outliers = np.where(random.random(shape) < 1 / 500, 20.0, 1.0)
    made = {
        "normal": normal,
        "heavy tail": 0.02 * random.standard_t(3, size=shape),
        "outliers": normal * outliers,
    }
    return {name: rows.astype(np.float32) for name, rows in made.items()}


def model_rows(path: Path) -> Rows:
    """A thousand rows of a model's embedding, without what does not divide into 256 of each."""
    for tensor in gguf.GGUFReader(path).tensors:
        if tensor.name == "token_embd.weight":
            step = max(1, len(tensor.data) // 1000)
            rows = gguf.dequantize(tensor.data[::step], tensor.tensor_type)
            return np.ascontiguousarray(rows[:, : rows.shape[1] // 256 * 256])
    sys.exit(f"{path} has no token_embd.weight")


def ggml_library(named: Path | None) -> ctypes.CDLL:
    package = importlib.util.find_spec("llama_cpp")
    path = named
    if path is None and package is not None and package.origin is not None:
        path = Path(package.origin).parent / "lib" / "libggml-base.so"
    if path is None or not path.exists():
        sys.exit("no libggml-base.so: pip install llama-cpp-python, or name one with --ggml")
    library = ctypes.CDLL(str(path), mode=ctypes.RTLD_GLOBAL | 1)  # 1: RTLD_LAZY
    library.ggml_quantize_chunk.restype = ctypes.c_size_t
    return library


class Ggml:
    def __init__(self, library: ctypes.CDLL) -> None:
        self._library = library

    def quantize(self, rows: Rows, type_: str) -> tuple[Rows, float]:
        """What becomes of the rows, and seconds of processor time."""
        kind = gguf.GGMLQuantizationType[type_]
        elements, size = gguf.GGML_QUANT_SIZES[kind]
        blocks = np.empty((rows.shape[0], rows.shape[1] // elements * size), dtype=np.uint8)
        begin = time.thread_time()
        self._library.ggml_quantize_chunk(
            ctypes.c_int(kind),
            rows.ctypes.data_as(ctypes.c_void_p),
            blocks.ctypes.data_as(ctypes.c_void_p),
            ctypes.c_int64(0),
            ctypes.c_int64(rows.shape[0]),
            ctypes.c_int64(rows.shape[1]),
            None,
        )
        return gguf.dequantize(blocks, kind), time.thread_time() - begin


class Thinwire:
    def __init__(self, folder: Path, work: Path) -> None:
        self._folder = folder
        self._work = work

    def quantize(self, rows: Rows, type_: str) -> Rows:
        """Through files and the command, read by the gguf package."""
        source, out = self._work / "in.gguf", self._work / "out.gguf"
        writer = gguf.GGUFWriter(source, "llama")
        writer.add_tensor(_TENSOR, rows)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        subprocess.run(
            [self._folder / _COMMAND, "quantize", source, out, type_],
            check=True,
            stdout=subprocess.DEVNULL,
        )
        tensor = gguf.GGUFReader(out).tensors[0]
        if tensor.tensor_type.name != type_:
            sys.exit(f"{type_} was asked for, {tensor.tensor_type.name} was written")
        return gguf.dequantize(tensor.data, tensor.tensor_type)

    def speeds(self, quick: bool) -> dict[tuple[str, str], float]:
        """Weights a microsecond of processor time by ("encode" or "decode", type), on the best
        instruction set."""
        command = [
            self._folder / _BENCH,
            "--benchmark_format=json",
            f"--benchmark_min_time={0.05 if quick else 0.1}",
        ]
        shown = subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout
        best: dict[tuple[str, str], float] = {}
        for row in json.loads(shown)["benchmarks"]:
            what, type_, _ = row["name"].split("/")
            rate = row["items_per_second"] / 1e6
            best[what, type_] = max(best.get((what, type_), 0.0), rate)
        return best


def relative_error(rows: Rows, others: Rows) -> float:
    missed = (rows.astype(np.float64) - others.reshape(rows.shape)) ** 2
    return float(np.sqrt(missed.sum() / (rows.astype(np.float64) ** 2).sum()))


def ratio(errors: dict[str, float]) -> float:
    """Of our error to ggml's. Neither has one where the rows come from blocks of this type."""
    if errors["thinwire"] == errors["ggml"]:
        return 1.0
    return errors["thinwire"] / errors["ggml"] if errors["ggml"] > 0 else float("inf")


def compare(
    kinds: dict[str, Rows], ours: Thinwire, ggml: Ggml, speeds: dict[tuple[str, str], float]
) -> Iterator[dict[str, Any]]:
    """A row per type."""
    for type_ in TYPES:
        elements, size = gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType[type_]]
        errors, seconds = {}, []
        for name, rows in kinds.items():
            theirs, took = ggml.quantize(rows, type_)
            seconds.append(took / rows.size)
            errors[name] = {
                "thinwire": relative_error(rows, ours.quantize(rows, type_)),
                "ggml": relative_error(rows, theirs),
            }
            errors[name]["ratio"] = ratio(errors[name])
        yield {
            "type": type_,
            "bits": 8 * size / elements,
            "errors": errors,
            "encoded_per_us": speeds["encode", type_],
            "ggml_encoded_per_us": 1e-6 / min(seconds),
            "decoded_per_us": speeds["decode", type_],
        }


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--build", type=Path, help="folder of the build; default: build/release")
    parser.add_argument("--model", type=Path, help="a GGUF file whose embedding is a fourth kind")
    parser.add_argument("--ggml", type=Path, help="libggml-base.so")
    parser.add_argument("--quick", action="store_true", help="under a minute; nothing is saved")
    args = parser.parse_args()
    if not args.quick and args.model is None:
        parser.error("the full form needs --model")
    folder = builds.folder_with((_COMMAND, _BENCH), args.build)
    kinds = sample_rows(64 if args.quick else 512)
    if args.model is not None:
        kinds["embedding"] = model_rows(args.model)
    rows = []
    with tempfile.TemporaryDirectory() as work:
        ours = Thinwire(folder, Path(work))
        for row in compare(kinds, ours, Ggml(ggml_library(args.ggml)), ours.speeds(args.quick)):
            rows.append(row)
            ratios = [f"{e['ratio']:.3f}" for e in row["errors"].values()]
            print(
                f"{row['type']:7} error / ggml's {' '.join(ratios)};"
                f" {row['encoded_per_us']:.0f} weights/us, ggml {row['ggml_encoded_per_us']:.0f}",
                flush=True,
            )
    worst = max(e["ratio"] for row in rows for e in row["errors"].values())
    made = result.make(
        "weights",
        args.model.name if args.model else None,
        "real",
        None,
        [result.at_most("error / ggml's, worst type and rows", worst, 1.0)],
        build=folder.resolve().name,
        rows=rows,
    )
    result.finish(made, None if args.quick else "weights")
    return 0


if __name__ == "__main__":
    sys.exit(main())
