"""deepspeed.zero: parameters as a whole, before and after the engine has taken a model over."""

import contextlib
import itertools
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.modules.module import register_module_parameter_registration_hook
from torch.nn.utils.parametrize import ParametrizationList

from thinwire import parts
from thinwire.engine import engine_of
from thinwire.hf import comm
from thinwire.initialization import full_params

_numbers = itertools.count()


class Init(contextlib.ContextDecorator):
    """Around the construction of a model: at its end, each rank keeps its part of the parameters
    alone, until initialize() takes them over and casts them to the config's type. Inside, what
    constructors write is there as a whole; transformers has them write nothing."""

    def __init__(self, module=None, enabled=True, **_where_and_how):
        self._enabled = enabled
        self._hook = None
        self._made = {}  # parameter: the modules that it was given to
        if module is not None and enabled:
            for each in module.modules():
                for name, parameter in each.named_parameters(recurse=False):
                    self._see(each, name, parameter)
            self._share_out()

    def __enter__(self):
        if self._enabled:
            self._hook = register_module_parameter_registration_hook(self._see)
        return self

    def __exit__(self, *error):
        if self._hook is not None:
            self._hook.remove()
            self._hook = None
            if error[0] is None:
                self._share_out()
        return False

    def _see(self, module, _name, parameter):
        if parameter is not None:
            number(parameter)
            self._made.setdefault(parameter, []).append(module)

    def _share_out(self):
        made, self._made = self._made, {}
        if not comm.is_initialized():
            if int(os.environ.get("WORLD_SIZE", "1")) > 1:
                print(
                    "thinwire: zero.Init before torch.distributed has its group: every rank holds "
                    "the whole model until initialize() shards it",
                    flush=True,
                )
            return
        # Where nothing is written there is no need of one rank's values for all.
        source = 0 if _initializes() else None
        sizes = [0, 0]
        for parameter, modules in made.items():
            if parameter.is_floating_point() and parts.of(parameter) is None:
                parts.keep(parameter, source)
                sizes[0] += parts.of(parameter).nbytes
                sizes[1] += parameter.nbytes
                for each in dict.fromkeys(modules):
                    # Reading a parametrized weight, as transformers does to initialize, is a
                    # forward, too.
                    if not isinstance(each, ParametrizationList):
                        each.register_forward_pre_hook(parts.refuse_forward)
        if comm.get_rank() == 0 and sizes[1]:
            held, whole = (size / 2**20 for size in sizes)
            print(
                f"thinwire: zero.Init: each rank holds {held:.1f} of {whole:.1f} MiB of the model "
                "until initialize() takes it over",
                flush=True,
            )


def _initializes():
    """Whether constructors give their parameters values. Around from_pretrained and from_config,
    transformers lets torch.nn.init do nothing."""
    probe = torch.zeros(1)
    nn.init.ones_(probe)
    return bool(probe)


def number(parameter):
    """Gives the parameter a number if it has none, as DeepSpeed does: the same on every rank."""
    if not hasattr(parameter, "ds_id"):
        parameter.ds_id = next(_numbers)


class GatheredParameters(contextlib.AbstractContextManager):
    """Inside, the parameters have all of their values. With `modifier_rank`, that rank's edits
    are what all ranks have afterwards. All ranks enter it together."""

    def __init__(self, params, modifier_rank=None, fwd_module=None, enabled=True):
        self._parameters = _flat(params) if enabled else []
        if all(hasattr(each, "ds_id") for each in self._parameters):
            # transformers collects some in a set, whose order differs between ranks.
            self._parameters.sort(key=lambda each: each.ds_id)
        self._source = modifier_rank
        self._parts = {}
        self._stack = contextlib.ExitStack()

    def __enter__(self):
        for each in self._parameters:
            if parts.of(each) is not None:
                self._parts[each] = parts.lift(each)
        self._stack.enter_context(full_params(self._parameters, self._source))
        return self

    def __exit__(self, *error):
        self._stack.__exit__(*error)
        if error[0] is None and self._source is not None and comm.get_world_size() > 1:
            self._share()
        for each, part in self._parts.items():
            if error[0] is None:
                parts.keep(each, self._source)
            else:
                parts.put_back(each, part)
        self._parts.clear()

    def _share(self):
        # Of a model that no engine has yet: transformers initializes and loads on one rank alone.
        with torch.no_grad():
            for parameter in self._parameters:
                if parameter.device.type == "meta" or parameter in self._parts:
                    continue
                if engine_of(parameter) is None:
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
