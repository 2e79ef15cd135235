"""Recipes, as the engine reads them. Needs torch only for that."""

import importlib

AUTO = "auto"  # the planner chooses
AUTOMATIC = "automatic"  # the same for tools to whom "auto" means their own values


def read(text, setting):
    """{hop: codec} with the four hops, keep and feedback of a recipe; None where a hop carries the
    wire type. Throws ValueError with one line that begins with `setting`, whose value it is."""
    native = importlib.import_module("thinwire.native")._native
    try:
        return native.read_recipe(text.encode(errors="replace"), setting)
    except native.UsageError as error:
        raise ValueError(str(error)) from None
