#!/usr/bin/env python3
"""Models of transformers, with and without adapters of peft, that a training engine holds: the
inference engine gives them the same log-probabilities."""

import copy
import importlib.util
import unittest

_WANTED = ("torch", "transformers", "peft", "tokenizers")
_MISSING = [name for name in _WANTED if importlib.util.find_spec(name) is None]
_CONFIG = {
    "train_micro_batch_size_per_gpu": 1,
    "optimizer": {"type": "AdamW", "params": {"lr": 1e-3}},
    "zero_optimization": {"stage": 3},
}
_LIMITS = {"weight_type": "f32", "kv_type": "f32", "threads": 2, "context": 100, "sequences": 1}


@unittest.skipIf(_MISSING, f"{', '.join(_MISSING)} not installed: see requirements-hf.txt")
class LiveTest(unittest.TestCase):
    def setUp(self):
        import torch

        torch.manual_seed(0)
        self.tokens = torch.randint(0, 250, (60,)).tolist()

    def assert_same(self, model, tokenizer="bytes", **options):
        import torch

        import thinwire
        import thinwire.infer

        for parameter in model.parameters():
            if parameter.dim() == 1:  # norms and biases, which begin as 1 and 0
                torch.nn.init.normal_(parameter, 0.5, 0.2)
        plain = copy.deepcopy(model).eval()
        engine, *_ = thinwire.initialize(model=model, config=_CONFIG)
        live = thinwire.infer.from_engine(engine, tokenizer=tokenizer, **_LIMITS, **options)
        with torch.no_grad():
            scores = plain(torch.tensor([self.tokens])).logits[0, :-1].log_softmax(-1)
        expected = scores.gather(1, torch.tensor(self.tokens[1:])[:, None])[:, 0]
        gap = (torch.tensor(live.score(self.tokens)) - expected).abs().max().item()
        engine.destroy()
        self.assertLess(gap, 1e-3)
        return live

    def test_families(self):
        import transformers as hf
        from hf_convert_test import VOCABULARY, models, tokenizer

        opt = hf.OPTConfig(
            vocab_size=VOCABULARY,
            hidden_size=64,
            word_embed_proj_dim=64,
            num_hidden_layers=2,
            ffn_dim=96,
            num_attention_heads=4,
            max_position_embeddings=128,
        )
        for name, (model, words) in (models() | {"opt": (hf.OPTForCausalLM(opt), "")}).items():
            with self.subTest(name):
                if not words:
                    self.assert_same(model)
                    continue
                theirs = tokenizer(words)
                live = self.assert_same(model, theirs)
                text = "import transformers 12345"
                self.assertEqual(live.tokenize(text), theirs(text)["input_ids"])

    def test_adapters(self):
        import torch
        from hf_convert_test import models
        from peft import LoraConfig, get_peft_model

        for name, targets in (("llama", ["q_proj", "v_proj", "down_proj"]), ("gpt2", ["c_attn"])):
            with self.subTest(name):
                model = get_peft_model(
                    models()[name][0], LoraConfig(r=4, lora_alpha=16, target_modules=targets)
                )
                for key, parameter in model.named_parameters():
                    if "lora_B" in key:
                        torch.nn.init.normal_(parameter, 0, 0.1)
                with self.assertRaisesRegex(ValueError, "merge_adapters=True"):
                    self.assert_same(copy.deepcopy(model))
                self.assert_same(model, merge_adapters=True)


if __name__ == "__main__":
    unittest.main()
