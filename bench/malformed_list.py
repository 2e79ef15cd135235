"""GGUF files with one thing wrong each, made byte by byte; and edits of a real file.

Most are reports against others: llama.cpp #14595 (CVE-2025-53630 and its bypass), PR #18674,
#19856, #25821, #26051, #26318, #26690, whisper.cpp PR #3957.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

# Types of values, then of tensors.
U8, I32, U32, FLOAT, BOOL, STRING, ARRAY = 0, 5, 4, 6, 7, 8, 9
F32, Q4_0, Q8_0 = 0, 2, 8

# An inspection sees what is malformed; what is merely no model needs somebody to make one of it.
READERS = ("inspect", "run")
RUNNERS = ("run",)


@dataclass(frozen=True)
class Case:
    """A file, which commands must refuse it, and what their one line must name."""

    name: str
    content: bytes | Callable[[], bytes]  # called where it is large
    names: tuple[str, ...]
    commands: tuple[str, ...] = READERS
    size: int | None = None  # bytes of the file; what `content` lacks are zeros


def u32(value: int) -> bytes:
    return struct.pack("<I", value)


def u64(value: int) -> bytes:
    return struct.pack("<Q", value & (1 << 64) - 1)


def text(value: bytes) -> bytes:
    return u64(len(value)) + value


def header(tensors: int, keys: int, version: int = 3) -> bytes:
    return b"GGUF" + u32(version) + u64(tensors) + u64(keys)


def key(name: bytes, kind: int, value: bytes) -> bytes:
    return text(name) + u32(kind) + value


def array(name: bytes, kind: int, count: int, elements: bytes = b"") -> bytes:
    return key(name, ARRAY, u32(kind) + u64(count) + elements)


def tensor(name: bytes, extents: tuple[int, ...], kind: int, offset: int) -> bytes:
    """Extents as in the file, the innermost first."""
    shape = b"".join(u64(extent) for extent in extents)
    return text(name) + u32(len(extents)) + shape + u32(kind) + u64(offset)


def padded(content: bytes, more: int = 0) -> bytes:
    return content + bytes(-len(content) % 32 + more)


def small() -> bytes:
    """A file with nothing wrong."""
    return padded(
        header(2, 3)
        + key(b"general.architecture", STRING, text(b"llama"))
        + key(b"llama.block_count", U32, u32(1))
        + array(b"tokenizer.ggml.tokens", STRING, 2, text(b"a") + text(b"b"))
        + tensor(b"token_embd.weight", (32, 2), Q8_0, 0)
        + tensor(b"output_norm.weight", (32,), F32, 96),
        96 + 128,
    )


def _one_key(entry: bytes) -> bytes:
    return header(0, 1) + entry


def _one_tensor(extents: tuple[int, ...], kind: int, offset: int = 0) -> bytes:
    return padded(header(1, 0) + tensor(b"blk.0.w", extents, kind, offset), 256)


def _aligned(kind: int, value: int) -> bytes:
    return _one_key(key(b"general.alignment", kind, u32(value)))


def _byte_swapped() -> bytes:
    return b"GGUF" + struct.pack(">IQQ", 3, 0, 0)


def _sums() -> bytes:
    infos = b"".join(tensor(b"blk.%d.w" % i, (1 << 60,), F32, 0) for i in range(4))
    return padded(header(4, 0) + infos, 64)


def synthetic() -> list[Case]:
    w, alignment = '"blk.0.w"', '"general.alignment"'
    twice = key(b"a.key", U8, b"\0")
    pair = tensor(b"blk.0.w", (8,), F32, 0) + tensor(b"blk.0.w", (8,), F32, 32)
    overlap = tensor(b"blk.0.w", (8,), F32, 0) + tensor(b"blk.1.w", (16,), F32, 0)
    whole = small()
    return [
        Case("empty", b"", ("empty",)),
        Case("magic only", b"GGUF", ("version",)),
        Case("bad magic", b"GGML" + whole[4:], ("not a GGUF file",)),
        Case("magic the other way round", b"FUGG" + whole[4:], ("byte order",)),
        Case("version 0", header(0, 0, 0), ("version 0",)),
        Case("version 1", header(0, 0, 1), ("version 1",)),
        Case("version 99", header(0, 0, 99), ("version 99",)),
        Case("big-endian", _byte_swapped(), ("big-endian",)),
        Case("2^62 tensors", header(1 << 62, 0), ("4611686018427387904 tensors",)),
        Case("-1 tensors", header(-1, 0), ("tensors",)),
        Case("2^61 keys", header(0, 1 << 61), ("2305843009213693952 keys",)),
        Case("string of 2^63", _one_key(key(b"a.key", STRING, u64(1 << 63))), ('"a.key"',)),
        Case("string of 2^30", _one_key(key(b"a.key", STRING, u64(1 << 30))), ('"a.key"',)),
        Case("name of 2^63", _one_key(u64(1 << 63) + bytes(9)), ("key 1 of 1",)),
        Case("array of 2^30", _one_key(array(b"a.key", U32, 1 << 30, bytes(8))), ('"a.key"',)),
        Case("strings, 2^61", _one_key(array(b"a.key", STRING, 1 << 61, bytes(8))), ('"a.key"',)),
        Case(
            "array of arrays",
            _one_key(array(b"a.key", ARRAY, 1, u32(U32) + u64(0))),
            ('"a.key"', "array of arrays"),
        ),
        Case("unknown type of a value", _one_key(key(b"a.key", 13, bytes(8))), ('"a.key"', "13")),
        Case("bool of 2", _one_key(key(b"a.key", BOOL, b"\2")), ('"a.key"',)),
        Case("name without UTF-8", _one_key(key(b"\xff\xfe", U8, b"\0")), ("key 1 of 1", "UTF-8")),
        Case("duplicate key", header(0, 2) + twice + twice, ('"a.key"', "twice")),
        Case("alignment 0", _aligned(U32, 0), (alignment, "found 0")),
        Case("alignment 3", _aligned(U32, 3), (alignment, "found 3")),
        Case("alignment of a wrong type", _aligned(I32, 32), (alignment, "i32")),
        Case("5 extents", _one_tensor((1, 1, 1, 1, 1), F32), (w, "5 extents")),
        Case(
            "2^32 - 1 extents",
            padded(header(1, 0) + text(b"blk.0.w") + u32((1 << 32) - 1), 256),
            (w, "4294967295 extents"),
        ),
        Case("product above 2^64", _one_tensor(((1 << 42) + 1, 1 << 22), F32), (w, "64 bits")),
        Case("bytes above 2^63", _one_tensor((1 << 40, 1 << 22), F32), (w, "64 bits")),
        Case("sizes that sum up to 2^64", _sums(), ('"blk.0.w"',)),
        Case("negative extent", _one_tensor((-1, 2), F32), (w, "extent of -1")),
        Case("extent of 0", _one_tensor((0, 2), F32), (w, "extent of 0")),
        Case("removed type 4", _one_tensor((32,), 4), (w, "type 4 (Q4_2)", "removed")),
        Case("type 999", _one_tensor((32,), 999), (w, "type 999")),
        Case("row of half a block", _one_tensor((16, 2), Q4_0), (w, "rows of 16 Q4_0")),
        Case("offset past the end", _one_tensor((8,), F32, 1 << 20), (w, "1048576")),
        Case("offset near 2^64", _one_tensor((8,), F32, -32), (w, "18446744073709551584")),
        Case("unaligned offset", _one_tensor((8,), F32, 8), (w, "alignment 32")),
        Case("duplicate tensor", padded(header(2, 0) + pair, 64), (w, "twice")),
        Case("overlap", padded(header(2, 0) + overlap, 64), ("overlaps", "blk.0.w", "blk.1.w")),
        Case("cut in the header", whole[:70], ("key 2 of 3",)),
        Case("cut in the data", whole[:-40], ('"output_norm.weight"', "cut off")),
        Case("another kind of file", b"PK\3\4" + bytes(60), ("not a GGUF file",)),
    ]


class RealFile:
    """The head of a model, all but its data, for edits."""

    def __init__(self, path: Path):
        self.size = path.stat().st_size
        with path.open("rb") as file:
            self._head = file.read(min(self.size, 16 << 20))
        if self._head[:4] != b"GGUF":
            raise ValueError(f"{path}: no GGUF file")

    def _behind(self, name: bytes) -> int:
        """Where the type of a key's value, or the rank of a tensor stands."""
        found = self._head.find(text(name))
        if found < 0:
            raise ValueError(f"{name.decode()} is not in the model")
        return found + 8 + len(name)

    def _edited(self, at: int, new: bytes) -> bytes:
        return self._head[:at] + new + self._head[at + len(new) :]

    def value(self, name: bytes, new: bytes) -> Callable[[], bytes]:
        """With another value of as many bytes."""
        return partial(self._edited, self._behind(name) + 4, new)

    def other_text(self, name: bytes) -> bytes:
        """A string that no reader knows, as long as a key's value."""
        at = self._behind(name) + 4
        (length,) = struct.unpack_from("<Q", self._head, at)
        return text(b"x" * length)

    def tensor(self, name: bytes, offset: int, new: bytes) -> Callable[[], bytes]:
        """Changed at `offset` of what stands behind a tensor's name."""
        return partial(self._edited, self._behind(name) + offset, new)

    def cut(self, at: int) -> bytes:
        return self._head[:at]


def edits(path: Path) -> list[Case]:
    """Edits of a LLaMA-type model."""
    real = RealFile(path)
    matrix = b"blk.0.attn_q.weight"
    extents, kind, offset = 4, 4 + 16, 4 + 16 + 4  # where a matrix has them, behind its name
    values: list[tuple[str, bytes, bytes, tuple[str, ...]]] = [
        ("600 layers", b"llama.block_count", u32(600), ()),
        ("2^32 - 1 layers", b"llama.block_count", u32((1 << 32) - 1), ("block_count",)),
        ("end token 10^9", b"tokenizer.ggml.eos_token_id", u32(10**9), ("eos_token_id",)),
        ("no heads", b"llama.attention.head_count_kv", u32(0), ("head_count_kv",)),
        ("rows of 577", b"llama.embedding_length", u32(577), ()),
        ("token types as floats", b"tokenizer.ggml.token_type", u32(FLOAT), ("token_type",)),
    ]
    texts = (b"general.architecture", b"tokenizer.ggml.model", b"tokenizer.ggml.pre")
    values += [
        (f"unknown {key.decode()}", key, real.other_text(key), (key.decode(),)) for key in texts
    ]
    broken: list[tuple[str, Callable[[], bytes], tuple[str, ...]]] = [
        ("a byte per token", real.value(b"tokenizer.ggml.token_type", u32(U8)), ("key",)),
        ("5 extents", real.tensor(matrix, 0, u32(5)), (matrix.decode(), "5 extents")),
        ("rows of 2^40", real.tensor(matrix, extents, u64(1 << 40)), (matrix.decode(),)),
        ("type 31", real.tensor(matrix, kind, u32(31)), (matrix.decode(), "type 31")),
        ("offset 2^40", real.tensor(matrix, offset, u64(1 << 40)), (matrix.decode(),)),
    ]
    half = real.size // 2
    return [
        Case("real file, cut to half", partial(real.cut, half), ("tensor", "cut off"), size=half),
        Case("real file, cut in the tokens", real.cut(200_000), ("tokenizer.ggml.tokens",)),
        *(
            Case(f"real file, {name}", content, names, size=real.size)
            for name, content, names in broken
        ),
        *(
            Case(f"real file, {name}", real.value(where, new), names, RUNNERS, real.size)
            for name, where, new, names in values
        ),
    ]
