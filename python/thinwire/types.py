"""In which type each parameter is gathered, and which are not gathered at all."""

from collections import Counter

import torch
from torch import nn

from thinwire.native import _native

NAMES = {torch.float32: "fp32", torch.bfloat16: "bf16", torch.float16: "fp16"}
DTYPES = {name: dtype for dtype, name in NAMES.items()}


class Types:
    """`of(parameter)`: "fp32", "bf16" or "fp16", in which it is gathered; None: it stays whole on
    every rank, as integers do, which have no fp32 masters to be cut.

    With bf16 or fp16 in the config every float is of that type, as in DeepSpeed. Under its
    torch_autocast matrices are, which torch would cast before each use, and keep the copy: not
    those of embeddings, and not vectors. Else each parameter keeps its own type.
    """

    def __init__(self, settings, model):
        self._dtype = settings.dtype
        self._autocast = settings.autocast
        self._embeddings = {
            parameter
            for module in model.modules()
            if isinstance(module, (nn.Embedding, nn.EmbeddingBag))
            for parameter in module.parameters(recurse=False)
        }
        for name, parameter in model.named_parameters():
            if parameter.requires_grad and self.of(parameter) is None:
                raise _native.UsageError(
                    f"parameter {name} is {_name(parameter)} and requires grad: expected float32, "
                    "bfloat16 or float16: cast it before initialize(), or set requires_grad to "
                    "False"
                )

    def of(self, parameter):
        if self._dtype and (parameter.dtype in NAMES or parameter.dtype == torch.float64):
            return self._dtype
        if self._autocast and parameter.dtype in NAMES and self._is_cast(parameter):
            return self._autocast
        return NAMES.get(parameter.dtype)

    def _is_cast(self, parameter):
        return parameter.ndim >= 2 and parameter not in self._embeddings

    def most(self, parameters):
        """The type that most elements have."""
        counts = Counter({"fp32": 0})
        for parameter in parameters:
            counts[self.of(parameter)] += parameter.numel()
        del counts[None]
        return counts.most_common(1)[0][0]


def whole_parameters(model, types):
    """{name: parameter} of those that every rank has as a whole."""
    return {name: p for name, p in model.named_parameters() if types.of(p) is None}


def notes(model, types):
    """What is worth a line."""
    whole = whole_parameters(model, types).values()
    if not whole:
        return []
    size = sum(parameter.numel() * parameter.element_size() for parameter in whole)
    kinds = ", ".join(sorted({_name(parameter) for parameter in whole}))
    count = f"{len(whole)} parameter{'s' if len(whole) > 1 else ''}"
    return [
        f"{count} of {kinds}, {size} bytes, whole on every rank: only fp32, bf16 and fp16 are cut"
    ]


def _name(parameter):
    return str(parameter.dtype).removeprefix("torch.")
