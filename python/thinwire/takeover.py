"""What becomes of a user's module when an engine takes it over."""

import itertools

import torch
import torch.distributed as dist

from thinwire import parts, types
from thinwire.native import _native


def spec_of(unit, group_of):
    return _native.UnitSpec(
        name=unit.name,
        parameters=[
            _native.ParameterSpec(name, list(parameter.shape), group_of.get(id(parameter), 0))
            for name, parameter in unit.parameters.items()
        ],
        weights_in_backward=unit.weights_in_backward(),
        trainable=unit.trainable,
        compute=unit.compute,
    )


def refuse(module):
    for name, parameter in module.named_parameters():
        if parameter.device.type != "cpu":
            raise _native.UsageError(
                f"initialize: parameter {name} is on {parameter.device}: expected the CPU, the "
                "only device so far"
            )


def cast_buffers(module, dtype):
    """As `module.to(dtype)` would: parameters follow on their way into the engine."""
    for each in module.modules():
        for name, buffer in each.named_buffers(recurse=False):
            if buffer.is_floating_point():
                setattr(each, name, buffer.to(types.DTYPES[dtype]))


def equalize(module, absent):
    """Rank 0's parameters and buffers for all, as DistributedDataParallel does it."""
    if not dist.is_initialized() or dist.get_world_size() == 1:
        return
    with torch.no_grad():
        for name, each in itertools.chain(module.named_parameters(), module.named_buffers()):
            if each in absent or parts.of(each) is not None:
                continue
            if torch._debug_has_internal_overlap(each) == 1:
                raise _native.UsageError(
                    f"{name} is expanded: several of its elements are one. Make it a tensor of its "
                    "own with clone()"
                )
            whole = each.detach().contiguous()
            dist.broadcast(whole.view(-1).view(torch.uint8), src=0)  # of any type
            if whole.data_ptr() != each.data_ptr():
                each.copy_(whole)
