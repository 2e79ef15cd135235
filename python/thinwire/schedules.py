"""DeepSpeed's learning-rate schedules as functions of the number of optimizer steps taken.

Step 0 is the first. DeepSpeed counts its iterations from -1, before the first step, so the warm-ups
here are theirs one step later: two steps stand at the lowest rate. Pure Python, no state: a resumed
run needs the step alone.
"""

import math
from typing import NamedTuple

_LARGEST_MOMENTUM = 0.999999  # DeepSpeed's grows without bound


class Point(NamedTuple):
    lr: float
    momentum: float | None = None  # None: the optimizer's own


def point(scheduler, step, lr):
    """Rate and momentum of a config.Scheduler in `step`; `lr` is where the optimizer started."""
    return _SCHEDULES[scheduler.type](step, lr, **scheduler.params)


def _warmup(iteration, steps, shape):
    """From 0 in iteration 0 to 1 in iteration `steps`; None after it."""
    steps = max(2, steps)  # the logarithm of 1 would divide by 0
    if iteration >= steps:
        return None
    if iteration < 0:
        return 0.0
    return iteration / steps if shape == "linear" else math.log(iteration + 1) / math.log(steps)


def _warmup_lr(step, lr, warmup_min_lr, warmup_max_lr, warmup_num_steps, warmup_type):
    part = _warmup(step - 1, warmup_num_steps, warmup_type)
    return _between(warmup_min_lr, warmup_max_lr, lr, 1.0 if part is None else part)


def _warmup_decay_lr(
    step, lr, warmup_min_lr, warmup_max_lr, warmup_num_steps, warmup_type, total_num_steps
):
    part = _warmup(step - 1, warmup_num_steps, warmup_type)
    if part is None:
        left = total_num_steps - (step - 1)
        part = max(0.0, left / max(1, total_num_steps - max(2, warmup_num_steps)))
    return _between(warmup_min_lr, warmup_max_lr, lr, part)


def _between(least, most, lr, part):
    return Point(least + ((lr if most is None else most) - least) * part)


def _warmup_cosine_lr(
    step, lr, warmup_num_steps, warmup_type, total_num_steps, warmup_min_ratio, cos_min_ratio
):
    if step == 0:
        return Point(0.0)
    part = _warmup(step - 1, warmup_num_steps, warmup_type)
    if part is not None:
        return Point(lr * (warmup_min_ratio + (1 - warmup_min_ratio) * part))
    warmup = max(2, warmup_num_steps)
    progress = min(1.0, (step - warmup) / max(1, total_num_steps - warmup))
    wave = (1 + math.cos(math.pi * progress)) / 2
    return Point(lr * (cos_min_ratio + (1 - cos_min_ratio) * wave))


def _lr_range_test(
    step,
    lr,
    lr_range_test_min_lr,
    lr_range_test_step_size,
    lr_range_test_step_rate,
    lr_range_test_staircase,
):
    intervals = step / lr_range_test_step_size
    if lr_range_test_staircase:
        intervals = math.floor(intervals)
    return Point(lr_range_test_min_lr * (1 + lr_range_test_step_rate * intervals))


def _one_cycle(
    step,
    lr,
    cycle_min_lr,
    cycle_max_lr,
    decay_lr_rate,
    cycle_first_step_size,
    cycle_second_step_size,
    cycle_first_stair_count,
    cycle_second_stair_count,
    decay_step_size,
    cycle_momentum,
    cycle_min_mom,
    cycle_max_mom,
    decay_mom_rate,
):
    up = cycle_first_step_size
    down = up if cycle_second_step_size is None else cycle_second_step_size
    stairs_up = cycle_first_stair_count
    stairs_down = stairs_up if cycle_second_stair_count is None else cycle_second_stair_count
    after = step - up - down
    if after > 0:
        decays = after / decay_step_size if decay_step_size else 0.0
        rate = cycle_min_lr / (1 + decay_lr_rate * decays)
        momentum = min(_LARGEST_MOMENTUM, cycle_max_mom * (1 + decay_mom_rate * decays))
    else:
        part = _stairs(step, up, stairs_up) if step <= up else _stairs(-after, down, stairs_down)
        rate = cycle_min_lr + (cycle_max_lr - cycle_min_lr) * part
        momentum = cycle_max_mom - (cycle_max_mom - cycle_min_mom) * part
    return Point(rate, momentum if cycle_momentum else None)


def _stairs(position, size, stairs):
    """position / size, in [0, 1], in so many stairs; 0: none."""
    return math.floor(position * stairs / size) / stairs if stairs else position / size


_SCHEDULES = {
    "LRRangeTest": _lr_range_test,
    "OneCycle": _one_cycle,
    "WarmupCosineLR": _warmup_cosine_lr,
    "WarmupDecayLR": _warmup_decay_lr,
    "WarmupLR": _warmup_lr,
}
