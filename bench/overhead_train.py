#!/usr/bin/env python3
"""One rank of overhead.py: the same model under DDP and under thinwire, in turns.

Rank 0 prints one JSON line: seconds per step of each, one number per round.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable

import torch
import torch.distributed as dist
from torch import nn

import thinwire

_WIDTH, _BATCH = 16, 8
_ADAMW = {"lr": 1e-3, "betas": (0.9, 0.95), "eps": 1e-8, "weight_decay": 0.1}


def make_model(layers: int) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(*[nn.Linear(_WIDTH, _WIDTH) for _ in range(layers)])


def ddp(model: nn.Module) -> Callable[[torch.Tensor], None]:
    """With the optimizer of torch that is fastest on many small parameters."""
    wrapped = nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.AdamW(wrapped.parameters(), fused=True, **_ADAMW)

    def step(x: torch.Tensor) -> None:
        wrapped(x).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def ours(model: nn.Module) -> Callable[[torch.Tensor], None]:
    engine, *_ = thinwire.initialize(
        model=model,
        config={
            "train_micro_batch_size_per_gpu": _BATCH,
            "optimizer": {"type": "AdamW", "params": _ADAMW},
            "zero_optimization": {"stage": 3},
        },
    )

    def step(x: torch.Tensor) -> None:
        engine.backward(engine(x).square().mean())
        engine.step()

    return step


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--layers", type=int, required=True)
    parser.add_argument("--rounds", type=int, required=True)
    parser.add_argument("--steps", type=int, required=True)
    args = parser.parse_args()
    torch.set_num_threads(1)  # all ranks share the machine's cores
    dist.init_process_group("gloo")
    steps = {"ddp": ddp(make_model(args.layers)), "thinwire": ours(make_model(args.layers))}
    x = torch.randn(_BATCH, _WIDTH, generator=torch.Generator().manual_seed(dist.get_rank()))

    def seconds(step: Callable[[torch.Tensor], None], count: int) -> float:
        dist.barrier()
        begin = time.perf_counter()
        for _ in range(count):
            step(x)
        dist.barrier()
        return (time.perf_counter() - begin) / count

    for step in steps.values():
        seconds(step, 5)
    times: dict[str, list[float]] = {"ddp": [], "thinwire": []}
    for round_ in range(args.rounds):
        for name in sorted(steps, reverse=round_ % 2 == 1):
            times[name].append(seconds(steps[name], args.steps))
    if dist.get_rank() == 0:
        print(json.dumps(times), flush=True)
    dist.barrier()  # rank 0 hosts the store
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
