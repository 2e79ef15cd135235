"""One rank: the Trainer at every stage, world size and precision, and what it saves there."""

import contextlib
import copy
import io
import os
import re

import thinwire.hf

thinwire.hf.install()

import deepspeed  # noqa: E402
import peft  # noqa: E402
import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
import transformers  # noqa: E402
from accelerate.state import AcceleratorState  # noqa: E402
from hf_models import VOCABULARY, llama  # noqa: E402
from hf_trainer import CONFIGS, ZERO3, quiet, trainer_of  # noqa: E402
from safetensors.torch import load_file  # noqa: E402

STEPS = 4
CONFIGS |= {
    f"stage {stage}": ZERO3 | {"zero_optimization": {"stage": stage, "reduce_bucket_size": "auto"}}
    for stage in range(3)
} | {"stage 3": ZERO3}


def _trained(directory, config, model=None, **more):
    """A tied model after STEPS steps, evaluated after each, and what was printed."""
    AcceleratorState._reset_state()  # of the case before; the group of ranks stays
    torch.manual_seed(5)
    arguments = {"eval_strategy": "steps", "eval_steps": 1, "max_steps": STEPS} | more
    resumed = arguments.pop("resumed", None)
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        model = model or llama(tie_word_embeddings=True)
        trainer = trainer_of(model, directory, config, **arguments)
        trainer.train(resume_from_checkpoint=resumed)
    return trainer, printed.getvalue()


def _log(trainer, name):
    return [entry[name] for entry in trainer.state.log_history if name in entry]


def _engine(trainer):
    return trainer.model_wrapped


def _saved_whole(trainer, directory):
    """Whether both ways of saving give the model as plain transformers has it, ties and all."""
    state = {k: v.clone() for k, v in trainer.model.state_dict().items()}
    trainer.save_model(os.path.join(directory, "by trainer"))
    if trainer.args.process_index == 0:
        path = os.path.join(directory, "by model")
        trainer.model.save_pretrained(path, state_dict=state)
    trainer.accelerator.wait_for_everyone()
    same = []
    for way in ("by trainer", "by model"):
        path = os.path.join(directory, way)
        # The config of the training still counts: at stage 3, each rank holds its part.
        plain = transformers.LlamaForCausalLM.from_pretrained(path)
        with deepspeed.zero.GatheredParameters(plain):
            loaded = plain.state_dict()
            tied = plain.lm_head.weight is plain.model.embed_tokens.weight
            same.append(tied and all(torch.equal(loaded[key], state[key]) for key in state))
    return all(same)


def _adapter(directory, config):
    """What is saved of LoRA, and whether the tie is one tensor under PEFT's names."""
    AcceleratorState._reset_state()
    torch.manual_seed(5)
    lora = peft.LoraConfig(r=2, target_modules=["q_proj", "v_proj"])
    model = peft.get_peft_model(llama(tie_word_embeddings=True), lora)
    with contextlib.redirect_stdout(io.StringIO()):
        trainer = trainer_of(model, directory, config, max_steps=1)
        trainer.train()
    trainer.save_model(directory)
    trainer.accelerator.wait_for_everyone()
    state = trainer.model.state_dict()
    head, embedding = (
        state[f"base_model.model.{name}.weight"] for name in ("lm_head", "model.embed_tokens")
    )
    file = os.path.join(directory, "adapter_model.safetensors")
    saved = load_file(file)
    _engine(trainer).destroy()
    return {
        "tied": head.data_ptr() == embedding.data_ptr() and head.numel() == VOCABULARY * 16,
        "shapes": sorted(tuple(each.shape) for each in saved.values()),
        "bytes beside": os.path.getsize(file) - sum(each.nbytes for each in saved.values()),
    }


def stages(rank, world, directory):
    quiet()
    results = {}
    for config in ("stage 0", "stage 1", "stage 2", "stage 3"):
        trainer, printed = _trained(directory, config)
        results[config] = {
            "losses": _log(trainer, "loss"),
            "evaluated": _log(trainer, "eval_loss"),
            "saved": _saved_whole(trainer, os.path.join(directory, config)),
            "printed": printed,
        }
        _engine(trainer).destroy()
        results[config]["adapter"] = _adapter(os.path.join(directory, f"{config} lora"), config)
    for kind in ("bf16", "fp16"):
        results[kind] = _precision(directory, kind)
    return results | {"pretrained": _pretrained(directory)}


def _pretrained(directory):
    """Losses of plain models and of those that from_pretrained makes of the same files while a
    ZeRO-3 config is alive: of all weights, resumed after step 2, and of LoRA."""
    path = os.path.join(directory, "first")
    torch.manual_seed(5)
    plain = llama(tie_word_embeddings=True)
    lora = peft.LoraConfig(r=2, target_modules=["q_proj", "v_proj"])
    if dist.get_rank() == 0:
        plain.save_pretrained(path)
    dist.barrier()

    def sharded():
        return transformers.LlamaForCausalLM.from_pretrained(path)

    def sharded_and_adapted():
        torch.manual_seed(6)
        return peft.get_peft_model(sharded(), lora)

    torch.manual_seed(6)
    adapted = peft.get_peft_model(copy.deepcopy(plain), lora)
    output = os.path.join(directory, "pretrained")
    checkpoint = os.path.join(output, "checkpoint-2")
    save = {"save_strategy": "steps", "save_steps": 2}
    ways = {
        "plain": {"model": plain},
        "sharded": {"model": sharded} | save,
        "resumed": {"model": sharded, "resumed": checkpoint},
        "plain, adapted": {"model": adapted},
        "sharded, adapted": {"model": sharded_and_adapted},
    }
    result = {}
    for name, way in ways.items():
        trainer, printed = _trained(output, "stage 3", **way)
        result[name] = _log(trainer, "loss")
        if name == "resumed":
            result["saved"] = _saved_whole(trainer, os.path.join(directory, name))
        result[f"{name} says"] = re.findall("each rank holds .* until", printed)
        _engine(trainer).destroy()
    return result


def _precision(directory, kind):
    """Steps that are below the resolution of `kind` for most weights."""
    trainer, printed = _trained(directory, "stage 3", learning_rate=1e-5, **{kind: True})
    engine = _engine(trainer)
    module = engine.module
    masters = engine.state_dict(dtype=torch.float32)
    computed = next(module.parameters()).dtype
    trainer.save_model(os.path.join(directory, kind))
    trainer.accelerator.wait_for_everyone()
    saved = load_file(os.path.join(directory, kind, "model.safetensors"))
    torch.manual_seed(5)
    before = llama(tie_word_embeddings=True).state_dict()
    moved = [(masters[k] != before[k]).float().mean().item() for k in masters]
    result = {
        "computed in": str(computed),
        "moved": min(moved),
        "saved": all(torch.equal(saved[k], masters[k].to(computed)) for k in saved),
        "not saved": sorted(masters.keys() - saved.keys()),
        "printed": printed,
    }
    engine.destroy()
    return result


def light(rank, world, directory):
    """Losses and evaluations at this world size, sharded, then of the Trainer by itself."""
    quiet()
    results = []
    for config in ("stage 3", "none"):
        trainer, _ = _trained(directory, config, max_steps=2)
        results.append(_log(trainer, "loss") + _log(trainer, "eval_loss"))
        if config != "none":
            _engine(trainer).destroy()
        trainer.accelerator.free_memory()
    return results
