"""A model that answers: texts, tokens or messages in, Answer objects out."""

import json
import os
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from thinwire import _infer


def load(path, *, threads=0, context=0, sequences=8, batch=256, kv_type="f16", draft=None):
    """The model of a GGUF file.

    threads: 0 takes as many as there are cores for this process.
    context: tokens that prompt and answer may have together; 0: as many as the model was trained
        for, at most 4096. Room for this times `sequences` is taken at once.
    sequences: requests that run at once; more of them wait.
    batch: tokens of prompts that are computed at once.
    kv_type: "f16", or "q8_0" for half the room for the same context, or "f32".
    draft: a smaller GGUF file of the same vocabulary, for generate(guesses=...).
    """
    limits = limits_of(threads, context, sequences, batch, kv_type, draft)
    return Model(_infer.Model(os.fspath(path), limits))


def limits_of(threads, context, sequences, batch, kv_type, draft):
    draft = "" if draft is None else os.fspath(draft)
    return _infer.Limits(threads, context, sequences, batch, kv_type, draft)


@dataclass(frozen=True)
class Answer:
    text: str
    tokens: list[int]  # without the one that ended it
    logprobs: list[float] | None  # of each token, by the model alone; with logprobs=True
    finish: (
        str  # "end": by the model; "stop": by a text of stop=; "length": by max_tokens or context
    )

    def __str__(self):
        return self.text


class Model:
    """Threads may share one: what they ask for is computed side by side."""

    def __init__(self, native):
        self._native = native

    def generate(
        self,
        prompt,
        *,
        max_tokens=256,
        temperature=0.8,
        top_k=40,
        top_p=0.95,
        min_p=0.05,
        repetition_penalty=1.0,
        seed=None,
        stop=(),
        logit_bias=None,
        guesses=0,
        grammar=None,
        json_schema=None,
        logprobs=False,
        stream=False,
    ):
        """Goes on from `prompt`, which is a text, a list of token ids, or a chat: a list of
        messages such as {"role": "user", "content": "Hi"}. Gives an Answer. Of a list of these it
        gives a list, computed side by side: `sequences` at a time, a beginning that several share
        only once. With stream=True an iterator of pieces of text, for one prompt.

        max_tokens: of the answer, at most.
        temperature, top_k, top_p, min_p: which tokens are drawn from. temperature=0: always the
            likeliest one; top_k=0, top_p=1, min_p=0: no limit.
        repetition_penalty: above 1 the last 64 tokens become less likely.
        seed: the same number, the same answer; prompt i of a list has seed + i. None: a new one.
        stop: a text, or several, that end the answer, which does not have them.
        logit_bias: {token: what is added to its logit}.
        guesses: tokens that are guessed and checked at once: the same answer, sooner. Without a
            draft (see load) they are guessed from what was said, where it repeats itself.
        grammar, json_schema: a form that the answer has: a text in GBNF, or a schema as a dict or
            text. docs/constrained.md lists what is followed; anything else is a ValueError.
        """
        several = _are_several(prompt)
        if stream and several:
            raise ValueError("stream=True: expected one prompt, found a list of them")
        prompts = [self._tokens(each) for each in prompt] if several else [self._tokens(prompt)]
        sampling = _infer.Sampling()
        sampling.temperature = temperature
        sampling.top_k = top_k
        sampling.top_p = top_p
        sampling.min_p = min_p
        sampling.repetition_penalty = repetition_penalty
        sampling.logit_bias = list((logit_bias or {}).items())
        stops = [stop] if isinstance(stop, str) else list(stop)
        form = _form(grammar, json_schema)
        seed = secrets.randbits(63) if seed is None else seed
        answers = []
        for index, tokens in enumerate(prompts):
            sampling.seed = (seed + index) % 2**64
            answers.append(self._native.enter(tokens, sampling, stops, max_tokens, guesses, form))
        if stream:
            return Stream(self._native, answers[0], logprobs)
        self._native.run(answers)
        found = [_answer(each, logprobs) for each in answers]
        return found if several else found[0]

    def chat(self, messages, **options):
        """generate() of a chat. A text alone is what the user says."""
        if isinstance(messages, str):
            messages = [{"role": "user", "content": messages}]
        return self.generate(messages, **options)

    def tokenize(self, text, *, add_special=True, parse_special=True):
        """The token ids of a text. add_special: with what begins or ends every text, where the
        model has such tokens; parse_special: control tokens that the text spells out are those."""
        return self._native.tokenize(text, add_special, parse_special)

    def detokenize(self, tokens, *, skip_special=True):
        """The text of token ids, control tokens left out."""
        return self._native.detokenize(tokens, skip_special)

    def embed(self, text):
        """A text as numbers, close for texts that are alike: the mean of the model's last hidden
        states, of length 1. Of a list of texts or lists of tokens: a list."""
        if _are_several(text):
            return self._native.embed([self._tokens(each) for each in text])
        return self._native.embed([self._tokens(text)])[0]

    def score(self, tokens):
        """How likely each token was to the model, after those before it: log-probabilities from the
        second token on. Of a list of texts or lists of tokens: a list."""
        if _are_several(tokens):
            return self._native.score([self._tokens(each) for each in tokens])
        return self._native.score([self._tokens(tokens)])[0]

    @property
    def architecture(self):
        return self._native.architecture

    @property
    def vocabulary(self):
        """Number of tokens."""
        return self._native.vocabulary

    @property
    def context(self):
        return self._native.context

    @property
    def threads(self):
        return self._native.threads

    @property
    def memory(self):
        """Bytes of weights and of what a run needs beside them, all taken when it was loaded."""
        return {"weights": self._native.weight_bytes, "run": self._native.planned_bytes}

    def _tokens(self, prompt):
        if isinstance(prompt, str):
            return self._native.tokenize(prompt, True, True)
        if isinstance(prompt, Sequence) and prompt and isinstance(prompt[0], Mapping):
            return self._native.encode_chat([_message(each) for each in prompt])
        if hasattr(prompt, "tolist"):
            prompt = prompt.tolist()
        if isinstance(prompt, Sequence) and all(isinstance(each, int) for each in prompt):
            return list(prompt)
        raise ValueError(f"prompt: expected a text, token ids or messages, found {prompt!r:.80}")


class Stream:
    """Pieces of an answer's text as they come, whole characters. Other streams and calls of the
    same model go on meanwhile."""

    def __init__(self, native, answer, logprobs):
        self._native = native
        self._work = answer
        self._logprobs = logprobs
        self._ended = False

    def __iter__(self):
        return self

    def __next__(self):
        piece = None if self._ended else self._native.next_piece(self._work)
        if piece is None:
            self._ended = True
            raise StopIteration
        return piece

    def close(self):
        """No more is computed."""
        self._ended = True
        self._native.cancel(self._work)

    @property
    def answer(self):
        """All of it, once the iteration has come to its end."""
        if not self._ended:
            raise ValueError("answer: the stream has not come to its end yet")
        return _answer(self._work, self._logprobs)


def _are_several(prompt):
    """Whether it is a list of prompts rather than one."""
    if isinstance(prompt, str) or not isinstance(prompt, Sequence):
        return False
    return not prompt or not isinstance(prompt[0], (int, Mapping))


def _form(grammar, json_schema):
    """What the native model takes for them; None: any text will do."""
    if grammar is not None and json_schema is not None:
        raise ValueError("grammar and json_schema: an answer has one form")
    if grammar is not None:
        return _infer.grammar(grammar)
    if json_schema is None:
        return None
    text = json_schema if isinstance(json_schema, str) else json.dumps(json_schema)
    return _infer.json_schema(text)


def _message(message):
    try:
        role, content = message["role"], message["content"]
    except (TypeError, KeyError):
        role = content = None
    if not isinstance(role, str) or not isinstance(content, str):
        raise ValueError(
            f'messages: expected {{"role": ..., "content": ...}} of texts, found {message!r:.80}'
        )
    return role, content


def _answer(work, logprobs):
    return Answer(work.text, work.tokens, work.logprobs if logprobs else None, work.finish)
