"""One rank of a comparison: a model trained sharded, and plainly on the mean gradient of all ranks
beside it."""

import copy
import os

import torch
from models import CASES, batch

import thinwire

STEPS = 6
OPTIMIZER = {"lr": 3e-3, "betas": (0.9, 0.98), "eps": 1e-8, "weight_decay": 0.0}
CONFIG = {
    "train_micro_batch_size_per_gpu": 3,
    "optimizer": {"type": "AdamW", "params": OPTIMIZER},
    "zero_optimization": {"stage": 3},
}


def plain_step(model, optimizer, step, world):
    """The losses of all ranks, by rank."""
    losses = []
    for each in range(world):
        loss = model(batch(step, each))
        (loss / world).backward()
        losses.append(loss.item())
    optimizer.step()
    optimizer.zero_grad()
    return losses


def compare(rank, world, name):
    """(sharded, plain) losses of training, then of the evaluations between its steps."""
    build, units = CASES[name]
    torch.manual_seed(7)
    plain = build()
    if rank != 0:
        torch.manual_seed(rank)  # thinwire takes rank 0's values
    sharded = copy.deepcopy(plain) if rank == 0 else build()
    engine, *_ = thinwire.initialize(model=sharded, config=CONFIG, units=units)
    optimizer = torch.optim.AdamW(plain.parameters(), **OPTIMIZER)
    trained, evaluated = [], []
    for step in range(STEPS):
        if step % 2 == 1:
            with torch.no_grad():
                tokens = batch(100 + step, rank)
                evaluated.append((engine(tokens).item(), plain(tokens).item()))
        expected = plain_step(plain, optimizer, step, world)[rank]
        loss = engine(batch(step, rank))
        engine.backward(loss)
        engine.step()
        trained.append((loss.item(), expected))
    engine.destroy()
    return trained + evaluated


def compare_all(rank, world):
    """Every case in one process, and how many threads it has after each: engines leave none."""
    pairs, threads = {}, []
    for name in CASES:
        pairs[name] = compare(rank, world, name)
        threads.append(len(os.listdir("/proc/self/task")))
    return pairs, threads
