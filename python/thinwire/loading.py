"""First values from files, a unit at a time."""

import torch

from thinwire import pretrained
from thinwire.absent import check_buffers, is_blank
from thinwire.initializing import naming, reset_of
from thinwire.native import _native


class Loading:
    def __init__(self, module, into, absent, files, function):
        self._root = module
        self._into = into
        self._absent = absent
        self._files = files
        self._function = function
        self._names = {}
        for name, parameter in module.named_parameters(remove_duplicate=False):
            self._names.setdefault(parameter, []).append(name)
        # In no unit: every rank has them.
        self._whole = self._names.keys() - {
            parameter for unit in into.units for parameter in unit.parameters.values()
        }
        self._buffers = dict(module.named_buffers(remove_duplicate=False))
        files.rename(pretrained.names_of(module, files.keys()))

    def run(self):
        keys = self._keys()
        for u, unit in enumerate(self._into.units):
            with self._files.opened() as get:
                here = [parameter for parameter in unit.parameters.values() if parameter in keys]
                self._into.take(u, {parameter: get(keys[parameter]) for parameter in here})
        with self._files.opened() as get, torch.no_grad():
            for parameter in self._whole & keys.keys():
                parameter.data = get(keys[parameter]).to(parameter.dtype, copy=True)
            for name, buffer in self._buffers.items():
                if name in self._files:
                    buffer.copy_(get(name))
        self._initialize_buffers()
        check_buffers(
            self._root,
            self._absent,
            "it is not in the files and its module has no reset_parameters() for it; add a "
            "function(module) to weights=, or make the module outside of torch.device('meta')",
        )

    def _keys(self):
        """{parameter: its key in the files}, all of them checked."""
        persistent = self._root.state_dict(keep_vars=True).keys()
        troubles = []
        keys = {}
        for parameter, names in self._names.items():
            found = [name for name in names if name in self._files]
            if found:
                keys[parameter] = found[0]
                troubles += self._ties(found)
                troubles += self._shape(found[0], parameter)
                kind = self._files.type(found[0])
                if parameter not in self._whole and (kind[0] not in "FB" or kind == "BOOL"):
                    troubles.append(f"key {found[0]}: expected a float type, found {kind}")
            elif parameter in self._absent.parameters:
                troubles.append(f"key {names[0]}: expected {list(parameter.shape)}, found none")
        for name, buffer in self._buffers.items():
            if name in self._files:
                troubles += self._shape(name, buffer)
            elif name in self._absent.buffers and name in persistent:
                troubles.append(f"key {name}: expected {list(buffer.shape)}, found none")
        known = {name for names in self._names.values() for name in names} | self._buffers.keys()
        for key in self._files.keys() - known:
            troubles.append(f"key {key}: the model has none of this name, the files have")
        if troubles:
            more = f" (and {len(troubles) - 1} more)" if len(troubles) > 1 else ""
            raise _native.UsageError(
                f"weights: {self._files.path}: {sorted(troubles)[0]}{more}: expected the files of "
                "this model"
            )
        return keys

    def _shape(self, key, tensor):
        found = self._files.shape(key)
        if found == list(tensor.shape):
            return []
        return [f"key {key}: expected {list(tensor.shape)}, found {found}"]

    def _ties(self, found):
        return [
            f"keys {found[0]} and {other}: the model ties them, the files have two values"
            for other in found[1:]
            if self._files.shape(found[0]) != self._files.shape(other)
            or not self._files.same(found[0], other)
        ]

    def _initialize_buffers(self):
        """Those that no file has; outside of models of transformers, of modules without
        parameters."""
        blank = {id(each) for each in self._root.buffers() if is_blank(each)}
        there = [each for each in self._root.buffers() if id(each) not in blank]
        with torch.no_grad(), pretrained.kept([*self._names, *there]):
            for path, module, model in pretrained.modules_of(self._root):
                if not any(id(each) in blank for each in module.buffers(recurse=False)):
                    continue
                own = any(True for _ in module.parameters(recurse=False))
                initialize = self._function or model
                with naming(module, path):
                    if initialize is not None and (initialize is model or not own):
                        initialize(module)
                    elif not own and reset_of(module) is not None:
                        reset_of(module)()
