"""From a dict, a path or JSON text to plain dicts, lists and values."""

import json
import os
from pathlib import Path

from .errors import ConfigError, Given

_DEEPEST = 16  # a DeepSpeed config has four levels


class _Twice(dict):
    """An object in which a key stood twice; its path is known only to who walks the whole."""

    name = ""


def read(config):
    """A copy of the config as plain JSON values. Throws ConfigError for anything else."""
    if isinstance(config, dict):
        return _plain(config, "", 0)
    if isinstance(config, (str, os.PathLike)):
        text, name = _text(config)
        return _plain(_parse(text, name), "", 0)
    raise ConfigError("config", "a dict, a path to a JSON file, or JSON text", config)


def _text(config):
    if isinstance(config, str) and config.lstrip()[:1] in ("{", "["):
        return config, "config"
    try:
        return Path(config).read_text(encoding="utf-8"), str(config)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ConfigError("config", "a readable JSON file", str(config), reason) from None


def _parse(text, name):
    def objects(pairs):
        made = dict(pairs)
        if len(made) == len(pairs):
            return made
        names = [key for key, _ in pairs]
        made = _Twice(made)
        made.name = next(key for key in names if names.count(key) > 1)
        return made

    try:
        tree = json.loads(text, object_pairs_hook=objects)
    except (ValueError, RecursionError) as error:
        reason = str(error) or "it is nested too deeply"
        raise ConfigError(name, "JSON", Given("text that is none"), reason) from None
    if not isinstance(tree, dict):
        raise ConfigError(name, "a JSON object", tree)
    return tree


def _plain(value, path, depth):
    if depth > _DEEPEST:
        raise ConfigError(path, f"at most {_DEEPEST} levels", Given("more"))
    if isinstance(value, _Twice):
        where = f"{path}.{value.name}" if path else value.name
        raise ConfigError(where, "the key once", Given("it twice"))
    if isinstance(value, dict):
        for name in value:
            if not isinstance(name, str):
                raise ConfigError(path or "config", "strings as keys", name)
        return {
            name: _plain(each, f"{path}.{name}" if path else name, depth + 1)
            for name, each in value.items()
        }
    if isinstance(value, (list, tuple)):
        return [_plain(each, f"{path}[{i}]", depth + 1) for i, each in enumerate(value)]
    if value is None or isinstance(value, (str, bool, int, float)):
        return value
    raise ConfigError(path, "a JSON value", value)
