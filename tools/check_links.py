#!/usr/bin/env python3
"""Every relative link of the Markdown pages leads to a file of the project."""

import re

import lint_source

_LINK = re.compile(r"\]\((?!https?:|mailto:|#)([^)#\s]+)[^)]*\)")
_CODE = re.compile(r"^```.*?^```|`[^`\n]*`", re.MULTILINE | re.DOTALL)


def check(root):
    findings = []
    for path in lint_source.files(root, (".md",)):
        text = (root / path).read_text()
        prose = _CODE.sub(lambda m: re.sub(r"[^\n]", " ", m.group()), text)
        for match in _LINK.finditer(prose):
            if not (root / path.parent / match.group(1)).exists():
                line = lint_source.line_of(prose, match.start())
                findings.append(f"{path.as_posix()}:{line}: no {match.group(1)}")
    return findings


if __name__ == "__main__":
    lint_source.main(check, __doc__)
