"""Parameters of which each rank holds a part alone, before an engine has them: what zero.Init
leaves of a model. The parts are the elements in the order of ranks, all of one length."""

import torch
import torch.distributed as dist
from torch.nn import functional as F

from thinwire.native import _native

_NAME = "_thinwire_part"  # on the parameter, so that it goes with it


def of(parameter):
    """This rank's part, or None where the parameter has its own values."""
    return getattr(parameter, _NAME, None)


def keep(parameter, source=None):
    """Of the values that the parameter has, or those on rank `source`, for which all ranks call
    this, this rank's part stays. The parameter has no memory then; read, its values are infinite.
    """
    world, rank = dist.get_world_size(), dist.get_rank()
    flat = parameter.detach().contiguous().view(-1)
    length = -(-flat.numel() // world)
    if flat.numel() < length * world:
        flat = F.pad(flat, (0, length * world - flat.numel()))
    if source is None:
        put_back(parameter, flat[rank * length : (rank + 1) * length].clone())
        return
    part = flat.new_empty(length)
    if length:
        parts = [_bytes(each) for each in flat.split(length)] if rank == source else None
        dist.scatter(_bytes(part), parts, src=source)
    put_back(parameter, part)


def put_back(parameter, part):
    """The parameter is without memory, its values are in the ranks' parts."""
    setattr(parameter, _NAME, part)
    parameter.data = torch.full((), torch.inf, dtype=parameter.dtype).expand(parameter.shape)


def whole(parameter):
    """The values of all parts; all ranks call it."""
    part = of(parameter)
    gathered = part.new_empty(len(part) * dist.get_world_size())
    if len(part):
        places = [_bytes(each) for each in gathered.split(len(part))]
        dist.all_gather(places, _bytes(part))
    return gathered[: parameter.numel()].view(parameter.shape)


def lift(parameter):
    """The parameter has its values as a whole from here on. All ranks call it. Returns the part."""
    part = of(parameter)
    parameter.data = whole(parameter).to(parameter.dtype)
    forget(parameter)
    return part


def forget(parameter):
    delattr(parameter, _NAME)


def refuse_forward(module, _arguments):
    """A pre-hook of a module's forward."""
    for name, parameter in module.named_parameters(recurse=False):
        if of(parameter) is not None:
            raise _native.UsageError(
                f"{type(module).__name__} was made inside of zero.Init and its {name} is sharded: "
                "expected initialize(), or the forward inside of GatheredParameters; a model that "
                "is to be whole is made while no ZeRO-3 config is alive"
            )


def _bytes(values):
    return values.view(torch.uint8)  # which every backend has
