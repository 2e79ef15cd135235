"""One rank: number types of parameters, of passes and of messages."""

import contextlib
import copy
import io

import torch
from models import BATCH, VOCABULARY, WIDTH, Block, Mlp, Transformer, batch
from torch import nn
from torch.nn import functional as F

import thinwire

CONFIG = {
    "train_micro_batch_size_per_gpu": BATCH,
    "optimizer": {"type": "AdamW", "params": {"lr": 3e-3, "weight_decay": 0.1}},
}
TWO_HOSTS = {"thinwire": {"hosts": 2, "ranks_per_host": 1}}


def begin(build, config, units=(), seed=21):
    """(engine, the same model for torch)."""
    torch.manual_seed(seed)
    model = build()
    plain = copy.deepcopy(model)
    engine, *_ = thinwire.initialize(model=model, config=CONFIG | config, units=units)
    return engine, plain


def train(engine, rank, step):
    loss = engine(batch(step, rank))
    engine.backward(loss)
    engine.step()
    return loss.item()


def adamw(plain):
    trained = [parameter for parameter in plain.parameters() if parameter.requires_grad]
    return torch.optim.AdamW(trained, lr=3e-3, weight_decay=0.1)


def plain_step(plain, optimizer, step, world, context=contextlib.nullcontext):
    losses = []
    for each in range(world):
        with context():
            loss = plain(batch(step, each))
        (loss / world).backward()
        losses.append(loss.item())
    optimizer.step()
    optimizer.zero_grad()
    return losses


# --- several types in one model


class Lora(nn.Module):
    """A frozen base in bf16 or int8, and trained fp32 matrices of rank 2 beside it."""

    def __init__(self, quantized=False):
        super().__init__()
        self.quantized = quantized
        weight = torch.randn(WIDTH, WIDTH) / WIDTH**0.5
        if quantized:
            scale = weight.abs().amax(1, keepdim=True) / 127
            weight = (weight / scale).round().to(torch.int8)
            self.scale = nn.Parameter(scale.bfloat16(), requires_grad=False)
        else:
            weight = weight.bfloat16()
        self.weight = nn.Parameter(weight, requires_grad=False)
        self.a = nn.Parameter(torch.randn(2, WIDTH) / WIDTH**0.5)
        self.b = nn.Parameter(torch.zeros(WIDTH, 2))
        self.seen = set()  # types in forward

    def forward(self, x):
        self.seen |= {self.weight.dtype, self.a.dtype}
        weight = self.weight.bfloat16() * self.scale if self.quantized else self.weight
        return F.linear(x.bfloat16(), weight).float() + x @ self.a.T @ self.b.T


class Tuned(nn.Module):
    def __init__(self, quantized=False):
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, WIDTH)
        self.layers = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(WIDTH), Lora(quantized)) for _ in range(3)
        )
        self.head = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, tokens):
        x = self.embed(tokens[:, :-1])
        for layer in self.layers:
            x = x + layer(x)
        return F.cross_entropy(self.head(x).flatten(0, 1), tokens[:, 1:].flatten())


def mixed(rank, world):
    """{stage: (pairs of losses, types seen, line of the plan)}."""
    results = {}
    for stage in (0, 1, 2, 3, "zero++"):
        flags = {"stage": stage}
        if stage == "zero++":
            flags = {
                "stage": 3,
                "zero_quantized_weights": True,
                "zero_quantized_gradients": True,
                "zero_hpz_partition_size": 1,
            }
        engine, plain = begin(Tuned, {"zero_optimization": flags} | TWO_HOSTS, units=["Sequential"])
        optimizer = adamw(plain)
        pairs = [
            (train(engine, rank, step), plain_step(plain, optimizer, step, world)[rank])
            for step in range(5)
        ]
        seen = sorted(str(each) for each in engine.module.layers[1][1].seen)
        types = {name: value.dtype for name, value in engine.state_dict().items()}
        kept = all(types[name] == p.dtype for name, p in plain.state_dict().items())
        results[stage] = pairs, seen, "computed in fp32 and bf16" in engine.plan and kept
        engine.destroy()
    return results


# --- parameters that are no floats


class WithWholes(Tuned):
    def __init__(self):
        super().__init__(quantized=True)
        self.mask = nn.Parameter(torch.rand(5) > 0.5, requires_grad=False)
        self.wave = nn.Parameter(torch.randn(3, dtype=torch.complex64), requires_grad=False)
        self.wide = nn.Parameter(torch.randn(2, 2, dtype=torch.float64), requires_grad=False)
        self.shorts = nn.Parameter(torch.randint(99, (7,)).short(), requires_grad=False)
        self.none = nn.Parameter(torch.zeros(0, 4, dtype=torch.int32), requires_grad=False)


WHOLES = ("layers.1.1.weight", "mask", "wave", "wide", "shorts", "none")


def wholes(rank, world, directory):
    engine, plain = None, None
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        torch.manual_seed(21)
        plain = WithWholes()
        torch.manual_seed(21 + rank)  # rank 0's values count
        engine, *_ = thinwire.initialize(
            model=WithWholes(), config=CONFIG | {"zero_optimization": {"stage": 3}}
        )
    lines = [line for line in printed.getvalue().splitlines() if "whole on every rank" in line]
    optimizer = adamw(plain)
    pairs = [
        (train(engine, rank, step), plain_step(plain, optimizer, step, world)[rank])
        for step in range(3)
    ]
    state, expected = engine.state_dict(), plain.state_dict()
    modules = engine.module.state_dict()
    alike = all(
        torch.equal(each[name], expected[name]) and each[name].dtype == expected[name].dtype
        for name in WHOLES
        for each in (state, modules)
    )
    path = engine.save_checkpoint(directory)
    engine.destroy()
    torch.manual_seed(77 + rank)
    other, *_ = thinwire.initialize(
        model=WithWholes(), config=CONFIG | {"zero_optimization": {"stage": 3}}
    )
    other.load_checkpoint(directory)
    loaded = other.state_dict()
    back = all(torch.equal(loaded[name], expected[name]) for name in WHOLES)
    follows = (train(other, rank, 3), plain_step(plain, optimizer, 3, world)[rank])
    other.load_state_dict(state)
    restored = all(torch.equal(v, state[n]) for n, v in other.state_dict().items())
    other.destroy()
    return {
        "lines": lines,
        "pairs": [*pairs, follows],
        "alike": alike,
        "back": back,
        "restored": restored,
        "path": path,
    }


def refused(rank, world):
    """What is said of trained parameters of other types."""
    said = []
    for dtype in (torch.float64, torch.complex64):
        model = Mlp()
        model.head.bias = nn.Parameter(torch.zeros(VOCABULARY, dtype=dtype))
        try:
            thinwire.initialize(model=model, config=CONFIG)
            said.append("nothing")
        except RuntimeError as error:
            said.append(str(error))
    return said


# --- precision of passes


def _autocast():
    return torch.autocast("cpu", torch.bfloat16)


def autocast(rank, world):
    """(sharded, plain) losses, of the config's autocast and of the caller's own."""
    results = {}
    for whose in ("config", "caller"):
        section = {"torch_autocast": {"enabled": whose == "config", "dtype": "bfloat16"}}
        engine, plain = begin(Transformer, section | {"zero_optimization": {"stage": 3}}, [Block])
        optimizer = adamw(plain)
        pairs = results[whose] = []
        for step in range(5):
            with _autocast() if whose == "caller" else contextlib.nullcontext():
                loss = engine(batch(step, rank))
            engine.backward(loss)
            engine.step()
            pairs.append((loss.item(), plain_step(plain, optimizer, step, world, _autocast)[rank]))
        engine.destroy()
    return results


def _cast_copies(run, parameters):
    """Bytes of matrices that autograd saved beside the weights they are casts of."""
    shapes = {tuple(p.shape) for p in parameters} | {tuple(p.T.shape) for p in parameters}
    storages = {p.untyped_storage()._cdata for p in parameters}
    copies = {}

    def pack(tensor):
        storage = tensor.untyped_storage()
        if tuple(tensor.shape) in shapes and storage._cdata not in storages:
            copies[storage._cdata] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        loss = run()
    del loss
    return sum(copies.values())


def saved_by_autograd(rank, world):
    """(bytes of casts saved by thinwire, by plain torch) under autocast."""
    engine, plain = begin(
        Mlp, {"torch_autocast": {"enabled": True}, "zero_optimization": {"stage": 3}}
    )
    tokens = batch(0, rank)

    def matrices(model):
        return [layer.weight for layer in model.layers if isinstance(layer, nn.Linear)]

    def run_plain():
        with _autocast():
            return plain(tokens)

    ours = _cast_copies(lambda: engine(tokens), matrices(engine.module))
    engine.destroy()
    return ours, _cast_copies(run_plain, matrices(plain))


def same_bits(rank, world):
    """{kind: by stage, losses and weights}."""
    kinds = {
        "bf16": (Transformer, {"bf16": {"enabled": True}}),
        "fp16": (Transformer, {"fp16": {"enabled": True, "initial_scale_power": 8}}),
        "autocast": (Transformer, {"torch_autocast": {"enabled": True}}),
        "mixed": (Tuned, {}),
    }
    results = {}
    for kind, (build, section) in kinds.items():
        for stage in range(4):
            engine, _ = begin(build, section | {"zero_optimization": {"stage": stage}})
            losses = [train(engine, rank, step) for step in range(4)]
            state = engine.state_dict(torch.float32)
            bits = {name: value.numpy().tobytes() for name, value in state.items()}
            results.setdefault(kind, []).append((losses, bits))
            engine.destroy()
    return results


def loss_scaling(rank, world):
    """{kind of scale: [(overflow, scale, learning rate, whether weights moved), ...]}."""
    results = {}
    for kind, scale in (("fixed", {"loss_scale": 8}), ("dynamic", {"initial_scale_power": 3})):
        section = {"fp16": {"enabled": True, "hysteresis": 1, "loss_scale_window": 2} | scale}
        schedule = {
            "scheduler": {
                "type": "WarmupLR",
                "params": {"warmup_min_lr": 1e-3, "warmup_num_steps": 50},
            }
        }
        engine, _ = begin(Mlp, section | schedule | {"zero_optimization": {"stage": 3}})
        steps = results[kind] = []
        for step in range(5):
            before = engine.state_dict(torch.float32)["head.weight"]
            loss = engine(batch(step, rank))
            # On one rank only, and skipped by all.
            engine.backward(loss * (1e9 if step == 1 and rank == 1 else 1))
            engine.step()
            moved = not torch.equal(before, engine.state_dict(torch.float32)["head.weight"])
            rate = engine.optimizer.param_groups[0]["lr"]
            steps.append((engine.optimizer.overflow, engine.session.loss_scale, rate, moved))
        engine.destroy()
    return results


class Floats(nn.Module):
    """Takes floats, in a dictionary, and integers beside them."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, inputs):
        assert inputs["index"].dtype == torch.int64
        return self.layer(inputs["x"]).float().square().mean()


def cast_inputs(rank, world):
    """What an fp16 model says to fp32 inputs, without fp16.auto_cast and with it."""
    said = []
    for auto_cast in (False, True):
        section = {"fp16": {"enabled": True, "auto_cast": auto_cast}}
        engine, _ = begin(Floats, section)
        inputs = {"x": torch.ones(2, 4), "index": torch.arange(2)}
        try:
            engine.backward(engine(inputs))
            said.append("fine")
        except RuntimeError as error:
            said.append(str(error))
        engine.destroy()
    return said


def batches(rank, world):
    """{dataloader_drop_last: sizes of the batches of eleven samples}."""
    sizes = {}
    for drop_last in (False, True):
        torch.manual_seed(21)
        engine, _, loader, _ = thinwire.initialize(
            model=Floats(),
            config=CONFIG | {"dataloader_drop_last": drop_last},
            training_data=[torch.ones(4) for _ in range(11)],
        )
        sizes[drop_last] = [len(each) for each in loader]
        engine.destroy()
    return sizes


# --- what is sent


def sent_types(rank, world):
    """{(type, stage): (pairs of losses, line of the plan)}, and the bits by type."""
    results, bits = {}, {}
    for dtype in ("bf16", "fp16", "fp32"):
        for stage in range(4):
            config = {"communication_data_type": dtype, "zero_optimization": {"stage": stage}}
            engine, plain = begin(Mlp, config)
            optimizer = adamw(plain)
            pairs = [
                (train(engine, rank, step), plain_step(plain, optimizer, step, world)[rank])
                for step in range(10)
            ]
            line = next(each for each in engine.plan.splitlines() if "fast reduce" in each)
            results[dtype, stage] = pairs, line
            state = engine.state_dict()
            bits.setdefault(dtype, set()).add(state["head.weight"].numpy().tobytes())
            engine.destroy()
    return results, {dtype: len(each) for dtype, each in bits.items()}


class Sum(nn.Module):
    """Every element of every parameter has the gradient 1e-3."""

    def __init__(self):
        super().__init__()
        self.matrix = nn.Parameter(torch.randn(67, 129))
        self.vector = nn.Parameter(torch.randn(33))
        self.gathered = {}

    def forward(self, _):
        self.gathered = {
            name: (p.dtype, p.detach().float().clone()) for name, p in self.named_parameters()
        }
        return sum(p.sum() for p in self.parameters()) * 1e-3


def coded(rank, world):
    """bf16 through zero++: (gathered types, errors per block over the bound, gradients / 1e-3)."""
    flags = {
        "stage": 3,
        "zero_quantized_weights": True,
        "zero_quantized_gradients": True,
        "zero_hpz_partition_size": 1,
    }
    config = {
        "zero_optimization": flags,
        "bf16": {"enabled": True},
        "optimizer": {"type": "SGD", "params": {"lr": 1.0}},
        **TWO_HOSTS,
    }
    engine, _ = begin(Sum, config)
    before = engine.state_dict(torch.float32)
    engine.backward(engine(None))
    engine.step()
    after = engine.state_dict(torch.float32)
    gathered = engine.module.gathered
    values, master = gathered["matrix"][1].flatten(), before["matrix"].flatten()
    worst = 0.0
    for got, block in zip(values.split(128), master.split(128), strict=True):
        # Blocks restart at shard boundaries, so the largest within reach bounds the scale; half a
        # step of bf16 on top.
        largest = master.abs().max() if len(block) < 128 else block.abs().max()
        bound = largest / 254 * 1.01 + block.abs() * 2**-8
        worst = max(worst, ((got - block).abs() / bound).max().item())
    ratios = {name: (before[name] - after[name]) / 1e-3 for name in before}
    engine.destroy()
    return (
        sorted({str(dtype) for dtype, _ in gathered.values()}),
        worst,
        {name: (each.min().item(), each.max().item()) for name, each in ratios.items()},
    )


def all_cases(rank, world, directory):
    cases = (
        mixed,
        refused,
        autocast,
        saved_by_autograd,
        same_bits,
        loss_scaling,
        cast_inputs,
        batches,
        sent_types,
        coded,
    )
    results = {case.__name__: case(rank, world) for case in cases}
    return results | {"wholes": wholes(rank, world, directory)}
