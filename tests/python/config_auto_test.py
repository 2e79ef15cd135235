#!/usr/bin/env python3
"""The recipe that the planner chooses, as a config says it."""

import unittest

from config_test import MINIMAL, ConfigCase, config, put


class AutoTest(ConfigCase):
    def test_both_spellings(self):
        for text in ("auto", "automatic"):
            settings = config.load(put(MINIMAL, "thinwire.recipe", text), 4)
            self.assertEqual(settings.recipe, "auto")
            self.assertEqual((settings.loss_budget, settings.review_steps), (0.25, 500))
            self.assertTrue(settings.same_run(config.load(settings.effective(), 4)))

    def test_its_settings(self):
        own = {"recipe": "auto", "loss_budget": 1, "review_steps": 0}
        settings = config.load(MINIMAL | {"thinwire": own}, 4)
        self.assertEqual((settings.loss_budget, settings.review_steps), (1, 0))
        for key, value in (("loss_budget", -1), ("loss_budget", "much"), ("review_steps", 1.5)):
            self.refuses(put(MINIMAL, f"thinwire.{key}", value), f"thinwire.{key}")

    def test_beside_flags_that_name_a_recipe(self):
        tree = put(MINIMAL, "zero_optimization.zero_quantized_weights", True)
        self.refuses(put(tree, "thinwire.recipe", "auto"), "thinwire.recipe", '"qwz"', '"auto"')

    def test_the_type_of_gradients_has_no_effect(self):
        tree = put(MINIMAL, "thinwire.recipe", "auto") | {"communication_data_type": "fp32"}
        notes = config.load(tree, 4).notes
        self.assertTrue(any("no effect: communication_data_type" in note for note in notes), notes)


if __name__ == "__main__":
    unittest.main()
