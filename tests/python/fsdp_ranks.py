"""One rank of the tests of thinwire.fsdp: small transformers under torch's fully_shard."""

import contextlib
import io

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.nn import functional as F

from thinwire import fsdp

BATCH, LENGTH = 4, 12


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        q, k, v = self.qkv(self.first(x)).chunk(3, dim=-1)
        x = x + self.out(F.scaled_dot_product_attention(q, k, v, is_causal=True))
        return x + self.down(F.gelu(self.up(self.second(x))))


class Transformer(nn.Module):
    def __init__(self, width=64, vocabulary=97):
        super().__init__()
        self.vocabulary = vocabulary
        self.embed = nn.Embedding(vocabulary, width)
        self.blocks = nn.ModuleList(Block(width) for _ in range(3))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary)

    def forward(self, tokens):
        x = self.embed(tokens[:, :-1])
        for block in self.blocks:
            x = block(x)
        return F.cross_entropy(
            self.head(self.norm(x)).flatten(0, 1).float(), tokens[:, 1:].flatten()
        )


def batch(step, rank, vocabulary):
    """Counting up from a random start, in steps that differ: something to learn in 20 steps."""
    generator = torch.Generator().manual_seed(1000 * step + rank)
    start = torch.randint(0, vocabulary, (BATCH, 1), generator=generator)
    return (start + 3 * torch.arange(LENGTH + 1)) % vocabulary


def sharded(width=64, vocabulary=97, policy=None, **options):
    torch.manual_seed(7)
    model = Transformer(width, vocabulary)
    if policy:
        options["mp_policy"] = policy
    for block in model.blocks:
        fully_shard(block, **options)
    fully_shard(model, **{k: v for k, v in options.items() if k != "reshard_after_forward"})
    return model


def compress(model, *arguments, **options):
    """The report, and what was printed of it."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        report = fsdp.compress(model, *arguments, **options)
    return report, printed.getvalue()


def train(model, report=None, steps=20, micro_batches=1):
    """Mean loss of all ranks per step, and the bytes of the last step on the slow hop."""
    rank, world = dist.get_rank(), dist.get_world_size()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, eps=1e-6)
    losses = []
    for step in range(steps):
        if report:
            report.reset()
        for micro in range(micro_batches):
            model.set_requires_gradient_sync(micro == micro_batches - 1)
            loss = model(batch(step * micro_batches + micro, rank, model.vocabulary))
            (loss / micro_batches).backward()
        optimizer.step()
        optimizer.zero_grad()
        mean = loss.detach().clone()
        dist.all_reduce(mean)
        losses.append(mean.item() / world)
    return losses, report.bytes() if report else None


def digest(model):
    """Of all weights as this rank computes with them."""
    for module in model.modules():
        if hasattr(module, "unshard"):
            module.unshard()
    total = [parameter.detach().double().pow(2).sum().item() for parameter in model.parameters()]
    for module in model.modules():
        if hasattr(module, "reshard"):
            module.reshard()
    return total


def join():
    dist.init_process_group("gloo")


def curves(rank, world, ranks_per_host, recipes, width=64, vocabulary=97, policy=None, steps=20):
    """By recipe (None: FSDP2 alone): the losses, bytes per step, groups and weights."""
    join()
    found = {}
    for recipe in recipes:
        model = sharded(width, vocabulary, policy)
        numel = {name: p.numel() for name, p in model.named_parameters()}
        report = None
        if recipe:
            report, _ = compress(model, recipe, ranks_per_host)
        losses, sent = train(model, report, steps)
        found[recipe] = {"losses": losses, "bytes": sent, "numel": numel, "weights": digest(model)}
        if report:
            found[recipe]["groups"] = report.groups
    return found


def policies(rank, world):
    """Losses of FSDP2 alone and with both recipes, by mixed precision."""
    join()
    found = {}
    for name, policy in {
        "bf16, reduced in fp32": MixedPrecisionPolicy(torch.bfloat16, torch.float32),
        "bf16": MixedPrecisionPolicy(torch.bfloat16),
        "fp16": MixedPrecisionPolicy(torch.float16),
    }.items():
        found[name] = {}
        for recipe in (None, "zero3", "zero++"):
            model = sharded(policy=policy)
            report = compress(model, recipe, 2)[0] if recipe else None
            found[name][recipe] = train(model, report, steps=8)
    return found


def gradients(rank, world):
    """Of the first weight, with FSDP2's ways to divide and to accumulate."""
    join()
    found = {}
    for name, prepare in {
        "mean": lambda model: None,
        "half the mean": lambda model: model.set_gradient_divide_factor(2.0 * world),
        "sum": lambda model: model.set_gradient_divide_factor(1.0),
        "sums alone": lambda model: model.set_force_sum_reduction_for_comms(True),
    }.items():
        model = sharded()
        for module in model.modules():
            if hasattr(module, "set_gradient_divide_factor"):
                prepare(module)
        compress(model, "zero++", 2)
        model(batch(0, rank, model.vocabulary)).backward()
        found[name] = model.blocks[0].up.weight.grad.to_local().numpy().copy()
    for micro_batches in (1, 3):
        model = sharded()
        report, _ = compress(model, "zero++", 2)
        _, sent = train(model, report, 2, micro_batches)
        found[micro_batches] = (sent, report.groups)
    return found


def kept_inside_hosts(rank, world):
    """Bytes where FSDP2 keeps a host's slice from forward to backward."""
    join()
    model = sharded(reshard_after_forward=2)
    report, _ = compress(model, "zero++", 2)
    losses, sent = train(model, report, 4)
    return {"bytes": sent, "groups": report.groups, "losses": losses}


class Mixed(nn.Sequential):
    def forward(self, x):
        return self[1](self[0](x).bfloat16()).float()


class Odd(nn.Module):
    """A module per reason for which a group is not compressed, and one that is."""

    def __init__(self):
        super().__init__()
        self.usual = nn.Linear(96, 96)
        self.tiny = nn.Linear(4, 4)
        self.vectors = nn.LayerNorm(8192)
        self.wide = nn.Linear(96, 96, dtype=torch.float64)
        self.mixed = Mixed(nn.Linear(96, 96), nn.Linear(96, 96, dtype=torch.bfloat16))
        self.mixed[0].requires_grad_(False)

    def forward(self, x):
        y = self.tiny(x[:, :4]).sum() + self.vectors(x.repeat(1, 86)[:, :8192]).pow(2).mean()
        y = y + self.mixed(x).sum()
        return y + self.wide(x.double()).float().sum() + self.usual(x).sum()


def reports(rank, world):
    """The report of groups that cannot be compressed, which still train; by kind of mesh."""
    join()
    found = {}
    x = torch.randn(3, 96, generator=torch.Generator().manual_seed(2))
    torch.manual_seed(1)
    plain = Odd()
    for recipe in (None, "zero++"):
        torch.manual_seed(1)
        model = Odd()
        for module in model.children():
            fully_shard(module)
        if recipe:
            found["odd"] = compress(model, recipe, 2)
        with contextlib.redirect_stdout(io.StringIO()) as printed_later:
            for _ in range(2):
                model(x).backward()
        found[recipe] = {
            n: p.grad.full_tensor().float().numpy()
            for n, p in model.named_parameters()
            if p.requires_grad
        }
        found["later"] = printed_later.getvalue()
    for _ in range(2):
        plain(x).backward()
    found["plain"] = {
        n: p.grad.float().numpy() for n, p in plain.named_parameters() if p.requires_grad
    }
    for name, ranks_per_host in (("hsdp", 2), ("hsdp over hosts", 1)):
        mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("replicate", "shard"))
        model = sharded(mesh=mesh)
        found[name] = compress(model, "zero++", ranks_per_host)
        found[name] += (train(model, found[name][0], 3)[0],)
    found["hsdp alone"] = train(sharded(mesh=mesh), None, 3)[0]
    return found


def errors(rank, world):
    """What compress() says to wrong calls."""
    join()
    model = sharded()
    said = {}
    for name, call in {
        "plain": lambda: fsdp.compress(Transformer()),
        "recipe": lambda: fsdp.compress(model, "zero+"),
        "twice": lambda: fsdp.compress(model, "qwz+qwz"),
        "format": lambda: fsdp.compress(model, "slow_gather=int8/100"),
        "hop": lambda: fsdp.compress(model, "slow_gather=int8/128, keep=codes"),
        "differences": lambda: fsdp.compress(model, "delta4"),
        "feedback": lambda: fsdp.compress(model, "slow_reduce=int4/128, feedback=int8/128"),
        "coded": lambda: fsdp.compress(model, "qgz+coded"),
        "fast": lambda: fsdp.compress(model, "slow_gather=int8/128, fast_gather=bf16"),
        "hosts": lambda: fsdp.compress(model, ranks_per_host=3),
        "text": lambda: fsdp.compress(model, smallest="4096"),
        "negative": lambda: fsdp.compress(model, smallest=-1),
        "bool": lambda: fsdp.compress(model, ranks_per_host=True),
        "ranks": lambda: fsdp.compress(model, "qwz" if rank else "qgz"),
    }.items():
        try:
            call()
            said[name] = "nothing"
        except ValueError as error:
            said[name] = str(error)
    # By hops, with the hosts of LOCAL_WORLD_SIZE: one.
    report, text = compress(model, "slow_gather=int8/64, slow_reduce=int4/128/searched")
    said["one host"] = (str(report), text, train(model, report, 1)[1])
    return said
