"""How models of transformers get their first values: by a method for all of their modules, in place
of each module's reset_parameters(), and from files whose keys may be of another version."""

import contextlib
import re
import sys

from thinwire.native import _native


def _is_model(module):
    library = sys.modules.get("transformers.modeling_utils")
    return isinstance(module, getattr(library, "PreTrainedModel", ()))


def names_of(model, keys):
    """{key of a file: its name in the model}, without those that from_pretrained passes over."""
    if not _is_model(model):
        return {key: key for key in keys}
    from transformers import conversion_mapping, core_model_loading

    mapping = conversion_mapping.get_model_conversion_mapping(model)
    kinds = (core_model_loading.WeightRenaming, core_model_loading.WeightConverter)
    renamings, converters = ([each for each in mapping if isinstance(each, k)] for k in kinds)
    known = model.state_dict(keep_vars=True)
    known |= dict(model.named_buffers(remove_duplicate=False))
    passed = [*(model._keys_to_ignore_on_load_unexpected or ()), *_ONCE_SAVED]
    names = {}
    for key in keys:
        name, converted = core_model_loading.rename_source_key(
            key, renamings, converters, model.base_model_prefix, known
        )
        if converted is not None:
            raise _native.UsageError(
                f"weights: transformers makes {name} of several keys of the files, {key} among "
                "them: expected from_pretrained() while an HfDeepSpeedConfig of stage 3 is alive, "
                "then initialize() without weights="
            )
        if name in known or not any(re.search(pattern, name) for pattern in passed):
            names[key] = name
    return names


# Buffers in files of earlier versions.
_ONCE_SAVED = (r"rotary_emb\.inv_freq$", r"(^|\.)position_ids$")


def initializer_of(module):
    """Its function(module), for itself and for what is in it; None if `module` is no such model."""
    return module._init_weights if _is_model(module) else None


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
