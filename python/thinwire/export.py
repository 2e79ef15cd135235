"""The whole model as safetensors files, in the layout that Hugging Face's libraries read."""

import errno
import json
import os
import re
import shutil
import struct
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import nn

from thinwire.native import _native
from thinwire.together import together

_NAMES = {
    torch.float64: "F64",
    torch.float32: "F32",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.int64: "I64",
    torch.int32: "I32",
    torch.int16: "I16",
    torch.int8: "I8",
    torch.uint8: "U8",
    torch.bool: "BOOL",
}
_SIZES = {"": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30}
_TEMPORARY = ".thinwire.tmp"


def save(module, shards, session, rank, directory, filename, frozen, max_shard_size, dtype):
    """Every rank calls it. Rank 0 writes; a unit at a time is in memory as a whole. The files are
    there when all of them are complete; what an export left there before is replaced."""
    tensors, ties = _content(module, shards, frozen, dtype)
    files = _files(Path(directory), filename, tensors, ties, _bytes_of(max_shard_size))
    what = f"save_16bit_model into {directory}"
    writer = _Writer(Path(directory), filename, files) if rank == 0 else None
    try:
        with together(session, what):
            if writer is not None:
                writer.begin()
        wanted = {each.value: each for each in tensors.values() if each.value in shards}
        for unit in shards.by_unit(wanted):
            whole = shards.gather_unit(unit, lambda p: wanted[p].dtype)
            with together(session, what):
                if writer is not None:
                    for parameter in unit:
                        writer.write(wanted[parameter].name, whole[parameter])
            del whole
        with together(session, what):
            if writer is not None:
                for name, each in tensors.items():
                    if each.value not in shards:
                        writer.write(name, each.value)
                writer.publish()
    finally:
        if writer is not None:
            writer.close()


@dataclass
class _Tensor:
    name: str
    value: torch.Tensor  # a parameter that may be without values, or a buffer
    dtype: torch.dtype

    @property
    def bytes(self):
        return self.value.numel() * self.dtype.itemsize


@dataclass
class _File:
    name: str
    tensors: list = field(default_factory=list)
    metadata: dict = field(default_factory=dict)

    def layout(self):
        """(header, {name: offset in the file}, bytes of the file). Elements of larger types come
        first, so that all are aligned."""
        places, header, end = {}, {"__metadata__": self.metadata}, 0
        for each in sorted(self.tensors, key=lambda each: -each.dtype.itemsize):
            places[each.name] = end
            header[each.name] = {
                "dtype": _NAMES[each.dtype],
                "shape": list(each.value.shape),
                "data_offsets": [end, end + each.bytes],
            }
            end += each.bytes
        text = json.dumps(header, separators=(",", ":")).encode()
        text += b" " * (-len(text) % 8)
        start = 8 + len(text)
        offsets = {name: start + place for name, place in places.items()}
        return struct.pack("<Q", len(text)) + text, offsets, start + end


def _content(module, shards, frozen, dtype):
    """({name: _Tensor}, {other name of it: name}). Of tied names the model's first is kept."""
    first, tensors, ties = {}, {}, {}
    if dtype is not None and not (dtype in _NAMES and dtype.is_floating_point):
        raise _native.UsageError(
            "save_16bit_model: dtype=: expected a type of torch such as torch.bfloat16, found "
            f"{dtype}"
        )
    for name, value in module.state_dict(keep_vars=True).items():
        if not isinstance(value, torch.Tensor):
            raise _native.UsageError(
                f"save_16bit_model: {name} of the state is {type(value).__name__}, and safetensors "
                "files hold tensors only: save it with save_checkpoint's client_state"
            )
        if not frozen and isinstance(value, nn.Parameter) and not value.requires_grad:
            continue
        kind = value.dtype
        if dtype is not None and kind.is_floating_point and value in shards:
            kind = dtype
        if kind not in _NAMES:
            raise _native.UsageError(f"save_16bit_model: {name} is {kind}, which is not offered")
        if id(value) in first:
            ties[name] = first[id(value)]
        else:
            first[id(value)] = name
            tensors[name] = _Tensor(name, value, kind)
    return tensors, ties


def _bytes_of(size):
    if isinstance(size, int) and not isinstance(size, bool) and size > 0:
        return size
    found = re.fullmatch(r"\s*(\d+)\s*([KMG]I?B)?\s*", str(size).upper())
    if not found or int(found[1]) == 0:
        raise _native.UsageError(
            f'max_shard_size: expected bytes or text such as "5GB" or "500MB", found {size!r}'
        )
    return int(found[1]) * _SIZES[found[2] or ""]


def _files(directory, filename, tensors, ties, most):
    if Path(filename).name != filename or not filename.endswith(".safetensors"):
        raise _native.UsageError(
            f"save_16bit_model: save_filename: expected a name that ends in .safetensors, found "
            f"{filename!r}"
        )
    files, size = [_File(filename)], 0
    for each in tensors.values():
        if files[-1].tensors and size + each.bytes > most:
            files.append(_File(filename))
            size = 0
        files[-1].tensors.append(each)
        size += each.bytes
    stem = filename.removesuffix(".safetensors")
    for number, file in enumerate(files):
        if len(files) > 1:
            file.name = f"{stem}-{number + 1:05}-of-{len(files):05}.safetensors"
        mine = {each.name for each in file.tensors}
        file.metadata = {"format": "pt"} | {k: v for k, v in ties.items() if v in mine}
    return files


class _Writer:
    """Files beside their places under other names, until all are complete."""

    def __init__(self, directory, filename, files):
        self._directory = directory
        self._single = directory / filename
        self._index = directory / f"{filename}.index.json"
        self._files = files
        self._place = {}  # of each tensor: (descriptor, offset, path)
        self._open = {}  # path -> descriptor

    def begin(self):
        self._directory.mkdir(parents=True, exist_ok=True)
        layouts = [(file, *file.layout()) for file in self._files]
        wanted = sum(size for *_, size in layouts)
        for left in self._directory.glob(f"*{_TEMPORARY}"):
            left.unlink()
        if wanted > (free := shutil.disk_usage(self._directory).free):
            raise _native.IoError(_full(self._single, wanted, free))
        for file, header, offsets, size in layouts:
            path = self._directory / (file.name + _TEMPORARY)
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o666)
            self._open[path] = descriptor
            self._guarded(path, size, lambda d=descriptor, n=size: os.posix_fallocate(d, 0, n))
            self._put(path, header, 0)
            self._place.update({name: (path, offset) for name, offset in offsets.items()})

    def write(self, name, tensor):
        path, offset = self._place[name]
        flat = tensor.detach().contiguous().reshape(-1)
        if flat.numel():
            self._put(path, memoryview(flat.view(torch.uint8).numpy()), offset)

    def publish(self):
        """A single file takes the old one's place at once. With several, no index is there while
        they take theirs, so that nobody reads some old and some new ones."""
        for path, descriptor in self._open.items():
            self._guarded(path, 0, lambda d=descriptor: os.fsync(d))
        self.close(keep=True)
        before = self._before()
        several = len(self._files) > 1
        if several:
            self._index.unlink(missing_ok=True)
        for file in self._files:
            os.replace(self._directory / (file.name + _TEMPORARY), self._directory / file.name)
        if several:
            self._write_index()
        now = {self._directory / file.name for file in self._files}
        for stale in before - now - ({self._index} if several else set()):
            stale.unlink(missing_ok=True)
        self._sync_directory()

    def close(self, keep=False):
        for path, descriptor in self._open.items():
            os.close(descriptor)
            if not keep:
                path.unlink(missing_ok=True)
        self._open = {}

    def _before(self):
        """What an export of this name left here."""
        stem = re.escape(self._single.name.removesuffix(".safetensors"))
        part = re.compile(stem + r"-\d{5}-of-\d{5}\.safetensors")
        mine = {self._single.name, self._index.name}
        return {p for p in self._directory.iterdir() if p.name in mine or part.fullmatch(p.name)}

    def _write_index(self):
        size = sum(each.bytes for file in self._files for each in file.tensors)
        names = {each.name: file.name for file in self._files for each in file.tensors}
        text = json.dumps({"metadata": {"total_size": size}, "weight_map": names}, indent=2)
        path = self._directory / (self._index.name + _TEMPORARY)
        with open(path, "w") as file:
            file.write(text + "\n")
            file.flush()
            os.fsync(file.fileno())
        os.replace(path, self._index)

    def _sync_directory(self):
        descriptor = os.open(self._directory, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def _put(self, path, data, offset):
        view = memoryview(data)
        at = 0
        while at < len(view):
            at += self._guarded(
                path,
                len(view) - at,
                lambda: os.pwrite(self._open[path], view[at:], offset + at),  # noqa: B023
            )

    def _guarded(self, path, wanted, call):
        try:
            return call()
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise _native.IoError(f"{path}: {error.strerror}") from error
            free = shutil.disk_usage(self._directory).free
            raise _native.IoError(_full(path, wanted, free)) from error


def _full(path, wanted, free):
    return f"{path}: {wanted} bytes wanted, {free} free: make room, or save elsewhere"
