"""One rank: optimizers, groups, schedules and accumulation, sharded against plain torch."""

import copy

import torch
from models import Block, Transformer, batch

import thinwire

BASE = {"train_micro_batch_size_per_gpu": 3, "zero_optimization": {"stage": 3}}


def _models():
    torch.manual_seed(5)
    model = Transformer()
    return model, copy.deepcopy(model)


def groups_of(model):
    """Matrices and the rest, with settings of their own."""
    parameters = list(model.parameters())
    return [
        {"params": [p for p in parameters if p.ndim > 1], "weight_decay": 0.1, "lr": 2e-3},
        {"params": [p for p in parameters if p.ndim <= 1], "weight_decay": 0.0},
    ]


# name: what makes a torch optimizer from parameters or groups
MAKERS = {
    "AdamW": lambda groups: torch.optim.AdamW(groups, lr=3e-3, betas=(0.9, 0.95)),
    "Adam": lambda groups: torch.optim.Adam(groups, lr=3e-3),
    "SGD": lambda groups: torch.optim.SGD(groups, lr=0.05),
    "SGD, Nesterov": lambda groups: torch.optim.SGD(groups, lr=0.02, momentum=0.9, nesterov=True),
    "AMSGrad": lambda groups: torch.optim.AdamW(groups, lr=3e-3, amsgrad=True),
    "RMSprop": lambda groups: torch.optim.RMSprop(groups, lr=1e-3),
    "NAdam": lambda groups: torch.optim.NAdam(groups, lr=1e-3),
}


def compare(engine, plain, optimizer, rank, world, schedule=None, clip=0.0, micro_batches=1):
    """(sharded, plain) losses of some steps."""
    pairs = []
    for step in range(5):
        for micro in range(micro_batches):
            index = step * micro_batches + micro
            losses = [plain(batch(index, each)) for each in range(world)]
            (sum(losses) / (world * micro_batches)).backward()
            loss = engine(batch(index, rank))
            engine.backward(loss)
            engine.step()
            pairs.append((loss.item(), losses[rank].item()))
        if clip:
            norm = torch.nn.utils.clip_grad_norm_(plain.parameters(), clip).item()
            pairs.append((engine.get_global_grad_norm(), norm))
        optimizer.step()
        optimizer.zero_grad()
        if schedule:
            schedule.step()
    engine.destroy()
    return pairs


def callers_own(rank, world):
    """torch optimizers with two groups, native and on the shards, under a torch schedule."""
    results = {}
    for name, make in MAKERS.items():
        model, plain = _models()
        own, optimizer = make(groups_of(model)), make(groups_of(plain))
        engine, _, _, scheduler = thinwire.initialize(
            model=model,
            config=BASE,
            optimizer=own,
            lr_scheduler=lambda o: torch.optim.lr_scheduler.StepLR(o, 2, 0.3),
            units=[Block],
        )
        schedule = torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.3)
        results[name] = compare(engine, plain, optimizer, rank, world, schedule)
    return results


def accumulated(rank, world):
    """Three micro-batches per step, clipped by the global norm, optimizer of the config."""
    model, plain = _models()
    config = BASE | {
        "gradient_accumulation_steps": 3,
        "gradient_clipping": 0.5,
        "optimizer": {"type": "AdamW", "params": {"lr": 3e-3, "weight_decay": 0.01}},
        "scheduler": {"type": "WarmupLR", "params": {"warmup_num_steps": 4}},
    }
    engine, *_ = thinwire.initialize(
        model=model, model_parameters=model.parameters(), config=config, units=[Block]
    )
    optimizer = torch.optim.AdamW(plain.parameters(), lr=3e-3, weight_decay=0.01)
    # WarmupLR's curve: the logarithm of the step.
    rates = [g["lr"] for g in engine.optimizer.param_groups]
    schedule = _Follow(optimizer, engine)
    optimizer.param_groups[0]["lr"] = rates[0]
    return compare(engine, plain, optimizer, rank, world, schedule, 0.5, 3)


class _Follow:
    """Takes the engine's rate, which has a test of its own (schedules_test.py)."""

    def __init__(self, optimizer, engine):
        self._optimizer, self._engine = optimizer, engine

    def step(self):
        rate = self._engine.optimizer.param_groups[0]["lr"]
        self._optimizer.param_groups[0]["lr"] = rate


def refused(rank, world):
    """What initialize() says to optimizers that it cannot shard, and to none at step()."""
    said = []
    stranger = torch.nn.Parameter(torch.zeros(5, 7))
    for make in (
        lambda m: torch.optim.LBFGS(m.parameters()),
        lambda m: torch.optim.Adafactor(m.parameters()),
        lambda m: torch.optim.SGD(m.blocks.parameters(), lr=0.1),
        lambda m: torch.optim.SGD([*m.parameters(), stranger], lr=0.1),
    ):
        model, _ = _models()
        said.append(_said(thinwire.initialize, model=model, config=BASE, optimizer=make(model)))
    model, _ = _models()
    engine, optimizer, *_ = thinwire.initialize(model=model, config=BASE)
    said.append(_said(optimizer.add_param_group, {"params": [stranger]}))
    said.append(_said(optimizer.load_state_dict, optimizer.state_dict() | {"state": {0: 1}}))
    engine.backward(engine(batch(0, rank)))
    said.append(_said(engine.step))
    return said


def _said(call, *args, **kwargs):
    try:
        call(*args, **kwargs)
    except RuntimeError as error:
        return str(error)
    return "nothing"


def schedules_refused(rank, world):
    """What initialize() says of what is no scheduler that it can step."""
    said = []
    config = BASE | {"optimizer": {"type": "SGD", "params": {"lr": 0.1}}}
    for schedule in (
        torch.optim.lr_scheduler.LinearLR,
        "WarmupLR",
        torch.optim.lr_scheduler.ReduceLROnPlateau,
        lambda optimizer: torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer),
    ):
        model, _ = _models()
        said.append(_said(thinwire.initialize, model=model, config=config, lr_scheduler=schedule))
    return said


class Sparse(torch.nn.Module):
    """Its embedding makes sparse gradients."""

    def __init__(self):
        super().__init__()
        self.embed = torch.nn.Embedding(31, 24, sparse=True)
        self.head = torch.nn.Linear(24, 31)

    def forward(self, tokens):
        logits = self.head(self.embed(tokens[:, :-1]))
        return torch.nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())


def sparse(rank, world):
    torch.manual_seed(3)
    model = Sparse()
    plain = copy.deepcopy(model)
    config = BASE | {"optimizer": {"type": "SGD", "params": {"lr": 0.5}}}
    engine, *_ = thinwire.initialize(model=model, config=config)
    return compare(engine, plain, torch.optim.SGD(plain.parameters(), lr=0.5), rank, world)
