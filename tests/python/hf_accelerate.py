"""One rank: a loop of its own over accelerate, over thinwire or as it is; and LoRA by peft."""

import copy
import os

import thinwire.hf

thinwire.hf.install()

import peft  # noqa: E402
import torch  # noqa: E402
from accelerate import Accelerator, DeepSpeedPlugin  # noqa: E402
from hf_models import llama  # noqa: E402
from hf_trainer import ZERO3, Samples, quiet, trainer_of  # noqa: E402
from safetensors.torch import load_file  # noqa: E402


def loop(rank, world, sharded, accumulation):
    """Losses of all micro-batches, two epochs whose last step is short of some, and the weights."""
    quiet()
    torch.manual_seed(5)
    if sharded:
        thinwire.hf.use_cpu()
        config = ZERO3 | {"gradient_clipping": 0.5}
        del config["optimizer"]
        plugin = DeepSpeedPlugin(
            hf_ds_config=config | {"gradient_accumulation_steps": accumulation}
        )
        accelerator = Accelerator(deepspeed_plugin=plugin)
    else:
        accelerator = Accelerator(cpu=True, gradient_accumulation_steps=accumulation)
    model = llama()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2, momentum=0.5)
    data = torch.utils.data.DataLoader(Samples(0, 20), batch_size=2)
    model, optimizer, data = accelerator.prepare(model, optimizer, data)
    losses = []
    for _ in range(2):
        for tokens in data:
            with accelerator.accumulate(model):
                loss = model(**tokens).loss
                losses.append(loss.item())
                accelerator.backward(loss)
                if accelerator.sync_gradients:
                    accelerator.clip_grad_norm_(model.parameters(), 0.5)
                optimizer.step()
                optimizer.zero_grad()
    state = accelerator.get_state_dict(model)
    return losses, None if state is None else {k: v.tolist() for k, v in state.items()}


def _adapted(base):
    return peft.get_peft_model(
        base,
        peft.LoraConfig(r=2, lora_alpha=4, target_modules=["q_proj", "v_proj"], lora_dropout=0.0),
    )


def lora(rank, world, directory, config):
    """Losses of fine-tuning with LoRA, what is saved of it, and what it generates, sharded and from
    what was saved."""
    quiet()
    torch.manual_seed(5)
    base = llama(tie_word_embeddings=True)
    whole = copy.deepcopy(base)
    trainer = trainer_of(_adapted(base), directory, config, save_strategy="steps", save_steps=5)
    trainer.train()
    saved = os.path.join(directory, "adapter")
    trainer.save_model(saved)
    trainer.accelerator.wait_for_everyone()
    file = os.path.join(saved, "adapter_model.safetensors")
    own = peft.get_peft_model_state_dict(trainer.model)  # outside of any gather
    prompt = {"input_ids": torch.randint(3, 30, (1, 4)), "do_sample": False}
    prompt["max_new_tokens"] = 3 + 5 * rank  # ranks end at different lengths
    generated = trainer.model.generate(**prompt)
    again = peft.PeftModel.from_pretrained(whole, saved).generate(**prompt)
    return {
        "losses": [e["loss"] for e in trainer.state.log_history if "loss" in e],
        "bytes": os.path.getsize(file),
        "saved": {k: v.tolist() for k, v in load_file(file).items()},
        "own": {k: v.tolist() for k, v in own.items()},
        "checkpoint": sorted(os.listdir(os.path.join(directory, "checkpoint-5"))),
        "generated": (generated.tolist(), again.tolist()),
    }
