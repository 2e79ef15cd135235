#!/usr/bin/env python3
"""Writes the tables of docs/deepspeed_config.md from the keys in python/thinwire/config.

tools/config_page.py [--check]     --check: only says whether the page is fresh
"""

import argparse
import importlib
import sys
import types
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "deepspeed_config.md"
MARK = "<!-- Below: written by tools/config_page.py -->\n"


def import_config(name="thinwire.config"):
    """The config package without the package around it, which needs torch and a build."""
    if "thinwire" not in sys.modules:
        around = types.ModuleType("thinwire")
        around.__path__ = [str(ROOT / "python" / "thinwire")]
        sys.modules["thinwire"] = around
    return importlib.import_module(name)


def _cell(text):
    return text.replace("|", "\\|")


def _type(key, no_auto):
    return key.kind.expected + ("" if key.auto is no_auto else ', `"auto"`')


def _default(key, absent):
    if isinstance(key.default, absent):
        return "required"
    errors = import_config("thinwire.config.errors")
    shown = list(key.default) if isinstance(key.default, tuple) else key.default
    return (
        "unset"
        if shown is None
        else f"`{shown if isinstance(shown, list) else errors.show(shown)}`"
    )


def _row(key, keys):
    what = _cell(key.text)
    if key.only:
        what += f" ({', '.join(key.only)})"
    if key.aliases:
        what += "; deprecated: " + ", ".join(f"`{alias}`" for alias in key.aliases)
    cells = [f"`{key.name}`", _type(key, keys.NO_AUTO), _default(key, keys.Absent)]
    return f"| {' | '.join(cells)} | {key.effect.value} | {what} |"


def tables():
    """One table for each section, the top level first."""
    table = import_config("thinwire.config.table")
    keys = import_config("thinwire.config.key")
    lines = []
    for path, section in table.SECTIONS.items():
        rows = [_row(key, keys) for key in table.KEYS.values() if key.section == path]
        if not rows:
            continue
        lines.append(f"\n## {path or 'Top level'}\n")
        if section.gate:
            lines.append(f"Acts only if `{section.gate}` says so.\n")
        if section.aliases:
            lines.append("Deprecated name: " + ", ".join(f"`{a}`" for a in section.aliases) + "\n")
        lines += [
            "| key | type | default | here | what, or why not |",
            "|---|---|---|---|---|",
            *rows,
        ]
    return "\n".join(lines).lstrip("\n") + "\n"


def fresh_page():
    return PAGE.read_text().partition(MARK)[0] + MARK + "\n" + tables()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true")
    if not parser.parse_args().check:
        PAGE.write_text(fresh_page())
    elif PAGE.read_text() != fresh_page():
        sys.exit("docs/deepspeed_config.md is not what the keys say: run tools/config_page.py")


if __name__ == "__main__":
    main()
