"""Puts modules named deepspeed into this process, and package metadata that goes with them.

transformers and accelerate look for DeepSpeed with importlib.util.find_spec and importlib.metadata
when they are imported. After install() they find thinwire under its name. Nothing is written to
disk, and neither they nor torch are patched.
"""

import importlib.machinery
import importlib.metadata
import os
import sys
import types

from thinwire.hf.surface import modules
from thinwire.native import _native

# The DeepSpeed whose interface is offered. The libraries choose their calls by it.
VERSION = "0.19.8"

# These decide while they are imported whether there is a DeepSpeed.
_DECIDE_EARLY = ("transformers.integrations.deepspeed", "accelerate.accelerator")


def install():
    """From here on, `import deepspeed` in this process gives thinwire. A second call does nothing.

    Call it before transformers and accelerate are imported.
    """
    if isinstance(sys.modules.get("deepspeed"), _StandIn):
        return
    if "deepspeed" in sys.modules:
        raise _native.UsageError(
            "thinwire.hf.install: the DeepSpeed package is imported already: expected this call "
            "before anything imports it"
        )
    for name in _DECIDE_EARLY:
        if name in sys.modules:
            raise _native.UsageError(
                f"thinwire.hf.install: {name} was imported already and found no thinwire: expected "
                f"this call before the first import of {name.partition('.')[0]}"
            )
    made = {name: _StandIn(name, content) for name, content in modules(VERSION).items()}
    for name, module in made.items():
        parent, _, child = name.rpartition(".")
        if parent:
            setattr(made[parent], child, module)
    sys.modules.update(made)
    sys.meta_path.insert(0, _Metadata)


def use_cpu():
    """Ranks that torchrun started compute on their CPUs, over Gloo. Without this, accelerate finds
    no GPU and takes each rank for a world of its own. `TrainingArguments` must not undo it: give
    them accelerator_config={"use_configured_state": True}, and use_cpu=True.
    """
    from accelerate.state import PartialState

    before = os.environ.get("ACCELERATE_USE_DEEPSPEED")
    os.environ["ACCELERATE_USE_DEEPSPEED"] = "true"
    try:
        PartialState(backend="gloo")
    finally:
        if before is None:
            del os.environ["ACCELERATE_USE_DEEPSPEED"]
        else:
            os.environ["ACCELERATE_USE_DEEPSPEED"] = before


class _StandIn(types.ModuleType):
    """A module of the DeepSpeed interface."""

    def __init__(self, name, content):
        super().__init__(name, "A part of DeepSpeed's interface, by thinwire.")
        self.__spec__ = importlib.machinery.ModuleSpec(
            name, loader=None, origin="thinwire.hf", is_package=True
        )
        self.__path__ = []
        self.__package__ = name
        vars(self).update(content)

    def __getattr__(self, name):
        raise AttributeError(
            f"{self.__name__}.{name}: thinwire, which stands in for DeepSpeed, does not have it"
        )


class _Distribution(importlib.metadata.Distribution):
    def read_text(self, filename):
        if filename == "top_level.txt":
            return "deepspeed\n"
        if filename not in ("METADATA", "PKG-INFO"):
            return None
        return (
            f"Metadata-Version: 2.1\nName: deepspeed\nVersion: {VERSION}\n"
            "Summary: thinwire, which stands in for DeepSpeed in this process\n"
        )

    def locate_file(self, path):
        return path


class _Metadata(importlib.metadata.DistributionFinder):
    """On sys.meta_path, where importlib.metadata looks for finders of packages."""

    @staticmethod
    def find_spec(fullname, path=None, target=None):
        return None

    @staticmethod
    def find_distributions(context=None):
        name = getattr(context, "name", None)
        return [_Distribution()] if name in (None, "deepspeed") else []
