"""One rank: the whole model as files for others."""

import errno
import os
from pathlib import Path

import torch
from building import Tied
from models import batch
from safetensors import safe_open
from safetensors.torch import load_model
from torch import nn

import thinwire
from thinwire import export

UNITS = [nn.TransformerEncoderLayer]


def _engine(stage=3, dtype=None, seed=2):
    torch.manual_seed(seed)
    config = {
        "train_micro_batch_size_per_gpu": 3,
        "optimizer": {"type": "AdamW", "params": {"lr": 1e-2}},
        "zero_optimization": {"stage": stage},
    }
    if dtype:
        config[dtype] = {"enabled": True}
    engine, *_ = thinwire.initialize(model=Tied(), config=config, units=UNITS)
    loss = engine(batch(0, engine.rank))
    engine.backward(loss)
    engine.step()
    return engine


def _loads(engine, file):
    """Whether plain torch gets the engine's values, and the tie."""
    model = Tied()
    load_model(model, file)
    values = engine.state_dict(torch.float32)
    tied = model.head.weight is model.embed.weight
    saved = {k: _type_in(file, "embed.weight" if k == "head.weight" else k) for k in values}
    exact = {k: v.to(saved[k]).to(v.dtype) for k, v in values.items()}
    return tied and all(torch.equal(v, exact[k]) for k, v in model.state_dict().items())


def _type_in(file, key):
    with safe_open(file, "pt") as opened:
        return opened.get_tensor(key).dtype if key in opened.keys() else None  # noqa: SIM118


def exported(rank, world, directory):
    result = {}
    root = Path(directory)
    for stage in (1, 2, 3):
        engine = _engine(stage)
        engine.save_16bit_model(root / str(stage))
        loads = _loads(engine, root / str(stage) / "model.safetensors")
        result[f"stage {stage}"] = loads
    engine.save_16bit_model(root / "bf16", dtype=torch.bfloat16)
    file = root / "bf16" / "model.safetensors"
    result["bf16 argument"] = _loads(engine, file)
    result["types"] = [
        str(_type_in(file, k)) for k in ("embed.weight", "seen.running_mean", "head.weight")
    ]
    with safe_open(file, "pt") as opened:
        result["metadata"] = opened.metadata()
    engine.save_16bit_model(root / "trained", exclude_frozen_parameters=True)
    with safe_open(root / "trained" / "model.safetensors", "pt") as opened:
        result["frozen left out"] = not any(k.startswith("blocks.1.") for k in opened.keys())  # noqa: SIM118
    for dtype in ("bf16", "fp16"):
        engine = _engine(dtype=dtype)
        engine.save_16bit_model(root / dtype)
        result[dtype] = _loads(engine, root / dtype / "model.safetensors")
        result[f"{dtype} type"] = str(_type_in(root / dtype / "model.safetensors", "embed.weight"))
    return result


def sharded(rank, world, directory):
    """Several files, read by our own way in; then one file in their place."""
    engine = _engine()
    engine.save_16bit_model(directory, max_shard_size="12KB")
    files = sorted(os.listdir(directory))
    with torch.device("meta"):
        model = Tied()
    other, *_ = thinwire.initialize(
        model=model,
        config={"optimizer": {"type": "SGD", "params": {"lr": 1.0}}},
        weights=directory,
        units=UNITS,
    )
    ours, theirs = other.state_dict(), engine.state_dict()
    # Buffers are rank 0's.
    same = all(torch.equal(v, ours[k]) for k, v in theirs.items() if rank == 0 or "seen" not in k)
    engine.save_16bit_model(directory)
    other.session.mean_over_ranks(0.0)  # rank 1 looks when rank 0 is done
    return {"files": files, "same": same, "then": sorted(os.listdir(directory))}


def troubled(rank, world, directory):
    """What is said, and what is there afterwards, when a disk is full and when a rank is killed
    on the way (which a write that raises SystemExit stands for)."""
    engine = _engine()
    engine.save_16bit_model(directory)
    file = Path(directory) / "model.safetensors"
    before = file.read_bytes()
    said = []

    def attempt(**more):
        try:
            engine.save_16bit_model(directory, **more)
            said.append("nothing")
        except RuntimeError as error:
            said.append(str(error))

    attempt(save_filename="pytorch_model.bin")
    attempt(max_shard_size="much")
    allocate, write = os.posix_fallocate, os.pwrite
    os.posix_fallocate = _no_space
    attempt()
    os.posix_fallocate = allocate
    os.pwrite = _no_space_after(2)
    attempt(max_shard_size="12KB")
    os.pwrite = write
    usage = export.shutil.disk_usage
    export.shutil.disk_usage = lambda _: usage("/")._replace(free=7)
    attempt()
    export.shutil.disk_usage = usage
    left = sorted(os.listdir(directory)) if rank == 0 else ["model.safetensors"]
    attempt(max_shard_size="12KB")  # no harm was done
    return {"said": said, "kept": rank or file.exists() or before, "left": left}


def _no_space(*_):
    raise OSError(errno.ENOSPC, "No space left on device")


def _no_space_after(writes):
    real, left = os.pwrite, [writes]

    def write(*arguments):
        left[0] -= 1
        return real(*arguments) if left[0] >= 0 else _no_space()

    return write
