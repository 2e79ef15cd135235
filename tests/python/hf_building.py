"""One rank: Hugging Face models that are made under torch.device("meta"), or in parts."""

import ctypes
import gc
import os
import re
from pathlib import Path

import thinwire.hf

thinwire.hf.install()

import torch  # noqa: E402
import transformers  # noqa: E402
from hf_models import CASES, batch, llama  # noqa: E402
from transformers.integrations.deepspeed import HfDeepSpeedConfig  # noqa: E402

CONFIG = {
    "train_micro_batch_size_per_gpu": 2,
    "optimizer": {"type": "SGD", "params": {"lr": 0.2}},
    "zero_optimization": {"stage": 3},
}


BUILDS = {name: (build, [block]) for name, (build, block, _) in CASES.items()} | {
    # Units that their own module initializes, and after it the one around it.
    "gpt2 in layers": (CASES["gpt2"][0], ["Conv1D"]),
    # Files of the model inside, whose keys lack its name.
    "gpt2 body": (CASES["gpt2"][0], ["GPT2Block"]),
}


def wide():
    """85 MiB, in units of 7 and 14."""
    return llama(
        vocab_size=3000, hidden_size=640, intermediate_size=1280, num_hidden_layers=5,
        num_attention_heads=10, num_key_value_heads=5,
    )  # fmt: skip


def write(directory):
    for name, (build, _) in BUILDS.items():
        torch.manual_seed(7)
        build().save_pretrained(os.path.join(directory, name))
    wide().save_pretrained(os.path.join(directory, "wide"))
    CASES["gpt2"][0]().transformer.save_pretrained(os.path.join(directory, "gpt2 body"))
    _experts().save_pretrained(os.path.join(directory, "experts"))


def _experts():
    config = transformers.MixtralConfig(
        vocab_size=37, hidden_size=16, intermediate_size=40, num_hidden_layers=1,
        num_attention_heads=2, num_key_value_heads=1, num_local_experts=3,
    )  # fmt: skip
    return transformers.MixtralForCausalLM(config)


def _on_meta(build):
    with torch.device("meta"):
        return build()


def _engine(model, **more):
    engine, *_ = thinwire.initialize(model=model, config=CONFIG, **more)
    return engine


def _different(engine, model):
    found, wanted = engine.state_dict(), model.state_dict()
    found |= dict(engine.module.named_buffers())
    wanted |= dict(model.named_buffers())
    return [key for key in wanted if key not in found or not torch.equal(found[key], wanted[key])]


def _losses(engine, rank):
    losses = []
    for step in range(3):
        loss = engine(**batch(step, rank)).loss
        engine.backward(loss)
        engine.step()
        losses.append(loss.item())
    return losses


def loaded(rank, directory, name):
    """What differs from from_pretrained; and the losses of both."""
    build, units = BUILDS[name]
    path = os.path.join(directory, name)
    plain = type(_on_meta(build)).from_pretrained(path).train()
    engine = _engine(_on_meta(build).train(), units=units, weights=path)
    different = _different(engine, plain)
    engines = (engine, _engine(plain, units=units))
    result = {"different": different, "losses": [_losses(each, rank) for each in engines]}
    for each in engines:
        each.destroy()
    return result


def refused(directory):
    """What is said of files that hold what the model has in one tensor in several."""
    try:
        _engine(_on_meta(_experts), weights=os.path.join(directory, "experts"))
    except RuntimeError as error:
        return str(error)


def initialized(rank, name):
    """What differs from the model as transformers initializes it with rank 0's seed."""
    build, units = BUILDS[name]
    plain = _on_meta(build).to_empty(device="cpu")
    torch.manual_seed(5)
    plain.initialize_weights()
    plain.tie_weights()
    torch.manual_seed(5 + 3 * rank)
    engine = _engine(_on_meta(build), units=units)
    different = _different(engine, plain)
    engine.destroy()
    return different


def _status(key):
    gc.collect()
    text = Path("/proc/self/status").read_text()
    return int(re.search(rf"{key}:\s+(\d+) kB", text)[1]) / 1024


def _peaked(function):
    """What the function returns; and in MiB, how much more than before there was at most, and is
    in the end."""
    before = _status("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    result = function()
    peak, after = _status("VmHWM"), _status("VmRSS")
    return result, peak - before, after - before


def memory(directory):
    """MiB beside the shard, of models on the meta device; and of models in parts, the most while
    they are made, and beside the shard while the engine takes them over."""
    m_mmap_threshold = -3
    ctypes.CDLL(None).mallopt(m_mmap_threshold, 1 << 20)  # what is freed is gone
    path = os.path.join(directory, "wide")
    result = {}
    for way, weights in (("first", None), ("files", path), ("init", None)):
        engine, peak, kept = _peaked(lambda given=weights: _engine(_on_meta(wide), weights=given))
        result[way] = {"peak": peak - kept, "kept": kept - _planned(engine)}
        engine.destroy()
        del engine
    alive = HfDeepSpeedConfig(CONFIG)
    model = _on_meta(wide)
    ways = {
        "from_pretrained": lambda: type(model).from_pretrained(path),
        "from_config": lambda: type(model)._from_config(model.config),
    }
    type(model).from_pretrained(os.path.join(directory, "llama"))  # what the first one costs
    for way, make in ways.items():
        made, peak, kept = _peaked(make)
        engine, taking, more = _peaked(lambda given=made: _engine(given))
        result[way] = {"peak": peak, "kept": kept, "taking": taking - more}
        engine.destroy()
        del engine, made
    del alive
    return result


def _planned(engine):
    return float(re.search(r"memory\s+([\d.]+) MiB", engine.plan)[1])


def all_cases(rank, world, directory):
    thinwire.hf.use_cpu()
    return {
        "memory": memory(directory),
        "loaded": {name: loaded(rank, directory, name) for name in BUILDS},
        "refused": refused(directory),
        "initialized": {name: initialized(rank, name) for name in BUILDS},
    }
