#!/usr/bin/env python3
"""Files, functions and constructors stay small; no assert(), no `using namespace std`, no globals.

C++ is read with a brace matcher, not a parser: it knows namespaces, classes and functions, which is
enough for the style of this project. A mutable global that must be (a malloc hook in a test) says
why on its line: // NOLINT(mutable-global): reason
"""

import ast
import re
from dataclasses import dataclass

import lint_source

MAX_FILE_LINES = 600
MAX_HEADER_LINES = 300
MAX_FUNCTION_LINES = 80
MAX_CONSTRUCTOR_ARGUMENTS = 6
WAIVER = "NOLINT(mutable-global): "

_FORBIDDEN = [
    (re.compile(r"\busing\s+namespace\s+std\b"), "no `using namespace std`"),
    (
        re.compile(r"(?<![\w.])assert\s*\("),
        "assert() vanishes in release builds: use THINWIRE_CHECK",
    ),
]
_ACCESS = {"public", "private", "protected"}
_CLASS = re.compile(
    r"\b(?:class|struct|union)\s+(?:\[\[\w+\]\]\s*|alignas\([^)]*\)\s*)?([\w:]+)[^()=]*$"
)
_SCOPE = re.compile(r"\b(?:namespace\b[^()=]*|extern\s*\"\s*\")$")
_NOT_A_VARIABLE = re.compile(
    r"^(?:using|typedef|friend|template|static_assert|class|struct|union|enum|namespace|concept|extern"
    r"|goto|return|#)\b|\boperator\b"
)
_VARIABLE = re.compile(
    r"^(?P<type>[\w:<>,\s*&\[\]()]*?[\w>*&\]])\s+[*&]*(?P<name>\w+)(?:\[[^\]]*\])*"
    r"\s*(?:=.*|\{.*|)$",
    re.DOTALL,
)


@dataclass
class Scope:
    kind: str  # namespace, class, function or block
    name: str
    line: int  # of the opening brace
    head_line: int  # of the first word before it


@dataclass
class Statement:
    scope: Scope
    text: str
    line: int


def scan(text):
    """Yields ("end", scope, last line) for each scope and ("statement", Statement) for each `;`."""
    stack = [Scope("namespace", "", 1, 1)]
    head, head_start, depth, line = [], None, 0, 1
    for character in text:
        if character == "\n":
            line += 1
        if character == "(":
            depth += 1
        elif character == ")":
            depth = max(0, depth - 1)
        if character == "{":
            words = "".join(head).strip()
            stack.append(classify(stack[-1], words, depth, line, head_start or line))
            if stack[-1].kind == "block":  # an initializer or a lambda: the statement goes on
                head.append("{")
            else:
                yield "statement", Statement(stack[-2], words, head_start or line)
                head, head_start = [], None
        elif character == "}":
            if len(stack) > 1:
                scope = stack.pop()
                yield "end", scope, line
                if scope.kind == "block":
                    head.append("}")
                    continue
            head, head_start = [], None
        elif character == ";" and depth == 0:
            yield "statement", Statement(stack[-1], "".join(head).strip(), head_start or line)
            head, head_start = [], None
        elif character == ":" and "".join(head).strip() in _ACCESS:
            head, head_start = [], None
        else:
            if head_start is None and not character.isspace():
                head_start = line
            if head or not character.isspace():
                head.append(character)


def classify(outer, head, depth, line, head_line):
    if depth == 0 and outer.kind in ("namespace", "class"):
        if _SCOPE.search(head):
            return Scope("namespace", "", line, head_line)
        declared = _CLASS.search(head)
        if declared:
            return Scope("class", declared.group(1).split("::")[-1], line, head_line)
        variable = re.match(r"^[\w:<>,\s*&]+\s+\w+\s*=", head) and "operator" not in head
        member = re.search(r"\)[\w\s]*:(?!:)", head) and re.search(r"[\w>]$", head)  # A() : x_{1}
        if "(" in head and not variable and not member and not re.search(r"\benum\b|=\s*$", head):
            name = re.search(r"(operator\s*[^\s\w(]+|[~\w:]+(?:<[^<>]*>)?)\s*\(", head)
            return Scope("function", name.group(1) if name else "?", line, head_line)
    return Scope("block", "", line, head_line)


def argument_count(text, open_parenthesis):
    """Arguments of the list that opens there: commas outside nested brackets, plus one."""
    depth, commas, empty = 0, 0, True
    for character in text[open_parenthesis:]:
        if character in "([{<":
            depth += 1
        elif character in ")]}>":
            depth -= 1
            if depth == 0:
                break
        elif character == "," and depth == 1:
            commas += 1
        if depth >= 1 and character not in "( \n\t":
            empty = False
    return 0 if empty else commas + 1


def constructor_arguments(statement):
    """The number of arguments if the statement declares or defines a constructor, else 0."""
    text = statement.text
    if statement.scope.kind == "class":
        match = re.match(
            rf"\s*(?:template\s*<[^;]*?>\s*)?(?:explicit\s+|constexpr\s+|inline\s+)*"
            rf"{re.escape(statement.scope.name)}\s*\(",
            text,
        )
    else:
        match = re.match(r"\s*(\w+::)*(\w+)::\2\s*\(", text)
    return argument_count(text, match.end() - 1) if match else 0


def is_mutable_global(statement):
    text = re.sub(r"^(\s*\[\[[^\]]*\]\])+", "", statement.text).strip()
    static = re.match(r"(?:inline\s+|thread_local\s+)*static\b", text)
    if statement.scope.kind != "namespace" and not static:
        return False
    if _NOT_A_VARIABLE.search(text) or re.search(r"\b(const|constexpr|consteval)\b", text):
        return False
    head = re.split(r"[={]", text, maxsplit=1)[0]
    if re.search(r"\w\s*\(", head) and statement.scope.kind != "function":
        return False  # declares a function
    return _VARIABLE.match(text) is not None


def check_cpp(path, raw):
    limit = MAX_HEADER_LINES if path.suffix == ".h" else MAX_FILE_LINES
    count = raw.count("\n")
    if count > limit:
        yield 1, f"{count} lines, at most {limit}: two ideas want two files"
    text = lint_source.blank(raw)
    for pattern, message in _FORBIDDEN:
        for match in pattern.finditer(text):
            yield lint_source.line_of(text, match.start()), message
    lines = raw.split("\n")
    without_macros = re.sub(
        r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*",
        lambda m: re.sub(r"[^\n]", " ", m.group()),
        text,
        flags=re.MULTILINE,
    )
    for event in scan(without_macros):
        if event[0] == "end":
            _, scope, last = event
            length = last - scope.head_line + 1
            if scope.kind == "function" and length > MAX_FUNCTION_LINES:
                yield scope.head_line, f"{scope.name}: {length} lines, at most {MAX_FUNCTION_LINES}"
            continue
        statement = event[1]
        arguments = constructor_arguments(statement)
        if arguments > MAX_CONSTRUCTOR_ARGUMENTS:
            yield (
                statement.line,
                (
                    f"a constructor of {arguments} arguments, at most "
                    f"{MAX_CONSTRUCTOR_ARGUMENTS}: take an options struct"
                ),
            )
        if is_mutable_global(statement) and WAIVER not in lines[statement.line - 1]:
            yield (
                statement.line,
                f"a mutable global: pass it down ({statement.text.split(chr(10))[0]})",
            )


def check_python(path, raw):
    count = raw.count("\n")
    if count > MAX_FILE_LINES:
        yield 1, f"{count} lines, at most {MAX_FILE_LINES}: two ideas want two files"
    for node in ast.walk(ast.parse(raw, str(path))):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            length = node.end_lineno - node.lineno + 1
            if length > MAX_FUNCTION_LINES:
                yield node.lineno, f"{node.name}: {length} lines, at most {MAX_FUNCTION_LINES}"
            arguments = node.args
            given = len(arguments.posonlyargs + arguments.args + arguments.kwonlyargs) - 1
            if node.name == "__init__" and given > MAX_CONSTRUCTOR_ARGUMENTS:
                yield (
                    node.lineno,
                    f"__init__ of {given} arguments, at most {MAX_CONSTRUCTOR_ARGUMENTS}",
                )
        elif isinstance(node, ast.Global):
            yield node.lineno, f"a mutable global: {', '.join(node.names)}"


def check(root):
    findings = []
    for path in lint_source.files(root, lint_source.CPP + (".py",)):
        check_file = check_python if path.suffix == ".py" else check_cpp
        for line, message in check_file(path, (root / path).read_text()):
            findings.append(f"{path.as_posix()}:{line}: {message}")
    return findings


if __name__ == "__main__":
    lint_source.main(check, __doc__)
