"""Tensors inside the arguments and results of modules: found, and replaced."""

import copy
import dataclasses

import torch


def requiring_grad(value):
    """The tensors in `value` that require grad, each once, in a fixed order."""
    found = []
    _visit(value, lambda tensor: found.append(tensor) if tensor.requires_grad else None)
    return list({id(tensor): tensor for tensor in found}.values())


def replaced(value, old, new):
    """`value` with each tensor of `old` replaced by the one of `new` at its place."""
    by_id = {id(a): b for a, b in zip(old, new, strict=True)}
    return _map(value, lambda tensor: by_id.get(id(tensor), tensor))


def cast(value, dtype):
    """`value` with each floating-point tensor in `dtype`."""
    return _map(value, lambda tensor: tensor.to(dtype) if tensor.is_floating_point() else tensor)


def _fields(value):
    return dataclasses.is_dataclass(value) and not isinstance(value, type)


def _visit(value, look):
    if isinstance(value, torch.Tensor):
        look(value)
    elif isinstance(value, dict):
        for each in value.values():
            _visit(each, look)
    elif isinstance(value, (list, tuple)):
        for each in value:
            _visit(each, look)
    elif _fields(value):
        for field in dataclasses.fields(value):
            _visit(getattr(value, field.name), look)


def _map(value, function):
    """A copy where something changes, `value` itself where nothing does."""
    if isinstance(value, torch.Tensor):
        return function(value)
    if isinstance(value, dict):
        return _map_attributes(value, value.items(), _set_item, function)
    if isinstance(value, (list, tuple)):
        items = [_map(each, function) for each in value]
        if all(a is b for a, b in zip(items, value, strict=True)):
            return value
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    if _fields(value):
        names = [field.name for field in dataclasses.fields(value)]
        attributes = [(name, getattr(value, name)) for name in names]
        return _map_attributes(value, attributes, setattr, function)
    return value


def _set_item(container, key, item):
    container[key] = item


def _map_attributes(value, items, assign, function):
    # A shallow copy keeps the class and what else it holds; results of Hugging Face models are
    # dictionaries and dataclasses at once.
    changes = [(key, old, _map(old, function)) for key, old in items]
    changes = [(key, new) for key, old, new in changes if new is not old]
    if not changes:
        return value
    result = copy.copy(value)
    for key, new in changes:
        assign(result, key, new)
    return result
