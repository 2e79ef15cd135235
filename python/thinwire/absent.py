"""What of a model has no values yet: it was made under torch.device("meta")."""

from dataclasses import dataclass

import torch
from torch import nn

from thinwire.native import _native


@dataclass
class Absent:
    """What has no values yet."""

    parameters: set
    buffers: dict  # by name: what stands in, with contents that say "no value"

    def __bool__(self):
        return bool(self.parameters or self.buffers)

    def __contains__(self, tensor):
        return tensor in self.parameters or any(tensor is each for each in self.buffers.values())


def absent_in(module):
    """What of `module` is on the meta device, moved to the CPU: parameters stay the same objects,
    without memory."""
    parameters = set()
    for parameter in module.parameters():
        if parameter.device.type == "meta":
            standing = nn.Parameter(without_memory(parameter), parameter.requires_grad)
            standing.__dict__.update(parameter.__dict__)
            torch.utils.swap_tensors(parameter, standing)
            parameters.add(parameter)
    standing = {}
    for each in module.modules():
        for name, buffer in each.named_buffers(recurse=False):
            if buffer.device.type == "meta":
                each._buffers[name] = standing.setdefault(id(buffer), blank(buffer))
    blanks = {id(buffer) for buffer in standing.values()}
    buffers = {name: buffer for name, buffer in module.named_buffers() if id(buffer) in blanks}
    return Absent(parameters, buffers)


def without_memory(like):
    """All elements at one place: what writes to it raises an error."""
    return torch.empty((), dtype=like.dtype).expand(like.shape)


def nans(parameter):
    return torch.full(parameter.shape, torch.nan, dtype=parameter.dtype)


def blank(buffer):
    if buffer.is_floating_point():
        return torch.full(buffer.shape, torch.nan, dtype=buffer.dtype)
    if buffer.dtype == torch.bool or buffer.is_complex():
        return torch.zeros(buffer.shape, dtype=buffer.dtype)
    return torch.full(buffer.shape, torch.iinfo(buffer.dtype).min, dtype=buffer.dtype)


def is_blank(buffer):
    if buffer.numel() == 0:
        return False
    if buffer.is_floating_point():
        return bool(buffer.isnan().any())
    if buffer.dtype == torch.bool or buffer.is_complex():
        return buffer._version == 0
    return bool((buffer == torch.iinfo(buffer.dtype).min).all())


def check_buffers(module, absent, remedy):
    for name in absent.buffers:
        buffer = module.get_buffer(name)
        if buffer.device.type == "meta" or is_blank(buffer):
            raise _native.UsageError(
                f"buffer {name} is on the meta device and has no values: {remedy}"
            )
