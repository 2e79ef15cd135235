"""Small models with the traits that sharding has to cope with."""

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

WIDTH, VOCABULARY, LENGTH, BATCH = 24, 31, 7, 3


def batch(step, rank):
    generator = torch.Generator().manual_seed(1000 * step + rank)
    return torch.randint(0, VOCABULARY, (BATCH, LENGTH + 1), generator=generator)


class Mlp(nn.Module):
    """A chain of layers; its input needs no grad."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, WIDTH)
        self.layers = nn.Sequential(*[layer for _ in range(3) for layer in self._block()])
        self.head = nn.Linear(WIDTH, VOCABULARY)

    @staticmethod
    def _block():
        return nn.Linear(WIDTH, WIDTH), nn.ReLU(inplace=True)

    def forward(self, tokens):
        x = self.layers(self.embed(tokens[:, :-1]))
        return F.cross_entropy(self.head(x).flatten(0, 1), tokens[:, 1:].flatten())


class Block(nn.Module):
    """Takes two tensors, one of them in a dictionary, and returns a tuple with a dictionary."""

    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.up = nn.Linear(WIDTH, 2 * WIDTH)
        self.down = nn.Linear(2 * WIDTH, WIDTH)
        self.mix = nn.Parameter(torch.zeros(LENGTH, LENGTH))
        self.gain = nn.Parameter(torch.ones(()))

    def forward(self, x, context=None):
        mixed = torch.softmax(self.mix, -1) @ self.norm(x)
        y = x + self.down(F.gelu(self.up(mixed))) + self.gain * context["first"]
        return y, {"first": context["first"] * 0.5, "label": "kept"}


class Transformer(nn.Module):
    """Repeated blocks; embedding and head are tied; one module is never called, one twice."""

    def __init__(self, recompute=None):
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(3))
        self.twice = nn.Linear(WIDTH, WIDTH)
        self.never = nn.Linear(WIDTH, WIDTH)
        self.norm = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)
        self.head.weight = self.embed.weight
        self.recompute = recompute  # None, or checkpoint's use_reentrant

    def forward(self, tokens):
        x = self.embed(tokens[:, :-1])
        context = {"first": self.twice(x)}
        for block in self.blocks:
            if self.recompute is None or not torch.is_grad_enabled():
                x, context = block(x, context=context)
            elif self.recompute:  # the reentrant one sees tensors among its own arguments only
                x, first = checkpoint(self._plain(block), x, context["first"], use_reentrant=True)
                context = {"first": first}
            else:
                x, context = checkpoint(block, x, context=context, use_reentrant=False)
        x = self.norm(self.twice(x))
        return F.cross_entropy(self.head(x).flatten(0, 1), tokens[:, 1:].flatten())

    @staticmethod
    def _plain(block):
        def call(x, first):
            y, context = block(x, context={"first": first})
            return y, context["first"]

        return call


class Shared(nn.Module):
    """One block used as every layer, and units within a unit."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, WIDTH)
        self.outer = nn.ModuleDict({"inner": Block(), "again": nn.Linear(WIDTH, WIDTH)})
        self.body = _Body(self.outer["inner"])
        self.head = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, tokens):
        x = self.embed(tokens[:, :-1])
        for _ in range(3):
            x = self.body(x)
        return F.cross_entropy(self.head(x).flatten(0, 1), tokens[:, 1:].flatten())


class _Body(nn.Module):
    def __init__(self, block):
        super().__init__()
        self.block = block
        self.scale = nn.Parameter(torch.full((WIDTH,), 0.5))

    def forward(self, x):
        y, _ = self.block(x * self.scale, context={"first": x})
        return y * self.scale


class Experts(nn.Module):
    """Each token goes to the best of four experts, of which a rank has two to choose from."""

    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.router = nn.Linear(WIDTH, 4)
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.GELU(), nn.Linear(WIDTH, WIDTH))
            for _ in range(4)
        )

    def forward(self, x, first):
        y = self.norm(x)
        offered = torch.tensor([(expert - first) % 4 < 2 for expert in range(4)])
        weights = self.router(y).masked_fill(~offered, -torch.inf).softmax(-1)
        weight, choice = weights.max(-1)
        out = torch.zeros_like(x)
        for expert in choice.unique().tolist():
            mine = choice == expert
            out[mine] = self.experts[expert](y[mine]) * weight[mine, None]
        return x + out


class Mixture(nn.Module):
    """The tokens' sum of a batch stands for what makes ranks route differently."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, WIDTH)
        self.blocks = nn.ModuleList(Experts() for _ in range(3))
        self.head = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, tokens):
        x = self.embed(tokens[:, :-1])
        for depth, block in enumerate(self.blocks):
            x = block(x, int(tokens.sum()) + depth)
        return F.cross_entropy(self.head(x).flatten(0, 1), tokens[:, 1:].flatten())


# name: (model, units)
CASES = {
    "mlp": (Mlp, ["Linear", "Embedding"]),
    "mlp in one unit": (Mlp, []),
    "transformer": (Transformer, [Block]),
    "recomputed": (lambda: Transformer(recompute=False), [Block, "twice"]),
    "recomputed, reentrant": (lambda: Transformer(recompute=True), [Block, "twice"]),
    "units in units": (Shared, [_Body, Block, "head"]),
}
