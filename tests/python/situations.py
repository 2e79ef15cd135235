"""One rank in situations reported against other implementations; docs/situations.md lists them."""

import copy
import ctypes
import os
from pathlib import Path

import torch
from models import VOCABULARY, WIDTH, Mlp, batch
from parity import plain_step
from torch import nn
from torch.nn import functional as F

import thinwire

_ADAMW = {"lr": 3e-3, "betas": (0.9, 0.98), "eps": 1e-8, "weight_decay": 0.0}
_M_MMAP_THRESHOLD = -3


def _engine(build, stage=3, recipe=None, hosts=None, clipping=0.0, seed=5):
    """An engine, and the same model beside it."""
    torch.manual_seed(seed)
    model = build()
    plain = copy.deepcopy(model)
    ours = {"recipe": recipe} if recipe else {}
    if hosts:
        ours["shared_memory"] = hosts == 2
        ours |= {"hosts": hosts, "ranks_per_host": int(os.environ["WORLD_SIZE"]) // hosts}
    config = {
        "train_micro_batch_size_per_gpu": 3,
        "gradient_clipping": clipping,
        "optimizer": {"type": "AdamW", "params": _ADAMW},
        "zero_optimization": {"stage": stage},
        "thinwire": ours,
    }
    engine, *_ = thinwire.initialize(model=model, config=config, units=["Linear"])
    return engine, plain


def _step(engine, step):
    loss = engine(batch(step, engine.rank))
    engine.backward(loss)
    engine.step()
    return loss.item()


class Skipping(nn.Module):
    """Without grad, ranks may leave out the middle."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, WIDTH)
        self.middle = nn.Linear(WIDTH, WIDTH)
        self.head = nn.Linear(WIDTH, VOCABULARY)
        self.skips = False

    def forward(self, tokens):
        x = self.embed(tokens[:, :-1])
        x = x if self.skips else self.middle(x)
        return F.cross_entropy(self.head(x).flatten(0, 1), tokens[:, 1:].flatten())


def skipped_in_evaluation(rank, world):
    """(got, expected) of training and of evaluations in which rank 1 skips a module."""
    pairs = []
    for recipe in ("zero3", "hpz"):
        engine, plain = _engine(Skipping, recipe=recipe, hosts=2)
        optimizer = torch.optim.AdamW(plain.parameters(), **_ADAMW)
        for step in range(4):
            # The first pass of its kind, which all make alike, is how the order is known.
            engine.module.skips = plain.skips = rank == 1 and step > 0
            with torch.no_grad():
                tokens = batch(100 + step, rank)
                pairs.append((engine(tokens).item(), plain(tokens).item()))
            engine.module.skips = plain.skips = False
            expected = plain_step(plain, optimizer, step, world)[rank]
            pairs.append((_step(engine, step), expected))
        engine.destroy()
    return pairs


def norms(rank, world):
    """{hosts: (global norms, losses)} of clipped steps, and what one process has."""
    found = {}
    for hosts in (1, 2, 4):
        engine, plain = _engine(Mlp, recipe="hpz", hosts=hosts, clipping=0.05)
        got = [(_step(engine, step), engine.get_global_grad_norm()) for step in range(3)]
        engine.destroy()
        found[hosts] = got
    optimizer = torch.optim.AdamW(plain.parameters(), **_ADAMW)
    expected = []
    for step in range(3):
        losses = [plain(batch(step, each)) for each in range(world)]
        (sum(losses) / world).backward()
        norm = nn.utils.clip_grad_norm_(plain.parameters(), 0.05)
        optimizer.step()
        optimizer.zero_grad()
        expected.append((losses[rank].item(), norm.item()))
    return found, expected


def edited(rank, world):
    """{recipe: (got, expected)} of a pass right after an edit of one rank."""
    found = {}
    for recipe in ("hpz", "zero++"):
        engine, plain = _engine(Mlp, recipe=recipe, hosts=2)
        with torch.no_grad():
            engine(batch(0, rank))  # every kept slice is filled before
            with thinwire.full_params(engine.module.layers, modifier_rank=1):
                if rank == 1:
                    engine.module.layers[2].weight.mul_(-3)
            plain.layers[2].weight.mul_(-3)
            found[recipe] = engine(batch(1, rank)).item(), plain(batch(1, rank)).item()
        engine.destroy()
    return found


def save(rank, world, directory):
    """Saves at stage 3 with a kept slice; the loss of the next step."""
    engine, _ = _engine(Mlp, recipe="hpz", hosts=2)
    for step in range(3):
        _step(engine, step)
    engine.save_checkpoint(directory)
    return _loss_of_all(engine)


def load(rank, world, directory, stage):
    engine, _ = _engine(Mlp, stage=stage, seed=6)
    engine.load_checkpoint(directory)
    return _loss_of_all(engine)


def _loss_of_all(engine):
    """Of batches that do not depend on the number of ranks, before and after a step on them."""
    before = engine(batch(50, 0))
    engine.backward(before)
    engine.step()
    with torch.no_grad():
        return before.item(), engine(batch(51, 0)).item()


def refused(rank, world):
    """What initialize() and full_params() say to what they cannot take."""
    engine, _ = _engine(Mlp)
    ended, _ = _engine(Mlp)
    ended.destroy()
    expanded = nn.Linear(2, 2)
    expanded.register_buffer("ones", torch.ones(1).expand(3))
    calls = {
        "mpu": lambda: _initialize(nn.Linear(2, 2), mpu=object()),
        "no module": lambda: _initialize("gpt2"),
        "nothing in it": lambda: _initialize(nn.ReLU()),
        "an engine": lambda: _initialize(engine),
        "a model of an engine": lambda: _initialize(engine.module),
        "a model of one that ended": lambda: _initialize(ended.module),
        "a lazy module": lambda: _initialize(nn.LazyLinear(3)),
        "an expanded buffer": lambda: _initialize(expanded),
        "two configs": lambda: _initialize(nn.Linear(2, 2), config_params={}),
        "a unit": lambda: _initialize(nn.Linear(2, 2), units=[3]),
        "a parameter": lambda: thinwire.full_params("head").__enter__(),
        "a rank": lambda: thinwire.full_params(engine.module, modifier_rank=7).__enter__(),
    }
    said = {}
    for name, call in calls.items():
        try:
            call()
        except (thinwire.native._native.UsageError, ValueError) as error:
            said[name] = str(error)
    _initialize(nn.Sequential(nn.Linear(2, 2)), units="Linear").destroy()
    return said


def _initialize(model, **more):
    return thinwire.initialize(**{"model": model, "config": {}} | more)[0]


class Wide(nn.Module):
    """40 MiB of weights, 160 with their optimizer state."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(*[nn.Linear(1600, 1600, bias=False) for _ in range(4)])

    def forward(self, x):
        return self.layers(x).square().mean()


def loading_memory(rank, world, directory):
    """MiB that loading a checkpoint takes beyond the engine, and those of a rank's shard."""
    ctypes.CDLL(None).mallopt(_M_MMAP_THRESHOLD, 1 << 20)  # what is freed is gone
    engine, _ = _engine(Wide)
    engine.backward(engine(torch.ones(1, 1600)))
    engine.step()
    engine.save_checkpoint(directory)
    engine.load_checkpoint(directory)  # what every first one costs
    before = _status("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    engine.load_checkpoint(directory)
    return _status("VmHWM") - before, 12 * 4 * 1600**2 / world / 2**20


def _status(name):
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(name))


def two_ranks(rank, world, directory):
    return {
        "refused": refused(rank, world),
        "skipped": skipped_in_evaluation(rank, world),
        "loading": loading_memory(rank, world, directory),
    }


def four_ranks(rank, world, directory):
    return {
        "norms": norms(rank, world),
        "edited": edited(rank, world),
        "saved": save(rank, world, directory),
    }
