"""One rank: the Trainer of transformers, over thinwire or as it is."""

import os

import thinwire.hf

thinwire.hf.install()

import torch  # noqa: E402
import transformers  # noqa: E402
from hf_models import batch, llama  # noqa: E402
from transformers import Trainer, TrainingArguments  # noqa: E402
from transformers.integrations.deepspeed import unset_hf_deepspeed_config  # noqa: E402

ZERO3 = {
    "train_batch_size": "auto",
    "train_micro_batch_size_per_gpu": "auto",
    "gradient_accumulation_steps": "auto",
    "gradient_clipping": "auto",
    "bf16": {"enabled": "auto"},
    "fp16": {"enabled": "auto"},
    "optimizer": {
        "type": "AdamW",
        "params": {"lr": "auto", "betas": "auto", "eps": "auto", "weight_decay": "auto"},
    },
    "zero_optimization": {
        "stage": 3,
        "overlap_comm": True,
        "contiguous_gradients": True,
        "sub_group_size": 1e9,
        "reduce_bucket_size": "auto",
        "stage3_prefetch_bucket_size": "auto",
        "stage3_param_persistence_threshold": "auto",
        "stage3_max_live_parameters": 1e9,
        "stage3_max_reuse_distance": 1e9,
        "stage3_gather_16bit_weights_on_model_save": True,
    },
}
# The optimizer and its groups, decayed and not, are the Trainer's.
ZERO2 = {key: value for key, value in ZERO3.items() if key != "optimizer"} | {
    "zero_optimization": {"stage": 2, "reduce_bucket_size": "auto"}
}
ZEROPP = ZERO3 | {
    "zero_optimization": ZERO3["zero_optimization"]
    | {"zero_quantized_weights": True, "zero_quantized_gradients": True},
    "thinwire": {"hosts": 2, "ranks_per_host": 1},
}
CONFIGS = {"zero3": ZERO3, "zero2": ZERO2, "zero++": ZEROPP, "none": None}


class Samples(torch.utils.data.Dataset):
    def __init__(self, first, count):
        self._items = [
            {key: value[0] for key, value in batch(first + i, 0).items()} for i in range(count)
        ]

    def __len__(self):
        return len(self._items)

    def __getitem__(self, index):
        return self._items[index]


def trainer_of(model, directory, config, accumulation=1, decay=0.0, **more):
    """`model` may be a function that makes it when the config is there already, as scripts do."""
    settings = CONFIGS[config]
    if settings is not None:
        thinwire.hf.use_cpu()
        more["accelerator_config"] = {"use_configured_state": True}
    arguments = TrainingArguments(
        output_dir=directory,
        use_cpu=True,
        deepspeed=settings,
        per_device_train_batch_size=2,
        gradient_accumulation_steps=accumulation,
        num_train_epochs=2,
        weight_decay=decay,
        logging_steps=1,
        report_to=[],
        disable_tqdm=True,
        **{"save_strategy": "no", "learning_rate": 3e-3, **more},
    )
    return Trainer(
        model=model if isinstance(model, torch.nn.Module) else model(),
        args=arguments,
        train_dataset=Samples(0, 20 * accumulation // 2),
        eval_dataset=Samples(500, 8),
    )


def _losses(trainer, name="loss"):
    return [entry[name] for entry in trainer.state.log_history if name in entry]


def quiet():
    transformers.logging.set_verbosity_error()


def train(rank, world, directory, config, accumulation, decay):
    """Losses, gradients' norms and evaluations of a whole training."""
    quiet()
    torch.manual_seed(5)
    trainer = trainer_of(
        llama(), directory, config, accumulation, decay, eval_strategy="steps", eval_steps=2
    )
    trainer.train()
    return {
        "losses": _losses(trainer),
        "evaluated": _losses(trainer, "eval_loss"),
        "norms": _losses(trainer, "grad_norm"),
        "rates": _losses(trainer, "learning_rate"),
        "engine": type(trainer.model_wrapped).__module__,
    }


def save(rank, world, directory):
    """A training with checkpoints; then the model is saved as a whole, and generates sharded as it
    does whole."""
    quiet()
    torch.manual_seed(5)
    trainer = trainer_of(llama(), directory, "zero3", save_strategy="steps", save_steps=4)
    trainer.train()
    saved = os.path.join(directory, "model")
    trainer.save_model(saved)
    torch.manual_seed(5 + rank)
    prompt = torch.randint(3, 30, (1, 4))
    length = 3 + 5 * rank  # ranks end at different lengths
    generated = trainer.model.generate(prompt, max_new_tokens=length, do_sample=False)
    state = trainer.model.state_dict()
    trainer.accelerator.free_memory()

    unset_hf_deepspeed_config()  # with it, each rank would hold its part
    whole = transformers.LlamaForCausalLM.from_pretrained(saved)
    expected = whole.generate(prompt, max_new_tokens=length, do_sample=False)
    return {
        "losses": _losses(trainer),
        "generated": (generated.tolist(), expected.tolist()),
        "same": all(torch.equal(value, state[name]) for name, value in whole.state_dict().items()),
    }


def resume(rank, world, directory):
    """The losses of a training that goes on from the checkpoint after step 4."""
    quiet()
    torch.manual_seed(6)
    trainer = trainer_of(llama(), directory, "zero3", save_strategy="no")
    trainer.train(resume_from_checkpoint=os.path.join(directory, "checkpoint-4"))
    return _losses(trainer)
