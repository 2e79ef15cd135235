"""One rank: parameters of odd shapes, optimizers that torch does not have, unused parameters."""

import contextlib
import copy
import io

import torch
from torch import nn
from torch.nn import functional as F

import thinwire

WIDTH = 7


def data(step, rank):
    generator = torch.Generator().manual_seed(1000 * step + rank)
    return torch.randn(5, WIDTH, generator=generator)


class Odd(nn.Module):
    """Scalars, nothing, one element, primes, packed 3-D experts and a 4-D kernel."""

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(1.5))
        self.none = nn.Parameter(torch.zeros(0, 4))
        self.no_vector = nn.Parameter(torch.zeros(0))
        self.one = nn.Parameter(torch.randn(1))
        self.one_by_one = nn.Parameter(torch.randn(1, 1))
        self.prime = nn.Parameter(torch.randn(31, WIDTH) / 3)
        self.bias = nn.Parameter(torch.randn(31))
        self.experts = nn.Parameter(torch.randn(3, 2 * 5, 31) / 5)
        self.kernel = nn.Parameter(torch.randn(2, 1, 3, 1))

    def forward(self, x):
        y = torch.tanh(F.linear(x, self.prime, self.bias) * self.scale)
        gate, up = torch.einsum("bh,eih->ebi", y, self.experts).chunk(2, -1)
        z = F.conv2d((F.silu(gate) * up)[None].transpose(0, 1), self.kernel)
        nothing = self.none.sum() + self.no_vector.sum()
        return (z * self.one * self.one_by_one + nothing - 1).square().mean()


class PlainLion(torch.optim.Optimizer):
    """Chen et al. 2023, algorithm 2."""

    def __init__(self, parameters, lr, betas, weight_decay):
        super().__init__(parameters, {"lr": lr, "betas": betas, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            first, second = group["betas"]
            for p in group["params"]:
                m = self.state[p].setdefault("m", torch.zeros_like(p))
                update = (m * first + p.grad * (1 - first)).sign()
                p.mul_(1 - group["lr"] * group["weight_decay"]).sub_(update, alpha=group["lr"])
                m.mul_(second).add_(p.grad, alpha=1 - second)


class PlainLamb(torch.optim.Optimizer):
    """You et al. 2020, with the bounds of the trust ratio that DeepSpeed has."""

    def __init__(self, parameters, lr, betas, weight_decay):
        super().__init__(parameters, {"lr": lr, "betas": betas, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            first, second = group["betas"]
            for p in group["params"]:
                state = self.state[p]
                state["step"] = state.get("step", 0) + 1
                m = state.setdefault("m", torch.zeros_like(p))
                v = state.setdefault("v", torch.zeros_like(p))
                m.mul_(first).add_(p.grad, alpha=1 - first)
                v.mul_(second).addcmul_(p.grad, p.grad, value=1 - second)
                mean = m / (1 - first ** state["step"])
                root = (v / (1 - second ** state["step"])).sqrt()
                update = mean / (root + 1e-8) + group["weight_decay"] * p
                norms = p.norm().item(), update.norm().item()
                trust = min(max(norms[0] / norms[1], 0.01), 10.0) if all(norms) else 1.0
                p.sub_(update, alpha=group["lr"] * trust)


# type: (its parameters in a config, what does the same)
OPTIMIZERS = {
    "AdamW": ({"lr": 3e-3, "betas": [0.9, 0.98], "weight_decay": 0.1}, torch.optim.AdamW),
    "Lion": ({"lr": 1e-3, "betas": [0.9, 0.98], "weight_decay": 0.1}, PlainLion),
    "Lamb": ({"lr": 3e-3, "betas": [0.9, 0.98], "weight_decay": 0.1}, PlainLamb),
}


def begin(build, optimizer, stage, units=()):
    torch.manual_seed(31)
    model = build()
    plain = copy.deepcopy(model)
    config = {
        "train_micro_batch_size_per_gpu": 5,
        "optimizer": {"type": optimizer, "params": OPTIMIZERS[optimizer][0]},
        "zero_optimization": {"stage": stage},
    }
    engine, *_ = thinwire.initialize(model=model, config=config, units=units)
    return engine, plain, OPTIMIZERS[optimizer][1](plain.parameters(), **OPTIMIZERS[optimizer][0])


def odd(rank, world):
    """{(optimizer, stage): (pairs of losses, largest difference of a weight)}."""
    results = {}
    for name in OPTIMIZERS:
        for stage in (1, 3):
            engine, plain, optimizer = begin(Odd, name, stage)
            pairs = []
            for step in range(6):
                losses = [plain(data(step, each)) for each in range(world)]
                optimizer.zero_grad(set_to_none=False)
                (sum(losses) / world).backward()
                optimizer.step()
                loss = engine(data(step, rank))
                engine.backward(loss)
                engine.step()
                pairs.append((loss.item(), losses[rank].item()))
            state = engine.state_dict()
            apart = [
                (state[n] - p).abs().max().item() for n, p in plain.named_parameters() if p.numel()
            ]
            results[name, stage] = pairs, max(apart)
            engine.destroy()
    return results


class Choosing(nn.Module):
    """Of four layers one is never used, one in the first step alone, one by rank 1 alone, if so."""

    def __init__(self, all_alike):
        super().__init__()
        self.all_alike = all_alike
        self.layers = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.extra = nn.Parameter(torch.ones(3))  # beside used ones in the root, and never used

    def forward(self, x, step, rank):
        x = self.layers[0](x)
        if step == 0:
            x = self.layers[2](x)
        if rank == 1 or self.all_alike:
            x = self.layers[3](x)
        return x.square().mean()


def unused(rank, world):
    """{(units, optimizer): largest difference of a weight from plain torch's}, where the gradient
    of what nobody used is None there."""
    results = {}
    for units in ((), ("Linear",)):
        for name in ("AdamW", "AMSGrad"):
            torch.manual_seed(31)
            model = Choosing(all_alike=bool(units))  # ranks use the same units in the first pass
            plain = copy.deepcopy(model)

            def make(parameters, amsgrad=name == "AMSGrad"):  # which runs as torch's own class
                return torch.optim.AdamW(parameters, lr=0.01, weight_decay=0.5, amsgrad=amsgrad)

            optimizer = make(plain.parameters())
            engine, *_ = thinwire.initialize(
                model=model,
                optimizer=make,
                config={"zero_optimization": {"stage": 3}, "gradient_accumulation_steps": 2},
                units=units,
            )
            for step in range(4):
                for micro in range(2):
                    for each in range(world):
                        loss = plain(data(2 * step + micro, each), step, each)
                        (loss / (2 * world)).backward()
                    engine.backward(engine(data(2 * step + micro, rank), step, rank))
                    engine.step()
                optimizer.step()
                optimizer.zero_grad()
            state = engine.state_dict()
            results[units, name] = max(
                (state[n] - p).abs().max().item() for n, p in plain.named_parameters()
            )
            engine.destroy()
    return results


def all_cases(rank, world):
    with contextlib.redirect_stdout(io.StringIO()):
        return {"odd": odd(rank, world), "unused": unused(rank, world) if world > 1 else {}}
