"""From a config's tree to the value of each key that it gives, checked, with notes on the way."""

from dataclasses import dataclass, field

from . import table
from .errors import ConfigError, Given, show
from .key import NO_AUTO, REQUIRED, Effect
from .kinds import Mismatch

_BOTH_SPELLINGS = "two spellings of one key"


@dataclass
class Values:
    """Checked values by path. A key that is not there has the table's default."""

    given: dict
    notes: list = field(default_factory=list)

    def __call__(self, path):
        return self.given.get(path, table.KEYS[path].default)

    def is_given(self, path):
        return self.given.get(path) is not None

    def is_on(self, section):
        """Whether a section acts: it has no gate, or its gate asks for something."""
        gate = table.SECTIONS[section].gate
        return not gate or not table.KEYS[gate].asks_for_nothing(self(gate))


def walk(tree, auto):
    """Values of a plain tree; `auto` has the caller's values for keys that say "auto"."""
    values = Values({})
    for path in auto:
        if path not in table.KEYS:
            raise _unknown(path, "in auto: ")
    _collect(_legacy(tree, values), "", values, auto)
    _refuse_parameters_of_others("optimizer", values)
    _refuse_parameters_of_others("scheduler", values)
    _act(values)
    return values


def _legacy(tree, values):
    """Early DeepSpeed had a boolean for the section, where true was stage 1."""
    zero = tree.get("zero_optimization")
    if not isinstance(zero, bool):
        return tree
    values.notes.append(f"zero_optimization: a boolean is deprecated, read as stage {int(zero)}")
    return tree | {"zero_optimization": {"stage": int(zero)}}


def _collect(tree, section, values, auto):
    # The type comes first: parameters of an optimizer we do not have are no news.
    for name in sorted(tree, key=lambda name: name != "type"):
        value = tree[name]
        written = f"{section}.{name}" if section else name
        path = table.ALIASES.get(written, written)
        if path != written:
            if path in values.given or path.rpartition(".")[2] in tree:
                raise ConfigError(written, f"{path} alone", Given(_BOTH_SPELLINGS))
            values.notes.append(f"{written}: deprecated, read as {path}")
        if path in table.SECTIONS:
            if value is None:
                continue
            if not isinstance(value, dict):
                raise ConfigError(path, "an object", value)
            _collect(value, path, values, auto)
        elif path in table.KEYS:
            values.given[path] = _checked(table.KEYS[path], written, value, values, auto)
        else:
            raise _unknown(written)


def _checked(key, written, value, values, auto):
    if value == "auto" and key.auto is not NO_AUTO:
        if auto.get(key.path) is not None:
            return _check(key, written, auto[key.path])
        if key.auto is REQUIRED:
            hint = f'give a value, or tell initialize() with auto={{"{key.path}": ...}}'
            raise ConfigError(written, key.kind.expected, value, hint)
        if key.effect is Effect.HONOURED:
            shown = "unset" if key.auto is None else show(key.auto)
            values.notes.append(f'{written}: "auto" is {shown}, since nobody said otherwise')
        return key.auto
    return _check(key, written, value)


def _check(key, written, value):
    if value is None and key.default is None:
        return None
    try:
        return key.kind.check(value)
    except Mismatch as mismatch:
        expected = key.kind.expected + (' or "auto"' if key.auto is not NO_AUTO else "")
        raise ConfigError(written, expected, value, str(mismatch)) from None


def _unknown(path, where=""):
    section = path.rpartition(".")[0]
    near = table.suggestion(path)
    hint = f'did you mean "{near}"?' if near else "docs/deepspeed_config.md has all keys"
    expected = f"a key of {section or 'the config'}"
    return ConfigError(path, expected, Given(f"{where}an unknown one"), hint)


def _refuse_parameters_of_others(section, values):
    kind = values(f"{section}.type")
    for path, value in values.given.items():
        if not path.startswith(f"{section}.params.") or value is None:
            continue
        key = table.KEYS[path]
        if kind is None:
            raise ConfigError(path, f"{section}.type beside it", Given("none"))
        if key.only and kind not in key.only:
            own = [
                k.name
                for k in table.KEYS.values()
                if k.section == key.section and (not k.only or kind in k.only)
            ]
            near = table.suggestion(path, own)
            own_near = near if near.rpartition(".")[2] in own else ""
            hint = f'did you mean "{own_near}"?' if own_near else f"{kind} has {', '.join(own)}"
            raise ConfigError(path, f"a parameter of {kind}", Given("one of another type"), hint)


def _act(values):
    """Errors for what is asked for in vain, one note per reason for what has no effect."""
    reasons = {}
    for path, value in values.given.items():
        key = table.KEYS[path]
        gate = table.SECTIONS[key.section].gate
        if path != gate and not values.is_on(key.section):
            continue
        if key.effect is Effect.REFUSED and not key.asks_for_nothing(value):
            raise ConfigError(path, "it left out", value, key.text)
        if key.effect is Effect.NO_EFFECT and (path != gate or values.is_on(key.section)):
            reasons.setdefault(key.text, []).append(path)
    for reason, paths in reasons.items():
        values.notes.append(f"no effect: {', '.join(paths)}: {reason}")
