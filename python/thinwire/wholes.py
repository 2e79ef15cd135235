"""Parameters that every rank has as a whole (integers and the like) in checkpoints: a safetensors
file of their bytes beside the directories with the shards, which name it."""

import os
from pathlib import Path

import torch

from thinwire.native import _native
from thinwire.types import whole_parameters


def save(engine, root):
    """The file's name, or None where there are no such parameters. All ranks call it; rank 0
    writes."""
    if not whole_parameters(engine.module, engine.types):
        return None
    name = f"whole-{engine.global_steps}.safetensors"
    error = None
    if engine.rank == 0:
        try:
            _write(engine, Path(root), name)
        except OSError as caught:
            error = caught
    if engine.session.mean_over_ranks(0.0 if error is None else 1.0) > 0:
        raise _native.IoError(f"{Path(root) / name}: {error or 'rank 0 could not write it'}")
    return name


def _write(engine, root, name):
    from safetensors.torch import save_file

    root.mkdir(parents=True, exist_ok=True)
    values = {
        key: parameter.detach().contiguous().view(-1).view(torch.uint8)
        for key, parameter in whole_parameters(engine.module, engine.types).items()
    }
    temporary = root / f"{name}.tmp"
    save_file(values, temporary)
    with open(temporary, "rb") as file:
        os.fsync(file.fileno())
    os.replace(temporary, root / name)


def remove_others(root, name):
    """Those of earlier saves, when the checkpoint that names `name` is complete."""
    for file in Path(root).glob("whole-*.safetensors"):
        if file.name != name:
            file.unlink(missing_ok=True)


def load(engine, root, name):
    """All ranks read them."""
    own = whole_parameters(engine.module, engine.types)
    if not own and name is None:
        return
    from safetensors import safe_open

    if name is None or not (Path(root) / name).is_file():
        raise _native.UsageError(
            f"{root}: expected the whole parameters {', '.join(own)} in a file beside the shards, "
            "found none: it is another model or an incomplete copy"
        )
    with safe_open(Path(root) / name, "pt") as file, torch.no_grad():
        if set(file.keys()) != set(own):
            raise _native.UsageError(
                f"{Path(root) / name}: expected {', '.join(sorted(own))}, found "
                f"{', '.join(sorted(file.keys()))}: it is another model"
            )
        for key, parameter in own.items():
            data = file.get_tensor(key)
            if data.numel() != parameter.numel() * parameter.element_size():
                raise _native.UsageError(
                    f"{Path(root) / name}: {key} has {data.numel()} bytes, expected "
                    f"{parameter.numel() * parameter.element_size()}: it is another model"
                )
            if data.numel():
                parameter.copy_(data.view(parameter.dtype).view(parameter.shape))
