"""thinwire trains PyTorch models sharded over many ranks and sends little over slow links.

engine, optimizer, loader, scheduler = thinwire.initialize(model=model, config="ds_config.json")
loss = engine(batch); engine.backward(loss); engine.step()
"""

import importlib

# What needs torch is loaded when it is asked for: thinwire.config works without,
# until it has a recipe to read.
_HOME = {
    "Engine": "thinwire.engine",
    "estimate_memory": "thinwire.estimate",
    "full_params": "thinwire.initialization",
    "initialize": "thinwire.initialization",
    "__version__": "thinwire.build",
}

__all__ = list(_HOME)


def __getattr__(name):
    if name not in _HOME:
        raise AttributeError(f"module thinwire has no attribute {name}")
    return getattr(importlib.import_module(_HOME[name]), name)
