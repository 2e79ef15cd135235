"""Hosts, ranks per host, recipe and wire type from the two ways to write them."""

from thinwire.recipes import AUTO, AUTOMATIC, read

from .errors import ConfigError, Given, show

_PARTS = ("qwz", "hpz", "qgz")
_REDUCES = ("fast_reduce", "slow_reduce")


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
        hops = _read(text)
        if from_flags != "zero3" and hops != _read(from_flags):
            hint = "leave out the ZeRO++ keys of zero_optimization, or this one"
            raise ConfigError("thinwire.recipe", f'"{from_flags}", as they say', text, hint)
    sent = values("communication_data_type")
    return text if sent in (None, wire or dtype) else _with_gradients_in(sent, text, values)


def _read(text):
    """What the engine reads in it, before there is a process group."""
    try:
        return read(text, "thinwire.recipe")
    except ValueError as error:
        raise ConfigError.worded("thinwire.recipe", str(error)) from None


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
    parts = [part for part in _PARTS if flags[part]]
    return "zero++" if len(parts) == len(_PARTS) else "+".join(parts) or "zero3"


def _with_gradients_in(dtype, text, values):
    hops, plain = _read(text), _read("zero3")
    left = {hop: dtype for hop in _REDUCES if hops[hop] is None}
    if not left:
        values.notes.append(
            f"no effect: communication_data_type: recipe {show(text)} says what carries gradients"
        )
        return text
    return ", ".join(f"{hop}={x}" for hop, x in (hops | left).items() if x != plain[hop])
