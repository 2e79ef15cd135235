#!/usr/bin/env python3
"""One rank of a peer: the LLaMA-type model of peers.py trained with DDP, FSDP2, HSDP or DeepSpeed,
or with thinwire's Python package.

Needs torch, transformers and deepspeed (the environment that peers.py makes); started once per
rank with the variables of torchrun. Every peer is set up as its own documentation says: fp32
master weights, computing and sending bf16, AdamW. thinwire is told the number of hosts, which a
cluster would show it: these are emulated on one machine. Rank 0 prints one JSON line: seconds per
step (steps between two barriers, divided by their number) and bytes that its host sent per step.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from transformers import LlamaConfig, LlamaForCausalLM

Step = Callable[[torch.Tensor], torch.Tensor]
_ADAMW: dict[str, Any] = {"lr": 1e-3, "betas": (0.9, 0.95), "eps": 1e-8, "weight_decay": 0.1}


def make_model(args: argparse.Namespace) -> LlamaForCausalLM:
    """The same architecture and size as thinwire's, from the same seed on every rank."""
    torch.manual_seed(0)
    return LlamaForCausalLM(
        LlamaConfig(
            hidden_size=args.hidden,
            num_hidden_layers=args.layers,
            num_attention_heads=args.heads,
            num_key_value_heads=args.heads,
            intermediate_size=args.intermediate,
            vocab_size=args.vocab,
            max_position_embeddings=args.sequence,
            tie_word_embeddings=False,
            use_cache=False,
        )
    )


def ddp(model: LlamaForCausalLM) -> Step:
    """Distributed data parallel in pure bf16: weights, gradients and optimizer state."""
    wrapped = torch.nn.parallel.DistributedDataParallel(model.to(torch.bfloat16))
    return _plain_step(wrapped, torch.optim.AdamW(wrapped.parameters(), **_ADAMW))


def ddp_master(model: LlamaForCausalLM) -> Step:
    """Data parallel in bf16 with fp32 master weights, which every rank keeps and updates whole."""
    wrapped = torch.nn.parallel.DistributedDataParallel(model.to(torch.bfloat16))
    parameters = list(wrapped.parameters())
    masters = [p.detach().float() for p in parameters]
    optimizer = torch.optim.AdamW(masters, **_ADAMW)

    def step(tokens: torch.Tensor) -> torch.Tensor:
        loss: torch.Tensor = wrapped(input_ids=tokens, labels=tokens).loss
        loss.backward()
        for parameter, master in zip(parameters, masters, strict=True):
            assert parameter.grad is not None
            master.grad = parameter.grad.float()
        optimizer.step()
        torch._foreach_copy_([p.data for p in parameters], masters)
        wrapped.zero_grad()
        return loss.detach()

    return step


def fsdp2(model: LlamaForCausalLM, ranks_per_host: int = 0) -> Step:
    """Fully sharded over all ranks, or (HSDP) within a host and replicated between hosts."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    world = dist.get_world_size()
    shape: tuple[int, ...] = (world,)
    names: tuple[str, ...] = ("shard",)
    if ranks_per_host:
        shape, names = (world // ranks_per_host, ranks_per_host), ("replicate", "shard")
    options: dict[str, Any] = {
        "mesh": init_device_mesh("cpu", shape, mesh_dim_names=names),
        "mp_policy": MixedPrecisionPolicy(torch.bfloat16, torch.bfloat16),
    }
    for layer in model.model.layers:
        fully_shard(layer, **options)
    fully_shard(model, **options)
    return _plain_step(model, torch.optim.AdamW(model.parameters(), **_ADAMW))


def deepspeed_zero3(model: LlamaForCausalLM) -> Step:
    """DeepSpeed ZeRO-3 with bf16 and its own fp32 masters, everything else as it comes."""
    import deepspeed

    config = {
        "train_micro_batch_size_per_gpu": 1,
        "optimizer": {"type": "AdamW", "params": {**_ADAMW, "torch_adam": True}},
        "zero_optimization": {"stage": 3},
        "bf16": {"enabled": True},
        "steps_per_print": 10**9,
    }
    engine, *_ = deepspeed.initialize(model=model, config=config)

    def step(tokens: torch.Tensor) -> torch.Tensor:
        loss: torch.Tensor = engine(input_ids=tokens, labels=tokens).loss
        engine.backward(loss)
        engine.step()
        return loss.detach()

    return step


def thinwire_engine(model: LlamaForCausalLM, recipe: str) -> Step:
    """thinwire.initialize with a DeepSpeed config and a recipe, everything else as it comes."""
    import thinwire

    local = int(os.environ["LOCAL_WORLD_SIZE"])
    config = {
        "train_micro_batch_size_per_gpu": 1,
        "optimizer": {"type": "AdamW", "params": _ADAMW},
        "zero_optimization": {"stage": 3},
        "bf16": {"enabled": True},
        "thinwire": {
            "recipe": recipe,
            "hosts": int(os.environ["WORLD_SIZE"]) // local,
            "ranks_per_host": local,
        },
    }
    engine, *_ = thinwire.initialize(model=model, config=config)

    def step(tokens: torch.Tensor) -> torch.Tensor:
        loss: torch.Tensor = engine(input_ids=tokens, labels=tokens).loss
        engine.backward(loss)
        engine.step()
        return loss.detach()

    return step


def _plain_step(model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> Step:
    def step(tokens: torch.Tensor) -> torch.Tensor:
        loss: torch.Tensor = model(input_ids=tokens, labels=tokens).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss.detach()

    return step


def sent_bytes(interface: str) -> int:
    """What this host's interface has sent so far; 0 if there is no such interface."""
    for line in Path("/proc/net/dev").read_text().splitlines():
        name, _, counters = line.partition(":")
        if name.strip() == interface:
            return int(counters.split()[8])
    return 0


_PEERS: dict[str, Callable[[LlamaForCausalLM, argparse.Namespace], Step]] = {
    "ddp": lambda model, _: ddp(model),
    "ddp-master": lambda model, _: ddp_master(model),
    "fsdp2": lambda model, _: fsdp2(model),
    "hsdp": lambda model, _: fsdp2(model, int(os.environ["LOCAL_WORLD_SIZE"])),
    "deepspeed": lambda model, _: deepspeed_zero3(model),
    "thinwire": lambda model, args: thinwire_engine(model, args.recipe),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("peer", choices=list(_PEERS))
    parser.add_argument("--recipe", default="zero3", help="of thinwire")
    for size in ("hidden", "layers", "heads", "intermediate", "vocab", "sequence"):
        parser.add_argument(f"--{size}", type=int, required=True)
    parser.add_argument("--data", type=Path, required=True, help="text; its bytes are the tokens")
    parser.add_argument("--warm-up", type=int, default=2)
    parser.add_argument("--steps", type=int, default=4)
    args = parser.parse_args()

    torch.set_num_threads(1)  # all ranks share the machine's cores
    if args.peer == "deepspeed":
        import deepspeed

        deepspeed.init_distributed("gloo")
    else:
        dist.init_process_group("gloo")
    rank, model = dist.get_rank(), make_model(args)
    parameters = sum(p.numel() for p in model.parameters())
    step = _PEERS[args.peer](model, args)

    text = torch.frombuffer(bytearray(args.data.read_bytes()), dtype=torch.uint8).long()
    chooser = torch.Generator().manual_seed(rank)
    interface = os.environ.get("GLOO_SOCKET_IFNAME", "")
    begin, sent, loss = 0.0, 0, torch.zeros(())
    for i in range(args.warm_up + args.steps):
        if i == args.warm_up:
            dist.barrier()
            begin, sent = time.perf_counter(), sent_bytes(interface)
        at = int(torch.randint(len(text) - args.sequence, (1,), generator=chooser))
        loss = step(text[at : at + args.sequence].unsqueeze(0))
    dist.barrier()
    seconds, sent = time.perf_counter() - begin, sent_bytes(interface) - sent
    if rank == 0:
        report = {
            "step_s": seconds / args.steps,
            "wire_bytes_per_step": sent / args.steps,
            "parameters": parameters,
            "loss": float(loss),
        }
        assert math.isfinite(report["loss"]), report
        print(json.dumps(report), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
