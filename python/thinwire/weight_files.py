"""The weights of a model in safetensors files, read where and when they are needed."""

import contextlib
import json
from pathlib import Path

import safetensors
import torch

from thinwire.native import _native

_INDEX = "model.safetensors.index.json"
_SINGLE = "model.safetensors"


class WeightFiles:
    """`path`: a file, an index of several, or a directory with model.safetensors or an index. Only
    headers are read here."""

    def __init__(self, path):
        self.path = Path(path)
        files = _files(self.path)
        self._file_of = {}
        self._shapes = {}
        self._types = {}
        self._key_of = {}
        for file, expected in files.items():
            with _opened(file) as opened:
                for key in opened.keys():  # noqa: SIM118 (it is no dict)
                    if key in self._file_of:
                        raise _native.UsageError(f"{file}: key {key} is in another file, too")
                    self._file_of[key] = file
                    part = opened.get_slice(key)
                    self._shapes[key] = list(part.get_shape())
                    self._types[key] = part.get_dtype()
                    self._key_of[key] = key
            if absent := sorted(key for key in expected if self._file_of.get(key) != file):
                raise _native.UsageError(
                    f"{file}: expected key {absent[0]}, as the index says, found none"
                )

    def __contains__(self, key):
        return key in self._shapes

    def rename(self, names):
        """From here on, what a file calls `key` is names[key]; what is not in it is left out."""
        keys = {}
        for key, name in names.items():
            if name in keys:
                raise _native.UsageError(
                    f"{self.path}: keys {keys[name]} and {key} are both {name} in the model"
                )
            keys[name] = key
        self._key_of = {name: self._key_of[key] for name, key in keys.items()}
        for table in (self._file_of, self._shapes, self._types):
            before = dict(table)
            table.clear()
            table.update((name, before[key]) for name, key in keys.items())

    def keys(self):
        return self._shapes.keys()

    def shape(self, key):
        return self._shapes[key]

    def type(self, key):
        """As safetensors spells it: F32, BF16, I64 ..."""
        return self._types[key]

    @contextlib.contextmanager
    def opened(self):
        """get(key) -> tensor, mapped from its file: what of it is not touched is not read. Nothing
        of it may live on after the end."""
        with contextlib.ExitStack() as stack:
            files = {}

            def get(key):
                file = self._file_of[key]
                if file not in files:
                    files[file] = stack.enter_context(_opened(file))
                return files[file].get_tensor(self._key_of[key])

            yield get

    def same(self, first, second):
        with self.opened() as get:
            return torch.equal(get(first), get(second))


def _files(path):
    """{file: the keys that an index expects there}."""
    if path.is_dir():
        for name in (_INDEX, _SINGLE):
            if (path / name).is_file():
                return _files(path / name)
        raise _native.UsageError(f"weights: {path} has neither {_SINGLE} nor {_INDEX}")
    if not path.is_file():
        raise _native.UsageError(f"weights: no file or directory {path}")
    if path.suffix != ".json":
        return {path: ()}
    try:
        weight_map = json.loads(path.read_text())["weight_map"]
        entries = list(weight_map.items())
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise _native.UsageError(
            f'{path}: expected a JSON object with a "weight_map" of keys to files'
        ) from error
    files = {}
    for key, name in entries:
        if not isinstance(name, str) or Path(name).name != name:
            raise _native.UsageError(
                f"{path}: key {key}: expected a file's name without a path, found {name!r}"
            )
        files.setdefault(path.parent / name, []).append(key)
    return files


@contextlib.contextmanager
def _opened(file):
    try:
        opened = safetensors.safe_open(file, "pt")
    except FileNotFoundError as error:
        raise _native.UsageError(f"{file}: named by the index, but not there") from error
    except safetensors.SafetensorError as error:
        raise _native.UsageError(f"{file}: no safetensors file: {error}") from error
    with opened:
        yield opened
