"""All keys and sections by path, and the nearest one to a path that is not there."""

import difflib

from . import keys_own, keys_tools, keys_training, keys_zero
from .key import Section

_PARTS = [
    *keys_training.PRECISION,
    *keys_zero.SECTIONS,
    *keys_training.OPTIMIZER,
    *keys_training.SCHEDULER,
    *keys_tools.SECTIONS,
    keys_own.SECTION,
]
_TOP = [*keys_training.BATCH, *keys_tools.REPORTS, keys_training.AMP, *keys_tools.OTHERS]

KEYS = {key.path: key for key in [*_TOP, *(key for _, keys in _PARTS for key in keys)]}
SECTIONS = {"": Section("")} | {part.path: part for part, _ in _PARTS}
# Deprecated path: today's.
ALIASES = {
    alias: named.path for named in [*KEYS.values(), *SECTIONS.values()] for alias in named.aliases
}


def names_in(section):
    """Names of the keys and sections directly in `section`."""
    paths = [*KEYS, *(path for path in SECTIONS if path)]
    return [path.rpartition(".")[2] for path in paths if path.rpartition(".")[0] == section]


def suggestion(path, among=None):
    """The path that may have been meant, or ""."""
    section, _, name = path.rpartition(".")
    elsewhere = [p for p in [*KEYS, *ALIASES] if p.rpartition(".")[2] == name]
    near = difflib.get_close_matches(name, among or names_in(section), n=1, cutoff=0.7)
    if near:
        return f"{section}.{near[0]}" if section else near[0]
    if elsewhere:
        return elsewhere[0]
    anywhere = difflib.get_close_matches(path, [*KEYS, *SECTIONS], n=1, cutoff=0.6)
    return anywhere[0] if anywhere else ""
