"""From Settings to what the engine takes."""

import datetime

from thinwire.native import _native

_TOKENS = 512  # of a sample


def engine_options(settings, model, types):
    """(EngineOptions, lines to print)."""
    options = _native.EngineOptions()
    notes = []
    options.compute = types.most(model.parameters())  # units say it themselves
    options.wire = settings.wire or ""
    options.recipe = settings.recipe
    options.stage = max(1, settings.stage)
    # With several, each pass says whether it ends the step.
    options.micro_batches = 1 if settings.micro_batches == 1 else 0
    options.prefetch = settings.prefetch
    options.chunk_bytes = settings.chunk_bytes
    options.full_weights_every = settings.full_weights_every
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


def choice_of_recipe(settings):
    """What recipe auto needs to know beside the options."""
    return {
        "loss_budget": settings.loss_budget,
        "review_steps": settings.review_steps,
        # Until the time of computing is measured nobody knows how long a sample is.
        "tokens": _TOKENS * (settings.micro_batch or 1),
        "micro_batches": settings.micro_batches,
    }


def _loss_scale(scale):
    return {
        "fixed": scale.fixed,
        "initial": 2.0**scale.initial_power,
        "least": scale.least,
        "window": scale.window,
        "hysteresis": scale.hysteresis,
        "each_good_step": scale.consecutive_hysteresis,
    }
