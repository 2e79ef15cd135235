"""deepspeed.zero: parameters as a whole, before and after the engine has taken a model over."""

import contextlib
import functools
import itertools

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.modules.module import register_module_parameter_registration_hook

from thinwire.engine import engine_of
from thinwire.hf import comm
from thinwire.initialization import full_params


@functools.cache
def _say_once():
    if comm.get_rank() == 0:
        print(
            "thinwire: zero.Init: every rank holds the whole model until initialize() shards it",
            flush=True,
        )


_numbers = itertools.count()


class Init(contextlib.ContextDecorator):
    """Around the construction of a model. Parameters are sharded, and cast to the config's type, by
    initialize(), not here: until then every rank holds all of them."""

    def __init__(self, module=None, enabled=True, **_where_and_how):
        self._enabled = enabled
        self._counting = None

    def __enter__(self):
        if self._enabled:
            _say_once()
            self._counting = register_module_parameter_registration_hook(_count)
        return self

    def __exit__(self, *_error):
        if self._counting is not None:
            self._counting.remove()
        return False


def number(parameter):
    """Gives the parameter a number if it has none, as DeepSpeed does: the same on every rank."""
    if not hasattr(parameter, "ds_id"):
        parameter.ds_id = next(_numbers)


def _count(_module, _name, parameter):
    if parameter is not None:
        number(parameter)


class GatheredParameters(contextlib.AbstractContextManager):
    """Inside, the parameters have all of their values. With `modifier_rank`, that rank's edits
    are what all ranks have afterwards. All ranks enter it together."""

    def __init__(self, params, modifier_rank=None, fwd_module=None, enabled=True):
        self._parameters = _flat(params) if enabled else []
        if all(hasattr(each, "ds_id") for each in self._parameters):
            # transformers collects some in a set, whose order differs between ranks.
            self._parameters.sort(key=lambda each: each.ds_id)
        self._source = modifier_rank
        self._stack = contextlib.ExitStack()

    def __enter__(self):
        self._stack.enter_context(full_params(self._parameters, self._source))
        return self

    def __exit__(self, *error):
        self._stack.__exit__(*error)
        if error[0] is None and self._source is not None and comm.get_world_size() > 1:
            self._share()

    def _share(self):
        # Of a model that no engine has yet: transformers initializes and loads on one rank alone.
        with torch.no_grad():
            for parameter in self._parameters:
                if parameter.device.type != "meta" and engine_of(parameter) is None:
                    whole = parameter.detach().contiguous()
                    dist.broadcast(whole, src=self._source)
                    if whole.data_ptr() != parameter.data_ptr():
                        parameter.copy_(whole)


def _flat(params):
    """The parameters among a parameter, a module, or nested sequences with buffers and None."""
    if isinstance(params, nn.Parameter):
        return [params]
    if params is None or isinstance(params, torch.Tensor):
        return []
    if isinstance(params, nn.Module):
        return list(params.parameters())
    return list(dict.fromkeys(each for item in params for each in _flat(item)))


def register_external_parameter(module, parameter):
    """Nothing: a parameter is gathered with the unit around the module that has it, and one that
    is used elsewhere is an error with its name."""


def set_z3_leaf_modules(model, leaf_module_classes, raise_if_not_found=True):
    """The modules of these classes, or of classes with these names. Nothing has to be done for
    them: ranks may use different ones."""
    names = {each for each in leaf_module_classes if isinstance(each, str)}
    classes = tuple(each for each in leaf_module_classes if isinstance(each, type))
    found = [
        module
        for module in model.modules()
        if type(module).__name__ in names or isinstance(module, classes)
    ]
    if not found and raise_if_not_found:
        raise ValueError(f"no module is of the classes {leaf_module_classes}")
    return found
