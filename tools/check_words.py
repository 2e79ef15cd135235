#!/usr/bin/env python3
"""No unfinished business, no commented-out code, no path of one machine in a file."""

import ast
import re

import lint_source

SUFFIXES = (
    ".cc",
    ".cu",
    ".cmake",
    ".h",
    ".ini",
    ".json",
    ".md",
    ".py",
    ".sh",
    ".toml",
    ".txt",
    ".yml",
    "Makefile",
    "run",
)
_WORDS = re.compile(r"\b(TODO|FIXME|XXX|HACK|WIP)\b")  # check_words: allow
# Home and work folders of whoever wrote the line; /tmp/x is a path that every machine has.
_PATHS = re.compile(r"(?<![\w.$}/-])(/(?:work|home|root|Users|mnt)/[\w.][\w./-]*|/tmp/tw-\w+)")
_CPP_CODE = re.compile(
    r"^(?:(?:if|for|while|switch)\s*\(.*[{;]$|else\s*\{$|return\b.*;$|#include\b|\}\s*;?$"
    r"|[\w:<>,*&\s.\[\]()-]+[+*/|&^-]?=[^=].*;$|[\w:.>-]+\(.*\);$|(?:const|auto|int|float|std::)\b.*[;{]$)"
)
_ALLOW = "check_words: allow"


def _is_python_code(line):
    try:
        body = ast.parse(line).body
    except (SyntaxError, ValueError):
        return False
    return (
        bool(body)
        and isinstance(body[0], (ast.Assign, ast.AugAssign, ast.Import, ast.ImportFrom))
        or bool(body)
        and isinstance(body[0], ast.Expr)
        and isinstance(body[0].value, ast.Call)
    )


def _commented_code(path, line):
    if path.suffix in lint_source.CPP:
        match = re.match(r"^\s*//+\s*(.*?)\s*$", line)
        return match and _CPP_CODE.match(match.group(1))
    if path.suffix == ".py":
        match = re.match(r"^\s*#\s*(.*?)\s*$", line)
        return match and _is_python_code(match.group(1))
    return False


def check(root):
    findings = []
    for path in lint_source.files(root, SUFFIXES):
        for number, line in enumerate((root / path).read_text().splitlines(), 1):
            where = f"{path.as_posix()}:{number}:"
            if _ALLOW in line:
                continue
            findings += [
                f"{where} finish it or leave it out: {m.group()}" for m in _WORDS.finditer(line)
            ]
            findings += [
                f"{where} a path of one machine: {m.group(1)}" for m in _PATHS.finditer(line)
            ]
            if _commented_code(path, line):
                findings.append(f"{where} commented-out code: {line.strip()}")
    return findings


if __name__ == "__main__":
    lint_source.main(check, __doc__)
