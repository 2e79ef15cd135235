"""Types of values: each knows its range, its words for an error message and its JSON Schema."""

import difflib
import math
from dataclasses import dataclass

LARGEST_INTEGER = 2**63 - 1
LARGEST_FP32 = 3.4028234e38  # the engine computes in fp32
LEAST_FP32 = 1.1754944e-38  # its smallest normal number


class Mismatch(Exception):
    """The value is of another kind; the text, if any, says what to do instead."""


@dataclass(frozen=True)
class Integer:
    """A whole number; 5e8 is one, as JSON writes large sizes, true is none."""

    least: int = 0
    most: int = LARGEST_INTEGER
    # Accelerate writes an infinite steps_per_print for "never"; it is read as null.
    endless: bool = False

    @property
    def expected(self):
        if self.most == LARGEST_INTEGER:
            return f"an integer >= {self.least}"
        return f"an integer from {self.least} to {self.most}"

    def __contains__(self, value):
        return self.least <= value <= self.most

    def check(self, value):
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise Mismatch
        if self.endless and value == math.inf:
            return None
        if value not in self or value != int(value):
            raise Mismatch
        return int(value)

    def sample(self, default):
        return next(n for n in (7, self.least, self.most) if n != default and n in self)

    def schema(self):
        return {"type": "integer", "minimum": self.least, "maximum": self.most}


@dataclass(frozen=True)
class Number:
    """A finite number in [least, most]."""

    least: float = 0.0
    most: float = LARGEST_FP32

    @property
    def expected(self):
        if self.least == LEAST_FP32 and self.most == LARGEST_FP32:
            return "a number > 0"
        if self.most == LARGEST_FP32:
            return f"a number >= {self.least:g}"
        return f"a number from {self.least:g} to {self.most:g}"

    def __contains__(self, value):
        return self.least <= value <= self.most  # NaN is in no range

    def check(self, value):
        if isinstance(value, bool) or not isinstance(value, (int, float)) or value not in self:
            raise Mismatch
        return float(value)

    def sample(self, default):
        return next(x for x in (0.5, self.least, self.most) if x != default and x in self)

    def schema(self):
        return {"type": "number", "minimum": self.least, "maximum": self.most}


@dataclass(frozen=True)
class Boolean:
    expected = "true or false"

    def check(self, value):
        if not isinstance(value, bool):
            raise Mismatch
        return value

    def sample(self, default):
        return not default

    def schema(self):
        return {"type": "boolean"}


@dataclass(frozen=True)
class Text:
    expected = "a string"

    def check(self, value):
        if not isinstance(value, str):
            raise Mismatch
        return value

    def sample(self, default):
        return "text"

    def schema(self):
        return {"type": "string"}


@dataclass(frozen=True)
class Choice:
    """One of `names`, in any case. `refused`: names that others know, and what to do instead."""

    names: tuple
    other: tuple = ()  # pairs (another spelling, its name)
    refused: tuple = ()  # pairs (name, instead)

    @property
    def expected(self):
        return "one of " + ", ".join(self.names)

    def check(self, value):
        if not isinstance(value, str):
            raise Mismatch
        known = {name.lower(): name for name in self.names} | dict(self.other)
        if value.lower() in known:
            return known[value.lower()]
        instead = {name.lower(): text for name, text in self.refused}.get(value.lower())
        if instead:
            raise Mismatch(instead)
        near = difflib.get_close_matches(value.lower(), known, n=1)
        raise Mismatch(f'did you mean "{known[near[0]]}"?' if near else "")

    def sample(self, default):
        known = [*self.names, *(name for name, _ in self.refused)]
        return next(name for name in known if name != default)

    def schema(self):
        return {"type": "string", "enum": sorted({*self.names, *(name for name, _ in self.other)})}


@dataclass(frozen=True)
class ListOf:
    """A list of values of one kind, as a tuple; of `size` values unless that is 0."""

    kind: object
    size: int = 0

    @property
    def expected(self):
        return f"a list of {self.size or 'values'}, each {self.kind.expected}"

    def check(self, value):
        if not isinstance(value, (list, tuple)) or self.size and len(value) != self.size:
            raise Mismatch
        return tuple(self.kind.check(each) for each in value)

    def sample(self, default):
        return tuple([self.kind.sample(None)] * (self.size or 1))

    def schema(self):
        limits = {"minItems": self.size, "maxItems": self.size} if self.size else {}
        return {"type": "array", "items": self.kind.schema()} | limits


@dataclass(frozen=True)
class Anything:
    """Of a part that thinwire does not have: nothing is known of it but that it is JSON."""

    expected = "a JSON value"

    def check(self, value):
        if isinstance(value, float) and not math.isfinite(value):
            raise Mismatch
        inner = value.values() if isinstance(value, dict) else value
        for each in inner if isinstance(value, (dict, list, tuple)) else ():
            self.check(each)
        return value

    def sample(self, default):
        return {"enabled": True}

    def schema(self):
        return {}
