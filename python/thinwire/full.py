"""Whole parameters outside of forward: gathered for a while, to be read or edited."""

import contextlib
from collections.abc import Iterable

import torch
from torch import nn

from thinwire.native import _native


def parameters_in(what):
    """The parameters of a parameter, a module, or a sequence of them, each once."""
    if isinstance(what, nn.Parameter):
        return [what]
    if isinstance(what, nn.Module):
        return list(what.parameters())
    if isinstance(what, str) or not isinstance(what, Iterable):
        raise _native.UsageError(
            f"full_params: expected a parameter, a module or a sequence of them, found {what!r}"
        )
    return list(dict.fromkeys(p for each in what for p in parameters_in(each)))


@contextlib.contextmanager
def lent(shards, parameters, modifier_rank=None, call="full_params"):
    """The parameters have all of their values inside; what changed is written back at the end,
    unless an exception ends it. What `shards` does not hold has its values anyway, and what is lent
    already is written back where that ends."""
    held = [parameter for parameter in parameters if parameter in shards]
    wholes = shards.gather([p for p in held if not shards.is_lent(p)], call=call)
    values = {p: whole.to(p.dtype) for p, whole in wholes.items()}
    del wholes
    shards.lend(values)
    try:
        yield
        if modifier_rank is not None:
            shards.broadcast(held, modifier_rank)
        shards.write_back(values)
    finally:
        shards.take_back(values)


def state_dict_of(module, shards, dtype=None, frozen=True):
    """`module.state_dict()` with whole tensors of their own memory; ties stay ties. Without what is
    frozen, if it says so."""
    skeleton = module.state_dict(keep_vars=True)
    if not frozen:
        for key, value in list(skeleton.items()):
            if isinstance(value, nn.Parameter) and not value.requires_grad:
                del skeleton[key]
    wanted = list({id(v): v for v in skeleton.values() if v in shards}.values())
    whole = shards.gather(wanted, lambda parameter: dtype or parameter.dtype)
    for key, value in skeleton.items():
        if value in shards:
            skeleton[key] = whole[value]
        elif isinstance(value, torch.Tensor):
            skeleton[key] = value.detach()
    return skeleton


def fill_state_dicts(module, shards):
    """From now on `module.state_dict()` has whole tensors, too: all ranks call it. Returns what
    ends this. With keep_vars=True the parameters themselves are in it, as ever."""

    def fill(_, state_dict, prefix, __):
        places = {
            prefix + name: parameter
            for name, parameter in module.named_parameters(remove_duplicate=False)
            if parameter in shards and not shards.is_lent(parameter)
        }
        missing = {
            key: parameter
            for key, parameter in places.items()
            if key in state_dict and not isinstance(state_dict[key], nn.Parameter)
        }
        whole = shards.gather(dict.fromkeys(missing.values()), lambda p: p.dtype) if missing else {}
        for key, parameter in missing.items():
            state_dict[key] = whole[parameter]

    return module.register_state_dict_post_hook(fill)
