#!/usr/bin/env python3
"""Recipes in a config are read by the engine's own reader, and its words name the config's key."""

import unittest

from config_test import MINIMAL, ConfigCase, config, put


class RecipeTest(ConfigCase):
    def recipe(self, text, **more):
        return config.load(put(MINIMAL, "thinwire.recipe", text) | more, 4).recipe

    def refuses_recipe(self, text, *words):
        with self.subTest(text), self.assertRaises(config.ConfigError) as caught:
            self.recipe(text)
        line = str(caught.exception)
        self.assertRegex(line, r'^thinwire\.recipe(, \w+)? = "')
        self.assertEqual(caught.exception.path, "thinwire.recipe")
        self.assertTrue(line.isprintable(), line)
        self.assertLess(len(line), 500)
        for word in words:
            self.assertIn(word, line)

    def test_by_name_and_hop_by_hop(self):
        for text in (
            "zero3",
            "zero++",
            "hpz+qwz",
            "zero+++coded",
            "delta4 + coded",
            "slow_reduce=int4/128/searched",
            "slow_reduce=rot32+int4/128/max0.95/coded",
            "slow_gather=int8/64, fast_gather=codes, fast_reduce=bf16, keep=codes",
            "fast_reduce=rot128+int8/64, slow_reduce=rot128+ternary/4096, feedback=int8/32",
            "fast_reduce=bf16, slow_reduce=rot32+int4/128",
        ):
            self.assertEqual(self.recipe(text), text)

    def test_what_the_engine_would_refuse(self):
        for text, words in {
            "zero+": "did you mean zero++?",
            "": "choose one of zero3",
            "hpz+coded": "nothing to entropy-code",
            "bananas+coded": "is not known",
            "qwz+qwz": "twice",
            "slow=bf16": "slow_gather",
            "slow_gather=bf16/coded": "int8/BLOCK",
            "slow_gather=int8": "e.g. int8/128",
            "slow_gather=bf16,slow_gather=bf16": "twice",
            "slow_gather=int8/100": "multiple of 32",
            "slow_gather=int8/8192": "to 4096",
            "slow_gather=rot128+int8/64": "multiple of 128",
            "slow_gather=int4/128/max0.950": "max0.950",
            "slow_gather=int4/128/rms9": "rms9",
            "fast_reduce=rot32+int8/128, slow_reduce=rot128+int4/128": "choose one",
            "slow_reduce=int4/128, feedback=int8/48": "multiple of 32",
            "feedback=int8/128": "owes nothing",
            "keep=codes": "fast_gather=codes",
            "keep=maybe": "nothing, values, codes or reference",
        }.items():
            self.refuses_recipe(text, words)

    def test_texts_that_are_hard_to_say(self):
        for text in ("x" * 10000, "keep=\n", "a=\ud800", "zero\x003", "slow_gather=" + "7" * 999):
            self.refuses_recipe(text)

    def test_beside_other_flags(self):
        tree = put(MINIMAL, "zero_optimization.zero_quantized_weights", True)
        self.refuses(put(tree, "thinwire.recipe", "qgz"), "thinwire.recipe", '"qwz"', '"qgz"')
        same = "fast_gather=codes, slow_gather=int8/128"
        self.assertEqual(config.load(put(tree, "thinwire.recipe", same)).recipe, same)

    def test_type_of_gradients(self):
        bf16 = {"bf16": {"enabled": True}}
        wide = bf16 | {"communication_data_type": "fp32"}
        both = "fast_reduce=fp32, slow_reduce=fp32"
        same = bf16 | {"communication_data_type": "bf16"}
        self.assertEqual(config.load(MINIMAL | same).recipe, "zero3")
        self.assertEqual(
            config.load(MINIMAL | bf16 | {"communication_data_type": "FP32"}).recipe, both
        )
        for text, made in {
            "qwz+hpz": f"slow_gather=int8/128, fast_gather=codes, {both}, keep=codes",
            "qwz+coded": f"slow_gather=int8/128/coded, fast_gather=codes, {both}",
            "fast_reduce=bf16": "fast_reduce=bf16, slow_reduce=fp32",
        }.items():
            self.assertEqual(self.recipe(text, **wide), made)

    def test_a_type_of_gradients_that_nothing_carries(self):
        for text in ("zero++", "delta4", "fast_reduce=bf16, slow_reduce=bf16"):
            tree = put(MINIMAL, "thinwire.recipe", text) | {"communication_data_type": "fp32"}
            made = config.load(tree, 4)
            self.assertEqual(made.recipe, text)
            said = "no effect: communication_data_type: "
            self.assertTrue(any(note.startswith(said) for note in made.notes), made.notes)


if __name__ == "__main__":
    unittest.main()
