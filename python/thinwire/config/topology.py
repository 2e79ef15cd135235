"""Hosts, ranks per host, recipe and wire type from the two ways to write them."""

import re

from thinwire.recipes import (
    AUTO,
    AUTOMATIC,
    DIFFERENCES,
    PARTS,
    entries_of,
    parts_of,
    without_coded,
)

from .errors import ConfigError, Given, show

_HOPS = ("slow_gather", "fast_gather", "fast_reduce", "slow_reduce", "keep", "feedback")
_SCALE = r"(/(max|rms)\d+(\.\d+)?)?"
_CODEC = re.compile(
    r"fp32|bf16|fp16|(rot32\+|rot128\+)?"
    rf"(int8/\d+|int4/\d+/searched|(int4|int3|ternary)/\d+{_SCALE})(/coded)?"
)


def topology(values, world_size):
    """(hosts, ranks per host), or (None, None) to detect them."""
    hosts, local = values("thinwire.hosts"), values("thinwire.ranks_per_host")
    hpz = values("zero_optimization.zero_hpz_partition_size")
    name = "thinwire.ranks_per_host"
    if hpz > 1:
        if local not in (None, hpz):
            hint = "leave one of them out"
            path = "zero_optimization.zero_hpz_partition_size"
            raise ConfigError(path, f"thinwire.ranks_per_host = {local}", hpz, hint)
        if local is None:
            name = "zero_optimization.zero_hpz_partition_size"
        local = hpz
    if hosts is None and local is None:
        return None, None
    if local is None:
        local = _whole(world_size, "thinwire.hosts", hosts)
    elif hosts is None:
        hosts = _whole(world_size, name, local)
    if hosts * local != world_size:
        product = Given(f"{hosts} x {local} = {hosts * local}")
        raise ConfigError(name, f"thinwire.hosts x this = {world_size} ranks", product)
    return hosts, local


def _whole(world_size, path, part):
    if world_size % part:
        raise ConfigError(path, f"a divisor of the number of ranks, {world_size}", part)
    return world_size // part


def recipe(values, wire, dtype):
    """The recipe as text, with the types of gradients that communication_data_type asks for."""
    flags = {
        "qwz": values("zero_optimization.zero_quantized_weights"),
        "hpz": values("zero_optimization.zero_hpz_partition_size") > 1,
        "qgz": values("zero_optimization.zero_quantized_gradients"),
    }
    from_flags = _from_flags(flags, values)
    text = values("thinwire.recipe")
    if text in (AUTO, AUTOMATIC):
        return _chosen_later(from_flags, values)
    if text is None:
        text = from_flags
    else:
        _check(text)
        if from_flags != "zero3" and _parts(text) != _parts(from_flags):
            hint = "leave out the ZeRO++ keys of zero_optimization, or this one"
            raise ConfigError("thinwire.recipe", f'"{from_flags}", as they say', text, hint)
    sent = values("communication_data_type")
    return text if sent in (None, wire or dtype) else _with_gradients_in(sent, text, values)


def _chosen_later(from_flags, values):
    if from_flags != "zero3":
        hint = "leave out the ZeRO++ keys of zero_optimization, or this one"
        raise ConfigError("thinwire.recipe", f'"{from_flags}", as they say', AUTO, hint)
    if values("communication_data_type") is not None:
        values.notes.append("no effect: communication_data_type: the recipe is chosen at the start")
    return AUTO


def _from_flags(flags, values):
    if flags["hpz"] and values("zero_optimization.stage") < 3:
        flags = flags | {"hpz": False}
        values.notes.append(
            "zero_optimization.zero_hpz_partition_size: only the ranks per host, below stage 3 "
            "every rank keeps all weights"
        )
    return _named([part for part in PARTS if flags[part]])


def _named(parts):
    return "zero++" if len(parts) == len(PARTS) else "+".join(parts) or "zero3"


def _parts(text):
    """The set of parts of a named recipe; None for one that is given hop by hop."""
    return None if "=" in text else parts_of(without_coded(text))


def _check(text):
    """What zero::MakeRecipe would refuse is refused here, before any process group; but for the
    numbers of a scale, of which it knows how they are written."""
    path = "thinwire.recipe"
    if "=" not in text:
        base = without_coded(text)
        if parts_of(base) is None and base not in DIFFERENCES:
            hint = "or the codecs hop by hop, see docs/recipes.md"
            names = ", ".join(("zero3", "zero++", *DIFFERENCES))
            raise ConfigError(path, f"{names} or a sum like qwz+hpz of qwz, hpz, qgz", text, hint)
        if base != text and parts_of(base) in (set(), {"hpz"}):
            hint = "+coded codes what travels in codes, and here nothing does"
            raise ConfigError(path, base, text, hint)
        return
    hops = {}
    for hop, codec in entries_of(text):
        if hop not in _HOPS or hop in hops:
            raise ConfigError(path, f"{', '.join(_HOPS)}, each once at most", hop)
        hops[hop] = codec
        if hop == "keep":
            fits = codec in ("nothing", "values", "codes", "reference")
        elif hop == "feedback":
            fits = codec == "nothing" or re.fullmatch(r"int8/\d+", codec)
        else:
            fits = _CODEC.fullmatch(codec) or (hop == "fast_gather" and codec == "codes")
        if not fits:
            hint = f"{hop} takes a codec like bf16 or int8/128, see docs/recipes.md"
            raise ConfigError(path, f"another {hop}", codec, hint)
        _check_block(path, hop, codec)
    _check_kept(path, text, hops)
    _check_reduces(path, text, hops)


def _check_block(path, hop, codec):
    block = re.search(r"/(\d+)", codec)
    unit = 128 if codec.startswith("rot128+") and hop.endswith("gather") else 32
    fits = block is None or (block[1][0] != "0" and int(block[1]) in range(unit, 4097, unit))
    if not fits:
        raise ConfigError(path, f"{hop} in blocks of a multiple of {unit} up to 4096", codec)


def _check_reduces(path, text, hops):
    raw = ("fp32", "bf16", "fp16")
    coded = [
        hops[hop] for hop in ("fast_reduce", "slow_reduce") if hops.get(hop, raw[0]) not in raw
    ]
    if len({re.match(r"(rot\d+\+)?", codec)[0] for codec in coded}) > 1:
        hint = "gradients stay rotated from one reduce to the other"
        raise ConfigError(path, "the same rotation on both reduces", text, hint)
    owes = hops.get("feedback", "nothing") != "nothing"
    if owes and hops.get("slow_reduce", raw[0]) in raw:
        raise ConfigError(path, "feedback with a slow_reduce in codes, which loses something", text)


def _check_kept(path, text, hops):
    codes = hops.get("fast_gather") == "codes"
    if hops.get("keep") == "reference":
        if codes:
            raise ConfigError(path, "keep=reference with another fast_gather", "codes")
        if hops.get("slow_gather") in (None, "fp32", "bf16", "fp16"):
            hint = "the slow gather then carries differences"
            raise ConfigError(path, "keep=reference with a slow_gather in codes", text, hint)
    elif codes != (hops.get("keep") == "codes") and hops.get("keep", "nothing") != "nothing":
        raise ConfigError(path, "keep=codes together with fast_gather=codes", text)


def _with_gradients_in(dtype, text, values):
    parts = _parts(text)
    if without_coded(text) in DIFFERENCES or (parts is not None and "qgz" in parts):
        values.notes.append(
            "no effect: communication_data_type: gradients travel in codes in this recipe"
        )
        return text
    if parts is not None:
        hops = []
        if "qwz" in parts:
            coded = "" if without_coded(text) == text else "/coded"
            hops += [f"slow_gather=int8/128{coded}", "fast_gather=codes"]
        if "hpz" in parts:
            hops.append("keep=codes" if "qwz" in parts else "keep=values")
    else:
        hops = [entry.strip() for entry in text.split(",")]
    named = [hop.partition("=")[0].strip() for hop in hops]
    added = [f"{hop}={dtype}" for hop in ("fast_reduce", "slow_reduce") if hop not in named]
    if not added:
        values.notes.append(
            f"no effect: communication_data_type: thinwire.recipe = {show(text)} names both reduces"
        )
    return ", ".join(hops + added)
