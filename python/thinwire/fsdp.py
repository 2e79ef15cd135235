"""Two-hop codecs for models that torch's `fully_shard` (FSDP2) has sharded.

report = thinwire.fsdp.compress(model, recipe="zero++")
"""

import os

import torch
import torch.distributed as dist
from torch.distributed.fsdp import FSDPModule
from torch.distributed.fsdp._fully_shard._fsdp_common import DDPMeshInfo, FSDPMeshInfo

from thinwire.fsdp_collectives import Gather, Reduce
from thinwire.fsdp_recipe import Formats, read_recipe
from thinwire.fsdp_report import Group, Report, names
from thinwire.two_hop import RAW, TwoHop, ops, places

# Codes would save a rank of so small a group a packet or two, and it is mostly vectors (norms,
# biases), whose few elements matter more than most.
SMALLEST = 4096


def compress(model, recipe="zero++", ranks_per_host=None, smallest=SMALLEST):
    """Sends what FSDP2 gathers and reduces for `model` in two hops, in the formats of `recipe`.

    Call it on every rank after `fully_shard`, before or between steps. `recipe` is "zero3" (two
    hops, everything as it is), "qwz" (weights in int8), "qgz" (gradients in int4), "zero++" (both),
    or names formats: "slow_gather=int8/64, fast_reduce=int8/128, slow_reduce=int4/128/searched".
    Consecutive ranks share a host: `ranks_per_host`, or else LOCAL_WORLD_SIZE. Groups with fewer
    than `smallest` elements travel as they are.

    Returns the Report, which rank 0 also prints.
    """
    formats, notes = read_recipe(recipe)
    if not isinstance(smallest, int) or isinstance(smallest, bool) or smallest < 0:
        raise ValueError(f"smallest = {smallest!r}: expected a number of elements")
    found = [module for module in model.modules() if isinstance(module, FSDPModule)]
    if not found:
        raise ValueError(
            f"{type(model).__name__} has no module sharded by FSDP2: call "
            "torch.distributed.fsdp.fully_shard on it before thinwire.fsdp.compress"
        )
    ranks_per_host, origin = _agree(recipe, ranks_per_host, smallest)
    report = Report(recipe, origin, notes=notes)
    hops = _AllHops(ranks_per_host)
    seen = set()
    for name, module in model.named_modules():
        state = module._get_fsdp_state() if isinstance(module, FSDPModule) else None
        if state is None or id(state) in seen:  # modules sharded together have one state
            continue
        seen.add(id(state))
        for param_group in state._fsdp_param_groups:
            group = _describe(name or "(root)", param_group)
            report.groups.append(group)
            if len(state._fsdp_param_groups) > 1:
                group.note("by FSDP2: it takes no custom collectives with a mesh per parameter")
            else:
                _install(module, param_group, group, hops, formats, smallest)
    if dist.get_rank() == 0:
        print(report, flush=True)
    return report


def _agree(recipe, ranks_per_host, smallest):
    """Ranks per host and where that comes from, the same on all ranks or an error on all."""
    mine = (recipe, ranks_per_host, smallest, os.environ.get("LOCAL_WORLD_SIZE"))
    everyone = [None] * dist.get_world_size()
    dist.all_gather_object(everyone, mine)
    for rank, theirs in enumerate(everyone):
        if theirs[:3] != everyone[0][:3]:
            names = "recipe, ranks_per_host, smallest"
            raise ValueError(
                f"rank {rank} calls compress with {names} = {theirs[:3]}, rank 0 with "
                f"{everyone[0][:3]}: give all ranks the same"
            )
    world = len(everyone)
    if ranks_per_host is not None:
        if type(ranks_per_host) is not int or ranks_per_host < 1 or world % ranks_per_host:
            raise ValueError(
                f"ranks_per_host = {ranks_per_host!r}: expected a divisor of the {world} ranks"
            )
        return ranks_per_host, f"ranks_per_host = {ranks_per_host} as given"
    local = {theirs[3] for theirs in everyone}
    if len(local) > 1:
        return 1, "hosts with unequal numbers of ranks (LOCAL_WORLD_SIZE): each rank is a host"
    text = local.pop()
    if text is None or not text.isdecimal() or int(text) < 1 or world % int(text):
        raise ValueError(
            f"LOCAL_WORLD_SIZE is {text or 'not set'} on {world} ranks: give compress the number "
            "of ranks that share a host, ranks_per_host="
        )
    return int(text), f"ranks_per_host = {text} from LOCAL_WORLD_SIZE"


class _AllHops:
    """The hops of each set of ranks, made once."""

    def __init__(self, ranks_per_host):
        self._ranks_per_host = ranks_per_host
        self._made = {}

    def make(self, process_group):
        """The places of the group's ranks; its hops are made if it spans hosts."""
        ranks = tuple(dist.get_process_group_ranks(process_group))
        where = places(ranks, self._ranks_per_host)
        if where.hosts > 1 and ranks not in self._made:
            self._made[ranks] = TwoHop(ranks, where)
        return where

    def of(self, process_group):
        """None for a group on one host."""
        return self._made.get(tuple(dist.get_process_group_ranks(process_group)))


def _describe(name, param_group):
    world = param_group.mesh_info.mesh.size()
    if isinstance(param_group.mesh_info, FSDPMeshInfo):
        world = param_group.mesh_info.shard_mesh_size
    sizes = [param.padded_sharded_param_size.numel() for param in param_group.fsdp_params]
    return Group(name, sum(sizes) * world)


def _install(module, param_group, group, hops, formats, smallest):
    mesh = param_group.mesh_info
    if not isinstance(mesh, FSDPMeshInfo):
        group.note("by FSDP2: replicated, not sharded: there is neither gather nor reduce-scatter")
        return
    if param_group.device.type != "cpu":
        group.note(f"by FSDP2: on {param_group.device.type}, codecs run on the CPU")
        return
    where = hops.make(mesh.shard_process_group)
    group.topology = str(where)
    if where.note:
        group.note(where.note)
    if isinstance(mesh, DDPMeshInfo):
        group.note("all-reduce between replicas (HSDP) by FSDP2: it has no hook in its place")
    if where.hosts == 1:
        group.note(
            "by FSDP2: the ranks that share it are on one host, nothing crosses the slow hop"
        )
        return
    later = param_group.post_forward_mesh_info
    if later is not None and later is not mesh and hops.make(later.shard_process_group).hosts == 1:
        group.note("gather of backward by FSDP2, inside the host (reshard_after_forward)")
    formats = _formats_of(param_group, group, formats, smallest)
    _replaces(param_group, group)
    module.set_custom_all_gather(Gather(group, hops, formats))
    module.set_custom_reduce_scatter(Reduce(group, hops, formats))
    _predict(param_group, group, where, formats)


def _formats_of(param_group, group, formats, smallest):
    """The recipe's formats, as far as this group can have them."""
    shapes = [param.sharded_param.shape for param in param_group.fsdp_params]
    if group.elements < smallest:
        group.note(f"raw: fewer than {smallest} elements (smallest=)")
        return Formats()
    if all(len(shape) < 2 for shape in shapes):
        group.note("raw: only vectors (norms, biases)")
        return Formats()
    locals_ = [param._sharded_local_tensor for param in param_group.fsdp_params]
    if any(hasattr(each, "fsdp_pre_all_gather") for each in locals_):
        group.note("gather raw: its tensors bring bytes of their own (fsdp_pre_all_gather)")
        formats = Formats(None, formats.fast_reduce, formats.slow_reduce)
    sent = set(_gathered_types(param_group))
    if not sent <= RAW.keys() or len(sent) > 1:
        group.note(f"gather raw: one buffer of {names(sent)}, not of one of fp32, bf16, fp16")
        formats = Formats(None, formats.fast_reduce, formats.slow_reduce)
    reduced = _reduced_type(param_group)
    if reduced is not None and reduced not in RAW:
        group.note(f"reduce by FSDP2: {names({reduced})}, not fp32, bf16 or fp16")
    return formats


def _gathered_types(param_group):
    """Of each parameter."""
    policy = param_group.mp_policy.param_dtype
    types = [param.sharded_param.dtype for param in param_group.fsdp_params]
    return [policy if policy and each.is_floating_point else each for each in types]


def _reduced_type(param_group):
    """None for a group without gradients."""
    policy = param_group.mp_policy
    types = [
        param.sharded_param.dtype
        for param in param_group.fsdp_params
        if param.sharded_param.requires_grad
    ]
    return (policy.reduce_dtype or policy.param_dtype or types[0]) if types else None


def _replaces(param_group, group):
    for comm in (param_group._all_gather_comm, param_group._reduce_scatter_comm):
        ours = isinstance(comm, (Gather, Reduce))
        if not ours and not type(comm).__name__.startswith(("Default", "ProcessGroupAlloc")):
            group.note(f"replaces {type(comm).__name__}")


def _predict(param_group, group, where, formats):
    """What the report says of formats and bytes before the first step."""
    peers = where.hosts - 1
    sizes = [param.padded_sharded_param_size.numel() for param in param_group.fsdp_params]
    group.gather = formats.gather or "raw"
    if formats.gather:
        group.gather_bytes = peers * message_bytes(sum(sizes), formats.gather)
    else:
        types = _gathered_types(param_group)
        group.gather_bytes = peers * sum(t.itemsize * n for t, n in zip(types, sizes, strict=True))
    reduced = _reduced_type(param_group)
    if reduced is None:
        group.reduce = "nothing, all of it is frozen"
    elif reduced in RAW:
        fast, slow = formats.fast_reduce or "raw", formats.slow_reduce or "raw"
        group.reduce = slow if where.ranks_per_host == 1 or fast == slow else f"{fast}, {slow}"
        trained = [
            size
            for size, param in zip(sizes, param_group.fsdp_params, strict=True)
            if param.sharded_param.requires_grad
        ]
        group.reduce_bytes = peers * message_bytes(
            sum(trained), formats.slow_reduce or RAW[reduced]
        )


def message_bytes(elements, form):
    return ops.quantize(torch.empty(elements, device="meta"), form).numel()
