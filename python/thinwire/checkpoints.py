"""save_checkpoint and load_checkpoint with DeepSpeed's arguments, without pickles.

<save_dir>/<tag>/step-<n>/   shards of all ranks and a manifest, complete or not there
<save_dir>/latest            the tag saved last
"""

import base64
import json
import os
from pathlib import Path

import torch

from thinwire import wholes
from thinwire.native import _native
from thinwire.together import together


def save(engine, save_dir, tag, client_state, latest, frozen):
    tag = str(tag) if tag is not None else f"global_step{engine.global_steps}"
    root = Path(save_dir) / tag
    extra = _extra(engine, client_state)
    engine.session.meet("save_checkpoint")
    extra["wholes"] = wholes.save(engine, root)
    engine.session.save_checkpoint(str(root), engine.global_steps, json.dumps(extra), frozen)
    with together(engine.session, f"naming {root} as the latest checkpoint"):
        if engine.rank == 0:
            wholes.remove_others(root, extra["wholes"])
            if latest:
                _write_latest(Path(save_dir), tag)
    return str(root)


def load(engine, load_dir, tag, strict, optimizer_states, scheduler_states):
    """(path, client_state); (None, {}) where nothing was saved."""
    engine.session.meet("load_checkpoint")
    if tag is None:
        tag = _read_latest(engine, Path(load_dir) / "latest")
        if tag is None:
            return None, {}
    root = Path(load_dir) / str(tag)
    _, text, note = engine.session.load_checkpoint(
        str(root), masters_only=not optimizer_states, partial=not strict
    )
    if note:
        engine.say(f"{root}: {note}")
    extra = json.loads(text)
    if optimizer_states:
        _check_groups(root, extra["groups"], engine.optimizer.param_groups)
    engine.global_steps = extra["global_steps"]
    engine.micro_steps = engine.global_steps * engine.settings.micro_batches
    _restore_buffers(engine.module, extra["buffers"])
    wholes.load(engine, root, extra.get("wholes"))
    if engine.optimizer.on_shards is not None:
        engine.optimizer.on_shards.restore(extra.get("on_shards") if optimizer_states else None)
    if optimizer_states:
        for group, saved in zip(engine.optimizer.param_groups, extra["groups"], strict=True):
            group.update(_untupled(saved, group))
    if scheduler_states and engine.lr_scheduler is not None and extra["scheduler"] is not None:
        engine.lr_scheduler.load_state_dict(extra["scheduler"])
    return str(root), extra["client_state"]


def _read_latest(engine, path):
    """The tag that is written there; None where nothing is, for all ranks alike."""
    there = path.is_file()
    share = engine.session.mean_over_ranks(float(there))
    if share == 0:
        return None
    if share < 1:
        raise _native.UsageError(
            f"rank {engine.rank}: {path} is {'there' if there else 'missing'}, and not so on all "
            "ranks: expected a load_dir that they share"
        )
    return path.read_text().strip()


def _check_groups(root, saved, groups):
    if len(saved) != len(groups):
        raise _native.UsageError(
            f"{root} has the settings of {len(saved)} parameter groups, expected {len(groups)}: "
            "make the optimizer with as many, or load with load_optimizer_states=False"
        )


def _extra(engine, client_state):
    scheduler = engine.lr_scheduler
    groups = [
        {key: value for key, value in group.items() if key != "params" and _is_json(value)}
        for group in engine.optimizer.param_groups
    ]
    if not _is_json(client_state or {}):
        raise _native.UsageError("client_state: expected what JSON can hold (numbers, text, lists)")
    return {
        "global_steps": engine.global_steps,
        "client_state": client_state or {},
        "groups": groups,
        "on_shards": engine.optimizer.on_shards and engine.optimizer.on_shards.scalars(),
        "scheduler": _json_part(scheduler.state_dict()) if scheduler is not None else None,
        "buffers": _saved_buffers(engine.module),
    }


def _is_json(value):
    try:
        json.dumps(value)
    except (TypeError, ValueError):
        return False
    return True


def _json_part(state):
    """Functions, as LambdaLR's, are the script's to bring again."""
    return {key: value for key, value in state.items() if _is_json(value)}


def _untupled(saved, group):
    return {k: tuple(v) if isinstance(group.get(k), tuple) else v for k, v in saved.items()}


def _buffers(module):
    persistent = module.state_dict(keep_vars=True)
    return {name: buffer for name, buffer in module.named_buffers() if name in persistent}


def _saved_buffers(module):
    return {
        name: base64.b64encode(
            buffer.detach().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
        ).decode()
        for name, buffer in _buffers(module).items()
    }


def _restore_buffers(module, saved):
    with torch.no_grad():
        for name, buffer in _buffers(module).items():
            if name not in saved:
                raise _native.UsageError(
                    f"the checkpoint has no buffer {name}: it is another model"
                )
            data = bytearray(base64.b64decode(saved[name]))
            expected = buffer.numel() * buffer.element_size()
            if len(data) != expected:
                raise _native.UsageError(
                    f"buffer {name}: expected {expected} bytes, found {len(data)} in the "
                    "checkpoint: it is another model"
                )
            if not data:
                continue
            values = torch.frombuffer(data, dtype=torch.uint8).view(buffer.dtype)
            buffer.copy_(values.view(buffer.shape))


def _write_latest(directory, tag):
    temporary = directory / "latest.tmp"
    with open(temporary, "w") as file:
        file.write(tag)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, directory / "latest")
