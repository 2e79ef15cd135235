"""How recipes are written: a name, a sum of parts, or `hop=codec` entries. Needs no torch."""

AUTO = "auto"  # the planner chooses
AUTOMATIC = "automatic"  # the same for tools to whom "auto" means their own values
PARTS = ("qwz", "hpz", "qgz")
_NAMES = {"zero3": (), "zero++": PARTS}
# Weights travel as differences, gradients rotated.
DIFFERENCES = ("delta4", "delta-ternary", "ternary")


def without_coded(text):
    """The recipe without a "+coded" behind it, which entropy-codes its slow hops."""
    base, plus, last = text.rpartition("+")
    return base.strip() if plus and last.strip() == "coded" and "=" not in text else text


def parts_of(text):
    """The set of parts of a named recipe, or None for a name that is not known."""
    if text in _NAMES:
        return set(_NAMES[text])
    parts = [part.strip() for part in text.split("+")]
    return set(parts) if set(parts) <= set(PARTS) and len(parts) == len(set(parts)) else None


def entries_of(text):
    """The (hop, codec) pairs of a recipe hop by hop, as they are written."""
    for entry in text.split(","):
        hop, _, codec = entry.partition("=")
        yield hop.strip(), codec.strip()
