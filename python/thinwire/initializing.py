"""First values of what has none by the modules' own initialization, a unit at a time."""

import contextlib

import torch
import torch.distributed as dist

from thinwire import pretrained
from thinwire.absent import check_buffers, nans, without_memory
from thinwire.native import _native


def reset_of(module):
    return getattr(module, "reset_parameters", None) or getattr(module, "_reset_parameters", None)


class Initialization:
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
        check_buffers(
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
                    parameter.data = nans(parameter)
        for name, child in module.named_children():
            self._visit(child, f"{path}.{name}" if path else name, model)
        with naming(module, path):
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
            parameter.data = nans(parameter)
        self._keeping(module, lambda: model(module))
        for parameter, name in children.items():
            if parameter.isnan().all():
                parameter.data = without_memory(parameter)
            else:
                self._check(name, parameter)
                self._into.take_again(parameter)

    def _reset(self, module):
        own = [p for p in module.parameters(recurse=False) if p in self._absent.parameters]
        blank = any(
            any(buffer is each for each in self._absent.buffers.values())
            for buffer in module.buffers(recurse=False)
        )
        reset = reset_of(module)
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


@contextlib.contextmanager
def naming(module, path):
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
