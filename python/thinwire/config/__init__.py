"""DeepSpeed's JSON as users have it, to settings of thinwire. Imports torch only where there is a
recipe to read, which the engine does.

Every key is honoured, or named in a note as having no effect and why, or an error; an unknown one
is an error that names the nearest. docs/deepspeed_config.md has the table.
"""

from .errors import ConfigError
from .kinds import Integer, Mismatch
from .resolve import resolve
from .schema import json_schema
from .settings import LossScale, Optimizer, Scheduler, Settings
from .source import read
from .walk import walk

__all__ = ["ConfigError", "LossScale", "Optimizer", "Scheduler", "Settings", "json_schema", "load"]

_WORLD = Integer(1, 2**20)


def load(config, world_size=1, auto=None):
    """Settings from a dict, a path to a JSON file, or JSON text. Throws ConfigError.

    `auto` has values for keys that say "auto", by full path:
    {"optimizer.params.lr": 1e-4, "train_micro_batch_size_per_gpu": 8}. None is no value.
    """
    try:
        ranks = _WORLD.check(world_size)
    except Mismatch:
        raise ConfigError("world_size", _WORLD.expected, world_size) from None
    return resolve(walk(read(config), dict(auto or {})), ranks)
