"""What the table holds of one key, and the words in which the table is written."""

import enum
from dataclasses import dataclass, replace
from typing import Any


class Effect(enum.Enum):
    HONOURED = "honoured"
    NO_EFFECT = "no effect"
    REFUSED = "error"


class Absent(enum.Enum):
    """Why there is no value."""

    NO_AUTO = "auto is not allowed"
    REQUIRED = "has to be given"


NO_AUTO = Absent.NO_AUTO
REQUIRED = Absent.REQUIRED


@dataclass(frozen=True)
class Key:
    path: str
    kind: Any
    effect: Effect
    text: str  # honoured: what it does; no effect: why; error: what to do instead
    default: Any = None  # null is accepted where it is the default: as if the key were not there
    auto: Any = NO_AUTO  # what "auto" comes to if the caller does not know it
    quiet: tuple = ()  # values of a refused key that ask for nothing
    only: tuple = ()  # optimizers or schedulers that have this parameter; empty: all
    aliases: tuple = ()  # deprecated names; a dot makes it a full path

    @property
    def section(self):
        return self.path.rpartition(".")[0]

    @property
    def name(self):
        return self.path.rpartition(".")[2]

    def asks_for_nothing(self, value):
        return value in (None, self.default, *self.quiet)


@dataclass(frozen=True)
class Section:
    path: str
    gate: str = ""  # the key that turns it on; while it is off the others are checked, not acted on
    aliases: tuple = ()


def honoured(name, kind, default, text, **more):
    return Key(name, kind, Effect.HONOURED, text, default, **more)


def no_effect(name, kind, default, text, **more):
    return Key(name, kind, Effect.NO_EFFECT, text, default, **more)


def refused(name, kind, default, text, **more):
    return Key(name, kind, Effect.REFUSED, text, default, **more)


def without_effect(text, **kinds):
    """Several keys of one section for one reason: name=(kind, default)."""
    return [no_effect(name, kind, default, text) for name, (kind, default) in kinds.items()]


def section(path, *rows, gate="", aliases=()):
    """The section and its keys with full paths."""
    keys = []
    for row in rows:
        for key in row if isinstance(row, list) else [row]:
            full = tuple(a if "." in a else f"{path}.{a}" for a in key.aliases)
            keys.append(replace(key, path=f"{path}.{key.path}", aliases=full))
    return Section(path, f"{path}.{gate}" if gate else "", aliases), keys
