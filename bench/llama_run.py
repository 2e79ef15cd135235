"""One model under llama.cpp, through llama-cpp-python's C functions: tokens per second as JSON.

Run by llama_peers.py in its environment. A prompt in one batch, then an answer token by token,
each with its logits and without sampling: what `thinwire bench` does.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import time
from typing import Any

import llama_cpp

_WARM_UP = 2
# Without a function of ours its log goes to stderr, thousands of lines. It must outlive the model.
_SILENT = llama_cpp.llama_log_callback(lambda level, text, data: None)


def tokens_of(count: int, vocabulary: int) -> Any:
    """The same tokens as `thinwire bench`."""
    return (llama_cpp.llama_token * count)(*((i * 7919 + 1000) % vocabulary for i in range(count)))


class Model:
    """A model and its context."""

    def __init__(self, path: str, threads: int, context: int) -> None:
        llama_cpp.llama_log_set(_SILENT, ctypes.c_void_p(0))
        llama_cpp.llama_backend_init()
        self.model = llama_cpp.llama_model_load_from_file(
            path.encode(), llama_cpp.llama_model_default_params()
        )
        if not self.model:
            raise SystemExit(f"llama.cpp cannot load {path}")
        params = llama_cpp.llama_context_default_params()
        params.n_ctx = params.n_batch = params.n_ubatch = context
        params.n_threads = params.n_threads_batch = threads
        self.context = llama_cpp.llama_init_from_model(self.model, params)
        self.vocabulary = llama_cpp.llama_vocab_n_tokens(
            llama_cpp.llama_model_get_vocab(self.model)
        )

    def clear(self) -> None:
        """Forgets what was computed."""
        llama_cpp.llama_memory_clear(llama_cpp.llama_get_memory(self.context), True)

    def run(self, tokens: Any) -> None:
        """One pass over the tokens."""
        if llama_cpp.llama_decode(self.context, llama_cpp.llama_batch_get_one(tokens, len(tokens))):
            raise SystemExit("llama_decode failed")
        llama_cpp.llama_synchronize(self.context)

    def prompt_s(self, count: int) -> float:
        """Seconds of a prompt."""
        tokens = tokens_of(count, self.vocabulary)
        self.clear()
        start = time.perf_counter()
        self.run(tokens)
        return time.perf_counter() - start

    def answer_s(self, count: int) -> float:
        """Seconds of an answer."""
        each = [(llama_cpp.llama_token * 1)(t) for t in tokens_of(count, self.vocabulary)]
        self.clear()
        start = time.perf_counter()
        for token in each:
            self.run(token)
        return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--prompt", type=int, default=512)
    parser.add_argument("--answer", type=int, default=128)
    args = parser.parse_args()
    model = Model(args.model, args.threads, max(args.prompt, args.answer))
    model.answer_s(_WARM_UP)
    speeds = {
        "prompt": args.prompt / model.prompt_s(args.prompt),
        "answer": args.answer / model.answer_s(args.answer),
    }
    print(json.dumps(speeds))


if __name__ == "__main__":
    main()
