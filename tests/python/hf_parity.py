"""One rank: a Hugging Face model trained sharded, and plainly on the mean gradient beside it."""

import copy

import torch
from hf_models import CASES, batch

import thinwire

STEPS = 6
RATE = 0.2
CONFIG = {
    "train_micro_batch_size_per_gpu": 2,
    "optimizer": {"type": "SGD", "params": {"lr": RATE}},
    "zero_optimization": {"stage": 3},
}


def compare(rank, world, name, recompute=False):
    build, block, tied = CASES[name]
    torch.manual_seed(7)
    model = build().train()
    plain = copy.deepcopy(model)
    if recompute:
        model.gradient_checkpointing_enable({"use_reentrant": False})
    engine, *_ = thinwire.initialize(model=model, config=CONFIG, units=[block])
    optimizer = torch.optim.SGD(plain.parameters(), lr=RATE)
    pairs = []
    for step in range(STEPS):
        with torch.no_grad():
            tokens = batch(100 + step, rank)
            pairs.append((engine(**tokens).loss.item(), plain(**tokens).loss.item()))
        losses = [plain(**batch(step, each)).loss for each in range(world)]
        (sum(losses) / world).backward()
        optimizer.step()
        optimizer.zero_grad()
        loss = engine(**batch(step, rank)).loss
        engine.backward(loss)
        engine.step()
        pairs.append((loss.item(), losses[rank].item()))
    state, expected = engine.state_dict(), plain.state_dict()
    differences = {name: (state[name] - expected[name]).abs().max().item() for name in expected}
    engine.destroy()
    return {
        "losses": pairs,
        "names": (list(state), list(expected)),
        "difference": max(differences.items(), key=lambda pair: pair[1]),
        "tied": len({state[each].data_ptr() for each in tied}) <= 1,
    }


def compare_all(rank, world):
    return {name: compare(rank, world, name) for name in CASES} | {
        f"{name}, recomputed": compare(rank, world, name, recompute=True)
        for name in ("llama", "gpt2", "t5")
    }
