"""A training engine's model as a GGUF file."""

import os

from thinwire import _infer
from thinwire.infer.tensors import NamedTensors, source, tokenizer_files
from thinwire.together import together


def export(engine, path, type, tokenizer, config, merge_adapters):
    """See Engine.export_gguf."""
    call = "export_gguf"
    named = NamedTensors(engine, merge_adapters, call)
    engine.session.meet(call)
    file = None
    with together(engine.session, call):
        if engine.rank == 0:
            with tokenizer_files(tokenizer, call) as (folder, other):
                file = _infer.Export(
                    os.fspath(path),
                    source(named, engine, config, folder, call),
                    _infer.Conversion(type, other),
                )
            for note in file.notes:
                engine.say(f"{path}: {note}")
    named.into(file)
    with together(engine.session, call):
        if file is not None:
            file.end()
