"""How models of transformers give their parameters and buffers first values: by a method for all of
their modules, in place of each module's reset_parameters()."""

import contextlib
import sys


def initializer_of(module):
    """Its function(module), for itself and for what is in it; None if `module` is no such model."""
    library = sys.modules.get("transformers.modeling_utils")
    if not isinstance(module, getattr(library, "PreTrainedModel", ())):
        return None
    return module._init_weights


def modules_of(module, outer=None, path="", seen=None):
    """(path, module, the initializer of the innermost such model around it) of each module, once,
    children first."""
    seen = set() if seen is None else seen
    if module in seen:
        return
    seen.add(module)
    outer = initializer_of(module) or outer
    for name, child in module.named_children():
        yield from modules_of(child, outer, f"{path}.{name}" if path else name, seen)
    yield path, module, outer


@contextlib.contextmanager
def kept(tensors):
    """Inside, initializers leave `tensors` as they are."""
    marked = [each for each in tensors if not getattr(each, "_is_hf_initialized", False)]
    library = sys.modules.get("transformers.initialization")
    guard = getattr(library, "guard_torch_init_functions", contextlib.nullcontext)
    for each in marked:
        each._is_hf_initialized = True
    try:
        with guard():
            yield
    finally:
        for each in marked:
            del each._is_hf_initialized
