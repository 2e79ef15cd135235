"""A model that answers with the weights of a training engine, without a file between."""

from thinwire import _infer
from thinwire.infer.model import Model, limits_of
from thinwire.infer.tensors import NamedTensors, source, tokenizer_files
from thinwire.together import together

_CALL = "thinwire.infer.from_engine"


def from_engine(
    engine,
    *,
    tokenizer=None,
    config=None,
    weight_type="f16",
    merge_adapters=False,
    everywhere=False,
    threads=0,
    context=0,
    sequences=8,
    batch=256,
    kv_type="f16",
    draft=None,
):
    """The model that `engine` (of thinwire.initialize) trains, for generation and scores: a LLaMA,
    Mistral, Qwen2, GPT-2 or OPT model with the names that Hugging Face gives its parameters. All
    ranks call it. A unit at a time is gathered and goes into memory of its own in `weight_type`;
    update() does it again after steps, in the same memory.

    tokenizer: a folder with tokenizer.json, a .gguf file, "bytes" (tokens are bytes, 256 ends a
        text), or a tokenizer of transformers.
    config: as in config.json, where the model has no .config of transformers.
    weight_type: of the matrices, as `thinwire quantize` takes it: f32, f16, q8_0, q4_k_m ...
    merge_adapters: puts LoRA adapters of PEFT into the weights.
    everywhere: a model on each rank; else on rank 0 alone.
    threads, context, sequences, batch, kv_type, draft: as of load().
    """
    named = NamedTensors(engine, merge_adapters, _CALL)
    engine.session.meet(_CALL)
    live = None
    with together(engine.session, _CALL):
        if everywhere or engine.rank == 0:
            with tokenizer_files(tokenizer, _CALL) as (folder, other):
                live = _infer.LiveWeights(
                    source(named, engine, config, folder, _CALL),
                    _infer.Conversion(weight_type, other),
                    limits_of(threads, context, sequences, batch, kv_type, draft),
                )
    model = LiveModel(live, engine, named)
    model.update()
    return model


class LiveModel(Model):
    """A Model of a training engine's weights."""

    def __init__(self, live, engine, named):
        super().__init__(live.model if live is not None else _Elsewhere())
        self._live = live
        self._engine = engine
        self._named = named

    @property
    def is_here(self):
        """Whether this rank has it: without everywhere=True rank 0 alone."""
        return self._live is not None

    def update(self):
        """Takes the engine's weights as they are now. All ranks call it, between steps and while no
        answer is being written. No memory is taken but for a unit meanwhile."""
        engine = self._engine
        engine.session.meet("LiveModel.update")
        with together(engine.session, "LiveModel.update"):
            if self._live is not None:
                self._live.begin()
        self._named.into(self._live)
        with together(engine.session, "LiveModel.update"):
            if self._live is not None:
                self._live.end()


class _Elsewhere:
    def __getattr__(self, name):
        raise ValueError(
            "the model is on rank 0 alone: from_engine(..., everywhere=True) makes one on each rank"
        )
