"""The formats of a recipe, as far as FSDP2's collectives can have them."""

from dataclasses import dataclass

import torch

from thinwire.recipes import entries_of, parts_of
from thinwire.two_hop import ops

_FORMATS = {
    "qwz": {"gather": "int8/128"},
    "qgz": {"fast_reduce": "int4/128", "slow_reduce": "int4/128"},
    "hpz": {},
}
_HOPS = ("slow_gather", "fast_gather", "fast_reduce", "slow_reduce")

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
    """(Formats, notes) of "zero3", "zero++", a sum like "qwz+qgz", or formats hop by hop."""
    if not isinstance(recipe, str):
        raise ValueError(f"recipe = {recipe!r}: expected a name like 'zero++'")
    if "=" in recipe:
        return _by_hops(recipe), []
    parts = parts_of(recipe)
    if parts is None:
        raise ValueError(
            f"recipe = {recipe!r} is not known: choose zero3, zero++, a sum of qwz, hpz and qgz, "
            "or name the formats of the hops (docs/fsdp.md)"
        )
    formats = {}
    for part in parts:
        formats |= _FORMATS[part]
    return Formats(**formats), [HPZ] if "hpz" in parts else []


def _by_hops(recipe):
    hops = {}
    for hop, form in entries_of(recipe):
        if hop not in _HOPS or hop in hops:
            raise ValueError(
                f"recipe = {recipe!r}, {hop!r}: expected {', '.join(_HOPS)}, each once at most"
            )
        hops[hop] = form
    gather = hops.get("slow_gather")
    if hops.get("fast_gather", "codes") not in ("codes", gather):
        raise ValueError(
            f"recipe = {recipe!r}: the fast hop passes on what the slow gather brought: leave out "
            "fast_gather, or give it the format of slow_gather"
        )
    formats = Formats(gather, hops.get("fast_reduce"), hops.get("slow_reduce"))
    for form in (formats.gather, formats.fast_reduce, formats.slow_reduce):
        if form is not None:
            _check(recipe, form)
    return formats


def _check(recipe, form):
    try:
        ops.quantize(torch.empty(0), form)
    except RuntimeError as error:
        raise ValueError(f"recipe = {recipe!r}: {error}") from None
