"""The tensors of an engine's model as Hugging Face's libraries name and save them: whole, one unit
at a time, with adapters in the weights that they change."""

import json
import os
import tempfile
from contextlib import contextmanager
from pathlib import Path

from torch import nn

from thinwire import _infer
from thinwire.together import together

_PEFT = "base_model.model."


class NamedTensors:
    """All ranks make one, and call what gathers."""

    def __init__(self, engine, merge_adapters, call):
        self._engine = engine
        self._call = call
        self._adapters = {}  # base weight: [(A, B, scale, transposed)]
        inside = set()
        for module in engine.module.modules():
            if hasattr(module, "base_layer") and hasattr(module, "lora_A"):
                inside |= self._note(module)
        if self._adapters and not merge_adapters:
            raise ValueError(
                f"{call}: the model has adapters (LoRA): merge_adapters=True puts them into its "
                "weights"
            )
        self._name_of = {}  # parameter: its first name
        for name, value in engine.module.state_dict(keep_vars=True).items():
            if isinstance(value, nn.Parameter) and value not in inside:
                self._name_of.setdefault(value, _plain(name))
        for parameter, name in self._name_of.items():
            if parameter not in engine.shards:
                raise ValueError(f"{call}: {name} is {parameter.dtype}, which is not converted")
        self._units = engine.shards.by_unit(list(self._name_of))

    def shapes(self):
        """[(name, shape)] in the order of into()."""
        return [(self._name_of[p], list(p.shape)) for unit in self._units for p in unit]

    def into(self, taker):
        """Gathers all tensors and gives them to `taker`, an object with wants(name) and
        set(name, flat), where this rank has one."""
        engine = self._engine
        for unit in self._units:
            whole = engine.shards.gather_unit(unit)
            for parameter in unit:
                for adapter in self._adapters.get(parameter, ()):
                    self._add(whole[parameter], *adapter)
            with together(engine.session, self._call):
                for parameter in unit:
                    name = self._name_of[parameter]
                    if taker is not None and taker.wants(name):
                        taker.set(name, whole[parameter].contiguous().view(-1).numpy())
            del whole

    def _note(self, module):
        """The parameters of adapters of a module of PEFT."""
        if module.merged or any(getattr(module, "use_dora", {}).values()):
            kind = "merged already" if module.merged else "of the kind DoRA"
            raise ValueError(f"{self._call}: an adapter is {kind}, which is not merged here")
        own = {p for name, p in module.named_parameters() if not name.startswith("base_layer.")}
        for name in module.active_adapters:
            if name in module.lora_A:
                first, second = module.lora_A[name], module.lora_B[name]
                if second.bias is not None or not hasattr(module.base_layer, "weight"):
                    raise ValueError(f"{self._call}: adapter {name} has biases; no merge of these")
                weight = module.base_layer.weight
                transposed = bool(getattr(module, "fan_in_fan_out", False))
                self._adapters.setdefault(weight, []).append(
                    (first.weight, second.weight, module.scaling[name], transposed)
                )
        return own

    def _add(self, whole, first, second, scale, transposed):
        parts = {}
        for unit in self._engine.shards.by_unit([first, second]):
            parts.update(self._engine.shards.gather_unit(unit))
        change = scale * (parts[second] @ parts[first])
        whole += change.T if transposed else change


def _plain(name):
    """Without what PEFT puts into names."""
    if name.startswith(_PEFT):
        name = name.removeprefix(_PEFT)
    return name.replace(".base_layer.", ".")


def config_text(engine, config, call):
    """config.json of the model. `config`: its text's path or folder, a dict, or an object of
    transformers; None: the model's own."""
    if config is None:
        model = engine.module
        while not isinstance(getattr(model, "config", None), dict) and hasattr(
            model, "get_base_model"
        ):
            model = model.get_base_model()
        config = getattr(model, "config", None)
    if config is None:
        raise ValueError(
            f"{call}: config=: the model has none; expected a dict as in Hugging Face's config.json"
        )
    if isinstance(config, (str, os.PathLike)):
        path = Path(config)
        return (path / "config.json" if path.is_dir() else path).read_text()
    return json.dumps(config if isinstance(config, dict) else config.to_dict(), default=str)


@contextmanager
def tokenizer_files(tokenizer, call):
    """(folder with a tokenizer's files or "", "bytes" or a GGUF file's path or "")."""
    if tokenizer is None:
        raise ValueError(
            f'{call}: tokenizer=: expected a folder with tokenizer.json, a .gguf file, "bytes", or '
            "a tokenizer of transformers"
        )
    if hasattr(tokenizer, "save_pretrained"):
        with tempfile.TemporaryDirectory() as folder:
            tokenizer.save_pretrained(folder)
            yield folder, ""
    elif tokenizer == "bytes" or str(tokenizer).endswith(".gguf"):
        yield "", str(tokenizer)
    else:
        yield str(tokenizer), ""


def source(named, engine, config, folder, call):
    return _infer.Source(
        name=call,
        config=config_text(engine, config, call),
        directory=folder,
        tensors=named.shapes(),
    )
