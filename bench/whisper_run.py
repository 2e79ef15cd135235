"""One Whisper model under a peer of `thinwire transcribe`: texts and seconds as JSON.

Run by whisper_peers.py in its environment. Loading is not counted.
"""

from __future__ import annotations

import argparse
import json
import resource
import struct
import time
import wave
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

Array = Any
_CT2_TYPES = {0: "<f4", 1: "i1", 2: "<i2", 3: "<i4", 4: "<f2"}
_BEAM = 5


def samples_of(path: str) -> Array:
    """A clip of 16 bits at 16 kHz."""
    with wave.open(path) as clip:
        return np.frombuffer(clip.readframes(clip.getnframes()), "<i2").astype(np.float32) / 32768


def read_ct2(path: Path) -> dict[str, Array]:
    """The tensors of CTranslate2's model.bin."""
    data, at = path.read_bytes(), 0

    def number(code: str) -> int:
        nonlocal at
        (value,) = struct.unpack_from("<" + code, data, at)
        at += struct.calcsize(code)
        return int(value)

    def text() -> str:
        nonlocal at
        size = number("H")
        at += size
        return data[at - size : at - 1].decode()

    number("I"), text(), number("I")
    tensors = {}
    for _ in range(number("I")):
        name = text()
        shape = [number("I") for _ in range(number("B"))]
        kind, size = number("B"), number("I")
        tensors[name] = np.frombuffer(data[at : at + size], _CT2_TYPES[kind]).reshape(shape)
        at += size
    return tensors


def ggml_names(ct2: dict[str, Array]) -> dict[str, Array]:
    """The tensors by whisper.cpp's names."""
    found: dict[str, Array] = {}

    def linear(name: str, weight: Array, bias: Array | None) -> None:
        found[f"{name}.weight"] = weight
        if bias is not None:
            found[f"{name}.bias"] = bias

    def norm(name: str, prefix: str) -> None:
        linear(name, ct2[f"{prefix}/gamma"], ct2[f"{prefix}/beta"])

    def attention(name: str, prefix: str, parts: list[tuple[str, int, int]], out: int) -> None:
        width = ct2[f"{prefix}/linear_0/weight"].shape[1]
        norm(f"{name}_ln", f"{prefix}/layer_norm")
        for part, layer, row in parts:
            rows = slice(row * width, (row + 1) * width)
            bias = None if part == "key" else ct2[f"{prefix}/linear_{layer}/bias"][rows]
            linear(f"{name}.{part}", ct2[f"{prefix}/linear_{layer}/weight"][rows], bias)
        last = f"{prefix}/linear_{out}"
        linear(f"{name}.out", ct2[f"{last}/weight"], ct2[f"{last}/bias"])

    own = [("query", 0, 0), ("key", 0, 1), ("value", 0, 2)]
    for side in ("encoder", "decoder"):
        found[f"{side}.positional_embedding"] = ct2[f"{side}/position_encodings/encodings"]
        layer = 0
        while f"{side}/layer_{layer}/ffn/linear_0/weight" in ct2:
            name, prefix = f"{side}.blocks.{layer}", f"{side}/layer_{layer}"
            attention(f"{name}.attn", f"{prefix}/self_attention", own, 1)
            if side == "decoder":
                cross = [("query", 0, 0), ("key", 1, 0), ("value", 1, 1)]
                attention(f"{name}.cross_attn", f"{prefix}/attention", cross, 2)
            norm(f"{name}.mlp_ln", f"{prefix}/ffn/layer_norm")
            for number, inner in ((0, 0), (2, 1)):
                layers = f"{prefix}/ffn/linear_{inner}"
                linear(f"{name}.mlp.{number}", ct2[f"{layers}/weight"], ct2[f"{layers}/bias"])
            layer += 1
    for conv in ("conv1", "conv2"):
        bias = ct2[f"encoder/{conv}/bias"].reshape(-1, 1)
        linear(f"encoder.{conv}", ct2[f"encoder/{conv}/weight"], bias)
    norm("encoder.ln_post", "encoder/layer_norm")
    norm("decoder.ln", "decoder/layer_norm")
    found["decoder.token_embedding.weight"] = ct2["decoder/embeddings/weight"]
    return found


def token_bytes(token: str) -> bytes:
    """What a token of a byte-level vocabulary stands for."""
    plain = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    alphabet = {chr(byte): byte for byte in plain}
    others = [byte for byte in range(256) if byte not in plain]
    alphabet |= {chr(256 + i): byte for i, byte in enumerate(others)}
    return bytes(alphabet[character] for character in token)


def write_ggml(folder: Path, triangles: Array, path: Path) -> None:
    """The model of CTranslate2 as whisper.cpp reads it, fp16."""
    ct2 = read_ct2(folder / "model.bin")
    tensors = ggml_names(ct2)
    layers = [sum(f"{side}.blocks.{i}.mlp_ln.bias" in tensors for i in range(99))
              for side in ("encoder", "decoder")]  # fmt: skip
    heads = [int(ct2[f"{side}/num_heads"]) for side in ("encoder", "decoder")]
    vocabulary, width = tensors["decoder.token_embedding.weight"].shape
    positions = [len(tensors[f"{side}.positional_embedding"]) for side in ("encoder", "decoder")]
    sizes = [
        *(vocabulary, positions[0], width, heads[0], layers[0]),
        *(positions[1], width, heads[1], layers[1], len(triangles), 1),
    ]
    tokens = (folder / "vocabulary.txt").read_text().split("\n")
    words = [token_bytes(token) for token in tokens[: tokens.index("<|endoftext|>")]]
    with path.open("wb") as file:
        file.write(struct.pack("<I11i", 0x67676D6C, *sizes))
        file.write(struct.pack("<2i", *triangles.shape) + triangles.astype("<f4").tobytes())
        file.write(struct.pack("<i", len(words)))
        for word in words:
            file.write(struct.pack("<i", len(word)) + word)
        for name, tensor in tensors.items():
            half = tensor.ndim > 1 and "positional" not in name and not name.endswith("bias")
            extents = tensor.shape[::-1]
            file.write(struct.pack("<3i", tensor.ndim, len(name), int(half)))
            file.write(struct.pack(f"<{tensor.ndim}i", *extents) + name.encode())
            file.write(np.ascontiguousarray(tensor, "<f2" if half else "<f4").tobytes())


def faster_whisper(folder: Path, threads: int) -> Callable[[Array], str]:
    """Its model with int8 weights, as a function of samples."""
    from faster_whisper import WhisperModel

    model = WhisperModel(str(folder), device="cpu", compute_type="int8", cpu_threads=threads)

    def run(samples: Array) -> str:
        segments, _ = model.transcribe(samples, beam_size=_BEAM)
        return " ".join(segment.text.strip() for segment in segments)

    return run


def whisper_cpp(folder: Path, threads: int) -> Callable[[Array], str]:
    """The same weights in fp16."""
    import tempfile

    from faster_whisper.feature_extractor import FeatureExtractor
    from pywhispercpp.model import Model

    with tempfile.TemporaryDirectory() as made:
        path = Path(made) / "model.bin"
        write_ggml(folder, FeatureExtractor().mel_filters, path)
        model = Model(
            str(path),
            n_threads=threads,
            params_sampling_strategy=1,
            beam_search={"beam_size": _BEAM, "patience": -1.0},
            redirect_whispercpp_logs_to=None,
            print_progress=False,
        )

    def run(samples: Array) -> str:
        return " ".join(segment.text.strip() for segment in model.transcribe(samples))

    return run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("peer", choices=("faster-whisper", "whisper.cpp"))
    parser.add_argument("model", type=Path)
    parser.add_argument("clips", nargs="+")
    parser.add_argument("--threads", type=int, required=True)
    args = parser.parse_args()
    make = faster_whisper if args.peer == "faster-whisper" else whisper_cpp
    run = make(args.model, args.threads)
    clips = [samples_of(path) for path in args.clips]
    begun, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_SELF)
    texts = [run(clip) for clip in clips]
    wall, after = time.perf_counter() - begun, resource.getrusage(resource.RUSAGE_SELF)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    print(json.dumps({"texts": texts, "cpu_s": cpu, "wall_s": wall}))


if __name__ == "__main__":
    main()
