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
from transformers.integrations.deepspeed import HfDeepSpeedConfig  # noqa: E402


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


class Int8Linear(nn.Linear):
    """Frozen weights in int8, one scale for each row."""

    @staticmethod
    def of(linear):
        self = Int8Linear(linear.in_features, linear.out_features, bias=False)
        weight = linear.weight.detach()
        scale = weight.abs().amax(1, keepdim=True) / 127
        codes = (weight / scale).round().to(torch.int8)
        self.weight = nn.Parameter(codes, requires_grad=False)
        self.register_buffer("scale", scale)
        return self

    def forward(self, values):
        return nn.functional.linear(values, self.weight.to(values.dtype) * self.scale)


def int8_base(rank, directory):
    """Losses of LoRA over frozen int8 weights in bf16, of the same over those weights as floats in
    fp32, and whether the int8 weights are as they were."""
    results = []
    for config, kind in (("zero++", {"bf16": True}), ("none", {})):
        AcceleratorState._reset_state()
        torch.manual_seed(5)
        base = llama()
        for name, module in list(base.named_modules()):
            if isinstance(module, nn.Linear) and name != "lm_head":
                coded = Int8Linear.of(module)
                if config == "none":
                    module.weight.data = coded.weight.float() * coded.scale
                else:
                    base.set_submodule(name, coded)
        before = {k: v.clone() for k, v in base.state_dict().items() if v.dtype == torch.int8}
        torch.manual_seed(6)
        lora = peft.LoraConfig(r=2, lora_alpha=4, target_modules=["q_proj", "v_proj", "up_proj"])
        with contextlib.redirect_stdout(io.StringIO()):
            model = peft.get_peft_model(base, lora)
            trainer = trainer_of(model, directory, config, max_steps=6, learning_rate=0.03, **kind)
            trainer.train()
        results.append([e["loss"] for e in trainer.state.log_history if "loss" in e])
        if config != "none":
            after = trainer.model.state_dict()
            after = {
                key.replace("base_model.model.", "").replace("base_layer.", ""): value
                for key, value in after.items()
            }
            unchanged = [torch.equal(after[key], before[key]) for key in before]
            trainer.model_wrapped.destroy()
    return *results, unchanged


def any_order(rank):
    """The parameters of zero.Init, gathered in an order of its own on each rank, after rank 0 has
    written numbers into its."""
    import deepspeed

    with deepspeed.zero.Init():
        model = nn.Sequential(nn.Linear(2, 3), nn.Linear(5, 7, bias=False))
    parameters = list(model.parameters())
    with deepspeed.zero.GatheredParameters(parameters[:: 1 - 2 * rank], modifier_rank=0):
        for number, parameter in enumerate(parameters if rank == 0 else ()):
            nn.init.constant_(parameter, number)
    with deepspeed.zero.GatheredParameters(parameters[:: 1 - 2 * rank]):
        return [sorted(set(parameter.flatten().tolist())) for parameter in parameters]


def made_inside(rank):
    """What goes wrong with models made while each rank keeps a part: whether rank 0's values count,
    what a forward says, how many parameters an error changes, and what differs of an embedding that
    grew."""
    import deepspeed

    torch.manual_seed(rank)
    with deepspeed.zero.Init():
        model = nn.Linear(3, 5)
    torch.manual_seed(0)
    plain = nn.Linear(3, 5)
    result = {}
    with deepspeed.zero.GatheredParameters(model.parameters()):
        result["rank 0's"] = torch.equal(model.weight, plain.weight)
    try:
        model(torch.ones(3))
    except RuntimeError as error:
        result["said"] = str(error)
    with (
        contextlib.suppress(KeyError),
        deepspeed.zero.GatheredParameters(model.parameters(), modifier_rank=0),
        torch.no_grad(),
    ):
        model.weight.fill_(7)
        raise KeyError
    with deepspeed.zero.GatheredParameters(model.parameters()):
        result["kept"] = torch.equal(model.weight, plain.weight)
    alive = HfDeepSpeedConfig(ZERO3)
    torch.manual_seed(5)
    tied = type(llama())._from_config(llama(tie_word_embeddings=True).config)
    with deepspeed.zero.GatheredParameters(tied):
        before = tied.lm_head.weight.clone()
    tied.resize_token_embeddings(VOCABULARY + 4, mean_resizing=False)
    del alive
    with deepspeed.zero.GatheredParameters(tied):
        after = tied.model.embed_tokens.weight
        same = torch.equal(after[:VOCABULARY], before) and after is tied.lm_head.weight
        result["grown"] = same and bool(after.isfinite().all())
    return result


def all_cases(rank, world, directory):
    quiet()
    with contextlib.redirect_stdout(io.StringIO()):
        return {
            "splits": splits(rank),
            "states": states(rank, directory),
            "two engines": two_engines(rank),
            "int8": int8_base(rank, directory),
            "any order": any_order(rank),
            "made inside": made_inside(rank),
            "resumed": resumed_lora(rank, directory),
        }
