"""From Settings to what the engine takes."""

import datetime

import torch

from thinwire.native import _native

_NAMES = {torch.float32: "fp32", torch.bfloat16: "bf16", torch.float16: "fp16"}


def engine_options(settings, model):
    """(EngineOptions, lines to print)."""
    options = _native.EngineOptions()
    notes = []
    options.compute = settings.dtype or settings.autocast or _own_dtype(model, notes)
    options.wire = settings.wire or options.compute
    options.recipe = settings.recipe
    options.stage = max(1, settings.stage)
    # With several, each pass says whether it ends the step.
    options.micro_batches = 1 if settings.micro_batches == 1 else 0
    options.prefetch = settings.prefetch
    options.chunk_bytes = settings.chunk_bytes
    options.max_grad_norm = settings.clipping or 0.0
    options.checksum = settings.checksum
    options.deadline = datetime.timedelta(seconds=settings.deadline_s)
    if settings.loss_scale:
        options.set_loss_scale(**_loss_scale(settings.loss_scale))
    if settings.stage == 0:
        notes.append(
            "zero_optimization.stage 0: runs as stage 1, with the same results and less memory"
        )
    return options, notes


def _loss_scale(scale):
    return {
        "fixed": scale.fixed,
        "initial": 2.0**scale.initial_power,
        "least": scale.least,
        "window": scale.window,
        "hysteresis": scale.hysteresis,
        "each_good_step": scale.consecutive_hysteresis,
    }


def _own_dtype(model, notes):
    """The model's type; of several the one that holds all values."""
    dtypes = {parameter.dtype for parameter in model.parameters()}
    if dtypes - _NAMES.keys():
        odd = next(n for n, p in model.named_parameters() if p.dtype not in _NAMES)
        raise _native.UsageError(
            f"parameter {odd} is {model.get_parameter(odd).dtype}: expected float32, bfloat16 or "
            "float16"
        )
    if len(dtypes) > 1:
        notes.append("the model has parameters of several types: all are gathered as float32")
    return _NAMES[dtypes.pop()] if len(dtypes) == 1 else "fp32"
