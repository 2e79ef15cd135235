"""A JSON Schema of the table, for editors that complete and check a config."""

from . import table
from .key import NO_AUTO, REQUIRED, Absent, Effect

_DRAFT = "https://json-schema.org/draft/2020-12/schema"


def json_schema():
    """Accepts what load() accepts, but for rules between several keys; today's spellings only."""
    return {"$schema": _DRAFT, "title": "thinwire"} | _section("")


def _section(path):
    properties = {}
    for name in table.names_in(path):
        full = f"{path}.{name}" if path else name
        if full in table.SECTIONS:
            properties[name] = _section(full)
        else:
            properties[name] = _key(table.KEYS[full])
    return {"type": "object", "properties": properties, "additionalProperties": False}


def _key(key):
    made = _values(key)
    others = [{"const": "auto"}] if key.auto is not NO_AUTO else []
    if key.default is None:
        others.append({"type": "null"})
    if others and made:
        made = {"anyOf": [made, *others]}
    made = {"description": f"{key.effect.value}: {key.text}"} | made
    if not isinstance(key.default, Absent) and key.default is not None:
        made["default"] = list(key.default) if isinstance(key.default, tuple) else key.default
    return made


def _values(key):
    """Of a refused key only the values that ask for nothing."""
    if key.effect is not Effect.REFUSED:
        return key.kind.schema()
    quiet = [value for value in (key.default, *key.quiet) if value is not None]
    return {"enum": [value for value in quiet if value is not REQUIRED] or [None]}
