"""What llama.cpp allocates in a prompt and in an answer, as JSON; run by mallocs.py in its
environment and under its counter."""

from __future__ import annotations

import argparse
import ctypes
import json
from collections.abc import Callable

import llama_run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model")
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--prompt", type=int, required=True)
    parser.add_argument("--answer", type=int, required=True)
    args = parser.parse_args()
    count: Callable[[], int] = ctypes.CDLL(None).mallocs_count
    model = llama_run.Model(args.model, args.threads, args.prompt)
    prompt = llama_run.tokens_of(args.prompt, model.vocabulary)
    answer = [
        (llama_run.llama_cpp.llama_token * 1)(t)
        for t in llama_run.tokens_of(args.answer, model.vocabulary)
    ]
    found = {}
    for _ in range(2):  # the first round makes what stays
        model.clear()
        before = count()
        model.run(prompt)
        found["prompt"] = count() - before
        model.clear()
        before = count()
        for token in answer:
            model.run(token)
        found["answer"] = count() - before
    print(json.dumps(found))


if __name__ == "__main__":
    main()
