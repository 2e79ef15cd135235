"""The formats of a recipe, as far as FSDP2's collectives can have them."""

from dataclasses import dataclass

import torch

from thinwire.recipes import read
from thinwire.two_hop import ops

HPZ = (
    "hpz has no effect: FSDP2 keeps nothing between steps; with fully_shard(..., "
    "reshard_after_forward=<ranks per host>) the gather of backward stays inside the host"
)


@dataclass(frozen=True)
class Formats:
    """By the names of torch.ops.thinwire; None sends elements as they are."""

    gather: str | None = None  # on both hops: the fast one passes messages on
    fast_reduce: str | None = None
    slow_reduce: str | None = None


def read_recipe(recipe):
    """(Formats, notes) of a recipe as thinwire's engine reads it, by name or hop by hop."""
    if not isinstance(recipe, str):
        raise ValueError(f"recipe = {recipe!r}: expected a name like 'zero++'")
    hops = read(recipe, "recipe")
    if hops["keep"] == "reference" or hops["feedback"] != "nothing":
        raise ValueError(
            f"recipe = {recipe!r}: FSDP2 keeps nothing between steps, neither a reference for "
            "differences nor feedback: take zero++ or formats hop by hop (docs/fsdp.md)"
        )
    gather = hops["slow_gather"]
    if hops["fast_gather"] not in (None, "codes", gather):
        raise ValueError(
            f"recipe = {recipe!r}: the fast hop passes on what the slow gather brought: leave out "
            "fast_gather, or give it the format of slow_gather"
        )
    formats = Formats(gather, hops["fast_reduce"], hops["slow_reduce"])
    for form in (formats.gather, formats.fast_reduce, formats.slow_reduce):
        if form is not None:
            _check(recipe, form)
    return formats, [] if hops["keep"] == "nothing" else [HPZ]


def _check(recipe, form):
    try:
        ops.quantize(torch.empty(0), form)
    except RuntimeError as error:
        raise ValueError(f"recipe = {recipe!r}: {error}") from None
