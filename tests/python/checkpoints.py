"""One rank: saving and resuming through the engine."""

import math
from pathlib import Path

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


class WithWiderBuffer(WithBuffer):
    def __init__(self):
        super().__init__()
        self.seen.register_buffer("running_mean", torch.zeros(2))
        self.seen.forward = lambda x: x


def _engine(seed, build=WithBuffer, config=CONFIG):
    torch.manual_seed(seed)
    engine, *_ = thinwire.initialize(model=build(), config=config, units=[Block])
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
    path = engine.save_checkpoint(directory, client_state={"epoch": 4, "best": math.inf})
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


def resume_differences(rank, world, directory):
    """The same with weights as differences and gradients with feedback, on two hosts; and what a
    pass without gradients computes before and after catch_up, and in one process."""
    recipe = (
        "slow_gather=ternary/128, fast_reduce=rot32+int8/128, slow_reduce=rot32+ternary/128, "
        "keep=reference, feedback=int8/128"
    )
    config = CONFIG | {"thinwire": {"hosts": 2, "ranks_per_host": 1, "recipe": recipe}}
    engine = _engine(1, config=config)
    _train(engine, rank, 0, 3)
    engine.save_checkpoint(directory)
    straight = _train(engine, rank, 3, 6)
    engine.eval()
    losses = {}
    with torch.no_grad():
        losses["behind"] = engine(batch(50, 0)).item()
        engine.catch_up()
        losses["caught up"] = engine(batch(50, 0)).item()
        whole = WithBuffer()
        whole.load_state_dict(engine.state_dict())
        losses["masters"] = whole.eval()(batch(50, 0)).item()
    engine.destroy()
    other = _engine(2, config=config)
    other.load_checkpoint(directory)
    return {"losses": (straight, _train(other, rank, 3, 6)), "evaluated": losses}


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


def others(rank, world, directory):
    """What is said to groups and buffers that were not saved, and where ranks see other files."""
    engine = _engine(1)
    engine.save_checkpoint(directory)
    torch.manual_seed(1)
    model = WithBuffer()
    first, *rest = model.parameters()
    grouped, *_ = thinwire.initialize(
        model=model, config=CONFIG, model_parameters=[{"params": [first]}, {"params": rest}]
    )
    wider = _engine(1, WithWiderBuffer)
    said = []
    own = Path(directory) / f"of rank {rank}"
    own.mkdir()
    if rank == 1:
        (own / "latest").write_text("global_step0")
    for call in (
        lambda: grouped.load_checkpoint(directory),
        lambda: wider.load_checkpoint(directory),
        lambda: engine.load_checkpoint(own),
    ):
        try:
            said.append(repr(call()))
        except RuntimeError as error:
            said.append(str(error))
    engine.load_checkpoint(directory)
    _train(engine, rank, 0, 1)
    return said


OUTSIDE = {
    "Adagrad": lambda p: torch.optim.Adagrad(p, lr=1e-2, initial_accumulator_value=0.1),
    "RMSprop": lambda p: torch.optim.RMSprop(p, lr=1e-3, momentum=0.9, centered=True),
    "AMSGrad": lambda p: torch.optim.Adam(p, lr=1e-3, amsgrad=True),
    "NAdam": lambda p: torch.optim.NAdam(p, lr=1e-3),
    "ASGD": lambda p: torch.optim.ASGD(p, lr=1e-2, t0=2),
    "SGD": lambda p: torch.optim.SGD(p, lr=1e-2, momentum=0.9, maximize=True),
}


def outside(rank, world, directory):
    """(straight, resumed) losses with optimizers of torch's own, saved after two steps and before
    the first."""

    def build(seed, make):
        torch.manual_seed(seed)
        config = {key: CONFIG[key] for key in CONFIG if key not in ("optimizer", "scheduler")}
        engine, *_ = thinwire.initialize(
            model=Transformer(), config=config, optimizer=make, units=[Block]
        )
        return engine

    results = {}
    for name, make in OUTSIDE.items():
        for steps in (0, 2) if name == "Adagrad" else (2,):
            engine = build(1, make)
            _train(engine, rank, 0, steps)
            engine.save_checkpoint(directory, tag=f"{name}{steps}")
            straight = _train(engine, rank, steps, steps + 2)
            engine.destroy()
            other = build(2, make)
            _train(other, rank, 0, 1)
            other.load_checkpoint(directory, tag=f"{name}{steps}")
            results[name, steps] = (straight, _train(other, rank, steps, steps + 2))
            other.destroy()
    return results


def _half_frozen():
    model = Transformer()
    model.embed.requires_grad_(False)
    model.blocks[1].requires_grad_(False)
    return model


def _alike(engine, state):
    return {name for name, value in engine.state_dict().items() if torch.equal(value, state[name])}


def frozen(rank, world, directory):
    """What comes back of a model that is frozen in part; load, save and evaluation untrained."""
    engine = _engine(1, _half_frozen)
    _train(engine, rank, 0, 2)
    engine.save_checkpoint(directory, tag="all")
    engine.save_checkpoint(directory, tag="trained", exclude_frozen_parameters=True)
    state = engine.state_dict()
    with torch.no_grad():
        loss = engine(batch(50, rank)).item()
    other = _engine(2, _half_frozen)
    other.load_checkpoint(directory, tag="all")
    result = {"all": _alike(other, state) == set(state)}
    with torch.no_grad():
        result["loss"] = (loss, other(batch(50, rank)).item())
    other.save_checkpoint(directory, tag="again")
    third = _engine(3, _half_frozen)
    own = third.state_dict()
    try:
        third.load_checkpoint(directory, tag="trained")
        result["strict"] = "nothing"
    except RuntimeError as error:
        result["strict"] = str(error)
    third.load_checkpoint(directory, tag="trained", load_module_strict=False)
    kept = {name for name in state if name.startswith(("embed.", "head.", "blocks.1."))}
    result["trained"] = _alike(third, state) >= set(state) - kept
    result["kept"] = _alike(third, own) >= kept
    third.load_checkpoint(directory, tag="again")
    result["again"] = _alike(third, state) == set(state)
    result["goes on"] = (_train(engine, rank, 2, 4), _train(third, rank, 2, 4))
    return result


def between_micro_batches(rank, world, directory):
    """Losses of a run that saves in the middle of a step, of one that loads it, and without."""
    straight = _train(_engine(1, Transformer), rank, 0, 4)
    engine = _engine(1, Transformer)
    losses = _train(engine, rank, 0, 2)
    for micro in range(2):
        loss = engine(batch(4 + micro, rank))
        engine.backward(loss)
        engine.step()
        losses.append(loss.item())
        if micro == 0:
            engine.save_checkpoint(directory)
    losses += _train(engine, rank, 3, 4)
    other = _engine(2, Transformer)
    loss = other(batch(0, rank))
    other.backward(loss)  # of a step that the load ends
    other.load_checkpoint(directory)
    steps = other.micro_steps
    return {
        "straight": straight,
        "saving": losses,
        "resumed": _train(other, rank, 2, 4),
        "steps": steps,
    }
