#!/usr/bin/env python3
"""Hugging Face models converted by `thinwire convert`, read by their own libraries: same logits.

hf_convert_test.py BINARY
"""

import importlib.util
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

_WANTED = ("torch", "transformers", "accelerate", "tokenizers", "gguf")
_MISSING = [name for name in _WANTED if importlib.util.find_spec(name) is None]
BINARY = ""
VOCABULARY = 400

_LLAMA = {
    "vocab_size": VOCABULARY,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 128,
    "rope_theta": 50000.0,
}
_QWEN_WORDS = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def models():
    """By name, a model and how its tokenizer splits words."""
    import transformers as hf

    tied = hf.LlamaConfig(**_LLAMA, tie_word_embeddings=True)
    # Its reader there ignores context_length.
    gpt2 = hf.GPT2Config(vocab_size=VOCABULARY, n_embd=64, n_layer=2, n_head=4, n_positions=1024)
    return {
        "llama": (hf.LlamaForCausalLM(hf.LlamaConfig(**_LLAMA)), "smollm"),
        "tied": (hf.LlamaForCausalLM(tied), "smollm"),
        "mistral": (hf.MistralForCausalLM(hf.MistralConfig(**_LLAMA)), "smollm"),
        "qwen2": (hf.Qwen2ForCausalLM(hf.Qwen2Config(**_LLAMA)), "qwen2"),
        "gpt2": (hf.GPT2LMHeadModel(gpt2), "gpt-2"),
    }


def tokenizer(words):
    """Trained on this file."""
    from tokenizers import Regex, Tokenizer, decoders, trainers
    from tokenizers import models as kinds
    from tokenizers import pre_tokenizers as pre
    from transformers import PreTrainedTokenizerFast

    made = Tokenizer(kinds.BPE())
    made.pre_tokenizer = {
        "gpt-2": pre.ByteLevel(add_prefix_space=False),
        "smollm": pre.Sequence(
            [pre.Digits(individual_digits=True), pre.ByteLevel(add_prefix_space=False)]
        ),
        "qwen2": pre.Sequence(
            [
                pre.Split(Regex(_QWEN_WORDS), "isolated"),
                pre.ByteLevel(add_prefix_space=False, use_regex=False),
            ]
        ),
    }[words]
    made.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY - 8,
        special_tokens=["<s>", "</s>"],
        initial_alphabet=pre.ByteLevel.alphabet(),
        show_progress=False,
    )
    made.train([__file__], trainer)
    made.add_tokens(["userword"])
    return PreTrainedTokenizerFast(tokenizer_object=made, bos_token="<s>", eos_token="</s>")


@unittest.skipIf(_MISSING, f"{', '.join(_MISSING)} not installed: see requirements-hf.txt")
class ConvertTest(unittest.TestCase):
    def convert(self, folder, *more):
        path = folder / "x.gguf"
        command = [BINARY, "convert", str(folder), "-o", str(path), *more]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return path

    def compare_logits(self, path, model):
        """The engine's, with fp32 throughout, are within 1e-3 of the model's."""
        import torch

        text, logits = path.with_suffix(".txt"), path.with_suffix(".logits")
        text.write_text(Path(__file__).read_text()[:1000])
        context, rows = 64, 64 - 1 - 32
        command = [BINARY, "perplexity", path, "--file", text, "--context", str(context)]
        command += ["--kv-type", "f32", "--threads", "1", "--logits", logits]
        subprocess.run(command, stdout=subprocess.DEVNULL, check=True, timeout=60)
        window_bytes = 4 * (context + rows * VOCABULARY)
        content = logits.read_bytes()
        self.assertEqual(len(content) % window_bytes, 0)
        self.assertGreater(len(content), window_bytes)
        for at in range(0, len(content), window_bytes):
            window = bytearray(content[at : at + window_bytes])
            tokens = torch.frombuffer(window, dtype=torch.int32, count=context)
            found = torch.frombuffer(window, dtype=torch.float32, offset=4 * context)
            with torch.no_grad():
                wanted = model(tokens.long()[None]).logits[0, context // 2 : -1]
            gap = (found.view(rows, VOCABULARY) - wanted).abs().max().item()
            self.assertLessEqual(gap, 1e-3)

    def test_logits_and_tokens_are_the_same(self):
        import torch
        import transformers as hf
        from gguf import GGUFReader

        torch.manual_seed(0)
        tokens = torch.randint(0, VOCABULARY, (2, 50))
        text = "import transformers 12345 userword </s> héllo  \n\n x"
        for name, (model, words) in models().items():
            with self.subTest(name), tempfile.TemporaryDirectory() as place:
                folder = Path(place)
                for parameter in model.parameters():
                    # Norms and biases, which begin as 1 and 0, become visible.
                    if parameter.dim() == 1:
                        torch.nn.init.normal_(parameter, 0.5, 0.2)
                model.eval().save_pretrained(folder)
                theirs = tokenizer(words)
                theirs.save_pretrained(folder)
                path = self.convert(folder)
                read = hf.AutoModelForCausalLM.from_pretrained(
                    folder, gguf_file=path.name, dtype=torch.float32
                ).eval()
                with torch.no_grad():
                    gap = (model(tokens).logits - read(tokens).logits).abs().max().item()
                self.assertEqual(gap, 0)
                self.compare_logits(path, model)
                fields = GGUFReader(path).fields
                self.assertEqual(fields["tokenizer.ggml.pre"].contents(), words)
                again = hf.AutoTokenizer.from_pretrained(folder, gguf_file=path.name)
                self.assertEqual(again(text)["input_ids"], theirs(text)["input_ids"])

    def test_other_types(self):
        from gguf import GGUFReader

        with tempfile.TemporaryDirectory() as place:
            folder = Path(place)
            model, words = models()["llama"]
            model.save_pretrained(folder)
            tokenizer(words).save_pretrained(folder)
            for option, kind in (("f16", "F16"), ("bf16", "BF16")):
                tensors = GGUFReader(self.convert(folder, "--type", option)).tensors
                kinds = {tensor.name: tensor.tensor_type.name for tensor in tensors}
                self.assertEqual(kinds["blk.1.ffn_up.weight"], kind)
                self.assertEqual(kinds["blk.1.ffn_norm.weight"], "F32")


if __name__ == "__main__":
    BINARY = sys.argv.pop(1)
    unittest.main()
