"""One rank: models made under torch.device("meta"), and what becomes of a model's memory."""

import copy
import ctypes
import gc
import json
import re
from pathlib import Path

import torch
from models import VOCABULARY, WIDTH, Transformer, batch
from safetensors.torch import save_file, save_model
from torch import nn
from torch.nn import functional as F

import thinwire

CONFIG = {
    "train_micro_batch_size_per_gpu": 3,
    "optimizer": {"type": "SGD", "params": {"lr": 0.1}},
    "zero_optimization": {"stage": 3},
}


class Tied(nn.Module):
    """torch's own modules, with a tie, buffers, packed weights and a frozen part."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, WIDTH)
        self.blocks = nn.ModuleList(
            nn.TransformerEncoderLayer(WIDTH, 2, 48, dropout=0.0, batch_first=True)
            for _ in range(3)
        )
        self.seen = nn.BatchNorm1d(WIDTH)
        self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)
        self.head.weight = self.embed.weight
        self.blocks[1].requires_grad_(False)

    def forward(self, tokens):
        x = self.embed(tokens[:, :-1])
        for block in self.blocks:
            x = block(x)
        x = self.seen(x.transpose(1, 2)).transpose(1, 2)
        return F.cross_entropy(self.head(x).flatten(0, 1), tokens[:, 1:].flatten())


class Wide(nn.Module):
    """100 MB in eight units."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(*[nn.Linear(1280, 2560, bias=False) for _ in range(8)])


class Positions(nn.Module):
    """A buffer that no file holds."""

    def __init__(self):
        super().__init__()
        self.line = nn.Linear(4, 4)
        self.turn = nn.Module()
        self.turn.register_buffer("angles", torch.arange(4.0), persistent=False)


def _on_meta(build):
    with torch.device("meta"):
        return build()


def _engine(model, config=CONFIG, **more):
    engine, *_ = thinwire.initialize(model=model, config=config, **more)
    return engine


def _differences(engine, wanted):
    found = engine.state_dict()
    return [k for k, v in wanted.items() if k not in found or not torch.equal(found[k], v)]


def write(directory):
    """Files to load, made once."""
    directory = Path(directory)
    torch.manual_seed(7)
    model = Tied()
    model.seen.running_mean.uniform_()
    model.seen.num_batches_tracked.fill_(5)
    save_model(model, directory / "single.safetensors")
    save_model(copy.deepcopy(model).bfloat16(), directory / "half.safetensors")
    state = {k: v for k, v in model.state_dict().items() if k != "head.weight"}
    names = list(state)
    parts = {"a.safetensors": names[::2], "b.safetensors": names[1::2]}
    for file, keys in parts.items():
        save_file({key: state[key] for key in keys}, directory / file)
    weight_map = {key: file for file, keys in parts.items() for key in keys}
    index = directory / "model.safetensors.index.json"
    index.write_text(json.dumps({"metadata": {}, "weight_map": weight_map}))
    wide = Wide()
    save_file(wide.state_dict(), directory / "wide.safetensors")
    changed = dict(state)
    save_file(changed | {"more": torch.ones(2)}, directory / "unexpected.safetensors")
    save_file(changed | {"seen.weight": torch.ones(WIDTH + 1)}, directory / "misshaped.safetensors")
    save_file(
        changed | {"head.weight": state["embed.weight"] + 1}, directory / "untied.safetensors"
    )
    save_file(changed | {"seen.weight": torch.ones(WIDTH).int()}, directory / "whole.safetensors")
    del changed["blocks.2.self_attn.in_proj_weight"]
    save_file(changed, directory / "missing.safetensors")
    (directory / "broken.safetensors").write_bytes(b"\x08\0\0\0\0\0\0\0nonsense")
    (directory / "outside.json").write_text('{"weight_map": {"a": "../single.safetensors"}}')
    return {key: value.clone() for key, value in model.state_dict().items()}


def built(rank, world, directory, wanted):
    """What differs from the model as it is made on the CPU with the same seed, from files, in
    bf16; and whether training goes on as from there."""
    units = [nn.TransformerEncoderLayer]
    torch.manual_seed(5)
    plain = Tied()
    torch.manual_seed(5 + 3 * rank)  # rank 0's count
    engine = _engine(_on_meta(Tied), units=units)
    result = {"init": _differences(engine, plain.state_dict())}
    other = _engine(plain, units=units)
    losses = []
    for step in range(2):
        losses.append([])
        for each in (engine, other):
            loss = each(batch(step, rank))
            each.backward(loss)
            each.step()
            losses[-1].append(loss.item())
    result["losses"] = losses
    result["tied"] = engine.module.head.weight is engine.module.embed.weight
    result["grad"] = engine.module.blocks[1].linear1.weight.requires_grad
    for name in ("single.safetensors", "model.safetensors.index.json", ""):
        loaded = _engine(_on_meta(Tied), units=units, weights=Path(directory) / name)
        result[name or "directory"] = _differences(loaded, wanted)
    half = _engine(_on_meta(Tied), units=units, weights=str(Path(directory) / "half.safetensors"))
    rounded = {
        k: v.bfloat16().to(v.dtype) if v.is_floating_point() else v for k, v in wanted.items()
    }
    result["half"] = _differences(half, rounded)
    return result


def initialized_by_function(rank, world):
    """Values, names of modules in the order of the calls, a buffer, and a rank's own seed."""
    torch.manual_seed(rank)
    called = []

    def initialize(module):
        called.append(type(module).__name__)
        for parameter in module.parameters(recurse=False):
            nn.init.normal_(parameter)
        if hasattr(module, "angles"):
            module.angles.fill_(2.0)

    engine = _engine(_on_meta(Positions), weights=initialize)
    drawn = torch.rand(1).item()
    torch.manual_seed(rank)
    own = torch.rand(1).item() if rank else drawn
    return {
        "called": called,
        "weight": engine.state_dict()["line.weight"].tolist(),
        "angles": engine.module.turn.angles.tolist(),
        "own": drawn == own,
    }


def refused(rank, world, directory):
    """What is said of a model that cannot be built."""
    directory = Path(directory)
    said = {}

    def build(name, model, **more):
        try:
            _engine(model, **more)
            said[name] = "nothing"
        except (RuntimeError, ValueError) as error:
            said[name] = str(error)

    for name in ("missing", "unexpected", "misshaped", "untied", "whole", "broken"):
        build(name, _on_meta(Tied), weights=directory / f"{name}.safetensors")
    build("outside", _on_meta(Tied), weights=directory / "outside.json")
    build("nowhere", _on_meta(Tied), weights=directory / "nowhere")
    build("nobody", _on_meta(Transformer))
    build("half done", _on_meta(Tied), weights=lambda m: [p[:1].fill_(0) for p in _own(m)])
    build("buffer", _on_meta(Positions))
    build("real", Tied(), weights=directory / "single.safetensors")
    build("one rank", _on_meta(Positions), weights=_fails if rank == 1 else _ones)
    return said


def _own(module):
    return list(module.parameters(recurse=False))


def _fails(module):
    raise ValueError("rank 1 has no luck")


def _ones(module):
    for each in (*module.parameters(recurse=False), *module.buffers(recurse=False)):
        each.fill_(1)


def _status(key):
    gc.collect()
    text = Path("/proc/self/status").read_text()
    return int(re.search(rf"{key}:\s+(\d+) kB", text)[1]) / 1024


def memory(rank, world, directory):
    """MiB: the most beyond what is there afterwards, and what that is beyond the plan."""
    result = {}
    m_mmap_threshold = -3
    ctypes.CDLL(None).mallopt(m_mmap_threshold, 1 << 20)  # what is freed is gone
    _engine(_on_meta(Positions), weights=_ones).destroy()  # what every first engine costs
    ways = {
        "file": lambda: (_on_meta(Wide), Path(directory) / "wide.safetensors"),
        "init": lambda: (_on_meta(Wide), None),
        "real": lambda: (Wide(), None),
    }
    for name, way in ways.items():
        before = _status("VmRSS")
        model, weights = way()
        Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
        engine = _engine(model, units=["Linear"], weights=weights)
        peak, after = _status("VmHWM"), _status("VmRSS")
        planned = float(re.search(r"memory\s+([\d.]+) MiB", engine.plan)[1])
        result[name] = {"peak": peak - after, "kept": after - before - planned}
        engine.destroy()
        del engine, model
    return result
