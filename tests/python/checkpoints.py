"""One rank: saving and resuming through the engine."""

import torch
from models import Block, Transformer, batch
from torch import nn

import thinwire

CONFIG = {
    "train_micro_batch_size_per_gpu": 3,
    "gradient_accumulation_steps": 2,
    "optimizer": {"type": "AdamW", "params": {"lr": 3e-3, "weight_decay": 0.1}},
    "scheduler": {"type": "WarmupLR", "params": {"warmup_num_steps": 9}},
    "zero_optimization": {"stage": 3},
}


class WithBuffer(Transformer):
    def __init__(self):
        super().__init__()
        self.seen = nn.BatchNorm1d(1)

    def forward(self, tokens):
        self.seen(tokens.float().mean(1, keepdim=True))
        return super().forward(tokens)


def _engine(seed, build=WithBuffer):
    torch.manual_seed(seed)
    engine, *_ = thinwire.initialize(model=build(), config=CONFIG, units=[Block])
    return engine


def _train(engine, rank, first, last):
    losses = []
    for step in range(first, last):
        for micro in range(2):
            loss = engine(batch(2 * step + micro, rank))
            engine.backward(loss)
            engine.step()
            losses.append(loss.item())
    return losses


def resume(rank, world, directory):
    """Six steps in one go, and three, a save, a load into another engine, and three more."""
    engine = _engine(1)
    _train(engine, rank, 0, 3)
    path = engine.save_checkpoint(directory, client_state={"epoch": 4})
    straight = _train(engine, rank, 3, 6)
    rate = engine.optimizer.param_groups[0]["lr"]
    mean = engine.module.seen.running_mean.item()
    engine.destroy()
    other = _engine(2)
    loaded, client = other.load_checkpoint(directory)
    resumed = _train(other, rank, 3, 6)
    return {
        "paths": (path, loaded),
        "client": client,
        "losses": (straight, resumed),
        "rates": (rate, other.optimizer.param_groups[0]["lr"]),
        "buffers": (mean, other.module.seen.running_mean.item()),
        "steps": other.global_steps,
    }


def save(rank, world, directory):
    engine = _engine(1)
    _train(engine, rank, 0, 2)
    engine.save_checkpoint(directory, tag="named")
    with torch.no_grad():
        return engine(batch(50, 0)).item()


def load(rank, world, directory):
    engine = _engine(3)
    engine.load_checkpoint(directory, tag="named")
    with torch.no_grad():
        return engine(batch(50, 0)).item()


def alone(rank, world, directory):
    """What is said when one rank saves while the others train on."""
    engine = _engine(1)
    try:
        if rank == 0:
            engine.save_checkpoint(directory)
        else:
            _train(engine, rank, 0, 1)
    except RuntimeError as error:
        return str(error)
    return "nothing"


def unusable(rank, world, directory):
    engine = _engine(1)
    said = [repr(engine.load_checkpoint(directory + "/none"))]
    for call in (
        lambda: engine.load_checkpoint(directory, tag="missing"),
        lambda: engine.save_checkpoint(directory, client_state={"model": engine}),
        lambda: engine.save_checkpoint("/proc/nowhere"),
    ):
        try:
            said.append(repr(call()))
        except RuntimeError as error:
            said.append(str(error))
    return said
