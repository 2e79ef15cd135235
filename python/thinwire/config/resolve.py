"""From checked values to Settings: what depends on more than one key is decided here."""

from . import table
from .errors import ConfigError, Given
from .key import REQUIRED, Effect
from .kinds import LARGEST_INTEGER
from .settings import LossScale, Optimizer, Scheduler, Settings
from .topology import recipe, topology

_BATCH = "train_batch_size"
_MICRO = "train_micro_batch_size_per_gpu"
_STEPS = "gradient_accumulation_steps"
_LARGEST_SCALE_POWER = 24
_TORCH_ADAMW_DECAY = 0.01  # torch.optim.AdamW's default, where DeepSpeed's own has 0


def resolve(values, world_size):
    train, micro, passes = _batches(values, world_size)
    hosts, ranks_per_host = topology(values, world_size)
    dtype, autocast = _precision(values)
    wire = values("thinwire.wire")
    wire = None if wire == "compute" else wire
    fp16 = dtype == "fp16"
    optimizer = _optimizer(values)
    return Settings(
        world_size=world_size,
        stage=values("zero_optimization.stage"),
        train_batch=train,
        micro_batch=micro,
        micro_batches=passes,
        clipping=_clipping(values),
        dtype=dtype,
        autocast=autocast,
        cast_inputs=fp16 and values("fp16.auto_cast"),
        loss_scale=_loss_scale(values) if fp16 else None,
        optimizer=optimizer,
        scheduler=_scheduler(values, optimizer),
        recipe=recipe(values, wire, dtype),
        loss_budget=values("thinwire.loss_budget"),
        review_steps=values("thinwire.review_steps"),
        wire=wire,
        hosts=hosts,
        ranks_per_host=ranks_per_host,
        prefetch=values("thinwire.prefetch"),
        chunk_bytes=values("thinwire.chunk_bytes"),
        full_weights_every=values("thinwire.full_weights_every"),
        deadline_s=values("thinwire.deadline_s"),
        checksum=values("thinwire.checksum"),
        shared_memory=values("thinwire.shared_memory"),
        units=values("thinwire.units"),
        gather_on_save=values("zero_optimization.stage3_gather_16bit_weights_on_model_save"),
        drop_last=values("dataloader_drop_last"),
        steps_per_print=values("steps_per_print"),
        wall_clock_breakdown=values("wall_clock_breakdown"),
        comms_summary=values("comms_logger.enabled"),
        trace=values("thinwire.trace"),
        trace_steps=values("thinwire.trace_steps"),
        notes=tuple(values.notes),
    )


def _batches(values, world):
    """Any two of the three give the third; one alone leaves the others at their smallest."""
    train, micro, passes = values(_BATCH), values(_MICRO), values(_STEPS)
    if train is None and micro is None:
        values.notes.append(f"{_MICRO}: not given, so initialize() cannot load training_data")
        return None, None, passes or 1
    if train is None:
        passes = passes or 1
        train = micro * passes * world
        if train > LARGEST_INTEGER:
            raise ConfigError(_MICRO, "a batch of fewer than 2^63 samples", micro)
        return train, micro, passes
    if micro is None:
        passes = passes or 1
        micro = _part(train, passes, world, f"{_STEPS} x ranks")
    elif passes is None:
        passes = _part(train, micro, world, f"{_MICRO} x ranks")
    if train != micro * passes * world:
        product = f"{micro} x {passes} x {world} = {micro * passes * world}"
        expected = f"{_MICRO} x {_STEPS} x ranks = {product}"
        raise ConfigError(_BATCH, expected, train, "leave one of the three out")
    return train, micro, passes


def _part(train, factor, world, words):
    if train % (factor * world):
        raise ConfigError(_BATCH, f"a multiple of {words} = {factor} x {world}", train)
    return train // (factor * world)


def _clipping(values):
    if not values.is_given("gradient_clipping"):
        values.notes.append("gradient_clipping: unset, so it is off; DeepSpeed would clip at 1.0")
    return values("gradient_clipping") or None


def _precision(values):
    """(dtype of the pass or None, dtype of autocast or None)."""
    on = [name for name in ("bf16", "fp16", "torch_autocast") if values.is_on(name)]
    if len(on) > 1:
        found = Given(f"{on[0]}.enabled = true beside it")
        raise ConfigError(f"{on[1]}.enabled", "one precision", found, "turn one of them off")
    if on == ["torch_autocast"]:
        return None, values("torch_autocast.dtype")
    return (on[0] if on else None), None


def _loss_scale(values):
    power = values("fp16.initial_scale_power")
    if power > _LARGEST_SCALE_POWER:
        values.notes.append(
            f"fp16.initial_scale_power: {power} is read as {_LARGEST_SCALE_POWER}: fp16's smallest "
            "number is 2^-24"
        )
    return LossScale(
        fixed=values("fp16.loss_scale"),
        initial_power=min(power, _LARGEST_SCALE_POWER),
        window=values("fp16.loss_scale_window"),
        hysteresis=values("fp16.hysteresis"),
        consecutive_hysteresis=values("fp16.consecutive_hysteresis"),
        least=values("fp16.min_loss_scale"),
    )


def _params(section, kind, values):
    """Value of every honoured parameter that the type has."""
    params = {}
    for key in table.KEYS.values():
        if key.section != f"{section}.params" or key.effect is not Effect.HONOURED:
            continue
        if key.only and kind not in key.only:
            continue
        params[key.name] = values(key.path)
        if params[key.name] is REQUIRED:
            raise ConfigError(key.path, key.kind.expected, Given("nothing"), f"{kind} needs it")
    return params


def _optimizer(values):
    kind = values("optimizer.type")
    if kind is None:
        return None
    params = _params("optimizer", kind, values)
    adam_w = params.pop("adam_w_mode", True)
    in_torch = params.pop("torch_adam", False)
    decoupled = kind == "AdamW" or kind == "Adam" and adam_w
    if in_torch and decoupled and not values.is_given("optimizer.params.weight_decay"):
        params["weight_decay"] = _TORCH_ADAMW_DECAY
    if kind == "Adam" and decoupled:
        values.notes.append(
            "optimizer.type: Adam decays weights as AdamW does, as in DeepSpeed, unless "
            "optimizer.params.adam_w_mode is false"
        )
    if kind == "Lamb" and params["min_coeff"] > params["max_coeff"]:
        most = params["max_coeff"]
        raise ConfigError(
            "optimizer.params.min_coeff",
            f"at most optimizer.params.max_coeff = {most}",
            params["min_coeff"],
        )
    return Optimizer("adamw" if kind == "Adam" and decoupled else kind.lower(), params)


def _scheduler(values, optimizer):
    kind = values("scheduler.type")
    if kind is None:
        return None
    params = _params("scheduler", kind, values)
    if "warmup_max_lr" in params and params["warmup_max_lr"] is None:
        params["warmup_max_lr"] = optimizer.params["lr"] if optimizer else None
        if kind == "WarmupDecayLR":
            values.notes.append(
                "scheduler.params.warmup_max_lr: unset, so it is the optimizer's lr; DeepSpeed "
                "would take 0.001"
            )
    for low, high in (("warmup_min_lr", "warmup_max_lr"), ("cycle_min_lr", "cycle_max_lr")):
        if params.get(high) is not None and params[low] > params[high]:
            expected = f"at most scheduler.params.{high} = {params[high]}"
            raise ConfigError(f"scheduler.params.{low}", expected, params[low])
    return Scheduler(kind, params)
