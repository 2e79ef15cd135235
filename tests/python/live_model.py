"""One rank: a model that answers with the weights of a training engine."""

import resource
from pathlib import Path

import named_llama
import torch
from thinwire.native import _native

import thinwire
import thinwire.infer

_OPTIONS = {"config": named_llama.CONFIG, "tokenizer": "bytes"}
_LIMITS = {"threads": 1, "context": 128, "sequences": 2, "kv_type": "f32"}
_TOKENS = torch.randint(0, 257, (60,), generator=torch.Generator().manual_seed(7)).tolist()


def _engine(stage):
    torch.manual_seed(3)
    config = {
        "train_micro_batch_size_per_gpu": 2,
        "optimizer": {"type": "AdamW", "params": {"lr": 1e-2}},
        "zero_optimization": {"stage": stage},
    }
    model = named_llama.NamedLlama()
    engine, *_ = thinwire.initialize(model=model, config=config, units=[named_llama.Layer])
    return engine


def _train(engine, steps):
    generator = torch.Generator().manual_seed(100 * engine.global_steps + engine.rank)
    for _ in range(steps):
        loss = engine(torch.randint(97, 103, (2, 32), generator=generator))
        engine.backward(loss)
        engine.step()


def _gap(model, state):
    """Between log-probabilities of the model and of plain torch with these weights."""
    plain = named_llama.NamedLlama()
    plain.load_state_dict(state)
    return (torch.tensor(model.score(_TOKENS)) - plain.score(_TOKENS)).abs().max().item()


def follows_training(stage):
    engine = _engine(stage)
    model = thinwire.infer.from_engine(
        engine, weight_type="f32", everywhere=True, **_OPTIONS, **_LIMITS
    )
    result = {"before": _gap(model, engine.state_dict(torch.float32))}
    model.generate(_TOKENS[:20], temperature=0, max_tokens=10)  # keeps what it computed
    _train(engine, 3)
    state = engine.state_dict(torch.float32)
    result["not yet"] = _gap(model, state)
    model.update()
    result["after"] = _gap(model, state)
    answer = model.generate(_TOKENS[:20], temperature=0, max_tokens=10, logprobs=True)
    scores = model.score(_TOKENS[:20] + answer.tokens)[19:]
    result["kept"] = max(abs(a - b) for a, b in zip(scores, answer.logprobs, strict=True))
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(20):
        model.update()
    result["grew"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory
    return result


def one_rank_alone():
    engine = _engine(3)
    model = thinwire.infer.from_engine(engine, weight_type="q8_0", **_OPTIONS, **_LIMITS)
    state = engine.state_dict(torch.float32)
    said = []
    if model.is_here:
        stream = model.generate(_TOKENS, stream=True, max_tokens=50)
        next(stream)
    for call in (lambda: model.score(_TOKENS), model.update):
        try:
            call()
        except (ValueError, _native.UsageError) as error:
            said.append(str(error))
    if model.is_here:
        stream.close()
    model.update()
    return said, _gap(model, state) if model.is_here else None


def exported(rank, directory):
    engine = _engine(3)
    _train(engine, 2)
    state = engine.state_dict(torch.float32)
    result = {}
    for type_ in ("f32", "q8_0"):
        path = Path(directory, f"{type_}.gguf")
        engine.export_gguf(path, type_, **_OPTIONS)
        if rank == 0:
            model = thinwire.infer.load(path, **_LIMITS)
            result[type_] = _gap(model, state)
            result[f"{type_} text"] = model.tokenize("é"), model.detokenize([195, 169])
    return result


def refused(directory):
    """What is said, and that all ranks go on."""
    engine = _engine(3)
    path = Path(directory, "x.gguf")
    said = []
    for options in (
        {"config": named_llama.CONFIG},
        {"tokenizer": "bytes"},
        _OPTIONS | {"config": named_llama.CONFIG | {"num_hidden_layers": 3}},
        _OPTIONS | {"config": named_llama.CONFIG | {"vocab_size": 259}},
        _OPTIONS | {"config": named_llama.CONFIG | {"model_type": "mamba"}},
        _OPTIONS | {"tokenizer": directory},
        _OPTIONS | {"type": "q9"},
    ):
        try:
            engine.export_gguf(path, **options)
        except (ValueError, _native.UsageError) as error:
            said.append(str(error))
    _train(engine, 1)
    return said, path.exists()


def all_of_it(rank, world, directory):
    """By name, what each function here returns: a launch costs more than what they do."""
    return {
        "stage 1": follows_training(1),
        "stage 3": follows_training(3),
        "alone": one_rank_alone(),
        "exported": exported(rank, directory),
        "refused": refused(directory),
    }
