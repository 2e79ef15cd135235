"""Language models on ordinary processors: thinwire's inference engine, which needs no torch.

import thinwire.infer
model = thinwire.infer.load("model.gguf")
print(model.chat("What do bees make?").text)
print([answer.text for answer in model.generate(["1, 2,", "a, b,"], max_tokens=8)])
"""

from thinwire.infer.model import Answer, Model, Stream, load

__all__ = ["Answer", "Model", "Stream", "from_engine", "load"]


def __getattr__(name):
    if name == "from_engine":  # it needs torch
        from thinwire.infer.live import from_engine

        return from_engine
    raise AttributeError(f"module thinwire.infer has no attribute {name}")
