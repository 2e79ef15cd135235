"""What the checks share: the files of the project, and their text without comments or strings."""

import argparse
import re
import sys
from pathlib import Path

FOLDERS = (
    ".ci",
    "apps",
    "bench",
    "cmake",
    "docs",
    "examples",
    "python",
    "tests",
    "thinwire",
    "tools",
)
CPP = (".h", ".cc", ".cu")


def files(root, suffixes):
    """Files of the project with one of `suffixes`, as paths relative to `root`, sorted."""
    found = []
    for path in root.iterdir():
        if path.is_file():
            found.append(path)
        elif path.name in FOLDERS:
            found.extend(p for p in path.rglob("*") if p.is_file() and "__pycache__" not in p.parts)
    return sorted(p.relative_to(root) for p in found if p.suffix in suffixes or p.name in suffixes)


_TOKEN = re.compile(
    r"""//[^\n]*                                  # comment to the end of the line
      | /\*.*?\*/                                 # block comment
      | R"(?P<tag>[^()\s\\]{0,16})\(.*?\)(?P=tag)"  # raw string
      | "(?:\\.|[^"\\\n])*"
      | (?<![0-9a-fA-F])'(?:\\.|[^'\\\n])+'       # a character, not a digit separator
    """,
    re.VERBOSE | re.DOTALL,
)


def blank(text, comments=True, strings=True):
    """C++ `text` with comments or the insides of literals replaced by spaces; line breaks stay."""

    def replace(match):
        token = match.group()
        is_comment = token.startswith(("//", "/*"))
        if is_comment and not comments or not is_comment and not strings:
            return token
        spaces = re.sub(r"[^\n]", " ", token)
        return spaces if is_comment else token[0] + spaces[1:-1] + token[-1]

    return _TOKEN.sub(replace, text)


def line_of(text, position):
    return text.count("\n", 0, position) + 1


def main(check, description):
    """Runs check(root) -> list of "file:line: message" and exits with 1 if there are any."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parent.parent)
    findings = check(parser.parse_args().root)
    for finding in findings:
        print(finding)
    sys.exit(bool(findings))
