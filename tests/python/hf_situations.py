"""One rank: what went wrong for others with accelerate: accumulation, states, several models."""

import contextlib
import io
import os

import thinwire.hf

thinwire.hf.install()

import peft  # noqa: E402
import torch  # noqa: E402
from accelerate import Accelerator, DeepSpeedPlugin  # noqa: E402
from accelerate.state import AcceleratorState, GradientState  # noqa: E402
from hf_models import VOCABULARY, llama  # noqa: E402
from hf_trainer import ZERO3, quiet, trainer_of  # noqa: E402
from torch import nn  # noqa: E402


def _plugin(**changes):
    config = {key: value for key, value in ZERO3.items() if key != "optimizer"}
    return DeepSpeedPlugin(
        hf_ds_config=config
        | {"train_micro_batch_size_per_gpu": 1, "gradient_clipping": 0}
        | changes
    )


def _accelerator(plugins=None, **changes):
    AcceleratorState._reset_state()
    GradientState._reset_state()
    thinwire.hf.use_cpu()
    return Accelerator(deepspeed_plugins=plugins or _plugin(**changes))


def _tokens(rank, count, step=0):
    generator = torch.Generator().manual_seed(100 * step + rank)
    return torch.randint(3, VOCABULARY, (count, 8), generator=generator)


def _prepared(accelerator, rate=0.1):
    torch.manual_seed(5)
    model = llama()
    return accelerator.prepare(model, torch.optim.SGD(model.parameters(), lr=rate, momentum=0.5))


def _loss(model, tokens):
    return model(input_ids=tokens, labels=tokens).loss


def splits(rank):
    """{(micro batch, accumulation): (losses' mean, gradients' norm, weights)} of a step with eight
    samples."""
    results = {}
    for micro in (8, 4, 2, 1):
        accelerator = _accelerator(gradient_accumulation_steps=8 // micro)
        model, optimizer = _prepared(accelerator)
        losses = []
        for tokens in _tokens(rank, 8).split(micro):
            with accelerator.accumulate(model):
                loss = _loss(model, tokens)
                accelerator.backward(loss)
                losses.append(loss.item())
                optimizer.step()
        norm = model.get_global_grad_norm()
        weights = model.state_dict()["model.norm.weight"]
        results[micro, 8 // micro] = (sum(losses) / len(losses), norm, weights.tolist())
        model.destroy()
    return results


def _steps(accelerator, model, rank, teacher=None, first=0):
    losses = []
    for step in range(first, first + 3):
        loss = _loss(model, _tokens(rank, 2, step))
        if teacher is not None:
            with torch.no_grad():
                wanted = teacher(input_ids=_tokens(rank, 2, step)).logits.softmax(-1)
            logits = model(input_ids=_tokens(rank, 2, step)).logits
            loss = nn.functional.cross_entropy(logits.flatten(0, 1), wanted.flatten(0, 1))
        accelerator.backward(loss)
        losses.append(loss.item())
    return losses


def states(rank, directory):
    """Losses after save_state, and once more after load_state; a frozen model is beside."""
    accelerator = _accelerator()
    model, _ = _prepared(accelerator)
    torch.manual_seed(9)
    teacher = llama().requires_grad_(False)
    before = {key: value.clone() for key, value in teacher.state_dict().items()}
    _steps(accelerator, model, rank, teacher)
    saved = os.path.join(directory, "state")
    accelerator.save_state(saved)
    first = _steps(accelerator, model, rank, teacher, 3)
    accelerator.load_state(saved)
    again = _steps(accelerator, model, rank, teacher, 3)
    model.destroy()
    untouched = all(torch.equal(before[k], v) for k, v in teacher.state_dict().items())
    return first, again, untouched


def two_engines(rank):
    """Losses of a student with a sharded, frozen teacher, and with a plain one."""
    losses = []
    for sharded in (True, False):
        plugins = {"student": _plugin(), "teacher": _plugin()}
        accelerator = _accelerator(plugins)
        model, _ = _prepared(accelerator)
        torch.manual_seed(9)
        teacher = llama().requires_grad_(False)
        if sharded:
            accelerator.state.select_deepspeed_plugin("teacher")
            teacher = Accelerator().prepare(teacher)
            accelerator.state.select_deepspeed_plugin("student")
        losses.append(_steps(accelerator, model, rank, teacher))
        for engine in (model, teacher):
            if engine is model or sharded:
                engine.destroy()
    return losses


def _adapted():
    torch.manual_seed(5)
    config = peft.LoraConfig(r=2, lora_alpha=4, target_modules=["q_proj", "v_proj"])
    return peft.get_peft_model(llama(tie_word_embeddings=True), config)


def resumed_lora(rank, directory):
    """Losses and adapter of fine-tuning with LoRA, and of another that resumes it after step 3."""
    results = []
    for again in (False, True):
        AcceleratorState._reset_state()
        with contextlib.redirect_stdout(io.StringIO()):
            trainer = trainer_of(
                _adapted(), directory, "zero3", save_strategy="steps", save_steps=3, max_steps=6
            )
            checkpoint = os.path.join(directory, "checkpoint-3")
            trainer.train(resume_from_checkpoint=checkpoint if again else None)
        losses = [e["loss"] for e in trainer.state.log_history if "loss" in e]
        adapter = peft.get_peft_model_state_dict(trainer.model)
        results.append((losses, {key: value.tolist() for key, value in adapter.items()}))
        trainer.model_wrapped.destroy()
    return results


def all_cases(rank, world, directory):
    quiet()
    with contextlib.redirect_stdout(io.StringIO()):
        return {
            "splits": splits(rank),
            "states": states(rank, directory),
            "two engines": two_engines(rank),
            "resumed": resumed_lora(rank, directory),
        }
