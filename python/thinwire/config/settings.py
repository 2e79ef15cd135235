"""What a config comes to: every value known, nothing left to look up."""

from dataclasses import dataclass, fields
from typing import Any


@dataclass(frozen=True)
class LossScale:
    """Of fp16. The factor of the loss is fixed, or adapted to what the gradients bear."""

    fixed: float  # 0: adapted
    initial_power: int  # starts at 2 to this
    window: int  # good steps until it doubles
    hysteresis: int  # bad steps until it halves
    consecutive_hysteresis: bool  # a good step forgives the bad ones before it
    least: float


@dataclass(frozen=True)
class Optimizer:
    """`type` is adamw, adam (decay added to the gradient), sgd, lion or lamb."""

    type: str
    params: dict[str, Any]  # all that the type has: lr, betas, eps, weight_decay, ...


@dataclass(frozen=True)
class Scheduler:
    """See thinwire.schedules."""

    type: str  # as DeepSpeed spells it
    params: dict[str, Any]  # all that the type has; None: from the optimizer


@dataclass(frozen=True)
class Settings:
    world_size: int
    stage: int  # 0 to 3

    # Samples; None where the config gives too little to say. Micro-batches per step are known.
    train_batch: int | None  # per optimizer step, all ranks
    micro_batch: int | None  # per rank and pass
    micro_batches: int  # passes per optimizer step

    clipping: float | None  # largest global norm of the gradient; None: off
    dtype: str | None  # bf16 or fp16: of weights, activations and gradients; None: the model's
    autocast: str | None  # bf16 or fp16: forward runs under torch.autocast, gathers in this type
    cast_inputs: bool  # floating-point inputs of the model become fp16
    loss_scale: LossScale | None  # with fp16
    optimizer: Optimizer | None  # None: the caller's
    scheduler: Scheduler | None

    recipe: str  # by name or hop by hop, as zero::MakeRecipe reads it; auto: the planner chooses
    loss_budget: float  # percent, of recipe auto
    review_steps: int  # between its looks at what it chose; 0: none
    wire: str | None  # type of what is sent without a codec; None: that of the pass
    hosts: int | None  # None, both: detected. Else hosts x ranks_per_host = world_size
    ranks_per_host: int | None
    prefetch: int  # units
    chunk_bytes: int
    full_weights_every: int  # steps
    deadline_s: float
    checksum: bool
    shared_memory: bool
    units: tuple[str, ...]  # names or classes of modules; empty: chosen

    gather_on_save: bool  # the Trainer's saves hold the whole model
    drop_last: bool  # of the data loader
    steps_per_print: int | None  # None: never
    wall_clock_breakdown: bool
    comms_summary: bool  # at the end
    trace: str | None  # file for a timeline of all ranks
    trace_steps: str | None  # in it, as "5..8"; None: four of the first

    # Lines to print once: what has no effect and why, where we deviate from DeepSpeed.
    notes: tuple[str, ...]

    def effective(self):
        """The config that says all this explicitly, as a plain dict; reading it gives the same."""
        tree = {
            "train_batch_size": self.train_batch,
            "train_micro_batch_size_per_gpu": self.micro_batch,
            "gradient_accumulation_steps": self.micro_batches,
            "gradient_clipping": self.clipping or 0.0,
            "zero_optimization": {
                "stage": self.stage,
                "stage3_gather_16bit_weights_on_model_save": self.gather_on_save,
            },
            "bf16": {"enabled": self.dtype == "bf16"},
            "fp16": {"enabled": self.dtype == "fp16"} | self._fp16(),
            "torch_autocast": {"enabled": bool(self.autocast)} | self._autocast(),
            "steps_per_print": self.steps_per_print,
            "wall_clock_breakdown": self.wall_clock_breakdown,
            "comms_logger": {"enabled": self.comms_summary},
            "dataloader_drop_last": self.drop_last,
            "thinwire": {
                "recipe": self.recipe,
                "loss_budget": self.loss_budget,
                "review_steps": self.review_steps,
                "wire": self.wire or "compute",
                "hosts": self.hosts,
                "ranks_per_host": self.ranks_per_host,
                "prefetch": self.prefetch,
                "chunk_bytes": self.chunk_bytes,
                "full_weights_every": self.full_weights_every,
                "deadline_s": self.deadline_s,
                "checksum": self.checksum,
                "shared_memory": self.shared_memory,
                "units": list(self.units),
                "trace": self.trace,
                "trace_steps": self.trace_steps,
            },
        }
        if self.optimizer:
            tree["optimizer"] = _optimizer(self.optimizer)
        if self.scheduler:
            tree["scheduler"] = {"type": self.scheduler.type, "params": dict(self.scheduler.params)}
        return tree

    def _fp16(self):
        if not self.loss_scale:
            return {}
        scale = self.loss_scale
        return {
            "auto_cast": self.cast_inputs,
            "loss_scale": scale.fixed,
            "initial_scale_power": scale.initial_power,
            "loss_scale_window": scale.window,
            "hysteresis": scale.hysteresis,
            "consecutive_hysteresis": scale.consecutive_hysteresis,
            "min_loss_scale": scale.least,
        }

    def _autocast(self):
        return {"dtype": self.autocast} if self.autocast else {}

    def same_run(self, other):
        """Whether two settings make the same run: all but the notes."""
        names = [f.name for f in fields(self) if f.name != "notes"]
        return all(getattr(self, name) == getattr(other, name) for name in names)


def _optimizer(optimizer):
    names = {"adam": "Adam", "adamw": "AdamW", "sgd": "SGD", "lion": "Lion", "lamb": "Lamb"}
    params = {k: list(v) if isinstance(v, tuple) else v for k, v in optimizer.params.items()}
    if optimizer.type == "adam":
        params["adam_w_mode"] = False
    return {"type": names[optimizer.type], "params": params}
