"""The first values of a model's parameters, which go into their owners' shards a unit at a time.

They are those that the parameters have, or that lie in parts on the ranks (parts.py). What was made
under torch.device("meta") gets those of safetensors files, or of an initialization that runs when
its unit's turn comes. What no file holds and how modules are initialized is for models of
transformers to say (pretrained.py).
"""

import contextlib
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import nn

from thinwire import parts, pretrained
from thinwire.native import _native
from thinwire.weight_files import WeightFiles


@dataclass
class Absent:
    """What has no values yet."""

    parameters: set
    buffers: dict  # by name: what stands in, with contents that say "no value"

    def __bool__(self):
        return bool(self.parameters or self.buffers)

    def __contains__(self, tensor):
        return tensor in self.parameters or any(tensor is each for each in self.buffers.values())


def absent(module):
    """What of `module` is on the meta device, moved to the CPU: parameters stay the same objects,
    without memory."""
    parameters = set()
    for parameter in module.parameters():
        if parameter.device.type == "meta":
            standing = nn.Parameter(_without_memory(parameter), parameter.requires_grad)
            standing.__dict__.update(parameter.__dict__)
            torch.utils.swap_tensors(parameter, standing)
            parameters.add(parameter)
    standing = {}
    for each in module.modules():
        for name, buffer in each.named_buffers(recurse=False):
            if buffer.device.type == "meta":
                each._buffers[name] = standing.setdefault(id(buffer), _blank(buffer))
    blank = {id(buffer) for buffer in standing.values()}
    buffers = {name: buffer for name, buffer in module.named_buffers() if id(buffer) in blank}
    return Absent(parameters, buffers)


def fill(session, module, units, absent, source):
    """Gives every parameter's values to the session, and its memory back. `source`: see
    initialize()."""
    into = _Shards(session, units)
    held = {parameter for unit in units for parameter in unit.parameters.values()}
    for parameter in module.parameters():
        if parts.of(parameter) is not None and parameter not in held:
            parts.lift(parameter)
    files, function = _sources(source)
    if not absent and source is not None:
        raise _native.UsageError(
            'weights= is for a model made under torch.device("meta"): this one has values already'
        )
    if files is not None:
        _Loading(module, into, absent, files, function).run()
    elif absent:
        _Initialization(module, into, absent, function).run()
    else:
        for u in range(len(units)):
            into.take(u)


def _sources(source):
    given = source if isinstance(source, (list, tuple)) else [] if source is None else [source]
    functions = [each for each in given if callable(each)]
    paths = [each for each in given if not callable(each)]
    if len(functions) > 1 or len(paths) > 1:
        raise _native.UsageError("weights: expected at most one path and one function")
    return WeightFiles(paths[0]) if paths else None, functions[0] if functions else None


def _without_memory(like):
    """All elements at one place: what writes to it raises an error."""
    return torch.empty((), dtype=like.dtype).expand(like.shape)


def _nans(parameter):
    return torch.full(parameter.shape, torch.nan, dtype=parameter.dtype)


def _blank(buffer):
    if buffer.is_floating_point():
        return torch.full(buffer.shape, torch.nan, dtype=buffer.dtype)
    if buffer.dtype == torch.bool or buffer.is_complex():
        return torch.zeros(buffer.shape, dtype=buffer.dtype)
    return torch.full(buffer.shape, torch.iinfo(buffer.dtype).min, dtype=buffer.dtype)


def _is_blank(buffer):
    if buffer.numel() == 0:
        return False
    if buffer.is_floating_point():
        return bool(buffer.isnan().any())
    if buffer.dtype == torch.bool or buffer.is_complex():
        return buffer._version == 0
    return bool((buffer == torch.iinfo(buffer.dtype).min).all())


class _Shards:
    def __init__(self, session, units):
        self._session = session
        self.units = units
        self._place = {}  # of what is taken

    def take(self, u, values=None):
        """The unit's values, where `values` has none its parameters' own."""
        values = values or {}
        parameters = list(self.units[u].parameters.values())
        for p, parameter in enumerate(parameters):
            self._place[parameter] = (u, p)
            if parameter in values or parts.of(parameter) is None:
                self._fill(parameter, values.get(parameter, parameter))
            else:
                self._fill(parameter, parts.whole(parameter))
        for parameter in parameters:
            parameter.data = _without_memory(parameter)
            if parts.of(parameter) is not None:
                parts.forget(parameter)

    def __contains__(self, parameter):
        return parameter in self._place

    def take_again(self, parameter):
        self._fill(parameter, parameter)
        parameter.data = _without_memory(parameter)

    def _fill(self, parameter, values):
        whole = values.detach().contiguous()
        self._session.fill([_native.Whole(*self._place[parameter], whole)])


def _reset_of(module):
    return getattr(module, "reset_parameters", None) or getattr(module, "_reset_parameters", None)


def _check_buffers(module, absent, remedy):
    for name in absent.buffers:
        buffer = module.get_buffer(name)
        if buffer.device.type == "meta" or _is_blank(buffer):
            raise _native.UsageError(
                f"buffer {name} is on the meta device and has no values: {remedy}"
            )


class _Initialization:
    """Runs over the modules as nn.Module.apply does, children first; around a unit's module its
    parameters are there."""

    def __init__(self, module, into, absent, function):
        self._root = module
        self._into = into
        self._absent = absent
        self._function = function
        self._units = {}
        for u, unit in enumerate(into.units):
            self._units.setdefault(unit.module, []).append(u)
        self._seen = set()
        self._done = set()  # parameters that a module's own reset has initialized

    def run(self):
        held = {parameter for unit in self._into.units for parameter in unit.parameters.values()}
        for name, parameter in self._root.named_parameters():
            if parameter in self._absent.parameters - held:
                raise _native.UsageError(
                    f"parameter {name} is {parameter.dtype} on the meta device: expected a path as "
                    "weights= of initialize(), or make it outside of torch.device('meta')"
                )
        there = [
            each
            for each in (*self._root.parameters(), *self._root.buffers())
            if each not in self._absent
        ]
        with torch.no_grad(), _random_numbers_of_rank_0(), pretrained.kept(there):
            self._visit(self._root, "", None)
        _check_buffers(
            self._root,
            self._absent,
            "its module has no reset_parameters() for it; give a function as weights= of "
            "initialize(), or make the module outside of torch.device('meta')",
        )

    def _visit(self, module, path, model):
        """`model`: the initializer of the model of transformers around it, if there is one."""
        if module in self._seen:
            return
        self._seen.add(module)
        model = pretrained.initializer_of(module) or model
        mine = self._units.get(module, [])
        for u in mine:
            for parameter in self._into.units[u].parameters.values():
                if parameter in self._absent.parameters:
                    parameter.data = _nans(parameter)
        for name, child in module.named_children():
            self._visit(child, f"{path}.{name}" if path else name, model)
        with _naming(module, path):
            if self._function is not None:
                self._function(module)
            elif model is not None:
                self._initialize_by(model, module)
            else:
                self._reset(module)
        for u in mine:
            for name, parameter in self._into.units[u].parameters.items():
                self._check(name, parameter)
            self._into.take(u)

    def _initialize_by(self, model, module):
        """As transformers does, where a module may initialize its children's parameters, too."""
        children = {
            parameter: f"{name}.{key}"
            for name, child in module.named_children()
            for key, parameter in child.named_parameters(recurse=False)
            if parameter in self._absent.parameters and parameter in self._into
        }
        for parameter in children:
            parameter.data = _nans(parameter)
        self._keeping(module, lambda: model(module))
        for parameter, name in children.items():
            if parameter.isnan().all():
                parameter.data = _without_memory(parameter)
            else:
                self._check(name, parameter)
                self._into.take_again(parameter)

    def _reset(self, module):
        own = [p for p in module.parameters(recurse=False) if p in self._absent.parameters]
        blank = any(
            any(buffer is each for each in self._absent.buffers.values())
            for buffer in module.buffers(recurse=False)
        )
        reset = _reset_of(module)
        if reset is not None and (own or blank):
            self._keeping(module, reset)

    def _keeping(self, module, initialize):
        """Of modules that share a parameter the first one counts, as where it is made first and
        given to others then."""
        own = [p for p in module.parameters(recurse=False) if p in self._absent.parameters]
        kept = {p: p.clone() for p in own if p in self._done}
        initialize()
        for parameter, values in kept.items():
            parameter.copy_(values)
        self._done.update(own)

    def _check(self, name, parameter):
        if parameter not in self._absent.parameters or not parameter.isnan().any():
            return
        missing = int(parameter.isnan().sum())
        raise _native.UsageError(
            f"parameter {name} is on the meta device and {missing} of its "
            f"{parameter.numel()} elements got no value: expected a reset_parameters() of the "
            "module that has it, or weights= of initialize(), a path or a function(module)"
        )


class _Loading:
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
        _check_buffers(
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
        blank = {id(each) for each in self._root.buffers() if _is_blank(each)}
        there = [each for each in self._root.buffers() if id(each) not in blank]
        with torch.no_grad(), pretrained.kept([*self._names, *there]):
            for path, module, model in pretrained.modules_of(self._root):
                if not any(id(each) in blank for each in module.buffers(recurse=False)):
                    continue
                own = any(True for _ in module.parameters(recurse=False))
                initialize = self._function or model
                with _naming(module, path):
                    if initialize is not None and (initialize is model or not own):
                        initialize(module)
                    elif not own and _reset_of(module) is not None:
                        _reset_of(module)()


@contextlib.contextmanager
def _naming(module, path):
    try:
        yield
    except RuntimeError as error:
        raise _native.UsageError(
            f"weights: initializing {path or 'the model'} ({type(module).__name__}): {error}"
        ) from error


@contextlib.contextmanager
def _random_numbers_of_rank_0():
    """torch's random numbers are rank 0's; ranks that had others have them again afterwards."""
    if not dist.is_initialized() or dist.get_world_size() == 1:
        yield
        return
    mine = torch.get_rng_state()
    shared = mine.clone()
    dist.broadcast(shared, src=0)
    torch.set_rng_state(shared)
    try:
        yield
    finally:
        if not torch.equal(mine, shared):
            torch.set_rng_state(mine)
