"""How much memory training will take, before there is a cluster to train on."""

from dataclasses import dataclass

from thinwire import config as configs
from thinwire import optimizer as optimizers
from thinwire import units as unit_choice
from thinwire.native import _native
from thinwire.options import engine_options
from thinwire.recipes import AUTO
from thinwire.takeover import spec_of
from thinwire.types import Types


@dataclass(frozen=True)
class Part:
    kind: str
    per_rank: int  # bytes, of the rank that has most
    total: int  # of all ranks


@dataclass(frozen=True)
class MemoryEstimate:
    """What thinwire allocates when training begins, in bytes. Printed, it is a table.

    Activations are torch's, and so are the gradients of a unit until they are reduced."""

    hosts: int
    ranks_per_host: int
    parts: tuple[Part, ...]
    per_rank: int  # of the rank that has most
    total: int  # of all ranks

    def __str__(self):
        width = max(len(part.kind) for part in self.parts)
        head = f"memory of {self.hosts} x {self.ranks_per_host} ranks, MiB"
        lines = [f"{head:<{width + 2}} {'a rank':>10} {'all':>12}"]
        for part in (*self.parts, Part("in all", self.per_rank, self.total)):
            rank, everyone = (f"{value / 2**20:.2f}" for value in (part.per_rank, part.total))
            lines.append(f"  {part.kind:<{width}} {rank:>10} {everyone:>12}")
        return "\n".join(lines)


def estimate_memory(model, config, hosts=1, ranks_per_host=1, units=(), optimizer=None):
    """The MemoryEstimate of training `model`, which may be on the meta device, on `hosts` of
    `ranks_per_host` ranks each. The other arguments are those of `initialize`. Nothing is
    allocated, and no other rank is needed."""
    settings = configs.load(config, world_size=hosts * ranks_per_host)
    if settings.recipe == AUTO:
        raise _native.UsageError(
            "estimate_memory: recipe auto is chosen on the cluster itself: name the one to look at"
        )
    types = Types(settings, model)
    options, _ = engine_options(settings, model, types)
    options.near_peers = ranks_per_host - 1 if settings.shared_memory else 0
    chosen = optimizers.choose(settings, optimizer, model, list(model.parameters()), options)
    found = unit_choice.choose(model, types.of, units or settings.units)
    options.prefetch += unit_choice.depth(model, found) - 1
    group_of = chosen.group_of_parameters()
    specs = [spec_of(unit, group_of) for unit in found if unit.parameters]
    ranks = _native.plan_memory(options, hosts, ranks_per_host, specs)
    kinds = list(dict.fromkeys(kind for rank in ranks for kind, _ in rank))
    by_kind = {kind: [dict(rank).get(kind, 0) for rank in ranks] for kind in kinds}
    sums = [sum(size for _, size in rank) for rank in ranks]
    return MemoryEstimate(
        hosts,
        ranks_per_host,
        tuple(Part(kind, max(sizes), sum(sizes)) for kind, sizes in by_kind.items()),
        per_rank=max(sums),
        total=sum(sums),
    )
