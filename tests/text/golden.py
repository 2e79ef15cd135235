#!/usr/bin/env python3
"""What other tokenizers make of many texts, for the tests of thinwire/text.

    python3 tests/text/golden.py [--texts 60] [--seed 1] [--out thinwire/text/testdata]

Needs tokenizers and sentencepiece from PyPI. Vocabularies are trained on the sources of Python's
library. bench/tokenizer_peers.py makes the same comparison with more texts and whole models.
"""

import argparse
import glob
import io
import json
import os
import pathlib
import sysconfig

import pre_tokenizers
import sentencepiece
import strings
import tokenizers
from tokenizers import decoders, models, trainers

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)


def sources(limit=1_500_000):
    text = ""
    for path in sorted(glob.glob(os.path.join(sysconfig.get_path("stdlib"), "*.py"))):
        text += pathlib.Path(path).read_text(errors="replace")
        if len(text) > limit:
            break
    return text[:limit]


def byte_lengths(rule, text):
    """Bytes of the words: of the offsets, as some rules rewrite characters."""
    return [len(text[a:b].encode()) for _, (a, b) in rule.pre_tokenize_str(text)]


def pre_tokenizer_cases(texts):
    rules = {
        name: [byte_lengths(rule, text) for text in texts]
        for name, rule in pre_tokenizers.RULES.items()
    }
    return {"texts": texts, "rules": rules}


def hugging_face_cases(tokenizer, texts):
    cases = []
    for parse_special in (True, False):
        tokenizer.encode_special_tokens = not parse_special
        for text in texts:
            ids = tokenizer.encode(text).ids
            cases.append({"text": text, "ids": ids, "decoded": tokenizer.decode(ids)})
            cases[-1]["parse_special"] = parse_special
    return cases


def byte_level_vocabulary(text, rule, size, ignore_merges):
    tokenizer = tokenizers.Tokenizer(models.BPE(ignore_merges=ignore_merges))
    tokenizer.pre_tokenizer = pre_tokenizers.byte_level(rule)
    tokenizer.decoder = decoders.ByteLevel()
    special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|im_end|>|"]
    user = ["<tool>", "    ", "é!"]
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        special_tokens=special,
        initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator([text], trainer)
    tokenizer.add_tokens([tokenizers.AddedToken(t, normalized=False) for t in user])
    state = json.loads(tokenizer.to_str())["model"]
    vocabulary = dict(state["vocab"], **{t: tokenizer.token_to_id(t) for t in user})
    tokens = sorted(vocabulary, key=vocabulary.get)
    types = [CONTROL if t in special else USER_DEFINED if t in user else NORMAL for t in tokens]
    merges = [m if isinstance(m, str) else " ".join(m) for m in state["merges"]]
    parts = {"kind": "bpe", "pre_tokenizer": rule, "tokens": tokens, "types": types}
    return tokenizer, dict(parts, merges=merges, ignore_merges=ignore_merges)


def sentence_piece_vocabulary(text, kind, size, byte_fallback):
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(line[:2000] for line in text.splitlines() if line),
        model_writer=model,
        model_type=kind,
        vocab_size=size,
        byte_fallback=byte_fallback,
        normalization_rule_name="identity",
        remove_extra_whitespaces=False,
        split_digits=True,
        allow_whitespace_only_pieces=True,
        minloglevel=2,
    )
    processor = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
    ids = range(processor.get_piece_size())

    def type_of(i):
        if processor.is_unknown(i):
            return UNKNOWN
        if processor.is_byte(i):
            return BYTE
        return CONTROL if processor.is_control(i) else NORMAL

    return processor, {
        "kind": "sentence_piece" if kind == "bpe" else kind,
        "tokens": [processor.id_to_piece(i) for i in ids],
        "types": [type_of(i) for i in ids],
        "scores": [round(processor.get_score(i), 6) for i in ids],
        "bos": processor.bos_id(),
        "eos": processor.eos_id(),
        "unknown": processor.unk_id(),
        "add_space_prefix": True,
    }


def sentence_piece_cases(processor, texts):
    """Without decoded texts where one is unknown: SentencePiece writes it as U+2047."""
    cases = []
    for text in texts:
        ids = processor.encode(text)
        cases.append({"text": text, "ids": ids})
        if processor.unk_id() not in ids:
            cases[-1]["decoded"] = processor.decode(ids)
    return cases


def write(path, content):
    dump = json.dumps(content, ensure_ascii=False, separators=(",", ":"))
    path.write_text(dump + "\n")
    print(f"{path}: {path.stat().st_size} bytes")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--texts", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--size", type=int, default=800, help="tokens of a vocabulary")
    root = pathlib.Path(__file__).resolve().parents[2]
    parser.add_argument("--out", type=pathlib.Path, default=root / "thinwire/text/testdata")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    texts = strings.REPORTED + strings.random_texts(options.seed, options.texts)
    write(options.out / "pre_tokenizers.json", pre_tokenizer_cases(texts))
    text = sources()
    texts += [text[i : i + 200] for i in range(0, 100 * options.texts, 2000)]
    for rule, ignore_merges in (("smollm", False), ("llama-bpe", True)):
        tokenizer, parts = byte_level_vocabulary(text, rule, options.size, ignore_merges)
        name = f"byte_level_{rule}.json"
        write(options.out / name, dict(parts, cases=hugging_face_cases(tokenizer, texts)))
    for kind, byte_fallback in (("bpe", True), ("bpe", False), ("unigram", True)):
        processor, parts = sentence_piece_vocabulary(text, kind, options.size, byte_fallback)
        name = f"sentence_piece_{kind}{'_bytes' if byte_fallback else ''}.json"
        write(options.out / name, dict(parts, cases=sentence_piece_cases(processor, texts)))


if __name__ == "__main__":
    main()
