#!/usr/bin/env python3
"""Who may include whom. A folder of thinwire/ is a layer; LAYERS is the whole architecture."""

import re

import lint_source

# Each folder and the layers right below it; what stands below those may be included too.
LAYERS = {
    "base": [],
    "io": ["base"],
    "kernels": ["base"],
    "transport": ["base"],
    "blocks": ["kernels"],
    "codec": ["kernels"],
    "comm": ["codec", "transport"],
    "optim": ["kernels"],
    "text": ["base"],
    "infer": ["io", "blocks", "text"],
    "speech": ["infer"],
    "c_api": ["infer"],
    "serve": ["infer"],
    "python": ["infer"],
    "zero": ["comm", "optim", "io"],
    "planner": ["zero"],
    "torch": ["planner"],
    "launch": ["torch"],
    "train": ["launch"],
}
TORCH_LAYERS = {"torch", "launch", "train"}
TORCH_TESTS = {"tests/parity"}  # they compare with torch itself
TORCH_PREFIXES = ("torch/", "ATen/", "c10/", "caffe2/", "gloo/", "pybind11/")
PYTHON_LAYER, PYTHON_PREFIX = "python", "pybind11/"  # it binds what needs no torch
# They cost 14 and 23 seconds of compile time per file.
BANNED = {"torch/torch.h", "torch/extension.h"}

_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*[<"]([^>"]+)[>"]', re.MULTILINE)


def below(layer):
    """The layers that `layer` may include, itself among them."""
    reached = {layer}
    for direct in LAYERS[layer]:
        reached |= below(direct)
    return reached


def layer_of(path):
    """The layer of a path such as thinwire/comm/x.h; None outside thinwire/."""
    parts = path.split("/")
    return parts[1] if len(parts) > 2 and parts[0] == "thinwire" else None


def includes(root):
    """{file: [(line, included path)]} of every C++ file."""
    graph = {}
    for path in lint_source.files(root, lint_source.CPP):
        text = lint_source.blank((root / path).read_text(), strings=False)
        graph[path.as_posix()] = [
            (lint_source.line_of(text, m.start(1)), m.group(1)) for m in _INCLUDE.finditer(text)
        ]
    return graph


def check_include(path, included, known):
    """What is wrong with `path` including `included`, or None; `known` are the project's files."""
    layer, target = layer_of(path), layer_of(included)
    folder = path.rpartition("/")[0]
    if included in BANNED:
        return f"{included} is banned: include the ATen or c10 header that is needed"
    torch_allowed = layer in TORCH_LAYERS or folder in TORCH_TESTS
    torch_allowed |= layer == PYTHON_LAYER and included.startswith(PYTHON_PREFIX)
    if included.startswith(TORCH_PREFIXES) and not torch_allowed:
        return f"torch ({included}) is for the layers {', '.join(sorted(TORCH_LAYERS))} only"
    if layer is not None and target is not None and target not in below(layer):
        return f"{layer}/ may not include {included}: it may use {', '.join(sorted(below(layer)))}"
    if included.endswith("-inl.h") and included.rpartition("/")[0] != folder:
        return f"{included} is private to its folder"
    if f"{folder}/{included}" in known:
        return f"write the whole path: {folder}/{included}"
    return None


def check_own_header_first(path, included, known):
    """x.cc includes x.h first, which proves that x.h compiles alone."""
    own = path.removesuffix(".cc") + ".h"
    if path.endswith(".cc") and own in known and [name for _, name in included][:1] != [own]:
        return f"{path}:1: the first include must be {own}"
    return None


def find_cycles(graph):
    """Each cycle of includes once, as the list of files that it runs through."""
    cycles, done, trail = [], set(), []

    def visit(path):
        if path in trail:
            cycles.append(trail[trail.index(path) :] + [path])
        elif path not in done:
            trail.append(path)
            for _, included in graph[path]:
                if included in graph:
                    visit(included)
            done.add(trail.pop())

    for path in graph:
        visit(path)
    return cycles


def check(root):
    graph = includes(root)
    findings = []
    for path, included in graph.items():
        layer = layer_of(path)
        if layer is not None and layer not in LAYERS:
            findings.append(
                f"{path}:1: thinwire/{layer} is not among LAYERS in tools/check_layers.py"
            )
            continue
        messages = [(line, check_include(path, name, graph)) for line, name in included]
        findings += [f"{path}:{line}: {message}" for line, message in messages if message]
        findings += filter(None, [check_own_header_first(path, included, graph)])
    findings += [
        f"{cycle[0]}:1: include cycle: {' -> '.join(cycle)}" for cycle in find_cycles(graph)
    ]
    return findings


if __name__ == "__main__":
    lint_source.main(check, __doc__)
