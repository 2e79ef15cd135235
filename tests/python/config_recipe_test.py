#!/usr/bin/env python3
"""Codecs of hops that fit neither each other nor their blocks, as a config refuses them."""

import unittest

from config_test import MINIMAL, ConfigCase, config, put


class RecipeTest(ConfigCase):
    def test_blocks_and_rotations_of_the_reduces(self):
        for text in (
            "fast_reduce=rot128+int8/64, slow_reduce=rot128+ternary/4096, feedback=int8/32",
            "fast_reduce=bf16, slow_reduce=rot32+int4/128",
        ):
            self.assertEqual(config.load(put(MINIMAL, "thinwire.recipe", text), 4).recipe, text)

    def test_what_does_not_fit(self):
        bad = {
            "slow_gather=int8/100": "multiple of 32",
            "slow_gather=int8/8192": "up to 4096",
            "slow_gather=int8/0128": "multiple of 32",
            "slow_gather=rot128+int8/64": "multiple of 128",
            "fast_reduce=rot32+int8/128, slow_reduce=int4/128": "same rotation",
            "fast_reduce=rot32+int8/128, slow_reduce=rot128+int4/128": "same rotation",
            "feedback=int8/128": "slow_reduce in codes",
            "slow_reduce=int4/128, feedback=int8/48": "multiple of 32",
        }
        for text, word in bad.items():
            with self.subTest(text):
                self.refuses(put(MINIMAL, "thinwire.recipe", text), "thinwire.recipe", word)


if __name__ == "__main__":
    unittest.main()
